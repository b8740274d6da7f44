"""Element types: their names in kernels, and type promotion."""

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu.gpuarray import dtype_to_ctype

__all__ = [
    "NAME_TO_DTYPE",
    "dtype_to_ctype",
    "get_common_dtype",
    "get_np_obj",
    "parse_c_arg_backend",
    "register_dtype",
    "upcast",
]

# C type names in arguments of `ReductionKernel` -> dtype.
NAME_TO_DTYPE = {}


def register_dtype(dtype, c_names):
    """Register C names for a dtype.

    Parameters
    ----------
    dtype : dtype
    c_names : str or sequence of str

    Raises
    ------
    RuntimeError
        If a name is already registered for another dtype.
    """
    dtype = np.dtype(dtype)
    for name in [c_names] if isinstance(c_names, str) else c_names:
        if NAME_TO_DTYPE.setdefault(name, dtype) != dtype:
            raise RuntimeError("name %r is already registered for %s" % (name, NAME_TO_DTYPE[name]))


for _name, _names in {
    "bool": ("bool", "ga_bool"),
    "int8": ("signed char", "char", "ga_byte"),
    "uint8": ("unsigned char", "ga_ubyte"),
    "int16": ("short", "short int", "signed short", "ga_short"),
    "uint16": ("unsigned short", "unsigned short int", "ga_ushort"),
    "int32": ("int", "signed int", "ga_int"),
    "uint32": ("unsigned", "unsigned int", "ga_uint"),
    "int64": ("long", "long int", "long long", "ga_long"),
    "uint64": ("unsigned long", "unsigned long int", "unsigned long long", "ga_ulong"),
    "float16": ("half", "ga_half"),
    "float32": ("float", "ga_float"),
    "float64": ("double", "ga_double"),
    "complex64": ("ga_cfloat",),
    "complex128": ("ga_cdouble",),
}.items():
    register_dtype(_name, _names)


def upcast(*dtypes):
    """Return the dtype to which NumPy promotes the given dtypes together.

    Examples
    --------
    >>> upcast("int32", "float32")
    dtype('float64')
    """
    return np.result_type(*[np.dtype(dtype) for dtype in dtypes])


def get_np_obj(obj):
    """Return a NumPy array with the dtype of `obj` and one element, which NumPy's promotion functions accept."""
    dtype = getattr(obj, "dtype", None)
    if getattr(obj, "shape", ()) == () and not isinstance(obj, gpuarray.GpuArray):
        return np.asarray(obj)
    return np.ones(1, dtype=dtype)


def get_common_dtype(obj1, obj2, allow_double):
    """Return the result dtype of an operation on two objects.

    Parameters
    ----------
    obj1, obj2 : GpuArray, array or number
        A Python number has less influence than an array: the array's dtype is kept if it can hold numbers of that kind.
    allow_double : bool
        If False, float64 becomes float32, and complex128 becomes complex64.
    """
    first, second = [_kind(obj) for obj in (obj1, obj2)]
    result = np.result_type(first, second)
    if not allow_double:
        result = {"float64": np.dtype("float32"), "complex128": np.dtype("complex64")}.get(result.name, result)
    return result


def _kind(obj):
    return obj if isinstance(obj, (bool, int, float, complex)) else np.dtype(obj.dtype)


def parse_c_arg_backend(c_arg, scalar_arg_class, vec_arg_class):
    """Parse the C declaration of an argument.

    Parameters
    ----------
    c_arg : str
        A declaration such as ``"float *x"`` or ``"const unsigned int n"``.
    scalar_arg_class, vec_arg_class : class
        The classes of the results for scalars and for pointers. They are called with a dtype and a name.

    Raises
    ------
    ValueError
        If the type is unknown, or there is no name.
    """
    words = c_arg.replace("*", " * ").replace("const", " ").replace("volatile", " ").split()
    if len(words) < 2 or not words[-1].isidentifier():
        raise ValueError("%r is not a C argument: expected a type and a name" % (c_arg,))
    *kind, name = words
    pointer = "*" in kind
    kind = " ".join(word for word in kind if word not in ("*", "GLOBAL_MEM", "__global"))
    if kind not in NAME_TO_DTYPE:
        raise ValueError("unknown type %r of argument %r" % (kind, c_arg))
    return (vec_arg_class if pointer else scalar_arg_class)(NAME_TO_DTYPE[kind], name)
