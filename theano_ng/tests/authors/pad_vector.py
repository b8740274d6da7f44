"""Padding of a vector by values beyond its ends."""

import math
import operator

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import COp, EnumList, ParamsType
from theano_ng.scalar import Scalar


class PadVector(COp):
    """Extend a vector at both ends. The C code is in pad_vector.c.

    Parameters
    ----------
    before, after : int
        The numbers of new elements.
    mode : {'constant', 'nearest', 'wrap', 'reflect'}
        The values of the new elements: the number `fill`, the nearest element, or elements of the vector that is
        continued periodically (``b c a b c a b``), or by reflections that do not repeat the first and the last
        element (``c b a b c b a``). All modes except 'constant' need a vector with at least one element.
    fill : float
        The value of new elements in the mode 'constant'.
    """

    __props__ = ("before", "after", "mode", "fill")
    params_type = ParamsType(
        before=Scalar("int64"),
        after=Scalar("int64"),
        mode=EnumList(("CONSTANT", "constant"), ("NEAREST", "nearest"), ("WRAP", "wrap"), ("REFLECT", "reflect")),
        fill=Scalar("float64"),
    )

    def __init__(self, before, after, mode="constant", fill=0.0):
        self.before, self.after = operator.index(before), operator.index(after)
        if not 0 <= self.before < 2**31 or not 0 <= self.after < 2**31:
            raise ValueError("before and after must be in 0 .. 2**31 - 1, not %r and %r" % (before, after))
        if mode not in ("constant", "nearest", "wrap", "reflect"):
            raise ValueError("mode must be 'constant', 'nearest', 'wrap' or 'reflect', not %r" % (mode,))
        self.mode, self.fill = mode, float(fill) + 0.0  # -0.0 becomes 0.0, because the two are equal as props
        if math.isnan(self.fill):
            raise ValueError("fill must be a number, not NaN")  # NaN is not equal to itself
        super().__init__("pad_vector.c", "APPLY_SPECIFIC(pad_vector)")

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 1 or x.dtype not in ("float32", "float64"):
            raise TypeError("PadVector needs a vector of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [T.vector(dtype=x.dtype)])

    def sources(self, positions, length, module):
        """Return the indices of the elements that are copied to the given positions.

        Parameters
        ----------
        positions : integers
            Positions relative to the first element. They may be numbers or variables.
        length : int or variable
            The length of the vector.
        module : module
            numpy for numbers, theano_ng.tensor for variables.
        """
        if self.mode == "wrap":
            return positions % length
        if self.mode == "reflect":
            period = module.maximum(2 * (length - 1), 1)
            positions = positions % period
            return module.minimum(positions, period - positions)
        return module.minimum(module.maximum(positions, 0), length - 1)

    def perform(self, node, inputs, output_storage, params):
        (x,) = inputs
        length = x.shape[0]
        if length == 0 and self.mode != "constant" and self.before + self.after > 0:
            raise ValueError("PadVector: an empty vector has no elements for the mode '%s'" % self.mode)
        positions = np.arange(-self.before, length + self.after)
        if self.mode == "constant":
            with np.errstate(over="ignore"):
                y = np.full(positions.shape, self.fill).astype(x.dtype)
            y[self.before : self.before + length] = x
        elif length == 0:
            y = np.zeros(0, x.dtype)
        else:
            y = x[self.sources(positions, length, np)]
        output_storage[0][0] = y

    def infer_shape(self, node, shapes):
        return [(shapes[0][0] + (self.before + self.after),)]

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        if self.mode == "constant":
            return [T.patternbroadcast(g[self.before : self.before + x.shape[0]], x.broadcastable)]
        positions = T.arange(-self.before, x.shape[0] + self.after)
        sources = self.sources(positions, x.shape[0], T)
        return [T.inc_subtensor(T.zeros_like(x)[sources], g)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [PadVector(self.before, self.after, self.mode)(eval_points[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    vector = np.array([0.5, -1.0, 2.5, 4.0, -3.5])
    return [
        (PadVector(2, 1, "constant", 1.5), [vector]),
        (PadVector(2, 3, "reflect"), [vector.astype("float32")]),
        (PadVector(1, 2, "wrap"), [vector]),
    ]
