"""Rewriting rules of the tensor layer, one module per theme.

This package exports every documented name. Each import registers rules. Rules are tried on a node in the order of their
registration, so the order of the imports matters.
"""

from theano_ng.compile.ops import Shape, Shape_i
from theano_ng.gof.rewriting import in2out, out2in
from theano_ng.gof.utils import integer_types
from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names
from theano_ng.tensor.indexing.advanced import advanced_inc_subtensor1, advanced_subtensor, advanced_subtensor1
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.opt.registration import (
    register_canonicalize,
    register_specialize,
    register_specialize_device,
    register_stabilize,
    register_uncanonicalize,
    register_useless,
)
from theano_ng.tensor.opt.common import (
    _fill_chain,
    broadcast_like,
    encompasses_broadcastable,
    get_clients,
    get_clients2,
    is_an_upcast,
    is_inverse_pair,
    merge_broadcastables,
    scalarconsts_rest,
)
from theano_ng.tensor.assert_op import Assert, AssertIndex, AssertShape, assert_, assert_op
from theano_ng.tensor.shaping.creation import MakeVector, make_vector
from theano_ng.tensor.opt.shape import (
    ShapeFeature,
    ShapeOptimizer,
    UnShapeOptimizer,
    local_shape_to_shape_i,
    local_track_shape_i,
)
from theano_ng.tensor.opt.trivial import (
    local_scalar_tensor_scalar,
    local_tensor_scalar_tensor,
    local_useless_composite,
    local_useless_topk,
    local_view_op,
)
from theano_ng.tensor.opt.alloc import (
    local_alloc_empty_to_zeros,
    local_alloc_unary,
    local_canonicalize_alloc,
    local_elemwise_alloc,
    local_elemwise_alloc_op,
    local_fill_sink,
    local_fill_to_alloc,
    local_merge_alloc,
    local_useless_alloc,
    local_useless_fill,
)
from theano_ng.tensor.opt.dimshuffle import (
    apply_local_dimshuffle_lift,
    apply_rebroadcast_opt,
    is_dimshuffle_useless,
    local_dimshuffle_lift,
    local_dimshuffle_of_number,
    local_lift_transpose_through_dot,
    local_rebroadcast_lift,
    local_useless_rebroadcast,
)
from theano_ng.tensor.opt.reshape import (
    local_flatten_lift,
    local_reshape_chain,
    local_reshape_lift,
    local_reshape_to_dimshuffle,
    local_useless_dimshuffle_in_reshape,
    local_useless_reshape,
)
from theano_ng.tensor.opt.subtensor import (
    local_subtensor_inc_subtensor,
    local_subtensor_lift,
    local_subtensor_make_vector,
    local_subtensor_merge,
    local_subtensor_of_alloc,
    local_subtensor_of_dot,
    local_subtensor_remove_broadcastable_index,
    local_useless_slice,
    local_useless_subtensor,
    merge_two_slices,
)
from theano_ng.tensor.opt.incsubtensor import (
    local_adv_sub1_adv_inc_sub1,
    local_adv_sub1_adv_inc_sub1_of_trusted_rows,
    local_IncSubtensor_serialize,
    local_incsubtensor_of_zeros,
    local_incsubtensor_of_zeros_to_setsubtensor,
    local_inplace_incsubtensor1,
    local_inplace_setsubtensor,
    local_set_to_inc_subtensor,
    local_setsubtensor_of_constants,
    local_useless_inc_subtensor,
    local_useless_inc_subtensor_alloc,
)
from theano_ng.tensor.opt.take import local_take_along_axis
from theano_ng.tensor.opt.join import (
    MakeVectorPrinter,
    local_join_1,
    local_join_empty,
    local_join_make_vector,
    local_useless_split,
    local_useless_tile,
)
from theano_ng.tensor.opt.asserts import local_remove_all_assert, local_remove_useless_assert
from theano_ng.tensor.opt.useless import (
    local_div_switch_sink,
    local_merge_switch_same_cond,
    local_mul_switch_sink,
    local_useless_elemwise,
    local_useless_elemwise_comparison,
    local_useless_switch,
)
from theano_ng.tensor.opt.canonicalize import (
    Canonizer,
    add_calculate,
    add_canonizer,
    attempt_distribution,
    check_for_x_over_absX,
    distribute_greedy,
    local_add_canonizer,
    local_greedy_distributor,
    local_mul_canonizer,
    local_neg_to_mul,
    mul_calculate,
    mul_canonizer,
)
from theano_ng.tensor.opt.algebra import (
    local_0_dot_x,
    local_abs_lift,
    local_abs_merge,
    local_add_specialize,
    local_cast_cast,
    local_div_to_inv,
    local_elemwise_sub_zeros,
    local_func_inv,
    local_intdiv_by_one,
    local_inv_canon,
    local_mul_specialize,
    local_mul_of_constants,
    local_mul_to_sqr,
    local_mul_zero,
    local_neg_div_neg,
    local_neg_neg,
    local_pow_canonicalize,
    local_pow_specialize,
    local_pow_specialize_device,
    local_upcast_elemwise_constant_inputs,
    local_zero_div,
)
from theano_ng.tensor.opt.reductions import (
    ALL_REDUCE,
    local_op_of_op,
    local_opt_alloc,
    local_reduce_broadcastable,
    local_reduce_join,
    local_sum_prod_all_to_none,
    local_sum_prod_div_dimshuffle,
    local_sum_prod_mul_by_scalar,
    local_sumsqr2dot,
    local_useless_reduce,
)
from theano_ng.tensor.opt.log_domain import local_log_of_positive, local_log_sum_exp, local_share_of_sum
from theano_ng.tensor.opt.stabilize import (
    local_erf_minus_one,
    local_erf_neg_minus_one,
    local_erf_neg_minus_one2,
    local_expm1,
    local_grad_log_erfc_neg,
    local_log1p,
    local_log_add,
    local_log_erfc,
    local_log_pow,
    local_log_prod_sqr,
    local_one_add_neg_erfc,
    local_one_minus_erf,
    local_one_minus_erf2,
    local_one_minus_erfc,
    local_one_minus_erfc2,
    local_one_minus_erfc3,
    local_one_plus_erf,
    local_one_plus_neg_erf,
)
from theano_ng.tensor.opt.constant_folding import constant_folding, topo_constant_folding
from theano_ng.tensor.opt.fusion import (
    FusionOptimizer,
    elemwise_max_input_fct,
    fuse_seqopt,
    local_add_mul_fusion,
    local_elemwise_fusion,
    local_elemwise_fusion_op,
    local_elemwise_reduction_fusion,
)
from theano_ng.tensor.opt.row_fusion import RowFusion
from theano_ng.tensor.opt.inplace import InplaceElemwiseOptimizer, inplace_elemwise_optimizer

__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "theano_ng.scalar": "basic",
        "theano_ng.tensor": "T=basic",
        "theano_ng.tensor.constant": "extract_constant",
        "theano_ng.tensor.elemwise": "DimShuffle Elemwise",
        "theano_ng.tensor.exceptions": "ShapeError",
        "theano_ng.tensor.indexing.index_lists": "get_canonical_form_slice get_idx_list make_constant",
        "theano_ng.tensor.sort": "TopKOp",
        "theano_ng.tensor.subtensor": (
            "AdvancedIncSubtensor AdvancedIncSubtensor1 AdvancedSubtensor1 IncSubtensor Subtensor"
        ),
        "theano_ng.tensor.basic": "Alloc Reshape",
        "theano_ng.tensor.type": (
            "values_eq_approx_remove_inf values_eq_approx_remove_inf_nan values_eq_approx_remove_nan"
        ),
    },
)
