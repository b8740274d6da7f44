"""Indexing of sparse matrices: elements, rows and blocks."""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.type import generic
from theano_ng.sparse.common import compressed, in_type_of, zero_gradient
from theano_ng.sparse.conversion import SparseFromDense
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import CLASSES, copy_if_shared, matrix_of
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.indexing.index_lists import slice_length
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.shaping.joining import stack
from theano_ng.tensor.type import TensorType

__all__ = [
    "GetItem2Lists",
    "GetItem2ListsGrad",
    "GetItem2d",
    "GetItem2dGrad",
    "GetItemList",
    "GetItemListGrad",
    "GetItemScalar",
    "get_item_2d",
    "get_item_2lists",
    "get_item_2lists_grad",
    "get_item_list",
    "get_item_list_grad",
    "get_item_scalar",
    "index_sparse",
]

_NO_VECTORS = "Theano has no sparse vector. Use X[a:b, c:d], X[a:b, c:c+1] or X[a:b] instead."
_NONE = Constant(generic, None)


def _positions(op, which, index):
    """Convert an index to a variable, and check that it is a vector of integers."""
    index = as_tensor_variable(index)
    if index.ndim != 1 or index.dtype not in INTEGERS:
        raise TypeError("%s: the %s must be a vector of integers, not %s" % (op, which, index.type))
    return index


def _checked(which, positions, length):
    """Convert negative positions to nonnegative positions. Raise IndexError for positions out of range."""
    if len(positions) and (positions.max() >= length or positions.min() < -length):
        worst = positions.max() if positions.max() >= length else positions.min()
        raise IndexError("%s index (%d) out of range for a length of %d" % (which, worst, length))
    positions = positions.astype("int64")
    return np.where(positions < 0, positions + length, positions)


def _continuous(op, x, gz):
    """Convert the gradient with respect to an output to a sparse variable, if it is dense."""
    return gz if isinstance(gz.type, SparseType) else SparseFromDense(x.format)(gz)


class GetItemList(Op):
    """An Op that selects rows of a sparse matrix by a vector of integers. The gradient is regular.

    The result has the format of the matrix.
    """

    __props__ = ()

    def make_node(self, x, index):
        x = compressed(x, self)
        return Apply(self, [x, _positions(self, "rows", index)], [x.type()])

    def perform(self, node, inp, outputs):
        x, index = inp
        rows = _checked("row", index, x.shape[0])
        outputs[0][0] = copy_if_shared(matrix_of(x)[rows].asformat(x.format), x)

    def grad(self, inputs, g_outputs):
        x, index = inputs
        if x.dtype in DISCRETE:
            return [zero_gradient(x), DisconnectedType()()]
        gx = get_item_list_grad(x, index, _continuous(self, x, g_outputs[0]))
        return [in_type_of(x, gx), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes):
        return [(shapes[1][0], shapes[0][1])]


get_item_list = GetItemList()


class GetItemListGrad(Op):
    """The gradient Op of `GetItemList`. The result is a sparse matrix of the shape of `x`.

    The inputs are `x`, the vector `index`, and the gradient `gz` with respect to the selected rows. The rows of `gz`
    are added to the rows `index` of the result. All other rows are zero.
    """

    __props__ = ()

    def make_node(self, x, index, gz):
        x, gz = compressed(x, self), compressed(gz, self)
        return Apply(self, [x, _positions(self, "rows", index), gz], [SparseType(format=x.format, dtype=gz.dtype)()])

    def perform(self, node, inp, outputs):
        x, index, gz = inp
        rows = _checked("row", index, x.shape[0])
        if gz.shape != (len(rows), x.shape[1]):
            raise ValueError(
                "%s: the gradient has the shape %s, expected %s" % (self, gz.shape, (len(rows), x.shape[1]))
            )
        entries = matrix_of(gz).tocoo()
        outputs[0][0] = _scattered(entries.data, rows[entries.row], entries.col, x)

    def grad(self, inputs, g_outputs):
        x, index, gz = inputs
        return [
            zero_gradient(x),
            DisconnectedType()(),
            in_type_of(gz, get_item_list(_continuous(self, x, g_outputs[0]), index)),
        ]

    def connection_pattern(self, node):
        return [[True], [False], [True]]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


get_item_list_grad = GetItemListGrad()


def _scattered(data, rows, columns, x):
    """Return a matrix with the shape and format of `x` from entries. Entries with the same position are added up."""
    result = CLASSES[x.format]((data, (rows, columns)), shape=x.shape)
    return result if result.dtype == data.dtype else result.astype(data.dtype)


class GetItem2Lists(Op):
    """An Op that selects elements of a sparse matrix by two vectors of integers. The gradient is regular.

    The result is a vector.
    """

    __props__ = ()

    def make_node(self, x, ind1, ind2):
        x = compressed(x, self)
        inputs = [x, _positions(self, "rows", ind1), _positions(self, "columns", ind2)]
        return Apply(self, inputs, [TensorType(x.dtype, (False,))()])

    def perform(self, node, inp, outputs):
        x, rows, columns = inp
        if len(rows) != len(columns):
            raise ValueError("%s: %d rows and %d columns cannot be paired" % (self, len(rows), len(columns)))
        rows, columns = _checked("row", rows, x.shape[0]), _checked("column", columns, x.shape[1])
        outputs[0][0] = np.array(matrix_of(x)[rows, columns], dtype=x.dtype).reshape(-1)

    def grad(self, inputs, g_outputs):
        x, ind1, ind2 = inputs
        if x.dtype in DISCRETE:
            return [zero_gradient(x), DisconnectedType()(), DisconnectedType()()]
        return [get_item_2lists_grad(x, ind1, ind2, g_outputs[0]), DisconnectedType()(), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False], [False]]

    def infer_shape(self, node, shapes):
        return [shapes[1]]


get_item_2lists = GetItem2Lists()


class GetItem2ListsGrad(Op):
    """The gradient Op of `GetItem2Lists`. The result is a sparse matrix of the shape of `x`.

    The inputs are `x`, two vectors of indices, and the gradient `gz` with respect to the selected elements. The
    elements of `gz` are added to the indexed elements of the result. All other elements are zero.
    """

    __props__ = ()

    def make_node(self, x, ind1, ind2, gz):
        x, gz = compressed(x, self), as_tensor_variable(gz)
        if gz.ndim != 1:
            raise TypeError("%s: the gradient must be a vector, not %s" % (self, gz.type))
        inputs = [x, _positions(self, "rows", ind1), _positions(self, "columns", ind2), gz]
        return Apply(self, inputs, [SparseType(format=x.format, dtype=gz.dtype)()])

    def perform(self, node, inp, outputs):
        x, rows, columns, gz = inp
        if not len(rows) == len(columns) == len(gz):
            raise ValueError(
                "%s: the numbers of rows, columns and elements must be equal; got %d, %d and %d"
                % (self, len(rows), len(columns), len(gz))
            )
        rows, columns = _checked("row", rows, x.shape[0]), _checked("column", columns, x.shape[1])
        outputs[0][0] = _scattered(gz, rows, columns, x)

    def grad(self, inputs, g_outputs):
        x, ind1, ind2, gz = inputs
        gradient = get_item_2lists(_continuous(self, x, g_outputs[0]), ind1, ind2)
        return [zero_gradient(x), DisconnectedType()(), DisconnectedType()(), with_pattern(gradient, gz)]

    def connection_pattern(self, node):
        return [[True], [False], [False], [True]]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


get_item_2lists_grad = GetItem2ListsGrad()


# ---------------------------------------------------------------------------


def _bound(op, bound, which):
    """Return a variable for one of the three fields of a slice. None becomes a constant."""
    if bound is None:
        return _NONE
    if isinstance(bound, Constant) and bound.data is None:
        return bound
    variable = as_tensor_variable(bound)
    if variable.ndim != 0 or variable.dtype not in INTEGERS:
        raise ValueError(
            "Impossible to index into a sparse matrix with slice where %s=%s" % (which, bound),
            variable.ndim,
            variable.dtype,
        )
    if which == "step" and isinstance(variable, Constant) and variable.data == 0:
        raise ValueError("Impossible to index into a sparse matrix with slice where step=0")
    return variable


def _bound_of(variable):
    """Convert a variable to a field of a slice: the constant None becomes None. Other variables are unchanged."""
    return None if isinstance(variable, Constant) and variable.data is None else variable


def _slices(bounds):
    """Return the slices of rows and of columns. `bounds` contains their six fields."""
    numbers = [None if bound is None else int(bound) for bound in bounds]
    return slice(*numbers[:3]), slice(*numbers[3:])


class GetItem2d(Op):
    """An Op that selects a block of a sparse matrix by slices. The gradient is regular.

    The result has the format of the matrix.
    """

    __props__ = ()

    def make_node(self, x, index, *bounds):
        x = compressed(x, self)
        if bounds:
            # The arguments are the inputs of an existing node: six slice fields.
            index = tuple(slice(*[_bound_of(b) for b in (index, *bounds)[i : i + 3]]) for i in (0, 3))
        if not isinstance(index, tuple):
            index = (index,)
        if len(index) > 2:
            raise ValueError("%s: a sparse matrix has two dimensions, but got %d indices" % (self, len(index)))
        inputs = [x]
        for one in (*index, *[slice(None)] * (2 - len(index))):
            if isinstance(one, slice):
                for which in ("start", "stop", "step"):
                    inputs.append(_bound(self, getattr(one, which), which))
            elif isinstance(one, (int, np.integer)) or (isinstance(one, Variable) and getattr(one, "ndim", None) == 0):
                raise NotImplementedError(_NO_VECTORS)
            else:
                raise ValueError(
                    "Advanced indexing is not implemented for sparse matrices. Argument not supported: %s" % (one,)
                )
        return Apply(self, inputs, [x.type()])

    def perform(self, node, inputs, outputs):
        x, *bounds = inputs
        outputs[0][0] = copy_if_shared(matrix_of(x)[_slices(bounds)].asformat(x.format), x)

    def grad(self, inputs, g_outputs):
        x, *bounds = inputs
        rest = [DisconnectedType()() for _ in bounds]
        if x.dtype in DISCRETE:
            return [zero_gradient(x), *rest]
        return [GetItem2dGrad()(x, _continuous(self, x, g_outputs[0]), *bounds), *rest]

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def infer_shape(self, node, shapes):
        bounds = [_bound_of(b) for b in node.inputs[1:]]
        return [tuple(slice_length(slice(*bounds[3 * i : 3 * i + 3]), shapes[0][i]) for i in range(2))]


get_item_2d = GetItem2d()


class GetItem2dGrad(Op):
    """The gradient Op of `GetItem2d`. The result is a sparse matrix of the shape of `x`.

    The inputs are `x`, the gradient `gz` with respect to the block, and the six fields of the two slices that select
    the block. In the result, the block is `gz`, and all other elements are zero.
    """

    __props__ = ()

    def make_node(self, x, gz, *bounds):
        x, gz = compressed(x, self), compressed(gz, self)
        return Apply(self, [x, gz, *bounds], [SparseType(format=x.format, dtype=gz.dtype)()])

    def perform(self, node, inputs, outputs):
        x, gz, *bounds = inputs
        rows, columns = (np.arange(n)[part] for n, part in zip(x.shape, _slices(bounds)))
        if gz.shape != (len(rows), len(columns)):
            raise ValueError(
                "%s: the gradient has the shape %s, expected %s" % (self, gz.shape, (len(rows), len(columns)))
            )
        entries = matrix_of(gz).tocoo()
        outputs[0][0] = _scattered(entries.data, rows[entries.row], columns[entries.col], x)

    def grad(self, inputs, g_outputs):
        x, gz, *bounds = inputs
        index = tuple(slice(*[_bound_of(b) for b in bounds[i : i + 3]]) for i in (0, 3))
        gradient = in_type_of(gz, get_item_2d(_continuous(self, x, g_outputs[0]), index))
        return [zero_gradient(x), gradient, *[DisconnectedType()() for _ in bounds]]

    def connection_pattern(self, node):
        return [[i < 2] for i in range(len(node.inputs))]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


class GetItemScalar(Op):
    """An Op that selects an element of a sparse matrix, as a 0-d tensor. The gradient is regular."""

    __props__ = ()

    def make_node(self, x, index, *more):
        x = compressed(x, self)
        if more:
            index = (index, *more)  # the arguments are the inputs of an existing node
        if len(index) != 2:
            raise ValueError("%s: an element needs two indices, got %d" % (self, len(index)))
        inputs = [x]
        for one in index:
            if isinstance(one, slice):
                raise NotImplementedError("%s takes two integers, not a slice" % self)
            variable = as_tensor_variable(one)
            if variable.ndim != 0 or variable.dtype not in INTEGERS:
                raise NotImplementedError("%s takes two integers, not %s" % (self, variable.type))
            inputs.append(variable)
        return Apply(self, inputs, [TensorType(x.dtype, ())()])

    def perform(self, node, inputs, outputs):
        x, row, column = inputs
        for which, position, length in (("row", row, x.shape[0]), ("column", column, x.shape[1])):
            if not -length <= position < length:
                raise IndexError("%s index (%d) out of range for a length of %d" % (which, position, length))
        outputs[0][0] = np.asarray(matrix_of(x)[int(row), int(column)], dtype=x.dtype)

    def grad(self, inputs, g_outputs):
        x, row, column = inputs
        rest = [DisconnectedType()(), DisconnectedType()()]
        if x.dtype in DISCRETE:
            return [zero_gradient(x), *rest]
        return [get_item_2lists_grad(x, stack([row]), stack([column]), g_outputs[0].dimshuffle("x")), *rest]

    def connection_pattern(self, node):
        return [[True], [False], [False]]

    def infer_shape(self, node, shapes):
        return [()]


get_item_scalar = GetItemScalar()


def _kind(index):
    """Return the kind of an index: 'slice', 'number' or 'list'. Return None for other objects."""
    if isinstance(index, slice):
        return "slice"
    if isinstance(index, (bool, np.bool_)):
        return "number"
    if isinstance(index, (int, np.integer)):
        return "number"
    if isinstance(index, list):
        return "list"
    dtype, ndim = getattr(index, "dtype", None), getattr(index, "ndim", None)
    if dtype is not None and str(dtype) in INTEGERS and ndim in (0, 1):
        return "number" if ndim == 0 else "list"
    return None


def index_sparse(x, index):
    """Return ``x[index]`` for a sparse matrix.

    Parameters
    ----------
    x : SparseVariable
    index : int, slice, list or integer vector, or a pair of them
        Two integers select an element, as a 0-d tensor. Two lists select a vector of elements. One list selects rows,
        and slices select a block.

    Raises
    ------
    NotImplementedError
        For a single integer, and for an integer and a slice, because sparse vectors do not exist.
    ValueError, IndexError
        If `index` is not a valid index of a matrix.
    """
    index = index if isinstance(index, tuple) else (index,)
    if not 1 <= len(index) <= 2:
        raise IndexError(
            "a sparse matrix is indexed by one or two slices, integers or lists, got %d indices" % len(index)
        )
    kinds = [_kind(one) for one in index]
    for one, kind in zip(index, kinds):
        if kind is None:
            raise ValueError(
                "Advanced indexing is not implemented for sparse matrices. Argument not supported: %s" % (one,)
            )
    if kinds == ["number", "number"]:
        return get_item_scalar(x, index)
    if kinds == ["list", "list"]:
        return get_item_2lists(x, *index)
    if kinds == ["list"]:
        return get_item_list(x, *index)
    if kinds == ["list", "slice"] and index[1] == slice(None):
        return get_item_list(x, index[0])
    return get_item_2d(x, index)
