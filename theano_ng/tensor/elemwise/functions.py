"""The elementwise operations on tensors.

Each operation is an :class:`Elemwise` of the scalar op with the same name. A decorated function of this module only
provides the name, the signature and the docstring. The decorator replaces the function by the Elemwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.op import Elemwise

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

    P = ParamSpec("P")

    class ElementwiseFunction(Elemwise, Generic[P]):
        """The type of an Elemwise for type checkers. Its call has the parameters of the function that was replaced."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TensorVariable: ...


__all__: list[str] = []


def _scal_elemwise_with_nfunc(
    nfunc: str | None, nin: int | None, nout: int | None
) -> Callable[[Callable[P, TensorVariable]], ElementwiseFunction[P]]:
    """Return a decorator that replaces a function by an Elemwise.

    Parameters
    ----------
    nfunc : str or None
        The name of the equivalent NumPy function, which `perform` calls.
    nin, nout : int or None
        The numbers of inputs and outputs of the NumPy function.

    Notes
    -----
    The scalar op has the name of the function. If the name of the function ends in ``_inplace``, the scalar op has the
    name without this suffix, and the result overwrites the first argument.
    """
    nfunc_spec = (nfunc, nin, nout) if nfunc else None

    def construct(symbol: Any) -> Any:
        name = symbol.__name__
        if name.endswith("_inplace"):
            scalar_name = name[: -len("_inplace")]
            scalar_op = getattr(scal, scalar_name)
            # The output must have the dtype of the input that it overwrites.
            inplace_op = scalar_op.__class__(scal.transfer_type(0))
            op = Elemwise(inplace_op, {0: 0}, name=name, nfunc_spec=nfunc_spec)
            of_plain = Elemwise.signatures.get(globals().get(scalar_name))
            if of_plain is not None:
                Elemwise.signatures[op] = of_plain
        else:
            op = Elemwise(getattr(scal, name), name="Elemwise{%s,no_inplace}" % name, nfunc_spec=nfunc_spec)
            Elemwise.signatures[op] = symbol
            __all__.append(name)
        op.__doc__ = symbol.__doc__
        op.__module__ = symbol.__module__
        return op

    return construct


_scal_elemwise = _scal_elemwise_with_nfunc(None, None, None)


# -- comparison --------------------------------------------------------------


@_scal_elemwise_with_nfunc("less", 2, 1)
def lt(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a < b, elementwise, as bool."""


@_scal_elemwise_with_nfunc("greater", 2, 1)
def gt(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a > b, elementwise, as bool."""


@_scal_elemwise_with_nfunc("less_equal", 2, 1)
def le(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a <= b, elementwise, as bool."""


@_scal_elemwise_with_nfunc("greater_equal", 2, 1)
def ge(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a >= b, elementwise, as bool."""


@_scal_elemwise_with_nfunc("equal", 2, 1)
def eq(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a == b, elementwise, as bool."""


@_scal_elemwise_with_nfunc("not_equal", 2, 1)
def neq(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a != b, elementwise, as bool."""


def _named_elemwise(scalar_op: Any, symbol: str, nfunc: str | None = None, nin: int = 1, nout: int = 1) -> Elemwise:
    """Return an Elemwise for a module variable such as `isnan_`. `symbol` is the name without the underscore."""
    return Elemwise(
        scalar_op, name="Elemwise{%s,no_inplace}" % symbol, nfunc_spec=(nfunc, nin, nout) if nfunc else None
    )


isnan_ = _named_elemwise(scal.isnan, "isnan", "isnan")
isinf_ = _named_elemwise(scal.isinf, "isinf", "isinf")


def isnan(a: TensorLike) -> TensorVariable:
    """Return True for each element that is NaN.

    Parameters
    ----------
    a : tensor_like

    Returns
    -------
    TensorVariable
        A tensor of bool. If `a` has an integer dtype, all its elements are False.
    """
    a = as_tensor_variable(a)
    if a.dtype in DISCRETE:
        return _all_false(a)
    return isnan_(a)


def isinf(a: TensorLike) -> TensorVariable:
    """Return True for each element that is infinite.

    Parameters
    ----------
    a : tensor_like

    Returns
    -------
    TensorVariable
        A tensor of bool. If `a` has an integer dtype, all its elements are False.
    """
    a = as_tensor_variable(a)
    if a.dtype in DISCRETE:
        return _all_false(a)
    return isinf_(a)


def _all_false(a: TensorVariable) -> TensorVariable:
    return a.zeros_like(dtype="bool")


@_scal_elemwise_with_nfunc("where", 3, 1)
def switch(cond: TensorLike, ift: TensorLike, iff: TensorLike) -> TensorVariable:
    """Return `ift` where `cond` is nonzero, and `iff` elsewhere. Both are evaluated."""


where = switch


# -- bitwise and logical -----------------------------------------------------


@_scal_elemwise_with_nfunc("bitwise_and", 2, 1)
def and_(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the bitwise a & b."""


@_scal_elemwise_with_nfunc("bitwise_or", 2, 1)
def or_(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the bitwise a | b."""


@_scal_elemwise_with_nfunc("bitwise_xor", 2, 1)
def xor(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the bitwise a ^ b."""


@_scal_elemwise_with_nfunc("invert", 1, 1)
def invert(a: TensorLike) -> TensorVariable:
    """Return the bitwise ~a."""


bitwise_and = and_
bitwise_or = or_
bitwise_xor = xor
bitwise_not = invert


# -- arithmetic --------------------------------------------------------------


@_scal_elemwise_with_nfunc("add", 2, 1)
def add(a: TensorLike, *other_terms: TensorLike) -> TensorVariable:
    """Return the elementwise sum of any number of terms."""


@_scal_elemwise_with_nfunc("subtract", 2, 1)
def sub(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a - b, elementwise."""


@_scal_elemwise_with_nfunc("multiply", 2, 1)
def mul(a: TensorLike, *other_terms: TensorLike) -> TensorVariable:
    """Return the elementwise product of any number of factors."""


@_scal_elemwise_with_nfunc("true_divide", 2, 1)
def true_div(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a / b, elementwise. The quotient of integers is a float."""


@_scal_elemwise_with_nfunc("floor_divide", 2, 1)
def int_div(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the floor of a / b, elementwise. An integer division by zero raises ZeroDivisionError."""


floor_div = int_div


@_scal_elemwise_with_nfunc("mod", 2, 1)
def mod(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a % b, elementwise, with the sign of b. An integer modulo zero raises ZeroDivisionError."""


@_scal_elemwise_with_nfunc("power", 2, 1)
def pow(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return a ** b, elementwise."""


@_scal_elemwise_with_nfunc("negative", 1, 1)
def neg(a: TensorLike) -> TensorVariable:
    """Return -a, elementwise."""


@_scal_elemwise_with_nfunc("reciprocal", 1, 1)
def inv(a: TensorLike) -> TensorVariable:
    """Return 1.0 / a, elementwise, as a float."""


@_scal_elemwise_with_nfunc("abs", 1, 1)
def abs_(a: TensorLike) -> TensorVariable:
    """Return the absolute value of a, elementwise. It is real for a complex a.

    Python's `abs` calls this function.
    """


@_scal_elemwise_with_nfunc("square", 1, 1)
def sqr(a: TensorLike) -> TensorVariable:
    """Return a * a, elementwise."""


square = sqr


@_scal_elemwise_with_nfunc("sqrt", 1, 1)
def sqrt(a: TensorLike) -> TensorVariable:
    """Return the square root of a, elementwise."""


@_scal_elemwise_with_nfunc("sign", 1, 1)
def sgn(a: TensorLike) -> TensorVariable:
    """Return the sign of a, elementwise: -1, 0 or 1. It is NaN for NaN."""


@_scal_elemwise_with_nfunc("maximum", 2, 1)
def maximum(x: TensorLike, y: TensorLike) -> TensorVariable:
    """Return the elementwise maximum. It is NaN if x or y is NaN."""


@_scal_elemwise_with_nfunc("minimum", 2, 1)
def minimum(x: TensorLike, y: TensorLike) -> TensorVariable:
    """Return the elementwise minimum. It is NaN if x or y is NaN."""


@_scal_elemwise
def clip(x: TensorLike, min: TensorLike, max: TensorLike) -> TensorVariable:
    """Limit x to the interval [min, max], elementwise.

    The three arguments are broadcast. If min > max, the result is undefined.
    """


@_scal_elemwise
def second(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Broadcast `b` to the shape of `a`. The usual name of this function is `fill`."""


fill = second


# -- rounding ----------------------------------------------------------------


@_scal_elemwise_with_nfunc("ceil", 1, 1)
def ceil(a: TensorLike) -> TensorVariable:
    """Return the smallest integer that is not less than a (2.1 -> 3), as a float."""


@_scal_elemwise_with_nfunc("floor", 1, 1)
def floor(a: TensorLike) -> TensorVariable:
    """Return the largest integer that is not greater than a (2.9 -> 2), as a float."""


@_scal_elemwise_with_nfunc("trunc", 1, 1)
def trunc(a: TensorLike) -> TensorVariable:
    """Return a without its fractional part (-1.7 -> -1), as a float."""


@_scal_elemwise_with_nfunc("around", 1, 1)
def round_half_to_even(a: TensorLike) -> TensorVariable:
    """Round to the nearest integer. Halves are rounded to the nearest even integer: 0.5 -> 0, 2.5 -> 2."""


@_scal_elemwise
def round_half_away_from_zero(a: TensorLike) -> TensorVariable:
    """Round to the nearest integer. Halves are rounded away from zero: 0.5 -> 1, -2.5 -> -3."""


def round(a: TensorLike, mode: str | None = None) -> TensorVariable:
    """Round to the nearest integer, elementwise. The result for integers is a float.

    Parameters
    ----------
    a : tensor_like
    mode : {'half_to_even', 'half_away_from_zero'}, optional
        The rounding of halves. The default is 'half_to_even', as in NumPy.

    Returns
    -------
    TensorVariable

    Raises
    ------
    ValueError
        If `mode` has another value.
    """
    if mode is None or mode == "half_to_even":
        return round_half_to_even(a)
    if mode == "half_away_from_zero":
        return round_half_away_from_zero(a)
    raise ValueError("round: mode must be 'half_to_even' or 'half_away_from_zero', not %r" % (mode,))


def iround(a: TensorLike, mode: str | None = None) -> TensorVariable:
    """Return ``cast(round(a, mode), 'int64')``.

    Parameters
    ----------
    a : tensor_like
    mode : {'half_to_even', 'half_away_from_zero'}, optional
        See :func:`round`.

    Returns
    -------
    TensorVariable
        The rounded elements as int64.
    """
    return cast(round(a, mode), "int64")


# -- exponentials and logarithms ---------------------------------------------


@_scal_elemwise_with_nfunc("exp", 1, 1)
def exp(a: TensorLike) -> TensorVariable:
    """Return e ** a, elementwise."""


@_scal_elemwise_with_nfunc("exp2", 1, 1)
def exp2(a: TensorLike) -> TensorVariable:
    """Return 2 ** a, elementwise."""


@_scal_elemwise_with_nfunc("expm1", 1, 1)
def expm1(a: TensorLike) -> TensorVariable:
    """Return e ** a - 1, elementwise. It is accurate for small a."""


@_scal_elemwise_with_nfunc("log", 1, 1)
def log(a: TensorLike) -> TensorVariable:
    """Return the natural logarithm of a."""


@_scal_elemwise_with_nfunc("log2", 1, 1)
def log2(a: TensorLike) -> TensorVariable:
    """Return the logarithm of a to base 2."""


@_scal_elemwise_with_nfunc("log10", 1, 1)
def log10(a: TensorLike) -> TensorVariable:
    """Return the logarithm of a to base 10."""


@_scal_elemwise_with_nfunc("log1p", 1, 1)
def log1p(a: TensorLike) -> TensorVariable:
    """Return log(1 + a). It is accurate for small a."""


# -- trigonometry ------------------------------------------------------------


@_scal_elemwise_with_nfunc("deg2rad", 1, 1)
def deg2rad(a: TensorLike) -> TensorVariable:
    """Convert degrees to radians."""


@_scal_elemwise_with_nfunc("rad2deg", 1, 1)
def rad2deg(a: TensorLike) -> TensorVariable:
    """Convert radians to degrees."""


@_scal_elemwise_with_nfunc("cos", 1, 1)
def cos(a: TensorLike) -> TensorVariable:
    """Return the cosine of a."""


@_scal_elemwise_with_nfunc("arccos", 1, 1)
def arccos(a: TensorLike) -> TensorVariable:
    """Return the arc cosine of a."""


@_scal_elemwise_with_nfunc("sin", 1, 1)
def sin(a: TensorLike) -> TensorVariable:
    """Return the sine of a."""


@_scal_elemwise_with_nfunc("arcsin", 1, 1)
def arcsin(a: TensorLike) -> TensorVariable:
    """Return the arc sine of a."""


@_scal_elemwise_with_nfunc("tan", 1, 1)
def tan(a: TensorLike) -> TensorVariable:
    """Return the tangent of a."""


@_scal_elemwise_with_nfunc("arctan", 1, 1)
def arctan(a: TensorLike) -> TensorVariable:
    """Return the arc tangent of a."""


@_scal_elemwise_with_nfunc("arctan2", 2, 1)
def arctan2(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the angle of the point (b, a): the arc tangent of a / b in the right quadrant."""


@_scal_elemwise_with_nfunc("cosh", 1, 1)
def cosh(a: TensorLike) -> TensorVariable:
    """Return the hyperbolic cosine of a."""


@_scal_elemwise_with_nfunc("arccosh", 1, 1)
def arccosh(a: TensorLike) -> TensorVariable:
    """Return the inverse hyperbolic cosine of a."""


@_scal_elemwise_with_nfunc("sinh", 1, 1)
def sinh(a: TensorLike) -> TensorVariable:
    """Return the hyperbolic sine of a."""


@_scal_elemwise_with_nfunc("arcsinh", 1, 1)
def arcsinh(a: TensorLike) -> TensorVariable:
    """Return the inverse hyperbolic sine of a."""


@_scal_elemwise_with_nfunc("tanh", 1, 1)
def tanh(a: TensorLike) -> TensorVariable:
    """Return the hyperbolic tangent of a."""


@_scal_elemwise_with_nfunc("arctanh", 1, 1)
def arctanh(a: TensorLike) -> TensorVariable:
    """Return the inverse hyperbolic tangent of a."""


# -- special functions -------------------------------------------------------


@_scal_elemwise_with_nfunc("scipy.special.erf", 1, 1)
def erf(a: TensorLike) -> TensorVariable:
    """Return the error function of a."""


@_scal_elemwise_with_nfunc("scipy.special.erfc", 1, 1)
def erfc(a: TensorLike) -> TensorVariable:
    """Return the complementary error function, 1 - erf(a)."""


@_scal_elemwise_with_nfunc("scipy.special.erfcx", 1, 1)
def erfcx(a: TensorLike) -> TensorVariable:
    """Return the scaled complementary error function, exp(a**2) * erfc(a)."""


@_scal_elemwise_with_nfunc("scipy.special.erfinv", 1, 1)
def erfinv(a: TensorLike) -> TensorVariable:
    """Return the inverse of the error function `erf`."""


@_scal_elemwise_with_nfunc("scipy.special.erfcinv", 1, 1)
def erfcinv(a: TensorLike) -> TensorVariable:
    """Return the inverse of the complementary error function `erfc`."""


@_scal_elemwise_with_nfunc("scipy.special.gamma", 1, 1)
def gamma(a: TensorLike) -> TensorVariable:
    """Return the gamma function of a."""


@_scal_elemwise_with_nfunc("scipy.special.gammaln", 1, 1)
def gammaln(a: TensorLike) -> TensorVariable:
    """Return the logarithm of the absolute value of gamma(a)."""


@_scal_elemwise_with_nfunc("scipy.special.psi", 1, 1)
def psi(a: TensorLike) -> TensorVariable:
    """Return the digamma function: the derivative of gammaln."""


@_scal_elemwise
def tri_gamma(a: TensorLike) -> TensorVariable:
    """Return the trigamma function: the second derivative of gammaln."""


@_scal_elemwise_with_nfunc("scipy.special.gammainc", 2, 1)
def gammainc(a: TensorLike, x: TensorLike) -> TensorVariable:
    """Return the regularized lower incomplete gamma function."""


@_scal_elemwise_with_nfunc("scipy.special.gammaincc", 2, 1)
def gammaincc(a: TensorLike, x: TensorLike) -> TensorVariable:
    """Return the regularized upper incomplete gamma function, 1 - gammainc(a, x)."""


@_scal_elemwise
def gammau(a: TensorLike, x: TensorLike) -> TensorVariable:
    """Return the upper incomplete gamma function, which is not regularized."""


@_scal_elemwise
def gammal(a: TensorLike, x: TensorLike) -> TensorVariable:
    """Return the lower incomplete gamma function, which is not regularized."""


@_scal_elemwise
def chi2sf(x: TensorLike, k: TensorLike) -> TensorVariable:
    """Return the survival function of the chi-squared distribution with k degrees of freedom at x."""


@_scal_elemwise_with_nfunc("scipy.special.j0", 1, 1)
def j0(x: TensorLike) -> TensorVariable:
    """Return the Bessel function of the first kind of order 0."""


@_scal_elemwise_with_nfunc("scipy.special.j1", 1, 1)
def j1(x: TensorLike) -> TensorVariable:
    """Return the Bessel function of the first kind of order 1."""


@_scal_elemwise_with_nfunc("scipy.special.jv", 2, 1)
def jv(v: TensorLike, x: TensorLike) -> TensorVariable:
    """Return the Bessel function of the first kind of real order v."""


@_scal_elemwise_with_nfunc("scipy.special.i0", 1, 1)
def i0(x: TensorLike) -> TensorVariable:
    """Return the modified Bessel function of the first kind of order 0."""


@_scal_elemwise_with_nfunc("scipy.special.i1", 1, 1)
def i1(x: TensorLike) -> TensorVariable:
    """Return the modified Bessel function of the first kind of order 1."""


@_scal_elemwise_with_nfunc("scipy.special.iv", 2, 1)
def iv(v: TensorLike, x: TensorLike) -> TensorVariable:
    """Return the modified Bessel function of the first kind of real order v."""


# -- complex numbers ---------------------------------------------------------


@_scal_elemwise_with_nfunc("real", 1, 1)
def real(z: TensorLike) -> TensorVariable:
    """Return the real part of z. Return z itself if it is not complex."""


@_scal_elemwise_with_nfunc("imag", 1, 1)
def imag(z: TensorLike) -> TensorVariable:
    """Return the imaginary part of z. Return zeros if z is not complex."""


@_scal_elemwise_with_nfunc("angle", 1, 1)
def angle(z: TensorLike) -> TensorVariable:
    """Return the polar angle of z, in radians."""


@_scal_elemwise
def complex(real: TensorLike, imag: TensorLike) -> TensorVariable:
    """Return the complex number with the given real and imaginary parts."""


@_scal_elemwise_with_nfunc("conj", 1, 1)
def conj(z: TensorLike) -> TensorVariable:
    """Return the complex conjugate of z."""


def conj_if_complex(z: TensorVariable) -> TensorVariable:
    """Return the complex conjugate of a complex variable. Return any other variable unchanged."""
    return conj(z) if z.dtype.startswith("complex") else z


@_scal_elemwise
def complex_from_polar(abs: TensorLike, angle: TensorLike) -> TensorVariable:
    """Return the complex number with the given absolute value and angle."""


# -- conversion --------------------------------------------------------------

tensor_copy = Elemwise(scal.identity)


def _conversion(real_value: Elemwise, name: str) -> Elemwise:
    """Set the docstring of an Elemwise that casts to the dtype `name`, and return the Elemwise."""
    real_value.__doc__ = "Elementwise conversion to %s; see `cast`." % name
    return real_value


def _convert_to(dtype: str) -> Elemwise:
    return _conversion(Elemwise(getattr(scal, "convert_to_" + dtype)), dtype)


_convert_to_bool = _convert_to("bool")
_convert_to_int8 = _convert_to("int8")
_convert_to_int16 = _convert_to("int16")
_convert_to_int32 = _convert_to("int32")
_convert_to_int64 = _convert_to("int64")
_convert_to_uint8 = _convert_to("uint8")
_convert_to_uint16 = _convert_to("uint16")
_convert_to_uint32 = _convert_to("uint32")
_convert_to_uint64 = _convert_to("uint64")
_convert_to_float16 = _convert_to("float16")
_convert_to_float32 = _convert_to("float32")
_convert_to_float64 = _convert_to("float64")
_convert_to_complex64 = _convert_to("complex64")
_convert_to_complex128 = _convert_to("complex128")

_cast_mapping = {
    "bool": _convert_to_bool,
    "int8": _convert_to_int8,
    "int16": _convert_to_int16,
    "int32": _convert_to_int32,
    "int64": _convert_to_int64,
    "uint8": _convert_to_uint8,
    "uint16": _convert_to_uint16,
    "uint32": _convert_to_uint32,
    "uint64": _convert_to_uint64,
    "float16": _convert_to_float16,
    "float32": _convert_to_float32,
    "float64": _convert_to_float64,
    "complex64": _convert_to_complex64,
    "complex128": _convert_to_complex128,
}


def cast(x: TensorLike, dtype: DTypeLike) -> TensorVariable:
    """Convert the elements of `x` to `dtype`, by value.

    Parameters
    ----------
    x : tensor_like
    dtype : str or dtype
        The new dtype. 'floatX' means ``config.floatX``.

    Returns
    -------
    TensorVariable
        `x` itself if it has this dtype.

    Raises
    ------
    TypeError
        If `x` is complex and `dtype` is not (use `real`, `imag`, `abs` or
        `angle`), or if the dtype is unknown.
    """
    if isinstance(dtype, str) and dtype == "floatX":
        dtype = config.floatX
    name = np.dtype(dtype).name
    variable = as_tensor_variable(x)
    if variable.type.dtype == name:
        return variable
    if variable.type.dtype.startswith("complex") and not name.startswith("complex"):
        raise TypeError(
            "Casting from complex to real is ambiguous (%s to %s): consider "
            "real(), imag(), angle() or abs()." % (variable.type.dtype, name)
        )
    if name not in _cast_mapping:
        raise TypeError("cast: dtype %r is not supported; supported are %s" % (dtype, ", ".join(_cast_mapping)))
    return _cast_mapping[name](variable)


# -- functions made of several operations -------------------------------------

float16_rtol, float16_atol = 1e-3, 1e-3
float32_rtol, float32_atol = 1e-5, 1e-5
float64_rtol, float64_atol = 1.0000000000000001e-05, 1e-8


def _get_atol_rtol(a: Any, b: Any) -> tuple[float, float]:
    """Return the absolute and the relative tolerance for the less precise dtype of two arrays."""
    dtypes = (str(a.dtype), str(b.dtype))
    if "float16" in dtypes:
        return float16_atol, float16_rtol
    if "float32" in dtypes or "complex64" in dtypes:
        return float32_atol, float32_rtol
    return float64_atol, float64_rtol


def _allclose(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> bool:
    """Call `numpy.allclose` on arrays, with default tolerances that depend on the dtypes.

    Parameters
    ----------
    a, b : array_like
    rtol, atol : float, optional

    Returns
    -------
    bool
    """
    a, b = np.asarray(a), np.asarray(b)
    default_atol, default_rtol = _get_atol_rtol(a, b)
    return np.allclose(a, b, atol=default_atol if atol is None else atol, rtol=default_rtol if rtol is None else rtol)


def isclose(
    a: TensorLike, b: TensorLike, rtol: float = 1.0e-5, atol: float = 1.0e-8, equal_nan: bool = False
) -> TensorVariable:
    """Return True for each pair of elements with ``|a - b| <= atol + rtol * |b|``.

    Parameters
    ----------
    a, b : tensor_like
        The operands, which are broadcast against each other.
    rtol, atol : float
        Relative and absolute tolerance.
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    TensorVariable
        A tensor of bool. An infinity is close only to the infinity of the same sign.
    """
    # `near` is valid only where the elements of `a` and `b` are finite. `special` is True elsewhere.
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    near = le(abs_(a - b), atol + rtol * abs_(b))
    if not (_may_be_special(a) or _may_be_special(b)):
        return near
    special = or_(or_(isnan(a), isinf(a)), or_(isnan(b), isinf(b)))
    result = or_(and_(invert(special), near), eq(a, b))
    if equal_nan:
        result = or_(result, and_(isnan(a), isnan(b)))
    return result


def _may_be_special(x: TensorVariable) -> bool:
    return x.dtype not in DISCRETE


def allclose(
    a: TensorLike, b: TensorLike, rtol: float = 1.0e-5, atol: float = 1.0e-8, equal_nan: bool = False
) -> TensorVariable:
    """Return True if all elements are close. See :func:`isclose`.

    Parameters
    ----------
    a, b : tensor_like
        The operands, which are broadcast against each other.
    rtol, atol : float
        Relative and absolute tolerance.
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    TensorVariable
        A 0-d tensor of bool.
    """
    return isclose(a, b, rtol, atol, equal_nan).all()


def div_proxy(x: TensorLike, y: TensorLike) -> TensorVariable:
    """Return ``x / y`` as Python 2 does.

    For two integers, the flag `config.int_division` selects the operation. Its default is floor division.

    Parameters
    ----------
    x, y : tensor_like
        The operands, which are broadcast against each other.

    Raises
    ------
    theano_ng.scalar.IntegerDivisionError
        If both operands are integers and the flag is 'raise'.
    """
    x, y = as_tensor_variable(x), as_tensor_variable(y)
    op = scal.int_or_true_div(x.dtype in DISCRETE, y.dtype in DISCRETE)
    return int_div(x, y) if op is scal.int_div else true_div(x, y)


def divmod(x: TensorLike, y: TensorLike) -> tuple[TensorVariable, TensorVariable]:
    """Return ``(floor_div(x, y), mod(x, y))``, elementwise.

    Parameters
    ----------
    x, y : tensor_like
        The operands, which are broadcast against each other.

    Returns
    -------
    tuple of two TensorVariable
    """
    return floor_div(x, y), mod_check(x, y)


def mod_check(x: TensorLike, y: TensorLike) -> TensorVariable:
    """Return ``mod(x, y)``. Raise ComplexError if an operand is complex.

    Raises
    ------
    theano_ng.scalar.ComplexError
        If an operand is complex.
    """
    x, y = as_tensor_variable(x), as_tensor_variable(y)
    if x.dtype.startswith("complex") or y.dtype.startswith("complex"):
        raise scal.ComplexError(
            "% has no meaning for complex numbers: operands have types {} and {}".format(x.type, y.type)
        )
    return mod(x, y)


def power(x: TensorLike, y: TensorLike) -> TensorVariable:
    """Return ``pow(x, y)``, elementwise.

    Parameters
    ----------
    x, y : tensor_like
        The operands, which are broadcast against each other.
    """
    return pow(x, y)


def ceil_intdiv(a: TensorLike, b: TensorLike) -> TensorVariable:
    """Return the smallest integer that is not less than a / b, for integers, without overflow.

    Parameters
    ----------
    a, b : tensor_like
        Integers, which are broadcast against each other.

    Returns
    -------
    TensorVariable
        The result has the dtype of ``a // b``.
    """
    # (a + b - 1) // b would overflow near the end of the dtype's range.
    div = int_div(a, b)
    return cast(neq(mod(a, b), 0), div.dtype) + div


def smallest(*args: TensorLike) -> TensorVariable:
    """Return the elementwise minimum of several tensors.

    Parameters
    ----------
    *args : tensor_like
        At least one tensor. The tensors are broadcast against each other.
    """
    return _extremum(args, minimum, "smallest")


def largest(*args: TensorLike) -> TensorVariable:
    """Return the elementwise maximum of several tensors.

    Parameters
    ----------
    *args : tensor_like
        At least one tensor. The tensors are broadcast against each other.
    """
    return _extremum(args, maximum, "largest")


def _extremum(args: Sequence[TensorLike], op: Elemwise, name: str) -> TensorVariable:
    if not args:
        raise TypeError("%s needs at least one argument" % name)
    args = [as_tensor_variable(arg) for arg in args]
    # A balanced tree keeps the graph shallow, even for many arguments.
    while len(args) > 1:
        paired = [op(a, b) for a, b in zip(args[::2], args[1::2])]
        if len(args) % 2:
            paired.append(args[-1])
        args = paired
    return args[0]


__all__ += [
    "isnan",
    "isinf",
    "isnan_",
    "isinf_",
    "where",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "floor_div",
    "square",
    "fill",
    "round",
    "iround",
    "tensor_copy",
    "cast",
    "isclose",
    "allclose",
    "div_proxy",
    "divmod",
    "mod_check",
    "power",
    "ceil_intdiv",
    "smallest",
    "largest",
    "float16_rtol",
    "float16_atol",
    "float32_rtol",
    "float32_atol",
    "float64_rtol",
    "float64_atol",
    "_scal_elemwise",
    "_scal_elemwise_with_nfunc",
    "_allclose",
    "_get_atol_rtol",
    "_conversion",
    "_cast_mapping",
] + ["_convert_to_" + dtype for dtype in _cast_mapping]
