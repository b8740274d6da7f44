"""Which nodes of a graph can fail because of the values they get, whatever the shapes."""
from theano_ng.gof.graph import Constant

# Names instead of classes: these layers are above this one, and need not be loaded.
_SAFE_MODULES = frozenset("theano_ng.tensor." + name for name in (
    "elemwise", "reductions.careduce", "linalg.products", "blas.ops", "blas.scipy_ger", "nnet.softmax", "nnet.sigmoids"))
_SAFE_CLASSES = frozenset("theano_ng.compile.ops." + name for name in (
    "DeepCopyOp", "ViewOp", "OutputGuard", "Shape", "Shape_i", "Rebroadcast"))
_N_OPERANDS = {"theano_ng.tensor.subtensor.Subtensor": 1, "theano_ng.tensor.subtensor.IncSubtensor": 2}


def is_known(op):
    """Whether an Op is one of the package: those check their arguments before they change anything."""
    module = type(op).__module__
    return module.startswith("theano_ng.") and ".tests." not in module


def fails_on_values(node):
    """Whether a node can raise for some values of inputs, although it did not for others of the same shapes.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    bool
        True also when nothing is known about the Op.
    """
    op = node.op
    cls = type(op)
    name = "%s.%s" % (cls.__module__, cls.__qualname__)
    if name in _N_OPERANDS:
        return not all(isinstance(index, Constant) for index in node.inputs[_N_OPERANDS[name]:])
    if cls.__module__ in _SAFE_MODULES:
        scalar_op = getattr(op, "scalar_op", None)
        return scalar_op is not None and not is_known(scalar_op)
    return name not in _SAFE_CLASSES
