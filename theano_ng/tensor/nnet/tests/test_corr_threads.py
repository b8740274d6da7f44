"""Convolutions that several threads compute have the results of one thread."""

import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.tensor.nnet.convolution import convmm
from theano_ng.tensor.nnet.corr3d import Corr3dMM
from theano_ng.tensor.tests.openmp_library import openmp_library
from theano_ng.tensor.tests.test_beyond_blocks import NativeCase

OPS = (convmm.CorrMM, convmm.CorrMM_gradWeights, convmm.CorrMM_gradInputs)


class TestThreads(NativeCase):
    def setUp(self):
        super().setUp()
        openmp_library(self).omp_set_num_threads(3)

    def check(self, make, *arrays):
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in arrays]
        values = dict(zip(variables, arrays))
        one, several = [self.results(make(*variables, openmp), dict(values), "c")[0] for openmp in (False, True)]
        digits = 1e-4 if one.dtype == "float32" else 1e-9
        np.testing.assert_allclose(several, one, rtol=digits, atol=digits * np.abs(one).max())
        return one

    def check_directions(self, image, kernel, dtype, **settings):
        def op(kind, openmp):
            return OPS[kind](openmp=openmp, **settings)

        x, w = self.array(image, dtype), self.array(kernel, dtype)
        y = self.array(self.check(lambda x, w, openmp: op(0, openmp)(x, w), x, w).shape, dtype)
        self.check(lambda x, y, openmp: op(1, openmp)(x, y, T.constant(kernel[-2:])), x, y)
        self.check(lambda w, y, openmp: op(2, openmp)(w, y, T.constant(image[2:])), w, y)

    def test_images(self):
        """Several threads give the same results as one thread, for fewer and for more images than threads.

        In small batches, several threads compute one image. Some convolutions have padding or strides.
        """
        for batch in (1, 2, 7):
            for dtype in ("float32", "float64"):
                for k, settings in enumerate(
                    ({}, {"border_mode": (1, 2)}, {"subsample": (2, 2)}, {"border_mode": "full", "subsample": (1, 3)})
                ):
                    size = 48 if k < 2 else 90
                    self.check_directions((batch, 6, size, size), (20, 6, 3, 3), dtype, **settings)

    def test_groups(self):
        for groups in (2, 4):
            self.check_directions((1, 8, 60, 60), (24, 8 // groups, 3, 3), "float64", num_groups=groups)

    def test_kernels_of_their_own(self):
        for batch in (1, 9):
            self.check_directions((batch, 4, 40, 40), (5, 38, 38, 4, 3, 3), "float32", unshared=True)

    def test_volumes(self):
        x, w = self.array((1, 3, 20, 20, 20)), self.array((8, 3, 3, 3, 3))
        self.check(lambda x, w, openmp: Corr3dMM(openmp=openmp, border_mode=(1, 1, 1))(x, w), x, w)


if __name__ == "__main__":
    unittest.main()
