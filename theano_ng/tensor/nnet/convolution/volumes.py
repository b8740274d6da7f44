"""Convolutions of volumes, under the names that existed before `conv3d`.

Channels come last, kernels are not flipped, and a bias is added. Volumes have the shape (batch, rows, columns, times,
channels). Kernels have the shape (output channels, rows, columns, times, input channels). The functions transpose the
axes, and then call :func:`conv3d` and its gradients.
"""

from theano_ng.gof.graph import Variable
from theano_ng.gof.utils import integer_types
from theano_ng.tensor.constant import as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.elemwise.functions import lt, switch
from theano_ng.tensor.nnet.convolution.functions import conv3d, conv3d_grad_wrt_inputs, conv3d_grad_wrt_weights

__all__ = ["conv3D", "convGrad3D", "convTransp3D"]


def _channels_first(x, name):
    x = as_tensor_variable(x)
    if x.ndim != 5:
        raise ValueError("%s must have five dimensions (the last dimension is for channels), got %s" % (name, x.type))
    return x.dimshuffle(0, 4, 1, 2, 3)


def _channels_last(x):
    return x.dimshuffle(0, 2, 3, 4, 1)


def _strides(d):
    """Return three strides as ints. The strides must be ints or constants, because they are parameters of an Op."""
    if not isinstance(d, Variable) and len(d) != 3:
        raise ValueError("d must have three strides, got %s" % (d,))
    return tuple(int(get_scalar_constant_value(d[i])) for i in range(3))


def conv3D(V, W, b, d):
    """Correlate volumes with kernels, and add a bias.

    Parameters
    ----------
    V : (batch, rows, columns, times, input channels) tensor
    W : (output channels, rows, columns, times, input channels) tensor
        Kernels, which are not flipped.
    b : vector of output channels
    d : three ints
        The strides along rows, columns and times.

    Returns
    -------
    (batch, output rows, output columns, output times, output channels) tensor
        The correlation at all positions where a kernel lies inside the volume.
    """
    out = conv3d(_channels_first(V, "V"), _channels_first(W, "W"), subsample=_strides(d), filter_flip=False)
    return _channels_last(out) + b


def convGrad3D(V, d, WShape, dCdH):
    """Return the gradient of :func:`conv3D` with respect to its kernels.

    Parameters
    ----------
    V, d
        See :func:`conv3D`.
    WShape : five integers or integer vector
        The shape of the kernels.
    dCdH : tensor
        The gradient with respect to the result of :func:`conv3D`.

    Returns
    -------
    Tensor of the shape `WShape`
    """
    shape = [WShape[i] for i in (0, 4, 1, 2, 3)]
    shape[:2] = [n if isinstance(n, integer_types) else None for n in shape[:2]]
    return _channels_last(
        conv3d_grad_wrt_weights(
            _channels_first(V, "V"), _channels_first(dCdH, "dCdH"), shape, subsample=_strides(d), filter_flip=False
        )
    )


def convTransp3D(W, b, d, H, RShape=None):
    """Apply the transpose of the linear map :func:`conv3D`, and add a bias.

    Parameters
    ----------
    W : (output channels, rows, columns, times, input channels) tensor
        The kernels of the :func:`conv3D` that is transposed.
    b : vector of input channels
    d : three ints
        The strides of the :func:`conv3D` that is transposed.
    H : (batch, output rows, output columns, output times, output channels) tensor
    RShape : three integers or integer vector, optional
        The rows, columns and times of the result. If a length is negative or not given, the result has the smallest
        length for which :func:`conv3D` has an output of the shape of `H`.

    Returns
    -------
    (batch, rows, columns, times, input channels) tensor
    """
    H, W, d = _channels_first(H, "H"), _channels_first(W, "W"), _strides(d)
    lengths = [(H.shape[i + 2] - 1) * d[i] + W.shape[i + 2] for i in range(3)]
    for i in range(3 if RShape is not None else 0):
        given = RShape[i]
        if isinstance(given, Variable):
            lengths[i] = switch(lt(given, 0), lengths[i], given)
        elif given >= 0:
            lengths[i] = given
    out = conv3d_grad_wrt_inputs(H, W, (None, None, *lengths), subsample=d, filter_flip=False)
    return _channels_last(out) + b
