"""Linear algebra as in NumPy: inverses, determinants, decompositions, norms.

The import of `theano_ng.tensor` does not load this module. The module is loaded when it is first used. As in NumPy, the
Ops raise `numpy.linalg.LinAlgError` for matrices that are singular or not square. The error message contains the node.
Integers are converted to float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.compile.ops import shape_i_op
from theano_ng.gof.derivative import grad_not_implemented
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.raise_op import CheckAndRaise
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import conj_if_complex
from theano_ng.tensor.linalg.common import _zero_disconnected, adjoint, as_linalg_inputs, as_matrix, matrix_dot, store
from theano_ng.tensor.linalg.decompositions import SVD, Eig, Eigh, EighGrad, QRFull, QRIncomplete, eig, eigh, qr, svd
from theano_ng.tensor.linalg.inverses import MatrixInverse, MatrixPinv, matrix_inverse, pinv
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.shaping.diagonals import ExtractDiag
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneConst

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

LAPACK = "theano_ng.tensor.native.lapack:"


# Register the module of the rules for these Ops. It is imported when a function is compiled.
register_loader("theano_ng.tensor.opt.linalg")


# --- inverses ----------------------------------------------------------------------------------------------------------------


class TensorInv(Op):
    """An Op that computes `numpy.linalg.tensorinv`. See :func:`tensorinv`.

    Parameters
    ----------
    ind : int, optional
        The number of leading axes that form the rows of the inverted matrix.
    """

    __props__ = ("ind",)

    def __init__(self, ind=2):
        if ind != int(ind) or ind < 1:
            raise ValueError("TensorInv: ind must be a positive integer, not %r" % (ind,))
        self.ind = int(ind)

    def make_node(self, a):
        (a,) = as_linalg_inputs(self, a)
        if a.ndim < self.ind:
            raise ValueError("%s: ind exceeds the %d dimension(s) of the input" % (self, a.ndim))
        return Apply(self, [a], [TensorType(a.dtype, a.broadcastable[self.ind :] + a.broadcastable[: self.ind])()])

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.tensorinv(inputs[0], self.ind), node.outputs[0].dtype)

    def L_op(self, inputs, outputs, g_outputs):
        """Return the gradient: reshape to square matrices, and use the gradient of the matrix inverse."""
        (a,) = inputs
        inverse, g = _as_square(outputs[0], a.ndim - self.ind), _as_square(g_outputs[0], a.ndim - self.ind)
        ga = -matrix_dot(adjoint(inverse), g, adjoint(inverse))
        return [with_pattern(ga.reshape(a.shape, ndim=a.ndim), a)]

    def R_op(self, inputs, eval_points):
        (a,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None]
        whole = self(a)
        inverse = _as_square(whole, a.ndim - self.ind)
        change = -matrix_dot(inverse, _as_square(direction, self.ind), inverse)
        return [T.patternbroadcast(change.reshape(whole.shape, ndim=whole.ndim), whole.broadcastable)]

    def infer_shape(self, node, shapes):
        (shape,) = shapes
        return [tuple(shape[self.ind :]) + tuple(shape[: self.ind])]


def _as_square(a, n_rows):
    """Reshape a tensor to a matrix. The first `n_rows` axes become the rows, the remaining axes become the columns."""
    return a.reshape((T.prod(a.shape[:n_rows]), T.prod(a.shape[n_rows:])), ndim=2)


def tensorinv(a: TensorLike, ind: int = 2) -> TensorVariable:
    """Return the 'inverse' of an N-dimensional array, as `numpy.linalg.tensorinv`.

    The result is an inverse of `a` for the operation ``tensordot(a, b, ind)``. Except for rounding errors,
    ``tensordot(tensorinv(a), a, ind)`` is the identity tensor of this operation.

    Parameters
    ----------
    a : tensor_like
        The tensor to 'invert'. Its shape must be 'square', i. e., ``prod(a.shape[:ind]) == prod(a.shape[ind:])``.
    ind : int, optional
        The number of leading axes that form the rows of the inverted matrix. It must be positive. The default is 2.

    Returns
    -------
    TensorVariable
        The tensordot inverse of `a`, of shape ``a.shape[ind:] + a.shape[:ind]``.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if `a` is singular or not 'square' as defined above.
    """
    return TensorInv(ind)(a)


class TensorSolve(Op):
    """An Op that computes `numpy.linalg.tensorsolve`. See :func:`tensorsolve`.

    Parameters
    ----------
    axes : tuple of int, optional
        The axes of the first input that are moved to the right before solving.
    """

    __props__ = ("axes",)

    def __init__(self, axes=None):
        self.axes = None if axes is None else tuple(int(axis) for axis in axes)

    def _order(self, ndim):
        """Return the axes of the first input, in an order in which the chosen `axes` come last."""
        axes = self.axes or ()
        if len(set(axes)) != len(axes) or any(not 0 <= axis < ndim for axis in axes):
            raise ValueError("%s: axes must be distinct integers from 0 to %d" % (self, ndim - 1))
        return [axis for axis in range(ndim) if axis not in axes] + list(axes)

    def make_node(self, a, b):
        a, b = as_linalg_inputs(self, a, b)
        if a.ndim < b.ndim:
            raise ValueError(
                "%s: the first input, the coefficients, has %d dimension(s), which are fewer than the %d of the "
                "right-hand side" % (self, a.ndim, b.ndim)
            )
        pattern = [a.broadcastable[axis] for axis in self._order(a.ndim)[b.ndim :]]
        return Apply(self, [a, b], [TensorType(a.dtype, pattern)()])

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.tensorsolve(inputs[0], inputs[1], self.axes), node.outputs[0].dtype)

    def L_op(self, inputs, outputs, g_outputs):
        """Return the gradients of a linear system: ``gb = solve(a^T, gx)``, ``ga = -outer(gb, x)``."""
        a, b = inputs
        (x,) = outputs
        order = self._order(a.ndim)
        coefficients, solution = conj_if_complex(a), conj_if_complex(x)
        # Transpose the coefficients: the axes of the unknown come first, and the axes of the right-hand side come last.
        gb = TensorSolve()(coefficients.dimshuffle(order[b.ndim :] + order[: b.ndim]), g_outputs[0])
        ga = -T.tensordot(gb, solution, axes=0)
        ga = ga.dimshuffle([order.index(axis) for axis in range(a.ndim)])
        return [with_pattern(ga, a), with_pattern(gb, b)]

    def R_op(self, inputs, eval_points):
        a, b = inputs
        da, db = eval_points
        if da is None and db is None:
            return [None]
        change = db
        if da is not None:
            x = self(a, b)
            order = self._order(a.ndim)
            product = T.tensordot(da.dimshuffle(order), x, axes=x.ndim)
            change = -product if change is None else change - product
        return [self(a, with_pattern(change, b))]

    def infer_shape(self, node, shapes):
        a, b = shapes
        return [tuple(a[axis] for axis in self._order(len(a))[len(b) :])]


def tensorsolve(a: TensorLike, b: TensorLike, axes: Sequence[int] | None = None) -> TensorVariable:
    """Solve the tensor equation ``a x = b`` for x, as `numpy.linalg.tensorsolve`.

    The product sums over all indices of x and the rightmost indices of `a`, as for example in
    ``tensordot(a, x, axes=x.ndim)``.

    Parameters
    ----------
    a : tensor_like
        The coefficient tensor, of shape ``b.shape + Q``. The tuple Q is the shape of x. `a` must be 'square', i. e.,
        ``prod(Q) == prod(b.shape)``.
    b : tensor_like
        The right-hand side, a tensor of any shape.
    axes : tuple of ints, optional
        The axes of `a` that are moved to the right before solving. By default, no axes are moved.

    Returns
    -------
    TensorVariable
        The solution x, of shape Q.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if `a` is singular or not 'square' as defined above.
    """
    return TensorSolve(axes)(a, b)


class lstsq(Op):
    """An Op that computes the least-squares solution of ``dot(x, solution) = y``, as `numpy.linalg.lstsq`.

    Use it as ``lstsq()(x, y, rcond)``. Inputs:

    * x: a matrix (M, N);
    * y: a vector (M,) or a matrix (M, K);
    * rcond: a number or None. Singular values below rcond times the largest singular value are treated as zero. -1
      means the machine precision, None means the machine precision times max(M, N).

    Outputs:

    * the solution, of shape (N,) or (N, K);
    * the sums of squared residuals, of shape (K,) or (1,). This output is empty if the rank is below N or if M <= N;
    * the rank, an int64;
    * the singular values.

    The gradient is not implemented: use `pinv`, or solve the normal equations.
    """

    __props__ = ()

    def make_node(self, x, y, rcond):
        x, y = as_linalg_inputs(self, x, y)
        if x.ndim != 2 or y.ndim not in (1, 2):
            raise TypeError(
                "lstsq expects a matrix and a vector or matrix, not inputs of %d and %d dimension(s)" % (x.ndim, y.ndim)
            )
        if rcond is None or NoneConst.equals(rcond):
            rcond = NoneConst
        else:
            rcond = as_tensor_variable(rcond)
            if rcond.ndim != 0 or rcond.dtype.startswith("complex"):
                raise TypeError("lstsq: rcond must be a real number or None, not of type %s" % (rcond.type,))
        # Find the type of the singular values: a vector of the real dtype.
        real = SVD(compute_uv=False)(x).type
        return Apply(
            self,
            [x, y, rcond],
            [TensorType(x.dtype, (x.broadcastable[1],) + y.broadcastable[1:])(), real(), T.lscalar(), real()],
        )

    def perform(self, node, inputs, outputs):
        x, y, rcond = inputs
        results = np.linalg.lstsq(x, y, None if rcond is None else float(rcond))
        for cell, value, out in zip(outputs, results, node.outputs):
            store(cell, value, out.dtype)

    def grad(self, inputs, g_outputs):
        return [
            grad_not_implemented(self, i, x, "Use pinv, or solve the normal equations.") for i, x in enumerate(inputs)
        ]

    def infer_shape(self, node, shapes):
        (m, n), y, _ = shapes
        # The number of residuals depends on the values of the inputs, so take it from the computed output.
        return [(n,) + tuple(y[1:]), (shape_i_op(0)(node.outputs[1]),), (), (T.minimum(m, n),)]


# --- determinant, diagonals, powers ------------------------------------------------------------------------------------------


class Det(NativeOp, Op):
    """An Op that computes the determinant of a square matrix.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is not square. The gradient also raises the error if the matrix is singular, because
        the gradient needs the inverse of the matrix.
    """

    __props__ = ()

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike) -> TensorVariable: ...

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [TensorType(x.dtype, ())()])

    def native_code(self, node):
        return NativeCode(LAPACK + "det")

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.det(inputs[0]), node.outputs[0].dtype)

    def grad(self, inputs, g_outputs):
        (x,) = inputs
        inverse = adjoint(matrix_inverse(x))
        det_x = conj_if_complex(self(x))
        return [with_pattern(g_outputs[0] * det_x * inverse, x)]

    def R_op(self, inputs, eval_points):
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None]
        return [self(x) * T.sum(matrix_inverse(x).T * direction)]

    def infer_shape(self, node, shapes):
        return [()]


det = Det()


class AllocDiag(Op):
    """An Op that allocates a square matrix with the given vector as its diagonal.

    `theano_ng.tensor.AllocDiag` also supports offsets and more dimensions.
    """

    __props__ = ()

    def make_node(self, _x):
        x = as_tensor_variable(_x)
        if x.ndim != 1:
            raise TypeError("AllocDiag only works on vectors, not on %s of type %s" % (_x, x.type))
        return Apply(self, [x], [TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        n = len(x)
        result = np.zeros(n * n, x.dtype)
        result[:: n + 1] = x
        outputs[0][0] = result.reshape(n, n)

    def grad(self, inputs, g_outputs):
        return [with_pattern(extract_diag(g_outputs[0]), inputs[0])]

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else self(eval_points[0])]

    def infer_shape(self, node, shapes):
        (n,) = shapes[0]
        return [(n, n)]


alloc_diag = AllocDiag()
extract_diag = ExtractDiag()


def diag(x: TensorLike) -> TensorVariable:
    """Return the diagonal of a matrix, or a diagonal matrix with the given vector as its diagonal.

    NumPy's parameter ``k`` is supported only by `theano_ng.tensor.diag`.

    Parameters
    ----------
    x : tensor_like, vector or matrix

    Returns
    -------
    TensorVariable

    Raises
    ------
    TypeError
        If `x` is neither a vector nor a matrix.
    """
    x = as_tensor_variable(x)
    if x.ndim == 1:
        return alloc_diag(x)
    if x.ndim == 2:
        return extract_diag(x)
    raise TypeError("diag requires vector or matrix argument, not %d dimension(s)" % x.ndim, x)


def trace(X: TensorLike) -> TensorVariable:
    """Return the sum of the diagonal elements of the matrix X.

    Parameters
    ----------
    X : tensor_like
        If X has more than two dimensions, the diagonals of the first two dimensions are summed, as in NumPy.

    Returns
    -------
    TensorVariable
    """
    diagonal = extract_diag(X)
    return diagonal.sum(axis=None if diagonal.ndim == 1 else -1)


def matrix_power(M: TensorLike, n: int) -> TensorVariable:
    r"""Raise a square matrix M to the power n, an integer, by repeated squaring.

    Parameters
    ----------
    M : TensorVariable
        The square matrix.
    n : Python int
        The exponent. If it is negative, the result is a power of the inverse. If it is 0, the result is the identity.

    Returns
    -------
    TensorVariable
        A matrix with the dtype of `M`. If a matrix of integers is inverted, the dtype is float64.

    Raises
    ------
    TypeError
        If `M` is not a matrix or `n` is not an integer.
    numpy.linalg.LinAlgError
        At run time, if `M` is not square, or if it is singular and `n` is negative.
    """
    M = as_tensor_variable(M)
    if M.ndim != 2:
        raise TypeError("matrix_power expects a matrix, not a tensor of type %s" % (M.type,))
    try:
        exponent = n.__index__()
    except (AttributeError, TypeError):
        raise TypeError("matrix_power: the exponent must be a Python integer, not %r" % (n,)) from None
    if exponent < 0:
        M, exponent = matrix_inverse(M), -exponent
    else:
        square = CheckAndRaise(np.linalg.LinAlgError, "matrix_power: the matrix must be square")
        M = square(M, T.eq(M.shape[0], M.shape[1]))
    if exponent == 0:
        return T.eye(M.shape[0], dtype=M.dtype)
    result: Any = None
    while True:
        if exponent & 1:
            result = M if result is None else T.dot(result, M)
        exponent >>= 1
        if not exponent:
            return result
        M = T.dot(M, M)


def norm(x: TensorLike, ord: Any) -> TensorVariable:
    """Return the norm of a vector or matrix, as `numpy.linalg.norm`.

    Parameters
    ----------
    x : tensor_like
        A vector or matrix. For ``ord=None``, any number of dimensions is allowed.
    ord : {None, 'fro', 'nuc', 'inf', '-inf'} or number
        The order of the norm. None is the square root of the sum of squares of all elements.

        For vectors: 'inf' or `numpy.inf` is the largest absolute value, '-inf' or ``-numpy.inf`` is the smallest
        absolute value. 0 is the number of nonzero elements. For other numbers, the norm is ``sum(abs(x) ** ord) ** (1 /
        ord)``.

        For matrices: 'fro' is the same as None. 'nuc' is the sum of the singular values. inf and -inf are the largest
        and smallest sum of absolute values of a row. 1 and -1 are the largest and smallest sum of absolute values of a
        column. 2 and -2 are the largest and smallest singular value.

    Returns
    -------
    TensorVariable
        A real 0-d tensor. Its dtype is float64 if `x` contains integers.

    Raises
    ------
    ValueError
        If `ord` is not defined for this number of dimensions.
    """
    x = as_tensor_variable(x)
    if x.dtype in DISCRETE:
        x = T.cast(x, "float64")
    if isinstance(ord, str) and ord in ("inf", "-inf"):
        ord = float(ord)
    if ord is None or (x.ndim == 2 and isinstance(ord, str) and ord in ("fro", "f")) or (x.ndim == 1 and ord == 2):
        if x.dtype.startswith("complex"):
            return T.sqrt(T.sum(T.sqr(T.real(x)) + T.sqr(T.imag(x))))
        # The dot product of a vector with itself is faster than a sum of squares.
        x = x.flatten() if x.ndim != 1 else x
        return T.sqrt(T.dot(x, x))
    if not isinstance(ord, str) and not isinstance(ord, (int, float, np.number)):
        raise TypeError("norm: ord must be None, a string or a number, not %r" % (ord,))
    if x.ndim == 1:
        return _vector_norm(x, ord)
    if x.ndim == 2:
        return _matrix_norm(x, ord)
    raise ValueError(
        "Improper number of dimensions to norm: ord=%r applies to a vector or matrix, not to %d dimensions"
        % (ord, x.ndim)
    )


def _largest(values):
    """Return the largest element of a vector without negative elements. Return 0 if the vector is empty."""
    return T.max(T.concatenate([np.zeros(1, values.dtype), values]))


def _vector_norm(x, ord):
    if isinstance(ord, str):
        raise ValueError("Invalid norm order %r for vectors" % ord)
    if ord == 0:
        return T.sum(T.neq(x, 0), dtype=abs(x).dtype)
    if ord == np.inf:
        return _largest(abs(x))
    if ord == -np.inf:
        return T.min(abs(x))
    if ord == 1:
        return T.sum(abs(x))
    size = abs(x)
    # Give the constants the dtype of `size`, so that they do not change the dtype of the result.
    return T.sum(size ** np.asarray(ord, size.dtype)) ** np.asarray(1.0 / ord, size.dtype)


def _matrix_norm(x, ord):
    if ord in (2, -2, "nuc"):
        s = svd(x, compute_uv=False)
        return {2: _largest, -2: T.min, "nuc": T.sum}[ord](s)
    if ord in (1, -1, np.inf, -np.inf):
        sums = T.sum(abs(x), axis=0 if abs(ord) == 1 else 1)
        return _largest(sums) if ord > 0 else T.min(sums)
    raise ValueError("Invalid norm order %r for matrices." % (ord,))
