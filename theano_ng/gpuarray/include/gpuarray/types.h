/* Element types, and flags of kernels and contexts. The constants of the Python module `pygpu.gpuarray` have the same
 * values. */
#ifndef GPUARRAY_TYPES_H
#define GPUARRAY_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The codes are NumPy's type numbers. int64 is GA_LONG, never GA_LONGLONG. */
enum GPUARRAY_TYPES {
    GA_BUFFER = -1, /* a kernel argument that points to device memory */
    GA_BOOL = 0,
    GA_BYTE = 1,
    GA_UBYTE = 2,
    GA_SHORT = 3,
    GA_USHORT = 4,
    GA_INT = 5,
    GA_UINT = 6,
    GA_LONG = 7,
    GA_ULONG = 8,
    GA_LONGLONG = 9,
    GA_ULONGLONG = 10,
    GA_FLOAT = 11,
    GA_DOUBLE = 12,
    GA_CFLOAT = 14,
    GA_CDOUBLE = 15,
    GA_HALF = 23,
    GA_SIZE = 24,  /* kernel arguments of type ga_size, 64 bits */
    GA_SSIZE = 25, /* kernel arguments of type ga_ssize, 64 bits */
};

/* Flags of kernels: capabilities that the device must have, and the language of the source. */
enum ga_usefl {
    GA_USE_SMALL = 0x02, /* elements smaller than 4 bytes */
    GA_USE_DOUBLE = 0x04,
    GA_USE_COMPLEX = 0x08,
    GA_USE_HALF = 0x10,
    GA_USE_CUDA = 0x2000, /* the source is plain CUDA, not the cluda.h dialect */
    GA_USE_OPENCL = 0x4000,
};

typedef enum ga_order { GA_ANY_ORDER = -1, GA_C_ORDER = 0, GA_F_ORDER = 1 } ga_order;

/* Flags of contexts. */
#define GA_CTX_SINGLE_STREAM 0x1
#define GA_CTX_SCHED_MULTI 0x2
#define GA_CTX_SCHED_SINGLE 0x4
#define GA_CTX_CHECKED 0x8 /* wait for every launch, to find out which one fails */

typedef struct _gpucontext gpucontext; /* a device, its stream and its memory pool */
typedef struct _gpudata gpudata;       /* memory of a context, with a reference count */
typedef struct _gpukernel gpukernel;   /* a function of a built program */

static inline size_t gpuarray_get_elsize(int typecode)
{
    switch (typecode) {
    case GA_BOOL:
    case GA_BYTE:
    case GA_UBYTE: return 1;
    case GA_SHORT:
    case GA_USHORT:
    case GA_HALF: return 2;
    case GA_INT:
    case GA_UINT:
    case GA_FLOAT: return 4;
    case GA_CDOUBLE: return 16;
    case GA_LONG:
    case GA_ULONG:
    case GA_LONGLONG:
    case GA_ULONGLONG:
    case GA_DOUBLE:
    case GA_CFLOAT:
    case GA_SIZE:
    case GA_SSIZE: return 8;
    case GA_BUFFER: return sizeof(gpudata *);
    default: return 0;
    }
}

#endif
