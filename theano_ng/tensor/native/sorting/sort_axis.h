/* The axis along which Ops sort, as an input of a node. */
#ifndef THEANO_NG_SORT_AXIS_H
#define THEANO_NG_SORT_AXIS_H

#include "native.h"

/* Read the axis of an array with `nd` dimensions from a 0-d array; a float with an integral value is valid. Return 0,
 * or -1 with an exception set. */
static inline int read_axis(PyObject *value, int nd, int *axis)
{
    int64_t given;
    if (PyArray_Check(value) && PyArray_ISFLOAT((PyArrayObject *)value)) {
        PyObject *number = PyNumber_Float(value);
        if (number == NULL)
            return -1;
        double real = PyFloat_AS_DOUBLE(number);
        Py_DECREF(number);
        if (!(real >= -NPY_MAXDIMS && real <= NPY_MAXDIMS && real == (int)real)) {
            PyErr_Format(PyExc_ValueError, "sort axis must be an integer or None, not %S", value);
            return -1;
        }
        given = (int64_t)real;
    }
    else if (native_as_int64(value, &given) < 0)
        return -1;
    if (given < -nd || given >= nd) {
        PyErr_Format(PyExc_ValueError,
                     "axis %lld is out of bounds for an array with %d dimension(s), expected one from %d to %d",
                     (long long)given, nd, -nd, nd - 1);
        return -1;
    }
    *axis = (int)(given < 0 ? given + nd : given);
    return 0;
}

/* Return 0 if k elements can be selected of n elements (-k: the k smallest elements), else -1 with ValueError set. */
static inline int check_k(int64_t k, int64_t n)
{
    if (k != 0 && k <= n && k >= -n)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "topk: k must be between 1 and the length of the axis (%lld), or the negative of such a number; got "
                 "%lld",
                 (long long)n, (long long)k);
    return -1;
}

#endif
