"""Ops that move, make, join and reshape arrays on devices: their documented home."""

from theano_ng.gpuarray.kernel_base import CGpuKernelBase, GpuKernelBase, Kernel, get_ctype, get_dtype
from theano_ng.gpuarray.profile import profile_printer
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

__all__ = [
    "CGpuKernelBase",
    "GpuContiguous",
    "GpuFromHost",
    "GpuKernelBase",
    "GpuToGpu",
    "HostFromGpu",
    "Kernel",
    "as_gpuarray_variable",
    "get_ctype",
    "get_dtype",
    "gpu_contiguous",
    "host_from_gpu",
    "infer_context_name",
    "profile_printer",
]
