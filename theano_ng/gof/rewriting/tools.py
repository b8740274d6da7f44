"""Helpers of rewrites: questions about chains of ops, and rewriting of graphs outside of a `FunctionGraph`."""

from theano_ng.gof import graph
from theano_ng.gof import op as op_module
from theano_ng.gof.rewriting.local import RuleIndex


def _check_chain(r, chain):
    """See `check_chain`; `chain` is a list of ops, classes, None (anything) and ints (which input to follow)."""
    chain = list(reversed(chain))
    while chain:
        elem = chain.pop()
        if elem is None:
            if r.owner is not None:
                return False
        elif r.owner is None:
            return False
        elif isinstance(elem, op_module.PureOp):
            if r.owner.op != elem:
                return False
        else:
            try:
                if issubclass(elem, op_module.PureOp) and not isinstance(r.owner.op, elem):
                    return False
            except TypeError:
                return False
        if chain:
            r = r.owner.inputs[chain.pop()]
    return r is not None


def check_chain(r, *chain):
    """Whether `r` is computed by a chain of ops.

    Parameters
    ----------
    r : Variable or Apply
        An Apply stands for its first output.
    *chain
        Alternately an op or op class, and the index of the input where the chain goes on: ``check_chain(r, Dot, 0, DimShuffle)``.
        None as the last element stands for a variable that is not computed.

    Returns
    -------
    bool
    """
    if isinstance(r, graph.Apply):
        r = r.outputs[0]
    if not chain:
        return True
    # One without an index between two ops follows the first input.
    steps = []
    for elem in chain:
        if steps and not isinstance(elem, int) and not isinstance(steps[-1], int):
            steps.append(0)
        steps.append(elem)
    return _check_chain(r, steps)


def pre_greedy_local_optimizer(list_optimizations, out):
    """Apply rules to the graph that computes one variable, in place, without a `FunctionGraph`.

    Parameters
    ----------
    list_optimizations : list of LocalOptimizer
        Rules that need neither clients nor features.
    out : Variable
        Meant for small graphs that rules build. Variables that belong to a `FunctionGraph` are left alone.

    Returns
    -------
    Variable
        What computes `out` now.
    """
    index = RuleIndex(list_optimizations)
    result = {}
    stack = [(out, False)]
    while stack:
        r, expanded = stack.pop()
        if r in result:
            continue
        node = r.owner
        if node is None or getattr(r, "fgraph", None) is not None:
            result[r] = r
            continue
        if not expanded:
            stack.append((r, True))
            stack.extend((inp, False) for inp in reversed(node.inputs) if inp not in result)
            continue
        for i, inp in enumerate(node.inputs):
            node.inputs[i] = result[inp]
        final = r
        # Bounded, so that two rules that undo each other cannot loop.
        for _ in range(100):
            node = final.owner
            if node is None or getattr(final, "fgraph", None) is not None:
                break
            for rule in index.rules_for(node.op):
                ret = rule.transform(node)
                if not ret:
                    continue
                if isinstance(ret, dict):
                    new = ret.get(final, final)
                else:
                    new = ret[node.outputs.index(final)]
                if new is not None and new is not final:
                    final = new
                    break
            else:
                break
        result[r] = final
    return result[out]
