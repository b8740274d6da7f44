"""Sums, differences and elementwise products of matrices of which one is sparse."""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.sparse.common import compressed, in_type_of, no_gradient, same_shapes
from theano_ng.sparse.conversion import SparseFromDense, as_format, dense_from_sparse, sp_ones_like
from theano_ng.sparse.reductions import sp_sum
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import detached, matrix_of, rebuilt
from theano_ng.sparse.var import as_sparse_or_tensor_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
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
    """A gradient as a sparse variable in a format."""
    return as_format(gz, format) if isinstance(gz.type, SparseType) else SparseFromDense(format)(gz)


def _gradient(x, value):
    """What `value()` returns, in the type of `x`, or zeros when `x` has integers."""
    return (
        no_gradient(x) if x.dtype in DISCRETE else in_type_of(x, value()) if isinstance(x.type, SparseType) else value()
    )


def _lines_and_places(x):
    """The line (row of csr, column of csc) of each entry, and the number of entries."""
    return np.repeat(np.arange(len(x.indptr) - 1), np.diff(x.indptr)), int(x.indptr[-1])


def places(x):
    """Row and column of each entry of a csr or csc value."""
    lines, entries = _lines_and_places(x)
    return (lines, x.indices[:entries]) if x.format == "csr" else (x.indices[:entries], lines)


def with_data(x, data):
    """A value with the places of the entries of `x`, and other entries."""
    entries = int(x.indptr[-1])
    return rebuilt(x.format, data, x.indices[:entries].copy(), x.indptr.copy(), x.shape)


class Neg(Op):
    """``-x``. The gradient is regular."""

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
    """The sum of two sparse matrices, in the format of the first. The gradient is regular."""

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), compressed(y, self)
        return Apply(self, [x, y], [SparseType(dtype=upcast(x.dtype, y.dtype), format=x.format)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        dtype = node.outputs[0].dtype
        total = matrix_of(x).astype(dtype, copy=False) + matrix_of(y).astype(dtype, copy=False)
        outputs[0][0] = detached(total.asformat(x.format), x, y)

    def grad(self, inputs, gout):
        return [_gradient(x, lambda: gout[0]) for x in inputs]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


add_s_s = AddSS()


class AddSSData(Op):
    """The sum of two sparse matrices of one type that have entries at the same places in the same order. The gradient is structured.

    Only the data are added: it is the caller's business that the places are the same.
    """

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), compressed(y, self)
        if x.type != y.type:
            raise NotImplementedError("%s: expected two matrices of one type, got %s and %s" % (self, x.type, y.type))
        return Apply(self, [x, y], [x.type()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        if x.indptr[-1] != y.indptr[-1]:
            raise ValueError("%s: the matrices have %d and %d entries" % (self, x.indptr[-1], y.indptr[-1]))
        outputs[0][0] = with_data(x, x.data[: x.indptr[-1]] + y.data[: y.indptr[-1]])

    def grad(self, inputs, gout):
        return [_gradient(x, lambda: gout[0]) for x in inputs]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[0]]


add_s_s_data = AddSSData()


class AddSD(Op):
    """The sum of a sparse and a dense matrix, dense. The gradient with respect to the sparse one is structured."""

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
        np.add.at(total, places(x), x.data[: x.indptr[-1]].astype(total.dtype, copy=False))
        outputs[0][0] = total

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout
        return [_gradient(x, lambda: sp_ones_like(x) * gz), _gradient(y, lambda: gz)]

    def infer_shape(self, node, shapes):
        return [shapes[1]]


add_s_d = AddSD()


class StructuredAddSV(Op):
    """A vector added to the entries of each row of a sparse matrix; what is not stored stays zero. The gradient is structured.

    The vector has an element for each column.
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
        outputs[0][0] = with_data(x, x.data[: x.indptr[-1]] + y[places(x)[1]])

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
        raise ValueError("%s: a matrix of shape %s does not go with a vector of %d elements" % (op, x.shape, len(y)))


class MulSS(Op):
    """The elementwise product of two sparse matrices, in the format of the first. The gradient is regular."""

    __props__ = ()

    def make_node(self, x, y):
        x, y = compressed(x, self), compressed(y, self)
        return Apply(self, [x, y], [SparseType(dtype=upcast(x.dtype, y.dtype), format=x.format)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        dtype = node.outputs[0].dtype
        product = matrix_of(x).astype(dtype, copy=False).multiply(matrix_of(y).astype(dtype, copy=False))
        outputs[0][0] = detached(product.asformat(x.format), x, y)

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout
        return [_gradient(x, lambda: y * gz), _gradient(y, lambda: x * gz)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


mul_s_s = MulSS()


class MulSD(Op):
    """The elementwise product of a sparse matrix and a dense one (or a number), sparse. The gradient is regular.

    Only at the places of entries anything is computed: what is not stored stays zero whatever the dense matrix has there.
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
            y = y[places(x)]
        data *= y.astype(dtype, copy=False)
        outputs[0][0] = with_data(x, data)

    def grad(self, inputs, gout):
        x, y = inputs
        (gz,) = gout

        def for_y():
            product = mul_s_d(x, gz) if not isinstance(gz.type, SparseType) else x * gz
            return sp_sum(product, sparse_grad=True) if y.ndim == 0 else dense_from_sparse(product)

        return [_gradient(x, lambda: gz * y), _gradient(y, for_y)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


mul_s_d = MulSD()


class MulSV(Op):
    """The product of a sparse matrix with a vector, which has an element for each column, sparse. The gradient is regular."""

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
        outputs[0][0] = with_data(x, x.data[: x.indptr[-1]] * y[places(x)[1]])

    def grad(self, inputs, gout):
        x, y = inputs
        gz = _sparse(gout[0], x.format)
        return [_gradient(x, lambda: mul_s_v(gz, y)), _gradient(y, lambda: sp_sum(x * gz, axis=0, sparse_grad=True))]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[0]]


mul_s_v = MulSV()


# ---------------------------------------------------------------------------


def _operands(what, x, y):
    """Both operands as variables, and whether they are sparse; TypeError unless one is."""
    x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
    kinds = isinstance(x.type, SparseType), isinstance(y.type, SparseType)
    if not any(kinds):
        raise TypeError("sparse.%s: one of the operands has to be sparse; got %s and %s" % (what, x.type, y.type))
    return x, y, kinds


def add(x, y):
    """The sum of two matrices of which one at least is sparse.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix

    Returns
    -------
    SparseVariable or TensorVariable
        Sparse when both are. The gradient is regular then; otherwise the sparse operand's is structured.

    Raises
    ------
    TypeError
        When neither is sparse, and for a dense operand that is no matrix.
    """
    x, y, (x_is, y_is) = _operands("add", x, y)
    if x_is and y_is:
        return add_s_s(x, y)
    return add_s_d(x, y) if x_is else add_s_d(y, x)


def sub(x, y):
    """The difference of two matrices of which one at least is sparse; as `add`."""
    x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
    return add(x, -y)


def mul(x, y):
    """The elementwise product of two matrices of which one at least is sparse; the other may be a number. The gradient is regular.

    Parameters
    ----------
    x, y : SparseVariable or tensor matrix or number

    Returns
    -------
    SparseVariable

    Raises
    ------
    TypeError
        When neither is sparse, and for a dense operand that is neither a matrix nor a number.
    """
    x, y, (x_is, y_is) = _operands("mul", x, y)
    if x_is and y_is:
        return mul_s_s(x, y)
    return mul_s_d(x, y) if x_is else mul_s_d(y, x)
