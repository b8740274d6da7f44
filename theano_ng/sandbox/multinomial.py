"""Ops that draw categories from probabilities and uniform random numbers.

Their C code is `tensor/native/arrays/random.c`.
"""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.scalar import as_scalar
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import FLOATS, INTEGERS
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.shaping.reshaping import tensor_from_scalar
from theano_ng.tensor.type import TensorType

__all__ = ["ChoiceFromUniform", "MultinomialFromUniform", "MultinomialWOReplacementFromUniform"]


class MultinomialFromUniform(NativeOp, Op):
    """An Op that counts how often each category is drawn in n trials, for each row of probabilities.

    Its inputs are a matrix of probabilities, a vector of ``n * rows`` uniform numbers, and n. Trial k of row r uses
    number ``k * rows + r``. It draws the first category at which the cumulative sum of the probabilities exceeds the
    number. The sum is computed in the dtype of the probabilities (for float16, in float32). If the sum never exceeds
    the number, no category is counted.

    Parameters
    ----------
    odtype : str
        The dtype of the counts. 'auto' means the dtype of the probabilities.
    """

    __props__ = ("odtype",)
    _automatic = None
    _f16_ok = True

    def __init__(self, odtype):
        self.odtype = odtype

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, self.odtype)

    def make_node(self, pvals, unis, n=1):
        pvals, unis = as_tensor_variable(pvals), as_tensor_variable(unis)
        if pvals.ndim != 2:
            raise NotImplementedError("pvals ndim should be 2", pvals.ndim)
        if unis.ndim != 1:
            raise NotImplementedError("unis ndim should be 1", unis.ndim)
        if pvals.dtype not in FLOATS:
            if pvals.dtype.startswith("complex"):
                raise TypeError("pvals must be real, not %s" % pvals.type)
            pvals = cast(pvals, "float64")
        if unis.dtype not in FLOATS:
            raise TypeError("unis must be real numbers from 0 to 1, not %s" % unis.type)
        n = as_scalar(n)
        if n.dtype not in INTEGERS:
            raise TypeError("the number of samples must be an integer, not %s" % n.type)
        odtype = self.odtype
        if odtype == "auto":
            odtype = self._automatic or pvals.dtype
        return Apply(self, [pvals, unis, n], [self._output(odtype, pvals)])

    @staticmethod
    def _output(odtype, pvals):
        return TensorType(odtype, pvals.type.broadcastable)()

    def fails_on_values(self, node):
        return not isinstance(node.inputs[2], Constant)

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.random:multinomial", type=np.dtype(node.outputs[0].dtype).num)

    @staticmethod
    def _checked(pvals, unis, n):
        if n < 0:
            raise ValueError("the number of samples must not be negative, it is %d" % n)
        if unis.shape[0] != pvals.shape[0] * n:
            raise ValueError(
                "unis.shape[0] (%d) != pvals.shape[0] (%d) * n_samples (%d)" % (unis.shape[0], pvals.shape[0], n)
            )

    def perform(self, node, ins, outs):
        pvals, unis, n = ins[0], ins[1], int(ins[2])
        self._checked(pvals, unis, n)
        counts = np.zeros(pvals.shape, "int64")
        rows = np.arange(len(pvals))
        for k in range(n):
            found = _categories(pvals, unis[k * len(pvals) : (k + 1) * len(pvals)])
            np.add.at(counts, (rows[found >= 0], found[found >= 0]), 1)
        outs[0][0] = counts.astype(node.outputs[0].dtype, copy=False)

    def connection_pattern(self, node):
        return [[True], [True], [False]]

    def grad(self, ins, outgrads):
        pvals, unis, _ = ins
        (gz,) = outgrads
        # The gradient is zero: the counts are piecewise constant, so almost everywhere they do not depend on the
        # probabilities.
        return [
            _zeros(pvals) if not isinstance(gz.type, DisconnectedType) else DisconnectedType()(),
            _zeros(unis) if not isinstance(gz.type, DisconnectedType) else DisconnectedType()(),
            DisconnectedType()(),
        ]

    def R_op(self, inputs, eval_points):
        return [None]


def _zeros(x):
    return x.zeros_like()


def _categories(pvals, numbers):
    """Return the category that is drawn in each row, or -1 if no category is drawn.

    This is the first category at which the cumulative sum of the row of `pvals` exceeds the row's number.
    """
    sums = np.cumsum(pvals, axis=1, dtype="float32" if pvals.dtype == "float16" else pvals.dtype)
    over = sums > numbers.astype("float64")[:, np.newaxis]
    if pvals.shape[1] == 0:
        return np.full(len(pvals), -1)
    return np.where(over.any(1), over.argmax(1), -1)


class ChoiceFromUniform(MultinomialFromUniform):
    """An Op that returns the categories drawn in n trials, for each row of probabilities.

    The inputs are the same as for `MultinomialFromUniform`. The result has n columns. An element is -1 if the
    cumulative sum of probabilities never exceeds the uniform number of the trial.

    Parameters
    ----------
    odtype : str
        The dtype of the result. 'auto' means int64.
    replace : bool
        If True, a category can be drawn again. If False, its probability is 0 in later trials, and the other
        probabilities are scaled to the sum 1.
    """

    __props__ = ("odtype", "replace")
    _automatic = "int64"

    def __init__(self, odtype, replace=False, *args, **kwargs):
        self.replace = replace
        super().__init__(odtype, *args, **kwargs)

    def __str__(self):
        return "%s{odtype=%r, replace=%s}" % (type(self).__name__, self.odtype, self.replace)

    @staticmethod
    def _output(odtype, pvals):
        return TensorType(odtype, (pvals.type.broadcastable[0], False))()

    def infer_shape(self, node, shapes):
        return [[shapes[0][0], cast(tensor_from_scalar(node.inputs[2]), "int64")]]

    def fails_on_values(self, node):
        return True

    def native_code(self, node):
        return NativeCode(
            "theano_ng.tensor.native.random:choice",
            type=np.dtype(node.outputs[0].dtype).num,
            replace=bool(self.replace),
        )

    def perform(self, node, ins, outs):
        pvals, unis, n = ins[0], ins[1], int(ins[2])
        self._checked(pvals, unis, n)
        if not self.replace and n > pvals.shape[1]:
            raise ValueError("Cannot sample without replacement n samples bigger than the size of the distribution.")
        left = pvals.astype("float32" if pvals.dtype == "float16" else pvals.dtype)
        chosen = np.empty((len(pvals), n), "int64")
        rows = np.arange(len(pvals))
        for k in range(n):
            chosen[:, k] = found = _categories(left, unis[k * len(pvals) : (k + 1) * len(pvals)])
            if not self.replace:
                hit = found >= 0
                left[rows[hit], found[hit]] = 0
                # Use cumsum, as `_categories` does. np.sum would add in another order, and so round differently.
                with np.errstate(divide="ignore", invalid="ignore"):
                    left[hit] /= np.cumsum(left[hit], axis=1)[:, -1:]
        outs[0][0] = chosen.astype(node.outputs[0].dtype, copy=False)


class MultinomialWOReplacementFromUniform(ChoiceFromUniform):
    """The old name of `ChoiceFromUniform`."""
