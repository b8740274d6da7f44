"""The operation Bend."""

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


class Bend(theano.Op):
    """Keep positive numbers, and multiply all others by a slope.

    Parameters
    ----------
    slope : float
    """

    __props__ = ("slope",)

    def __init__(self, slope=0.25):
        self.slope = float(slope)

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.dtype not in ("float32", "float64"):
            raise TypeError("Bend needs an array of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        (x,) = inputs
        x[x <= 0] *= x.dtype.type(self.slope)
        output_storage[0][0] = x

    def infer_shape(self, node, input_shapes):
        return input_shapes

    def grad(self, inputs, output_gradients):
        (x,), (g,) = inputs, output_gradients
        return [T.switch(x > 0, g, np.asarray(self.slope, x.dtype) * g)]

    def R_op(self, inputs, eval_points):
        # None: the derivative in the direction of this input is not wanted.
        return eval_points if eval_points[0] is None else self.grad(inputs, eval_points)

    def c_code(self, node, name, inputs, outputs, sub):
        (x,), (y,) = inputs, outputs
        return """
        {
            typedef %(dtype)s number;
            const number slope = (number)%(slope)r;
            if (%(y)s == NULL || !PyArray_ISCARRAY(%(y)s) || !PyArray_SAMESHAPE(%(y)s, %(x)s)) {
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(
                    PyArray_NDIM(%(x)s), PyArray_DIMS(%(x)s), PyArray_TYPE(%(x)s));
                if (%(y)s == NULL) {
                    %(fail)s
                }
            }
            const number *data = (const number *)PyArray_DATA(%(x)s);
            number *result = (number *)PyArray_DATA(%(y)s);
            for (npy_intp i = 0; i < PyArray_SIZE(%(x)s); i++)
                result[i] = data[i] > slope * data[i] ? data[i] : slope * data[i];
        }
        """ % dict(x=x, y=y, slope=self.slope, dtype=node.inputs[0].type.dtype_specs()[1], fail=sub["fail"])

    def c_code_cache_version(self):
        # Change the first number whenever the code changes.
        return (1, self.slope)


def audit_cases():
    """Return pairs of an Op and example inputs, for theano_ng-audit."""
    x = np.array([[0.5, -1.25, 2.0], [3.5, -0.75, 1.0]])
    return [(Bend(), [x])]
