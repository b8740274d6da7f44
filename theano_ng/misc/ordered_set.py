"""The class OrderedSet: a set that keeps the order of insertion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any, TypeVar

string_types = (str,)

T = TypeVar("T")
S = TypeVar("S")


def check_deterministic(iterable: Iterable[Any] | None) -> None:
    """Check that an iterable is not a set, because the order of a set may differ between processes.

    Raises
    ------
    TypeError
        If the iterable is a set or frozenset.
    """
    if iterable is not None and isinstance(iterable, (set, frozenset)):
        raise TypeError(
            "Non-deterministic iterable: %s has no order; give a list, tuple, dict or OrderedSet" % type(iterable)
        )


class Link:
    """An element of a doubly linked list, with a key.

    Ordered sets consisted of such links in Theano. The class is kept for old pickles and for programs that use it.

    Attributes
    ----------
    prev, next : Link
    key : object
    """

    __slots__ = ("prev", "next", "key", "__weakref__")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.prev, self.next, *key = state  # the root of a circular list has no key
        if key:
            (self.key,) = key


class OrderedSet(MutableSet[T]):
    """A set whose iteration order is the order of insertion.

    Parameters
    ----------
    iterable : iterable, optional
        The elements, in a deterministic order. A set is not allowed.
    """

    __slots__ = ("_items",)

    _items: dict[T, None]

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        check_deterministic(iterable)
        self._items = {} if iterable is None else dict.fromkeys(iterable)

    @classmethod
    def _from_iterable(cls, it: Iterable[S]) -> OrderedSet[S]:
        # The operators of MutableSet call this method with generators. Unlike `__init__`, this method does not check
        # that the order of the elements is deterministic.
        made: Any = cls()
        made._items = dict.fromkeys(it)
        return made

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._items)

    def add(self, key: T) -> None:
        """Add an element. An existing element keeps its position."""
        self._items[key] = None

    def discard(self, key: T) -> None:
        """Remove an element if it is in the set."""
        self._items.pop(key, None)

    def remove(self, key: T) -> None:
        """Remove an element. Raise KeyError if it is not in the set."""
        del self._items[key]

    def pop(self, last: bool = True) -> T:
        """Remove and return the last (or first) element. Raise KeyError if the set is empty."""
        if not self._items:
            raise KeyError("set is empty")
        if last:
            return self._items.popitem()[0]
        key = next(iter(self._items))
        del self._items[key]
        return key

    def update(self, iterable: Iterable[T]) -> None:
        """Add the elements of an iterable with a deterministic order."""
        check_deterministic(iterable)
        self._items.update(dict.fromkeys(iterable))

    def union(self, s: Iterable[T]) -> OrderedSet[T]:
        """Return a new set with the elements of both sets, first the elements of `self`."""
        check_deterministic(s)
        made = self.copy()
        made.update(s)
        return made

    def __and__(self, other: Iterable[Any]) -> OrderedSet[T]:
        # The result has the order of `self`, because `other` may be unordered.
        if not isinstance(other, Iterable):
            return NotImplemented
        other = set(other)
        return self._from_iterable(key for key in self._items if key in other)

    def intersection_update(self, s: Iterable[Any]) -> None:
        """Keep only the elements that are also in `s`."""
        s = set(s)
        self._items = {key: None for key in self._items if key in s}

    def difference_update(self, s: Iterable[Any]) -> None:
        """Remove the elements that are in `s`."""
        for key in s:
            self._items.pop(key, None)

    def copy(self) -> OrderedSet[T]:
        """Return a copy of the set."""
        made = self.__class__()
        made._items = self._items.copy()
        return made

    def __eq__(self, other: object) -> bool:
        """Return True if the elements are equal. If `other` is an OrderedSet, their order must be equal, too."""
        if isinstance(other, OrderedSet):
            return list(self) == list(other)
        if isinstance(other, (set, frozenset)):
            return set(self) == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self._items:
            return "%s()" % self.__class__.__name__
        return "%s(%r)" % (self.__class__.__name__, list(self))

    def __getstate__(self) -> list[T]:
        return list(self._items)

    def __setstate__(self, items: Any) -> None:
        if isinstance(items, dict):  # a pickle of Theano: a circular list of links
            link: Any
            root, found = items["_OrderedSet__root"], items["_OrderedSet__map"]
            link, items = getattr(root, "next", root), []
            while link is not root and hasattr(link, "next"):
                items.append(link.key)
                link = link.next
            if len(items) != len(found):
                items = found  # some links are not loaded yet, because an element refers back to the set
        self._items = dict.fromkeys(items)


__all__ = ["Link", "OrderedSet", "check_deterministic", "string_types"]
