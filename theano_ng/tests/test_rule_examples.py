"""The examples in the docstrings of rewriting rules are executed.

An example is a line ``before  ->  after``, two spaces around the arrow; lines that follow and are indented further belong to it. Both
sides are Python expressions in the names of `VARIABLES` and the functions and ops of `NAMESPACE`. The rule is applied to the first, alone
and as long as it applies; the result must be the graph of the second, and the numbers of both must agree. A number on the right side
has the shape of the result. A list in brackets at the end of an example names all tags under which the rule is registered.
"""
import re
import unittest

import numpy as np

import theano_ng
import theano_ng.ifelse
import theano_ng.sandbox.linalg
import theano_ng.tensor as T
import theano_ng.typed_list
from theano_ng import gof, scalar
from theano_ng.compile import mode as compile_mode
from theano_ng.compile import ops as compile_ops
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof.opt import (
    EquilibriumOptimizer, LocalOptGroup, LocalOptimizer, MergeOptimizer, NavigatorOptimizer, Optimizer, TopoOptimizer)
from theano_ng.gof.optdb import DB
from theano_ng.tensor import basic, nlinalg, nnet, opt, slinalg
from theano_ng.tensor.nnet import crossentropy, opt_sigm
from theano_ng.tensor.nnet.softmax import logsoftmax_op, softmax_grad, softmax_op, softmax_with_bias
from theano_ng.tensor.opt.shape import ShapeFeature
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar
from theano_ng.tensor.tests.rewriting import shown

# Rules of which before and after are no expressions that this test could compare, and the reason.
NOT_EXECUTED = {}

# Examples of rules whose docstring is that of their class.
OF_INSTANCES = {
    "local_mul_canonizer": ["(x * y) / x  ->  y", "x / y / x  ->  inv(y)", "(x / y) * (y / z)  ->  x / z", "2 * x / 2  ->  x"],
    "local_add_canonizer": ["(x + y) - x  ->  y", "(x - y) + (y - z)  ->  x - z"],
    "remove_tensor_copy": ["tensor_copy(x)  ->  x"],
}

_random = np.random.RandomState(1729)
_square = _random.uniform(0.3, 0.9, size=(3, 3))


def _variable(name, dtype, value, flags=()):
    v = T.TensorType(dtype, flags)(name)
    value = np.asarray(value, dtype=dtype)
    return name, (v, value)


def _vector(name):
    return _variable(name, "float64", _random.uniform(0.3, 0.9, size=3), (False,))


def _matrix(name):
    return _variable(name, "float64", _random.uniform(0.3, 0.9, size=(3, 3)), (False, False))


# name -> (variable, value)
VARIABLES = dict(
    [_vector(name) for name in "uvxyz"] + [_matrix(name) for name in "ABCGW"]
    + [_variable(name, "float64", _random.uniform(0.3, 0.9)) for name in "abs"]
    + [_variable(name, "int64", value) for name, value in [("i", 1), ("j", 2), ("n", 3), ("axis", 0)]]
    + [_variable("S", "float64", np.dot(_square, _square.T) + np.eye(3), (False, False)),
       _variable("row", "float64", _random.uniform(0.3, 0.9, size=(1, 3)), (True, False)),
       _variable("col", "float64", _random.uniform(0.3, 0.9, size=(3, 1)), (False, True)),
       _variable("one", "float64", [[0.5]], (True, True)),
       _variable("t", "float64", _random.uniform(0.3, 0.9, size=(2, 3, 4)), (False,) * 3),
       _variable("f", "float32", [0.25, 0.5, 0.75], (False,)),
       _variable("w", "complex128", [0.5 + 1j, 2, -1j], (False,)),
       _variable("k", "int8", [3, -5, 7], (False,)),
       _variable("p", "bool", [True, False, True], (False,)),
       _variable("c", "bool", [False, True, True], (False,)),
       _variable("flag", "bool", True),
       _variable("labels", "int64", [2, 0, 1], (False,))])
VARIABLES["number"] = scalar.float64("number"), 0.75
# A name that stands for a constant.
CONSTANTS = {"even": 2}


def _namespace():
    names = {}
    for module in (scalar.composite, compile_ops, opt, basic, slinalg, nlinalg, nnet, crossentropy, theano_ng.sandbox.linalg, T,
                   theano_ng.ifelse):
        names.update({name: value for name, value in vars(module).items() if not name.startswith("_")})
    names.update(softmax_op=softmax_op, softmax_grad=softmax_grad, softmax_with_bias=softmax_with_bias)
    # Rows are shown with the names of the classes of their ops.
    for op in (softmax_op, logsoftmax_op, softmax_grad, crossentropy.crossentropy_softmax_1hot_with_bias_dx, T.Join(),
               TensorFromScalar(), ScalarFromTensor(), crossentropy.CrossentropyCategorical1HotGrad()):
        names[type(op).__name__] = op
    names.update(abs=abs, np=np, scalar=scalar, slice=slice, consider_constant=theano_ng.gradient.consider_constant)
    names.update({name: v for name, (v, _) in VARIABLES.items()})
    names.update(CONSTANTS)
    return names


_ARROW = re.compile(r"\S  ->(  \S|$)")
_TAGS = re.compile(r"\s+\[([\w, ]+)\]$")


def examples(doc):
    """The examples in a docstring: triples (before, after, tags); tags is None where there are none."""
    found, indent = [], None
    for line in (doc or "").split("\n"):
        depth = len(line) - len(line.lstrip())
        if _ARROW.search(line):
            found.append(line.strip())
            indent = depth
        elif indent is not None and line.strip() and depth > indent:
            found[-1] += " " + line.strip()
        else:
            indent = None
    result = []
    for text in found:
        tags = _TAGS.search(text)
        text = _TAGS.sub("", text)
        before, after = re.split("  -> +", text)
        result.append((before, after, None if tags is None else tags.group(1).split(", ")))
    return result


def _registered(db, rules, path=()):
    """Add to `rules`, dict rule -> {name}, tags: what a database contains, and what that consists of."""
    db.__db__
    for obj in sorted(db._order, key=db._order.__getitem__):
        if isinstance(obj, DB):
            _registered(obj, rules)
            continue
        tags = {tag for tag in db._tags_of(obj) if tag != type(obj).__name__}
        for rule in _parts(obj):
            name = getattr(rule, "__name__", None) or getattr(rule, "name", None) or type(rule).__name__
            rules.setdefault(rule, (name, set()))[1].update(tags)


def _parts(optimizer):
    """The rules that an optimizer applies; itself when it is one."""
    if isinstance(optimizer, LocalOptGroup):
        return [part for rule in optimizer.opts for part in _parts(rule)]
    if isinstance(optimizer, EquilibriumOptimizer):
        return [part for rule in optimizer.get_local_optimizers() for part in _parts(rule)]
    if isinstance(optimizer, NavigatorOptimizer) and optimizer.local_opt is not None:
        return _parts(optimizer.local_opt)
    return [optimizer]


def all_rules():
    """Dict: rule -> (name, set of tags), of everything in the databases and of the rules by their documented names."""
    theano_ng.function([], T.constant(1.))      # rules are loaded with the first function
    rules = {}
    _registered(compile_mode.optdb, rules)
    for module in (opt, opt_sigm):
        for name, value in vars(module).items():
            if isinstance(value, LocalOptimizer) and value not in rules:
                rules[value] = (name, set())
    return rules


def _printed(fgraph):
    MergeOptimizer().optimize(fgraph)
    return shown(fgraph)


def _without_dtypes_of_numbers(text):
    return re.sub(r"(?<![\w.])(-?\d+)\.0?(?![\d])", r"\1", text).replace("True", "1").replace("False", "0")


class TestExamples(unittest.TestCase):
    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"
        self.names = _namespace()

    def tearDown(self):
        config.on_opt_error = self._policy

    def graph(self, outputs):
        """A FunctionGraph with the features that rules ask, its sources, and its inputs."""
        inputs = [v for v in gof.graph.inputs(outputs) if not isinstance(v, gof.Constant)]
        fgraph = gof.FunctionGraph(inputs, outputs, clone=True)
        fgraph.attach_feature(ShapeFeature())
        fgraph.attach_feature(theano_ng.sandbox.linalg.ops.HintsFeature())
        return fgraph, inputs

    def evaluated(self, text, like=None):
        """The variables of an expression."""
        value = eval(text, dict(self.names))
        outputs = list(value) if isinstance(value, (list, tuple)) else [value]
        if like is None:
            return outputs
        return [self.shaped(v, before) if isinstance(v, (bool, int, float)) else v for v, before in zip(outputs, like)]

    def shaped(self, number, like):
        value = T.constant(np.asarray(number, dtype=like.dtype))
        if not like.ndim:
            return value
        model = next(v for v in gof.graph.inputs([like]) if v.name and v.type.broadcastable == like.broadcastable)
        return T.fill(model, value)

    def values(self, outputs):
        inputs = [v for v in gof.graph.inputs(outputs) if not isinstance(v, gof.Constant)]
        fn = theano_ng.function([v for v in inputs], outputs, mode=Mode("py", None), accept_inplace=True)
        with np.errstate(all="ignore"):
            return fn(*[VARIABLES[v.name][1].copy() if hasattr(VARIABLES[v.name][1], "copy") else VARIABLES[v.name][1] for v in inputs])

    def check(self, rule, before, after):
        old = self.evaluated(before)
        new = self.evaluated(after, old)
        self.assertEqual(len(new), len(old))
        for a, b in zip(old, new):
            self.assertEqual(a.type, b.type)
        fgraph, inputs = self.graph(old)
        MergeOptimizer().optimize(fgraph)
        start = shown(fgraph)
        if isinstance(rule, Optimizer):
            rule.optimize(fgraph)
        else:
            EquilibriumOptimizer([rule], max_use_ratio=10).optimize(fgraph)
        self.assertEqual([v.type for v in fgraph.outputs], [v.type for v in old])
        self.assertNotEqual(_printed(fgraph), start, "the rule does not apply")
        self.assertEqual(_without_dtypes_of_numbers(_printed(fgraph)), _without_dtypes_of_numbers(_printed(self.graph(new)[0])))
        for a, b in zip(self.values(old), self.values(new)):
            self.assertEqual(getattr(a, "dtype", None), getattr(b, "dtype", None))
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)

    def test_every_rule_has_examples_that_hold(self):
        executed, unexplained = 0, []
        for rule, (name, tags) in all_rules().items():
            cases = [(*text.split("  ->  "), None) for text in OF_INSTANCES.get(name, ())] or examples(rule.__doc__)
            if name in NOT_EXECUTED:
                continue
            if not cases:
                unexplained.append(name)
            for before, after, listed in cases:
                with self.subTest(rule=name, example="%s  ->  %s" % (before, after)):
                    self.check(rule, before, after)
                    executed += 1
                if listed is not None:
                    with self.subTest(rule=name, tags=listed):
                        self.assertEqual(set(listed), tags)
        self.assertEqual(unexplained, [])

    def test_the_list_of_exceptions_is_needed(self):
        names = {name for name, _ in all_rules().values()}
        self.assertEqual(set(NOT_EXECUTED) - names, set())
        self.assertEqual(set(OF_INSTANCES) - names, set())

    def test_reading_examples(self):
        self.assertEqual(examples("""Title.

            f(x)  ->  g(x)          [canonicalize, fast_run]
            h(x)  ->  g(x,
                        1)

            This is f -> g in prose.
            """), [("f(x)", "g(x)", ["canonicalize", "fast_run"]), ("h(x)", "g(x, 1)", None)])

    def test_wrong_examples_are_found(self):
        for before, after in [("x * x", "x"), ("x * y", "x * y"), ("x * x", "sqr(y)"), ("x * x", "sqr(f)")]:
            with self.assertRaises(AssertionError):
                self.check(opt.local_mul_to_sqr, before, after)


if __name__ == "__main__":
    unittest.main()
