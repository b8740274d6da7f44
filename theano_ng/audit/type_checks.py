"""Checks of the Types of an Op's inputs and outputs, on the values of the examples."""

import copy

import numpy as np

from theano_ng.audit.problems import Problem, Reject, one_line
from theano_ng.audit.running import reference
from theano_ng.gof.type import Type


def check_types(context):
    """Check that Types accept their values unchanged, compare them correctly, and have consistent equality and hash."""
    values, tried = {}, 0
    for example in context.examples(12):
        node = example.built.node
        try:
            outputs = reference(context, example)
        except Reject:
            continue
        tried += 1
        for v, value in zip(
            list(example.built.variables) + list(node.outputs), list(example.node_values()) + list(outputs)
        ):
            values.setdefault(id(v.type), (v.type, []))[1].append(value)
    problems = {}
    for t, seen in values.values():
        for message, method in _wrong(t, seen):
            problems.setdefault(message, Problem("BadType", "%s: %s" % (t, message), location=_location(t, method)))
    return context.verdict(list(problems.values()), tried)


def _location(t, method):
    code = getattr(getattr(type(t), method, None), "__code__", None)
    return "" if code is None else "%s:%d" % (code.co_filename, code.co_firstlineno)


def _wrong(t, values):
    """Yield the errors of a Type as pairs: a message, and the name of the method that is probably wrong."""
    yield from _wrong_identity(t)
    valid = []
    for value in values:
        try:
            if not t.is_valid_value(value):
                continue  # skip a value that is not valid yet: `filter` has to convert its layout first
        except Exception as failure:
            yield "is_valid_value raises %s" % one_line(failure), "is_valid_value"
            continue
        valid.append(value)
        try:
            if t.filter(value, strict=True) is not value:
                yield (
                    "filter with strict=True returns another object; it has to return the same object or raise an error",
                    "filter",
                )
        except Exception as failure:
            yield (
                "filter with strict=True refuses a value that is_valid_value accepts: %s" % one_line(failure),
                "filter",
            )
        for name in ("values_eq", "values_eq_approx"):
            try:
                same = getattr(t, name)(value, value)
            except Exception as failure:
                yield "%s raises %s" % (name, one_line(failure)), name
                continue
            # With `values_eq`, a NaN may differ from itself, as with the operator ==.
            if not same and not (name == "values_eq" and _has_nan(value)):
                yield "%s reports that a value differs from itself" % name, name
    for one, other in zip(valid, valid[1:]):
        if _far_apart(one, other):
            try:
                if t.values_eq_approx(one, other):
                    message = "values_eq_approx reports that %s and %s are equal, so that wrong values are not detected"
                    yield message % (_brief(one), _brief(other)), "values_eq_approx"
                    return
            except Exception as failure:
                yield "values_eq_approx raises %s" % one_line(failure), "values_eq_approx"


def _wrong_identity(t):
    if not (t == t) or t != t:  # noqa: SIM201, checks __eq__ and __ne__
        yield "the Type does not equal itself", "__eq__"
    try:
        if hash(t) != hash(t):
            yield "the hash changes between calls", "__hash__"
    except TypeError:
        yield "the Type is not hashable: a class that defines __eq__ has to define __hash__", "__eq__"
        return
    if type(t).__eq__ in (Type.__eq__, object.__eq__):
        return  # equality by identity is allowed
    try:
        twin = copy.copy(t)
    except Exception:
        return
    if not (t == twin):  # noqa: SIM201, checks __eq__
        yield "the Type does not equal a copy of it", "__eq__"
    elif hash(t) != hash(twin):
        yield "the Type equals a copy of it, but their hashes differ", "__hash__"


def _has_nan(value):
    return (
        isinstance(value, (np.ndarray, np.generic, float))
        and np.asarray(value).dtype.kind in "fc"
        and bool(np.isnan(value).any())
    )


def _brief(value):
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _far_apart(one, other):
    """Return True if two values certainly differ, by far more than rounding errors."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape:
            return True
        if one.size == 0 or one.dtype != other.dtype or one.dtype.kind not in "iuf":
            return False
        one, other = one.astype("float64"), other.astype("float64")
        if not (np.isfinite(one).all() and np.isfinite(other).all()):
            return False
        return bool((np.abs(one - other) > 1 + 0.1 * (np.abs(one) + np.abs(other))).any())
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) > 1 + 0.1 * (abs(one) + abs(other))
    return isinstance(one, str) and isinstance(other, str) and one != other
