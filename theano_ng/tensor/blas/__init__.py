"""Products of vectors and matrices that are computed by a BLAS library.

==============  ======================================================================
`ops`           the Ops, each one BLAS call: `Gemm`, `Gemv`, `Ger`, `Dot22`, `BatchedDot` ...
`table`         the addresses of the BLAS functions, from SciPy or another library
`headers`       C declarations for user code
`c_variants`    the Theano 1.0 module `blas_c`
`scipy_ger`     the Theano 1.0 module `blas_scipy`: Ger for graphs without C
==============  ======================================================================

The rewriting rules that insert these Ops are in `tensor/opt/blas.py`. This package exports the names of the
Theano 1.0 module `theano.tensor.blas`.
"""

from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names

_NAMES = {
    "theano_ng.tensor.blas.ops": (
        "BatchedDot Dot22 Dot22Scalar Gemm GemmRelated Gemv Ger _dot22 _dot22scalar batched_dot gemm gemm_inplace gemm_no_inplace "
        "gemv gemv_inplace gemv_no_inplace ger ger_destructive have_fblas ldflags"
    ),
    "theano_ng.tensor.blas.headers": "blas_header_text blas_header_version",
    "theano_ng.tensor.blas.c_variants": "check_init_y",
    "theano_ng.tensor.opt.blas": (
        "GemmOptimizer _as_scalar _beta_L_plus_alpha_M _factor_canonicalized _gemm_canonicalize _gemm_from_factored_list "
        "_gemm_from_node2 _is_real_matrix _is_real_vector blas_opt_inplace blas_optdb local_dot22_to_dot22scalar "
        "local_dot22_to_ger_or_gemv local_dot_to_dot22 local_gemm_to_gemv local_gemm_to_ger local_inplace_gemm local_inplace_gemv "
        "local_inplace_ger local_print_as_we_go_along optdb res_is_a"
    ),
    "theano_ng.tensor.opt.dimshuffle": "local_dimshuffle_lift",
}
__all__ = lazy_names(__name__, _NAMES)[2]
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        **_NAMES,
        "scipy.linalg": "fblas=blas",
        "theano_ng.tensor": "T=basic",
        "theano_ng.tensor.blas.ops": _NAMES["theano_ng.tensor.blas.ops"] + " _ldflags",
        "theano_ng.tensor.type": "values_eq_approx_remove_inf_nan",
    },
)
