"""Tests of image patches on devices, compared with the Ops for the host."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray.neighbours import GpuImages2Neibs, GpuImages2NeibsGrad
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.tensor.nnet.neighbours import MODES, Images2Neibs, Images2NeibsGrad, images2neibs, neibs2images

# Shape of the images, shape of a window, and step
CASES = [
    (shape, neib, step)
    for shape, neib in (((2, 3, 9, 7), (3, 3)), ((1, 1, 6, 8), (1, 5)), ((3, 1, 4, 4), (2, 2)), ((2, 2, 3, 3), (3, 3)))
    for step in ((1, 1), (2, 3), (3, 2), (5, 1), (4, 4))
]
EMPTY = [((0, 2, 4, 4), (2, 2), (1, 1)), ((2, 0, 4, 4), (2, 2), (2, 2)), ((2, 1, 0, 4), (3, 3), (1, 1))]


class Windows(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.rng = np.random.default_rng(5)

    def array(self, dtype, shape):
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.startswith("float"):
            return self.rng.normal(size=shape).astype(dtype)
        return self.rng.integers(0, 100, shape).astype(dtype)

    def functions(self, device_op, host_op, dtype, ndim, lengths=0):
        """Return the functions of the two Ops. Their arguments are an array, `lengths` numbers, and two vectors."""
        rest = [T.lscalar() for _ in range(lengths)] + [T.lvector(), T.lvector()]
        there, here = gpu_variable(dtype, ndim), T.TensorType(dtype, (False,) * ndim)()
        return (
            theano.function([there, *rest], device_op(there, *rest)),
            theano.function([here, *rest], host_op(here, *rest)),
        )

    def outcome(self, f, *args):
        """Return the result, or the type and the first line of the error."""
        try:
            return f(*args)
        except (TypeError, ValueError) as error:
            return type(error), str(error).split("\n")[0]


class TestOps(Windows):
    def test_patches(self):
        """The patches equal those of the host, for every mode and dtype, and the errors do."""
        for mode, dtype in itertools.product(MODES, ("float32", "float16", "int8", "bool", "float64", "uint16")):
            f, g = self.functions(GpuImages2Neibs(mode), Images2Neibs(mode), dtype, 4)
            for shape, neib, step in CASES + EMPTY + [((1, 1, 4, 4), (0, 2), (1, 1)), ((1, 1, 4, 4), (2, 2), (1, -1))]:
                value = self.array(dtype, shape)
                expected = self.outcome(g, value, neib, step)
                for layout in LAYOUTS if dtype == "float32" else LAYOUTS[:1]:
                    with self.subTest(mode=mode, dtype=dtype, shape=shape, neib=neib, step=step, layout=layout):
                        result = self.outcome(f, placed(value, layout), neib, step)
                        if isinstance(expected, tuple):
                            self.assertEqual(result, expected)
                        else:
                            self.assertEqual(result.dtype, dtype)
                            np.testing.assert_array_equal(result, expected)

    def test_sums(self):
        """The sums of patches equal those of the host; sums of float16 are computed in float32."""
        tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}
        for mode, dtype in itertools.product(MODES, ("float32", "float16", "int16", "uint8", "bool", "float64")):
            patches = self.functions(GpuImages2Neibs(mode), Images2Neibs(mode), dtype, 4)[1]
            f, g = self.functions(GpuImages2NeibsGrad(mode), Images2NeibsGrad(mode), dtype, 2, 4)
            for shape, neib, step in CASES + EMPTY:
                rows = self.outcome(patches, np.zeros(shape, dtype), neib, step)
                if isinstance(rows, tuple):
                    continue
                value = self.array(dtype, rows.shape)
                expected = g(value, *shape, neib, step)
                for layout in LAYOUTS if dtype == "float32" else LAYOUTS[:1]:
                    with self.subTest(mode=mode, dtype=dtype, shape=shape, neib=neib, step=step, layout=layout):
                        result = np.asarray(f(placed(value, layout), *shape, neib, step))
                        if dtype in tolerance:
                            np.testing.assert_allclose(result, expected, tolerance[dtype], 3 * tolerance[dtype])
                        else:
                            np.testing.assert_array_equal(result, expected)

    def test_errors(self):
        f, g = self.functions(GpuImages2NeibsGrad(), Images2NeibsGrad(), "float32", 2, 4)
        value = np.zeros((4, 4), "float32")
        for args in (
            (1, 1, 4, 3, (2, 2), (2, 2)),  # windows do not fit
            (1, 1, -4, 4, (2, 2), (2, 2)),
            (1, 2, 4, 4, (2, 2), (2, 2)),  # too few rows
            (1, 1, 4, 4, (2, 2, 2), (2, 2)),
            (1, 1, 4, 4, (2, 2), (0, 2)),
        ):
            expected = self.outcome(g, value, *args)
            self.assertIsInstance(expected[0], type)
            self.assertEqual(self.outcome(f, placed(value, "C"), *args), expected)
        for wrong in ((gpu_variable("float32", 3), (2, 2)), (gpu_variable("float32", 4), 2)):
            with self.assertRaises(TypeError):
                GpuImages2Neibs()(*wrong)
        with self.assertRaises(NotImplementedError):
            GpuImages2Neibs("unknown")

    def test_derivatives(self):
        for mode in MODES:
            step = (2, 2) if mode != "full" else (1, 3)

            def patches(x, mode=mode, step=step):
                return HostFromGpu()(GpuImages2Neibs(mode)(x, (3, 3), step))

            value, other = self.array("float64", (2, 1, 5, 5)), self.array("float64", (2, 1, 5, 5))
            theano.gradient.verify_grad(patches, [value], rng=np.random.RandomState(1))
            x, v = T.dtensor4(), T.dtensor4()
            f = theano.function([v], T.Rop(patches(x), x, v))
            np.testing.assert_array_equal(f(other), patches(theano.shared(other)).eval())
            rows = patches(theano.shared(value)).eval()

            def sums(y, mode=mode, step=step, shape=value.shape):
                return HostFromGpu()(GpuImages2NeibsGrad(mode)(y, *shape, (3, 3), step))

            theano.gradient.verify_grad(sums, [rows], rng=np.random.RandomState(1))


class TestRules(Windows):
    def test_graphs(self):
        """Patches, their gradient and the inverse compute on the device. Only the inputs and results are transferred."""
        for mode, dtype in itertools.product(MODES, ("float32", "float16")):
            x = T.TensorType(dtype, (False,) * 4)()
            rows = T.tanh(images2neibs(x, (3, 3), mode=mode))
            shape = x.shape if mode in ("valid", "wrap_centered", "ignore_borders") else None
            outputs = [rows, T.grad((rows * rows).sum(dtype="float32"), x)]
            outputs += [] if shape is None else [neibs2images(rows, (3, 3), shape, mode)]
            values = []
            for there in (False, True):
                mode_ = get_mode("FAST_RUN").including("gpuarray") if there else get_mode("FAST_RUN")
                with config.change_flags(on_opt_error="raise"):
                    f = theano.function([x], outputs, mode=mode_)
                value = np.random.default_rng(1).normal(size=(2, 3, 6, 9)).astype(dtype)
                if mode == "half":
                    value = value[:, :, :4, :7]
                if mode == "full":
                    value = value[:, :, :5, :8]
                values.append(f(value))
            for result, expected in zip(*values):
                tolerance = 1e-5 if dtype == "float32" else 4e-3
                np.testing.assert_allclose(result, expected, tolerance, tolerance)
            ops = [n.op for n in f.maker.fgraph.toposort()]
            self.assertIn(GpuImages2Neibs, map(type, ops))
            self.assertIn(GpuImages2NeibsGrad, map(type, ops))
            self.assertEqual(sum(isinstance(op, GpuFromHost) for op in ops), 1)
            self.assertEqual(sum(isinstance(op, HostFromGpu) for op in ops), len(outputs))

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        x = T.ftensor4()
        outputs = []
        for mode in ("valid", "wrap_centered"):
            rows = images2neibs(x, (3, 3), (2, 1), mode)
            outputs += [rows, T.grad((rows**2).sum(), x)]
        f = theano.function([x], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        g = theano.function([x], outputs, mode="FAST_COMPILE")
        value = self.array("float32", (2, 2, 5, 6))
        for result, expected in zip(f(value), g(value)):
            np.testing.assert_allclose(result, expected, rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
