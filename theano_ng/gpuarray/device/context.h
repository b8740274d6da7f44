/* The structs of the opaque types in gpuarray/types.h, and functions that the files of this folder share. The GIL
 * protects the structs. */
#ifndef TNG_CONTEXT_H
#define TNG_CONTEXT_H

#include "device.h"
#include "gpuarray/array.h"
#include "gpuarray/kernel.h"

struct pool;
struct index_errors;
struct launch_queue;

struct _gpucontext {
    const device_table *table;
    device *device; /* NULL after the context has been closed */
    device_info info;
    struct pool *pool;
    int64_t references;
    int flags;
    int forks;                         /* number of forks before the context was opened */
    char name[64];                     /* the string with which the context was opened */
    struct copier *copiers;            /* list of the copy kernels that array.c has built */
    struct index_errors *index_errors; /* NULL until the first kernel that can report invalid indices is launched */
    /* NULL until the first function that can use graphs is compiled. Threads without the GIL read the pointer, too. */
    struct launch_queue *_Atomic queue;
};

struct _gpudata {
    gpucontext *context; /* owned reference */
    device_memory memory;
    size_t size; /* bytes requested */
    int64_t references;
    struct block *block; /* the pool's block; NULL for foreign memory, which belongs to `owner` */
    void *owner;         /* keeps foreign memory alive; free_owner(owner) releases it */
    void (*free_owner)(void *);
};

struct _gpukernel {
    gpucontext *context; /* owned reference */
    device_kernel kernel;
    int64_t references;
    unsigned count;
    int types[];
};

/* Store a message that gpucontext_error() returns in this thread for this context and code; return the code. */
int context_failed(gpucontext *, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* If the code is an error, let gpucontext_error() return the device's message for this context; return the code. */
int context_checked(gpucontext *, int code);
/* Check that the context can be used: return GA_INVALID_ERROR in a forked child, and after the context is closed. */
int context_usable(gpucontext *);
/* Set `size` bytes of memory. */
int memory_fill(gpudata *, size_t offset, size_t size, int byte);
/* Return whether the context's device can be called: it is open, and this process has opened it. */
int context_is_open(const gpucontext *);

/* The functions of the cache of program binaries, which later processes reuse. Python sets the functions. `find`
 * returns a malloc'd binary, or NULL if the cache has none. If there is no binary, or if the device rejects it, the
 * program is built from its source code, and `keep` stores the new binary. */
typedef struct program_cache {
    void *(*find)(gpucontext *, const char *text, int flags, const char *options, size_t *size);
    void (*keep)(gpucontext *, const char *text, int flags, const char *options, const void *binary, size_t size);
} program_cache;
extern program_cache device_program_cache;

/* Free the copy kernels that array.c has built. */
void copiers_free(gpucontext *);
/* Return a malloc'd text: the source with line numbers, followed by the compiler's output. */
char *numbered_listing(const char *text, const char *log);

/* The pool keeps the free blocks of a context. A free block can be reused at once, without waiting, because the
 * work of the context runs in order.
 *
 * `preallocate` has the meaning of config.gpuarray.preallocate. Less than 0: keep no freed memory. 0: keep freed
 * memory. Up to 1: reserve this fraction of the device's memory (at most .95) at once. Above 1: reserve this many
 * megabytes. */
int pool_open(gpucontext *, double preallocate);
void pool_close(gpucontext *); /* free all blocks, also those in use */
/* Set data->memory and data->block. If the device is out of memory, return all free memory to it, and try once more. */
int pool_alloc(gpucontext *, size_t size, gpudata *);
void pool_release(gpucontext *, gpudata *);
/* Return all free memory to the device. */
void pool_trim(gpucontext *);

typedef struct pool_counts {
    size_t in_use;      /* bytes in blocks that are in use */
    size_t reserved;    /* bytes allocated from the device */
    size_t peak;        /* the largest `in_use` so far */
    size_t blocks;      /* number of blocks in use */
    size_t allocations; /* number of allocations requested from the device */
} pool_counts;

void pool_count(gpucontext *, pool_counts *);

#endif
