"""`Assert`: an Op that returns its input, or raises an exception if a condition is false at run time."""

from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.raise_op import ConditionalOp
from theano_ng.tensor.type import TensorType

__all__ = ["Assert", "AssertIndex", "AssertShape", "assert_", "assert_op"]

# The order of these classes must be the same as in native/arrays/shape.c.
_NATIVE_ERRORS = (AssertionError, IndexError, ValueError)


class Assert(NativeOp, ConditionalOp):
    """An Op that returns a view of `value`, or raises an error if a condition is false: ``Assert(msg)(value, *conds)``.

    Parameters
    ----------
    msg : str
        Message of the error.

    Attributes
    ----------
    error : AssertionError, IndexError or ValueError
        The class of the exception that the Op raises.

    Notes
    -----
    The conditions are 0-d tensors. They are checked only if the result of the node is used, and no rewriting rule
    removes the node.

    Examples
    --------
    >>> import theano_ng as theano
    >>> import theano_ng.tensor as T
    >>> x = T.vector('x')
    >>> assert_op = T.opt.Assert()
    >>> func = theano.function([x], assert_op(x, x.size < 2))
    """

    __props__ = ("msg",)
    error = AssertionError
    not_scalar = "Assert: conditions must be scalars, got a variable of type %(type)s"

    def __init__(self, msg="Theano Assert failed!"):
        self.msg = msg

    def __setstate__(self, attrs):
        self.__dict__.update(attrs)
        self.__dict__.setdefault("msg", "Theano Assert failed!")

    def __str__(self):
        return "%s{msg=%r}" % (type(self).__name__, self.msg)

    def native_code(self, node):
        if not isinstance(node.inputs[0].type, TensorType):
            return None
        text = str(self.msg).encode("utf-8")
        return NativeCode(
            "theano_ng.tensor.native.shape:assert_true",
            error=_NATIVE_ERRORS.index(self.error),
            length=len(text),
            message=text,
        )

    def perform(self, node, inputs, out_):
        if not all(inputs[1:]):
            raise self.error(self.msg)
        out_[0][0] = inputs[0]


class AssertIndex(Assert):
    """An `Assert` that raises IndexError.

    A rewriting rule that removes an indexing operation inserts this Op to check that the index is within the bounds.
    """

    error = IndexError


class AssertShape(Assert):
    """An `Assert` that raises ValueError.

    A rewriting rule that removes an Op that rejects wrong shapes inserts an `AssertShape` to check the shapes.
    """

    error = ValueError


assert_ = Assert()
assert_op = assert_
