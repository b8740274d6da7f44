/* Checks of the arguments of products of selected blocks. */
#ifndef TNG_BLOCK_INDICES_H
#define TNG_BLOCK_INDICES_H

#include "native.h"

static int check_length(const char *who, const char *name, int axis, npy_intp got, npy_intp expected)
{
    if (got == expected)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: %s has length %zd along axis %d, expected %zd", who, name, (Py_ssize_t)got,
                 axis, (Py_ssize_t)expected);
    return -1;
}

/* Check the shape of a matrix of indices. */
static int check_shape(const char *who, const char *name, npy_intp rows, npy_intp columns, npy_intp batch,
                       npy_intp window)
{
    if (rows == batch && columns == window)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: %s has shape (%zd, %zd), expected (%zd, %zd)", who, name, (Py_ssize_t)rows,
                 (Py_ssize_t)columns, (Py_ssize_t)batch, (Py_ssize_t)window);
    return -1;
}

/* Return a new reference to a contiguous matrix of indices below n. Negative indices count from the end; they are made
 * positive. */
static PyArrayObject *read_indices(PyObject *value, const char *who, const char *name, npy_intp batch, npy_intp window,
                                   npy_intp n)
{
    PyArrayObject *given = (PyArrayObject *)value;
    if (check_shape(who, name, PyArray_DIM(given, 0), PyArray_DIM(given, 1), batch, window) < 0)
        return NULL;
    PyArrayObject *a = (PyArrayObject *)PyArray_FROM_OTF(value, NPY_INT64,
                                                         NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY | NPY_ARRAY_FORCECAST);
    if (a == NULL)
        return NULL;
    npy_int64 *index = PyArray_DATA(a);
    for (npy_intp i = 0; i < batch * window; ++i) {
        if (index[i] < -n || index[i] >= n) {
            PyErr_Format(PyExc_IndexError, "%s: in %s, index %lld is out of bounds for %zd blocks", who, name,
                         (long long)index[i], (Py_ssize_t)n);
            Py_DECREF(a);
            return NULL;
        }
        index[i] += index[i] < 0 ? n : 0;
    }
    return a;
}

#endif
