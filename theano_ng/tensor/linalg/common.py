"""What the Ops of linear algebra share: their inputs, and derivatives by those of expressions."""

import numpy as np

from theano_ng import scalar
from theano_ng.compile.ops import view_op
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import as_tensor_variable

LINALG_DTYPES = ("float32", "float64", "complex64", "complex128")
_REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}


def as_linalg_inputs(op, *values):
    """The inputs of an Op of this family as tensors of one dtype that LAPACK has: integers become float64, as in NumPy.

    Parameters
    ----------
    op : Op
        For messages.
    *values : tensor_like

    Returns
    -------
    list of TensorVariable

    Raises
    ------
    TypeError
        For float16, which LAPACK does not have.
    """
    values = [T.as_tensor_variable(value) for value in values]
    for i, value in enumerate(values):
        if value.dtype == "float16":
            raise TypeError("%s: input %d is float16, which LAPACK does not have; cast it to float32 first" % (op, i))
    dtype = scalar.upcast(*[value.dtype for value in values])
    if dtype not in LINALG_DTYPES:
        dtype = "float64"
    return [value if value.dtype == dtype else T.cast(value, dtype) for value in values]


def as_matrix(op, x):
    """`as_linalg_inputs` for one input that has to be a matrix; raises TypeError for another number of dimensions."""
    (x,) = as_linalg_inputs(op, x)
    if x.ndim != 2:
        raise TypeError(
            "%s: the input must be a matrix, but has %d dimension(s): %s of type %s" % (op, x.ndim, x, x.type)
        )
    return x


def adjoint(x):
    """The transposed matrix, conjugated if it is complex."""
    return (T.conj(x) if x.dtype.startswith("complex") else x).T


def store(cell, value, dtype):
    """Put a result into an output cell: of this dtype, C-contiguous like what C code returns."""
    cell[0] = np.asarray(value, dtype=dtype, order="C")


def with_pattern(gradient, x):
    """The gradient with the broadcast pattern of its input."""
    return gradient if gradient.broadcastable == x.broadcastable else T.patternbroadcast(gradient, x.broadcastable)


def _zero_disconnected(outputs, grads):
    """The gradients with respect to outputs, zeros in place of those that the cost does not depend on.

    Parameters
    ----------
    outputs, grads : list of Variable

    Returns
    -------
    list of Variable
    """
    return [
        output.zeros_like() if isinstance(gradient.type, DisconnectedType) else gradient
        for output, gradient in zip(outputs, grads)
    ]


def pullback(build, inputs, weights):
    """``Lop(build(*inputs), inputs, weights)`` with the inputs as independent variables, though some may be computed from others.

    This is what an Op of a gradient, which gets values and their gradients, has to return as its own gradient.
    """
    points = [view_op(i) for i in inputs]
    return Lop(build(*points), points, weights, disconnected_inputs="ignore")


def pushforward(build, inputs, eval_points):
    """``Rop(build(*inputs), inputs, eval_points)`` likewise; None when no input moves.

    Parameters
    ----------
    build : callable
    inputs : list of Variable
    eval_points : list of Variable or None
        None for inputs that do not move.
    """
    points = [view_op(i) for i in inputs]
    moving = [(point, direction) for point, direction in zip(points, eval_points) if direction is not None]
    if not moving:
        return None
    return Rop(build(*points), *map(list, zip(*moving)))


def matrix_dot(*args):
    r"""Shorthand for product between several dots.

    Given :math:`N` matrices :math:`A_0, A_1, .., A_N`, ``matrix_dot`` will generate the matrix product between all in the given order,
    namely :math:`A_0 \cdot A_1 \cdot A_2 \cdot .. \cdot A_N`: from left to right.

    Raises
    ------
    TypeError
        Without arguments.
    """
    if not args:
        raise TypeError("matrix_dot needs one matrix or more")
    rval = as_tensor_variable(args[0])
    for a in args[1:]:
        rval = T.dot(rval, a)
    return rval
