"""A rule that keeps only the rows of a loop's outputs that are read, and only the steps that these rows need."""

from theano_ng.configdefaults import config
from theano_ng.gof.rewriting import copy_stack_trace
from theano_ng.scan.args import scan_args
from theano_ng.scan.opt.common import LoopOptimizer, constant_int, make_loop
from theano_ng.scan.opt.outer_graph import allocated, has_all_rows, is_sum
from theano_ng.scan.opt.reads import index_of_row, lengths_of_rows, reads, reads_row_that_exists
from theano_ng.tensor.basic import as_tensor_variable, minimum
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.broadcasting import patternbroadcast


class ScanSaveMem(LoopOptimizer):
    """An optimizer that shortens buffers to the rows that the outer graph or later steps read.

    If only rows at the beginning are read, and the loop has no condition, the optimizer reduces the number of steps.

    scan(exp, A)[0][-1]  ->  scan(exp, A)[0].owner.op(A.shape[0], A, 1)[-1]
    scan(exp, A)[0][1]  ->  scan(exp, A, n_steps=T.minimum(A.shape[0], 2))[0].owner.op(T.minimum(A.shape[0], 2), A, T.minimum(A.shape[0], 2))[1]
    """

    def process_node(self, fgraph, node):
        while node is not None:
            node = self._shorten(fgraph, node)

    def _shorten(self, fgraph, node):
        """Shorten a loop. Return the node of the new loop if its number of steps is smaller and constant.

        The buffers of such a loop can perhaps be shortened further, because they now end at an earlier step. In all
        other cases, return None.
        """
        args = scan_args.of(node)
        outputs = _outputs(args)
        if not outputs:
            return None
        n_steps = constant_int(args.n_steps)
        steps = _steps_needed(args, outputs, n_steps)
        if steps is not None:
            args.n_steps = as_tensor_variable(steps) if n_steps is not None else minimum(args.n_steps, steps)
            n_steps = steps if n_steps is not None else None
        changed = [out.shorten(args, n_steps, steps is not None) for out in outputs]
        if steps is None and not any(changed):
            return None
        new = make_loop(args)
        pairs = []
        shorter = {out.outer: out for out, short in zip(outputs, changed) if short or steps is not None}
        for old, var in zip(node.outputs, new):
            if old in shorter:
                pairs.extend(shorter[old].replacements(var, steps is None))
            elif old.clients:
                pairs.append((old, var))
        for old, var in pairs:
            copy_stack_trace(old, var)
        fgraph.replace_all_validate_remove(pairs, remove=[node], reason=self.name)
        return new[0].owner if steps is not None and n_steps is not None else None


class _Output:
    """An output that has a row for each step, and its readers.

    Attributes
    ----------
    group, place, lead
        The position of the output in the `scan_args`, and its number of initial rows.
    outer : Variable
    reads : list of Read
    """

    def __init__(self, group, place, lead, outer, n_steps):
        self.group, self.place, self.lead, self.outer = group, place, lead, outer
        self.reads = reads(outer, None if n_steps is None else n_steps + lead)

    def last(self):
        """Return the number of rows at the end that must be kept for the readers, or None if other rows may be read."""
        rows = 0
        for read in self.reads:
            if read.last is None:
                return None
            # out[skipped:] must not be empty if the row exists, and out[skipped:][-1] must fail if it does not exist.
            # So keep `skipped` more rows, unless the row is known to exist.
            rows = max(rows, read.last + (0 if reads_row_that_exists(read) else read.skipped or 0))
        return rows

    def first(self):
        """Return the number of rows at the beginning that are read, or None if other rows may be read."""
        firsts = [read.first for read in self.reads]
        return None if None in firsts else max(firsts, default=0)

    def shorten(self, args, n_steps, fewer_steps):
        """Shorten the buffer of the output in `args`, if possible. Return True if the buffer has changed.

        Parameters
        ----------
        args : scan_args
            Variables of the loop, with the new number of steps.
        n_steps : int or None
            The new number of steps, if known.
        fewer_steps : bool
            Whether the number of steps has been reduced.
        """
        rows = None if fewer_steps else self.last()
        if self.group == "nit_sot":
            if rows is None or n_steps is not None and rows >= n_steps:
                if not fewer_steps:
                    return False
                args.outer_in_nit_sot[self.place] = args.n_steps
                return True
            args.outer_in_nit_sot[self.place] = as_tensor_variable(max(rows, 1))
            return True
        if rows is not None:
            # Add a row if steps may compute into the buffer: a step must not overwrite a row that it still reads.
            rows = max(rows, self.lead + bool(config.scan.allow_output_prealloc))
            if n_steps is not None and rows >= self.lead + n_steps:
                rows = None
        if rows is None and not fewer_steps:
            return False
        rows = args.n_steps + self.lead if rows is None else rows
        buffers = getattr(args, "outer_in_" + self.group)
        buffers[self.place] = with_rows(buffers[self.place], rows, self.lead)
        return True

    def replacements(self, new, from_end):
        """Return pairs of a variable that reads rows of the output, and its replacement, which reads a shorter output.

        The output itself is not replaced, because the graph assumes that a replacement has the same shape. If
        `from_end`, the new output lacks the first rows. Otherwise it lacks the last rows.
        """
        pairs = [(node.outputs[0], node.op(new)) for node in lengths_of_rows(self.outer)]
        for read in self.reads:
            source = new
            index = list(read.node.inputs[1:])
            row = index_of_row(read, from_end)
            if row is not None:
                index[0] = index[0].type.make_constant(row)
            if read.skipped is not None and not (from_end and reads_row_that_exists(read)):
                source = new[read.skipped :]
            pairs.append((read.node.outputs[0], read.node.op(source, *index)))
        return pairs


def _outputs(args):
    """Return the outputs that have a row for each step."""
    # With a condition, the number of rows is unknown.
    n_steps = None if args.as_while else constant_int(args.n_steps)
    found = []
    for group, i, lead, _, _, _ in args.states():
        buffer = getattr(args, "outer_in_" + group)[i]
        if group != "mit_mot" and has_all_rows(buffer, lead, args.n_steps):
            found.append(_Output(group, i, lead, getattr(args, "outer_out_" + group)[i], n_steps))
    for i, (rows, outer) in enumerate(zip(args.outer_in_nit_sot, args.outer_out_nit_sot)):
        if is_sum(rows, args.n_steps, 0):
            found.append(_Output("nit_sot", i, 0, outer, n_steps))
    return found


def _steps_needed(args, outputs, n_steps):
    """Return a sufficient number of steps as an int. Return None if it is unknown, or not smaller than `n_steps`."""
    if args.as_while or len(outputs) < len(args.outer_outputs) or any(v.clients for v in args.outer_out_shared):
        return None
    steps = 0
    for out in outputs:
        first = out.first()
        if first is None:
            return None
        steps = max(steps, first - out.lead)
    return None if n_steps is not None and n_steps <= steps else steps


def with_rows(buffer, rows, lead):
    """Return a buffer with another number of rows and the same initial rows.

    Parameters
    ----------
    buffer : Variable
        An allocated buffer; see `allocated`.
    rows : int or Variable
    lead : int
        Number of initial rows.
    """
    node, setting = allocated(buffer)
    fixed = len(node.inputs) - len(node.outputs[0].broadcastable)  # number of inputs before the lengths
    inputs = list(node.inputs)
    inputs[fixed] = as_tensor_variable(rows)
    new = node.op(*inputs)
    if setting is not None:
        new = set_subtensor(new[:lead], setting.inputs[1])
    return patternbroadcast(new, buffer.broadcastable)
