"""OrderedUpdates: an ordered dict from shared variables to their new values."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from theano_ng.compile.sharedvalue import SharedVariable


class OrderedUpdates(OrderedDict):
    """A dict from shared variables to their new values, in order of insertion.

    Parameters
    ----------
    *key, **kwargs
        Arguments of `dict`.

    Raises
    ------
    TypeError
        If a key is not a shared variable.
    KeyError
        If two dicts with different values for a variable are joined.
    """

    def __init__(self, *key: Any, **kwargs: Any) -> None:
        super().__init__()
        for variable, value in dict(*key, **kwargs).items():
            self[variable] = value

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, SharedVariable):
            raise TypeError("OrderedUpdates keys must inherit from SharedVariable, not %s" % type(key))
        super().__setitem__(key, value)

    def update(self, other: Any = None) -> None:  # type: ignore[override]
        """Add the entries of another dict or iterable.

        Parameters
        ----------
        other : dict or iterable of pairs, optional
            The new entries. Iterators are accepted, too.

        Raises
        ------
        KeyError
            If `other` has a different value for a variable that is already a key.
        """
        if other is None:
            return
        other = dict(other)  # an iterator can be read only once
        for variable, value in other.items():
            # Compare identities, because == of symbolic variables does not compare their values.
            if variable in self and self[variable] is not value:
                raise KeyError("Collision", variable)
        for variable, value in other.items():
            self[variable] = value

    def __add__(self, other: Any) -> OrderedUpdates:
        joined = OrderedUpdates()
        joined.update(self)
        joined.update(other)
        return joined

    def __radd__(self, other: Any) -> OrderedUpdates:
        joined = OrderedUpdates()
        joined.update(other)
        joined.update(self)
        return joined

    # Replace OrderedDict's `|`, which does not detect different values for one variable.
    __or__, __ror__ = __add__, __radd__

    def __ior__(self, other: Any) -> OrderedUpdates:
        self.update(other)
        return self
