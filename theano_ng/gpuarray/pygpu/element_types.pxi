# Part of gpuarray.pyx: element types.

class _Argument:
    """The type of a kernel argument that is a length or a stride.

    Parameters
    ----------
    name : str
    code : int
    """

    def __init__(self, name, code):
        self.name, self.code = name, code

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return self.name


SIZE = _Argument("SIZE", GA_SIZE)
SSIZE = _Argument("SSIZE", GA_SSIZE)

_CTYPES = {
    "bool": "ga_bool", "int8": "ga_byte", "uint8": "ga_ubyte", "int16": "ga_short", "uint16": "ga_ushort", "int32": "ga_int", "uint32": "ga_uint",
    "int64": "ga_long", "uint64": "ga_ulong", "float16": "ga_half", "float32": "ga_float", "float64": "ga_double", "complex64": "ga_cfloat",
    "complex128": "ga_cdouble",
}
_DTYPES = {
    GA_BOOL: np.dtype("bool"), GA_BYTE: np.dtype("int8"), GA_UBYTE: np.dtype("uint8"), GA_SHORT: np.dtype("int16"), GA_USHORT: np.dtype("uint16"),
    GA_INT: np.dtype("int32"), GA_UINT: np.dtype("uint32"), GA_LONG: np.dtype("int64"), GA_ULONG: np.dtype("uint64"), GA_HALF: np.dtype("float16"),
    GA_FLOAT: np.dtype("float32"), GA_DOUBLE: np.dtype("float64"), GA_CFLOAT: np.dtype("complex64"), GA_CDOUBLE: np.dtype("complex128"),
}
_TYPECODES = {dtype: code for code, dtype in _DTYPES.items()}


def dtype_to_typecode(dtype):
    """Return the C type code of an element type.

    Parameters
    ----------
    dtype : dtype or int
        An integer is returned unchanged.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If devices do not support the dtype.
    """
    if isinstance(dtype, int):
        return dtype
    code = _TYPECODES.get(np.dtype(dtype))
    if code is None:
        raise ValueError("arrays on devices do not support dtype %s" % np.dtype(dtype))
    return code


def typecode_to_dtype(typecode):
    """Return the dtype of a C type code. Raise ValueError if no dtype has this code."""
    dtype = _DTYPES.get(typecode)
    if dtype is None:
        raise ValueError("no element type has the number %r" % (typecode,))
    return dtype


def dtype_to_ctype(dtype):
    """Return the name of an element type in kernels.

    Examples
    --------
    >>> dtype_to_ctype("float32")
    'ga_float'
    """
    name = _CTYPES.get(np.dtype(dtype).name)
    if name is None:
        raise ValueError("arrays on devices do not support dtype %s" % np.dtype(dtype))
    return name


# Capabilities that kernels need.
USE_SMALL, USE_DOUBLE, USE_COMPLEX, USE_HALF = GA_USE_SMALL, GA_USE_DOUBLE, GA_USE_COMPLEX, GA_USE_HALF
MAX_DIMS = GA_MAX_DIMS
