"""Generated expressions of Allocs have the same results, or raise an error, with all rewriting rules and with few.

Each dimension of an input has the length that the Alloc requires, length 1, or a wrong length.
"""

import random
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


class Expression:
    """An expression of Allocs, drawn from a seed."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.arrays = [
            T.TensorType("float64", tuple(draw.random() < 0.3 for _ in range(draw.choice([1, 1, 2]))))(name)
            for name in "abc"
        ]
        self.number = T.lscalar("n")
        self.inputs = [*self.arrays, self.number]
        self.output = self.combined()
        self.values = [
            [np.arange(1.0, 1 + np.prod(s, dtype=int)).reshape(s) for s in map(self.shape, self.arrays)]
            + [draw.choice([1, 2, 3])]
            for _ in range(8)
        ]

    def shape(self, array):
        return [1 if one else self.draw.choice([1, 1, 2, 2, 2, 3]) for one in array.broadcastable]

    def length(self):
        array = self.draw.choice(self.arrays)
        length = array.shape[self.draw.randrange(array.ndim)]
        return self.draw.choice([length, length, self.number, 1, 2])

    def filled(self, depth):
        """Return an Alloc of an array, a number or another Alloc."""
        draw = self.draw
        value = draw.choice([*self.arrays, self.arrays[0].sum(), self.arrays[0] * 2])
        if value.ndim == 1 and draw.random() < 0.3:
            value = value.dimshuffle(0, "x")
        if depth and draw.random() < 0.5:
            value = self.filled(depth - 1)
        return T.alloc(value, *[self.length() for _ in range(draw.randint(max(1, value.ndim), max(2, value.ndim)))])

    def combined(self):
        draw, v = self.draw, self.filled(1)
        self.operation = operation = draw.choice(
            ["unary", "binary", "binary", "row", "rows", "sum", "transposed", "join", "set", "dot"]
        )
        other = draw.choice([*self.arrays, self.filled(0)])
        if operation == "unary":
            return T.sqr(v)
        if operation == "binary":
            return draw.choice([T.add, T.maximum, T.true_div])(v, other)
        if operation == "row":
            return v[draw.choice([0, -1, 1])]
        if operation == "rows":
            return draw.choice([v[1:], v[::-1], v[: self.number]]) + 1
        if operation == "sum":
            return draw.choice([T.sum, T.max])(v, axis=draw.randrange(v.ndim))
        if operation == "transposed":
            return v.T + other
        if operation == "join" and v.ndim == other.ndim:
            return T.join(0, v, other)
        if operation == "set":
            return T.inc_subtensor(v[0], 1.0)
        if operation == "dot":
            return T.dot(v, other)
        return v

    def results(self, mode):
        """Return [shape, elements] of the result for each of `values`, or None if the call raises an error."""
        fn = theano.function(self.inputs, self.output, mode=theano.compile.get_mode(mode), on_unused_input="ignore")
        found = []
        for values in self.values:
            try:
                result = fn(*values)
                found.append([result.shape, result.tolist()])
            except (ValueError, IndexError, AssertionError):
                found.append(None)
        return found


class TestAllocErrors(unittest.TestCase):
    def test_wrong_lengths(self):
        """Only in elementwise operations may a rewritten graph raise an error that the original graph does not raise.

        Unlike an Alloc, an elementwise operation does not repeat an operand whose length is 1 only at run time.
        """
        raised = returned = 0
        for seed in range(200):
            program = Expression(seed)
            for values, wanted, found in zip(
                program.values, program.results("FAST_COMPILE"), program.results("FAST_RUN")
            ):
                raised, returned = raised + (wanted is None), returned + (wanted is not None)
                if found is None and wanted is not None and program.operation in ("binary", "transposed"):
                    continue
                self.assertEqual(
                    found, wanted, "seed %d, %s, values %s" % (seed, theano.pprint(program.output), values)
                )
        self.assertGreater(raised, 100)
        self.assertGreater(returned, 100)


if __name__ == "__main__":
    unittest.main()
