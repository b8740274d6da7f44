"""The context and the modes with which tests of Ops for devices compile functions.

If no device is open, the device of the flag `init_gpu_device` is opened, or the OpenCL device of the CPU.
"""

from theano_ng.compile.mode import get_default_mode, get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray.tests.device import context

#: The name of the context: the default context
test_ctx_name = None

context()  # skips the tests if there is no device

_mode = get_mode("FAST_RUN") if config.mode == "FAST_COMPILE" else get_default_mode()
mode_with_gpu = _mode.including("gpuarray").excluding("gpu")
mode_without_gpu = _mode.excluding("gpuarray", "gpu")
