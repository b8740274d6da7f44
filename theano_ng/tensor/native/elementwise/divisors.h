/* Detection of zeros among integer divisors.
 *
 * A kernel that divides integers does not stop at a zero, because only loops without branches are vectorized. Instead
 * the kernel sets an int to 1; the pointer to this int follows the pointers of the operands. If an output may overwrite
 * an array that other code can see, the divisors must be checked before anything is written. If the kernel is called
 * only once, it checks the divisors itself: the caller sets the int to 1 before the call; if a divisor is zero, the
 * kernel leaves the int at 1 and computes nothing, otherwise it sets the int to 0. If the kernel is called more than
 * once, `check_divisors` checks the divisors before the first call. */
#ifndef THEANO_NG_DIVISORS_H
#define THEANO_NG_DIVISORS_H

#include "elemwise_params.h"
#include "common/strided.h"
#include <stdio.h>

/* Keep equal to OPERATIONS in tensor/elemwise/divisors.py. */
enum { NO_DIVISOR, DIVISION, MODULO };

/* Keep equal to the text in scalar/ops_arith.py. */
#define ZERO_ADVICE                                                                                                    \
    "Integers have no infinity: use a divisor that is never 0, such as T.switch(T.eq(y, 0), 1, y), or divide floats. " \
    "A switch around the division does not help, because it computes both of its branches."

#define VECTOR 32 /* bytes */

/* Return 1 if one of n integers is zero. The loops have no early exit, because the time of a call that fails does not
 * matter. Contiguous elements are compared by vectors, four at a time; the last vector overlaps the previous vector. */
#define ZERO_IN(T)                                                                                     \
    typedef T Vector_##T __attribute__((vector_size(VECTOR), aligned(1), may_alias));                  \
    STRIDED_CLONES static int zero_in_##T(const char *data, int64_t n, int64_t step)                   \
    {                                                                                                  \
        const int64_t lanes = VECTOR                                                                   \
        / (int64_t)sizeof(T);                                                                          \
        if (step != (int64_t)sizeof(T) || n < lanes) {                                                 \
            int zero = 0;                                                                              \
            for (int64_t k = 0; k < n; ++k)                                                            \
                zero |= *(const T *)(data + k * step) == 0;                                            \
            return zero;                                                                               \
        }                                                                                              \
        const char *last = data + (n - lanes) * (int64_t)sizeof(T);                                    \
        Vector_##T zero = (Vector_##T)(*(const Vector_##T *)last == 0);                                \
        for (; last - data >= 3 * VECTOR; data += 4 * VECTOR) {                                        \
            const Vector_##T *v = (const Vector_##T *)data;                                            \
            zero |= (Vector_##T)((v[0] == 0) | (v[1] == 0)) | (Vector_##T)((v[2] == 0) | (v[3] == 0)); \
        }                                                                                              \
        for (; data < last; data += VECTOR)                                                            \
            zero |= (Vector_##T)(*(const Vector_##T *)data == 0);                                      \
        uint64_t words[VECTOR / 8];                                                                    \
        memcpy(words, &zero, VECTOR);                                                                  \
        return (words[0] | words[1] | words[2] | words[3]) != 0;                                       \
    }
ZERO_IN(uint8_t)
ZERO_IN(uint16_t)
ZERO_IN(uint32_t)
ZERO_IN(uint64_t)

/* Return 1 if one of n integers is zero. `item`: the size of an integer in bytes; `step`: bytes from one integer to the
 * next. */
static int zero_in_run(int64_t item, const char *data, int64_t n, int64_t step)
{
    switch (item) {
    case 1: return zero_in_uint8_t(data, n, step);
    case 2: return zero_in_uint16_t(data, n, step);
    case 4: return zero_in_uint32_t(data, n, step);
    default: return zero_in_uint64_t(data, n, step);
    }
}

/* Return 1 if a non-empty array of aligned integers has a zero. */
static int has_zero(PyArrayObject *a)
{
    int64_t item = PyArray_ITEMSIZE(a);
    int nd = PyArray_NDIM(a);
    if (PyArray_ISONESEGMENT(a)) {
        int64_t n = 1;
        for (int d = 0; d < nd; ++d)
            n *= PyArray_DIM(a, d);
        return zero_in_run(item, PyArray_BYTES(a), n, item);
    }
    /* Sort the dimensions from the largest stride to the smallest; dimensions that repeat elements are dropped. */
    npy_intp dims[nd], index[STRIDED_MAXDIMS] = {0};
    for (int d = 0; d < nd; ++d)
        dims[d] = PyArray_STRIDE(a, d) == 0 ? 1 : PyArray_DIM(a, d);
    StridedPlan plan;
    strided_plan(&plan, nd, dims, PyArray_STRIDES(a), PyArray_STRIDES(a));
    const char *at = PyArray_BYTES(a);
    int last = plan.nd - 1;
    if (last < 0)
        return zero_in_run(item, at, 1, item);
    for (int d = 0; d >= 0;) {
        if (zero_in_run(item, at, plan.dim[last], plan.src[last]))
            return 1;
        for (d = last - 1; d >= 0; --d) {
            at += plan.src[d];
            if (++index[d] < plan.dim[d])
                break;
            at -= plan.dim[d] * plan.src[d];
            index[d] = 0;
        }
    }
    return 0;
}

/* Write the position of the first zero in C order as text: "element [0, 3] of ", or an empty text for a 0-d array. The
 * array must have a zero. */
static void zero_place(PyArrayObject *a, char *text)
{
    int nd = PyArray_NDIM(a);
    npy_intp index[STRIDED_MAXDIMS] = {0};
    const char *at = PyArray_BYTES(a);
    while (!zero_in_run(PyArray_ITEMSIZE(a), at, 1, 0))
        for (int d = nd - 1; d >= 0; --d) {
            at += PyArray_STRIDE(a, d);
            if (++index[d] < PyArray_DIM(a, d))
                break;
            at -= PyArray_DIM(a, d) * PyArray_STRIDE(a, d);
            index[d] = 0;
        }
    *text = 0;
    for (int d = 0; d < nd; ++d)
        text += sprintf(text, "%s%lld%s", d == 0 ? "element [" : ", ", (long long)index[d], d == nd - 1 ? "] of " : "");
}

/* Return 0 if no divisor among the inputs is zero. Otherwise return -1 with the exception set. The divisors are
 * non-empty arrays of aligned integers. */
static int check_divisors(int nin, PyObject **in, const struct operand_params *operands)
{
    for (int i = 0; i < nin; ++i)
        if (operands[i].divides != NO_DIVISOR && has_zero((PyArrayObject *)in[i])) {
            char place[24 * STRIDED_MAXDIMS];
            zero_place((PyArrayObject *)in[i], place);
            PyErr_Format(PyExc_ZeroDivisionError, "integer %s by zero: %sinput[%d] is 0. " ZERO_ADVICE,
                         operands[i].divides == MODULO ? "modulo" : "division", place, i);
            return -1;
        }
    return 0;
}

/* Set the exception after a kernel has found a zero. `computed`: DIVISION or MODULO if the kernel divides by a value
 * that is not an input. Return -1. */
static int zero_met(int nin, PyObject **in, const struct operand_params *operands, int64_t computed)
{
    if (check_divisors(nin, in, operands) == 0)
        PyErr_Format(PyExc_ZeroDivisionError, "integer %s by zero: the divisor is 0. " ZERO_ADVICE,
                     computed == MODULO ? "modulo" : "division");
    return -1;
}

#endif
