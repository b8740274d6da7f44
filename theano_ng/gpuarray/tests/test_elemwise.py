"""Tests of GpuElemwise and GpuDimShuffle, compared with NumPy and the Ops of the host."""

import pickle
import unittest
from types import SimpleNamespace

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.gpuarray.tests.device import context
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.type import values_eq_approx

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


def setUpModule():
    context()
    from theano_ng.gpuarray import basic_ops, elemwise

    globals().update(
        {name: getattr(elemwise, name) for name in elemwise.__all__},
        as_gpuarray_variable=basic_ops.as_gpuarray_variable,
        host_from_gpu=basic_ops.host_from_gpu,
    )


def on_gpu(v):
    return as_gpuarray_variable(v, "test")


def values(dtype, shape, rng):
    """Return a random array of the given dtype. Its first elements are special values."""
    found = np.asarray(rng.standard_normal(shape) * 3)
    flat = found.reshape(-1)
    special = [0, 1, -1, 0.5, -0.5, 2]
    flat[: len(special)] = special[: flat.size]
    if dtype == "bool":
        return found > 0
    if dtype.startswith("float"):
        flat[6:9] = np.asarray([np.nan, np.inf, -np.inf])[: max(flat.size - 6, 0)]
        return found.astype(dtype)
    return (np.abs(found) if dtype.startswith("u") else found).astype(dtype) * np.asarray(5, dtype)


def layouts(a):
    """Yield an array on the device in several memory layouts."""
    from theano_ng.gpuarray.contexts import get_context
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    made = pygpu.array(a, context=get_context("test"))
    yield made
    if a.ndim:
        yield pygpu.array(a[::-1], context=made.context)[::-1]
        doubled = pygpu.array(np.repeat(a, 2, axis=-1), context=made.context)
        yield doubled[(slice(None),) * (a.ndim - 1) + (slice(None, None, 2),)]
        yield pygpu.array(np.asfortranarray(a), order="F", context=made.context)


class TestValues(unittest.TestCase):
    """Tests of the values of scalar Ops. One function has many Ops, so that their kernels are built together."""

    def check(self, names, dtypes):
        rng = np.random.default_rng(3)
        inputs, nodes, given = [], [], []
        for name in names:
            op = getattr(scalar, name)
            nin = 3 if name in ("switch", "clip") else 2 if op.nin in (-1, 2) else 1
            for dtype in dtypes:
                xs = [T.TensorType(dtype, (False,))() for _ in range(nin)]
                try:
                    Elemwise(op)(*xs)
                except TypeError:
                    continue  # not defined for this dtype
                nodes.append(GpuElemwise(op)(*map(on_gpu, xs)).owner)
                inputs += xs
                given += [values(dtype, 20, rng) for _ in xs]
        f = theano.function(inputs, [host_from_gpu(node.outputs[0]) for node in nodes], mode=theano.Mode("vm", None))
        place = 0
        for node, value in zip(nodes, f(*given)):
            xs = given[place : place + len(node.inputs)]
            place += len(xs)
            expected = self.expected(node, xs)
            with self.subTest(op=str(node.op), dtype=xs[0].dtype):
                self.assertEqual((value.dtype, value.shape), (expected.dtype, expected.shape))
                self.assertTrue(values_eq_approx(value, expected), (xs, value, expected))

    def expected(self, node, xs):
        """Return the expected value, computed by NumPy; integer divisions by zero give 0."""
        cells = [[None]]
        host = Elemwise(node.op.scalar_op).make_node(*[v.type.host_type()() for v in node.inputs])
        zero = xs[-1] == 0
        if node.op.scalar_op in (scalar.int_div, scalar.mod) and xs[0].dtype.kind in "biu":
            xs = [xs[0], np.where(zero, 1, xs[1]).astype(xs[1].dtype)]
            host.op.perform(host, xs, cells)
            return np.where(zero, 0, cells[0][0]).astype(cells[0][0].dtype)
        with np.errstate(all="ignore"):
            host.op.perform(host, xs, cells)
        return cells[0][0]

    def test_arithmetic_of_all_dtypes(self):
        self.check(["add"], DTYPES)
        self.check(["int_div"], DTYPES[1:])

    def test_functions_of_floats(self):
        self.check(
            "exp log1p tanh arccosh pow erfcx erfinv gammaln psi j1 i0 gammainc chi2sf maximum".split(), ["float32"]
        )
        self.check("sgn mod tri_gamma round_half_to_even".split(), ["float64"])
        self.check("abs_ sqr isnan switch".split(), ["float16"])

    def test_small_integers(self):
        self.check("mul lt true_div exp invert".split(), ["int8", "bool"])


class TestShapes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        x, y = T.TensorType("float32", (False,) * 3)("x"), T.TensorType("float32", (False, True, False))("y")
        cls.gpu = [on_gpu(x), on_gpu(y)]
        # The inputs are device arrays, so that the test controls their strides.
        cls.inputs = [v.type() for v in cls.gpu]
        out = GpuElemwise(scalar.add)(*cls.inputs)
        two = GpuElemwise(scalar.mul)(cls.inputs[0], cls.inputs[0])
        cls.f = staticmethod(theano.function(cls.inputs, [host_from_gpu(out), host_from_gpu(two)], mode="FAST_RUN"))

    def test_strides_and_broadcasting(self):
        rng = np.random.default_rng(0)
        for shape in ((2, 3, 4), (3, 1, 5), (1, 1, 1), (4, 2, 1), (5, 70, 3)):
            a, b = rng.random(shape, dtype="f"), rng.random((shape[0], 1, shape[2]), dtype="f")
            for x in layouts(a):
                for y in layouts(b):
                    out, square = self.f(x, y)
                    np.testing.assert_array_equal(out, a + b)
                    np.testing.assert_array_equal(square, a * a)

    def test_many_elements(self):
        a, b = np.arange(3 * 50 * 1000, dtype="f").reshape(3, 50, 1000), np.ones((3, 1, 1000), "f")
        x, y = next(layouts(a)), next(layouts(b))
        np.testing.assert_array_equal(self.f(x, y)[0], a + 1)
        np.testing.assert_array_equal(self.f(x, y)[1], a * a)

    def test_no_elements(self):
        out, square = self.f(next(layouts(np.zeros((2, 0, 3), "f"))), next(layouts(np.zeros((2, 1, 3), "f"))))
        self.assertEqual((out.shape, square.shape), ((2, 0, 3), (2, 0, 3)))

    def test_lengths_that_do_not_fit(self):
        with self.assertRaisesRegex(
            ValueError, r"Input dimension mis-match. \(input\[0\].shape\[2\] = 4, input\[1\].shape\[2\] = 5\)"
        ):
            self.f(next(layouts(np.zeros((2, 3, 4), "f"))), next(layouts(np.zeros((2, 1, 5), "f"))))

    def test_a_length_of_one_is_not_repeated_unless_the_type_says_so(self):
        with self.assertRaisesRegex(ValueError, "mis-match"):
            self.f(next(layouts(np.zeros((1, 3, 4), "f"))), next(layouts(np.zeros((2, 1, 4), "f"))))

    def test_numbers_and_rows(self):
        x, row, one = T.fmatrix(), T.frow(), T.fscalar()
        out = GpuElemwise(scalar.mul)(on_gpu(x), row, one, np.float32(2))
        self.assertEqual(out.broadcastable, (False, False))
        f = theano.function([x, row, one], host_from_gpu(out), mode="FAST_RUN")
        a, b = np.arange(6, dtype="f").reshape(2, 3), np.arange(3, dtype="f")[None]
        np.testing.assert_array_equal(f(a, b, 3), a * b * 6)
        np.testing.assert_array_equal(
            theano.function([one], host_from_gpu(GpuElemwise(scalar.neg)(on_gpu(one))))(4), -4
        )


class TestNodes(unittest.TestCase):
    def test_names(self):
        self.assertEqual(str(GpuElemwise(scalar.exp, name=T.exp.name)), "GpuElemwise{exp,no_inplace}")
        self.assertEqual(
            str(GpuElemwise(scalar.Add(scalar.transfer_type(0)), {0: 0})), "GpuElemwise{Add}[(0, 0)]<gpuarray>"
        )
        self.assertEqual(str(GpuElemwise(scalar.log)), "GpuElemwise{log}[]<gpuarray>")

    def test_ops_are_equal_and_go_through_pickle(self):
        op = GpuElemwise(scalar.add, {0: 0})
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        self.assertNotEqual(op, Elemwise(scalar.add, {0: 0}))
        view = GpuDimShuffle((False, True), (0,))
        self.assertEqual(pickle.loads(pickle.dumps(view)), view)

    def test_what_kernels_cannot_compute(self):
        class Host(scalar.UnaryScalarOp):
            output_types_preference = staticmethod(scalar.same_out)

            def impl(self, x):
                return x

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = PyErr_Occurred() ? 0 : %s;" % (outputs[0], inputs[0])

        with self.assertRaises(SupportCodeError):
            GpuElemwise(Host())(on_gpu(T.fvector()))
        with self.assertRaises(SupportCodeError):
            GpuElemwise(scalar.iv)(on_gpu(T.fvector()), on_gpu(T.fvector()))
        with self.assertRaisesRegex(SupportCodeError, "complex"):
            GpuElemwise(scalar.add)(on_gpu(T.zvector()), on_gpu(T.fvector()))

    def test_composite_of_two_outputs_in_place(self):
        a, b = scalar.float32("a"), scalar.float32("b")
        op = scalar.Composite([a, b], [a * b + a, scalar.exp(a) - b])
        x, y = T.fvector(), T.fvector()
        gx, gy = on_gpu(x).type(), on_gpu(y).type()
        node = GpuElemwise(op, {1: 0})
        self.assertEqual(node.destroy_map, {1: [0]})
        f = theano.function(
            [theano.In(gx, mutable=True), gy],
            [theano.Out(v, borrow=True) for v in node(gx, gy)],
            accept_inplace=True,
            mode="FAST_RUN",
        )
        u, v = np.arange(5, dtype="f"), np.ones(5, "f")
        first, second = next(layouts(u)), next(layouts(v))
        out = f(first, second)
        np.testing.assert_allclose(np.asarray(out[0]), u * v + u, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(out[1]), np.exp(u) - v, rtol=1e-6)
        np.testing.assert_array_equal(np.asarray(first), np.asarray(out[1]))

    def test_divisions_by_zero_are_zero(self):
        a, b = scalar.int32("a"), scalar.int32("b")
        x, y = T.ivector(), T.ivector()
        out = GpuElemwise(scalar.Composite([a, b], [a // b + a % (b + 1)]))(on_gpu(x), on_gpu(y))
        given = np.asarray([7, -7, 3], "int32"), np.asarray([0, 2, -1], "int32")
        for mode in ("FAST_RUN", theano.Mode("py", None)):
            np.testing.assert_array_equal(
                theano.function([x, y], host_from_gpu(out), mode=mode)(*given), [0, -4 + 2, -3]
            )

    def test_debug_mode_compares_with_the_host(self):
        x, y = T.fmatrix(), T.fvector()
        out = GpuElemwise(scalar.mul)(on_gpu(x), GpuDimShuffle((False,), ("x", 0))(on_gpu(y)))
        f = theano.function([x, y], host_from_gpu(out), mode="DebugMode")
        np.testing.assert_array_equal(f(np.ones((2, 3), "f"), np.arange(3, dtype="f")), np.arange(3) * np.ones((2, 1)))

    def test_how_many_inputs(self):
        x = on_gpu(T.fmatrix())
        node = GpuElemwise(scalar.add)(x, x).owner
        most = max_inputs_to_GpuElemwise(node)
        self.assertGreater(most, 20)
        self.assertEqual(most, max_inputs_to_GpuElemwise(node.outputs))
        self.assertLess(max_inputs_to_GpuElemwise([on_gpu(T.TensorType("float32", (False,) * 6)())]), most)

    def test_inputs_fill_the_space_for_arguments(self):
        for space in (1024, 4096):  # OpenCL's guarantee, and CUDA
            for ndim in range(5):
                kind = SimpleNamespace(ndim=ndim, context=SimpleNamespace(argument_bytes=space))
                most = max_inputs_to_GpuElemwise([SimpleNamespace(type=kind)])
                # lengths, then a pointer, an offset and strides for each operand
                sizes = [8 * ndim + (1 + nin) * (16 + 8 * ndim) for nin in (most, most + 1)]
                self.assertLessEqual(sizes[0], space)
                self.assertGreater(sizes[1], space)

    def test_shapes_are_inferred(self):
        x, y = on_gpu(T.fmatrix()), on_gpu(T.fvector())
        out = GpuElemwise(scalar.add)(x, y)
        f = theano.function([x.owner.inputs[0], y.owner.inputs[0]], out.shape, mode="FAST_RUN")
        self.assertFalse([n for n in f.maker.fgraph.toposort() if isinstance(n.op, GpuElemwise)])
        self.assertEqual(f(np.zeros((4, 3), "f"), np.zeros(3, "f")).tolist(), [4, 3])


class TestDerivatives(unittest.TestCase):
    def test_gradient(self):
        x, y = T.fmatrix(), T.frow()
        out = host_from_gpu(GpuElemwise(scalar.mul)(on_gpu(x), on_gpu(y)))
        f = theano.function([x, y], theano.grad(out.sum(), [x, y]), mode="FAST_COMPILE")
        a, b = np.arange(6, dtype="f").reshape(2, 3), np.arange(3, dtype="f")[None]
        gx, gy = f(a, b)
        np.testing.assert_allclose(gx, np.repeat(b, 2, axis=0))
        np.testing.assert_allclose(gy, a.sum(axis=0, keepdims=True))

    def test_gradient_of_variables_of_the_device(self):
        x = on_gpu(T.fvector())
        (g,) = theano.grad(host_from_gpu(GpuElemwise(scalar.sqr)(x)).sum(), [x])
        self.assertEqual(g.type, x.type)
        np.testing.assert_allclose(
            theano.function([x.owner.inputs[0]], host_from_gpu(g))(np.arange(3, dtype="f")), [0, 2, 4]
        )

    def test_directional_derivative(self):
        x, e = T.fvector(), T.fvector()
        out = host_from_gpu(GpuElemwise(scalar.exp)(GpuDimShuffle((False,), (0, "x"))(on_gpu(x))))
        f = theano.function([x, e], theano.Rop(out, x, e), mode="FAST_COMPILE")
        a, b = np.asarray([0, 1], "f"), np.asarray([2, 3], "f")
        np.testing.assert_allclose(f(a, b), (np.exp(a) * b)[:, None], rtol=1e-6)


class TestDimShuffle(unittest.TestCase):
    def test_views_and_copies(self):
        x = on_gpu(T.TensorType("float32", (False, True, False))())
        a = np.arange(6, dtype="f").reshape(2, 1, 3)
        for inplace in (True, False):
            op = GpuDimShuffle((False, True, False), (2, "x", 0), inplace=inplace)
            out = op(x)
            f = theano.function([x.owner.inputs[0]], host_from_gpu(out), mode="FAST_RUN")
            np.testing.assert_array_equal(f(a), a.transpose(2, 1, 0))
            self.assertEqual(out.type.broadcastable, (False, True, False))

    def test_it_is_a_view(self):
        from theano_ng.gof.native import make_native_thunk
        from theano_ng.gpuarray.pygpu import gpuarray as pygpu

        node = GpuDimShuffle((False, False), (1, 0)).make_node(on_gpu(T.fmatrix()).type())
        given, out = next(layouts(np.arange(6, dtype="f").reshape(2, 3))), [None]
        make_native_thunk(node, node.op.native_code(node), [[given]], [out])()
        self.assertEqual((out[0].shape, out[0].strides), ((3, 2), (4, 12)))
        self.assertTrue(pygpu.may_share_memory(out[0], given))
        node.op.perform(node, [given], [out])
        self.assertEqual((out[0].shape, out[0].strides), ((3, 2), (4, 12)))
        self.assertTrue(pygpu.may_share_memory(out[0], given))

    def test_a_length_that_is_dropped(self):
        x = on_gpu(T.fcol()).type()
        f = theano.function([x], host_from_gpu(GpuDimShuffle((False, True), (0,))(x)), mode="FAST_RUN")
        with self.assertRaises((ValueError, TypeError)):
            f(next(layouts(np.zeros((2, 3), "f"))))

    def test_gradient(self):
        x = T.fmatrix()
        out = host_from_gpu(GpuDimShuffle((False, False), (1, "x", 0))(on_gpu(x)))
        g = theano.grad((out * np.arange(3, dtype="f")).sum(), x)
        np.testing.assert_array_equal(
            theano.function([x], g, mode="FAST_COMPILE")(np.zeros((3, 2), "f")),
            np.repeat(np.arange(3.0)[:, None], 2, axis=1),
        )


class TestLogarithms(unittest.TestCase):
    """On processors, kernels use logarithms of this package. Errors are in units in the last place (ulp)."""

    def test_accuracy(self):
        rng = np.random.default_rng(3)
        for dtype, integer in (("float32", "int32"), ("float64", "int64")):
            x = T.vector(dtype=dtype)
            made = [host_from_gpu(GpuElemwise(op)(on_gpu(x))) for op in (scalar.log, scalar.log1p)]
            f = theano.function([x], made, mode="FAST_RUN")
            info = np.finfo(dtype)
            parts = [
                rng.integers(0, np.iinfo(integer).max, 50000, integer).view(dtype),  # all exponents, NaN
                rng.uniform(0.5, 2, 20000),
                1 + rng.normal(0, 1e-3, 20000),
                rng.normal(0, 1e-5, 20000),
                -rng.uniform(0, 1, 20000),
                [0, -0.0, np.inf, -np.inf, np.nan, -1, 1, info.tiny, info.tiny / 8, info.smallest_subnormal, info.max],
            ]
            value = np.concatenate(parts).astype(dtype)
            wide = value.astype("longdouble")
            with np.errstate(all="ignore"):
                expected = np.log(wide), np.log1p(wide)
            for result, right, most in zip(f(value), expected, (1, 3)):
                rounded = right.astype(dtype)
                finite = np.isfinite(rounded)
                np.testing.assert_array_equal(result[~finite], rounded[~finite])
                # Devices may treat results that are not normal as zero.
                step = np.spacing(np.maximum(np.abs(rounded[finite]), info.tiny))
                self.assertLess((np.abs(result[finite] - right[finite]) / step).max(), most)


class TestErfInverses(unittest.TestCase):
    def test_values(self):
        import scipy.special

        x = T.fvector()
        made = [host_from_gpu(GpuElemwise(op)(on_gpu(x))) for op in (gpu_erfinv, gpu_erfcinv)]
        a = np.linspace(0.05, 0.95, 11, dtype="f")
        inverse, complement = theano.function([x], made, mode="FAST_RUN")(a)
        np.testing.assert_allclose(inverse, scipy.special.erfinv(a), rtol=1e-6)
        np.testing.assert_allclose(complement, scipy.special.erfcinv(a), rtol=1e-5)
        self.assertEqual(str(gpu_erfinv), "gpu_erfinv")


if __name__ == "__main__":
    unittest.main()
