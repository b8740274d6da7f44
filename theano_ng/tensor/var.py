"""The classes of tensor variables and constants.

The mixin class `_tensor_py_operators` defines the operators, methods and properties of all tensor variables, constants
and shared variables.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.utils import hashtype
from theano_ng.tensor.hashing import hash_from_ndarray
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply
    from theano_ng.tensor.methods import _Methods
else:
    _Methods = object  # `theano_ng.tensor.methods` adds its methods to the class _tensor_py_operators.


__all__ = [
    "AsTensorError",
    "TensorVariable",
    "TensorConstant",
    "TensorConstantSignature",
    "_tensor_py_operators",
    "equal_slices",
]

integer_types = (int,)


class AsTensorError(TypeError):
    """The exception for a value that cannot be converted to a tensor variable."""


def equal_slices(s1, s2):
    """Return True if two slices have equal starts, stops and steps."""
    return s1.start == s2.start and s1.stop == s2.stop and s1.step == s2.step


class _tensor_py_operators(_Methods):
    """Attributes, methods and operators of tensor variables.

    The methods have the names and parameters of the methods of :class:`numpy.ndarray`. The module
    `theano_ng.tensor.methods` adds the methods that apply Ops. They are not defined here, because the modules of the
    Ops import this module.
    """

    type: TensorType

    # For ``ndarray <op> variable``, this attribute makes NumPy call the operator of the variable, instead of looping
    # over the elements of the array. See `numpy_protocols`.
    __array_priority__ = 1000

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.type.ndim

    @property
    def broadcastable(self) -> tuple[bool, ...]:
        """A tuple with one bool for each dimension: True if the length is known to be 1."""
        return self.type.broadcastable

    @property
    def dtype(self) -> str:
        """The name of the dtype of the elements."""
        return self.type.dtype

    _is_nonzero = True

    def __bool__(self):
        # A variable that is not the result of a comparison is true, like other Python objects. So `if variable:` tests
        # that it is not None.
        if self._is_nonzero:
            return True
        raise TypeError(
            "Variables do not support boolean operations. The comparison has "
            "no value before the compiled function runs: use "
            "theano.tensor.switch or theano.ifelse.ifelse for a condition, "
            "and & or | instead of `and`, `or` or chained comparisons."
        )

    __nonzero__ = __bool__


class TensorVariable(_tensor_py_operators, Variable):
    """A variable whose type is a :class:`TensorType`.

    Parameters
    ----------
    type : TensorType
    owner : Apply, optional
        The node that computes the variable.
    index : int, optional
        The index of the variable among the outputs of the node.
    name : str, optional
    """

    type: TensorType

    def __init__(
        self, type: TensorType, owner: Apply | None = None, index: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(type, owner=owner, index=index, name=name)
        if config.warn_float64 != "ignore" and type.dtype == "float64":
            _warn_float64(self)


def _level_of_user():
    """Return the `stacklevel` of the first frame outside the package, for a warning that the caller issues."""
    import sys

    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("theano_ng.") or ".tests." in module:
            break
        frame, level = frame.f_back, level + 1
    return level


def _warn_float64(variable):
    import warnings

    message = (
        "You are creating a TensorVariable with float64 dtype. You "
        "requested an action via the Theano flag "
        "warn_float64={ignore,warn,raise,pdb}."
    )
    if config.warn_float64 == "warn":
        warnings.warn(message, stacklevel=_level_of_user())
    elif config.warn_float64 == "raise":
        raise Exception(message)
    elif config.warn_float64 == "pdb":
        import pdb

        pdb.set_trace()


TensorType.Variable = TensorVariable


class TensorConstantSignature(tuple):
    """The type and content of a constant. Constants with equal signatures are merged.

    Contents are compared bit by bit, so that NaN equals NaN, and 0.0 differs from -0.0 (because 1/x differs).
    """

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        (type0, data0), (type1, data1) = self, other
        if data0 is data1:
            return type0 == type1
        if (
            type0 != type1
            or data0.shape != data1.shape
            or data0.dtype != data1.dtype
            or self._checksum != other._checksum
        ):
            return False
        return data0.tobytes() == data1.tobytes()

    def __ne__(self, other):
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self):
        type_, data = self
        return hash((hashtype(self), type_, data.shape, self._checksum))

    def theano_hash(self):
        """Return a hash that does not depend on the process."""
        type_, data = self
        return hash_from_ndarray(data)

    @property
    def _checksum(self):
        found = self.__dict__.get("_crc")
        if found is None:
            data = np.ascontiguousarray(self[1])
            found = zlib.crc32(data.tobytes() if data.size < 512 else data.reshape(-1).view("uint8").data)
            self.__dict__["_crc"] = found
        return found


def _unique_value(data):
    """Return the common value of all elements. Return None if the array is 0-d or empty, or if its elements differ."""
    if data.ndim == 0 or data.size == 0:
        return None
    flat = data.reshape(-1)
    if data.size > 1 and not (flat[:1] == flat).all():
        return None
    return flat[0]


class TensorConstant(_tensor_py_operators, Constant):
    """A constant whose type is a :class:`TensorType`.

    Parameters
    ----------
    type : TensorType
    data : ndarray
        The value. It is not copied, and must not be changed afterwards.
    name : str, optional

    Attributes
    ----------
    of_value : callable
        A function that makes a constant from a value. `tensor.constant` sets this attribute.
    tag.unique_value
        The value that all elements have, if they are equal. None if they differ, or if the data is 0-d or empty.
    """

    type: TensorType
    of_value: Callable[..., TensorConstant]
    cached: bool

    def __init__(self, type: TensorType, data: Any, name: str | None = None) -> None:
        super().__init__(type, data, name)
        data = self.data
        self.tag.unique_value = _unique_value(data) if isinstance(data, np.ndarray) else None

    def __str__(self):
        if self.name is not None:
            return self.name
        unique = getattr(self.tag, "unique_value", None)
        if unique is not None:
            text = "%s of %s" % (self.data.shape, unique)
        else:
            text = "%s" % (self.data,)
        if len(text) > 20:
            text = text[:10] + ".." + text[-10:]
        return "TensorConstant{%s}" % text

    def signature(self):
        """Return the key by which equal constants are merged."""
        return TensorConstantSignature((self.type, self.data))

    def equals(self, other):
        """Return True if `other` is a constant or value with the same type and content."""
        if isinstance(other, (np.ndarray, int, float, complex, np.generic)):
            try:
                other = self.of_value(other)
            except TypeError:
                return False
        return isinstance(other, TensorConstant) and self.signature() == other.signature()

    def __copy__(self):
        return self.clone()

    def __getstate__(self):
        # The mark `cached` applies only to the object in `constant_cache`, not to copies of this object.
        state = super().__getstate__()
        state.pop("cached", None)
        return state


TensorType.Constant = TensorConstant
