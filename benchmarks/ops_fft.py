"""Rows of ``ops.py``: Fourier transforms of batches of real arrays."""

import numpy as np
from ops import Row

from theano_ng.tensor import fft


def _axes(x):
    return tuple(range(1, x.ndim))


def _rfft(x):
    z = np.fft.rfftn(x, axes=_axes(x))
    return z.view(z.real.dtype).reshape(*z.shape, 2)


def rows():
    rng = np.random.RandomState(0)
    for shape in ((1, 1024), (100, 1000), (1, 2**20), (10, 64, 64), (16, 256, 256), (4, 32, 32, 32)):
        for dtype in ("float32", "float64"):
            x = rng.randn(*shape).astype(dtype)
            z = np.ascontiguousarray(_rfft(x))
            what = "%s %s" % (shape, dtype)
            yield Row("rfft " + what, fft.rfft, _rfft, [x], rtol=2e-2)
            yield Row(
                "irfft " + what,
                lambda z: fft.irfft(z),
                lambda z: np.fft.irfftn(z.view("complex%d" % (16 * z.itemsize))[..., 0], axes=_axes(z)[:-1]),
                [z],
                rtol=2e-2,
            )
