/* Factorizations and linear systems by cuSOLVER, for CUDA contexts.
 *
 * Arrays are given by the addresses of their first elements. Matrices are stored by columns, as in LAPACK: adjacent
 * elements of a column are adjacent in memory, and adjacent elements of a row are `leading` elements apart. All lengths
 * are positive and fit into an int. `typecode` is GA_FLOAT or GA_DOUBLE. `info` and `pivots` are arrays of int32. The
 * work is done in the order of the device's stream; *info is the result of the routine, as LAPACK documents it. */
#ifndef TNG_CUSOLVER_H
#define TNG_CUSOLVER_H

#include "device.h"

/* Load cuSOLVER. *version is then its version, for example 110701 for 11.7.1. If the context is no CUDA context, or if
 * the library cannot be used, return an error. */
int cusolver_open(gpucontext *, size_t *version);

/* Compute the LU factors of a square matrix, in place. */
int cusolver_lu(gpucontext *, int typecode, size_t n, device_memory a, size_t leading, device_memory pivots,
                device_memory info);
/* Solve systems with the factors of cusolver_lu(). b has `count` columns, which are contiguous, and becomes the
 * solution. `transposed`: solve the systems of the transposed matrix. */
int cusolver_lu_solve(gpucontext *, int typecode, int transposed, size_t n, size_t count, device_memory lu,
                      size_t leading, device_memory pivots, device_memory b, device_memory info);
/* Compute the Cholesky factor of a matrix, in place. Only the lower or upper triangle is read and written. */
int cusolver_cholesky(gpucontext *, int typecode, int upper, size_t n, device_memory a, size_t leading,
                      device_memory info);
/* Solve systems with the factor of cusolver_cholesky(). For b, see cusolver_lu_solve(). */
int cusolver_cholesky_solve(gpucontext *, int typecode, int upper, size_t n, size_t count, device_memory factor,
                            device_memory b, device_memory info);
/* Compute the QR factors of a contiguous matrix (m, n), in place: R in the upper triangle, and the reflectors below it
 * and in `tau`. */
int cusolver_qr(gpucontext *, int typecode, size_t m, size_t n, device_memory a, device_memory tau, device_memory info);
/* Replace the first k columns, which contain the reflectors of cusolver_qr(), by the first k columns of Q. */
int cusolver_qr_columns(gpucontext *, int typecode, size_t m, size_t k, device_memory a, device_memory tau,
                        device_memory info);
/* Compute the singular values s of a contiguous matrix (m, n) with m >= n, and singular vectors u and vt. job: 'A' for
 * all vectors, 'S' for the first n, 'N' for none. The matrix is overwritten. */
int cusolver_svd(gpucontext *, int typecode, char job, size_t m, size_t n, device_memory a, device_memory s,
                 device_memory u, device_memory vt, device_memory info);
/* Compute the eigenvalues w of a contiguous symmetric matrix, of which one triangle is read. If `vectors`, the
 * eigenvectors overwrite the matrix, otherwise the matrix is destroyed. */
int cusolver_eigh(gpucontext *, int typecode, int vectors, int upper, size_t n, device_memory a, device_memory w,
                  device_memory info);

#endif
