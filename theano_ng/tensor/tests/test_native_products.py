"""Products by BLAS and by our own loops: matrices of unusual memory layout, factors close to zero, small sizes."""

import itertools
import subprocess
import sys
import tracemalloc
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.audit.forms import FORMS
from theano_ng.tensor import blas
from theano_ng.tensor.tests.single_node import run_node

DTYPES = ("float32", "float64", "complex64", "complex128")
DIGITS = {"float32": 1e-5, "complex64": 1e-5}


def windows(rows, columns, down, right, dtype):
    """Return a matrix of integers with the strides `down` and `right`, in elements. Its rows may overlap in memory."""
    memory = np.arange(rows * max(down, 1) + columns * max(right, 1)) % 13 - 6
    item = np.dtype(dtype).itemsize
    return np.lib.stride_tricks.as_strided(memory.astype(dtype), (rows, columns), (down * item, right * item))


class Products(unittest.TestCase):
    def check(self, op, values, want):
        variables = [T.TensorType(v.dtype.newbyteorder("="), (False,) * v.ndim)() for v in map(np.asarray, values)]
        (got,) = run_node(op(*variables), dict(zip(variables, values)), "c")
        self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
        np.testing.assert_allclose(got, want, rtol=DIGITS.get(str(want.dtype), 1e-12), err_msg=str(op))
        return got


class TestLayouts(Products):
    def test_windows(self):
        """Products have NumPy's values for matrices whose rows and columns overlap, repeat, or have gaps."""
        shapes = ((1, 1), (1, 6), (6, 1), (4, 3), (3, 5))
        for dtype, (rows, columns), (down, right) in itertools.product(
            DTYPES, shapes, itertools.product((0, 1, 2, 3, 7), repeat=2)
        ):
            x = windows(rows, columns, down, right, dtype)
            y = np.arange(columns * 2).reshape(columns, 2).astype(dtype)
            left = np.arange(2 * rows).reshape(2, rows).astype(dtype)
            one, zero = np.array(1, dtype), np.array(0, dtype)
            self.check(blas._dot22, [x, y], np.dot(x.copy(), y))
            self.check(blas._dot22, [left, x], np.dot(left, x.copy()))
            z = np.zeros((rows, 2), dtype)
            self.check(blas.gemm_no_inplace, [z, one, x, y, one], np.dot(x.copy(), y))
            self.check(blas.gemv_no_inplace, [z[:, 0], one, x, y[:, 1], zero], np.dot(x.copy(), y[:, 1]))
            self.check(blas.ger, [x, one, left[0], y[:, 0]], x + np.outer(left[0], y[:, 0]))
            self.check(blas.ger, [np.zeros_like(x), one, x[:, 0], x[0]], np.outer(x[:, 0], x[0]))
            self.check(T.dot, [x[0], y[:, 0]], np.dot(x[0].copy(), y[:, 0]))
            stack = np.stack([x, 2 * x])
            turned = stack.swapaxes(1, 2)
            self.check(blas.BatchedDot(), [np.broadcast_to(x, (2, *x.shape)), turned], x @ turned)

    def test_forms(self):
        """Products have NumPy's values for arrays of every memory layout.

        Our own loops compute some of the products, BLAS computes the others.
        """
        rng = np.random.RandomState(6)
        for dtype in ("float32", "float64"):
            one = np.array(1, dtype)
            for m, k, n in ((130, 700, 3), (700, 130, 9), (9, 500, 130), (2, 3, 4)):
                x, y, z = [rng.randint(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n), (m, n))]
                for form in FORMS:
                    for a, b in ((form(x), y), (x, form(y))):
                        self.check(blas._dot22, [a, b], x.dot(y))
                        self.check(blas.gemm_no_inplace, [z, one, a, b, one], z + x.dot(y))
                        self.check(blas.gemv_no_inplace, [z[:, 0], one, a, b[:, 0], one], z[:, 0] + x.dot(y[:, 0]))
                    self.check(blas.gemm_no_inplace, [form(z), one, x, y, one], z + x.dot(y))

    def test_few_columns(self):
        """Products with few columns have NumPy's values, in either memory order, for odd lengths.

        The package has loops for 2 to 10 columns. The test also uses 1 and 11 columns.
        """
        rng = np.random.RandomState(9)
        for dtype, columns in itertools.product(("float32", "float64"), range(1, 12)):
            alpha, beta = np.array(2, dtype), np.array(-3, dtype)
            for rows, inner in ((1025, 67), (67, 1025), (17, 3861)):
                x, y = [rng.randint(-9, 9, shape).astype(dtype) for shape in ((rows, inner), (inner, columns))]
                z = rng.randint(-9, 9, (rows, columns)).astype(dtype)
                wide = np.full((rows, columns + 2), 7, dtype)
                wide[:, 1:-1] = z
                want = 2 * x.dot(y) - 3 * z
                for a in (x, np.asfortranarray(x)):
                    self.check(blas._dot22, [a, y], x.dot(y))
                    self.check(blas.gemm_no_inplace, [z, alpha, a, y, beta], want)
                    self.check(blas.gemm_inplace, [wide[:, 1:-1], alpha, a, y, beta], want)
                    np.testing.assert_array_equal(wide[:, [0, -1]], 7)
                    wide[:, 1:-1] = z

    def test_memory(self):
        """Products do not copy matrices in C or Fortran order, or parts of such matrices."""
        rng = np.random.RandomState(4)
        base = rng.rand(700, 800)
        one, zero = np.array(1.0), np.array(0.0)
        for x in (base, base.T, base[:, :600], base[100:], base.T[:600], base.T[:, 50:], base[::2], base.T[:, ::2]):
            small = np.zeros((len(x), 3))
            y, v = rng.rand(x.shape[1], 3), rng.rand(x.shape[1])
            for op, values, want in (
                (blas._dot22, [x, y], x.dot(y)),
                (blas._dot22, [y.T, x.T], y.T.dot(x.T)),
                (blas.gemv_no_inplace, [small[:, 0], one, x, v, zero], x.dot(v)),
                (T.dot, [v, x.T], x.dot(v)),
                (blas.BatchedDot(), [x[None], y[None]], x.dot(y)[None]),
            ):
                tracemalloc.start()
                try:
                    self.check(op, values, want)
                    peak = tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
                self.assertLess(peak, x.nbytes // 4, (op, x.shape, x.strides))


class TestFactors(Products):
    def test_next_to_zero(self):
        """Gemm, Gemv and Dot22Scalar do not treat a scalar factor as zero if it is the smallest number of the dtype."""
        for dtype in ("float32", "float64"):
            tiny = np.array(np.finfo(dtype).smallest_subnormal, dtype)
            large = np.array(1e37 if dtype == "float32" else 1e300, dtype)
            one, zero = np.array(1, dtype), np.array(0, dtype)
            x, y = np.zeros((5, 4), dtype), np.zeros((4, 3), dtype)
            z = np.full((5, 3), large)
            want = np.full((5, 3), tiny * large)
            self.check(blas.gemm_no_inplace, [z, one, x, y, tiny], want)
            self.check(blas.gemv_no_inplace, [z[:, 0], one, x, y[:, 0], tiny], want[:, 0])
            x[:], y[:] = large, one
            self.check(blas._dot22scalar, [x, y, tiny], 4 * np.full((5, 3), tiny * large))
            self.check(blas.gemm_no_inplace, [0 * z, tiny, x, y, zero], 4 * np.full((5, 3), tiny * large))
            self.check(blas.gemv_no_inplace, [0 * z[:, 0], tiny, x, y[:, 0], zero], 4 * np.full(5, tiny * large))

    def test_zero(self):
        """Gemm, Gemv and Dot22Scalar do not read an operand whose scalar factor is zero: NaN in it has no effect."""
        for dtype in DTYPES:
            one, zero, nan = np.array(1, dtype), np.array(0, dtype), np.array(np.nan, dtype)
            x, y = np.ones((5, 4), dtype), np.ones((4, 3), dtype)
            z, nothing = np.full((5, 3), nan), np.zeros((5, 3), dtype)
            self.check(blas.gemm_no_inplace, [z, one, x, y, zero], nothing + 4)
            self.check(blas.gemv_no_inplace, [z[:, 0], one, x, y[:, 0], zero], nothing[:, 0] + 4)
            self.check(blas.gemm_no_inplace, [nothing, zero, nan * x, nan * y, one], nothing)
            self.check(blas._dot22scalar, [nan * x, nan * y, zero], nothing)

    def test_values_that_are_not_the_inputs_dtype(self):
        """Products refuse a value whose dtype is not that of the variable.

        The Ops never read the memory of such a value as if it had the dtype of the variable.
        """
        for op, shapes in (
            (blas._dot22, [(3, 4), (4, 2)]),
            (blas._dot22scalar, [(3, 4), (4, 2), ()]),
            (blas.gemm_no_inplace, [(3, 2), (), (3, 4), (4, 2), ()]),
            (blas.gemv_no_inplace, [(3,), (), (3, 4), (4,), ()]),
            (blas.ger, [(3, 2), (), (3,), (2,)]),
            (T.dot, [(3, 4), (4,)]),
            (blas.BatchedDot(), [(2, 3, 4), (2, 4, 2)]),
        ):
            variables = [T.TensorType("float64", (False,) * len(shape))() for shape in shapes]
            out = op(*variables)
            for k in range(len(shapes)):
                for dtype in ("float32", "complex128", "int64"):
                    values = [np.ones(shape, dtype if i == k else "float64") for i, shape in enumerate(shapes)]
                    with self.assertRaises(TypeError, msg=(op, k, dtype)):
                        run_node(out, dict(zip(variables, values)), "c")


WITHOUT_BLAS = """
import sys
from unittest import mock

import numpy as np

import theano_ng.tensor as T
from theano_ng.tensor import blas
from theano_ng.tensor.blas import table
from theano_ng.tensor.linalg import lapack
from theano_ng.tensor.slinalg import solve
from theano_ng.tensor.tests.single_node import run_node

CASES = (
    (blas._dot22, [(30, 40), (40, 20)]),
    (blas._dot22scalar, [(30, 40), (40, 20), ()]),
    (blas.gemm_no_inplace, [(30, 20), (), (30, 40), (40, 20), ()]),
    (blas.gemv_no_inplace, [(30,), (), (30, 40), (40,), ()]),
    (blas.ger, [(30, 20), (), (30,), (20,)]),
    (T.dot, [(30, 40), (40,)]),
    (blas.BatchedDot(), [(2, 30, 40), (2, 40, 20)]),
    (solve, [(30, 30), (30,)]),
)
for usable in (False, True):
    for op, shapes in CASES:
        variables = [T.TensorType("complex128", (False,) * len(shape))() for shape in shapes]
        values = [np.eye(*shape) + 0j if len(shape) == 2 else np.ones(shape, "complex128") for shape in shapes]
        out = op(*variables)
        given = dict(zip(variables, values))
        if usable:
            np.testing.assert_allclose(run_node(out, given, "c")[0], run_node(out, given, "py")[0])
            continue
        with mock.patch.object(table, "addresses", side_effect=OSError("no such library")):
            with mock.patch.object(lapack, "addresses", side_effect=OSError("no such library")):
                try:
                    run_node(out, given, "c")
                except OSError as error:
                    assert str(error) == "no such library", error
                else:
                    sys.exit("no error: %s" % op)
"""


class TestWithoutBLAS(unittest.TestCase):
    def test_error_and_recovery(self):
        """Products raise an error if BLAS and LAPACK are missing, and work once the libraries are found.

        The error says why the functions cannot be found.
        """
        done = subprocess.run([sys.executable, "-c", WITHOUT_BLAS], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr[-2000:])


class TestStacks(Products):
    def test_small(self):
        """Products of stacks of small matrices have NumPy's values, for sizes near the limits of our loops."""
        rng = np.random.RandomState(5)
        sizes = (1, 2, 3, 4, 5, 7, 8, 9, 10)
        for m, k, n in itertools.product(sizes, (1, 3, 8, 9), sizes):
            for dtype in ("float32", "float64"):
                x, y = [rng.randint(-9, 9, shape).astype(dtype) for shape in ((3, m, k), (3, k, n))]
                self.check(blas.BatchedDot(), [x, y], x @ y)
                if m % 3 == 0:
                    other = np.asfortranarray(x.swapaxes(0, 2)).swapaxes(0, 2)
                    self.check(blas.BatchedDot(), [other, y[::-1]], other @ y[::-1])
                    self.check(blas.BatchedDot(), [x, y.swapaxes(1, 2).copy().swapaxes(1, 2)], x @ y)


if __name__ == "__main__":
    unittest.main()
