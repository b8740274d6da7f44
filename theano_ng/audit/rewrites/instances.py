"""The graphs on which a rule is tried.

A graph is built from a text, which is a Python expression. A `Setting` varies it: variables get other dtypes or ranks,
one variable replaces several variables, a constant replaces a variable, or the graph gets more outputs.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np

import theano_ng.tensor as T
from theano_ng.audit.rewrites import special_values
from theano_ng.audit.rewrites.templates import leaves
from theano_ng.audit.rewrites.vocabulary import VARIABLES, namespace, sources
from theano_ng.gof.graph import Constant, Variable, ancestors
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.type import TensorType

_NAMES = {}
_DECOMPOSING = frozenset("MatrixInverse Det Cholesky Solve".split())


def names():
    """Return the namespace in which texts are evaluated. It is built once."""
    if not _NAMES:
        _NAMES.update(namespace())
    return _NAMES


@dataclass(frozen=True)
class Setting:
    """A change of the variables of a text, or of the outputs of its graph.

    Attributes
    ----------
    kind : str
        A short name of the change.
    given : tuple of (str, Variable, str)
        For each changed name: the name in the text, its new variable, and Python code that creates the variable.
    more : str
        Additional outputs of the graph: "" for none, "inner" for every inner variable, "input" for every input.
    """

    kind: str
    given: tuple = ()
    more: str = ""


@dataclass
class Instance:
    """A graph that was built from a text in a setting.

    Attributes
    ----------
    text : str
    setting : Setting
    inputs, outputs : list of Variable
    """

    text: str
    setting: Setting
    inputs: list
    outputs: list = field(default_factory=list)

    @property
    def is_elementwise(self):
        """Return True if the graph is pointwise, and every input has a last axis that is not broadcastable."""
        return self.is_pointwise and all(v.ndim >= 1 and not v.broadcastable[-1] for v in self.inputs)

    @property
    def needs_regular_matrices(self):
        """Return True if a node inverts or decomposes a matrix, so that nearly singular matrices must not be tried."""
        return any(v.owner is not None and type(v.owner.op).__name__ in _DECOMPOSING for v in ancestors(self.outputs))

    @property
    def is_pointwise(self):
        """Return True if each element of the outputs depends on one element of each input."""
        return all(map(_keeps_last_axis, ancestors(self.outputs)))


def _keeps_last_axis(v):
    """Return True if the last axis of a variable corresponds to the last axis of the inputs, element by element.

    This holds for inputs, constants of one element, results of elementwise Ops, and DimShuffles that only add axes on
    the left.
    """
    if not isinstance(v.type, TensorType):
        return False
    if v.owner is None:
        return not isinstance(v, Constant) or v.data.size == 1
    if isinstance(v.owner.op, Elemwise):
        return True
    order = getattr(v.owner.op, "new_order", None)
    rank = v.owner.inputs[0].ndim if order is not None else 0
    return isinstance(v.owner.op, DimShuffle) and tuple(order) == ("x",) * (len(order) - rank) + tuple(range(rank))


def build(text, setting=Setting("as it is"), more=None):
    """Build the graph of a text.

    Parameters
    ----------
    text : str
    setting : Setting
    more : dict, optional
        More names for the text.

    Returns
    -------
    Instance or None
        None if the text is invalid, or if its graph cannot be compared.
    """
    space = {**names(), **(more or {})}
    space.update((name, variable) for name, variable, _ in setting.given)
    try:
        value = eval(text, space)  # eval is safe: the text comes from this package or from the docstring of a rule
    except Exception:  # a setting that is invalid for this text: an Op refused its inputs
        return None
    outputs = [v for v in (value if isinstance(value, (list, tuple)) else [value])]
    if not outputs or not all(isinstance(v, Variable) for v in outputs):
        return None
    inputs = sorted(sources(outputs), key=lambda v: v.name or "")
    known = {id(v) for v, _ in VARIABLES.values()} | {id(v) for _, v, _ in setting.given}
    if not inputs or not all(id(v) in known for v in inputs):
        return None
    if setting.more == "inner":
        inner = [v for v in ancestors(outputs) if v.owner is not None and v not in outputs]
        if any(type(v.owner.op).__name__ == "AllocEmpty" for v in inner):
            return None  # uninitialized memory
        outputs = outputs + inner
    elif setting.more == "input":
        outputs = outputs + inputs
    return Instance(text, setting, inputs, outputs)


# -- settings -----------------------------------------------------------------------------------------------------------------


def _variable(name, dtype, broadcastable):
    variable = TensorType(dtype, broadcastable)(name)
    return name, variable, "T.TensorType(%r, %r)(%r)" % (dtype, tuple(map(bool, broadcastable)), name)


def _constant(name, dtype, value, rank):
    array = np.full((1,) * rank, value, dtype)
    shown = _literal(array.reshape(-1)[0])
    if rank:
        return name, T.constant(array), "T.constant(np.full(%r, %s, %r))" % ((1,) * rank, shown, dtype)
    return name, T.constant(array), "T.constant(np.array(%s, %r))" % (shown, dtype)


def _literal(number):
    number = number.item()
    if isinstance(number, complex):
        return "complex(%s, %s)" % (_literal(np.float64(number.real)), _literal(np.float64(number.imag)))
    if isinstance(number, float) and not np.isfinite(number):
        return "float(%r)" % str(number)
    return repr(number)


def _is_tensor(name):
    return isinstance(VARIABLES[name][0].type, TensorType)


def _partitions(items):
    """Yield all ways to make some of the items equal, as dicts item -> representative."""
    for blocks in itertools.product(range(len(items)), repeat=len(items)):
        # `blocks` has a block number for each item. Accept it only if each number is the index of the first item of the
        # block, so that each partition is accepted once.
        if all(blocks[b] == b and b <= i for i, b in enumerate(blocks)) and len(set(blocks)) < len(items):
            yield {item: items[b] for item, b in zip(items, blocks)}


def settings(text, most_dtypes=None):
    """Yield the settings in which a text is tried.

    Parameters
    ----------
    text : str
    most_dtypes : int, optional
        Number of dtypes that are tried. Default: all dtypes.

    Yields
    ------
    Setting
    """
    found = [name for name in leaves(text) if _is_tensor(name)]
    types = {name: VARIABLES[name][0].type for name in found}
    yield Setting("as it is")
    yield from _shared_settings(found, types)
    yield from _dtype_settings(found, types, most_dtypes)
    yield from _constant_settings(found, types)
    yield from _rank_settings(found, types)
    if found:
        yield Setting("inner outputs", more="inner")
        yield Setting("input as output", more="input")


def _with_dtype(name, type, dtype):
    return _variable(name, dtype, type.broadcastable)


def _shared_settings(found, types):
    for one in sorted({(t.ndim, t.broadcastable) for t in types.values()}):
        alike = [name for name in found if (types[name].ndim, types[name].broadcastable) == one][:4]
        for classes in _partitions(alike):
            for dtype in ("float64", "int8", "uint8", "float16"):
                if any(types[name].dtype[0] != "f" for name in alike) and dtype != types[alike[0]].dtype:
                    continue
                made = {name: _with_dtype(name, types[name], dtype) for name in set(classes.values())}
                given = [made[name] for name in alike if name in made]
                given += [(name, made[classes[name]][1], classes[name]) for name in alike if name not in made]
                yield Setting("the same variable", tuple(given))


def _dtype_settings(found, types, most):
    floats = [name for name in found if types[name].dtype[0] == "f"]
    for dtype in special_values.DTYPES[:most]:
        if dtype != "float64" and floats:
            yield Setting("dtype", tuple(_with_dtype(name, types[name], dtype) for name in floats))
    if len(floats) > 1:
        for name in floats:
            for dtype in ("bool", "int8", "uint64", "float32", "complex64"):
                yield Setting("mixed dtypes", (_with_dtype(name, types[name], dtype),))
    for name in found:
        if types[name].dtype[0] in "iub":
            for dtype in ("bool", "int8", "uint8", "int64", "uint64", "float64"):
                if dtype != types[name].dtype:
                    yield Setting("dtype", (_with_dtype(name, types[name], dtype),))


def _constant_settings(found, types):
    for name in found:
        for rank in sorted({0, types[name].ndim}):
            for value in special_values.constants(types[name].dtype):
                yield Setting("constant", (_constant(name, types[name].dtype, value, rank),))
    vectors = [name for name in found if types[name].ndim == 1 and types[name].dtype == "float64"]
    for name in vectors[:3]:
        for dtype in ("int8", "uint8"):
            others = tuple(_with_dtype(other, types[other], dtype) for other in vectors if other != name)
            for value in special_values.constants(dtype):
                yield Setting("constant", (_constant(name, dtype, value, 1), *others))


def _rank_settings(found, types):
    numbers = [name for name in found if types[name].dtype[0] in "fc"]
    for name in numbers:
        for pattern in [(), (False,), (True,), (False, False), (True, False), (False, True)]:
            if pattern != types[name].broadcastable:
                yield Setting("rank", (_variable(name, types[name].dtype, pattern),))
    for pattern in [(), (False,), (False, False), (False,) * 3]:
        if len(numbers) > 1:
            yield Setting("rank", tuple(_variable(name, types[name].dtype, pattern) for name in numbers))
