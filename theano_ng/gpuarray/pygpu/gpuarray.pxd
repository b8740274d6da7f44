"""The C declarations of contexts, arrays and kernels, for Cython code. The C headers document them."""

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    bint PyGILState_Check() nogil
    void *PyEval_SaveThread() nogil
    void PyEval_RestoreThread(void *) nogil

cdef extern from "gpuarray/types.h" nogil:
    ctypedef struct gpucontext "gpucontext":
        pass
    ctypedef struct gpudata "gpudata":
        pass
    ctypedef struct gpukernel "gpukernel":
        pass
    ctypedef enum ga_order:
        GA_ANY_ORDER, GA_C_ORDER, GA_F_ORDER
    enum:
        GA_BUFFER, GA_BOOL, GA_BYTE, GA_UBYTE, GA_SHORT, GA_USHORT, GA_INT, GA_UINT, GA_LONG, GA_ULONG, GA_LONGLONG, GA_ULONGLONG
        GA_FLOAT, GA_DOUBLE, GA_CFLOAT, GA_CDOUBLE, GA_HALF, GA_SIZE, GA_SSIZE
        GA_USE_SMALL, GA_USE_DOUBLE, GA_USE_COMPLEX, GA_USE_HALF, GA_USE_CUDA, GA_USE_OPENCL
        GA_CTX_SINGLE_STREAM, GA_CTX_SCHED_MULTI, GA_CTX_SCHED_SINGLE, GA_CTX_CHECKED
    size_t gpuarray_get_elsize(int typecode)

cdef extern from "gpuarray/error.h" nogil:
    enum:
        GA_NO_ERROR, GA_MEMORY_ERROR, GA_VALUE_ERROR, GA_IMPL_ERROR, GA_INVALID_ERROR, GA_UNSUPPORTED_ERROR, GA_RUN_ERROR, GA_DEVSUP_ERROR
        GA_READONLY_ERROR, GA_COPY_ERROR, GA_NODEV_ERROR, GA_XLARGE_ERROR, GA_LOAD_ERROR, GA_INDEX_ERROR

cdef extern from "gpuarray/buffer.h" nogil:
    enum:
        GA_CTX_PROP_DEVNAME, GA_CTX_PROP_LMEMSIZE, GA_CTX_PROP_NUMPROCS, GA_CTX_PROP_BIN_ID, GA_CTX_PROP_TOTAL_GMEM, GA_CTX_PROP_FREE_GMEM
        GA_CTX_PROP_MAXLSIZE, GA_CTX_PROP_MAXGSIZE, GA_CTX_PROP_MAXLSIZE0, GA_CTX_PROP_MAXLSIZE1, GA_CTX_PROP_MAXLSIZE2
        GA_CTX_PROP_MAXGSIZE0, GA_CTX_PROP_MAXGSIZE1, GA_CTX_PROP_MAXGSIZE2, GA_CTX_PROP_VECTOR_BYTES, GA_CTX_PROP_ARGUMENT_BYTES, GA_CTX_PROP_LONG_ATOMICS, GA_CTX_PROP_HAS_DOUBLE, GA_CTX_PROP_LARGEST_MEMBLOCK, GA_CTX_PROP_UNIQUE_ID
        GA_KERNEL_PROP_MAXLSIZE, GA_KERNEL_PROP_PREFLSIZE, GA_KERNEL_PROP_NUMARGS
    gpucontext *gpucontext_open(const char *name, int flags, double preallocate, int *code, char *text, size_t size)
    void gpucontext_retain(gpucontext *)
    void gpucontext_release(gpucontext *)
    const char *gpucontext_error(gpucontext *, int code)
    int gpucontext_property(gpucontext *, int property, void *value)
    int gpucontext_sync(gpucontext *)
    int gpucontext_host_alloc(gpucontext *, size_t size, void **memory)
    void gpucontext_host_free(gpucontext *, void *memory)
    gpudata *gpudata_alloc(gpucontext *, size_t size, void *data, int flags, int *code)
    gpudata *gpudata_wrap(gpucontext *, unsigned long long address, size_t size, void *owner, void (*free_owner)(void *) noexcept, int *code)
    unsigned long long gpudata_address(gpudata *)
    size_t gpudata_size(gpudata *)
    void gpudata_retain(gpudata *)
    void gpudata_release(gpudata *)
    int gpudata_read(void *to, gpudata *, size_t offset, size_t size)
    int gpudata_write(gpudata *, size_t offset, const void *, size_t size)
    int gpudata_sync(gpudata *)

cdef extern from "gpuarray/array.h" nogil:
    enum:
        GA_C_CONTIGUOUS, GA_F_CONTIGUOUS, GA_ALIGNED, GA_WRITEABLE, GA_MAX_DIMS
    ctypedef struct _GpuArray "GpuArray":
        gpudata *data
        size_t *dimensions
        ssize_t *strides
        size_t offset
        unsigned int nd
        int flags
        int typecode
    int GpuArray_empty(_GpuArray *, gpucontext *, int typecode, unsigned nd, const size_t *dims, ga_order)
    int GpuArray_zeros(_GpuArray *, gpucontext *, int typecode, unsigned nd, const size_t *dims, ga_order)
    int GpuArray_fromdata(_GpuArray *, gpudata *, size_t offset, int typecode, unsigned nd, const size_t *dims, const ssize_t *strides, int)
    int GpuArray_view(_GpuArray *, const _GpuArray *)
    int GpuArray_copy(_GpuArray *, const _GpuArray *, ga_order)
    int GpuArray_index(_GpuArray *, const _GpuArray *, const ssize_t *, const ssize_t *, const ssize_t *)
    int GpuArray_reshape(_GpuArray *, const _GpuArray *, unsigned nd, const size_t *dims, ga_order, int nocopy)
    int GpuArray_transpose(_GpuArray *, const _GpuArray *, const unsigned *axes)
    void GpuArray_clear(_GpuArray *)
    int GpuArray_share(const _GpuArray *, const _GpuArray *)
    int GpuArray_setarray(_GpuArray *, const _GpuArray *)
    int GpuArray_move(_GpuArray *, const _GpuArray *)
    int GpuArray_write(_GpuArray *, const void *, size_t)
    int GpuArray_read(void *, size_t, const _GpuArray *)
    int GpuArray_transfer(_GpuArray *, const _GpuArray *)

cdef extern from "gpuarray/kernel.h" nogil:
    int gpukernel_build(gpucontext *, const char *text, int flags, const char *options, unsigned n, const char **names, const unsigned *counts,
                        const int **types, gpukernel **kernels, char **log)
    void gpukernel_release(gpukernel *)
    int gpukernel_sched(gpukernel *, size_t n, size_t *groups, size_t *group)
    int gpukernel_call(gpukernel *, unsigned nd, const size_t *groups, const size_t *group, size_t local_memory, void **args)
    int gpukernel_property(gpukernel *, int property, void *value)

cdef extern from "device.h" nogil:
    int device_set_library(const char *which, const char *path)
    int device_set_dialect(const char *table, const char *text)
    ctypedef struct device_lock:
        void *(*release)() noexcept
        void (*acquire)(void *) noexcept
    device_lock device_outer_lock

cdef extern from "cublas.h" nogil:
    int cublas_open(gpucontext *, size_t *version)

cdef extern from "cudnn.h" nogil:
    int cudnn_open(gpucontext *, size_t *version)
    int cudnn_handle(gpucontext *, void **handle)

cdef extern from "nccl.h" nogil:
    ctypedef struct nccl_member:
        pass
    enum nccl_operation:
        NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN
    enum nccl_call:
        NCCL_ALL_REDUCE, NCCL_REDUCE, NCCL_BROADCAST, NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER
    ctypedef struct nccl_work:
        nccl_call call
        nccl_operation operation
        int typecode, root
        size_t count
        gpudata *source "from"
        size_t source_offset "from_offset"
        gpudata *to
        size_t to_offset
    int nccl_open(gpucontext *, int *version)
    int nccl_make_id(gpucontext *, char *id)
    int nccl_join(gpucontext *, const char *id, int size, int rank, nccl_member **)
    int nccl_begin(nccl_member *, const nccl_work *)
    int nccl_wait(nccl_member *, double seconds, int *finished)
    void nccl_abort(nccl_member *)
    void nccl_leave(nccl_member *)

cdef extern from "cublas_solve.h" nogil:
    int cublas_solve_open(gpucontext *, size_t *version)

cdef extern from "cusolver.h" nogil:
    int cusolver_open(gpucontext *, size_t *version)

cdef extern from "cufft.h" nogil:
    int cufft_open(gpucontext *, size_t *version)

cdef extern from "context.h" nogil:
    ctypedef struct device_info:
        char name[128]
        char id[64]
        char binaries[160]
        size_t memory, free_memory, largest, alignment, local_memory, max_group, max_groups
        unsigned processors, warp
        int has_double, has_half, on_host
    ctypedef struct device_table:
        const char *name
    ctypedef struct pool_counts:
        size_t in_use, reserved, peak, blocks, allocations
    ctypedef struct program_cache:
        void *(*find)(gpucontext *, const char *text, int flags, const char *options, size_t *size) noexcept
        void (*keep)(gpucontext *, const char *text, int flags, const char *options, const void *binary, size_t size) noexcept
    program_cache device_program_cache
    void pool_count(gpucontext *, pool_counts *)

cdef extern from "launch_queue.h":
    ctypedef struct WorkQueue:
        pass
    ctypedef struct queue_counts:
        unsigned long long calls, recorded, runs, replaced, in_runs
    WorkQueue *launch_queue_of(gpucontext *, WorkQueue **open_queue, int (*raise_)(gpucontext *, int code) except -1)
    void queue_close_any() nogil
    void queue_count(gpucontext *, queue_counts *)
    void pool_trim(gpucontext *)
    char *numbered_listing(const char *text, const char *log)


cdef extern from "index_errors.h" nogil:
    ctypedef struct index_error:
        unsigned site
        unsigned long long place
        long long index
        unsigned long long lengths[GA_MAX_DIMS]
        int of_other_thread
    const index_error *index_error_found()


# These classes begin with the members declared in include/gpuarray_api.h. They have no cdef methods: Cython would put
# the pointer to a method table before these members.
cdef public class GpuContext [object PyGpuContextObject, type _PyGpuContextType]:
    cdef gpucontext *ctx
    cdef object __weakref__
    cdef readonly object kernel_cache_path
    cdef readonly dict kernels      # the kernels built for this context, by builder and key
    cdef list entered

cdef public class GpuArray [object PyGpuArrayObject, type _PyGpuArrayType]:
    cdef _GpuArray ga
    cdef readonly GpuContext context
    cdef readonly object base
    cdef object __weakref__

cdef class NcclMember:
    cdef nccl_member *member
    cdef readonly GpuContext context

cdef class GpuKernel:
    cdef gpukernel *kernel
    cdef readonly GpuContext context
    cdef readonly str name
    cdef list types
    cdef bytes codes
