"""Tests of linear algebra on a CUDA device (`fake_cuda`)."""

import gc
import itertools
import pickle
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import get_mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import cuda_libraries, linalg
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.linalg import (
    GpuCholesky,
    GpuCublasTriangularSolve,
    GpuCusolverSolve,
    GpuMagmaCholesky,
    GpuMagmaEigh,
    GpuMagmaMatrixInverse,
    GpuMagmaQR,
    GpuMagmaSVD,
    gpu_cholesky,
    gpu_matrix_inverse,
    gpu_qr,
    gpu_solve,
    gpu_solve_lower_triangular,
    gpu_solve_upper_triangular,
    gpu_svd,
)
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests import fake_cuda, kernel_families
from theano_ng.gpuarray.tests.device import LAYOUTS, allow_nan, context, gpu_context, gpu_variable, placed
from theano_ng.gpuarray.tests.fake_cuda import CudaTest
from theano_ng.gpuarray.transfers import GpuFromHost, host_from_gpu
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.linalg.solving import Cholesky, Solve
from theano_ng.tensor.nlinalg import QRFull, eigh, matrix_inverse, qr, svd
from theano_ng.tests import unittest_tools

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
# The mode of tests of error messages and memory: in DebugMode, `perform` runs first.
FAST = get_mode("FAST_RUN")


def symmetric(a, UPLO):
    """Return the symmetric matrix with this triangle."""
    half = np.tril(a) if UPLO == "L" else np.triu(a)
    return half + half.T - np.diag(np.diag(a))


class LinalgTest(CudaTest):
    def matrix(self, dtype, m, n=None, regular=False):
        """Return a random matrix. `regular`: its diagonal is large."""
        a = self.rng.normal(size=(m, m if n is None else n))
        return (a + 3 * m * np.eye(m) if regular else a).astype(dtype)

    def positive(self, dtype, n):
        a = self.rng.normal(size=(n, n))
        return (a @ a.T + n * np.eye(n)).astype(dtype)

    def variable(self, dtype, ndim=2):
        return gpu_variable(dtype, ndim, self.name)

    def placed(self, value, layout="C"):
        return placed(value, layout, self.name)

    def close(self, found, expected, dtype):
        found = np.asarray(found)
        self.assertEqual((found.shape, found.dtype), (expected.shape, dtype))
        np.testing.assert_allclose(found, expected, TOLERANCE[dtype], TOLERANCE[dtype])


class TestSolve(LinalgTest):
    def test_results(self):
        """All structures, transpositions, shapes and layouts. Triangles that are not read contain NaN."""
        allow_nan(self)
        for dtype, trans in itertools.product(TOLERANCE, "NTC"):
            A = self.variable(dtype)
            for structure, ndim in itertools.product(linalg.MATRIX_STRUCTURES_SOLVE, (1, 2)):
                b = self.variable(dtype, ndim)
                f = theano.function([A, b], gpu_solve(A, b, structure, trans))
                for n, k in ((1, 1), (1, 3), (4, 1), (5, 3), (6, 9)):
                    a = self.positive(dtype, n) if structure == "symmetric" else self.matrix(dtype, n, regular=True)
                    given = a.copy()
                    if structure.endswith("triangular"):
                        lower = structure == "lower_triangular"
                        a = np.tril(a) if lower else np.triu(a)
                        given[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan
                    right = self.matrix(dtype, n, k)
                    right = right if ndim == 2 else right[:, 0]
                    expected = np.linalg.solve(a if trans == "N" else a.T, right)
                    for layout, other in itertools.product(LAYOUTS, LAYOUTS if n == 5 else "C"):
                        with self.subTest(dtype=dtype, structure=structure, n=n, k=k, layout=layout, other=other):
                            found = f(self.placed(given, layout), self.placed(right, other))
                            self.close(found, expected, dtype)

    def test_parts_of_larger_matrices(self):
        """Rows and columns that are apart in memory are read in place by triangular systems, and copied by others."""
        A, b = self.variable("float64"), self.variable("float64")
        f = theano.function(
            [A, b], [gpu_solve(A, b), gpu_solve_lower_triangular(A, b), gpu_solve_upper_triangular(A, b, "T")]
        )
        large, right = self.matrix("float64", 9, regular=True), self.matrix("float64", 9, 7)
        for turned, other in itertools.product((False, True), repeat=2):
            a, b = [self.placed(v.T.copy()).T if t else self.placed(v) for v, t in ((large, turned), (right, other))]
            part, rest = large[2:7, 2:7], right[1:6, 3:6]
            found = f(a[2:7, 2:7], b[1:6, 3:6])
            for result, matrix in zip(found, (part, np.tril(part), np.triu(part).T)):
                self.close(result, np.linalg.solve(matrix, rest), "float64")

    def test_declared_symmetric(self):
        """A matrix that is declared symmetric may be indefinite, or not symmetric at all: all elements are then used."""
        A, b = self.variable("float64"), self.variable("float64", 1)
        f = theano.function([A, b], GpuCusolverSolve("symmetric")(A, b))
        turned = theano.function([A, b], GpuCusolverSolve("symmetric", "T")(A, b))
        definite = self.positive("float64", 6)
        upper, lower = definite.copy(), definite.copy()
        upper[1, 4] += 1
        lower[4, 1] += 1
        right = self.matrix("float64", 6, 1)[:, 0]
        for a in (
            definite,
            definite - 20 * np.eye(6),
            upper,
            lower,
            -definite,
            definite * [[0.0]] * 3 + np.eye(6)[::-1],
        ):
            for layout in ("C", "F"):
                self.close(f(self.placed(a, layout), self.placed(right)), np.linalg.solve(a, right), "float64")
                self.close(turned(self.placed(a, layout), self.placed(right)), np.linalg.solve(a.T, right), "float64")

    def test_no_elements(self):
        A, b = self.variable("float32"), self.variable("float32")
        for structure in linalg.MATRIX_STRUCTURES_SOLVE:
            f = theano.function([A, b], gpu_solve(A, b, structure))
            for n, k in ((0, 0), (0, 3), (4, 0)):
                found = f(self.placed(self.matrix("float32", n, regular=True)), self.placed(np.ones((n, k), "float32")))
                self.assertEqual(np.asarray(found).shape, (n, k))

    def test_singular(self):
        """Exactly singular matrices raise the error of the host, and the function works afterwards."""
        A, b = self.variable("float64"), self.variable("float64", 1)
        right = self.placed(np.ones(3))
        host = T.dmatrix()
        for structure in linalg.MATRIX_STRUCTURES_SOLVE:
            f = theano.function([A, b], gpu_solve(A, b, structure), mode=FAST)
            g = theano.function([host], Solve(structure)(host, np.ones(3)), mode=FAST)
            a = np.diag([2.0, 0, 3])
            messages = []
            for call in (lambda: g(a), lambda: f(self.placed(a), right)):
                with self.assertRaisesRegex(np.linalg.LinAlgError, "^Singular matrix: ") as caught:
                    call()
                messages.append(str(caught.exception).splitlines()[0])
            self.assertEqual(*messages)
            self.close(f(self.placed(a + np.eye(3)), right), 1 / np.array([3.0, 1, 4]), "float64")
        f = theano.function([A, b], gpu_solve(A, b), mode=FAST)
        with self.assertRaisesRegex(np.linalg.LinAlgError, "Apply node.*GpuCusolverSolve"):
            f(self.placed(np.ones((3, 3))), right)

    def test_shapes_that_do_not_fit(self):
        host = T.dmatrix(), T.dmatrix()
        A, b = self.variable("float64"), self.variable("float64")
        for structure in linalg.MATRIX_STRUCTURES_SOLVE:
            f, g = (
                theano.function([A, b], gpu_solve(A, b, structure), mode=FAST),
                theano.function([*host], Solve(structure)(*host), mode=FAST),
            )
            for shapes in (((3, 2), (3, 1)), ((3, 3), (2, 1))):
                values = [np.ones(shape) for shape in shapes]
                with self.assertRaises(ValueError) as expected:  # LinAlgError is a ValueError
                    g(*values)
                with self.assertRaises(type(expected.exception)) as caught:
                    f(*[self.placed(v) for v in values])
                first = [str(error.exception).splitlines()[0] for error in (expected, caught)]
                self.assertEqual(*first)

    def test_arguments(self):
        A, b = self.variable("float64"), self.variable("float64")
        for make in (
            lambda: GpuCusolverSolve("triangular"),
            lambda: GpuCusolverSolve("lower_triangular"),
            lambda: GpuCusolverSolve(trans="H"),
            lambda: GpuCublasTriangularSolve(trans="n"),
            lambda: gpu_solve(A, b, "banded"),
        ):
            self.assertRaises(ValueError, make)
        for op in (GpuCusolverSolve(), GpuCublasTriangularSolve()):
            for args in ((A, self.variable("float64", 3)), (self.variable("float64", 1), b)):
                self.assertRaises(TypeError, op, *args)
            with self.assertRaisesRegex(TypeError, "float32 or float64, not complex64"):
                op(*[GpuArrayType("complex64", (False, False), self.name)()] * 2)
            self.assertEqual(pickle.loads(pickle.dumps(op)), op)

    def test_dtypes(self):
        """Inputs are converted as on the host: float16 to float32, integers to float64, and both to a common dtype."""
        for dtypes, dtype in (
            (("float32", "float64"), "float64"),
            (("float16", "float32"), "float32"),
            (("float16", "float16"), "float32"),
            (("int8", "int8"), "float64"),
        ):
            variables = [T.TensorType(name, (False, False))() for name in dtypes]
            sent = [GpuFromHost(self.name)(v) for v in variables]
            f = theano.function(variables, gpu_solve(*sent))
            a, b = (4 * np.eye(3)).astype(dtypes[0]), np.ones((3, 2), dtypes[1])
            self.close(f(a, b), np.full((3, 2), 0.25), dtype)

    def test_inplace(self):
        """The LU factors overwrite the matrix where the library can read it."""
        A, b = self.variable("float64"), self.variable("float64")
        f = theano.function(
            [theano.In(A, borrow=True, mutable=True), b],
            GpuCusolverSolve(inplace=True)(A, b),
            accept_inplace=True,
            mode=FAST,
        )
        right = self.matrix("float64", 4, 2)
        for layout in LAYOUTS:
            a = self.matrix("float64", 4, regular=True)
            there = self.placed(a, layout)
            self.close(f(there, self.placed(right)), np.linalg.solve(a, right), "float64")
            self.assertEqual(np.array_equal(np.asarray(there), a), layout in ("strided", "reversed"))

    def test_gradients(self):
        """Gradients and R_op equal those of the host."""
        for structure, trans in itertools.product(linalg.MATRIX_STRUCTURES_SOLVE, "NT"):
            for ndim in (1, 2):
                a, b = self.positive("float64", 4), self.matrix("float64", 4, 3)
                b = b if ndim == 2 else b[:, 0]
                self.differentiable(lambda x, y: gpu_solve(x, y, structure, trans), [a, b])

    def differentiable(self, formula, values):
        """Check the gradient of a formula with inputs on the device by finite differences, and R_op by the gradient."""
        unittest_tools.verify_grad(
            lambda *inputs: host_from_gpu(formula(*[GpuFromHost(self.name)(v) for v in inputs])), values, rng=self.rng
        )
        host = [T.as_tensor_variable(v).type() for v in values]
        out = host_from_gpu(formula(*[GpuFromHost(self.name)(v) for v in host]))
        directions = [v.type() for v in host]
        weights = out.type()
        forward = (T.Rop(out, host, directions) * weights).sum()
        backward = sum((g * d).sum() for g, d in zip(T.Lop(out, host, weights), directions))
        f = theano.function([*host, *directions, weights], [forward, backward])
        shape = theano.function(host, out)(*values).shape
        one, other = f(*values, *[self.rng.normal(size=v.shape) for v in values], self.rng.normal(size=shape))
        np.testing.assert_allclose(one, other, rtol=1e-8)

    def test_shape(self):
        A, b = self.variable("float32"), self.variable("float32")
        f = theano.function([A, b], gpu_solve(A, b, "lower_triangular").shape)
        self.assertNotIn("TriangularSolve", str(f.maker.fgraph))
        np.testing.assert_array_equal(f(*[self.placed(np.ones(s, "float32")) for s in ((2, 2), (2, 5))]), [2, 5])

    def test_check_dev_info(self):
        op = GpuCusolverSolve()
        op.check_dev_info(np.zeros(1, "int32"))
        self.assertRaisesRegex(np.linalg.LinAlgError, "pivot 2", op.check_dev_info, np.array([2]))
        self.assertRaisesRegex(ValueError, "argument 4", op.check_dev_info, -4)


class TestDecompositions(LinalgTest):
    def function(self, op, dtype="float64", mode=None):
        x = self.variable(dtype)
        return theano.function([x], op(x), mode=mode)

    def test_cholesky(self):
        allow_nan(self)
        for dtype, lower, op in itertools.product(TOLERANCE, (True, False), (GpuCholesky, GpuMagmaCholesky)):
            f = self.function(op(lower), dtype)
            for n, layout in itertools.product((1, 2, 7), LAYOUTS):
                a = self.positive(dtype, n)
                expected = np.linalg.cholesky(a, upper=not lower)
                a[np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)] = np.nan  # this triangle is not read
                self.close(f(self.placed(a, layout)), expected, dtype)
            self.assertEqual(np.asarray(f(self.placed(np.ones((0, 0), dtype)))).shape, (0, 0))

    def test_cholesky_in_place(self):
        for lower in (True, False):
            x = self.variable("float64")
            f = theano.function(
                [theano.In(x, borrow=True, mutable=True)], GpuCholesky(lower, True)(x), accept_inplace=True, mode=FAST
            )
            for layout in LAYOUTS:
                a = self.positive("float64", 5)
                there = self.placed(a, layout)
                expected = np.linalg.cholesky(a, upper=not lower)
                self.close(f(there), expected, "float64")
                self.assertEqual(np.allclose(there, expected), layout in ("C", "F"))
            large = self.placed(self.positive("float64", 7))
            before = np.array(large)
            self.close(f(large[1:5, 1:5]), np.linalg.cholesky(before[1:5, 1:5], upper=not lower), "float64")
            after = np.array(large)
            before[1:5, 1:5] = after[1:5, 1:5]
            np.testing.assert_array_equal(after, before)

    def test_not_positive_definite(self):
        """The error is that of the host, also for NaN and for a minor that is zero."""
        allow_nan(self)
        host = T.dmatrix()
        g, f = theano.function([host], Cholesky()(host), mode=FAST), self.function(GpuCholesky(), mode=FAST)
        for diagonal in ([1.0, -2, 3], [1.0, 0, 3], [np.nan, 1, 1], [1.0, 2, np.nan], [-1.0, np.nan, 1]):
            a = np.diag(diagonal)
            messages = []
            for call in (lambda: g(a), lambda: f(self.placed(a))):
                with self.assertRaisesRegex(
                    np.linalg.LinAlgError, "^Matrix is not positive definite: of the 3 "
                ) as caught:
                    call()
                messages.append(str(caught.exception).splitlines()[0])
            self.assertEqual(*messages)
        self.close(f(self.placed(np.eye(3))), np.eye(3), "float64")
        self.assertRaisesRegex(
            np.linalg.LinAlgError, r"square matrix, but its shape is \(2, 3\)", f, self.placed(np.ones((2, 3)))
        )

    def test_inverse(self):
        for dtype in TOLERANCE:
            f = self.function(GpuMagmaMatrixInverse(), dtype)
            for n, layout in itertools.product((0, 1, 2, 6), LAYOUTS):
                a = self.matrix(dtype, n, regular=True)
                self.close(f(self.placed(a, layout)), np.linalg.inv(a), dtype)
        f = self.function(GpuMagmaMatrixInverse(), mode=FAST)
        self.assertRaisesRegex(np.linalg.LinAlgError, "Singular matrix: pivot 2 of 2", f, self.placed(np.ones((2, 2))))
        self.assertRaisesRegex(np.linalg.LinAlgError, "square matrix", f, self.placed(np.ones((2, 3))))
        x = self.variable("float64")
        g = theano.function(
            [theano.In(x, borrow=True, mutable=True)], GpuMagmaMatrixInverse(True)(x), accept_inplace=True, mode=FAST
        )
        for layout in LAYOUTS:
            a = self.matrix("float64", 3, regular=True)
            self.close(g(self.placed(a, layout)), np.linalg.inv(a), "float64")

    SHAPES = ((1, 1), (4, 4), (5, 3), (3, 5), (1, 4), (4, 1), (0, 3), (3, 0), (0, 0))

    def test_qr(self):
        for dtype in TOLERANCE:
            f, g = self.function(GpuMagmaQR(), dtype), self.function(GpuMagmaQR(False), dtype)
            for shape, layout in itertools.product(self.SHAPES, LAYOUTS):
                a = self.matrix(dtype, *shape)
                q, r = np.linalg.qr(a)
                found = f(self.placed(a, layout))
                self.close(found[0], q, dtype)
                self.close(found[1], r, dtype)
                self.close(g(self.placed(a, layout)), r, dtype)
                self.assertEqual(np.count_nonzero(np.tril(np.asarray(found[1]), -1)), 0)

    def test_svd(self):
        for dtype, full in itertools.product(TOLERANCE, (False, True)):
            f, g = self.function(GpuMagmaSVD(full), dtype), self.function(GpuMagmaSVD(full, False), dtype)
            for shape, layout in itertools.product(self.SHAPES, LAYOUTS):
                a, k = self.matrix(dtype, *shape), min(shape)
                expected = np.linalg.svd(a, full)
                u, s, vt = map(np.asarray, f(self.placed(a, layout)))
                self.close(s, expected[1], dtype)
                self.close(g(self.placed(a, layout)), expected[1], dtype)
                self.assertEqual((u.shape, vt.shape), (expected[0].shape, expected[2].shape))
                self.close(u[:, :k] * s @ vt[:k], a, dtype)
                self.close(u.T @ u, np.eye(u.shape[1]), dtype)
                self.close(vt @ vt.T, np.eye(vt.shape[0]), dtype)

    def test_eigh(self):
        for dtype, UPLO in itertools.product(TOLERANCE, "LU"):
            f, g = self.function(GpuMagmaEigh(UPLO), dtype), self.function(GpuMagmaEigh(UPLO, False), dtype)
            for n, layout in itertools.product((0, 1, 2, 6), LAYOUTS):
                a = self.matrix(dtype, n)
                w, v = map(np.asarray, f(self.placed(a, layout)))
                self.close(w, np.linalg.eigh(a, UPLO)[0], dtype)
                self.close(g(self.placed(a, layout)), np.linalg.eigh(a, UPLO)[0], dtype)
                self.close(symmetric(a, UPLO) @ v, v * w, dtype)
                self.close(v.T @ v, np.eye(n), dtype)
        self.assertRaisesRegex(np.linalg.LinAlgError, "square matrix", f, self.placed(np.ones((2, 3))))

    def test_no_convergence(self):
        """A library that reports no convergence, and one that returns NaN"""
        allow_nan(self)
        a = np.full((3, 3), np.nan)
        for ignores in (0, 1):
            if not fake_cuda.is_real:
                self.addCleanup(fake_cuda.fakes["cusolver"].fake_solver_reset)
                fake_cuda.solver_state().ignores_nan = ignores
            for op, message in (
                (GpuMagmaSVD(), "SVD"),
                (GpuMagmaSVD(True, False), "SVD"),
                (GpuMagmaEigh(), "Eigenvalues"),
            ):
                f = self.function(op)
                with self.assertRaisesRegex(np.linalg.LinAlgError, "^%s did not converge" % message):
                    f(self.placed(a))
                f(self.placed(np.eye(3)))

    def test_functions(self):
        """The documented functions, with inputs on the host."""
        host = T.dmatrix()
        host.tag.context_name = self.name
        a = self.positive("float64", 4)
        for made, expected in (
            (gpu_cholesky(host), [np.linalg.cholesky(a)]),
            (gpu_cholesky(host, lower=False), [np.linalg.cholesky(a).T]),
            (gpu_matrix_inverse(host), [np.linalg.inv(a)]),
            (gpu_qr(host), np.linalg.qr(a)),
            (gpu_qr(host, complete=False), [np.linalg.qr(a)[1]]),
            (gpu_svd(host)[1], [np.linalg.svd(a)[1]]),
            (gpu_svd(host, compute_uv=0), [np.linalg.svd(a)[1]]),
        ):
            made = made if isinstance(made, list) else [made]
            for found, right in zip(theano.function([host], made)(a), expected, strict=True):
                self.close(found, right, "float64")

    def test_gradients(self):
        """Gradients of all outputs, by finite differences"""
        square, wide = self.matrix("float64", 4), self.matrix("float64", 3, 5)
        lower = np.tril(np.ones((4, 4)))
        for formula, value in (
            (lambda x: GpuCholesky()(x), self.positive("float64", 4)),
            (lambda x: GpuMagmaCholesky(False)(x), self.positive("float64", 4)),
            (lambda x: GpuMagmaMatrixInverse()(x), square),
            (lambda x: GpuMagmaQR()(x)[0], square),
            (lambda x: GpuMagmaQR()(x)[1], wide),
            (lambda x: GpuMagmaQR(False)(x), wide),
            (lambda x: GpuMagmaSVD(False)(x)[1], wide),
            (lambda x: abs(host_from_gpu(GpuMagmaSVD(False)(x)[0])), wide),
            (lambda x: abs(host_from_gpu(GpuMagmaSVD(False)(x)[2])), wide),
            (lambda x: GpuMagmaSVD(True, False)(x), wide),
            (lambda x: GpuMagmaEigh()(x)[0], square * lower),
            (lambda x: abs(host_from_gpu(GpuMagmaEigh("U")(x)[1])), square * lower.T),
            (lambda x: GpuMagmaEigh("U", False)(x), square * lower.T),
        ):
            unittest_tools.verify_grad(
                lambda x: (
                    host_from_gpu(out) if hasattr((out := formula(GpuFromHost(self.name)(x))).type, "context") else out
                ),
                [value],
                rng=self.rng,
            )

    def test_directions(self):
        """R_op equals that of the host."""
        x, e = T.dmatrix(), T.dmatrix()
        values = self.positive("float64", 4), self.matrix("float64", 4)
        for op in (
            GpuCholesky(),
            GpuMagmaMatrixInverse(),
            GpuMagmaQR(),
            GpuMagmaQR(False),
            GpuMagmaSVD(False, False),
            GpuMagmaEigh(),
        ):
            on_device = op(GpuFromHost(self.name)(x), return_list=True)
            on_host = op.host_op(None)(x, return_list=True)
            for one, other in zip(on_device, on_host, strict=True):
                f = theano.function(
                    [x, e], [abs(T.Rop(v, x, e)) for v in (host_from_gpu(one), other)], on_unused_input="ignore"
                )
                found, expected = f(*values)
                np.testing.assert_allclose(found, expected, 1e-8, 1e-8)

    def test_shapes(self):
        x = self.variable("float32")
        value = self.placed(np.ones((3, 5), "float32"))
        for op in (GpuMagmaQR(), GpuMagmaQR(False), GpuMagmaSVD(), GpuMagmaSVD(False), GpuMagmaSVD(True, False)):
            outputs = op(x, return_list=True)
            f = theano.function([x], [v.shape for v in outputs])
            self.assertNotIn("GpuMagma", str(f.maker.fgraph))
            g = theano.function([x], outputs)
            self.assertEqual(
                [tuple(shape) for shape in f(value)],
                [np.asarray(v).shape for v in g(self.placed(self.matrix("float32", 3, 5)))],
            )
        for op in (GpuCholesky(), GpuMagmaMatrixInverse(), GpuMagmaEigh(), GpuMagmaEigh("U", False)):
            f = theano.function([x], [v.shape for v in op(x, return_list=True)])
            self.assertEqual(set(map(int, np.concatenate(f(self.placed(np.eye(4, dtype="float32")))))), {4})

    def test_arguments(self):
        for op in (
            GpuMagmaSVD(),
            GpuMagmaEigh(),
            GpuMagmaQR(),
            GpuMagmaMatrixInverse(),
            GpuMagmaCholesky(),
            GpuCholesky(),
        ):
            self.assertRaises(TypeError, op, self.variable("float32", 3))
            self.assertRaises(TypeError, op, GpuArrayType("complex64", (False, False), self.name)())
            self.assertEqual(pickle.loads(pickle.dumps(op)), op)
        self.assertRaisesRegex(ValueError, "UPLO", GpuMagmaEigh, "X")
        self.assertRaisesRegex(TypeError, "float16", GpuMagmaSVD(), self.variable("float16"))

    def test_generated(self):
        """Random shapes, orders, steps and offsets of the same matrix"""
        x, y = self.variable("float64"), self.variable("float64")
        f = theano.function([x], [*GpuMagmaQR()(x), GpuMagmaSVD(False, False)(x)])
        g = theano.function([x, y], [gpu_solve(x, y), gpu_solve_upper_triangular(x, y), GpuMagmaMatrixInverse()(x)])
        for _ in range(40):
            m, n, k = self.rng.integers(1, 9, 3)
            a, s, b = (
                self.matrix("float64", m, n),
                self.matrix("float64", m, regular=True),
                self.matrix("float64", m, k),
            )
            views = [self.view(v) for v in (a, s, b)]
            q, r, values = map(np.asarray, f(views[0]))
            for found, expected in zip((q, r, values), (*np.linalg.qr(a), np.linalg.svd(a, compute_uv=False))):
                self.close(found, expected, "float64")
            for found, expected in zip(
                g(*views[1:]), (np.linalg.solve(s, b), np.linalg.solve(np.triu(s), b), np.linalg.inv(s))
            ):
                self.close(found, expected, "float64")

    def test_overlapping_rows(self):
        """Rows and columns that share memory: strides of 0, and strides that are smaller than a row"""
        ctx = get_context(self.name)
        vector = self.placed(self.rng.uniform(1, 2, 16))
        x = self.variable("float64")
        f = theano.function(
            [x],
            [*GpuMagmaQR()(x), GpuMagmaSVD(True, False)(x), GpuMagmaEigh()(x)[0], gpu_solve(4 * np.eye(4), x)]
            + [gpu_solve_lower_triangular(x, x), gpu_solve_upper_triangular(x, x, "T")],
        )
        g = theano.function([x], GpuCusolverSolve("symmetric")(x, x), mode=FAST)
        for strides in ((0, 8), (8, 0), (16, 8), (8, 24), (8, 8)):
            a = pygpu.from_gpudata(vector.gpudata, 0, "float64", (4, 4), context=ctx, strides=strides, base=vector)
            value = np.asarray(a)
            q, r, *others = map(np.asarray, f(a))
            self.close(q @ r, value, "float64")
            self.close(q.T @ q, np.eye(4), "float64")
            expected = [np.linalg.svd(value, compute_uv=False), np.linalg.eigh(value)[0], value / 4]
            expected += [np.linalg.solve(np.tril(value), value), np.linalg.solve(np.triu(value).T, value)]
            for found, right in zip(others, expected, strict=True):
                self.close(found, right, "float64")
            if 0 in strides:
                self.assertRaisesRegex(np.linalg.LinAlgError, "Singular matrix: pivot 2 of 4", g, a)
            else:
                self.close(g(a), np.eye(4), "float64")

    def view(self, value):
        """Return a device array with this value: a view of a larger array with random order, steps and offsets."""
        steps = self.rng.choice([-2, -1, 1, 3], 2)
        turned = self.rng.integers(2)
        starts = self.rng.integers(0, 3, 2)
        lengths = [start + abs(step) * n for start, step, n in zip(starts, steps, value.shape)]
        index = tuple(
            slice(start, start + step * n, step) if step > 0 else slice(length - 1, start - 1 if start else None, step)
            for start, step, n, length in zip(starts, steps, value.shape, lengths)
        )
        large = np.zeros(lengths)
        part = large[index][: value.shape[0], : value.shape[1]]
        part[...] = value
        there = self.placed(large.T.copy()).T if turned else self.placed(large)
        result = there[index][: value.shape[0], : value.shape[1]]
        np.testing.assert_array_equal(result, value)
        return result


class TestRules(LinalgTest):
    def setUp(self):
        super().setUp()
        self.mode = get_mode("FAST_RUN").including("gpuarray")

    def ops(self, f):
        return [
            node.op
            for node in f.maker.fgraph.toposort()
            if "Gpu" in type(node.op).__name__ and not isinstance(node.op, GpuFromHost)
        ]

    def compiled(self, formula, *values, mode=None):
        """Compile a formula for inputs on the device; compare its value with that of the host."""
        inputs = [self.variable(v.dtype.name, v.ndim) for v in values]
        outputs = formula(*map(host_from_gpu, inputs))
        outputs = outputs if isinstance(outputs, list) else [outputs]
        f = theano.function(inputs, outputs, mode=mode or self.mode)
        hosts = [v.type.host_type()() for v in inputs]
        expected = formula(*hosts)
        g = theano.function(hosts, expected if isinstance(expected, list) else [expected], mode=get_mode("FAST_RUN"))
        for found, right in zip(f(*map(self.placed, values)), g(*values), strict=True):
            np.testing.assert_allclose(abs(found), abs(right), 1e-8, 1e-8)
        return f

    def test_solve(self):
        a, b = self.positive("float64", 4), self.matrix("float64", 4, 2)
        for structure, op in (
            ("general", GpuCusolverSolve()),
            ("symmetric", GpuCusolverSolve("symmetric")),
            ("hermitian", GpuCusolverSolve()),
            ("lower_triangular", GpuCublasTriangularSolve(True)),
            ("upper_triangular", GpuCublasTriangularSolve(False)),
        ):
            for value in (b, b[:, 0]):
                f = self.compiled(Solve(structure), a, value)
                self.assertIn(op, self.ops(f))

    def test_cholesky(self):
        a = self.positive("float64", 4)
        self.assertIn(GpuCholesky(False), self.ops(self.compiled(Cholesky(lower=False), a)))
        f = self.compiled(Cholesky(on_error="nan"), a)
        self.assertTrue(any(isinstance(node.op, Cholesky) for node in f.maker.fgraph.toposort()))
        with config.change_flags({"magma.enabled": True}):
            self.assertIn(GpuCholesky(), self.ops(self.compiled(Cholesky(), a)))
            f = self.compiled(Cholesky(), a, mode=self.mode.excluding("cusolver"))
            self.assertIn(GpuMagmaCholesky(), self.ops(f))

    def test_decompositions(self):
        """These rules need the flag magma.enabled."""
        a = self.positive("float64", 4)
        for formula, op in (
            (matrix_inverse, GpuMagmaMatrixInverse()),
            (svd, GpuMagmaSVD()),
            (lambda x: svd(x, 0), GpuMagmaSVD(False)),
            (lambda x: svd(x, compute_uv=False), GpuMagmaSVD(True, False)),
            (qr, GpuMagmaQR()),
            (lambda x: qr(x, "r"), GpuMagmaQR(False)),
            (eigh, GpuMagmaEigh()),
            (lambda x: eigh(x, "U"), GpuMagmaEigh("U")),
        ):
            self.assertNotIn(op, self.ops(self.compiled(formula, a)))
            with config.change_flags({"magma.enabled": True}):
                self.assertIn(op, self.ops(self.compiled(formula, a)))
                self.assertNotIn(op, self.ops(self.compiled(formula, a, mode=self.mode.excluding("magma"))))
        with config.change_flags({"magma.enabled": True}):
            f = self.compiled(lambda x: abs(QRFull("complete")(x)[0]), a)
            self.assertTrue(any(isinstance(node.op, QRFull) for node in f.maker.fgraph.toposort()))

    def test_inplace(self):
        """Matrices that only one node reads are overwritten."""
        a, b = self.positive("float64", 4), self.matrix("float64", 4)
        with config.change_flags({"magma.enabled": True}):
            for formula, op in (
                (lambda x, y: Solve()(x + 1, y), GpuCusolverSolve(inplace=True)),
                (lambda x, y: Cholesky()(x * 2) + y, GpuCholesky(inplace=True)),
                (lambda x, y: matrix_inverse(x * 3) + y, GpuMagmaMatrixInverse(inplace=True)),
            ):
                self.assertIn(op, self.ops(self.compiled(formula, a, b)))
                self.assertNotIn(op, self.ops(self.compiled(formula, a, b, mode=self.mode.excluding("inplace"))))
            mode = self.mode.excluding("cusolver")
            f = self.compiled(lambda x, y: Cholesky()(x * 2) + y, a, b, mode=mode)
            self.assertIn(GpuMagmaCholesky(inplace=True), self.ops(f))
        # An input of the function is not overwritten.
        self.assertIn(GpuCusolverSolve(), self.ops(self.compiled(Solve(), a, b)))

    def test_a_gradient_on_the_device(self):
        """The gradient of a log-likelihood runs on the device, up to the input and the result."""
        a, b = self.positive("float64", 4), self.matrix("float64", 4, 1)[:, 0]

        def cost(x, y):
            factor = Cholesky()(x)
            whitened = Solve("lower_triangular")(factor, y)
            return T.log(T.diag(factor)).sum() + (whitened**2).sum() / 2

        f = self.compiled(lambda x, y: T.grad(cost(x, y), [x, y]), a, b)
        self.assertFalse([n for n in f.maker.fgraph.toposort() if isinstance(n.op, (Cholesky, Solve))])

    def test_other_dtypes_stay_on_the_host(self):
        x, y = T.cmatrix(), T.cmatrix()
        f = theano.function([x, y], Solve()(x, y), mode=self.mode)
        self.assertEqual(self.ops(f), [])


class TestFailures(LinalgTest):
    """Failing calls of the libraries, and no memory. The function works afterwards."""

    # Op, number of inputs, functions of the library that fail
    CASES = (
        (GpuCusolverSolve(), 2, ("cusolverDnDgetrf", "cusolverDnDgetrs")),
        (GpuCusolverSolve("symmetric"), 2, ("cusolverDnDpotrf", "cusolverDnDpotrs")),
        (GpuCublasTriangularSolve(), 2, ("cublasDtrsm",)),
        (GpuCholesky(), 1, ("cusolverDnDpotrf_bufferSize", "cusolverDnDpotrf")),
        (GpuMagmaMatrixInverse(), 1, ("cusolverDnDgetrf", "cusolverDnDgetrs")),
        (GpuMagmaQR(), 1, ("cusolverDnDgeqrf", "cusolverDnDorgqr")),
        (GpuMagmaSVD(), 1, ("cusolverDnDgesvd",)),
        (GpuMagmaEigh(), 1, ("cusolverDnDsyevd",)),
    )

    def setUp(self):
        super().setUp()
        if fake_cuda.is_real:
            self.skipTest("lets calls of fake libraries fail")

    def functions(self):
        for op, count, calls in self.CASES:
            inputs = [self.variable("float64") for _ in range(count)]
            f = theano.function(inputs, op(*inputs, return_list=True), mode=FAST)
            a = self.positive("float64", 3)
            given = [self.placed(v) for v in (a, self.matrix("float64", 3))[:count]]
            yield op, f, given, [np.asarray(v) for v in f(*given)], calls

    def works(self, f, given, expected):
        for found, right in zip(f(*given), expected, strict=True):
            np.testing.assert_array_equal(found, right)

    def test_failing_calls(self):
        """The error names the call, the status, the shape and the node."""
        for op, f, given, expected, calls in self.functions():
            for call in calls:
                with self.subTest(op=op, call=call):
                    fake_cuda.fakes["cuda"].fake_fail(call.encode(), 13 if "cublas" in call else 6, 0)
                    said = (
                        r"%s: CU\w+_STATUS_EXECUTION_FAILED .*shape \(3, 3\)[^\n]* float64\s[\s\S]*Apply node.*%s"
                        % (call, type(op).__name__)
                    )
                    with self.assertRaisesRegex(RuntimeError, said):
                        f(*given)
                    self.works(f, given, expected)

    def test_no_memory(self):
        large = fake_cuda.solver_state().workspace
        for op, f, given, expected, _ in self.functions():
            with self.subTest(op=op):
                if isinstance(op, GpuCublasTriangularSolve):
                    continue  # see device/tests/test_libraries.py
                fake_cuda.solver_state().workspace = 1 << 28  # more than the memory of the device
                with self.assertRaisesRegex(MemoryError, r"[\s\S]*Apply node.*%s" % type(op).__name__):
                    f(*given)
                fake_cuda.solver_state().workspace = large
                self.works(f, given, expected)

    def test_wrong_arguments(self):
        """A routine may report that an argument is wrong."""
        self.addCleanup(fake_cuda.fakes["cusolver"].fake_solver_reset)
        for op, f, given, expected, _ in self.functions():
            if isinstance(op, (GpuCublasTriangularSolve, GpuMagmaQR)):
                continue
            fake_cuda.solver_state().wrong = -4
            with self.assertRaisesRegex(RuntimeError, "cuSOLVER refuses argument 4 of a routine"):
                f(*given)
            fake_cuda.solver_state().wrong = 0
            self.works(f, given, expected)

    def test_waits(self):
        """A node waits once, after its last call of a library, and QR does not wait."""
        for op, f, given, _, _ in self.functions():
            fake_cuda.calls()
            f(*given)
            calls = fake_cuda.calls()
            self.assertEqual(calls.count("cuMemcpyDtoHAsync"), 0 if isinstance(op, GpuMagmaQR) else 1, op)
            self.assertFalse([call for call in calls[:-2] if "Synchronize" in call], op)

    def test_kept_memory(self):
        """No memory of the device is lost, also not by errors."""
        blocks = []
        for _ in range(3):
            for _, f, given, _, calls in self.functions():
                for call in calls:
                    fake_cuda.fakes["cuda"].fake_fail(call.encode(), 6, 0)
                    self.assertRaises(RuntimeError, f, *given)
                    del given[2:]
            gc.collect()
            blocks.append(get_context(self.name).memory["blocks"])
        self.assertEqual(blocks[1], blocks[2])


class TestKernels(unittest.TestCase):
    def test_kernels(self):
        """The kernels around the routines run on OpenCL devices, too: as on a processor, and as on a GPU."""
        for name in (context(), gpu_context()):
            kernel_families.factorizations(name)
            kernel_families.spectra(name)


class TestOtherDevices(unittest.TestCase):
    """On devices without the libraries"""

    def test_opencl(self):
        """Rules leave the nodes on the host, and say nothing. Ops that are applied there say what they need."""
        name = context()
        if fake_cuda.is_real:
            self.skipTest("the tests run on a CUDA device")
        x = gpu_variable("float64", 2, name)
        a = np.eye(3) + 1
        mode = get_mode("FAST_RUN").including("gpuarray")
        with config.change_flags({"magma.enabled": True}), self.assertNoLogs("theano_ng", "WARNING"):
            for formula in (Cholesky(), matrix_inverse, lambda v: Solve()(v, v), lambda v: abs(svd(v)[1])):
                f = theano.function([x], formula(host_from_gpu(x)), mode=mode)
                self.assertFalse([n for n in f.maker.fgraph.toposort() if "gpuarray.linalg" in type(n.op).__module__])
                f(placed(a, "C", name))
        said = r"^%s.* needs a CUDA device with %s: \S+ is no CUDA device, so %s does not run on it$"
        for op, title, count in (
            (GpuCusolverSolve(), "cuSOLVER", 2),
            (GpuCublasTriangularSolve(), "cuBLAS", 2),
            (GpuCholesky(), "cuSOLVER", 1),
            (GpuMagmaSVD(), "cuSOLVER", 1),
        ):
            with self.assertRaisesRegex(RuntimeError, said % (type(op).__name__, title, title)):
                op(*[x] * count)

    def test_a_missing_library(self):
        """On a CUDA device without the library, the log gives the reason once, and the node stays on the host."""
        name = fake_cuda.cuda_context()
        x = gpu_variable("float64", 2, name)
        mode = get_mode("FAST_RUN").including("gpuarray")
        context_kernels = get_context(name).kernels
        self.addCleanup(context_kernels.pop, (cuda_libraries._warn.__wrapped__, ("cusolver",)), None)
        reason = "cuSOLVER cannot be loaded (no file); pip install 'theano_ng[cuda12]'"
        with (
            mock.patch.object(cuda_libraries, "why_not", lambda context, library: reason),
            self.assertLogs("theano_ng.gpuarray", "WARNING") as logs,
        ):
            for _ in range(2):
                f = theano.function([x], Cholesky()(host_from_gpu(x)), mode=mode)
                self.assertFalse([n for n in f.maker.fgraph.toposort() if isinstance(n.op, GpuCholesky)])
            with self.assertRaisesRegex(
                RuntimeError,
                r"GpuCholesky.* needs a CUDA device with cuSOLVER: cuSOLVER cannot be loaded .*pip install",
            ):
                gpu_cholesky(x)
        self.assertEqual(len(logs.output), 1)
        self.assertRegex(logs.output[0], "operations that need cuSOLVER stay on the host: cuSOLVER cannot be loaded")

    def test_names_that_programs_ask_for(self):
        from theano_ng.gpuarray.device import loader

        self.assertIs(linalg.pygpu_available, True)
        for which, name in (("cusolver", "cusolver_available"), ("cublas", "cublas_available")):
            with mock.patch.dict(loader._given, {which: None}):
                self.assertIs(getattr(linalg, name), False)
            with mock.patch.dict(loader._given, {which: "/some/where.so"}):
                self.assertIs(getattr(linalg, name), True)
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'"):
            linalg.nothing

    def test_handles(self):
        ctx = get_context(fake_cuda.cuda_context())
        for attach in (linalg.attach_cusolver_handle_to_context, linalg.attach_cublas_handle_to_context):
            self.assertRegex(attach(ctx), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
