"""Generalized eigenvalues, the matrix exponential, Kronecker products.

Users import these names from `theano_ng.tensor.slinalg`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from theano_ng.compile.ops import view_op
from theano_ng.gof.differentiate import Rop
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.tensor import basic as T
from theano_ng.tensor.linalg.common import _zero_disconnected, adjoint, pullback, store
from theano_ng.tensor.linalg.decompositions import eigh
from theano_ng.tensor.linalg.solving import (
    LAPACK,
    Cholesky,
    folded,
    is_complex,
    scipy_inputs,
    scipy_linalg,
    scipy_matrix,
    solve_lower_triangular,
    solve_upper_triangular,
    unfolded,
)
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneConst, NoneTypeT

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

# --- generalized eigenvalues -------------------------------------------------------------------------------------------------


def _pencil(op, a, b):
    """Return the inputs of an Op for ``a v = w b v``: only `a` if `b` is None, otherwise both, in a common dtype."""
    if b is None or (isinstance(b, Constant) and isinstance(b.type, NoneTypeT)):
        matrices = [scipy_matrix(op, a)]
    else:
        matrices = scipy_inputs(op, a, b)
        if any(m.ndim != 2 for m in matrices):
            raise TypeError("%s: a and b must be matrices; got %s" % (op, " and ".join(str(m.type) for m in matrices)))
    return matrices


def _real_dtype(dtype):
    return np.empty(0, dtype).real.dtype.name


def _check_pencil(op, matrices):
    shape = matrices[0].shape
    if shape[0] != shape[1] or any(m.shape != shape for m in matrices):
        raise np.linalg.LinAlgError(
            "%s needs two square matrices of the same shape, but their shapes are %s"
            % (op, " and ".join(str(m.shape) for m in matrices))
        )


def _eigensystem(matrices, lower):
    """Return the eigenvalues w and the eigenvectors v as expressions.

    The eigenvectors are scaled so that v^H b v = 1.
    """
    uplo = "L" if lower else "U"
    if len(matrices) == 1:
        return eigh(matrices[0], uplo)
    a, b = matrices
    factor = Cholesky(lower)(b)
    factor = factor if lower else adjoint(factor)
    inner = solve_lower_triangular(factor, unfolded(a, lower))
    inner = solve_lower_triangular(factor, adjoint(inner))
    w, u = eigh(inner, uplo)
    return w, solve_upper_triangular(adjoint(factor), u)


class Eigvalsh(NativeOp, Op):
    """An Op that computes the generalized eigenvalues of a Hermitian positive definite eigensystem.

    Inputs: a, a Hermitian matrix (M, M), and b, a Hermitian positive definite matrix (M, M) or None for the identity.
    Output: the vector (M,) of all numbers w for which ``a v = w b v`` has solutions, real and in ascending order.

    Parameters
    ----------
    lower : bool
        Whether to read the lower triangles of `a` and `b`. If False, the upper triangles are read.

    Raises
    ------
    scipy.linalg.LinAlgError
        At run time, if the matrices are not square, they differ in shape, `b` is not positive definite, or the
        algorithm does not converge.

    Notes
    -----
    If several eigenvalues are equal, a single one of these eigenvalues has no gradient. A symmetric function of all
    these eigenvalues has a gradient.
    """

    __props__ = ("lower",)

    def __init__(self, lower=True):
        if lower not in (True, False):
            raise ValueError("%s: lower must be True or False, not %r" % (type(self).__name__, lower))
        self.lower = bool(lower)

    def make_node(self, a, b=None):
        matrices = _pencil(self, a, b)
        return Apply(self, matrices, [TensorType(_real_dtype(matrices[0].dtype), (False,))()])

    def native_code(self, node):
        return NativeCode(LAPACK + "eigvalsh", lower=self.lower)

    def perform(self, node, inputs, outputs):
        _check_pencil(self, inputs)
        if len(inputs) == 1:
            w = np.linalg.eigvalsh(inputs[0], "L" if self.lower else "U")
        elif len(inputs[0]) == 0:
            w = np.empty(0, node.outputs[0].dtype)  # Without a dtype argument, NumPy would leak a reference.
        else:
            w = scipy_linalg().eigvalsh(*inputs, lower=self.lower, check_finite=False)
        store(outputs[0], w, node.outputs[0].dtype)

    def infer_shape(self, node, shapes):
        return [(shapes[0][0],)]

    def grad(self, inputs, g_outputs):
        gradients = EigvalshGrad(self.lower)(
            *(list(inputs) if len(inputs) == 2 else [inputs[0], NoneConst]), g_outputs[0]
        )
        gradients = gradients if isinstance(gradients, list) else [gradients]
        return [with_pattern(g, m) for g, m in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        if all(point is None for point in eval_points):
            return [None]
        w, v = _eigensystem(inputs, self.lower)
        change = 0
        for direction, sign in zip(eval_points, (None, w)):
            if direction is not None:
                moved = T.dot(unfolded(direction, self.lower), v)
                change = change + (moved if sign is None else -moved * sign)
        return [T.real(T.sum(T.conj(v) * change, axis=0)) if is_complex(v) else T.sum(v * change, axis=0)]


class EigvalshGrad(Op):
    """An Op for the gradient of the generalized eigenvalues of a Hermitian positive definite eigensystem.

    Inputs: a, b (or None), and the gradient gw with respect to the eigenvalues. Outputs: the gradients with respect to
    a and b, or only to a if b is None. The gradients are zero in the triangle that is not read.

    Parameters
    ----------
    lower : bool
        See `Eigvalsh`.

    Notes
    -----
    From ``a v = w b v`` and ``v^H b v = 1`` it follows that the differential of an eigenvalue is ``v^H (da - w db) v``.
    """

    __props__ = ("lower",)

    __init__ = Eigvalsh.__init__

    def make_node(self, a, b, gw=None):
        if gw is None:  # The inputs of a node without b are (a, gw), so the argument b is gw.
            b, gw = None, b
        matrices = _pencil(self, a, b)
        gw = T.as_tensor_variable(gw)
        if gw.ndim != 1:
            raise TypeError("%s: gw must be a vector, not %s" % (self, gw.type))
        return Apply(self, [*matrices, T.cast(gw, _real_dtype(matrices[0].dtype))], [m.type() for m in matrices])

    def perform(self, node, inputs, outputs):
        *matrices, gw = inputs
        _check_pencil(self, matrices)
        if gw.shape != matrices[0].shape[:1]:
            raise ValueError(
                "%s: the gradient has length %d, but there are %d eigenvalues" % (self, len(gw), len(matrices[0]))
            )
        if len(matrices) == 1 or len(gw) == 0:
            w, v = np.linalg.eigh(matrices[0], "L" if self.lower else "U")
        else:
            w, v = scipy_linalg().eigh(*matrices, lower=self.lower, check_finite=False)
        near, far = (np.tril, np.triu) if self.lower else (np.triu, np.tril)
        for output, factor in zip(outputs, (gw, -gw * w)):
            g = (v * factor).dot(v.conj().T)
            # Each element off the diagonal that is read represents two elements of the Hermitian matrix: the element
            # itself and its conjugate. So add the gradients with respect to both.
            g = near(g) + far(g, 1 if self.lower else -1).conj().T
            store(output, g, v.dtype)

    def infer_shape(self, node, shapes):
        return shapes[:-1]

    def L_op(self, inputs, outputs, g_outputs):
        return pullback(self._symbolic, inputs, _zero_disconnected(outputs, g_outputs))

    def R_op(self, inputs, eval_points):
        apart = [view_op(i) for i in inputs]
        moving = [(i, point) for i, point in zip(apart, eval_points) if point is not None]
        if not moving:
            return [None] * (len(inputs) - 1)
        return Rop(self._symbolic(*apart), *map(list, zip(*moving)))

    def _symbolic(self, *inputs):
        """Return the results as expressions. The derivatives of this Op are computed from these expressions."""
        *matrices, gw = inputs
        w, v = _eigensystem(matrices, self.lower)
        return [folded(T.dot(v * factor, adjoint(v)), self.lower) for factor in (gw, -gw * w)[: len(matrices)]]


def eigvalsh(a: TensorLike, b: TensorLike, lower: bool = True) -> TensorVariable:
    """Return the generalized eigenvalues of a Hermitian positive definite eigensystem.

    These are all numbers w for which ``a v = w b v`` has solutions.

    Parameters
    ----------
    a : matrix (M, M)
        A Hermitian matrix.
    b : matrix (M, M) or None
        A Hermitian positive definite matrix. None means the identity.
    lower : bool
        Whether to read the lower triangles of the matrices. If False, the upper triangles are read.

    Returns
    -------
    TensorVariable
        A vector (M,) in ascending order.
    """
    return Eigvalsh(lower)(a, b)


# --- functions ---------------------------------------------------------------------------------------------------------------


def kron(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the Kronecker product, as the former function ``scipy.linalg.kron(a, b)``.

    Parameters
    ----------
    a, b : tensor_like
        Together they must have at least three dimensions.

    Returns
    -------
    TensorVariable
        A tensor with ``a.ndim + b.ndim - 2`` dimensions. The outer product has the dimensions of `a`, followed by the
        dimensions of `b`. Its first and third dimensions are merged, and so are its second and fourth dimensions. If
        one operand is a vector and the other is a matrix, the vector counts as a row, and the result is flattened.

    Raises
    ------
    TypeError
        If `a` and `b` together have fewer than three dimensions.

    Notes
    -----
    ``numpy.kron(a, b)`` differs from ``kron(a, b)`` in its shape and order, unless ``a.ndim == b.ndim == 2``.
    """
    a, b = T.as_tensor_variable(a), T.as_tensor_variable(b)
    rank = a.ndim + b.ndim
    if rank <= 2:
        raise TypeError("kron: inputs dimensions must sum to 3 or more. You passed %d and %d." % (a.ndim, b.ndim))
    order = (1, 0, 2) if rank == 3 else (0, 2, 1, *range(3, rank))
    # Compute the outer product with its dimensions in `order`, so that the product need not be transposed afterwards.
    left = a.dimshuffle([k if k < a.ndim else "x" for k in order])
    right = b.dimshuffle([k - a.ndim if k >= a.ndim else "x" for k in order])
    product = left * right
    if rank == 3:
        return product.flatten()
    lengths = product.shape
    return product.reshape(
        [lengths[0] * lengths[1], lengths[2] * lengths[3], *(lengths[k] for k in range(4, rank))], ndim=rank - 2
    )


class Expm(Op):
    """An Op that computes the matrix exponential of a square array.

    Raises
    ------
    ValueError
        At run time, if the matrix is not square.
    """

    __props__ = ()

    if TYPE_CHECKING:

        def __call__(self, A: TensorLike) -> TensorVariable: ...

    def make_node(self, A):
        A = scipy_matrix(self, A)
        return Apply(self, [A], [A.type()])

    def perform(self, node, inputs, outputs):
        (A,) = inputs
        _check_exponent(self, A)
        store(outputs[0], scipy_linalg().expm(A) if A.size else A.copy(), A.dtype)

    def grad(self, inputs, outputs):
        (A,) = inputs
        return [with_pattern(ExpmGrad()(A, outputs[0]), A)]

    def R_op(self, inputs, eval_points):
        (A,) = inputs
        (direction,) = eval_points
        # ExpmGrad computes the derivative at the adjoint of its first input. So pass the adjoint of A to get the
        # derivative at A.
        return [None if direction is None else with_pattern(ExpmGrad()(adjoint(A), direction), A)]

    def infer_shape(self, node, shapes):
        return shapes


class ExpmGrad(Op):
    """An Op for the gradient of the matrix exponential of a square array.

    Inputs: the matrix A, and the gradient gw with respect to its exponential. The result is the Frechet derivative of
    the exponential at the adjoint of A in the direction gw. It is exact for all matrices, including matrices that
    cannot be diagonalized (A. H. Al-Mohy and N. J. Higham, "Computing the Frechet derivative of the matrix exponential,
    with an application to condition number estimation", SIAM J. Matrix Anal. Appl. 30, 2009).
    """

    __props__ = ()

    def make_node(self, A, gw):
        A, gw = scipy_inputs(self, A, gw)
        if A.ndim != 2 or gw.ndim != 2:
            raise TypeError("%s expects two matrices, not %s and %s" % (self, A.type, gw.type))
        return Apply(self, [A, gw], [A.type()])

    def perform(self, node, inputs, outputs):
        A, gw = inputs
        _check_exponent(self, A)
        if gw.shape != A.shape:
            raise ValueError(
                "%s: the matrix has shape %s, but the gradient with respect to its exponential has shape %s"
                % (self, A.shape, gw.shape)
            )
        result = (
            scipy_linalg().expm_frechet(A.conj().T, gw, compute_expm=False, check_finite=False) if A.size else A.copy()
        )
        store(outputs[0], result, A.dtype)

    @staticmethod
    def _block(A, gw):
        """Return a matrix of twice the size. The upper right block of its exponential is the result of this Op."""
        return T.join(0, T.join(1, adjoint(A), gw), T.join(1, T.zeros_like(A), adjoint(A)))

    def grad(self, inputs, g_outputs):
        n = inputs[0].shape[0]
        return [
            with_pattern(by, i)
            for by, i in zip(pullback(lambda A, gw: expm(self._block(A, gw))[:n, n:], inputs, g_outputs[0]), inputs)
        ]

    def R_op(self, inputs, eval_points):
        A, gw = inputs
        dA, dgw = eval_points
        terms = []
        if dgw is not None:
            terms.append(self(A, dgw))
        if dA is not None:
            n = A.shape[0]
            terms.append(expm.R_op([self._block(A, gw)], [self._block(dA, T.zeros_like(gw))])[0][:n, n:])
        if not terms:
            return [None]
        return [with_pattern(terms[0] if len(terms) == 1 else terms[0] + terms[1], A)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


def _check_exponent(op, A):
    if A.shape[0] != A.shape[1]:
        raise np.linalg.LinAlgError("%s needs a square matrix, but its shape is %s" % (op, A.shape))


expm = Expm()
