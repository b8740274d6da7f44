# Written by theano_ng/misc/write_stubs.py, which lists what this module has when it runs.

from theano_ng.tensor.nnet import (
    activations as activations,
    blocksparse as blocksparse,
    bn as bn,
    corr as corr,
    corr3d as corr3d,
    crossentropy as crossentropy,
    ctc as ctc,
    neighbours as neighbours,
    nnet as nnet,
    opt_blocksparse as opt_blocksparse,
    opt_bn as opt_bn,
    opt_crossentropy as opt_crossentropy,
    opt_ctc as opt_ctc,
    opt_sigm as opt_sigm,
    row_op as row_op,
    sigm as sigm,
    sigmoids as sigmoids,
)
from theano_ng.tensor.nnet.activations import (
    Prepend_scalar_constant_to_each_row as Prepend_scalar_constant_to_each_row,
    Prepend_scalar_to_each_row as Prepend_scalar_to_each_row,
    elu as elu,
    h_softmax as h_softmax,
    prepend_0_to_each_row as prepend_0_to_each_row,
    prepend_1_to_each_row as prepend_1_to_each_row,
    prepend_scalar_to_each_row as prepend_scalar_to_each_row,
    relu as relu,
    selu as selu,
)
from theano_ng.tensor.nnet.bn import batch_normalization as batch_normalization
from theano_ng.tensor.nnet.convolution import conv3d2d as conv3d2d
from theano_ng.tensor.nnet.convolution.functions import (
    abstract_conv2d as abstract_conv2d,
    causal_conv1d as causal_conv1d,
    conv2d as conv2d,
    conv2d_grad_wrt_inputs as conv2d_grad_wrt_inputs,
    conv2d_grad_wrt_weights as conv2d_grad_wrt_weights,
    conv2d_transpose as conv2d_transpose,
    conv3d as conv3d,
    conv3d_grad_wrt_inputs as conv3d_grad_wrt_inputs,
    conv3d_grad_wrt_weights as conv3d_grad_wrt_weights,
    separable_conv2d as separable_conv2d,
    separable_conv3d as separable_conv3d,
)
from theano_ng.tensor.nnet.convolution.legacy import ConvOp as ConvOp
from theano_ng.tensor.nnet.convolution.upsampling import (
    bilinear_upsampling as bilinear_upsampling,
    frac_bilinear_upsampling as frac_bilinear_upsampling,
)
from theano_ng.tensor.nnet.crossentropy import (
    CrossentropyCategorical1Hot as CrossentropyCategorical1Hot,
    CrossentropyCategorical1HotGrad as CrossentropyCategorical1HotGrad,
    CrossentropySoftmax1HotWithBiasDx as CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias as CrossentropySoftmaxArgmax1HotWithBias,
    binary_crossentropy as binary_crossentropy,
    categorical_crossentropy as categorical_crossentropy,
    confusion_matrix as confusion_matrix,
    crossentropy_categorical_1hot as crossentropy_categorical_1hot,
    crossentropy_categorical_1hot_grad as crossentropy_categorical_1hot_grad,
    crossentropy_softmax_1hot as crossentropy_softmax_1hot,
    crossentropy_softmax_1hot_with_bias as crossentropy_softmax_1hot_with_bias,
    crossentropy_softmax_1hot_with_bias_dx as crossentropy_softmax_1hot_with_bias_dx,
    crossentropy_softmax_argmax_1hot_with_bias as crossentropy_softmax_argmax_1hot_with_bias,
    crossentropy_softmax_max_and_argmax_1hot as crossentropy_softmax_max_and_argmax_1hot,
    crossentropy_softmax_max_and_argmax_1hot_with_bias as crossentropy_softmax_max_and_argmax_1hot_with_bias,
    sigmoid_binary_crossentropy as sigmoid_binary_crossentropy,
)
from theano_ng.tensor.nnet.opt_crossentropy import (
    crossentropy_to_crossentropy_with_softmax as crossentropy_to_crossentropy_with_softmax,
    crossentropy_to_crossentropy_with_softmax_with_bias as crossentropy_to_crossentropy_with_softmax_with_bias,
    graph_merge_softmax_with_crossentropy_softmax as graph_merge_softmax_with_crossentropy_softmax,
    softmax_simplifier as softmax_simplifier,
)
from theano_ng.tensor.nnet.sigmoids import (
    hard_sigmoid as hard_sigmoid,
    scalar_sigmoid as scalar_sigmoid,
    sigmoid as sigmoid,
    sigmoid_inplace as sigmoid_inplace,
    softplus as softplus,
    softsign as softsign,
    ultra_fast_sigmoid as ultra_fast_sigmoid,
)
from theano_ng.tensor.nnet.softmax import (
    LogSoftmax as LogSoftmax,
    Softmax as Softmax,
    SoftmaxGrad as SoftmaxGrad,
    SoftmaxWithBias as SoftmaxWithBias,
    logsoftmax as logsoftmax,
    logsoftmax_op as logsoftmax_op,
    softmax as softmax,
    softmax_grad as softmax_grad,
    softmax_graph as softmax_graph,
    softmax_op as softmax_op,
    softmax_with_bias as softmax_with_bias,
)
