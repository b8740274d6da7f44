"""Where the shared libraries of devices are: drivers, compilers, and what NVIDIA's and OpenCL's wheels bring.

Nothing here is a dependency: whoever asks for a device has installed its driver, and ``pip install 'theano_ng[cuda12]'``, ``[cuda13]`` or ``[opencl]``
brings the rest. C code opens the libraries by itself; it is told their paths (`libraries`), and the text in front of every kernel (`cluda`).
"""

import functools
import glob
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

_given = {}  # what `use` said

# CUDA's major versions whose compiler is looked for, the newest first.
NVRTC_VERSIONS = (13, 12, 11)


def use(which, path):
    """Take this file for a library, whatever is installed.

    Parameters
    ----------
    which : {"cuda", "nvrtc", "opencl"}
    path : str or None
        None: look for it again.
    """
    if path is None:
        _given.pop(which, None)
    else:
        _given[which] = os.fspath(path)


def libraries(device):
    """What C code has to know before it opens a device.

    Parameters
    ----------
    device : str
        Such as "cuda0" or "opencl0:0".

    Returns
    -------
    dict of str to (str or None)
        For `device_set_library`. None: not found; C code asks the system for it, and says so if there is none.
    """
    if device.startswith("cuda"):
        return {"cuda": cuda(), "nvrtc": nvrtc()}
    if device.startswith("opencl"):
        return {"opencl": opencl()}
    return {}


@functools.cache
def cluda(dialect):
    """The text that begins every kernel in a dialect, "cuda" or "opencl": the macros of ``cluda.h``. Empty for other kinds of devices."""
    if dialect not in ("cuda", "opencl"):
        return ""
    with open(os.path.join(HERE, "cluda_%s.h" % dialect), encoding="ascii") as file:
        return file.read()


def cuda():
    """The driver of NVIDIA's cards, which is part of the system: a path, or the name that the system knows it by."""
    wsl = "/usr/lib/wsl/lib/libcuda.so.1"
    return _given.get("cuda") or (wsl if os.path.exists(wsl) else "libcuda.so.1")


def nvrtc():
    """The compiler of CUDA's dialect: that of the newest version that the driver knows, else the newest there is; None when there is none.

    A driver runs what compilers of its own major version and of older ones make.
    """
    if "nvrtc" in _given:
        return _given["nvrtc"]
    driver = _driver_version()
    return nvidia("nvrtc", sorted(NVRTC_VERSIONS, key=lambda version: driver is not None and version > driver))


def _driver_version():
    """CUDA's major version of the driver; None when there is no driver."""
    import ctypes

    version = ctypes.c_int(0)
    try:
        status = ctypes.CDLL(cuda()).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return version.value // 1000 if status == 0 else None


def nvidia(name, versions):
    """A library of CUDA's, ``lib<name>.so.<version>``.

    Wheels come first, for they are made for this program and the version of each is known. Where there are none, `cuda-pathfinder` knows the
    places of conda and of NVIDIA's installers.

    Parameters
    ----------
    name : str
        Such as "nvrtc" or "cublas".
    versions : sequence of int
        Major versions; the first whose wheel is installed is taken.

    Returns
    -------
    str or None
    """
    for version in versions:
        for folder in _package_folders("nvidia"):
            # nvidia/cuda_nvrtc/lib of CUDA 12, nvidia/cu13/lib since 13
            pattern = os.path.join(glob.escape(folder), "*", "lib", "lib%s.so.%d" % (name, version))
            for path in sorted(glob.glob(pattern)):
                return path
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return load_nvidia_dynamic_lib(name).abs_path
    except Exception:  # its own class, or that of a library that is broken: there is none for us
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
    """OpenCL's loader: that of the system where it knows a platform, else the one that pyopencl's wheel brings along, else None.

    The wheel's loader knows the platforms of the system too, and PoCL of ``pocl-binary-distribution``, which computes on the processor. It takes
    its folder from the environment variable ``PYOPENCL_HOME`` and crashes without, so that is set here, as pyopencl itself does. pyopencl is not imported.
    """
    return _given.get("opencl") or _opencl()


def _system_opencl():
    """What OpenCL the system has: None, "loader", or "platforms" when its loader finds any."""
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
    # The loader opens PoCL by its bare name, which is found when it is open already (pyopencl's own module has it in its search path).
    for path in sorted(glob.glob(os.path.join(glob.escape(libraries), "libpocl*.so*"))):
        try:
            ctypes.CDLL(path)
        except OSError:  # without pocl-binary-distribution: other platforms may be there
            pass


def _package_folders(name):
    """The folders of a package that is installed, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec else []
