"""An activation function: a line of slope one that is bent on one side of zero."""

import math

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import EnumList, ParamsType
from theano_ng.scalar import Scalar


class BentLine(theano.Op):
    """The identity for x >= 0, and a bent line for x < 0.

    Parameters
    ----------
    alpha : float
        The slope of the bent part near zero. If it is 0, the bent part is 0.
    shape : {'linear', 'exponential', 'logarithmic'}
        The bent part: ``alpha * x``, ``alpha * (exp(x) - 1)`` or ``-alpha * log(1 - x)``.
    mirrored : bool
        If True, compute ``-f(-x)``, so that the line is bent for x > 0.
    """

    __props__ = ("alpha", "shape", "mirrored")
    params_type = ParamsType(
        alpha=Scalar("float64"),
        shape=EnumList(("LINEAR", "linear"), ("EXPONENTIAL", "exponential"), ("LOGARITHMIC", "logarithmic")),
        mirrored=Scalar("bool"),
    )

    def __init__(self, alpha=0.01, shape="linear", mirrored=False):
        alpha = float(alpha) + 0.0  # -0.0 becomes 0.0, because the two are equal as props
        if not math.isfinite(alpha):
            raise ValueError("alpha must be finite, not %r" % alpha)
        if shape not in ("linear", "exponential", "logarithmic"):
            raise ValueError("shape must be 'linear', 'exponential' or 'logarithmic', not %r" % (shape,))
        self.alpha, self.shape, self.mirrored = alpha, shape, bool(mirrored)

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.dtype not in ("float32", "float64"):
            raise TypeError("BentLine needs an array of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage, params):
        (x,) = inputs
        if self.mirrored:
            x = -x
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            alpha = np.asarray(self.alpha).astype(x.dtype)
            if alpha == 0:
                bent = np.where(np.isnan(x), x, np.zeros_like(x))
            elif params.shape == self.params_type.LINEAR:
                bent = alpha * x
            elif params.shape == self.params_type.EXPONENTIAL:
                bent = alpha * np.expm1(np.minimum(x, 0))
            else:
                bent = -alpha * np.log1p(-np.minimum(x, 0))
        y = np.where(x >= 0, x, bent)
        output_storage[0][0] = np.asarray(-y if self.mirrored else y, dtype=node.outputs[0].type.dtype)

    def c_headers(self):
        return ["<cmath>"]

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            typedef %(dtype)s number;
            const number alpha = (number)%(params)s->alpha;
            const number sign = %(params)s->mirrored ? -1 : 1;
            PyArrayObject *x = (PyArrayObject *)PyArray_GETCONTIGUOUS(%(x)s);
            if (x == NULL) {
                %(fail)s
            }
            if (%(y)s == NULL || !PyArray_ISCARRAY(%(y)s) || !PyArray_SAMESHAPE(%(y)s, x)) {
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x));
                if (%(y)s == NULL) {
                    Py_DECREF(x);
                    %(fail)s
                }
            }
            const npy_intp size = PyArray_SIZE(x);
            const number *from = (const number *)PyArray_DATA(x);
            number *to = (number *)PyArray_DATA(%(y)s);
            for (npy_intp i = 0; i < size; i++) {
                const number v = sign * from[i];
                if (v >= 0 || v != v)
                    to[i] = sign * v;
                else if (alpha == 0)
                    to[i] = sign * (number)0;
                else if (%(params)s->shape == LINEAR)
                    to[i] = sign * (alpha * v);
                else if (%(params)s->shape == EXPONENTIAL)
                    to[i] = sign * (alpha * std::expm1(v));
                else
                    to[i] = sign * (-alpha * std::log1p(-v));
            }
            Py_DECREF(x);
        }
        """ % dict(
            x=inputs[0],
            y=outputs[0],
            dtype=node.inputs[0].type.dtype_specs()[1],
            params=sub["params"],
            fail=sub["fail"],
        )

    def c_code_cache_version(self):
        return (1,)

    def infer_shape(self, node, shapes):
        return shapes

    def slope(self, x):
        """Return the derivative at x, as an expression."""
        if self.mirrored:
            x = -x
        below = T.minimum(x, 0)  # exp and the quotient stay finite where they are not chosen
        alpha = T.constant(np.asarray(self.alpha).astype(x.dtype))
        if self.shape == "linear":
            bent = alpha
        elif self.shape == "exponential":
            bent = alpha * T.exp(below)
        else:
            bent = alpha / (1 - below)
        return T.switch(T.ge(x, 0), T.ones_like(x), bent)

    def grad(self, inputs, output_grads):
        return [output_grads[0] * self.slope(inputs[0])]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [eval_points[0] * self.slope(inputs[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    matrix = np.array([[0.5, -1.25, 2.0], [-0.75, 1.5, -3.0]])
    return [(BentLine(0.25, "exponential"), [matrix]), (BentLine(0.5, "logarithmic"), [matrix.astype("float32")])]
