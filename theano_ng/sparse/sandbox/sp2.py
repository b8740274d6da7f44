"""Ops that return random sparse matrices.

The Ops are not deterministic: they use NumPy's global random state (``numpy.random.seed``), and each call of a function
returns different values. Equal nodes of one graph are merged, so within a call they have the same value.
"""

import numpy as np
import scipy.sparse

from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.sparse.arithmetic import (
    add_s_s,
    add_s_s_data,
    mul_s_d,
    mul_s_s,
    mul_s_v,
    neg,
    structured_add_s_v,
    with_data,
)
from theano_ng.sparse.common import compressed
from theano_ng.sparse.conversion import CSC, CSR, bcast, ccast, csm_properties, dcast, fcast, icast, lcast, wcast, zcast
from theano_ng.sparse.fields import mul_s_d_csc, mul_s_d_csr, mul_s_v_csr, sampling_dot_csr, structured_add_s_v_csr
from theano_ng.sparse.opt.elementwise import local_mul_s_d, local_mul_s_v, local_structured_add_s_v
from theano_ng.sparse.opt.products import local_sampling_dot_csr
from theano_ng.sparse.products import sampling_dot
from theano_ng.sparse.shaping import remove0
from theano_ng.sparse.type import SparseType
from theano_ng.sparse.values import CLASSES, matrix_of
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS

__all__ = [
    "Binomial",
    "CSC",
    "CSR",
    "Multinomial",
    "Poisson",
    "add_s_s",
    "add_s_s_data",
    "bcast",
    "ccast",
    "csc_dbinomial",
    "csc_fbinomial",
    "csm_properties",
    "csr_dbinomial",
    "csr_fbinomial",
    "dcast",
    "eliminate_zeros",
    "fcast",
    "icast",
    "lcast",
    "local_mul_s_d",
    "local_mul_s_v",
    "local_sampling_dot_csr",
    "local_structured_add_s_v",
    "mul_s_d",
    "mul_s_d_csc",
    "mul_s_d_csr",
    "mul_s_s",
    "mul_s_v",
    "mul_s_v_csr",
    "multinomial",
    "neg",
    "poisson",
    "remove0",
    "sampling_dot",
    "sampling_dot_csr",
    "structured_add_s_v",
    "structured_add_s_v_csr",
    "wcast",
    "zcast",
]

eliminate_zeros = remove0

# The largest number of random numbers that are drawn at once, to limit memory.
_BLOCK_ELEMENTS = 1 << 20


class _Random(Op):
    def do_constant_folding(self, node):
        # Do not fold this Op to a constant: each call returns another value.
        return False


class Poisson(_Random):
    """An Op that draws from Poisson distributions whose means are the elements of a sparse matrix. It has no gradient.

    The result has entries only at positions at which the input has entries.
    """

    __props__ = ()

    def make_node(self, x):
        x = compressed(x, self)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        (x,) = inputs
        result = with_data(x, np.random.poisson(x.data[: x.indptr[-1]]).astype(x.dtype))
        result.eliminate_zeros()
        outputs[0][0] = result

    def grad(self, inputs, outputs_gradients):
        return [grad_undefined(self, 0, inputs[0], "the number of events is random")]

    def infer_shape(self, node, ins_shapes):
        return ins_shapes


poisson = Poisson()


class Binomial(_Random):
    """An Op that draws the elements of a sparse matrix from a binomial distribution. The Op has no gradient.

    The inputs are the number n of experiments and the probability p of a success, both 0-d, and the shape of the
    matrix, a vector of two lengths.

    Parameters
    ----------
    format : {'csr', 'csc'}
    dtype : str
    """

    __props__ = ("format", "dtype")

    def __init__(self, format, dtype):
        self.format = format
        self.dtype = dtype

    def make_node(self, n, p, shape):
        n, p, shape = (as_tensor_variable(v) for v in (n, p, shape))
        if n.ndim != 0 or n.dtype not in INTEGERS:
            raise TypeError("%s: the number of experiments must be a 0-d integer, not %s" % (self, n.type))
        if p.ndim != 0:
            raise TypeError("%s: the probability must be 0-d, not %s" % (self, p.type))
        if shape.ndim != 1 or shape.dtype not in INTEGERS:
            raise TypeError("%s: the shape must be a vector of integers, not %s" % (self, shape.type))
        return Apply(self, [n, p, shape], [SparseType(dtype=self.dtype, format=self.format)()])

    def perform(self, node, inputs, outputs):
        n, p, shape = inputs
        if len(shape) != 2:
            raise ValueError("%s: the shape of a matrix must have two lengths, not %d" % (self, len(shape)))
        rows, columns = (int(length) for length in shape)
        # Draw blocks of rows. The numbers do not depend on the size of the blocks.
        at_once = max(1, _BLOCK_ELEMENTS // max(columns, 1))
        blocks = [
            scipy.sparse.csr_matrix(
                np.random.binomial(n, p, size=(min(at_once, rows - start), columns)).astype(self.dtype)
            )
            for start in range(0, rows, at_once)
        ]
        cls = CLASSES[self.format]
        if not blocks:
            outputs[0][0] = cls((rows, columns), dtype=self.dtype)
            return
        outputs[0][0] = cls(matrix_of(scipy.sparse.vstack(blocks, format=self.format)))

    def connection_pattern(self, node):
        return [[True], [True], [False]]

    def grad(self, inputs, gout):
        n, p, _ = inputs
        return [
            grad_undefined(self, 0, n, "the number of experiments is an integer"),
            grad_undefined(self, 1, p, "the number of successes is random"),
            DisconnectedType()(),
        ]

    def infer_shape(self, node, ins_shapes):
        return [(node.inputs[2][0], node.inputs[2][1])]


csr_fbinomial = Binomial("csr", "float32")
csc_fbinomial = Binomial("csc", "float32")
csr_dbinomial = Binomial("csr", "float64")
csc_dbinomial = Binomial("csc", "float64")


class Multinomial(_Random):
    """An Op that draws the rows of a sparse matrix from multinomial distributions. The Op has no gradient.

    The inputs are the number n of experiments (0-d, or a vector with an element for each row) and a csr matrix p. Each
    row of p contains probabilities that sum to one.
    """

    __props__ = ()

    def make_node(self, n, p):
        n, p = as_tensor_variable(n), compressed(p, self)
        if p.format != "csr":
            raise NotImplementedError("%s supports only csr matrices, not %s" % (self, p.type))
        if n.ndim > 1:
            raise TypeError("%s: the number of experiments must be 0-d or a vector, not %s" % (self, n.type))
        return Apply(self, [n, p], [p.type()])

    def perform(self, node, inputs, outputs):
        n, p = inputs
        rows = p.shape[0]
        if n.ndim == 1 and len(n) != rows:
            raise ValueError(
                "The number of element of n must be the same as the number of row of p: they are %d and %d"
                % (len(n), rows)
            )
        counts = np.broadcast_to(n, (rows,)).astype("int64")
        data = p.data[: p.indptr[-1]].copy()
        for i in range(rows):
            part = slice(p.indptr[i], p.indptr[i + 1])
            data[part] = np.random.multinomial(counts[i], p.data[part])
        outputs[0][0] = with_data(p, data)

    def grad(self, inputs, outputs_gradients):
        return [
            grad_undefined(self, 0, inputs[0], "the number of experiments is an integer"),
            grad_undefined(self, 1, inputs[1], "the number of successes is random"),
        ]

    def infer_shape(self, node, ins_shapes):
        return [ins_shapes[1]]


multinomial = Multinomial()
