"""Fusion of reductions of rows with elementwise operations: `RowProgram` and the rule that makes it."""

import copy
import pickle
import random
import threading
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.configparser import change_flags
from theano_ng.gof.compiler import find_toolchain
from theano_ng.gof.compiler.background import wait_for_kernels
from theano_ng.scan.op import Scan
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.native.reduce import has_fold
from theano_ng.tensor.reductions.careduce import CAReduce, Prod, Sum
from theano_ng.tensor.reductions.row_program import RowProgram
from theano_ng.tensor.tests.generated import ALL_DTYPES
from theano_ng.tensor.tests.single_node import run_node

FAST_RUN = theano.compile.get_mode("FAST_RUN")
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 3e-2}
LAYOUTS = (
    lambda a: a,
    np.asfortranarray,
    lambda a: a[::-1],
    lambda a: np.repeat(a, 2, -1)[..., ::2],
    lambda a: np.broadcast_to(a[:1], a.shape),
)


def programs_of(f):
    return [node for node in f.maker.fgraph.toposort() if isinstance(node.op, RowProgram)]


def log_sum_exp(x):
    largest = x.max(-1, keepdims=True)
    return T.log(T.exp(x - largest).sum(-1)) + largest[:, 0]


def normalized(x):
    centered = x - x.mean(-1, keepdims=True)
    return centered / T.sqrt(T.sqr(centered).mean(-1, keepdims=True) + 2.0**-10)


#: Name -> the expression, and the same function in NumPy.
FUNCTIONS = {
    "logsumexp": (log_sum_exp, lambda x: np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)) + x.max(-1)),
    "variance": (lambda x: T.var(x, axis=-1), lambda x: np.var(x, axis=-1)),
    "normalized": (
        normalized,
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(np.var(x, axis=-1, keepdims=True) + 2.0**-10),
    ),
    "shares": (
        lambda x: T.exp(x) / (T.exp(x).sum(-1, keepdims=True) + 1),
        lambda x: np.exp(x) / (np.exp(x).sum(-1, keepdims=True) + 1),
    ),
    "range": (lambda x: x.max(-1) - x.min(-1), lambda x: x.max(-1) - x.min(-1)),
}


class TestValues(unittest.TestCase):
    def test_functions_of_rows(self):
        rng = np.random.RandomState(5)
        shapes = (1, 1), (3, 5), (300, 7), (7, 300), (129, 47), (5, 48), (64, 1024), (3, 2049), (2, 5000), (0, 4)
        for name, (make, expected) in FUNCTIONS.items():
            for dtype in ("float64", "float32"):
                x = T.matrix(dtype=dtype)
                f = theano.function([x], make(x), mode=FAST_RUN)
                self.assertEqual(len(programs_of(f)), 1, name)
                for shape in shapes:
                    for layout in LAYOUTS:
                        value = layout(rng.uniform(-2, 2, shape).astype(dtype))
                        with self.subTest(name=name, dtype=dtype, shape=shape):
                            result = f(value)
                            want = expected(value.astype("float64"))
                            self.assertEqual(result.dtype, np.dtype(dtype))
                            np.testing.assert_allclose(result, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])

    def test_vectors_along_the_rows_and_arrays_of_higher_rank(self):
        rng = np.random.RandomState(6)
        x, gain = T.tensor4(dtype="float64"), T.dmatrix()
        centered = x - x.mean((2, 3), keepdims=True)
        outputs = [centered / T.sqrt(T.sqr(centered).mean((2, 3), keepdims=True)) * gain, centered.max((2, 3))]
        f = theano.function([x, gain], outputs, mode=FAST_RUN)
        self.assertEqual(len(programs_of(f)), 1)
        for shape in ((2, 3, 4, 5), (3, 1, 2, 7), (1, 2, 40, 60), (2, 2, 1, 1)):
            value, factor = rng.normal(size=shape), rng.normal(size=shape[2:])
            for order in ((0, 1, 2, 3), (1, 0, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1)):
                given = np.ascontiguousarray(value.transpose(order)).transpose(np.argsort(order))
                middle = value - value.mean((2, 3), keepdims=True)
                want = middle / np.sqrt((middle**2).mean((2, 3), keepdims=True)) * factor
                with np.errstate(all="ignore"), self.subTest(shape=shape, order=order):
                    result, largest = f(given, factor)
                    np.testing.assert_allclose(result, want, rtol=1e-9, atol=1e-12)
                    np.testing.assert_allclose(largest, middle.max((2, 3)), rtol=1e-12, atol=1e-15)

    def test_integers_and_booleans(self):
        for dtype in ("int8", "int32", "uint16", "int64"):
            x = T.matrix(dtype=dtype)
            largest = x.max(1, keepdims=True)
            f = theano.function([x], [T.eq(x, largest), x.sum(1), T.any(T.eq(x, 3), axis=1)], mode=FAST_RUN)
            self.assertEqual(len(programs_of(f)), 1)
            value = np.random.RandomState(7).randint(0, 100, (40, 33)).astype(dtype)
            equal, total, found = f(value)
            np.testing.assert_array_equal(equal, value == value.max(1, keepdims=True))
            np.testing.assert_array_equal(total, value.sum(1))
            np.testing.assert_array_equal(found, (value == 3).any(1))

    def test_complex_numbers(self):
        """Programs copy and repeat elements of complex128, which have 16 bytes, like smaller elements."""
        rng = np.random.RandomState(8)
        for dtype in ("complex128", "complex64"):
            x, row, column = [
                T.TensorType(dtype, pattern)() for pattern in ((False, False), (True, False), (False, True))
            ]
            y = abs(x * column + row)
            f = theano.function(
                [x, row, column], [y.sum(-1), T.exp(y - y.max(-1, keepdims=True)).sum(-1)], mode=FAST_RUN
            )
            self.assertGreaterEqual(len(programs_of(f)), 1)
            for n, m in ((1, 1), (3, 5), (300, 7), (300, 40), (7, 300), (3, 5000), (0, 4), (4, 0)):
                values = [rng.randint(-3, 4, shape).astype(dtype) * (1 + 2j) for shape in ((n, m), (1, m), (n, 1))]
                for layout in LAYOUTS[: 5 if n else 4]:
                    a, b, c = [layout(v).astype(dtype, copy=False) for v in values]
                    want = abs(a * c + b).astype("float64")
                    if m == 0:
                        with self.assertRaisesRegex(ValueError, "length 0 in dimension 1"):
                            f(a, b, c)
                        continue
                    for got, expected in zip(
                        f(a, b, c), (want.sum(-1), np.exp(want - want.max(-1, keepdims=True)).sum(-1))
                    ):
                        np.testing.assert_allclose(got, expected, rtol=1e-12 if dtype == "complex128" else 1e-4)

    def test_inner_dimensions_without_elements(self):
        x, y = T.dtensor3(), T.dtensor3()
        f = theano.function(
            [x, y], [T.sum(x * y, axis=(1, 2)), T.sum(T.sqr(x - y.mean((1, 2), keepdims=True)), (1, 2))]
        )
        for shape in ((3, 0, 10000), (3, 10000, 0), (0, 3, 4), (2, 0, 0)):
            for layout in LAYOUTS[: 5 if shape[0] else 4]:
                value = layout(np.zeros(shape))
                for _ in range(20):
                    first, _ = f(value, value)
                    np.testing.assert_array_equal(first, np.zeros(shape[0]))

    def test_rows_without_elements(self):
        """Reductions of rows without elements read no memory, also if the rows are a part of a larger array."""
        x = T.dmatrix()
        f = theano.function([x], [x.sum(1), (x * x).sum(1), T.any(x > 0, axis=1), T.prod(x, axis=1)], mode=FAST_RUN)
        self.assertEqual(len(programs_of(f)), 1)
        for value in (np.full((7, 5), 3.0)[:, 2:2], np.full((7, 5), np.nan)[:, :0], np.zeros((7, 0))):
            total, squares, found, product = f(value)
            np.testing.assert_array_equal([total, squares, found, product], [[0.0] * 7] * 3 + [[1.0] * 7])
        largest = theano.function([x], [x.max(1), x.min(1) + x.max(1)], mode=FAST_RUN)
        self.assertRaisesRegex(ValueError, "length 0 in dimension 1", largest, np.zeros((7, 0)))
        self.assertEqual([v.shape for v in largest(np.zeros((0, 0)))], [(0,), (0,)])

    def test_nan_and_infinities(self):
        x = T.dmatrix()
        f = theano.function([x], [x - x.max(1, keepdims=True), x.sum(1), x.min(1)], mode=FAST_RUN)
        value = np.arange(60.0).reshape(4, 15)
        value[0, 3], value[1, 14], value[2, 0] = np.nan, np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            want = value - value.max(1, keepdims=True), value.sum(1), value.min(1)
        for result, expected in zip(f(value), want):
            np.testing.assert_array_equal(result, expected)

    def test_results_do_not_depend_on_the_number_of_rows(self):
        """Each row of a result has the same bits if the input contains only the corresponding row.

        The bits do not depend on the memory layout of the input, either.
        """
        x = T.dmatrix()
        f = theano.function([x], [normalized(x), log_sum_exp(x)], mode=FAST_RUN)
        for columns in (3, 15, 16, 47, 111, 113, 1000, 1025, 2048, 3000):
            value = np.random.RandomState(8).normal(size=(70, columns))
            whole = f(value)
            for k in (0, 41, 69):
                for alone, row in zip(f(value[k : k + 1]), whole):
                    np.testing.assert_array_equal(alone[0], row[k])
            for layout in LAYOUTS[1:4]:
                for other, row in zip(f(layout(value)), whole):
                    np.testing.assert_array_equal(other, layout(row) if layout is LAYOUTS[2] else row)

    @unittest.skipUnless(find_toolchain(), "needs a C++ compiler")
    def test_interpreted_and_compiled_bits(self):
        x = T.dmatrix()
        outputs = [normalized(x), log_sum_exp(x), T.grad(T.sum(normalized(x) ** 3), x)]
        with change_flags(cxx=""):
            interpreted = theano.function([x], outputs, mode=FAST_RUN)
        with change_flags(tiered="off"):
            compiled = theano.function([x], outputs, mode=FAST_RUN)
        for shape in ((50, 7), (20, 130), (3, 5000)):
            value = np.random.RandomState(9).normal(size=shape)
            for a, b in zip(interpreted(value), compiled(value)):
                np.testing.assert_array_equal(a, b)

    @unittest.skipUnless(find_toolchain(), "needs a C++ compiler")
    def test_kernels_that_replace_programs(self):
        """Results have the same bits before, while and after kernels replace the interpreter, also in two threads."""
        x = T.dmatrix()
        factor = 1 + float(np.random.default_rng().random())  # random: no earlier run has compiled the kernels
        outputs = [normalized(T.tanh(x * factor)), log_sum_exp(x * factor)]
        with change_flags(tiered="on"):
            f = theano.function([x], outputs, mode=FAST_RUN)
        with change_flags(cxx=""):
            expected = theano.function([x], outputs, mode=FAST_RUN)
        copies = [f, f.copy(share_memory=False)]
        values = [np.random.RandomState(k).normal(size=(70, 9 + 60 * k)) for k in range(3)]
        wanted = [expected(value) for value in values]
        found = []

        def call(function):
            for k in range(150):
                same = zip(function(values[k % 3]), wanted[k % 3])
                found.append(all(np.array_equal(a, b) for a, b in same))

        threads = [threading.Thread(target=call, args=(function,)) for function in copies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(wait_for_kernels(120))
        self.assertFalse(any(thunk.interprets() for thunk in f.fn.thunks if hasattr(thunk, "interprets")))
        call(f)
        self.assertEqual((len(found), all(found)), (450, True))

    @unittest.skipUnless(find_toolchain(), "needs a C++ compiler")
    def test_whole_graph_in_c(self):
        """The kernels of a program become functions of the classic C module."""
        x = T.dmatrix()
        outputs = [normalized(x), log_sum_exp(x)]
        f = theano.function([x], outputs, mode=theano.Mode("c", "fast_run"))
        self.assertEqual(len(programs_of(f)), 1)
        expected = theano.function([x], outputs, mode=FAST_RUN)
        for shape in ((5, 7), (3, 200), (2, 3000)):
            value = np.random.RandomState(3).normal(size=shape)
            for a, b in zip(f(value), expected(value)):  # not equal bits, because the C module uses exp and log of libm
                np.testing.assert_allclose(a, b, rtol=1e-14)

    @unittest.skipUnless(find_toolchain(), "needs a C++ compiler")
    def test_scalar_ops_of_users(self):
        """A user's scalar Op with C code becomes a part of a program, unless its C code needs Python."""

        class Half(scalar.UnaryScalarOp):
            c_text = "%s = %s / 2;"

            def impl(self, x):
                return x / 2

            def c_code(self, node, name, inputs, outputs, sub):
                return self.c_text % (outputs[0], inputs[0])

        class HalfInPython(Half):
            c_text = "%s = %s / 2; if (PyErr_Occurred()) { return; }"

        for kind, count in ((Half, 1), (HalfInPython, 0)):
            half = Elemwise(kind(scalar.upgrade_to_float, name="half"))
            x = T.dmatrix()
            f = theano.function([x], half(x) - half(x).max(1, keepdims=True), mode=FAST_RUN)
            self.assertEqual(len(programs_of(f)), count, kind)
            value = np.random.RandomState(1).normal(size=(4, 9))
            np.testing.assert_array_equal(f(value), value / 2 - (value / 2).max(1, keepdims=True))


class TestGenerated(unittest.TestCase):
    """Random programs on rows, compared with the same functions without the rule."""

    UNARY = (
        T.tanh,
        T.sqr,
        abs,
        T.neg,
        lambda a: T.exp(-abs(a)),
        lambda a: T.sqrt(abs(a) + 1),
        lambda a: T.switch(a > 0, a, a / 2),
    )
    BINARY = (T.add, T.sub, T.mul, lambda a, b: a / (abs(b) + 1), T.maximum, T.minimum)
    REDUCED = (T.sum, T.max, T.min, T.mean, lambda a, axis: T.any(a > 0.5, axis=axis).astype(a.dtype))

    def generated(self, choose, dtype, rank):
        """Return inputs and outputs of a random graph.

        The inputs are arrays, arrays with one value for each row (with and without the reduced dimensions), and a
        number. The rows of the last input may have another length than the rows of the other inputs.
        """
        length = choose.choice([1, 1, 1, 2]) if rank > 2 else 1
        outer = rank - length
        rows = [choose.random() < 0.2 for _ in range(outer)]
        patterns = rows + [False] * length, rows + [False] * length, [True] * outer + [False] * length
        patterns = *patterns, rows + [True] * length, rows, [], rows + [False] * length
        inputs = [T.TensorType(dtype, pattern)() for pattern in patterns]
        x, y, column, row, flat, number, other = inputs
        same = [x, y]
        pools, wide, narrow = (same, same, [other]), [row], [flat]
        for _ in range(choose.randint(8, 24)):
            arrays = choose.choice(pools)
            kind = choose.choice(
                ["reduce"] * 6 + ["narrow", "narrow", "wide", "drop"] + ["widen"] * 3 + ["one"] * 2 + ["two"] * 5
            )
            if kind == "reduce":
                narrow.append(choose.choice(self.REDUCED)(choose.choice(arrays), axis=tuple(range(outer, rank))))
            elif kind == "narrow":
                narrow.append(choose.choice(self.BINARY)(choose.choice(narrow), choose.choice([*narrow, number])))
            elif kind == "wide":
                wide.append(choose.choice(self.UNARY)(choose.choice(wide)))
            elif kind == "drop":
                narrow.append(choose.choice(wide).dimshuffle(*range(outer)))
            elif kind == "widen":
                wide.append(choose.choice(narrow).dimshuffle(*range(outer), *["x"] * length))
            elif kind == "one":
                arrays.append(choose.choice(self.UNARY)(choose.choice(arrays)))
            else:
                second = choose.choice([*arrays, *wide[1:] * 4, row, number, *[column] * (other not in arrays)])
                arrays.append(choose.choice(self.BINARY)(choose.choice(arrays), second))
        made = [v for values in (*pools, wide, narrow) for v in values if v not in inputs]
        last = [v for v in (same[-1], pools[2][-1], narrow[-1]) if v not in inputs]
        return inputs, last + choose.sample(made, min(len(made), choose.randint(0, 3)))

    def test_the_same_results(self):
        fused = 0
        for seed in range(100):
            choose = random.Random(seed)
            dtype, rank = choose.choice(["float64", "float64", "float32", "float16"]), choose.choice([2, 2, 3, 4])
            inputs, outputs = self.generated(choose, dtype, rank)
            with change_flags(cxx=""):
                f, expected = [
                    theano.function(inputs, outputs, mode=mode, on_unused_input="ignore")
                    for mode in (FAST_RUN, FAST_RUN.excluding("row_fusion"))
                ]
            self.assertEqual(programs_of(expected), [])
            fused += bool(programs_of(f))
            for k in range(3):
                dims = [choose.choice([1, 2, 3, 5, 7, 40]) for _ in range(rank)]
                dims[-1] = choose.choice([dims[-1], 130, 2049]) if rank < 4 else dims[-1]
                rng = np.random.RandomState(100 * seed + k)
                values = []
                for v in inputs:
                    lengths = dims if v is not inputs[-1] else [*dims[:-1], choose.choice([1, 4, dims[-1], 60])]
                    value = rng.normal(size=[1 if b else n for b, n in zip(v.type.broadcastable, lengths)]).astype(
                        dtype
                    )
                    values.append(choose.choice(LAYOUTS)(value) if value.ndim else value)
                for got, want in zip(f(*values), expected(*values)):
                    self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
                    scale = np.abs(want[np.isfinite(want)].astype("float64")).max(initial=1)
                    np.testing.assert_allclose(
                        got.astype("float64"), want.astype("float64"), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale, err_msg=str(seed)
                    )  # fmt: skip
        self.assertGreater(fused, 12)


class TestFolds(unittest.TestCase):
    def test_accumulators_can_be_combined(self):
        """For each reduction that has a loop, the package has a loop that combines two accumulators.

        Sums of long rows need the loop that combines accumulators.
        """
        for op in (scalar.add, scalar.mul, scalar.maximum, scalar.minimum, scalar.and_, scalar.or_, scalar.xor):
            for dtype in ALL_DTYPES:
                for reduction in (CAReduce(op), Sum(), Sum(acc_dtype=dtype), Prod()):
                    params = reduction._builtin_params(dtype, dtype, 2)
                    if params is not None:
                        accumulator = params["accumulator_type"]
                        self.assertTrue(has_fold(params["operation"], accumulator, accumulator), (op, dtype, reduction))


class TestGroups(unittest.TestCase):
    def programs(self, inputs, outputs, **flags):
        with change_flags(**flags):
            return programs_of(theano.function(inputs, outputs, mode=FAST_RUN))

    def test_one_reduction_is_no_group(self):
        x = T.dmatrix()
        self.assertEqual(self.programs([x], [T.exp(x).sum(1)]), [])
        self.assertEqual(self.programs([x], [x.sum(1) + 1]), [])
        self.assertEqual(len(self.programs([x], [x.sum(1), x.max(1)])), 1)

    def test_other_axes(self):
        x = T.dtensor3()
        self.assertEqual(self.programs([x], [x - x.sum(0, keepdims=True)]), [])
        self.assertEqual(self.programs([x], [x - x.sum((0, 2), keepdims=True)]), [])
        self.assertEqual(self.programs([x], [x - x.sum(keepdims=True)]), [])

    def test_a_path_through_other_nodes(self):
        """Two nodes are not fused if a path between them contains a node that cannot be fused."""
        x = T.dmatrix()
        centered = x - x.mean(1, keepdims=True)
        between = T.sort(centered, axis=1)
        out = between / T.sqrt(T.sqr(between).sum(1, keepdims=True) + centered.max(1, keepdims=True))
        f = theano.function([x], out, mode=FAST_RUN)
        self.assertEqual(len(programs_of(f)), 2)
        value = np.random.RandomState(1).normal(size=(6, 9))
        middle = value - value.mean(1, keepdims=True)
        ordered = np.sort(middle, 1)
        want = ordered / np.sqrt((ordered**2).sum(1, keepdims=True) + middle.max(1, keepdims=True))
        np.testing.assert_allclose(f(value), want, rtol=1e-12)

    def test_rows_of_two_lengths(self):
        """Programs on rows of one length may use results of programs on rows of another length."""
        x, y, w = T.dmatrices("x", "y", "w")
        near = T.tanh((x * w).sum(1, keepdims=True))
        far = T.exp(y - y.max(1, keepdims=True)).sum(1, keepdims=True)
        outputs = [(near + far)[:, 0], y * near / far, (x - x.min(1, keepdims=True)) * far]
        f = theano.function([x, y, w], outputs, mode=FAST_RUN)
        self.assertGreater(len(programs_of(f)), 1)
        rng = np.random.RandomState(4)
        a, b, c = rng.normal(size=(6, 4)), rng.normal(size=(6, 9)), rng.normal(size=(6, 4))
        close = np.tanh((a * c).sum(1, keepdims=True))
        wide = np.exp(b - b.max(1, keepdims=True)).sum(1, keepdims=True)
        want = (close + wide)[:, 0], b * close / wide, (a - a.min(1, keepdims=True)) * wide
        for got, expected in zip(f(a, b, c), want):
            np.testing.assert_allclose(got, expected, rtol=1e-12)

    def test_threads_and_flags_exclude_it(self):
        x = T.dmatrix()
        self.assertEqual(self.programs([x], [normalized(x)], openmp=True), [])
        self.assertEqual(self.programs([x], [normalized(x)], **{"tensor.local_elemwise_fusion": False}), [])

    def test_a_user_sees_intermediate_results(self):
        """A program also outputs intermediate results that other nodes use.

        These outputs have the dimensions that the other nodes expect.
        """
        x = T.dmatrix()
        largest = x.max(1, keepdims=True)
        total = T.exp(x - largest).sum(1)
        outputs = [largest, total, T.exp(x - largest) / total.dimshuffle(0, "x"), T.sort(largest[:, 0])]
        f = theano.function([x], outputs, mode=FAST_RUN)
        self.assertEqual(len(programs_of(f)), 1)
        value = np.random.RandomState(2).normal(size=(5, 8))
        top = value.max(1, keepdims=True)
        powers = np.exp(value - top)
        for got, want in zip(f(value), (top, powers.sum(1), powers / powers.sum(1, keepdims=True), np.sort(top[:, 0]))):
            self.assertEqual(got.shape, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-12)

    def test_too_many_operations(self):
        x = T.dmatrix()
        y = x
        for _k in range(45):
            y = y - T.sqr(y).mean(1, keepdims=True)
        self.assertEqual(self.programs([x], [y], cxx=""), [])

    def test_in_loops(self):
        """A loop whose step contains a program remains one C function."""
        x, h = T.dmatrix(), T.dmatrix()
        out = theano.scan(lambda row, h: normalized(h + row), sequences=x, outputs_info=[h], mode=FAST_RUN)[0]
        f = theano.function([x, h], out, mode=FAST_RUN)
        (op,) = [node.op for node in f.maker.fgraph.toposort() if isinstance(node.op, Scan)]
        self.assertTrue(any(isinstance(node.op, RowProgram) for node in op.inner_graph.maker().fgraph.apply_nodes))
        if find_toolchain():
            self.assertIsNotNone(op.inner_graph.kernel(op))
        rows, state = np.random.RandomState(3).normal(size=(4, 6)), np.random.RandomState(4).normal(size=(5, 6))
        for got, row in zip(f(rows, state), rows):
            state = FUNCTIONS["normalized"][1](state + row)
            np.testing.assert_allclose(got, state, rtol=1e-10)


class TestOp(unittest.TestCase):
    def node(self):
        x = T.dmatrix("x")
        f = theano.function([x], [normalized(x), x.max(1)], mode=FAST_RUN)
        (node,) = programs_of(f)
        return node

    def inputs(self, node, x, length):
        """Return values for the inputs of the node: the matrix x, the data of constants, and the length of the rows."""
        return [x if not any(v.type.broadcastable) else getattr(v, "data", length) for v in node.inputs]

    def test_python_and_c(self):
        node = self.node()
        for shape in ((4, 9), (1, 1), (3, 0), (0, 3)):
            x, length = np.random.RandomState(1).normal(size=shape), np.full((1, 1), float(shape[1]))
            values = dict(zip(node.inputs, self.inputs(node, x, length)))
            if shape == (3, 0):
                for impl in ("c", "py"):
                    with self.assertRaisesRegex(ValueError, "length 0 in dimension 1"):
                        run_node(node.outputs[0], values, impl)
                continue
            for c, py in zip(run_node(node.outputs[0], values, "c"), run_node(node.outputs[0], values, "py")):
                self.assertEqual((c.shape, c.dtype), (py.shape, py.dtype))
                np.testing.assert_allclose(c, py, rtol=1e-13, atol=1e-15)

    def test_equality_and_pickles(self):
        op, again = self.node().op, self.node().op
        self.assertEqual((op, hash(op)), (again, hash(again)))
        for copied in (copy.copy(op), pickle.loads(pickle.dumps(op))):
            self.assertEqual((op, hash(op), str(op)), (copied, hash(copied), str(copied)))
        self.assertNotEqual(op, RowProgram(op.steps, op.outputs[::-1], op.shape))
        self.assertIn("Sum", str(op))
        self.assertFalse(any(isinstance(inner, DimShuffle) and str(inner) in str(op) for inner, _ in op.steps))

    def test_derivatives(self):
        x, w = T.dmatrix("x"), T.dmatrix("w")
        node, value = self.node(), np.random.RandomState(2).normal(size=(3, 5))
        length = T.cast(x.shape[1], "float64").dimshuffle("x", "x")
        rows, largest = node.op(*self.inputs(node, x, length))
        plain = normalized(x), x.max(1)
        cost, expected = [(a**3).sum() + (b * b).sum() for a, b in ((rows, largest), plain)]
        for got, want in (
            (theano.grad(cost, x), theano.grad(expected, x)),
            (T.Rop(rows, x, w), T.Rop(plain[0], x, w)),
            (T.Rop(largest, x, w), T.Rop(plain[1], x, w)),
        ):
            f = theano.function([x, w], [got, want], on_unused_input="ignore")
            np.testing.assert_allclose(*f(value, np.cos(value)), rtol=1e-9, atol=1e-12)

    def test_shapes_that_do_not_match(self):
        x, y = T.dmatrices("x", "y")
        f = theano.function([x, y], (x - y).sum(1) + (x * y).max(1), mode=FAST_RUN)
        self.assertEqual(len(programs_of(f)), 1)
        with self.assertRaisesRegex(ValueError, r"Input dimension mis-match.*shape\[1\] = 3.*shape\[1\] = 4"):
            f(np.ones((2, 3)), np.ones((2, 4)))
        with self.assertRaisesRegex(ValueError, "Input dimension mis-match"):
            f(np.ones((2, 3)), np.ones((1, 3)))

    def test_output_memory_is_used_again_but_not_that_of_an_input(self):
        x = T.dmatrix("x")
        f = theano.function([theano.In(x, borrow=True)], theano.Out(normalized(x), borrow=True), mode=FAST_RUN)
        value = np.random.RandomState(5).normal(size=(4, 6))
        first = f(value)
        want = FUNCTIONS["normalized"][1](first.copy())
        np.testing.assert_allclose(f(first), want, rtol=1e-9)


if __name__ == "__main__":
    unittest.main()
