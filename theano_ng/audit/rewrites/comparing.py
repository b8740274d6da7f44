"""Comparison of the values of a graph before and after a rule, element by element. Each difference has a kind."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from theano_ng.audit.rewrites import reference

#: Kind of difference -> its meaning.
KINDS = {
    "type": "the type of a replacement differs from the type of the variable that it replaces, or the dtype, the number of dimensions or the number of arrays of a value changed",
    "shape": "the shape of a value changed",
    "value": "integers, booleans or objects differ",
    "rounding": "a float is further from the true value than the rounding errors of the original graph allow",
    "cancellation": "a float is further from the true value than rounding errors allow, but only by a few rounding errors of the largest intermediate value or result",
    "nan": "a number, where the original graph computes or reads a NaN that does not follow from overflow or underflow",
    "new nan": "NaN, where the original graph gives a number",
    "infinity": "an infinity in one graph and another value in the other graph, or NaN in the rewritten graph where an input is infinite",
    "sign of infinity": "an infinity with the opposite sign, as after division by a zero with the opposite sign",
    "range": "another value, where an intermediate value in one of the graphs is too large or too small for its dtype",
    "wraparound": "another value, where integers wrap around in only one of the graphs",
    "sign of zero": "-0.0 instead of 0.0, or 0.0 instead of -0.0",
    "lost error": "the original graph raises an error, for example because lengths do not match, and the rewritten graph does not",
    "new error": "the rewritten graph raises an error, and the original graph does not",
    "endless": "the rule applies to its own result without end, or the rule and other rules of its database undo each other's changes",
    "broadcast": "the type of an output changed",
    "trace": "new variables lack the stack traces of the variables that they replace",
    "crash": "the rule itself raised an error, or returned something that the engine refuses",
    "in place": "a node overwrites a value that another node still reads, or an output; a rule that makes Ops work in place needs inplace=True, or a position after 49.5 in optdb, and an optimizer has to use fgraph.replace_validate",
    "mutation": "the rule changed a node of the graph, instead of returning replacements",
}

#: The maximum number of elements of one comparison for which `mpmath` computes the true value.
MAX_EXACT = 40

#: The largest permitted difference between two results that differ only in the order in which terms are added. The unit
#: is the rounding error of the largest intermediate value.
ALLOWED_ULPS = 8

#: The same limit for results with unknown intermediate values. The unit is the rounding error of the largest element of
#: the result.
ALLOWED_ULPS_OF_ARRAYS = 64


@dataclass(frozen=True)
class Difference:
    """One kind of difference in one output.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    output : int
    place : tuple of int or None
        The indices of the first element that differs.
    before, after : str
        The two values of this element, as text.
    true : str
        The true value as text, or "" if it is unknown.
    """

    kind: str
    output: int = 0
    place: tuple = None
    before: str = ""
    after: str = ""
    true: str = ""


def _as_list(value):
    """Return the arrays and objects of which the value of an output consists."""
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in _as_list(one)]
    if scipy.sparse.issparse(value):
        return [np.asarray(value.toarray()), np.array(value.format)]
    if isinstance(value, np.random.RandomState):
        _, keys, *rest = value.get_state()
        return [np.array(keys), np.array(rest)]
    return [value]


def compare(before, after, bounds=None, precise=None):
    """Return all kinds of difference between the results of two graphs.

    Parameters
    ----------
    before, after : list or Exception
        Results of `Computation`.
    bounds : callable, optional
        ``bounds(output, shape)`` is called when numbers differ. It returns the `reference.Bounded` of the output in the
        original graph, its `reference.Bounded` in the rewritten graph, and the `reference.Ranges` of both graphs. A
        `Bounded` is None if it is unknown.
    precise : callable, optional
        ``precise(output, place)`` returns the true value of one element as an mpmath number, or None.

    Returns
    -------
    list of Difference
    """
    if isinstance(before, Exception) or isinstance(after, Exception):
        if isinstance(before, Exception) and isinstance(after, Exception):
            return []
        kind = "lost error" if isinstance(before, Exception) else "new error"
        return [Difference(kind, before=_value_text(before), after=_value_text(after))]
    found = []
    for output, (one, other) in enumerate(zip(before, after)):
        ones, others = _as_list(one), _as_list(other)
        if len(ones) != len(others):
            found.append(Difference("type", output, None, _value_text(one), _value_text(other)))
            continue
        nested = isinstance(one, (list, tuple)) or scipy.sparse.issparse(one)
        for a, b in zip(ones, others):
            found += _compare_one(output, a, b, None if nested else bounds, precise)
    return found


def _value_text(value):
    if isinstance(value, Exception):
        text = str(value).strip().split("\n")[0]
        return "%s: %s" % (type(value).__name__, text[:200])
    return repr(value)[:200].replace("\n", " ")


def _compare_one(output, a, b, bounds, precise):
    if not isinstance(a, (np.ndarray, np.generic)) or not isinstance(b, (np.ndarray, np.generic)):
        same = type(a) is type(b) and bool(np.all(np.equal(a, b)))
        return [] if same else [Difference("value", output, None, _value_text(a), _value_text(b))]
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.ndim != b.ndim:
        return [Difference("type", output, None, "%s, rank %d" % (a.dtype, a.ndim), "%s, rank %d" % (b.dtype, b.ndim))]
    if a.shape != b.shape:
        return [Difference("shape", output, None, str(a.shape), str(b.shape))]
    if a.dtype.kind not in "fc":
        return _whole(output, a, b, bounds)
    if a.tobytes() == b.tobytes():
        return []
    return _floats(output, a, b, bounds, precise)


def _at(output, kind, a, b, mask, true=None):
    """Return a list with one difference, at the first True element of a mask. Return [] if no element is True."""
    if not np.any(mask):
        return []
    place = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(mask)))[: a.ndim]
    shown = "" if true is None else _value_text(true[place])
    return [Difference(kind, output, place, _value_text(a[place]), _value_text(b[place]), shown)]


def _whole(output, a, b, bounds):
    """Compare integers, booleans and texts. A difference in a result that depends on NaN has the kind "nan"."""
    differs = np.asarray(a != b)
    if not np.any(differs):
        return []
    unknown = wrapped = np.zeros(a.shape, bool)
    if bounds is not None and a.dtype.kind in "biu":
        ranges = bounds(output, a.shape)[-1]
        unknown, wrapped = ranges.unknown, ranges.wrapped & ~ranges.unknown_input
    return [
        *_at(output, "wraparound", a, b, differs & wrapped),
        *_at(output, "value", a, b, differs & ~unknown & ~wrapped),
        *_at(output, "nan", a, b, differs & unknown & ~wrapped),
    ]


def _floats(output, a, b, bounds, precise):
    with np.errstate(all="ignore"):
        if a.dtype.kind == "c":
            # Compare only the finite complex elements, and ignore signs of zeros, because libraries disagree about
            # complex infinities, NaN in one part, and signs of zeros.
            differs = (a != b) & np.isfinite(a)
            zeros = np.zeros(a.shape, bool)
        else:
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)))
            zeros = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
        doubtful, true, largest = differs, None, None
        outside = unknown = from_infinity = wrapped = np.zeros(a.shape, bool)
        if bounds is not None and np.any(differs):
            known, after, ranges = bounds(output, a.shape)
            outside, largest, unknown = ranges.outside, ranges.largest, ranges.unknown_input & ~np.isnan(b)
            from_infinity = ranges.infinite_input & np.isnan(b)
            error = _permitted_error(a, known, after)
            if known is not None and np.shape(known.value) == a.shape:
                true = known.value
                doubtful = differs & ~_close_enough(a, b, true, error)
            if a.dtype.kind == "f":
                doubtful = _judged_exactly(output, a, b, doubtful, precise, error)
            if known is not None and after is not None:  # otherwise the masks of wraparound may be incomplete
                wrapped = doubtful & ranges.wrapped & ~ranges.unknown_input
                doubtful = doubtful & ~wrapped
        unknown = doubtful & (np.isnan(a) | unknown)
        if true is not None:
            unknown &= ~(np.isfinite(true) & outside)
        inside = doubtful & ~outside & ~unknown
        infinite = np.isinf(a) & np.isinf(b)
        nonfinite = np.isinf(a) | np.isinf(b) | from_infinity
        finite = inside & np.isfinite(a) & np.isfinite(b)
        cancelled = np.zeros(a.shape, bool)
        if true is None and np.any(finite):
            cancelled = finite & (
                np.abs(a - b) <= ALLOWED_ULPS_OF_ARRAYS * np.finfo(a.dtype).eps * np.max(np.abs(a[np.isfinite(a)]))
            )
        elif largest is not None:
            cancelled = finite & (np.abs(a - b) <= ALLOWED_ULPS * np.finfo(a.dtype).eps * largest)
        return [
            *_at(output, "wraparound", a, b, wrapped, true),
            *_at(output, "nan", a, b, unknown, true),
            *_at(output, "new nan", a, b, inside & np.isnan(b) & ~nonfinite, true),
            *_at(output, "infinity", a, b, inside & nonfinite & ~infinite, true),
            *_at(output, "sign of infinity", a, b, doubtful & infinite & ~unknown, true),
            *_at(output, "rounding", a, b, finite & ~cancelled, true),
            *_at(output, "cancellation", a, b, cancelled, true),
            *_at(output, "range", a, b, doubtful & outside & ~infinite & ~unknown, true),
            *_at(output, "sign of zero", a, b, zeros),
        ]


def _permitted_error(a, before, after):
    """Return the permitted rounding error of each element.

    The permitted error is the upper bound in `before`, for the original graph. For an element that is not finite in the
    original graph, it is the upper bound in `after`, for the rewritten graph.
    """
    found = []
    for known in (before, after):
        fits = known is not None and np.shape(known.error) == a.shape
        found.append(np.asarray(known.error if fits else np.zeros(a.shape, np.longdouble)))
    return np.where(np.isfinite(a), found[0], found[1])


def _close_enough(a, b, true, error):
    """Return a mask of the elements at which `b` is as near to the true value as `a`, or within the permitted error."""
    # The result may always have one additional rounding error. It may be an infinity if the true value is too large.
    info = np.finfo(a.dtype)
    wide = np.longdouble if a.dtype.kind == "f" else np.clongdouble
    unit = np.longdouble(info.eps) * np.abs(true) + np.longdouble(info.smallest_subnormal)
    own = np.where(np.isfinite(a), np.abs(a.astype(wide) - true), 0)
    allowed = np.maximum(own, error + unit)
    near = np.isfinite(true) & (np.abs(b.astype(wide) - true) <= allowed) & np.isfinite(b)
    if a.dtype.kind == "c":
        return near
    beyond = np.isinf(b) & (np.sign(b) == np.sign(true)) & (np.abs(true) + error + unit >= np.longdouble(info.max))
    return near | beyond | (np.isinf(true) & (b == true))


def _judged_exactly(output, a, b, doubtful, precise, error):
    """Return the mask `doubtful` without the elements at which `b` is accurate enough.

    `mpmath` computes the true values of at most `MAX_EXACT` elements. If at least one of these values is known, all
    elements that were not checked are dropped, too.
    """
    if precise is None or not np.any(doubtful):
        return doubtful
    doubtful = np.array(doubtful)
    places = np.argwhere(doubtful)
    if len(places) > MAX_EXACT:
        places = places[np.linspace(0, len(places) - 1, MAX_EXACT).astype(int)]
    judged = np.zeros(a.shape, bool)
    for place in map(tuple, places):
        true = precise(output, place)
        if true is not None:
            judged[place] = True
            doubtful[place] = not reference.is_as_good(a[place], b[place], true, error[place])
    # Drop the elements that were not checked: the checked elements represent them.
    return doubtful & judged if np.any(judged) else doubtful
