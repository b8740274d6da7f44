"""Shortcuts: gradients that are computed for several operations at once (`gof.differentiate.Shortcut`).

Shortcuts are used if gradients of individual operations would overflow, underflow, or be NaN. `gof.differentiate`
calls the method `shortcut` of the Op of a node. For Elemwise, this method looks up a function in the table
`Elemwise.shortcuts`, which this module fills. If the logarithm of an expression v is known, there are shortcuts for
``log(v)``, ``v ** t``, ``x / v``, and products with a factor ``c / v``. See `theano_ng.tensor.logarithms`.
"""

import numpy as np

from theano_ng import scalar
from theano_ng.gof.differentiate import Shortcut
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.logarithms import reading, summed_like
from theano_ng.tensor.saturating import number_of


def _of_log(factor):
    def shortcut(node):
        read = _with_type(node.inputs[0], node)
        if read is None:
            return None
        return Shortcut(
            read.leaves, read.passed(), lambda g: read.gradients(g if factor == 1 else g * np.asarray(factor, g.dtype))
        )

    return shortcut


def _of_log1p(node):
    (x,) = node.inputs
    if x.type != node.outputs[0].type:
        return None
    one = np.asarray(1, x.dtype)
    negated = x.owner is not None and x.owner.op == T.neg
    read = reading(T.sub(one, x.owner.inputs[0]) if negated else T.add(one, x))
    return None if read is None or not read.is_known else Shortcut(read.leaves, [x, *read.passed()], read.gradients)


def _with_type(v, node):
    return reading(v) if v.type == node.outputs[0].type else None


def _of_quotient(node):
    """Return a `Shortcut` for the gradient of ``x / v``.

    The derivative by v is computed as ``x / v`` times the derivative of ``-log(v)``.
    """
    (out,), below = node.outputs, node.inputs[-1]
    if number_of(below) is not None:
        return None
    whole = reading(out, whole=True)
    if whole is not None:
        passed = [u for u in whole.passed() if u is not out]
        return Shortcut(whole.leaves, passed, lambda g: whole.gradients(g * out))
    read = reading(below) if below.type.dtype == out.type.dtype else None
    if read is None:
        return None

    def gradients(g):
        found = read.gradients(summed_like(-(g * out), below))
        if len(node.inputs) == 1:
            return found
        return [node.op.L_op(node.inputs, node.outputs, [g])[0], *found]

    return Shortcut([*node.inputs[:-1], *read.leaves], read.passed(), gradients)


def _of_power(node):
    """Return a `Shortcut` for the gradient of ``v ** t``.

    The derivative by v is computed as ``v ** t`` times the derivative of ``t * log(v)``.
    """
    (out,), base = node.outputs, node.inputs[0]
    power = number_of(node.inputs[1]) if len(node.inputs) == 2 else 0.5
    if power is not None and power > 0 and float(power).is_integer() or base.type.dtype != out.type.dtype:
        return None
    read = reading(base, whole=True)
    if read is None:
        return None

    def gradients(g):
        times = node.inputs[1] if len(node.inputs) == 2 else np.asarray(0.5, out.dtype)
        found = read.gradients(summed_like(g * out * times, base))
        if len(node.inputs) == 1:
            return found
        return [*found, node.op.L_op(node.inputs, node.outputs, [g])[1]]

    return Shortcut([*read.leaves, *node.inputs[1:]], read.passed(), gradients)


def _is_number_by_another(v):
    """Return True if a variable is the quotient of a constant number and another variable."""
    node = v.owner
    return node is not None and (node.op == T.inv or node.op == T.true_div and number_of(node.inputs[0]) is not None)


def _of_product(node):
    """Return a `Shortcut` for the gradient of a product with a factor ``c / v``, such as ``w * (1 / sum(w))``.

    Here c is a constant. Return None for other products. If a factor is a quotient of two variables, `_of_quotient`
    returns a shortcut for this factor, and the product needs no shortcut.
    """
    (out,) = node.outputs
    if len(node.inputs) != 2 or not any(map(_is_number_by_another, node.inputs)):
        return None
    whole = reading(out, whole=True)
    if whole is None:
        return None
    passed = [u for u in whole.passed() if u is not out]
    return Shortcut(whole.leaves, passed, lambda g: whole.gradients(g * out))


Elemwise.shortcuts.update(
    {
        scalar.Log: _of_log(1),
        scalar.Log2: _of_log(1 / np.log(2)),
        scalar.Log10: _of_log(1 / np.log(10)),
        scalar.Log1p: _of_log1p,
        scalar.TrueDiv: _of_quotient,
        scalar.Inv: _of_quotient,
        scalar.Pow: _of_power,
        scalar.Sqrt: _of_power,
        scalar.Mul: _of_product,
    }
)
