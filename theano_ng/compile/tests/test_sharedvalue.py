"""Tests of shared variables: the choice of the constructor, and the sharing of values."""

import copy
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function, shared
from theano_ng.compile.sharedvalue import SharedVariable, shared_constructor


class TestConstructors(unittest.TestCase):
    def test_search(self):
        class Secret:
            pass

        class SecretVariable(SharedVariable):
            pass

        seen = []

        def constructor(value, name=None, strict=False, allow_downcast=None):
            seen.append(value)
            if not isinstance(value, Secret):
                raise TypeError("only secrets")
            return SecretVariable(name=name, type=theano.gof.generic, value=value, strict=strict)

        def greedy(value, name=None, strict=False, allow_downcast=None, *, taste):
            return SecretVariable(name=name, type=theano.gof.generic, value=(value, taste), strict=strict)

        constructors = list(shared.constructors)
        try:
            shared_constructor(constructor)
            shared_constructor(greedy)
            secret = Secret()
            made = shared(secret, name="s")
            self.assertIsInstance(made, SecretVariable)  # the last registered comes first
            self.assertEqual((made.name, made.container.value), ("s", secret))
            other = shared(np.zeros(2))
            self.assertEqual(other.type, T.dvector)
            self.assertEqual(len(seen), 2)
            # keywords select the constructors that accept them
            self.assertEqual(shared(np.zeros(2), taste="sweet").get_value(borrow=True)[1], "sweet")
            self.assertRaises(TypeError, shared, np.zeros(2), flavour=1)
        finally:
            shared.constructors[:] = constructors

    def test_types(self):
        for value, dtype, ndim in (
            (3, "int64", 0),
            (3.0, theano.config.floatX, 0),
            (np.float32(2), "float32", 0),
            (np.int8(2), "int8", 0),
            (np.zeros((2, 1), "complex64"), "complex64", 2),
        ):
            s = shared(value)
            self.assertEqual((s.dtype, s.ndim, s.get_value().dtype), (dtype, ndim, dtype))
        self.assertEqual(shared(np.zeros((1, 1))).broadcastable, (False, False))
        self.assertEqual(shared(np.zeros((1, 3)), broadcastable=(True, False)).broadcastable, (True, False))
        self.assertRaises(TypeError, shared, T.dscalar())
        anything = shared({"a": 1}, "dictionary")
        self.assertEqual(anything.get_value(), {"a": 1})
        self.assertIs(theano.shared, theano.compile.sharedvalue.shared)

    def test_value_and_container(self):
        container = theano.Container(T.dscalar(), storage=[np.array(1.0)])
        self.assertRaises(TypeError, SharedVariable, "s", T.dscalar, np.array(1.0), False, container=container)
        self.assertIs(SharedVariable("s", T.dscalar, None, False, container=container).container, container)
        self.assertRaises(TypeError, SharedVariable, "s", T.dscalar, np.float32(1), True)
        strict = shared(np.array(1.0), strict=True)
        self.assertRaises(TypeError, strict.set_value, np.float32(2))


class TestValues(unittest.TestCase):
    def test_borrow(self):
        array = np.zeros(3)
        plain, lent = shared(array), shared(array, borrow=True)
        array += 1
        np.testing.assert_array_equal(plain.get_value(), [0, 0, 0])
        np.testing.assert_array_equal(lent.get_value(), [1, 1, 1])
        inner = lent.get_value(borrow=True, return_internal_type=True)
        self.assertIs(inner, array)
        self.assertIsInstance(lent.get_value(borrow=True), np.ndarray)
        outside = lent.get_value()
        outside += 5
        np.testing.assert_array_equal(lent.get_value(), [1, 1, 1])
        new = np.full(3, 7.0)
        lent.set_value(new, borrow=True)
        new += 1
        np.testing.assert_array_equal(lent.get_value(), [8, 8, 8])
        plain.set_value(new)
        new += 1
        np.testing.assert_array_equal(plain.get_value(), [8, 8, 8])

    def test_borrowed_arrays_whose_elements_share_memory(self):
        base = np.arange(12.0)
        windows = np.lib.stride_tricks.as_strided
        for shape, strides in (
            ((5,), (0,)),
            ((3, 4), (8, 8)),
            ((3, 2), (0, 8)),
            ((2, 3), (16, 8)),
            ((2, 1, 2), (0, 0, -0)),
        ):
            for start in ("shared", "set_value"):
                with self.subTest(shape=shape, strides=strides, start=start):
                    value = windows(base, shape, strides)
                    s = shared(value if start == "shared" else np.zeros(shape), borrow=True)
                    if start == "set_value":
                        s.set_value(value, borrow=True)
                    added = np.arange(value.size, dtype="float64").reshape(shape)
                    wanted = value + added
                    function([], [], updates=[(s, s + added)])()
                    np.testing.assert_array_equal(s.get_value(), wanted)
                    np.testing.assert_array_equal(base, np.arange(12.0))

    def test_borrowed_arrays_with_gaps(self):
        base = np.zeros((4, 6, 5))
        arrays = (
            base,
            base.T,
            base[::2, ::-3],
            base[1, :, 2],
            base[:0],
            base[:, :1, ::-2],
            base.transpose(1, 0, 2)[::-1],
        )
        for value in (*arrays, base[0].diagonal(), np.zeros(()), np.broadcast_to(base[:1, :1, :1], (1, 1, 1))):
            with self.subTest(shape=value.shape, strides=value.strides):
                s = shared(value, borrow=True)
                self.assertIs(s.get_value(borrow=True), value)
                s.set_value(value, borrow=True)
                self.assertIs(s.get_value(borrow=True), value)

    def test_common_to_functions(self):
        s = shared(np.arange(3.0), "s")
        f, g = function([], s * 2), function([], s.sum())
        s.set_value(np.ones(5))  # another length
        np.testing.assert_array_equal(f(), np.full(5, 2.0))
        self.assertEqual(g(), 5)
        self.assertRaises(TypeError, s.set_value, np.ones((2, 2)))
        self.assertRaises(ValueError, s.set_value, "text")
        np.testing.assert_array_equal(s.get_value(), np.ones(5))

    def test_zero(self):
        s = shared(np.ones((2, 3), "float32"))
        s.zero()
        np.testing.assert_array_equal(s.get_value(), np.zeros((2, 3)))

    def test_clone_and_copies(self):
        s = shared(np.zeros(2), "s")
        twin = s.clone()
        self.assertEqual((twin.name, twin.type), ("s", s.type))
        twin.set_value(np.ones(2))
        np.testing.assert_array_equal(s.get_value(), [1, 1])  # clones share the value
        for other in (copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
            other.set_value(np.full(2, 5.0))
            np.testing.assert_array_equal(s.get_value(), [1, 1])
            self.assertEqual(other.name, "s")

    def test_expressions(self):
        s = shared(np.arange(4.0), "s")
        self.assertIsInstance(s, T.sharedvar.TensorSharedVariable)
        np.testing.assert_array_equal((s + 1)[1:3].eval(), [2, 3])
        np.testing.assert_array_equal(T.grad((s**2).sum(), s).eval(), [0, 2, 4, 6])


if __name__ == "__main__":
    unittest.main()
