"""Shared variables that hold arrays."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.sharedvar import (
    ScalarSharedVariable,
    TensorSharedVariable,
    load_shared_variable,
    scalar_constructor,
    tensor_constructor,
)


class TestConstruction(unittest.TestCase):
    def test_types(self):
        matrix = theano.shared(np.zeros((1, 3), "float32"), name="m")
        assert isinstance(matrix, TensorSharedVariable)
        assert matrix.type == T.fmatrix and matrix.name == "m"
        row = theano.shared(np.zeros((1, 3)), broadcastable=(True, False))
        assert row.type == T.drow
        for value, type_ in (
            (0, T.lscalar),
            (1.0, T.dscalar),
            (1j, T.zscalar),
            (np.int8(3), T.bscalar),
            (np.float32(3), T.fscalar),
        ):
            shared = theano.shared(value)
            assert isinstance(shared, ScalarSharedVariable)
            assert shared.type == type_ and shared.get_value() == value
        assert repr(theano.shared(0).type) == "TensorType(int64, scalar)"
        assert load_shared_variable(np.ones(2)).type == T.dvector

    def test_refusals(self):
        self.assertRaises(TypeError, tensor_constructor, [1, 2])
        self.assertRaises(TypeError, scalar_constructor, "one")
        self.assertRaises(TypeError, theano.shared, np.ones(2), target="moon")
        self.assertRaises(TypeError, theano.shared, 1, target="moon")
        self.assertRaises(TypeError, theano.shared, T.dvector())
        shared = theano.shared(np.ones(2, "float32"))
        self.assertRaises(TypeError, shared.set_value, np.ones(2) / 3)
        self.assertRaises(TypeError, shared.set_value, np.ones((2, 2), "f4"))
        assert shared.get_value().tolist() == [1, 1]


class TestAliasing(unittest.TestCase):
    def test_construction(self):
        array = np.ones(2)
        copied, same = theano.shared(array), theano.shared(array, borrow=True)
        array += 1
        assert copied.get_value().tolist() == [1, 1]
        assert same.get_value().tolist() == [2, 2]

    def test_get_and_set(self):
        shared = theano.shared(np.zeros(3))
        copied = shared.get_value()
        copied += 1
        assert shared.get_value().tolist() == [0, 0, 0]
        inside = shared.get_value(borrow=True)
        inside += 1
        assert shared.get_value().tolist() == [1, 1, 1]
        new = np.full(3, 5.0)
        shared.set_value(new)
        new += 1
        assert shared.get_value().tolist() == [5, 5, 5]
        shared.set_value(new, borrow=True)
        assert shared.get_value(borrow=True) is new

    def test_zero(self):
        for borrow in (False, True):
            shared = theano.shared(np.ones((2, 2)))
            shared.zero(borrow=borrow)
            assert shared.get_value().tolist() == [[0, 0], [0, 0]]
        number = theano.shared(3.0)
        number.zero()
        assert number.get_value() == 0


class TestUse(unittest.TestCase):
    def test_operators_and_updates(self):
        w = theano.shared(np.arange(6.0).reshape(2, 3))
        np.testing.assert_array_equal((w + 1)[0].eval(), [1, 2, 3])
        assert w.T.type == T.dmatrix and w.shape.ndim == 1
        step = theano.function([], w.sum(), updates=[(w, w * 2)])
        assert step() == 15 and step() == 30
        other = w.clone()
        other.set_value(np.zeros((1, 1)))
        assert w.get_value().shape == (1, 1)


def makeSharedTester(
    shared_constructor_,
    dtype_,
    get_value_borrow_true_alias_,
    shared_borrow_true_alias_,
    set_value_borrow_true_alias_,
    set_value_inplace_,
    set_cast_value_inplace_,
    shared_constructor_accept_ndarray_,
    internal_type_,
    check_internal_type_,
    theano_fct_,
    ref_fct_,
    cast_value_=np.asarray,
    expect_fail_fast_shape_inplace=True,
):
    """Return a TestCase for shared variables that hold matrices, on the CPU or another device.

    Parameters
    ----------
    shared_constructor_ : callable
        Makes the shared variable of a value; takes `borrow`.
    dtype_ : str
    get_value_borrow_true_alias_, shared_borrow_true_alias_, set_value_borrow_true_alias_ : bool
        Whether ``get_value(borrow=True)`` returns the array of the variable without a copy, and whether the constructor
        with ``borrow=True`` and ``set_value(value, borrow=True)`` store the given array without a copy.
    set_value_inplace_ : bool
        Whether ``set_value(value)``, which copies, writes into the memory of the variable.
    set_cast_value_inplace_ : bool
        Whether ``set_value`` of a value of `internal_type_` writes into the memory of the variable.
    shared_constructor_accept_ndarray_ : bool
        Whether the constructor takes a NumPy array, or only the result of `cast_value_`.
    internal_type_ : type
        The type of the value that the variable holds.
    check_internal_type_ : callable
        Returns True if a value has the internal type.
    theano_fct_, ref_fct_ : callable
        An operation on the variable, and on its value.
    cast_value_ : callable
        Converts a NumPy array to `internal_type_`.
    expect_fail_fast_shape_inplace : bool
        Whether `inc_subtensor` updates of the variable must work in place.

    Returns
    -------
    class
    """

    class SharedTester(unittest.TestCase):
        def value(self):
            return np.random.RandomState(3).uniform(1, 6, (2, 4)).astype(dtype_)

        def make(self, value, borrow=False):
            return shared_constructor_(
                value if shared_constructor_accept_ndarray_ else cast_value_(value), borrow=borrow
            )

        def content(self, variable):
            return np.asarray(variable.get_value(borrow=True, return_internal_type=True))

        def test_what_it_holds(self):
            variable = self.make(self.value())
            self.assertTrue(check_internal_type_(variable.container.value))
            self.assertIsInstance(variable.get_value(borrow=True, return_internal_type=True), internal_type_)
            for borrow in (False, True):
                self.assertIsInstance(variable.get_value(borrow=borrow), np.ndarray)
                np.testing.assert_array_equal(variable.get_value(borrow=borrow), self.value())
            self.assertEqual((variable.dtype, variable.ndim), (dtype_, 2))
            self.assertEqual(tuple(variable.shape.eval()), (2, 4))
            self.assertRaises(TypeError, variable.set_value, np.zeros((2, 4), "complex128"))
            self.assertRaises(TypeError, variable.set_value, np.zeros(3, dtype_))
            np.testing.assert_array_equal(variable.get_value(), self.value())

        def test_constructor_alias(self):
            for borrow in (False, True):
                value = cast_value_(self.value())
                variable = shared_constructor_(value, borrow=borrow)
                value[0] = cast_value_(np.full(4, 7, dtype_))
                self.assertEqual(self.content(variable)[0, 0] == 7, borrow and shared_borrow_true_alias_)

        def test_get_value_alias(self):
            variable = self.make(self.value())
            copied = variable.get_value(borrow=False)
            copied[...] = 7
            np.testing.assert_array_equal(self.content(variable), self.value())
            inside = variable.get_value(borrow=True)
            inside[...] = 7
            self.assertEqual(bool((self.content(variable) == 7).all()), get_value_borrow_true_alias_)

        def test_set_value_alias(self):
            for borrow in (False, True):
                variable, value = self.make(self.value()), cast_value_(np.full((3, 1), 5, dtype_))
                variable.set_value(value, borrow=borrow)
                value[0] = cast_value_(np.full(1, 7, dtype_))
                self.assertEqual(self.content(variable)[0, 0] == 7, borrow and set_value_borrow_true_alias_)

        def test_set_value_in_place(self):
            for value, in_place in (
                (self.value() + 1, set_value_inplace_),
                (cast_value_(self.value() + 1), set_cast_value_inplace_),
            ):
                variable = self.make(self.value())
                before = variable.container.value
                variable.set_value(value)
                self.assertEqual(variable.container.value is before, in_place)
                np.testing.assert_array_equal(variable.get_value(), self.value() + 1)

        def test_operation(self):
            variable = self.make(self.value())
            np.testing.assert_allclose(theano.function([], theano_fct_(variable))(), ref_fct_(self.value()), rtol=1e-5)
            variable.set_value(self.value()[:, :1])
            np.testing.assert_allclose(theano_fct_(variable).eval(), ref_fct_(self.value()[:, :1]), rtol=1e-5)

        def test_updates(self):
            variable, row = self.make(self.value()), T.TensorType(dtype_, (False,))("row")
            updates = (
                variable + row,
                T.set_subtensor(variable[0], row),
                T.inc_subtensor(variable[:, 1:], row[1:]),
                variable[::-1],
            )
            wanted = (
                lambda a, r: a + r,
                lambda a, r: np.vstack([r, a[1:]]),
                lambda a, r: a + np.concatenate([[0], r[1:]]),
                lambda a, r: a[::-1],
            )
            given = np.arange(4).astype(dtype_)
            for expression, want in zip(updates, wanted):
                variable.set_value(self.value())
                f = theano.function([row], variable.sum(), updates=[(variable, expression)], on_unused_input="ignore")
                np.testing.assert_allclose(f(given), self.value().sum(), rtol=1e-5)
                np.testing.assert_allclose(variable.get_value(), want(self.value(), given), rtol=1e-5)

        def test_updates_in_place(self):
            if not expect_fail_fast_shape_inplace or theano.config.mode == "FAST_COMPILE":
                self.skipTest("works on copies")
            variable, row = self.make(self.value()), T.TensorType(dtype_, (False,))("row")
            f = theano.function([row], [], updates=[(variable, T.inc_subtensor(variable[1], row))], mode="FAST_RUN")
            before = variable.container.value
            f(np.ones(4, dtype_))
            self.assertIs(variable.container.value, before)
            np.testing.assert_allclose(variable.get_value()[1], self.value()[1] + 1, rtol=1e-5)

    return SharedTester


def _shared_tester(name, dtype):
    tester = makeSharedTester(
        shared_constructor_=tensor_constructor,
        dtype_=dtype,
        get_value_borrow_true_alias_=True,
        shared_borrow_true_alias_=True,
        set_value_borrow_true_alias_=True,
        set_value_inplace_=False,
        set_cast_value_inplace_=False,
        shared_constructor_accept_ndarray_=True,
        internal_type_=np.ndarray,
        check_internal_type_=lambda value: isinstance(value, np.ndarray),
        theano_fct_=lambda x: T.sqr(x) * 2,
        ref_fct_=lambda x: x * x * 2,
    )
    tester.__name__ = tester.__qualname__ = name
    return tester


SharedFloat64 = _shared_tester("SharedFloat64", "float64")
SharedFloat32 = _shared_tester("SharedFloat32", "float32")
SharedInt8 = _shared_tester("SharedInt8", "int8")


if __name__ == "__main__":
    unittest.main()
