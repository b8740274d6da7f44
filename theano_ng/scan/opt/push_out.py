"""Rules that move computations out of a step to before the loop. Computations on non-sequences are done once.
Computations on sequences are done for all steps together.
"""

from copy import copy

import numpy as np

from theano_ng.compile.inner_graph import substitute
from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.graph import Constant, ancestors
from theano_ng.ifelse import ifelse
from theano_ng.scalar import Add, Sub
from theano_ng.scan.args import scan_args
from theano_ng.scan.backward import CHEAP
from theano_ng.scan.editing import infer_shape
from theano_ng.scan.opt.common import LoopOptimizer, Step, can_be_passed, constant_int, replace_loop, same_int
from theano_ng.scan.opt.outer_graph import OuterGraph
from theano_ng.scan.opt.unused import leave_out_unused_inputs
from theano_ng.tensor import basic as T
from theano_ng.tensor.basic import alloc, gt
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.opt.common import constant_value
from theano_ng.tensor.shaping.allocation import Alloc
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType


def frontier(step, moved, own=()):
    """Return the variables through which a step reads values that are computed outside.

    Parameters
    ----------
    step : Step
    moved : dict of Apply
        The nodes that can be computed outside, in topological order.
    own : set of Variable
        Outputs of the nodes in `moved` that the step should compute itself.

    Returns
    -------
    list of Variable
        Variables that can be passed to a loop. If an output of a node is needed but cannot be passed, the node stays in
        the step.
    """
    stay, found = set(own), {}
    for node in reversed(moved):
        if type(node.op) is Alloc and _is_fill(node) and all(v.owner is None for v in node.inputs[1:]):
            continue  # the step repeats the scalar itself, and gets only the lengths from outside
        for v in node.outputs:
            if v not in stay and any(client not in moved or client in stay for client in step.clients.get(v, ())):
                if can_be_passed(v):
                    found[v] = None
                else:
                    stay.add(node)
    # The loop ran in reversed order, so that a node that stays is visited before the nodes that compute its inputs.
    return list(reversed(found))


# Key as returned by `_kind`: the Op or the Op's class. Value: the position of the input that the node repeats.
_FILLS = {T.second: 1, Alloc: 0}


def _kind(node):
    return node.op if node.op == T.second else type(node.op)


def _is_fill(node):
    """Return True if a node repeats a constant scalar."""
    return _kind(node) in _FILLS and constant_value(node.inputs[_FILLS[_kind(node)]]) is not None


class PushOutNonSeqScan(LoopOptimizer):
    """An optimizer that moves computations to before the loop if their results are the same in all steps.

    The results become non-sequences of the loop. If a computation may fail for some values, it is done only if
    there is a step.

    scan(lambda row, h: h * exp(u) + row, A, v)[0]  ->  scan(lambda row, h, e: h * e + row, A, v, exp(u))[0]
    scan(lambda row, s: s + x[i], v, a)[0]  ->
        scan(lambda s, e: s + e, None, a, ifelse(T.gt(v.shape[0], 0), x[i], T.cast(T.alloc(0), "float64")), v.shape[0])[0]
    """

    def process_node(self, fgraph, node):
        args = scan_args.of(node)
        step, outside = Step(args), OuterGraph(args)
        moved, constant, risky = {}, set(), set()
        some_steps = (constant_int(args.n_steps) or 0) > 0
        for inner in step.nodes:
            if not step.is_movable(inner) or not outside.record_if_invariant(inner):
                continue
            moved[inner] = None
            if all(isinstance(v, Constant) or v in constant for v in inner.inputs):
                constant.update(inner.outputs)
            if not some_steps and (fails_on_values(inner) or any(v in risky for v in inner.inputs)):
                risky.update(inner.outputs)
        found = frontier(step, moved, constant)
        if not found:
            return
        outer = _if_there_are_steps(args, found, [outside.of(v) for v in found], risky)
        _add_inputs(args, "non_seqs", found, outer)
        replace_loop(fgraph, node, args, [], self.name)


def _if_there_are_steps(args, inner, outer, risky):
    """Return the outer variables, guarded by a condition if their inner variables are in `risky`.

    A guarded variable is computed only if there is a step. Otherwise zeros of the same shape replace it.
    """
    guarded = [i for i, v in enumerate(inner) if v in risky and isinstance(v.type, TensorType)]
    if guarded:
        nothing = [
            patternbroadcast(alloc(0, *lengths).astype(inner[i].dtype), inner[i].broadcastable)
            for i, lengths in zip(guarded, _lengths_without_values(args, [outer[i] for i in guarded]))
        ]
        for i, v in zip(guarded, ifelse(gt(args.n_steps, 0), [outer[i] for i in guarded], nothing)):
            outer[i] = v
    return outer


def _lengths_without_values(args, variables):
    """Yield the lengths of variables that are computed from a loop's arguments. A length is 0 if a computation on which
    it depends may fail.
    """
    arguments = list(dict.fromkeys(args.outer_inputs))
    shapes = infer_shape(
        variables, arguments, [[v.shape[d] for d in range(v.ndim)] if hasattr(v, "ndim") else None for v in arguments]
    )
    for v, shape in zip(variables, shapes):
        yield [
            1 if b else 0 if any(map(_may_fail, ancestors([length], blockers=arguments))) else length
            for length, b in zip(shape, v.broadcastable)
        ]


def _may_fail(v):
    return v.owner is not None and fails_on_values(v.owner)


def _add_inputs(args, group, inner, outer):
    """Give a loop additional sequences or non-sequences, which replace variables of its step.

    A node that repeats a scalar stays in the step, and only its lengths become inputs. So rules can still see the
    scalar in the step, and its copies need no memory outside the step.
    """
    new, added = {}, []
    for v, source in zip(inner, outer):
        if v.owner is not None and _is_fill(v.owner) and not all(v.broadcastable):
            first = source.ndim - v.ndim
            lengths = [1 if b else T.lscalar() for b in v.broadcastable]
            added += [("non_seqs", source.shape[first + d], n) for d, n in enumerate(lengths) if n != 1]
            number = np.asarray(constant_value(v.owner.inputs[_FILLS[_kind(v.owner)]]), v.dtype)
            new[v] = patternbroadcast(alloc(number, *lengths), v.broadcastable)
        else:
            new[v] = v.type(v.name)
            added.append((group, source, new[v]))
    args.inner_outputs = substitute(args.inner_outputs, new)
    for entry in added:
        args.add(*entry)
    leave_out_unused_inputs(args)


class PushOutSeqScan(LoopOptimizer):
    """An optimizer that moves computations on sequences alone to before the loop, where they are done for all steps
    together.

    The results become sequences of the loop. If such a result is also an output of the loop, the computation before the
    loop replaces this output. Loops with a condition are not changed, because they may end before most of the values
    are needed.

    scan(lambda row: exp(row), A)[0]  ->  exp(A)
    scan(lambda row: dot(row, W), A)[0]  ->  dot(A, W)
    """

    def process_node(self, fgraph, node):
        args = scan_args.of(node)
        if args.as_while:
            return
        step, outside = Step(args), OuterGraph(args)
        moved = {}
        for inner in step.nodes:
            if not step.is_movable(inner):
                continue
            if not outside.record_if_invariant(inner):
                if outside.record_if_stackable(inner):
                    moved[inner] = None
            elif fails_on_values(inner):
                outside.same.difference_update(inner.outputs)
        results = _results_of_rows(args, outside)
        step = _without_results(step, args, results)
        _leave_factors(step, moved)
        found = frontier(step, moved)
        if not found and not any(results):
            return
        others = [
            (old, patternbroadcast(outside.rows_of(v), old.broadcastable))
            for v, old, known in zip(args.inner_out_nit_sot, args.outer_out_nit_sot, results)
            if known
        ]
        others = [(old, outside.checked(new, fgraph)) for old, new in others]
        _add_inputs(args, "seqs", found, [outside.of(v) for v in found])
        args.keep("nit_sot", [not known for known in results])
        replace_loop(fgraph, node, args, others, self.name)


def _leave_factors(step, moved):
    """Keep nodes in the step if computing their results there is as cheap as reading them.

    If the only reader of a cheap operation is an elementwise operation in the step, one loop over the elements computes
    both. Outside the step, the cheap operation would need a pass over memory for all steps, and an additional sequence.
    The exception is a reader that is a sum or difference: its terms are better computed outside, because steps often
    add a product of matrices to them.

    Parameters
    ----------
    step : Step
    moved : dict of Apply
        The nodes that can be computed outside, in topological order. Nodes that stay are removed.
    """
    left = set()
    for node in reversed(list(moved)):
        if not (isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, CHEAP)) or any(
            isinstance(v.owner.op, Dot) for v in node.inputs if v.owner is not None
        ):
            continue
        (v,) = node.outputs
        client, *others = step.clients.get(v, (None,))
        if (
            not others
            and client is not None
            and client not in moved
            and isinstance(client.op, Elemwise)
            and (client in left or not isinstance(client.op.scalar_op, (Add, Sub)))
            and client.outputs[0].broadcastable == v.broadcastable
        ):
            del moved[node]
            left.add(node)


def _results_of_rows(args, outside):
    """Return a bool for each result of the steps: True if the outer graph can compute it without the loop."""
    return [
        same_int(rows, args.n_steps) and outside.knows(v)
        for v, rows in zip(args.inner_out_nit_sot, args.outer_in_nit_sot)
    ]


def _without_results(step, args, results):
    """Return the graph of the step without the results whose flag in `results` is True."""
    args = copy(args)
    args.keep("nit_sot", [not known for known in results])
    return Step(args)
