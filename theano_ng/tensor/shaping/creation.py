"""Creation of tensors: zeros, ones, ranges, grids, identity and triangular matrices, vectors of scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import disconnected_gradients, grad_undefined
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.printing import pprint
from theano_ng.tensor.constant import (
    NotScalarConstantError,
    as_tensor_variable,
    constant,
    get_scalar_constant_value,
    get_vector_length,
)
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import and_, cast, ceil, eq, fill, gt, maximum, mul, sgn, switch
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike, IntLike, ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "zeros",
    "ones",
    "zeros_like",
    "ones_like",
    "Eye",
    "eye",
    "identity_like",
    "Tri",
    "tri",
    "tril",
    "triu",
    "ARange",
    "arange",
    "_nd_grid",
    "mgrid",
    "ogrid",
    "MakeVector",
    "make_vector",
]

# dtype name -> NumPy type number, which native code takes as a parameter.
_TYPE_NUMBER = {
    name: np.dtype(name).num for name in sorted(DISCRETE) + ["float16", "float32", "float64", "complex64", "complex128"]
}


def _undefined_grads(op, inputs, why):
    """Return undefined gradients for all inputs. `why` says why the gradients are undefined."""
    return [grad_undefined(op, i, x, why) for i, x in enumerate(inputs)]


def _integer_scalar(x, what):
    """Return `x` as a 0-d integer variable. Raise TypeError if this is impossible."""
    x = as_tensor_variable(x)
    if x.ndim != 0 or x.dtype not in DISCRETE:
        raise TypeError("%s must be an integer scalar, but has type %s" % (what, x.type))
    return x


# ---------------------------------------------------------------------------


def _shape_sequence(shape):
    """Return the list of lengths of a shape that is given as a number, a sequence or a vector."""
    if isinstance(shape, (list, tuple)):
        return list(shape)
    if isinstance(shape, np.ndarray):
        return list(shape) if shape.ndim else [shape]
    variable = as_tensor_variable(shape)
    if variable.ndim == 0:
        return [shape]
    return [variable[i] for i in range(get_vector_length(variable))]


def zeros(shape: ShapeLike, dtype: DTypeLike | None = None) -> TensorVariable:
    """Return a tensor of zeros.

    Parameters
    ----------
    shape : int, sequence of int or scalar variables, or integer vector
        If the shape is a symbolic vector, its length must be known while the graph is built, as for the results of
        `shape` and `stack`.
    dtype : str, optional
        The dtype. The default is ``config.floatX``.

    Returns
    -------
    TensorVariable
    """
    return _filled(0, shape, dtype)


def ones(shape: ShapeLike, dtype: DTypeLike | None = None) -> TensorVariable:
    """Return a tensor of ones.

    Parameters
    ----------
    shape : int, integer variable, sequence of these, or integer vector
    dtype : str, optional
        The dtype. The default is ``config.floatX``.
    """
    return _filled(1, shape, dtype)


def _filled(value, shape, dtype):
    if dtype is None or dtype == "floatX":
        dtype = config.floatX
    return alloc(np.array(value, dtype=dtype), *_shape_sequence(shape))


def zeros_like(model: TensorLike, dtype: DTypeLike | None = None, opt: bool = False) -> TensorVariable:
    """Return a tensor of zeros with the shape of another tensor.

    Parameters
    ----------
    model : tensor_like
    dtype : str, optional
        The default is the dtype of `model`.
    opt : bool
        Whether to return a constant zero instead of a `fill` if the constant has the type of the result. Only rewriting
        rules set this parameter: in a user's graph, the `fill` should remain visible.

    Returns
    -------
    TensorVariable
    """
    return _filled_like(0.0, model, dtype, opt)


def ones_like(model: TensorLike, dtype: DTypeLike | None = None, opt: bool = False) -> TensorVariable:
    """Return a tensor of ones with the shape of another tensor.

    Parameters
    ----------
    model : tensor_like
    dtype : str, optional
        The default is the dtype of `model`.
    opt : bool
        See :func:`zeros_like`.
    """
    return _filled_like(1.0, model, dtype, opt)


def _filled_like(value, model, dtype, opt):
    model = as_tensor_variable(model)
    if dtype is None:
        dtype = model.type.dtype
    elif dtype == "floatX":
        dtype = config.floatX
    value = constant(value, dtype=dtype)
    if opt and value.type == model.type:
        return value
    return fill(model, value)


# ---------------------------------------------------------------------------


class _IntegerParametrized(NativeOp, Op):
    """The base class of Ops that make a matrix from three integers: rows, columns, k.

    If the second input is None at run time, the matrix has as many columns as rows.
    """

    __props__ = ("dtype",)
    native_name: str | None = None
    native_unchecked = (1,)

    def __init__(self, dtype=None):
        self.dtype = config.floatX if dtype is None else np.dtype(dtype).name

    def make_node(self, n, m, k):
        inputs = [
            _integer_scalar(x, "%s: %s" % (type(self).__name__, what))
            for x, what in ((n, "the number of rows"), (m, "the number of columns"), (k, "the diagonal"))
        ]
        pattern = [_is_constant(x, 1) for x in inputs[:2]]
        return Apply(self, inputs, [TensorType(self.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.creation:" + self.native_name, type_number=_TYPE_NUMBER[self.dtype])

    @staticmethod
    def _integers(inp):
        """Return the values of the inputs as ints. Negative lengths are replaced by 0."""
        n, m, k = inp
        return max(int(n), 0), max(int(n if m is None else m), 0), int(k)

    def infer_shape(self, node, in_shapes):
        return [tuple(maximum(cast(x, "int64"), 0) for x in node.inputs[:2])]

    def grad(self, inp, grads):
        return _undefined_grads(self, inp, "the inputs are integers")

    def R_op(self, inputs, eval_points):
        return [None]

    def connection_pattern(self, node):
        return [[False], [False], [False]]


class Eye(_IntegerParametrized):
    """An Op that makes a matrix with ones on a diagonal.

    Inputs, all integer scalars: the number of rows, the number of columns, and the offset of the diagonal. A positive
    offset selects a diagonal above the main diagonal.
    """

    native_name = "eye"

    def perform(self, node, inp, out_):
        n, m, k = self._integers(inp)
        out_[0][0] = np.eye(n, m, k, dtype=self.dtype)


class Tri(_IntegerParametrized):
    """An Op that makes a matrix with ones at and below a diagonal. The inputs are the same as for :class:`Eye`."""

    native_name = "tri"

    def make_node(self, N, M, k):
        return super().make_node(N, M, k)

    def perform(self, node, inp, out_):
        n, m, k = self._integers(inp)
        out_[0][0] = np.empty((n, m), self.dtype)  # This raises MemoryError if the matrix is too large.
        # np.tri computes m - k, which overflows for large m.
        out_[0][0][...] = np.arange(m) <= np.arange(n)[:, None] + min(max(k, -n), m)


def _is_constant(x, value):
    try:
        return bool(get_scalar_constant_value(x) == value)
    except NotScalarConstantError:
        return False


def eye(n: IntLike, m: IntLike | None = None, k: IntLike = 0, dtype: DTypeLike | None = None) -> TensorVariable:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n : int or integer scalar variable
        The number of rows.
    m : int or integer scalar variable, optional
        The number of columns. The default is `n`.
    k : int or integer scalar variable
        The offset of the diagonal: 0 for the main diagonal, positive above it, negative below it.
    dtype : str, optional
        The dtype. The default is ``config.floatX``.
    """
    return Eye(dtype)(n, n if m is None else m, k)


def identity_like(x: TensorLike) -> TensorVariable:
    """Return ``eye`` with the shape and dtype of a matrix.

    Parameters
    ----------
    x : matrix
    """
    x = as_tensor_variable(x)
    return eye(x.shape[0], x.shape[1], k=0, dtype=x.dtype)


def tri(N: IntLike, M: IntLike | None = None, k: IntLike = 0, dtype: DTypeLike | None = None) -> TensorVariable:
    """Return a matrix with ones at and below the k-th diagonal, and zeros above.

    Parameters
    ----------
    N, M : int or integer scalar
        The numbers of rows and columns. The default of `M` is `N`.
    k : int or integer scalar
        The offset of the diagonal: 0 for the main diagonal, positive above it, negative below it.
    dtype : str, optional
        The dtype. The default is ``config.floatX``.
    """
    return Tri(dtype)(N, N if M is None else M, k)


def _mask(m, k):
    if m.ndim != 2:
        raise ValueError("Expected a matrix, but got %d dimension(s): %s" % (m.ndim, m))
    return tri(m.shape[0], m.shape[1], k=k, dtype="int8")


def tril(m: TensorLike, k: IntLike = 0) -> TensorVariable:
    """Return `m` with zeros above its k-th diagonal.

    Parameters
    ----------
    m : matrix
    k : int or integer scalar

    Returns
    -------
    TensorVariable
        A matrix with the shape and dtype of `m`.
    """
    m = as_tensor_variable(m)
    # Use a switch, not a product with the mask, because inf * 0 is NaN.
    return switch(_mask(m, k), m, constant(0, dtype=m.dtype))


def triu(m: TensorLike, k: IntLike = 0) -> TensorVariable:
    """Return `m` with zeros below its k-th diagonal.

    Parameters
    ----------
    m : matrix
    k : int or integer scalar

    Returns
    -------
    TensorVariable
        A matrix with the shape and dtype of `m`.
    """
    m = as_tensor_variable(m)
    return switch(_mask(m, k - 1), constant(0, dtype=m.dtype), m)


# ---------------------------------------------------------------------------


class ARange(NativeOp, Op):
    """An Op that makes a vector of evenly spaced values. The inputs are the scalars start, stop and step."""

    __props__ = ("dtype",)

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype).name

    def make_node(self, start, stop, step):
        inputs = [as_tensor_variable(x) for x in (start, stop, step)]
        for x, what in zip(inputs, ("start", "stop", "step")):
            if x.ndim != 0:
                raise TypeError("arange: %s must be a scalar, but has type %s" % (what, x.type))
        return Apply(self, inputs, [TensorType(self.dtype, (False,))()])

    def _kind(self, node):
        """Return 'int' for exact ranges of integers, 'float' for ranges of floats, and None for other ranges.

        NumPy computes the other ranges: complex and boolean ranges, and floats that are truncated to integers.
        """
        kinds = {np.dtype(x.dtype).kind for x in node.inputs}
        own = np.dtype(self.dtype).kind
        if kinds <= set("biu") and own in "iu":
            return "int"
        return "float" if kinds <= set("biuf") and own == "f" else None

    def native_code(self, node):
        kind = self._kind(node)
        if kind is None:
            return None
        return NativeCode("theano_ng.tensor.native.creation:arange_" + kind, type_number=_TYPE_NUMBER[self.dtype])

    def perform(self, node, inp, out_):
        start, stop, step = (x.item() for x in inp)
        if step == 0:
            raise ZeroDivisionError("arange: step must not be zero")
        if abs((stop - start) / step) > 2.0**62:
            # Refuse a huge range here, because NumPy's number of elements may overflow.
            raise ValueError("arange: the range from start to stop has more elements than an array can have")
        if self._kind(node) != "int":
            out_[0][0] = np.arange(start, stop, step, dtype=self.dtype)
            return
        # Compute the number of elements with integers here, because NumPy uses floating point even for integers.
        count = max(-((start - stop) // step), 0)
        limits = np.iinfo(self.dtype)
        for i in range(min(count, 2)):
            if not limits.min <= start + i * step <= limits.max:
                raise OverflowError("arange: element %d is out of bounds for %s" % (i, self.dtype))
        words = np.arange(count, dtype="uint64")
        words *= np.uint64(step % 2**64)
        words += np.uint64(start % 2**64)
        out_[0][0] = words.astype(self.dtype)

    def infer_shape(self, node, i_shapes):
        start, stop, step = node.inputs
        if all(x.dtype in DISCRETE and x.dtype != "uint64" for x in node.inputs):
            start, stop, step = (cast(x, "int64") for x in node.inputs)
            if _is_constant(step, 1):
                count = stop if _is_constant(start, 0) else stop - start
            else:
                # Compute ceil((stop - start) / step) with integers, for a step of either sign.
                count = -((start - stop) // step)
        else:
            span = cast(stop, "float64") - cast(start, "float64")
            count = cast(ceil(span / step), "int64")
            if not _is_constant(step, 1):
                # If the quotient underflows to 0, or the step is infinite, the range still has its first element.
                count = switch(and_(eq(count, 0), gt(mul(sgn(span), sgn(step)), 0)), 1, count)
        return [(maximum(count, 0),)]

    def connection_pattern(self, node):
        return [[True], [False], [True]]

    def L_op(self, inputs, outputs, grads):
        start, stop, step = inputs
        (gz,) = grads
        (no_grad,) = disconnected_gradients(1)
        if self.dtype in DISCRETE:
            # The gradient is zero: a small change of start or step does not change the integers of the range.
            return [start.zeros_like(dtype=config.floatX), no_grad, step.zeros_like(dtype=config.floatX)]
        positions = arange(outputs[0].shape[0], dtype=self.dtype)
        return [gz.sum(), no_grad, (gz * positions).sum()]

    def R_op(self, inputs, eval_points):
        start, _, step = eval_points
        if self.dtype in DISCRETE or (start is None and step is None):
            return [None]
        result = zeros_like(self(*inputs))
        if start is not None:
            result = result + start
        if step is not None:
            result = result + step * arange(result.shape[0], dtype=self.dtype)
        return [cast(result, self.dtype)]


_arange: dict[str, ARange] = {}


def _range_dtype(*dtypes):
    """Return the dtype of a range whose bounds and step have the given dtypes, according to `config.cast_policy`."""
    if config.cast_policy in ("numpy", "numpy+floatX"):
        # np.arange returns a dtype that can represent the default integer int64, so float32 becomes float64.
        dtype = np.result_type("int64", *dtypes).name
        if (
            config.cast_policy == "numpy+floatX"
            and dtype == "float64"
            and config.floatX == "float32"
            and "float64" not in dtypes
        ):
            dtype = "float32"
        return dtype
    dtype = scal.upcast(*dtypes)
    # Widen integers: a constant bound may have an 8-bit dtype, which is too narrow for sums of indices.
    if dtype.startswith("int") or dtype == "bool":
        return "int64"
    return "uint64" if dtype.startswith("uint") else dtype


def arange(
    start: TensorLike, stop: TensorLike | None = None, step: TensorLike = 1, dtype: DTypeLike | None = None
) -> TensorVariable:
    """Return evenly spaced values from `start` to `stop`, excluding `stop`.

    Parameters
    ----------
    start, stop, step : number or scalar variable
        ``arange(n)`` starts at 0.
    dtype : str, optional
        The default depends on the dtypes of the arguments. For integers, it is int64 (or uint64). If
        ``config.cast_policy`` is "numpy", the default is the same as in NumPy.

    Returns
    -------
    TensorVariable
        A vector of length ceil((stop - start) / step), or of length 0 if this number is negative.

    Raises
    ------
    TypeError
        If an argument is not a scalar.
    ZeroDivisionError, OverflowError, ValueError, MemoryError
        At run time. ZeroDivisionError is raised if the step is zero. OverflowError is raised if one of the first
        elements does not fit into an integer `dtype`. ValueError or MemoryError is raised if a bound or the step is NaN
        or infinite, or if there are more elements than fit in memory.
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = (as_tensor_variable(x) for x in (start, stop, step))
    if dtype is None:
        name = _range_dtype(start.dtype, stop.dtype, step.dtype)
    else:
        name = np.dtype(config.floatX if dtype == "floatX" else dtype).name
    op = _arange.get(name)
    if op is None:
        op = _arange[name] = ARange(name)
    return op(start, stop, step)


class _nd_grid:
    """A builder of grids, which is indexed by slices. `mgrid` and `ogrid` are instances.

    Parameters
    ----------
    sparse : bool
        Whether each result has length 1 except along its own axis (`ogrid`).

    Examples
    --------
    >>> a, b = mgrid[0:5, 0:3]
    >>> a.eval()[:, 0], b.eval()[0]
    (array([0, 1, 2, 3, 4]), array([0, 1, 2]))
    """

    def __init__(self, sparse=False):
        self.sparse = sparse

    def __getitem__(self, slices):
        single = isinstance(slices, slice)
        ranges = [self._range(s) for s in ((slices,) if single else slices)]
        if single:
            return ranges[0]
        ndim = len(ranges)
        axes = [r.dimshuffle(*["x"] * i + [0] + ["x"] * (ndim - 1 - i)) for i, r in enumerate(ranges)]
        # Cast the axes to a common dtype, as in NumPy.
        dtype = scal.upcast(*[a.dtype for a in axes])
        axes = [cast(a, dtype) for a in axes]
        if self.sparse:
            return axes
        return [
            axes[i] + sum((zeros_like(a) for j, a in enumerate(axes) if j != i), zeros_like(axes[i]))
            for i in range(ndim)
        ]

    @staticmethod
    def _range(s):
        if not isinstance(s, slice):
            raise TypeError("mgrid and ogrid are indexed by slices, such as mgrid[0:5, 0:3], not by %r" % (s,))
        if s.stop is None:
            raise ValueError("A slice of mgrid or ogrid needs a stop")
        start = 0 if s.start is None else s.start
        step = 1 if s.step is None else s.step
        if isinstance(step, complex):
            # As in NumPy, the step 5j means 5 points from start to stop, including stop.
            count = int(abs(step))
            gap = (s.stop - start) / np.float64(max(count - 1, 1))
            return start + arange(count) * gap
        return arange(start, s.stop, step)


mgrid = _nd_grid()
ogrid = _nd_grid(sparse=True)


# ---------------------------------------------------------------------------


class MakeVector(NativeOp, Op):
    """An Op that makes a vector from its inputs, which are scalars.

    Parameters
    ----------
    dtype : str
        The dtype of the result. Inputs with narrower dtypes are cast to this dtype.
    """

    __props__ = ("dtype",)

    if TYPE_CHECKING:

        def __call__(self, *inputs: TensorLike) -> TensorVariable: ...

    def __init__(self, dtype="int64"):
        self.dtype = np.dtype(dtype).name

    def make_node(self, *inputs):
        inputs = [as_tensor_variable(x) for x in inputs]
        for x in inputs:
            if x.ndim != 0:
                raise TypeError("MakeVector: every input must be a scalar, but %s has type %s" % (x, x.type))
        if any(x.dtype != self.dtype for x in inputs):
            dtype = scal.upcast(self.dtype, *[x.dtype for x in inputs])
            if dtype != self.dtype:
                raise TypeError(
                    "MakeVector: the inputs have dtypes %s, which do not fit "
                    "into %s" % ([x.dtype for x in inputs], self.dtype)
                )
            inputs = [cast(x, dtype) for x in inputs]
        return Apply(self, inputs, [TensorType(self.dtype, (False,))()])

    def __str__(self):
        return "MakeVector{dtype=%r}" % self.dtype

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.creation:make_vector", type_number=_TYPE_NUMBER[self.dtype])

    def perform(self, node, inputs, out_):
        (cell,) = out_
        if cell[0] is None or cell[0].shape != (len(inputs),):
            cell[0] = np.empty(len(inputs), dtype=self.dtype)
        for i, x in enumerate(inputs):
            cell[0][i] = x

    def infer_shape(self, node, ishapes):
        return [(len(ishapes),)]

    def grad(self, inputs, output_gradients):
        if self.dtype in DISCRETE:
            return [x.zeros_like(dtype=config.floatX) for x in inputs]
        (gz,) = output_gradients
        return [gz[i] for i in range(len(inputs))]

    def R_op(self, inputs, eval_points):
        if all(point is None for point in eval_points):
            return [None]
        points = [x.zeros_like() if point is None else point for x, point in zip(inputs, eval_points)]
        return self(*points, return_list=True)


class MakeVectorPrinter:
    """The printer of MakeVector, which prints a list: ``[a, b, c]``."""

    def parts(self, r, pstate):
        """Return the text of `r`, the output of a MakeVector, as a list of strings and pairs (variable, precedence)."""
        if r.owner is None or not isinstance(r.owner.op, MakeVector):
            raise TypeError("MakeVectorPrinter prints results of MakeVector only, not %s" % (r,))
        parts = ["["]
        for k, i in enumerate(r.owner.inputs):
            if k:
                parts.append(", ")
            parts.append((i, -1000))
        parts.append("]")
        return parts

    def process(self, r, pstate):
        """Return the text of the variable `r`, the output of a MakeVector."""
        return pstate.pprinter._expand(self.parts(r, pstate), pstate)


pprint.assign(lambda pstate, r: r.owner is not None and isinstance(r.owner.op, MakeVector), MakeVectorPrinter())


make_vector = MakeVector()
