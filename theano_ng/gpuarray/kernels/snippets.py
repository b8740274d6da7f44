"""Pieces of device code: element types, and loops over the elements of strided arrays."""

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

# Size of an element in bytes -> the dtype that kernels use to copy such elements unchanged.
_BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}

SIZE, SSIZE = pygpu.SIZE, pygpu.SSIZE

# A loop over the elements of a thread, from its first element to `n`, in steps of the total number of threads.
GRID_STRIDE_LOOP = "for (ga_size i = (ga_size)GID_0 * LDIM_0 + LID_0; i < n; i += (ga_size)LDIM_0 * GDIM_0)"


# On GPUs, a thread loads and stores vectors of this number of bytes.
VECTOR_BYTES = 16
# The types of vectors, by their size in bytes. They have the same names in CUDA and OpenCL.
_VECTORS = {2: "ga_ushort", 4: "ga_uint", 8: "uint2", 16: "uint4"}


class Pack:
    """Adjacent elements of an array that a thread loads or stores as vectors.

    In kernels, a pack is a variable with two members: ``e`` contains the elements, and ``w`` the vectors.

    Attributes
    ----------
    size, width : int
        The size of an element in bytes, and the number of elements.
    bytes : int
        The size of a vector. An array has to be aligned to this size.
    count : int
        The number of vectors.
    vector : str
        The type of a vector.
    """

    def __init__(self, dtype, width):
        self.dtype, self.width = dtype, width
        self.size = np.dtype(dtype).itemsize
        self.bytes = min(self.size * width, VECTOR_BYTES)
        self.count = self.size * width // self.bytes
        self.vector = _VECTORS[self.bytes]

    @classmethod
    def of(cls, dtype):
        """Return the pack that is one vector of elements of this dtype."""
        return cls(dtype, VECTOR_BYTES // np.dtype(dtype).itemsize)

    def declare(self, name):
        """Return the declaration of a pack."""
        return "union { %s w[%d]; %s e[%d]; } %s;" % (self.vector, self.count, TYPES[self.dtype], self.width, name)

    def move(self, name, pointer, index, stores=False):
        """Return the statements that load a pack from an array (or store it), which begins at an aligned pointer. The
        index counts packs.
        """
        const = "" if stores else "const "
        lines = []
        for m in range(self.count):
            at = "((GLOBAL_MEM %s%s *)%s)[%s]" % (
                const,
                self.vector,
                pointer,
                index if self.count == 1 else "%s * %d + %d" % (index, self.count, m),
            )
            inside = "%s.w[%d]" % (name, m)
            lines.append("%s = %s;" % ((at, inside) if stores else (inside, at)))
        return " ".join(lines)


def element(dtype):
    """Return the type of array elements on the device."""
    return TYPES[dtype]


def bits(dtype):
    """Return the unsigned integer dtype with the size of an element. Kernels that only move elements use it, so one
    kernel serves many dtypes.
    """
    return _BITS[np.dtype(dtype).itemsize]


def number(dtype):
    """Return the type in which kernels compute with elements: ga_float for float16, otherwise the element type."""
    return "ga_float" if dtype == "float16" else TYPES[dtype]


def precise(dtype, context):
    """Return the dtype of sums that kernels compute in float64, as the host does: float64, or float32 if the device has
    no float64.
    """
    return "float64" if context is None or context.has_double or dtype == "float64" else "float32"


def load(dtype, at):
    """Return the expression that loads the element at a byte pointer, as a `number`."""
    pointer = "(GLOBAL_MEM const %s *)(%s)" % (TYPES[dtype], at)
    return "load_half(%s)" % pointer if dtype == "float16" else "*" + pointer


def store(dtype, at, value):
    """Return the statement that stores a `number` at a byte pointer."""
    pointer = "(GLOBAL_MEM %s *)(%s)" % (TYPES[dtype], at)
    if dtype == "float16":
        return "store_half(%s, %s);" % (pointer, value)
    return "*%s = (%s)(%s);" % (pointer, TYPES[dtype], value)


def axes(prefix, count, operands):
    """Return the kernel parameters for axes: their declarations, and their types for `DeviceKernel`. Each axis has one
    length, and one stride for each operand.

    Parameters
    ----------
    prefix : str
        Prefix of the names: ``<prefix>0`` is a length, ``<prefix>0_<operand>`` a stride.
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
    """Return statements that split the index ``rest`` into indices along axes (the last axis is the fastest), and
    advance pointers accordingly.

    Parameters
    ----------
    prefix, count
        See `axes`.
    moves : dict
        Operand -> C name of its pointer.
    last : bool
        If True, ``rest`` is not needed afterwards, so the slowest axis needs no division.
    """
    lines = []
    for i in reversed(range(count)):
        whole = last and i == 0
        lines.append("k = rest;" if whole else "k = ga_split(&rest, %s%d);" % (prefix, i))
        lines.extend("%s += (ga_ssize)k * %s%d_%s;" % (pointer, prefix, i, op) for op, pointer in moves.items())
    return " ".join(lines)
