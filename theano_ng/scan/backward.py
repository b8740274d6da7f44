"""The loop that computes the gradient of a loop: it runs over the same steps from the last to the first.

The gradient of a state has two parts. The first part comes from the outer graph, row by row, and is a sequence of the
backward loop. The steps that read the state add the second part. For each tap of the state, the backward loop has a
state for this part. The backward loop reads a row of its state after as many steps as the tap reaches back, so it keeps
only this number of rows. If only the last row has a gradient from the outer graph, this gradient is the initial state
of the backward loop, and no sequence is needed. The gradient of a mit_mot state is a mit_mot state of the backward
loop, with the rows in reversed order.

The backward loop does not recompute values that the outer graph has: the states and results of the original loop are
its sequences. Some values are not in the outer graph, and a step cannot recompute them: rows of mit_mot that were
overwritten later, and values that depend on random states. A second node of the original loop returns these values.
Rewriting merges the second node with the first node. Products of states, and functions of such products, are recorded
in the same way if computing them takes longer than keeping them.
"""

from collections import namedtuple

from theano_ng.compile.inner_graph import substitute
from theano_ng.compile.ops import Shape, Shape_i, view_op
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, disconnected_type, grad_undefined, is_absent
from theano_ng.gof.differentiate import grad
from theano_ng.gof.null_type import NullType
from theano_ng.gof.traversal import io_toposort
from theano_ng.scalar import Abs, Add, Cast, Identity, Maximum, Minimum, Mul, Neg, Second, Sqr, Sub, Switch, TrueDiv
from theano_ng.scalar.ops_compare import LogicalComparison
from theano_ng.scan.outer_rows import Rows, has_length, is_filled_by, written_index
from theano_ng.scan.sums import StepSums
from theano_ng.tensor.basic import minimum
from theano_ng.tensor.elemwise.functions import add, cast
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.subtensor import Subtensor, inc_subtensor, set_subtensor
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.shaping.allocation import AllocEmpty
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.reshaping import shape_padleft
from theano_ng.tensor.type import TensorType

__all__ = ["CHEAP", "Backward", "fitting", "is_continuous", "set_bits", "zero_gradient"]


def is_continuous(v):
    """Return True if a variable may have a gradient, that is, if its dtype is real or complex floating point."""
    return str(getattr(v.type, "dtype", None)).startswith(("float", "complex"))


def fitting(v, kind):
    """Convert a variable to the dtype and the broadcast pattern of the type `kind`."""
    if v.type.dtype != kind.dtype:
        v = cast(v, kind.dtype)
    return patternbroadcast(v, kind.broadcastable)


def zero_gradient(v):
    """Return zeros in the shape of a variable, with a dtype that is valid for its gradient."""
    return v.zeros_like(dtype=v.type.dtype if is_continuous(v) else config.floatX)


def _gradient_type(v, term):
    """Return the type of the gradient of `v`. For an integer `v`, use the dtype of the computed gradient `term`."""
    # Types of sparse matrices have no attribute `broadcastable`.
    pattern = getattr(v.type, "broadcastable", (False,) * term.type.ndim)
    return TensorType(v.type.dtype if is_continuous(v) else term.type.dtype, pattern)


def set_bits(mask):
    """Yield the index of each bit that is set in a mask."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Backward:
    """The computation of the gradients of a loop's outer inputs.

    Parameters
    ----------
    op : Scan
    inputs, outputs, gradients : list of Variable
        Outer inputs and outputs, and the gradients with respect to the outputs. The gradients may be of NullType or
        DisconnectedType.
    """

    def __init__(self, op, inputs, outputs, gradients):
        self.op, self.inputs, self.outputs, self.gradients = op, inputs, outputs, gradients
        self.states = op.states()
        self.depends = op.inner_connections()
        self.state_of = {i: state for state in self.states for i in state.inner_inputs}
        self.n_steps = self._executed()
        limit = op.truncate_gradient
        self.truncated = limit >= 0
        self.n_back = minimum(limit, self.n_steps) if self.truncated else self.n_steps

    def _executed(self):
        """Return the number of steps that the loop executed."""
        op = self.op
        if not op.as_while:
            return self.inputs[0]
        if op.n_nit_sot:
            return self.outputs[op.n_states].shape[0]
        if op.n_states > op.n_mit_mot:
            return self.outputs[op.n_mit_mot].shape[0] - self.states[op.n_mit_mot].lead
        return self._recorded(op.inner_until(op.outputs))[0].shape[0]

    def _recorded(self, variables):
        """Return the values that variables of the step have in all steps. A second node of the loop returns the values.

        Parameters
        ----------
        variables : list of Variable

        Returns
        -------
        list of Variable
        """
        if not variables:
            return []
        op = self.op
        for v in variables:
            if not isinstance(v.type, TensorType):
                raise NotImplementedError(
                    "The gradient of the loop %s needs the values of %s, of type %s, in all steps, but these cannot be "
                    "stored in a tensor" % (op.name, v, v.type)
                )
        new, at = op.with_results(variables)
        last = 1 + op.n_seqs + op.n_states + op.n_shared_outs + op.n_nit_sot
        inputs = [*self.inputs[:last], *(self.inputs[0] for _ in variables), *self.inputs[last:]]
        return new(*inputs, return_list=True)[at : at + len(variables)]

    def terms(self):
        """Return the gradients of the outer inputs."""
        self._differentiate()
        self._find_nulls()
        self._find_rows()
        self._plan()
        self._make_loop()
        return self._collect()

    # -- the gradient of a step

    def _inner_outputs(self, outer):
        """Return the numbers of the inner outputs that are written to an outer output."""
        n = self.op.n_states
        return self.states[outer].inner_outputs if outer < n else [self.op.n_results_before + outer - n]

    def _spread(self, inner_outputs):
        """Return the given inner outputs, and all inner outputs on which they depend through states."""
        found = dict.fromkeys(inner_outputs)
        todo, seen = list(found), 0
        while todo:
            new = self.depends[todo.pop()] & ~seen
            seen |= new
            for i in set_bits(new):
                if i in self.state_of:
                    fresh = [o for o in self.state_of[i].inner_outputs if o not in found]
                    found.update(dict.fromkeys(fresh))
                    todo.extend(fresh)
        return list(found)

    def _differentiate(self):
        """Find the gradients of the inner inputs."""
        op = self.op
        live = []
        for i, g in enumerate(self.gradients[: op.n_buffers]):
            if not is_absent(g) and is_continuous(self.outputs[i]):
                live.extend(self._inner_outputs(i))
        live = sorted(o for o in self._spread(live) if is_continuous(op.outputs[o]))
        # The gradients with respect to the outputs of this step. They include the contributions of all later steps.
        self.known = {o: op.outputs[o].type() for o in live}
        reached = 0
        for o in live:
            reached |= self.depends[o]
        # For an integer input that is not a state, use the gradient that `grad` returns for the step. An integer state
        # has no gradient.
        wrt = [
            i
            for i in set_bits(reached)
            if is_continuous(op.inputs[i]) or i not in self.state_of and hasattr(op.inputs[i].type, "dtype")
        ]
        found = grad(
            cost=None,
            # Use view_op, because `grad` treats a known gradient as the whole gradient of its variable. But if an
            # output is also an input, or if other outputs depend on it, its gradient has additional terms.
            known_grads={view_op(op.outputs[o]): g for o, g in self.known.items()},
            wrt=[op.inputs[i] for i in wrt],
            disconnected_inputs="ignore",
            return_disconnected="Disconnected",
            null_gradients="return",
        )
        # Sums over the steps are dense tensors, so convert the gradients of sparse matrices to dense tensors.
        self.inner = {
            i: g.toarray() if hasattr(g, "toarray") else g
            for i, g in zip(wrt, found)
            if not isinstance(g.type, DisconnectedType)
        }

    def _find_nulls(self):
        """Find the inner inputs whose gradients do not exist. `nulls` maps the input indices to NullType variables.

        Variables of the group `shared` have no gradient, because their values during the loop are not kept.
        """
        op = self.op
        behind = {i: state.inner_outputs for i, state in self.state_of.items()}
        shared = [op.inputs.index(v) for v in op.inner_shared(op.inputs)]
        behind.update((i, [op.n_results_before + op.n_nit_sot + k]) for k, i in enumerate(shared))
        self.nulls = {i: g for i, g in self.inner.items() if isinstance(g.type, NullType)}
        for i, value in zip(shared, op.outer_shared(self.inputs)):
            if i in self.inner:
                self.nulls[i] = grad_undefined(
                    op, self.inputs.index(value), value, "Its value changes from step to step."
                )
        todo = []

        def spread(o, g):
            fresh = [i for i in set_bits(self.depends[o]) if i not in self.nulls]
            self.nulls.update(dict.fromkeys(fresh, g))
            todo.extend(fresh)

        for outer, g in enumerate(self.gradients):
            if isinstance(g.type, NullType):
                for o in self._inner_outputs(outer):
                    spread(o, g)
        todo = list(self.nulls)
        while todo:
            # If the gradient with respect to a state does not exist, then the gradients with respect to the inner
            # inputs from which a step computes this state do not exist.
            i = todo.pop()
            for o in behind.get(i, ()):
                spread(o, self.nulls[i])
        for i in self.nulls:
            self.inner.pop(i, None)

    # -- values in the outer graph

    def _find_rows(self):
        """Find the inner variables whose values the outer graph has. Record the other values that are needed."""
        op = self.op
        self.rows = {}
        for v, sequence in zip(op.inner_seqs(op.inputs), op.outer_seqs(self.inputs)):
            self.rows[v] = Rows(sequence, 0, None if has_length(sequence, self.n_steps) else self.n_steps)
        missing = set(op.inner_shared(op.inputs))
        for state, buffer in zip(self.states, self.outputs):
            last = min(state.writes)
            for i, tap in zip(state.inner_inputs, state.taps):
                if tap < last:
                    self._add_rows(op.inputs[i], state, buffer, tap)
                else:
                    missing.add(op.inputs[i])  # a later step overwrites the row: its value may have to be recorded
            for o, tap in zip(state.inner_outputs, state.writes):
                if tap == last and op.outputs[o].owner is not None:
                    self._add_rows(op.outputs[o], state, buffer, tap)
        for o, results in enumerate(self.outputs[op.n_states : op.n_buffers], op.n_results_before):
            if op.outputs[o].owner is not None:
                self.rows.setdefault(op.outputs[o], Rows(results))
        self._find_carries()
        self._classify_variables(missing)
        needed = list(self._needed)
        for v, results in zip(needed, self._recorded(needed)):
            self.rows[v] = Rows(results)

    def _add_rows(self, v, state, buffer, tap):
        first = state.lead + tap
        if state.is_mit_mot:
            rows = Rows(buffer, first, self.n_steps + first if first else self.n_steps)
        else:
            rows = Rows(self._with_initial_rows(state, buffer) if tap < 0 else buffer, first, tap or None)
        self.rows.setdefault(v, rows)

    def _with_initial_rows(self, state, buffer):
        """Return the output buffer of a state, with initial rows that are connected to the initial state.

        If the steps do not depend on the state, the output of the loop is not connected to the initial state. In this
        case, the initial rows are set to the rows of the input.
        """
        if not is_continuous(buffer):
            return buffer
        place = 1 + self.op.n_seqs + state.number
        if self.op.connection_pattern(None)[place][state.number]:
            return buffer
        return set_subtensor(buffer[: state.lead], self.inputs[place][: state.lead])

    def _find_carries(self):
        """Find the gradients that the backward loop passes from step to step: those of states. The gradients of all
        other outputs are sequences.
        """
        n = self.op.n_states
        self.mit_mots = {}  # state -> {tap in the gradient's buffer: variable that is read}
        self.carries = []  # the other states: one _Carry for each tap
        self.whole = {}  # state -> the part of its gradient that includes initial rows, or None
        self.parts = {}  # gradient of an output -> the variables whose sum is this gradient
        for state in self.states:
            if state.inner_outputs[0] not in self.known:
                continue
            if state.is_mit_mot:
                reads = {state.latest - tap: self.known[o] for o, tap in zip(state.inner_outputs, state.writes)}
                for i, tap in zip(state.inner_inputs, state.taps):
                    if i in self.inner and tap not in state.writes:
                        reads[state.latest - tap] = self.op.inputs[i].type()
                self.mit_mots[state] = reads
                continue
            kind = self.op.inputs[state.inner_inputs[0]].type
            carries = [
                _Carry(state, -tap, i, kind()) for i, tap in zip(state.inner_inputs, state.taps) if i in self.inner
            ]
            first = next((c for c in carries if c.reach == 1), None)
            rows, seed, whole = self._split_gradient(state, first is not None)
            direct = []
            if rows is not None:
                direct.append(kind())
                self.rows[direct[0]] = rows
            if seed is not None:
                first.seed = seed
            self.whole[state] = whole
            self.carries.extend(carries)
            self.parts[self.known[state.inner_outputs[0]]] = direct + [c.variable for c in carries]
        for k in range(self.op.n_nit_sot):
            o = self.op.n_results_before + k
            if o in self.known:
                self.rows[self.known[o]] = Rows(self._gradient(n + k))

    def _split_gradient(self, state, may_seed):
        """Split the part of a state's gradient that comes from the outer graph.

        Parameters
        ----------
        state : State
        may_seed : bool
            Whether the gradient of the last row may be returned separately.

        Returns
        -------
        rows : Rows or None
            The gradient of the rows that the steps wrote.
        seed : Variable or None
            The additional gradient of the last row.
        whole : Variable or None
            A variable that contains the gradient of the initial rows.
        """
        out, g = self.outputs[state.number], self.gradients[state.number]
        steps, seeds, whole = [], [], []
        todo = [] if is_absent(g) else [(g, False)]
        while todo:
            v, of_steps = todo.pop()
            node = v.owner
            is_sum = node is not None and isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Add)
            if is_sum and all(i.type.broadcastable == v.type.broadcastable for i in node.inputs):
                todo.extend((i, of_steps) for i in reversed(node.inputs))
                continue
            place = written_index(v)
            if place == -1 and may_seed:
                seeds.append(node.inputs[1])
            elif place == slice(state.lead, None) and not of_steps:
                todo.append((node.inputs[1], True))
            else:
                (steps if of_steps else whole).append(v)
        kind = out.type
        row_type = TensorType(kind.dtype, kind.broadcastable[1:])
        whole = fitting(_sum(whole), kind) if whole else None
        if whole is not None:
            rows = Rows(whole, state.lead)
            if steps:
                rows = Rows(_sum([rows.forward(), *steps]))
        else:
            rows = Rows(fitting(_sum(steps), kind)) if steps else None
        return rows, fitting(_sum(seeds), row_type) if seeds else None, whole

    def _gradient(self, outer):
        """Return the gradient of an outer output, converted to the output's type."""
        out, g = self.outputs[outer], self.gradients[outer]
        return out.zeros_like() if is_absent(g) else fitting(g, out.type)

    def _classify_variables(self, missing):
        """Find the variables of the step that change from step to step, the variables that depend on later steps, and
        the variables that must be recorded.
        """
        op = self.op
        flags = {v: _MOVING for v in [*op.inputs[: len(op.inputs) - op.n_others], *self.rows]}
        flags.update(dict.fromkeys(self.known.values(), _MOVING | _GRADIENT))
        for v in missing:
            flags[v] = _MOVING | _MISSING
        for v in [*self.parts, *(v for reads in self.mit_mots.values() for v in reads.values())]:
            flags[v] = _MOVING | _GRADIENT | _CARRIED
        terms = list(self.inner.values())
        blocked = list(dict.fromkeys([*op.inputs, *flags]))
        self._needed, costly = {}, []
        for v in op.inputs[op.n_seqs : op.n_seqs + op.n_inner_taps]:
            flags[v] |= _STATE
        for node in io_toposort(blocked, terms):
            of_inputs = [flags.get(v, 0) for v in node.inputs]
            found = 0
            for flag in of_inputs:
                found |= flag
            if found & _GRADIENT and found & _MISSING:
                found &= ~_MISSING
                for v, flag in zip(node.inputs, of_inputs):
                    if flag & _MISSING:
                        self._needed[v] = None
            if found & _GRADIENT:
                costly += [v for v, flag in zip(node.inputs, of_inputs) if flag & _PRODUCT and not flag & _GRADIENT]
                found &= ~_PRODUCT
            elif found & _STATE and isinstance(node.op, Dot):
                found |= _PRODUCT
            for v in node.outputs:
                flags.setdefault(v, found)
        for v in terms:
            if flags.get(v, 0) & _MISSING:
                self._needed[v] = None
        self._keep_costly(costly, flags)
        self.moving = {v for v, flag in flags.items() if flag & _MOVING}
        self.carried = {v for v, flag in flags.items() if flag & _CARRIED}

    def _keep_costly(self, variables, flags):
        """Choose more variables to record: the ones from which the given variables are cheap to compute.

        Each chosen variable is a matrix product that depends on a state, or a costly function of such a product.
        """
        seen, todo = set(), list(variables)
        for v in todo:  # the list grows
            if v in seen or v in self.rows or not flags.get(v, 0) & _PRODUCT:
                continue
            seen.add(v)
            op = v.owner.op
            if isinstance(op, (Shape, Shape_i)):
                continue
            if isinstance(op, Elemwise) and isinstance(op.scalar_op, Second):
                todo.append(v.owner.inputs[1])
            elif (
                isinstance(op, (DimShuffle, Subtensor)) or isinstance(op, Elemwise) and isinstance(op.scalar_op, CHEAP)
            ):
                todo.extend(v.owner.inputs)
            elif isinstance(v.type, TensorType):
                self._needed[v] = None

    # -- the backward loop

    def _plan(self):
        """Decide which variables the backward loop has to return."""
        op = self.op
        self.sums = StepSums(self.rows, self.carried, self.moving)
        for i in range(op.n_seqs):
            if i in self.inner:
                self.sums.keep(self.inner[i])
        for i, outer in self._same_in_all_steps():
            if i in self.inner:
                self.sums.plan(self.inner[i], outer)
        self.sums.choose()

    def _same_in_all_steps(self):
        """Return pairs: the index of an inner input that is the same in all steps, and its outer variable."""
        op = self.op
        return list(enumerate(op.outer_non_seqs(self.inputs), len(op.inputs) - op.n_others))

    def _make_loop(self):
        """Make the node of the backward loop."""
        op, sums = self.op, self.sums
        mit_mots = [self._mit_mot_part(state, reads) for state, reads in self.mit_mots.items()]
        mit_sots = [c for c in self.carries if c.reach > 1]
        sit_sots = [c for c in self.carries if c.reach == 1]
        totals = [(v, v.type(), like) for v, like in sums.summed.items()]
        graph = [
            *(v for part in mit_mots for v in part.outs),
            *(fitting(self.inner[c.inner_input], c.variable.type) for c in mit_sots + sit_sots),
            *(so_far + v for v, so_far, _ in totals),
            *sums.kept,
        ]
        # Replace each gradient in `self.parts` by the sum of its parts. Without parts, it is zero.
        output_of = {g: op.outputs[o] for o, g in self.known.items()}
        whole = {g: _sum(parts) if parts else output_of[g].zeros_like() for g, parts in self.parts.items()}
        graph = substitute(graph, {**{v: v for v in [*op.inputs, *self.rows]}, **whole})
        others = dict(zip(op.inner_non_seqs(op.inputs), op.outer_non_seqs(self.inputs)))
        own = [
            *(v for part in mit_mots for v in part.reads),
            *(c.variable for c in mit_sots + sit_sots),
            *(so_far for _, so_far, _ in totals),
        ]
        used = _leaves(graph, [*self.rows, *others])
        seqs = [v for v in self.rows if v in used]
        stand_ins = {v: v.type(v.name) for v in [*seqs, *own, *(v for v in others if v in used)]}
        info = {
            **op.info,
            "n_seqs": len(seqs),
            "n_mit_mot": len(mit_mots),
            "n_mit_mot_outs": sum(len(part.outs) for part in mit_mots),
            "n_mit_sot": len(mit_sots),
            "n_sit_sot": len(sit_sots) + len(totals),
            "n_shared_outs": 0,
            "n_nit_sot": len(sums.kept),
            "tap_array": [part.taps for part in mit_mots]
            + [[-c.reach] for c in mit_sots + sit_sots]
            + [[-1] for _ in totals],
            "mit_mot_out_slices": [part.writes for part in mit_mots],
            "as_while": False,
            "destroy_map": {},
            "name": "grad_of_" + op.name if op.name else None,
        }
        results = []
        if graph:
            results = type(op)(list(stand_ins.values()), substitute(graph, stand_ins), info)(
                self.n_back,
                *(self.rows[v].backward() for v in seqs),
                *(self._gradient_buffer(state) for state in self.mit_mots),
                *(self._carry_buffer(c) for c in mit_sots + sit_sots),
                *(self._buffer(so_far.type, like, 0, 1, 0) for _, so_far, like in totals),
                *(self.n_back for _ in sums.kept),
                *(outer for v, outer in others.items() if v in used),
                return_list=True,
            )
        results = iter(results)
        self.gradient_of = {state: next(results) for state in self.mit_mots}
        for c in mit_sots + sit_sots:
            c.result = next(results)
        self.total_of = {v: next(results)[-1] for v, _, _ in totals}
        self.kept_of = {v: next(results) for v in sums.kept}
        self.fixed_of = dict(zip(sums.fixed, substitute(list(sums.fixed), others)))

    def _mit_mot_part(self, state, reads):
        """Return the taps and the variables of a backward step for the gradient of a mit_mot state."""
        writes = {}
        for i, tap in zip(state.inner_inputs, state.taps):
            if i in self.inner:
                place = state.latest - tap
                term = fitting(self.inner[i], self.op.inputs[i].type)
                # If the step overwrites the row, later steps read only the new value of the row. Then these steps add
                # nothing to the gradient of the old value, so start without `reads[place]`.
                before = writes.get(place, None if tap in state.writes else reads[place])
                writes[place] = term if before is None else before + term
        for o, tap in zip(state.inner_outputs, state.writes):
            writes.setdefault(state.latest - tap, self.op.outputs[o].zeros_like())
        return _MitMotPart(list(reads), list(reads.values()), list(writes), list(writes.values()))

    def _buffer(self, kind, like, skip, lead, initial):
        """Return a buffer for rows of a type, with initial rows.

        Parameters
        ----------
        kind : TensorType
            Type of a row.
        like : Variable
            A variable whose lengths, after its first `skip` dimensions, are the lengths of a row.
        lead : int
            Number of initial rows.
        initial : Variable or number
            Value of the initial rows.
        """
        lengths = [1 if b else Shape_i(skip + d)(like) for d, b in enumerate(kind.broadcastable)]
        rows = patternbroadcast(AllocEmpty(kind.dtype)(self.n_back + lead, *lengths), (False, *kind.broadcastable))
        return set_subtensor(rows[:lead], initial)

    def _carry_buffer(self, carry):
        """Return the buffer of a gradient that is passed from step to step."""
        seed = 0 if carry.seed is None else shape_padleft(carry.seed)
        return self._buffer(
            carry.variable.type, self.inputs[1 + self.op.n_seqs + carry.state.number], 1, carry.reach, seed
        )

    def _gradient_buffer(self, state):
        """Return the rows of the gradient of a mit_mot state. The latest row comes first."""
        return self._gradient(state.number)[: self._length_used(state)][::-1]

    def _length_used(self, state):
        """Return the number of rows of a mit_mot buffer that the loop may read or write."""
        return self.n_steps + (state.lead + state.latest)

    def _all_rows(self, v):
        """Return the values of a variable of the step in all steps, in order of time.

        If the gradient is truncated, return only the values of the last `n_back` steps, the latest value first.
        """
        if v in self.kept_of:
            return self.kept_of[v] if self.truncated else self.kept_of[v][::-1]
        return self.rows[v].backward()[: self.n_back] if self.truncated else self.rows[v].forward()

    # -- the results

    def _collect(self):
        op = self.op
        pattern = op.connection_pattern(None)
        flowing = [not isinstance(g.type, DisconnectedType) for g in self.gradients]
        shared = len(op.inputs) - op.n_others - op.n_shared_outs
        kinds = [
            (None, None),
            *((self._of_sequence, i) for i in range(op.n_seqs)),
            *((self._of_state, state) for state in self.states),
            *((self._of_shared, shared + i) for i in range(op.n_shared_outs)),
            *((None, None) for _ in range(op.n_nit_sot)),
            *((self._of_other, i) for i, _ in self._same_in_all_steps()),
        ]
        terms = []
        for v, (term_of, which), row in zip(self.inputs, kinds, pattern):
            connected = any(a and b for a, b in zip(row, flowing))
            term = term_of(which, v) if connected and term_of is not None else None
            if term is None:
                term = zero_gradient(v) if connected and hasattr(v, "zeros_like") else disconnected_type()
            terms.append(term)
        return terms

    def _of_sequence(self, i, sequence):
        if i in self.nulls:
            return self.nulls[i].type()
        if i not in self.inner:
            return None
        rows = self.sums.rows(self.inner[i], self._all_rows)
        rows = fitting(rows, _gradient_type(sequence, rows))
        if self.truncated:
            return set_subtensor(zero_gradient(sequence)[self.n_steps - self.n_back : self.n_steps], rows[::-1])
        if self.rows[self.op.inputs[i]].last is None:
            return rows
        return set_subtensor(zero_gradient(sequence)[: self.n_steps], rows)

    def _of_state(self, state, buffer):
        null = next((i for i in state.inner_inputs if i in self.nulls), None)
        if null is not None:
            return self.nulls[null].type()
        if state.inner_outputs[0] not in self.known:
            return None
        if state.is_mit_mot:
            rows = self.gradient_of[state][::-1]
            return set_subtensor(self._gradient(state.number)[: self._length_used(state)], rows)
        carries = sorted((c for c in self.carries if c.state is state), key=lambda c: -c.reach)
        whole = self.whole[state]
        if not self.truncated and whole is None and state.lead == 1 == len(carries) and is_filled_by(buffer, 1):
            # Return the whole result, without an extra copy: only the initial row of the buffer was set, so the
            # gradients of its other rows are not used.
            return fitting(carries[0].result[::-1], buffer.type)
        # The last step of the backward loop computed the gradient of the row before step 0. The step before it computed
        # the gradient of the preceding row, and so on.
        rows = None if whole is None else whole[: state.lead]
        for c in carries:
            added = c.result[: -c.reach - 1 : -1]
            if self.truncated:
                # Steps before the truncated range contribute no gradient.
                left_out = minimum(self.n_steps - self.n_back, c.reach)
                added = set_subtensor(added.zeros_like()[left_out:], added[: c.reach - left_out])
            if c.reach == state.lead:
                rows = added if rows is None else rows + added
            else:
                if rows is None:
                    rows = buffer.zeros_like()[: state.lead]
                rows = inc_subtensor(rows[state.lead - c.reach :], added)
        return None if rows is None else set_subtensor(buffer.zeros_like()[: state.lead], rows)

    def _of_shared(self, i, value):
        return (
            self.nulls[i].type()
            if i in self.nulls
            else grad_undefined(self.op, self.inputs.index(value), value, "Its value changes from step to step.")
        )

    def _of_other(self, i, value):
        if i in self.nulls:
            return self.nulls[i].type()
        if i not in self.inner:
            return None
        total = self.sums.total(self.inner[i], self.n_back, self._all_rows, self.fixed_of, self.total_of)
        return fitting(total, _gradient_type(value, total))


class _Carry:
    """The part of a state's gradient that is added by the steps that read the state through one tap.

    Attributes
    ----------
    state : State
    reach : int
        Number of steps that the tap reaches back.
    inner_input : int
        The index of the inner input that the tap provides.
    variable : Variable
        The variable for this part in a step of the backward loop.
    seed : Variable or None
        The value before the first step of the backward loop. None means zeros.
    result : Variable
        The buffer after the backward loop.
    """

    def __init__(self, state, reach, inner_input, variable):
        self.state, self.reach, self.inner_input, self.variable = state, reach, inner_input, variable
        self.seed = self.result = None


_MitMotPart = namedtuple("_MitMotPart", "taps reads writes outs")
"""The taps of a mit_mot state's gradient that are read and written, and the variables for them."""

_MOVING, _GRADIENT, _CARRIED, _MISSING, _STATE, _PRODUCT = 1, 2, 4, 8, 16, 32

# Scalar Ops that take no longer than reading and writing their results.
CHEAP = (Abs, Add, Cast, Identity, LogicalComparison, Maximum, Minimum, Mul, Neg, Sqr, Sub, Switch, TrueDiv)


def _sum(variables):
    return variables[0] if len(variables) == 1 else add(*variables)


def _leaves(outputs, leaves):
    """Return the members of `leaves` that the outputs depend on. The graph behind a member is not searched."""
    leaves = set(leaves)
    found, seen, todo = set(), set(), list(outputs)
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        if v in leaves:
            found.add(v)
        elif v.owner is not None:
            todo.extend(v.owner.inputs)
    return found
