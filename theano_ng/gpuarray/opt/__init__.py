"""Rules that move graphs to devices. `databases` defines the order in which they apply.

All documented names are exported here.
"""

from theano_ng.gpuarray.opt.conv import ConvMetaOptimizer, abstractconv_groupopt, conv_metaopt
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
from theano_ng.gpuarray.opt.graph_to_gpu import GraphToGPU, GraphToGPUDB, InputToGpuOptimizer
from theano_ng.gpuarray.opt.pooling import pool_db, pool_db2
from theano_ng.gpuarray.opt.transfers import cut_gpua_constant_transfers, local_cut_gpu_transfers
from theano_ng.gpuarray.opt import (
    arrays,
    blas,
    conv,
    elementwise,
    epilogues,
    final,
    indices,
    lifts,
    loops,
    movement,
    numbers,
    pooling,
    random,
    rows,
)
