"""The class frozendict: an immutable, hashable mapping."""

from collections.abc import Mapping

__all__ = ["FrozenOrderedDict", "frozendict"]


class frozendict(Mapping):
    """A dict that cannot be changed, so that it can be part of a key.

    Parameters
    ----------
    *args, **kwargs
        The arguments of `dict`.

    Notes
    -----
    The hash is the hash of the set of items. Therefore the values must be hashable, too.
    """

    __slots__ = ("_dict", "_hash")

    def __init__(self, *args, **kwargs):
        object.__setattr__(self, "_dict", dict(*args, **kwargs))
        object.__setattr__(self, "_hash", None)

    def __setattr__(self, name, value):
        raise AttributeError("a frozendict cannot change")

    def __getitem__(self, key):
        return self._dict[key]

    def __iter__(self):
        return iter(self._dict)

    def __len__(self):
        return len(self._dict)

    def copy(self, **add_or_replace):
        """Return a frozendict in which some items are added or replaced."""
        return type(self)(self._dict, **add_or_replace)

    def __eq__(self, other):
        if isinstance(other, frozendict):
            return self._dict == other._dict
        return self._dict == other if isinstance(other, dict) else NotImplemented

    def __hash__(self):
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(frozenset(self._dict.items())))
        return self._hash

    def __reduce__(self):
        return type(self), (self._dict,)

    def __setstate__(self, state):
        # The state is from a pickle of Theano. Drop the hash in the state, because hashes differ between processes.
        self.__init__(state["_dict"])

    def __repr__(self):
        return "<%s %r>" % (type(self).__name__, self._dict)


class FrozenOrderedDict(frozendict):
    """A frozendict that keeps the order of insertion. In current Python, every frozendict does so."""
