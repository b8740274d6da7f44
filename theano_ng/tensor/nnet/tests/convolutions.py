"""Convolutions computed as explicit sums, the reference for tests of the fast Ops."""

import itertools

import numpy as np


def terms(image, kernel, output, pads, strides, dilation, flip, groups, unshared):
    """Yield the index triples of the products that a convolution sums.

    Parameters
    ----------
    image, kernel, output : tuples of int
        Shapes.
    pads : list of pairs of int
    strides, dilation : tuples of int
    flip : bool
    groups : int
    unshared : bool

    Yields
    ------
    tuples of int
        The index of an element of the output, and the indices of the elements of the image and of the kernel whose
        product is added to it.
    """
    n = len(strides)
    filters, channels = kernel[0] // groups, kernel[-n - 1]
    for batch, f, channel in itertools.product(range(image[0]), range(kernel[0]), range(channels)):
        for at in itertools.product(*map(range, output[2:])):
            for tap in itertools.product(*map(range, kernel[-n:])):
                pixel = tuple(
                    p * s - before + t * d for p, s, (before, _), t, d in zip(at, strides, pads, tap, dilation)
                )
                if all(0 <= i < length for i, length in zip(pixel, image[2:])):
                    weight = tuple(k - 1 - t for k, t in zip(kernel[-n:], tap)) if flip else tap
                    yield (
                        (batch, f, *at),
                        (batch, f // filters * channels + channel, *pixel),
                        (f, *(at if unshared else ()), channel, *weight),
                    )


class Reference:
    """A convolution and its gradients, computed by the definition.

    Attributes
    ----------
    image, kernel, output : tuples of int
        Shapes.
    """

    def __init__(
        self,
        image,
        kernel,
        border_mode="valid",
        subsample=None,
        filter_flip=True,
        filter_dilation=None,
        num_groups=1,
        unshared=False,
    ):
        n = len(image) - 2
        subsample, filter_dilation = subsample or (1,) * n, filter_dilation or (1,) * n
        extents = [(k - 1) * d + 1 for k, d in zip(kernel[-n:], filter_dilation)]
        if border_mode == "valid":
            pads = [(0, 0)] * n
        elif border_mode == "half":
            pads = [(e // 2, e // 2) for e in extents]
        elif border_mode == "full":
            pads = [(e - 1, e - 1) for e in extents]
        else:
            modes = border_mode if isinstance(border_mode, tuple) else (border_mode,) * n
            pads = [mode if isinstance(mode, tuple) else (mode, mode) for mode in modes]
        lengths = [
            (i + before + after - e) // s + 1 for i, (before, after), e, s in zip(image[2:], pads, extents, subsample)
        ]
        self.image, self.kernel, self.output = image, kernel, (image[0], kernel[0], *lengths)
        self._terms = list(
            terms(image, kernel, self.output, pads, subsample, filter_dilation, filter_flip, num_groups, unshared)
        )

    def forward(self, x, w):
        """Return the output of the convolution."""
        out = np.zeros(self.output, np.result_type(x, w))
        for o, i, k in self._terms:
            out[o] += x[i] * w[k]
        return out

    def grad_inputs(self, w, g):
        """Return the gradient with respect to the images, given the gradient `g` with respect to the output."""
        out = np.zeros(self.image, np.result_type(w, g))
        for o, i, k in self._terms:
            out[i] += g[o] * w[k]
        return out

    def grad_weights(self, x, g):
        """Return the gradient with respect to the kernels, given the gradient `g` with respect to the output."""
        out = np.zeros(self.kernel, np.result_type(x, g))
        for o, i, k in self._terms:
            out[k] += g[o] * x[i]
        return out
