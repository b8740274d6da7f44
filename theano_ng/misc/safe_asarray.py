"""The function `_asarray`: the same as `numpy.asarray`, but with exactly the given dtype."""

import numpy as np


def _asarray(a, dtype, order=None):
    """Convert a value to an array of exactly the given dtype, without a copy if possible.

    NumPy has several dtypes with different type numbers but equal size and meaning (such as ``int64`` and
    ``longlong``). The result has the type number of the given dtype.

    Parameters
    ----------
    a : array_like
    dtype : str or dtype
        The dtype. 'floatX' means ``config.floatX``.
    order : {None, 'C', 'F'}

    Returns
    -------
    ndarray

    Raises
    ------
    TypeError
        If the data cannot be converted.
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
