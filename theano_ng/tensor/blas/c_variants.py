"""Classic path of the BLAS Ops' C variants and the rules that choose them."""

import numpy as np

from theano_ng.compile import In, Mode, function, optdb
from theano_ng.tensor.blas.ops import (
    BlasOp as BaseBLAS,
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
    """Whether gemv has to be given an initialized `y` even where ``beta`` is 0, because the BLAS multiplies NaN by it.

    Returns
    -------
    bool
        What the product in use does with a `y` of NaN.
    """
    y, A, x = dvector(), dmatrix(), dvector()
    product = cgemv_inplace(y, np.asarray(1.0), A, x, np.asarray(0.0))
    f = function([In(y, mutable=True), A, x], product, mode=Mode("cvm", None), accept_inplace=True)
    return bool(np.isnan(f(np.full(2, np.nan), np.ones((2, 2)), np.ones(2))).any())


check_init_y = check_force_gemv_init  # its name in `tensor.blas`
