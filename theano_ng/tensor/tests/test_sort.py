"""Sorting and the k largest elements, compared with NumPy."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.sort import ArgSortOp, SortOp, TopKOp, argsort, argtopk, sort, topk, topk_and_argtopk
from theano_ng.tests import unittest_tools as utt

IN_C = theano.compile.mode.Mode("cvm", None)
RNG = np.random.RandomState(5)
X = RNG.permutation(60).reshape(3, 4, 5).astype("float64")
x, v, axis, k = T.dtensor3(), T.dvector(), T.lscalar(), T.lscalar()


class TestSort(unittest.TestCase):
    def test_values(self):
        cases = [(sort(x, a), np.sort(X, a)) for a in (0, 1, -1, None)]
        cases += [(argsort(x, a), np.argsort(X, a)) for a in (0, -2, None)]
        cases += [(sort(x, axis), np.sort(X, 1)), (sort(x, 0, "mergesort"), np.sort(X, 0)), (sort(x[:0]), X[:0])]
        f = theano.function([x, axis], [c[0] for c in cases])
        for (_, wanted), result in zip(cases, f(X, 1)):
            np.testing.assert_array_equal(result, wanted)
        assert argsort(x).dtype == "int64" and sort(x).type == x.type

    def test_negative_nan_of_half_precision(self):
        values = np.round(RNG.randn(7000)).astype("float16")
        values[::3], values[1::5] = np.nan, -np.float16(np.nan)
        h = T.TensorType("float16", (False,))()
        for linker in ("py", "cvm"):
            for kind in ("quicksort", "heapsort", "stable"):
                found = theano.function([h], sort(h, kind=kind), mode=theano.compile.mode.Mode(linker, None))(values)
                np.testing.assert_array_equal(found.astype("float64"), np.sort(values.astype("float64")))

    def test_equal_elements(self):
        """Lines of equal elements, and lines with one different element, are sorted by each algorithm."""
        dtypes = [kind + size for kind in ("int", "uint") for size in ("8", "16", "32", "64")]
        dtypes += ["bool", "float16", "float32", "float64", "complex64", "complex128"]
        for dtype in dtypes:
            row = T.TensorType(dtype, (False,))()
            for kind in ("quicksort", "mergesort"):
                sorting, places = [theano.function([row], made(row, kind=kind), mode=IN_C) for made in (sort, argsort)]
                for n in (1, 17, 129, 700, 7000):
                    for number in (1, 0, np.nan) if np.dtype(dtype).kind in "fc" else (1, 0):
                        values = np.full(n, number).astype(dtype)
                        for at in (None, 0, n // 2):
                            if at is not None:
                                values[at] = not number
                            np.testing.assert_array_equal(sorting(values), np.sort(values))
                            if kind == "mergesort":
                                np.testing.assert_array_equal(places(values), np.argsort(values, kind="stable"))

    def test_errors(self):
        self.assertRaises(ValueError, sort, x, 0, "bogosort")
        self.assertRaises(ValueError, sort, T.dscalar())
        self.assertRaises(ValueError, SortOp("quicksort"), x, [0])
        self.assertRaises(ValueError, ArgSortOp("quicksort"), x, 0.5)
        self.assertRaises(TypeError, ArgSortOp("quicksort"), x, 1j)

    def test_axis_that_is_not_there(self):
        """An axis just beyond either bound is refused, and an axis just within the bounds is accepted."""
        for made, wanted in ((sort, np.sort), (argsort, np.argsort)):
            for mode in (None, "FAST_COMPILE", theano.Mode("py", None)):
                f = theano.function([x, axis], made(x, axis), mode=mode)
                for a in (-3, 2):
                    np.testing.assert_array_equal(f(X, a), wanted(X, a))
                for a in (-4, 3, 100, 1 << 40):
                    self.assertRaisesRegex(ValueError, "^axis %d is out of bounds" % a, f, X, a)

    def test_gradients(self):
        for a in (0, 1, -1, None):
            utt.verify_grad(lambda y: sort(y, a), [X / 10])


class TestTopK(unittest.TestCase):
    def test_values(self):
        cases = []
        for a in (0, 1, -1):
            n = X.shape[a]
            for count in {1, 2, n, -1, -n}:
                order = np.sort(X, a)
                if count > 0:
                    wanted = np.flip(order, a).take(range(count), a)
                else:
                    wanted = order.take(range(-count), a)
                cases.append((topk(x, count, a), wanted))
                index = argtopk(x, count, a, idx_dtype="int32")
                assert index.dtype == "int32"
                where = [T.arange(s).dimshuffle(*["x"] * d + [0] + ["x"] * (2 - d)) for d, s in enumerate(X.shape)]
                where[a] = index
                cases.append((x[tuple(where)], wanted))
                cases.append((sort(topk(x, count, a, sorted=False), a), np.sort(wanted, a)))
        cases.append((topk(x, k, None), np.sort(X, None)[:-4:-1]))
        f = theano.function([x, k], [c[0] for c in cases])
        for (_, wanted), result in zip(cases, f(X, 3)):
            np.testing.assert_array_equal(result, wanted)

    def test_complex_numbers(self):
        line = np.array([1 - 1j, 3, 1 + 2j, -4, 1, 3 - 5j], "complex64")
        u = T.vector(dtype="complex64")
        for count, wanted in ((4, [1, 5, 2, 4]), (-4, [3, 0, 4, 2])):
            for ordered in (True, False):
                value, index = theano.function([u], topk_and_argtopk(u, count, sorted=ordered))(line)
                np.testing.assert_array_equal(index, wanted if ordered else np.sort(wanted))
                np.testing.assert_array_equal(value, line[index])

    def test_some_of_many(self):
        """`topk` selects few of many elements.

        It reads the line once, and collects candidates in a pool, which it sorts when the pool is full.
        """
        line = np.random.RandomState(4).permutation(3000).astype("float64")
        f = theano.function([v, k], topk_and_argtopk(v, k))
        for count, wanted in ((100, np.arange(3000)[:-101:-1]), (-100, np.arange(100))):
            value, index = f(line, count)
            np.testing.assert_array_equal(value, wanted)
            np.testing.assert_array_equal(line[index], wanted)

    def test_many_of_many(self):
        """`topk` can select half of a long line, for which it needs megabytes of memory."""
        line = np.random.RandomState(3).permutation(300_000).astype("float64")
        f = theano.function([v, k], topk_and_argtopk(v, k))
        for count, wanted in ((150_000, np.arange(150_000)[::-1] + 150_000), (-150_000, np.arange(150_000))):
            value, index = f(line, count)
            np.testing.assert_array_equal(value, wanted)
            np.testing.assert_array_equal(line[index], wanted)

    def test_both(self):
        values, indices = topk_and_argtopk(x[0, 0], 2)
        f = theano.function([x], [values, indices])
        value, index = f(X)
        np.testing.assert_array_equal(X[0, 0][index], value)

    def test_errors(self):
        f = theano.function([x, k], topk(x, k))
        for bad in (0, 6, -6):
            self.assertRaises(ValueError, f, X, bad)
        self.assertRaises(ValueError, topk, T.dscalar(), 1)
        self.assertRaises(TypeError, topk, x, 1.5)
        self.assertRaises(IndexError, topk, x, 1, 3)
        self.assertRaises(ValueError, TopKOp, return_values=False, return_indices=False)
        self.assertRaises(TypeError, TopKOp, idx_dtype="float32")

    def test_gradients(self):
        for count, a in ((2, 0), (-3, -1), (1, None)):
            utt.verify_grad(lambda y: topk(y, count, a), [X / 10])


if __name__ == "__main__":
    unittest.main()
