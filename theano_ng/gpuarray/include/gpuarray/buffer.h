/* Contexts and their memory. */
#ifndef GPUARRAY_BUFFER_H
#define GPUARRAY_BUFFER_H

#include "gpuarray/error.h"
#include "gpuarray/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What there is to know of contexts, memory and kernels: gpucontext_property(ctx, GA_CTX_PROP_..., &value). The type of the value is in the comment. */
enum ga_ctx_property {
    GA_CTX_PROP_DEVNAME = 1,    /* char[256] */
    GA_CTX_PROP_LMEMSIZE = 2,   /* size_t */
    GA_CTX_PROP_NUMPROCS = 3,   /* unsigned */
    GA_CTX_PROP_BIN_ID = 4,     /* const char * */
    GA_CTX_PROP_TOTAL_GMEM = 6, /* size_t */
    GA_CTX_PROP_FREE_GMEM = 7,  /* size_t */
    GA_CTX_PROP_MAXLSIZE = 10,  /* size_t */
    GA_CTX_PROP_MAXGSIZE = 13,  /* size_t */
    GA_CTX_PROP_LARGEST_MEMBLOCK = 20, /* size_t */
    GA_CTX_PROP_UNIQUE_ID = 21, /* char[16] */
    GA_KERNEL_PROP_MAXLSIZE = 1024, /* size_t */
    GA_KERNEL_PROP_PREFLSIZE = 1025,
    GA_KERNEL_PROP_NUMARGS = 1026,  /* unsigned */
    GA_KERNEL_PROP_TYPES = 1027,    /* const int * */
};

/* A context on the device that a string such as "cuda0" or "opencl0:0" names; one reference. NULL on failure, with a code in *code and a sentence in
 * `text`, which has `size` bytes. preallocate: see config.gpuarray.preallocate. */
gpucontext *gpucontext_open(const char *name, int flags, double preallocate, int *code, char *text, size_t size);
void gpucontext_retain(gpucontext *);
/* The context goes with the last of its references; memory and kernels hold one each. */
void gpucontext_release(gpucontext *);
/* The sentence that goes with a code. With NULL for the context, one that needs none. */
const char *gpucontext_error(gpucontext *, int code);
int gpucontext_property(gpucontext *, int property, void *value);
/* Waits for all that was asked for. */
int gpucontext_sync(gpucontext *);

/* Flags of gpudata_alloc. */
#define GA_BUFFER_INIT 0x4 /* copy `data` */

/* Memory with undefined content (or that of `data`); one reference. NULL on failure. No bytes are memory too. */
gpudata *gpudata_alloc(gpucontext *, size_t size, void *data, int flags, int *code);
/* Memory of somebody else, of `size` bytes at an address of the device (CUDA's pointer, or a cl_mem). free_owner(owner) is called when nobody needs it. */
gpudata *gpudata_wrap(gpucontext *, uint64_t address, size_t size, void *owner, void (*free_owner)(void *), int *code);
uint64_t gpudata_address(gpudata *);
void gpudata_retain(gpudata *);
void gpudata_release(gpudata *);
gpucontext *gpudata_context(gpudata *); /* borrowed */
size_t gpudata_size(gpudata *);
/* Offsets and sizes in bytes. All but read, and move between two devices, return before it is done. */
int gpudata_move(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size);
int gpudata_write(gpudata *to, size_t offset, const void *from, size_t size);
int gpudata_read(void *to, gpudata *from, size_t offset, size_t size);
int gpudata_memset(gpudata *, size_t offset, int byte); /* to its end */
int gpudata_sync(gpudata *);
/* Between contexts, of whatever kind. */
int gpudata_transfer(gpudata *to, size_t to_offset, gpudata *from, size_t from_offset, size_t size);

#ifdef __cplusplus
}
#endif

#endif
