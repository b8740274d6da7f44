"""A stub for the GPU back-end that preceded `theano_ng.gpuarray`, and that Theano 1.0 had already removed.

Old programs ask this module whether a GPU is available, and continue without a GPU: the answer is always no. Only the
names in `__all__` can be imported from this module.
"""

from theano_ng.moved import former_modules, warn_of_former

__all__ = ["cuda_available", "cuda_enabled", "dnn", "use"]

warn_of_former(__name__)

cuda_available = False
cuda_enabled = False

__getattr__ = former_modules(__name__)


def use(device, *args, **kwargs):
    """Do nothing for the device 'cpu'. Raise OSError for all other devices.

    Parameters
    ----------
    device : str
        A value of the former flag `device`: 'cpu', 'gpu', 'gpu0' ...
    *args, **kwargs
        Further arguments of the former function, which are ignored.

    Raises
    ------
    OSError
        For any other device than 'cpu'.
    """
    if device != "cpu":
        raise OSError("the GPU back-end of theano.sandbox.cuda was removed, so there is no device %r" % (device,))


from theano_ng.sandbox.cuda import dnn  # noqa: E402 (old programs read `dnn` as an attribute of this module)
