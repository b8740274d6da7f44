"""The fake CUDA driver of this process (`device/tests/stub_cuda/fake_cuda.c`). A process keeps the first driver that it loads,
so all tests of a process share it.
"""

import atexit
import ctypes
import functools
import shutil
import tempfile

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests.test_cuda import FakeState, compile_fake


@functools.cache
def fake_driver():
    """Return the path of the driver and the driver as a ctypes library. It is compiled and started on first use.

    Raises
    ------
    unittest.SkipTest
        If there is no C compiler.
    """
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = compile_fake(folder)
    for which in ("cuda", "nvrtc"):
        loader.use(which, path)
    driver = ctypes.CDLL(path)
    driver.fake_state.restype = ctypes.POINTER(FakeState)
    driver.fake_calls.restype = ctypes.c_char_p
    driver.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    driver.fake_start(0)
    return path, driver
