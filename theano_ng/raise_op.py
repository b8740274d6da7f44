"""Ops that raise an error at run time: always (Raise), or if a condition is false (CheckAndRaise, Assert)."""

from theano_ng.gof import ports
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.op import Op
from theano_ng.lazy import lazy_names

__all__ = ["Raise", "CheckAndRaise", "Assert", "assert_op"]  # noqa: F822, __getattr__ provides the last two


class Raise(Op):
    """An Op that raises an error when its value is computed: ``Raise(msg, exc)(x)``.

    Parameters
    ----------
    msg : str
    exc : exception class
        By default, NotImplementedError.
    """

    __props__ = ("msg", "exc")

    def __init__(self, msg="", exc=NotImplementedError):
        self.msg = msg
        self.exc = exc

    def __hash__(self):
        # Hash the name of the error class: the hash must not depend on the address of the class.
        return hash((type(self).__qualname__, self.msg, self.exc.__module__, self.exc.__qualname__))

    def __str__(self):
        return "Raise{%s}" % self.exc.__name__

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, out_storage):
        raise self.exc(self.msg)

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, grads):
        return grads

    def R_op(self, inputs, eval_points):
        return list(eval_points)


class ConditionalOp(Op):
    """The base class of Ops that return a view of their first input if all other inputs, the conditions, are true.

    Subclasses define `perform`, which raises an exception if a condition is false.

    Attributes
    ----------
    not_scalar : str
        The format of the error for a condition that is not a scalar, with the keys `op` and `type`.
    """

    view_map = {0: [0]}
    check_input = False
    _f16_ok = True
    not_scalar = "%(op)s: conditions must be scalars, got type %(type)s"

    def make_node(self, value, *conds):
        if not isinstance(value, Variable):
            value = ports.as_variable(value)
        conds = [ports.as_variable(int(cond) if isinstance(cond, bool) else cond) for cond in conds]
        for cond in conds:
            if cond.type.ndim != 0:
                raise TypeError(self.not_scalar % {"op": self, "type": cond.type})
        return Apply(self, [value, *conds], [value.type()])

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]]

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def grad(self, inputs, output_gradients):
        return [*output_gradients, *[DisconnectedType()() for _ in inputs[1:]]]

    def R_op(self, inputs, eval_points):
        return [eval_points[0]]


class CheckAndRaise(ConditionalOp):
    """An Op that returns its first input if all conditions are true: ``CheckAndRaise(exc, msg)(x, *conds)``.

    It raises an error if a condition is false.

    Parameters
    ----------
    exc_type : exception class
    msg : str
    """

    __props__ = ("exc_type", "msg")

    def __init__(self, exc_type, msg=""):
        if not (isinstance(exc_type, type) and issubclass(exc_type, Exception)):
            raise TypeError("CheckAndRaise needs an exception class, got %r" % (exc_type,))
        self.exc_type = exc_type
        self.msg = msg

    def __hash__(self):
        return hash((type(self).__qualname__, self.exc_type.__module__, self.exc_type.__qualname__, self.msg))

    def __str__(self):
        return "%s{%s, %r}" % (type(self).__name__, self.exc_type.__name__, self.msg)

    def perform(self, node, inputs, out_):
        if not all(inputs[1:]):
            raise self.exc_type(self.msg)
        out_[0][0] = inputs[0]


# `Assert` has native code for tensors, so it is defined in `theano_ng.tensor`.
__getattr__, __dir__, _ = lazy_names(__name__, {"theano_ng.tensor.assert_op": "Assert assert_op"})
