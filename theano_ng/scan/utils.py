"""Helpers for loops: `until`, the return values of step functions, and variables for the graph of a step.

The other names of the classic module `scan_utils` are exported here, too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from theano_ng.compile.pfunc import check_update, iter_over_pairs
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.op import compute_test_value, get_test_value
from theano_ng.gof.traversal import io_toposort
from theano_ng.lazy import lazy_names
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.updates import OrderedUpdates

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike

_NAMES = {
    "theano_ng.compile.clone": "clone",
    "theano_ng.gof.traversal": "equal_computations",
    "theano_ng.scan.args": "scan_args",
    "theano_ng.scan.editing": (
        "Validator compress_outs expand_empty forced_replace hash_listsDictsTuples infer_shape isNaN_or_Inf_or_None reconstruct_graph"
        " scan_can_remove_outs traverse"
    ),
    "theano_ng.scan.mapping": "map_variables",
}
__getattr__, __dir__, _lazy = lazy_names(__name__, _NAMES)
__all__ = sorted(["get_updates_and_outputs", "safe_new", "until", *_lazy])


class until:
    """The condition after which a loop ends. A step function returns it as its last value.

    Parameters
    ----------
    condition : scalar
        The loop ends after the first step in which the condition is true. The results of this step still count.
    """

    def __init__(self, condition: TensorLike) -> None:
        self.condition = as_tensor_variable(condition)
        if self.condition.ndim != 0:
            raise TypeError(
                "until: the condition must be a scalar, not of type %s; reduce it with all() or any()"
                % self.condition.type
            )


def safe_new(x, tag="", dtype=None):
    """Return a new free variable of the type of another variable, for the graph of a step.

    Parameters
    ----------
    x : Variable or array_like
    tag : str
        Suffix for the name of the new variable. If `x` has no name, the new variable has no name.
    dtype : str, optional
        Another dtype.

    Returns
    -------
    Variable
        If ``config.compute_test_value`` is on and `x` has a test value, the new variable has this test value, too. For
        a constant, the result is another constant of the same name.

    Raises
    ------
    TypeError
        If a constant would lose precision in the other dtype.
    """
    if not isinstance(x, Variable):
        x = as_tensor_variable(x).type()
    kind = x.type if dtype is None or x.type.dtype == dtype else x.type.clone(dtype=dtype)
    if isinstance(x, Constant):
        return x.clone() if kind == x.type else kind.Constant(kind, kind.filter(x.data), name=x.name)
    new = kind(None if x.name is None else x.name + tag)
    copy_test_value(x, new)
    return new


def as_list(given):
    """Convert an argument to a list. The argument is a list or tuple, a single item, or None for an empty list."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def copy_test_value(source, target, part=lambda value: value):
    """Copy the test value of a variable, or a part of it, to another variable.

    Do nothing if test values are off, or if the variable has no test value.
    """
    if config.compute_test_value == "off":
        return
    try:
        value = get_test_value(source)
    except AttributeError:
        return  # do not raise: a node that needs the test value raises an error later
    target.tag.test_value = part(value)


def values_afterwards(derivative):
    """Decorate `L_op` or `R_op` of loops. The method runs without test values. Afterwards, the test values of the outer
    variables are computed.
    """

    @functools.wraps(derivative)
    def method(self, *given):
        with config.change_flags(compute_test_value="off"):
            terms = derivative(self, *given)
        if config.compute_test_value != "off":
            known = [v for variables in given for v in variables if v is not None]
            for node in io_toposort(known, [term for term in terms if term is not None]):
                if not all(hasattr(v.tag, "test_value") for v in node.outputs):
                    compute_test_value(node)
        return terms

    return method


def get_updates_and_outputs(ls):
    """Split the return value of a step function into its parts.

    Parameters
    ----------
    ls : Variable, dict, until, or list or tuple of them
        Outputs (a variable, or a list or tuple of variables), updates (a dict or a list of pairs), or both in either
        order. A condition may follow.

    Returns
    -------
    condition : Variable or None
    outputs : list of Variable
    updates : OrderedUpdates

    Raises
    ------
    ValueError
        If `ls` has another form.
    """
    items = [ls] if isinstance(ls, Variable) or _is_updates(ls) else list(ls) if isinstance(ls, (list, tuple)) else [ls]
    condition = None
    if items and isinstance(items[-1], until):
        condition = items.pop().condition
        if len(items) == 1 and _are_outputs(items[0]) and not isinstance(items[0], Variable):
            items = list(items[0])
        elif not items:
            raise ValueError(_not_understood(ls))
    if _are_outputs(items):
        return condition, items, OrderedUpdates()
    if len(items) == 1 and _is_updates(items[0]):
        return condition, [], _updates(items[0])
    if len(items) == 2:
        first, second = items
        # If the first item holds outputs and the second item is an empty list, the list contains no updates.
        if _are_outputs(first) and (_is_updates(second) or not isinstance(second, Variable) and len(second) == 0):
            return condition, _in_list(first), _updates(second)
        if _is_updates(first) and _are_outputs(second):
            return condition, _in_list(second), _updates(first)
    raise ValueError(_not_understood(ls))


def _not_understood(ls):
    return (
        "Scan cannot parse the return value of your lambda expression, which is: %s. The return value of your scan lambda expression may only "
        "be made of lists, tuples, or dictionaries containing Theano variables (or `theano.scan_module.until` objects for conditions): first "
        "outputs (a variable or a list of variables), updates (a dict or a list of pairs of a shared variable and its new value), or both; "
        "`until` at the end. In particular if you need to use constant values, you can use `tensor.constant` to turn them into Theano "
        "variables." % (ls,)
    )


def _in_list(items):
    return [items] if isinstance(items, Variable) else list(items)


def _are_outputs(items):
    return isinstance(items, Variable) or (
        isinstance(items, (list, tuple)) and all(isinstance(item, Variable) for item in items)
    )


def _is_updates(items):
    """Return True if the items are updates: a dict, or a list of pairs of a variable and a value."""
    if isinstance(items, dict):
        return True
    return (
        isinstance(items, (list, tuple))
        and len(items) > 0
        and all(isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], Variable) for pair in items)
    )


def _updates(items):
    updates = OrderedUpdates()
    for target, value in iter_over_pairs(items):
        updates[target] = check_update(target, value, updates)
    return updates
