/* Copies and sums between strided arrays of one dtype, without Python objects.
 *
 * Both operands have the same shape. Strides are in bytes and may be negative; the strides of the source may be 0. Data
 * may be misaligned, but is native-endian. Operands do not overlap, unless they are the same memory with the same
 * strides. */
#ifndef THEANO_NG_STRIDED_H
#define THEANO_NG_STRIDED_H

#include "native.h"
#include "target_clones.h"

#define INC_ROW_CLONES STRIDED_CLONES
#include "inc_code.h"

/* The maximum number of dimensions of a plan: twice the maximum of NumPy's arrays. */
#define STRIDED_MAXDIMS 128

typedef struct {
    int nd;
    npy_intp dim[STRIDED_MAXDIMS], dst[STRIDED_MAXDIMS], src[STRIDED_MAXDIMS];
} StridedPlan;

/* Fill a plan: drop dimensions of length 1, sort the other dimensions by destination stride, and merge adjacent
 * dimensions where possible. Return the number of elements. */
static inline npy_intp strided_plan(StridedPlan *plan, int nd, const npy_intp *dim, const npy_intp *dst,
                                    const npy_intp *src)
{
    int n = 0;
    npy_intp total = 1;
    for (int i = 0; i < nd; ++i) {
        total *= dim[i];
        if (dim[i] == 1)
            continue;
        npy_intp key = dst[i] < 0 ? -dst[i] : dst[i];
        int at = n;
        while (at > 0 && (plan->dst[at - 1] < 0 ? -plan->dst[at - 1] : plan->dst[at - 1]) < key) {
            plan->dim[at] = plan->dim[at - 1];
            plan->dst[at] = plan->dst[at - 1];
            plan->src[at] = plan->src[at - 1];
            --at;
        }
        plan->dim[at] = dim[i];
        plan->dst[at] = dst[i];
        plan->src[at] = src[i];
        ++n;
    }
    int last = 0;
    for (int i = 1; i < n; ++i) {
        if (plan->dst[last] == plan->dst[i] * plan->dim[i] && plan->src[last] == plan->src[i] * plan->dim[i]) {
            plan->dim[last] *= plan->dim[i];
        }
        else {
            ++last;
            plan->dim[last] = plan->dim[i];
        }
        plan->dst[last] = plan->dst[i];
        plan->src[last] = plan->src[i];
    }
    plan->nd = n == 0 ? 0 : last + 1;
    return total;
}

/* Put an array of zeros into *out. Like native_alloc, reuse the existing array if it fits. A very large new array gets
 * pages of zeros from the system, which take no memory until they are written. An array of this size is too large for
 * recycling anyway. */
static inline PyArrayObject *strided_zeros(PyObject **out, int nd, const npy_intp *dims, int type_num)
{
    npy_intp size = 1;
    for (int i = 0; i < nd; ++i)
        size = dims[i] == 0 || size > NPY_MAX_INTP / dims[i] ? 0 : size * dims[i];
    if (*out == NULL && size >= (npy_intp)1 << 28) {
        *out = PyArray_ZEROS(nd, (npy_intp *)dims, type_num, 0);
        return (PyArrayObject *)*out;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, type_num);
    if (z != NULL)
        memset(PyArray_DATA(z), 0, (size_t)PyArray_NBYTES(z));
    return z;
}

/* Write n contiguous copies of one item. */
static inline void strided_fill(npy_intp itemsize, npy_intp n, char *dst, const char *item)
{
    int same = 1;
    for (npy_intp k = 1; k < itemsize; ++k)
        same &= item[k] == item[0];
    if (same) {
        memset(dst, item[0], (size_t)(n * itemsize));
        return;
    }
    if (itemsize > 16 || 16 % itemsize != 0) {
        for (npy_intp i = 0; i < n; ++i)
            memcpy(dst + i * itemsize, item, (size_t)itemsize);
        return;
    }
    /* Write 16 bytes at a time, whatever the dtype: compilers turn this into vector stores. */
    npy_uint64 pattern[2];
    for (npy_intp k = 0; k < 16; k += itemsize)
        memcpy((char *)pattern + k, item, (size_t)itemsize);
    npy_intp bytes = n * itemsize, whole = bytes / 16 * 16;
    for (npy_intp i = 0; i < whole; i += 16)
        memcpy(dst + i, pattern, 16);
    memcpy(dst + whole, pattern, (size_t)(bytes - whole));
}

/* Fill `bytes` bytes at `data` by repeating the first `done` bytes. At most 16 KiB are copied at a time, or the first
 * `done` bytes if they are longer, so that the copied bytes stay in the cache. */
static inline void strided_repeat(char *data, npy_intp done, npy_intp bytes)
{
    npy_intp period = done;
    while (done < bytes) {
        npy_intp piece = done;
        if (piece > (1 << 14))
            piece = period > (1 << 14) ? period : (1 << 14) / period * period;
        if (piece > bytes - done)
            piece = bytes - done;
        memcpy(data + done, data, (size_t)piece);
        done += piece;
    }
}

#define STRIDED_COPY_AS(T)                              \
    {                                                   \
        T item;                                         \
        if (ss == 0) {                                  \
            memcpy(&item, src, sizeof(T));              \
            for (npy_intp i = 0; i < n; ++i)            \
                memcpy(dst + i * ds, &item, sizeof(T)); \
        }                                               \
        else                                            \
            for (npy_intp i = 0; i < n; ++i) {          \
                memcpy(&item, src + i * ss, sizeof(T)); \
                memcpy(dst + i * ds, &item, sizeof(T)); \
            }                                           \
        return;                                         \
    }

/* Copy n items of one size. ds and ss are the strides of the destination and of the source. */
static inline void strided_copy_row(npy_intp itemsize, npy_intp n, char *dst, npy_intp ds, const char *src, npy_intp ss)
{
    if (ds == itemsize && ss == itemsize) {
        memcpy(dst, src, (size_t)(n * itemsize));
        return;
    }
    if (ds == itemsize && ss == 0) {
        strided_fill(itemsize, n, dst, src);
        return;
    }
    switch (itemsize) {
    case 1: STRIDED_COPY_AS(npy_uint8)
    case 2: STRIDED_COPY_AS(npy_uint16)
    case 4: STRIDED_COPY_AS(npy_uint32)
    case 8: STRIDED_COPY_AS(npy_uint64)
    case 16: STRIDED_COPY_AS(npy_cdouble)
    default:
        for (npy_intp i = 0; i < n; ++i)
            memcpy(dst + i * ds, src + i * ss, (size_t)itemsize);
    }
}

/* Copy square tiles of a transposed array: to[a][b] = from[b][a]. The vectors have 16 bytes, a size that every
 * processor supports. */

typedef npy_uint64 strided_v2 __attribute__((vector_size(16)));
typedef npy_uint32 strided_v4 __attribute__((vector_size(16)));

/* Select elements of two vectors of four by their indices 0 to 7. Compilers do not turn element-wise code into a
 * shuffle. */
#ifdef __clang__
#define STRIDED_SHUFFLE(x, y, a, b, c, d) __builtin_shufflevector(x, y, a, b, c, d)
#else
#define STRIDED_SHUFFLE(x, y, a, b, c, d) __builtin_shuffle(x, y, (strided_v4){a, b, c, d})
#endif

static inline void strided_tile_8(char *to, npy_intp ds, const char *from, npy_intp ss)
{
    for (int a = 0; a < 8; a += 2)
        for (int b = 0; b < 8; b += 2) {
            strided_v2 x, y;
            memcpy(&x, from + b * ss + a * 8, 16);
            memcpy(&y, from + (b + 1) * ss + a * 8, 16);
            strided_v2 first = {x[0], y[0]}, second = {x[1], y[1]};
            memcpy(to + a * ds + b * 8, &first, 16);
            memcpy(to + (a + 1) * ds + b * 8, &second, 16);
        }
}

static inline void strided_tile_4(char *to, npy_intp ds, const char *from, npy_intp ss)
{
    for (int a = 0; a < 8; a += 4)
        for (int b = 0; b < 8; b += 4) {
            strided_v4 w, x, y, z;
            memcpy(&w, from + b * ss + a * 4, 16);
            memcpy(&x, from + (b + 1) * ss + a * 4, 16);
            memcpy(&y, from + (b + 2) * ss + a * 4, 16);
            memcpy(&z, from + (b + 3) * ss + a * 4, 16);
            strided_v4 wx = STRIDED_SHUFFLE(w, x, 0, 4, 1, 5), wx_high = STRIDED_SHUFFLE(w, x, 2, 6, 3, 7);
            strided_v4 yz = STRIDED_SHUFFLE(y, z, 0, 4, 1, 5), yz_high = STRIDED_SHUFFLE(y, z, 2, 6, 3, 7);
            strided_v4 line[4] = {STRIDED_SHUFFLE(wx, yz, 0, 1, 4, 5), STRIDED_SHUFFLE(wx, yz, 2, 3, 6, 7),
                                  STRIDED_SHUFFLE(wx_high, yz_high, 0, 1, 4, 5),
                                  STRIDED_SHUFFLE(wx_high, yz_high, 2, 3, 6, 7)};
            for (int k = 0; k < 4; ++k)
                memcpy(to + (a + k) * ds + b * 4, &line[k], 16);
        }
}

/* Swap the bits of x under `mask << shift` with the bits of y under `mask`. */
#define STRIDED_SWAP(x, y, shift, mask)                       \
    do {                                                      \
        npy_uint64 differ_ = ((x) >> (shift) ^ (y)) & (mask); \
        (y) ^= differ_;                                       \
        (x) ^= differ_ << (shift);                            \
    } while (0)

static inline void strided_tile_2(char *to, npy_intp ds, const char *from, npy_intp ss)
{
    for (int a = 0; a < 8; a += 4)
        for (int b = 0; b < 8; b += 4) {
            npy_uint64 x[4];
            for (int k = 0; k < 4; ++k)
                memcpy(&x[k], from + (b + k) * ss + a * 2, 8);
            for (int k = 0; k < 4; k += 2)
                STRIDED_SWAP(x[k], x[k + 1], 16, 0x0000ffff0000ffffULL);
            for (int k = 0; k < 2; ++k)
                STRIDED_SWAP(x[k], x[k + 2], 32, 0x00000000ffffffffULL);
            for (int k = 0; k < 4; ++k)
                memcpy(to + (a + k) * ds + b * 2, &x[k], 8);
        }
}

static inline void strided_tile_1(char *to, npy_intp ds, const char *from, npy_intp ss)
{
    npy_uint64 x[8];
    for (int k = 0; k < 8; ++k)
        memcpy(&x[k], from + k * ss, 8);
    for (int k = 0; k < 8; k += 2)
        STRIDED_SWAP(x[k], x[k + 1], 8, 0x00ff00ff00ff00ffULL);
    for (int k = 0; k < 8; k += k % 4 == 1 ? 3 : 1)
        STRIDED_SWAP(x[k], x[k + 2], 16, 0x0000ffff0000ffffULL);
    for (int k = 0; k < 4; ++k)
        STRIDED_SWAP(x[k], x[k + 4], 32, 0x00000000ffffffffULL);
    for (int k = 0; k < 8; ++k)
        memcpy(to + k * ds, &x[k], 8);
}

/* dst[i][j] = src[j][i]. Elements with successive i are contiguous in src and ds bytes apart in dst; elements with
 * successive j are contiguous in dst and ss bytes apart in src. Copy tile by tile, in bands of columns that touch so
 * few pages that the TLB holds their addresses. */
#define STRIDED_TRANSPOSE(SIZE, TILE, BAND, DO_TILE)                                        \
    for (npy_intp band = 0; band < columns; band += BAND) {                                 \
        npy_intp end = columns - band < BAND ? columns : band + BAND;                       \
        for (npy_intp i = 0; i < rows; i += TILE)                                           \
            for (npy_intp j = band; j < end; j += TILE) {                                   \
                char *to = dst + i * ds + j * SIZE;                                         \
                const char *from = src + j * ss + i * SIZE;                                 \
                if (i + TILE <= rows && j + TILE <= end)                                    \
                    DO_TILE(to, ds, from, ss);                                              \
                else                                                                        \
                    for (npy_intp a = 0; a < TILE && i + a < rows; ++a)                     \
                        for (npy_intp b = 0; b < TILE && j + b < end; ++b)                  \
                            memcpy(to + a * ds + b * SIZE, from + b * ss + a * SIZE, SIZE); \
            }                                                                               \
    }

static inline void strided_transpose(npy_intp itemsize, npy_intp rows, npy_intp columns, char *dst, npy_intp ds,
                                     const char *src, npy_intp ss)
{
    switch (itemsize) {
    case 1: STRIDED_TRANSPOSE(1, 8, 512, strided_tile_1) break;
    case 2: STRIDED_TRANSPOSE(2, 8, 512, strided_tile_2) break;
    case 4: STRIDED_TRANSPOSE(4, 8, 128, strided_tile_4) break;
    case 8: STRIDED_TRANSPOSE(8, 8, 128, strided_tile_8) break;
    default: break;
    }
}

/* If the destination is contiguous along the last dimension, and the source is contiguous along another dimension,
 * return this other dimension, otherwise -1. A copy row by row would read a cache line for every item of the source. */
static inline int strided_transposed_dim(npy_intp itemsize, const StridedPlan *plan)
{
    int last = plan->nd - 1;
    if (last < 1 || (itemsize != 8 && itemsize != 4 && itemsize != 2 && itemsize != 1) || plan->dst[last] != itemsize
        || plan->src[last] == 0 || plan->src[last] == itemsize || plan->dim[last] < 8)
        return -1;
    for (int k = last - 1; k >= 0; --k)
        if (plan->src[k] == itemsize && plan->dim[k] >= 8)
            return k;
    return -1;
}

/* Call ROW(n, dst, ds, src, ss) for the innermost dimension of a plan, at every position of the outer dimensions. */
#define STRIDED_RUN(plan, dst0, src0, ROW)                                           \
    do {                                                                             \
        const StridedPlan *p_ = (plan);                                              \
        char *d_ = (dst0);                                                           \
        const char *s_ = (src0);                                                     \
        int outer_ = p_->nd - 1;                                                     \
        if (outer_ < 0) {                                                            \
            ROW(1, d_, 0, s_, 0);                                                    \
            break;                                                                   \
        }                                                                            \
        npy_intp n_ = p_->dim[outer_], ds_ = p_->dst[outer_], ss_ = p_->src[outer_]; \
        npy_intp at_[STRIDED_MAXDIMS];                                               \
        for (int k_ = 0; k_ < outer_; ++k_)                                          \
            at_[k_] = 0;                                                             \
        for (;;) {                                                                   \
            ROW(n_, d_, ds_, s_, ss_);                                               \
            int k_ = outer_ - 1;                                                     \
            for (; k_ >= 0; --k_) {                                                  \
                d_ += p_->dst[k_];                                                   \
                s_ += p_->src[k_];                                                   \
                if (++at_[k_] < p_->dim[k_])                                         \
                    break;                                                           \
                d_ -= p_->dst[k_] * p_->dim[k_];                                     \
                s_ -= p_->src[k_] * p_->dim[k_];                                     \
                at_[k_] = 0;                                                         \
            }                                                                        \
            if (k_ < 0)                                                              \
                break;                                                               \
        }                                                                            \
    } while (0)

static inline void strided_copy_planned(npy_intp itemsize, const StridedPlan *plan, char *dst, const char *src)
{
    int row = strided_transposed_dim(itemsize, plan), last = plan->nd - 1;
    if (row >= 0) {
        StridedPlan outer = *plan;
        outer.nd = last;
        npy_intp rows = plan->dim[row], columns = plan->dim[last], ds = plan->dst[row], ss = plan->src[last];
        outer.dim[row] = 1;
#define TRANSPOSE_ROW(n, d, dstep, s, sstep) \
    for (npy_intp i_ = 0; i_ < (n); ++i_)    \
    strided_transpose(itemsize, rows, columns, (d) + i_ * (dstep), ds, (s) + i_ * (sstep), ss)
        STRIDED_RUN(&outer, dst, src, TRANSPOSE_ROW);
#undef TRANSPOSE_ROW
        return;
    }
#define COPY_ROW(n, d, ds, s, ss) strided_copy_row(itemsize, n, d, ds, s, ss)
    STRIDED_RUN(plan, dst, src, COPY_ROW);
#undef COPY_ROW
}

static inline void strided_add_planned(inc_row_fn add, const StridedPlan *plan, char *dst, const char *src)
{
    STRIDED_RUN(plan, dst, src, add);
}

/* dst[...] = src[...] */
static inline void strided_copy(npy_intp itemsize, int nd, const npy_intp *dim, char *dst, const npy_intp *ds,
                                const char *src, const npy_intp *ss)
{
    StridedPlan plan;
    if (strided_plan(&plan, nd, dim, ds, ss) > 0)
        strided_copy_planned(itemsize, &plan, dst, src);
}

/* Return a new view of the memory of `base`, with the same dtype, writable if base is. */
static inline PyObject *strided_view(PyArrayObject *base, int nd, const npy_intp *dim, const npy_intp *stride,
                                     char *data)
{
    PyArray_Descr *descr = PyArray_DESCR(base);
    Py_INCREF(descr);
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, nd, dim, stride, data,
                                          PyArray_FLAGS(base) & NPY_ARRAY_WRITEABLE, NULL);
    if (view == NULL)
        return NULL;
    Py_INCREF(base);
    if (PyArray_SetBaseObject((PyArrayObject *)view, (PyObject *)base) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    return view;
}

/* Return 1 if the byte ranges of two arrays overlap (conservative: the arrays may still have no common element). */
static inline int strided_ranges_meet(PyArrayObject *a, PyArrayObject *b)
{
    uintptr_t low[2], high[2];
    PyArrayObject *both[2] = {a, b};
    for (int k = 0; k < 2; ++k) {
        PyArrayObject *x = both[k];
        low[k] = high[k] = (uintptr_t)PyArray_DATA(x);
        for (int i = 0; i < PyArray_NDIM(x); ++i) {
            if (PyArray_DIM(x, i) == 0)
                return 0;
            npy_intp reach = (PyArray_DIM(x, i) - 1) * PyArray_STRIDE(x, i);
            if (reach < 0)
                low[k] += (uintptr_t)reach;
            else
                high[k] += (uintptr_t)reach;
        }
        high[k] += (uintptr_t)PyArray_ITEMSIZE(x);
    }
    return low[0] < high[1] && low[1] < high[0];
}

#endif
