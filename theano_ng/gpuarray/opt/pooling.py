"""Rules that move pooling and its gradients to devices."""

from theano_ng.gpuarray.opt.databases import lifts, rule_groups
from theano_ng.gpuarray.pool import (
    GpuAveragePoolGrad,
    GpuDownsampleFactorMaxGradGrad,
    GpuMaxPoolGrad,
    GpuMaxPoolRop,
    GpuPool,
)
from theano_ng.tensor.signal.pool import AveragePoolGrad, DownsampleFactorMaxGradGrad, MaxPoolGrad, MaxPoolRop, Pool

pool_groups = rule_groups("pool_db")
pool_db, pool_db2 = pool_groups


@lifts(Pool, group=pool_groups)
def local_gpu_pool(op, ctx_name, inputs, outputs):
    """Pool()(host(M), (2, 2))  ->  host(GpuPool(False)(M, (2, 2)))"""
    return GpuPool(op.ignore_border, op.mode, op.ndim)


@lifts(MaxPoolGrad, group=pool_groups)
def local_gpu_max_pool_grad(op, ctx_name, inputs, outputs):
    """MaxPoolGrad(True)(host(M), host(N), host(N), (2, 2))  ->  host(GpuMaxPoolGrad(True)(M, N, N, (2, 2)))"""
    return GpuMaxPoolGrad(op.ignore_border, op.mode, op.ndim)


@lifts(AveragePoolGrad, group=pool_groups)
def local_gpu_average_pool_grad(op, ctx_name, inputs, outputs):
    """AveragePoolGrad(True, "sum")(host(M), host(N), (2, 2))  ->  host(GpuAveragePoolGrad(True, "sum")(M, N, (2, 2)))"""
    return GpuAveragePoolGrad(op.ignore_border, op.mode, op.ndim)


@lifts(DownsampleFactorMaxGradGrad, tags=())
def local_gpu_downsample_factor_max_grad_grad(op, ctx_name, inputs, outputs):
    """DownsampleFactorMaxGradGrad(True)(host(M), host(N), host(M), (2, 2))  ->
    host(GpuDownsampleFactorMaxGradGrad(True)(M, N, M, (2, 2)))
    """
    return GpuDownsampleFactorMaxGradGrad(op.ignore_border, op.mode, op.ndim)


@lifts(MaxPoolRop, tags=())
def local_gpu_max_pool_rop(op, ctx_name, inputs, outputs):
    """MaxPoolRop(True)(host(M), host(M), (2, 2))  ->  host(GpuMaxPoolRop(True)(M, M, (2, 2)))"""
    return GpuMaxPoolRop(op.ignore_border, op.mode, op.ndim)
