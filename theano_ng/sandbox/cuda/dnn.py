"""Whether cuDNN can be used by the GPU back-end before `theano_ng.gpuarray`: no."""

from theano_ng.moved import former_modules

__all__ = ["dnn_available"]

__getattr__ = former_modules(__name__)


def dnn_available():
    """False; `dnn_available.msg` says why."""
    return False


dnn_available.msg = "the GPU back-end of theano.sandbox.cuda is gone"
