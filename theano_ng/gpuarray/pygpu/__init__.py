"""The interface of pygpu: device arrays, kernels, and NumPy's array functions.

If pygpu is not installed, ``import pygpu`` returns this package in programs that ``theano_ng-run`` runs. No device
driver is loaded before a context is opened.
"""

from theano_ng.gpuarray.pygpu import basic, blas, collectives, dtypes, elemwise, operations, reduction, tools
from theano_ng.gpuarray.pygpu._array import ndgpuarray
from theano_ng.gpuarray.pygpu._elemwise import GpuElemwise, arg
from theano_ng.gpuarray.pygpu.gpuarray import (
    SIZE,
    SSIZE,
    GpuArray,
    GpuArrayException,
    GpuContext,
    GpuKernel,
    UnsupportedException,
    array,
    asarray,
    ascontiguousarray,
    asfortranarray,
    count_devices,
    count_platforms,
    empty,
    empty_pinned,
    from_dlpack,
    from_gpudata,
    get_default_context,
    init,
    may_share_memory,
    set_default_context,
    zeros,
)
from theano_ng.gpuarray.pygpu.operations import (
    array_split,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    concatenate,
    dsplit,
    dstack,
    hsplit,
    hstack,
    split,
    vsplit,
    vstack,
)
