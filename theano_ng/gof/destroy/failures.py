"""Functions that decide whether a node can fail although a previous call with equal shapes succeeded.

A node can fail because of the values of its inputs, or for lack of memory.
"""

from theano_ng.gof.provenance import is_from_package


def fails_on_values(node):
    """Return True if a node can raise an error for some values, although other values of the same shapes caused none.

    The method `fails_on_values` of the Op decides. An inherited method counts only for the Ops of this package.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    bool
        It is also True for a user's Op that does not define the method.
    """
    return _ask_op(node, "fails_on_values")


def takes_memory(node):
    """Return True if computing a node allocates memory, given that the arguments of the function are contiguous.

    The method `takes_memory` of the Op decides. An inherited method counts only for the Ops of this package. An Op that
    overwrites its input allocates nothing if it copies no other input.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    bool
        It is also True for a user's Op that does not define the method.
    """
    return _ask_op(node, "takes_memory")


def _ask_op(node, method):
    """Call a method of the node's Op. Return True if a user's Op only inherits the method."""
    cls = type(node.op)
    if not is_from_package(cls) and method not in vars(cls):
        return True
    return getattr(node.op, method)(node)


def may_fail(node):
    """Return True if a node can fail when it is computed again for the same shapes."""
    return fails_on_values(node) or takes_memory(node)
