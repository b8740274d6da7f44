"""Tests of convolution and pooling as sparse products, compared with loops, and of the moments of random matrices."""

import unittest

import numpy as np
import scipy.sparse as sp

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import sparse
from theano_ng.gradient import NullTypeGradError
from theano_ng.sparse.sandbox import sp as convolution
from theano_ng.sparse.sandbox import sp2


def correlated(images, kernels, step, mode):
    """Correlate images with kernels by loops.

    The shapes are images (batch, channels, ...), kernels (kernels, channels, ...), and result (batch, kernels, height,
    width).
    """
    dx, dy = step
    tall, wide = kernels.shape[2:]
    if mode == "full":
        images = np.pad(images, ((0, 0), (0, 0), (tall - 1, tall - 1), (wide - 1, wide - 1)))
    rows, columns = range(0, images.shape[2] - tall + 1, dy), range(0, images.shape[3] - wide + 1, dx)
    return np.array(
        [
            [
                [[(image[:, y : y + tall, x : x + wide] * kernel).sum() for x in columns] for y in rows]
                for kernel in kernels
            ]
            for image in images
        ]
    )


class TestConvolution(unittest.TestCase):
    def test_documented_structure(self):
        indices, indptr, shape, kind, out = convolution.convolution_indices.evaluate((3, 3), (2, 2))
        self.assertEqual(indices.tolist(), [0, 1, 4, 5, 2, 8, 3, 6, 9, 12, 7, 13, 10, 11, 14, 15])
        self.assertEqual(indptr.tolist(), [0, 1, 3, 4, 6, 10, 12, 13, 15, 16])
        self.assertEqual((shape, kind, out.tolist()), ((16, 9), "csc", [2, 2]))
        with self.assertRaisesRegex(Exception, "must be always True"):
            convolution.ConvolutionIndices.evaluate((3, 3), (2, 2), ws=False)
        for wrong in (
            ((2, 2), (3, 3)),
            ((3, 3), (2, 2), (0, 1)),
            ((3,), (2, 2)),
            ((3, 3), (2, 2), (1, 1), 0),
            ((3, 3), (2, 2), (1, 1), 1, "same"),
        ):
            with self.assertRaises(ValueError):
                convolution.ConvolutionIndices.evaluate(*wrong)

    def test_as_op(self):
        outputs = [v.eval() for v in convolution.convolution_indices(np.array([2, 3, 4]), np.array([2, 2]))]
        expected = convolution.ConvolutionIndices.evaluate((2, 3, 4), (2, 2))
        for found, wanted in zip(outputs, (expected[0], expected[1], expected[2], expected[4])):
            np.testing.assert_array_equal(found, wanted)

    def test_convolve(self):
        rng = np.random.RandomState(0)
        kerns, images, bias = T.dmatrix(), T.dmatrix(), T.dvector()
        for channels, height, width, kshp, step, mode in (
            (1, 3, 3, (2, 2), (1, 1), "valid"),
            (1, 5, 4, (2, 3), (1, 2), "valid"),
            (3, 4, 6, (3, 2), (2, 1), "full"),
            (2, 4, 4, (4, 4), (1, 1), "full"),
        ):
            k, x, b = rng.randn(2, channels, *kshp), rng.randn(3, channels, height, width), rng.randn(2)
            expected = correlated(x, k, step, mode) + b[:, None, None]
            imgshp = (channels, height, width) if channels > 1 else (height, width)
            values = k.reshape(2, -1), x.reshape(3, -1), b
            for flatten in (True, False):
                result, shape = convolution.convolve(kerns, kshp, 2, images, imgshp, step, bias, mode, flatten)
                found = theano.function([kerns, images, bias], result)(*values)
                self.assertEqual(tuple(shape), expected.shape[1:])
                np.testing.assert_allclose(found, expected.reshape((3, -1) if flatten else (3, 2, -1)), atol=1e-12)

    def test_max_pool(self):
        rng = np.random.RandomState(0)
        images = T.dmatrix()
        for channels, height, width, window in ((1, 4, 4, (2, 2)), (2, 6, 5, (2, 3)), (1, 3, 3, (2, 2))):
            x = rng.randn(2, channels, height, width)
            rows, columns = height // window[0], width // window[1]
            cut = x[:, :, : rows * window[0], : columns * window[1]]
            expected = cut.reshape(2, channels, rows, window[0], columns, window[1]).max(axis=(3, 5))
            result, shape = convolution.max_pool(
                images, (channels, height, width) if channels > 1 else (height, width), window
            )
            self.assertEqual(shape.tolist(), [rows, columns])
            np.testing.assert_array_equal(result.eval({images: x.reshape(2, -1)}), expected.reshape(2, -1))

    def test_gradient(self):
        kerns, images = T.dmatrix(), T.dmatrix()
        result, _ = convolution.convolve(kerns, (2, 2), 2, images, (3, 3))
        rng = np.random.RandomState(0)
        theano.gradient.verify_grad(
            lambda k, x: theano.clone(result, {kerns: k, images: x}), [rng.randn(2, 4), rng.randn(2, 9)], rng=rng
        )


class TestRandom(unittest.TestCase):
    # Do not use DebugMode: it runs each node in several ways, which draw different random values.
    mode = theano.Mode("cvm", "fast_run")

    def setUp(self):
        np.random.seed(17)

    def test_poisson(self):
        means = sp.random(200, 300, 0.3, format="csr", random_state=0) * 9
        for format, dtype in (("csr", "float64"), ("csc", "float32"), ("csr", "int32")):
            x = sparse.matrix(format, dtype=dtype)
            value = means.asformat(format).astype(dtype)
            f = theano.function([x], sp2.poisson(x), mode=self.mode)
            drawn = f(value)
            self.assertTrue(x.type.is_valid_value(drawn))
            self.assertFalse(((drawn != 0).toarray() & (value.toarray() == 0)).any())
            self.assertLess(abs(drawn.sum() - value.sum()), 5 * np.sqrt(value.sum()))
            self.assertNotEqual((f(value) != drawn).nnz, 0)
        with self.assertRaises(ValueError):
            f(-value)

    def test_binomial(self):
        n, p, shape = T.iscalar(), T.dscalar(), T.lvector()
        for name, format, dtype in (
            ("csr_fbinomial", "csr", "float32"),
            ("csc_fbinomial", "csc", "float32"),
            ("csr_dbinomial", "csr", "float64"),
            ("csc_dbinomial", "csc", "float64"),
        ):
            result = getattr(sp2, name)(n, p, shape)
            self.assertEqual(result.type, sparse.SparseType(format, dtype))
            f = theano.function([n, p, shape], [result, result.shape], mode=self.mode)
            drawn, lengths = f(5, 0.1, [300, 400])
            self.assertEqual(drawn.shape, (300, 400))
            self.assertEqual(lengths.tolist(), [300, 400])
            self.assertLess(abs(drawn.sum() - 60000), 5 * np.sqrt(60000 * 0.9))
            self.assertEqual(drawn.max() <= 5, True)
            for empty in ([0, 3], [3, 0]):
                self.assertEqual(f(5, 0.1, empty)[0].shape, tuple(empty))
            with self.assertRaises(ValueError):
                f(5, 0.1, [3])

    def test_binomial_draws_what_numpy_draws(self):
        f = theano.function([], sp2.csr_dbinomial(4, 0.3, np.array([30, 20])), mode=self.mode)
        np.random.seed(3)
        found = f().toarray()
        np.random.seed(3)
        np.testing.assert_array_equal(found, np.random.binomial(4, 0.3, (30, 20)))

    def test_multinomial(self):
        p = sparse.csr_dmatrix()
        probabilities = sp.csr_matrix(np.array([[0.1, 0, 0.9], [0, 1, 0], [0.5, 0.25, 0.25]]))
        drawn = theano.function([p], sp2.multinomial(1000, p), mode=self.mode)(probabilities).toarray()
        np.testing.assert_array_equal(drawn.sum(1), 1000)
        self.assertLess(np.abs(drawn - 1000 * probabilities.toarray()).max(), 80)
        counts = T.lvector()
        f = theano.function([counts, p], sp2.multinomial(counts, p), mode=self.mode)
        np.testing.assert_array_equal(f([3, 20, 0], probabilities).toarray().sum(1), [3, 20, 0])
        with self.assertRaisesRegex(ValueError, "number of element"):
            f([3, 20], probabilities)
        with self.assertRaises(NotImplementedError):
            sp2.multinomial(5, sparse.csc_dmatrix())

    def test_no_gradients(self):
        x, p = sparse.csr_dmatrix(), T.dscalar()
        for cost, wrt in (
            (sp2.poisson(x), x),
            (sp2.csr_dbinomial(3, p, np.array([2, 2])), p),
            (sp2.multinomial(5, x), x),
        ):
            with self.assertRaises(NullTypeGradError):
                theano.grad(sparse.sp_sum(cost), wrt)


if __name__ == "__main__":
    unittest.main()
