"""The Ops on sparse matrices for the audit: ``theano_ng-audit theano_ng.sparse.tests.audit_cases``."""

import numpy as np
import scipy.sparse as sp

from theano_ng import sparse
from theano_ng.audit.records import Case
from theano_ng.sparse import opt
from theano_ng.sparse.indexing import GetItem2dGrad
from theano_ng.sparse.sandbox import sp as convolution
from theano_ng.sparse.sandbox import sp2
from theano_ng.tensor.type import TensorType

RNG = np.random.RandomState(4)
DENSE = np.array([[1.5, 0, -2, 0], [0, 0, 0, 3.5], [0.5, -1, 0, 0]])
TALL = np.array([[0, 2.0], [1, 0], [0, 0], [-1.5, 3]])
X, C = (sparse.csr_dmatrix, sp.csr_matrix(DENSE)), (sparse.csc_dmatrix, sp.csc_matrix(DENSE))
T = (sparse.csr_dmatrix, sp.csr_matrix(TALL))
SQUARE = (sparse.csr_dmatrix, sp.csr_matrix(DENSE[:, :3]))
D, R, S = RNG.randn(3, 4), RNG.randn(4, 2), RNG.randn(3, 2)
ROW, COLUMN = RNG.randn(4), RNG.randn(3)
ONE = (TensorType("float64", (True, True)), np.array([[0.5]]))
# The arrays of a sparse matrix depend on each other, so only the elements of the matrix (`data`) may be varied.
PARTS = [C[1].data, C[1].indices.astype("int32"), C[1].indptr.astype("int32")]
BY_ROWS = [X[1].data, X[1].indices.astype("int32"), X[1].indptr.astype("int32")]
AS_GIVEN = {"vary": ()}
RANDOM = {"vary": (), "skip": {name: "the values are random" for name in ("perform", "c_code", "pickle", "grad")}}
# These Ops use more memory after some calls, but leak none: 20,000 calls use hardly more than 1,000 calls.
BY_NAME = {"skip": {"memory": "SciPy builds names of its functions in each call; their memory comes and goes"}}
BY_ROWS_ALONE = {"vary": (), "skip": {"R_op": "its tangent is sparse: test_values.py compares it"}}
MADE_BY_ROWS = {"vary": (), "skip": {**BY_ROWS_ALONE["skip"], **BY_NAME["skip"]}}
PLACES = np.array([2, 0, 2])
I3, N4 = np.array([3, 4], dtype="int32"), np.array(4, dtype="int32")


# The audit cannot check gradients here: regular and structured gradients need different finite differences.
_NO_DIFFERENCES = {
    "grad": "the gradients of sparse matrices, regular and structured, are compared in test_generated.py"
}
_SPARSE_RESULTS = (
    "CSM",
    "CSM csc",
    "SparseFromDense",
    "SparseFromDense csc",
    "SquareDiagonal",
    "ConstructSparseFromList",
    "Binomial",
)


def audit_cases():
    """Return one or more cases for each Op."""
    table = [
        ("CSMProperties", sparse.csm_properties, [X], {}),
        ("CSM", sparse.CSR, [*BY_ROWS, I3], AS_GIVEN),
        ("CSM csc", sparse.CSC, [*PARTS, I3], AS_GIVEN),
        ("CSMGrad", sparse.CSMGrad(), [*BY_ROWS, I3, *BY_ROWS, I3], AS_GIVEN),
        ("CSMGradC", opt.csm_grad_c, [*BY_ROWS, I3, *BY_ROWS, I3], AS_GIVEN),
        ("Cast", sparse.dcast, [X], {}),
        ("AsFormat", sparse.AsFormat("csc"), [X], {}),
        ("DenseFromSparse", sparse.dense_from_sparse, [X], {}),
        ("DenseFromSparse regular", sparse.DenseFromSparse(False), [C], {}),
        ("SparseFromDense", sparse.csr_from_dense, [DENSE], {}),
        ("SparseFromDense csc", sparse.csc_from_dense, [ROW], {}),
        ("Transpose", sparse.transpose, [X], {}),
        ("HStack", sparse.HStack("csc", "float64"), [X, C], BY_NAME),
        ("VStack", sparse.VStack("csr", "float64"), [X, C], BY_NAME),
        ("Diag", sparse.diag, [SQUARE], {}),
        ("SquareDiagonal", sparse.square_diagonal, [ROW], {}),
        ("EnsureSortedIndices", sparse.ensure_sorted_indices, [X], {}),
        ("EnsureSortedIndices in place", sparse.EnsureSortedIndices(True), [X], {}),
        ("Remove0", sparse.remove0, [X], {}),
        ("Remove0 in place", sparse.Remove0(True), [X], {}),
        ("Neg", sparse.neg, [C], {}),
        ("AddSS", sparse.add_s_s, [X, C], BY_NAME),
        ("AddSSData", sparse.add_s_s_data, [X, X], AS_GIVEN),
        ("AddSD", sparse.add_s_d, [X, D], {}),
        ("AddSD csc", sparse.add_s_d, [C, D], {}),
        ("StructuredAddSV", sparse.structured_add_s_v, [X, ROW], {}),
        ("MulSS", sparse.mul_s_s, [X, C], BY_NAME),
        ("MulSD", sparse.mul_s_d, [X, D], {}),
        ("MulSD by a number", sparse.mul_s_d, [C, np.float64(2.5)], {}),
        ("MulSV", sparse.mul_s_v, [C, ROW], {}),
        ("ColScaleCSC", sparse.ColScaleCSC(), [C, ROW], {}),
        ("RowScaleCSC", sparse.RowScaleCSC(), [C, COLUMN], {}),
        ("SpSum", sparse.SpSum(), [X], {}),
        ("SpSum 0", sparse.SpSum(0), [X], {}),
        ("SpSum 1", sparse.SpSum(1, False), [C], {}),
        ("Dot", sparse.basic._dot, [X, R], {}),
        ("Dot from the left", sparse.basic._dot, [COLUMN, C], {}),
        ("Dot of two", sparse.basic._dot, [X, T], {}),
        ("StructuredDot", sparse.basic._structured_dot, [X, R], {}),
        ("StructuredDot csc", sparse.basic._structured_dot, [C, R], {}),
        ("StructuredDot of two", sparse.basic._structured_dot, [X, T], {}),
        ("TrueDot", sparse.TrueDot(), [X, R], {}),
        ("TrueDot of two", sparse.TrueDot(False), [X, T], {}),
        ("SamplingDot", sparse.sampling_dot, [S, R, X], {}),
        ("Usmm", sparse.usmm, [ONE, X, R, S], {}),
        ("StructuredDotGradCSR", sparse.sdg_csr, [*BY_ROWS[1:], R, S], AS_GIVEN),
        ("StructuredDotGradCSC", sparse.sdg_csc, [*PARTS[1:], R, S], AS_GIVEN),
        ("StructuredDotCSR", opt.sd_csr, [*BY_ROWS, R, N4], AS_GIVEN),
        ("StructuredDotCSC", opt.sd_csc, [*PARTS, np.int32(3), R], AS_GIVEN),
        ("UsmmCscDense", opt.usmm_csc_dense, [ONE, *PARTS, np.int32(3), R, S], AS_GIVEN),
        ("UsmmCscDense in place", opt.usmm_csc_dense_inplace, [ONE, *PARTS, np.int32(3), R, S], AS_GIVEN),
        ("MulSDCSR", opt.mul_s_d_csr, [*BY_ROWS, D, N4], AS_GIVEN),
        ("MulSDCSC", opt.mul_s_d_csc, [*PARTS, D, np.int32(3)], AS_GIVEN),
        ("MulSVCSR", opt.mul_s_v_csr, [*BY_ROWS, ROW, N4], AS_GIVEN),
        ("StructuredAddSVCSR", opt.structured_add_s_v_csr, [*BY_ROWS, ROW, N4], AS_GIVEN),
        ("AddSD_ccode", opt.AddSD_ccode("csr"), [*BY_ROWS, D, N4], AS_GIVEN),
        ("AddSD_ccode in place", opt.AddSD_ccode("csc", inplace=True), [*PARTS, D, np.int32(3)], AS_GIVEN),
        ("SamplingDotCSR", opt.sampling_dot_csr, [S, R, *BY_ROWS, N4], AS_GIVEN),
        ("GetItemList", sparse.get_item_list, [X, PLACES], AS_GIVEN),
        ("GetItemListGrad", sparse.get_item_list_grad, [X, PLACES, X], AS_GIVEN),
        ("GetItem2Lists", sparse.get_item_2lists, [C, PLACES, PLACES], AS_GIVEN),
        ("GetItem2ListsGrad", sparse.get_item_2lists_grad, [X, PLACES, PLACES, COLUMN], AS_GIVEN),
        ("GetItem2d", lambda x: x[1:, ::-2], [X], {}),
        ("GetItem2dGrad", lambda x, g: GetItem2dGrad()(x, g, *x[:3, :4].owner.inputs[1:]), [X, C], AS_GIVEN),
        ("GetItemScalar", lambda x: x[1, -1], [C], AS_GIVEN),
        ("ConstructSparseFromList", sparse.construct_sparse_from_list, [D, D, PLACES], MADE_BY_ROWS),
        ("ConvolutionIndices", convolution.convolution_indices, [np.array([3, 4]), np.array([2, 2])], AS_GIVEN),
        ("Poisson", sp2.poisson, [(sparse.csr_dmatrix, abs(X[1]))], RANDOM),
        ("Binomial", sp2.csr_dbinomial, [np.int64(5), np.float64(0.3), np.array([3, 4])], RANDOM),
        ("Multinomial", sp2.multinomial, [np.int64(5), (sparse.csr_dmatrix, sp.csr_matrix(np.eye(3)))], RANDOM),
    ]
    for name in ("Equal", "NotEqual", "LessThan", "GreaterThan", "LessEqual", "GreaterEqual"):
        table.append((name + "SS", getattr(sparse, name + "SS")(), [X, X], BY_NAME))
        table.append((name + "SD", getattr(sparse, name + "SD")(), [C, D], {}))
    cases = []
    for name, op, inputs, more in table:
        if any(isinstance(value, tuple) for value in inputs) or name in _SPARSE_RESULTS:
            more = {**more, "skip": {**_NO_DIFFERENCES, **more.get("skip", {})}}
        cases.append(Case(op, inputs, name=name, **more))
    return cases
