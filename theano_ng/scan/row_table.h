/* How the loop in C (scan/_loop.pyx) handles rows of arrays of one kind: those of NumPy, those of a device. A type of arrays names its table, `row_table`: the
 * name of a capsule. The types of loops are checked before; what is not checked there is whether an array is of the very class that the table is for.
 */
#ifndef TNG_ROW_TABLE_H
#define TNG_ROW_TABLE_H

#include <Python.h>

typedef struct {
    char *data; /* of the first one: its address; on a device as many bytes behind the beginning of the memory */
    Py_ssize_t stride, length;
} row_places;

/* What returns an object returns a new reference, or NULL with an exception set. */
typedef struct {
    void (*find)(PyObject *array, row_places *found);
    /* Whether a value is an array whose rows are all aligned. */
    int (*readable)(PyObject *value);
    /* Whether a value is an array in C order that may be written to. */
    int (*writable)(PyObject *value);
    /* Copies a value into an array with the same lengths and memory of its own: 1; 0: it does not fit; -1 with an exception set. */
    int (*refill)(PyObject *array, PyObject *value);
    /* A view of a row. */
    PyObject *(*view)(PyObject *array, char *data);
    /* Where in the object of a view `data` is: another one there makes it a view of another row. */
    size_t data_in_view;
    /* Copies a row into the array in *row, an earlier copy; NULL: into a new one. 0, or -1 with an exception set. */
    int (*copy)(PyObject *array, char *data, PyObject **row);
    /* Copies a value to a row of an array in C order: 1; 0: it is no array, or has another type, other lengths; -1 with an exception set. */
    int (*store)(PyObject *array, char *data, PyObject *value);
} row_table;

#endif
