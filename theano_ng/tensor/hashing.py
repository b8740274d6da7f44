"""Hashes of arrays."""

import numpy as np

from theano_ng.digests import blake2b


def hash_from_ndarray(data):
    """Hash an array by its content, shape and dtype.

    Parameters
    ----------
    data : ndarray

    Returns
    -------
    str
        The hash. It is the same in every process.

    Notes
    -----
    Arrays with equal values, shapes and dtypes have the same hash, whatever their strides are: for instance, a view and
    its copy.
    """
    digest = blake2b(size=32)
    # Without the length prefixes, different shapes and dtypes could have the same concatenation.
    for part in (str(data.shape), str(data.dtype)):
        digest.update(b"%d:" % len(part))
        digest.update(part.encode())
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()
