"""Exponentials, logarithms, roots, trigonometry and rounding."""

import math

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import (
    AsDeclared,
    BinaryScalarOp,
    UnaryMath,
    UnaryScalarOp,
    c_cast,
    compute_in_output_float,
    discrete_gradient,
    is_complex,
    is_discrete,
)
from theano_ng.scalar.out_types import upgrade_to_float, upgrade_to_float_no_complex
from theano_ng.scalar.types import c_type, constant, discrete_types, get_scalar_type


def _number(value, like):
    """Return the constant `value` in the dtype of the variable `like`."""
    return constant(value, dtype=like.type.dtype)


class Exp(UnaryMath):
    """e to the power of x."""

    nfunc_spec = ("exp", 1, 1)
    c_function = "exp"
    amd_float32 = "amd_vrsa_expf"
    amd_float64 = "amd_vrda_exp"

    def gradient(self, gz, x, z):
        return gz * z


class Exp2(UnaryMath):
    """2 to the power of x."""

    nfunc_spec = ("exp2", 1, 1)
    c_function = "exp2"
    c_complex = False

    def gradient(self, gz, x, z):
        return gz * z * _number(math.log(2), z)


class Expm1(UnaryMath):
    """exp(x) - 1. It is accurate near zero."""

    nfunc_spec = ("expm1", 1, 1)
    c_function = "expm1"
    c_complex = False

    def gradient(self, gz, x, z):
        return gz * ops.exp(x)


class Log(UnaryMath):
    """Natural logarithm."""

    nfunc_spec = ("log", 1, 1)
    c_function = "log"
    amd_float32 = "amd_vrsa_logf"
    amd_float64 = "amd_vrda_log"

    def gradient(self, gz, x, z):
        return gz / x


class Log2(UnaryMath):
    """Logarithm in base 2."""

    nfunc_spec = ("log2", 1, 1)
    c_function = "log2"
    c_complex = False
    amd_float32 = "amd_vrsa_log2f"
    amd_float64 = "amd_vrda_log2"

    def gradient(self, gz, x, z):
        return gz / (x * _number(math.log(2), z))


class Log10(UnaryMath):
    """Logarithm in base 10."""

    nfunc_spec = ("log10", 1, 1)
    c_function = "log10"
    c_complex = False
    amd_float32 = "amd_vrsa_log10f"
    amd_float64 = "amd_vrda_log10"

    def gradient(self, gz, x, z):
        return gz / (x * _number(math.log(10), z))


class Log1p(UnaryMath):
    """log(1 + x). It is accurate near zero."""

    nfunc_spec = ("log1p", 1, 1)
    c_function = "log1p"
    c_complex = False

    def gradient(self, gz, x, z):
        return gz / (1 + x)


class Sqrt(UnaryMath):
    """Square root."""

    nfunc_spec = ("sqrt", 1, 1)
    c_function = "sqrt"

    def gradient(self, gz, x, z):
        return gz * _number(0.5, z) / z


class Deg2Rad(AsDeclared, UnaryMath):
    """Conversion of degrees to radians."""

    nfunc_spec = ("deg2rad", 1, 1)
    factor = math.pi / 180
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def c_expression(self, args, dtypes, out):
        return "(%s * (%s)%r)" % (c_cast(args[0], dtypes[0], out), c_type(out), self.factor)

    def gradient(self, gz, x, z):
        return gz * _number(self.factor, z)


class Rad2Deg(AsDeclared, UnaryMath):
    """Conversion of radians to degrees."""

    nfunc_spec = ("rad2deg", 1, 1)
    factor = 180 / math.pi
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def c_expression(self, args, dtypes, out):
        return "(%s * (%s)%r)" % (c_cast(args[0], dtypes[0], out), c_type(out), self.factor)

    def gradient(self, gz, x, z):
        return gz * _number(self.factor, z)


class Cos(UnaryMath):
    """Cosine."""

    nfunc_spec = ("cos", 1, 1)
    c_function = "cos"
    amd_float32 = "amd_vrsa_cosf"
    amd_float64 = "amd_vrda_cos"

    def gradient(self, gz, x, z):
        return -gz * ops.sin(x)


class Sin(UnaryMath):
    """Sine."""

    nfunc_spec = ("sin", 1, 1)
    c_function = "sin"
    amd_float32 = "amd_vrsa_sinf"
    amd_float64 = "amd_vrda_sin"

    def gradient(self, gz, x, z):
        return gz * ops.cos(x)


class Tan(UnaryMath):
    """Tangent."""

    nfunc_spec = ("tan", 1, 1)
    c_function = "tan"

    def gradient(self, gz, x, z):
        return gz / ops.sqr(ops.cos(x))


class ArcCos(UnaryMath):
    """Inverse cosine."""

    nfunc_spec = ("arccos", 1, 1)
    c_function = "acos"

    def gradient(self, gz, x, z):
        return -gz / ops.sqrt(1 - ops.sqr(x))


class ArcSin(UnaryMath):
    """Inverse sine."""

    nfunc_spec = ("arcsin", 1, 1)
    c_function = "asin"

    def gradient(self, gz, x, z):
        return gz / ops.sqrt(1 - ops.sqr(x))


class ArcTan(UnaryMath):
    """Inverse tangent."""

    nfunc_spec = ("arctan", 1, 1)
    c_function = "atan"

    def gradient(self, gz, x, z):
        return gz / (1 + ops.sqr(x))


class Cosh(UnaryMath):
    """Hyperbolic cosine."""

    nfunc_spec = ("cosh", 1, 1)
    c_function = "cosh"

    def gradient(self, gz, x, z):
        return gz * ops.sinh(x)


class Sinh(UnaryMath):
    """Hyperbolic sine."""

    nfunc_spec = ("sinh", 1, 1)
    c_function = "sinh"

    def gradient(self, gz, x, z):
        return gz * ops.cosh(x)


class Tanh(UnaryMath):
    """Hyperbolic tangent."""

    nfunc_spec = ("tanh", 1, 1)
    c_function = "tanh"
    c_helpers = "hyperbolic.h"

    def c_expression(self, args, dtypes, out):
        if out in ("float32", "float64"):
            return "tng_tanh_%s(%s)" % (out, c_cast(args[0], dtypes[0], out))
        return super().c_expression(args, dtypes, out)

    def gradient(self, gz, x, z):
        return gz * (1 - ops.sqr(z))


class ArcCosh(UnaryMath):
    """Inverse hyperbolic cosine."""

    nfunc_spec = ("arccosh", 1, 1)
    c_function = "acosh"
    c_helpers = "hyperbolic.h"

    def c_expression(self, args, dtypes, out):
        if out == "float32":
            return "tng_acosh_float32(%s)" % c_cast(args[0], dtypes[0], out)
        return super().c_expression(args, dtypes, out)

    def gradient(self, gz, x, z):
        return gz / ops.sqrt(ops.sqr(x) - 1)


class ArcSinh(UnaryMath):
    """Inverse hyperbolic sine."""

    nfunc_spec = ("arcsinh", 1, 1)
    c_function = "asinh"

    def gradient(self, gz, x, z):
        return gz / ops.sqrt(ops.sqr(x) + 1)


class ArcTanh(UnaryMath):
    """Inverse hyperbolic tangent."""

    nfunc_spec = ("arctanh", 1, 1)
    c_function = "atanh"

    def gradient(self, gz, x, z):
        return gz / (1 - ops.sqr(x))


class ArcTan2(BinaryScalarOp):
    """Angle of the point (x, y), where the inputs are y and x."""

    nfunc_spec = ("arctan2", 2, 1)
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def impl(self, y, x):
        with np.errstate(all="ignore"):
            return np.arctan2(compute_in_output_float(y), compute_in_output_float(x))

    def c_expression(self, args, dtypes, out):
        y, x = (c_cast(a, d, out) for a, d in zip(args, dtypes))
        if is_discrete(out):
            raise MethodNotDefined("c_code", type(self), "arctan2 with the discrete output dtype %s" % out)
        return "atan2%s(%s, %s)" % ("f" if out == "float32" else "", y, x)

    def L_op(self, inputs, outputs, gout):
        (y, x), (gz,) = inputs, gout
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        norm = ops.add(ops.sqr(x), ops.sqr(y))
        return [ops.true_div(ops.mul(gz, x), norm), ops.true_div(ops.neg(ops.mul(gz, y)), norm)]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


def _as_float(x):
    """Convert a number to the float dtype that `upgrade_to_float` gives for its dtype."""
    x = np.asarray(x)
    return x.astype(upgrade_to_float(get_scalar_type(x.dtype.name))[0].dtype)[()]


class _Rounding(UnaryScalarOp):
    """Base class of ops that round to a whole number. The result is a float, even for integers (`upgrade_to_float`)."""

    output_types_preference = staticmethod(upgrade_to_float_no_complex)
    c_function = None

    def impl(self, x):
        return self.rounded(_as_float(x))

    def rounded(self, x):
        """Return the rounded value of a float."""
        return getattr(np, self.nfunc_spec[0])(x)

    def c_expression(self, args, dtypes, out):
        (x,), (dtype,) = args, dtypes
        if is_complex(dtype):
            raise MethodNotDefined("c_code", type(self), "rounding of %s" % dtype)
        if is_discrete(dtype):
            return c_cast(x, dtype, out)
        return "__builtin_%s%s(%s)" % (self.c_function, "f" if dtype == "float32" else "", x)

    def grad(self, inputs, gout):
        """Return zero, because the function is constant between its jumps."""
        (x,) = inputs
        return [x.zeros_like(dtype=config.floatX if x.type in discrete_types else x.type.dtype)]


class Ceil(_Rounding):
    """Smallest whole number that is not less than x."""

    nfunc_spec = ("ceil", 1, 1)
    c_function = "ceil"


class Floor(_Rounding):
    """Largest whole number that is not greater than x."""

    nfunc_spec = ("floor", 1, 1)
    c_function = "floor"


class Trunc(_Rounding):
    """x without its fractional part."""

    nfunc_spec = ("trunc", 1, 1)
    c_function = "trunc"


class RoundHalfToEven(_Rounding):
    """Nearest whole number. A half is rounded to the even neighbor, as in ``numpy.round``."""

    nfunc_spec = ("around", 1, 1)
    c_function = "rint"

    def rounded(self, x):
        return np.rint(x)


def round_half_away_from_zero_(a):
    """Round a number to the nearest whole number. A half is rounded away from zero.

    Parameters
    ----------
    a : number

    Returns
    -------
    number
        The rounded number, in the dtype of `a`.
    """
    a = np.asarray(a)
    if a.dtype.kind in "biu":
        return a[()]
    whole = np.trunc(a)
    # Compare a - trunc(a), which is exact, with 0.5. floor(a + 0.5) would be wrong for the largest number below 0.5.
    with np.errstate(all="ignore"):
        rounded = whole + np.copysign(np.abs(a - whole) >= 0.5, a)
    return np.where(np.isfinite(a), rounded, a).astype(a.dtype)[()]


def round_half_away_from_zero_vec(a):
    """Apply `round_half_away_from_zero_` to every element of an array."""
    return round_half_away_from_zero_(a)


class RoundHalfAwayFromZero(_Rounding):
    """Nearest whole number. A half is rounded away from zero, as in C's ``round``."""

    c_function = "round"

    def rounded(self, x):
        return round_half_away_from_zero_(x)
