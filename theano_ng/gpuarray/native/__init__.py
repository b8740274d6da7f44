"""The C code of device Ops. It links against symbols that `pygpu.gpuarray` exports, so that module is loaded first."""

from theano_ng.gpuarray.pygpu import gpuarray
