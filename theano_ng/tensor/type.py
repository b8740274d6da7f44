"""`TensorType`: the static type (dtype and broadcast pattern) of an n-d array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from theano_ng import scalar as scal
from theano_ng.compile.ops import rebroadcast
from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.graph import Variable
from theano_ng.gof.type import Type

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "TensorType",
    "get_atol_rtol",
    "values_eq_approx",
    "values_eq_approx_remove_inf",
    "values_eq_approx_remove_nan",
    "values_eq_approx_remove_inf_nan",
    "values_eq_approx_always_true",
]

# dtype name -> (Python type, C type, NumPy type number)
_DTYPE_SPECS = {
    "float16": (float, "npy_float16", "NPY_FLOAT16"),
    "float32": (float, "npy_float32", "NPY_FLOAT32"),
    "float64": (float, "npy_float64", "NPY_FLOAT64"),
    "bool": (bool, "npy_bool", "NPY_BOOL"),
    "uint8": (int, "npy_uint8", "NPY_UINT8"),
    "int8": (int, "npy_int8", "NPY_INT8"),
    "uint16": (int, "npy_uint16", "NPY_UINT16"),
    "int16": (int, "npy_int16", "NPY_INT16"),
    "uint32": (int, "npy_uint32", "NPY_UINT32"),
    "int32": (int, "npy_int32", "NPY_INT32"),
    "uint64": (int, "npy_uint64", "NPY_UINT64"),
    "int64": (int, "npy_int64", "NPY_INT64"),
    "complex128": (complex, "theano_complex128", "NPY_COMPLEX128"),
    "complex64": (complex, "theano_complex64", "NPY_COMPLEX64"),
}

# This dict maps a NumPy type number to a dtype name. NumPy's attribute `name` would build a new string at each access.
_NAME_OF_NUMBER = {np.dtype(name).num: name for name in _DTYPE_SPECS}

_PATTERN_NAMES = {
    (): "scalar",
    (False,): "vector",
    (False, True): "col",
    (True, False): "row",
    (False, False): "matrix",
}

# The index of this tuple is `config.tensor.cmp_sloppy`. An entry maps a dtype to the (absolute, relative) tolerance of
# `values_eq_approx`.
_TOLERANCES = (
    {"float16": (5e-3, 1e-2), "float32": (1e-5, 1e-5), "float64": (1e-8, 1e-5)},
    {"float16": (5e-3, 1e-2), "float32": (5e-4, 1e-3), "float64": (1e-3, 1e-4)},
    {"float16": (5e-3, 1e-2), "float32": (1e-4, 1e-3), "float64": (1e-3, 1e-4)},
)


class TensorType(Type):
    """The type of a `numpy.ndarray` with a given dtype, rank and broadcast pattern.

    Parameters
    ----------
    dtype : str or numpy dtype
        The type of the elements, for instance ``'float32'``. The string ``'floatX'`` means `config.floatX`.
    broadcastable : sequence of bool
        One flag per dimension. The number of flags is the rank. If a flag is True, the length is exactly 1 at run time,
        and operations may broadcast along the dimension. If a flag is False, the length is arbitrary.
    name : str, optional
        A name that replaces the printed form of the type.
    sparse_grad : bool
        This parameter has no effect. It is accepted for old programs. See `theano_ng.sparse_grad`.

    Raises
    ------
    TypeError
        If tensors do not support the dtype.

    Notes
    -----
    Types are immutable. They are compared by class, dtype and pattern. Values that are passed to compiled code are
    always native-endian and aligned: `filter` converts other values. The values may be non-contiguous and read-only.
    """

    context_name = "cpu"

    dtype: str
    broadcastable: tuple[bool, ...]
    name: str | None
    numpy_dtype: np.dtype

    # The number of dimensions: the length of `broadcastable`. The constructor sets this attribute.
    ndim: int = None  # type: ignore[assignment]

    # If True, `filter` rejects values with NaN or infinity. An instance attribute may override it.
    filter_checks_isfinite = False

    def __init__(
        self, dtype: DTypeLike, broadcastable: Sequence[bool], name: str | None = None, sparse_grad: bool = False
    ) -> None:
        name_of_dtype = str(dtype) if not isinstance(dtype, type) else np.dtype(dtype).name
        if name_of_dtype == "floatX":
            name_of_dtype = config.floatX
        self.dtype = name_of_dtype
        try:
            self.broadcastable = tuple([bool(b) for b in broadcastable])
        except TypeError:
            raise TypeError(
                "TensorType: broadcastable must be a sequence of one bool for each dimension, got %r" % (broadcastable,)
            ) from None
        self.name = name
        self.sparse_grad = sparse_grad
        self.dtype_specs()
        self.numpy_dtype = np.dtype(name_of_dtype)
        self._derive()

    def _derive(self):
        """Set the attributes that are derived from the dtype and the pattern.

        `__getstate__` omits the private ones of these attributes, because hashes of strings differ between processes.
        `__setstate__` calls this method to restore them.
        """
        self.ndim = len(self.broadcastable)
        self._any_broadcastable = any(self.broadcastable)
        cls = type(self)
        self._key = (self.dtype, self.broadcastable)
        self._hash = hash((cls.__module__, cls.__qualname__, self._key))

    def __getstate__(self):
        state = self.__dict__.copy()
        for derived in ("_hash", "_key", "_any_broadcastable"):
            state.pop(derived, None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Use one object per dtype, so that `filter` may compare dtypes with `is`.
        self.numpy_dtype = np.dtype(self.dtype)
        self._derive()

    def clone(self, dtype: DTypeLike | None = None, broadcastable: Sequence[bool] | None = None) -> Self:
        """Return a copy of this type with another dtype or broadcast pattern."""
        if dtype is None:
            dtype = self.dtype
        if broadcastable is None:
            broadcastable = self.broadcastable
        return self.__class__(dtype, broadcastable, name=self.name, sparse_grad=self.sparse_grad)

    # -- identity ------------------------------------------------------------------------------------------------

    def __eq__(self, other):
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented if not isinstance(other, Type) else False
        return self._key == other._key

    def __ne__(self, other):
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self):
        return self._hash

    def __str__(self) -> str:
        if self.name:
            return str(self.name)
        pattern = self.broadcastable
        text = _PATTERN_NAMES.get(pattern)
        if text is None:
            text = str(pattern) if any(pattern) else "%iD" % len(pattern)
        return "TensorType(%s, %s)" % (self.dtype, text)

    __repr__ = __str__

    def dtype_specs(self) -> tuple[type, str, str]:
        """Return ``(python type, C type, NumPy type number)`` for the dtype, for instance ``(float, 'npy_float64', 'NPY_FLOAT64')``."""
        try:
            return _DTYPE_SPECS[self.dtype]
        except KeyError:
            raise TypeError(
                "Unsupported dtype for %s: %s. Supported: %s."
                % (self.__class__.__name__, self.dtype, ", ".join(sorted(_DTYPE_SPECS)))
            ) from None

    def to_scalar_type(self) -> Any:
        """Return the `scalar.Scalar` type of one element."""
        return scal.get_scalar_type(dtype=self.dtype)

    if TYPE_CHECKING:

        def __call__(self, name: str | None = None) -> TensorVariable: ...

    def make_variable(self, name: str | None = None) -> TensorVariable:
        """Return a new `TensorVariable` of this type.

        Parameters
        ----------
        name : str, optional
            The name that is printed for the variable.
        """
        return self.Variable(self, name=name)

    # -- values --------------------------------------------------------------------------------------------------

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> np.ndarray:
        """Return `data` as an ndarray of this type. Raise an exception if this is impossible.

        Parameters
        ----------
        data : array_like
            The value. It must not be a symbolic variable.
        strict : bool
            If True, `data` itself is returned, or a `TypeError` is raised.
        allow_downcast : {None, True, False}
            Whether a conversion may lose precision. None permits this only for the conversion of a Python float to
            `config.floatX`.

        Returns
        -------
        numpy.ndarray
            A native-endian and aligned array. It is `data` itself if `data` has this type.

        Raises
        ------
        TypeError
            If the rank, the dtype, the value or the length of a broadcastable dimension does not fit.
        ValueError
            If `data` is text that is not a number, or lists of lists of different lengths, or if `data` contains NaN or
            infinity and `filter_checks_isfinite` is True.
        """
        if (
            type(data) is np.ndarray
            and data.dtype is self.numpy_dtype
            and data.ndim == self.ndim
            and not self._any_broadcastable
            and data.flags.aligned
            and not self.filter_checks_isfinite
        ):
            return data
        if isinstance(data, Variable):
            raise TypeError(
                "Expected an array-like object, but found a Variable: maybe you are trying to call a function on a "
                "(possibly shared) variable instead of a numeric array?"
            )
        array = self._filter_strict(data) if strict else self._filter_dtype(data, allow_downcast)

        if array.ndim != self.ndim:
            raise TypeError(
                "Wrong number of dimensions: expected %s, got %s with shape %s." % (self.ndim, array.ndim, array.shape)
            )
        if not array.flags.aligned:
            if strict:
                raise TypeError(
                    "%s expected an aligned ndarray object. The memory of the value is not aligned for its dtype; pass a copy of it."
                    % self
                )
            array = array.copy()
        if self._any_broadcastable:
            for length, broadcastable in zip(array.shape, self.broadcastable):
                if broadcastable and length != 1:
                    raise TypeError(
                        "Non-unit value on shape on a broadcastable dimension.", array.shape, self.broadcastable
                    )
        if self.filter_checks_isfinite and not np.all(np.isfinite(array)):
            raise ValueError("non-finite elements not allowed")
        return array

    def _filter_strict(self, data):
        if not isinstance(data, np.ndarray):
            raise TypeError("%s expected a ndarray object." % self, data, type(data))
        if data.dtype != self.numpy_dtype:
            raise TypeError(
                "%s expected a ndarray object with dtype = %s (got %s)." % (self, self.numpy_dtype, data.dtype)
            )
        return data

    def _filter_dtype(self, data, allow_downcast):
        """Convert `data` to an ndarray of the right native dtype. Raise `TypeError` if this is impossible."""
        target = self.numpy_dtype
        if isinstance(data, np.ndarray):
            if isinstance(data, np.memmap):
                # Return the memmap itself. A plain view would work as well, but it would hide the file from the caller.
                if data.dtype == target:
                    return data
            elif type(data) is not np.ndarray:
                data = np.asarray(data)
            if data.dtype == target:
                # `==` is also true for equivalent dtypes with different type numbers (long, long long). C code compares
                # type numbers, so return a view with the right number.
                return data if data.dtype.num == target.num else data.view(target)
            if allow_downcast or self._holds_dtype(data.dtype):
                return data.astype(target)
            raise TypeError(
                "%s cannot store a value of dtype %s without risking loss of precision. If you do not mind this loss, "
                'you can: 1) explicitly cast your data to %s, or 2) set "allow_input_downcast=True" when calling "function".'
                % (self, data.dtype, self.dtype),
                data,
            )
        if allow_downcast:
            try:
                return np.asarray(data, dtype=target)
            except OverflowError:
                # A Python integer that is out of range wraps around, as in a cast of an array.
                return np.asarray(data).astype(target)
            except (TypeError, ValueError) as exc:
                raise self._conversion_error(data, exc) from exc
        try:
            given = np.asarray(data)
            converted = np.asarray(data, dtype=target)
        except OverflowError:
            converted = None
        except (TypeError, ValueError) as exc:
            raise self._conversion_error(data, exc) from exc
        if converted is not None:
            if allow_downcast is None and type(data) is float and self.dtype == config.floatX:
                return converted
            if TensorType.values_eq(given, converted, force_same_dtype=False):
                return converted
        raise TypeError(
            "%s cannot store accurately value %s, it would be represented as %s. If you do not mind this precision loss, "
            "you can: 1) explicitly convert your data to a numpy array of dtype %s, or 2) set "
            '"allow_input_downcast=True" when calling "function".'
            % (self, _short(data), "an out-of-range value" if converted is None else _short(converted), self.dtype),
            data,
        )

    def _conversion_error(self, data, failure):
        """Return the exception for a value that NumPy cannot convert.

        The exception is a ValueError for text and ragged lists, as in NumPy, and otherwise a TypeError.
        """
        kind = ValueError if isinstance(failure, ValueError) else TypeError
        return kind("%s cannot hold the value %s: %s" % (self, _short(data), failure))

    def _holds_dtype(self, dtype):
        """Return True if every value of `dtype` may be stored under the casting policy."""
        name = _NAME_OF_NUMBER.get(dtype.num) or dtype.newbyteorder("=").name
        return name == self.dtype or (name in _DTYPE_SPECS and scal.upcast(self.dtype, name) == self.dtype)

    def value_validity_msg(self, a: Any) -> str:
        """Return the reason why `a` is not a valid value of this type, or ``'value is valid'``."""
        try:
            self.filter(a, strict=True)
        except Exception as exc:
            return str(exc)
        return "value is valid"

    def filter_variable(self, other: Any, allow_convert: bool = True) -> Any:
        """Return `other` as a variable of this type.

        Parameters
        ----------
        other : Variable or array_like
            A value becomes a constant of this type.
        allow_convert : bool
            Whether to try `convert_variable`.

        Raises
        ------
        TypeError
            If `other` cannot be converted.
        """
        if hasattr(other, "_as_TensorVariable"):
            other = other._as_TensorVariable()
        if not isinstance(other, Variable):
            other = self.Constant(type=self, data=self.filter(other))
        if other.type == self:
            return other
        if allow_convert:
            converted = self.convert_variable(other)
            if converted is not None and converted.type == self:
                return converted
        raise TypeError(
            "Cannot convert Type %(given)s (of Variable %(var)s) into Type %(self)s. "
            "You can try to manually convert %(var)s into a %(self)s." % dict(given=other.type, var=other, self=self)
        )

    def convert_variable(self, var: Any) -> Any:
        """Return `var`, converted to the broadcast pattern of this type. Return None if this is impossible.

        The conversion requires the same dtype and rank. Each dimension that is broadcastable in this type must also be
        broadcastable in `var`.
        """
        if (
            type(self) is type(var.type)
            and self.dtype == var.type.dtype
            and self.ndim == var.type.ndim
            and all(mine == theirs or theirs for mine, theirs in zip(self.broadcastable, var.type.broadcastable))
        ):
            return rebroadcast(var, dict(enumerate(self.broadcastable)))
        return None

    @staticmethod
    def may_share_memory(a: Any, b: Any) -> bool:
        """Return True if two values may overlap in memory. Values that are not ndarrays do not overlap."""
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return np.may_share_memory(a, b)
        return False

    @staticmethod
    def values_eq(a: Any, b: Any, force_same_dtype: bool = True) -> bool:
        """Return True if `a` and `b` have the same shape and elements (NaN equals NaN).

        They must also have the same dtype, unless `force_same_dtype` is False.
        """
        if a.shape != b.shape:
            return False
        if force_same_dtype and a.dtype != b.dtype:
            return False
        equal = a == b
        if np.all(equal):
            return True
        if a.dtype.kind not in "fc" or b.dtype.kind not in "fc":
            return False
        return bool(np.all(equal | ((a != a) & (b != b))))

    @staticmethod
    def values_eq_approx(
        a: Any,
        b: Any,
        allow_remove_inf: bool = False,
        allow_remove_nan: bool = False,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> bool:
        """See the function `values_eq_approx` of this module."""
        return values_eq_approx(a, b, allow_remove_inf, allow_remove_nan, rtol, atol)

    def native_layout(self):
        """Return NumPy's type number and the rank of the values, for C thunks: ``number << 8 | ndim``."""
        return self.numpy_dtype.num << 8 | self.ndim

    def get_shape_info(self, obj):
        """Return the shape of the value `obj`. See `get_size`."""
        return obj.shape

    def get_size(self, shape_info):
        """Return the number of data bytes of a value, given `shape_info`, the result of `get_shape_info`."""
        size = self.numpy_dtype.itemsize
        for length in shape_info:
            size *= int(length)
        return size

    def value_zeros(self, shape: Any) -> np.ndarray:
        """Return an ndarray of zeros of this dtype."""
        return np.zeros(shape, dtype=self.dtype)

    # -- classic C code ------------------------------------------------------------------------------------------

    def c_element_type(self):
        return self.dtype_specs()[1]

    def c_declare(self, name, sub, check_input=True):
        # Declare the type `dtype_<name>` even if `check_input` is False, because the C code of Ops uses this type.
        return """
        PyArrayObject* %(name)s;
        typedef %(ctype)s dtype_%(name)s;
        """ % dict(name=name, ctype=self.dtype_specs()[1])

    def c_init(self, name, sub):
        return """
        %(name)s = NULL;
        """ % dict(name=name)

    def c_extract(self, name, sub, check_input=True):
        check = ""
        if check_input:
            check = """
            if (py_%(name)s == Py_None) {
                PyErr_SetString(PyExc_ValueError, "expected an ndarray, not None");
                %(fail)s
            }
            if (!PyArray_Check(py_%(name)s)) {
                PyErr_Format(PyExc_ValueError, "expected an ndarray, not a value of type %%s", Py_TYPE(py_%(name)s)->tp_name);
                %(fail)s
            }
            if (!PyArray_ISALIGNED((PyArrayObject*) py_%(name)s)) {
                PyErr_Format(PyExc_NotImplementedError,
                             "expected an aligned array of type %%ld (%(typenum)s), got non-aligned array of type %%ld"
                             " with %%ld dimensions", (long) %(typenum)s,
                             (long) PyArray_TYPE((PyArrayObject*) py_%(name)s),
                             (long) PyArray_NDIM((PyArrayObject*) py_%(name)s));
                %(fail)s
            }
            if (!PyArray_ISNOTSWAPPED((PyArrayObject*) py_%(name)s)) {
                PyErr_SetString(PyExc_NotImplementedError,
                                "expected an array in this machine's byte order, got one in the other byte order; without"
                                " trust_input, the function converts it");
                %(fail)s
            }
            if (PyArray_TYPE((PyArrayObject*) py_%(name)s) != %(typenum)s) {
                PyErr_Format(PyExc_TypeError, "expected type_num %%d (%(typenum)s) got %%d",
                             %(typenum)s, PyArray_TYPE((PyArrayObject*) py_%(name)s));
                %(fail)s
            }
            if (PyArray_NDIM((PyArrayObject*) py_%(name)s) != %(ndim)d) {
                PyErr_Format(PyExc_ValueError, "expected an ndarray with %%d dimensions, got %%d", %(ndim)d,
                             PyArray_NDIM((PyArrayObject*) py_%(name)s));
                %(fail)s
            }
            """
        return (
            "%(name)s = NULL;\n"
            + check
            + """
        %(name)s = (PyArrayObject*)(py_%(name)s);
        Py_XINCREF(%(name)s);
        """
        ) % dict(name=name, typenum=self.dtype_specs()[2], fail=sub["fail"], ndim=self.ndim)

    def c_extract_out(self, name, sub, check_input=True):
        return """
        if (py_%(name)s == Py_None) {
            %(init)s
        } else {
            %(extract)s
        }
        """ % dict(name=name, init=self.c_init(name, sub), extract=self.c_extract(name, sub, check_input))

    def c_sync(self, name, sub):
        return """
        if (!%(name)s) {
            Py_XDECREF(py_%(name)s);
            Py_INCREF(Py_None);
            py_%(name)s = Py_None;
        } else if ((void*) py_%(name)s != (void*) %(name)s) {
            Py_XDECREF(py_%(name)s);
            py_%(name)s = (PyObject*) %(name)s;
            Py_INCREF(py_%(name)s);
        }
        if (%(name)s && !PyArray_ISALIGNED((PyArrayObject*) py_%(name)s)) {
            PyErr_Format(PyExc_NotImplementedError,
                         "c_sync: expected an aligned array of type %%ld (%(typenum)s), got a non-aligned array with %%ld dimensions",
                         (long) %(typenum)s, (long) PyArray_NDIM((PyArrayObject*) py_%(name)s));
            %(fail)s
        }
        """ % dict(name=name, typenum=self.dtype_specs()[2], fail=sub["fail"])

    def c_cleanup(self, name, sub):
        return """
        if (%(name)s) {
            Py_XDECREF(%(name)s);
        }
        """ % dict(name=name)

    # The scalar type of the elements. The methods below return the support code, headers, libraries and compiler
    # options of this scalar type.
    _element = property(lambda self: scal.get_scalar_type(self.dtype))

    def c_support_code(self):
        return self._element.c_support_code()

    def c_init_code(self):
        return self._element.c_init_code()

    def c_headers(self, c_compiler):
        return self._element.c_headers(c_compiler)

    def c_libraries(self, c_compiler):
        return self._element.c_libraries(c_compiler)

    def c_compile_args(self, c_compiler):
        return self._element.c_compile_args(c_compiler)

    def c_code_cache_version(self):
        scalar_version = self._element.c_code_cache_version()
        return (2,) + scalar_version if scalar_version else ()


def _short(value):
    """Return `value` as text for an error message. The text is truncated to at most 100 characters."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 100 else text[:90] + " ..."


def get_atol_rtol(a, b):
    """Return the tolerances ``(atol, rtol)`` for a comparison of two arrays.

    The less precise of the two dtypes determines the tolerances.

    If the flag `config.tensor.cmp_sloppy` is 1 or 2, the tolerances are larger.
    """
    sloppy = config.tensor.cmp_sloppy
    table = _TOLERANCES[min(max(int(sloppy), 0), 2)]
    # The number of bits of a float, or of one part of a complex number. Other dtypes count as 128 bits, so that the
    # other array determines the tolerances. If neither array is float or complex, the tolerances of float64 are used.
    bits = min(
        8 * x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1) if x.dtype.kind in "fc" else 128 for x in (a, b)
    )
    if bits in (16, 32, 64):
        return table["float%d" % bits]
    return (1e-8, 1e-5) if sloppy == 0 else table["float64"]


def values_eq_approx(
    a: Any,
    b: Any,
    allow_remove_inf: bool = False,
    allow_remove_nan: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Return True if two arrays have the same shape and dtype, and if their elements are equal up to rounding.

    Parameters
    ----------
    a, b : numpy.ndarray
        The reference value, and the value to check.
    allow_remove_inf, allow_remove_nan : bool
        If `allow_remove_inf` is True, `b` may have any value where `a` is infinite. If `allow_remove_nan` is True, `b`
        may have any value where `a` is NaN.
    rtol, atol : float, optional
        The tolerances: ``|a - b| <= atol + rtol * |b|`` is accepted. The default is the result of `get_atol_rtol`.

    Notes
    -----
    NaN equals NaN, and an infinity equals the infinity of the same sign. Integers and bools are compared exactly.
    """
    if not (isinstance(a, (np.ndarray, np.generic)) and isinstance(b, (np.ndarray, np.generic))):
        return False
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.all(a == b))
    default_atol, default_rtol = get_atol_rtol(a, b)
    atol = default_atol if atol is None else atol
    rtol = default_rtol if rtol is None else rtol
    if a.dtype == np.float16:
        a, b = a.astype("float32"), b.astype("float32")
    with np.errstate(invalid="ignore", over="ignore"):
        finite_b = np.where(np.isfinite(b), np.abs(b), 0)
        agree = np.abs(a - b) <= atol + rtol * finite_b
        agree |= a == b
    nan_a = np.isnan(a)
    agree |= nan_a & np.isnan(b)
    if allow_remove_inf:
        agree |= np.isinf(a)
    if allow_remove_nan:
        agree |= nan_a
    return bool(np.all(agree))


ports.arrays_nearly_equal.fill(values_eq_approx)


def values_eq_approx_remove_inf(a, b):
    """Compare as `values_eq_approx`, but allow that a rewrite has replaced infinities by other values."""
    return values_eq_approx(a, b, allow_remove_inf=True)


def values_eq_approx_remove_nan(a, b):
    """Compare as `values_eq_approx`, but allow that a rewrite has replaced NaN by other values."""
    return values_eq_approx(a, b, allow_remove_nan=True)


def values_eq_approx_remove_inf_nan(a, b):
    """Compare as `values_eq_approx`, but allow that a rewrite has replaced infinities and NaN by other values."""
    return values_eq_approx(a, b, allow_remove_inf=True, allow_remove_nan=True)


def values_eq_approx_always_true(a, b):
    """Return True for every pair of values. This function is for values that are not reproducible."""
    return True
