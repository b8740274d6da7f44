/* What a back end is: fifteen functions over devices, memory and kernels. cuda.c, opencl.c and stub.c each have a table of them; nothing above
 * this file knows which one it uses.
 *
 * All return GA_NO_ERROR or a code of gpuarray/error.h, with a sentence in `device->error`. The work of a device is done in the order in which it was
 * asked for (one stream); only `read`, `sync` and, as far as its source goes, `write` wait for anything.
 */
#ifndef TNG_DEVICE_H
#define TNG_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "gpuarray/error.h"
#include "gpuarray/types.h"

/* CUdeviceptr or cl_mem. 0 is none. */
typedef uint64_t device_memory;

/* Begins every back end's record of a device. */
typedef struct device {
    const struct device_table *table;
    char error[4096];
} device;

typedef struct device_info {
    char name[128];      /* "Tesla K80" */
    char id[64];         /* where it is: "0000:83:00.0"; of OpenCL "0:1", platform and device */
    char binaries[160];  /* what the binaries it runs depend on: the kind of device and the versions of compiler and driver */
    size_t memory;       /* bytes, in all */
    size_t free_memory;  /* bytes, now; `memory` where the back end cannot tell */
    size_t largest;      /* bytes of the largest block */
    size_t alignment;    /* bytes, of the beginning of a block inside another */
    size_t local_memory; /* bytes for each group */
    size_t max_group;    /* threads of a group */
    size_t max_groups;   /* of one launch, along the first axis */
    unsigned processors;
    unsigned warp;       /* threads that step together; 1 on processors */
    int has_double, has_half;
    int on_host;         /* its memory is that of the host */
    int shares_addresses; /* `copy` takes memory of other devices of the same back end, too */
} device_info;

typedef struct device_kernel {
    void *handle;
    size_t max_group;      /* threads of a group, for this kernel */
    size_t preferred;      /* group sizes are best a multiple of this */
} device_kernel;

typedef struct device_program {
    void *handle;
    void *binary; /* malloc'd; for the cache. NULL where the program was built from one */
    size_t binary_size;
    char *log;    /* malloc'd; what the compiler said; NULL: nothing */
} device_program;

enum device_graph_step { DEVICE_GRAPH_BEGIN, DEVICE_GRAPH_END, DEVICE_GRAPH_RUN, DEVICE_GRAPH_RELEASE };

typedef struct device_table {
    const char *name; /* "cuda", "opencl", "stub": what device strings begin with */

    /* The device that a string such as "cuda0", "cuda" or "opencl0:1" names. Loads the driver. On failure *opened has nothing but `error`, or is NULL
     * when memory is exhausted; `close` takes both. */
    int (*open)(const char *name, int flags, device **opened);
    void (*close)(device *);
    int (*info)(device *, device_info *);

    /* New memory; or, with a parent, a block of memory that belongs to the parent and is released before it. */
    int (*alloc)(device *, device_memory parent, size_t offset, size_t size, device_memory *);
    void (*release)(device *, device_memory, int has_parent);
    int (*write)(device *, device_memory to, size_t offset, const void *from, size_t size);
    int (*read)(device *, void *to, device_memory from, size_t offset, size_t size);
    int (*copy)(device *, device_memory to, size_t to_offset, device_memory from, size_t from_offset, size_t size);
    int (*fill)(device *, device_memory, size_t offset, size_t size, uint8_t byte);

    /* A program of kernels, of a text (in the dialect of cluda_cuda.h and cluda_opencl.h, which the back end puts in front unless the flags say that it is its own
     * language), or of a binary that this function once gave. `options` are words for the compiler, such as "-g". A text that does not compile is
     * GA_IMPL_ERROR with the compiler's words in `log`; a binary that is not accepted is GA_INVALID_ERROR. */
    int (*build)(device *, const char *text, int flags, const char *options, const void *binary, size_t binary_size, device_program *);
    int (*kernel)(device *, void *program, const char *name, device_kernel *);
    /* `values[i]` points to argument i, `sizes[i]` bytes of it; memory is a device_memory. `groups` and `group` have `ndim` (1 to 3) numbers. */
    int (*launch)(device *, void *kernel, unsigned ndim, const size_t *groups, const size_t *group, size_t local_memory, unsigned count,
                  void *const *values, const size_t *sizes);

    /* What `waiting` is asked for after this begins after what `first` was asked for before. Both are of this table. A sentence goes into `waiting`. */
    int (*fence)(device *first, device *waiting);
    int (*sync)(device *);
    /* CUDA's graphs: what is launched between begin and end is recorded and not run. GA_UNSUPPORTED_ERROR where there are none. */
    int (*graph)(device *, enum device_graph_step, void **graph);
} device_table;

extern const device_table device_cuda, device_opencl, device_stub;

/* What Python found, for the back ends: the path of a shared library ("opencl", "cuda", "nvrtc"), and the text in front of kernels ("opencl", "cuda"). NULL for
 * a library that the system's loader is left to find; "" for a dialect that nobody set. */
const char *device_library(const char *which);
const char *device_dialect(const char *table);
int device_set_library(const char *which, const char *path);
int device_set_dialect(const char *table, const char *text);

/* What the caller of this package holds while it calls, Python's interpreter lock: given up while a compiler runs. NULL: nothing. `take` gets what `give`
 * returned. */
typedef struct device_lock {
    void *(*give)(void);
    void (*take)(void *);
} device_lock;

extern device_lock device_outer_lock;

static inline void *device_outer_give(void)
{
    return device_outer_lock.give == NULL ? NULL : device_outer_lock.give();
}

static inline void device_outer_take(void *given)
{
    if (given != NULL)
        device_outer_lock.take(given);
}

/* Puts a sentence into the error of a device, and returns the code. */
int device_failed(device *, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
