"""Arrays on devices, Ops on these arrays, and the rules that move computations to devices.

If the flag ``device`` (``cuda``, ``cuda0``, ``opencl0:0``) is set, a program uses a device without any other change.
If no flag names a device, ``import theano_ng`` does not import this package. The function `use` opens a device at run
time.
"""

from theano_ng.compile.mode import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.optdb import register_loader
from theano_ng.gpuarray import devices, profile  # importing `profile` registers the device section of profiles
from theano_ng.gpuarray.devices import init_dev, pygpu_parse_version, transfer, use
from theano_ng.gpuarray.type import (
    ContextNotDefined,
    GpuArrayConstant,
    GpuArraySharedVariable,
    GpuArrayType,
    GpuArrayVariable,
    get_context,
    list_contexts,
    reg_context,
)
from theano_ng.lazy import lazy_names

__all__ = [
    "ContextNotDefined",
    "GpuArrayConstant",
    "GpuArraySharedVariable",
    "GpuArrayType",
    "GpuArrayVariable",
    "config",
    "get_context",
    "init_dev",
    "list_contexts",
    "optdb",
    "pygpu_parse_version",
    "reg_context",
    "transfer",
    "use",
]

register_loader("theano_ng.gpuarray.opt", "gpuarray_opt")

_find, __dir__, _ = lazy_names(
    __name__,
    {
        "theano_ng.gpuarray.transfers": "GpuFromHost as_gpuarray_variable",
        "theano_ng.gpuarray.type": "gpuarray_shared_constructor",
    },
    modules="basic_ops blas blocksparse ctc cudnn_defs dnn dnn_opt elemwise extra_ops fft fp16_help kernel_codegen linalg multinomial neighbours nnet opt opt_util"
    " pool reduction rng_mrg sort subtensor type pygpu",
)


def __getattr__(name):
    # Two classic names of one variable. Read the variable now: its value changes when the first device is opened.
    if name in ("pygpu_activated", "theano_gpu_is_already_active"):
        return devices.activated
    return _find(name)
