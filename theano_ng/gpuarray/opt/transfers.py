"""Rules that remove transfers that cancel each other."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import local_optimizer
from theano_ng.gpuarray.basic_ops import GpuFromHost, GpuToGpu, HostFromGpu, host_from_gpu
from theano_ng.gpuarray.opt.databases import gpu_cut_copies, gpu_seqopt, register_opt
from theano_ng.gpuarray.opt.graph_to_gpu import InputToGpuOptimizer
from theano_ng.tensor.opt.constant_folding import constant_folding

gpu_seqopt.register("InputToGpuArrayOptimizer", InputToGpuOptimizer(), 0, "fast_run", "fast_compile", "merge")


@local_optimizer([GpuFromHost, GpuToGpu, HostFromGpu])
def local_cut_gpu_transfers(node):
    """Replace two successive transfers by at most one transfer, from the first location to the last location.

    gpu(host(A))  ->  A
    host(gpu(x))  ->  x
    GpuToGpu(None)(gpu(x))  ->  gpu(x)
    """
    (before,) = node.inputs
    if before.owner is None or not isinstance(before.owner.op, (GpuFromHost, GpuToGpu, HostFromGpu)):
        if isinstance(node.op, GpuToGpu) and before.type.context_name == node.op.context_name:
            return [before]
        return False
    (source,) = before.owner.inputs
    return [transferred(source, node.op)]


def transferred(v, op):
    """Return `v` in the location to which the transfer Op `op` moves its input. Add at most one transfer."""
    if isinstance(op, HostFromGpu):
        return host_from_gpu(v) if hasattr(v.type, "context") else v
    if not hasattr(v.type, "context"):
        return GpuFromHost(op.context_name)(v)
    return v if v.type.context_name == op.context_name else GpuToGpu(op.context_name)(v)


gpu_cut_copies.register(
    "local_cut_gpua_host_gpua",
    local_cut_gpu_transfers,
    "cut_gpua_host_transfers",
    "fast_compile",
    "fast_run",
    "gpuarray",
)


@local_optimizer([GpuFromHost])
def cut_gpua_constant_transfers(node):
    """Replace the transfer of a constant by a constant on the device.

    gpu(zero)  ->  null
    """
    return constant_folding.transform(node)


gpu_cut_copies.register(
    "cut_gpua_constant_transfers", cut_gpua_constant_transfers, "fast_compile", "fast_run", "gpuarray"
)
register_opt("gpua_constant_folding")(cut_gpua_constant_transfers)
optdb["canonicalize"].register(
    "local_cut_gpua_host_gpua", local_cut_gpu_transfers, "fast_compile", "fast_run", "gpuarray"
)
