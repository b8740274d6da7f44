"""Rules that move DimShuffle and Rebroadcast towards the inputs, where consecutive nodes merge or cancel."""

from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.linalg.products import _dot
from theano_ng.tensor.opt.common import shuffled
from theano_ng.tensor.opt.lift import lifted_through_functions, lifts
from theano_ng.tensor.opt.patterns import alone, dimshuffled, names, rule, terms, typed
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize


def is_dimshuffle_useless(new_order, input):
    """Return True if a DimShuffle changes nothing: it moves no dimensions, or only dimensions of length one.

    Parameters
    ----------
    new_order : sequence of {int, 'x'}
    input : Variable

    Returns
    -------
    bool
    """
    pattern = input.type.broadcastable
    if len(new_order) != len(pattern):
        return False
    return all(d == i or (pattern[i] and (d == "x" or pattern[d])) for i, d in enumerate(new_order))


def apply_local_dimshuffle_lift(var):
    """Apply `local_dimshuffle_lift` to one variable until nothing changes.

    Parameters
    ----------
    var : Variable

    Returns
    -------
    Variable
        `var` itself if the rule does not apply.
    """
    while var.owner is not None:
        lifted = local_dimshuffle_lift.transform(var.owner)
        if not lifted:
            break
        var = lifted[0]
    return var


@register_canonicalize
@register_specialize
@local_optimizer([DimShuffle], requirements=[lifts(DimShuffle)])
def local_dimshuffle_lift(node):
    """Move a DimShuffle through elementwise operations, merge consecutive DimShuffles, and remove useless DimShuffles.

    (A + B).T  ->  A.T + B.T          [canonicalize, specialize, fast_run]
    A.dimshuffle(1, 'x', 0).dimshuffle(0, 2)  ->  A.T
    A.dimshuffle(0, 1)  ->  A
    """
    x, out, order = node.inputs[0], node.outputs[0], node.op.new_order
    if is_dimshuffle_useless(order, x):
        return [x] if x.type == out.type else False
    inner = x.owner
    if inner is None:
        return False
    if isinstance(inner.op, DimShuffle):
        new = shuffled(x, order)
        if new.type != out.type:
            return False
        copy_stack_trace(out, new)
        return [new]
    # Do not move the DimShuffle through a node whose result has other clients: the node would be computed twice. A
    # variable that is not yet in a graph has no attribute `clients`, and counts as having no other clients.
    if (
        not isinstance(inner.op, Elemwise)
        or len(inner.outputs) != 1
        or inner.op.inplace_pattern
        or len(getattr(x, "clients", ())) > 1
    ):
        return False
    if len(inner.inputs) == 1:
        lifted = lifted_through_functions(node)
        return lifted and [lifted]
    inputs = []
    for i in inner.inputs:
        shuffled_input = shuffled(i, order)
        if shuffled_input is not i:
            copy_stack_trace(out, shuffled_input)
        inputs.append(shuffled_input)
    new = inner.op(*inputs)
    if new.type != out.type:
        return False
    copy_stack_trace([x, out], new)
    return [new]


@register_specialize
@local_optimizer([DimShuffle])
def local_dimshuffle_of_number(node):
    """Compute a function of a 0-d variable without adding dimensions and removing them again.

    cast(n.dimshuffle('x'), 'float64').dimshuffle()  ->  cast(n, 'float64')          [specialize, fast_run]

    Other clients of the old result read the new result through a DimShuffle that adds the dimensions.
    """
    (x,), out = node.inputs, node.outputs[0]
    if (
        out.ndim
        or x.owner is None
        or not isinstance(x.owner.op, Elemwise)
        or len(x.owner.inputs) != 1
        or x.owner.op.inplace_pattern
    ):
        return False
    (given,) = x.owner.inputs
    if given.owner is None or not isinstance(given.owner.op, DimShuffle) or given.owner.inputs[0].ndim:
        return False
    number = x.owner.op(given.owner.inputs[0])
    copy_stack_trace([x, out], number)
    around = copy_stack_trace(x, shuffled(number, ("x",) * x.ndim))
    if number.type != out.type or around.type != x.type:
        return False
    return {out: number, x: around}


x, y = names("x", "y")
dot, rebroadcast = terms(_dot, Rebroadcast)


@register_canonicalize
@rule(dimshuffled(alone(dot(typed(x, ndim=2), typed(y, ndim=2))), 1, 0))
def local_lift_transpose_through_dot(x, y, node):
    """Replace the transpose of a matrix product by the product of the transposes.

    dot(A, B).T  ->  dot(B.T, A.T)          [canonicalize, fast_run]
    """
    return copy_stack_trace(node.inputs[0], T.dot(shuffled(y, (1, 0)), shuffled(x, (1, 0))))


# -- Rebroadcast -------------------------------------------------------------------------------------------------------------


@register_canonicalize
@register_specialize
@rule(rebroadcast(x))
def local_useless_rebroadcast(x, op):
    """Remove from a Rebroadcast the dimensions whose broadcast flag does not change.

    Rebroadcast((0, False))(x)  ->  x          [canonicalize, specialize, fast_run]
    """
    changed = [(i, flag) for i, flag in op.axis.items() if flag != x.type.broadcastable[i]]
    if not changed:
        return x
    return Rebroadcast(*changed)(x) if len(changed) < len(op.axis) else None


@register_canonicalize
@register_specialize
@local_optimizer([Rebroadcast])
def local_rebroadcast_lift(node):
    """Move a Rebroadcast through functions of one variable, and merge consecutive Rebroadcasts.

    Rebroadcast((0, False))(exp(row))  ->  exp(Rebroadcast((0, False))(row))          [canonicalize, specialize, fast_run]
    Rebroadcast((0, False))(Rebroadcast((1, False))(one))  ->  Rebroadcast((1, False), (0, False))(one)
    Rebroadcast((1, False))(Rebroadcast((0, False), (1, True))(one))  ->  Rebroadcast((0, False), (1, False))(one)

    If a dimension is broadcastable only in the variable between two Rebroadcasts, the merged node no longer checks that
    this dimension has length one.
    """
    if node.inputs[0].owner is None:
        return False
    between, out = node.inputs[0], node.outputs[0]
    inner = between.owner
    if (
        isinstance(inner.op, Elemwise)
        and len(inner.inputs) == 1
        and len(inner.outputs) == 1
        and not inner.op.inplace_pattern
    ):
        if len(getattr(between, "clients", ())) > 1:
            return False
        moved = Rebroadcast(*node.op.axis.items())(inner.inputs[0])
        copy_stack_trace(out, moved)
        new = inner.op(moved)
    elif isinstance(inner.op, Rebroadcast):
        new = Rebroadcast(*{**inner.op.axis, **node.op.axis}.items())(inner.inputs[0])
    else:
        return False
    if new.type != out.type:
        return False
    copy_stack_trace([between, out], new)
    return [new]


def apply_rebroadcast_opt(rval):
    """Apply `local_useless_rebroadcast` and `local_rebroadcast_lift` to one variable until nothing changes.

    Parameters
    ----------
    rval : Variable

    Returns
    -------
    Variable
        `rval` itself if neither rule applies.
    """
    changed = True
    while changed and rval.owner is not None:
        changed = False
        for one in (local_useless_rebroadcast, local_rebroadcast_lift):
            result = one.transform(rval.owner) if rval.owner is not None else False
            if result:
                assert len(result) == 1
                rval, changed = result[0], True
    return rval
