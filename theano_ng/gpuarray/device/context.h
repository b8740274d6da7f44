/* The records behind the types of gpuarray/types.h, and what the files of this folder ask of each other. The GIL protects all of them. */
#ifndef TNG_CONTEXT_H
#define TNG_CONTEXT_H

#include "device.h"
#include "gpuarray/array.h"
#include "gpuarray/kernel.h"

struct pool;

struct _gpucontext {
    const device_table *table;
    device *device; /* NULL: closed */
    device_info info;
    struct pool *pool;
    int64_t references;
    int flags;
    int forks; /* how many there had been when it was opened */
    int code;  /* of the last failure */
    char error[4200];
    char name[64]; /* the string it was opened with */
    struct copier *copiers; /* kernels of array.c that copy, by their types */
};

struct _gpudata {
    gpucontext *context; /* holds a reference */
    device_memory memory;
    size_t size;         /* bytes that were asked for */
    int64_t references;
    struct block *block; /* of the pool; NULL: of somebody else, who is `owner` */
    void *owner;         /* what keeps foreign memory alive, and how it is told that nobody needs it any more */
    void (*free_owner)(void *);
};

struct _gpukernel {
    gpucontext *context; /* holds a reference */
    device_kernel kernel;
    int64_t references;
    unsigned count;
    int types[];
};

/* Puts a sentence into the context; returns the code. */
int context_failed(gpucontext *, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Takes over what the device said; returns the code. */
int context_checked(gpucontext *, int code);
/* Whether the context can be used: GA_INVALID_ERROR in a child of a fork, and after it is closed. */
int context_usable(gpucontext *);

/* What keeps the binaries of programs between processes; Python fills it in. `find` gives a malloc'd binary, or NULL; one that the device
 * refuses is kept anew. */
typedef struct program_cache {
    void *(*find)(gpucontext *, const char *text, int flags, const char *options, size_t *size);
    void (*keep)(gpucontext *, const char *text, int flags, const char *options, const void *binary, size_t size);
} program_cache;
extern program_cache device_program_cache;

/* Forgets the kernels that array.c has built. */
void copiers_free(gpucontext *);
/* A text with numbers in front of its lines, and what the compiler said of it; malloc'd. */
char *numbered_listing(const char *text, const char *log);

/* The pool: blocks of a context that are free and can be had again at once, since its work is done in order. Nothing here waits.
 *
 * preallocate as config.gpuarray.preallocate: < 0: nothing is kept, 0: what is freed is kept, up to 1: that part of the device's memory (at most .95) is taken
 * at once, above: that many megabytes. */
int pool_open(gpucontext *, double preallocate);
void pool_close(gpucontext *); /* all blocks, also those that are in use */
/* Fills data->memory and data->block. When the device has no more, all that is free is given back to it, and asked for again once. */
int pool_alloc(gpucontext *, size_t size, gpudata *);
void pool_release(gpucontext *, gpudata *);
/* Gives all free memory back to the device. */
void pool_trim(gpucontext *);

typedef struct pool_counts {
    size_t in_use;      /* bytes of blocks that are in use */
    size_t reserved;    /* bytes that are taken from the device */
    size_t peak;        /* most bytes in use, ever */
    size_t blocks;      /* in use */
    size_t allocations; /* how often the device was asked for memory */
} pool_counts;

void pool_count(gpucontext *, pool_counts *);

#endif
