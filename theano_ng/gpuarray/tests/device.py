"""The device on which tests compute: OpenCL on the CPU, or the device that the flag init_gpu_device names."""

import os
import unittest

from theano_ng.configdefaults import config

# The device that `make test-gpu` names; by default the OpenCL device of the CPU.
DEVICE = config.init_gpu_device or "opencl0:0"

# Whether the OpenCL device of the CPU runs the code for GPUs, in groups of threads: the tests of a module then test this
# code. test_gpu_code.py does so in any case.
AS_GPU = bool(os.environ.get("THEANO_NG_TEST_AS_GPU"))

_opened = []


def context(name="test"):
    """Return the name of a context; open and register the context on first use.

    The default context, None, is then the same context unless it is defined already.

    Raises
    ------
    unittest.SkipTest
        If there is no OpenCL device.
    """
    from theano_ng.gpuarray.contexts import list_contexts, reg_context
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    if name in list_contexts():
        return name
    if not _opened:
        os.environ.setdefault("POCL_DEVICES", "basic")
        os.environ.setdefault("POCL_CACHE_DIR", os.path.join(config.compiledir, "pocl"))
        os.makedirs(os.environ["POCL_CACHE_DIR"], exist_ok=True)
        try:
            _opened.append(_as_gpu() if AS_GPU else pygpu.init(DEVICE))
        except pygpu.GpuArrayException as error:
            raise unittest.SkipTest("needs an OpenCL device: pip install 'theano_ng[opencl]' (%s)" % error) from None
    reg_context(name, _opened[0])
    if None not in list_contexts():
        reg_context(None, _opened[0])
    return name


def _as_gpu():
    """Open the device. If it is an OpenCL device of a CPU, it runs the code for GPUs."""
    from theano_ng.gpuarray.device.tests import native
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    library = native.load()
    library.device_opencl_as_gpus(1)
    try:
        return pygpu.init(DEVICE)
    finally:
        library.device_opencl_as_gpus(0)


def gpu_context(name="as gpu"):
    """Return the name of a context that runs the code for GPUs, even on a CPU; open the context on first use."""
    from theano_ng.gpuarray.contexts import list_contexts, reg_context

    context()
    if name not in list_contexts():
        reg_context(name, _as_gpu())
    return name


def allow_nan(test):
    """Let DebugMode accept NaN and infinity until a test ends. `make test-debug` makes it the default mode."""
    flags = config.change_flags({"DebugMode.check_finite": False})
    flags.__enter__()
    test.addCleanup(flags.__exit__)


def other_context(test, name="separate"):
    """Register a context on the same device that shares no memory with `context`. Remove it when the test ends."""
    from theano_ng.gpuarray import contexts
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    context()
    contexts.reg_context(name, pygpu.init(DEVICE))
    test.addCleanup(contexts.unregister, name)
    return name


# The memory layouts in which tests pass arrays.
LAYOUTS = ("C", "strided", "reversed", "F")


def placed(value, layout, name="test"):
    """Return an array on the device with this value.

    Parameters
    ----------
    value : numpy.ndarray
    layout : {"C", "strided", "reversed", "F"}
        C order; every second element of a larger array; negative strides; Fortran order.
    name : hashable
        The name of the context.
    """
    import numpy as np

    from theano_ng.gpuarray.contexts import get_context
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    ctx, value = get_context(name), np.asarray(value)
    if layout == "C" or value.ndim == 0:
        return pygpu.array(value, context=ctx)
    if layout == "F":
        return pygpu.array(np.ascontiguousarray(value.T), context=ctx).T
    if layout == "reversed":
        index = (slice(None, None, -1),) * value.ndim
        return pygpu.array(np.ascontiguousarray(value[index]), context=ctx)[index]
    larger = np.zeros([2 * n + 1 for n in value.shape], value.dtype)
    index = tuple(slice(1, 2 * n + 1, 2) for n in value.shape)
    larger[index] = value
    return pygpu.array(larger, context=ctx)[index]


def gpu_variable(dtype, ndim, name="test"):
    """Return a variable on the device that broadcasts along no axis."""
    from theano_ng.gpuarray.type import GpuArrayType

    return GpuArrayType(dtype, (False,) * ndim, name)()
