"""Tests of convolutions by cuDNN. A fake library computes them in the conventions of cuDNN. The expected numbers come from
the Ops on the host.
"""

import itertools
import unittest
from ctypes import byref, c_int64, pointer

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import CODES, EXECUTION_FAILED, NOT_SUPPORTED, Tensor, WithCudnn
from theano_ng.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights

FORWARD, WEIGHTS, INPUTS = range(3)
NAMES = ("Forward", "BackwardFilter", "BackwardData")
COUNTS = (8, 7, 6)  # of algorithms
GUESS, TIME = -1, -2
OPS = {2: (CorrMM, CorrMM_gradWeights, CorrMM_gradInputs), 3: (Corr3dMM, Corr3dMM_gradWeights, Corr3dMM_gradInputs)}
TOLERANCE = {"float16": 4e-2, "float32": 2e-5, "float64": 1e-11}


class Convolution:
    """The parameters of a convolution, and random arrays that fit.

    Attributes
    ----------
    arrays : list of numpy.ndarray
        Images, kernels, and output.
    """

    def __init__(self, rng, dtype="float32", images=(2, 4, 5, 6), kernels=(6, 4, 3, 3), pad=None, **options):
        axes = len(images) - 2
        self.axes, self.dtype, self.pad = axes, dtype, tuple(pad or (0,) * axes)
        self.stride = tuple(options.pop("stride", (1,) * axes))
        self.dilation = tuple(options.pop("dilation", (1,) * axes))
        self.groups, self.flip = options.pop("groups", 1), options.pop("flip", 0)
        self.compute = options.pop("compute", "float32" if dtype == "float16" else dtype)
        self.tf32 = options.pop("tf32", 0)
        assert not options, options
        lengths = [
            (i + 2 * p - ((k - 1) * d + 1)) // s + 1
            for i, k, p, s, d in zip(images[2:], kernels[2:], self.pad, self.stride, self.dilation)
        ]
        shapes = images, kernels, (images[0], kernels[0], *lengths)
        self.arrays = [rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes]

    def structure(self):
        result = native.DnnConvolution(
            self.axes, groups=self.groups, flip=self.flip, compute=CODES[self.compute], tf32=self.tf32
        )
        for i in range(self.axes):
            result.pad[i], result.stride[i], result.dilation[i] = self.pad[i], self.stride[i], self.dilation[i]
        return result

    def value(self, direction):
        """Return the result by the Op on the host."""
        op = OPS[self.axes][direction](self.pad, self.stride, self.dilation, num_groups=self.groups)
        op.flip = bool(self.flip)
        images, kernels, output = [a.astype("float64") for a in self.arrays]
        if direction == FORWARD:
            return op.value([images, kernels], "float64")
        if direction == WEIGHTS:
            return op.value([images, output, *kernels.shape[2:]], "float64")
        return op.value([kernels, output, *images.shape[2:]], "float64")


class WithConvolutions(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()
        self.tensors = {}

    def choice(self, algorithm, deterministic=False, kept=None, most=0):
        return native.DnnChoice(algorithm, deterministic, kept, most)

    def convolve(self, convolution, direction=FORWARD, choice=None, alpha=1.0, beta=0.0):
        """Compute a convolution, and check the result."""
        images, kernels, output = convolution.arrays
        inputs, old = {
            FORWARD: ((images, kernels), output),
            WEIGHTS: ((images, output), kernels),
            INPUTS: ((kernels, output), images),
        }[direction]
        first, second = [Tensor(self, self.context, a, start=3) for a in inputs]
        before = old if beta else np.full_like(old, np.nan)
        out = Tensor(self, self.context, before, start=5)
        choice = self.choice(0) if choice is None else choice
        self.calls()
        self.context.check(
            self.library.cudnn_convolve(
                self.context.pointer,
                direction,
                byref(convolution.structure()),
                byref(choice),
                alpha,
                first.pointer,
                second.pointer,
                beta,
                out.pointer,
            )
        )
        expected = alpha * convolution.value(direction) + (beta * old.astype("float64") if beta else 0)
        out.check(expected, TOLERANCE[convolution.dtype])

    def algorithms(self):
        """Return the numbers of the algorithms that have run since the last request."""
        calls = [call.split() for call in self.dnn_calls()]
        return [int(call[1]) for call in calls if call[0] in ["cudnnConvolution" + name for name in NAMES]]

    def calls_of(self, start):
        return [call for call in self.dnn_calls() if call.startswith(start)]


class TestNumbers(WithConvolutions):
    def random(self, case):
        """Return a random convolution."""
        rng = self.rng
        axes = 2 + case % 2
        groups = int(rng.integers(1, 4))
        kernel = rng.integers(1, 4, axes) if rng.random() < 0.7 else np.full(axes, 3)
        simple = rng.random() < 0.4
        stride = np.ones(axes, int) if simple else rng.integers(1, 4, axes)
        dilation = np.ones(axes, int) if simple else rng.integers(1, 3, axes)
        pad = rng.integers(0, 4, axes)
        extent = (kernel - 1) * dilation + 1
        image = np.maximum(extent - 2 * pad, 1) + rng.integers(0, 5, axes)
        dtype = list(CODES)[case % 3]
        compute = "float16" if dtype == "float16" and case % 4 == 0 else {"float16": "float32"}.get(dtype, dtype)
        return Convolution(
            rng,
            dtype,
            (int(rng.integers(1, 4)), groups * int(rng.integers(1, 3)), *image.tolist()),
            (groups * int(rng.integers(1, 3)), 1, *kernel.tolist()),
            pad.tolist(),
            stride=stride.tolist(),
            dilation=dilation.tolist(),
            flip=case % 5 < 2,
            compute=compute,
            groups=groups,
        )

    def test_random_forms(self):
        """Random shapes, padding, strides, dilation, groups, dtypes, factors and algorithms."""
        self.dnn.workspace = 1 << 10
        for case in range(240):
            found = self.random(case)
            # The kernels have the channels of one group.
            images, kernels, _ = found.arrays
            kernels = self.rng.uniform(-1, 1, (kernels.shape[0], images.shape[1] // found.groups, *kernels.shape[2:]))
            found.arrays[1] = kernels.astype(found.dtype)
            direction = case % 3 if case % 2 else (case // 3) % 3
            algorithm = int(self.rng.integers(-2, COUNTS[direction]))
            alpha, beta = [(1.0, 0.0), (0.5, 0.0), (2.0, 1.0), (-1.0, 0.25)][case // 2 % 4]
            most = [0, 40][case % 7 == 0]
            choice = self.choice(algorithm, case % 3 == 0, most=most)
            with self.subTest(case=case, direction=direction, algorithm=algorithm, **vars(found)):
                self.convolve(found, direction, choice, alpha, beta)

    def test_math(self):
        """float32 numbers are not rounded to TF32, unless this is allowed. float16 uses the units for matrices."""
        for dtype, tf32, math in (("float32", 0, 3), ("float32", 1, 0), ("float64", 0, 0), ("float16", 0, 1)):
            for direction, name in enumerate(NAMES):
                self.convolve(Convolution(self.rng, dtype, tf32=tf32), direction)
                (call,) = self.calls_of("cudnnConvolution" + name)
                compute = {"float64": 1}.get(dtype, 0)
                self.assertEqual(call, "cudnnConvolution%s 0 math %d compute %d" % (name, math, compute))

    def test_parts_of_the_batch(self):
        """Arrays that are too large are divided."""
        for direction in (FORWARD, WEIGHTS, INPUTS):
            convolution = Convolution(self.rng, images=(7, 4, 5, 6))
            for alpha, beta in ((1.0, 0.0), (0.5, 2.0)):
                self.convolve(convolution, direction, self.choice(0, most=300), alpha, beta)
                self.assertEqual(self.algorithms(), [0] * 4)
            self.convolve(convolution, direction, self.choice(0, most=1))
            self.assertEqual(self.algorithms(), [0] * 7)

    def test_parts_that_are_not_supported(self):
        """If the library refuses a part after it has computed another, the old result is lost."""
        for direction, name in enumerate(NAMES):
            for beta, code in ((0.0, native.GA_UNSUPPORTED_ERROR), (2.0, native.GA_RUN_ERROR)):
                convolution = Convolution(self.rng, images=(7, 4, 5 + int(beta), 6))
                self.fake.fake_fail(b"cudnnGetConvolution%sAlgorithm_v7" % name.encode(), NOT_SUPPORTED, 1)
                with self.assertRaisesRegex(native.DeviceError, "Algorithm_v7: .* of arrays with shapes") as caught:
                    self.convolve(convolution, direction, self.choice(GUESS, most=360), beta=beta)
                self.assertEqual(caught.exception.code, code)


class TestChoice(WithConvolutions):
    def setUp(self):
        super().setUp()
        self.dnn.workspace = 1 << 10

    def both(self, convolution, direction, choice, expected):
        """Compute twice. The second call chooses nothing."""
        self.convolve(convolution, direction, choice)
        self.assertEqual(self.algorithms(), [expected])
        self.convolve(convolution, direction, choice)
        calls = self.dnn_calls()
        self.assertEqual([call.split()[:2] for call in calls], [["cudnnConvolution" + NAMES[direction], str(expected)]])

    def test_names(self):
        plain = Convolution(self.rng)
        for direction, algorithms in (
            (FORWARD, (0, 1, 2, 4, 5, 6, 7)),
            (WEIGHTS, (0, 1, 2, 3, 5, 6)),
            (INPUTS, range(6)),
        ):
            for algorithm in algorithms:
                self.both(plain, direction, self.choice(algorithm), algorithm)

    def test_unsupported_algorithms(self):
        """Another algorithm replaces one that cannot compute the form."""
        strided, wide = Convolution(self.rng, stride=(2, 1)), Convolution(self.rng, kernels=(6, 4, 3, 2))
        for direction, algorithm, instead in ((FORWARD, 6, 2), (WEIGHTS, 2, 3), (INPUTS, 3, 1), (FORWARD, 3, 2)):
            self.both(strided, direction, self.choice(algorithm), instead)
        for direction, algorithm, instead in ((FORWARD, 7, 5), (WEIGHTS, 5, 6), (INPUTS, 4, 3)):
            self.both(wide, direction, self.choice(algorithm), instead)

    def test_heuristics(self):
        for direction, best in enumerate((7, 6, 5)):
            self.both(Convolution(self.rng), direction, self.choice(GUESS), best)
        for direction, best in enumerate((2, 3, 1)):
            self.both(Convolution(self.rng, stride=(2, 1)), direction, self.choice(GUESS), best)

    def test_measurements(self):
        """The library measures once for each form. The result that it overwrites is not lost."""
        for direction, best in enumerate((2, 2, 2)):
            for beta in (0.0, 1.0):
                convolution = Convolution(self.rng, images=(2, 4, 5, 6 + int(beta)))
                self.convolve(convolution, direction, self.choice(TIME), beta=beta)
                calls = self.dnn_calls()
                largest = 1024 * (COUNTS[direction] - 1)
                self.assertIn("cudnnFindConvolution%sAlgorithmEx %d" % (NAMES[direction], largest), calls)
                self.both(convolution, direction, self.choice(TIME), best)

    def test_measurements_without_memory(self):
        """The measurement gets the largest workspace for which there is memory."""
        self.dnn.workspace = 4 << 20
        for direction, name in enumerate(NAMES):
            self.state.capacity = 34 << 20
            self.convolve(Convolution(self.rng, images=(2, 4, 5, 7)), direction, self.choice(TIME))
            (call,) = self.calls_of("cudnnFindConvolution" + name)
            self.assertLess(int(call.split()[1]), 34 << 20)
            self.assertGreater(int(call.split()[1]), 0)
            self.state.capacity = 1 << 30

    def test_measurements_that_fail(self):
        """If the library cannot measure, its heuristics choose. Other errors are reported."""
        self.fake.fake_fail(b"cudnnFindConvolutionForwardAlgorithmEx", NOT_SUPPORTED, 0)
        self.convolve(Convolution(self.rng), choice=self.choice(TIME))
        self.assertEqual(self.algorithms(), [7])
        self.fake.fake_fail(b"cudnnFindConvolutionForwardAlgorithmEx", EXECUTION_FAILED, 0)
        convolution = Convolution(self.rng, images=(1, 4, 5, 6))
        with self.assertRaisesRegex(native.DeviceError, "^cudnnFindConvolutionForwardAlgorithmEx: CUDNN_STATUS_EXEC"):
            self.convolve(convolution, choice=self.choice(TIME))
        self.both(convolution, FORWARD, self.choice(TIME), 2)

    def test_first_choice(self):
        """A node may keep its first choice for all shapes. If it cannot compute another form, another replaces it."""
        for algorithm, best in ((GUESS, 7), (TIME, 2)):
            kept = c_int64()
            choice = self.choice(algorithm, kept=pointer(kept))
            self.both(Convolution(self.rng), FORWARD, choice, best)
            self.assertEqual(kept.value, best + 1)
            self.both(Convolution(self.rng, images=(1, 4, 8, 8)), FORWARD, choice, best)
            self.both(Convolution(self.rng, images=(1, 4, 8, 9), stride=(2, 1)), FORWARD, choice, 2)
            self.assertEqual(kept.value, best + 1)

    def test_first_choices_of_two_nodes(self):
        """A node keeps a choice that was made for another node. What it keeps is no choice for other nodes."""
        square, wide = Convolution(self.rng), Convolution(self.rng, kernels=(6, 4, 3, 2))
        for algorithm, best, second in ((GUESS, 7, 5), (TIME, 2, 2)):
            kept = c_int64()
            choice = self.choice(algorithm, kept=pointer(kept))
            self.convolve(square, FORWARD, self.choice(algorithm))
            self.convolve(square, FORWARD, choice)
            self.assertEqual(kept.value, best + 1)
            kept.value = 1
            self.convolve(wide, FORWARD, choice)
            self.algorithms()
            self.both(wide, FORWARD, self.choice(algorithm), second)

    def test_deterministic(self):
        strided = Convolution(self.rng, stride=(1, 2))
        for direction, plain, exact in ((WEIGHTS, 3, 1), (INPUTS, 1, 1), (FORWARD, 2, 2)):
            self.both(strided, direction, self.choice(GUESS), plain)
            self.both(strided, direction, self.choice(GUESS, True), exact)
        for direction, plain, exact in ((WEIGHTS, 3, 1), (INPUTS, 0, 1)):
            self.both(strided, direction, self.choice(TIME), plain)
            self.both(strided, direction, self.choice(TIME, True), exact)
        # The algorithm for the Fourier transform cannot compute strides. No algorithm that varies replaces it.
        self.both(strided, WEIGHTS, self.choice(2), 3)
        self.both(strided, WEIGHTS, self.choice(2, True), 1)
        self.both(strided, WEIGHTS, self.choice(2), 3)

    def test_no_deterministic_algorithm(self):
        convolution = Convolution(self.rng, images=(1, 2, 9, 9), kernels=(2, 2, 7, 2), stride=(2, 1))
        for direction, algorithm in itertools.product((WEIGHTS, INPUTS), (1, GUESS, TIME)):
            with self.assertRaisesRegex(
                native.DeviceError,
                r"^cuDNN has no deterministic algorithm for this form(: cudnnGetConv\w+: CUDNN_\w+ \(the reason\))?, in "
                r"the gradient of a convolution for its \w+ of arrays with shapes",
            ) as caught:
                self.convolve(convolution, direction, self.choice(algorithm, True))
            self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)
            self.convolve(convolution, direction, self.choice(algorithm))

    def test_no_memory(self):
        """A smaller algorithm is used, for this call only."""
        self.dnn.workspace = 8 << 20
        for direction, algorithm, smaller in ((FORWARD, 6, 2), (WEIGHTS, 6, 3), (INPUTS, 5, 3), (FORWARD, GUESS, 2)):
            convolution = Convolution(self.rng)
            self.state.capacity = 30 << 20
            self.convolve(convolution, direction, self.choice(algorithm))
            calls = [call.split() for call in self.calls()]
            self.assertEqual(
                [call[1] for call in calls if call[0] == "cudnnConvolution" + NAMES[direction]], [str(smaller)]
            )
            # Each attempt needs less memory. The pool is emptied and each request repeated once.
            asked = [int(call[1]) for call in calls if call[0] == "cuMemAlloc"]
            self.assertEqual(asked, sorted(asked, reverse=True))
            self.state.capacity = 1 << 30
            if algorithm != GUESS:
                self.convolve(convolution, direction, self.choice(algorithm))
                self.assertEqual(self.algorithms(), [algorithm])
        self.state.capacity = 6 << 20
        self.convolve(Convolution(self.rng), WEIGHTS, self.choice(6))
        self.assertEqual(self.algorithms(), [0])
        with self.assertRaisesRegex(native.DeviceError, "in the gradient of a convolution for its kernels of ar") as e:
            self.convolve(Convolution(self.rng), WEIGHTS, self.choice(6, True))
        self.assertEqual(e.exception.code, native.GA_MEMORY_ERROR)
        self.state.capacity = 1 << 30
        self.convolve(Convolution(self.rng), WEIGHTS, self.choice(6, True))
        self.assertEqual(self.algorithms(), [6])


class TestErrors(WithConvolutions):
    def test_failing_calls(self):
        """The message has the name, the status and the shapes. The next call works."""
        functions = [
            "cudnnCreateFilterDescriptor",
            "cudnnSetFilterNdDescriptor",
            "cudnnCreateConvolutionDescriptor",
            "cudnnSetConvolutionNdDescriptor",
            "cudnnSetConvolutionGroupCount",
            "cudnnSetConvolutionMathType",
        ]
        for direction, name in enumerate(NAMES):
            for i, function in enumerate(
                [
                    *functions,
                    "cudnnGetConvolution%sAlgorithm_v7" % name,
                    "cudnnGetConvolution%sWorkspaceSize" % name,
                    "cudnnConvolution%s" % name,
                ]
            ):
                # No descriptor of another case is kept for these shapes.
                convolution = Convolution(
                    self.rng,
                    images=(1, 6, 20, 20 + 10 * i),
                    kernels=(6, 6, 1 + direction, 1 + i),
                    stride=(1 + i, 1 + direction),
                )
                self.fake.fake_fail(function.encode(), EXECUTION_FAILED, 0)
                with self.assertRaisesRegex(
                    native.DeviceError,
                    r"^%s: CUDNN_STATUS_EXECUTION_FAILED \(the reason\), in (a convolution|the gradient of a convolution "
                    r"for its \w+) of arrays with shapes \(\d, \d, \d+, \d+\) float32, " % function,
                ) as caught:
                    self.convolve(convolution, direction, self.choice(GUESS))
                self.assertEqual(caught.exception.code, native.GA_RUN_ERROR)
                self.convolve(convolution, direction, self.choice(GUESS))

    def test_no_algorithm(self):
        """cuDNN does not convolve float32 arrays in float64."""
        for choice in (self.choice(0), self.choice(GUESS)):
            with self.assertRaisesRegex(native.DeviceError, "cudnnGetConvolutionForwardAlgorithm_v7: ") as caught:
                self.convolve(Convolution(self.rng, compute="float64"), choice=choice)
            self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)

    def test_large_numbers(self):
        convolution = Convolution(self.rng, images=(1, 1, 1, 1), kernels=(1, 1, 1, 1))
        x = Tensor(self, self.context, convolution.arrays[0])
        wide = Tensor(self, self.context, convolution.arrays[1])
        wide.tensor.dims[3] = 1 << 31
        arguments = self.context.pointer, FORWARD, byref(convolution.structure()), byref(self.choice(0)), 1.0
        with self.assertRaisesRegex(native.DeviceError, "cuDNN needs kernels with lengths of less than 2.31"):
            self.context.check(self.library.cudnn_convolve(*arguments, x.pointer, wide.pointer, 0.0, x.pointer))


if __name__ == "__main__":
    unittest.main()
