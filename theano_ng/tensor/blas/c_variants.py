"""The C variants of the BLAS Ops, and the rules that choose them, as in the Theano 1.0 module `blas_c`."""

import numpy as np

from theano_ng.compile import In, Mode, function, optdb
from theano_ng.tensor.blas.ops import BlasOp as BaseBLAS
from theano_ng.tensor.blas.ops import (
    CGemv,
    CGer,
    cgemv_inplace,
    cgemv_no_inplace,
    cger_inplace,
    cger_no_inplace,
    gemv_inplace,
    gemv_no_inplace,
    ger,
    ger_destructive,
)
from theano_ng.tensor.constructors import dmatrix, dvector
from theano_ng.tensor.opt.blas import blas_optdb, make_c_gemv_destructive, make_c_ger_destructive, use_c_gemv, use_c_ger


def check_force_gemv_init():
    """Return True if gemv needs an initialized `y` even if ``beta`` is 0.

    Some BLAS libraries multiply `y` by 0 in this case, so that a NaN in `y` affects the result.

    Returns
    -------
    bool
        The result of a test: whether the gemv in use returns NaN if ``beta`` is 0 and the elements of `y` are NaN.
    """
    y, A, x = dvector(), dmatrix(), dvector()
    product = cgemv_inplace(y, np.asarray(1.0), A, x, np.asarray(0.0))
    f = function([In(y, mutable=True), A, x], product, mode=Mode("cvm", None), accept_inplace=True)
    return bool(np.isnan(f(np.full(2, np.nan), np.ones((2, 2)), np.ones(2))).any())


check_init_y = check_force_gemv_init  # the name of the function in `tensor.blas`
