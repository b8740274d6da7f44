"""Values with a bound of their error."""

from dataclasses import dataclass
from typing import Any


class Unsupported(Exception):
    """An Op that `reference` does not compute with more digits."""


@dataclass
class Bounded:
    """Values with a bound of their error.

    Attributes
    ----------
    value, error : ndarray
        Of longdouble, or of objects of mpmath.
    actual : ndarray or None
        What the graph itself computes.
    partial : tuple of ndarray
        Products of some of many factors, which are values on the way to this one.
    """

    value: Any
    error: Any
    actual: Any = None
    partial: tuple = ()
