/* The parts of cuFFT that are used: names, arguments and constants of its documented interface. The library is loaded
 * when it is needed, so no CUDA files are needed to build this package. */
#ifndef TNG_CUFFT_API_H
#define TNG_CUFFT_API_H

#include <stddef.h>

typedef int cufftResult;
typedef int cufftHandle;
struct CUstream_st;

enum {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_SETUP_FAILED = 7,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_NOT_SUPPORTED = 16,
};

enum {
    CUFFT_FORWARD = -1,
    CUFFT_INVERSE = 1,
    CUFFT_R2C = 0x2a,
    CUFFT_C2R = 0x2c,
    CUFFT_C2C = 0x29,
    CUFFT_D2Z = 0x6a,
    CUFFT_Z2D = 0x6c,
    CUFFT_Z2Z = 0x69,
};

/* X(name, argument types) */
#define CUFFT_FUNCTIONS(X)                                                                                    \
    X(cufftCreate, (cufftHandle *))                                                                           \
    X(cufftDestroy, (cufftHandle))                                                                            \
    X(cufftSetStream, (cufftHandle, struct CUstream_st *))                                                    \
    X(cufftSetAutoAllocation, (cufftHandle, int on))                                                          \
    X(cufftMakePlanMany64,                                                                                    \
      (cufftHandle, int rank, long long *n, long long *inembed, long long istride, long long idist,           \
       long long *onembed, long long ostride, long long odist, int type, long long batch, size_t *workspace)) \
    X(cufftSetWorkArea, (cufftHandle, void *))                                                                \
    X(cufftExecR2C, (cufftHandle, void *real, void *pairs))                                                   \
    X(cufftExecC2R, (cufftHandle, void *pairs, void *real))                                                   \
    X(cufftExecC2C, (cufftHandle, void *from, void *to, int direction))                                       \
    X(cufftExecD2Z, (cufftHandle, void *real, void *pairs))                                                   \
    X(cufftExecZ2D, (cufftHandle, void *pairs, void *real))                                                   \
    X(cufftExecZ2Z, (cufftHandle, void *from, void *to, int direction))

#endif
