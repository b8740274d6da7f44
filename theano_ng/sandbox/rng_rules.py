"""The rewrite that makes samples of MRG31k3p overwrite the states of their streams."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import TopoOptimizer
from theano_ng.sandbox.rng_mrg import mrg_uniform
from theano_ng.tensor.opt.patterns import Rest, copying, rule


@rule(copying(mrg_uniform)(Rest("inputs")), inplace=True)
def mrg_random_make_inplace(op, inputs):
    """Draw a sample, and overwrite the states of the streams instead of copying them.

    mrg_uniform(streams)  ->  mrg_uniform_inplace(streams)          [inplace, fast_run]
    """
    return mrg_uniform(op.output_type, inplace=True).make_node(*inputs).outputs


optdb.register(
    "random_make_inplace_mrg",
    TopoOptimizer(mrg_random_make_inplace, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace),
    99,
    "fast_run",
    "inplace",
)
