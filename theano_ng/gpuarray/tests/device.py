"""The device of the tests: PoCL's, on the processor."""

import os
import unittest

from theano_ng.configdefaults import config

_opened = []


def context():
    """The name of the context that tests use, "test", which also is None where that was free; SkipTest when there is no OpenCL."""
    if not _opened:
        os.environ.setdefault("POCL_DEVICES", "basic")
        os.environ.setdefault("POCL_CACHE_DIR", os.path.join(config.compiledir, "pocl"))
        os.makedirs(os.environ["POCL_CACHE_DIR"], exist_ok=True)
        from theano_ng.gpuarray.pygpu import gpuarray as pygpu

        try:
            _opened.append(pygpu.init("opencl0:0"))
        except (pygpu.GpuArrayException, OSError, ValueError) as error:
            _opened.append(error)
        else:
            from theano_ng.gpuarray.contexts import list_contexts, reg_context

            for name in ("test", None):
                if name not in list_contexts():
                    reg_context(name, _opened[0])
    if isinstance(_opened[0], Exception):
        raise unittest.SkipTest("needs an OpenCL device: pip install 'theano_ng[opencl]' (%s)" % _opened[0])
    return "test"
