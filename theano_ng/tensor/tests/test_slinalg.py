"""Cholesky factors, systems of equations, generalized eigenvalues, matrix exponentials, Kronecker products: against
NumPy and SciPy.
"""

import pickle
import unittest

import numpy as np
import scipy.linalg
from hypothesis import strategies as st

import theano_ng
from theano_ng import tensor
from theano_ng.compile.mode import Mode
from theano_ng.tensor import slinalg
from theano_ng.tensor.slinalg import (
    Cholesky,
    CholeskyGrad,
    Eigvalsh,
    EigvalshGrad,
    Expm,
    ExpmGrad,
    Solve,
    cholesky,
    eigvalsh,
    expm,
    kron,
    solve,
    solve_lower_triangular,
    solve_symmetric,
    solve_upper_triangular,
)
from theano_ng.tensor.tests.generated import LAYOUTS, Compared, arrays, generated
from theano_ng.tests import unittest_tools as utt

DTYPES = ("float32", "float64", "complex64", "complex128")
TOLERANCE = {"float32": 2e-3, "complex64": 2e-3, "float64": 1e-9, "complex128": 1e-9}
SIDES = (0, 1, 2, 5, 9, 67)


def modes():
    return Mode("py", None), Mode("cvm", None)


def numbers(rng, dtype, *shape):
    x = rng.randn(*shape)
    return np.asarray(x + 1j * rng.randn(*shape) if dtype[0] == "c" else x).astype(dtype)


def positive(rng, dtype, n):
    x = numbers(rng, dtype, n, n)
    return (x.dot(x.conj().T) + (n + 1) * np.eye(n)).astype(dtype)


def without(x, lower):
    """Return a copy with NaN in the triangle that the Op does not read."""
    x = x.copy()
    x[np.triu_indices(len(x), 1) if lower else np.tril_indices(len(x), -1)] = np.nan
    return x


DRAWN = (st.sampled_from(DTYPES), st.sampled_from(SIDES), st.sampled_from(tuple(LAYOUTS)), st.integers(0, 1000))


class Checked(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.RandomState(utt.fetch_seed())

    def derivatives(self, build, *values):
        """Check the gradient and R_op of an expression, and the gradient and R_op of its gradient."""
        Compared(build, None).check_gradient(*values)

        def gradients(*variables):
            out = build(*variables)
            weights = np.cos(np.arange(8)) if out.ndim == 1 else np.cos(np.arange(64)).reshape(8, 8)
            weights = tensor.constant(weights)[
                tuple(slice(length) for length in [out.shape[k] for k in range(out.ndim)])
            ]
            return tensor.concatenate(
                [g.flatten() for g in theano_ng.grad((weights * out * out).sum(), list(variables))]
            )

        Compared(gradients, None).check_gradient(*values)

    def by_parts(self, build, *values):
        """Check the gradient of a function with respect to real and imaginary parts of complex matrices."""
        parts = [part for value in values for part in (value.real, value.imag)]

        def joined(*variables):
            out = build(*[tensor.complex(re, im) for re, im in zip(variables[::2], variables[1::2])])
            return (
                tensor.concatenate([tensor.real(out).flatten(), tensor.imag(out).flatten()])
                if out.dtype == "complex128"
                else out
            )

        utt.verify_grad(joined, parts, n_tests=1, rng=self.rng)


class TestCholesky(Checked):
    ops = {
        (lower, on_error): Compared(Cholesky(lower, on_error), None)
        for lower in (True, False)
        for on_error in ("raise", "nan")
    }

    @generated(*DRAWN, st.booleans(), st.sampled_from(("raise", "nan")), examples=60)
    def test_values(self, dtype, n, layout, seed, lower, on_error):
        x = positive(np.random.RandomState(seed), dtype, n)
        compared = Compared(
            Cholesky(lower, on_error),
            lambda given: scipy.linalg.cholesky(x, lower=lower) if n else x,
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype],
        )
        # All examples share one compiled function per type.
        compared._compiled = self.ops[lower, on_error]._compiled
        compared.check(LAYOUTS[layout](without(x, lower)))

    def test_integers_are_converted(self):
        x = tensor.imatrix()
        for mode in modes():
            result = theano_ng.function([x], cholesky(x), mode=mode)(np.array([[4, 2], [2, 5]], "int32"))
            self.assertEqual(result.dtype, "float64")
            np.testing.assert_allclose(result, [[2, 0], [1, 2]])

    def test_not_positive_definite(self):
        x = tensor.dmatrix()
        z = tensor.zmatrix()
        bad = np.array([[1.0, 2], [2, 1]])
        for mode in modes():
            f = theano_ng.function([x], cholesky(x), mode=mode)
            for value in (bad, -np.eye(3), np.full((2, 2), np.nan), np.zeros((1, 1))):
                with self.assertRaises(scipy.linalg.LinAlgError):
                    f(value)
            np.testing.assert_allclose(f(np.eye(2)), np.eye(2))
            with self.assertRaisesRegex(scipy.linalg.LinAlgError, "square"):
                f(np.ones((2, 3)))
            f = theano_ng.function(
                [x, z], [Cholesky(lower, "nan")(v) for lower in (True, False) for v in (x, z)], mode=mode
            )
            for result in f(bad, bad * (1 + 0j)):
                self.assertEqual(result.shape, (2, 2))
                self.assertTrue(np.isnan(result.real).all())
            with self.assertRaisesRegex(scipy.linalg.LinAlgError, "square"):
                f(np.ones((2, 3)), np.ones((2, 2)))

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(ValueError, "'raise' or 'nan', not 'ignore'"):
            Cholesky(on_error="ignore")
        with self.assertRaisesRegex(TypeError, "must be a matrix"):
            cholesky(tensor.vector())

    def test_destructive(self):
        x = tensor.dmatrix()
        value = positive(self.rng, "float64", 6)
        for lower in (True, False):
            expected = scipy.linalg.cholesky(value, lower=lower)
            op = Cholesky(lower, destructive=True)
            self.assertEqual(pickle.loads(pickle.dumps(op)).destroy_map, {0: [0]})
            for mode in modes():
                f = theano_ng.function(
                    [theano_ng.In(x, mutable=True, borrow=True)],
                    theano_ng.Out(op(x), borrow=True),
                    mode=mode,
                    accept_inplace=True,
                )
                for layout in ("C", "fortran", "strided", "reversed"):
                    given = LAYOUTS[layout](value.copy())
                    result = f(given)
                    np.testing.assert_allclose(result, expected, atol=1e-12)
                    if layout in ("C", "fortran"):
                        self.assertTrue(np.shares_memory(result, given))
                f = theano_ng.function(
                    [theano_ng.In(x, mutable=True)], Cholesky(lower, "nan", True)(x), mode=mode, accept_inplace=True
                )
                self.assertTrue(np.isnan(f(-value)).all())
        # An array is not read after it is overwritten.
        f = theano_ng.function([x], [Cholesky(destructive=True)(x + 1), x + 1], accept_inplace=True)
        np.testing.assert_allclose(f(value - 1)[1], value)

    def test_derivatives(self):
        for lower in (True, False):
            for on_error in ("raise", "nan"):
                self.derivatives(Cholesky(lower, on_error), positive(self.rng, "float64", 4))
            self.by_parts(Cholesky(lower), positive(self.rng, "complex128", 3))

    @theano_ng.change_flags({"DebugMode.check_finite": False})
    def test_gradient_where_the_factor_is_nan(self):
        x = tensor.dmatrix()
        factor = Cholesky(on_error="nan")(x)
        f = theano_ng.function([x], [theano_ng.grad(factor.sum(), x), theano_ng.gradient.Rop(factor, x, x)])
        for result in f(-np.eye(3)):
            self.assertTrue(np.isnan(result).all())
        for result in f(np.eye(3)):
            self.assertTrue(np.isfinite(result).all())

    def test_numeric_gradient(self):
        x, factor, dz = tensor.dmatrices("x", "l", "dz")
        value, weight = positive(self.rng, "float64", 5), self.rng.randn(5, 5)
        for lower in (True, False):
            op = CholeskyGrad(lower)
            f = theano_ng.function(
                [x, dz], [op(x, Cholesky(lower)(x), dz), theano_ng.gradient.Lop(Cholesky(lower)(x), x, dz)]
            )
            np.testing.assert_allclose(*f(value, weight), atol=1e-12)
            utt.verify_grad(
                lambda *v: op(value, *v), [scipy.linalg.cholesky(value, lower=lower), weight], n_tests=1, rng=self.rng
            )
            f = theano_ng.function([x, factor, dz], op(x, factor, dz))
            self.assertEqual(f(*[np.empty((0, 0))] * 3).shape, (0, 0))
            with self.assertRaisesRegex(ValueError, r"\(5, 5\), \(4, 4\) and \(5, 5\)"):
                f(value, value[:4, :4], weight)
        with self.assertRaisesRegex(TypeError, "three real matrices"):
            CholeskyGrad()(x, factor, tensor.vector())

    def test_printed(self):
        self.assertEqual(str(cholesky), "Cholesky{lower=True, destructive=False, on_error='raise'}")
        self.assertEqual(str(CholeskyGrad()), "CholeskyGrad{lower=True, destructive=False}")
        self.assertEqual(Cholesky(), cholesky)
        self.assertNotEqual(Cholesky(on_error="nan"), cholesky)


class TestSolve(Checked):
    STRUCTURES = ("general", "symmetric", "lower_triangular", "upper_triangular")
    ops = {
        (structure, lower): Compared(Solve(structure, lower), None)
        for structure in STRUCTURES
        for lower in (True, False)
    }

    def matrix(self, rng, dtype, n, structure, lower, definite):
        """Return the full matrix, and the array that is passed to the Op.

        The array has NaN in the triangle that the Op does not read.
        """
        a = (numbers(rng, dtype, n, n) + (4 + n) * np.eye(n)).astype(dtype)
        if structure == "symmetric":
            a = a + a.T
            if not definite:
                a[np.arange(0, n, 2)] *= -1
                a = np.tril(a) + np.tril(a, -1).T
            return a, a
        if structure == "general":
            return a, a
        lower = structure == "lower_triangular"
        return np.tril(a) if lower else np.triu(a), without(a, lower)

    @generated(
        *DRAWN,
        st.sampled_from(STRUCTURES),
        st.booleans(),
        st.booleans(),
        st.sampled_from((None, 0, 1, 3, 9, 40)),
        st.sampled_from(tuple(LAYOUTS)),
        examples=150,
    )
    def test_values(self, dtype, n, layout, seed, structure, lower, definite, k, other):
        rng = np.random.RandomState(seed)
        a, given = self.matrix(rng, dtype, n, structure, lower, definite)
        b = numbers(rng, dtype, n) if k is None else numbers(rng, dtype, n, k)
        compared = Compared(
            Solve(structure, lower), lambda *values: np.linalg.solve(a, b), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )
        compared._compiled = self.ops[structure, lower]._compiled
        compared.check(LAYOUTS[layout](given), LAYOUTS[other](b))

    def test_repeated_elements_of_b(self):
        a = positive(self.rng, "float64", 6)
        A, b, v = tensor.dmatrix(), tensor.dmatrix(), tensor.dvector()
        for op in (solve, solve_symmetric, solve_lower_triangular):
            reference = np.tril(a) if op is solve_lower_triangular else a
            for mode in modes():
                f = theano_ng.function([A, b, v], [op(A, b), op(A, v)], mode=mode)
                given = np.broadcast_to(np.arange(6.0)[:, None], (6, 5)), np.broadcast_to(2.0, (6,))
                for found, right in zip(f(a, *given), given):
                    np.testing.assert_allclose(found, np.linalg.solve(reference, right))

    def test_dtypes(self):
        for a, b, expected in (
            ("int64", "int8", "float64"),
            ("float32", "int8", "float32"),
            ("float32", "float64", "float64"),
            ("complex64", "float32", "complex64"),
            ("int32", "complex64", "complex128"),
            ("bool", "bool", "float64"),
            ("float16", "float16", "float32"),
            ("uint8", "float16", "float32"),
            ("float16", "int64", "float64"),
        ):
            A, v = tensor.TensorType(a, (False, False))(), tensor.TensorType(b, (False,))()
            out = solve(A, v)
            self.assertEqual(out.dtype, expected)
            result = theano_ng.function([A, v], out)(np.eye(3).astype(a), np.ones(3).astype(b))
            self.assertEqual(result.dtype, expected)
            np.testing.assert_allclose(result, np.ones(3))
        half = tensor.matrix(dtype="float16")
        for op in (cholesky, expm, lambda x: eigvalsh(x, None)):
            self.assertEqual(theano_ng.function([half], op(half))(np.eye(2, dtype="float16")).dtype, "float32")

    def test_types(self):
        self.assertEqual(solve(tensor.dmatrix(), tensor.dcol()).broadcastable, (False, True))
        self.assertEqual(solve_symmetric(tensor.dmatrix(), tensor.drow()).broadcastable, (True, False))
        with self.assertRaisesRegex(TypeError, "a vector or a matrix"):
            solve(tensor.dmatrix(), tensor.dtensor3())
        with self.assertRaisesRegex(TypeError, "A must be a matrix"):
            solve(tensor.dvector(), tensor.dvector())
        with self.assertRaisesRegex(ValueError, "A_structure must be one of general, symmetric, .*, not 'sparse'"):
            Solve("sparse")

    def test_singular(self):
        A, b = tensor.dmatrix(), tensor.dmatrix()
        singular = np.array([[1.0, 2], [2, 4]])
        for structure in self.STRUCTURES:
            for mode in modes():
                f = theano_ng.function([A, b], Solve(structure)(A, b), mode=mode)
                for value in (
                    np.zeros((2, 2)),
                    singular if structure in ("general", "symmetric") else np.diag([1.0, 0]),
                ):
                    for k in (1, 2, 70):
                        with self.assertRaises(np.linalg.LinAlgError):
                            f(value, np.ones((2, k)))
                np.testing.assert_allclose(f(np.eye(2), np.ones((2, 2))), np.ones((2, 2)))

    def test_shapes(self):
        A, b = tensor.dmatrix(), tensor.dvector()
        for op in (solve, solve_symmetric, solve_lower_triangular):
            for mode in modes():
                f = theano_ng.function([A, b], op(A, b), mode=mode)
                with self.assertRaisesRegex(ValueError, r"A has 3 rows, but b has 2"):
                    f(np.eye(3), np.ones(2))
                with self.assertRaisesRegex(np.linalg.LinAlgError, r"square matrix, but its shape is \(3, 2\)"):
                    f(np.ones((3, 2)), np.ones(3))

    def test_nonfinite(self):
        A, b = tensor.dmatrix(), tensor.dvector()
        for structure in self.STRUCTURES:
            for mode in modes():
                f = theano_ng.function([A, b], Solve(structure)(A, b), mode=mode)
                self.assertTrue(np.isnan(f(np.full((3, 3), np.nan), np.ones(3))).all())
                self.assertTrue(np.isnan(f(np.eye(3), np.array([np.nan, 1, np.inf]))[0]))

    def test_overwriting(self):
        A = tensor.dmatrix()
        a = positive(self.rng, "float64", 6)
        for b, right in ((tensor.dvector(), self.rng.randn(6)), (tensor.dmatrix(), self.rng.randn(6, 5))):
            for structure in self.STRUCTURES:
                reference = {"lower_triangular": np.tril, "upper_triangular": np.triu}.get(structure, np.array)(a)
                for overwrite_A, overwrite_b in ((True, True), (True, False), (False, True)):
                    op = Solve(structure, False, overwrite_A, overwrite_b)
                    self.assertEqual(op.destroy_map, {0: [0] * overwrite_A + [1] * overwrite_b})
                    for mode in modes():
                        f = theano_ng.function(
                            [theano_ng.In(v, mutable=True, borrow=True) for v in (A, b)],
                            theano_ng.Out(op(A, b), borrow=True),
                            mode=mode,
                            accept_inplace=True,
                        )
                        for layout in ("C", "fortran", "reversed"):
                            given_a, given_b = LAYOUTS[layout](a.copy()), LAYOUTS[layout](right.copy())
                            result = f(given_a, given_b)
                            np.testing.assert_allclose(result, np.linalg.solve(reference, right))
                            if overwrite_b and layout == "C":
                                self.assertTrue(np.shares_memory(result, given_b))
                            if not overwrite_A:
                                np.testing.assert_array_equal(given_a, a)
                            if not overwrite_b:
                                np.testing.assert_array_equal(given_b, right)
        self.assertFalse(hasattr(solve, "destroy_map"))
        # An array is not read after it is overwritten.
        x, y = tensor.dmatrix(), tensor.dmatrix()
        f = theano_ng.function(
            [x, y], [Solve("general", False, True, True)(x + 1, y + 1), x + 1, y + 1], accept_inplace=True
        )
        found = f(a - 1, right - 1)
        for got, expected in zip(found, (np.linalg.solve(a, right), a, right)):
            np.testing.assert_allclose(got, expected)

    def test_derivatives(self):
        for structure in self.STRUCTURES:
            a = self.rng.randn(4, 4) + 4 * np.eye(4)
            for b in (self.rng.randn(4), self.rng.randn(4, 3)):
                self.derivatives(Solve(structure), a, b)
                imaginary = self.rng.randn(*b.shape)
                self.by_parts(Solve(structure), a + 1j * self.rng.randn(4, 4), b + 1j * imaginary)
        # Even if an Op overwrites its inputs, the nodes of its derivatives overwrite nothing.
        overwriting = Solve("general", False, True, True)
        A, b = tensor.dmatrix(), tensor.dvector()
        x = overwriting(A, b)
        for out in (*theano_ng.grad(x.sum(), [A, b]), theano_ng.gradient.Rop(x, [A, b], [A, b])):
            for node in theano_ng.gof.graph.io_toposort([A, b], [out]):
                self.assertTrue(node is x.owner or not getattr(node.op, "destroy_map", None), node)

    def test_symmetric(self):
        """The solver for symmetric matrices uses all elements of the matrix, as in Theano 1.0.5.

        All elements have gradients.
        """
        A, b = tensor.dmatrix(), tensor.dvector()
        symmetric, right = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]), np.array([1.0, 2.0, 3.0])
        weights = np.array([1.0, -2.0, 0.5])
        indefinite, other = symmetric * [[1, 1, 1], [1, -1, 1], [1, 1, 1]], symmetric + np.triu(np.ones((3, 3)), 1)
        for op in (solve_symmetric, Solve("symmetric", lower=True), solve):
            for mode in modes():
                x = op(A, b)
                f = theano_ng.function([A, b], [x, *theano_ng.grad((x * weights).sum(), [A, b])], mode=mode)
                for matrix in (symmetric, indefinite, other, other.T):
                    for layout in ("C", "fortran"):
                        found, by_matrix, by_vector = f(LAYOUTS[layout](matrix), right)
                        expected = np.linalg.solve(matrix.T, weights)
                        np.testing.assert_allclose(found, np.linalg.solve(matrix, right))
                        np.testing.assert_allclose(by_vector, expected)
                        np.testing.assert_allclose(by_matrix, -np.outer(expected, found))
        # Test diagonal matrices, because their factors are symmetric, too. One function solves all systems.
        f = theano_ng.function([A, b], solve_symmetric(A, b))
        for n in (1, 2, 7, 40, 90):
            for k in range(1, 6):
                diagonal = (np.arange(n) + 2.0) ** k
                np.testing.assert_allclose(f(np.diag(diagonal), np.ones(n)), 1 / diagonal, rtol=1e-14)
        # The matrix has several tiles. An element that breaks the symmetry must be found in any tile.
        large = positive(self.rng, "float64", 40)
        f = theano_ng.function([A, b], solve_symmetric(A, b))
        for place in ((39, 0), (0, 39), (17, 15), (31, 33)):
            changed = large.copy()
            changed[place] += 1
            np.testing.assert_allclose(f(changed, np.ones(40)), np.linalg.solve(changed, np.ones(40)))

    def test_printed(self):
        self.assertEqual(repr(solve), "Solve{('general', False, False, False)}")
        self.assertEqual(repr(solve_symmetric), "Solve{('symmetric', False, False, False)}")
        self.assertEqual(repr(solve_lower_triangular), "Solve{('lower_triangular', True, False, False)}")
        self.assertEqual(
            str(solve_upper_triangular),
            "Solve{A_structure='upper_triangular', lower=False, overwrite_A=False, overwrite_b=False}",
        )

    def test_fast_run_and_debug_mode(self):
        A, b = tensor.dmatrix(), tensor.dmatrix()
        a, right = positive(self.rng, "float64", 5), self.rng.randn(5, 3)
        out = [
            cholesky(A),
            solve(cholesky(A), b),
            solve_symmetric(A, b),
            theano_ng.grad(solve(A, b).sum(), A),
            eigvalsh(A, None),
            expm(A / 9),
        ]
        factor = np.linalg.cholesky(a)
        weights = np.linalg.solve(a.T, np.ones_like(right))
        expected = [
            factor,
            np.linalg.solve(factor, right),
            np.linalg.solve(a, right),
            -weights.dot(np.linalg.solve(a, right).T),
            np.linalg.eigvalsh(a),
            scipy.linalg.expm(a / 9),
        ]
        for mode in ("FAST_RUN", "DebugMode"):
            for got, want in zip(theano_ng.function([A, b], out, mode=mode)(a, right), expected):
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


class TestEigvalsh(Checked):
    one = {lower: Compared(lambda a, lower=lower: eigvalsh(a, None, lower), None) for lower in (True, False)}
    two = {lower: Compared(lambda a, b, lower=lower: eigvalsh(a, b, lower), None) for lower in (True, False)}

    @generated(*DRAWN, st.booleans(), st.booleans(), st.sampled_from(tuple(LAYOUTS)), examples=60)
    def test_values(self, dtype, n, layout, seed, lower, pair, other):
        rng = np.random.RandomState(seed)
        a, b = numbers(rng, dtype, n, n), positive(rng, dtype, n)
        a = a + a.conj().T
        made = self.two[lower] if pair else self.one[lower]
        real = np.empty(0, dtype).real.dtype

        def reference(*given):
            return (scipy.linalg.eigvalsh(a, b if pair else None) if n else np.empty(0)).astype(real)

        compared = Compared(made.build, reference, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 10)
        compared._compiled = made._compiled
        compared.check(*[LAYOUTS[where](without(m, lower)) for where, m in ((layout, a), (other, b))[: 1 + pair]])

    def test_errors(self):
        a, b = tensor.dmatrices(2)
        for mode in modes():
            f = theano_ng.function([a, b], eigvalsh(a, b), mode=mode)
            for values in (
                (np.eye(2), -np.eye(2)),
                (np.eye(2), np.eye(3)),
                (np.ones((2, 3)), np.eye(2)),
                (np.eye(2), np.ones((2, 3))),
            ):
                with self.assertRaises(np.linalg.LinAlgError):
                    f(*values)
            np.testing.assert_allclose(f(np.diag([3.0, 8]), np.diag([3.0, 4])), [1, 2])
        with self.assertRaisesRegex(TypeError, "must be matrices"):
            eigvalsh(a, tensor.dvector())
        with self.assertRaisesRegex(ValueError, "lower must be True or False"):
            Eigvalsh("L")
        out = EigvalshGrad()(a, None, tensor.diag(b))
        self.assertEqual(len(out.owner.op.make_node(*out.owner.inputs).outputs), 1)
        g = theano_ng.function([a, b], out)
        with self.assertRaisesRegex(ValueError, "length 3, but there are 2"):
            g(np.eye(2), np.eye(3))

    def test_derivatives(self):
        for lower in (True, False):
            a, b = positive(self.rng, "float64", 3), positive(self.rng, "float64", 3)
            self.derivatives(lambda a: eigvalsh(a, None, lower), a)
            self.derivatives(lambda a, b: eigvalsh(a, b, lower), a - np.eye(3), b)
            c, d = positive(self.rng, "complex128", 3), positive(self.rng, "complex128", 3)
            self.by_parts(lambda a: eigvalsh(a, None, lower), c)
            self.by_parts(lambda a, b: eigvalsh(a, b, lower), c, d)

    def test_equal_eigenvalues(self):
        a = tensor.dmatrix()
        f = theano_ng.function([a], theano_ng.grad((eigvalsh(a, None) ** 2).sum(), a))
        np.testing.assert_allclose(f(2 * np.eye(3)), 4 * np.eye(3))


class TestExpm(Checked):
    op = Compared(expm, None)

    @generated(*DRAWN, examples=25)
    def test_values(self, dtype, n, layout, seed):
        x = numbers(np.random.RandomState(seed), dtype, n, n) / max(n, 1) ** 0.5
        compared = Compared(
            expm, lambda given: scipy.linalg.expm(x) if n else x, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )
        compared._compiled = self.op._compiled
        compared.check(LAYOUTS[layout](x))

    def test_special(self):
        x = tensor.dmatrix()
        f = theano_ng.function([x], expm(x))
        np.testing.assert_allclose(f(np.zeros((2, 2))), np.eye(2))
        np.testing.assert_allclose(f(np.diag([1.0, 30])), np.diag(np.exp([1, 30])))
        np.testing.assert_allclose(f(np.eye(3, k=1)), [[1, 1, 0.5], [0, 1, 1], [0, 0, 1]])
        with self.assertRaisesRegex(ValueError, "square"):
            f(np.ones((2, 3)))
        self.assertEqual(expm(tensor.imatrix()).dtype, "float64")
        with self.assertRaisesRegex(TypeError, "must be a matrix"):
            expm(tensor.vector())

    def test_derivatives(self):
        defective = 0.5 * np.eye(3) + np.eye(3, k=1)
        for value in (self.rng.randn(3, 3), defective, np.zeros((2, 2))):
            self.derivatives(expm, value)
        self.by_parts(expm, numbers(self.rng, "complex128", 3, 3))
        Compared(ExpmGrad(), None).check_gradient(defective, self.rng.randn(3, 3))
        x = tensor.dmatrix()
        f = theano_ng.function([x], theano_ng.grad(expm(x).sum(), x))
        np.testing.assert_allclose(
            f(defective), scipy.linalg.expm_frechet(defective.T, np.ones((3, 3)), compute_expm=False)
        )
        self.assertEqual(f(np.empty((0, 0))).shape, (0, 0))
        g = theano_ng.function([x], ExpmGrad()(x, x[1:]))
        with self.assertRaisesRegex(
            ValueError, r"\(2, 2\), but the gradient with respect to its exponential has shape \(1, 2\)"
        ):
            g(np.eye(2))
        self.assertEqual(Expm(), expm)


class TestKron(Checked):
    @staticmethod
    def reference(a, b):
        """Return the Kronecker product, computed by the formula in the documentation of scipy.linalg.kron."""
        product = np.multiply.outer(a, b)
        if product.ndim == 3:
            product = product[None] if a.ndim == 1 else product.reshape((1,) + product.shape)
        return np.concatenate(np.concatenate(product, axis=1), axis=1).reshape(
            [-1] if a.ndim + b.ndim == 3 else np.concatenate(np.concatenate(product, axis=1), axis=1).shape
        )

    @generated(
        arrays(("float32", "complex128", "int16"), ndim=(1, 4), sides=(1, 3)),
        arrays("float64", ndim=(1, 4), sides=(1, 3)),
        examples=50,
    )
    def test_values(self, a, b):
        compared = Compared(kron, self.reference, rtol=1e-6)
        if a.ndim + b.ndim > 2:
            compared.check(a, b)

    def test_of_matrices_is_as_in_numpy(self):
        a, b = tensor.fmatrices(2)
        out = kron(a, b)
        self.assertEqual((out.ndim, out.dtype), (2, "float32"))
        f = theano_ng.function([a, b], out)
        x, y = self.rng.randn(2, 3).astype("float32"), self.rng.randn(4, 5).astype("float32")
        np.testing.assert_allclose(f(x, y), np.kron(x, y), rtol=1e-6)
        for empty in (np.empty((0, 3), "float32"), np.empty((2, 0), "float32")):
            self.assertEqual(f(empty, y).shape, np.kron(empty, y).shape)

    def test_vectors_are_refused(self):
        with self.assertRaisesRegex(TypeError, "inputs dimensions must sum to 3 or more. You passed 1 and 1"):
            kron(tensor.vector(), tensor.vector())

    def test_derivatives(self):
        for shapes in (((2, 3), (3, 2)), ((2,), (2, 3)), ((2, 2), (3,)), ((2, 2, 2), (2,))):
            Compared(kron, None).check_gradient(*[self.rng.randn(*shape) for shape in shapes])


class TestModule(unittest.TestCase):
    def test_scipy_is_there(self):
        self.assertIs(slinalg.imported_scipy, True)

    def test_ops_survive_pickling(self):
        for op in (
            cholesky,
            Cholesky(False, "nan"),
            CholeskyGrad(False),
            solve_lower_triangular,
            Solve("general", False, True, True),
            Eigvalsh(False),
            EigvalshGrad(),
            expm,
            ExpmGrad(),
        ):
            copy = pickle.loads(pickle.dumps(op))
            self.assertEqual(copy, op)
            self.assertEqual(getattr(copy, "destroy_map", None), getattr(op, "destroy_map", None))

    def test_sizes_beyond_lapack(self):
        # The sizes are refused before anything is copied, so the test needs no memory.
        b = np.lib.stride_tricks.as_strided(np.zeros(1), (1, 2**31), (0, 0), writeable=False)
        A, B = tensor.dmatrices(2)
        with self.assertRaisesRegex(ValueError, "2147483648 right-hand sides"):
            theano_ng.function([A, B], solve(A, B), mode=Mode("cvm", None))(np.eye(1), b)


if __name__ == "__main__":
    unittest.main()
