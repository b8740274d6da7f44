"""Random streams: variables that get a new random value at each call of a function.

The generators are NumPy's generators. They are stored in shared variables.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from theano_ng.compile.sharedvalue import SharedVariable, shared
from theano_ng.tensor.raw_random import RandomStreamsBase, random_state_type

__all__ = ["RandomStreams", "RandomStateSharedVariable", "randomstate_constructor"]


class RandomStateSharedVariable(SharedVariable):
    """A shared variable whose value is a `numpy.random.RandomState`."""

    def __str__(self):
        return self.name or "<%s>" % self.type


def randomstate_constructor(value, name=None, strict=False, allow_downcast=None, borrow=False):
    """Return a shared variable that contains a generator. `theano.shared` calls this function.

    Parameters
    ----------
    value : numpy.random.RandomState
    name : str, optional
    strict, allow_downcast : bool
    borrow : bool
        Whether to store the generator itself instead of a copy.

    Raises
    ------
    TypeError
        If `value` is not a RandomState.
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
    """A source of random variables.

    The base class :class:`~theano_ng.tensor.raw_random.RandomStreamsBase` defines the methods that make variables. Each
    variable has a separate generator in a shared variable. A function that uses the random variable draws one sample
    per call, even if the random variable occurs several times. After the call, the shared variable contains the new
    state of the generator, because the state has a `default_update`. This does not hold for functions that are compiled
    with ``no_default_updates=True``.

    Parameters
    ----------
    seed : int, sequence of int, or None
        The seed of the generator that makes the seeds of the variables' generators. With None, each instance has a
        different seed.

    Attributes
    ----------
    state_updates : list of (RandomStateSharedVariable, Variable)
        For each random variable, its state and the expression of the next state.
    default_instance_seed : int or None
        The argument `seed`.

    Notes
    -----
    Let ``seeds = RandomState(seed)``. The seed of generator number i (from 0) is the result of call number i of
    ``int(seeds.randint(2**30))``.

    A random variable has the attributes ``rng``, the shared variable of its state, and ``update``, its element of
    `state_updates`.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.state_updates: list[Any] = []
        self.default_instance_seed = seed
        self.gen_seedgen = np.random.RandomState(seed)

    def updates(self) -> list[Any]:
        """Return the pairs (state, next state), for the parameter ``updates`` of `theano.function`."""
        return list(self.state_updates)

    def seed(self, seed: int | None = None) -> None:
        """Seed all generators again, each with a different seed.

        Parameters
        ----------
        seed : int or None
            The seed of the generator that makes the seeds. None means the seed that was passed to the constructor.
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
        """Return the generator in the shared variable `item`. Raise KeyError if it is not a state of these streams."""
        return self._state_of(item).get_value(borrow=True)

    def __setitem__(self, item, value):
        """Store a generator in the shared variable `item`. Raise KeyError if it is not a state of these streams."""
        self._state_of(item).set_value(value, borrow=True)

    def gen(self, op, *args, **kwargs):
        """Return a new random variable with a separate generator.

        Parameters
        ----------
        op : callable
            ``op(state, *args, **kwargs)`` returns the new state and the sample, like the functions of `raw_random`.

        Returns
        -------
        Variable
            The sample, with the attributes `rng` and `update`.
        """
        # Save the state of the generator that makes the seeds, to restore the state if `op` rejects the arguments.
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
