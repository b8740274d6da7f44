"""Windows of images, compared with NumPy's padding and slices."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.differentiate import Rop, grad
from theano_ng.tensor.nnet.neighbours import Images2Neibs, Images2NeibsGrad, images2neibs, neibs2images
from theano_ng.tensor.nnet.tests.nodes import layouts
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tests import unittest_tools as utt

MODES = ("valid", "ignore_borders", "wrap_centered", "half", "full")
UNREWRITTEN = Mode(linker="py", optimizer=None)


def windows(x, neib, step, mode):
    """Return the matrix whose rows are the windows, as documented, or None if the windows do not fit."""
    sides = [(0, 0), (0, 0)]
    grid = []
    for n, s, size in zip(neib, step, x.shape[2:]):
        margin = {"half": n // 2, "full": n - 1, "wrap_centered": n // 2}.get(mode, 0)
        sides.append((margin, margin))
        if mode == "wrap_centered":
            if n % 2 == 0 or size < n:
                return None
            grid.append(range(0, size, s))
            continue
        rest = size + 2 * margin - n
        if mode != "ignore_borders" and (rest < 0 or rest % s):
            return None
        grid.append(range(0, rest + 1, s))
    x = np.pad(x, sides, mode="wrap" if mode == "wrap_centered" else "constant")
    rows = [
        image[i : i + neib[0], j : j + neib[1]].ravel()
        for images in x
        for image in images
        for i in grid[0]
        for j in grid[1]
    ]
    return np.array(rows, x.dtype).reshape(-1, neib[0] * neib[1])


class TestWindows(unittest.TestCase):
    def test_all_modes(self):
        rng = np.random.RandomState(1)
        x, images = T.tensor4(dtype="float64"), rng.randn(2, 3, 5, 6)
        m = T.dmatrix()
        fits = dict.fromkeys(MODES, 0)
        for mode in MODES:
            for neib in ((1, 1), (2, 2), (3, 3), (2, 3), (5, 6), (3, 5), (7, 7), (4, 1)):
                for step in (None, (1, 1), (2, 1), (2, 3), (3, 2)):
                    out = images2neibs(x, neib, step, mode)
                    expected = windows(images, neib, step or neib, mode)
                    if expected is None:
                        for impl in ("c", "py"):
                            too_small = (
                                r"smaller then the patch shapes: neib_shape=\(%d,%d\), ten4\[2:\]=\[5,6\]" % neib
                            )
                            with self.assertRaisesRegex(TypeError, "not consistent|odd shapes|" + too_small):
                                run_node(out, {x: images}, impl)
                        continue
                    fits[mode] += 1
                    back = Images2NeibsGrad(mode)(m, *images.shape, neib, step or neib)
                    g = rng.randn(*expected.shape)
                    sums = []
                    for impl in ("c", "py"):
                        (got,) = run_node(out, {x: images}, impl)
                        np.testing.assert_array_equal(got, expected)
                        (total,) = run_node(back, {m: g}, impl)
                        self.assertEqual(total.shape, images.shape)
                        # the gradient is the transpose of the linear map
                        utt.assert_allclose((total * images).sum(), (g * expected).sum())
                        sums.append(total)
                    utt.assert_allclose(*sums)
        self.assertTrue(min(fits.values()) > 5, fits)

    def test_documented_example(self):
        images = T.tensor4("images")
        value = np.arange(100.0).reshape((1, 1, 10, 10))
        neibs = images2neibs(images, neib_shape=(5, 5))
        got = theano.function([images], neibs)(value)
        self.assertEqual(got.shape, (4, 25))
        np.testing.assert_array_equal(got[0, :7], [0, 1, 2, 3, 4, 10, 11])
        np.testing.assert_array_equal(got[1, :6], [5, 6, 7, 8, 9, 15])
        again = neibs2images(neibs, (5, 5), value.shape)
        np.testing.assert_array_equal(theano.function([images], again)(value), value)

    def test_dtypes_and_layouts(self):
        rng = np.random.RandomState(2)
        for dtype in (
            "bool",
            "int8",
            "uint16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
        ):
            images = (rng.randn(2, 1, 4, 6) * 5).astype(dtype)
            x, m = T.TensorType(dtype, (False,) * 4)(), T.TensorType(dtype, (False,) * 2)()
            out = images2neibs(x, (3, 3), (1, 1), "half")
            expected = windows(images, (3, 3), (1, 1), "half")
            back = Images2NeibsGrad("half")(m, *images.shape, (3, 3), (1, 1))
            for impl in ("c", "py"):
                for form in layouts(images):
                    (got,) = run_node(out, {x: form}, impl)
                    self.assertEqual(got.dtype, dtype)
                    np.testing.assert_array_equal(got, expected)
                if impl == "c" and dtype in ("bool", "float16"):
                    self.assertIsNone(back.owner.op.native_code(back.owner))
                    continue
                for form in layouts(expected):
                    (got,) = run_node(back, {m: form}, impl)
                    self.assertEqual(got.dtype, dtype)
                    np.testing.assert_allclose(
                        got[:, :, 1:3, 1:-1], images[:, :, 1:3, 1:-1] * (9 if dtype != "bool" else True), rtol=2e-3
                    )

    def test_symbolic_windows(self):
        x, neib, step = T.tensor4(), T.ivector(), T.lvector()
        out = images2neibs(x, neib, step, "ignore_borders")
        f = theano.function([x, neib, step], [out, out.shape])
        images = np.random.RandomState(3).randn(1, 2, 7, 5)
        for a, b in (((2, 2), (1, 2)), ((3, 1), (2, 2)), ((8, 2), (1, 1))):
            got, shape = f(images, a, b)
            np.testing.assert_array_equal(got, windows(images, a, b, "ignore_borders"))
            self.assertEqual(tuple(shape), got.shape)
        for bad, error, message in (
            (((2, 2, 2), (1, 1)), TypeError, "neib_shape wrong shape ; has to contain 2 elements"),
            (((2, 2), (1,)), TypeError, "neib_step wrong step ; has to contain 2 elements"),
            (((0, 2), (1, 1)), ValueError, "^neib_shape values <= 0. Got 0 2."),
            (((2, 2), (1, -1)), ValueError, "^neib_step wrong step ; values <= 0. Got 1 -1."),
        ):
            for mode in (None, UNREWRITTEN):
                g = f if mode is None else theano.function([x, neib, step], out, mode=mode)
                with self.assertRaisesRegex(error, message):
                    g(images, *bad)

    def test_shapes(self):
        x = T.tensor4()
        for mode in MODES:
            for neib, step in (((3, 3), (1, 1)), ((1, 3), (2, 1))):
                images = np.zeros((2, 3, 5, 6 if mode != "full" else 7))
                out = images2neibs(x, neib, step, mode)
                expected = windows(images, neib, step, mode).shape
                self.assertEqual(tuple(theano.function([x], out.shape)(images)), expected)

    def test_nothing(self):
        x = T.tensor4()
        for shape in ((0, 3, 4, 4), (2, 0, 4, 4), (2, 3, 0, 4)):
            mode = "ignore_borders"
            for impl in ("c", "py"):
                (got,) = run_node(images2neibs(x, (2, 2), None, mode), {x: np.zeros(shape)}, impl)
                self.assertEqual(got.shape, (0, 4))

    def test_errors(self):
        x = T.tensor4()
        with self.assertRaisesRegex(NotImplementedError, "Only modes full, half, ignore_borders, valid, wrap_centered"):
            images2neibs(x, (2, 2), mode="same")
        for arguments in ((T.matrix(), (2, 2)), (x, 2), (x, (2.5, 2)), (x, T.dvector())):
            with self.assertRaises(TypeError):
                images2neibs(*arguments)
        self.assertEqual(images2neibs(x, (2.0, 2.0)).owner.inputs[1].dtype, "int64")
        m = T.matrix()
        for impl in ("c", "py"):
            out = Images2NeibsGrad()(m, 1, 1, 4, 4, (2, 2), (2, 2))
            with self.assertRaisesRegex(ValueError, r"neibs has shape \(3, 4\), expected \(4, 4\) for images of shape"):
                run_node(out, {m: np.zeros((3, 4))}, impl)


class TestBack(unittest.TestCase):
    def test_images_of_their_windows(self):
        rng = np.random.RandomState(4)
        x, m = T.tensor4(), T.matrix()
        for mode in MODES:
            for neib in ((1, 1), (3, 3), (1, 3), (5, 3), (3, 1)):
                for size in ((6, 6), (5, 7), (8, 9), (5, 6)):
                    images = rng.randn(2, 2, *size)
                    rows = windows(images, neib, neib, mode)
                    if rows is None:
                        continue
                    got = neibs2images(m, neib, images.shape, mode).eval({m: rows})
                    expected = images.copy()
                    if mode == "ignore_borders":
                        expected[:, :, size[0] // neib[0] * neib[0] :] = 0
                        expected[:, :, :, size[1] // neib[1] * neib[1] :] = 0
                    np.testing.assert_array_equal(got, expected)
        self.assertEqual(neibs2images(m, (2, 2), (1, 3, 4, 4)).broadcastable, (True, False, False, False))
        shape = T.lvector()
        f = theano.function([x, shape], neibs2images(images2neibs(x, (2, 2)), (2, 2), shape))
        images = rng.randn(1, 2, 4, 6)
        np.testing.assert_array_equal(f(images, images.shape), images)
        whole = np.arange(45).reshape(1, 1, 5, 9)
        rows = windows(whole, (3, 3), (3, 3), "wrap_centered")
        k = T.lmatrix()
        np.testing.assert_array_equal(neibs2images(k, (3, 3), whole.shape, "wrap_centered").eval({k: rows}), whole)

    def test_wrong_shapes(self):
        m = T.matrix()
        f = theano.function([m], neibs2images(m, (2, 2), (1, 1, 4, 4)))
        with self.assertRaisesRegex(ValueError, r"neibs has shape \(4, 3\)"):
            f(np.zeros((4, 3)))
        with self.assertRaisesRegex(ValueError, "must have 4 elements, got 3"):
            neibs2images(m, (2, 2), (1, 4, 4))

    def test_no_images(self):
        """`Images2NeibsGrad` makes images with a dimension of length zero from a matrix without rows."""
        m = T.matrix()
        for shape in ((0, 3, 4, 4), (2, 0, 4, 4), (2, 3, 0, 4), (2, 3, 4, 0)):
            for impl in ("c", "py"):
                out = Images2NeibsGrad("ignore_borders")(m, *shape, (2, 2), (2, 2))
                (got,) = run_node(out, {m: np.zeros((0, 4))}, impl)
                self.assertEqual(got.shape, shape)


class TestDerivatives(unittest.TestCase):
    def test_gradients(self):
        rng = np.random.RandomState(5)
        for mode in MODES:
            for neib, step in (((3, 3), (1, 1)), ((3, 3), (3, 3))):
                size = {"full": (5, 5), "half": (4, 4)}.get(mode, (6, 3)) if step == (3, 3) else (4, 3)
                if windows(np.zeros((1, 1, *size)), neib, step, mode) is None:
                    continue
                utt.verify_grad(
                    lambda x: images2neibs(x, neib, step, mode), [rng.randn(2, 1, *size)], rng=rng, mode=UNREWRITTEN
                )
        x = T.TensorType("float64", (False, True, False, False))()
        self.assertEqual(grad(images2neibs(x, (2, 2)).sum(), x).type, x.type)
        row = T.row()
        self.assertEqual(grad(neibs2images(row, (2, 2), (1, 1, 2, 2)).sum(), row).type, row.type)
        utt.verify_grad(lambda m: neibs2images(m, (2, 3), (2, 1, 4, 6)), [rng.randn(8, 6)], rng=rng, mode=UNREWRITTEN)

    def test_directions(self):
        rng = np.random.RandomState(6)
        x, v, m, w = T.tensor4(), T.tensor4(), T.matrix(), T.matrix()
        images, direction = rng.randn(2, 1, 4, 4)
        out = Rop(images2neibs(x, (3, 3), (1, 1), "half"), x, v)
        got = theano.function([x, v], out, on_unused_input="ignore")(images[None], direction[None])
        np.testing.assert_array_equal(got, windows(direction[None], (3, 3), (1, 1), "half"))
        out = Rop(neibs2images(m, (2, 2), (1, 1, 4, 4)), m, w)
        rows = windows(direction[None], (2, 2), (2, 2), "valid")
        got = theano.function([m, w], out, on_unused_input="ignore")(rows * 0, rows)
        np.testing.assert_array_equal(got, direction[None])


class TestNames(unittest.TestCase):
    def test_identity(self):
        self.assertEqual(str(Images2Neibs("half")), "Images2Neibs{half}")
        self.assertEqual(pickle.loads(pickle.dumps(Images2Neibs("full"))), Images2Neibs("full"))
        self.assertNotEqual(Images2Neibs("full"), Images2Neibs("half"))


if __name__ == "__main__":
    unittest.main()
