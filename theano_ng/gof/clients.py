"""The list of a variable's clients."""

# Up to this length searching the list is faster than keeping an index.
_SHORT = 32


class Clients(list):
    """A list of ``(node, index)`` pairs from which a pair is removed quickly, however long it is.

    A long list gets an index of positions with the first removal; a removed pair's place is then taken by the last one, so the order of
    a long list changes with removals (in a way that depends on nothing else).
    """

    __slots__ = ("_positions",)

    def __init__(self, pairs=()):
        list.__init__(self, pairs)
        self._positions = None

    def append(self, client):
        """Add a pair ``(node, i)``; no pair comes twice."""
        if self._positions is not None:
            self._positions[client] = len(self)
        list.append(self, client)

    def remove(self, client):
        """Remove a pair.

        Raises
        ------
        ValueError
            When it is not in the list.
        """
        positions = self._positions
        if positions is None:
            if len(self) <= _SHORT:
                list.remove(self, client)
                return
            positions = self._positions = {pair: i for i, pair in enumerate(self)}
        i = positions.pop(client, None)
        if i is None or i >= len(self) or self[i] != client:
            # Someone changed the list by other means.
            self._positions = None
            list.remove(self, client)
            return
        last = list.pop(self)
        if i < len(self):
            self[i] = last
            positions[last] = i
        if len(self) <= _SHORT // 2:
            self._positions = None

    def __reduce__(self):
        return Clients, (list(self),)
