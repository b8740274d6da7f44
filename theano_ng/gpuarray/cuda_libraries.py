"""Functions that tell if a library of NVIDIA can be used on a device."""

import logging

from theano_ng.gof import optdb
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.pygpu.tools import per_context
from theano_ng.gpuarray.type import get_context

_logger = logging.getLogger("theano_ng.gpuarray.cuda_libraries")

# Attribute of a GpuContext that opens the library -> name of the library
TITLES = {"cublas_solve": "cuBLAS", "cusolver": "cuSOLVER", "cufft": "cuFFT"}


@per_context
def why_not(context, library):
    """Return the reason why a library cannot be used on a device, or None if it can. The library is loaded.

    Parameters
    ----------
    context : GpuContext
    library : str
        A key of `TITLES`.
    """
    try:
        getattr(context, library)
    except (pygpu.GpuArrayException, MemoryError) as error:
        return str(error)
    return None


def require(op, context_name, *libraries):
    """Raise RuntimeError if an Op cannot run in a context, because a library that it needs cannot be used there.

    The message gives the reason: the device is no CUDA device, or the library is missing, too old, or of another version
    of CUDA.
    """
    for library in libraries:
        reason = why_not(get_context(context_name), library)
        if reason is not None:
            raise RuntimeError("%s needs a CUDA device with %s: %s" % (op, TITLES[library], reason))


def usable(context_name, library):
    """Return True if a rule can move a node to a context because a library can be used there.

    If the library cannot be used on a CUDA device, the reason is written to the log, once for each device.
    """
    return optdb.consult(_usable, context_name, library)


def _usable(context_name, library):
    context = get_context(context_name)
    if context.kind != b"cuda":
        return False
    reason = why_not(context, library)
    if reason is not None:
        _warn(context, library)
    return reason is None


@per_context
def _warn(context, library):
    _logger.warning(
        "%s: operations that need %s stay on the host: %s", context.devname, TITLES[library], why_not(context, library)
    )
    return True
