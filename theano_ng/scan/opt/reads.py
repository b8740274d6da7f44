"""The nodes that read rows of a loop's output, and the rows that a node reads if its index is constant."""

from collections import namedtuple

from theano_ng.compile.ops import Shape_i
from theano_ng.gof.graph import Constant
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import Subtensor

Read = namedtuple("Read", "node skipped last first index length")
"""A node that reads rows of an output: ``out[skipped:][...]``, or ``out[...]`` if `skipped` is None.

If `last` is not None, the node reads only rows among the last `last` rows of the output. If `first` is not None, it
reads only rows among the first `first` rows. If both are None, it may read any rows. `index` is the first index of the
node. `length` is the number of rows to which the index applies, or None if this number is not known.
"""


def index_of_row(read, from_end):
    """Return the index of the row that is read, counted from the end if `from_end` is true, otherwise from the start.

    Return None if the index already counts in this way, or if it is not a constant int.
    """
    if not isinstance(read.index, int) or (read.index < 0) == from_end:
        return None
    return read.index - read.length if from_end else read.index + read.length


def reads_row_that_exists(read):
    """Return True if one row is read, and the loop is known to have this row."""
    return isinstance(read.index, int) and read.length is not None and -read.length <= read.index < read.length


def reads(out, length=None):
    """Return the reads of rows of an output.

    Parameters
    ----------
    out : Variable
        A variable of a FunctionGraph.
    length : int, optional
        Number of rows, if known.

    Returns
    -------
    list of Read
        The list omits clients that need only the lengths of rows. If a client reads all rows or unknown rows, `last`
        and `first` are None.
    """
    found = []
    for client, i in out.clients:
        if client == "output":
            found.append(Read(None, None, None, None, None, None))
            continue
        if _wants_lengths_of_rows(client):
            continue
        index = _first_index(client, i)
        if _is_rest(index) and len(client.op.idx_list) == 1:
            # `client` is out[start:]. The clients of its output read the rows.
            found.extend(_reads_of_rest(client, index.start or 0, length))
            continue
        found.append(Read(client, None, *_range(index, length), index, length))
    return found


def _reads_of_rest(node, skipped, length):
    (rest,) = node.outputs
    rest_length = None if length is None else max(0, length - skipped)
    found = []
    for client, i in rest.clients:
        if client != "output" and _wants_lengths_of_rows(client):
            continue
        index = Ellipsis if client == "output" else _first_index(client, i)
        last, first = _range(index, rest_length)
        if last is None and first is None:
            # This client may read any row of out[skipped:].
            return [Read(node, None, None, None, None, None)]
        found.append(Read(client, skipped, last, None if first is None else first + skipped, index, rest_length))
    return found


def lengths_of_rows(out):
    """Return the nodes that need only the lengths of rows of an output, directly or through ``out[skipped:]``. Outputs
    of the function are left out.

    The input of these nodes can be replaced by any variable with rows of these lengths.
    """
    rests = [client for client, i in out.clients if _is_rest(_first_index(client, i))]
    clients = [client for v in (out, *[rest.outputs[0] for rest in rests]) for client, _ in v.clients]
    return [client for client in clients if client != "output" and _wants_lengths_of_rows(client)]


def _wants_lengths_of_rows(node):
    return isinstance(node.op, Shape_i) and node.op.i > 0


def _is_rest(index):
    """Return True if an index selects all rows from a constant row to the end."""
    if not isinstance(index, slice) or index.stop is not None or index.step is not None:
        return False
    return _is_int(index.start) and (index.start or 0) >= 0


def _is_int(v):
    return v is None or isinstance(v, int)


def _first_index(node, i):
    """Return the index along the first dimension with which a node reads a variable as its input `i`. Constants become
    ints. Return Ellipsis for nodes that are not Subtensor.
    """
    if not isinstance(node.op, Subtensor) or i:
        return Ellipsis
    entry = get_idx_list(node.inputs, node.op.idx_list)[0]
    if not isinstance(entry, slice):
        return _int_or(entry)
    step = _int_or(entry.step)
    return slice(_int_or(entry.start), _int_or(entry.stop), None if step == 1 else step)


def _int_or(v):
    """Return a constant as an int. None and unknown values are returned unchanged."""
    return int(v.data) if isinstance(v, Constant) and v.data is not None else v


def _range(index, length):
    """Return (last, first) of `Read` for an index."""
    last, first = _by_form(index)
    # Count the index from the other end, too, but only if the row exists: reading a row that does not exist must fail.
    if length is not None and isinstance(index, int) and -length <= index < length:
        return (length - index, first) if last is None else (last, length + index + 1)
    return last, first


def _by_form(index):
    if isinstance(index, int):
        return (-index, None) if index < 0 else (None, index + 1)
    if not isinstance(index, slice) or not all(map(_is_int, (index.start, index.stop, index.step))):
        return None, None
    start, stop, step = index.start, index.stop, index.step or 1
    if start is not None and stop is not None and (start < 0) != (stop < 0):
        return None, None  # start and stop count from different ends, so the rows depend on the number of rows
    if step > 0:
        if start is not None and start < 0:
            return -start, None
        return (None, stop) if stop is not None and stop >= 0 else (None, None)
    if stop is not None and stop < 0 and (start is None or start < 0):
        return -stop - 1, None
    return (None, start + 1) if start is not None and start >= 0 else (None, None)
