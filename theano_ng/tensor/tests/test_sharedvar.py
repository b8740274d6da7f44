"""Shared variables that hold arrays."""
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.sharedvar import (
    ScalarSharedVariable, TensorSharedVariable, load_shared_variable,
    scalar_constructor, tensor_constructor)


class TestConstruction(unittest.TestCase):
    def test_types(self):
        matrix = theano.shared(np.zeros((1, 3), 'float32'), name='m')
        assert isinstance(matrix, TensorSharedVariable)
        assert matrix.type == T.fmatrix and matrix.name == 'm'
        row = theano.shared(np.zeros((1, 3)), broadcastable=(True, False))
        assert row.type == T.drow
        for value, type_ in ((0, T.lscalar), (1.0, T.dscalar),
                             (1j, T.zscalar), (np.int8(3), T.bscalar),
                             (np.float32(3), T.fscalar)):
            shared = theano.shared(value)
            assert isinstance(shared, ScalarSharedVariable)
            assert shared.type == type_ and shared.get_value() == value
        assert repr(theano.shared(0).type) == 'TensorType(int64, scalar)'
        assert load_shared_variable(np.ones(2)).type == T.dvector

    def test_refusals(self):
        self.assertRaises(TypeError, tensor_constructor, [1, 2])
        self.assertRaises(TypeError, scalar_constructor, 'one')
        self.assertRaises(TypeError, theano.shared, np.ones(2), target='moon')
        self.assertRaises(TypeError, theano.shared, 1, target='moon')
        self.assertRaises(TypeError, theano.shared, T.dvector())
        shared = theano.shared(np.ones(2, 'float32'))
        self.assertRaises(TypeError, shared.set_value, np.ones(2) / 3)
        self.assertRaises(TypeError, shared.set_value, np.ones((2, 2), 'f4'))
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
        new = np.full(3, 5.)
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
        w = theano.shared(np.arange(6.).reshape(2, 3))
        np.testing.assert_array_equal((w + 1)[0].eval(), [1, 2, 3])
        assert w.T.type == T.dmatrix and w.shape.ndim == 1
        step = theano.function([], w.sum(), updates=[(w, w * 2)])
        assert step() == 15 and step() == 30
        other = w.clone()
        other.set_value(np.zeros((1, 1)))
        assert w.get_value().shape == (1, 1)


if __name__ == '__main__':
    unittest.main()
