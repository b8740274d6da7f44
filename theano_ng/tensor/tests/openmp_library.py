"""Helper of tests that set the number of threads of GCC's OpenMP library."""

import ctypes


def openmp_library(case):
    """Return GCC's OpenMP library; restore its number of threads after the test.

    Parameters
    ----------
    case : unittest.TestCase
        A test, which is skipped without the library.
    """
    try:
        library = ctypes.CDLL("libgomp.so.1")
    except OSError:
        case.skipTest("GCC's OpenMP library, libgomp, is not installed")
    case.addCleanup(library.omp_set_num_threads, library.omp_get_max_threads())
    return library
