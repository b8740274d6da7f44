"""Convolution, pooling, softmax and costs of classification."""

import numpy as np

from theano_ng.tests.programs.chapters.reductions import some_twice
from theano_ng.tests.programs.operations import Operation, both, doubles, floats, of_ndim, register

CHAPTER, CONVOLUTION, VOLUMES = "networks", "convolution and pooling", "volumes"


def _within(low, high):
    return lambda *arrays: all([bool(np.all((a > low) & (a < high))) for a in arrays])


def _filters_fit(x, w):
    return (
        x.array.shape[1] == w.array.shape[1]
        and all([n >= k for n, k in zip(x.array.shape[2:], w.array.shape[2:])])
        and 0 not in x.array.shape + w.array.shape
        and x.array.dtype == w.array.dtype
        and not any(x.broadcastable + w.broadcastable)
    )


def _pooled(ndim):
    return lambda v: doubles(v) and v.array.ndim == ndim and min(v.array.shape) > 0 and min(v.array.shape[2:]) >= 2


_MATRIX = both(floats, of_ndim(2), lambda v: v.array.size > 0)
_SOFTMAX = "softmax(cast({0}, {out}))"
register(
    Operation(
        "softmax", CHAPTER, "T.nnet.softmax({0})", _SOFTMAX, (_MATRIX,), domain=_within(-30, 30), ulps=16, weight=2
    )
)
register(
    Operation(
        "logsoftmax",
        CHAPTER,
        "T.nnet.logsoftmax({0})",
        "log_softmax(cast({0}, {out}))",
        (_MATRIX,),
        domain=_within(-30, 30),
        scale="1 + np.max(np.abs({0})) + 0 * {0}",
        ulps=16,
    )
)
register(
    Operation(
        "log_of_softmax",
        CHAPTER,
        "T.log(T.nnet.softmax({0}))",
        "log_softmax(cast({0}, {out}))",
        (_MATRIX,),
        domain=_within(-8, 8),
        scale="1 + np.max(np.abs({0})) + 0 * {0}",
        ulps=32,
    )
)
register(
    Operation(
        "categorical_crossentropy",
        CHAPTER,
        "T.nnet.categorical_crossentropy(T.nnet.softmax({0}), np.array({labels!r}, 'int64'))",
        "-log_softmax(cast({0}, {out}))[np.arange(len({0})), np.array({labels!r}, 'int64')]",
        (_MATRIX,),
        domain=_within(-8, 8),
        parameters=lambda draw, x: dict(
            labels=[draw.integer(0, x.array.shape[1] - 1) for _ in range(x.array.shape[0])]
        ),
        scale="1 + np.max(np.abs({0})) + np.zeros(len({0}))",
        ulps=32,
        weight=2,
    )
)
register(
    Operation(
        "binary_crossentropy",
        CHAPTER,
        "T.nnet.binary_crossentropy(T.nnet.sigmoid({0}), np.asarray({target!r}, {dtype!r}))",
        "cross_entropy_of_sigmoid(cast({0}, {out}), cast({target!r}, {out}))",
        (floats,),
        domain=_within(-8, 8),
        parameters=lambda draw, x: dict(target=draw.choice((0.0, 1.0, 0.3)), dtype=str(x.array.dtype)),
        scale="np.exp(np.abs({0}))",
        ulps=8,
    )
)
# For images and volumes: the number of dimensions, the names of convolution and pooling, and choices for borders and
# steps of the convolution, and for sizes and strides of the pooling.
_SPACES = (
    (2, "conv2d", "pool_2d", ((1, 0),), ((1, 1), (1, 1), (2, 1), (2, 2)), ((2, 2), (1, 2), (2, 1)), ((2, 2), (1, 1), (1, 2))),
    (3, "conv3d", "pool_3d", ((1, 0, 1),), ((1, 1, 1), (1, 2, 1), (2, 1, 2)), ((2, 2, 2), (1, 2, 1)), ((2, 2, 2), (1, 1, 1), (1, 2, 2))),
)  # fmt: skip


def _convolution(axes, name, borders, steps):
    register(
        Operation(
            name,
            CONVOLUTION if axes == 2 else VOLUMES,
            "T.nnet.%s({0}, {1}, border_mode={border!r}, subsample={step!r}, filter_flip={flip!r})" % name,
            "convolution({0}, {1}, {border!r}, {step!r}, {flip!r})",
            (both(doubles, of_ndim(2 + axes)), both(doubles, of_ndim(2 + axes))),
            _filters_fit,
            parameters=lambda draw, x, w: dict(
                border=draw.choice(("valid", "full", "half", *borders)), step=draw.choice(steps), flip=draw.chance(0.5)
            ),
            scale="convolution(np.abs({0}), np.abs({1}), {border!r}, {step!r}, {flip!r})",
            ulps=4,
            weight=4,
        )
    )


def _pooling(axes, name, sizes, strides):
    register(
        Operation(
            name,
            CONVOLUTION if axes == 2 else VOLUMES,
            "T.signal.pool.%s({0}, {size!r}, ignore_border={ignore!r}, stride={stride!r}, mode={mode!r})" % name,
            "pooling({0}, {size!r}, {ignore!r}, {stride!r}, {mode!r})",
            (_pooled(2 + axes),),
            parameters=lambda draw, x: dict(
                size=draw.choice(sizes),
                ignore=draw.chance(0.6),
                stride=draw.choice(strides),
                mode=draw.choice(("max", "sum", "average_inc_pad", "average_exc_pad")),
            ),
            scale="pooling(np.abs({0}), {size!r}, {ignore!r}, {stride!r}, 'sum')",
            ulps=4,
            weight=3,
            kink=some_twice,
        )
    )


for _axes, _name, _of_pooling, _borders, _steps, _sizes, _strides in _SPACES:
    _convolution(_axes, _name, _borders, _steps)
    _pooling(_axes, _of_pooling, _sizes, _strides)

_BATCH = "T.nnet.bn.batch_normalization_test({0}, {1}, {1}, {1}, abs({1}) + 1, axes=(0,), epsilon=1e-3)"
register(
    Operation(
        "batch_normalization_test",
        CHAPTER,
        _BATCH,
        "({0} - {1}) * ({1} / np.sqrt(np.abs({1}) + 1 + cast(1e-3, {out}))) + {1}",
        (both(doubles, of_ndim(2)), both(doubles, of_ndim(2))),
        lambda x, y: (
            y.broadcastable == (True, False)
            and x.array.shape[1:] == y.array.shape[1:]
            and x.array.dtype == y.array.dtype
        ),
        scale="1 + np.abs({0}) + np.abs({1})",
        kink=lambda x, y: not np.all(y),
        ulps=16,
    )
)
register(
    Operation(
        "hard_sigmoid",
        CHAPTER,
        "T.nnet.hard_sigmoid({0})",
        "np.clip(cast({0}, {out}) * cast(0.2, {out}) + cast(0.5, {out}), 0, 1)",
        (floats,),
        kink=lambda a: bool(np.any(np.abs(a) == 2.5)),
        ulps=4,
        scale="np.abs(cast({0}, {out})) * 0.2 + 0.5",
    )
)
