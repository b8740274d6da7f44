/* Declarations that cuda.c (devices, memory, order) and cuda_program.c (compiler, kernels, launches) share, and the
 * handles that NVIDIA's libraries need. */
#ifndef TNG_CUDA_H
#define TNG_CUDA_H

#include <pthread.h>

#include "cuda_driver.h"
#include "device.h"

/* The module exports its symbols to all libraries because the C code of Ops needs some of them. The following symbols
 * are private. */
#pragma GCC visibility push(hidden)

/* The driver's functions; set when the first device is opened. */
struct cuda_functions {
#define X(name, arguments) CUresult(*name) arguments;
    CUDA_FUNCTIONS(X)
#undef X
};
extern struct cuda_functions cuda;

/* The advice at the end of messages about a library of CUDA that is missing or does not fit */
#define CUDA_ADVICE                                                                                              \
    "pip install 'theano_ng[cuda12]' or 'theano_ng[cuda13]', whichever is not newer than the CUDA version that " \
    "nvidia-smi shows, installs it"

/* Pinned host memory that the device reads and writes by DMA. One half is filled while the other half is emptied. Threads
 * copy from and to a device without the GIL, and `lock` protects the buffer. */
struct cuda_staging {
    pthread_mutex_t lock;
    char *memory;
    CUevent copied[2]; /* for each half, the event that follows the last copy from or to it */
};

/* Number of slots of large copies to the device */
enum { CUDA_UPLOAD_SLOTS = 8 };

/* Copies to the device share a buffer: a small copy is appended to the data of earlier copies. */
struct cuda_upload {
    struct cuda_staging staging;
    int half;          /* index of the half that is being filled */
    size_t used;       /* bytes used of this half */
    int on_its_way[2]; /* for each half, whether `copied` has been recorded, and may not have happened yet */
    uint64_t copies;   /* number of copies so far */
};

/* Large copies to the device run in a separate stream, so that they do not wait for computations. Because computations
 * may still use the target, this stream copies pieces to other memory on the device, the slots. The stream of the
 * computations then copies them from a slot to the target. The event `landed` is recorded after the first copy, `taken`
 * after the second. */
struct cuda_large_uploads {
    struct cuda_staging staging; /* for sources that are not page-locked */
    CUstream stream;             /* NULL until the first large copy */
    CUdeviceptr memory;
    struct {
        CUevent landed, taken;
        int used; /* whether `taken` has been recorded */
    } slot[CUDA_UPLOAD_SLOTS];
    unsigned next;
};

/* A recorded graph */
struct cuda_graph {
    CUgraph graph;
    CUgraphExec executable; /* NULL until the graph is ended */
    unsigned launched;      /* number of launches */
    CUgraphNode *launches;  /* the nodes of the launches, in their order */
    unsigned count, room;   /* number of nodes in `launches`, and space for them */
};

typedef struct cuda_device {
    device base;
    CUdevice id;
    int retained;
    uint64_t peers;    /* bit mask of the devices for which enable_peer_access() has been called */
    CUcontext context; /* the primary context, which all libraries in a process share */
    CUstream stream;
    struct cuda_upload upload;
    struct cuda_large_uploads large;
    struct cuda_staging download;
    int capability; /* 90 means 9.0 */
    /* Graphs are recorded in a separate stream, so that threads can copy and wait in `stream` at the same time. */
    CUstream recorder;                  /* NULL until the first graph */
    struct cuda_graph *recording;       /* NULL unless a graph is being recorded */
    _Atomic uintptr_t recording_thread; /* the thread that records a graph, or 0 */
    _Atomic int lost;                   /* the driver reported that the context is unusable */
    struct cuda_program *programs;
    struct cuda_kernel *kernels;
    /* The following are NULL until a library is first used. */
    struct cublas *cublas;       /* see cublas.c */
    struct cublas_v2 *solver;    /* see cublas_solve.c */
    struct cusolver *cusolver;   /* see cusolver.c */
    struct cufft *cufft;         /* see cufft.c */
    struct dnn_state *cudnn;     /* see cudnn.c */
    struct nccl_member *members; /* see nccl.c; list of the memberships in groups of devices */
} cuda_device;

int cuda_failed(cuda_device *, CUresult, const char *what);

#define CUDA_CHECK(d, call, what)                         \
    do {                                                  \
        CUresult status_ = (call);                        \
        if (__builtin_expect(status_ != CUDA_SUCCESS, 0)) \
            return cuda_failed(d, status_, what);         \
    } while (0)

/* CUDA_ENTER makes the device's context current in this thread. At the end of the C block, cuda_leave restores the
 * context that another device or library had set before. If there was none, the device's context stays current. */
struct cuda_guard {
    CUcontext before;
    int changed;
};

static inline void cuda_leave(struct cuda_guard *guard)
{
    if (__builtin_expect(guard->changed, 0))
        cuda.cuCtxSetCurrent(guard->before);
}

static inline CUresult cuda_enter(cuda_device *d, struct cuda_guard *guard)
{
    guard->changed = 0;
    CUresult status = cuda.cuCtxGetCurrent(&guard->before);
    if (__builtin_expect(status != CUDA_SUCCESS || guard->before == d->context, 1))
        return status;
    guard->changed = guard->before != NULL;
    return cuda.cuCtxSetCurrent(d->context);
}

#define CUDA_ENTER(d)                                              \
    struct cuda_guard guard_ __attribute__((cleanup(cuda_leave))); \
    CUDA_CHECK(d, cuda_enter(d, &guard_), "making a context current")

/* Whether this thread is recording a graph */
static inline int cuda_is_recording(const cuda_device *d)
{
    uintptr_t thread = d->recording_thread;
    return __builtin_expect(thread != 0, 0) && thread == (uintptr_t)pthread_self();
}

/* The stream of launches, copies on the device, fills and products of this thread */
static inline CUstream cuda_stream(const cuda_device *d)
{
    return cuda_is_recording(d) ? d->recorder : d->stream;
}

/* ---- cublas.c, cublas_solve.c, cusolver.c, cufft.c ---- */
void cublas_close(cuda_device *);
void cublas_solve_close(cuda_device *);
void cusolver_close(cuda_device *);
void cufft_close(cuda_device *);

/* ---- cuda_library.c ---- */

/* One of NVIDIA's libraries that runs on devices */
struct cuda_library {
    const char *which;        /* its name in device_library(): "cusolver" */
    const char *title;        /* its name in messages: "cuSOLVER" */
    const char *property;     /* the function that returns the three parts of the version: "cusolverGetProperty" */
    const char *const *names; /* files that are tried if Python has set no path, then NULL */
    int oldest[3];            /* the oldest version that can be used */
    int before_cuda;          /* major version of CUDA, minus the library's major version */
    const char *(*bind)(void *loaded); /* look up the functions; return the name of a missing function, or NULL */
    void *loaded;                      /* NULL until cuda_library_load() has succeeded */
    int version[3];
};

/* Load the library on the first call. Check that it has all functions, is not too old, and that the driver supports
 * it. */
int cuda_library_load(struct cuda_library *);
/* Open a library for a context: check the context, and load the library. *d is then the device. */
int cuda_library_open(struct cuda_library *, gpucontext *, cuda_device **d);
/* Return the version as one number: 120401 for 12.4.1. */
size_t cuda_library_version(const struct cuda_library *);

/* ---- cudnn.c ---- */
void cudnn_close(cuda_device *);

/* ---- nccl.c ---- */
void nccl_close(cuda_device *);

/* ---- cuda_program.c ---- */
int cuda_build(device *, const char *text, int flags, const char *options, const void *binary, size_t binary_size,
               device_program *);
int cuda_kernel(device *, void *program, const char *name, device_kernel *);
int cuda_launch(device *, void *kernel, unsigned ndim, const size_t *groups, const size_t *group, size_t local_memory,
                unsigned count, void *const *values, const size_t *sizes);
int cuda_replace(device *, void *graph, unsigned number, void *kernel, unsigned ndim, const size_t *groups,
                 const size_t *group, size_t local_memory, unsigned count, void *const *values, const size_t *sizes);
void cuda_forget_programs(cuda_device *);
/* Describe the compiler without loading it. */
void cuda_compiler_name(char *text, size_t size);

#pragma GCC visibility pop

#endif
