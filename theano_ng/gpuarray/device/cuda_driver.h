/* The parts of CUDA's driver (libcuda) and compiler (libnvrtc) that are used: names, arguments and constants of
 * their documented interfaces. Both libraries are loaded when they are needed, so no CUDA files are needed to build
 * this package. */
#ifndef TNG_CUDA_DRIVER_H
#define TNG_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;

typedef struct CUDA_KERNEL_NODE_PARAMS_v1 {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_EXTERNAL_DEVICE = 911,
    CUDA_ERROR_UNKNOWN = 999,
};

enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2, /* the next numbers are the limits of Y and Z */
    CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,  /* likewise */
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
};

enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum {
    CU_CTX_SCHED_SPIN = 1,
    CU_CTX_SCHED_YIELD = 2,
    CU_STREAM_DEFAULT = 0,
    CU_STREAM_NON_BLOCKING = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_MEMORYTYPE_HOST = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

/* The oldest supported version: CUDA 11.4 introduced the newest function of CUDA_FUNCTIONS. */
#define CUDA_OLDEST_DRIVER 11040

/* X(name, argument types). A suffix such as _v2 selects the version of the function with these argument types. */
#define CUDA_FUNCTIONS(X)                                                                                             \
    X(cuDriverGetVersion, (int *))                                                                                    \
    X(cuGetErrorName, (CUresult, const char **))                                                                      \
    X(cuGetErrorString, (CUresult, const char **))                                                                    \
    X(cuInit, (unsigned))                                                                                             \
    X(cuDeviceGetCount, (int *))                                                                                      \
    X(cuDeviceGet, (CUdevice *, int))                                                                                 \
    X(cuDeviceGetName, (char *, int, CUdevice))                                                                       \
    X(cuDeviceGetPCIBusId, (char *, int, CUdevice))                                                                   \
    X(cuDeviceGetAttribute, (int *, int, CUdevice))                                                                   \
    X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                                      \
    X(cuDevicePrimaryCtxSetFlags_v2, (CUdevice, unsigned))                                                            \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                              \
    X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                                       \
    X(cuCtxGetCurrent, (CUcontext *))                                                                                 \
    X(cuCtxSetCurrent, (CUcontext))                                                                                   \
    X(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                                             \
    X(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                                   \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                          \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                         \
    X(cuMemFree_v2, (CUdeviceptr))                                                                                    \
    X(cuMemAllocHost_v2, (void **, size_t))                                                                           \
    X(cuMemFreeHost, (void *))                                                                                        \
    X(cuPointerGetAttribute, (void *, int, CUdeviceptr))                                                              \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                                            \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                                  \
    X(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                                    \
    X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                                \
    X(cuStreamCreate, (CUstream *, unsigned))                                                                         \
    X(cuStreamDestroy_v2, (CUstream))                                                                                 \
    X(cuStreamSynchronize, (CUstream))                                                                                \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                                               \
    X(cuStreamBeginCapture_v2, (CUstream, int))                                                                       \
    X(cuStreamEndCapture, (CUstream, CUgraph *))                                                                      \
    X(cuStreamGetCaptureInfo_v2,                                                                                      \
      (CUstream, int *status, uint64_t *id, CUgraph *, const CUgraphNode **last, size_t *count))                      \
    X(cuEventCreate, (CUevent *, unsigned))                                                                           \
    X(cuEventDestroy_v2, (CUevent))                                                                                   \
    X(cuEventRecord, (CUevent, CUstream))                                                                             \
    X(cuEventQuery, (CUevent))                                                                                        \
    X(cuEventSynchronize, (CUevent))                                                                                  \
    X(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **))                                       \
    X(cuModuleUnload, (CUmodule))                                                                                     \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                                    \
    X(cuFuncGetAttribute, (int *, int, CUfunction))                                                                   \
    X(cuFuncSetAttribute, (CUfunction, int, int))                                                                     \
    X(cuLaunchKernel,                                                                                                 \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
    X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                                      \
    X(cuGraphExecKernelNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *))                 \
    X(cuGraphLaunch, (CUgraphExec, CUstream))                                                                         \
    X(cuGraphExecDestroy, (CUgraphExec))                                                                              \
    X(cuGraphDestroy, (CUgraph))

typedef int nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6 };

/* NVRTC has these functions since CUDA 11.2. */
#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(nvrtcVersion, (int *, int *))                                                                                    \
    X(nvrtcGetNumSupportedArchs, (int *))                                                                              \
    X(nvrtcGetSupportedArchs, (int *))                                                                                 \
    X(nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    X(nvrtcDestroyProgram, (nvrtcProgram *))                                                                           \
    X(nvrtcCompileProgram, (nvrtcProgram, int, const char *const *))                                                   \
    X(nvrtcGetProgramLogSize, (nvrtcProgram, size_t *))                                                                \
    X(nvrtcGetProgramLog, (nvrtcProgram, char *))                                                                      \
    X(nvrtcGetCUBINSize, (nvrtcProgram, size_t *))                                                                     \
    X(nvrtcGetCUBIN, (nvrtcProgram, char *))                                                                           \
    X(nvrtcGetPTXSize, (nvrtcProgram, size_t *))                                                                       \
    X(nvrtcGetPTX, (nvrtcProgram, char *))

#endif
