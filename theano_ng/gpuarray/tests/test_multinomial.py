"""Tests of draws of categories on a device."""

import itertools
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gof.graph import ancestors
from theano_ng.gpuarray import contexts, multinomial
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.kernels import multinomial as kernels
from theano_ng.gpuarray.multinomial import (
    GPUAChoiceFromUniform,
    GPUAMultinomialFromUniform,
    GPUAMultinomialWOReplacementFromUniform,
)
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.rng_mrg import GPUA_mrg_uniform
from theano_ng.gpuarray.tests.device import allow_nan, context, gpu_variable, placed
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams

FLOATS = ("float16", "float32", "float64")
RNG = np.random.default_rng(8)


def rows(kind, dtype, n=7, columns=11):
    """Return a matrix of probabilities."""
    p = RNG.dirichlet(np.ones(columns), n)
    if kind == "zeros":
        p[::2] = 0
        p[1::2, ::3] = 0
    elif kind == "other sums":
        p *= np.linspace(0.2, 3, n)[:, np.newaxis]
    elif kind == "not numbers":
        p[0, 3], p[1, 5], p[2, 2], p[3] = np.nan, np.inf, -0.5, -p[3]
    return p.astype(dtype)


class TestDraws(unittest.TestCase):
    def setUp(self):
        self.name = context()
        allow_nan(self)

    def compiled(self, device_op, host_op, dtype, uniform_dtype):
        """Return the functions that draw on the device and on the host."""
        p, u, n = T.TensorType(dtype, (False,) * 2)(), T.TensorType(uniform_dtype, (False,))(), T.lscalar()
        there = gpu_variable(dtype, 2), gpu_variable(uniform_dtype, 1)
        f = theano.function([*there, n], device_op(*there, scalar.as_scalar(n)))
        return f, theano.function([p, u, n], host_op(p, u, n))

    def agree(self, functions, p, u, n, layout="C"):
        f, g = functions
        result, expected = np.asarray(f(placed(p, layout), placed(u, layout), n)), g(p, u, n)
        np.testing.assert_array_equal(result, expected)
        self.assertEqual(result.dtype, expected.dtype)

    def test_every_input(self):
        """The draws equal those of the host, to the last bit, for all kinds of probabilities."""
        ops = (
            (GPUAMultinomialFromUniform("int64"), MultinomialFromUniform("int64")),
            (GPUAChoiceFromUniform("auto", True), ChoiceFromUniform("auto", True)),
            (GPUAChoiceFromUniform("int32", False), ChoiceFromUniform("int32", False)),
        )
        for pair, dtype, uniform_dtype in itertools.product(ops, FLOATS, FLOATS):
            functions = self.compiled(*pair, dtype, uniform_dtype)
            for kind, n, layout in (
                ("sums of one", 1, "C"),
                ("sums of one", 9, "strided"),
                ("zeros", 11, "reversed"),
                ("other sums", 8, "F"),
                ("not numbers", 5, "C"),
                ("sums of one", 0, "C"),
            ):
                with self.subTest(op=pair[0], dtype=dtype, uniform=uniform_dtype, kind=kind, n=n):
                    p = rows(kind, dtype)
                    u = RNG.uniform(size=len(p) * n).astype(uniform_dtype)
                    u[:1] = np.nan
                    with np.errstate(invalid="ignore"):
                        self.agree(functions, p, u, n, layout)

    def test_many_rows(self):
        """Long rows, for which the order of the sums matters."""
        for replace, dtype in itertools.product((False, True), ("float32", "float64")):
            functions = self.compiled(
                GPUAChoiceFromUniform("int64", replace), ChoiceFromUniform("int64", replace), dtype, dtype
            )
            self.agree(functions, rows("", dtype, 40, 500), RNG.uniform(size=40 * 30).astype(dtype), 30)

    def test_dtypes_of_results(self):
        for odtype in ("bool", "int8", "uint16", "uint64", "float16", "float32", "float64", "auto"):
            with self.subTest(odtype):
                p = np.array([[0.1, 0.9], [0.4, 0.1]], "float32")
                u = RNG.uniform(size=2 * 4000).astype("float32")
                for pair in (
                    (GPUAMultinomialFromUniform(odtype), MultinomialFromUniform(odtype)),
                    (GPUAChoiceFromUniform(odtype, True), ChoiceFromUniform(odtype, True)),
                ):
                    self.agree(self.compiled(*pair, "float32", "float32"), p, u, 4000)

    def test_empty(self):
        for replace, (n_rows, columns, n) in itertools.product((False, True), ((0, 3, 2), (3, 0, 0), (0, 0, 0))):
            for pair in (
                (GPUAMultinomialFromUniform("int64"), MultinomialFromUniform("int64")),
                (GPUAChoiceFromUniform("int64", replace), ChoiceFromUniform("int64", replace)),
            ):
                functions = self.compiled(*pair, "float32", "float32")
                self.agree(functions, np.zeros((n_rows, columns), "float32"), np.zeros(n_rows * n, "float32"), n)
        functions = self.compiled(
            GPUAChoiceFromUniform("int64", True), ChoiceFromUniform("int64", True), "float32", "float32"
        )
        self.agree(functions, np.zeros((2, 0), "float32"), np.zeros(6, "float32"), 3)

    def test_errors(self):
        p, u = rows("", "float32", 3, 4), np.full(6, 0.5, "float32")
        for pair in (
            (GPUAMultinomialFromUniform("int64"), MultinomialFromUniform("int64")),
            (GPUAChoiceFromUniform("int64"), ChoiceFromUniform("int64")),
        ):
            f, g = self.compiled(*pair, "float32", "float32")
            wrong = [(u, 1), (u[:5], 2), (u, -2)]
            if isinstance(pair[0], GPUAChoiceFromUniform):
                wrong.append((np.full(15, 0.5, "float32"), 5))
            for numbers, n in wrong:
                with self.assertRaises(ValueError) as expected:
                    g(p, numbers, n)
                with self.assertRaises(ValueError) as found:
                    f(placed(p, "C"), placed(numbers, "C"), n)
                first = [str(e.exception).splitlines()[0] for e in (found, expected)]
                self.assertEqual(*first)
            self.agree((f, g), p, u, 2)
        for given, error in (
            ((gpu_variable("float32", 1), gpu_variable("float32", 1)), NotImplementedError),
            ((gpu_variable("float32", 2), gpu_variable("float32", 2)), NotImplementedError),
            ((gpu_variable("float32", 2), gpu_variable("int64", 1)), TypeError),
        ):
            for op in (GPUAMultinomialFromUniform("int64"), GPUAChoiceFromUniform("int64")):
                with self.assertRaises(error):
                    op(*given)

    def test_without_replacement_on_graphics_cards(self):
        """The kernel for graphics cards keeps the rows as the fastest axis of the remaining probabilities."""
        p, n = rows("", "float32"), 6
        u = RNG.uniform(size=len(p) * n).astype("float32")
        kernel = kernels.choices("float32", "float32", "int64", False, get_context(self.name))
        kernel = kernel._replace(support=("#undef GA_PROCESSOR\n", *kernel.support)).build()
        out, left = placed(np.zeros((len(p), n), "int64"), "C"), placed(np.zeros(p.shape, "float32"), "C")
        there, numbers = placed(p, "C"), placed(u, "C")
        kernel(there, 0, *there.strides, *p.shape, numbers, 0, 4, n, out, 0, left, gs=2, ls=3)
        _, g = self.compiled(GPUAChoiceFromUniform("int64"), ChoiceFromUniform("int64"), "float32", "float32")
        np.testing.assert_array_equal(out, g(p, u, n))

    def test_old_name(self):
        op = GPUAMultinomialWOReplacementFromUniform("int32")
        self.assertEqual((op.odtype, op.replace), ("int32", False))
        self.assertEqual(op(gpu_variable("float32", 2), gpu_variable("float32", 1), 2).dtype, "int32")
        self.assertEqual(set(multinomial.__all__) - set(vars(multinomial)), set())

    def test_shape_and_gradient(self):
        p, u, n = gpu_variable("float32", 2), gpu_variable("float32", 1), T.lscalar()
        for op in (GPUAMultinomialFromUniform("float32"), GPUAChoiceFromUniform("float32", True)):
            z = op(p, u, scalar.as_scalar(n))
            given = placed(rows("", "float32"), "C"), placed(np.full(14, 0.5, "float32"), "C"), 2
            shape = theano.function([p, u, n], z.shape)
            self.assertNotIn(type(op), [type(node.op) for node in shape.maker.fgraph.toposort()])
            np.testing.assert_array_equal(shape(*given), theano.function([p, u, n], z)(*given).shape)
            for g in theano.function([p, u], theano.grad(z.sum(), [p, u]))(*given[:2]):
                self.assertFalse(np.asarray(g).any())

    @config.change_flags({"DebugMode.check_preallocated_output": "ALL"})
    def test_debug_mode(self):
        p, u = gpu_variable("float32", 2), gpu_variable("float32", 1)
        outputs = [
            GPUAMultinomialFromUniform("float32")(p, u, 2),
            GPUAChoiceFromUniform("int64", True)(p, u, 2),
            GPUAChoiceFromUniform("int64", False)(p, u, 2),
        ]
        f = theano.function([p, u], outputs, mode=get_mode("DebugMode").including("gpuarray"))
        value, numbers = rows("", "float32"), RNG.uniform(size=14).astype("float32")
        result = f(placed(value, "C"), placed(numbers, "C"))
        host = [MultinomialFromUniform("float32"), ChoiceFromUniform("int64", True), ChoiceFromUniform("int64", False)]
        for z, op in zip(result, host):
            np.testing.assert_array_equal(z, theano.function([], op(value, numbers, 2))())


class TestLaunches(unittest.TestCase):
    def test_launches(self):
        """On a stub of a GPU, a node only launches kernels and fills counts with 0. It waits for nothing."""
        ctx = pygpu.init("stub4")
        contexts.reg_context("stub", ctx)
        self.addCleanup(contexts.unregister, "stub")
        state = native.load().stub_of(4).contents
        p, u = gpu_variable("float32", 2, "stub"), gpu_variable("float32", 1, "stub")
        given = placed(np.ones((5, 6), "float32"), "strided", "stub"), placed(np.ones(15, "float32"), "C", "stub")
        calls = "launch", "fill", "read", "write", "copy", "sync"
        for op, expected in (
            (GPUAMultinomialFromUniform("int64"), [1, 1, 0, 0, 0, 0]),
            (GPUAMultinomialFromUniform("float32"), [2, 1, 0, 0, 0, 0]),  # the second launch converts the counts
            (GPUAChoiceFromUniform("float16", True), [1, 0, 0, 0, 0, 0]),
            (GPUAChoiceFromUniform("int64", False), [1, 0, 0, 0, 0, 0]),
        ):
            f = theano.function([p, u], op(p, u, 3), mode="FAST_RUN")
            f(*given)
            before = [state.count(call) for call in calls]
            f(*given)
            self.assertEqual([state.count(call) - n for call, n in zip(calls, before)], expected)


class TestRules(unittest.TestCase):
    def setUp(self):
        self.name = context()
        self.mode = get_mode("FAST_RUN").including("gpuarray")

    @config.change_flags(on_opt_error="raise")
    def test_streams(self):
        """Draws from probabilities on the device stay there: only the result is transferred."""
        for dtype, (method, name, kwargs) in itertools.product(
            FLOATS,
            (
                (MRG_RandomStreams.multinomial, "pvals", {}),
                (MRG_RandomStreams.multinomial, "pvals", dict(n=3, dtype="float32")),
                (MRG_RandomStreams.choice, "p", dict(size=4, replace=True)),
                (MRG_RandomStreams.choice, "p", dict(size=4, replace=False, dtype="int32")),
                (MRG_RandomStreams.multinomial_wo_replacement, "pvals", dict(n=2)),
            ),
        ):
            with self.subTest(p=dtype, method=method.__name__, options=kwargs), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                value = rows("", dtype)
                p = theano.shared(value, target=self.name)
                there = method(MRG_RandomStreams(7), target=self.name, **{name: p * 1}, **kwargs)
                here = method(MRG_RandomStreams(7), **{name: value}, **kwargs)
                f, g = theano.function([], there, mode=self.mode), theano.function([], here, mode="FAST_RUN")
                for _ in range(2):
                    np.testing.assert_array_equal(f(), g())
                ops = [node.op for node in f.maker.fgraph.toposort()]
                self.assertEqual([type(op) for op in ops if isinstance(op, (GpuFromHost, HostFromGpu))], [HostFromGpu])
                self.assertTrue(any(isinstance(op, GPUAMultinomialFromUniform) for op in ops), ops)
                self.assertTrue(any(isinstance(op, GPUA_mrg_uniform) for op in ops), ops)

    @config.change_flags(on_opt_error="raise")
    def test_sampling_steps(self):
        """In the steps of a variational autoencoder and of a sampler of categories, nodes on the host compute only
        with shapes.
        """
        streams = MRG_RandomStreams(5)
        x = gpu_variable("float32", 2, self.name)
        weights = [theano.shared(RNG.normal(size=(4, 3)).astype("float32"), target=self.name) for _ in range(2)]
        mean, logarithm = [T.dot(x, w) for w in weights]
        noise = streams.normal(mean.shape, ndim=2, dtype="float32", target=self.name)
        steps = {
            "autoencoder": mean + T.exp(0.5 * logarithm) * noise,
            "categories": streams.multinomial(pvals=T.nnet.softmax(mean), dtype="float32", target=self.name),
            "choice": streams.choice(size=2, p=T.nnet.softmax(mean), replace=False, target=self.name),
        }
        for name, z in steps.items():
            with self.subTest(name):
                f = theano.function([x], z.transfer(self.name), mode=self.mode)
                nodes = f.maker.fgraph.toposort()
                self.assertFalse([n for n in nodes if isinstance(n.op, (GpuFromHost, HostFromGpu))])
                host = [n for n in nodes if not any(isinstance(v.type, GpuArrayType) for v in n.outputs)]
                for node in host:  # lengths and numbers
                    self.assertTrue(all(v.dtype == "int64" for v in node.outputs), node)
                    self.assertTrue(all(v.ndim <= 1 for v in node.outputs if hasattr(v, "ndim")), node)
                self.assertEqual(len(f(placed(np.ones((5, 4), "float32"), "C"))), 5)

    def test_host_inputs(self):
        """The results on a device are the same if only the numbers, or only the probabilities, are on the device."""
        value, numbers = rows("", "float64"), RNG.uniform(size=7)
        for on_device in ((True, False), (False, True)):
            given = [theano.shared(v, target=self.name if d else "cpu") for v, d in zip((value, numbers), on_device)]
            z = MultinomialFromUniform("int64")(*given, 1)
            f = theano.function([], z, mode=self.mode)
            self.assertTrue(
                any(
                    isinstance(v.owner.op, GPUAMultinomialFromUniform)
                    for v in ancestors(f.maker.fgraph.outputs)
                    if v.owner
                )
            )
            np.testing.assert_array_equal(
                f(), theano.function([], MultinomialFromUniform("int64")(value, numbers, 1))()
            )


if __name__ == "__main__":
    unittest.main()
