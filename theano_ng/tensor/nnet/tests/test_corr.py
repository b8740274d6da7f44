"""Correlation in two and three dimensions: the Ops, their gradients, and the native code for each instruction set."""

import itertools
import os
import pickle
import subprocess
import sys
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.tensor.nnet.convolution.convmm import ConvMM, ConvMM_gradInputs, ConvMM_gradWeights
from theano_ng.tensor.nnet.corr import BaseCorrMM, CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights
from theano_ng.tensor.nnet.corr_base import CorrBase

FAMILY = {2: (CorrMM, CorrMM_gradWeights, CorrMM_gradInputs), 3: (Corr3dMM, Corr3dMM_gradWeights, Corr3dMM_gradInputs)}
IN_PYTHON = theano.Mode("py", "fast_compile")
IN_C = theano.Mode("cvm", None)


class Case:
    """A correlation of random arrays with parameters, computed position by position.

    Parameters
    ----------
    image, kernel : tuples of int
        Lengths.
    """

    def __init__(self, rng, image, kernel, batch=2, filters=2, channels=2, dtype="float64", **props):
        self.n, self.props, self.dtype = len(image), props, dtype
        ones = (1,) * self.n
        self.stride, self.dilation = props.get("subsample", ones), props.get("filter_dilation", ones)
        groups, self.unshared = props.get("num_groups", 1), props.get("unshared", False)
        mode = props.get("border_mode", "valid")
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilation)]
        if isinstance(mode, str):
            pads = {"valid": [0] * self.n, "half": [e // 2 for e in extent], "full": [e - 1 for e in extent]}[mode]
        else:
            pads = [mode] * self.n if isinstance(mode, int) else mode
        self.pads = [pad if isinstance(pad, tuple) else (pad, pad) for pad in pads]
        self.top_lengths = tuple(
            (i + l + r - e) // s + 1 for i, (l, r), e, s in zip(image, self.pads, extent, self.stride)
        )
        self.groups, self.image, self.kernel = groups, tuple(image), tuple(kernel)
        regions = self.top_lengths if self.unshared else ()

        def numbers(*shape):
            # Multiples of 1/4, so that sums are exact in float32.
            return (rng.randint(-8, 9, shape) / 4).astype(dtype)

        self.x = numbers(batch, channels * groups, *image)
        self.w = numbers(filters * groups, *regions, channels, *kernel)
        self.y = numbers(batch, filters * groups, *self.top_lengths)

    def compute(self, kind):
        """Return the expected float64 result: the output (kind 0), or the gradient of the kernels (1) or images (2)."""
        x, w, y = (a.astype("float64") for a in (self.x, self.w, self.y))
        filters, channels = len(w) // self.groups, x.shape[1] // self.groups
        padded = np.pad(x, [(0, 0), (0, 0), *self.pads])
        top, g_weights, g_padded = np.zeros_like(y), np.zeros_like(w), np.zeros_like(padded)
        for at in itertools.product(*map(range, self.top_lengths)):
            pixels = [np.arange(k) * d + o * s for k, d, o, s in zip(self.kernel, self.dilation, at, self.stride)]
            for g in range(self.groups):
                f, c = np.arange(g * filters, (g + 1) * filters), np.arange(g * channels, (g + 1) * channels)
                met = np.ix_(np.arange(len(x)), c, *pixels)
                own = (f, *at) if self.unshared else (f,)
                here = (slice(None), f, *at)
                top[here] = np.tensordot(padded[met], w[own], (list(range(1, self.n + 2)),) * 2)
                g_weights[own] += np.tensordot(y[here], padded[met], (0, 0))
                g_padded[met] += np.tensordot(y[here], w[own], (1, 0))
        inside = tuple(slice(l, l + i) for (l, _), i in zip(self.pads, self.image))
        return (top, g_weights, g_padded[(Ellipsis, *inside)])[kind]

    def inputs(self, kind):
        return [(self.x, self.w), (self.x, self.y), (self.w, self.y)][kind]

    def function(self, kind, mode, **more):
        """Return a compiled function of the Op of this kind (see `compute`) with the arguments ``inputs(kind)``."""
        op = FAMILY[self.n][kind](**self.props, **more)
        variables = [T.TensorType(a.dtype, [False] * a.ndim)() for a in self.inputs(kind)]
        lengths = [(), (self.kernel,), (self.image,)][kind]
        return theano.function(variables, op(*variables, *lengths), mode=mode)

    def check(self, kind, mode=IN_C, **more):
        result, expected = self.function(kind, mode, **more)(*self.inputs(kind)), self.compute(kind)
        assert result.dtype == self.dtype and result.flags.c_contiguous
        tolerance = {"float16": 1e-3, "float32": 0, "float64": 0}[self.dtype]
        np.testing.assert_allclose(
            result, expected, rtol=tolerance, atol=tolerance, err_msg="%d %s" % (kind, self.props)
        )


class UsesInstructionSets(unittest.TestCase):
    def tearDown(self):
        CorrBase.isa = 0


class TestTable(UsesInstructionSets):
    """All combinations of parameters give the expected results, in C and in NumPy.

    Each combination has the next dtype of a cycle, and each computation the next instruction set.
    """

    def check(self, image, kernel, modes, strides, dilations, **more):
        rng, turn = np.random.RandomState(5), itertools.count()
        for mode, stride, dilation, groups in itertools.product(modes, strides, dilations, (1, 3)):
            case = Case(
                rng,
                image,
                kernel,
                dtype=("float32", "float64", "float16")[next(turn) % 3],
                border_mode=mode,
                subsample=stride,
                filter_dilation=dilation,
                num_groups=groups,
                **more,
            )
            for kind in range(3):
                CorrBase.isa = next(turn) % 3
                case.check(kind)
                if next(turn) % 5 == 0:
                    case.check(kind, IN_PYTHON)

    def test_two_dimensions(self):
        modes = ["valid", "full", "half", 1, (2, 0), ((1, 2), (0, 3)), (1, (2, 0))]
        self.check((7, 9), (3, 2), modes, [(1, 1), (2, 1), (3, 4)], [(1, 1), (2, 3)])

    def test_unshared(self):
        self.check(
            (6, 7), (2, 3), ["valid", "full", "half", (1, (2, 0))], [(1, 1), (2, 3)], [(1, 1), (2, 1)], unshared=True
        )

    def test_three_dimensions(self):
        self.check(
            (5, 6, 4),
            (2, 3, 1),
            ["valid", "full", "half", 1, (0, 2, 1)],
            [(1, 1, 1), (2, 1, 3)],
            [(1, 1, 1), (1, 2, 2)],
        )


class TestTiles(UsesInstructionSets):
    """Correlations with sizes that leave incomplete tiles, blocks and panels."""

    CASES = [
        # Tiles of several lines, many filters, more channels and taps than one block sums.
        dict(image=(9, 30), kernel=(3, 3), filters=21, channels=23, border_mode=1),
        dict(image=(6, 5), kernel=(3, 3), batch=9, filters=19, channels=24, border_mode="half"),
        dict(image=(7, 7), kernel=(2, 2), batch=5, filters=270, channels=3),
        dict(image=(5, 70), kernel=(1, 1), filters=9, channels=5),
        dict(image=(11, 13), kernel=(1, 1), filters=8, channels=3, subsample=(2, 2)),
        dict(image=(3, 300), kernel=(2, 3), filters=40, channels=2, batch=1),
        dict(image=(40, 40), kernel=(5, 5), filters=2, channels=1, batch=1, subsample=(3, 2)),
        dict(image=(24, 33), kernel=(3, 3), filters=1, channels=1, num_groups=5, border_mode=1),
        dict(image=(24, 35), kernel=(3, 3), filters=2, channels=1, num_groups=3, border_mode=1, subsample=(2, 2)),
        dict(image=(31, 29), kernel=(11, 11), filters=17, channels=3, subsample=(4, 4), batch=3),
        dict(image=(4, 9, 10), kernel=(3, 3, 3), filters=9, channels=8, border_mode=1),
        dict(image=(5, 17, 16), kernel=(1, 1, 1), filters=4, channels=3),
        # A stride longer than the kernel skips pixels. A stride longer than the image gives one output.
        dict(image=(17, 19), kernel=(2, 3), filters=3, channels=2, subsample=(5, 7)),
        dict(image=(6, 6), kernel=(3, 3), filters=3, channels=2, subsample=(100, 100), border_mode=2),
        # Numbers of filters that fill registers. The code processes the filters in one piece or in chunks. Some batches
        # have more images than one pass over the weights processes.
        dict(image=(7, 7), kernel=(3, 3), filters=32, channels=24, border_mode=1),
        dict(image=(7, 7), kernel=(3, 3), filters=144, channels=16, border_mode=1, batch=3),
        dict(image=(9, 11), kernel=(2, 2), filters=16, channels=64, batch=12),
        dict(image=(4, 4), kernel=(1, 1), filters=32, channels=208),
        dict(image=(7, 6), kernel=(3, 3), filters=32, channels=32, num_groups=2, subsample=(2, 2), border_mode=1),
        dict(image=(3, 5, 6), kernel=(2, 3, 3), filters=48, channels=16, border_mode=1, subsample=(1, 2, 2)),
        # Products that may be scattered (conv_engine.h): small images, full borders, strides, dilation, groups. One
        # kernel has more than FILTERS_AT_ONCE taps, so its products are not scattered.
        dict(image=(6, 7), kernel=(5, 5), filters=40, channels=21, batch=3),
        dict(image=(5, 6), kernel=(3, 4), filters=20, channels=40, border_mode="full", num_groups=2),
        dict(image=(8, 21), kernel=(5, 3), filters=70, channels=19, border_mode=(3, 1), filter_dilation=(2, 3)),
        dict(image=(12, 12), kernel=(8, 8), filters=33, channels=5, subsample=(3, 2), border_mode=((2, 0), 1)),
        dict(image=(19, 18), kernel=(18, 17), filters=40, channels=3),
        dict(image=(4, 6, 6), kernel=(3, 3, 3), filters=50, channels=11, border_mode="full"),
        # Strides of two, for which the C code separates the even and the odd pixels of a line. Some line lengths fill
        # registers, others do not.
        dict(image=(5, 39), kernel=(3, 3), filters=3, channels=2, subsample=(2, 2), border_mode=1),
        dict(image=(6, 24), kernel=(2, 2), filters=3, channels=2, subsample=(1, 2), border_mode=((1, 0), (3, 0))),
        dict(image=(4, 9, 11), kernel=(3, 3, 3), filters=17, channels=3, subsample=(2, 2, 2), border_mode=1),
        # Padding wider than the kernel.
        dict(image=(4, 5), kernel=(2, 2), filters=3, channels=2, border_mode=((5, 0), (0, 7)), subsample=(2, 1)),
    ]

    def test_every_instruction_set(self):
        rng = np.random.RandomState(8)
        for parameters in self.CASES:
            for dtype in ("float32", "float64"):
                case = Case(rng, dtype=dtype, **parameters)
                for kind in range(3):
                    expected = None
                    for CorrBase.isa in (0, 1, 2):
                        result = case.function(kind, IN_C)(*case.inputs(kind))
                        if expected is None:
                            expected = case.compute(kind)
                        np.testing.assert_array_equal(result, expected, err_msg="%s %d" % (parameters, kind))

    def test_the_best_instruction_set_is_taken(self):
        """By default, sums have the same bits as with the best instruction set of the processor.

        The rounding of sums depends on the number of parallel sums of an instruction set.
        """
        rng = np.random.RandomState(1)
        for parameters in (
            dict(image=(9, 30), kernel=(3, 3), filters=9, channels=8),
            dict(image=(40, 41), kernel=(3, 3), filters=1, channels=1, batch=1),
        ):
            case = Case(rng, dtype="float32", **parameters)
            case.x, case.w, case.y = [rng.randn(*a.shape).astype("float32") for a in (case.x, case.w, case.y)]
            for kind in range(3):
                results = []
                for CorrBase.isa in (0, 3):
                    results.append(case.function(kind, IN_C)(*case.inputs(kind)))
                np.testing.assert_array_equal(*results)

    def test_lines_of_every_length(self):
        """Correlations of lines of any length have the expected results, with zeros on both sides of the line.

        The last register of a line may be partly filled.
        """
        rng, settings = np.random.RandomState(4), dict(border_mode=((0, 0), (2, 5)), subsample=(1, 2))
        for dtype in ("float32", "float64"):
            functions = []
            for CorrBase.isa in (0, 1, 2):
                functions.append(Case(rng, (1, 2), (1, 2), dtype=dtype, **settings).function(0, IN_C))
            for width in range(1, 72):
                case = Case(rng, (2, width), (1, 2), 1, 3, 2, dtype, **settings)
                expected = case.compute(0)
                for isa, function in enumerate(functions):
                    np.testing.assert_array_equal(function(case.x, case.w), expected, err_msg=str((dtype, width, isa)))

    def test_planes_outside(self):
        """Products that are scattered to planes before the first plane or after the last plane are dropped."""
        for parameters in (
            dict(image=(4, 5, 5), kernel=(3, 4, 4), filters=40, channels=21, border_mode=(1, 0, 0)),
            dict(
                image=(4, 5, 3), kernel=(3, 4, 2), filters=34, channels=50, border_mode=(2, 0, 0), subsample=(2, 2, 2)
            ),
            dict(image=(2, 3, 3), kernel=(3, 3, 3), filters=50, channels=11, border_mode=(2, 1, 1)),
        ):
            case = Case(np.random.RandomState(2), dtype="float32", **parameters)
            for kind in (0, 2):
                expected = case.compute(kind)
                for CorrBase.isa in (0, 1, 2):
                    result = case.function(kind, IN_C)(*case.inputs(kind))
                    np.testing.assert_array_equal(result, expected, err_msg="%s %d" % (parameters, kind))

    def test_flipped_kernels(self):
        # The C code packs the kernels of these cases in three different ways: for registers that hold several filters,
        # without and with a stride, and for scattered products.
        for parameters in (
            dict(image=(7, 7), kernel=(3, 2), filters=32, channels=16, border_mode=1),
            dict(image=(8, 7), kernel=(3, 3), filters=32, channels=16, subsample=(2, 2)),
            dict(image=(5, 6), kernel=(3, 4), filters=20, channels=40, border_mode="full"),
        ):
            case = Case(np.random.RandomState(5), dtype="float32", **parameters)
            top, weights, image = (case.compute(kind) for kind in range(3))
            case.w = np.ascontiguousarray(case.w[:, :, ::-1, ::-1])
            for isa in (0, 1, 2):
                for kind, family in enumerate((ConvMM, ConvMM_gradWeights, ConvMM_gradInputs)):
                    CorrBase.isa, op = isa, family(**case.props)
                    a, b = T.ftensor4s(2)
                    lengths = [(), (case.kernel,), (case.image,)][kind]
                    result = theano.function([a, b], op(a, b, *lengths), mode=IN_C)(*case.inputs(kind))
                    np.testing.assert_array_equal(result, (top, weights[:, :, ::-1, ::-1], image)[kind])

    def test_scattered_products_of_three_dimensions(self):
        """Products that are scattered into the padding of any dimension are dropped."""
        rng = np.random.RandomState(8)
        for dtype, mode in (("float32", (1, 1, 0)), ("float64", (1, 2, 1))):
            case = Case(rng, (3, 5, 6), (2, 3, 3), filters=40, channels=8, border_mode=mode, dtype=dtype)
            for CorrBase.isa in (0, 1, 2):
                case.check(2)

    def test_nothing_beside_the_image_matters(self):
        # A sum must not include pixels that belong to no window, nor memory beyond the end of a tile's line.
        for image, kernel, stride in (((9, 10), (1, 1), (2, 3)), ((8, 21), (2, 2), (4, 4)), ((7, 33), (3, 3), (3, 5))):
            for filters in (1, 20):
                case = Case(np.random.RandomState(3), image, kernel, filters=filters, subsample=stride, dtype="float32")
                met = np.zeros(image, bool)
                for o in itertools.product(*map(range, case.top_lengths)):
                    met[tuple(slice(p * s, p * s + k) for p, s, k in zip(o, stride, kernel))] = True
                expected = case.compute(0), case.compute(1)
                case.x[:, :, ~met] = np.nan
                for kind in (0, 1):
                    np.testing.assert_array_equal(case.function(kind, IN_C)(*case.inputs(kind)), expected[kind])
        case = Case(np.random.RandomState(3), (5, 6), (3, 3), filters=9, border_mode=1, dtype="float32")
        expected = np.isnan(Case.compute(case, 0))
        case.x[0, 0, 2, 5] = np.nan
        result = case.function(0, IN_C)(*case.inputs(0))
        expected[0, :, 1:4, 4:] = True
        np.testing.assert_array_equal(np.isnan(result), expected)

    def test_float_sums_are_as_exact_as_plain_ones(self):
        rng = np.random.RandomState(2)
        x, w = rng.randn(2, 30, 12, 12).astype("float32"), rng.randn(20, 30, 3, 3).astype("float32")
        a, b = T.ftensor4s(2)
        result = theano.function([a, b], CorrMM()(a, b), mode=IN_C)(x, w)
        windows = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), (3, 3), (2, 3))
        exact = np.einsum("ncxykl,fckl->nfxy", windows, w.astype("float64"))
        scale = np.einsum("ncxykl,fckl->nfxy", abs(windows), abs(w.astype("float64")))
        self.assertLess((abs(result - exact) / scale).max(), 270 * 2.0**-24)

    def test_results_do_not_depend_on_threads(self):
        program = """
import hashlib
import numpy as np
import theano_ng as theano
from theano_ng.tensor.nnet.tests.test_corr import Case, IN_C
digest = hashlib.sha1()
for parameters in (
    dict(image=(20, 30), kernel=(3, 3), batch=1, filters=20, channels=17, border_mode=1),
    dict(image=(20, 30), kernel=(3, 3), batch=5, filters=9, channels=17),
    dict(image=(40, 40), kernel=(3, 3), batch=4, filters=1, channels=1, num_groups=24, border_mode=1),
    dict(image=(12, 13), kernel=(3, 3), batch=3, filters=9, channels=7, unshared=True),
    dict(image=(7, 7), kernel=(3, 3), batch=1, filters=144, channels=32, border_mode=1),
    dict(image=(7, 7), kernel=(3, 3), batch=5, filters=288, channels=32, border_mode=1),
    dict(image=(7, 8), kernel=(5, 5), batch=1, filters=60, channels=40),
    dict(image=(9, 8), kernel=(3, 3), batch=1, filters=40, channels=60, border_mode="full", num_groups=2),
):
    case = Case(np.random.RandomState(1), dtype="float32", **parameters)
    for name in "xwy":
        setattr(case, name, np.random.RandomState(2).randn(*getattr(case, name).shape).astype("float32"))
    for kind in range(3):
        digest.update(case.function(kind, IN_C, openmp=True)(*case.inputs(kind)).tobytes())
print(digest.hexdigest())
"""
        said = []
        for threads in "1", "3":
            run = subprocess.run(
                [sys.executable, "-c", program],
                env=dict(os.environ, OMP_NUM_THREADS=threads),
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            said.append(run.stdout)
        self.assertEqual(said[0], said[1])


class TestOddArrays(unittest.TestCase):
    def test_layouts(self):
        for n, image, kernel in ((2, (8, 9), (3, 2)), (3, (4, 5, 6), (2, 2, 3))):
            case = Case(
                np.random.RandomState(1), image, kernel, filters=3, border_mode=1, subsample=(2,) * n, dtype="float32"
            )
            for kind in range(3):
                f, expected = case.function(kind, IN_C), case.compute(kind)
                for change in (
                    np.asfortranarray,
                    lambda a: a[..., ::-1].copy()[..., ::-1],
                    lambda a: np.repeat(a, 2, axis=1)[:, ::2],
                    lambda a: a.astype(a.dtype.newbyteorder()),
                    self.misaligned,
                    self.readonly,
                ):
                    np.testing.assert_array_equal(f(*map(change, case.inputs(kind))), expected)

    @staticmethod
    def misaligned(a):
        memory = np.zeros(a.nbytes + 1, "uint8")[1:].view(a.dtype).reshape(a.shape)
        memory[...] = a
        return memory

    @staticmethod
    def readonly(a):
        a = a.copy()
        a.flags.writeable = False
        return a

    def test_outputs_are_written_again_and_shapes_may_change(self):
        a, b = T.ftensor4s(2)
        f = theano.function([a, b], CorrMM(border_mode="half")(a, b), mode=IN_C)
        for image in ((5, 5), (5, 5), (9, 40), (3, 3)):
            case = Case(np.random.RandomState(1), image, (3, 3), border_mode="half", dtype="float32")
            np.testing.assert_array_equal(f(case.x, case.w), case.compute(0))

    def test_empty(self):
        for mode in (IN_C, IN_PYTHON):
            for sizes in (dict(batch=0), dict(channels=0), dict(filters=0)):
                for more in ({}, dict(unshared=True), dict(border_mode=1, subsample=(2, 2))):
                    case = Case(np.random.RandomState(1), (5, 6), (3, 2), dtype="float32", **sizes, **more)
                    for kind in range(3):
                        case.check(kind, mode)

    def test_an_image_of_nothing_but_padding(self):
        case = Case(np.random.RandomState(1), (0, 3), (2, 2), border_mode=2, dtype="float32")
        for mode in (IN_C, IN_PYTHON):
            for kind in range(3):
                case.check(kind, mode)

    def test_debug_mode(self):
        # DebugMode compares C with Python, with every kind of output memory.
        for parameters in (
            dict(
                image=(7, 8),
                kernel=(3, 2),
                border_mode=((1, 0), 2),
                subsample=(2, 1),
                filter_dilation=(1, 2),
                num_groups=2,
            ),
            dict(image=(5, 6), kernel=(2, 2), unshared=True, border_mode="half"),
            dict(image=(3, 4, 5), kernel=(2, 3, 1), border_mode="full", filters=9),
        ):
            case = Case(np.random.RandomState(1), dtype="float32", **parameters)
            for kind in range(3):
                case.check(kind, theano.compile.DebugMode(optimizer=None, check_c_code=True, check_py_code=True))

    def test_integers_in_python(self):
        a, b = T.itensor4s(2)
        out = CorrMM()(a, b)
        self.assertEqual(out.dtype, "int32")
        x, w = np.arange(16, dtype="int32").reshape(1, 1, 4, 4), np.ones((1, 1, 2, 2), "int32")
        np.testing.assert_array_equal(
            theano.function([a, b], out, mode=IN_C)(x, w)[0, 0], [[10, 14, 18], [26, 30, 34], [42, 46, 50]]
        )


class TestErrors(unittest.TestCase):
    def refused(self, op, shapes, message, lengths=None, error=ValueError):
        """Check that C and Python raise the same error with the same message."""
        variables = [T.TensorType("float32", [False] * len(s))() for s in shapes]
        said = []
        for mode in (IN_C, IN_PYTHON):
            f = theano.function(variables, op(*variables, *(() if lengths is None else (lengths,))), mode=mode)
            with self.assertRaisesRegex(error, message) as caught:
                f(*[np.zeros(s, "float32") for s in shapes])
            said.append(str(caught.exception).split("\nApply node")[0])
        self.assertEqual(said[0], said[1])

    def test_forward(self):
        self.refused(
            CorrMM(),
            [(2, 3, 5, 5), (4, 2, 3, 3)],
            "CorrMM images and kernel must have the same stack size\n  bottom shape: 2 3 5 5\n  weight shape: 4 2 3 3",
        )
        self.refused(
            CorrMM(num_groups=2),
            [(2, 4, 5, 5), (3, 2, 3, 3)],
            "CorrMM the number of filters must be divisible by the number of groups",
        )
        self.refused(CorrMM(num_groups=2), [(2, 3, 5, 5), (4, 1, 3, 3)], "same stack size")
        for kernel, top in (((6, 3), "0 x 3"), ((3, 6), "3 x 0"), ((9, 3), "-3 x 3"), ((0, 3), "6 x 3")):
            self.refused(
                CorrMM(),
                [(2, 3, 5, 5), (4, 3, *kernel)],
                "CorrMM: impossible output shape\n  bottom shape: 2 x 3 x 5 x 5\n  weights shape: 4 x 3 x %d x %d\n  top shape: 2 x 4 x %s"
                % (*kernel, top),
            )
        self.refused(
            CorrMM(unshared=True),
            [(2, 3, 5, 5), (4, 2, 3, 3, 3, 3)],
            "CorrMM regions in kernel must match output regions:\n  bottom shape: 2 3 5 5\n"
            r"  weight shape: 4 2 3 3 3 3 \(expected 4 3 3 3 3 3\)\n  top shape\(calculated\): 2 4 3 3",
        )
        self.refused(Corr3dMM(), [(2, 3, 5, 5, 5), (4, 3, 6, 3, 3)], "Corr3dMM: impossible output shape")

    def test_gradients(self):
        self.refused(
            CorrMM_gradWeights(),
            [(2, 3, 5, 5), (3, 4, 3, 3)],
            "CorrMM shape inconsistency:\n  bottom shape: 2 3 5 5\n  weight shape: 4 3 3 3\n  top shape: 3 4 3 3 \\(expected 2 4 3 3\\)",
        )
        self.refused(
            CorrMM_gradWeights(), [(2, 3, 5, 5), (2, 4, 6, 3)], "CorrMM backprop wrt. weights: impossible output shape"
        )
        self.refused(CorrMM_gradWeights(subsample=(2, 2)), [(2, 3, 5, 5), (2, 4, 2, 2)], "shape inconsistency", (4, 4))
        self.refused(CorrMM_gradWeights(num_groups=2), [(2, 3, 5, 5), (2, 4, 3, 3)], "same stack size")
        self.refused(
            CorrMM_gradWeights(num_groups=2), [(2, 4, 5, 5), (2, 3, 3, 3)], "divisible by the number of groups"
        )
        self.refused(CorrMM_gradInputs(), [(4, 3, 3, 3), (2, 5, 3, 3)], r"top shape: 2 5 3 3 \(expected 2 4 3 3\)")
        self.refused(CorrMM_gradInputs(subsample=(2, 2)), [(4, 3, 3, 3), (2, 4, 2, 2)], "shape inconsistency", (7, 7))
        self.refused(
            CorrMM_gradInputs(subsample=(2, 2)), [(4, 3, 3, 3), (2, 4, 2, 2)], "impossible output shape", (-3, 7)
        )
        self.refused(
            CorrMM_gradInputs(border_mode=(4, 4)), [(4, 3, 3, 3), (2, 4, 3, 3)], "bottom shape: 2 x 3 x -3 x -3"
        )

    def test_sizes_beyond_counting(self):
        huge = 2**60
        for op, shapes in (
            (CorrMM(border_mode=(huge, huge)), [(1, 1, 3, 3), (1, 1, 2, 2)]),
            (CorrMM_gradInputs(subsample=(huge, huge)), [(1, 1, 3, 3), (1, 1, 2, 2)]),
            (CorrMM(border_mode=(2**31, 2**31)), [(4, 4, 3, 3), (4, 4, 2, 2)]),
        ):
            variables = T.ftensor4s(2)
            lengths = () if isinstance(op, CorrMM) else ((huge + 3, huge + 3),)
            f = theano.function(variables, op(*variables, *lengths), mode=IN_C)
            with self.assertRaises(MemoryError):
                f(*[np.zeros(s, "float32") for s in shapes])

    def test_parameters(self):
        for cls, n in ((CorrMM, 2), (Corr3dMM_gradInputs, 3)):
            for mode in ("same", -1, (1,) * (n + 1), (1,) * (n - 1) + (-1,), [1] * n, None, 1.5, ((1, 2, 3),) * n):
                with self.assertRaises(ValueError):
                    cls(border_mode=mode)
            for name in ("subsample", "filter_dilation"):
                for value, error in (
                    ((1,) * (n + 1), ValueError),
                    ((0,) * n, ValueError),
                    ((1.5,) * n, TypeError),
                    (2, TypeError),
                ):
                    with self.assertRaises(error):
                        cls(**{name: value})
            with self.assertRaisesRegex(ValueError, "Number of groups should be greater than 0"):
                cls(num_groups=0)

    def test_inputs(self):
        x, m = T.ftensor4(), T.fmatrix()
        for call, message in (
            (lambda: CorrMM()(m, x), "img must be 4D tensor"),
            (lambda: CorrMM()(x, m), "kern must be 4D tensor"),
            (lambda: CorrMM(unshared=True)(x, x), "kern must be 6D tensor"),
            (lambda: CorrMM_gradWeights()(x, m), "topgrad must be 4D tensor"),
            (lambda: Corr3dMM_gradInputs()(x, x), "kern must be 5D tensor"),
            (lambda: CorrMM_gradInputs()(x, x, (m, 2)), "scalar"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                call()
        for op in (CorrMM_gradWeights(subsample=(2, 1)), CorrMM_gradWeights(border_mode="half")):
            with self.assertRaisesRegex(
                ValueError, r'shape must be given if subsample != \(1, 1\) or border_mode == "half"'
            ):
                op(x, x)
        with self.assertRaisesRegex(ValueError, r"shape must be given if subsample != \(1, 1\)$"):
            CorrMM_gradInputs(subsample=(2, 1))(x, x)


class TestNodes(unittest.TestCase):
    def test_string_forms(self):
        self.assertEqual(str(CorrMM()), "CorrMM{valid, (1, 1), (1, 1), 1 False}")
        self.assertEqual(
            str(CorrMM_gradWeights(border_mode=(1, (2, 3)), subsample=(2, 1))),
            "CorrMM_gradWeights{((1, 1), (2, 3)), (2, 1), (1, 1), 1 False}",
        )
        self.assertEqual(
            str(Corr3dMM_gradInputs(border_mode=1, num_groups=3)),
            "Corr3dMM_gradInputs{(1, 1, 1), (1, 1, 1), (1, 1, 1), 3}",
        )

    def test_identity(self):
        self.assertEqual(CorrMM(border_mode=1), CorrMM(border_mode=((1, 1), 1), openmp=True))
        self.assertNotEqual(CorrMM(), CorrMM(unshared=True))
        self.assertNotEqual(CorrMM(), CorrMM_gradInputs())
        for op in (
            CorrMM(border_mode="half", subsample=(2, 3), num_groups=2, unshared=True),
            Corr3dMM(filter_dilation=(1, 2, 3)),
        ):
            self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        self.assertTrue(issubclass(CorrMM_gradInputs, BaseCorrMM))

    def test_types(self):
        x = T.TensorType("float32", [True, False, True, False])()
        k = T.TensorType("float64", [False, True, False, True])()
        out = CorrMM()(x, k)
        self.assertEqual((out.dtype, out.broadcastable), ("float64", (True, False, False, False)))
        self.assertEqual(CorrMM_gradWeights()(k, x).broadcastable, (False, True, False, False))
        self.assertEqual(CorrMM_gradInputs()(k, x).broadcastable, (True, True, False, False))
        self.assertEqual(CorrMM_gradInputs(num_groups=2)(k, x).broadcastable, (True, False, False, False))
        y = T.ftensor4()
        node = CorrMM_gradWeights(unshared=True)(y, y, [T.iscalar(), 3]).owner
        self.assertEqual([i.dtype for i in node.inputs], ["float32", "float32", "int64", "int64"])
        self.assertEqual(node.outputs[0].ndim, 6)
        self.assertEqual(node.op.make_node(*node.inputs).inputs, node.inputs)
        self.assertEqual(node.op.connection_pattern(node), [[True], [True], [False], [False]])

    def test_flops(self):
        # 4 filters at 3 x 3 positions of 2 images, with 3 channels and 3 x 3 taps each.
        shapes = (2, 3, 5, 5), (4, 3, 3, 3), (2, 4, 3, 3)
        for op, i, j, k in ((CorrMM(), 0, 1, 2), (CorrMM_gradWeights(), 0, 2, 1), (CorrMM_gradInputs(), 1, 2, 0)):
            self.assertEqual(op.flops([shapes[i], shapes[j]], [shapes[k]]), 2 * 2 * 4 * 9 * 27)

    def test_shapes_are_inferred(self):
        rng = np.random.RandomState(4)
        for n, parameters in (
            (2, dict()),
            (2, dict(border_mode="full", filter_dilation=(2, 1))),
            (2, dict(border_mode="half", subsample=(2, 3), num_groups=2)),
            (2, dict(border_mode=((1, 2), 0), unshared=True)),
            (3, dict(border_mode=(0, 1, 2), num_groups=3)),
            (3, dict(border_mode="half", subsample=(2, 1, 3))),
        ):
            case = Case(rng, (7, 8, 6)[:n], (3, 2, 2)[:n], filters=3, **parameters)
            for kind in range(3):
                given = case.props.get("subsample") is not None or (
                    kind == 1 and case.props.get("border_mode") == "half"
                )
                for lengths in (
                    ((case.kernel, case.image)[kind - 1],)
                    if given and kind
                    else (None, (case.kernel, case.image)[kind - 1])
                ):
                    if kind == 0 and lengths is not None:
                        continue
                    variables = [T.TensorType("float64", [False] * a.ndim)() for a in case.inputs(kind)]
                    out = FAMILY[n][kind](**parameters)(*variables, *(() if lengths is None else (lengths,)))
                    f = theano.function(variables, out.shape, mode=theano.Mode("py", "fast_run"))
                    self.assertNotIn(type(out.owner.op), {type(node.op) for node in f.maker.fgraph.toposort()})
                    self.assertEqual(tuple(f(*case.inputs(kind))), case.compute(kind).shape)


class TestDerivatives(unittest.TestCase):
    CASES = [
        (2, dict()),
        (2, dict(border_mode="half", subsample=(2, 1), filter_dilation=(1, 2))),
        (2, dict(border_mode=((1, 2), 0), num_groups=2)),
        (2, dict(border_mode=1, unshared=True, subsample=(2, 2))),
        (3, dict(border_mode="full", subsample=(1, 2, 1))),
    ]

    def test_finite_differences(self):
        rng = np.random.RandomState(6)
        for n, parameters in self.CASES:
            case = Case(rng, (5, 4, 3)[:n], (2, 3, 2)[:n], batch=1, **parameters)
            for kind in range(3):
                op, lengths = FAMILY[n][kind](**parameters), [(), (case.kernel,), (case.image,)][kind]
                T.verify_grad(lambda a, b: op(a, b, *lengths), case.inputs(kind), rng=rng, mode=IN_PYTHON)

    def test_three_are_adjoint(self):
        # <A(x, w), y> = <x, A'(w, y)> = <w, A''(x, y)>: the three Ops are adjoint, since the convolution is linear in x
        # and in w.
        for n, parameters in self.CASES:
            case = Case(np.random.RandomState(7), (6, 5, 4)[:n], (2, 3, 2)[:n], **parameters)
            top, weights, image = (case.function(kind, IN_C)(*case.inputs(kind)) for kind in range(3))
            self.assertEqual((top * case.y).sum(), (image * case.x).sum())
            self.assertEqual((top * case.y).sum(), (weights * case.w).sum())

    def test_forward_mode(self):
        rng = np.random.RandomState(9)
        for n, parameters in self.CASES:
            case = Case(rng, (6, 5, 4)[:n], (2, 3, 2)[:n], **parameters)
            for kind in range(3):
                op, lengths = FAMILY[n][kind](**parameters), [(), (case.kernel,), (case.image,)][kind]
                values = case.inputs(kind)
                variables = [T.TensorType("float64", [False] * a.ndim)() for a in values]
                directions = [T.TensorType("float64", [False] * a.ndim)() for a in values]
                out = op(*variables, *lengths)
                steps = [rng.randint(-4, 5, a.shape).astype("float64") for a in values]
                forward = theano.function([*variables, *directions], T.Rop(out, variables, directions), mode=IN_PYTHON)(
                    *values, *steps
                )
                function = theano.function(variables, out, mode=IN_PYTHON)
                # The Op is bilinear, so the directional derivative is exactly this difference.
                expected = (
                    function(*[a + s for a, s in zip(values, steps)])
                    - function(*[a - s for a, s in zip(values, steps)])
                ) / 2
                np.testing.assert_array_equal(forward, expected)

    def test_second_derivatives(self):
        x, w = T.dtensor4s(2)
        cost = (CorrMM(subsample=(2, 1), border_mode=1)(x, w) ** 2).sum()
        g = T.grad(cost, [x, w])
        second = T.grad((g[0] ** 2).sum() + (g[1] ** 2).sum(), [x, w])
        case = Case(np.random.RandomState(1), (4, 3), (2, 2), batch=1, channels=1)
        f = theano.function([x, w], [(g[0] ** 2).sum() + (g[1] ** 2).sum(), *second], mode=IN_PYTHON)
        _, dx, dw = f(case.x, case.w)
        step = 2.0**-12
        for i, (value, derivative) in enumerate(((case.x, dx), (case.w, dw))):
            change = np.zeros_like(value)
            change.flat[1] = step
            args = [[case.x, case.w], [case.x, case.w]]
            args[0][i], args[1][i] = value + change, value - change
            np.testing.assert_allclose((f(*args[0])[0] - f(*args[1])[0]) / (2 * step), derivative.flat[1], rtol=1e-5)

    def test_lengths_are_not_connected(self):
        x = T.dtensor4()
        rows, columns = T.lscalars(2)
        out = CorrMM_gradInputs()(x, x, (rows, columns))
        self.assertIsInstance(out.owner.op.L_op(out.owner.inputs, [out], [out])[2].type, DisconnectedType)

    def test_flags_of_broadcasting_are_kept(self):
        x = T.TensorType("float64", [True, False, True, False])()
        w = T.TensorType("float64", [False, False, True, False])()
        for wrt, gradient in zip((x, w), T.grad(CorrMM()(x, w).sum(), [x, w])):
            self.assertEqual(gradient.broadcastable, wrt.broadcastable)


if __name__ == "__main__":
    unittest.main()
