"""Generated tests of reductions, cumulative sums and softmax, in Python and in C."""

import os
import subprocess
import sys
import unittest

import numpy as np
import scipy.special
from hypothesis import strategies as st

import theano_ng as theano
from theano_ng import scalar, tensor
from theano_ng.compile.mode import Mode
from theano_ng.gof._native import dlopen_symbols
from theano_ng.tensor.elemwise import All, Any, CAReduce, Elemwise, Prod, Sum
from theano_ng.tensor.extra_ops import CumOp
from theano_ng.tensor.reductions.extremes import Argmax, Argmin, MaxAndArgmax
from theano_ng.tensor.reductions.fused import ReducedElemwise
from theano_ng.tensor.reductions.row_program import RowProgram
from theano_ng.tensor.tests.generated import FLOATS, INTEGERS, Compared, arrays, generated, shapes
from theano_ng.tests import unittest_tools as utt

# Rank -> shapes. The lengths are near the limits of vectors, tiles of rows, and blocks that C code processes at once.
LONG = {
    1: [(2111,), (130,)],
    2: [(3, 300), (300, 3), (67, 45), (2, 5000), (700, 1)],
    3: [(5, 70, 9), (3, 33, 40), (1, 600, 4)],
}
AXES = {0: [()], 1: [(0,)], 2: [(0,), (1,), (0, 1)], 3: [(0,), (1,), (2,), (0, 2), (1, 2)]}
WIDE = {"b": "int64", "i": "int64", "u": "uint64"}


# This program runs in a separate process with two OpenMP threads: in the test process, threads may already run.
TWO_THREADS = """
import os
import numpy as np
import theano_ng as theano
from theano_ng import tensor

# Without the fusion of rows, which threads exclude: it adds in another order.
theano.compile.register_mode("separate", theano.compile.get_mode("FAST_RUN").excluding("row_fusion"))

def compiled(openmp):
    with theano.change_flags(openmp=openmp, openmp_elemwise_minsize=100):
        x = [tensor.TensorType(dtype, (False,) * rank)() for dtype, rank in types]
        return [theano.function([v], [build(v, axis) for build in builds for axis in axes[v.ndim]], mode="separate") for v in x]

def threads():
    return len(os.listdir("/proc/self/task"))

rng = np.random.RandomState(0)
axes = {1: [None], 2: [None, 0, 1]}
types = [("float64", 1), ("float32", 2), ("int32", 2), ("float64", 2)]
builds = [tensor.sum, tensor.max, tensor.min, tensor.prod, lambda v, axis: tensor.any(v > 9, axis), tensor.mean]
values = [rng.randn(100003), rng.randn(301, 517).astype("float32"), rng.randint(-9, 9, (301, 517)).astype("int32"),
          np.asfortranarray(rng.randn(301, 517))]
one = [f(v) for f, v in zip(compiled(False), values)]
assert threads() == 1
functions = compiled(True)
two = [f(v) for f, v in zip(functions, values)]
assert threads() == 2, "%d threads" % threads()
for a, b, v in zip(one, two, values):
    k = 0
    for build in builds:
        for axis in axes[v.ndim]:
            # Reductions to few accumulators are divided into shares, whose sums are added in order.
            exact = v.dtype.kind == "i" or a[k].dtype.kind in "bi" or build in (tensor.max, tensor.min) or axis == (1 if v.flags.c_contiguous else 0)
            np.testing.assert_array_equal(a[k], b[k]) if exact else np.testing.assert_allclose(a[k], b[k], rtol=1e-6, atol=1e-9)
            k += 1
f, = [f for f in compiled(False)[:1]]
n, total = len(values[0]), 0.0
for share in range(64):
    total += f(values[0][n * share // 64 : n * (share + 1) // 64])[0]
assert two[0][0] == total != one[0][0], "the shares are not summed apart"
for _ in range(20):
    for f, b, v in zip(functions, two, values):
        for first, again in zip(b, f(v)):
            np.testing.assert_array_equal(first, again)
child = os.fork()
if child == 0:
    status = 1
    try:
        for f, a, v in zip(functions, two, values):
            for first, again in zip(a, f(v)):
                np.testing.assert_array_equal(first, again)
        status = int(threads() != 1)
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0, "the child has other results, or threads"
"""

# All native modules share one pool of threads. A forked child lacks these threads. The child must detect this,
# whichever module used the threads before the fork.
FORKED = """
import os
import signal
import sys
import numpy as np
import theano_ng as theano
from theano_ng import tensor

x = tensor.dmatrix()
with theano.change_flags(openmp=True, openmp_elemwise_minsize=100):
    functions = {"elemwise": theano.function([x], tensor.exp(x) * x), "reduction": theano.function([x], tensor.sum(x, axis=1))}
value = np.random.RandomState(0).rand(300, 400)
functions[sys.argv[1]](value)
assert len(os.listdir("/proc/self/task")) == 2
child = os.fork()
if child == 0:
    signal.alarm(60)
    for f in functions.values():
        f(value)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child waits for threads that it lacks"
"""


def ranked(dtypes, contents):
    """Draw arrays of rank 0 to 3: short arrays, also with lengths 0 and 1, and long arrays."""
    return st.integers(0, 3).flatmap(
        lambda rank: st.one_of(
            arrays(dtypes, ndim=rank, contents=contents),
            arrays(dtypes, shape=st.sampled_from(LONG.get(rank, [()])), contents=contents),
        )
    )


def rows(x, axes):
    """Return x with the reduced axes moved to the end and merged into one axis.

    NumPy refuses argmax along an axis of length zero even if the result is empty. The merged axis then gets length one.
    """
    kept = [d for d in range(x.ndim) if d not in axes]
    shape = [x.shape[d] for d in kept]
    length = int(np.prod([x.shape[d] for d in axes]))
    if length == 0 and int(np.prod(shape)) > 0:
        raise ValueError("nothing to choose from")
    return x.transpose(kept + list(axes)).reshape(shape + [length or 1])


def extremes(x, axes):
    r = rows(x, axes)
    best, least, at = r.max(-1), r.min(-1), r.argmax(-1).astype("int64")
    return [best, least, at, r.argmin(-1).astype("int64"), best, at]


def totals(x, axes):
    if x.dtype.kind in WIDE:
        return [x.sum(axes, dtype=WIDE[x.dtype.kind]), x.prod(axes, dtype=WIDE[x.dtype.kind])]
    with np.errstate(all="ignore"):
        wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
        return [wide.sum(axes).astype(x.dtype), wide.prod(axes).astype(x.dtype)]


class TestValues(unittest.TestCase):
    totals = Compared(lambda x, axes: [Sum(axes)(x), Prod(axes)(x)], totals, roundings=16, declare="none")
    extremes = Compared(
        lambda x, axes: [
            CAReduce(scalar.maximum, axes)(x),
            CAReduce(scalar.minimum, axes)(x),
            Argmax(axes)(x),
            Argmin(axes)(x),
            *MaxAndArgmax(axes)(x),
        ],
        extremes,
        declare="none",
    )
    bits = Compared(
        lambda x, axes: [CAReduce(op, axes)(x) for op in (scalar.and_, scalar.or_, scalar.xor)],
        lambda x, axes: [
            u.reduce(x, axes, dtype=x.dtype.newbyteorder("=")) for u in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
        ],
        declare="none",
    )
    logical = Compared(
        lambda x, axes: [All(axes)(x), Any(axes)(x)], lambda x, axes: [x.all(axes), x.any(axes)], declare="none"
    )

    @generated(
        ranked(
            ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"),
            ("small", "positive"),
        ),
        st.data(),
        examples=120,
    )
    def test_totals(self, x, data):
        self.totals.check(x, axes=data.draw(st.sampled_from(AXES[x.ndim])))

    @generated(ranked(("bool", *INTEGERS, *FLOATS), ("small", "ties", "nonfinite")), st.data(), examples=150)
    def test_extremes(self, x, data):
        self.extremes.check(x, axes=data.draw(st.sampled_from(AXES[x.ndim])))

    @generated(ranked(("int8", "uint32", "int64"), "extreme"), st.data(), examples=30)
    def test_bits(self, x, data):
        self.bits.check(x, axes=data.draw(st.sampled_from(AXES[x.ndim])))

    @generated(ranked("bool", "small"), st.data(), st.sampled_from([None, True, False]), examples=40)
    def test_all_and_any(self, x, data, constant):
        if constant is not None:
            x = np.full_like(x, constant)
        self.logical.check(x, axes=data.draw(st.sampled_from(AXES[x.ndim])))

    def test_odd_bools(self):
        # A view of dtype bool can contain bytes other than 0 and 1. These bytes are true.
        x = np.array([[2, 1, 4], [2, 0, 1]], "uint8").view("bool")
        v = tensor.TensorType("bool", (False, False))()
        f = theano.function([v], [All(1)(v), Any(0)(v), All()(v)], mode=Mode("cvm", None))
        for got, want in zip(f(x), ([True, False], [True, True, True], False)):
            np.testing.assert_array_equal(got, want)

    def test_precision(self):
        # float32 is summed in float64, also with threads and tiles.
        x = np.full((1000, 700), 0.1, "float32")
        v = tensor.fmatrix()
        for flags in ({}, {"openmp": True, "openmp_elemwise_minsize": 100}):
            with theano.change_flags(flags):
                f = theano.function(
                    [v],
                    [
                        Sum()(v),
                        Sum(0)(v),
                        Sum(1)(v),
                        CAReduce(scalar.maximum)(v),
                        CAReduce(scalar.minimum, 0)(-v),
                        Prod(1)(v + np.float32(0.9)),
                    ],
                )
                found = f(x)
                for got, axis in zip(found, (None, 0, 1)):
                    np.testing.assert_array_equal(got, x.astype("float64").sum(axis).astype("float32"))
                np.testing.assert_array_equal(found[3], x[0, 0])
                np.testing.assert_array_equal(found[4], -x[0])
                np.testing.assert_allclose(found[5], np.float32(1) + np.zeros(1000), rtol=1e-4)


def has_openmp():
    """Return True if GCC's OpenMP library, libgomp, exists; see native/common/gomp.h for the search."""
    try:
        dlopen_symbols("libgomp.so.1", ["GOMP_parallel"])
    except OSError:
        return False
    return True


@unittest.skipUnless(has_openmp(), "needs GCC's OpenMP library, libgomp")
class TestThreads(unittest.TestCase):
    def run_apart(self, *arguments):
        run = subprocess.run(
            [sys.executable, "-c", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env=dict(
                os.environ,
                OMP_NUM_THREADS="2",
                OPENBLAS_NUM_THREADS="1",
                PYTHONPATH=os.pathsep.join(sys.path),
                THEANO_FLAGS=os.environ.get("THEANO_FLAGS", "")
                + ",tiered=off,cache_graphs=False",  # compilation in the background would start another thread
            ),
        )
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_two_threads(self):
        """Two threads compute the same reductions as one thread, exactly or up to rounding.

        After a fork, the child has one thread, and gives exactly the results of one thread.
        """
        self.run_apart(TWO_THREADS)

    def test_forked(self):
        for first in ("elemwise", "reduction"):
            self.run_apart(FORKED, first)


class TestStatistics(unittest.TestCase):
    moments = Compared(
        lambda x, axis, ddof: [
            tensor.mean(x, axis, keepdims=True),
            tensor.var(x, axis, ddof),
            tensor.std(x, axis, ddof, keepdims=True),
            tensor.var(x, axis, ddof, corrected=True),
            tensor.ptp(x, axis),
        ],
        lambda x, axis, ddof: [
            x.mean(axis, keepdims=True),
            x.var(axis, ddof=ddof),
            x.std(axis, ddof=ddof, keepdims=True),
            x.var(axis, ddof=ddof),
            np.ptp(x, axis),
        ],
        modes=("c", "fast_run"),
        roundings=16,
        declare="none",
    )

    @generated(
        arrays(("float64", "float32"), shape=st.sampled_from([(7, 9), (100, 60), (3, 4100)])),
        st.sampled_from([(None, 0), (0, 0), (1, 2)]),
        examples=12,
    )
    def test_moments(self, x, parameters):
        axis, ddof = parameters
        self.moments.check(x, axis=axis, ddof=ddof)


class TestFused(unittest.TestCase):
    fused = Compared(
        lambda x, row, axes: [
            ReducedElemwise(Elemwise(scalar.mul), op)(x, row)
            for op in (Sum(axes), CAReduce(scalar.maximum, axes), Sum(axes, acc_dtype=x.dtype))
        ],
        lambda x, row, axes: [(x * row).sum(axes), rows(x * row, axes).max(-1), (x * row).sum(axes)],
        roundings=16,
    )

    @generated(
        st.sampled_from([(3, 4), (0, 4), (4, 0), (5, 5000), (3000, 7), (200, 70)]).flatmap(
            lambda shape: st.tuples(
                arrays(("float64", "float32"), shape=shape), arrays("float64", shape=(1, shape[1]), layouts=("C",))
            )
        ),
        st.sampled_from(AXES[2]),
        examples=40,
    )
    def test_values(self, values, axes):
        x, row = values
        self.fused.check(x, row.astype(x.dtype), axes=axes)

    def test_rewriting(self):
        x, v = tensor.dmatrix("x"), tensor.dvector("v")
        for out, count in [
            (tensor.sum(tensor.exp(x)), 1),
            (tensor.max(abs(x) + v, axis=1), 1),
            (tensor.sum(x + v), 1),
            (tensor.sum(x + 1), 0),
            (tensor.any(x, axis=0), 1),
            (tensor.sum(x), 0),
            (tensor.sum(tensor.exp(x)) + tensor.exp(x), 0),
            (tensor.sum(tensor.exp(x), axis=[]), 0),
            (tensor.prod(x.dimshuffle(1, 0) ** 3, axis=1), 1),
        ]:
            inputs = [i for i in (x, v) if i in theano.gof.graph.inputs([out])]
            f = theano.function(inputs, out, mode=theano.compile.get_mode("FAST_RUN"))
            self.assertEqual(
                len([n for n in f.maker.fgraph.toposort() if isinstance(n.op, ReducedElemwise)]), count, str(out)
            )
            plain = theano.function(inputs, out, mode=Mode("py", None))
            args = [np.arange(12.0).reshape(3, 4) / 7 - 0.5, np.arange(4.0)][: len(inputs)]
            np.testing.assert_allclose(f(*args), plain(*args))
        with theano.change_flags({"openmp": True}):
            f = theano.function([x], tensor.sum(tensor.exp(x)), mode=theano.compile.get_mode("FAST_RUN"))
            self.assertFalse(any(isinstance(n.op, ReducedElemwise) for n in f.maker.fgraph.toposort()))

    def test_sum_of_all_elements(self):
        """A kernel that computes and sums elements gives NumPy's sums, for all dtypes and memory orders.

        Some arrays are shorter than the blocks of the kernel, others are longer.
        """
        rng = np.random.RandomState(3)
        shapes_ = [(1, 1), (3, 5), (1, 1023), (1025, 1), (64, 1024), (9, 4097), (0, 4), (100, 300)]
        layouts = (
            lambda a: a,
            np.asfortranarray,
            lambda a: a[::-1],
            lambda a: a[:, ::-1],
            lambda a: np.repeat(a, 2, 1)[:, ::2],
            lambda a: np.repeat(a, 3, 0)[::3],
        )
        for dtype in ("float64", "float32", "float16", "int8", "int32", "uint16", "uint64", "bool", "complex64"):
            x, col, row = [
                tensor.TensorType(dtype, pattern)() for pattern in ((False, False), (False, True), (True, False))
            ]
            both = tensor.and_(x, row) | col if dtype == "bool" else x * col + row
            f = theano.function(
                [x, col, row],
                [tensor.sum(both), tensor.sum(tensor.neq(x, row)), tensor.sum(row * col)],
                mode=theano.compile.get_mode("FAST_RUN"),
            )
            if dtype not in ("float16", "complex64"):
                self.assertGreaterEqual(
                    len([n for n in f.maker.fgraph.toposort() if isinstance(n.op, ReducedElemwise)]), 3
                )
            wide = "float64" if dtype.startswith("float") else "complex128" if dtype == "complex64" else None
            for shape in shapes_:
                a, c, r = [
                    (rng.randint(0, 2 if dtype == "bool" else 4, s)).astype(dtype)
                    for s in (shape, (shape[0], 1), (1, shape[1]))
                ]
                want = [
                    ((a & r) | c if dtype == "bool" else a * c + r).sum(dtype=wide),
                    (a != r).sum(),
                    (r * c).sum(dtype=wide),
                ]
                for layout in layouts:
                    for got, expected in zip(f(layout(a), layout(c), layout(r)), want):
                        # sums of small integers are exact in every dtype; a float16 result may overflow
                        np.testing.assert_array_equal(
                            got, expected.astype(got.dtype) if dtype == "float16" else expected
                        )

    # Reductions use different loops for these shapes: long rows, which are added in tiles, few columns, short rows,
    # small arrays, and arrays without elements.
    SHAPES = (
        (6, 1, 5000),
        (300, 2, 130),
        (3000, 2, 3),
        (2, 100, 70),
        (40, 50, 7),
        (5, 3000, 1),
        (3, 5, 4),
        (1, 1, 1),
        (0, 4, 5),
        (4, 0, 5),
    )
    SOME_AXES = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))

    def sums(self, dtype):
        """Return functions that sum `terms` along some axes; the operands a, b and c are broadcast."""
        x, a, b, c = [
            tensor.TensorType(dtype, pattern)()
            for pattern in ((False, False, False), (False, True, True), (True, False, False), (False, False, True))
        ]
        terms = self.terms(tensor, x, a, b, c)
        functions = [
            theano.function([x, a, b, c], tensor.sum(term, axis=axes), on_unused_input="ignore", mode="FAST_RUN")
            for term in terms
            for axes in self.SOME_AXES
        ]
        for f in functions:
            self.assertTrue(
                any(isinstance(n.op, (ReducedElemwise, RowProgram)) for n in f.maker.fgraph.apply_nodes),
                str(f.maker.fgraph),
            )
        return functions

    @staticmethod
    def terms(module, x, a, b, c):
        """Return two expressions of x, a, b and c, which are variables or arrays."""
        if x.dtype == "bool":
            return [x & b | c, a & c | b]
        terms = [x * b + c, a * c + b]
        return [module.abs_(v) if module is tensor else abs(v) for v in terms] if x.dtype == "complex128" else terms

    def operands(self, shape, make):
        n, m, k = shape
        return [make(s) for s in (shape, (n, 1, 1), (1, m, k), (n, m, 1))]

    def test_sums_along_axes(self):
        rng = np.random.RandomState(5)
        layouts = (
            lambda a: a,
            np.asfortranarray,
            lambda a: a[::-1, :, ::-1],
            lambda a: np.repeat(a, 2, 2)[:, :, ::2],
            lambda a: np.ascontiguousarray(a.transpose(1, 2, 0)).transpose(2, 0, 1),
        )
        for dtype in ("float64", "float32", "int8", "uint32", "int64", "bool", "complex128"):
            functions, wide = self.sums(dtype), np.float64 if dtype.startswith("float") else None
            for shape in self.SHAPES:
                given = self.operands(shape, lambda s: rng.randint(0, 2 if dtype == "bool" else 4, s).astype(dtype))
                for layout in layouts:
                    x, a, b, c = map(layout, given)
                    terms = self.terms(np, x, a, b, c)
                    want = [np.sum(term, axes, dtype=wide) for term in terms for axes in self.SOME_AXES]
                    for f, expected in zip(functions, want):
                        # sums of small integers are exact
                        np.testing.assert_array_equal(f(x, a, b, c), expected)

    def test_the_interpreter_adds_in_the_same_order(self):
        rng = np.random.RandomState(6)
        for dtype in ("float64", "float32"):
            with theano.config.change_flags(cxx=""):
                interpreted = self.sums(dtype)
            with theano.config.change_flags(tiered="off"):
                compiled = self.sums(dtype)
            for shape in self.SHAPES:
                for order in "CF":
                    given = self.operands(shape, lambda s: np.asarray(rng.randn(*s).astype(dtype), order=order))
                    for one, other in zip(interpreted, compiled):
                        self.assertEqual(one(*given).tobytes(), other(*given).tobytes())

    def test_errors(self):
        x, v = tensor.dmatrix("x"), tensor.dvector("v")
        f = theano.function([x, v], tensor.sum(tensor.exp(x) * v))
        with self.assertRaisesRegex(ValueError, "Input dimension mis-match"):
            f(np.ones((3, 4)), np.ones(5))
        np.testing.assert_allclose(f(np.zeros((3, 4)), np.ones(4)), 12)
        g = theano.function([x], tensor.max(tensor.exp(x), axis=0))
        with self.assertRaisesRegex(ValueError, "length 0 in dimension 0"):
            g(np.ones((0, 4)))
        self.assertEqual(g(np.ones((4, 0))).shape, (0,))

    def test_derivatives(self):
        x = np.random.RandomState(1).randn(3, 4)
        op = ReducedElemwise(Elemwise(scalar.sqr), Sum(1))
        utt.verify_grad(op, [x], rng=np.random.RandomState(2))
        v, d = tensor.dmatrix(), tensor.dmatrix()
        np.testing.assert_allclose(theano.Rop(op(v), v, d).eval({v: x, d: x}), (2 * x * x).sum(1))

    def test_argmin(self):
        for dtype in ("float32", "uint8", "int64", "bool"):
            x = tensor.TensorType(dtype, (False, False))()
            f = theano.function([x], tensor.argmin(x, axis=0), mode=theano.compile.get_mode("FAST_RUN"))
            self.assertEqual([type(n.op) for n in f.maker.fgraph.toposort()], [Argmin])
            value = np.array([[3, 0, 200], [1, 2, 0]]).astype(dtype)
            np.testing.assert_array_equal(f(value), value.argmin(0))


class TestCumulative(unittest.TestCase):
    scan = Compared(
        lambda x, axis: [CumOp(axis, "add")(x), CumOp(axis, "mul")(x)],
        lambda x, axis: [
            u(x, axis, dtype="int64" if x.dtype == "bool" else x.dtype.newbyteorder("="))
            for u in (np.cumsum, np.cumprod)
        ],
        roundings=16,
        declare="none",
    )

    @generated(
        st.integers(1, 3).flatmap(
            lambda rank: st.one_of(
                arrays(
                    ("bool", "int8", "uint32", "int64", "float16", "float32", "float64", "complex64"),
                    ndim=rank,
                    contents=("small", "nonfinite"),
                ),
                arrays(
                    ("uint8", "int64", "float64"), shape=st.sampled_from(LONG[rank]), contents=("small", "positive")
                ),
            )
        ),
        st.data(),
        examples=100,
    )
    def test_values(self, x, data):
        with np.errstate(all="ignore"):
            self.scan.check(x, axis=data.draw(st.sampled_from([None, *range(-1, x.ndim)])))

    def test_products_that_overflow(self):
        x = np.full(3000, 10.0)
        x[0] = 0
        v = tensor.dvector()
        np.testing.assert_array_equal(tensor.cumprod(v).eval({v: x}), np.zeros(3000))


class TestSoftmax(unittest.TestCase):
    softmax = Compared(
        lambda x: [tensor.nnet.softmax(x), tensor.nnet.logsoftmax(x)],
        lambda x: [
            f(x.astype("float64"), axis=1).astype(x.dtype) for f in (scipy.special.softmax, scipy.special.log_softmax)
        ],
        modes=("c", "fast_run"),
        roundings=16,
        declare="none",
    )

    @generated(
        arrays(
            ("float32", "float64"),
            shape=st.sampled_from([(1, 1), (0, 3), (5, 3), (33, 24), (40, 25), (17, 100), (3, 1000)]),
            contents=("small", "positive"),
        ),
        st.sampled_from([1, 60, 400]),
        examples=50,
    )
    def test_values(self, x, scale):
        if x.flags.writeable:
            x *= scale
        self.softmax.check(x)

    @theano.change_flags({"DebugMode.check_finite": False})
    def test_small_and_odd_values(self):
        # The first row has results down to denormal numbers. Rows with NaN or inf, and rows of -inf only, give NaN.
        x = np.concatenate([np.linspace(-745, 0, 4001), [-np.inf]])[None, :]
        v = tensor.dmatrix()
        f = theano.function([v], tensor.nnet.softmax(v))
        want = scipy.special.softmax(x, axis=1)
        np.testing.assert_allclose(f(x), want, rtol=1e-13, atol=1e-323)
        for row in ([np.nan, 1, 2], [np.inf, 1, 2], [-np.inf] * 3):
            for width in (3, 60):
                value = np.full((1, width), row[-1], "float64")
                value[0, :3] = row
                self.assertTrue(
                    np.isnan(theano.function([v], tensor.nnet.softmax(v), mode=Mode("cvm", None))(value)).any(), row
                )


class TestDerivatives(unittest.TestCase):
    def test_gradients(self):
        cases = [
            (lambda x, axis: tensor.sum(x, axis)),
            (lambda x, axis: tensor.prod(x, axis)),
            (lambda x, axis: tensor.max(x, axis)),
            (lambda x, axis: tensor.min(x, axis)),
            (lambda x, axis: tensor.var(x, axis, ddof=1)),
            (lambda x, axis: tensor.cumsum(x, axis)),
            (lambda x, axis: tensor.cumprod(x, axis)),
            (lambda x, axis: tensor.ptp(x, axis)),
            (lambda x, axis: tensor.log(tensor.sum(tensor.exp(x), axis=axis))),
        ]
        x = np.random.RandomState(3).permutation(12).reshape(3, 4) / 4.0 + 0.3
        for k, build in enumerate(cases):
            for axis in (None, 1):
                utt.verify_grad(lambda v: build(v, axis), [x], rng=np.random.RandomState(k))

    def test_product_with_zeros(self):
        # The derivative of a product with respect to a factor is the product of the other factors. The products contain
        # no, one or several zeros. Some products have a single factor.
        v = tensor.dmatrix()
        for axis in (None, 0, 1):
            f = theano.function([v], theano.grad(tensor.prod(v, axis=axis).sum(), v))
            for x in ([[2.0, 3, 4], [2, 0, 4], [0, 0, 4]], [[0.0]], [[0.0, 5]], [[1.0], [0.0]]):
                x = np.array(x)
                groups = (
                    [[(i, j) for i in range(x.shape[0]) for j in range(x.shape[1])]]
                    if axis is None
                    else [[(i, j) if axis else (j, i) for j in range(x.shape[axis])] for i in range(x.shape[1 - axis])]
                )
                want = np.empty_like(x)
                for group in groups:
                    for place in group:
                        want[place] = np.prod([x[other] for other in group if other != place])
                np.testing.assert_allclose(f(x), want)


class TestShapes(unittest.TestCase):
    keep = Compared(
        lambda x, axis: [
            tensor.sum(x, axis, keepdims=True),
            tensor.any(x, axis, keepdims=True),
            tensor.max(x, axis, keepdims=True),
            tensor.argmax(x, axis, keepdims=True),
        ],
        lambda x, axis: [
            x.sum(axis, keepdims=True),
            x.any(axis, keepdims=True),
            x.max(axis, keepdims=True),
            x.argmax(axis, keepdims=True),
        ],
        modes=("c",),
    )

    @generated(
        shapes(ndim=(1, 2), sides=(1, 3)).flatmap(lambda shape: arrays("float64", shape=shape, layouts=("C",))),
        st.sampled_from([None, 0, -1]),
        examples=15,
    )
    def test_keepdims(self, x, axis):
        self.keep.check(x, axis=axis)
        self.assertTrue(
            all(
                b
                for d, b in enumerate(tensor.sum(self.keep.variables([x])[0], axis, keepdims=True).broadcastable)
                if axis is None or d == axis % x.ndim
            )
        )


if __name__ == "__main__":
    unittest.main()
