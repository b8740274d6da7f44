"""Memory with guard margins: what is written outside of an array is found, and does no harm."""

import numpy as np

# A position's byte. All are above 1, so that a bool written there shows, and neighbours differ, so that most other values do.
_PATTERN = (2 + 151 * np.arange(254) % 254).astype("uint8")

_LEAST_MARGIN = 512  # bytes
_FULL_MARGIN = 1 << 20
_WIDEST_ITEM = 16  # of complex128
_ALIGNMENT = 16  # as malloc has it, so no more than that


class Guarded:
    """An array in the middle of a block that is filled with a pattern wherever the array has no element: around it, and in the gaps
    that its strides leave.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        Without objects.
    strides : tuple of int, optional
        In bytes; no two elements overlap. Default: those of a C-contiguous array.
    room : int
        How many elements an Op may take the array to have, if it takes it for one of another shape.

    Attributes
    ----------
    array : numpy.ndarray
        Not initialized. It does not own its data.

    Notes
    -----
    The margins hold `room` elements of the widest dtype, so that what an Op writes that takes strides, lengths or item size for others
    ends in them; of more than 1 MiB, as many bytes as the array spans.
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
        # An odd multiple of the alignment: more than malloc promises is not to be relied on.
        address = self._block.__array_interface__["data"][0] + margin
        self.low = margin + (_ALIGNMENT - address) % (2 * _ALIGNMENT)
        self.high = self.low + span
        self._start = self.low + below
        self.array = np.ndarray(shape, dtype, self._block, self._start, strides)

    @classmethod
    def like(cls, value, room=0):
        """Memory of an array's shape, dtype and strides, with its elements."""
        guarded = cls(value.shape, value.dtype, value.strides, room)
        guarded.array[...] = value
        return guarded

    def written(self):
        """What has been written outside of the array's elements.

        Returns
        -------
        list of (str, int, int)
            For each side ("before its first byte", "after its last byte", "between its elements") the number of bytes that changed,
            and how many bytes away from the array the farthest one is.
        """
        changed = (self._block.reshape(-1, len(_PATTERN)) != _PATTERN).ravel()
        a = self.array
        # the bytes of an element at a time: one more dimension could be one too many
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
    """The strides of a C-contiguous array, in bytes."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
