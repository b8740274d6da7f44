"""Softmax of images by cuDNN."""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.cudnn_defs import CuDNNV9
from theano_ng.gpuarray.dnn.base import DnnOp, dnn_inputs
from theano_ng.tensor.elemwise.functions import exp, log

__all__ = ["GpuDnnSoftmax", "GpuDnnSoftmaxBase", "GpuDnnSoftmaxGrad"]


class GpuDnnSoftmaxBase(DnnOp):
    """The base class of softmax and its gradient.

    Parameters
    ----------
    algo : {"fast", "accurate", "log"}
        "accurate" subtracts the maximum first, so that large inputs do not overflow. "fast" does not. "log" computes the
        logarithm of softmax.
    mode : {"instance", "channel"}
        "instance": a softmax over all elements of an image, the last three axes. "channel": a softmax over the channels
        of each pixel, the second axis.

    Raises
    ------
    ValueError
        For another algorithm or mode.
    """

    __props__ = ("mode", "algo")

    def __init__(self, algo, mode):
        super().__init__()
        for name, value, known in (
            ("algo", algo, CuDNNV9.cudnnSoftmaxAlgorithm_t.aliases),
            ("mode", mode, CuDNNV9.cudnnSoftmaxMode_t.aliases),
        ):
            if value not in known:
                raise ValueError("%s: %s must be one of %s, not %r" % (type(self).__name__, name, list(known), value))
        self.algo, self.mode = algo, mode

    @property
    def axes(self):
        """The axes over which one softmax is computed."""
        return (1, 2, 3) if self.mode == "instance" else (1,)

    def infer_shape(self, node, shape):
        return [shape[0]]

    def softmax_code(self, node, function):
        return self.dnn_code(
            node,
            "cudnn_softmax:" + function,
            typecode=node.inputs[0].type.typecode,
            algorithm=CuDNNV9.cudnnSoftmaxAlgorithm_t.fromalias(self.algo),
            mode=CuDNNV9.cudnnSoftmaxMode_t.fromalias(self.mode),
        )


class GpuDnnSoftmax(GpuDnnSoftmaxBase):
    """Softmax of images on a CUDA device, by cuDNN. See `GpuDnnSoftmaxBase` for the parameters.

    Input: x (batch, channels, rows, columns), float16, float32 or float64. The output has the same type and shape.
    """

    def make_node(self, x):
        (x,) = dnn_inputs(self, {"x": x}, 4)
        return Apply(self, [x], [x.type()])

    def native_code(self, node):
        return self.softmax_code(node, "softmax")

    def perform(self, node, inputs, output_storage, params=None):
        x = np.asarray(inputs[0])
        if x.size > 0:
            super().perform(node, inputs, output_storage, params)
        else:  # the formula computes a maximum, which zero elements lack
            self.store(node, [x], inputs, output_storage)

    def formula(self, x):
        shifted = x if self.algo == "fast" else x - x.max(self.axes, keepdims=True)
        powers = exp(shifted)
        total = powers.sum(self.axes, keepdims=True)
        return [shifted - log(total) if self.algo == "log" else powers / total]

    def L_op(self, inputs, outputs, grads):
        (gradient,) = grads
        if isinstance(gradient.type, DisconnectedType):
            return [DisconnectedType()()]
        return [GpuDnnSoftmaxGrad(self.algo, self.mode)(gradient, outputs[0])]


class GpuDnnSoftmaxGrad(GpuDnnSoftmaxBase):
    """Gradient of `GpuDnnSoftmax` with respect to its input.

    Inputs: dy, the gradient with respect to the result, and sm, the result of `GpuDnnSoftmax` with the same parameters.
    Both have rank 4, and the same shape. The output is like sm.
    """

    def make_node(self, dy, sm):
        dy, sm = dnn_inputs(self, {"dy": dy, "sm": sm}, 4)
        return Apply(self, [dy, sm], [sm.type()])

    def infer_shape(self, node, shape):
        return [shape[1]]

    def fails_on_values(self, node):
        return True  # the shapes may differ

    def native_code(self, node):
        return self.softmax_code(node, "softmax_gradient")

    def formula(self, dy, sm):
        if self.algo == "log":
            return [dy - exp(sm) * dy.sum(self.axes, keepdims=True)]
        return [(dy - (dy * sm).sum(self.axes, keepdims=True)) * sm]
