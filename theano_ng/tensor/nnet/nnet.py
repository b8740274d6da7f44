"""The public names of ``theano.tensor.nnet.nnet``: softmax, cross-entropies, activations, and their rules."""

from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names
from theano_ng.tensor.nnet.activations import (
    Prepend_scalar_constant_to_each_row,
    Prepend_scalar_to_each_row,
    ScalarSoftsign,
    elu,
    h_softmax,
    prepend_0_to_each_row,
    prepend_1_to_each_row,
    prepend_scalar_to_each_row,
    relu,
    scalar_softsign,
    selu,
    softsign,
)
from theano_ng.tensor.nnet.crossentropy import (
    CrossentropyCategorical1Hot,
    CrossentropyCategorical1HotGrad,
    CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias,
    binary_crossentropy,
    categorical_crossentropy,
    confusion_matrix,
    crossentropy_categorical_1hot,
    crossentropy_categorical_1hot_grad,
    crossentropy_softmax_1hot,
    crossentropy_softmax_1hot_with_bias,
    crossentropy_softmax_1hot_with_bias_dx,
    crossentropy_softmax_argmax_1hot_with_bias,
    crossentropy_softmax_max_and_argmax_1hot,
    crossentropy_softmax_max_and_argmax_1hot_with_bias,
    sigmoid_binary_crossentropy,
)
from theano_ng.tensor.nnet.sigmoids import hard_sigmoid, sigmoid, softplus, ultra_fast_sigmoid
from theano_ng.tensor.nnet.softmax import (
    LogSoftmax,
    Softmax,
    SoftmaxGrad,
    SoftmaxWithBias,
    logsoftmax,
    logsoftmax_op,
    softmax,
    softmax_grad,
    softmax_graph,
    softmax_op,
    softmax_with_bias,
)

# The rules are imported when their names are first used. A function whose rewritten graph is stored on disk can be
# compiled without the rules.
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "theano_ng.compile": "optdb",
        "theano_ng.tensor": "elemwise extra_ops subtensor",
        "theano_ng.tensor.constant": "as_tensor_variable",
        "theano_ng.tensor.type": "values_eq_approx_remove_inf values_eq_approx_remove_nan",
        "theano_ng.tensor.nnet.opt_crossentropy": (
            "_check_rows_is_arange_len_labels crossentropy_to_crossentropy_with_softmax "
            "crossentropy_to_crossentropy_with_softmax_with_bias graph_merge_softmax_with_crossentropy_softmax "
            "local_advanced_indexing_crossentropy_onehot local_advanced_indexing_crossentropy_onehot_grad local_argmax_pushdown "
            "local_logsoftmax local_logsoftmax_grad local_softmax_grad_to_crossentropy_with_softmax_grad local_softmax_with_bias "
            "local_useless_crossentropy_softmax_1hot_with_bias_dx_alloc softmax_simplifier"
        ),
    },
)
