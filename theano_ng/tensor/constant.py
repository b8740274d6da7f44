"""Functions that wrap Python and NumPy values, and that find the values of constants.

* :func:`as_tensor_variable` converts nearly any value to a tensor variable.
* :func:`constant` wraps a value in a :class:`TensorConstant`.
* :func:`get_scalar_constant_value` finds the value of a constant scalar, even if a few nodes compute the scalar from a
  constant.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.rewriting.base import constant_makers
from theano_ng.scalar import NumpyAutocaster, autocast_float, autocast_float_as, autocast_int
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.var import AsTensorError, TensorConstant

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

    C = TypeVar("C", bound=Callable[..., Any])

__all__ = [
    "as_tensor_variable",
    "as_tensor",
    "_as_tensor_variable",
    "constant",
    "constant_or_value",
    "get_scalar_constant_value",
    "extract_constant",
    "numpy_scalar",
    "get_vector_length",
    "NotScalarConstantError",
    "EmptyConstantError",
    "NumpyAutocaster",
    "autocast_int",
    "autocast_float",
    "autocast_float_as",
    "_obj_is_wrappable_as_tensor",
    "check_equal_numpy",
    "constant_cache",
    "register_scalar_constant",
]


class NotScalarConstantError(Exception):
    """The exception for a variable that is not known to be a constant scalar."""


class EmptyConstantError(NotScalarConstantError):
    """The exception for a constant that has no elements and therefore no value."""


def check_equal_numpy(x, y):
    """Return True if two values are equal. Two arrays must also have the same dtype and shape.

    Returns
    -------
    bool
    """
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and bool(np.all(abs(x - y) < 1e-10))
    if isinstance(x, np.random.RandomState) and isinstance(y, np.random.RandomState):
        return all(np.all(a == b) for a, b in zip(x.__getstate__().items(), y.__getstate__().items()))
    return x == y


# ---------------------------------------------------------------------------
# values -> variables


def _obvious_output(node):
    """Return the default output of an Apply. Raise ValueError if it has several outputs and no default."""
    if len(node.outputs) != 1 and node.op.default_output is None:
        raise ValueError(
            "It is ambiguous which output of the multi-output Op %s has "
            "to be taken as a tensor; pass one of its outputs." % (node.op,),
            node,
        )
    return node.default_output()


def _tensor_of_variable(x, ndim):
    """Return a variable as a tensor of `ndim` dimensions. If `ndim` is None, the number of dimensions is unchanged."""
    if isinstance(x.type, scal.Scalar):
        x = _conversions["scalar"](x)
    if not isinstance(x.type, TensorType):
        raise AsTensorError(
            "Variable type field must be a TensorType, but %s has type %s. Convert it to a tensor first." % (x, x.type),
            x,
            x.type,
        )
    return x if ndim in (None, x.type.ndim) else _with_ndim(x, ndim)


def as_tensor_variable(x: TensorLike, name: str | None = None, ndim: int | None = None) -> TensorVariable:
    """Return `x` as a tensor variable.

    Parameters
    ----------
    x : Variable, Apply, number, ndarray or nested sequence of these
        A tensor variable is returned unchanged. A scalar variable is converted
        by :class:`TensorFromScalar`. An Apply is replaced by its default
        output. A sequence that contains variables is stacked. Any other value
        becomes a constant.
    name : str, optional
        The name of the constant, if `x` becomes a constant.
    ndim : int, optional
        The number of dimensions of the result. Missing dimensions are added on the left as broadcastable dimensions.
        Surplus dimensions are dropped from the left. They must be broadcastable.

    Returns
    -------
    TensorVariable or TensorConstant

    Raises
    ------
    AsTensorError
        If `x` cannot be a tensor.
    ValueError
        If `x` cannot have `ndim` dimensions.
    """
    convert = getattr(x, "_as_TensorVariable", None)
    if convert is not None:
        # Sparse, GPU and random variables define this method to convert themselves to tensors.
        return convert()

    if isinstance(x, Apply):
        return _tensor_of_variable(_obvious_output(x), ndim)
    if isinstance(x, Variable):
        return _tensor_of_variable(x, ndim)

    if isinstance(x, (tuple, list)) and _holds_variable(x):
        try:
            result = _conversions["sequence"](x)
        except (TypeError, ValueError) as err:
            raise AsTensorError(
                "The elements of %s cannot be stacked into one tensor: %s" % (_short(x), err), x
            ) from err
        return result if ndim is None else _with_ndim(result, ndim)

    if isinstance(x, bool):
        raise AsTensorError(
            "Cannot take the Python value %s as a tensor variable; write np.array(%s) if you need this constant. Such "
            "a value often is the result of `v == w` on variables, which compares identities: use theano.tensor.eq(v, "
            "w) for the elementwise comparison." % (x, x)
        )

    try:
        return constant(x, name=name, ndim=ndim)  # type: ignore[return-value]
    except TypeError as err:
        raise AsTensorError("Cannot convert %s to TensorType" % _short(x), type(x)) from err


# Kind of a conversion (see `register_conversion`) -> function. Other modules register the functions, because the
# functions need Ops from modules that import this module.
_conversions: dict[str, Callable[..., Any]] = {}


def register_conversion(kind: str) -> Callable[[C], C]:
    """Return a decorator that registers a function in `_conversions`.

    Parameters
    ----------
    kind : {'scalar', 'sequence', 'length'}
        A function for 'scalar' converts a scalar variable to a tensor. A function for 'sequence' converts a sequence
        that contains variables to a tensor. A function for 'length' returns the length of a vector, or None.
    """

    def decorate(function: C) -> C:
        _conversions[kind] = function
        return function

    return decorate


as_tensor = as_tensor_variable
# This alias is for modules in which the name `as_tensor_variable` has another meaning.
_as_tensor_variable = as_tensor_variable


def _short(x):
    try:
        text = str(x)
    except Exception:
        text = repr(type(x))
    return text if len(text) <= 200 else text[:190] + "..."


def _holds_variable(x):
    """Return True if a nested sequence contains a Variable or an Apply at any depth."""
    stack = [x]
    while stack:
        for item in stack.pop():
            if isinstance(item, (Variable, Apply)) or hasattr(item, "_as_TensorVariable"):
                return True
            if isinstance(item, (tuple, list)):
                stack.append(item)
    return False


def tensor_or_other(x):
    """Convert `x` to a tensor variable, but return Variables without the conversion protocol unchanged.

    Parameters
    ----------
    x : Variable, or any argument of `as_tensor_variable`
        A Variable is converted only if it has the method ``_as_TensorVariable``.

    Returns
    -------
    Variable
    """
    if isinstance(x, Variable) and not hasattr(x, "_as_TensorVariable"):
        return x
    return as_tensor_variable(x)


def _with_ndim(x, ndim):
    """Return `x` with `ndim` dimensions. Dimensions are added or dropped on the left."""
    if x.ndim == ndim:
        return x
    if x.ndim < ndim:
        return x.dimshuffle(["x"] * (ndim - x.ndim) + list(range(x.ndim)))
    surplus = x.ndim - ndim
    if not all(x.broadcastable[:surplus]):
        raise ValueError(
            "Cannot turn %s of type %s into a tensor of %d dimension(s): the "
            "leading dimensions to drop are not broadcastable." % (x, x.type, ndim)
        )
    return x.dimshuffle(list(range(surplus, x.ndim)))


def _obj_is_wrappable_as_tensor(x):
    """Return True if `constant` accepts `x`."""
    try:
        constant(x)
        return True
    except TypeError:
        return False


# This dict maps the dtype and value of a small number to its TensorConstant. Equal numbers share one TensorConstant, so
# that printed graphs share it.
constant_cache: dict[tuple[str, bytes], TensorConstant] = {}


def constant(
    x: TensorLike, name: str | None = None, ndim: int | None = None, dtype: DTypeLike | None = None
) -> TensorConstant:
    """Wrap a value in a :class:`TensorConstant`.

    Parameters
    ----------
    x : number or array_like
        The value is copied: a later change of `x` does not change the constant. A Python integer gets the smallest
        integer dtype that can represent it. True and False get int8, but NumPy's bools and lists of bools get bool. A
        Python float gets float32 if that is exact, and float64 otherwise (see ``config.cast_policy`` and
        :class:`autocast_float_as`).
    name : str, optional
    ndim : int, optional
        The number of dimensions. Missing dimensions are added on the left.
    dtype : str, optional
        The dtype of the constant.

    Returns
    -------
    TensorConstant
        A dimension is broadcastable if its length is 1. For a small number without a name, every call returns the same
        object.

    Raises
    ------
    TypeError
        If `x` is symbolic or cannot be an array of a supported dtype.
    ValueError
        If `x` has more than `ndim` dimensions.
    """
    data = _as_constant_array(x, dtype)
    if ndim is not None:
        if data.ndim > ndim:
            raise ValueError("A constant has shape %s, but ndim=%d was requested." % (data.shape, ndim))
        if data.ndim < ndim:
            data = data.reshape((1,) * (ndim - data.ndim) + data.shape)

    cacheable = constant.enable and name is None and data.ndim == 0 and _is_small(data)  # type: ignore[attr-defined]
    if cacheable:
        key = (data.dtype.char, data.tobytes())
        found = constant_cache.get(key)
        if found is not None:
            return found
    type_ = TensorType(dtype=data.dtype.name, broadcastable=[length == 1 for length in data.shape])
    result = TensorConstant(type_, data, name=name)
    if cacheable:
        # A FunctionGraph sets attributes of its constants, but several graphs share a cached constant. So a
        # FunctionGraph rejects constants with this mark: a graph that contains such a constant has to be cloned first.
        result.cached = True
        constant_cache[key] = result
    return result


# If this flag is False, `constant` does not use the cache. It is False while a graph is rewritten, because rules add
# constants to a FunctionGraph, which rejects cached constants.
constant.enable = True  # type: ignore[attr-defined]
constant_makers.append(constant)
TensorConstant.of_value = staticmethod(constant)


def _is_small(data):
    kind = data.dtype.kind
    if kind not in "iuf":
        return False
    value = data.item()
    return -10 <= value <= 10 and value == int(value)


def _as_constant_array(x, dtype):
    """Return a new C-contiguous array of a supported dtype with the value of `x`."""
    if isinstance(x, Variable):
        raise TypeError("Expected a value for a constant, but got the symbolic variable %s of type %s" % (x, x.type))
    if isinstance(x, (list, tuple)):
        try:
            data = np.array(x, dtype=dtype)
        except (ValueError, TypeError) as err:
            raise TypeError("Cannot make an array of %s: %s" % (_short(x), err)) from err
        if data.size == 0 and dtype is None:
            # An empty list does not determine a dtype. NumPy's float64 would upcast every expression if floatX is
            # float32.
            data = data.astype(config.floatX)
    else:
        data = scal.convert(x, dtype=dtype)
        if data is x or data.base is not None or isinstance(x, np.ndarray):
            data = np.array(data)
    if data.dtype.kind not in "biufc" or data.dtype.itemsize > 16:
        raise TypeError("Cannot make a tensor constant of %s: dtype %s is not supported" % (_short(x), data.dtype), x)
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    # ascontiguousarray converts a 0-d array to a 1-d array, so restore the shape.
    return np.ascontiguousarray(data).reshape(data.shape)


def constant_or_value(
    x: TensorLike, rtype: Any, name: str | None = None, ndim: int | None = None, dtype: DTypeLike | None = None
) -> Any:
    """Wrap `x` in a constant that `rtype` makes.

    Parameters
    ----------
    x : number or array_like
    rtype : callable
        A function that is called with a type, the data and ``name=``, for instance :class:`TensorConstant`.
    name, ndim, dtype
        See :func:`constant`.
    """
    data = constant(x, ndim=ndim, dtype=dtype)
    return rtype(data.type, data.data, name=name)


# ---------------------------------------------------------------------------
# variables -> values


def numpy_scalar(data):
    """Return `data` if it is a number or an array of one number.

    Raises
    ------
    EmptyConstantError
        If the array has no elements.
    NotScalarConstantError
        If `data` is not numeric or has several elements.
    """
    if isinstance(data, np.ndarray) and data.ndim > 0 and data.size == 0:
        raise EmptyConstantError()
    try:
        np.asarray(data).astype("complex128")
        if np.ndim(data) and np.size(data) != 1:
            raise TypeError("several elements")
    except (TypeError, ValueError):
        # For an array, the message contains only the shape. Rules call this function for every constant, so formatting
        # the elements would take most of the time.
        array = isinstance(data, np.ndarray) and data.ndim
        described = "an array of shape %s" % (data.shape,) if array else _short(data)
        raise NotScalarConstantError("The value is not a scalar number: " + described, data) from None
    return data


# This dict maps an Op class to a function (v, elemwise, only_process_constants, max_recur). The function returns the
# value of `v`, another variable with the same value, or None if it finds neither.
_scalar_constant_rules: dict[type, Callable[..., Any]] = {}
# This dict caches the rule of each Op class, including subclasses of the registered classes. The value is None if there
# is no rule.
_rule_of_class: dict[type, Any] = {}


def register_scalar_constant(*op_classes):
    """Return a decorator that registers a rule of `get_scalar_constant_value` for nodes of the given Op classes.

    The decorated function is called with ``(v, elemwise, only_process_constants, max_recur)``. It returns an ndarray
    (the value), a Variable with the same value as `v`, or None.
    """

    def decorate(rule):
        for cls in op_classes:
            _scalar_constant_rules[cls] = rule
        _rule_of_class.clear()
        return rule

    return decorate


# The maximum number of lookups of elements (``v[0]``) in one chain of nodes. Long chains, such as the lengths of a
# reshape of a reshape, rarely end in a constant.
_MAX_LOOKUPS = 32


def has_scalar_constant_rule(op):
    """Return True if :func:`get_scalar_constant_value` has a rule for the nodes of an Op."""
    return _rule_of(op) is not None


def _rule_of(op):
    cls = type(op)
    if cls not in _rule_of_class:
        found = (_scalar_constant_rules.get(base) for base in cls.__mro__)
        _rule_of_class[cls] = next(filter(None, found), None)
    return _rule_of_class[cls]


def get_scalar_constant_value(
    orig_v: TensorLike, elemwise: bool = True, only_process_constants: bool = False, max_recur: int = 10
) -> Any:
    """Return the value of a variable that is a constant scalar.

    The function follows nodes that only move or copy a value (DimShuffle, Rebroadcast, casts, `fill`, `alloc`, ...), so
    the value of ``fill(x, 3)`` is 3.

    Parameters
    ----------
    orig_v : Variable, number or ndarray
    elemwise : bool
        Whether to compute elementwise operations whose inputs are constant.
    only_process_constants : bool
        Whether to accept only Constants, and not to follow nodes.
    max_recur : int
        The maximum number of nested elementwise operations to follow.

    Returns
    -------
    ndarray
        A 0-d array that contains a copy of the value.

    Raises
    ------
    EmptyConstantError
        If the variable is a constant without elements.
    NotScalarConstantError
        If the variable is not known to be a constant scalar.
    """
    v = orig_v
    lookups = 0
    while True:
        if v is None:
            # `orig_v` is None if a caller passes a missing bound of a slice.
            raise NotScalarConstantError()
        if isinstance(v, (numbers.Number, np.generic)):
            return np.asarray(v)
        if isinstance(v, np.ndarray):
            return numpy_scalar(v).copy().reshape(())
        if isinstance(v, Constant):
            unique = getattr(v.tag, "unique_value", None)
            data = v.data if unique is None else unique
            return np.array(numpy_scalar(data)).reshape(())
        owner = getattr(v, "owner", None)
        if owner is None or only_process_constants or max_recur < 0:
            raise NotScalarConstantError(v)
        rule = _rule_of(owner.op)
        found = None
        if rule is not None:
            lookups += getattr(rule, "is_lookup", False)
            if lookups <= _MAX_LOOKUPS:
                found = rule(v, elemwise, only_process_constants, max_recur)
        if found is None:
            raise NotScalarConstantError(v)
        v = found


def extract_constant(x: TensorLike, elemwise: bool = True, only_process_constants: bool = False) -> Any:
    """Return the value of `x` if it is a constant scalar.

    Otherwise, return `x` itself. A variable of type `Scalar` is converted to a 0-d tensor.

    Unlike :func:`get_scalar_constant_value`, this function raises no exception if the value is not known.
    """
    try:
        return get_scalar_constant_value(x, elemwise, only_process_constants)
    except NotScalarConstantError:
        pass
    if isinstance(x, Variable) and isinstance(x.type, scal.Scalar):
        x = _conversions["scalar"](x)
    return x


def get_vector_length(v: TensorLike) -> int:
    """Return the number of elements of a vector, which must be known while the graph is built.

    Parameters
    ----------
    v : vector variable or array_like
        A constant, the result of `join`, `stack`, `MakeVector` or `shape`, or a slice of such a vector.

    Returns
    -------
    int

    Raises
    ------
    TypeError
        If `v` is not a vector.
    ValueError
        If the length is not known.
    """
    v = as_tensor_variable(v)
    if v.ndim != 1:
        raise TypeError("The argument must be a vector, but it has type %s" % (v.type,))
    if v.type.broadcastable[0]:
        return 1
    if isinstance(v, Constant):
        return len(v.data)
    length = _conversions["length"](v)
    if length is None:
        raise ValueError("The length of the vector %s cannot be determined while the graph is built" % (v,))
    return length


def _constant_or_none(x):
    """Return the value of a constant scalar, or None for other variables.

    This function implements `ports.constant_value`.
    """
    try:
        return get_scalar_constant_value(x)
    except (NotScalarConstantError, TypeError):
        return None


ports.as_variable.fill(as_tensor_variable)
ports.constant_value.fill(_constant_or_none)
