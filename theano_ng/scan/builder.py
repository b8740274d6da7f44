"""The function `scan`, which makes a loop node from a Python function that describes a step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.compile.inner_graph import substitute
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.configdefaults import config
from theano_ng.gof.fg import MissingInputError
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.traversal import ancestors
from theano_ng.moved import lend_modules
from theano_ng.scan.op import Scan
from theano_ng.scan.utils import as_list, copy_test_value, get_updates_and_outputs, safe_new
from theano_ng.scan.validation import integer_scalar
from theano_ng.tensor.assert_op import AssertShape
from theano_ng.tensor.basic import maximum, minimum
from theano_ng.tensor.constant import (
    NotScalarConstantError,
    as_tensor_variable,
    get_scalar_constant_value,
    tensor_or_other,
)
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.allocation import AllocEmpty
from theano_ng.tensor.shaping.broadcasting import unbroadcast
from theano_ng.tensor.shaping.reshaping import shape_padleft
from theano_ng.tensor.type import TensorType
from theano_ng.updates import OrderedUpdates

if TYPE_CHECKING:
    from theano_ng.compile.mode import Mode
    from theano_ng.tensor.aliases import IntLike

__all__ = ["scan"]


def scan(
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: IntLike | None = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: str | Mode | None = None,
    name: str | None = None,
    profile: bool | str = False,
    allow_gc: bool | None = None,
    strict: bool = False,
    return_list: bool = False,
) -> tuple[Any, OrderedUpdates]:
    """Make a loop. It repeats a step, which reads the rows of sequences and the results of earlier steps.

    Parameters
    ----------
    fn : callable
        A function that makes the graph of a step. It is called once, with variables: for each sequence, in order, its
        taps in the given order; for each output, its taps; then `non_sequences`. It returns outputs (a variable or a
        list of variables, as many as `outputs_info` has entries), updates (a dict or a list of pairs: shared variable,
        its value after the step), or both in either order. A condition (`scan_module.until`) may follow as the last
        element.
    sequences : array_like, dict, or list of them, optional
        The loop runs over the leading dimension of the sequences. A dict has the keys ``"input"`` and ``"taps"``: an
        int or a list of int. By default, the tap is 0. Tap k is row t + k at step t. Step 0 is the first step for which
        all taps exist.
    outputs_info : array_like, dict, None, or list of them, optional
        The initial state of each output. Use None or an empty dict for an output that later steps do not read. A dict
        has the keys ``"initial"`` and ``"taps"``: a list of negative int, by default [-1]. If -1 is the only tap, the
        initial state has the shape of the output. Otherwise, the initial state has an additional leading dimension,
        which has one row for each step back to the earliest tap. The last row belongs to the step before step 0. The
        initial state has the dtype of the output. If the whole argument is None or [], later steps read no output.
    non_sequences : array_like, or list of them, optional
        Values that are passed to `fn` unchanged at each step. Other variables that `fn` uses are found automatically.
    n_steps : int or integer scalar, optional
        The number of steps. By default, the number of steps for which all sequences have rows.
    truncate_gradient : int
        The number of steps through which the gradient is propagated. -1 means all steps.
    go_backwards : bool
        If True, read the sequences from their ends.
    mode : Mode or str, optional
        The mode in which the step is compiled. By default, ``config.mode``, whatever the mode of the function that
        contains the loop. (A function in DebugMode also checks the steps of its loops.)
    name : str, optional
        The name of the loop in printed graphs and profiles.
    profile : bool or str
        If True, profile the step under the name of the loop. A str is used as the name instead.
    allow_gc : bool, optional
        Whether the step frees its intermediate values at once. By default, ``config.scan.allow_gc``.
    strict : bool
        If True, raise an error for a step that uses shared variables that are not given as arguments.
    return_list : bool
        If True, return a list even if there is one output or no output.

    Returns
    -------
    outputs : TensorVariable, list of TensorVariable, or None
        For each output of `fn`, the values of all steps, (n_steps, ...). A single output is returned as a variable. If
        there is no output, None is returned.
    updates : OrderedUpdates
        Shared variable -> its value after the loop. Pass the updates to `function`.

    Raises
    ------
    ValueError
        If the arguments and the results of `fn` do not fit together.
    TypeError
        If the dtype or the number of dimensions of a state differs from that of the output.
    MissingInputError
        If `strict` is True and a shared variable is not given.

    Examples
    --------
    >>> import theano_ng as theano, theano_ng.tensor as T
    >>> total, _ = theano.scan(lambda x, so_far: so_far + x, sequences=T.arange(1, 5), outputs_info=T.constant(0, dtype="int64"))
    >>> total.eval()
    array([ 1,  3,  6, 10])
    """
    sequences = [_Sequence(s, i, go_backwards) for i, s in enumerate(as_list(sequences))]
    others = [v if isinstance(v, Variable) else as_tensor_variable(v) for v in as_list(non_sequences)]
    states = [_State.of(info, i) for i, info in enumerate(as_list(outputs_info))]
    is_given, n_steps = n_steps is not None, _number_of_steps(n_steps, sequences)
    arguments = [row for s in sequences for row in s.rows] + [row for s in states for row in s.rows]
    if is_given and _known(n_steps) == 1:
        return _one_step(fn, sequences, states, others, return_list)

    condition, outputs, updates = get_updates_and_outputs(fn(*arguments, *others))
    outputs = [tensor_or_other(v) for v in outputs]
    if not states:
        states = [_State(None, [], i) for i in range(len(outputs))]
    if len(states) != len(outputs):
        raise ValueError(
            "Please provide None as outputs_info for any output that does not feed back into scan (i.e. it behaves like a map): "
            "the step returns %d outputs, and outputs_info has %d entries" % (len(outputs), len(states))
        )
    for i, output in enumerate(outputs):
        if not isinstance(output.type, TensorType):
            raise TypeError(
                "Output %d of the step, %s, has type %s, but a loop can collect only tensors" % (i, output, output.type)
            )
    step = _Step(outputs, updates, condition, arguments, others, strict)

    for state, output in zip(states, step.outputs):
        state.output = output
    for shared, new in step.updates:
        if isinstance(step.copies[shared].type, TensorType):
            states.append(_SharedState(shared, step.copies[shared], tensor_or_other(new)))
    mit_sot = [s for s in states if len(s.taps) > 1 or s.taps and s.taps != [-1]]
    sit_sot = [s for s in states if s.taps == [-1]]
    nit_sot = [s for s in states if not s.taps]
    shared = [(v, new) for v, new in step.updates if not isinstance(step.copies[v].type, TensorType)]
    info: dict[str, Any] = {
        "tap_array": [s.taps for s in mit_sot + sit_sot],
        "n_seqs": sum(len(s.taps) for s in sequences),
        "n_mit_mot": 0,
        "n_mit_mot_outs": 0,
        "mit_mot_out_slices": [],
        "n_mit_sot": len(mit_sot),
        "n_sit_sot": len(sit_sot),
        "n_shared_outs": len(shared),
        "n_nit_sot": len(nit_sot),
        "truncate_gradient": truncate_gradient,
        "name": "scan_fn" if name is None else name,
        "mode": mode,
        "destroy_map": {},
        "gpua": False,
        "as_while": condition is not None,
        "profile": profile,
        "allow_gc": config.scan.allow_gc if allow_gc is None else allow_gc,
        "strict": strict,
    }
    inner_inputs = [
        *(row for s in sequences for row in s.rows),
        *(row for s in mit_sot + sit_sot for row in s.rows),
        *(step.copies[v] for v, _ in shared),
        *(step.copies[v] for v in step.unchanged),
    ]
    inner_outputs = [
        *(s.output for s in mit_sot + sit_sot + nit_sot),
        *(new for _, new in shared),
        *([] if condition is None else [step.condition]),
    ]
    op = Scan(inner_inputs, inner_outputs, info)
    results = op(
        n_steps,
        *(rows for s in sequences for rows in s.from_taps(n_steps)),
        *(s.buffer(n_steps) for s in mit_sot + sit_sot),
        *(v for v, _ in shared),
        *(n_steps for _ in nit_sot),
        *map(tensor_or_other, step.unchanged),
        return_list=True,
    )
    for state, result in zip(mit_sot + sit_sot + nit_sot, results):
        state.result = result
    ends = {s.shared: s.result[-1] for s in states if isinstance(s, _SharedState)}
    ends.update(zip((v for v, _ in shared), results[op.n_buffers :]))
    updates = OrderedUpdates([(v, ends[v]) for v, _ in step.updates])
    return _returned([s.result[s.lead :] if s.taps else s.result for s in states[: len(outputs)]], return_list), updates


class _Sequence:
    """A sequence with its taps.

    Attributes
    ----------
    taps : list of int
    rows : list of Variable
        One variable for each tap. In the graph of a step, it stands for the row that the tap selects.
    """

    def __init__(self, given, i, go_backwards):
        taps = [0]
        if isinstance(given, dict):
            if given.get("input") is None:
                raise ValueError(
                    "Sequence %d is a dict without the key 'input', which is the sequence itself: %r" % (i, given)
                )
            _warn_of_unknown(given, ("input", "taps"), "Sequence %d" % i)
            taps = given.get("taps", taps)
            given = given["input"]
        self.taps = [0] if taps is None else _as_taps(taps)
        if not self.taps:
            raise ValueError(
                "Sequence %d has no taps: give the offsets of the rows that a step reads, or omit the key" % i
            )
        self.variable = as_sequence(given, i)
        self.ordered = self.variable[::-1] if go_backwards else self.variable
        first, last = min(self.taps + [0]), max(self.taps + [0])
        self.span = last - first
        # Taps count rows in the order of the sequence. If the loop goes backwards, tap 1 is the row of the previous
        # step.
        self.offsets = [last - tap if go_backwards else tap - first for tap in self.taps]
        self.is_whole = False
        self.rows = []
        kind = self.variable.type.clone(broadcastable=self.variable.type.broadcastable[1:])
        for tap, offset in zip(self.taps, self.offsets):
            row = kind(_at(self.variable, tap))
            copy_test_value(self.ordered, row, lambda value, offset=offset: value[offset])
            self.rows.append(row)

    def n_steps(self):
        """Return the number of steps for which all rows exist."""
        length = self.variable.shape[0]
        return maximum(length - self.span, 0) if self.span else length

    def first_rows(self):
        """Return the rows at step 0."""
        return [self.ordered[offset] for offset in self.offsets]

    def from_taps(self, n_steps):
        """Return one variable for each tap. Each variable contains one row for each step."""
        if self.is_whole:
            return [self.ordered]
        return [
            self.ordered[offset : n_steps + offset] if offset else self.ordered[:n_steps] for offset in self.offsets
        ]


class _State:
    """An output with its initial state.

    Attributes
    ----------
    initial : TensorVariable or None
    taps : list of int
        The taps. The list is empty for an output that no step reads.
    rows : list of Variable
        One variable for each tap. In the graph of a step, it stands for the row that the tap selects.
    output : Variable
        The output of a step.
    result : Variable
        The results of all steps.
    """

    output: Any
    result: Any

    def __init__(self, initial, taps, i):
        self.initial, self.taps, self.number = initial, taps, i
        self.lead = -min(taps, default=0)
        self.rows = []
        for tap in taps:
            broadcastable = initial.type.broadcastable
            row = initial.type.clone(broadcastable=broadcastable if taps == [-1] else broadcastable[1:])(
                _at(initial, tap)
            )
            copy_test_value(initial, row, lambda value, tap=tap: value if taps == [-1] else value[tap + self.lead])
            self.rows.append(row)

    @classmethod
    def of(cls, info, i):
        """Make a state from an entry of `outputs_info`."""
        if info is None:
            return cls(None, [], i)
        if not isinstance(info, dict):
            return cls(as_tensor_variable(info), [-1], i)
        if info.get("return_steps") is not None:
            raise ValueError(
                "Using `return_steps` has been deprecated. Simply select the entries you need using a subtensor. Scan will optimize memory "
                "consumption, so do not worry about that."
            )
        _warn_of_unknown(info, ("initial", "taps", "return_steps", "inplace"), "Output %d" % i)
        initial, taps = info.get("initial"), info.get("taps", [-1])
        if initial is None or taps is None:
            return cls(None, [], i)
        taps = _as_taps(taps)
        if any(tap >= 0 for tap in taps):
            raise ValueError("All the tap values must be smaller than 0. Output %d has the taps %s" % (i, taps), info)
        if len(set(taps)) < len(taps):
            raise ValueError("All the taps must be different in `outputs_info`. Output %d has %s" % (i, taps), info)
        initial = as_tensor_variable(initial)
        if taps != [-1] and initial.ndim == 0:
            raise ValueError(
                "Output %d has the taps %s, and its initial state %s is a scalar: it must contain the rows before "
                "step 0, so it needs one dimension more than the output" % (i, taps, initial)
            )
        return cls(initial, taps, i)

    def first_rows(self):
        """Return the rows at step 0."""
        return [self.initial if self.taps == [-1] else self.initial[tap + self.lead] for tap in self.taps]

    def buffer(self, n_steps):
        """Return the initial rows, followed by one uninitialized row for each step."""
        lengths = [self.initial.shape[i] for i in range(self.initial.ndim)]
        if self.taps == [-1]:
            rows = unbroadcast(shape_padleft(self.initial), 0)
        else:
            # Check the number of rows, because `set_subtensor` would broadcast a single row to all initial rows.
            enough = AssertShape("The initial state %s has too few rows: its taps are %s" % (self.initial, self.taps))
            rows = enough(self.initial, lengths.pop(0) >= self.lead)[: self.lead]
        return set_subtensor(AllocEmpty(rows.dtype)(n_steps + self.lead, *lengths)[: self.lead], rows)


class _SharedState(_State):
    """A shared tensor that the steps change. It is represented as a state of the loop."""

    def __init__(self, shared, row, output):
        self.shared, self.output = shared, output
        self.initial, self.taps, self.lead, self.rows = tensor_or_other(shared), [-1], 1, [row]


class _Step:
    """The graph of a step, with copies of the outer variables as inputs.

    Attributes
    ----------
    copies : dict
        Outer variable -> its copy in the step.
    unchanged : list of Variable
        The outer variables that have the same value in all steps.
    outputs : list of Variable
    updates : list of pairs
        Pairs: shared variable, its value after a step.
    condition : Variable or None
    """

    def __init__(self, outputs, updates, condition, arguments, others, strict):
        blockers = {*arguments, *(v for v in others if not isinstance(v, (Constant, SharedVariable)))}
        pending = dict(updates)
        roots = outputs + ([condition] if condition is not None else []) + list(pending.values())
        used, reached = list(dict.fromkeys(pending)), set(pending)
        while roots:
            found = [
                v for v in ancestors(roots[::-1], blockers) if (v.owner is None or v in blockers) and v not in reached
            ]
            reached.update(found)
            used.extend(found)
            roots = []
            for v in found:
                default = getattr(v, "default_update", None)
                if default is not None and v not in pending:
                    pending[v] = default
                    roots.append(default)
        own = set(arguments)
        captured = [v for v in used if v not in own and not isinstance(v, Constant)]
        if strict:
            missing = [
                v for v in captured if isinstance(v, SharedVariable) and v not in pending and v not in set(others)
            ]
            if missing:
                raise _missing_input(missing[0], ancestors(outputs + list(pending.values()), blockers))
        # Include non-sequences that the step does not use. The loop depends on them until a rule removes them, so that
        # `function` does not report them as unused inputs.
        given = [v for v in dict.fromkeys(others) if not isinstance(v, (Constant, SharedVariable))]
        shared = [v for v in captured if isinstance(v, SharedVariable)]
        explicit = set(given)
        free = [v for v in captured if not isinstance(v, SharedVariable) and v not in explicit]
        self.unchanged = [v for v in shared if v not in pending] + given + free
        self.copies = {v: _copy_of(v) for v in [*pending, *self.unchanged]}
        inside = {v: copy if copy.type == v.type else v.type.filter_variable(copy) for v, copy in self.copies.items()}
        results = outputs + ([condition] if condition is not None else []) + list(pending.values())
        results = substitute(results, {**inside, **{v: v for v in arguments}})
        self.outputs = results[: len(outputs)]
        self.condition = None if condition is None else results[len(outputs)]
        self.updates = list(zip(pending, results[len(results) - len(pending) :]))


def _copy_of(v):
    """Return the copy of an outer variable for a step.

    The copy of a device variable is a tensor on the host. So steps can be differentiated, and rules can move whole
    loops to a device.
    """
    copy = safe_new(tensor_or_other(v), "_copy")
    if v.name is not None:
        copy.name = v.name + "_copy"
    return copy


def _missing_input(shared, variables):
    """Return the error for a shared variable that is not given to a strict loop."""
    users = [v.owner for v in variables if v.owner is not None and shared in v.owner.inputs]
    return MissingInputError(
        "An input of the graph, used to compute %s, was not provided and not given a value: ScanOp is missing an "
        "input: %s. With strict=True, list all shared variables that the step uses in `sequences` or `non_sequences`"
        % (users[0] if users else "what the step returns", shared),
        variable=shared,
    )


def as_sequence(given, i):
    """Return a sequence as a variable with a leading dimension."""
    given = tensor_or_other(np.asarray(given) if isinstance(given, range) else given)
    if not isinstance(given.type, TensorType):
        raise TypeError(
            "Sequence %d, %s, has type %s, but the steps iterate over the rows of a tensor" % (i, given, given.type)
        )
    if given.ndim == 0:
        raise ValueError(
            "Sequence %d, %s, is a scalar, but the steps iterate over the leading dimension: it needs at least one "
            "dimension" % (i, given)
        )
    return given


def _as_taps(taps):
    return [int(tap) for tap in taps] if isinstance(taps, (list, tuple, np.ndarray)) else [int(taps)]


def _warn_of_unknown(given, known, what):
    unknown = [key for key in given if key not in known]
    if unknown:
        warnings.warn(
            "%s: the unknown keys %s are ignored; known keys are %s" % (what, unknown, list(known)), stacklevel=4
        )


def _at(variable, tap):
    """Return the name for the row of a sequence or state at a tap. Return None if the variable has no name."""
    return None if variable.name is None else "%s[t%s]" % (variable.name, "%+d" % tap if tap else "")


def _number_of_steps(n_steps, sequences):
    """Return the number of steps as a variable."""
    if n_steps is not None:
        n_steps = integer_scalar(n_steps, "n_steps")
        if (_known(n_steps) or 0) < 0:
            raise ValueError(
                "n_steps is %d: negative numbers of steps are not supported; use go_backwards=True to read the "
                "sequences backwards" % _known(n_steps)
            )
        return n_steps
    if not sequences:
        raise ValueError(
            "No information about the number of steps provided. Either provide a value for n_steps argument of scan or provide an input sequence"
        )
    lengths = [s.n_steps() for s in sequences]
    sequences[0].is_whole = len(sequences) == 1 and sequences[0].taps == [0]
    n_steps = lengths[0]
    for length in lengths[1:]:
        n_steps = minimum(n_steps, length)
    return n_steps


def _known(n_steps):
    """Return a number of steps as an int if it is constant. Otherwise return None."""
    try:
        return int(get_scalar_constant_value(n_steps))
    except NotScalarConstantError:
        return None


def _one_step(fn, sequences, states, others, return_list):
    """Return the outputs of a single step, without a loop."""
    arguments = [row for s in sequences + states for row in s.first_rows()]
    _, outputs, updates = get_updates_and_outputs(fn(*arguments, *others))
    return _returned([unbroadcast(shape_padleft(out), 0) for out in outputs], return_list), updates


def _returned(outputs, return_list):
    if return_list or len(outputs) > 1:
        return outputs
    return outputs[0] if outputs else None


lend_modules(__package__, scan)
