"""Rules written as rows of algebra, ``pattern -> replacement``.

Both sides of a row are terms. A term is an op, applied to names, numbers and other terms ::

    x, y = names("x", "y")
    exp, log, log1p, maximum = terms(T.exp, T.log, T.log1p, T.maximum)

    @rule((log(exp(x) + exp(y)), maximum(x, y) + log1p(exp(-abs(x - y)))))
    def local_log_add():
        "Compute the logarithm of a sum of two exponentials without overflow."

A pattern may also contain conditions (`restricted`, `typed`, `number`, `alone`), a `Rest` for the remaining inputs of a
node, and classes of ops instead of an op (`terms`, `elementwise`, `ops_such`, `copying`). A function may compute the
replacement (see `rule`).

Terms are the tuples, strings and dicts that `PatternSub` accepts, extended by Python's operators.
"""

import functools
import types

import numpy as np

from theano_ng.gof.rewriting import PatternSub, copy_stack_trace, local_optimizer
from theano_ng.gof.rewriting.pattern import (
    OpPattern,
    Rest,
    acceptance,
    arguments_matcher,
    build,
    is_commutative,
    tracked,
)
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.opt.common import computes, constant_value, get_clients, get_clients2, in_dtype, rule_result


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
    """A tuple of an op and its arguments. In a replacement, the first element may be any function instead of an op."""

    __hash__ = tuple.__hash__


class Name(_Operators, str):
    """A name that matches any variable. Within a row, equal names match the same variable."""

    __hash__ = str.__hash__


class Restricted(_Operators, dict):
    """A pattern that matches only variables for which a condition is true."""

    def __str__(self):
        return str(self["pattern"])


def names(*texts):
    """Return one `Name` for each text."""
    return [Name(text) for text in texts]


def restricted(pattern, condition):
    """Return a pattern that matches `v` if the name or term `pattern` matches `v` and ``condition(v)`` is true."""
    return Restricted(pattern=pattern, constraint=condition)


def typed(pattern, kinds=None, ndim=None, broadcastable=None):
    """Return a pattern that matches only tensors of certain types.

    Parameters
    ----------
    pattern : str or Term
    kinds : str, optional
        The permitted kinds of dtypes: the first letters of their names, as in "fc" for floats and complex numbers.
    ndim : int, optional
    broadcastable : tuple of bool, optional
    """
    return restricted(
        pattern,
        lambda v: (
            (kinds is None or v.dtype[0] in kinds)
            and (ndim is None or v.ndim == ndim)
            and (broadcastable is None or v.broadcastable == broadcastable)
        ),
    )


def number(name, condition):
    """Return a pattern for a variable whose elements all equal a known number. ``condition(number)`` must be true.

    `condition` gets the number as a 0-d array. A match binds the variable to `name`.
    """

    def is_such(v):
        value = constant_value(v)
        return value is not None and bool(condition(value))

    return restricted(name, is_such)


def alone(pattern):
    """Return a pattern that matches `v` if `pattern` matches `v` and `v` has at most one client."""
    return restricted(pattern, lambda v: len(getattr(v, "clients", ())) <= 1)


def terms(*ops):
    """Return one function for each op. The function makes terms of this op from arguments.

    If the terms are used in patterns, `ops` may also contain op classes and `OpPattern` instances. If the terms are
    used in replacements, `ops` may also contain functions.
    """
    return [lambda *arguments, op=op: Term((op,) + arguments) for op in ops]


def elementwise(*scalar_ops):
    """Return one function for each class of scalar ops. Each function makes patterns for Elemwises of such ops."""
    return terms(*[_ElemwiseOf(Elemwise, condition=computes(cls)) for cls in scalar_ops])


class _ElemwiseOf(OpPattern):
    """A pattern whose condition reads only the class of the scalar op, so that `_lookup` caches rows by this class."""


def ops_such(*op_classes, condition):
    """Return a function that makes patterns for the Ops of the given classes for which ``condition(op)`` is true."""
    return terms(OpPattern(*op_classes, condition=condition))[0]


def copying(*op_classes):
    """Return a function that makes patterns for the Ops of the given classes that do not work in place."""
    return ops_such(*op_classes, condition=lambda op: not op.inplace)


def dimshuffled(pattern, *order):
    """Return a pattern for ``pattern.dimshuffle(*order)``."""
    return ops_such(DimShuffle, condition=lambda op: op.new_order == order)(pattern)


def again(*arguments):
    """Return a replacement: the Op of the matched node, applied to `arguments`."""
    return Term((lambda op, *inputs: op(*inputs), "op", *arguments))


def widened(x):
    """Return a replacement: `x`, converted to the dtype of the output."""
    return Term((lambda v, out: v if v.dtype == out.dtype else T.cast(v, out.dtype), x, "out"))


def _known_as(head):
    if isinstance(head, Elemwise):
        # The name of an Elemwise is either the name of the function, or has a form like Elemwise{exp,no_inplace}.
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


def term_text(term, binding=0):
    """Return the text of a term, in parentheses if its precedence is lower than `binding`."""
    if not isinstance(term, tuple):
        return str(term)
    head, arguments = term[0], term[1:]
    if head in _INFIX:
        own, symbol = _INFIX[head]
        text = symbol.join(term_text(a, own + (i > 0 or head is T.pow)) for i, a in enumerate(arguments))
    elif head is T.neg:
        own, text = 3, "-" + term_text(arguments[0], 3)
    else:
        name = _known_as(head)
        own, text = 9, "%s(%s)" % (name, ", ".join(map(term_text, arguments)))
    return "(%s)" % text if own < binding else text


def _described(text, rows):
    """Return a docstring with the rows as examples.

    Return `text` unchanged if it already contains examples. Also return it unchanged if a row contains a `Rest`,
    because such a row is no valid example.
    """
    if "  ->" in text or any(isinstance(name, Rest) for pattern, _ in rows for name in _names_in(pattern)):
        return text
    return "%s\n\n%s\n" % (
        text,
        "\n".join("    %s  ->  %s" % (term_text(pattern), term_text(new)) for pattern, new in rows),
    )


def rule(*rows, same_type=False, provided=None, inplace=False):
    """Return a decorator that makes a local optimizer from rows.

    The decorated function gives the rule its name and its docstring. The rule calls the function only for a row that is
    a pattern without a replacement, to compute the replacement::

        @rule((-(-x), x))
        def local_neg_neg():
            "Cancel two negations."

        @rule(log(erfc(x)))
        def local_log_erfc(x, out):
            "Compute the logarithm of erfc accurately."
            return log_of_erfc(x) if out.dtype in ERFC_THRESHOLD else None

    Parameters
    ----------
    *rows : (pattern, replacement) or pattern
        Terms. A number in a pattern matches each variable whose elements all equal this number. A number in a
        replacement gets the dtype of the output. A replacement may be a function, like the decorated function: its
        parameters are names in the pattern, `node`, `op` (the Op of the node) and `out` (its output). It returns a
        variable, a list of variables for all outputs, a dict as the `transform` of rules does, or None or False to
        decline. The first row that matches, and does not decline, is used.
    same_type : bool
        Whether to apply the rule only if the replacement already has the type of the replaced variable. By default, the
        replacement of an elementwise node is converted and broadcast to this type. The replacement of any other node
        must always have the type.
    provided : callable, optional
        ``provided(node)`` returns True if the rule may be applied to a node that matches.
    inplace : bool
        Whether the rule introduces in-place operations.

    Returns
    -------
    callable
        The decorator. It returns a LocalOptimizer that tracks the outermost ops of the patterns.
    """

    def decorator(function):
        complete = [(row, function) if isinstance(row, Term) else row for row in rows]
        compiled = [(p[0], _row(p, new)) for p, new in complete]
        only, find, when = _lookup(compiled)

        def transform(node):
            bindings, found = {}, find(node.op) if only is None else only
            for matches, make in found:
                if matches(node, bindings) and (provided is None or provided(node)):
                    out = node.outputs[0]
                    bindings["node"], bindings["op"], bindings["out"] = node, node.op, out
                    result = _result(make(bindings), node, out, same_type)
                    if result:
                        return result
                if bindings and len(found) > 1:
                    # Remove the variables bound to names, because the next row binds the names again. Keep the
                    # known values of variables, whose keys are not names.
                    bindings = {key: value for key, value in bindings.items() if not isinstance(key, str)}
            return False

        transform.__name__, transform.__qualname__ = function.__name__, function.__qualname__
        transform.__module__, transform.__wrapped__ = function.__module__, function
        transform.__doc__ = _described(function.__doc__, complete)
        tracks = dict.fromkeys(t for op, _ in compiled for t in tracked(op))
        return local_optimizer(list(tracks), inplace, when=when)(transform)

    return decorator


def _lookup(compiled):
    """Return the rows of a rule, or the function that selects rows for an Op.

    Parameters
    ----------
    compiled : list of (outermost op, row)

    Returns
    -------
    only : list of rows or None
        The rows, if they are the same for all tracked Ops.
    find : callable or None
        ``find(op)`` returns the rows for a tracked Op. None if `only` is given.
    when : callable or None
        The parameter `when` of `local_optimizer`. It is None unless all patterns are made by `elementwise`. For
        Elemwise, the engine looks up the rules for each Op in any case. For any other class, the engine looks up the
        rules once for the class, but if a rule had `when`, it would look them up for each Op. If `when` is None, `find`
        returns no rows for an Op that does not match.
    """
    by_op = {}
    for op, row in compiled:
        by_op.setdefault(op, []).append(row)
    (first, rows), *others = by_op.items()
    if not others and not isinstance(first, OpPattern):
        return rows, None, None
    if not any(isinstance(op, (type, OpPattern)) for op in by_op):
        return None, by_op.__getitem__, None
    is_elementwise = all(isinstance(op, _ElemwiseOf) for op in by_op)
    if not others:
        if is_elementwise:
            return rows, None, first.condition
        return None, lambda op: rows if first.condition(op) else (), None
    accepted = [(acceptance(op), row) for op, row in compiled]

    def find(op):
        return [row for accepts, row in accepted if accepts(op)]

    if not is_elementwise:
        return None, find, None
    known = {}

    def find_once(op):
        cls = type(op.scalar_op)
        if cls not in known:
            known[cls] = find(op)
        return known[cls]

    return None, find_once, lambda op: bool(find_once(op))


def _row(pattern, new):
    """Return a list of two functions: ``matches(node, bindings)``, and a function from bindings to the replacement.

    A program loads all rules, but most rules are never applied to a node. So the list initially contains two functions
    that make the real functions when the first node is compared with the pattern, and put them into the list.
    """
    if isinstance(new, types.FunctionType):
        _check_parameters(pattern, new)

    def first_match(node, bindings):
        row[:] = arguments_matcher(pattern, True), _builder(new)
        return row[0](node, bindings)

    row = [first_match, lambda bindings: row[1](bindings)]
    return row


def _parameters(function):
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _check_parameters(pattern, function):
    """Raise ValueError if a parameter of `function` is neither a name in the pattern nor `node`, `op` or `out`."""
    unknown = {*_parameters(function)} - {"node", "op", "out", *_names_in(pattern)}
    if unknown:
        raise ValueError(
            "%s has the parameters %s, which are not names of the pattern %s; other possible parameters are node, op and out"
            % (function, sorted(unknown), term_text(pattern))
        )


def _builder(new):
    """Return a function from the bindings of a match to the replacement."""
    if not isinstance(new, types.FunctionType):
        term = _without_rest(new)
        return lambda bindings: build(term, bindings)
    wanted = _parameters(new)
    return lambda bindings: new(*map(bindings.__getitem__, wanted))


def _names_in(pattern):
    """Return the set of the names in a pattern."""
    found, todo = set(), [pattern]
    for term in todo:
        if isinstance(term, dict):
            todo.append(term["pattern"])
        elif isinstance(term, tuple):
            todo.extend(term[1:])
        elif isinstance(term, str):
            found.add(term)
    return found


def _without_rest(term):
    """Return `term`, changed so that sums and products of a `Rest` are computed in the dtype of the output."""
    if not isinstance(term, tuple):
        return term
    arguments = [_without_rest(argument) for argument in term[1:]]
    if isinstance(term[-1], Rest) and is_commutative(term[0]):
        return (functools.partial(_joined, term[0]), "out", *arguments)
    return (term[0], *arguments)


def _joined(op, out, *operands):
    return operands[0] if len(operands) == 1 else in_dtype(op, operands, out.dtype)


def _result(new, node, out, same_type):
    """Return the result of a rule, given the replacement `new` that a row computed.

    If `new` is a variable or number, convert it to the type of `out`. Return False if this is impossible.
    """
    if new is None or new is False or isinstance(new, dict):
        return new
    if isinstance(new, list):
        if [v.type for v in new] != [v.type for v in node.outputs]:
            return False
        copy_stack_trace(node.outputs, new)
        return new
    if isinstance(new, (int, float)):
        new = T.as_tensor_variable(np.asarray(new, dtype=out.dtype))
    if new.type == out.type:
        copy_stack_trace(out, new)
        return [new]
    return False if same_type or not isinstance(node.op, Elemwise) else rule_result(new, out)


# These ops occur in nearly every graph. If one of them is the outermost op of a pattern, the search for the pattern
# starts from a rarer inner op instead, which has few clients.
_FREQUENT = (T.add, T.sub, T.mul, T.neg, T.true_div)


def _rarest(pattern):
    """Return the outermost of the ops in a pattern that are not in `_FREQUENT`, and the number of ops around this op.

    Return the outermost op and 0 if the three outermost levels contain only frequent ops.
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
