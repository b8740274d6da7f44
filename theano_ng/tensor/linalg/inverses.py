"""Inverses of matrices. Users import these names from `theano_ng.tensor.nlinalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor import basic as T
from theano_ng.tensor.linalg.common import adjoint, as_matrix, matrix_dot, store
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

LAPACK = "theano_ng.tensor.native.lapack:"


class MatrixInverse(NativeOp, Op):
    r"""An Op that computes the inverse of a matrix :math:`A`.

    For a square matrix :math:`A`, ``matrix_inverse`` returns a square matrix :math:`A_{inv}` such that
    :math:`A \cdot A_{inv}` and :math:`A_{inv} \cdot A` are equal to the identity matrix :math:`I`.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is singular or not square.

    Notes
    -----
    A rewriting rule replaces this Op by ``solve`` if possible.
    """

    __module__ = "theano_ng.tensor.nlinalg"  # the documented path
    __props__ = ()

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike) -> TensorVariable: ...

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [x.type()])

    def native_code(self, node):
        return NativeCode(LAPACK + "inverse")

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.inv(inputs[0]), node.outputs[0].dtype)

    def results(self, x):
        """Return a list with the inverse that derivatives use. Ops on devices replace this function."""
        return [self(x)]

    def grad(self, inputs, g_outputs):
        r"""Return the gradient

        .. math:: V\frac{\partial X^{-1}}{\partial X},

        where :math:`V` is ``g_outputs`` and :math:`X` is ``inputs``. According to the Matrix Cookbook, it is equal to

        .. math:: -(X^{-1} \cdot V^{T} \cdot X^{-1})^T.
        """
        (x,) = inputs
        inverse = adjoint(self.results(x)[0])
        return [with_pattern(-matrix_dot(inverse, g_outputs[0], inverse), x)]

    def R_op(self, inputs, eval_points):
        r"""Return the directional derivative

        .. math:: \frac{\partial X^{-1}}{\partial X}V,

        where :math:`V` is ``eval_points`` and :math:`X` is ``inputs``. According to the Matrix Cookbook, it is equal to

        .. math:: -X^{-1} \cdot V \cdot X^{-1}.
        """
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None]
        (inverse,) = self.results(x)
        return [with_pattern(-matrix_dot(inverse, direction, inverse), x)]

    def infer_shape(self, node, shapes):
        return shapes


matrix_inverse = MatrixInverse()


class MatrixPinv(Op):
    r"""An Op that computes the pseudo-inverse of a matrix :math:`A`.

    The pseudo-inverse :math:`A^+` is the matrix that solves the least-squares problem :math:`Ax = b`: the solution is
    :math:`\bar{x} = A^+b`.

    The product :math:`AA^+` is the orthogonal projection onto the column space of :math:`A`. It is the identity matrix
    if the rows of :math:`A` are linearly independent. Unlike `matrix_inverse`, this Op supports matrices that are not
    square. For square matrices `matrix_inverse` can be more accurate and faster.
    Rewriting rules do not replace this Op by ``solve``.
    """

    __module__ = "theano_ng.tensor.nlinalg"
    __props__ = ()

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike) -> TensorVariable: ...

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [TensorType(x.dtype, x.broadcastable[::-1])()])

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.pinv(inputs[0]), node.outputs[0].dtype)

    def L_op(self, inputs, outputs, g_outputs):
        r"""Return the gradient

        .. math:: V\frac{\partial X^+}{\partial X},

        where :math:`V` is ``g_outputs`` and :math:`X` is ``inputs``. It is equal to

        .. math:: (-X^+V^TX^+ + X^+X^{+T}V^T(I - XX^+) + (I - X^+X)V^TX^{+T}X^+)^T

        (G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
        variables separate", 1973), if the rank is constant in a neighborhood of the matrix.
        """
        (x,) = inputs
        (z,) = outputs
        (gz,) = g_outputs
        zh, gh = adjoint(z), adjoint(gz)
        # This order of the products ensures that no intermediate matrix is larger than x.
        direct = matrix_dot(zh, gz, zh)
        beside = matrix_dot(gh, z, zh)
        below = matrix_dot(zh, z, gh)
        return [with_pattern(beside - T.dot(x, T.dot(z, beside)) + below - T.dot(T.dot(below, z), x) - direct, x)]

    def R_op(self, inputs, eval_points):
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None]
        z = self(x)
        zh, dh = adjoint(z), adjoint(direction)
        beside, below = matrix_dot(z, zh, dh), matrix_dot(dh, zh, z)
        rval = beside - T.dot(T.dot(beside, x), z) + below - T.dot(z, T.dot(x, below)) - matrix_dot(z, direction, z)
        return [T.patternbroadcast(rval, z.broadcastable)]

    def infer_shape(self, node, shapes):
        ((m, n),) = shapes
        return [(n, m)]


pinv = MatrixPinv()
