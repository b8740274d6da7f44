"""Cumulative sums and products on devices."""

import numpy as np

from theano_ng.gof.native import NativeCode
from theano_ng.gof.op import Op
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.kernels import cumulation as kernels
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp
from theano_ng.lazy import lazy_names
from theano_ng.tensor.reductions.cumulative import CumOp

__all__ = ["GpuCumOp", "GpuCumsumOp"]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(
    __name__, {**CLASSIC_IMPORTS, "theano_ng.gpuarray.opt.elementwise": "local_gpua_cumop"}
)

# If the array has at least this number of lines (1-d slices along the axis), each thread processes one line. -1 stands
# for the number of threads that keep the device busy; a CPU then always processes a line by one thread.
_THREADS = -1
# A group of threads processes at least this number of elements. If fewer groups than the device has room for would
# process the lines, several groups process pieces of each line.
_SHORTEST = 4096


class GpuCumOp(TwinOp):
    """Compute the cumulative sum or product of a device array.

    Parameters
    ----------
    axis : int or None
        None for the flattened array.
    mode : {'add', 'mul'}

    Raises
    ------
    ValueError
        If the mode is invalid, or the axis is out of bounds.

    Notes
    -----
    The result has the dtype of the input, or int64 if the input is bool. Kernels accumulate float16 in float32. If the
    array has few but long 1-d slices along the axis, many threads process each slice, not in sequential order. Then
    sums of floats may differ in the last bits from sums on the host, but not from run to run.
    """

    __props__ = ("axis", "mode")

    def __init__(self, axis, mode="add"):
        CumOp(axis, mode)  # raises an error if an argument is invalid
        self.axis, self.mode = axis, mode

    def __str__(self):
        return "%s{%s, %s}" % (type(self).__name__, self.axis, self.mode)

    def host_op(self, node):
        return CumOp(self.axis, self.mode)

    def make_node(self, x):
        context_name = infer_context_name(x)
        x = as_gpuarray_variable(x, context_name)
        return self.on_device([x], self.host_op(None).make_node(host_from_gpu(x)), context_name)

    def native_code(self, node):
        x, z = node.inputs[0].type, node.outputs[0].type
        if z.dtype.startswith("complex"):
            return None
        axes = 0 if self.axis is None else x.ndim - 1

        def kernel(how):
            return kernels.cumulation(x.dtype, z.dtype, self.mode == "mul", axes, how, x.context)

        grouped = _THREADS >= 0 or not x.context.vector_bytes
        return NativeCode(
            "theano_ng.gpuarray.native.cumulation:cumulative",
            axis=-1 if self.axis is None else self.axis % x.ndim,
            typecode=z.typecode,
            lines=kernel("threads"),
            groups=kernel("groups") if grouped else 0,
            sums=kernel("sums") if grouped else 0,
            group=kernels.GROUP,
            shortest=_SHORTEST,
            sum_size=np.dtype(work_dtype(z.dtype)).itemsize,
            threads=_THREADS,
        )


class GpuCumsumOp(Op):
    """An alias: ``GpuCumsumOp(axis)`` returns a `GpuCumOp` with mode 'add'."""

    __props__ = ("axis",)

    def __new__(typ, *args, **kwargs):
        return GpuCumOp(*args, mode="add", **kwargs)
