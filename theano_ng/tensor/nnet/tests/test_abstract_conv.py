"""Convolutions: values, gradients, shapes, errors, and the Ops that replace them in compiled graphs."""

import itertools
import pickle
import unittest
import warnings

import numpy as np
import scipy.signal

import theano_ng as theano
import theano_ng.tensor as T
import theano_ng.tensor.nnet.abstract_conv as conv
from theano_ng import config
from theano_ng.compile.mode import Mode, get_default_mode
from theano_ng.configparser import change_flags
from theano_ng.gradient import verify_grad
from theano_ng.tensor import nnet
from theano_ng.tensor.nnet import opt
from theano_ng.tensor.nnet.conv import ConvOp
from theano_ng.tensor.nnet.convolution import opt as convolution_opt
from theano_ng.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM
from theano_ng.tensor.nnet.tests.convolutions import Reference

SLOW = Mode("py", None)

# Each case: the shape of the images, the shape of the kernels, the parameters.
CASES_2D = [
    ((2, 2, 5, 6), (3, 2, 2, 3), {}),
    ((2, 2, 5, 6), (3, 2, 2, 3), {"filter_flip": False}),
    ((1, 2, 4, 3), (2, 2, 3, 2), {"border_mode": "full"}),
    ((2, 1, 5, 4), (1, 1, 3, 2), {"border_mode": "half", "subsample": (2, 1)}),
    ((2, 1, 5, 4), (1, 1, 2, 4), {"border_mode": "half", "filter_flip": False}),
    ((2, 2, 6, 7), (2, 2, 3, 2), {"border_mode": 1, "subsample": (3, 2)}),
    ((1, 2, 5, 5), (2, 2, 2, 2), {"border_mode": (2, 1), "filter_dilation": (2, 3)}),
    ((1, 1, 5, 4), (2, 1, 2, 3), {"border_mode": ((1, 2), 0), "subsample": (2, 1)}),
    ((1, 1, 5, 4), (2, 1, 2, 3), {"border_mode": (2, (0, 1)), "filter_flip": False}),
    ((1, 1, 4, 4), (2, 1, 3, 3), {"border_mode": ((3, 0), (1, 2)), "subsample": (1, 3)}),
    ((2, 4, 4, 5), (6, 2, 2, 2), {"num_groups": 2, "border_mode": "half"}),
    ((2, 3, 4, 5), (6, 1, 2, 3), {"num_groups": 3, "subsample": (2, 2), "filter_dilation": (1, 2)}),
    ((2, 2, 4, 5), (3, 3, 3, 2, 2, 3), {"unshared": True}),
    ((2, 2, 5, 5), (2, 3, 5, 1, 2, 1), {"unshared": True, "num_groups": 2, "subsample": (2, 1), "border_mode": (1, 0)}),
    (
        (1, 1, 4, 4),
        (2, 5, 4, 1, 2, 2),
        {"unshared": True, "border_mode": "half", "filter_dilation": (1, 2), "filter_flip": False},
    ),
]
CASES_3D = [
    ((2, 2, 3, 4, 3), (2, 2, 2, 3, 2), {}),
    ((1, 2, 3, 3, 4), (2, 2, 2, 2, 3), {"border_mode": "full", "filter_flip": False}),
    ((1, 1, 4, 3, 5), (2, 1, 3, 2, 2), {"border_mode": "half", "subsample": (2, 1, 3)}),
    ((1, 2, 3, 4, 4), (2, 1, 2, 2, 2), {"border_mode": (1, 0, 2), "filter_dilation": (2, 1, 3), "num_groups": 2}),
]


def operands(*shapes, dtype="float64"):
    """Return random arrays of small integers: sums of their products have no rounding errors."""
    random = np.random.RandomState(sum(map(sum, shapes)))
    return [random.randint(-4, 5, size=shape).astype(dtype) for shape in shapes]


def abstract(shapes, parameters, hints=False, dtype="float64"):
    """Return (variables, results).

    The variables are images, kernels and a gradient of the output. The results are the convolution and its gradients.
    """
    image, kernel = shapes
    n = len(image) - 2
    x, w, g = (T.TensorType(dtype, [False] * len(shape))() for shape in (image, kernel, image))
    forward, inputs, weights = (
        (conv.conv2d, conv.conv2d_grad_wrt_inputs, conv.conv2d_grad_wrt_weights)
        if n == 2
        else (conv.conv3d, conv.conv3d_grad_wrt_inputs, conv.conv3d_grad_wrt_weights)
    )
    known = {"input_shape": image, "filter_shape": kernel} if hints else {}
    some = (
        {}
        if hints
        else {"input_shape": (None, None, *image[2:]), "filter_shape": (*[None] * (len(kernel) - n), *kernel[-n:])}
    )
    results = [
        forward(x, w, **known, **parameters),
        inputs(g, w, **{**some, **known}, **parameters),
        weights(x, g, **{**some, **known}, **parameters),
    ]
    return [x, w, g], results


class TestRules(unittest.TestCase):
    def test_both_kinds_of_convolutions(self):
        """Each GEMM rule tracks two Ops: one for the dimensions (2 or 3) of the rule, one for any number of them."""
        for rule, names in (
            ("local_abstractconv_gemm", "AbstractConv2d AbstractConv"),
            ("local_abstractconv_gradweight_gemm", "AbstractConv2d_gradWeights AbstractConv_gradWeights"),
            ("local_abstractconv_gradinputs_gemm", "AbstractConv2d_gradInputs AbstractConv_gradInputs"),
            ("local_abstractconv3d_gemm", "AbstractConv3d AbstractConv"),
            ("local_abstractconv3d_gradweight_gemm", "AbstractConv3d_gradWeights AbstractConv_gradWeights"),
            ("local_abstractconv3d_gradinputs_gemm", "AbstractConv3d_gradInputs AbstractConv_gradInputs"),
        ):
            found = [cls.__name__ for cls in getattr(convolution_opt, rule).tracks()]
            self.assertEqual(found, names.split(), rule)


class TestValues(unittest.TestCase):
    def check(self, image, kernel, parameters, mode, hints=False, dtype="float64"):
        reference = Reference(image, kernel, **parameters)
        x, w, g = operands(image, kernel, reference.output, dtype=dtype)
        variables, results = abstract((image, kernel), parameters, hints, dtype)
        got = theano.function(variables, results, mode=mode)(x, w, g)
        expected = [reference.forward(x, w), reference.grad_inputs(w, g), reference.grad_weights(x, g)]
        for name, value, other in zip(("forward", "inputs", "weights"), got, expected):
            self.assertEqual(value.dtype, dtype)
            np.testing.assert_array_equal(value, other, err_msg="%s %s" % (name, parameters))

    def check_all(self, image, kernel, unshared, modes, strides, dilations):
        """Compare results for all combinations of parameters. Each combination has the next dtype of a cycle.

        `image` and `kernel` are tuples of lengths.
        """
        dtypes = itertools.cycle(("float32", "float64", "float16", "float32", "float64"))
        for mode, stride, dilation, groups, flip in itertools.product(modes, strides, dilations, (1, 2), (True, False)):
            parameters = dict(
                border_mode=mode, subsample=stride, filter_dilation=dilation, num_groups=groups, filter_flip=flip
            )
            images, kernels = (1, 2, *image), (2, 2 // groups, *kernel)
            if unshared:
                parameters["unshared"] = True
                top = conv.get_conv_output_shape(images, (2, 2, *kernel), mode, stride, dilation)
                kernels = (2, *top[2:], 2 // groups, *kernel)
            with self.subTest(**parameters):
                self.check(images, kernels, parameters, "FAST_RUN", dtype=next(dtypes))

    def test_all_combinations_in_two_dimensions(self):
        modes = "valid", "full", "half", 1, (0, 2), ((1, 0), (2, 1)), (1, (0, 2))
        self.check_all((5, 6), (2, 3), False, modes, [(1, 1), (2, 3)], [(1, 1), (2, 1)])

    def test_all_combinations_unshared(self):
        self.check_all((5, 6), (2, 3), True, ("valid", "half", (1, 0), ((0, 1), 2)), [(1, 1), (2, 3)], [(1, 1), (2, 1)])

    def test_all_combinations_in_three_dimensions(self):
        modes = "valid", "full", "half", (1, 0, 2)
        self.check_all((3, 5, 4), (2, 2, 3), False, modes, [(1, 1, 1), (2, 1, 2)], [(1, 1, 1), (1, 2, 1)])

    def test_compiled(self):
        for image, kernel, parameters in CASES_2D + CASES_3D:
            with self.subTest(image=image, kernel=kernel, **parameters):
                self.check(image, kernel, parameters, None)

    def test_not_rewritten(self):
        for image, kernel, parameters in CASES_2D + CASES_3D:
            with self.subTest(image=image, kernel=kernel, **parameters):
                self.check(image, kernel, parameters, SLOW)

    def test_with_shapes_that_are_given(self):
        for image, kernel, parameters in CASES_2D[::4] + CASES_3D[1:2]:
            flags = change_flags({"conv.assert_shape": True})
            with self.subTest(image=image, kernel=kernel, **parameters), flags:
                self.check(image, kernel, parameters, None, hints=True)

    def test_without_correlations(self):
        mode = get_default_mode().excluding("conv_gemm")
        for modes, flip in itertools.product(("valid", "full"), (True, False)):
            parameters = {"border_mode": modes, "filter_flip": flip}
            with self.subTest(**parameters):
                self.check((2, 2, 5, 4), (3, 2, 2, 3), parameters, mode)

    def test_like_scipy(self):
        x, w = operands((1, 1, 6, 7), (1, 1, 3, 2))
        images, kernels = T.dtensor4s(2)
        results = [
            nnet.conv2d(images, kernels, border_mode=mode, filter_flip=flip)
            for mode in ("valid", "full")
            for flip in (True, False)
        ]
        got = iter(theano.function([images, kernels], results)(x, w))
        for mode in ("valid", "full"):
            for function in (scipy.signal.convolve2d, scipy.signal.correlate2d):
                np.testing.assert_array_equal(next(got)[0, 0], function(x[0, 0], w[0, 0], mode))

    def test_dtypes(self):
        for dtype in ("float16", "float32", "int32", "complex128"):
            x, w = operands((2, 1, 4, 4), (2, 1, 2, 3), dtype=dtype)
            for mode in (None, SLOW):
                got = theano.function([], nnet.conv2d(T.constant(x), T.constant(w)), mode=mode)()
                self.assertEqual(got.dtype, dtype)
                np.testing.assert_array_equal(got, Reference(x.shape, w.shape).forward(x, w))

    def test_dtypes_are_joined(self):
        out = nnet.conv2d(T.ftensor4(), T.dtensor4())
        self.assertEqual(out.dtype, "float64")
        self.assertEqual(nnet.conv2d(T.TensorType("uint8", [False] * 4)(), T.ftensor4()).dtype, "float32")

    def test_empty(self):
        f = nnet.conv2d(T.constant(np.zeros((0, 1, 3, 3))), T.constant(np.ones((2, 1, 2, 2))))
        self.assertEqual(f.eval().shape, (0, 2, 2, 2))

    def test_odd_layouts(self):
        x, w = operands((2, 2, 6, 5), (3, 2, 2, 3))
        images, kernels = T.dtensor4s(2)
        f = theano.function([images, kernels], nnet.conv2d(images, kernels))
        want = Reference(x.shape, w.shape).forward(x, w)
        for a in (np.asfortranarray(x), x[:, :, ::-1].copy()[:, :, ::-1], x.astype(">f8").astype("<f8")):
            np.testing.assert_array_equal(f(a, np.asfortranarray(w)), want)


class TestGradients(unittest.TestCase):
    def test_of_convolutions(self):
        for image, kernel, parameters in [CASES_2D[i] for i in (0, 3, 7, 11, 13)] + CASES_3D[2:]:
            function = nnet.conv2d if len(image) == 4 else nnet.conv3d
            with self.subTest(image=image, kernel=kernel, **parameters):
                verify_grad(
                    lambda x, w: function(x, w, **parameters),
                    operands(image, kernel),
                    rng=np.random.RandomState(1),
                    mode="FAST_COMPILE",
                    eps=1e-4,
                )

    def test_of_gradients(self):
        """Second derivatives of convolutions agree with the reference."""
        for image, kernel, parameters in [CASES_2D[i] for i in (1, 7, 11, 12)] + CASES_3D[2:3]:
            reference = Reference(image, kernel, **parameters)
            x, w, g = operands(image, kernel, reference.output)
            n = len(image) - 2
            op = (conv.AbstractConv2d if n == 2 else conv.AbstractConv3d)(**parameters)
            inputs, weights = op.twin("backprop inputs"), op.twin("backprop weights")
            with self.subTest(image=image, kernel=kernel, **parameters):
                for function, values in (
                    (lambda w, g: inputs(w, g, T.constant(image[2:])), [w, g]),
                    (lambda x, g: weights(x, g, T.constant(kernel[-n:])), [x, g]),
                ):
                    verify_grad(function, values, rng=np.random.RandomState(1), mode="FAST_COMPILE", eps=1e-4)

    def test_forward_mode(self):
        image, kernel, parameters = CASES_2D[3]
        (x, w, g), results = abstract((image, kernel), parameters)
        reference = Reference(image, kernel, **parameters)
        values = operands(image, kernel, reference.output)
        directions = [v + 1 for v in operands(kernel, image)][::-1]
        dx, dw = T.dtensor4s(2)
        derivatives = (
            theano.Rop(results[0], [x, w], [dx, dw]),
            theano.Rop(results[2], x, dx),
            theano.Rop(results[1], w, dw),
        )
        got = theano.function([x, w, g, dx, dw], derivatives, mode="FAST_COMPILE")(*values, *directions)
        np.testing.assert_array_equal(
            got[0], reference.forward(directions[0], values[1]) + reference.forward(values[0], directions[1])
        )
        np.testing.assert_array_equal(got[1], reference.grad_weights(directions[0], values[2]))
        np.testing.assert_array_equal(got[2], reference.grad_inputs(directions[1], values[2]))

    def test_lengths_are_not_connected(self):
        op = conv.AbstractConv2d_gradInputs()
        node = op(T.tensor4(), T.tensor4(), T.lvector()).owner
        self.assertEqual(op.connection_pattern(node), [[True], [True], [False]])
        self.assertEqual(
            conv.AbstractConv2d().connection_pattern(nnet.conv2d(T.tensor4(), T.tensor4()).owner), [[True], [True]]
        )

    def test_broadcastable_operands(self):
        x, w = (
            T.TensorType("float64", (True, True, False, False))(),
            T.TensorType("float64", (True, True, False, True))(),
        )
        out = nnet.conv2d(x, w)
        self.assertEqual(out.broadcastable, (True, True, False, False))
        for gradient, variable in zip(T.grad(out.sum(), [x, w]), (x, w)):
            self.assertEqual(gradient.type, variable.type)


class TestGraphs(unittest.TestCase):
    def compiled(self, outputs, mode=None):
        inputs = [v for v in theano.gof.graph.inputs(outputs) if not isinstance(v, theano.Constant)]
        return [node.op for node in theano.function(inputs, outputs, mode=mode).maker.fgraph.toposort()]

    def test_correlations(self):
        x, w = T.dtensor4s(2)
        for flip in (True, False):
            out = nnet.conv2d(x, w, filter_flip=flip)
            for mode in (None, "FAST_COMPILE"):
                ops = self.compiled([out, *T.grad((out**2).sum(), [x, w])], mode)
                for cls in (CorrMM, CorrMM_gradInputs, CorrMM_gradWeights):
                    self.assertEqual(sum(isinstance(op, cls) for op in ops), 1)
                self.assertFalse(any(isinstance(op, conv.BaseAbstractConv) for op in ops))
                self.assertEqual([op.flip for op in ops if isinstance(op, CorrMM)], [flip])

    def test_correlations_in_three_dimensions(self):
        ops = self.compiled([nnet.conv3d(*T.dtensor5s(2))])
        self.assertEqual([isinstance(op, Corr3dMM) for op in ops], [True])

    def test_ops_for_any_number_of_dimensions(self):
        x, w = T.dtensor4s(2)
        out = conv.AbstractConv(2)(x, w)
        ops = self.compiled([out, *T.grad((out**2).sum(), [x, w])])
        self.assertFalse(any(isinstance(op, conv.BaseAbstractConv) for op in ops))
        self.assertEqual(
            [isinstance(op, Corr3dMM) for op in self.compiled([conv.AbstractConv(3)(*T.dtensor5s(2))])], [True]
        )

    def test_the_classic_op(self):
        mode = get_default_mode().excluding("conv_gemm")
        ops = self.compiled([nnet.conv2d(*T.dtensor4s(2))], mode)
        self.assertEqual([isinstance(op, ConvOp) for op in ops], [True])

    def test_nothing_implements_it(self):
        mode = get_default_mode().excluding("conv_gemm")
        for out in (
            nnet.conv2d(*T.dtensor4s(2), num_groups=2),
            nnet.conv2d(*T.dtensor4s(2), border_mode="half"),
            nnet.conv3d(*T.dtensor5s(2)),
        ):
            with self.assertRaisesRegex(AssertionError, "no implementation available.*conv_gemm"):
                self.compiled([out], mode)

    def test_gradients_of_the_classic_op(self):
        """Without the GEMM rules, ConvOp computes the gradients of convolutions.

        ConvOp has no gradients for strides, dilation, groups or numeric padding: compilation raises an error.
        """
        mode = get_default_mode().excluding("conv_gemm")
        rng = np.random.RandomState(4)
        images, kernels = rng.rand(2, 3, 6, 7), rng.rand(4, 3, 2, 3)
        x, w, top = T.dtensor4s(3)
        for border, flip in itertools.product(("valid", "full"), (True, False)):
            settings = dict(border_mode=border, filter_flip=flip)
            tops = nnet.conv2d(images, kernels, **settings).eval()
            gradients = (
                conv.AbstractConv2d_gradWeights(**settings)(x, top, T.constant(kernels.shape[2:])),
                conv.AbstractConv2d_gradInputs(**settings)(w, top, T.constant(images.shape[2:])),
            )
            classic, usual = (theano.function([x, w, top], gradients, mode=m) for m in (mode, None))
            ops = [type(node.op) for node in classic.maker.fgraph.apply_nodes]
            self.assertEqual(ops.count(ConvOp), 2)
            for got, want in zip(classic(images, kernels, tops), usual(images, kernels, tops)):
                np.testing.assert_allclose(got, want, rtol=1e-10)
        for settings in (
            dict(subsample=(2, 1)),
            dict(subsample=(1, 2)),
            dict(subsample=(2, 2), border_mode="full"),
            dict(filter_dilation=(1, 2)),
            dict(border_mode=(1, 1)),
            dict(num_groups=2),
        ):
            for out in (
                conv.AbstractConv2d_gradWeights(**settings)(x, top, T.constant((2, 3))),
                conv.AbstractConv2d_gradInputs(**settings)(w, top, T.constant((6, 7))),
            ):
                with self.assertRaisesRegex(AssertionError, "no implementation available.*conv_gemm"):
                    self.compiled([out], mode)

    def test_the_rules_are_where_they_were(self):
        names = "gemm gradweight_gemm gradinputs_gemm".split()
        names = ["local_abstractconv%s_%s" % (n, name) for n in ("", "3d") for name in names]
        names += ["local_conv2d_cpu", "local_conv2d_gradweight_cpu", "local_conv2d_gradinputs_cpu"]
        self.assertEqual([rule.__name__ for rule in opt.conv_groupopt.query("+fast_compile").opts], names)
        self.assertIn(opt.conv_groupopt, theano.compile.optdb["specialize_device"].__db__["conv_opts"])
        self.assertEqual(theano.compile.optdb.__position__["AbstractConvCheck"], 48.7)

    def test_not_folded(self):
        """Constant folding does not compute convolutions of constants.

        Only the Op that replaces the convolution computes them.
        """
        out = nnet.conv2d(T.constant(np.ones((1, 1, 3, 3))), T.constant(np.ones((1, 1, 2, 2))))
        self.assertFalse(out.owner.op.do_constant_folding(out.owner))

    def test_shape_without_the_convolution(self):
        x, w = T.dtensor4s(2)
        for mode in ("valid", "half", "full"):
            out = nnet.conv2d(x, w, border_mode=mode, subsample=(2, 1))
            f = theano.function([x, w], out.shape)
            self.assertFalse(any(isinstance(node.op, CorrMM) for node in f.maker.fgraph.toposort()))
            reference = Reference((2, 2, 4, 6), (3, 2, 2, 3), mode, (2, 1))
            self.assertEqual(tuple(f(*operands((2, 2, 4, 6), (3, 2, 2, 3)))), reference.output)
        f = theano.function([x, w], nnet.conv2d(x, w).shape)
        with self.assertRaisesRegex(AssertionError, r"invalid shape \(dim\[2\] <= 0\)"):
            f(*operands((1, 1, 2, 2), (1, 1, 3, 2)))

    def test_shapes_that_are_given_are_used(self):
        x, w = T.dtensor4s(2)
        out = nnet.conv2d(x, w, (4, 2, 5, 6), (3, 2, 2, 3))
        f = theano.function([x, w], out.shape, on_unused_input="ignore")
        self.assertEqual([type(node.op).__name__ for node in f.maker.fgraph.toposort()], ["DeepCopyOp"])
        self.assertEqual(tuple(f(*operands((4, 2, 5, 6), (3, 2, 2, 3)))), (4, 3, 4, 4))

    def test_pickle(self):
        op = conv.AbstractConv2d((None, 1, 5, 5), None, ((1, 2), 0), (2, 1), False, (1, 2), 1, False)
        for protocol in (0, 2, 4):
            other = pickle.loads(pickle.dumps(op, protocol))
            self.assertEqual((other, hash(other)), (op, hash(op)))
        self.assertNotEqual(op, op.twin("backprop inputs"))

    def test_string(self):
        self.assertEqual(
            str(conv.AbstractConv2d()),
            "AbstractConv2d{convdim=2, border_mode='valid', subsample=(1, 1), filter_flip=True, imshp=(None, None, None, None), "
            "kshp=(None, None, None, None), filter_dilation=(1, 1), num_groups=1, unshared=False}",
        )

    def test_flops(self):
        self.assertEqual(conv.AbstractConv2d().flops([(2, 3, 10, 10), (4, 3, 3, 3)], [(2, 4, 8, 8)]), 27648)
        op = conv.AbstractConv2d(num_groups=3)
        self.assertEqual(op.flops([(2, 3, 10, 10), (6, 1, 3, 3)], [(2, 6, 8, 8)]), 2 * 2 * 6 * 64 * 9)
        self.assertEqual(
            op.twin("backprop inputs").flops([(6, 1, 3, 3), (2, 6, 8, 8), (2,)], [(2, 3, 10, 10)]), 2 * 2 * 6 * 64 * 9
        )


class TestParameters(unittest.TestCase):
    def test_border_modes(self):
        for mode, kept in [
            (0, "valid"),
            (1, (1, 1)),
            (np.int64(2), (2, 2)),
            ((0, 0), "valid"),
            ((1, 2), (1, 2)),
            (((1, 2), 3), ((1, 2), 3)),
            ((1, (2, 2)), (1, 2)),
            ("half", "half"),
        ]:
            self.assertEqual(conv.AbstractConv2d(border_mode=mode).border_mode, kept)
        self.assertEqual(conv.AbstractConv3d(border_mode=(1, 2, 3)).border_mode, (1, 2, 3))
        for mode, message in [
            ("foo", 'must be either "valid", "full", "half", an integer or a tuple of length 2'),
            (None, "must be either"),
            (1.5, "must be either"),
            ([1, 2], "must be either"),
            (-1, "non-negative"),
            ((1,), "tuple of length 2"),
            ((1, 2, 3), "tuple of length 2"),
            (((1, 2, 3), 1), "integers or pairs of integers"),
            ((-1, 1), "integers or pairs of integers"),
            ((1, T.iscalar()), "integers or pairs of integers"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                conv.AbstractConv2d(border_mode=mode)
        with self.assertRaisesRegex(ValueError, "for 2 dimensions"):
            conv.AbstractConv3d(border_mode=(1, 2, (3, 4)))

    def test_steps(self):
        self.assertEqual(conv.AbstractConv(3).subsample, (1, 1, 1))
        self.assertEqual(conv.AbstractConv2d(subsample=[2, np.int8(3)]).subsample, (2, 3))
        for name in ("subsample", "filter_dilation"):
            for value, error in [
                ((1,), ValueError),
                ((0, 1), ValueError),
                ((1, -1), ValueError),
                ((1.5, 1), TypeError),
            ]:
                with self.assertRaisesRegex(error, name):
                    conv.AbstractConv2d(**{name: value})

    def test_other_parameters(self):
        with self.assertRaisesRegex(ValueError, "dimension 4"):
            conv.AbstractConv(4)
        with self.assertRaisesRegex(ValueError, "unshared"):
            conv.AbstractConv(3, unshared=True)
        for groups in (0, -1, 1.5):
            with self.assertRaisesRegex(ValueError, "num_groups"):
                conv.AbstractConv2d(num_groups=groups)

    def test_shapes(self):
        op = conv.AbstractConv2d((T.constant(1), None, np.int64(5), 3), unshared=True, kshp=(4, 1, 2, 2))
        self.assertEqual(op.imshp, (1, None, 5, 3))
        self.assertEqual(op.kshp, (4, None, None, 1, 2, 2))
        for bad in ((1, 2, 3), (1, 2, T.iscalar(), 3), (1.5, 1, 1, 1), (-1, 1, 1, 1)):
            for name in ("imshp", "kshp"):
                with self.assertRaisesRegex(ValueError, name):
                    conv.AbstractConv2d(**{name: bad})

    def test_ranks(self):
        x, w, m = T.tensor4(), T.tensor4(), T.matrix()
        for build, message in [
            (lambda: nnet.conv2d(m, w), "img must be 4D tensor"),
            (lambda: nnet.conv2d(x, m), "kern must be 4D tensor"),
            (lambda: nnet.conv2d(x, w, unshared=True), "kern must be 6D tensor for unshared convolution"),
            (lambda: nnet.conv3d(x, w), "img must be 5D tensor"),
            (lambda: conv.conv2d_grad_wrt_inputs(m, w, (1, 1, 5, 5)), "topgrad must be 4D tensor"),
            (lambda: conv.AbstractConv2d_gradInputs()(w, x, T.vector()), "vector of 2 integers"),
        ]:
            with self.assertRaisesRegex(TypeError, message):
                build()

    def test_arguments_of_earlier_versions(self):
        x, w = T.tensor4s(2)
        with self.assertWarnsRegex(UserWarning, "renamed to `input_shape`"):
            out = nnet.conv2d(x, w, image_shape=(1, 1, 5, 5))
        self.assertEqual(out.owner.op.imshp, (1, 1, 5, 5))
        with self.assertWarnsRegex(UserWarning, "'foo'.*will be ignored"):
            nnet.conv2d(x, w, foo=3)
        with self.assertRaisesRegex(ValueError, "at the same time"), warnings.catch_warnings(record=True):
            nnet.conv2d(x, w, input_shape=(1, 1, 5, 5), image_shape=(1, 1, 5, 5))
        with self.assertRaisesRegex(ValueError, "imshp_logical"):
            nnet.conv2d(x, w, imshp_logical=(3,))

    def test_shapes_of_gradients(self):
        g, w = T.tensor4s(2)
        self.assertEqual(
            conv.conv2d_grad_wrt_inputs(g, w, (2, None, 5, T.iscalar())).owner.op.imshp, (2, None, 5, None)
        )
        for shape in (
            (None, None, None, 5),
            (9, 9),
            (T.iscalar(), None, 5, 5),
            (None, None, 5.5, 5),
            (None, None, 5, T.scalar()),
        ):
            with self.assertRaisesRegex(ValueError, "input_shape"):
                conv.conv2d_grad_wrt_inputs(g, w, shape)
        with self.assertRaisesRegex(ValueError, "input_shape must be given"):
            conv.conv2d_grad_wrt_inputs(g, w, None, subsample=(2, 1))
        with self.assertRaisesRegex(ValueError, "filter_shape"):
            conv.conv2d_grad_wrt_weights(g, w, (None, None, None, 5))

    def test_images_of_a_shape_that_follows(self):
        w, g = operands((2, 1, 3, 2), (1, 2, 4, 4))
        got = conv.conv2d_grad_wrt_inputs(T.constant(g), T.constant(w), None, border_mode=(1, 0)).eval()
        np.testing.assert_array_equal(got, Reference((1, 1, 4, 5), w.shape, (1, 0)).grad_inputs(w, g))


class TestErrors(unittest.TestCase):
    """The abstract Op and the Ops that replace it refuse shapes that do not match; the message contains the shapes."""

    def check(self, shapes, message, out, variables):
        for mode in (None, SLOW):
            f = theano.function(variables, out, mode=mode)
            with self.assertRaisesRegex(ValueError, message):
                f(*operands(*shapes))

    def test_channels(self):
        x, w = T.dtensor4s(2)
        both = r"(?s)1 2 3 3.*1 3 2 2"
        self.check([(1, 2, 3, 3), (1, 3, 2, 2)], both, nnet.conv2d(x, w), [x, w])
        self.check(
            [(1, 3, 3, 3), (2, 2, 2, 2)], r"(?s)1 3 3 3.*2 2 2 2.*groups: 2", nnet.conv2d(x, w, num_groups=2), [x, w]
        )

    def test_kernels_larger_than_images(self):
        x, w = T.dtensor4s(2)
        self.check([(1, 1, 3, 3), (1, 1, 4, 4)], r"(?s)1 x 1 x 3 x 3.*1 x 1 x 4 x 4", nnet.conv2d(x, w), [x, w])
        f = theano.function([x, w], nnet.conv2d(x, w, border_mode=(1, 1)))
        self.assertEqual(f(*operands((1, 1, 3, 3), (1, 1, 4, 4))).shape, (1, 1, 2, 2))

    def test_images_that_make_another_output(self):
        g, w = T.dtensor4s(2)
        out = conv.conv2d_grad_wrt_inputs(g, w, (None, None, 4, 4))
        self.check([(1, 1, 2, 2), (1, 1, 2, 2)], r"(?s)1 1 2 2 \(expected 1 1 3 3\)", out, [g, w])

    def test_kernels_that_make_another_output(self):
        x, g = T.dtensor4s(2)
        out = conv.conv2d_grad_wrt_weights(x, g, (None, None, 2, 2))
        self.check([(1, 1, 4, 4), (1, 1, 2, 2)], r"(?s)1 1 2 2 \(expected 1 1 3 3\)", out, [x, g])
        self.check([(1, 1, 4, 4), (2, 1, 3, 3)], "2 1 3 3", out, [x, g])

    def test_positions(self):
        x, w = T.dtensor4(), T.TensorType("float64", [False] * 6)()
        self.check(
            [(1, 1, 3, 3), (2, 3, 2, 1, 2, 2)],
            "regions in kernel must match output",
            nnet.conv2d(x, w, unshared=True),
            [x, w],
        )

    def test_shapes_that_were_given(self):
        x, w, g = T.dtensor4s(3)
        with change_flags({"conv.assert_shape": True}):
            out = nnet.conv2d(x, w, (None, 1, 4, 3), (1, 1, 2, 2))
            inputs = conv.conv2d_grad_wrt_inputs(g, w, (None, None, 3, 3), (1, 1, 2, 3))
            weights = conv.conv2d_grad_wrt_weights(x, g, (None, None, 2, 2), (1, 1, 3, 4))
        images, kernels, gradients = operands((1, 1, 3, 3), (1, 1, 2, 2), (1, 1, 2, 2))
        for result, variables, values, message in [
            (
                out,
                [x, w],
                [images, kernels],
                r"AbstractConv shape mismatch: shape of image does not match given imshp: \(None, 1, 4, 3\)",
            ),
            (
                inputs,
                [g, w],
                [gradients, kernels],
                "AbstractConv_gradInputs shape mismatch: shape of filters does not match given kshp",
            ),
            (
                weights,
                [x, g],
                [images, gradients],
                "AbstractConv_gradWeights shape mismatch: shape of image does not match given imshp",
            ),
        ]:
            with self.assertRaisesRegex(AssertionError, message):
                theano.function(variables, result, mode="FAST_COMPILE")(*values)


class TestShapeFunctions(unittest.TestCase):
    def test_one_axis(self):
        """The output length equals the number of positions at which the kernel lies inside the padded image."""
        for image, kernel, mode, stride, dilation in itertools.product(
            (4, 7), (1, 2, 3), ("valid", "half", "full", 2, (1, 2)), (1, 2, 3), (1, 2)
        ):
            extent = 1 + dilation * (kernel - 1)
            before, after = {"valid": (0, 0), "half": (extent // 2,) * 2, "full": (extent - 1,) * 2, 2: (2, 2)}.get(
                mode, mode
            )
            positions = len(
                [p for p in range(0, image + before + after, stride) if p + extent <= image + before + after]
            )
            self.assertEqual(conv.get_conv_shape_1axis(image, kernel, mode, stride, dilation), positions)
            back = conv.get_conv_gradinputs_shape_1axis(kernel, positions, mode, stride, dilation)
            self.assertEqual(back, image if stride == 1 else None)
            back = conv.get_conv_gradweights_shape_1axis(image, positions, mode, stride, dilation)
            self.assertEqual(back, kernel if stride == 1 and mode != "half" else None)

    def test_all_axes(self):
        for image, kernel, parameters in CASES_2D + CASES_3D:
            output = Reference(image, kernel, **parameters).output
            n = len(image) - 2
            arguments = (
                parameters.get("border_mode", "valid"),
                parameters.get("subsample", (1,) * n),
                parameters.get("filter_dilation"),
            )
            groups, unshared = parameters.get("num_groups", 1), parameters.get("unshared", False)
            self.assertEqual(conv.get_conv_output_shape(image, kernel, *arguments), output)
            self.assertTrue(conv.check_conv_gradinputs_shape(image, kernel, output, *arguments))
            self.assertFalse(
                conv.check_conv_gradinputs_shape(image, kernel, (*output[:-1], output[-1] + 1), *arguments)
            )
            known = [s == 1 for s in arguments[1]]
            self.assertEqual(
                conv.get_conv_gradinputs_shape(kernel, output, *arguments, num_groups=groups),
                (*image[:2], *[length if k else None for length, k in zip(image[2:], known)]),
            )
            known = [k and arguments[0] != "half" for k in known]
            self.assertEqual(
                conv.get_conv_gradweights_shape(image, output, *arguments, num_groups=groups, unshared=unshared),
                (*kernel[:-n], *[length if k else None for length, k in zip(kernel[-n:], known)]),
            )

    def test_lengths_that_are_not_known(self):
        self.assertEqual(
            conv.get_conv_output_shape((None, 2, None, 9), (3, 2, 3, 3), "valid", (1, 2)), (None, 3, None, 4)
        )
        self.assertEqual(
            conv.get_conv_gradweights_shape((None, None, 8, 9), (1, 3, 6, 7), "valid", (1, 1)), (3, None, 3, 3)
        )
        self.assertTrue(
            conv.check_conv_gradinputs_shape((1, 2, 8, 9), (3, 2, 3, 3), (T.iscalar(), 3, None, 7), "valid", (1, 1))
        )
        self.assertFalse(conv.check_conv_gradinputs_shape((1, 2, 8, 9), (3, 2, 3, 3), (1, 3, 6), "valid", (1, 1)))

    def test_variables(self):
        i, k = T.lscalars(2)
        outs = [conv.get_conv_shape_1axis(i, k, mode, 2, 3) for mode in ("valid", "half", "full")]
        got = theano.function([i, k], outs, mode="FAST_COMPILE")(20, 4)
        self.assertEqual(
            [int(v) for v in got], [conv.get_conv_shape_1axis(20, 4, mode, 2, 3) for mode in ("valid", "half", "full")]
        )

    def test_padding(self):
        for mode, pads in [
            ("valid", ((0, 0), (0, 0))),
            ("half", ((1, 1), (2, 2))),
            ("full", ((2, 2), (4, 4))),
            (2, ((2, 2), (2, 2))),
            ((1, 2), ((1, 1), (2, 2))),
            (((1, 2), 3), ((1, 2), (3, 3))),
            (((1, 2), (3, 4)), ((1, 2), (3, 4))),
        ]:
            self.assertEqual(conv.border_mode_to_pad(mode, 2, (3, 5)), pads)
        for mode in ("foo", -1, (1,), ((1, -2), 3)):
            with self.assertRaisesRegex(ValueError, "border"):
                conv.border_mode_to_pad(mode, 2, (3, 5))
        (rows, _), columns = conv.border_mode_to_pad("half", 2, (T.iscalar(), 5))
        self.assertEqual((rows.ndim, columns), (0, (2, 2)))

    def test_assert_conv_shape(self):
        self.assertEqual(conv.assert_conv_shape((0, 0, 3, 4)), (0, 0, 3, 4))
        for shape, message in [
            ((1, 2, 0, 4), r"dim\[2\]: 0 <= 0"),
            ((-1, 2, 2, 4), r"dim\[0\]: -1 < 0"),
            ((1, -2, 2, 4), r"dim\[1\]: -2 < 0"),
            ((1, 2, 2, 4, -1), r"dim\[4\]: -1 <= 0"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                conv.assert_conv_shape(shape)
        n = T.iscalar()
        f = theano.function([n], list(conv.assert_conv_shape((n, 1, n, 2))[::2]), mode="FAST_COMPILE")
        self.assertEqual([int(v) for v in f(3)], [3, 3])
        with self.assertRaisesRegex(AssertionError, r"invalid shape \(dim\[\d\] <"):
            f(-1)

    def test_assert_shape(self):
        x = T.dmatrix()
        self.assertIs(conv.assert_shape(x, None), x)
        self.assertIs(conv.assert_shape(x, (None, None)), x)
        f = theano.function([x], conv.assert_shape(x, (None, 3), "Not three."), mode="FAST_COMPILE")
        self.assertEqual(f(np.ones((2, 3))).shape, (2, 3))
        with self.assertRaisesRegex(AssertionError, "Not three"):
            f(np.ones((3, 2)))
        with self.assertRaisesRegex(ValueError, "3 lengths"):
            conv.assert_shape(x, (1, 2, 3))


class TestNumPy(unittest.TestCase):
    """Tests of `conv` and `unshared2d`, the methods by which abstract convolutions compute in NumPy."""

    def test_conv(self):
        op = conv.AbstractConv2d()
        x, w = operands((2, 4, 6, 5), (4, 2, 2, 3))
        for mode, dilation in (("valid", 1), ("full", (2, 1))):
            d = (dilation,) * 2 if isinstance(dilation, int) else dilation
            reference = Reference(x.shape, w.shape, mode, filter_dilation=d, num_groups=2)
            arguments = {"mode": mode, "dilation": dilation, "num_groups": 2}
            np.testing.assert_array_equal(op.conv(x, w, **arguments), reference.forward(x, w))
            (g,) = operands(reference.output)
            np.testing.assert_array_equal(
                op.conv(x, g, direction="backprop weights", **arguments), reference.grad_weights(x, g)
            )
            np.testing.assert_array_equal(
                op.conv(g, w, direction="backprop inputs", **arguments), reference.grad_inputs(w, g)
            )
        x, w = operands((1, 1, 3, 4, 3), (2, 1, 2, 2, 2))
        np.testing.assert_array_equal(conv.AbstractConv3d().conv(x, w), Reference(x.shape, w.shape).forward(x, w))
        for arguments in ({"mode": "half"}, {"direction": "sideways"}):
            with self.assertRaisesRegex(ValueError, "invalid"):
                op.conv(x, w, **arguments)

    def test_unshared2d(self):
        op = conv.AbstractConv2d()
        image, kernel = (1, 1, 4, 5), (1, 3, 3, 1, 2, 3)
        reference = Reference(image, kernel, unshared=True)
        x, w, g = operands(image, kernel, reference.output)
        out = op.unshared2d(x[0, 0], w[0, :, :, 0], (3, 3))
        np.testing.assert_array_equal(out, reference.forward(x, w)[0, 0])
        out = op.unshared2d(g[0, 0], w[0, :, :, 0], (4, 5), "backprop inputs")
        np.testing.assert_array_equal(out, reference.grad_inputs(w, g)[0, 0])
        # The gradient that `unshared2d` returns is the gradient of a correlation: its kernels are not flipped.
        correlation = Reference(image, kernel, filter_flip=False, unshared=True)
        out = op.unshared2d(x[0, 0], g[0, 0], (3, 3, 2, 3), "backprop weights")
        np.testing.assert_array_equal(out, correlation.grad_weights(x, g)[0, :, :, 0])
        with self.assertRaisesRegex(ValueError, "direction"):
            op.unshared2d(x[0, 0], w[0, :, :, 0], (3, 3), "sideways")


class TestDerivedConvolutions(unittest.TestCase):
    def test_transposed(self):
        x, w = operands((2, 3, 3, 4), (3, 2, 2, 3))
        images, kernels = T.dtensor4s(2)
        rows = T.iscalar()
        out = nnet.conv2d_transpose(images, kernels, (None, 2, rows, 9), (3, 2, 2, 3), "valid", (2, 2))
        got = theano.function([images, kernels, rows], out)(x, w, 6)
        np.testing.assert_array_equal(got, Reference((2, 2, 6, 9), w.shape, subsample=(2, 2)).grad_inputs(w, x))

    def test_transposed_with_groups_and_positions(self):
        g, w = operands((1, 2, 2, 3), (2, 2, 3, 1, 2, 2))
        out = nnet.conv2d_transpose(T.constant(g), T.constant(w), (1, 2, 3, 4), num_groups=2, unshared=True)
        reference = Reference((1, 2, 3, 4), w.shape, num_groups=2, unshared=True)
        np.testing.assert_array_equal(out.eval(), reference.grad_inputs(w, g))

    def test_separable(self):
        parameters = {"border_mode": "half", "subsample": (2, 1), "filter_flip": False, "filter_dilation": (1, 2)}
        x, depth, point = operands((2, 3, 5, 4), (6, 1, 3, 2), (4, 6, 1, 1))
        out = nnet.separable_conv2d(T.constant(x), T.constant(depth), T.constant(point), 3, **parameters)
        middle = Reference(x.shape, depth.shape, num_groups=3, **parameters)
        expected = Reference(middle.output, point.shape).forward(middle.forward(x, depth), point)
        np.testing.assert_array_equal(out.eval(), expected)

    def test_separable_in_three_dimensions(self):
        x, depth, point = operands((1, 2, 3, 3, 4), (4, 1, 2, 1, 2), (3, 4, 1, 1, 1))
        out = nnet.separable_conv3d(
            T.constant(x), T.constant(depth), T.constant(point), 2, x.shape, depth.shape, point.shape, "full", (1, 2, 1)
        )
        middle = Reference(x.shape, depth.shape, "full", (1, 2, 1), num_groups=2)
        expected = Reference(middle.output, point.shape).forward(middle.forward(x, depth), point)
        np.testing.assert_array_equal(out.eval(), expected)
        with self.assertRaisesRegex(ValueError, "num_channels"):
            nnet.separable_conv2d(T.tensor4(), T.tensor4(), T.tensor4(), 0)

    def test_causal(self):
        x, w = operands((2, 2, 9), (4, 1, 3))
        images, kernels, length = T.dtensor3(), T.dtensor3(), T.lscalar()
        parameters = {"subsample": 2, "filter_dilation": 3, "num_groups": 2}
        outs = [nnet.causal_conv1d(images, kernels, shape, **parameters) for shape in ((4, 1, 3), (None, None, length))]
        reference = Reference((2, 2, 1, 9), (4, 1, 1, 3), (0, (6, 0)), (1, 2), True, (1, 3), 2)
        expected = reference.forward(x[:, :, None], w[:, :, None])[:, :, 0]
        for got in theano.function([images, kernels, length], outs)(x, w, 3):
            np.testing.assert_array_equal(got, expected)

    def test_causal_with_positions(self):
        x, w = operands((1, 1, 4), (2, 4, 1, 3))
        out = nnet.causal_conv1d(T.constant(x), T.constant(w), w.shape, x.shape, unshared=True)
        reference = Reference((1, 1, 1, 4), (2, 1, 4, 1, 1, 3), (0, (2, 0)), unshared=True)
        np.testing.assert_array_equal(out.eval(), reference.forward(x[:, :, None], w[:, None, :, :, None])[:, :, 0])

    def test_causal_does_not_look_ahead(self):
        x = T.dtensor3()
        out = nnet.causal_conv1d(x, T.constant(operands((1, 1, 3))[0] + 9), (1, 1, 3), filter_dilation=2)
        g = theano.function([x], T.grad(out[0, 0, 4], x), mode="FAST_COMPILE")(np.ones((1, 1, 8)))
        np.testing.assert_array_equal(g[0, 0] != 0, [True, False, True, False, True, False, False, False])

    def test_causal_arguments(self):
        for arguments, message in [
            ((T.tensor4(), T.tensor3(), (1, 1, 3)), "Input should be 3D"),
            ((T.tensor3(), T.tensor4(), (1, 1, 3)), "Filters should be 3D"),
            ((T.tensor3(), T.tensor3(), (1, 1)), "filter_shape"),
            ((T.tensor3(), T.tensor3(), (1, 1, None)), "filter_shape"),
            ((T.tensor3(), T.tensor3(), (1, 1, 3), (1, 1)), "input_shape"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                nnet.causal_conv1d(*arguments)


class TestTutorial(unittest.TestCase):
    """Tests of the examples in the tutorial on convolution arithmetic."""

    def test_picture(self):
        image = np.array(
            [[3, 3, 2, 1, 0], [0, 0, 1, 3, 1], [3, 1, 2, 2, 3], [2, 0, 0, 2, 2], [2, 0, 0, 0, 1]], config.floatX
        )
        kernel = np.array([[0, 1, 2], [2, 2, 0], [0, 1, 2]], config.floatX)
        want = [[12, 12, 17], [10, 17, 19], [9, 6, 14]]
        x, w = T.tensor4s(2)
        f = theano.function([x, w], [nnet.conv2d(x, w, filter_flip=False), nnet.conv2d(x, w[:, :, ::-1, ::-1])])
        for got in f(image[None, None], kernel[None, None]):
            np.testing.assert_array_equal(got[0, 0], want)

    def test_lengths(self):
        ones = lambda n: np.ones((1, 1, n, n), config.floatX)
        for (i, k, mode, s, d), o in [
            ((4, 3, (0, 0), 1, 1), 2),
            ((5, 4, (2, 2), 1, 1), 6),
            ((5, 3, "half", 1, 1), 5),
            ((5, 3, "full", 1, 1), 7),
            ((5, 3, (0, 0), 2, 1), 2),
            ((5, 3, (1, 1), 2, 1), 3),
            ((6, 3, (1, 1), 2, 1), 3),
            ((7, 3, (0, 0), 1, 2), 3),
        ]:
            x, w = T.tensor4s(2)
            out = nnet.conv2d(x, w, (1, 1, i, i), (1, 1, k, k), mode, (s, s), filter_dilation=(d, d))
            self.assertEqual(theano.function([x, w], out, mode="FAST_COMPILE")(ones(i), ones(k)).shape, (1, 1, o, o))

    def test_transposed_lengths(self):
        ones = lambda n: np.ones((1, 1, n, n), config.floatX)
        for i, k, p, s, a in [(2, 3, 0, 1, 0), (6, 4, 2, 1, 0), (5, 3, 1, 1, 0), (7, 3, 2, 1, 0), (2, 3, 0, 2, 0), (3, 3, 1, 2, 0),
                              (3, 3, 1, 2, 1), (3, 4, 0, 2, 1)]:  # fmt: skip
            o = s * (i - 1) + a + k - 2 * p
            g, w = T.tensor4s(2)
            out = conv.conv2d_grad_wrt_inputs(g, w, (1, 1, o, o), (1, 1, k, k), (p, p), (s, s))
            self.assertEqual(theano.function([g, w], out, mode="FAST_COMPILE")(ones(i), ones(k)).shape, (1, 1, o, o))

    def test_convolution_as_a_matrix(self):
        x, w = T.tensor4s(2)
        kernel = np.random.RandomState(0).rand(1, 1, 3, 3).astype(config.floatX)
        out = nnet.conv2d(x, w, filter_flip=False)
        f = theano.function([x, w], [out, T.grad(out.sum(), x)])
        matrix = np.stack(
            [f(np.eye(16, dtype=config.floatX)[j].reshape(1, 1, 4, 4), kernel)[0].ravel() for j in range(16)], 1
        )
        self.assertEqual(matrix.shape, (4, 16))
        gradient = f(np.zeros((1, 1, 4, 4), config.floatX), kernel)[1]
        np.testing.assert_allclose(gradient.ravel(), matrix.T @ np.ones(4), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
