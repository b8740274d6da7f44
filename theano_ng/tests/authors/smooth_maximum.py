"""A smooth maximum of two numbers, as a scalar Op that Elemwise applies to arrays."""

import math

import numpy as np

from theano_ng import scalar
from theano_ng.tensor import nnet
from theano_ng.tensor.elemwise import Elemwise


def output_types(*types):
    """Return float32 if all inputs are float32, otherwise float64; complex numbers and float16 are refused."""
    for one in types:
        if one.dtype.startswith("complex") or one.dtype == "float16":
            raise TypeError("SmoothMaximum is not defined for %s" % one.dtype)
    return [scalar.float32 if all(one.dtype == "float32" for one in types) else scalar.float64]


class ScalarSmoothMaximum(scalar.BinaryScalarOp):
    """Compute ``scale * log(exp(x / scale) + exp(y / scale))`` without overflow.

    Parameters
    ----------
    scale : float
        The result exceeds the maximum of the inputs by at most ``scale * log(2)``. If it is 0, the result is the
        maximum, or NaN if an input is NaN.
    """

    __props__ = ("scale",)

    def __init__(self, scale, name=None):
        scale = float(scale) + 0.0  # -0.0 becomes 0.0, because the two are equal as props
        if not 0 <= scale < math.inf:
            raise ValueError("scale must be finite and not negative, not %r" % scale)
        self.scale = scale
        super().__init__(output_types, name)

    def impl(self, x, y):
        x, y = np.float64(x), np.float64(y)
        if x != x or y != y:
            return np.float64(np.nan)
        larger, smaller = (x, y) if x > y else (y, x)
        if self.scale == 0 or smaller == -np.inf:
            return larger
        if larger == smaller:
            return larger + self.scale * np.log(2.0)
        with np.errstate(over="ignore", under="ignore"):
            return larger + self.scale * np.log1p(np.exp((smaller - larger) / self.scale))

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            const double x = (double)%(x)s, y = (double)%(y)s, scale = %(scale)s;
            const double larger = x > y ? x : y, smaller = x > y ? y : x;
            if (x != x || y != y)
                %(z)s = NPY_NAN;
            else if (scale == 0 || smaller == -NPY_INFINITY)
                %(z)s = larger;
            else if (larger == smaller)
                %(z)s = larger + scale * NPY_LOGE2;
            else
                %(z)s = larger + scale * log1p(exp((smaller - larger) / scale));
        }
        """ % dict(x=inputs[0], y=inputs[1], z=outputs[0], scale=repr(self.scale))

    def c_code_cache_version(self):
        return (1, self.scale)

    def grad(self, inputs, output_grads):
        (g,) = output_grads
        x, y = (scalar.cast(one, g.dtype) for one in inputs)
        zero, half, one, scale = (scalar.constant(np.asarray(n, g.dtype)) for n in (0, 0.5, 1, self.scale))
        if self.scale == 0:
            share = scalar.switch(scalar.gt(x, y), one, scalar.switch(scalar.eq(x, y), half, zero))
            shares = share, one - share
        else:
            # The difference of equal infinite inputs counts as 0.
            tie = scalar.and_(scalar.eq(x, y), scalar.isinf(x))
            difference = scalar.switch(tie, zero, (x - y) / scale)
            sigmoid = nnet.sigmoid.scalar_op
            shares = sigmoid(difference), sigmoid(-difference)
        return [
            share * g if one.dtype.startswith("float") else one.zeros_like(dtype=g.dtype)
            for one, share in zip(inputs, shares)
        ]


def smooth_maximum(scale):
    """Return an Op that applies ScalarSmoothMaximum to all elements of two arrays."""
    return Elemwise(ScalarSmoothMaximum(scale))


def audit_cases():
    """Return pairs of an Op and example inputs."""
    x, y = np.array([[0.5, -1.25, 2.0], [-0.75, 1.5, -3.0]]), np.array([[1.0, -1.0, 0.25], [2.5, -2.0, -3.5]])
    return [(smooth_maximum(0.5), [x, y]), (smooth_maximum(1.0), [x.astype("float32"), y.astype("float32")])]
