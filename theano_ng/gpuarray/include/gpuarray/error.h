/* Error codes. A context stores the message of its last error. The functions gpucontext_error, GpuKernel_error and
 * GpuArray_error return the message. */
#ifndef GPUARRAY_ERROR_H
#define GPUARRAY_ERROR_H

enum ga_error {
    GA_NO_ERROR = 0,
    GA_MEMORY_ERROR,      /* device or host memory is exhausted */
    GA_VALUE_ERROR,       /* an invalid argument */
    GA_IMPL_ERROR,        /* any other error of the back end */
    GA_INVALID_ERROR,     /* an unusable object, or an object of another context */
    GA_UNSUPPORTED_ERROR, /* not supported by this kind of device */
    GA_SYS_ERROR,         /* a system call failed */
    GA_RUN_ERROR,         /* a kernel failed at run time */
    GA_DEVSUP_ERROR,      /* the device lacks a capability (double, half) */
    GA_READONLY_ERROR,
    GA_WRITEONLY_ERROR,
    GA_BLAS_ERROR,
    GA_UNALIGNED_ERROR,
    GA_COPY_ERROR,  /* the result would be a copy, which the caller has forbidden */
    GA_NODEV_ERROR, /* no such device, or no driver */
    GA_MISC_ERROR,
    GA_COMM_ERROR,
    GA_XLARGE_ERROR, /* too many elements for the integer type of sizes */
    GA_LOAD_ERROR,   /* a shared library cannot be loaded */
    GA_INDEX_ERROR,  /* a kernel found an index that is out of bounds */
};

#endif
