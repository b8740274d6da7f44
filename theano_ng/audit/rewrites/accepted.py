"""The differences that rules may make, in one place: kind, reason, and the rules."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    """One documented difference.

    Attributes
    ----------
    kinds : tuple of str
        Of `comparing.KINDS`.
    reason : str
        One sentence.
    rules : frozenset of str
    """

    kinds: tuple
    reason: str
    rules: frozenset


def _row(kinds, reason, rules):
    return Accepted(tuple(kinds.split(", ")), reason, frozenset(rules.split()))


#: Rules that are not compared, and why.
NOT_COMPARED = {
    "CheckStackTrace": "changes nothing",
    "Print1.21": "changes nothing",
    "Print1.51": "changes nothing",
    "ShapeOpt": "attaches a feature; graphs stay as they are",
    "UnShapeOpt": "detaches a feature; graphs stay as they are",
    "HintsOpt": "attaches a feature; graphs stay as they are",
    "add_destroy_handler": "attaches a feature; graphs stay as they are",
    "add_no_output_from_inplace": "attaches a feature; graphs stay as they are",
    "local_alloc_empty_to_zeros": "the content of what it replaces is undefined",
    "local_abstractconv_check": "raises an error",
    "use_c_ger": "the result exists in C only",
    "use_c_gemv": "the result exists in C only",
    "make_c_ger_destructive": "the result exists in C only",
    "make_c_gemv_destructive": "the result exists in C only",
    "local_ultra_fast_sigmoid": "an approximation, to be asked for",
    "local_hard_sigmoid": "an approximation, to be asked for",
}

TABLE = [
    _row(
        "lost error",
        "a check of lengths or indices goes with the operand or the Op that made it",
        "local_fill_sink local_reshape_chain local_useless_reshape local_subtensor_lift local_set_to_inc_subtensor local_join_1"
        " local_useless_elemwise_comparison local_mul_canonizer local_add_canonizer local_subtensor_of_alloc local_canonicalize_alloc",
    ),
    _row("lost error", "it removes checks, and has to be asked for", "local_remove_all_assert"),
    _row(
        "lost error", "of two Rebroadcasts that contradict each other the outer one decides", "local_rebroadcast_lift"
    ),
    _row("lost error", "zero divided by the integer zero is zero, and no error", "local_zero_div"),
    _row(
        "sign of zero",
        "0 + -0.0 is 0.0, and -0.0 + 0 is left out",
        "local_incsubtensor_of_zeros local_incsubtensor_of_zeros_to_setsubtensor local_adv_sub1_adv_inc_sub1"
        " local_adv_sub1_adv_inc_sub1_of_trusted_rows local_add_canonizer local_add_specialize local_greedy_distributor"
        " local_reduce_join local_reduce_broadcastable local_useless_inc_subtensor local_log1p local_expm1",
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
        "terms are added in another order, so that other ones cancel first",
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
    """Why a rule may make a difference.

    Parameters
    ----------
    one : Registered
    difference : Difference

    Returns
    -------
    str or None
        None where it may not.
    """
    kind = difference.kind
    if kind == "sign of infinity":
        kind = "sign of zero"  # below a fraction
    for row in TABLE:
        if one.name in row.rules and kind in row.kinds:
            return row.reason
    if kind in ("nan", "infinity") and getattr(one.rule, "ignores_nonfinite", False):
        return "no promise is made for NaN and infinities (`ignores_nonfinite`)"
    return None
