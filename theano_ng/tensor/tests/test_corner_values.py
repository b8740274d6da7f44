"""Corner cases in which Python and C agree: zero factors with NaN, lengths of zero and one, lengths that overflow."""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode

MODES = [Mode("py", None), Mode("vm", None), "FAST_RUN"]


class TestZeroFactor(unittest.TestCase):
    def test_matrices_are_not_read(self):
        for dtype in ("float32", "float64", "complex64", "complex128"):
            for rows, columns in ((2, 3), (40, 50)):
                a, x = np.full((rows, 4), np.nan, dtype), np.full((4, columns), np.inf, dtype)
                z, zero, half = np.ones((rows, columns), dtype), np.zeros((), dtype), np.array(0.5, dtype)
                variables = [T.TensorType(dtype, (False,) * v.ndim)() for v in (z, zero, a, x, half)]
                for mode in MODES:
                    f = theano.function(variables, T.blas.gemm_no_inplace(*variables), mode=mode)
                    np.testing.assert_array_equal(f(z, -zero, a, x, half), z / 2)
                    f = theano.function(variables[1:4], T.blas._dot22scalar(*variables[2:4], variables[1]), mode=mode)
                    np.testing.assert_array_equal(f(zero, a, x), 0 * z)

    def test_vectors_are_not_read(self):
        a, s, x, y = T.dmatrix(), T.dscalar(), T.dvector(), T.dvector()
        nan, one = np.full(3, np.nan), np.ones((2, 3))
        for mode in MODES:
            f = theano.function([a, s, x, y], T.blas.ger(a, s, x, y), mode=mode)
            np.testing.assert_array_equal(f(one, -0.0, [np.inf, 1.0], nan), one)
            f = theano.function([x, s, a, y], T.blas.gemv_no_inplace(x, s, a, y, s + 1), mode=mode)
            np.testing.assert_array_equal(f([3.0, 4.0], 0.0, one, nan), [3.0, 4.0])


class TestLengths(unittest.TestCase):
    def refused(self, inputs, output, values, error=ValueError):
        for mode in MODES:
            with self.assertRaises(error):
                theano.function(inputs, output, mode=mode)(*values)

    def test_reshape_to_negative_lengths(self):
        x, shape = T.dmatrix(), T.lvector()
        self.refused([x, shape], T.reshape(x, shape, ndim=2), [np.ones((1, 4)), [2, -2]])
        self.refused([x, shape], T.reshape(x, shape, ndim=2), [np.ones((1, 4)), [2, np.iinfo("int64").min]])

    def test_tile(self):
        x, reps = T.dmatrix(), T.bvector()
        for mode in MODES:
            f = theano.function([x, reps], T.Tile(2)(x, reps), mode=mode)
            self.assertEqual(f(np.ones((3, 4)), np.array([100, 2], "int8")).shape, (300, 8))
        reps = T.lvector()
        for n in (1 << 62, (1 << 63) - 1):  # 4 * n wraps around to a small integer
            self.refused([x, reps], T.Tile(2)(x, reps), [np.ones((3, 4)), [1, n]])

    def test_tri(self):
        n, m, k = T.lscalars(3)
        for mode in MODES:
            f = theano.function([n, m, k], T.Tri("int8")(n, m, k), mode=mode)
            for offset in (-3, 0, 1, 100, np.iinfo("int64").max, np.iinfo("int64").min):
                np.testing.assert_array_equal(f(2, 3, offset), np.tri(2, 3, min(max(offset, -9), 9)))
        self.refused([n, m, k], T.Tri("float64")(n, m, k), [2, np.iinfo("int64").max, 2])

    def test_masks(self):
        x, mask = T.dmatrix(), T.TensorType("bool", (False, False))()
        self.refused([x, mask], x[mask], [np.ones((1, 0)), np.ones((0, 0), bool)], IndexError)
        self.refused([x, mask], T.inc_subtensor(x[mask], 1), [np.ones((0, 1)), np.ones((0, 0), bool)], IndexError)

    def test_joint_shape_of_indices(self):
        x, i, j = T.dmatrix(), T.lvector(), T.lvector()
        f = theano.function([x, i, j], x[i, j].shape)
        for a, b in (([0], [1, 2, 0]), ([1, 0, 1], [2]), ([0, 1], [1, 2]), ([0], []), ([0], [0])):
            self.assertEqual(tuple(f(np.ones((3, 4)), a, b)), np.broadcast_shapes((len(a),), (len(b),)))

    def test_gradient_of_softmax(self):
        dy, sm = T.dmatrices(2)
        self.refused([dy, sm], T.nnet.softmax_grad(dy, sm), [np.ones((3, 4)), np.ones((1, 4))])


class TestDerivatives(unittest.TestCase):
    def test_mean_in_one_op_has_none(self):
        x = T.dmatrix()
        mean = T.basic.Mean(axis=0)(x)
        with self.assertRaisesRegex(theano.gradient.NullTypeGradError, "evaluation only"):
            T.grad(mean.sum(), x)
        with self.assertRaisesRegex(NotImplementedError, "evaluation only"):
            T.Rop(mean, x, x)

    def test_prod_of_one_element(self):
        x = T.dmatrix()
        f = theano.function([x], T.grad(T.prod(x, axis=1).sum(), x))
        np.testing.assert_array_equal(f([[0.0], [2.0]]), [[1.0], [1.0]])
        np.testing.assert_array_equal(f([[0.0, 3.0], [0.0, 0.0], [2.0, 5.0]]), [[3.0, 0.0], [0.0, 0.0], [5.0, 2.0]])

    def test_direction_of_max_of_nothing(self):
        x, v = T.dmatrices(2)
        f = theano.function([x, v], T.Rop(T.max_and_argmax(x, axis=0)[0], x, v))
        self.assertEqual(f(np.ones((3, 0)), np.ones((3, 0))).shape, (0,))
        np.testing.assert_array_equal(f([[1.0, 5.0], [3.0, 2.0]], [[10.0, 20.0], [30.0, 40.0]]), [30.0, 20.0])


if __name__ == "__main__":
    unittest.main()
