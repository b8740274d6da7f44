/* Correlation of images with kernels in two and three dimensions, and its gradients. This file contains shapes, errors
 * and layouts; conv_engine.h, conv_weights.h and conv_unshared.h compute the sums, and conv_kernels.h contains the
 * innermost loops. Two-dimensional problems have a third, first dimension of length one. */
#include "native.h"
#include "common/threads.h"

static inline int thread_number(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* The packed parameters.
 *   kind: FORWARD, WEIGHTS or INPUTS
 *   pads: for each axis, HALF twice, FULL twice, or two lengths
 *   unshared: each position of the output has a separate kernel
 *   threaded: several threads may share the work
 *   isa: the widest instruction set that may be used (0: any)
 *   flip: the kernels are reversed along all axes, which makes a convolution */
NATIVE_FUNCTION(correlate, kind, n_dims, pads[6], stride[3], dilation[3], groups, unshared, threaded, isa, flip)

#include "convolution/conv_shapes.h"

/* ---- Memory of one call of the Op ---- */

struct arena {
    PyArrayObject *blocks[8];
    int n_blocks;
    struct small *small;
};

struct small {
    struct small *next;
};

/* Return memory for count elements of `item` bytes, aligned to a register, or NULL with MemoryError. The memory lives
 * as long as the arena. */
static void *take(struct arena *arena, int64_t count, int64_t item)
{
    int64_t size;
    void *memory = NULL;
    if (!__builtin_mul_overflow(count, item, &size) && size < NPY_MAX_INTP / 4) {
        npy_intp length = size + 128;
        if (length >= NATIVE_BIG && arena->n_blocks < 8) {
            PyArrayObject *block = native_new(1, &length, NPY_UINT8, 0);
            if (block == NULL)
                return NULL;
            arena->blocks[arena->n_blocks++] = block;
            memory = PyArray_DATA(block);
        }
        else {
            struct small *block = PyMem_RawMalloc(length);
            if (block != NULL) {
                block->next = arena->small;
                arena->small = block;
                memory = block + 1;
            }
        }
    }
    if (memory == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    return (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
}

static void release(struct arena *arena)
{
    while (arena->n_blocks > 0)
        Py_DECREF(arena->blocks[--arena->n_blocks]);
    while (arena->small != NULL) {
        struct small *next = arena->small->next;
        PyMem_RawFree(arena->small);
        arena->small = next;
    }
}

/* A copy of an image with its padding, or the image itself. A tap is an element of the kernel. In a frame, the pixels
 * that a tap reads are at a constant offset from the pixels that the first tap reads (conv_engine.h). Along each axis,
 * a frame has a slot for each phase of the stride. Position p of a slot contains pixel start + phase[slot] + stride * p
 * of the image. */
struct frame {
    int64_t start[3], stride[3], length[3], pitch[3], phases[3];
    int64_t *phase[3];
    int64_t channel; /* elements from one channel to the next */
    int64_t slack;   /* elements after the last channel that may be read */
    int borrowed;    /* whether the frame is the image itself */
};

/* The part of a tile of outputs that belongs to one line.
 *   column, n: first column in the tile, and number of columns
 *   from: offset in the frame of the pixel for the first output of the piece
 *   to: offset of the first output of the piece */
struct piece {
    int64_t column, n, from, to;
};

/* Outputs that are computed together, in `wide` registers. If `pack`, the pixels of the tile are first copied to a
 * contiguous block. Otherwise the pixels are read in the frame, from `begin` on. `exact`: memory after the pixels must
 * not be read. */
struct tile {
    int64_t begin, count, wide, n_pieces;
    int pack, exact;
    const struct piece *pieces;
};

struct tiling {
    int64_t n_tiles, n_pieces, blocks;
    struct tile *tiles;
    struct piece *pieces;
};

static struct shape shape_of(PyObject *value)
{
    struct shape shape = {PyArray_NDIM((PyArrayObject *)value), {0}};
    for (int i = 0; i < shape.n; ++i)
        shape.dims[i] = PyArray_DIM((PyArrayObject *)value, i);
    return shape;
}

/* ---- Taps ---- */

/* A grid of outputs along one axis, and the taps of this axis that contribute to it. The forward pass has one grid. A
 * gradient with respect to the images has a grid for each phase of the stride. */
struct axis_taps {
    /* first: index of the first output of the grid in the result; outputs: number of outputs of the grid. In a
     * gradient, the outputs of a grid are `stride` apart. */
    int64_t first, outputs;
    /* n: number of taps; tap: the indices of the taps; source: for each tap, the pixel that the tap reads for the first
     * output of the grid, counted from the start of the frame */
    int64_t n, *tap, *source;
};

/* Find the grids of an axis: one grid for the forward pass; for the gradient, one grid for each phase of the stride
 * that has a tap. Set the frame's start, stride, length, phases and pitch. Return the number of grids, or -1 with
 * MemoryError. */
static int64_t taps_of_axis(const struct geometry *g, int axis, int kind, struct frame *frame, struct axis_taps **grids,
                            struct arena *arena)
{
    int64_t k = g->kernel[axis], s = g->stride[axis], d = g->dilation[axis], n_grids = 0, least = 0;
    struct axis_taps *list = take(arena, kind == INPUTS ? k : 1, sizeof *list);
    int64_t *room = take(arena, 2 * k, sizeof(int64_t)), *phase = take(arena, k, sizeof(int64_t));
    if (list == NULL || room == NULL || phase == NULL)
        return -1;
    *grids = list;
    if (kind != INPUTS) {
        list[0] = (struct axis_taps){0, g->top[axis], k, room, room + k};
        for (int64_t t = 0; t < k; ++t) {
            room[t] = t;
            room[k + t] = t * d;
        }
        n_grids = 1;
        least = 0;
        frame->start[axis] = -g->pad[axis];
        frame->stride[axis] = s;
        frame->length[axis] = g->image[axis];
    }
    else {
        for (int64_t t = 0; t < k; ++t) {
            /* For every integer q, tap t connects image pixel first + s q with output q + (first + pad - t d) / s. The
             * pixels first + s q form one grid; list[i].source contains the quotient. */
            int64_t first = (t * d - g->pad[axis]) % s;
            first += first < 0 ? s : 0;
            if (first >= g->image[axis])
                continue;
            int64_t i = 0;
            while (i < n_grids && list[i].first != first)
                ++i;
            if (i == n_grids)
                list[n_grids++] = (struct axis_taps){first, (g->image[axis] - first + s - 1) / s, 0, NULL, NULL};
            ++list[i].n;
        }
        for (int64_t i = 0, at = 0; i < n_grids; ++i) {
            list[i].tap = room + at;
            list[i].source = room + k + at;
            at += list[i].n;
            int64_t n = 0;
            for (int64_t t = 0; t < k; ++t) {
                int64_t first = (t * d - g->pad[axis]) % s;
                if (first + (first < 0 ? s : 0) == list[i].first) {
                    list[i].tap[n] = t;
                    list[i].source[n++] = (list[i].first + g->pad[axis] - t * d) / s;
                    least = list[i].source[n - 1] < least ? list[i].source[n - 1] : least;
                }
            }
        }
        frame->start[axis] = least;
        frame->stride[axis] = s = 1;
        frame->length[axis] = g->top[axis];
    }
    /* Find the phases of the frame that the taps use, in the order of first use. */
    frame->phase[axis] = phase;
    frame->phases[axis] = frame->pitch[axis] = 0;
    for (int64_t i = 0; i < n_grids; ++i)
        for (int64_t j = 0; j < list[i].n; ++j) {
            int64_t at = list[i].source[j] - (kind == INPUTS ? least : 0), slot = 0;
            while (slot < frame->phases[axis] && phase[slot] != at % s)
                ++slot;
            if (slot == frame->phases[axis])
                phase[frame->phases[axis]++] = at % s;
            if (at / s + list[i].outputs > frame->pitch[axis])
                frame->pitch[axis] = at / s + list[i].outputs;
            list[i].source[j] = at;
        }
    return n_grids;
}

/* Compute the frame's sizes from start, stride, pitch and phases. Return 0, or -1 with MemoryError if the frame is too
 * large. */
static int finish_frame(struct frame *frame, int64_t item, int64_t slack)
{
    int64_t size = 1;
    frame->borrowed = 1;
    for (int i = 0; i < 3; ++i) {
        if (frame->pitch[i] > 0 && frame->phases[i] > 0
            && (__builtin_mul_overflow(size, frame->pitch[i], &size)
                || __builtin_mul_overflow(size, frame->phases[i], &size)))
            size = NPY_MAX_INTP;
        frame->borrowed &= frame->start[i] == 0 && frame->stride[i] == 1 && frame->pitch[i] == frame->length[i];
    }
    if (size >= NPY_MAX_INTP / 64) {
        PyErr_SetString(PyExc_MemoryError, "there is not enough memory for the padded image");
        return -1;
    }
    frame->slack = slack;
    frame->channel = size;
    if (!frame->borrowed) {
        frame->channel = (size + 15) / 16 * 16;
        /* Avoid channels that are whole pages apart: they would share the sets of the first-level cache. */
        if (frame->channel * item % 4096 < 128 && frame->channel * item >= 4096)
            frame->channel += 32;
    }
    return 0;
}

/* Return the offset of the pixel at position source[i] along each axis i, in a channel of the frame. */
static int64_t place(const struct frame *frame, const int64_t *source)
{
    int64_t slots = 0, pixel = 0;
    for (int i = 0; i < 3; ++i) {
        int64_t slot = 0;
        while (frame->phase[i][slot] != source[i] % frame->stride[i])
            ++slot;
        slots = slots * frame->phases[i] + slot;
        pixel = pixel * frame->pitch[i] + source[i] / frame->stride[i];
    }
    return slots * frame->pitch[0] * frame->pitch[1] * frame->pitch[2] + pixel;
}

/* Compute `off`, the offsets of channels and taps in the frame, and `weight`, the offsets of taps in the kernel. If the
 * kernel is reversed, the offsets in the kernel are counted from its end. */
static void tabulate(const struct geometry *g, const struct frame *frame, const struct axis_taps *a,
                     const struct axis_taps *b, const struct axis_taps *c, int64_t channels, npy_intp *off,
                     int64_t *weight)
{
    int64_t n = 0, last = g->kernel[0] * g->kernel[1] * g->kernel[2] - 1;
    for (int64_t i = 0; i < a->n; ++i)
        for (int64_t j = 0; j < b->n; ++j)
            for (int64_t k = 0; k < c->n; ++k, ++n) {
                weight[n] = (a->tap[i] * g->kernel[1] + b->tap[j]) * g->kernel[2] + c->tap[k];
                if (g->flip)
                    weight[n] = last - weight[n];
                if (channels > 0)
                    off[n] = place(frame, (int64_t[]){a->source[i], b->source[j], c->source[k]});
            }
    for (int64_t channel = 1; channel < channels; ++channel)
        for (int64_t t = 0; t < n; ++t)
            off[channel * n + t] = off[t] + channel * frame->channel;
}

static const int64_t first_tap[] = {0};

/* ---- Instruction sets ---- */

enum { ANY, BASELINE, AVX2, AVX512 };

static int best_isa(int64_t wanted)
{
    int best = BASELINE;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        best = __builtin_cpu_supports("avx512f") ? AVX512 : AVX2;
#endif
    return wanted > ANY && wanted < best ? (int)wanted : best;
}

#define PASTE_TOKENS(a, b) a##_##b
#define PASTE(a, b) PASTE_TOKENS(a, b)
#define REAL npy_float32
#define MASK npy_int32
#define TYPED(f) f##_f32
#include "conv_type.h"
#undef REAL
#undef MASK
#undef TYPED
#define REAL npy_float64
#define MASK npy_int64
#define TYPED(f) f##_f64
#include "conv_type.h"
#undef REAL
#undef MASK
#undef TYPED

/* ---- The Op ---- */

static int tng_correlate(int nin, int nout, PyObject **in, PyObject **out, const struct correlate_params *params)
{
    (void)nout;
    struct geometry g;
    struct shape shape;
    if (measure((struct shape[]){shape_of(in[0]), shape_of(in[1])}, nin - 2, in + 2, params, &g, &shape) < 0)
        return -1;
    g.flip = params->flip != 0;
    npy_intp dims[8];
    for (int i = 0; i < shape.n; ++i)
        dims[i] = shape.dims[i];
    int type = PyArray_TYPE((PyArrayObject *)in[0]), wide = type == NPY_FLOAT16 ? NPY_FLOAT32 : type;
    if ((wide != NPY_FLOAT32 && wide != NPY_FLOAT64) || PyArray_TYPE((PyArrayObject *)in[1]) != type) {
        PyErr_SetString(PyExc_TypeError, "correlation: expected two arrays of the same floating-point type");
        return -1;
    }
    PyArrayObject *result = native_alloc(out, shape.n, dims, type), *to = result, *a = NULL, *b = NULL;
    int status = -1;
    if (result == NULL)
        return -1;
    a = (PyArrayObject *)PyArray_FROM_OTF(in[0], wide, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    b = (PyArrayObject *)PyArray_FROM_OTF(in[1], wide, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (wide != type)
        to = native_new(shape.n, dims, wide, 0);
    if (a != NULL && b != NULL && to != NULL)
        status = (wide == NPY_FLOAT32 ? correlate_f32 : correlate_f64)(params, &g, PyArray_DATA(a), PyArray_DATA(b),
                                                                       PyArray_DATA(to));
    if (status == 0 && to != result)
        status = PyArray_CopyInto(result, to);
    if (to != result)
        Py_XDECREF(to);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(correlate), {NULL}};
NATIVE_MODULE(conv, entries)
