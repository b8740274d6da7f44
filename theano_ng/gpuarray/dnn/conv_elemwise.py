"""`GpuDnnConvElemwise`: a convolution by cuDNN, with a bias and an activation."""

import functools

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.dnn.conv import DnnForward, GpuDnnConv, empty_like
from theano_ng.gpuarray.kernels.elemwise import elemwise_kernels
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import at_least_float32, host_variable, to_context_of
from theano_ng.loops.program import elementwise_program, operand_accesses
from theano_ng.scalar import Composite, get_scalar_type, tanh
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.nnet.activations import scalar_rectifier
from theano_ng.tensor.nnet.sigmoids import scalar_sigmoid

__all__ = ["GpuDnnConvElemwise"]

_SCALAR_OPS = {"identity": lambda x: x, "relu": scalar_rectifier, "tanh": tanh, "sigmoid": scalar_sigmoid}
ACTIVATIONS = tuple(_SCALAR_OPS)  # in the order of device/cudnn.h


@functools.cache
def _scalar_op(activation, dtype):
    """Return the scalar op that adds a bias to a number, and applies an activation."""
    numbers = [get_scalar_type(dtype)() for _ in range(2)]
    return Composite(numbers, [_SCALAR_OPS[activation](numbers[0] + numbers[1])])


class GpuDnnConvElemwise(DnnForward):
    """A convolution on a CUDA device, to which a bias is added and an activation is applied.

    Inputs: the images, the kernels, the array `output`, the descriptor and alpha of `GpuDnnConv`, and the bias, an array
    that is broadcastable along all axes but the second. Output: ``activation(alpha * convolution + bias)``.

    Parameters
    ----------
    activation : {"identity", "relu", "tanh", "sigmoid"}
    algo : str, optional
        The algorithm of the convolution if cuDNN does not compute everything in one kernel; see `GpuDnnConv`.
    inplace : bool
        If True, overwrite `output`.
    num_groups : int
        See `GpuDnnConv`.

    Raises
    ------
    ValueError
        For invalid parameters; at run time, if the shapes do not fit.

    Notes
    -----
    The library makes a plan for each combination of shapes and for each value of alpha. The heuristics of the library
    choose it among those that sum the products themselves (without Fourier or Winograd transforms), in the precision of
    the convolution. If there is no such plan, a kernel of this package adds the bias and applies the activation after the
    convolution. If the flag ``gpuarray.epilogue`` is "on", plans are allowed that the library does not call fast.

    The derivatives are those of a separate convolution, so they compute it once more.
    """

    __props__ = ("activation", *DnnForward.__props__)

    def __init__(self, activation="identity", algo=None, inplace=False, num_groups=1):
        super().__init__()
        if activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise ValueError("%s: activation must be one of %s, not %r" % (type(self).__name__, known, activation))
        self.activation = activation
        self._set(algo, inplace, num_groups)

    def make_node(self, img, kern, output, desc, alpha, bias):
        node = super().make_node(img, kern, output, desc, alpha)
        inputs, (out,) = node.inputs[:5], node.outputs
        bias = as_gpuarray_variable(bias, out.type.context_name)
        varying = [axis for axis, broadcastable in enumerate(bias.broadcastable) if not broadcastable]
        if bias.dtype != out.dtype or bias.ndim != out.ndim or varying not in ([], [1]):
            raise TypeError(
                "%s: the bias must have dtype %s and %d dimensions, and be broadcastable along all of them but the second; "
                "got %s of type %s" % (self, out.dtype, out.ndim, bias, bias.type)
            )
        return Apply(self, [*inputs, bias], [out.type()])

    def native_code(self, node):
        (out,) = node.outputs
        op, varies = _scalar_op(self.activation, out.dtype), (False,) * 3
        accesses = operand_accesses([varies, (True, False, True)], varies)
        program = elementwise_program(op, (out.dtype,) * 2, (out.dtype,), accesses)
        return self.dnn_code(
            node,
            "cudnn_conv:convolve_elemwise",
            **self.native_params(node),
            activation=ACTIVATIONS.index(self.activation),
            any=config.gpuarray.epilogue == "on",
            ending=elemwise_kernels(program, len(varies), out.type.context)[1],
        )

    def perform(self, node, inputs, output_storage, params=None):
        *given, bias = [np.asarray(value) for value in inputs]
        dtype = at_least_float32(node.outputs[0].type.dtype)
        value = self.host_value(dtype, *given)
        if bias.shape != (1, value.shape[1], *[1] * (value.ndim - 2)):
            raise ValueError(
                "Input dimension mis-match. (the bias has the shape %s, but the convolution has %d filters)"
                % (bias.shape, value.shape[1])
            )
        value = value + bias.astype(dtype)
        with np.errstate(over="ignore"):
            result = _ON_HOST[self.activation](value)
        self.store(node, [np.asarray(result, bias.dtype)], inputs, output_storage)

    # -- derivatives, of a separate convolution ------------------------------------------------------------------------

    def connection_pattern(self, node):
        return [[i not in (2, 3)] for i in range(6)]

    def _separate(self, inputs):
        """Return an expression of the result in terms of `GpuDnnConv`, and the variables on which it depends: images,
        kernels, alpha, and the bias on the host.
        """
        img, kern, output, desc, alpha, bias = inputs
        convolution = GpuDnnConv(self.algo, num_groups=self.num_groups)(img, kern, empty_like(output), desc, alpha)
        bias = host_variable(bias)
        result = Elemwise(_scalar_op(self.activation, output.dtype))(host_variable(convolution), bias)
        return as_gpuarray_variable(result, output.type.context_name), [img, kern, alpha, bias]

    def grad(self, inp, grads):
        if isinstance(grads[0].type, DisconnectedType):
            return [DisconnectedType()() for _ in inp]
        result, wrt = self._separate(inp)
        img, kern, alpha, bias = Lop(result, wrt, as_gpuarray_variable(grads[0], result.type.context_name))
        unused = [DisconnectedType()() for _ in range(2)]
        return [img, kern, *unused, alpha, to_context_of(bias, inp[5])]

    def R_op(self, inputs, eval_points):
        result, wrt = self._separate(inputs)
        points = [eval_points[0], eval_points[1], eval_points[4], host_variable(eval_points[5])]
        moving = [(x, point) for x, point in zip(wrt, points) if point is not None]
        return [Rop(result, *map(list, zip(*moving))) if moving else None]


_ON_HOST = {
    "identity": lambda x: x,
    "relu": scalar_rectifier.function,
    "tanh": np.tanh,
    "sigmoid": scalar_sigmoid.function,
}
