"""Rules written as rows of algebra, ``pattern -> replacement``.

Both sides of a row are terms. A term is an op applied to names, numbers and other terms ::

    x, y = names("x", "y")
    exp, log, log1p, maximum = terms(T.exp, T.log, T.log1p, T.maximum)
    local_log_add = rule("local_log_add", "The logarithm of a sum of two exponentials, without overflow.",
                         (log(exp(x) + exp(y)), maximum(x, y) + log1p(exp(-abs(x - y)))))

Terms are the tuples, strings and dicts that `PatternSub` accepts, with Python's operators.
"""

import numpy as np

from theano_ng.gof.rewriting import PatternSub, copy_stack_trace, local_optimizer
from theano_ng.gof.rewriting.pattern import arguments_matcher, build
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.opt.common import answer, get_clients, get_clients2


class _Operators:
    """A mixin with Python's operators, which make terms of the corresponding tensor ops."""

    def __neg__(self):
        return Term((T.neg, self))

    def __abs__(self):
        return Term((T.abs_, self))

    def __add__(self, other):
        return Term((T.add, self, other))

    def __radd__(self, other):
        return Term((T.add, other, self))

    def __sub__(self, other):
        return Term((T.sub, self, other))

    def __rsub__(self, other):
        return Term((T.sub, other, self))

    def __mul__(self, other):
        return Term((T.mul, self, other))

    def __rmul__(self, other):
        return Term((T.mul, other, self))

    def __truediv__(self, other):
        return Term((T.true_div, self, other))

    def __rtruediv__(self, other):
        return Term((T.true_div, other, self))

    def __floordiv__(self, other):
        return Term((T.int_div, self, other))

    def __rfloordiv__(self, other):
        return Term((T.int_div, other, self))

    def __pow__(self, other):
        return Term((T.pow, self, other))


class Term(_Operators, tuple):
    """A tuple of an op and its arguments. In a replacement, the op may be any function."""

    __hash__ = tuple.__hash__


class Name(_Operators, str):
    """A name that matches any variable. Within a row, equal names match the same variable."""

    __hash__ = str.__hash__


class Restricted(_Operators, dict):
    """A name that matches only variables for which a condition is true."""

    def __str__(self):
        return str(self["pattern"])


def names(*texts):
    """Return one `Name` for each text."""
    return [Name(text) for text in texts]


def such(name, condition):
    """Return a name that matches a variable `v` only if ``condition(v)`` is true."""
    return Restricted(pattern=name, constraint=condition)


def terms(*ops):
    """Return one function for each op, which makes terms of this op. In a pattern, an op class may replace an op."""
    return [lambda *arguments, op=op: Term((op,) + arguments) for op in ops]


def _known_as(head):
    if isinstance(head, Elemwise):
        # Elemwise{exp,no_inplace}, or the name itself
        return head.name.split("{")[-1].split(",")[0]
    return getattr(head, "__name__", None) or type(head).__name__


_INFIX = {
    T.add: (1, " + "),
    T.sub: (1, " - "),
    T.mul: (2, " * "),
    T.true_div: (2, " / "),
    T.int_div: (2, " // "),
    T.pow: (4, " ** "),
}


def shown(term, binding=0):
    """Return the text of a term, in parentheses if its precedence is lower than `binding`."""
    if not isinstance(term, tuple):
        return str(term)
    head, arguments = term[0], term[1:]
    if head in _INFIX:
        own, symbol = _INFIX[head]
        text = symbol.join(shown(a, own + (i > 0 or head is T.pow)) for i, a in enumerate(arguments))
    elif head is T.neg:
        own, text = 3, "-" + shown(arguments[0], 3)
    else:
        name = _known_as(head)
        own, text = 9, "%s(%s)" % (name, ", ".join(map(shown, arguments)))
    return "(%s)" % text if own < binding else text


def _described(text, rows):
    return "%s\n\n%s\n" % (text, "\n".join("    %s  ->  %s" % (shown(pattern), shown(new)) for pattern, new in rows))


def rule(name, text, *rows, same_type=False):
    """Make a local optimizer from rows.

    Parameters
    ----------
    name : str
    text : str
        A description of the rule, including its effect on dtypes, NaN and infinities.
    *rows : (pattern, replacement)
        Pairs of terms. A number in a pattern matches each variable whose elements all equal this number. A number in a
        replacement gets the dtype of the output. The first row that matches is used. The replacement is converted and
        broadcast to the type of the replaced variable.
    same_type : bool
        Whether to apply the rule only if the replacement already has the type of the replaced variable.

    Returns
    -------
    LocalOptimizer
        A rule that tracks the outermost ops of the patterns.
    """
    by_op = {}
    for pattern, new in rows:
        by_op.setdefault(pattern[0], []).append((arguments_matcher(pattern, allow_multiple_clients=True), new))
    tracks = list(by_op)
    if len(tracks) > 1 and any(isinstance(op, type) for op in tracks):
        raise ValueError(
            "The rule %s: if the outermost op of a row is a class, it must be the outermost op of all rows, got %s"
            % (name, tracks)
        )
    # With one op, no lookup is necessary: the rule is called only with nodes of this op.
    only = by_op[tracks[0]] if len(tracks) == 1 else None

    def transform(node):
        compiled = by_op[node.op] if only is None else only
        bindings = {}
        for matches, new in compiled:
            if matches(node, bindings):
                return _replacement(build(new, bindings), node.outputs[0], same_type)
            if len(compiled) > 1:
                # The next row binds its names again. The known values of variables are kept.
                bindings = {key: value for key, value in bindings.items() if not isinstance(key, str)}
        return False

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = _described(text, rows)
    return local_optimizer(tracks)(transform)


def _replacement(new, out, same_type):
    if isinstance(new, (int, float)):
        new = T.as_tensor_variable(np.asarray(new, dtype=out.dtype))
    if new.type != out.type:
        return False if same_type else answer(new, out)
    copy_stack_trace(out, new)
    return [new]


# Ops that occur in nearly every graph. A pattern with one of them outermost is searched from a rarer inner op instead,
# which has few clients.
_FREQUENT = (T.add, T.sub, T.mul, T.neg, T.true_div)


def _rarest(pattern):
    """Return the outermost op of a pattern that is not in `_FREQUENT`, and the number of ops around it.

    Return the outermost op, and 0, if the three outermost levels contain only frequent ops.
    """
    level = [pattern]
    for depth in range(3):
        for term in level:
            if isinstance(term, tuple) and term[0] not in _FREQUENT:
                return term[0], depth
        level = [a for term in level if isinstance(term, tuple) for a in term[1:]]
    return pattern[0], 0


def pattern_rule(name, text, pattern, new, **kwargs):
    """Make a `PatternSub` from a row. The replacement must have the type of the replaced variable.

    Parameters
    ----------
    name, text : str
    pattern, new : Term
    **kwargs
        Keyword arguments of `PatternSub`.
    """
    op, depth = _rarest(pattern)
    if depth:
        kwargs.update(tracks=[op], get_nodes=(get_clients, get_clients2)[depth - 1])
    made = PatternSub(pattern, new, allow_multiple_clients=True, name=name, **kwargs)
    made.__doc__ = _described(text, [(pattern, new)])
    return made
