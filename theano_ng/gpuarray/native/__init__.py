"""C code of the Ops on devices; linked with what `pygpu.gpuarray` defines, which is therefore loaded first."""

from theano_ng.gpuarray.pygpu import gpuarray  # noqa: F401
