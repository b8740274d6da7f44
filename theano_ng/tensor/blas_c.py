"""Classic path of the BLAS Ops' C variants and the rules that choose them."""
from theano_ng.compile import optdb
from theano_ng.tensor.blas_ops import (BlasOp as BaseBLAS, CGemv, CGer, cgemv_inplace, cgemv_no_inplace, cger_inplace,
                                       cger_no_inplace, gemv_inplace, gemv_no_inplace, ger, ger_destructive)
from theano_ng.tensor.opt.blas import blas_optdb, make_c_gemv_destructive, make_c_ger_destructive, use_c_gemv, use_c_ger
