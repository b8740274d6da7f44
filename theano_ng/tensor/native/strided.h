/* Copies and sums between strided arrays of one dtype, without Python objects in between.
 *
 * Shapes are shared by both operands; strides are in bytes, may be negative or 0 (source only). Data may be misaligned but is
 * native-endian. Operands do not overlap, unless they are the same memory with the same strides.
 */
#ifndef THEANO_NG_STRIDED_H
#define THEANO_NG_STRIDED_H

#include "native.h"
#include "inc_code.h"

/* Twice NumPy's limit: tiling and Kronecker-like copies see every dimension two times. */
#define STRIDED_MAXDIMS 128

typedef struct {
    int nd;
    npy_intp dim[STRIDED_MAXDIMS], dst[STRIDED_MAXDIMS], src[STRIDED_MAXDIMS];
} StridedPlan;

/* Fills a plan: drops dimensions of length 1, orders the others by destination stride, merges those that run on.
 * Returns the number of elements. */
static inline npy_intp strided_plan(StridedPlan *plan, int nd, const npy_intp *dim, const npy_intp *dst, const npy_intp *src)
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

/* One source item for the whole row is loaded once; dense destinations let the compiler vectorize. */
#define STRIDED_COPY_AS(T)                                                                                        \
    {                                                                                                             \
        T item;                                                                                                   \
        if (ss == 0) {                                                                                            \
            memcpy(&item, src, sizeof(T));                                                                        \
            if (ds == (npy_intp)sizeof(T))                                                                        \
                for (npy_intp i = 0; i < n; ++i)                                                                  \
                    memcpy(dst + i * (npy_intp)sizeof(T), &item, sizeof(T));                                      \
            else                                                                                                  \
                for (npy_intp i = 0; i < n; ++i)                                                                  \
                    memcpy(dst + i * ds, &item, sizeof(T));                                                       \
        }                                                                                                         \
        else                                                                                                      \
            for (npy_intp i = 0; i < n; ++i) {                                                                    \
                memcpy(&item, src + i * ss, sizeof(T));                                                           \
                memcpy(dst + i * ds, &item, sizeof(T));                                                           \
            }                                                                                                     \
        return;                                                                                                   \
    }

/* n items of one size. */
static inline void strided_copy_row(npy_intp itemsize, npy_intp n, char *dst, npy_intp ds, const char *src, npy_intp ss)
{
    if (ds == itemsize && ss == itemsize) {
        memcpy(dst, src, (size_t)(n * itemsize));
        return;
    }
    switch (itemsize) {
    case 1:
        if (ds == 1 && ss == 0) {
            memset(dst, *src, (size_t)n);
            return;
        }
        STRIDED_COPY_AS(npy_uint8)
    case 2: STRIDED_COPY_AS(npy_uint16)
    case 4: STRIDED_COPY_AS(npy_uint32)
    case 8: STRIDED_COPY_AS(npy_uint64)
    case 16: STRIDED_COPY_AS(npy_cdouble)
    default:
        for (npy_intp i = 0; i < n; ++i)
            memcpy(dst + i * ds, src + i * ss, (size_t)itemsize);
    }
}

/* Runs `row(n, dst, ds, src, ss)` over the innermost dimension of a plan, for every position of the outer ones. */
#define STRIDED_RUN(plan, dst0, src0, ROW)                                                                        \
    do {                                                                                                          \
        const StridedPlan *p_ = (plan);                                                                           \
        char *d_ = (dst0);                                                                                        \
        const char *s_ = (src0);                                                                                  \
        int outer_ = p_->nd - 1;                                                                                  \
        if (outer_ < 0) {                                                                                         \
            ROW(1, d_, 0, s_, 0);                                                                                 \
            break;                                                                                                \
        }                                                                                                         \
        npy_intp n_ = p_->dim[outer_], ds_ = p_->dst[outer_], ss_ = p_->src[outer_];                              \
        npy_intp at_[STRIDED_MAXDIMS];                                                                            \
        for (int k_ = 0; k_ < outer_; ++k_)                                                                       \
            at_[k_] = 0;                                                                                          \
        for (;;) {                                                                                                \
            ROW(n_, d_, ds_, s_, ss_);                                                                            \
            int k_ = outer_ - 1;                                                                                  \
            for (; k_ >= 0; --k_) {                                                                               \
                d_ += p_->dst[k_];                                                                                \
                s_ += p_->src[k_];                                                                                \
                if (++at_[k_] < p_->dim[k_])                                                                      \
                    break;                                                                                        \
                d_ -= p_->dst[k_] * p_->dim[k_];                                                                  \
                s_ -= p_->src[k_] * p_->dim[k_];                                                                  \
                at_[k_] = 0;                                                                                      \
            }                                                                                                     \
            if (k_ < 0)                                                                                           \
                break;                                                                                            \
        }                                                                                                         \
    } while (0)

static inline void strided_copy_planned(npy_intp itemsize, const StridedPlan *plan, char *dst, const char *src)
{
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

/* A new view on the memory of `base`, of the same dtype, writable when base is. */
static inline PyObject *strided_view(PyArrayObject *base, int nd, const npy_intp *dim, const npy_intp *stride, char *data)
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

/* Whether the byte ranges of two arrays meet (conservative: the arrays need not share an element). */
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
