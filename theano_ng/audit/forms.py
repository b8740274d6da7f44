"""Memory layouts: functions that copy an array to other strides, alignment, byte order or writability."""

import tempfile

import numpy as np


def strided(a):
    """Return a copy that consists of every second element of a larger array, along every axis."""
    base = np.full(tuple(2 * n + 1 for n in a.shape), 77, a.dtype)
    view = base[(slice(1, None, 2),) * a.ndim + (...,)]
    view[...] = a
    return view


def reversed_(a):
    """Return a copy with negative strides along every axis."""
    flip = (slice(None, None, -1),) * a.ndim + (...,)
    return a[flip].copy()[flip]


def fortran(a):
    return np.asfortranarray(a) if a.ndim else a.copy()


def misaligned(a):
    """Return a copy that begins one byte beyond an aligned address."""
    memory = np.zeros(a.nbytes + 1, "int8")
    view = memory[1:].view(a.dtype).reshape(a.shape) if a.nbytes else a.copy()
    view[...] = a
    return view


def swapped(a):
    """Return a copy with the opposite byte order."""
    return a.astype(a.dtype.newbyteorder())


def read_only(a):
    view = a.copy()
    view.flags.writeable = False
    return view


def misaligned_strides(a):
    """Return a copy in a field of an array of packed records. Its strides are not multiples of the element size."""
    records = np.zeros(a.shape, [("pad", "i1"), ("value", a.dtype), ("more", "i2")])
    records["value"] = a
    return records["value"][...]


class SubArray(np.ndarray):
    """A subclass of ndarray without changes, for arrays whose class is not exactly ndarray."""


def subclass(a):
    return a.copy().view(SubArray)


def contiguous(a):
    return np.array(a, order="C", copy=True)


def offset(a):
    """Return a copy that is the inner part of a larger array.

    The last axis is contiguous, and there are gaps between rows.
    """
    base = np.full(tuple(n + 2 for n in a.shape), 77, a.dtype)
    view = base[(slice(1, -1),) * a.ndim + (...,)]
    view[...] = a
    return view


def repeated(a):
    """Return a copy with strides of zero along axes whose elements are all equal.

    Without such an axis, return a plain copy.
    """
    base = a.copy()
    equal = [n > 1 and bool((a == a.take([0], axis=axis)).all()) for axis, n in enumerate(a.shape)]
    strides = [0 if one else stride for one, stride in zip(equal, base.strides)]
    return np.lib.stride_tricks.as_strided(base, strides=strides, writeable=False) if any(equal) else base


def memmap(a):
    """Return a copy in a file mapped into memory."""
    if not a.nbytes:
        return a.copy()
    with tempfile.TemporaryFile() as stream:
        mapped = np.memmap(stream, a.dtype, "w+", shape=a.shape or (1,))
    mapped = mapped.reshape(a.shape)
    mapped[...] = a
    return mapped


#: The layouts that every Op must accept.
FORMS = [strided, reversed_, fortran, misaligned, swapped, read_only, misaligned_strides, subclass]


def elements(value):
    """Return the array of the elements that derivatives are taken of: of a sparse matrix, the stored elements."""
    return value.data if _is_sparse(value) else value


def with_elements(value, new):
    """Return a copy of a value with other elements, which have the shape of ``elements(value)``."""
    if np.isscalar(value):
        return type(value)(new)
    made = value.copy()
    if _is_sparse(value):
        made.data = np.asarray(new, value.dtype)
    else:
        made[...] = new
    return made


def dense(value):
    """Return a sparse matrix as an array, and other values unchanged."""
    return value.toarray() if _is_sparse(value) else value


def _is_sparse(value):
    return hasattr(value, "toarray")


def copied(value):
    """Copy a value that an Op might overwrite.

    The copy of an array is C-contiguous, and lists are copied recursively. Other values are returned unchanged.
    """
    if isinstance(value, list):
        return [copied(element) for element in value]
    return np.array(value, order="C", subok=False) if isinstance(value, np.ndarray) else value
