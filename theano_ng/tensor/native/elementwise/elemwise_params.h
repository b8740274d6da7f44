/* The packed parameters of tng_elemwise (elemwise.c), and the shape of its result. */
#ifndef THEANO_NG_ELEMWISE_PARAMS_H
#define THEANO_NG_ELEMWISE_PARAMS_H

#include "native.h"

/* An input or output.
 *   broadcastable: bit d is set if dimension d is broadcastable
 *   type_number: NumPy's type number
 *   kind: how the kernel reads the operand (VARYING, HOISTED or MAYBE_BROADCAST)
 *   overwrites: for an output, the input that it overwrites (-1: none)
 *   divides: DIVISION or MODULO if the kernel divides by the operand: a zero is then an error (divisors.h) */
NATIVE_PARAMS(operand, broadcastable, type_number, kind, overwrites, divides);
enum { VARYING, HOISTED, MAYBE_BROADCAST };

/* The packed parameters of tng_elemwise.
 *   kernel: address of the kernel
 *   program: address of the program, if the kernel is the interpreter (blocks/blocks.h)
 *   scratch: address of scratch memory
 *   ndim: number of dimensions
 *   openmp_minsize: minimum number of elements for which several threads share the work (0: never)
 *   may_fail: the kernel uses Python's API and may set an exception
 *   has_maybe_broadcast: an input is of kind MAYBE_BROADCAST
 *   computed_divisor: DIVISION or MODULO if the kernel divides by a value that it computes (divisors.h)
 *   check_divisors_first: divisors among the inputs are checked before an input is overwritten
 *   operands: the inputs, then the outputs */
NATIVE_TABLE(elemwise, operand, operands, kernel, program, scratch, ndim, openmp_minsize, may_fail, has_maybe_broadcast,
             computed_divisor, check_divisors_first);

static inline int is_broadcast(const struct operand_params *operand, int d)
{
    return operand->broadcastable >> d & 1;
}

/* Raise ValueError for an input that is declared broadcastable in dimension d, although its length there is not 1.
 * Return -1. */
static int refuse_broadcast(int input, int d, int64_t here)
{
    PyErr_Format(PyExc_ValueError,
                 "Input dimension mis-match. (input[%d].shape[%d] = %lld, but its type says that this dimension is "
                 "broadcastable: its length must be 1)",
                 input, d, (long long)here);
    return -1;
}

/* Raise ValueError for two inputs that have different lengths in dimension d. Return -1. */
static int refuse_lengths(int d, int one, int64_t length, int other, int64_t here)
{
    PyErr_Format(PyExc_ValueError,
                 "Input dimension mis-match. (input[%d].shape[%d] = %lld, input[%d].shape[%d] = %lld)", one, d,
                 (long long)length, other, d, (long long)here);
    return -1;
}

/* Compute the common shape of the inputs. Return 0, or -1 with an exception set. */
static int result_dims(int nd, int nin, PyObject **in, const struct operand_params *operands, int64_t *dims)
{
    for (int d = 0; d < nd; ++d) {
        int reference = -1;
        int64_t length = 1;
        for (int i = 0; i < nin; ++i) {
            int64_t here = PyArray_DIM((PyArrayObject *)in[i], d);
            if (is_broadcast(&operands[i], d)) {
                if (here != 1)
                    return refuse_broadcast(i, d, here);
            }
            else if (reference < 0) {
                reference = i;
                length = here;
            }
            else if (here != length)
                return refuse_lengths(d, reference, length, i, here);
        }
        dims[d] = length;
    }
    return 0;
}

#endif
