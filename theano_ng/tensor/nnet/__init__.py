"""Operations of neural networks: convolutions, activations, softmax, cross-entropies."""

from theano_ng.lazy import lazy_names
from theano_ng.tensor.nnet.sigmoids import (
    hard_sigmoid,
    scalar_sigmoid,
    sigmoid,
    sigmoid_inplace,
    softplus,
    ultra_fast_sigmoid,
)

# After this import, the name `softmax` means the function, not the module.
from theano_ng.tensor.nnet.softmax import softmax

# The other public names, the rules, and their modules are imported when they are first used.
__getattr__, __dir__, _lazy = lazy_names(
    __name__,
    {
        "theano_ng.tensor.nnet.nnet": (
            "CrossentropyCategorical1Hot CrossentropyCategorical1HotGrad CrossentropySoftmax1HotWithBiasDx "
            "CrossentropySoftmaxArgmax1HotWithBias LogSoftmax Prepend_scalar_constant_to_each_row Prepend_scalar_to_each_row "
            "Softmax SoftmaxGrad SoftmaxWithBias binary_crossentropy categorical_crossentropy confusion_matrix "
            "crossentropy_categorical_1hot crossentropy_categorical_1hot_grad crossentropy_softmax_1hot "
            "crossentropy_softmax_1hot_with_bias crossentropy_softmax_1hot_with_bias_dx crossentropy_softmax_argmax_1hot_with_bias "
            "crossentropy_softmax_max_and_argmax_1hot crossentropy_softmax_max_and_argmax_1hot_with_bias elu h_softmax logsoftmax "
            "logsoftmax_op prepend_0_to_each_row prepend_1_to_each_row prepend_scalar_to_each_row relu selu "
            "sigmoid_binary_crossentropy softmax_grad softmax_graph softmax_op softmax_with_bias softsign"
        ),
        "theano_ng.tensor.nnet.opt_crossentropy": (
            "crossentropy_to_crossentropy_with_softmax crossentropy_to_crossentropy_with_softmax_with_bias "
            "graph_merge_softmax_with_crossentropy_softmax softmax_simplifier"
        ),
        "theano_ng.tensor.nnet.bn": "batch_normalization",
        "theano_ng.tensor.nnet.convolution.functions": (
            "abstract_conv2d causal_conv1d conv2d conv2d_grad_wrt_inputs conv2d_grad_wrt_weights conv2d_transpose conv3d "
            "conv3d_grad_wrt_inputs conv3d_grad_wrt_weights separable_conv2d separable_conv3d"
        ),
        "theano_ng.tensor.nnet.convolution.legacy": "ConvOp",
        "theano_ng.tensor.nnet.convolution.upsampling": "bilinear_upsampling frac_bilinear_upsampling",
    },
    modules=(
        "nnet activations crossentropy abstract_conv conv conv3d2d corr corr3d opt sigm opt_sigm opt_crossentropy bn opt_bn blocksparse opt_blocksparse ctc opt_ctc "
        "neighbours"
    ),
)
__all__ = [name for name in globals() if not name.startswith("_") and name != "lazy_names"] + _lazy
