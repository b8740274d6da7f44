"""A CUDA device for tests of Ops that need NVIDIA's libraries.

It is the device that the flag init_gpu_device names, if that is a CUDA device. Otherwise it is a fake: a fake driver, which
runs kernels on the host, and fake libraries, which compute by plain loops (`device/tests/stub_cuda`).
"""

import atexit
import ctypes
import functools
import os
import shutil
import tempfile
import unittest

from theano_ng.configdefaults import config
from theano_ng.gpuarray.tests.device import DEVICE

NAME = "cuda"

# Name of the library in `loader.use` -> source file of the fake, name of its file
LIBRARIES = {
    "cublas": ("fake_cublas_solve.c", "libcublas.so.12"),
    "cusolver": ("fake_cusolver.c", "libcusolver.so.11"),
    "cufft": ("fake_cufft.c", "libcufft.so.11"),
    "cublasLt": ("fake_cublas.c", "libcublasLt.so.12"),
}

is_real = DEVICE.startswith("cuda")
fakes = {}  # name of a fake library -> ctypes.CDLL; "cuda" is the driver
paths = {}  # name of a fake library -> its path
_runners = []


def cuda_context():
    """Return the name of a context on the CUDA device. Open it, and start the fakes, on first use.

    Raises
    ------
    unittest.SkipTest
        If the fakes cannot be compiled.
    """
    from theano_ng.gpuarray.contexts import list_contexts, reg_context
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    if NAME not in list_contexts():
        reg_context(NAME, pygpu.init(DEVICE) if is_real else _opened())
    return NAME


def _opened():
    """Start the fakes, and return a context. All libraries are loaded now, because later tests in this process search for
    the real ones.
    """
    from theano_ng.gpuarray.device import loader
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    start()
    try:
        for which, path in paths.items():
            loader.use(which, path)
        made = pygpu.init("cuda0")
        for library in ("cublas", "cublas_solve", "cusolver", "cufft", "cudnn"):
            getattr(made, library)
    finally:
        for which in paths:
            loader.use(which, None)
    return made


@functools.cache
def start():
    """Compile and load the fakes. Nothing happens on a real device."""
    from theano_ng.gpuarray.device import loader
    from theano_ng.gpuarray.device.tests.cudnn import compile_fake_cudnn
    from theano_ng.gpuarray.device.tests.fake_kernels import KernelRunner
    from theano_ng.gpuarray.device.tests.test_cuda import compile_fake
    from theano_ng.gpuarray.tests.fake_driver import fake_driver

    if is_real:
        return
    if shutil.which("g++") is None:
        raise unittest.SkipTest("needs g++, which compiles the kernels of the fake CUDA device")
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    driver, fakes["cuda"] = fake_driver()
    paths["cuda"] = paths["nvrtc"] = driver
    for which, (source, file) in LIBRARIES.items():
        paths[which] = compile_fake(folder, driver, "-lm", source=source, name=file)
    paths["cudnn"] = compile_fake_cudnn(folder, driver)
    for which, path in paths.items():
        fakes.setdefault(which, ctypes.CDLL(path))
    fakes["cudnn"].fake_dnn_reset()
    fakes["cublas"].fake_triangular_reset()
    fakes["cusolver"].fake_solver_reset()
    fakes["cufft"].fake_fft_reset()
    fakes["cublasLt"].fake_blas_reset()
    kernels = os.path.join(config.compiledir, "fake_kernels")
    _runners.append(KernelRunner(fakes["cuda"], kernels, loader.cluda("cuda")))


def solver_state():
    """Return the state of the fake cuSOLVER."""
    from theano_ng.gpuarray.device.tests.test_libraries import SolverState

    return _state(fakes["cusolver"].fake_solver_state, SolverState)


def fft_state():
    """Return the state of the fake cuFFT."""
    from theano_ng.gpuarray.device.tests.test_libraries import FftState

    return _state(fakes["cufft"].fake_fft_state, FftState)


def _state(function, kind):
    function.restype = ctypes.POINTER(kind)
    return function().contents


def calls():
    """Return the first word of each call of the fakes since the last call of this function."""
    return [line.split()[0] for line in fakes["cuda"].fake_calls().decode().splitlines()]


class CudaTest(unittest.TestCase):
    """A base class for tests on the CUDA device. A kernel that the fake driver could not run makes the test fail."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.name = cuda_context()

    def setUp(self):
        import numpy as np

        self.rng = np.random.default_rng(7)
        self.addCleanup(self._kernels_ran)

    def _kernels_ran(self):
        for runner in _runners:
            failures, runner.failures = runner.failures, []
            self.assertEqual(failures, [])
