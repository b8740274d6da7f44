"""pygpu's interface: arrays on devices, kernels, and what NumPy has for arrays.

Programs written for pygpu find it under that name when the package itself is not installed (``theano_ng-run``). Nothing is loaded from a device's driver
before a context is opened.
"""

from theano_ng.gpuarray.pygpu import blas, collectives, dtypes, elemwise, operations, reduction, tools
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
