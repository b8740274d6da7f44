"""Functions that recognize equal variables, and sums of variables, by a bounded search of the graph.

Callers may use the results only to compute values, not derivatives: a derivative is taken with respect to one
particular variable, not with respect to other variables that have the same value.
"""

from theano_ng.gof.graph import Constant
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.shaping.reshaping import Reshape

MAX_NODES = 30
"""The maximum number of terms of a sum that are examined."""

MAX_COMPARED = 12
"""The maximum number of pairs of nodes that are compared.

Two copies of an expression usually contain a common variable at a small depth.
"""


def constant_value(v):
    """Return the common value of all elements of `v` as a 0-d array. Return None if no such value is known."""
    try:
        return T.get_scalar_constant_value(v)
    except T.NotScalarConstantError:
        return None


def shuffled_from(v):
    """Return ``(u, order)`` so that `v` equals ``u.dimshuffle(order)``.

    The node that computes `u` is neither a DimShuffle nor a copy.
    """
    order = tuple(range(v.ndim))
    while v.owner is not None:
        if isinstance(v.owner.op, DimShuffle):
            inner = v.owner.op.new_order
            order = tuple("x" if o == "x" else inner[o] for o in order)
        elif v.owner.op != T.tensor_copy:
            break
        v = v.owner.inputs[0]
    return v, order


def equal_expressions(a, b, of_one_shape=True):
    """Return True if two variables are computed in the same way from the same variables.

    DimShuffles are compared by their effect. If `of_one_shape` is True, the variables are known to have the same shape,
    and the target shapes of Reshapes are not compared.
    """
    todo, visited = [(a, b, of_one_shape)], 0
    while todo:
        a, b, of_one_shape = todo.pop()
        if a is b:
            continue
        visited += 1
        if visited > MAX_COMPARED:
            return False
        if not hasattr(a, "ndim") or not hasattr(b, "ndim"):
            if a.owner is None or b.owner is None:
                if isinstance(a, Constant) and isinstance(b, Constant) and a.equals(b):
                    continue
                return False
        else:
            (a, order_a), (b, order_b) = shuffled_from(a), shuffled_from(b)
            if a is b and order_a == order_b:
                continue
            if order_a != order_b:
                return False
        if isinstance(a, Constant) and isinstance(b, Constant):
            if not a.equals(b):
                return False
            continue
        x, y = a.owner, b.owner
        if (
            x is None
            or y is None
            or x.op != y.op
            or len(x.inputs) != len(y.inputs)
            or x.outputs.index(a) != y.outputs.index(b)
        ):
            return False
        if isinstance(x.op, Reshape) and of_one_shape:
            todo.append((x.inputs[0], y.inputs[0], False))
        else:
            of_one_shape = of_one_shape and isinstance(x.op, Elemwise) and len(x.inputs) == 1
            todo.extend((v, w, of_one_shape) for v, w in zip(x.inputs, y.inputs))
    return True


def is_term_of(q, d):
    """Return True if `d` is a sum with `q` as a term, or the sum of `q` along some dimensions.

    In the second case, a DimShuffle must have restored the summed dimensions as broadcastable dimensions. The result is
    False if `d` adds only constants to `q`, because the quotient ``q / d`` is then a sigmoid, which has separate rules.
    """
    if d.owner is None or d.owner.op != T.add:
        return summed_along(q, d) is not None
    terms, visited, found, others, numbers = [d], 0, False, 0, 0
    while terms and visited < MAX_NODES:
        visited += 1
        term = terms.pop()
        if term.owner is not None and term.owner.op == T.add:
            terms += term.owner.inputs
        elif constant_value(term) is not None:
            numbers += 1
        elif term.type.broadcastable == q.type.broadcastable and equal_expressions(term, q):
            found = True
        else:
            others += 1
    return found and not terms and (others > 0 or not numbers)


def summed_along(q, d):
    """Return the dimensions along which `d` is the sum of `q`. Return None if `d` is not such a sum.

    A DimShuffle must have restored these dimensions in `d` as broadcastable dimensions.
    """
    total, order = shuffled_from(d)
    if total.owner is None or not isinstance(total.owner.op, Sum) or len(order) != q.ndim:
        return None
    # Leave out surplus dimensions that are broadcastable in both `q` and `d`: the sum did not remove them.
    spare = order.count("x") - (total.owner.inputs[0].ndim - total.ndim)
    added = [i for i, o in enumerate(order) if o == "x" and q.type.broadcastable[i]][: max(spare, 0)]
    dims = [i for i in range(q.ndim) if i not in added]
    axes = _sum_axes(total, [order[i] for i in dims], _shuffled(q, dims) if added else q)
    return None if axes is None else tuple(dims[i] for i in axes)


def _sum_axes(total, order, q):
    """Return the dimensions of `q` over which the sum `total` runs. Return None if `total` is not a sum of `q`.

    `order` is the order of the DimShuffle that is applied to `total`. It has an "x" for each summed dimension.
    """
    (summed,) = total.owner.inputs
    axes = total.owner.op.axis
    axes = list(range(summed.ndim)) if axes is None else sorted(axes)
    kept = [i for i in range(summed.ndim) if i not in axes]
    if summed.ndim != q.ndim or order.count("x") != len(axes):
        return None
    # If only one axis is summed, the lengths along all other axes are known to be equal. `equal_expressions` may then
    # assume that `summed` and `q` have the same shape.
    free = iter(axes)
    back = [next(free) if o == "x" else kept[o] for o in order]
    if sorted(back) != list(range(q.ndim)):
        return None
    return (
        tuple(i for i, o in enumerate(order) if o == "x")
        if equal_expressions(_shuffled(summed, back), q, len(axes) == 1)
        else None
    )


def _shuffled(v, order):
    u, inner = shuffled_from(v)
    order = ["x" if o == "x" else inner[o] for o in order]
    return u if order == list(range(u.ndim)) else u.dimshuffle(*order)
