/* Walks over the lines of arrays along one axis, so that code that needs contiguous lines runs on any layout.
 *
 * A line is a contiguous run of elements for the callee: lines that are so already are handed over where they are, others are moved
 * through small buffers, several neighbours at a time, since neighbours share cache lines. The arrays have equal shapes, except along the
 * axis; data is aligned and native-endian.
 */
#ifndef THEANO_NG_LINES_H
#define THEANO_NG_LINES_H

#include "native.h"

#define LINES_OUTPUTS 2
#define LINES_BUFFER ((npy_intp)256 << 10)   /* bytes of a buffer, when that holds LINES_GROUP lines */
#define LINES_GROUP 16

/* `rows` lines of the input and of each output; pitches are in bytes. Returns 0, or -1 with an exception. */
typedef int (*lines_fn)(void *context, npy_intp rows, const char *in, npy_intp in_pitch, char *const *out, const npy_intp *out_pitch);

static inline npy_intp lines_abs(npy_intp x)
{
    return x < 0 ? -x : x;
}

/* dst[r][i] = src[r][i] for any strides (in bytes): in tiles of eight times a cache line or so, unless both sides have the elements of a
 * line closer together than lines. */
#define LINES_MOVE_AS(T)                                                                                          \
    for (npy_intp i0 = 0; i0 < n; i0 += tile) {                                                                   \
        npy_intp end = tile < n - i0 ? i0 + tile : n;                                                             \
        for (npy_intp r = 0; r < rows; ++r) {                                                                     \
            const char *s = src + r * src_row + i0 * src_step;                                                    \
            char *d = dst + r * dst_row + i0 * dst_step;                                                          \
            for (npy_intp i = i0; i < end; ++i, s += src_step, d += dst_step)                                     \
                *(T *)d = *(const T *)s;                                                                          \
        }                                                                                                         \
    }                                                                                                             \
    break;

static inline void lines_move(npy_intp item, npy_intp rows, npy_intp n, char *dst, npy_intp dst_row, npy_intp dst_step,
                              const char *src, npy_intp src_row, npy_intp src_step)
{
    npy_intp tile = lines_abs(src_step) <= lines_abs(src_row) && lines_abs(dst_step) <= lines_abs(dst_row) ? n : 8;
    switch (item) {
    case 1: LINES_MOVE_AS(npy_uint8)
    case 2: LINES_MOVE_AS(npy_uint16)
    case 4: LINES_MOVE_AS(npy_uint32)
    case 8: LINES_MOVE_AS(npy_uint64)
    default: LINES_MOVE_AS(npy_cdouble)
    }
}

/* Bytes from one buffered line to the next: not a multiple of the distance at which cache lines displace each other. */
static inline npy_intp lines_pitch(npy_intp bytes)
{
    bytes = (bytes + 15) & ~(npy_intp)15;
    return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

typedef struct {
    PyArrayObject *array;
    char *data, *buffer;
    npy_intp item, length, step, pitch;      /* along the axis; from a buffered line to the next */
    npy_intp row;                            /* stride of the dimension whose lines go together */
    int direct;                              /* lines are contiguous where they are */
} LinesOperand;

/* Calls fn for all lines of x and of the outputs along an axis. Nothing is called when there are no lines. */
static __attribute__((unused)) int lines_run(PyArrayObject *x, int axis, int nout, PyArrayObject *const *outs, lines_fn fn, void *context)
{
    LinesOperand op[1 + LINES_OUTPUTS];
    int nd = PyArray_NDIM(x), result = -1, all_direct = 1;
    npy_intp lines = 1, widest = 0;
    for (int j = 0; j <= nout; ++j) {
        LinesOperand *o = &op[j];
        o->array = j == 0 ? x : outs[j - 1];
        o->data = PyArray_BYTES(o->array);
        o->item = PyArray_ITEMSIZE(o->array);
        o->length = PyArray_DIM(o->array, axis);
        o->step = PyArray_STRIDE(o->array, axis);
        o->direct = o->step == o->item || o->length <= 1;
        o->pitch = lines_pitch(o->item * o->length);
        o->buffer = NULL;
        all_direct &= o->direct;
        if (o->pitch > widest)
            widest = o->pitch;
    }
    /* The dimension whose lines go together: the one with the smallest stride in the first operand that has to be moved. */
    LinesOperand *led = &op[0];
    for (int j = nout; j >= 0; --j)
        if (!op[j].direct)
            led = &op[j];
    int group = -1, outer[NPY_MAXDIMS], outers = 0;
    for (int i = 0; i < nd; ++i) {
        if (i == axis)
            continue;
        npy_intp dim = PyArray_DIM(x, i);
        lines *= dim;
        if (dim > 1 && (group < 0 || lines_abs(PyArray_STRIDE(led->array, i)) <= lines_abs(PyArray_STRIDE(led->array, group))))
            group = i;
    }
    if (lines == 0)
        return 0;
    for (int i = 0; i < nd; ++i)
        if (i != axis && i != group && PyArray_DIM(x, i) > 1)
            outer[outers++] = i;
    npy_intp together = group < 0 ? 1 : PyArray_DIM(x, group), block = together;
    if (!all_direct) {
        block = widest > 0 ? LINES_BUFFER / widest : together;
        block = block < LINES_GROUP ? LINES_GROUP : block;
        block = block < together ? block : together;
    }
    for (int j = 0; j <= nout; ++j) {
        op[j].row = group < 0 ? 0 : PyArray_STRIDE(op[j].array, group);
        if (op[j].direct)
            continue;
        if (op[j].pitch > 0 && block > NPY_MAX_INTP / op[j].pitch)
            goto no_memory;
        op[j].buffer = PyMem_RawMalloc((size_t)(block * op[j].pitch) + 1);
        if (op[j].buffer == NULL)
            goto no_memory;
    }
    npy_intp at[NPY_MAXDIMS] = {0};
    for (;;) {
        for (npy_intp first = 0; first < together; first += block) {
            npy_intp rows = together - first < block ? together - first : block;
            char *data[1 + LINES_OUTPUTS];
            npy_intp pitch[1 + LINES_OUTPUTS];
            for (int j = 0; j <= nout; ++j) {
                char *start = op[j].data + first * op[j].row;
                data[j] = op[j].direct ? start : op[j].buffer;
                pitch[j] = op[j].direct ? op[j].row : op[j].pitch;
                if (j == 0 && !op[0].direct)
                    lines_move(op[0].item, rows, op[0].length, op[0].buffer, op[0].pitch, op[0].item, start, op[0].row, op[0].step);
            }
            if (fn(context, rows, data[0], pitch[0], data + 1, pitch + 1) < 0)
                goto finish;
            for (int j = 1; j <= nout; ++j)
                if (!op[j].direct)
                    lines_move(op[j].item, rows, op[j].length, op[j].data + first * op[j].row, op[j].row, op[j].step, op[j].buffer,
                               op[j].pitch, op[j].item);
        }
        int k = outers - 1;
        for (; k >= 0; --k) {
            npy_intp dim = PyArray_DIM(x, outer[k]);
            for (int j = 0; j <= nout; ++j)
                op[j].data += PyArray_STRIDE(op[j].array, outer[k]);
            if (++at[k] < dim)
                break;
            for (int j = 0; j <= nout; ++j)
                op[j].data -= dim * PyArray_STRIDE(op[j].array, outer[k]);
            at[k] = 0;
        }
        if (k < 0)
            break;
    }
    result = 0;
    goto finish;
no_memory:
    PyErr_NoMemory();
finish:
    for (int j = 0; j <= nout; ++j)
        PyMem_RawFree(op[j].buffer);
    return result;
}

#endif
