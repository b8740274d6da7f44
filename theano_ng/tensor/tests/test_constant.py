"""Tensor constants: wrapping values, and reading the values of constants."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.constant import (
    EmptyConstantError,
    NotScalarConstantError,
    as_tensor_variable,
    constant,
    constant_or_value,
    extract_constant,
    get_scalar_constant_value,
    get_vector_length,
    numpy_scalar,
)
from theano_ng.tensor.shaping.creation import MakeVector
from theano_ng.tensor.var import TensorConstant


class TestWrapping(unittest.TestCase):
    def test_smallest_dtypes(self):
        for value, dtype in (
            (1, "int8"),
            (-128, "int8"),
            (128, "int16"),
            (1 << 20, "int32"),
            (1 << 40, "int64"),
            (1.0, "float32"),
            (0.5, "float32"),
            (3.5, "float32"),
            (0.1, "float64"),
            (np.float64(1), "float64"),
            (np.int64(1), "int64"),
            (True, "int8"),
            (False, "int8"),
            (np.bool_(True), "bool"),
            (np.array(True), "bool"),
            ([True, False], "bool"),
            (1j, "complex128"),
        ):
            assert constant(value).dtype == dtype, value
            if not isinstance(value, list):
                assert theano.scalar.constant(value).dtype == theano.scalar.as_scalar(value).dtype == dtype, value
        assert (-constant(True)).eval() == -1
        assert (constant(True) - constant(True)).eval() == 0
        assert constant(True, dtype="bool").dtype == theano.shared(True).dtype == "bool"
        with theano.config.change_flags(floatX="float32"):
            assert constant(0.1).dtype == "float32"
            assert constant([]).dtype == "float32"
        with T.autocast_float_as("float32"):
            assert (T.fvector() + 1.1).dtype == "float32"
        assert (T.fvector() + 1.1).dtype == "float64"
        assert constant(2, dtype="float64").dtype == "float64"

    def test_arrays(self):
        data = np.ones((1, 3), "uint16")
        wrapped = constant(data)
        assert wrapped.type == T.TensorType("uint16", (True, False))
        data[:] = 7
        assert (wrapped.data == 1).all()
        swapped = constant(np.arange(3, dtype=">i4"))
        assert swapped.data.dtype.isnative
        assert swapped.data.tolist() == [0, 1, 2]
        assert constant(np.arange(6).reshape(2, 3)[::-1].T).data.tolist() == [[3, 0], [4, 1], [5, 2]]
        assert constant(5, ndim=2).broadcastable == (True, True)
        assert constant_or_value(2, TensorConstant, name="two").name == "two"

    def test_errors(self):
        self.assertRaises(TypeError, constant, T.dscalar())
        self.assertRaises(TypeError, constant, "text")
        self.assertRaises(TypeError, constant, [[1, 2], [3]])
        self.assertRaises(ValueError, constant, [1, 2], ndim=0)

    def test_small_numbers_are_shared(self):
        assert constant(1) is constant(1)
        assert constant(1) is not constant(1.0)
        assert constant(0.0) is not constant(-0.0)
        assert constant(1, name="one") is not constant(1)
        assert constant(1).name is None
        assert constant(11) is not constant(11)
        assert constant(float("nan")).data != 0

    def test_strings(self):
        assert str(constant(1)) == "TensorConstant{1}"
        assert str(constant(2.0)) == "TensorConstant{2.0}"
        assert str(constant([2, 2])) == "TensorConstant{(2,) of 2}"
        assert str(constant([0.5])) == "TensorConstant{(1,) of 0.5}"
        text = str(constant(np.arange(100)))
        assert len(text) == len("TensorConstant{}") + 22 and ".." in text
        assert str(constant(1, name="one")) == "one"

    def test_signatures(self):
        nan = np.array([1.0, np.nan])
        assert constant(nan).equals(constant(nan.copy()))
        assert hash(constant(nan).signature()) == hash(constant(nan.copy()).signature())
        assert not constant([1.0]).equals(constant([1]))
        assert not constant([0.0]).equals(constant([-0.0]))
        assert not constant([[1, 2]]).equals(constant([[1], [2]]))
        assert not constant(1).equals("1")
        big = np.arange(5000.0)
        assert constant(big).signature() == constant(big).signature()
        assert constant(big).signature() != constant(big + 1).signature()

    def test_equal_constants_are_merged(self):
        x = T.dvector()
        nan = [1.0, np.nan, np.inf]
        for a, b, count in (
            (nan, list(nan), 1),
            (nan, [np.nan, 1.0, np.inf], 2),
            ([0.0], [-0.0], 2),
            ([1.0, 2.0], [1.0, 3.0], 2),
            # The float32 constant is converted to float64, and then merged with the other constant.
            (np.float32([1, 2]), [1.0, 2.0], 1),
        ):
            a, b = constant(np.array(a)), constant(np.array(b))
            f = theano.function([x], [T.maximum(x, a), T.minimum(x, b)], mode="FAST_RUN")
            found = {i for node in f.maker.fgraph.apply_nodes for i in node.inputs if isinstance(i, TensorConstant)}
            assert len(found) == count, (a, b, found)
            np.testing.assert_array_equal(f(np.full(len(a.data), 2.0))[0], np.maximum(2.0, a.data))


class TestAsTensorVariable(unittest.TestCase):
    def test_passes_through(self):
        x = T.dmatrix()
        assert as_tensor_variable(x) is x
        assert as_tensor_variable((x + 1).owner).type == T.dmatrix
        scalar = theano.scalar.float64()
        assert as_tensor_variable(scalar).type == T.dscalar

    def test_ndim(self):
        assert as_tensor_variable(T.dvector(), ndim=3).broadcastable == (True, True, False)
        assert as_tensor_variable(T.drow(), ndim=1).type == T.dvector
        self.assertRaises(ValueError, as_tensor_variable, T.dmatrix(), ndim=1)

    def test_sequences(self):
        s, v = T.dscalar(), T.dvector()
        value = as_tensor_variable([s, 1, 2.5])
        assert value.eval({s: 7}).tolist() == [7, 1, 2.5]
        nested = as_tensor_variable([[s, 1], [2, s]])
        assert nested.eval({s: 7}).tolist() == [[7, 1], [2, 7]]
        assert as_tensor_variable([v, v]).ndim == 2
        self.assertRaises(TypeError, as_tensor_variable, [s, v])
        assert as_tensor_variable([1, 2]).dtype == "int64"


class TestReading(unittest.TestCase):
    def test_values(self):
        x, v = T.dmatrix(), T.dvector()
        c = constant(np.float32(3))
        vector = constant([4, 5, 6])
        joined = T.join(0, vector, [8])
        made = MakeVector()(T.lscalar(), constant(9))
        for variable, wanted in (
            (c, 3),
            (7, 7),
            (np.array([[2.0]]), 2),
            (2.5, 2.5),
            (T.fill(x, c), 3),
            (T.zeros_like(x), 0),
            (T.alloc(c, v.shape[0], 2), 3),
            (c.dimshuffle("x", "x"), 3),
            (constant([[5, 5]]), 5),
            (c + 2, 5),
            (c * 4 - 1, 11),
            (T.switch(constant(1), c, 0), 3),
            (T.cast(c, "int8"), 3),
            (vector[1], 5),
            (vector[-1], 6),
            (joined[3], 8),
            (joined[-4], 4),
            (made[1], 9),
            (T.row().shape[0], 1),
            (T.addbroadcast(constant([[1.5]]), 0), 1.5),
            (constant(2) // constant(2), 1),
        ):
            value = get_scalar_constant_value(variable)
            assert value.shape == () and value == wanted, (variable, value)
        assert get_scalar_constant_value(T.cast(2.7, "int8")).dtype == "int8"

    def test_not_constant(self):
        x = T.dmatrix()
        for variable in (x, x.sum(), T.fill(x, x[0, 0]), constant([1, 2]), x.shape[0], None):
            self.assertRaises(NotScalarConstantError, get_scalar_constant_value, variable)
        self.assertRaises(EmptyConstantError, get_scalar_constant_value, constant([]))
        two = constant(1) + 1
        self.assertRaises(NotScalarConstantError, get_scalar_constant_value, two, only_process_constants=True)
        self.assertRaises(NotScalarConstantError, get_scalar_constant_value, two, elemwise=False)
        deep = constant(1)
        for _ in range(2000):
            deep = deep + 1
        self.assertRaises(NotScalarConstantError, get_scalar_constant_value, deep)
        assert extract_constant(x) is x
        assert extract_constant(two) == 2
        assert numpy_scalar(np.array([4])) == 4

    def test_vector_lengths(self):
        x, v = T.dmatrix(), T.dvector()
        shape = x.shape
        for vector, length in (
            ([1, 2, 3], 3),
            (shape, 2),
            (shape[1:], 1),
            (shape[::-1], 2),
            (T.join(0, shape, [4, 5, 6])[1:4], 3),
            (shape * 2, 2),
            (MakeVector()(*[T.lscalar()] * 4), 4),
            (T.zeros(5), 5),
            (v.reshape((7,)), 7),
            (T.constant([3]), 1),
        ):
            assert get_vector_length(vector) == length, vector
        self.assertRaises(ValueError, get_vector_length, v)
        self.assertRaises(TypeError, get_vector_length, x)


if __name__ == "__main__":
    unittest.main()
