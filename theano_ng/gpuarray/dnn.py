"""A stub that reports that cuDNN cannot be used, so that programs compute without cuDNN. Only the names in `__all__`
can be imported from this module.
"""

from theano_ng.moved import only_probes, unavailable

__all__ = ["dnn_available", "dnn_present", "version"]

__path__, __getattr__ = only_probes(__name__)

dnn_present = unavailable("dnn_present", __name__)
dnn_available = unavailable("dnn_available", __name__)


def version(raises=True):
    """Return the version of cuDNN.

    Parameters
    ----------
    raises : bool

    Returns
    -------
    int
        -1, because cuDNN is missing.

    Raises
    ------
    RuntimeError
        If `raises` is true.
    """
    if raises:
        raise RuntimeError("there is no version of cuDNN: " + dnn_present.msg)
    return -1
