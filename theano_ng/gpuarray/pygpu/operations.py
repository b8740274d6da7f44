"""Functions that join and split device arrays, like NumPy's functions of the same names."""

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray

__all__ = [
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "split",
    "stack",
    "vsplit",
    "vstack",
]


def atleast_1d(*arys):
    """Return arrays with at least one axis."""
    found = [a.reshape(1) if a.ndim == 0 else a for a in arys]
    return found[0] if len(found) == 1 else found


def atleast_2d(*arys):
    """Return arrays with at least two axes. New axes come first."""
    found = [a if a.ndim >= 2 else a.reshape(1, -1) for a in arys]
    return found[0] if len(found) == 1 else found


def atleast_3d(*arys):
    """Return arrays with at least three axes. A matrix gets an axis at the end. A vector gets an axis on each side."""
    found = []
    for a in arys:
        found.append(
            a.reshape(1, 1, 1)
            if a.ndim == 0
            else a[None, :, None]
            if a.ndim == 1
            else a[:, :, None]
            if a.ndim == 2
            else a
        )
    return found[0] if len(found) == 1 else found


def array_split(ary, indices_or_sections, axis=0):
    """Split an array into parts, which may have different lengths.

    Parameters
    ----------
    ary : GpuArray
    indices_or_sections : int or sequence of int
        The number of parts, or the indices at which the second and later parts begin.
    axis : int

    Returns
    -------
    list of GpuArray
        Views of the parts.
    """
    length = ary.shape[axis]
    try:
        places = [0, *indices_or_sections, length]
    except TypeError:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0, not %d" % sections) from None
        each, extra = divmod(length, sections)
        places = [0, *np.cumsum([each + 1] * extra + [each] * (sections - extra)).tolist()]
    axis %= ary.ndim
    before = (slice(None),) * axis
    return [ary[(*before, slice(first, last))] for first, last in zip(places, places[1:])]


def split(ary, indices_or_sections, axis=0):
    """Split an array into parts of equal length, like `array_split`.

    Raises
    ------
    ValueError
        If the number of parts does not divide the length.
    """
    if not hasattr(indices_or_sections, "__len__") and ary.shape[axis] % indices_or_sections:
        raise ValueError(
            "array split does not result in an equal division: %d elements in %d parts"
            % (ary.shape[axis], indices_or_sections)
        )
    return array_split(ary, indices_or_sections, axis)


def hsplit(ary, indices_or_sections):
    """Split an array along the second axis. Split a vector along its only axis."""
    if ary.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary, indices_or_sections):
    """Split along the first axis of an array with at least two axes."""
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


def dsplit(ary, indices_or_sections):
    """Split an array along the third axis."""
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


def concatenate(arys, axis=0, context=None):
    """Join arrays along an existing axis.

    Parameters
    ----------
    arys : sequence of GpuArray
    axis : int
    context : GpuContext, optional
        By default, the context of the first array.

    Returns
    -------
    GpuArray
        An array of the dtype that can hold all elements.

    Raises
    ------
    ValueError
        If no array is given, or if the arrays have different lengths along an axis other than `axis`.
    """
    arys = list(arys)
    if not arys:
        raise ValueError("need at least one array to concatenate")
    first = arys[0]
    context = first.context if context is None else context
    if not -first.ndim <= axis < first.ndim:
        raise ValueError("axis %d is out of bounds for array of dimension %d" % (axis, first.ndim))
    axis %= first.ndim
    for a in arys[1:]:
        if a.ndim != first.ndim or any(n != m for i, (n, m) in enumerate(zip(a.shape, first.shape)) if i != axis):
            raise ValueError("arrays of shapes %s and %s cannot be joined along axis %d" % (first.shape, a.shape, axis))
    shape = list(first.shape)
    shape[axis] = sum(a.shape[axis] for a in arys)
    out = gpuarray.empty(shape, np.result_type(*[a.dtype for a in arys]), context=context, cls=type(first))
    start = 0
    for a in arys:
        stop = start + a.shape[axis]
        out[(slice(None),) * axis + (slice(start, stop),)] = a.transfer(context)
        start = stop
    return out


def stack(arys, axis=0, context=None):
    """Join arrays of the same shape along a new axis."""
    arys = list(arys)
    ndim = arys[0].ndim + 1 if arys else 1
    if arys and not -ndim <= axis < ndim:
        raise ValueError("axis %d is out of bounds for array of dimension %d" % (axis, ndim))
    axis %= ndim
    return concatenate([a[(slice(None),) * axis + (None,)] for a in arys], axis, context)


def vstack(tup, context=None):
    """Join arrays along the first axis. Vectors become rows of a matrix."""
    return concatenate([atleast_2d(a) for a in tup], 0, context)


def hstack(tup, context=None):
    """Join arrays along the second axis. Join vectors along their only axis."""
    tup = [atleast_1d(a) for a in tup]
    return concatenate(tup, 0 if tup and tup[0].ndim == 1 else 1, context)


def dstack(tup, context=None):
    """Join arrays along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2, context)
