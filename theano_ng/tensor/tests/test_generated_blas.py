"""Products of generated arrays in every layout, before and after the BLAS rewrites, by SciPy's BLAS and by a linked
BLAS.
"""

import ctypes.util
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from hypothesis import strategies as st

from theano_ng import tensor
from theano_ng.configdefaults import config
from theano_ng.tensor import blas
from theano_ng.tensor.tests.generated import COMPLEX, Compared, arrays, generated

BLAS_DTYPES = ("float32", "float64", *COMPLEX)
# The types declare no lengths of 1, so one compiled function serves all arrays of the same ranks and dtypes. The
# elements are multiples of 1/4, so short sums of their products are exact in any order.
EXACT = dict(declare="none")
MODES = ("py", "c", "fast_run")
LENGTHS = st.integers(0, 5)


@st.composite
def operands(draw, *shapes, dtypes=BLAS_DTYPES):
    """Draw arrays of one dtype whose shapes are given by letters: "mk" and "kn" share the length k."""
    lengths = {}
    for letter in dict.fromkeys("".join(shapes)):
        lengths[letter] = draw(LENGTHS)
    dtype = draw(st.sampled_from(dtypes))
    return [draw(arrays(dtype, shape=tuple(lengths[letter] for letter in shape))) for shape in shapes]


def scaled_sum(product, reference):
    return Compared(
        lambda z, x, y, a, b: b * z + a * product(x, y),
        lambda z, x, y, a, b: b * z + a * reference(x, y),
        modes=MODES,
        **EXACT,
    )


def factors(x):
    return np.asarray(0.5, x.dtype), np.asarray(-2, x.dtype)


class Products(unittest.TestCase):
    dot = Compared(tensor.dot, np.dot, modes=MODES, **EXACT)
    sum_of_dot = scaled_sum(tensor.dot, np.dot)
    sum_of_outer = scaled_sum(tensor.outer, np.outer)
    batched = Compared(
        tensor.batched_dot,
        lambda x, y: np.einsum(
            "b%s,b%s->b%s" % ("mk"[2 - (x.ndim - 1) :], "kn"[: y.ndim - 1], "m" * (x.ndim == 3) + "n" * (y.ndim == 3)),
            x,
            y,
        ),
        modes=MODES,
        **EXACT,
    )
    scaled = Compared(
        lambda x, y, a: a * tensor.dot(x, y.T), lambda x, y, a: a * np.dot(x, y.T), modes=("fast_run",), **EXACT
    )

    @generated(operands("mk", "kn"))
    def test_matrices(self, operands):
        self.dot.check(*operands)

    @generated(operands("mk", "nk"))
    def test_factor_of_a_transposed_product(self, operands):
        self.scaled.check(*operands, factors(operands[0])[0])

    @generated(
        st.one_of(
            operands("mk", "k"),
            operands("k", "kn"),
            operands("k", "k"),
            operands("imk", "kn"),
            operands("mk", "ikn"),
            operands("imk", "k"),
            operands("k", "ikn"),
            operands("imk", "jkn"),
        )
    )
    def test_vectors_and_stacks(self, operands):
        self.dot.check(*operands)

    @generated(st.one_of(operands("mk", "jn"), operands("mk", "j")))
    def test_lengths_that_do_not_fit_are_refused(self, operands):
        self.dot.check(*operands)

    @generated(
        st.one_of(
            operands("mn", "mk", "kn"), operands("m", "mk", "k"), operands("n", "k", "kn"), operands("n", "mk", "kn")
        )
    )
    def test_scaled_sums(self, operands):
        self.sum_of_dot.check(*operands, *factors(operands[0]))

    @generated(operands("mn", "m", "n"))
    def test_rank_one_updates(self, operands):
        self.sum_of_outer.check(*operands, *factors(operands[0]))

    @generated(st.one_of(operands("bmk", "bkn"), operands("bk", "bkn"), operands("bmk", "bk"), operands("bk", "bk")))
    def test_batches(self, operands):
        self.batched.check(*operands)

    tensordot = Compared(tensor.tensordot, np.tensordot, modes=("c", "fast_run"), **EXACT)

    @generated(st.data(), examples=15)
    def test_tensordot(self, data):
        x, y = data.draw(operands("ijk", "kjn"))
        for axes in ([[2], [0]], [[1, 2], [1, 0]], [[2, 1], [0, 1]], [[], []], 1, 0):
            self.tensordot.check(x, y, axes=axes)


class Gradients(unittest.TestCase):
    small = st.one_of(
        *(
            operands(*shapes, dtypes=("float64",))
            for shapes in (("mk", "kn"), ("mk", "k"), ("k", "kn"), ("k", "k"), ("imk", "kn"), ("imk", "jkn"))
        )
    )
    batches = st.one_of(
        *(
            operands(*shapes, dtypes=("float64",))
            for shapes in (("bmk", "bkn"), ("bk", "bkn"), ("bmk", "bk"), ("bk", "bk"))
        )
    )

    @generated(small, examples=10)
    def test_dot(self, operands):
        Products.dot.check_gradient(*operands)

    @generated(batches, examples=8)
    def test_batched_dot(self, operands):
        Products.batched.check_gradient(*operands)

    @generated(operands("mn", "mk", "kn", dtypes=("float64",)), examples=4)
    def test_gemm(self, operands):
        z, x, y = operands
        gemm = Compared(lambda z, a, x, y, b: blas.gemm_no_inplace(z, a, x, y, b), None)
        gemm.check_gradient(z, np.float64(0.5), x, y, np.float64(-2))

    @generated(operands("m", "mk", "k", dtypes=("float64",)), examples=4)
    def test_gemv_and_ger(self, operands):
        y, a, x = operands
        gemv = Compared(lambda y, s, a, x, b: blas.gemv_no_inplace(y, s, a, x, b), None)
        gemv.check_gradient(y, np.float64(0.5), a, x, np.float64(-2))
        ger = Compared(lambda a, s, x, y: blas.ger(a, s, x, y), None)
        ger.check_gradient(a, np.float64(0.5), y, x)


class LinkedLibrary(unittest.TestCase):
    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    @unittest.skipIf(config.blas.ldflags, "these tests are being run with blas.ldflags")
    @unittest.skipUnless(
        ctypes.util.find_library("openblas"), "blas.ldflags is tried with OpenBLAS, which is not installed"
    )
    def test_everything_with_blas_ldflags(self):
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as folder:
            flags = ",".join(
                filter(None, [os.environ.get("THEANO_FLAGS"), "blas.ldflags=-lopenblas", "base_compiledir=" + folder])
            )
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "theano_ng.tests.runner",
                    "--processes",
                    "1",
                    os.path.join(here, "test_blas.py"),
                    os.path.join(here, "test_generated_blas.py"),
                ],
                env=dict(os.environ, THEANO_FLAGS=flags),
                capture_output=True,
                text=True,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\b[3-9]\d passed, 0 failed")


if __name__ == "__main__":
    unittest.main()
