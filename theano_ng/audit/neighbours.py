"""Neighbours of an Op: Ops of the same class that are built with one or two other constructor arguments.

An example shows an Op with certain parameters. Errors that other parameters would show stay hidden unless the audit
tries these parameters, too.
"""

import ast
import copy
import inspect
import itertools
import textwrap

from theano_ng.gof.op import Op, PureOp
from theano_ng.gof.type import EnumType

#: Types of constructor arguments and attributes for which other values are generated.
PLAIN = (bool, int, float, str)

#: The maximum number of values of an argument that is changed together with another one.
MOST_IN_PAIRS = 3

# Arguments of Elemwise and of scalar Ops that do not change what is computed: the name, and a NumPy function which has to
# compute the same as the Op.
_DESCRIPTIONS = ("name", "nfunc_spec")


def neighbours(op, constants):
    """Yield pairs (change, Op) of Ops with one other constructor argument, and then of Ops with two of them.

    The arguments alternate. Two arguments are changed together if they choose among a few values: bools, and arguments
    with which the code compares constants.

    Parameters
    ----------
    op : Op
    constants : code_constants.CodeConstants
        Numbers and texts that may be values of arguments.

    Yields
    ------
    (str, Op)
        The change, such as ``alpha=0.0 instead of 0.3``, and the Op. Nothing is yielded if the constructor arguments of
        the Op cannot be read from its attributes.
    """
    values = _arguments(op)
    rebuilt = rebuild(op, {})
    if not values or rebuilt is None or not same_attributes(op, rebuilt):
        return
    values = {name: value for name, value in values.items() if name not in (*_DESCRIPTIONS, "inplace_pattern")}
    sources = [_with_other_argument(op, name, value, constants) for name, value in values.items()]
    for row in itertools.zip_longest(*sources):
        yield from (found for found in row if found is not None)
    few = {name: _alternatives(op, name, value)[:MOST_IN_PAIRS] for name, value in values.items()}
    sources = [_with_two_other_arguments(op, few, values, one, two) for one, two in itertools.combinations(few, 2)]
    for row in itertools.zip_longest(*sources):
        yield from (found for found in row if found is not None)


def _alternatives(op, name, value):
    """Return the other values of an argument that chooses among a few values, or an empty list."""
    choices = [not value] if isinstance(value, bool) else _choices(op, name)
    found = []
    for new in choices:
        other = rebuild(op, {name: new}) if type(new) is type(value) and new != value else None
        if other is not None and not same_attributes(op, other):
            found.append(new)
    return found


def _with_two_other_arguments(op, few, values, one, two):
    for first, second in itertools.product(few[one], few[two]):
        other = rebuild(op, {one: first, two: second})
        if other is not None:
            change = "%s=%r and %s=%r instead of %r and %r"
            yield change % (one, first, two, second, values[one], values[two]), other


def _with_other_argument(op, name, value, constants):
    """Yield pairs (change, Op) in which the argument `name`, whose value is `value`, has another value."""
    if isinstance(value, PureOp):
        for change, inner in neighbours(value, constants):
            other = rebuild(op, {name: inner})
            if other is not None:
                yield "%s.%s" % (name, change), other
        return
    optional = inspect.signature(type(op).__init__).parameters[name].default is None
    found = _alternatives(op, name, value)
    if not isinstance(value, str):
        found += [new for new in other_values(value, constants) if new not in found]
    for new in found:
        if new is None and not optional:
            continue
        other = rebuild(op, {name: new})
        if other is not None and not same_attributes(op, other):
            yield "%s=%r instead of %r" % (name, new, value), other


def _choices(op, name):
    """Return the values that the code of an Op compares with an argument, or that an enumeration of its params permits."""
    found = {}
    params = getattr(op, "params_type", None)
    kinds = dict(zip(getattr(params, "fields", ()), getattr(params, "types", ())))
    for kind in (kinds.get(name), params if getattr(type(op), "__props__", ()) == (name,) else None):
        if isinstance(kind, EnumType):
            found.update(dict.fromkeys([*kind, *kind.aliases, *kind.values()]))
    for cls in type(op).__mro__:
        if cls.__module__ in ("builtins", "theano_ng.gof.op", "theano_ng.gof.utils", "theano_ng.scalar.op"):
            continue  # the base classes of Ops: their names have other meanings
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):  # no source
            continue
        for node in ast.walk(tree):
            found.update(dict.fromkeys(_compared_with(node, name)))
    return list(found)


def _compared_with(node, name):
    """Yield the constants that a node of a syntax tree compares with an attribute or variable, or looks up by it."""

    def is_argument(part):
        return getattr(part, "attr", getattr(part, "id", None)) == name

    if isinstance(node, ast.Compare) and any(is_argument(part) for part in (node.left, *node.comparators)):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict) and is_argument(node.slice):
        parts = node.value.keys
    else:
        return
    for part in parts:
        for inner in part.elts if isinstance(part, (ast.Tuple, ast.List, ast.Set)) else [part]:
            if isinstance(inner, ast.Constant):
                yield inner.value


def other_values(value, constants):
    """Return other values for an argument, the most promising ones first.

    Parameters
    ----------
    value : object
        The value of the argument. Values are generated for bool, int, float, str, None, and for tuples and lists of
        such values.
    constants : code_constants.CodeConstants

    Returns
    -------
    list
    """
    if isinstance(value, bool):
        found = [not value, None]
    elif isinstance(value, int):
        found = [0, 1, -1, value + 1, value - 1, -value, 2 * value + 1, None, 2, 3]
        found += [n for n in constants.lengths(2, 64) if n not in found][:4]
    elif isinstance(value, float):
        found = [0.0, -value, 1.0, value + 1.0, 0.5 * value, None, -1.0, 2.0 * value + 0.5]
        found += [float(n) for n in constants.numbers if abs(n) <= 1e6][:6]
    elif isinstance(value, str):
        found = [text for text in constants.texts if text != value and text.isidentifier()][:12] + [value + "_"]
    elif value is None:
        found = [0, 1, True, -1, 0.5, (0,)]
    elif isinstance(value, (tuple, list)) and all(v is None or isinstance(v, PLAIN) for v in value):
        found = [value[::-1], value[:-1], value[:1], value[:0]]
        for place, element in enumerate(value):
            for new in other_values(element, constants)[:3]:
                found.append(value[:place] + type(value)([new]) + value[place + 1 :])
    else:
        found = []
    unique = {
        (type(new), repr(new)): new for new in found if new is None or type(new) is not type(value) or new != value
    }
    return list(unique.values())


def changed_ops(op, constants):
    """Yield pairs (description, Op) of Ops with one changed argument.

    If the arguments are unknown, one attribute is changed instead. The description completes the sentence "the Op
    equals one ...".
    """
    values = _arguments(op)
    rebuilt = rebuild(op, {})
    if values is not None and rebuilt is not None and same_attributes(op, rebuilt):
        for name, value in values.items():
            for new in other_values(value, constants) if name not in _DESCRIPTIONS else ():
                other = rebuild(op, {name: new})
                if other is not None:
                    yield "built with %s=%r" % (name, new), other
        return
    for name, value in list(getattr(op, "__dict__", {}).items()):
        if not isinstance(value, PLAIN) or name.startswith("_"):
            continue
        for new in other_values(value, constants):
            other = copy.copy(op)
            try:
                setattr(other, name, new)
            except Exception:
                break
            yield "whose attribute %s is %r" % (name, new), other


def same_attributes(op, other):
    """Return True if the attributes of two Ops have equal texts.

    If the constructor converts its arguments, an Op that is rebuilt from its attributes may have different attributes.
    """
    return repr(sorted(vars(op).items(), key=str)) == repr(sorted(vars(other).items(), key=str))


def _arguments(op):
    """Return the constructor arguments of the Op by name, read from its attributes. Return None if one is unknown."""
    init = type(op).__init__
    if init in (object.__init__, Op.__init__):
        return {}
    try:
        parameters = list(inspect.signature(init).parameters.values())[1:]
    except (TypeError, ValueError):
        return None
    values = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return None
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if hasattr(op, parameter.name):
            values[parameter.name] = getattr(op, parameter.name)
        elif parameter.default is parameter.empty:
            return None
    return values


def rebuild(op, changes):
    """Return an Op built with the same constructor arguments except for `changes`, or None if this is impossible."""
    values = _arguments(op)
    if values is None:
        return None
    try:
        other = type(op)(**dict(values, **changes))
    except Exception:
        return None
    # If the names of the attributes differ, the arguments were not reconstructed correctly.
    if set(getattr(other, "__dict__", ())) != set(getattr(op, "__dict__", ())):
        return None
    return other
