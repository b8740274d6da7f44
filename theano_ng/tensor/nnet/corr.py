"""Correlation of images with kernels in two dimensions, and its gradients."""

from theano_ng.tensor.nnet.corr_base import CorrBase, Forward, GradInputs, GradWeights

__all__ = ["BaseCorrMM", "CorrMM", "CorrMM_gradWeights", "CorrMM_gradInputs"]


def _pair(pad, mode):
    """Return the padding before and after one axis."""
    if isinstance(pad, int) and pad >= 0:
        return (pad, pad)
    if isinstance(pad, tuple) and len(pad) == 2 and all(isinstance(p, int) for p in pad) and min(pad) >= 0:
        return pad
    raise ValueError("invalid border mode %s. The tuple can only contain integers or tuples of length 2" % (mode,))


class BaseCorrMM(CorrBase):
    """The base class of :class:`CorrMM` and its gradients.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int, or a pair of int or pairs of int
        The number of zeros around images. 'valid': none; 'half': half the extent of the kernel; 'full': the extent of
        the kernel minus one; an int: this number on each side; a pair: the numbers for rows and for columns. Each
        number in the pair may be replaced by a pair: the numbers of zeros before the first and after the last element.
    subsample : pair of int
        The strides: the number of pixels that the kernel moves between neighboring elements of the output.
    filter_dilation : pair of int
        The distance in the image between neighboring elements of a kernel.
    num_groups : int
        The number of groups into which channels and filters are divided. A filter uses only the channels of its group.
    unshared : bool
        Whether each position of the output has a separate kernel. Kernels then have the shape (filters, output rows,
        output columns, channels, rows, columns).
    openmp : bool, optional
        Whether to use several threads. The default is ``config.openmp``. The results are the same.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid.
    """

    convdim = 2
    family = "CorrMM"
    __props__ = ("border_mode", "subsample", "filter_dilation", "num_groups", "unshared")

    def __init__(
        self, border_mode="valid", subsample=(1, 1), filter_dilation=(1, 1), num_groups=1, unshared=False, openmp=None
    ):
        super().__init__(border_mode, subsample, filter_dilation, num_groups, openmp)
        self.unshared = bool(unshared)

    def __str__(self):
        return "%s{%s, %s, %s, %s %s}" % (type(self).__name__, *self._props())

    def _border_mode(self, mode):
        if isinstance(mode, int):
            if mode < 0:
                raise ValueError("invalid border_mode %s, which must be a non-negative integer" % mode)
            return ((mode, mode), (mode, mode))
        if isinstance(mode, tuple):
            if len(mode) != 2:
                raise ValueError("invalid border_mode %s which must be a tuple of length 2" % (mode,))
            return tuple(_pair(pad, mode) for pad in mode)
        if mode not in ("valid", "full", "half"):
            raise ValueError(
                'invalid border_mode %s, which must be either "valid", "full", "half", an integer or a tuple of two integers '
                "or a pair of integers" % (mode,)
            )
        return mode


class CorrMM(Forward, BaseCorrMM):
    """Correlation of images with kernels, which are not flipped.

    Inputs: images (batch, channels, rows, columns), and kernels (filters, channels per group, rows, columns). Output:
    (batch, filters, rows, columns). For the parameters, see :class:`BaseCorrMM`.
    """


class CorrMM_gradWeights(GradWeights, BaseCorrMM):
    """Gradient of :class:`CorrMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the two lengths of the kernels. The lengths may be omitted if
    `subsample` is (1, 1) and `border_mode` is not 'half'.
    """


class CorrMM_gradInputs(GradInputs, BaseCorrMM):
    """Gradient of :class:`CorrMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the two lengths of the images. The lengths may be omitted if
    `subsample` is (1, 1).
    """


for _op in (CorrMM, CorrMM_gradWeights, CorrMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = CorrMM, CorrMM_gradWeights, CorrMM_gradInputs
