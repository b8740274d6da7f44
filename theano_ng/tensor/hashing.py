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
        The hash does not depend on the process.

    Notes
    -----
    Arrays of equal values, shape and dtype have the same hash for any strides: for instance, a view and its copy.
    """
    digest = blake2b(size=32)
    # The length prefix keeps different parts from giving the same concatenation.
    for part in (str(data.shape), str(data.dtype)):
        digest.update(b"%d:" % len(part))
        digest.update(part.encode())
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()
