"""Scalar types, and the wrapping of Python and NumPy numbers."""

import functools

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.graph import Variable
from theano_ng.gof.type import Type
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.variables import ScalarConstant, ScalarVariable


class ComplexError(NotImplementedError):
    """The exception for an operation that is not defined for complex numbers."""


class IntegerDivisionError(Exception):
    """The exception for a division of two integers with ``/`` while ``config.int_division`` is ``'raise'``."""


# dtype -> (class of the NumPy scalars, C type, prefix of the name of the NumPy array scalar type object in C)
DTYPE_SPECS = {
    "float16": (np.float16, "npy_float16", "Half"),
    "float32": (np.float32, "npy_float32", "Float32"),
    "float64": (np.float64, "npy_float64", "Float64"),
    "complex64": (np.complex64, "theano_complex64", "Complex64"),
    "complex128": (np.complex128, "theano_complex128", "Complex128"),
    "bool": (np.bool_, "npy_bool", "Bool"),
    "uint8": (np.uint8, "npy_uint8", "UInt8"),
    "int8": (np.int8, "npy_int8", "Int8"),
    "uint16": (np.uint16, "npy_uint16", "UInt16"),
    "int16": (np.int16, "npy_int16", "Int16"),
    "uint32": (np.uint32, "npy_uint32", "UInt32"),
    "int32": (np.int32, "npy_int32", "Int32"),
    "uint64": (np.uint64, "npy_uint64", "UInt64"),
    "int64": (np.int64, "npy_int64", "Int64"),
}


def c_type(dtype):
    """Return the C type that holds one element of `dtype`.

    Parameters
    ----------
    dtype : str

    Returns
    -------
    str
        For example ``'npy_float64'``.
    """
    return DTYPE_SPECS[dtype][1]


@functools.lru_cache(maxsize=4096)
def _upcast(dtypes, floatX, cast_policy):
    result = np.result_type(*dtypes).name
    if result == "float64" and cast_policy == "numpy+floatX" and floatX == "float32" and "float64" not in dtypes:
        # Under the policy numpy+floatX, the result is float64 only if an operand is float64.
        return "float32"
    return result


def upcast(dtype, *dtypes):
    """Return the smallest dtype that can represent the values of all given dtypes.

    Parameters
    ----------
    dtype, *dtypes : str

    Returns
    -------
    str
        The dtype of NumPy's promotion, with one exception. If ``config.cast_policy`` is 'numpy+floatX' and
        ``config.floatX`` is 'float32', the result is float64 only if an argument is float64.
    """
    return _upcast((str(dtype),) + tuple(map(str, dtypes)), config.floatX, config.cast_policy)


class Scalar(Type):
    """The type of one number of a given dtype.

    The value is a NumPy scalar in Python, and a primitive type in C.

    Parameters
    ----------
    dtype : str
        One of bool, [u]int8 ... [u]int64, float16, float32, float64, complex64, complex128. ``'floatX'`` means
        ``config.floatX``.
    """

    __props__ = ("dtype",)
    ndim = 0

    def __init__(self, dtype):
        dtype = str(dtype)
        if dtype == "floatX":
            dtype = config.floatX
        if dtype not in DTYPE_SPECS:
            raise TypeError(
                "Unsupported dtype for Scalar: %r; expected one of %s" % (dtype, ", ".join(sorted(DTYPE_SPECS)))
            )
        self.dtype = dtype
        self._hash = hash((Scalar, dtype))

    def __eq__(self, other):
        return self is other or (type(self) is type(other) and self.dtype == other.dtype)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self._hash

    def __reduce__(self):
        return (get_scalar_type, (self.dtype,)) if type(self) is Scalar else (type(self), (self.dtype,))

    def __setstate__(self, state):
        self.__init__(state["dtype"])  # pickles that Theano wrote contain such a state

    def __str__(self):
        return str(self.dtype)

    def __repr__(self):
        return "Scalar(%s)" % self.dtype

    @staticmethod
    def may_share_memory(a, b):
        """Return False. NumPy scalars are immutable, so shared memory has no effect."""
        return False

    def filter(self, data, strict=False, allow_downcast=None):
        """Convert `data` to a NumPy scalar of this dtype.

        Parameters
        ----------
        data : number, NumPy scalar or 0-d array
        strict : bool
            If True, accept only a scalar that has exactly this dtype.
        allow_downcast : bool or None
            If True, convert even with a loss of precision. If False, convert only without loss. If None, convert
            without loss, or convert a Python float to floatX.

        Raises
        ------
        TypeError
            If `data` is not one number, or if `strict` or `allow_downcast` forbids the conversion.
        """
        scalar_class = DTYPE_SPECS[self.dtype][0]
        if type(data) is scalar_class:
            return data
        if strict:
            raise TypeError("%s expected a %s, got %r (%s)" % (self, scalar_class, data, type(data)), data)
        try:
            array = np.asarray(data)
            if array.ndim != 0 or array.dtype.kind not in "biufc":
                raise TypeError
            if array.dtype.kind == "c" and self.dtype not in ("complex64", "complex128"):
                raise TypeError
            with np.errstate(all="ignore"):
                converted = array.astype(self.dtype)[()]
        except (TypeError, ValueError, OverflowError):
            raise TypeError(
                "Could not convert %r (%s) to %s: expected one number" % (data, type(data), self), data
            ) from None
        if (
            allow_downcast
            or (allow_downcast is None and type(data) is float and self.dtype == config.floatX)
            or array == converted
            or (array != array and converted != converted)
        ):
            return converted
        raise TypeError(
            "Value cannot accurately be converted to dtype (%s) and allow_downcast is not True" % self.dtype, data
        )

    def values_eq(self, a, b):
        """Return True if `a` and `b` are exactly equal. Two NaN are equal."""
        return bool(a == b) or bool(a != a and b != b)

    def values_eq_approx(self, a, b, tolerance=1e-4):
        """Return True if `a` and `b` differ by at most ``tolerance * (|a| + |b|)``.

        NaN and infinities must be equal.
        """
        if self.values_eq(a, b):
            return True
        if self.dtype not in ("float16", "float32", "float64", "complex64", "complex128"):
            return False
        a, b = np.complex128(a), np.complex128(b)
        if not (np.isfinite(a) and np.isfinite(b)):
            return False
        return bool(abs(a - b) <= (abs(a) + abs(b)) * tolerance)

    def make_variable(self, name=None):
        return ScalarVariable(self, name=name)

    def upcast(self, *others):
        """Return the smallest dtype that can represent the values of this type and of the types `others`."""
        return upcast(self.dtype, *[other.dtype for other in others])

    def clone(self, dtype=None):
        """Return the scalar type of `dtype`. The default is the dtype of this type."""
        return get_scalar_type(self.dtype if dtype is None else dtype)

    def get_shape_info(self, obj):
        return obj.itemsize

    def get_size(self, shape_info):
        return shape_info

    # C side

    def dtype_specs(self):
        """Return (NumPy scalar class, C type, prefix of the array scalar type in C)."""
        return DTYPE_SPECS[self.dtype]

    def c_element_type(self):
        return self.dtype_specs()[1]

    def c_is_simple(self):
        return True

    def c_headers(self, c_compiler=None):
        return ["<math.h>", "<numpy/arrayscalars.h>"]

    def c_libraries(self, c_compiler=None):
        return []

    def c_compile_args(self, c_compiler=None):
        return []

    def c_literal(self, data):
        """Return a C expression for the value `data`."""
        return c_literal(self.dtype, data)

    def c_declare(self, name, sub, check_input=True):
        code = "%s %s;\n" % (self.dtype_specs()[1], name)
        if check_input:
            code += "typedef %s dtype_%s;\n" % (self.dtype_specs()[1], name)
        return code

    def c_init(self, name, sub):
        return "%s = 0;\n" % name

    def c_extract(self, name, sub, check_input=True):
        code = ""
        if check_input:
            code = """
            if (!PyObject_TypeCheck(py_%(name)s, &Py%(kind)sArrType_Type)) {
                PyErr_Format(PyExc_ValueError, "expected a NumPy scalar of dtype %(dtype)s, got an instance of '%%s'",
                             Py_TYPE(py_%(name)s)->tp_name);
                %(fail)s
            }
            """ % {"name": name, "kind": self.dtype_specs()[2], "dtype": self.dtype, "fail": sub["fail"]}
        return code + "PyArray_ScalarAsCtype(py_%s, &%s);\n" % (name, name)

    def c_sync(self, name, sub):
        return """
        Py_XDECREF(py_%(name)s);
        {
            PyArray_Descr* descr_%(name)s = PyArray_DescrFromType(NPY_%(typenum)s);
            py_%(name)s = descr_%(name)s ? PyArray_Scalar(&%(name)s, descr_%(name)s, NULL) : NULL;
            Py_XDECREF(descr_%(name)s);
        }
        if (!py_%(name)s) {
            Py_INCREF(Py_None);
            py_%(name)s = Py_None;
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_MemoryError, "could not make a NumPy scalar of dtype %(dtype)s");
            }
            %(fail)s
        }
        """ % {"name": name, "dtype": self.dtype, "typenum": self.dtype.upper(), "fail": sub["fail"]}

    def c_cleanup(self, name, sub):
        return ""

    def c_init_code(self):
        return ["import_array();"]

    def c_code_cache_version(self):
        return (1, np.__version__)


def c_literal(dtype, data):
    """Return a C expression, valid as C11 and as C++, for the scalar `data` of dtype `dtype`.

    Raises
    ------
    MethodNotDefined
        For float16, because its C type contains bits, not a value.
    """
    ctype = c_type(dtype)
    if dtype == "float16":
        raise MethodNotDefined("c_literal", Scalar, dtype)
    if dtype.startswith("complex"):
        part = {"complex64": "float32", "complex128": "float64"}[dtype]
        re, im = c_literal(part, data.real), c_literal(part, data.imag)
        # Assign the parts separately: in a sum, ``inf * 1.0i`` would add NaN to the real part.
        return "__extension__ ({ %s tng_z; TNG_RE(tng_z) = %s; TNG_IM(tng_z) = %s; tng_z; })" % (ctype, re, im)
    if dtype.startswith("float"):
        value = float(data)
        if value != value:
            text = '__builtin_nan("")'
        elif value in (float("inf"), float("-inf")):
            text = "__builtin_inf()" if value > 0 else "-__builtin_inf()"
        else:
            text = repr(value)
        return "((%s)%s)" % (ctype, text)
    value = int(data)
    if dtype == "uint64":
        return "((npy_uint64)%dULL)" % value
    if value == -(2**63):
        return "((npy_int64)(-9223372036854775807LL - 1))"
    return "((%s)%dLL)" % (ctype, value) if abs(value) >= 2**31 else "((%s)%d)" % (ctype, value)


Scalar.Variable = ScalarVariable
Scalar.Constant = ScalarConstant


@functools.cache
def _cached_scalar_type(dtype):
    return Scalar(dtype)


def get_scalar_type(dtype):
    """Return the cached `Scalar` of a dtype.

    Parameters
    ----------
    dtype : str
    """
    dtype = str(dtype)
    return _cached_scalar_type(config.floatX if dtype == "floatX" else dtype)


bool_ = get_scalar_type("bool")
int8 = get_scalar_type("int8")
int16 = get_scalar_type("int16")
int32 = get_scalar_type("int32")
int64 = get_scalar_type("int64")
uint8 = get_scalar_type("uint8")
uint16 = get_scalar_type("uint16")
uint32 = get_scalar_type("uint32")
uint64 = get_scalar_type("uint64")
float16 = get_scalar_type("float16")
float32 = get_scalar_type("float32")
float64 = get_scalar_type("float64")
complex64 = get_scalar_type("complex64")
complex128 = get_scalar_type("complex128")
# The scalar type of the C type ``int``, for parameters such as type codes.
int_t = get_scalar_type(np.dtype(np.intc).name)

int_types = (int8, int16, int32, int64)
uint_types = (uint8, uint16, uint32, uint64)
float_types = (float16, float32, float64)
complex_types = (complex64, complex128)
integer_types = int_types + uint_types
discrete_types = (bool_,) + integer_types
continuous_types = float_types + complex_types
all_types = discrete_types + continuous_types

discrete_dtypes = tuple(t.dtype for t in discrete_types)


class NumpyAutocaster:
    """A converter that gives a Python number the first dtype of a list that represents the number exactly.

    Parameters
    ----------
    dtypes : sequence of str
        The dtypes to try, in order. If no dtype is exact, the last dtype is used. float16 is tried only if it is
        ``config.floatX``.

    Notes
    -----
    Values that already have a dtype keep it. If ``config.cast_policy`` is 'numpy', Python numbers get NumPy's dtypes.
    If it is 'numpy+floatX', Python numbers get NumPy's dtypes, except that floats become floatX. Under all other
    policies, a Python float becomes floatX, even inexactly, if floatX is in `dtypes` and is not float64.
    """

    def __init__(self, dtypes):
        self.dtypes = tuple(dtypes)

    def __call__(self, x):
        """Return `x`, a number or an array, as a NumPy array."""
        if hasattr(x, "dtype"):
            return np.asarray(x)
        if config.cast_policy in ("numpy", "numpy+floatX"):
            array = np.asarray(x)
            if config.cast_policy == "numpy+floatX" and array.dtype == np.float64:
                return array.astype(config.floatX)
            return array
        if isinstance(x, float) and config.floatX in self.dtypes and config.floatX != "float64":
            return np.asarray(x, dtype=config.floatX)
        array = np.asarray(x)
        if array.dtype.kind == "u" or array.dtype.kind == "O":
            # The integer exceeds int64: the array is uint64, or has object dtype, for which the caller raises an error.
            return array
        with np.errstate(all="ignore"):
            for dtype in self.dtypes:
                if dtype == "float16" and config.floatX != "float16":
                    continue
                converted = array.astype(dtype)
                if np.all((array == converted) | ((array != array) & (converted != converted))):
                    break
        return converted


autocast_int = NumpyAutocaster(("int8", "int16", "int32", "int64"))
autocast_float = NumpyAutocaster(("float16", "float32", "float64"))


class autocast_float_as:
    """A context manager in which Python floats are converted to one of `dtypes`.

    Examples
    --------
    >>> from theano_ng.scalar import autocast_float_as, constant
    >>> with autocast_float_as('float32'):
    ...     constant(1.1).type
    Scalar(float32)
    """

    def __init__(self, *dtypes):
        self.dtypes = dtypes
        assert config.cast_policy == "custom", "autocast_float_as requires config.cast_policy == 'custom'"

    def __enter__(self):
        assert config.cast_policy == "custom"
        self.old_dtypes = autocast_float.dtypes
        autocast_float.dtypes = self.dtypes

    def __exit__(self, *exc_info):
        assert config.cast_policy == "custom"
        autocast_float.dtypes = self.old_dtypes


def convert(x, dtype=None):
    """Convert a number to a NumPy array.

    Parameters
    ----------
    x : number, array or nested list
    dtype : str, optional
        The default is the dtype of `x` if it has a dtype, and otherwise the choice of `autocast_int` or
        `autocast_float`. A bool becomes int8.

    Returns
    -------
    numpy.ndarray
    """
    if dtype is not None:
        return np.asarray(x, dtype=config.floatX if dtype == "floatX" else str(dtype))
    if hasattr(x, "dtype"):
        return np.asarray(x)
    if isinstance(x, int):  # A bool becomes int8, too, because int8 can be negated and subtracted.
        return autocast_int(x)
    if isinstance(x, float):
        return autocast_float(x)
    return np.asarray(x)


def constant(x, name=None, dtype=None):
    """Return a symbolic constant for the number `x`.

    Parameters
    ----------
    x : number or 0-d array
    name : str, optional
    dtype : str, optional

    Raises
    ------
    TypeError
        If `x` is not one number.
    """
    array = convert(x, dtype=dtype)
    if array.ndim != 0 or array.dtype.name not in DTYPE_SPECS:
        raise TypeError("scalar.constant expected one number, got %r of type %s" % (x, type(x)))
    return ScalarConstant(get_scalar_type(array.dtype.name), array[()], name=name)


def as_scalar(x, name=None):
    """Convert `x` to a scalar variable.

    Parameters
    ----------
    x : number, scalar variable, 0-d tensor variable or Apply with one output
    name : str, optional
        The name of the constant, if `x` is converted to a constant.

    Raises
    ------
    TypeError
        If `x` is not one number.
    ValueError
        If `x` is an Apply with several outputs.
    """
    if isinstance(x, Variable):
        if isinstance(x.type, Scalar):
            return x
        if getattr(x.type, "ndim", None) == 0 and hasattr(x.type, "dtype"):
            return ports.scalar_from_tensor(x)
        raise TypeError(
            "Cannot convert %s to a scalar: expected a Scalar or a 0-d tensor, got the type %s" % (x, x.type)
        )
    if hasattr(x, "owner") is False and hasattr(x, "outputs") and hasattr(x, "op"):
        if len(x.outputs) != 1:
            raise ValueError("It is ambiguous which output of a multi-output Op has to be fetched.", x)
        return as_scalar(x.outputs[0])
    try:
        return constant(x, name=name)
    except (TypeError, ValueError, OverflowError):
        raise TypeError("Cannot convert %r to a scalar: got a %s" % (x, type(x)), x, type(x)) from None


def as_common_dtype(*vars):
    """Cast scalar variables to the smallest dtype that can represent the values of all of them.

    Returns
    -------
    tuple of ScalarVariable
    """
    dtype = upcast(*[v.dtype for v in vars])
    return tuple(v.astype(dtype) for v in vars)


def _multi(*fns):
    """Return one function for each type in `fns`. Each of these functions makes one variable per name."""

    def plural(type_):
        def make(*names):
            """Make several scalar variables.

            Parameters
            ----------
            *names : str
                One name per variable. A single argument is a string with one letter per variable, or a list of names.

            Returns
            -------
            list of ScalarVariable
                A list with one variable per name. If there is only one name, the variable itself is returned.
            """
            if len(names) == 1:
                (names,) = names
            made = [type_(name) for name in names]
            return made[0] if len(made) == 1 else made

        return make

    made = [plural(fn) for fn in fns]
    return made[0] if len(made) == 1 else tuple(made)


ints = _multi(int64)
floats = _multi(float64)
complexs = _multi(complex128)
complexs64 = _multi(complex64)
complexs128 = _multi(complex128)
