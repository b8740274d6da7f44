"""Arrays with guard margins: a write outside of the array is detected, and does not damage other memory."""

import numpy as np

# The bytes of the guard pattern. All bytes are greater than 1, so that a write of a bool changes them. Adjacent bytes
# differ, so that a write of most other values changes them, too.
_PATTERN = (2 + 151 * np.arange(254) % 254).astype("uint8")

_LEAST_MARGIN = 512  # bytes
_FULL_MARGIN = 1 << 20
_WIDEST_ITEM = 16  # bytes, of complex128
_ALIGNMENT = 16  # bytes, the alignment that malloc guarantees


class Guarded:
    """An array in the middle of a block of memory that is filled with a guard pattern.

    The pattern fills all bytes that belong to no element: around the array, and in the gaps that its strides leave.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        A dtype without Python objects.
    strides : tuple of int, optional
        The strides in bytes. No two elements may overlap. By default, the strides of a C-contiguous array.
    room : int
        The minimum number of elements for which each margin has space. It should be at least the size of any wrong
        shape that an Op may assume, so that the Op writes into a margin.

    Attributes
    ----------
    array : numpy.ndarray
        The array, not initialized. It does not own its data.

    Notes
    -----
    Each margin has space for `room` elements of the widest dtype, or for as many elements as the array has if these
    are more. An Op that assumes wrong strides, lengths or item sizes therefore writes into the margins. If a margin
    would be larger than 1 MiB, it is limited to the largest of three sizes: 1 MiB, the number of bytes that the array
    spans, and the size of the same number of elements in the dtype of the array.
    """

    def __init__(self, shape, dtype, strides=None, room=0):
        shape, dtype = tuple(int(n) for n in shape), np.dtype(dtype)
        if strides is None:
            strides = c_strides(shape, dtype.itemsize)
        size = int(np.prod(shape, dtype="int64"))
        steps = [s * (n - 1) for s, n in zip(strides, shape)] if size else []
        below = -sum(step for step in steps if step < 0)
        span = below + sum(step for step in steps if step > 0) + (dtype.itemsize if size else 0)
        items = max(room, size)
        margin = max(_LEAST_MARGIN, min(_WIDEST_ITEM * items, max(_FULL_MARGIN, span, dtype.itemsize * items)))
        length = 2 * margin + span + 4 * _ALIGNMENT
        self._block = np.empty(length + -length % len(_PATTERN), "uint8")
        self._block.reshape(-1, len(_PATTERN))[...] = _PATTERN
        # Let the array start at an odd multiple of the alignment, so that code which requires a larger alignment than
        # malloc guarantees fails.
        address = self._block.__array_interface__["data"][0] + margin
        self.low = margin + (_ALIGNMENT - address) % (2 * _ALIGNMENT)
        self.high = self.low + span
        self._start = self.low + below
        self.array = np.ndarray(shape, dtype, self._block, self._start, strides)

    @classmethod
    def like(cls, value, room=0):
        """Return guarded memory with the shape, dtype, strides and elements of an array."""
        guarded = cls(value.shape, value.dtype, value.strides, room)
        guarded.array[...] = value
        return guarded

    def written(self):
        """Find the bytes outside of the array's elements that have been overwritten.

        Returns
        -------
        list of (str, int, int)
            A tuple for each side with changes ("before its first byte", "after its last byte", "between its elements"):
            the side, the number of changed bytes, and the distance in bytes of the farthest changed byte from the
            array.
        """
        changed = (self._block.reshape(-1, len(_PATTERN)) != _PATTERN).ravel()
        a = self.array
        # Clear the flags of all bytes of an element at once, as an item of a void dtype. With a separate dimension for
        # the bytes, the array could have more dimensions than NumPy allows.
        element = np.dtype("V%d" % a.itemsize)
        np.ndarray(a.shape, element, changed, self._start, a.strides)[...] = np.zeros((), element)
        if not changed.any():
            return []
        places = np.flatnonzero(changed)
        before, after = places[places < self.low], places[places >= self.high]
        sides = []
        if len(before):
            sides.append(("before its first byte", len(before), self.low - int(before[0])))
        if len(after):
            sides.append(("after its last byte", len(after), int(after[-1]) + 1 - self.high))
        between = len(places) - len(before) - len(after)
        if between:
            sides.append(("between its elements", between, 0))
        return sides


def c_strides(shape, itemsize):
    """Return the strides of a C-contiguous array, in bytes."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
