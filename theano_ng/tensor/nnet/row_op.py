"""The base class of Ops over the rows of a matrix, and checks of their arguments."""

from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS

FLOATS = ("float16", "float32", "float64")


class RowOp(NativeOp, Op):
    """The base class of Ops over the rows of a matrix, with native code for float32 and float64.

    Attributes
    ----------
    function : str
        The name of the native function.
    """

    __props__ = ()
    function: str | None = None

    def native_code(self, node):
        dtypes = {i.type.dtype for i in node.inputs if i.type.dtype.startswith(("float", "complex"))}
        if len(dtypes) == 1 and dtypes <= {"float32", "float64"}:
            return NativeCode("theano_ng.tensor.native.nnet:" + self.function)
        return None


def float_matrix(op, x, name="x", vector_is_row=False):
    """Return `x` as a matrix of floats.

    Parameters
    ----------
    vector_is_row : bool
        Whether to accept a vector as a matrix with one row.

    Raises
    ------
    ValueError
        If `x` is not a matrix (or an accepted vector) of floats.
    """
    x = as_tensor_variable(x)
    if x.type.ndim not in ((1, 2) if vector_is_row else (2,)) or x.type.dtype not in FLOATS:
        raise ValueError(
            "%s: %s must be a %s of floats. Got %s"
            % (op, name, "vector or a matrix" if vector_is_row else "matrix", x.type)
        )
    return x.dimshuffle("x", 0) if x.ndim == 1 else x


def integer_vector(op, y, name="y_idx"):
    """Return `y` as a vector of integers.

    Raises
    ------
    ValueError
        If `y` is not a vector of integers.
    """
    y = as_tensor_variable(y)
    if y.type.ndim != 1 or y.type.dtype not in INTEGERS:
        raise ValueError("%s: %s must be a vector of integers. Got %s" % (op, name, y.type))
    return y
