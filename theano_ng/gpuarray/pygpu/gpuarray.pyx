# cython: language_level=3, embedsignature=True
"""Arrays on devices: contexts, arrays and kernels, with the interface of pygpu.

The driver of a device is not loaded until a context is opened (`init`).

Device work is asynchronous and runs in the order of the calls. Functions that read results wait for them
(`GpuArray.sync`, ``numpy.asarray``).
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import os

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.index_errors import Report, error_of
from theano_ng.gpuarray.device.program_cache import ProgramCache

cdef extern from *:
    """
    #include <dlfcn.h>
    /* Do not include gpuarray_api.h: it declares structs with the first members of the classes below. */
    PyTypeObject *pygpu_array_type, *pygpu_context_type;

    /* The C code of Ops links against symbols of this module: make them visible to modules that are loaded later. */
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
    """An error on a device, or when it is opened."""


class UnsupportedException(GpuArrayException):
    """The device does not support an operation."""


_EXCEPTIONS = {
    GA_MEMORY_ERROR: MemoryError,
    GA_VALUE_ERROR: ValueError,
    GA_XLARGE_ERROR: ValueError,
    GA_UNSUPPORTED_ERROR: UnsupportedException,
    GA_DEVSUP_ERROR: UnsupportedException,
    GA_COPY_ERROR: ValueError,
    GA_READONLY_ERROR: ValueError,
}

cdef public int pygpu_raise(gpucontext *ctx, int code) except -1:
    cdef const index_error *found
    if code == GA_NO_ERROR:
        return 0
    if code == GA_INDEX_ERROR:
        found = index_error_found()
        lengths = tuple([found.lengths[i] for i in range(GA_MAX_DIMS)])
        raise error_of(Report(found.site, found.place, found.index, lengths, bool(found.of_other_thread)))
    raise _EXCEPTIONS.get(code, GpuArrayException)(gpucontext_error(ctx, code).decode("utf-8", "replace"))


cdef int raise_collected(gpucontext *ctx, int code) except -1:
    """Raise the error of a launch that was collected. The virtual machine adds the node to the message."""
    if code == GA_MEMORY_ERROR:
        return pygpu_raise(ctx, code)
    raise RuntimeError("gpuarray error: " + gpucontext_error(ctx, code).decode("utf-8", "replace"))


include "element_types.pxi"
include "contexts.pxi"
include "new_arrays.pxi"


_take = None


def set_take(function):
    """Set the function behind `GpuArray.take1`. The module `basic` calls this function."""
    global _take
    _take = function


# Functions of the module `elemwise`. `set_operators` stores them here; without them, the operators do not work.
_binary, _in_place, _compare, _unary, _divmod = {}, None, None, None, None


def set_operators(binary, in_place, compare, unary, divmod_):
    """Set the functions that implement the operators. The module `elemwise` calls this function."""
    global _binary, _in_place, _compare, _unary, _divmod
    _binary, _in_place, _compare, _unary, _divmod = binary, in_place, compare, unary, divmod_


def _is_operand(value):
    return isinstance(value, (GpuArray, np.ndarray, np.generic, bool, int, float, complex))


cdef object _operate(str name, a, b):
    if not _is_operand(a) or not _is_operand(b):
        return NotImplemented
    return _binary[name](a, b, a if isinstance(a, GpuArray) else b)


include "exchange.pxi"


# The short names of flags
_FLAG_NAMES = {
    "C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned", "U": "updateifcopy", "B": "behaved", "CA": "carray",
    "FA": "farray",
}


class Flags:
    """The flags of an array, as attributes and as items: ``flags.c_contiguous`` or ``flags["C_CONTIGUOUS"]``."""

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
            return getattr(self, _FLAG_NAMES.get(name, name.lower()))
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
    """A device array, with the part of the interface of numpy.ndarray that makes sense on a device.

    Arrays are made by `empty`, `zeros` and `array`, and as views of other arrays. ``numpy.asarray(a)`` copies an array
    to the host.
    """

    def __dealloc__(self):
        GpuArray_clear(&self.ga)

    def __init__(self, *unused):
        if type(self) is GpuArray and self.ga.data == NULL:
            raise RuntimeError("arrays are made by empty(), zeros() and array()")

    # -- properties --

    @property
    def shape(self):
        """The lengths of the axes."""
        cdef unsigned i
        return tuple([self.ga.dimensions[i] for i in range(self.ga.nd)])

    @shape.setter
    def shape(self, shape):
        cdef GpuArray other = self._reshaped(shape, "C", True)
        _swap(self, other)

    @property
    def strides(self):
        """The distance between elements along each axis, in bytes."""
        cdef unsigned i
        return tuple([self.ga.strides[i] for i in range(self.ga.nd)])

    @strides.setter
    def strides(self, strides):
        """Raise ValueError if the number of strides is wrong, or an element would be outside of the memory."""
        cdef GpuArray other
        cdef size_t dims[32]
        cdef ssize_t steps[32]
        cdef unsigned i
        cdef tuple given = tuple(strides)
        if len(given) != self.ga.nd:
            raise ValueError("got %d strides for an array with %d axes" % (len(given), self.ga.nd))
        for i in range(self.ga.nd):
            dims[i], steps[i] = self.ga.dimensions[i], given[i]
        other = pygpu_fromgpudata(self.ga.data, self.ga.offset, self.ga.typecode, self.ga.nd, dims, steps, self.context,
                                  self.ga.flags & GA_WRITEABLE, self.base, type(self))
        _swap(self, other)

    @property
    def ndim(self):
        """The number of axes."""
        return self.ga.nd

    @property
    def size(self):
        """The number of elements."""
        cdef size_t n = 1
        cdef unsigned i
        for i in range(self.ga.nd):
            n *= self.ga.dimensions[i]
        return n

    @property
    def dtype(self):
        """The dtype of the elements."""
        return _DTYPES[self.ga.typecode]

    @property
    def typecode(self):
        """The C type code of the elements."""
        return self.ga.typecode

    @property
    def itemsize(self):
        """The number of bytes of an element."""
        return gpuarray_get_elsize(self.ga.typecode)

    @property
    def nbytes(self):
        """The number of bytes of all elements."""
        return self.size * self.itemsize

    @property
    def flags(self):
        """The memory layout flags, see `Flags`."""
        return Flags(self.ga.flags, self.base is None)

    @property
    def offset(self):
        """The offset of the first element in the memory, in bytes."""
        return self.ga.offset

    @property
    def gpudata(self):
        """The address of the C record of the memory."""
        return <size_t>self.ga.data

    @property
    def base_data(self):
        """The same address as `gpudata`. A kernel accepts it as an array argument."""
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

    def _empty_like_me(self, dtype=None, order="C"):
        """Return an array with undefined elements, and with the shape, class and context of this array.

        Parameters
        ----------
        dtype : dtype, optional
            By default, the dtype of this array.
        order : str
            "C" or "F"
        """
        return pygpu_empty_like(self, _order(order), self.ga.typecode if dtype is None else dtype_to_typecode(dtype))

    def take1(self, idx):
        """Return the rows that a device array of integers selects; see `pygpu.basic.take1`."""
        return _take(self, idx)

    def view(self, cls=None):
        """Return a view of the whole array. Its class is `cls`, by default the class of this array."""
        return pygpu_view(self, type(self) if cls is None else cls)

    def transpose(self, *axes):
        """Return a view with permuted axes. By default, the order of the axes is reversed."""
        cdef unsigned order[32]
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)):
            axes = () if axes[0] is None else tuple(axes[0])
        if not axes:
            return pygpu_transpose(self, NULL)
        if len(axes) != self.ga.nd:
            raise ValueError("got %d axes for an array with %d axes" % (len(axes), self.ga.nd))
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
        """Return an array with the same elements and another shape. It is a view if possible.

        One length may be -1; it is computed from the other lengths. The elements are read and placed in the order
        "C", "F", or "A" for the order of this array.
        """
        if order in ("K", "k"):
            raise ValueError("order 'K' is not permitted for reshaping; use 'C', 'F' or 'A'")
        return self._reshaped(shape[0] if len(shape) == 1 else shape, order, False)

    def ravel(self, order="C"):
        """Return an array of rank 1 with all elements. It is a view if possible.

        The elements are read in the order "C", "F", "A" for the order of this array, or "K" for their order in memory
        (along axes with a negative stride, backwards).
        """
        flat = (-1,) if self.size else (0,)
        if order in ("K", "k"):
            by_stride = sorted(range(self.ga.nd), key=lambda axis: -abs(self.strides[axis]))
            return self.transpose(by_stride)._reshaped(flat, "C", False)
        return self._reshaped(flat, order, False)

    def flatten(self, order="C"):
        """Return a copy of rank 1 with all elements, in an order as for `ravel`."""
        cdef GpuArray flat = self.ravel(order)
        return pygpu_copy(flat, GA_C_ORDER) if GpuArray_share(&flat.ga, &self.ga) else flat

    def squeeze(self):
        """Return a view without the axes of length 1."""
        return self._reshaped([length for length in self.shape if length != 1], "C", True)

    def _indexed(self, key):
        """Return the view that a basic index selects."""
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
                i = _index_of(part)
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
                raise ValueError("the arrays are in different contexts: transfer() the value first")
        else:
            source = array(_stored(value, self.dtype), context=self.context)
        pygpu_raise(self.context.ctx, GpuArray_setarray(&place.ga, &source.ga))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # -- copies --

    def copy(self, order="C"):
        """Return a copy in the memory layout `order`: "C", "F", or "A" for the order of this array."""
        return pygpu_copy(self, _order(order))

    def __copy__(self):
        return pygpu_copy(self, GA_C_ORDER)

    def __deepcopy__(self, memo):
        return pygpu_copy(self, GA_C_ORDER)

    def astype(self, dtype, order="A", copy=True):
        """Return an array with the elements converted to another dtype."""
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
        """Return a copy in another context, or the array itself if it is in that context."""
        cdef GpuArray made, whole
        cdef int code
        if new_ctx is self.context:
            return self
        whole = self if self.ga.flags & GA_C_CONTIGUOUS else pygpu_copy(self, GA_C_ORDER)
        made = pygpu_empty(self.ga.nd, self.ga.dimensions, self.ga.typecode, GA_C_ORDER, new_ctx, type(self))
        queue_close_any()
        with nogil:
            code = GpuArray_transfer(&made.ga, &whole.ga)
        pygpu_raise(new_ctx.ctx, code)
        return made

    def write(self, src):
        """Copy a host array of the same shape and dtype into this array, which must be contiguous."""
        cdef const char[::1] flat
        cdef const char *data = NULL
        cdef size_t size = self.nbytes
        cdef int code
        host = np.asarray(src)
        if host.dtype != self.dtype:
            raise ValueError("an array of dtype %s cannot be written into an array of dtype %s: convert it first" % (host.dtype, self.dtype))
        if host.shape != self.shape:
            raise ValueError("an array of shape %s cannot be written into an array of shape %s" % (host.shape, self.shape))
        if not self.ga.flags & (GA_C_CONTIGUOUS | GA_F_CONTIGUOUS):
            raise ValueError("only contiguous arrays can be written as a whole")
        host = np.ascontiguousarray(host if self.ga.flags & GA_C_CONTIGUOUS else host.T)
        if size == 0:
            return
        flat = host.reshape(-1).view(np.int8)
        data = &flat[0]
        queue_close_any()
        with nogil:
            code = GpuArray_write(&self.ga, data, size)
        pygpu_raise(self.context.ctx, code)

    def read(self, dst):
        """Copy this array into a host array of the same shape and dtype. Both must be contiguous, in the same order."""
        cdef char[::1] flat
        cdef char *data = NULL
        cdef size_t size = self.nbytes
        cdef int code
        if not isinstance(dst, np.ndarray) or dst.shape != self.shape or dst.dtype != self.dtype:
            raise ValueError("expected an array of shape %s and dtype %s" % (self.shape, self.dtype))
        contiguous = self.ga.flags & GA_C_CONTIGUOUS and dst.flags.c_contiguous
        if not contiguous and not (self.ga.flags & GA_F_CONTIGUOUS and dst.flags.f_contiguous):
            raise ValueError("both arrays must be contiguous, in the same order")
        if not dst.flags.writeable:
            raise ValueError("the array that is read into is read-only")
        if size == 0:
            return
        flat = (dst if contiguous else dst.T).reshape(-1).view(np.int8)
        data = &flat[0]
        queue_close_any()
        with nogil:
            code = GpuArray_read(data, size, &self.ga)
        pygpu_raise(self.context.ctx, code)

    def sync(self):
        """Wait until the device has done all its work."""
        self.context.sync()

    # -- for other libraries --

    @property
    def __cuda_array_interface__(self):
        """The description of the array for other CUDA libraries, in version 3 of the interface."""
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
        """Return DLPack's number for the kind of the device, and the number of the device."""
        return _dl_device(self.context)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Return a capsule by which other libraries access the array. Work that was requested before this call runs
        before the work of these libraries.

        Raises
        ------
        BufferError
            If the strides are not multiples of the element size, another device is requested, or a copy is needed but
            not allowed.
        """
        cdef DLManagedTensor *tensor
        cdef GpuArray array = self
        cdef unsigned i, itemsize = gpuarray_get_elsize(self.ga.typecode)
        if dl_device is not None and tuple(dl_device) != _dl_device(self.context):
            raise BufferError("the array is on DLPack device %s, not on %s" % (_dl_device(self.context), tuple(dl_device)))
        if copy:
            array = pygpu_copy(self, GA_C_ORDER)
        for i in range(array.ga.nd):
            if array.ga.strides[i] % <ssize_t>itemsize:
                raise BufferError("strides of %s bytes are not multiples of the element size, %d bytes" % (self.strides, itemsize))
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
            raise ValueError("an array on a device must be copied")
        cdef GpuArray whole = self
        if not self.ga.flags & (GA_C_CONTIGUOUS | GA_F_CONTIGUOUS):
            whole = pygpu_copy(self, GA_C_ORDER)
        host = np.empty(whole.shape, whole.dtype, "C" if whole.ga.flags & GA_C_CONTIGUOUS else "F")
        whole.read(host)
        return host if dtype is None else host.astype(dtype, copy=False)

    # -- operators; Python calls them instead of NumPy's operators if one operand is a host array --

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

    # -- conversion to scalars --

    def __bool__(self):
        if self.size == 0:
            return False
        if self.size > 1:
            raise ValueError("the truth value of an array of %d elements is not defined" % self.size)
        return bool(np.asarray(self).item())

    def _one(self):
        if self.size != 1:
            raise TypeError("only arrays of one element can be converted to a scalar, this array has %d" % self.size)
        return np.asarray(self).item()

    def item(self):
        """Return the only element, as a Python scalar."""
        return self._one()

    def __int__(self):
        return int(self._one())

    def __float__(self):
        return float(self._one())

    def __complex__(self):
        return complex(self._one())

    def __index__(self):
        if self.dtype.kind not in "iu":
            raise TypeError("an array of %s cannot be used as an index" % self.dtype)
        return int(self._one())

    def tolist(self):
        """Return the elements as nested lists of Python scalars."""
        return np.asarray(self).tolist()

    def __str__(self):
        return str(np.asarray(self))

    def __repr__(self):
        text = repr(np.asarray(self))
        return "gpuarray." + text if text.startswith("array(") else text

    def __reduce__(self):
        raise TypeError("only the variables of theano_ng know how to pickle an array with its context; pickle numpy.asarray(a) instead")


cdef object _index_of(part):
    """Return an index as an int. A bool is a mask for NumPy, not the number 0 or 1."""
    if not isinstance(part, bool):
        try:
            return part.__index__()
        except (AttributeError, TypeError):
            pass
    raise IndexError("arrays on devices are indexed by integers, slices, None and '...', not %s" % type(part).__name__)


cdef object _stored(value, dtype):
    """Return a host array of the dtype with the value. NumPy raises the errors if numbers do not fit.

    Arrays of another kind are refused: NumPy would convert them without a check of their elements.
    """
    host = np.asarray(value)
    if host is value and host.ndim > 0 and not np.can_cast(host.dtype, dtype, "same_kind"):
        raise TypeError("values of dtype %s cannot be stored in an array of %s; convert them by astype() first" % (host.dtype, dtype))
    stored = np.empty(host.shape, dtype)
    stored[...] = value
    return stored


cdef int _swap(GpuArray a, GpuArray b) except -1:
    cdef _GpuArray kept = a.ga
    a.ga = b.ga
    b.ga = kept
    return 0


include "kernels.pxi"
include "nccl.pxi"


pygpu_array_type = <PyTypeObject *>GpuArray
pygpu_context_type = <PyTypeObject *>GpuContext
if symbols_for_all() < 0:
    raise ImportError("the symbols of %s cannot be exported to the C code of Ops" % __name__)
