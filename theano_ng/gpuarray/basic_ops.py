"""The documented names of Ops that transfer, create, join and reshape device arrays."""

from theano_ng.gpuarray.alloc import GpuAlloc, GpuAllocEmpty, empty_like
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.creation import GpuEye, GpuTri
from theano_ng.gpuarray.joining import GpuJoin, GpuSplit, gpu_join
from theano_ng.gpuarray.kernel_base import CGpuKernelBase, GpuKernelBase, Kernel, get_ctype, get_dtype
from theano_ng.gpuarray.profile import profile_printer
from theano_ng.gpuarray.reshaping import GpuReshape
from theano_ng.gpuarray.transfers import (
    GpuContiguous,
    GpuFromHost,
    GpuToGpu,
    HostFromGpu,
    as_gpuarray_variable,
    gpu_contiguous,
    host_from_gpu,
    infer_context_name,
)
from theano_ng.lazy import lazy_names

__all__ = [
    "CGpuKernelBase",
    "GpuAlloc",
    "GpuAllocEmpty",
    "GpuContiguous",
    "GpuEye",
    "GpuFromHost",
    "GpuJoin",
    "GpuKernelBase",
    "GpuReshape",
    "GpuSplit",
    "GpuToGpu",
    "GpuTri",
    "HostFromGpu",
    "Kernel",
    "as_gpuarray_variable",
    "empty_like",
    "get_ctype",
    "get_dtype",
    "gpu_contiguous",
    "gpu_join",
    "host_from_gpu",
    "infer_context_name",
    "profile_printer",
]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, CLASSIC_IMPORTS)
