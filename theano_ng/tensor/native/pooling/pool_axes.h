/* The pooled axes of an array: their windows are read from the inputs ws, stride and pad, and checked. Pooling on the
 * host and on devices use this file. */
#ifndef THEANO_NG_POOL_AXES_H
#define THEANO_NG_POOL_AXES_H

#include "native.h"

/* n, out: length of the image and of the output; window, stride, pad: length of a window, distance between windows, margin
 * on each side. All lengths are in elements. */
typedef struct {
    npy_intp n, out;
    int64_t window, stride, pad;
} PoolAxis;

/* Read ws, stride or pad into values[d * 3 + which]. Return 0, or -1 with an exception set. */
static int read_vector(PyObject *vector, const char *name, int nd, int which, int64_t *values)
{
    PyArrayObject *v =
        (PyArrayObject *)PyArray_FROMANY(vector, NPY_INT64, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (v == NULL)
        return -1;
    int status = 0;
    if (PyArray_NDIM(v) != 1 || PyArray_DIM(v, 0) != nd) {
        PyErr_Format(PyExc_ValueError, "%s must be a vector of size %d, got %zd elements", name, nd,
                     (Py_ssize_t)PyArray_SIZE(v));
        status = -1;
    }
    for (int d = 0; d < nd && status == 0; ++d) {
        int64_t value = ((const int64_t *)PyArray_DATA(v))[d];
        if (value < (which == 2 ? 0 : 1)) {
            PyErr_Format(PyExc_ValueError, "Pool: %s must be at least %d for every axis, got %lld for axis %d", name,
                         which == 2 ? 0 : 1, (long long)value, d);
            status = -1;
        }
        values[d * 3 + which] = value;
    }
    Py_DECREF(v);
    return status;
}

/* Return the number of windows along an axis, or -1 if no memory could hold them. See output_length in
 * signal/pool_windows.py. */
static npy_intp output_length(npy_intp n, int64_t window, int64_t stride, int64_t pad, int ignore_border)
{
    if (n == 0)
        return 0;
    if (!ignore_border)
        return stride >= window ? (n - 1) / stride + 1
                                : (n - 1 < window - stride ? 0 : (n - 1 - window + stride) / stride) + 1;
    __int128 room = (__int128)n + 2 * (__int128)pad - window;
    if (room < 0)
        return 0;
    room = room / stride + 1;
    return room > NPY_MAX_INTP / 64 || pad > NPY_MAX_INTP / 4 ? -1 : (npy_intp)room;
}

/* Read the inputs ws, stride and pad, for the last `nd` axes of an image with `ndim` axes. Store the axes, and the shape
 * of the output. Return 0, or -1 with an exception set. */
static int find_pool_axes(PoolAxis *axes, int nd, int ndim, const npy_intp *shape, PyObject **vectors,
                          int ignore_border, npy_intp *out_shape)
{
    static const char *const names[] = {"ws", "stride", "pad"};
    int before = ndim - nd;
    int64_t values[3 * NPY_MAXDIMS];
    npy_intp size = 16;
    if (nd < 1 || before < 0) {
        PyErr_Format(PyExc_ValueError, "Pool: %d axes of an array of %d dimensions cannot be pooled", nd, ndim);
        return -1;
    }
    for (int which = 0; which < 3; ++which)
        if (read_vector(vectors[which], names[which], nd, which, values) < 0)
            return -1;
    for (int d = nd - 1; d >= 0; --d) {
        PoolAxis *a = &axes[d];
        *a = (PoolAxis){
            .n = shape[before + d], .window = values[3 * d], .stride = values[3 * d + 1], .pad = values[3 * d + 2]};
        if (a->pad > 0 && !ignore_border) {
            PyErr_Format(PyExc_ValueError, "Pool: pad works only with ignore_border=True, got pad=%lld",
                         (long long)a->pad);
            return -1;
        }
        if (a->pad >= a->window) {
            PyErr_Format(PyExc_ValueError, "Pool: pad must be smaller than ws, got pad=%lld and ws=%lld for axis %d",
                         (long long)a->pad, (long long)a->window, d);
            return -1;
        }
        a->out = output_length(a->n, a->window, a->stride, a->pad, ignore_border);
        out_shape[before + d] = a->out;
    }
    memcpy(out_shape, shape, (size_t)before * sizeof *shape);
    for (int d = ndim - 1; d >= 0; --d)
        if (out_shape[d] < 0 || __builtin_mul_overflow(size, out_shape[d], &size)) {
            PyErr_NoMemory();
            return -1;
        }
    return 0;
}

#endif
