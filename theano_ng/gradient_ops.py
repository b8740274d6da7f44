"""Identity Ops that change the gradient that is propagated through them.

They are documented as members of `theano_ng.gradient`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from theano_ng.compile.ops import ViewOp
from theano_ng.gof.derivative import disconnected_gradients, grad_undefined
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import cast, clip

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable


class ConsiderConstant(ViewOp):
    """An identity Op whose gradient (`grad`) and forward-mode derivative (`R_op`) are zero."""

    def grad(self, args, g_outs):
        return [g_out.zeros_like() for g_out in g_outs]

    def R_op(self, inputs, eval_points):
        return [None if point is None else point.zeros_like() for point in eval_points]


class ZeroGrad(ViewOp):
    """An identity Op whose gradient (`grad`) and forward-mode derivative (`R_op`) are zero."""

    def grad(self, args, g_outs):
        return [g_out.zeros_like() for g_out in g_outs]

    def R_op(self, inputs, eval_points):
        return [None if point is None else point.zeros_like() for point in eval_points]


class UndefinedGrad(ViewOp):
    """An identity Op whose gradient is undefined."""

    def grad(self, args, g_outs):
        return [grad_undefined(self, 0, args[0])]

    def connection_pattern(self, node):
        # Declare the input as connected, so that `grad` raises an error instead of returning zero.
        return [[True]]

    def R_op(self, inputs, eval_points):
        return [None]


class DisconnectedGrad(ViewOp):
    """An identity Op that disconnects its input from the cost."""

    def grad(self, args, g_outs):
        return disconnected_gradients(len(g_outs))

    def R_op(self, inputs, eval_points):
        return [None]

    def connection_pattern(self, node):
        return [[False]]


class GradClip(ViewOp):
    """An identity Op that clips the gradient.

    Parameters
    ----------
    clip_lower_bound, clip_upper_bound : float
    """

    # Only `grad` uses the bounds, and `grad` runs before the graph is rewritten. So rewriting may merge two nodes with
    # equal inputs but different bounds.
    __props__ = ()

    def __init__(self, clip_lower_bound, clip_upper_bound):
        if not clip_lower_bound <= clip_upper_bound:
            raise ValueError(
                "the lower bound %s of a clipped gradient is above the upper bound %s"
                % (clip_lower_bound, clip_upper_bound)
            )
        self.clip_lower_bound = clip_lower_bound
        self.clip_upper_bound = clip_upper_bound

    def grad(self, args, g_outs):
        # Cast the result, because bounds that float32 cannot hold exactly would make the gradient float64.
        return [cast(clip(g_out, self.clip_lower_bound, self.clip_upper_bound), g_out.type.dtype) for g_out in g_outs]


class GradScale(ViewOp):
    """An identity Op that scales the gradient.

    Parameters
    ----------
    multiplier : float
    """

    __props__ = ("multiplier",)

    def __init__(self, multiplier):
        self.multiplier = multiplier

    def grad(self, args, g_outs):
        return [cast(self.multiplier * g_out, g_out.type.dtype) for g_out in g_outs]


consider_constant_ = ConsiderConstant()
zero_grad_ = ZeroGrad()
undefined_grad_ = UndefinedGrad()
disconnected_grad_ = DisconnectedGrad()


def consider_constant(x: TensorLike) -> TensorVariable:
    """Return a variable with the value of `x`, whose gradient with respect to `x` is zero.

    Deprecated: use `zero_grad` or `disconnected_grad`.

    Parameters
    ----------
    x : Variable

    Returns
    -------
    Variable
        A variable with the value of `x`.
    """
    warnings.warn("consider_constant() is deprecated, use zero_grad() or disconnected_grad() instead.", stacklevel=2)
    return consider_constant_(as_tensor_variable(x))


def zero_grad(x: TensorLike) -> TensorVariable:
    """Return a variable with the value of `x`, whose gradient with respect to `x` is zero.

    `x` stays connected to the cost.

    Parameters
    ----------
    x : Variable

    Returns
    -------
    Variable
        A variable with the value of `x`.
    """
    return zero_grad_(x)


def undefined_grad(x: TensorLike) -> TensorVariable:
    """Return a variable with the value of `x`, whose gradient with respect to `x` is undefined.

    `grad` raises an error if it needs the gradient.

    Parameters
    ----------
    x : Variable

    Returns
    -------
    Variable
        A variable with the value of `x`.
    """
    return undefined_grad_(x)


def disconnected_grad(x: TensorLike) -> TensorVariable:
    """Return a variable with the value of `x`, through which `grad` propagates no gradient to `x`.

    Through this variable, `x` is not connected to the cost. `disconnected_grad` is cheaper than
    `zero_grad`, because `grad` does not compute zeros.

    Parameters
    ----------
    x : Variable

    Returns
    -------
    Variable
        A variable with the value of `x`.
    """
    return disconnected_grad_(x)


def grad_clip(x: TensorLike, lower_bound: float, upper_bound: float) -> TensorVariable:
    """Return a variable with the value of `x`. `grad` clips the gradient that it propagates to `x`, elementwise.

    Clipping costs time only in the computation of the gradient, not in the computation of the value.

    Parameters
    ----------
    x : Variable
    lower_bound, upper_bound : float

    Returns
    -------
    Variable
        A variable with the value of `x`.

    Examples
    --------
    >>> import theano_ng as theano
    >>> x = theano.tensor.scalar()
    >>> z = theano.tensor.grad(grad_clip(x, -1, 1) ** 2, x)
    >>> z2 = theano.tensor.grad(x ** 2, x)
    >>> f = theano.function([x], outputs=[z, z2])
    >>> print([float(v) for v in f(2.0)])
    [1.0, 4.0]
    """
    return GradClip(lower_bound, upper_bound)(x)


def grad_scale(x: TensorLike, multiplier: float) -> TensorVariable:
    """Return a variable with the value of `x`. `grad` multiplies the gradient that it propagates to `x` by a number.

    A negative multiplier reverses the sign of the gradient.

    Parameters
    ----------
    x : Variable
    multiplier : float

    Returns
    -------
    Variable
        A variable with the value of `x`.
    """
    return GradScale(multiplier)(x)


for _thing in (
    ConsiderConstant,
    ZeroGrad,
    UndefinedGrad,
    DisconnectedGrad,
    GradClip,
    GradScale,
    consider_constant,
    zero_grad,
    undefined_grad,
    disconnected_grad,
    grad_clip,
    grad_scale,
):
    # Pickles and reprs use the documented path.
    _thing.__module__ = "theano_ng.gradient"
del _thing
