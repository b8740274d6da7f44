"""The earlier interfaces of convolution: `ConvOp`, `signal.conv2d`, `conv3d` of films, views of diagonals, `Conv3D`."""

import pickle
import unittest
import warnings

import numpy as np
import scipy.signal

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gradient import verify_grad
from theano_ng.tensor import nnet
from theano_ng.tensor.nnet import conv, conv3d2d
from theano_ng.tensor.nnet.conv import ConvOp
from theano_ng.tensor.nnet.convolution import volumes
from theano_ng.tensor.nnet.tests.convolutions import Reference
from theano_ng.tensor.nnet.tests.test_abstract_conv import operands
from theano_ng.tensor.signal import conv as signal_conv

SLOW = Mode("py", None)


def values(function, *arrays, mode="FAST_COMPILE"):
    """Compile a function of variables and return its result for the arrays."""
    variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in arrays]
    return theano.function(variables, function(*variables), mode=mode)(*arrays)


def check_gradient(function, *arrays):
    verify_grad(function, list(arrays), rng=np.random.RandomState(3), mode="FAST_COMPILE", eps=1e-4)


class TestConvOp(unittest.TestCase):
    def test_values(self):
        x, w = operands((2, 3, 5, 6), (4, 3, 2, 3))
        for mode in ("valid", "full"):
            for dx, dy in ((1, 1), (2, 3)):
                expected = Reference(x.shape, w.shape, mode, (dx, dy)).forward(x, w)
                for op in (
                    ConvOp(output_mode=mode, dx=dx, dy=dy),
                    ConvOp((3, 5, 6), (2, 3), 4, 2, dx, dy, mode, openmp=True),
                    ConvOp((3, 5, None), (None, 3), None, 2, dx, dy, mode, unroll_batch=2),
                ):
                    for compiled in ("FAST_COMPILE", SLOW):
                        np.testing.assert_array_equal(values(op, x, w, mode=compiled), expected)
                self.assertEqual(op.infer_shape(None, [x.shape, w.shape]), [expected.shape])

    def test_integers_and_complex_numbers(self):
        for dtype in ("int16", "complex64", "float16"):
            x, w = operands((1, 1, 4, 4), (1, 1, 2, 3), dtype=dtype)
            got = values(ConvOp(), x, w)
            self.assertEqual(got.dtype, dtype)
            np.testing.assert_array_equal(got, Reference(x.shape, w.shape).forward(x, w))

    def test_gradients(self):
        x, w = operands((2, 2, 4, 5), (2, 2, 2, 3))
        for arguments in (
            {},
            {"output_mode": "full"},
            {"dx": 2},
            {"imshp": (2, 4, 5), "bsize": 2, "output_mode": "full", "dy": 3},
        ):
            check_gradient(ConvOp(**arguments), x, w)

    def test_forward_mode(self):
        x, w = operands((2, 2, 4, 5), (2, 2, 2, 3))
        for function in (lambda a, b, da, db: theano.Rop(ConvOp()(a, b), [a, b], [da, db]),):
            got = values(function, x, w, x + 1, w - 1)
        reference = Reference(x.shape, w.shape)
        np.testing.assert_array_equal(got, reference.forward(x + 1, w) + reference.forward(x, w - 1))

    def test_logical_shapes(self):
        x, w = operands((1, 1, 3, 3), (1, 1, 2, 2))
        spread = np.zeros((1, 1, 6, 6))
        spread[:, :, ::2, ::2] = x
        op = ConvOp((1, 3, 3), (2, 2), 1, 1, output_mode="full", imshp_logical=(1, 6, 6))
        np.testing.assert_array_equal(values(op, x, w)[0, 0], scipy.signal.convolve2d(spread[0, 0], w[0, 0]))
        check_gradient(op, x, w)
        (x,) = operands((1, 1, 6, 6))
        for first, top in ((0, True), (1, False)):
            kernel = np.zeros((4, 4))
            kernel[first::2, first::2] = w[0, 0]
            op = ConvOp((1, 6, 6), (2, 2), 1, 1, kshp_logical=(4, 4), kshp_logical_top_aligned=top)
            np.testing.assert_array_equal(values(op, x, w)[0, 0], scipy.signal.convolve2d(x[0, 0], kernel, "valid"))
            check_gradient(op, x, w)

    def test_shapes_are_checked(self):
        op = ConvOp((1, 4, 4), (2, 2), 1, 1)
        for x, w in (operands((1, 1, 3, 3), (1, 1, 2, 2)), operands((1, 1, 4, 4), (2, 1, 2, 2))):
            with self.assertRaisesRegex(
                ValueError, "provided at build time is different from the one passed at run time"
            ):
                values(op, x, w)

    def test_what_does_not_fit(self):
        for mode in ("FAST_COMPILE", SLOW):
            with self.assertRaisesRegex(ValueError, r"(?s)1 2 3 3.*1 3 2 2"):
                values(ConvOp(), *operands((1, 2, 3, 3), (1, 3, 2, 2)), mode=mode)
            with self.assertRaisesRegex(ValueError, "impossible output shape"):
                values(ConvOp(), *operands((1, 1, 3, 3), (1, 1, 4, 4)), mode=mode)
        with self.assertRaisesRegex(ValueError, "Bad size for the output shape"):
            ConvOp((1, 3, 3), (4, 4), 1, 1)

    def test_parameters(self):
        for arguments, error in [
            ({"output_mode": "same"}, ValueError),
            ({"dx": 1.5}, TypeError),
            ({"dy": 0}, ValueError),
            ({"imshp": (1, 2, 3, 4)}, ValueError),
            ({"kshp": (-1, 2)}, ValueError),
            ({"foo": 1}, TypeError),
        ]:
            with self.assertRaises(error):
                ConvOp(**arguments)
        for x, w, message in [
            (T.matrix(), T.tensor4(), "input be a 4D tensor"),
            (T.tensor4(), T.matrix(), "4D tensor of kernels"),
            (T.dtensor4(), T.ftensor4(), "must have the same type"),
        ]:
            with self.assertRaisesRegex(TypeError, message):
                ConvOp()(x, w)

    def test_unrolling(self):
        with self.assertWarnsRegex(UserWarning, "unroll_batch=3 is not a divisor of 4"):
            op = ConvOp(bsize=4, nkern=6, unroll_batch=3, unroll_kern=2)
        self.assertEqual((op.unroll_batch, op.unroll_kern, op.unroll_patch), (2, 2, None))
        self.assertTrue(ConvOp().unroll_patch)

    def test_helpers(self):
        self.assertTrue(ConvOp.has_all_shape((1, 2, 3), (4, 5)))
        self.assertFalse(ConvOp.has_all_shape((1, None, 3), (4, 5)))
        with self.assertWarnsRegex(UserWarning, "get_conv_output_shape"):
            self.assertEqual(ConvOp.getOutputShape((5, 6), (2, 3), (2, 2), "full"), (3, 4))
        self.assertEqual(ConvOp().flops([(4, 2, 5, 5), (3, 2, 2, 2)], [(4, 3, 4, 4)]), 3072)
        self.assertFalse(ConvOp().use_blas())
        op = ConvOp((2, 5, 5), (2, 2), 3, 4, unroll_patch=True)
        self.assertEqual(
            (op.outshp, ConvOp((2, 5, 5), (2, 2), 3, 4, 2, 2).outshp, op.fulloutshp), ((4, 4), (2, 2), (4, 4))
        )
        self.assertTrue(
            str(op).startswith("ConvOp{('imshp', (2, 5, 5)),('kshp', (2, 2)),('nkern', 3),('bsize', 4),('dx', 1),")
        )
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)


class TestConv2d(unittest.TestCase):
    def test_values(self):
        x, w = operands((2, 3, 5, 6), (4, 3, 2, 3))
        with self.assertWarnsRegex(UserWarning, "conv.conv2d is deprecated"):
            out = values(lambda a, b: conv.conv2d(a, b, subsample=(2, 1), border_mode="full", unroll_kern=2), x, w)
        np.testing.assert_array_equal(out, Reference(x.shape, w.shape, "full", (2, 1)).forward(x, w))

    def test_shapes(self):
        x, w = T.tensor4s(2)
        with warnings.catch_warnings(record=True):
            op = conv.conv2d(x, w, (T.constant(2), None, 5, 6), (4, 3, 2, np.int64(3))).owner.op
            self.assertEqual((op.bsize, op.imshp, op.nkern, op.kshp), (2, (3, 5, 6), 4, (2, 3)))
            with self.assertRaisesRegex(
                ValueError, r"channels, got image_shape \(1, 2, 5, 5\) and filter_shape \(3, 4, 2, 2\)"
            ):
                conv.conv2d(x, w, (1, 2, 5, 5), (3, 4, 2, 2))
            with self.assertRaisesRegex(ValueError, "4 entries"):
                conv.conv2d(x, w, (1, 2, 5))
            with self.assertRaisesRegex(T.NotScalarConstantError, "constant values"):
                conv.conv2d(x, w, (T.iscalar(), 2, 5, 5))
            with self.assertRaisesRegex(ValueError, "Mode half"):
                conv.conv2d(x, w, border_mode="half")

    def test_names(self):
        self.assertIs(nnet.ConvOp, ConvOp)
        self.assertIs(nnet.conv, conv)
        self.assertTrue(callable(nnet.conv2d) and conv.imported_scipy_signal)


class TestSignal(unittest.TestCase):
    def test_values(self):
        for mode, step in (("valid", 1), ("full", 2)):
            for images, filters in (((5, 6), (2, 3)), ((3, 5, 6), (2, 3)), ((5, 6), (2, 2, 3)), ((3, 5, 6), (2, 2, 3))):
                x, w = operands(images, filters)
                hints = {"image_shape": images, "filter_shape": filters} if step == 2 else {}
                got = values(
                    lambda a, b: signal_conv.conv2d(a, b, border_mode=mode, subsample=(step, 1), **hints), x, w
                )
                many = [
                    [scipy.signal.convolve2d(image, kernel, mode)[::step] for kernel in w.reshape(-1, 2, 3)]
                    for image in x.reshape(-1, 5, 6)
                ]
                expected = np.reshape(many, (*images[:-2], *filters[:-2], *np.shape(many)[2:]))
                np.testing.assert_array_equal(got, expected)

    def test_gradient(self):
        check_gradient(lambda a, b: signal_conv.conv2d(a, b), *operands((2, 4, 5), (2, 3)))

    def test_arguments(self):
        for arguments in ((T.tensor4(), T.matrix()), (T.matrix(), T.vector()), (T.matrix(), T.matrix(), (1, 2, 3))):
            with self.assertRaises(ValueError):
                signal_conv.conv2d(*arguments)
        with self.assertRaisesRegex(ValueError, "at build time"):
            values(lambda a, b: signal_conv.conv2d(a, b, (4, 4)), *operands((3, 3), (2, 2)))


class TestConv3d(unittest.TestCase):
    def expected(self, x, w, mode):
        order = (0, 2, 1, 3, 4)
        films, filters = x.transpose(order), w.transpose(order)
        if isinstance(mode, tuple):
            ks = filters.shape[2:]
            mode = tuple({"valid": 0, "half": k // 2, "full": k - 1}[m] for m, k in zip(mode, ks))
        return Reference(films.shape, filters.shape, mode).forward(films, filters).transpose(order)

    def test_values(self):
        x, w = operands((2, 4, 2, 3, 4), (2, 2, 2, 3, 2))
        for mode in ("valid", "full", "half", ("half", "valid", "full"), ("valid",) * 3):
            for hints in ({}, {"signals_shape": x.shape, "filters_shape": w.shape}):
                got = values(lambda a, b: conv3d2d.conv3d(a, b, border_mode=mode, **hints), x, w)
                np.testing.assert_array_equal(got, self.expected(x, w, mode))

    def test_gradient(self):
        x, w = operands((1, 3, 2, 3, 2), (2, 2, 2, 2, 2))
        check_gradient(lambda a, b: conv3d2d.conv3d(a, b, border_mode=("full", "half", "valid")), x, w)

    def test_arguments(self):
        for mode in ("foo", ("valid", "valid"), (1, 2, 3)):
            with self.assertRaisesRegex(ValueError, "border_mode"):
                conv3d2d.conv3d(T.tensor5(), T.tensor5(), border_mode=mode)
        with self.assertRaisesRegex(ValueError, "5D"):
            conv3d2d.conv3d(T.tensor4(), T.tensor5())


class TestDiagonals(unittest.TestCase):
    def test_view(self):
        x = np.arange(24.0).reshape(4, 3, 2)
        for i0, i1 in ((0, 1), (0, 2), (1, 2)):
            view = conv3d2d.get_diagonal_subtensor_view(x, i0, i1)
            first, n = np.moveaxis(x, (i0, i1), (0, 1)), x.shape[i1]
            rows = x.shape[i0] - n + 1
            expected = np.array([[first[a + n - 1 - b, b] for b in range(n)] for a in range(rows)])
            np.testing.assert_array_equal(np.moveaxis(view, (i0, i1), (0, 1)), expected)
            self.assertTrue(np.shares_memory(view, x))
        with self.assertRaisesRegex(ValueError, "at least as long"):
            conv3d2d.get_diagonal_subtensor_view(x, 1, 0)
        for i0, i1 in ((0, 0), (1, -2)):
            with self.assertRaisesRegex(ValueError, "got dimension . twice"):
                conv3d2d.get_diagonal_subtensor_view(x, i0, i1)

    def test_ops(self):
        x, amount = operands((4, 3, 2), (2, 3, 2))
        t, a = T.dtensor3(), T.dtensor3()
        outs = [conv3d2d.diagonal_subtensor(t, 0, 1), conv3d2d.inc_diagonal_subtensor(t, 0, 1, a)]
        expected = x.copy()
        conv3d2d.get_diagonal_subtensor_view(expected, 0, 1)[...] += amount
        for mode in ("FAST_RUN", "FAST_COMPILE"):
            f = theano.function([t, a], outs, mode=mode)
            kept = x.copy()
            for got, want in zip(f(kept, amount), (conv3d2d.get_diagonal_subtensor_view(x, 0, 1), expected)):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(kept, x)
        with self.assertRaisesRegex(ValueError, "cannot be increased"):
            f(x, amount[:1])

    def test_derivatives(self):
        x, amount = operands((4, 3, 2), (2, 3, 2))
        check_gradient(lambda t: conv3d2d.diagonal_subtensor(t, 0, 1), x)
        check_gradient(lambda t, a: conv3d2d.inc_diagonal_subtensor(t, 0, 1, a), x, amount)
        t, a = T.dtensor3s(2)
        out = conv3d2d.diagonal_subtensor(conv3d2d.inc_diagonal_subtensor(t, 0, 1, a), 0, 1)
        derivative = theano.Rop(out, [t, a], [t, a])
        got = theano.function([t, a], [out, derivative], mode="FAST_COMPILE")(x, amount)
        np.testing.assert_array_equal(*got)

    def test_in_place(self):
        t, a = T.dtensor3s(2)
        f = theano.function([t, a], conv3d2d.inc_diagonal_subtensor(t * 2, 0, 1, a), mode="FAST_RUN")
        (op,) = [n.op for n in f.maker.fgraph.toposort() if isinstance(n.op, conv3d2d.IncDiagonalSubtensor)]
        self.assertEqual((op.inplace, op.destroy_map), (True, {0: [0]}))
        self.assertEqual(conv3d2d.DiagonalSubtensor(True).view_map, {0: [0]})
        self.assertEqual(str(op), "IncDiagonalSubtensor{inplace}")


if __name__ == "__main__":
    unittest.main()


class TestVolumes(unittest.TestCase):
    """`Conv3D` and its two gradient Ops, compared with a loop over positions."""

    def setUp(self):
        rng = np.random.RandomState(4)
        self.V, self.W = rng.rand(2, 5, 4, 6, 3), rng.rand(2, 2, 3, 2, 3)
        self.b, self.c, self.d = rng.rand(2), rng.rand(3), (2, 1, 3)
        self.H = rng.rand(2, 2, 2, 2, 2)

    def positions(self):
        for at in np.ndindex(self.H.shape[1:4]):
            yield (
                (slice(None), *at),
                (slice(None), *[slice(i * s, i * s + k) for i, s, k in zip(at, self.d, self.W.shape[1:4])]),
            )

    def test_forward(self):
        expected = np.empty(self.H.shape)
        for at, window in self.positions():
            expected[at] = np.tensordot(self.V[window], self.W, ([1, 2, 3, 4],) * 2) + self.b
        got = values(lambda V, W, b: volumes.conv3D(V, W, b, self.d), self.V, self.W, self.b)
        np.testing.assert_allclose(got, expected)
        d = T.constant(np.array(self.d))
        np.testing.assert_allclose(volumes.conv3D(self.V, self.W, self.b, d).eval(), expected)

    def test_kernels(self):
        expected = np.zeros(self.W.shape)
        for at, window in self.positions():
            expected += np.tensordot(self.H[at], self.V[window], (0, 0))
        for shape in (self.W.shape, T.constant(np.array(self.W.shape))):
            got = values(lambda V, H, shape=shape: volumes.convGrad3D(V, self.d, shape, H), self.V, self.H)
            np.testing.assert_allclose(got, expected)

    def test_transposed(self):
        whole = np.zeros(self.V.shape)
        for at, window in self.positions():
            whole[window] += np.tensordot(self.H[at], self.W, (1, 0))
        whole += self.c
        for shape in ((5, 4, 6), (5, -1, 6), T.constant(np.array([5, -1, 6])), None):
            got = values(
                lambda W, c, H, shape=shape: volumes.convTransp3D(W, c, self.d, H, shape), self.W, self.c, self.H
            )
            np.testing.assert_allclose(got, whole if shape is not None else whole[:, :4, :4, :5])

    def test_gradients(self):
        verify_grad(
            lambda V, W, b: volumes.conv3D(V, W, b, self.d),
            [self.V, self.W, self.b],
            rng=np.random.RandomState(1),
            mode="FAST_COMPILE",
        )

    def test_errors(self):
        V, W = T.TensorType("float64", [False] * 5)(), T.dtensor4()
        with self.assertRaisesRegex(ValueError, "W must have five dimensions"):
            volumes.conv3D(V, W, T.dvector(), (1, 1, 1))
        with self.assertRaisesRegex(ValueError, "three strides"):
            volumes.conv3D(V, V, T.dvector(), (1, 1))
        with self.assertRaises(T.NotScalarConstantError):
            volumes.conv3D(V, V, T.dvector(), T.lvector())

    def test_paths(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from theano_ng.tensor.nnet.Conv3D import conv3D
            from theano_ng.tensor.nnet.ConvGrad3D import convGrad3D
            from theano_ng.tensor.nnet.ConvTransp3D import convTransp3D
        self.assertEqual((conv3D, convGrad3D, convTransp3D), (volumes.conv3D, volumes.convGrad3D, volumes.convTransp3D))
