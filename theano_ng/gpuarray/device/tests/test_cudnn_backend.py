"""Tests of convolutions with a bias and an activation in one plan of cuDNN. A fake library checks the graphs, and computes
them in the conventions of cuDNN.
"""

import ctypes
import itertools
import os
import unittest
from ctypes import byref, pointer

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import (
    EXECUTION_FAILED,
    GRAPH_PARTS,
    NOT_SUPPORTED,
    Tensor,
    WithCudnn,
    compile_fake_cudnn,
)
from theano_ng.gpuarray.device.tests.test_cuda import compile_fake
from theano_ng.gpuarray.device.tests.test_cudnn_conv import FORWARD, GUESS, TOLERANCE, Convolution

ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
# The engines of the fake, see fake_cudnn_backend.c
TENSOR_CORES, VARYING, PLAIN, SMALL, SLOW = 0, 5, 6, 7, 8
MEMORY_FAILED, COMPILATION_FAILED, BAD_PARAM, LOADING_FAILED = 4004, 4001, 2000, 1008


def compute(context, convolution, choice, ending, *tensors):
    """Call cudnn_convolve_elemwise() for images, kernels and the result. Raise DeviceError if it fails."""
    structures = [byref(one) for one in (convolution.structure(), choice, ending)]
    context.check(
        context.library.cudnn_convolve_elemwise(context.pointer, *structures, *[one.pointer for one in tensors])
    )


class WithGraphs(WithCudnn):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cublas_path = compile_fake(cls.folder, cls.path, source="fake_cublas.c", name="libcublasLt.so.12")
        native.set_libraries(cls.library, cublasLt=cls.cublas_path)

    def setUp(self):
        super().setUp()
        self.context = self.open()

    def bias_of(self, convolution):
        return self.rng.uniform(-1, 1, (1, convolution.arrays[2].shape[1], *[1] * convolution.axes)).astype(
            convolution.dtype
        )

    def expected(self, convolution, bias, activation, alpha):
        return ACTIVATIONS[activation](alpha * convolution.value(FORWARD) + bias.astype("float64"))

    def convolve(self, convolution, activation="relu", alpha=1.0, any=False, deterministic=False, most=0, context=None):
        """Compute, and check the numbers. Return the numbers of the engines that computed."""
        context = self.context if context is None else context
        bias = self.bias_of(convolution)
        arrays = [*convolution.arrays[:2], bias, np.full_like(convolution.arrays[2], np.nan)]
        images, kernels, added, out = [Tensor(self, context, a, start=16) for a in arrays]
        ending = native.DnnEnding(list(ACTIVATIONS).index(activation), alpha, pointer(added.tensor), any)
        choice = native.DnnChoice(GUESS, deterministic, None, most)
        self.calls()
        compute(context, convolution, choice, ending, images, kernels, out)
        out.check(self.expected(convolution, bias, activation, alpha), TOLERANCE[convolution.dtype])
        return self.engines()

    def engines(self):
        """Return the numbers of the engines that have computed since the last request."""
        self.recent = self.dnn_calls()
        return [int(call.split()[2]) for call in self.recent if call.startswith("cudnnBackendExecute")]

    def refused(self, code, *args, **kwargs):
        """Return the message of a computation that fails with this code."""
        with self.assertRaises(native.DeviceError) as caught:
            self.convolve(*args, **kwargs)
        self.assertEqual(caught.exception.code, code)
        self.assertEqual(self.engines(), [])
        return str(caught.exception)


class TestNumbers(WithGraphs):
    def test_options(self):
        cases = [
            dict(pad=(1, 2), flip=1),
            dict(stride=(2, 1), kernels=(6, 4, 2, 3)),
            dict(dilation=(2, 1), pad=(1, 0)),
            dict(images=(2, 6, 5, 4), kernels=(6, 2, 3, 2), groups=3),
            dict(images=(2, 4, 4, 5, 3), kernels=(3, 4, 2, 2, 3), pad=(1, 0, 1), flip=1),
            dict(images=(1, 1, 3, 3), kernels=(1, 1, 3, 3)),
        ]
        for options, dtype in itertools.product(cases, ("float32", "float16", "float64")):
            for activation, alpha in itertools.product(ACTIVATIONS, (1.0, -0.75)):
                with self.subTest(dtype=dtype, activation=activation, alpha=alpha, **options):
                    used = self.convolve(Convolution(self.rng, dtype, **options), activation, alpha, any=True)
                    expected = {"float16": TENSOR_CORES, "float32": VARYING, "float64": SLOW}[dtype]
                    self.assertEqual(used, [expected])

    def test_nan(self):
        """The rectifier of the plan propagates NaN."""
        convolution = Convolution(self.rng)
        convolution.arrays[0][0, 0, 0, 0] = np.nan
        self.convolve(convolution, "relu")

    def test_two_contexts(self):
        other = self.open("cuda1")
        for _ in range(2):
            for context in (self.context, other):
                self.assertEqual(self.convolve(Convolution(self.rng), context=context), [VARYING])


class TestEngines(WithGraphs):
    def test_notes(self):
        """Plans that would give other numbers than a fixed algorithm are not used."""
        for dtype, tf32, deterministic, expected in (
            ("float32", False, False, VARYING),
            ("float32", False, True, PLAIN),
            ("float32", True, False, TENSOR_CORES),
            ("float16", False, False, TENSOR_CORES),
            ("float16", False, True, TENSOR_CORES),
        ):
            used = self.convolve(Convolution(self.rng, dtype, tf32=tf32), deterministic=deterministic)
            self.assertEqual(used, [expected], (dtype, tf32, deterministic))

    def test_slow_engines(self):
        """Engines of the second mode of the heuristics compute only on request."""
        convolution = Convolution(self.rng, "float64")
        said = self.refused(native.GA_UNSUPPORTED_ERROR, convolution)
        self.assertRegex(
            said,
            r"^cuDNN has no plan for this form, in a convolution with a bias and an activation of arrays with shapes "
            r"\(2, 4, 5, 6\) float64, \(6, 4, 3, 3\) float64, \(1, 6, 1, 1\) float64, \(2, 6, 3, 4\) float64$",
        )
        self.assertEqual(self.convolve(convolution, any=True), [SLOW])

    def test_sums_in_float16(self):
        """There is no plan that sums in float16."""
        self.refused(native.GA_UNSUPPORTED_ERROR, Convolution(self.rng, "float16", compute="float16"), any=True)

    def test_kept_plans(self):
        """The graph and the plan of a form are made once."""
        cases = [
            dict(),
            dict(activation="tanh"),
            dict(alpha=2.0),
            dict(any=True),
            dict(deterministic=True),
            dict(convolution=Convolution(self.rng, pad=(1, 1))),
            dict(convolution=Convolution(self.rng, flip=1)),
            dict(convolution=Convolution(self.rng, tf32=1)),
            dict(convolution=Convolution(self.rng, "float16")),
            dict(convolution=Convolution(self.rng, images=(3, 4, 5, 6))),
        ]
        descriptors = []
        for _, case in itertools.product(range(2), cases):
            options = {"convolution": Convolution(self.rng), **case}
            self.convolve(**options)
            plans = [call for call in self.recent if call.startswith("cudnnBackendFinalize plan")]
            descriptors.append((len(plans), self.dnn.descriptors))
        first, second = descriptors[: len(cases)], descriptors[len(cases) :]
        self.assertEqual([plans for plans, _ in first], [1] * len(cases))
        self.assertEqual(second, [(0, first[-1][1])] * len(cases))

    def test_an_engine_without_a_plan(self):
        """The next engine computes, and the first is not asked again."""
        convolution = Convolution(self.rng, dilation=(2, 1), pad=(1, 1))
        for _ in range(2):
            self.assertEqual(self.convolve(convolution, deterministic=True), [SMALL])
        self.assertEqual([call for call in self.recent if "plan" in call], [])

    def test_refused_forms(self):
        """A form that the library refuses is not described again."""
        for kernels, said in (((6, 4, 7, 3), "Finalize: "), ((6, 4, 3, 7), "Finalize: ")):
            convolution = Convolution(self.rng, images=(2, 4, 8, 9), kernels=kernels)
            for _ in range(2):
                text = self.refused(native.GA_UNSUPPORTED_ERROR, convolution, any=True)
                self.assertRegex(text, "^cuDNN has no plan for this form: cudnnBackend" + said)
                found = self.recent
            self.assertEqual([call for call in found if call.startswith("cudnn")], [])

    def test_large_arrays(self):
        said = self.refused(native.GA_UNSUPPORTED_ERROR, Convolution(self.rng), most=100)
        self.assertRegex(said, "^an array is too large for one call of cuDNN")

    def test_memory(self):
        """Without memory, a plan with a smaller workspace computes. Later, there may be memory again."""
        for number, (tenths, any, expected) in enumerate(
            ((4, False, PLAIN), (6, False, SMALL), (12, True, SLOW), (12, False, None))
        ):
            self.dnn.workspace = self.state.capacity * tenths // 10
            convolution = Convolution(self.rng, images=(2, 4, 5, 6 + number))
            options = dict(any=any, deterministic=True)
            if expected is None:
                said = self.refused(native.GA_MEMORY_ERROR, convolution, **options)
                self.assertRegex(
                    said, "^.*memory.*, in a convolution with a bias and an activation of arrays with shapes "
                )
            else:
                self.assertEqual(self.convolve(convolution, **options), [expected])
        self.state.capacity *= 3
        self.assertEqual(self.convolve(convolution, **options), [PLAIN])


class TestErrors(WithGraphs):
    def test_failing_calls(self):
        """The message has the name, the status and the shapes. The next call works."""
        width = itertools.count(10)
        for name in ("CreateDescriptor", "SetAttribute", "Finalize", "GetAttribute", "Execute"):
            for after in range(1 if name == "Execute" else 5):
                for activation in ACTIVATIONS:
                    convolution = Convolution(self.rng, images=(1, 4, 5, next(width)))
                    self.fake.fake_fail(("cudnnBackend" + name).encode(), EXECUTION_FAILED, after * 3)
                    said = self.refused(native.GA_RUN_ERROR, convolution, activation)
                    self.assertRegex(
                        said,
                        r"^cudnnBackend%s: CUDNN_STATUS_EXECUTION_FAILED \(the reason\), in a convolution with a bias and "
                        r"an activation of arrays with shapes \(1, 4, 5, \d+\) float32, \(6, 4, 3, 3\) float32, "
                        % name,
                    )
                    self.assertEqual(self.convolve(convolution, activation), [VARYING])

    def test_statuses(self):
        """A plan that fails is replaced; a failing execution is an error, unless the form is not supported."""
        width = itertools.count(10)
        for name, place, status, expected in (
            ("Finalize", 14, NOT_SUPPORTED, PLAIN),
            ("Finalize", 14, COMPILATION_FAILED, PLAIN),
            ("Finalize", 14, BAD_PARAM, PLAIN),
            ("Finalize", 14, LOADING_FAILED, PLAIN),
            ("Finalize", 14, MEMORY_FAILED, PLAIN),
            ("Execute", 0, NOT_SUPPORTED, PLAIN),
        ):
            convolution = Convolution(self.rng, images=(1, 4, 5, next(width)))
            self.fake.fake_fail(("cudnnBackend" + name).encode(), status, place)
            with self.subTest(name=name, status=status):
                self.assertEqual(self.convolve(convolution)[-1], expected)
                # Only memory may be available later.
                self.assertEqual(self.convolve(convolution), [VARYING if status == MEMORY_FAILED else PLAIN])

    def test_no_graph(self):
        """If the library refuses the graph or its heuristics fail, the form is not supported."""
        for number, (status, place) in enumerate(
            itertools.product((NOT_SUPPORTED, BAD_PARAM, LOADING_FAILED), (0, 12, 13))
        ):
            convolution = Convolution(self.rng, images=(1, 4, 5, 20 + number))
            self.fake.fake_fail(b"cudnnBackendFinalize", status, place)
            for _ in range(2):
                said = self.refused(native.GA_UNSUPPORTED_ERROR, convolution)
                self.assertRegex(said, "^cuDNN has no plan for this form: cudnnBackendFinalize: ")


class TestLibraries(WithCudnn):
    def said(self):
        """Return the message of a computation without the libraries for graphs."""
        convolution, context = Convolution(self.rng), self.open()
        tensors = [Tensor(self, context, a) for a in (*convolution.arrays[:2], np.ones((1, 6, 1, 1), "float32"))]
        images, kernels, bias = tensors
        ending = native.DnnEnding(1, 1.0, pointer(bias.tensor), 0)
        choice = native.DnnChoice(GUESS, 0, None, 0)
        with self.assertRaises(native.DeviceError) as caught:
            compute(context, convolution, choice, ending, images, kernels, Tensor(self, context, convolution.arrays[2]))
        self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)
        return str(caught.exception)

    def fresh(self, **paths):
        """Load the device layer once more."""
        self.library = native.load(fresh=True)
        native.set_libraries(self.library, cuda=self.path, nvrtc=self.path, **paths)

    def test_missing_libraries(self):
        """Without a library that the real cuDNN would look for, graphs are not supported."""
        for part in GRAPH_PARTS:
            path = compile_fake_cudnn(self.folder, self.path)
            ctypes.CDLL(path).fake_dnn_reset()
            os.remove(os.path.join(os.path.dirname(path), part))
            self.fresh(cudnn=path)
            self.assertRegex(self.said(), "^cuDNN cannot compute graphs: %s" % part)

    def test_another_cublas(self):
        """cuDNN loads the cuBLASLt of its own version of CUDA."""
        path = compile_fake(self.folder, self.path, source="fake_cublas.c", name="libcublasLt.so.11")
        self.fresh(cudnn=self.cudnn_path, cublasLt=path)
        self.assertRegex(self.said(), r"^cuDNN cannot compute graphs: libcublasLt\.so\.12: ")


if __name__ == "__main__":
    unittest.main()
