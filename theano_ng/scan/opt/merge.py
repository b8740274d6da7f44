"""Loops over the same steps become one loop; equal inputs and outputs of a loop become one."""

from theano_ng.compile.inner_graph import substitute
from theano_ng.gof.graph import Constant, ancestors, io_toposort
from theano_ng.gof.rewriting import Optimizer, local_optimizer
from theano_ng.gof.rewriting.base import attach_replace_validate
from theano_ng.scan.args import scan_args
from theano_ng.scan.op import Scan
from theano_ng.scan.opt.common import made, same_places

MOST_ROUNDS = 4
"""How often the states of a loop are compared anew."""


def key_of(v):
    """What equal outer variables have in common: the variable, or the value of a constant."""
    return v.merge_signature() if isinstance(v, Constant) else v


class ScanMerge(Optimizer):
    """Loops of as many steps, none of which needs what the other computes, become one.

    Loops with a condition do if the condition is the same: it computes the same of the same sequences and non-sequences. Two loops where one comes
    later than a third one that the other does not need stay apart, so that no order of merging makes a circle.

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
                # Merging the loops before may have replaced inputs of these.
                fgraph.replace_all_validate_remove(self.merge(found), remove=found, reason=self.name)

    def belongs_to_set(self, node, set_nodes):
        """Return True if a loop can become one with others.

        Parameters
        ----------
        node : Apply
            The node of a loop.
        set_nodes : list of Apply
            Loops that can become one.
        """
        one, other = [_needed_for_one_loop(n.op, scan_args.of(n)) for n in (node, set_nodes[0])]
        results = {v for n in set_nodes for v in n.outputs}
        return (
            one == other
            and results.isdisjoint(ancestors(node.inputs))
            and not any(set(node.outputs) & set(ancestors(n.inputs)) for n in set_nodes)
        )

    def merge(self, nodes):
        """Make one loop of several that belong together.

        Parameters
        ----------
        nodes : list of Apply

        Returns
        -------
        list of (Variable, Variable)
            An outer output of a former loop, and its replacement.
        """
        args, *others = _with_own_variables(nodes)
        for other in others:
            args.merge(other)
        names = [node.op.name for node in nodes]
        if all(names):
            args.other_info["name"] = "&".join(names)
        return same_places(args, made(args))


def _with_own_variables(nodes):
    """The `scan_args` of each; copies of a loop share the variables of their steps, and steps that become one must not."""
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
    """Pairs of a loop and how many others it comes after: the most on any way to it."""
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
    """What two loops must have in common to become one."""
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
    """What equal conditions have in common: the graph, with outer variables in the place of the inner ones."""
    if not args.cond:
        return None
    numbers = {inner: (0, key_of(outer)) for inner, outer in zip(args.inner_in_seqs, args.outer_in_seqs)}
    numbers.update((inner, (1, key_of(outer))) for inner, outer in zip(args.inner_in_non_seqs, args.outer_in_non_seqs))
    parts = []
    for node in io_toposort(args.inner_inputs, args.cond):
        # A state is that of its loop.
        row = [numbers.get(v, key_of(v)) for v in node.inputs]
        parts.append((node.op, tuple(row)))
        for k, out in enumerate(node.outputs):
            numbers[out] = (2, len(parts), k)
    return tuple(parts), numbers.get(args.cond[0], key_of(args.cond[0]))


@local_optimizer([Scan])
def scan_merge_inouts(node):
    """Equal sequences and non-sequences of a loop become one; so do results and states that are computed by equal graphs from equal variables.

    States are equal if they begin equal, and if the steps make the same of them when they are.

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
    pairs = same_places(args, made(args))
    new = dict(pairs)
    pairs.extend((old, new[kept]) for old, kept in merged.items())
    replacements = {old: var for old, var in pairs if old in former}
    replacements["remove"] = [node]
    return replacements


def _same_inputs(args):
    """Inner variables -> the one that stands for an equal outer variable."""
    replaced = {}
    for group in ("seqs", "non_seqs"):
        first = {}
        for outer, inner in zip(getattr(args, "outer_in_" + group), getattr(args, "inner_in_" + group)):
            kept = first.setdefault(key_of(outer), inner)
            if kept is not inner and kept.type == inner.type:
                replaced[inner] = kept
    return replaced


def _same_outputs(args):
    """Leave out outputs that are equal to others.

    Returns
    -------
    dict
        Outer output -> the equal one that stays.
    """
    states = {group: _candidates(args, group) for group in ("mit_sot", "sit_sot")}
    for rounds_left in range(MOST_ROUNDS, -1, -1):
        numbers = _numbers(args, states)
        finer = {
            group: _classes([(first, numbers[v]) for first, v in zip(classes, getattr(args, "inner_out_" + group))])
            for group, classes in states.items()
        }
        if finer == states:
            break
        # Where differences go from state to state, each takes a round to be found out: then all are taken for different.
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
    """For each state the first one that begins equal and has the same taps."""
    taps = args.mit_sot_in_slices if group == "mit_sot" else [()] * len(args.inner_in_sit_sot)
    inner = getattr(args, "inner_in_" + group)
    types = [[v.type for v in rows] if group == "mit_sot" else [rows.type] for rows in inner]
    outer = getattr(args, "outer_in_" + group)
    return _classes([(key_of(v), tuple(t), tuple(kind)) for v, t, kind in zip(outer, taps, types)])


def _classes(keys):
    """For each key the place of the first equal one."""
    first = {}
    return [first.setdefault(key, i) for i, key in enumerate(keys)]


def _numbers(args, states):
    """Variables of a step -> keys, equal ones for equal graphs, if the states of a class are equal."""
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
