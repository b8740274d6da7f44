"""Kernel arguments, and functions that prepare loops over several arrays."""

import functools

import numpy as np

from theano_ng.gpuarray.pygpu.dtypes import dtype_to_ctype
from theano_ng.gpuarray.pygpu.gpuarray import GpuArray

__all__ = [
    "Argument",
    "ArrayArg",
    "ScalarArg",
    "as_argument",
    "check_args",
    "check_contig",
    "copy_overlapping",
    "lru_cache",
    "overlaps",
    "per_context",
    "prod",
]


class Argument:
    """A kernel argument.

    Parameters
    ----------
    dtype : dtype
    name : str
    """

    def __init__(self, dtype, name):
        self.dtype = np.dtype(dtype)
        self.name = name

    def ctype(self):
        """Return the type of the argument in kernels."""
        return dtype_to_ctype(self.dtype)

    def __eq__(self, other):
        return type(self) is type(other) and (self.dtype, self.name) == (other.dtype, other.name)

    def __hash__(self):
        return hash((type(self), self.dtype, self.name))

    def __repr__(self):
        return "%s(%r, %r)" % (type(self).__name__, self.dtype.name, self.name)


class ArrayArg(Argument):
    """An array argument."""

    def decltype(self):
        """Return the C declaration type of the argument."""
        return "GLOBAL_MEM %s *" % self.ctype()

    def spec(self):
        """Return the type of the argument for `GpuKernel`."""
        return GpuArray

    def isarray(self):
        """Return True, because the argument is an array."""
        return True


class ScalarArg(Argument):
    """A scalar argument."""

    def decltype(self):
        """Return the C declaration type of the argument."""
        return self.ctype()

    def spec(self):
        """Return the type of the argument for `GpuKernel`."""
        return self.dtype

    def isarray(self):
        """Return False, because the argument is no array."""
        return False


def as_argument(obj, name):
    """Return the `ArrayArg` of an array, or the `ScalarArg` of a number."""
    if isinstance(obj, GpuArray):
        return ArrayArg(obj.dtype, name)
    return ScalarArg(np.asarray(obj).dtype, name)


def prod(sequence):
    """Return the product of numbers. Return 1 if there are no numbers."""
    result = 1
    for number in sequence:
        result *= int(number)
    return result


def check_contig(args):
    """Check whether one loop over a single axis can process all arrays.

    Parameters
    ----------
    args : sequence of GpuArray and numbers

    Returns
    -------
    (int, tuple, bool)
        The number of elements, the shape, and whether all arrays have this shape and are contiguous in the same order.
        If there are no arrays, the number is None.
    """
    arrays = [a for a in args if isinstance(a, GpuArray)]
    if not arrays:
        return None, (), False
    shape = arrays[0].shape
    same = all(a.shape == shape for a in arrays)
    c = same and all(a.flags.c_contiguous for a in arrays)
    f = same and all(a.flags.f_contiguous for a in arrays)
    return prod(shape), shape, c or f


def check_args(args, collapse=False, broadcast=False):
    """Compute the axes, strides and offsets of a loop over several arrays.

    If all arrays are contiguous in the same order and `collapse` is True, the loop has one axis.

    Parameters
    ----------
    args : sequence of GpuArray and numbers
    collapse : bool
        If True, drop axes of length 1, and merge axes that are contiguous with each other in all arrays.
    broadcast : bool
        If True, broadcast axes of length 1, and missing axes.

    Returns
    -------
    n : int
        Number of elements.
    nd : int
        Number of axes.
    dims : tuple of int
    strides : tuple of (tuple or None)
        Strides in bytes. None for numbers.
    offsets : tuple of (int or None)
        Offsets in bytes. None for numbers.

    Raises
    ------
    ValueError
        If the shapes differ and `broadcast` is False, or if the shapes cannot be broadcast together.
    TypeError
        If there are no arrays.
    """
    n, shape, contiguous = check_contig(args)
    arrays = [a for a in args if isinstance(a, GpuArray)]
    offsets = tuple([a.offset if isinstance(a, GpuArray) else None for a in args])
    if n is None:
        raise TypeError("at least one argument must be an array")
    if contiguous and collapse:
        strides = tuple([(a.itemsize,) if isinstance(a, GpuArray) else None for a in args])
        return n, 1, (n,), strides, offsets
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1 and not broadcast:
        raise ValueError("arrays have different shapes: %s" % ", ".join(map(str, sorted(shapes))))
    dims = list(np.broadcast_shapes(*shapes))
    strides = [broadcast_strides(a, dims) if isinstance(a, GpuArray) else None for a in args]
    if collapse:
        dims, strides = _collapsed(dims, strides)
    return prod(dims), len(dims), tuple(dims), tuple([s if s is None else tuple(s) for s in strides]), offsets


def broadcast_strides(a, dims):
    """Return the strides of an array in bytes, after it is broadcast to the shape `dims`."""
    missing = len(dims) - a.ndim
    return [0] * missing + [0 if n == 1 and n != m else s for n, s, m in zip(a.shape, a.strides, dims[missing:])]


def _collapsed(dims, strides):
    """Drop the axes of length 1, and merge axes that are contiguous with each other in all arrays."""
    present = [s for s in strides if s is not None]
    kept, rows = [], [[] for _ in present]
    for axis, length in enumerate(dims):
        if length == 1:
            continue
        if kept and all(row[-1] == s[axis] * length for row, s in zip(rows, present)):
            kept[-1] *= length
            for row, s in zip(rows, present):
                row[-1] = s[axis]
        else:
            kept.append(length)
            for row, s in zip(rows, present):
                row.append(s[axis])
    found = iter(rows)
    return kept, [None if s is None else next(found) for s in strides]


def overlaps(a, b):
    """Return True if the elements of two arrays lie in overlapping ranges of one memory."""
    if a.gpudata != b.gpudata or a.size == 0 or b.size == 0:
        return False
    (low, high), (other_low, other_high) = _extent(a), _extent(b)
    return low < other_high and other_low < high


def _extent(a):
    """Return the range of bytes that contains the elements of an array, which is not empty."""
    reaches = [(n - 1) * step for n, step in zip(a.shape, a.strides)]
    low, high = sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches)
    return a.offset + low, a.offset + high + a.itemsize


def copy_overlapping(values, written):
    """Copy arrays that are only read, if they overlap an array that is written.

    Threads run in any order: a thread could overwrite an element that another thread reads later. No copy is made if
    both arrays have the same elements in the same order, because each thread reads its elements before it writes.

    Parameters
    ----------
    values : sequence of GpuArray and numbers
    written : sequence of bool
        Whether the values are written.

    Returns
    -------
    list of GpuArray and numbers
    """
    results = [value for value, is_written in zip(values, written) if is_written]

    def endangered(value):
        return any(overlaps(value, result) and not _same_elements(value, result) for result in results)

    return [
        value.copy() if not is_written and isinstance(value, GpuArray) and endangered(value) else value
        for value, is_written in zip(values, written)
    ]


def _same_elements(a, b):
    return (a.offset, a.dtype, a.shape, a.strides) == (b.offset, b.dtype, b.shape, b.strides)


def per_context(build):
    """Decorate a function that builds a kernel, so that ``build(context, *key)`` is called once per context and key.

    The context owns the kernels, which are freed with it.
    """

    @functools.wraps(build)
    def found(context, *key):
        known = context.kernels
        if (build, key) not in known:
            known[build, key] = build(context, *key)
        return known[build, key]

    return found


def lru_cache(maxsize=20):
    """Return `functools.lru_cache` with at least 128 entries, because kernels are small, and slow to build."""
    return functools.lru_cache(maxsize=max(maxsize, 128))
