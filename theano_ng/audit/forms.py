"""Ways to hold the same elements in memory: strides, alignment, byte order, writability."""

import tempfile

import numpy as np


def strided(a):
    """Every second element of a larger array, along every axis."""
    base = np.full(tuple(2 * n + 1 for n in a.shape), 77, a.dtype)
    view = base[(slice(1, None, 2),) * a.ndim + (...,)]
    view[...] = a
    return view


def reversed_(a):
    """Negative strides along every axis."""
    flip = (slice(None, None, -1),) * a.ndim + (...,)
    return a[flip].copy()[flip]


def fortran(a):
    return np.asfortranarray(a) if a.ndim else a.copy()


def misaligned(a):
    """One byte beyond an aligned address."""
    memory = np.zeros(a.nbytes + 1, "int8")
    view = memory[1:].view(a.dtype).reshape(a.shape) if a.nbytes else a.copy()
    view[...] = a
    return view


def swapped(a):
    """The other byte order."""
    return a.astype(a.dtype.newbyteorder())


def read_only(a):
    view = a.copy()
    view.flags.writeable = False
    return view


def misaligned_strides(a):
    """Fields of packed records: aligned or not, strides that no element size divides."""
    records = np.zeros(a.shape, [("pad", "i1"), ("value", a.dtype), ("more", "i2")])
    records["value"] = a
    return records["value"][...]


class SubArray(np.ndarray):
    """A subclass of ndarray."""


def subclass(a):
    return a.copy().view(SubArray)


def contiguous(a):
    return np.array(a, order="C", copy=True)


def offset(a):
    """The inner part of a larger array: the last axis contiguous, the rows apart."""
    base = np.full(tuple(n + 2 for n in a.shape), 77, a.dtype)
    view = base[(slice(1, -1),) * a.ndim + (...,)]
    view[...] = a
    return view


def repeated(a):
    """Strides of zero along axes whose elements are all equal; a plain copy where there is none."""
    base = a.copy()
    equal = [n > 1 and bool((a == a.take([0], axis=axis)).all()) for axis, n in enumerate(a.shape)]
    strides = [0 if one else stride for one, stride in zip(equal, base.strides)]
    return np.lib.stride_tricks.as_strided(base, strides=strides, writeable=False) if any(equal) else base


def memmap(a):
    """A file mapped into memory."""
    if not a.nbytes:
        return a.copy()
    with tempfile.TemporaryFile() as stream:
        mapped = np.memmap(stream, a.dtype, "w+", shape=a.shape or (1,))
    mapped = mapped.reshape(a.shape)
    mapped[...] = a
    return mapped


#: Those with which everything has to cope.
FORMS = [strided, reversed_, fortran, misaligned, swapped, read_only, misaligned_strides, subclass]
