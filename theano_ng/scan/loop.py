"""The Python version of the loop: it executes the same steps as `_loop.pyx`, in NumPy. Virtual machines in Python use
it, and tests compare both versions.
"""

import copy

import numpy as np

from theano_ng.gof.link_errors import raise_with_op, with_text
from theano_ng.tensor.native.alloc import empty
from theano_ng.tensor.type import TensorType

# The number of steps that the virtual machine executes before a kernel with arrays is compiled. In this
# number of steps, a kernel saves about as much time as its compilation takes.
HOT_STEPS = 50000


def check_lengths(op, n_steps, arguments):
    """Raise an error for a negative number of steps, and for buffers and sequences that are too short.

    Parameters
    ----------
    op : Scan
    n_steps : int
    arguments : list of ndarray
        The values of the outer inputs.

    Raises
    ------
    IndexError
        If the number of steps is negative.
    ValueError
        If a sequence or a buffer is too short.
    """
    if n_steps < 0:
        raise IndexError("Scan was asked to run for negative number of step %d" % n_steps)
    for i, sequence in enumerate(op.outer_seqs(arguments)):
        if len(sequence) < n_steps:
            raise ValueError(
                "Sequence %d of the loop %s is shorter than the required number of steps: it has %d rows, but there "
                "are %d steps" % (i, op.name, len(sequence), n_steps)
            )
    states = arguments[1 + op.n_seqs : 1 + op.n_seqs + op.n_states]
    for i, buffer in enumerate(states):
        taps = op.tap_array[i] + op.output_taps(i)
        # A mit_mot buffer holds all rows. The other buffers need only the rows in use.
        needed = op.lead(i) + n_steps + max(taps) if i < op.n_mit_mot else max(1, op.lead(i))
        if n_steps and len(buffer) < needed:
            raise ValueError(
                "State %d of the loop %s has %d rows, but its taps need %d" % (i, op.name, len(buffer), needed)
            )


def in_order(buffer, rows):
    """Return the last rows of a ring buffer, in order of time.

    Parameters
    ----------
    buffer : ndarray
        The buffer. Its rows are reordered in place, because the result must be in this memory if the node overwrites
        its input. Two rows are only shown in the other order, without a copy.
    rows : int
        Number of rows that were written in total.
    """
    if rows < len(buffer) or not len(buffer):
        return buffer[:rows]
    start = rows % len(buffer)
    if start and len(buffer) == 2:
        return buffer[::-1]
    if start:
        first = buffer[:start].copy()
        buffer[:-start] = buffer[start:]
        buffer[-start:] = first
    return buffer


def run(op, step, arguments, cells):
    """Run a loop.

    Parameters
    ----------
    op : Scan
    step : callable
        A function of the values of the inner inputs that returns a list of the values of the inner outputs.
    arguments : list
        The values of the outer inputs.
    cells : list of cells
        Cells for the values of the outer outputs.

    Returns
    -------
    int
        Number of steps that were executed.
    """
    n_steps = int(arguments[0])
    check_lengths(op, n_steps, arguments)
    sequences, shared = op.outer_seqs(arguments), op.outer_shared(arguments)
    given = arguments[1 + op.n_seqs : 1 + op.n_seqs + op.n_states]
    kinds = op.output_types[op.n_states : op.n_buffers]
    states = [b if i in op.destroy_map else b.copy() for i, b in enumerate(given)]
    leads = [op.lead(i) for i in range(op.n_states)]
    results, lengths, others = [None] * op.n_nit_sot, op.outer_nitsot(arguments), op.outer_non_seqs(arguments)
    done = 0
    while done < n_steps:
        rows = [
            row(state, (leads[i] + done + tap) % len(state), overwritten(op, i, tap, len(state)))
            for i, state in enumerate(states)
            for tap in op.tap_array[i]
        ]
        # `rows` holds copies of rows that the step overwrites, because the step's results may be views of its inputs.
        inputs = [*(row(s, done) for s in sequences), *rows, *shared, *others]
        try:
            outputs = step(inputs)
        except Exception as failure:
            raise_in_step(op, done, failure)
        for i, value in enumerate(op.inner_nitsot_outs(outputs)):
            if results[i] is None:
                results[i] = buffer_of(kinds[i], lengths[i], row_layout(value))
            if len(results[i]):
                assign(op, results[i], done % len(results[i]), value, op.n_states + i)
        written = iter(outputs)
        for i, (state, lead) in enumerate(zip(states, leads)):
            for tap in op.output_taps(i):
                assign(op, state, (lead + done + tap) % len(state), next(written), i)
        # Copy the values, because the next step computes into the same arrays again.
        shared = [copy_shared(value) for value in op.inner_shared_outs(outputs)]
        done += 1
        if op.as_while and outputs[-1]:
            break
    for i, (state, lead) in enumerate(zip(states, leads)):
        cells[i][0] = state if i < op.n_mit_mot else in_order(state, lead + done)
    for i, result in enumerate(results):
        cells[op.n_states + i][0] = empty_result(op, i, arguments) if result is None else in_order(result, done)
    for cell, value in zip(cells[op.n_buffers :], shared):
        cell[0] = value if done else copy_shared(value)
    return done


def row(buffer, place, copied=False):
    """Return a row as an array, which is 0-d if rows are scalars.

    The array is a view, or a copy if `copied` is true.
    """
    view = buffer[place, ...]
    return view.copy() if copied else view


def overwritten(op, state, tap, length):
    """Return True if a step overwrites the row of a tap.

    Parameters
    ----------
    op : Scan
    state, tap : int
    length : int
        Number of rows of the buffer.
    """
    return any((written - tap) % length == 0 for written in op.output_taps(state))


def copy_shared(value):
    """Copy the value of a shared variable: an array, or any other value."""
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def contiguous_copy(value):
    """Copy an array to a C-contiguous ndarray. A device array is copied on its device."""
    if not isinstance(value, np.ndarray):
        return value.copy()
    copied = empty(np.shape(value), value.dtype)
    copied[...] = value
    return copied


def empty_result(op, i, arguments):
    """Return result i of a loop without steps: an array without rows. The other lengths are the lengths of a row that a
    step would compute.

    Parameters
    ----------
    op : Scan
    i : int
    arguments : list
        The values of the outer inputs.
    """
    kind = op.output_types[op.n_states + i]
    buffers = op.outer_seqs(arguments)
    for buffer, taps in zip(arguments[1 + op.n_seqs :], op.tap_array):
        buffers += [buffer] * len(taps)
    given = [v.type.value_zeros(np.shape(buffer)[1:]) for v, buffer in zip(op.inputs, buffers)]
    shape = op.inner_graph.shape_of_result(
        op.n_outputs_before_results + i, given + op.outer_shared(arguments) + op.outer_non_seqs(arguments)
    )
    return kind.value_zeros((0, *shape))


def row_layout(value):
    """Return the shape and the dtype of a result of a step."""
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    return value.shape, value.dtype


def allocate_arrays(layout, lengths):
    """Allocate the arrays of a kernel for given lengths.

    Parameters
    ----------
    layout : array_kernel.Layout
    lengths : list of int
        The lengths to which `Layout` refers by index.

    Returns
    -------
    list of ndarray
        The arrays. They are views of arrays that own the memory, because the kernel may change the data pointers.
    """
    found = []
    for memory in layout.arrays:
        array = np.empty([lengths[i] for i in memory.dims], memory.dtype)
        if memory.value is not None:
            array[...] = memory.value
        array = array.transpose([i for i in memory.order if i != "x"])
        lengths_shown = iter(array.shape)
        # `reshape` inserts the dimensions of length 1. If `order` swaps no axes, the strides are those of a new array.
        found.append(array.reshape([1 if i == "x" else next(lengths_shown) for i in memory.order]))
    return found


def result_buffer(rows, shape, dtype, old=None):
    """Return a buffer for the results of all steps.

    Parameters
    ----------
    rows : int
    shape, dtype
        Shape and dtype of a row.
    old : object
        A previous buffer. It is returned if it has the right shape, dtype and layout.
    """
    shape = (int(rows), *shape)
    if type(old) is np.ndarray and old.shape == shape and old.dtype == dtype and old.flags.carray and old.flags.owndata:
        return old
    return empty(shape, dtype)


def buffer_of(kind, rows, layout, old=None):
    """Return a buffer for the results of all steps, on the host or on a device, depending on the type.

    Parameters
    ----------
    kind : Type
        Type of the buffer.
    rows : int
    layout : tuple
        Shape and dtype of the rows, see `row_layout`.
    old : object
        See `result_buffer`.
    """
    shape, dtype = layout
    if isinstance(kind, TensorType):
        return result_buffer(rows, shape, dtype, old)
    return kind.value_empty((int(rows), *shape))


def assign(op, buffer, place, value, number):
    """Write a result of a step to a row.

    Parameters
    ----------
    op : Scan
    buffer : ndarray
    place : int
    value : array_like
    number : int
        Index of the outer output.

    Raises
    ------
    ValueError
        If the value does not have the shape of a row.
    """
    if buffer.shape[1:] != np.shape(value):
        raise ValueError(
            "Output %d of the loop %s has rows of shape %s, but a step returned a value of shape %s"
            % (number, op.name, buffer.shape[1:], np.shape(value))
        )
    buffer[place] = value


def raise_in_step(op, step, failure, machine=None):
    """Raise an exception again, after adding the step, the loop, and the node of the step to the exception's message.

    Parameters
    ----------
    op : Scan
    step : int
    failure : BaseException
    machine : VM, optional
        The virtual machine that ran the step, if the machine itself did not add the node to the message.
    """
    if not isinstance(failure, Exception):
        raise failure
    if machine is not None and machine.position_of_error >= 0:
        try:
            raise_with_op(
                machine.nodes[machine.position_of_error],
                machine.thunks[machine.position_of_error],
                (type(failure), failure, failure.__traceback__),
                machine.storage_map,
            )
        except Exception as told:
            failure = told
    text = "\nThe error occurred in step %d of the loop %s." % (step, op)
    raise with_text(type(failure), failure, text).with_traceback(failure.__traceback__) from failure.__cause__
