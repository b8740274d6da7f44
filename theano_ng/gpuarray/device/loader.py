"""Paths of the shared libraries of devices: drivers, compilers, and the libraries in NVIDIA's and OpenCL's wheels.

None of these libraries is a dependency of the package. A user who opens a device has installed its driver. The extras
``[cuda12]``, ``[cuda13]`` and ``[opencl]`` (``pip install 'theano_ng[cuda12]'``) install the other libraries. The C
code opens the libraries. It gets their paths from `libraries`, and the prefix of every kernel from `cluda`.
"""

import functools
import glob
import importlib.util
import os
import sys

from theano_ng.configdefaults import config

HERE = os.path.dirname(os.path.abspath(__file__))

_given = {}  # name of a library -> path that `use` set

# Major versions of CUDA. The loader searches for their compilers and for their libraries, newest first.
NVRTC_VERSIONS = (13, 12, 11)
CUBLAS_VERSIONS = (13, 12)
# The numbers of cuSOLVER and cuFFT for these versions of CUDA, which are the last part of their file names.
CUSOLVER_VERSIONS = CUFFT_VERSIONS = {13: 12, 12: 11}

# Major versions of cuDNN, whose files do not name the version of CUDA
CUDNN_VERSIONS = (9,)
# The version in the name of NCCL's library, which is not that of CUDA.
NCCL_VERSIONS = (2,)


def use(which, path):
    """Set the file of a library. This file is then used even if another file of the library is installed.

    Parameters
    ----------
    which : {"cuda", "nvrtc", "cublasLt", "cublas", "cusolver", "cufft", "cudnn", "nccl", "opencl"}
    path : str or None
        None: search for the library again.
    """
    if path is None:
        _given.pop(which, None)
    else:
        _given[which] = os.fspath(path)


def libraries(device):
    """Return the library paths that the C code needs before it opens a device. It needs the paths of `cublas` ("cublas"),
    `cusolver` and `cufft` before it opens these libraries (`GpuContext.cusolver` etc.).

    Parameters
    ----------
    device : str
        Such as "cuda0" or "opencl0:0".

    Returns
    -------
    dict of str to (str or None)
        Arguments for `device_set_library`. If a path is None, the C code lets the system's loader search for the
        library, and reports an error if the loader does not find it.
    """
    if device.startswith("cuda"):
        return {"cuda": cuda(), "nvrtc": nvrtc(), "cublasLt": cublas(), "cudnn": cudnn(), "nccl": nccl()}
    if device.startswith("opencl"):
        return {"opencl": opencl()}
    return {}


@functools.cache
def cluda(dialect):
    """Return the prefix of every kernel in a dialect. For "cuda" and "opencl" it contains macros, from
    ``cluda_<dialect>.h``. For other dialects it is empty.
    """
    if dialect not in ("cuda", "opencl"):
        return ""
    with open(os.path.join(HERE, "cluda_%s.h" % dialect), encoding="ascii") as file:
        return file.read()


def cuda():
    """Return the path or library name of NVIDIA's driver, which is part of the system."""
    wsl = "/usr/lib/wsl/lib/libcuda.so.1"
    return _given.get("cuda") or (wsl if os.path.exists(wsl) else "libcuda.so.1")


def nvrtc():
    """Return the path of NVRTC, the compiler of CUDA kernels. Return None if it is not installed.

    Prefer the newest version that the driver supports, then the newest installed version. A driver runs the output of
    compilers with the same or an older major version.
    """
    return _nvidia_for_driver("nvrtc", NVRTC_VERSIONS)


def cublas(name="cublasLt"):
    """Return the path of cuBLASLt, which multiplies matrices, or of cuBLAS (`name` "cublas"), which solves triangular
    systems. Return None if it is not installed. See `nvrtc`.
    """
    return _nvidia_for_driver(name, CUBLAS_VERSIONS)


def cusolver():
    """Return the path of cuSOLVER, which factorizes matrices. Return None if it is not installed. See `nvrtc`."""
    return _nvidia_for_driver("cusolver", CUSOLVER_VERSIONS)


def cufft():
    """Return the path of cuFFT, which computes Fourier transforms. Return None if it is not installed. See `nvrtc`."""
    return _nvidia_for_driver("cufft", CUFFT_VERSIONS)


def cudnn():
    """Return the path of cuDNN, which computes parts of neural networks. Return None if it is not installed.

    The folder that ``config.dnn.library_path`` names is searched first.
    """
    if "cudnn" in _given:
        return _given["cudnn"]
    folder = config.dnn.library_path
    for version in CUDNN_VERSIONS:
        path = os.path.join(folder, "libcudnn.so.%d" % version)
        if folder and os.path.exists(path):
            return path
    return nvidia("cudnn", CUDNN_VERSIONS)


def nccl():
    """Return the path of NCCL, which sums and copies arrays of several devices. Return None if it is not installed.

    The wheels for CUDA 12 and for CUDA 13 install the same file, so there is no choice.
    """
    return _given["nccl"] if "nccl" in _given else nvidia("nccl", NCCL_VERSIONS)


def _nvidia_for_driver(name, versions):
    """Return the path of a library. `versions` contains versions of CUDA. If it is a dict, its values are the versions of
    the library.
    """
    if name in _given:
        return _given[name]
    driver = _driver_version()
    ordered = sorted(versions, key=lambda version: driver is not None and version > driver)
    return nvidia(name, [versions[version] for version in ordered] if isinstance(versions, dict) else ordered)


def _driver_version():
    """Return the major version of CUDA that the driver supports, or None if there is no driver."""
    import ctypes

    version = ctypes.c_int(0)
    try:
        status = ctypes.CDLL(cuda()).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return version.value // 1000 if status == 0 else None


def nvidia(name, versions):
    """Return the path of a CUDA library, ``lib<name>.so.<version>``.

    Wheels come first: they are installed for this program, and the version of each is known. If no wheel has the
    library, `cuda-pathfinder` searches the folders of conda and of NVIDIA's installers.

    Parameters
    ----------
    name : str
        Such as "nvrtc", "cublas" or "nccl".
    versions : sequence of int
        Versions in the name of the file, in order of preference. The first version whose wheel is installed is used.

    Returns
    -------
    str or None
    """
    for version in versions:
        for folder in _package_folders("nvidia"):
            # CUDA 12 uses nvidia/cuda_nvrtc/lib; CUDA 13 uses nvidia/cu13/lib
            pattern = os.path.join(glob.escape(folder), "*", "lib", "lib%s.so.%d" % (name, version))
            for path in sorted(glob.glob(pattern)):
                return path
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return load_nvidia_dynamic_lib(name).abs_path
    except Exception:  # if cuda-pathfinder fails, or the library is broken, treat the library as not installed
        return None


@functools.cache
def _opencl():
    system = _system_opencl()
    if system == "platforms":
        return "libOpenCL.so.1"
    for folder in _package_folders("pyopencl"):
        for libraries in (os.path.join(folder, ".libs"), folder + ".libs"):
            loaders = sorted(glob.glob(os.path.join(glob.escape(libraries), "libOpenCL*.so*")))
            if loaders:
                _prepare_pyopencl(folder, libraries)
                return loaders[0]
    return "libOpenCL.so.1" if system else None


def opencl():
    """Return the path of OpenCL's loader.

    Prefer the system's loader if it finds a platform. Otherwise prefer the loader in pyopencl's wheel. If this wheel is
    not installed, return the system's loader although it finds no platform. Return None if no loader is installed.

    The wheel's loader also finds the platforms of the system. In addition, it finds PoCL, which computes on the CPU, if
    the wheel ``pocl-binary-distribution`` is installed. The wheel's loader reads pyopencl's folder from the environment
    variable ``PYOPENCL_HOME`` and crashes if the variable is unset. Therefore this function sets the variable, as
    pyopencl itself does. pyopencl is not imported.
    """
    return _given.get("opencl") or _opencl()


def _system_opencl():
    """Return "platforms" if the system's loader of OpenCL finds a platform, "loader" if it finds none, else None."""
    import ctypes

    try:
        library = ctypes.CDLL(
            "libOpenCL.so.1" if sys.platform != "darwin" else "/System/Library/Frameworks/OpenCL.framework/OpenCL"
        )
    except OSError:
        return None
    count = ctypes.c_uint(0)
    status = library.clGetPlatformIDs(0, None, ctypes.byref(count))
    return "platforms" if status == 0 and count.value else "loader"


def _prepare_pyopencl(folder, libraries):
    import ctypes

    os.environ.setdefault("PYOPENCL_HOME", folder)
    # The loader opens PoCL by its file name alone. This works only if PoCL is already loaded, because PoCL's folder is
    # in no search path except that of pyopencl's extension module.
    for path in sorted(glob.glob(os.path.join(glob.escape(libraries), "libpocl*.so*"))):
        try:
            ctypes.CDLL(path)
        except OSError:  # pocl-binary-distribution is not installed; other platforms may exist
            pass


def _package_folders(name):
    """Return the folders of an installed package, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec else []
