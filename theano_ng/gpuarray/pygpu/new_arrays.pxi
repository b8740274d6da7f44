# Part of gpuarray.pyx: functions that create arrays, for C code and for Python.

cdef GpuArray _new(GpuContext context, cls, base):
    cls = GpuArray if cls is None else cls
    cdef GpuArray made = (<type>cls).__new__(cls)
    made.context = context
    made.base = base
    return made


cdef int _dims(shape, size_t *dims) except -1:
    """Read a shape into a C array; return the number of axes."""
    cdef int n = 0
    try:
        lengths = tuple(shape)
    except TypeError:
        lengths = (shape,)
    if len(lengths) > GA_MAX_DIMS:
        raise ValueError("an array has at most %d axes, not %d" % (GA_MAX_DIMS, len(lengths)))
    for length in lengths:
        if length < 0:
            raise ValueError("negative length %d in shape %s" % (length, lengths))
        dims[n] = length
        n += 1
    return n


cdef ga_order _order(order) except *:
    orders = {"C": GA_C_ORDER, "F": GA_F_ORDER, "A": GA_ANY_ORDER, "K": GA_ANY_ORDER}
    try:
        return orders[order.upper()]
    except (KeyError, AttributeError):
        raise ValueError("order must be 'C', 'F', 'A' or 'K', not %r" % (order,)) from None


cdef public GpuArray pygpu_empty(unsigned int nd, const size_t *dims, int typecode, ga_order order, GpuContext context, object cls):
    cdef GpuArray made = _new(_context(context), cls, None)
    pygpu_raise(made.context.ctx, GpuArray_empty(&made.ga, made.context.ctx, typecode, nd, dims, order))
    return made


cdef public GpuArray pygpu_zeros(unsigned int nd, const size_t *dims, int typecode, ga_order order, GpuContext context, object cls):
    cdef GpuArray made = _new(_context(context), cls, None)
    pygpu_raise(made.context.ctx, GpuArray_zeros(&made.ga, made.context.ctx, typecode, nd, dims, order))
    return made


cdef public GpuArray pygpu_fromgpudata(gpudata *data, size_t offset, int typecode, unsigned int nd, const size_t *dims, const ssize_t *strides,
                                       GpuContext context, int writable, object base, object cls):
    cdef GpuArray made = _new(context, cls, base)
    pygpu_raise(context.ctx, GpuArray_fromdata(&made.ga, data, offset, typecode, nd, dims, strides, writable))
    return made


cdef public GpuArray pygpu_fromhostdata(void *data, int typecode, unsigned int nd, const size_t *dims, const ssize_t *strides, GpuContext context,
                                        object cls):
    cdef unsigned i
    cdef ssize_t low = 0, high = <ssize_t>gpuarray_get_elsize(typecode)
    for i in range(nd):
        if dims[i] > 0:
            if strides[i] < 0:
                low += (<ssize_t>dims[i] - 1) * strides[i]
            else:
                high += (<ssize_t>dims[i] - 1) * strides[i]
    held = (<const char *>data + low)[:high - low]
    host = np.ndarray([dims[i] for i in range(nd)], typecode_to_dtype(typecode), held, -low, [strides[i] for i in range(nd)])
    return array(host, context=context, cls=cls)


cdef public GpuArray pygpu_empty_like(GpuArray a, ga_order order, int typecode):
    if order == GA_ANY_ORDER:
        order = GA_F_ORDER if a.ga.flags & GA_F_CONTIGUOUS and not a.ga.flags & GA_C_CONTIGUOUS else GA_C_ORDER
    return pygpu_empty(a.ga.nd, a.ga.dimensions, a.ga.typecode if typecode == -1 else typecode, order, a.context, type(a))


cdef public GpuArray pygpu_copy(GpuArray a, ga_order order):
    cdef GpuArray made = _new(a.context, type(a), None)
    pygpu_raise(a.context.ctx, GpuArray_copy(&made.ga, &a.ga, order))
    return made


cdef object _origin(GpuArray a):
    return a if a.base is None else a.base


cdef public GpuArray pygpu_view(GpuArray a, object cls):
    cdef GpuArray made = _new(a.context, cls, _origin(a))
    pygpu_raise(a.context.ctx, GpuArray_view(&made.ga, &a.ga))
    return made


cdef public GpuArray pygpu_index(GpuArray a, const ssize_t *starts, const ssize_t *stops, const ssize_t *steps):
    cdef GpuArray made = _new(a.context, type(a), _origin(a))
    pygpu_raise(a.context.ctx, GpuArray_index(&made.ga, &a.ga, starts, stops, steps))
    return made


cdef public GpuArray pygpu_transpose(GpuArray a, const unsigned *axes):
    cdef GpuArray made = _new(a.context, type(a), _origin(a))
    pygpu_raise(a.context.ctx, GpuArray_transpose(&made.ga, &a.ga, axes))
    return made


cdef public GpuArray pygpu_reshape(GpuArray a, unsigned int nd, const size_t *dims, ga_order order, int nocopy, int compute_axis):
    cdef size_t lengths[32]
    cdef size_t known = 1
    cdef unsigned i
    cdef GpuArray made
    if nd > GA_MAX_DIMS:
        raise ValueError("an array has at most %d axes, not %d" % (GA_MAX_DIMS, nd))
    for i in range(nd):
        lengths[i] = dims[i]
        if <int>i != compute_axis:
            known *= dims[i]
    if 0 <= compute_axis < <int>nd:
        if known == 0 or a.size % known != 0:
            raise ValueError("an array of %d elements cannot be reshaped into pieces of %d" % (a.size, known))
        lengths[compute_axis] = a.size // known
    made = _new(a.context, type(a), None)
    pygpu_raise(a.context.ctx, GpuArray_reshape(&made.ga, &a.ga, nd, lengths, order, nocopy))
    if GpuArray_share(&made.ga, &a.ga):
        made.base = _origin(a)
    return made


cdef public object pygpu_as_ndarray(GpuArray a):
    return np.asarray(a)


cdef public int pygpu_move(GpuArray to, GpuArray source) except -1:
    return pygpu_raise(to.context.ctx, GpuArray_move(&to.ga, &source.ga))


cdef public int pygpu_transfer(GpuArray to, GpuArray source) except -1:
    return pygpu_raise(to.context.ctx, GpuArray_transfer(&to.ga, &source.ga))


cdef public int pygpu_sync(GpuArray a) except -1:
    a.context.sync()
    return 0


def empty(shape, dtype="float64", order="C", context=None, cls=None):
    """Return a new array with undefined elements.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype
    order : {"C", "F"}
    context : GpuContext, optional
    cls : type, optional
        A subclass of `GpuArray`.
    """
    cdef size_t dims[32]
    cdef int nd = _dims(shape, dims)
    return pygpu_empty(nd, dims, dtype_to_typecode(dtype), _order(order), _context(context), cls)


cdef class _PageLocked:
    """Page-locked memory of the host, as an object with a buffer."""

    cdef GpuContext context
    cdef void *memory
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.memory, self.size, 0, flags)

    def __dealloc__(self):
        if self.memory != NULL:
            gpucontext_host_free(self.context.ctx, self.memory)


def empty_pinned(shape, dtype="float64", context=None):
    """Return an uninitialized NumPy array in page-locked memory. A device reads such memory by itself, without a copy in
    between, so that transfers to the device are faster. Page-locked memory is scarce.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    context : GpuContext, optional
        Default: the default context.

    Returns
    -------
    numpy.ndarray
        In C order. If the device has no page-locked memory (OpenCL), the memory is ordinary.

    Raises
    ------
    MemoryError
    """
    cdef _PageLocked made = _PageLocked.__new__(_PageLocked)
    cdef int code
    array = np.empty(shape, dtype)
    if array.nbytes == 0:
        return array
    made.context, made.size = _context(context), array.nbytes
    code = gpucontext_host_alloc(made.context.ctx, made.size, &made.memory)
    if code == GA_UNSUPPORTED_ERROR:
        return array
    pygpu_raise(made.context.ctx, code)
    return np.frombuffer(made, array.dtype).reshape(array.shape)


def zeros(shape, dtype="float64", order="C", context=None, cls=None):
    """Return a new array of zeros. The parameters are the same as for `empty`."""
    cdef size_t dims[32]
    cdef int nd = _dims(shape, dims)
    return pygpu_zeros(nd, dims, dtype_to_typecode(dtype), _order(order), _context(context), cls)


def array(proto, dtype=None, copy=True, order=None, ndmin=0, context=None, cls=None):
    """Return a device array made from an array, or from any value that NumPy converts to an array.

    Parameters
    ----------
    proto : array_like or GpuArray
    dtype : dtype, optional
        By default, the dtype of `proto`.
    copy : bool
        If False, return `proto` itself if it fulfills all requirements.
    order : {"C", "F", "A", None}
    ndmin : int
        Minimum number of axes; axes of length 1 are inserted at the beginning.
    context : GpuContext, optional
        By default, the context of `proto` if it is on a device, else the default context.
    cls : type, optional

    Returns
    -------
    GpuArray

    Raises
    ------
    ValueError
        If devices do not support the dtype.
    """
    cdef GpuArray made, source
    if isinstance(proto, GpuArray):
        source = proto
        if context is not None and context is not source.context:
            return array(source.transfer(context), dtype, False, order, ndmin, context, cls)
        wanted = source.dtype if dtype is None else np.dtype(dtype)
        fits = order in (None, "A", "K") or (source.ga.flags & (GA_F_CONTIGUOUS if order in ("F", "f") else GA_C_CONTIGUOUS))
        if not copy and fits and wanted == source.dtype and source.ga.nd >= ndmin and (cls is None or type(source) is cls):
            return source
        made = empty(source.shape, wanted, "C" if order in (None, "A", "K") else order, source.context, type(source) if cls is None else cls)
        pygpu_raise(made.context.ctx, GpuArray_setarray(&made.ga, &source.ga))
        return made[(None,) * (ndmin - source.ga.nd)] if source.ga.nd < ndmin else made
    ctx = context if context is not None else _default
    if ctx is not None and _kinds[(<GpuContext?>ctx).ptr] == "cuda" and hasattr(proto, "__cuda_array_interface__"):
        return array(_of_cuda_interface(proto.__cuda_array_interface__, proto, ctx), dtype, copy, order, ndmin, ctx, cls)
    host = np.asarray(proto, dtype=dtype)
    if not host.dtype.isnative:
        host = host.astype(host.dtype.newbyteorder("="))
    if host.ndim < ndmin:
        host = host.reshape((1,) * (ndmin - host.ndim) + host.shape)
    fortran = order in ("F", "f") or order in ("A", "K") and host.flags.f_contiguous and not host.flags.c_contiguous
    made = empty(host.shape, host.dtype, "F" if fortran else "C", _context(context), cls)
    made.write(host)
    return made


def asarray(a, dtype=None, order="A", context=None):
    """Return a device array as `array` does, but without a copy if possible."""
    return array(a, dtype=dtype, copy=False, order=order, context=context)


def ascontiguousarray(a, dtype=None, context=None):
    """Return a device array in C order with at least one axis, without a copy if possible."""
    return array(a, dtype=dtype, copy=False, order="C", ndmin=1, context=context)


def asfortranarray(a, dtype=None, context=None):
    """Return a device array in Fortran order with at least one axis, without a copy if possible."""
    return array(a, dtype=dtype, copy=False, order="F", ndmin=1, context=context)


def from_gpudata(size_t data, offset, dtype, shape, context=None, strides=None, writable=True, base=None, cls=None):
    """Return a view of existing memory.

    Parameters
    ----------
    data : int
        `GpuArray.gpudata` of another array.
    offset : int
        Bytes in front of the first element.
    dtype, shape, strides
        Strides are in bytes. By default, the array is in C order.
    base : object
        An object that keeps the memory alive.
    """
    cdef size_t dims[32]
    cdef ssize_t steps[32]
    cdef int i, nd = _dims(shape, dims)
    typecode = dtype_to_typecode(dtype)
    if strides is None:
        step = gpuarray_get_elsize(typecode)
        for i in reversed(range(nd)):
            steps[i] = step
            step *= dims[i]
    elif len(strides) != nd:
        raise ValueError("got %d strides for %d axes" % (len(strides), nd))
    else:
        for i in range(nd):
            steps[i] = strides[i]
    return pygpu_fromgpudata(<gpudata *>data, offset, typecode, nd, dims, steps, _context(context), writable, base, cls)


def may_share_memory(a, b):
    """Return True if two device arrays are views of the same memory.

    Raises
    ------
    TypeError
        If an argument is not a device array.
    """
    for value in (a, b):
        if not isinstance(value, GpuArray):
            raise TypeError("expected two device arrays, got %s" % type(value).__name__)
    return bool(GpuArray_share(&(<GpuArray>a).ga, &(<GpuArray>b).ga))
