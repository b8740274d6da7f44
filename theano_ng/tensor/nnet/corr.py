"""Correlation of images with kernels in two dimensions, and its gradients."""

from theano_ng.tensor.nnet.corr_base import CorrBase, Forward, GradInputs, GradWeights

__all__ = ["BaseCorrMM", "CorrMM", "CorrMM_gradWeights", "CorrMM_gradInputs"]


def _pair(pad, mode):
    """Padding before and after of one axis."""
    if isinstance(pad, int) and pad >= 0:
        return (pad, pad)
    if isinstance(pad, tuple) and len(pad) == 2 and all(isinstance(p, int) for p in pad) and min(pad) >= 0:
        return pad
    raise ValueError("invalid border mode %s. The tuple can only contain integers or tuples of length 2" % (mode,))


class BaseCorrMM(CorrBase):
    """What :class:`CorrMM` and its gradients share.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int, or a pair of int or pairs of int
        Zeros around images: none, half the extent of the kernel, all of it but one, or so many for rows and for columns; a pair
        in the place of a number says how many before and how many after.
    subsample : pair of int
        By how many pixels the kernel moves from one output to the next.
    filter_dilation : pair of int
        How far the elements of a kernel are apart in the image.
    num_groups : int
        Channels and filters are cut into so many groups, of which each filter meets its own.
    unshared : bool
        Whether kernels have an element for each position of the output, (filters, output rows, output columns, channels, rows, columns).
    openmp : bool, optional
        Use several threads; ``config.openmp`` by default. Results do not depend on it.

    Raises
    ------
    ValueError, TypeError
        For parameters that are none of these.
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
    """Correlate images with kernels (which are not flipped).

    Inputs: images (batch, channels, rows, columns), and kernels (filters, channels per group, rows, columns). Output: (batch, filters,
    rows, columns). Parameters as for :class:`BaseCorrMM`.
    """


class CorrMM_gradWeights(GradWeights, BaseCorrMM):
    """Gradient of :class:`CorrMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the two lengths of the kernels, which may be left out where `subsample` is (1, 1)
    and `border_mode` is not 'half'.
    """


class CorrMM_gradInputs(GradInputs, BaseCorrMM):
    """Gradient of :class:`CorrMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the two lengths of the images, which may be left out where `subsample` is (1, 1).
    """


for _op in (CorrMM, CorrMM_gradWeights, CorrMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = CorrMM, CorrMM_gradWeights, CorrMM_gradInputs
