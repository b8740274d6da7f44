"""Rules that move products of matrices and vectors to a device, and that merge sums and factors into them."""

import functools

from theano_ng.compile.mode import optdb
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.rewriting import LocalOptGroup, in2out, local_optimizer
from theano_ng.gpuarray.basic_ops import GpuAllocEmpty, as_gpuarray_variable
from theano_ng.gpuarray.blas import (
    GpuGemm,
    GpuGemmBatch,
    GpuGemv,
    GpuGer,
    gpu_dot22,
    gpugemm_inplace,
    gpugemm_no_inplace,
    gpugemmbatch_inplace,
    gpugemmbatch_no_inplace,
    gpugemv_inplace,
    gpugemv_no_inplace,
    gpuger_inplace,
    gpuger_no_inplace,
)
from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.kernels.product import DTYPES
from theano_ng.gpuarray.opt.arrays import with_pattern
from theano_ng.gpuarray.opt.databases import lifts, register_opt
from theano_ng.gpuarray.opt_util import alpha_merge, inplace_allocempty, output_merge
from theano_ng.tensor.blas.ops import BatchedDot, CGemv, CGer, Dot22, Dot22Scalar, Gemm, Gemv, Ger
from theano_ng.tensor.blas.scipy_ger import ScipyGer
from theano_ng.tensor.linalg.products import Dot


def _product_rule(host_ops, example):
    """Return a decorator like `lifts` for a rule that moves products of supported dtypes."""

    def decorator(f):
        @functools.wraps(f)
        def rule(op, context_name, inputs, outputs):
            return f(op, context_name, inputs, outputs) if outputs[0].dtype in DTYPES else False

        rule.__doc__ = example
        return lifts(*host_ops)(rule)

    return decorator


@_product_rule([Dot22], "_dot22(host(A), host(B))  ->  host(gpu_dot22(A, B))")
def local_gpua_dot22(op, context_name, inputs, outputs):
    return gpu_dot22


@_product_rule([Gemm], "gemm_no_inplace(host(A), s, host(B), host(A), s)  ->  host(gpugemm_no_inplace(A, s, B, A, s))")
def local_gpua_gemm(op, context_name, inputs, outputs):
    return gpugemm_inplace if op.inplace else gpugemm_no_inplace


@_product_rule(
    [Gemv, CGemv], "gemv_no_inplace(host(a), s, host(A), host(b), s)  ->  host(gpugemv_no_inplace(a, s, A, b, s))"
)
def local_gpua_gemv(op, context_name, inputs, outputs):
    return gpugemv_inplace if op.inplace else gpugemv_no_inplace


@_product_rule([Ger, CGer, ScipyGer], "ger(host(A), s, host(a), host(b))  ->  host(gpuger_no_inplace(A, s, a, b))")
def local_gpua_ger(op, context_name, inputs, outputs):
    return gpuger_inplace if op.destructive else gpuger_no_inplace


def _empty(context_name, dtype, *lengths):
    return GpuAllocEmpty(dtype, context_name)(*lengths)


def _shuffled(x, *order):
    return GpuDimShuffle(x.broadcastable, order)(x)


def _without_axes(product, kept, old):
    """Drop the axes of length 1 that are not in `kept`. The result has the broadcast pattern of `old`."""
    pattern = [True] * product.ndim
    for axis, broadcastable in zip(kept, old.broadcastable):
        pattern[axis] = broadcastable
    return _shuffled(Rebroadcast(*enumerate(pattern))(product), *kept)


@_product_rule(
    [Dot22Scalar],
    "_dot22scalar(host(A), host(B), s)"
    "  ->  host(gpugemm_no_inplace(GpuAllocEmpty('float64', None)(A.shape[0], B.shape[1]), s, A, B, 0.0))",
)
def local_gpua_dot22scalar(op, context_name, inputs, outputs):
    x, y, a = inputs
    x, y = as_gpuarray_variable(x, context_name), as_gpuarray_variable(y, context_name)
    product = gpugemm_no_inplace(_empty(context_name, x.dtype, x.shape[0], y.shape[1]), a, x, y, 0.0)
    return [with_pattern(product, outputs[0])]


@_product_rule(
    [BatchedDot],
    "BatchedDot()(host(P), host(Q))  ->  host(gpugemmbatch_no_inplace("
    "GpuAllocEmpty('float64', None)(P.shape[0], P.shape[1], Q.shape[2]), 1.0, P, Q, 0.0))",
)
def local_gpua_gemmbatch(op, context_name, inputs, outputs):
    x, y = [as_gpuarray_variable(v, context_name) for v in inputs]
    rows = x if x.ndim == 3 else _shuffled(x, 0, "x", 1)
    columns = y if y.ndim == 3 else _shuffled(y, 0, 1, "x")
    memory = _empty(context_name, x.dtype, rows.shape[0], rows.shape[1], columns.shape[2])
    product = gpugemmbatch_no_inplace(memory, 1.0, rows, columns, 0.0)
    kept = [0] + [1] * (x.ndim == 3) + [2] * (y.ndim == 3)
    product = with_pattern(product, outputs[0]) if len(kept) == 3 else _without_axes(product, kept, outputs[0])
    return [product]


@_product_rule([Dot], "Dot()(host(A), host(B))  ->  host(gpu_dot22(A, B))")
def local_gpua_dot(op, context_name, inputs, outputs):
    x, y = inputs
    if x.dtype != y.dtype:
        return False
    x, y = [as_gpuarray_variable(v, context_name) for v in inputs]
    if x.ndim == 2 and y.ndim == 2:
        return gpu_dot22(x, y, return_list=True)
    if y.ndim == 2:
        x, y = _shuffled(y, 1, 0), x
    matrix = x if x.ndim == 2 else _shuffled(x, "x", 0)
    product = gpugemv_no_inplace(_empty(context_name, matrix.dtype, matrix.shape[0]), 1.0, matrix, y, 0.0)
    return [with_pattern(product, outputs[0]) if outputs[0].ndim else _without_axes(product, [], outputs[0])]


@register_opt()
@alpha_merge(GpuGemm, alpha_in=1, beta_in=4)
def local_gpua_gemm_alpha_merge(node, *inputs):
    """mul(gpugemm_no_inplace(A, 1, A, B, 0), gpu(s.dimshuffle("x", "x")))  ->  gpugemm_no_inplace(A, s, A, B, 0)"""
    return [gpugemm_no_inplace(*inputs)]


@register_opt()
@output_merge(GpuGemm, alpha_in=1, beta_in=4, out_in=0)
def local_gpua_gemm_output_merge(node, *inputs):
    """add(gpugemm_no_inplace(A, s, A, B, 0), B)  ->  gpugemm_no_inplace(B, s, A, B, 1)"""
    return [gpugemm_no_inplace(*inputs)]


@register_opt()
@alpha_merge(GpuGemmBatch, alpha_in=1, beta_in=4)
def local_gpua_gemmbatch_alpha_merge(node, *inputs):
    """mul(gpugemmbatch_no_inplace(P, 1, P, Q, 0), gpu(s.dimshuffle("x", "x", "x")))  ->  gpugemmbatch_no_inplace(P, s, P, Q, 0)"""
    return [gpugemmbatch_no_inplace(*inputs)]


@register_opt()
@output_merge(GpuGemmBatch, alpha_in=1, beta_in=4, out_in=0)
def local_gpua_gemmbatch_output_merge(node, *inputs):
    """add(gpugemmbatch_no_inplace(P, s, P, Q, 0), Q)  ->  gpugemmbatch_no_inplace(Q, s, P, Q, 1)"""
    return [gpugemmbatch_no_inplace(*inputs)]


@inplace_allocempty(GpuGemm, 0)
def local_inplace_gpuagemm(node, inputs):
    """gpugemm_no_inplace(A, s, B, B, 0.5)  ->  gpugemm_inplace(A, s, B, B, 0.5)"""
    return [gpugemm_inplace(*inputs)]


@inplace_allocempty(GpuGemv, 0)
def local_inplace_gpuagemv(node, inputs):
    """gpugemv_no_inplace(a, s, A, b, 0.5)  ->  gpugemv_inplace(a, s, A, b, 0.5)"""
    return [gpugemv_inplace(*inputs)]


@inplace_allocempty(GpuGemmBatch, 0)
def local_inplace_gpuagemmbatch(node, inputs):
    """gpugemmbatch_no_inplace(P, s, Q, Q, 0.5)  ->  gpugemmbatch_inplace(P, s, Q, Q, 0.5)"""
    return [gpugemmbatch_inplace(*inputs)]


@local_optimizer([GpuGer], inplace=True)
def local_inplace_gpuager(node):
    """gpuger_no_inplace(A, s, a, b)  ->  gpuger_inplace(A, s, a, b)"""
    return False if node.op.inplace else [gpuger_inplace(*node.inputs)]


gpuablas_opt_inplace = in2out(
    LocalOptGroup(local_inplace_gpuagemm, local_inplace_gpuagemv, local_inplace_gpuager, local_inplace_gpuagemmbatch),
    name="gpuablas_opt_inplace",
)
optdb.register("InplaceGpuaBlasOpt", gpuablas_opt_inplace, 70.0, "fast_run", "inplace", "gpuarray")
