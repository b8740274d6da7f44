"""Sums of sparse matrices, and the scaling of rows and columns.

The gradient with respect to the scale factors is such a sum.
"""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.sparse.common import compressed, in_type_of, zero_gradient
from theano_ng.sparse.conversion import SparseFromDense, sp_ones_like
from theano_ng.sparse.shaping import transpose
from theano_ng.sparse.structured import conj_if_complex
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import matrix_of, rebuilt
from theano_ng.sparse.var import as_sparse_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.type import TensorType

__all__ = ["ColScaleCSC", "RowScaleCSC", "SpSum", "col_scale", "row_scale", "sp_sum"]


class SpSum(Op):
    """An Op that sums a sparse matrix, or each of its columns or rows. The result is a dense tensor of the same dtype.

    Parameters
    ----------
    axis : {None, 0, 1}
        None: the sum of all elements. 0: the sum of each column. 1: the sum of each row.
    sparse_grad : bool
        If True, the gradient is structured: it is computed only at the positions of entries. Otherwise it is regular.
        In both cases the gradient is a sparse matrix in the format of the input.
    """

    __props__ = ("axis",)

    def __init__(self, axis=None, sparse_grad=True):
        if axis not in (None, 0, 1) or isinstance(axis, bool):
            raise ValueError("Illegal value for self.axis: %r; it must be None, 0 or 1" % (axis,))
        self.axis = axis
        # This attribute is not in __props__, because it does not change the result.
        self.structured = sparse_grad

    def __str__(self):
        return "%s{axis=%s}" % (type(self).__name__, self.axis)

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [TensorType(x.dtype, () if self.axis is None else (False,))()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        matrix = matrix_of(x)
        if self.axis is None:
            # SciPy's sum of all elements would sort and merge the entries of the argument in place.
            total = matrix.data[: matrix.indptr[-1]].sum(dtype=x.dtype)
        else:
            total = matrix.sum(self.axis, dtype=x.dtype)
        outputs[0][0] = np.asarray(total, dtype=x.dtype).reshape(() if self.axis is None else -1)

    def grad(self, inputs, gout):
        (x,) = inputs
        (gz,) = gout
        if x.dtype in DISCRETE:
            return [zero_gradient(x)]
        if self.structured:
            ones = sp_ones_like(x)
            if self.axis is None:
                return [ones * gz]
            return [col_scale(ones, gz) if self.axis == 0 else row_scale(ones, gz)]
        if self.axis == 1:
            gz = gz.dimshuffle(0, "x")
        return [SparseFromDense(x.format)(alloc(gz, x.shape[0], x.shape[1]))]

    def infer_shape(self, node, shapes):
        rows, columns = shapes[0]
        return [() if self.axis is None else (columns,) if self.axis == 0 else (rows,)]


def sp_sum(x, axis=None, sparse_grad=False):
    """Return the sum of a sparse matrix along an axis, as a dense tensor.

    Parameters
    ----------
    x : SparseVariable
        A matrix in format csr or csc.
    axis : {None, 0, 1}
        The axis. None: the sum of all elements.
    sparse_grad : bool
        If True, the gradient is structured. If False, it is regular, and has an entry for every element. In both cases
        the gradient is a sparse matrix in the format of `x`.

    Examples
    --------
    >>> from theano_ng import sparse
    >>> x = sparse.csr_matrix("x")
    >>> sparse.sp_sum(x, axis=0).eval({x: [[1.0, 2.0], [0.0, 3.0]]})
    array([1., 5.])
    """
    return SpSum(axis, sparse_grad)(x)


class _Scale(Op):
    """A base class of Ops that multiply the rows or columns of a csc matrix by the elements of a vector.

    The gradient is structured.
    """

    __props__ = ()
    axis = None

    def make_node(self, x, s):
        x = as_sparse_variable(x)
        if x.format != "csc":
            raise ValueError("x was not a csc matrix: %s is of type %s" % (x, x.type))
        s = as_tensor_variable(s)
        if s.ndim != 1:
            raise TypeError("%s: the factors must be a vector, not %s" % (self, s.type))
        if not np.can_cast(s.dtype, x.dtype, "same_kind"):
            raise TypeError(
                "%s: the result has the dtype of the matrix, %s, which cannot contain products with factors of dtype %s; "
                "cast the matrix first" % (self, x.dtype, s.dtype)
            )
        return Apply(self, [x, s], [x.type()])

    def _check(self, x, s):
        if len(s) != x.shape[self.axis]:
            raise ValueError(
                "%s: a matrix of shape %s has %d %s, but there are %d factors"
                % (self, x.shape, x.shape[self.axis], "columns" if self.axis == 1 else "rows", len(s))
            )

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[0]]


class ColScaleCSC(_Scale):
    """An Op that multiplies each column of a csc matrix by an element of a vector; see `col_scale`.

    The gradient is structured.
    """

    axis = 1

    def perform(self, node, inputs, outputs):
        x, s = inputs
        self._check(x, s)
        data = (x.data[: x.indptr[-1]] * np.repeat(s, np.diff(x.indptr))).astype(x.dtype, copy=False)
        outputs[0][0] = rebuilt("csc", data, x.indices[: x.indptr[-1]].copy(), x.indptr.copy(), x.shape)

    def grad(self, inputs, gout):
        return _scale_gradients(col_scale, inputs, gout, 0)


class RowScaleCSC(_Scale):
    """An Op that multiplies each row of a csc matrix by an element of a vector; see `row_scale`.

    The gradient is structured.
    """

    axis = 0
    view_map = {0: [0]}  # the result shares the indices of the input

    def perform(self, node, inputs, outputs):
        x, s = inputs
        self._check(x, s)
        indices = x.indices[: x.indptr[-1]]
        data = (x.data[: x.indptr[-1]] * s[indices]).astype(x.dtype, copy=False)
        outputs[0][0] = rebuilt("csc", data, indices, x.indptr, x.shape)

    def grad(self, inputs, gout):
        return _scale_gradients(row_scale, inputs, gout, 1)


def _scale_gradients(scale, inputs, gout, summed):
    x, s = inputs
    (gz,) = gout
    if not isinstance(gz.type, SparseType):
        gz = SparseFromDense(x.format)(gz)
    gx = zero_gradient(x) if x.dtype in DISCRETE else in_type_of(x, scale(gz, conj_if_complex(s)))
    if s.dtype in DISCRETE:
        return [gx, zero_gradient(s)]
    gs = sp_sum(conj_if_complex(x) * gz, axis=summed, sparse_grad=True)
    if gs.dtype.startswith("complex") and not s.dtype.startswith("complex"):
        gs = gs.real
    return [gx, with_pattern(gs.astype(s.dtype), s)]


def col_scale(x, s):
    """Multiply each column of a sparse matrix by an element of a vector. The gradient is structured.

    Parameters
    ----------
    x : SparseVariable
        A matrix in format csr or csc.
    s : vector
        The factors, one for each column of `x`.

    Returns
    -------
    SparseVariable
        A variable of the type of `x`.
    """
    x = compressed(x, ColScaleCSC())
    return ColScaleCSC()(x, s) if x.format == "csc" else transpose(RowScaleCSC()(transpose(x), s))


def row_scale(x, s):
    """Multiply each row of a sparse matrix by an element of a vector. For details see `col_scale`."""
    return transpose(col_scale(transpose(x), s))
