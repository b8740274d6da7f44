/* The parameter words of tng_elemwise (elemwise.c), and the shape of what it computes. */
#ifndef THEANO_NG_ELEMWISE_WORDS_H
#define THEANO_NG_ELEMWISE_WORDS_H

#include "native.h"

enum { E_KERNEL, E_ND, E_OPENMP_MINSIZE, E_MAY_FAIL, E_HAS_ALTERNATE, E_OPERANDS };

/* An operand's word: bits 0-31 broadcastable dimensions, 32-39 NumPy type number, 40-41 class, 44-59 input it overwrites + 1. */
#define O_BROADCAST(word, d) (((word) >> (d)) & 1)
#define O_TYPE(word) ((int)(((word) >> 32) & 0xff))
#define O_CLASS(word) ((int)(((word) >> 40) & 3))
#define O_OVERWRITES(word) ((int)(((word) >> 44) & 0xffff) - 1)
enum { PLAIN, HOISTED, ALTERNATE };

/* The common shape of the inputs. Returns 0, or -1 with an exception set. */
static int result_dims(int nd, int nin, PyObject **in, const int64_t *operands, int64_t *dims)
{
    for (int d = 0; d < nd; ++d) {
        int reference = -1;
        int64_t length = 1;
        for (int i = 0; i < nin; ++i) {
            int64_t here = PyArray_DIM((PyArrayObject *)in[i], d);
            if (O_BROADCAST(operands[i], d)) {
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
