"""Matrix products with at least one sparse operand."""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.sparse.arithmetic import _gradient, coordinates, with_data
from theano_ng.sparse.common import compressed, in_type_of, zero_gradient
from theano_ng.sparse.conversion import (
    CSC,
    CSR,
    SparseFromDense,
    csm_indices,
    csm_indptr,
    csm_shape,
    dense_from_sparse,
    sp_ones_like,
)
from theano_ng.sparse.shaping import transpose
from theano_ng.sparse.structured import conj_if_complex
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import CLASSES, check_pattern, copy_if_shared, matrix_of
from theano_ng.sparse.var import as_sparse_or_tensor_variable, as_sparse_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.linalg.products import dot as tensor_dot
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType

__all__ = [
    "Dot",
    "SamplingDot",
    "StructuredDot",
    "StructuredDotGradCSC",
    "StructuredDotGradCSR",
    "TrueDot",
    "Usmm",
    "_dot",
    "_structured_dot",
    "dot",
    "sampling_dot",
    "sdg_csc",
    "sdg_csr",
    "structured_dot",
    "structured_dot_grad",
    "true_dot",
    "usmm",
]


def _is_sparse(x):
    return isinstance(x.type, SparseType)


def _check_inner_lengths(op, x, y):
    """Raise ValueError if the shapes of two values do not match in a matrix product."""
    inner = x.shape[-1], y.shape[0]
    if inner[0] != inner[1]:
        raise ValueError("%s: shape mismatch: %s and %s" % (op, x.shape, y.shape))


def _dense(x):
    """Convert a sparse or dense value to an array."""
    return x if isinstance(x, np.ndarray) else x.toarray()


def _product(x, y, dtype):
    """Return ``x @ y`` for two values, computed in the given dtype. The result is sparse if both values are sparse."""
    left, right = (
        v.astype(dtype, copy=False) if isinstance(v, np.ndarray) else matrix_of(v).astype(dtype, copy=False)
        for v in (x, y)
    )
    return left @ right


def _as_dense(result, dtype):
    return np.ascontiguousarray(_dense(result), dtype=dtype)


class Dot(Op):
    """An Op that multiplies two matrices, or a matrix and a dense vector. At least one operand is sparse.

    The result is dense. The gradient is regular (see `theano_ng.sparse`). It is dense even with respect to a sparse
    operand.
    """

    __props__ = ()

    def __str__(self):
        return "Sparse" + type(self).__name__

    def make_node(self, x, y):
        x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
        if not (_is_sparse(x) or _is_sparse(y)):
            raise TypeError(
                "theano.sparse.Dot: at least one of the operands must be sparse; got %s and %s" % (x.type, y.type)
            )
        for i, v in enumerate((x, y)):
            if v.type.ndim not in (1, 2):
                raise TypeError(
                    "theano.sparse.Dot: input %d (%d-indexed) must have ndim of 1 or 2, %d given." % (i, i, v.type.ndim)
                )
        left = (False,) if _is_sparse(x) else x.broadcastable[:-1]
        right = (False,) if _is_sparse(y) else y.broadcastable[1:]
        return Apply(self, [x, y], [TensorType(upcast(x.dtype, y.dtype), left + right)()])

    def perform(self, node, inputs, out):
        x, y = inputs
        _check_inner_lengths(self, x, y)
        dtype = node.outputs[0].dtype
        if isinstance(x, np.ndarray) and x.ndim == 1:
            result = _product(y.T, x, dtype)
        else:
            result = _product(x, y, dtype)
        out[0][0] = _as_dense(result, dtype)

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout
        gradients = []
        for v, other, first in ((x, y, True), (y, x, False)):
            if v.dtype in DISCRETE:
                gradients.append(zero_gradient(v))
                continue
            other = conj_if_complex(other)
            if gz.ndim == 1 and v.ndim == 2:
                # The gradient with respect to the matrix of a matrix-vector product is an outer product.
                outer = (gz, other) if first else (other, gz)
                gradient = outer[0].dimshuffle(0, "x") * outer[1].dimshuffle("x", 0)
            else:
                turned = transpose(other) if _is_sparse(other) else other.T
                factors = (gz, turned) if first else (turned, gz)
                gradient = (dot if _is_sparse(other) else tensor_dot)(*factors)
            gradients.append(gradient if _is_sparse(v) else patternbroadcast(gradient, v.broadcastable))
        return gradients

    def infer_shape(self, node, shapes):
        return [tuple(shapes[0][:-1]) + tuple(shapes[1][1:])]


_dot = Dot()


def _operand(x):
    """Convert a SciPy matrix or another value to a variable. Return a variable unchanged."""
    return x if isinstance(x, Variable) else as_sparse_or_tensor_variable(x)


def dot(x, y):
    """Return the product of two matrices, at least one of them sparse, as a dense matrix. The gradient is regular.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix or vector

    Returns
    -------
    TensorVariable

    Raises
    ------
    TypeError
        If neither operand is sparse.

    Notes
    -----
    If the product is multiplied by a scalar, and a matrix is added to the result, rewriting combines the three
    operations into one `Usmm`. The gradient of `dot` with respect to a sparse operand is dense. The gradient of
    `structured_dot` with respect to a sparse operand is sparse.
    """
    x, y = _operand(x), _operand(y)
    if not (_is_sparse(x) or _is_sparse(y)):
        raise TypeError("sparse.dot: at least one of the operands must be sparse; got %s and %s" % (x.type, y.type))
    return _dot(x, y)


# ---------------------------------------------------------------------------


class StructuredDot(Op):
    """The Op of `structured_dot`, for a sparse first operand. The gradient is structured (see `theano_ng.sparse`).

    The result is sparse if both operands are sparse, otherwise dense.
    """

    __props__ = ()

    def make_node(self, a, b):
        a, b = as_sparse_variable(a), as_sparse_or_tensor_variable(b)
        if b.type.ndim != 2:
            raise NotImplementedError("non-matrix b: expected a matrix, got %s" % b.type)
        dtype = upcast(a.dtype, b.dtype)
        if _is_sparse(b):
            b = compressed(b, self)
            return Apply(self, [compressed(a, self), b], [SparseType(format=a.format, dtype=dtype)()])
        return Apply(self, [a, b], [TensorType(dtype, (False, b.broadcastable[1]))()])

    def perform(self, node, inputs, outputs):
        a, b = inputs
        if a.shape[1] != b.shape[0]:
            raise ValueError("shape mismatch in StructuredDot.perform", (a.shape, b.shape))
        dtype = node.outputs[0].dtype
        result = _product(a, b, dtype)
        if isinstance(b, np.ndarray):
            outputs[0][0] = _as_dense(result, dtype)
        else:
            outputs[0][0] = copy_if_shared(result.asformat(a.format), a, b)

    def grad(self, inputs, gout):
        a, b = inputs
        (gz,) = gout
        if a.format == "bsr":
            raise NotImplementedError("StructuredDot has no gradient for a sparse matrix in format bsr; use csr or csc")
        if _is_sparse(b):
            if not _is_sparse(gz):
                gz = SparseFromDense(a.format)(gz)
            ga = lambda: sp_ones_like(a) * _structured_dot(gz, transpose(conj_if_complex(b)))
            gb = lambda: sp_ones_like(b) * _structured_dot(transpose(conj_if_complex(a)), gz)
        else:
            if _is_sparse(gz):
                gz = dense_from_sparse(gz)
            ga = lambda: structured_dot_grad(a, conj_if_complex(b), gz)
            gb = lambda: patternbroadcast(_structured_dot(transpose(conj_if_complex(a)), gz), b.broadcastable)
        return [_gradient(a, ga), _gradient(b, gb)]

    def infer_shape(self, node, shapes):
        return [(shapes[0][0], shapes[1][1])]


_structured_dot = StructuredDot()


def structured_dot(x, y):
    """Return the product of two matrices, at least one of them sparse. The gradient is structured.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix

    Returns
    -------
    SparseVariable or TensorVariable
        The product. It is sparse if both operands are sparse, otherwise dense.

    Raises
    ------
    TypeError
        If neither operand is sparse.

    Notes
    -----
    The gradient is structured: it is sparse with respect to sparse operands, and dense with respect to dense operands.

    Examples
    --------
    >>> from theano_ng import sparse
    >>> import theano_ng.tensor as T
    >>> x, y = sparse.csr_matrix("x"), T.dmatrix("y")
    >>> sparse.structured_dot(x, y).eval({x: [[0.0, 2.0]], y: [[1.0, 2.0], [3.0, 4.0]]})
    array([[6., 8.]])
    """
    x, y = _operand(x), _operand(y)
    if not (_is_sparse(x) or _is_sparse(y)):
        raise TypeError("structured_dot requires at least one sparse argument")
    if _is_sparse(x):
        return _structured_dot(x, y)
    if x.type.ndim != 2:
        raise NotImplementedError("non-matrix b: expected a matrix, got %s" % x.type)
    return _structured_dot(transpose(y), x.T).T


class _StructuredDotGrad(NativeOp, Op):
    """The base class of the Ops for the gradient of `structured_dot` with respect to the data of its sparse operand.

    The result is a vector. For the entry (i, j) of the sparse operand, it contains the dot product of row j of the
    dense operand and row i of the gradient with respect to the product.
    """

    __props__ = ()
    format = None

    def make_node(self, a_indices, a_indptr, b, g_ab):
        a_indices, a_indptr, b, g_ab = (as_tensor_variable(v) for v in (a_indices, a_indptr, b, g_ab))
        for what, v in (("a_indices", a_indices), ("a_indptr", a_indptr)):
            if v.ndim != 1 or v.dtype not in INTEGERS:
                raise TypeError("%s: %s must be a vector of integers, not %s" % (self, what, v.type))
        for what, v in (("b", b), ("g_ab", g_ab)):
            if v.ndim != 2:
                raise TypeError("%s: %s must be a matrix, not %s" % (self, what, v.type))
        return Apply(self, [a_indices, a_indptr, b, g_ab], [TensorType(upcast(b.dtype, g_ab.dtype), (False,))()])

    def native_code(self, node):
        indices, indptr, b, g_ab = node.inputs
        if b.dtype != g_ab.dtype or not indices.dtype == indptr.dtype == "int32" or b.dtype not in SparseType.dtype_set:
            return None
        return NativeCode("theano_ng.tensor.native.sparse:dot_grad", columns=self.format == "csc")

    def perform(self, node, inputs, outputs):
        indices, indptr, b, g_ab = inputs
        lines, minor = (b, g_ab) if self.format == "csc" else (g_ab, b)
        if b.shape[1] != g_ab.shape[1]:
            raise ValueError(
                "shape mismatch: the dense operand has %d columns, but the gradient has %d"
                % (b.shape[1], g_ab.shape[1])
            )
        pattern = _Pattern(indices, indptr, (len(lines), len(minor)))
        check_pattern(pattern)
        line = np.repeat(np.arange(len(lines)), np.diff(indptr))
        entries = int(indptr[-1])
        result = np.zeros(len(indices), dtype=node.outputs[0].dtype)
        result[:entries] = _dots_of_rows(lines, line, minor, indices[:entries])
        outputs[0][0] = result

    def grad(self, inputs, gout):
        indices, indptr, b, g_ab = inputs
        (gz,) = gout
        from_b, from_g = b.shape[0], g_ab.shape[0]
        # `gz` contains one gradient per entry. Make a sparse matrix of shape (rows of g_ab, rows of b) from it.
        matrix = (CSC if self.format == "csc" else CSR)(gz, indices, indptr, _shape_of(from_g, from_b))
        return [
            DisconnectedType()(),
            DisconnectedType()(),
            _gradient(
                b, lambda: patternbroadcast(_structured_dot(transpose(matrix), conj_if_complex(g_ab)), b.broadcastable)
            ),
            _gradient(g_ab, lambda: patternbroadcast(_structured_dot(matrix, conj_if_complex(b)), g_ab.broadcastable)),
        ]

    def connection_pattern(self, node):
        return [[False], [False], [True], [True]]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


def _shape_of(rows, columns):
    return as_tensor_variable([rows, columns])


class _Pattern:
    """An object with the attributes of a csr matrix that `check_pattern` reads."""

    format = "csr"

    def __init__(self, indices, indptr, shape):
        self.data = self.indices = indices
        self.indptr, self.shape = indptr, shape


# The maximum number of elements in one block of rows of `_dots_of_rows`. It limits the memory.
_BLOCK_ELEMENTS = 1 << 20


def _dots_of_rows(a, at_a, b, at_b):
    """Return ``(a[at_a] * b[at_b]).sum(1)``, computed in blocks, so that ``a[at_a]`` is never in memory as a whole."""
    result = np.zeros(len(at_a), dtype=np.result_type(a, b))
    step = max(1, _BLOCK_ELEMENTS // max(a.shape[1], 1))
    for start in range(0, len(at_a), step):
        part = slice(start, start + step)
        result[part] = np.einsum("ij,ij->i", a[at_a[part]], b[at_b[part]])
    return result


class StructuredDotGradCSC(_StructuredDotGrad):
    """An Op that computes the gradient of `structured_dot` with respect to the data of a csc matrix.

    The inputs are the indices and indptr of the matrix, the dense operand, and the gradient with respect to the
    product.
    """

    format = "csc"


class StructuredDotGradCSR(_StructuredDotGrad):
    """An Op that computes the gradient of `structured_dot` with respect to the data of a csr matrix.

    For the inputs, see `StructuredDotGradCSC`.
    """

    format = "csr"


sdg_csc = StructuredDotGradCSC()
sdg_csr = StructuredDotGradCSR()


def structured_dot_grad(sparse_A, dense_B, ga):
    """Return the structured gradient of ``structured_dot(A, B)`` with respect to A.

    Parameters
    ----------
    sparse_A : SparseVariable
        A matrix in format csr or csc.
    dense_B, ga : TensorVariable
        The dense operand, and the gradient with respect to the product.

    Returns
    -------
    SparseVariable
        The gradient, which has entries at the same positions as A.
    """
    sparse_A = compressed(sparse_A, "structured_dot_grad")
    op, build = (sdg_csc, CSC) if sparse_A.format == "csc" else (sdg_csr, CSR)
    indices, indptr = csm_indices(sparse_A), csm_indptr(sparse_A)
    return build(op(indices, indptr, dense_B, ga), indices, indptr, csm_shape(sparse_A))


# ---------------------------------------------------------------------------


class TrueDot(Op):
    """The Op of `true_dot`, for a sparse first operand. The result is sparse, and the gradient is regular.

    Parameters
    ----------
    grad_preserves_dense : bool
        If True, gradients with respect to dense operands are dense. Otherwise they are sparse.
    """

    __props__ = ()

    def __init__(self, grad_preserves_dense=True):
        self.grad_preserves_dense = grad_preserves_dense

    def make_node(self, x, y):
        x, y = compressed(x, self), as_sparse_or_tensor_variable(y)
        if x.dtype != y.dtype:
            raise NotImplementedError("%s: the operands have different dtypes, %s and %s" % (self, x.dtype, y.dtype))
        if y.type.ndim not in (1, 2):
            raise TypeError("%s: expected a matrix, got %s" % (self, y.type))
        return Apply(self, [x, y], [SparseType(dtype=x.dtype, format=x.format)()])

    def perform(self, node, inp, out_):
        x, y = inp
        _check_inner_lengths(self, x, y)
        result = _product(x, y, x.dtype)
        if isinstance(result, np.ndarray):
            # The product with a dense operand is an array. A vector becomes a sparse matrix of one row.
            result = CLASSES[x.format](result)
        out_[0][0] = copy_if_shared(result.asformat(x.format), x, y)

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout
        if y.type.ndim == 1:
            raise NotImplementedError("%s has no gradient for vectors: give it a matrix of one column" % self)
        if not _is_sparse(gz):
            gz = SparseFromDense(x.format)(gz)
        other = conj_if_complex(y)
        turned = transpose(other) if _is_sparse(y) else other.T
        gx = _gradient(x, lambda: TrueDot(self.grad_preserves_dense)(gz, turned))
        if y.dtype in DISCRETE:
            return [gx, zero_gradient(y)]
        gy = TrueDot(self.grad_preserves_dense)(transpose(conj_if_complex(x)), gz)
        if _is_sparse(y):
            gy = in_type_of(y, gy)
        elif self.grad_preserves_dense:
            gy = patternbroadcast(dense_from_sparse(gy), y.broadcastable)
        return [gx, gy]

    def infer_shape(self, node, shapes):
        x, y = shapes
        return [(x[0], y[1]) if len(y) == 2 else (as_tensor_variable(np.int64(1)), x[0])]


def true_dot(x, y, grad_preserves_dense=True):
    """Return the product of two matrices, at least one of them sparse, as a sparse matrix. The gradient is regular.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix
        The operands, which must have the same dtype.
    grad_preserves_dense : bool
        If True, gradients with respect to dense operands are dense. Otherwise they are sparse.

    Returns
    -------
    SparseVariable

    Raises
    ------
    TypeError
        If neither operand is sparse.
    NotImplementedError
        If the operands have different dtypes.
    """
    x, y = _operand(x), _operand(y)
    if not (_is_sparse(x) or _is_sparse(y)):
        raise TypeError(
            "sparse.true_dot: at least one of the operands must be sparse; got %s and %s" % (x.type, y.type)
        )
    if _is_sparse(x):
        return TrueDot(grad_preserves_dense)(x, y)
    return transpose(TrueDot(grad_preserves_dense)(transpose(y), x.T))


# ---------------------------------------------------------------------------


class SamplingDot(Op):
    """An Op that computes ``p * dot(x, y.T)`` for a sparse matrix p, only at the entries of p. The result is sparse.

    The inputs are two dense matrices, x of shape (m, k) and y of shape (n, k), and the sparse matrix p of shape (m, n).
    The gradient with respect to p is structured.
    """

    __props__ = ()

    def make_node(self, x, y, p):
        x, y, p = as_tensor_variable(x), as_tensor_variable(y), compressed(p, self)
        for what, v in (("x", x), ("y", y)):
            if v.ndim not in (1, 2):
                raise TypeError("%s: %s must be a matrix, not %s" % (self, what, v.type))
        # A vector becomes a matrix of one row.
        x, y = (v if v.ndim == 2 else v.dimshuffle("x", 0) for v in (x, y))
        return Apply(self, [x, y, p], [p.type()])

    def perform(self, node, inputs, outputs):
        x, y, p = inputs
        if x.shape[1] != y.shape[1]:
            raise ValueError(
                "x's number of columns doesn't match y's rows: they are %d and %d. Note: sampling_dot is different from dot because y is "
                "assumed to be transposed." % (x.shape[1], y.shape[1])
            )
        if p.shape != (len(x), len(y)):
            raise ValueError(
                "The dimension of the pattern and the output must match: they are %s and %s"
                % (p.shape, (len(x), len(y)))
            )
        rows, columns = coordinates(p)
        data = p.data[: p.indptr[-1]] * _dots_of_rows(x, rows, y, columns)
        outputs[0][0] = with_data(p, data.astype(p.dtype, copy=False))

    def grad(self, inputs, gout):
        x, y, p = inputs
        (gz,) = gout
        if not _is_sparse(gz):
            gz = SparseFromDense(p.format)(gz)

        factors, left, right = [conj_if_complex(v) for v in (p, x, y)]
        return [
            _gradient(x, lambda: patternbroadcast(dot(factors * gz, right), x.broadcastable)),
            _gradient(y, lambda: patternbroadcast(dot(transpose(factors * gz), left), y.broadcastable)),
            _gradient(p, lambda: gz * sampling_dot(left, right, sp_ones_like(p))),
        ]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[2]]


sampling_dot = SamplingDot()


class Usmm(Op):
    """An Op that computes ``alpha * dot(x, y) + z``, where x or y is sparse. It is the sparse analog of gemm.

    The result is dense, and the Op has no gradient. Only rewriting inserts the Op, in place of `dot`, the product with
    a scalar, and a sum. `alpha` is a scalar (all its dimensions are broadcastable), and z is a matrix with the shape of
    ``dot(x, y)``.
    """

    __props__ = ()

    def __str__(self):
        return "Usmm{no_inplace}"

    def make_node(self, alpha, x, y, z):
        x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
        if not (_is_sparse(x) or _is_sparse(y)):
            raise TypeError("%s: at least one of the operands must be sparse; got %s and %s" % (self, x.type, y.type))
        alpha, z = as_tensor_variable(alpha), as_tensor_variable(z)
        if not all(alpha.broadcastable):
            raise TypeError("%s: alpha must be a scalar, not %s" % (self, alpha.type))
        if z.ndim != 2:
            raise TypeError("%s: z must be a matrix, not %s" % (self, z.type))
        if x.type.ndim != 2 or y.type.ndim != 2:
            raise TypeError("%s: expected two matrices, got %s and %s" % (self, x.type, y.type))
        dtype = upcast(alpha.dtype, x.dtype, y.dtype, z.dtype)
        return Apply(self, [alpha, x, y, z], [TensorType(dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        alpha, x, y, z = inputs
        _check_inner_lengths(self, x, y)
        dtype = node.outputs[0].dtype
        result = _as_dense(_product(x, y, dtype), dtype)
        if result.shape != z.shape:
            raise ValueError(
                "The dimension of the allocated output doesn't match the correct output size: z has shape %s, the product %s"
                % (z.shape, result.shape)
            )
        result *= alpha.reshape(()).astype(dtype)
        result += z
        outputs[0][0] = result

    def infer_shape(self, node, shapes):
        return [(shapes[1][0], shapes[2][1])]


usmm = Usmm()
