"""Operations whose result is known beforehand, and similar operations, have NumPy's values."""

import itertools
import operator
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.optdb import Query

COMPARISONS = {
    T.lt: operator.lt,
    T.le: operator.le,
    T.gt: operator.gt,
    T.ge: operator.ge,
    T.eq: operator.eq,
    T.neq: operator.ne,
    T.minimum: min,
    T.maximum: max,
}
BITWISE = {T.or_: np.bitwise_or, T.and_: np.bitwise_and, T.xor: np.bitwise_xor}


class TestBits(unittest.TestCase):
    """Bitwise operations with a constant whose bits are all 0 or all 1 have NumPy's values.

    The constant may be on either side.
    """

    def test_numbers_on_both_sides(self):
        for dtype in ("bool", "int8", "uint8", "int64", "uint32"):
            x = T.vector("x", dtype)
            ones = np.array(~np.zeros((), dtype))
            values = np.array([0, 1, 1, 0] if dtype == "bool" else [0, 1, 5, int(ones)]).astype(dtype)
            for (op, computed), number in itertools.product(BITWISE.items(), (np.array(0, dtype), ones)):
                for swapped in (False, True):
                    out = op(number, x) if swapped else op(x, number)
                    fn = theano.function([x], out, mode=theano.Mode("py", Query(["canonicalize"])))
                    np.testing.assert_array_equal(fn(values), computed(values, number))
                    left = [
                        node
                        for node in fn.maker.fgraph.apply_nodes
                        if getattr(node.op, "scalar_op", None) == op.scalar_op
                    ]
                    self.assertEqual(len(left), op is T.xor, (op, dtype, number, swapped))

    def test_rows_beside_columns(self):
        """If the rule removes a bitwise operation with a constant row or column, the result keeps the broadcast shape.

        All bits of the constant are equal.
        """
        x, y = T.TensorType("int32", (False, True))("x"), T.imatrix("y")
        values = np.array([[0], [5], [-1]], "int32"), np.arange(6, dtype="int32").reshape(3, 2)
        for (op, computed), number in itertools.product(BITWISE.items(), (0, -1)):
            row, column = np.full((1, 2), number, "int32"), np.full((3, 1), number, "int32")
            outputs = [op(x, row), op(row, x), op(column, T.constant(row)), op(y, column), op(row, y)]
            f = theano.function([x, y], outputs, mode=theano.Mode("py", "fast_run"))
            wanted = [computed(values[0], row)] * 2 + [computed(column, row)]
            wanted += [computed(values[1], column), computed(values[1], row)]
            for got, want in zip(f(*values), wanted):
                np.testing.assert_array_equal(got, want)
                self.assertEqual(got.shape, want.shape)


class TestLengths(unittest.TestCase):
    bounds = range(-2, 4)

    def test_comparisons_with_numbers(self):
        x, y, k = T.dvector("x"), T.dvector("y"), T.lscalar("k")
        terms = [x.shape[0], x.shape[0] + y.shape[0], x.shape[0] + k, k]
        for op, compared in COMPARISONS.items():
            outputs = [f for t, b in itertools.product(terms, self.bounds) for f in (op(t, b), op(b, t))]
            fn = theano.function([x, y, k], outputs)
            for n, m, number in itertools.product((0, 1, 2), (0, 2), (-1, 0, 3)):
                values = [n, n + m, n + number, number]
                wanted = [
                    f for v, b in itertools.product(values, self.bounds) for f in (compared(v, b), compared(b, v))
                ]
                self.assertEqual([int(v) for v in fn(np.ones(n), np.ones(m), number)], wanted, (op, n, m, number))

    def test_switches_on_lengths(self):
        x, y, k = T.dvector("x"), T.dvector("y"), T.lscalar("k")
        terms = [x.shape[0], y.shape[0], k]
        outputs, expected = [], []
        for i, j in itertools.product(range(3), repeat=2):
            for (op, compared), bound, other in itertools.product(list(COMPARISONS.items())[:4], (-1, 0, 1), (0, 1)):
                outputs += [
                    T.switch(op(terms[i], bound), other, terms[j]),
                    T.switch(op(terms[i], bound), terms[j], other),
                ]
                expected.append((i, j, compared, bound, other))
        fn = theano.function([x, y, k], outputs)
        for values in ((0, 2, -1), (1, 0, 0), (2, 1, 3)):
            wanted = []
            for i, j, compared, bound, other in expected:
                chosen = (other, values[j]) if compared(values[i], bound) else (values[j], other)
                wanted += chosen
            self.assertEqual([int(v) for v in fn(np.ones(values[0]), np.ones(values[1]), values[2])], wanted)


class TestBitwise(unittest.TestCase):
    def test_constants_on_either_side(self):
        for dtype in ("bool", "int8", "uint8", "int64", "uint64"):
            x, y = T.vector("x", dtype), T.vector("y", dtype)
            top = np.array(~np.zeros((), dtype))
            values = np.array([0, 1, 1, 0] if dtype == "bool" else [0, 1, 6, top], dtype)
            others = values[::-1].copy()
            constants = [np.array(c).astype(dtype) for c in ((0, 1) if dtype == "bool" else (0, 1, 6))] + [top]
            for op, ufunc in BITWISE.items():
                outputs, expected = [op(x, x), op(x, y)], [ufunc(values, values), ufunc(values, others)]
                for c in constants:
                    outputs += [op(x, T.constant(c)), op(T.constant(c), x), op(x, T.constant(np.array([c, c, c, c])))]
                    expected += [ufunc(values, c)] * 3
                for got, wanted in zip(theano.function([x, y], outputs)(values, others), expected):
                    self.assertEqual(got.dtype, wanted.dtype)
                    np.testing.assert_array_equal(got, wanted, str((op, dtype)))


class TestSame(unittest.TestCase):
    def test_comparisons_with_itself(self):
        for dtype in ("float32", "int8", "uint16", "bool"):
            x, y = T.vector("x", dtype), T.vector("y", dtype)
            a, b = np.array([0, 1, 2]).astype(dtype), np.array([1, 1, 0]).astype(dtype)
            for op, compared in COMPARISONS.items():
                same, other = theano.function([x, y], [op(x, x), op(x, y)])(a, b)
                np.testing.assert_array_equal(same, [compared(v, v) for v in a])
                np.testing.assert_array_equal(other, [compared(v, w) for v, w in zip(a, b)])


if __name__ == "__main__":
    unittest.main()
