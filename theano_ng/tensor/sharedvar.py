"""Shared variables whose value is an n-dimensional array."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from theano_ng.compile.sharedvalue import SharedVariable, shared_constructor, without_inner_overlap
from theano_ng.gof import ports
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.var import _tensor_py_operators

__all__ = [
    "TensorSharedVariable",
    "ScalarSharedVariable",
    "tensor_constructor",
    "scalar_constructor",
    "load_shared_variable",
]


def load_shared_variable(val: Any) -> TensorSharedVariable:
    """Make a shared variable from an unpickled value. Old pickles refer to this function."""
    return tensor_constructor(val)


class TensorSharedVariable(_tensor_py_operators, SharedVariable):
    """A shared variable of a `TensorType`. The function `shared` makes such variables."""

    type: TensorType

    def set_value(self, new_value: Any, borrow: bool = False) -> None:
        """Replace the value, for all functions that use the variable.

        Parameters
        ----------
        new_value : array_like
        borrow : bool
            If True, the variable may keep `new_value` itself instead of a copy. An array whose elements share memory
            (`numpy.broadcast_to`) is always copied.
        """
        if borrow and isinstance(new_value, np.ndarray):
            new_value = without_inner_overlap(new_value)
        super().set_value(new_value, borrow)


@shared_constructor
def tensor_constructor(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    borrow: bool = False,
    broadcastable: Sequence[bool] | None = None,
    target: str = "cpu",
) -> TensorSharedVariable:
    """Make a shared variable from an ndarray.

    Parameters
    ----------
    value : ndarray
    name : str, optional
    strict, allow_downcast
        The rules for the conversion of later values. See :meth:`TensorType.filter`.
    borrow : bool
        If True, the shared variable contains `value` itself instead of a copy. Later changes of the array then change
        the shared variable. An array whose elements share memory (`numpy.broadcast_to`) is always copied.
    broadcastable : sequence of bool, optional
        The default is False for each dimension, whatever the shape of `value` is, because later values may have another
        shape.
    target : str
        The device, which must be 'cpu'.

    Raises
    ------
    TypeError
        If `value` is not an ndarray, or the target is not 'cpu'.
    """
    if target != "cpu":
        raise TypeError("tensor_constructor makes shared variables for target 'cpu' only, not %r" % (target,))
    if not isinstance(value, np.ndarray):
        raise TypeError("Expected a numpy.ndarray, got %s" % type(value))
    if broadcastable is None:
        broadcastable = (False,) * value.ndim
    type_ = TensorType(value.dtype, broadcastable=broadcastable)
    value = without_inner_overlap(value) if borrow else np.array(value)
    return TensorSharedVariable(type=type_, value=value, name=name, strict=strict, allow_downcast=allow_downcast)


class ScalarSharedVariable(_tensor_py_operators, SharedVariable):
    """A shared variable of a 0-d :class:`TensorType` that was made from a number."""

    type: TensorType


@shared_constructor
def scalar_constructor(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    borrow: bool = False,
    target: str = "cpu",
) -> ScalarSharedVariable:
    """Make a 0-d shared variable from a number.

    Parameters
    ----------
    value : int, float, complex or NumPy number
        The initial value. A Python int is stored as int64, a Python float as float64.
    name, strict, allow_downcast, target
        See :func:`tensor_constructor`.
    borrow : bool
        This parameter has no effect: numbers are always copied.

    Raises
    ------
    TypeError
        If `value` is not a number, or the target is not 'cpu'.
    """
    if target != "cpu":
        raise TypeError("scalar_constructor makes shared variables for target 'cpu' only, not %r" % (target,))
    if not isinstance(value, (numbers.Number, np.number, np.bool_)):
        raise TypeError("Expected a number, got %s" % type(value))
    data = np.asarray(value)
    type_ = TensorType(dtype=str(data.dtype), broadcastable=[])
    # The type is derived from the array, so the array needs no filter().
    return ScalarSharedVariable(
        type=type_, value=np.array(data, copy=True), name=name, strict=strict, allow_downcast=allow_downcast
    )


@shared_constructor
def random_state_constructor(
    value: Any, name: str | None = None, strict: bool = False, allow_downcast: bool | None = None, borrow: bool = False
) -> SharedVariable:
    """Make a shared variable from a `numpy.random.RandomState`.

    See :func:`theano_ng.tensor.shared_randomstreams.randomstate_constructor`. The type of `value` is checked by the
    names of classes, so that neither `numpy.random` nor `shared_randomstreams` is imported for values of other types.
    """
    cls = type(value)
    if not any(base.__name__ == "RandomState" and base.__module__.startswith("numpy.") for base in cls.__mro__):
        raise TypeError("expected a numpy.random.RandomState, got %s" % cls.__name__)
    return ports.shared_random_state(value, name=name, strict=strict, allow_downcast=allow_downcast, borrow=borrow)


ports.shared_random_state.fill("theano_ng.tensor.shared_randomstreams:randomstate_constructor")
