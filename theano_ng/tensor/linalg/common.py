"""Helper functions for the Ops of linear algebra: conversion of inputs, and derivatives of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng import scalar
from theano_ng.compile.ops import view_op
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import conj_if_complex

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

LINALG_DTYPES = ("float32", "float64", "complex64", "complex128")
_REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}


def as_linalg_inputs(op, *values):
    """Convert the inputs of an Op to tensors of a common dtype that LAPACK supports.

    Integers become float64, as in NumPy.

    Parameters
    ----------
    op : Op
        The Op, for error messages.
    *values : tensor_like

    Returns
    -------
    list of TensorVariable

    Raises
    ------
    TypeError
        If an input is float16, which LAPACK does not support.
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
    """Convert the input of an Op as `as_linalg_inputs` does. Raise TypeError if the input is not a matrix."""
    (x,) = as_linalg_inputs(op, x)
    if x.ndim != 2:
        raise TypeError(
            "%s: the input must be a matrix, but has %d dimension(s): %s of type %s" % (op, x.ndim, x, x.type)
        )
    return x


def adjoint(x: TensorLike) -> TensorVariable:
    """Return the transpose of a matrix. If the matrix is complex, return the conjugate transpose."""
    return conj_if_complex(x).T


def store(cell, value, dtype):
    """Store a result in an output storage, converted to `dtype` and C-contiguous like the results of C code."""
    cell[0] = np.asarray(value, dtype=dtype, order="C")


def _zero_disconnected(outputs, grads):
    """Return the gradients with respect to outputs. Replace disconnected gradients by zeros.

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
    """Return ``Lop(build(*inputs), inputs, weights)``, where the inputs are treated as independent variables.

    Some inputs may be computed from other inputs. For example, the inputs of a gradient Op are a matrix and its inverse
    or factors. The gradient of such an Op must nevertheless treat its inputs as independent.
    """
    points = [view_op(i) for i in inputs]
    return Lop(build(*points), points, weights, disconnected_inputs="ignore")


def pushforward(build, inputs, eval_points):
    """Return ``Rop(build(*inputs), inputs, eval_points)``, where the inputs are treated as independent variables.

    See `pullback`.

    Parameters
    ----------
    build : callable
    inputs : list of Variable
    eval_points : list of Variable or None
        The direction of each input. It is None for an input that does not change. If all directions are None, the
        result is None.
    """
    points = [view_op(i) for i in inputs]
    moving = [(point, direction) for point, direction in zip(points, eval_points) if direction is not None]
    if not moving:
        return None
    return Rop(build(*points), *map(list, zip(*moving)))


def matrix_dot(*args: TensorLike) -> TensorVariable:
    r"""Return the product of several matrices.

    Given matrices :math:`A_0, A_1, .., A_N`, compute :math:`A_0 \cdot A_1 \cdot .. \cdot A_N` from left to right.

    Raises
    ------
    TypeError
        If there is no argument.
    """
    if not args:
        raise TypeError("matrix_dot needs at least one matrix")
    rval = as_tensor_variable(args[0])
    for a in args[1:]:
        rval = T.dot(rval, a)
    return rval
