"""The Ops and numbers that the code of a rule mentions.

A rule examines the Ops and constants around its node. The oracle therefore builds graphs from the Ops and numbers in
the code of the rule.
"""

import dis
import types
from dataclasses import dataclass
from types import CodeType, FunctionType

import numpy as np

from theano_ng import scalar
from theano_ng.audit.code_constants import functions_used_by, nested_codes, plain_values
from theano_ng.audit.rewrites.registry import parts
from theano_ng.gof.graph import Constant
from theano_ng.gof.op import PureOp

#: The modules of the engine. Its classes of rules are no code of an author.
_ENGINE = ("theano_ng.gof.rewriting", "theano_ng.gof.opt", "builtins")


@dataclass(frozen=True)
class Mentioned:
    """The objects that the code of a rule mentions, in the order of their first occurrence.

    Attributes
    ----------
    numbers : tuple of int or float
    ops : tuple of Op
    classes : tuple of type
        Classes of Ops, and classes of scalar Ops.
    """

    numbers: tuple = ()
    ops: tuple = ()
    classes: tuple = ()


def mentioned(rule):
    """Return what the code of a rule mentions.

    Parameters
    ----------
    rule : LocalOptimizer or Optimizer

    Returns
    -------
    Mentioned
    """
    found = {}
    for part in parts(rule):
        for value in _values(part):
            found.setdefault(_key(value), value)
    numbers, ops, classes = [], [], []
    for value in found.values():
        if isinstance(value, type):
            classes.append(value)
        elif isinstance(value, PureOp):
            ops.append(value)
        else:
            numbers.append(value)
    return Mentioned(tuple(numbers), tuple(ops), tuple(classes))


def _key(value):
    """Return a key that differs for 0.0, -0.0 and 0."""
    return value if isinstance(value, (type, PureOp)) else repr(value)


def _values(rule):
    """Yield the Ops, classes of Ops and numbers in the tracks, the attributes and the functions of a rule."""
    yield from _chosen(getattr(rule, "tracks", list)() or ())
    yield from _in_pattern([value for name, value in vars(rule).items() if not name.startswith("_")])
    for function in functions_used_by(_functions(rule)):
        for code in nested_codes(function.__code__):
            numbers = [value for value in plain_values(code.co_consts) if not isinstance(value, str)]
            yield from numbers
            yield from _chosen(_objects(code, function))


def _functions(rule):
    """Return the functions of which a rule consists."""
    found = [rule.fn] if isinstance(getattr(rule, "fn", None), FunctionType) else []
    for cls in type(rule).__mro__:
        if not cls.__module__.startswith(_ENGINE):
            found += [value for value in vars(cls).values() if isinstance(value, FunctionType)]
    return found


def _in_pattern(value):
    """Yield the Ops, classes of Ops and numbers in a pattern, or in a list of attributes."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _in_pattern(part)
    elif isinstance(value, dict):
        yield from _in_pattern(list(value.values()))
    elif isinstance(value, Constant):
        yield from _in_pattern(getattr(value.data, "item", lambda: None)() if np.size(value.data) == 1 else None)
    else:
        yield from _chosen([value])


def _chosen(values):
    """Yield the values that are Ops, classes of Ops, or numbers."""
    for value in values:
        if isinstance(value, PureOp) or isinstance(value, type) and issubclass(value, PureOp):
            yield value
        elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            yield value


def _objects(code: CodeType, function):
    """Yield the objects that code loads by a global name, the name of a closure, or ``module.name``."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    current = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = function.__globals__.get(step.argval)
        elif step.opname == "LOAD_DEREF" and step.argval in cells:
            current = _content(cells[step.argval])
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(current, types.ModuleType):
            current = getattr(current, step.argval, None)
        else:
            current = None
        yield current


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def is_scalar_class(cls):
    """Return True for a class of scalar Ops, which `Elemwise` applies to arrays."""
    return issubclass(cls, scalar.ScalarOp)
