"""Applies every rewriting rule to graphs that are not made for it, and compares the values before and after.

One kind of graph is ``outer(inner(x))``, for all pairs of a list of expressions. The other kind is variations of the
examples of all rules. A rule applies to few of these graphs, because its conditions refuse the others.
``python -m theano_ng.tests.rules_on_graphs`` writes a table of the rules that apply to each graph. Read each changed
line of the table before you commit it.
"""

import collections
import os

import numpy as np
import scipy.sparse

from theano_ng.audit.rewrites import accepted
from theano_ng.audit.rewrites.applying import Computation, works_in_place
from theano_ng.audit.rewrites.examples import examples_of
from theano_ng.audit.rewrites.instances import Setting, build
from theano_ng.audit.rewrites.registry import registered
from theano_ng.audit.rewrites.templates import variations
from theano_ng.audit.rewrites.vocabulary import VARIABLES
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import ancestors
from theano_ng.gof.rewriting import LocalOptimizer
from theano_ng.gof.rewriting.local import LocalOptGroup
from theano_ng.tensor.opt.shape import ShapeFeature

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules_on_graphs.txt")
TEXTS = """
-{} | abs({}) | T.exp({}) | T.log({}) | T.sqr({}) | T.sqrt({}) | T.inv({}) | T.sgn({}) | nnet.sigmoid({}) | nnet.softplus({}) | T.log1p({})
T.erf({}) | T.cast({}, 'float32') | T.cast({}, 'int8') | T.isnan({}) | 1 + {} | {} + 0 | 1 - {} | {} * 2 | {} * 0 | {} / 2 | {} ** 2 | {} ** 0.5
{} + {} | {} * {} | {} - {} | {} / {} | {} * y | {} + row | T.maximum({}, 0.5) | T.switch({} > 0.5, {}, 0) | T.eq({}, {}) | T.lt({}, 0.5)
T.fill({}, 1.5) | T.zeros_like({}) | T.sum({}) | T.sum({}, axis=0) | T.sum({}, axis=-1, keepdims=True) | T.prod({}, axis=0) | T.max({}, axis=0)
T.min({}) | T.argmax({}, axis=-1) | T.mean({}, axis=0) | T.any({}, axis=0) | T.cumsum({}, axis=0) | {}.T | T.shape_padleft({})
T.shape_padright({}) | {}.flatten() | {}.reshape((-1, 1), ndim=2) | {}.reshape({}.shape) | {}.shape | {}.shape[0] | {}[0] | {}[::-1] | {}[1:] | {}[i]
{}[:i] | {}[[0, 1]] | {}[labels] | T.set_subtensor({}[1:], 0.5) | T.inc_subtensor({}[0], 1.5) | T.inc_subtensor({}[labels], 1) | T.join(0, {}, {})
T.join(0, {}) | T.stack([{}, {}]) | T.alloc({}, 2, 3, 3) | T.dot({}, A) | T.dot({}, x) | T.dot({}, {}.T) | T.patternbroadcast({}, [False] * {}.ndim)
T.specify_shape({}, {}.shape) | T.opt.assert_op({}, {}.sum() > -9) | T.tensor_copy({}) | nnet.softmax({}) | T.repeat({}, 2, axis=0) | ifelse(flag, {}, 2 * {})
"""
OPS = [text.strip() for line in TEXTS.strip().splitlines() for text in line.split("|")]
BASES = "A x row k c A x col f w t".split()
# The results of these rules are not compared, because the rules approximate, or rely on a property that the user
# asserts.
NOT_COMPARED = {*accepted.NOT_COMPARED, "local_adv_sub1_adv_inc_sub1_of_trusted_rows", "psd_solve_with_chol"}
LEFT_OUT = {"local_abstractconv_check"}  # it raises an error by design


WRAPPED = 8  # use every eighth of the examples that have a part inside a product or a power


def groups():
    """Return the names of the groups of graphs: the outer Ops of pairs, and the modules of the rules."""
    return OPS + sorted({one.module for one in registered()})


def graphs(group):
    """Return the graphs of a group as a list of Instance."""
    found = _pairs(group) if group in OPS else _examples(group)
    return [graph for graph in found if graph is not None]


def _pairs(outer):
    place = OPS.index(outer)
    for i, inner in enumerate(OPS):
        base = BASES[(3 * place + i) % len(BASES)]
        text = outer.replace("{}", "(%s)" % inner.replace("{}", base))
        yield build(text, Setting("pair", (), "inner" if (place + i) % 3 == 0 else ""))


def _examples(module):
    texts = {}
    for one in registered():
        if one.module == module:
            for before, _, _ in examples_of(one.name, one.rule):
                texts.update((text, kind) for kind, text in variations(before))
    wrapped = [text for text, kind in texts.items() if kind == "wrapped"]
    left_out = set(wrapped) - set(wrapped[::WRAPPED])
    return [build(text) for text in texts if text not in left_out]


def _rules():
    """Return (name, rule, tracked Ops) of the host's rules for single nodes that do not work in place."""
    found = []
    for one in registered():
        rule = one.rule
        about_nodes = isinstance(rule, LocalOptimizer) and not isinstance(rule, LocalOptGroup)
        if about_nodes and not works_in_place(rule) and one.name not in LEFT_OUT:
            found.append((one.name, rule, rule.tracks()))
    return found


def _concerns(tracks, op):
    return tracks is None or any(op == one or isinstance(one, type) and isinstance(op, one) for one in tracks)


class Trial:
    """A trial, which applies rules to nodes of graphs.

    Attributes
    ----------
    counts : dict
        Name of a rule -> [how often it applied, number of nodes that it replaced, number of nodes of the replacements].
    wrong : list of str
    """

    def __init__(self):
        self.rules = _rules()
        self.counts, self.wrong = collections.defaultdict(lambda: [0, 0, 0]), []

    def add(self, graph):
        """Try all rules on all nodes of a graph."""
        fgraph = FunctionGraph(list(graph.inputs), list(graph.outputs), clone=True)
        fgraph.attach_feature(ShapeFeature())
        for node in fgraph.toposort():
            for name, rule, tracks in self.rules:
                if _concerns(tracks, node.op):
                    self._apply(name, rule, node, fgraph, graph)

    def _apply(self, name, rule, node, fgraph, graph):
        replacements = rule.transform(node)
        if not replacements:
            return
        if isinstance(replacements, dict):
            pairs = [(old, new) for old, new in replacements.items() if old != "remove"]
        else:
            pairs = list(zip(node.outputs, replacements))
        pairs = [(old, new) for old, new in pairs if new is not None and new is not old]
        counts = self.counts[name]
        counts[0] += 1
        counts[1] += _size([old for old, _ in pairs])
        counts[2] += _size([new for _, new in pairs])
        if name not in NOT_COMPARED:
            self._compare(name, fgraph.inputs, pairs, graph)

    def _compare(self, name, inputs, pairs, graph):
        olds, news = zip(*pairs)
        expected, found = _computed(inputs, olds), _computed(inputs, news)
        if isinstance(expected, Exception):
            return  # lengths do not match
        if isinstance(found, Exception) and isinstance(_computed(graph.inputs, graph.outputs), Exception):
            return  # without the rule, the graph raises an error, too, but in another node
        if isinstance(found, Exception) or not all(map(_same, expected, found)):
            self.wrong.append("%s in %s: %r instead of %r" % (name, graph.text, found, expected))


def _computed(inputs, outputs):
    computation = Computation(FunctionGraph(list(inputs), list(outputs), clone=True))
    return computation([VARIABLES[v.name][1] for v in inputs])


def _size(outputs):
    return len({v.owner for v in ancestors(outputs) if v.owner is not None})


def _same(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if scipy.sparse.issparse(one):
        return one.format == other.format and _same(one.toarray(), other.toarray())
    if not isinstance(one, (np.ndarray, np.generic)):
        return type(one) is type(other)
    one, other = np.asarray(one), np.asarray(other)
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.kind not in "fc":
        return np.array_equal(one, other)
    known = np.isfinite(one)  # compare only finite elements; the audit of rules compares NaN and infinities
    return np.allclose(one[known], other[known], rtol=1e-5, atol=1e-6)


def tried(group):
    """Return (rows of the table, list of differences) for a group of graphs."""
    trial = Trial()
    for graph in graphs(group):
        trial.add(graph)
    rows = ["%s | %s | %d | %d | %d" % (group, name, *counts) for name, counts in sorted(trial.counts.items())]
    return rows, trial.wrong


def known(group):
    """Return the recorded rows of a group."""
    with open(TABLE) as file:
        return [line for line in file.read().splitlines() if line.startswith(group + " | ")]


if __name__ == "__main__":
    lines = ["outer Op or module | rule | how often it applies | nodes that it replaces | nodes of its replacements"]
    for name in groups():
        lines += tried(name)[0]
    with open(TABLE, "w") as file:
        file.write("\n".join(lines) + "\n")
