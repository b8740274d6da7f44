"""Arrays that are put together and taken apart, as NumPy's functions of the same names do it."""

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
    """Arrays with one axis at least."""
    found = [a.reshape(1) if a.ndim == 0 else a for a in arys]
    return found[0] if len(found) == 1 else found


def atleast_2d(*arys):
    """Arrays with two axes at least; new ones come first."""
    found = [a if a.ndim >= 2 else a.reshape(1, -1) for a in arys]
    return found[0] if len(found) == 1 else found


def atleast_3d(*arys):
    """Arrays with three axes at least; of a matrix the new one comes last, of a vector on both sides."""
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
    """Parts of an array, which need not be of one length.

    Parameters
    ----------
    ary : GpuArray
    indices_or_sections : int or sequence of int
        How many parts, or where they begin.
    axis : int

    Returns
    -------
    list of GpuArray
        Views.
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
    """`array_split` into parts of one length.

    Raises
    ------
    ValueError
        When the array has no such parts.
    """
    if not hasattr(indices_or_sections, "__len__") and ary.shape[axis] % indices_or_sections:
        raise ValueError(
            "array split does not result in an equal division: %d elements in %d parts"
            % (ary.shape[axis], indices_or_sections)
        )
    return array_split(ary, indices_or_sections, axis)


def hsplit(ary, indices_or_sections):
    """`split` along the second axis, of a vector along the first."""
    if ary.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary, indices_or_sections):
    """`split` along the first axis of a matrix or more."""
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


def dsplit(ary, indices_or_sections):
    """`split` along the third axis."""
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


def concatenate(arys, axis=0, context=None):
    """Arrays joined along an axis that they have.

    Parameters
    ----------
    arys : sequence of GpuArray
    axis : int
    context : GpuContext, optional
        That of the first array unless it is given.

    Returns
    -------
    GpuArray
        Of the dtype that holds all.

    Raises
    ------
    ValueError
        When there is no array, and when other lengths are not the same.
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
    """Arrays of one shape joined along a new axis."""
    arys = list(arys)
    ndim = arys[0].ndim + 1 if arys else 1
    if arys and not -ndim <= axis < ndim:
        raise ValueError("axis %d is out of bounds for array of dimension %d" % (axis, ndim))
    axis %= ndim
    return concatenate([a[(slice(None),) * axis + (None,)] for a in arys], axis, context)


def vstack(tup, context=None):
    """Arrays joined along the first axis; vectors are rows."""
    return concatenate([atleast_2d(a) for a in tup], 0, context)


def hstack(tup, context=None):
    """Arrays joined along the second axis; vectors along the first."""
    tup = [atleast_1d(a) for a in tup]
    return concatenate(tup, 0 if tup and tup[0].ndim == 1 else 1, context)


def dstack(tup, context=None):
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2, context)
