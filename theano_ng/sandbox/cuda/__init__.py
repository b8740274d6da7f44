"""The GPU back-end before `theano_ng.gpuarray`, which Theano 1.0 had removed.

Programs ask it whether there is such a GPU, and go on without one: there is none. Any other name in it cannot be imported.
"""

from theano_ng.moved import former_modules, warn_of_former

__all__ = ["cuda_available", "cuda_enabled", "dnn", "use"]

warn_of_former(__name__)

cuda_available = False
cuda_enabled = False

__getattr__ = former_modules(__name__)


def use(device, *args, **kwargs):
    """Nothing for 'cpu'; every other device is refused.

    Parameters
    ----------
    device : str
        The former flag `device`: 'cpu', 'gpu', 'gpu0' ...
    *args, **kwargs
        What the back-end was told about the GPU.

    Raises
    ------
    OSError
        For any other device than 'cpu'.
    """
    if device != "cpu":
        raise OSError("the GPU back-end of theano.sandbox.cuda is gone, and there is no device %r" % (device,))


from theano_ng.sandbox.cuda import dnn  # noqa: E402 (it is asked for as an attribute)
