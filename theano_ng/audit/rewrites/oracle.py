"""The test of one rule.

The oracle builds many graphs to which the rule may apply, and compares each graph with the graph that the rule returns.
"""

import itertools
import re
import zlib
from dataclasses import dataclass, field

import numpy as np

from theano_ng.audit.rewrites import accepted, proofs, reference
from theano_ng.audit.rewrites.applying import Computation, cycle, rewritten
from theano_ng.audit.rewrites.comparing import Difference, compare
from theano_ng.audit.rewrites.examples import examples_of, left_sides
from theano_ng.audit.rewrites.generated import expressions
from theano_ng.audit.rewrites.input_values import contents, varies
from theano_ng.audit.rewrites.instances import Setting, build, names, settings
from theano_ng.audit.rewrites.registry import partners, registered
from theano_ng.audit.rewrites.reproducer import reproducer
from theano_ng.audit.rewrites.targets import ops_in
from theano_ng.audit.rewrites.templates import around, differences, quotients, variations
from theano_ng.audit.rewrites.vocabulary import VARIABLES
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.rewriting import LocalOptimizer, Optimizer
from theano_ng.gof.rewriting.endless import EndlessRewriting
from theano_ng.gof.toolbox import BadOptimization
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.opt.canonicalize import Canonizer


@dataclass(frozen=True)
class Effort:
    """The numbers of graphs and values that are tried for one rule.

    Attributes
    ----------
    texts : int
        The maximum number of variations of each example.
    generated : int
        The maximum number of expressions that are generated with the Ops that the rule tracks. Multiples of it limit
        the quotients, differences and compositions that are generated for some rules.
    borrowed : int
        The maximum number of examples of other rules that contain an Op that the rule tracks.
    derived : int
        The maximum number of generated expressions that are used as examples, if the rule applies to them.
    sets : int
        The number of sets of values for the graph of an unchanged example. Other graphs have `few_sets`.
    """

    texts: int = 12
    generated: int = 10
    borrowed: int = 6
    sets: int = 600
    derived: int = 4
    alike: int = 6

    @property
    def expressions(self):
        """The maximum number of expressions with Ops and numbers in the code of a given rule."""
        return 300 * self.generated

    @property
    def few_sets(self):
        """The number of sets of values for all graphs except the graph of an unchanged example."""
        return max(self.sets // 40, 8)


#: AS_IT_IS: the kinds of settings in which an example is computed for `Effort.sets` sets of values. IN_FULL: the kinds
#: of settings in which an example with small dtypes is computed for all pairs of input values.
AS_IT_IS, IN_FULL = ("as it is",), ("as it is", "dtype")

_SMALL = frozenset(("bool", "int8", "uint8", "float16", "complex64"))

QUICK, FULL, THOROUGH = Effort(6, 4, 3, 40, 2), Effort(), Effort(400, 400, 200, 4096, 40)


@dataclass
class Finding:
    """A difference, and a program that shows it.

    Attributes
    ----------
    difference : Difference
    text, setting : str
        The expression, and the kind of its setting.
    program : str
    """

    difference: Difference
    text: str
    setting: str
    program: str


@dataclass
class Verdict:
    """The result of trying one rule.

    Attributes
    ----------
    name : str
    databases, tags : tuple of str
    status : str
        "wrong", "proved", "exhausted", "sampled" or "not applicable".
    reason : str
        The reason why the rule is not applicable, or why it was only sampled.
    graphs, values : int
        The number of graphs to which the rule applied, and the number of comparisons: of elements for elementwise
        graphs, of sets of values for other graphs.
    findings : list of Finding
    exceptions : dict
        Kind of difference -> reason, for each documented difference that was seen.
    proofs : tuple of str
        The theories that proved the equations of examples.
    over : tuple of str
        Descriptions of the values and lengths that are covered completely.
    """

    name: str
    databases: tuple
    tags: tuple
    status: str = "not applicable"
    reason: str = ""
    graphs: int = 0
    values: int = 0
    findings: list = field(default_factory=list)
    exceptions: dict = field(default_factory=dict)
    proofs: tuple = ()
    over: tuple = ()


@dataclass(frozen=True)
class Coverage:
    """The evidence for the equation of an example in some dtypes: a proof, or a description of the values tried.

    Attributes
    ----------
    proof : str
        The theory that proves the equation, or "".
    over : str
        Description of the values or lengths that were covered completely, or "" if some combinations were left out.
    """

    proof: str = ""
    over: str = ""


class Judge:
    """A tester of one rule: it tries the rule on many graphs, and collects the differences.

    Parameters
    ----------
    one : Registered
    effort : Effort
    seed : int
    """

    def __init__(self, one, effort=FULL, seed=0):
        self.one, self.effort = one, effort
        self.verdict = Verdict(one.name, tuple(one.databases.values()), tuple(sorted(one.tags)))
        self.rng = np.random.default_rng([seed, zlib.crc32(one.name.encode())])
        self.partners = partners(one.rule)
        self.more = ops_in(one.target.rpartition(":")[0]) if one.target else {}
        self.seen = {}
        self.covered = {}  # example -> kinds of its inputs -> list of Coverage
        self.hopeless = {}  # example -> theories that cannot decide the equation of the example

    def run(self):
        """Try the rule on all graphs, and return the verdict."""
        if self.one.name in accepted.NOT_COMPARED:
            self.verdict.reason = accepted.NOT_COMPARED[self.one.name]
            return self.verdict
        own = [before for before, _, _ in examples_of(self.one.name, self.one.rule)]
        for text in own:
            self._try_example(text)
        if self.one.target:
            self._try_derived()
        for text in self._generated(own):
            for setting in _generated_settings(text):
                self._try(text, setting)
        return self._concluded(own)

    def _try_derived(self):
        """Try the rule on expressions with the Ops and numbers in its code.

        The shortest expressions of different forms to which the rule applies are treated as examples.
        """
        texts = [*left_sides(self.one.rule.__doc__), *expressions(self.one.rule, self.more)]
        most = self.effort.expressions
        applies = {}
        for text in texts[: most // 2] + self._some(texts[most // 2 :], most // 2):
            alike = applies.setdefault(_form(text), [])
            if len(alike) < self.effort.alike and self._try(text, Setting("generated")):
                alike.append(text)
        chosen = sorted((texts[0] for texts in applies.values() if texts), key=len)[: self.effort.derived]
        for text in chosen:
            for setting in settings(text):
                self._try(text, setting, deep=True)

    def _try_example(self, example):
        for setting in settings(example):
            self._try(example, setting, example)
        texts = [pair for pair in variations(example)][1:]
        for kind, text in self._some(texts, self.effort.texts):
            for setting in _few_settings(text, kind):
                self._try(text, setting)

    def _some(self, items, most):
        if len(items) <= most:
            return items
        return [items[i] for i in sorted(self.rng.choice(len(items), most, replace=False))]

    def _generated(self, own):
        rule = self.one.rule
        if isinstance(rule, Optimizer):
            return
        if isinstance(rule, Canonizer):
            most = 46 * self.effort.generated
            yield from (
                sorted(quotients(), key=len)[:most] if rule.main == T.mul else self._some(list(differences()), most)
            )
        tracks = list(rule.tracks() or ())
        functions = _elementwise(rule, tracks)
        texts = [text for name, arity in functions for text in around(name, arity)]
        yield from self._some(texts, self.effort.generated)
        if rule.when is not None:
            texts = [
                "%s(%s(x))" % pair
                for pair in itertools.product([name for name, arity in functions if arity == 1], repeat=2)
            ]
            yield from self._some(texts, 20 * self.effort.generated)
        others = [text for text in corpus() if text not in own and _may_track(tracks, ops_of(text))]
        yield from self._some(others, self.effort.borrowed)

    def _try(self, text, setting, example=None, deep=False):
        """Compare the graph of a text before and after the rule, if the text has a graph and the rule applies to it.

        Return True if the graphs were compared.

        Parameters
        ----------
        text : str
        setting : Setting
        example : str, optional
            The example of the rule that `text` varies.
        deep : bool
            Whether to try as many values as for an example.
        """
        instance = build(text, setting, self.more)
        if instance is None or example is None and instance.needs_regular_matrices and text not in corpus():
            return False  # the text may invert an elementwise result such as A * A, which may be singular
        change = self._changed(instance)
        if change is None:
            return False
        self.verdict.graphs += 1
        deep = deep or example is not None
        as_it_is, in_full = [deep and setting.kind in kinds for kinds in (AS_IT_IS, IN_FULL)]
        wide = as_it_is or in_full and _is_wide(instance)
        sets, over = contents(instance, self.rng, self.effort.sets if as_it_is else self.effort.few_sets, wide)
        self._compare(change, instance, sets)
        if as_it_is:
            self._check_partners(instance)
        if example is not None and in_full and (instance.is_pointwise or as_it_is):
            self._cover(change, instance, example, over)
        return True

    def _changed(self, instance):
        """Apply the rule to a graph, and report errors of the rule itself, such as endless rewriting.

        Return None if the rule does not apply, if it raises an exception, or if it does not end.
        """
        rule = self.one.rule
        try:
            change = rewritten(rule, instance.inputs, instance.outputs)
        except EndlessRewriting as failure:
            self._report(Difference("endless", after=failure.reason), instance, None)
            return None
        except Exception as failure:  # any error of a rule is a fault
            if self._computes(instance):
                self._report(_difference_of_failure(failure), instance, None)
            return None
        if not change.applied:
            return None
        if not change.ended:
            reason = isinstance(rule, LocalOptimizer) and cycle([rule], instance.inputs, instance.outputs)
            self._report(Difference("endless", after=reason or str(change.after)[:300]), instance, None)
            return None
        for kind, text in (("mutation", change.mutated), ("in place", change.overwritten)):
            if text:
                message = "%s becomes %s" % (str(change.before)[:300], str(change.after)[:300])
                self._report(Difference(kind, after=message), instance, None)
                return None
        if not change.traced:
            self._report(Difference("trace", after=str(change.after)[:300]), instance, None)
        for i, (old, new) in enumerate(zip(change.before.outputs, change.after.outputs)):
            if old.type != new.type:
                self._report(Difference("broadcast", i, None, str(old.type), str(new.type)), instance, None)
        return change

    def _check_partners(self, instance):
        for rules in self.partners:
            reason = cycle(rules, instance.inputs, instance.outputs)
            if reason:
                self._report(Difference("endless", after=reason), instance, None)

    def _computes(self, instance):
        """Return True if the graph can be computed for some values. Otherwise the rule is permitted to fail."""
        computation = Computation(FunctionGraph(instance.inputs, instance.outputs, clone=True))
        sets, _ = contents(instance, self.rng, 8, False)
        return not all(isinstance(computation(values), Exception) for values in sets)

    def _cover(self, change, instance, example, over):
        """Record the evidence for the equation of an example in the dtypes of an instance."""
        hopeless = self.hopeless.setdefault(example, set())
        proof = proofs.prove(change, [v.name for v in instance.inputs], hopeless) if instance.is_pointwise else ""
        kinds = tuple(sorted({v.dtype.rstrip("0123456789") for v in instance.inputs if hasattr(v, "dtype")}))
        self.covered.setdefault(example, {}).setdefault(kinds, []).append(Coverage(proof, over))

    def _compare(self, change, instance, sets):
        before, after = Computation(change.before), Computation(change.after)
        for values in sets:
            self.verdict.values += max([1, *(np.size(v) for v in values)]) if instance.is_elementwise else 1
            for difference in compare_at(change, before, after, values, instance.is_elementwise):
                self._report(difference, instance, values)

    def _report(self, difference, instance, values):
        kind = difference.kind
        reason = accepted.reason_for(self.one, difference)
        if reason is not None:
            self.verdict.exceptions.setdefault(kind, reason)
            return
        known = self.seen.get(kind)
        size = len(instance.text) + sum(len(text) for _, _, text in instance.setting.given)
        size = size, sum(map(np.size, values or ()))
        if known is not None and known[0] <= size:
            return
        values = values if values is None else smallest(self.one.rule, instance, values, difference)
        self.seen[kind] = (
            size,
            Finding(
                difference, instance.text, instance.setting.kind, reproducer(self.one, instance, values, difference)
            ),
        )

    def _concluded(self, own):
        verdict = self.verdict
        verdict.findings = [found for _, found in self.seen.values()]
        if verdict.findings:
            verdict.status = "wrong"
        elif not verdict.graphs:
            verdict.reason = "the rule applied to none of the graphs that were tried"
            if self.one.target:
                verdict.reason += "; write an example into its docstring: before  ->  after"
        else:
            verdict.status = self._status(own)
        return verdict

    def _status(self, own):
        """Return the weakest status among all examples and kinds of dtypes, and set attributes of the verdict.

        The attributes are `proofs`, `over` and `reason`. `own` is the list of the rule's own examples.
        """
        left = [text for text in own if text not in self.covered]
        left = ["the rule alone does not apply to the example %s" % text for text in left]
        status = "proved"
        for text, by_kinds in self.covered.items():
            for kinds, coverages in by_kinds.items():
                proved = all(one.proof for one in coverages)
                over = _best([one.over for one in coverages if one.over and not one.proof])
                if proved:
                    self.verdict.proofs += tuple(one.proof for one in coverages)
                elif over:
                    status = "exhausted"
                    self.verdict.proofs += tuple(one.proof for one in coverages if one.proof)
                    self.verdict.over += (over,)
                else:
                    left.append(_why_not(text) % " and ".join(kinds))
        self.verdict.proofs, self.verdict.over = (
            tuple(sorted(set(one))) for one in (self.verdict.proofs, self.verdict.over)
        )
        self.verdict.reason = "; ".join(dict.fromkeys(left)) or ("" if own else "the rule has no example")
        return "sampled" if self.verdict.reason else status


def _difference_of_failure(failure):
    """Return the difference for an error that a rule raised, or that the engine raised for its replacement."""
    types = [getattr(getattr(failure, name, None), "type", None) for name in ("old_r", "new_r")]
    if isinstance(failure, BadOptimization) and None not in types:
        return Difference("type", before=str(types[0]), after=str(types[1]))
    return Difference("crash", after="%s: %s" % (type(failure).__name__, failure))


def _form(text):
    """Return a text without its numbers and the names of its variables."""
    return re.sub(r"\b(np\.\w+|[xyzABC]|\d[\w.]*)\b", "", text)


def _why_not(example):
    """Return the reason why an example is only sampled. The text contains %s for the kinds of its inputs."""
    inputs = build(example).inputs if build(example) is not None else []
    if inputs and not varies(inputs):
        return "no axis has a variable length, and the elements of %s inputs have too many values"
    return "too many values or lengths of %s inputs"


def _is_wide(instance):
    """Return True if a pointwise graph is computed for all pairs of input values (`wide` of `input_values.contents`).

    The condition is that all inputs have a dtype in `_SMALL`, or that the setting replaces a variable of an integer or
    boolean dtype.
    """
    dtypes = {v.dtype for v in instance.inputs if hasattr(v, "dtype")}
    varied = [VARIABLES[name][0].dtype for name, _, _ in instance.setting.given if name in VARIABLES]
    return dtypes <= _SMALL or any(dtype[0] in "iub" for dtype in varied)


def _best(texts):
    """Return one of several descriptions of covered values, or "".

    Prefer a description that does not mention special values, because it covers all values of a dtype. Then prefer the
    shortest text.
    """
    return min(texts, key=lambda text: ("special" in text, len(text), text), default="")


def _few_settings(text, kind):
    """Yield the settings in which a variation of an example is tried."""
    yield Setting(kind)
    for setting in settings(text):
        small = setting.kind == "dtype" and setting.given[0][1].dtype in ("int8", "uint8")
        if small or setting.kind == "the same variable":
            yield setting


def _generated_settings(text):
    """Yield the settings in which a generated text is tried: unchanged, and with complex numbers."""
    yield Setting("generated")
    for setting in settings(text):
        if setting.kind == "dtype" and setting.given[0][1].dtype == "complex128":
            yield Setting("generated", setting.given)


def compare_at(change, before, after, values, elementwise):
    """Compare the graphs before and after a rule for one set of values.

    Parameters
    ----------
    change : Rewriting
    before, after : Computation
    values : list
    elementwise : bool
        Whether the graph is elementwise (`Instance.is_elementwise`).

    Returns
    -------
    list of Difference
    """
    kept = []

    def bounds(output, shape):
        if not kept:
            kept.append([reference.bounds(graph, values) for graph in (change.before, change.after)])
        one, other = kept[0]
        return one[0][output], other[0][output], reference.ranges(one, other, shape)

    def precise(output, place):
        arrays = [np.asarray(v) for v in values] if elementwise else []
        if not all(v.size for v in arrays) or not elementwise:
            return None
        last = place[-1] if place else 0  # an output of rank 0 depends on constants only
        numbers = [v.reshape(-1)[0] if v.size == 1 else v.reshape(-1)[last] for v in arrays]
        return reference.exact(change.before, numbers)[output]

    results = before(values)
    if not _have_types(results, change.before.outputs):
        return []  # an Op of the original graph is wrong: it breaks its promise about the dtype of its output
    return compare(results, after(values), bounds, precise)


def _have_types(results, variables):
    """Return True if the results of a graph have the dtypes that their variables declare. Errors count as True."""
    return isinstance(results, Exception) or all(
        getattr(result, "dtype", dtype) == dtype
        for result, dtype in ((result, getattr(v, "dtype", None)) for result, v in zip(results, variables))
        if dtype is not None
    )


def smallest(rule, instance, values, difference):
    """Return the smallest values that show a difference of the same kind.

    For an elementwise graph, return one element of each value if the difference remains. Otherwise return all values.
    """
    if not instance.is_elementwise or not difference.place:
        return values
    one = [v[..., difference.place[-1] : difference.place[-1] + 1] for v in values]
    change = rewritten(rule, instance.inputs, instance.outputs)
    found = compare_at(change, Computation(change.before), Computation(change.after), one, True)
    return one if any(other.kind == difference.kind for other in found) else values


# -- texts of other rules ---------------------------------------------------------------------------------------------------------

_corpus = {}


def corpus():
    """Return the examples of all rules, in a fixed order."""
    if not _corpus:
        for one in registered():
            for before, _, _ in examples_of(one.name, one.rule):
                _corpus.setdefault(before)
    return list(_corpus)


def ops_of(text):
    """Return the Ops in the graph of a text of the corpus."""
    if _corpus.get(text) is None:
        instance = build(text)
        found = set()
        todo = [] if instance is None else list(instance.outputs)
        while todo:
            node = todo.pop().owner
            if node is not None and node.op not in found:
                found.add(node.op)
                todo += node.inputs
            elif node is not None:
                todo += [v for v in node.inputs if v.owner is not None and v.owner.op not in found]
        _corpus[text] = found
    return _corpus[text]


def _may_track(tracks, ops):
    return not tracks or any(op in ops or isinstance(op, type) and any(isinstance(o, op) for o in ops) for op in tracks)


def _elementwise(rule, tracks):
    """Return the names of the elementwise functions that a rule matches, with their numbers of operands.

    For a rule that tracks all Elemwise and has no condition (`when`), the result is empty.
    """
    found = {}
    for name, op in names().items():
        if isinstance(op, Elemwise) and (
            op in tracks or rule.when is not None and Elemwise in tracks and rule.when(op)
        ):
            found.setdefault(op, (name, op.scalar_op.nin if op.scalar_op.nin > 0 else 2))
    return list(found.values())


def judge(one, effort=FULL, seed=0):
    """Return the verdict about a rule.

    Parameters
    ----------
    one : Registered
    effort : Effort
    seed : int

    Returns
    -------
    Verdict
    """
    return Judge(one, effort, seed).run()
