"""The rewrite that lets samples of MRG31k3p overwrite the states of their streams in place."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.sandbox.rng_mrg import mrg_uniform


@local_optimizer([mrg_uniform], inplace=True)
def mrg_random_make_inplace(node):
    """Draw a sample without copying the states of the streams: they are overwritten.

    mrg_uniform(streams)  ->  mrg_uniform_inplace(streams)          [inplace, fast_run]
    """
    op = node.op
    if op.inplace:
        return False
    new = mrg_uniform(op.output_type, inplace=True).make_node(*node.inputs)
    copy_stack_trace(node.outputs, new.outputs)
    return new.outputs


optdb.register(
    "random_make_inplace_mrg",
    TopoOptimizer(mrg_random_make_inplace, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace),
    99,
    "fast_run",
    "inplace",
)
