"""Tests of dropout by cuDNN. See `tests.cudnn`."""

import gc
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng.gpuarray import dnn
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import context, gpu_variable


class TestDropout(CudnnTest):
    def test_numbers(self):
        for dtype in DTYPES:
            for shape, rate in (((40, 50), 0.25), ((2, 3, 4, 5, 6, 7), 0.75), ((500,), 0)):
                x, g = self.variable(dtype, len(shape)), self.variable(dtype, len(shape))
                y, descriptor, _, _ = dnn.dropout(x, rate)
                self.assertEqual((y.type, descriptor.type), (x.type, dnn.dropoutdesc_type))
                f = theano.function([x, g], [y, theano.grad(None, x, known_grads={y: g})], mode="FAST_RUN")
                self.assertIn("_DropoutGrad", self.ops(f))
                value, weight = self.rng.uniform(1, 2, shape).astype(dtype), self.random(dtype, *shape)
                previous = None
                for _ in range(3):
                    out, dx = map(np.asarray, f(self.placed(value), self.placed(weight)))
                    kept = out != 0
                    self.assertLess(abs(kept.mean() - (1 - rate)), 0.1)
                    self.check(out, np.where(kept, value / (1 - rate), 0))
                    self.check(dx, np.where(kept, weight / (1 - rate), 0))
                    # Each call draws anew.
                    self.assertEqual(
                        previous is not None and (kept == previous).all(), previous is not None and rate == 0
                    )
                    previous = kept

    def test_seeds(self):
        """Equal seeds give equal choices."""
        x = self.variable("float32", 1)
        value, found = self.placed(np.ones(100, "float32")), []
        for seed in (1, 1, 2):
            f = theano.function([x], dnn.dropout(x, 0.5, seed)[0], mode="FAST_RUN")
            found.append(np.asarray(f(value)).tolist())
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], found[2])

    def test_states(self):
        """The states are overwritten in a function that updates them, and only there."""
        x = self.variable("float32", 1)
        y, _, new, states = dnn.dropout(x, 0.5)
        value = self.placed(np.ones(100, "float32"))
        f = theano.function([x], y, mode=self.device_mode())
        self.assertTrue(f.maker.fgraph.toposort()[0].op.inplace)
        place = states.get_value(borrow=True, return_internal_type=True).gpudata
        before = np.array(states.get_value())
        f(value)
        self.assertFalse((np.asarray(states.get_value()) == before).all())
        self.assertEqual(states.get_value(borrow=True, return_internal_type=True).gpudata, place)
        states.set_value(before)
        same = theano.function([x], [y, new], no_default_updates=True, mode=self.device_mode())
        first, after = same(value)
        second, _ = same(value)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(np.asarray(states.get_value()), before)
        self.assertFalse((np.asarray(after) == before).all())

    def test_second_derivative(self):
        x, g = self.variable("float32", 1), self.variable("float32", 1)
        y = dnn.dropout(x, 0.5)[0]
        dx = theano.grad(None, x, known_grads={y: g})
        back = theano.grad(None, g, known_grads={dx: x})
        value = np.arange(1, 101, dtype="float32")
        f = theano.function([x], [y, back], mode="FAST_RUN", on_unused_input="ignore")
        found = f(self.placed(value))
        np.testing.assert_array_equal(*found)

    def test_no_elements(self):
        x = self.variable("float32", 2)
        y = dnn.dropout(x, 0.5)[0]
        f = theano.function([x], [y, theano.grad(None, x, known_grads={y: x})], mode="FAST_RUN")
        self.assertEqual([v.shape for v in f(self.placed(np.ones((0, 3), "float32")))], [(0, 3)] * 2)

    def test_bad_arguments(self):
        x = self.variable("float32", 2)
        for rate in (-0.1, 1, float("nan")):
            with self.assertRaisesRegex(ValueError, "the probability must be at least 0 and less than 1"):
                dnn.dropout(x, rate)
        with self.assertRaisesRegex(TypeError, "inp must have one dtype among float16, float32, float64"):
            dnn.dropout(self.variable("int32", 2))
        y, descriptor, _, states = dnn.dropout(x)
        with self.assertRaisesRegex(TypeError, "expected a descriptor and a state as _DropoutDescriptor makes them"):
            dnn.GpuDnnDropoutOp()(x, descriptor, x)
        with self.assertRaisesRegex(TypeError, "it holds a C pointer, which is invalid in another process"):
            pickle.dumps(descriptor)
        with self.assertRaisesRegex(NotImplementedError, "cuDNN computes no directional derivatives"):
            theano.gradient.Rop(y, x, x)

    def test_failing_call(self):
        self.needs_fakes()
        x = self.variable("float32", 2)
        f = theano.function([x], dnn.dropout(x, 0.5)[0], mode="FAST_RUN")
        value = self.placed(np.ones((3, 4), "float32"))
        self.fakes.fail("cudnnDropoutForward", 5000)
        with self.assertRaisesRegex(RuntimeError, "(?s)cudnnDropoutForward: .*EXECUTION_FAILED.*GpuDnnDropoutOp"):
            f(value)
        self.assertEqual(f(value).shape, (3, 4))

    def test_nothing_is_left(self):
        """Descriptors are destroyed with the last reference."""
        self.needs_fakes()
        gc.collect()
        before = self.fakes.dnn.descriptors
        for _ in range(3):
            values = dnn._make_dropout_desc(0.5, 1, self.name)
            self.assertEqual(self.fakes.dnn.descriptors, before + 1)
            del values
            gc.collect()
        self.assertEqual(self.fakes.dnn.descriptors, before)

    def test_other_devices(self):
        name = context()
        if self.fakes is None:
            self.skipTest("needs an OpenCL device")
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            dnn.dropout(gpu_variable("float32", 2, name))


if __name__ == "__main__":
    unittest.main()
