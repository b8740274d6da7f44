"""Rows of outer variables: which rows hold the values of a loop's steps, and how indices select rows."""

from theano_ng.compile.ops import Shape
from theano_ng.gof.differentiate import is_zero
from theano_ng.gof.graph import Constant, Variable
from theano_ng.scalar import Add
from theano_ng.scan.groups import Groups
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.shaping.allocation import AllocEmpty
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor

__all__ = ["Rows", "has_length", "is_filled_by", "written_index"]


class Rows:
    """The values of an inner variable in all steps, as rows of an outer variable: ``source[first:last]``.

    `last` is an int that counts from the end, a variable, or None for all rows up to the end.
    """

    def __init__(self, source, first=0, last=None):
        self.source, self.first, self.last = source, first, last

    def forward(self):
        """Return the rows in order of time."""
        return self.source if not self.first and self.last is None else self.source[self.first : self.last]

    def backward(self):
        """Return the rows in reversed order of time: the latest row comes first."""
        if isinstance(self.last, Variable):
            return self.forward()[::-1]
        return self.source[None if self.last is None else self.last - 1 : self.first - 1 if self.first else None : -1]


def has_length(sequence, n_steps):
    """Return True if a sequence is known to have exactly `n_steps` rows, given that it has at least `n_steps` rows.

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
        if v is sequence and _rows_of_loop(v.owner.inputs[0], index, n_steps):
            return True
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


def _rows_of_loop(v, index, n_steps):
    """Return True if a slice of a variable has one row for each step of the loop that computes it."""
    node = v.owner
    if node is None or not isinstance(node.op, Groups) or node.op.as_while or node.inputs[0] is not n_steps:
        return False
    op, number = node.op, node.outputs.index(v)
    if not op.n_mit_mot <= number < op.n_buffers:
        return False
    start, stop = (None if part is None else _number(part) for part in (index.start, index.stop))
    if (start is None) != (index.start is None) or (stop is None) != (index.stop is None):
        return False
    step = 1 if index.step is None else _number(index.step)
    if step == 1:
        before, after = start or 0, -(stop or 0)
    elif step == -1:
        before, after = 0 if stop is None else stop + 1, 0 if start is None else -start - 1
    else:
        return False
    return before >= 0 and after >= 0 and before + after == (op.lead(number) if number < op.n_states else 0)


def _number(v):
    """Return an index as an int, or None if it is not known."""
    return int(v.data) if isinstance(v, Constant) else int(v) if isinstance(v, int) else None


def _is_sum(stop, n_steps, start):
    """Return True if an index is the number of steps, plus `start` if `start` is given."""
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


def written_index(v):
    """If `inc_subtensor` computes a variable by adding an array to zeros at a constant index, return this index of the
    first dimension: an int, or a slice with a start only. Otherwise return None.
    """
    node = v.owner
    if node is None or not isinstance(node.op, IncSubtensor) or node.op.set_instead_of_inc:
        return None
    index = get_idx_list(node.inputs[:1] + node.inputs[2:], node.op.idx_list)
    if len(index) != 1 or node.inputs[1].type.ndim != v.type.ndim - (not isinstance(index[0], slice)):
        return None
    if is_zero(node.inputs[0]) != "yes":
        return None
    if isinstance(index[0], slice):
        start = _number(index[0].start)
        return slice(start, None) if start is not None and index[0].stop is None and index[0].step is None else None
    return _number(index[0])


def is_filled_by(buffer, lead):
    """Return True if a buffer is uninitialized memory of which only the first `lead` rows were set."""
    node = buffer.owner
    if node is None or not isinstance(node.op, IncSubtensor) or not node.op.set_instead_of_inc:
        return False
    memory = node.inputs[0].owner
    index = get_idx_list(node.inputs[:1] + node.inputs[2:], node.op.idx_list)
    return (
        memory is not None
        and isinstance(memory.op, AllocEmpty)
        and len(index) == 1
        and isinstance(index[0], slice)
        and index[0].start is None
        and index[0].step is None
        and _number(index[0].stop) == lead
    )
