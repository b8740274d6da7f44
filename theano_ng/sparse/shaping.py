"""Ops that transpose and stack sparse matrices, and Ops on diagonals and on the storage of entries."""

import numpy as np
import scipy.sparse

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.sparse.common import compressed, in_type_of, zero_gradient
from theano_ng.sparse.indexing import get_item_2d
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import copy_if_shared, matrix_of, rebuilt
from theano_ng.sparse.var import as_sparse_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import minimum
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.type import TensorType

__all__ = [
    "Diag",
    "EnsureSortedIndices",
    "HStack",
    "Remove0",
    "SquareDiagonal",
    "Transpose",
    "VStack",
    "clean",
    "diag",
    "ensure_sorted_indices",
    "hstack",
    "remove0",
    "square_diagonal",
    "transpose",
    "vstack",
]

_TRANSPOSED = {"csr": "csc", "csc": "csr"}


class Transpose(Op):
    """An Op that returns the transpose as a view: csr becomes csc, and csc becomes csr. The gradient is regular."""

    __props__ = ()
    view_map = {0: [0]}
    format_map = _TRANSPOSED

    def __str__(self):
        return "Sparse" + type(self).__name__

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [SparseType(format=_TRANSPOSED[x.format], dtype=x.dtype)()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        outputs[0][0] = rebuilt(_TRANSPOSED[x.format], x.data, x.indices, x.indptr, x.shape[::-1])

    def grad(self, inputs, gout):
        (x,) = inputs
        (gz,) = gout
        return [in_type_of(x, transpose(gz) if isinstance(gz.type, SparseType) else gz.T)]

    def infer_shape(self, node, shapes):
        return [shapes[0][::-1]]


transpose = Transpose()


class HStack(Op):
    """An Op that stacks matrices horizontally. The gradient is regular.

    Parameters
    ----------
    format : {'csr', 'csc', 'bsr'}, optional
        The format of the result. Default: csc.
    dtype : str
        The dtype of the result.
    """

    __props__ = ("format", "dtype")
    axis = 1

    def __init__(self, format=None, dtype=None):
        if dtype is None:
            raise ValueError("The output dtype must be specified.")
        self.format = "csc" if format is None else format
        self.dtype = dtype

    def __str__(self):
        return "%s(%s,%s)" % (type(self).__name__, self.format, self.dtype)

    def make_node(self, *mat):
        if not mat:
            raise ValueError("%s: cannot stack an empty list of matrices" % self)
        return Apply(self, [compressed(x, self) for x in mat], [SparseType(dtype=self.dtype, format=self.format)()])

    def perform(self, node, block, outputs):
        for matrix in block:
            if matrix.shape[1 - self.axis] != block[0].shape[1 - self.axis]:
                raise ValueError(
                    "%s: the matrices have different numbers of %s; the shapes are %s"
                    % (self, "columns" if self.axis == 0 else "rows", ", ".join(str(m.shape) for m in block))
                )
        stack = scipy.sparse.hstack if self.axis == 1 else scipy.sparse.vstack
        result = matrix_of(stack([matrix_of(m) for m in block], format=self.format, dtype=self.dtype))
        if result.dtype != self.dtype:
            result = result.astype(self.dtype)
        outputs[0][0] = copy_if_shared(result, *block)

    def grad(self, inputs, gout):
        (gz,) = gout
        gradients, start = [], 0
        for x in inputs:
            stop = start + x.shape[self.axis]
            part = slice(start, stop)
            start = stop
            if x.dtype in DISCRETE:
                gradients.append(zero_gradient(x))
                continue
            index = (slice(None), part) if self.axis == 1 else (part, slice(None))
            gradients.append(in_type_of(x, get_item_2d(gz, index) if isinstance(gz.type, SparseType) else gz[index]))
        return gradients

    def infer_shape(self, node, ins_shapes):
        shape = list(ins_shapes[0])
        for other in ins_shapes[1:]:
            shape[self.axis] = shape[self.axis] + other[self.axis]
        return [tuple(shape)]


class VStack(HStack):
    """An Op that stacks matrices vertically. The gradient is regular. For the parameters, see `HStack`."""

    axis = 0


def _stack(op, blocks, format, dtype):
    blocks = [as_sparse_variable(block) for block in blocks]
    if not blocks:
        raise ValueError("%s: cannot stack an empty list of matrices" % op.__name__.lower())
    if dtype is None:
        dtype = upcast(*[block.dtype for block in blocks])
    return op(format=format, dtype=dtype)(*blocks)


def hstack(blocks, format=None, dtype=None):
    """Stack sparse matrices horizontally. The gradient is regular.

    Parameters
    ----------
    blocks : list of SparseVariable
        The matrices, in format csr or csc, with the same number of rows.
    format : {'csr', 'csc', 'bsr'}, optional
        The format of the result. Default: csc.
    dtype : str, optional
        The dtype of the result. Default: the upcast of the matrices' dtypes.
    """
    return _stack(HStack, blocks, format, dtype)


def vstack(blocks, format=None, dtype=None):
    """Stack sparse matrices with the same number of columns vertically; see `hstack`."""
    return _stack(VStack, blocks, format, dtype)


class Diag(Op):
    """An Op that returns the main diagonal of a square sparse matrix as a vector. The gradient is regular."""

    __props__ = ()

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [TensorType(x.dtype, (False,))()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        rows, columns = x.shape
        if rows != columns:
            raise ValueError("Diag only apply on square matrix, not on one of shape %s" % (x.shape,))
        outputs[0][0] = np.array(x.diagonal(), dtype=x.dtype) if rows else np.zeros(0, dtype=x.dtype)

    def grad(self, inputs, gout):
        return [in_type_of(inputs[0], square_diagonal(gout[0]))]

    def infer_shape(self, nodes, shapes):
        return [(minimum(*shapes[0]),)]


diag = Diag()


class SquareDiagonal(Op):
    """An Op that returns a square sparse matrix in format csc with a vector as diagonal. The gradient is regular."""

    __props__ = ()

    def make_node(self, diag):
        diag = as_tensor_variable(diag)
        if diag.type.ndim != 1:
            raise TypeError("data argument must be a vector", diag.type)
        return Apply(self, [diag], [SparseType(dtype=diag.dtype, format="csc")()])

    def perform(self, node, inputs, outputs):
        (d,) = inputs
        n = len(d)
        places = np.arange(n + 1, dtype="int32")
        outputs[0][0] = rebuilt("csc", np.array(d, copy=True), places[:n], places, (n, n))

    def grad(self, inputs, gout):
        (d,) = inputs
        if d.dtype in DISCRETE:
            return [zero_gradient(d)]
        (gz,) = gout
        return [with_pattern(diag(gz) if isinstance(gz.type, SparseType) else gz.diagonal(), d)]

    def infer_shape(self, nodes, shapes):
        return [(shapes[0][0], shapes[0][0])]


square_diagonal = SquareDiagonal()


class EnsureSortedIndices(Op):
    """An Op that sorts the indices of each row (csr) or column (csc) of a matrix. The gradient is regular.

    Parameters
    ----------
    inplace : bool
        If True, the entries of the input are sorted in place. Otherwise a copy is sorted.
    """

    __props__ = ("inplace",)

    def __init__(self, inplace):
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [0]}

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, "inplace" if self.inplace else "no_inplace")

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        x = matrix_of(inputs[0])
        if not self.inplace:
            x = x.copy()
        # SciPy caches whether indices are sorted. Reset this flag, because it may be out of date.
        x.has_sorted_indices = False
        x.sort_indices()
        outputs[0][0] = inputs[0] if self.inplace else x

    def grad(self, inputs, output_grad):
        return [in_type_of(inputs[0], output_grad[0])]

    def infer_shape(self, node, i0_shapes):
        return i0_shapes


ensure_sorted_indices = EnsureSortedIndices(inplace=False)


class Remove0(Op):
    """An Op that removes entries with the value zero from a sparse matrix. The gradient is regular.

    Parameters
    ----------
    inplace : bool
        If True, entries are removed from the input in place. Otherwise they are removed from a copy.
    """

    __props__ = ("inplace",)

    def __init__(self, inplace=False):
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [0]}

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, "inplace" if self.inplace else "")

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        result = x if self.inplace else matrix_of(x).copy()
        result.eliminate_zeros()
        outputs[0][0] = result

    def grad(self, inputs, gout):
        return [in_type_of(inputs[0], gout[0])]

    def infer_shape(self, node, i0_shapes):
        return i0_shapes


remove0 = Remove0()


def clean(x):
    """Return the matrix without entries that are zero, and with sorted indices. The gradient is regular.

    In this package, indices need not be sorted. Use this function if sorted indices are required, for instance by
    another library to which the matrix is passed.

    Parameters
    ----------
    x : SparseVariable
    """
    return ensure_sorted_indices(remove0(x))
