"""Pieces of device code: types of elements, loops over the elements of strided arrays."""

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray as pygpu

TYPES = {
    "bool": "ga_bool",
    "int8": "ga_byte",
    "uint8": "ga_ubyte",
    "int16": "ga_short",
    "uint16": "ga_ushort",
    "int32": "ga_int",
    "uint32": "ga_uint",
    "int64": "ga_long",
    "uint64": "ga_ulong",
    "float16": "ga_half",
    "float32": "ga_float",
    "float64": "ga_double",
    "complex64": "ga_cfloat",
}

# What is moved and not computed with.
_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}

SIZE, SSIZE = pygpu.SIZE, pygpu.SSIZE

# The first element of a thread, and how far the next one is.
EVERY = "for (ga_size i = (ga_size)GID_0 * LDIM_0 + LID_0; i < n; i += (ga_size)LDIM_0 * GDIM_0)"


def element(dtype):
    """The device's type of the elements of arrays."""
    return TYPES[dtype]


def bits(dtype):
    """The dtype of an unsigned integer as long as an element: for what is only moved, so that kernels are the same for many types."""
    return _BITS[np.dtype(dtype).itemsize]


def number(dtype):
    """The type that elements are computed with: halves are floats then."""
    return "ga_float" if dtype == "float16" else TYPES[dtype]


def load(dtype, at):
    """Expression of the element at a pointer to bytes, as a `number`."""
    pointer = "(GLOBAL_MEM const %s *)(%s)" % (TYPES[dtype], at)
    return "load_half(%s)" % pointer if dtype == "float16" else "*" + pointer


def store(dtype, at, value):
    """Statement that puts a `number` at a pointer to bytes."""
    pointer = "(GLOBAL_MEM %s *)(%s)" % (TYPES[dtype], at)
    if dtype == "float16":
        return "store_half(%s, %s);" % (pointer, value)
    return "*%s = (%s)(%s);" % (pointer, TYPES[dtype], value)


def axes(prefix, count, operands):
    """Parameters of axes, for each its length and steps: their declarations, and their types for `DeviceKernel`.

    Parameters
    ----------
    prefix : str
        Of the names: ``<prefix>0`` is a length, ``<prefix>0_<operand>`` a step.
    count : int
    operands : sequence of str
    """
    declared, types = "", []
    for i in range(count):
        declared += ",\n    ga_size %s%d" % (prefix, i) + "".join(
            ", ga_ssize %s%d_%s" % (prefix, i, op) for op in operands
        )
        types += [SIZE] + [SSIZE] * len(operands)
    return declared, types


def walk(prefix, count, moves, last):
    """Statements that take the place along axes from the number ``rest``, fastest axis last, and move pointers there.

    Parameters
    ----------
    prefix, count
        See `axes`.
    moves : dict
        Operand -> C name of its pointer.
    last : bool
        Nothing is left of ``rest`` afterwards: the slowest axis needs no division.
    """
    lines = []
    for i in reversed(range(count)):
        whole = last and i == 0
        lines.append("k = rest;" if whole else "k = ga_split(&rest, %s%d);" % (prefix, i))
        lines.extend("%s += (ga_ssize)k * %s%d_%s;" % (pointer, prefix, i, op) for op, pointer in moves.items())
    return " ".join(lines)
