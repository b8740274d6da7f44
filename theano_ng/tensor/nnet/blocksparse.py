"""Products with selected blocks of a matrix, for layers that compute only some blocks of their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.elemwise.functions import cast

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "SparseBlockGemv",
    "SparseBlockOuter",
    "sparse_block_dot",
    "sparse_block_gemv",
    "sparse_block_gemv_inplace",
    "sparse_block_outer",
    "sparse_block_outer_inplace",
]

register_loader("theano_ng.tensor.nnet.opt_blocksparse")


def _check_ndim(value, ndim, what):
    value = as_tensor_variable(value)
    if value.ndim != ndim:
        raise TypeError("The %s must be a %dD tensor, got %s" % (what, ndim, value.type))
    return value


def _check_indices(value, what):
    value = _check_ndim(value, 2, what)
    if value.dtype not in INTEGERS:
        raise TypeError("The %s must be integers, got %s" % (what, value.type))
    return value


def _check_length(op, name, axis, got, expected):
    if got != expected:
        raise ValueError(
            "%s: %s has length %d along axis %d, expected %d" % (type(op).__name__, name, got, axis, expected)
        )


def _check_range(op, name, indices, shape, n):
    """Raise ValueError if the shape of `indices` is not `shape`, and IndexError if an index is invalid for `n` blocks.

    The message contains `name`, the name of the argument.
    """
    who = type(op).__name__
    if indices.shape != shape:
        raise ValueError("%s: %s has shape %s, expected %s" % (who, name, indices.shape, shape))
    wrong = (indices < -n) | (indices >= n)
    if wrong.any():
        raise IndexError("%s: in %s, index %d is out of bounds for %d blocks" % (who, name, indices[wrong].flat[0], n))


def _of_floats(inputs, grads):
    """Return the gradients. Replace the gradients with respect to integer inputs by zeros."""
    return [i.zeros_like(dtype=config.floatX) if i.dtype in DISCRETE else g for i, g in zip(inputs, grads)]


class _Blocks(NativeOp, Op):
    """The base class of Ops that add products to their first input.

    Parameters
    ----------
    inplace : bool
        Whether the first input is overwritten.
    """

    __props__ = ("inplace",)
    function: str | None = None

    def __init__(self, inplace=False):
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [0]}

    def native_code(self, node):
        dtypes = {node.inputs[i].dtype for i in range(3)}
        if len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
            return None
        return NativeCode("theano_ng.tensor.native.blocksparse:" + self.function, in_place=bool(self.inplace))

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]]

    def _target(self, o):
        return o if self.inplace else np.array(o, order="C")


class SparseBlockGemv(_Blocks):
    """An Op that adds products of vectors and selected blocks of a matrix to its first input.

    In NumPy::

        for b in range(batch):
            for j in range(oWin):
                for i in range(iWin):
                    o[b, j, :] += numpy.dot(h[b, i], W[inputIdx[b, i], outputIdx[b, j]])

    Parameters
    ----------
    inplace : bool
        Whether `o` is overwritten.
    """

    function = "gemv"

    def make_node(self, o, W, h, inputIdx, outputIdx):
        """Return a node of this Op.

        Parameters
        ----------
        o : (batch, oWin, oSize) tensor
            The tensor to which the products are added.
        W : (iBlocks, oBlocks, iSize, oSize) tensor
            The blocks of the matrix.
        h : (batch, iWin, iSize) tensor
            The vectors.
        inputIdx : (batch, iWin) tensor of integers
            For each vector in `h`, the index of the block of rows of the matrix by which the vector is multiplied.
        outputIdx : (batch, oWin) tensor of integers
            The indices of the blocks of columns to compute.

        Returns
        -------
        Apply
            A node whose output has the type of `o`.

        Raises
        ------
        TypeError
            If an input does not have the rank given above, or if the indices are not integers.
        """
        o = _check_ndim(o, 3, "output o")
        W = _check_ndim(W, 4, "weight matrix W")
        h = _check_ndim(h, 3, "input h")
        inputIdx = _check_indices(inputIdx, "input indices inputIdx")
        outputIdx = _check_indices(outputIdx, "output indices outputIdx")
        return Apply(self, [o, W, h, inputIdx, outputIdx], [o.type()])

    def perform(self, node, inp, out_):
        o, W, h, inputs, outputs = inp
        _check_length(self, "h", 0, h.shape[0], o.shape[0])
        _check_length(self, "h", 2, h.shape[2], W.shape[2])
        _check_length(self, "o", 2, o.shape[2], W.shape[3])
        _check_range(self, "inputIdx", inputs, h.shape[:2], W.shape[0])
        _check_range(self, "outputIdx", outputs, o.shape[:2], W.shape[1])
        o = self._target(o)
        for b in range(o.shape[0]):
            for j in range(o.shape[1]):
                for i in range(h.shape[1]):
                    o[b, j, :] += np.dot(h[b, i], W[inputs[b, i], outputs[b, j]])
        out_[0][0] = o

    def grad(self, inputs, grads):
        o, W, h, inputIdx, outputIdx = inputs
        (go,) = grads
        of_W = sparse_block_outer(W.zeros_like(), h, go, inputIdx, outputIdx)
        of_h = sparse_block_gemv(h.zeros_like(), W.dimshuffle(1, 0, 3, 2), go, outputIdx, inputIdx)
        return [
            *_of_floats((o, W, h), (go, of_W, of_h)),
            grad_undefined(self, 3, inputIdx, "the gradient with respect to inputIdx is not defined"),
            grad_undefined(self, 4, outputIdx, "the gradient with respect to outputIdx is not defined"),
        ]

    def R_op(self, inputs, eval_points):
        o, W, h, inputIdx, outputIdx = inputs
        do, dW, dh = eval_points[:3]
        if do is None and dW is None and dh is None:
            return [None]
        found = o.zeros_like() if do is None else do
        if dW is not None:
            found = sparse_block_gemv(found, dW, h, inputIdx, outputIdx)
        if dh is not None:
            found = sparse_block_gemv(found, W, dh, inputIdx, outputIdx)
        return [found]


class SparseBlockOuter(_Blocks):
    """An Op that adds outer products to blocks of a matrix, as in the gradient of :class:`SparseBlockGemv`.

    In NumPy::

        for b in range(batch):
            for i in range(xWin):
                for j in range(yWin):
                    o[xIdx[b, i], yIdx[b, j]] += alpha * outer(x[b, i], y[b, j])

    Parameters
    ----------
    inplace : bool
        Whether `o` is overwritten.
    """

    function = "outer"

    def make_node(self, o, x, y, xIdx, yIdx, alpha=None):
        """Return a node of this Op.

        Parameters
        ----------
        o : (xBlocks, yBlocks, xSize, ySize) tensor
            The blocks of the matrix to which the products are added.
        x : (batch, xWin, xSize) tensor
            The first factors of the outer products.
        y : (batch, yWin, ySize) tensor
            The second factors of the outer products.
        xIdx : (batch, xWin) tensor of integers
            For each vector in `x`, the first index of the blocks to which its products are added.
        yIdx : (batch, yWin) tensor of integers
            For each vector in `y`, the second index of the blocks to which its products are added.
        alpha : scalar, optional
            The factor of the products. The default is 1.

        Returns
        -------
        Apply
            A node whose output has the type of `o`.

        Raises
        ------
        TypeError
            If an input does not have the rank given above, or if the indices are not integers.
        """
        o = _check_ndim(o, 4, "output o")
        x, y = _check_ndim(x, 3, "vectors x"), _check_ndim(y, 3, "vectors y")
        xIdx, yIdx = _check_indices(xIdx, "indices xIdx"), _check_indices(yIdx, "indices yIdx")
        alpha = _check_ndim(np.float32(1) if alpha is None else alpha, 0, "factor alpha")
        return Apply(self, [o, x, y, xIdx, yIdx, alpha], [o.type()])

    def native_code(self, node):
        return None if node.inputs[5].dtype.startswith("complex") else super().native_code(node)

    def perform(self, node, inp, out_):
        o, x, y, xIdx, yIdx, alpha = inp
        _check_length(self, "y", 0, y.shape[0], x.shape[0])
        _check_length(self, "x", 2, x.shape[2], o.shape[2])
        _check_length(self, "y", 2, y.shape[2], o.shape[3])
        _check_range(self, "xIdx", xIdx, x.shape[:2], o.shape[0])
        _check_range(self, "yIdx", yIdx, y.shape[:2], o.shape[1])
        o = self._target(o)
        for b in range(x.shape[0]):
            for i in range(x.shape[1]):
                for j in range(y.shape[1]):
                    o[xIdx[b, i], yIdx[b, j]] += alpha * np.outer(x[b, i], y[b, j])
        out_[0][0] = o

    def grad(self, inputs, grads):
        o, x, y, xIdx, yIdx, alpha = inputs
        (go,) = grads
        weight = cast(alpha, go.dtype)
        of_alpha = (go * sparse_block_outer(go.zeros_like(), x, y, xIdx, yIdx)).sum()
        of_x = sparse_block_gemv(x.zeros_like(), go.dimshuffle(1, 0, 3, 2), y * weight, yIdx, xIdx)
        of_y = sparse_block_gemv(y.zeros_like(), go, x * weight, xIdx, yIdx)
        return [
            *_of_floats((o, x, y), (go, of_x, of_y)),
            grad_undefined(self, 3, xIdx, "the gradient with respect to xIdx is not defined"),
            grad_undefined(self, 4, yIdx, "the gradient with respect to yIdx is not defined"),
            DisconnectedType()() if alpha.dtype in DISCRETE else cast(of_alpha, alpha.dtype),
        ]

    def connection_pattern(self, node):
        return [[True]] * 5 + [[node.inputs[5].dtype not in DISCRETE]]

    def R_op(self, inputs, eval_points):
        o, x, y, xIdx, yIdx, alpha = inputs
        do, dx, dy, _, _, dalpha = eval_points
        if all(point is None for point in (do, dx, dy, dalpha)):
            return [None]
        found = o.zeros_like() if do is None else do
        for left, right, weight in ((dx, y, alpha), (x, dy, alpha), (x, y, dalpha)):
            if left is not None and right is not None and weight is not None:
                found = sparse_block_outer(found, left, right, xIdx, yIdx, weight)
        return [found]


sparse_block_gemv = SparseBlockGemv(False)
sparse_block_gemv_inplace = SparseBlockGemv(True)
sparse_block_outer = SparseBlockOuter(False)
sparse_block_outer_inplace = SparseBlockOuter(True)


def sparse_block_dot(
    W: TensorLike, h: TensorLike, inputIdx: TensorLike, b: TensorLike, outputIdx: TensorLike
) -> TensorVariable:
    """Multiply vectors by selected blocks of a matrix, and add a bias. See :class:`SparseBlockGemv`.

    Parameters
    ----------
    W : (iBlocks, oBlocks, iSize, oSize) tensor
        The blocks of the matrix.
    h : (batch, iWin, iSize) tensor
        The vectors. For a batch of one, the batch axis may be omitted in `h`, `inputIdx` and `outputIdx`.
    inputIdx : (batch, iWin) tensor of integers
        For each vector in `h`, the index of the block of rows of the matrix by which the vector is multiplied.
    b : (oBlocks, oSize) tensor
        The bias, which is added once to each block that is computed.
    outputIdx : (batch, oWin) tensor of integers
        The indices of the blocks of columns to compute.

    Returns
    -------
    (batch, oWin, oSize) tensor
        ``sum(dot(h[b, i], W[inputIdx[b, i], outputIdx[b, j]]) for i) + b[outputIdx[b, j]]``.

    Raises
    ------
    TypeError
        If an input does not have the rank given above, or if the indices are not integers.
    """
    h, inputIdx, b, outputIdx = (as_tensor_variable(v) for v in (h, inputIdx, b, outputIdx))
    if (h.ndim, inputIdx.ndim, outputIdx.ndim) == (2, 1, 1):
        h, inputIdx, outputIdx = h.dimshuffle("x", 0, 1), inputIdx.dimshuffle("x", 0), outputIdx.dimshuffle("x", 0)
    if (h.ndim, inputIdx.ndim, outputIdx.ndim) != (3, 2, 2):
        raise TypeError(
            "sparse_block_dot: h and the indices must have 3, 2 and 2 dimensions, or 2, 1 and 1 for a batch of one;"
            " got %s, %s and %s" % (h.type, inputIdx.type, outputIdx.type)
        )
    _check_indices(outputIdx, "output indices outputIdx")
    return sparse_block_gemv(b.take(outputIdx, axis=0), W, h, inputIdx, outputIdx)
