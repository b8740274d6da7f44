"""Constant folding: nodes whose inputs are all constants are computed at compile time."""

import logging

from theano_ng.configdefaults import config
from theano_ng.gof import graph
from theano_ng.gof.op import has_perform
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer, topogroup_optimizer
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.opt.registration import (
    register_canonicalize,
    register_specialize,
    register_stabilize,
    register_uncanonicalize,
)

_logger = logging.getLogger("theano_ng.gof.opt")


@local_optimizer(None)
def constant_folding(node):
    """Replace the outputs of a node whose inputs are all constants by their values.

    exp(constant(0.))  ->  1.          [canonicalize, stabilize, specialize, uncanonicalize,
                                       fast_run, fast_compile, constant_folding]

    If ``op.do_constant_folding(node)`` returns False, the node is not folded. If ``op.python_constant_folding(node)``
    is true, no C code is compiled to compute the value.
    """
    for r in node.inputs:
        if not isinstance(r, graph.Constant):
            return False
    if getattr(node.tag, "folding_failed", False):
        return False
    op = node.op
    if not op.do_constant_folding(node):
        # The Op excludes the node from folding, because the values of the outputs are large, or because the outputs do
        # not depend only on the inputs.
        return False
    # Compiling takes longer than one call of `perform`. So C code is used only for Ops without `perform`.
    impls = ("py", None)
    if hasattr(op, "python_constant_folding") and op.python_constant_folding(node):
        impls = ("py",) if has_perform(op) else ()
    for impl in impls:
        storage_map = {r: [r.data] for r in node.inputs}
        compute_map = {r: [True] for r in node.inputs}
        for o in node.outputs:
            storage_map[o] = [None]
            compute_map[o] = [False]
        try:
            thunk = op.make_thunk(node, storage_map, compute_map, no_recycling=[], impl=impl)
            required = thunk()
        except (NotImplementedError, MethodNotDefined):
            continue
        except AssertionError:  # An assertion in the user's graph fails: raise its error at compile time.
            node.tag.folding_failed = True
            raise
        except Exception as error:
            # The error comes from the node, not from this rule. The compiled function must raise it when the node
            # runs. A node in a lazy branch may never run.
            node.tag.folding_failed = True
            if config.on_opt_error != "ignore":
                _logger.warning("constant folding: %s raises %s: %s", node, type(error).__name__, error)
            return False
        break
    else:
        return False
    if required:
        raise AssertionError(
            "constant folding: %s asks for inputs %s, although all inputs were given" % (node, required)
        )
    rval = []
    for output in node.outputs:
        value = storage_map[output][0]
        constant_type = getattr(output.type, "Constant", None) or graph.Constant
        v = constant_type(output.type, value)
        copy_stack_trace(output, v)
        rval.append(v)
    return rval


topo_constant_folding = topogroup_optimizer("in_to_out", constant_folding, name="topo_constant_folding")
for _register in (register_canonicalize, register_uncanonicalize, register_stabilize, register_specialize):
    _register(topo_constant_folding, "constant_folding", "fast_compile", final_opt=True)
del _register
