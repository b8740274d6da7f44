"""Conversions between sparse matrices, their parts and dense matrices, and to other dtypes and formats."""

import warnings

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import CLASSES, check_pattern, copy_if_shared, matrix_of, rebuilt
from theano_ng.sparse.var import as_sparse_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.elemwise.functions import cast as tensor_cast
from theano_ng.tensor.shaping.broadcasting import patternbroadcast, with_pattern
from theano_ng.tensor.shaping.creation import ones_like, zeros
from theano_ng.tensor.type import TensorType

__all__ = [
    "AsFormat",
    "CSC",
    "CSM",
    "CSMGrad",
    "CSMProperties",
    "CSR",
    "Cast",
    "DenseFromSparse",
    "SparseFromDense",
    "as_format",
    "bcast",
    "cast",
    "ccast",
    "csc_from_dense",
    "csm_data",
    "csm_grad",
    "csm_indices",
    "csm_indptr",
    "csm_properties",
    "csm_shape",
    "csr_from_dense",
    "dcast",
    "dense_from_sparse",
    "fcast",
    "icast",
    "lcast",
    "sp_ones_like",
    "sp_zeros_like",
    "wcast",
    "zcast",
]

_INDICES = TensorType("int32", (False,))


def as_int32(what, array):
    """Convert a vector of indices to int32, the dtype of indices in all Ops on the parts of sparse matrices.

    Raises
    ------
    ValueError
        If an index is too large for int32.
    """
    if array.dtype == np.int32:
        return array
    if array.size and (array.max() > np.iinfo("int32").max or array.min() < np.iinfo("int32").min):
        raise ValueError("%s of a sparse matrix are too large for int32: up to %s" % (what, array.max()))
    return array.astype("int32")


class CSMProperties(Op):
    """An Op that returns the parts of a sparse matrix: data, indices, indptr and shape. The gradient is regular.

    Parameters
    ----------
    kmap : None
        A removed feature of older versions. It must be None.
    """

    __props__ = ()
    view_map = {0: [0], 1: [0], 2: [0]}

    def __init__(self, kmap=None):
        _refuse_kmap(kmap)

    def make_node(self, csm):
        csm = as_sparse_variable(csm)
        if csm.format not in ("csr", "csc"):
            raise TypeError("%s: expected a sparse matrix in format csr or csc, got %s" % (self, csm.type))
        return Apply(self, [csm], [TensorType(csm.dtype, (False,))(), _INDICES(), _INDICES(), _INDICES()])

    def perform(self, node, inputs, out):
        (csm,) = inputs
        entries = int(csm.indptr[-1])
        # Leave out elements of data and indices after the last entry, which are not part of the matrix.
        out[0][0] = csm.data[:entries]
        out[1][0] = as_int32("indices", csm.indices[:entries])
        out[2][0] = as_int32("indptr", csm.indptr)
        out[3][0] = as_int32("lengths", np.asarray(csm.shape))

    def grad(self, inputs, g):
        (csm,) = inputs
        if csm.dtype in DISCRETE:
            return [sp_zeros_like(csm, config.floatX)]
        if isinstance(g[0].type, DisconnectedType):
            return [sp_zeros_like(csm)]
        _, indices, indptr, shape = csm_properties(csm)
        return [CSM(csm.format)(g[0], indices, indptr, shape)]

    def infer_shape(self, node, shapes):
        rows, columns = shapes[0]
        major = rows if node.inputs[0].format == "csr" else columns
        # The lengths of data and indices are the number of entries, which is known at run time only.
        return [None, None, (major + 1,), (as_tensor_variable(np.int64(2)),)]


def _refuse_kmap(kmap):
    if kmap is not None:
        raise Exception("Do not use kmap, it is removed")


csm_properties = CSMProperties()


def csm_data(csm):
    """Return the data of a sparse variable: a vector of the entries.

    Parameters
    ----------
    csm : SparseVariable
    """
    return csm_properties(csm)[0]


def csm_indices(csm):
    """Return the indices of a sparse variable: the column (csr) or row (csc) of each entry, as int32."""
    return csm_properties(csm)[1]


def csm_indptr(csm):
    """Return the indptr of a sparse variable, as int32.

    It contains the start of the entries of each row (csr) or column (csc), and the end of the last row or column.
    """
    return csm_properties(csm)[2]


def csm_shape(csm):
    """Return the shape of a sparse variable, as a vector of two int32 numbers."""
    return csm_properties(csm)[3]


class CSM(Op):
    """An Op that makes a sparse matrix from its parts: the inverse of `csm_properties`.

    Only the data have a gradient. It is regular (see `theano_ng.sparse`).

    Parameters
    ----------
    format : {'csr', 'csc'}
    kmap : None
        A removed feature of older versions. It must be None.

    Examples
    --------
    >>> from theano_ng import sparse
    >>> m = sparse.CSR([7.0, 8.0, 9.0], [0, 1, 2], [0, 2, 3, 3], (3, 3))
    >>> m.eval().toarray()
    array([[7., 8., 0.],
           [0., 0., 9.],
           [0., 0., 0.]])
    """

    __props__ = ("format",)

    def __init__(self, format, kmap=None):
        if format not in ("csr", "csc"):
            raise ValueError("format must be one of: 'csr', 'csc'", format)
        _refuse_kmap(kmap)
        self.format = format

    def make_node(self, data, indices, indptr, shape):
        data = as_tensor_variable(data)
        if data.type.ndim != 1:
            raise TypeError("data argument must be a vector", data.type, data.type.ndim)
        parts = [data]
        for what, part in (("indices", indices), ("indptr", indptr), ("shape", shape)):
            part = as_tensor_variable(part if hasattr(part, "type") else _as_indices(part))
            if part.type.ndim != 1 or part.type.dtype not in INTEGERS:
                raise TypeError("%s must be vector of integers" % what, part, part.type)
            parts.append(part)
        return Apply(self, parts, [SparseType(format=self.format, dtype=data.type.dtype)()])

    def perform(self, node, inputs, outputs):
        data, indices, indptr, shape = inputs
        if len(shape) != 2:
            raise ValueError("Shape should be an array of length 2; it has %d" % len(shape))
        if data.shape != indices.shape:
            raise ValueError(
                "Data (shape %s must have the same number of elements as indices (shape%s)"
                % (data.shape, indices.shape)
            )
        if (shape < 0).any():
            raise ValueError("a sparse matrix cannot have the shape %s" % (tuple(shape),))
        parts = _Parts(self.format, data, indices, indptr, tuple(int(n) for n in shape))
        check_pattern(parts)
        entries = int(indptr[-1])
        # Copy the inputs, so that later changes to the matrix do not affect them.
        outputs[0][0] = rebuilt(
            self.format, data[:entries].copy(), indices[:entries].copy(), indptr.copy(), parts.shape
        )

    def connection_pattern(self, node):
        return [[True], [False], [False], [False]]

    def grad(self, inputs, gout):
        data, indices, indptr, shape = inputs
        gradient = as_format(gout[0], self.format) if isinstance(gout[0].type, SparseType) else gout[0]
        rest = [DisconnectedType()() for _ in range(3)]
        if data.dtype in DISCRETE:
            return [data.zeros_like(dtype=config.floatX), *rest]
        if not isinstance(gradient.type, SparseType):
            gradient = SparseFromDense(self.format)(gradient)
        gradient = CSMGrad()(data, indices, indptr, shape, *csm_properties(gradient))
        return [with_pattern(gradient, data), *rest]

    def infer_shape(self, node, shapes):
        # Inferred lengths must be int64, but `shape` may have another integer dtype.
        shape = node.inputs[3]
        return [(tensor_cast(shape[0], "int64"), tensor_cast(shape[1], "int64"))]


class _Parts:
    """An object with the attributes that `check_pattern` reads, for parts that do not form a matrix yet."""

    def __init__(self, format, data, indices, indptr, shape):
        self.format, self.data, self.indices, self.indptr, self.shape = format, data, indices, indptr, shape


def _as_indices(part):
    """Convert a list or array of integers to an array. The dtype is int32, as in `CSMProperties`, if all values fit."""
    array = np.asarray(part)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype("int32")
    if array.dtype.kind not in "iu" or (array.size and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31):
        return array
    return array.astype("int32")


CSC = CSM("csc")
CSR = CSM("csr")


class CSMGrad(Op):
    """An Op that computes the gradient of `CSM` with respect to the data.

    The inputs are the parts of the matrix x, and the parts of its gradient g in the same format. For each entry of x,
    the result has the element of g at the same position. Several entries of g at one position are added up. If several
    entries of x have one position, each of them gets this sum.

    Parameters
    ----------
    kmap : None
        A removed feature of older versions. It must be None.
    """

    __props__ = ()

    def __init__(self, kmap=None):
        _refuse_kmap(kmap)

    def make_node(self, x_data, x_indices, x_indptr, x_shape, g_data, g_indices, g_indptr, g_shape):
        inputs = [
            as_tensor_variable(v) for v in (x_data, x_indices, x_indptr, x_shape, g_data, g_indices, g_indptr, g_shape)
        ]
        return Apply(self, inputs, [TensorType(inputs[4].dtype, (False,))()])

    def perform(self, node, inputs, outputs):
        x_data, x_indices, x_indptr, x_shape, g_data, g_indices, g_indptr, g_shape = inputs
        outputs[0][0] = _sampled(x_indices, x_indptr, x_shape, g_data, g_indices, g_indptr, g_shape)

    def grad(self, inputs, gout):
        x_data, *x_pattern, g_data = inputs[:5]
        g_pattern = inputs[5:]
        # The gradient for an entry of g is the sum of the gradients of all entries of x at the same position: this is
        # `CSMGrad` with x and g exchanged.
        gradient = CSMGrad()(g_data, *g_pattern, gout[0], *x_pattern)
        return [x_data.zeros_like(), *_disconnected(3), gradient, *_disconnected(3)]

    def connection_pattern(self, node):
        return [[i in (0, 4)] for i in range(8)]

    def infer_shape(self, node, shapes):
        return [shapes[1]]


def _disconnected(count):
    return [DisconnectedType()() for _ in range(count)]


def _sampled(x_indices, x_indptr, x_shape, g_data, g_indices, g_indptr, g_shape):
    """Compute `CSMGrad` by sorting, without dense matrices."""
    if tuple(x_shape) != tuple(g_shape) or len(x_indptr) != len(g_indptr):
        raise ValueError(
            "shape mismatch: a sparse matrix of shape %s has a gradient of shape %s" % (tuple(x_shape), tuple(g_shape))
        )
    lines = len(x_indptr) - 1
    minor = int(x_shape[1] if lines == x_shape[0] else x_shape[0])
    x = _Parts("csr", x_indices, x_indices, x_indptr, (lines, minor))
    g = _Parts("csr", g_data, g_indices, g_indptr, (lines, minor))
    places = []
    for part in (x, g):
        check_pattern(part)
        line = np.repeat(np.arange(lines, dtype="int64"), np.diff(part.indptr))
        places.append(line * max(minor, 1) + part.indices[: part.indptr[-1]])
    at_x, at_g = places
    found = np.zeros(len(x_indices), dtype=g_data.dtype)
    distinct, position = np.unique(at_g, return_inverse=True)
    if len(distinct):
        sums = np.zeros(len(distinct), dtype=g_data.dtype)
        np.add.at(sums, position, g_data[: len(at_g)])
        where = np.minimum(np.searchsorted(distinct, at_x), len(distinct) - 1)
        found[: len(at_x)] = np.where(distinct[where] == at_x, sums[where], 0)
    return found


csm_grad = CSMGrad


# ---------------------------------------------------------------------------


class Cast(Op):
    """An Op that converts a sparse matrix to another dtype. The gradient is regular.

    Parameters
    ----------
    out_type : str
    """

    __props__ = ("out_type",)

    def __init__(self, out_type):
        self.out_type = out_type

    def __str__(self):
        return "%s(%s)" % (type(self).__name__, self.out_type)

    def make_node(self, x):
        x = as_sparse_variable(x)
        return Apply(self, [x], [SparseType(format=x.format, dtype=self.out_type)()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # A cast from complex to real drops the imaginary part without a warning, as for tensors.
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            outputs[0][0] = copy_if_shared(matrix_of(x).astype(self.out_type), x)

    def grad(self, inputs, outputs_gradients):
        (x,) = inputs
        (gz,) = outputs_gradients
        if x.dtype in DISCRETE:
            return [sp_zeros_like(x, config.floatX)]
        return [Cast(x.dtype)(gz) if isinstance(gz.type, SparseType) else tensor_cast(gz, x.dtype)]

    def infer_shape(self, node, ins_shapes):
        return ins_shapes


bcast = Cast("int8")
wcast = Cast("int16")
icast = Cast("int32")
lcast = Cast("int64")
fcast = Cast("float32")
dcast = Cast("float64")
ccast = Cast("complex64")
zcast = Cast("complex128")


def cast(variable, dtype):
    """Convert a sparse variable to another dtype. The gradient is regular.

    Parameters
    ----------
    variable : SparseVariable
    dtype : str

    Returns
    -------
    SparseVariable
        The result, in the same format.
    """
    return Cast(dtype)(variable)


class AsFormat(Op):
    """An Op that converts a sparse matrix to another format. The gradient is regular.

    Parameters
    ----------
    format : {'csr', 'csc', 'bsr'}
    """

    __props__ = ("format",)

    def __init__(self, format):
        if format not in CLASSES:
            raise ValueError("format must be one of: 'csr', 'csc', 'bsr'", format)
        self.format = format

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.format)

    def make_node(self, x):
        x = as_sparse_variable(x)
        return Apply(self, [x], [SparseType(format=self.format, dtype=x.dtype)()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        outputs[0][0] = copy_if_shared(matrix_of(x).asformat(self.format), x)

    def grad(self, inputs, gout):
        (x,) = inputs
        if x.dtype in DISCRETE:
            return [sp_zeros_like(x, config.floatX)]
        return [as_format(gout[0], x.format) if isinstance(gout[0].type, SparseType) else gout[0]]

    def infer_shape(self, node, shapes):
        return shapes


def as_format(x, format):
    """Convert a sparse variable to a format. Return `x` itself if it already has this format.

    Parameters
    ----------
    x : SparseVariable
    format : {'csr', 'csc', 'bsr'}
    """
    x = as_sparse_variable(x)
    return x if x.format == format else AsFormat(format)(x)


# ---------------------------------------------------------------------------


class DenseFromSparse(Op):
    """An Op that converts a sparse matrix to a dense matrix.

    Parameters
    ----------
    structured : bool
        If True, the gradient is structured: it is computed only at the positions of entries. Otherwise it is regular.
    """

    __props__ = ()

    def __init__(self, structured=True):
        self.sparse_grad = structured

    def __str__(self):
        return "%s{structured_grad=%s}" % (type(self).__name__, self.sparse_grad)

    def make_node(self, x):
        x = as_sparse_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        outputs[0][0] = x.toarray(order="C")

    def grad(self, inputs, gout):
        (x,) = inputs
        (gz,) = gout
        if x.dtype in DISCRETE:
            return [sp_zeros_like(x, config.floatX)]
        if isinstance(gz.type, SparseType):
            return [as_format(gz, x.format)]
        if self.sparse_grad and x.format != "bsr":
            return [sp_ones_like(x) * gz]
        return [SparseFromDense(x.format)(gz)]

    def infer_shape(self, node, shapes):
        return [shapes[0]]


dense_from_sparse = DenseFromSparse()


class SparseFromDense(Op):
    """An Op that converts a dense matrix to a sparse matrix of its nonzero elements. The gradient is structured.

    0-d and 1-d inputs become matrices of one row.

    Parameters
    ----------
    format : {'csr', 'csc', 'bsr'}
    """

    __props__ = ("format",)

    def __init__(self, format):
        self.format = format

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.format)

    def make_node(self, x):
        x = as_tensor_variable(x)
        if x.ndim > 2:
            raise TypeError(
                "Theano does not have sparse tensor types with more than 2 dimensions, but %s.ndim = %i" % (x, x.ndim)
            )
        return Apply(self, [x], [SparseType(format=self.format, dtype=x.dtype)()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        outputs[0][0] = CLASSES[self.format](x)

    def grad(self, inputs, gout):
        (x,) = inputs
        (gz,) = gout
        if x.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX)]
        gx = dense_from_sparse(gz) if isinstance(gz.type, SparseType) else gz
        if x.ndim < 2:
            gx = gx[0] if x.ndim == 1 else gx[0, 0]
        return [patternbroadcast(gx, x.broadcastable)]

    def infer_shape(self, node, shapes):
        one = as_tensor_variable(np.int64(1))
        return [(one,) * (2 - len(shapes[0])) + tuple(shapes[0])]


csr_from_dense = SparseFromDense("csr")
csc_from_dense = SparseFromDense("csc")


# ---------------------------------------------------------------------------


def sp_ones_like(x):
    """Return a sparse matrix of ones, with entries at the positions of the entries of `x`.

    Parameters
    ----------
    x : SparseVariable

    Returns
    -------
    SparseVariable
        A variable of the type of `x`.
    """
    data, indices, indptr, shape = csm_properties(x)
    return CSM(format=x.format)(ones_like(data), indices, indptr, shape)


def sp_zeros_like(x, dtype=None):
    """Return a sparse matrix without entries, with the shape of `x`.

    Parameters
    ----------
    x : SparseVariable
    dtype : str, optional
        The dtype of the result. Default: the dtype of `x`.

    Returns
    -------
    SparseVariable
        A matrix in the format of `x`.
    """
    dtype = dtype or x.dtype
    if x.format == "bsr":
        # csm_properties does not support bsr matrices, which have other parts. So convert a dense matrix of zeros.
        return SparseFromDense("bsr")(zeros((x.shape[0], x.shape[1]), dtype=dtype))
    _, _, indptr, shape = csm_properties(x)
    empty = np.zeros(0, dtype=dtype)
    return CSM(format=x.format)(empty, np.zeros(0, dtype="int32"), indptr.zeros_like(), shape)
