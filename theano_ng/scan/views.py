"""`map`, `reduce`, `foldl`, `foldr`: common kinds of loops under their usual names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from theano_ng.scan.builder import scan

if TYPE_CHECKING:
    from theano_ng.compile.mode import Mode
    from theano_ng.updates import OrderedUpdates

__all__ = ["foldl", "foldr", "map", "reduce"]


def map(
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: str | Mode | None = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """Apply a function to each row of sequences.

    Parameters
    ----------
    fn : callable
        A function of a row of each sequence, and of `non_sequences`.
    sequences, non_sequences, truncate_gradient, go_backwards, mode, name
        See `scan`.

    Returns
    -------
    outputs, updates
        The results of `scan`.
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


def reduce(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    go_backwards: bool = False,
    mode: str | Mode | None = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """Reduce sequences: apply a function to each row and the result for the previous row.

    Parameters
    ----------
    fn : callable
        A function of three kinds of arguments: a row of each sequence, the result of `fn` for the previous row
        (`outputs_info` for the first row), and `non_sequences`.
    sequences, outputs_info, non_sequences, go_backwards, mode, name
        See `scan`.

    Returns
    -------
    outputs : TensorVariable, list of TensorVariable, or None
        The results of the last step.
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


def foldl(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: str | Mode | None = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """Reduce from the first row to the last. For the parameters, see `reduce`."""
    return reduce(fn, sequences, outputs_info, non_sequences, go_backwards=False, mode=mode, name=name)


def foldr(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: str | Mode | None = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """Reduce from the last row to the first. For the parameters, see `reduce`."""
    return reduce(fn, sequences, outputs_info, non_sequences, go_backwards=True, mode=mode, name=name)
