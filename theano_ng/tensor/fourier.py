"""The discrete Fourier transform of NumPy as an Op."""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import cast, conj, minimum, real
from theano_ng.tensor.exceptions import ShapeError
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.creation import zeros_like
from theano_ng.tensor.type import TensorType


class Fourier(Op):
    """``fft(a, n, axis)``: the Fourier transform of `a` along `axis`.

    First, `a` is cut or padded with zeros to length `n`.

    Inputs: `a` (any numeric dtype, at least one dimension), `n` (integer scalar), `axis` (integer scalar).
    None means the last axis for `axis`, and the length of the axis for `n`. The output is complex128.
    `infer_shape` and `grad` need a constant `axis`.
    See `numpy.fft.fft`, and `theano_ng.tensor.fft` for transforms of real arrays.
    """

    __props__ = ()

    def make_node(self, a, n, axis):
        a = as_tensor_variable(a)
        if a.ndim < 1:
            raise TypeError("Fourier: the input needs at least one dimension, got %s" % a.type)
        axis = as_tensor_variable(a.ndim - 1 if axis is None else axis)
        n = as_tensor_variable(a.shape[axis] if n is None else n)
        for name, v in (("n", n), ("axis", axis)):
            if v.ndim != 0 or v.dtype not in DISCRETE:
                raise TypeError("Fourier: %s must be an integer scalar, got %s" % (name, v.type))
        try:
            position = int(get_scalar_constant_value(axis))
        except NotScalarConstantError:
            pattern = (False,) * a.ndim
        else:
            if not -a.ndim <= position < a.ndim:
                raise ValueError("Fourier: axis %d is out of bounds for an array of %d dimensions" % (position, a.ndim))
            pattern = [b and i != position % a.ndim for i, b in enumerate(a.broadcastable)]
        return Apply(self, [a, n, axis], [TensorType("complex128", pattern)()])

    def perform(self, node, inputs, output_storage):
        a, n, axis = inputs
        if n < 1:
            raise ValueError("Fourier: n must be positive, not %d" % n)
        # The output is complex128. Convert the input first: NumPy transforms single precision in single precision.
        wide = np.asarray(a, "complex128" if a.dtype.kind == "c" else "float64")
        output_storage[0][0] = np.ascontiguousarray(np.fft.fft(wide, n=int(n), axis=int(axis)))

    def _axis(self, node):
        axis = get_scalar_constant_value(node.inputs[2])
        return int(axis) % node.inputs[0].ndim

    def infer_shape(self, node, in_shapes):
        try:
            axis = self._axis(node)
        except NotScalarConstantError:
            raise ShapeError("Fourier: the axis must be a constant") from None
        shape = list(in_shapes[0])
        shape[axis] = node.inputs[1]
        return [tuple(shape)]

    def connection_pattern(self, node):
        return [[True], [False], [False]]

    def grad(self, inputs, cost_grad):
        a, n, axis = inputs
        try:
            position = int(get_scalar_constant_value(axis)) % a.ndim
        except NotScalarConstantError:
            raise ValueError("Fourier: the gradient needs a constant axis, got %s" % axis) from None
        # The matrix of the transform is symmetric, so the gradient is a product with its conjugate.
        back = conj(self(conj(cost_grad[0]), n, axis))
        kept = (slice(None),) * position + (slice(None, minimum(n, a.shape[position])),)
        padded = set_subtensor(zeros_like(a, dtype="complex128")[kept], back[kept])
        result = padded if a.dtype.startswith("complex") else real(padded)
        result = result if a.dtype in DISCRETE else cast(result, a.dtype)
        return [result, DisconnectedType()(), DisconnectedType()()]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0], *inputs[1:])]


fft = Fourier()
