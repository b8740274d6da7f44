# Part of gpuarray.pyx: memory shared with other libraries, by DLPack and __cuda_array_interface__.

cdef extern from *:
    """
    /* DLPack, version 0: https://dmlc.github.io/dlpack */
    typedef struct { int32_t device_type, device_id; } DLDevice;
    typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
    typedef struct { void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape, *strides; uint64_t byte_offset; } DLTensor;
    typedef struct DLManagedTensor { DLTensor dl_tensor; void *manager_ctx; void (*deleter)(struct DLManagedTensor *); } DLManagedTensor;
    """
    ctypedef struct DLDevice:
        int device_type, device_id
    ctypedef struct DLDataType:
        unsigned char code, bits
        unsigned short lanes
    ctypedef struct DLTensor:
        void *data
        DLDevice device
        int ndim
        DLDataType dtype
        int64_t *shape
        int64_t *strides
        unsigned long long byte_offset
    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void *manager_ctx
        void (*deleter)(DLManagedTensor *) noexcept

_DL_DEVICES = {"cuda": 2, "opencl": 4, "stub": 12}
_DL_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}

cdef void _drop_exported(DLManagedTensor *tensor) noexcept with gil:
    cdef PyObject *array = <PyObject *>tensor.manager_ctx
    free(tensor.dl_tensor.shape)
    free(tensor)
    Py_XDECREF(array)


cdef void _drop_capsule(object capsule) noexcept:
    # If another library consumed the capsule, the capsule has another name, and the library owns the tensor.
    cdef DLManagedTensor *tensor
    if PyCapsule_IsValid(capsule, "dltensor"):
        tensor = <DLManagedTensor *>PyCapsule_GetPointer(capsule, "dltensor")
        tensor.deleter(tensor)


cdef void _drop_imported(void *owner) noexcept with gil:
    cdef DLManagedTensor *tensor = <DLManagedTensor *>owner
    if tensor.deleter != NULL:
        tensor.deleter(tensor)


cdef void _drop_object(void *owner) noexcept with gil:
    Py_XDECREF(<PyObject *>owner)


def _dl_device(GpuContext context):
    number = "".join(c for c in _names[<size_t>context.ctx].rpartition(":")[2] if c.isdigit())
    return _DL_DEVICES[_kinds[<size_t>context.ctx]], int(number or 0)


def from_dlpack(x, context=None):
    """Return a view of another library's array on the same device, by DLPack.

    Parameters
    ----------
    x : object
        An object with the method ``__dlpack__``.
    context : GpuContext, optional

    Raises
    ------
    ValueError
        If the array is on another device, or has elements that devices do not support.
    """
    cdef GpuContext ctx = _context(context)
    cdef DLManagedTensor *tensor
    cdef size_t dims[32]
    cdef ssize_t steps[32]
    cdef ssize_t low = 0, high = 0, reach
    cdef gpudata *data
    cdef int i, code
    theirs = tuple(map(int, x.__dlpack_device__()))
    if theirs != _dl_device(ctx):
        raise ValueError("the array is on DLPack device %s, but the context is on %s" % (theirs, _dl_device(ctx)))
    capsule = x.__dlpack__()
    tensor = <DLManagedTensor *>PyCapsule_GetPointer(capsule, "dltensor")
    kind = {number: kind for kind, number in _DL_CODES.items()}.get(tensor.dl_tensor.dtype.code)
    try:
        dtype = np.dtype("bool" if kind == "b" else "%s%d" % (kind, tensor.dl_tensor.dtype.bits // 8))
        typecode = dtype_to_typecode(dtype)
    except (TypeError, ValueError):
        raise ValueError("arrays on devices do not support the DLPack type %s" % ((tensor.dl_tensor.dtype.code, tensor.dl_tensor.dtype.bits),)) from None
    if tensor.dl_tensor.dtype.lanes != 1 or tensor.dl_tensor.ndim > GA_MAX_DIMS:
        raise ValueError("elements of %d lanes in %d dimensions" % (tensor.dl_tensor.dtype.lanes, tensor.dl_tensor.ndim))
    step = dtype.itemsize
    for i in reversed(range(tensor.dl_tensor.ndim)):
        dims[i] = tensor.dl_tensor.shape[i]
        steps[i] = step if tensor.dl_tensor.strides == NULL else tensor.dl_tensor.strides[i] * dtype.itemsize
        step *= dims[i]
        reach = (<ssize_t>dims[i] - 1) * steps[i] if dims[i] else 0
        high += max(reach, 0)
        low += min(reach, 0)
    if <ssize_t>tensor.dl_tensor.byte_offset + low < 0:
        raise ValueError("the array begins before its memory")
    data = gpudata_wrap(ctx.ctx, <size_t>tensor.dl_tensor.data, tensor.dl_tensor.byte_offset + high + dtype.itemsize, tensor, _drop_imported, &code)
    pygpu_raise(ctx.ctx, code)
    PyCapsule_SetName(capsule, "used_dltensor")
    try:
        return pygpu_fromgpudata(data, tensor.dl_tensor.byte_offset, typecode, tensor.dl_tensor.ndim, dims, steps, ctx, True, None, None)
    finally:
        gpudata_release(data)


cdef GpuArray _of_cuda_interface(interface, owner, GpuContext ctx):
    """Return a view of the array that a ``__cuda_array_interface__`` describes."""
    cdef size_t dims[32]
    cdef ssize_t steps[32]
    cdef ssize_t low = 0, high = 0, reach
    cdef gpudata *data
    cdef int i, code, nd = _dims(interface["shape"], dims)
    if interface.get("mask") is not None:
        raise ValueError("masked arrays are not supported")
    dtype = np.dtype(interface["typestr"])
    typecode = dtype_to_typecode(dtype)
    address, read_only = interface["data"]
    strides = interface.get("strides")
    step = dtype.itemsize
    for i in reversed(range(nd)):
        steps[i] = step if strides is None else strides[i]
        step *= dims[i]
        reach = (<ssize_t>dims[i] - 1) * steps[i] if dims[i] else 0
        high += max(reach, 0)
        low += min(reach, 0)
    if interface.get("stream") not in (None, 1, 2):
        ctx.sync()
    data = gpudata_wrap(ctx.ctx, address + low, high - low + dtype.itemsize, <void *>owner, _drop_object, &code)
    pygpu_raise(ctx.ctx, code)
    Py_INCREF(owner)
    try:
        return pygpu_fromgpudata(data, -low, typecode, nd, dims, steps, ctx, not read_only, None, None)
    finally:
        gpudata_release(data)
