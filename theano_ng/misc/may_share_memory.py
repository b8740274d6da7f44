"""`may_share_memory` for arrays, sparse matrices and whatever other values register themselves."""

import sys

import numpy as np

# (recognizes, may_share_memory) pairs of other kinds of values, such as arrays on a GPU.
_others = []


def register_may_share_memory(recognizes, function):
    """Teach `may_share_memory` another kind of value.

    Parameters
    ----------
    recognizes : callable
        Whether an object is of the kind.
    function : callable
        Whether two such objects may share memory.
    """
    _others.append((recognizes, function))


def _is_sparse(a):
    """Whether an object is a SciPy sparse matrix; does not import SciPy."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(a)


def _is_gpua(a):
    """Whether an object is an array on a GPU: some registered kind that is no array here."""
    return any(recognizes(a) for recognizes, _ in _others)


def _buffers(a):
    """The arrays that hold a value's data."""
    if not _is_sparse(a):
        return [a]
    return [
        getattr(a, name)
        for name in ("data", "indices", "indptr", "row", "col", "offsets")
        if isinstance(getattr(a, name, None), np.ndarray)
    ]


def may_share_memory(a, b, raise_other_type=True):
    """Whether changing one value may change the other.

    Parameters
    ----------
    a, b : ndarray, sparse matrix, or a kind that has been registered
    raise_other_type : bool
        Whether another kind of value is an error; otherwise the answer is False.

    Returns
    -------
    bool
        Answered by the bounds of the memory: True may be wrong, False may not.
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
