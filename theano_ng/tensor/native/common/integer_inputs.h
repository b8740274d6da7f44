/* Functions that read axes, lengths and shapes from the inputs of nodes. */
#ifndef TNG_INTEGERS_H
#define TNG_INTEGERS_H

#include "native.h"

/* Read a vector (or 0-d array) of integers of any integer dtype. Return its length, or -1 with an exception set. */
static inline int read_integers(PyObject *vector, npy_intp *value, int capacity, const char *who)
{
    PyArrayObject *v = (PyArrayObject *)vector;
    npy_intp n = PyArray_SIZE(v);
    if (PyArray_NDIM(v) > 1 || n > capacity) {
        PyErr_Format(PyExc_ValueError, "%s: expected a vector of at most %d integers, got %zd in %d dimensions", who,
                     capacity, (Py_ssize_t)n, PyArray_NDIM(v));
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

/* Read an axis. A negative axis counts from the end; the result is in [0, nd). Return 0, or -1 with an exception
 * set. */
static inline int read_axis(PyObject *value, int nd, int64_t *axis, const char *who)
{
    if (native_as_int64(value, axis) < 0)
        return -1;
    if (*axis < -nd || *axis >= nd) {
        PyErr_Format(PyExc_IndexError, "%s: axis %lld is out of bounds for arrays with %d dimensions", who,
                     (long long)*axis, nd);
        return -1;
    }
    if (*axis < 0)
        *axis += nd;
    return 0;
}

/* Read one dimension length from each of n inputs. Return 0, or -1 with an exception set, for example if n > `most`. */
static inline int read_sizes(int n, PyObject **in, npy_intp *dims, int most, const char *who)
{
    if (n > most) {
        PyErr_Format(PyExc_ValueError, "%s: arrays have at most %d dimensions, but %d were requested", who, most, n);
        return -1;
    }
    for (int i = 0; i < n; ++i) {
        int64_t size;
        if (native_as_int64(in[i], &size) < 0)
            return -1;
        if (size < 0) {
            PyErr_Format(PyExc_ValueError, "negative dimensions are not allowed: dimension %d of %s is %lld", i, who,
                         (long long)size);
            return -1;
        }
        dims[i] = (npy_intp)size;
    }
    return 0;
}

/* Read the lengths of the n parts of an axis; they must add up to `length`. Return an array that the caller frees with
 * PyMem_Free, or NULL with an exception set. */
static inline npy_intp *read_split(PyObject *vector, int n, npy_intp length)
{
    npy_intp *sizes = PyMem_Malloc((size_t)(n + 1) * sizeof *sizes), total = 0;
    if (sizes == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyArray_SIZE((PyArrayObject *)vector) != n) {
        PyErr_Format(PyExc_ValueError, "Split: expected %d split sizes, got %zd", n,
                     (Py_ssize_t)PyArray_SIZE((PyArrayObject *)vector));
        goto fail;
    }
    if (read_integers(vector, sizes, n, "Split") < 0)
        goto fail;
    for (int i = 0; i < n; ++i) {
        if (sizes[i] < 0) {
            PyErr_SetString(PyExc_ValueError,
                            "Split: you tried to make an ndarray with a negative number of elements.");
            goto fail;
        }
        if (__builtin_add_overflow(total, sizes[i], &total))
            total = NPY_MAX_INTP;
    }
    if (total == length)
        return sizes;
    PyErr_Format(PyExc_ValueError, "The splits sum to %zd, expected %zd", (Py_ssize_t)total, (Py_ssize_t)length);
fail:
    PyMem_Free(sizes);
    return NULL;
}

#endif
