"""Tests that new variables have the stack traces of the user's lines, for the examples of all rules."""

import unittest
import unittest.mock

from theano_ng.configdefaults import config
from theano_ng.gof.opt import EquilibriumOptimizer, MergeOptimizer, Optimizer
from theano_ng.gof.rewriting.stacktrace import CheckStrackTraceFeature
from theano_ng.tensor import opt
from theano_ng.tensor.opt import patterns
from theano_ng.tests import test_rule_examples


class TestTraces(test_rule_examples.TestExamples):
    """Tests that the rule of each example keeps stack traces. `check` replaces the comparison of graphs."""

    test_the_list_of_exceptions_is_needed = test_reading_examples = test_wrong_examples_are_found = None

    def check(self, rule, before, after=None, numbers=True):
        """Check that the variables that a rule creates have the stack traces of the user.

        The flag `traceback.limit` is 0, so that new variables get no other stack trace.
        """
        fgraph = self.graph(self.evaluated(before))
        MergeOptimizer().optimize(fgraph)
        fgraph.attach_feature(CheckStrackTraceFeature())
        with config.change_flags({"check_stack_trace": "raise", "traceback.limit": 0}):
            if isinstance(rule, Optimizer):
                rule.optimize(fgraph)
            else:
                EquilibriumOptimizer([rule], max_use_ratio=10).optimize(fgraph)

    def test_a_rule_that_loses_them_is_noticed(self):
        with unittest.mock.patch.object(patterns, "copy_stack_trace", lambda old, new: new):
            self.assertRaises(AssertionError, self.check, opt.local_mul_to_sqr, "x * x")


if __name__ == "__main__":
    unittest.main()
