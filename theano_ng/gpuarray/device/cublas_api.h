/* The parts of cuBLAS that solve triangular systems: names, arguments and constants of its documented interface. The
 * library is loaded when it is needed, so no CUDA files are needed to build this package. Products use cuBLASLt
 * (cublas_lt.h). */
#ifndef TNG_CUBLAS_API_H
#define TNG_CUBLAS_API_H

#include <stddef.h>

typedef int cublasStatus_t;
typedef struct cublasContext *cublasHandle_t;
struct CUstream_st;

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
};

enum {
    CUBLAS_SIDE_LEFT = 0,
    CUBLAS_SIDE_RIGHT = 1,
    CUBLAS_FILL_MODE_LOWER = 0,
    CUBLAS_FILL_MODE_UPPER = 1,
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLAS_DIAG_NON_UNIT = 0,
};

/* X(name, result, argument types). The last two functions are for float and double. */
#define CUBLAS_SOLVE_FUNCTIONS(X)                                                                               \
    X(cublasGetStatusName, const char *, (cublasStatus_t))                                                      \
    X(cublasGetStatusString, const char *, (cublasStatus_t))                                                    \
    X(cublasCreate_v2, cublasStatus_t, (cublasHandle_t *))                                                      \
    X(cublasDestroy_v2, cublasStatus_t, (cublasHandle_t))                                                       \
    X(cublasSetStream_v2, cublasStatus_t, (cublasHandle_t, struct CUstream_st *))                               \
    X(cublasSetWorkspace_v2, cublasStatus_t, (cublasHandle_t, void *workspace, size_t size))                    \
    X(cublasStrsm_v2, cublasStatus_t,                                                                           \
      (cublasHandle_t, int side, int uplo, int trans, int diag, int m, int n, const void *alpha, const void *a, \
       int lda, void *b, int ldb))                                                                              \
    X(cublasDtrsm_v2, cublasStatus_t,                                                                           \
      (cublasHandle_t, int side, int uplo, int trans, int diag, int m, int n, const void *alpha, const void *a, \
       int lda, void *b, int ldb))

#endif
