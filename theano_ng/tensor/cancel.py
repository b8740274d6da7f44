"""Products in which a division cancels: ``(g / p) * p`` is g, also where p is 0, and where views lie between.

Differentiation makes such products: the derivative of ``log(p)`` divides by p, that of a p which is an exponential, or a softmax, multiplies
by it. Where p is rounded to 0 the product is NaN, and the result that it stands for is not.
"""

from theano_ng.gof.graph import Constant
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.advanced import (
    AdvancedBooleanIncSubtensor,
    AdvancedBooleanSubtensor,
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor,
    AdvancedSubtensor1,
)
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.shaping.joining import Join, Split
from theano_ng.tensor.shaping.reshaping import Reshape

products = {}
"""Class of Ops -> function of a node and q that returns its output times q, or None where it does not divide by q."""

MOST_NODES = 30
"""How many nodes of a gradient are searched for a division. Those of a loss are near its end."""

MOST_COMPARED = 12
"""How many nodes of two variables are compared: what is written twice is usually one variable at some small depth."""


# -- which variables are the same --------------------------------------------------------------------------------------------------------


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

    Not where a constant is added: that quotient is a sigmoid, which has rules of its own.
    """
    if d.owner is None or d.owner.op != T.add:
        return summed_along(q, d) is not None
    terms, looks, found = [d], 0, False
    while terms and looks < MOST_NODES:
        looks += 1
        term = terms.pop()
        if term.owner is not None and term.owner.op == T.add:
            terms += term.owner.inputs
        elif constant_value(term) is not None:
            return False
        elif term.type.broadcastable == q.type.broadcastable and same(term, q):
            found = True
    return found and not terms


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


# -- products ----------------------------------------------------------------------------------------------------------------------------


def times(g, p):
    """``g * p``, without a division by p that g contains.

    Parameters
    ----------
    g, p : tensors of one shape
        The division is looked for through sums, products, quotients, and what differentiation makes of views: DimShuffle, Reshape,
        increments of zeros, parts of joined tensors.

    Returns
    -------
    variable or None
        None where there is no such division.
    """
    known, plans = {}, {}
    stack = [(g, p)]
    while stack:
        key = stack[-1]
        if key in known:
            stack.pop()
            continue
        if key not in plans:
            plan = plans[key] = _plan(*key) if len(plans) < MOST_NODES else _NOTHING
            unknown = [part for part in plan[0] if part not in known]
            if unknown:
                stack.extend(unknown)
                continue
        parts, combine = plans[key]
        found = [known.get(part) for part in parts]
        known[key] = combine(*found) if combine is not None else None
        stack.pop()
    product = known[g, p]
    return None if product is None else _as_broadcast(product, p)


_NOTHING = ((), None)


def _plan(v, q):
    """What is to be multiplied first in ``v * q``, as pairs, and the function of these products, each possibly None, that is the result."""
    node = v.owner
    if node is None:
        return _NOTHING
    op = node.op
    if isinstance(op, Elemwise):
        return _PLANS.get(op, _no_plan)(node, v, q)
    return _plan_of_view(node, v, q)


def _no_plan(node, v, q):
    return _NOTHING


def _full(v, q):
    """Whether v has all elements of q, none of them by broadcasting."""
    return v.type.ndim == q.type.ndim and all(b <= c for b, c in zip(v.type.broadcastable, q.type.broadcastable))


def _sum_plan(node, v, q):
    def combine(*products):
        if all(p is None for p in products):
            return None
        return node.op(*[i * q if p is None else p for i, p in zip(node.inputs, products)])

    return [(i, q) for i in node.inputs], combine


def _product_plan(node, v, q):
    def combine(*products):
        for k, product in enumerate(products):
            if product is not None:
                return _scaled(product, node.inputs[:k] + node.inputs[k + 1 :])
        return None

    return [(i, q) for i in node.inputs], combine


def _scaled(v, factors):
    """v times factors. Numbers are left to what zeros are incremented by: there are fewer of them."""
    node = v.owner
    numbers = [f for f in factors if all(f.type.broadcastable)]
    if numbers and len(numbers) == len(factors) and node is not None and type(node.op) in _READS:
        zeros, values, *index = node.inputs
        numbers = [f.dimshuffle(*["x"] * values.ndim) for f in numbers]
        return node.op(zeros, T.mul(values, *numbers), *index)
    return T.mul(v, *factors) if factors else v


def _quotient_plan(node, v, q):
    above, below = node.inputs if len(node.inputs) == 2 else (None, node.inputs[0])
    found = _divided(below, q)
    if found is None:
        return (
            _NOTHING
            if above is None
            else ([(above, q)], lambda product: None if product is None else _over(product, below))
        )
    factors, divisors = found
    result = T.mul(*factors, *([] if above is None else [above])) if factors or above is not None else T.ones_like(q)
    for divisor in divisors:
        result = result / divisor
    if not _full(result, q):  # broadcast as the quotient is
        result = T.second(q, result)
    return (), lambda: result


def _divided(d, q):
    """``q / d`` as factors and divisors, where no quotient need be formed that may be inf / inf or 0 / 0; else None."""
    if _comparable(d, q) and same(d, q):
        return [], []
    node = d.owner
    parts = node.inputs if node is not None and node.op == T.mul else [d]
    for k, part in enumerate(parts):
        if not _comparable(part, q):
            continue
        rest = parts[:k] + parts[k + 1 :]
        if same(part, q):
            return [], rest
        inner = part.owner
        if inner is None:
            continue
        if inner.op == T.true_div and _comparable(inner.inputs[0], q) and same(inner.inputs[0], q):
            return [inner.inputs[1]], rest
        if is_term_of(q, part):
            return [q / part], rest  # at most 1
    return None


def _comparable(d, q):
    return d.type.ndim == q.type.ndim and d.type.dtype == q.type.dtype


def _over(v, d):
    """``v / d``, without d where it is a factor of v."""
    if v.owner is not None and v.owner.op == T.mul:
        for k, factor in enumerate(v.owner.inputs):
            if factor is d:
                rest = v.owner.inputs[:k] + v.owner.inputs[k + 1 :]
                return T.mul(*rest) if len(rest) > 1 else rest[0]
    return v / d


def _fill_plan(node, v, q):
    template, value = node.inputs
    return [(value, q)], lambda product: product


def _same_plan(node, v, q):
    return [(node.inputs[0], q)], lambda product: product


def _neg_plan(node, v, q):
    return [(node.inputs[0], q)], lambda product: None if product is None else _negative(product)


def _negative(v):
    node = v.owner
    if node is not None and type(node.op) in _READS:
        zeros, values, *index = node.inputs
        return node.op(zeros, -values, *index)
    return -v


_PLANS = {
    T.add: _sum_plan,
    T.sub: _sum_plan,
    T.neg: _neg_plan,
    T.mul: _product_plan,
    T.true_div: _quotient_plan,
    T.inv: _quotient_plan,
    T.second: _fill_plan,
    T.tensor_copy: _same_plan,
}

_READS = {
    IncSubtensor: lambda op: Subtensor(op.idx_list),
    AdvancedIncSubtensor: lambda op: AdvancedSubtensor(),
    AdvancedIncSubtensor1: lambda op: AdvancedSubtensor1(),
    AdvancedBooleanIncSubtensor: lambda op: AdvancedBooleanSubtensor(),
}


def _plan_of_view(node, v, q):
    op, x = node.op, node.inputs[0]
    if isinstance(op, DimShuffle):
        return _dimshuffle_plan(v, q)
    if isinstance(op, Reshape):
        return [
            (x, T.reshape(q, x.shape, ndim=x.ndim))
        ], lambda product: None if product is None else op(product, node.inputs[1])
    if isinstance(op, T.Rebroadcast):
        return [(x, q)], lambda product: product
    if type(op) in _READS:
        return _increment_plan(node, q)
    if isinstance(op, Split):
        return _split_plan(node, v, q)
    if type(op) in products:
        product = products[type(op)](node, q)
        return (), lambda: product
    return _NOTHING


def _dimshuffle_plan(v, q):
    x, order = shuffled_from(v)
    if all(q.type.broadcastable[i] for i, o in enumerate(order) if o == "x"):
        back = [order.index(i) if i in order else "x" for i in range(x.ndim)]
        return [
            (x, _shuffled(q, back))
        ], lambda product: None if product is None else _as_broadcast(product, x).dimshuffle(*order)
    # Dimensions that are repeated: the divisor may be what q is summed to.
    inner = x.owner
    if inner is None or not isinstance(inner.op, Elemwise) or len(inner.outputs) != 1:
        return _NOTHING
    lifted = inner.op(*[_shuffled(i, order) for i in inner.inputs])
    return [(lifted, q)], lambda product: product


def _as_broadcast(v, like):
    """v with the dimensions of length one that the type of `like` tells."""
    axes = [i for i, (a, b) in enumerate(zip(v.type.broadcastable, like.type.broadcastable)) if b and not a]
    return T.addbroadcast(v, *axes) if axes else v


def _increment_plan(node, q):
    zeros, values, *index = node.inputs
    if constant_value(zeros) != 0:
        return _NOTHING
    picked = _READS[type(node.op)](node.op)(q, *index)
    if not _full(values, picked):
        return _NOTHING
    return [(values, picked)], lambda product: None if product is None else node.op(zeros, product, *index)


def constant_value(v):
    """The number that v holds everywhere, or None."""
    try:
        return T.get_scalar_constant_value(v)
    except T.NotScalarConstantError:
        return None


def _split_plan(node, v, q):
    """A part of a tensor that is divided by a joined one is divided by that part of it."""
    x, axis, sizes = node.inputs
    k = node.outputs.index(v)

    def part(u):
        joined = u.owner
        if (
            joined is not None
            and isinstance(joined.op, Join)
            and same(joined.inputs[0], axis)
            and len(joined.inputs) == len(node.outputs) + 1
        ):
            # Differentiation splits as was joined.
            return joined.inputs[k + 1]
        split = node.op(u, axis, sizes)
        return split[k] if isinstance(split, list) else split

    inner = x.owner
    if inner is None or not isinstance(inner.op, Elemwise) or len(inner.outputs) != 1:
        return _NOTHING
    along = constant_value(axis)
    if along is None:
        return _NOTHING
    along = int(along) % x.ndim
    lifted = inner.op(*[i if i.type.broadcastable[along] else part(i) for i in inner.inputs])
    return [(lifted, q)], lambda product: product
