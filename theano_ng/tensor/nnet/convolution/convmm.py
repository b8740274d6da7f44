"""Ops of convolutions and of their gradients: the Ops of `corr` and `corr3d`, with kernels read in reverse order.

A convolution with ``kern`` is equal to a correlation with ``kern[:, :, ::-1, ::-1]``. But the correlation Op would
first copy the reversed kernels, and the gradient with respect to the kernels would have to be reversed, too.
"""

from theano_ng.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights

__all__ = [
    "Conv3dMM",
    "Conv3dMM_gradInputs",
    "Conv3dMM_gradWeights",
    "ConvMM",
    "ConvMM_gradInputs",
    "ConvMM_gradWeights",
]


class ConvMM(CorrMM):
    """:class:`CorrMM` with flipped kernels."""

    flip = True


class ConvMM_gradWeights(CorrMM_gradWeights):
    """Gradient of :class:`ConvMM` with respect to the kernels."""

    flip = True


class ConvMM_gradInputs(CorrMM_gradInputs):
    """Gradient of :class:`ConvMM` with respect to the images."""

    flip = True


class Conv3dMM(Corr3dMM):
    """:class:`Corr3dMM` with flipped kernels."""

    flip = True


class Conv3dMM_gradWeights(Corr3dMM_gradWeights):
    """Gradient of :class:`Conv3dMM` with respect to the kernels."""

    flip = True


class Conv3dMM_gradInputs(Corr3dMM_gradInputs):
    """Gradient of :class:`Conv3dMM` with respect to the images."""

    flip = True


for _op in (ConvMM, ConvMM_gradWeights, ConvMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = ConvMM, ConvMM_gradWeights, ConvMM_gradInputs
for _op in (Conv3dMM, Conv3dMM_gradWeights, Conv3dMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = Conv3dMM, Conv3dMM_gradWeights, Conv3dMM_gradInputs
