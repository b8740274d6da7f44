"""A recursive filter of a vector, which can overwrite its input."""

import math

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import ParamsType
from theano_ng.scalar import Scalar


class RecursiveFilter(theano.Op):
    """Compute ``y[i] = rate * y[i - 1] + x[i]``, where ``y[-1]`` is `start`.

    Intermediate values have the precision of float64.

    Parameters
    ----------
    rate : float
    inplace : bool
        Whether the result overwrites x.
    """

    __props__ = ("rate", "inplace")
    params_type = ParamsType(rate=Scalar("float64"))

    def __init__(self, rate, inplace=False):
        self.rate = float(rate) + 0.0  # -0.0 becomes 0.0, because the two are equal as props
        if not math.isfinite(self.rate):
            raise ValueError("rate must be finite, not %r" % rate)
        self.inplace = bool(inplace)
        if self.inplace:
            self.destroy_map = {0: [0]}

    def make_node(self, x, start=0.0):
        x = T.as_tensor_variable(x)
        if x.ndim != 1 or x.dtype not in ("float32", "float64"):
            raise TypeError("RecursiveFilter needs a vector of float32 or float64, not %s" % x.type)
        if isinstance(start, (int, float)):
            start = np.asarray(start, x.dtype)
        start = T.as_tensor_variable(start)
        if start.ndim != 0 or start.dtype != x.dtype:
            raise TypeError("RecursiveFilter needs a start of rank 0 with the dtype %s, not %s" % (x.dtype, start.type))
        return theano.Apply(self, [x, start], [x.type()])

    def perform(self, node, inputs, output_storage, params):
        x, start = inputs
        value, terms = float(start), x.tolist()
        y = x if self.inplace else np.empty(x.shape, x.dtype)
        with np.errstate(over="ignore", under="ignore"):
            for i, term in enumerate(terms):
                value = self.rate * value + term
                y[i] = value
        output_storage[0][0] = y

    def c_code(self, node, name, inputs, outputs, sub):
        if self.inplace:
            prepare = """
            Py_INCREF(%(x)s);
            Py_XDECREF(%(y)s);
            %(y)s = %(x)s;
            """
        else:
            prepare = """
            if (%(y)s == NULL || PyArray_DIM(%(y)s, 0) != size) {
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(1, &size, PyArray_TYPE(%(x)s));
                if (%(y)s == NULL) {
                    %(fail)s
                }
            }
            """
        code = (
            """
        {
            typedef %(dtype)s number;
            const double rate = %(params)s->rate;
            npy_intp size = PyArray_DIM(%(x)s, 0);
            /* start is read before x is overwritten, because it may be an element of x. */
            double value = *(const number *)PyArray_DATA(%(start)s);
            """
            + prepare
            + """
            const char *from = PyArray_BYTES(%(x)s);
            char *to = PyArray_BYTES(%(y)s);
            const npy_intp from_step = PyArray_STRIDE(%(x)s, 0), to_step = PyArray_STRIDE(%(y)s, 0);
            for (npy_intp i = 0; i < size; i++, from += from_step, to += to_step) {
                value = rate * value + *(const number *)from;
                *(number *)to = (number)value;
            }
        }
        """
        )
        return code % dict(
            x=inputs[0],
            start=inputs[1],
            y=outputs[0],
            dtype=node.inputs[0].type.dtype_specs()[1],
            params=sub["params"],
            fail=sub["fail"],
        )

    def c_compile_args(self):
        return ["-ffp-contract=off"]  # round the product, as Python does

    def c_code_cache_version(self):
        return (1, self.inplace)

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def grad(self, inputs, output_grads):
        (x, _), (g,) = inputs, output_grads
        # The transposed filter runs backwards.
        gradient = RecursiveFilter(self.rate)(g[::-1])[::-1]
        rate = T.constant(np.asarray(self.rate).astype(x.dtype))
        return [T.patternbroadcast(gradient, x.broadcastable), rate * gradient[:1].sum()]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None and eval_points[1] is None:
            return [None]
        x, start = [T.zeros_like(one) if tangent is None else tangent for one, tangent in zip(inputs, eval_points)]
        return [RecursiveFilter(self.rate)(x, start)]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    vector, start = np.array([0.5, -1.0, 2.5, 4.0]), np.array(2.0)
    return [
        (RecursiveFilter(0.5), [vector, start]),
        (RecursiveFilter(-0.75), [vector.astype("float32"), start.astype("float32")]),
        (RecursiveFilter(0.5, inplace=True), [vector, start]),
    ]
