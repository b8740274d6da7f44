"""The rewrite that lets Ops change typed lists in place."""

from theano_ng.compile import optdb
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.typed_list.basic import Append, Extend, Insert, Remove, Reverse

__all__ = ["typed_list_inplace_opt"]


@local_optimizer([Append, Extend, Insert, Reverse, Remove], inplace=True)
def typed_list_inplace_opt(node):
    """Let an Op change its list in place instead of a copy.

    append(reverse(l), x)  ->  Append(inplace=True)(Reverse(inplace=True)(l), x)          [inplace, fast_run]
    """
    if node.op.inplace:
        return False
    new = type(node.op)(inplace=True)(*node.inputs)
    copy_stack_trace(node.outputs[0], new)
    return [new]


optdb.register(
    "typed_list_inplace_opt",
    TopoOptimizer(typed_list_inplace_opt, order="out_to_in", failure_callback=TopoOptimizer.warn_inplace),
    60,
    "fast_run",
    "inplace",
)
