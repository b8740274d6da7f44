"""What rules for sparse matrices share."""

from theano_ng.sparse.conversion import CSM, csm_properties
from theano_ng.tensor.elemwise.functions import cast

__all__ = ["Parts", "in_dtype"]


def in_dtype(x, dtype):
    """A tensor variable in a dtype; itself if it is of that."""
    return x if x.dtype == dtype else cast(x, dtype)


class Parts:
    """The parts of a sparse variable, with data of a dtype.

    Attributes
    ----------
    data, indices, indptr, shape : TensorVariable
    minor : TensorVariable
        The length of the dimension that indptr is not for.
    """

    def __init__(self, x, dtype):
        data, self.indices, self.indptr, self.shape = csm_properties(x)
        self.data = in_dtype(data, dtype)
        self.format = x.format
        self._minor = 1 if x.format == "csr" else 0

    @property
    def minor(self):
        return self.shape[self._minor]

    def with_data(self, data):
        """A sparse variable with other data."""
        return CSM(self.format)(data, self.indices, self.indptr, self.shape)
