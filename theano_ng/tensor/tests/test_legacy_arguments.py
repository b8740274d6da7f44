"""The tensor module accepts the arguments and provides the names that programs written for Theano 1.0 use."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.raise_op import CheckAndRaise
from theano_ng.tensor import fourier, star_names
from theano_ng.tensor.basic import NotScalarConstantError
from theano_ng.tensor.opt import Assert
from theano_ng.tensor.utils import hash_from_ndarray

PYTHON = Mode("py", None)
FAST = Mode("cvm", None)


class TestAxes(unittest.TestCase):
    REDUCTIONS = "sum prod max min mean var std all any argmax argmin".split()

    def test_axes_given_twice(self):
        """An axis that is given twice counts once, for every reduction."""
        value = np.arange(24.0).reshape(2, 3, 4)
        x = T.dtensor3("x")
        for axes, once in (
            ([0, 0], 0),
            ((1, -2), 1),
            ([0, 1, 0, -3], (0, 1)),
            (np.array([2, 2]), 2),
            ([2, 0, 2, 1, 0], None),
        ):
            outputs, wanted = [], []
            for name in self.REDUCTIONS:
                if name.startswith("arg") and isinstance(once, tuple):
                    continue  # NumPy's argmax and argmin accept one axis only
                for keepdims in (False, True):
                    outputs.append(getattr(T, name)(x, axis=axes, keepdims=keepdims))
                    wanted.append(getattr(np, name)(value, axis=once, keepdims=keepdims))
            for found, expected, output in zip(theano.function([x], outputs, mode=PYTHON)(value), wanted, outputs):
                np.testing.assert_allclose(found, expected, err_msg=str(output))
                self.assertEqual(output.ndim, expected.ndim)
            largest, place = T.max_and_argmax(x, axis=axes)
            self.assertEqual((largest.ndim, place.ndim), (outputs[0].ndim,) * 2)
            self.assertEqual(x.norm(2, axis=axes).ndim, outputs[0].ndim)
        x = T.dvector("x")
        self.assertEqual(theano.grad(T.max(x, axis=[0, 0]), x).eval({x: [1.0, 3.0, 2.0]}).tolist(), [0, 1, 0])

    def test_other_axes(self):
        x = T.dmatrix("x")
        for name in self.REDUCTIONS:
            reduce = getattr(T, name)
            for axis, kind in (
                (2, ValueError),
                (-3, ValueError),
                ([0, 2], ValueError),
                ("a", ValueError),
                ([None], TypeError),
            ):
                self.assertRaises(kind, reduce, x, axis=axis)

    def test_sorting_along_an_axis_of_floats(self):
        value = np.array([[3.0, 1.0, 2.0], [2.0, 5.0, 4.0]])
        m = T.dmatrix("m")
        for dtype in ("float16", "float32", "float64", "int8", "uint16"):
            axis = T.TensorType(dtype, ())("axis")
            for mode in (PYTHON, FAST):
                f = theano.function([m, axis], [T.sort(m, axis), T.argsort(m, axis)], mode=mode)
                for number in (0, 1) + ((-1,) if dtype[0] != "u" else ()):
                    ours = f(value, np.dtype(dtype).type(number))
                    for found, numpy_function in zip(ours, (np.sort, np.argsort)):
                        np.testing.assert_array_equal(found, numpy_function(value, number))
                self.assertRaises((ValueError, IndexError), f, value, np.dtype(dtype).type(2))
                if dtype.startswith("float"):
                    for number in (0.5, np.nan, np.inf):
                        self.assertRaises((ValueError, OverflowError), f, value, np.dtype(dtype).type(number))
        self.assertRaises(TypeError, T.sort, m, T.zscalar())
        axis = T.dscalar("axis")
        slope = T.grad((T.sort(m, axis) * T.arange(3)).sum(), m, disconnected_inputs="ignore")
        np.testing.assert_array_equal(
            theano.function([m, axis], slope, mode=PYTHON)(value, 1.0), [[2, 0, 1], [0, 2, 1]]
        )


class TestShapes(unittest.TestCase):
    def test_patterns_of_some_dimensions(self):
        m = T.dmatrix("m")
        self.assertIs(T.patternbroadcast(m, ()), m)
        self.assertIs(T.patternbroadcast(m, (False,)), m)
        self.assertEqual(T.patternbroadcast(m, (True,)).broadcastable, (True, False))
        self.assertEqual(T.patternbroadcast(T.row(), (False,)).broadcastable, (False, False))
        self.assertRaises(ValueError, T.patternbroadcast, m, (True, False, True))

    def test_changed_to_and_fro(self):
        for x in (T.dvector("x"), T.dmatrix("x"), T.row("x"), T.dtensor3("x")):
            for axes in [(i,) for i in range(x.ndim)] + [tuple(range(x.ndim))]:
                first, second = T.addbroadcast, T.unbroadcast
                if any(x.broadcastable[i] for i in axes):
                    axes = tuple(i for i in axes if x.broadcastable[i])
                    first, second = second, first
                self.assertIs(second(first(x, *axes), *axes), x)
        x = T.dtensor3("x")
        self.assertIs(T.unbroadcast(T.addbroadcast(x, 0, 1), 0).owner.inputs[0], x)
        self.assertEqual(T.unbroadcast(T.addbroadcast(x, 0, 1), 0).broadcastable, (False, True, False))

    def test_repeating_once(self):
        for x in (T.row("x"), T.col("x"), T.dmatrix("x"), T.TensorType("float32", (True, True, False))("x")):
            for axis in range(-x.ndim, x.ndim):
                for once in (1, np.int8(1), np.array(1), [1], T.constant(1), np.array([1])):
                    self.assertEqual(T.repeat(x, once, axis).broadcastable, x.broadcastable)
                    self.assertEqual(x.repeat(once, axis).broadcastable, x.broadcastable)
                flags = list(x.broadcastable)
                flags[axis] = False
                for times in (2, 0, T.iscalar(), [0]):
                    self.assertEqual(T.repeat(x, times, axis).broadcastable, tuple(flags))
            self.assertEqual(T.repeat(x, 1).broadcastable, (False,))
        self.assertEqual(T.repeat(T.dscalar(), 1).broadcastable, (True,))
        x = T.row("x", dtype="float64")
        y = T.repeat(x, 1, 0)
        f = theano.function([x], [y, T.grad((y**2).sum(), x), y.shape], mode=PYTHON)
        for found, wanted in zip(f([[1.0, 2.0]]), ([[1, 2]], [[2, 4]], [1, 2])):
            np.testing.assert_array_equal(found, wanted)

    def test_sizes_for_another_number_of_dimensions(self):
        x = T.dmatrix("x")
        for sizes in ((2,), (2, 3, 4), (), [2], np.array([2]), (2.0, 3.0), np.array([2.0, 3.0])):
            self.assertRaises(AssertionError, T.specify_shape, x, sizes)

    def test_sorters(self):
        x = T.dvector("x")
        for sorter, kind in (
            (T.lmatrix(), ValueError),
            (np.zeros((2, 2), "int64"), ValueError),
            (T.dvector(), TypeError),
        ):
            self.assertRaises(kind, T.extra_ops.searchsorted, x, x, sorter=sorter)


class TestIndices(unittest.TestCase):
    def test_lists_with_slices_are_tuples(self):
        value = np.arange(64.0).reshape(4, 4, 4)
        x, i = T.dtensor3("x"), T.iscalar("i")
        part = slice(1, 3)
        for index in (
            [part],
            [part, part],
            [part] * 3,
            [part, 0],
            [0, part],
            [part, [0, 1]],
            [[0, 1], part],
            [None, part],
            [Ellipsis, part],
            [np.array([0, 2]), part],
            [slice(None), slice(None, None, -1)],
        ):
            wanted = value[tuple(index)]
            np.testing.assert_array_equal(x[index].eval({x: value}), wanted)
            changed = value.copy()
            changed[tuple(index)] += 1
            np.testing.assert_array_equal(T.inc_subtensor(x[index], 1).eval({x: value}), changed)
        np.testing.assert_array_equal(x[[i, part]].eval({x: value, i: 2}), value[2, part])
        np.testing.assert_array_equal(x[[slice(i, None), 0]].eval({x: value, i: 2}), value[2:, 0])
        # A list that contains no slice is used as an index array.
        np.testing.assert_array_equal(x[[0, 1]].eval({x: value}), value[[0, 1]])
        self.assertEqual(x[[[0, 1], [1, 0]]].ndim, 4)


class TestFourier(unittest.TestCase):
    def test_without_length_and_axis(self):
        value = np.random.RandomState(3).rand(2, 3)
        m = T.dmatrix("m")
        for n, axis in ((None, None), (4, None), (None, 0), (None, 1), (2, 0)):
            output = fourier.fft(m, n, axis)
            f = theano.function([m], [output, output.shape], mode=PYTHON)
            wanted = np.fft.fft(value, n, -1 if axis is None else axis)
            found, shape = f(value)
            np.testing.assert_allclose(found, wanted, atol=1e-12)
            np.testing.assert_array_equal(shape, wanted.shape)
        v = T.dvector("v")
        slope = T.grad(T.real(fourier.fft(v, None, None)).sum(), v)
        np.testing.assert_allclose(slope.eval({v: [1.0, 2.0, 3.0]}), [3, 0, 0], atol=1e-12)


class TestConstants(unittest.TestCase):
    def test_behind_assertions(self):
        n = T.iscalar("n")
        for make in (Assert("msg"), CheckAndRaise(ValueError, "msg")):
            for conditions in ((1,), (T.constant(1),), (T.eq(1, 1), T.ge(3, 2)), (T.constant(np.bool_(True)),), ()):
                self.assertEqual(T.get_scalar_constant_value(make(T.constant(3), *conditions)), 3)
                self.assertEqual(T.get_scalar_constant_value(make(T.constant([3]), *conditions)), 3)
            for conditions in ((0,), (1, 0), (T.eq(n, 1),), (T.eq(1, 2),), (1, T.gt(n, 0))):
                self.assertRaises(NotScalarConstantError, T.get_scalar_constant_value, make(T.constant(3), *conditions))
        x = T.dvector("x")
        self.assertEqual(T.alloc(x, Assert("msg")(T.constant(1), T.eq(1, 1)), 2).broadcastable, (True, False))
        chain = T.constant(3)
        for _ in range(3000):
            chain = Assert("msg")(chain, T.eq(chain, 3))
        self.assertRaises(NotScalarConstantError, T.get_scalar_constant_value, chain)

    def test_hashes(self):
        values = np.arange(24.0).reshape(4, 6)
        views = [values[::2], values[:, ::2], values.T, values[::-1], values[1:3, 1:3], values[0, ::-3], values[2:2]]
        hashes = []
        for dtype in ("float64", "int8", "complex64", ">f4", "bool"):
            for view in views:
                view = view.astype(dtype)
                for other in (view[::-1][::-1], view.T.copy().T, np.asfortranarray(view), view.copy()):
                    self.assertEqual(hash_from_ndarray(view), hash_from_ndarray(other))
        for view in views:
            self.assertEqual(hash_from_ndarray(view), hash_from_ndarray(view.copy()))
            hashes.append(hash_from_ndarray(view))
        self.assertEqual(len(set(hashes)), len(views))
        for other in (np.zeros((1, 2)), np.zeros(2, "int64"), np.zeros(2, "float32"), np.zeros(3)):
            self.assertNotEqual(hash_from_ndarray(np.zeros(2)), hash_from_ndarray(other))
        self.assertNotEqual(hash_from_ndarray(np.zeros((2, 0))), hash_from_ndarray(np.zeros((0, 2))))


class TestNames(unittest.TestCase):
    def test_everything(self):
        """``from tensor import *`` imports the names of Theano 1.0.5, and no new names."""
        namespace = {}
        exec("from theano_ng.tensor import *", namespace)
        del namespace["__builtins__"]
        classic = star_names.CLASSIC.split()
        self.assertEqual((len(classic), len(set(classic))), (538, 538))
        self.assertEqual(sorted(namespace), sorted(classic))
        for later in ("matmul", "moveaxis", "diff", "linalg", "constructors", "searchsorted"):
            self.assertTrue(hasattr(T, later))
            self.assertNotIn(later, namespace)
        for name in namespace:
            self.assertIs(namespace[name], getattr(T, name))
        for name, value in (
            ("np", np),
            ("theano", theano),
            ("python_all", all),
            ("python_any", any),
            ("python_complex", complex),
            ("nnet", T.nnet),
            ("load", T.load),
            ("grad", theano.grad),
            ("xrange", range),
            ("key_to_cmp", theano.gof.sched.key_to_cmp),
        ):
            self.assertIs(namespace[name], value)

    def test_families_of_dtypes(self):
        """The families of dtypes are lists, because programs append to them."""
        self.assertEqual(T.float_dtypes + ["complex64"], ["float16", "float32", "float64", "complex64"])
        for family in "all float complex int uint integer discrete continuous".split():
            self.assertIsInstance(getattr(T, family + "_dtypes"), list)

    def test_names_of_modules(self):
        self.assertIs(T.basic.verify_grad, theano.gradient.verify_grad)
        namespace = {}
        exec("from theano_ng import *", namespace)
        for name in ("function", "shared", "tensor", "OpFromGraph", "clone", "config", "In", "grad"):
            self.assertIs(namespace[name], getattr(theano, name))

    def test_no_variables(self):
        for several in (T.scalars, T.dvectors, T.imatrices, T.tensor3s):
            self.assertEqual(several(), [])


if __name__ == "__main__":
    unittest.main()
