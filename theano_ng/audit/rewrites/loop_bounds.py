"""Upper bounds of the rounding errors of a loop.

The bounds for a step are computed from the bounds for the earlier steps.
"""

import numpy as np

from theano_ng.audit.rewrites.bounded import Bounded, Unsupported


def bounded_loop(node, known, actual, bounded_step):
    """Compute the outputs of a loop with higher precision, and upper bounds of their rounding errors.

    Parameters
    ----------
    node : Apply
        A node of a `Scan` without a condition, without shared states, and without states that several steps write to.
    known : dict
        Variable -> `Bounded`.
    actual : dict
        Variable -> array.
    bounded_step : callable
        ``bounded_step(inputs, outputs, given)`` computes the graph of one step for the `Bounded` inputs `given`. It
        returns the `Bounded` outputs, and the true values of all float variables in the graph.

    Returns
    -------
    list of Bounded
        The outputs, in order.

    Raises
    ------
    Unsupported
    """
    op, inputs = node.op, node.inputs
    if op.as_while or op.n_mit_mot or op.n_shared_outs:
        raise Unsupported(op)
    steps = int(actual[inputs[0]])
    given = [known[v] for v in inputs]
    if any(one is None for one in given):
        raise Unsupported(op)
    sequences, constants = op.outer_seqs(given), op.outer_non_seqs(given)
    buffers = op.outer_mitsot(given) + op.outer_sitsot(given)
    histories = [[_row(buffer, i) for i in range(op.lead(k))] for k, buffer in enumerate(buffers)]
    results = [[] for _ in range(op.n_nit_sot)]
    within = []
    for step in range(steps):
        rows = [_row(sequence, step) for sequence in sequences]
        rows += [history[op.lead(k) + step + tap] for k, history in enumerate(histories) for tap in op.tap_array[k]]
        found, inner = bounded_step(op.inputs, op.outputs, rows + constants)
        within += inner
        for rows, one in zip([*histories, *results], found):
            rows.append(one)
    outputs = [_kept(history, len(buffer.value), buffer) for history, buffer in zip(histories, buffers)]
    outputs += [_kept(rows, int(actual[v])) for rows, v in zip(results, op.outer_nitsot(inputs))]
    for one in outputs:
        one.partial = tuple(within)
    return outputs


def _row(one, i):
    return Bounded(one.value[i], one.error[i], None if one.actual is None else one.actual[i])


def _kept(rows, length, buffer=None):
    """Return the last `length` rows as one array. Rows that no step writes come from the buffer."""
    rows = rows[max(len(rows) - length, 0) :]
    if buffer is not None:
        rows = rows + [_row(buffer, i) for i in range(len(rows), length)]
    if len(rows) < length or not rows:
        raise Unsupported("rows that no step writes")
    actual = [row.actual for row in rows]
    found = Bounded(np.stack([row.value for row in rows]), np.stack([row.error for row in rows]))
    found.actual = None if any(one is None for one in actual) else np.stack(actual)
    return found
