"""`numpy.asarray` that promises the dtype."""

import numpy as np


def _asarray(a, dtype, order=None):
    """An array of exactly a dtype.

    NumPy has several dtypes of equal size and meaning (such as ``int64`` and ``longlong``) with different numbers; the one asked for is
    returned, without a copy where possible.

    Parameters
    ----------
    a : array_like
    dtype : str or dtype
        'floatX' stands for ``config.floatX``.
    order : {None, 'C', 'F'}

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError
        When the data cannot be converted.
    """
    if str(dtype) == "floatX":
        from theano_ng.configdefaults import config

        dtype = config.floatX
    dtype = np.dtype(dtype)
    rval = np.asarray(a, dtype=dtype, order=order)
    if rval.dtype.num == dtype.num:
        return rval
    if rval.dtype == dtype or rval.dtype.newbyteorder("=") == dtype.newbyteorder("="):
        return rval.view(dtype=dtype)
    raise TypeError(
        "NumPy did not return an array of the expected dtype: %s instead of %s. %s" % (rval.dtype, dtype, type(a))
    )
