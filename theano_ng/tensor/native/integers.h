/* Vectors of integers, such as shapes, in C. */
#ifndef TNG_INTEGERS_H
#define TNG_INTEGERS_H

#include "native.h"

/* Reads a vector (or 0-d array) of integers of any integer dtype. Returns its length, or -1 with an exception set. */
static inline int read_integers(PyObject *vector, npy_intp *value, int capacity, const char *who)
{
    PyArrayObject *v = (PyArrayObject *)vector;
    npy_intp n = PyArray_SIZE(v);
    if (PyArray_NDIM(v) > 1 || n > capacity) {
        PyErr_Format(PyExc_ValueError, "%s: a vector of at most %d integers is needed, got %zd in %d dimensions", who, capacity,
                     (Py_ssize_t)n, PyArray_NDIM(v));
        return -1;
    }
    npy_intp stride = PyArray_NDIM(v) == 1 ? PyArray_STRIDE(v, 0) : 0;
    const char *data = PyArray_BYTES(v);
    int behaved = PyArray_ISBEHAVED_RO(v);
    for (npy_intp i = 0; i < n; ++i, data += stride) {
        if (behaved && PyArray_TYPE(v) == NPY_INT64)
            value[i] = (npy_intp) * (const npy_int64 *)data;
        else if (behaved && PyArray_TYPE(v) == NPY_INT32)
            value[i] = (npy_intp) * (const npy_int32 *)data;
        else {
            PyObject *item = PyArray_GETITEM(v, data);
            int64_t word;
            int status = item == NULL ? -1 : native_as_int64(item, &word);
            Py_XDECREF(item);
            if (status < 0)
                return -1;
            value[i] = (npy_intp)word;
        }
    }
    return (int)n;
}

#endif
