"""Selecting elements: `nonzero` and its family, `choose`, `default`."""
import copy

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.creation import arange
from theano_ng.tensor.elemwise_ops import clip, eq, switch
from theano_ng.tensor.type import TensorType

__all__ = ['Nonzero', '_nonzero', 'nonzero', 'flatnonzero', 'nonzero_values',
           'Choose', 'choose', 'Default', 'default', 'setdefault']


class Nonzero(NativeOp, Op):
    """The indices of the nonzero elements: one int64 vector per dimension."""
    __props__ = ()

    def make_node(self, a):
        a = as_tensor_variable(a)
        if a.ndim == 0:
            raise ValueError('Nonzero only supports non-scalar arrays.')
        return Apply(self, [a], [TensorType('int64', (False,))()
                                 for _ in range(a.ndim)])

    def native_code(self, node):
        return NativeCode('theano_ng.tensor.native.extra:nonzero')

    def perform(self, node, inp, out_):
        for cell, indices in zip(out_, np.nonzero(inp[0])):
            cell[0] = indices.astype('int64')

    def grad(self, inp, grads):
        from theano_ng.gradient import grad_undefined
        return [grad_undefined(self, 0, inp[0],
                               'indices do not vary smoothly')]

    def R_op(self, inputs, eval_points):
        return [None] * inputs[0].ndim


_nonzero = Nonzero()


def nonzero(a, return_matrix=False):
    """The indices of the nonzero elements.

    Parameters
    ----------
    a : tensor_like of 1 or more dimensions
    return_matrix : bool
        Return one matrix, with a row per dimension of `a`.

    Returns
    -------
    tuple of int64 vectors, or int64 matrix
        Usable as an index: ``a[nonzero(a)]``.
    """
    found = _nonzero(a)
    found = tuple(found) if isinstance(found, (list, tuple)) else (found,)
    if not return_matrix:
        return found
    from theano_ng.tensor.shaping import stack
    if len(found) == 1:
        return found[0].dimshuffle('x', 0)
    return stack(list(found), axis=0)


def flatnonzero(a):
    """The indices of the nonzero elements of the flattened tensor.

    Returns
    -------
    int64 vector
    """
    a = as_tensor_variable(a)
    if a.ndim == 0:
        raise ValueError('Nonzero only supports non-scalar arrays.')
    return nonzero(a.flatten(), return_matrix=False)[0]


def nonzero_values(a):
    """The nonzero elements of the flattened tensor.

    Returns
    -------
    vector of the dtype of `a`
    """
    a = as_tensor_variable(a)
    return a.flatten()[flatnonzero(a)]


class Choose(Op):
    """Build an array from an index array and several choices.

    Parameters
    ----------
    mode : {'raise', 'wrap', 'clip'}
        What is done with an index out of range.
    """
    __props__ = ('mode',)

    def __init__(self, mode):
        if mode not in ('raise', 'wrap', 'clip'):
            raise ValueError("choose: mode must be 'raise', 'wrap' or 'clip', "
                             "not %r" % (mode,))
        self.mode = mode

    def make_node(self, a, choices):
        a = as_tensor_variable(a)
        if a.dtype not in _INDEX_DTYPES:
            raise TypeError("choose: the first argument holds indices and must "
                            "have an integer dtype, not %s" % a.dtype)
        if isinstance(choices, (tuple, list)) and len(choices) != 1:
            if not choices:
                raise ValueError("choose: there is nothing to choose from")
            choices = [as_tensor_variable(c) for c in choices]
            dtype = upcast(*[c.dtype for c in choices])
            patterns = [c.broadcastable for c in choices]
        else:
            choices = as_tensor_variable(choices)
            if choices.ndim == 0:
                raise ValueError("choose: choices must have 1 or more "
                                 "dimensions; the first one lists the choices")
            dtype = choices.dtype
            patterns = [choices.broadcastable[1:]]
            choices = [choices]
        # The result has the common shape of the index and the choices.
        patterns.append(a.broadcastable)
        ndim = max(len(p) for p in patterns)
        flags = [all(p[i - ndim] for p in patterns if len(p) >= ndim - i)
                 for i in range(ndim)]
        return Apply(self, [a] + choices, [TensorType(dtype, flags)()])

    def perform(self, node, inputs, outputs):
        a = inputs[0]
        # Several inputs: each is a choice. One: its first axis lists them.
        choices = inputs[1:] if len(inputs) > 2 else list(inputs[1])
        n = len(choices)
        if self.mode == 'raise':
            if a.size and (a.min() < 0 or a.max() >= n):
                raise ValueError("choose: an index is outside of [0, %d]; see "
                                 "mode='wrap' and mode='clip'" % (n - 1))
        elif n == 0:
            raise ValueError("choose: there is nothing to choose from")
        elif self.mode == 'wrap':
            a = a % n
        else:
            a = np.clip(a, 0, n - 1)
        # numpy.choose itself takes 32 choices at most.
        shape = np.broadcast_shapes(
            a.shape, inputs[1].shape[1:] if len(inputs) == 2 else (),
            *{c.shape for c in choices})
        result = np.empty(shape, dtype=node.outputs[0].dtype)
        for i, choice in enumerate(choices):
            np.copyto(result, choice, where=(a == i), casting='unsafe')
        outputs[0][0] = result

    def infer_shape(self, node, shapes):
        patterns = [x.broadcastable for x in node.inputs]
        if len(node.inputs) == 2:
            patterns[1], shapes = patterns[1][1:], [shapes[0], shapes[1][1:]]
        return [_broadcast_shape(list(zip(shapes, patterns)))]

    def grad(self, inputs, output_gradients):
        a, gz = inputs[0], output_gradients[0]
        many = len(inputs) > 2
        count = len(inputs) - 1 if many else inputs[1].shape[0]
        index = {'raise': a, 'wrap': a % count,
                 'clip': clip(a, 0, count - 1)}[self.mode]
        grads = [grad_undefined_index(self, a)]
        zero = constant(0, dtype=gz.dtype)
        if many:
            for i, choice in enumerate(inputs[1:]):
                grads.append(_sum_to(switch(eq(index, i), gz, zero), choice))
            return grads
        choices = inputs[1]
        rank = arange(count).dimshuffle([0] + ['x'] * gz.ndim)
        picked = eq(_pad_left(index, gz.ndim).dimshuffle(
            ['x'] + list(range(gz.ndim))), rank)
        picked = switch(picked, gz.dimshuffle(['x'] + list(range(gz.ndim))),
                        zero)
        # Axis 0 is the list; the rest of a choice was padded on its left.
        surplus = gz.ndim - (choices.ndim - 1)
        if surplus:
            picked = picked.sum(axis=list(range(1, 1 + surplus)))
        return grads + [_sum_to(picked, choices)]


_INDEX_DTYPES = frozenset(['bool', 'int8', 'int16', 'int32', 'int64',
                           'uint8', 'uint16', 'uint32', 'uint64'])


def grad_undefined_index(op, index):
    """The gradient with respect to an index: undefined."""
    from theano_ng.gradient import grad_undefined
    return grad_undefined(op, 0, index, 'indices do not vary smoothly')


def _pad_left(x, ndim):
    return x.dimshuffle(['x'] * (ndim - x.ndim) + list(range(x.ndim)))


def _sum_to(g, x):
    """Undo the broadcasting of `x` on a gradient."""
    if g.ndim > x.ndim:
        g = g.sum(axis=list(range(g.ndim - x.ndim)))
    axes = [i for i in range(x.ndim)
            if x.broadcastable[i] and not g.broadcastable[i]]
    return g.sum(axis=axes, keepdims=True) if axes else g


def _broadcast_shape(shapes_and_flags):
    """The shape that operands of these shapes and patterns broadcast to."""
    ndim = max(len(flags) for _, flags in shapes_and_flags)
    result = []
    for axis in range(ndim):
        length = None
        for shape, flags in shapes_and_flags:
            own = axis - (ndim - len(flags))
            if own < 0:
                continue
            if length is None or not flags[own]:
                length = shape[own]
                if not flags[own]:
                    break
        result.append(length)
    return tuple(result)


def choose(a, choices, out=None, mode='raise'):
    """Build a tensor by picking among `choices`, as `numpy.choose`.

    Parameters
    ----------
    a : integer tensor_like
        For each element the number of a choice.
    choices : list of tensors, or tensor
        They broadcast with `a`; the first dimension of a tensor is the list.
    out : None
        Variables cannot be written to; anything else is refused.
    mode : {'raise', 'wrap', 'clip'}
        An index out of [0, n-1] is an error, is taken modulo n, or becomes
        the nearest valid one.

    Raises
    ------
    ValueError
        When the function runs, if the shapes do not broadcast or an index is
        out of range with mode 'raise'.
    """
    if out is not None:
        raise ValueError("choose: out=%r is not supported; a symbolic variable "
                         "cannot be written to" % (out,))
    return Choose(mode)(a, choices)


class Default(Op):
    """`x`, or `default` where the value of `x` is None."""
    view_map = {0: [0]}
    __props__ = ()

    def make_node(self, x, default):
        x, default = as_tensor_variable(x), as_tensor_variable(default)
        if x.type != default.type:
            raise TypeError('Both arguments of default must have the same '
                            'type, but they have %s and %s'
                            % (x.type, default.type))
        return Apply(self, [x, default], [default.type()])

    def perform(self, node, inp, out_):
        x, default = inp
        # The view map promises that the result never is the second input.
        out_[0][0] = copy.copy(default) if x is None else x

    def grad(self, inputs, output_gradients):
        from theano_ng.gradient import grad_undefined
        return [grad_undefined(self, i, x, 'which input is used is not known')
                for i, x in enumerate(inputs)]


default = Default()
setdefault = default
