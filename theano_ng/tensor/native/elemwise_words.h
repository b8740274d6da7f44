/* The parameter words of tng_elemwise (elemwise.c), and the shape of what it computes. */
#ifndef THEANO_NG_ELEMWISE_WORDS_H
#define THEANO_NG_ELEMWISE_WORDS_H

#include "native.h"

/* An input or output: the dimensions that are broadcastable (bits), NumPy's number of its type, how the kernel reads it, which input an
 * output overwrites (-1: none), and whether the kernel divides by it, which is an error where it is zero (divisors.h). */
NATIVE_WORDS(operand, broadcastable, type_number, kind, overwrites, divides);
enum { PLAIN, HOISTED, ALTERNATE };

/* The kernel's address, and that of the program that it runs if it is the interpreter (blocks/blocks.h); the rank; the size from which threads share the work (0: never); whether the kernel uses Python's API and may set an
 * exception; whether an input is of kind ALTERNATE; what the kernel does with a divisor that it computes (divisors.h); whether divisors among
 * the inputs are looked at before an input is overwritten; the inputs, then the outputs. */
NATIVE_TABLE(elemwise, operand, operands, kernel, program, scratch, ndim, openmp_minsize, may_fail, has_alternate, computed_divisor, looks_first);

static inline int is_broadcast(const struct operand_words *operand, int d)
{
    return operand->broadcastable >> d & 1;
}

/* The common shape of the inputs. Returns 0, or -1 with an exception set. */
static int result_dims(int nd, int nin, PyObject **in, const struct operand_words *operands, int64_t *dims)
{
    for (int d = 0; d < nd; ++d) {
        int reference = -1;
        int64_t length = 1;
        for (int i = 0; i < nin; ++i) {
            int64_t here = PyArray_DIM((PyArrayObject *)in[i], d);
            if (is_broadcast(&operands[i], d)) {
                if (here != 1) {
                    PyErr_Format(PyExc_ValueError,
                                 "Input dimension mis-match. (input[%d].shape[%d] = %lld, but its type says that this dimension is "
                                 "broadcastable: its length must be 1)",
                                 i, d, (long long)here);
                    return -1;
                }
            }
            else if (reference < 0) {
                reference = i;
                length = here;
            }
            else if (here != length) {
                PyErr_Format(PyExc_ValueError, "Input dimension mis-match. (input[%d].shape[%d] = %lld, input[%d].shape[%d] = %lld)",
                             reference, d, (long long)length, i, d, (long long)here);
                return -1;
            }
        }
        dims[d] = length;
    }
    return 0;
}

#endif
