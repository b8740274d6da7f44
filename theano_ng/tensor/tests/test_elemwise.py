"""Elemwise and DimShuffle: graphs, values in C and Python, memory, derivatives."""

import pickle
import unittest

import numpy as np
import scipy.special

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng import scalar
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor import elemwise_cgen
from theano_ng.tensor.elemwise import DimShuffle, Elemwise
from theano_ng.tensor.type import TensorType


def run_native(node, *values, previous=None):
    """Return the outputs of a node's native code."""
    cells = [[None] for _ in node.outputs] if previous is None else [[p] for p in previous]
    make_native_thunk(node, node.op.native_code(node), [[v] for v in values], cells)()
    return [cell[0] for cell in cells]


def run_python(node, *values):
    """Return the outputs of a node's `perform`."""
    cells = [[None] for _ in node.outputs]
    node.op.perform(node, list(values), cells)
    return [cell[0] for cell in cells]


def both(node, *values):
    """Return the outputs of native code after checking that `perform` has the same shapes, dtypes and values."""
    native, python = run_native(node, *values), run_python(node, *values)
    for a, b, out in zip(native, python, node.outputs):
        assert a.dtype == b.dtype == out.dtype, (a.dtype, b.dtype, out.dtype)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype.itemsize <= 8 and a.dtype.kind != "f" or a.dtype == "float32" else 1e-3
                                   if a.dtype == "float16" else 1e-12)  # fmt: skip
    return native


def types_of(*arrays):
    """Return one variable for each array; length 1 is broadcastable."""
    return [TensorType(str(a.dtype), [n == 1 for n in a.shape])() for a in arrays]


class MulAdd(scalar.ScalarOp):
    """A user's scalar Op with C++ support code. Its two results are ``x * y + z`` and ``x``."""

    nin, nout = 3, 2

    def output_types(self, types):
        return [types[0], types[0]]

    def impl(self, x, y, z):
        return x * y + z, x

    def c_support_code(self):
        return "template <class T> static inline T tests_mul_add(T x, T y, T z) { return x * y + z; }"

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = tests_mul_add(%s, %s, %s); %s = %s;" % (outputs[0], *inputs, outputs[1], inputs[0])

    def c_code_cache_version(self):
        return (1,)


class Refuse(scalar.UnaryScalarOp):
    """A user's scalar Op ``2 * x``. For negative x, its C code raises an exception by a call of the Python C API."""

    def output_types(self, types):
        return types

    def impl(self, x):
        return 2 * x

    def c_code(self, node, name, inputs, outputs, sub):
        return 'if (%s < 0) { PyErr_SetString(PyExc_ValueError, "negative"); %s } %s = 2 * %s;' % (
            inputs[0], sub["fail"], outputs[0], inputs[0])  # fmt: skip

    def c_code_cache_version(self):
        return (1,)


MAKERS = "make_loop", "make_loop_careduce", "make_reordered_loop"  # functions of elemwise_cgen


class LoopAdd(theano.Op):
    """An Op ``z = x + y`` whose C code `elemwise_cgen` generates. The input y may be broadcast.

    `loops` is the name of the function that generates the loops.
    """

    __props__ = ("loops",)

    def __init__(self, loops):
        self.loops = loops

    def make_node(self, x, y):
        return theano.Apply(self, [x, y], [x.type()])

    def c_code(self, node, name, inputs, outputs, sub):
        all_dims = list(range(node.inputs[0].ndim))
        orders = [all_dims, ["x" if b else d for d, b in enumerate(node.inputs[1].broadcastable)]]
        dtypes = ["npy_float64"] * 2
        names = dict(sub, lv0=inputs[0], lv1=inputs[1], olv=outputs[0])
        code = elemwise_cgen.make_declare(orders, dtypes, names) + elemwise_cgen.make_checks(orders, dtypes, names)
        code += elemwise_cgen.make_alloc(orders, "NPY_FLOAT64", names)
        names["lv2"] = "z_" + name
        code += "PyArrayObject* z_%s = %s;\n" % (name, outputs[0])
        # The output is the third operand of the loops.
        out = dict(names, lv0="z_" + name)
        code += elemwise_cgen.make_declare([all_dims], ["npy_float64"], out) + elemwise_cgen.make_checks(
            [all_dims], ["npy_float64"], out
        )
        orders, dtypes = [*orders, all_dims], [*dtypes, "npy_float64"]
        task = "z_%s_i = %s_i + %s_i;" % (name, *inputs)
        if self.loops == "make_reordered_loop":
            code += elemwise_cgen.make_reordered_loop(orders, 2, dtypes, task, names)
        else:
            tasks = [("", "")] * (len(all_dims) - 1) + [("", task)]
            code += getattr(elemwise_cgen, self.loops)(orders, dtypes, [*tasks, ""], names)
        return "{\n%s\n}" % code


class TestGraph(unittest.TestCase):
    def test_make_node_types(self):
        x, y = tt.fmatrix(), tt.dvector()
        z = tt.add(x, y)
        self.assertEqual(z.type, tt.dmatrix)
        self.assertEqual(str(z.owner.inputs[1].owner.op), "InplaceDimShuffle{x,0}")
        self.assertEqual(tt.add(tt.drow(), tt.dcol()).broadcastable, (False, False))
        self.assertEqual(tt.add(tt.drow(), tt.drow()).type, tt.drow)

    def test_no_integer_dtype_for_both(self):
        unsigned, signed = tt.vector(dtype="uint64"), tt.lvector()
        for op in (tt.and_, tt.or_, tt.xor):
            self.assertRaisesRegex(TypeError, "no integer dtype holds both", op, unsigned, signed)
            self.assertEqual(op(unsigned, tt.bvector() > 0).dtype, "uint64")

    def test_narrow_operands_do_not_wrap(self):
        b, w = tt.bvector(), tt.lvector()
        for op, expected in ((tt.add, 205), (tt.mul, 50000)):
            node = op(b, b, w).owner
            (result,) = both(node, np.array([100], "int8"), np.array([100], "int8"), np.array([5]))
            self.assertEqual(result.tolist(), [expected])

    def test_str_and_identity(self):
        self.assertEqual(str(tt.add), "Elemwise{add,no_inplace}")
        inplace = Elemwise(scalar.Add(scalar.transfer_type(0)), {0: 0})
        self.assertEqual(str(inplace), "Elemwise{Add}[(0, 0)]")
        self.assertEqual(inplace.destroy_map, {0: [0]})
        self.assertEqual(str(Elemwise(scalar.exp)), "Elemwise{exp}")
        self.assertEqual(Elemwise(scalar.add), tt.add)
        self.assertEqual(hash(Elemwise(scalar.add)), hash(tt.add))
        self.assertNotEqual(Elemwise(scalar.add, {0: 0}), Elemwise(scalar.add))
        copy = pickle.loads(pickle.dumps(inplace))
        self.assertEqual((copy, hash(copy)), (inplace, hash(inplace)))

    def test_bad_inplace(self):
        with self.assertRaisesRegex(ValueError, "inplace on an input with broadcasted dimensions"):
            Elemwise(scalar.add, {0: 0})(tt.drow(), tt.dmatrix())
        with self.assertRaisesRegex(TypeError, "Cannot do an inplace operation on incompatible data types"):
            Elemwise(scalar.add, {0: 0})(tt.fmatrix(), tt.dmatrix())

    def test_infer_shape(self):
        z = tt.add(tt.drow("r"), tt.dcol("c"))
        a, b = tt.lscalar("a"), tt.lscalar("b")
        one = tt.constant(1, dtype="int64")
        ((n, m),) = z.owner.op.infer_shape(z.owner, [(one, a), (b, one)])
        self.assertEqual((n, m), (b, a))


class TestValues(unittest.TestCase):
    def test_dtypes(self):
        rng = np.random.RandomState(1)
        dtypes = [str(t.dtype) for t in scalar.all_types if t.dtype != "bool"]
        if not theano.config.cxx:  # without a compiler, Python computes complex numbers
            dtypes = [dtype for dtype in dtypes if not dtype.startswith("complex")]
        for dtype in dtypes:
            x = (rng.rand(2, 70) * 5 + 1).astype(dtype)
            y = (rng.rand(2, 70) * 3 + 1).astype("float32" if dtype == "float16" else dtype)
            want = x + y
            (out,) = both(tt.add(*types_of(x, y)).owner, x, y)
            np.testing.assert_allclose(out, want, rtol=1e-3)
        x = np.array([True, False, True])
        (out,) = both(tt.and_(*types_of(x, x)).owner, x, ~x)
        self.assertFalse(out.any())

    def test_broadcasting_and_layouts(self):
        rng = np.random.RandomState(2)
        base = rng.rand(7, 130, 6)
        views = [
            base,
            base[::2],
            base[:, ::-1],
            base[:, :, ::3],
            base.transpose(2, 0, 1),
            np.asfortranarray(base),
            base[:0],
            base[::-1, ::-1, ::-1],
        ]
        for x in views:
            for drop in ((), (0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
                y = rng.rand(*[1 if d in drop else n for d, n in enumerate(x.shape)])
                a, b = TensorType("float64", (False,) * 3)(), TensorType("float64", [d in drop for d in range(3)])()
                np.testing.assert_array_equal(both(tt.sub(a, b).owner, x, y)[0], x - y)
                np.testing.assert_array_equal(run_native(tt.sub(b, a).owner, y, x)[0], y - x)

    def test_rows_with_numbers_of_their_own(self):
        """Native code computes differences of arrays of rank 4 with rows of any length, as NumPy does.

        The second array may be broadcast along any dimensions.
        """
        rng = np.random.RandomState(9)
        for n in (1, 7, 15, 16, 17, 33, 47, 48, 49, 100):
            x = rng.rand(3, 5, 4, n)
            for view in (x, x[:, ::2], x[::-1, :, ::3]):
                for kept in ((1,), (0, 2), (0, 1, 2), (2, 3), ()):
                    y = rng.rand(*[length if d in kept else 1 for d, length in enumerate(view.shape)])
                    a = TensorType("float64", (False,) * 4)()
                    b = TensorType("float64", [d not in kept for d in range(4)])()
                    np.testing.assert_array_equal(run_native(tt.sub(a, b).owner, view, y)[0], view - y)

    def test_output_layout(self):
        x = np.zeros((3, 4))
        a, b = tt.dmatrices(2)
        self.assertTrue(run_native((a + b).owner, x.T.copy().T, x.T.copy().T)[0].flags.f_contiguous)
        self.assertTrue(run_native((a + b).owner, x, x.T.copy().T)[0].flags.c_contiguous)
        # If operands are views, their strides determine the order of the output, in C as in Python.
        f, wide = np.asfortranarray(x), np.zeros((8, 9)).T
        for left, right, order in (
            (f[::-1], f, "F"),
            (f[:, ::-1], f[::-1, ::-1], "F"),
            (wide[:8:2], wide[1::2], "F"),
            (np.broadcast_to(x[0], x.shape), f, "F"),
            (np.broadcast_to(x[:, :1], x.shape), f, "C"),
            (f[::-1], x, "C"),
            (x[::-1], x, "C"),
            (wide[:1], wide[:1], "CF"),
            (f[:0], f[:0], "CF"),
        ):
            for got in (run_native((a + b).owner, left, right)[0], run_python((a + b).owner, left, right)[0]):
                self.assertEqual((got.flags.c_contiguous, got.flags.f_contiguous), ("C" in order, "F" in order))
                np.testing.assert_array_equal(got, left + right)

    def test_one_thunk_for_changing_shapes(self):
        a, b = tt.dmatrices(2)
        node = (a * b).owner
        ins, outs = [[None], [None]], [[None]]
        thunk = make_native_thunk(node, node.op.native_code(node), ins, outs)
        rng = np.random.RandomState(3)
        for shape in ((3, 4), (3, 4), (4, 3), (0, 3), (1, 1), (50, 60), (3, 4)):
            for order in "CF":
                x, y = rng.rand(*shape), np.asarray(rng.rand(*shape), order=order)
                ins[0][0], ins[1][0] = x, y
                thunk()
                np.testing.assert_array_equal(outs[0][0], x * y)

    def test_mismatch(self):
        cases = [
            (tt.dvector, tt.dvector, (3,), (2,), "input[0].shape[0] = 3, input[1].shape[0] = 2"),
            (tt.dmatrix, tt.dmatrix, (1, 3), (2, 3), "input[0].shape[0] = 1, input[1].shape[0] = 2"),
            (tt.dmatrix, tt.dmatrix, (2, 0), (2, 1), "input[0].shape[1] = 0, input[1].shape[1] = 1"),
            (tt.dmatrix, tt.drow, (2, 3), (2, 3), "input[1].shape[0] = 2"),
        ]
        for s, t, m, n, text in cases:
            node = (s() + t()).owner
            for run in (run_native, run_python):
                with self.assertRaises(ValueError) as caught:
                    run(node, np.zeros(m), np.zeros(n))
                self.assertIn("Input dimension mis-match. (" + text, str(caught.exception))

    def test_odd_inputs(self):
        node = (tt.dvector() + tt.dvector()).owner
        misaligned = np.zeros(81, "u1")[1:].view("f8")
        misaligned[:] = 2
        swapped = np.arange(10).astype(">f8")
        np.testing.assert_array_equal(run_native(node, misaligned, swapped)[0], swapped + 2)
        with self.assertRaises(TypeError):
            run_native(node, np.zeros(3, "float32"), np.zeros(3))
        with self.assertRaises(ValueError):
            run_native(node, 1.0, np.zeros(3))

    def test_special_values(self):
        x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324] * 9)
        for op, function in (
            (tt.exp, np.exp),
            (tt.log, np.log),
            (tt.sqrt, np.sqrt),
            (tt.isnan_, np.isnan),
            (tt.inv, np.reciprocal),
        ):
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(run_native(op(tt.dvector()).owner, x)[0], function(x), rtol=1e-14)

    def test_values_do_not_depend_on_numpys_ways(self):
        # If all exponents are 0.5 with stride 0, NumPy computes square roots. It computes float16 and float32 powers in
        # their own precision.
        x = np.array([[-np.inf, -0.0, 4.0, -1.0]])
        for dtype in ("float64", "float32"):
            for y in (np.full((1, 4), 0.5), np.array([[0.5]])):
                values = x.astype(dtype), y.astype(dtype)
                (z,) = both(tt.pow(*types_of(*values)).owner, *values)
                np.testing.assert_array_equal(np.signbit(z[0, 1]), False)
                np.testing.assert_array_equal(z, [[np.inf, 0, 2, np.nan]])
        x, y = np.array([1, -1, -1, 2, 0, 3, -2], "int32"), np.array([-3, -2, -3, -1, -1, 2, 3], "int64")
        for values in ((x, y), (x.astype("int64"), y[::-1].astype("int8"))):
            (z,) = both(tt.pow(*types_of(*values)).owner, *values)
            with np.errstate(divide="ignore"):
                np.testing.assert_array_equal(
                    np.where(values[0] == 0, 0, z),
                    np.where(values[0] == 0, 0, np.trunc(np.power(values[0].astype(float), values[1]))),
                )
            np.testing.assert_array_equal(z[values[0] == 0], 0)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_angles_are_float64(self):
        for dtype in ("float16", "float32", "complex64"):
            (z,) = both(tt.angle(TensorType(dtype, (False,))()).owner, np.array([-1, 2, -0.5], dtype))
            np.testing.assert_allclose(z, [np.pi, 0, np.pi], rtol=1e-15)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_user_scalar_op(self):
        op = Elemwise(MulAdd())
        x, y, z = (np.arange(6.0).reshape(2, 3) + k for k in range(3))
        out, same = both(op.make_node(tt.dmatrix(), tt.dmatrix(), tt.dmatrix()), x, y, z)
        np.testing.assert_array_equal(out, x * y + z)
        np.testing.assert_array_equal(same, x)

    def test_composite(self):
        i, j = scalar.float64("i"), scalar.float64("j")
        op = Elemwise(scalar.Composite([i, j], [scalar.exp(i) * j + i, i - j]))
        x, y = np.random.RandomState(4).rand(3, 50), np.random.RandomState(5).rand(1, 50)
        first, second = both(op.make_node(tt.dmatrix(), tt.drow()), x, y)
        np.testing.assert_allclose(first, np.exp(x) * y + x, rtol=1e-14)
        np.testing.assert_array_equal(second, x - y)

    def test_composite_for_other_types(self):
        # A Composite computes in the dtypes of the node, not in those of its definition: float64 cannot hold these
        # int64, and exp(90) overflows float32.
        x, y = scalar.float64("x"), scalar.float64("y")
        op = Elemwise(scalar.Composite([x, y], [x + y, scalar.exp(x) * y]))
        big = np.array([2**62 + 1])
        total, _ = both(op(tt.lvector(), tt.lvector())[0].owner, big, np.array([3]))
        self.assertEqual((total.dtype, total[0]), (np.dtype("int64"), 2**62 + 4))
        _, product = both(op(tt.fvector(), tt.dvector())[0].owner, np.array([90.0], "float32"), np.array([2.0]))
        self.assertEqual((product.dtype, product[0]), (np.dtype("float64"), np.inf))
        node = op(tt.dvector(), tt.dvector())[0].owner
        self.assertIs(node.op, op)

    def test_many_inputs(self):
        xs = [np.full((2, 3), float(k)) for k in range(70)]
        (out,) = both(tt.add.make_node(*[tt.dmatrix() for _ in xs]), *xs)
        np.testing.assert_array_equal(out, np.full((2, 3), sum(range(70))))


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestClassicCode(unittest.TestCase):
    def test_loops_for_other_ops(self):
        x, r, c = tt.dmatrix(), tt.drow(), tt.dcol()
        f = theano.function([x, r, c], [LoopAdd(make)(x, v) for make in MAKERS for v in (r, c)])
        xv, rv, cv = np.random.rand(6, 5)[::2, ::-1], np.random.rand(1, 5), np.random.rand(3, 1)
        for got, want in zip(f(xv, rv, cv), (xv + rv, xv + cv) * len(MAKERS)):
            np.testing.assert_array_equal(got, want)
        with self.assertRaisesRegex(ValueError, r"input\[0\].shape\[1\] = 5, input\[1\].shape\[1\] = 4"):
            f(xv, rv[:, :4], cv)

    def test_loops_over_no_dimension(self):
        """The loops over 0-d operands run each task once. The list of tasks may contain only the last task."""
        x, y = tt.dscalars("x", "y")
        f = theano.function([x, y], [LoopAdd(make)(x, y) for make in MAKERS])
        self.assertEqual([float(z) for z in f(2.5, -1.0)], [1.5] * len(MAKERS))
        sub = dict(lv0="a", lv1="b")
        for tasks, want in (
            ([("first();", "second();"), "last();"], ["first();", "second();", "last();"]),
            (["last();"], ["last();"]),
        ):
            code = elemwise_cgen.make_loop([[], []], ["double", "float"], tasks, sub)
            self.assertEqual([word for word in code.split() if word.endswith("();")], want)

    def test_linker_c(self):
        x, y = tt.dmatrix(), tt.drow()
        z = tt.vector(dtype="float16")
        mode = theano.compile.mode.Mode(linker="c", optimizer=None)
        f = theano.function([x, y, z], [tt.exp(x) * y, (x + y).sum(axis=0), z * z], mode=mode)
        xv, yv, zv = np.random.rand(2, 3), np.random.rand(1, 3), np.array([1, 2], "float16")
        for got, want in zip(f(xv, yv, zv), (np.exp(xv) * yv, (xv + yv).sum(0), zv * zv)):
            np.testing.assert_allclose(got, want)

    def test_scalar_code_that_raises(self):
        x = tt.dvector()
        f = theano.function([x], Elemwise(Refuse())(x))
        np.testing.assert_array_equal(f([1.0, 2.0]), [2.0, 4.0])
        with self.assertRaisesRegex(ValueError, "negative"):
            f([1.0, -2.0])


class TestMemory(unittest.TestCase):
    def test_inplace(self):
        for pattern in (0, 1):
            node = Elemwise(scalar.sub, {0: pattern}).make_node(tt.dmatrix(), tt.dmatrix())
            for run in (run_native, run_python):
                for order in "CF":
                    values = [np.asarray(np.random.rand(5, 60), order=order), np.random.rand(10, 60)[::2]]
                    want = values[0] - values[1]
                    (out,) = run(node, *values)
                    self.assertIs(out, values[pattern])
                    np.testing.assert_array_equal(out, want)

    def test_inplace_on_overlapping_views(self):
        node = Elemwise(scalar.sub, {0: 0}).make_node(tt.dvector(), tt.dvector())
        x = np.arange(3000.0) ** 2
        want = x[1:] - x[:-1]
        run_native(node, x[1:], x[:-1])
        np.testing.assert_array_equal(x[1:], want)

    def test_inplace_on_readonly_makes_a_new_array(self):
        node = Elemwise(scalar.add, {0: 0}).make_node(tt.dvector(), tt.dvector())
        x = np.broadcast_to(1.0, (4,))
        for run in (run_native, run_python):
            np.testing.assert_array_equal(run(node, x, np.ones(4))[0], np.full(4, 2.0))
        np.testing.assert_array_equal(x, np.ones(4))

    def test_previous_output(self):
        node = (tt.dvector() + tt.dvector()).owner
        x, good = np.ones(5), np.empty(5)
        self.assertIs(run_native(node, x, x, previous=[good])[0], good)
        for bad in (np.empty(4), np.empty(5, "float32"), np.empty(10)[::2], np.broadcast_to(0.0, (5,)), x, x[::-1]):
            (out,) = run_native(node, x, x, previous=[bad])
            self.assertIsNot(out, bad)
            np.testing.assert_array_equal(out, np.full(5, 2.0))
        np.testing.assert_array_equal(x, np.ones(5))

    def test_large_blocks_are_recycled_and_bounded(self):
        from theano_ng.tensor.native import alloc

        node = tt.exp(tt.fvector()).owner
        thunk_values = np.zeros(1 << 19, "float32")
        alloc.trim()
        hits = alloc.stats()["hits"]
        for _ in range(3):
            (out,) = run_native(node, thunk_values)
            self.assertTrue(out.flags.owndata)
            np.testing.assert_array_equal(out[::1000], 1.0)
            del out
        self.assertEqual(alloc.stats()["hits"] - hits, 2)
        arrays = [run_native(node, thunk_values)[0] for _ in range(70)]
        arrays[0].resize(1 << 20, refcheck=False)
        self.assertEqual((arrays[0][0], arrays[0][-1]), (1.0, 0.0))
        del arrays
        stats = alloc.stats()
        self.assertLessEqual(stats["kept_blocks"], 64)
        self.assertLessEqual(stats["kept_bytes"], 256 << 20)
        alloc.trim()
        self.assertEqual(alloc.stats()["kept_bytes"], 0)

    def test_empty(self):
        """`alloc.empty` returns arrays like those of `numpy.empty`, also small ones and arrays of objects.

        It reuses the memory of large arrays that were freed.
        """
        from theano_ng.tensor.native import alloc

        for shape, dtype in [
            ((), "int8"),
            (3, "float32"),
            ((0, 4), "bool"),
            ((600, 700), "float64"),
            ((600, 700), ">f8"),
            ((2,), object),
        ]:
            made = alloc.empty(shape, np.dtype(dtype))
            like = np.empty(shape, dtype)
            self.assertEqual((made.dtype, made.shape, made.strides), (like.dtype, like.shape, like.strides))
            self.assertTrue(made.flags.carray or not made.dtype.isnative)
        alloc.trim()
        hits = alloc.stats()["hits"]
        for _ in range(3):
            alloc.empty((600, 700), "float64")[:] = 1
        self.assertEqual(alloc.stats()["hits"] - hits, 2)
        self.assertRaises(ValueError, alloc.empty, (-1,), "float64")
        self.assertRaises(ValueError, alloc.empty, (2**62, 2**62), "float64")
        self.assertRaises(TypeError, alloc.empty, "a", "float64")
        self.assertRaises(TypeError, alloc.empty, 3, "no dtype")


class TestDimShuffle(unittest.TestCase):
    def test_values_views_and_copies(self):
        x = np.arange(12.0).reshape(3, 1, 4)[:, :, ::2]
        pattern = (False, True, False)
        for order in ((2, 1, 0), (0, 2), ("x", 2, "x", 0), (2, "x", 0, 1), ("x", "x", 0, 2)):
            want = x.transpose([d for d in order if d != "x"] + ([1] if 1 not in order else []))
            want = want.reshape([1 if d == "x" else x.shape[d] for d in order])
            for inplace in (True, False):
                op = DimShuffle(pattern, order, inplace=inplace)
                node = op.make_node(TensorType("float64", pattern)())
                self.assertEqual(node.outputs[0].broadcastable, tuple(d == "x" or pattern[d] for d in order))
                for run in (run_native, run_python):
                    (out,) = run(node, x)
                    np.testing.assert_array_equal(out, want)
                    self.assertEqual(np.may_share_memory(out, x), inplace)

    def test_str_and_errors(self):
        self.assertEqual(str(DimShuffle((False,), ["x", 0])), "InplaceDimShuffle{x,0}")
        self.assertEqual(str(DimShuffle((False, False), [1, 0], inplace=False)), "DimShuffle{1,0}")
        with self.assertRaisesRegex(ValueError, "cannot drop a non-broadcastable dimension"):
            DimShuffle((False, False), [0])
        for bad in ([0, 0], [0, 2], [0, -1]):
            self.assertRaises(ValueError, DimShuffle, (True, True), bad)
        self.assertRaises(TypeError, DimShuffle, (True,), [0.5])
        node = DimShuffle((True, False), [1]).make_node(tt.drow())
        for run in (run_native, run_python):
            self.assertRaises(ValueError, run, node, np.zeros((2, 3)))
        self.assertRaises(TypeError, DimShuffle((True, False), [1]).make_node, tt.dmatrix())

    def test_readonly_stays_readonly(self):
        x = np.broadcast_to(1.0, (2, 3))
        (out,) = run_native(DimShuffle((False, False), [1, 0]).make_node(tt.dmatrix()), x)
        self.assertFalse(out.flags.writeable)


class TestDerivatives(unittest.TestCase):
    def test_gradient_of_broadcast_inputs(self):
        x, r, c, s = tt.dmatrix("x"), tt.drow("r"), tt.dcol("c"), tt.dscalar("s")
        cost = (tt.exp(x * r) * c + s / (1 + x**2)).sum()
        f = theano.function([x, r, c, s], theano.grad(cost, [x, r, c, s]))
        rng = np.random.RandomState(0)
        xv, rv, cv, sv = rng.rand(2, 3), rng.rand(1, 3), rng.rand(2, 1), 0.7
        e, q = np.exp(xv * rv), 1 + xv**2
        want = [
            rv * e * cv - 2 * sv * xv / q**2,
            (xv * e * cv).sum(0, keepdims=True),
            e.sum(1, keepdims=True),
            (1 / q).sum(),
        ]
        for got, expected in zip(f(xv, rv, cv, sv), want):
            np.testing.assert_allclose(got, expected, rtol=1e-12)

    def test_R_op(self):
        x, v = tt.dvectors("x", "v")
        f = theano.function([x, v], theano.gradient.Rop(tt.tanh(x) * x, x, v))
        xv, vv = np.array([0.1, 0.5, -1.0]), np.array([1.0, 2.0, -1.0])
        np.testing.assert_allclose(f(xv, vv), vv * (np.tanh(xv) + xv * (1 - np.tanh(xv) ** 2)))
        # SciPy has only the derivative of jv with respect to the second argument, so R_op raises for the first one.
        v = tt.dvector("v")
        f = theano.function([v, x], theano.gradient.Rop(tt.jv(v, x), x, x))
        np.testing.assert_allclose(f([1.0], [2.0]), 2 * (scipy.special.jv(0, 2) - scipy.special.jv(2, 2)) / 2)
        with self.assertRaisesRegex(NotImplementedError, "R_op"):
            theano.gradient.Rop(tt.jv(v, x), v, x)
        # The direction is broadcast, so it has fewer elements than the output.
        m, r, d = tt.dmatrix("m"), tt.drow("r"), tt.drow("d")
        for out, want in ((m * r, 3.0), (r + m, 1.0), (r // m, 0.0)):
            f = theano.function([m, r, d], theano.gradient.Rop(out, r, d), on_unused_input="ignore")
            np.testing.assert_allclose(f(np.full((2, 3), 3.0), np.ones((1, 3)), np.ones((1, 3))), np.full((2, 3), want))

    def test_deep_scalar_gradient_does_not_recurse(self):
        i = scalar.float64("i")
        out = i
        for _ in range(3000):
            out = scalar.sin(out)
        x = tt.dscalar("x")
        y = Elemwise(scalar.Composite([i], [out]))(x)
        self.assertEqual(theano.grad(y, x).type, tt.dscalar)


class TestArgumentsOfCompilers(unittest.TestCase):
    def test_what_an_op_asks_for(self):
        """A kernel is compiled with all arguments, folders, libraries and headers that the C code of an Op names."""

        class Asking(scalar.UnaryScalarOp):
            output_types_preference = staticmethod(scalar.same_out)

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = %s;" % (outputs[0], inputs[0])

            def c_compile_args(self):
                return ["-DASKED"]

            def c_header_dirs(self):
                return ["/headers"]

            def c_lib_dirs(self):
                return ["/libraries"]

            def c_libraries(self):
                return ["m"]

            def c_headers(self):
                return ["<math.h>", "stdlib.h"]

        node = Elemwise(Asking()).make_node(tt.dvector())
        (kernel,) = node.op.native_code(node).kernels
        for argument in ("-DASKED", "-I/headers", "-L/libraries"):
            self.assertIn(argument, kernel.compile_args)
        self.assertEqual(kernel.libraries, ("m",))
        self.assertEqual(kernel.headers, ("<math.h>", "<stdlib.h>"))


if __name__ == "__main__":
    unittest.main()
