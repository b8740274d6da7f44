"""Two operations in C that double a vector. The C code is in the class, or in a separate file."""

import theano_ng as theano
from theano_ng import tensor as T


class DoubleInC(theano.Op):
    """An operation that doubles a vector of floating point numbers."""

    __props__ = ()

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 1 or x.dtype not in ("float32", "float64"):
            raise TypeError("DoubleInC needs a vector of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0] * 2

    def c_code(self, node, name, inputs, outputs, sub):
        (x,), (y,) = inputs, outputs
        dtype = node.inputs[0].type.dtype_specs()[1]
        fail = sub["fail"]
        return """
        npy_intp n = PyArray_DIMS(%(x)s)[0];
        if (%(y)s == NULL || PyArray_DIMS(%(y)s)[0] != n) {
            Py_XDECREF(%(y)s);
            %(y)s = (PyArrayObject *)PyArray_SimpleNew(1, &n, PyArray_TYPE(%(x)s));
            if (%(y)s == NULL) { %(fail)s }
        }
        for (npy_intp i = 0; i < n; i++)
            *(%(dtype)s *)PyArray_GETPTR1(%(y)s, i) = 2 * *(%(dtype)s *)PyArray_GETPTR1(%(x)s, i);
        """ % locals()

    def c_code_cache_version(self):
        return (1,)

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, output_gradients):
        return [2 * output_gradients[0]]


class DoubleFromFile(theano.gof.COp):
    """An operation that doubles a vector of floating point numbers. Its C code is in double_op.c in the same folder."""

    __props__ = ()

    def __init__(self):
        super().__init__("double_op.c", "APPLY_SPECIFIC(double_vector)")

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 1 or x.dtype not in ("float32", "float64"):
            raise TypeError("DoubleFromFile needs a vector of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, output_gradients):
        return [2 * output_gradients[0]]
