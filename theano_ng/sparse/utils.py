"""The hash function of sparse matrices."""

from theano_ng.digests import blake2b
from theano_ng.tensor.hashing import hash_from_ndarray

__all__ = ["hash_from_sparse"]


def hash_from_sparse(data):
    """Return a hash of a sparse matrix that is equal in all processes.

    Parameters
    ----------
    data : csr, csc or bsr matrix

    Returns
    -------
    str
        The hash. It depends on how the matrix is stored: with entries in another order, the hash differs.
    """
    arrays = (data.data, data.indices, data.indptr)
    text = "|".join(
        [*[hash_from_ndarray(array) for array in arrays], str(tuple(int(n) for n in data.shape)), data.format]
    )
    return blake2b(text.encode(), size=32).hexdigest()
