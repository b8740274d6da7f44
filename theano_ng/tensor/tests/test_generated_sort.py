"""Sorting, searching, counting, repeating and converting indices, on generated arrays in Python and in C."""

import unittest

import numpy as np
from hypothesis import strategies as st

from theano_ng import tensor
from theano_ng.tensor import extra_ops
from theano_ng.tensor.tests.generated import ALL_DTYPES, COMPLEX, FLOATS, INTEGERS, Compared, arrays, fill, generated

CONTENTS = ("small", "ties", "nonfinite", "extreme")
KINDS = ("quicksort", "mergesort", "heapsort", "stable")
#: Lengths on both sides of each limit at which the C code changes the algorithm.
LINES = (5, 129, 300, 2100, 7000)


def axes(x):
    return st.integers(-x.ndim, x.ndim - 1)


def wide(dtypes=ALL_DTYPES):
    """Draw vectors of the lengths `LINES`. Some have many distinct values, others have few."""

    def make(dtype, n, content, seed):
        rng = np.random.RandomState(seed)
        x = fill((n,), dtype, content, rng)
        if content == "distinct" and np.dtype(dtype).kind in "iu":
            x = rng.randint(np.iinfo(dtype).min, np.iinfo(dtype).max, n, dtype=dtype)
        return x

    return st.builds(
        make,
        st.sampled_from(dtypes),
        st.sampled_from(LINES),
        st.sampled_from(("distinct", "ties", "nonfinite")),
        st.integers(0, 99),
    )


def bits(x):
    """Return the bits of floats as integers, so that -0 differs from 0, and NaNs with different bits differ."""
    return x.view("u%d" % x.dtype.itemsize) if x.dtype.kind == "f" else x


def best(x, k, axis, sorted=True, idx_dtype="int64"):
    """Return values and indices of the k largest elements or, if k is negative, of the -k smallest elements.

    Of equal elements, those with the smallest index are selected.
    """
    n = x.shape[axis]
    if k == 0 or abs(k) > n:
        raise ValueError("k")
    if k > 0:
        order = n - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    index = order.take(range(abs(k)), axis)
    index = index if sorted else np.sort(index, axis)
    return [np.take_along_axis(x, index, axis), index.astype(idx_dtype)]


class TestSort(unittest.TestCase):
    sort = Compared(lambda x, axis, kind: tensor.sort(x, axis, kind), lambda x, axis, kind: np.sort(x, axis, "stable"))
    argsort = Compared(lambda x, axis: tensor.argsort(x, axis), lambda x, axis: np.argsort(x, axis, "stable"))

    @generated(arrays(ALL_DTYPES, ndim=(1, 3), contents=CONTENTS), st.sampled_from(KINDS), st.data(), examples=60)
    def test_axes(self, x, kind, data):
        axis = data.draw(axes(x))
        self.sort.check(x, axis=axis, kind=kind)
        self.argsort.check(x, axis=axis)

    @generated(wide(), st.booleans(), examples=60)
    def test_long_lines(self, x, reverse):
        x = x[::-1] if reverse else x
        self.sort.check(x, axis=0, kind="quicksort")
        self.argsort.check(x, axis=0)

    @generated(wide(FLOATS), st.integers(1, 3))
    def test_equal_floats_keep_their_order(self, x, columns):
        x = np.stack([x, -x, np.sign(x)][:columns], 1)
        x[::3] *= -1
        for kind in ("stable", "mergesort"):
            f = self.sort._functions([x], {"axis": 0, "kind": kind})[0]
            for mode in f:
                np.testing.assert_array_equal(bits(f[mode](x)[0]), bits(np.sort(x, 0, "stable")), err_msg=mode)

    @generated(
        arrays(("float64",), ndim=(1, 3), sides=(1, 4), layouts=("C",), contents="distinct"), st.data(), examples=8
    )
    def test_gradients(self, x, data):
        axis = data.draw(axes(x))
        self.sort.check_gradient(x, axis=axis, kind="quicksort")
        symbolic = Compared(lambda x, axis: tensor.sort(x, axis), lambda x, axis: np.sort(x, axis))
        symbolic.check_gradient(x, np.int64(axis), wrt=[0])


class TestTopK(unittest.TestCase):
    both = Compared(lambda x, k, **more: tensor.topk_and_argtopk(x, k, **more), best)
    values = Compared(lambda x, k, **more: tensor.topk(x, k, **more), lambda x, k, **more: best(x, k, **more)[0])
    indices = Compared(lambda x, k, **more: tensor.argtopk(x, k, **more), lambda x, k, **more: best(x, k, **more)[1])

    @generated(
        arrays(ALL_DTYPES, ndim=(1, 3), contents=CONTENTS),
        st.integers(-5, 5),
        st.booleans(),
        st.sampled_from(("int64", "uint8", "int32")),
        st.data(),
        examples=60,
    )
    def test_axes(self, x, k, ordered, idx_dtype, data):
        axis = data.draw(axes(x))
        self.both.check(x, np.int64(k), axis=axis, sorted=ordered, idx_dtype=idx_dtype)
        self.values.check(x, np.int64(k), axis=axis, sorted=ordered)
        self.indices.check(x, np.int64(k), axis=axis, idx_dtype=idx_dtype)

    @generated(
        wide(), st.sampled_from((1, 24, 25, 192, 193, 5000)), st.booleans(), st.booleans(), st.booleans(), examples=60
    )
    def test_long_lines(self, x, k, least, ordered, rising):
        x = np.sort(x) if rising else x
        self.both.check(x, np.int64(min(k, len(x)) * (-1 if least else 1)), axis=0, sorted=ordered)

    @generated(
        arrays("float64", ndim=(1, 3), sides=(1, 4), layouts=("C",), contents="distinct"),
        st.booleans(),
        st.data(),
        examples=8,
    )
    def test_gradients(self, x, ordered, data):
        axis = data.draw(axes(x))
        n = x.shape[axis]
        k = data.draw(st.integers(-n, n).filter(bool))
        self.values.check_gradient(x, np.int64(k), axis=axis, sorted=ordered, wrt=[0])
        self.both.check_gradient(x, np.int64(k), axis=axis, sorted=ordered, wrt=[0], rop=False)


def unique(x, index, inverse, counts, axis):
    # Convert float16 to float32, because NumPy sorts float16 rows with NaN in another order than rows of other floats.
    found = np.unique(x.astype("float32") if x.dtype == "float16" else x, True, True, True, axis)
    return [found[0].astype(x.dtype)] + [
        np.asarray(f).reshape(-1) for f, flag in zip(found[1:], (index, inverse, counts)) if flag
    ]


class TestUnique(unittest.TestCase):
    unique = Compared(lambda x, index, inverse, counts, axis: extra_ops.Unique(index, inverse, counts, axis)(x), unique)

    @generated(
        arrays(ALL_DTYPES, ndim=(0, 3), contents=CONTENTS),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.data(),
        examples=80,
    )
    def test_flags(self, x, index, inverse, counts, data):
        axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
        self.unique.check(x, index=index, inverse=inverse, counts=counts, axis=axis)

    @generated(wide(), st.booleans(), st.booleans(), examples=40)
    def test_long(self, x, index, counts):
        self.unique.check(x, index=index, inverse=index, counts=counts, axis=None)
        self.unique.check(x[: len(x) // 3 * 3].reshape(-1, 3), index=index, inverse=index, counts=counts, axis=0)


class TestSearching(unittest.TestCase):
    search = Compared(
        lambda x, v, side: extra_ops.searchsorted(x, v, side), lambda x, v, side: np.searchsorted(x, v, side)
    )
    through = Compared(
        lambda x, v, side: extra_ops.searchsorted(x, v, side, tensor.argsort(x)),
        lambda x, v, side: np.searchsorted(x, v, side, np.argsort(x, kind="stable")),
    )

    @generated(
        arrays(ALL_DTYPES, ndim=1, sides=(0, 9), contents=CONTENTS),
        st.sampled_from(("left", "right")),
        st.data(),
        examples=60,
    )
    def test_values(self, x, side, data):
        v = data.draw(arrays(str(x.dtype.newbyteorder("=")), contents=CONTENTS))
        self.search.check(np.sort(x), v, side=side)
        self.through.check(x, v, side=side)


def bincount(x, w, minlength):
    x = x.astype("int64")
    if w is None:
        return np.bincount(x, minlength=minlength)
    z = np.zeros(len(np.bincount(x, w.real, minlength)), w.dtype)
    np.add.at(z, x, w)
    return z


class TestCounting(unittest.TestCase):
    counts = Compared(
        lambda x, minlength: extra_ops.bincount(x, None, minlength),
        lambda x, minlength: bincount(x, None, int(minlength)),
    )
    sums = Compared(
        lambda x, w, minlength: extra_ops.bincount(x, w, minlength),
        lambda x, w, minlength: bincount(x, w, int(minlength)),
    )

    @generated(arrays(("bool", *INTEGERS), ndim=1, sides=(0, 9)), st.integers(-1, 6), st.data(), examples=60)
    def test_values(self, x, minlength, data):
        x = x.astype("int64") if x.dtype == "uint64" else x
        self.counts.check(x, np.int64(minlength))
        w = data.draw(arrays((*INTEGERS, *FLOATS, *COMPLEX), ndim=1, sides=(len(x), len(x) + (minlength == 5))))
        self.sums.check(x, w, np.int64(minlength))

    @generated(st.sampled_from(INTEGERS), st.sampled_from((3, 100, 3000)), st.integers(0, 99), examples=20)
    def test_long(self, dtype, bins, seed):
        rng = np.random.RandomState(seed)
        x = rng.randint(0, min(bins, np.iinfo(dtype).max), 50000).astype(dtype)
        x = x.astype("int64") if dtype == "uint64" else x
        self.counts.check(x, np.int64(0))
        self.counts.check(x[::-3], np.int64(0))
        x[-1] = -1 if x.dtype.kind == "i" else 0
        self.counts.check(x, np.int64(2100))

    def test_sizes(self):
        """`bincount` and `repeat` refuse to make results that exceed memory. The next call gives the right result."""
        f = self.counts._functions([np.array([1, 2]), np.int64(0)], {})[0]
        for mode in f:
            for x in ([0, 2**62], [2**63 - 1, 2]):
                self.assertRaises((MemoryError, ValueError), f[mode], np.array(x), np.array(0))
            assert f[mode](np.array([1, 2]), np.array(0))[0].tolist() == [0, 1, 1]
        f = TestRepeat.op._functions([np.ones((2, 2)), np.int64(1)], {"axis": 0})[0]
        for mode in f:
            self.assertRaises((MemoryError, ValueError), f[mode], np.ones((2, 2)), np.array(2**60))
            assert f[mode](np.ones((2, 2)), np.array(2))[0].shape == (4, 2)

    @generated(
        arrays("int64", ndim=1, sides=(1, 6), layouts=("C",), contents="positive"), st.integers(0, 99), examples=5
    )
    def test_gradient(self, x, seed):
        self.sums.check_gradient(np.ascontiguousarray(x), np.random.RandomState(seed).randn(len(x)), np.int64(0))


class TestRepeat(unittest.TestCase):
    repeat = Compared(
        lambda x, repeats, axis: extra_ops.repeat(x, repeats, axis),
        lambda x, repeats, axis: np.repeat(x, repeats, axis),
    )
    op = Compared(
        lambda x, repeats, axis: extra_ops.RepeatOp(axis)(x, repeats),
        lambda x, repeats, axis: np.repeat(x, repeats, axis),
    )

    @generated(arrays(ALL_DTYPES), st.booleans(), st.data(), examples=60)
    def test_values(self, x, scalar, data):
        axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
        n = x.size if axis is None else x.shape[axis]
        low = data.draw(st.sampled_from((0, 0, 0, -1)))
        repeats = (
            data.draw(st.integers(low, 3))
            if scalar
            else data.draw(st.lists(st.integers(low, 3), min_size=n, max_size=n + (low < 0)))
        )
        repeats = np.array(repeats, data.draw(st.sampled_from(("int64", "int8", "int32"))))
        if repeats.size and repeats.min() < 0 and scalar:
            return
        self.repeat.check(x, repeats, axis=axis)
        self.op.check(x, repeats, axis=axis)

    @generated(arrays("float64", ndim=(1, 3), sides=(1, 3), layouts=("C",)), st.booleans(), st.data(), examples=8)
    def test_gradient(self, x, scalar, data):
        axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
        n = x.size if axis is None else x.shape[axis]
        repeats = np.int64(2) if scalar else np.arange(n) % 3
        self.repeat.check_gradient(x, repeats, axis=axis, wrt=[0])


class TestDiff(unittest.TestCase):
    diff = Compared(lambda x, n, axis: extra_ops.diff(x, n, axis), lambda x, n, axis: np.diff(x, n, axis))

    @generated(
        arrays(ALL_DTYPES, ndim=(1, 3), sides=(0, 5), contents=("small", "nonfinite")),
        st.integers(0, 4),
        st.data(),
        examples=80,
    )
    def test_values(self, x, n, data):
        self.diff.check(x, n=n, axis=data.draw(axes(x)))

    @generated(
        st.sampled_from(("float32", "int8", "complex64", "bool", "float16")),
        st.integers(1, 3),
        st.integers(0, 1),
        st.integers(0, 99),
    )
    def test_long(self, dtype, n, axis, seed):
        x = fill((7, 2500), dtype, "small", np.random.RandomState(seed))
        self.diff.check(x, n=n, axis=axis)
        self.diff.check(x.T, n=n, axis=axis)
        self.diff.check(x.T.copy(), n=n, axis=axis)

    @generated(arrays("float64", ndim=(1, 3), sides=(1, 4), layouts=("C",)), st.integers(0, 3), st.data(), examples=8)
    def test_gradient(self, x, n, data):
        axis = data.draw(axes(x))
        if x.shape[axis] > n:
            self.diff.check_gradient(x, n=n, axis=axis)


def fill_offset(x, v, offset):
    z = np.array(x)
    rows, columns = np.indices(x.shape)
    z[columns - rows == offset] = v
    return z


def fill_main(x, v):
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError("shape")
    z = np.array(x)
    index = np.arange(min(x.shape))
    z[(index,) * x.ndim] = v
    return z


class TestDiagonals(unittest.TestCase):
    main = Compared(extra_ops.fill_diagonal, fill_main)
    offset = Compared(extra_ops.fill_diagonal_offset, fill_offset)

    @generated(arrays(ALL_DTYPES, ndim=(2, 4), sides=(0, 3)), st.integers(-5, 5), st.data(), examples=60)
    def test_values(self, x, offset, data):
        v = data.draw(arrays(str(x.dtype.newbyteorder("=")), ndim=0))
        self.main.check(x, v)
        cube = np.zeros((x.shape[0],) * x.ndim, x.dtype)
        self.main.check(cube.T, v)
        if x.ndim == 2:
            self.offset.check(x, v, np.int64(offset * 10 ** data.draw(st.sampled_from((0, 0, 18)))))

    @generated(arrays("float64", ndim=2, sides=(1, 4), layouts=("C",)), st.integers(-3, 3), examples=8)
    def test_gradient(self, x, offset):
        self.main.check_gradient(x, np.float64(2))
        self.offset.check_gradient(x, np.float64(2), np.int64(offset), wrt=[0, 1])


class TestIndices(unittest.TestCase):
    unravel = Compared(
        lambda i, dims, order, ndim: list(extra_ops.unravel_index(i, dims, order, ndim)),
        lambda i, dims, order, ndim: list(np.unravel_index(i, tuple(dims.tolist()), order)),
    )
    ravel = Compared(
        lambda *given, mode, order: extra_ops.ravel_multi_index(list(given[:-1]), given[-1], mode, order),
        lambda *given, mode, order: np.asarray(
            np.ravel_multi_index(given[:-1], tuple(given[-1].tolist()), mode, order)
        ),
    )

    @generated(
        st.lists(st.integers(0, 4), min_size=1, max_size=3),
        st.sampled_from("CF"),
        st.booleans(),
        st.data(),
        examples=60,
    )
    def test_unravel(self, dims, order, large, data):
        dims = np.array(dims) * (10**6 if large and len(dims) < 4 else 1)
        i = data.draw(arrays(("int64", "int8", "uint16"), ndim=(0, 2)))
        i = np.abs(i) if data.draw(st.booleans()) or large else i
        self.unravel.check(i, dims, order=order, ndim=len(dims))

    @generated(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.sampled_from("CF"), st.data(), examples=80)
    def test_ravel(self, dims, order, data):
        modes = st.sampled_from(("raise", "wrap", "clip"))
        mode = data.draw(st.one_of(modes, st.tuples(*[modes] * len(dims))))
        shape = data.draw(st.sampled_from(((), (3,), (2, 3), (0,), (1, 3))))
        given = []
        for n in dims:
            x = data.draw(
                arrays(("int64", "int8", "uint8"), shape=data.draw(st.sampled_from((shape, shape, shape[-1:]))))
            )
            given.append(x % max(n, 1) if data.draw(st.booleans()) else x)
        self.ravel.check(*given, np.array(dims), mode=mode, order=order)

    @generated(st.integers(-2, 9), examples=12)
    def test_bartlett(self, points):
        Compared(extra_ops.bartlett, lambda n: np.bartlett(int(n)), rtol=1e-15).check(np.int64(points))

    @generated(
        arrays(("int64", "uint8"), ndim=1, contents="positive"),
        st.integers(1, 20),
        st.sampled_from(("float32", "int8", None)),
    )
    def test_one_hot(self, y, classes, dtype):
        def expected(y, classes, dtype):
            if y.size and y.max() >= classes:
                raise IndexError("class")
            return np.eye(classes, dtype=dtype or "float64")[y.astype("int64")]

        Compared(lambda y, classes, dtype: extra_ops.to_one_hot(y, classes, dtype), expected).check(
            y, classes=classes, dtype=dtype
        )


class TestCompress(unittest.TestCase):
    compress = Compared(lambda c, x, axis: extra_ops.compress(c, x, axis), lambda c, x, axis: np.compress(c, x, axis))

    @generated(arrays(ALL_DTYPES, ndim=(1, 3)), st.data(), examples=40)
    def test_values(self, x, data):
        axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
        n = x.size if axis is None else x.shape[axis]
        condition = data.draw(arrays(("bool", "int8"), shape=(data.draw(st.integers(0, n)),)))
        self.compress.check(condition, x, axis=axis)


if __name__ == "__main__":
    unittest.main()
