"""Tests of pooling by cuDNN. See `tests.cudnn`."""

import itertools
import os
import pickle
import shutil
import tempfile
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import dnn
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests.test_cudnn_pool import MODES, gradient, pooled
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import context, gpu_variable
from theano_ng.tensor.signal.pool import pool_2d, pool_3d

NAMES = dict(zip(("max", "average_inc_pad", "average_exc_pad", "max_deterministic"), MODES))
# Shape, ws, stride, pad
WINDOWS = (
    ((2, 3, 4, 6), (2, 2), (2, 2), (0, 0)),
    ((2, 1, 5, 4), (3, 2), (1, 2), (1, 0)),
    ((1, 2, 4, 5, 3), (2, 3, 1), (1, 2, 1), (1, 2, 0)),
)
# The header of cuDNN for users' C code
HEADER = """#include "cudnn_library.h"
#define X(name, result, arguments) result name arguments;
extern "C" {
CUDNN_FUNCTIONS(X)
}
#undef X
"""


class TestPooling(CudnnTest):
    def different(self, dtype, shape):
        """Return random elements of which no two are equal."""
        n = int(np.prod(shape))
        return (self.rng.permutation(n).reshape(shape) / 32 - n / 64).astype(dtype)

    def test_pooling(self):
        for dtype, mode, (shape, ws, stride, pad) in itertools.product(DTYPES, NAMES, WINDOWS):
            x = self.variable(dtype, len(shape))
            out = dnn.dnn_pool(x, ws, stride, mode, pad)
            self.assertEqual((out.dtype, out.ndim), (dtype, len(shape)))
            value = self.different(dtype, shape)
            expected = pooled(value.astype("float64"), NAMES[mode], ws, stride, pad)
            for f, layout in self.both_ways([x], out):
                with self.subTest(dtype=dtype, mode=mode, shape=shape, layout=layout):
                    self.check(f(self.placed(value, layout)), expected)
            self.assertEqual(
                tuple(theano.function([x], out.shape, mode="FAST_RUN")(self.placed(value))), expected.shape
            )

    def test_gradient(self):
        for dtype, mode, (shape, ws, stride, pad) in itertools.product(DTYPES, NAMES, WINDOWS):
            x, g = self.variable(dtype, len(shape)), self.variable(dtype, len(shape))
            y = dnn.dnn_pool(x, ws, stride, mode, pad)
            dx = theano.grad(None, x, known_grads={y: g})
            self.assertIsInstance(dx.owner.op, dnn.GpuDnnPoolGrad)
            value = self.different(dtype, shape)
            exact = pooled(value.astype("float64"), NAMES[mode], ws, stride, pad)
            weight = self.random(dtype, *exact.shape)
            expected = gradient(value.astype("float64"), exact, weight.astype("float64"), NAMES[mode], ws, stride, pad)
            for f, layout in self.both_ways([x, g], dx):
                with self.subTest(dtype=dtype, mode=mode, shape=shape, layout=layout):
                    self.check(f(self.placed(value, layout), self.placed(weight, layout)), expected)

    def test_derivatives(self):
        """Second derivatives and directional derivatives agree with finite differences and with pooling on the host."""
        for mode in NAMES:
            value, weight = self.different("float64", (2, 1, 4, 4)), self.random("float64", 2, 1, 2, 2)

            def host(x, w):
                x, w = [v.transfer(self.name) for v in (x, w)]
                y = dnn.dnn_pool(x, (2, 2), (2, 2), mode)
                return dnn.GpuDnnPoolGrad(mode)(x, y, w, (2, 2), (2, 2), (0, 0)).transfer("cpu")

            theano.gradient.verify_grad(host, [value, weight], rng=np.random.RandomState(3))
            x, d = T.tensor4(dtype="float64"), T.tensor4(dtype="float64")
            on_device = dnn.dnn_pool(x.transfer(self.name), (2, 2), (2, 2), mode).transfer("cpu")
            known = mode if mode.startswith("average") else "max"
            on_host = pool_2d(x, (2, 2), ignore_border=True, stride=(2, 2), mode=known)
            along = [theano.gradient.Rop(y, x, d) for y in (on_device, on_host)]
            f = theano.function([x, d], along, on_unused_input="ignore")
            found, expected = f(value, self.random("float64", 2, 1, 4, 4))
            np.testing.assert_allclose(found, expected)

    def test_default_arguments(self):
        x = self.variable("float32", 4)
        value = self.different("float32", (2, 3, 4, 5))
        self.check(
            self.compile([x], dnn.dnn_pool(x, (2, 2)))(self.placed(value)),
            pooled(value, NAMES["max"], (2, 2), (1, 1), (0, 0)),
        )
        self.assertEqual(dnn.GpuDnnPool("average"), dnn.GpuDnnPool("average_inc_pad"))

    def test_windows_of_variables(self):
        x, ws, stride, pad = self.variable("float32", 4), T.lvector(), T.lvector(), T.lvector()
        f = self.compile([x, ws, stride, pad], dnn.dnn_pool(x, ws, stride, "average_exc_pad", pad))
        for shape, *windows in WINDOWS[:2]:
            value = self.different("float32", shape)
            self.check(
                f(self.placed(value), *[np.array(v, "int32") for v in windows]),
                pooled(value, NAMES["average_exc_pad"], *windows),
            )
        with self.assertRaisesRegex(ValueError, "ws must be a vector of size 2, got 3 elements"):
            f(self.placed(value), [2, 2, 2], [1, 1], [0, 0])
        message = "Pool: pad must be smaller than ws, got pad=2 and ws=2 for axis 1"
        with self.assert_device_refuses(ValueError, message):
            f(self.placed(value), [2, 2], [1, 1], [0, 2])
        message = "Pool: stride must be at least 1 for every axis, got 0 for axis 0"
        with self.assert_device_refuses(ValueError, message):
            f(self.placed(value), [2, 2], [0, 1], [0, 0])
        with self.assert_device_refuses(ValueError, "cuDNN needs windows of less than 2.31 elements"):
            f(self.placed(value), [1 << 40, 1], [1, 1], [(1 << 40) - 1, 0])
        found = f(self.placed(value), [1, 1], [1 << 40, 1], [0, 0])
        self.check(found, value[:, :, :1])

    def test_sum(self):
        """The sum is the average times the number of elements."""
        x = self.variable("float64", 4)
        out = dnn.dnn_pool(x, (2, 3), (1, 1), "sum", (1, 0))
        f = self.compile([x], out)
        self.assertIn("GpuDnnPool", self.ops(f))
        value = self.different("float64", (2, 3, 4, 5))
        expected = 6 * pooled(value, NAMES["average_inc_pad"], (2, 3), (1, 1), (1, 0))
        self.check(theano.function([x], out, mode=theano.Mode("py", None))(self.placed(value)), expected)
        self.check(f(self.placed(value)), expected)

    def test_no_elements(self):
        x, g = self.variable("float32", 4), self.variable("float32", 4)
        y = dnn.dnn_pool(x, (3, 3))
        f = self.compile([x, g], [y, theano.grad(None, x, known_grads={y: g})])
        for shape, expected in (
            ((0, 3, 4, 4), (0, 3, 2, 2)),
            ((2, 0, 4, 4), (2, 0, 2, 2)),
            ((2, 3, 2, 4), (2, 3, 0, 2)),  # no window
            ((2, 3, 0, 4), (2, 3, 0, 2)),
        ):
            found = f(self.placed(np.ones(shape, "float32")), self.placed(np.ones(expected, "float32")))
            self.assertEqual([v.shape for v in found], [expected, shape])
            self.check(found[1], np.zeros(shape))

    def test_bad_arguments(self):
        x = self.variable("float32", 4)
        with self.assertRaisesRegex(ValueError, "GpuDnnPool: mode must be one of .*, not 'median'"):
            dnn.dnn_pool(x, (2, 2), mode="median")
        with self.assertRaisesRegex(ValueError, "ws must be a vector of size 2"):
            dnn.dnn_pool(x, (2, 2, 2))
        with self.assertRaisesRegex(NotImplementedError, "padding must be smaller than the windows, got pad=.2, 0."):
            dnn.dnn_pool(x, (2, 2), pad=(2, 0))
        with self.assertRaisesRegex(TypeError, "img must have 4 or 5 dimensions"):
            dnn.GpuDnnPool()(self.variable("float32", 3), (2,), (1,), (0,))
        with self.assertRaisesRegex(TypeError, "one dtype among float16, float32, float64; got img: int32"):
            dnn.dnn_pool(self.variable("int32", 4), (2, 2))
        with self.assertRaisesRegex(TypeError, "the arrays must have equally many axes"):
            dnn.GpuDnnPoolGrad()(x, x, self.variable("float32", 5), (2, 2), (1, 1), (0, 0))
        y, g = self.variable("float32", 4), self.variable("float32", 4)
        f = self.compile([x, y, g], dnn.GpuDnnPoolGrad()(x, y, g, (2, 2), (1, 1), (0, 0)))
        image, right, wrong = [self.placed(np.ones((1, 1, n, n), "float32")) for n in (4, 3, 2)]
        for values, what in (((image, wrong, right), "out"), ((image, right, wrong), "the gradient")):
            said = r"Pool: %s has shape \(1, 1, 2, 2\), but these windows need shape \(1, 1, 3, 3\)" % what
            with self.assert_device_refuses(ValueError, said):
                f(*values)
        # All maxima are different, because cuDNN and the Op for the host treat equal maxima differently.
        image = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
        pooled_image = self.placed(image[:, :, 1:, 1:].copy())
        self.assertEqual(f(self.placed(image), pooled_image, right).shape, (1, 1, 4, 4))

    def test_failing_call(self):
        self.needs_fakes()
        x = self.variable("float32", 4)
        f = self.compile([x], dnn.dnn_pool(x, (2, 2)))
        value = self.different("float32", (2, 3, 4, 5))
        self.fakes.fail("cudnnPoolingForward", 5000)
        with self.assertRaisesRegex(
            RuntimeError, r"(?s)cudnnPoolingForward: .*EXECUTION_FAILED.*\(2, 3, 4, 5\) float32.*GpuDnnPool"
        ):
            f(self.placed(value))
        self.check(f(self.placed(value)), pooled(value, NAMES["max"], (2, 2), (1, 1), (0, 0)))

    def test_rules(self):
        """With the tag ``cudnn``, pooling with complete windows is done by cuDNN, also with other numbers of axes."""
        mode, without = self.device_mode("cudnn"), self.device_mode()
        for ndim, pool in ((4, pool_2d), (2, pool_2d), (5, pool_3d), (5, pool_2d)):
            for name in ("max", "sum", "average_inc_pad", "average_exc_pad"):
                x = self.variable("float32", ndim)
                ws = (2,) * (3 if pool is pool_3d else 2)
                y = pool(T.as_tensor_variable(x), ws, ignore_border=True, mode=name)
                g = self.variable("float32", ndim)
                dx = theano.grad(None, x, known_grads={y: T.as_tensor_variable(g)})
                f = theano.function([x, g], [y, dx], mode=mode)
                with self.subTest(ndim=ndim, name=name, pool=pool.__name__):
                    self.assertEqual([name for name in self.ops(f) if "Pool" in name], ["GpuDnnPool", "GpuDnnPoolGrad"])
                    f = theano.function([x, g], [y, dx], mode=without)
                    self.assertNotIn("GpuDnnPool", self.ops(f))
        x = self.variable("float32", 4)
        value = self.different("float32", (2, 3, 4, 5))
        y = pool_2d(T.as_tensor_variable(x), (2, 2), ignore_border=True, mode="average_exc_pad", pad=(1, 0))
        f = theano.function([x], y, mode=mode)
        self.assertIn("GpuDnnPool", self.ops(f))
        self.check(f(self.placed(value)), pooled(value, NAMES["average_exc_pad"], (2, 2), (2, 2), (1, 0)))
        cut = theano.function([x], pool_2d(T.as_tensor_variable(x), (2, 2), ignore_border=False), mode=mode)
        self.assertNotIn("GpuDnnPool", self.ops(cut))
        integers = self.variable("int32", 4)
        f = theano.function([integers], pool_2d(T.as_tensor_variable(integers), (2, 2), ignore_border=True), mode=mode)
        self.assertNotIn("GpuDnnPool", self.ops(f))

    def test_random_programs(self):
        """Programs for the host give the same numbers when the rules move them to cuDNN."""
        for case in range(40):
            nd = 2 + case % 2
            name = ("max", "average_inc_pad", "average_exc_pad")[case % 3]
            shape = tuple(map(int, self.rng.integers(1, 7, 2 + nd)))
            ws = [int(self.rng.integers(1, 5)) for _ in range(nd)]
            stride, pad = [int(self.rng.integers(1, 4)) for _ in ws], [int(self.rng.integers(0, w)) for w in ws]
            value = self.different("float64", shape)
            x, g = [T.TensorType("float64", (False,) * len(shape))() for _ in range(2)]
            y = (pool_2d if nd == 2 else pool_3d)(x, ws, ignore_border=True, stride=stride, pad=pad, mode=name)
            dx = theano.grad(None, x, known_grads={y: g})
            with self.subTest(shape=shape, ws=ws, stride=stride, pad=pad, mode=name):
                expected, of_x = theano.function([x, g], [y, y.shape], on_unused_input="ignore")(value, value)
                weight = self.random("float64", *of_x)
                expected_dx = theano.function([x, g], dx)(value, weight)
                there = {x: self.variable("float64", x.ndim), g: self.variable("float64", x.ndim)}
                outputs = theano.clone([y, dx], replace={v: T.as_tensor_variable(w) for v, w in there.items()})
                f = theano.function([there[x], there[g]], outputs, mode=self.device_mode("cudnn"))
                self.assertEqual([name for name in self.ops(f) if "Dnn" in name], ["GpuDnnPool", "GpuDnnPoolGrad"])
                found, found_dx = f(self.placed(value), self.placed(weight))
                self.check(found, expected)
                self.check(found_dx, expected_dx)

    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_descriptor(self):
        """The descriptor for users' C code can be made, and its Op can be pickled."""
        self.needs_fakes()
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        shutil.copy(os.path.join(os.path.dirname(loader.__file__), "cudnn_library.h"), folder)
        with open(os.path.join(folder, "cudnn.h"), "w") as file:
            file.write(HEADER)
        op = dnn.GpuDnnPoolDesc((2, 3), (1, 2), "average", (0, 1))
        self.assertEqual((op.mode, op.get_ndim()), ("average_inc_pad", 2))
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        with change_flags({"dnn.include_path": folder}):
            before = self.fakes.dnn.descriptors
            descriptor = theano.function([], op())()
            self.assertEqual((type(descriptor).__name__, self.fakes.dnn.descriptors), ("PyCapsule", before + 1))
            del descriptor
            self.assertEqual(self.fakes.dnn.descriptors, before)
        with self.assertRaisesRegex(ValueError, "must all have 2 or all have 3 elements"):
            dnn.GpuDnnPoolDesc((2, 2), (1, 1, 1))

    def test_other_devices(self):
        name = context()
        if self.fakes is None:
            self.skipTest("needs an OpenCL device")
        x = gpu_variable("float32", 4, name)
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            theano.function([x], dnn.dnn_pool(x, (2, 2)))


if __name__ == "__main__":
    unittest.main()
