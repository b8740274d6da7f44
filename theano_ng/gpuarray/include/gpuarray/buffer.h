/* Contexts and their memory. */
#ifndef GPUARRAY_BUFFER_H
#define GPUARRAY_BUFFER_H

#include "gpuarray/error.h"
#include "gpuarray/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Properties of contexts, memory and kernels: gpucontext_property(ctx, GA_CTX_PROP_..., &value). Each comment gives
 * the type of the value. */
enum ga_ctx_property {
    GA_CTX_PROP_DEVNAME = 1,           /* char[256] */
    GA_CTX_PROP_LMEMSIZE = 2,          /* size_t */
    GA_CTX_PROP_NUMPROCS = 3,          /* unsigned */
    GA_CTX_PROP_BIN_ID = 4,            /* const char * */
    GA_CTX_PROP_TOTAL_GMEM = 6,        /* size_t */
    GA_CTX_PROP_FREE_GMEM = 7,         /* size_t */
    GA_CTX_PROP_MAXLSIZE = 10,         /* size_t */
    GA_CTX_PROP_MAXGSIZE = 13,         /* size_t */
    GA_CTX_PROP_LARGEST_MEMBLOCK = 20, /* size_t */
    GA_CTX_PROP_UNIQUE_ID = 21,        /* char[16] */
    GA_CTX_PROP_MAXLSIZE0 = 40,        /* size_t: limits of a group along the three axes */
    GA_CTX_PROP_MAXLSIZE1 = 41,
    GA_CTX_PROP_MAXLSIZE2 = 42,
    GA_CTX_PROP_MAXGSIZE0 = 43, /* size_t: limits of the number of groups along the three axes */
    GA_CTX_PROP_MAXGSIZE1 = 44,
    GA_CTX_PROP_MAXGSIZE2 = 45,
    GA_CTX_PROP_VECTOR_BYTES = 46,   /* size_t: size of the vectors in which one thread computes; 0 on GPUs */
    GA_CTX_PROP_ARGUMENT_BYTES = 47, /* size_t: size of all arguments of a kernel */
    GA_CTX_PROP_LONG_ATOMICS = 48,   /* size_t: whether kernels have atomic functions for 64 bits */
    GA_CTX_PROP_HAS_DOUBLE = 49,     /* size_t: whether kernels can compute with float64 */
    GA_KERNEL_PROP_MAXLSIZE = 1024,  /* size_t */
    GA_KERNEL_PROP_PREFLSIZE = 1025,
    GA_KERNEL_PROP_NUMARGS = 1026, /* unsigned */
    GA_KERNEL_PROP_TYPES = 1027,   /* const int * */
};

/* Open a context on the device that a string such as "cuda0" or "opencl0:0" names; return one reference. On failure,
 * return NULL, with an error code in *code and a message in `text`, which has room for `size` bytes. preallocate:
 * see config.gpuarray.preallocate. */
gpucontext *gpucontext_open(const char *name, int flags, double preallocate, int *code, char *text, size_t size);
void gpucontext_retain(gpucontext *);
/* Drop a reference. When the last reference is dropped, the context is closed. Each gpudata and each kernel of a
 * context holds a reference to the context. */
void gpucontext_release(gpucontext *);
/* Return the message for an error code. If the context is NULL, return a general description of the code. */
const char *gpucontext_error(gpucontext *, int code);
int gpucontext_property(gpucontext *, int property, void *value);
/* Wait for all work of the context. */
int gpucontext_sync(gpucontext *);

/* Allocate page-locked memory of the host, which the device can read and write by itself. Return GA_UNSUPPORTED_ERROR if
 * the device has no such memory. */
int gpucontext_host_alloc(gpucontext *, size_t size, void **memory);
void gpucontext_host_free(gpucontext *, void *memory);

/* Flags of gpudata_alloc. */
#define GA_BUFFER_INIT 0x4 /* copy the content from `data` */

/* Allocate memory. Its content is undefined. With the flag GA_BUFFER_INIT, it is copied from `data`. Return one
 * reference, or NULL on failure. A size of 0 is valid. */
gpudata *gpudata_alloc(gpucontext *, size_t size, void *data, int flags, int *code);
/* Wrap `size` bytes of foreign memory at a device address (a CUDA device pointer, or a cl_mem). free_owner(owner) is
 * called when the last reference is dropped. */
gpudata *gpudata_wrap(gpucontext *, uint64_t address, size_t size, void *owner, void (*free_owner)(void *), int *code);
uint64_t gpudata_address(gpudata *);
void gpudata_retain(gpudata *);
void gpudata_release(gpudata *);
gpucontext *gpudata_context(gpudata *); /* borrowed reference */
size_t gpudata_size(gpudata *);
/* Offsets and sizes are in bytes. gpudata_read waits until the data have been copied. gpudata_sync waits for all work.
 * gpudata_write waits until `from` can be reused. gpudata_move between two devices may wait. gpudata_memset returns
 * before the work is done. */
int gpudata_move(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size);
int gpudata_write(gpudata *to, size_t offset, const void *from, size_t size);
int gpudata_read(void *to, gpudata *from, size_t offset, size_t size);
int gpudata_memset(gpudata *, size_t offset, int byte); /* fills from `offset` to the end */
int gpudata_sync(gpudata *);
/* Copy between any two contexts, also of different back ends. */
int gpudata_transfer(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size);

#ifdef __cplusplus
}
#endif

#endif
