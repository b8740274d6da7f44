"""Which nodes of a graph can fail although others of the same shapes went well: because of values, or for want of memory."""

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
        True also when nothing is known about the Op.
    """
    return _answer(node, "fails_on_values")


def takes_memory(node):
    """Whether computing a node takes memory, where the arguments of the function are contiguous.

    The Op says so by its method of this name, as for `fails_on_values`. An Op that overwrites its input takes none where it copies no other input.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    bool
        True also when nothing is known about the Op.
    """
    return _answer(node, "takes_memory")


def _answer(node, method):
    """Call a method of the node's Op. The result is True for an Op of a user that only inherits the method."""
    cls = type(node.op)
    if not is_own(cls) and method not in vars(cls):
        return True
    return getattr(node.op, method)(node)


def may_fail(node):
    """Whether a node can fail when it is computed once more for the same shapes."""
    return fails_on_values(node) or takes_memory(node)
