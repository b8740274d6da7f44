"""Inverses of matrices. Reached through `theano_ng.tensor.nlinalg`."""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor import basic as T
from theano_ng.tensor.linalg.common import adjoint, as_matrix, matrix_dot, store, with_pattern
from theano_ng.tensor.type import TensorType

LAPACK = "theano_ng.tensor.native.lapack:"


class MatrixInverse(NativeOp, Op):
    r"""Computes the inverse of a matrix :math:`A`.

    Given a square matrix :math:`A`, ``matrix_inverse`` returns a square matrix :math:`A_{inv}` such that the dot product
    :math:`A \cdot A_{inv}` and :math:`A_{inv} \cdot A` equals the identity matrix :math:`I`.

    Raises
    ------
    numpy.linalg.LinAlgError
        (Running.) For matrices that are singular or not square.

    Notes
    -----
    When possible, the call to this op will be optimized to the call of ``solve``.
    """

    __module__ = "theano_ng.tensor.nlinalg"  # the documented path
    __props__ = ()

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [x.type()])

    def native_code(self, node):
        return NativeCode(LAPACK + "inverse")

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.inv(inputs[0]), node.outputs[0].dtype)

    def grad(self, inputs, g_outputs):
        r"""The gradient function should return

        .. math:: V\frac{\partial X^{-1}}{\partial X},

        where :math:`V` corresponds to ``g_outputs`` and :math:`X` to ``inputs``. Using the matrix cookbook, one can deduce that the
        relation corresponds to

        .. math:: -(X^{-1} \cdot V^{T} \cdot X^{-1})^T.
        """
        (x,) = inputs
        inverse = adjoint(self(x))
        return [with_pattern(-matrix_dot(inverse, g_outputs[0], inverse), x)]

    def R_op(self, inputs, eval_points):
        r"""The gradient function should return

        .. math:: \frac{\partial X^{-1}}{\partial X}V,

        where :math:`V` corresponds to ``eval_points`` and :math:`X` to ``inputs``. Using the matrix cookbook, one can deduce that the
        relation corresponds to

        .. math:: -X^{-1} \cdot V \cdot X^{-1}.
        """
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None]
        inverse = self(x)
        return [with_pattern(-matrix_dot(inverse, direction, inverse), x)]

    def infer_shape(self, node, shapes):
        return shapes


matrix_inverse = MatrixInverse()


class MatrixPinv(Op):
    r"""Computes the pseudo-inverse of a matrix :math:`A`.

    The pseudo-inverse of a matrix :math:`A`, denoted :math:`A^+`, is defined as: "the matrix that 'solves' [the least-squares problem]
    :math:`Ax = b`," i.e., if :math:`\bar{x}` is said solution, then :math:`A^+` is that matrix such that :math:`\bar{x} = A^+b`.

    Note that :math:`Ax=AA^+b`, so :math:`AA^+` is close to the identity matrix. This method is not faster than `matrix_inverse`. Its
    strength comes from that it works for non-square matrices. If you have a square matrix though, `matrix_inverse` can be both more exact
    and faster to compute. Also this op does not get optimized into a solve op.
    """

    __module__ = "theano_ng.tensor.nlinalg"
    __props__ = ()

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [TensorType(x.dtype, x.broadcastable[::-1])()])

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.pinv(inputs[0]), node.outputs[0].dtype)

    def L_op(self, inputs, outputs, g_outputs):
        r"""The gradient function should return

        .. math:: V\frac{\partial X^+}{\partial X},

        where :math:`V` corresponds to ``g_outputs`` and :math:`X` to ``inputs``. This corresponds to

        .. math:: (-X^+V^TX^+ + X^+X^{+T}V^T(I - XX^+) + (I - X^+X)V^TX^{+T}X^+)^T

        (G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
        separate", 1973), at matrices in whose neighbourhood the rank is the same.
        """
        (x,) = inputs
        (z,) = outputs
        (gz,) = g_outputs
        zh, gh = adjoint(z), adjoint(gz)
        # The products in the order that makes no matrix larger than x.
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
