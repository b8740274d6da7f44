"""The loop in Python: what `_loop.pyx` does, step by step and in NumPy. It serves machines in Python, and tests compare the two."""

import copy

import numpy as np

from theano_ng.gof.link_errors import raise_with_op, with_text
from theano_ng.tensor.native.alloc import empty
from theano_ng.tensor.type import TensorType

# How many steps the machine does before a kernel with arrays is compiled: that takes as long as it saves in so many.
HOT_STEPS = 50000


def check_lengths(op, n_steps, arguments):
    """Refuse numbers of steps that make no sense, and buffers and sequences that are too short for them.

    Parameters
    ----------
    op : Scan
    n_steps : int
    arguments : list of ndarray
        The values of the outer inputs.

    Raises
    ------
    IndexError
        For a negative number of steps.
    ValueError
        For a sequence or a buffer that is too short.
    """
    if n_steps < 0:
        raise IndexError("Scan was asked to run for negative number of step %d" % n_steps)
    for i, sequence in enumerate(op.outer_seqs(arguments)):
        if len(sequence) < n_steps:
            raise ValueError(
                "Sequence %d of the loop %s is shorter than the required number of steps: it has %d rows, and there are %d steps"
                % (i, op.name, len(sequence), n_steps)
            )
    states = arguments[1 + op.n_seqs : 1 + op.n_seqs + op.n_states]
    for i, buffer in enumerate(states):
        taps = op.tap_array[i] + op.output_taps(i)
        # A buffer of mit_mot holds all rows; of the others the rows in use are enough.
        needed = op.lead(i) + n_steps + max(taps) if i < op.n_mit_mot else max(1, op.lead(i))
        if n_steps and len(buffer) < needed:
            raise ValueError(
                "State %d of the loop %s has %d rows, and its taps need %d" % (i, op.name, len(buffer), needed)
            )


def in_order(buffer, rows):
    """The last rows of a buffer that is written round and round, in the order of time.

    Parameters
    ----------
    buffer : ndarray
        Its rows are put in order where they are: who announced that it is overwritten finds the result in it.
    rows : int
        How many rows were written since the buffer was empty.
    """
    if rows < len(buffer) or not len(buffer):
        return buffer[:rows]
    start = rows % len(buffer)
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
        Takes the values of the inner inputs and returns a list of those of the inner outputs.
    arguments : list
        The values of the outer inputs.
    cells : list of cells
        Get the values of the outer outputs.

    Returns
    -------
    int
        How many steps were done.
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
        # What the step hands out may be a view of what it is given.
        inputs = [*(row(s, done) for s in sequences), *rows, *shared, *others]
        try:
            outputs = step(inputs)
        except Exception as failure:
            raise_in_step(op, done, failure)
        for i, value in enumerate(op.inner_nitsot_outs(outputs)):
            if results[i] is None:
                results[i] = buffer_of(kinds[i], lengths[i], value)
            if len(results[i]):
                assign(op, results[i], done % len(results[i]), value, op.n_states + i)
        written = iter(outputs)
        for i, (state, lead) in enumerate(zip(states, leads)):
            for tap in op.output_taps(i):
                assign(op, state, (lead + done + tap) % len(state), next(written), i)
        # The step computes into its own arrays again.
        shared = [own(value) for value in op.inner_shared_outs(outputs)]
        done += 1
        if op.as_while and outputs[-1]:
            break
    for i, (state, lead) in enumerate(zip(states, leads)):
        cells[i][0] = state if i < op.n_mit_mot else in_order(state, lead + done)
    for i, result in enumerate(results):
        cells[op.n_states + i][0] = no_rows(op, i, arguments) if result is None else in_order(result, done)
    for cell, value in zip(cells[op.n_buffers :], shared):
        cell[0] = value if done else own(value)
    return done


def row(buffer, place, copied=False):
    """A row, as an array also where rows are numbers: a view, or a copy."""
    view = buffer[place, ...]
    return view.copy() if copied else view


def overwritten(op, state, tap, length):
    """Whether a step writes to the row of a tap.

    Parameters
    ----------
    op : Scan
    state, tap : int
    length : int
        The number of rows of the buffer.
    """
    return any((written - tap) % length == 0 for written in op.output_taps(state))


def own(value):
    """A copy of what a shared variable is: of an array, or of any other value."""
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def plain(value):
    """A copy of an array, C-contiguous, of NumPy's own class or on its device."""
    if not isinstance(value, np.ndarray):
        return value.copy()
    copied = empty(np.shape(value), value.dtype)
    copied[...] = value
    return copied


def no_rows(op, i, arguments):
    """Result i of a loop without steps: no rows, of the shape that they would have.

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


def row_of(value):
    """The shape and the dtype of a step's result."""
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    return value.shape, value.dtype


def memory_of(layout, lengths):
    """The arrays of a kernel, for the lengths of a call.

    Parameters
    ----------
    layout : array_kernel.Layout
    lengths : list of int

    Returns
    -------
    list of ndarray
        Views: the kernel may point them elsewhere.
    """
    found = []
    for memory in layout.arrays:
        array = np.empty([lengths[i] for i in memory.dims], memory.dtype)
        if memory.value is not None:
            array[...] = memory.value
        array = array.transpose([i for i in memory.order if i != "x"])
        lengths_shown = iter(array.shape)
        # With the strides of a new array where the dimensions are in order; those of length 1 too.
        found.append(array.reshape([1 if i == "x" else next(lengths_shown) for i in memory.order]))
    return found


def result_buffer(rows, shape, dtype, old=None):
    """A buffer for the results of all steps.

    Parameters
    ----------
    rows : int
    shape, dtype
        Of a row.
    old : object
        Returned where it is such a buffer.
    """
    shape = (int(rows), *shape)
    if type(old) is np.ndarray and old.shape == shape and old.dtype == dtype and old.flags.carray and old.flags.owndata:
        return old
    return empty(shape, dtype)


def buffer_of(kind, rows, value, old=None):
    """A buffer for the results of all steps, where values of the type are: on the host, or on a device.

    Parameters
    ----------
    kind : Type
        Of the buffer.
    rows : int
    value : array_like
        The first of the results.
    old : object
        As for `result_buffer`.
    """
    shape, dtype = row_of(value)
    if isinstance(kind, TensorType):
        return result_buffer(rows, shape, dtype, old)
    return kind.value_empty((int(rows), *shape))


def assign(op, buffer, place, value, number):
    """Write the result of a step to a row.

    Parameters
    ----------
    op : Scan
    buffer : ndarray
    place : int
    value : array_like
    number : int
        Which outer output it is.

    Raises
    ------
    ValueError
        For a value that has not the shape of a row.
    """
    if buffer.shape[1:] != np.shape(value):
        raise ValueError(
            "Output %d of the loop %s has rows of shape %s, and a step gave a value of shape %s"
            % (number, op.name, buffer.shape[1:], np.shape(value))
        )
    buffer[place] = value


def raise_in_step(op, step, failure, machine=None):
    """Raise an exception again, with the story of the step: which node of it, in which step of which loop.

    Parameters
    ----------
    op : Scan
    step : int
    failure : BaseException
    machine : VM, optional
        That ran the step, when it did not tell of the node itself.
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
    text = "\nThat was in step %d of the loop %s." % (step, op)
    raise with_text(type(failure), failure, text).with_traceback(failure.__traceback__) from failure.__cause__
