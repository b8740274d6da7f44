"""Properties of a loop that are known without running it: derivatives, dependences of outputs on inputs, and shapes."""

from collections import namedtuple

from theano_ng.compile.inner_graph import InnerGraph, substitute
from theano_ng.compile.ops import Shape_i
from theano_ng.gof.derivative import is_absent
from theano_ng.gof.differentiate import Rop
from theano_ng.gof.traversal import ancestors, connection_masks
from theano_ng.scan.backward import Backward, fitting, is_continuous, set_bits
from theano_ng.scan.utils import values_afterwards
from theano_ng.tensor.basic import minimum
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise.functions import add, cast
from theano_ng.tensor.shaping.lengths import Lengths

__all__ = ["Derivatives"]


State = namedtuple("State", "number is_mit_mot lead latest taps inner_inputs writes inner_outputs")
"""A state: a member of mit_mot, mit_sot or sit_sot.

number : int
    Number of its outer output.
is_mit_mot : bool
lead, latest : int
    Number of rows before step 0, and the latest tap that is read or written.
taps, writes : tuple of int
    The taps that a step reads and writes.
inner_inputs, inner_outputs : tuple of int
    Indices of the inner inputs for `taps`, and of the inner outputs for `writes`.
"""
State.__hash__ = lambda self: self.number


class Derivatives:
    """Derivatives and shapes of loops. This class is a mixin of `Scan`."""

    # -- the layout, by states

    def states(self):
        """Return the states of the loop.

        Returns
        -------
        list of State
        """
        found, inner_in, inner_out = [], self.n_seqs, 0
        for i, taps in enumerate(self.tap_array):
            writes = self.output_taps(i)
            found.append(
                State(
                    i,
                    i < self.n_mit_mot,
                    self.lead(i),
                    max([*taps, *writes]),
                    tuple(taps),
                    tuple(range(inner_in, inner_in + len(taps))),
                    tuple(writes),
                    tuple(range(inner_out, inner_out + len(writes))),
                )
            )
            inner_in, inner_out = inner_in + len(taps), inner_out + len(writes)
        return found

    @property
    def n_results_before(self):
        """The number of inner outputs before the inner outputs of nit_sot."""
        return self.n_mit_mot_outs + self.n_mit_sot + self.n_sit_sot

    def with_results(self, variables):
        """Return the same loop with additional results.

        Parameters
        ----------
        variables : list of Variable
            Variables of the step.

        Returns
        -------
        (Scan, int)
            The loop, and the index of the outer output that is the first additional result.
        """
        at = self.n_results_before + self.n_nit_sot
        outputs = [*self.outputs[:at], *variables, *self.outputs[at:]]
        info = {**self.info, "n_nit_sot": self.n_nit_sot + len(variables)}
        inputs = [v.type(v.name) for v in self.inputs]
        return type(self)(inputs, substitute(outputs, dict(zip(self.inputs, inputs))), info), self.n_buffers

    # -- dependences

    def inner_connections(self):
        """Return a mask for each inner output: bit k is set if the output depends differentiably on inner input k,
        within one step.

        Returns
        -------
        list of int
        """
        if getattr(self, "_connections", None) is None:
            self._connections = connection_masks(self.inputs, self.outputs)
        return self._connections

    def _over_steps(self):
        """Return masks like those of `inner_connections`, for dependences within any number of steps instead of one."""
        state_of = {i: state for state in self.states() for i in state.inner_inputs}
        direct = self.inner_connections()
        found = []
        for mask in direct:
            seen, todo = mask, list(set_bits(mask))
            for i in todo:  # the list grows
                for o in state_of[i].inner_outputs if i in state_of else ():
                    new = direct[o] & ~seen
                    seen |= new
                    todo.extend(set_bits(new))
            found.append(seen)
        return found

    def inner_connection_pattern(self):
        """Compute which inner outputs depend differentiably on which inner inputs, within any number of steps.

        Returns
        -------
        list of list of bool
            ``pattern[inner input][inner output]``.
        """
        masks = self._over_steps()
        return [[bool(mask >> i & 1) for mask in masks] for i in range(len(self.inputs))]

    def connection_pattern(self, node):
        """Compute which outer outputs depend differentiably on which outer inputs.

        Parameters
        ----------
        node : Apply
            Not used, because the pattern is the same for all nodes.

        Returns
        -------
        list of list of bool
            ``pattern[outer input][outer output]``. No output depends differentiably on numbers of steps or rows.
        """
        if getattr(self, "_pattern", None) is None:
            states, masks = self.states(), self._over_steps()
            reached = [_union(masks[o] for o in state.inner_outputs) for state in states]
            reached += masks[self.n_results_before : self.n_results_before + self.n_nit_sot + self.n_shared_outs]
            shared = self.n_seqs + self.n_inner_taps
            rest = shared + self.n_shared_outs
            rows = [[False] * len(reached)]
            rows += [self._pattern_row(reached, [i]) for i in range(self.n_seqs)]
            for state in states:
                row = self._pattern_row(reached, state.inner_inputs)
                if state.is_mit_mot:
                    row[state.number] = True  # rows that no step writes keep their input values
                rows.append(row)
            rows += [self._pattern_row(reached, [i]) for i in range(shared, rest)]
            rows += [[False] * len(reached) for _ in range(self.n_nit_sot)]
            rows += [self._pattern_row(reached, [i]) for i in range(rest, len(self.inputs))]
            self._pattern = rows
        return [list(row) for row in self._pattern]

    @staticmethod
    def _pattern_row(reached, inner_inputs):
        mask = _union(1 << i for i in inner_inputs)
        return [bool(m & mask) for m in reached]

    # -- shapes

    def infer_shape(self, node, shapes):
        """Return the shapes of the outer outputs.

        The output of a mit_mot state has the shape of its buffer. The output of another state is shorter than its
        buffer if the loop has too few steps to write all rows. If a length depends on a condition or on computed
        values, it is known only at run time. Such a length is taken from the output itself.
        """
        steps = cast(node.inputs[0], "int64")
        lengths = Lengths()
        inferred = []
        for state, out, shape in zip(self.states(), node.outputs, shapes[1 + self.n_seqs :]):
            if state.is_mit_mot:
                inferred.append(tuple(shape))
                continue
            if self.as_while:
                rows = Shape_i(0)(out)
            else:
                rows = _at_most(shape[0], add(steps, state.lead), lengths)
            inferred.append((rows, *shape[1:]))
        if self.n_nit_sot:
            inferred += self._shapes_of_results(node, shapes, steps, lengths)
        for out in node.outputs[self.n_buffers :]:
            inferred.append(_own_shape(out))
        return inferred

    def _shapes_of_results(self, node, shapes, steps, lengths):
        """Return the shapes of the outputs of nit_sot."""
        known = {i: shapes[1 + i][1:] for i in range(self.n_seqs)}
        for state, shape in zip(self.states(), shapes[1 + self.n_seqs :]):
            known.update(dict.fromkeys(state.inner_inputs, shape[1:]))
        first = len(self.inputs) - self.n_others
        outer = self.outer_non_seqs(node.inputs)
        known.update(zip(range(first, len(self.inputs)), shapes[len(shapes) - self.n_others :]))
        moving = self.inputs[:first]
        step = InnerGraph.of_parts(self.inputs, self.inner_nitsot_outs(self.outputs), [], {})
        found = step.infer_shape([*moving, *outer], [known.get(i) for i in range(len(self.inputs))])
        moving = set(moving)
        inferred = []
        for i, (shape, asked) in enumerate(zip(found, self.outer_nitsot(node.inputs))):
            out = node.outputs[self.n_states + i]
            if self.as_while:
                rows = Shape_i(0)(out)
            else:
                rows = steps if asked is node.inputs[0] else _at_most(cast(asked, "int64"), steps, lengths)
            row = [
                Shape_i(d)(out) if moving.intersection(ancestors([length], moving)) else length
                for d, length in enumerate(shape, 1)
            ]
            inferred.append((rows, *row))
        return inferred

    # -- derivatives

    @values_afterwards
    def L_op(self, inputs, outputs, output_grads):
        """Return the gradients of the outer inputs, computed by a loop that runs backwards."""
        return Backward(self, inputs, outputs, output_grads).terms()

    @values_afterwards
    def R_op(self, inputs, eval_points):
        """Return the directional derivatives of the outer outputs. One loop computes values and derivatives."""
        n = self.n_results_before
        states = self.states()
        points = [None if p is None or is_absent(p) else p for p in eval_points]
        by_group = {
            "seqs": self.outer_seqs(points),
            "states": points[1 + self.n_seqs : 1 + self.n_seqs + self.n_states],
            "others": self.outer_non_seqs(points),
        }
        # Find the inner inputs that have a direction: those whose outer inputs have one in `eval_points`, and states
        # that depend on an inner input with a direction.
        first = len(self.inputs) - self.n_others
        given = {i for i, p in enumerate(by_group["seqs"]) if p is not None}
        given.update(i for i, p in enumerate(by_group["others"], first) if p is not None)
        moving = [state for state, p in zip(states, by_group["states"]) if p is not None]
        directions = {i: self.inputs[i].type() for i in sorted(given) if is_continuous(self.inputs[i])}
        moving = self._moving_states(states, directions, moving)
        for state in moving:
            directions.update((i, self.inputs[i].type()) for i in state.inner_inputs)
        reached = _union(1 << i for i in directions)
        masks = self.inner_connections()
        results = [k for k in range(self.n_nit_sot) if masks[n + k] & reached and is_continuous(self.outputs[n + k])]
        wanted = [o for state in moving for o in state.inner_outputs] + [n + k for k in results]
        if not wanted:
            return [None] * len(self.output_types)
        tangents = Rop(
            [self.outputs[o] for o in wanted],
            [self.inputs[i] for i in directions],
            list(directions.values()),
            disconnected_outputs="ignore",
            return_disconnected="None",
        )
        tangents = {
            o: self.outputs[o].zeros_like() if t is None else fitting(t, self.outputs[o].type)
            for o, t in zip(wanted, tangents)
        }
        return self._doubled(inputs, by_group, directions, tangents, moving, results)

    def _moving_states(self, states, directions, moving):
        """Return the states that have directions: the states in `moving`, and all states that depend on these states
        or on the inner inputs in `directions`.
        """
        feeds = {}
        for o, mask in enumerate(self.inner_connections()):
            for i in set_bits(mask):
                feeds.setdefault(i, []).append(o)
        state_of = {o: state for state in states for o in state.inner_outputs}
        found = {state.number for state in moving if is_continuous(self.outputs[state.inner_outputs[0]])}
        todo = [*directions, *(i for k in found for i in states[k].inner_inputs)]
        for i in todo:  # the list grows
            for o in feeds.get(i, ()):
                state = state_of.get(o)
                if state is not None and state.number not in found and is_continuous(self.outputs[o]):
                    found.add(state.number)
                    todo.extend(state.inner_inputs)
        return [states[k] for k in sorted(found)]

    def _doubled(self, inputs, points, directions, tangents, moving, results):
        """Make a loop that computes values and directional derivatives. Return the derivatives of the outer outputs."""
        n_seqs, first = self.n_seqs, len(self.inputs) - self.n_others
        seqs = [i for i in range(n_seqs) if i in directions]
        others = [i for i in range(first, len(self.inputs)) if i in directions]
        ends = [0, self.n_mit_mot, self.n_mit_mot + self.n_mit_sot, self.n_states]
        moving_of = [[s for s in moving if start <= s.number < end] for start, end in zip(ends, ends[1:])]
        inner_in = [*self.inner_seqs(self.inputs), *(directions[i] for i in seqs)]
        outer_in = [
            inputs[0],
            *self.outer_seqs(inputs),
            *(fitting(points["seqs"][i], inputs[1 + i].type) for i in seqs),
        ]
        inner_out, taps, place = [], [], {}
        states = self.states()
        for start, end, group in zip(ends, ends[1:], moving_of):
            place.update((s.number, len(taps) + end - start + k) for k, s in enumerate(group))
            both = states[start:end] + group
            taps += [list(s.taps) for s in both]
            inner_in += [self.inputs[i] for s in states[start:end] for i in s.inner_inputs]
            inner_in += [directions[i] for s in group for i in s.inner_inputs]
            inner_out += [self.outputs[o] for s in states[start:end] for o in s.inner_outputs]
            inner_out += [tangents[o] for s in group for o in s.inner_outputs]
            outer_in += inputs[1 + n_seqs + start : 1 + n_seqs + end]
            for s in group:
                buffer, point = inputs[1 + n_seqs + s.number], points["states"][s.number]
                outer_in.append(buffer.zeros_like() if point is None else fitting(point, buffer.type))
        inner_in += [
            *self.inner_shared(self.inputs),
            *self.inner_non_seqs(self.inputs),
            *(directions[i] for i in others),
        ]
        inner_out += [*self.inner_nitsot_outs(self.outputs), *(tangents[self.n_results_before + k] for k in results)]
        inner_out += [*self.inner_shared_outs(self.outputs), *self.inner_until(self.outputs)]
        rows = self.outer_nitsot(inputs)
        outer_in += [*self.outer_shared(inputs), *rows, *(rows[k] for k in results), *self.outer_non_seqs(inputs)]
        outer_in += [
            fitting(points["others"][i - first], outer.type)
            for i, outer in zip(range(first, len(self.inputs)), self.outer_non_seqs(inputs))
            if i in directions
        ]
        info = {
            **self.info,
            "n_seqs": n_seqs + len(seqs),
            "n_mit_mot": self.n_mit_mot + len(moving_of[0]),
            "n_mit_mot_outs": self.n_mit_mot_outs + sum(len(s.writes) for s in moving_of[0]),
            "n_mit_sot": self.n_mit_sot + len(moving_of[1]),
            "n_sit_sot": self.n_sit_sot + len(moving_of[2]),
            "n_nit_sot": self.n_nit_sot + len(results),
            "tap_array": taps,
            "mit_mot_out_slices": self.mit_mot_out_slices + [list(s.writes) for s in moving_of[0]],
            "destroy_map": {},
            "name": "rop_of_" + self.name if self.name else None,
        }
        stand_ins = {v: v.type(v.name) for v in inner_in}
        loop = type(self)(list(stand_ins.values()), substitute(inner_out, stand_ins), info)
        outputs = loop(*outer_in, return_list=True)
        place.update((self.n_states + k, len(taps) + self.n_nit_sot + j) for j, k in enumerate(results))
        return [outputs[place[i]] if i in place else None for i in range(len(self.output_types))]


def _union(masks):
    found = 0
    for mask in masks:
        found |= mask
    return found


def _own_shape(v):
    """Return the lengths of a variable, taken from its value at run time. Return None if it has no shape."""
    if not hasattr(v.type, "ndim"):
        return None
    pattern = getattr(v.type, "broadcastable", (False,) * v.type.ndim)
    return tuple(constant(1, dtype="int64") if b else Shape_i(d)(v) for d, b in enumerate(pattern))


def _at_most(length, limit, lengths):
    """Return the smaller of two lengths: `length` itself if the table `lengths` shows that they are equal."""
    if lengths.first(length) is lengths.first(limit):
        return length
    return minimum(length, limit)
