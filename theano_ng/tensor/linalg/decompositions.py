"""Matrix decompositions as in NumPy: eigenvalues, QR and singular values.

Users import these names from `theano_ng.tensor.nlinalg`.

The gradients are valid where the factors are differentiable: eigenvalues or singular values must be distinct, and the
diagonal of R must not contain zeros. The decompositions do not determine the signs of vectors. LAPACK chooses the
signs, and they do not change in a neighborhood of the matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.gof.derivative import DisconnectedType, grad_not_implemented, grad_undefined
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.raise_op import CheckAndRaise
from theano_ng.tensor import basic as T
from theano_ng.tensor.linalg.common import (
    _REAL,
    _zero_disconnected,
    as_linalg_inputs,
    as_matrix,
    pullback,
    pushforward,
    store,
)
from theano_ng.tensor.linalg.inverses import matrix_inverse
from theano_ng.tensor.linalg.solving import solve_lower_triangular, solve_upper_triangular
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable


def _no_complex_gradient(op, x):
    return [
        grad_not_implemented(
            op, 0, x, "The phases of complex vectors are arbitrary: take the gradient of a real formulation."
        )
    ]


def _gaps(w):
    """Return the matrix of ``w[j] - w[i]``. Its diagonal is infinite, so that quotients by the diagonal are zero."""
    return T.switch(
        T.eye(w.shape[0], dtype="int8"), np.asarray(np.inf, w.dtype), w.dimshuffle("x", 0) - w.dimshuffle(0, "x")
    )


def _over_gaps(s, gaps):
    """Return ``s / gaps``. An element of the result is zero if the elements of `s` and `gaps` are both zero.

    Therefore, a cost that does not depend on the eigenvectors has a gradient even if eigenvalues are equal.
    """
    return s / T.switch(T.eq(s, 0) & T.eq(gaps, 0), np.asarray(np.inf, gaps.dtype), gaps)


def _vectors_determined(op, x, *rests):
    """Return `x` with a check at run time that all elements of the gradients `rests` are zero.

    `rests` are gradients with respect to vectors that are an arbitrary basis of a null space. A cost that depends on
    such vectors has no gradient.
    """
    check = CheckAndRaise(
        np.linalg.LinAlgError,
        "%s: the cost depends on vectors beyond the smaller side of the matrix. These vectors are an arbitrary basis "
        "of a null space and have no gradient: use the reduced form." % op,
    )
    return check(x, *[T.eq(rest, 0).all() for rest in rests])


def _undetermined_beyond(k, whole, directions):
    """Return the tangent of `whole`: `directions` for its first k columns, and NaN for the remaining columns.

    The remaining columns are an arbitrary basis of a null space.
    """
    unknown = T.fill(whole, np.asarray(np.nan, whole.dtype))
    return T.set_subtensor(unknown[:, :k], directions)


# --- eigenvalues -------------------------------------------------------------------------------------------------------------


class Eig(Op):
    """An Op that computes the eigenvalues and right eigenvectors of a square matrix, as `numpy.linalg.eig`.

    The outputs have the dtype of the input, because a type cannot depend on values. A real matrix must therefore have
    real eigenvalues. If a real matrix has complex eigenvalues, convert it by ``T.cast(x, 'complex128')``.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is not square, contains NaN or infinities, or is real and has complex eigenvalues.
    """

    __props__: tuple[str, ...] = ()

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike) -> list[TensorVariable]: ...

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [TensorType(x.dtype, (False,))(), TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        w, v = np.linalg.eig(x)
        if np.iscomplexobj(w) and not np.iscomplexobj(x):
            raise np.linalg.LinAlgError(
                "%s: the %s matrix has complex eigenvalues, which its dtype cannot hold; cast it to %s first"
                % (self, x.dtype, np.result_type(x.dtype, "complex64"))
            )
        store(outputs[0], w, x.dtype)
        store(outputs[1], v, x.dtype)

    def L_op(self, inputs, outputs, g_outputs):
        """Return the gradient for real matrices with distinct real eigenvalues.

        The formula is for A = V diag(w) V^-1, where the columns of V have length one: M. B. Giles, "An extended
        collection of matrix derivative results for forward and reverse mode automatic differentiation", 2008, section
        3.1. The term for the length of the columns is from C. Boeddeker et al., "On the computation of complex-valued
        gradients", 2017, section 4.
        """
        (x,) = inputs
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x)
        w, v = outputs
        gw, gv = _zero_disconnected(outputs, g_outputs)

        s = T.dot(v.T, gv)
        s = s - T.dot(v.T, v) * T.diag(s).dimshuffle("x", 0)
        inner = T.diag(gw) + _over_gaps(s, _gaps(w))
        return [with_pattern(T.dot(matrix_inverse(v).T, T.dot(inner, v.T)), x)]

    def R_op(self, inputs, eval_points):
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None, None]
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x) * 2

        w, v = self(x)
        s = T.dot(matrix_inverse(v), T.dot(direction, v))
        inner = _over_gaps(s, _gaps(w))
        # From the tangent of each column of v, subtract the component along this column, so that the length stays one.
        lengths = T.sum(T.dot(v.T, v) * inner.T, axis=1)
        return [T.diag(s), T.dot(v, inner) - v * lengths.dimshuffle("x", 0)]

    def infer_shape(self, node, shapes):
        n = shapes[0][0]
        return [(n,), (n, n)]


eig = Eig()


class Eigh(Eig):
    """An Op that computes the eigenvalues and eigenvectors of a symmetric or Hermitian matrix.

    It works like `numpy.linalg.eigh`. The eigenvalues are in ascending order.

    Parameters
    ----------
    UPLO : {'L', 'U'}
        The triangle of the matrix that is read.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is not square or the algorithm does not converge.
    """

    __props__ = ("UPLO",)

    def __init__(self, UPLO="L"):
        if UPLO not in ("L", "U"):
            raise ValueError("Eigh: UPLO must be 'L' or 'U', not %r" % (UPLO,))
        self.UPLO = UPLO

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [TensorType(_REAL[x.dtype], (False,))(), TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        w, v = np.linalg.eigh(inputs[0], self.UPLO)
        store(outputs[0], w, node.outputs[0].dtype)
        store(outputs[1], v, node.outputs[1].dtype)

    def results(self, x):
        """Return the eigenvalues and eigenvectors that derivatives use. Signs of eigenvectors are arbitrary, so they must be
        the same as in the value. Therefore Ops on devices replace this function.
        """
        return self(x)

    # Do not inherit the L_op of Eig: this class defines `grad`.
    L_op = Op.L_op

    def grad(self, inputs, g_outputs):
        r"""Return the gradient

        .. math:: \sum_n\left(W_n\frac{\partial\,w_n}{\partial a_{ij}} + \sum_k V_{nk}\frac{\partial\,v_{nk}}{\partial a_{ij}}\right),

        where [:math:`W`, :math:`V`] is ``g_outputs``, :math:`a` is ``inputs``, and :math:`(w, v)=\mbox{eig}(a)`.

        The derivatives of eigensystems are known from perturbation theory:

        .. math:: \frac{\partial\,w_n}{\partial a_{ij}} = v_{in}\,v_{jn}

        .. math:: \frac{\partial\,v_{kn}}{\partial a_{ij}} = \sum_{m\ne n}\frac{v_{km}v_{jn}}{w_n-w_m}
        """
        (x,) = inputs
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x)
        outputs = self.results(x)
        gw, gv = _zero_disconnected(outputs, g_outputs)
        return [with_pattern(EighGrad(self.UPLO)(x, *outputs, gw, gv), x)]

    def R_op(self, inputs, eval_points):
        (x,) = inputs
        (direction,) = eval_points
        if direction is None:
            return [None, None]
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x) * 2
        w, v = self.results(x)
        # Read the same triangle from the direction as from the matrix.
        half = T.tril(direction, -1) if self.UPLO == "L" else T.triu(direction, 1)
        symmetric = half + half.T + T.diag(T.diag(direction))
        s = T.dot(v.T, T.dot(symmetric, v))
        return [T.diag(s), T.dot(v, _over_gaps(s, _gaps(w)))]


class EighGrad(Op):
    """An Op for the gradient of the eigensystem of a symmetric matrix, with respect to the triangle that is read.

    Parameters
    ----------
    UPLO : {'L', 'U'}
        See `Eigh`. The triangle of the result that `UPLO` does not select is zero.
    """

    __props__ = ("UPLO",)

    def __init__(self, UPLO="L"):
        if UPLO not in ("L", "U"):
            raise ValueError("EighGrad: UPLO must be 'L' or 'U', not %r" % (UPLO,))
        self.UPLO = UPLO

    def make_node(self, x, w, v, gw, gv):
        inputs = as_linalg_inputs(self, x, w, v, gw, gv)
        if [i.ndim for i in inputs] != [2, 1, 2, 1, 2] or inputs[0].dtype.startswith("complex"):
            raise TypeError(
                "%s expects a real matrix, its eigenvalues (a vector) and eigenvectors (a matrix), and gradients with "
                "respect to these, not %s" % (self, [str(i.type) for i in inputs])
            )
        return Apply(self, inputs, [TensorType(inputs[0].dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        """Compute the reverse-mode gradient of the eigensystem of a square matrix.

        If eigenvalues are equal and the cost depends on their eigenvectors, the gradient is infinite.
        """
        x, w, v, gw, gv = inputs
        s = v.T.dot(gv)
        gaps = w[None, :] - w[:, None]
        np.fill_diagonal(gaps, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(s == 0, s, s / gaps)
        inner[np.diag_indices(len(w))] = gw
        g = v.dot(inner).dot(v.T)
        store(
            outputs[0],
            np.tril(g) + np.triu(g, 1).T if self.UPLO == "L" else np.triu(g) + np.tril(g, -1).T,
            node.outputs[0].dtype,
        )

    def _symbolic(self, x, w, v, gw, gv):
        """Return the result as an expression. The derivatives of this Op are computed from this expression."""
        inner = T.diag(gw) + _over_gaps(T.dot(v.T, gv), _gaps(w))
        g = T.dot(v, T.dot(inner, v.T))
        return T.tril(g) + T.triu(g, 1).T if self.UPLO == "L" else T.triu(g) + T.tril(g, -1).T

    def grad(self, inputs, g_outputs):
        return pullback(self._symbolic, inputs, g_outputs[0])

    def R_op(self, inputs, eval_points):
        return [pushforward(self._symbolic, inputs, eval_points)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


def eigh(a: TensorLike, UPLO: str = "L") -> Any:
    """Return the eigenvalues (in ascending order) and the eigenvectors (as columns) of a symmetric or Hermitian matrix.

    Parameters
    ----------
    a : tensor_like, matrix
    UPLO : {'L', 'U'}
        The triangle of `a` that is read.

    Returns
    -------
    list of TensorVariable
        The eigenvalues w and the matrix v of eigenvectors.
    """
    return Eigh(UPLO)(a)


# --- QR ----------------------------------------------------------------------------------------------------------------------


def _qr_gradient(x, q, r, gq, gr):
    """Return the gradient with respect to a matrix (M, N), given the gradients of its factors Q (M, K) and R (K, N).

    K is the minimum of M and N. The method is from D. A. O. Roberts and L. R. Roberts, "QR and LQ decomposition matrix
    backpropagation algorithms for square, wide, and deep matrices", 2020. The factors of a wide matrix [X, Y] are Q and
    [U, Q^T Y], where X = Q U.
    """
    k = r.shape[0]
    u, gu = r[:, :k], gr[:, :k]
    y, gy = x[:, k:], gr[:, k:]
    gq = gq + T.dot(y, gy.T)
    m = T.dot(u, gu.T) - T.dot(gq.T, q)
    inner = gq + T.dot(q, T.tril(m) + T.tril(m, -1).T)
    return T.concatenate([solve_upper_triangular(u, inner.T).T, T.dot(q, gy)], axis=1)


def _qr_directions(q, r, direction):
    """Return the tangents of the factors Q (M, K) and R (K, N), given the tangent of the matrix (M, N).

    For the first K columns, dA R^-1 = dQ + Q dR R^-1. Multiplied by Q^T from the left, the first term is antisymmetric,
    and the second term is upper-triangular.
    """
    k = r.shape[0]
    moved = solve_lower_triangular(r[:, :k].T, direction[:, :k].T).T
    inner = T.dot(q.T, moved)
    below = T.tril(inner, -1)
    turn = below - below.T
    return moved - T.dot(q, inner - turn), T.dot(q.T, direction) - T.dot(turn, r)


class QRFull(Op):
    """An Op that computes the QR decomposition of a matrix: the orthonormal factor q and the upper-triangular factor r.

    Parameters
    ----------
    mode : {'reduced', 'complete', 'raw'}
        See :func:`qr`.
    """

    __props__ = ("mode",)

    def __init__(self, mode):
        if mode not in ("reduced", "complete", "raw"):
            raise ValueError("QRFull: mode must be 'reduced', 'complete' or 'raw', not %r" % (mode,))
        self.mode = mode

    def make_node(self, x):
        x = as_matrix(self, x)
        second = (False,) if self.mode == "raw" else (False, False)
        return Apply(self, [x], [TensorType(x.dtype, (False, False))(), TensorType(x.dtype, second)()])

    def perform(self, node, inputs, outputs):
        for cell, value, out in zip(outputs, np.linalg.qr(inputs[0], self.mode), node.outputs):
            store(cell, value, out.dtype)

    def results(self, x):
        """Return the factors that derivatives use. See `Eigh.results`."""
        return self(x)

    def L_op(self, inputs, outputs, g_outputs):
        """Return the gradient (see `_qr_gradient`). The first min(M, N) columns must be linearly independent.

        Mode 'raw' has no gradient.
        """
        (x,) = inputs
        if self.mode == "raw":
            return [grad_undefined(self, 0, x, "mode 'raw' gives LAPACK's reflectors; use 'reduced'.")]
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x)
        q, r = outputs
        gq, gr = _zero_disconnected(outputs, g_outputs)
        if self.mode == "complete":
            k = T.minimum(x.shape[0], x.shape[1])
            x = _vectors_determined(self, x, gq[:, k:])
            q, r, gq, gr = q[:, :k], r[:k], gq[:, :k], gr[:k]
        return [with_pattern(_qr_gradient(x, q, r, gq, gr), inputs[0])]

    def R_op(self, inputs, eval_points):
        """Return the tangents.

        The tangents of the columns of q that mode 'complete' adds are NaN, because these are an arbitrary basis.
        """
        (x,), (direction,) = inputs, eval_points
        if direction is None:
            return [None, None]
        if self.mode == "raw" or x.dtype.startswith("complex"):
            return self.L_op(inputs, None, None) * 2
        q, r = self.results(x)
        k = T.minimum(x.shape[0], x.shape[1])
        dq, dr = _qr_directions(q[:, :k], r[:k], direction)
        if self.mode == "reduced":
            return [dq, dr]
        return [_undetermined_beyond(k, q, dq), T.set_subtensor(r.zeros_like()[:k], dr)]

    def infer_shape(self, node, shapes):
        ((m, n),) = shapes
        k = T.minimum(m, n)
        return {"reduced": [(m, k), (k, n)], "complete": [(m, m), (m, n)], "raw": [(n, m), (k,)]}[self.mode]


class QRIncomplete(Op):
    """An Op that computes the QR decomposition of a matrix and returns only the upper-triangular factor R.

    Parameters
    ----------
    mode : {'r'}
        See :func:`qr`.
    """

    __props__ = ("mode",)

    def __init__(self, mode):
        if mode != "r":
            raise ValueError("QRIncomplete: mode must be 'r', not %r" % (mode,))
        self.mode = mode

    def make_node(self, x):
        x = as_matrix(self, x)
        return Apply(self, [x], [TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        store(outputs[0], np.linalg.qr(inputs[0], self.mode), node.outputs[0].dtype)

    def results(self, x):
        """Return the factors that derivatives use. See `Eigh.results`."""
        return QRFull("reduced")(x)

    def L_op(self, inputs, outputs, g_outputs):
        """Return the gradient. The first min(M, N) columns must be linearly independent."""
        (x,) = inputs
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x)
        q, r = self.results(x)
        return [with_pattern(_qr_gradient(x, q, r, q.zeros_like(), g_outputs[0]), x)]

    def R_op(self, inputs, eval_points):
        (x,), (direction,) = inputs, eval_points
        if direction is None:
            return [None]
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x)
        return [_qr_directions(*self.results(x), direction)[1]]

    def infer_shape(self, node, shapes):
        ((m, n),) = shapes
        return [(T.minimum(m, n), n)]


def qr(a: TensorLike, mode: str = "reduced") -> Any:
    """Return the QR decomposition of a matrix: ``a = dot(q, r)`` with q orthonormal and r upper-triangular.

    Parameters
    ----------
    a : tensor_like, shape (M, N)
        The matrix to be factored.
    mode : {'reduced', 'complete', 'r', 'raw'}, optional
        With K = min(M, N):

        - 'reduced': returns q, r with dimensions (M, K), (K, N)
        - 'complete': returns q, r with dimensions (M, M), (M, N)
        - 'r': returns r only, with dimensions (K, N)
        - 'raw': returns h, tau with dimensions (N, M), (K,): LAPACK's reflectors, with `h` in Fortran's layout

    Returns
    -------
    q : TensorVariable
        A float or complex matrix with orthonormal columns. In mode 'complete', it is an orthogonal or unitary matrix,
        whose determinant may be 1 or -1.
    r : TensorVariable
        The upper-triangular matrix.

    Notes
    -----
    The gradient exists for real matrices of any shape whose first K columns are linearly independent, except in mode
    'raw'. A cost must not depend on the columns of q after the first K columns.
    """
    return QRIncomplete(mode)(a) if mode == "r" else QRFull(mode)(a)


# --- singular values ---------------------------------------------------------------------------------------------------------


class SVD(Op):
    """An Op that computes the singular values of a matrix, and optionally the singular vectors, as `numpy.linalg.svd`.

    Parameters
    ----------
    full_matrices : bool, optional
        If True (default), u and v have the shapes (M, M) and (N, N), respectively. Otherwise, the shapes are (M, K) and
        (K, N), respectively, where K = min(M, N).
    compute_uv : bool, optional
        Whether to compute u and v in addition to s. The default is True.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the algorithm does not converge, for instance because of NaN.
    """

    __props__ = ("full_matrices", "compute_uv")

    def __init__(self, full_matrices=True, compute_uv=True):
        self.full_matrices = full_matrices
        self.compute_uv = compute_uv

    def make_node(self, x):
        x = as_matrix(self, x)
        s = TensorType(_REAL[x.dtype], (False,))()
        if not self.compute_uv:
            return Apply(self, [x], [s])
        return Apply(self, [x], [TensorType(x.dtype, (False, False))(), s, TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        values = np.linalg.svd(inputs[0], self.full_matrices, self.compute_uv)
        for cell, value, out in zip(outputs, values if self.compute_uv else [values], node.outputs):
            store(cell, value, out.dtype)

    def results(self, x):
        """Return the vectors and values that derivatives use. See `Eigh.results`."""
        return self(x) if self.compute_uv else SVD(full_matrices=False)(x)

    def L_op(self, inputs, outputs, g_outputs):
        """Return the gradient.

        The singular values must be distinct, except for costs that depend only on the values. If the matrix is not
        square and the cost depends on the vectors, the values must not be zero. The formula is from J. Townsend,
        "Differentiating the singular value decomposition", 2016.
        """
        (x,) = inputs
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x)
        if not self.compute_uv:
            u, _, vt = self.results(x)
            return [with_pattern(T.dot(u * g_outputs[0].dimshuffle("x", 0), vt), x)]
        u, s, vt = outputs
        only_values = all(isinstance(g_outputs[i].type, DisconnectedType) for i in (0, 2))
        gu, gs, gvt = _zero_disconnected(outputs, g_outputs)
        k = s.shape[0]
        if self.full_matrices:
            if not only_values:
                gs = _vectors_determined(self, gs, gu[:, k:], gvt[k:])
            u, gu, vt, gvt = u[:, :k], gu[:, :k], vt[:k], gvt[:k]
        if only_values:
            return [with_pattern(T.dot(u * gs.dimshuffle("x", 0), vt), x)]
        v, gv = vt.T, gvt.T
        row, column = s.dimshuffle("x", 0), s.dimshuffle(0, "x")
        squares = _gaps(T.sqr(s))
        utgu, vtgv = T.dot(u.T, gu), T.dot(v.T, gv)
        inner = T.diag(gs) + _over_gaps(utgu - utgu.T, squares) * row + column * _over_gaps(vtgv - vtgv.T, squares)
        # `outside_u` is the component of gu that is orthogonal to the columns of u. `outside_v` is the component of gv
        # that is orthogonal to the columns of v. If u or v is square, its component is only rounding errors.
        outside_u, outside_v = gu - T.dot(u, utgu), gv - T.dot(v, vtgv)
        g = T.dot(u, T.dot(inner, vt))
        # Add a component only if its matrix, u or v, is not square. Use a switch instead of a product with this
        # condition, because the component may be divided by a zero singular value.
        zero = np.asarray(0, x.dtype)
        g = g + T.switch(T.gt(x.shape[0], k), T.dot(_over_gaps(outside_u, row), vt), zero)
        g = g + T.switch(T.gt(x.shape[1], k), T.dot(u, _over_gaps(outside_v, row).T), zero)
        return [with_pattern(g, x)]

    def R_op(self, inputs, eval_points):
        """Return the tangents.

        The tangents of the vectors that `full_matrices` adds are NaN, because these vectors are an arbitrary basis.
        """
        (x,), (direction,) = inputs, eval_points
        if direction is None:
            return [None] * (3 if self.compute_uv else 1)
        if x.dtype.startswith("complex"):
            return _no_complex_gradient(self, x) * (3 if self.compute_uv else 1)
        u, s, vt = self.results(x)
        k = s.shape[0]
        left, right = u[:, :k], vt[:k].T
        moved, turned = T.dot(direction, right), T.dot(direction.T, left)
        inner = T.dot(left.T, moved)
        ds = T.diag(inner)
        if not self.compute_uv:
            return [ds]
        row, column = s.dimshuffle("x", 0), s.dimshuffle(0, "x")
        gaps = _gaps(T.sqr(s))
        # Each tangent is the sum of a component in the span of the singular vectors and a component orthogonal to this
        # span. If the vectors span the whole space, the second component is only rounding errors, so do not add it.
        zero = np.asarray(0, x.dtype)
        du = T.dot(left, _over_gaps(inner * row + column * inner.T, gaps))
        du = du + T.switch(T.gt(x.shape[0], k), _over_gaps(moved - T.dot(left, inner), row), zero)
        dv = T.dot(right, _over_gaps(column * inner + inner.T * row, gaps))
        dv = dv + T.switch(T.gt(x.shape[1], k), _over_gaps(turned - T.dot(right, inner.T), row), zero)
        if not self.full_matrices:
            return [du, ds, dv.T]
        return [_undetermined_beyond(k, u, du), ds, _undetermined_beyond(k, vt.T, dv).T]

    def infer_shape(self, node, shapes):
        ((m, n),) = shapes
        k = T.minimum(m, n)
        if not self.compute_uv:
            return [(k,)]
        return [(m, m), (k,), (n, n)] if self.full_matrices else [(m, k), (k,), (k, n)]


def svd(a: TensorLike, full_matrices: int | bool = 1, compute_uv: int | bool = 1) -> Any:
    """Return the singular value decomposition, computed on the CPU: ``a = dot(u[:, :K] * s, vh[:K])``.

    Parameters
    ----------
    a : tensor_like, shape (M, N)
    full_matrices : bool, optional
        If True (default), u and vh have the shapes (M, M) and (N, N), respectively. Otherwise, the shapes are (M, K)
        and (K, N), respectively, where K = min(M, N).
    compute_uv : bool, optional
        Whether to compute u and vh in addition to s. The default is True.

    Returns
    -------
    list of TensorVariable, or TensorVariable
        u, s, vh as in NumPy. s is a real vector in descending order. If `compute_uv` is False, only s is returned.

    Notes
    -----
    The gradient exists for real matrices with distinct singular values. If a cost depends only on s, the values may be
    equal. A cost must not depend on the vectors that `full_matrices` adds to the first K vectors.
    """
    return SVD(full_matrices, compute_uv)(a)
