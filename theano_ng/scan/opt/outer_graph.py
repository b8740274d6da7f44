"""Inner variables of a Scan that the outer graph contains or can compute."""

from theano_ng.compile.ops import Rebroadcast, Shape, Shape_i
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace
from theano_ng.scan.opt.common import constant_int, same_int
from theano_ng.scan.opt.stacking import fitted, plan
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.basic import add, alloc, ge, shape_padleft, sub
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor


class OuterGraph:
    """A map from inner variables of a Scan to outer variables that the outer graph contains or can compute.

    Parameters
    ----------
    args : scan_args
    n_steps : Variable, optional
        The number of steps that are executed. It is given if a condition may end the loop. By default,
        ``args.n_steps``.

    Attributes
    ----------
    same : set of Variable
        Inner variables that are the same in all steps, and that the outer graph has or can compute.
    rows : set of Variable
        Inner variables for which the outer graph has a row for each step.
    """

    def __init__(self, args, n_steps=None):
        self.args = args
        self.n_steps = args.n_steps if n_steps is None else n_steps
        self.same = set(args.inner_in_non_seqs)
        self.rows = set(args.inner_in_seqs)
        self._known = dict(zip(args.inner_in_non_seqs, args.outer_in_non_seqs))
        self._later = {
            inner: lambda outer=outer: rows_of(outer, self.n_steps)
            for inner, outer in zip(args.inner_in_seqs, args.outer_in_seqs)
        }
        # A dict from an inner state to its outer buffer. It is used for shapes: all rows of a buffer have the shape of
        # the state.
        self._buffers = {}
        for group, i, _, inner, _, _ in args.states():
            self._buffers.update(dict.fromkeys(inner, getattr(args, "outer_in_" + group)[i]))
        self._plans, self._padded = {}, {}
        self._sequences, self._condition = list(args.outer_in_seqs), None

    # -- checks

    def knows(self, v):
        """Return True if the outer graph has or can compute a variable."""
        return v in self.same or v in self.rows or isinstance(v, Constant)

    def stacked(self, node):
        """Return one bool for each input of a node: False if the input is known to be the same in all steps."""
        return [not (v in self.same or isinstance(v, Constant)) for v in node.inputs]

    def record_if_invariant(self, node):
        """Return True if a node computes the same value in all steps. In this case, record its outputs as known.

        Parameters
        ----------
        node : Apply
            A node whose inputs were visited before.

        Returns
        -------
        bool
        """
        if not any(self.stacked(node)):
            self.same.update(node.outputs)
            return True
        v = node.inputs[0]
        if type(node.op) in (Shape, Shape_i) and (v in self.rows or v in self._buffers):
            self.same.update(node.outputs)
            return True
        return False

    def record_if_stackable(self, node):
        """Return True if the outer graph can compute a node for all steps by one operation. In this case, record the
        outputs of the node as known.

        Parameters
        ----------
        node : Apply
            A node whose inputs were visited before.

        Returns
        -------
        bool
        """
        if not all(map(self.knows, node.inputs)) or self.plan(node) is None:
            return False
        self.rows.update(node.outputs)
        return True

    def plan(self, node):
        """Return the plan for a node; see `stacking.plan`."""
        stacked = self.stacked(node)
        key = (node, *stacked)
        if key not in self._plans:
            self._plans[key] = plan(node, stacked) if any(stacked) else None
        return self._plans[key]

    # -- errors of the loop

    def checked(self, v, fgraph):
        """Return `v` with an `Assert` that raises the errors that the loop would raise before its first step.

        Parameters
        ----------
        v : Variable
            A value that the outer graph computes instead of the loop.
        fgraph : FunctionGraph
            The graph that contains the loop.

        Returns
        -------
        Variable
            `v` itself if the loop cannot raise these errors.
        """
        if self._condition is None:
            self._condition = list(self._conditions(fgraph))
        if not self._condition:
            return v
        return Assert(
            "The loop %s got a negative number of steps, or a sequence that is shorter than the number of steps"
            % self.args.other_info.get("name")
        )(v, *self._condition)

    def _conditions(self, fgraph):
        shapes, n_steps = fgraph.shape_feature, self.n_steps
        if not shapes.never_less(n_steps, constant(0, dtype="int64")):
            yield ge(n_steps, 0)
        for sequence in self._sequences:
            base, start = _whole(sequence, n_steps)
            length = shapes.get_shape(base, 0)
            if not shapes.never_less(sub(length, start) if start else length, n_steps, if_positive=True):
                yield ge(sequence.shape[0] if start else length, n_steps)

    # -- building

    def defer(self, v, make):
        """Record that the outer graph can compute the rows of `v`. `of` calls ``make()`` when it needs the rows."""
        self._later[v] = make
        self.rows.add(v)

    def rows_of(self, v):
        """Return the outer variable with a row for each step. If the inner variable is the same in all steps, the rows
        are equal.
        """
        outer = self.of(v)
        return outer if v in self.rows else alloc(outer, self.n_steps, *[outer.shape[k] for k in range(outer.ndim)])

    def of(self, v):
        """Return the outer variable for a known inner variable."""
        todo = [v]
        while todo:
            v = todo[-1]
            if v in self._known:
                todo.pop()
                continue
            if v in self._later:
                self._known[v] = self._later[v]()
            elif isinstance(v, Constant):
                self._known[v] = v.clone()  # the constant itself belongs to the inner graph, so clone it
            else:
                node = v.owner
                by_shape = v in self.same and any(self.stacked(node))
                missing = (
                    []
                    if by_shape and node.inputs[0] in self._buffers
                    else [i for i in node.inputs if i not in self._known]
                )
                if missing:
                    todo.extend(missing)
                    continue
                self._compute(node)
            todo.pop()
        return self._known[v]

    def _broadcast(self, v, ndim):
        """Return an operand of an elementwise operation, padded on the left with broadcastable dimensions.

        The padded variable is stored, so that all nodes with this operand share it.
        """
        if v.ndim == ndim:
            return v
        if (v, ndim) not in self._padded:
            self._padded[v, ndim] = shape_padleft(v, ndim - v.ndim)
        return self._padded[v, ndim]

    def _compute(self, node):
        if not any(self.stacked(node)):
            copy = node.clone_with_new_inputs([self._known[i] for i in node.inputs])
            copy_stack_trace(node.outputs, copy.outputs)
            self._known.update(zip(node.outputs, copy.outputs))
            return
        build, rows = self.plan(node)
        operands = [self._known[i] if i in self._known else self._buffers[i] for i in node.inputs]
        if isinstance(node.op, Elemwise):
            operands = [self._broadcast(v, 1 + node.outputs[0].ndim) for v in operands]
        found = build(operands, self.n_steps)
        for inner, outer in zip(node.outputs, found if isinstance(found, list) else [found]):
            if rows:
                outer = fitted(outer, inner.type)
            copy_stack_trace(inner, outer)
            self._known[inner] = outer


def is_length_of(v, sequence):
    """Return True if the expression of an integer variable is the length of the first dimension of `sequence`."""
    node = v.owner
    if node is None:
        return False
    if isinstance(node.op, Shape_i):
        return node.op.i == 0 and node.inputs[0] is sequence
    if not isinstance(node.op, Subtensor) or node.inputs[0].owner is None:
        return False
    (index,) = get_idx_list(node.inputs, node.op.idx_list)
    shape = node.inputs[0].owner
    return (
        not isinstance(index, slice)
        and constant_int(index) == 0
        and isinstance(shape.op, Shape)
        and shape.inputs[0] is sequence
    )


def rows_of(sequence, n_steps):
    """Return the rows of a sequence that a loop reads: one row for each step."""
    v = sequence
    while v is not None:
        if is_length_of(n_steps, v) or _first_slice(v, n_steps) is not None:
            return sequence
        v = _of_same_length(v)
    return sequence[:n_steps]


def _of_same_length(v):
    """Return an input of the node that computes `v`, if the Op implies that this input has as many rows as `v`.
    Otherwise, return None.
    """
    node = v.owner
    if node is None:
        return None
    if isinstance(node.op, DimShuffle):
        return node.inputs[0] if node.op.new_order[:1] == (0,) else None
    if isinstance(node.op, Elemwise):
        return next((i for i in node.inputs if not i.broadcastable[0]), None) if v.ndim else None
    if isinstance(node.op, Subtensor):
        entry = get_idx_list(node.inputs, node.op.idx_list)[0]
        if not isinstance(entry, slice) or entry.start is not None or entry.stop is not None:
            return None
        return node.inputs[0] if entry.step is None or abs(constant_int(entry.step) or 0) == 1 else None
    keeps_rows = isinstance(node.op, Rebroadcast) and v.ndim or isinstance(node.op, Dot) and node.inputs[0].ndim == 2
    return node.inputs[0] if keeps_rows else None


def _whole(sequence, n_steps):
    """If a sequence is computed from a slice with the same number of rows, return the sliced variable and the start.

    The slice has ``n_steps`` rows, or fewer rows if the sliced variable is too short. If the sequence is not computed
    from such a slice, return the sequence and 0.
    """
    v = sequence
    while v is not None:
        found = _first_slice(v, n_steps)
        if found is not None:
            return found
        v = _of_same_length(v)
    return sequence, 0


def _first_slice(v, n_steps):
    """Return the sliced variable and the first index if `v` is a slice for ``n_steps`` rows with a constant start.
    Otherwise return None.

    The slice has fewer rows if the sliced variable is too short.
    """
    node = v.owner
    if node is None or not isinstance(node.op, Subtensor):
        return None
    entry = get_idx_list(node.inputs, node.op.idx_list)[0]
    if not isinstance(entry, slice) or entry.stop is None or entry.step is not None and constant_int(entry.step) != 1:
        return None
    start = 0 if entry.start is None else constant_int(entry.start)
    stop = _as_tensor(entry.stop)
    if start is None or start < 0:
        return None
    if stop is n_steps and not start or is_sum(stop, n_steps, start):
        return node.inputs[0], start
    both = constant_int(stop), constant_int(n_steps)
    return (node.inputs[0], start) if None not in both and both[0] - start == both[1] else None


def _as_tensor(v):
    """Return the 0-d tensor from which ScalarFromTensor makes `v`. Return `v` itself if another Op computes it."""
    return v.owner.inputs[0] if v.owner is not None and isinstance(v.owner.op, ScalarFromTensor) else v


def is_sum(v, n_steps, lead):
    """Return True if an integer variable is known to equal ``n_steps + lead``.

    The function examines the expression of `v`. If `v` and `n_steps` are constants, it compares their values.
    """
    node = v.owner
    if node is not None and node.op == add and len(node.inputs) == 2:
        a, b = node.inputs
        return a is n_steps and constant_int(b) == lead or b is n_steps and constant_int(a) == lead
    if not lead:
        return same_int(v, n_steps)
    both = constant_int(v), constant_int(n_steps)
    return None not in both and both[0] == both[1] + lead


def allocated(buffer):
    """Return the node of `Alloc` or `AllocEmpty` that allocates a buffer, and the node that sets the first rows of the
    buffer.

    The second element is None if no node sets the first rows. If another Op computes the buffer, return None.

    Returns
    -------
    (Apply, Apply or None), or None
    """
    setting = None
    node = buffer.owner
    if node is not None and isinstance(node.op, IncSubtensor) and node.op.set_instead_of_inc:
        index = get_idx_list(node.inputs[1:], node.op.idx_list)
        if (
            len(index) == 1
            and isinstance(index[0], slice)
            and index[0].step is None
            and (index[0].start is None or constant_int(index[0].start) == 0)
        ):
            setting, node = node, node.inputs[0].owner
    if node is None or not isinstance(node.op, (Alloc, AllocEmpty)):
        return None
    return node, setting


def length_of_buffer(buffer):
    """Return the symbolic number of rows of a buffer. Return None if `allocated` finds no node that allocates it."""
    found = allocated(buffer)
    if found is None:
        return None
    node = found[0]
    return node.inputs[0 if isinstance(node.op, AllocEmpty) else 1]


def has_all_rows(buffer, lead, n_steps):
    """Return True if a buffer is known to have a row for each step, in addition to the initial rows."""
    length = length_of_buffer(buffer)
    return length is not None and is_sum(length, n_steps, lead)


def initial_row(buffer):
    """Return the only initial row of a buffer."""
    found = allocated(buffer)
    if found is not None and found[1] is None and isinstance(found[0].op, Alloc):
        value, _, *lengths = found[0].inputs
        if value.ndim < buffer.ndim:
            return alloc(value, *lengths)
    if found is None or found[1] is None:
        return buffer[0]
    row = found[1].inputs[1]
    while row.owner is not None and isinstance(row.owner.op, Rebroadcast):
        row = row.owner.inputs[0]
    if row.owner is not None and isinstance(row.owner.op, DimShuffle):
        source = row.owner.inputs[0]
        if row.owner.op.new_order == ("x", *range(source.ndim)):
            return source
    return row[0] if row.ndim == buffer.ndim else row
