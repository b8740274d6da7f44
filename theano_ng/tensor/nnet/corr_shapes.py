"""Shapes of a correlation and of its gradients: lengths as numbers or variables, and checks with error messages.

Along one axis, let the image have `i` elements and the kernel `k` elements. Let the stride be `s`, the dilation `d`,
and the padding `l` elements at the start and `r` elements at the end. Then the output has ``(i + l + r - ((k - 1) d +
1)) // s + 1`` elements.
"""

import sys
from typing import NamedTuple


class Axis(NamedTuple):
    """The movement of the kernel along one axis.

    Attributes
    ----------
    mode : 'half', 'full' or a pair of int
        The padding at the start and at the end. 'half' and 'full' depend on the length of the kernel.
    stride, dilation : int
    """

    mode: object
    stride: int
    dilation: int

    def extent(self, kernel):
        """Return the number of elements from the first to the last element that the kernel covers at one position."""
        return (kernel - 1) * self.dilation + 1

    def pads(self, kernel):
        """Return the padding at the start and at the end, for a kernel of the length `kernel`."""
        if self.mode == "half":
            return (self.extent(kernel) // 2,) * 2
        if self.mode == "full":
            return (self.extent(kernel) - 1,) * 2
        return self.mode

    def output(self, image, kernel):
        """Return the length of the output."""
        before, after = self.pads(kernel)
        return (image + before + after - self.extent(kernel)) // self.stride + 1

    def kernel(self, image, output):
        """Return the length of the kernel. It is unique if the stride is 1 and the mode is not 'half'.

        For 'full', the extent of the kernel minus one is ``output - image``. For a pair, it is the length of the padded
        image minus `output`. The method must not be called for 'half'.
        """
        if self.mode == "full":
            return (output - image) // self.dilation + 1
        before, after = self.mode
        return (image + before + after - output) // self.dilation + 1

    def image(self, kernel, output):
        """Return the length of the image. With a stride s, s lengths are possible. The smallest is returned."""
        before, after = self.pads(kernel)
        return (output - 1) * self.stride + self.extent(kernel) - before - after


def _times(shape):
    return " x ".join(str(n) for n in shape)


def _plain(shape):
    return " ".join(str(n) for n in shape)


class Shapes(NamedTuple):
    """The shapes of one correlation: of the images (bottom), the kernels (weights) and the output (top).

    Attributes
    ----------
    bottom, top : tuple of int
        (batch, channels, \\*lengths)
    weights : tuple of int
        (filters, channels of a group, \\*lengths). Unshared kernels: (filters, \\*lengths of top, channels of a group,
        \\*lengths).
    pads : list of pairs of int
        The padding at the start and at the end of each axis.
    """

    bottom: tuple
    weights: tuple
    top: tuple
    pads: list


def fitting(name, axes, groups, unshared, bottom=None, weights=None, top=None, lengths=None):
    """Compute the missing shape of a correlation from the other two shapes, and check that the shapes fit.

    Parameters
    ----------
    name : str
        The name of the family of Ops, for messages.
    axes : list of Axis
    groups : int
    unshared : bool
    bottom, weights, top : tuple of int or None
        The shapes. Exactly one of them is None.
    lengths : tuple of int or None
        The lengths of the axes of the missing shape. None if they follow from the other shapes.

    Returns
    -------
    Shapes

    Raises
    ------
    ValueError
        If the shapes do not fit. The message contains the shapes.
    MemoryError
        If the result would have more than ``sys.maxsize // 16`` elements.
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
