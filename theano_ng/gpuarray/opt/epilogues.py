"""Fusion of products with the elementwise operations on their results."""

from theano_ng.compile.mode import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.rewriting import copy_stack_trace, in2out, local_optimizer
from theano_ng.gpuarray.blas import BlasOp
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.opt.databases import register_inplace
from theano_ng.gpuarray.opt_util import inplace_allocempty
from theano_ng.gpuarray.product_elemwise import MOST_OPERANDS, GpuProductElemwise


def _product(node):
    """Return the position of the input that is a product and only needed for this elementwise node, or None."""
    (out,) = node.outputs
    for k, v in enumerate(node.inputs):
        if (
            v.owner is not None
            and isinstance(v.owner.op, BlasOp)
            and not getattr(v.owner.op, "inplace", False)
            and len(v.clients) == 1
            and tuple(v.type.broadcastable) == tuple(out.type.broadcastable)
        ):
            return k
    return None


@local_optimizer([GpuElemwise])
def local_gpua_product_elemwise(node):
    """Compute an elementwise operation in the kernel of the product that it needs.

    GpuElemwise(scalar.tanh)(gpu_dot22(A, B))  ->  GpuProductElemwise(gpu_dot22, scalar.tanh, 0)(A, B)
    """
    op = node.op
    if (
        config.gpuarray.epilogue == "off"
        or type(op) is not GpuElemwise
        or op.inplace_pattern
        or len(node.outputs) > 1
        or len(node.inputs) > MOST_OPERANDS + 1
    ):
        return False
    k = _product(node)
    if k is None:
        return False
    product = node.inputs[k].owner
    new = GpuProductElemwise(product.op, op.scalar_op, k)(*product.inputs, *node.inputs[:k], *node.inputs[k + 1 :])
    copy_stack_trace([node.inputs[k], *node.outputs], new)
    return [new]


@register_inplace()
@inplace_allocempty(GpuProductElemwise, 0)
def local_inplace_gpua_product_elemwise(node, inputs):
    """Overwrite the matrix that is added to a product.

    GpuProductElemwise(gpugemm_no_inplace, scalar.tanh, 0)(A, s, B, B, 0.5)  ->
        GpuProductElemwise(gpugemm_no_inplace, scalar.tanh, 0, inplace=True)(A, s, B, B, 0.5)
    """
    return [node.op.clone_inplace()(*inputs)] if node.op.can_overwrite(node) else False


# The position is after the fusion of elementwise operations and of rows.
optdb.register("gpua_product_elemwise", in2out(local_gpua_product_elemwise), 49.07, "fast_run", "fusion", "gpuarray")
