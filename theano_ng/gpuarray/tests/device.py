"""The device that tests compute on: OpenCL on this machine's processor, or the one that the flag init_gpu_device names."""

import os
import unittest

from theano_ng.configdefaults import config

# The one that `make test-gpu` names, or that of processors.
DEVICE = config.init_gpu_device or "opencl0:0"

_opened = []


def context(name="test"):
    """The name of a context, which is opened the first time; the default one, None, is then the same if nobody has defined it.

    Raises
    ------
    unittest.SkipTest
        When there is no OpenCL device.
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
            _opened.append(pygpu.init(DEVICE))
        except pygpu.GpuArrayException as error:
            raise unittest.SkipTest("needs an OpenCL device: pip install 'theano_ng[opencl]' (%s)" % error) from None
    reg_context(name, _opened[0])
    if None not in list_contexts():
        reg_context(None, _opened[0])
    return name
