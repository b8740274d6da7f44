"""Correlation of images with kernels in three dimensions, and its gradients."""

from theano_ng.tensor.nnet.corr_base import CorrBase, Forward, GradInputs, GradWeights

__all__ = ["BaseCorr3dMM", "Corr3dMM", "Corr3dMM_gradWeights", "Corr3dMM_gradInputs"]


class BaseCorr3dMM(CorrBase):
    """The base class of :class:`Corr3dMM` and its gradients.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int or three int
        The number of zeros around images. 'valid': none; 'half': half the extent of the kernel; 'full': the extent of
        the kernel minus one; an int: this number on each side; three ints: one number for each axis.
    subsample : three int
        The strides: the distance that the kernel moves between neighboring elements of the output.
    filter_dilation : three int
        The distance in the image between neighboring elements of a kernel.
    openmp : bool, optional
        Whether to use several threads. The default is ``config.openmp``. The results are the same.
    num_groups : int
        The number of groups into which channels and filters are divided. A filter uses only the channels of its group.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid.
    """

    convdim = 3
    family = "Corr3dMM"
    __props__ = ("border_mode", "subsample", "filter_dilation", "num_groups")

    def __init__(self, border_mode="valid", subsample=(1, 1, 1), filter_dilation=(1, 1, 1), openmp=None, num_groups=1):
        super().__init__(border_mode, subsample, filter_dilation, num_groups, openmp)

    def __str__(self):
        return "%s{%s, %s, %s, %s}" % (type(self).__name__, *self._props())

    def _border_mode(self, mode):
        if isinstance(mode, int):
            if mode < 0:
                raise ValueError("invalid border_mode %s, which must be a non-negative integer" % mode)
            return (mode, mode, mode)
        if isinstance(mode, tuple):
            if len(mode) != 3 or not all(isinstance(pad, int) for pad in mode) or min(mode) < 0:
                raise ValueError(
                    "invalid border_mode %s, which must be a tuple of three non-negative integers" % (mode,)
                )
            return mode
        if mode not in ("valid", "full", "half"):
            raise ValueError(
                'invalid border_mode %s, which must be either "valid", "full", "half", an integer or a tuple of three integers'
                % (mode,)
            )
        return mode


class Corr3dMM(Forward, BaseCorr3dMM):
    """Correlation of images with kernels, which are not flipped.

    Inputs: images (batch, channels, depth, rows, columns), and kernels (filters, channels per group, depth, rows,
    columns). Output: (batch, filters, depth, rows, columns). For the parameters, see :class:`BaseCorr3dMM`.
    """


class Corr3dMM_gradWeights(GradWeights, BaseCorr3dMM):
    """Gradient of :class:`Corr3dMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the three lengths of the kernels. The lengths may be omitted if
    `subsample` is (1, 1, 1) and `border_mode` is not 'half'.
    """


class Corr3dMM_gradInputs(GradInputs, BaseCorr3dMM):
    """Gradient of :class:`Corr3dMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the three lengths of the images. The lengths may be omitted if
    `subsample` is (1, 1, 1).
    """


for _op in (Corr3dMM, Corr3dMM_gradWeights, Corr3dMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = Corr3dMM, Corr3dMM_gradWeights, Corr3dMM_gradInputs
