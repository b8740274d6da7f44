"""The names that ``from theano_ng.tensor import *`` imports. They are the names of Theano 1.0.5.

Newer names are omitted, because they could replace names of a program that imports all names. Such a program may also
use modules and functions that Theano's module `tensor` had only imported for its own use. `star_names` imports or
defines these modules and functions. `theano_ng.tensor` provides all other names in `CLASSIC`.
"""

import builtins
import logging
import numbers
import sys
import warnings
from collections.abc import Iterable
from functools import partial
from textwrap import dedent

import numpy as np

from theano_ng import compile, gof, printing
from theano_ng.compat import izip, xrange

theano = sys.modules[__name__.partition(".")[0]]
# These are Python's functions. In `theano_ng.tensor`, the names `all`, `any` and `complex` belong to functions of
# tensors.
python_all, python_any, python_complex = all, any, complex

CLASSIC = """
ARange AdvancedBooleanIncSubtensor AdvancedBooleanIndexingError AdvancedBooleanSubtensor AdvancedIncSubtensor AdvancedIncSubtensor1
AdvancedIndexingError AdvancedSubtensor AdvancedSubtensor1 Alloc AllocDiag AllocEmpty Apply Argmax AsTensorError
BaseAdvancedIncSubtensor BaseAdvancedSubtensor CAReduce Choose Constant Default DiffOp DimShuffle DisconnectedType Dot Elemwise
EmptyConstantError ExtractDiag Eye Flatten Generic IncSubtensor Iterable Join LoadFromDisk Lop MPIRecv MPIRecvWait MPISend MPISendWait
MakeSlice MaxAndArgmax Mean MethodNotDefined NoneConst NoneTypeT Nonzero NotScalarConstantError Op ParamsType PermuteRowElements
Rebroadcast Reshape Rop ScalarFromTensor Shape ShapeError SliceConstant SliceType SpecifyShape Split Subtensor SubtensorPrinter Sum
Tensor TensorConstant TensorConstantSignature TensorFromScalar TensorType TensorVariable Tile Tri Type Variable abs_ add addbroadcast
adv_index_broadcastable_pattern advanced_boolean_inc_subtensor advanced_boolean_set_subtensor advanced_boolean_subtensor
advanced_inc_subtensor advanced_inc_subtensor1 advanced_set_subtensor advanced_set_subtensor1 advanced_subtensor advanced_subtensor1 all
all_dtypes allclose alloc alloc_validate_shape and_ angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
argsort argtopk as_index_variable as_int_none_variable as_tensor as_tensor_variable bartlett basic batched_dot batched_tensordot bcol
bincount bitwise_and bitwise_not bitwise_or bitwise_xor blas blas_c blas_headers blas_scipy bmatrix brow bscalar btensor3 btensor4
btensor5 btensor6 btensor7 builtins bvector cast ccol ceil ceil_intdiv check_advanced_indexing_dimensions check_and_normalize_axes
check_and_reject_bool check_equal_numpy chi2sf choose clip cmatrix col cols compile complex complex_dtypes complex_from_polar
complex_matrix_types complex_scalar_types complex_types complex_vector_types concatenate config conj consider_constant constant
constant_cache constructor continuous_dtypes cos cosh cov crow cscalar ctensor3 ctensor4 ctensor5 ctensor6 ctensor7 cumprod cumsum
cvector dcol dcols dedent default deg2rad diag diagonal discrete_dtypes div_proxy divmod dmatrices dmatrix dot drow drows dscalar
dscalars dtensor3 dtensor3s dtensor4 dtensor4s dtensor5 dtensor5s dtensor6 dtensor6s dtensor7 dtensor7s dvector dvectors elemwise
elemwise_cgen eq erf erfc erfcinv erfcx erfinv exp exp2 expm1 extra_ops extract_constant eye fcol fcols fill fill_diagonal
fill_diagonal_offset flatnonzero flatten float16_atol float16_rtol float32_atol float32_rtol float64_atol float64_rtol float_dtypes
float_matrix_types float_scalar_types float_types float_vector_types floor floor_div fmatrices fmatrix frow frows fscalar fscalars
ftensor3 ftensor3s ftensor4 ftensor4s ftensor5 ftensor5s ftensor6 ftensor6s ftensor7 ftensor7s fvector fvectors gamma gammainc gammaincc
gammal gammaln gammau ge get_canonical_form_slice get_idx_list get_scalar_constant_value get_scalar_constant_value_elemwises
get_vector_length gof grad grad_not_implemented grad_undefined gt hashtype hessian horizontal_stack i0 i1 icol icols identity_like imag
imatrices imatrix inc_code inc_subtensor int32 int32_t int_div int_dtypes int_matrix_types int_scalar_types int_types int_vector_types
integer_dtypes integer_types inv inverse_permutation invert io irecv iround irow irows is_flat iscalar iscalars isclose isend isinf
isinf_ isnan isnan_ itensor3 itensor3s itensor4 itensor4s itensor5 itensor5s itensor6 itensor6s itensor7 itensor7s iv ivector ivectors
izip j0 j1 jacobian join join_ jv key_to_cmp largest lcol lcols le lmatrices lmatrix load log log10 log1p log2 logging lrow lrows
lscalar lscalars lt ltensor3 ltensor3s ltensor4 ltensor4s ltensor5 ltensor5s ltensor6 ltensor6s ltensor7 ltensor7s lvector lvectors
makeKeepDims make_constant make_slice matrices matrix max max_and_argmax maximum mean mgrid min min_informative_str minimum mod
mod_check mpi_cmps mpi_enabled mpi_keys mpi_send_wait_cmp mpi_send_wait_key mpi_tag_cmp mpi_tag_key mul neg neq nlinalg nnet none_type_t
nonzero nonzero_values np numbers numeric_grad numpy_diagonal_return_view numpy_scalar ogrid ones ones_like opt opt_uncanonicalize or_
outer partial patternbroadcast permute_row_elements pow power pprint printing prod psi ptp python_all python_any python_complex rad2deg
ravel_multi_index raw_random real recv register_transfer repeat reshape roll round round_half_away_from_zero round_half_to_even row rows
scal scalar scalar_from_tensor scalars second send set_subtensor setdefault sgn shape shape_padaxis shape_padleft shape_padright
shared_randomstreams sharedvar sin sinh slicetype smallest sort specify_shape split sqr sqrt square squeeze stack stacklists std sub
subtensor sum swapaxes switch sys take tan tanh tensor tensor3 tensor3s tensor4 tensor4s tensor5 tensor5s tensor6 tensor6s tensor7
tensor7s tensor_copy tensor_from_scalar tensordot theano tile topk topk_and_argtopk transfer transpose tri tri_gamma tril triu true_div
trunc type type_other uint_dtypes unbroadcast unravel_index utils values_eq_approx_always_true var vector vectors verify_grad
vertical_stack warnings wcol where wmatrix wrow wscalar wtensor3 wtensor4 wtensor5 wtensor6 wtensor7 wvector xlogx xor xrange zcol zeros
zeros_like zmatrix zrow zscalar ztensor3 ztensor4 ztensor5 ztensor6 ztensor7 zvector
"""

names = CLASSIC.split()
"""The exported names."""
