/* The parts of cuSOLVER that are used: names, arguments and constants of its documented interface for dense matrices.
 * The library is loaded when it is needed, so no CUDA files are needed to build this package. */
#ifndef TNG_CUSOLVER_API_H
#define TNG_CUSOLVER_API_H

typedef int cusolverStatus_t;
typedef struct cusolverDnContext *cusolverDnHandle_t;
struct CUstream_st;

enum {
    CUSOLVER_STATUS_SUCCESS = 0,
    CUSOLVER_STATUS_NOT_INITIALIZED = 1,
    CUSOLVER_STATUS_ALLOC_FAILED = 2,
    CUSOLVER_STATUS_INVALID_VALUE = 3,
    CUSOLVER_STATUS_ARCH_MISMATCH = 4,
    CUSOLVER_STATUS_EXECUTION_FAILED = 6,
    CUSOLVER_STATUS_INTERNAL_ERROR = 7,
    CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
    CUSOLVER_STATUS_NOT_SUPPORTED = 9,
};

enum {
    CUBLAS_FILL_MODE_LOWER = 0,
    CUBLAS_FILL_MODE_UPPER = 1,
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUSOLVER_EIG_MODE_NOVECTOR = 0,
    CUSOLVER_EIG_MODE_VECTOR = 1,
};

/* X(name, argument types) */
#define CUSOLVER_FUNCTIONS(X)                   \
    X(cusolverDnCreate, (cusolverDnHandle_t *)) \
    X(cusolverDnDestroy, (cusolverDnHandle_t))  \
    X(cusolverDnSetStream, (cusolverDnHandle_t, struct CUstream_st *))

/* X(name, argument types) for the functions cusolverDnS<name> and cusolverDnD<name>. Matrices, workspaces and other
 * arrays are of float or double. `info` and `pivots` are arrays of int on the device. The size of a workspace is its
 * number of elements. */
#define CUSOLVER_ROUTINES(X)                                                                                           \
    X(getrf_bufferSize, (cusolverDnHandle_t, int m, int n, void *a, int lda, int *size))                               \
    X(getrf, (cusolverDnHandle_t, int m, int n, void *a, int lda, void *work, int *pivots, int *info))                 \
    X(getrs, (cusolverDnHandle_t, int trans, int n, int nrhs, const void *a, int lda, const int *pivots, void *b,      \
              int ldb, int *info))                                                                                     \
    X(potrf_bufferSize, (cusolverDnHandle_t, int uplo, int n, void *a, int lda, int *size))                            \
    X(potrf, (cusolverDnHandle_t, int uplo, int n, void *a, int lda, void *work, int size, int *info))                 \
    X(potrs, (cusolverDnHandle_t, int uplo, int n, int nrhs, const void *a, int lda, void *b, int ldb, int *info))     \
    X(geqrf_bufferSize, (cusolverDnHandle_t, int m, int n, void *a, int lda, int *size))                               \
    X(geqrf, (cusolverDnHandle_t, int m, int n, void *a, int lda, void *tau, void *work, int size, int *info))         \
    X(orgqr_bufferSize, (cusolverDnHandle_t, int m, int n, int k, const void *a, int lda, const void *tau, int *size)) \
    X(orgqr,                                                                                                           \
      (cusolverDnHandle_t, int m, int n, int k, void *a, int lda, const void *tau, void *work, int size, int *info))   \
    X(gesvd_bufferSize, (cusolverDnHandle_t, int m, int n, int *size))                                                 \
    X(gesvd, (cusolverDnHandle_t, signed char jobu, signed char jobvt, int m, int n, void *a, int lda, void *s,        \
              void *u, int ldu, void *vt, int ldvt, void *work, int size, void *rwork, int *info))                     \
    X(syevd_bufferSize,                                                                                                \
      (cusolverDnHandle_t, int jobz, int uplo, int n, const void *a, int lda, const void *w, int *size))               \
    X(syevd,                                                                                                           \
      (cusolverDnHandle_t, int jobz, int uplo, int n, void *a, int lda, void *w, void *work, int size, int *info))

#endif
