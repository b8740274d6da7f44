"""Comparisons of sparse matrices. The results are uint8 matrices, which are sparse if both operands are sparse."""

import warnings

import numpy as np
import scipy.sparse

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.sparse.common import same_shapes, zero_gradient
from theano_ng.sparse.conversion import as_format
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import copy_if_shared, matrix_of
from theano_ng.sparse.var import as_sparse_or_tensor_variable, as_sparse_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.type import TensorType

_NAMES = ("Equal", "NotEqual", "LessThan", "GreaterThan", "LessEqual", "GreaterEqual")
__all__ = [
    *[name + kind for name in _NAMES for kind in ("SS", "SD")],
    *[
        "%s_s_%s" % (name, kind)
        for name in ("equal", "not_equal", "less_than", "greater_than", "less_equal", "greater_equal")
        for kind in "sd"
    ],
    *["eq", "neq", "lt", "gt", "le", "ge"],
]


class _ComparisonOpSS(Op):
    """Base class of Ops that compare two sparse matrices. These Ops have no gradient.

    The result is a sparse uint8 matrix in the format of the first operand.
    """

    __props__ = ()

    def comparison(self, x, y):
        """Return the comparison of two values."""
        raise NotImplementedError("%s has no comparison" % type(self).__name__)

    def make_node(self, x, y):
        x, y = as_sparse_variable(x), as_sparse_variable(y)
        return Apply(self, [x, as_format(y, x.format)], [SparseType(dtype="uint8", format=x.format)()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        with warnings.catch_warnings():
            # SciPy warns if the comparison of two zeros is true: nearly all elements of the result are then entries.
            warnings.simplefilter("ignore", scipy.sparse.SparseEfficiencyWarning)
            result = self.comparison(matrix_of(x), matrix_of(y))
        outputs[0][0] = copy_if_shared(result.astype("uint8").asformat(x.format), x, y)

    def grad(self, inputs, gout):
        return [zero_gradient(x) for x in inputs]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


class _ComparisonOpSD(Op):
    """Base class of Ops that compare a sparse and a dense matrix. These Ops have no gradient.

    The result is a dense uint8 matrix.
    """

    __props__ = ()

    def comparison(self, x, y):
        """Return the comparison of two values."""
        raise NotImplementedError("%s has no comparison" % type(self).__name__)

    def make_node(self, x, y):
        x, y = as_sparse_variable(x), as_tensor_variable(y)
        if y.ndim != 2:
            raise TypeError("%s: expected a dense matrix, got %s" % (self, y.type))
        return Apply(self, [x, y], [TensorType("uint8", (False, False))()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        same_shapes(self, x, y)
        outputs[0][0] = np.ascontiguousarray(self.comparison(x.toarray(), y)).astype("uint8")

    def grad(self, inputs, gout):
        return [zero_gradient(x) for x in inputs]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


class EqualSS(_ComparisonOpSS):
    """The Op ``x == y`` for two sparse matrices."""

    def comparison(self, x, y):
        return x == y


class EqualSD(_ComparisonOpSD):
    """The Op ``x == y`` for a sparse and a dense matrix."""

    def comparison(self, x, y):
        return x == y


class NotEqualSS(_ComparisonOpSS):
    """The Op ``x != y`` for two sparse matrices."""

    def comparison(self, x, y):
        return x != y


class NotEqualSD(_ComparisonOpSD):
    """The Op ``x != y`` for a sparse and a dense matrix."""

    def comparison(self, x, y):
        return x != y


class LessThanSS(_ComparisonOpSS):
    """The Op ``x < y`` for two sparse matrices."""

    def comparison(self, x, y):
        return x < y


class LessThanSD(_ComparisonOpSD):
    """The Op ``x < y`` for a sparse and a dense matrix."""

    def comparison(self, x, y):
        return x < y


class GreaterThanSS(_ComparisonOpSS):
    """The Op ``x > y`` for two sparse matrices."""

    def comparison(self, x, y):
        return x > y


class GreaterThanSD(_ComparisonOpSD):
    """The Op ``x > y`` for a sparse and a dense matrix."""

    def comparison(self, x, y):
        return x > y


class LessEqualSS(_ComparisonOpSS):
    """The Op ``x <= y`` for two sparse matrices."""

    def comparison(self, x, y):
        return x <= y


class LessEqualSD(_ComparisonOpSD):
    """The Op ``x <= y`` for a sparse and a dense matrix."""

    def comparison(self, x, y):
        return x <= y


class GreaterEqualSS(_ComparisonOpSS):
    """The Op ``x >= y`` for two sparse matrices."""

    def comparison(self, x, y):
        return x >= y


class GreaterEqualSD(_ComparisonOpSD):
    """The Op ``x >= y`` for a sparse and a dense matrix."""

    def comparison(self, x, y):
        return x >= y


equal_s_s = EqualSS()
equal_s_d = EqualSD()
not_equal_s_s = NotEqualSS()
not_equal_s_d = NotEqualSD()
less_than_s_s = LessThanSS()
less_than_s_d = LessThanSD()
greater_than_s_s = GreaterThanSS()
greater_than_s_d = GreaterThanSD()
less_equal_s_s = LessEqualSS()
less_equal_s_d = LessEqualSD()
greater_equal_s_s = GreaterEqualSS()
greater_equal_s_d = GreaterEqualSD()


def _comparison(symbol, name, both, sparse_first, dense_first):
    """Return a comparison function that chooses the Op by the kinds of its operands.

    If the first operand is dense, the function applies the Op `dense_first` to the swapped operands.
    """

    def compare(x, y):
        x, y = as_sparse_or_tensor_variable(x), as_sparse_or_tensor_variable(y)
        x_is, y_is = isinstance(x.type, SparseType), isinstance(y.type, SparseType)
        if not x_is and not y_is:
            raise TypeError(
                "sparse.%s: at least one of the operands must be sparse; got %s and %s" % (name, x.type, y.type)
            )
        if x_is and y_is:
            return both(x, y)
        return sparse_first(x, y) if x_is else dense_first(y, x)

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = (
        "``x %s y`` for two matrices, of which at least one is sparse. There is no gradient.\n\n    Parameters\n    "
        "----------\n    x, y : SparseVariable or tensor matrix\n\n    Returns\n    -------\n    SparseVariable or "
        "TensorVariable\n        Of dtype uint8, with 1 where the comparison is true; sparse if both operands are "
        "sparse, otherwise dense.\n    " % symbol
    )
    return compare


eq = _comparison("==", "eq", equal_s_s, equal_s_d, equal_s_d)
neq = _comparison("!=", "neq", not_equal_s_s, not_equal_s_d, not_equal_s_d)
lt = _comparison("<", "lt", less_than_s_s, less_than_s_d, greater_than_s_d)
gt = _comparison(">", "gt", greater_than_s_s, greater_than_s_d, less_than_s_d)
le = _comparison("<=", "le", less_equal_s_s, less_equal_s_d, greater_equal_s_d)
ge = _comparison(">=", "ge", greater_equal_s_s, greater_equal_s_d, less_equal_s_d)
