"""Neural networks by cuDNN, on CUDA devices.

cuDNN is no dependency: ``pip install 'theano_ng[cuda12]'`` or ``[cuda13]`` installs it. If it is missing, `dnn_available`
returns False, its attribute `msg` gives the reason, and programs compute without cuDNN.

There is a module for each family of Ops; this package serves all names.
"""

from theano_ng.configdefaults import SUPPORTED_DNN_CONV_ALGO_RUNTIME, config
from theano_ng.gpuarray.cudnn_defs import get_definitions
from theano_ng.gpuarray.dnn.base import (
    CUDNNDataType,
    DnnBase,
    DnnOp,
    DnnVersion,
    dnn_available,
    dnn_present,
    handle_type,
    version,
)
from theano_ng.lazy import lazy_names

__all__ = [
    "CUDNNDataType",
    "DnnBase",
    "DnnOp",
    "DnnVersion",
    "SUPPORTED_DNN_CONV_ALGO_RUNTIME",
    "config",
    "cudnn",
    "dnn_available",
    "dnn_present",
    "handle_type",
    "version",
]

cudnn = get_definitions()

# The Ops and the rules are imported when their names are first used.
__getattr__, __dir__, _names = lazy_names(
    __name__,
    {
        "theano_ng.gpuarray.basic_ops": "gpu_contiguous",
        "theano_ng.gpuarray.dnn.base": "_dnn_check_compile _dnn_check_version _dnn_lib _load_lib _make_handle",
        "theano_ng.gpuarray.dnn.conv": (
            "GpuDnnConv GpuDnnConvDesc GpuDnnConvGradI GpuDnnConvGradW _one _zero ensure_dt get_precision"
        ),
        "theano_ng.gpuarray.dnn.conv_elemwise": "GpuDnnConvElemwise",
        "theano_ng.gpuarray.dnn.conv_functions": (
            "_dnn_conv _dnn_gradinput _dnn_gradweight dnn_conv dnn_conv3d dnn_gradinput dnn_gradinput3d dnn_gradweight "
            "dnn_gradweight3d"
        ),
        "theano_ng.gpuarray.dnn.dropout_ops": (
            "GpuDnnDropoutOp _DropoutDescriptor _make_dropout_desc dropout dropoutdesc_type"
        ),
        "theano_ng.gpuarray.dnn.normalization": (
            "GpuDnnBatchNorm GpuDnnBatchNormGrad GpuDnnBatchNormInference dnn_batch_normalization_test "
            "dnn_batch_normalization_train"
        ),
        "theano_ng.gpuarray.dnn.pool": "GpuDnnPool GpuDnnPoolBase GpuDnnPoolDesc GpuDnnPoolGrad dnn_pool",
        "theano_ng.gpuarray.dnn.reduction": "GpuDnnReduction",
        "theano_ng.gpuarray.dnn.rnn": (
            "GpuDnnRNNGradInputs GpuDnnRNNGradWeights GpuDnnRNNOp RNNBlock _RNNDescriptor _RNNParamSize "
            "_RNNSplitParams _make_rnn_desc _split_rnn_params rnndesc_type"
        ),
        "theano_ng.gpuarray.dnn.softmax": "GpuDnnSoftmax GpuDnnSoftmaxBase GpuDnnSoftmaxGrad",
        "theano_ng.gpuarray.dnn.transformer": (
            "GpuDnnTransformerGradI GpuDnnTransformerGradT GpuDnnTransformerGrid GpuDnnTransformerSampler dnn_spatialtf"
        ),
        "theano_ng.gpuarray.opt.dnn.base": "NoCuDNNRaise",
        "theano_ng.gpuarray.opt.dnn.conv": (
            "local_abstractconv3d_cudnn_alt local_abstractconv3d_cudnn_graph local_abstractconv_cudnn "
            "local_abstractconv_cudnn_alt local_abstractconv_cudnn_graph local_abstractconv_gi_cudnn "
            "local_abstractconv_gw_cudnn local_dnn_conv_alpha_merge local_dnn_conv_inplace local_dnn_conv_output_merge "
            "local_dnn_convgi_inplace local_dnn_convgw_inplace local_dnn_convi_alpha_merge local_dnn_convi_output_merge "
            "local_dnn_convw_alpha_merge local_dnn_convw_output_merge"
        ),
        "theano_ng.gpuarray.opt.dnn.normalization": (
            "local_abstract_batch_norm_inference_cudnn local_abstract_batch_norm_train_cudnn "
            "local_abstract_batch_norm_train_grad_cudnn local_batch_norm_inference_inplace "
            "local_batch_norm_inplace_output local_batch_norm_inplace_running_mean local_batch_norm_inplace_running_var"
        ),
        "theano_ng.gpuarray.opt.dnn.pool": (
            "local_gpua_avg_pool_dnn_grad_stride local_gpua_pool_dnn_alternative local_gpua_pool_dnn_grad_stride"
        ),
        "theano_ng.gpuarray.opt.dnn.reduction": "local_cudnn_maxandargmax local_dnn_argmax local_dnn_reduction",
        "theano_ng.gpuarray.opt.dnn.softmax": (
            "local_gpua_logsoftmax_to_dnn local_gpua_softmax_dnn_grad local_log_softmax_dnn local_softmax_dnn"
        ),
        "theano_ng.gpuarray.opt": "gpu_seqopt pool_db pool_db2",
        "theano_ng.gpuarray.type": "gpu_context_type",
        "theano_ng.compile.mode": "optdb",
        "theano_ng.scalar": "bool_t=bool int_t=int32 uint32_t=uint32",
        "theano_ng.tensor.extra_ops": "cpu_contiguous",
    },
)
__all__ += [name for name in _names if not name.startswith("_")]
