"""The Ops of `signal`, for the audit: ``theano_ng-audit theano_ng.tensor.signal.tests.audit_cases``."""

import numpy as np

from theano_ng.audit.records import Case
from theano_ng.tensor.signal.pool import AveragePoolGrad, DownsampleFactorMaxGradGrad, MaxPoolGrad, MaxPoolRop, Pool

RNG = np.random.RandomState(5)
X = (RNG.permutation(40).reshape(2, 4, 5) - 20) / 4.0
CUBE = (RNG.permutation(48).reshape(3, 4, 4) - 20) / 4.0
WINDOWS = ((3, 2), (2, 1), (1, 0))


def _length(n, window, stride, pad):
    return 0 if n == 0 else max((n + 2 * pad - window) // stride + 1, 0)


def _fits(images, outputs):
    """Return a condition on the shapes of inputs.

    Inputs at the positions `images` must have the shape of the first input. Inputs at the positions `outputs` must have
    the pooled shape.
    """

    def tied(values):
        shape = values[0].shape
        pooled = (*shape[:-2], *[_length(*along) for along in zip(shape[-2:], *WINDOWS)])
        return all(values[i].shape == shape for i in images) and all(values[i].shape == pooled for i in outputs)

    return tied


def _top(x):
    """Return the maxima of the windows of `x`."""
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=-np.inf)
    views = np.lib.stride_tricks.sliding_window_view(padded, WINDOWS[0], (1, 2))
    return views[:, :: WINDOWS[1][0], :: WINDOWS[1][1]].max((3, 4))


# If an element of x is equal to the maximum in maxout, a small change of x or maxout makes the result jump. The result
# is linear in the last tensor, for which separate cases exist.
JUMPS = {"R_op": "not continuous in x and maxout where they are equal"}


def audit_cases():
    """Return cases of each Op, with windows that overlap and are padded."""
    top = _top(X)
    cases = [
        Case(lambda x, op=Pool(True, mode): op(x, *WINDOWS), [X], name="Pool " + mode)  # noqa: B008, bound here
        for mode in ("max", "sum", "average_inc_pad", "average_exc_pad")
    ]
    cases += [
        Case(
            lambda x, g, op=AveragePoolGrad(True, mode): op(x, g, *WINDOWS),  # noqa: B008, bound here
            [X, np.ones_like(top)],
            name="AveragePoolGrad " + mode,
            tied=_fits((), (1,)),
        )
        for mode in ("sum", "average_inc_pad", "average_exc_pad")
    ]
    return [
        *cases,
        Case(lambda x: Pool(False, "average_inc_pad", 3)(x, (2, 2, 3)), [CUBE], name="Pool of three axes"),
        Case(lambda x: Pool(False)(x, (2, 2)), [(4 * X).astype("int32")], name="Pool of integers"),
        Case(lambda x: Pool(False)(x, (2, 3)), [X.astype("float16")], name="Pool of float16"),
        Case(
            lambda x, z, g: MaxPoolGrad(True)(x, z, g, *WINDOWS),
            [X, top, top / 2],
            name="MaxPoolGrad",
            tied=_fits((), (1, 2)),
            skip=JUMPS,
        ),
        Case(
            lambda x, z, g: DownsampleFactorMaxGradGrad(True)(x, z, g, *WINDOWS),
            [X, top, X / 2],
            name="DownsampleFactorMaxGradGrad",
            tied=_fits((2,), (1,)),
            skip=JUMPS,
        ),
        Case(
            lambda g: MaxPoolGrad(True)(X, top, g, *WINDOWS),
            [top / 2],
            name="MaxPoolGrad of gradients",
            tied=lambda values: values[0].shape == top.shape,
        ),
        Case(
            lambda g: DownsampleFactorMaxGradGrad(True)(X, top, g, *WINDOWS),
            [X / 2],
            name="DownsampleFactorMaxGradGrad of directions",
            tied=lambda values: values[0].shape == X.shape,
        ),
        Case(lambda x, e: MaxPoolRop(True)(x, e, *WINDOWS), [X, X / 2], name="MaxPoolRop", tied=_fits((1,), ())),
    ]
