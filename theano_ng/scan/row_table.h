/* Row tables: the functions that the compiled loop of Scan (scan/_loop.pyx) calls for the rows of one kind of arrays,
 * NumPy arrays or device arrays. The attribute `row_table` of an array type is the name of a capsule with such a table.
 * The caller has checked the types of the loop's variables. It has not checked that an array is an instance of exactly
 * the class that the table supports, so `readable`, `writable` and `refill` check it. */
#ifndef TNG_ROW_TABLE_H
#define TNG_ROW_TABLE_H

#include <Python.h>

typedef struct {
    char *data; /* address of the first row; on a device, the offset of the first row in bytes */
    Py_ssize_t stride, length;
} row_places;

/* Functions that return an object return a new reference, or NULL with an exception set. */
typedef struct {
    void (*find)(PyObject *array, row_places *found);
    /* Return true if the value is an array whose rows are all aligned. */
    int (*readable)(PyObject *value);
    /* Return true if the value is a writable array in C order. */
    int (*writable)(PyObject *value);
    /* Copy a value into an array. Return 1 after the copy, 0 if the array does not own its memory or if the value has
     * another type, other lengths or another memory order, or -1 with an exception set. */
    int (*refill)(PyObject *array, PyObject *value);
    /* Make a view of a row. */
    PyObject *(*view)(PyObject *array, char *data);
    /* Offset of the member `data` in the object of a view. Code that sets this member makes the object a view of
     * another row. */
    size_t data_in_view;
    /* Copy a row into the array *row, which is an earlier copy, or into a new array if *row is NULL. Return 0, or -1
     * with an exception set. */
    int (*copy)(PyObject *array, char *data, PyObject **row);
    /* Copy a value to a row of an array in C order. Return 1 after the copy, 0 if the value is not an array or has
     * another type or other lengths, or -1 with an exception set. */
    int (*store)(PyObject *array, char *data, PyObject *value);
} row_table;

#endif
