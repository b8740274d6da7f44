"""Batch normalization by cuDNN."""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.cudnn_defs import CuDNNV9
from theano_ng.gpuarray.dnn.base import DTYPES, DnnOp, in_dtype, with_pattern
from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, WideTwinOp, at_least_float32, host_variable
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import sqr
from theano_ng.tensor.nnet.bn_ops import AbstractBatchNormInference, AbstractBatchNormTrain, AbstractBatchNormTrainGrad

__all__ = [
    "GpuDnnBatchNorm",
    "GpuDnnBatchNormGrad",
    "GpuDnnBatchNormInference",
    "dnn_batch_normalization_test",
    "dnn_batch_normalization_train",
]

LEAST_EPSILON = 1e-5


class _Normalization(WideTwinOp, DnnOp):
    """The base class of Ops of batch normalization.

    Parameters
    ----------
    mode : {"per-activation", "spatial"}
        Whether the statistics are computed for each element of an image, over the first axis; or for each channel, over
        all axes except the second.

    Raises
    ------
    ValueError
        For another mode.
    """

    host_class = None

    def __init__(self, mode="per-activation"):
        super().__init__()
        known = CuDNNV9.cudnnBatchNormMode_t.aliases
        if mode not in known:
            raise ValueError("%s: mode must be one of %s, not %r" % (type(self).__name__, list(known), mode))
        self.mode = mode

    def axes(self, ndim):
        """Return the axes over which the statistics of an array with `ndim` axes are computed."""
        return (0,) if self.mode == "per-activation" else (0, *range(2, ndim))

    def host_op(self, node):
        return self.host_class(self.axes(node.inputs[0].ndim))

    def to_arrays(self, images, statistics):
        """Return variables as arrays of a device: images of one dtype, and statistics in the dtype that cuDNN needs.

        Parameters
        ----------
        images, statistics : dict of str to variable
            Names for error messages, and variables.

        Raises
        ------
        TypeError
            If an array has a dtype other than float16, float32 or float64, or another number of axes.
        """
        context_name = infer_context_name(*images.values(), *statistics.values())
        found = {name: as_gpuarray_variable(v, context_name) for name, v in [*images.items(), *statistics.items()]}
        first, *_ = found.values()
        for name, v in found.items():
            if v.dtype not in DTYPES or v.ndim not in (4, 5) or v.ndim != first.ndim:
                raise TypeError(
                    "%s: the arrays must have 4 or 5 axes, equally many, and dtypes among %s; got %s of type %s"
                    % (self, ", ".join(DTYPES), name, v.type)
                )
            if name in images and v.dtype != first.dtype:
                raise TypeError("%s: %s must have the dtype %s; got %s" % (self, name, first.dtype, v.type))
        wide = at_least_float32(first.dtype)
        return [v if name in images else in_dtype(v, wide) for name, v in found.items()]

    def statistic_type(self, x):
        """Return the type of a statistic of the variable x."""
        axes = self.axes(x.ndim)
        pattern = [axis in axes or flag for axis, flag in enumerate(x.broadcastable)]
        return GpuArrayType(at_least_float32(x.dtype), pattern, x.type.context_name)

    def infer_shape(self, node, shape):
        x = node.inputs[0]
        kept = tuple([1 if axis in self.axes(x.ndim) else n for axis, n in enumerate(shape[0])])
        return [shape[0], *[kept] * (len(node.outputs) - 1)]

    def norm_code(self, node, function, **params):
        return self.dnn_code(
            node,
            "cudnn_normalize:" + function,
            typecode=node.inputs[0].type.typecode,
            mode=CuDNNV9.cudnnBatchNormMode_t.fromalias(self.mode),
            **params,
        )

    def grad(self, inputs, output_gradients):
        found = TwinOp.grad(self, inputs, output_gradients)
        return [_with_type(g, x) for g, x in zip(found, inputs)]

    def R_op(self, inputs, eval_points):
        found = TwinOp.R_op(self, inputs, eval_points)
        return [_with_type(d, out) for d, out in zip(found, self.make_node(*inputs).outputs)]


def _with_type(v, like):
    """Return a derivative of a device variable with the dtype and the broadcast pattern of the variable."""
    if not isinstance(getattr(v, "type", None), GpuArrayType) or not isinstance(like.type, GpuArrayType):
        return v
    return with_pattern(in_dtype(v, like.dtype), like)


def _number(op, value, name):
    """Return a number as a 0-d float64 variable on the host."""
    value = as_tensor_variable(host_variable(value))
    if value.ndim != 0:
        raise TypeError("%s: %s must be a number; got %s" % (op, name, value.type))
    return value.astype("float64")


def _is_connected(g):
    return g is not None and not isinstance(g.type, DisconnectedType)


class GpuDnnBatchNorm(_Normalization):
    """Normalize by the statistics of the batch, on a CUDA device, by cuDNN.

    Inputs: x (4 or 5 axes), float16, float32 or float64; scale and bias, with length 1 along the axes over which is
    averaged; epsilon and running_average_factor, numbers on the host; and, with `running_averages`, running_mean and
    running_var. Outputs: the normalized x, the means, ``1 / sqrt(variance + epsilon)``, and, with `running_averages`,
    the new averages. The statistics have dtype float64 for float64, else float32.

    Parameters
    ----------
    mode : {"per-activation", "spatial"}
        The average is over the first axis, or over all axes except the second.
    running_averages : bool
        Whether running averages are computed: the new value has the weight running_average_factor, and the variance of
        m elements is multiplied by m / (m - 1).
    inplace_running_mean, inplace_running_var, inplace_output : bool
        Whether the new averages, and the normalized x, overwrite the inputs.

    Raises
    ------
    ValueError
        For another mode, and if running averages are missing or superfluous. At run time, for arrays of wrong shapes.
    TypeError
        For other dtypes and numbers of axes.
    """

    __props__ = ("mode", "running_averages", "inplace_running_mean", "inplace_running_var", "inplace_output")
    host_class = AbstractBatchNormTrain

    def __init__(
        self,
        mode="per-activation",
        running_averages=False,
        inplace_running_mean=False,
        inplace_running_var=False,
        inplace_output=False,
    ):
        super().__init__(mode)
        self.running_averages = bool(running_averages)
        self.inplace_output = bool(inplace_output)
        self.inplace_running_mean = self.running_averages and bool(inplace_running_mean)
        self.inplace_running_var = self.running_averages and bool(inplace_running_var)
        places = ((0, 0, self.inplace_output), (3, 5, self.inplace_running_mean), (4, 6, self.inplace_running_var))
        overwritten = {output: [place] for output, place, flag in places if flag}
        if overwritten:
            self.destroy_map = overwritten

    def make_node(self, x, scale, bias, epsilon=1e-4, running_average_factor=0.1, running_mean=None, running_var=None):
        if [running_mean is not None, running_var is not None] != [self.running_averages] * 2:
            raise ValueError(
                "%s: running_mean and running_var must both be given if running_averages is true, else neither" % self
            )
        running = {"running_mean": running_mean, "running_var": running_var} if self.running_averages else {}
        x, scale, bias, *running = self.to_arrays({"x": x}, {"scale": scale, "bias": bias, **running})
        epsilon = _number(self, epsilon, "epsilon")
        factor = _number(self, running_average_factor, "running_average_factor")
        statistic = self.statistic_type(x)
        outputs = [x.type(), statistic(), statistic(), *[statistic() for _ in running]]
        return Apply(self, [x, scale, bias, epsilon, factor, *running], outputs)

    def native_code(self, node):
        in_place = self.inplace_output + 2 * self.inplace_running_mean + 4 * self.inplace_running_var
        return self.norm_code(node, "train", in_place=in_place)

    def L_op(self, inputs, outputs, grads):
        if any(map(_is_connected, grads[1:])) or not _is_connected(grads[0]):
            return self.grad(inputs, grads)
        x, scale, bias, epsilon, *others = inputs
        mean, invstd = outputs[1:3]
        dx, dscale, dbias = GpuDnnBatchNormGrad(self.mode)(x, grads[0], scale, mean, invstd, epsilon)
        of_epsilon = -(host_variable(dscale) * host_variable(scale) * sqr(host_variable(invstd))).sum() / 2
        dscale, dbias = with_pattern(dscale, scale), with_pattern(dbias, bias)
        return [dx, dscale, dbias, of_epsilon.astype(epsilon.dtype), *[DisconnectedType()() for _ in others]]


class GpuDnnBatchNormGrad(_Normalization):
    """Gradient of `GpuDnnBatchNorm` with respect to x, scale and bias.

    Inputs: x; dy, the gradient with respect to the normalized x; scale; x_mean and x_invstd, the second and third
    output of `GpuDnnBatchNorm`; epsilon, a number on the host.

    Parameters
    ----------
    mode : {"per-activation", "spatial"}
        That of `GpuDnnBatchNorm`.
    """

    __props__ = ("mode",)
    host_class = AbstractBatchNormTrainGrad

    def make_node(self, x, dy, scale, x_mean, x_invstd, epsilon=1e-4):
        x, dy, *statistics = self.to_arrays(
            {"x": x, "dy": dy}, {"scale": scale, "x_mean": x_mean, "x_invstd": x_invstd}
        )
        outputs = [x.type(), self.statistic_type(x)(), self.statistic_type(x)()]
        return Apply(self, [x, dy, *statistics, _number(self, epsilon, "epsilon")], outputs)

    def fails_on_values(self, node):
        return True  # the shapes may differ

    def native_code(self, node):
        return self.norm_code(node, "train_gradient")


class GpuDnnBatchNormInference(_Normalization):
    """Normalize by given statistics, on a CUDA device, by cuDNN.

    Inputs: x (4 or 5 axes), float16, float32 or float64; scale, bias, estimated_mean and estimated_variance, with
    length 1 along the axes over which is averaged; epsilon, a number on the host. The output is like x.

    Parameters
    ----------
    mode : {"per-activation", "spatial"}
        The average is over the first axis, or over all axes except the second.
    inplace : bool
        Whether the output overwrites x.
    """

    __props__ = ("mode", "inplace")
    host_class = AbstractBatchNormInference

    def __init__(self, mode="per-activation", inplace=False):
        super().__init__(mode)
        self.inplace = bool(inplace)
        if self.inplace:
            self.destroy_map = {0: [0]}

    def make_node(self, x, scale, bias, estimated_mean, estimated_variance, epsilon=1e-4):
        arrays = self.to_arrays(
            {"x": x},
            {"scale": scale, "bias": bias, "estimated_mean": estimated_mean, "estimated_variance": estimated_variance},
        )
        return Apply(self, [*arrays, _number(self, epsilon, "epsilon")], [arrays[0].type()])

    def native_code(self, node):
        return self.norm_code(node, "infer", in_place=self.inplace)


def with_axes(v, ndim):
    """Return a device array with axes of length 1 added at the end, or removed there, so that it has `ndim` axes."""
    if v.ndim == ndim:
        return v
    added = ["x"] * (ndim - v.ndim)
    return GpuDimShuffle(v.broadcastable, [*range(min(v.ndim, ndim)), *added])(v)


def _arguments(name, inputs, statistics, epsilon):
    """Check the arguments of a function. Return the number of axes of the inputs, and arrays with 4 or 5 axes."""
    context_name = infer_context_name(inputs, *statistics)
    arrays = [as_gpuarray_variable(v, context_name) for v in (inputs, *statistics)]
    ndim = arrays[0].ndim
    if ndim > 5:
        raise ValueError("%s: cuDNN normalizes arrays of at most 5 axes, got %d" % (name, ndim))
    if any(v.ndim != ndim for v in arrays):
        raise ValueError(
            "%s: all arrays must have as many axes as the inputs; got %s"
            % (name, ", ".join(str(v.type) for v in arrays))
        )
    if isinstance(epsilon, (int, float, np.number)) and not epsilon >= LEAST_EPSILON:
        raise ValueError("%s: epsilon must be at least %s, got %s" % (name, LEAST_EPSILON, epsilon))
    return ndim, [with_axes(v, max(ndim, 4)) for v in arrays]


def dnn_batch_normalization_train(
    inputs,
    gamma,
    beta,
    mode="per-activation",
    epsilon=1e-4,
    running_average_factor=0.1,
    running_mean=None,
    running_var=None,
):
    """Normalize by the mean and variance of the inputs, on a CUDA device, by cuDNN.

    Parameters
    ----------
    inputs : tensor
        At most 5 axes, float16, float32 or float64. The first axis is that of the examples, the second that of the
        channels.
    gamma, beta : tensor
        Scale and bias. They have as many axes as the inputs, and length 1 along the axes over which is averaged.
    mode : {"per-activation", "spatial"}
        Whether the average is over the first axis, or over all axes except the second.
    epsilon : float
        A number that is added to the variance, at least 1e-5.
    running_average_factor : float
        The weight of the new value in the running averages.
    running_mean, running_var : tensor, optional
        The previous running averages, both or neither. They have the shape of `gamma`.

    Returns
    -------
    out : variable on a device
        The normalized inputs.
    mean, invstd : variable on a device
        The means of the inputs, and ``1 / sqrt(variance + epsilon)``; float32 for float16 inputs.
    new_running_mean, new_running_var : variable on a device
        The new running averages, if the previous ones are given:
        ``running_mean * (1 - factor) + mean * factor`` and
        ``running_var * (1 - factor) + m / (m - 1) * variance * factor``, where m is the number of averaged elements.

    Raises
    ------
    ValueError
        For an unknown mode, more than 5 axes, a smaller epsilon, or if only one running average is given.
    TypeError
        For other dtypes.
    """
    name = "dnn_batch_normalization_train"
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be given or both be None")
    running = [] if running_mean is None else [running_mean, running_var]
    ndim, (x, scale, bias, *running) = _arguments(name, inputs, [gamma, beta, *running], epsilon)
    op = GpuDnnBatchNorm(mode, running_averages=bool(running))
    found = op(x, scale, bias, epsilon, running_average_factor, *running, return_list=True)
    return [with_axes(v, ndim) for v in found]


def dnn_batch_normalization_test(inputs, gamma, beta, mean, var, mode="per-activation", epsilon=1e-4):
    """Normalize by a given mean and variance, on a CUDA device, by cuDNN.

    Parameters
    ----------
    inputs : tensor
        At most 5 axes, float16, float32 or float64. The first axis is that of the examples, the second that of the
        channels.
    gamma, beta, mean, var : tensor
        Scale, bias, mean and variance. They have as many axes as the inputs, and length 1 along the first axis, and, in
        the mode "spatial", along all axes except the second.
    mode : {"per-activation", "spatial"}
    epsilon : float
        A number that is added to the variance, at least 1e-5.

    Returns
    -------
    variable on a device
        ``(inputs - mean) * gamma / sqrt(var + epsilon) + beta``

    Raises
    ------
    ValueError
        For an unknown mode, more than 5 axes, or a smaller epsilon.
    TypeError
        For other dtypes.
    """
    ndim, arrays = _arguments("dnn_batch_normalization_test", inputs, [gamma, beta, mean, var], epsilon)
    return with_axes(GpuDnnBatchNormInference(mode)(*arrays, epsilon), ndim)
