"""What Ops return where there is no derivative: types without values, and the errors that using one raises.

Documented as members of `theano_ng.gradient`.
"""

from theano_ng.gof.null_type import NullType
from theano_ng.gof.type import Type


class NullTypeGradError(TypeError):
    """Raised when `grad` meets a derivative that does not exist."""


class GradUndefinedError(NullTypeGradError):
    """A derivative is mathematically undefined; see `grad_undefined`."""


class GradNotImplementedError(NullTypeGradError, NotImplementedError):
    """A derivative is not implemented; see `grad_not_implemented`."""


class DisconnectedType(Type):
    """The type of a gradient that says: this is zero, and moreover the cost is not a function of this variable."""

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

    # The name under which this has been known.
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
    """A placeholder for a derivative that is mathematically undefined, to be returned by an Op's `grad`.

    A gradient or function that needs it raises.

    Parameters
    ----------
    op : Op
    x_pos : int
        Which input of `op`.
    x : Variable
        That input.
    comment : str
        Added to the message.

    Returns
    -------
    Variable
        Of NullType.
    """
    kind = NullType(
        "This variable is Null because the grad method for input %s (%s) of the %s op is mathematically undefined. %s"
        % (x_pos, x, op, comment)
    )
    kind.error = GradUndefinedError
    return kind()


def grad_not_implemented(op, x_pos, x, comment=""):
    """A placeholder for a derivative that is not implemented, to be returned by an Op's `grad`.

    A gradient or function that needs it raises.

    Parameters
    ----------
    op : Op
    x_pos : int
        Which input of `op`.
    x : Variable
        That input.
    comment : str
        Added to the message.

    Returns
    -------
    Variable
        Of NullType.
    """
    kind = NullType(
        "This variable is Null because the grad method for input %s (%s) of the %s op is not implemented. %s"
        % (x_pos, x, op, comment)
    )
    kind.error = GradNotImplementedError
    return kind()


# ---------------------------------------------------------------- what Ops ask about gradients


def disconnected_gradients(count):
    """New variables of DisconnectedType: the gradients of inputs that an output does not depend on.

    Parameters
    ----------
    count : int

    Returns
    -------
    list of Variable
    """
    return [disconnected_type() for _ in range(count)]


def is_disconnected(gradient):
    """Whether a gradient says that there is no connection.

    Parameters
    ----------
    gradient : Variable
    """
    return isinstance(gradient.type, DisconnectedType)


def is_absent(gradient):
    """Whether a gradient is no number: disconnected, or one that does not exist.

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
    # Pickles, reprs and tracebacks say the documented path.
    _thing.__module__ = "theano_ng.gradient"
del _thing
