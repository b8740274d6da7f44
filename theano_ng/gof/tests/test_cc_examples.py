"""Tests of the C Ops in the documentation: Ops that define `c_code`, and a COp whose C code is in a separate file."""

import sys
import unittest
import warnings

import numpy as np

import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import COp, Op
from theano_ng.gof.type import Generic
from theano_ng.gof.vm import VM_Linker
from theano_ng.tensor import TensorType


class VectorTimesScalar(Op):
    __props__ = ()

    def make_node(self, x, y):
        if x.type.ndim != 1:
            raise TypeError("x must be a 1-d vector")
        if y.type.ndim != 0:
            raise TypeError("y must be a scalar")
        return Apply(self, [x, y], [x.type()])

    def c_code_cache_version(self):
        return (1, 0)

    def c_code(self, node, name, inp, out, sub):
        return """
        if (NULL == %(z)s || PyArray_DIMS(%(x)s)[0] != PyArray_DIMS(%(z)s)[0]) {
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject*)PyArray_EMPTY(1, PyArray_DIMS(%(x)s), PyArray_TYPE(%(x)s), 0);
            if (!%(z)s) {
                %(fail)s;
            }
        }
        {
            dtype_%(x)s* x_data = (dtype_%(x)s*)PyArray_DATA(%(x)s);
            npy_%(dtype_z)s* z_data = (npy_%(dtype_z)s*)PyArray_DATA(%(z)s);
            dtype_%(y)s y_value = ((dtype_%(y)s*)PyArray_DATA(%(y)s))[0];
            int x_stride = PyArray_STRIDES(%(x)s)[0] / sizeof(dtype_%(x)s);
            int z_stride = PyArray_STRIDES(%(z)s)[0] / sizeof(dtype_%(z)s);
            int x_dim = PyArray_DIMS(%(x)s)[0];
            for (int i = 0; i < x_dim; i++)
                z_data[i * z_stride] = x_data[i * x_stride] * y_value;
        }
        """ % dict(sub, x=inp[0], y=inp[1], z=out[0], dtype_z=node.outputs[0].dtype)


class VectorTimesVector(COp):
    __props__ = ()
    func_file = "./vector_times_vector.c"

    def __init__(self):
        super().__init__(self.func_file, "APPLY_SPECIFIC(vector_times_vector)")

    def make_node(self, x, y):
        if x.type.ndim != 1:
            raise TypeError("x must be a 1-d vector")
        dtype = str(np.promote_types(x.dtype, y.dtype))
        return Apply(self, [x, y], [TensorType(dtype=dtype, broadcastable=[False])()])


class MulBy(Op):
    """The documentation's MulOp. Its params are a Python float, which the C code reads through the Python C API."""

    __props__ = ("mul",)
    params_type = Generic()

    def __init__(self, mul):
        self.mul = float(mul)

    def get_params(self, node):
        return self.mul

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject*)PyArray_NewLikeArray(%(x)s, NPY_KEEPORDER, NULL, 0);
        if (%(z)s == NULL) { %(fail)s }
        *(double*)%(z)s->data = *(double*)%(x)s->data * PyFloat_AsDouble(%(p)s);    // the fields, as old code reaches for them
        if (!(%(z)s->flags & NPY_C_CONTIGUOUS)) { %(fail)s }
        """ % dict(sub, x=inputs[0], z=outputs[0], p=sub["params"])

    def c_code_cache_version(self):
        return (1,)


def function(inputs, outputs):
    return cc.CLinker().accept(FunctionGraph(inputs, outputs)).make_function()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestDocumentedOps(unittest.TestCase):
    def test_vector_times_scalar(self):
        x, y = TensorType("float32", [False])("x"), TensorType("float64", [])("y")
        f = function([x, y], [VectorTimesScalar()(x, y)])
        data = np.arange(12, dtype="float32")
        for vector in (data, data[::3], data[::-2], data[:0]):
            np.testing.assert_allclose(f(vector, np.asarray(1.5)), vector * np.float32(1.5))
        with self.assertRaises(TypeError):
            f.inputs[0].storage[0] = data.astype("float64")  # without the container's check, so the C code must check
            f.thunk()
        with self.assertRaisesRegex(TypeError, "y must be a scalar"):
            VectorTimesScalar()(x, x)

    def test_cop_and_several_nodes_in_one_module(self):
        x, y, z = (
            TensorType("float32", [False])("x"),
            TensorType("float64", [False])("y"),
            TensorType("int64", [False])("z"),
        )
        times = VectorTimesVector()
        f = function([x, y, z], [times(times(x, y), z), times(z, x)])
        data = np.arange(6.0)
        for n in (6, 3, 0):
            a, b = f(data[:n].astype("float32"), data[::-1][:n], np.arange(n))
            np.testing.assert_allclose(a, data[:n] * data[::-1][:n] * np.arange(n))
            np.testing.assert_allclose(b, data[:n] * np.arange(n))
        with self.assertRaisesRegex(
            ValueError, r"Shape mismatch : .*x.shape\[0\] == 6 and y.shape\[0\] == 2"
        ) as caught:
            f(data.astype("float32"), data[:2], np.arange(6))
        self.assertEqual(caught.exception.__op_instance__.inputs[0].dtype, "float32")
        self.assertEqual(len(f(data.astype("float32"), data, np.arange(6))), 2)
        single = function([x, z], [times(x, z)])
        with self.assertRaisesRegex(
            ValueError, r"(?s)Apply node that caused the error: .*Inputs shapes: \[\(6,\), \(2,\)\]"
        ):
            single(data.astype("float32"), np.arange(2))

    def test_params_and_old_names(self):
        x = TensorType("float64", [])("x")
        f, g = function([x], [MulBy(3)(x)]), function([x], [MulBy(0.5)(x)])
        self.assertEqual((f(np.asarray(2.0)), g(np.asarray(2.0))), (6.0, 1.0))
        self.assertIs(f.thunk.module, g.thunk.module)  # the source does not contain the params

    def test_native_ops_in_one_module(self):
        x, y = T.matrix("x"), T.matrix("y")
        f = function([x, y], [T.exp(x) * y + x.T.T, x[::-1, 1:], T.dot(x, y.T).sum(axis=0)])
        a, b = np.arange(12.0).reshape(3, 4) / 12, np.arange(12.0)[::-1].reshape(3, 4)
        for got, expected in zip(f(a, b), [np.exp(a) * b + a, a[::-1, 1:], a.dot(b.T).sum(axis=0)]):
            np.testing.assert_allclose(got, expected)

    def test_without_compiler(self):
        x = T.vector("x")
        with config.change_flags(cxx=""), warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            for linker in (cc.OpWiseCLinker(), VM_Linker()):
                f = linker.accept(FunctionGraph([x], [T.exp(x) + 1, x[::2]])).make_function()
                np.testing.assert_allclose(f(np.arange(3.0))[0], np.exp(np.arange(3.0)) + 1)
            with self.assertRaises(cmodule.MissingGXX):
                function([x], [T.exp(x)])

    def test_references(self):
        x, y = TensorType("float64", [False])("x"), TensorType("float64", [])("y")
        times = VectorTimesVector()
        f = function([x, y], [times(VectorTimesScalar()(x, y), x)])
        a, b = np.ones(3), np.asarray(2.0)
        f(a, b)
        counts = sys.getrefcount(a), sys.getrefcount(b)
        for _ in range(50):
            result = f(a, b)
        self.assertEqual((sys.getrefcount(a), sys.getrefcount(b)), counts)
        self.assertEqual(sys.getrefcount(result), 3)  # from `result`, the argument of getrefcount, the output storage


if __name__ == "__main__":
    unittest.main()
