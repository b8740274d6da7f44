"""Operators and methods of tensor variables.

The methods call the functions of `tensor.basic`. They are attached to the mixin class `_tensor_py_operators`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from theano_ng.scalar import ComplexError
from theano_ng.tensor import basic
from theano_ng.tensor.indexing.subtensor import index_variable
from theano_ng.tensor.var import AsTensorError, _tensor_py_operators

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import Axis, DTypeLike, ShapeLike, TensorLike
    from theano_ng.tensor.type import TensorType
    from theano_ng.tensor.var import TensorVariable


def _binary(op_name: str, reflected: bool = False, doc: str = "") -> Callable[[Any, TensorLike], TensorVariable]:
    """Return a binary operator method that calls `basic.<op_name>`.

    The method returns NotImplemented if the other operand cannot be converted to a tensor. Python then calls the
    operator method of the other operand, and raises TypeError if the other operand has no such method.
    """

    def method(self: Any, other: TensorLike) -> Any:
        try:
            if reflected:
                return getattr(basic, op_name)(other, self)
            return getattr(basic, op_name)(self, other)
        except ComplexError:
            # Do not return NotImplemented: this error has a more precise message than Python's "unsupported operand".
            raise
        except (NotImplementedError, AsTensorError):
            return NotImplemented

    method.__doc__ = doc
    return method


def _unary(op_name: str, doc: str | None = None) -> Callable[[Any], TensorVariable]:
    def method(self: Any) -> TensorVariable:
        return getattr(basic, op_name)(self)

    method.__name__ = op_name
    method.__doc__ = doc or "Elementwise; see `tensor.%s`." % op_name
    return method


class _Methods:
    """A container of methods. The loop at the end of the module copies them to `_tensor_py_operators`."""

    if TYPE_CHECKING:
        type: TensorType

        @property
        def ndim(self) -> int: ...
        @property
        def dtype(self) -> str: ...

    # -- operators -----------------------------------------------------------
    __add__ = _binary("add", doc="self + other")
    __radd__ = _binary("add", True, doc="other + self")
    __sub__ = _binary("sub", doc="self - other")
    __rsub__ = _binary("sub", True, doc="other - self")
    __mul__ = _binary("mul", doc="self * other")
    __rmul__ = _binary("mul", True, doc="other * self")
    __pow__ = _binary("pow", doc="self ** other")
    __rpow__ = _binary("pow", True, doc="other ** self")
    __mod__ = _binary("mod_check", doc="self % other; no complex numbers")
    __rmod__ = _binary("mod", True, doc="other % self")
    __div__ = _binary("div_proxy", doc="Division of Python 2: integers floor")
    __rdiv__ = _binary("div_proxy", True, doc="Reflected `__div__`")
    __truediv__ = _binary("true_div", doc="self / other")
    __rtruediv__ = _binary("true_div", True, doc="other / self")
    __floordiv__ = _binary("floor_div", doc="self // other")
    __rfloordiv__ = _binary("floor_div", True, doc="other // self")
    __divmod__ = _binary("divmod", doc="(self // other, self % other)")
    __rdivmod__ = _binary("divmod", True, doc="(other // self, other % self)")
    __and__ = _binary("and_", doc="Bitwise self & other")
    __rand__ = _binary("and_", True, doc="Bitwise other & self")
    __or__ = _binary("or_", doc="Bitwise self | other")
    __ror__ = _binary("or_", True, doc="Bitwise other | self")
    __xor__ = _binary("xor", doc="Bitwise self ^ other")
    __rxor__ = _binary("xor", True, doc="Bitwise other ^ self")
    __abs__ = _unary("abs_")
    __neg__ = _unary("neg")
    __invert__ = _unary("invert")
    __ceil__ = _unary("ceil")
    __floor__ = _unary("floor")
    __trunc__ = _unary("trunc")

    def __pos__(self) -> Self:
        return self

    # __eq__ and __ne__ are not overridden, because variables are compared and hashed by identity. The functions `eq`
    # and `neq` compare elements.

    def _compared(name: Any, symbol: str) -> Callable[[Any, TensorLike], TensorVariable]:
        def method(self: Any, other: TensorLike) -> TensorVariable:
            result = getattr(basic, name)(self, other)
            # Python evaluates `a < b < c` as `(a < b) and (b < c)`, which calls __bool__ of `a < b`. Mark the result of
            # a comparison, so that __bool__ raises an error that explains the mistake.
            result._is_nonzero = False
            return result

        method.__doc__ = "Elementwise self %s other." % symbol
        return method

    __lt__ = _compared("lt", "<")
    __le__ = _compared("le", "<=")
    __gt__ = _compared("gt", ">")
    __ge__ = _compared("ge", ">=")
    del _compared

    def __dot__(left: Any, right: TensorLike) -> TensorVariable:
        """See `tensor.dot`."""
        return basic.dot(left, right)

    def __rdot__(right: Any, left: TensorLike) -> TensorVariable:
        """See `tensor.dot`."""
        return basic.dot(left, right)

    dot = __dot__

    def __matmul__(left: Any, right: TensorLike) -> TensorVariable:
        """Return ``left @ right``. See `tensor.matmul`."""
        return basic.matmul(left, right)

    def __rmatmul__(right: Any, left: TensorLike) -> TensorVariable:
        """Return ``left @ right``. See `tensor.matmul`."""
        return basic.matmul(left, right)

    # -- shape and size -----------------------------------------------------
    @property
    def shape(self) -> TensorVariable:
        """A symbolic vector (int64) of the lengths of the dimensions."""
        return basic.shape(self)

    @property
    def size(self) -> TensorVariable:
        """The symbolic number of elements."""
        if self.ndim == 1:
            return self.shape[0]
        return basic.prod(self.shape)

    # -- indexing ------------------------------------------------------------
    def __getitem__(self, args: Any) -> TensorVariable:
        """Return the part of self that `args` selects, by NumPy's rules for basic, integer and boolean indexing.

        Returns
        -------
        TensorVariable
        """
        return index_variable(self, args)

    def __setitem__(self, args: Any, value: Any) -> NoReturn:
        raise TypeError(
            "'%s' object does not support item assignment. Symbolic variables "
            "cannot be changed: use theano.tensor.set_subtensor(x[index], "
            "value) or theano.tensor.inc_subtensor, which return a new "
            "variable." % type(self).__name__
        )

    def take(self, indices: TensorLike, axis: int | None = None, mode: str = "raise") -> TensorVariable:
        """See `numpy.ndarray.take`."""
        return basic.take(self, indices, axis, mode)

    def __iter__(self) -> Iterator[TensorVariable]:
        # Iteration needs the length while the graph is built. At this time, the lengths of shape vectors, stacks and
        # constants are known, for example.
        try:
            length = basic.get_vector_length(self)
        except (TypeError, ValueError) as err:
            raise TypeError(
                "TensorType does not support iteration. Did you pass a "
                "variable where a Python sequence is needed? Maybe you used "
                "the builtin sum, max, min, any or all instead of the ones of "
                "theano.tensor, or `a in b`? (%s)" % err
            ) from None
        return iter([self[i] for i in range(length)])

    def __contains__(self, item: object) -> bool:
        raise TypeError(
            "`in` has no meaning for a symbolic variable; use theano.tensor.any(theano.tensor.eq(x, item))."
        )

    # -- shape ---------------------------------------------------------------
    @property
    def T(self) -> TensorVariable:
        """The transpose: a view with the axes in reverse order."""
        return basic.transpose(self)

    def transpose(self, *axes: Any) -> TensorVariable:
        """Permute the axes.

        Parameters
        ----------
        *axes : int, or one sequence of int
            The new order of the axes. The default reverses them.
        """
        if not axes:
            return basic.transpose(self)
        if len(axes) == 1 and (axes[0] is None or hasattr(axes[0], "__iter__")):
            axes = axes[0]
        return basic.transpose(self, axes)

    def reshape(self, shape: ShapeLike, ndim: int | None = None) -> TensorVariable:
        """Return a view or copy with another shape.

        Parameters
        ----------
        shape : sequence of int or scalar variables, or integer vector
            The new shape. Unlike NumPy's method, this method does not accept the lengths as several arguments.
        ndim : int, optional
            The length of `shape`. It is required if it is not known while the graph is built.
        """
        if ndim is not None and not isinstance(ndim, (int, np.integer)):
            raise ValueError(
                "Expected ndim to be an integer, but got %s. The shape must be "
                "one argument: x.reshape((2, 3)), not x.reshape(2, 3)." % (ndim,)
            )
        return basic.reshape(self, shape, ndim=ndim)

    def dimshuffle(self, *pattern: Any) -> TensorVariable:
        """Permute, add or drop dimensions.

        Parameters
        ----------
        *pattern : int or 'x', or one sequence of these
            For each dimension of the result, the index of a dimension of self,
            or 'x' for a new broadcastable dimension.  A broadcastable dimension
            of self can be omitted.

        Returns
        -------
        TensorVariable
            A view of self.

        Raises
        ------
        ValueError
            If a dimension that is not broadcastable is dropped.
        """
        if len(pattern) == 1 and isinstance(pattern[0], (list, tuple)):
            pattern = tuple(pattern[0])
        op = basic.DimShuffle(list(self.type.broadcastable), list(pattern))
        return op(self)

    def flatten(self, ndim: int = 1) -> TensorVariable:
        """Return a tensor with `ndim` dimensions, in which the last dimensions are merged into one dimension."""
        return basic.flatten(self, ndim)

    def ravel(self) -> TensorVariable:
        """Return ``self.flatten()``."""
        return basic.flatten(self)

    def squeeze(self) -> TensorVariable:
        """Drop the broadcastable dimensions. See `tensor.squeeze`."""
        return basic.squeeze(self)

    def swapaxes(self, axis1: int, axis2: int) -> TensorVariable:
        """Exchange two axes. See `tensor.swapaxes`."""
        return basic.swapaxes(self, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorVariable:
        """See `tensor.diagonal`."""
        return basic.diagonal(self, offset, axis1, axis2)

    def trace(self) -> TensorVariable:
        """Return the sum of the main diagonal. See `tensor.nlinalg.trace`."""
        diagonal = basic.diagonal(self)
        return diagonal.sum(axis=None if diagonal.ndim == 1 else -1)

    def repeat(self, repeats: TensorLike, axis: int | None = None) -> TensorVariable:
        """See `tensor.repeat`."""
        return basic.repeat(self, repeats, axis)

    # -- reductions ----------------------------------------------------------
    def any(self, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """See `tensor.any`."""
        return basic.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """See `tensor.all`."""
        return basic.all(self, axis=axis, keepdims=keepdims)

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        acc_dtype: DTypeLike | None = None,
    ) -> TensorVariable:
        """See `tensor.sum`."""
        return basic.sum(self, axis=axis, dtype=dtype, keepdims=keepdims, acc_dtype=acc_dtype)

    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        acc_dtype: DTypeLike | None = None,
    ) -> TensorVariable:
        """See `tensor.prod`."""
        return basic.prod(self, axis=axis, dtype=dtype, keepdims=keepdims, acc_dtype=acc_dtype)

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        acc_dtype: DTypeLike | None = None,
    ) -> TensorVariable:
        """See `tensor.mean`."""
        return basic.mean(self, axis=axis, dtype=dtype, keepdims=keepdims, acc_dtype=acc_dtype)

    def var(self, axis: Axis = None, ddof: int = 0, keepdims: bool = False, corrected: bool = False) -> TensorVariable:
        """See `tensor.var`."""
        return basic.var(self, axis=axis, ddof=ddof, keepdims=keepdims, corrected=corrected)

    def std(self, axis: Axis = None, ddof: int = 0, keepdims: bool = False, corrected: bool = False) -> TensorVariable:
        """See `tensor.std`."""
        return basic.std(self, axis=axis, ddof=ddof, keepdims=keepdims, corrected=corrected)

    def min(self, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """See `tensor.min`."""
        return basic.min(self, axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """See `tensor.max`."""
        return basic.max(self, axis, keepdims=keepdims)

    def argmin(self, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """See `tensor.argmin`."""
        return basic.argmin(self, axis, keepdims=keepdims)

    def argmax(self, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """See `tensor.argmax`."""
        return basic.argmax(self, axis, keepdims=keepdims)

    def ptp(self, axis: Axis = None) -> TensorVariable:
        """Return the maximum minus the minimum. See `tensor.ptp`."""
        return basic.ptp(self, axis)

    def norm(self, L: Any, axis: Axis = None, keepdims: bool = False) -> TensorVariable:
        """Return the L-norm along an axis.

        Parameters
        ----------
        L : number
            The order of the norm. 0 counts the nonzero elements, inf returns the largest absolute value.
        axis : int, sequence of int or None
        keepdims : bool
        """
        if L == 0:
            return basic.neq(self, 0).sum(axis=axis, keepdims=keepdims)
        magnitude = basic.abs_(self)
        if isinstance(L, (int, float)) and np.isinf(L):
            reduce_ = basic.max if L > 0 else basic.min
            return reduce_(magnitude, axis=axis, keepdims=keepdims)
        return basic.pow(basic.pow(magnitude, L).sum(axis=axis, keepdims=keepdims), 1.0 / L)

    def cumsum(self, axis: int | None = None) -> TensorVariable:
        """See `tensor.cumsum`."""
        return basic.cumsum(self, axis)

    def cumprod(self, axis: int | None = None) -> TensorVariable:
        """See `tensor.cumprod`."""
        return basic.cumprod(self, axis)

    # -- order and choice ----------------------------------------------------
    def sort(self, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> TensorVariable:
        """Return a sorted copy. See `tensor.sort`."""
        return basic.sort(self, axis, kind, order)

    def argsort(self, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> TensorVariable:
        """Return the indices that sort self. See `tensor.argsort`."""
        return basic.argsort(self, axis, kind, order)

    def searchsorted(self, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> TensorVariable:
        """See `tensor.extra_ops.searchsorted`."""
        return basic.searchsorted(self, v, side, sorter)

    def nonzero(self, return_matrix: bool = False) -> Any:
        """See `tensor.nonzero`."""
        return basic.nonzero(self, return_matrix=return_matrix)

    def nonzero_values(self) -> TensorVariable:
        """See `tensor.nonzero_values`."""
        return basic.nonzero_values(self)

    def choose(self, choices: TensorLike, out: Any = None, mode: str = "raise") -> TensorVariable:
        """Select elements of `choices`, with self as the index. See `tensor.choose`."""
        return basic.choose(self, choices, out=out, mode=mode)

    def compress(self, a: TensorLike, axis: int | None = None) -> TensorVariable:
        """Return the slices of self along `axis` at the positions where the vector `a` is nonzero."""
        return basic.compress(a, self, axis=axis)

    # -- elementwise ---------------------------------------------------------
    def astype(self, dtype: DTypeLike) -> TensorVariable:
        """Convert the elements to another dtype. See `tensor.cast`."""
        return basic.cast(self, dtype)

    def clip(self, a_min: TensorLike, a_max: TensorLike) -> TensorVariable:
        """Limit the elements to [a_min, a_max]."""
        return basic.clip(self, a_min, a_max)

    def fill(self, value: TensorLike) -> TensorVariable:
        """Return a tensor of the shape of self, filled with `value`."""
        return basic.fill(self, value)

    def round(self, mode: str | None = None) -> TensorVariable:
        """See `tensor.round`."""
        return basic.round(self, mode)

    @property
    def real(self) -> TensorVariable:
        """The real part."""
        return basic.real(self)

    @property
    def imag(self) -> TensorVariable:
        """The imaginary part."""
        return basic.imag(self)

    conj = _unary("conj", "Complex conjugate.")
    conjugate = _unary("conj", "Complex conjugate.")

    arccos = _unary("arccos")
    arccosh = _unary("arccosh")
    arcsin = _unary("arcsin")
    arcsinh = _unary("arcsinh")
    arctan = _unary("arctan")
    arctanh = _unary("arctanh")
    ceil = _unary("ceil")
    cos = _unary("cos")
    cosh = _unary("cosh")
    deg2rad = _unary("deg2rad")
    exp = _unary("exp")
    exp2 = _unary("exp2")
    expm1 = _unary("expm1")
    floor = _unary("floor")
    log = _unary("log")
    log10 = _unary("log10")
    log1p = _unary("log1p")
    log2 = _unary("log2")
    rad2deg = _unary("rad2deg")
    sin = _unary("sin")
    sinh = _unary("sinh")
    sqrt = _unary("sqrt")
    tan = _unary("tan")
    tanh = _unary("tanh")
    trunc = _unary("trunc")

    # -- the rest ------------------------------------------------------------
    def zeros_like(model: Any, dtype: DTypeLike | None = None) -> TensorVariable:
        """Return zeros of the shape of self."""
        return basic.zeros_like(model, dtype=dtype)

    def ones_like(model: Any, dtype: DTypeLike | None = None) -> TensorVariable:
        """Return ones of the shape of self."""
        return basic.ones_like(model, dtype=dtype)

    def copy(self, name: str | None = None) -> TensorVariable:
        """Return a symbolic copy with the name `name`. Tags are not copied."""
        copied = basic.tensor_copy(self)
        copied.name = name
        return copied

    def get_scalar_constant_value(self) -> Any:
        """See `tensor.get_scalar_constant_value`."""
        return basic.get_scalar_constant_value(self)

    def transfer(self, target: str) -> Any:
        """Return the variable, transferred to another device.

        Parameters
        ----------
        target : str
            'cpu', or a target of a registered back end.
        """
        return basic.transfer(self, target)


for _name, _method in vars(_Methods).items():
    if _name not in ("__module__", "__dict__", "__weakref__", "__doc__"):
        if hasattr(_method, "__qualname__"):
            _method.__qualname__ = "%s.%s" % (_tensor_py_operators.__name__, _name)
        setattr(_tensor_py_operators, _name, _method)
