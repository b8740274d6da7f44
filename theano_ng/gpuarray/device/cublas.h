/* Products of matrices by cuBLASLt, for CUDA contexts. */
#ifndef TNG_CUBLAS_H
#define TNG_CUBLAS_H

#include "gpuarray/types.h"

/* A stack of matrices. The axes are batch, row and column. */
typedef struct {
    gpudata *data;
    size_t offset; /* bytes */
    size_t dims[3];
    ssize_t strides[3]; /* elements */
} matrix_stack;

/* A number, or the element of a device array if `data` is not NULL. The element is of the type of the matrices, or
 * float32 for float16 matrices. */
typedef struct {
    double number;
    gpudata *data;
    size_t offset; /* bytes */
} matrix_factor;

/* Load cuBLASLt. *version is then its version, for example 130100 for 13.1.0. If the context is no CUDA context, or if
 * the library cannot be used, return an error. */
int cublas_open(gpucontext *, size_t *version);

/* Compute out = alpha a b + beta c for each matrix of the stacks. No matrix is empty, and all shapes fit. If `tf32` is
 * nonzero, float32 factors may be rounded to TF32. Return GA_UNSUPPORTED_ERROR if cuBLASLt does not compute this
 * product, for example because a matrix has no unit stride; then nothing was done. */
int cublas_product(gpucontext *, int typecode, int tf32, const matrix_factor *alpha, const matrix_stack *a,
                   const matrix_stack *b, const matrix_factor *beta, const matrix_stack *c, const matrix_stack *out);

#endif
