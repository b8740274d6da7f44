"""Tests of correlations on devices, compared with explicit sums and with the Ops for the host."""

import itertools
import pickle
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gpuarray import blas, corr
from theano_ng.gpuarray.kernels import correlation as kernels
from theano_ng.gpuarray.kernels.product import DTYPES, tiles
from theano_ng.gpuarray.tests.device import LAYOUTS, context, gpu_variable, other_context, placed
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.tensor.nnet.tests.test_corr import Case

FAMILY = {
    2: (corr.GpuCorrMM, corr.GpuCorrMM_gradWeights, corr.GpuCorrMM_gradInputs),
    3: (corr.GpuCorr3dMM, corr.GpuCorr3dMM_gradWeights, corr.GpuCorr3dMM_gradInputs),
}
# Sums of multiples of 1/16 are exact in float32 and float64.
TOLERANCE = {"float16": 1e-3, "float32": 0, "float64": 0}
MODES = ["valid", "full", "half", 1, (2, 0), ((1, 2), (0, 3)), (1, (2, 0))]


class Correlations(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.rng = np.random.RandomState(5)

    def function(self, case, kind, mode=None, **more):
        """Return a function of the Op for a case, see `Case`, on the device."""
        op = FAMILY[case.n][kind](**case.props)
        variables = [gpu_variable(a.dtype, a.ndim, self.name) for a in case.inputs(kind)]
        lengths = [(), (case.kernel,), (case.image,)][kind]
        return theano.function(variables, op(*variables, *lengths), mode=mode, **more)

    def check(self, case, kinds=range(3), layouts=("C",)):
        for kind in kinds:
            f, expected, tolerance = self.function(case, kind), case.compute(kind), TOLERANCE[case.dtype]
            for layout in layouts:
                result = f(*[placed(a, layout, self.name) for a in case.inputs(kind)])
                message = "%d %s %s %s" % (kind, case.props, case.dtype, layout)
                self.assertEqual((str(result.dtype), result.flags.c_contiguous), (case.dtype, True))
                np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=message)

    def check_all(self, image, kernel, modes, strides, dilations, **more):
        """Check all combinations of parameters. Each combination has the next dtype and the next memory layout."""
        turn = itertools.count()
        for mode, stride, dilation, groups in itertools.product(modes, strides, dilations, (1, 3)):
            dtype, layout = DTYPES[next(turn) % 3], LAYOUTS[next(turn) % 4]
            props = dict(border_mode=mode, subsample=stride, filter_dilation=dilation, num_groups=groups, **more)
            self.check(Case(self.rng, image, kernel, dtype=dtype, **props), layouts=(layout,))


class TestTable(Correlations):
    """All combinations of parameters give the expected results."""

    def test_two_dimensions(self):
        self.check_all((7, 9), (3, 2), MODES, [(1, 1), (2, 1), (3, 4)], [(1, 1), (2, 3)])

    def test_unshared(self):
        modes = ["valid", "full", "half", (1, (2, 0))]
        self.check_all((6, 7), (2, 3), modes, [(1, 1), (2, 3)], [(1, 1), (2, 1)], unshared=True)

    def test_three_dimensions(self):
        modes = ["valid", "full", "half", 1, (1, 0, 2)]
        self.check_all((5, 6, 4), (2, 3, 2), modes, [(1, 1, 1), (2, 1, 3)], [(1, 1, 1), (1, 2, 1)])

    def test_kernels_of_all_devices(self):
        """Each kernel computes results of any size, also the kernels for other devices than the one of the test."""
        ctx = get_context(self.name)
        sizes = (
            dict(image=(9, 40), kernel=(2, 3), batch=2, filters=5, channels=3),
            dict(image=(4, 5), kernel=(3, 3), batch=9, filters=70, channels=2, border_mode="full"),
            dict(image=(12, 13), kernel=(5, 4), batch=2, filters=2, channels=30, subsample=(2, 3)),
            dict(image=(5, 4), kernel=(3, 2), batch=3, filters=2, channels=2, unshared=True, border_mode="half"),
            dict(image=(6, 5, 7), kernel=(2, 2, 2), batch=3, filters=9, channels=2, num_groups=2),
        )
        # size of vectors (0: GPUs), index of the tile, dtype
        forms = [(0, 2, dtype) for dtype in DTYPES] + [(0, 0, "float32"), (0, 1, "float32")]
        if ctx.vector_bytes:  # vector types of OpenCL, not on CUDA
            forms += [(16, 0, "float64"), (16, 0, "float32"), (32, 0, "float16"), (64, 0, "float64")]
        for vector_bytes, which, dtype in forms:
            tile = tiles(dtype, vector_bytes)[which]
            with (
                mock.patch.object(kernels, "tiles", lambda *args, tile=tile: (tile,) * 3),
                self.subTest(tile=tile, dtype=dtype),
            ):
                for size in sizes:
                    self.check(Case(self.rng, dtype=dtype, **size), layouts=("strided",))

    def test_parts_of_sums(self):
        """Sums are divided among the processors. Halves are rounded once."""
        for dtype, on_gpu in itertools.product(DTYPES, (False, True)):
            with mock.patch.object(kernels, "_PROCESSORS", 5), self.subTest(dtype=dtype, on_gpu=on_gpu):
                given = get_context(self.name).vector_bytes if not on_gpu else 0
                with mock.patch.object(kernels, "tiles", lambda dtype, _, given=given: tiles(dtype, given)):
                    sizes = dict(batch=3, filters=2, channels=2, dtype=dtype)
                    self.check(Case(self.rng, (40, 70), (2, 3), **sizes), kinds=[1])
                    self.check(Case(self.rng, (10, 12), (9, 10), **dict(sizes, channels=50)), kinds=[0])
                    self.check(Case(self.rng, (6, 5), (5, 4), subsample=(2, 1), **dict(sizes, filters=900)), kinds=[2])

    def test_lines(self):
        """On processors, neighbouring taps read the same copy of a line, if lines are long."""
        for i, props in enumerate(
            (
                {},
                dict(border_mode="full"),
                dict(border_mode=(3, 5), filter_dilation=(2, 3)),
                dict(border_mode=((0, 9), (4, 0)), subsample=(2, 1)),
                dict(subsample=(1, 2)),
                dict(subsample=(2, 2), border_mode="half", num_groups=3),
            )
        ):
            for image, kernel in (((9, 40), (3, 4)), ((5, 90), (2, 30)), ((24, 50), (12, 12)), ((4, 33), (1, 2))):
                case = Case(self.rng, image, kernel, channels=3, filters=5, dtype=DTYPES[i % 3], **props)
                self.check(case, kinds=(0, 2), layouts=("C", "reversed") if i % 2 else ("strided",))

    def test_sums_of_halves(self):
        """float16 products are summed in float32: 2048 + 1 is not a float16 number."""
        case = Case(self.rng, (1, 64), (1, 64), batch=1, filters=1, channels=64, dtype="float16")
        case.x[:], case.w[:] = 1, 1
        case.x[0, 0, 0, 0] = 0
        self.check(case, kinds=[0])

    def test_without_elements(self):
        for empty in ("batch", "filters", "channels"):
            sizes = dict(batch=2, filters=2, channels=2)
            sizes[empty] = 0
            for more in ({}, {"subsample": (2, 2)}, {"unshared": True}):
                self.check(Case(self.rng, (5, 6), (2, 3), **sizes, **more))

    def test_lengths(self):
        """The lengths of a gradient may be omitted, constants or variables, on the host or on the device."""
        case = Case(self.rng, (7, 6), (3, 2), border_mode=(1, 0))
        for kind, lengths in ((1, case.kernel), (2, case.image)):
            op, expected = FAMILY[2][kind](**case.props), case.compute(kind)
            x, y = [gpu_variable("float64", 4) for _ in range(2)]
            v, i, j = T.lvector(), T.iscalar(), T.lscalar()
            values = [placed(a, "C") for a in case.inputs(kind)]
            on_device = gpu_variable("int64", 1)
            for inputs, result, more in (
                ([], op(x, y), []),
                ([v], op(x, y, v), [lengths]),
                ([i, j], op(x, y, (i, j)), lengths),
                ([i, j], op.make_node(x, y, i, j).outputs[0], lengths),
                ([on_device], op(x, y, on_device), [placed(np.array(lengths), "C")]),
            ):
                np.testing.assert_array_equal(theano.function([x, y, *inputs], result)(*values, *more), expected)
            with self.assertRaisesRegex(ValueError, "shape must be given if subsample"):
                FAMILY[2][kind](subsample=(2, 1))(x, y)

    def test_strides_larger_than_images(self):
        self.check(Case(self.rng, (7, 9), (2, 2), subsample=(6, 5)))
        self.check(Case(self.rng, (4, 4), (2, 3), subsample=(90, 70), filter_dilation=(2, 1)))

    def test_special_values(self):
        """NaN and infinity give the results of the host; padding is 0."""
        for props in ({}, {"border_mode": "full"}, {"subsample": (2, 2)}, {"unshared": True}):
            case = Case(self.rng, (6, 7), (3, 2), dtype="float32", **props)
            case.x[0, 1, 2, 3], case.x[1, 0, 0, 0], case.y[0, 0, 1, 1] = np.nan, np.inf, np.nan
            for kind in (0, 1):
                expected = case.function(kind, theano.Mode("cvm", None))(*case.inputs(kind))
                result = self.function(case, kind)(*[placed(a, "C") for a in case.inputs(kind)])
                np.testing.assert_allclose(result, expected, rtol=1e-5)


class TestErrors(Correlations):
    def test_shapes_that_do_not_fit(self):
        """The messages are those of the Ops for the host."""
        for n, kind, props, shapes in (
            (2, 0, {}, [(2, 3, 5, 5), (4, 2, 3, 3)]),
            (2, 0, {}, [(2, 3, 5, 5), (4, 3, 6, 3)]),
            (2, 0, {"num_groups": 2}, [(2, 4, 5, 5), (3, 2, 3, 3)]),
            (2, 0, {"unshared": True}, [(2, 3, 5, 5), (4, 2, 3, 3, 3, 3)]),
            (2, 1, {}, [(2, 3, 5, 5), (2, 4, 6, 6)]),
            (2, 1, {"subsample": (2, 2)}, [(2, 3, 5, 5), (2, 4, 2, 2), 3, 5]),
            (2, 1, {"subsample": (2, 2)}, [(2, 3, 5, 5), (2, 4, 2, 2), -3, 5]),
            (2, 1, {}, [(2, 3, 5, 5), (3, 4, 3, 3)]),
            (2, 2, {}, [(4, 3, 3, 3), (2, 5, 3, 3)]),
            (2, 2, {"subsample": (2, 2)}, [(4, 3, 3, 3), (2, 4, 3, 3), 3, 9]),
            (3, 0, {}, [(2, 3, 5, 5, 5), (4, 3, 3, 6, 3)]),
        ):
            ranks = [v for v in shapes if isinstance(v, tuple)]
            lengths, values = [T.lscalar() for _ in shapes[2:]], [np.ones(shape, "float32") for shape in ranks]
            op = FAMILY[n][kind](**props)
            variables = [gpu_variable("float32", len(shape)) for shape in ranks]
            hosts = [v.type.host_type()() for v in variables]
            inputs = [lengths] if lengths else []
            here = theano.function([*hosts, *lengths], op.host_op(None)(*hosts, *inputs))
            with self.subTest(op, shapes=shapes), self.assertRaises(ValueError) as expected:
                here(*values, *shapes[2:])
            message = str(expected.exception).split("\nApply node")[0]
            for mode in ("FAST_RUN", theano.Mode("py", None)):
                f = theano.function([*variables, *lengths], op(*variables, *inputs), mode=mode)
                with self.subTest(op, shapes=shapes, mode=str(mode)), self.assertRaises(ValueError) as found:
                    f(*[placed(v, "C") for v in values], *shapes[2:])
                self.assertEqual(str(found.exception).split("\nApply node")[0], message)

    def test_arguments(self):
        x, i, v = gpu_variable("float32", 4), gpu_variable("int32", 4), gpu_variable("float32", 3)
        for make, error, message in (
            (lambda: corr.GpuCorrMM("valid", (1, 1, 1)), ValueError, "subsample must have two elements"),
            (lambda: corr.GpuCorrMM("same"), ValueError, "invalid border_mode same"),
            (lambda: corr.GpuCorr3dMM((1, 1)), ValueError, "tuple of three"),
            (lambda: corr.GpuCorrMM(num_groups=0), ValueError, "Number of groups"),
            (lambda: corr.GpuCorrMM()(x, v), TypeError, "kern must be 4D tensor"),
            (lambda: corr.GpuCorrMM(unshared=True)(x, x), TypeError, "kern must be 6D tensor"),
            (lambda: corr.GpuCorrMM()(i, i), TypeError, "dtype must be one of .* got img: int32, kern: int32"),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                make()

    def test_contexts(self):
        """An input on another device is moved to the device of the other input."""
        case = Case(self.rng, (5, 6), (2, 3), dtype="float32")
        other = other_context(self)
        x, w = gpu_variable("float32", 4), gpu_variable("float32", 4, other)
        f = theano.function([x, w], corr.GpuCorrMM()(x, w))
        self.assertEqual(f.maker.fgraph.outputs[0].type.context_name, self.name)
        np.testing.assert_array_equal(f(placed(case.x, "C"), placed(case.w, "C", other)), case.compute(0))


class TestGraphs(Correlations):
    def test_documented_names(self):
        for name in corr.__all__:
            self.assertIs(getattr(blas, name), getattr(corr, name))

    def test_pickle_and_comparison(self):
        for op in (corr.GpuCorrMM(((1, 2), (0, 3)), (2, 1), (1, 2), 3, True), corr.GpuCorr3dMM_gradInputs("half")):
            again = pickle.loads(pickle.dumps(op))
            self.assertEqual((again, hash(again), str(again)), (op, hash(op), str(op)))
        self.assertNotEqual(corr.GpuCorrMM("full"), corr.GpuCorrMM())

    def test_dtypes(self):
        """Inputs of different dtypes are converted."""
        result = corr.GpuCorrMM()(gpu_variable("float32", 4), T.dtensor4())
        self.assertEqual((result.dtype, result.type.context_name), ("float64", self.name))

    def test_known_shapes(self):
        case = Case(self.rng, (9, 8), (3, 2), subsample=(2, 1), border_mode="half", num_groups=2)
        for kind in range(3):
            op, lengths = FAMILY[2][kind](**case.props), [(), (case.kernel,), (case.image,)][kind]
            variables = [gpu_variable("float64", 4) for _ in range(2)]
            f = theano.function(variables, op(*variables, *lengths).shape)
            self.assertFalse([n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, op.__class__)])
            shape = f(*[placed(a, "C") for a in case.inputs(kind)])
            np.testing.assert_array_equal(shape, case.compute(kind).shape)

    def test_broadcast_patterns(self):
        x = GpuArrayType("float32", (True, True, False, False), self.name)()
        w = GpuArrayType("float32", (False, True, False, False), self.name)()
        y = gpu_variable("float32", 4)
        self.assertEqual(corr.GpuCorrMM()(x, w).broadcastable, (True, False, False, False))
        self.assertEqual(corr.GpuCorrMM_gradWeights()(x, y).broadcastable, (False, True, False, False))
        self.assertEqual(corr.GpuCorrMM_gradInputs()(w, y).broadcastable, (False, True, False, False))

    def test_derivatives(self):
        for n, props in ((2, dict(subsample=(2, 1), border_mode="half")), (2, dict(unshared=True)), (3, {})):
            case = Case(self.rng, (4, 5, 3)[:n], (2, 3, 2)[:n], channels=1, **props)
            for kind in range(3):
                op, lengths = FAMILY[n][kind](**props), [(), (case.kernel,), (case.image,)][kind]

                def on_host(a, b, op=op, lengths=lengths):
                    return host_from_gpu(op(*[as_gpuarray_variable(v, self.name) for v in (a, b)], *lengths))

                with self.subTest(op):
                    a, b = case.inputs(kind)
                    theano.gradient.verify_grad(on_host, [a, b], rng=np.random.RandomState(3))
                    x, y = [T.TensorType("float64", (False,) * v.ndim)() for v in (a, b)]
                    f = theano.function([x, y], T.Rop(on_host(x, y), [x, y], [x, 2 * y]))
                    np.testing.assert_allclose(f(a, b), 3 * case.compute(kind), rtol=1e-12)

    def test_gradients_on_the_device(self):
        """The gradients of an Op are Ops on the device. The lengths have no gradient."""
        op = corr.GpuCorrMM_gradWeights(subsample=(2, 2))
        x, y, i = gpu_variable("float32", 4), gpu_variable("float32", 4), T.lscalar()
        node = op(x, y, (i, i)).owner
        found = op.grad(node.inputs, [gpu_variable("float32", 4)])
        classes = [type(v.owner.op) for v in found[:2]]
        self.assertEqual(classes, [corr.GpuCorrMM_gradInputs, corr.GpuCorrMM])
        self.assertTrue(all(isinstance(v.type, DisconnectedType) for v in found[2:]))
        self.assertEqual(op.connection_pattern(node), [[True], [True], [False], [False]])

    def test_flops(self):
        """Profiles count the operations of the Op for the host."""
        for op, shapes in (
            (corr.GpuCorrMM(), ([(2, 3, 9, 8), (4, 3, 2, 3)], [(2, 4, 8, 6)])),
            (corr.GpuCorr3dMM_gradInputs(), ([(4, 3, 2, 3, 1), (2, 4, 8, 6, 5)], [(2, 3, 9, 8, 5)])),
        ):
            self.assertEqual(op.flops(*shapes), op.host_op(None).flops(*shapes))
        self.assertEqual(corr.GpuCorrMM().flops([(2, 3, 9, 8), (4, 3, 2, 3)], [(2, 4, 8, 6)]), 2 * 384 * 18)

    def test_debug_mode(self):
        """Python code and kernels agree, for previous outputs of every kind."""
        case = Case(self.rng, (6, 5), (3, 2), dtype="float32", subsample=(2, 1), border_mode="half")
        for kind in range(3):
            f = self.function(case, kind, mode=get_mode("DebugMode"), accept_inplace=True)
            result = f(*[placed(a, "C") for a in case.inputs(kind)])
            np.testing.assert_array_equal(result, case.compute(kind))


class _OwnForward(corr.GpuCorrMM):
    """A correlation whose C code a user writes."""

    own_c_code = True

    def c_code(self, node, name, inputs, outputs, sub):
        return self.c_code_helper(inputs[0], inputs[1], outputs[0], "forward", sub)


class _OwnGradient(corr.GpuCorr3dMM_gradInputs):
    own_c_code = True

    def c_code(self, node, name, inputs, outputs, sub):
        kernels, top, *lengths = inputs
        return self.c_code_helper(outputs[0], kernels, top, "backprop inputs", sub, *lengths)


class TestCCode(Correlations):
    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_values(self):
        """C code of users, which calls the generated code, computes the results of the Op."""
        flat = Case(self.rng, (6, 7), (2, 3), dtype="float32", border_mode="half", num_groups=2)
        deep = Case(self.rng, (5, 4, 3), (2, 2, 1), dtype="float64", subsample=(2, 1, 1))
        for case, cls, kind, lengths in ((flat, _OwnForward, 0, ()), (deep, _OwnGradient, 2, (deep.image,))):
            op, variables = cls(**case.props), [gpu_variable(a.dtype, a.ndim) for a in case.inputs(kind)]
            for linker in ("c", "cvm"):
                f = theano.function(variables, op(*variables, *lengths), mode=theano.Mode(linker, None))
                with self.subTest(cls, linker=linker):
                    for _ in range(2):
                        result = f(*[placed(a, "strided") for a in case.inputs(kind)])
                        np.testing.assert_array_equal(result, case.compute(kind))
                    first, second = case.inputs(kind)
                    with self.assertRaisesRegex(ValueError, "(?s)Corr(3d)?MM.*top shape|same stack size"):
                        f(placed(first, "C"), placed(second[:, :1], "C"))

    def test_arguments(self):
        sub = {"fail": "goto fail;"}
        plain, strided, half = corr.GpuCorrMM(), corr.GpuCorrMM(subsample=(1, 2)), corr.GpuCorr3dMM("half")
        for op, direction, message in (
            (plain, "backward", "direction must be one of 'forward', .* got 'backward'"),
            (strided, "backprop inputs", "axis 1 must be given for direction 'backprop inputs'"),
            (half, "backprop weights", "axis 0 must be given .* border_mode is 'half'"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                op.c_code_helper("x", "w", "y", direction, sub)
        with self.assertRaisesRegex(ValueError, "axis 1 must be given .* another length"):
            plain.c_code_helper("x", "w", "y", "backprop weights", sub, "h")
        self.assertIn("GpuCorrMM_gradWeights", plain.c_code_helper("x", "w", "y", "backprop weights", sub))
        self.assertIn("GpuCorr3dMM_gradInputs", half.c_code_helper("x", "w", "y", "backprop inputs", sub))


if __name__ == "__main__":
    unittest.main()
