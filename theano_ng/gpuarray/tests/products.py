"""A base class for tests of products on a device."""

import unittest

import numpy as np

from theano_ng.gpuarray.tests.device import context

_TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}


class ProductTest(unittest.TestCase):
    """Random arrays, and the comparison of results with products that were computed in float64."""

    def setUp(self):
        self.name = context()
        self.rng = np.random.default_rng(5)

    def array(self, dtype, *shape):
        return self.rng.uniform(-1, 1, shape).astype(dtype)

    def check(self, result, expected, dtype):
        np.testing.assert_allclose(np.asarray(result, "float64"), expected, _TOLERANCE[dtype], _TOLERANCE[dtype])
