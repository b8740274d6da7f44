"""Typed constructors: `dscalar`, `fmatrix`, `vector`, `ivectors` ...

A constructor with a fixed dtype *is* a :class:`TensorType`: ``dscalar('x').type is dscalar``. The constructors without
a dtype (`scalar`, `vector`, ...) use the value of ``config.floatX`` at each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["tensor", "_multi"]

# Letter of the constructor -> dtype.
_PREFIXES = {
    "b": "int8",
    "w": "int16",
    "i": "int32",
    "l": "int64",
    "f": "float32",
    "d": "float64",
    "c": "complex64",
    "z": "complex128",
}

# Kind of constructor -> broadcastable pattern.
_KINDS = {
    "scalar": (),
    "vector": (False,),
    "row": (True, False),
    "col": (False, True),
    "matrix": (False, False),
    "tensor3": (False,) * 3,
    "tensor4": (False,) * 4,
    "tensor5": (False,) * 5,
    "tensor6": (False,) * 6,
    "tensor7": (False,) * 7,
}

_PLURALS = {
    "scalar": "scalars",
    "vector": "vectors",
    "row": "rows",
    "col": "cols",
    "matrix": "matrices",
    "tensor3": "tensor3s",
    "tensor4": "tensor4s",
    "tensor5": "tensor5s",
    "tensor6": "tensor6s",
    "tensor7": "tensor7s",
}


def tensor(*args: Any, **kwargs: Any) -> TensorVariable:
    """Make a variable of an explicit type.

    Parameters
    ----------
    *args, **kwargs
        Arguments of :class:`TensorType`: ``dtype`` and ``broadcastable``.
    name : str, optional
        The name of the variable (keyword only).

    Returns
    -------
    TensorVariable

    Examples
    --------
    >>> tensor('float32', (False, True), name='column').type
    TensorType(float32, col)
    """
    name = kwargs.pop("name", None)
    return TensorType(*args, **kwargs)(name=name)


def _multi(*fns: Callable[..., TensorVariable]) -> Any:
    """Convert constructors of one variable to constructors of several variables.

    Returns
    -------
    callable or list of callable
        One plural constructor if one function is given. Otherwise, a list of plural constructors.

    Notes
    -----
    A plural constructor takes one of these arguments:

    * an integer n: the constructor returns a list of n unnamed variables;
    * several names: the constructor returns a list with one variable per name;
    * a single string, which is split into one-letter names: ``scalars('abc')`` returns three variables. For a string of
      one letter, the constructor returns one variable instead of a list.
    """

    def plural(fn: Callable[..., TensorVariable]) -> Callable[..., list[TensorVariable]]:
        def several(*names: str | int) -> list[TensorVariable]:
            if len(names) == 1:
                only: Any = names[0]
                if isinstance(only, int):
                    return [fn() for _ in range(only)]
                if len(only) == 1:
                    return fn(only[0])  # type: ignore[return-value]
                names = only
            made: list[TensorVariable] = []
            for name in names:
                if isinstance(name, int):
                    made.extend(fn() for _ in range(name))
                else:
                    made.append(fn(name))
            return made

        several.__doc__ = (
            "Make several variables at once.\n\n        Parameters\n        ----------\n        *names : int or "
            "str\n            An integer n gives n variables without names. Several strings give one variable for "
            "each name, a single string one variable for each letter.\n\n        Returns\n        -------\n        "
            "list of TensorVariable\n            A bare variable for a single letter.\n        "
        )
        return several

    made = [plural(fn) for fn in fns]
    return made[0] if len(made) == 1 else made


_DESCRIPTIONS = {
    "scalar": "a 0-d variable",
    "vector": "a 1-d variable",
    "row": "a 2-d variable whose first axis is broadcastable (one row)",
    "col": "a 2-d variable whose second axis is broadcastable (one column)",
    "matrix": "a 2-d variable",
}


def _floatX_constructor(kind: str, pattern: tuple[bool, ...]) -> Callable[..., TensorVariable]:
    def make(name: str | None = None, dtype: DTypeLike | None = None) -> TensorVariable:
        if dtype is None:
            dtype = config.floatX
        # The first argument is always the name: scalar('int32') makes a variable with the name 'int32'.
        return TensorType(dtype, pattern)(name)

    make.__name__ = make.__qualname__ = kind
    make.__doc__ = """Make %s.

    Parameters
    ----------
    name : str, optional
        Name of the variable.
    dtype : str, optional
        Its dtype; ``config.floatX`` at the time of the call by default.

    Returns
    -------
    TensorVariable
    """ % _DESCRIPTIONS.get(kind, "a %d-d variable" % len(pattern))
    return make


def _plural(kind: str, one: Callable[..., TensorVariable], namespace_name: str) -> Callable[..., list[TensorVariable]]:
    several = _multi(one)
    several.__name__ = several.__qualname__ = namespace_name
    return several


def _define(namespace: dict[str, Any]) -> None:
    """Add the singular and plural constructors of each kind (scalar, vector, ...) and dtype to `namespace`."""
    types: dict[str, list[TensorType]] = {}
    for kind, pattern in _KINDS.items():
        one = _floatX_constructor(kind, pattern)
        namespace[kind] = one
        plural = _PLURALS[kind]
        namespace[plural] = _plural(kind, one, plural)
        __all__.extend([kind, plural])
        for letter, dtype in _PREFIXES.items():
            name = letter + kind
            type_ = TensorType(dtype, pattern)
            namespace[name] = type_
            types.setdefault(kind, []).append(type_)
            __all__.append(name)
            if letter in "ilfd":
                namespace[letter + plural] = _plural(kind, type_, letter + plural)
                __all__.append(letter + plural)
    # Add tuples of the types of each family of dtypes, such as `int_vector_types`. Tests use these tuples.
    families = {"int": slice(0, 4), "float": slice(4, 6), "complex": slice(6, 8)}
    for family, which in families.items():
        for kind in _KINDS:
            name = "%s_%s_types" % (family, kind)
            namespace[name] = tuple(types[kind][which])
            __all__.append(name)
        name = family + "_types"
        namespace[name] = tuple(types["scalar"][which])
        __all__.append(name)


_define(globals())
