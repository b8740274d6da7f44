"""Deprecated names for the functions of `pool`."""

import warnings

from theano_ng.moved import warn_of_former
from theano_ng.tensor.signal import pool
from theano_ng.tensor.signal.pool import max_pool_2d_same_size

__all__ = ["max_pool_2d", "max_pool_2d_same_size"]

warn_of_former(__name__)


def max_pool_2d(input, ds, ignore_border=None, st=None, padding=(0, 0), mode="max"):
    """Call :func:`theano_ng.tensor.signal.pool.pool_2d`. This function is deprecated.

    The parameters `ds`, `st` and `padding` are called `ws`, `stride` and `pad` in `pool_2d`.
    """
    warnings.warn("downsample.max_pool_2d is deprecated, use theano.tensor.signal.pool.pool_2d", stacklevel=2)
    return pool.pool_2d(input, ds, ignore_border=ignore_border, stride=st, pad=padding, mode=mode)
