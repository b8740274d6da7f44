"""Losses of single numbers for `stability`: of sigmoids, error functions, rates, margins."""

import mpmath


def _softplus(z):
    return mpmath.log1p(mpmath.exp(z)) if z < 0 else z + mpmath.log1p(mpmath.exp(-z))


def _bernoulli(z, t):
    return t * _softplus(-z) + (1 - t) * _softplus(z)


def losses(Loss):
    """The table; `Loss` is that of `stability`."""

    def bernoulli(name, build):
        return Loss(name, build, _bernoulli, "binary", 1, True)

    return [
        bernoulli("binary_crossentropy of sigmoid", lambda T, z, t: T.nnet.binary_crossentropy(T.nnet.sigmoid(z), t)),
        bernoulli("binary_crossentropy by hand", lambda T, z, t: T.nnet.binary_crossentropy(1 / (1 + T.exp(-z)), t)),
    ]
