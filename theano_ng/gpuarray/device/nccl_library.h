/* The parts of NCCL that are used: names, arguments and constants of its documented interface. The library is loaded when
 * the first group of contexts is made, so no CUDA files are needed to build this package. */
#ifndef TNG_NCCL_LIBRARY_H
#define TNG_NCCL_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef int ncclResult_t;

enum { NCCL_UNIQUE_ID_BYTES = 128 };

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* The configuration of a communicator, as NCCL 2.14 defines it. Newer versions of the library accept this struct, too:
 * `version` tells them which members exist. */
typedef struct {
    size_t size;
    unsigned magic;
    unsigned version;
    int blocking;
} ncclConfig_t;

enum { NCCL_CONFIG_VERSION = 21400 };
#define NCCL_API_MAGIC 0xcafebeefU

enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
};

enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
};

enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
};

/* The oldest supported version, as ncclGetVersion() returns it: 2.18.0 */
#define NCCL_OLDEST 21800

struct CUstream_st;

/* X(name, result, argument types) */
#define NCCL_FUNCTIONS(X)                                                                                            \
    X(ncclGetVersion, ncclResult_t, (int *))                                                                         \
    X(ncclGetErrorString, const char *, (ncclResult_t))                                                              \
    X(ncclGetLastError, const char *, (ncclComm_t))                                                                  \
    X(ncclGetUniqueId, ncclResult_t, (ncclUniqueId *))                                                               \
    X(ncclCommInitRankConfig, ncclResult_t, (ncclComm_t *, int size, ncclUniqueId, int rank, ncclConfig_t *))        \
    X(ncclCommDestroy, ncclResult_t, (ncclComm_t))                                                                   \
    X(ncclCommAbort, ncclResult_t, (ncclComm_t))                                                                     \
    X(ncclCommGetAsyncError, ncclResult_t, (ncclComm_t, ncclResult_t *))                                             \
    X(ncclAllReduce, ncclResult_t,                                                                                   \
      (const void *, void *, size_t count, int type, int operation, ncclComm_t, struct CUstream_st *))               \
    X(ncclReduce, ncclResult_t,                                                                                      \
      (const void *, void *, size_t count, int type, int operation, int root, ncclComm_t, struct CUstream_st *))     \
    X(ncclBroadcast, ncclResult_t,                                                                                   \
      (const void *, void *, size_t count, int type, int root, ncclComm_t, struct CUstream_st *))                    \
    X(ncclAllGather, ncclResult_t, (const void *, void *, size_t count, int type, ncclComm_t, struct CUstream_st *)) \
    X(ncclReduceScatter, ncclResult_t,                                                                               \
      (const void *, void *, size_t count, int type, int operation, ncclComm_t, struct CUstream_st *))

#endif
