"""Rules that move graphs to devices. `databases` defines the order in which they apply.

All documented names are exported here.
"""

from theano_ng.gpuarray.opt.batchnorm import abstract_batch_norm_db, abstract_batch_norm_db2
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
