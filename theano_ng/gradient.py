"""Differentiation of expressions: `grad`, `Lop`, `Rop`, `jacobian` and `hessian`.

The module also contains the functions and types by which Ops declare that a derivative does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from theano_ng import gof
from theano_ng.compile.ops import ViewOp
from theano_ng.configdefaults import config
from theano_ng.gof import differentiate, ports
from theano_ng.gof.derivative import (
    DisconnectedType,
    GradNotImplementedError,
    GradUndefinedError,
    NullTypeGradError,
    disconnected_type,
    grad_not_implemented,
    grad_undefined,
)
from theano_ng.gof.differentiate import DisconnectedInputError, Lop, Rop, as_list, format_as, grad, subgraph_grad
from theano_ng.gof.graph import Variable
from theano_ng.gof.null_type import NullType, null_type
from theano_ng.gradient_check import GradientError, mode_not_slow, numeric_grad, verify_grad
from theano_ng.gradient_ops import (
    ConsiderConstant,
    DisconnectedGrad,
    GradClip,
    GradScale,
    UndefinedGrad,
    ZeroGrad,
    consider_constant,
    consider_constant_,
    disconnected_grad,
    disconnected_grad_,
    grad_clip,
    grad_scale,
    undefined_grad,
    undefined_grad_,
    zero_grad,
    zero_grad_,
)
from theano_ng.tensor.shaping.creation import arange

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__docformat__ = "restructuredtext en"


def __getattr__(name):
    if name == "grad_time":
        # `differentiate` updates its variable, so a copy in this module would be outdated.
        return differentiate.grad_time
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def jacobian(
    expression: TensorLike,
    wrt: Any,
    consider_constant: Sequence[Variable] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """Return the Jacobian of a vector with respect to one or several variables. A scan computes the rows.

    Parameters
    ----------
    expression : Variable
        A vector. For a scalar, the result is the result of `grad`.
    wrt : Variable, list or tuple of Variable
    consider_constant, disconnected_inputs
        The parameters of `grad`.

    Returns
    -------
    Variable, list or tuple
        One Jacobian for each variable, in a container like `wrt`. Row ``[i, ...]`` is the gradient of
        ``expression[i]``.
    """
    if not isinstance(expression, Variable):
        raise TypeError("jacobian expects a Variable as `expression`, got %s" % type(expression))
    if expression.type.ndim > 1:
        raise ValueError(
            "jacobian expects a 1 dimensional variable as `expression`, got %d dimensions. If not use flatten to make it a"
            " vector" % expression.type.ndim
        )
    using_list, using_tuple = isinstance(wrt, list), isinstance(wrt, tuple)
    wrt = as_list(wrt)
    consider_constant = _read_more_than_once(consider_constant)
    if expression.type.ndim == 0:
        return format_as(
            using_list,
            using_tuple,
            grad(expression, wrt, consider_constant=consider_constant, disconnected_inputs=disconnected_inputs),
        )

    def row(i: TensorVariable, expr: TensorVariable, *args: Variable) -> Any:
        # `args` contains the variables of `wrt`, followed by other non-sequences that scan adds.
        return grad(
            expr[i],
            list(args[: len(wrt)]),
            consider_constant=consider_constant,
            disconnected_inputs=disconnected_inputs,
        )

    rows: TensorVariable = expression  # type: ignore[assignment]
    jacobs, updates = ports.scan(row, sequences=arange(rows.shape[0]), non_sequences=[rows] + wrt)
    if updates:
        raise ValueError(
            "Scan has returned a list of updates; this should not happen: the expression of a jacobian must not have "
            "updates"
        )
    return format_as(using_list, using_tuple, jacobs)


def _read_more_than_once(variables: Sequence[Variable] | None) -> Any:
    """Return an iterator as a list, so that several calls of `grad` can read it. Return any other value unchanged."""
    return list(variables) if isinstance(variables, Iterator) else variables


def hessian(
    cost: TensorLike, wrt: Any, consider_constant: Sequence[Variable] | None = None, disconnected_inputs: str = "raise"
) -> Any:
    """Return the Hessians of a scalar with respect to one or several vectors.

    Parameters
    ----------
    cost : Variable
        A scalar.
    wrt : Variable, list or tuple of Variable
        Vectors.
    consider_constant, disconnected_inputs
        The parameters of `grad`.

    Returns
    -------
    Variable, list or tuple
        One matrix for each vector, in a container like `wrt`. The result does not contain mixed derivatives with
        respect to different elements of `wrt`.
    """
    if not isinstance(cost, Variable) or cost.type.ndim != 0:
        raise TypeError("hessian expects a 0 dimensional Variable as `cost`, got %s" % (cost,))
    using_list, using_tuple = isinstance(wrt, list), isinstance(wrt, tuple)
    consider_constant = _read_more_than_once(consider_constant)
    hessians = []
    for r in as_list(wrt):
        if not isinstance(r, Variable) or r.type.ndim != 1:
            raise TypeError("hessian expects 1 dimensional variables as `wrt`, got %s" % (r,))
        first = grad(cost, r, consider_constant=consider_constant, disconnected_inputs=disconnected_inputs)
        # Ignore disconnected inputs: if the cost is linear in `r`, its gradient `first` does not depend on `r`.
        matrix, updates = ports.scan(
            lambda i, y, x: grad(y[i], x, consider_constant=consider_constant, disconnected_inputs="ignore"),
            sequences=arange(first.shape[0]),
            non_sequences=[first, r],
        )
        if updates:
            raise ValueError(
                "Scan has returned a list of updates; this should not happen: the cost of a hessian must not have "
                "updates"
            )
        hessians.append(matrix)
    return format_as(using_list, using_tuple, hessians)


__all__ = [
    "ConsiderConstant",
    "DisconnectedGrad",
    "DisconnectedInputError",
    "DisconnectedType",
    "GradClip",
    "GradNotImplementedError",
    "GradScale",
    "GradUndefinedError",
    "GradientError",
    "Lop",
    "NullType",
    "NullTypeGradError",
    "Rop",
    "UndefinedGrad",
    "Variable",
    "ViewOp",
    "ZeroGrad",
    "config",
    "consider_constant",
    "consider_constant_",
    "disconnected_grad",
    "disconnected_grad_",
    "disconnected_type",
    "format_as",
    "gof",
    "grad",
    "grad_clip",
    "grad_not_implemented",
    "grad_scale",
    "grad_undefined",
    "hessian",
    "jacobian",
    "mode_not_slow",
    "null_type",
    "numeric_grad",
    "subgraph_grad",
    "undefined_grad",
    "undefined_grad_",
    "verify_grad",
    "zero_grad",
    "zero_grad_",
]
