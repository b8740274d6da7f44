/* Codes of errors. The sentence that goes with one is that of the context: gpucontext_error, GpuKernel_error, GpuArray_error. */
#ifndef GPUARRAY_ERROR_H
#define GPUARRAY_ERROR_H

enum ga_error {
    GA_NO_ERROR = 0,
    GA_MEMORY_ERROR,      /* memory of the device or of the host is exhausted */
    GA_VALUE_ERROR,       /* an argument that cannot be right */
    GA_IMPL_ERROR,        /* the back end reported something else */
    GA_INVALID_ERROR,     /* an object that is not usable, or of another context */
    GA_UNSUPPORTED_ERROR, /* not on this kind of device */
    GA_SYS_ERROR,         /* a call of the operating system */
    GA_RUN_ERROR,         /* a kernel failed while it ran */
    GA_DEVSUP_ERROR,      /* the device has no such capability (double, half) */
    GA_READONLY_ERROR,
    GA_WRITEONLY_ERROR,
    GA_BLAS_ERROR,
    GA_UNALIGNED_ERROR,
    GA_COPY_ERROR,        /* the result would need a copy */
    GA_NODEV_ERROR,       /* no such device, or no driver */
    GA_MISC_ERROR,
    GA_COMM_ERROR,
    GA_XLARGE_ERROR,      /* more elements than can be counted */
    GA_LOAD_ERROR,        /* a shared library cannot be loaded */
};

#endif
