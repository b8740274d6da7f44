"""The addresses of LAPACK functions.

The functions are always taken from SciPy. The library that `config.blas.ldflags` names is not used, because it may lack
LAPACK.
"""

from theano_ng.tensor.blas.table import scipy_addresses

# These are the functions that native/linalg/lapack.c calls, each for float32, float64, complex64 and complex128.
LAPACK_NAMES = tuple(letter + name for name in ("potrf", "getrf", "getri") for letter in "sdcz") + tuple(
    letter + name + driver
    for driver in ("evd", "gvd")
    for letter, name in (("s", "sy"), ("d", "sy"), ("c", "he"), ("z", "he"))
)
BLAS_NAMES = tuple(letter + name for name in ("trsv", "trsm") for letter in "sdcz")


def addresses():
    """Return the addresses of the Fortran functions `LAPACK_NAMES` and `BLAS_NAMES`.

    Returns
    -------
    dict of str to int
    """
    return {**scipy_addresses("cython_blas", BLAS_NAMES), **scipy_addresses("cython_lapack", LAPACK_NAMES)}
