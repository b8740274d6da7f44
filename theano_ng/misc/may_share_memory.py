"""The function `may_share_memory` for arrays, sparse matrices and other registered kinds of values."""

import sys

import numpy as np

# Pairs (recognizes, function) of the kinds of values that `register_may_share_memory` added, such as arrays on a GPU.
_others = []


def register_may_share_memory(recognizes, function):
    """Register a kind of value for `may_share_memory`.

    Parameters
    ----------
    recognizes : callable
        ``recognizes(object)`` returns True if the object is of this kind.
    function : callable
        ``function(a, b)`` returns True if two objects of this kind may share memory.
    """
    _others.append((recognizes, function))


def _is_sparse(a):
    """Return True if an object is a SciPy sparse matrix. SciPy is not imported for the test."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(a)


def _is_gpua(a):
    """Return True if an object is of a registered kind, which in practice is an array on a GPU."""
    return any(recognizes(a) for recognizes, _ in _others)


def _buffers(a):
    """Return the arrays that hold the data of a value."""
    if not _is_sparse(a):
        return [a]
    return [
        getattr(a, name)
        for name in ("data", "indices", "indptr", "row", "col", "offsets")
        if isinstance(getattr(a, name, None), np.ndarray)
    ]


def may_share_memory(a, b, raise_other_type=True):
    """Return True if a change of one value may change the other value.

    Parameters
    ----------
    a, b : ndarray, sparse matrix, or a kind that has been registered
    raise_other_type : bool
        Whether to raise TypeError for another kind of value. If not, the function returns False for such a value.

    Returns
    -------
    bool
        The result is computed from the bounds of the memory. False is certain, but True may be wrong.
    """
    for recognizes, function in _others:
        known = recognizes(a), recognizes(b)
        if all(known):
            return function(a, b)
        if any(known):
            return False
    for value in (a, b):
        if not isinstance(value, np.ndarray) and not _is_sparse(value):
            if raise_other_type:
                raise TypeError(
                    "may_share_memory supports only ndarray and scipy.sparse (and registered kinds of values), not %s"
                    % type(value)
                )
            return False
    return any(np.may_share_memory(x, y) for x in _buffers(a) for y in _buffers(b))
