"""Rules that move computations at the end of a step to after the loop, where they are done for all steps together. If
each step only adds terms to a state, the rules replace the state by a sum over all steps.

The rules matter most for gradients. The derivative with respect to a matrix of weights is a sum over the steps of
products of two matrices. This sum is one product of two long matrices.
"""

from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.rewriting import copy_stack_trace
from theano_ng.scan.args import scan_args
from theano_ng.scan.opt.common import LoopOptimizer, Step, constant_int, make_loop, output_replacements, same_int
from theano_ng.scan.opt.outer_graph import OuterGraph, has_all_rows, initial_row
from theano_ng.scan.opt.reads import reads
from theano_ng.scan.opt.stacking import flattened
from theano_ng.scan.opt.unused import leave_out_unused_inputs
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.basic import add, dot, gt, reshape
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.shaping.broadcasting import patternbroadcast

MAX_ROUNDS = 8
"""The maximum number of rounds in which the set of moved variables is chosen. If more rounds are needed, the loop is
not changed.
"""


class Accumulator:
    """A state to which each step adds terms, and of which only the last row is read.

    Attributes
    ----------
    place : int
        Position in the group sit_sot.
    terms : list of Variable
        Variables that a step adds.
    readers : list of Variable
        Variables of the outer graph that are the last row.
    any_steps : bool
        Whether the last row can be read after a loop without steps.
    """

    def __init__(self, place, terms, readers, any_steps):
        self.place, self.terms, self.readers, self.any_steps = place, terms, readers, any_steps


def accumulators(args, step):
    """Return the accumulators of a loop."""
    found = []
    for i, (inner, out) in enumerate(zip(args.inner_in_sit_sot, args.inner_out_sit_sot)):
        node = out.owner
        if node is None or node.op != add or node.inputs.count(inner) != 1 or step.clients[inner] != [node]:
            continue
        terms = [v for v in node.inputs if v is not inner]
        if step.clients[out] != [None] or any(v.type != inner.type for v in [out, *terms]):
            continue
        outer = args.outer_out_sit_sot[i]
        if not has_all_rows(args.outer_in_sit_sot[i], 1, args.n_steps):
            continue
        found_reads = reads(outer)
        if all(r.node is not None and r.last == 1 and r.skipped in (None, 1) and _is_row(r.node) for r in found_reads):
            found.append(
                Accumulator(
                    i, terms, [r.node.outputs[0] for r in found_reads], all(r.skipped is None for r in found_reads)
                )
            )
    return found


def _is_row(node):
    """Return True if a Subtensor node takes one whole row."""
    return len(node.op.idx_list) == 1 and not isinstance(node.op.idx_list[0], slice)


def product_of(v):
    """Return the node of the product that computes a variable, or None. Views that change nothing are skipped."""
    while v.owner is not None and isinstance(v.owner.op, DimShuffle) and v.owner.op.new_order == tuple(range(v.ndim)):
        v = v.owner.inputs[0]
    return v.owner if v.owner is not None and isinstance(v.owner.op, Dot) else None


class PushOutScanOutput(LoopOptimizer):
    """An optimizer that moves computations at the end of a step, and sums over the steps, to after the loop, where they
    are done for all steps together.

    If the loop then has to return an additional variable of each step, only products of matrices are moved.

    scan(lambda row, h: [h + row, dot(h, W)], A, [v, None])[0][1]  ->
        dot(scan(lambda row, h: h + row, A, v)[0].owner.inputs[0][:-1], W)
    """

    more_results = True

    def process_node(self, fgraph, node):
        args = scan_args.of(node)
        if args.as_while:
            return
        plan = PostLoopPlan(args, self.more_results)
        if plan.results or plan.sums:
            fgraph.replace_all_validate_remove(plan.replacements(fgraph), remove=[node], reason=self.name)


class PushOutDot1(PushOutScanOutput):
    """An optimizer that replaces a loop which adds up products of outer variables by one product of longer matrices.

    scan(lambda a, s: s + T.outer(a, a), A, C)[0].owner.inputs[0][-1]  ->  C + dot(A.T, A)
    """

    more_results = False


class PostLoopPlan:
    """The computations of a loop that can be done after the loop.

    Parameters
    ----------
    args : scan_args
    more_results : bool
        If True, the loop may return additional results. If False, only sums of products are considered.

    Attributes
    ----------
    results : list of int
        Results that are computed after the loop: positions in the group nit_sot.
    sums : list of Accumulator
        States that are replaced by sums after the loop.
    needed : dict of Variable
        Additional variables that the loop has to return.
    """

    def __init__(self, args, more_results):
        self.args, self.more_results = args, more_results
        self.step = Step(args)
        self.outside = OuterGraph(args)
        self.leads = {}  # inner variable -> (group, place, lead, index of its row in the buffer at step 0)
        self.full = [same_int(rows, args.n_steps) for rows in args.outer_in_nit_sot]
        self.sums = accumulators(args, self.step)
        self.results = []
        if more_results:
            self.results = [
                i for i, v in enumerate(args.inner_out_nit_sot) if self.full[i] and args.outer_out_nit_sot[i].clients
            ]
        else:
            self.sums = [total for total in self.sums if all(map(product_of, total.terms))]
        if not self.results and not self.sums:
            return
        for inner in self.step.nodes:
            if self.step.is_movable(inner) and not fails_on_values(inner):
                self.outside.record_if_invariant(inner) or self.outside.record_if_stackable(inner)
        for group, i, lead, inputs, taps, outputs in args.states():
            if group == "mit_mot" or not has_all_rows(getattr(args, "outer_in_" + group)[i], lead, args.n_steps):
                continue
            self.leads.setdefault(outputs[0], (group, i, lead, lead))
            self.leads.update((v, (group, i, lead, lead + tap)) for v, tap in zip(inputs, taps))
        self._choose()

    # -- the choice of variables to move

    def _choose(self):
        """Remove candidates that are not worthwhile, until the remaining candidates are consistent."""
        every, self.needed = self.sums, {}
        for _ in range(MAX_ROUNDS):
            self._find_ends()
            results, sums, self.needed = [], [], {}
            # Choose products first, because other candidates can use the results that the loop returns for products.
            self._choose_from(results, sums, True)
            self._choose_from(results, sums, False)
            if len(results) < len(self.results):
                # The loop still returns the removed candidates as results. Sums can be computed from these results, so
                # consider every sum again.
                self.results, self.sums = sorted(results), every
            elif len(sums) < len(self.sums):
                self.sums = sums
            else:
                return
        self.results, self.sums, self.needed = [], [], {}

    def _choose_from(self, results, sums, products):
        for total in self.sums:
            if total not in sums:
                cone = self._cone([p for v in total.terms for p in self._operands(v)])
                if self._is_worth_it(cone, products, all(map(product_of, total.terms))):
                    sums.append(total)
        for i in self.results:
            if i not in results:
                v = self.args.inner_out_nit_sot[i]
                if v not in self.ends and not self._has_rows(v):
                    continue
                cone = self._cone([v])
                if self._is_worth_it(cone, products, any(isinstance(node.op, Dot) for node in cone[0])):
                    results.append(i)

    def _is_worth_it(self, cone, products, has_product):
        missing = [v for v in cone[1] if v not in self.needed]
        if products:
            if not has_product or missing and not self.more_results:
                return False
            self.needed.update(dict.fromkeys(missing))
            return True
        return not missing and (self.more_results or has_product)

    def _find_ends(self):
        """Find the variables that only moved computations read, so that the loop itself does not need them."""
        args, clients = self.args, self.step.clients
        kept = {v for i, v in enumerate(args.inner_out_nit_sot) if i not in set(self.results)}
        kept.update(v for taps in args.inner_out_mit_mot for v in taps)
        totals = {args.inner_out_sit_sot[total.place] for total in self.sums}
        kept.update(v for v in args.inner_out_sit_sot if v not in totals)
        kept.update(args.inner_out_mit_sot + args.inner_out_shared + args.cond)
        sums = {v.owner for v in totals}
        products = {product_of(v) for total in self.sums for v in total.terms}
        self.ends = set()
        for node in reversed(self.step.nodes):
            v = node.outputs[0]
            if v in kept or len(node.outputs) > 1 or node in sums or not self.step.is_movable(node):
                continue
            if not all(
                client is None or client in sums or client.outputs[0] in self.ends for client in clients.get(v, ())
            ):
                continue
            # A product that the loop sums up needs no plan, because the sum is computed without the products.
            if node in products or self.outside.plan(node) is not None:
                self.ends.add(v)

    def _has_rows(self, v):
        """Return True if the outer graph has, or will have, the rows of a variable."""
        return self.outside.knows(v) or v in self.leads or self._kept_result(v) is not None

    def _kept_result(self, v):
        for i, out in enumerate(self.args.inner_out_nit_sot):
            if out is v and self.full[i] and i not in self.results:
                return i
        return None

    def _operands(self, v):
        """Return the variables that must be known for the sum of a variable over all steps."""
        node = product_of(v)
        return [v] if node is None or self._has_rows(v) else node.inputs

    def _cone(self, roots):
        """Return the nodes that compute `roots` after the loop, and the variables that the loop must return."""
        nodes, missing, seen, todo = {}, {}, set(), list(roots)
        while todo:
            v = todo.pop()
            if v in seen or self._has_rows(v):
                continue
            seen.add(v)
            if v in self.ends and self.outside.plan(v.owner) is not None:
                nodes[v.owner] = None
                todo.extend(v.owner.inputs)
            else:
                missing[v] = None
        return nodes, missing

    # -- moving them

    def replacements(self, fgraph):
        """Return pairs of an old outer variable and its replacement, including those for the outputs of the loop."""
        args, outside = self.args, self.outside
        sums = [(total, args.outer_in_sit_sot[total.place]) for total in self.sums]
        results = [(args.inner_out_nit_sot[i], args.outer_out_nit_sot[i]) for i in self.results]
        places = {v: i for i, v in enumerate(args.inner_out_nit_sot) if self.full[i] and i not in set(self.results)}
        args.keep("nit_sot", [i not in set(self.results) for i in range(len(args.inner_out_nit_sot))])
        kept = [i for i in range(len(self.full)) if i not in set(self.results)]
        places = {v: kept.index(i) for v, i in places.items()}
        for v in self.needed:
            places[v] = len(args.inner_out_nit_sot)
            args.add("nit_sot", args.n_steps, v, None)
        totals = {total.place for total, _ in sums}
        remaining = [i for i in range(len(args.inner_in_sit_sot)) if i not in totals]
        args.keep("sit_sot", [i not in totals for i in range(len(args.inner_in_sit_sot))])
        leave_out_unused_inputs(args)
        outputs = make_loop(args) if args.outer_outputs else []
        pairs = output_replacements(args, outputs)
        n_mit_mot, n_mit_sot = len(args.outer_in_mit_mot), len(args.outer_in_mit_sot)
        first_result = n_mit_mot + n_mit_sot + len(remaining)
        for v, (group, i, lead, first) in self.leads.items():
            if group == "sit_sot" and i in totals or outside.knows(v):
                continue
            out = outputs[n_mit_mot + (i if group == "mit_sot" else n_mit_sot + remaining.index(i))]
            # out[start:stop] contains the values of `v` in all steps. No step reads the rows after `stop` as `v`.
            outside.defer(v, lambda out=out, start=first or None, stop=first - lead or None: out[start:stop])
        for v, i in places.items():
            if not outside.knows(v):
                outside.defer(v, lambda i=i: outputs[first_result + i])
        # Record the variables in `ends`, whose inputs are known now. Leave out products that are only summed up.
        terms = {v for total, _ in sums for v in total.terms}
        for node in self.step.nodes:
            if node.outputs[0] in self.ends and not (node.outputs[0] in terms and product_of(node.outputs[0])):
                outside.record_if_stackable(node)
        for v, old in results:
            value = outside.checked(outside.rows_of(v), fgraph)
            pairs.append((old, patternbroadcast(value, old.broadcastable)))
        for total, buffer in sums:
            value = outside.checked(self._total(total, buffer), fgraph)
            pairs.extend((reader, patternbroadcast(value, reader.broadcastable)) for reader in total.readers)
        for old, new in pairs:
            copy_stack_trace(old, new)
        return pairs

    def _total(self, total, buffer):
        value = add(initial_row(buffer), *(self._sum(v) for v in total.terms))
        if not total.any_steps and (constant_int(self.args.n_steps) or 0) < 1:
            value = Assert("The last state of a loop is read, but it does not exist: the loop has no steps")(
                value, gt(self.args.n_steps, 0)
            )
        return value

    def _sum(self, v):
        """Return the sum of a variable over all steps."""
        node = product_of(v)
        if node is None or v in self.outside.rows:
            return self.outside.rows_of(v).sum(axis=0, dtype=v.dtype)
        left, right = node.inputs
        if left in self.outside.rows and right in self.outside.rows:
            n_steps = self.outside.n_steps
            return dot(
                _side_by_side(self.outside.of(left), n_steps), _one_below_another(self.outside.of(right), n_steps)
            )
        operands = [
            self.outside.of(i).sum(axis=0, dtype=i.dtype) if i in self.outside.rows else self.outside.of(i)
            for i in node.inputs
        ]
        return dot(*operands)


def _side_by_side(rows, n_steps):
    """Concatenate the first factors of a sum of products. Vectors are joined end to end, matrices side by side."""
    if rows.ndim == 2:
        return rows.flatten()
    order, source = _shuffled(rows)
    if order == (0, 2, 1):
        return flattened(source, n_steps).T
    if order == (0, 1, "x"):
        return source.T
    return reshape(rows.dimshuffle(1, 0, 2), (rows.shape[1], n_steps * rows.shape[2]), ndim=2)


def _one_below_another(rows, n_steps):
    """Concatenate the second factors of a sum of products.

    Vectors are joined end to end, matrices one below another.
    """
    if rows.ndim == 2:
        return rows.flatten()
    order, source = _shuffled(rows)
    return source if order == (0, "x", 1) else flattened(rows, n_steps)


def _shuffled(v):
    """Return the order and the input of the DimShuffle that computes a variable. If another Op computes the variable,
    return None and the variable itself.
    """
    if v.owner is not None and isinstance(v.owner.op, DimShuffle):
        return v.owner.op.new_order, v.owner.inputs[0]
    return None, v
