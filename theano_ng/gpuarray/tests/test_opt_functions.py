"""Tests of functions that compute on a device: shared variables, contexts, types that stay on the host, modes."""

import io
import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.functions.exposure import exposure
from theano_ng.compile.monitormode import MonitorMode
from theano_ng.compile.nanguardmode import NanGuardMode
from theano_ng.configdefaults import config
from theano_ng.gof.opt import check_stack_trace
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.gpuarray.basic_ops import GpuFromHost, GpuToGpu, HostFromGpu
from theano_ng.gpuarray.devices import transfer
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.pygpu.gpuarray import GpuArray
from theano_ng.gpuarray.tests.device import DEVICE, context
from theano_ng.gpuarray.type import (
    GpuArraySharedVariable,
    GpuArrayType,
    get_context,
    gpuarray_shared_constructor,
    list_contexts,
    reg_context,
)
from theano_ng.ifelse import ifelse
from theano_ng.tensor.subtensor import Subtensor

MODE = theano.compile.mode.get_mode("FAST_RUN").including("gpuarray")


def names(f):
    """Return the class names of a function's Ops in topological order."""
    return [type(node.op).__name__ for node in f.maker.fgraph.toposort()]


def transfers(f):
    """Return the numbers of nodes that copy from the host, to the host, and between devices."""
    found = names(f)
    return tuple(found.count(cls.__name__) for cls in (GpuFromHost, HostFromGpu, GpuToGpu))


def second_context():
    """Return the name of a second context, which is not merely another name of the default context."""
    if "second" not in list_contexts():
        reg_context("second", pygpu.init(DEVICE))
    return "second"


X, Y = T.matrices(2)
PAIR = OpFromGraph([X, Y], [T.tanh(X) * Y])


def mixed(a, b):
    """Return expressions of two matrices. Together, the expressions use all kinds of device Ops."""
    loop, _ = theano.scan(lambda row, state, w: state * row + w[0], sequences=a, outputs_info=b[0], non_sequences=b)
    rows = T.cast(T.argmax(b, axis=1), "int64")
    return [
        T.exp(a) + b * 2,
        T.switch(a > b, a, b),
        (a + b).sum(axis=0) + b,
        T.max_and_argmax(a * b, axis=1)[0],
        T.concatenate([a, b], axis=1),
        T.stack([a[0], b[0]]),
        T.set_subtensor(a[1:], b[1:]),
        T.inc_subtensor(a[:, 0], b[0]),
        a[rows],
        a[rows, T.argmax(a, axis=0)],
        a[b > 0.7],
        T.inc_subtensor(a[rows], b),
        T.set_subtensor(a[b > 0.7], b[b > 0.7]),
        T.inc_subtensor(a[b > 0.7], b[0, 0]),
        T.alloc(a[0], 2, 3) + b[:2],
        a.reshape(b.shape) + b,
        T.cumsum(a, axis=0) * b,
        T.diag(a) + T.diag(b),
        T.diag(b[0]) + a,
        T.fill(a, b[0, 0]),
        T.clip(a, b[0, 0], b[1, 1]),
        T.split(a, [1, 2], 2)[0] + b[:1],
        ifelse(T.gt(b[0, 0], 2), a, b),
        T.dot(a, b),
        theano.grad((T.tanh(a) * b).sum(), a) + theano.grad((a * T.exp(b)).sum(), b),
        theano.grad(ifelse(T.lt(b[0, 0], 2), a * 2, b).sum(), a),
        loop,
        *theano.grad((loop**2).sum(), [a, b]),
        *theano.grad(PAIR(a, b).sum(), [a, b]),
    ]


class Test(unittest.TestCase):
    def setUp(self):
        context()
        self.rng = np.random.default_rng(8)

    def shared(self, value, name=None):
        return gpuarray_shared_constructor(np.asarray(value), name=name, target=None)


class TestTransfers(Test):
    def test_as_many_as_needed(self):
        """A function copies only its results from the device to the host, not intermediate values.

        The function of the test applies about twenty Ops to shared variables.
        """
        a, b = self.shared(self.rng.uniform(0, 1, (4, 5)), "a"), self.shared(np.arange(5.0), "b")
        x = a
        for k in range(5):
            x = T.tanh(x * b + k)
            x = x / x.sum(axis=1, keepdims=True)
        f = theano.function([], x.max(axis=0), mode=MODE)
        self.assertEqual(transfers(f), (0, 1, 0))
        g = theano.function([], transfer(x.max(axis=0), None), mode=MODE)
        self.assertEqual(transfers(g), (0, 0, 0))
        self.assertIsInstance(g(), GpuArray)
        np.testing.assert_allclose(np.asarray(g()), f())
        v = T.vector()
        h = theano.function([v], [x + v, x * v, v.sum()], mode=MODE)
        self.assertEqual(transfers(h), (1, 3, 0))

    def test_updates_stay(self):
        a = self.shared(np.arange(3.0))
        v = T.vector()
        f = theano.function([v], a.sum(), updates={a: a * 2 + v}, mode=MODE)
        self.assertEqual(transfers(f), (1, 1, 0))
        self.assertEqual([float(f(np.ones(3))) for _ in range(3)], [3, 9, 21])
        np.testing.assert_array_equal(a.get_value(), [7, 15, 23])

    def test_state_after_a_failure(self):
        a, i = self.shared(np.arange(3.0)), T.lscalar()
        f = theano.function([i], [], updates={a: T.inc_subtensor(a[i], 1.0)}, mode=MODE)
        g = theano.function([i], (a * 2)[i], updates={a: a + 1}, mode=MODE)
        f(1)
        for function in (f, g):
            with self.assertRaises(IndexError):
                function(7)
        np.testing.assert_array_equal(a.get_value(), [0, 2, 2])

    def test_states_after_failures(self):
        """If one of several in-place updates raises an error, all shared variables keep their values and arrays.

        The updates fail because an index is out of bounds or a length does not match.
        """
        a, b, c = (self.shared(np.zeros((4, 2)), name) for name in "abc")
        i, j, k, x = T.lvector("i"), T.lvector("j"), T.lscalar("k"), T.vector("x")
        updates = [
            (c, c * 2 + x),
            (a, T.inc_subtensor(a[i], x)),
            (b, T.set_subtensor(T.inc_subtensor(b[j], x)[k], 5.0)),
        ]
        f = theano.function([i, j, k, x], updates=updates, mode=MODE)
        good, two, three = ([0], [1], 2, np.ones(2)), np.ones(2), np.ones(3)
        f(*good)
        arrays = [s.get_value(borrow=True, return_internal_type=True) for s in (a, b, c)]
        before = [s.get_value() for s in (a, b, c)]
        for bad in (
            ([9], [0], 0, two),
            ([0], [9], 0, two),
            ([0], [0], 9, two),
            ([0], [0], -9, two),
            ([0], [1], 2, three),
        ):
            with self.assertRaises((IndexError, ValueError)):
                f(*bad)
            for s, value in zip((a, b, c), before):
                np.testing.assert_array_equal(s.get_value(), value)
        for s, array in zip((a, b, c), arrays):
            self.assertIs(s.get_value(borrow=True, return_internal_type=True), array)
        f(*good)
        np.testing.assert_array_equal(c.get_value(), [[3, 3]] * 4)
        # A training step makes no backup copies of its states before its nodes run.
        g = theano.function([x], updates=[(a, a - x), (b, b * x)], mode=MODE)
        found = exposure(g.maker.fgraph, g.maker.overwritten_states(), g.fn.nodes, g.fn.thunks)
        self.assertEqual((found.if_small, found.always), ([], []))

    def test_stack_traces(self):
        """Nodes on the device, and transfers, have the stack trace of the user's line."""
        x, y = T.vector("x"), T.vector("y")
        with config.change_flags(check_stack_trace="raise", on_opt_error="raise"):
            f = theano.function([x, y], [x * y, (x + y).sum(), T.concatenate([x, y])[::2]], mode=MODE)
        self.assertTrue(check_stack_trace(f, "all"))

    def test_givens(self):
        a, x = self.shared(np.arange(3.0)), T.vector()
        f = theano.function([], (x * 3).sum(), givens={x: a}, mode=MODE)
        self.assertEqual((float(f()), transfers(f)), (9, (0, 1, 0)))

    def test_a_part_of_an_input(self):
        """The host extracts a part of an input if no other node reads the input."""
        x, i = T.matrix(), T.lscalar()
        f = theano.function([x, i], T.exp(x[i]), mode=MODE)
        self.assertIn(Subtensor.__name__, names(f))
        value = self.rng.uniform(0, 1, (3, 4))
        np.testing.assert_allclose(f(value, 1), np.exp(value[1]))
        g = theano.function([x, i], T.exp(x[i]) + x.sum(), mode=MODE)
        self.assertEqual(transfers(g), (1, 1, 0))
        self.assertNotIn(Subtensor.__name__, names(g))
        two = theano.function([x], T.exp(x[1:]) + T.tanh(x[:-1]), mode=MODE)
        np.testing.assert_allclose(two(value), np.exp(value[1:]) + np.tanh(value[:-1]))

    def test_host_inputs(self):
        x = T.vector("x")
        x.tag.target = "cpu"
        f = theano.function([x], x * 2, mode=MODE)
        self.assertEqual(transfers(f), (0, 0, 0))
        a = self.shared(np.arange(3.0))
        g = theano.function([x], x * a, mode=MODE)
        self.assertEqual(transfers(g), (1, 1, 0))
        np.testing.assert_array_equal(g([1, 2, 3]), [0, 2, 6])

    def test_numbers_stay(self):
        x, y = T.dscalar("x"), T.iscalar("y")
        f = theano.function([x, y], T.exp(x) * y, mode=MODE)
        self.assertEqual(transfers(f), (0, 0, 0))


class TestContexts(Test):
    def test_two_names(self):
        other = context("other")
        a, b = self.shared(np.arange(3.0), "a"), gpuarray_shared_constructor(np.ones(3), target=other, name="b")
        self.assertEqual((a.type.context_name, b.type.context_name), (None, other))
        f = theano.function([], transfer(a * 2, other) + b, mode=MODE)
        np.testing.assert_array_equal(f(), [1, 3, 5])
        self.assertEqual(transfers(f), (0, 1, 1))
        there = theano.function([], transfer(transfer(a, other), None) * 2, mode=MODE)
        self.assertEqual(transfers(there), (0, 1, 0))
        c = theano.shared(np.ones(3, "float32"), target=other)
        self.assertEqual(c.type.context_name, other)

    def test_where_it_is(self):
        """An operand on the host is transferred to the context of the other operand.

        This also holds if that context is not the default context.
        """
        other = second_context()
        b, x = gpuarray_shared_constructor(np.ones(3), target=other, name="b"), T.vector()
        for output in (x * b, b * x, T.exp(T.concatenate([x, b])), T.exp(T.set_subtensor(x[:3], b))):
            f = theano.function([x], output, mode=MODE)
            sent = [n.op.context_name for n in f.maker.fgraph.apply_nodes if isinstance(n.op, GpuFromHost)]
            self.assertEqual((sent, transfers(f)), ([other], (1, 1, 0)))

    @config.change_flags(on_opt_error="raise")
    def test_every_pair_of_places(self):
        """Operands may be on the host, in the default context or in another context, in any order."""
        other = second_context()
        places = {"host": "cpu", "default": None, "other": other}
        values = self.rng.uniform(0.5, 1, (3, 3)), self.rng.uniform(0.5, 1, (3, 3))
        for first, second in itertools.product(places, repeat=2):
            a, b = (
                theano.shared(value) if place == "host" else gpuarray_shared_constructor(value, target=places[place])
                for value, place in zip(values, (first, second))
            )
            outputs = mixed(a, b)
            expected = theano.function([], mixed(*map(theano.shared, values)), mode=MODE.excluding("gpuarray"))()
            f = theano.function([], outputs, mode=MODE)
            for k, (found, wanted) in enumerate(zip(f(), expected)):
                with self.subTest(places=(first, second), output=k):
                    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)

    def test_targets_of_inputs(self):
        other = context("other")
        x = T.vector()
        x.tag.target = other
        f = theano.function([x], transfer(x * 2, other), mode=MODE)
        (out,) = f.maker.fgraph.outputs
        self.assertEqual(out.type.context_name, other)
        np.testing.assert_array_equal(np.asarray(f([1, 2])), [2, 4])
        y = T.vector()
        y.tag.target = "nowhere"
        with (
            self.assertLogs("theano_ng.gof.opt", "ERROR"),
            config.change_flags(on_opt_error="raise"),
            self.assertRaisesRegex(ValueError, "nowhere"),
        ):
            theano.function([y], y * 2, mode=MODE)


class TestTypes(Test):
    def test_dtypes(self):
        variables = [
            T.TensorType(dtype, (False,))(dtype) for dtype in ("float32", "float16", "int8", "uint16", "int64", "bool")
        ]
        outputs = [v * 2 + v if v.dtype != "bool" else T.invert(v) for v in variables] + [v.sum() for v in variables]
        values = [self.rng.integers(0, 2, 5).astype(v.dtype) for v in variables]
        here, there = [theano.function(variables, outputs, mode=mode) for mode in (MODE, MODE.excluding("gpuarray"))]
        self.assertEqual(transfers(here)[0], len(variables))
        for result, expected in zip(here(*values), there(*values)):
            self.assertEqual(result.dtype, expected.dtype)
            np.testing.assert_array_equal(result, expected)

    @config.change_flags(on_opt_error="raise")
    def test_complex_results(self):
        """Ops stay on the host if the device does not support the dtype or the rank of their results."""
        x, i, z = self.shared(np.arange(1.0, 4)), self.shared(np.array([2, 0])), T.zvector("z")
        many = T.TensorType("float64", (False,) * 32)()
        outputs = [
            x.sum(dtype="complex128"),
            T.cumsum(T.cast(x, "complex64")),
            T.complex(x, x),
            z[i],
            z.take(i),
            T.set_subtensor(z[i], T.cast(x[:2], "complex128")),
            T.inc_subtensor(z[: i[0]], x[0]),
            T.concatenate([z, x]),
            T.switch(x > 1, z, x),
            T.alloc(T.cast(x[0], "complex64"), 2),
            many.dimshuffle(*range(31), "x", 31).sum() * x[0],
        ]
        here, there = (theano.function([z, many], outputs, mode=mode) for mode in (MODE, MODE.excluding("gpuarray")))
        values = np.array([1 + 2j, 3j, 5]), np.ones((1,) * 31 + (2,))
        for found, expected in zip(here(*values), there(*values)):
            self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
            np.testing.assert_allclose(found, expected)

    def test_complex(self):
        z, x = T.zvector("z"), T.vector("x")
        f = theano.function([z, x], [z * 2, T.exp(x), (z * x).real + x], mode=MODE)
        value, number = np.array([1 + 2j, 3j]), np.array([0.5, 1.5])
        results = f(value, number)
        for result, expected in zip(results, [value * 2, np.exp(number), number + number * value.real]):
            np.testing.assert_allclose(result, expected)

    def test_nodes_with_graphs(self):
        """OpFromGraph gives correct results, inlined or not, if its inputs are computed on the device."""
        x, y = T.vectors("x", "y")
        op = OpFromGraph([x, y], [x * y + 1])
        inlined = OpFromGraph([x, y], [x * y + 1], inline=True)
        f = theano.function([x, y], [op(T.exp(x), y) * 2, inlined(T.exp(x), y) * 2], mode=MODE)
        for result in f([0, 1], [2, 3]):
            np.testing.assert_allclose(result, [6, (np.e * 3 + 1) * 2])

    def test_branches(self):
        x, c, z = T.vector("x"), T.iscalar("c"), T.zvector("z")
        a = self.shared(np.arange(3.0))
        mixed = ifelse(c, a, x)
        pairs = ifelse(c, (x * 2, z), (a * 3, z + 1))
        sums = ifelse(T.gt(a.sum(), c), x.sum(), a.sum())
        f = theano.function([x, c, z], [mixed, *pairs, sums], mode=MODE)
        for flag in (0, 1):
            row, value = np.ones(3), np.array([1j])
            results = f(row, flag, value)
            expected = [np.arange(3.0), row * 2, value] if flag else [row, np.arange(3.0) * 3, value + 1]
            for result, right in zip(results, [*expected, 3.0]):
                np.testing.assert_array_equal(result, right)

    def test_derivatives_of_branches(self):
        """Branches on the device have derivatives on the device, and the other branch has zeros."""
        c, (a, b) = T.iscalar("c"), [GpuArrayType("float64", (False,), None)() for _ in range(2)]
        forward = theano.function([c, a, b], T.Rop(ifelse(c, a, b * 2), a, a), on_unused_input="ignore")
        backward = theano.function([c, a, b], T.grad(ifelse(c, a, b).sum(), [a, b]))
        x, y = np.arange(3.0), np.ones(3)
        placed = [pygpu.array(value, context=get_context(None)) for value in (x, y)]
        for flag in (0, 1):
            np.testing.assert_array_equal(forward(flag, *placed), x * flag)
            for result, right in zip(backward(flag, *placed), (y, 0 * y) if flag else (0 * y, y)):
                self.assertIsInstance(result, pygpu.GpuArray)
                np.testing.assert_array_equal(result, right)

    def test_linker_c(self):
        """The linker "c" says that nodes on a device have no C code."""
        a = self.shared(np.arange(3.0))
        with self.assertRaisesRegex(MethodNotDefined, "class GpuElemwise.* has no C code.*Linker 'c' makes one"):
            theano.function([], T.tanh(a), mode=theano.Mode("c", "fast_run").including("gpuarray"))


class TestModes(Test):
    def make(self, mode, **others):
        x, a = T.matrix("x"), self.shared(np.arange(3.0), "a")
        out = T.tanh(x * a).sum(axis=0) + T.concatenate([x[0, 1:], x[1, :1]]) * a.max()
        return theano.function([x], [out, T.grad(out.sum(), x)], updates={a: a + x[0]}, mode=mode, **others), a

    def check(self, mode, **others):
        f, a = self.make(mode, **others)
        value = self.rng.uniform(-1, 1, (2, 3))
        start = np.arange(3.0)
        for _k in range(2):
            out, gradient = f(value)
            t = np.tanh(value * start)
            np.testing.assert_allclose(out, t.sum(0) + np.concatenate([value[0, 1:], value[1, :1]]) * start.max())
            extra = np.array([[0, 1, 1], [1, 0, 0]]) * start.max()
            np.testing.assert_allclose(gradient, (1 - t * t) * start + extra)
            start = start + value[0]
            np.testing.assert_allclose(a.get_value(), start)
        return f

    def test_names(self):
        for name in ("FAST_RUN", "FAST_COMPILE"):
            f = self.check(theano.compile.mode.get_mode(name).including("gpuarray"))
            self.assertIn("GpuElemwise", names(f))

    def test_debug(self):
        self.check(DebugMode().including("gpuarray"))

    def test_nan_guard(self):
        f = self.check(NanGuardMode(nan_is_error=True, inf_is_error=True, big_is_error=False).including("gpuarray"))
        with self.assertRaises(AssertionError):
            f(np.full((2, 3), np.nan))

    def test_monitor(self):
        seen = []
        self.check(MonitorMode(post_func=lambda i, node, fn: seen.append(node.op)).including("gpuarray"))
        self.assertIn("GpuFromHost", [type(op).__name__ for op in seen])

    def test_profile(self):
        f = self.check(MODE, profile=theano.ProfileStats(atexit_print=False))
        text = io.StringIO()
        f.profile.summary(file=text)
        self.assertRegex(text.getvalue(), r"in cpu op, .* in gpu op and .* in transfer op")

    def test_pickle(self):
        f, _ = self.make(MODE)
        g = pickle.loads(pickle.dumps(f))
        value = self.rng.uniform(-1, 1, (2, 3))
        self.assertIn("GpuElemwise", names(g))
        for result, expected in zip(g(value), f(value)):
            np.testing.assert_allclose(result, expected)


class TestShared(Test):
    def test_type(self):
        self.assertIsInstance(self.shared([1.0]), GpuArraySharedVariable)
        self.assertIsInstance(self.shared([1.0]).type, GpuArrayType)

    def test_in_place(self):
        """An update on the device overwrites the array of the shared variable in place."""
        a = self.shared(np.zeros((3, 4)), "a")
        f = theano.function([], [], updates={a: a + 1}, mode=MODE)
        (node,) = f.maker.fgraph.apply_nodes
        ((place,),) = node.op.destroy_map.values()
        self.assertEqual(node.inputs[place].name, "a")
        b = self.shared(np.zeros((3, 4)))
        i = T.lvector()
        g = theano.function([i], [], updates={b: T.inc_subtensor(b[i], 1.0)}, mode=MODE)
        self.assertTrue(any(getattr(node.op, "inplace", False) for node in g.maker.fgraph.apply_nodes))
        for _ in range(2):
            f()
            g([0, 2, 2])
        self.assertEqual((a.get_value()[1, 1], b.get_value()[2, 1]), (2, 4))
