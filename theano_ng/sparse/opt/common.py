"""Functions that several rules for sparse matrices use."""

from theano_ng.sparse.conversion import CSM, csm_properties
from theano_ng.tensor.elemwise.functions import cast

__all__ = ["Parts", "in_dtype"]


def in_dtype(x, dtype):
    """Convert a tensor variable to a dtype. Return the variable unchanged if it already has this dtype."""
    return x if x.dtype == dtype else cast(x, dtype)


class Parts:
    """The parts of a sparse variable, with the data converted to a dtype.

    Attributes
    ----------
    data, indices, indptr, shape : TensorVariable
    minor : TensorVariable
        The length of the dimension that is not compressed: the number of columns (csr) or rows (csc).
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
        """Return a sparse variable with other data and the same indices, indptr and shape."""
        return CSM(self.format)(data, self.indices, self.indptr, self.shape)
