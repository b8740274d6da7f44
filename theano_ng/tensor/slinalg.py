"""Linear algebra as SciPy computes it: Cholesky factors, systems of equations, generalized eigenvalues, matrix exponential, Kronecker product.

It is not imported with `theano_ng.tensor`: import it to use it. Matrices that are singular, not positive definite or not square raise
`scipy.linalg.LinAlgError`, which is `numpy.linalg.LinAlgError`, with the node in the message. Integers are converted to float64. NaN and
infinities are not looked for.

Where only a triangle of a symmetric or Hermitian matrix is read, gradients are those of the elements that are read, and zero in the other
triangle. Gradients of complex matrices hold the derivatives by real and imaginary parts as theirs.
"""
import functools

import numpy as np

from theano_ng.compile.ops import view_op
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.gradient import DisconnectedType, Rop
from theano_ng.tensor import basic as T
from theano_ng.tensor.decompositions import (
    _zero_disconnected, adjoint, as_linalg_inputs, as_matrix, pullback, store, with_pattern)
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.type_other import NoneConst, NoneTypeT

# Whether SciPy can be imported: it is required. Some scripts ask.
imported_scipy = True


@functools.lru_cache(maxsize=1)
def _scipy_linalg():
    """The module scipy.linalg, imported when it is needed, for that takes a while."""
    import scipy.linalg

    return scipy.linalg


LAPACK = "theano_ng.tensor.native.lapack:"
STRUCTURES = ("general", "symmetric", "lower_triangular", "upper_triangular", "hermitian", "banded", "diagonal", "toeplitz")


@register_loader
def _load_rules():
    """Rules for the Ops of this module are imported when the first function is rewritten, or the next one."""
    import theano_ng.tensor.opt.linalg  # noqa: F401


def _is_complex(x):
    return x.dtype.startswith("complex")


def _diagonal_matrix(x):
    """The diagonal of a matrix, and zeros elsewhere; of a complex one the real part."""
    diagonal = T.diag(x)
    return T.diag(T.cast(T.real(diagonal), x.dtype) if _is_complex(x) else diagonal)


def _triangle(x, lower, k=0):
    """A triangle of a matrix without the `k` diagonals next to the opposite one."""
    return T.tril(x, -k) if lower else T.triu(x, k)


def _folded(x, lower):
    """The gradient by one triangle of a Hermitian matrix, given that by all elements: the other triangle is a copy of this one."""
    return _triangle(x, lower, 1) + adjoint(_triangle(x, not lower, 1)) + _diagonal_matrix(x)


def _unfolded(x, lower):
    """The Hermitian matrix of which one triangle is given."""
    half = _triangle(x, lower, 1)
    return half + adjoint(half) + _diagonal_matrix(x)


# --- Cholesky ----------------------------------------------------------------------------------------------------------------

def _lower_half(x):
    """The lower triangle with half of the (real) diagonal: what the derivative of L L^H leaves of a Hermitian matrix for L."""
    return T.tril(x, -1) + _diagonal_matrix(x) / 2


def _cholesky_pullback(factor, g, lower):
    """Gradient by X from that by its Cholesky factor, (I. Murray, 2016), equation 10, with conjugates for complex matrices."""
    if not lower:
        factor, g = adjoint(factor), adjoint(g)
    adjoint_factor = adjoint(factor)
    s = solve_upper_triangular(adjoint_factor, _lower_half(T.dot(adjoint_factor, g)))
    s = adjoint(solve_upper_triangular(adjoint_factor, adjoint(s)))
    gradient = _folded(s, True)
    return gradient if lower else adjoint(gradient)


class Cholesky(NativeOp, Op):
    """Return a triangular matrix square root of positive semi-definite `x`.

    ``L = cholesky(X, lower=True)`` implies ``dot(L, L.T) == X``. Only that triangle of `X` is read which the result fills.

    Parameters
    ----------
    lower : bool, default=True
        Whether to return the lower or upper cholesky factor
    on_error : {'raise', 'nan'}
        If on_error is set to 'raise', this Op will raise a `scipy.linalg.LinAlgError` if the matrix is not positive definite. If on_error is
        set to 'nan', it will return a matrix containing nans instead.
    destructive : bool, default=False
        Whether the result may overwrite `x`.

    Raises
    ------
    scipy.linalg.LinAlgError
        (Running.) For a matrix that is not square, or, with ``on_error='raise'``, not positive definite.
    """

    __props__ = ("lower", "destructive", "on_error")

    def __init__(self, lower=True, on_error="raise", destructive=False):
        if on_error not in ("raise", "nan"):
            raise ValueError("Cholesky: on_error must be 'raise' or 'nan', not %r" % (on_error,))
        self.lower = bool(lower)
        self.on_error = on_error
        self.destructive = bool(destructive)
        if self.destructive:
            self.destroy_map = {0: [0]}

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [x.type()])

    def native_code(self, node):
        return NativeCode(LAPACK + "cholesky", params=(int(self.lower), int(self.destructive), int(self.on_error == "nan")))

    def perform(self, node, inputs, outputs):
        x, = inputs
        try:
            factor = np.linalg.cholesky(x, upper=not self.lower)
            # NumPy does not always mind NaN, which all come to the diagonal.
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
        """Cholesky decomposition reverse-mode gradient update.

        Symbolic expression for reverse-mode Cholesky gradient taken from I. Murray, "Differentiation of the Cholesky decomposition",
        http://arxiv.org/abs/1602.07527. It is NaN where the factor is.
        """
        x, = inputs
        factor, = outputs
        g, = gradients
        if isinstance(g.type, DisconnectedType):
            return [x.zeros_like()]
        if self.on_error == "nan":
            fine = T.invert(T.any(T.isnan(factor)))
            # Numbers in the place of NaN, so that the systems of equations are regular.
            factor, g = T.switch(fine, factor, 1), T.switch(fine, g, 1)
        gradient = _cholesky_pullback(factor, g, self.lower)
        if self.on_error == "nan":
            gradient = T.switch(fine, gradient, np.asarray(np.nan, x.dtype))
        return [with_pattern(gradient, x)]

    def R_op(self, inputs, eval_points):
        """Forward-mode derivative: I. Murray, 2016, equation 8."""
        x, = inputs
        direction, = eval_points
        if direction is None:
            return [None]
        factor = self._plain()(x)
        if self.on_error == "nan":
            fine = T.invert(T.any(T.isnan(factor)))
            factor = T.switch(fine, factor, 1)
        lower = factor if self.lower else adjoint(factor)
        inner = solve_lower_triangular(lower, _unfolded(direction, self.lower))
        inner = adjoint(solve_lower_triangular(lower, adjoint(inner)))
        tangent = T.dot(lower, _lower_half(inner))
        tangent = tangent if self.lower else adjoint(tangent)
        if self.on_error == "nan":
            tangent = T.switch(fine, tangent, np.asarray(np.nan, x.dtype))
        return [with_pattern(tangent, x)]


cholesky = Cholesky()


class CholeskyGrad(Op):
    """Gradient of the Cholesky factorization of real matrices in numbers; `Cholesky.L_op` gives it as an expression.

    Inputs: the matrix x, its factor l, and the gradient dz by the factor. The result is zero in the triangle that is not read.

    Parameters
    ----------
    lower : bool, default=True
        As that of the `Cholesky` Op.
    """

    __props__ = ("lower", "destructive")

    def __init__(self, lower=True):
        self.lower = bool(lower)
        self.destructive = False

    def make_node(self, x, l, dz):
        inputs = as_linalg_inputs(self, x, l, dz)
        if any(i.ndim != 2 for i in inputs) or _is_complex(inputs[0]):
            raise TypeError("%s takes three real matrices: x, its Cholesky factor and the gradient by the factor; got %s"
                            % (self, ", ".join(str(i.type) for i in inputs)))
        return Apply(self, inputs, [inputs[0].type()])

    def perform(self, node, inputs, outputs):
        """Implements the "reverse-mode" gradient for the Cholesky factorization of a positive-definite matrix.

        S. P. Smith, "Differentiation of the Cholesky Algorithm", Journal of Computational and Graphical Statistics, Vol. 4, No. 2 (Jun.,
        1995), pp. 134-147, http://www.jstor.org/stable/1390762
        """
        x, factor, dz = inputs
        if not x.shape == factor.shape == dz.shape or x.shape[0] != x.shape[1]:
            raise ValueError("%s needs three square matrices of one shape, but these are of shapes %s, %s and %s"
                             % (self, x.shape, factor.shape, dz.shape))
        lower, f = (factor, np.tril(dz)) if self.lower else (factor.T, np.triu(dz).T.copy())
        for k in range(len(f) - 1, -1, -1):
            column, rest = lower[k + 1:, k], f[k + 1:, k + 1:]
            # `rest` is lower triangular: its elements (i, j) are used for rows i and j alike.
            f[k + 1:, k] -= rest.dot(column) + rest.T.dot(column)
            f[k + 1:, k] /= lower[k, k]
            f[k, k] = (f[k, k] - column.dot(f[k + 1:, k])) / (2 * lower[k, k])
        store(outputs[0], f if self.lower else f.T, x.dtype)

    def grad(self, inputs, g_outputs):
        x, factor, dz = inputs
        # The other triangle of the factor is not read, whatever it holds.
        def build(factor, dz):
            return _cholesky_pullback(_triangle(factor, self.lower), dz, self.lower)

        return [x.zeros_like(), *pullback(build, [factor, dz], g_outputs[0])]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


# --- systems of equations ----------------------------------------------------------------------------------------------------

class Solve(NativeOp, Op):
    """Solve a system of linear equations.

    Inputs: A, a square matrix (M, M); b, a vector (M,) or a matrix (M, N). Output: x of the shape of b with ``dot(A, x) == b``.

    Parameters
    ----------
    A_structure : {'general', 'symmetric', 'lower_triangular', 'upper_triangular', 'hermitian', 'banded', 'diagonal', 'toeplitz'}
        What is known of A. Of a triangular matrix, the other triangle is not read; of a symmetric one only the triangle that `lower` says.
        The last four are taken for what they may tell a reader: such matrices are solved as general ones.
    lower : bool
        Which triangle of a symmetric A is read. Whether a triangular A is lower or upper, its structure says.
    overwrite_A, overwrite_b : bool
        Whether A may be overwritten, and whether b is, by the result.

    Raises
    ------
    scipy.linalg.LinAlgError
        (Running.) For matrices that are singular (to the last digit: how near a matrix is to being singular is not estimated) or not square.
    ValueError
        (Running.) When A and b have different numbers of rows.
    """

    __props__ = ("A_structure", "lower", "overwrite_A", "overwrite_b")
    _CODES = {"symmetric": 1, "lower_triangular": 2, "upper_triangular": 3}

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
        A, b = as_linalg_inputs(self, A, b)
        if A.ndim != 2 or b.ndim not in (1, 2):
            raise TypeError("%s: A must be a matrix, and b a vector or a matrix; got %s and %s" % (self, A.type, b.type))
        return Apply(self, [A, b], [b.type()])

    def native_code(self, node):
        return NativeCode(LAPACK + "solve", params=(self._CODES.get(self.A_structure, 0), int(self.lower), int(self.overwrite_A),
                                                    int(self.overwrite_b)))

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
                raise np.linalg.LinAlgError("Singular matrix: element (%d, %d) of the triangular matrix is zero" % (zeros[0], zeros[0]))
            if b.size == 0:
                return b.copy()
            return _scipy_linalg().solve_triangular(A, b, lower=self.A_structure == "lower_triangular", check_finite=False)
        if self.A_structure == "symmetric":
            A = np.tril(A) + np.tril(A, -1).T if self.lower else np.triu(A) + np.triu(A, 1).T
        return np.linalg.solve(A, b)

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def _triangular(self):
        return self.A_structure in ("lower_triangular", "upper_triangular")

    def _plain(self):
        return Solve(self.A_structure, self.lower)

    def _adjoint(self):
        """The Op that solves systems of the transposed (and conjugated) matrix."""
        if self._triangular():
            lower = self.A_structure == "upper_triangular"
            return Solve("lower_triangular" if lower else "upper_triangular", lower)
        return Solve(self.A_structure, not self.lower)

    def L_op(self, inputs, outputs, output_gradients):
        r"""Reverse-mode gradient updates for matrix solve operation :math:`c = A \backslash b`.

        Symbolic expression for updates taken from M. B. Giles, "An extended collection of matrix derivative results for forward and reverse
        mode automatic differentiation", http://eprints.maths.ox.ac.uk/1079/
        """
        A, b = inputs
        x, = outputs
        g, = output_gradients
        b_bar = self._adjoint()(adjoint(A), g)
        factor = T.conj(x) if _is_complex(x) else x
        A_bar = -T.dot(b_bar, factor.T) if b.ndim == 2 else -T.outer(b_bar, factor)
        if self._triangular():
            A_bar = _triangle(A_bar, self.A_structure == "lower_triangular")
        elif self.A_structure == "symmetric":
            # Both elements of a pair are the one that is read, without conjugation.
            A_bar = _triangle(A_bar, self.lower) + _triangle(A_bar, not self.lower, 1).T
        return [with_pattern(A_bar, A), with_pattern(b_bar, b)]

    def R_op(self, inputs, eval_points):
        A, b = inputs
        dA, db = eval_points
        right = db
        if dA is not None:
            if self._triangular():
                dA = _triangle(dA, self.A_structure == "lower_triangular")
            elif self.A_structure == "symmetric":
                dA = _triangle(dA, self.lower) + _triangle(dA, self.lower, 1).T
            change = T.dot(dA, self._plain()(A, b))
            right = -change if db is None else db - change
        return [None if right is None else with_pattern(self._plain()(A, right), b)]


solve = Solve()
solve_symmetric = Solve(A_structure="symmetric")
solve_lower_triangular = Solve(A_structure="lower_triangular", lower=True)
solve_upper_triangular = Solve(A_structure="upper_triangular", lower=False)


# --- generalized eigenvalues -------------------------------------------------------------------------------------------------

def _pencil(op, a, b):
    """The inputs of an Op on ``a v = w b v``: one or two matrices of one dtype."""
    if b is None or (isinstance(b, Constant) and isinstance(b.type, NoneTypeT)):
        matrices = [as_matrix(op, a)]
    else:
        matrices = as_linalg_inputs(op, a, b)
        if any(m.ndim != 2 for m in matrices):
            raise TypeError("%s: a and b must be matrices; got %s" % (op, " and ".join(str(m.type) for m in matrices)))
    return matrices


def _real_dtype(dtype):
    return np.empty(0, dtype).real.dtype.name


def _check_pencil(op, matrices):
    shape = matrices[0].shape
    if shape[0] != shape[1] or any(m.shape != shape for m in matrices):
        raise np.linalg.LinAlgError("%s needs square matrices of one shape, but these are of shape %s"
                                    % (op, " and ".join(str(m.shape) for m in matrices)))


def _eigensystem(matrices, lower):
    """Eigenvalues w and eigenvectors v (v^H b v = 1) as expressions."""
    from theano_ng.tensor.decompositions import eigh

    uplo = "L" if lower else "U"
    if len(matrices) == 1:
        return eigh(matrices[0], uplo)
    a, b = matrices
    factor = Cholesky(lower)(b)
    factor = factor if lower else adjoint(factor)
    inner = solve_lower_triangular(factor, _unfolded(a, lower))
    inner = solve_lower_triangular(factor, adjoint(inner))
    w, u = eigh(inner, uplo)
    return w, solve_upper_triangular(adjoint(factor), u)


class Eigvalsh(NativeOp, Op):
    """Generalized eigenvalues of a Hermitian positive definite eigensystem.

    Inputs: a, a Hermitian matrix (M, M), and b, a Hermitian positive definite one, or None for the identity. Output: the vector (M,) of
    numbers w for which ``a v = w b v`` has solutions, in ascending order, real.

    Parameters
    ----------
    lower : bool
        Which triangle of `a` and `b` is read.

    Raises
    ------
    scipy.linalg.LinAlgError
        (Running.) For matrices that are not square or not of one shape, for `b` not positive definite, or when the algorithm does not converge.

    Notes
    -----
    Equal eigenvalues have no gradient of their own, but symmetric functions of them do.
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
        return NativeCode(LAPACK + "eigvalsh", params=(int(self.lower),))

    def perform(self, node, inputs, outputs):
        _check_pencil(self, inputs)
        if len(inputs) == 1:
            w = np.linalg.eigvalsh(inputs[0], "L" if self.lower else "U")
        elif len(inputs[0]) == 0:
            w = np.empty(0)
        else:
            w = _scipy_linalg().eigvalsh(*inputs, lower=self.lower, check_finite=False)
        store(outputs[0], w, node.outputs[0].dtype)

    def infer_shape(self, node, shapes):
        return [(shapes[0][0],)]

    def grad(self, inputs, g_outputs):
        gradients = EigvalshGrad(self.lower)(*(list(inputs) if len(inputs) == 2 else [inputs[0], NoneConst]), g_outputs[0])
        gradients = gradients if isinstance(gradients, list) else [gradients]
        return [with_pattern(g, m) for g, m in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        if all(point is None for point in eval_points):
            return [None]
        w, v = _eigensystem(inputs, self.lower)
        change = 0
        for direction, sign in zip(eval_points, (None, w)):
            if direction is not None:
                moved = T.dot(_unfolded(direction, self.lower), v)
                change = change + (moved if sign is None else -moved * sign)
        return [T.real(T.sum(T.conj(v) * change, axis=0)) if _is_complex(v) else T.sum(v * change, axis=0)]


class EigvalshGrad(Op):
    """Gradient of generalized eigenvalues of a Hermitian positive definite eigensystem.

    Inputs: a, b (or None), and the gradient gw by the eigenvalues. Outputs: the gradients by a and b, zero in the triangle that is not read;
    only that by a when b is None.

    Parameters
    ----------
    lower : bool
        As that of `Eigvalsh`.

    Notes
    -----
    Follows from ``a v = w b v`` and ``v^H b v = 1``: each eigenvalue changes by ``v^H (da - w db) v``.
    """

    __props__ = ("lower",)

    __init__ = Eigvalsh.__init__

    def make_node(self, a, b, gw):
        matrices = _pencil(self, a, b)
        gw = T.as_tensor_variable(gw)
        if gw.ndim != 1:
            raise TypeError("%s: gw must be a vector, not %s" % (self, gw.type))
        return Apply(self, [*matrices, T.cast(gw, _real_dtype(matrices[0].dtype))], [m.type() for m in matrices])

    def perform(self, node, inputs, outputs):
        *matrices, gw = inputs
        _check_pencil(self, matrices)
        if gw.shape != matrices[0].shape[:1]:
            raise ValueError("%s: the gradient has length %d, but there are %d eigenvalues" % (self, len(gw), len(matrices[0])))
        if len(matrices) == 1 or len(gw) == 0:
            w, v = np.linalg.eigh(matrices[0], "L" if self.lower else "U")
        else:
            w, v = _scipy_linalg().eigh(*matrices, lower=self.lower, check_finite=False)
        near, far = (np.tril, np.triu) if self.lower else (np.triu, np.tril)
        for output, factor in zip(outputs, (gw, -gw * w)):
            g = (v * factor).dot(v.conj().T)
            # Elements next to the diagonal stand for two, and the diagonal is real.
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
        """The results as expressions, for their own derivatives."""
        *matrices, gw = inputs
        w, v = _eigensystem(matrices, self.lower)
        return [_folded(T.dot(v * factor, adjoint(v)), self.lower) for factor in (gw, -gw * w)[:len(matrices)]]


def eigvalsh(a, b, lower=True):
    """Generalized eigenvalues of a Hermitian positive definite eigensystem: all w for which ``a v = w b v`` has solutions.

    Parameters
    ----------
    a : matrix (M, M)
        Hermitian.
    b : matrix (M, M) or None
        Hermitian and positive definite; None stands for the identity.
    lower : bool
        Which triangle of the matrices is read.

    Returns
    -------
    TensorVariable
        Vector (M,), in ascending order.
    """
    return Eigvalsh(lower)(a, b)


# --- functions ---------------------------------------------------------------------------------------------------------------

def kron(a, b):
    """Kronecker product.

    Same as the former ``scipy.linalg.kron(a, b)``.

    Parameters
    ----------
    a, b : tensor_like
        Of three or more dimensions together.

    Returns
    -------
    TensorVariable
        With ``a.ndim + b.ndim - 2`` dimensions: of the outer product, whose dimensions are those of `a` and then those of `b`, the first and
        the third are one, and the second and the fourth. Of a vector and a matrix it is that of the vector as a row, flattened.

    Raises
    ------
    TypeError
        When `a` and `b` have fewer dimensions.

    Notes
    -----
    ``numpy.kron(a, b) != kron(a, b)`` unless ``a.ndim == b.ndim == 2``: they have different shapes and orders.
    """
    a, b = T.as_tensor_variable(a), T.as_tensor_variable(b)
    rank = a.ndim + b.ndim
    if rank <= 2:
        raise TypeError("kron: inputs dimensions must sum to 3 or more. You passed %d and %d." % (a.ndim, b.ndim))
    order = (1, 0, 2) if rank == 3 else (0, 2, 1, *range(3, rank))
    # The outer product comes out with its dimensions in this order, not to be moved again.
    left = a.dimshuffle([k if k < a.ndim else "x" for k in order])
    right = b.dimshuffle([k - a.ndim if k >= a.ndim else "x" for k in order])
    product = left * right
    if rank == 3:
        return product.flatten()
    lengths = product.shape
    return product.reshape([lengths[0] * lengths[1], lengths[2] * lengths[3], *(lengths[k] for k in range(4, rank))], ndim=rank - 2)


class Expm(Op):
    """Compute the matrix exponential of a square array.

    Raises
    ------
    ValueError
        (Running.) For a matrix that is not square.
    """

    __props__ = ()

    def make_node(self, A):
        A = as_matrix(self, A)
        return Apply(self, [A], [A.type()])

    def perform(self, node, inputs, outputs):
        A, = inputs
        _check_exponent(self, A)
        store(outputs[0], _scipy_linalg().expm(A) if A.size else A.copy(), A.dtype)

    def grad(self, inputs, outputs):
        A, = inputs
        return [with_pattern(ExpmGrad()(A, outputs[0]), A)]

    def R_op(self, inputs, eval_points):
        A, = inputs
        direction, = eval_points
        # The derivative is the adjoint of that at the adjoint matrix.
        return [None if direction is None else with_pattern(ExpmGrad()(adjoint(A), direction), A)]

    def infer_shape(self, node, shapes):
        return shapes


class ExpmGrad(Op):
    """Gradient of the matrix exponential of a square array.

    Inputs: the matrix A, and the gradient gw by its exponential. The result is the Frechet derivative of the exponential at the adjoint of A in
    the direction gw, exact for all matrices, those that cannot be diagonalized included (A. H. Al-Mohy and N. J. Higham, "Computing the Frechet
    derivative of the matrix exponential, with an application to condition number estimation", SIAM J. Matrix Anal. Appl. 30, 2009).
    """

    __props__ = ()

    def make_node(self, A, gw):
        A, gw = as_linalg_inputs(self, A, gw)
        if A.ndim != 2 or gw.ndim != 2:
            raise TypeError("%s takes two matrices, not %s and %s" % (self, A.type, gw.type))
        return Apply(self, [A, gw], [A.type()])

    def perform(self, node, inputs, outputs):
        A, gw = inputs
        _check_exponent(self, A)
        if gw.shape != A.shape:
            raise ValueError("%s: the matrix has shape %s, but the gradient by its exponential %s" % (self, A.shape, gw.shape))
        result = _scipy_linalg().expm_frechet(A.conj().T, gw, compute_expm=False, check_finite=False) if A.size else A.copy()
        store(outputs[0], result, A.dtype)

    @staticmethod
    def _block(A, gw):
        """A matrix of twice the size, in the upper right block of whose exponential the result stands."""
        return T.join(0, T.join(1, adjoint(A), gw), T.join(1, T.zeros_like(A), adjoint(A)))

    def grad(self, inputs, g_outputs):
        n = inputs[0].shape[0]
        return [with_pattern(by, i) for by, i in zip(
            pullback(lambda A, gw: expm(self._block(A, gw))[:n, n:], inputs, g_outputs[0]), inputs)]

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
