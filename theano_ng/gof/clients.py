"""The list class for a variable's clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theano_ng.gof.aliases import Client

# Up to this length, a linear search is faster than an index.
_SHORT = 32


class Clients(list):
    """A list of ``(node, index)`` pairs with fast removal.

    The first removal from a long list builds an index of positions. Each removal by this index moves the last pair to
    the position of the removed pair. Removals therefore change the order of a long list, but deterministically.
    """

    __slots__ = ("_positions",)

    def __init__(self, pairs: Iterable[Client] = ()) -> None:
        list.__init__(self, pairs)
        self._positions: dict[Client, int] | None = None

    def append(self, client: Client) -> None:
        """Add a pair ``(node, i)``. The list must not contain it already."""
        if self._positions is not None:
            self._positions[client] = len(self)
        list.append(self, client)

    def remove(self, client: Client) -> None:
        """Remove a pair.

        Raises
        ------
        ValueError
            If the list does not contain the pair.
        """
        positions = self._positions
        if positions is None:
            if len(self) <= _SHORT:
                list.remove(self, client)
                return
            positions = self._positions = {pair: i for i, pair in enumerate(self)}
        i = positions.pop(client, None)
        if i is None or i >= len(self) or self[i] != client:
            # The list was changed through methods of its base class, so the index is wrong.
            self._positions = None
            list.remove(self, client)
            return
        last = list.pop(self)
        if i < len(self):
            self[i] = last
            positions[last] = i
        if len(self) <= _SHORT // 2:
            self._positions = None

    def __reduce__(self) -> tuple[type[Clients], tuple[list[Client]]]:
        return Clients, (list(self),)
