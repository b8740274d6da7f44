"""Tests of pooling on devices, compared with the Ops for the host."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import pool
from theano_ng.gpuarray.kernels import pooling as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import LAYOUTS, allow_nan, context, gpu_variable, placed
from theano_ng.gpuarray.transfers import host_from_gpu
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.tensor.signal import pool as host

TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
MODES = ("max", "sum", "average_inc_pad", "average_exc_pad")
AVERAGES = MODES[1:]

# Numbers of the windows: ws, stride, pad and ignore_border, along two axes
WINDOWS = (
    ((2, 2), (2, 2), (0, 0), True),
    ((2, 2), (2, 2), (0, 0), False),
    ((3, 2), (2, 1), (0, 0), False),
    ((3, 2), (1, 3), (0, 0), True),
    ((3, 4), (2, 2), (2, 1), True),
    ((4, 3), (1, 3), (3, 2), True),
    ((70, 1), (70, 1), (0, 0), False),  # a window that is longer than the image
    ((5, 5), (7, 7), (4, 0), True),
)


def poolings(ignore_border, ndim, x, m, g, e, windows):
    """Return pairs of an Op for the device and an Op for the host, each with its arrays.

    x: image; m, g: arrays with one element for each window; e: an array with the shape of the image.
    """
    pairs = [(pool.GpuPool(ignore_border, mode, ndim), [x]) for mode in MODES]
    pairs += [(pool.GpuAveragePoolGrad(ignore_border, mode, ndim), [x, g]) for mode in AVERAGES]
    pairs += [
        (pool.GpuMaxPoolGrad(ignore_border, ndim=ndim), [x, m, g]),
        (pool.GpuDownsampleFactorMaxGradGrad(ignore_border, ndim=ndim), [x, m, e]),
        (pool.GpuMaxPoolRop(ignore_border, ndim=ndim), [x, e]),
    ]
    return [(op(*arrays, *windows), op.host_op(None)(*map(host_from_gpu, arrays), *windows)) for op, arrays in pairs]


class Poolings(unittest.TestCase):
    def setUp(self):
        self.name = context()
        allow_nan(self)
        self.rng = np.random.default_rng(7)

    def numbers(self, dtype, shape):
        """Return numbers of which several are equal, and some are NaN."""
        values = self.rng.integers(-3, 4, shape).astype("float64") / 4
        values[self.rng.uniform(size=shape) < 0.05] = np.nan
        return values.astype(dtype)

    def check(self, functions, shape, windows, ignore_border, dtype, layouts=LAYOUTS):
        """Compare the functions for the device and for the host."""
        there, here = functions
        ndim = len(windows[0])
        out = host.Pool.out_shape(shape, *windows[:1], ignore_border, *windows[1:], ndim=ndim)
        x, g, e = self.numbers(dtype, shape), self.numbers(dtype, out), self.numbers(dtype, shape)
        m = host.Pool(ignore_border, "max", ndim)(x, *windows).eval() if g.size else g
        numbers = [np.array(v) for v in windows] if len(there.maker.inputs) > 4 else []
        expected = here(*[placed(v, "C") for v in (x, m, g, e)], *numbers)
        for layout in layouts:
            results = there(*[placed(v, layout) for v in (x, m, g, e)], *numbers)
            for result, right, v in zip(results, expected, there.maker.outputs):
                op = v.variable.owner.op
                with self.subTest(op, shape=shape, windows=windows, dtype=dtype, layout=layout):
                    self.assertEqual((result.shape, result.dtype), (right.shape, right.dtype))
                    tolerance = TOLERANCE[dtype]
                    np.testing.assert_allclose(np.asarray(result, "float64"), right, tolerance, tolerance)

    def functions(self, dtype, rank, ndim, ignore_border, windows):
        arrays = [gpu_variable(dtype, rank) for _ in range(4)]
        pairs = poolings(ignore_border, ndim, *arrays, windows)
        inputs = arrays + [v for v in windows if not isinstance(v, tuple)]
        return [
            theano.function(inputs, list(outputs), mode="FAST_COMPILE" if i else "FAST_RUN")
            for i, outputs in enumerate(zip(*pairs))
        ]


class TestOps(Poolings):
    def test_windows(self):
        """All Ops, for windows that are known only at run time."""
        for ignore_border in (False, True):
            f = self.functions("float64", 4, 2, ignore_border, [T.lvector() for _ in range(3)])
            for *windows, border in WINDOWS:
                if border == ignore_border:
                    for shape in ((2, 3, 7, 9), (1, 2, 1, 8), (0, 3, 5, 5), (2, 2, 0, 5)):
                        self.check(f, shape, windows, border, "float64")

    def test_constant_windows(self):
        """The numbers of the windows become constants of the kernel."""
        for (*windows, border), dtype in zip(
            (WINDOWS[0], WINDOWS[1], WINDOWS[4], WINDOWS[2]), ("float64", "float16", "float32", "float32")
        ):
            f = self.functions(dtype, 3, 2, border, windows)
            for shape in ((2, 7, 9), (3, 2, 8)):
                self.check(f, shape, windows, border, dtype, ("C", "strided"))

    def test_other_numbers_of_axes(self):
        for ndim, rank, windows, border in (
            (1, 4, ((3,), (1,), (1,)), True),
            (3, 5, ((2, 3, 2), (1, 2, 2), (1, 1, 0)), True),
            (4, 4, ((2, 3, 2, 2), (2, 2, 2, 1), (0, 0, 0, 0)), False),
        ):
            f = self.functions("float64", rank, ndim, border, windows)
            self.check(f, (2, 3, 4, 5, 4)[:rank], windows, border, "float64")

    def test_integers(self):
        """Sums are computed in 64 bits; averages are rounded towards zero."""
        windows = ((3, 2), (2, 2), (1, 1))
        for dtype in ("bool", "int8", "uint16", "int64"):
            x = gpu_variable(dtype, 3)
            f = theano.function([x], [pool.GpuPool(True, mode)(x, *windows) for mode in MODES])
            value = self.rng.integers(-100, 100, (2, 7, 6)).astype(dtype)
            for result, mode in zip(f(placed(value, "strided")), MODES):
                with self.subTest(dtype=dtype, mode=mode):
                    right = host.Pool(True, mode)(value, *windows).eval()
                    self.assertEqual(result.dtype, right.dtype)
                    np.testing.assert_array_equal(result, right)

    def test_elements_for_each_thread(self):
        """Kernels for GPUs, on which a thread computes one element, and pieces of which the last is shorter."""
        value = self.rng.standard_normal((2, 3, 5, 7)).astype("float32")
        ctx = get_context(self.name)
        numbers = [[2, 3], [2, 2], [0, 1]]
        kernel = kernels.pooling(kernels.POOL, "max", "float32", 2, 2, False, None, ctx).build()
        expected = host.Pool(True)(value, *map(tuple, numbers)).eval()
        for span in (1, 2, 10):
            x, z = pygpu.array(value, context=ctx), pygpu.zeros(expected.shape, "float32", context=ctx)
            pieces = -(-z.shape[-1] // span)
            axes = []
            for d in range(4):
                axes += [z.shape[d]] if d < 2 else [x.shape[d], z.shape[d], *[row[d - 2] for row in numbers]]
                axes += [z.strides[d] // 4, x.strides[d] // 4]
            kernel(z.size // z.shape[-1] * pieces, pieces, span, z, 0, x, 0, *axes, gs=(3,), ls=(4,))
            np.testing.assert_array_equal(z, expected)

    def test_errors(self):
        x, g = gpu_variable("float32", 3), gpu_variable("float32", 3)
        ws, stride, pad = [T.lvector() for _ in range(3)]
        for ignore_border, numbers, message in (
            (True, ([2, 0], [1, 1], [0, 0]), "ws must be at least 1"),
            (True, ([2, 2], [1, 0], [0, 0]), "stride must be at least 1"),
            (True, ([2, 2], [1, 1], [0, -1]), "pad must be at least 0"),
            (True, ([2, 2], [1, 1], [0, 2]), "pad must be smaller than ws"),
            (False, ([2, 2], [1, 1], [0, 1]), "pad works only with ignore_border=True"),
            (True, ([2], [1, 1], [0, 0]), "ws must be a vector of size 2, got 1 elements"),
        ):
            for mode in ("FAST_RUN", theano.Mode("py", None)):
                f = theano.function([x, ws, stride, pad], pool.GpuPool(ignore_border)(x, ws, stride, pad), mode=mode)
                with self.subTest(message, mode=str(mode)), self.assertRaisesRegex(ValueError, message):
                    f(placed(np.ones((2, 5, 5), "float32"), "C"), *numbers)
        f = theano.function([x, g], pool.GpuAveragePoolGrad(True, "sum")(x, g, (2, 2)), mode="FAST_RUN")
        with self.assertRaisesRegex(ValueError, r"the gradient has shape \(2, 2, 3\), but .* need shape \(2, 2, 2\)"):
            f(*[placed(np.ones(shape, "float32"), "C") for shape in ((2, 5, 5), (2, 2, 3))])
        f = theano.function([x, g], pool.GpuMaxPoolRop(True)(x, g, (2, 2)), mode="FAST_RUN")
        with self.assertRaisesRegex(ValueError, r"the direction has shape \(2, 2, 2\), but .* need shape \(2, 5, 5\)"):
            f(*[placed(np.ones(shape, "float32"), "C") for shape in ((2, 5, 5), (2, 2, 2))])
        f = theano.function([x, g], pool.GpuMaxPoolGrad(True)(x, g, g, (2, 2)), mode="FAST_RUN")
        with self.assertRaisesRegex(ValueError, r"maxout has shape \(1, 2, 2\)"):
            f(*[placed(np.ones(shape, "float32"), "C") for shape in ((2, 5, 5), (1, 2, 2))])

    def test_arguments(self):
        for make in (
            lambda: pool.GpuPool(True, "median"),
            lambda: pool.GpuMaxPoolGrad(True, "sum"),
            lambda: pool.GpuAveragePoolGrad(True, "max"),
            lambda: pool.GpuMaxPoolRop(True, "sum"),
            lambda: pool.GpuPool(True, ndim=0),
        ):
            with self.assertRaises(ValueError):
                make()
        with self.assertRaises(TypeError):
            pool.GpuPool(True)(gpu_variable("float32", 1), (2, 2))

    def test_derivatives(self):
        for mode, ndim in itertools.product(MODES, (2, 3)):

            def pooled(x, mode=mode, ndim=ndim):
                return host_from_gpu(pool.GpuPool(True, mode, ndim)(x, (2,) * ndim, (1,) * ndim, (1,) * ndim))

            with self.subTest(mode=mode, ndim=ndim):
                value = self.rng.permutation(48).reshape(2, 2, 4, 3) / 10  # no ties
                theano.gradient.verify_grad(pooled, [value], rng=np.random.RandomState(3))
                x, point = T.dtensor4(), T.dtensor4()
                f = theano.function([x, point], T.Rop(pooled(x), x, point), on_unused_input="ignore")
                g = theano.function([x], pooled(x))
                move, step = self.rng.uniform(-1, 1, value.shape), 1e-6
                difference = (g(value + step * move) - g(value - step * move)) / (2 * step)
                np.testing.assert_allclose(f(value, move), difference, rtol=1e-5, atol=1e-6)


class TestRules(Poolings):
    def test_graphs(self):
        """Poolings and all derivatives are computed on the device."""
        for dtype, mode in itertools.product(("float16", "float64"), MODES):
            x, v = [T.TensorType(dtype, (False,) * 4)() for _ in range(2)]
            y = host.pool_2d(x * 2, (2, 3), ignore_border=True, stride=(1, 2), pad=(1, 1), mode=mode)
            g = theano.grad(T.sqr(y).sum(dtype=dtype), x)
            outputs = [y, g, T.Rop(y, x, v), theano.grad((g * v).sum(dtype=dtype), x)]
            values = [self.rng.permutation(90).reshape(2, 3, 5, 3).astype(dtype) / 64 for _ in range(2)]
            with self.subTest(dtype=dtype, mode=mode), change_flags(on_opt_error="raise"):
                f = theano.function([x, v], outputs, mode=get_mode("FAST_RUN").including("gpuarray"))
                expected = theano.function([x, v], outputs, mode=get_mode("FAST_RUN").excluding("gpuarray"))(*values)
                for result, right in zip(f(*values), expected):
                    np.testing.assert_allclose(result, right, 5 * TOLERANCE[dtype], 5 * TOLERANCE[dtype])
                nodes = f.maker.fgraph.apply_nodes
                self.assertFalse([n for n in nodes if isinstance(n.op, host._Pooling)])
                crossing = [type(n.op).__name__ for n in nodes if type(n.op).__name__ in ("GpuFromHost", "HostFromGpu")]
                self.assertEqual(sorted(crossing), ["GpuFromHost"] * 2 + ["HostFromGpu"] * 4)

    def test_known_shapes(self):
        """The shape of a result follows from the shape of the image."""
        x, windows = gpu_variable("float32", 4), [T.lvector() for _ in range(3)]
        pooled = pool.GpuPool(False, ndim=2)(x, *windows)
        f = theano.function([x, *windows], pooled.shape)
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, pool.GpuPool)])
        value = placed(np.ones((2, 3, 7, 5), "float32"), "C")
        np.testing.assert_array_equal(f(value, [3, 2], [2, 1], [0, 0]), (2, 3, 3, 4))

    def test_debug_mode(self):
        x, v = T.ftensor4(), T.ftensor4()
        y = [host.pool_2d(x, (2, 2), ignore_border=True, mode=mode) for mode in MODES]
        gradients = [theano.grad(T.sqr(one).sum(), x) for one in y]
        outputs = [*y, *gradients, T.Rop(y[0], x, v), theano.grad((gradients[0] * v).sum(), x)]
        f = theano.function([x, v], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        values = [self.rng.standard_normal((2, 2, 4, 5)).astype("float32") for _ in range(2)]
        expected = theano.function([x, v], outputs, mode="FAST_COMPILE")(*values)
        for result, right in zip(f(*values), expected):
            np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-5)

    def test_broadcast_patterns(self):
        x = GpuArrayType("float32", (True, False, True, True), self.name)()
        self.assertEqual(pool.GpuPool(True)(x, (1, 1)).broadcastable, (True, False, False, False))
        g = gpu_variable("float32", 4)
        self.assertEqual(pool.GpuMaxPoolGrad(True)(x, g, g, (1, 1)).type, x.type)


if __name__ == "__main__":
    unittest.main()
