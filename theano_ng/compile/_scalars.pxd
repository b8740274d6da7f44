"""Fast conversion of Python numbers, NumPy scalars and 0-d arrays of another dtype to 0-d arrays.

These functions convert numbers that the dtype can represent exactly, and round floats to float32. For numbers that do
not fit, and for all other objects, the caller uses the Type's `filter`.
"""
cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject


cdef extern from "Python.h":
    bint is_float "PyFloat_CheckExact"(PyObject *value) noexcept
    double float_value "PyFloat_AS_DOUBLE"(PyObject *value) noexcept
    bint is_int "PyLong_CheckExact"(PyObject *value) noexcept
    long long int_value "PyLong_AsLongLongAndOverflow"(PyObject *value, int *overflow) except? -1
    bint is_bool "PyBool_Check"(PyObject *value) noexcept
    PyTypeObject *Py_TYPE(PyObject *value) noexcept
    PyObject *Py_True

cdef extern from "math.h":
    double floor(double) noexcept
    double fabs(double) noexcept
    double ldexp(double, int) noexcept
    double frexp(double, int *exponent) noexcept
    bint signbit(double) noexcept
    bint isfinite(double) noexcept

cdef extern from "numpy/arrayobject.h":
    ctypedef struct Array "PyArrayObject":
        pass
    int array_type "PyArray_TYPE"(Array *array) noexcept
    int array_ndim "PyArray_NDIM"(Array *array) noexcept
    bint array_behaved "PyArray_ISBEHAVED_RO"(Array *array) noexcept
    void *array_data "PyArray_DATA"(Array *array) noexcept
    bint is_exact_array "PyArray_CheckExact"(PyObject *value) noexcept
    void scalar_value "PyArray_ScalarAsCtype"(PyObject *scalar, void *value) noexcept
    PyTypeObject PyBoolArrType_Type, PyByteArrType_Type, PyUByteArrType_Type, PyShortArrType_Type, PyUShortArrType_Type
    PyTypeObject PyIntArrType_Type, PyUIntArrType_Type, PyLongArrType_Type, PyULongArrType_Type
    PyTypeObject PyLongLongArrType_Type, PyULongLongArrType_Type, PyFloatArrType_Type, PyDoubleArrType_Type

cdef enum:
    BOOLEAN
    INTEGER
    REAL

cdef struct Number:
    int kind
    long long integer       # the value, if `kind` is BOOLEAN or INTEGER
    double real             # the value, if `kind` is REAL


cdef inline bint load(const void *data, int typenum, Number *number) noexcept:
    """Read a number of a NumPy type. Return False for other types, and if the value is too large for a long long."""
    number.kind = INTEGER
    if typenum == cnp.NPY_DOUBLE:
        number.kind, number.real = REAL, (<const double *>data)[0]
    elif typenum == cnp.NPY_FLOAT:
        number.kind, number.real = REAL, (<const float *>data)[0]
    elif typenum == cnp.NPY_LONG:
        number.integer = (<const long *>data)[0]
    elif typenum == cnp.NPY_INT:
        number.integer = (<const int *>data)[0]
    elif typenum == cnp.NPY_BOOL:
        number.kind, number.integer = BOOLEAN, (<const cnp.npy_bool *>data)[0] != 0
    elif typenum == cnp.NPY_BYTE:
        number.integer = (<const signed char *>data)[0]
    elif typenum == cnp.NPY_UBYTE:
        number.integer = (<const unsigned char *>data)[0]
    elif typenum == cnp.NPY_SHORT:
        number.integer = (<const short *>data)[0]
    elif typenum == cnp.NPY_USHORT:
        number.integer = (<const unsigned short *>data)[0]
    elif typenum == cnp.NPY_UINT:
        number.integer = (<const unsigned int *>data)[0]
    elif typenum == cnp.NPY_LONGLONG:
        number.integer = (<const long long *>data)[0]
    elif typenum == cnp.NPY_ULONG:
        number.integer = <long long>(<const unsigned long *>data)[0]
        return number.integer >= 0
    elif typenum == cnp.NPY_ULONGLONG:
        number.integer = <long long>(<const unsigned long long *>data)[0]
        return number.integer >= 0
    else:
        return False
    return True


cdef inline int scalar_type(PyObject *value) noexcept:
    """Return the type number of a NumPy scalar. Return -1 for objects of other classes, also for subclasses of scalars.
    """
    cdef PyTypeObject *kind = Py_TYPE(value)
    if kind == &PyDoubleArrType_Type:
        return cnp.NPY_DOUBLE
    if kind == &PyLongArrType_Type:
        return cnp.NPY_LONG
    if kind == &PyFloatArrType_Type:
        return cnp.NPY_FLOAT
    if kind == &PyIntArrType_Type:
        return cnp.NPY_INT
    if kind == &PyBoolArrType_Type:
        return cnp.NPY_BOOL
    if kind == &PyByteArrType_Type:
        return cnp.NPY_BYTE
    if kind == &PyUByteArrType_Type:
        return cnp.NPY_UBYTE
    if kind == &PyShortArrType_Type:
        return cnp.NPY_SHORT
    if kind == &PyUShortArrType_Type:
        return cnp.NPY_USHORT
    if kind == &PyUIntArrType_Type:
        return cnp.NPY_UINT
    if kind == &PyULongArrType_Type:
        return cnp.NPY_ULONG
    if kind == &PyLongLongArrType_Type:
        return cnp.NPY_LONGLONG
    if kind == &PyULongLongArrType_Type:
        return cnp.NPY_ULONGLONG
    return -1


cdef inline bint read(PyObject *value, unsigned int held, Number *number) except -1:
    """Read an argument as a number. Return False if the argument is not a number, or is too large for a long long.

    Bit n of `held` is set if 0-d arrays of type number n are accepted.
    """
    cdef int overflow = 0, typenum
    cdef long long room[2]      # large enough for the widest scalar
    cdef Array *array
    number.integer, number.real = 0, 0
    if is_float(value):
        number.kind, number.real = REAL, float_value(value)
        return True
    if is_int(value):
        number.kind, number.integer = INTEGER, int_value(value, &overflow)
        return overflow == 0
    if is_bool(value):
        number.kind, number.integer = BOOLEAN, value == Py_True
        return True
    if is_exact_array(value):
        array = <Array *>value
        typenum = array_type(array)
        return (array_ndim(array) == 0 and typenum < 32 and (held >> typenum) & 1 and array_behaved(array)
                and load(array_data(array), typenum, number))
    typenum = scalar_type(value)
    if typenum < 0:
        return False
    scalar_value(value, room)
    return load(room, typenum, number)


cdef inline bint in_range(long long value, int typenum) noexcept:
    """Return True if an integer type can hold a value."""
    if typenum == cnp.NPY_LONG or typenum == cnp.NPY_LONGLONG:
        return True
    if typenum == cnp.NPY_ULONG or typenum == cnp.NPY_ULONGLONG:
        return value >= 0
    if typenum == cnp.NPY_INT:
        return -2147483648LL <= value <= 2147483647LL
    if typenum == cnp.NPY_UINT:
        return 0 <= value <= 4294967295LL
    if typenum == cnp.NPY_SHORT:
        return -32768 <= value <= 32767
    if typenum == cnp.NPY_USHORT:
        return 0 <= value <= 65535
    if typenum == cnp.NPY_BYTE:
        return -128 <= value <= 127
    return typenum == cnp.NPY_UBYTE and 0 <= value <= 255


cdef inline int half_bits(double value) noexcept:
    """Return the bits of a number as a float16. Return -1 if the number is NaN or would have to be rounded."""
    cdef int exponent, sign = 0x8000 if signbit(value) else 0
    cdef double rest
    value = fabs(value)
    if value == 0:
        return sign
    if not isfinite(value):
        return sign | 0x7c00 if value == value else -1
    rest = frexp(value, &exponent)
    if exponent > 16:
        return -1
    # Below 2**-14 (subnormal numbers) the distance between float16 numbers is constant. For normal numbers the leading
    # bit of `value` adds 1 to the exponent field, so the bias that is added explicitly is 13 instead of 14.
    exponent = max(exponent, -13)
    value = ldexp(value, 11 - exponent)
    return -1 if floor(value) != value else sign | ((exponent + 13) << 10) + <int>value


cdef inline bint fits_exactly(Number *number, int typenum) noexcept:
    """Return True if a NumPy type can hold a number exactly. The type bool holds only booleans.

    As a side effect, convert the number to the kind of the type.
    """
    if typenum == cnp.NPY_BOOL:
        return number.kind == BOOLEAN
    if typenum == cnp.NPY_DOUBLE or typenum == cnp.NPY_FLOAT or typenum == cnp.NPY_FLOAT16:
        if number.kind != REAL:
            number.kind, number.real = REAL, <double>number.integer
            if fabs(number.real) > 9007199254740992.:
                return False
        if typenum == cnp.NPY_FLOAT16:
            return half_bits(number.real) >= 0
        return typenum == cnp.NPY_DOUBLE or number.real != number.real or <double><float>number.real == number.real
    if number.kind == REAL:
        if not (fabs(number.real) < 9007199254740992. and floor(number.real) == number.real):
            return False
        number.kind, number.integer = INTEGER, <long long>number.real
    return in_range(number.integer, typenum)


cdef inline cnp.ndarray as_array(Number *number, int typenum):
    """Return a new 0-d array of a number that `fits_exactly` accepted, or of a REAL that is rounded to float32."""
    cdef cnp.ndarray array = cnp.PyArray_SimpleNew(0, NULL, typenum)
    cdef void *data = cnp.PyArray_DATA(array)
    if typenum == cnp.NPY_DOUBLE:
        (<double *>data)[0] = number.real
    elif typenum == cnp.NPY_FLOAT:
        (<float *>data)[0] = <float>number.real
    elif typenum == cnp.NPY_FLOAT16:
        (<unsigned short *>data)[0] = half_bits(number.real)
    elif typenum in (cnp.NPY_LONG, cnp.NPY_ULONG, cnp.NPY_LONGLONG, cnp.NPY_ULONGLONG):
        (<long long *>data)[0] = number.integer
    elif typenum in (cnp.NPY_INT, cnp.NPY_UINT):
        (<int *>data)[0] = <int>number.integer
    elif typenum in (cnp.NPY_SHORT, cnp.NPY_USHORT):
        (<short *>data)[0] = <short>number.integer
    else:
        (<signed char *>data)[0] = <signed char>number.integer
    return array
