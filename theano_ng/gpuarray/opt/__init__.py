"""Rules that move graphs to devices. `databases` defines the order in which they apply.

All documented names are exported here.
"""

from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.lazy import lazy_names
from theano_ng.gpuarray.opt.batchnorm import (
    abstract_batch_norm_db,
    abstract_batch_norm_db2,
    abstract_batch_norm_groupopt,
)
from theano_ng.gpuarray.opt.conv import (
    ConvMetaOptimizer,
    abstractconv_groupopt,
    conv_metaopt,
    local_abstractconv3d2d,
    local_abstractconv3d_alt,
    local_abstractconv3d_gemm,
    local_abstractconv3d_gemm_def,
    local_abstractconv3d_gemm_gradweights_alt,
    local_abstractconv3d_gradinputs_gemm,
    local_abstractconv3d_gradinputs_gemm_alt,
    local_abstractconv3d_gradweights_gemm,
    local_abstractconv_gemm,
    local_abstractconv_gemm_alt,
    local_abstractconv_gemm_def,
    local_abstractconv_gemm_gradweights_alt,
    local_abstractconv_gradinputs_gemm,
    local_abstractconv_gradinputs_gemm_alt,
    local_abstractconv_gradweights_gemm,
    local_conv_gpu_conv,
    local_gpua_abstractconv,
    local_gpua_error_convop,
    local_gpua_lift_abstractconv_graph,
)
from theano_ng.gpuarray.opt.databases import (
    gpu_cut_copies,
    gpu_optimizer,
    gpu_optimizer2,
    gpu_seqopt,
    op_lifter,
    register_inplace,
    register_opt,
    register_opt2,
    safe_to_cpu,
    safe_to_gpu,
)
from theano_ng.gpuarray.opt.dnn.conv import (
    local_abstractconv3d_cudnn_alt,
    local_abstractconv_cudnn,
    local_abstractconv_cudnn_alt,
    local_abstractconv_gi_cudnn,
    local_abstractconv_gw_cudnn,
)
from theano_ng.gpuarray.opt.linalg import (
    local_gpu_cholesky,
    local_gpu_magma_cholesky,
    local_gpu_magma_eigh,
    local_gpu_magma_matrix_inverse,
    local_gpu_magma_qr,
    local_gpu_magma_qr_incomplete,
    local_gpu_magma_svd,
    local_gpu_solve,
    local_inplace_gpu_cholesky,
    local_inplace_gpu_magma_cholesky,
    local_inplace_gpu_magma_matrix_inverse,
    local_inplace_gpu_solve,
    matrix_ops_db,
    matrix_ops_db2,
)
from theano_ng.gpuarray.opt.graph_to_gpu import GraphToGPU, GraphToGPUDB, InputToGpuOptimizer
from theano_ng.gpuarray.opt.pooling import (
    local_gpu_average_pool_grad,
    local_gpu_downsample_factor_max_grad_grad,
    local_gpu_max_pool_grad,
    local_gpu_max_pool_rop,
    local_gpu_pool,
    pool_db,
    pool_db2,
)
from theano_ng.gpuarray.opt.transfers import cut_gpua_constant_transfers, local_cut_gpu_transfers
from theano_ng.gpuarray.opt import (
    arrays,
    batchnorm,
    blas,
    conv,
    dnn,
    elementwise,
    epilogues,
    final,
    indices,
    labels,
    lifts,
    linalg,
    loops,
    movement,
    multi_output,
    networks,
    numbers,
    pooling,
    random,
    rows,
    slices,
)

__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "theano_ng.gpuarray.blas": (
            "gpu_dot22 gpugemm_inplace gpugemm_no_inplace gpugemmbatch_no_inplace gpugemv_inplace gpugemv_no_inplace"
        ),
        "theano_ng.gpuarray.blocksparse": (
            "gpu_sparse_block_gemv gpu_sparse_block_gemv_inplace gpu_sparse_block_outer gpu_sparse_block_outer_inplace"
        ),
        "theano_ng.gpuarray.elemwise": "gpu_erfcinv gpu_erfinv",
        "theano_ng.gpuarray.joining": "gpu_join",
        "theano_ng.gpuarray.linalg": "MATRIX_STRUCTURES_SOLVE cublas_available cusolver_available",
        "theano_ng.gpuarray.nnet": (
            "gpu_crossentropy_softmax_1hot_with_bias_dx gpu_crossentropy_softmax_argmax_1hot_with_bias gpu_softmax "
            "gpu_softmax_with_bias"
        ),
        "theano_ng.gpuarray.opt.arrays": (
            "gpu_print_wrapper local_gpu_contiguous_gpu_contiguous local_gpu_pdbbreakpoint_op local_gpua_alloc2 "
            "local_gpua_assert local_gpua_flatten local_gpua_join_1 local_gpua_lazy_ifelse local_gpua_print_op "
            "local_gpua_reshape local_gpua_shape local_gpuaalloc=local_gpua_alloc local_gpualloc_memset_0"
        ),
        "theano_ng.gpuarray.opt.blas": (
            "local_gpua_dot22 local_gpua_dot22scalar local_gpua_gemm local_gpua_gemm_alpha_merge "
            "local_gpua_gemm_output_merge local_gpua_gemmbatch local_gpua_gemmbatch_alpha_merge "
            "local_gpua_gemmbatch_output_merge local_gpua_gemv local_gpua_ger"
        ),
        "theano_ng.gpuarray.opt.elementwise": "local_gpu_elemwise_careduce local_gpua_careduce local_gpua_elemwise",
        "theano_ng.gpuarray.opt.final": (
            "assert_no_cpu_op inplace_gpu_elemwise_opt local_advincsub1_gpua_inplace local_assert_no_cpu_op "
            "local_gpua_alloc_empty_to_zeros"
        ),
        "theano_ng.gpuarray.opt.indices": "local_gpua_advanced_incsubtensor1 local_gpua_subtensor",
        "theano_ng.gpuarray.opt.lifts": (
            "local_gpu_alloc_diag local_gpu_crossentropycategorical1hot local_gpu_crossentropycategorical1hotgrad "
            "local_gpu_extract_diag local_gpu_maxandargmax local_gpua_advanced_boolean_incsubtensor "
            "local_gpua_advanced_boolean_subtensor local_gpua_advanced_incsubtensor local_gpua_advanced_subtensor "
            "local_gpua_advanced_subtensor1 local_gpua_alloc_empty local_gpua_contiguous "
            "local_gpua_crossentropysoftmax1hotwithbiasdx local_gpua_crossentropysoftmaxargmax1hotwithbias "
            "local_gpua_dimshuffle local_gpua_eye local_gpua_images2neibs local_gpua_inc_subtensor local_gpua_join "
            "local_gpua_rebroadcast local_gpua_softmax local_gpua_softmaxwithbias local_gpua_specifyShape "
            "local_gpua_split local_gpua_tri"
        ),
        "theano_ng.gpuarray.opt.loops": "_scan_type_infer local_gpua_scan_to_gpua",
        "theano_ng.gpuarray.opt.networks": (
            "local_gpu_ctc local_gpua_sparseblockgemv local_gpua_sparseblockouter local_inplace_sparseblockgemv "
            "local_inplace_sparseblockouter"
        ),
        "theano_ng.scalar": "bool_t=bool get_scalar_type int_t log neg true_div",
    },
)
