"""Expressions with the Ops and the numbers in the code of a rule, for rules whose docstrings have no examples.

An expression applies an Op that the rule tracks to variables, to numbers, and to results of other Ops in the code. The
numbers are 0, 1, 2, -1, -0.0 and those in the code.
"""

import itertools
import re
from dataclasses import dataclass, field

import numpy as np

from theano_ng.audit.rewrites.instances import names
from theano_ng.audit.rewrites.registry import parts
from theano_ng.audit.rewrites.rule_code import is_scalar_class, mentioned
from theano_ng.gof.graph import Constant
from theano_ng.gof.op import PureOp
from theano_ng.gof.rewriting import PatternSub
from theano_ng.gof.rewriting.pattern import OpPattern
from theano_ng.tensor.elemwise.op import Elemwise

#: The numbers that every rule is tried with.
NUMBERS = ("0", "1", "2", "-1", "-0.0")

#: The maximum number of other numbers that are taken from the code of a rule.
MOST_NUMBERS = 4

#: The maximum number of calls of one inner Op with variables and numbers.
MOST_CALLS = 60

#: The variables of the expressions: vectors, and matrices for Ops that are not elementwise.
VECTORS, MATRICES = ("x", "y", "z"), ("A", "B", "C")

#: The name of a class of Ops -> templates that apply its Ops to {0}, {1} ...
TEMPLATES = {
    "DimShuffle": ("({0}).T", "({0}).dimshuffle('x', 0)", "({0}).dimshuffle(0, 'x')"),
    "Subtensor": (
        *("({0})[1:]", "({0})[::-1]", "({0})[0]", "({0})[-1]", "({0})[2:]", "({0})[:2]", "({0})[i]", "({0})[i:]"),
        *("({0})[:, 0]", "({0})[:, ::-1]", "({0})[:]", "({0})[::2]"),
    ),
    "IncSubtensor": ("inc_subtensor(({0})[1:], ({1})[1:])", "set_subtensor(({0})[1:], ({1})[1:])", "set_subtensor(({0})[0], 0)"),
    "AdvancedSubtensor1": ("({0})[labels]",),
    "AdvancedSubtensor": ("({0})[labels, labels]",),
    "Reshape": ("({0}).reshape(({0}).shape)", "({0}).reshape((-1,))", "({0}).reshape((1, -1))"),
    "Dot": ("dot({0}, {1})",),
    "Join": ("join(0, {0}, {1})", "join(0, {0})"),
    "Alloc": ("alloc({0}, 2, 3)", "alloc({0}, 2, 3, 3)"),
    "Shape": ("shape({0})",),
    "Shape_i": ("({0}).shape[0]",),
    "Cast": ("cast({0}, 'int8')", "cast({0}, 'int64')", "cast({0}, 'float32')", "cast({0}, 'float64')"),
    "MaxAndArgmax": ("max_and_argmax({0}, axis=0)[0]", "max_and_argmax({0}, axis=0)[1]"),
    **{
        cls: tuple("%s({0}%s)" % (name, axis) for axis in ("", ", axis=0", ", axis=1"))
        for cls, name in zip(
            "Sum Prod Max Min All Any Argmax".split(), "sum prod max min all any argmax".split()
        )
    },
}  # fmt: skip
TEMPLATES["CAReduce"] = TEMPLATES["Sum"] + TEMPLATES["Max"]

#: Elementwise functions for rules that track `Elemwise` and mention no scalar Ops.
ELEMENTWISE = ("add", "mul", "sub", "true_div", "exp", "neg", "switch")


@dataclass(frozen=True)
class Template:
    """A text with places {0}, {1} ... for operands.

    Attributes
    ----------
    text : str
    arity : int
    elementwise : bool
    """

    text: str
    arity: int
    elementwise: bool = True

    def __call__(self, *operands):
        return self.text.format(*operands)


@dataclass
class Vocabulary:
    """The templates and numbers of one rule.

    Attributes
    ----------
    outer : list of Template
        The templates of the Ops that the rule tracks. For a rule without tracks, those of all Ops that it mentions.
    inner : list of Template
        The templates of all Ops that the rule mentions.
    numbers : list of str
        All numbers with which the rule is tried.
    few : list of str
        The numbers for deep expressions, of which there are many: those in the code, if they contain others than
        `NUMBERS`.
    """

    outer: list = field(default_factory=list)
    inner: list = field(default_factory=list)
    numbers: list = field(default_factory=list)
    few: list = field(default_factory=list)


def vocabulary_of(rule, more=None):
    """Return the templates and numbers for the expressions on which a rule is tried.

    Parameters
    ----------
    rule : LocalOptimizer or Optimizer
    more : dict, optional
        Name -> Op, for Ops that `vocabulary.namespace` lacks.

    Returns
    -------
    Vocabulary
    """
    found = mentioned(rule)
    tracks = [track for part in parts(rule) for track in (getattr(part, "tracks", list)() or ())]
    inner = _distinct(t for op in (*found.ops, *found.classes) for t in _templates(op, more or {}))
    whens = [part.when for part in parts(rule) if getattr(part, "when", None) is not None]
    inner += [t for t in _accepted(whens) if t not in inner]
    outer = _distinct(t for track in tracks for t in _templates(track, more or {}))
    if any(isinstance(track, type) and issubclass(track, Elemwise) for track in tracks):
        outer += [t for t in inner if t.elementwise and t not in outer] or _distinct(
            t for name in ELEMENTWISE for t in _templates(names()[name], {})
        )
    usual = [repr(number) for number in found.numbers if repr(number) in NUMBERS]
    own = [_literal(number) for number in found.numbers if repr(number) not in NUMBERS][:MOST_NUMBERS]
    return Vocabulary(outer or inner, inner, [*own, *NUMBERS], [*own, *usual] if own else list(NUMBERS))


def _literal(number):
    if np.isnan(number):
        return "np.nan"
    return repr(number) if np.isfinite(number) else "np.inf" if number > 0 else "-np.inf"


def _distinct(items):
    return list(dict.fromkeys(items))


def _accepted(conditions):
    """Return the templates of the elementwise functions that one of the conditions `LocalOptimizer.when` accepts."""
    ops = [op for op in _names_of_ops() if isinstance(op, Elemwise)]
    return [t for op in ops if any(when(op) for when in conditions) for t in _templates(op, {})]


_known_names = {}


def _names_of_ops():
    """Return a dict: Op -> its shortest name in `vocabulary.namespace`."""
    if not _known_names:
        for name, op in sorted(names().items(), key=lambda item: (len(item[0]), item[0])):
            if isinstance(op, PureOp):
                _known_names.setdefault(op, name)
    return _known_names


def _templates(op, more):
    """Return the templates of an Op, of a class of Ops or of a class of scalar Ops."""
    if isinstance(op, type):
        if op.__name__ in TEMPLATES:
            return [_template(text, op.__name__ == "Cast") for text in TEMPLATES[op.__name__]]
        if is_scalar_class(op):
            return [
                t for known in _names_of_ops()
                if isinstance(known, Elemwise) and type(known.scalar_op) is op for t in _templates(known, {})
            ]  # fmt: skip
        return [t for name, known in more.items() if known is op for t in _applied(name + "()", op)]
    name = _names_of_ops().get(op) or next((name for name, known in more.items() if known == op), None)
    if name is not None:
        return _applied(name, op)
    return _templates(type(op), more)


def _applied(name, op):
    """Return the templates that call an Op by its name."""
    if isinstance(op, Elemwise):
        counts = [op.scalar_op.nin if op.scalar_op.nin > 0 else 2]
    else:
        counts = [1, 2]
    return [
        _template("%s(%s)" % (name, ", ".join("{%d}" % i for i in range(count))), isinstance(op, Elemwise))
        for count in counts
    ]


def _template(text, elementwise=False):
    return Template(text, 1 + max(map(int, re.findall(r"\{(\d)\}", text))), elementwise)


# -- expressions --------------------------------------------------------------------------------------------------------


def expressions(rule, more=None):
    """Return the expressions on which a rule is tried, without repetition, the most likely first.

    Parameters
    ----------
    rule, more
        See `vocabulary_of`.

    Returns
    -------
    list of str
    """
    found = {}
    for part in parts(rule):
        if isinstance(part, PatternSub):
            text = pattern_text(part.in_pattern)
            if text is not None:
                found[text] = None
    words = vocabulary_of(rule, more)
    plain = all(t.elementwise for t in (*words.outer, *words.inner))
    for variables in [VECTORS] if plain else [VECTORS, MATRICES]:
        found.update(dict.fromkeys(_trees(words, variables)))
    return list(found)


def _trees(words, variables):
    """Yield expressions with one, two and three Ops."""
    first, few = [*variables[:2], *words.numbers], [*variables[:2], *words.few]
    yield from (text for template in words.outer for text in _calls(template, [first] * template.arity))
    inner = _distinct(
        text
        for template in words.inner
        for text in itertools.islice(_calls(template, [few] * template.arity), MOST_CALLS)
    )
    for template in words.outer:
        for place in range(min(template.arity, 3)):
            yield from _calls(template, [inner if i == place else few for i in range(template.arity)])
    for template in words.outer:
        if template.arity == 2:
            yield from (template(text, text) for text in inner)
            yield from (template(one, other) for one, other in zip(inner, inner[1:]))
    # Constants as operands need a client that depends on a variable.
    for template in words.outer:
        if template.elementwise:
            calls = [template(*_wrapped([number] * template.arity)) for number in words.numbers]
            yield from ("%s + %s" % (call, variables[0]) for call in calls)
    unary = [template for template in words.inner if template.arity == 1]
    for template in words.outer:
        for one, other in itertools.product(unary, words.inner):
            middle = one(other(*variables[: other.arity]))
            yield template(*[middle, *variables[1 : template.arity]])
    for one in words.outer:
        text = one(*[variables[i % 3] for i in range(one.arity)])
        yield from ("%s * %s" % pair for pair in [(text, variables[0]), (text, text)])


def _calls(template, choices):
    """Yield the calls of a template with all combinations of operands that contain a variable."""
    for operands in itertools.product(*[_wrapped(one) for one in choices]):
        if any(re.search(r"[a-zA-Z]", re.sub("np|inf|nan", "", text)) for text in operands):
            yield template(*operands)


def _wrapped(texts):
    return ["(%s)" % text if text.startswith("-") else text for text in texts]


def pattern_text(pattern):
    """Return the expression that a pattern of `PatternSub` describes, or None if an Op in it has no name.

    The names in the pattern become vectors.
    """
    variables = iter(("x", "y", "z", "u", "v"))
    known = {}

    def text(part):
        while isinstance(part, dict):
            part = part["pattern"]
        if isinstance(part, str):
            if part not in known:
                known[part] = next(variables)
            return known[part]
        if isinstance(part, Constant):
            return repr(part.data.item()) if np.size(part.data) == 1 else None
        if isinstance(part, (int, float)):
            return _literal(part)
        if not isinstance(part, (list, tuple)):
            return None
        op = part[0]
        if isinstance(op, OpPattern):
            op = next((one for one in _names_of_ops() if op.accepts(one)), None)
        templates = [t for t in _templates(op, {}) if t.arity == len(part) - 1] if op is not None else []
        operands = [text(one) for one in part[1:]]
        return templates[0](*operands) if templates and None not in operands else None

    try:
        return text(pattern)
    except StopIteration:  # the pattern has more names than there are vectors
        return None
