"""Shapes of a correlation and of its gradients: what fits, what results, and what is said where nothing does; numbers and variables alike.

On one axis, with `i` elements of the image, `k` of the kernel, stride `s`, dilation `d` and padding `l` before and `r` after, the output has
``(i + l + r - ((k - 1) d + 1)) // s + 1`` elements.
"""

import sys
from typing import NamedTuple


class Axis(NamedTuple):
    """How the kernel moves along one axis.

    Attributes
    ----------
    mode : 'half', 'full' or a pair of int
        The padding before and after; 'half' and 'full' depend on the length of the kernel.
    stride, dilation : int
    """

    mode: object
    stride: int
    dilation: int

    def extent(self, kernel):
        """From the first element that the kernel touches to the last."""
        return (kernel - 1) * self.dilation + 1

    def pads(self, kernel):
        """The padding before and after for a kernel of this length."""
        if self.mode == "half":
            return (self.extent(kernel) // 2,) * 2
        if self.mode == "full":
            return (self.extent(kernel) - 1,) * 2
        return self.mode

    def output(self, image, kernel):
        """Length of the output."""
        before, after = self.pads(kernel)
        return (image + before + after - self.extent(kernel)) // self.stride + 1

    def kernel(self, image, output):
        """Length of the kernel; it is known where the stride is 1 and the mode not 'half'.

        In mode 'full' output - image is what the kernel covers but one; otherwise padding counts as image.
        """
        if self.mode == "full":
            return (output - image) // self.dilation + 1
        before, after = self.mode
        return (image + before + after - output) // self.dilation + 1

    def image(self, kernel, output):
        """Length of the image; it is known where the stride is 1, and otherwise the least of `stride` possible ones."""
        before, after = self.pads(kernel)
        return (output - 1) * self.stride + self.extent(kernel) - before - after


def _times(shape):
    return " x ".join(str(n) for n in shape)


def _plain(shape):
    return " ".join(str(n) for n in shape)


class Shapes(NamedTuple):
    """The shapes of one correlation: bottom * weights -> top.

    Attributes
    ----------
    bottom, top : tuple of int
        (batch, channels, \\*lengths)
    weights : tuple of int
        (filters, channels of a group, \\*lengths), or (filters, \\*lengths of top, channels of a group, \\*lengths)
    pads : list of pairs of int
    """

    bottom: tuple
    weights: tuple
    top: tuple
    pads: list


def fitting(name, axes, groups, unshared, bottom=None, weights=None, top=None, lengths=None):
    """The shapes, of which one is None and follows from the others.

    Parameters
    ----------
    name : str
        Of the family of Ops, for messages.
    axes : list of Axis
    groups : int
    unshared : bool
    bottom, weights, top : tuple of int or None
    lengths : tuple of int or None
        Of the axes of what is None; None where they follow from the others.

    Returns
    -------
    Shapes

    Raises
    ------
    ValueError
        Where shapes do not fit, with the shapes.
    MemoryError
        Where the result would have more elements than can be counted.
    """
    n = len(axes)
    task, ok = "", True
    if top is None:
        kernel = weights[-n:]
        top = (bottom[0], weights[0], *(a.output(i, k) for a, i, k in zip(axes, bottom[2:], kernel)))
        result = top
    elif weights is None:
        task = " backprop wrt. weights"
        if lengths is None:
            lengths = [a.kernel(i, o) for a, i, o in zip(axes, bottom[2:], top[2:])]
        regions = top[2:] if unshared else ()
        weights = result = (top[1], *regions, bottom[1] // groups, *lengths)
        ok, kernel = min(lengths) > 0, tuple(lengths)
    else:
        task = " backprop wrt. inputs"
        kernel = weights[-n:]
        if lengths is None:
            lengths = [a.image(k, o) for a, k, o in zip(axes, kernel, top[2:])]
        bottom = result = (top[0], weights[-n - 1] * groups, *lengths)
        ok = min(lengths) >= 0
    if bottom[1] != weights[-n - 1] * groups:
        raise ValueError(
            "%s images and kernel must have the same stack size\n  bottom shape: %s\n  weight shape: %s\n  groups: %d"
            % (name, _plain(bottom), _plain(weights), groups)
        )
    if weights[0] % groups:
        raise ValueError(
            "%s the number of filters must be divisible by the number of groups\n  weight shape: %s\n  groups: %d"
            % (name, _plain(weights), groups)
        )
    if not ok or min(kernel) < 1 or min(top[2:]) < 1:
        raise ValueError(
            "%s%s: impossible output shape\n  bottom shape: %s\n  weights shape: %s\n  top shape: %s"
            % (name, task, _times(bottom), _times(weights), _times(top))
        )
    expected = (bottom[0], weights[0], *(a.output(i, k) for a, i, k in zip(axes, bottom[2:], kernel)))
    if tuple(top) != expected:
        raise ValueError(
            "%s shape inconsistency:\n  bottom shape: %s\n  weight shape: %s\n  top shape: %s (expected %s)"
            % (name, _plain(bottom), _plain(weights), _plain(top), _plain(expected))
        )
    if unshared and tuple(weights[1 : n + 1]) != tuple(top[2:]):
        regions = (weights[0], *top[2:], *weights[n + 1 :])
        raise ValueError(
            "%s regions in kernel must match output regions:\n  bottom shape: %s\n  weight shape: %s (expected %s)\n"
            "  top shape(calculated): %s" % (name, _plain(bottom), _plain(weights), _plain(regions), _plain(top))
        )
    size = 1
    for length in result:
        size *= max(length, 1)
    if size * 16 > sys.maxsize:
        raise MemoryError("%s%s: a result of shape %s is too large" % (name, task, _times(result)))
    return Shapes(tuple(bottom), tuple(weights), tuple(top), [a.pads(k) for a, k in zip(axes, kernel)])
