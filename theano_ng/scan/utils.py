"""Helpers of loops: `until`, what a step function returns, variables for the graph of a step."""

from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.op import get_test_value
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.updates import OrderedUpdates

__all__ = ["get_updates_and_outputs", "safe_new", "until"]


class until:
    """The condition after which a loop ends; a step function returns it last.

    Parameters
    ----------
    condition : scalar
        The loop ends after the first step at which it is true. What that step computes still counts.
    """

    def __init__(self, condition):
        self.condition = as_tensor_variable(condition)
        if self.condition.ndim != 0:
            raise TypeError(
                "until: the condition is a scalar, not of type %s; use all() or any() of it" % self.condition.type
            )


def safe_new(x, tag="", dtype=None):
    """A new free variable like another one, for the graph of a step.

    Parameters
    ----------
    x : Variable or array_like
    tag : str
        What follows the name of `x` in its name; without name there is no name.
    dtype : str, optional
        Another dtype.

    Returns
    -------
    Variable
        With the test value of `x` when ``config.compute_test_value`` asks for them and `x` has one. Of a constant: another constant.
    """
    if not isinstance(x, Variable):
        x = as_tensor_variable(x)
    name = x.name + tag if getattr(x, "name", None) is not None else None
    if isinstance(x, Constant):
        copy = x.clone() if dtype is None or dtype == x.dtype else x.astype(dtype).owner.inputs[0]
        copy.name = name
        return copy
    kind = x.type if dtype is None or x.type.dtype == dtype else x.type.clone(dtype=dtype)
    new = kind(name)
    copy_test_value(x, new)
    return new


def copy_test_value(source, target, part=lambda value: value):
    """Give a variable the test value of another one, or a part of it, if test values are asked for and it has one."""
    if config.compute_test_value == "off":
        return
    try:
        value = get_test_value(source)
    except AttributeError:
        return  # whoever needs it is told then
    target.tag.test_value = part(value)


def get_updates_and_outputs(ls):
    """Take apart what a step function returned.

    Parameters
    ----------
    ls : Variable, dict, until, or list or tuple of them
        Outputs (a variable, or a list or tuple of variables), updates (a dict or a list of pairs), or both in either order; a condition
        may follow.

    Returns
    -------
    condition : Variable or None
    outputs : list of Variable
    updates : OrderedUpdates

    Raises
    ------
    ValueError
        When it is none of that.
    """
    items = list(ls) if isinstance(ls, (list, tuple)) and not _is_updates(ls) else [ls]
    condition = None
    if items and isinstance(items[-1], until):
        condition = items.pop().condition
        if len(items) == 1 and isinstance(items[0], (list, tuple)) and not _is_updates(items[0]):
            items = list(items[0])
    if _are_outputs(items):
        return condition, _outputs(items), OrderedUpdates()
    if len(items) == 1 and _is_updates(items[0]):
        return condition, [], _updates(items[0])
    if len(items) == 2:
        first, second = items
        if _is_updates(second) and _are_outputs(first):
            return condition, _outputs(first), _updates(second)
        if _is_updates(first) and _are_outputs(second):
            return condition, _outputs(second), _updates(first)
    raise ValueError(
        "Scan cannot parse the return value of your lambda expression, which is: %s. A step function returns outputs (a variable or a list of "
        "variables), updates (a dict or a list of pairs of a shared variable and its new value), or both; `until` comes last."
        % (ls,)
    )


def _is_updates(item):
    if isinstance(item, dict):
        return True
    return (
        isinstance(item, (list, tuple))
        and len(item) > 0
        and all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], SharedVariable) for pair in item
        )
    )


def _is_output(item):
    if isinstance(item, Variable):
        return True
    if isinstance(item, (dict, until)) or item is None:
        return False
    try:
        as_tensor_variable(item)
    except (TypeError, ValueError, NotImplementedError):
        return False
    return True


def _are_outputs(items):
    return all(map(_is_output, items)) if isinstance(items, (list, tuple)) else _is_output(items)


def _outputs(items):
    items = items if isinstance(items, (list, tuple)) else [items]
    return [item if isinstance(item, Variable) else as_tensor_variable(item) for item in items]


def _updates(item):
    updates = OrderedUpdates()
    for target, value in item.items() if isinstance(item, dict) else item:
        updates[target] = value if isinstance(value, Variable) else as_tensor_variable(value)
    return updates
