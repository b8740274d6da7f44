"""Elementwise losses for `stability`: of sigmoids, error functions, rates and margins, as users write them."""

import mpmath
import numpy as np


def _softplus(z):
    return mpmath.log1p(mpmath.exp(z)) if z < 0 else z + mpmath.log1p(mpmath.exp(-z))


def _sigmoid(z):
    return 1 / (1 + mpmath.exp(-z)) if z > 0 else mpmath.exp(z) / (1 + mpmath.exp(z))


def _bernoulli(z, t):
    return t * _softplus(-z) + (1 - t) * _softplus(z)


def _log_normal_cdf(z):
    return mpmath.log(mpmath.erfc(-z / mpmath.sqrt(2)) / 2)


def _like(x, value):
    return np.asarray(value, x.dtype)


# -- probabilities -----------------------------------------------------------------------------------------------------------------------


def _of_tanh(T, z):
    return _like(z, 0.5) * (1 + T.tanh(z / 2))


def _of_tanh_of_product(T, z):
    return (T.tanh(_like(z, 0.5) * z) + 1) / 2


def _quotient(T, z):
    e = T.exp(z)
    return e / (e + 1)


PROBABILITIES = (
    ("sigmoid", lambda T, z: T.nnet.sigmoid(z)),
    ("1 / (1 + exp(-z))", lambda T, z: 1 / (1 + T.exp(-z))),
    ("inv(1 + exp(-z))", lambda T, z: T.inv(1 + T.exp(-z))),
    ("(1 + exp(-z)) ** -1", lambda T, z: (1 + T.exp(-z)) ** -1),
    ("exp(z) / (1 + exp(z))", lambda T, z: T.exp(z) / (1 + T.exp(z))),
    ("e / (e + 1)", _quotient),
    ("1 - 1 / (1 + exp(z))", lambda T, z: 1 - 1 / (1 + T.exp(z))),
    ("1 - sigmoid(-z)", lambda T, z: 1 - T.nnet.sigmoid(-z)),
    ("(1 + tanh(z / 2)) / 2", _of_tanh),
    ("(tanh(z * 0.5) + 1) / 2", _of_tanh_of_product),
)

# -- Bernoulli ---------------------------------------------------------------------------------------------------------------------------


def _by_hand(T, p, t):
    return -t * T.log(p) - (1 - t) * T.log(1 - p)


def _negated_sum(T, p, t):
    return -(t * T.log(p) + (1 - t) * T.log(1 - p))


def _with_log1p(T, p, t):
    return -t * T.log(p) - (1 - t) * T.log1p(-p)


def _two_way(T, p, t):
    return (
        T.switch(t > _like(t, 0.5), -t * T.log(p), 0)
        - (1 - t) * T.log(1 - p)
        - T.switch(t > _like(t, 0.5), 0, t * T.log(p))
    )


CROSSENTROPIES = (
    ("binary_crossentropy", lambda T, p, t: T.nnet.binary_crossentropy(p, t)),
    ("-t log p - (1 - t) log(1 - p)", _by_hand),
    ("-(t log p + (1 - t) log(1 - p))", _negated_sum),
    ("-t log p - (1 - t) log1p(-p)", _with_log1p),
    ("switches", _two_way),
)

# -- views of the probabilities and the loss ---------------------------------------------------------------------------------------------

WITHIN = (
    ("transposed", lambda T, p: p.T, lambda T, loss: loss.T),
    ("reshaped", lambda T, p: p.reshape((3, 4)), lambda T, loss: loss.reshape((4, 3))),
    ("flattened", lambda T, p: p.flatten(), lambda T, loss: loss.reshape((4, 3))),
    ("dimshuffled", lambda T, p: p.dimshuffle(1, "x", 0), lambda T, loss: loss.dimshuffle(2, 0)),
    ("reversed", lambda T, p: p[::-1], lambda T, loss: loss[::-1]),
)


def _within(there, back):
    def build(T, z, t):
        p, t = there(T, T.nnet.sigmoid(z)), there(T, t)
        return back(T, _by_hand(T, p, t))

    return build


def _bernoulli_losses(Loss):
    def bernoulli(name, build):
        return Loss(name, build, _bernoulli, "binary", 1, True)

    for name, p in PROBABILITIES:
        yield bernoulli("Bernoulli of " + name, lambda T, z, t, p=p: _by_hand(T, p(T, z), t))
    for name, loss in CROSSENTROPIES:
        yield bernoulli(name + " of sigmoid", lambda T, z, t, loss=loss: loss(T, T.nnet.sigmoid(z), t))
    yield bernoulli("binary_crossentropy by hand", lambda T, z, t: T.nnet.binary_crossentropy(1 / (1 + T.exp(-z)), t))
    for name, there, back in WITHIN:
        yield bernoulli("Bernoulli of sigmoids %s" % name, _within(there, back))
    yield bernoulli("sigmoid_binary_crossentropy", lambda T, z, t: T.nnet.sigmoid_binary_crossentropy(z, t))
    yield bernoulli("softplus(z) - t z", lambda T, z, t: T.nnet.softplus(z) - t * z)
    yield bernoulli("softplus(-z) + (1 - t) z", lambda T, z, t: T.nnet.softplus(-z) + (1 - t) * z)
    yield bernoulli("log1p(exp(z)) - t z", lambda T, z, t: T.log1p(T.exp(z)) - t * z)
    yield bernoulli("log(1 + exp(z)) - t z", lambda T, z, t: T.log(1 + T.exp(z)) - t * z)


def _sigmoid_losses(Loss):
    def of_sigmoid(name, build, exact, target="none", floor=1):
        return Loss(name, lambda T, z, t: build(T, T.nnet.sigmoid(z), t), exact, target, floor, True)

    def divergence(z, t):
        return _sigmoid(z) * (-_softplus(-z) + mpmath.log(4)) + _sigmoid(-z) * (-_softplus(z) - mpmath.log(0.75))

    yield of_sigmoid(
        "focal", lambda T, p, t: -((1 - p) ** 2) * T.log(p), lambda z, t: _sigmoid(-z) ** 2 * _softplus(-z)
    )
    yield of_sigmoid("log(p ** 2)", lambda T, p, t: T.log(p**2), lambda z, t: -2 * _softplus(-z))
    yield of_sigmoid("log(sqrt(p))", lambda T, p, t: T.log(T.sqrt(p)), lambda z, t: -_softplus(-z) / 2)
    yield of_sigmoid("log(p ** 0.5)", lambda T, p, t: T.log(p ** _like(p, 0.5)), lambda z, t: -_softplus(-z) / 2)
    yield of_sigmoid("log(1 / p)", lambda T, p, t: T.log(1 / p), lambda z, t: _softplus(-z))
    yield of_sigmoid(
        "entropy",
        lambda T, p, t: -p * T.log(p) - (1 - p) * T.log(1 - p),
        lambda z, t: _sigmoid(z) * _softplus(-z) + _sigmoid(-z) * _softplus(z),
    )
    yield of_sigmoid(
        "KL(p, 0.25) of logarithms",
        lambda T, p, t: p * (T.log(p) - _like(p, np.log(0.25))) + (1 - p) * (T.log(1 - p) - _like(p, np.log(0.75))),
        divergence,
    )
    yield of_sigmoid(
        "KL(p, 0.25) of quotients",
        lambda T, p, t: p * T.log(p / _like(p, 0.25)) + (1 - p) * T.log((1 - p) / _like(p, 0.75)),
        divergence,
    )


# -- logarithms of products, quotients and joined arrays ---------------------------------------------------------------------------------


def _of_stack(T, z, p, t):
    return T.log(T.stack([p, 1 - p])).sum(axis=0)


def _of_concatenation(T, z, p, t):
    logs = T.log(T.concatenate([p, 1 - p, p], axis=1))
    return logs[:, :3] + logs[:, 3:6]


def _of_mixture(T, z, p, t):
    return T.log(p**t * (1 - p) ** (1 - t))


PRODUCTS = (
    ("log(p / (1 - p))", lambda T, z, p, t: T.log(p / (1 - p)), lambda z, t: z, "none", 1),
    ("log(p * (1 - p))", lambda T, z, p, t: T.log(p * (1 - p)), lambda z, t: -_softplus(z) - _softplus(-z), "none", 0),
    ("log(p ** t * (1 - p) ** (1 - t))", _of_mixture, lambda z, t: -_bernoulli(z, t), "binary", 0),
    ("log(stack([p, 1 - p]))", _of_stack, lambda z, t: -_softplus(z) - _softplus(-z), "none", 0),
    ("log(concatenate([p, 1 - p, p]))", _of_concatenation, lambda z, t: -_softplus(z) - _softplus(-z), "none", 0),
)


def _product_losses(Loss):
    for name, build, exact, target, cost_floor in PRODUCTS:
        for i in (0, 1, 4):
            form, p = PROBABILITIES[i]
            yield Loss(
                "%s of %s" % (name, form),
                lambda T, z, t, build=build, p=p: build(T, z, p(T, z), t),
                exact,
                target,
                1,
                True,
                cost_floor,
            )


# -- margins, rates, scales ----------------------------------------------------------------------------------------------------------------


def _hinge(z, t):
    """Return the hinge loss. The loss has no derivative at its kink, but no logit is at the kink."""
    return max(mpmath.mpf(0), mpmath.mpf(1.25) - t * z)


def _other_losses(Loss):
    def of_logits(name, build, exact, target="none", floor=1):
        return Loss(name, build, exact, target, floor, True)

    yield of_logits(
        "log(1 + exp(-t z))", lambda T, z, t: T.log(1 + T.exp(-t * z)), lambda z, t: _softplus(-t * z), "signs"
    )
    yield of_logits("softplus(-t z)", lambda T, z, t: T.nnet.softplus(-t * z), lambda z, t: _softplus(-t * z), "signs")
    yield of_logits(
        "-log sigmoid(t z)", lambda T, z, t: -T.log(T.nnet.sigmoid(t * z)), lambda z, t: _softplus(-t * z), "signs"
    )
    yield of_logits("hinge", lambda T, z, t: T.maximum(0, _like(z, 1.25) - t * z), _hinge, "signs")
    yield of_logits("hinge of relu", lambda T, z, t: T.nnet.relu(_like(z, 1.25) - t * z), _hinge, "signs")
    yield of_logits(
        "squared hinge",
        lambda T, z, t: T.maximum(0, _like(z, 1.25) - t * z) ** 2,
        lambda z, t: _hinge(z, t) ** 2,
        "signs",
    )

    # Arguments are scaled so that rates and deviations do not overflow in any dtype. The reduction "indexed" selects
    # only some losses. The gradients of the other losses are multiplied by 0, which gives NaN after an overflow.
    def poisson(z, t):
        return mpmath.exp(z / 10) - t * z / 10

    def through_rate(T, z, t):
        rate = T.exp(z / 10)
        return rate - t * T.log(rate)

    yield of_logits("Poisson", lambda T, z, t: T.exp(z / 10) - t * z / 10, poisson, "binary")
    yield of_logits("Poisson of a rate", through_rate, poisson, "binary")

    def of_deviation(T, z, t):
        sigma = T.exp(z / 20)
        return _like(z, 0.5) * (t / sigma) ** 2 + T.log(sigma)

    def of_variance(T, z, t):
        variance = T.exp(z / 10)
        return _like(z, 0.5) * T.log(variance) + t**2 / (2 * variance)

    def of_density(T, z, t):
        return -T.log(T.exp(-((z - t) ** 2) / 2))

    def of_scaled_density(T, z, t):
        return -T.log(_like(z, 1 / np.sqrt(2 * np.pi)) * T.exp(-_like(z, 0.5) * (z - t) ** 2))

    def normal(z, t):
        return t**2 * mpmath.exp(-z / 10) / 2 + z / 20

    yield of_logits("normal of a deviation", of_deviation, normal, "binary")
    yield of_logits("normal of a variance", of_variance, normal, "binary")
    yield of_logits("normal of a density", of_density, lambda z, t: (z - t) ** 2 / 2, "binary")
    yield of_logits(
        "normal of a scaled density",
        of_scaled_density,
        lambda z, t: (z - t) ** 2 / 2 + mpmath.log(2 * mpmath.pi) / 2,
        "binary",
    )

    def divergence_of_deviation(T, z, t):
        sigma = T.exp(z / 20)
        return -T.log(sigma) + (sigma**2 + t**2) / 2 - _like(z, 0.5)

    def divergence_of_variance(T, z, t):
        return -_like(z, 0.5) * (1 + z / 10 - t**2 - T.exp(z / 10))

    def divergence(z, t):
        return (mpmath.exp(z / 10) + t**2 - 1) / 2 - z / 20

    yield of_logits("KL of normals of a deviation", divergence_of_deviation, divergence, "binary")
    yield of_logits("KL of normals of a variance", divergence_of_variance, divergence, "binary")
    yield of_logits(
        "log(1 - tanh(z) ** 2)", lambda T, z, t: T.log(1 - T.tanh(z) ** 2), lambda z, t: -2 * mpmath.log(mpmath.cosh(z))
    )
    yield of_logits(
        "log(1 - tanh(z))", lambda T, z, t: T.log(1 - T.tanh(z)), lambda z, t: mpmath.log(2) - _softplus(2 * z)
    )
    yield of_logits(
        "log(1 + tanh(z))", lambda T, z, t: T.log(1 + T.tanh(z)), lambda z, t: mpmath.log(2) - _softplus(-2 * z)
    )
    yield of_logits("log(cosh(z))", lambda T, z, t: T.log(T.cosh(z)), lambda z, t: mpmath.log(mpmath.cosh(z)))
    yield of_logits(
        "log(1 + exp(z) / 8)", lambda T, z, t: T.log(1 + T.exp(z) / 8), lambda z, t: mpmath.log(1 + mpmath.exp(z) / 8)
    )


# -- error functions -----------------------------------------------------------------------------------------------------------------------


def _error_function_losses(Loss):
    # Second derivatives of log(erfc(x)) have terms of the size of x ** 2 that cancel, so arguments are at most 100.
    def of_scaled(name, build, exact, target="none", floor=1):
        return Loss(name, lambda T, z, t: build(T, z / 8, t), lambda z, t: exact(z / 8, t), target, floor, True)

    def probit(z, t):
        return -(t * _log_normal_cdf(z) if t else 0) - ((1 - t) * _log_normal_cdf(-z) if t != 1 else 0)

    def normal_cdf(T, z):
        return _like(z, 0.5) * (1 + T.erf(z / _like(z, np.sqrt(2))))

    def normal_cdf_of_erfc(T, z):
        return _like(z, 0.5) * T.erfc(-z / _like(z, np.sqrt(2)))

    def log_erfc(factor):
        return lambda z, t: mpmath.log(mpmath.erfc(factor * z))

    yield of_scaled("log(erfc(x))", lambda T, x, t: T.log(T.erfc(x)), log_erfc(1))
    yield of_scaled("log(erfc(-x / 2))", lambda T, x, t: T.log(T.erfc(-x / 2)), log_erfc(-0.5))
    yield of_scaled("log(erfc(-x))", lambda T, x, t: T.log(T.erfc(-x)), log_erfc(-1))
    yield of_scaled(
        "log(erfc(x) / 2)", lambda T, x, t: T.log(T.erfc(x) / 2), lambda x, t: mpmath.log(mpmath.erfc(x) / 2)
    )
    yield of_scaled(
        "log(erfc(x + t))", lambda T, x, t: T.log(T.erfc(x + t)), lambda x, t: mpmath.log(mpmath.erfc(x + t)), "binary"
    )
    yield of_scaled("log(1 - erf(x))", lambda T, x, t: T.log(1 - T.erf(x)), log_erfc(1))
    yield of_scaled("log(1 + erf(x))", lambda T, x, t: T.log(1 + T.erf(x)), log_erfc(-1))
    yield of_scaled("probit", lambda T, x, t: _by_hand(T, normal_cdf(T, x), t), probit, "binary")
    yield of_scaled("probit of erfc", lambda T, x, t: _by_hand(T, normal_cdf_of_erfc(T, x), t), probit, "binary")
    yield of_scaled("1 - erf(x)", lambda T, x, t: 1 - T.erf(x), lambda x, t: mpmath.erfc(x))
    yield of_scaled("1 + erf(x)", lambda T, x, t: 1 + T.erf(x), lambda x, t: mpmath.erfc(-x))


def losses(Loss):
    """Return the table of losses; `Loss` is the class of `stability`."""
    families = (_bernoulli_losses, _sigmoid_losses, _product_losses, _other_losses, _error_function_losses)
    return [loss for family in families for loss in family(Loss)]
