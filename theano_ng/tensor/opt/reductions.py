"""Rules for reductions of products, quotients, joins, constants and reductions, and of dimensions of length 1."""

import numpy as np

from theano_ng import scalar
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.opt.common import constant_value, in_dtype, inputs_of, reuse_existing, shuffled, with_type
from theano_ng.tensor.opt.patterns import dimshuffled, names, ops_such, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize, register_uncanonicalize
from theano_ng.tensor.opt.shape import lengths
from theano_ng.tensor.reductions.careduce import All, Any, CAReduce, Prod, ProdWithoutZeros, Sum

# Class of a scalar op -> public elementwise op. Rules use these ops instead of new Elemwise instances.
_ELEMWISE = {
    scalar.Add: T.add,
    scalar.Mul: T.mul,
    scalar.Maximum: T.maximum,
    scalar.Minimum: T.minimum,
    scalar.OR: T.or_,
    scalar.AND: T.and_,
}

x, y = names("x", "y")
(sqr,) = terms(T.sqr)
reduced_along = ops_such(Sum, Prod, condition=lambda op: op.axis is not None)
sum_over_1_and_2 = ops_such(
    Sum, condition=lambda op: op.axis is not None and len(op.axis) == 2 and {*op.axis} == {1, 2}
)
of_x, of_y = dimshuffled(x, "x", 0, 1), dimshuffled(y, 0, "x", 1)

ALL_REDUCE = [CAReduce, All, Any, Sum, Prod, ProdWithoutZeros]


def _axes(node):
    """Return the reduced dimensions as a tuple."""
    axis = node.op.axis
    return tuple(range(node.inputs[0].ndim)) if axis is None else tuple(axis)


def with_axis(op, axis):
    """Return a reduction Op that equals `op`, except that it reduces over `axis`."""
    if isinstance(op, (Sum, Prod, ProdWithoutZeros)):
        return type(op)(axis=axis, dtype=op.dtype, acc_dtype=op.acc_dtype)
    if isinstance(op, (All, Any)):
        return type(op)(axis=axis)
    return type(op)(op.scalar_op, axis=axis)


def _of_same_shape(new, out):
    """Return the result of a rule that replaces `out` by `new`, which has the same shape.

    Return False if `new` cannot be converted to the type of `out`.
    """
    new = with_type(new, out)
    return False if new is None else [new]


@register_specialize
@local_optimizer([Sum, Prod])
def local_sum_prod_mul_by_scalar(node):
    """Take scalar factors and signs out of reductions.

    sum(s * x)  ->  s * sum(x)          [specialize, fast_run]
    sum(-x)  ->  -sum(x)
    prod(s * x)  ->  s ** Shape_i(0)(x) * prod(x)
    prod(a * b * x)  ->  (a * b) ** Shape_i(0)(x) * prod(x)
    prod(-x)  ->  constant(-1) ** Shape_i(0)(x) * prod(x)

    The exponent is the number of reduced elements. The rule does not change the `Prod` of an elementwise product of
    several tensors: the loop over these tensors also multiplies by the scalar at almost no cost. The rule also does not
    apply to a `Prod` if the power would have a wider dtype than the result.

    The rule applies only if all clients of the product or negation are reductions or elementwise operations, because
    these clients can compute their input in their own loops. If there is any other client, the product is stored
    anyway, and the rule would save nothing.
    """
    (x,) = node.inputs
    if not all(_runs_through(reader) for reader, _ in x.clients):
        return False
    out = node.outputs[0]
    factors = inputs_of(x, T.mul)
    if factors is not None:
        scalars = [t for t in factors if all(t.broadcastable)]
        others = [t for t in factors if not all(t.broadcastable)]
        if not scalars or not others:
            return False
        inner = others[0] if len(others) == 1 else in_dtype(T.mul, others, x.dtype)
    else:
        negated = inputs_of(x, T.neg)
        if negated is None:
            return False
        scalars, inner = None, negated[0]
    if out.dtype[0] not in "fciu" or (x.dtype[0] not in "fc" and x.dtype != out.dtype):
        # A product or negation of narrow integers wraps around before Sum or Prod converts it to a wider dtype. The
        # rule would change the result.
        return False
    if isinstance(node.op, Prod):
        if scalars is None:
            base = T.constant(np.asarray(-1, dtype="int8"))
        elif len(others) == 1:
            factors = [T.cast(shuffled(t, ()), out.dtype) for t in scalars]
            base = factors[0] if len(factors) == 1 else T.mul(*factors)
        else:
            return False
        power = T.pow(base, _count(inner, _axes(node), node.fgraph))
        if scalars is not None and power.dtype != out.dtype:
            return False
    if inner.dtype != x.dtype:
        # Without the scalars, the product may have another dtype. Cast it to the original dtype before the reduction.
        inner = T.cast(inner, x.dtype)
    copy_stack_trace(x, inner)
    reduced = reuse_existing(node.op(inner))
    copy_stack_trace(out, reduced)
    if isinstance(node.op, Sum):
        if scalars is None:
            return _of_same_shape(-reduced, out) if out.dtype[0] in "ifc" else False
        return _of_same_shape(T.mul(*[shuffled(t, ()) for t in scalars] + [reduced]), out)
    if scalars is None and out.dtype[0] not in "ifc":
        return False
    return _of_same_shape(T.mul(power, reduced), out)


def _runs_through(reader):
    """Return True if `reader` is a Sum, Prod or Elemwise, which can compute its input in its own loop.

    Also return True if `reader` is a DimShuffle whose only client is such a node or such a DimShuffle.
    """
    while reader != "output" and isinstance(reader.op, DimShuffle) and len(reader.outputs[0].clients) == 1:
        ((reader, _),) = reader.outputs[0].clients
    return reader != "output" and isinstance(reader.op, (Sum, Prod, Elemwise))


def _count(x, axes, fgraph):
    """Return the number of elements of `x` that a reduction over `axes` combines into one result."""
    shape = lengths(x, fgraph)
    reduced = [shape[a] for a in axes]
    if not reduced:
        return T.constant(np.asarray(1, dtype="int64"))
    return reduced[0] if len(reduced) == 1 else T.mul(*reduced)


@register_specialize
@register_canonicalize
@local_optimizer([Sum, Prod])
def local_sum_prod_div_dimshuffle(node):
    """Divide after the reduction if the divisor is constant along reduced axes.

    sum(A / x.dimshuffle(0, 'x'), axis=1)  ->  sum(A, axis=1) / x          [canonicalize, specialize, fast_run]
    prod(A / x.dimshuffle(0, 'x'), axis=1)  ->  prod(A, axis=1) / x ** Shape_i(1)(A)

    For Prod, the divisor is raised to the power of the number of reduced elements. Axes along which the divisor varies
    are reduced after the division.
    """
    (x,) = node.inputs
    out = node.outputs[0]
    inputs = inputs_of(x, T.true_div)
    if inputs is None:
        return False
    numerator, denominator = inputs
    # Accept an Elemwise as the divisor, too: another rule may have lifted the DimShuffle through it. For example, a
    # batch size as a float is a Cast of a DimShuffle.
    if (
        denominator.owner is None
        or not isinstance(denominator.owner.op, (DimShuffle, Elemwise))
        or numerator.dtype != x.dtype
    ):
        return False
    axes = _axes(node)
    same = [a for a in axes if denominator.broadcastable[a]]
    if not same or out.dtype[0] not in "fc":
        return False
    left = [d for d in range(x.ndim) if d not in same]
    divisor = shuffled(denominator, left)
    if isinstance(node.op, Prod):
        divisor = T.pow(divisor, _count(numerator, same, node.fgraph))
    rval = T.true_div(with_axis(node.op, same)(numerator), divisor)
    rest = [left.index(a) for a in axes if a not in same]
    if rest:
        rval = with_axis(node.op, rest)(rval)
    return _of_same_shape(rval, out)


@register_canonicalize
@rule(reduced_along(x))
def local_sum_prod_all_to_none(x, op):
    """Write a reduction over all dimensions with ``axis=None``.

    sum(A, axis=(0, 1))  ->  sum(A)          [canonicalize, fast_run]
    """
    return with_axis(op, None)(x) if set(op.axis) == set(range(x.ndim)) else None


@register_canonicalize
@register_specialize
@local_optimizer([Sum, Prod])
def local_op_of_op(node):
    """Merge two consecutive sums (or products) into one sum (or product) over the axes of both.

    sum(sum(A, axis=0), axis=0)  ->  sum(A)          [canonicalize, specialize, fast_run]
    prod(prod(t, axis=0), axis=1)  ->  prod(t, axis=(0, 2))
    """
    (x,) = node.inputs
    out = node.outputs[0]
    # If the first reduction has other clients, it is computed anyway. Reducing its input again would cost more than it
    # saves.
    if x.owner is None or type(x.owner.op) is not type(node.op) or len(x.clients) != 1 or x.dtype != out.dtype:
        return False
    (inner,) = x.owner.inputs
    kept = [d for d in range(inner.ndim) if d not in _axes(x.owner)]
    kept = [d for i, d in enumerate(kept) if i not in _axes(node)]
    axis = [d for d in range(inner.ndim) if d not in kept]
    op = type(node.op)(
        axis=axis if kept else None, dtype=out.dtype, acc_dtype=node.op.acc_dtype or x.owner.op.acc_dtype
    )
    return _of_same_shape(op(inner), out)


@register_canonicalize
@register_uncanonicalize
@local_optimizer(ALL_REDUCE)
def local_reduce_join(node):
    """Replace a reduction along the axis of a join by an elementwise operation if all joined parts have length one.

    sum(join(0, x.dimshuffle('x', 0), y.dimshuffle('x', 0)), axis=0)  ->  x + y          [canonicalize, uncanonicalize, fast_run]
    """
    if isinstance(node.op, ProdWithoutZeros):
        return False
    (x,) = node.inputs
    if x.owner is None or not isinstance(x.owner.op, T.Join):
        return False
    join_inputs = x.owner.inputs
    join_axis = constant_value(join_inputs[0], only_process_constants=True)
    axes = _axes(node)
    if join_axis is None or len(axes) != 1 or axes[0] != int(join_axis) % x.ndim:
        return False
    axis = axes[0]
    parts = join_inputs[1:]
    if not all(p.broadcastable[axis] for p in parts):
        return False
    if len(parts) == 1 or len(parts) > 31:
        return False
    scalar_op = node.op.scalar_op
    if not isinstance(scalar_op, (scalar.Add, scalar.Mul)) and len(parts) > 2:
        # The rule replaces a join of more than two parts only for Add and Mul, which accept any number of operands.
        return False
    rest = [d for d in range(x.ndim) if d != axis]
    terms = [shuffled(p, rest) for p in parts]
    out = node.outputs[0]
    # Convert the operands, because the reduction computes in the dtype of the result.
    terms = [t if t.dtype == out.dtype else T.cast(t, out.dtype) for t in terms]
    if any(a.broadcastable != terms[0].broadcastable for a in terms[1:]):
        # The rule must keep an error: Join refuses different lengths, but the elementwise operation would broadcast
        # them.
        return False
    op = _ELEMWISE.get(type(scalar_op))
    ret = (Elemwise(scalar_op) if op is None else op)(*terms)
    if ret.dtype != out.dtype:
        return False
    return _of_same_shape(ret, out)


@register_canonicalize("fast_compile", "local_cut_useless_reduce")
@local_optimizer(ALL_REDUCE)
def local_useless_reduce(node):
    """Remove a reduction over no dimension.

    sum(x, axis=[])  ->  x          [canonicalize, fast_run, fast_compile, local_cut_useless_reduce]
    """
    if isinstance(node.op, ProdWithoutZeros):
        return False
    (x,) = node.inputs
    if x.type == node.outputs[0].type and not _axes(node):
        return [x]
    return False


@register_canonicalize
@register_uncanonicalize
@register_specialize
@local_optimizer(ALL_REDUCE)
def local_reduce_broadcastable(node):
    """Replace a reduction over dimensions of length one by a DimShuffle.

    sum(col, axis=1)  ->  col.dimshuffle(0)          [canonicalize, specialize, uncanonicalize, fast_run]
    """
    # ProdWithoutZeros maps a zero to 1. Without the reduction, the zero would remain.
    if isinstance(node.op, ProdWithoutZeros):
        return False
    (x,) = node.inputs
    out = node.outputs[0]
    axes = _axes(node)
    cut = [a for a in axes if x.broadcastable[a]]
    if not cut:
        return False
    if isinstance(node.op, (All, Any)) and x.dtype != "bool":
        return False
    kept = [d for d in range(x.ndim) if d not in cut]
    new = shuffled(x, kept)
    copy_stack_trace(out, new)
    rest = [kept.index(a) for a in axes if a not in cut]
    if rest:
        if node.op.axis is None and len(rest) == len(kept):
            rest = None
        new = with_axis(node.op, rest)(new)
    return _of_same_shape(new, out)


@register_specialize
@local_optimizer([Sum, Prod])
def local_opt_alloc(node):
    """Compute the sum or product of a repeated scalar from the number of repetitions.

    sum(alloc(two, n, j))  ->  two * (n * j)          [specialize, fast_run]
    prod(alloc(two, n))  ->  two ** n
    sum(alloc(two, n, j), axis=0)  ->  alloc(two * n, j)

    A reduction over some of the axes becomes an Alloc with the remaining lengths.
    """
    (x,) = node.inputs
    if x.owner is None or not isinstance(x.owner.op, T.Alloc):
        return False
    inp, shapes = x.owner.inputs[0], x.owner.inputs[1:]
    value = constant_value(inp, only_process_constants=True)
    if value is None:
        return False
    out = node.outputs[0]
    axes = _axes(node)
    value = np.asarray(value, dtype=out.dtype)
    reduced = [shapes[a] for a in axes]
    if not reduced:
        return False
    size = reduced[0] if len(reduced) == 1 else T.mul(*reduced)
    if out.dtype in ("float16", "float32"):
        # The product of a float16 or float32 value and an int64 size would be a float64. float16 cannot represent large
        # sizes, so the size is cast to float32 in both cases.
        size = T.cast(size, "float32")
    val = T.constant(value)
    val = val * size if isinstance(node.op, Sum) else val**size
    val = T.cast(val, out.dtype)
    others = [s for d, s in enumerate(shapes) if d not in axes]
    return _of_same_shape(T.alloc(val, *others) if others else val, out)


@register_specialize
@register_canonicalize
@rule(sum_over_1_and_2(sqr(of_x * of_y)), sum_over_1_and_2(sqr(of_y * of_x)))
def local_sumsqr2dot(x, y, out):
    """Replace a sum of squares of an outer product by a matrix product.

    sqr(W.dimshuffle('x', 0, 1) * G.dimshuffle(0, 'x', 1)).sum(axis=(1, 2))  ->  dot(sqr(G), sqr(W).sum(axis=0))
                                                               [canonicalize, specialize, fast_run]
    """
    if not x.dtype == y.dtype == out.dtype or out.dtype[0] != "f":
        return None
    # The elementwise product repeats x or y along a broadcastable dimension. A matrix product does not broadcast, so it
    # cannot replace this product.
    return None if x.broadcastable[1] or y.broadcastable[1] else T.dot(T.sqr(y), T.sqr(x).sum(axis=0))
