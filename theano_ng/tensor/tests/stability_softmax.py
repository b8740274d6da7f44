"""Losses of softmaxes for `stability`, as users write them."""

import mpmath
import numpy as np


def _log_sum_exp(z):
    return mpmath.log(sum(mpmath.exp(v) for v in z))


def _log_softmax(z):
    total = _log_sum_exp(z)
    return [v - total for v in z]


def _with_labels(z, t):
    return -_log_softmax(z)[t]


def _with_distribution(z, t):
    return -sum(u * v for u, v in zip(t, _log_softmax(z)) if u)


def _entropy(z, t):
    return -sum(mpmath.exp(v) * v for v in _log_softmax(z))


def _divergence(z, t):
    pairs = zip(_log_softmax(z), _log_softmax([mpmath.mpf(v) for v in t]))
    return sum(mpmath.exp(v) * (v - u) for v, u in pairs)


def _divergence_from_target(z, t):
    pairs = zip(_log_softmax(z), _log_softmax([mpmath.mpf(v) for v in t]))
    return sum(mpmath.exp(u) * (u - v) for v, u in pairs)


def _sum_of_squares(z, t):
    return sum((mpmath.exp(v) - u) ** 2 for v, u in zip(_log_softmax(z), t))


# -- probabilities without the library's softmax -----------------------------------------------------------------------------------------


def _library(T, z):
    return T.nnet.softmax(z)


def _shifted(T, z):
    e = T.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _unshifted(T, z):
    return T.exp(z) / T.exp(z).sum(axis=1, keepdims=True)


def _dimshuffled_sum(T, z):
    e = T.exp(z - T.max(z, axis=1).dimshuffle(0, "x"))
    return e / e.sum(axis=1).dimshuffle(0, "x")


def _along_first_axis(T, z):
    e = T.exp(z.T)
    return (e / e.sum(axis=0)).T


def _shifted_along_first_axis(T, z):
    e = T.exp(z.T - z.T.max(axis=0))
    return (e / e.sum(axis=0, keepdims=True)).T


def _of_three_dimensions(T, z):
    cube = z.reshape((2, 2, 3))
    e = T.exp(cube - cube.max(axis=2, keepdims=True))
    return (e / e.sum(axis=2, keepdims=True)).reshape((4, 3))


def _library_of_three_dimensions(T, z):
    return T.nnet.softmax(z.dimshuffle("x", 0, 1).reshape((4, 3)))


def _with_bias(T, z):
    bias = T.constant(np.array([1, -1, 2]).astype(z.dtype))
    return T.nnet.softmax((z - bias) + bias)


def _row_by_row(T, z):
    rows = [T.exp(z[i]) for i in range(4)]
    return T.stack([e / e.sum() for e in rows])


def _library_row_by_row(T, z):
    return T.concatenate([T.nnet.softmax(z[i]) for i in range(4)], axis=0)


def _times_reciprocal(T, z):
    e = T.exp(z - z.max(axis=1, keepdims=True))
    return e * (1 / e.sum(axis=1, keepdims=True))


def _exp_of_log(T, z):
    return T.exp(T.nnet.logsoftmax(z))


# -- losses ------------------------------------------------------------------------------------------------------------------------------


def _picked(p):
    """Return the loss ``-log(p)[arange(n), t]``."""
    return lambda T, z, t: -T.log(p(T, z))[T.arange(t.shape[0]), t]


def _log_of_picked(p):
    """Return the loss ``-log(p[arange(n), t])``."""
    return lambda T, z, t: -T.log(p(T, z)[T.arange(t.shape[0]), t])


def _by_library(p):
    return lambda T, z, t: T.nnet.categorical_crossentropy(p(T, z), t)


def _by_sum(p):
    return lambda T, z, t: -(t * T.log(p(T, z))).sum(axis=1)


def _flat_sum(p):
    """Return the cross-entropy computed from the transposed probabilities and the transposed target."""
    return lambda T, z, t: -T.sum(T.log(p(T, z).T) * t.T, axis=0)


def _logsoftmax(T, z):
    return T.nnet.logsoftmax(z)


def _logsoftmax_by_hand(T, z):
    shifted = z - z.max(axis=1, keepdims=True)
    return shifted - T.log(T.exp(shifted).sum(axis=1, keepdims=True))


def _logsoftmax_unshifted(T, z):
    return z - T.log(T.sum(T.exp(z), axis=1, keepdims=True))


def _lse(T, z, t):
    return T.log(T.exp(z).sum(axis=1))


def _lse_by_max(T, z, t):
    top = z.max(axis=1, keepdims=True)
    return (top + T.log(T.exp(z - top).sum(axis=1, keepdims=True))).dimshuffle(0)


def _lse_keepdims(T, z, t):
    return T.log(T.exp(z).sum(axis=1, keepdims=True))[:, 0]


def _lse_transposed(T, z, t):
    return T.log(T.sum(T.exp(z).T, axis=0))


def _lse_of_parts(T, z, t):
    return T.log(T.exp(z[:, 0]) + T.exp(z[:, 1]) + T.exp(z[:, 2]))


def _lse_reshaped(T, z, t):
    return T.log(T.exp(z).reshape((2, 2, 3)).sum(axis=2)).flatten()


def losses(Loss):
    """Return the table of losses; `Loss` is the class of `stability`."""

    def with_labels(name, build):
        return Loss(name, build, _with_labels, "labels", 1, False, 1)

    def with_distribution(name, build, target):
        return Loss(name, build, _with_distribution, target, 1, False, 1)

    def log_sum_exp(name, build):
        return Loss(name, build, lambda z, t: _log_sum_exp(z), "none", 1, False)

    return [
        with_labels("library, labels", _by_library(_library)),
        with_labels("log(softmax)[rows, labels]", _picked(_library)),
        with_labels("log(softmax[rows, labels])", _log_of_picked(_library)),
        with_labels("log(shifted)[rows, labels]", _picked(_shifted)),
        with_labels("log(shifted[rows, labels])", _log_of_picked(_shifted)),
        with_labels("log(unshifted)[rows, labels]", _picked(_unshifted)),
        with_labels("log(unshifted[rows, labels])", _log_of_picked(_unshifted)),
        with_labels("library, labels, shifted", _by_library(_shifted)),
        with_labels("library, labels, with bias", _by_library(_with_bias)),
        with_labels("logsoftmax[rows, labels]", lambda T, z, t: -_logsoftmax(T, z)[T.arange(t.shape[0]), t]),
        with_labels(
            "logsoftmax by hand[rows, labels]", lambda T, z, t: -_logsoftmax_by_hand(T, z)[T.arange(t.shape[0]), t]
        ),
        with_distribution("library, one-hot", _by_library(_library), "onehot"),
        with_distribution("library, dense", _by_library(_library), "dense"),
        with_distribution("library, dense, with bias", _by_library(_with_bias), "dense"),
        with_distribution("log of transposed softmax", _flat_sum(_library), "onehot"),
        with_distribution("shifted, one-hot", _by_sum(_shifted), "onehot"),
        with_distribution("unshifted, dense", _by_sum(_unshifted), "dense"),
        with_distribution("sum dimshuffled, dense", _by_sum(_dimshuffled_sum), "dense"),
        with_distribution("first axis, one-hot", _by_sum(_along_first_axis), "onehot"),
        with_distribution("first axis, shifted, dense", _by_sum(_shifted_along_first_axis), "dense"),
        with_distribution("three dimensions, one-hot", _by_sum(_of_three_dimensions), "onehot"),
        with_distribution("library through three dimensions", _by_sum(_library_of_three_dimensions), "dense"),
        with_distribution("row by row, one-hot", _by_sum(_row_by_row), "onehot"),
        with_distribution("library row by row, dense", _by_sum(_library_row_by_row), "dense"),
        with_distribution("times reciprocal, dense", _by_sum(_times_reciprocal), "dense"),
        with_distribution("exp(logsoftmax), one-hot", _by_sum(_exp_of_log), "onehot"),
        with_distribution("logsoftmax, dense", lambda T, z, t: -(t * _logsoftmax(T, z)).sum(axis=1), "dense"),
        with_distribution(
            "logsoftmax by hand, one-hot", lambda T, z, t: -(t * _logsoftmax_by_hand(T, z)).sum(axis=1), "onehot"
        ),
        with_distribution(
            "logsoftmax unshifted, dense", lambda T, z, t: -(t * _logsoftmax_unshifted(T, z)).sum(axis=1), "dense"
        ),
        log_sum_exp("log-sum-exp", _lse),
        log_sum_exp("log-sum-exp by max", _lse_by_max),
        log_sum_exp("log-sum-exp keepdims", _lse_keepdims),
        log_sum_exp("log-sum-exp transposed", _lse_transposed),
        log_sum_exp("log-sum-exp of parts", _lse_of_parts),
        log_sum_exp("log-sum-exp reshaped", _lse_reshaped),
        Loss(
            "entropy",
            lambda T, z, t: -(_library(T, z) * T.log(_library(T, z))).sum(axis=1),
            _entropy,
            "none",
            1,
            False,
            1,
        ),
        Loss(
            "entropy by hand",
            lambda T, z, t: -(_shifted(T, z) * T.log(_shifted(T, z))).sum(axis=1),
            _entropy,
            "none",
            1,
            False,
            1,
        ),
        Loss("divergence", _kl(_library), _divergence, "logits", 4, False, 1),
        Loss("divergence by hand", _kl(_unshifted), _divergence, "logits", 4, False, 1),
        Loss("divergence of quotient", _kl_of_quotient, _divergence, "logits", 4, False, 1),
        Loss("divergence from target", _kl_from_target, _divergence_from_target, "logits", 4, False, 1),
        Loss(
            "sum of squares",
            lambda T, z, t: ((_unshifted(T, z) - t) ** 2).sum(axis=1),
            _sum_of_squares,
            "dense",
            1,
            False,
        ),
    ]


def _kl(p):
    return lambda T, z, t: (p(T, z) * (T.log(p(T, z)) - T.log(p(T, t)))).sum(axis=1)


def _kl_of_quotient(T, z, t):
    p, q = T.nnet.softmax(z), T.nnet.softmax(t)
    return (p * T.log(p / q)).sum(axis=1)


def _kl_from_target(T, z, t):
    p, q = T.nnet.softmax(z), T.nnet.softmax(t)
    return (q * (T.log(q) - T.log(p))).sum(axis=1)
