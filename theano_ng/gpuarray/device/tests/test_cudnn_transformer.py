"""Tests of spatial transformers by cuDNN, on a fake library."""

import itertools
import unittest

import numpy as np
from scipy.ndimage import map_coordinates

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import CODES, EXECUTION_FAILED, Tensor, WithCudnn


def grid_of(theta, rows, columns):
    """Return the grid (n, rows, columns, 2) of affine maps."""
    y, x = np.meshgrid(np.linspace(-1, 1, rows), np.linspace(-1, 1, columns), indexing="ij")
    return np.einsum("nik,khw->nhwi", theta, np.stack([x, y, np.ones_like(x)]))


def sampled(img, grid):
    """Return the new images. Outside, images are 0."""
    n, channels, rows, columns = img.shape
    x, y = [(grid[..., k] + 1) * (length - 1) / 2 for k, length in enumerate((columns, rows))]
    return np.array(
        [
            [map_coordinates(img[i, c], [y[i], x[i]], order=1, mode="grid-constant") for c in range(channels)]
            for i in range(n)
        ]
    )


def differences(function, value, weight):
    """Return the gradient of ``(function(value) * weight).sum()``, by differences."""
    value, found = value.copy(), np.zeros(value.shape)
    for index in np.ndindex(value.shape):
        old, sums = value[index], []
        for step in (-1e-5, 1e-5):
            value[index] = old + step
            sums.append((function(value) * weight).sum())
        value[index] = old
        found[index] = (sums[1] - sums[0]) / 2e-5
    return found


class TestTransformers(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def tensor(self, value):
        return Tensor(self, self.context, value)

    def call(self, name, *arguments):
        function = getattr(self.library, name)
        self.context.check(function(self.context.pointer, *[getattr(v, "pointer", v) for v in arguments]))

    def random(self, dtype, *shape):
        return self.rng.uniform(-1.3, 1.3, shape).astype(dtype)

    def test_grids(self):
        for dtype, n, rows, columns in itertools.product(CODES, (1, 3), (2, 5), (2, 4)):
            theta = self.tensor(self.random(dtype, n, 2, 3))
            grid = self.tensor(np.zeros((n, rows, columns, 2), dtype))
            self.call("cudnn_grid", 3, theta, grid)
            tolerance = 1e-2 if dtype == "float16" else None
            grid.check(grid_of(theta.value.astype("float64"), rows, columns), tolerance)
            dgrid, dtheta = (
                self.tensor(self.random(dtype, n, rows, columns, 2)),
                self.tensor(np.zeros((n, 2, 3), dtype)),
            )
            self.call("cudnn_grid_gradient", 1, dgrid, dtheta)
            exact = theta.value.astype("float64")
            expected = differences(lambda v, r=rows, c=columns: grid_of(v, r, c), exact, dgrid.value.astype("float64"))
            dtheta.check(expected, 2e-2 if dtype == "float16" else 1e-5)

    def test_samples(self):
        for dtype, shape, size in itertools.product(
            CODES, ((1, 1, 4, 5), (2, 3, 2, 2), (2, 1, 1, 3)), ((3, 4), (1, 1), (5, 2))
        ):
            with self.subTest(dtype=dtype, shape=shape, size=size):
                img = self.tensor(self.random(dtype, *shape))
                grid = self.tensor(self.random(dtype, shape[0], *size, 2))
                y = self.tensor(np.zeros((*shape[:2], *size), dtype))
                self.call("cudnn_sample", img, grid, y)
                x, points = img.value.astype("float64"), grid.value.astype("float64")
                tolerance = 2e-2 if dtype == "float16" else 1e-5
                y.check(sampled(x, points), tolerance)
                dy = self.tensor(self.random(dtype, *y.value.shape))
                dx, dgrid = [self.tensor(np.zeros_like(v.value)) for v in (img, grid)]
                self.call("cudnn_sample_gradient", img, grid, dy, dx, dgrid)
                weight = dy.value.astype("float64")
                dx.check(differences(lambda v, g=points: sampled(v, g), x, weight), tolerance)
                dgrid.check(differences(lambda v, x=x: sampled(x, v), points, weight), max(tolerance, 1e-4))

    def test_identity(self):
        """The identity takes each pixel from itself."""
        theta = self.tensor(np.tile(np.eye(2, 3, dtype="float64"), (2, 1, 1)))
        img, y = self.tensor(self.random("float64", 2, 3, 4, 5)), self.tensor(np.zeros((2, 3, 4, 5)))
        grid = self.tensor(np.zeros((2, 4, 5, 2)))
        self.call("cudnn_grid", 3, theta, grid)
        self.call("cudnn_sample", img, grid, y)
        y.check(img.value)

    def test_failing_calls(self):
        theta, grid = self.tensor(self.random("float32", 2, 2, 3)), self.tensor(self.random("float32", 2, 4, 5, 2))
        img, y = [self.tensor(self.random("float32", 2, 3, 4, 5)) for _ in range(2)]
        other = [self.tensor(v.value) for v in (img, grid, theta)]
        for name, arguments in (
            ("CreateSpatialTransformerDescriptor", ("cudnn_grid", 3, theta, grid)),
            ("SetSpatialTransformerNdDescriptor", ("cudnn_grid", 3, theta, grid)),
            ("SpatialTfGridGeneratorForward", ("cudnn_grid", 3, theta, grid)),
            ("SpatialTfGridGeneratorBackward", ("cudnn_grid_gradient", 3, grid, other[2])),
            ("SpatialTfSamplerForward", ("cudnn_sample", img, grid, y)),
            ("SpatialTfSamplerBackward", ("cudnn_sample_gradient", img, grid, y, *other[:2])),
        ):
            self.fake.fake_fail(b"cudnn" + name.encode(), EXECUTION_FAILED, 0)
            with self.assertRaisesRegex(native.DeviceError, name + r": CUDNN_STATUS_EXEC.*of arrays with shapes \(2, "):
                self.call(*arguments)
            if not name.startswith(("Create", "Set")):
                self.call(*arguments)
        self.assertEqual(self.dnn.descriptors, 2)  # one transformer, one layout


if __name__ == "__main__":
    unittest.main()
