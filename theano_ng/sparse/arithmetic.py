"""Sums, differences and elementwise products with at least one sparse matrix."""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.sparse.common import compressed, in_type_of, same_shapes, zero_gradient
from theano_ng.sparse.conversion import SparseFromDense, as_format, dense_from_sparse, sp_ones_like
from theano_ng.sparse.reductions import sp_sum
from theano_ng.sparse.structured import conj_if_complex
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import copy_if_shared, matrix_of, rebuilt
from theano_ng.sparse.var import as_sparse_or_tensor_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.type import TensorType

__all__ = [
    "AddSD",
    "AddSS",
    "AddSSData",
    "MulSD",
    "MulSS",
    "MulSV",
    "Neg",
    "StructuredAddSV",
    "add",
    "add_s_d",
    "add_s_s",
    "add_s_s_data",
    "mul",
    "mul_s_d",
    "mul_s_s",
    "mul_s_v",
    "neg",
    "structured_add_s_v",
    "sub",
]


def _sparse(gz, format):
    """Convert a gradient to a sparse variable with the given format."""
    return as_format(gz, format) if isinstance(gz.type, SparseType) else SparseFromDense(format)(gz)


def _gradient(x, value):
    """Return the gradient `value()` in the type of `x`, or zeros if `x` has an integer dtype."""
    if x.dtype in DISCRETE:
        return zero_gradient(x)
    return in_type_of(x, value()) if isinstance(x.type, SparseType) else with_pattern(value(), x)


def _lines_of_entries(x):
    """Return the row (csr) or the column (csc) of each entry as a vector, and the number of entries."""
    return np.repeat(np.arange(len(x.indptr) - 1), np.diff(x.indptr)), int(x.indptr[-1])


def coordinates(x):
    """Return the rows and the columns of all entries of a csr or csc value."""
    lines, entries = _lines_of_entries(x)
    return (lines, x.indices[:entries]) if x.format == "csr" else (x.indices[:entries], lines)


def with_data(x, data):
    """Return a sparse matrix with entries at the positions of the entries of `x`. `data` contains their values."""
    entries = int(x.indptr[-1])
    return rebuilt(x.format, data, x.indices[:entries].copy(), x.indptr.copy(), x.shape)


class Neg(Op):
    """An Op that computes ``-x``. The gradient is regular."""

    __props__ = ()

    def __str__(self):
        return "Sparse" + type(self).__name__

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        outputs[0][0] = with_data(x, -x.data[: x.indptr[-1]])

    def grad(self, inputs, gout):
        return [_gradient(inputs[0], lambda: -gout[0])]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


neg = Neg()


class AddSS(Op):
    """An Op that adds two sparse matrices. The result has the format of the first matrix. The gradient is regular."""

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), compressed(y, self)
        return Apply(self, [x, y], [SparseType(dtype=upcast(x.dtype, y.dtype), format=x.format)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        dtype = node.outputs[0].dtype
        total = matrix_of(x).astype(dtype, copy=False) + matrix_of(y).astype(dtype, copy=False)
        outputs[0][0] = copy_if_shared(total.asformat(x.format), x, y)

    def grad(self, inputs, gout):
        return [_gradient(x, lambda: gout[0]) for x in inputs]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


add_s_s = AddSS()


class AddSSData(Op):
    """An Op that adds two sparse matrices of one type whose entries have the same positions and order.

    Only the data are added. The caller must ensure that the positions agree. The gradient is structured.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), compressed(y, self)
        if x.type != y.type:
            raise NotImplementedError(
                "%s: expected two matrices of the same type, got %s and %s" % (self, x.type, y.type)
            )
        return Apply(self, [x, y], [x.type()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        if x.indptr[-1] != y.indptr[-1]:
            raise ValueError(
                "%s: the matrices must have the same number of entries, but they have %d and %d"
                % (self, x.indptr[-1], y.indptr[-1])
            )
        outputs[0][0] = with_data(x, x.data[: x.indptr[-1]] + y.data[: y.indptr[-1]])

    def grad(self, inputs, gout):
        return [_gradient(x, lambda: gout[0]) for x in inputs]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[0]]


add_s_s_data = AddSSData()


class AddSD(Op):
    """An Op that adds a sparse and a dense matrix. The result is dense.

    The gradient with respect to the sparse matrix is structured.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), as_tensor_variable(y)
        if y.ndim != 2:
            raise TypeError("%s: expected a dense matrix, got %s" % (self, y.type))
        return Apply(self, [x, y], [TensorType(upcast(x.dtype, y.dtype), y.broadcastable)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        total = np.array(y, dtype=node.outputs[0].dtype, order="C")
        np.add.at(total, coordinates(x), x.data[: x.indptr[-1]].astype(total.dtype, copy=False))
        outputs[0][0] = total

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout
        return [_gradient(x, lambda: sp_ones_like(x) * gz), _gradient(y, lambda: gz)]

    def infer_shape(self, node, shapes):
        return [shapes[1]]


add_s_d = AddSD()


class StructuredAddSV(Op):
    """An Op that adds a vector to the entries of each row of a sparse matrix. The gradient is structured.

    The vector has an element for each column. Elements that are not stored stay zero.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), as_tensor_variable(y)
        if y.ndim != 1:
            raise TypeError("%s: expected a vector, got %s" % (self, y.type))
        if x.dtype != y.dtype:
            raise NotImplementedError(
                "%s not implemented for differing dtypes. Got %s and %s." % (self, x.dtype, y.dtype)
            )
        return Apply(self, [x, y], [x.type()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        _one_for_each_column(self, x, y)
        outputs[0][0] = with_data(x, x.data[: x.indptr[-1]] + y[coordinates(x)[1]])

    def grad(self, inputs, gout):
        x, y = inputs
        gz = _sparse(gout[0], x.format)
        return [
            _gradient(x, lambda: sp_ones_like(x) * gz),
            _gradient(y, lambda: sp_sum(sp_ones_like(x) * gz, axis=0, sparse_grad=True)),
        ]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[0]]


structured_add_s_v = StructuredAddSV()


def _one_for_each_column(op, x, y):
    if x.shape[1] != len(y):
        raise ValueError("%s: a matrix of shape %s and a vector of %d elements do not match" % (op, x.shape, len(y)))


class MulSS(Op):
    """An Op that multiplies two sparse matrices elementwise. The gradient is regular.

    The result has the format of the first matrix.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), compressed(y, self)
        return Apply(self, [x, y], [SparseType(dtype=upcast(x.dtype, y.dtype), format=x.format)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        dtype = node.outputs[0].dtype
        product = matrix_of(x).astype(dtype, copy=False).multiply(matrix_of(y).astype(dtype, copy=False))
        outputs[0][0] = copy_if_shared(product.asformat(x.format), x, y)

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout
        return [_gradient(x, lambda: conj_if_complex(y) * gz), _gradient(y, lambda: conj_if_complex(x) * gz)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


mul_s_s = MulSS()


class MulSD(Op):
    """An Op that multiplies a sparse matrix elementwise by a dense matrix or a scalar. The gradient is regular.

    The result is sparse. It is computed only at the positions of entries: elements that are not stored stay zero, even
    if the dense matrix has an infinity or a NaN there.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), as_tensor_variable(y)
        if y.ndim not in (0, 2):
            raise TypeError("%s: expected a dense matrix or a number, got %s" % (self, y.type))
        return Apply(self, [x, y], [SparseType(dtype=upcast(x.dtype, y.dtype), format=x.format)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        dtype = node.outputs[0].dtype
        data = x.data[: x.indptr[-1]].astype(dtype)
        if y.ndim == 2:
            same_shapes(self, x, y)
            y = y[coordinates(x)]
        data *= y.astype(dtype, copy=False)
        outputs[0][0] = with_data(x, data)

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout

        def for_y():
            factor = conj_if_complex(x)
            product = mul_s_d(factor, gz) if not isinstance(gz.type, SparseType) else factor * gz
            return sp_sum(product, sparse_grad=True) if y.ndim == 0 else dense_from_sparse(product)

        return [_gradient(x, lambda: gz * conj_if_complex(y)), _gradient(y, for_y)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


mul_s_d = MulSD()


class MulSV(Op):
    """An Op that multiplies each row of a sparse matrix elementwise by a vector. The gradient is regular.

    The vector has an element for each column, and the result is sparse.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), as_tensor_variable(y)
        if y.ndim != 1:
            raise TypeError("%s: expected a vector, got %s" % (self, y.type))
        if x.dtype != y.dtype:
            raise NotImplementedError("MulSV not implemented for differing dtypes. Got %s and %s." % (x.dtype, y.dtype))
        return Apply(self, [x, y], [x.type()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        _one_for_each_column(self, x, y)
        outputs[0][0] = with_data(x, x.data[: x.indptr[-1]] * y[coordinates(x)[1]])

    def grad(self, inputs, gout):
        x, y = inputs
        gz = _sparse(gout[0], x.format)
        return [
            _gradient(x, lambda: mul_s_v(gz, conj_if_complex(y))),
            _gradient(y, lambda: sp_sum(conj_if_complex(x) * gz, axis=0, sparse_grad=True)),
        ]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[0]]


mul_s_v = MulSV()


# ---------------------------------------------------------------------------


def _operands(what, x, y):
    """Convert both operands to variables. Return them, and a pair of bools that are True for sparse operands.

    Raise TypeError if neither operand is sparse.
    """
    x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
    kinds = isinstance(x.type, SparseType), isinstance(y.type, SparseType)
    if not any(kinds):
        raise TypeError(
            "sparse.%s: at least one of the operands must be sparse; got %s and %s" % (what, x.type, y.type)
        )
    return x, y, kinds


def add(x, y):
    """Return the sum of two matrices, at least one of them sparse.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix

    Returns
    -------
    SparseVariable or TensorVariable
        If both operands are sparse, the sum is sparse and the gradient is regular. Otherwise the sum is dense, and the
        gradient with respect to the sparse operand is structured.

    Raises
    ------
    TypeError
        If neither operand is sparse, or a dense operand is not a matrix.
    """
    x, y, (x_is, y_is) = _operands("add", x, y)
    if x_is and y_is:
        return add_s_s(x, y)
    return add_s_d(x, y) if x_is else add_s_d(y, x)


def sub(x, y):
    """Return the difference of two matrices, at least one of them sparse. For details see `add`."""
    x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
    return add(x, -y)


def mul(x, y):
    """Return the elementwise product of two operands, at least one of them a sparse matrix. The gradient is regular.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix or number

    Returns
    -------
    SparseVariable

    Raises
    ------
    TypeError
        If neither operand is sparse, or a dense operand is neither a matrix nor a scalar.
    """
    x, y, (x_is, y_is) = _operands("mul", x, y)
    if x_is and y_is:
        return mul_s_s(x, y)
    return mul_s_d(x, y) if x_is else mul_s_d(y, x)
