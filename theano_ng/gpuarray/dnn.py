"""Whether cuDNN can be used: no. Programs ask, and compute without it; any other name of the module cannot be imported."""

from theano_ng.moved import only_probes, unavailable

__all__ = ["dnn_available", "dnn_present", "version"]

__path__, __getattr__ = only_probes(__name__)

dnn_present = unavailable("dnn_present", __name__)
dnn_available = unavailable("dnn_available", __name__)


def version(raises=True):
    """The version of cuDNN.

    Parameters
    ----------
    raises : bool

    Returns
    -------
    int
        -1: there is none.

    Raises
    ------
    RuntimeError
        With `raises`.
    """
    if raises:
        raise RuntimeError("there is no version of cuDNN: " + dnn_present.msg)
    return -1
