"""Composites with unused outputs have NumPy's values, for every choice of outputs."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.gof.fg import FunctionGraph
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.opt.trivial import local_useless_composite


class TestUselessOutputs(unittest.TestCase):
    def setUp(self):
        self.x, self.y = T.dvectors("x", "y")
        self.values = np.array([1.0, -2.0, 3.0]), np.array([0.5, 4.0, -1.0])
        a, b = self.values
        self.expected = a + b, a * b, a - b

    def composite(self, inplace=None):
        a, b = scalar.float64("a"), scalar.float64("b")
        op = Elemwise(scalar.Composite([a, b], [a + b, a * b, a - b]), inplace or {})
        return op(self.x, self.y, return_list=True)

    def test_every_choice_of_outputs(self):
        for count in (1, 2, 3):
            for used in itertools.permutations(range(3), count):
                outputs = self.composite()
                fn = theano.function([self.x, self.y], [outputs[i] for i in used])
                for got, i in zip(fn(*self.values), used):
                    np.testing.assert_array_equal(got, self.expected[i])
                (node,) = fn.maker.fgraph.apply_nodes
                self.assertEqual(len(node.outputs), count)

    def test_other_operations_of_several_results_stay(self):
        class Both(scalar.ScalarOp):
            nin, nout = 1, 2

            def output_types(self, types):
                return [types[0], types[0]]

            def impl(self, x):
                return x + 1, x * 2

        first, _ = Elemwise(Both(name="both"))(self.x, return_list=True)
        (output,) = FunctionGraph([self.x], [first], clone=True).outputs
        self.assertFalse(local_useless_composite.transform(output.owner))

    def test_what_works_in_place_stays(self):
        for used in range(3):
            (output,) = FunctionGraph([self.x, self.y], [self.composite({0: 0})[used]]).outputs
            self.assertIs(local_useless_composite.transform(output.owner), False)

    def test_all_or_nothing(self):
        output = FunctionGraph([self.x, self.y], self.composite()).outputs[0]
        self.assertIs(local_useless_composite.transform(output.owner), False)


if __name__ == "__main__":
    unittest.main()
