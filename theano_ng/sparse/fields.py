"""Ops on the parts of sparse matrices, with C code. Rewriting replaces Ops on whole sparse matrices by these Ops.

The inputs of these Ops include the vectors `data`, `indices` and `indptr` of a sparse matrix; see `csm_properties`.
Some Ops have an optional last input: the length of the dimension that is not compressed (the number of columns for csr,
of rows for csc). It does not follow from the vectors. If this length is given, the Op compares it with the length of
the dense operand.
"""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.scalar import upcast
from theano_ng.sparse.conversion import CSMGrad, csm_properties
from theano_ng.sparse.products import _dots_of_rows
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import check_pattern, rebuilt
from theano_ng.sparse.var import as_sparse_variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.type import TensorType

__all__ = [
    "AddSD_ccode",
    "CSMGradC",
    "MulSDCSC",
    "MulSDCSR",
    "MulSVCSR",
    "SamplingDotCSR",
    "StructuredAddSVCSR",
    "StructuredDotCSC",
    "StructuredDotCSR",
    "UsmmCscDense",
    "csm_grad_c",
    "mul_s_d_csc",
    "mul_s_d_csr",
    "mul_s_v_csr",
    "sampling_dot_csr",
    "sd_csc",
    "sd_csr",
    "structured_add_s_v_csr",
    "usmm_csc_dense",
    "usmm_csc_dense_inplace",
]

_SOURCE = "theano_ng.tensor.native.sparse:"


class _OnParts(NativeOp, Op):
    """A base class of Ops on the parts of sparse matrices.

    In the string `shapes`, each input has a letter for its rank and its kind of dtype: 'v' for a vector, 'i' for a
    vector of integers, 'm' for a matrix, and 'n' for an integer.
    """

    shapes = ""

    def _variables(self, *given):
        variables = []
        for letter, one in zip(self.shapes, given):
            one = as_tensor_variable(one)
            ndim = {"v": 1, "i": 1, "m": 2, "n": 0}[letter]
            if one.ndim != ndim or (letter in "in" and one.dtype not in INTEGERS):
                raise TypeError(
                    "%s: input %d must be a %d-d tensor%s, not %s"
                    % (self, len(variables), ndim, " of integers" if letter in "in" else "", one.type)
                )
            variables.append(one)
        return variables

    def _one_dtype(self, node):
        """Return True if the C code supports a node: all data have the same dtype, and the indices are int32."""
        dtypes = {v.dtype for v, letter in zip(node.inputs, self.shapes) if letter in "vm"}
        indices = {v.dtype for v, letter in zip(node.inputs, self.shapes) if letter == "i"}
        return len(dtypes) == 1 and dtypes <= SparseType.dtype_set and indices <= {"int32"}


def _matrix(format, data, indices, indptr, lengths):
    """Return a sparse value that is made from its parts. Raise an error if the parts are not valid.

    `lengths` contains the length of the compressed dimension, which indptr indexes, and the length of the other
    dimension.
    """
    shape = lengths if format == "csr" else lengths[::-1]
    pattern = _Unchecked(format, data, indices, indptr, shape)
    check_pattern(pattern)
    entries = int(indptr[-1])
    return rebuilt(format, data[:entries], indices[:entries], indptr, shape)


class _Unchecked:
    def __init__(self, format, data, indices, indptr, shape):
        self.format, self.data, self.indices, self.indptr, self.shape = format, data, indices, indptr, shape


def _check_length(length, given, what):
    """Raise ValueError if a length of the sparse matrix is given and differs from the length of the dense operand."""
    if given and int(given[0]) != length:
        raise ValueError(
            "shape mismatch: the sparse matrix has %d %s, but the dense operand has %d" % (int(given[0]), what, length)
        )


class StructuredDotCSR(_OnParts):
    """An Op that multiplies a csr matrix by a dense matrix.

    The inputs are data, indices, indptr, the dense matrix, and optionally the number of columns of the csr matrix.
    """

    __props__ = ()
    shapes = "viimn"

    def make_node(self, a_val, a_ind, a_ptr, b, a_ncols=None):
        given = (a_val, a_ind, a_ptr, b) if a_ncols is None else (a_val, a_ind, a_ptr, b, a_ncols)
        inputs = self._variables(*given)
        b = inputs[3]
        return Apply(self, inputs, [TensorType(upcast(inputs[0].dtype, b.dtype), (False, b.broadcastable[1]))()])

    def native_code(self, node):
        return NativeCode(_SOURCE + "csr_by_dense") if self._one_dtype(node) else None

    def perform(self, node, inputs, outputs):
        data, indices, indptr, b, *columns = inputs
        _check_length(len(b), columns, "columns")
        a = _matrix("csr", data, indices, indptr, (len(indptr) - 1, len(b)))
        outputs[0][0] = np.ascontiguousarray(a @ b, dtype=node.outputs[0].dtype)

    def infer_shape(self, node, shapes):
        return [(shapes[2][0] - 1, shapes[3][1])]


class StructuredDotCSC(_OnParts):
    """An Op that multiplies a csc matrix by a dense matrix.

    The inputs are data, indices, indptr, the number of rows of the csc matrix, and the dense matrix.
    """

    __props__ = ()
    shapes = "viinm"

    def make_node(self, a_val, a_ind, a_ptr, a_nrows, b):
        inputs = self._variables(a_val, a_ind, a_ptr, a_nrows, b)
        b = inputs[4]
        return Apply(self, inputs, [TensorType(upcast(inputs[0].dtype, b.dtype), (False, b.broadcastable[1]))()])

    def native_code(self, node):
        return NativeCode(_SOURCE + "csc_by_dense") if self._one_dtype(node) else None

    def perform(self, node, inputs, outputs):
        data, indices, indptr, rows, b = inputs
        _check_length(len(b), [len(indptr) - 1], "columns")
        a = _matrix("csc", data, indices, indptr, (len(b), int(rows)))
        outputs[0][0] = np.ascontiguousarray(a @ b, dtype=node.outputs[0].dtype)

    def infer_shape(self, node, shapes):
        return [(node.inputs[3], shapes[4][1])]


sd_csr = StructuredDotCSR()
sd_csc = StructuredDotCSC()


class UsmmCscDense(_OnParts):
    """An Op that computes ``alpha * dot(x, y) + z`` for a csc matrix x and dense matrices y and z.

    The inputs are alpha (a broadcastable matrix), then data, indices, indptr and the number of rows of x, then y and z.

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites z.
    """

    __props__ = ("inplace",)
    shapes = "mviinmm"

    def __init__(self, inplace):
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [6]}

    def __str__(self):
        return "UsmmCscDense{%s}" % ("inplace" if self.inplace else "no_inplace")

    def make_node(self, alpha, x_val, x_ind, x_ptr, x_nrows, y, z):
        inputs = self._variables(alpha, x_val, x_ind, x_ptr, x_nrows, y, z)
        alpha, data, _, _, _, y, z = inputs
        if not all(alpha.broadcastable):
            raise TypeError("%s: alpha must be a scalar, not %s" % (self, alpha.type))
        dtype = upcast(alpha.dtype, data.dtype, y.dtype, z.dtype)
        if self.inplace and z.dtype != dtype:
            raise TypeError(
                "%s: z is of %s, but the result is of %s, so that it cannot be written into z" % (self, z.dtype, dtype)
            )
        return Apply(self, inputs, [TensorType(dtype, (False, y.broadcastable[1]))()])

    def native_code(self, node):
        return NativeCode(_SOURCE + "usmm_csc_dense", in_place=bool(self.inplace)) if self._one_dtype(node) else None

    def perform(self, node, inputs, outputs):
        alpha, data, indices, indptr, rows, y, z = inputs
        dtype = node.outputs[0].dtype
        if len(indptr) - 1 != len(y):
            raise ValueError(
                "x's number of columns doesn't match y's rows: they are %d and %d" % (len(indptr) - 1, len(y))
            )
        x = _matrix("csc", (data * alpha.reshape(())).astype(dtype), indices, indptr, (len(y), int(rows)))
        if z.shape != (int(rows), y.shape[1]):
            raise ValueError(
                "The dimension of the allocated output doesn't match the correct output size: z has shape %s, the product %s"
                % (z.shape, (int(rows), y.shape[1]))
            )
        result = z if self.inplace else np.array(z, dtype=dtype, order="C")
        result += x @ y
        outputs[0][0] = result

    def fails_on_values(self, node):
        return True

    def infer_shape(self, node, shapes):
        return [(node.inputs[4], shapes[5][1])]


usmm_csc_dense = UsmmCscDense(inplace=False)
usmm_csc_dense_inplace = UsmmCscDense(inplace=True)


class CSMGradC(NativeOp, CSMGrad):
    """The Op `CSMGrad` with C code."""

    __props__ = ()

    def make_node(self, a_val, a_ind, a_ptr, a_dim, b_val, b_ind, b_ptr, b_dim):
        return super().make_node(a_val, a_ind, a_ptr, a_dim, b_val, b_ind, b_ptr, b_dim)

    def native_code(self, node):
        inputs = node.inputs
        if inputs[4].dtype not in SparseType.dtype_set or {inputs[i].dtype for i in (1, 2, 5, 6)} != {"int32"}:
            return None
        return NativeCode(_SOURCE + "csm_grad")


csm_grad_c = CSMGradC()


class _Elementwise(_OnParts):
    """Base class of Ops that combine the entries of a sparse matrix with the elements of a dense operand.

    The inputs are data, indices, indptr, the operand, and optionally the length of the dimension that is not
    compressed. The output is the data of the result.
    """

    __props__ = ()
    format = "csr"

    def make_node(self, a_data, a_indices, a_indptr, b, a_minor=None):
        given = (a_data, a_indices, a_indptr, b) if a_minor is None else (a_data, a_indices, a_indptr, b, a_minor)
        inputs = self._variables(*given)
        return Apply(self, inputs, [TensorType(upcast(inputs[0].dtype, inputs[3].dtype), (False,))()])

    def perform(self, node, inputs, outputs):
        data, indices, indptr, b, *minor = inputs
        if b.ndim == 1:
            lengths = len(indptr) - 1, len(b)
        else:
            lengths = b.shape if self.format == "csr" else b.shape[::-1]
        _check_length(lengths[1], minor, "columns" if self.format == "csr" else "rows")
        pattern = _Unchecked("csr", data, indices, indptr, lengths)
        check_pattern(pattern)
        entries = int(indptr[-1])
        lines, others = np.repeat(np.arange(lengths[0]), np.diff(indptr)), indices[:entries]
        if b.ndim == 1:
            operand = b[others]
        else:
            operand = b[(lines, others) if self.format == "csr" else (others, lines)]
        result = np.zeros(len(data), dtype=node.outputs[0].dtype)
        result[:entries] = self.combine(data[:entries], operand)
        outputs[0][0] = result

    combine = staticmethod(np.multiply)

    def infer_shape(self, node, shapes):
        return [shapes[0]]


class MulSDCSR(_Elementwise):
    """An Op that computes the data of the elementwise product of a csr matrix and a dense matrix."""

    shapes = "viimn"

    def native_code(self, node):
        return NativeCode(_SOURCE + "mul_s_d", columns=self.format == "csc") if self._one_dtype(node) else None


class MulSDCSC(MulSDCSR):
    """An Op that computes the data of the elementwise product of a csc matrix and a dense matrix."""

    format = "csc"


class MulSVCSR(_Elementwise):
    """An Op that multiplies each row of a csr matrix elementwise by a vector. The output is the data of the result."""

    shapes = "viivn"

    def native_code(self, node):
        return NativeCode(_SOURCE + "entries_and_vector", multiply=True) if self._one_dtype(node) else None


class StructuredAddSVCSR(_Elementwise):
    """An Op that adds a vector to the entries of each row of a csr matrix. The output is the data of the result."""

    shapes = "viivn"
    combine = staticmethod(np.add)

    def native_code(self, node):
        return NativeCode(_SOURCE + "entries_and_vector", multiply=False) if self._one_dtype(node) else None


mul_s_d_csr = MulSDCSR()
mul_s_d_csc = MulSDCSC()
mul_s_v_csr = MulSVCSR()
structured_add_s_v_csr = StructuredAddSVCSR()


class AddSD_ccode(_OnParts):
    """An Op that adds a sparse and a dense matrix. The result is dense.

    The Op is called with the two matrices. The inputs of its nodes are data, indices, indptr, the dense matrix, and
    optionally the length of the dimension that is not compressed.

    Parameters
    ----------
    format : {'csr', 'csc'}
    inplace : bool
        Whether the result overwrites the dense matrix.
    *args, **kwargs
        Not permitted. They raise TypeError.
    """

    __props__ = ("format", "inplace")
    shapes = "viimn"

    def __init__(self, format, inplace=False, *args, **kwargs):
        if args or kwargs:
            raise TypeError("AddSD_ccode takes only the arguments format and inplace, got %s %s" % (args, kwargs))
        if format not in ("csr", "csc"):
            raise ValueError("format must be one of: 'csr', 'csc'", format)
        self.format, self.inplace = format, inplace
        if inplace:
            self.destroy_map = {0: [3]}

    def __str__(self):
        return "AddSD_ccode{%s%s}" % (self.format, ",inplace" if self.inplace else "")

    def make_node(self, x, y, *parts):
        if not parts:
            # The arguments are a sparse and a dense matrix, not the inputs of an existing node.
            x = as_sparse_variable(x)
            if x.format != self.format:
                raise TypeError("%s: expected a sparse matrix in format %s, got %s" % (self, self.format, x.type))
            data, indices, indptr, shape = csm_properties(x)
            x, y, parts = data, indices, (indptr, y, shape[1 if self.format == "csr" else 0])
        inputs = self._variables(x, y, *parts)
        data, y = inputs[0], inputs[3]
        dtype = upcast(data.dtype, y.dtype)
        if self.inplace and y.dtype != dtype:
            raise TypeError(
                "%s: the result is of %s and cannot be written into the operand, which is of %s" % (self, dtype, y.type)
            )
        return Apply(self, inputs, [TensorType(dtype, y.broadcastable)()])

    def native_code(self, node):
        if not self._one_dtype(node):
            return None
        return NativeCode(_SOURCE + "add_s_d", columns=self.format == "csc", in_place=bool(self.inplace))

    def perform(self, node, inputs, outputs):
        data, indices, indptr, y, *minor = inputs
        lengths = y.shape if self.format == "csr" else y.shape[::-1]
        _check_length(lengths[1], minor, "columns" if self.format == "csr" else "rows")
        check_pattern(_Unchecked("csr", data, indices, indptr, lengths))
        entries = int(indptr[-1])
        lines, others = np.repeat(np.arange(lengths[0]), np.diff(indptr)), indices[:entries]
        total = y if self.inplace else np.array(y, dtype=node.outputs[0].dtype, order="C")
        np.add.at(
            total, (lines, others) if self.format == "csr" else (others, lines), data[:entries].astype(total.dtype)
        )
        outputs[0][0] = total

    def fails_on_values(self, node):
        return True

    def infer_shape(self, node, shapes):
        return [shapes[3]]


class SamplingDotCSR(_OnParts):
    """The Op `SamplingDot` on the parts of a csr matrix p.

    The inputs are x, y, and p's data, indices, indptr and number of columns. The outputs are the data, indices and
    indptr of the result.
    """

    __props__ = ()
    shapes = "mmviin"

    def make_node(self, x, y, p_data, p_ind, p_ptr, p_ncols):
        inputs = self._variables(x, y, p_data, p_ind, p_ptr, p_ncols)
        x, y, data, indices, indptr, _ = inputs
        outputs = [TensorType(upcast(x.dtype, y.dtype, data.dtype), (False,))(), indices.type(), indptr.type()]
        return Apply(self, inputs, outputs)

    def native_code(self, node):
        return NativeCode(_SOURCE + "sampling_dot") if self._one_dtype(node) else None

    def perform(self, node, inputs, outputs):
        x, y, data, indices, indptr, columns = inputs
        if x.shape[1] != y.shape[1]:
            raise ValueError(
                "x's number of columns doesn't match y's rows: they are %d and %d. Note: sampling_dot is different from dot because y is "
                "assumed to be transposed." % (x.shape[1], y.shape[1])
            )
        if (len(indptr) - 1, int(columns)) != (len(x), len(y)):
            raise ValueError(
                "The dimension of the pattern and the output must match: they are %s and %s"
                % ((len(indptr) - 1, int(columns)), (len(x), len(y)))
            )
        check_pattern(_Unchecked("csr", data, indices, indptr, (len(x), len(y))))
        entries = int(indptr[-1])
        lines = np.repeat(np.arange(len(x)), np.diff(indptr))
        result = data[:entries] * _dots_of_rows(x, lines, y, indices[:entries])
        outputs[0][0] = result.astype(node.outputs[0].dtype, copy=False)
        outputs[1][0] = indices[:entries].copy()
        outputs[2][0] = indptr.copy()

    def infer_shape(self, node, shapes):
        return [None, None, shapes[4]]


sampling_dot_csr = SamplingDotCSR()
