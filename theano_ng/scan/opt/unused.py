"""A rule that removes inputs and computations that a loop does not need."""

import numpy as np

from theano_ng.compile.inner_graph import substitute
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import local_optimizer
from theano_ng.scan.args import scan_args
from theano_ng.scan.op import Scan
from theano_ng.scan.opt.common import make_loop, output_replacements


@local_optimizer([Scan])
def remove_constants_and_unused_inputs_scan(node):
    """Remove inputs that no step reads, and results and states that no other node reads. Move constants into the step.

    A state stays if a remaining output depends on it. A sequence whose rows are equal constants is treated as a
    constant.

    scan(lambda row, h: [h * 2, row], A, [v, None])[0][0]  ->  scan(lambda h: h * 2, None, v, n_steps=A.shape[0])[0]
    """
    if node.op.destroy_map:
        return False
    args = scan_args.of(node)
    if not any([_unread(args), _constants(args), leave_out_unused_inputs(args)]):
        return False
    outputs = make_loop(args)
    replacements = dict(output_replacements(args, outputs))
    replacements["remove"] = [node]
    return replacements


def _unread(args):
    """Remove results and states that no node reads. Return True if any were removed."""
    groups = ("mit_mot", "mit_sot", "sit_sot", "nit_sot", "shared")
    read = {group: [bool(v.clients) for v in getattr(args, "outer_out_" + group)] for group in groups}
    if all(map(all, read.values())):
        return False
    # Search the step backward from the outputs that are read. If the search reaches a state, the state is needed, and
    # so are the variables from which the step computes it.
    state_of = {v: ("shared", i) for i, v in enumerate(args.inner_in_shared)}
    for group, i, _, inner, _, _ in args.states():
        state_of.update(dict.fromkeys(inner, (group, i)))
    todo, reached = list(args.cond), set()

    def need(group, i):
        read[group][i] = True
        made_by = getattr(args, "inner_out_" + group)[i]
        todo.extend(made_by if group == "mit_mot" else [made_by])

    for group in groups:
        for i, wanted in enumerate(read[group]):
            if wanted:
                need(group, i)
    while todo:
        v = todo.pop()
        if v in reached:
            continue
        reached.add(v)
        if v in state_of:
            need(*state_of[v])
        elif v.owner is not None:
            todo.extend(v.owner.inputs)
    if all(map(all, read.values())):
        return False
    for group in groups:
        args.keep(group, read[group])
    return True


def _constants(args):
    """Replace inputs of the step that are constant by their values. Return True if there are any constants."""
    found = {}
    for inner, outer in zip(args.inner_in_non_seqs, args.outer_in_non_seqs):
        if isinstance(outer, Constant):
            found[inner] = outer.clone()
    for inner, outer in zip(args.inner_in_seqs, args.outer_in_seqs):
        if isinstance(outer, Constant) and len(outer.data) and np.all(outer.data == outer.data[:1]):
            found[inner] = inner.type.make_constant(outer.data[0])
    if not found:
        return False
    args.inner_outputs = substitute(args.inner_outputs, found)
    return True


def leave_out_unused_inputs(args):
    """Remove sequences and non-sequences that no step reads. Return True if any were removed."""
    todo, reached = list(args.inner_outputs), set()
    while todo:
        v = todo.pop()
        if v not in reached:
            reached.add(v)
            if v.owner is not None:
                todo.extend(v.owner.inputs)
    used = {group: [v in reached for v in getattr(args, "inner_in_" + group)] for group in ("seqs", "non_seqs")}
    for group, wanted in used.items():
        args.keep(group, wanted)
    return not all(map(all, used.values()))
