"""Tests of the C code of in-place elementwise Ops whose other operands overlap the overwritten array in memory."""

import itertools
import tracemalloc
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.scalar import add, transfer_type
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.tests.single_node import run_node

ADD = Elemwise(type(add)(transfer_type(0)), {0: 0})


class TestOverlaps(unittest.TestCase):
    def run_in_place(self, target, other):
        x, y = (T.TensorType(a.dtype, [False] * a.ndim)() for a in (target, other))
        out = ADD(x, y)
        (got,) = run_node(out, {x: target, y: other}, "c")
        self.assertIs(got, target)

    def pairs(self, memory):
        """Yield pairs of views of equal shape: identical, adjacent, and with some elements in common."""
        yield memory[:], memory[:]
        yield memory[:10], memory[10:20]
        for by in (1, 3, 9):
            yield memory[by:], memory[:-by]
            yield memory[:-by], memory[by:]
            yield memory[:-by], memory[by:][::-1]
            yield memory[by:], memory[:-by][::-1]
        yield memory, memory[::-1]
        yield memory[:20], memory[::2][:20]
        square = memory[:36].reshape(6, 6)
        yield square, square.T
        yield square[1:], square[:-1]
        yield square[:, :4], square[:, 2:]

    def test_values(self):
        for dtype in ("float64", "int8", "complex64"):
            for n in (40, 2300):
                numbers = range(len(list(self.pairs(np.zeros(n, dtype)))))
                for number, turned in itertools.product(numbers, (False, True)):
                    memory = (np.arange(n) % 50).astype(dtype)
                    target, other = list(self.pairs(memory))[number][:: -1 if turned else 1]
                    with self.subTest(dtype=dtype, n=n, number=number, turned=turned):
                        want = target + other.copy()
                        self.run_in_place(target, other)
                        np.testing.assert_array_equal(target, want)

    def test_copies_are_given_back(self):
        memory = np.zeros(200000)
        x, y = T.dvectors("x", "y")
        out = ADD(x, y)
        values = {x: memory[1:], y: memory[:-1]}
        run_node(out, values, "c")
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(4):
                run_node(out, values, "c")
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        self.assertLess(after - before, memory.nbytes)


if __name__ == "__main__":
    unittest.main()
