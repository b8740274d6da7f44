"""Equality of arbitrary Python objects, which may contain arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def equal_arrays(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if two arrays have equal dtypes, shapes and elements. NaN equals NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM"))


def equal_objects(a: Any, b: Any, equal: Callable[[Any, Any], bool] = equal_arrays) -> bool:
    """Return True if two objects are equal.

    Tuples, lists, dicts and objects without an ``__eq__`` of their class are compared item by item, and attribute by
    attribute, because copies of them are equal if their contents are.

    Parameters
    ----------
    a, b : object
    equal : callable, optional
        The comparison of arrays and of NumPy's scalars.
    """
    todo, seen = [(a, b)], set()
    while todo:
        one, other = todo.pop()
        if one is other or (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        if isinstance(one, (np.ndarray, np.generic)) and isinstance(other, (np.ndarray, np.generic)):
            if type(one) is not type(other) or not _arrays_agree(one, other, equal):
                return False
        elif isinstance(one, (tuple, list)) and type(one) is type(other):
            if len(one) != len(other):
                return False
            todo += zip(one, other)
        elif isinstance(one, dict) and type(one) is type(other):
            if list(one) != list(other) and set(one) != set(other):
                return False
            todo += [(one[key], other[key]) for key in one]
        elif type(one) is type(other) and type(one).__eq__ is object.__eq__:
            todo.append((getattr(one, "__dict__", {}), getattr(other, "__dict__", {})))
        elif not _equal(one, other):
            return False
    return True


def _arrays_agree(one: Any, other: Any, equal: Callable[[Any, Any], bool]) -> bool:
    if one.dtype.hasobject:
        return one.shape == other.shape and equal_objects(one.tolist(), other.tolist(), equal)
    return equal(np.asarray(one), np.asarray(other))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and one != one and other != other:
        return True
    try:
        return bool(one == other)
    except Exception:  # the comparison gives no truth value
        return False
