"""A loop keeps the rows of its outputs that are read, and does the steps that they need."""

from theano_ng.configdefaults import config
from theano_ng.gof.rewriting import copy_stack_trace
from theano_ng.scan.args import scan_args
from theano_ng.scan.opt.common import LoopOptimizer, made, number
from theano_ng.scan.opt.outside import allocated, has_all_rows, is_sum
from theano_ng.scan.opt.reads import index_of_row, lengths_of_rows, reads, reads_row_that_exists
from theano_ng.tensor.basic import as_tensor_variable, minimum
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.broadcasting import patternbroadcast


class ScanSaveMem(LoopOptimizer):
    """Buffers have room for the rows that the outer graph reads, and for those that later steps need.

    Where rows at the beginning are read alone, and no condition ends the loop, there are fewer steps.

    scan(exp, A)[0][-1]  ->  scan(exp, A)[0].owner.op(A.shape[0], A, 1)[-1]
    scan(exp, A)[0][1]  ->  scan(exp, A, n_steps=T.minimum(A.shape[0], 2))[0].owner.op(T.minimum(A.shape[0], 2), A, T.minimum(A.shape[0], 2))[1]
    """

    def process_node(self, fgraph, node):
        while node is not None:
            node = self._shorten(fgraph, node)

    def _shorten(self, fgraph, node):
        """Keep less of a loop; the new node if it has a known number of steps that is smaller, and of which other rows are the last ones."""
        args = scan_args.of(node)
        outputs = _outputs(args)
        if not outputs:
            return None
        n_steps = number(args.n_steps)
        steps = _steps_needed(args, outputs, n_steps)
        if steps is not None:
            args.n_steps = as_tensor_variable(steps) if n_steps is not None else minimum(args.n_steps, steps)
            n_steps = steps if n_steps is not None else None
        changed = [out.shorten(args, n_steps, steps is not None) for out in outputs]
        if steps is None and not any(changed):
            return None
        new = made(args)
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
    """An output with all of its rows, and who reads it.

    Attributes
    ----------
    group, place, lead
        Where it is in the `scan_args`, and how many rows are initial ones.
    outer : Variable
    reads : list of Read
    """

    def __init__(self, group, place, lead, outer, n_steps):
        self.group, self.place, self.lead, self.outer = group, place, lead, outer
        self.reads = reads(outer, None if n_steps is None else n_steps + lead)

    def last(self):
        """How many rows are kept for those who read them, all at the end; None when some read others."""
        rows = 0
        for read in self.reads:
            if read.last is None:
                return None
            # out[skipped:][-1] of a buffer with room for `skipped` rows and one more is the newest one, and fails where there is none.
            rows = max(rows, read.last + (0 if reads_row_that_exists(read) else read.skipped or 0))
        return rows

    def first(self):
        """How many rows at the beginning are read; None when some read others."""
        firsts = [read.first for read in self.reads]
        return None if None in firsts else max(firsts, default=0)

    def shorten(self, args, n_steps, fewer_steps):
        """Change the buffer; whether there is another one.

        Parameters
        ----------
        args : scan_args
            With the new number of steps.
        n_steps : int or None
            How many that is, if it is known.
        fewer_steps : bool
            Whether there were more before.
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
            # A step that writes its result into the buffer must not overwrite the row that it still reads.
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
        """Pairs of a variable that reads some rows, and of what reads them in a shorter output.

        The output itself is not replaced: the graph takes what replaces a variable to be of the same shape. `from_end`: whether the rows that
        are left out are the first ones, and not the last ones.
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
    """The outputs that have all their rows."""
    # With a condition there may be fewer.
    n_steps = None if args.as_while else number(args.n_steps)
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
    """How many steps are enough, as an int; None when that is not known, or no less than there are."""
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
    """A buffer with another number of rows and the same initial ones.

    Parameters
    ----------
    buffer : Variable
        See `allocated`.
    rows : int or Variable
    lead : int
        How many rows are initial ones.
    """
    node, setting = allocated(buffer)
    fixed = len(node.inputs) - len(node.outputs[0].broadcastable)  # what Alloc repeats
    inputs = list(node.inputs)
    inputs[fixed] = as_tensor_variable(rows)
    new = node.op(*inputs)
    if setting is not None:
        new = set_subtensor(new[:lead], setting.inputs[1])
    return patternbroadcast(new, buffer.broadcastable)
