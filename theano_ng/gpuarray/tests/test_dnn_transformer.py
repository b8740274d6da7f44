"""Tests of spatial transformers by cuDNN. See `tests.cudnn`."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gpuarray import dnn
from theano_ng.gpuarray.device.tests.test_cudnn_transformer import differences, grid_of, sampled
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable

TOLERANCE = {"float16": 3e-2, "float32": 1e-4, "float64": 1e-5}


class TestTransformers(CudnnTest):
    def both(self, inputs, outputs):
        """Return a function that uses cuDNN, and one that computes on the host."""
        return [self.compile(inputs, outputs), theano.function(inputs, outputs, mode=Mode("py", None))]

    def theta(self, dtype, n):
        return (np.eye(2, 3) + self.rng.uniform(-0.4, 0.4, (n, 2, 3))).astype(dtype)

    def test_images(self):
        for dtype, (width, height, size) in itertools.product(
            DTYPES, ((1, 1, (4, 5)), (1.5, 0.5, (2, 8)), (2, 3, (12, 10)))
        ):
            img, theta = self.variable(dtype, 4), self.variable(dtype, 3)
            out = dnn.dnn_spatialtf(img, theta, width, height)
            self.assertEqual(out.type, img.type)
            value, maps = self.random(dtype, 2, 3, 4, 5), self.theta(dtype, 2)
            expected = sampled(value.astype("float64"), grid_of(maps.astype("float64"), *size))
            for f, layout in itertools.product(self.both([img, theta], out), LAYOUTS):
                given = self.placed(value, layout), self.placed(maps, layout)
                self.check(f(*given), expected, TOLERANCE[dtype])
            shape = theano.function([img, theta], out.shape, mode="FAST_RUN", on_unused_input="ignore")
            self.assertEqual(tuple(shape(self.placed(value), self.placed(maps))), expected.shape)

    def test_gradients(self):
        for dtype in ("float32", "float64"):
            img, theta, g = self.variable(dtype, 4), self.variable(dtype, 3), self.variable(dtype, 4)
            out = dnn.dnn_spatialtf(img, theta, 1.5, 1)
            grads = theano.grad(None, [img, theta], known_grads={out: g})
            value, maps, weight = self.random(dtype, 2, 3, 4, 3), self.theta(dtype, 2), self.random(dtype, 2, 3, 4, 5)
            exact, of_maps = value.astype("float64"), maps.astype("float64")
            expected = [
                differences(lambda v: sampled(v, grid_of(of_maps, 4, 5)), exact, weight),
                differences(lambda v: sampled(exact, grid_of(v, 4, 5)), of_maps, weight),
            ]
            functions = self.both([img, theta, g], grads)
            self.assertEqual(
                [name for name in self.ops(functions[0]) if "Grad" in name],
                ["GpuDnnTransformerGradI", "GpuDnnTransformerGradT"],
            )
            for f in functions:
                for one, right in zip(f(self.placed(value), self.placed(maps), self.placed(weight)), expected):
                    self.check(one, right, 1e-3 if dtype == "float32" else 1e-5)

    def test_second_derivatives(self):
        value, maps, weight = (
            self.random("float64", 1, 2, 3, 4),
            self.theta("float64", 1),
            self.random("float64", 1, 2, 3, 4),
        )

        def host(img, theta, g):
            img, theta, g = [v.transfer(self.name) for v in (img, theta, g)]
            out = dnn.dnn_spatialtf(img, theta)
            return T.concatenate(
                [v.transfer("cpu").flatten() for v in theano.grad(None, [img, theta], known_grads={out: g})]
            )

        theano.gradient.verify_grad(host, [value, maps, weight], rng=np.random.RandomState(3), rel_tol=1e-3)
        img, theta, d = T.tensor4(dtype="float64"), T.tensor3(dtype="float64"), T.tensor4(dtype="float64")
        out = dnn.dnn_spatialtf(img.transfer(self.name), theta.transfer(self.name)).transfer("cpu")
        along = theano.function([img, theta, d], theano.gradient.Rop(out, img, d), on_unused_input="ignore")
        # Sampling is linear in the images.
        np.testing.assert_allclose(along(value, maps, weight), sampled(weight, grid_of(maps, 3, 4)), 1e-8, 1e-8)

    def test_grid(self):
        """The grid of the Op itself, for sizes that are numbers or variables."""
        theta, dims = self.variable("float64", 3), T.lvector()
        maps = self.theta("float64", 2)
        for out_dims in ((2, 3, 4, 5), dims, [dims[0], 3, dims[2], 5]):
            f = theano.function([theta, dims], dnn.GpuDnnTransformerGrid()(theta, out_dims), on_unused_input="ignore")
            self.check(f(self.placed(maps), [2, 3, 4, 5]), grid_of(maps, 4, 5), 1e-12)

    def test_no_elements(self):
        img, theta = self.variable("float32", 4), self.variable("float32", 3)
        out = dnn.dnn_spatialtf(img, theta)
        f = self.compile([img, theta], [out, *theano.grad(None, [img, theta], known_grads={out: out})])
        for shape in ((0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)):
            maps = self.theta("float32", shape[0])
            found = f(self.placed(np.ones(shape, "float32")), self.placed(maps))
            self.assertEqual([v.shape for v in found], [shape, shape, maps.shape])
            self.check(found[2], np.zeros(maps.shape))

    def test_bad_arguments(self):
        img, theta = self.variable("float32", 4), self.variable("float32", 3)
        with self.assertRaisesRegex(TypeError, "theta must have 3 dimensions"):
            dnn.dnn_spatialtf(img, img)
        with self.assertRaisesRegex(TypeError, "all inputs must have one dtype .*; got img: float64, grid: float32"):
            dnn.dnn_spatialtf(self.variable("float64", 4), theta)
        with self.assertRaisesRegex(TypeError, "out_dims must be four integers"):
            dnn.GpuDnnTransformerGrid()(theta, T.dvector())
        f = self.compile([img, theta], dnn.dnn_spatialtf(img, theta))
        image = self.placed(np.ones((2, 3, 4, 5), "float32"))
        for shape in ((1, 2, 3), (2, 3, 3), (2, 2, 2)):
            message = r"theta has shape \(%d, %d, %d\), expected \(2, 2, 3\)" % shape
            with self.assert_device_refuses(ValueError, message):
                f(image, self.placed(np.ones(shape, "float32")))
        dims = T.lvector()
        f = self.compile([theta, dims], dnn.GpuDnnTransformerGrid()(theta, dims))
        for value in ([2, 3, 4], [2, 3, -4, 5]):
            with self.assert_device_refuses(ValueError, "out_dims must be four numbers"):
                f(self.placed(self.theta("float32", 2)), value)
        grid = self.variable("float32", 4)
        f = self.compile([img, grid], dnn.GpuDnnTransformerSampler()(img, grid))
        with self.assert_device_refuses(ValueError, r"grid has shape \(2, 3, 4, 5\), expected \(2, 3, 4, 2\)"):
            f(image, image)

    def test_failing_call(self):
        self.needs_fakes()
        img, theta = self.variable("float32", 4), self.variable("float32", 3)
        f = self.compile([img, theta], dnn.dnn_spatialtf(img, theta))
        given = self.placed(np.ones((2, 3, 4, 5), "float32")), self.placed(self.theta("float32", 2))
        self.fakes.fail("cudnnSpatialTfSamplerForward", 5000)
        with self.assertRaisesRegex(
            RuntimeError, "(?s)cudnnSpatialTfSamplerForward: .*EXECUTION_FAILED.*GpuDnnTransformerSampler"
        ):
            f(*given)
        f(*given)

    def test_other_devices(self):
        name = context()
        if self.fakes is None:
            self.skipTest("needs an OpenCL device")
        img, theta = gpu_variable("float32", 4, name), gpu_variable("float32", 3, name)
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            theano.function([img, theta], dnn.dnn_spatialtf(img, theta))


if __name__ == "__main__":
    unittest.main()
