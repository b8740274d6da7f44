"""Tests of sorting, and of the k best elements, on a device."""

import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import contexts
from theano_ng.gpuarray import sort as device_sort
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.kernels import sort as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.sort import GpuArgSortOp, GpuSortOp, GpuTopKOp
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.type import GpuArrayType

RNG = np.random.default_rng(12)
KINDS = ("quicksort", "mergesort", "heapsort", "stable")


def values(dtype, shape):
    """Return an array with equal elements, and for floats with both zeros, infinities, and NaNs with several bits."""
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        limits = np.iinfo(dtype)
        wide = RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(RNG.uniform(size=shape) < 0.5, wide, wide % 5).astype(dtype)
    x = (RNG.standard_normal(shape) * 9).astype(dtype)
    nans = np.array([np.nan, -np.nan], dtype).view("uint%d" % (8 * x.itemsize))
    special = np.concatenate([np.array([0, -0.0, np.inf, -np.inf, 1], dtype), (nans + 3).view(dtype), nans.view(dtype)])
    return np.where(RNG.uniform(size=shape) < 0.5, x, RNG.choice(special, shape))


def bits(x):
    """Return the bits of an array, so that NaNs and zeros are compared, too."""
    x = np.ascontiguousarray(x)
    return x.view("uint%d" % (8 * x.itemsize))


def best(x, k, axis, sorted):
    """Return the indices of the k largest (k > 0) or smallest elements, by a stable argsort with NumPy."""
    ranks = np.argsort(np.argsort(x, axis, kind="stable"), axis, kind="stable")
    same = np.sort(x, axis, kind="stable")
    fresh = np.ones(x.shape, bool)
    later, earlier = np.take(same, range(1, x.shape[axis]), axis), np.take(same, range(x.shape[axis] - 1), axis)
    with np.errstate(invalid="ignore"):
        differ = (later != earlier) & ~((later != later) & (earlier != earlier))
    fresh[(slice(None),) * axis + (slice(1, None),)] = differ
    place = np.take_along_axis(np.cumsum(fresh, axis), ranks, axis)  # equal for equal elements
    order = np.argsort(place if k < 0 else -place, axis, kind="stable").take(range(abs(k)), axis)
    return order if sorted else np.sort(order, axis)


class Variants:
    """The ways in which a device sorts: a thread for each line, a group for each line, or several groups."""

    ALL = {"threads": (True, -1, 16384), "groups": (False, -1, 16384), "shared": (False, 40, 64)}

    def __init__(self, name):
        self.processor, self.groups, self.least = self.ALL[name]

    def __enter__(self):
        self.patches = [
            mock.patch.object(device_sort, "_on_processor", lambda context: self.processor),
            mock.patch.object(device_sort, "_GROUPS", self.groups),
            mock.patch.object(device_sort, "_LEAST", self.least),
        ]
        for patch in self.patches:
            patch.start()

    def __exit__(self, *error):
        for patch in self.patches:
            patch.stop()


class TestSort(unittest.TestCase):
    def setUp(self):
        context()

    def agree(self, functions, value, axis, layout="C"):
        """Compare the results with those of NumPy's stable sort, to the last bit."""
        order = np.argsort(value, axis, kind="stable")
        given = placed(value, layout)
        result, indices = [np.asarray(f(given, axis)) for f in functions]
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(bits(result), bits(np.take_along_axis(value, order, axis)))
        self.assertEqual((result.dtype, indices.dtype), (value.dtype, "int64"))
        np.testing.assert_array_equal(bits(given), bits(value))

    def compiled(self, dtype, ndim, kind="stable"):
        x, axis = gpu_variable(dtype, ndim), T.lscalar()
        return [theano.function([x, axis], op(kind)(x, axis)) for op in (GpuSortOp, GpuArgSortOp)]

    def test_every_dtype(self):
        """A thread for each line: short lines, and lines with special numbers and without them."""
        for dtype, kind in zip(kernels.DTYPES, itertools.cycle(KINDS)):
            functions = self.compiled(dtype, 2, kind)
            for shape, layout in zip(((1, 1), (3, 7), (2, kernels._FEW), (2, kernels._FEW + 1), (5, 700)), 2 * LAYOUTS):
                for axis in (0, -1):
                    with self.subTest(dtype=dtype, shape=shape, axis=axis):
                        self.agree(functions, values(dtype, shape), axis, layout)
            self.agree(functions, np.arange(1, 301).astype(dtype).reshape(1, -1), 1)
            self.agree(functions, np.ones((2, 300), dtype), 1)

    def test_groups(self):
        """The kernels for graphics cards: a group for each line, and several groups for each line."""
        for variant, dtype in (("groups", "float32"), ("groups", "uint8"), ("shared", "float32")):
            with Variants(variant):
                functions = self.compiled(dtype, 2)
            for shape, layout in zip(((1, 1), (3, 7), (2, 4500), (40, 3)), LAYOUTS):
                for axis in (0, 1):
                    with self.subTest(variant=variant, dtype=dtype, shape=shape, axis=axis):
                        self.agree(functions, values(dtype, shape), axis, layout)

    def test_axes(self):
        functions = self.compiled("float32", 3)
        for shape, layout in zip(((2, 3, 4), (5, 1, 3), (0, 3, 4), (2, 0, 4), (2, 3, 0)), itertools.cycle(LAYOUTS)):
            for axis in range(-3, 3):
                self.agree(functions, values("float32", shape), axis, layout)

    def test_a_long_line(self):
        value = RNG.standard_normal((1, 10**6)).astype("float32")
        self.agree(self.compiled("float32", 2), value, 1)

    def test_flattened(self):
        x = gpu_variable("float32", 2)
        value = values("float32", (4, 30))
        for op, expected in ((GpuSortOp, np.sort), (GpuArgSortOp, np.argsort)):
            for layout in LAYOUTS:
                result = theano.function([x], op("stable")(x, None))(placed(value, layout))
                np.testing.assert_array_equal(result, expected(value, None, kind="stable"))

    def test_axis_as_float(self):
        x, axis = gpu_variable("float32", 2), T.fscalar()
        f = theano.function([x, axis], GpuSortOp("stable")(x, axis))
        value = values("float32", (4, 3))
        np.testing.assert_array_equal(f(placed(value, "C"), 0.0), np.sort(value, 0))
        with self.assertRaisesRegex(ValueError, "must be an integer or None, not 0.5"):
            f(placed(value, "C"), 0.5)

    def test_errors(self):
        for op in (GpuSortOp, GpuArgSortOp):
            with self.assertRaisesRegex(ValueError, "kind must be one of"):
                op("fast")
            with self.assertRaisesRegex(ValueError, "0-d"):
                op("stable")(gpu_variable("float32", 0))
            x, axis = gpu_variable("float32", 2), T.lscalar()
            f = theano.function([x, axis], op("stable")(x, axis))
            for wrong in (2, -3):
                with self.assertRaisesRegex(ValueError, "axis %d is out of bounds" % wrong):
                    f(placed(np.ones((2, 3), "float32"), "C"), wrong)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x = gpu_variable("float32", 2)
        outputs = [op("stable")(x, axis) for op in (GpuSortOp, GpuArgSortOp) for axis in (0, 1)]
        f = theano.function([x], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        value = values("float32", (5, 90))
        for result, expected in zip(
            f(placed(value, "C")), [f(value, a, kind="stable") for f in (np.sort, np.argsort) for a in (0, 1)]
        ):
            np.testing.assert_array_equal(result, expected)


class TestTopK(unittest.TestCase):
    def setUp(self):
        context()

    def agree(self, op, f, value, k, layout="C"):
        index = best(value, k, op.axis % value.ndim, op.sorted)
        results = [np.asarray(v) for v in f(placed(value, layout), k)]
        if op.return_indices:
            np.testing.assert_array_equal(results[-1], index.astype(op.idx_dtype))
            self.assertEqual(results[-1].dtype, op.idx_dtype)
        if op.return_values:
            np.testing.assert_array_equal(bits(results[0]), bits(np.take_along_axis(value, index, op.axis)))

    def compiled(self, op, dtype, ndim=2):
        x, k = gpu_variable(dtype, ndim), T.lscalar()
        return theano.function([x, k], op(x, k, return_list=True))

    def numbers(self, n):
        """Return values of k for lines of length n."""
        return sorted({k * sign for k in (1, min(n, 16), min(n, 17), n // 2 + 1, n) for sign in (1, -1)})

    def test_every_dtype(self):
        for dtype, (axis, sorted_) in zip(kernels.DTYPES, itertools.cycle(itertools.product((-1, 0), (True, False)))):
            op = GpuTopKOp(axis, sorted_)
            f = self.compiled(op, dtype)
            for shape, layout in zip(((1, 1), (6, 5), (3, 200), (200, 2)), LAYOUTS):
                for k in self.numbers(shape[axis]):
                    with self.subTest(dtype=dtype, shape=shape, axis=axis, sorted=sorted_, k=k):
                        self.agree(op, f, values(dtype, shape), k, layout)

    def test_groups(self):
        """The kernels for graphics cards: a group for each line, and several groups for each line."""
        for variant, dtype, sorted_ in (
            ("groups", "float32", True),
            ("groups", "int8", False),
            ("shared", "float32", True),
        ):
            op = GpuTopKOp(-1, sorted_)
            with Variants(variant):
                f = self.compiled(op, dtype)
            for shape, layout in zip(((1, 1), (3, 7), (2, 4500), (40, 3)), LAYOUTS):
                for k in self.numbers(shape[1]):
                    with self.subTest(variant=variant, dtype=dtype, shape=shape, k=k):
                        self.agree(op, f, values(dtype, shape), k, layout)

    def test_options(self):
        """All combinations of options; the type of the result depends on them."""
        value = values("float32", (3, 4, 5))
        for axis, sorted_, (with_values, with_indices), idx_dtype in itertools.product(
            (0, 1, -1), (True, False), ((True, True), (True, False), (False, True)), ("int64", "int8", "uint32")
        ):
            op = GpuTopKOp(axis, sorted_, idx_dtype, with_values, with_indices)
            f = self.compiled(op, "float32", 3)
            for k in (2, -3):
                with self.subTest(op=op, k=k):
                    self.agree(op, f, value, k)

    def test_empty(self):
        for sorted_ in (True, False):
            op = GpuTopKOp(1, sorted_)
            self.agree(op, self.compiled(op, "float32"), np.zeros((0, 4), "float32"), 3)

    def test_errors(self):
        x = gpu_variable("float32", 2)
        f = self.compiled(GpuTopKOp(1), "float32")
        for k in (0, 5, -5):
            with self.assertRaisesRegex(ValueError, r"between 1 and the length of the axis \(4\).*got %d" % k):
                f(placed(np.ones((2, 4), "float32"), "C"), k)
        self.assertEqual(f(placed(np.ones((2, 4), "float32"), "C"), 3)[0].shape, (2, 3))
        with self.assertRaisesRegex(ValueError, "Neither return_values nor return_indices"):
            GpuTopKOp(return_values=False, return_indices=False)
        with self.assertRaisesRegex(IndexError, "axis"):
            GpuTopKOp(2)(x, 1)
        with self.assertRaises(TypeError):
            GpuTopKOp(idx_dtype="float32")
        with self.assertRaises(TypeError):
            GpuTopKOp()(x, 1.5)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x = gpu_variable("float32", 2)
        ops = [GpuTopKOp(0), GpuTopKOp(1, False, "int32"), GpuTopKOp(1, True, return_values=False)]
        outputs = [v for op in ops for v in op(x, -2, return_list=True)]
        f = theano.function([x], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        value = values("float32", (5, 6))
        results = f(placed(value, "C"))
        expected = [best(value, -2, axis, sorted_) for axis, sorted_ in ((0, True), (1, False), (1, True))]
        for result, right in zip((results[1], results[3], results[4]), expected):
            np.testing.assert_array_equal(result, right)


class TestLaunches(unittest.TestCase):
    """Calls of the driver on a stub of a GPU. A node only launches kernels, and a launch depends on no result."""

    def setUp(self):
        self.context = pygpu.init("stub3")
        contexts.reg_context("stub", self.context)
        self.addCleanup(contexts.unregister, "stub")
        self.state = native.load().stub_of(3).contents

    def calls(self, op, shape, *k, layout="C"):
        """Return the numbers of launches, transfers and waits of a second call of a node."""
        x = gpu_variable("float32", 2, "stub")
        f = theano.function([x], op(x, *k, return_list=True), mode="FAST_RUN")
        value = placed(np.zeros(shape, "float32"), layout, "stub")
        f(value)
        names = "launch", "read", "write", "copy", "sync"
        before = [self.state.count(name) for name in names]
        f(value)
        return [self.state.count(name) - n for name, n in zip(names, before)]

    def test_launches(self):
        many, long, digits = (1000, 50), (1, 10**6), 32 // kernels.DIGIT
        for op, shape, k, launches in (
            (GpuSortOp("stable"), many, (1,), 1),
            (GpuArgSortOp("stable"), many, (1,), 1),
            (GpuSortOp("stable"), many, (0,), 3),  # the array is copied before and after the sort
            (GpuSortOp("stable"), long, (1,), 3 * digits),
            (GpuArgSortOp("stable"), long, (1,), 1 + 3 * digits),
            (GpuTopKOp(1, False), many, (5,), 1),
            (GpuTopKOp(1, True), many, (5,), 2),
            (GpuTopKOp(1, True), many, (50,), 1),
            (GpuTopKOp(1, True), long, (5,), 2 * digits + 4),
            (GpuTopKOp(1, False, "int32"), long, (5,), 2 * digits + 4),  # the last launch converts the indices
        ):
            with self.subTest(op=op, shape=shape, k=k):
                self.assertEqual(self.calls(op, shape, *k), [launches, 0, 0, 0, 0])

    def test_a_launch_fails(self):
        """A launch that fails raises an error. All work space is freed, and the function works afterwards."""
        x = gpu_variable("float32", 2, "stub")
        value = placed(np.zeros((1, 10**5), "float32"), "C", "stub")
        for op, k in ((GpuArgSortOp("stable"), 1), (GpuTopKOp(1), 5)):
            f = theano.function([x], [v[0, 0] for v in op(x, k, return_list=True)], mode="FAST_RUN")
            f(value)
            before = self.context.memory["in_use"]
            self.state.failing_call, self.state.failing_code = native.STUB_CALLS.index("launch"), native.GA_RUN_ERROR
            for which in (1, 2, 3, 7, 19):
                self.state.fails_in = which
                with self.assertRaisesRegex(RuntimeError, "gpuarray error: %s" % type(op).__name__):
                    f(value)
                f(value)
                self.assertEqual(self.context.memory["in_use"], before)


class TestRules(unittest.TestCase):
    """Programs that sort on a device have the results of the host, and nothing but their results is transferred."""

    def setUp(self):
        self.name = context()
        self.mode = get_mode("FAST_RUN").including("gpuarray")

    GRAPHS = {
        "sort": lambda x: T.sort(x, 0),
        "argsort": lambda x: T.argsort(x, -1),
        "flattened": lambda x: T.sort(x, None),
        "largest": lambda x: T.topk(x, 3, 1),
        "smallest": lambda x: T.topk(x, -2, 0, sorted=False),
        "places": lambda x: T.argtopk(x, 3, 1, idx_dtype="int16"),
        "both": lambda x: T.topk_and_argtopk(x, 2, 0)[0],
    }

    def compare(self, graph, dtype, value):
        """Compile a graph for the device and for the host, and compare the results."""
        x, shared = T.TensorType(dtype, (False, False))(), theano.shared(value, target=self.name)
        f = theano.function([], graph(shared), mode=self.mode)
        expected = theano.function([x], graph(x), mode="FAST_RUN")(value)
        np.testing.assert_array_equal(f(), expected)
        ops = [node.op for node in f.maker.fgraph.toposort()]
        result_is_on_host = not isinstance(f.maker.fgraph.outputs[0].type, GpuArrayType)
        moved = [type(op) for op in ops if isinstance(op, (GpuFromHost, HostFromGpu))]
        self.assertEqual(moved, [HostFromGpu] * result_is_on_host)
        self.assertTrue(any(isinstance(op, (GpuSortOp, GpuArgSortOp, GpuTopKOp)) for op in ops), ops)

    @config.change_flags(on_opt_error="raise")
    def test_graphs(self):
        for dtype, (name, graph) in itertools.product(("float16", "float32", "int32"), self.GRAPHS.items()):
            with self.subTest(graph=name, dtype=dtype):
                self.compare(graph, dtype, values(dtype, (5, 6)))

    @config.change_flags(on_opt_error="raise")
    def test_gradients(self):
        """Gradients are computed on the device, too. Equal elements get the gradients of their places."""
        weights = RNG.standard_normal(5).astype("float32")
        for name in ("sort", "flattened", "largest", "smallest", "both"):
            with self.subTest(name):
                graph = self.GRAPHS[name]

                def gradient(x):
                    z = graph(x)
                    return theano.grad((z * T.constant(weights[0]) * z).sum(), x)

                value = np.round(RNG.standard_normal((5, 6)) * 2).astype("float32")
                self.compare(gradient, "float32", value)

    def test_derivatives_in_a_direction(self):
        x, v = gpu_variable("float32", 2), gpu_variable("float32", 2)
        h, d = T.fmatrices("hd")
        value, direction = RNG.standard_normal((2, 5, 6)).astype("float32")
        for name in ("sort", "flattened", "largest"):
            graph = self.GRAPHS[name]
            there = theano.function([x, v], T.Rop(graph(x), x, v), mode=self.mode)
            here = theano.function([h, d], T.Rop(graph(h), h, d))
            np.testing.assert_array_equal(there(placed(value, "C"), placed(direction, "C")), here(value, direction))

    def test_shapes(self):
        """The shapes of results are known without the results."""
        x, k = gpu_variable("float32", 2), T.lscalar()
        outputs = [GpuSortOp("stable")(x, 0), GpuArgSortOp("stable")(x), *GpuTopKOp(0)(x, k)]
        f = theano.function([x, k], [v.shape for v in outputs])
        self.assertFalse(
            [n for n in f.maker.fgraph.toposort() if any(isinstance(v.type, GpuArrayType) for v in n.outputs)]
        )
        for result, expected in zip(f(placed(np.ones((5, 6), "float32"), "C"), -3), [(5, 6), (5, 6), (3, 6), (3, 6)]):
            self.assertEqual(tuple(result), expected)


if __name__ == "__main__":
    unittest.main()
