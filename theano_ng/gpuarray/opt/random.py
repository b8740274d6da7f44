"""Rules of random numbers on devices."""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import TopoOptimizer
from theano_ng.gpuarray.multinomial import GPUAChoiceFromUniform, GPUAMultinomialFromUniform
from theano_ng.gpuarray.opt.databases import lifts
from theano_ng.gpuarray.rng_mrg import GPUA_mrg_uniform
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import on_host
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform
from theano_ng.sandbox.rng_mrg import mrg_uniform
from theano_ng.tensor.opt.patterns import Rest, copying, rule


@lifts(mrg_uniform)
def local_gpua_mrg(op, context_name, inputs, outputs):
    """mrg_uniform(T.dvector)(host(S), i)  ->  [host(v) for v in GPUA_mrg_uniform(GpuArrayType("float64", (False,), None))(S, i)]"""
    states, size = inputs
    if not isinstance(states.type, GpuArrayType):
        return False
    type_ = GpuArrayType(op.output_type.dtype, op.output_type.broadcastable, context_name)
    return GPUA_mrg_uniform(type_, op.inplace)(states, *on_host([size]), return_list=True)


@lifts(MultinomialFromUniform)
def local_gpua_multinomial(op, context_name, inputs, outputs):
    """MultinomialFromUniform('int64')(host(A), host(a))  ->  host(GPUAMultinomialFromUniform('int64')(A, a))"""
    if isinstance(op, ChoiceFromUniform):
        return False
    return _drawn(GPUAMultinomialFromUniform(op.odtype), context_name, inputs)


@lifts(ChoiceFromUniform)
def local_gpua_multinomial_wor(op, context_name, inputs, outputs):
    """ChoiceFromUniform('int64', True)(host(A), host(a), 2)  ->  host(GPUAChoiceFromUniform('int64', True)(A, a, 2))"""
    return _drawn(GPUAChoiceFromUniform(op.odtype, op.replace), context_name, inputs)


def _drawn(op, context_name, inputs):
    pvals, unis, n = inputs
    return op(*[as_gpuarray_variable(v, context_name) for v in (pvals, unis)], *on_host([n]), return_list=True)


@rule(copying(GPUA_mrg_uniform)(Rest("inputs")), inplace=True)
def gpua_mrg_random_make_inplace(op, inputs):
    """Draw a sample, and overwrite the states of the streams instead of copying them.

    GPUA_mrg_uniform(GpuArrayType("float64", (False,), None))(S, i)  ->
        GPUA_mrg_uniform(GpuArrayType("float64", (False,), None), inplace=True)(S, i)
    """
    return GPUA_mrg_uniform(op.output_type, inplace=True).make_node(*inputs).outputs


optdb.register(
    "gpua_random_make_inplace_mrg",
    TopoOptimizer(gpua_mrg_random_make_inplace, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace),
    99,
    "fast_run",
    "inplace",
    "gpuarray",
)
