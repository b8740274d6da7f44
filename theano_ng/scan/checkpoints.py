"""`scan_checkpoints`: loops whose gradient needs little memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from theano_ng.scan.builder import as_sequence, scan
from theano_ng.scan.utils import as_list, get_updates_and_outputs
from theano_ng.scan.validation import integer_scalar
from theano_ng.tensor.assert_op import AssertShape
from theano_ng.tensor.basic import minimum
from theano_ng.tensor.elemwise.functions import eq, int_div
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.creation import arange, zeros

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import IntLike
    from theano_ng.updates import OrderedUpdates

__all__ = ["scan_checkpoints"]


def scan_checkpoints(
    fn: Callable[..., Any],
    sequences: Any = [],  # noqa: B006, the documented default; it is never changed
    outputs_info: Any = None,
    non_sequences: Any = [],  # noqa: B006, the documented default; it is never changed
    name: str = "checkpointscan_fn",
    n_steps: IntLike | None = None,
    save_every_N: int = 10,
    padding: bool = True,
) -> tuple[Any, OrderedUpdates]:
    """Make a loop that keeps only the results of every N-th step. Its gradient recomputes the steps in between.

    The steps are done in blocks of `save_every_N`, by a loop inside a loop. With blocks of about sqrt(n) steps, the
    gradient needs memory for about 2 sqrt(n) steps instead of n, and the forward steps are done twice.

    Parameters
    ----------
    fn : callable
        As for `scan`, without a condition.
    sequences : array_like or list of them
        Sequences of the same length, without taps.
    outputs_info : array_like, None, or list of them, optional
        Initial states, without taps: steps read only the results of the previous step.
    non_sequences, name
        See `scan`.
    n_steps : int or integer scalar, optional
        Number of steps. The default is the length of the sequences. The parameter is required if there are no
        sequences.
    save_every_N : int
        Number of steps in a block.
    padding : bool
        If True, sequences are copied and padded with zeros to a multiple of `save_every_N`. No steps are executed for
        the padding. If False, the lengths of the sequences must be multiples of `save_every_N`.

    Returns
    -------
    outputs : TensorVariable, list of TensorVariable, or None
        For each output, the values after the last steps of the blocks: (ceil(n_steps / save_every_N), ...). The last
        row is the value after the last step.
    updates : OrderedUpdates

    Raises
    ------
    RuntimeError
        If taps are given.
    ValueError
        If the number of steps is not given, if a block has less than one step, or if the step returns a condition.

    Examples
    --------
    >>> import numpy as np, theano_ng as theano, theano_ng.tensor as T
    >>> kept, _ = theano.scan_checkpoints(lambda x, h: h + x, T.arange(1, 8), T.constant(0, dtype="int64"), save_every_N=3)
    >>> kept.eval()
    array([ 6, 21, 28])
    """
    if save_every_N < 1:
        raise ValueError("save_every_N is %d, but a block must have at least one step" % save_every_N)
    sequences = [as_sequence(_without_taps(s, "input"), i) for i, s in enumerate(as_list(sequences))]
    states = [_without_taps(s, "initial") for s in as_list(outputs_info)]
    others = as_list(non_sequences)
    if n_steps is not None:
        n_steps = integer_scalar(n_steps, "n_steps")
    elif sequences:
        n_steps = sequences[0].shape[0]
    else:
        raise ValueError("scan_checkpoints: without sequences, n_steps must be given")
    n_blocks = int_div(n_steps + (save_every_N - 1), save_every_N)
    # The last block has only the remaining steps.
    lengths = minimum(n_steps - arange(n_blocks) * save_every_N, save_every_N)

    def block(*arguments):
        """Execute the steps of a block."""
        length, *arguments = arguments
        rows, arguments = arguments[: len(sequences)], arguments[len(sequences) :]
        before, given = iter(arguments[: len(arguments) - len(others)]), arguments[len(arguments) - len(others) :]
        results, updates = scan(
            step,
            sequences=list(rows),
            outputs_info=[None if s is None else next(before) for s in states],
            non_sequences=list(given),
            n_steps=length,
            name=name + "_block",
            return_list=True,
        )
        return [result[-1] for result in results], updates

    def step(*arguments):
        result = fn(*arguments)
        if get_updates_and_outputs(result)[0] is not None:
            raise ValueError(
                "scan_checkpoints: the step returns a condition, but only loops with a known number of steps are "
                "possible"
            )
        return result

    as_long = AssertShape("scan_checkpoints: all sequences must have the same length, and n_steps must equal it")
    sequences = [as_long(s, eq(s.shape[0], n_steps)) for s in sequences]
    blocks = [_in_blocks(s, n_blocks, save_every_N, padding) for s in sequences]
    return scan(block, sequences=[lengths, *blocks], outputs_info=states, non_sequences=others, name=name)


def _without_taps(given, key):
    """Return the variable in an entry of `sequences` or `outputs_info`. Raise an error for taps."""
    if not isinstance(given, dict):
        return given
    if given.get("taps") is not None:
        raise RuntimeError(
            "scan_checkpoints doesn't work with taps. A step reads the rows of its own step and the results of the "
            "previous step"
        )
    return given.get(key)


def _in_blocks(sequence, n_blocks, n_rows, padding):
    """Return the rows of a sequence in blocks, (n_blocks, n_rows, ...)."""
    shape = [sequence.shape[i] for i in range(1, sequence.ndim)]
    if padding:
        padded = zeros([n_blocks * n_rows, *shape], sequence.dtype)
        sequence = set_subtensor(padded[: sequence.shape[0]], sequence)
    return sequence.reshape([n_blocks, n_rows, *shape])
