"""`scan_args`: the variables of a loop node, split into groups, so that a loop can be changed and made again."""

from collections import OrderedDict

from theano_ng.scan.groups import Groups

__all__ = ["scan_args"]

# For each group, the names of the lists in `scan_args` that have one item for each member of the group.
PARTS = {
    "seqs": ("outer_in_seqs", "inner_in_seqs"),
    "mit_mot": (
        "outer_in_mit_mot",
        "inner_in_mit_mot",
        "inner_out_mit_mot",
        "outer_out_mit_mot",
        "mit_mot_in_slices",
        "mit_mot_out_slices",
    ),
    "mit_sot": ("outer_in_mit_sot", "inner_in_mit_sot", "inner_out_mit_sot", "outer_out_mit_sot", "mit_sot_in_slices"),
    "sit_sot": ("outer_in_sit_sot", "inner_in_sit_sot", "inner_out_sit_sot", "outer_out_sit_sot"),
    "nit_sot": ("outer_in_nit_sot", "inner_out_nit_sot", "outer_out_nit_sot"),
    "shared": ("outer_in_shared", "inner_in_shared", "inner_out_shared", "outer_out_shared"),
    "non_seqs": ("outer_in_non_seqs", "inner_in_non_seqs"),
}

_COUNTED = ("n_seqs", "n_mit_mot", "n_mit_sot", "n_sit_sot", "n_nit_sot", "n_shared_outs", "n_mit_mot_outs")
_TAPS = ("tap_array", "mit_mot_out_slices")


class scan_args:
    """The variables of a loop by groups. `scan.groups` describes the groups.

    The lists belong to this object, and contain the variables of the node itself, not copies. To change a loop, change
    the lists, and make a node from `inner_inputs`, `inner_outputs`, `info` and `outer_inputs`.

    Parameters
    ----------
    outer_inputs, outer_outputs : list of Variable
        Variables of the node.
    _inner_inputs, _inner_outputs : list of Variable
        Variables of the Op of the node.
    info : dict
        The `info` of the Op.

    Attributes
    ----------
    n_steps : Variable
    outer_in_seqs, inner_in_seqs : list of Variable
    outer_in_mit_mot, outer_in_mit_sot, outer_in_sit_sot, outer_in_shared, outer_in_nit_sot, outer_in_non_seqs : list of Variable
    inner_in_mit_mot, inner_in_mit_sot : list of list of Variable
        The taps of each buffer.
    inner_in_sit_sot, inner_in_shared, inner_in_non_seqs : list of Variable
    inner_out_mit_mot : list of list of Variable
        The output taps of each buffer.
    inner_out_mit_sot, inner_out_sit_sot, inner_out_nit_sot, inner_out_shared : list of Variable
    outer_out_mit_mot, outer_out_mit_sot, outer_out_sit_sot, outer_out_nit_sot, outer_out_shared : list of Variable
    mit_mot_in_slices, mit_mot_out_slices, mit_sot_in_slices : list of list of int
        The taps.
    cond : list of Variable
        The condition. The list is empty for a loop without a condition.
    other_info : dict
        The other entries of `info`.
    """

    def __init__(self, outer_inputs, outer_outputs, _inner_inputs, _inner_outputs, info):
        layout = Groups()
        layout.set_groups(info)
        self.n_steps = outer_inputs[0]
        self.outer_in_seqs = layout.outer_seqs(outer_inputs)
        self.outer_in_mit_mot = layout.outer_mitmot(outer_inputs)
        self.outer_in_mit_sot = layout.outer_mitsot(outer_inputs)
        self.outer_in_sit_sot = layout.outer_sitsot(outer_inputs)
        self.outer_in_shared = layout.outer_shared(outer_inputs)
        self.outer_in_nit_sot = layout.outer_nitsot(outer_inputs)
        self.outer_in_non_seqs = layout.outer_non_seqs(outer_inputs)
        self.mit_mot_in_slices = [list(taps) for taps in layout.mitmot_taps()]
        self.mit_sot_in_slices = [list(taps) for taps in layout.mitsot_taps()]
        self.mit_mot_out_slices = [list(taps) for taps in layout.mitmot_out_taps()]
        self.inner_in_seqs = layout.inner_seqs(_inner_inputs)
        self.inner_in_mit_mot = _by_taps(layout.inner_mitmot(_inner_inputs), self.mit_mot_in_slices)
        self.inner_in_mit_sot = _by_taps(layout.inner_mitsot(_inner_inputs), self.mit_sot_in_slices)
        self.inner_in_sit_sot = layout.inner_sitsot(_inner_inputs)
        self.inner_in_shared = layout.inner_shared(_inner_inputs)
        self.inner_in_non_seqs = layout.inner_non_seqs(_inner_inputs)
        self.inner_out_mit_mot = _by_taps(layout.inner_mitmot_outs(_inner_outputs), self.mit_mot_out_slices)
        self.inner_out_mit_sot = layout.inner_mitsot_outs(_inner_outputs)
        self.inner_out_sit_sot = layout.inner_sitsot_outs(_inner_outputs)
        self.inner_out_nit_sot = layout.inner_nitsot_outs(_inner_outputs)
        self.inner_out_shared = layout.inner_shared_outs(_inner_outputs)
        self.cond = layout.inner_until(_inner_outputs)
        self.outer_out_mit_mot = layout.outer_mitmot_outs(outer_outputs)
        self.outer_out_mit_sot = layout.outer_mitsot_outs(outer_outputs)
        self.outer_out_sit_sot = layout.outer_sitsot_outs(outer_outputs)
        self.outer_out_nit_sot = layout.outer_nitsot_outs(outer_outputs)
        self.outer_out_shared = layout.outer_shared_outs(outer_outputs)
        self.other_info = OrderedDict((k, v) for k, v in info.items() if k not in _COUNTED and k not in _TAPS)

    @classmethod
    def of(cls, node):
        """Return the variables of a loop node."""
        return cls(node.inputs, node.outputs, node.op.inputs, node.op.outputs, node.op.info)

    @property
    def as_while(self):
        """Return True if the loop has a condition."""
        return bool(self.cond)

    @property
    def tap_array(self):
        """The taps that each state reads, as in `Groups`."""
        return self.mit_mot_in_slices + self.mit_sot_in_slices + [[-1] for _ in self.inner_in_sit_sot]

    @property
    def inner_inputs(self):
        """The inner inputs, in order."""
        return (
            self.inner_in_seqs
            + [v for taps in self.inner_in_mit_mot for v in taps]
            + [v for taps in self.inner_in_mit_sot for v in taps]
            + self.inner_in_sit_sot
            + self.inner_in_shared
            + self.inner_in_non_seqs
        )

    @property
    def outer_inputs(self):
        """The outer inputs, in order."""
        return (
            [self.n_steps]
            + self.outer_in_seqs
            + self.outer_in_mit_mot
            + self.outer_in_mit_sot
            + self.outer_in_sit_sot
            + self.outer_in_shared
            + self.outer_in_nit_sot
            + self.outer_in_non_seqs
        )

    @property
    def inner_outputs(self):
        """The inner outputs, in order. The property may be set to a list of the same length."""
        return (
            [v for taps in self.inner_out_mit_mot for v in taps]
            + self.inner_out_mit_sot
            + self.inner_out_sit_sot
            + self.inner_out_nit_sot
            + self.inner_out_shared
            + self.cond
        )

    @inner_outputs.setter
    def inner_outputs(self, outputs):
        rest = iter(outputs)
        self.inner_out_mit_mot = [[next(rest) for _ in taps] for taps in self.inner_out_mit_mot]
        for name in ("inner_out_mit_sot", "inner_out_sit_sot", "inner_out_nit_sot", "inner_out_shared", "cond"):
            setattr(self, name, [next(rest) for _ in getattr(self, name)])

    @property
    def outer_outputs(self):
        """The outer outputs, in order."""
        return (
            self.outer_out_mit_mot
            + self.outer_out_mit_sot
            + self.outer_out_sit_sot
            + self.outer_out_nit_sot
            + self.outer_out_shared
        )

    @property
    def info(self):
        """The dict `info` of a loop with these variables."""
        return OrderedDict(
            n_seqs=len(self.outer_in_seqs),
            n_mit_mot=len(self.outer_in_mit_mot),
            n_mit_sot=len(self.outer_in_mit_sot),
            tap_array=self.tap_array,
            n_sit_sot=len(self.outer_in_sit_sot),
            n_nit_sot=len(self.outer_in_nit_sot),
            n_shared_outs=len(self.outer_in_shared),
            n_mit_mot_outs=sum(map(len, self.mit_mot_out_slices)),
            mit_mot_out_slices=[list(taps) for taps in self.mit_mot_out_slices],
            **{**self.other_info, "as_while": self.as_while},
        )

    def states(self):
        """Return the buffers as tuples: name of the group, position in the group, lead, inner inputs, taps of the inner
        inputs, inner outputs. The lead is the number of rows before the first step.
        """
        found = []
        for i, taps in enumerate(self.mit_mot_in_slices):
            lead = max(0, -min(taps + self.mit_mot_out_slices[i]))
            found.append(("mit_mot", i, lead, self.inner_in_mit_mot[i], taps, self.inner_out_mit_mot[i]))
        for i, taps in enumerate(self.mit_sot_in_slices):
            found.append(
                ("mit_sot", i, max(0, -min(taps)), self.inner_in_mit_sot[i], taps, [self.inner_out_mit_sot[i]])
            )
        for i, v in enumerate(self.inner_in_sit_sot):
            found.append(("sit_sot", i, 1, [v], [-1], [self.inner_out_sit_sot[i]]))
        return found

    def keep(self, group, wanted):
        """Remove the members of a group that are not wanted.

        Parameters
        ----------
        group : str
            A key of `PARTS`.
        wanted : list of bool
            One flag for each member of the group.
        """
        for name in PARTS[group]:
            setattr(self, name, [item for item, keep in zip(getattr(self, name), wanted) if keep])

    def add(self, group, *items):
        """Add a member to a group. `items` contains one item for each list in ``PARTS[group]``."""
        for name, item in zip(PARTS[group], items):
            getattr(self, name).append(item)

    def merge(self, other):
        """Add all members of another loop's groups, so that one loop does the steps of both loops.

        Parameters
        ----------
        other : scan_args
            A loop with the same number of steps. Neither loop may depend on the other loop. The condition of
            `other` is ignored.
        """
        for names in PARTS.values():
            for name in names:
                getattr(self, name).extend(getattr(other, name))


def _by_taps(variables, taps):
    rest = iter(variables)
    return [[next(rest) for _ in each] for each in taps]
