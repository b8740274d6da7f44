"""Cholesky factors and linear systems. Users import these names from `theano_ng.tensor.slinalg`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.functions import conj_if_complex
from theano_ng.tensor.linalg.common import adjoint, as_linalg_inputs, as_matrix, pullback, store
from theano_ng.tensor.shaping.broadcasting import with_pattern

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

LAPACK = "theano_ng.tensor.native.lapack:"
STRUCTURES = (
    "general",
    "symmetric",
    "lower_triangular",
    "upper_triangular",
    "hermitian",
    "banded",
    "diagonal",
    "toeplitz",
)


# The module opt.linalg contains the rules for these Ops.
register_loader("theano_ng.tensor.opt.linalg")


@functools.lru_cache(maxsize=1)
def scipy_linalg():
    """Return the module scipy.linalg. It is imported when it is first used, because the import is slow."""
    import scipy.linalg

    return scipy.linalg


def scipy_inputs(op, *values):
    """Convert the inputs of an Op to tensors of a common dtype that LAPACK supports.

    float16 is converted to float32, as in SciPy. Integers are converted to float64.

    Returns
    -------
    list of TensorVariable
    """
    values = [T.as_tensor_variable(value) for value in values]
    return as_linalg_inputs(op, *[T.cast(value, "float32") if value.dtype == "float16" else value for value in values])


def scipy_matrix(op, x):
    """Convert an input as `scipy_inputs` does. Raise TypeError if it is not a matrix."""
    return as_matrix(op, *scipy_inputs(op, x))


def is_complex(x):
    return x.dtype.startswith("complex")


def diagonal_matrix(x):
    """Return the diagonal matrix with the diagonal of `x`.

    If `x` is complex, only the real part of the diagonal is used.
    """
    diagonal = T.diag(x)
    return T.diag(T.cast(T.real(diagonal), x.dtype) if is_complex(x) else diagonal)


def triangle(x, lower, k=0):
    """Return the lower or upper triangle of a matrix, without the `k` diagonals that start at the main diagonal."""
    return T.tril(x, -k) if lower else T.triu(x, k)


def folded(x, lower):
    """Return the gradient with respect to one triangle of a Hermitian matrix.

    `x` is the gradient with respect to all elements of the matrix. An element outside this triangle is the conjugate of
    an element in this triangle, so the gradients of these two elements are added.
    """
    return triangle(x, lower, 1) + adjoint(triangle(x, not lower, 1)) + diagonal_matrix(x)


def unfolded(x, lower):
    """Return the Hermitian matrix whose lower or upper triangle is contained in `x`."""
    half = triangle(x, lower, 1)
    return half + adjoint(half) + diagonal_matrix(x)


# --- Cholesky ----------------------------------------------------------------------------------------------------------------


def _lower_half(x):
    """Return the lower triangle of a matrix, with its (real) diagonal divided by 2.

    The function computes the differential of a Cholesky factor: if ``X = L L^H`` and ``S = L^-1 dX L^-H``, then
    ``dL = L _lower_half(S)``.
    """
    return T.tril(x, -1) + diagonal_matrix(x) / 2


def _cholesky_pullback(factor, g, lower):
    """Return the gradient with respect to a matrix, given the gradient `g` with respect to its Cholesky factor.

    The formula is equation 10 of the paper by I. Murray that `Cholesky.L_op` cites, with conjugates for complex
    matrices.
    """
    if not lower:
        factor, g = adjoint(factor), adjoint(g)
    adjoint_factor = adjoint(factor)
    s = solve_upper_triangular(adjoint_factor, _lower_half(T.dot(adjoint_factor, g)))
    s = adjoint(solve_upper_triangular(adjoint_factor, adjoint(s)))
    gradient = folded(s, True)
    return gradient if lower else adjoint(gradient)


class Cholesky(NativeOp, Op):
    """An Op that computes the Cholesky factor of a positive definite matrix `x`: a triangular matrix square root.

    ``L = Cholesky(lower=True)(X)`` implies ``dot(L, L.T) == X`` for a real matrix X. Only one triangle of X is read:
    the lower triangle if `lower` is True, and otherwise the upper triangle.

    Parameters
    ----------
    lower : bool, default=True
        Whether to return the lower Cholesky factor. If False, the upper factor is returned.
    on_error : {'raise', 'nan'}
        The behavior if the matrix is not positive definite: 'raise' raises `scipy.linalg.LinAlgError`, 'nan' returns a
        matrix of NaN.
    destructive : bool, default=False
        Whether the result may overwrite `x`. If so, `x` changes even if it is not positive definite.

    Raises
    ------
    scipy.linalg.LinAlgError
        At run time, if the matrix is not square. With ``on_error='raise'``, also if the matrix is not positive
        definite.
    """

    __props__ = ("lower", "destructive", "on_error")

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike) -> TensorVariable: ...

    def __init__(self, lower=True, on_error="raise", destructive=False):
        if on_error not in ("raise", "nan"):
            raise ValueError("Cholesky: on_error must be 'raise' or 'nan', not %r" % (on_error,))
        self.lower = bool(lower)
        self.on_error = on_error
        self.destructive = bool(destructive)
        if self.destructive:
            self.destroy_map = {0: [0]}

    def make_node(self, x):
        x = scipy_matrix(self, x)
        return Apply(self, [x], [x.type()])

    def native_code(self, node):
        return NativeCode(
            LAPACK + "cholesky",
            lower=bool(self.lower),
            in_place=bool(self.destructive),
            nan_for_error=self.on_error == "nan",
        )

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        try:
            factor = np.linalg.cholesky(x, upper=not self.lower)
            # NumPy may factorize a matrix with NaN without an error. The diagonal of the factor then contains NaN.
            if np.isnan(np.diagonal(factor)).any():
                raise np.linalg.LinAlgError("Matrix is not positive definite")
        except np.linalg.LinAlgError:
            if self.on_error == "raise" or x.shape[0] != x.shape[1]:
                raise
            factor = np.full_like(x, complex(np.nan, np.nan) if np.iscomplexobj(x) else np.nan, order="C")
        if self.destructive:
            x[...] = factor
            outputs[0][0] = x
        else:
            store(outputs[0], factor, x.dtype)

    def infer_shape(self, node, shapes):
        return shapes

    def _plain(self):
        return Cholesky(self.lower, self.on_error)

    def L_op(self, inputs, outputs, gradients):
        """Return the reverse-mode gradient of the Cholesky decomposition.

        The symbolic expression is from I. Murray, "Differentiation of the Cholesky decomposition",
        http://arxiv.org/abs/1602.07527. The gradient is NaN if the factor is NaN.
        """
        (x,) = inputs
        (factor,) = outputs
        (g,) = gradients
        if isinstance(g.type, DisconnectedType):
            return [x.zeros_like()]
        if self.on_error == "nan":
            fine = T.invert(T.any(T.isnan(factor)))
            # If the factor is NaN, replace it by ones, so that no linear system of `_cholesky_pullback` is singular.
            factor, g = T.switch(fine, factor, 1), T.switch(fine, g, 1)
        gradient = _cholesky_pullback(factor, g, self.lower)
        if self.on_error == "nan":
            gradient = T.switch(fine, gradient, np.asarray(np.nan, x.dtype))
        return [with_pattern(gradient, x)]

    def R_op(self, inputs, eval_points):
        """Return the forward-mode derivative: equation 8 of the paper by I. Murray that `L_op` cites."""
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None]
        factor = self._plain()(x)
        if self.on_error == "nan":
            fine = T.invert(T.any(T.isnan(factor)))
            factor = T.switch(fine, factor, 1)
        lower = factor if self.lower else adjoint(factor)
        inner = solve_lower_triangular(lower, unfolded(direction, self.lower))
        inner = adjoint(solve_lower_triangular(lower, adjoint(inner)))
        tangent = T.dot(lower, _lower_half(inner))
        tangent = tangent if self.lower else adjoint(tangent)
        if self.on_error == "nan":
            tangent = T.switch(fine, tangent, np.asarray(np.nan, x.dtype))
        return [with_pattern(tangent, x)]


cholesky = Cholesky()


class CholeskyGrad(Op):
    """An Op for the gradient of the Cholesky factorization of real matrices.

    `Cholesky.L_op` does not use this Op: it returns the gradient as an expression. Inputs: the matrix x, its factor l,
    and the gradient dz with respect to the factor. The result is zero in the triangle that is not read.

    Parameters
    ----------
    lower : bool, default=True
        See `Cholesky`.
    """

    __props__ = ("lower", "destructive")

    def __init__(self, lower=True):
        self.lower = bool(lower)
        self.destructive = False

    def make_node(self, x, l, dz):
        inputs = scipy_inputs(self, x, l, dz)
        if any(i.ndim != 2 for i in inputs) or is_complex(inputs[0]):
            raise TypeError(
                "%s expects three real matrices: x, its Cholesky factor and the gradient with respect to the factor; "
                "got %s" % (self, ", ".join(str(i.type) for i in inputs))
            )
        return Apply(self, inputs, [inputs[0].type()])

    def perform(self, node, inputs, outputs):
        """Compute the reverse-mode gradient of the Cholesky factorization of a positive definite matrix.

        The algorithm is from S. P. Smith, "Differentiation of the Cholesky Algorithm", Journal of Computational and
        Graphical Statistics, Vol. 4, No. 2 (Jun., 1995), pp. 134-147, http://www.jstor.org/stable/1390762
        """
        x, factor, dz = inputs
        if not x.shape == factor.shape == dz.shape or x.shape[0] != x.shape[1]:
            raise ValueError(
                "%s needs three square matrices of the same shape, but their shapes are %s, %s and %s"
                % (self, x.shape, factor.shape, dz.shape)
            )
        lower, f = (factor, np.tril(dz)) if self.lower else (factor.T, np.triu(dz).T.copy())
        for k in range(len(f) - 1, -1, -1):
            column, rest = lower[k + 1 :, k], f[k + 1 :, k + 1 :]
            # `rest` is lower triangular. Its element (i, j) contributes to row i and to row j.
            f[k + 1 :, k] -= rest.dot(column) + rest.T.dot(column)
            f[k + 1 :, k] /= lower[k, k]
            f[k, k] = (f[k, k] - column.dot(f[k + 1 :, k])) / (2 * lower[k, k])
        store(outputs[0], f if self.lower else f.T, x.dtype)

    def grad(self, inputs, g_outputs):
        x, factor, dz = inputs

        # Do not read the other triangle of the factor, because its values are arbitrary.
        def build(factor, dz):
            return _cholesky_pullback(triangle(factor, self.lower), dz, self.lower)

        return [x.zeros_like(), *pullback(build, [factor, dz], g_outputs[0])]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


# --- systems of equations ----------------------------------------------------------------------------------------------------


class Solve(NativeOp, Op):
    """An Op that solves a system of linear equations.

    Inputs: A, a square matrix (M, M); b, a vector (M,) or a matrix (M, N). Output: x of the shape of b with
    ``dot(A, x) == b``.

    Parameters
    ----------
    A_structure : {'general', 'symmetric', 'lower_triangular', 'upper_triangular', 'hermitian', 'banded', 'diagonal', 'toeplitz'}
        The structure of A. With 'lower_triangular' or 'upper_triangular', the elements outside the named triangle are
        not read. With 'symmetric', a system takes half the work if A is symmetric, real and positive definite;
        otherwise the system is solved as for 'general'. With 'symmetric', the gradient is also the same as for
        'general': all elements of A have a gradient. The last four structures have no effect.
    lower : bool
        This parameter has no effect: `A_structure` determines which triangle is read.
    overwrite_A, overwrite_b : bool
        `overwrite_A`: whether A may be overwritten. `overwrite_b`: whether the result overwrites b.

    Raises
    ------
    scipy.linalg.LinAlgError
        At run time, if A is not square, or if it is exactly singular. The condition number is not estimated.
    ValueError
        At run time, if A and b have different numbers of rows.
    """

    __props__ = ("A_structure", "lower", "overwrite_A", "overwrite_b")
    _CODES = {"symmetric": 1, "lower_triangular": 2, "upper_triangular": 3}

    if TYPE_CHECKING:

        def __call__(self, A: TensorLike, b: TensorLike) -> TensorVariable: ...

    def __init__(self, A_structure="general", lower=False, overwrite_A=False, overwrite_b=False):
        if A_structure not in STRUCTURES:
            raise ValueError("Solve: A_structure must be one of %s, not %r" % (", ".join(STRUCTURES), A_structure))
        self.A_structure = A_structure
        self.lower = bool(lower)
        self.overwrite_A = bool(overwrite_A)
        self.overwrite_b = bool(overwrite_b)
        destroyed = [i for i, overwritten in enumerate((self.overwrite_A, self.overwrite_b)) if overwritten]
        if destroyed:
            self.destroy_map = {0: destroyed}

    def __repr__(self):
        return "Solve{%s}" % (self._props(),)

    def make_node(self, A, b):
        A, b = scipy_inputs(self, A, b)
        if A.ndim != 2 or b.ndim not in (1, 2):
            raise TypeError(
                "%s: A must be a matrix, and b a vector or a matrix; got %s and %s" % (self, A.type, b.type)
            )
        return Apply(self, [A, b], [b.type()])

    def native_code(self, node):
        return NativeCode(
            LAPACK + "solve",
            structure=self._CODES.get(self.A_structure, 0),
            overwrite_a=bool(self.overwrite_A),
            overwrite_b=bool(self.overwrite_b),
        )

    def perform(self, node, inputs, output_storage):
        A, b = inputs
        if A.shape[0] != A.shape[1]:
            raise np.linalg.LinAlgError("solve needs a square matrix, but its shape is %s" % (A.shape,))
        if A.shape[0] != b.shape[0]:
            raise ValueError("solve: A has %d rows, but b has %d; A.shape is %s" % (A.shape[0], b.shape[0], A.shape))
        x = self._solution(A, b)
        if self.overwrite_b:
            b[...] = x
            output_storage[0][0] = b
        else:
            store(output_storage[0], x, b.dtype)

    def _solution(self, A, b):
        if self._triangular():
            zeros = np.flatnonzero(np.diagonal(A) == 0)
            if zeros.size:
                raise np.linalg.LinAlgError(
                    "Singular matrix: element (%d, %d) of the triangular matrix is zero" % (zeros[0], zeros[0])
                )
            if b.size == 0:
                return b.copy()
            return scipy_linalg().solve_triangular(
                A, b, lower=self.A_structure == "lower_triangular", check_finite=False
            )
        return np.linalg.solve(A, b)

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def _triangular(self):
        return self.A_structure in ("lower_triangular", "upper_triangular")

    def _plain(self):
        return Solve(self.A_structure, self.lower)

    def _adjoint(self):
        """Return the Op that solves systems with the (conjugate) transpose of the matrix."""
        if self._triangular():
            lower = self.A_structure == "upper_triangular"
            return Solve("lower_triangular" if lower else "upper_triangular", lower)
        return self._plain()

    def L_op(self, inputs, outputs, output_gradients):
        r"""Return the reverse-mode gradients of the operation :math:`c = A \backslash b`.

        The symbolic expressions are from M. B. Giles, "An extended collection of matrix derivative results for forward
        and reverse mode automatic differentiation", http://eprints.maths.ox.ac.uk/1079/
        """
        A, b = inputs
        (x,) = outputs
        (g,) = output_gradients
        b_bar = self._adjoint()(adjoint(A), g)
        factor = conj_if_complex(x)
        A_bar = -T.dot(b_bar, factor.T) if b.ndim == 2 else -T.outer(b_bar, factor)
        if self._triangular():
            A_bar = triangle(A_bar, self.A_structure == "lower_triangular")
        return [with_pattern(A_bar, A), with_pattern(b_bar, b)]

    def R_op(self, inputs, eval_points):
        A, b = inputs
        dA, db = eval_points
        right = db
        if dA is not None:
            if self._triangular():
                dA = triangle(dA, self.A_structure == "lower_triangular")
            change = T.dot(dA, self._plain()(A, b))
            right = -change if db is None else db - change
        return [None if right is None else with_pattern(self._plain()(A, right), b)]


solve = Solve()
solve_symmetric = Solve(A_structure="symmetric")
solve_lower_triangular = Solve(A_structure="lower_triangular", lower=True)
solve_upper_triangular = Solve(A_structure="upper_triangular", lower=False)
