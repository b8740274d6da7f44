"""Types of arrays on devices, their variables, constants and shared variables."""

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.type import Type
from theano_ng.gpuarray.contexts import ContextNotDefined, get_context, list_contexts, name_of_context, reg_context
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.scalar import get_scalar_type
from theano_ng.tensor import compile_ops
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type import values_eq_approx as tensor_values_eq_approx
from theano_ng.tensor.var import _tensor_py_operators

__all__ = [
    "ContextNotDefined",
    "GpuArrayConstant",
    "GpuArraySharedVariable",
    "GpuArrayType",
    "GpuArrayVariable",
    "get_context",
    "gpu_supported",
    "list_contexts",
    "move_to_gpu",
    "reg_context",
]


def gpu_supported(data):
    """Whether devices can hold it: anything but complex numbers.

    Parameters
    ----------
    data : variable or array
        With attributes `dtype` and `ndim`.
    """
    return str(data.dtype) not in ("complex64", "complex128")


def move_to_gpu(data):
    """Whether a computation on it should be moved to a device: neither complex numbers nor single ones should."""
    return gpu_supported(data) and data.ndim > 0


class GpuArrayType(Type):
    """Type of arrays on a device.

    Parameters
    ----------
    dtype : str
        NumPy's name; "floatX" is `config.floatX`.
    broadcastable : sequence of bool
        For each axis, whether its length is known to be 1.
    context_name : hashable
        Which context; None: that of `config.device`. It has to exist when there are values.
    name : str, optional
        What is printed.

    Raises
    ------
    TypeError
        For a dtype that devices do not have.
    """

    def __init__(self, dtype, broadcastable, context_name=None, name=None):
        self.dtype = config.floatX if str(dtype) == "floatX" else str(dtype)
        self.broadcastable = tuple([bool(b) for b in broadcastable])
        self.ndim = len(self.broadcastable)
        self.name = name
        self.context_name = context_name
        try:
            self.typecode = pygpu.dtype_to_typecode(self.dtype)
        except (TypeError, ValueError):
            raise TypeError("Unsupported dtype for %s: %s" % (self.__class__.__name__, self.dtype)) from None
        self._key = (self.dtype, self.broadcastable, self.context_name)

    # -- identity --

    def __eq__(self, other):
        return self is other or type(self) is type(other) and self._key == other._key

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self), self._key))

    def __str__(self):
        if self.name:
            return self.name
        pattern = self.broadcastable
        names = {(): "scalar", (False,): "vector", (False, False): "matrix", (False, True): "col", (True, False): "row"}
        text = names.get(pattern) or (str(pattern) if any(pattern) else "%dD" % len(pattern))
        return "GpuArrayType<%s>(%s, %s)" % (self.context_name, self.dtype, text)

    __repr__ = __str__

    def clone(self, dtype=None, broadcastable=None):
        """This type with another dtype or pattern."""
        return self.__class__(
            self.dtype if dtype is None else dtype,
            self.broadcastable if broadcastable is None else broadcastable,
            self.context_name,
            self.name,
        )

    @property
    def context(self):
        """The context itself; ContextNotDefined when the name stands for none."""
        return get_context(self.context_name)

    def dtype_specs(self):
        """``(python type, C type, NumPy's type number)`` of the elements."""
        return TensorType(self.dtype, ()).dtype_specs()

    def to_scalar_type(self):
        """The `scalar.Scalar` type of one element."""
        return get_scalar_type(self.dtype)

    def host_type(self):
        """The TensorType of the same values on the host."""
        return TensorType(self.dtype, self.broadcastable)

    def make_variable(self, name=None):
        """A new variable of this type."""
        return self.Variable(self, name=name)

    def make_constant(self, value, name=None):
        """A constant of this type."""
        return self.Constant(self, value, name=name)

    # -- values --

    def filter(self, data, strict=False, allow_downcast=None):
        """`data` as an array of this type, or raise.

        Parameters and errors as for `TensorType.filter`; arrays of the host are copied to the device unless `strict`.
        """
        if isinstance(data, pygpu.GpuArray) and data.typecode == self.typecode and data.ndim == self.ndim:
            if data.context is not self.context:
                raise TypeError(
                    "%s: the array is of another context, %s; transfer() it first" % (self, _name_or_none(data.context))
                )
            array = data
        elif strict:
            raise TypeError("%s expected a GpuArray object of its dtype and rank" % self, data, type(data))
        elif isinstance(data, pygpu.GpuArray):
            if data.ndim != self.ndim:
                raise TypeError(
                    "Wrong number of dimensions: expected %s, got %s with shape %s."
                    % (self.ndim, data.ndim, data.shape)
                )
            if not allow_downcast and not np.can_cast(data.dtype, self.dtype, "safe"):
                raise TypeError(
                    "%s cannot store a value of dtype %s without risking loss of precision." % (self, data.dtype)
                )
            array = data.transfer(self.context).astype(self.dtype)
        else:
            array = pygpu.array(
                self.host_type().filter(data, False, allow_downcast), dtype=self.dtype, context=self.context
            )
        for length, broadcastable in zip(array.shape, self.broadcastable):
            if broadcastable and length != 1:
                raise TypeError(
                    "Non-unit value on shape on a broadcastable dimension.", array.shape, self.broadcastable
                )
        return array

    def is_valid_value(self, a):
        """Whether `filter` takes it as it is."""
        try:
            self.filter(a, strict=True)
        except (TypeError, ContextNotDefined):
            return False
        return True

    @staticmethod
    def values_eq(a, b, force_same_dtype=True):
        """Whether two arrays have the same elements, NaN in the same places."""
        if a.shape != b.shape or force_same_dtype and a.dtype != b.dtype:
            return False
        return TensorType.values_eq(np.asarray(a), np.asarray(b), force_same_dtype)

    @staticmethod
    def values_eq_approx(a, b, allow_remove_inf=False, allow_remove_nan=False, rtol=None, atol=None):
        """The same within the tolerance of the dtype."""
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        return tensor_values_eq_approx(np.asarray(a), np.asarray(b), allow_remove_inf, allow_remove_nan, rtol, atol)

    @staticmethod
    def may_share_memory(a, b):
        """Whether two arrays are views of the same memory."""
        return pygpu.may_share_memory(a, b)

    def value_zeros(self, shape):
        """Zeros."""
        return pygpu.zeros(shape, dtype=self.dtype, context=self.context)

    def get_shape_info(self, obj):
        """The shape, for profiles."""
        return obj.shape

    def get_size(self, shape_info):
        """Bytes."""
        return (
            int(np.prod(shape_info, dtype=np.int64)) * np.dtype(self.dtype).itemsize
            if shape_info
            else np.dtype(self.dtype).itemsize
        )


def _name_or_none(context):
    try:
        return repr(name_of_context(context))
    except ContextNotDefined:
        return repr(context)


class _operators(_tensor_py_operators):
    """What variables on devices have beside the methods of tensors: they become tensors on the host wherever an Op wants one, and rules move the Op."""

    def _as_TensorVariable(self):
        from theano_ng.gpuarray.basic_ops import host_from_gpu  # its Ops are above the types

        return host_from_gpu(self)

    def _as_GpuArrayVariable(self, context_name):
        if self.type.context_name == context_name:
            return self
        from theano_ng.gpuarray.basic_ops import GpuToGpu

        return GpuToGpu(context_name)(self)


class GpuArrayVariable(_operators, Variable):
    """A variable whose value is on a device."""


class GpuArrayConstant(_operators, Constant):
    """A value on a device that is part of the graph."""

    def signature(self):
        return self.type, np.asarray(self.data).tobytes(), self.data.shape

    def __str__(self):
        if self.name is not None:
            return self.name
        try:
            text = str(np.asarray(self.data))
        except pygpu.GpuArrayException:
            text = str(self.data)
        return "GpuArrayConstant{%s}" % text.replace("\n", "")


class GpuArraySharedVariable(_operators, SharedVariable):
    """A shared variable whose value is on a device."""

    def get_value(self, borrow=False, return_internal_type=False):
        """The value.

        Parameters
        ----------
        borrow : bool
            With `return_internal_type`: the array itself, not a copy.
        return_internal_type : bool
            The array on the device; else a new one of the host.
        """
        value = self.container.value
        if return_internal_type:
            return value if borrow else value.copy()
        return np.asarray(value)

    def set_value(self, value, borrow=False):
        """Replace the value.

        Parameters
        ----------
        value : array_like or GpuArray
        borrow : bool
            A GpuArray is kept itself, and not copied.
        """
        if isinstance(value, pygpu.GpuArray):
            value = pygpu.array(value, copy=not borrow, context=self.type.context)
        self.container.value = value


GpuArrayType.Variable = GpuArrayVariable
GpuArrayType.Constant = GpuArrayConstant
GpuArrayType.SharedVariable = GpuArraySharedVariable
compile_ops.register(GpuArrayType, "theano_ng.gpuarray.native.shape:")
