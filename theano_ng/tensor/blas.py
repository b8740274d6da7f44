"""BLAS in graphs: the Ops, and the rules that put them there."""
from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.tensor.blas_ops import (BatchedDot, Dot22, Dot22Scalar, Gemm, GemmRelated, Gemv, Ger, _dot22, _dot22scalar,
                                       batched_dot, gemm, gemm_inplace, gemm_no_inplace, gemv, gemv_inplace, gemv_no_inplace,
                                       ger, ger_destructive, have_fblas, ldflags)
from theano_ng.tensor.blas_c import check_force_gemv_init as check_init_y
from theano_ng.tensor.opt.blas import (GemmOptimizer, _as_scalar, _beta_L_plus_alpha_M, _factor_canonicalized, _gemm_canonicalize,
                                       _gemm_from_factored_list, _gemm_from_node2, _is_real_matrix, _is_real_vector,
                                       blas_opt_inplace, blas_optdb, local_dot22_to_dot22scalar, local_dot22_to_ger_or_gemv,
                                       local_dot_to_dot22, local_gemm_to_gemv, local_gemm_to_ger, local_inplace_gemm,
                                       local_inplace_gemv, local_inplace_ger, local_print_as_we_go_along, optdb, res_is_a)
from theano_ng.tensor.opt.dimshuffle import local_dimshuffle_lift
