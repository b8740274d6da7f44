"""Differentiation of graphs: `grad`, `subgraph_grad`, `Lop`, `Rop`.

Gradients are propagated from Op to Op by `L_op` and `R_op`. This module does not depend on tensors. Its functions are
documented as members of `theano_ng.gradient`.
"""

from __future__ import annotations

import time
import warnings
from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, overload

from theano_ng.configdefaults import config
from theano_ng.gof import ports, utils
from theano_ng.gof.derivative import DisconnectedType, NullTypeGradError, disconnected_type, is_absent
from theano_ng.gof.graph import Variable
from theano_ng.gof.null_type import NullType
from theano_ng.gof.op import PureOp, get_test_value
from theano_ng.gof.traversal import io_connection_pattern

if TYPE_CHECKING:
    from theano_ng.tensor.var import TensorVariable

# The number of seconds spent in `grad`, for profiles.
grad_time: float = 0


Shortcut = namedtuple("Shortcut", "inputs passed gradients")
"""An alternative way to differentiate a node with one output.

An Op may offer it in a method ``shortcut(node)``, which returns a Shortcut or None.

inputs : list of Variable
    Variables that determine the output. They need not be inputs of the node.
passed : list of Variable
    The variables between `inputs` and the output. The shortcut is not used if the gradient of one of these
    variables is requested.
gradients : function of Variable -> list of Variable
    A function that takes the gradient of the output and returns the gradients of `inputs`, summed over all paths
    through `passed`.
"""


class DisconnectedInputError(ValueError):
    """Error raised by `grad` if the cost does not depend on a variable of `wrt`."""


# ---------------------------------------------------------------- small helpers


def format_as(use_list: bool, use_tuple: bool, outputs: Any) -> Any:
    """Return outputs as a list, as a tuple, or as a single object.

    Parameters
    ----------
    use_list, use_tuple : bool
        At most one of them is true.
    outputs : object or list
        If a list or tuple is requested, a single output becomes its only element.

    Returns
    -------
    list, tuple or object
        A list or tuple, if a flag is True. Otherwise `outputs`, or its only element if it is a list or tuple.
    """
    if use_list and use_tuple:
        raise ValueError("Both flags cannot be simultaneously True")
    if use_list or use_tuple:
        if isinstance(outputs, (list, tuple)):
            return list(outputs) if use_list else tuple(outputs)
        return [outputs] if use_list else (outputs,)
    if isinstance(outputs, (list, tuple)):
        if len(outputs) != 1:
            raise ValueError("Wrong arguments. Expected a one element list; got %d elements" % len(outputs))
        return outputs[0]
    return outputs


def as_list(things: Any) -> list[Any]:
    return list(things) if isinstance(things, (list, tuple)) else [things]


def _is_discrete(dtype):
    """Return True if a dtype has no derivatives, because it is an integer or bool."""
    return isinstance(dtype, str) and dtype.startswith(("int", "uint", "bool"))


def _is_continuous(dtype):
    return isinstance(dtype, str) and dtype.startswith(("float", "complex"))


def _float_zeros_like(x):
    """Return zeros of a variable's shape, in its dtype if this is a floating point dtype, otherwise in floatX."""
    dtype = x.type.dtype
    return x.zeros_like(dtype=dtype if _is_continuous(dtype) else config.floatX)


def _float_ones_like(x):
    """Return ones of a variable's shape, in its dtype if this is a floating point dtype, otherwise in floatX."""
    dtype = x.type.dtype
    return x.ones_like(dtype=dtype if _is_continuous(dtype) else config.floatX)


def is_zero(x):
    """Determine if a gradient is zero.

    Returns
    -------
    {'yes', 'no', 'maybe'}
        'maybe' means that the gradient is not known to be a constant.
    """
    if not hasattr(x, "type"):
        return "yes" if (x == 0) is True or getattr(x == 0, "all", lambda: False)() else "no"
    if isinstance(x.type, NullType):
        return "no"
    if isinstance(x.type, DisconnectedType):
        return "yes"
    constant = ports.constant_value(x)
    if constant is None:
        return "maybe"
    return "no" if constant.any() else "yes"


def _node_to_pattern(node):
    """Return the connection pattern of a node. By default, all outputs depend on all inputs.

    ``pattern[input][output]`` is True if the output depends differentiably on the input.
    """
    if not hasattr(node.op, "connection_pattern"):
        return [[True] * len(node.outputs) for _ in node.inputs]
    pattern = node.op.connection_pattern(node)
    if not isinstance(pattern, list):
        raise TypeError(
            "Op.connection_pattern should return list of list of bool, but for Op=%s got %s with type %s."
            % (node.op, pattern, type(pattern))
        )
    if len(pattern) != len(node.inputs):
        raise ValueError(
            "%s.connection_pattern should have %d rows but has %d." % (node.op, len(node.inputs), len(pattern))
        )
    for i, row in enumerate(pattern):
        if not isinstance(row, list):
            raise TypeError(
                "%s.connection_pattern should return a list of lists, but element %d is %s of type %s."
                % (node.op, i, row, type(row))
            )
        if len(row) != len(node.outputs):
            raise ValueError(
                "%s.connection_pattern should have %d columns but row %d has %d."
                % (node.op, len(node.outputs), i, len(row))
            )
    return pattern


def _check_policy(value, name, allowed):
    if value not in allowed:
        raise ValueError(
            "Invalid value for keyword '%s': %r. Valid values are %s."
            % (name, value, ", ".join("'%s'" % a for a in allowed))
        )


# ---------------------------------------------------------------- grad


@overload
def grad(
    cost: Variable | None,
    wrt: Variable,
    consider_constant: Sequence[Variable] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Any, Variable] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
) -> TensorVariable: ...


@overload
def grad(
    cost: Variable | None,
    wrt: list[Any],
    consider_constant: Sequence[Variable] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Any, Variable] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
) -> list[TensorVariable]: ...


@overload
def grad(
    cost: Variable | None,
    wrt: tuple[Any, ...],
    consider_constant: Sequence[Variable] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Any, Variable] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
) -> tuple[TensorVariable, ...]: ...


def grad(
    cost: Variable | None,
    wrt: Any,
    consider_constant: Sequence[Variable] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Any, Variable] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
) -> Any:
    """Return the gradients of a scalar with respect to one or several variables.

    Parameters
    ----------
    cost : Variable or None
        A 0-d variable. None is allowed together with `known_grads`.
    wrt : Variable, or list or tuple of Variable
    consider_constant : list of Variable, optional
        Variables through which gradients are not propagated.
    disconnected_inputs : {'raise', 'warn', 'ignore'}
        The action if the cost does not depend (differentiably) on a variable of `wrt`. 'raise' raises
        DisconnectedInputError. 'warn' uses a gradient of zero and shows a warning. 'ignore' uses a gradient of zero.
    add_names : bool
        Whether to name each gradient ``(d<cost>/d<wrt>)`` if both variables have names.
    known_grads : dict, optional
        Variable -> known gradient (an ordered mapping). Without a cost, back-propagation starts from these gradients.
        With a cost, they replace the computed gradients of these variables.
    return_disconnected : {'zero', 'None', 'Disconnected'}
        The gradient of a disconnected variable: ``wrt[i].zeros_like()``, None, or a variable of DisconnectedType.
    null_gradients : {'raise', 'return'}
        The action for a derivative that does not exist: raise NullTypeGradError, or return a variable of NullType.

    Returns
    -------
    Variable, list or tuple
        The same kind of container as `wrt`.

    Raises
    ------
    DisconnectedInputError, NullTypeGradError
    TypeError
        If the cost is not a scalar, or if an argument that must be a variable is not a variable.
    """
    global grad_time
    start = time.perf_counter()
    _check_policy(disconnected_inputs, "disconnected_inputs", ("ignore", "warn", "raise"))
    _check_policy(return_disconnected, "return_disconnected", ("zero", "None", "Disconnected"))
    _check_policy(null_gradients, "null_gradients", ("raise", "return"))
    _check_cost(cost, known_grads)
    using_list, using_tuple = isinstance(wrt, list), isinstance(wrt, tuple)
    wrt = as_list(wrt)
    for elem in wrt:
        if not isinstance(elem, Variable):
            raise TypeError("Expected Variable, got %s of type %s" % (elem, type(elem)))
    grad_dict = {} if cost is None else {cost: _float_ones_like(cost)}
    outputs = list(grad_dict) + list(known_grads or ())
    for var, g_var in (known_grads or {}).items():
        _check_known_gradient(var, g_var)
        # Do not refuse a nonzero gradient of an integer variable: the Op that computes the variable does not propagate
        # the gradient.
        grad_dict[var] = g_var

    shortcuts: dict[Any, Any] = {}
    var_to_app_to_idx = _populate_var_to_app_to_idx(outputs, wrt, consider_constant, shortcuts)
    for elem in wrt:
        if elem not in var_to_app_to_idx and elem not in grad_dict:
            _report_disconnected(elem, disconnected_inputs)
            grad_dict[elem] = disconnected_type()
    named = cost.name if add_names and cost is not None else None
    rval = _populate_grad_dict(var_to_app_to_idx, grad_dict, wrt, named, shortcuts)
    for i, g in enumerate(rval):
        if isinstance(g.type, NullType):
            if null_gradients == "raise":
                raise getattr(g.type, "error", NullTypeGradError)("tensor.grad encountered a NaN. " + g.type.why_null)
        elif isinstance(g.type, DisconnectedType):
            if wrt[i] in var_to_app_to_idx:
                # The variable is disconnected although the connection patterns connect it to the cost: no Op returned a
                # connected gradient.
                _report_disconnected(wrt[i], disconnected_inputs)
            if return_disconnected == "zero":
                rval[i] = _float_zeros_like(wrt[i])
            elif return_disconnected == "None":
                rval[i] = None
    grad_time += time.perf_counter() - start
    return format_as(using_list, using_tuple, rval)


def _check_cost(cost, known_grads):
    """Raise an error unless `cost` is a 0-d variable that is not of NullType, or is None and `known_grads` is given."""
    if cost is None:
        if known_grads is None:
            raise AssertionError("cost and known_grads can't both be None.")
        return
    if not isinstance(cost, Variable):
        raise TypeError("cost must be a variable, not %r" % (cost,))
    if isinstance(cost.type, NullType):
        raise ValueError("Can't differentiate a NaN cost. cost is NaN because " + cost.type.why_null)
    if cost.type.ndim != 0:
        raise TypeError(
            "cost must be a scalar, but %s has %d dimensions. Reduce it, for example with sum()"
            % (cost, cost.type.ndim)
        )


def _check_known_gradient(variable, gradient):
    if not hasattr(gradient, "type"):
        raise TypeError(
            "output grads must be variables. Ambiguous whether %s should be made into tensor or sparse variable"
            % type(gradient)
        )
    if not is_absent(gradient) and not _is_continuous(getattr(gradient.type, "dtype", None)):
        raise TypeError(
            "Gradients must always be NullType, DisconnectedType, or continuous, but grad was given a known_grad of type %s"
            % gradient.type
        )
    if getattr(gradient.type, "ndim", 0) > getattr(variable.type, "ndim", 0):
        raise ValueError(
            "known_grads has a gradient of %d dimensions, %s, for %s, which has %d: a gradient must have the shape of "
            "its variable" % (gradient.type.ndim, gradient, variable, variable.type.ndim)
        )


def _report_disconnected(var, policy):
    """Raise an error, show a warning or do nothing, because the cost does not depend on a variable.

    A warning points to the caller of `grad`, two frames up.
    """
    message = (
        "grad method was asked to compute the gradient with respect to a variable that is not part of the computational graph of the"
        " cost, or is used only by a non-differentiable operator: %s" % var
    )
    if policy == "warn":
        warnings.warn(message, stacklevel=3)
    elif policy == "raise":
        raise DisconnectedInputError(message + utils.get_variable_trace_string(var))


def _populate_var_to_app_to_idx(outputs, wrt, consider_constant, shortcuts):
    """Return the part of the graph through which gradients are propagated.

    Parameters
    ----------
    outputs : list of Variable
        The variables whose gradients are known.
    wrt : list of Variable
        The variables whose gradients are needed.
    consider_constant : list of Variable or None
    shortcuts : dict
        Filled with the shortcuts that are used: node -> `Shortcut`.

    Returns
    -------
    dict
        For each variable that depends on one of `wrt`, a dict from nodes to lists of input indices. These are the uses
        of the variable through which `outputs` depend on it.
    """
    if consider_constant is None:
        consider_constant = ()
    elif not hasattr(consider_constant, "__iter__") or isinstance(consider_constant, Variable):
        raise TypeError("Expected consider_constant to be an iterable collection, got %s" % type(consider_constant))
    constants = set()
    for elem in consider_constant:
        if not isinstance(elem, Variable):
            raise TypeError("Elements of consider_constant must be variables, but got %s" % type(elem))
        constants.add(elem)
    # Backward: find the variables that the outputs depend on differentiably.
    order = _nodes_behind(outputs, constants)
    kept = constants.union(outputs, wrt)
    for node in order:
        shortcut = _shortcut_of(node, kept)
        if shortcut is not None:
            shortcuts[node] = shortcut
    patterns = {}
    uses = {}
    reached = set(outputs)
    for node in reversed(order):
        flowing = [k for k, out in enumerate(node.outputs) if out in reached and out not in constants]
        if not flowing:
            continue
        pattern = patterns[node] = _way_to_pattern(node, shortcuts)
        for i, r in enumerate(shortcuts.get(node, node).inputs):
            row = pattern[i]
            for k in flowing:
                if row[k]:
                    uses.setdefault(r, {}).setdefault(node, []).append(i)
                    reached.add(r)
                    break
    # Forward: keep those variables that depend on wrt.
    relevant = {r for r in wrt if r in uses}
    for node in order:
        pattern = patterns.get(node)
        if pattern is None:
            continue
        for i, r in enumerate(shortcuts.get(node, node).inputs):
            if r in relevant:
                row = pattern[i]
                for k, out in enumerate(node.outputs):
                    if row[k] and out in uses:
                        relevant.add(out)
    return {r: apps for r, apps in uses.items() if r in relevant}


def _shortcut_of(node, kept):
    """Return the `Shortcut` that the Op of a node offers. Return None if the shortcut skips a variable in `kept`."""
    shortcut = node.op.shortcut(node) if hasattr(node.op, "shortcut") else None
    return shortcut if shortcut is not None and not any(r in kept for r in shortcut.passed) else None


def _way_to_pattern(node, shortcuts):
    """Return the pattern of a node's shortcut, or `_node_to_pattern` of the node if no shortcut is used."""
    return [[True] for _ in shortcuts[node].inputs] if node in shortcuts else _node_to_pattern(node)


def _nodes_behind(outputs, constants=()):
    """Return the nodes that variables depend on, inputs first. The search stops at `constants`."""
    order = []
    seen = set()
    for out in outputs:
        if out.owner is None or out in constants or out.owner in seen:
            continue
        seen.add(out.owner)
        stack = [(out.owner, iter(out.owner.inputs))]
        while stack:
            node, pending = stack[-1]
            for r in pending:
                owner = r.owner
                if owner is not None and owner not in seen and r not in constants:
                    seen.add(owner)
                    stack.append((owner, iter(owner.inputs)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def _populate_grad_dict(var_to_app_to_idx, grad_dict, wrt, cost_name, shortcuts):
    """Compute the gradients of the variables between the outputs and `wrt`.

    Parameters
    ----------
    var_to_app_to_idx : dict
        See `_populate_var_to_app_to_idx`.
    grad_dict : dict
        Variable -> known gradient. The computed gradients are added.
    wrt : list of Variable
    cost_name : str or None
        The name of the cost, for the names of gradients.
    shortcuts : dict
        Node -> `Shortcut`, for nodes that use a shortcut.

    Returns
    -------
    list of Variable
        The gradients of `wrt`.
    """
    terms = {}

    def gradient_of(var):
        """Return the gradient of a variable. All nodes that use the variable must have been processed."""
        if var in grad_dict:
            return grad_dict[var]
        found = []
        for node, indices in var_to_app_to_idx.get(var, {}).items():
            for i in indices:
                term = terms[node][i]
                if isinstance(term.type, NullType):
                    grad_dict[var] = term
                    return term
                if not isinstance(term.type, DisconnectedType):
                    found.append(term)
        if found:
            g = grad_dict[var] = reduce(_add, found)
            if cost_name is not None and var.name is not None and (len(found) > 1 or g.name is None):
                g.name = "(d%s/d%s)" % (cost_name, var.name)
        else:
            g = grad_dict[var] = disconnected_type()
        return g

    # Process the users of a variable before its owner, and only nodes that lead to wrt.
    nodes = dict.fromkeys(node for apps in var_to_app_to_idx.values() for node in apps)
    for node in reversed(_ordered(nodes)):
        output_grads = [gradient_of(out) for out in node.outputs]
        if node in shortcuts and not is_absent(output_grads[0]):
            found = shortcuts[node].gradients(_in_dtype_of(node.outputs[0], output_grads[0]))
            terms[node] = [_real_if_real(r, g) for r, g in zip(shortcuts[node].inputs, found)]
        elif node in shortcuts:
            terms[node] = [output_grads[0].type() for _ in shortcuts[node].inputs]
        else:
            terms[node] = input_gradients(node, output_grads)
    return [gradient_of(r) for r in wrt]


def _add(x, y):
    return x + y


def _ordered(nodes):
    """Return the nodes in topological order."""
    return [node for node in _nodes_behind([out for node in nodes for out in node.outputs]) if node in nodes]


def _in_dtype_of(out, g):
    """Return the gradient `g` of `out`, cast to the dtype of `out` if this dtype is continuous."""
    dtype, g_dtype = getattr(out.type, "dtype", None), getattr(g.type, "dtype", None)
    if dtype is not None and g_dtype is not None and not _is_discrete(dtype) and dtype != g_dtype:
        g = g.astype(dtype)
    return g


def _real_if_real(r, g):
    """Return the gradient `g` of `r`. If the gradient is complex and `r` is real, return the gradient's real part.

    Ops that upcast real inputs to complex outputs, such as joins and assignments, may pass complex gradients unchanged.
    """
    dtype, g_dtype = getattr(r.type, "dtype", None), getattr(g.type, "dtype", None)
    if not isinstance(dtype, str) or not isinstance(g_dtype, str) or dtype.startswith("complex"):
        return g
    return g.real if g_dtype.startswith("complex") and hasattr(g, "real") else g


def input_gradients(node, output_grads):
    """Compute the gradients of a node's inputs, and check them.

    Parameters
    ----------
    node : Apply
    output_grads : list of Variable

    Returns
    -------
    list of Variable
        The gradients. Their types may be NullType or DisconnectedType.
    """
    op = node.op
    pattern = _node_to_pattern(node)
    to_cost = [not isinstance(g.type, DisconnectedType) for g in output_grads]
    connected = [any(a and b for a, b in zip(row, to_cost)) for row in pattern]
    if not any(connected):
        return [disconnected_type() for _ in node.inputs]
    is_int = [_is_discrete(getattr(out.type, "dtype", None)) for out in node.outputs]
    is_null = [isinstance(g.type, NullType) for g in output_grads]
    only_null = [not any(a and b and not n for a, b, n in zip(row, to_cost, is_null)) for row in pattern]
    only_int = [not any(a and b and not n for a, b, n in zip(row, to_cost, is_int)) for row in pattern]
    undefined, known_grads = only_null, output_grads
    if not op.takes_undefined_gradients:
        # An input's gradient is undefined if a term of its sum is undefined. Discrete outputs contribute zero, even if
        # their gradient is undefined.
        undefined = [
            any(a and n and not discrete for a, n, discrete in zip(row, is_null, is_int)) or null
            for row, null in zip(pattern, only_null)
        ]
        # Inputs with defined gradients do not depend on continuous outputs with undefined gradients. So pass these
        # undefined gradients as disconnected.
        known_grads = [disconnected_type() if n else g for g, n in zip(output_grads, is_null)]
    if all(u or not c for u, c in zip(undefined, connected)):
        null = next(g for g in output_grads if isinstance(g.type, NullType))
        return [null.type() if c else disconnected_type() for c in connected]
    new_grads = [_in_dtype_of(out, g) for out, g in zip(node.outputs, known_grads)]
    if type(op).L_op is PureOp.L_op and not hasattr(op, "grad"):
        raise AttributeError(
            "'%s' object has no attribute 'grad': the Op %s cannot be differentiated. Define grad (or L_op) in its "
            "class, or exclude the variable from the gradient with disconnected_grad" % (type(op).__name__, op)
        )
    input_grads = op.L_op(list(node.inputs), list(node.outputs), new_grads)
    if input_grads is None:
        raise TypeError("%s.grad returned NoneType, expected iterable." % op)
    if len(input_grads) != len(node.inputs):
        raise ValueError(
            "%s returned the wrong number of gradient terms: %d for %d inputs."
            % (op, len(input_grads), len(node.inputs))
        )
    input_grads = list(input_grads)
    for i, (r, term) in enumerate(zip(node.inputs, input_grads)):
        if term is None:
            raise ValueError(
                "%s.grad returned None for a gradient term, this is prohibited. Instead of None, return zeros_like(input),"
                " disconnected_type(), or a NullType variable such as those made with the grad_undefined or grad_not_implemented helper"
                " functions." % op
            )
        if not isinstance(term, Variable):
            raise TypeError(
                "%s.grad returned %s of type %s for input %d; gradients have to be variables."
                % (op, term, type(term), i)
            )
        if undefined[i] and connected[i] and not isinstance(term.type, NullType):
            null = next(g for g, a in zip(output_grads, pattern[i]) if a and isinstance(g.type, NullType))
            input_grads[i] = term = null.type()
        if not is_absent(term):
            input_grads[i] = term = _real_if_real(r, term)
            dtype = getattr(term.type, "dtype", None)
            if dtype is not None and not _is_continuous(dtype):
                raise TypeError(
                    "%s.grad illegally  returned an integer-valued variable. (Input index %d, dtype %s)"
                    % (op, i, dtype)
                )
            if connected[i] and only_int[i] and is_zero(term) == "no":
                raise ValueError(
                    "%s.grad returned %s of type %s for input %d. This input's only connections to the cost through this op are via"
                    " integer-valued outputs so it should be NullType, DisconnectedType, or some form of zeros; it is verifiably not zeros."
                    % (op, term, type(term), i)
                )
            if config.compute_test_value != "off":
                _check_test_shapes(op, i, r, term)
        actually = not isinstance(term.type, DisconnectedType)
        if actually and not connected[i]:
            raise TypeError(
                "%s.grad returned %s of type %s for input %d. Expected DisconnectedType instance based on the output of the"
                " op's connection_pattern method." % (op, term, type(term), i)
            )
        if connected[i] and not actually:
            message = "%s.grad returned DisconnectedType for input %d." % (op, i)
            if hasattr(op, "connection_pattern"):
                raise TypeError(message + " Its connection_pattern method does not allow this.")
            warnings.warn(message + " You may want to implement a connection_pattern method for it.", stacklevel=2)
    return input_grads


def _check_test_shapes(op, i, r, term):
    """Compare the shapes of the test values of an input and of its gradient, if both have test values."""
    try:
        shape, g_shape = get_test_value(r).shape, get_test_value(term).shape
    except AttributeError:
        return
    if shape != g_shape:
        raise ValueError(
            "%s.grad returned object of shape %s as gradient term on input %d of shape %s" % (op, g_shape, i, shape)
        )


def subgraph_grad(
    wrt: Sequence[Variable],
    end: Sequence[Variable],
    start: Mapping[Any, Variable] | None = None,
    cost: Variable | None = None,
    details: bool = False,
) -> Any:
    """Return gradients in a part of a graph: from a cost, or from known gradients, to the variables in `end`.

    Parameters
    ----------
    wrt : list of Variable
        The variables whose gradients are returned.
    end : list of Variable
        The variables at which back-propagation stops. They are treated as constants.
    start : dict, optional
        Variable -> known gradient (an ordered mapping). Back-propagation starts from these gradients.
    cost : Variable, optional
        A scalar from which back-propagation also starts. If `cost` depends on a variable of `start`, the
        contribution of `cost` may be counted twice.
    details : bool
        Whether to return also the parts of the gradients that originate from `start` and from `cost`.

    Returns
    -------
    (list, list) or (list, list, list, list)
        The gradients with respect to `wrt` and to `end`. With details, also the parts of the gradients with respect to
        `wrt` that originate from `start` and from `cost`. If `start` or `cost` is not given, its part is None.

    Examples
    --------
    A network can be back-propagated layer by layer: ``next_grad = dict(zip(end, grads_end))`` is the `start` for the
    preceding layer.
    """
    if cost is None and start is None:
        raise ValueError("`cost` or `start` must be specified.")
    if not isinstance(end, list) or not isinstance(wrt, list):
        raise TypeError("wrt and end have to be lists of variables, not %s and %s" % (type(wrt), type(end)))
    if start is not None and not isinstance(start, dict):
        raise TypeError("start has to be a dict of variables to gradients, not %s" % type(start))
    params = list(dict.fromkeys(wrt + end))
    start_grads = cost_grads = None
    if start is not None:
        start_grads = grad(
            cost=None, wrt=params, known_grads=start, consider_constant=end, disconnected_inputs="ignore"
        )
    if cost is not None:
        cost_grads = grad(cost=cost, wrt=params, consider_constant=end, disconnected_inputs="ignore")
    grads: Any
    if start_grads is None:
        grads = cost_grads
    elif cost_grads is None:
        grads = start_grads
    else:
        grads = [s + c for s, c in zip(start_grads, cost_grads)]
    by_param = dict(zip(params, grads))
    result = [by_param[r] for r in wrt], [by_param[r] for r in end]
    if not details:
        return result
    parts = [None if part is None else dict(zip(params, part)) for part in (start_grads, cost_grads)]
    return (*result, *(part and [part[r] for r in wrt] for part in parts))


# ---------------------------------------------------------------- operators


def Lop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    consider_constant: Sequence[Variable] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """Apply the L operator: multiply the Jacobian of `f` with respect to `wrt` from the left by `eval_points`.

    Parameters
    ----------
    f : Variable or list of Variable
    wrt : Variable, list or tuple of Variable
    eval_points : Variable or list of Variable
        The factor: for each variable in `f`, a variable of the same shape.
    consider_constant, disconnected_inputs
        The arguments of the same names for `grad`.

    Returns
    -------
    Variable, list or tuple
        The same kind of container as `wrt`.
    """
    points = [p if isinstance(p, Variable) else ports.as_variable(p) for p in as_list(eval_points)]
    f = as_list(f)
    if len(f) != len(points):
        raise ValueError("`eval_points` must be the same length as `f`: %d and %d" % (len(points), len(f)))
    known: dict[Any, Any] = {}
    for out, point in zip(f, points):
        known[out] = known[out] + point if out in known else point
    grads = grad(
        cost=None,
        known_grads=known,
        consider_constant=consider_constant,
        wrt=as_list(wrt),
        disconnected_inputs=disconnected_inputs,
    )
    return format_as(isinstance(wrt, list), isinstance(wrt, tuple), grads)


def Rop(
    f: Any, wrt: Any, eval_points: Any, disconnected_outputs: str = "raise", return_disconnected: str = "zero"
) -> Any:
    """Apply the R operator: multiply the Jacobian of `f` with respect to `wrt` from the right by `eval_points`.

    Parameters
    ----------
    f : Variable, list or tuple of Variable
    wrt : Variable or list of Variable
    eval_points : Variable or list of Variable
        The factor: for each variable in `wrt`, a variable with the same number of dimensions.
    disconnected_outputs : {'raise', 'warn', 'ignore'}
        The action if no node computes an output of `f`, or if the output is an integer (such as a length) that does not
        depend on values of `wrt`. For other outputs that are constant, such as gradients of linear functions, the
        result is zeros.
    return_disconnected : {'zero', 'None', 'Disconnected'}
        The result for a disconnected output: zeros of the shape of the output, None, or a variable of DisconnectedType.

    Returns
    -------
    Variable, list or tuple
        The same kind of container as `f`.

    Raises
    ------
    DisconnectedInputError
    ValueError
        If `wrt` and `eval_points` do not match.
    """
    _check_policy(disconnected_outputs, "disconnected_outputs", ("ignore", "warn", "raise"))
    _check_policy(return_disconnected, "return_disconnected", ("zero", "None", "Disconnected"))
    using_list, using_tuple = isinstance(f, list), isinstance(f, tuple)
    wrt, f = as_list(wrt), as_list(f)
    points = [p if isinstance(p, Variable) else ports.as_variable(p) for p in as_list(eval_points)]
    if len(wrt) != len(points):
        raise ValueError("`wrt` must be the same length as `eval_points`: %d and %d." % (len(wrt), len(points)))
    kept, tangents = set(wrt), {}
    for i, (r, point) in enumerate(zip(wrt, points)):
        if r.type.ndim != point.type.ndim:
            raise ValueError(
                "Element %d of wrt/eval_point have mismatched dimensionality: %d versus %d"
                % (i, r.type.ndim, point.type.ndim)
            )
        tangents[r] = point
    unknown: set[Variable] = set()  # variables that depend on wrt, but whose Op returned no tangent
    for node in _nodes_behind(f, tangents):
        inputs = [tangents.get(r) for r in node.inputs]
        if all(t is None for t in inputs):
            # The node does not depend on wrt, so its Op need not have an R_op.
            if unknown.intersection(node.inputs):
                unknown.update(node.outputs)
            continue
        shortcut = _shortcut_of(node, kept)
        if shortcut is not None and unknown.isdisjoint(shortcut.inputs):
            results = [_tangent_by(shortcut, node.outputs[0], tangents)]
        else:
            inputs = [_constant_tangent(r) if t is None else _like(r, t) for r, t in zip(node.inputs, inputs)]
            results = node.op.R_op(list(node.inputs), inputs)
        if len(results) != len(node.outputs):
            raise ValueError("%s.R_op returned %d values for %d outputs" % (node.op, len(results), len(node.outputs)))
        for j, (out, t) in enumerate(zip(node.outputs, results)):
            if t is not None and not isinstance(t.type, DisconnectedType):
                tangents.setdefault(out, t)
            elif not _is_discrete(getattr(out.type, "dtype", None)) and _reads_values(node, j, tangents):
                unknown.add(out)
    rval = []
    for out in f:
        t = tangents.get(out)
        if t is None and _is_flat(out, wrt, unknown):
            t = out.zeros_like(dtype=config.floatX if _is_discrete(out.type.dtype) else out.type.dtype)
        if t is None:
            message = (
                "Rop method was asked to compute the gradient with respect to a variable that is not part of the computational"
                " graph of variables in wrt, or is used only by a non-differentiable operator: %s" % out
            )
            if disconnected_outputs == "warn":
                warnings.warn(message, stacklevel=2)
            elif disconnected_outputs == "raise":
                raise DisconnectedInputError(message + utils.get_variable_trace_string(out))
            if return_disconnected == "zero":
                t = out.zeros_like()
            elif return_disconnected == "Disconnected":
                t = disconnected_type()
        rval.append(t)
    return format_as(using_list, using_tuple, rval)


def _tangent_by(shortcut, out, tangents):
    """Return the tangent of `out` from the tangents of the inputs of its `Shortcut`.

    The shortcut's gradients are a linear function of the output's gradient. The tangent is the transpose of this
    function, applied to the tangents of the inputs.
    """
    g = out.copy()  # `Lop` needs a new variable of the shape of `out`; its value is not used
    terms = [
        Lop(gradient, g, _like(r, tangents[r]), disconnected_inputs="ignore")
        for r, gradient in zip(shortcut.inputs, shortcut.gradients(g))
        if r in tangents and not is_absent(gradient)
    ]
    return reduce(_add, terms) if terms else None


def _reads_values(node, j, tangents):
    """Return True if output `j` depends on the value, not only the shape, of an input that has a tangent."""
    pattern = node.op.connection_pattern(node) if hasattr(node.op, "connection_pattern") else None
    return pattern is None or any(row[j] for r, row in zip(node.inputs, pattern) if r in tangents)


def _is_flat(out, wrt, unknown):
    """Return True if the tangent of an output is zero although no Op returned a tangent for the output.

    The tangent of a float that a node computes is zero if the float is not in `unknown`. An example of such a float is
    the gradient of a linear function. The tangent of an integer is zero if the integer is computed from values of
    `wrt`, not only from shapes. A variable that no node computes has no tangent.
    """
    dtype = getattr(out.type, "dtype", None)
    if out.owner is None or dtype is None:
        return False
    if _is_discrete(dtype):
        return any(row[0] for row in io_connection_pattern(wrt, [out]))
    return out not in unknown


def _constant_tangent(r):
    """Return the tangent of a variable that does not depend on wrt.

    Return zeros for a variable that callers supply, and None for other variables. With zeros, the result has the inputs
    that users expect: ``Rop(dot(x, W), W, V)`` is documented to be a function of x, W and V.
    """
    dtype = getattr(r.type, "dtype", None)
    if (
        r.owner is None
        and type(r) is getattr(r.type, "Variable", None)
        and dtype is not None
        and not _is_discrete(dtype)
    ):
        return r.zeros_like()
    return None


def _like(r, tangent):
    """Return a tangent, converted to the type of its variable."""
    if isinstance(tangent.type, NullType) or tangent.type == r.type:
        return tangent
    dtype = getattr(r.type, "dtype", None)
    if dtype is not None and not _is_discrete(dtype) and tangent.type.dtype != dtype:
        tangent = tangent.astype(dtype)
    try:
        return r.type.filter_variable(tangent)
    except TypeError:
        # The broadcast patterns differ. Let the R_op of the Op accept the tangent or raise an error.
        return tangent


for _thing in (DisconnectedInputError, format_as, grad, subgraph_grad, Lop, Rop):
    # Pickles, reprs and tracebacks show the documented path.
    _thing.__module__ = "theano_ng.gradient"
del _thing
