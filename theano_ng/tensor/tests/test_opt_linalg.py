"""Rules for inverses, determinants and systems of equations: the rewritten graphs, and values before and after."""

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor.nlinalg import det, matrix_dot, matrix_inverse
from theano_ng.tensor.slinalg import Cholesky, cholesky, solve
from theano_ng.tensor.tests.rewriting import CANONICALIZE, STABILIZE, RewriteCase, shown

REGULAR = np.array([[4.0, 1.0, -2.0], [0.0, 3.0, 1.0], [2.0, -1.0, 5.0]])
POSITIVE = np.dot(REGULAR, REGULAR.T)


def graph(*outputs, query=STABILIZE):
    inputs = [v for v in theano_ng.gof.graph.inputs(outputs) if not isinstance(v, theano_ng.gof.Constant)]
    return shown(theano_ng.function(inputs, list(outputs), mode=Mode("py", query)).maker.fgraph)


class TestInverses(RewriteCase):
    query = STABILIZE
    general = "Solve{A_structure='general', lower=False, overwrite_A=False, overwrite_b=False}"

    def check(self, out, expected, **kwargs):
        values = {"A": REGULAR, "B": REGULAR.T + 1}
        return super().check(
            out, None if expected is None else expected.replace("solve", self.general), values, **kwargs
        )

    def test_products_with_inverses_are_solved(self):
        A, B, v = T.dmatrix("A"), T.dmatrix("B"), T.dvector("v")
        turn = "InplaceDimShuffle{1,0}(%s)"
        self.check(T.dot(matrix_inverse(A), B), "solve(A, B)")
        self.check(T.dot(matrix_inverse(A), v), "solve(A, v)")
        self.check(T.dot(v, matrix_inverse(A)), "solve(%s, v)" % turn % "A")
        self.check(T.dot(B, matrix_inverse(A)), turn % "solve(%s, %s)" % (turn % "A", turn % "B"))
        self.check(T.dot(matrix_inverse(A).T, v), "solve(%s, v)" % turn % "A")
        self.check(T.dot(v, matrix_inverse(A).T), "solve(A, v)")
        self.check(T.dot(matrix_inverse(A), T.dcol("c")), None)
        self.check(T.dot(T.drow("r"), matrix_inverse(A)), None)
        self.check(T.dot(matrix_inverse(A), T.fvector("f")), None)
        self.check(matrix_dot(matrix_inverse(A), matrix_inverse(B)), "solve(A, MatrixInverse(B))")
        quadratic = self.check(T.grad(T.dot(v, T.dot(matrix_inverse(A), v)), A), None)
        self.assertNotIn("MatrixInverse", str(quadratic.maker.fgraph))

    def test_inverses_that_are_needed_stay(self):
        A, B, v = T.dmatrix("A"), T.dmatrix("B"), T.dvector("v")
        inverse = matrix_inverse(A)
        self.assertEqual(graph(T.dot(inverse, v), inverse), "dot(*1 -> MatrixInverse(A), v), *1")
        self.assertEqual(graph(B * inverse.T), "mul(B, MatrixInverse(InplaceDimShuffle{1,0}(A)))")

    def test_transposes_of_inverses(self):
        A = T.dmatrix("A")
        self.check(matrix_inverse(A).T, "MatrixInverse(InplaceDimShuffle{1,0}(A))", query=CANONICALIZE)
        self.check(matrix_inverse(A.T).T, "MatrixInverse(A)", query=CANONICALIZE)
        f = theano_ng.function([A], [matrix_inverse(A), matrix_inverse(A).T], mode=Mode("py", CANONICALIZE))
        self.assertEqual(str(f.maker.fgraph).count("MatrixInverse"), 1)

    def test_singular_matrices_are_refused_as_before(self):
        A, v = T.dmatrix("A"), T.dvector("v")
        f = theano_ng.function([A, v], T.dot(matrix_inverse(A), v), mode="FAST_RUN")
        self.assertNotIn("MatrixInverse", str(f.maker.fgraph))
        self.assertRaises(np.linalg.LinAlgError, f, np.ones((3, 3)), np.ones(3))
        np.testing.assert_allclose(f(REGULAR, np.ones(3)), np.linalg.solve(REGULAR, np.ones(3)))


class TestCholeskyFactors(RewriteCase):
    query = STABILIZE

    def check(self, out, *args, **kwargs):
        return super().check(out, None, {"A": POSITIVE}, *args, **kwargs)

    def test_systems_with_factors_are_triangular(self):
        A, v = T.dmatrix("A"), T.dvector("v")
        for factor, structure in (
            (cholesky(A), "lower"),
            (cholesky(A).T, "upper"),
            (Cholesky(lower=False)(A), "upper"),
            (Cholesky(lower=False)(A).T, "lower"),
        ):
            f = self.check(solve(factor, v))
            self.assertEqual(
                [node.op.A_structure for node in f.maker.fgraph.toposort() if hasattr(node.op, "A_structure")],
                [structure + "_triangular"],
            )

    def test_determinants_from_factors(self):
        A = T.dmatrix("A")
        f = self.check(det(A) + cholesky(A).sum())
        self.assertNotIn("Det", str(f.maker.fgraph))
        f = self.check(det(A) + Cholesky(on_error="nan")(A).sum())
        self.assertIn("Det", str(f.maker.fgraph))
        # the logarithm contains no product, which could overflow
        f = self.check(T.log(det(A)) + cholesky(A).sum())
        self.assertNotIn("Prod", str(f.maker.fgraph))
        large = np.diag(np.full(200, 1e4))
        np.testing.assert_allclose(f(large), 200 * np.log(1e4) + 200 * 1e2)


class TestInversesAndTransposes(RewriteCase):
    query = STABILIZE

    def test_both_in_products(self):
        """Products with an inverse and with its transpose are computed by solving systems, on either side.

        The inverse is not computed, since only products use it.
        """
        A, v, w = T.dmatrix("A"), T.dvector("v"), T.dvector("w")
        inverse = matrix_inverse(A)
        value = np.linalg.inv(REGULAR)
        a, b = np.array([1.0, -2, 0.5]), np.array([3.0, 0.5, 1])
        for outputs, wanted in (
            ([T.dot(inverse, v), T.dot(inverse.T, w)], [value.dot(a), value.T.dot(b)]),
            ([T.dot(v, inverse), T.dot(w, inverse.T)], [a.dot(value), b.dot(value.T)]),
            ([T.dot(inverse.T, v), T.dot(w, inverse.T)], [value.T.dot(a), b.dot(value.T)]),
        ):
            f = theano_ng.function([A, v, w], outputs, mode=Mode("py", STABILIZE))
            self.assertNotIn("MatrixInverse", shown(f.maker.fgraph))
            for got, want in zip(f(REGULAR, a, b), wanted):
                np.testing.assert_allclose(got, want)

    def test_complex_determinants(self):
        """The determinant is not computed from a Cholesky factor if the diagonal may have imaginary parts, which the
        factor ignores.
        """
        A = T.zmatrix("A")
        for dtype, value in (
            ("zmatrix", np.array([[2 + 1j, 1j], [-1j, 3]])),
            ("zmatrix", np.array([[2, 1j], [-1j, 3 + 2j]])),
            ("dmatrix", POSITIVE),
        ):
            A = getattr(T, dtype)("A")
            f = theano_ng.function([A], [det(A), cholesky(A)], mode=Mode("py", "fast_run"))
            np.testing.assert_allclose(f(value)[0], np.linalg.det(value))
