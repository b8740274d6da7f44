"""Shrinkage of numbers towards zero, as a scalar Op that Elemwise applies to arrays."""

import numpy as np

import theano_ng as theano
from theano_ng import scalar
from theano_ng.tensor.elemwise import Elemwise

# The functions for each mode. A negative threshold counts as 0. The threshold of unsigned numbers has no negative.
SUPPORT_CODE = """
#include <limits>

template <typename number> static number shrink_hard(number x, number t)
{
    const bool kept = x > t || (std::numeric_limits<number>::is_signed && x < -t);
    return kept ? x : 0;
}

template <typename number> static number shrink_soft(number x, number t)
{
    if (x > t)
        return x - t;
    return std::numeric_limits<number>::is_signed && x < -t ? x + t : 0;
}

/* The quotient is computed first, because the square of t may overflow. */
template <typename number> static number shrink_garrote(number x, number t)
{
    return x > t || x < -t ? x - t * (t / x) : 0;
}
"""


class ScalarShrinkage(scalar.BinaryScalarOp):
    """Set numbers x between -t and t to zero, and change the others according to the mode.

    The result is NaN if x or t is NaN. A negative t counts as 0. A result of 0 is never -0.0.

    Parameters
    ----------
    mode : {'hard', 'soft', 'garrote'}
        Other numbers stay unchanged, move towards 0 by t, or become ``x - t**2 / x``. In the modes 'hard' and 'soft',
        the result of integers has the dtype to which the inputs are upcast. In the mode 'garrote', it is a float64.
    """

    __props__ = ("mode",)

    def __init__(self, mode="soft", name=None):
        if mode not in ("hard", "soft", "garrote"):
            raise ValueError("mode must be 'hard', 'soft' or 'garrote', not %r" % (mode,))
        self.mode = mode
        super().__init__(name=name)

    def output_types(self, types):
        for one in types:
            if one.dtype.startswith("complex") or one.dtype in ("bool", "float16"):
                raise TypeError("Shrinkage is not defined for %s" % one.dtype)
        result = scalar.upcast_out(*types)[0]
        return [scalar.float64 if self.mode == "garrote" and result in scalar.discrete_types else result]

    def impl(self, x, t):
        if isinstance(x, np.integer) and isinstance(t, np.integer) and self.mode != "garrote":
            x, t = int(x), int(t)  # without overflow
        else:
            x, t = np.float64(x), np.float64(t)
            if x != x or t != t:
                return np.float64(np.nan)
        t = max(t, type(t)(0))
        if -t <= x <= t:
            return type(x)(0)
        if self.mode == "hard":
            return x
        with np.errstate(over="ignore", under="ignore"):
            if self.mode == "soft":
                return x - t if x > 0 else x + t
            return x - t * (t / x)

    def c_support_code(self):
        return SUPPORT_CODE

    def c_code(self, node, name, inputs, outputs, sub):
        dtype = node.outputs[0].type.dtype
        if dtype.startswith("float"):
            number, nan = "double", "if (x != x || t != t) %s = NPY_NAN; else" % outputs[0]
        else:
            number, nan = "npy_" + dtype, ""
        return """
        {
            const %(number)s x = (%(number)s)%(x)s, given = (%(number)s)%(t)s;
            const %(number)s t = given < 0 ? (%(number)s)0 : given;
            %(nan)s %(z)s = shrink_%(mode)s<%(number)s>(x, t);
        }
        """ % dict(x=inputs[0], t=inputs[1], z=outputs[0], number=number, nan=nan, mode=self.mode)

    def c_compile_args(self):
        return ["-ffp-contract=off"]  # round the product, as Python does

    def c_code_cache_version(self):
        return (1, self.mode)

    def grad(self, inputs, output_grads):
        (g,) = output_grads
        if all(one.dtype in scalar.discrete_dtypes for one in inputs) and self.mode != "garrote":
            return [one.zeros_like(dtype=theano.config.floatX) for one in inputs]
        x, given = (scalar.cast(one, g.dtype) for one in inputs)
        zero, one, minus_one, minus_two = (scalar.constant(np.asarray(n, g.dtype)) for n in (0, 1, -1, -2))
        t = scalar.switch(scalar.lt(given, zero), zero, given)
        beyond = scalar.gt(scalar.abs_(x), t)
        kept = scalar.or_(beyond, scalar.eq(t, zero))  # no number is changed, also not 0
        if self.mode == "garrote":
            ratio = t / scalar.switch(beyond, x, one)
            slopes = one + ratio * ratio, minus_two * ratio
        elif self.mode == "soft":
            slopes = one, scalar.switch(scalar.gt(x, zero), minus_one, one)
        else:
            slopes = one, zero
        moves = scalar.and_(beyond, scalar.ge(given, zero))
        return [
            scalar.cast(scalar.switch(chosen, slope, zero) * g, variable.dtype)
            if variable.dtype.startswith("float")
            else variable.zeros_like(dtype=theano.config.floatX)
            for variable, chosen, slope in zip(inputs, (kept, moves), slopes)
        ]


def shrinkage(mode="soft"):
    """Return an Op that applies ScalarShrinkage to all elements of two arrays."""
    return Elemwise(ScalarShrinkage(mode))


def audit_cases():
    """Return pairs of an Op and example inputs."""
    x, t = np.array([[0.5, -1.25, 2.0], [-0.75, 1.5, -3.0]]), np.array([[1.0, 0.25, 0.75], [0.5, 2.0, 1.0]])
    return [
        (shrinkage("soft"), [x, t]),
        (shrinkage("garrote"), [x.astype("float32"), t.astype("float32")]),
        (shrinkage("hard"), [(4 * x).astype("int32"), (4 * t).astype("int32")]),
    ]
