"""Tests of reductions on devices, compared with NumPy."""

import io
import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.gpuarray.tests.device import context
from theano_ng.gradient import verify_grad


def setUpModule():
    context()
    from theano_ng.gof.native import make_native_thunk, obtain_kernels
    from theano_ng.gpuarray import basic_ops, elemwise
    from theano_ng.gpuarray.contexts import get_context
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    globals().update(
        {name: getattr(elemwise, name) for name in elemwise.__all__},
        as_gpuarray_variable=basic_ops.as_gpuarray_variable,
        host_from_gpu=basic_ops.host_from_gpu,
    )
    globals().update(
        pygpu=pygpu, get_context=get_context, make_native_thunk=make_native_thunk, obtain_kernels=obtain_kernels
    )


def on_gpu(v):
    return as_gpuarray_variable(v, "test")


def run(node, value):
    """Run the kernels of a node; return the result as an array of the host."""
    cell = [None]
    make_native_thunk(node, node.op.native_code(node), [[value]], [cell])()
    return np.asarray(cell[0])


def on_device(a, **kwargs):
    return pygpu.array(a, context=get_context("test"), **kwargs)


class TestValues(unittest.TestCase):
    def node(self, op, dtype="float32", ndim=3, **kwargs):
        return GpuCAReduceCuda(op, **kwargs)(on_gpu(T.TensorType(dtype, (False,) * ndim)()).type()).owner

    def test_all_patterns_of_axes(self):
        # Each pattern is tested, because patterns with equal numbers of kept and reduced axes share their kernels.
        rng = np.random.default_rng(0)
        shapes = ((3, 4, 5), (1, 70, 2), (2, 3, 300), (130, 2, 3))
        for mask in itertools.product((0, 1), repeat=3):
            axes = tuple(d for d in range(3) if mask[d])
            node = self.node(scalar.add, reduce_mask=mask)
            self.assertEqual(node.op.reduce_mask, mask)
            for shape in shapes:
                a = rng.random(shape, dtype="f")
                expected = a.astype("float64").sum(axis=axes)
                for x in (
                    on_device(a),
                    on_device(np.asfortranarray(a), order="F"),
                    on_device(a[::-1, :, ::-1])[::-1, :, ::-1],
                    on_device(np.repeat(a, 2, axis=1))[:, ::2],
                ):
                    with self.subTest(mask=mask, shape=shape, strides=x.strides):
                        found = run(node, x)
                        self.assertEqual(found.shape, expected.shape)
                        np.testing.assert_allclose(found, expected, rtol=2e-6)

    def test_long_ones_in_two_launches(self):
        rng = np.random.default_rng(1)
        for shape, axis in (((300000,), (0,)), ((20000, 7), (0,)), ((3, 100001), (1,))):
            a = rng.random(shape, dtype="f")
            node = self.node(scalar.add, ndim=len(shape), axis=axis)
            x = on_device(a)
            found = run(node, x)
            # On a CPU, columns are summed in pieces of at least 4096 elements. So the rounding errors are larger.
            np.testing.assert_allclose(found, a.astype("float64").sum(axis=axis), rtol=4e-6 if axis == (0,) else 1e-6)
            for _ in range(3):
                np.testing.assert_array_equal(run(node, x), found)

    def test_operations_and_dtypes(self):
        rng = np.random.default_rng(2)
        ufuncs = dict(add=np.add, mul=np.multiply, maximum=np.maximum, minimum=np.minimum)
        ufuncs.update(and_=np.bitwise_and, or_=np.bitwise_or, xor=np.bitwise_xor)
        names = dict(
            float64="add mul maximum minimum",
            float16="add maximum",
            int8="add maximum xor",
            uint64="minimum and_ or_",
            bool="and_ or_ add",
        )
        nodes = []
        for dtype, ops in names.items():
            nodes += [(name, dtype, self.node(getattr(scalar, name), dtype, 2, axis=1)) for name in ops.split()]
        obtain_kernels(
            [kernel for _, _, node in nodes for kernel in node.op.native_code(node).kernels]
        )  # all in one program
        for name, dtype, node in nodes:
            a = (rng.random((5, 67)) * 3 + 1).astype(dtype) if dtype != "bool" else rng.random((5, 67)) > 0.1
            out = node.outputs[0].dtype
            with self.subTest(name, dtype=dtype):
                found = run(node, on_device(a))
                expected = ufuncs[name].reduce(a.astype(node.op.acc_dtype), axis=1).astype(out)
                self.assertEqual(found.dtype, out)
                np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-14)

    def test_nan(self):
        a = np.ones((2, 100), "f")
        a[0, 63] = np.nan
        for op in (scalar.maximum, scalar.minimum, scalar.add):
            found = run(self.node(op, ndim=2, axis=1), on_device(a))
            self.assertEqual(np.isnan(found).tolist(), [True, False])
            self.assertEqual(np.isnan(run(self.node(op, ndim=2, axis=0), on_device(a.T))).tolist(), [True, False])

    def test_no_elements(self):
        add, most = self.node(scalar.add, ndim=2, axis=0), self.node(scalar.maximum, ndim=2, axis=0)
        np.testing.assert_array_equal(run(add, on_device(np.zeros((0, 3), "f"))), np.zeros(3))
        self.assertEqual(run(add, on_device(np.zeros((3, 0), "f"))).shape, (0,))
        self.assertEqual(run(most, on_device(np.zeros((3, 0), "f"))).shape, (0,))
        with self.assertRaisesRegex(ValueError, "length 0 in dimension 0"):
            run(most, on_device(np.zeros((0, 3), "f")))
        np.testing.assert_array_equal(
            run(self.node(scalar.mul, "float64", 2, axis=0), on_device(np.zeros((0, 3)))), np.ones(3)
        )

    def test_what_is_applied_first(self):
        a = np.arange(-6, 6, dtype="f").reshape(3, 4)
        node = self.node(scalar.add, ndim=2, reduce_mask=(1, 0), pre_scalar_op=scalar.sqr)
        np.testing.assert_array_equal(run(node, on_device(a)), (a * a).sum(0))
        cell = [None]
        node.op.perform(node, [on_device(a)], [cell])
        np.testing.assert_array_equal(np.asarray(cell[0]), (a * a).sum(0))
        self.assertEqual(str(node.op), "GpuCAReduceCuda{pre=sqr,red=add}{0}")

    def test_an_op_of_the_user(self):
        class Hypotenuse(scalar.BinaryScalarOp):
            """A scalar Op that is not idempotent and defines no identity."""

            output_types_preference = staticmethod(scalar.upcast_out)

            def impl(self, x, y):
                return np.hypot(x, y)

            def c_expression(self, args, dtypes, out):
                return "hypot(%s, %s)" % tuple(args)

        a = np.random.default_rng(4).random((4, 37))
        node = self.node(Hypotenuse(), "float64", 2, axis=1)
        np.testing.assert_allclose(run(node, on_device(a)), np.sqrt((a * a).sum(1)), rtol=1e-14)


class TestThreads(unittest.TestCase):
    """Tests of the kernels for GPUs, which use threads and local memory of work groups; here they run on a CPU."""

    @classmethod
    def setUpClass(cls):
        from theano_ng.gpuarray.kernels.elemwise import _KernelSource
        from theano_ng.gpuarray.kernels.reduce import reduce_text, reduction_program
        from theano_ng.gpuarray.kernels.scalar_code import PROLOGUE
        from theano_ng.loops.program import Access, elementwise_program

        add, most = [
            reduce_text(reduction_program(op, None, "float32", "float32", "float32"), 1, 1)
            for op in (scalar.add, scalar.maximum)
        ]
        strided = _KernelSource(
            elementwise_program(
                scalar.add, ("float32", "float32"), ("float32",), (Access.VARYING, Access.MAYBE_BROADCAST)
            )
        )
        texts = [add.source, most.source, strided.strided(2), strided.contiguous()]
        source = "\n".join(text.replace("KERNEL_NAME", "k%d" % k) for k, text in enumerate(texts))
        types = (add.types, most.types, strided.strided_types(2), strided.contiguous_types())
        cls.kernels = pygpu.build(
            "#undef GA_PROCESSOR\n" + PROLOGUE + source,
            [("k%d" % k, kind) for k, kind in enumerate(types)],
            get_context("test"),
        )

    def reduced(self, kernel, a, by_column, groups, group, pieces=1):
        """Reduce the rows or the columns of a matrix with a kernel."""
        outputs, length = a.shape[::-1] if by_column else a.shape
        steps = (1, a.shape[1]) if by_column else (a.shape[1], 1)
        z, parts = [on_device(np.zeros(outputs * k, "f")) for k in (1, pieces)]
        piece = -(-length // pieces)
        kernel(
            outputs,
            length,
            piece,
            np.uint32(by_column),
            on_device(a),
            0,
            *steps,
            z,
            0,
            parts,
            gs=(groups, pieces),
            ls=group,
        )
        return np.asarray(z) if pieces == 1 else np.asarray(parts).reshape(outputs, pieces)

    def test_reductions(self):
        rng = np.random.default_rng(0)
        a = rng.random((13, 75), dtype="f")
        for by_column, group in itertools.product((0, 1), ((64, 1), (8, 8), (1, 16), (4, 1))):
            for groups in (1, 3):
                with self.subTest(by_column=by_column, group=group, groups=groups):
                    add, most = self.kernels[:2]
                    np.testing.assert_allclose(
                        self.reduced(add, a, by_column, groups, group), a.sum(1 - by_column), rtol=1e-5
                    )
                    np.testing.assert_array_equal(self.reduced(most, a, by_column, groups, group), a.max(1 - by_column))
                    found = self.reduced(add, a, by_column, groups, group, 3)
                    np.testing.assert_allclose(found.sum(1), a.sum(1 - by_column), rtol=1e-5)

    def test_no_elements(self):
        np.testing.assert_array_equal(self.reduced(self.kernels[0], np.zeros((3, 0), "f"), 0, 1, (8, 8)), np.zeros(3))

    def test_elementwise(self):
        a, b = np.arange(60, dtype="f").reshape(12, 5), np.arange(12, dtype="f")
        for groups, group in (((1, 1), (4, 2)), ((2, 3), (8, 1)), ((1, 1), (1, 1))):
            z = on_device(np.zeros((12, 5), "f"))
            self.kernels[2](12, 5, on_device(a), 0, 5, 1, on_device(b), 0, 1, 0, z, 0, 5, 1, gs=groups, ls=group)
            np.testing.assert_array_equal(np.asarray(z), a + b[:, None])
        z = on_device(np.zeros((12, 5), "f"))
        self.kernels[3](60, on_device(a), 0, on_device(a), 0, z, 0, gs=3, ls=8)
        np.testing.assert_array_equal(np.asarray(z), a + a)


class TestNodes(unittest.TestCase):
    def test_masks_and_axes(self):
        x = on_gpu(T.fmatrix())
        self.assertEqual(GpuCAReduceCuda(scalar.add, axis=-1)(x).owner.op.reduce_mask, (0, 1))
        self.assertEqual(GpuCAReduceCuda(scalar.add)(x).owner.op.reduce_mask, (1, 1))
        self.assertEqual(GpuCAReduceCuda(scalar.add, reduce_mask=(0, 0))(x).type, x.type)
        with self.assertRaisesRegex(ValueError, "not name the same"):
            GpuCAReduceCuda(scalar.add, axis=0, reduce_mask=(0, 1))
        with self.assertRaisesRegex(TypeError, "reduce_mask for 3 axes"):
            GpuCAReduceCuda(scalar.add, reduce_mask=(0, 1, 1))(x)
        with self.assertRaisesRegex(ValueError, "axis 2"):
            GpuCAReduceCuda(scalar.add, axis=2)(x)

    def test_names(self):
        self.assertEqual(str(GpuCAReduceCuda(scalar.add, axis=(0, 1))), "GpuCAReduceCuda{add}{0, 1}")
        self.assertEqual(str(GpuCAReduceCPY(scalar.add)), "GpuReduce{add}")
        self.assertIs(GpuCAReduce, GpuCAReduceCPY)

    def test_pickle(self):
        op = gpu_ca_reduce_cuda(scalar.add, None, (1, 0), "float32", "float64", scalar.sqr)
        self.assertEqual(pickle.loads(pickle.dumps(op)), op)

    def test_accumulators(self):
        for dtype, acc in (
            ("float16", "float32"),
            ("float32", "float32"),
            ("float64", "float64"),
            ("int8", "int64"),
            ("bool", "int64"),
        ):
            node = GpuCAReduceCuda(scalar.add)(on_gpu(T.TensorType(dtype, (False,))())).owner
            self.assertEqual(node.op.acc_dtype, acc)
        x = on_gpu(T.fvector())
        self.assertEqual(GpuCAReduceCuda(scalar.add, acc_dtype="float64")(x).owner.op.acc_dtype, "float64")

    def test_what_there_are_kernels_for(self):
        x = on_gpu(T.fmatrix())
        self.assertTrue(GpuCAReduceCuda(scalar.maximum, reduce_mask=(1, 0)).supports_c_code([x]))
        self.assertFalse(GpuCAReduceCuda(scalar.add, pre_scalar_op=scalar.angle).supports_c_code([on_gpu(T.zvector())]))

    def test_code_of_modules(self):
        node = GpuCAReduceCuda(scalar.add, reduce_mask=(0, 1, 1))(on_gpu(T.ftensor3())).owner
        text = io.StringIO()
        node.op.c_code_reduce_01X(text, node, "n", "V3", "V1", "goto fail;", 2)
        self.assertIn('native_entry("theano_ng.gpuarray.native.reduce", "reduce")', text.getvalue())
        with self.assertRaises(ValueError):
            node.op.c_code_reduce_01X(text, node, "n", "V3", "V1", "goto fail;", 1)

    def test_functions(self):
        x = T.fmatrix()
        a = np.arange(6, dtype="f").reshape(2, 3)
        for make in (GpuCAReduceCuda, GpuCAReduceCPY):
            f = theano.function([x], host_from_gpu(make(scalar.maximum, 1)(on_gpu(x))), mode="DebugMode")
            np.testing.assert_array_equal(f(a), a.max(1))
        shape = theano.function([x], make(scalar.add, 0)(on_gpu(x)).shape, mode="FAST_RUN")
        self.assertEqual(shape(a).tolist(), [3])


class TestDerivatives(unittest.TestCase):
    def test_gradients(self):
        a = np.random.default_rng(5).random((3, 4)) + 0.5
        cases = [dict(scalar_op=scalar.add), dict(scalar_op=scalar.mul), dict(scalar_op=scalar.maximum)]
        cases.append(dict(scalar_op=scalar.add, pre_scalar_op=scalar.sqr))
        for case in cases:
            verify_grad(
                lambda x, case=case: host_from_gpu(GpuCAReduceCuda(axis=1, **case)(on_gpu(x))),
                [a],
                rng=np.random.RandomState(0),
                mode="FAST_COMPILE",
            )

    def test_directional_derivative(self):
        x, e = T.dmatrix(), T.dmatrix()
        out = host_from_gpu(GpuCAReduceCuda(scalar.add, axis=0, pre_scalar_op=scalar.sqr)(on_gpu(x)))
        f = theano.function([x, e], theano.Rop(out, x, e), mode="FAST_COMPILE")
        a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
        np.testing.assert_allclose(f(a, b), (2 * a * b).sum(0))


if __name__ == "__main__":
    unittest.main()
