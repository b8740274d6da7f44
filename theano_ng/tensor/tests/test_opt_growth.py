"""The work of rewriting grows in proportion to the graph: calls of functions are counted, not seconds."""

import sys
import unittest

from theano_ng.compile.functions.maker import std_fgraph
from theano_ng.compile.io import SymbolicInput, SymbolicOutput
from theano_ng.compile.mode import FAST_RUN
from theano_ng.configdefaults import config
from theano_ng.tests import graph_families

# Nodes: above the limits up to which rules look at what others use.
SIZES = (200, 600)


def calls_of(function):
    """How many functions are called, Python's own included."""
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


class TestGrowth(unittest.TestCase):
    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"

    def tearDown(self):
        config.on_opt_error = self._policy

    def _work(self, make, steps, gradient):
        inputs, outputs = graph_families.build(make, steps, gradient)
        nodes = graph_families.count_nodes(inputs, outputs)
        fgraph, _ = std_fgraph([SymbolicInput(i) for i in inputs], [SymbolicOutput(o) for o in outputs])
        return nodes, calls_of(lambda: FAST_RUN.optimizer(fgraph))

    def _check(self, gradient, *names):
        for name in names:
            make = graph_families.FAMILIES[name]
            self._work(make, 8, gradient)  # what is imported and remembered once
            (few, little), (many, much) = [
                self._work(make, graph_families.steps_for(make, size, gradient), gradient) for size in SIZES
            ]
            with self.subTest(name, gradient=gradient):
                self.assertLess(much / little, 1.3 * many / few)

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
