"""Sigmoid, its approximations, softplus and softsign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import theano_ng.scalar as scal
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.blocks import instructions
from theano_ng.scalar.op import UnaryMath, c_cast, compute_in_output_float, float_function, is_complex, is_discrete
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.elemwise.functions import clip
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.saturating import logistic, read_function, readers

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable


class ScalarActivation(UnaryMath):
    """A function of one real number for which libm has no function. The number is cast to the float type of the output.

    Subclasses define two methods. `function(x)` computes the function of a NumPy float, and also of an array if
    `on_arrays` is true. `formula(x, out)` returns a C expression for the function, where `x` is a C expression of dtype
    `out`.
    """

    nfunc_spec = None
    on_arrays = False

    def output_types(self, types):
        if any(is_complex(t.dtype) for t in types):
            raise TypeError("%s: complex argument not supported: got inputs of types %s" % (self, types))
        return super().output_types(types)

    def impl(self, x):
        x = compute_in_output_float(x)
        if getattr(x, "dtype", None) is None or x.dtype.kind != "f":
            x = np.asarray(x, "float64")[()]
        with np.errstate(all="ignore"):
            return x.dtype.type(self.value(x))

    def value(self, x):
        """Compute the function of a NumPy float. Like the C kernels, use float32 if `x` is a float16.

        In float16, the result of each step would be rounded, and exp(12) would overflow.
        """
        return self.function(x.astype("float32") if x.dtype == "float16" else x)

    def c_expression(self, args, dtypes, out):
        if is_complex(dtypes[0]) or is_complex(out) or is_discrete(out):
            raise MethodNotDefined("c_code", type(self), "%s from %s to %s" % (self, dtypes[0], out))
        return "(%s)" % self.formula(c_cast(args[0], dtypes[0], out), out)


class ScalarSigmoid(ScalarActivation):
    """The logistic function 1 / (1 + exp(-x))."""

    on_arrays = True

    def function(self, x):
        return 1 / (1 + np.exp(-x))

    def formula(self, x, out):
        return "1 / (1 + %s(-(%s)))" % (float_function("exp", out), x)

    def gradient(self, gz, x, z):
        return gz * z * (_one(z) - z)


def _one(z):
    return scal.constant(1, dtype=z.type.dtype)


scalar_sigmoid = ScalarSigmoid(scal.upgrade_to_float, name="scalar_sigmoid")
sigmoid = Elemwise(scalar_sigmoid, name="sigmoid")
sigmoid.__doc__ = """The logistic function ``1 / (1 + exp(-x))``, elementwise; float of the precision of x."""
readers[sigmoid] = read_function(logistic)
sigmoid_inplace = Elemwise(ScalarSigmoid(scal.transfer_type(0)), inplace_pattern={0: 0}, name="sigmoid_inplace")


class UltraFastScalarSigmoid(ScalarActivation):
    """A piecewise approximation of the logistic function, between 0.00247262315663 and 0.997527376843.

    Let t = |x| / 2. Then z is 1.5 t / (1 + t) for t < 1.7, a linear function for t < 3, and a constant for larger t.
    The result is (1 + z) / 2 for x >= 0, and (1 - z) / 2 for x < 0. The result jumps by 0.0045 at t = 1.7.
    """

    def function(self, x):
        if x != x:
            return x
        t = 0.5 * abs(float(x))
        if t < 1.7:
            z = 1.5 * t / (1 + t)
        elif t < 3:
            z = 0.935409070603099 + 0.0458812946797165 * (t - 1.7)
        else:
            z = 0.99505475368673
        return 0.5 * ((z if x >= 0 else -z) + 1.0)

    def formula(self, x, out):
        t = "(0.5 * fabs((double)(%s)))" % x
        z = (
            "(%s < 1.7 ? 1.5 * %s / (1 + %s) : %s < 3 ? 0.935409070603099 + 0.0458812946797165 * (%s - 1.7) : 0.99505475368673)"
            % ((t,) * 5)
        )
        return "%s != %s ? %s : 0.5 * (copysign(%s, (double)(%s)) + 1.0)" % (x, x, x, z, x)

    def gradient(self, gz, x, z):
        # This is the gradient of the exact sigmoid, computed from the approximate value z.
        return gz * z * (_one(z) - z)


ultra_fast_scalar_sigmoid = UltraFastScalarSigmoid(scal.upgrade_to_float, name="ultra_fast_scalar_sigmoid")
ultra_fast_sigmoid = Elemwise(ultra_fast_scalar_sigmoid, name="ultra_fast_sigmoid")
ultra_fast_sigmoid.__doc__ = """A piecewise approximation of `sigmoid` that never reaches 0 or 1, elementwise."""
ultra_fast_sigmoid_inplace = Elemwise(
    UltraFastScalarSigmoid(scal.transfer_type(0)), inplace_pattern={0: 0}, name="ultra_fast_sigmoid_inplace"
)


def hard_sigmoid(x: TensorLike) -> TensorVariable:
    """Compute the fastest approximation of the sigmoid: a line of slope 0.2 through (0, 1/2), clipped to [0, 1].

    Parameters
    ----------
    x : tensor

    Returns
    -------
    tensor
        A tensor of the float dtype of `x`.
    """
    x = as_tensor_variable(x)
    dtype = scal.upgrade_to_float_no_complex(scal.get_scalar_type(x.dtype))[0].dtype
    slope, shift = constant(np.asarray(0.2, dtype)), constant(np.asarray(0.5, dtype))
    return clip(x * slope + shift, np.asarray(0, dtype), np.asarray(1, dtype))


class ScalarSoftplus(ScalarActivation):
    """The function log(1 + exp(x)). It does not overflow, and it is accurate if exp(x) is small."""

    on_arrays = True

    def function(self, x):
        return np.log1p(np.exp(-abs(x))) + np.maximum(x, x.dtype.type(0))

    def formula(self, x, out):
        log1p, exp, fabs = (float_function(f, out) for f in ("log1p", "exp", "fabs"))
        return "%s(%s(-%s(%s))) + (%s <= 0 ? 0 : %s)" % (log1p, exp, fabs, x, x, x)

    def gradient(self, gz, x, z):
        return gz * scalar_sigmoid(x)


class ScalarSoftsign(ScalarActivation):
    """The function x / (1 + |x|)."""

    def function(self, x):
        return np.copysign(1, x) if np.isinf(x) else x / (1 + abs(x))

    def formula(self, x, out):
        fabs, copysign = (float_function(f, out) for f in ("fabs", "copysign"))
        return "%s(%s) == INFINITY ? %s(1, %s) : %s / (1 + %s(%s))" % (fabs, x, copysign, x, x, fabs, x)

    def gradient(self, gz, x, z):
        d = scal.constant(1, dtype=z.type.dtype) + abs(x)
        return gz / (d * d)


scalar_softplus = ScalarSoftplus(scal.upgrade_to_float, name="scalar_softplus")
scalar_softsign = ScalarSoftsign(scal.upgrade_to_float, name="scalar_softsign")
instructions.register(scalar_sigmoid, ultra_fast_scalar_sigmoid, scalar_softplus, scalar_softsign)
softplus = Elemwise(scalar_softplus, name="softplus")
softplus.__doc__ = """``log(1 + exp(x))``, elementwise, without overflow."""
softsign = Elemwise(scalar_softsign, name="softsign")
softsign.__doc__ = """``x / (1 + |x|)``, elementwise."""
