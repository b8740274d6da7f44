"""Pooling, compared with a loop over the windows."""

import itertools
import pickle
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng import config
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.mode import Mode
from theano_ng.tensor.signal import downsample, pool
from theano_ng.tensor.signal.pool import (
    AveragePoolGrad,
    DownsampleFactorMaxGradGrad,
    MaxPoolGrad,
    MaxPoolRop,
    Pool,
    PoolGrad,
    PoolingMode_t,
    max_pool_2d_same_size,
    pool_2d,
    pool_3d,
)

MODES = ("max", "sum", "average_inc_pad", "average_exc_pad")
PYTHON = Mode(linker="py", optimizer=None)
# DebugMode itself runs the Python code and the native code, and compares their results.
NATIVE = DebugMode(check_isfinite=False) if config.mode == "DebugMode" else Mode(linker="cvm", optimizer=None)
RNG = np.random.RandomState(7)


def axis_windows(n, w, s, p, ignore_border):
    """Return (begin, end) of each window in the padded image, found by stepping along the axis."""
    result, begin = [], 0
    if n == 0:
        return result
    while True:
        if ignore_border:
            if begin + w > n + 2 * p:
                return result
            result.append((begin - p, begin - p + w))
        else:
            if begin >= n or (result and result[-1][1] >= n and s < w):
                return result
            result.append((begin, min(begin + w, n)))
        begin += s


def pooled(x, ws, stride, pad, ignore_border, mode):
    """Pool by the definition: cut each window out of the image."""
    nd = len(ws)
    along = [axis_windows(*a, ignore_border) for a in zip(x.shape[x.ndim - nd :], ws, stride, pad)]
    z = np.zeros(x.shape[: x.ndim - nd] + tuple(len(a) for a in along), x.dtype)
    for where in np.ndindex(*z.shape):
        spans = [a[i] for a, i in zip(along, where[x.ndim - nd :])]
        room = int(np.prod([end - begin for begin, end in spans]))
        inside = x[(*where[: x.ndim - nd], *[slice(max(b, 0), e) for b, e in spans])]
        if mode == "max":
            z[where] = inside.max()
        else:
            total = inside.sum(dtype="float64" if x.dtype.kind == "f" else "int64")
            if mode != "sum":
                count = room if mode == "average_inc_pad" else inside.size
                total = total / count if x.dtype.kind == "f" else int(total / count)
            z[where] = total
    return z


def jacobian(x, ws, stride, pad, ignore_border, mode):
    """Return d pooled / d x by central differences.

    The result is exact except for rounding, since the steps are small compared to the distances between elements.
    """
    step, columns = 1e-3, []
    for where in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[where] += step
        down[where] -= step
        columns.append(
            (pooled(up, ws, stride, pad, ignore_border, mode) - pooled(down, ws, stride, pad, ignore_border, mode))
            / (2 * step)
        )
    return np.stack(columns, axis=-1).reshape(columns[0].shape + x.shape)


def distinct(shape, dtype="float64"):
    """Return distinct integers in random order."""
    size = int(np.prod(shape))
    return (RNG.permutation(size).reshape(shape) - size // 2).astype(dtype)


def two_dimensional_cases():
    """Yield tuples (ws, stride, pad, ignore_border)."""
    for ws, ignore_border in itertools.product(
        [(1, 1), (2, 2), (3, 3), (2, 3), (3, 1), (5, 4), (4, 20)], [True, False]
    ):
        for stride in [ws, (1, 1), (2, 2), (3, 2), (2, 5), (1, 3)]:
            pads = [(0, 0)]
            if ignore_border:
                pads += [p for p in ((1, 1), (0, 2), (2, 0), (2, 3)) if p[0] < ws[0] and p[1] < ws[1]]
            for pad in pads:
                yield ws, stride, pad, ignore_border


def vectors(*values):
    return [np.array(v, "int64") for v in values]


class Compiled:
    """A cache of compiled functions of x, ws, stride and pad.

    Functions for gradients also have arguments e (a direction in x) and g (a gradient of the result). Each entry has
    a function in Python and a function in native code.
    """

    functions = {}

    @classmethod
    def get(cls, mode, ignore_border, nd, dtype="float64", gradients=False):
        key = (mode, ignore_border, nd, dtype, gradients)
        if key not in cls.functions:
            x, e, g = [tt.TensorType(dtype, (False,) * 4)() for _ in range(3)]
            ws, stride, pad = tt.lvectors("ws", "stride", "pad")
            z = Pool(ignore_border, mode, nd)(x, ws, stride, pad)
            if not gradients:
                cls.functions[key] = [theano.function([x, ws, stride, pad], z, mode=m) for m in (PYTHON, NATIVE)]
            else:
                gx = tt.Lop(z, x, g)
                outputs = [gx, tt.Rop(z, x, e), tt.grad((gx * e).sum(), g)]
                cls.functions[key] = [
                    theano.function([x, e, g, ws, stride, pad], outputs, mode=m) for m in (PYTHON, NATIVE)
                ]
        return cls.functions[key]


class TestForward(unittest.TestCase):
    def check(self, x, case, mode, decimal=9):
        ws, stride, pad, ignore_border = case
        expected = pooled(x, ws, stride, pad, ignore_border, mode)
        for f in Compiled.get(mode, ignore_border, len(ws), str(x.dtype)):
            z = f(x, *vectors(ws, stride, pad))
            self.assertEqual((z.dtype, z.shape), (x.dtype, expected.shape), (case, mode))
            np.testing.assert_allclose(z, expected, rtol=10.0**-decimal, atol=10.0**-decimal, err_msg=str((case, mode)))

    def test_two_axes(self):
        x = RNG.randn(1, 2, 7, 9)
        for case, mode in itertools.product(two_dimensional_cases(), MODES):
            self.check(x, case, mode)

    def test_three_axes_and_one(self):
        x = RNG.randn(2, 4, 5, 6)
        for ws in ((2, 2, 2), (3, 2, 1), (1, 3, 3), (2,), (3,), (2, 1, 2, 3)):
            for stride in (ws, (1,) * len(ws), (2,) * len(ws)):
                for ignore_border, pad in ((True, 0), (True, 1), (False, 0)):
                    pads = tuple(min(pad, w - 1) for w in ws)
                    for mode in MODES:
                        self.check(x, (ws, stride, pads, ignore_border), mode)

    def test_rows_of_many_lengths(self):
        # These lengths leave every possible remainder when they are divided by the vector length.
        for n in range(1, 40):
            x = RNG.randn(1, 1, 5, n).astype("float32")
            for ws, stride in (
                ((2, 2), (2, 2)),
                ((3, 3), (2, 2)),
                ((3, 3), (1, 1)),
                ((3, 3), (3, 3)),
                ((2, 5), (1, 2)),
            ):
                for mode in ("max", "average_exc_pad"):
                    self.check(x, (ws, stride, (0, 0), True), mode, 5)
                    self.check(x, (ws, stride, (0, 0), False), mode, 5)

    def test_dtypes(self):
        cases = [((2, 2), (2, 2), (0, 0), False), ((3, 3), (2, 2), (1, 1), True)]
        for dtype in ("float16", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            x = RNG.randint(0 if dtype[0] == "u" else -9, 10, (1, 2, 5, 7)).astype(dtype)
            for case, mode in itertools.product(cases, MODES):
                self.check(x, case, mode, 2 if dtype == "float16" else 6)

    def test_sums_of_small_integers_do_not_overflow_before_the_division(self):
        x = np.full((1, 1, 2, 2), 120, "int8")
        for f in Compiled.get("average_inc_pad", True, 2, "int8"):
            self.assertEqual(f(x, *vectors((2, 2), (2, 2), (0, 0))).tolist(), [[[[120]]]])

    def test_nan_is_the_maximum(self):
        for n, ws, stride in ((4, (2, 2), (2, 2)), (24, (3, 3), (2, 2)), (24, (3, 3), (1, 1)), (9, (4, 5), (3, 3))):
            for where in np.ndindex(3, 3):
                x = RNG.randn(1, 1, n, n)
                x[(0, 0, *where)] = np.nan
                for f in Compiled.get("max", False, 2):
                    z = f(x, *vectors(ws, stride, (0, 0)))
                    np.testing.assert_array_equal(z, pooled(x, ws, stride, (0, 0), False, "max"))

    def test_infinities(self):
        x = np.full((1, 1, 4, 4), -np.inf)
        x[0, 0, 0, 0] = np.inf
        for f in Compiled.get("max", True, 2):
            self.assertEqual(
                f(x, *vectors((2, 2), (2, 2), (0, 0))).tolist(), [[[[np.inf, -np.inf], [-np.inf, -np.inf]]]]
            )

    def test_layouts(self):
        x = RNG.randn(4, 6, 8, 10)
        case = ((3, 2), (2, 2), (1, 0), True)
        for odd in (x[::2, :, ::-1, ::3], x.transpose(3, 2, 1, 0), np.asfortranarray(x), x[:, :1, :, ::-2]):
            for mode in MODES:
                self.check(odd, case, mode)

    def test_empty(self):
        for shape, ws, pad in (
            ((0, 3, 5, 5), (2, 2), (0, 0)),
            ((2, 3, 0, 5), (2, 2), (0, 0)),
            ((2, 3, 1, 5), (3, 2), (1, 1)),
            ((2, 3, 0, 0), (3, 3), (2, 2)),
        ):
            for mode in MODES:
                self.check(np.ones(shape), (ws, (1, 1), pad, True), mode)
        for f in Compiled.get("max", False, 2):
            self.assertEqual(f(np.ones((2, 3, 0, 5)), *vectors((2, 2), (1, 1), (0, 0))).shape, (2, 3, 0, 4))

    def test_windows_larger_than_the_image(self):
        x = RNG.randn(1, 2, 3, 4)
        huge = 2**60
        for mode in MODES:
            self.check(x, ((5, 7), (1, 1), (0, 0), True), mode)
            self.check(x, ((5, 7), (1, 1), (4, 6), True), mode)
            for f in Compiled.get(mode, False, 2):
                z = f(x, *vectors((huge, 2**62), (1, 1), (0, 0)))
                np.testing.assert_allclose(z, pooled(x, (3, 4), (3, 4), (0, 0), False, mode))
                z = f(x, *vectors((2, 2), (huge, huge), (0, 0)))
                np.testing.assert_allclose(z, pooled(x, (2, 2), (9, 9), (0, 0), False, mode))

    def test_wide_margins(self):
        self.check(RNG.randn(1, 1, 3, 3), ((9, 30), (2, 3), (8, 29), True), "average_inc_pad")
        self.check(RNG.randn(1, 1, 3, 3), ((9, 30), (2, 3), (8, 29), True), "max")


class TestDerivatives(unittest.TestCase):
    def check(self, x, case, mode, rtol=1e-6):
        ws, stride, pad, ignore_border = case
        axes = x.ndim
        J = jacobian(x.astype("float64"), ws, stride, pad, ignore_border, mode)
        e, g = RNG.randn(*x.shape).astype(x.dtype), RNG.randn(*J.shape[:axes]).astype(x.dtype)
        expected = [np.tensordot(g, J, axes), np.tensordot(J, e, axes)]
        for f in Compiled.get(mode, ignore_border, len(ws), str(x.dtype), gradients=True):
            gx, r, of_gradient = f(x, e, g, *vectors(ws, stride, pad))
            for value, right in ((gx, expected[0]), (r, expected[1]), (of_gradient, expected[1])):
                self.assertEqual((value.dtype, value.shape), (x.dtype, right.shape))
                np.testing.assert_allclose(value, right, rtol=rtol, atol=rtol, err_msg=str((case, mode)))

    def test_two_axes(self):
        x = distinct((1, 1, 5, 6))
        for case, mode in itertools.product(two_dimensional_cases(), MODES):
            self.check(x, case, mode)

    def test_three_axes_and_one(self):
        x = distinct((1, 3, 4, 5))
        for ws, stride in (
            ((2, 2, 2), (2, 2, 2)),
            ((3, 2, 1), (1, 2, 1)),
            ((2,), (1,)),
            ((3,), (2,)),
            ((1, 2, 3), (2, 1, 2)),
        ):
            for ignore_border, mode in itertools.product((True, False), MODES):
                self.check(x, (ws, stride, (0,) * len(ws), ignore_border), mode)
            self.check(x, (ws, stride, tuple(w // 2 for w in ws), True), mode)

    def test_many_windows_for_an_element(self):
        x = distinct((1, 1, 2, 40))
        for mode in MODES:
            self.check(x, ((2, 20), (1, 1), (0, 0), True), mode)
            self.check(x, ((1, 12), (1, 1), (0, 5), True), mode)
            self.check(x, ((1, 11), (1, 3), (0, 10), True), mode)

    def test_wide_margins(self):
        for mode in MODES:
            self.check(distinct((1, 1, 3, 3)), ((9, 30), (2, 3), (8, 29), True), mode)

    def test_single_precision(self):
        for n in (1, 7, 16, 24, 33):
            for ws, stride in (((2, 2), (2, 2)), ((3, 3), (2, 2)), ((3, 3), (1, 1))):
                for mode in ("max", "average_inc_pad"):
                    self.check(distinct((1, 1, 4, n), "float32"), (ws, stride, (0, 0), False), mode, 1e-4)

    def test_windows_two_columns_apart(self):
        """Gradients of maximum pooling with strides of two columns equal those of a loop over the windows.

        Vector code computes several windows at once, and recomputes the last ones.
        """
        windows = [
            ((2, 2), (2, 2)),
            ((3, 3), (2, 2)),
            ((2, 3), (2, 2)),
            ((3, 2), (2, 2)),
            ((5, 3), (2, 2)),
            ((1, 2), (3, 2)),
        ]
        for n, dtype in itertools.product((3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 31, 34), ("float32", "float64")):
            x = RNG.randint(0, 5, (1, 2, 6, n)).astype(dtype)
            for (ws, stride), pad, ignore_border in itertools.product(windows, (0, 1, 2), (True, False)):
                if pad and (not ignore_border or pad >= min(ws)):
                    continue
                case = ws, stride, (pad, pad)
                z = pooled(x, *case, ignore_border, "max")
                g, expected = RNG.randint(1, 9, z.shape).astype(dtype), np.zeros_like(x)
                rows, columns = (axis_windows(*a, ignore_border) for a in zip(x.shape[2:], *case))
                for (i, (top, bottom)), (j, (left, right)) in itertools.product(enumerate(rows), enumerate(columns)):
                    there = np.s_[:, :, max(top, 0) : bottom, max(left, 0) : right]
                    expected[there] += (x[there] == z[:, :, i, j, None, None]) * g[:, :, i, j, None, None]
                gx = Compiled.get("max", ignore_border, 2, dtype, True)[1](x, x, g, *vectors(*case))[0]
                np.testing.assert_array_equal(gx, expected, err_msg=str((n, case, ignore_border)))

    def test_half_precision_in_c(self):
        x = tt.TensorType("float16", (False,) * 4)()
        gradient = tt.grad(pool_2d(x, (2, 2), True).sum(), x)
        f = theano.function([x], [gradient, tt.Rop(pool_2d(x, (3, 2), False, (1, 2)), x, x)], mode=NATIVE)
        for node in f.maker.fgraph.apply_nodes:
            if isinstance(node.op, (Pool, MaxPoolGrad, MaxPoolRop)):
                self.assertIsNotNone(node.op.native_code(node))
        value = distinct((1, 1, 4, 4), "float16")
        gx, r = f(value)
        self.assertEqual((gx.dtype, r.dtype), ("float16", "float16"))
        self.assertEqual(gx.sum(), 4)
        np.testing.assert_array_equal(r, pooled(value, (3, 2), (1, 2), (0, 0), False, "max"))

    def test_half_precision(self):
        self.check(distinct((1, 2, 4, 5), "float16"), ((2, 3), (2, 2), (0, 1), True), "max", 1e-2)
        self.check(distinct((1, 2, 4, 5), "float16"), ((2, 3), (2, 2), (0, 1), True), "average_exc_pad", 1e-2)

    def test_all_maxima_get_the_gradient(self):
        x = np.zeros((1, 1, 4, 4))
        x[0, 0, 1, 1] = x[0, 0, 0, 0] = 1
        for f in Compiled.get("max", True, 2, gradients=True):
            gx, r, _ = f(
                x,
                np.arange(16.0).reshape(x.shape),
                np.array([[[[3.0, 1.0], [5.0, 7.0]]]]),
                *vectors((2, 2), (2, 2), (0, 0)),
            )
            self.assertEqual(gx[0, 0].tolist(), [[3, 0, 1, 1], [0, 3, 1, 1], [5, 5, 7, 7], [5, 5, 7, 7]])
            self.assertEqual(r[0, 0].tolist(), [[0 + 5, 2 + 3 + 6 + 7], [8 + 9 + 12 + 13, 10 + 11 + 14 + 15]])

    def test_nan_gets_no_gradient(self):
        x = np.arange(16.0).reshape(1, 1, 4, 4)
        x[0, 0, 0, 1] = np.nan
        for f in Compiled.get("max", True, 2, gradients=True):
            gx = f(x, x, np.ones((1, 1, 2, 2)), *vectors((2, 2), (2, 2), (0, 0)))[0]
            self.assertEqual(np.flatnonzero(gx).tolist(), [7, 13, 15])

    def test_verify_grad(self):
        for mode in MODES:
            x = distinct((2, 1, 4, 5)) / 10
            function = lambda v, mode=mode: pool_2d(v, (3, 2), True, (2, 1), (1, 1), mode)
            theano.gradient.verify_grad(function, [x], rng=np.random.RandomState(3))

    def test_second_order(self):
        x = tt.dtensor4()
        for mode in MODES:
            z = pool_2d(x, (2, 2), True, (1, 1), mode=mode)
            cost = (z**3).sum()
            g = tt.grad(cost, x)
            v = tt.dtensor4()
            both = theano.function([x, v], [tt.grad((g * v).sum(), x), tt.Rop(g, x, v)], mode=PYTHON)
            value, direction = distinct((1, 1, 3, 4)) / 4, RNG.randn(1, 1, 3, 4)
            J = jacobian(value, (2, 2), (1, 1), (0, 0), True, mode)
            zv = pooled(value, (2, 2), (1, 1), (0, 0), True, mode)
            right = np.tensordot(6 * zv * np.tensordot(J, direction, 4), J, 4)
            for result in both(value, direction):
                np.testing.assert_allclose(result, right, rtol=1e-8, atol=1e-8)

    def test_derivatives_of_the_derivatives(self):
        # Each Op for derivatives is linear in its last tensor. Test the gradient and R_op of these Ops.
        x, e, g = [tt.dtensor4() for _ in range(3)]
        top = pool_2d(x, (2, 2), True, (1, 1))
        ws, stride = (2, 2), (1, 1)
        value, point, weight = distinct((1, 1, 3, 4)), RNG.randn(1, 1, 3, 4), RNG.randn(1, 1, 2, 3)
        J = jacobian(value, ws, stride, (0, 0), True, "max")
        for made in (MaxPoolRop(True)(x, e, ws, stride), DownsampleFactorMaxGradGrad(True)(x, top, e, ws, stride)):
            back, along = tt.grad((made * g).sum(), e), tt.Rop(made, e, x)
            f = theano.function([x, e, g], [back, along], mode=PYTHON, on_unused_input="ignore")
            for result, right in zip(f(value, point, weight), (np.tensordot(weight, J, 4), np.tensordot(J, value, 4))):
                np.testing.assert_allclose(result, right, rtol=1e-6, atol=1e-6)
        f = theano.function([x, g], tt.Rop(MaxPoolGrad(True)(x, top, g, ws, stride), g, g), mode=PYTHON)
        np.testing.assert_allclose(f(value, weight), np.tensordot(weight, J, 4), rtol=1e-6, atol=1e-6)
        f = theano.function([x, g], tt.Rop(AveragePoolGrad(True, "sum")(x, g, ws, stride), g, g), mode=PYTHON)
        J = jacobian(value, ws, stride, (0, 0), True, "sum")
        np.testing.assert_allclose(f(value, weight), np.tensordot(weight, J, 4), rtol=1e-6, atol=1e-6)

    def test_integers_have_zero_gradients(self):
        x = tt.itensor4()
        g = tt.grad(pool_2d(x, (2, 2), True).sum(), x)
        self.assertEqual(
            (g.dtype, g.eval({x: np.ones((1, 1, 2, 2), "int32")}).tolist()), (config.floatX, [[[[0, 0], [0, 0]]]])
        )

    def test_windows_are_not_connected(self):
        x, ws = tt.dtensor4(), tt.lvector()
        z = pool_2d(x, ws, True)
        with self.assertRaises(theano.gradient.DisconnectedInputError):
            tt.grad(z.sum(), ws)
        for op, inputs in ((MaxPoolGrad(True), (x, z, z)), (AveragePoolGrad(True), (x, z)), (MaxPoolRop(True), (x, x))):
            node = op(*inputs, ws).owner
            self.assertEqual(node.op.connection_pattern(node), [[1]] * len(inputs) + [[0]] * 3)

    def test_layouts(self):
        x = distinct((2, 2, 8, 6))
        case = vectors((3, 2), (2, 2), (1, 0))
        for mode in MODES:
            for f in Compiled.get(mode, True, 2, gradients=True):
                odd = [x[:, :, ::-2], RNG.randn(4, 6, 2, 2).transpose(3, 2, 0, 1), RNG.randn(2, 2, 2, 6)[..., ::-2]]
                plain = [np.array(v, order="C") for v in odd]
                for a, b in zip(f(*odd, *case), f(*plain, *case)):
                    np.testing.assert_array_equal(a, b)


class TestInterface(unittest.TestCase):
    x = tt.dtensor4("x")
    value = np.arange(50.0).reshape(1, 2, 5, 5)

    def shape(self, z):
        return theano.function([self.x], z.shape, mode=PYTHON)(self.value).tolist(), theano.function(
            [self.x], z, mode=NATIVE
        )(self.value).shape

    def test_documented_shapes(self):
        for ignore_border, n in ((True, 2), (False, 3)):
            for z, right in (
                (pool_2d(self.x, (2, 2), ignore_border), (1, 2, n, n)),
                (pool_3d(self.x, (1, 2, 2), ignore_border), (1, 2, n, n)),
            ):
                inferred, computed = self.shape(z)
                self.assertEqual((tuple(inferred), computed), (right, right))

    def test_ints_tuples_and_variables(self):
        right = pooled(self.value, (2, 2), (1, 1), (1, 1), True, "max")
        two, one = tt.lscalar(), tt.ivector()
        for ws, stride, pad in (
            (2, 1, 1),
            ((2, 2), [1, 1], np.array([1, 1])),
            (two, one, 1),
            ((two, 2), one, one),
            (tt.stack([two, two]), 1, (1, two - 1)),
        ):
            z = pool_2d(self.x, ws, True, stride, pad)
            f = theano.function([self.x, two, one], z, on_unused_input="ignore", mode=NATIVE)
            np.testing.assert_array_equal(f(self.value, 2, [1, 1]), right)

    def test_any_number_of_leading_axes(self):
        for shape in ((4, 6), (2, 4, 6), (2, 3, 1, 2, 4, 6)):
            v = RNG.randn(*shape)
            x = tt.TensorType("float64", (False,) * len(shape))()
            z = pool_2d(x, (2, 3), True)
            f = theano.function([x], [z, tt.grad((z * z).sum(), x)], mode=NATIVE)
            right = pooled(v.reshape(-1, 4, 6), (2, 3), (2, 3), (0, 0), True, "max").reshape((*shape[:-2], 2, 2))
            z, g = f(v)
            np.testing.assert_array_equal(z, right)
            np.testing.assert_allclose(g.sum(), 2 * right.sum())

    def test_broadcastable_axes(self):
        x = tt.TensorType("float64", (True, False, True, True))()
        z = pool_2d(x, (1, 1), True)
        self.assertEqual(z.broadcastable, (True, False, False, False))
        g = tt.grad((z**2).sum(), x)
        self.assertEqual(g.type, x.type)
        np.testing.assert_array_equal(
            theano.function([x], g, mode=NATIVE)(np.ones((1, 3, 1, 1))), np.full((1, 3, 1, 1), 2.0)
        )

    def test_same_size(self):
        x = RNG.randn(2, 2, 5, 6)
        right = np.zeros_like(x)
        for i, j, r, c in np.ndindex(2, 2, 2, 2):
            patch = x[i, j, 2 * r : 2 * r + 2, 3 * c : 3 * c + 3]
            right[i, j, 2 * r : 2 * r + 2, 3 * c : 3 * c + 3] = np.where(patch == patch.max(), patch, 0)
        for size in ((2, 3), tt.as_tensor_variable(np.array([2, 3]))):
            for mode in (PYTHON, NATIVE):
                np.testing.assert_array_equal(
                    theano.function([self.x], max_pool_2d_same_size(self.x, size), mode=mode)(x), right
                )

    def test_old_names(self):
        new = pool_2d(self.x, (2, 2), True, (1, 1), (1, 1))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            old = pool_2d(self.x, ds=(2, 2), st=(1, 1), padding=(1, 1), ignore_border=True)
            cube = pool_3d(self.x, ds=(2, 2, 2), ignore_border=True)
        self.assertEqual([str(w.message).split("'")[1] for w in caught], ["ds", "st", "padding", "ds"])
        self.assertEqual({w.filename for w in caught}, {__file__})
        self.assertTrue(theano.gof.graph.is_same_graph(old, new))
        self.assertTrue(theano.gof.graph.is_same_graph(cube, pool_3d(self.x, (2, 2, 2), True)))
        for both in (
            {"ws": (2, 2), "ds": (2, 2)},
            {"ws": (2, 2), "stride": (2, 2), "st": (2, 2)},
            {"ws": (2, 2), "pad": (1, 1), "padding": (1, 1)},
        ):
            with self.assertRaisesRegex(ValueError, "You can't provide a value to both"):
                pool_2d(self.x, ignore_border=True, **both)

    def test_warning_without_ignore_border(self):
        for function, ws in ((pool_2d, (2, 2)), (pool_3d, (2, 2, 2))):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                z = function(self.x, ws)
            self.assertEqual([(w.category, w.filename) for w in caught], [(UserWarning, __file__)])
            self.assertIn("ignore_border", str(caught[0].message))
            self.assertIs(z.owner.op.ignore_border, False)

    def test_refused_when_the_graph_is_built(self):
        x = self.x
        for error, text, call in (
            (ValueError, "You must provide a value for the window size", lambda: pool_2d(x, ignore_border=True)),
            (ValueError, "mode parameter only support", lambda: pool_2d(x, (2, 2), True, mode="average")),
            (NotImplementedError, "pool_2d requires a dimension >= 2", lambda: pool_2d(tt.dvector(), (2, 2), True)),
            (NotImplementedError, "pool_3d requires a dimension >= 3", lambda: pool_3d(tt.dmatrix(), (2, 2, 2), True)),
            (
                NotImplementedError,
                "padding works only with ignore_border=True",
                lambda: pool_2d(x, (2, 2), False, pad=(1, 1)),
            ),
            (NotImplementedError, "padding must be smaller", lambda: pool_2d(x, (2, 2), True, pad=(0, 2))),
            (ValueError, "pad must be at least 0", lambda: pool_2d(x, (2, 2), True, pad=(0, -1))),
            (ValueError, "ws must be at least 1", lambda: pool_2d(x, (2, 0), True)),
            (ValueError, "stride must be at least 1", lambda: pool_2d(x, (2, 2), True, (-1, 1))),
            (ValueError, "ws must be a vector of size 2", lambda: pool_2d(x, (2, 2, 2), True)),
            (ValueError, "stride must be a vector of size 3", lambda: pool_3d(x, (2, 2, 2), True, (2, 2))),
            (ValueError, "pad must be a vector of size 2", lambda: pool_2d(x, (2, 2), True, pad=tt.lmatrix())),
            (ValueError, "Pool: ndim must be at least 1, got 0", lambda: Pool(True, ndim=0)),
            (ValueError, "ndim must be at least 1", lambda: MaxPoolGrad(True, ndim=-1)),
            (TypeError, "must be ints", lambda: pool_2d(x, (2.0, 2.0), True)),
            (TypeError, "complex", lambda: pool_2d(tt.ztensor4(), (2, 2), True)),
            (TypeError, "same number of dimensions", lambda: MaxPoolGrad(True)(x, x, tt.dmatrix(), (2, 2))),
            (TypeError, "integers have no gradient", lambda: AveragePoolGrad(True)(tt.itensor4(), x, (2, 2))),
        ):
            with self.assertRaisesRegex(error, text):
                call()

    def test_refused_at_run_time(self):
        for f in Compiled.get("max", True, 2):
            for ws, stride, pad, text in (
                ((0, 2), (1, 1), (0, 0), "ws must be at least 1"),
                ((2, 2), (1, 0), (0, 0), "stride must be at least 1"),
                ((2, -2), (1, 1), (0, 0), "ws must be at least 1"),
                ((2, 2), (1, 1), (-1, 0), "pad must be at least 0"),
                ((2, 2), (1, 1), (0, 2), "pad must be smaller than ws"),
                ((2, 2, 2), (1, 1), (0, 0), "ws must be a vector of size 2"),
                ((2, 2), (1,), (0, 0), "stride must be a vector of size 2"),
            ):
                with self.assertRaisesRegex(ValueError, text):
                    f(self.value, *vectors(ws, stride, pad))
        for f in Compiled.get("max", False, 2):
            with self.assertRaisesRegex(ValueError, "pad works only with ignore_border=True"):
                f(self.value, *vectors((2, 2), (1, 1), (1, 1)))

    def test_outputs_that_no_memory_holds(self):
        f = Compiled.get("max", True, 2)[1]
        for big in (2**28, 2**29, 2**30, 2**31, 2**32, 2**40, 2**61):
            with self.assertRaises(MemoryError):
                f(self.value, *vectors((big, big), (1, 1), (big - 1, big - 1)))

    def test_gradients_of_other_shapes(self):
        x, g = tt.dtensor4(), tt.dtensor4()
        top = pool_2d(x, (2, 2), True)
        for mode in (PYTHON, NATIVE):
            for z in (
                MaxPoolGrad(True)(x, top, g, (2, 2)),
                AveragePoolGrad(True)(x, g, (2, 2)),
                MaxPoolGrad(True)(x, g, top, (2, 2)),
                DownsampleFactorMaxGradGrad(True)(x, top, g, (2, 2)),
                MaxPoolRop(True)(x, g, (2, 2)),
            ):
                f = theano.function([x, g], z, mode=mode)
                with self.assertRaisesRegex(ValueError, "shape"):
                    f(self.value, np.ones((1, 2, 3, 3)))

    def test_out_shape(self):
        for op in (Pool, PoolGrad):
            self.assertEqual(op.out_shape((3, 4, 7, 8), (2, 3)), [3, 4, 4, 3])
            self.assertEqual(op.out_shape((3, 4, 7, 8), (2, 3), True), [3, 4, 3, 2])
            self.assertEqual(op.out_shape((3, 4, 7, 8), (2, 3), False, (1, 2), (0, 0)), [3, 4, 6, 4])
            self.assertEqual(op.out_shape((3, 4, 7, 8), (2, 3), True, (1, 2), (1, 1)), [3, 4, 8, 4])
            self.assertEqual(op.out_shape((3, 4, 7, 8), (2, 3, 2), True, (1, 2, 1), (1, 1, 0), 3), [3, 5, 4, 7])
            self.assertEqual(op.out_shape((3, 4, 1, 8), (2, 3), True), [3, 4, 0, 2])
        with self.assertRaisesRegex(TypeError, "imgshape must have at least 2 dimensions"):
            Pool.out_shape((3,), (2, 3))
        ws = tt.lvector()
        self.assertEqual([int(i.eval({ws: [2, 3]})) for i in Pool.out_shape((7, 8), ws)], [4, 3])

    def test_inferred_shapes(self):
        # Shapes are inferred without pooling.
        x = self.x
        ws, stride, pad = tt.lvectors("ws", "stride", "pad")
        for ignore_border in (True, False):
            z = Pool(ignore_border)(x, ws, stride, pad)
            f = theano.function(
                [x, ws, stride, pad], [z.shape, tt.grad(z.sum(), x).shape], on_unused_input="ignore", mode="FAST_RUN"
            )
            self.assertFalse([n for n in f.maker.fgraph.toposort() if isinstance(n.op, (Pool, PoolGrad))])
            for shape in ((1, 2, 5, 7), (2, 1, 0, 3), (1, 1, 1, 1), (2, 2, 9, 8)):
                for w, s, p in (((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 3), (2, 1)), ((4, 9), (2, 2), (0, 3))):
                    p = p if ignore_border else (0, 0)
                    inferred, of_gradient = f(np.ones(shape), *vectors(w, s, p))
                    self.assertEqual(tuple(inferred), pooled(np.ones(shape), w, s, p, ignore_border, "max").shape)
                    self.assertEqual(tuple(of_gradient), shape)

    def test_compiled_graph(self):
        # The gradient of a maximum reuses the maximum that the graph computes.
        x = tt.ftensor4()
        z = pool_2d(x, (2, 2), True)
        f = theano.function([x], [z, tt.grad((z**2).sum(), x)], mode="FAST_RUN")
        ops = [type(n.op) for n in f.maker.fgraph.toposort()]
        self.assertEqual((ops.count(Pool), ops.count(MaxPoolGrad), len(ops)), (1, 1, 3))

    def test_modes(self):
        self.assertEqual([PoolingMode_t.fromalias(m) for m in MODES], [0, 1, 2, 3])
        self.assertEqual(PoolingMode_t.POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 3)
        self.assertEqual(Pool(True, "max_deterministic"), Pool(True))
        self.assertEqual(str(Pool(True)), "Pool{ignore_border=True, mode='max', ndim=2}")
        self.assertEqual(pool.bool_t, theano.scalar.bool)

    def test_openmp(self):
        self.assertFalse(Pool(True).openmp)
        x = RNG.randn(3, 5, 60, 60)
        case = vectors((3, 3), (2, 2), (1, 1))
        for mode in MODES:
            z = Pool(True, mode, openmp=True)(self.x, (3, 3), (2, 2), (1, 1))
            self.assertTrue(z.owner.op.openmp)
            f = theano.function([self.x], [z, tt.grad((z**2).sum(), self.x)], mode=NATIVE)
            z, g = f(x)
            np.testing.assert_array_equal(z, Compiled.get(mode, True, 2)[1](x, *case))
            np.testing.assert_allclose(
                g, Compiled.get(mode, True, 2, gradients=True)[1](x, x, 2 * z, *case)[0], rtol=1e-12
            )

    def test_pickles(self):
        for op in (
            Pool(True, "sum", 3),
            MaxPoolGrad(False),
            AveragePoolGrad(True),
            DownsampleFactorMaxGradGrad(True),
            MaxPoolRop(),
        ):
            self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        old = Pool.__new__(Pool)
        old.__setstate__({"ignore_border": True})
        self.assertEqual((old, old.openmp), (Pool(True), False))
        # A pickle as Theano 1.0.5 wrote it.
        legacy = (
            b"\x80\x02ctheano_ng.tensor.signal.pool\nPool\nq\x00)\x81q\x01}q\x02(X\x06\x00\x00\x00openmpq\x03\x89X\x04\x00\x00\x00ndimq\x04K\x02"
            b"X\r\x00\x00\x00ignore_borderq\x05\x88X\x04\x00\x00\x00modeq\x06X\x03\x00\x00\x00maxq\x07ub."
        )
        self.assertEqual(pickle.loads(legacy), Pool(True))

    def test_downsample(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            old = downsample.max_pool_2d(self.x, (2, 2), True, (1, 1), (1, 1), "sum")
        self.assertEqual([w.filename for w in caught], [__file__])
        self.assertTrue(theano.gof.graph.is_same_graph(old, pool_2d(self.x, (2, 2), True, (1, 1), (1, 1), "sum")))
        self.assertIs(downsample.max_pool_2d_same_size, max_pool_2d_same_size)


if __name__ == "__main__":
    unittest.main()
