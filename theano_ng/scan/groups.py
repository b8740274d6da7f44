"""The groups of a loop's inputs and outputs: sequences, states, results of each step, and values that are the same in all
steps.

A loop has two graphs. The inner graph computes a step. The outer graph contains the node of the loop. A member of a
group consists of the following variables:

=======  ===================  =============================  =======================  =====================
group    outer inputs         inner inputs                   inner outputs            outer outputs
=======  ===================  =============================  =======================  =====================
n_steps  one                  -                              -                        -
seqs     one, (length, ...)   one, row t                     -                        -
mit_mot  one, a buffer        one for each tap, row t + tap  one for each output tap  one, the final buffer
mit_sot  one, a buffer        one for each tap, row t + tap  one, row t               one, the final buffer
sit_sot  one, a buffer        one, row t - 1                 one, row t               one, the final buffer
nit_sot  one, number of rows  -                              one, row t               one, (rows, ...)
shared   one, initial value   one, current value             one, new value           one, final value
others   one                  one, the same in all steps     -                        -
until    -                    -                              one, a scalar            -
=======  ===================  =============================  =======================  =====================

The order of the groups among inputs is: n_steps, seqs, mit_mot, mit_sot, sit_sot, shared, nit_sot, others. Among
outputs it is: mit_mot, mit_sot, sit_sot, nit_sot, shared, until.

The first rows of a buffer are the initial states. Their number is called `lead`: it is the distance of the earliest
tap, read or written, from step 0. The row of step 0 follows the initial states. A buffer of mit_sot, sit_sot or nit_sot
may have fewer rows than there are steps. It then keeps the last rows, in order of time.
"""

__all__ = ["Groups"]


class Groups:
    """The layout of a loop. This class is a mixin of `Scan` and of classes that analyze loops.

    The docstring of this module defines the groups, for example mit_mot.

    Attributes
    ----------
    n_seqs, n_mit_mot, n_mit_sot, n_sit_sot, n_shared_outs, n_nit_sot : int
        Numbers of members of the groups.
    n_mit_mot_outs : int
        Number of inner outputs of the group mit_mot.
    tap_array : list of list of int
        The taps that each member of mit_mot, mit_sot and sit_sot reads.
    mit_mot_out_slices : list of list of int
        The taps that each member of mit_mot writes.
    as_while : bool
        Whether the loop has a condition.
    """

    def set_groups(self, info):
        """Set the layout from the entries of a classic `info` dict."""
        self.n_seqs = info["n_seqs"]
        self.n_mit_mot = info["n_mit_mot"]
        self.n_mit_mot_outs = info["n_mit_mot_outs"]
        self.n_mit_sot = info["n_mit_sot"]
        self.n_sit_sot = info["n_sit_sot"]
        self.n_nit_sot = info["n_nit_sot"]
        self.n_shared_outs = info["n_shared_outs"]
        self.tap_array = [list(taps) for taps in info["tap_array"]]
        self.mit_mot_out_slices = [list(taps) for taps in info["mit_mot_out_slices"]]
        self.as_while = info["as_while"]

    # -- sizes

    @property
    def n_states(self):
        """The number of buffers that a loop reads and writes: mit_mot, mit_sot and sit_sot."""
        return self.n_mit_mot + self.n_mit_sot + self.n_sit_sot

    @property
    def n_buffers(self):
        """The number of outer outputs that have a row for each step."""
        return self.n_states + self.n_nit_sot

    @property
    def n_outputs_before_results(self):
        """The number of inner outputs that are written to buffers of states."""
        return self.n_mit_mot_outs + self.n_mit_sot + self.n_sit_sot

    @property
    def n_inner_taps(self):
        """The number of inner inputs that are rows of buffers."""
        return sum(map(len, self.tap_array))

    # -- classic names of sizes, and of positions among the outer inputs

    n_outs = n_states

    @property
    def n_tap_outs(self):
        """The number of buffers of the groups mit_mot and mit_sot."""
        return self.n_mit_mot + self.n_mit_sot

    @property
    def seqs_arg_offset(self):
        """The number of outer inputs up to and including the last sequence."""
        return 1 + self.n_seqs

    @property
    def shared_arg_offset(self):
        """The number of outer inputs up to and including the last buffer of a state."""
        return self.seqs_arg_offset + self.n_states

    @property
    def nit_sot_arg_offset(self):
        """The number of outer inputs up to and including the last member of the group shared."""
        return self.shared_arg_offset + self.n_shared_outs

    @property
    def mintaps(self):
        """The earliest tap of each state, followed by 0 for each result."""
        return [min(taps) for taps in self.tap_array] + [0] * self.n_nit_sot

    def output_taps(self, state):
        """Return the taps to which the inner outputs of a state are written."""
        return self.mit_mot_out_slices[state] if state < self.n_mit_mot else [0]

    def lead(self, state):
        """Return the number of rows of a buffer before step 0."""
        return max(0, -min(self.tap_array[state] + self.output_taps(state)))

    def mitmot_taps(self):
        """Return the taps that each member of mit_mot reads."""
        return self.tap_array[: self.n_mit_mot]

    def mitmot_out_taps(self):
        """Return the taps that each member of mit_mot writes."""
        return self.mit_mot_out_slices[: self.n_mit_mot]

    def mitsot_taps(self):
        """Return the taps that each member of mit_sot reads."""
        return self.tap_array[self.n_mit_mot : self.n_mit_mot + self.n_mit_sot]

    # -- parts of lists

    def _part(self, items, counts, which):
        start = sum(counts[:which])
        items = list(items)
        return items[start:] if counts[which] is None else items[start : start + counts[which]]

    def _inner_inputs(self, items, which):
        taps = [sum(map(len, self.mitmot_taps())), sum(map(len, self.mitsot_taps()))]
        return self._part(items, [self.n_seqs, *taps, self.n_sit_sot, self.n_shared_outs, None], which)

    def _inner_outputs(self, items, which):
        counts = [self.n_mit_mot_outs, self.n_mit_sot, self.n_sit_sot, self.n_nit_sot, self.n_shared_outs, None]
        return self._part(items, counts, which)

    def _outer_inputs(self, items, which):
        counts = [self.n_seqs, self.n_mit_mot, self.n_mit_sot, self.n_sit_sot, self.n_shared_outs, self.n_nit_sot, None]
        return self._part(items, [1, *counts], which)

    def _outer_outputs(self, items, which):
        return self._part(
            items, [self.n_mit_mot, self.n_mit_sot, self.n_sit_sot, self.n_nit_sot, self.n_shared_outs], which
        )

    def inner_seqs(self, list_inputs):
        """Return the inner inputs that are rows of sequences."""
        return self._inner_inputs(list_inputs, 0)

    def inner_mitmot(self, list_inputs):
        """Return the inner inputs of mit_mot, tap by tap."""
        return self._inner_inputs(list_inputs, 1)

    def inner_mitsot(self, list_inputs):
        """Return the inner inputs of mit_sot, tap by tap."""
        return self._inner_inputs(list_inputs, 2)

    def inner_sitsot(self, list_inputs):
        """Return the inner inputs of sit_sot."""
        return self._inner_inputs(list_inputs, 3)

    def inner_shared(self, list_inputs):
        """Return the inner inputs for shared variables that change."""
        return self._inner_inputs(list_inputs, 4)

    def inner_non_seqs(self, list_inputs):
        """Return the inner inputs that are the same in all steps."""
        return self._inner_inputs(list_inputs, 5)

    def inner_mitmot_outs(self, list_outputs):
        """Return the inner outputs of mit_mot, output tap by output tap."""
        return self._inner_outputs(list_outputs, 0)

    def inner_mitsot_outs(self, list_outputs):
        """Return the inner outputs of mit_sot."""
        return self._inner_outputs(list_outputs, 1)

    def inner_sitsot_outs(self, list_outputs):
        """Return the inner outputs of sit_sot."""
        return self._inner_outputs(list_outputs, 2)

    def inner_nitsot_outs(self, list_outputs):
        """Return the inner outputs of nit_sot."""
        return self._inner_outputs(list_outputs, 3)

    def inner_shared_outs(self, list_outputs):
        """Return the inner outputs that are the new values of shared variables."""
        return self._inner_outputs(list_outputs, 4)

    def inner_until(self, list_outputs):
        """Return the condition in a list, or an empty list for a loop without a condition."""
        return self._inner_outputs(list_outputs, 5)

    def outer_seqs(self, list_inputs):
        """Return the outer inputs that are sequences."""
        return self._outer_inputs(list_inputs, 1)

    def outer_mitmot(self, list_inputs):
        """Return the outer inputs that are buffers of the group mit_mot."""
        return self._outer_inputs(list_inputs, 2)

    def outer_mitsot(self, list_inputs):
        """Return the outer inputs that are buffers of the group mit_sot."""
        return self._outer_inputs(list_inputs, 3)

    def outer_sitsot(self, list_inputs):
        """Return the outer inputs that are buffers of the group sit_sot."""
        return self._outer_inputs(list_inputs, 4)

    def outer_shared(self, list_inputs):
        """Return the outer inputs that are the initial values of shared variables."""
        return self._outer_inputs(list_inputs, 5)

    def outer_nitsot(self, list_inputs):
        """Return the outer inputs that are numbers of rows of nit_sot."""
        return self._outer_inputs(list_inputs, 6)

    def outer_non_seqs(self, list_inputs):
        """Return the outer inputs that are the same in all steps."""
        return self._outer_inputs(list_inputs, 7)

    def outer_mitmot_outs(self, list_outputs):
        """Return the outer outputs of mit_mot."""
        return self._outer_outputs(list_outputs, 0)

    def outer_mitsot_outs(self, list_outputs):
        """Return the outer outputs of mit_sot."""
        return self._outer_outputs(list_outputs, 1)

    def outer_sitsot_outs(self, list_outputs):
        """Return the outer outputs of sit_sot."""
        return self._outer_outputs(list_outputs, 2)

    def outer_nitsot_outs(self, list_outputs):
        """Return the outer outputs of nit_sot."""
        return self._outer_outputs(list_outputs, 3)

    def outer_shared_outs(self, list_outputs):
        """Return the outer outputs that are the final values of shared variables."""
        return self._outer_outputs(list_outputs, 4)

    def get_oinp_iinp_iout_oout_mappings(self):
        """Return dicts that map outer and inner variables to the variables of the same member of a group.

        Returns
        -------
        dict
            ``"inner_inp_from_outer_inp"`` and so on: a dict from the index of a source (here an outer input) to the
            index of a target (here an inner input). Sources and targets are ``outer_inp``, ``inner_inp``, ``inner_out``
            and ``outer_out``. If the target is an inner variable, the value is a list of indices. -1 means no variable.
        """
        rows = []  # (outer input, inner inputs, inner outputs, outer output) of each member of a group
        inner_in = inner_out = 0
        outer_in = 1

        def add(n_in, n_out, has_outer_in=True, outer_out=-1):
            nonlocal inner_in, inner_out, outer_in
            rows.append(
                (
                    outer_in if has_outer_in else -1,
                    list(range(inner_in, inner_in + n_in)),
                    list(range(inner_out, inner_out + n_out)),
                    outer_out,
                )
            )
            inner_in, inner_out, outer_in = inner_in + n_in, inner_out + n_out, outer_in + has_outer_in

        for _ in range(self.n_seqs):
            add(1, 0)
        for i, taps in enumerate(self.tap_array):
            add(len(taps), len(self.output_taps(i)), outer_out=i)
        # Among inner outputs, nit_sot precedes shared. Among outer inputs, nit_sot follows shared. So add nit_sot
        # first, with outer inputs after those of shared.
        first_shared, outer_in = outer_in, outer_in + self.n_shared_outs
        for i in range(self.n_nit_sot):
            add(0, 1, outer_out=self.n_states + i)
        after_nit_sot, outer_in = outer_in, first_shared
        for i in range(self.n_shared_outs):
            add(1, 1, outer_out=self.n_buffers + i)
        outer_in = after_nit_sot
        for _ in range(self.n_others):
            add(1, 0)
        names = ("outer_inp", "inner_inp", "inner_out", "outer_out")
        mappings = {"%s_from_%s" % (target, source): {} for source in names for target in names if source != target}
        for name in names[1:]:
            mappings[name + "_from_outer_inp"][0] = -1 if name == "outer_out" else []
        for row in rows:
            for a, source in enumerate(names):
                numbers = row[a] if isinstance(row[a], list) else [row[a]] if row[a] >= 0 else []
                for b, target in enumerate(names):
                    if a != b:
                        for number in numbers:
                            mappings["%s_from_%s" % (target, source)][number] = row[b]
        return mappings
