"""A rule that lets a random Op update the generator's state in place if the old state is not needed."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import TopoOptimizer
from theano_ng.tensor.opt.patterns import Rest, copying, rule
from theano_ng.tensor.raw_random import RandomFunction


@rule(copying(RandomFunction)(Rest("inputs")), inplace=True)
def random_make_inplace(op, inputs):
    """Update the state of the generator in place instead of copying it.

    uniform(state)  ->  uniform_inplace(state)          [inplace, fast_run]
    """
    return RandomFunction(op.fn, op.outtype, inplace=True, ndim_added=op.ndim_added).make_node(*inputs).outputs


optdb.register(
    "random_make_inplace",
    TopoOptimizer(random_make_inplace, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace),
    99,
    "fast_run",
    "inplace",
)
