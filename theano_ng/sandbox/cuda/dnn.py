"""A stub that reports that the former GPU back-end, which preceded `theano_ng.gpuarray`, cannot use cuDNN."""

from theano_ng.moved import former_modules

__all__ = ["dnn_available"]

__getattr__ = former_modules(__name__)


def dnn_available():
    """Return False. The attribute `dnn_available.msg` gives the reason."""
    return False


dnn_available.msg = "the GPU back-end of theano.sandbox.cuda was removed"
