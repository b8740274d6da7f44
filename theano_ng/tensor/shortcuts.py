"""Derivatives that are taken of several operations at once, because those of each alone overflow, underflow, or are NaN.

`gof.differentiate` asks the Op of a node for its `shortcut`; Elemwise looks into its table `shortcuts`, which is filled here.
"""

from theano_ng import scalar
from theano_ng.gof.differentiate import Shortcut
from theano_ng.tensor import basic as T
from theano_ng.tensor.cancel import constant_value, summed_along, times
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.shaping.reshaping import Reshape


def softmax_gradient(g, p, axes):
    """Gradient of a softmax p along some dimensions: with c = g * p, free of a division by p, ``c - p * sum(c)``.

    Parameters
    ----------
    g, p : tensors of one shape
    axes : sequence of int

    Returns
    -------
    variable, or None where g does not divide by p
    """
    c = times(g, p)
    return None if c is None else c - p * c.sum(axis=list(axes), keepdims=True)


def _of_exp(node):
    (x,), (p,) = node.inputs, node.outputs
    if x.type != p.type:
        return None

    def gradients(g):
        c = times(g, p)
        return node.op.L_op([x], [p], [g]) if c is None else [c]

    return Shortcut([x], [], gradients)


def _of_quotient(node):
    return _of_logistic(node, *node.inputs) or _of_softmax(node, *node.inputs)


def _of_inverse(node):
    return _of_logistic(node, None, node.inputs[0])


def _of_logistic(node, above, below):
    """``exp(u) / (1 + exp(u))``, and ``1 / (1 + exp(u))``, whose derivatives have both as factors.

    The derivative of each part alone divides by the square of the sum: what it goes to cancels in the first derivative, and is lost in the
    second.
    """
    if below.owner is None or below.owner.op != T.add or len(below.owner.inputs) != 2:
        return None
    one, e = sorted(below.owner.inputs, key=lambda v: constant_value(v) != 1)
    if constant_value(one) != 1 or e.owner is None or e.owner.op != T.exp:
        return None
    (u,), (p,) = e.owner.inputs, node.outputs
    falls = above is None or constant_value(above) == 1
    passed = _between(p, u, u)
    if u.type != p.type or passed is None or not (falls or (above.owner is not None and above.owner.op == T.exp)):
        return None

    def gradients(g):
        c = times(g, p)
        if c is None:
            c = g * p
        return [-c / (1 + T.exp(-u)) if falls else c / (1 + T.exp(u))]

    return Shortcut([u], passed, gradients)


def _of_product(node):
    """e * (1 / sum(e))"""
    if len(node.inputs) != 2:
        return None
    for e, r in (node.inputs, node.inputs[::-1]):
        inverse = r.owner
        if inverse is not None and inverse.op == T.inv:
            return _of_softmax(node, e, inverse.inputs[0])
        if inverse is not None and inverse.op == T.true_div and constant_value(inverse.inputs[0]) == 1:
            return _of_softmax(node, e, inverse.inputs[1])
    return None


def _of_softmax(node, e, total):
    """The quotient of an exponential, or a view of one, and its sum."""
    base = _behind_views(e)
    if base.owner is None or base.owner.op != T.exp:
        return None
    axes = summed_along(e, total)
    (p,) = node.outputs
    source = base.owner.inputs[0] if base is e else e
    if axes is None or source.type != p.type:
        return None
    passed = _between(p, source, base.owner.inputs[0])
    if passed is None:
        return None

    def gradients(g):
        dx = softmax_gradient(g, p, axes)
        if dx is None:
            dx = (g - (g * p).sum(axis=list(axes), keepdims=True)) * p
        # The exponential, which is next, multiplies by what is divided by here.
        return [dx if source is not e else dx / e]

    return Shortcut([source], passed, gradients)


def _behind_views(v):
    while v.owner is not None and isinstance(v.owner.op, (DimShuffle, Reshape)):
        v = v.owner.inputs[0]
    return v


def _between(p, x, exponent):
    """The variables from which p is computed, p and x excluded, down to x and the exponentials of `exponent`.

    None where something else is exponentiated, be it computed in the same way: derivatives by the one are not those by the other.
    """
    passed, stack = {}, list(p.owner.inputs)
    while stack:
        v = stack.pop()
        if v is x or v in passed:
            continue
        passed[v] = None
        if v.owner is None:
            continue
        if v.owner.op == T.exp:
            if v.owner.inputs[0] is not exponent:
                return None
        else:
            # The other input of a Reshape is a shape, which depends on much that the softmax does not depend on.
            stack.extend(v.owner.inputs[:1] if isinstance(v.owner.op, Reshape) else v.owner.inputs)
    return list(passed)


Elemwise.shortcuts.update(
    {scalar.Exp: _of_exp, scalar.TrueDiv: _of_quotient, scalar.Inv: _of_inverse, scalar.Mul: _of_product}
)
