"""Reductions of tensors by a commutative, associative scalar op: `CAReduce`, `Sum`, `Prod`, `All`, `Any` and others."""

import functools
from copy import copy

import numpy as np

from theano_ng import scalar
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import grad_not_implemented
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.null_type import NullType
from theano_ng.gof.op import Op
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.fold import fold_kernel
from theano_ng.loops.program import Fold, fold_program
from theano_ng.scalar import BinaryScalarOp, get_scalar_type, upcast, upcast_out
from theano_ng.scalar.divisors import divides
from theano_ng.scalar.ops_arith import wrapping
from theano_ng.scalar.ops_compare import BinaryBitOp
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.dtypes import CONTINUOUS, DISCRETE
from theano_ng.tensor.elemwise.functions import cast, conj_if_complex, eq, mul, neq, switch, true_div
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.elemwise.perform import evaluate_scalar_op
from theano_ng.tensor.type import TensorType

_NATIVE = "theano_ng.tensor.native.reduce"
_NATIVE_MAX_NDIM = 32

# These are the operation codes of native/reductions/reduce.c.
_OPERATIONS = {"Add": 1, "Mul": 2, "Maximum": 3, "MaximumFromNothing": 3, "Minimum": 4, "AND": 5, "OR": 6, "XOR": 7}

_WIDE_INTEGER = {
    "bool": "int64", "int8": "int64", "int16": "int64", "int32": "int64",
    "uint8": "uint64", "uint16": "uint64", "uint32": "uint64",
}  # fmt: skip
_WIDE_ACCUMULATOR = {**_WIDE_INTEGER, "float16": "float64", "float32": "float64", "complex64": "complex128"}


class CAReduce(NativeOp, Op):
    """An Op that reduces tensors over some axes by a binary scalar op.

    Parameters
    ----------
    scalar_op : ScalarOp
        A binary, commutative and associative op with one output. The order in which elements are combined is not
        specified.
    axis : int, sequence of int or None
        The dimensions to reduce. Negative numbers count from the end. None means all dimensions, an empty sequence
        means no dimension.

    Raises
    ------
    NotImplementedError
        If `scalar_op` is not a binary op with one output.

    Notes
    -----
    The output has the shape of the input without the reduced dimensions. If no elements are reduced, the result is the
    attribute ``identity`` of the scalar op. If the op has no identity, the reduction raises `ValueError`.

    ``CAReduce(add)`` computes the sum, ``CAReduce(mul)`` the product, ``CAReduce(maximum)`` and ``CAReduce(minimum)``
    the extremes. ``CAReduce(or_)`` computes `any`, ``CAReduce(and_)`` computes `all`, and ``CAReduce(xor)`` computes
    the parity of each bit.
    """

    __props__: tuple[str, ...] = ("scalar_op", "axis")
    _f16_ok = True

    def fails_on_values(self, node):
        return not is_from_package(type(self.scalar_op)) or divides(self.scalar_op)

    def __init__(self, scalar_op, axis=None):
        if scalar_op.nin not in (-1, 2) or scalar_op.nout != 1:
            raise NotImplementedError("CAReduce only supports binary functions with a single output.")
        self.axis = _normalize_axis_argument(axis)
        self.scalar_op = scalar_op
        self.set_ufunc(scalar_op)

    def set_ufunc(self, scalar_op):
        """Set the attribute `ufunc`: the NumPy ufunc whose method ``reduce`` is called by `perform`.

        The attribute is None if the scalar op has no ufunc.
        """
        spec = getattr(scalar_op, "nfunc_spec", None)
        ufunc = getattr(np, spec[0], None) if spec and spec[0] and spec[1:] == (2, 1) else None
        self.ufunc = ufunc if isinstance(ufunc, np.ufunc) else None

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("ufunc", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.set_ufunc(self.scalar_op)

    def __str__(self):
        if self.axis is not None:
            return "Reduce{%s}{%s}" % (self.scalar_op, ", ".join([str(a) for a in self.axis]))
        return "Reduce{%s}" % (self.scalar_op,)

    def _output_dtype(self, idtype):
        return idtype

    def _acc_dtype(self, idtype):
        """Return the dtype in which elements are combined (accumulated)."""
        return self._output_dtype(idtype)

    def _axes(self, ndim):
        return tuple(range(ndim)) if self.axis is None else self.axis

    def make_node(self, input):
        """Apply the Op to a tensor. Negative axes become non-negative.

        Raises
        ------
        ValueError
            If an axis is out of range.
        TypeError
            If the operation works on bits, but the input does not contain integers or bools.
        """
        input = as_tensor_variable(input)
        ndim = input.type.ndim
        op = self
        if isinstance(self.scalar_op, BinaryBitOp) and input.type.dtype not in DISCRETE:
            raise TypeError(
                "%s combines the bits of integers or bools, but the input is %s of %s. Cast it, or compare it with 0 first."
                % (self, input, input.type)
            )
        if self.axis is not None:
            for a in self.axis:
                if not -ndim <= a < ndim:
                    raise ValueError("Not enough dimensions on %s to reduce on axis %s" % (input, a))
            axis = tuple(sorted({a % ndim for a in self.axis}))
            if axis != self.axis:
                op = copy(self)
                op.axis = axis
        axes = set(op._axes(ndim))
        pattern = [b for d, b in enumerate(input.type.broadcastable) if d not in axes]
        output = TensorType(dtype=self._output_dtype(input.type.dtype), broadcastable=pattern)()
        return Apply(op, [input], [output])

    def infer_shape(self, node, shapes):
        (shape,) = shapes
        axes = self._axes(node.inputs[0].type.ndim)
        return [tuple([length for d, length in enumerate(shape) if d not in axes])]

    # -- derivatives ----------------------------------------------------------------------------------------------

    def _expand(self, x, reduced):
        """Insert the reduced dimensions into `reduced`, as broadcastable dimensions.

        `reduced` has the rank of the output.
        """
        axes = self._axes(x.type.ndim)
        kept = iter(range(reduced.type.ndim))
        order = ["x" if d in axes else next(kept) for d in range(x.type.ndim)]
        return DimShuffle(reduced.type.broadcastable, order)(reduced)

    def L_op(self, inp, out, grads):
        """Return the gradient of a sum or an extreme. Raise MethodNotDefined for other reductions with a float result.

        Each element that equals the extreme gets the whole gradient of the output. If the result is an integer or bool,
        the gradient is zero.
        """
        (x,), (gz,) = inp, grads
        if out[0].type.dtype not in CONTINUOUS:
            return [x.zeros_like(dtype=config.floatX)]
        kind = type(self.scalar_op).__name__
        gz = self._expand(x, as_tensor_variable(gz))
        if kind == "Add":
            return [_second(x, gz)]
        if kind in ("Maximum", "MaximumFromNothing", "Minimum"):
            return [mul(eq(x, self._expand(x, out[0])), gz)]
        raise MethodNotDefined("grad", type(self), self.__class__.__name__)

    def grad(self, inp, grads):
        return self.L_op(inp, [self(*inp)], grads)

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        x, point = inputs[0], eval_points[0]
        output = self(x)
        if output.type.dtype not in CONTINUOUS:
            return [None]
        slope = self.L_op([x], [output], [output.ones_like()])[0]
        if isinstance(slope.type, NullType):
            raise NotImplementedError("R_op: " + slope.type.why_null)
        return [Sum(axis=self.axis)(mul(conj_if_complex(slope), point))]

    # -- Python ---------------------------------------------------------------------------------------------------

    def perform(self, node, inp, out):
        (x,), (storage,) = inp, out
        x = np.asarray(x)
        axes = self._axes(x.ndim)
        dtype = node.outputs[0].type.dtype
        acc_dtype = self._acc_dtype(node.inputs[0].type.dtype)
        identity = getattr(self.scalar_op, "identity", None)
        if (
            identity is None
            and any(x.shape[d] == 0 for d in axes)
            and all(n for d, n in enumerate(x.shape) if d not in axes)
        ):
            raise ValueError(
                "Reduction: the input has length 0 in dimension %d, and the reduced operation %s has no identity, so "
                "that it has no result for zero elements" % (next(d for d in axes if x.shape[d] == 0), self.scalar_op)
            )
        kept = [n for d, n in enumerate(x.shape) if d not in axes]
        with np.errstate(all="ignore"):
            if not axes:
                result = x.astype(acc_dtype)
            elif 0 in kept and identity is None:  # The result has no elements. Ufuncs reject some inputs of this kind.
                result = np.empty(kept, acc_dtype)
            elif self.ufunc is not None and type(self.scalar_op).__name__ in _OPERATIONS:
                # np.maximum and np.minimum have no identity, so pass the identity of the scalar op as the initial
                # value.
                initial = {} if identity is None or self.ufunc.identity is not None else {"initial": identity}
                values = x.astype(acc_dtype) if self.ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor) else x
                result = self.ufunc.reduce(values, axis=axes, dtype=acc_dtype, **initial)
            else:
                result = self._fold(x, axes, acc_dtype, identity)
            result = np.asarray(result)
            if result.dtype.kind == "c" and dtype[0] != "c":
                result = result.real
            storage[0] = result.astype(dtype)

    def _fold(self, x, axes, acc_dtype, identity):
        """Reduce with the Python code of the scalar op, combining one slice after the other."""
        kept = [d for d in range(x.ndim) if d not in axes]
        shape = tuple([x.shape[d] for d in kept])
        count = int(np.prod([x.shape[d] for d in axes], dtype="int64"))
        slices = list(x.transpose(list(axes) + kept).reshape((count,) + shape).astype(acc_dtype))
        if identity is not None:
            slices.insert(0, np.full(shape, identity, dtype=acc_dtype))
        elif not slices:
            return np.empty(shape, dtype=acc_dtype)
        combine = lambda a, b: evaluate_scalar_op(self.scalar_op, [a, b], [acc_dtype], shape)[0]
        return functools.reduce(combine, slices)

    # -- C --------------------------------------------------------------------------------------------------------

    def native_code(self, node):
        x, z = node.inputs[0].type, node.outputs[0].type
        acc = self._acc_dtype(x.dtype)
        if x.ndim > _NATIVE_MAX_NDIM:
            return None
        openmp_minsize = config.openmp_elemwise_minsize if config.openmp else 0
        params = self._builtin_params(x.dtype, z.dtype, x.ndim)
        if params is not None:
            return NativeCode(_NATIVE + ":reduce", **params, kernel=0, openmp_minsize=openmp_minsize)
        try:
            kernel = self._kernel(x.dtype, acc)
        except (MethodNotDefined, NotImplementedError):
            return None
        if kernel is None:
            return None
        params = self._packed_params(0, x.dtype, acc, z.dtype, x.ndim)
        return NativeCode(_NATIVE + ":reduce", **params, kernel=kernel, openmp_minsize=openmp_minsize)

    def _builtin_params(self, x_dtype, z_dtype, ndim):
        """Return the packed parameters of the reduction, or None if native/reductions/reduce.c has no loop for it."""
        from theano_ng.tensor.native.reduce import has_fold

        operation = _OPERATIONS.get(type(self.scalar_op).__name__, 0)
        acc = self._acc_dtype(x_dtype)
        if acc == "float16":
            acc = "float32"
        if not operation or not has_fold(operation, np.dtype(x_dtype).num, np.dtype(acc).num):
            return None
        return self._packed_params(operation, x_dtype, acc, z_dtype, ndim)

    def reads_blocks(self, node):
        """Return True if a node's C code can read the input block by block. `ReducedElemwise` requires such C code."""
        x, z = node.inputs[0].type, node.outputs[0].type
        return x.ndim <= _NATIVE_MAX_NDIM and self._builtin_params(x.dtype, z.dtype, x.ndim) is not None

    def _packed_params(self, operation, x_dtype, acc_dtype, z_dtype, ndim):
        identity = getattr(self.scalar_op, "identity", None)
        element, accumulator, result = [np.dtype(dtype).num for dtype in (x_dtype, acc_dtype, z_dtype)]
        return dict(
            operation=operation,
            ndim=ndim,
            axes=sum(1 << d for d in self._axes(ndim)),
            element_type=element,
            accumulator_type=accumulator,
            result_type=result,
            has_identity=identity is not None,
            identity=b"" if identity is None else np.asarray(identity).astype(acc_dtype).tobytes(),
        )

    def _kernel(self, x_dtype, acc_dtype):
        """Return a kernel with the reduction loop of this scalar op for native/reductions/reduce.c.

        Return None if the C code of the scalar op uses Python's C API.
        """
        convert = None if x_dtype == acc_dtype else scalar.Cast(get_scalar_type(acc_dtype))
        return fold_kernel(fold_program(Fold(self.scalar_op, acc_dtype), x_dtype, convert, acc_dtype))


def _normalize_axis_argument(axis):
    """Convert the parameter `axis` to None or a sorted tuple of int."""
    if axis is None:
        return None
    if isinstance(axis, (int, np.integer)) or (isinstance(axis, np.ndarray) and axis.ndim == 0):
        return (int(axis),)
    return tuple(sorted({int(a) for a in axis}))


def _second(x, z):
    """Return `z`, broadcast to the shape of `x`."""
    return Elemwise(scalar.second)(x, z)


class _Logical(CAReduce):
    """The base class of `All` and `Any`. The input is compared with 0, and the result is bool."""

    __props__ = ("axis",)
    nfunc_spec: tuple[str, int, int] | None = None
    _scalar_op = None

    def __init__(self, axis=None):
        CAReduce.__init__(self, self._scalar_op, axis)

    def _output_dtype(self, idtype):
        return "bool"

    def __str__(self):
        name = type(self).__name__
        return name if self.axis is None else "%s{%s}" % (name, ", ".join([str(a) for a in self.axis]))

    def make_node(self, input):
        input = as_tensor_variable(input)
        if input.type.dtype != "bool":
            input = neq(input, 0)
        return super().make_node(input)

    def grad(self, inp, grads):
        (x,) = inp
        return [x.zeros_like(dtype=config.floatX)]

    def L_op(self, inp, out, grads):
        return self.grad(inp, grads)


class All(_Logical):
    """An Op that returns True where all elements along some axes are nonzero (logical AND).

    Parameters
    ----------
    axis : int, sequence of int or None
    """

    _scalar_op = scalar.and_
    nfunc_spec = ("all", 1, 1)


class Any(_Logical):
    """An Op that returns True where any element along some axes is nonzero (logical OR).

    Parameters
    ----------
    axis : int, sequence of int or None
    """

    _scalar_op = scalar.or_
    nfunc_spec = ("any", 1, 1)


class CAReduceDtype(CAReduce):
    """A reduction with separate dtypes for the accumulator and the result.

    Parameters
    ----------
    scalar_op : ScalarOp
        See `CAReduce`.
    axis : int, sequence of int or None
    dtype : str, optional
        The dtype of the result. The default is int64 for bool and signed integers, uint64 for unsigned integers, and
        otherwise the dtype of the input. The default does not depend on `acc_dtype`.
    acc_dtype : str, optional
        The dtype of the accumulator. The default is int64, uint64, float64 or complex128, according to the kind of the
        input. But if `dtype` is a float and an integer accumulator could wrap around, the default is float64.
    """

    __props__: tuple[str, ...] = ("scalar_op", "axis", "dtype", "acc_dtype")
    # These are the input dtypes for which an accumulator of 64-bit integers could wrap around. If the result is a
    # float, the default accumulator for these dtypes is float64.
    _wraps: frozenset[str] | tuple[str, ...] = ("int64", "uint64")

    def __init__(self, scalar_op, axis=None, dtype=None, acc_dtype=None):
        CAReduce.__init__(self, scalar_op, axis=axis)
        self.dtype = None if dtype is None else dtype_name(dtype)
        self.acc_dtype = None if acc_dtype is None else dtype_name(acc_dtype)

    def _output_dtype(self, idtype):
        return _WIDE_INTEGER.get(idtype, idtype) if self.dtype is None else self.dtype

    def _acc_dtype(self, idtype):
        acc_dtype = self.acc_dtype
        if acc_dtype is None:
            if self.dtype in CONTINUOUS and idtype in self._wraps:
                return "float64"
            return _WIDE_ACCUMULATOR.get(idtype, idtype)
        if acc_dtype in CONTINUOUS and idtype in DISCRETE:
            # Integers may be accumulated in floats, even in float32. Means use such accumulators.
            return acc_dtype
        precise = upcast(idtype, acc_dtype)
        if precise != acc_dtype:
            raise TypeError(
                "Cannot build %s node with input dtype %s and acc_dtype %s, as precision would be lost. To correct this error, you "
                "can:\n  - not specify acc_dtype, or\n  - use an acc_dtype at least as precise as %s.\nIf you are expecting the "
                'precision loss, you can use tensor.cast(..., dtype="%s"), on your input.'
                % (self, idtype, acc_dtype, precise, acc_dtype)
            )
        return acc_dtype

    def make_node(self, input):
        input = as_tensor_variable(input)
        idtype = input.type.dtype
        dtype, acc_dtype = self._output_dtype(idtype), self._acc_dtype(idtype)
        if idtype[0] == "c" and dtype[0] != "c":
            raise TypeError(
                "Cannot build %s node with input dtype %s and dtype %s: a complex number cannot be converted to that "
                "dtype. Reduce real or abs of the input, or omit dtype." % (self, idtype, dtype)
            )
        op = self
        if (dtype, acc_dtype) != (self.dtype, self.acc_dtype):
            op = copy(self)
            op.dtype, op.acc_dtype = dtype, acc_dtype
        return CAReduce.make_node(op, input)

    def __str__(self):
        name = type(self).__name__
        if type(self) is CAReduceDtype:
            name = "Reduce{%s}" % (self.scalar_op,)
        axis = "" if self.axis is None else "axis=[%s], " % ", ".join([str(a) for a in self.axis])
        return "%s{%sacc_dtype=%s}" % (name, axis, self.acc_dtype)


def dtype_name(dtype):
    """Return the name of a dtype that a user has given. 'floatX' means `config.floatX`."""
    return config.floatX if isinstance(dtype, str) and dtype == "floatX" else np.dtype(dtype).name


class Sum(CAReduceDtype):
    """An Op that computes the sum over some axes.

    Parameters
    ----------
    axis : int, sequence of int or None
    dtype, acc_dtype : str, optional
        See `CAReduceDtype`.
    """

    __props__ = ("axis", "dtype", "acc_dtype")
    nfunc_spec = ("sum", 1, 1)

    def __init__(self, axis=None, dtype=None, acc_dtype=None):
        CAReduceDtype.__init__(self, scalar.add, axis=axis, dtype=dtype, acc_dtype=acc_dtype)

    def L_op(self, inp, out, grads):
        (x,), (gz,) = inp, grads
        if out[0].type.dtype not in ("float16", "float32", "float64", "complex64", "complex128"):
            return [x.zeros_like(dtype=config.floatX)]
        return [_second(x, self._expand(x, as_tensor_variable(gz)))]

    def R_op(self, inputs, eval_points):
        # The sum is a linear function of its only input. So its directional derivative is the sum of the direction.
        if None in eval_points:
            return [None]
        return self(*eval_points, **dict(return_list=True))


def _with_dtypes(op):
    """Return the printed form of a product Op, which contains both dtypes."""
    return "%s{axis=%s, dtype=%r, acc_dtype=%r}" % (type(op).__name__, op.axis, op.dtype, op.acc_dtype)


class Prod(CAReduceDtype):
    """An Op that computes the product over some axes.

    Parameters
    ----------
    axis : int, sequence of int or None
    dtype, acc_dtype : str, optional
        See `CAReduceDtype`.
    no_zeros_in_input : bool
        If True, the caller guarantees that no element is zero. Then the gradient is simpler and can be differentiated
        again, but it is wrong if an element is zero.
    """

    __props__ = ("axis", "dtype", "acc_dtype")
    nfunc_spec = ("prod", 1, 1)
    _wraps = DISCRETE

    def __init__(self, axis=None, dtype=None, acc_dtype=None, no_zeros_in_input=False):
        CAReduceDtype.__init__(self, scalar.mul, axis=axis, dtype=dtype, acc_dtype=acc_dtype)
        self.no_zeros_in_input = bool(no_zeros_in_input)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("no_zeros_in_input", False)

    def __str__(self):
        return _with_dtypes(self)

    # `no_zeros_in_input` is not among the documented props. But two Ops that differ in this parameter must not be
    # equal, because their gradients differ.

    def __eq__(self, other):
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self):
        return hash((type(self).__qualname__, self._key()))

    def _key(self):
        return self.axis, self.dtype, self.acc_dtype, self.no_zeros_in_input

    def L_op(self, inp, out, grads):
        """Return the gradient: for each element, the product of its group divided by the element.

        A group consists of the elements that are reduced together. If a group contains one zero, the gradient of the
        zero is the product of the other elements (`ProdWithoutZeros`), and the gradients of the other elements are
        zero. If a group contains several zeros, all gradients are zero. The graph counts the zeros of each group.
        """
        (x,), (gz,) = inp, grads
        if out[0].type.dtype not in CONTINUOUS:
            return [x.zeros_like(dtype=config.floatX)]
        gz = as_tensor_variable(gz)
        x, prod_out = conj_if_complex(x), conj_if_complex(out[0])
        groups = dict(axis=self._axes(x.type.ndim))
        quotient = true_div(self._expand(x, mul(gz, prod_out)), x)
        if self.no_zeros_in_input:
            return [quotient]
        where_zeros = eq(x, 0.0)
        zeros = self._expand(x, Sum(**groups)(where_zeros))
        others = self._expand(x, mul(gz, cast(ProdWithoutZeros(**groups)(x), prod_out.type.dtype)))
        nothing = constant(np.zeros((), dtype=quotient.type.dtype))
        # If a zero is the only element of its group, its gradient is gz: the product of the other elements is an empty
        # product, which is 1. ProdWithoutZeros would return 0.
        length = 1
        for axis in groups["axis"]:
            length = length * x.shape[axis]
        others = switch(eq(length, 1), self._expand(x, gz), others)
        one_zero = switch(where_zeros, others, nothing)
        return [switch(eq(zeros, 0), quotient, switch(eq(zeros, 1), one_zero, nothing))]

    def c_code_cache_version(self):
        return (1,)


class MulWithoutZeros(BinaryScalarOp):
    """A scalar op that returns the product of two numbers. If one number is zero, it returns the other number.

    The reduction with this op returns the product of the nonzero elements.
    """

    # A reduction starts with the identity. The identity is 0, not 1, so that the reduction of zeros returns 0.
    identity = 0.0
    commutative = True
    associative = True

    def impl(self, x, y):
        if x == 0:
            return y
        if y == 0:
            return x
        return x * y

    def c_expression(self, args, dtypes, out):
        x, y = args
        return "((%s) == 0 ? (%s) : (%s) == 0 ? (%s) : %s)" % (x, y, y, x, wrapping(" * ", args, dtypes, out))

    def c_code(self, node, name, inp, out, sub):
        return BinaryScalarOp.c_code(self, node, name, inp, out, sub)

    def c_code_cache_version(self):
        return (2,)


mul_without_zeros = MulWithoutZeros(upcast_out, name="mul_without_zeros")


class ProdWithoutZeros(CAReduceDtype):
    """An Op that computes the product of the elements that are not zero. If all elements are zero, the result is 0.

    Parameters
    ----------
    axis : int, sequence of int or None
    dtype, acc_dtype : str, optional
        See `CAReduceDtype`.
    """

    __props__ = ("axis", "dtype", "acc_dtype")

    def __init__(self, axis=None, dtype=None, acc_dtype=None):
        CAReduceDtype.__init__(self, mul_without_zeros, axis=axis, dtype=dtype, acc_dtype=acc_dtype)

    def __str__(self):
        return _with_dtypes(self)

    def L_op(self, inp, out, grads):
        return self.grad(inp, grads)

    def grad(self, inp, grads):
        (a,) = inp
        return [
            grad_not_implemented(
                self, 0, a,
                "2nd derivatives of `product(a)` is not currently supported. If `a` is guaranteed to contains no zero, use "
                "`product(a, no_zeros_in_input=True)`.",
            )
        ]  # fmt: skip
