"""Scalar ops for SciPy's special functions.

SciPy is imported only when Python computes a value. The C code does not need SciPy.
"""

import functools
import importlib.util
import math

import numpy as np

from theano_ng.gof.derivative import grad_not_implemented
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import (
    BinaryScalarOp,
    UnaryScalarOp,
    c_cast,
    compute_in_output_float,
    discrete_gradient,
    is_complex,
    is_discrete,
)
from theano_ng.scalar.out_types import upgrade_to_float, upgrade_to_float64, upgrade_to_float_no_complex
from theano_ng.scalar.types import complex_types, constant, float_types  # noqa: F401  (float_types: classic name)

imported_scipy_special = importlib.util.find_spec("scipy") is not None


@functools.cache
def _special(name):
    """Return the function `name` of scipy.special."""
    try:
        import scipy.special
    except ImportError:
        raise NotImplementedError(
            "scipy.special.%s is needed to compute this in Python: install SciPy, or use a mode that compiles C" % name
        ) from None
    return getattr(scipy.special, name)


def _number(value, like):
    return constant(value, dtype=like.type.dtype)


class _Special:
    """A mixin of the special functions: in Python they call SciPy, and their C code calls a function of doubles."""

    scipy_name = None
    c_function = None

    def impl(self, *inputs):
        with np.errstate(all="ignore"):
            return _special(self.scipy_name)(*[_as_float(x) for x in inputs])

    @property
    def on_arrays(self):
        """True if `value` accepts whole arrays. This is the case if the class does not override `impl`."""
        return type(self).impl is _Special.impl

    def value(self, *arrays):
        """Apply SciPy's function to arrays that have the dtype of the output."""
        return _special(self.scipy_name)(*arrays)

    def c_expression(self, args, dtypes, out):
        if self.c_function is None or is_discrete(out) or is_complex(out) or any(map(is_complex, dtypes)):
            raise MethodNotDefined("c_code", type(self), "no C code for the dtypes %s -> %s" % (dtypes, out))
        return c_cast(
            "%s(%s)" % (self.c_function, ", ".join(c_cast(a, d, "float64") for a, d in zip(args, dtypes))),
            "float64",
            out,
        )

    def derivatives(self, inputs, output):
        """Return the derivative of the output with respect to each input.

        The derivative is None for an input without a known formula.
        """
        raise MethodNotDefined("derivatives", type(self), self.__class__.__name__)

    def L_op(self, inputs, outputs, grads):
        (gz,) = grads
        if any(x.type in complex_types for x in inputs):
            raise NotImplementedError("the gradient of %s with respect to complex inputs is not defined" % self)
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        result = []
        for k, slope in enumerate(self.derivatives(inputs, outputs[0])):
            if slope is None:
                result.append(grad_not_implemented(self, k, inputs[k]))
            else:
                result.append(ops.mul(gz, slope))
        return result

    def grad(self, inputs, grads):
        return self.L_op(inputs, self.make_node(*inputs).outputs, grads)


def _as_float(x):
    """Convert an integer to a float, because SciPy's loops for integers may have another meaning or less precision."""
    x = compute_in_output_float(x)
    return float(x) if np.asarray(x).dtype.kind in "biu" else x


class _UnarySpecial(_Special, UnaryScalarOp):
    output_types_preference = staticmethod(upgrade_to_float)


class _BinarySpecial(_Special, BinaryScalarOp):
    output_types_preference = staticmethod(upgrade_to_float)


class _LibmSpecial(_UnarySpecial):
    """Base class of functions that libm provides for float and double."""

    def c_expression(self, args, dtypes, out):
        if out == "float32":
            return "%sf(%s)" % (self.c_function, c_cast(args[0], dtypes[0], out))
        return super().c_expression(args, dtypes, out)


class Erf(_LibmSpecial):
    """Error function."""

    nfunc_spec = ("scipy.special.erf", 1, 1)
    scipy_name = c_function = "erf"

    def derivatives(self, inputs, output):
        (x,) = inputs
        return [ops.mul(_number(2 / math.sqrt(math.pi), output), ops.exp(ops.neg(ops.mul(x, x))))]


class Erfc(_LibmSpecial):
    """Complementary error function, ``1 - erf(x)``."""

    nfunc_spec = ("scipy.special.erfc", 1, 1)
    scipy_name = c_function = "erfc"

    def derivatives(self, inputs, output):
        (x,) = inputs
        return [ops.mul(_number(-2 / math.sqrt(math.pi), output), ops.exp(ops.neg(ops.mul(x, x))))]


class Erfcx(_UnarySpecial):
    """Scaled complementary error function, ``exp(x**2) * erfc(x)``, which does not underflow for large x."""

    nfunc_spec = ("scipy.special.erfcx", 1, 1)
    scipy_name, c_function, c_helpers = "erfcx", "tng_erfcx", "erf.h"

    def derivatives(self, inputs, output):
        (x,) = inputs
        return [ops.sub(ops.mul(constant(2, dtype="int8"), x, output), _number(2 / math.sqrt(math.pi), output))]


class Erfinv(_UnarySpecial):
    """Inverse of the error function."""

    nfunc_spec = ("scipy.special.erfinv", 1, 1)
    scipy_name, c_function, c_helpers = "erfinv", "tng_erfinv", "erf.h"

    def derivatives(self, inputs, output):
        return [ops.mul(_number(math.sqrt(math.pi) / 2, output), ops.exp(ops.mul(output, output)))]


class Erfcinv(_UnarySpecial):
    """Inverse of the complementary error function."""

    nfunc_spec = ("scipy.special.erfcinv", 1, 1)
    scipy_name, c_function, c_helpers = "erfcinv", "tng_erfcinv", "erf.h"

    def impl(self, x):
        value = super().impl(x)
        # Correct the result for the smallest positive number: SciPy halves this number, which underflows to 0, and
        # returns infinity.
        return value.dtype.type(27.213293210812948815) if float(x) == 5e-324 else value

    def derivatives(self, inputs, output):
        return [ops.mul(_number(-math.sqrt(math.pi) / 2, output), ops.exp(ops.mul(output, output)))]


class Gamma(_UnarySpecial):
    """Gamma function."""

    nfunc_spec = ("scipy.special.gamma", 1, 1)
    scipy_name, c_function, c_helpers = "gamma", "tng_gamma", "gamma.h"

    def derivatives(self, inputs, output):
        return [ops.mul(output, ops.psi(inputs[0]))]


class GammaLn(_UnarySpecial):
    """Logarithm of the absolute value of the gamma function. ``gammaln(-inf)`` is -inf."""

    nfunc_spec = ("scipy.special.gammaln", 1, 1)
    scipy_name, c_function, c_helpers = "gammaln", "tng_lgamma", "gamma.h"

    def impl(self, x):
        value = super().impl(x)
        # Near 0, log |gamma(x)| is -log |x|. SciPy returns infinity for the smallest positive and negative numbers.
        return -np.log(abs(x)) if 0 < abs(float(x)) < 1e-100 else value

    def derivatives(self, inputs, output):
        return [ops.psi(inputs[0])]


class Psi(_UnarySpecial):
    """Digamma function: the derivative of the logarithm of the gamma function."""

    nfunc_spec = ("scipy.special.psi", 1, 1)
    scipy_name, c_function, c_helpers = "psi", "tng_psi", "gamma.h"

    def derivatives(self, inputs, output):
        return [ops.tri_gamma(inputs[0])]


class TriGamma(_UnarySpecial):
    """Trigamma function: the second derivative of the logarithm of the gamma function.

    Its gradient is not implemented.
    """

    scipy_name, c_function, c_helpers = "polygamma", "tng_tri_gamma", "gamma.h"

    def impl(self, x):
        with np.errstate(all="ignore"):
            return _special("polygamma")(1, _as_float(x))

    def derivatives(self, inputs, output):
        return [None]


class Chi2SF(_BinarySpecial):
    """Survival function of the chi-squared distribution: ``chi2sf(x, k)`` for k degrees of freedom."""

    nfunc_spec = ("scipy.stats.chi2.sf", 2, 1)
    scipy_name, c_function, c_helpers = "chdtrc", "tng_chi2sf", ("gamma.h", "special.h")
    output_types_preference = staticmethod(upgrade_to_float64)

    def impl(self, x, k):
        # Call scipy.special.chdtrc directly. scipy.stats.chi2.sf calls this function, too, but importing scipy.stats
        # takes long.
        if not k > 0 or x != x:
            return float("nan")
        return 1.0 if x <= 0 else super().impl(np.float64(k), np.float64(x))  # float64 is the dtype of the output

    def derivatives(self, inputs, output):
        x, k = inputs
        half = _number(0.5, output)
        a = ops.mul(k, half)
        # chi2sf(x, k) is Q(k/2, x/2), where Q is `gammaincc`. d Q(a, t) / d t = -t**(a - 1) exp(-t) / gamma(a).
        t = ops.mul(x, half)
        density = ops.exp(
            ops.sub(ops.mul(ops.sub(a, constant(1, dtype="int8")), ops.log(t)), ops.add(t, ops.gammaln(a)))
        )
        slope = ops.mul(_number(-0.5, output), density)
        # The density is 0 for x < 0.
        return [ops.switch(ops.lt(x, constant(0, dtype="int8")), slope.zeros_like(), slope), None]


class _IncompleteGamma(_BinarySpecial):
    """Base class of the incomplete gamma functions. Their gradient in x is a multiple of ``x**(k - 1) * exp(-x)``."""

    c_helpers = ("gamma.h", "special.h")
    sign = 1
    regularized = True

    def impl(self, k, x):
        if self.scipy_name == "gammainc" and 0 < float(k) < 1e-300 and x > 0:
            # Compute 1 - Q, because SciPy's gammainc divides by gamma(k), which overflows for tiny k.
            return 1 - _special("gammaincc")(_as_float(k), _as_float(x))
        return super().impl(k, x)

    def derivatives(self, inputs, output):
        k, x = inputs
        exponent = ops.sub(ops.mul(ops.sub(k, constant(1, dtype="int8")), ops.log(x)), x)
        if self.regularized:
            exponent = ops.sub(exponent, ops.gammaln(k))
        slope = ops.exp(exponent)
        return [None, slope if self.sign > 0 else ops.neg(slope)]


class GammaInc(_IncompleteGamma):
    """Regularized lower incomplete gamma function ``gammainc(k, x)``."""

    nfunc_spec = ("scipy.special.gammainc", 2, 1)
    scipy_name, c_function = "gammainc", "tng_gammainc"


class GammaIncC(_IncompleteGamma):
    """Regularized upper incomplete gamma function ``gammaincc(k, x)``."""

    nfunc_spec = ("scipy.special.gammaincc", 2, 1)
    scipy_name, c_function = "gammaincc", "tng_gammaincc"
    sign = -1


class GammaU(_IncompleteGamma):
    """Upper incomplete gamma function ``gammau(k, x)``."""

    scipy_name, c_function = "gammaincc", "tng_gammau"
    sign, regularized = -1, False

    def impl(self, k, x):
        if 0 < float(k) < 1e-300 and x > 0:
            k = np.float64(1e-300)  # gamma(k) could overflow. For all k up to 1e-300, the result is E1(x).
        with np.errstate(all="ignore"):
            # Compute in float64: a factor may be out of the range of float32 even if the product is not.
            return super().impl(np.float64(k), np.float64(x)) * _special("gamma")(np.float64(k))


class GammaL(_IncompleteGamma):
    """Lower incomplete gamma function ``gammal(k, x)``."""

    scipy_name, c_function = "gammainc", "tng_gammal"
    regularized = False

    def impl(self, k, x):
        with np.errstate(all="ignore"):
            # Compute in float64: a factor may be out of the range of float32 even if the product is not.
            return super().impl(np.float64(k), np.float64(x)) * _special("gamma")(np.float64(k))


def _orders_beside(bessel, v, x):
    """Return the values at x of a Bessel function for the orders v - 1 and v + 1.

    The derivative of the function of order v is computed from these values (DLMF 10.6.1 and 10.29.1).
    """
    one = constant(1, dtype="int8")
    return bessel(ops.sub(v, one), x), bessel(ops.add(v, one), x)


class Jv(_BinarySpecial):
    """Bessel function of the first kind of real order, ``jv(v, x)``. It has no C code."""

    nfunc_spec = ("scipy.special.jv", 2, 1)
    scipy_name = "jv"

    def derivatives(self, inputs, output):
        lower, upper = _orders_beside(ops.jv, *inputs)
        return [None, ops.mul(ops.sub(lower, upper), _number(0.5, output))]


class J1(_UnarySpecial):
    """Bessel function of the first kind of order 1."""

    nfunc_spec = ("scipy.special.j1", 1, 1)
    scipy_name, c_function, c_helpers = "j1", "tng_j1", "bessel.h"
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def derivatives(self, inputs, output):
        (x,) = inputs
        two = ops.jv(constant(2, dtype="int8"), x)
        return [ops.mul(ops.sub(ops.j0(x), two), _number(0.5, output))]


class J0(_UnarySpecial):
    """Bessel function of the first kind of order 0."""

    nfunc_spec = ("scipy.special.j0", 1, 1)
    scipy_name, c_function, c_helpers = "j0", "tng_j0", "bessel.h"
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def derivatives(self, inputs, output):
        return [ops.neg(ops.j1(inputs[0]))]


class Iv(_BinarySpecial):
    """Modified Bessel function of the first kind of real order, ``iv(v, x)``. It has no C code."""

    nfunc_spec = ("scipy.special.iv", 2, 1)
    scipy_name = "iv"

    def derivatives(self, inputs, output):
        lower, upper = _orders_beside(ops.iv, *inputs)
        return [None, ops.mul(ops.add(lower, upper), _number(0.5, output))]


class I1(_UnarySpecial):
    """Modified Bessel function of the first kind of order 1."""

    nfunc_spec = ("scipy.special.i1", 1, 1)
    scipy_name, c_function, c_helpers = "i1", "tng_i1", "bessel.h"
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def derivatives(self, inputs, output):
        (x,) = inputs
        two = ops.iv(constant(2, dtype="int8"), x)
        return [ops.mul(ops.add(ops.i0(x), two), _number(0.5, output))]


class I0(_UnarySpecial):
    """Modified Bessel function of the first kind of order 0."""

    nfunc_spec = ("scipy.special.i0", 1, 1)
    scipy_name, c_function, c_helpers = "i0", "tng_i0", "bessel.h"
    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def derivatives(self, inputs, output):
        return [ops.i1(inputs[0])]


erf = Erf(upgrade_to_float, name="erf")
erfc = Erfc(upgrade_to_float_no_complex, name="erfc")
erfcx = Erfcx(upgrade_to_float_no_complex, name="erfcx")
erfinv = Erfinv(upgrade_to_float_no_complex, name="erfinv")
erfcinv = Erfcinv(upgrade_to_float_no_complex, name="erfcinv")
gamma = Gamma(upgrade_to_float, name="gamma")
gammaln = GammaLn(upgrade_to_float_no_complex, name="gammaln")
psi = Psi(upgrade_to_float, name="psi")
tri_gamma = TriGamma(upgrade_to_float_no_complex, name="tri_gamma")
chi2sf = Chi2SF(upgrade_to_float64, name="chi2sf")
gammainc = GammaInc(upgrade_to_float_no_complex, name="gammainc")
gammaincc = GammaIncC(upgrade_to_float_no_complex, name="gammaincc")
gammau = GammaU(upgrade_to_float_no_complex, name="gammau")
gammal = GammaL(upgrade_to_float_no_complex, name="gammal")
jv = Jv(upgrade_to_float_no_complex, name="jv")
j1 = J1(upgrade_to_float_no_complex, name="j1")
j0 = J0(upgrade_to_float_no_complex, name="j0")
iv = Iv(upgrade_to_float_no_complex, name="iv")
i1 = I1(upgrade_to_float_no_complex, name="i1")
i0 = I0(upgrade_to_float_no_complex, name="i0")

__all__ = [
    "Chi2SF",
    "Erf",
    "Erfc",
    "Erfcinv",
    "Erfcx",
    "Erfinv",
    "Gamma",
    "GammaInc",
    "GammaIncC",
    "GammaL",
    "GammaLn",
    "GammaU",
    "I0",
    "I1",
    "Iv",
    "J0",
    "J1",
    "Jv",
    "Psi",
    "TriGamma",
    "chi2sf",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammal",
    "gammaln",
    "gammau",
    "i0",
    "i1",
    "imported_scipy_special",
    "iv",
    "j0",
    "j1",
    "jv",
    "psi",
    "tri_gamma",
]
ops.define({name: globals()[name] for name in __all__})
