# cython: language_level=3, embedsignature=True
"""Arrays on devices: contexts, arrays and kernels, with the interface that pygpu had.

Nothing is loaded until a context is opened (`init`): then the driver of the device is, and nothing else.

Work is asked for and done later, in the order in which it was asked for; what reads results waits for them (`GpuArray.sync`, ``numpy.asarray``).
"""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import os

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.program_cache import ProgramCache

cdef extern from *:
    """
    #include <dlfcn.h>
    /* Not gpuarray_api.h: its structs have the first members of ours. */
    PyTypeObject *pygpu_array_type, *pygpu_context_type;

    /* C code of Ops is linked with what this module defines: its symbols are made known to modules that are loaded later. */
    static int symbols_for_all(void)
    {
        Dl_info here;
        return dladdr((void *)&symbols_for_all, &here) != 0 && dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) != NULL ? 0 : -1;
    }
    """
    PyTypeObject *pygpu_array_type
    PyTypeObject *pygpu_context_type
    int symbols_for_all()

__all__ = [
    "GpuArray", "GpuArrayException", "GpuContext", "GpuKernel", "SIZE", "SSIZE", "UnsupportedException", "array", "asarray", "ascontiguousarray",
    "asfortranarray", "count_devices", "count_platforms", "dtype_to_ctype", "dtype_to_typecode", "empty", "from_dlpack", "from_gpudata", "get_default_context",
    "init", "may_share_memory", "set_default_context", "typecode_to_dtype", "zeros",
]


class GpuArrayException(Exception):
    """What went wrong on a device, or on the way to it."""


class UnsupportedException(GpuArrayException):
    """The device, or its kind, cannot do that."""


_EXCEPTIONS = {
    GA_MEMORY_ERROR: MemoryError,
    GA_VALUE_ERROR: ValueError,
    GA_XLARGE_ERROR: MemoryError,
    GA_UNSUPPORTED_ERROR: UnsupportedException,
    GA_DEVSUP_ERROR: UnsupportedException,
    GA_COPY_ERROR: ValueError,
    GA_READONLY_ERROR: ValueError,
}

cdef public int pygpu_raise(gpucontext *ctx, int code) except -1:
    if code == GA_NO_ERROR:
        return 0
    raise _EXCEPTIONS.get(code, GpuArrayException)(gpucontext_error(ctx, code).decode("utf-8", "replace"))


# ---- types of elements ----

class _Argument:
    """The type of an argument of a kernel that is a length or a stride.

    Parameters
    ----------
    name : str
    code : int
    """

    def __init__(self, name, code):
        self.name, self.code = name, code

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return self.name


SIZE = _Argument("SIZE", GA_SIZE)
SSIZE = _Argument("SSIZE", GA_SSIZE)

_CTYPES = {
    "bool": "ga_bool", "int8": "ga_byte", "uint8": "ga_ubyte", "int16": "ga_short", "uint16": "ga_ushort", "int32": "ga_int", "uint32": "ga_uint",
    "int64": "ga_long", "uint64": "ga_ulong", "float16": "ga_half", "float32": "ga_float", "float64": "ga_double", "complex64": "ga_cfloat",
    "complex128": "ga_cdouble",
}
_DTYPES = {
    GA_BOOL: np.dtype("bool"), GA_BYTE: np.dtype("int8"), GA_UBYTE: np.dtype("uint8"), GA_SHORT: np.dtype("int16"), GA_USHORT: np.dtype("uint16"),
    GA_INT: np.dtype("int32"), GA_UINT: np.dtype("uint32"), GA_LONG: np.dtype("int64"), GA_ULONG: np.dtype("uint64"), GA_HALF: np.dtype("float16"),
    GA_FLOAT: np.dtype("float32"), GA_DOUBLE: np.dtype("float64"), GA_CFLOAT: np.dtype("complex64"), GA_CDOUBLE: np.dtype("complex128"),
}
_TYPECODES = {dtype: code for code, dtype in _DTYPES.items()}


def dtype_to_typecode(dtype):
    """The number of a type of elements in C.

    Parameters
    ----------
    dtype : dtype or int
        A number is given back.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        When devices have no such elements.
    """
    if isinstance(dtype, int):
        return dtype
    code = _TYPECODES.get(np.dtype(dtype))
    if code is None:
        raise ValueError("arrays on devices have no elements of dtype %s" % np.dtype(dtype))
    return code


def typecode_to_dtype(typecode):
    """The dtype that a number of C stands for; ValueError when there is none."""
    dtype = _DTYPES.get(typecode)
    if dtype is None:
        raise ValueError("%r is the number of no type of elements" % (typecode,))
    return dtype


def dtype_to_ctype(dtype):
    """The name of a type of elements in kernels.

    Examples
    --------
    >>> dtype_to_ctype("float32")
    'ga_float'
    """
    name = _CTYPES.get(np.dtype(dtype).name)
    if name is None:
        raise ValueError("arrays on devices have no elements of dtype %s" % np.dtype(dtype))
    return name


# What kernels need of a device.
USE_SMALL, USE_DOUBLE, USE_COMPLEX, USE_HALF = GA_USE_SMALL, GA_USE_DOUBLE, GA_USE_COMPLEX, GA_USE_HALF


# ---- contexts ----

cdef void *_find(gpucontext *ctx, const char *text, int flags, const char *options, size_t *size) noexcept with gil:
    try:
        cache = _caches.get(<size_t>ctx)
        found = None if cache is None else cache.find(_program_key(ctx, text, flags, options))
    except Exception:
        found = None
    if found is None:
        return NULL
    size[0] = len(found)
    cdef void *copy = malloc(size[0] + 1)
    if copy != NULL:
        memcpy(copy, <const char *><bytes>found, size[0])
    return copy


cdef void _keep(gpucontext *ctx, const char *text, int flags, const char *options, const void *binary, size_t size) noexcept with gil:
    try:
        cache = _caches.get(<size_t>ctx)
        if cache is not None:
            cache.keep(_program_key(ctx, text, flags, options), (<const char *>binary)[:size])
    except Exception:
        pass  # a cache that cannot be written is none


cdef object _program_key(gpucontext *ctx, const char *text, int flags, const char *options):
    cdef const char *binaries = NULL
    gpucontext_property(ctx, GA_CTX_PROP_BIN_ID, &binaries)
    return (binaries, b"%d" % flags, options, loader.cluda(_kinds[<size_t>ctx]).encode(), text)


_caches = {}  # address of a context -> ProgramCache
_kinds = {}  # address of a context -> "cuda", "opencl", "stub"
_names = {}  # address of a context -> what it was opened as
_default = None


def init(dev, sched="default", single_stream=False, kernel_cache_path=None, max_cache_size=None, initial_cache_size=0, checked=False):
    """Open a context: a device with a stream and a pool of memory of its own.

    Parameters
    ----------
    dev : str
        ``"cuda"``, ``"cuda0"``, ``"opencl0:1"`` (platform and device).
    sched : {"default", "single", "multi"}
        How the host waits: for one thread that waits often, or for several.
    single_stream : bool
        Copies go in the stream of the computations. That is always so here.
    kernel_cache_path : str, optional
        A folder for what was built for the device.
    max_cache_size : int, optional
        0: memory is given back at once.
    initial_cache_size : float
        As `config.gpuarray.preallocate`: a part of the memory, or megabytes.
    checked : bool
        Wait for every kernel, so that the one that fails is known. Slow.

    Returns
    -------
    GpuContext

    Raises
    ------
    ValueError
        When the string names no device.
    GpuArrayException
        When there is no such device, or it cannot be used; with the reason.
    """
    cdef GpuContext made = GpuContext.__new__(GpuContext)
    cdef char text[4096]
    cdef int code, flags = GA_CTX_SINGLE_STREAM
    name = dev.encode()
    if sched not in ("default", "single", "multi"):
        raise ValueError("sched is 'default', 'single' or 'multi', not %r" % (sched,))
    flags |= {"default": 0, "single": GA_CTX_SCHED_SINGLE, "multi": GA_CTX_SCHED_MULTI}[sched]
    if checked:
        flags |= GA_CTX_CHECKED
    for which, path in loader.libraries(dev).items():
        encoded = b"" if path is None else os.fsencode(path)
        device_set_library(which.encode(), <const char *>NULL if path is None else <const char *>encoded)
    kind = dev.rstrip("0123456789:")
    if kind in ("cuda", "opencl"):
        device_set_dialect(kind.encode(), loader.cluda(kind).encode())
    made.ctx = gpucontext_open(name, flags, -1.0 if max_cache_size == 0 else initial_cache_size, &code, text, sizeof(text))
    if made.ctx == NULL:
        raise _EXCEPTIONS.get(code, GpuArrayException)(text.decode("utf-8", "replace"))
    _kinds[<size_t>made.ctx] = kind
    _names[<size_t>made.ctx] = dev
    if kernel_cache_path is not None:
        made.kernel_cache_path = kernel_cache_path
        _caches[<size_t>made.ctx] = ProgramCache(kernel_cache_path)
        device_program_cache.find = _find
        device_program_cache.keep = _keep
    return made


def set_default_context(context):
    """The context of calls that name none; None: no one."""
    global _default
    if context is not None and not isinstance(context, GpuContext):
        raise TypeError("expected a GpuContext, got %s" % type(context).__name__)
    _default = context


def get_default_context():
    """The context of calls that name none, or None."""
    return _default


cdef GpuContext _context(context):
    if context is None:
        context = _default
    if context is None:
        raise TypeError("no context was given, and there is no default (set_default_context)")
    if not isinstance(context, GpuContext):
        raise TypeError("expected a GpuContext, got %s" % type(context).__name__)
    return context


def count_platforms(kind):
    """How many platforms of a kind ("cuda", "opencl") there are."""
    n = 0
    while _opens("%s%d" % (kind, n)) if kind == "opencl" else n == 0 and count_devices(kind, 0) > 0:
        n += 1
    return n


def count_devices(kind, platform):
    """How many devices a platform of a kind has; CUDA has one platform, number 0."""
    n = 0
    while _opens("%s%d" % (kind, n) if kind == "cuda" else "%s%d:%d" % (kind, platform, n)):
        n += 1
    return n


def _opens(name):
    try:
        init(name)
    except (GpuArrayException, ValueError, MemoryError):
        return False
    return True


cdef size_t _number(GpuContext context, int property) except? 0:
    cdef size_t value = 0
    pygpu_raise(context.ctx, gpucontext_property(context.ctx, property, &value))
    return value


cdef public class GpuContext [object PyGpuContextObject, type _PyGpuContextType]:
    """A device, with a stream and a pool of memory; `init` opens one. It is closed when nothing refers to it any more."""

    def __init__(self):
        raise TypeError("contexts are opened by init()")

    def __cinit__(self):
        self.kernels = {}

    def __dealloc__(self):
        if self.ctx != NULL:
            for table in (_kinds, _names, _caches):
                if table is not None:  # at the end of the process
                    table.pop(<size_t>self.ctx, None)
            gpucontext_release(self.ctx)

    def __reduce__(self):
        raise RuntimeError("contexts cannot be pickled")

    def __enter__(self):
        """The default context inside a ``with``."""
        if self.entered is None:
            self.entered = []
        self.entered.append(_default)
        set_default_context(self)
        return self

    def __exit__(self, *raised):
        set_default_context(self.entered.pop())

    def __repr__(self):
        return "<GpuContext %s: %s>" % (self.kind.decode(), self.devname)

    def sync(self):
        """Wait until all that was asked for is done."""
        cdef int code
        with nogil:
            code = gpucontext_sync(self.ctx)
        pygpu_raise(self.ctx, code)

    def trim(self):
        """Give the memory of the pool that nobody uses back to the device."""
        pool_trim(self.ctx)

    @property
    def ptr(self):
        """The address of the context in C."""
        return <size_t>self.ctx

    @property
    def kind(self):
        """b"cuda", b"opencl" or b"stub"."""
        return _kinds[<size_t>self.ctx].encode()

    @property
    def devname(self):
        """What the device is called."""
        cdef char name[256]
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_DEVNAME, name))
        return name.decode("utf-8", "replace")

    @property
    def unique_id(self):
        """Where the device is: its place on the bus; of OpenCL the numbers of platform and device."""
        cdef char name[16]
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_UNIQUE_ID, name))
        return name.decode("utf-8", "replace")

    @property
    def bin_id(self):
        """What binaries for the device depend on."""
        cdef const char *name = NULL
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_BIN_ID, &name))
        return name.decode("utf-8", "replace")

    @property
    def lmemsize(self):
        """Bytes of local memory of a group."""
        return _number(self, GA_CTX_PROP_LMEMSIZE)

    @property
    def numprocs(self):
        """How many processors the device has."""
        cdef unsigned value = 0
        pygpu_raise(self.ctx, gpucontext_property(self.ctx, GA_CTX_PROP_NUMPROCS, &value))
        return value

    @property
    def maxlsize(self):
        """Most threads of a group."""
        return _number(self, GA_CTX_PROP_MAXLSIZE)

    @property
    def maxlsize0(self):
        """The same: along the first axis."""
        return self.maxlsize

    @property
    def maxgsize(self):
        """Most groups of a launch, along the first axis."""
        return _number(self, GA_CTX_PROP_MAXGSIZE)

    @property
    def maxgsize0(self):
        """The same: along the first axis."""
        return self.maxgsize

    @property
    def total_gmem(self):
        """Bytes of memory of the device."""
        return _number(self, GA_CTX_PROP_TOTAL_GMEM)

    @property
    def free_gmem(self):
        """Bytes of it that are free; all, where the driver does not tell."""
        return _number(self, GA_CTX_PROP_FREE_GMEM)

    @property
    def largest_memblock(self):
        """Bytes of the largest array."""
        return _number(self, GA_CTX_PROP_LARGEST_MEMBLOCK)

    @property
    def memory(self):
        """What the pool has: a dict with the bytes ``in_use``, ``reserved`` and at the ``peak``, the number of ``blocks`` in use, and of ``allocations``."""
        cdef pool_counts counts
        pool_count(self.ctx, &counts)
        return {"in_use": counts.in_use, "reserved": counts.reserved, "peak": counts.peak, "blocks": counts.blocks, "allocations": counts.allocations}


# ---- arrays ----

cdef GpuArray _new(GpuContext context, cls, base):
    cls = GpuArray if cls is None else cls
    cdef GpuArray made = (<type>cls).__new__(cls)
    made.context = context
    made.base = base
    return made


cdef int _dims(shape, size_t *dims) except -1:
    """Reads a shape into C; returns how many axes it has."""
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
        raise ValueError("order is 'C', 'F', 'A' or 'K', not %r" % (order,)) from None


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
    """A new array with undefined elements.

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


def zeros(shape, dtype="float64", order="C", context=None, cls=None):
    """A new array of zeros; the parameters are those of `empty`."""
    cdef size_t dims[32]
    cdef int nd = _dims(shape, dims)
    return pygpu_zeros(nd, dims, dtype_to_typecode(dtype), _order(order), _context(context), cls)


def array(proto, dtype=None, copy=True, order=None, ndmin=0, context=None, cls=None):
    """An array on a device of an array or what NumPy makes one of.

    Parameters
    ----------
    proto : array_like or GpuArray
    dtype : dtype, optional
        That of `proto` unless it is given.
    copy : bool
        False: `proto` itself if it is what is asked for.
    order : {"C", "F", "A", None}
    ndmin : int
        Axes of length 1 are put in front up to this number.
    context : GpuContext, optional
        That of `proto` if it is on a device, else the default.
    cls : type, optional

    Returns
    -------
    GpuArray

    Raises
    ------
    ValueError
        When devices have no such elements.
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
    """`array` that copies only if it has to."""
    return array(a, dtype=dtype, copy=False, order=order, context=context)


def ascontiguousarray(a, dtype=None, context=None):
    """`asarray` in C order."""
    return array(a, dtype=dtype, copy=False, order="C", ndmin=1, context=context)


def asfortranarray(a, dtype=None, context=None):
    """`asarray` in the order of Fortran."""
    return array(a, dtype=dtype, copy=False, order="F", ndmin=1, context=context)


def from_gpudata(size_t data, offset, dtype, shape, context=None, strides=None, writable=True, base=None, cls=None):
    """A view of memory that is there already.

    Parameters
    ----------
    data : int
        `GpuArray.gpudata` of another array.
    offset : int
        Bytes in front of the first element.
    dtype, shape, strides
        Strides in bytes; those of an array in C order unless they are given.
    base : object
        What keeps the memory alive.
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
        raise ValueError("%d strides for %d axes" % (len(strides), nd))
    else:
        for i in range(nd):
            steps[i] = strides[i]
    return pygpu_fromgpudata(<gpudata *>data, offset, typecode, nd, dims, steps, _context(context), writable, base, cls)


def may_share_memory(a, b):
    """Whether two arrays are views of the same memory; False when one of them is on no device."""
    if not isinstance(a, GpuArray) or not isinstance(b, GpuArray):
        return False
    return bool(GpuArray_share(&(<GpuArray>a).ga, &(<GpuArray>b).ga))


# What `elemwise` computes; operators are of no use without it.
_binary, _in_place, _compare, _unary, _divmod = {}, None, None, None, None


def set_operators(binary, in_place, compare, unary, divmod_):
    """Say what operators do; `elemwise` does."""
    global _binary, _in_place, _compare, _unary, _divmod
    _binary, _in_place, _compare, _unary, _divmod = binary, in_place, compare, unary, divmod_


def _is_operand(value):
    return isinstance(value, (GpuArray, np.ndarray, np.generic, bool, int, float, complex))


cdef object _operate(str name, a, b):
    if not _is_operand(a) or not _is_operand(b):
        return NotImplemented
    return _binary[name](a, b, a if isinstance(a, GpuArray) else b)


# ---- memory of other libraries ----

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
    # One that somebody took has another name, and its tensor is his.
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
    """A view of another library's array on the same device, by DLPack.

    Parameters
    ----------
    x : object
        With the method ``__dlpack__``.
    context : GpuContext, optional

    Raises
    ------
    ValueError
        When the array is on another device, or has elements that devices have not.
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
        raise ValueError("the array is on device %s of DLPack, the context on %s" % (theirs, _dl_device(ctx)))
    capsule = x.__dlpack__()
    tensor = <DLManagedTensor *>PyCapsule_GetPointer(capsule, "dltensor")
    kind = {number: kind for kind, number in _DL_CODES.items()}.get(tensor.dl_tensor.dtype.code)
    try:
        dtype = np.dtype("bool" if kind == "b" else "%s%d" % (kind, tensor.dl_tensor.dtype.bits // 8))
        typecode = dtype_to_typecode(dtype)
    except (TypeError, ValueError):
        raise ValueError("arrays on devices have no elements of type %s of DLPack" % ((tensor.dl_tensor.dtype.code, tensor.dl_tensor.dtype.bits),)) from None
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
        raise ValueError("the array begins in front of its memory")
    data = gpudata_wrap(ctx.ctx, <size_t>tensor.dl_tensor.data, tensor.dl_tensor.byte_offset + high + dtype.itemsize, tensor, _drop_imported, &code)
    pygpu_raise(ctx.ctx, code)
    PyCapsule_SetName(capsule, "used_dltensor")
    try:
        return pygpu_fromgpudata(data, tensor.dl_tensor.byte_offset, typecode, tensor.dl_tensor.ndim, dims, steps, ctx, True, None, None)
    finally:
        gpudata_release(data)


cdef GpuArray _of_cuda_interface(interface, owner, GpuContext ctx):
    """A view of what ``__cuda_array_interface__`` describes."""
    cdef size_t dims[32]
    cdef ssize_t steps[32]
    cdef ssize_t low = 0, high = 0, reach
    cdef gpudata *data
    cdef int i, code, nd = _dims(interface["shape"], dims)
    if interface.get("mask") is not None:
        raise ValueError("masked arrays cannot be taken over")
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


class Flags:
    """`GpuArray.flags`: as attributes and as items, ``flags.c_contiguous`` or ``flags["C_CONTIGUOUS"]``."""

    def __init__(self, flags, owndata):
        self.c_contiguous = bool(flags & GA_C_CONTIGUOUS)
        self.f_contiguous = bool(flags & GA_F_CONTIGUOUS)
        self.aligned = bool(flags & GA_ALIGNED)
        self.writeable = bool(flags & GA_WRITEABLE)
        self.owndata = owndata
        self.updateifcopy = False
        self.contiguous = self.c_contiguous
        self.fortran = self.f_contiguous
        self.forc = self.c_contiguous or self.f_contiguous
        self.fnc = self.f_contiguous and not self.c_contiguous
        self.behaved = self.aligned and self.writeable
        self.carray = self.behaved and self.c_contiguous
        self.farray = self.behaved and self.fnc
        self.num = flags

    def __getitem__(self, name):
        try:
            return getattr(self, {"C": "c_contiguous", "F": "f_contiguous", "A": "aligned", "W": "writeable", "O": "owndata"}.get(name, name.lower()))
        except AttributeError:
            raise KeyError(name) from None

    def __eq__(self, other):
        return isinstance(other, Flags) and vars(self) == vars(other)

    def __hash__(self):
        return self.num

    def __repr__(self):
        names = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")
        return "\n".join("  %s : %s" % (name.upper(), getattr(self, name)) for name in names)


cdef public class GpuArray [object PyGpuArrayObject, type _PyGpuArrayType]:
    """An array on a device: the part of numpy.ndarray that makes sense there.

    Arrays are made by `empty`, `zeros`, `array` and by views of others. ``numpy.asarray(a)`` copies one to the host.
    """

    def __dealloc__(self):
        GpuArray_clear(&self.ga)

    def __init__(self, *unused):
        if type(self) is GpuArray and self.ga.data == NULL:
            raise RuntimeError("arrays are made by empty(), zeros() and array()")

    # -- what it is --

    @property
    def shape(self):
        """Lengths of the axes."""
        cdef unsigned i
        return tuple([self.ga.dimensions[i] for i in range(self.ga.nd)])

    @shape.setter
    def shape(self, shape):
        cdef GpuArray other = self._reshaped(shape, "C", True)
        _swap(self, other)

    @property
    def strides(self):
        """Bytes from one element to the next along each axis."""
        cdef unsigned i
        return tuple([self.ga.strides[i] for i in range(self.ga.nd)])

    @property
    def ndim(self):
        """How many axes it has."""
        return self.ga.nd

    @property
    def size(self):
        """How many elements it has."""
        cdef size_t n = 1
        cdef unsigned i
        for i in range(self.ga.nd):
            n *= self.ga.dimensions[i]
        return n

    @property
    def dtype(self):
        """Of its elements."""
        return _DTYPES[self.ga.typecode]

    @property
    def typecode(self):
        """The number of that in C."""
        return self.ga.typecode

    @property
    def itemsize(self):
        """Bytes of an element."""
        return gpuarray_get_elsize(self.ga.typecode)

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def flags(self):
        """Of contiguity and so on, see `Flags`."""
        return Flags(self.ga.flags, self.base is None)

    @property
    def offset(self):
        """Bytes of the memory in front of the first element."""
        return self.ga.offset

    @property
    def gpudata(self):
        """The memory, as the address of its record in C."""
        return <size_t>self.ga.data

    @property
    def base_data(self):
        """The same: what kernels are handed."""
        return <size_t>self.ga.data

    @property
    def T(self):
        """The transposed view."""
        return self.transpose()

    def __len__(self):
        if self.ga.nd == 0:
            raise TypeError("len() of an array without axes")
        return self.ga.dimensions[0]

    # -- views --

    def view(self, cls=None):
        """Another array of the same memory; of a subclass `cls`."""
        return pygpu_view(self, type(self) if cls is None else cls)

    def transpose(self, *axes):
        """The view with its axes in another order, reversed unless it is given."""
        cdef unsigned order[32]
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)):
            axes = () if axes[0] is None else tuple(axes[0])
        if not axes:
            return pygpu_transpose(self, NULL)
        if len(axes) != self.ga.nd:
            raise ValueError("%d axes for an array of %d" % (len(axes), self.ga.nd))
        for i, axis in enumerate(axes):
            order[i] = axis + <int>self.ga.nd if axis < 0 else axis
        return pygpu_transpose(self, order)

    def _reshaped(self, shape, order, nocopy):
        cdef size_t dims[32]
        try:
            lengths = tuple(shape)
        except TypeError:
            lengths = (shape,)
        unknown = [i for i, length in enumerate(lengths) if length == -1]
        if len(unknown) > 1:
            raise ValueError("only one length can be -1, not %d" % len(unknown))
        nd = _dims([1 if length == -1 else length for length in lengths], dims)
        return pygpu_reshape(self, nd, dims, _order(order), nocopy, unknown[0] if unknown else -1)

    def reshape(self, *shape, order="C"):
        """The same elements with other lengths; a view if there is one. One length may be -1, it follows from the others."""
        return self._reshaped(shape[0] if len(shape) == 1 else shape, order, False)

    def ravel(self, order="C"):
        """All elements along one axis."""
        return self._reshaped((-1,) if self.size else (0,), order, False)

    flatten = ravel

    def squeeze(self):
        """Without the axes of length 1."""
        return self._reshaped([length for length in self.shape if length != 1], "C", True)

    def _indexed(self, key):
        """The view that basic indexing gives, and whether the key names one element."""
        cdef ssize_t starts[32]
        cdef ssize_t stops[32]
        cdef ssize_t steps[32]
        cdef GpuArray found
        key = key if isinstance(key, tuple) else (key,)
        used = sum(1 for part in key if part is not None and part is not Ellipsis)
        if sum(1 for part in key if part is Ellipsis) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if used > self.ga.nd:
            raise IndexError("too many indices: the array has %d axes, %d are indexed" % (self.ga.nd, used))
        full = []
        for part in key if Ellipsis in [p for p in key if p is None or p is Ellipsis] else (*key, Ellipsis):
            full.extend([slice(None)] * (self.ga.nd - used) if part is Ellipsis else [part])
        axis, shape = 0, []
        for part in full:
            if part is None:
                shape.append(1)
                continue
            length = self.ga.dimensions[axis]
            if isinstance(part, slice):
                starts[axis], stops[axis], steps[axis] = part.indices(length)
                shape.append(len(range(starts[axis], stops[axis], steps[axis])))
            else:
                try:
                    i = part.__index__()
                except (AttributeError, TypeError):
                    raise IndexError("arrays on devices are indexed by integers, slices, None and '...', not %s" % type(part).__name__) from None
                if not -<ssize_t>length <= i < <ssize_t>length:
                    raise IndexError("index %d is out of bounds for axis %d with size %d" % (i, axis, length))
                starts[axis], stops[axis], steps[axis] = i + length if i < 0 else i, 0, 0
            axis += 1
        found = pygpu_index(self, starts, stops, steps)
        return found if None not in full else found._reshaped(shape, "C", True)

    def __getitem__(self, key):
        return self._indexed(key)

    def __setitem__(self, key, value):
        cdef GpuArray place = self._indexed(key)
        cdef GpuArray source
        if isinstance(value, GpuArray):
            source = value
            if source.context is not self.context:
                raise ValueError("arrays of two contexts: transfer() the value first")
        else:
            value = np.asarray(value)
            if value.dtype != self.dtype and not np.can_cast(value.dtype, self.dtype, "unsafe" if value.ndim == 0 else "same_kind"):
                raise TypeError("values of dtype %s cannot be put into an array of %s" % (value.dtype, self.dtype))
            source = array(value.astype(self.dtype), context=self.context)
        pygpu_raise(self.context.ctx, GpuArray_setarray(&place.ga, &source.ga))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # -- copies --

    def copy(self, order="C"):
        """A copy in C order, "F", or "A": the order it has."""
        return pygpu_copy(self, _order(order))

    def __copy__(self):
        return pygpu_copy(self, GA_C_ORDER)

    def __deepcopy__(self, memo):
        return pygpu_copy(self, GA_C_ORDER)

    def astype(self, dtype, order="A", copy=True):
        """Its elements converted."""
        cdef GpuArray made
        dtype = np.dtype(dtype)
        if dtype == self.dtype and not copy:
            return self
        if self.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError("complex numbers cannot be converted to %s" % dtype)
        made = pygpu_empty_like(self, _order(order), dtype_to_typecode(dtype))
        pygpu_raise(self.context.ctx, GpuArray_setarray(&made.ga, &self.ga))
        return made

    def transfer(self, GpuContext new_ctx not None):
        """The array in another context; itself when that is its own."""
        cdef GpuArray made, whole
        cdef int code
        if new_ctx is self.context:
            return self
        whole = self if self.ga.flags & GA_C_CONTIGUOUS else pygpu_copy(self, GA_C_ORDER)
        made = pygpu_empty(self.ga.nd, self.ga.dimensions, self.ga.typecode, GA_C_ORDER, new_ctx, type(self))
        with nogil:
            code = GpuArray_transfer(&made.ga, &whole.ga)
        pygpu_raise(new_ctx.ctx, code)
        return made

    def write(self, src):
        """Copy an array of the host into this one: of the same lengths, in one piece here."""
        cdef const char[::1] flat
        cdef const char *data = NULL
        cdef size_t size = self.nbytes
        cdef int code
        host = np.asarray(src, dtype=self.dtype)
        if host.shape != self.shape:
            raise ValueError("an array of shape %s is written into one of %s" % (host.shape, self.shape))
        if not self.ga.flags & (GA_C_CONTIGUOUS | GA_F_CONTIGUOUS):
            raise ValueError("only arrays in one piece can be written as a whole")
        host = np.ascontiguousarray(host if self.ga.flags & GA_C_CONTIGUOUS else host.T)
        if size == 0:
            return
        flat = host.reshape(-1).view(np.int8)
        data = &flat[0]
        with nogil:
            code = GpuArray_write(&self.ga, data, size)
        pygpu_raise(self.context.ctx, code)

    def read(self, dst):
        """Copy this array into one of the host: of the same lengths and dtype, both in one piece and in the same order."""
        cdef char[::1] flat
        cdef char *data = NULL
        cdef size_t size = self.nbytes
        cdef int code
        if not isinstance(dst, np.ndarray) or dst.shape != self.shape or dst.dtype != self.dtype:
            raise ValueError("an array of shape %s and dtype %s is needed" % (self.shape, self.dtype))
        contiguous = self.ga.flags & GA_C_CONTIGUOUS and dst.flags.c_contiguous
        if not contiguous and not (self.ga.flags & GA_F_CONTIGUOUS and dst.flags.f_contiguous):
            raise ValueError("both arrays have to be in one piece, and in the same order")
        if not dst.flags.writeable:
            raise ValueError("the array that is read into is read-only")
        if size == 0:
            return
        flat = (dst if contiguous else dst.T).reshape(-1).view(np.int8)
        data = &flat[0]
        with nogil:
            code = GpuArray_read(data, size, &self.ga)
        pygpu_raise(self.context.ctx, code)

    def sync(self):
        """Wait until all that was asked of the device is done."""
        self.context.sync()

    # -- for other libraries --

    @property
    def __cuda_array_interface__(self):
        """Version 3, of arrays on CUDA's devices."""
        if _kinds[<size_t>self.context.ctx] != "cuda":
            raise AttributeError("an array on %r has no __cuda_array_interface__" % (self.context,))
        return {
            "shape": self.shape,
            "strides": None if self.ga.flags & GA_C_CONTIGUOUS else self.strides,
            "typestr": self.dtype.str,
            "data": (gpudata_address(self.ga.data) + self.ga.offset if self.size else 0, not self.ga.flags & GA_WRITEABLE),
            "version": 3,
            "stream": 1,
        }

    def __dlpack_device__(self):
        """The kind of device, and its number."""
        return _dl_device(self.context)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule by which other libraries see the array. What was asked for before is done before what they do.

        Raises
        ------
        BufferError
            When its strides are no multiples of its elements, when another device is wanted, or a copy must not be made.
        """
        cdef DLManagedTensor *tensor
        cdef GpuArray array = self
        cdef unsigned i, itemsize = gpuarray_get_elsize(self.ga.typecode)
        if dl_device is not None and tuple(dl_device) != _dl_device(self.context):
            raise BufferError("the array is on device %s of DLPack, not on %s" % (_dl_device(self.context), tuple(dl_device)))
        if copy:
            array = pygpu_copy(self, GA_C_ORDER)
        for i in range(array.ga.nd):
            if array.ga.strides[i] % <ssize_t>itemsize:
                raise BufferError("strides of %s bytes are no multiples of the %d of an element" % (self.strides, itemsize))
        if stream != -1 and stream not in (None, 1, 2):
            self.context.sync()
        tensor = <DLManagedTensor *>malloc(sizeof(DLManagedTensor))
        if tensor == NULL:
            raise MemoryError()
        tensor.dl_tensor.shape = <int64_t *>malloc((2 * array.ga.nd + 1) * sizeof(int64_t))
        if tensor.dl_tensor.shape == NULL:
            free(tensor)
            raise MemoryError()
        tensor.dl_tensor.strides = tensor.dl_tensor.shape + array.ga.nd
        for i in range(array.ga.nd):
            tensor.dl_tensor.shape[i] = array.ga.dimensions[i]
            tensor.dl_tensor.strides[i] = array.ga.strides[i] // <ssize_t>itemsize
        tensor.dl_tensor.data = <void *><size_t>gpudata_address(array.ga.data)
        tensor.dl_tensor.byte_offset = array.ga.offset
        tensor.dl_tensor.ndim = array.ga.nd
        tensor.dl_tensor.device.device_type, tensor.dl_tensor.device.device_id = _dl_device(self.context)
        tensor.dl_tensor.dtype.code = _DL_CODES[self.dtype.kind]
        tensor.dl_tensor.dtype.bits, tensor.dl_tensor.dtype.lanes = 8 * itemsize, 1
        tensor.manager_ctx = <void *>array
        Py_INCREF(array)
        tensor.deleter = _drop_exported
        return PyCapsule_New(tensor, "dltensor", _drop_capsule)

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("an array on a device has to be copied")
        cdef GpuArray whole = self
        if not self.ga.flags & (GA_C_CONTIGUOUS | GA_F_CONTIGUOUS):
            whole = pygpu_copy(self, GA_C_ORDER)
        host = np.empty(whole.shape, whole.dtype, "C" if whole.ga.flags & GA_C_CONTIGUOUS else "F")
        whole.read(host)
        return host if dtype is None else host.astype(dtype, copy=False)

    # -- operators; those of two arrays take the place of NumPy's where one of them is on the host --

    __array_priority__ = 1000
    __array_ufunc__ = None

    def __add__(self, other):
        return _operate("add", self, other)

    def __radd__(self, other):
        return _operate("add", other, self)

    def __iadd__(self, other):
        return _in_place("add", self, other)

    def __sub__(self, other):
        return _operate("sub", self, other)

    def __rsub__(self, other):
        return _operate("sub", other, self)

    def __isub__(self, other):
        return _in_place("sub", self, other)

    def __mul__(self, other):
        return _operate("mul", self, other)

    def __rmul__(self, other):
        return _operate("mul", other, self)

    def __imul__(self, other):
        return _in_place("mul", self, other)

    def __truediv__(self, other):
        return _operate("truediv", self, other)

    def __rtruediv__(self, other):
        return _operate("truediv", other, self)

    def __itruediv__(self, other):
        return _in_place("truediv", self, other)

    def __floordiv__(self, other):
        return _operate("floordiv", self, other)

    def __rfloordiv__(self, other):
        return _operate("floordiv", other, self)

    def __ifloordiv__(self, other):
        return _in_place("floordiv", self, other)

    def __mod__(self, other):
        return _operate("mod", self, other)

    def __rmod__(self, other):
        return _operate("mod", other, self)

    def __imod__(self, other):
        return _in_place("mod", self, other)

    def __pow__(self, other, modulo):
        return _operate("pow", self, other)

    def __rpow__(self, other, modulo):
        return _operate("pow", other, self)

    def __ipow__(self, other):
        return _in_place("pow", self, other)

    def __and__(self, other):
        return _operate("and", self, other)

    def __rand__(self, other):
        return _operate("and", other, self)

    def __iand__(self, other):
        return _in_place("and", self, other)

    def __or__(self, other):
        return _operate("or", self, other)

    def __ror__(self, other):
        return _operate("or", other, self)

    def __ior__(self, other):
        return _in_place("or", self, other)

    def __xor__(self, other):
        return _operate("xor", self, other)

    def __rxor__(self, other):
        return _operate("xor", other, self)

    def __ixor__(self, other):
        return _in_place("xor", self, other)

    def __lshift__(self, other):
        return _operate("lshift", self, other)

    def __rlshift__(self, other):
        return _operate("lshift", other, self)

    def __ilshift__(self, other):
        return _in_place("lshift", self, other)

    def __rshift__(self, other):
        return _operate("rshift", self, other)

    def __rrshift__(self, other):
        return _operate("rshift", other, self)

    def __irshift__(self, other):
        return _in_place("rshift", self, other)

    def __divmod__(self, other):
        return _divmod(self, other, self) if _is_operand(other) else NotImplemented

    def __rdivmod__(self, other):
        return _divmod(other, self, self) if _is_operand(other) else NotImplemented

    def __neg__(self):
        return _unary("neg", self)

    def __pos__(self):
        return _unary("pos", self)

    def __abs__(self):
        return _unary("abs", self)

    def __invert__(self):
        return _unary("invert", self)

    def __richcmp__(self, other, int op):
        if not _is_operand(other):
            return NotImplemented
        return _compare(self, ("<", "<=", "==", "!=", ">", ">=")[op], other)

    __hash__ = None

    # -- numbers --

    def __bool__(self):
        if self.size != 1:
            raise ValueError("the truth value of an array of %d elements is not defined" % self.size)
        return bool(np.asarray(self).item())

    def _one(self):
        if self.size != 1:
            raise TypeError("only arrays of one element are numbers, this one has %d" % self.size)
        return np.asarray(self).item()

    def item(self):
        """The one element, as Python's number."""
        return self._one()

    def __int__(self):
        return int(self._one())

    def __float__(self):
        return float(self._one())

    def __complex__(self):
        return complex(self._one())

    def __index__(self):
        if self.dtype.kind not in "iu":
            raise TypeError("an array of %s is no index" % self.dtype)
        return int(self._one())

    def tolist(self):
        """As lists of Python's numbers."""
        return np.asarray(self).tolist()

    def __str__(self):
        return str(np.asarray(self))

    def __repr__(self):
        text = repr(np.asarray(self))
        return "gpuarray." + text if text.startswith("array(") else text

    def __reduce__(self):
        raise TypeError("arrays on devices are pickled by what knows their context; pickle numpy.asarray(a) instead")


cdef int _swap(GpuArray a, GpuArray b) except -1:
    cdef _GpuArray kept = a.ga
    a.ga = b.ga
    b.ga = kept
    return 0


# ---- kernels ----

cdef class GpuKernel:
    """A kernel that is built for a context.

    Parameters
    ----------
    source : str
        In the dialect of ``cluda.h``, or in that of the device with `cuda` or `opencl`.
    name : str
        Of the kernel in it.
    types : sequence
        Of the arguments: `GpuArray`, `SIZE`, `SSIZE` or a dtype.
    context : GpuContext, optional
    cuda, opencl : bool
        The text is that of the device's language.
    have_double, have_small, have_complex, have_half : bool
        What it needs of the device.

    Raises
    ------
    GpuArrayException
        When it cannot be built; with its lines and the compiler's words.
    """

    def __init__(self, source, name, types, context=None, cuda=False, opencl=False, have_double=False, have_small=False, have_complex=False,
                 have_half=False):
        flags = (cuda and GA_USE_CUDA) | (opencl and GA_USE_OPENCL) | (have_double and GA_USE_DOUBLE) | (have_small and GA_USE_SMALL)
        flags |= (have_complex and GA_USE_COMPLEX) | (have_half and GA_USE_HALF)
        made = build(source, [(name, types)], context, flags)[0]
        _take(self, made)

    def __dealloc__(self):
        gpukernel_release(self.kernel)

    @property
    def maxlsize(self):
        """Most threads of a group."""
        cdef size_t value = 0
        pygpu_raise(self.context.ctx, gpukernel_property(self.kernel, GA_KERNEL_PROP_MAXLSIZE, &value))
        return value

    @property
    def preflsize(self):
        """What the number of threads of a group is best a multiple of."""
        cdef size_t value = 0
        pygpu_raise(self.context.ctx, gpukernel_property(self.kernel, GA_KERNEL_PROP_PREFLSIZE, &value))
        return value

    @property
    def numargs(self):
        """How many arguments it has."""
        return len(self.types)

    @property
    def ptr(self):
        """The address of its record in C; good as long as the kernel is."""
        return <size_t>self.kernel

    def __call__(self, *args, n=None, gs=None, ls=None, shared=0):
        """Run it.

        Parameters
        ----------
        *args
            Arrays and numbers.
        n : int or sequence of int, optional
            How many threads are needed in all; or:
        gs, ls : int or sequence of int, optional
            Groups, and threads of a group.
        shared : int
            Bytes of local memory.
        """
        cdef size_t groups[3]
        cdef size_t group[3]
        cdef void *values[256]
        cdef char numbers[256 * 16]
        cdef GpuArray a
        cdef int i, nd
        cdef bytes number
        if len(args) != len(self.types):
            raise TypeError("kernel %s has %d arguments, %d were given" % (self.name, len(self.types), len(args)))
        for i, (value, kind) in enumerate(zip(args, self.types)):
            if kind is None:
                if not isinstance(value, GpuArray):
                    raise TypeError("argument %d of kernel %s is an array, not %s" % (i, self.name, type(value).__name__))
                a = value
                values[i] = a.ga.data
            else:
                number = np.asarray(value, dtype=kind).tobytes()
                memcpy(&numbers[16 * i], <const char *>number, len(number))
                values[i] = &numbers[16 * i]
        sizes = [() if size is None else tuple(size) if isinstance(size, (tuple, list)) else (size,) for size in (n, gs, ls)]
        nd = max(len(size) for size in sizes) or 1
        if nd > 3:
            raise ValueError("a kernel runs along 1 to 3 axes, not %d" % nd)
        if not sizes[0] and not sizes[1]:
            raise ValueError("how often kernel %s runs is not said: n, or gs and ls" % self.name)
        for i in range(nd):
            groups[i] = sizes[1][i] if i < len(sizes[1]) else 0
            group[i] = sizes[2][i] if i < len(sizes[2]) else 0
            if groups[i] == 0 or group[i] == 0:
                total = sizes[0][i] if i < len(sizes[0]) else groups[i] * (group[i] or 1) or 1
                if nd == 1:
                    gpukernel_sched(self.kernel, total, &groups[i], &group[i])
                else:
                    group[i] = group[i] or 1
                    groups[i] = groups[i] or (total + group[i] - 1) // group[i]
        pygpu_raise(self.context.ctx, gpukernel_call(self.kernel, nd, groups, group, shared, values))


cdef int _take(GpuKernel to, GpuKernel made) except -1:
    to.kernel, made.kernel = made.kernel, NULL
    to.context, to.name, to.types, to.codes = made.context, made.name, made.types, made.codes
    return 0


def build(source, kernels, context=None, int flags=0, options=""):
    """Build the kernels of one text together.

    Parameters
    ----------
    source : str
    kernels : sequence of (str, sequence)
        Names, and types of arguments as for `GpuKernel`.
    context : GpuContext, optional
    flags : int
        ``GA_USE_...``
    options : str
        Words for the device's compiler.

    Returns
    -------
    list of GpuKernel

    Raises
    ------
    GpuArrayException
        When it cannot be built; with its lines and the compiler's words.
    """
    cdef GpuContext ctx = _context(context)
    cdef unsigned i, n = len(kernels)
    cdef char *log = NULL
    cdef char *listing
    cdef const char **names = <const char **>malloc(n * sizeof(char *) or 1)
    cdef unsigned *counts = <unsigned *>malloc(n * sizeof(unsigned) or 1)
    cdef const int **types = <const int **>malloc(n * sizeof(int *) or 1)
    cdef gpukernel **built = <gpukernel **>malloc(n * sizeof(gpukernel *) or 1)
    cdef GpuKernel kernel
    made = []
    kept = []
    text, words = source.encode(), options.encode()
    try:
        if names == NULL or counts == NULL or types == NULL or built == NULL:
            raise MemoryError()
        for i, (name, arguments) in enumerate(kernels):
            kernel = GpuKernel.__new__(GpuKernel)
            kernel.name = name
            kernel.context = ctx
            kernel.types = [_number_type(argument) for argument in arguments]
            kernel.codes = np.array([_argument_code(argument) for argument in arguments], np.intc).tobytes()
            kept.append(name.encode())
            names[i] = <const char *><bytes>kept[i]
            counts[i] = len(kernel.types)
            types[i] = <const int *><const char *>kernel.codes
            made.append(kernel)
        code = gpukernel_build(ctx.ctx, text, flags, words, n, names, counts, types, built, &log)
        if code != GA_NO_ERROR:
            reason = gpucontext_error(ctx.ctx, code).decode("utf-8", "replace")
            listing = numbered_listing(text, log)
            try:
                raise _EXCEPTIONS.get(code, GpuArrayException)(
                    "kernel %s cannot be built for %s: %s\n%s"
                    % (", ".join([name for name, _ in kernels]), ctx.devname, reason, b"" if listing == NULL else listing.decode("utf-8", "replace"))
                )
            finally:
                free(listing)
        for i in range(n):
            kernel = made[i]
            kernel.kernel = built[i]
    finally:
        free(log)
        free(names)
        free(counts)
        free(types)
        free(built)
    return made


def _is_array(kind):
    return kind == "*" or isinstance(kind, type) and issubclass(kind, GpuArray)


def _argument_code(kind):
    if _is_array(kind):
        return GA_BUFFER
    return kind.code if isinstance(kind, _Argument) else dtype_to_typecode(kind)


def _number_type(kind):
    """The dtype of a number, None for an array."""
    if _is_array(kind):
        return None
    if isinstance(kind, _Argument):
        return np.dtype("uint64" if kind is SIZE else "int64")
    return typecode_to_dtype(dtype_to_typecode(kind))


pygpu_array_type = <PyTypeObject *>GpuArray
pygpu_context_type = <PyTypeObject *>GpuContext
if symbols_for_all() < 0:
    raise ImportError("the symbols of %s cannot be made known to C code of Ops" % __name__)
