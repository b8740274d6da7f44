"""Search in sorted vectors, and conversions between flat indices and coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.type import generic
from theano_ng.tensor.constant import as_tensor_variable, get_vector_length
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.indexing.selecting import _broadcast_shape
from theano_ng.tensor.shaping.creation import _undefined_grads
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["SearchsortedOp", "searchsorted", "UnravelIndex", "unravel_index", "RavelMultiIndex", "ravel_multi_index"]


class SearchsortedOp(NativeOp, Op):
    """An Op that finds the positions at which elements would be inserted in a sorted vector.

    Inputs: the sorted vector, the elements, and optionally the int64 indices that sort the vector.

    Parameters
    ----------
    side : {'left', 'right'}
        See `searchsorted`.
    """

    __props__ = ("side",)
    params_type = generic
    check_input = False

    def __init__(self, side="left"):
        if side not in ("left", "right"):
            raise ValueError("side must be 'left' or 'right', got %r" % (side,))
        self.side = side

    def make_node(self, x, v, sorter=None):
        x, v = as_tensor_variable(x, ndim=1), as_tensor_variable(v)
        inputs = [x, v]
        if sorter is not None:
            sorter = as_tensor_variable(sorter)
            if sorter.ndim != 1 or sorter.dtype not in INTEGERS:
                kind = TypeError if sorter.ndim == 1 else ValueError
                raise kind("sorter must be an integer vector, got %s" % (sorter.type,))
            inputs.append(cast(sorter, "int64"))
        return Apply(self, inputs, [TensorType("int64", v.broadcastable)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.numpy_functions:searchsorted", right=self.side == "right")

    def get_params(self, node):
        """Return 'left' or 'right', the argument `params` of `perform`."""
        return self.side

    def perform(self, node, inputs, output_storage, params=None):
        x, v = inputs[:2]
        sorter = inputs[2] if len(inputs) == 3 else None
        output_storage[0][0] = np.asarray(np.searchsorted(x, v, side=self.side, sorter=sorter), dtype="int64")

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def connection_pattern(self, node):
        return [[True], [True], [False]][: len(node.inputs)]

    def grad(self, inputs, output_gradients):
        # The result is a step function, so its gradient is zero almost everywhere.
        grads = [
            x.zeros_like(dtype=config.floatX) if not x.dtype.startswith(("float", "complex")) else x.zeros_like()
            for x in inputs[:2]
        ]
        if len(inputs) == 3:
            grads.append(DisconnectedType()())
        return grads

    def R_op(self, inputs, eval_points):
        return [None]


def searchsorted(x: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> TensorVariable:
    """Return the positions at which the elements of `v` would be inserted to keep `x` sorted.

    Parameters
    ----------
    x : vector
        The vector must be sorted in increasing order, unless `sorter` is given.
    v : tensor_like
    side : {'left', 'right'}
        Whether to return the first ('left') or the last ('right') suitable position.
    sorter : integer vector, optional
        The indices that sort `x`.

    Returns
    -------
    TensorVariable
        An int64 tensor with the shape of `v`.

    Examples
    --------
    >>> searchsorted([1, 2, 3, 4, 5], 3).eval()
    array(2)
    >>> searchsorted([1, 2, 3, 4, 5], [-10, 10, 2, 3]).eval()
    array([0, 5, 1, 2])
    """
    op = SearchsortedOp(side=side)
    return op(x, v) if sorter is None else op(x, v, sorter)


def _check_order(op, order):
    if order not in ("C", "F"):
        raise ValueError("%s: order must be 'C' or 'F', got %r" % (type(op).__name__, order))


def _integers(op, x, what):
    x = as_tensor_variable(x)
    if x.dtype not in INTEGERS:
        raise TypeError("%s: %s must be integers, got %s" % (type(op).__name__, what, x.type))
    return x


class UnravelIndex(NativeOp, Op):
    """An Op that converts flat indices to coordinates. The inputs are the indices and the lengths of the axes.

    Parameters
    ----------
    ndim : int
        The number of axes.
    order : {'C', 'F'}
        See `unravel_index`.
    """

    __props__ = ("ndim", "order")

    def __init__(self, ndim, order="C"):
        _check_order(self, order)
        self.ndim = int(ndim)
        self.order = order

    def make_node(self, indices, dims):
        indices = _integers(self, indices, "indices")
        dims = _integers(self, dims, "dims")
        if dims.ndim != 1:
            raise TypeError("UnravelIndex: dims must be a vector, got %s" % (dims.type,))
        return Apply(self, [indices, dims], [TensorType("int64", indices.broadcastable)() for _ in range(self.ndim)])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.rearrange:unravel_index", fortran=self.order == "F")

    def perform(self, node, inp, out):
        indices, dims = inp
        if len(dims) != self.ndim:
            raise ValueError("unravel_index: dims has %d elements, expected %d" % (len(dims), self.ndim))
        found = np.unravel_index(indices, tuple(int(n) for n in dims), order=self.order)
        for cell, value in zip(out, found):
            # Copy the values, because NumPy returns read-only views of one array.
            cell[0] = np.array(value, dtype="int64")

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]] * self.ndim

    def grad(self, inputs, output_grads):
        return _undefined_grads(self, inputs, "the inputs are integers")

    def R_op(self, inputs, eval_points):
        return [None] * self.ndim


def unravel_index(
    indices: TensorLike, dims: ShapeLike, order: str = "C", ndim: int | None = None
) -> tuple[TensorVariable, ...]:
    """Convert flat indices to a tuple of coordinates.

    Parameters
    ----------
    indices : integer tensor_like
    dims : tuple of int, or integer vector
        The lengths of the axes.
    order : {'C', 'F'}
        The axis that varies fastest: the last axis for 'C', the first axis for 'F'.
    ndim : int, optional
        The length of `dims`. It is required if it is not known while the graph is built.

    Returns
    -------
    tuple of TensorVariable
        int64 tensors with the shape of `indices`.

    See Also
    --------
    ravel_multi_index : the inverse
    """
    dims = as_tensor_variable(dims)
    if ndim is None:
        try:
            ndim = get_vector_length(dims)
        except ValueError:
            raise ValueError(
                "The length of the provided dimension list (%s) cannot be "
                "automatically determined, so Theano is not able to know what "
                "the number of dimensions of the unraveled index will be. You "
                "can provide the 'ndim' keyword argument to 'unravel_index' "
                "to avoid this problem." % (dims,)
            ) from None
    found = UnravelIndex(ndim=ndim, order=order)(indices, dims)
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


class RavelMultiIndex(NativeOp, Op):
    """An Op that converts coordinates to flat indices. The inputs are the coordinates and the lengths of the axes.

    Parameters
    ----------
    mode : {'raise', 'wrap', 'clip'} or tuple of these
    order : {'C', 'F'}
        See `ravel_multi_index`.
    """

    __props__ = ("mode", "order")

    def __init__(self, mode="raise", order="C"):
        modes = tuple(mode) if isinstance(mode, (list, tuple)) else (mode,)
        if any(m not in ("raise", "wrap", "clip") for m in modes):
            raise ValueError(
                "ravel_multi_index: mode must be 'raise', 'wrap' or 'clip', or a tuple of these, got %r" % (mode,)
            )
        _check_order(self, order)
        self.mode = mode if isinstance(mode, str) else modes
        self.order = order

    def make_node(self, *inp):
        coordinates = [_integers(self, x, "the indices") for x in inp[:-1]]
        dims = _integers(self, inp[-1], "dims")
        if dims.ndim != 1:
            raise TypeError("RavelMultiIndex: dims must be a vector, got %s" % (dims.type,))
        if not coordinates:
            raise ValueError("ravel_multi_index: at least one index must be given")
        if not isinstance(self.mode, str) and len(self.mode) != len(coordinates):
            raise ValueError(
                "ravel_multi_index: got %d mode(s) for %d coordinates; expected one for each, or one for all"
                % (len(self.mode), len(coordinates))
            )
        ndim = max(x.ndim for x in coordinates)
        flags = [all(x.broadcastable[i - ndim] for x in coordinates if x.ndim >= ndim - i) for i in range(ndim)]
        return Apply(self, coordinates + [dims], [TensorType("int64", flags)()])

    def native_code(self, node):
        modes = self.mode if isinstance(self.mode, tuple) else (self.mode,) * (len(node.inputs) - 1)
        numbers = {"raise": 0, "wrap": 1, "clip": 2}
        return NativeCode(
            "theano_ng.tensor.native.rearrange:ravel_multi_index",
            fortran=self.order == "F",
            modes=[numbers[mode] for mode in modes],
        )

    def perform(self, node, inp, out):
        coordinates, dims = inp[:-1], inp[-1]
        out[0][0] = np.asarray(
            np.ravel_multi_index(tuple(coordinates), tuple(int(n) for n in dims), self.mode, self.order), dtype="int64"
        )

    def infer_shape(self, node, input_shapes):
        return [_broadcast_shape([(shape, x.broadcastable) for shape, x in zip(input_shapes[:-1], node.inputs[:-1])])]

    def grad(self, inputs, output_grads):
        return _undefined_grads(self, inputs, "the inputs are integers")

    def R_op(self, inputs, eval_points):
        return [None]


def ravel_multi_index(
    multi_index: Sequence[TensorLike], dims: ShapeLike, mode: str = "raise", order: str = "C"
) -> TensorVariable:
    """Convert a tuple of coordinates to flat indices.

    Parameters
    ----------
    multi_index : tuple of integer tensor_like
        The coordinates along each axis.
    dims : tuple of int, or integer vector
        The lengths of the axes.
    mode : {'raise', 'wrap', 'clip'} or tuple of these
        The treatment of an index that is out of range. 'raise': an error; 'wrap': the index modulo the length; 'clip':
        the nearest valid index. A tuple contains a mode for each axis.
    order : {'C', 'F'}
        The axis that varies fastest: the last axis for 'C', the first axis for 'F'.

    Returns
    -------
    TensorVariable
        An int64 tensor with the shape of the indices.

    See Also
    --------
    unravel_index : the inverse
    """
    if not isinstance(multi_index, (tuple, list)):
        raise TypeError("multi_index must be a tuple or a list, got %s" % type(multi_index))
    return RavelMultiIndex(mode=mode, order=order)(*list(multi_index) + [dims])
