"""Tests that execute the examples in the docstrings of rewriting rules.

An example is a line ``before  ->  after`` with two spaces around the arrow. Following lines with deeper indentation
belong to it. Both sides are Python expressions in the names of `audit.rewrites.vocabulary` and the functions and Ops of
the package. The test applies only the documented rule to the left side, repeatedly. The result must be the graph of the
right side, and the values of both sides must agree. A number on the right side is broadcast to the shape of the
result. A list in brackets at the end of an example names all tags under which the rule is registered.
"""

import copy
import re
import unittest

import numpy as np
import scipy.sparse

import theano_ng
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.audit.rewrites.examples import OF_INSTANCES, examples, examples_of
from theano_ng.audit.rewrites.registry import registered
from theano_ng.audit.rewrites.vocabulary import VARIABLES, namespace, sources
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof.opt import ChangeTracker, EquilibriumOptimizer, MergeOptimizer, Optimizer
from theano_ng.sandbox.linalg.ops import HintsFeature
from theano_ng.tensor import opt
from theano_ng.tensor.opt.shape import ShapeFeature
from theano_ng.tensor.tests.rewriting import shown

# Rules without examples that this test can execute, and the reason.
NOT_EXECUTED = {
    "CheckStackTrace": "changes nothing",
    "Print1.21": "changes nothing",
    "Print1.51": "changes nothing",
    "ShapeOpt": "attaches a feature, and leaves graphs unchanged",
    "UnShapeOpt": "detaches a feature, and leaves graphs unchanged",
    "HintsOpt": "attaches a feature, and leaves graphs unchanged",
    "add_destroy_handler": "attaches a feature, and leaves graphs unchanged",
    "add_no_output_from_inplace": "attaches a feature, and leaves graphs unchanged",
    "merge": "equal nodes become one: both sides of an example are merged before they are compared",
    "merge1": "see merge",
    "merge1.1": "see merge",
    "merge1.2": "see merge",
    "merge2": "see merge",
    "merge3": "see merge",
    "local_elemwise_reduction_fusion": "makes a function of the reduction in C, which has no name for an expression",
    "row_fusion": "makes a RowProgram, which has no name for an expression",
    "inplace_elemwise_opt": "the op that works in place has no name for an expression",
    "scanOp_make_inplace": "see inplace_elemwise_opt",
    "local_abstractconv_check": "raises an error",
    "use_c_ger": "the result exists in C only, and examples run without a compiler",
    "use_c_gemv": "see use_c_ger",
    "make_c_ger_destructive": "see use_c_ger",
    "make_c_gemv_destructive": "see use_c_ger",
}

# Rules whose results may differ from the values of the replaced variables.
OTHER_NUMBERS = {
    "local_ultra_fast_sigmoid": "an approximation, to be asked for",
    "local_hard_sigmoid": "an approximation, to be asked for",
    "local_alloc_empty_to_zeros": "the content was undefined",
}


def _printed(fgraph):
    MergeOptimizer().optimize(fgraph)
    return shown(fgraph)


def _without_dtypes_of_numbers(text):
    return re.sub(r"(?<![\w.])(-?\d+)\.0?(?![\d])", r"\1", text).replace("True", "1").replace("False", "0")


class TestExamples(unittest.TestCase):
    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"
        self.names = namespace()

    def tearDown(self):
        config.on_opt_error = self._policy

    def graph(self, outputs):
        """Return a FunctionGraph with the features that rules need."""
        fgraph = gof.FunctionGraph(sources(outputs), outputs, clone=True)
        fgraph.attach_feature(ShapeFeature())
        fgraph.attach_feature(HintsFeature())
        return fgraph

    def evaluated(self, text, like=None):
        """Return the list of variables of an expression."""
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
        inputs = sources(outputs)
        fn = theano_ng.function(inputs, outputs, mode=Mode("py", None), accept_inplace=True)
        with np.errstate(all="ignore"):
            return fn(*copy.deepcopy([VARIABLES[v.name][1] for v in inputs]))

    def check(self, rule, before, after, numbers=True):
        old = self.evaluated(before)
        new = self.evaluated(after, old)
        self.assertEqual(len(new), len(old))
        for a, b in zip(old, new):
            self.assertEqual(a.type, b.type)
        fgraph = self.graph(old)
        MergeOptimizer().optimize(fgraph)
        changes = ChangeTracker()
        fgraph.attach_feature(changes)
        if isinstance(rule, Optimizer):
            rule.optimize(fgraph)
        else:
            EquilibriumOptimizer([rule], max_use_ratio=10).optimize(fgraph)
        self.assertEqual([v.type for v in fgraph.outputs], [v.type for v in old])
        self.assertTrue(changes.changed, "the rule does not apply")
        self.assertEqual(
            _without_dtypes_of_numbers(_printed(fgraph)), _without_dtypes_of_numbers(_printed(self.graph(new)))
        )
        for a, b in zip(self.values(old), self.values(new)) if numbers else ():
            for one, other in zip(a, b) if isinstance(a, list) else [(a, b)]:
                self.assertEqual(one.dtype, other.dtype)
                one, other = (v.toarray() if scipy.sparse.issparse(v) else v for v in (one, other))
                np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)

    def test_every_rule_has_examples_that_hold(self):
        unexplained = []
        for one in registered():
            rule, name = one.rule, one.name
            if name in NOT_EXECUTED:
                continue
            cases = examples_of(name, rule)
            if not cases:
                unexplained.append(name)
            for before, after, listed in cases:
                with self.subTest(rule=name, example="%s  ->  %s" % (before, after)):
                    self.check(rule, before, after, name not in OTHER_NUMBERS)
                if listed is not None:
                    with self.subTest(rule=name, tags=listed):
                        self.assertEqual(set(listed), one.tags)
        self.assertEqual(unexplained, [])

    def test_the_list_of_exceptions_is_needed(self):
        names = {one.name for one in registered()}
        self.assertEqual((set(NOT_EXECUTED) | set(OTHER_NUMBERS)) - names, set())
        self.assertEqual(set(OF_INSTANCES) - names, set())

    def test_reading_examples(self):
        self.assertEqual(
            examples("""Title.

            f(x)  ->  g(x)          [canonicalize, fast_run]
            h(x)  ->  g(x,
                        1)

            This is f -> g in prose.
            """),
            [("f(x)", "g(x)", ["canonicalize", "fast_run"]), ("h(x)", "g(x, 1)", None)],
        )

    def test_wrong_examples_are_found(self):
        for before, after in [("x * x", "x"), ("x * y", "x * y"), ("x * x", "sqr(y)"), ("x * x", "sqr(f)")]:
            with self.assertRaises(AssertionError):
                self.check(opt.local_mul_to_sqr, before, after)


if __name__ == "__main__":
    unittest.main()
