"""The functions of batch normalization that users call. Their Ops are in `bn_ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.graph import Variable
from theano_ng.lazy import lazy_names
from theano_ng.scalar.basic import add, get_scalar_type, mul, sub, true_div, upcast
from theano_ng.scalar.composite import Composite
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.nnet.bn_ops import (  # noqa: F401, re-exports
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
    BatchNormTrain,
    BatchNormTrainGrad,
    in_dtype,
)
from theano_ng.tensor.shaping.broadcasting import addbroadcast

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

# The rules are imported when their names are first used.
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        "theano_ng.tensor.nnet.opt_bn": (
            "bn_groupopt local_abstract_batch_norm_inference local_abstract_batch_norm_train local_abstract_batch_norm_train_grad"
        ),
        "theano_ng.gof.optdb": "LocalGroupDB",
        "theano_ng.tensor.opt.registration": "register_specialize_device",
    },
)


class BNComposite(Composite):
    """A scalar op that computes ``(x - mean) * gamma / std + beta`` from x, mean, std, gamma and beta.

    An Elemwise with this op computes the value in one loop, without arrays for intermediate results. Its derivatives
    are computed from these inputs and the gradient of the output, without stored intermediate results.

    Parameters
    ----------
    dtype : str
        The dtype of the inputs.
    """

    def __init__(self, dtype):
        self.dtype = dtype
        x, mean, std, gamma, beta = (
            get_scalar_type(dtype).make_variable(name=name) for name in ("x", "mean", "std", "gamma", "beta")
        )
        super().__init__([x, mean, std, gamma, beta], [add(true_div(mul(sub(x, mean), gamma), std), beta)])

    def grad(self, inps, grads):
        x, mean, std, gamma, beta = inps
        (top,) = grads
        dx = top * gamma / std
        dgamma = top * (x - mean) / std
        return [dx, -dx, -(dgamma * gamma) / std, dgamma, top]


def batch_normalization(
    inputs: TensorLike, gamma: TensorLike, beta: TensorLike, mean: TensorLike, std: TensorLike, mode: str = "low_mem"
) -> TensorVariable:
    """Normalize by given statistics: ``(inputs - mean) * gamma / std + beta``.

    Parameters
    ----------
    inputs : tensor
        The activations of a batch.
    gamma, beta : tensor
        Scale and shift.
    mean, std : tensor
        Mean and standard deviation. `gamma`, `beta`, `mean` and `std` have the rank of `inputs`, and broadcast to it.
    mode : {'low_mem', 'high_mem'}
        'low_mem': the derivatives are computed from the inputs alone. 'high_mem': from stored intermediate results.

    Returns
    -------
    TensorVariable
        A tensor of the shape of `inputs`.

    Raises
    ------
    ValueError
        For an invalid `mode`.
    """
    if mode == "low_mem":
        inputs, mean, std, gamma, beta = (as_tensor_variable(v) for v in (inputs, mean, std, gamma, beta))
        dtype = upcast(*[v.dtype for v in (inputs, mean, std, gamma, beta)])
        if not dtype.startswith(("float", "complex")):
            dtype = upcast(dtype, config.floatX)
        return Elemwise(BNComposite(dtype))(*[in_dtype(v, dtype) for v in (inputs, mean, std, gamma, beta)])
    if mode == "high_mem":
        return (inputs - mean) * (gamma / std) + beta
    raise ValueError('mode must be either "low_mem" or "high_mem", got %r' % (mode,))


def _prepare_batch_normalization_axes(axes, ndim):
    """Return the axes to average over, and the other axes, both sorted.

    Parameters
    ----------
    axes : {'per-activation', 'spatial'} or sequence of ints
    ndim : int

    Raises
    ------
    ValueError
        If `axes` is neither one of these strings nor a sequence of ints, contains an invalid axis, or is empty.
    """
    if isinstance(axes, str) and axes == "per-activation":
        axes = (0,)
    elif isinstance(axes, str) and axes == "spatial":
        axes = (0,) + tuple(range(2, ndim))
    elif not isinstance(axes, (tuple, list, np.ndarray)) or not all(isinstance(a, (int, np.integer)) for a in axes):
        raise ValueError("invalid axes: %s" % (axes,))
    axes = tuple(sorted({int(a) for a in axes}))
    if len(axes) == 0:
        raise ValueError("there should be at least one normalization axis")
    if min(axes) < 0 or max(axes) >= ndim:
        raise ValueError("axes should be less than ndim (<%d), but %s given" % (ndim, axes))
    return axes, tuple(i for i in range(ndim) if i not in axes)


def _prepare_epsilon(epsilon):
    """Return `epsilon` as a scalar variable. Raise ValueError for a number below 1e-5."""
    if not isinstance(epsilon, Variable):
        epsilon = np.asarray(epsilon, dtype=config.floatX)
        # float32 and float16 cannot represent 1e-5: compare with the nearest value.
        if not epsilon >= np.asarray(1e-5, dtype=epsilon.dtype):
            raise ValueError("epsilon must be at least 1e-5, got %s" % epsilon)
    return as_tensor_variable(epsilon)


class _Layout:
    """A converter of statistics between the layout that the Ops use and the layout of gamma and beta.

    In the layout of the Ops, statistics have the rank of the inputs, and length 1 along the normalized axes. gamma and
    beta either have this layout, or lack the normalized axes.

    Parameters
    ----------
    inputs : TensorVariable
    axes : as for `_prepare_batch_normalization_axes`
    gamma, beta : TensorVariable
    """

    def __init__(self, inputs, axes, gamma, beta):
        self.ndim = inputs.ndim
        self.axes, self.kept = _prepare_batch_normalization_axes(axes, self.ndim)
        self.given = gamma.ndim
        if gamma.ndim != beta.ndim or gamma.ndim not in (len(self.kept), self.ndim):
            raise ValueError(
                "gamma and beta dimensionality must match the number of non-normalized axes, or have the same number of"
                " dimensions as the inputs; got %d and %d instead of %d" % (gamma.ndim, beta.ndim, len(self.kept))
            )

    def full(self, value):
        """Return a statistic with the rank of the inputs and length 1 along the normalized axes."""
        if self.given != self.ndim:
            return value.dimshuffle([self.kept.index(i) if i in self.kept else "x" for i in range(self.ndim)])
        return addbroadcast(value, *self.axes)

    def back(self, value):
        """Return a statistic in the layout that the user's gamma and beta have."""
        return value if self.given == self.ndim else value.dimshuffle(self.kept)


def batch_normalization_train(
    inputs: TensorLike,
    gamma: TensorLike,
    beta: TensorLike,
    axes: str | int | Sequence[int] = "per-activation",
    epsilon: TensorLike = 1e-4,
    running_average_factor: TensorLike = 0.1,
    running_mean: TensorLike | None = None,
    running_var: TensorLike | None = None,
) -> tuple[TensorVariable, ...]:
    """Normalize by the mean and the variance of the inputs themselves.

    Parameters
    ----------
    inputs : tensor
    gamma, beta : tensor
        Scale and shift. They have the shape of `inputs`, except that `axes` have length 1 or are left out.
    axes : {'per-activation', 'spatial'} or tuple of ints
        The axes to average over. 'per-activation': axis 0; 'spatial': all axes except 1; a tuple: these axes.
    epsilon : float
        A number that is added to the variance. It must be at least 1e-5.
    running_average_factor : float or scalar variable
        The weight of this batch in the running averages.
    running_mean, running_var : tensor, optional
        The previous running averages, with the dimensions of `gamma`. Pass both or neither.

    Returns
    -------
    out : TensorVariable
        ``(inputs - mean) * gamma * invstd + beta``.
    mean, invstd : TensorVariable
        The mean, and ``1 / sqrt(var + epsilon)``. Here var is the biased variance. Both have the rank of `gamma`.
    new_running_mean, new_running_var : TensorVariable
        If running averages were given: ``running_mean * (1 - f) + mean * f`` and
        ``running_var * (1 - f) + m / (m - 1) * var * f``. Here f is `running_average_factor`, and m is the number of
        elements of each mean.

    Raises
    ------
    ValueError
        If axes do not exist, dimensions do not match, `epsilon` is too small, or only one of the running averages is
        given.
    """
    inputs, gamma, beta = (as_tensor_variable(v) for v in (inputs, gamma, beta))
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be given or both be None")
    epsilon = _prepare_epsilon(epsilon)
    layout = _Layout(inputs, axes, gamma, beta)
    running: tuple[TensorVariable, ...] = ()
    if running_mean is not None:
        running = (as_tensor_variable(running_mean), as_tensor_variable(running_var))
        for name, value in zip(("running_mean", "running_var"), running):
            if value.ndim != gamma.ndim:
                raise ValueError(
                    "%s must be of the same dimensionality as gamma and beta; got %d instead of %d"
                    % (name, value.ndim, gamma.ndim)
                )
    out, *statistics = AbstractBatchNormTrain(layout.axes)(
        inputs,
        layout.full(gamma),
        layout.full(beta),
        epsilon,
        running_average_factor,
        *[layout.full(value) for value in running],
    )
    return (out, *[layout.back(value) for value in statistics])


def batch_normalization_test(
    inputs: TensorLike,
    gamma: TensorLike,
    beta: TensorLike,
    mean: TensorLike,
    var: TensorLike,
    axes: str | int | Sequence[int] = "per-activation",
    epsilon: TensorLike = 1e-4,
) -> TensorVariable:
    """Normalize by given statistics: ``(inputs - mean) * gamma / sqrt(var + epsilon) + beta``.

    Parameters
    ----------
    inputs : tensor
    gamma, beta : tensor
        Scale and shift. They have the shape of `inputs`, except that `axes` have length 1 or are left out.
    mean, var : tensor
        Usually running averages of `batch_normalization_train`, with the dimensions of `gamma`.
    axes : {'per-activation', 'spatial'} or tuple of ints
        See `batch_normalization_train`.
    epsilon : float
        A number that is added to the variance. It must be at least 1e-5.

    Returns
    -------
    TensorVariable
        A tensor of the shape of `inputs`.

    Raises
    ------
    ValueError
        If axes do not exist, dimensions do not match, or `epsilon` is too small.
    """
    inputs, gamma, beta, mean, var = (as_tensor_variable(v) for v in (inputs, gamma, beta, mean, var))
    epsilon = _prepare_epsilon(epsilon)
    layout = _Layout(inputs, axes, gamma, beta)
    if mean.ndim != gamma.ndim or var.ndim != gamma.ndim:
        raise ValueError(
            "mean and var must be of the same dimensionality as gamma and beta; got %d and %d instead of %d"
            % (mean.ndim, var.ndim, gamma.ndim)
        )
    return AbstractBatchNormInference(layout.axes)(
        inputs, *[layout.full(value) for value in (gamma, beta, mean, var)], epsilon
    )
