"""Softmax over the rows of a matrix, its logarithm and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import exp
from theano_ng.tensor.logarithms import Logarithm, log_of_op
from theano_ng.tensor.nnet.row_op import RowOp, float_matrix
from theano_ng.tensor.shaping.broadcasting import with_pattern

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable


def _softmax(x):
    """Return the softmax of each row of a NumPy matrix, in the dtype of the matrix."""
    e = np.exp(x - x.max(axis=1, keepdims=True)) if x.shape[1] else x.copy()
    return np.asarray(e / e.sum(axis=1, keepdims=True), dtype=x.dtype, order="C")


class Softmax(RowOp):
    r"""Softmax of every row: :math:`\varphi(\mathbf{x})_j = e^{x_j} / \sum_k e^{x_k}`.

    It is computed as exp(x - max) / sum, so that large inputs do not overflow. A vector counts as a matrix with one
    row.
    """

    nin, nout = 1, 1
    function = "softmax"
    keeps_shape = True  # The output has the shape of the input. `scan.array_nodes` reads this attribute.

    def fails_on_values(self, node):
        return False

    def make_node(self, x):
        x = float_matrix("Softmax", x, vector_is_row=True)
        return Apply(self, [x], [x.type()])

    def perform(self, node, input_storage, output_storage):
        output_storage[0][0] = _softmax(input_storage[0])

    def L_op(self, inp, outputs, grads):
        (g_sm,) = grads
        return [softmax_grad(g_sm, outputs[0])]

    def R_op(self, inputs, eval_points):
        # The Jacobian is symmetric, so `L_op` also computes the directional derivative.
        if eval_points[0] is None:
            return [None]
        return self.L_op(inputs, [self(*inputs)], eval_points)

    def infer_shape(self, node, shape):
        return shape


softmax_op = Softmax()


def summed_rows(dx, b):
    """Return the gradient of a vector b, of the type of b, from the gradient of x + b: the sum of its rows."""
    return with_pattern(dx.sum(axis=0).astype(b.type.dtype), b)


class SoftmaxWithBias(RowOp):
    """Softmax of every row of a sum: softmax(x + b), where the vector b is added to every row of the matrix x."""

    nin, nout = 2, 1
    function = "softmax"

    def fails_on_values(self, node):
        return False

    def make_node(self, x, b):
        x, b = float_matrix("SoftmaxWithBias", x), as_tensor_variable(b)
        if b.type.ndim != 1 or not b.type.dtype.startswith("float"):
            raise ValueError("SoftmaxWithBias: b must be 1-d tensor of floats. Got %s" % b.type)
        return Apply(self, [x, b], [x.type()])

    def perform(self, node, input_storage, output_storage):
        x, b = input_storage
        if b.shape[0] != x.shape[1]:
            raise ValueError("b must have same number of columns as x")
        output_storage[0][0] = _softmax((x + b).astype(x.dtype, copy=False))

    def L_op(self, inp, outputs, grads):
        (g_sm,) = grads
        if isinstance(g_sm.type, DisconnectedType):
            return [DisconnectedType()(), DisconnectedType()()]
        dx = softmax_grad(g_sm, outputs[0])
        return dx, summed_rows(dx, inp[1])

    def R_op(self, inputs, eval_points):
        dx, db = eval_points
        if dx is None and db is None:
            return [None]
        direction = db if dx is None else dx if db is None else dx + db
        if direction.ndim == 1:
            direction = direction + inputs[0].zeros_like()
        return [softmax_grad(direction, self(*inputs))]

    def infer_shape(self, node, shape):
        return [shape[0]]


softmax_with_bias = SoftmaxWithBias()


class SoftmaxGrad(RowOp):
    """Gradient of softmax: (dy - sum(dy * sm)) * sm for each row.

    Inputs: dy, the gradient with respect to the softmax, and sm, the softmax. Both are matrices of the same shape.
    """

    nin, nout = 2, 1
    function = "softmax_grad"

    def fails_on_values(self, node):
        return False

    def make_node(self, dy, sm):
        dy, sm = float_matrix("SoftmaxGrad", dy, "dy", True), float_matrix("SoftmaxGrad", sm, "sm", True)
        return Apply(self, [dy, sm], [sm.type()])

    def perform(self, node, input_storage, output_storage):
        dy, sm = input_storage
        if dy.shape != sm.shape:
            raise ValueError("dy and sm must have the same shape")
        output_storage[0][0] = np.asarray((dy - (dy * sm).sum(axis=1, keepdims=True)) * sm, dtype=sm.dtype, order="C")

    def grad(self, inp, grads):
        dy, sm = inp
        (g,) = grads
        dot = (g * sm).sum(axis=1, keepdims=True)
        g_dy = g * sm - sm * dot
        g_sm = g * dy - g * (dy * sm).sum(axis=1, keepdims=True) - dy * dot
        return g_dy, g_sm

    def R_op(self, inputs, eval_points):
        dy, sm = inputs
        ddy, dsm = eval_points
        terms = []
        if ddy is not None:
            terms.append(self(ddy, sm))
        if dsm is not None:
            terms.append((dy - (dy * sm).sum(axis=1, keepdims=True)) * dsm - (dy * dsm).sum(axis=1, keepdims=True) * sm)
        return [None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]]

    def infer_shape(self, node, shape):
        return [shape[1]]


softmax_grad = SoftmaxGrad()


class LogSoftmax(RowOp):
    """Logarithm of softmax, computed without softmax itself: x - max - log(sum(exp(x - max)))."""

    nin, nout = 1, 1
    function = "log_softmax"
    keeps_shape = True

    def fails_on_values(self, node):
        return False

    def make_node(self, x):
        x = float_matrix("LogSoftmax", x, vector_is_row=True)
        return Apply(self, [x], [x.type()])

    def perform(self, node, input_storage, output_storage):
        (x,) = input_storage
        shifted = x - x.max(axis=1, keepdims=True) if x.shape[1] else x.copy()
        output_storage[0][0] = np.asarray(
            shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), dtype=x.dtype, order="C"
        )

    def grad(self, inp, grads):
        (x,) = inp
        (g,) = grads
        return [g - g.sum(axis=1, keepdims=True) * softmax_op(x)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        (direction,) = eval_points
        return [direction - (direction * softmax_op(inputs[0])).sum(axis=1, keepdims=True)]

    def infer_shape(self, node, shape):
        return shape


logsoftmax_op = LogSoftmax()


def _gradient_of_logarithm(node, c):
    """Return the gradients with respect to the inputs of a softmax node.

    `c` is the gradient with respect to the logarithm of the softmax.
    """
    (sm,) = node.outputs
    dx = c - sm * c.sum(axis=1, keepdims=True)
    return [dx] if node.op == softmax_op else [dx, summed_rows(dx, node.inputs[1])]


log_of_op[softmax_op] = Logarithm(lambda node: logsoftmax_op(*node.inputs), _gradient_of_logarithm)
log_of_op[softmax_with_bias] = Logarithm(
    lambda node: logsoftmax_op(node.inputs[0] + node.inputs[1].dimshuffle("x", 0)), _gradient_of_logarithm
)


def softmax(c: TensorLike) -> TensorVariable:
    """Return the softmax of every row of a matrix. A vector counts as a matrix with one row.

    Parameters
    ----------
    c : (m, n) or (n,) tensor of floats

    Returns
    -------
    (m, n) or (1, n) tensor of the same dtype
    """
    c = as_tensor_variable(c)
    if c.broadcastable and c.broadcastable[-1]:
        import warnings

        warnings.warn(
            "The softmax is applied on a dimension of shape 1, which does not have a semantic meaning.", stacklevel=2
        )
    return softmax_op(c)


def logsoftmax(c: TensorLike) -> TensorVariable:
    """Return the logarithm of `softmax`. It is accurate even if softmax underflows."""
    return logsoftmax_op(c)


def softmax_graph(c: TensorLike) -> TensorVariable:
    """Return the softmax of every row, as a graph of elementary operations."""
    return exp(c) / exp(c).sum(axis=-1, keepdims=True)
