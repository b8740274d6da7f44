"""The class `Bounded`: values with upper bounds of their errors."""

from dataclasses import dataclass
from typing import Any


class Unsupported(Exception):
    """The exception for an Op that `reference` cannot compute with higher precision."""


@dataclass
class Bounded:
    """Values with upper bounds of their errors.

    Attributes
    ----------
    value : ndarray of longdouble, clongdouble or bool
        The true values.
    error : ndarray of longdouble
        Upper bounds of the rounding errors that the graph may make.
    actual : ndarray or None
        The values that the graph itself computes.
    partial : tuple of ndarray
        Intermediate values that no variable of the graph holds, such as partial products of many factors.
    """

    value: Any
    error: Any
    actual: Any = None
    partial: tuple = ()
