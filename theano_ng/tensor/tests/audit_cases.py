"""The tensor Ops of the package, for the audit: ``theano_ng-audit theano_ng.tensor.tests.audit_cases``.

The cases of native Ops come from `odd_arrays`, whose cases other tests run on unusual arrays. This module adds the
cases of all other Ops.
"""

import numpy as np

import theano_ng as theano
from theano_ng import scalar
from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.tensor import blas, extra_ops, fft, nnet, xlogx
from theano_ng.tensor.reductions import cumulative
from theano_ng.tensor.reductions.fused import ReducedElemwise
from theano_ng.tensor.reductions.row_program import RowProgram, RowShape
from theano_ng.tensor.shaping.allocation import SumToShape, sum_to_shape
from theano_ng.tensor.tests import audit_conv, audit_convolution, audit_nlinalg, audit_nnet, audit_slinalg
from theano_ng.tests import odd_arrays

RNG = np.random.RandomState(11)
X, Y, SQUARE = RNG.randn(3, 4), RNG.randn(3, 4), RNG.randn(4, 4)
T3 = RNG.randn(2, 3, 4)
LABELS = np.array([1, 0, 3])
LONG = RNG.permutation(700).astype("float32")
ROW_WISE = np.exp(X) / np.exp(X).sum(1, keepdims=True)


def _shares_of_rows():
    """Return a RowProgram with two outputs: the softmax of rows, and the sums of the exponentials."""
    widen = tt.DimShuffle((False,), (0, "x"))
    steps = [
        (tt.elemwise.CAReduce(scalar.maximum, axis=(1,)), (0,)),
        (widen, (1,)),
        (tt.Elemwise(scalar.sub), (0, 2)),
        (tt.Elemwise(scalar.exp), (3,)),
        (tt.elemwise.Sum(axis=(1,)), (4,)),
        (widen, (5,)),
        (tt.Elemwise(scalar.true_div), (4, 6)),
    ]
    return RowProgram(steps, (7, 5), RowShape((False,), 1))


def _elsewhere():
    """Return tuples (name, Op or callable, inputs, further fields of Case) for Ops that `odd_arrays` lacks."""
    return [
        # reductions
        ("Prod", tt.elemwise.Prod(axis=(1,)), [X], {}),
        ("ProdWithoutZeros", tt.elemwise.ProdWithoutZeros(axis=(0,)), [X], {}),
        ("All", tt.elemwise.All(axis=(1,)), [X > 0], {}),
        ("Max", lambda x: tt.max(x, axis=0), [X], {}),
        ("Mean", tt.basic.Mean(axis=0), [X], {}),
        ("CAReduceDtype", tt.elemwise.CAReduceDtype(scalar.add, axis=(0,), dtype="float64"), [X], {}),
        ("Sum of integers", tt.elemwise.Sum(axis=(0,)), [np.array([[3, -4], [5, 6]], "int16")], {}),
        ("Min of float16", tt.elemwise.CAReduce(scalar.minimum, axis=(0,)), [X.astype("float16")], {}),
        ("Sum of complex", tt.elemwise.Sum(axis=(1,)), [X + 1j * Y], {}),
        ("Reduce xor", tt.elemwise.CAReduce(scalar.xor, axis=(1,)), [np.array([[3, -4], [5, 6]], "int8")], {}),
        ("Argmin", tt.basic.Argmin((1,)), [X], {}),
        ("MaxAndArgmax over two axes", tt.basic.MaxAndArgmax((0, 2)), [T3], {}),
        ("ReducedElemwise", ReducedElemwise(tt.Elemwise(scalar.mul), tt.elemwise.Sum(axis=(0,))), [X, Y], {}),
        (
            "ReducedElemwise max",
            ReducedElemwise(tt.Elemwise(scalar.sqr), tt.elemwise.CAReduce(scalar.maximum, axis=(1,))),
            [X],
            {},
        ),
        ("RowProgram", _shares_of_rows(), [X], {}),
        ("RowProgram of long rows", _shares_of_rows(), [np.vstack([RNG.randn(2100), RNG.randn(2100)])], {}),
        ("CumprodOp", extra_ops.CumOp(axis=0, mode="mul"), [X], {}),
        ("LinearRecurrence", cumulative.LinearRecurrence(1), [X, Y], {}),
        ("LinearRecurrence of float16", cumulative.LinearRecurrence(0), [X.astype("float16"), Y.astype("float16")], {}),
        ("DiffOp", extra_ops.DiffOp(n=2, axis=1), [X], {}),
        # creation
        ("ExtractDiag", tt.ExtractDiag(offset=1), [X], {}),
        ("ExtractDiag view", tt.ExtractDiag(offset=-1, view=True), [X], {}),
        ("ExtractDiag of axes", tt.ExtractDiag(axis1=0, axis2=2), [T3], {}),
        ("AllocDiag", tt.AllocDiag(offset=-1), [X], {}),
        ("AllocDiag of axes", tt.AllocDiag(offset=1, axis1=2, axis2=0), [X], {}),
        (
            "ARange of floats",
            lambda a, b, s: tt.arange(a, b, s),
            [np.float64(0.5), np.float64(3.7), np.float64(0.75)],
            {"skip": {"connection_pattern": "the length follows `stop`, as documented no element does"}},
        ),
        ("Bartlett", extra_ops.bartlett, [np.int64(7)], {}),
        ("SumToShape", SumToShape(), [X, np.int64(1), np.int64(X.shape[1])], {}),
        ("SumToShape of its shape", lambda x: sum_to_shape(x, x.shape[0], x.shape[1]), [X], {}),
        ("AllocEmpty", lambda n: tt.AllocEmpty("float64")(n).shape, [np.int64(3)], {}),
        # shaping and joining
        ("ScalarFromTensor", tt.scalar_from_tensor, [np.float64(1.5)], {}),
        ("TensorFromScalar", tt.tensor_from_scalar, [scalar.float64], {}),
        ("RepeatOp", extra_ops.RepeatOp(axis=1), [X, np.int64(2)], {}),
        ("RepeatOp by vector", extra_ops.RepeatOp(axis=0), [X, np.array([2, 0, 1])], {}),
        (
            "PermuteRowElements",
            lambda x, p: tt.permute_row_elements(x, p),
            [X, np.array([2, 0, 3, 1])],
            {"tied": _permutes},
        ),
        ("FillDiagonal", extra_ops.fill_diagonal, [X, np.float64(9.0)], {}),
        ("RepeatOp flat", extra_ops.RepeatOp(), [X.astype("float32"), np.int8(3)], {}),
        ("DiffOp 3", lambda x: extra_ops.diff(x, 3), [T3], {}),
        ("FillDiagonalOffset", extra_ops.fill_diagonal_offset, [X, np.float64(9.0), np.int64(1)], {}),
        ("Tile to more dimensions", lambda x, r: tt.tile(x, r, ndim=3), [X, np.array([2, 1, 3])], {}),
        ("Join of three", tt.Join(), [np.int8(0), X, Y[:2], X[:1]], {}),
        ("MakeVector", tt.opt.MakeVector("float64"), [np.float64(1.5), np.float64(-2.0), np.float64(0.5)], {}),
        ("AssertIndex", lambda x, i: tt.opt.AssertIndex("no")(x, i < x.shape[0]), [X, np.int64(1)], {}),
        ("AssertShape", lambda x, n: tt.opt.AssertShape("no")(x, tt.le(n, x.shape[0])), [X, np.int64(1)], {}),
        # selecting and sorting
        (
            "Choose",
            lambda a, c: tt.choose(a, c, mode="wrap"),
            [np.array([2, 0, 1]), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])],
            {"tied": lambda values: len({v.shape for v in (values[0], *values[1])}) == 1},
        ),
        (
            "Choose of several",
            lambda a, c, d: tt.choose(a, [c, d], mode="clip"),
            [np.array([1, 0, 1, 7]), X, Y[0]],
            {"tied": lambda values: values[0].shape == values[2].shape and values[1].shape[1:] == values[0].shape},
        ),
        ("Nonzero", tt.basic.Nonzero(), [X > 0], {}),
        ("Default", tt.basic.default, [X, Y], {}),
        ("Unique", lambda x: extra_ops.Unique(True, True, True)(x), [np.array([3.0, 1.0, 3.0, 2.0])], {}),
        ("Unique of rows", extra_ops.Unique(True, True, True, axis=0), [LABELS[:, None] % 2], {}),
        ("Unique values", extra_ops.Unique(False, False, True), [LONG], {}),
        ("Bincount", lambda x: extra_ops.bincount(x, minlength=3), [LABELS], {}),
        ("Bincount of weights", lambda x, w: extra_ops.bincount(x, w), [LABELS, X[:, 0]], {}),
        ("SortOp", lambda x: tt.sort(x, axis=1), [X], {}),
        ("SortOp long", lambda x: tt.sort(x, axis=0, kind="stable"), [LONG], {}),
        ("ArgSortOp long", lambda x: tt.argsort(x, axis=0), [LONG.astype("complex64")], {}),
        ("TopKOp long", lambda x: tt.topk_and_argtopk(x, 200, axis=0, sorted=False), [LONG], {}),
        ("ArgSortOp", lambda x: tt.argsort(x, axis=0), [X], {}),
        ("TopKOp", lambda x: tt.topk_and_argtopk(x, 2, axis=1), [X], {}),
        ("TopKOp smallest", lambda x: tt.topk(x, -2, axis=0), [X], {}),
        (
            "SearchsortedOp with sorter",
            extra_ops.SearchsortedOp("right"),
            [np.array([2.0, 0.0, 1.0]), Y, np.array([1, 2, 0])],
            {},
        ),
        ("UnravelIndex", lambda i: tt.unravel_index(i, (3, 4)), [np.array([5, 11, 0])], {}),
        (
            "RavelMultiIndex",
            lambda i, j: tt.ravel_multi_index((i, j), (3, 4)),
            [np.array([1, 2, 0]), np.array([1, 3, 0])],
            {},
        ),
        # indexing
        ("Subtensor with symbolic bounds", lambda x, i, j: x[i:j:2], [X, np.int64(0), np.int64(3)], {}),
        ("AdvancedSubtensor with a slice", lambda x, i: x[i, 1:], [X, np.array([2, 0])], {}),
        (
            "AdvancedIncSubtensor1 set",
            lambda x, y, i: tt.set_subtensor(x[i], y),
            [X, Y[:2], np.array([2, 0])],
            {"tied": _distinct(2)},
        ),
        (
            "AdvancedSubtensor of an open mesh",
            lambda x, i, j: x[i, j],
            [X, np.array([[2], [0]]), np.array([[1, 3, 0]])],
            {},
        ),
        (
            "AdvancedSubtensor of separated arrays",
            lambda x, i, j: x[i, :, j],
            [T3, np.array([1, 0]), np.array([0, 1])],
            {},
        ),
        ("AdvancedBooleanSubtensor of columns", lambda x, m: x[:, m], [X, X[0] > 0], {}),
        (
            "AdvancedIncSubtensor",
            lambda x, y, i, j: tt.inc_subtensor(x[i, j], y),
            [X, Y[0, :3], np.array([2, 0, 2]), np.array([1, 3, 1])],
            {},
        ),
        ("AdvancedBooleanIncSubtensor", lambda x, m, y: tt.inc_subtensor(x[m], y), [X, X > 0, np.float64(2.0)], {}),
        (
            "MakeSlice",
            lambda x, i, j: tt.as_tensor_variable(x)[tt.type_other.MakeSlice()(i, j, 1)],
            [X, np.int64(0), np.int64(2)],
            {},
        ),
        # products
        ("Dot of a matrix and a vector", tt.Dot(), [X, Y[0]], {}),
        (
            "Gemm float32",
            blas.gemm_no_inplace,
            [RNG.randn(3, 4).astype("f"), np.float32(2), X.astype("f"), SQUARE.astype("f"), np.float32(0.5)],
            {},
        ),
        (
            "CGemv",
            lambda *i: theano.tensor.blas_c.CGemv(inplace=False)(*i),
            [Y[:, 0], np.float64(2.0), X, SQUARE[0], np.float64(0.5)],
            {},
        ),
        ("CGer", lambda *i: theano.tensor.blas_c.CGer(False)(*i), [X, np.float64(2.0), Y[:, 0], SQUARE[0]], {}),
        (
            "ScipyGer",
            lambda *i: theano.tensor.blas_scipy.ScipyGer(False)(*i),
            [X, np.float64(2.0), Y[:, 0], SQUARE[0]],
            {},
        ),
        # Fourier transforms
        ("RFFTOp", fft.rfft_op, [X, np.array([4])], {}),
        ("RFFTOp of matrices", lambda x: fft.rfft_op(x), [T3], {}),
        ("IRFFTOp", lambda x: fft.irfft_op(x), [T3[..., :2]], {}),
        # neural networks
        ("ScalarSigmoid", nnet.sigmoid, [X], {}),
        (
            "UltraFastScalarSigmoid",
            nnet.ultra_fast_sigmoid,
            [X],
            {"skip": dict.fromkeys(("grad", "R_op"), "the derivative is that of the sigmoid which it approximates")},
        ),
        ("ScalarSoftplus", nnet.softplus, [X], {}),
        ("ScalarSoftsign", nnet.softsign, [X], {}),
        ("ScalarRectifier", nnet.relu, [X], {}),
        ("Prepend_scalar_to_each_row", nnet.nnet.prepend_scalar_to_each_row, [np.float64(2.0), X], {}),
        ("Prepend_scalar_constant_to_each_row", nnet.nnet.prepend_1_to_each_row, [X], {}),
        ("CrossentropyCategorical1Hot", nnet.crossentropy_categorical_1hot, [ROW_WISE, LABELS], {}),
        (
            "CrossentropyCategorical1HotGrad",
            nnet.nnet.crossentropy_categorical_1hot_grad,
            [Y[:, 0], ROW_WISE, LABELS],
            {},
        ),
        ("XlogX", xlogx.xlogx, [np.abs(X)], {}),
        ("XlogY0", xlogx.xlogy0, [np.abs(X), np.abs(Y) + 0.1], {"tied": lambda values: (values[1] > 0).all()}),
        ("Fourier", lambda x: tt.fourier.fft(x, 4, 0), [X], {}),
        # Ops that work in place on their first input
        ("Elemwise in place", tt.Elemwise(scalar.add, {0: 0}), [X, Y], {}),
        ("IncSubtensor in place", lambda x, y: tt.inc_subtensor(x[1:], y, inplace=True), [X, Y[:2]], {}),
        (
            "AdvancedIncSubtensor1 in place",
            lambda x, y, i: tt.subtensor.AdvancedIncSubtensor1(inplace=True)(x, y, i),
            [X, Y[:2], np.array([2, 0])],
            {},
        ),
    ]


def _distinct(*places):
    """Return a condition: the inputs at `places` are index vectors, and none of them contains an index twice.

    The Op stores a value at each index. If it stores two values in one element, it is undefined which value remains.
    """

    def tied(values):
        length = values[0].shape[0]
        return all(len(set(int(i) % max(length, 1) for i in values[k])) == len(values[k]) for k in places)

    return tied


def _permutes(values):
    """Return True if the rows of the second input are permutations."""
    return (np.sort(values[1], axis=-1) == np.arange(values[1].shape[-1])).all()


# Name of a case in `odd_arrays` -> condition on its inputs. If the condition is not met, the result is undefined.
_LIMITS = {
    "set at vector": {"tied": _distinct(2)},
    "matrix inverse": {"tied": audit_nlinalg.is_regular},
    "det complex": {"tied": audit_nlinalg.is_regular},
    "cholesky": {"tied": audit_slinalg.positive},
    "cholesky in place": {"tied": audit_slinalg.positive},
    "solve": {"tied": audit_slinalg.regular},
    "solve in place": {"tied": audit_slinalg.regular},
    "solve symmetric": {"tied": audit_slinalg.regular},
    "solve triangular": {"tied": audit_slinalg.triangular},
    "eigvalsh": {"tied": audit_slinalg.pair},
    "eigvalsh of two": {"tied": audit_slinalg.pair},
}


def audit_cases():
    """Return cases of the native Ops of `odd_arrays` and of all other Ops."""
    found = [Case(case.build, case.values, name=case.name, **_LIMITS.get(case.name, {})) for case in odd_arrays.cases()]
    return (
        found
        + [Case(op, inputs, name=name, **more) for name, op, inputs, more in _elsewhere()]
        + audit_nlinalg.audit_cases()
        + audit_slinalg.audit_cases()
        + audit_nnet.audit_cases()
        + audit_conv.audit_cases()
        + audit_convolution.audit_cases()
    )
