"""Ops that select elements: `nonzero` and related functions, `choose`, `default`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast, eq, real, switch
from theano_ng.tensor.indexing.index_lists import within
from theano_ng.tensor.shaping.allocation import sum_over_repeated
from theano_ng.tensor.shaping.creation import arange
from theano_ng.tensor.shaping.joining import stack
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "Nonzero",
    "_nonzero",
    "nonzero",
    "flatnonzero",
    "nonzero_values",
    "Choose",
    "choose",
    "Default",
    "default",
    "setdefault",
]


class Nonzero(NativeOp, Op):
    """An Op that returns the indices of the nonzero elements: one int64 vector per dimension.

    In a graph that was pickled by Theano, the node has a single output: a matrix with these vectors as its rows.
    """

    __props__ = ()

    def make_node(self, a):
        a = as_tensor_variable(a)
        if a.ndim == 0:
            raise ValueError("Nonzero only supports non-scalar arrays.")
        return Apply(self, [a], [TensorType("int64", (False,))() for _ in range(a.ndim)])

    def native_code(self, node):
        if node.outputs[0].ndim == 2:
            return None
        return NativeCode("theano_ng.tensor.native.selecting:nonzero")

    def perform(self, node, inp, out_):
        if node.outputs[0].ndim == 2:
            out_[0][0] = np.array(np.nonzero(inp[0]), dtype="int64")
            return
        for cell, indices in zip(out_, np.nonzero(inp[0])):
            cell[0] = indices.astype("int64")

    def grad(self, inp, grads):
        return [grad_undefined(self, 0, inp[0], "indices do not vary smoothly")]

    def R_op(self, inputs, eval_points):
        return [None] * inputs[0].ndim


_nonzero = Nonzero()


def nonzero(a: TensorLike, return_matrix: bool = False) -> Any:
    """Return the indices of the nonzero elements.

    Parameters
    ----------
    a : tensor_like of 1 or more dimensions
    return_matrix : bool
        Whether to return one matrix, with a row for each dimension of `a`.

    Returns
    -------
    tuple of int64 vectors, or int64 matrix
        The result can be used as an index: ``a[nonzero(a)]``.
    """
    found = _nonzero(a)
    found = tuple(found) if isinstance(found, (list, tuple)) else (found,)
    if not return_matrix:
        return found
    if len(found) == 1:
        return found[0].dimshuffle("x", 0)
    return stack(list(found), axis=0)


def flatnonzero(a: TensorLike) -> TensorVariable:
    """Return the indices of the nonzero elements of the flattened tensor.

    Parameters
    ----------
    a : tensor_like
        The tensor, which must not be 0-d.

    Returns
    -------
    int64 vector
    """
    a = as_tensor_variable(a)
    if a.ndim == 0:
        raise ValueError("Nonzero only supports non-scalar arrays.")
    return nonzero(a.flatten(), return_matrix=False)[0]


def nonzero_values(a: TensorLike) -> TensorVariable:
    """Return the nonzero elements of the flattened tensor.

    Parameters
    ----------
    a : tensor_like

    Returns
    -------
    vector of the dtype of `a`
    """
    a = as_tensor_variable(a)
    return a.flatten()[flatnonzero(a)]


class Choose(NativeOp, Op):
    """An Op that builds an array from an index array and several choices: ``Choose(mode)(a, choices)``.

    The choices are a list of tensors, or one tensor that contains the choices along its first dimension. The tensors of
    a list are converted to a common dtype.

    Parameters
    ----------
    mode : {'raise', 'wrap', 'clip'}
        The treatment of an index out of range.
    """

    __props__ = ("mode",)

    def __init__(self, mode):
        if mode not in ("raise", "wrap", "clip"):
            raise ValueError("choose: mode must be 'raise', 'wrap' or 'clip', not %r" % (mode,))
        self.mode = mode

    def make_node(self, a, choices, *others):
        # If the Op is called with the inputs of a node, the choices are separate arguments.
        if others:
            choices = [choices, *others]
        a = as_tensor_variable(a)
        if a.dtype not in DISCRETE:
            raise TypeError("choose: the first argument holds indices and must have an integer dtype, not %s" % a.dtype)
        if isinstance(choices, (tuple, list)) and len(choices) != 1:
            if not choices:
                raise ValueError("choose: there are no choices")
            choices = [as_tensor_variable(c) for c in choices]
            dtype = upcast(*[c.dtype for c in choices])
            patterns = [c.broadcastable for c in choices]
        else:
            choices = as_tensor_variable(choices)
            if choices.ndim == 0:
                raise ValueError("choose: choices must have 1 or more dimensions; the first one lists the choices")
            dtype = choices.dtype
            patterns = [choices.broadcastable[1:]]
            choices = [choices]
        # The result has the shape to which the index and the choices are broadcast.
        patterns.append(a.broadcastable)
        ndim = max(len(p) for p in patterns)
        flags = [all(p[i - ndim] for p in patterns if len(p) >= ndim - i) for i in range(ndim)]
        return Apply(self, [a] + choices, [TensorType(dtype, flags)()])

    def native_code(self, node):
        out = node.outputs[0]
        return NativeCode(
            "theano_ng.tensor.native.selecting:choose",
            mode=("raise", "wrap", "clip").index(self.mode),
            type_number=np.dtype(out.dtype).num,
        )

    def perform(self, node, inputs, outputs):
        a = inputs[0]
        # If `a` is followed by several inputs, each is a choice. A single input contains the choices along its axis 0.
        choices = inputs[1:] if len(inputs) > 2 else list(inputs[1])
        n = len(choices)
        # Do not call numpy.choose, because it supports at most 32 choices.
        shape = np.broadcast_shapes(
            a.shape, np.shape(inputs[1])[1:] if len(inputs) == 2 else (), *{c.shape for c in choices}
        )
        result = np.empty(shape, dtype=node.outputs[0].dtype)
        if result.size and n == 0:
            raise ValueError("choose: there are no choices")
        if result.size and self.mode == "raise":
            wrong = a[(a < 0) | (a >= n)]
            if wrong.size:
                raise ValueError(
                    "choose: index %d is outside of [0, %d]; mode='wrap' and mode='clip' accept such an index"
                    % (wrong[0], n - 1)
                )
        elif result.size:
            # Cast the index, because a small dtype such as int8 might not be able to represent the number of choices.
            a = a if a.dtype == "uint64" else a.astype("int64")
            a = a % a.dtype.type(n) if self.mode == "wrap" else np.clip(a, 0, n - 1)
        for i, choice in enumerate(choices):
            np.copyto(result, choice, where=(a == i), casting="unsafe")
        outputs[0][0] = result

    def infer_shape(self, node, shapes):
        patterns = [x.broadcastable for x in node.inputs]
        if len(node.inputs) == 2:
            patterns[1], shapes = patterns[1][1:], [shapes[0], shapes[1][1:]]
        return [_broadcast_shape(list(zip(shapes, patterns)))]

    def connection_pattern(self, node):
        return [[False], *[[True] for _ in node.inputs[1:]]]

    def grad(self, inputs, output_gradients):
        a, gz = inputs[0], output_gradients[0]
        choices = inputs[1:]
        grads = [DisconnectedType()()]
        if gz.dtype in DISCRETE:
            return grads + [c.zeros_like(dtype=config.floatX) for c in choices]
        index = within(a, len(choices) if len(choices) > 1 else choices[0].shape[0], self.mode)
        zero = constant(0, dtype=gz.dtype)
        if len(choices) > 1:
            return grads + [_as_gradient(switch(eq(index, i), gz, zero), choice) for i, choice in enumerate(choices)]
        (choices,) = choices
        rank = arange(choices.shape[0]).dimshuffle([0] + ["x"] * gz.ndim)
        picked = eq(_pad_left(index, gz.ndim).dimshuffle(["x"] + list(range(gz.ndim))), rank)
        picked = switch(picked, gz.dimshuffle(["x"] + list(range(gz.ndim))), zero)
        # Axis 0 of `picked` numbers the choices. If the index has more dimensions than a choice, the choices were
        # padded on the left. Sum over the added axes.
        surplus = gz.ndim - (choices.ndim - 1)
        if surplus:
            picked = picked.sum(axis=list(range(1, 1 + surplus)))
        return grads + [_as_gradient(picked, choices)]

    def R_op(self, inputs, eval_points):
        if all(point is None for point in eval_points[1:]):
            return [None]
        points = [c.zeros_like() if point is None else point for c, point in zip(inputs[1:], eval_points[1:])]
        return [self(inputs[0], points if len(points) > 1 else points[0])]


def _pad_left(x, ndim):
    return x.dimshuffle(["x"] * (ndim - x.ndim) + list(range(x.ndim)))


def _as_gradient(g, x):
    """Convert the gradient `g` to the shape and dtype of `x`, a choice that was broadcast and converted by `Choose`."""
    if x.dtype in DISCRETE:
        return x.zeros_like(dtype=config.floatX)
    g = sum_over_repeated(g, x)
    if g.dtype.startswith("complex") and not x.dtype.startswith("complex"):
        g = real(g)
    return cast(g, x.dtype)


def _broadcast_shape(shapes_and_flags):
    """Return the symbolic shape of the result of broadcasting operands.

    Parameters
    ----------
    shapes_and_flags : list of (shape, broadcastable)
        One pair for each operand.
    """
    ndim = max(len(flags) for _, flags in shapes_and_flags)
    result = []
    for axis in range(ndim):
        size = None
        for shape, flags in shapes_and_flags:
            own = axis - (ndim - len(flags))
            # A length may be 1 at run time even if the type is not broadcastable. Then the next operand decides.
            if own >= 0 and not flags[own] and shape[own] is not size:
                size = shape[own] if size is None else switch(eq(size, 1), shape[own], size)
        result.append(constant(1, dtype="int64") if size is None else size)
    return tuple(result)


def choose(a: TensorLike, choices: TensorLike, out: Any = None, mode: str = "raise") -> TensorVariable:
    """Build a tensor by selecting elements of `choices`, as `numpy.choose`.

    Parameters
    ----------
    a : integer tensor_like
        The index of the choice for each element.
    choices : list of tensors, or tensor
        The choices, which are broadcast with `a`. A single tensor contains the choices along its first dimension.
    out : None
        It must be None, because variables cannot be overwritten.
    mode : {'raise', 'wrap', 'clip'}
        The treatment of an index that is not in [0, n-1], where n is the number of choices. 'raise': an error; 'wrap':
        the index modulo n; 'clip': the nearest valid index.

    Raises
    ------
    ValueError
        If `out` is not None. At run time, if the shapes cannot be broadcast, or if an index is out of range with mode
        'raise'.
    """
    if out is not None:
        raise ValueError("choose: out=%r is not supported; a symbolic variable cannot be written to" % (out,))
    return Choose(mode)(a, choices)


class Default(Op):
    """An Op that returns `x`, or `default` if the value of `x` is None."""

    view_map = {0: [0]}
    __props__ = ()

    def make_node(self, x, default):
        x, default = as_tensor_variable(x), as_tensor_variable(default)
        if x.type != default.type:
            raise TypeError(
                "Both arguments of default must have the same type, but they have %s and %s" % (x.type, default.type)
            )
        return Apply(self, [x, default], [default.type()])

    def perform(self, node, inp, out_):
        x, default = inp
        # Copy the value, because the view map says that the result does not share memory with the second input.
        out_[0][0] = copy.copy(default) if x is None else x

    def grad(self, inputs, output_gradients):
        return [grad_undefined(self, i, x, "which input is used is not known") for i, x in enumerate(inputs)]


default = Default()
setdefault = default
