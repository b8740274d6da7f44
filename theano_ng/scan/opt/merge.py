"""Rules that merge loops over the same steps, and equal inputs and outputs of a loop."""

from theano_ng.compile.inner_graph import substitute
from theano_ng.gof.graph import Constant, ancestors, io_toposort
from theano_ng.gof.rewriting import Optimizer, local_optimizer
from theano_ng.gof.rewriting.base import attach_replace_validate
from theano_ng.scan.args import scan_args
from theano_ng.scan.op import Scan
from theano_ng.scan.opt.common import make_loop, output_replacements

MAX_ROUNDS = 4
"""The maximum number of times that the states of a loop are compared again."""


def key_of(v):
    """Return a key that equal outer variables share: the variable, or the value of a constant."""
    return v.merge_signature() if isinstance(v, Constant) else v


class ScanMerge(Optimizer):
    """An optimizer that merges loops with the same number of steps, if no loop needs a result of another loop.

    Loops with a condition are merged if the condition is the same: the same function of the same sequences and
    non-sequences. Only loops of the same level are merged, so that no order of merging creates a cycle. The level of a
    loop is the largest number of loops on a path that leads to it.

    [scan(exp, A, n_steps=3)[0], scan(tanh, A, n_steps=3)[0]]  ->
        scan(lambda a, b: [exp(a), tanh(b)], [A, A], n_steps=3, name="scan_fn&scan_fn")[0]
    """

    def add_requirements(self, fgraph):
        attach_replace_validate(fgraph)

    def apply(self, fgraph):
        groups = {}
        for node, level in _levels(fgraph):
            groups.setdefault((level, *_needed_for_one_loop(node.op, scan_args.of(node))), []).append(node)
        for found in groups.values():
            if len(found) > 1:
                # Make each merged loop only now, because earlier merges may have replaced inputs of its parts.
                fgraph.replace_all_validate_remove(self.merge(found), remove=found, reason=self.name)

    def belongs_to_set(self, node, set_nodes):
        """Return True if a loop can be merged with the loops in `set_nodes`.

        Parameters
        ----------
        node : Apply
            A loop node.
        set_nodes : list of Apply
            Loops that can be merged with each other.
        """
        one, other = [_needed_for_one_loop(n.op, scan_args.of(n)) for n in (node, set_nodes[0])]
        results = {v for n in set_nodes for v in n.outputs}
        return (
            one == other
            and results.isdisjoint(ancestors(node.inputs))
            and not any(set(node.outputs) & set(ancestors(n.inputs)) for n in set_nodes)
        )

    def merge(self, nodes):
        """Merge several loops into one.

        Parameters
        ----------
        nodes : list of Apply

        Returns
        -------
        list of (Variable, Variable)
            Pairs of an outer output of an old loop, and its replacement.
        """
        args, *others = _with_own_variables(nodes)
        for other in others:
            args.merge(other)
        names = [node.op.name for node in nodes]
        if all(names):
            args.other_info["name"] = "&".join(names)
        return output_replacements(args, make_loop(args))


def _with_own_variables(nodes):
    """Yield the `scan_args` of each loop, with inner variables that no two loops share.

    Copies of a loop share the variables of their steps. Before steps are merged, shared variables are copied.
    """
    seen = set()
    for node in nodes:
        args = scan_args.of(node)
        if not seen.isdisjoint(node.op.inputs):
            new = [v.clone() for v in node.op.inputs]
            outputs = substitute(node.op.outputs, dict(zip(node.op.inputs, new)))
            args = scan_args(node.inputs, node.outputs, new, outputs, node.op.info)
        seen.update(args.inner_inputs)
        yield args


def _levels(fgraph):
    """Return pairs of a loop and its level: the largest number of loops on a path that leads to it."""
    level, found = {}, []
    if sum(isinstance(node.op, Scan) for node in fgraph.apply_nodes) < 2:
        return found
    for node in fgraph.toposort():
        here = max([level[v.owner] for v in node.inputs if v.owner is not None], default=0)
        if isinstance(node.op, Scan):
            if not node.op.destroy_map:
                found.append((node, here))
            here += 1
        level[node] = here
    return found


def _needed_for_one_loop(op, args):
    """Return the properties that two loops must share to be merged."""
    info = args.other_info
    return (
        key_of(args.n_steps),
        op.truncate_gradient,
        op.mode,
        op.profile,
        op.allow_gc,
        info.get("strict", False),
        info.get("gpua", False),
        _identity_of_condition(args),
    )


def _identity_of_condition(args):
    """Return a key that equal conditions share: the graph, with outer variables in place of inner variables."""
    if not args.cond:
        return None
    numbers = {inner: (0, key_of(outer)) for inner, outer in zip(args.inner_in_seqs, args.outer_in_seqs)}
    numbers.update((inner, (1, key_of(outer))) for inner, outer in zip(args.inner_in_non_seqs, args.outer_in_non_seqs))
    parts = []
    for node in io_toposort(args.inner_inputs, args.cond):
        # A state belongs to one loop only. `numbers` contains no states, so states of two loops get different keys.
        row = [numbers.get(v, key_of(v)) for v in node.inputs]
        parts.append((node.op, tuple(row)))
        for k, out in enumerate(node.outputs):
            numbers[out] = (2, len(parts), k)
    return tuple(parts), numbers.get(args.cond[0], key_of(args.cond[0]))


@local_optimizer([Scan])
def scan_merge_inouts(node):
    """Merge equal sequences and non-sequences of a loop, and results and states that equal graphs compute from equal
    variables.

    States are equal if their initial values are equal, and steps map equal states to equal states.

    scan(lambda a, b: exp(a) * b, [A, A], n_steps=3)[0]  ->  scan(lambda a: exp(a) * a, A, n_steps=3)[0]
    scan(lambda a: [exp(a), exp(a)], A)[0]  ->  scan(exp, A, return_list=True)[0] * 2
    """
    if node.op.destroy_map:
        return False
    args = scan_args.of(node)
    replaced = _same_inputs(args)
    if replaced:
        args.inner_outputs = substitute(args.inner_outputs, replaced)
        for group in ("seqs", "non_seqs"):
            args.keep(group, [v not in replaced for v in getattr(args, "inner_in_" + group)])
    former = dict.fromkeys(args.outer_outputs)
    merged = _same_outputs(args)
    if not replaced and not merged:
        return False
    pairs = output_replacements(args, make_loop(args))
    new = dict(pairs)
    pairs.extend((old, new[kept]) for old, kept in merged.items())
    replacements = {old: var for old, var in pairs if old in former}
    replacements["remove"] = [node]
    return replacements


def _same_inputs(args):
    """Find sequences and non-sequences of a step that are redundant, because their outer inputs are equal.

    Returns
    -------
    dict
        Redundant inner input -> the first inner input of the same type whose outer input is equal.
    """
    replaced = {}
    for group in ("seqs", "non_seqs"):
        first = {}
        for outer, inner in zip(getattr(args, "outer_in_" + group), getattr(args, "inner_in_" + group)):
            kept = first.setdefault(key_of(outer), inner)
            if kept is not inner and kept.type == inner.type:
                replaced[inner] = kept
    return replaced


def _same_outputs(args):
    """Remove states and results that are equal to other states and results.

    Returns
    -------
    dict
        Removed outer output -> the equal outer output that stays.
    """
    states = {group: _candidates(args, group) for group in ("mit_sot", "sit_sot")}
    for rounds_left in range(MAX_ROUNDS, -1, -1):
        numbers = _numbers(args, states)
        finer = {
            group: _classes([(first, numbers[v]) for first, v in zip(classes, getattr(args, "inner_out_" + group))])
            for group, classes in states.items()
        }
        if finer == states:
            break
        # If differences propagate from state to state, each round may find only one more different state. If the last
        # round still finds one, treat all states as different.
        states = finer if rounds_left > 1 else {group: list(range(len(classes))) for group, classes in finer.items()}
    results = _classes([(numbers[v], key_of(rows)) for v, rows in zip(args.inner_out_nit_sot, args.outer_in_nit_sot)])
    merged, replaced = {}, {}
    for group, classes in (*states.items(), ("nit_sot", results)):
        outer = getattr(args, "outer_out_" + group)
        keep = [first == i for i, first in enumerate(classes)]
        for i, first in enumerate(classes):
            if first != i:
                merged[outer[i]] = outer[first]
                if group != "nit_sot":
                    inner = getattr(args, "inner_in_" + group)
                    pairs = zip(inner[i], inner[first]) if group == "mit_sot" else [(inner[i], inner[first])]
                    replaced.update(pairs)
        args.keep(group, keep)
    if replaced:
        args.inner_outputs = substitute(args.inner_outputs, replaced)
    return merged


def _candidates(args, group):
    """Return, for each state, the position of the first state with equal initial values and the same taps."""
    taps = args.mit_sot_in_slices if group == "mit_sot" else [()] * len(args.inner_in_sit_sot)
    inner = getattr(args, "inner_in_" + group)
    types = [[v.type for v in rows] if group == "mit_sot" else [rows.type] for rows in inner]
    outer = getattr(args, "outer_in_" + group)
    return _classes([(key_of(v), tuple(t), tuple(kind)) for v, t, kind in zip(outer, taps, types)])


def _classes(keys):
    """Return, for each key, the position of the first equal key."""
    first = {}
    return [first.setdefault(key, i) for i, key in enumerate(keys)]


def _numbers(args, states):
    """Return a dict from the variables of a step to keys. Variables with equal graphs have equal keys, provided that
    the states of each class in `states` are equal.
    """
    numbers = {}
    for group, classes in states.items():
        inner = getattr(args, "inner_in_" + group)
        for i, first in enumerate(classes):
            for k, v in enumerate(inner[i] if group == "mit_sot" else [inner[i]]):
                numbers[v] = (group, first, k)
    for v in args.inner_inputs:
        numbers.setdefault(v, v)
    nodes = {}
    for node in io_toposort(args.inner_inputs, args.inner_outputs):
        row = (node.op, tuple(numbers[v] if v in numbers else _constant(v) for v in node.inputs))
        place = nodes.setdefault(row, len(nodes))
        for k, out in enumerate(node.outputs):
            numbers[out] = ("node", place, k)
    for v in args.inner_outputs:
        numbers.setdefault(v, _constant(v))
    return numbers


def _constant(v):
    return ("constant", key_of(v))
