"""Random streams: variables that are drawn anew at each call of a function, from NumPy's generators in shared variables."""

import copy

import numpy as np

from theano_ng.compile.sharedvalue import SharedVariable, shared
from theano_ng.tensor.raw_random import RandomStreamsBase, random_state_type

__all__ = ["RandomStreams", "RandomStateSharedVariable", "randomstate_constructor"]


class RandomStateSharedVariable(SharedVariable):
    """A shared variable that holds a `numpy.random.RandomState`."""

    def __str__(self):
        return self.name or "<%s>" % self.type


def randomstate_constructor(value, name=None, strict=False, allow_downcast=None, borrow=False):
    """A shared variable for a generator; `theano.shared` calls it.

    Parameters
    ----------
    value : numpy.random.RandomState
    name : str, optional
    strict, allow_downcast : bool
    borrow : bool
        True keeps the generator itself instead of a copy.

    Raises
    ------
    TypeError
        For other values.
    """
    if not isinstance(value, np.random.RandomState):
        raise TypeError("expected a numpy.random.RandomState, got %s" % type(value).__name__)
    return RandomStateSharedVariable(
        type=random_state_type,
        value=value if borrow else copy.deepcopy(value),
        name=name,
        strict=strict,
        allow_downcast=allow_downcast,
    )


class RandomStreams(RandomStreamsBase):
    """Random variables by the methods of :class:`~theano_ng.tensor.raw_random.RandomStreamsBase`.

    Each variable has a generator of its own. A function that uses the variable draws once per call, however often the variable occurs in it,
    and leaves the generator where it came to (its `default_update`), unless it is made with ``no_default_updates=True``.

    Parameters
    ----------
    seed : int, sequence of int, or None
        Of the generator that seeds those of the variables; None: something else each time.

    Attributes
    ----------
    state_updates : list of (RandomStateSharedVariable, Variable)
        For each variable made, its state and the expression of the next state.
    default_instance_seed : int or None
        `seed`.

    Notes
    -----
    Generator number i (from 0) is seeded by what ``int(RandomState(seed).randint(2**30))`` gives at its call number i.

    A variable has attributes ``rng``, the shared variable of its state, and ``update``, its element of `state_updates`.
    """

    def __init__(self, seed=None):
        self.state_updates = []
        self.default_instance_seed = seed
        self.gen_seedgen = np.random.RandomState(seed)

    def updates(self):
        """The states with their next states, as `theano.function` takes them for ``updates``."""
        return list(self.state_updates)

    def seed(self, seed=None):
        """Seed all generators anew, each differently.

        Parameters
        ----------
        seed : int or None
            None: the one that the streams were made with.
        """
        seeds = np.random.RandomState(self.default_instance_seed if seed is None else seed)
        for state, _ in self.state_updates:
            state.set_value(np.random.RandomState(int(seeds.randint(2**30))), borrow=True)

    def _state_of(self, item):
        for state, _ in self.state_updates:
            if state is item:
                return state
        raise KeyError(item)

    def __getitem__(self, item):
        """The generator in the shared variable `item`, which belongs to these streams (KeyError)."""
        return self._state_of(item).get_value(borrow=True)

    def __setitem__(self, item, value):
        """Put a generator into the shared variable `item`, which belongs to these streams (KeyError)."""
        self._state_of(item).set_value(value, borrow=True)

    def gen(self, op, *args, **kwargs):
        """A new random variable with a generator of its own.

        Parameters
        ----------
        op : callable
            ``op(state, *args, **kwargs)`` gives the new state and the sample, as the functions of `raw_random` do.

        Returns
        -------
        Variable
            The sample, with attributes `rng` and `update`.
        """
        # Of the seed of this stream nothing is used up if the arguments are refused.
        before = self.gen_seedgen.get_state(legacy=False)
        state = shared(np.random.RandomState(int(self.gen_seedgen.randint(2**30))), borrow=True)
        try:
            new_state, out = op(state, *args, **kwargs)
        except BaseException:
            self.gen_seedgen.set_state(before)
            raise
        out.rng = state
        out.update = (state, new_state)
        self.state_updates.append(out.update)
        state.default_update = new_state
        return out
