"""Sigmoid and softplus, exact and approximate."""
import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.elemwise_ops import clip


def _c_float(node):
    """C type in which a function of one argument computes."""
    return "npy_float32" if node.outputs[0].type.dtype in ("float16", "float32") else "npy_float64"


def _refuse_complex(node, op):
    if node.inputs[0].type in scal.complex_types:
        raise MethodNotDefined("type not supported", type(op), node.inputs[0].type)


class ScalarSigmoid(scal.UnaryScalarOp):
    """The logistic function 1 / (1 + exp(-x))."""

    def impl(self, x):
        if not hasattr(x, "dtype") or np.dtype(x.dtype).kind != "f":
            dtype = np.dtype(scal.upgrade_to_float(scal.get_scalar_type(str(np.asarray(x).dtype)))[0].dtype)
            x = np.asarray(x, dtype)[()]
        with np.errstate(over="ignore"):
            return (1 / (1 + np.exp(-x))).astype(x.dtype)

    def grad(self, inp, grads):
        x, = inp
        gz, = grads
        if x.type in scal.complex_types:
            raise NotImplementedError("the sigmoid of complex numbers has no gradient here")
        y = scalar_sigmoid(x)
        rval = gz * y * (1.0 - y)
        if rval.type in scal.discrete_types:
            raise AssertionError("the gradient of a sigmoid is a float")
        return [rval]

    def c_code(self, node, name, inp, out, sub):
        _refuse_complex(node, self)
        x, z, t = inp[0], out[0], _c_float(node)
        exp = "expf" if t == "npy_float32" else "exp"
        return "%(z)s = 1 / (1 + %(exp)s(-(%(t)s)%(x)s));" % dict(x=x, z=z, t=t, exp=exp)

    def c_code_cache_version(self):
        return (1,)


scalar_sigmoid = ScalarSigmoid(scal.upgrade_to_float, name="scalar_sigmoid")
sigmoid = Elemwise(scalar_sigmoid, name="sigmoid")
sigmoid_inplace = Elemwise(ScalarSigmoid(scal.transfer_type(0)), inplace_pattern={0: 0}, name="sigmoid_inplace")


class UltraFastScalarSigmoid(scal.UnaryScalarOp):
    """A piecewise approximation of the logistic function, between 0.00247262315663 and 0.997527376843.

    With t = |x| / 2: 1.5 t / (1 + t) below 1.7, then two lines, then a constant; half of it around 1/2.
    """

    nfunc_spec = None

    def impl(self, x):
        t = 0.5 * abs(float(x))
        if t < 1.7:
            z = 1.5 * t / (1 + t)
        elif t < 3:
            z = 0.935409070603099 + 0.0458812946797165 * (t - 1.7)
        else:
            z = 0.99505475368673
        return 0.5 * ((z if x >= 0 else -z) + 1.0)

    def grad(self, inp, grads):
        x, = inp
        gz, = grads
        y = ultra_fast_scalar_sigmoid(x)
        return [gz * y * (1.0 - y)]

    def c_code(self, node, name, inp, out, sub):
        _refuse_complex(node, self)
        return """
{
    double t = 0.5 * fabs((double)%(x)s);
    double z = t < 1.7 ? 1.5 * t / (1 + t) : t < 3 ? 0.935409070603099 + 0.0458812946797165 * (t - 1.7) : 0.99505475368673;
    %(z)s = 0.5 * ((%(x)s >= 0 ? z : -z) + 1.0);
}""" % dict(x=inp[0], z=out[0])

    def c_code_cache_version(self):
        return (1,)


ultra_fast_scalar_sigmoid = UltraFastScalarSigmoid(scal.upgrade_to_float, name="ultra_fast_scalar_sigmoid")
ultra_fast_sigmoid = Elemwise(ultra_fast_scalar_sigmoid, name="ultra_fast_sigmoid")
ultra_fast_sigmoid_inplace = Elemwise(UltraFastScalarSigmoid(scal.transfer_type(0)), inplace_pattern={0: 0},
                                      name="ultra_fast_sigmoid_inplace")


def hard_sigmoid(x):
    """The cheapest approximation of the sigmoid: a line of slope 0.2 through (0, 1/2), clipped to [0, 1].

    Parameters
    ----------
    x : tensor

    Returns
    -------
    tensor
        Of the float dtype of x.
    """
    x = as_tensor_variable(x)
    dtype = scal.upcast(config.floatX, x.dtype) if not x.dtype.startswith("float") else x.dtype
    slope, shift = constant(np.asarray(0.2, dtype)), constant(np.asarray(0.5, dtype))
    return clip(x * slope + shift, np.asarray(0, dtype), np.asarray(1, dtype))


class ScalarSoftplus(scal.UnaryScalarOp):
    """log(1 + exp(x)), without overflow, and exact where exp(x) is small."""

    def impl(self, x):
        if not hasattr(x, "dtype") or np.dtype(x.dtype).kind != "f":
            dtype = np.dtype(scal.upgrade_to_float(scal.get_scalar_type(str(np.asarray(x).dtype)))[0].dtype)
            x = np.asarray(x, dtype)[()]
        zero = x.dtype.type(0)
        return (np.log1p(np.exp(-abs(x))) + max(x, zero) if x == x else x).astype(x.dtype)

    def grad(self, inp, grads):
        x, = inp
        gz, = grads
        return [gz * scalar_sigmoid(x)]

    def c_code(self, node, name, inp, out, sub):
        _refuse_complex(node, self)
        t = _c_float(node)
        suffix = "f" if t == "npy_float32" else ""
        return """
{
    %(t)s x_%(name)s = %(x)s;
    %(z)s = log1p%(f)s(exp%(f)s(-fabs%(f)s(x_%(name)s))) + (x_%(name)s <= 0 ? 0 : x_%(name)s);
}""" % dict(x=inp[0], z=out[0], t=t, f=suffix, name=name)

    def c_code_cache_version(self):
        return (1,)


scalar_softplus = ScalarSoftplus(scal.upgrade_to_float, name="scalar_softplus")
softplus = Elemwise(scalar_softplus, name="softplus")
