"""`map`, `reduce`, `foldl`, `foldr`: loops of frequent kinds, named as elsewhere."""

from theano_ng.scan.front import scan

__all__ = ["foldl", "foldr", "map", "reduce"]


def map(fn, sequences, non_sequences=None, truncate_gradient=-1, go_backwards=False, mode=None, name=None):
    """The results of a function for each row of sequences.

    Parameters
    ----------
    fn : callable
        Takes a row of each sequence, then `non_sequences`.
    sequences, non_sequences, truncate_gradient, go_backwards, mode, name
        As for `scan`.

    Returns
    -------
    outputs, updates
        As of `scan`.
    """
    return scan(
        fn,
        sequences=sequences,
        outputs_info=[],
        non_sequences=non_sequences,
        truncate_gradient=truncate_gradient,
        go_backwards=go_backwards,
        mode=mode,
        name=name,
    )


def reduce(fn, sequences, outputs_info, non_sequences=None, go_backwards=False, mode=None, name=None):
    """What is left of sequences when a function joins one row after another to what it has.

    Parameters
    ----------
    fn : callable
        Takes a row of each sequence, what it returned last (`outputs_info` at first), then `non_sequences`.
    sequences, outputs_info, non_sequences, go_backwards, mode, name
        As for `scan`.

    Returns
    -------
    outputs : TensorVariable, list of TensorVariable, or None
        What the last step returned.
    updates : OrderedUpdates
    """
    outputs, updates = scan(
        fn,
        sequences=sequences,
        outputs_info=outputs_info,
        non_sequences=non_sequences,
        go_backwards=go_backwards,
        mode=mode,
        name=name,
    )
    if isinstance(outputs, list):
        return [output[-1] for output in outputs], updates
    return None if outputs is None else outputs[-1], updates


def foldl(fn, sequences, outputs_info, non_sequences=None, mode=None, name=None):
    """`reduce` from the first row to the last; the parameters are its."""
    return reduce(fn, sequences, outputs_info, non_sequences, go_backwards=False, mode=mode, name=name)


def foldr(fn, sequences, outputs_info, non_sequences=None, mode=None, name=None):
    """`reduce` from the last row to the first; the parameters are its."""
    return reduce(fn, sequences, outputs_info, non_sequences, go_backwards=True, mode=mode, name=name)
