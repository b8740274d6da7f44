"""Functions that rewriting rules share: they examine variables, and build replacements of the right type."""

import numpy as np

from theano_ng import scalar
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.rewriting import copy_stack_trace, pattern
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.constant_rules import may_be_constant
from theano_ng.tensor.elemwise.op import DimShuffle

MAX_SHARED = 16
"""The maximum number of operands that a rule examines in parts of an expression that other nodes use, too.

Without a limit, a chain of products with other clients would be traversed again from each of its nodes.
"""


def constant_value(v, only_process_constants=False):
    """Return the number that all elements of `v` equal, as a 0-d array. Return None if they are not known to be equal.

    The function also examines the inputs of `fill`, `alloc` and broadcasting operations.
    """
    if isinstance(v, Variable) and not may_be_constant(v, operands=True):
        return None
    try:
        return get_scalar_constant_value(v, only_process_constants=only_process_constants)
    except NotScalarConstantError:
        return None


# A number in a pattern matches each variable whose elements all equal this number.
pattern.read_constants_by(constant_value)


def is_constant(v, value):
    """Return True if all elements of `v` are known to equal `value`."""
    found = constant_value(v)
    return found is not None and found == value


def computes(*scalar_ops):
    """Return a function for ``local_optimizer(..., when=)`` that tests the class of an Elemwise's scalar op.

    ``f(op)`` is true if ``op.scalar_op`` is an instance of one of `scalar_ops`.
    """
    return lambda op: isinstance(op.scalar_op, scalar_ops)


def get_constant(v):
    """Return the scalar value of a constant.

    Returns
    -------
    object or None
        `v` itself if it is not a Variable. The 0-d value if `v` is a Constant with one element, or is computed from
        such a Constant by DimShuffle nodes. None for other variables.
    """
    if not isinstance(v, Variable):
        return v
    owner = v.owner
    while owner is not None:
        if not isinstance(owner.op, DimShuffle):
            return None
        v = owner.inputs[0]
        owner = v.owner
    if not isinstance(v, Constant):
        return None
    data = v.data
    if not isinstance(data, (np.ndarray, np.generic)) or data.dtype.kind not in "biufc" or not all(v.broadcastable):
        # A constant with more elements affects the shape of the result, even if all its elements are equal.
        return None
    return np.asarray(data).reshape(())


def scalarconsts_rest(inputs, elemwise=True, only_process_constants=False):
    """Partition a list of variables into scalar constants and other variables.

    Parameters
    ----------
    inputs : list of Variable
    elemwise, only_process_constants
        See `get_scalar_constant_value`.

    Returns
    -------
    consts : list of ndarray
        Values of the constants.
    origconsts : list of Variable
        The constants.
    nonconsts : list of Variable
    """
    consts, origconsts, nonconsts = [], [], []
    for i in inputs:
        try:
            v = get_scalar_constant_value(i, elemwise=elemwise, only_process_constants=only_process_constants)
        except NotScalarConstantError:
            nonconsts.append(i)
        else:
            consts.append(v)
            origconsts.append(i)
    return consts, origconsts, nonconsts


def encompasses_broadcastable(b1, b2):
    """Return True if a tensor with pattern `b2` can be broadcast to pattern `b1`.

    Parameters
    ----------
    b1, b2 : sequence of bool
        Broadcastable patterns.

    Returns
    -------
    bool
    """
    if len(b1) < len(b2):
        return False
    b1 = b1[-len(b2) :] if len(b2) else ()
    return not any(v1 and not v2 for v1, v2 in zip(b1, b2))


def merge_broadcastables(broadcastables):
    """Return the broadcast pattern of an elementwise result.

    A dimension is broadcastable if it is broadcastable in all given patterns.
    """
    return [all(bcast) for bcast in zip(*broadcastables)]


def broadcast_like(value, template, fgraph, dtype=None):
    """Return `value` with the shape and dtype of `template`.

    Parameters
    ----------
    value : Variable or number
    template : Variable
        A variable of `fgraph`. The result does not depend on the value of `template` if the shape can be inferred.
    fgraph : FunctionGraph
    dtype : str, optional
        The dtype of the result. The default is the dtype of `template`.

    Returns
    -------
    Variable
    """
    value = T.as_tensor_variable(value)
    if value.type == template.type:
        return value
    if template not in fgraph.variables:
        raise NotImplementedError("broadcast_like currently requires the template Variable to be in the fgraph already")
    if dtype is None:
        dtype = template.dtype
    value = T.cast(value, dtype)
    if value.type == template.type:
        return value
    shape_feature = getattr(fgraph, "shape_feature", None)
    if shape_feature is not None:
        new_shape = shape_feature.shape_of[template]
    else:
        new_shape = [template.shape[i] for i in range(template.ndim)]
    rval = T.alloc(value, *new_shape)
    # Restore the pattern of `template`: `alloc` also makes dimensions broadcastable whose inferred length is 1.
    axes = [i for i in range(rval.ndim) if rval.broadcastable[i] and not template.broadcastable[i]]
    if axes:
        rval = T.unbroadcast(rval, *axes)
    return rval


def _fill_chain(new_out, orig_inputs):
    for i in orig_inputs:
        new_out = T.fill(i, new_out)
    return [new_out]


def with_type(new, old):
    """Convert `new`, which has the shape of `old`, to the type of `old`. Return None if this is impossible."""
    if new.type.dtype != old.type.dtype:
        new = T.cast(new, old.type.dtype)
    if new.type != old.type:
        try:
            new = old.type.filter_variable(new)
        except TypeError:
            return None
    copy_stack_trace(old, new)
    return new


def as_output(new, old):
    """Convert `new` to the type of `old`. Return None if this is impossible.

    Parameters
    ----------
    new : Variable
        The replacement for `old`. Its shape must equal the shape of `old`, or be broadcastable to it.
    old : Variable
        An output of an elementwise node.
    """
    if new.type.dtype != old.type.dtype:
        new = T.cast(new, old.type.dtype)
    if new.type.broadcastable != old.type.broadcastable:
        if old.owner is None or new.ndim > old.ndim:
            return None
        new = fill_like_inputs(new, old.owner.inputs)
    return with_type(new, old)


def rule_result(new, old):
    """Return the result of a rule: ``[as_output(new, old)]``, or False if `as_output` returns None."""
    new = as_output(new, old)
    return False if new is None else [new]


def fill_like_inputs(new, inputs):
    """Broadcast `new` to the shape of the result of an elementwise operation on `inputs`."""
    pattern_ = tuple(merge_broadcastables([i.broadcastable for i in inputs]))
    if all(pattern_):
        return T.shape_padleft(new, len(pattern_) - new.ndim) if new.ndim < len(pattern_) else new
    for i in inputs:
        if tuple(i.broadcastable) == pattern_:
            return T.fill(i, new)
    # No input has the full shape. If an input has more dimensions than `new`, or a dimension that is not broadcastable,
    # fill the shape of this input with `new`.
    for i in dict.fromkeys(inputs):
        if new.ndim < i.ndim or not all(i.broadcastable):
            new = T.fill(i, new)
    return new


def shuffled(v, order):
    """Return ``v.dimshuffle(order)``. If DimShuffle nodes compute `v`, merge them into one DimShuffle."""
    order = list(order)
    while v.owner is not None and isinstance(v.owner.op, DimShuffle):
        inner = v.owner.op.new_order
        order = ["x" if o == "x" else inner[o] for o in order]
        v = v.owner.inputs[0]
    return v if order == list(range(v.ndim)) else v.dimshuffle(*order)


def inputs_of(v, op):
    """Return the inputs of the node that computes `v` if its op is `op`; otherwise return None."""
    return v.owner.inputs if v.owner is not None and v.owner.op == op else None


def op_of(v):
    """Return the op that computes `v`, or None if `v` has no owner."""
    return None if v.owner is None else v.owner.op


def in_dtype(op, operands, dtype):
    """Return ``op(*operands)``. Compute it in `dtype` if the operands would otherwise give a narrower dtype."""
    operands = [T.as_tensor_variable(o) for o in operands]
    if dtype is not None and scalar.upcast(dtype, *[o.dtype for o in operands]) == dtype:
        if dtype == "bool" or any(o.dtype != "bool" for o in operands):  # some operations refuse booleans
            result = op(*operands)
            if result.dtype == dtype:
                return result
        operands[0] = T.cast(operands[0], dtype)
    return op(*operands)


def overflowed(results, numbers, products):
    """Return True if arithmetic with the constants of an expression overflows or underflows.

    In this case, a rule must not combine the constants, because the value of the whole expression may be finite.

    Parameters
    ----------
    results, numbers : sequence of array_like
        The computed constants, and the constants from which they were computed.
    products : bool
        Whether the results are products or quotients. A zero result is then an underflow, unless one of the numbers is
        zero.
    """
    if not all(np.all(np.isfinite(n)) for n in numbers):
        return False
    if not all(np.all(np.isfinite(r)) for r in results):
        return True
    return (
        products and not any(np.any(np.equal(n, 0)) for n in numbers) and any(np.any(np.equal(r, 0)) for r in results)
    )


def reuse_existing(v):
    """Return an existing variable of the graph that has the same op and inputs as the new variable `v`, or else `v`.

    A rule may move a node along a chain of variables, although an equal node already reads each of these variables.
    Without this function, the rule would create a copy of the node at each variable, and then move each copy further.
    Only the first `MAX_SHARED` clients are compared.
    """
    node = v.owner
    for client, _ in getattr(node.inputs[0], "clients", ())[:MAX_SHARED]:
        if client != "output" and client.op == node.op and client.inputs == node.inputs:
            return client.outputs[v.index]
    return v


def is_an_upcast(type1, type2):
    """Return True if the dtypes differ, and a cast from `type1` to `type2` preserves every value.

    Parameters
    ----------
    type1, type2 : str
        Bool counts as narrower than integers, and integers as narrower than floats. This differs from
        ``scalar.upcast``.

    Returns
    -------
    bool
    """
    category = {
        # dtype -> (rank of its kind, precision)
        "bool": (0, 0),
        "uint8": (1, 1),
        "uint16": (1, 2),
        "uint32": (1, 3),
        "uint64": (1, 4),
        "int8": (2, 1),
        "int16": (2, 2),
        "int32": (2, 3),
        "int64": (2, 4),
        "float16": (3, 1.5),
        "float32": (3, 2.5),
        "float64": (3, 3.5),
        "complex64": (4, 3),
        "complex128": (4, 4),
    }
    cat1, cat2 = category[type1], category[type2]
    return cat2[0] >= cat1[0] and cat2[1] > cat1[1]


def is_inverse_pair(node_op, prev_op, inv_pair):
    """Return True if two consecutive ops are the given pair of inverse functions, in either order.

    Parameters
    ----------
    node_op, prev_op : ScalarOp
        The outer op and the inner op.
    inv_pair : pair of ScalarOp classes
    """
    node_is_op0, node_is_op1 = (isinstance(node_op, cls) for cls in inv_pair)
    prev_is_op0, prev_is_op1 = (isinstance(prev_op, cls) for cls in inv_pair)
    return (node_is_op0 and prev_is_op1) or (node_is_op1 and prev_is_op0)


def get_clients(node):
    """Return the nodes that read the first output of `node`.

    With this function a rule can be tried on rare inner ops instead of a frequent outer op.
    """
    return [c for c, i in node.outputs[0].clients if c != "output"]


def get_clients2(node):
    """Return the nodes that read an output of a client of the first output of `node`."""
    return [
        c2
        for c, i in node.outputs[0].clients
        if c != "output"
        for out in c.outputs
        for c2, _ in out.clients
        if c2 != "output"
    ]
