"""Tests of random streams whose states are on a device."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray.kernels import mrg
from theano_ng.gpuarray.rng_mrg import GPUA_mrg_uniform
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams, mrg_uniform


class TestTarget(unittest.TestCase):
    def test_states_on_a_device(self):
        """Streams with states on a device draw the same samples as streams with states on the host.

        The samples are also equal after calls of `seed`.
        """
        name = context()
        for method in (MRG_RandomStreams.uniform, MRG_RandomStreams.normal, MRG_RandomStreams.binomial):
            placed, host = MRG_RandomStreams(7), MRG_RandomStreams(7)
            samples = method(placed, (2, 3), target=name), method(host, (2, 3))
            ((state, _),) = placed.state_updates
            self.assertEqual((type(state.type), state.type.context_name), (GpuArrayType, name))
            f, g = [theano.function([], sample) for sample in samples]
            for _ in range(2):
                for _ in range(2):
                    np.testing.assert_array_equal(f(), g())
                placed.seed(3)
                host.seed(3)


class TestUniform(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.mode = get_mode("FAST_RUN").including("gpuarray")

    def streams(self, method, *args, **kwargs):
        """Return a function that draws on the device, a function that draws on the host, and their states."""
        found = []
        for target in (self.name, "cpu"):
            streams = MRG_RandomStreams(7)
            sample = method(streams, *args, target=target, **kwargs)
            mode = self.mode if target == self.name else get_mode("FAST_RUN")
            found.append((theano.function([], sample, mode=mode), [state for state, _ in streams.state_updates]))
        return found

    def test_numbers_and_states(self):
        """The numbers and the states equal those of the host for any number of streams and any shape."""
        for dtype, n, size in itertools.product(
            ("float16", "float32", "float64"), (1, 3, 16, 17, 100, None), ((1,), (5,), (7, 9), (1000,), (3, 4, 5))
        ):
            with self.subTest(dtype=dtype, streams=n, size=size):
                (there, states), (here, expected) = self.streams(
                    MRG_RandomStreams.uniform, size, dtype=dtype, nstreams=n
                )
                self.assertIn(GPUA_mrg_uniform, [type(n.op) for n in there.maker.fgraph.toposort()])
                for _ in range(3):
                    np.testing.assert_array_equal(there(), here())
                for state, right in zip(states, expected):
                    np.testing.assert_array_equal(state.get_value(), right.get_value())

    def test_distributions(self):
        for method, kwargs in (
            (MRG_RandomStreams.normal, dict(avg=1, std=2)),
            (MRG_RandomStreams.binomial, dict(p=0.3)),
            (MRG_RandomStreams.truncated_normal, {}),
        ):
            with self.subTest(method.__name__):
                (there, _), (here, _) = self.streams(method, (6, 5), dtype="float64", **kwargs)
                for _ in range(2):
                    np.testing.assert_allclose(there(), here(), rtol=1e-13, atol=1e-14)

    def test_groups(self):
        """The kernel for graphics cards, in which a thread advances one stream at a time, draws the same numbers."""
        states = MRG_RandomStreams(5).get_substream_rstates(20, "float32")
        f = theano.function([], mrg_uniform.new(theano.shared(states), 1, "float32", (70,)))
        kernel = mrg.mrg_uniform("float32", get_context(self.name))
        kernel = kernel._replace(support=("#undef GA_PROCESSOR\n", *kernel.support)).build()
        for group in ((1, 1), (3, 4), (1, 32)):
            there, out = placed(states, "C"), placed(np.zeros(70, "float32"), "C")
            kernel(there, 0, *there.strides, 20, out, 0, 70, gs=group[0], ls=group[1])
            expected_states, expected = f()
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(there, expected_states)

    def test_without_in_place(self):
        """Without in-place rules, the states of the caller do not change. States with strides are read correctly."""
        states = gpu_variable("int32", 2)
        op = GPUA_mrg_uniform(GpuArrayType("float32", (False,), self.name))
        f = theano.function([states], op(states, [50]), mode="FAST_COMPILE")
        value = MRG_RandomStreams(5).get_substream_rstates(8, "float32")
        expected = mrg_uniform.new(theano.shared(value), 1, "float32", (50,))
        expected = theano.function([], expected)()
        for layout in LAYOUTS:
            given = placed(value, layout)
            for result, right in zip(f(given), expected):
                np.testing.assert_array_equal(result, right)
            np.testing.assert_array_equal(given, value)

    def test_errors(self):
        states, size = gpu_variable("int32", 2), T.lvector()
        op = GPUA_mrg_uniform(GpuArrayType("float32", (False,), self.name))
        f = theano.function([states, size], op(states, size)[1])
        good = placed(np.ones((2, 6), "int32"), "C")
        for state, lengths, message in (
            (good, [2, 3], "sample of 1 dimension.*size has 2"),
            (good, [-1], "negative dimensions are not allowed"),
            (placed(np.ones((2, 5), "int32"), "C"), [3], r"a row of 6 numbers for each stream, its shape is \(2, 5\)"),
            (placed(np.ones((0, 6), "int32"), "C"), [3], "a row of 6 numbers"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                f(state, lengths)
            self.assertEqual(f(good, [3]).shape, (3,))
        for wrong in (gpu_variable("int64", 2), gpu_variable("int32", 1)):
            with self.assertRaises(TypeError):
                op(wrong, [3])
        with self.assertRaisesRegex(TypeError, "makes samples on devices"):
            GPUA_mrg_uniform(T.fvector)

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        streams = MRG_RandomStreams(3)
        sample = streams.uniform((4, 5), dtype="float32", target=self.name) * 2
        f = theano.function([], sample, mode=get_mode("DebugMode").including("gpuarray"))
        host = theano.function([], MRG_RandomStreams(3).uniform((4, 5), dtype="float32") * 2)
        for _ in range(2):
            np.testing.assert_array_equal(f(), host())


if __name__ == "__main__":
    unittest.main()
