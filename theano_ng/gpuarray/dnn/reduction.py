"""Reductions by cuDNN."""

from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.cudnn_defs import CuDNNV9
from theano_ng.gpuarray.dnn.base import DTYPES, DnnOp, dnn_inputs
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.twin import at_least_float32
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.elemwise.functions import abs_, cast, sqr, sqrt
from theano_ng.tensor.reductions.extremes import max_and_argmax

__all__ = ["GpuDnnReduction"]

MOST_AXES = 8  # of arrays that cuDNN reduces

_VALUES = {
    "add": lambda x, axis: x.sum(axis),
    "mul": lambda x, axis: x.prod(axis),
    "maximum": lambda x, axis: x.max(axis),
    "minimum": lambda x, axis: x.min(axis),
    "absmax": lambda x, axis: abs_(x).max(axis),
    "avg": lambda x, axis: x.mean(axis),
    "norm1": lambda x, axis: abs_(x).sum(axis),
    "norm2": lambda x, axis: sqrt(sqr(x).sum(axis)),
}
# The expression whose maximum has the same index
_ARGUMENTS = {"maximum": lambda x: x, "minimum": lambda x: -x, "absmax": abs_}


class GpuDnnReduction(DnnOp):
    """Reduce an array on a CUDA device over some axes, by cuDNN.

    Input: x, at most 8 axes, float16, float32 or float64. Outputs: the result, which lacks the reduced axes, and, with
    `return_indices`, the uint32 indices of the extremes, which count in C order over the reduced axes.

    Parameters
    ----------
    red_op : {"add", "mul", "maximum", "minimum", "absmax", "avg", "norm1", "norm2"}
        Sum, product, extremes, largest absolute value, mean, sum of absolute values, square root of the sum of squares.
    axis : int, sequence of int or None
        None: all axes.
    acc_dtype : {"float32", "float64"}
        The dtype in which cuDNN computes: float64 for float64 arrays, else float32.
    dtype : str
        The dtype of the result, which is that of the input.
    return_indices : bool
        Possible for "maximum", "minimum" and "absmax".

    Raises
    ------
    ValueError
        For an unknown `red_op`, an axis that does not exist or appears twice, indices of another reduction, or more than
        8 axes. At run time, for an extreme of zero elements.
    TypeError
        If cuDNN does not compute with the dtypes.

    Notes
    -----
    If an element is NaN, the extremes are NaN. cuDNN does not define which of several equal extremes the index names;
    `GpuMaxAndArgmax` returns the first.
    """

    __props__ = ("red_op", "axis", "acc_dtype", "dtype", "return_indices")

    def __init__(self, red_op, axis, acc_dtype, dtype, return_indices):
        super().__init__()
        if red_op not in _VALUES:
            raise ValueError("GpuDnnReduction: red_op must be one of %s, not %r" % (list(_VALUES), red_op))
        if return_indices and red_op not in _ARGUMENTS:
            raise ValueError("GpuDnnReduction: only %s have indices, not %r" % (list(_ARGUMENTS), red_op))
        self.red_op, self.acc_dtype, self.dtype = red_op, acc_dtype, dtype
        self.axis = axis if axis is None else tuple([axis] if isinstance(axis, int) else axis)
        self.return_indices = bool(return_indices)

    def axes(self, ndim):
        """Return the reduced axes of an array with `ndim` axes, in increasing order."""
        if self.axis is None:
            return tuple(range(ndim))
        axes = [axis + ndim if axis < 0 else axis for axis in self.axis]
        if not all(0 <= axis < ndim for axis in axes) or len(set(axes)) < len(axes):
            raise ValueError("%s: an array with %d axes has no such axes, or one is given twice" % (self, ndim))
        return tuple(sorted(axes))

    def make_node(self, inp):
        (x,) = dnn_inputs(self, {"inp": inp}, range(MOST_AXES + 1))
        if (self.acc_dtype, self.dtype) != (at_least_float32(x.dtype), x.dtype):
            raise TypeError(
                "%s: cuDNN reduces %s arrays with acc_dtype %r to dtype %r only"
                % (self, x.dtype, at_least_float32(x.dtype), x.dtype)
            )
        axes = self.axes(x.ndim)
        pattern = [flag for axis, flag in enumerate(x.broadcastable) if axis not in axes]
        dtypes = [self.dtype, "uint32"][: 1 + self.return_indices]
        return Apply(self, [x], [GpuArrayType(dtype, pattern, x.type.context_name)() for dtype in dtypes])

    def infer_shape(self, node, shapes):
        axes = self.axes(node.inputs[0].ndim)
        kept = tuple([length for axis, length in enumerate(shapes[0]) if axis not in axes])
        return [kept] * len(node.outputs)

    def fails_on_values(self, node):
        return self.red_op in _ARGUMENTS  # there may be no elements

    def native_code(self, node):
        x = node.inputs[0].type
        return self.dnn_code(
            node,
            "cudnn_reduction:reduction",
            typecode=x.typecode,
            operation=CuDNNV9.cudnnReduceTensorOp_t.fromalias(self.red_op),
            accumulate=pygpu.dtype_to_typecode(self.acc_dtype),
            axes=sum(1 << axis for axis in self.axes(x.ndim)),
            indices=self.return_indices,
        )

    def formula(self, inp):
        axes = self.axes(inp.ndim)
        if not axes:
            found = [_VALUES[self.red_op](inp.dimshuffle(*range(inp.ndim), "x"), inp.ndim)]
        else:
            found = [_VALUES[self.red_op](inp, axes)]
        if self.return_indices:
            found.append(cast(max_and_argmax(_ARGUMENTS[self.red_op](inp), axes)[1], "uint32"))
        return found


def can_reduce(x, acc_dtype, dtype):
    """Return True if cuDNN reduces an array to `dtype`, and computes in `acc_dtype`."""
    return x.ndim <= MOST_AXES and x.dtype in DTYPES and (acc_dtype, dtype) == (at_least_float32(x.dtype), x.dtype)
