"""Transfer of variables between devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from theano_ng.tensor.constant import as_tensor_variable

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike

__all__ = ["transfer", "register_transfer"]


def transfer(var: TensorLike, target: str) -> Any:
    """Return `var` as a variable on the device `target`.

    Parameters
    ----------
    var : Variable
    target : str
        The device. For 'cpu', the result is a tensor variable. Other targets belong to the back ends that called
        :func:`register_transfer`.

    Raises
    ------
    ValueError
        If no registered function supports the target.
    """
    if target == "cpu":
        return as_tensor_variable(var)
    for function in _others:
        result = function(var, target)
        if result is not None:
            return result
    asked = [
        "%s.%s" % (getattr(function, "__module__", "?"), getattr(function, "__qualname__", function))
        for function in _others
    ]
    raise ValueError(
        "Can't transfer %s to target %s. 'cpu' is always known; other targets were looked up in these registered "
        "functions: %s. Is the back end that provides the target loaded?" % (var, target, ", ".join(asked) or "none")
    )


_others: list[Callable[..., Any]] = []
transfer._others = _others  # type: ignore[attr-defined]


def register_transfer(fn: Callable[..., Any]) -> None:
    """Register a function that transfers variables to additional targets.

    Parameters
    ----------
    fn : callable
        ``fn(var, target)`` returns a variable (possibly `var` itself), or None if it does not support the target.
        Functions are called in the order of their registration.
    """
    if not callable(fn):
        raise TypeError("register_transfer expected a function fn(var, target), got %r" % (fn,))
    _others.append(fn)
