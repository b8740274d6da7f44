/* Zeros among integer divisors.
 *
 * A kernel that divides integers notes that it has met one, at the pointer behind those of its operands, and goes on: loops without
 * branches are vectorized. So divisors are looked at before inputs are overwritten: by the kernel itself, of nodes that may overwrite what others
 * see, where the place holds a 1 when it is called; it computes nothing then if there is a zero, and notes nothing. Where a kernel is called more
 * than once, `check_divisors` looks before the first call.
 */
#ifndef THEANO_NG_DIVISORS_H
#define THEANO_NG_DIVISORS_H

#include "elemwise_words.h"
#include "strided.h"
#include <stdio.h>

/* As tensor/elemwise/divisors.py has them. */
enum { NO_DIVISOR, DIVISION, MODULO };

/* scalar/ops_arith.py has the same text. */
#define ZERO_ADVICE                                                                                          \
    "Integers have no infinity: divide by what is never 0, as T.switch(T.eq(y, 0), 1, y), or divide floats. " \
    "A switch around the division does not help, it computes both of its branches."

#define VECTOR 32 /* bytes */

/* Nobody waits for the answer of a call that fails: there are no branches. Contiguous elements are compared by vectors, four at a time; the last
 * vector overlaps with the one before it. */
#define ZERO_IN(T)                                                                                     \
    typedef T Vector_##T __attribute__((vector_size(VECTOR), aligned(1), may_alias));                  \
    STRIDED_CLONES static int zero_in_##T(const char *data, int64_t n, int64_t step)                   \
    {                                                                                                  \
        const int64_t lanes = VECTOR / (int64_t)sizeof(T);                                             \
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

/* Whether one of n integers of this size, so many bytes apart, is zero. */
static int zero_in_run(int64_t item, const char *data, int64_t n, int64_t step)
{
    switch (item) {
    case 1: return zero_in_uint8_t(data, n, step);
    case 2: return zero_in_uint16_t(data, n, step);
    case 4: return zero_in_uint32_t(data, n, step);
    default: return zero_in_uint64_t(data, n, step);
    }
}

/* Whether an array of aligned integers, which has elements, has a zero. */
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
    /* Dimensions from the largest stride to the smallest; those that repeat elements do not count. */
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

/* The first zero of an array that has one, in C order: "element [0, 3] of ", nothing for a number. */
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

/* Returns 0 when no divisor among the inputs, arrays of aligned integers that have elements, is zero; otherwise -1 with the exception set. */
static int check_divisors(int nin, PyObject **in, const struct operand_words *operands)
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

/* Sets the exception when a kernel has met a zero; `computed` is what it does with a divisor that is no input. Returns -1. */
static int zero_met(int nin, PyObject **in, const struct operand_words *operands, int64_t computed)
{
    if (check_divisors(nin, in, operands) == 0)
        PyErr_Format(PyExc_ZeroDivisionError, "integer %s by zero: the divisor is 0. " ZERO_ADVICE,
                     computed == MODULO ? "modulo" : "division");
    return -1;
}

#endif
