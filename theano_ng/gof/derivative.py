"""Types of missing derivatives, and the errors that the use of a missing derivative raises.

The types have no values. An Op returns a variable of such a type in place of the derivative.
The objects are documented as members of `theano_ng.gradient`.
"""

from theano_ng.gof.null_type import NullType
from theano_ng.gof.type import Type


class NullTypeGradError(TypeError):
    """Error raised by `grad` for a derivative that does not exist."""


class GradUndefinedError(NullTypeGradError):
    """Error: a derivative is mathematically undefined; see `grad_undefined`."""


class GradNotImplementedError(NullTypeGradError, NotImplementedError):
    """Error: a derivative is not implemented; see `grad_not_implemented`."""


class DisconnectedType(Type):
    """The type of a gradient that is zero because the cost is not a function of the variable."""

    def filter(self, data, strict=False, allow_downcast=None):
        raise AssertionError(
            "If you're assigning to a DisconnectedType you're doing something wrong. It should only be used as a symbolic"
            " placeholder."
        )

    def filter_variable(self, other, allow_convert=True):
        raise AssertionError(
            "If you're assigning to a DisconnectedType you're doing something wrong. It should only be used as a symbolic"
            " placeholder."
        )

    # Theano misspelled the name of this method. Existing code uses the misspelled name.
    fiter_variable = filter_variable

    @staticmethod
    def may_share_memory(a, b):
        return False

    @staticmethod
    def value_eq(a, b, force_same_dtype=True):
        raise AssertionError(
            "If you're assigning to a DisconnectedType you're doing something wrong. It should only be used as a symbolic"
            " placeholder."
        )

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(DisconnectedType.__name__)

    def __str__(self):
        return "DisconnectedType"


disconnected_type = DisconnectedType()


def grad_undefined(op, x_pos, x, comment=""):
    """Return a placeholder for a derivative that is mathematically undefined.

    An Op's `grad` may return the placeholder. A gradient or function that needs the derivative raises an error.

    Parameters
    ----------
    op : Op
    x_pos : int
        The index of `x` in the inputs of the node.
    x : Variable
        An input of a node of `op`.
    comment : str
        A text to add to the error message.

    Returns
    -------
    Variable
        A variable of NullType.
    """
    kind = NullType(
        "This variable is Null because the grad method for input %s (%s) of the %s op is mathematically undefined. %s"
        % (x_pos, x, op, comment)
    )
    kind.error = GradUndefinedError
    return kind()


def grad_not_implemented(op, x_pos, x, comment=""):
    """Return a placeholder for a derivative that is not implemented.

    An Op's `grad` may return the placeholder. A gradient or function that needs the derivative raises an error.

    Parameters
    ----------
    op : Op
    x_pos : int
        The index of `x` in the inputs of the node.
    x : Variable
        An input of a node of `op`.
    comment : str
        A text to add to the error message.

    Returns
    -------
    Variable
        A variable of NullType.
    """
    kind = NullType(
        "This variable is Null because the grad method for input %s (%s) of the %s op is not implemented. %s"
        % (x_pos, x, op, comment)
    )
    kind.error = GradNotImplementedError
    return kind()


# ---------------------------------------------------------------- queries of Ops about gradients


def disconnected_gradients(count):
    """Return new variables of DisconnectedType: the gradients of inputs that an output does not depend on.

    Parameters
    ----------
    count : int

    Returns
    -------
    list of Variable
    """
    return [disconnected_type() for _ in range(count)]


def is_disconnected(gradient):
    """Return True if a gradient has DisconnectedType.

    Parameters
    ----------
    gradient : Variable
    """
    return isinstance(gradient.type, DisconnectedType)


def is_absent(gradient):
    """Return True if a gradient has no value: it is disconnected, or does not exist.

    Parameters
    ----------
    gradient : Variable
    """
    return isinstance(gradient.type, (NullType, DisconnectedType))


for _thing in (
    NullTypeGradError,
    GradUndefinedError,
    GradNotImplementedError,
    DisconnectedType,
    grad_undefined,
    grad_not_implemented,
):
    # Pickles, reprs and tracebacks show the documented path.
    _thing.__module__ = "theano_ng.gradient"
del _thing
