"""A rule for connectionist temporal classification: gradients are not computed if they have no clients."""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor.nnet.ctc import ConnectionistTemporalClassification
from theano_ng.tensor.opt.registration import register_canonicalize


@register_canonicalize("fast_compile")
@local_optimizer([ConnectionistTemporalClassification])
def local_ctc_no_grad(node):
    """Compute only the costs if the gradients have no clients.

    ConnectionistTemporalClassification()(t, signs, ends)[0]  ->  ConnectionistTemporalClassification(compute_grad=False)(t, signs, ends)
                                                                                       [canonicalize, fast_compile, fast_run]
    """
    if len(node.outputs) < 2 or node.outputs[1].clients:
        return False
    costs = ConnectionistTemporalClassification(compute_grad=False, openmp=node.op.openmp)(*node.inputs)
    copy_stack_trace(node.outputs[0], costs)
    return {node.outputs[0]: costs}
