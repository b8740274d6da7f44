"""Types of arrays on devices and of contexts. Variables, constants and shared variables whose values are on devices."""

import copyreg
import functools
import glob
import os
import sys

import numpy as np

from theano_ng.compile._backups import set_device_array
from theano_ng.compile.ops import rebroadcast
from theano_ng.compile.sharedvalue import SharedVariable, without_inner_overlap
from theano_ng.configdefaults import config
from theano_ng.gof._native import address_of_open_queue
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.link import Container
from theano_ng.gof.ports import Port
from theano_ng.gof.type import Type
from theano_ng.gof.utils import hash_from_code
from theano_ng.gpuarray.contexts import ContextNotDefined, context_address, get_context, list_contexts, reg_context
from theano_ng.gpuarray.contexts import name_of_context as _name_for_ctx
from theano_ng.gpuarray.contexts import unregister as _unreg_context  # noqa: F401  (a classic name of this module)
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.misc.may_share_memory import register_may_share_memory
from theano_ng.misc.pkl_utils import register_device_arrays
from theano_ng.scalar import get_scalar_type
from theano_ng.tensor import compile_ops
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type import values_eq_approx as _values_eq_approx_on_host
from theano_ng.tensor.var import TensorConstantSignature, _tensor_py_operators

__all__ = [
    "ContextNotDefined",
    "GpuArrayConstant",
    "GpuArraySharedVariable",
    "GpuArraySignature",
    "GpuArrayType",
    "GpuArrayVariable",
    "GpuContextType",
    "get_context",
    "gpu_context_type",
    "gpu_supported",
    "gpuarray_shared_constructor",
    "list_contexts",
    "move_to_gpu",
    "reg_context",
]

INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
"""The folder of the headers that the C code of Ops includes."""


@functools.cache
def header_version():
    """Return a hash of the headers in `INCLUDE`. If it changes, C code that includes them must be compiled again."""
    texts = []
    for path in sorted(glob.glob(os.path.join(glob.escape(INCLUDE), "**", "*.h"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return hash_from_code("\0".join(texts))


# The Ops that move arrays are defined in modules that import this module, so this module refers to the Ops by ports.
_to_host = Port(
    "_to_host", "theano_ng.gpuarray.transfers", "The variable on the host with the value of a variable on a device."
)
_to_host.fill("theano_ng.gpuarray.transfers:host_from_gpu")
_to_context = Port(
    "_to_context",
    "theano_ng.gpuarray.transfers",
    "``_to_context(variable, context_name)``: a variable in that context with the value of the given variable.",
)
_to_context.fill("theano_ng.gpuarray.transfers:as_gpuarray_variable")
_between_contexts = Port(
    "_between_contexts",
    "theano_ng.gpuarray.transfers",
    "``_between_contexts(context_name)``: the Op that copies arrays from other contexts to this context.",
)
_between_contexts.fill("theano_ng.gpuarray.transfers:GpuToGpu")


def gpu_supported(data):
    """Return True if devices can hold the data. They do not support complex numbers, nor more than 32 dimensions.

    Parameters
    ----------
    data : variable or array
        An object with attributes `dtype` and `ndim`.
    """
    return str(data.dtype) not in ("complex64", "complex128") and data.ndim <= pygpu.MAX_DIMS


def move_to_gpu(data):
    """Return True if a computation on the data should be moved to a device. Complex and 0-d data stay on the host."""
    return gpu_supported(data) and data.ndim > 0


def values_eq_approx(a, b, allow_remove_inf=False, allow_remove_nan=False, rtol=None, atol=None):
    """Return True if two arrays have the same shape and dtype, and elements that agree up to rounding.

    Parameters
    ----------
    a, b : GpuArray
        The trusted value, and the value to check.
    allow_remove_inf, allow_remove_nan, rtol, atol
        See `tensor.type.values_eq_approx`.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return _values_eq_approx_on_host(np.asarray(a), np.asarray(b), allow_remove_inf, allow_remove_nan, rtol, atol)


def values_eq_approx_remove_inf(a, b):
    """Compare arrays like `values_eq_approx`, but allow a rewrite to replace infinities by other values."""
    return values_eq_approx(a, b, allow_remove_inf=True)


def values_eq_approx_remove_nan(a, b):
    """Compare arrays like `values_eq_approx`, but allow a rewrite to replace NaN by other values."""
    return values_eq_approx(a, b, allow_remove_nan=True)


def values_eq_approx_remove_inf_nan(a, b):
    """Compare arrays like `values_eq_approx`, but allow a rewrite to replace infinities and NaN by other values."""
    return values_eq_approx(a, b, allow_remove_inf=True, allow_remove_nan=True)


class GpuArrayType(Type):
    """The type of arrays on a device.

    Parameters
    ----------
    dtype : str
        NumPy's name. "floatX" means `config.floatX`.
    broadcastable : sequence of bool
        For each axis, whether its length is known to be 1.
    context_name : hashable
        Name of the context. None is the name of the context of `config.device`. The context must exist before values
        are made.
    name : str, optional
        The printed name.

    Raises
    ------
    TypeError
        If devices do not support the dtype, or there are more than 32 dimensions.
    """

    def __init__(self, dtype, broadcastable, context_name=None, name=None):
        dtype = str(dtype) if not isinstance(dtype, type) else np.dtype(dtype).name
        self.dtype = config.floatX if dtype == "floatX" else dtype
        try:
            self.broadcastable = tuple([bool(b) for b in broadcastable])
        except TypeError:
            raise TypeError(
                "GpuArrayType: broadcastable must be a sequence of one bool for each dimension, got %r"
                % (broadcastable,)
            ) from None
        self.name = name
        self.context_name = context_name
        self._derive()

    def work_queue(self):
        """Return the address of the queue that collects the work of nodes on this device, or 0 if there is none.

        See `config.gpuarray.graph`.
        """
        context = self.context
        if config.gpuarray.graph == "off" or (config.gpuarray.graph == "auto" and context.kind != b"cuda"):
            return 0
        context_address(context)
        return context.work_queue(address_of_open_queue())

    def _derive(self):
        self.ndim = len(self.broadcastable)
        if self.ndim > pygpu.MAX_DIMS:
            raise TypeError(
                "%s: got %d dimensions, but devices support at most %d"
                % (self.__class__.__name__, self.ndim, pygpu.MAX_DIMS)
            )
        try:
            self.typecode = pygpu.dtype_to_typecode(self.dtype)
        except (TypeError, ValueError):
            raise TypeError("Unsupported dtype for %s: %s" % (self.__class__.__name__, self.dtype)) from None
        self._key = (self.dtype, self.broadcastable, self.context_name)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_key", "typecode", "ndim")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._derive()

    # -- identity --

    def __eq__(self, other):
        return self is other or type(self) is type(other) and self._key == other._key

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self), self._key))

    def __str__(self):
        return self.name or "GpuArrayType<%s>(%s, %s)" % (self.context_name, self.dtype, self.broadcastable)

    __repr__ = __str__

    def clone(self, dtype=None, broadcastable=None):
        """Return a copy of this type with another dtype or broadcast pattern."""
        return self.__class__(
            self.dtype if dtype is None else dtype,
            self.broadcastable if broadcastable is None else broadcastable,
            self.context_name,
            self.name,
        )

    @property
    def context(self):
        """The context object. Access raises ContextNotDefined if no context has the name."""
        return get_context(self.context_name)

    def dtype_specs(self):
        """Return ``(python type, C type, NumPy's type number)`` of the elements, for instance ``(float, 'npy_float32',
        'NPY_FLOAT32')``.
        """
        return TensorType(self.dtype, ()).dtype_specs()

    def to_scalar_type(self):
        """Return the `scalar.Scalar` type of one element."""
        return get_scalar_type(self.dtype)

    def host_type(self):
        """Return the TensorType of the same values on the host."""
        return TensorType(self.dtype, self.broadcastable)

    # -- variables --

    def make_variable(self, name=None):
        """Return a new variable of this type."""
        return self.Variable(self, name=name)

    def make_constant(self, value, name=None):
        """Return a constant of this type."""
        return self.Constant(self, self.filter(value), name=name)

    def filter_variable(self, other, allow_convert=True):
        """Return a variable of this type, made from a variable or a value.

        Parameters
        ----------
        other : variable or array_like
            A variable on the host or in another context is transferred. A value becomes a constant.
        allow_convert : bool
            Whether the broadcast pattern may be changed (`convert_variable`).

        Raises
        ------
        TypeError
            If the dtype or the rank differs.
        """
        if not isinstance(other, Variable):
            return self.make_constant(other)
        moved = _to_context(other, self.context_name)
        if moved.type == self:
            return moved
        converted = self.convert_variable(moved) if allow_convert else None
        if converted is None:
            raise TypeError(
                "Cannot convert Type %(given)s (of Variable %(var)s) into Type %(self)s. "
                "You can try to manually convert %(var)s into a %(self)s."
                % dict(given=other.type, var=other, self=self)
            )
        return converted

    def convert_variable(self, var):
        """Return `var` as a variable of this type. Return None if it has another dtype or rank, or if its broadcast
        pattern does not allow the conversion.
        """
        var = _to_context(var, self.context_name)
        if (
            type(self) is type(var.type)
            and self.dtype == var.type.dtype
            and self.ndim == var.type.ndim
            and all(mine == theirs or theirs for mine, theirs in zip(self.broadcastable, var.type.broadcastable))
        ):
            return var if self == var.type else rebroadcast(var, dict(enumerate(self.broadcastable)))
        return None

    # -- values --

    def filter(self, data, strict=False, allow_downcast=None):
        """Return `data` as an array of this type, or raise an exception.

        For parameters and errors, see `TensorType.filter`. Arrays on the host, and in other contexts, are copied to the
        device unless `strict` is true. An array whose elements share memory is copied, so that operations in place do
        not write several elements to one place.
        """
        if not isinstance(data, pygpu.GpuArray):
            if strict:
                raise TypeError("%s expected a GpuArray object." % self, data, type(data))
            host = self.host_type().filter(data, False, allow_downcast)
            return pygpu.array(host, dtype=self.dtype, context=self.context)
        if data.ndim != self.ndim:
            raise TypeError(
                "Wrong number of dimensions: expected %s, got %s with shape %s." % (self.ndim, data.ndim, data.shape),
                data,
            )
        if data.typecode != self.typecode:
            if strict:
                raise TypeError(
                    "%s expected an array of typecode %d (dtype %s), got one of typecode %d (dtype %s)."
                    % (self, self.typecode, self.dtype, data.typecode, data.dtype),
                    data,
                )
            if not allow_downcast and not np.can_cast(data.dtype, self.dtype, "safe"):
                raise TypeError(
                    "%s cannot store a value of dtype %s without risking loss of precision." % (self, data.dtype), data
                )
        if data.context is not self.context:
            if strict:
                raise TypeError(
                    "%s: the array is in another context, %s; transfer() it first"
                    % (self, _context_text(data.context)),
                    data,
                )
            data = data.transfer(self.context)
        for length, broadcastable in zip(data.shape, self.broadcastable):
            if broadcastable and length != 1:
                raise TypeError("Non-unit value on shape on a broadcastable dimension.", data.shape, self.broadcastable)
        return without_inner_overlap(data) if data.typecode == self.typecode else data.astype(self.dtype)

    def filter_inplace(self, data, old_data, strict=False, allow_downcast=None):
        """Return `data` as an array of this type, as `filter` does. If possible, copy a host array into the memory of
        `old_data`, which must have the same shape and dtype, and no references other than the one that is replaced.

        Parameters
        ----------
        data : array_like or GpuArray
        old_data : GpuArray or None
            The array that the result will replace.
        strict, allow_downcast
            See `filter`.
        """
        if strict or isinstance(data, pygpu.GpuArray) or not isinstance(old_data, pygpu.GpuArray):
            return self.filter(data, strict, allow_downcast)
        host = self.host_type().filter(data, False, allow_downcast)
        if (
            old_data.shape == host.shape
            and old_data.typecode == self.typecode
            and old_data.context is self.context
            and old_data.base is None
            and old_data.flags.carray
            and sys.getrefcount(old_data) <= _references_of_a_cell()
        ):
            old_data.write(host)
            return old_data
        return pygpu.array(host, dtype=self.dtype, context=self.context)

    @staticmethod
    def values_eq(a, b, force_same_dtype=True):
        """Return True if two arrays have the same elements, with NaN at the same positions."""
        if a.shape != b.shape or force_same_dtype and a.dtype != b.dtype:
            return False
        return TensorType.values_eq(np.asarray(a), np.asarray(b), force_same_dtype)

    @staticmethod
    def values_eq_approx(a, b, allow_remove_inf=False, allow_remove_nan=False, rtol=None, atol=None):
        """Compare arrays; see the function `values_eq_approx` of this module."""
        return values_eq_approx(a, b, allow_remove_inf, allow_remove_nan, rtol, atol)

    @staticmethod
    def may_share_memory(a, b):
        """Return True if two values are device arrays and views of the same memory."""
        return may_share_memory(a, b)

    def value_zeros(self, shape):
        """Return an array of zeros."""
        return pygpu.zeros(shape, dtype=self.dtype, context=self.context)

    def value_empty(self, shape):
        """Return an array with undefined elements."""
        return pygpu.empty(shape, dtype=self.dtype, context=self.context)

    # Name of the capsule with the table of functions by which C loops access rows; see scan/row_table.h.
    row_table = "theano_ng.gpuarray.native.row_table.table"

    def get_shape_info(self, obj):
        """Return the shape of an array, for profiles; see `get_size`."""
        return obj.shape

    def get_size(self, shape_info):
        """Return the number of data bytes of a value whose `get_shape_info` is `shape_info`."""
        size = np.dtype(self.dtype).itemsize
        for length in shape_info:
            size *= int(length)
        return size

    # -- classic C code --

    def c_element_type(self):
        return pygpu.dtype_to_ctype(self.dtype)

    def c_declare(self, name, sub, check_input=True):
        return "PyGpuArrayObject *%s;\n" % name

    def c_init(self, name, sub):
        return "%s = NULL;\n" % name

    def c_extract(self, name, sub, check_input=True):
        words = dict(name=name, fail=sub["fail"], typecode=self.typecode, dtype=self.dtype, ndim=self.ndim)
        check = ""
        if check_input:
            check = """
        if (py_%(name)s == Py_None) {
            PyErr_SetString(PyExc_ValueError, "expected a GpuArray, not None");
            %(fail)s
        }
        if (!PyGpuArray_Check(py_%(name)s)) {
            PyErr_Format(PyExc_ValueError, "expected a GpuArray, not a value of type %%s", Py_TYPE(py_%(name)s)->tp_name);
            %(fail)s
        }
        if (((PyGpuArrayObject *)py_%(name)s)->ga.typecode != %(typecode)d) {
            PyErr_Format(PyExc_TypeError, "expected typecode %(typecode)d (%(dtype)s), got %%d",
                         ((PyGpuArrayObject *)py_%(name)s)->ga.typecode);
            %(fail)s
        }
        if (((PyGpuArrayObject *)py_%(name)s)->ga.nd != %(ndim)d) {
            PyErr_Format(PyExc_ValueError, "expected a GpuArray with %(ndim)d dimensions, got %%u",
                         ((PyGpuArrayObject *)py_%(name)s)->ga.nd);
            %(fail)s
        }
            """
            for axis, broadcastable in enumerate(self.broadcastable):
                if broadcastable:
                    check += """
        if (PyGpuArray_DIM((PyGpuArrayObject *)py_%%(name)s, %(axis)d) != 1) {
            PyErr_SetString(PyExc_ValueError, "expected a length of 1 on broadcastable axis %(axis)d");
            %%(fail)s
        }
            """ % dict(axis=axis)
        extract = """
        %(name)s = (PyGpuArrayObject *)py_%(name)s;
        Py_INCREF(%(name)s);
        """
        return self.c_init(name, sub) + (check + extract) % words

    def c_cleanup(self, name, sub):
        return "Py_XDECREF(%s);\n" % name

    def c_sync(self, name, sub):
        return """
        if (!%(name)s) {
            Py_XDECREF(py_%(name)s);
            py_%(name)s = Py_NewRef(Py_None);
        } else if ((void *)py_%(name)s != (void *)%(name)s) {
            Py_XDECREF(py_%(name)s);
            py_%(name)s = Py_NewRef((PyObject *)%(name)s);
        }
        """ % dict(name=name)

    def c_init_code(self):
        # A failed import sets a Python exception. The initialization function of the module checks for an exception.
        return ["import_pygpu__gpuarray();"]

    def c_headers(self):
        headers = ["array", "kernel", "error", "buffer", "types"]
        return ["<numpy/arrayobject.h>", *["<gpuarray/%s.h>" % name for name in headers], "<gpuarray_api.h>"]

    def c_header_dirs(self):
        return [INCLUDE, np.get_include()]

    def c_lib_dirs(self):
        # A module that Python has already loaded defines the functions, so there is no library to link against.
        return []

    def c_libraries(self):
        return []

    def c_code_cache_version(self):
        return (1, header_version(), *get_scalar_type(self.dtype).c_code_cache_version())


class _References(Type):
    """A Type in place of GpuArrayType, with which `_references_of_a_cell` measures a reference count."""

    def filter_inplace(self, data, old_data, strict=False, allow_downcast=None):
        return sys.getrefcount(old_data)


def _references_of_a_cell():
    """Return the reference count that `filter_inplace` sees if only a container's storage cell refers to an array. The
    count depends on the interpreter, so this function measures it.
    """
    global _counted
    if _counted is None:
        container = Container(_References(), [object()])
        container.value = 1
        _counted = container.value
    return _counted


_counted = None


def _context_text(context):
    try:
        return repr(_name_for_ctx(context))
    except ContextNotDefined:
        return repr(context)


class _operators(_tensor_py_operators):
    """The additional methods of variables on devices. If an Op for the host gets such a variable, the variable is
    transferred to the host. Rules then move the Op to the device.
    """

    def _as_TensorVariable(self):
        return _to_host(self)

    def _as_GpuArrayVariable(self, context_name):
        if self.type.context_name == context_name:
            return self
        return _between_contexts(context_name)(self)


class GpuArrayVariable(_operators, Variable):
    """A variable whose value is on a device. It has all methods of tensor variables."""


class GpuArraySignature(TensorConstantSignature):
    """The properties that two device constants must share to be merged: the type, which includes the context, and the
    content.
    """


class GpuArrayConstant(_operators, Constant):
    """A constant device array in a graph."""

    def signature(self):
        return GpuArraySignature((self.type, np.asarray(self.data)))

    def __str__(self):
        if self.name is not None:
            return self.name
        try:
            text = str(np.asarray(self.data))
        except pygpu.GpuArrayException:
            text = str(self.data)
        return "GpuArrayConstant{%s}" % text.replace("\n", "")


class GpuArraySharedVariable(_operators, SharedVariable):
    """A shared variable whose value is on a device.

    Parameters
    ----------
    name, type, value, strict, allow_downcast, container
        See `SharedVariable`.

    Attributes
    ----------
    get_value_return_ndarray : bool
        Whether `get_value` returns a copy on the host. It is False if the variable was made from a device array.
    """

    get_value_return_ndarray = True

    def get_value(self, borrow=False, return_internal_type=False):
        """Return the value as a host array, or as a device array if the variable was made from a device array.

        Parameters
        ----------
        borrow : bool
            If True and the result is a device array, return the array itself, not a copy. A host array is always a
            copy.
        return_internal_type : bool
            If True, return the device array, even if the variable was made from a host array.
        """
        value = self.container.value
        if return_internal_type or not self.get_value_return_ndarray:
            return value if borrow else value.copy()
        return np.asarray(value)

    def set_value(self, value, borrow=False):
        """Replace the value in all functions that use the variable.

        Parameters
        ----------
        value : array_like or GpuArray
            A host array is copied into the memory of the old value, if it fits and nothing else refers to the old
            value.
        borrow : bool
            If True, a GpuArray of the same context is stored itself, without a copy.
        """
        if isinstance(value, pygpu.GpuArray) and not borrow:
            value = pygpu.array(value, copy=True, context=self.type.context)
        self.container.value = value

    def clone(self):
        twin = super().clone()
        twin.get_value_return_ndarray = self.get_value_return_ndarray
        return twin

    def __getitem__(self, *args):
        # Use this method in place of the method of SharedVariable, which raises an error.
        return _operators.__getitem__(self, *args)


GpuArrayType.Variable = GpuArrayVariable
GpuArrayType.Constant = GpuArrayConstant
GpuArrayType.SharedVariable = GpuArraySharedVariable
compile_ops.register(GpuArrayType, "theano_ng.gpuarray.native.shape:")

notset = object()


def gpuarray_shared_constructor(
    value, name=None, strict=False, allow_downcast=None, borrow=False, broadcastable=None, target=notset
):
    """Make a shared variable on a device; see `shared`.

    Parameters
    ----------
    value : ndarray or GpuArray
    name : str, optional
    strict, allow_downcast
        How later values are converted; see `GpuArrayType.filter`.
    borrow : bool
        If True, store a GpuArray itself, not a copy.
    broadcastable : sequence of bool, optional
        All False by default: the value may be replaced by an array of another shape.
    target : hashable
        The context. By default, a GpuArray stays in its context, and a host array is copied to the context None if
        `move_to_gpu` returns True for it.

    Raises
    ------
    TypeError
        If the value does not belong on a device, or `target` names no context. `shared` then tries the next
        constructor.
    """
    if target == "cpu":
        raise TypeError("gpuarray_shared_constructor makes shared variables on devices, not for target 'cpu'")
    on_device = isinstance(value, pygpu.GpuArray)
    if not on_device and not isinstance(value, np.ndarray):
        raise TypeError("Expected a numpy.ndarray or a GpuArray, got %s" % type(value))
    if not on_device and not gpu_supported(value):
        raise TypeError("arrays of dtype %s cannot be stored on devices" % value.dtype)
    if target is notset:
        if on_device:
            target = _name_for_ctx(value.context)
        elif not move_to_gpu(value):
            raise TypeError("scalar values are stored on a device only if a target is given")
        else:
            target = None
    if target not in list_contexts():
        names = ", ".join(map(repr, list_contexts())) or "none"
        raise TypeError(
            "context name %r is not defined; defined are: %s. The flags device and contexts define names"
            % (target, names)
        )
    if broadcastable is None:
        broadcastable = (False,) * value.ndim
    type_ = GpuArrayType(value.dtype, broadcastable, context_name=target)
    if on_device:
        value = pygpu.array(value, copy=not borrow, context=type_.context)
    else:
        value = pygpu.array(value, dtype=type_.dtype, context=type_.context)
    variable = GpuArraySharedVariable(type=type_, value=value, name=name, strict=strict, allow_downcast=allow_downcast)
    if on_device:
        variable.get_value_return_ndarray = False
    return variable


def shared_on_target(
    value, name=None, strict=False, allow_downcast=None, borrow=False, broadcastable=None, target=notset
):
    """Make a shared variable on a device only if a target or a GpuArray is given; see `gpuarray_shared_constructor`.
    Programs that keep their values on the host use this constructor (`config.init_gpu_device`).
    """
    if target is notset and not isinstance(value, pygpu.GpuArray):
        raise TypeError("shared variables are stored on the host unless a target is given")
    return gpuarray_shared_constructor(value, name, strict, allow_downcast, borrow, broadcastable, target)


# ---- pickles ----


def GpuArray_pickler(cnda):
    """Reduce a device array for `copyreg`, to a host array and the name of the context."""
    return GpuArray_unpickler, (np.asarray(cnda), _name_for_ctx(cnda.context))


def GpuArray_unpickler(npa, ctx_name):
    """Restore a pickled array on the device of its context. If `config.experimental.unpickle_gpu_on_cpu` is set, return
    the host array.
    """
    if config.experimental.unpickle_gpu_on_cpu:
        return npa
    if ctx_name not in list_contexts():
        raise ContextNotDefined(
            "the pickle contains an array of context %r, which is not defined here; defined are: %s. Define it by the "
            "flag device or contexts, or set experimental.unpickle_gpu_on_cpu=True to get arrays on the host"
            % (ctx_name, ", ".join(map(repr, list_contexts())) or "none")
        )
    return pygpu.array(npa, context=get_context(ctx_name))


copyreg.pickle(pygpu.GpuArray, GpuArray_pickler, GpuArray_unpickler)
set_device_array(pygpu.GpuArray)
register_device_arrays(pygpu.GpuArray, lambda a: _name_for_ctx(a.context), GpuArray_unpickler)


def _is_on_device(a):
    return isinstance(a, pygpu.GpuArray)


def may_share_memory(a, b):
    """Return True if two values are device arrays and views of the same memory."""
    return _is_on_device(a) and _is_on_device(b) and pygpu.may_share_memory(a, b)


register_may_share_memory(_is_on_device, may_share_memory)


# ---- contexts as parameters of Ops ----


class GpuContextType(Type):
    """The type of contexts, for the params of Ops (`params_type`). Variables of graphs do not have this type. In C
    code, a context is a ``PyGpuContextObject *``.
    """

    def __eq__(self, other):
        return type(self) is type(other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return "GpuContextType"

    __str__ = __repr__

    def filter(self, data, strict=False, allow_downcast=None):
        if not isinstance(data, pygpu.GpuContext):
            raise TypeError("expected a GpuContext, got %s" % type(data).__name__)
        return data

    @staticmethod
    def values_eq(a, b):
        return a is b

    def c_declare(self, name, sub, check_input=True):
        return "PyGpuContextObject *%s;\n" % name

    def c_init(self, name, sub):
        return "%s = NULL;\n" % name

    def c_extract(self, name, sub, check_input=True):
        check = ""
        if check_input:
            check = """
        if (!PyGpuContext_Check(py_%(name)s)) {
            PyErr_SetString(PyExc_TypeError, "expected a GpuContext");
            %(fail)s
        }
            """
        return self.c_init(name, sub) + (
            check
            + """
        %(name)s = (PyGpuContextObject *)py_%(name)s;
        Py_INCREF(%(name)s);
        """
        ) % dict(name=name, fail=sub["fail"])

    def c_cleanup(self, name, sub):
        return "Py_XDECREF(%s);\n" % name

    def c_init_code(self):
        return ["import_pygpu__gpuarray();"]

    def c_headers(self):
        return ["<gpuarray_api.h>"]

    def c_header_dirs(self):
        return [INCLUDE]

    def c_code_cache_version(self):
        return (1, header_version())


gpu_context_type = GpuContextType()
