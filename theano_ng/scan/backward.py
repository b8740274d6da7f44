"""The loop that computes the gradient of a loop: it runs over the same steps from the last one to the first.

The gradients of states are buffers of mit_mot, with the rows turned round. A step finds the gradient of what it wrote in the row of its
output, and adds to the rows that it read. A state that is read one step later has the taps [0, 1], and [1] is written.

What the steps computed is not computed again where the outer graph has it: states and results are sequences of this loop. What nobody kept
and no step can compute again (rows of mit_mot that were overwritten later, what depends on random states) a second node of the loop hands
out; it becomes one with the first when graphs are rewritten.
"""

from theano_ng.compile.inner_graph import substitute
from theano_ng.compile.ops import Shape, view_op
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, disconnected_type, grad_undefined, is_absent
from theano_ng.gof.differentiate import grad
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.null_type import NullType
from theano_ng.gof.traversal import io_toposort
from theano_ng.scalar import Add
from theano_ng.scan.sums import StepSums
from theano_ng.tensor.basic import minimum
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import Subtensor, set_subtensor
from theano_ng.tensor.shaping.allocation import alloc
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor
from theano_ng.tensor.type import TensorType

__all__ = ["Backward", "fitting", "is_continuous", "set_bits", "zero_gradient"]


def is_continuous(v):
    """Whether a variable may have a gradient."""
    return str(getattr(v.type, "dtype", None)).startswith(("float", "complex"))


def fitting(v, kind):
    """A variable with the dtype and the broadcastable dimensions of a type."""
    if v.type.dtype != kind.dtype:
        v = cast(v, kind.dtype)
    return patternbroadcast(v, kind.broadcastable)


def zero_gradient(v):
    """Zeros that a variable may have as its gradient."""
    return v.zeros_like(dtype=v.type.dtype if is_continuous(v) else config.floatX)


def set_bits(mask):
    """The numbers of the bits of a mask."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Rows:
    """Where the outer graph has all values of a variable of the step: in rows `first` to `last` of another one.

    `last` counts from the end (None: to the end), or is a variable.
    """

    def __init__(self, source, first=0, last=None):
        self.source, self.first, self.last = source, first, last

    def forward(self):
        """In order of time."""
        return self.source if not self.first and self.last is None else self.source[self.first : self.last]

    def backward(self):
        """The latest one first."""
        if isinstance(self.last, Variable):
            return self.forward()[::-1]
        return self.source[None if self.last is None else self.last - 1 : self.first - 1 if self.first else None : -1]


class Backward:
    """The gradients of the outer inputs of a loop.

    Parameters
    ----------
    op : Scan
    inputs, outputs, gradients : list of Variable
        Outer inputs and outputs, and the gradients of these, possibly of NullType or DisconnectedType.
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
        """How many steps the loop did."""
        op = self.op
        if not op.as_while:
            return self.inputs[0]
        if op.n_nit_sot:
            return self.outputs[op.n_states].shape[0]
        if op.n_states > op.n_mit_mot:
            return self.outputs[op.n_mit_mot].shape[0] - self.states[op.n_mit_mot].lead
        return self._recorded(op.inner_until(op.outputs))[0].shape[0]

    def _recorded(self, variables):
        """All values of variables of the step, from another node of the loop.

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
                    "The gradient of the loop %s needs the values that %s, of type %s, had in all steps, and these cannot be kept in a tensor"
                    % (op.name, v, v.type)
                )
        new, at = op.with_results(variables)
        last = 1 + op.n_seqs + op.n_states + op.n_shared_outs + op.n_nit_sot
        inputs = [*self.inputs[:last], *(self.inputs[0] for _ in variables), *self.inputs[last:]]
        return new(*inputs, return_list=True)[at : at + len(variables)]

    def terms(self):
        """The gradients of the outer inputs."""
        self._differentiate()
        self._find_nulls()
        self._find_rows()
        self._plan()
        self._make_loop()
        return self._collect()

    # -- the gradient of a step

    def _inner_outputs(self, outer):
        """The numbers of the inner outputs that an outer one consists of."""
        n = self.op.n_states
        return self.states[outer].inner_outputs if outer < n else [self.op.n_results_before + outer - n]

    def _spread(self, inner_outputs):
        """The inner outputs that the given ones depend on by way of states, and themselves."""
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
        for i, g in enumerate(self.gradients[: op.n_outs]):
            if not is_absent(g) and is_continuous(self.outputs[i]):
                live.extend(self._inner_outputs(i))
        live = sorted(o for o in self._spread(live) if is_continuous(op.outputs[o]))
        # The gradients of the outputs of this step, by way of all later ones too.
        self.known = {o: op.outputs[o].type() for o in live}
        reached = 0
        for o in live:
            reached |= self.depends[o]
        wrt = [i for i in set_bits(reached) if is_continuous(op.inputs[i])]
        found = grad(
            cost=None,
            # A known gradient is all of its variable's: an output that others depend on, or that is an input, gets more.
            known_grads={view_op(op.outputs[o]): g for o, g in self.known.items()},
            wrt=[op.inputs[i] for i in wrt],
            disconnected_inputs="ignore",
            return_disconnected="Disconnected",
            null_gradients="return",
        )
        self.inner = {i: g for i, g in zip(wrt, found) if not isinstance(g.type, DisconnectedType)}

    def _find_nulls(self):
        """Find the inner inputs whose gradients do not exist: number -> variable of NullType."""
        self.nulls = {i: g for i, g in self.inner.items() if isinstance(g.type, NullType)}
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
            # The gradient of a state that does not exist is that of what earlier steps made.
            i = todo.pop()
            for o in self.state_of[i].inner_outputs if i in self.state_of else ():
                spread(o, self.nulls[i])
        for i in self.nulls:
            self.inner.pop(i, None)

    # -- what the outer graph has

    def _find_rows(self):
        """Find where the outer graph has the values of variables of the step, and let it have those that are needed besides."""
        op = self.op
        self.rows = {}
        for v, sequence in zip(op.inner_seqs(op.inputs), op.outer_seqs(self.inputs)):
            self.rows[v] = _Rows(sequence, 0, None if has_length(sequence, self.n_steps) else self.n_steps)
        missing = set(op.inner_shared(op.inputs))
        for state, buffer in zip(self.states, self.outputs):
            last = min(state.writes)
            for i, tap in zip(state.inner_inputs, state.taps):
                if tap < last:
                    self._add_rows(op.inputs[i], state, buffer, tap)
                else:
                    missing.add(op.inputs[i])  # overwritten by a later step
            for o, tap in zip(state.inner_outputs, state.writes):
                if tap == last and op.outputs[o].owner is not None:
                    self._add_rows(op.outputs[o], state, buffer, tap)
        for o, results in enumerate(self.outputs[op.n_states : op.n_outs], op.n_results_before):
            if op.outputs[o].owner is not None:
                self.rows.setdefault(op.outputs[o], _Rows(results))
        self._find_carries()
        self._look_at_graph(missing)
        needed = list(self._needed)
        for v, results in zip(needed, self._recorded(needed)):
            self.rows[v] = _Rows(results)

    def _add_rows(self, v, state, buffer, tap):
        first = state.lead + tap
        if state.is_mit_mot:
            rows = _Rows(buffer, first, self.n_steps + first if first else self.n_steps)
        else:
            rows = _Rows(buffer, first, tap or None)
        self.rows.setdefault(v, rows)

    def _find_carries(self):
        """Find which gradients of states go from step to step; those of other outputs are sequences."""
        self.carries = {}  # state -> {tap of the buffer of the gradient: variable that is read}
        for state in self.states:
            if state.inner_outputs[0] not in self.known:
                continue
            flows = [i for i in state.inner_inputs if i in self.inner]
            gs = [self.known[o] for o in state.inner_outputs]
            if not flows and not state.is_mit_mot:
                self.rows[gs[0]] = _Rows(self._gradient(state.number), state.lead)
                continue
            reads = {state.latest - tap: v for tap, v in zip(state.writes, gs)}
            for i, tap in zip(state.inner_inputs, state.taps):
                if i in self.inner and tap not in state.writes:
                    reads[state.latest - tap] = self.op.inputs[i].type()
            self.carries[state] = reads
        n = self.op.n_states
        for k in range(self.op.n_nit_sot):
            o = self.op.n_results_before + k
            if o in self.known:
                self.rows[self.known[o]] = _Rows(self._gradient(n + k))

    def _gradient(self, outer):
        """The gradient of an outer output, with its type."""
        out, g = self.outputs[outer], self.gradients[outer]
        return out.zeros_like() if is_absent(g) else fitting(g, out.type)

    def _look_at_graph(self, missing):
        """Find which variables of the step change from step to step, depend on later ones, or have to be recorded."""
        op = self.op
        flags = {v: _MOVING for v in [*op.inputs[: len(op.inputs) - op.n_others], *self.rows]}
        flags.update(dict.fromkeys(self.known.values(), _MOVING | _GRADIENT))
        for v in missing:
            flags[v] = _MOVING | _MISSING
        for reads in self.carries.values():
            for v in reads.values():
                flags[v] = _MOVING | _GRADIENT | _CARRIED
        terms = list(self.inner.values())
        blocked = list(dict.fromkeys([*op.inputs, *flags]))
        self._needed = {}
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
            for v in node.outputs:
                flags.setdefault(v, found)
        for v in terms:
            if flags.get(v, 0) & _MISSING:
                self._needed[v] = None
        self.moving = {v for v, flag in flags.items() if flag & _MOVING}
        self.carried = {v for v, flag in flags.items() if flag & _CARRIED}

    # -- the backward loop

    def _plan(self):
        """Say what the backward loop has to hand out."""
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
        """The numbers of the inner inputs that have the same value in all steps, and the outer variables."""
        op = self.op
        return list(enumerate(op.outer_non_seqs(self.inputs), len(op.inputs) - op.n_others))

    def _make_loop(self):
        op, sums = self.op, self.sums
        buffers, buffer_reads, taps, out_taps, outs = [], [], [], [], []
        self.buffers = {}  # state -> number of its buffer
        for state, reads in self.carries.items():
            writes = {}
            for i, tap in zip(state.inner_inputs, state.taps):
                place = state.latest - tap
                if i in self.inner:
                    term = fitting(self.inner[i], op.inputs[i].type)
                    if place in writes:
                        writes[place] = writes[place] + term
                    else:
                        writes[place] = term if tap in state.writes else reads[place] + term
            if state.is_mit_mot:
                # What a step overwrites has no gradient before, unless it was read.
                for o, tap in zip(state.inner_outputs, state.writes):
                    writes.setdefault(state.latest - tap, op.outputs[o].zeros_like())
            self.buffers[state] = len(buffers)
            buffers.append(self._gradient_buffer(state))
            taps.append(list(reads))
            buffer_reads.extend(reads.values())
            out_taps.append(list(writes))
            outs.extend(writes.values())
        totals = [(v, v.type(), like) for v, like in sums.summed.items()]
        graph = [*outs, *(so_far + fitting(v, so_far.type) for v, so_far, _ in totals), *sums.kept]
        others = [v for v, _ in zip(op.inner_non_seqs(op.inputs), range(op.n_others))]
        own = [*buffer_reads, *(so_far for _, so_far, _ in totals)]
        used = _leaves(graph, [*self.rows, *own, *op.inputs])
        seqs = [v for v in self.rows if v in used]
        others = [(v, outer) for v, outer in zip(others, op.outer_non_seqs(self.inputs)) if v in used]
        stand_ins = {v: v.type(v.name) for v in [*seqs, *own, *(v for v, _ in others)]}
        outer = [self._backward_rows(v) for v in seqs]
        outer += buffers
        for v, so_far, like in totals:
            lengths = [1 if b else like.shape[d] for d, b in enumerate(so_far.type.broadcastable)]
            zero = constant(0, dtype=so_far.type.dtype)
            outer.append(fitting(alloc(zero, self.n_back + 1, *lengths), _stack_type(so_far.type)))
        outer += [self.n_back for _ in sums.kept]
        outer += [v for _, v in others]
        self.results, self.total_of, self.kept_of = [], {}, {}
        if graph:
            info = {
                **op.info,
                "n_seqs": len(seqs),
                "n_mit_mot": len(buffers),
                "n_mit_mot_outs": len(outs),
                "n_mit_sot": 0,
                "n_sit_sot": len(totals),
                "n_shared_outs": 0,
                "n_nit_sot": len(sums.kept),
                "tap_array": taps + [[-1] for _ in totals],
                "mit_mot_out_slices": out_taps,
                "as_while": False,
                "destroy_map": {},
                "name": "grad_of_" + op.name if op.name else None,
            }
            step = type(op)(
                list(stand_ins.values()), substitute(graph, {**{v: v for v in op.inputs}, **stand_ins}), info
            )
            self.results = step(self.n_back, *outer, return_list=True)
        rest = self.results[len(buffers) :]
        self.total_of = {v: total[-1] for (v, _, _), total in zip(totals, rest)}
        self.kept_of = dict(zip(sums.kept, rest[len(totals) :]))
        self.fixed_of = dict(
            zip(sums.fixed, substitute(list(sums.fixed), dict(zip(op.inner_non_seqs(op.inputs), op.outer_non_seqs(self.inputs)))))
        )

    def _gradient_buffer(self, state):
        """The rows of a state's gradient, the latest one first."""
        g = self._gradient(state.number)
        if state.is_mit_mot:
            g = g[: self._length_used(state)]
        return g[::-1]

    def _length_used(self, state):
        """How many rows of a buffer of mit_mot the loop may read or write."""
        return self.n_steps + (state.lead + state.latest)

    def _backward_rows(self, v):
        return self.rows[v].backward()

    def _all_rows(self, v):
        """All values of a variable of the step: in order of time, or, truncated, the latest one first."""
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
        rows = fitting(self.sums.rows(self.inner[i], self._all_rows), sequence.type)
        if self.truncated:
            return set_subtensor(sequence.zeros_like()[self.n_steps - self.n_back : self.n_steps], rows[::-1])
        if self.rows[self.op.inputs[i]].last is None:
            return rows
        return set_subtensor(sequence.zeros_like()[: self.n_steps], rows)

    def _of_state(self, state, buffer):
        null = next((i for i in state.inner_inputs if i in self.nulls), None)
        if null is not None:
            return self.nulls[null].type()
        if state in self.carries:
            rows = self.results[self.buffers[state]]
            if state.is_mit_mot:
                return set_subtensor(self._gradient(state.number)[: self._length_used(state)], rows[::-1])
            rows = rows[-state.lead :]
            rows = rows if state.lead == 1 else rows[::-1]
        elif is_absent(self.gradients[state.number]) or not is_continuous(buffer):
            return None
        else:
            rows = self._gradient(state.number)[: state.lead]
        return set_subtensor(buffer.zeros_like()[: state.lead], rows)

    def _of_shared(self, i, value):
        return self.nulls[i].type() if i in self.nulls else grad_undefined(
            self.op, self.inputs.index(value), value, "It changes from step to step."
        )

    def _of_other(self, i, value):
        if i in self.nulls:
            return self.nulls[i].type()
        if i not in self.inner:
            return None
        total = self.sums.total(self.inner[i], self.n_back, self._all_rows, self.fixed_of, self.total_of)
        return fitting(total, value.type)


_MOVING, _GRADIENT, _CARRIED, _MISSING = 1, 2, 4, 8


def _stack_type(kind):
    """The type of rows of a type."""
    return TensorType(kind.dtype, (False, *kind.broadcastable))


def _leaves(outputs, leaves):
    """Which of `leaves` the outputs depend on, not looking behind them."""
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


def has_length(sequence, n_steps):
    """Whether a sequence is known to have as many rows as there are steps, if it has enough of them.

    Parameters
    ----------
    sequence, n_steps : Variable

    Returns
    -------
    bool
    """
    v = sequence
    while v.owner is not None and isinstance(v.owner.op, Subtensor):
        index = get_idx_list(v.owner.inputs, v.owner.op.idx_list)[0]
        if not isinstance(index, slice):
            return False
        if index.step is not None and _number(index.step) not in (1, -1):
            return False
        if index.start is None and index.stop is None:
            v = v.owner.inputs[0]
            continue
        if index.step is not None and _number(index.step) != 1:
            return False
        return _is_sum(index.stop, n_steps, index.start)
    node = n_steps.owner
    if node is None or not isinstance(node.op, Subtensor):
        return False
    shape = node.inputs[0].owner
    if shape is None or not isinstance(shape.op, Shape) or _number(get_idx_list(node.inputs, node.op.idx_list)[0]) != 0:
        return False
    measured = shape.inputs[0]
    return measured in (v, sequence)


def _number(v):
    """The integer that an index is, or None where it is not known."""
    return int(v.data) if isinstance(v, Constant) else int(v) if isinstance(v, int) else None


def _is_sum(stop, n_steps, start):
    """Whether an index is the number of steps, plus `start` if there is one."""
    if not isinstance(stop, Variable):
        return False
    if stop.owner is not None and isinstance(stop.owner.op, ScalarFromTensor):
        stop = stop.owner.inputs[0]
    if not start or _number(start) == 0:
        return stop is n_steps
    node = stop.owner
    if node is None or not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, Add):
        return False
    return len(node.inputs) == 2 and node.inputs[0] is n_steps and _number(node.inputs[1]) == _number(start) is not None
