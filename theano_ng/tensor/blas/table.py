"""Where the BLAS comes from: SciPy's by default, the library that blas.ldflags names otherwise."""

from theano_ng.configdefaults import config
from theano_ng.gof._native import capsule_address, dlopen_symbols, read_address
from theano_ng.gof.compiler import load_kernels
from theano_ng.gof.native import Kernel

NAMES = tuple(letter + name for name in ("gemm", "gemv") for letter in "sdcz") + ("sger", "dger", "cgeru", "zgeru")


# What Fortran functions are called in SciPy's own library, and in others.
_SYMBOLS = ("scipy_%s_", "%s_")


def _scipy_file(module):
    """The file of scipy.linalg.`module`, a compiled one, found without importing SciPy; None if there is none."""
    import importlib.machinery
    import importlib.util
    import os

    for folder in importlib.util.find_spec("scipy").submodule_search_locations:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = os.path.join(folder, "linalg", module + suffix)
            if os.path.exists(path):
                return path
    return None


def scipy_addresses(module, names):
    """Addresses of Fortran functions that SciPy links.

    They are asked of the library that a Cython module of scipy.linalg is linked to, for importing SciPy takes longer than most
    compilations. None may return a complex number, which libraries do in several ways.

    Parameters
    ----------
    module : {"cython_blas", "cython_lapack"}
    names : sequence of str

    Returns
    -------
    dict of str to int
    """
    import sys

    # Apple's library returns single precision in a way of its own, which the Cython module hides.
    path = None if sys.platform == "darwin" else _scipy_file(module)
    for symbol in _SYMBOLS if path else ():
        try:
            return dict(zip(names, dlopen_symbols(path, [symbol % name for name in names])))
        except OSError:
            pass  # built with other names
    import importlib

    lent = importlib.import_module("scipy.linalg." + module).__pyx_capi__
    return {name: capsule_address(lent[name]) for name in names}


def _linked_addresses(ldflags):
    """The functions of a library that the linker finds with some flags."""
    flags = ldflags.split()
    libraries = tuple(flag[2:] for flag in flags if flag.startswith("-l"))
    others = tuple(flag for flag in flags if not flag.startswith("-l"))
    kernels = tuple(
        Kernel(
            "extern void %s_(void);\nvoid *KERNEL = (void *)&%s_;" % (name, name),
            libraries=libraries,
            compile_args=others,
        )
        for name in NAMES
    )
    return {name: read_address(address) for name, address in zip(NAMES, load_kernels(kernels))}


def _check_openmp(ldflags):
    """Warn when two OpenMP libraries would serve one process: Intel's by MKL, and the compiler's by elementwise operations."""
    if config.openmp and config.blas.check_openmp and "mkl_intel_thread" in ldflags:
        import warnings

        warnings.warn(
            "blas.ldflags=%r brings Intel's OpenMP library and openmp=True the compiler's; the two can give wrong results together. Link "
            "mkl_gnu_thread instead of mkl_intel_thread, or set openmp=False; blas.check_openmp=False silences this warning."
            % ldflags
        )


def addresses():
    """Addresses of the Fortran-style functions `NAMES`.

    Returns
    -------
    dict of str to int

    Raises
    ------
    RuntimeError
        When blas.ldflags names a library that does not link; the message says how to go back to SciPy's.
    """
    if not config.blas.ldflags:
        return scipy_addresses("cython_blas", NAMES)
    _check_openmp(config.blas.ldflags)
    try:
        return _linked_addresses(config.blas.ldflags)
    except Exception as failure:
        raise RuntimeError(
            "blas.ldflags=%r does not give a BLAS (%s); leave blas.ldflags empty to use the one inside SciPy"
            % (config.blas.ldflags, getattr(failure, "output", str(failure)).strip())
        ) from failure


def threads():
    """How many threads the BLAS may use, as far as the machine and the usual environment variables say."""
    import os

    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:
        available = os.cpu_count() or 1
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return min(available, int(text))
    return available
