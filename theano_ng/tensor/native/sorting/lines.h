/* Walks over the lines of arrays along one axis, for code that needs contiguous lines.
 *
 * The walk calls a function (lines_fn) that gets every line as a contiguous run of elements. Contiguous lines are
 * passed without a copy. Other lines are copied through small buffers, several adjacent lines at a time, because
 * adjacent lines share cache lines. The arrays have equal shapes, except along the axis. The data is aligned and
 * native-endian. */
#ifndef THEANO_NG_LINES_H
#define THEANO_NG_LINES_H

#include "native.h"

#define LINES_OUTPUTS 2
#define LINES_BUFFER ((npy_intp)256 << 10) /* bytes of a buffer; if LINES_GROUP lines need more, the buffer is larger */
#define LINES_GROUP 16

/* Process `rows` lines of the input and of each output; pitches are in bytes. Return 0, or -1 with an exception set. */
typedef int (*lines_fn)(void *context, npy_intp rows, const char *in, npy_intp in_pitch, char *const *out,
                        const npy_intp *out_pitch);

static inline npy_intp lines_abs(npy_intp x)
{
    return x < 0 ? -x : x;
}

/* dst[r][i] = src[r][i] for any strides (in bytes). If in both arrays the elements of a line are closer together than
 * the lines, whole lines are copied. Otherwise tiles of 8 elements of every line are copied. */
#define LINES_MOVE_AS(T)                                                      \
    for (npy_intp i0 = 0; i0 < n; i0 += tile) {                               \
        npy_intp end = tile < n - i0 ? i0 + tile : n;                         \
        for (npy_intp r = 0; r < rows; ++r) {                                 \
            const char *s = src + r * src_row + i0 * src_step;                \
            char *d = dst + r * dst_row + i0 * dst_step;                      \
            for (npy_intp i = i0; i < end; ++i, s += src_step, d += dst_step) \
                *(T *)d = *(const T *)s;                                      \
        }                                                                     \
    }                                                                         \
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

/* Return the distance of two buffered lines in bytes. It is not a multiple of 1024: at such distances, lines displace
 * each other from the cache. */
static inline npy_intp lines_pitch(npy_intp bytes)
{
    bytes = (bytes + 15) & ~(npy_intp)15;
    return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

typedef struct {
    PyArrayObject *array;
    char *data, *buffer;
    /* item: bytes of an element; length, step: elements and stride (bytes) along the axis; pitch: bytes from one
     * buffered line to the next */
    npy_intp item, length, step, pitch;
    npy_intp row; /* stride (bytes) of the dimension `group` of Lines */
    int direct;   /* whether the lines are contiguous and need no buffer */
} LinesOperand;

/* The walk. The lines along the dimension `group` are handled together.
 *   count: number of operands
 *   group: the number of this dimension, -1 if there is none
 *   outers, outer: number and list of the other dimensions
 *   lines: number of all lines
 *   together: length of the dimension `group`
 *   block: number of lines in one call */
typedef struct {
    LinesOperand op[1 + LINES_OUTPUTS]; /* the input, then the outputs */
    int count, group, outers, outer[NPY_MAXDIMS];
    npy_intp lines, together, block;
} Lines;

/* Fill in all members of *l except the buffers of the operands. */
static inline void lines_describe(Lines *l, PyArrayObject *x, int axis, int nout, PyArrayObject *const *outs)
{
    npy_intp widest = 0;
    LinesOperand *led = NULL;
    l->count = 1 + nout;
    for (int j = 0; j < l->count; ++j) {
        LinesOperand *o = &l->op[j];
        o->array = j == 0 ? x : outs[j - 1];
        o->data = PyArray_BYTES(o->array);
        o->item = PyArray_ITEMSIZE(o->array);
        o->length = PyArray_DIM(o->array, axis);
        o->step = PyArray_STRIDE(o->array, axis);
        o->direct = o->step == o->item || o->length <= 1;
        o->pitch = lines_pitch(o->item * o->length);
        o->buffer = NULL;
        widest = o->pitch > widest ? o->pitch : widest;
        led = led == NULL && !o->direct ? o : led;
    }
    /* The dimension `group` has the smallest stride in the first operand that needs a buffer. */
    PyArrayObject *leader = led == NULL ? x : led->array;
    l->group = -1;
    l->outers = 0;
    l->lines = 1;
    for (int i = 0; i < PyArray_NDIM(x); ++i) {
        if (i == axis)
            continue;
        npy_intp dim = PyArray_DIM(x, i);
        l->lines *= dim;
        if (dim > 1
            && (l->group < 0 || lines_abs(PyArray_STRIDE(leader, i)) <= lines_abs(PyArray_STRIDE(leader, l->group))))
            l->group = i;
    }
    for (int i = 0; i < PyArray_NDIM(x); ++i)
        if (i != axis && i != l->group && PyArray_DIM(x, i) > 1)
            l->outer[l->outers++] = i;
    for (int j = 0; j < l->count; ++j)
        l->op[j].row = l->group < 0 ? 0 : PyArray_STRIDE(l->op[j].array, l->group);
    l->together = l->group < 0 ? 1 : PyArray_DIM(x, l->group);
    l->block = l->together;
    if (led != NULL && widest > 0) {
        npy_intp block = LINES_BUFFER / widest;
        block = block < LINES_GROUP ? LINES_GROUP : block;
        l->block = block < l->together ? block : l->together;
    }
}

/* Allocate the buffers. Return 0, or -1 with an exception set. */
static inline int lines_buffers(Lines *l)
{
    for (int j = 0; j < l->count; ++j) {
        LinesOperand *o = &l->op[j];
        if (o->direct)
            continue;
        if (o->pitch == 0 || l->block <= NPY_MAX_INTP / o->pitch)
            o->buffer = PyMem_RawMalloc((size_t)(l->block * o->pitch) + 1);
        if (o->buffer == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* Call fn for `rows` lines of the dimension `group`, beginning with line `first`. */
static inline int lines_call(const Lines *l, npy_intp first, npy_intp rows, lines_fn fn, void *context)
{
    const LinesOperand *op = l->op;
    char *data[1 + LINES_OUTPUTS];
    npy_intp pitch[1 + LINES_OUTPUTS];
    for (int j = 0; j < l->count; ++j) {
        data[j] = op[j].direct ? op[j].data + first * op[j].row : op[j].buffer;
        pitch[j] = op[j].direct ? op[j].row : op[j].pitch;
    }
    if (!op[0].direct)
        lines_move(op[0].item, rows, op[0].length, op[0].buffer, op[0].pitch, op[0].item,
                   op[0].data + first * op[0].row, op[0].row, op[0].step);
    if (fn(context, rows, data[0], pitch[0], data + 1, pitch + 1) < 0)
        return -1;
    for (int j = 1; j < l->count; ++j)
        if (!op[j].direct)
            lines_move(op[j].item, rows, op[j].length, op[j].data + first * op[j].row, op[j].row, op[j].step,
                       op[j].buffer, op[j].pitch, op[j].item);
    return 0;
}

/* Advance to the next group of lines. Return 0 after the last group. */
static inline int lines_next(Lines *l, npy_intp *at)
{
    for (int k = l->outers - 1; k >= 0; --k) {
        int d = l->outer[k];
        npy_intp dim = PyArray_DIM(l->op[0].array, d);
        for (int j = 0; j < l->count; ++j)
            l->op[j].data += PyArray_STRIDE(l->op[j].array, d);
        if (++at[k] < dim)
            return 1;
        for (int j = 0; j < l->count; ++j)
            l->op[j].data -= dim * PyArray_STRIDE(l->op[j].array, d);
        at[k] = 0;
    }
    return 0;
}

/* Call fn for all lines of x and of the outputs along an axis. If there are no lines, fn is not called. Return 0, or -1
 * with an exception set. */
static __attribute__((unused)) int lines_run(PyArrayObject *x, int axis, int nout, PyArrayObject *const *outs,
                                             lines_fn fn, void *context)
{
    Lines l;
    npy_intp at[NPY_MAXDIMS] = {0};
    lines_describe(&l, x, axis, nout, outs);
    if (l.lines == 0)
        return 0;
    int status = lines_buffers(&l), more = status == 0;
    while (more) {
        for (npy_intp first = 0; first < l.together && status == 0; first += l.block)
            status = lines_call(&l, first, l.together - first < l.block ? l.together - first : l.block, fn, context);
        more = status == 0 && lines_next(&l, at);
    }
    for (int j = 0; j < l.count; ++j)
        PyMem_RawFree(l.op[j].buffer);
    return status;
}

#endif
