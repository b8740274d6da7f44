"""The softmax of the stored entries of a sparse matrix."""

import math

import numpy as np
import scipy.sparse

import theano_ng as theano
from theano_ng import sparse
from theano_ng import tensor as T


class SparseSoftmax(theano.Op):
    """Divide the exponentials of the stored entries by their sums along an axis.

    The result has entries at the same positions as the input, with sorted indices. If an element is stored in several
    parts, its value is their sum. Elements that are not stored count as minus infinity, so they stay zero. The
    gradient is structured: it has entries at the same positions.

    Parameters
    ----------
    axis : {0, 1}
        1: the entries of each row add up to 1; 0: those of each column.
    scale : float
        The entries are multiplied by this number first.
    """

    __props__ = ("axis", "scale")

    def __init__(self, axis=1, scale=1.0):
        if axis not in (0, 1):
            raise ValueError("axis must be 0 or 1, not %r" % (axis,))
        self.axis, self.scale = int(axis), float(scale) + 0.0  # -0.0 becomes 0.0, because the two are equal as props
        if not math.isfinite(self.scale):
            raise ValueError("scale must be finite, not %r" % scale)

    def make_node(self, x):
        x = sparse.as_sparse_variable(x)
        if x.dtype not in ("float32", "float64") or x.format not in ("csr", "csc"):
            raise TypeError("SparseSoftmax needs a matrix of float32 or float64 in format csr or csc, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        y = inputs[0].copy()
        y.sum_duplicates()  # also sorts the indices
        # The number of the row or column to which each entry belongs.
        if (y.format == "csr") == (self.axis == 1):
            groups = np.repeat(np.arange(y.shape[1 - self.axis]), np.diff(y.indptr))
        else:
            groups = y.indices
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            entries = self.scale * y.data.astype("float64")
            largest = np.full(y.shape[1 - self.axis], -np.inf)
            np.maximum.at(largest, groups, entries)
            powers = np.exp(entries - largest[groups])
            total = np.bincount(groups, powers, minlength=len(largest))
            y.data = (powers / total[groups]).astype(y.dtype)
        output_storage[0][0] = y

    def infer_shape(self, node, shapes):
        return shapes

    def product(self, y, v):
        """Return the product of the derivative and a matrix v. The derivative is symmetric."""
        weighted = sparse.mul(y, v)
        sums = sparse.sp_sum(weighted, axis=self.axis, sparse_grad=True)
        by_group = sparse.row_scale if self.axis == 1 else sparse.col_scale
        scale = T.constant(np.asarray(self.scale).astype(y.dtype))
        return sparse.mul(sparse.sub(weighted, by_group(y, sums)), scale)

    def L_op(self, inputs, outputs, output_grads):
        return [self.product(outputs[0], output_grads[0])]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self.product(self(inputs[0]), eval_points[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    matrix = scipy.sparse.csr_matrix(np.array([[0.5, 0, -1.25, 2.0], [0, 0, 1.5, 0], [-0.75, 3.0, 0, 0.25]]))
    return [(SparseSoftmax(), [matrix]), (SparseSoftmax(0, -0.5), [matrix.tocsc().astype("float32")])]
