"""Which variables are the same numbers, and which are sums of others, as far as a short look tells.

For values only: a derivative belongs to one of several variables that are the same.
"""

from theano_ng.gof.graph import Constant
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.shaping.reshaping import Reshape

MOST_NODES = 30
"""How many terms of a sum are compared."""

MOST_COMPARED = 12
"""How many nodes of two variables are compared: what is written twice is usually one variable at some small depth."""


def constant_value(v):
    """The number that v holds everywhere, or None."""
    try:
        return T.get_scalar_constant_value(v)
    except T.NotScalarConstantError:
        return None


def shuffled_from(v):
    """(u, order) with v equal to ``u.dimshuffle(order)``, where neither a DimShuffle nor a copy computes u."""
    order = tuple(range(v.ndim))
    while v.owner is not None:
        if isinstance(v.owner.op, DimShuffle):
            inner = v.owner.op.new_order
            order = tuple("x" if o == "x" else inner[o] for o in order)
        elif v.owner.op != T.tensor_copy:
            break
        v = v.owner.inputs[0]
    return v, order


def same(a, b, of_one_shape=True):
    """Whether two variables are computed in the same way from the same variables.

    DimShuffles are compared by their effect. Of two that are known to have one shape the shapes that they are reshaped to are not compared.
    """
    todo, looks = [(a, b, of_one_shape)], 0
    while todo:
        a, b, of_one_shape = todo.pop()
        if a is b:
            continue
        looks += 1
        if looks > MOST_COMPARED:
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
    """Whether `d` is a sum with `q` as a term, or of the elements of `q` along some dimensions, which broadcasting puts back.

    Not where nothing but a constant is added: that quotient is a sigmoid, which has rules of its own.
    """
    if d.owner is None or d.owner.op != T.add:
        return summed_along(q, d) is not None
    terms, looks, found, others, numbers = [d], 0, False, 0, 0
    while terms and looks < MOST_NODES:
        looks += 1
        term = terms.pop()
        if term.owner is not None and term.owner.op == T.add:
            terms += term.owner.inputs
        elif constant_value(term) is not None:
            numbers += 1
        elif term.type.broadcastable == q.type.broadcastable and same(term, q):
            found = True
        else:
            others += 1
    return found and not terms and (others > 0 or not numbers)


def summed_along(q, d):
    """The dimensions along which `d`, in which broadcasting puts them back, is the sum of `q`; None if it is no such sum."""
    total, order = shuffled_from(d)
    if total.owner is None or not isinstance(total.owner.op, Sum) or len(order) != q.ndim:
        return None
    # Dimensions of length one that both have are no part of the sum.
    spare = order.count("x") - (total.owner.inputs[0].ndim - total.ndim)
    added = [i for i, o in enumerate(order) if o == "x" and q.type.broadcastable[i]][: max(spare, 0)]
    dims = [i for i in range(q.ndim) if i not in added]
    axes = _sum_axes(total, [order[i] for i in dims], _shuffled(q, dims) if added else q)
    return None if axes is None else tuple(dims[i] for i in axes)


def _sum_axes(total, order, q):
    """The dimensions of `q` along which `total`, put back by a DimShuffle to `order`, sums it; None if it does not."""
    (summed,) = total.owner.inputs
    axes = total.owner.op.axis
    axes = list(range(summed.ndim)) if axes is None else sorted(axes)
    kept = [i for i in range(summed.ndim) if i not in axes]
    if summed.ndim != q.ndim or order.count("x") != len(axes):
        return None
    # That both have one shape is known where all lengths but one are those of the quotient.
    free = iter(axes)
    back = [next(free) if o == "x" else kept[o] for o in order]
    if sorted(back) != list(range(q.ndim)):
        return None
    return (
        tuple(i for i, o in enumerate(order) if o == "x") if same(_shuffled(summed, back), q, len(axes) == 1) else None
    )


def _shuffled(v, order):
    u, inner = shuffled_from(v)
    order = ["x" if o == "x" else inner[o] for o in order]
    return u if order == list(range(u.ndim)) else u.dimshuffle(*order)
