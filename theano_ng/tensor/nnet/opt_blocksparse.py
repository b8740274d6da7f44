"""Rules that let products of blocks overwrite the tensor to which they are added."""

from theano_ng.compile import optdb
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.tensor.nnet.blocksparse import (
    SparseBlockGemv,
    SparseBlockOuter,
    sparse_block_gemv_inplace,
    sparse_block_outer_inplace,
)


def _in_place(node, op):
    if node.op.inplace:
        return False
    new = op(*node.inputs)
    copy_stack_trace(node.outputs[0], new)
    return [new]


@local_optimizer([SparseBlockGemv], inplace=True)
def local_inplace_sparse_block_gemv(node):
    """Overwrite the tensor to which products are added if no other node needs it.

    sparse_block_gemv(exp(t), blocks, t, places, places)  ->  sparse_block_gemv_inplace(exp(t), blocks, t, places, places)
                                                                                                              [inplace, fast_run]
    """
    return _in_place(node, sparse_block_gemv_inplace)


@local_optimizer([SparseBlockOuter], inplace=True)
def local_inplace_sparse_block_outer(node):
    """Overwrite the tensor to which outer products are added if no other node needs it.

    sparse_block_outer(exp(blocks), t, t, places, places)  ->  sparse_block_outer_inplace(exp(blocks), t, t, places, places)
                                                                                                              [inplace, fast_run]
    """
    return _in_place(node, sparse_block_outer_inplace)


for _rule in (local_inplace_sparse_block_gemv, local_inplace_sparse_block_outer):
    optdb.register(
        _rule.__name__, TopoOptimizer(_rule, failure_callback=TopoOptimizer.warn_inplace), 60, "fast_run", "inplace"
    )
del _rule
