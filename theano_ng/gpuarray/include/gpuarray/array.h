/* Device arrays: memory, lengths, strides, element type. */
#ifndef GPUARRAY_ARRAY_H
#define GPUARRAY_ARRAY_H

#include "gpuarray/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GA_C_CONTIGUOUS 0x0001
#define GA_F_CONTIGUOUS 0x0002
#define GA_ALIGNED 0x0100
#define GA_WRITEABLE 0x0400
#define GA_BEHAVED (GA_ALIGNED | GA_WRITEABLE)

#define GA_MAX_DIMS 32

typedef struct _GpuArray {
    gpudata *data;
    size_t *dimensions; /* elements */
    ssize_t *strides;   /* bytes */
    size_t offset;      /* bytes from the beginning of `data` to the first element */
    unsigned int nd;
    int flags;
    int typecode;
} GpuArray;

#define GpuArray_NDIM(a) ((a)->nd)
#define GpuArray_DIMS(a) ((a)->dimensions)
#define GpuArray_DIM(a, i) ((a)->dimensions[i])
#define GpuArray_STRIDES(a) ((a)->strides)
#define GpuArray_STRIDE(a, i) ((a)->strides[i])
#define GpuArray_ITEMSIZE(a) gpuarray_get_elsize((a)->typecode)
#define GpuArray_CHKFLAGS(a, f) (((a)->flags & (f)) == (f))
#define GpuArray_IS_C_CONTIGUOUS(a) GpuArray_CHKFLAGS(a, GA_C_CONTIGUOUS)
#define GpuArray_IS_F_CONTIGUOUS(a) GpuArray_CHKFLAGS(a, GA_F_CONTIGUOUS)
#define GpuArray_ISONESEGMENT(a) ((a)->flags & (GA_C_CONTIGUOUS | GA_F_CONTIGUOUS))
#define GpuArray_IS_CONTIGUOUS(a) GpuArray_ISONESEGMENT(a)
#define GpuArray_ISWRITEABLE(a) GpuArray_CHKFLAGS(a, GA_WRITEABLE)
#define GpuArray_ISALIGNED(a) GpuArray_CHKFLAGS(a, GA_ALIGNED)
#define GpuArray_ISBEHAVED(a) GpuArray_CHKFLAGS(a, GA_BEHAVED)

/* The functions that fill a record (*a, *r or *v) do not read its previous content. The filled record holds a reference
 * to the memory of the array. GpuArray_clear releases this reference. */
int GpuArray_empty(GpuArray *a, gpucontext *, int typecode, unsigned nd, const size_t *dims, ga_order);
int GpuArray_zeros(GpuArray *a, gpucontext *, int typecode, unsigned nd, const size_t *dims, ga_order);
/* Make a view of existing memory. */
int GpuArray_fromdata(GpuArray *a, gpudata *, size_t offset, int typecode, unsigned nd, const size_t *dims,
                      const ssize_t *strides, int writeable);
int GpuArray_view(GpuArray *v, const GpuArray *a);
int GpuArray_copy(GpuArray *r, const GpuArray *a, ga_order);
/* Apply start:stop:step to each axis. A step of 0 selects the element at start and drops the axis. */
int GpuArray_index(GpuArray *r, const GpuArray *a, const ssize_t *starts, const ssize_t *stops, const ssize_t *steps);
/* Return a view if the strides allow it, else a copy. If `nocopy`, fail with GA_COPY_ERROR instead of copying. */
int GpuArray_reshape(GpuArray *r, const GpuArray *a, unsigned nd, const size_t *dims, ga_order, int nocopy);
/* Permute the axes; NULL reverses them. */
int GpuArray_transpose(GpuArray *r, const GpuArray *a, const unsigned *axes);
void GpuArray_clear(GpuArray *a);
int GpuArray_share(const GpuArray *a, const GpuArray *b); /* true if both are views of the same memory */
/* True if the ranges of bytes from the first to the last element overlap. */
int GpuArray_overlap(const GpuArray *a, const GpuArray *b);
gpucontext *GpuArray_context(const GpuArray *a); /* borrowed */
void GpuArray_fix_flags(GpuArray *a);
/* Do a[...] = v: broadcast v, convert its elements, and store them in a. If the arrays overlap, v is copied first. */
int GpuArray_setarray(GpuArray *a, const GpuArray *v);
/* to[...] = from. It works like GpuArray_setarray, but the arrays must have equal shapes. */
int GpuArray_move(GpuArray *to, const GpuArray *from);
/* Copy between the host and a contiguous array. `size` (bytes) must be the size of the whole array. */
int GpuArray_write(GpuArray *to, const void *from, size_t size);
int GpuArray_read(void *to, size_t size, const GpuArray *from);
int GpuArray_memset(GpuArray *a, int byte); /* contiguous arrays only */
/* Copy into an array of another context. Both arrays are contiguous and have the same type and lengths. */
int GpuArray_transfer(GpuArray *to, const GpuArray *from);
int GpuArray_sync(GpuArray *a);
const char *GpuArray_error(const GpuArray *a, int code);
int GpuArray_is_c_contiguous(const GpuArray *a);
int GpuArray_is_f_contiguous(const GpuArray *a);

#ifdef __cplusplus
}
#endif

#endif
