"""The work of rewriting is proportional to the size of the graph.

The tests count function calls, since times in seconds vary.
"""

import sys
import unittest
from unittest import mock

from theano_ng.compile.functions.maker import std_fgraph
from theano_ng.compile.io import SymbolicInput, SymbolicOutput
from theano_ng.compile.mode import FAST_RUN
from theano_ng.configdefaults import config
from theano_ng.gof._destroyhandler import AliasClasses, Constraints, DynamicOrder
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.rewriting.navigate import NavigatorOptimizer
from theano_ng.tests import graph_families

# Numbers of nodes. They exceed the limits on the number of other users of a variable that rules examine.
SIZES = (200, 600)


def calls_of(function):
    """Return the number of function calls, including calls of C functions."""
    count = 0

    def tracer(frame, event, argument):
        nonlocal count
        if event == "call" or event == "c_call":
            count += 1

    before = sys.getprofile()
    sys.setprofile(tracer)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


class Asked(Constraints):
    """Order constraints that count the queries for successors and predecessors of nodes."""

    count = 0

    def successors(self, app):
        Asked.count += 1
        return super().successors(app)

    def predecessors(self, app):
        Asked.count += 1
        return super().predecessors(app)


def nodes_asked_for(function):
    """Return the number of nodes that the destroy handler visits in its searches for cycles."""
    before = Asked.count
    with mock.patch.object(DestroyHandler, "parts", (AliasClasses, Asked, DynamicOrder)):
        function()
    return Asked.count - before


def visits(function):
    """Return the number of times that rules are called with a node."""
    count = 0
    original = NavigatorOptimizer.replace_by

    def replace_by(*args):
        nonlocal count
        count += 1
        return original(*args)

    with mock.patch.object(NavigatorOptimizer, "replace_by", replace_by):
        function()
    return count


class TestGrowth(unittest.TestCase):
    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"

    def tearDown(self):
        config.on_opt_error = self._policy

    def _work(self, make, steps, gradient, measure):
        inputs, outputs = graph_families.build(make, steps, gradient)
        nodes = graph_families.count_nodes(inputs, outputs)
        fgraph, _ = std_fgraph([SymbolicInput(i) for i in inputs], [SymbolicOutput(o) for o in outputs])
        return nodes, measure(lambda: FAST_RUN.optimizer(fgraph))

    def _check(self, gradient, *names, measure=calls_of, sizes=SIZES):
        for name in names:
            make = graph_families.FAMILIES[name]
            self._work(make, 8, gradient, measure)  # warm up imports and caches
            (few, little), (many, much) = [
                self._work(make, graph_families.steps_for(make, size, gradient), gradient, measure) for size in sizes
            ]
            with self.subTest(name, gradient=gradient):
                self.assertLess(much / little, 1.3 * many / few)

    def test_searches_for_cycles(self):
        # In these families, a node overwrites a variable that late nodes read. Therefore the order of nodes repeatedly
        # moves this node past a chain of other nodes.
        self._check(True, "residual_blocks", "long_sum_and_product", measure=nodes_asked_for)
        # In this family, no search finds a cycle, and the total cost of searches is bounded by a constant per node.
        self._check(True, "prefixes_and_suffixes", measure=nodes_asked_for, sizes=(800, 2400))

    def test_derivatives(self):
        """The work of differentiation is proportional to the size of the graph.

        Differentiation analyzes the arguments of logarithms. These are sums of products that share variables.
        """
        for name in ("shared_factors", "shared_exponentials", "prefixes_and_suffixes", "log_and_exp", "normalization"):
            make = graph_families.FAMILIES[name]
            graph_families.build(make, 8, True)
            sizes = [graph_families.steps_for(make, 2 * size, True) for size in SIZES]
            few, many = [graph_families.count_nodes(*graph_families.build(make, steps, True)) for steps in sizes]
            little, much = [calls_of(lambda steps=steps: graph_families.build(make, steps, True)) for steps in sizes]
            with self.subTest(name):
                self.assertLess(much / little, 1.3 * many / few)

    def test_iterations(self):
        """The number of rule calls is proportional to the size of the graph, also if each step uses the previous step
        several times.
        """
        names = "newton_square_root newton_cube_root share_and_complement cross_entropies_chained cross_entropy_by_hand abs_share"
        names += " abs_quotient_sign times_own_sum tanh_by_hand x_log_x softmax_by_hand softsign adam second_derivatives_of_quotients"
        for name in names.split():
            make = graph_families.FAMILIES[name]
            for gradient in (False, True):
                (few, little), (many, much) = [self._work(make, steps, gradient, visits) for steps in (6, 18)]
                with self.subTest(name, gradient=gradient):
                    self.assertLess(much / little, 1.2 * many / few)

    def test_forward(self):
        self._check(False, "reversed_slices", "slices_of_slices", "reshapes", "sums_of_powers")

    def test_gradient(self):
        self._check(
            True,
            "elementwise",
            "broadcasting",
            "tree",
            "long_sum_and_product",
            "stack",
            "conditionals",
            "dot_of_vectors",
        )


if __name__ == "__main__":
    unittest.main()
