"""The functions x log(x) and x log(y), which are 0 where x is 0."""

import numpy as np

import theano_ng.scalar as scal
from theano_ng.scalar.op import c_cast, compute_in_output_float, discrete_gradient, float_function
from theano_ng.tensor.elemwise.op import Elemwise

__all__ = ["XlogX", "scalar_xlogx", "xlogx", "XlogY0", "scalar_xlogy0", "xlogy0"]


def _times_log(x, y):
    with np.errstate(all="ignore"):
        return x * np.log(y)


class XlogX(scal.UnaryScalarOp):
    """The scalar op ``x * log(x)``. It is 0 at x = 0, and NaN for negative x."""

    @staticmethod
    def st_impl(x):
        """Return the value of the op for a number."""
        return 0.0 if x == 0.0 else _times_log(x, x)

    def impl(self, x):
        return XlogX.st_impl(compute_in_output_float(x))

    def grad(self, inputs, grads):
        (x,) = inputs
        (gz,) = grads
        zeros = discrete_gradient(inputs, grads)
        return zeros if zeros is not None else [gz * (1 + scal.log(x))]

    def c_expression(self, args, dtypes, out):
        x = c_cast(args[0], dtypes[0], out)
        return "(%s == 0 ? 0 : %s * %s(%s))" % (args[0], x, float_function("log", out), x)


scalar_xlogx = XlogX(scal.upgrade_to_float, name="scalar_xlogx")
xlogx = Elemwise(scalar_xlogx, name="xlogx")
xlogx.__doc__ = """``x * log(x)``, elementwise; 0 where x is 0."""


class XlogY0(scal.BinaryScalarOp):
    """The scalar op ``x * log(y)``. It is 0 at x = 0 for any y."""

    @staticmethod
    def st_impl(x, y):
        """Return the value of the op for a pair of numbers."""
        return 0.0 if x == 0.0 else _times_log(x, y)

    def impl(self, x, y):
        return XlogY0.st_impl(compute_in_output_float(x), compute_in_output_float(y))

    def grad(self, inputs, grads):
        x, y = inputs
        (gz,) = grads
        zeros = discrete_gradient(inputs, grads)
        return zeros if zeros is not None else [gz * scal.log(y), gz * x / y]

    def c_expression(self, args, dtypes, out):
        x, y = (c_cast(arg, dtype, out) for arg, dtype in zip(args, dtypes))
        return "(%s == 0 ? 0 : %s * %s(%s))" % (args[0], x, float_function("log", out), y)


scalar_xlogy0 = XlogY0(scal.upgrade_to_float, name="scalar_xlogy0")
xlogy0 = Elemwise(scalar_xlogy0, name="xlogy0")
xlogy0.__doc__ = """``x * log(y)``, elementwise; 0 where x is 0, whatever y is."""
