"""What ``theano.tensor.nnet.abstract_conv`` has besides the names of `shapes`, `abstract`, `upsampling` and `front`."""

from theano_ng.tensor.nnet.convolution.front import abstract_conv2d as conv2d  # noqa: F401

imported_scipy_signal = True
"""Whether SciPy is there, which the package requires."""
