/* The parts of cuBLASLt that are used: names, arguments and constants of its documented interface. The library is loaded
 * when the first product is computed, so no CUDA files are needed to build this package. */
#ifndef TNG_CUBLAS_LT_H
#define TNG_CUBLAS_LT_H

#include <stddef.h>
#include <stdint.h>

typedef int cublasStatus_t;
typedef struct cublasLtContext *cublasLtHandle_t;

/* The descriptors are opaque here. */
typedef struct tng_matmul_desc *cublasLtMatmulDesc_t;
typedef struct tng_matrix_layout *cublasLtMatrixLayout_t;
typedef struct tng_matmul_preference *cublasLtMatmulPreference_t;

/* An algorithm. It can be stored, and used later with the same version of the library. */
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
    CUBLAS_OP_N = 0,
    CUBLAS_OP_T = 1,
    CUBLASLT_POINTER_MODE_DEVICE = 1,
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};

/* Attributes of descriptors, with the types of their values */
enum {
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,           /* int32_t */
    CUBLASLT_MATMUL_DESC_TRANSA = 3,                 /* int32_t */
    CUBLASLT_MATMUL_DESC_TRANSB = 4,                 /* int32_t */
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,          /* int32_t */
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6, /* int64_t, elements */
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    /* uint64_t */
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  /* uint32_t */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  /* uint32_t; the next numbers are B, C and D */
};

/* X(name, result, argument types) */
#define CUBLAS_FUNCTIONS(X)                                                                                            \
    X(cublasLtGetStatusName, const char *, (cublasStatus_t))                                                           \
    X(cublasLtGetStatusString, const char *, (cublasStatus_t))                                                         \
    X(cublasLtCreate, cublasStatus_t, (cublasLtHandle_t *))                                                            \
    X(cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t))                                                             \
    X(cublasLtMatmulDescCreate, cublasStatus_t, (cublasLtMatmulDesc_t *, int compute, int scale))                      \
    X(cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t))                                               \
    X(cublasLtMatmulDescSetAttribute, cublasStatus_t, (cublasLtMatmulDesc_t, int, const void *, size_t))               \
    X(cublasLtMatrixLayoutCreate, cublasStatus_t,                                                                      \
      (cublasLtMatrixLayout_t *, int type, uint64_t rows, uint64_t columns, int64_t leading))                          \
    X(cublasLtMatrixLayoutDestroy, cublasStatus_t, (cublasLtMatrixLayout_t))                                           \
    X(cublasLtMatrixLayoutSetAttribute, cublasStatus_t, (cublasLtMatrixLayout_t, int, const void *, size_t))           \
    X(cublasLtMatmulPreferenceCreate, cublasStatus_t, (cublasLtMatmulPreference_t *))                                  \
    X(cublasLtMatmulPreferenceDestroy, cublasStatus_t, (cublasLtMatmulPreference_t))                                   \
    X(cublasLtMatmulPreferenceSetAttribute, cublasStatus_t, (cublasLtMatmulPreference_t, int, const void *, size_t))   \
    X(cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                                                                  \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
       cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int count, cublasLtMatmulHeuristicResult_t[], int *found))  \
    X(cublasLtMatmulAlgoCheck, cublasStatus_t,                                                                         \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
       cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, cublasLtMatmulHeuristicResult_t *))                       \
    X(cublasLtMatmul, cublasStatus_t,                                                                                  \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *alpha, const void *a, cublasLtMatrixLayout_t,               \
       const void *b, cublasLtMatrixLayout_t, const void *beta, const void *c, cublasLtMatrixLayout_t, void *d,        \
       cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *workspace, size_t size, struct CUstream_st *))

#endif
