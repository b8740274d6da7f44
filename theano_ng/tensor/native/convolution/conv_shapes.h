/* The shapes of a correlation and of its gradients: missing lengths, checks and error messages. The Ops on the host and on
 * devices use this file. A file that includes it first defines `struct correlate_params`, with at least these members:
 *   kind: FORWARD, WEIGHTS or INPUTS
 *   n_dims: number of axes along which kernels move
 *   pads: for each axis, HALF twice, FULL twice, or two lengths
 *   stride, dilation: for each axis
 *   groups, unshared: number of groups; whether each position of the output has a separate kernel */
#ifndef THEANO_NG_CONV_SHAPES_H
#define THEANO_NG_CONV_SHAPES_H

#include "native.h"
#include <stdio.h>

enum { FORWARD, WEIGHTS, INPUTS };
enum { HALF = -1, FULL = -2 };

struct geometry {
    int64_t batch, groups, filters, channels; /* filters, channels: number in one group */
    int64_t image[3], kernel[3], top[3];
    int64_t pad[3], stride[3], dilation[3]; /* pad: padding before the first pixel */
    int flip;                               /* whether the kernels are reversed along all axes; `measure` sets 0 */
};

struct shape {
    int n;
    int64_t dims[8];
};

static const char *print_shape(const struct shape *shape, const char *between, char *text, size_t room)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < shape->n && at < room; ++i)
        at += snprintf(text + at, room - at, "%s%lld", i ? between : "", (long long)shape->dims[i]);
    return text;
}

#define TEXT_ROOM 200
#define TEXT(shape, between) print_shape(shape, between, (char[TEXT_ROOM]){0}, TEXT_ROOM)

/* Compute the extent of a kernel and the padding on both sides. Return 0, or -1 with MemoryError if they are too
 * large. */
static int pads_of(const struct correlate_params *params, int axis, int64_t kernel, int64_t *extent, int64_t *before,
                   int64_t *after)
{
    *before = params->pads[2 * axis];
    *after = params->pads[2 * axis + 1];
    if (__builtin_mul_overflow(kernel - 1, params->dilation[axis], extent) || *extent > NPY_MAX_INTP / 8
        || *before > NPY_MAX_INTP / 8 || *after > NPY_MAX_INTP / 8) {
        PyErr_SetString(PyExc_MemoryError, "there is not enough memory for a kernel or padding of this extent");
        return -1;
    }
    *extent += 1;
    if (*before == HALF)
        *before = *after = *extent / 2;
    else if (*before == FULL)
        *before = *after = *extent - 1;
    return 0;
}

/* Return a / b, rounded towards minus infinity. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* Check the given shapes, infer the missing shape, and fill in the geometry and the shape of the result. Return 0, or
 * -1 with an exception set.
 *   inputs: the shapes of the two inputs
 *   given: scalars on the host, the lengths of the result's axes, if `n_lengths` is not 0 */
static int measure(const struct shape *inputs, int n_lengths, PyObject **given, const struct correlate_params *params,
                   struct geometry *g, struct shape *result)
{
    int n = (int)params->n_dims, kind = (int)params->kind, unshared = params->unshared != 0;
    const char *family = n == 2 ? "CorrMM" : "Corr3dMM";
    static const char *const tasks[] = {"", " backprop wrt. weights", " backprop wrt. inputs"};
    struct shape bottom = {n + 2, {0}}, weights = {unshared ? 2 * n + 2 : n + 2, {0}}, top = {n + 2, {0}};
    int64_t *kernel = weights.dims + weights.n - n, *channels = kernel - 1, lengths[3] = {-1, -1, -1},
            groups = params->groups;
    int64_t extent[3] = {1, 1, 1}, before[3] = {0}, after[3] = {0};
    int known = n_lengths > 0, impossible = 0;
    if (known && n_lengths != n) {
        PyErr_Format(PyExc_ValueError, "%s: %d inputs", family, 2 + n_lengths);
        return -1;
    }
    for (int i = 0; known && i < n; ++i)
        if (native_as_int64(given[i], &lengths[i]) < 0)
            return -1;
    if (kind == FORWARD) {
        bottom = inputs[0];
        weights = inputs[1];
        for (int i = 0; i < n; ++i) {
            if (pads_of(params, i, kernel[i], &extent[i], &before[i], &after[i]) < 0)
                return -1;
            top.dims[2 + i] = floor_div(bottom.dims[2 + i] + before[i] + after[i] - extent[i], params->stride[i]) + 1;
        }
        top.dims[0] = bottom.dims[0];
        top.dims[1] = weights.dims[0];
        *result = top;
    }
    else if (kind == WEIGHTS) {
        bottom = inputs[0];
        top = inputs[1];
        for (int i = 0; i < n; ++i) {
            int64_t image = bottom.dims[2 + i], output = top.dims[2 + i], full = params->pads[2 * i] == FULL;
            kernel[i] =
                known  ? lengths[i]
                : full ? floor_div(output - image, params->dilation[i]) + 1
                       : floor_div(image + params->pads[2 * i] + params->pads[2 * i + 1] - output, params->dilation[i])
                             + 1;
            impossible |= kernel[i] < 1;
            if (pads_of(params, i, kernel[i], &extent[i], &before[i], &after[i]) < 0)
                return -1;
            if (unshared)
                weights.dims[1 + i] = output;
        }
        weights.dims[0] = top.dims[1];
        *channels = bottom.dims[1] / groups;
        *result = weights;
    }
    else {
        weights = inputs[0];
        top = inputs[1];
        for (int i = 0; i < n; ++i) {
            int64_t span;
            if (pads_of(params, i, kernel[i], &extent[i], &before[i], &after[i]) < 0)
                return -1;
            if (__builtin_mul_overflow(top.dims[2 + i] - 1, params->stride[i], &span) || span > NPY_MAX_INTP / 8) {
                PyErr_SetString(PyExc_MemoryError, "there is not enough memory for an image of this length");
                return -1;
            }
            bottom.dims[2 + i] = known ? lengths[i] : span + extent[i] - before[i] - after[i];
            impossible |= bottom.dims[2 + i] < 0;
        }
        bottom.dims[0] = top.dims[0];
        if (__builtin_mul_overflow(*channels, groups, &bottom.dims[1])) {
            PyErr_NoMemory();
            return -1;
        }
        *result = bottom;
    }
    for (int i = 0; i < n; ++i)
        impossible |= kernel[i] < 1 || top.dims[2 + i] < 1;
    if (bottom.dims[1] % groups != 0 || bottom.dims[1] / groups != *channels) {
        PyErr_Format(PyExc_ValueError,
                     "%s images and kernel must have the same stack size\n  bottom shape: %s\n  weight shape: %s\n  "
                     "groups: %lld",
                     family, TEXT(&bottom, " "), TEXT(&weights, " "), (long long)groups);
        return -1;
    }
    if (weights.dims[0] % groups != 0) {
        PyErr_Format(
            PyExc_ValueError,
            "%s the number of filters must be divisible by the number of groups\n  weight shape: %s\n  groups: %lld",
            family, TEXT(&weights, " "), (long long)groups);
        return -1;
    }
    if (impossible) {
        PyErr_Format(PyExc_ValueError,
                     "%s%s: impossible output shape\n  bottom shape: %s\n  weights shape: %s\n  top shape: %s", family,
                     tasks[kind], TEXT(&bottom, " x "), TEXT(&weights, " x "), TEXT(&top, " x "));
        return -1;
    }
    struct shape expected = top, regions = weights;
    expected.dims[0] = bottom.dims[0];
    expected.dims[1] = weights.dims[0];
    for (int i = 0; i < n; ++i) {
        if (bottom.dims[2 + i] > NPY_MAX_INTP / 8) {
            PyErr_SetString(PyExc_MemoryError, "there is not enough memory for an image of this length");
            return -1;
        }
        expected.dims[2 + i] = floor_div(bottom.dims[2 + i] + before[i] + after[i] - extent[i], params->stride[i]) + 1;
        if (unshared)
            regions.dims[1 + i] = top.dims[2 + i];
    }
    if (memcmp(expected.dims, top.dims, top.n * sizeof(int64_t)) != 0) {
        PyErr_Format(PyExc_ValueError,
                     "%s shape inconsistency:\n  bottom shape: %s\n  weight shape: %s\n  top shape: %s (expected %s)",
                     family, TEXT(&bottom, " "), TEXT(&weights, " "), TEXT(&top, " "), TEXT(&expected, " "));
        return -1;
    }
    if (memcmp(regions.dims, weights.dims, weights.n * sizeof(int64_t)) != 0) {
        PyErr_Format(PyExc_ValueError,
                     "%s regions in kernel must match output regions:\n  bottom shape: %s\n  weight shape: %s "
                     "(expected %s)\n  top shape(calculated): %s",
                     family, TEXT(&bottom, " "), TEXT(&weights, " "), TEXT(&regions, " "), TEXT(&top, " "));
        return -1;
    }
    int64_t size = 16;
    for (int i = 0; i < result->n; ++i)
        if (result->dims[i] > 0 && __builtin_mul_overflow(size, result->dims[i], &size)) {
            PyErr_Format(PyExc_MemoryError, "%s%s: a result of shape %s is too large", family, tasks[kind],
                         TEXT(result, " x "));
            return -1;
        }
    *g = (struct geometry){
        .batch = bottom.dims[0], .groups = groups, .filters = weights.dims[0] / groups, .channels = *channels};
    for (int i = 0; i < 3; ++i) {
        int axis = i - (3 - n);
        g->image[i] = axis < 0 ? 1 : bottom.dims[2 + axis];
        g->kernel[i] = axis < 0 ? 1 : kernel[axis];
        g->top[i] = axis < 0 ? 1 : top.dims[2 + axis];
        g->pad[i] = axis < 0 ? 0 : before[axis];
        g->stride[i] = axis < 0 ? 1 : params->stride[axis];
        g->dilation[i] = axis < 0 ? 1 : params->dilation[axis];
    }
    return 0;
}

#endif
