"""Rules that let the Ops of block-sparse products overwrite the tensor to which the products are added."""

from theano_ng.compile import optdb
from theano_ng.gof.rewriting import TopoOptimizer
from theano_ng.tensor.nnet.blocksparse import (
    SparseBlockGemv,
    SparseBlockOuter,
    sparse_block_gemv_inplace,
    sparse_block_outer_inplace,
)
from theano_ng.tensor.opt.patterns import Rest, copying, rule, terms

inputs = Rest("inputs")
gemv_inplace, outer_inplace = terms(sparse_block_gemv_inplace, sparse_block_outer_inplace)


@rule((copying(SparseBlockGemv)(inputs), gemv_inplace(inputs)), inplace=True)
def local_inplace_sparse_block_gemv():
    """Overwrite the tensor to which products are added if no other node needs it.

    sparse_block_gemv(exp(t), blocks, t, places, places)  ->  sparse_block_gemv_inplace(exp(t), blocks, t, places, places)
                                                                                                              [inplace, fast_run]
    """


@rule((copying(SparseBlockOuter)(inputs), outer_inplace(inputs)), inplace=True)
def local_inplace_sparse_block_outer():
    """Overwrite the tensor to which outer products are added if no other node needs it.

    sparse_block_outer(exp(blocks), t, t, places, places)  ->  sparse_block_outer_inplace(exp(blocks), t, t, places, places)
                                                                                                              [inplace, fast_run]
    """


for _rule in (local_inplace_sparse_block_gemv, local_inplace_sparse_block_outer):
    optdb.register(
        _rule.__name__, TopoOptimizer(_rule, failure_callback=TopoOptimizer.warn_inplace), 60, "fast_run", "inplace"
    )
del _rule
