"""Rows of ``ops.py``: reductions along every axis, cumulative sums, softmax.

JAX copies its arguments to C order, so rows of other layouts have no JAX function. This package sums float32 elements
in float64, while JAX and PyTorch sum them in float32.
"""

import numpy as np
from ops import SIZES, Row, count, square

from theano_ng import tensor

#: Name of a reduction -> its functions in theano_ng, in NumPy and jax.numpy, and in PyTorch. Each function takes an
#: array and an axis.
REDUCTIONS = {
    "sum": (tensor.sum, lambda np, x, axis: np.sum(x, axis), lambda torch, x, axis: torch.sum(x, axis)),
    "prod": (tensor.prod, lambda np, x, axis: np.prod(x, axis), lambda torch, x, axis: torch.prod(x, axis)),
    "max": (
        tensor.max,
        lambda np, x, axis: np.max(x, axis),
        lambda torch, x, axis: torch.max(x) if axis is None else torch.amax(x, axis),
    ),
    "argmax": (tensor.argmax, lambda np, x, axis: np.argmax(x, axis), lambda torch, x, axis: torch.argmax(x, axis)),
    "var": (tensor.var, lambda np, x, axis: np.var(x, axis), lambda torch, x, axis: torch.var(x, axis, correction=0)),
    "any": (
        tensor.any,
        lambda np, x, axis: np.any(x, axis),
        lambda torch, x, axis: torch.any(x) if axis is None else torch.any(x, axis),
    ),
    "sum(exp)": (
        lambda x, axis: tensor.sum(tensor.exp(x), axis),
        lambda np, x, axis: np.sum(np.exp(x), axis),
        lambda torch, x, axis: torch.sum(torch.exp(x), axis),
    ),
    "sum(sqr)": (
        lambda x, axis: tensor.sum(tensor.sqr(x), axis),
        lambda np, x, axis: np.sum(x * x, axis),
        lambda torch, x, axis: torch.sum(x * x, axis),
    ),
    "cumsum": (
        tensor.cumsum,
        lambda np, x, axis: np.cumsum(x, axis),
        lambda torch, x, axis: torch.cumsum(x, axis or 0),
    ),
}


def _values(shape, dtype, rng):
    x = rng.randn(*shape)
    if dtype == "bool":
        return x > 9  # all False, so that all elements are read
    return (x * 10).astype(dtype) if dtype.startswith("int") else (1 + x / 100).astype(dtype)


def _row(name, x, axis, what):
    build, reference, torch = REDUCTIONS[name]
    rtol = 0.1 if x.dtype == "float16" else 1e-2 if x.dtype == "float32" else 1e-5
    return Row(
        "%s %s %s axis %s" % (name, x.dtype, what, axis),
        lambda x: build(x, axis),
        lambda x: reference(np, x, axis),
        [x],
        jax=(lambda jnp, x: reference(jnp, x, axis)) if x.flags.c_contiguous else None,
        torch=lambda module, x: torch(module, x, axis),
        rtol=rtol,
    )


def _reductions(rng):
    for n in SIZES:
        matrix = _values(square(n), "float32", rng)
        for name, axes in (("sum", (None, 0, 1)), ("max", (0, 1)), ("argmax", (None, 0, 1)), ("cumsum", (None, 1))):
            for axis in axes:
                yield _row(name, matrix.ravel() if axis is None else matrix, axis, count(n))
    matrix = _values(square(n), "float64", rng)
    for name in ("sum", "argmax", "var", "sum(exp)", "sum(sqr)"):
        for axis in (0, 1):
            yield _row(name, matrix, axis, count(n))
    matrix = _values(square(n), "float32", rng)
    for axis in (0, 1):
        yield _row("sum", np.asfortranarray(matrix), axis, "%s F" % count(n))
        yield _row("sum", np.repeat(matrix, 2, axis=1)[:, ::2], axis, "%s strided" % count(n))
    n = SIZES[1]
    for name, dtype in (("sum", "int8"), ("sum", "float16"), ("max", "int64"), ("any", "bool"), ("prod", "float64")):
        yield _row(name, _values(square(n), dtype, rng), 1, count(n))
    for shape, what in (((n // 8, 8), "tall"), ((8, n // 8), "wide")):
        for axis in (0, 1):
            yield _row("sum", _values(shape, "float32", rng), axis, "%s %s" % (count(n), what))


def _softmax(np, x, log):
    shifted = x - np.max(x, axis=1, keepdims=True)
    e = np.exp(shifted)
    total = np.sum(e, axis=1, keepdims=True)
    return shifted - np.log(total) if log else e / total


def _log_sum_exp(np, x, axis):
    largest = np.max(x, axis=axis, keepdims=True)
    return np.log(np.sum(np.exp(x - largest), axis=axis)) + np.max(x, axis=axis)


def _nnet(rng):
    for shape in ((100, 10), (1000, 1000), (100000, 10)):
        x = rng.randn(*shape).astype("float32")
        what = "float32 %dx%d" % shape
        for log, build in ((False, tensor.nnet.softmax), (True, tensor.nnet.logsoftmax)):
            yield Row(
                "%ssoftmax %s" % ("log" * log, what),
                build,
                lambda x, log=log: _softmax(np, x, log),
                [x],
                jax=lambda jnp, x, log=log: _softmax(jnp, x, log),
                torch=lambda torch, x, log=log: torch.log_softmax(x, 1) if log else torch.softmax(x, 1),
            )
        for axis in (0, 1)[shape[0] == 100 :]:
            yield Row(
                "logsumexp %s axis %d" % (what, axis),
                lambda x, axis=axis: (
                    tensor.log(tensor.sum(tensor.exp(x - tensor.max(x, axis, keepdims=True)), axis))
                    + tensor.max(x, axis)
                ),
                lambda x, axis=axis: _log_sum_exp(np, x, axis),
                [x],
                jax=lambda jnp, x, axis=axis: _log_sum_exp(jnp, x, axis),
                torch=lambda torch, x, axis=axis: torch.logsumexp(x, axis),
            )


def rows():
    rng = np.random.RandomState(0)
    yield from _reductions(rng)
    yield from _nnet(rng)
