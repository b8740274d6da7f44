"""A stub whose flags are False, because Fourier transforms cannot be computed on GPUs.

Only the names in `__all__` can be imported from this module.
"""

from theano_ng.moved import only_probes

__all__ = ["pycuda_available", "pygpu_available", "skcuda_available"]

__path__, __getattr__ = only_probes(__name__)

pygpu_available = skcuda_available = pycuda_available = False
