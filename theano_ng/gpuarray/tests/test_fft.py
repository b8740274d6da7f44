"""Tests of Fourier transforms on a CUDA device (`fake_cuda`)."""

import itertools
import pickle
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.gpuarray import contexts, fft
from theano_ng.gpuarray.fft import cuirfft, cuirfft_op, curfft, curfft_op
from theano_ng.gpuarray.tests import fake_cuda
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.tests.fake_cuda import CudaTest
from theano_ng.gpuarray.transfers import GpuFromHost, host_from_gpu
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor import fft as host_fft
from theano_ng.tests import unittest_tools

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
SHAPES = ((2, 5), (3, 6), (1, 1), (2, 2), (2, 4, 3), (2, 3, 4), (2, 3, 2, 4), (2, 3, 2, 3, 5), (1, 2, 3, 2, 3, 4))


class TransformTest(CudaTest):
    def variable(self, dtype, ndim):
        return gpu_variable(dtype, ndim, self.name)

    def placed(self, value, layout="C"):
        return placed(value, layout, self.name)

    def values(self, dtype, *shape):
        return self.rng.normal(size=shape).astype(dtype)

    def close(self, found, expected, dtype):
        found = np.asarray(found)
        self.assertEqual((found.shape, found.dtype), (expected.shape, dtype))
        np.testing.assert_allclose(found, expected, TOLERANCE[dtype], TOLERANCE[dtype])


def spectrum(shape):
    """Return the shape of the transforms of arrays."""
    return (*shape[:-1], shape[-1] // 2 + 1, 2)


class TestOps(TransformTest):
    def test_results(self):
        """All numbers of axes, layouts and lengths: fitting, cut and padded. Inverse transforms of pairs that are no
        transforms of real arrays equal those of the host, too.
        """
        s = T.lvector()
        for dtype, shape in itertools.product(TOLERANCE, SHAPES):
            for on_device, on_host, own in (
                (curfft_op, host_fft.rfft_op, shape),
                (cuirfft_op, host_fft.irfft_op, spectrum(shape)),
            ):
                x = self.variable(dtype, len(own))
                host = x.type.host_type()()
                f = theano.function([x, s], on_device(x, s))
                g = theano.function([host, s], on_host(host, s), mode=get_mode("FAST_RUN"))
                for layout, more in itertools.product(LAYOUTS, (0, 1, -1)):
                    with self.subTest(op=on_device, dtype=dtype, shape=shape, layout=layout, more=more):
                        a = self.values(dtype, *own)
                        lengths = np.maximum(np.array(shape[1:]) + more * np.arange(1, len(shape)), 1)
                        self.close(f(self.placed(a, layout), lengths), g(a, lengths), dtype)

    def test_normalizations(self):
        """The documented functions give the numbers of NumPy."""
        for shape, norm in itertools.product(((2, 6), (2, 3, 5)), (None, "ortho", "no_norm")):
            axes = tuple(range(1, len(shape)))
            x, y = self.variable("float32", len(shape)), self.variable("float32", len(shape) + 1)
            odd = shape[-1] % 2 == 1
            f = theano.function([x, y], [curfft(x, norm), cuirfft(y, norm, is_odd=odd)])
            a = self.values("float32", *shape)
            given = np.fft.rfftn(self.values("float64", *shape), axes=axes)
            pairs = np.stack([given.real, given.imag], -1).astype("float32")
            found, back = f(self.placed(a), self.placed(pairs))
            forward = np.fft.rfftn(a, axes=axes, norm="ortho" if norm == "ortho" else None)
            self.close(found, np.stack([forward.real, forward.imag], -1), "float32")
            inverse = np.fft.irfftn(given, shape[1:], axes, norm={"no_norm": "forward"}.get(norm, norm))
            self.close(back, inverse, "float32")

    def test_box(self):
        """The example of the documentation: the transform of a box is a sinc function."""
        x = T.matrix("x", dtype="float32")
        x.tag.context_name = self.name
        f_rfft = theano.function([x], curfft(x, norm="ortho"))
        N = 64
        box = np.zeros((1, N), dtype="float32")
        box[:, N // 2 - 10 : N // 2 + 10] = 1
        out = f_rfft(box)
        c_out = np.asarray(out[0, :, 0] + 1j * out[0, :, 1])
        np.testing.assert_allclose(abs(c_out), abs(np.fft.rfft(box[0], norm="ortho")), 1e-4, 1e-5)

    def test_no_arrays(self):
        x, y = self.variable("float32", 3), self.variable("float32", 4)
        f = theano.function([x, y], [curfft_op(x), cuirfft_op(y)])
        found = f(self.placed(np.ones((0, 3, 4), "float32")), self.placed(np.ones((0, 3, 4, 2), "float32")))
        self.assertEqual([np.asarray(v).shape for v in found], [(0, 3, 3, 2), (0, 3, 6)])

    def test_views(self):
        """An array whose first element is no pair's first element, and outputs of earlier calls"""
        x = self.variable("float64", 2)
        f = theano.function([x], curfft_op(x))
        a = self.placed(self.values("float64", 7, 4))
        for start in range(4):
            part = a.reshape((28,))[start : start + 20].reshape((5, 4))
            value = np.fft.rfft(np.asarray(part))
            self.close(f(part), np.stack([value.real, value.imag], -1), "float64")

    def test_the_input_is_kept(self):
        y = self.variable("float64", 4)
        f = theano.function([y], cuirfft_op(y))
        a = self.values("float64", 2, 3, 4, 2)
        there = self.placed(a)
        f(there)
        np.testing.assert_array_equal(there, a)

    def test_infinities(self):
        """NaN in one array of a batch has no effect on the others."""
        x = self.variable("float64", 2)
        f = theano.function([x], curfft_op(x), mode=get_mode("FAST_RUN"))
        a = self.values("float64", 3, 5)
        expected = np.fft.rfft(a)
        a[1, 2] = np.nan
        found = np.asarray(f(self.placed(a)))
        self.assertTrue(np.isnan(found[1]).all())
        self.close(found[[0, 2]], np.stack([expected.real, expected.imag], -1)[[0, 2]], "float64")

    def test_errors(self):
        s = T.lvector()
        x, y = self.variable("float64", 2), self.variable("float64", 3)
        for on_device, on_host, v, calls in (
            (curfft_op, host_fft.rfft_op, x, (((2, 3), [0]), ((2, 3), [3, 3]), ((2, 0), [2]), ((2, 3), []))),
            (
                cuirfft_op,
                host_fft.irfft_op,
                y,
                (((2, 3, 2), [-1]), ((2, 3, 2), [3, 3]), ((2, 0, 2), [2]), ((2, 3, 3), [4])),
            ),
        ):
            host = v.type.host_type()()
            f = theano.function([v, s], on_device(v, s), mode=get_mode("FAST_RUN"))
            g = theano.function([host, s], on_host(host, s), mode=get_mode("FAST_RUN"))
            for shape, lengths in calls:
                messages = []
                for call, value in ((g, np.ones(shape)), (f, self.placed(np.ones(shape)))):
                    with self.assertRaises(ValueError) as caught:
                        call(value, np.array(lengths, "int64"))
                    messages.append(str(caught.exception).splitlines()[0].partition(": "))
                self.assertEqual(messages[0][2], messages[1][2])
                self.assertEqual("Cu" + messages[0][0], messages[1][0])
            shape = (2, 3, 2)[: v.ndim]
            f(self.placed(np.ones(shape)), np.array([3]))

    def test_arguments(self):
        for op, ndim in ((curfft_op, 1), (cuirfft_op, 2)):
            self.assertRaises(TypeError, op, self.variable("float32", ndim))
            x = self.variable("float32", ndim + 1)
            self.assertRaises(TypeError, op, x, T.dvector())
            for dtype in ("float16", "int32"):
                self.assertRaisesRegex(TypeError, dtype, op, self.variable(dtype, ndim + 1))
            self.assertEqual(op(x).type, op.output_type(x))
            self.assertIsInstance(op(x).type, GpuArrayType)
            self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        x = self.variable("float32", 3)
        self.assertRaisesRegex(ValueError, "Invalid value forward for norm", curfft, x, "forward")
        self.assertRaisesRegex(ValueError, "Invalid value", cuirfft, x, "forward")
        self.assertRaisesRegex(ValueError, "is_odd", cuirfft, x, is_odd=2)
        self.assertRaises(TypeError, cuirfft, self.variable("float32", 2))

    def test_gradients(self):
        """Gradients by finite differences, with fitting, cut and padded inputs"""

        def check(formula, value):
            unittest_tools.verify_grad(
                lambda x: host_from_gpu(formula(GpuFromHost(self.name)(x))), [value], rng=self.rng
            )

        for shape in ((2, 5), (2, 4), (2, 3, 4), (1, 2, 2, 2, 3)):
            for more in (0, 1, -1):
                lengths = np.maximum(np.array(shape[1:]) + more, 1)
                check(lambda x: curfft_op(x, lengths), self.values("float64", *shape))
                check(lambda x: cuirfft_op(x, lengths), self.values("float64", *spectrum(shape)))
            check(curfft_op, self.values("float64", *shape))
            check(cuirfft_op, self.values("float64", *spectrum(shape)))

    def test_gradients_stay_on_the_device(self):
        """A gradient is the opposite transform. If the input is not cut, nothing else handles its lengths."""
        if None not in contexts.list_contexts():  # rules without a variable on a device need a default
            contexts.reg_context(None, contexts.get_context(self.name))
            self.addCleanup(contexts.unregister, None)
        mode = get_mode("FAST_RUN").including("gpuarray")
        x, y = self.variable("float32", 3), self.variable("float32", 4)
        for v, function in ((x, lambda v: curfft(v, "ortho")), (y, lambda v: cuirfft(v, is_odd=True))):
            g = T.grad((function(v) ** 2).sum(), v)
            f = theano.function([v], g.transfer(self.name), mode=mode)
            names = [type(node.op).__name__ for node in f.maker.fgraph.toposort()]
            self.assertIn("CuRFFTOp", names)
            self.assertIn("CuIRFFTOp", names)
            self.assertEqual(
                [name for name in names if name in ("RFFTOp", "IRFFTOp", "HostFromGpu", "IncSubtensor")], []
            )

    def test_directions(self):
        x, e = T.dtensor3(), T.dtensor3()
        out = host_from_gpu(curfft_op(GpuFromHost(self.name)(x)))
        f = theano.function([x, e], T.Rop(out, x, e))
        g = theano.function([x], out)
        a, b = self.values("float64", 2, 3, 4), self.values("float64", 2, 3, 4)
        np.testing.assert_allclose(f(a, b), g(b), 1e-9, 1e-9)

    def test_shapes(self):
        x, y = self.variable("float32", 3), self.variable("float32", 4)
        f = theano.function([x, y], [curfft_op(x).shape, cuirfft_op(y).shape])
        self.assertNotIn("FFTOp", str(f.maker.fgraph))
        found = f(self.placed(np.ones((2, 3, 5), "float32")), self.placed(np.ones((2, 3, 5, 2), "float32")))
        self.assertEqual([list(v) for v in found], [[2, 3, 3, 2], [2, 3, 8]])

    def test_plans(self):
        """A plan is made for each form, not for each call. The plans that were not used for the longest time are dropped."""
        if fake_cuda.is_real:
            self.skipTest("counts the calls of a fake library")
        x, s = self.variable("float64", 2), T.lvector()
        f = theano.function([x, s], curfft_op(x, s), mode=get_mode("FAST_RUN"))
        a = self.values("float64", 2, 200)
        there = self.placed(a)
        for n, expected in (*[(n, 1) for n in range(100, 170)], (169, 0), (106, 0), (100, 1)):
            fake_cuda.calls()
            value = np.fft.rfft(a, n)
            self.close(f(there, [n]), np.stack([value.real, value.imag], -1), "float64")
            self.assertEqual(fake_cuda.calls().count("cufftMakePlanMany64"), expected)


class TestGraphs(TransformTest):
    def test_kernels_around_a_transform(self):
        """The kernels before and behind a transform are graphs, whose runs read the arguments of the call."""
        x, k = self.variable("float64", 2), T.dscalar()

        def mixed(v):
            for _ in range(10):
                v = T.tanh(v + k) - v.max(axis=0, keepdims=True)[:, ::-1]
            return v

        def on_host(v):
            for _ in range(10):
                v = np.tanh(v + number) - v.max(0, keepdims=True)[:, ::-1]
            return v

        middle = curfft_op(mixed(x.transfer("cpu")).transfer(self.name)).transfer("cpu")
        f = theano.function([x, k], mixed(middle[..., 0]), mode=get_mode("FAST_RUN").including("gpuarray"))
        fake_cuda.is_real or fake_cuda.calls()
        for number in np.linspace(0, 1, 9):
            value = self.values("float64", 3, 6)
            expected = on_host(np.fft.rfft(on_host(value)).real)
            self.close(f(self.placed(value), number), expected, "float64")
        if not fake_cuda.is_real:
            self.assertIn("cuGraphLaunch", fake_cuda.calls())


class TestFailures(TransformTest):
    """Failing calls of the library, and no memory. The function works afterwards."""

    def setUp(self):
        super().setUp()
        if fake_cuda.is_real:
            self.skipTest("lets calls of a fake library fail")
        x, y = self.variable("float64", 2), self.variable("float64", 5)
        self.functions = [
            theano.function([v], op(v), mode=get_mode("FAST_RUN")) for v, op in ((x, curfft_op), (y, cuirfft_op))
        ]
        self.given = [self.placed(self.values("float64", *shape)) for shape in ((2, 5), (2, 3, 2, 4, 2))]
        self.expected = [np.asarray(f(a)) for f, a in zip(self.functions, self.given)]

    def work(self):
        for f, a, expected in zip(self.functions, self.given, self.expected):
            np.testing.assert_array_equal(f(a), expected)

    def test_failing_calls(self):
        for i, call, shape in ((0, "cufftExecD2Z", r"\(5,\)"), (1, "cufftExecZ2D", r"\(3, 2, 6\)")):
            fake_cuda.fakes["cuda"].fake_fail(call.encode(), 6, 0)
            said = r"%s: CUFFT_EXEC_FAILED \(6\), for 2 transforms of shape %s, float64\s[\s\S]*Apply node.*FFTOp"
            with self.assertRaisesRegex(RuntimeError, said % (call, shape)):
                self.functions[i](self.given[i])
            self.work()

    def test_no_memory(self):
        """There is no memory for the workspace of a plan."""
        state = fake_cuda.fft_state()
        for f, a in zip(self.functions, self.given):
            larger = self.placed(self.values("float64", 7, *a.shape[1:]))  # a form that no other test uses
            state.workspace = 2 << 30
            with self.assertRaisesRegex(MemoryError, r"[\s\S]*Apply node.*FFTOp"):
                f(larger)
            state.workspace = 512
            self.work()

    def test_no_waits(self):
        for f, a in zip(self.functions, self.given):
            fake_cuda.calls()
            f(a)
            self.assertEqual([call for call in fake_cuda.calls() if "Synchronize" in call or "DtoH" in call], [])


class TestOtherDevices(unittest.TestCase):
    def test_opencl(self):
        name = context()
        if fake_cuda.is_real:
            self.skipTest("the tests run on a CUDA device")
        for op in (curfft, cuirfft, curfft_op, cuirfft_op):
            with self.assertRaisesRegex(
                RuntimeError,
                r"^Cu\w*FFTOp needs a CUDA device with cuFFT: \S+ is no CUDA device, so cuFFT does not run",
            ):
                op(gpu_variable("float32", 3, name))

    def test_names_that_programs_ask_for(self):
        from theano_ng.gpuarray.device import loader

        self.assertIs(fft.pygpu_available, True)
        for path, expected in ((None, False), ("/some/where.so", True)):
            with mock.patch.dict(loader._given, {"cufft": path}):
                self.assertEqual((fft.skcuda_available, fft.pycuda_available), (expected, expected))
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'"):
            fft.nothing


if __name__ == "__main__":
    unittest.main()
