"""The table of accepted differences: each row has kinds of differences, a reason, and names of rules."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    """One documented difference.

    Attributes
    ----------
    kinds : tuple of str
        Keys of `comparing.KINDS`.
    reason : str
        The reason, in one sentence.
    rules : frozenset of str
        Names of the rules that may cause the difference.
    """

    kinds: tuple
    reason: str
    rules: frozenset


def _row(kinds, reason, rules):
    return Accepted(tuple(kinds.split(", ")), reason, frozenset(rules.split()))


#: Rules that are not compared -> reason.
NOT_COMPARED = {
    "CheckStackTrace": "changes nothing",
    "Print1.21": "changes nothing",
    "Print1.51": "changes nothing",
    "ShapeOpt": "attaches a feature, and leaves graphs unchanged",
    "UnShapeOpt": "detaches a feature, and leaves graphs unchanged",
    "HintsOpt": "attaches a feature, and leaves graphs unchanged",
    "add_destroy_handler": "attaches a feature, and leaves graphs unchanged",
    "add_no_output_from_inplace": "attaches a feature, and leaves graphs unchanged",
    "local_alloc_empty_to_zeros": "the content of the array that it replaces is undefined",
    "local_abstractconv_check": "raises an error",
    "use_c_ger": "the new Op has a C implementation only",
    "use_c_gemv": "the new Op has a C implementation only",
    "make_c_ger_destructive": "the new Op has a C implementation only",
    "make_c_gemv_destructive": "the new Op has a C implementation only",
    "local_ultra_fast_sigmoid": "an approximation, for users who request it",
    "local_hard_sigmoid": "an approximation, for users who request it",
}

TABLE = [
    _row("nan, range", "where the inner function is undefined, the result is x instead of NaN", "local_func_inv"),
    _row("infinity", "the result is finite where the inner function overflows", "local_func_inv"),
    _row(
        "new nan",
        "a complex infinity to the power -1 is NaN; other rules make divisions of such powers",
        "local_inv_canon",
    ),
    _row(
        "value, rounding, infinity, new error",
        "the rule is not registered; a user who registers it guarantees that the indices exist and do not repeat",
        "local_adv_sub1_adv_inc_sub1_of_trusted_rows",
    ),
    _row(
        "nan, new nan, infinity, sign of zero, range",
        "y * log(x) is NaN for a negative x and for 0 times infinity, and finite where the power overflows or is rounded to zero",
        "local_log_pow",
    ),
    _row(
        "cancellation, range",
        "a sum of logarithms has the rounding errors of its terms, and is finite where the product overflows or is rounded to zero",
        "local_log_prod_sqr",
    ),
    _row(
        "sign of zero",
        "a difference that is zero is 0.0, and erf(-0.0) is -0.0",
        "local_erf_minus_one local_one_minus_erfc local_one_minus_erfc2 local_one_minus_erfc3 local_one_add_neg_erfc"
        " local_erf_neg_minus_one local_erf_neg_minus_one2",
    ),
    _row("sign of zero", "a sparse matrix does not keep -0.0", "local_dense_from_sparse_sparse_from_dense"),
    _row(
        "lost error",
        "the lengths of an array that is no longer built are not compared",
        "local_mul_filled local_csm_grad_of_filled local_useless_crossentropy_softmax_1hot_with_bias_dx_alloc local_fill_to_alloc",
    ),
    _row("nan", "elements that are not stored stay zero", "local_mul_filled"),
    _row(
        "sign of zero", "a product with zero is 0.0, whatever the sign of the other factor", "local_csm_grad_of_filled"
    ),
    _row(
        "new nan, range, cancellation, infinity",
        "the softmax of a row with an infinity is NaN, and subnormal results are rounded differently",
        "local_softmax_by_hand local_share_of_sum local_logsoftmax_by_hand",
    ),
    _row(
        "cancellation, range, sign of zero",
        "another algorithm of LAPACK rounds differently",
        "transinv_to_invtrans tag_solve_triangular inv_as_solve local_det_chol psd_solve_with_chol",
    ),
    _row(
        "cancellation, range, infinity, sign of zero",
        "the logarithm is accurate where its argument overflows or is rounded to zero or one",
        "local_log_of_positive local_log_add local_log_erfc local_log_sum_exp",
    ),
    _row(
        "nan",
        "x - x and x * 0 are zero, also where x is NaN or infinite",
        "local_elemwise_sub_zeros local_mul_specialize",
    ),
    _row(
        "nan, sign of zero, cancellation",
        "the sum is multiplied instead of its terms, and terms may be infinite, or zeros of both signs",
        "local_sum_prod_mul_by_scalar",
    ),
    _row(
        "lost error",
        "lengths and indices of an array that is no longer built are not checked",
        "local_opt_alloc local_csm_properties_csm local_subtensor_of_alloc local_adv_sub1_adv_inc_sub1_of_trusted_rows",
    ),
    _row(
        "sign of zero, infinity",
        "the softplus is finite where the logarithm is infinite, and -softplus(x) is -0.0 where it is rounded to zero",
        "log1msigm_to_softplus logsigm_to_softplus log1p_neg_sigmoid log1p_minus_one_sigmoid log1pexp_to_softplus",
    ),
    _row(
        "range, nan, infinity",
        "the sigmoid is zero where its true value is subnormal, and finite where exp(x) overflows",
        "local_exp_over_1_plus_exp local_sigm_times_exp local_inv_1_plus_exp local_sigmoid_of_one_exponential",
    ),
    _row(
        "cancellation, infinity, range, nan",
        "a softmax and its logarithm are computed together, and remain accurate where the softmax is rounded to zero",
        "local_logsoftmax local_logsoftmax_grad crossentropy_to_crossentropy_with_softmax_with_bias"
        " crossentropy_to_crossentropy_with_softmax graph_merge_softmax_with_crossentropy_softmax"
        " local_softmax_grad_to_crossentropy_with_softmax_grad local_logsoftmax_by_hand"
        " local_advanced_indexing_crossentropy_onehot local_advanced_indexing_crossentropy_onehot_grad"
        " local_crossentropy_onehot_grad local_softmax_with_bias",
    ),
    _row(
        "value, range",
        "different numbers have an order, even where the function rounds their results to one number or to infinity",
        "local_argmax_pushdown",
    ),
    _row(
        "lost error, sign of zero",
        "another Op checks lengths and indices, and makes the zeros",
        "local_softmax_grad_to_crossentropy_with_softmax_grad local_advanced_indexing_crossentropy_onehot",
    ),
    _row(
        "infinity, nan, new nan, range, cancellation, lost error, sign of zero",
        "alpha multiplies the elements of the sparse matrix, not the product",
        "local_usmm local_usmm_csx",
    ),
    _row(
        "new error",
        "labels have to be column numbers from 0 on, one for each row, as in Theano 1.0",
        "local_advanced_indexing_crossentropy_onehot local_advanced_indexing_crossentropy_onehot_grad local_crossentropy_onehot_grad",
    ),
    _row(
        "range", "erfcx(x) is infinite below some negative x, where exp(-x**2) is subnormal", "local_grad_log_erfc_neg"
    ),
    _row("cancellation", "a product of squares has more roundings than a power", "local_pow_specialize_device"),
    _row(
        "lost error",
        "another Op checks the lengths",
        "local_advanced_indexing_crossentropy_onehot_grad local_crossentropy_onehot_grad",
    ),
    _row(
        "lost error, range, new nan, infinity, cancellation, nan, sign of zero",
        "another algorithm accepts images without pixels, multiplies padding by infinities, and adds in another order",
        "local_conv2d_gradweight_cpu local_conv2d_gradinputs_cpu local_conv2d_cpu local_abstractconv_gemm"
        " local_abstractconv_gradweight_gemm local_abstractconv_gradinputs_gemm local_abstractconv3d_gemm"
        " local_abstractconv3d_gradweight_gemm local_abstractconv3d_gradinputs_gemm",
    ),
    _row(
        "cancellation",
        "the scale is multiplied by the inverse of the standard deviation first",
        "local_abstract_batch_norm_inference local_abstract_batch_norm_train local_abstract_batch_norm_train_grad",
    ),
    _row(
        "new error",
        "the branch that is not taken fails; only the Python linker computes it, because that linker is not lazy",
        "ifelse_lift_single_if_through_acceptable_ops cond_merge_ifs_true cond_merge_ifs_false cond_merge cond_merge_random_op",
    ),
    _row(
        "nan, new nan, infinity, range, cancellation, sign of zero",
        "BLAS adds in another order, and skips products with a factor of zero",
        "gemm_optimizer local_dot22_to_dot22scalar local_dot22_to_ger_or_gemv local_gemm_to_gemv local_gemm_to_ger"
        " local_dot_to_dot22 use_scipy_ger local_structured_dot local_dot_in_c local_sampling_dot_csr"
        " local_gpua_gemm_alpha_merge local_gpua_gemm_output_merge local_gpua_gemmbatch_alpha_merge"
        " local_gpua_gemmbatch_output_merge",
    ),
    _row(
        "rounding, cancellation, infinity",
        "on a device, float16 numbers are computed in float32, and only the results are rounded to float16",
        "local_gpua_softmax local_gpua_softmaxwithbias local_gpua_softmax_grad local_gpua_logsoftmax gpua_row_fusion",
    ),
    _row(
        "lost error",
        "the lengths of a matrix whose factor is zero are not checked",
        "local_gpua_gemm_output_merge local_gpua_gemmbatch_output_merge",
    ),
    _row("new error", "a matrix that is marked as positive definite is not positive definite", "psd_solve_with_chol"),
    _row(
        "rounding, new nan",
        "a float32 matrix is inverted in float32, and solved in the dtype of the result",
        "inv_as_solve",
    ),
    _row(
        "infinity, range",
        "1 - erfc(x) is zero where erf(x) is not",
        "local_one_minus_erfc local_one_minus_erfc2 local_one_minus_erfc3 local_one_add_neg_erfc",
    ),
    _row("sign of zero", "the sign of zero in a constant 0 is lost", "local_neg_div_neg"),
    _row(
        "lost error",
        "a factor of zero removes the other factors, and the errors that they raise",
        "local_mul_specialize local_mul_zero",
    ),
    _row(
        "range",
        "the scale times the inverse of the standard deviation may be subnormal",
        "local_abstract_batch_norm_inference",
    ),
    _row(
        "sign of zero, cancellation",
        "another Op adds the same terms, and gives 0.0 for -log(1)",
        "crossentropy_to_crossentropy_with_softmax_with_bias crossentropy_to_crossentropy_with_softmax",
    ),
    _row(
        "cancellation, range, nan, new nan, infinity, sign of zero",
        "the kernel of a loop and BLAS round differently from single Ops, so that results differ in the last bits at every step",
        "scanOp_pushout_nonseqs_ops scanOp_pushout_output scanOp_pushout_seqs_ops scan_pushout_dot1",
    ),
    _row(
        "new error, lost error",
        "a loop without steps computes and checks nothing, and the product after the loop checks its own lengths",
        "scanOp_pushout_nonseqs_ops scanOp_pushout_output scanOp_pushout_seqs_ops scan_pushout_dot1",
    ),
    _row("cancellation", "exp of NumPy and of C differ in the last bit", "inline_ofg_expansion"),
    _row("nan", "the sum is divided instead of its terms, and terms may be infinite", "local_sum_prod_div_dimshuffle"),
    _row(
        "range",
        "terms are added in another order, so that other partial sums overflow or are subnormal",
        "local_add_canonizer local_IncSubtensor_serialize local_subtensor_of_dot",
    ),
    _row(
        "lost error",
        "a check of lengths or indices is removed with the operand or the Op that makes it",
        "local_fill_sink local_reshape_chain local_useless_reshape local_subtensor_lift local_set_to_inc_subtensor local_join_1"
        " local_useless_elemwise_comparison local_mul_canonizer local_add_canonizer local_canonicalize_alloc"
        " local_useless_fill local_useless_switch",
    ),
    _row(
        "lost error",
        "an array of equal elements is replaced by its element, and an array of which only the shape is needed is not built",
        "local_div_to_inv local_add_specialize local_mul_of_constants local_shape_to_shape_i",
    ),
    _row(
        "lost error",
        "the lengths of sequences and initial states that no step reads are not checked",
        "remove_constants_and_unused_inputs_scan",
    ),
    _row("lost error", "an input that the inner graph does not read is not computed", "inline_ofg_expansion"),
    _row("lost error", "the rule removes checks, and only users who request it get it", "local_remove_all_assert"),
    _row("lost error", "where two Rebroadcasts contradict each other, the outer one decides", "local_rebroadcast_lift"),
    _row("lost error", "zero divided by the integer zero is zero, not an error", "local_zero_div"),
    _row(
        "sign of zero",
        "-0.0 + 0 is 0.0, but -0.0 without the addition",
        "local_incsubtensor_of_zeros local_incsubtensor_of_zeros_to_setsubtensor local_adv_sub1_adv_inc_sub1"
        " local_adv_sub1_adv_inc_sub1_of_trusted_rows local_add_canonizer local_add_specialize local_greedy_distributor"
        " local_reduce_join local_reduce_broadcastable local_useless_inc_subtensor local_log1p local_expm1",
    ),
    _row(
        "infinity, new nan",
        "-0.0 + 0 is 0.0, but -0.0 without the addition, and this sign decides the sign of an infinity",
        "local_add_specialize",
    ),
    _row(
        "sign of zero",
        "a product with zero is 0.0, whatever the sign of the other factor",
        "local_mul_zero local_mul_specialize local_zero_div local_mul_switch_sink local_div_switch_sink local_0_dot_x"
        " local_merge_switch_same_cond local_elemwise_sub_zeros",
    ),
    _row(
        "sign of zero",
        "a sum of products may be -0.0 in one order of its terms and 0.0 in another",
        "local_subtensor_of_dot local_sum_prod_div_dimshuffle",
    ),
    _row(
        "cancellation",
        "terms are added in another order, so that other terms cancel first",
        "local_add_canonizer local_greedy_distributor local_op_of_op local_sum_prod_div_dimshuffle local_IncSubtensor_serialize"
        " gemm_optimizer local_usmm local_usmm_csx local_reduce_join",
    ),
    _row(
        "range, infinity, new nan",
        "factors are multiplied in another order, so that other partial products overflow or become zero",
        "local_mul_canonizer local_greedy_distributor local_mul_of_constants local_op_of_op local_sum_prod_div_dimshuffle"
        " local_sum_prod_mul_by_scalar local_pow_specialize_device local_pow_specialize local_add_mul_fusion local_abs_merge"
        " local_sumsqr2dot",
    ),
]


def reason_for(one, difference):
    """Return the reason why a rule may cause a difference.

    Parameters
    ----------
    one : Registered
    difference : Difference

    Returns
    -------
    str or None
        None if the difference is an error of the rule.
    """
    kind = difference.kind
    if kind == "sign of infinity":
        kind = "sign of zero"  # the sign of a zero decides the sign of an infinity: 1 / 0.0 and 1 / -0.0
    for row in TABLE:
        if one.name in row.rules and kind in row.kinds:
            return row.reason
    if kind in ("nan", "infinity") and getattr(one.rule, "ignores_nonfinite", False):
        return "the rule promises nothing for NaN and infinities (`ignores_nonfinite`)"
    return None
