"""Which nodes of a graph can fail because of the values they get, whatever the shapes."""

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
    cls = type(node.op)
    if not is_own(cls) and "fails_on_values" not in vars(cls):
        return True
    return node.op.fails_on_values(node)
