"""Rules for device graphs in their final form: fusion, in-place operations, checks."""

import logging

import numpy as np

from theano_ng.compile.mode import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import TopoOptimizer, local_optimizer
from theano_ng.gpuarray.basic_ops import GpuAlloc, GpuAllocEmpty, GpuFromHost, GpuToGpu, HostFromGpu
from theano_ng.gpuarray.elemwise import GpuElemwise, max_inputs_to_GpuElemwise
from theano_ng.gpuarray.opt.databases import register_inplace
from theano_ng.gpuarray.subtensor import GpuAdvancedIncSubtensor1, GpuAdvancedIncSubtensor1_dev20
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.opt.fusion import FusionOptimizer, local_elemwise_fusion_op
from theano_ng.tensor.opt.inplace import InplaceElemwiseOptimizer
from theano_ng.tensor.opt.patterns import Rest, copying, rule

_logger = logging.getLogger(__name__)


def _fusion_limit(node):
    return max_inputs_to_GpuElemwise(node)


local_gpua_elemwise_fusion = local_elemwise_fusion_op(GpuElemwise, _fusion_limit)

if config.gpu.local_elemwise_fusion:
    optdb.register(
        "gpua_elemwise_fusion",
        FusionOptimizer(local_gpua_elemwise_fusion),
        49,
        "fast_run",
        "fusion",
        "local_elemwise_fusion",
        "gpuarray",
    )

inplace_gpu_elemwise_opt = InplaceElemwiseOptimizer(GpuElemwise)
optdb.register(
    "gpua_inplace_opt", inplace_gpu_elemwise_opt, 75, "inplace_elemwise_optimizer", "fast_run", "inplace", "gpuarray"
)


@register_inplace()
@rule(copying(GpuAdvancedIncSubtensor1, GpuAdvancedIncSubtensor1_dev20)(Rest("inputs")))
def local_advincsub1_gpua_inplace(op, inputs):
    """GpuAdvancedIncSubtensor1()(a, b, i)  ->  GpuAdvancedIncSubtensor1(inplace=True)(a, b, i)"""
    return op.clone_inplace()(*inputs)


@local_optimizer([GpuAllocEmpty])
def local_gpua_alloc_empty_to_zeros(node):
    """GpuAllocEmpty("float64", None)(n)  ->  GpuAlloc(None, memset_0=True)(zero, n)          [alloc_empty_to_zeros]

    DebugMode uses this rule, because undefined elements differ each time they are computed.
    """
    zero = np.zeros((), dtype=node.outputs[0].dtype)
    return [GpuAlloc(node.op.context_name, memset_0=True)(zero, *node.inputs)]


optdb.register(
    "local_gpua_alloc_empty_to_zeros",
    TopoOptimizer(local_gpua_alloc_empty_to_zeros, "in_to_out"),
    49.3,
    "alloc_empty_to_zeros",
)


@local_optimizer(None)
def local_assert_no_cpu_op(node):
    """Report the nodes of a function that stay on the host, in the way that `config.assert_no_cpu_op` selects.

    Only nodes with array inputs and array outputs count. Transfers do not count, and arrays whose axes are all
    broadcastable count as numbers.

    Raises
    ------
    AssertionError
        If the flag is "raise".
    """
    if config.assert_no_cpu_op == "ignore" or isinstance(node.op, (GpuFromHost, HostFromGpu, GpuToGpu)):
        return False

    def arrays(variables):
        return any(
            hasattr(v.type, "dtype")
            and not all(getattr(v.type, "broadcastable", ()))
            and not isinstance(v.type, GpuArrayType)
            for v in variables
        )

    if not arrays([v for v in node.inputs if not isinstance(v, Constant)]) or not arrays(node.outputs):
        return False
    if config.assert_no_cpu_op == "warn":
        _logger.warning("CPU Op %s is detected in the computation graph", node)
    elif config.assert_no_cpu_op == "raise":
        raise AssertionError("The Op %s is on CPU." % node)
    elif config.assert_no_cpu_op == "pdb":
        import pdb

        pdb.set_trace()
    return False


assert_no_cpu_op = TopoOptimizer(local_assert_no_cpu_op, "in_to_out")
optdb.register("gpua_assert_no_cpu_op", assert_no_cpu_op, 49.2, "assert_no_cpu_op")
