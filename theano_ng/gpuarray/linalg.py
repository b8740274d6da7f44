"""A stub that reports that linear systems cannot be solved on a GPU.

Only the names in `__all__` can be imported from this module.
"""

from theano_ng.moved import only_probes

__all__ = ["cublas_available", "cusolver_available", "pygpu_available"]

__path__, __getattr__ = only_probes(__name__)

pygpu_available = cusolver_available = cublas_available = False
