"""Tests of hints: their contents, their transfer to new variables, and the rules that use them."""

import pickle
import subprocess
import sys

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.sandbox import linalg
from theano_ng.sandbox.linalg import ops
from theano_ng.sandbox.linalg.ops import (
    Hint,
    HintsFeature,
    HintsOptimizer,
    hints,
    is_hint_node,
    is_positive,
    is_psd,
    is_symmetric,
    psd,
    spectral_radius_bound,
)
from theano_ng.tensor.nlinalg import matrix_inverse
from theano_ng.tensor.slinalg import solve
from theano_ng.tensor.tests.rewriting import STABILIZE, RewriteCase
from theano_ng.tests import unittest_tools as utt

ROOT = np.array([[4.0, 1.0, -2.0], [0.0, 3.0, 1.0], [2.0, -1.0, 5.0]])
POSITIVE = np.dot(ROOT, ROOT.T)


class TestHints(RewriteCase):
    query = STABILIZE

    def check(self, out, expected, **kwargs):
        return super().check(out, expected, {"A": POSITIVE, "B": ROOT}, **kwargs)

    def test_the_op(self):
        A = T.dmatrix("A")
        hinted = Hint(banded=2, psd=True)(A)
        self.assertEqual(hinted.owner.op, Hint(psd=True, banded=2))
        self.assertNotEqual(hinted.owner.op, Hint(psd=True, banded=3))
        self.assertEqual(hints(hinted), {"psd": True, "banded": 2})
        self.assertEqual(hints(A), {})
        self.assertTrue(is_hint_node(hinted.owner))
        for mode in (Mode("py", None), Mode("cvm", None), "FAST_COMPILE", "FAST_RUN"):
            f = theano_ng.function([A], [hinted * 2, hinted.shape], mode=mode)
            np.testing.assert_array_equal(f(ROOT)[0], ROOT * 2)
            np.testing.assert_array_equal(f(ROOT)[1], (3, 3))
        self.check(hinted * 2, "mul(2.0, A)")
        utt.verify_grad(psd, [ROOT], n_tests=1)
        d = T.dmatrix("d")
        np.testing.assert_array_equal(
            theano_ng.function([A, d], T.Rop(psd(A), A, d), on_unused_input="ignore")(ROOT, POSITIVE), POSITIVE
        )

    def test_what_is_known(self):
        A, v = T.dmatrix("A"), T.dvector("v")
        self.assertTrue(is_psd(psd(A)) and is_symmetric(psd(A)) and is_symmetric(Hint(symmetric=True)(A)))
        self.assertFalse(is_psd(A) or is_symmetric(A) or is_psd(Hint(symmetric=True)(A)) or is_psd(Hint(psd=False)(A)))
        for positive in (T.exp(A), T.sqr(A), A**2, A**4, Hint(positive=True)(A)):
            self.assertTrue(is_positive(positive))
        for other in (A, A**3, A**v, T.sqr(T.zmatrix()), A * A):
            self.assertFalse(is_positive(other))

    def test_the_feature_moves_hints_with_replacements(self):
        A, B = T.dmatrix("A"), T.dmatrix("B")
        product = T.dot(A, A)
        fgraph = gof.FunctionGraph([A, B], [Hint(banded=1)(psd(product)) + B], clone=False)
        HintsOptimizer().optimize(fgraph)
        feature = fgraph.hints_feature
        self.assertIsInstance(feature, HintsFeature)
        self.assertTrue(is_psd(product))
        self.assertEqual(hints(product), {"psd": True, "symmetric": True})
        self.assertEqual(hints(B), {})
        # attached once
        fgraph.attach_feature(HintsFeature())
        self.assertIs(fgraph.hints_feature, feature)
        other = T.dot(A, B)
        fgraph.replace(product, other)
        self.assertTrue(is_psd(other))
        again = pickle.loads(pickle.dumps(fgraph))
        self.assertTrue(is_psd(again.toposort()[0].outputs[0]))
        feature.add_hint(other, "banded", 3)
        self.assertRaisesRegex(ValueError, "Conflicting hints", feature.add_hint, other, "banded", 2)
        fgraph.remove_feature(feature)
        self.assertFalse(hasattr(fgraph, "hints_feature"))

    def test_transposes_of_symmetric_matrices(self):
        A, B = T.dmatrix("A"), T.dmatrix("B")
        self.check(psd(A).T * B, "mul(A, B)")
        self.check(Hint(symmetric=True)(A).T * B, "mul(A, B)")
        self.check(A.T * B, "mul(InplaceDimShuffle{1,0}(A), B)")
        f = self.check(T.dot(B, matrix_inverse(Hint(symmetric=True)(A))), None)
        self.assertEqual(str(f.maker.fgraph).count("DimShuffle"), 2)

    def test_systems_with_positive_matrices(self):
        A, B = T.dmatrix("A"), T.dmatrix("B")
        for out in (solve(psd(A), B), T.dot(matrix_inverse(psd(A)), B)):
            f = self.check(out, None)
            names = [getattr(node.op, "A_structure", type(node.op).__name__) for node in f.maker.fgraph.toposort()]
            self.assertEqual(
                [n for n in names if n != "DimShuffle"], ["Cholesky", "lower_triangular", "upper_triangular"]
            )
        f = self.check(solve(A, B), None)
        self.assertNotIn("Cholesky", str(f.maker.fgraph))

    def test_names(self):
        for name in (
            "inv_as_solve",
            "tag_solve_triangular",
            "transinv_to_invtrans",
            "local_det_chol",
            "local_log_prod_sqr",
            "local_log_pow",
            "remove_hint_nodes",
            "no_transpose_symmetric",
            "psd_solve_with_chol",
        ):
            self.assertIsInstance(getattr(ops, name), gof.opt.LocalOptimizer)
        self.assertRaises(AttributeError, getattr, ops, "spam")
        self.assertTrue(ops.imported_scipy)
        from theano_ng.compile.mode import optdb

        self.assertIsInstance(optdb.query(Query(["HintsOpt"]))[0], HintsOptimizer)
        for name in (
            "alloc_diag",
            "cholesky",
            "det",
            "diag",
            "eig",
            "eigh",
            "eigvalsh",
            "extract_diag",
            "matrix_inverse",
            "solve",
            "trace",
        ):
            self.assertIs(getattr(linalg, name), getattr(ops, name))

    def test_rules_are_loaded_with_the_first_function(self):
        code = """
import sys
import theano_ng as theano
from theano_ng.sandbox.linalg import psd, solve
assert 'theano_ng.tensor.opt' not in sys.modules and 'scipy.linalg' not in sys.modules
x = theano.tensor.dmatrix()
print(theano.function([x], solve(psd(x), x), mode='FAST_RUN').maker.fgraph)
"""
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertIn("Cholesky", out)


class TestBound(RewriteCase):
    def test_spectral_radius_bound(self):
        A = T.dmatrix("A")
        largest = np.linalg.eigvalsh(POSITIVE).max()
        bounds = theano_ng.function([A], [spectral_radius_bound(A, n) for n in (1, 3, 5)])(POSITIVE)
        self.assertTrue(bounds[0] > bounds[1] > bounds[2] >= largest * (1 - 1e-12))
        np.testing.assert_allclose(bounds[2], largest, rtol=0.02)
        np.testing.assert_allclose(bounds[0], np.sqrt(np.trace(POSITIVE.dot(POSITIVE))))
        utt.verify_grad(lambda x: spectral_radius_bound(x, 2), [POSITIVE], n_tests=1)
        self.assertRaises(TypeError, spectral_radius_bound, T.dvector(), 2)
        self.assertRaises(TypeError, spectral_radius_bound, A, 2.0)
        self.assertRaises(ValueError, spectral_radius_bound, A, 0)
