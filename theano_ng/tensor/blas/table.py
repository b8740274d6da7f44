"""The addresses of the BLAS functions: from SciPy by default, otherwise from the library in `blas.ldflags`."""

from theano_ng.configdefaults import config
from theano_ng.gof._native import capsule_address, dlopen_symbols, read_address
from theano_ng.gof.compiler import load_kernels
from theano_ng.gof.native import Kernel

NAMES = tuple(letter + name for name in ("gemm", "gemv") for letter in "sdcz") + ("sger", "dger", "cgeru", "zgeru")


# The patterns of the symbols of Fortran functions: the first for the BLAS library inside SciPy, the second for others.
_SYMBOLS = ("scipy_%s_", "%s_")


def _scipy_file(module):
    """Return the path of the compiled module ``scipy.linalg.<module>``, or None. SciPy is not imported."""
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
    """Return the addresses of Fortran functions in the library that SciPy is linked to.

    The symbols are looked up in the library to which a Cython module of scipy.linalg is linked. SciPy is not imported
    if this succeeds, because the import would take longer than most compilations. The functions must not return complex
    numbers, because libraries return complex numbers in different ways.

    Parameters
    ----------
    module : {"cython_blas", "cython_lapack"}
    names : sequence of str

    Returns
    -------
    dict of str to int
    """
    import sys

    # Use the Cython module on macOS, because Apple's library does not return single precision numbers as C does.
    path = None if sys.platform == "darwin" else _scipy_file(module)
    for symbol in _SYMBOLS if path else ():
        try:
            return dict(zip(names, dlopen_symbols(path, [symbol % name for name in names])))
        except OSError:
            pass  # the library has other symbols
    import importlib

    lent = importlib.import_module("scipy.linalg." + module).__pyx_capi__
    return {name: capsule_address(lent[name]) for name in names}


def _linked_addresses(ldflags):
    """Return the addresses of `NAMES` in the library that the linker finds with the given flags."""
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
    """Warn if MKL would load Intel's OpenMP library, although the kernels use the OpenMP library of the compiler."""
    if config.openmp and config.blas.check_openmp and "mkl_intel_thread" in ldflags:
        import warnings

        warnings.warn(
            "blas.ldflags=%r loads Intel's OpenMP library and openmp=True the compiler's; together they can give "
            "wrong results. Link mkl_gnu_thread instead of mkl_intel_thread, or set openmp=False; "
            "blas.check_openmp=False silences this warning." % ldflags
        )


def addresses():
    """Return the addresses of the Fortran functions `NAMES`.

    Returns
    -------
    dict of str to int

    Raises
    ------
    RuntimeError
        If the library in blas.ldflags cannot be linked. The message explains how to use SciPy's BLAS again.
    """
    if not config.blas.ldflags:
        return scipy_addresses("cython_blas", NAMES)
    _check_openmp(config.blas.ldflags)
    try:
        return _linked_addresses(config.blas.ldflags)
    except Exception as failure:
        raise RuntimeError(
            "blas.ldflags=%r does not link a BLAS (%s); leave blas.ldflags empty to use the BLAS inside SciPy"
            % (config.blas.ldflags, getattr(failure, "output", str(failure)).strip())
        ) from failure


def threads():
    """Return the number of threads that the CPU affinity and variables such as OMP_NUM_THREADS permit for the BLAS."""
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
