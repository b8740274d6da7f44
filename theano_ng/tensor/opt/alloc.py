"""Rules for tensors that are filled with a value: they move or remove `fill` and `Alloc`."""

from theano_ng.compile import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.rewriting import copy_stack_trace, in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.assert_op import assert_op
from theano_ng.tensor.elemwise.divisors import integer_divisors
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.opt.patterns import Rest, names, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize, register_stabilize
from theano_ng.tensor.opt.shape import lengths, same_length
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty, SumToShape

x, y = names("x", "y")
sizes = Rest("sizes")
fill, filled, function, summed, undefined = terms(T.fill, Alloc, Elemwise, SumToShape, AllocEmpty)


def fitted(new, old):
    """Return ``[new]``, converted to the type of `old`. Return None if the types do not match.

    `new` may have more broadcastable dimensions than `old`, because a rule may have found that a length is 1.
    """
    flags = [i for i in range(old.ndim) if new.broadcastable[i] and not old.broadcastable[i]]
    if flags:
        new = T.unbroadcast(new, *flags)
    if new.type != old.type:
        return None
    copy_stack_trace(old, new)
    return [new]


# -- fill --------------------------------------------------------------------------------------------------------------------


def _is_fill(v):
    return v.owner is not None and v.owner.op == T.fill


def _adds_shape(model, v):
    """Return True if ``fill(model, v)`` can be longer than `v` in some dimension."""
    return any(b and not a for a, b in zip(model.broadcastable, v.broadcastable))


def _is_plain_elemwise(node):
    """Return True if an elementwise node may be applied to one value instead of many equal values.

    Return False if the node may divide an integer by zero. For an array without elements, the division by zero does not
    happen, but the division of the one value would raise an error.
    """
    return (
        isinstance(node.op, Elemwise)
        and len(node.outputs) == 1
        and not node.op.inplace_pattern
        and node.op != T.fill
        and not integer_divisors(node)
    )


@register_canonicalize
@local_optimizer([Elemwise])
def local_fill_sink(node):
    """Apply an elementwise operation to the values that tensors are filled with, and fill the result if necessary.

    fill(x, s) + y  ->  s + y          [canonicalize, fast_run]
    exp(fill(x, s))  ->  fill(x, exp(s.dimshuffle('x')))
    """
    if not any(_is_fill(i) for i in node.inputs) or not _is_plain_elemwise(node):
        return False
    models, below, result = [], None, None
    # Process a whole chain of operations at once. Otherwise each operation would take another pass over the graph.
    while True:
        inputs = []
        for i in node.inputs:
            if i is below:
                inputs.append(result)
            elif _is_fill(i):
                models.append(i.owner.inputs[0])
                inputs.append(i.owner.inputs[1])
            else:
                inputs.append(i)
        below = node.outputs[0]
        result = node.op(*inputs)
        copy_stack_trace(below, result)
        models = [m for m in models if _adds_shape(m, result)]
        clients = below.clients
        if not models or len(clients) != 1 or clients[0][0] == "output" or not _is_plain_elemwise(clients[0][0]):
            break
        node = clients[0][0]
    for model in reversed(models):
        if _adds_shape(model, result):
            result = T.fill(model, result)
            copy_stack_trace(below, result)
    if result.type != below.type:
        return False
    return {below: result}


@register_canonicalize("fast_compile")
@rule((fill(y, x), x), same_type=True)
def local_useless_fill():
    """Remove a `fill` whose value has the broadcast pattern of the result, and therefore the shape of the result."""


@register_specialize
@register_stabilize
@rule(fill(y, x))
def local_fill_to_alloc(x, node, out):
    """Replace `fill` by Alloc, so that the value of the variable that gives the shape is no longer needed.

    fill(x, s)  ->  alloc(s.dimshuffle('x'), Shape_i(0)(x))          [stabilize, specialize, fast_run]
    """
    if x.type == out.type:
        return x
    shape = lengths(out, node.fgraph) if hasattr(node.fgraph, "shape_feature") else _shape_of_fill(node)
    return fitted(T.alloc(x, *shape), out)


def _shape_of_fill(node):
    """Return the shape of a `fill` in terms of the shapes of its inputs."""
    s, v = node.inputs
    return [s.shape[i] if v.broadcastable[i] else v.shape[i] for i in range(v.ndim)]


optdb.register("local_fill_to_alloc", in2out(local_fill_to_alloc), 1.51, "fast_run")


# -- Alloc -------------------------------------------------------------------------------------------------------------------


def _has_shape(node):
    """Return True if the first input of a node has the type of the output and the lengths given by the other inputs."""
    x, out = node.inputs[0], node.outputs[0]
    if x.type != out.type:
        return False
    if all(x.broadcastable):
        return True
    given = lengths(x, node.fgraph)
    return all(flag or same_length(a, b) for flag, a, b in zip(x.broadcastable, given, node.inputs[1:]))


@register_specialize
@register_stabilize
@register_canonicalize
@rule((filled(x, sizes), x), provided=_has_shape)
def local_useless_alloc():
    """Remove an Alloc whose value already has the requested shape.

    Alloc()(x, Shape_i(0)(x))  ->  x          [canonicalize, stabilize, specialize, fast_run]

    If the shapes are not known to be equal, the Alloc stays: it repeats dimensions whose length is one at run time, or
    raises an error.
    """


@register_specialize
@register_stabilize
@register_canonicalize
@rule((summed(x, sizes), x), provided=_has_shape)
def local_useless_sum_to_shape():
    """Remove a SumToShape, which gradients of broadcasts contain, if its input already has the requested shape.

    sum_to_shape(exp(x), Shape_i(0)(x))  ->  exp(x)          [canonicalize, stabilize, specialize, fast_run]

    If the lengths are not known to be equal, the SumToShape stays, and compares the lengths at run time.
    """


@register_specialize
@register_stabilize
@register_canonicalize
@local_optimizer([Alloc])
def local_canonicalize_alloc(node):
    """Let a DimShuffle, instead of the Alloc, add new dimensions of length one on the left.

    alloc(s, 1, 1, n)  ->  alloc(s, n).dimshuffle('x', 'x', 0)          [canonicalize, stabilize, specialize, fast_run]
    """
    x, sizes, out = node.inputs[0], node.inputs[1:], node.outputs[0]
    if any(client != "output" and isinstance(client.op, Alloc) for client, _ in out.clients):
        return False  # `local_merge_alloc` handles this case.
    added = 0
    while added < len(sizes) - x.ndim and out.broadcastable[added]:
        added += 1
    if added == 0:
        return False
    sizes = sizes[added:]
    pattern = out.broadcastable[added:]
    if x.broadcastable == pattern and all(pattern):
        inner = x
    else:
        inner = T.alloc(x, *sizes)
        copy_stack_trace(out, inner)
    return fitted(inner.dimshuffle(*["x"] * added + list(range(len(sizes)))), out) or False


@register_specialize
@register_stabilize
@register_canonicalize
@rule(filled(filled(x, Rest("inner_sizes")), sizes))
def local_merge_alloc(sizes, node, out):
    """Merge consecutive Allocs.

    alloc(alloc(s, n), j, n)  ->  alloc(s, j, n)          [canonicalize, stabilize, specialize, fast_run]
    alloc(alloc(s, j, 1, n), j, i, n)  ->  alloc(s, j, i, n)

    If the lengths of the two Allocs are not known to be equal, an assertion replaces the check by the outer Alloc.
    """
    x, merged = node.inputs[0], list(sizes)
    while x.owner is not None and isinstance(x.owner.op, Alloc):
        inner, *inner_sizes = x.owner.inputs
        both = _lengths_of_both(x, inner_sizes, merged)
        if both is None:
            break
        x, merged = inner, both
    if x is node.inputs[0]:
        return None
    return fitted(T.alloc(x, *merged), out)


def _lengths_of_both(inner, inner_sizes, sizes):
    """Return the lengths of an Alloc of another Alloc, with the assertion that makes the inner Alloc unnecessary.

    Return None if an assertion is necessary and the inner Alloc is computed anyway, for its other clients.
    """
    sizes = list(sizes)
    value = inner.owner.inputs[0]
    first = len(sizes) - len(inner_sizes)
    for d, size in enumerate(inner_sizes, -len(inner_sizes)):
        i = first + d + len(inner_sizes)
        if same_length(size, sizes[i]):
            continue
        repeats = -d > value.ndim or value.broadcastable[d]
        if repeats and inner.broadcastable[d]:
            continue
        if len(inner.clients) > 1:
            return None
        # The Allocs can be merged if their lengths in this dimension are equal, or if the inner Alloc and its value
        # have length 1.
        ones = [] if inner.broadcastable[d] else [T.eq(size, 1)]
        ones += [] if repeats else [T.eq(value.shape[d], 1)]
        condition = ones[0] if len(ones) == 1 else T.and_(*ones)
        sizes[i] = assert_op(sizes[i], condition if inner.broadcastable[d] else T.or_(T.eq(size, sizes[i]), condition))
    return sizes


@rule(undefined(sizes))
def local_alloc_empty_to_zeros(sizes, out):
    """Replace AllocEmpty by zeros, so that undefined content cannot cause the NaN whose origin a user looks for.

    AllocEmpty('float64')(n, j)  ->  zeros((n, j))          [alloc_empty_to_zeros]
    """
    return fitted(T.zeros(sizes, dtype=out.dtype), out)


optdb.register("local_alloc_empty_to_zeros", in2out(local_alloc_empty_to_zeros), 49.3, "alloc_empty_to_zeros")


@register_specialize
@rule(function(filled(x, sizes)), provided=_is_plain_elemwise)
def local_alloc_unary(op, x, sizes, out):
    """Apply a function to a value before Alloc repeats the value, instead of to all repeated elements.

    exp(alloc(s, n, j))  ->  alloc(exp(s), n, j)          [specialize, fast_run]
    """
    return fitted(T.alloc(op(x), *sizes), out)


def local_elemwise_alloc_op(ElemwiseOP, AllocOP, DimShuffleOP):
    """Make a variant of the rule `local_elemwise_alloc` for other Op classes.

    Parameters
    ----------
    ElemwiseOP, AllocOP, DimShuffleOP : class
        `Elemwise`, `Alloc` and `DimShuffle`, or classes with their interfaces.

    Returns
    -------
    callable
        A function of a node; it must be wrapped by ``local_optimizer([ElemwiseOP])``.
    """

    def value_of(v):
        """Return the value that an Alloc repeats, padded to the rank of `v`. Return None for other variables.

        If `v` is a DimShuffle of an Alloc, return the value after the same DimShuffle.
        """
        node = v.owner
        if node is None:
            return None
        if isinstance(node.op, AllocOP):
            value = node.inputs[0]
            return value if value.ndim == v.ndim else value.dimshuffle(*_padded(value.ndim, v.ndim))
        if (
            not isinstance(node.op, DimShuffleOP)
            or node.inputs[0].owner is None
            or not isinstance(node.inputs[0].owner.op, AllocOP)
        ):
            return None
        filled, value = node.inputs[0], node.inputs[0].owner.inputs[0]
        if filled.broadcastable == value.broadcastable:
            return None
        if value.ndim != filled.ndim:
            value = value.dimshuffle(*_padded(value.ndim, filled.ndim))
        if not all(value.broadcastable[d] for d in range(value.ndim) if d not in node.op.new_order):
            return None  # The value is not known to have length 1 in a dropped dimension.
        return value.dimshuffle(*node.op.new_order)

    def repeats(value, filled):
        """Return True if `value` has all broadcastable dimensions of `filled`, and at least one more."""
        return value.broadcastable != filled.broadcastable and all(
            one or not wanted for one, wanted in zip(value.broadcastable, filled.broadcastable)
        )

    def local_elemwise_alloc(node):
        """Remove the Allocs of operands of elementwise operations, because these operations broadcast their operands.

        alloc(s, Shape_i(0)(x)) + x  ->  s + x          [specialize, fast_run, local_alloc_elemwise]

        If the flag `config.experimental.local_alloc_elemwise_assert` is set, assertions check at run time the lengths
        that are not known to be equal. Without the flag, the rule also applies, but nothing checks these lengths.
        """
        if len(node.inputs) < 2:
            return False
        if not any(i.owner is not None and isinstance(i.owner.op, (AllocOP, DimShuffleOP)) for i in node.inputs):
            return False
        pattern = node.outputs[0].broadcastable
        if all(pattern) or any(o.broadcastable != pattern for o in node.outputs):
            return False
        values = [value_of(i) for i in node.inputs]
        values = [None if v is None or not repeats(v, i) else v for v, i in zip(values, node.inputs)]
        whole = [k for k, i in enumerate(node.inputs) if i.broadcastable == pattern]
        if not whole or all(v is None for v in values):
            return False
        # One operand has to keep the full shape, which the result gets. Prefer an operand that is not an Alloc.
        model = next((k for k in whole if values[k] is None), whole[0])
        values[model] = None
        if all(v is None for v in values):
            return False
        guarded, conditions = node.inputs[model], []
        if config.experimental.local_alloc_elemwise_assert:
            model_shape = lengths(guarded, node.fgraph)
            for v, i in zip(values, node.inputs):
                if v is None:
                    continue
                for d, (a, b) in enumerate(zip(lengths(i, node.fgraph), model_shape)):
                    if not i.broadcastable[d] and not same_length(a, b):
                        conditions.append(T.eq(a, b))
        inputs = [i if v is None else v for v, i in zip(values, node.inputs)]
        if conditions:
            inputs[model] = assert_op(guarded, *conditions)
            copy_stack_trace(guarded, inputs[model])
        for v, i in zip(values, node.inputs):
            if v is not None:
                copy_stack_trace(i, v)
        new = node.op(*inputs, return_list=True)
        if [n.type for n in new] != [o.type for o in node.outputs]:
            return False
        copy_stack_trace(node.outputs, new)
        return new

    return local_elemwise_alloc


def _padded(ndim, wanted):
    return ["x"] * (wanted - ndim) + list(range(ndim))


local_elemwise_alloc = register_specialize(
    local_optimizer([Elemwise])(local_elemwise_alloc_op(Elemwise, Alloc, DimShuffle)), "local_alloc_elemwise"
)
optdb.register("local_elemwise_alloc", in2out(local_elemwise_alloc), 1.52, "fast_run")
