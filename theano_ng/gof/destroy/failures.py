"""Find the nodes that can fail although a call with the same shapes succeeded: because of values, or for lack of memory."""

from theano_ng.gof.own import is_own


def fails_on_values(node):
    """Whether a node can raise for some values of inputs, although it did not for others of the same shapes.

    The Op says so by its method of this name; what it inherits holds for the Ops of the package only.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    bool
        True also for an Op of a user that does not define the method.
    """
    return _answer(node, "fails_on_values")


def takes_memory(node):
    """Return True if computing a node allocates memory, where the arguments of the function are contiguous.

    The method of this name of the Op decides, as for `fails_on_values`. An Op that overwrites its input allocates nothing if it copies no other input.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    bool
        True also for an Op of a user that does not define the method.
    """
    return _answer(node, "takes_memory")


def _answer(node, method):
    """Call a method of the node's Op; return True for an Op of a user that only inherits the method."""
    cls = type(node.op)
    if not is_own(cls) and method not in vars(cls):
        return True
    return getattr(node.op, method)(node)


def may_fail(node):
    """Return True if a node can fail when it is computed once more for the same shapes."""
    return fails_on_values(node) or takes_memory(node)
