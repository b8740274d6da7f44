"""Ops that move, make, join and reshape arrays on devices: their documented home."""

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
    "GpuContiguous",
    "GpuFromHost",
    "GpuToGpu",
    "HostFromGpu",
    "as_gpuarray_variable",
    "gpu_contiguous",
    "host_from_gpu",
    "infer_context_name",
]
