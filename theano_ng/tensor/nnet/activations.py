"""Activations that are short expressions, Ops that prepend a scalar to rows, and the two-level softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import theano_ng.scalar as scal
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.loops.blocks import instructions
from theano_ng.scalar.basic import upcast
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import cast, expm1, int_div, minimum, mod, switch
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.linalg.products import dot, tensordot
from theano_ng.tensor.nnet.blocksparse import sparse_block_dot
from theano_ng.tensor.nnet.sigmoids import ScalarActivation, ScalarSoftsign, scalar_softsign, softsign  # noqa: F401, re-exports
from theano_ng.tensor.nnet.softmax import softmax
from theano_ng.tensor.shaping.creation import arange

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import IntLike, TensorLike
    from theano_ng.tensor.var import TensorVariable


class ScalarRectifier(ScalarActivation):
    """The rectifier: x where x is positive, 0 elsewhere. Its derivative at 0 is 1/2."""

    on_arrays = True

    def function(self, x):
        return np.maximum(x, x.dtype.type(0))

    def formula(self, x, out):
        return "%s <= 0 ? 0 : %s" % (x, x)

    def gradient(self, gz, x, z):
        half, one = (scal.constant(number, dtype=z.type.dtype) for number in (0.5, 1))
        return gz * (half * (one + scal.sgn(x)))


scalar_rectifier = ScalarRectifier(scal.upgrade_to_float, name="scalar_rectifier")
instructions.register(scalar_rectifier)
_rectifier = Elemwise(scalar_rectifier, name="rectifier")


def _like(value, x):
    """Convert a Python number to the dtype of `x`, so that activations keep this dtype.

    A value that is not a Python number is returned unchanged. If `x` is not a float, all values are returned unchanged.
    """
    if isinstance(value, (int, float)) and x.dtype.startswith("float"):
        return np.asarray(value, x.dtype)
    return value


def relu(x: TensorLike, alpha: TensorLike = 0) -> TensorVariable:
    """Compute the rectified linear unit: x where x is positive, alpha * x elsewhere.

    Parameters
    ----------
    x : tensor
    alpha : scalar or tensor
        The slope for negative x: 0 gives the rectifier, 1 the identity. If `alpha` is a variable (for example a shared
        variable), the result can be differentiated with respect to it.
    """
    x = as_tensor_variable(x)
    if not hasattr(alpha, "type") and np.isscalar(alpha) and alpha == 0:
        return _rectifier(x)
    return _rectifier(x) - as_tensor_variable(_like(alpha, x)) * _rectifier(-x)


def elu(x: TensorLike, alpha: TensorLike = 1) -> TensorVariable:
    """Compute the exponential linear unit: x where x is positive, alpha * (exp(x) - 1) elsewhere.

    Clevert et al., 2015, arXiv:1511.07289.
    """
    x = as_tensor_variable(x)
    # Cast x first: otherwise the minimum for an integer x would be an integer variable, which has no derivative.
    below = minimum(cast(x, expm1(x).dtype), np.zeros((), x.dtype))
    return switch(x > 0, x, _like(alpha, x) * expm1(below))


def selu(x: TensorLike) -> TensorVariable:
    """Compute the scaled exponential linear unit. Its constants keep activations close to mean 0 and variance 1.

    Klambauer et al., 2017, arXiv:1706.02515.
    """
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    x = as_tensor_variable(x)
    return _like(scale, x) * elu(x, alpha)


class Prepend_scalar_constant_to_each_row(Op):
    """An Op that prepends a column to a matrix. Each element of the column is the same constant."""

    __props__ = ("value",)

    def __init__(self, val=0):
        if isinstance(val, (float, int)):
            val = scal.constant(float(val))
        self.val = val

    @property
    def value(self):
        """The number that is prepended to every row."""
        return float(self.val.data)

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.val)

    def make_node(self, mat):
        x = as_tensor_variable(mat)
        if not x.ndim == 2:
            raise TypeError("Expected a matrix, got %s" % x.type)
        return Apply(self, [x], [x.type.clone(broadcastable=(x.broadcastable[0], False))()])

    def perform(self, node, inp, out):
        (mat,) = inp
        result = np.empty((mat.shape[0], mat.shape[1] + 1), dtype=mat.dtype)
        result[:, 0] = self.val.data
        result[:, 1:] = mat
        out[0][0] = result

    def infer_shape(self, node, in_shapes):
        return [(in_shapes[0][0], in_shapes[0][1] + 1)]

    def grad(self, inp, grads):
        return [grads[0][:, 1:]]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [type(self)(0.0)(eval_points[0])]


class Prepend_scalar_to_each_row(Op):
    """An Op that prepends a column of equal elements to a matrix. Inputs: the element (0-d), and the matrix."""

    __props__ = ()

    def make_node(self, val, mat):
        x = as_tensor_variable(mat)
        val = scal.constant(float(val)) if isinstance(val, (float, int)) else val
        val = as_tensor_variable(val)
        if x.ndim != 2 or val.ndim != 0:
            raise TypeError("Expected a scalar and a matrix, got %s and %s" % (val.type, x.type))
        return Apply(self, [val, x], [x.type.clone(broadcastable=(x.broadcastable[0], False))()])

    def perform(self, node, inp, out):
        val, mat = inp
        result = np.empty((mat.shape[0], mat.shape[1] + 1), dtype=mat.dtype)
        result[:, 0] = val
        result[:, 1:] = mat
        out[0][0] = result

    def infer_shape(self, node, in_shapes):
        return [(in_shapes[1][0], in_shapes[1][1] + 1)]

    def grad(self, inp, grads):
        (g,) = grads
        return g[:, 0].sum(), g[:, 1:]

    def R_op(self, inputs, eval_points):
        if all(point is None for point in eval_points):
            return [None]
        return [self(*[i.zeros_like() if point is None else point for i, point in zip(inputs, eval_points)])]


prepend_scalar_to_each_row = Prepend_scalar_to_each_row()
prepend_0_to_each_row = Prepend_scalar_constant_to_each_row(0.0)
prepend_1_to_each_row = Prepend_scalar_constant_to_each_row(1.0)


def h_softmax(
    x: TensorLike,
    batch_size: IntLike,
    n_outputs: IntLike,
    n_classes: IntLike,
    n_outputs_per_class: IntLike,
    W1: TensorLike,
    b1: TensorLike,
    W2: TensorLike,
    b2: TensorLike,
    target: TensorLike | None = None,
) -> TensorVariable:
    """Compute a two-level softmax: first over classes of outputs, then over the outputs of each class.

    Parameters
    ----------
    x : (batch_size, features) tensor
    batch_size : int or scalar
    n_outputs, n_classes, n_outputs_per_class : int
        The numbers of outputs, of classes, and of outputs in each class. Each class contains consecutive outputs. If
        ``n_classes * n_outputs_per_class`` is greater than `n_outputs`, the surplus outputs are dropped.
    W1 : (features, n_classes) tensor
    b1 : (n_classes,) tensor
    W2 : (n_classes, features, n_outputs_per_class) tensor
    b2 : (n_classes, n_outputs_per_class) tensor
    target : (batch_size,) or (batch_size, 1) tensor of integers, optional
        If given, only the probabilities of these outputs are computed.

    Returns
    -------
    tensor
        A tensor with shape (batch_size, n_outputs), or (batch_size,) if `target` is given.

    References
    ----------
    J. Goodman, Classes for Fast Maximum Entropy Training, 2001, arXiv:cs/0108006.
    """
    x, W1, b1, W2, b2 = [as_tensor_variable(v) for v in (x, W1, b1, W2, b2)]
    class_probs = softmax(dot(x, W1) + b1)
    if target is None:
        activations = tensordot(x, W2, (1, 1)) + b2
        output_probs = softmax(activations.reshape((-1, n_outputs_per_class)))
        output_probs = output_probs.reshape((batch_size, n_classes, -1))
        output_probs = class_probs.dimshuffle(0, 1, "x") * output_probs
        return output_probs.reshape((batch_size, -1))[:, :n_outputs]
    target = as_tensor_variable(target).flatten()
    target_class, target_in_class = int_div(target, n_outputs_per_class), mod(target, n_outputs_per_class)
    # Each example uses one block of W2. `sparse_block_dot` reads the blocks in place, without a copy.
    dtype = upcast(x.dtype, W2.dtype, b2.dtype)
    block = target_class.dimshuffle(0, "x")
    activations = sparse_block_dot(
        cast(W2, dtype).dimshuffle("x", 0, 1, 2),
        cast(x, dtype).dimshuffle(0, "x", 1),
        block.zeros_like(),
        cast(b2, dtype),
        block,
    )[:, 0, :]
    target_probs = softmax(activations)
    rows = arange(batch_size)
    return class_probs[rows, target_class] * target_probs[rows, target_in_class]
