/* The interface of a back end: eighteen functions for devices, memory and kernels. cuda.c, opencl.c and stub.c each
 * define a table of these functions; code outside of these files does not depend on the back end.
 *
 * `close` and `release` return nothing. All other functions return GA_NO_ERROR or a code of gpuarray/error.h, and store
 * a message by device_failed(). A device does its work in the order of the calls (one stream). `read` and `sync`
 * wait for the device. `write` waits until its source can be reused. `close`, `release` and `fence` may wait.
 * Several threads can call `write`, `read` and `sync` at the same time; meanwhile, one other thread can call any
 * function. */
#ifndef TNG_DEVICE_H
#define TNG_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "gpuarray/error.h"
#include "gpuarray/types.h"

/* A CUdeviceptr or a cl_mem. 0 means no memory. */
typedef uint64_t device_memory;

/* The first member of every back end's device record. */
typedef struct device {
    const struct device_table *table;
} device;

typedef struct device_info {
    char name[128];        /* "Tesla K80" */
    char id[64];           /* PCI address, such as "0000:83:00.0"; in OpenCL, platform and device number, as "0:1" */
    char binaries[160];    /* the kind of device and the versions of compiler and driver, on which binaries depend */
    size_t memory;         /* bytes in total */
    size_t free_memory;    /* bytes free now; `memory` if the back end cannot find out */
    size_t largest;        /* maximum size of one allocation, in bytes */
    size_t alignment;      /* alignment of blocks inside a segment, bytes */
    size_t local_memory;   /* bytes of local memory that a group can use */
    size_t max_group;      /* maximum number of threads in a group */
    size_t max_threads[3]; /* maximum number of threads in a group along each axis */
    size_t max_groups[3];  /* maximum number of groups in a launch along each axis */
    unsigned processors;
    unsigned warp;         /* threads that run in lockstep; 1 on CPUs */
    unsigned vector_bytes; /* size of the vectors in which one thread computes; 0 on GPUs */
    size_t arguments;      /* bytes of all arguments of a kernel */
    int has_double, has_half;
    int has_long_atomics; /* whether kernels have atomic functions for 64 bits */
    int on_host;          /* whether device memory is host memory */
    int shares_addresses; /* whether `copy` also accepts memory of other devices of this back end */
} device_info;

typedef struct device_kernel {
    void *handle;
    size_t max_group; /* maximum number of threads in a group of this kernel */
    size_t preferred; /* the size of a group should be a multiple of this number */
} device_kernel;

typedef struct device_program {
    void *handle;
    void *binary; /* malloc'd binary for the cache; NULL if the program was built from a binary */
    size_t binary_size;
    char *log; /* malloc'd output of the compiler; NULL if there is none */
} device_program;

enum device_graph_step { DEVICE_GRAPH_BEGIN, DEVICE_GRAPH_END, DEVICE_GRAPH_RUN, DEVICE_GRAPH_RELEASE };

typedef struct device_table {
    const char *name; /* "cuda", "opencl", "stub": the beginning of device strings */

    /* Open the device that a string such as "cuda0", "cuda" or "opencl0:1" names; load the driver. After a failure,
     * `close` accepts *opened. If memory is exhausted, *opened is NULL, and no message is stored. */
    int (*open)(const char *name, int flags, device **opened);
    void (*close)(device *);
    int (*info)(device *, device_info *);

    /* Allocate memory. If `parent` is not 0, make a block inside the parent's memory; the block must be released before
     * the parent. */
    int (*alloc)(device *, device_memory parent, size_t offset, size_t size, device_memory *);
    void (*release)(device *, device_memory, int has_parent);
    int (*write)(device *, device_memory to, size_t offset, const void *from, size_t size);
    int (*read)(device *, void *to, device_memory from, size_t offset, size_t size);
    int (*copy)(device *, device_memory to, size_t to_offset, device_memory from, size_t from_offset, size_t size);
    int (*fill)(device *, device_memory, size_t offset, size_t size, uint8_t byte);
    /* Allocate page-locked memory of the host, which kernels can read and write at the same address. Return
     * GA_UNSUPPORTED_ERROR if kernels cannot do this. */
    int (*host_alloc)(device *, size_t size, void **memory);
    void (*host_free)(device *, void *memory);

    /* Build a program of kernels from source or from a binary that this function returned before. The source is in
     * the dialect that cluda_cuda.h and cluda_opencl.h define, and the back end prepends one of these files. With
     * GA_USE_CUDA or GA_USE_OPENCL in the flags, the source is in the back end's own language, and nothing is
     * prepended. `options` are compiler options such as "-g". If the source does not compile, return GA_IMPL_ERROR,
     * with the compiler's output in `log`. If a binary is rejected, return GA_INVALID_ERROR. */
    int (*build)(device *, const char *text, int flags, const char *options, const void *binary, size_t binary_size,
                 device_program *);
    int (*kernel)(device *, void *program, const char *name, device_kernel *);
    /* Launch a kernel. `values[i]` points to argument i, which has `sizes[i]` bytes; a memory argument is a
     * device_memory. `groups` and `group` have `ndim` (1 to 3) entries. */
    int (*launch)(device *, void *kernel, unsigned ndim, const size_t *groups, const size_t *group, size_t local_memory,
                  unsigned count, void *const *values, const size_t *sizes);

    /* Let the later work of `waiting` run after the earlier work of `first`. Both devices are of this back end. */
    int (*fence)(device *first, device *waiting);
    int (*sync)(device *);
    /* Begin, end, run or release a CUDA graph. Launches, copies and fills between begin and end are recorded, not run;
     * other calls are not affected. If begin or end fails, nothing is recorded any longer, and *graph is NULL. Back ends
     * without graphs return GA_UNSUPPORTED_ERROR. */
    int (*graph)(device *, enum device_graph_step, void **graph);
    /* Give launch number `number` of a graph, counted from 0, other arguments for later runs. The kernel, `ndim`, `count`
     * and `sizes` are those of the recorded launch. After a failure, the graph can only be released. NULL in back
     * ends without graphs. */
    int (*replace)(device *, void *graph, unsigned number, void *kernel, unsigned ndim, const size_t *groups,
                   const size_t *group, size_t local_memory, unsigned count, void *const *values, const size_t *sizes);
} device_table;

extern const device_table device_cuda, device_opencl, device_stub;

/* Settings that Python makes for the back ends: the paths of the shared libraries "opencl", "cuda", "nvrtc", "cublasLt",
 * "cublas", "cusolver", "cufft", "cudnn" and "nccl", and the dialects of "opencl" and "cuda" (the text that precedes the
 * source of every kernel). A path that is not set is NULL. A dialect that is not set is "". */
const char *device_library(const char *which);
/* Load the library at the path that is set for `which`. If no path is set, try these names, which end with NULL. Return
 * NULL if there is no library; dlerror() then returns the reason. */
void *device_load_library(const char *which, const char *const *names);
const char *device_dialect(const char *table);
int device_set_library(const char *which, const char *path);
int device_set_dialect(const char *table, const char *text);
/* Whether the OpenCL devices that are opened from now on run kernels as GPUs do, even if they are CPUs. Tests use this
 * to run the code for GPUs. */
void device_opencl_as_gpus(int on);

/* The lock that callers of a back end's functions hold (Python's GIL). Back ends release it while a compiler runs. If
 * the pointers are NULL, there is no lock. The argument of `acquire` is the result of `release`. */
typedef struct device_lock {
    void *(*release)(void);
    void (*acquire)(void *);
} device_lock;

extern device_lock device_outer_lock;

static inline void *release_outer_lock(void)
{
    return device_outer_lock.release == NULL ? NULL : device_outer_lock.release();
}

static inline void acquire_outer_lock(void *given)
{
    if (given != NULL)
        device_outer_lock.acquire(given);
}

/* Store an error message; return the code. Each thread has its own message, because threads wait for devices and copy
 * without a lock. */
int device_failed(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Note that the failure of this thread makes the device unusable. */
void device_note_loss(void);
/* Return the last message that device_failed() or context_failed() stored in this thread. */
const char *device_message(void);

#endif
