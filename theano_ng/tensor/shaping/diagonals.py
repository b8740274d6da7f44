"""Ops that extract diagonals, and that make tensors from diagonals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import maximum, minimum
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.creation import zeros_like
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["AllocDiag", "ExtractDiag", "diag", "diagonal", "numpy_diagonal_return_view"]

# This is True because `diagonal` returns a view in all supported versions of NumPy.
numpy_diagonal_return_view = True


def _limited(offset):
    """Clip the offset of a diagonal to +-2**62, which fits into int64. No array has diagonals beyond this range."""
    return min(max(offset, -(2**62)), 2**62)


class ExtractDiag(NativeOp, Op):
    """An Op that extracts a diagonal of each plane of a tensor.

    Parameters
    ----------
    offset : int
        The offset of the diagonal: positive above the main diagonal, negative below.
    axis1, axis2 : int
        The two axes that span each plane. The last axis of the result is along the diagonals.
    view : bool
        Whether to return a view of the input instead of a copy.
    """

    __props__ = ("offset", "axis1", "axis2", "view")

    def __init__(self, offset=0, axis1=0, axis2=1, view=False):
        self.view = view
        if view:
            self.view_map = {0: [0]}
        self.offset = int(offset)
        self.axis1, self.axis2 = int(axis1), int(axis2)

    def _axes(self, ndim):
        axis1, axis2 = self.axis1 % ndim, self.axis2 % ndim
        if not (-ndim <= self.axis1 < ndim and -ndim <= self.axis2 < ndim):
            raise ValueError(
                "ExtractDiag: axes %d and %d are out of range for %d dimensions" % (self.axis1, self.axis2, ndim)
            )
        if axis1 == axis2:
            raise ValueError("ExtractDiag: axis1 and axis2 must differ, both are %d" % self.axis1)
        return axis1, axis2

    def make_node(self, x):
        x = as_tensor_variable(x)
        if x.ndim < 2:
            raise ValueError("ExtractDiag needs an input with 2 or more dimensions, not %s" % (x.type,))
        axes = self._axes(x.ndim)
        kept = [b for i, b in enumerate(x.broadcastable) if i not in axes]
        return Apply(self, [x], [TensorType(x.dtype, kept + [False])()])

    def native_code(self, node):
        axis1, axis2 = self._axes(node.inputs[0].ndim)
        return NativeCode(
            "theano_ng.tensor.native.creation:extract_diag",
            offset=_limited(self.offset),
            axis1=axis1,
            axis2=axis2,
            view=bool(self.view),
        )

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        # Clip the offset, because NumPy accepts only 32-bit offsets.
        offset = min(max(self.offset, -x.shape[self.axis1]), x.shape[self.axis2])
        diagonal = x.diagonal(offset, self.axis1, self.axis2)
        if self.view:
            # NumPy's view is read-only for historical reasons. Make the view writeable, like `x`. This is safe, because
            # only Ops with a destroy map write to their inputs.
            if x.flags.writeable:
                diagonal.flags.writeable = True
        else:
            diagonal = diagonal.copy()
        outputs[0][0] = diagonal

    def grad(self, inputs, gout):
        (x,) = inputs
        (gz,) = gout
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX)]
        axis1, axis2 = self._axes(x.ndim)
        # AllocDiag makes square planes, which may be larger or smaller than the planes of x. Copy only the part of the
        # square planes that fits. It contains the whole diagonal.
        planes = AllocDiag(self.offset, axis1, axis2)(gz)
        fit, place = [slice(None)] * x.ndim, [slice(None)] * x.ndim
        for axis in (axis1, axis2):
            fit[axis] = slice(None, x.shape[axis])
            place[axis] = slice(None, planes.shape[axis])
        return [set_subtensor(zeros_like(x, dtype=gz.dtype)[tuple(place)], planes[tuple(fit)])]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0])]

    def infer_shape(self, node, shapes):
        (shape,) = shapes
        axis1, axis2 = self._axes(len(shape))
        rows, columns = shape[axis1], shape[axis2]
        offset = _limited(self.offset)
        if offset > 0:
            columns = columns - offset
        elif offset < 0:
            rows = rows + offset
        length = maximum(minimum(rows, columns), 0)
        kept = tuple(n for i, n in enumerate(shape) if i not in (axis1, axis2))
        return [kept + (length,)]

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.view:
            self.view_map = {0: [0]}


class AllocDiag(NativeOp, Op):
    """An Op that makes a tensor that contains its input on a diagonal of each plane, and zeros elsewhere.

    Parameters
    ----------
    offset : int
        The offset of the diagonal that contains the last axis of the input.
    axis1, axis2 : int
        The two axes of the result that span each plane.
    """

    __props__ = ("offset", "axis1", "axis2")

    def __init__(self, offset=0, axis1=0, axis2=1):
        self.offset = int(offset)
        self.axis1, self.axis2 = int(axis1), int(axis2)

    def _axes(self, ndim):
        return ExtractDiag(self.offset, self.axis1, self.axis2)._axes(ndim)

    def _order(self, ndim):
        """Return the permutation of axes that moves the last two axes to the positions `axis1` and `axis2`."""
        axis1, axis2 = self._axes(ndim)
        kept = iter(range(ndim - 2))
        return [ndim - 2 if i == axis1 else ndim - 1 if i == axis2 else next(kept) for i in range(ndim)]

    def make_node(self, diag):
        diag = as_tensor_variable(diag)
        if diag.ndim < 1:
            raise ValueError("AllocDiag needs an input with 1 or more dimensions, not %s" % (diag.type,))
        flags = list(diag.broadcastable[:-1]) + [False, False]
        return Apply(self, [diag], [TensorType(diag.dtype, [flags[i] for i in self._order(diag.ndim + 1)])()])

    def native_code(self, node):
        axis1, axis2 = self._axes(node.outputs[0].ndim)
        return NativeCode(
            "theano_ng.tensor.native.creation:alloc_diag", offset=_limited(self.offset), axis1=axis1, axis2=axis2
        )

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        offset = _limited(self.offset)
        side = x.shape[-1] + abs(offset)
        result = np.zeros(x.shape[:-1] + (side, side), dtype=x.dtype)
        index = np.arange(x.shape[-1])
        result[..., index + max(0, -offset), index + max(0, offset)] = x
        outputs[0][0] = np.ascontiguousarray(result.transpose(self._order(result.ndim)))

    def grad(self, inputs, gout):
        (gz,) = gout
        if inputs[0].dtype in DISCRETE:
            return [inputs[0].zeros_like(dtype=config.floatX)]
        return [diagonal(gz, self.offset, self.axis1, self.axis2)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0])]

    def infer_shape(self, nodes, shapes):
        (shape,) = shapes
        side = shape[-1] + abs(_limited(self.offset))
        whole = tuple(shape[:-1]) + (side, side)
        return [tuple(whole[i] for i in self._order(len(whole)))]


def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorVariable:
    """Return a diagonal of each plane of `a`, as `numpy.diagonal`, but as a copy.

    Parameters
    ----------
    a : tensor_like of 2 or more dimensions
    offset : int
    axis1, axis2 : int

    Returns
    -------
    TensorVariable
        A tensor with one dimension less than `a`. The diagonals are along the last axis.
    """
    return ExtractDiag(offset, axis1, axis2)(a)


def diag(v: TensorLike, k: int = 0) -> TensorVariable:
    """Return the k-th diagonal of a tensor, or a matrix with the vector `v` on its k-th diagonal.

    Parameters
    ----------
    v : tensor_like
        A vector, or a tensor of at least two dimensions. For such a tensor, the result contains the k-th diagonals of
        the planes along its first two axes.
    k : int
        The offset of the diagonal: positive above the main diagonal, negative below.

    Raises
    ------
    ValueError
        If `v` is 0-d.
    """
    v = as_tensor_variable(v)
    if v.ndim == 1:
        return AllocDiag(k)(v)
    if v.ndim >= 2:
        return diagonal(v, offset=k)
    raise ValueError("diag: the input must have 1 or more dimensions, not 0")
