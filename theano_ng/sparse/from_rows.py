"""The construction of a sparse matrix from some of its rows."""

import numpy as np

from theano_ng.compile.ops import shape
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.sparse.conversion import dense_from_sparse
from theano_ng.sparse.indexing import get_item_list
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import rebuilt
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.shaping.broadcasting import with_pattern

__all__ = ["ConstructSparseFromList", "construct_sparse_from_list", "sparse_from_rows"]


class ConstructSparseFromList(Op):
    """An Op that makes a sparse matrix, in format csc, from some of its rows. The gradient is regular.

    Inputs
    ------
    x : matrix, or vector of integers
        A matrix with the shape of the result, or this shape itself. The elements of a matrix are not used.
    values : matrix
        The rows. Rows with the same position are added up.
    ilist : vector of integers
        The positions of the rows.
    """

    __props__ = ()

    def make_node(self, x, values, ilist):
        x, values, ilist = (as_tensor_variable(v) for v in (x, values, ilist))
        if x.ndim == 1 and x.dtype in INTEGERS:
            lengths = x  # x is the shape itself
        elif x.ndim == 2:
            lengths = shape(x)
        else:
            raise TypeError("cannot create a sparse matrix with %d dimensions" % x.ndim)
        if values.ndim != 2:
            raise TypeError("cannot create a sparse matrix from values with %d ndim" % values.ndim)
        if ilist.dtype not in INTEGERS:
            raise TypeError("index must be integers")
        if ilist.ndim != 1:
            raise TypeError("index must be vector")
        return Apply(self, [lengths, values, ilist], [SparseType(format="csc", dtype=values.dtype)()])

    def perform(self, node, inp, out_):
        lengths, values, places = inp
        if len(lengths) != 2:
            raise ValueError("%s: the shape of a matrix must have two lengths, not %d" % (self, len(lengths)))
        rows, columns = (int(n) for n in lengths)
        if values.shape != (len(places), columns):
            raise ValueError(
                "%s: %d row numbers and %d columns need values of shape %s, not %s"
                % (self, len(places), columns, (len(places), columns), values.shape)
            )
        if len(places) and not (-rows <= places.min() and places.max() < rows):
            raise IndexError(
                "%s: row numbers go from %d to %d, but the matrix has %d rows"
                % (self, places.min(), places.max(), rows)
            )
        at = np.where(places < 0, places.astype("int64") + rows, places).astype("int64")
        indices = np.tile(np.arange(columns, dtype="int32"), len(at))
        order = np.argsort(at, kind="stable")
        counts = np.bincount(at, minlength=rows)
        indptr = np.concatenate([[0], np.cumsum(counts) * columns])
        by_rows = rebuilt("csr", np.ascontiguousarray(values[order]).reshape(-1), indices, indptr, (rows, columns))
        result = by_rows.tocsc()
        result.sum_duplicates()
        out_[0][0] = result

    def infer_shape(self, node, ishapes):
        lengths = node.inputs[0]
        return [(lengths[0], lengths[1])]

    def connection_pattern(self, node):
        return [[False], [True], [False]]

    def grad(self, inputs, grads):
        _, values, places = inputs
        (gz,) = grads
        if values.dtype in DISCRETE:
            gradient = values.zeros_like(dtype=config.floatX)
        elif isinstance(gz.type, SparseType):
            gradient = dense_from_sparse(get_item_list(gz, places))
        else:
            gradient = gz[places]
        return [DisconnectedType()(), with_pattern(gradient, values), DisconnectedType()()]

    def R_op(self, inputs, eval_points):
        lengths, _, places = inputs
        if eval_points[1] is None:
            return [None]
        return self(lengths, eval_points[1], places, return_list=True)


construct_sparse_from_list = ConstructSparseFromList()


def sparse_from_rows(x, rows, positions):
    """Return a sparse matrix with the shape of `x`, the given rows at the given positions, and zeros elsewhere.

    If `rows` is the gradient with respect to ``x[positions]``, the result is the gradient with respect to `x`.

    Parameters
    ----------
    x : TensorVariable
        A matrix with the shape of the result.
    rows : TensorVariable
        A matrix of the rows.
    positions : TensorVariable
        A vector of integers, the positions of the rows.
    """
    return construct_sparse_from_list(x, rows, positions)
