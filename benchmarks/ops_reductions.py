"""Reductions along every axis, cumulative sums, softmax: rows of ``ops.py``."""
import numpy as np
from ops import SIZES, Row, count, layouts, square

from theano_ng import tensor

#: name -> (theano_ng, NumPy and jax.numpy)
REDUCTIONS = {
    "sum": (lambda x, axis: tensor.sum(x, axis), lambda np, x, axis: np.sum(x, axis)),
    "prod": (lambda x, axis: tensor.prod(x, axis), lambda np, x, axis: np.prod(x, axis)),
    "max": (lambda x, axis: tensor.max(x, axis), lambda np, x, axis: np.max(x, axis)),
    "min": (lambda x, axis: tensor.min(x, axis), lambda np, x, axis: np.min(x, axis)),
    "argmax": (lambda x, axis: tensor.argmax(x, axis), lambda np, x, axis: np.argmax(x, axis)),
    "argmin": (lambda x, axis: tensor.argmin(x, axis), lambda np, x, axis: np.argmin(x, axis)),
    "mean": (lambda x, axis: tensor.mean(x, axis), lambda np, x, axis: np.mean(x, axis)),
    "var": (lambda x, axis: tensor.var(x, axis), lambda np, x, axis: np.var(x, axis)),
    "std": (lambda x, axis: tensor.std(x, axis), lambda np, x, axis: np.std(x, axis)),
    "any": (lambda x, axis: tensor.any(x, axis), lambda np, x, axis: np.any(x, axis)),
    "all": (lambda x, axis: tensor.all(x, axis), lambda np, x, axis: np.all(x, axis)),
    "sum of exp": (lambda x, axis: tensor.sum(tensor.exp(x), axis), lambda np, x, axis: np.sum(np.exp(x), axis)),
    "sum of squares": (lambda x, axis: tensor.sum(tensor.sqr(x), axis), lambda np, x, axis: np.sum(x * x, axis)),
    "cumsum": (lambda x, axis: tensor.cumsum(x, axis), lambda np, x, axis: np.cumsum(x, axis)),
    "cumprod": (lambda x, axis: tensor.cumprod(x, axis), lambda np, x, axis: np.cumprod(x, axis)),
}
#: Operations timed for other dtypes than float32 and float64, and for other shapes than squares.
COMMON = ("sum", "max", "argmax")
OTHER_DTYPES = ("int8", "int32", "int64", "float16")


def _values(shape, dtype, rng):
    x = rng.randn(*shape)
    if dtype == "bool":
        return x > 9        # all of it has to be looked at
    return (x * 10).astype(dtype) if dtype.startswith("int") else (1 + x / 100).astype(dtype)


def _row(name, x, axis, what):
    build, reference = REDUCTIONS[name]
    # Sums of float32 are made in float64 here, of float16 in float32 there.
    rtol = 0.1 if x.dtype == "float16" else 1e-2 if x.dtype == "float32" else 1e-5
    return Row("%s %s %s axis %s" % (name, x.dtype, what, axis), lambda x: build(x, axis), lambda x: reference(np, x, axis), [x],
               jax=lambda jnp, x: reference(jnp, x, axis), rtol=rtol)


def _reductions(rng):
    for n in SIZES:
        for dtype in ("float32", "float64", "bool"):
            matrix = _values(square(n), dtype, rng)
            names = ("any", "all") if dtype == "bool" else [name for name in REDUCTIONS if name not in ("any", "all")]
            for name in names:
                yield _row(name, matrix.ravel(), None, "%s 1-d" % count(n))
                for layout, x in layouts(matrix):
                    if layout == "strided" and name not in COMMON:
                        continue
                    for axis in (0, 1):
                        yield _row(name, x, axis, "%s %s" % (count(n), layout))
        for dtype in OTHER_DTYPES:
            matrix = _values(square(n), dtype, rng)
            for name in COMMON:
                for axis in (None, 0, 1):
                    yield _row(name, matrix, axis, count(n))
        side = round(n ** (1 / 3))
        for name in COMMON:
            cube = _values((side, side, side), "float32", rng)
            yield _row(name, cube, 1, "%s 3-d" % count(n))
            yield _row(name, cube.transpose(2, 0, 1), 1, "%s 3-d transposed" % count(n))
            for shape in ((n // 8, 8), (8, n // 8)):
                for axis in (0, 1):
                    yield _row(name, _values(shape, "float32", rng), axis, "%s %s" % (count(n), "tall" if shape[1] == 8 else "wide"))


def _softmax(np, x, log):
    shifted = x - np.max(x, axis=1, keepdims=True)
    e = np.exp(shifted)
    total = np.sum(e, axis=1, keepdims=True)
    return shifted - np.log(total) if log else e / total


def _log_sum_exp(np, x, axis):
    largest = np.max(x, axis=axis, keepdims=True)
    return np.log(np.sum(np.exp(x - largest), axis=axis)) + np.max(x, axis=axis)


def _nnet(rng):
    for shape in ((100, 10), (64, 1000), (1000, 1000), (10, 100000), (100000, 10)):
        for dtype in ("float32", "float64"):
            x = rng.randn(*shape).astype(dtype)
            for layout, x in layouts(x)[:2]:
                what = "%s %s %s" % (dtype, "x".join(map(str, shape)), layout)
                for log, build in ((False, tensor.nnet.softmax), (True, tensor.nnet.logsoftmax)):
                    yield Row("%ssoftmax %s" % ("log" * log, what), build, lambda x, log=log: _softmax(np, x, log), [x],
                              jax=lambda jnp, x, log=log: _softmax(jnp, x, log))
                for axis in (0, 1):
                    yield Row("logsumexp %s axis %d" % (what, axis),
                              lambda x, axis=axis: tensor.log(tensor.sum(tensor.exp(x - tensor.max(x, axis, keepdims=True)), axis))
                              + tensor.max(x, axis), lambda x, axis=axis: _log_sum_exp(np, x, axis), [x],
                              jax=lambda jnp, x, axis=axis: _log_sum_exp(jnp, x, axis))


def rows():
    rng = np.random.RandomState(0)
    yield from _reductions(rng)
    yield from _nnet(rng)
