"""The public names of ``theano.tensor.nnet.sigm``: sigmoid, softplus, and their rules."""

from theano_ng.tensor.nnet.mul_tree import (
    compute_mul,
    is_exp,
    is_mul,
    is_neg,
    parse_mul_tree,
    partition_num_or_denom,
    perform_sigm_times_exp,
    simplify_mul,
)
from theano_ng.tensor.nnet.opt_sigm import (
    _is_1,
    is_1pexp,
    local_1msigmoid,
    local_exp_over_1_plus_exp,
    local_hard_sigmoid,
    local_inv_1_plus_exp,
    local_sigm_times_exp,
    local_ultra_fast_sigmoid,
    log1msigm_to_softplus,
    log1p_neg_sigmoid,
    log1pexp_to_softplus,
    logsigm_to_softplus,
    register_local_1msigmoid,
)
from theano_ng.tensor.nnet.sigmoids import (
    ScalarSigmoid,
    ScalarSoftplus,
    UltraFastScalarSigmoid,
    hard_sigmoid,
    scalar_sigmoid,
    scalar_softplus,
    sigmoid,
    sigmoid_inplace,
    softplus,
    ultra_fast_scalar_sigmoid,
    ultra_fast_sigmoid,
    ultra_fast_sigmoid_inplace,
)
