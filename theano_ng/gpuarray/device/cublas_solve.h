/* Triangular systems by cuBLAS, for CUDA contexts. */
#ifndef TNG_CUBLAS_SOLVE_H
#define TNG_CUBLAS_SOLVE_H

#include "device.h"

/* Load cuBLAS. *version is then its version, for example 120903 for 12.9.3. If the context is no CUDA context, or if the
 * library cannot be used, return an error. */
int cublas_solve_open(gpucontext *, size_t *version);

/* A triangular system. Matrices are given by the addresses of their first elements, and stored by columns: adjacent
 * elements of a row are `leading` elements apart. All lengths are positive and fit into an int. */
typedef struct {
    int typecode;         /* GA_FLOAT or GA_DOUBLE */
    int from_right;       /* solve X op(A) = B instead of op(A) X = B */
    int upper;            /* the triangle of A that is read */
    int transposed;       /* op(A) is the transpose of A */
    size_t rows, columns; /* of B */
    device_memory a, b;
    size_t a_leading, b_leading;
} triangular_system;

/* Overwrite B by the solution X. */
int cublas_solve_triangular(gpucontext *, const triangular_system *);

#endif
