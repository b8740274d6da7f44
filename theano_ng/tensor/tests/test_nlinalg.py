"""Linear algebra compared with NumPy; gradients compared with finite differences."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from hypothesis import strategies as st

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gradient import NullTypeGradError
from theano_ng.tensor import nlinalg
from theano_ng.tensor.tests.generated import LAYOUTS, Compared, arrays, generated
from theano_ng.tests import unittest_tools as utt

DTYPES = ("float32", "float64", "complex64", "complex128")
TIGHT = {"rtol": 2e-3, "atol": 2e-3}


@st.composite
def regular(draw, dtypes=DTYPES, sides=(0, 5)):
    """Draw square matrices far from singular, in any layout."""
    dtype, n = draw(st.sampled_from(dtypes)), draw(st.integers(*sides))
    rng = np.random.RandomState(draw(st.integers(0, 999)))
    x = rng.randn(n, n) + (1j * rng.randn(n, n) if dtype.startswith("complex") else 0) + 4 * np.eye(n)
    return LAYOUTS[draw(st.sampled_from(tuple(LAYOUTS)))](x.astype(dtype))


@st.composite
def hermitian(draw, dtypes=DTYPES, sides=(0, 5)):
    x = np.asarray(draw(regular(dtypes, sides)))
    return LAYOUTS[draw(st.sampled_from(tuple(LAYOUTS)))](x + x.T.conj() + np.diag(np.arange(len(x))).astype(x.dtype))


def sample(*shape, seed=3):
    return np.random.RandomState(seed).randn(*shape)


def check_rop(f, x, seed=5):
    """Check R_op of f against its gradient."""
    v = T.TensorType("float64", (False,) * x.ndim)("v")
    out = f(v)
    d, w = v.type("d"), out.type("w")
    forward, backward = T.Rop(out, v, d), T.Lop(out, v, w)
    g = theano_ng.function(
        [v, d, w], [(forward * w).sum(), (backward * d).sum()], mode="FAST_COMPILE", on_unused_input="ignore"
    )
    shape = theano_ng.function([v], out.shape, mode="FAST_COMPILE")(x)
    rng = np.random.RandomState(seed)
    np.testing.assert_allclose(*g(x, rng.randn(*x.shape), rng.randn(*shape)), rtol=1e-7)


class TestGenerated(unittest.TestCase):
    """C and Python code of linear algebra Ops give NumPy's values, dtypes and shapes, and refuse what NumPy refuses."""

    inverse = Compared(nlinalg.matrix_inverse, np.linalg.inv, **TIGHT)
    det = Compared(nlinalg.det, np.linalg.det, **TIGHT)
    pinv = Compared(nlinalg.pinv, lambda x: np.linalg.pinv(x.astype(x.dtype.newbyteorder("="))), modes=("py",), **TIGHT)
    trace = Compared(nlinalg.trace, np.trace, roundings=16, dtypes=False)
    s = Compared(
        lambda x: nlinalg.svd(x, compute_uv=0), lambda x: np.linalg.svd(x, compute_uv=False), modes=("py",), **TIGHT
    )
    whole = Compared(
        lambda x, mode: nlinalg.qr(x, mode),
        lambda x, mode: list(np.linalg.qr(x, mode)) if mode != "r" else np.linalg.qr(x, mode),
        modes=("py",),
        **TIGHT,
    )
    svd = Compared(nlinalg.svd, lambda x, full_matrices: list(np.linalg.svd(x, full_matrices)), modes=("py",), **TIGHT)
    eigvals = Compared(
        lambda x, UPLO: nlinalg.eigh(x, UPLO)[0], lambda x, UPLO: np.linalg.eigh(x, UPLO)[0], modes=("py",), **TIGHT
    )
    power = Compared(nlinalg.matrix_power, np.linalg.matrix_power, modes=("c",), **TIGHT)
    norm = Compared(nlinalg.norm, np.linalg.norm, modes=("c",), roundings=64)

    @generated(regular(), examples=60)
    def test_square(self, x):
        self.inverse.check(x)
        self.det.check(x)

    @generated(arrays(DTYPES + ("int32", "bool"), ndim=(1, 2), sides=(0, 3)), examples=40)
    def test_any_shape(self, x):
        if x.ndim == 2 and x.shape[0] != x.shape[1]:
            self.inverse.check(x)
            self.det.check(x)
        elif x.ndim == 1:
            with self.assertRaises(TypeError):
                nlinalg.det(T.as_tensor_variable(x))
        if x.ndim == 2:
            self.trace.check(x)
            self.s.check(x)

    @generated(
        arrays(DTYPES, ndim=2, sides=(0, 4), contents="distinct"),
        st.sampled_from(("reduced", "complete", "r", "raw")),
        st.booleans(),
        examples=60,
    )
    def test_factors(self, x, mode, full):
        self.pinv.check(x)
        if 0 not in x.shape:  # NumPy has no QR of an empty matrix in some modes
            self.whole.check(x, mode=mode)
        self.svd.check(x, full_matrices=full)

    @generated(hermitian(), st.sampled_from("LU"), examples=40)
    def test_eigenvalues(self, x, UPLO):
        self.eigvals.check(x, UPLO=UPLO)

    @generated(regular(sides=(1, 4)), st.integers(-3, 5), examples=40)
    def test_powers(self, x, n):
        self.power.check(x, n=n)

    @generated(
        arrays(("float32", "float64", "complex64", "int8"), ndim=(1, 2), sides=(1, 4)),
        st.sampled_from((None, "fro", "nuc", np.inf, -np.inf, 0, 1, -1, 2, -2, 3, 2.5, "spam")),
        examples=120,
    )
    def test_norms(self, x, ord):
        if x.ndim == 1 and isinstance(ord, (int, float)) and ord < 0:
            x = np.abs(x) + 1
        self.norm.check(x, ord=ord)


class TestGradients(unittest.TestCase):
    """Gradients agree with finite differences, and R_op agrees with the gradient."""

    def verify(self, f, *points, rop=False, **options):
        with self.subTest(f=str(f), shapes=[np.shape(p) for p in points]):
            utt.verify_grad(f, list(points), n_tests=1, mode=Mode("cvm", "fast_compile"), **options)
            if rop:
                check_rop(f, points[0])

    @staticmethod
    def joined(*outputs):
        """Return a vector with the elements of all outputs; output k is multiplied by k + 1."""
        return T.concatenate([(o * (1 + k)).flatten() for k, o in enumerate(outputs)])

    def test_inverses(self):
        x = sample(4, 4)
        self.verify(nlinalg.matrix_inverse, x, rop=True)
        self.verify(nlinalg.det, x, rop=True)
        self.verify(nlinalg.trace, x, rop=True)
        self.verify(nlinalg.diag, x, rop=True)
        self.verify(nlinalg.diag, x[0], rop=True)
        self.verify(nlinalg.alloc_diag, x[0])
        for shape in ((4, 4), (5, 3), (3, 5), (1, 4), (4, 1)):
            self.verify(nlinalg.pinv, sample(*shape), rop=True)
        low = np.outer(sample(4), sample(3, seed=4))
        # If t != 0, t * low has rank 1 and pinv(t * low) = pinv(low) / t, whose derivative at t = 1 is -pinv(low).
        m = T.dmatrix("m")
        slope = theano_ng.function([m], (T.grad(nlinalg.pinv(m).sum(), m) * m).sum(), mode="FAST_COMPILE")(low)
        np.testing.assert_allclose(slope, -np.linalg.pinv(low).sum(), rtol=1e-7)

    def test_powers_and_norms(self):
        x = sample(3, 3)
        for n in (-2, 1, 2, 5):
            self.verify(lambda m: nlinalg.matrix_power(m, n), x)
        self.verify(lambda a, b, c: nlinalg.matrix_dot(a, b, c), sample(2, 3), sample(3, 4), sample(4, 1))
        for ord in (None, 1, 2, 3, np.inf, -np.inf, 1.5):
            self.verify(lambda v: nlinalg.norm(v, ord), sample(4))
        for ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            self.verify(lambda m: nlinalg.norm(m, ord), sample(3, 4))

    def test_eigensystems(self):
        x = sample(4, 4)
        for UPLO in "LU":
            self.verify(lambda m: self.joined(*nlinalg.eigh(m, UPLO)), x + x.T, rop=True)
            self.verify(lambda m: nlinalg.eigh(m, UPLO)[0], x + x.T)
            self.verify(lambda m: nlinalg.eigh(m, UPLO)[1], x)  # only one triangle is read
            w, v = np.linalg.eigh(x + x.T)
            weight = T.constant(sample(4, 4, seed=8))
            self.verify(
                lambda w, v, gw, gv: nlinalg.EighGrad(UPLO)(x, w, v, gw, gv) * weight, w, v, sample(4), sample(4, 4)
            )
            check_rop(lambda g: nlinalg.EighGrad(UPLO)(x, w, v, g[0], g * g), sample(4, 4))
        # a second derivative
        self.verify(
            lambda m: T.grad(nlinalg.eigh(m)[1][0].sum() + (nlinalg.eigh(m)[0] ** 3).sum(), m),
            x + x.T,
            eps=1e-6,
            rel_tol=1e-3,
        )
        real = np.dot(x, np.dot(np.diag([1.0, 2.0, 4.0, -3.0]), np.linalg.inv(x)))
        self.verify(lambda m: self.joined(*nlinalg.eig(m)), real, rop=True)
        m = T.dmatrix("m")
        g = theano_ng.function([m], T.grad(nlinalg.eigh(m)[0].sum(), m), mode="FAST_COMPILE")
        # The eigenvalues are equal, so eigenvectors have no derivative. But the cost does not depend on eigenvectors.
        np.testing.assert_allclose(g(np.eye(3)), np.eye(3), atol=1e-12)

    def test_qr(self):
        for shape in ((4, 4), (5, 3), (3, 5), (1, 3), (3, 1)):
            x = sample(*shape)
            self.verify(lambda m: self.joined(*nlinalg.qr(m)), x, rop=True)
            self.verify(lambda m: nlinalg.qr(m)[0], x)
            self.verify(lambda m: nlinalg.qr(m, "r"), x, rop=True)
            self.verify(lambda m: nlinalg.qr(m, "complete")[1], x, rop=True)
            self.verify(lambda m: nlinalg.qr(m, "complete")[0][:, : min(shape)], x, rop=True)

    def test_svd(self):
        for shape in ((4, 4), (5, 3), (3, 5), (1, 3), (3, 1)):
            x, k = sample(*shape), min(shape)
            self.verify(lambda m: self.joined(*nlinalg.svd(m, full_matrices=0)), x, rop=True)
            for i in range(3):
                self.verify(lambda m: nlinalg.svd(m, full_matrices=0)[i], x)
            self.verify(lambda m: nlinalg.svd(m, compute_uv=0), x, rop=True)
            self.verify(
                lambda m: self.joined(nlinalg.svd(m)[0][:, :k], nlinalg.svd(m)[1], nlinalg.svd(m)[2][:k]), x, rop=True
            )
            self.verify(lambda m: nlinalg.svd(m)[1], x)

    def test_second_derivatives(self):
        for build in (
            nlinalg.pinv,
            lambda m: nlinalg.qr(m)[1],
            lambda m: nlinalg.svd(m)[0],
            lambda m: nlinalg.det(m) * m,
        ):
            self.verify(lambda m: T.grad((build(m) ** 3).sum(), m), sample(3, 3), eps=1e-6, rel_tol=1e-3, abs_tol=1e-3)

    def test_vectors_of_a_null_space_have_no_gradient(self):
        x = T.dmatrix("x")
        for cost, value in (
            (nlinalg.svd(x)[0].sum(), sample(4, 2)),
            (nlinalg.svd(x)[2].sum(), sample(2, 4)),
            (nlinalg.qr(x, "complete")[0].sum(), sample(4, 2)),
        ):
            f = theano_ng.function([x], T.grad(cost, x), mode="FAST_COMPILE")
            with self.assertRaisesRegex(np.linalg.LinAlgError, "an arbitrary basis of a null space"):
                f(value)
            self.assertTrue(np.isfinite(f(sample(3, 3))).all())

    def test_tensors(self):
        a = sample(4, 6, 8, 3)
        self.verify(lambda x: nlinalg.tensorinv(x.reshape((4, 6, 8, 3)), 2), a, eps=1e-7, rel_tol=1e-2, abs_tol=1e-2)
        check_rop(nlinalg.tensorinv, sample(2, 3, 6, 1))
        self.verify(lambda x: nlinalg.tensorinv(x, 1), sample(4, 2, 2), rop=True)
        self.verify(nlinalg.tensorsolve, sample(2, 3, 6), sample(2, 3))
        self.verify(lambda x, y: nlinalg.tensorsolve(x, y, (0, 2)), sample(2, 6, 3), sample(6))
        b = T.constant(sample(2, 3))
        check_rop(lambda x: nlinalg.tensorsolve(x, b), sample(2, 3, 2, 3))
        c = T.constant(sample(2, 6, 3))
        check_rop(lambda y: nlinalg.tensorsolve(c, y, (0, 2)), sample(6))
        check_rop(lambda x: nlinalg.tensorsolve(x, x[0, :2], (1,)), sample(2, 4, 2))

    def test_complex_gradients_are_those_of_real_and_imaginary_parts(self):
        a, b, weight = (
            sample(3, 3),
            sample(3, 3, seed=9),
            T.constant(sample(3, 3, seed=10) + 1j * sample(3, 3, seed=11)),
        )
        z = T.zmatrix("z")
        for f in (
            nlinalg.matrix_inverse,
            nlinalg.det,
            nlinalg.pinv,
            lambda m: nlinalg.tensorinv(m, 1),
            lambda m: nlinalg.tensorsolve(m, weight[0]),
        ):
            out = f(z)
            known = weight if out.ndim == 2 else weight[0] if out.ndim == 1 else weight[0, 0]
            gradient = theano_ng.function([z], T.grad(None, z, known_grads={out: known}), mode="FAST_COMPILE")(
                a + 1j * b
            )
            value = theano_ng.function([z], T.real(T.conj(known) * out).sum(), mode="FAST_COMPILE")
            eps = 1e-6
            for i, j, step in ((0, 1, 1), (2, 0, 1j), (1, 1, 1), (1, 1, 1j)):
                d = np.zeros((3, 3), complex)
                d[i, j] = eps * step
                slope = (value(a + 1j * b + d) - value(a + 1j * b - d)) / (2 * eps)
                np.testing.assert_allclose(
                    slope, gradient[i, j].real if step == 1 else gradient[i, j].imag, rtol=1e-5, atol=1e-6
                )
        for out in (nlinalg.eigh(z)[0], nlinalg.eig(z)[1], nlinalg.svd(z)[1], nlinalg.qr(z)[0]):
            with self.assertRaises(NullTypeGradError):
                T.grad(T.real(out).sum(), z)

    def test_refused(self):
        x, y = T.dmatrix("x"), T.dvector("y")
        for cost in (nlinalg.qr(x, "raw")[0].sum(), nlinalg.lstsq()(x, y, None)[0].sum()):
            with self.assertRaises(NullTypeGradError):
                T.grad(cost, x)

    @theano_ng.config.change_flags({"DebugMode.check_finite": False})
    def test_second_derivatives_where_vectors_do_not_turn(self):
        """The product of the factors of a matrix equals the matrix, so the second derivatives of the product are zero.

        This holds for `eigh`, `eig` and `svd` also at matrices at which the gradients of their vectors are zero.
        """
        turn = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
        matrices = [np.diag(d) for d in ([0.0, -4, 1], [-4.0, 0, 2], [3.0, 2, 1])]
        matrices += [turn @ matrix @ turn.T for matrix in matrices]
        factors = {
            "eigh": lambda x: (lambda w, v: T.dot(v * w, v.T))(*nlinalg.eigh(x + x.T)),
            "eig": lambda x: (lambda w, v: T.dot(v * w, nlinalg.matrix_inverse(v)))(*nlinalg.eig(x)),
            "svd": lambda x: (lambda u, s, v: T.dot(u * s, v))(*nlinalg.svd(x, full_matrices=False)),
        }
        weights = np.cos(np.arange(9.0)).reshape(3, 3)
        for name, multiplied in factors.items():
            x = T.dmatrix("x")
            gradient = T.grad((multiplied(x) * weights).sum(), x)
            f = theano_ng.function([x], [gradient, T.grad((gradient * weights).sum(), x)])
            for matrix in matrices:
                if name == "svd" and not matrix.diagonal().all():
                    continue  # the singular value 0 has no derivative
                with self.subTest(name, matrix=matrix):
                    first, second = f(matrix)
                    np.testing.assert_allclose(first, weights + weights.T if name == "eigh" else weights, atol=1e-12)
                    np.testing.assert_allclose(second, 0, atol=1e-11)


class TestErrors(unittest.TestCase):
    def test_what_numpy_raises_with_the_node_and_then_it_works(self):
        x = T.dmatrix("x")
        singular, wide, odd, good = (
            np.ones((2, 2)),
            np.ones((2, 3)),
            np.full((2, 2), np.nan),
            np.array([[2.0, 1.0], [1.0, 3.0]]),
        )
        cases = [
            (nlinalg.matrix_inverse(x), [singular, wide]),
            (nlinalg.det(x), [wide]),
            (nlinalg.eig(x)[0], [wide, odd]),
            (nlinalg.eigh(x)[0], [wide]),
            (nlinalg.svd(x)[1], [odd]),
            (nlinalg.tensorinv(x, 1), [singular, wide]),
            (nlinalg.tensorsolve(x, np.ones(2)), [singular]),
            (nlinalg.matrix_power(x, 0), [wide]),
            (nlinalg.matrix_power(x, 1), [wide]),
            (nlinalg.matrix_power(x, -2), [singular, wide]),
            (nlinalg.lstsq()(x, np.ones(3), None)[0], [good]),
        ]
        for linker in ("cvm", "py"):
            for out, refused in cases:
                f = theano_ng.function([x], out, mode=Mode(linker, None))
                for value in refused:
                    raised = self.assertRaisesRegex(np.linalg.LinAlgError, "Apply node that caused the error")
                    with self.subTest(out=str(out), linker=linker, value=value), raised:
                        f(value)
                if refused[0] is not good:
                    self.assertTrue(np.isfinite(f(good)).all())
            f = theano_ng.function([x], [nlinalg.matrix_inverse(x), nlinalg.det(x)], mode=Mode(linker, None))
            for value in f(odd):
                self.assertTrue(np.isnan(value).all())
        f = theano_ng.function([x], nlinalg.eig(x))
        with self.assertRaisesRegex(np.linalg.LinAlgError, "complex eigenvalues.*complex128"):
            f([[0.0, 1.0], [-1.0, 0.0]])
        z = T.cast(x, "complex128")
        w, v = theano_ng.function([x], nlinalg.eig(z))([[0.0, 1.0], [-1.0, 0.0]])
        np.testing.assert_allclose(sorted(w.imag), [-1, 1])
        np.testing.assert_allclose(theano_ng.function([x], nlinalg.eig(x)[1])(good), np.linalg.eig(good)[1])

    def test_while_the_graph_is_built(self):
        x, y = T.dmatrix("x"), T.dvector("y")
        for build in (
            lambda: nlinalg.det(y),
            lambda: nlinalg.matrix_inverse(T.dtensor3()),
            lambda: nlinalg.pinv(T.matrix(dtype="float16")),
            lambda: nlinalg.diag(T.dscalar()),
            lambda: nlinalg.alloc_diag(x),
            lambda: nlinalg.matrix_power(x, 1.5),
            lambda: nlinalg.matrix_power(y, 2),
            lambda: nlinalg.matrix_dot(),
            lambda: nlinalg.norm(x, y),
            lambda: nlinalg.lstsq()(y, x, None),
            lambda: nlinalg.lstsq()(x, y, y),
            lambda: nlinalg.EighGrad()(x, y, x, y, y),
        ):
            self.assertRaises(TypeError, build)
        for build in (
            lambda: nlinalg.qr(x, "spam"),
            lambda: nlinalg.QRIncomplete("raw"),
            lambda: nlinalg.eigh(x, "l"),
            lambda: nlinalg.EighGrad("M"),
            lambda: nlinalg.tensorinv(x, 0),
            lambda: nlinalg.tensorinv(x, 3),
            lambda: nlinalg.tensorsolve(x, x, (2,)),
            lambda: nlinalg.tensorsolve(x, x, (0, 0)),
            lambda: nlinalg.tensorsolve(y, x),
            lambda: nlinalg.norm(T.dtensor3(), 2),
            lambda: nlinalg.norm(y, "nuc"),
            lambda: nlinalg.norm(x, 3),
        ):
            self.assertRaises(ValueError, build)


class TestOthers(unittest.TestCase):
    def test_eigenvectors(self):
        """The eigenvalues and eigenvectors that `eigh` returns reconstruct the matrix.

        The vectors themselves are not compared, since their signs and phases are arbitrary.
        """
        for dtype in DTYPES:
            x = sample(4, 4) + (1j * sample(4, 4, seed=6) if dtype.startswith("complex") else 0)
            x = (x + x.T.conj()).astype(dtype)
            m = T.matrix(dtype=dtype)
            for UPLO in "LU":
                w, v = theano_ng.function([m], nlinalg.eigh(m, UPLO))(x)
                self.assertEqual((w.dtype, v.dtype), (np.linalg.eigvalsh(x).dtype, x.dtype))
                np.testing.assert_allclose(np.dot(v * w, v.T.conj()), x, rtol=1e-3, atol=1e-4)
        self.assertEqual(str(nlinalg.Eigh("U")), "Eigh{UPLO='U'}")

    def test_tensors(self):
        a, b = sample(4, 6, 8, 3), sample(4, 6)
        x, y = T.dtensor4("x"), T.dmatrix("y")
        got = theano_ng.function(
            [x, y],
            [
                nlinalg.tensorinv(x),
                nlinalg.tensorsolve(x, y),
                nlinalg.tensorsolve(x, y).shape,
                nlinalg.tensorinv(x).shape,
            ],
        )(a, b)
        for value, expected in zip(got, (np.linalg.tensorinv(a), np.linalg.tensorsolve(a, b), (8, 3), (8, 3, 4, 6))):
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-8)
        f = theano_ng.function([x, y], [nlinalg.tensorsolve(x, y, (0, 2)), nlinalg.tensorsolve(x, y, (0, 2)).shape])
        a = sample(2, 3, 6, 4)
        for value, expected in zip(f(a, sample(3, 4)), (np.linalg.tensorsolve(a, sample(3, 4), (0, 2)), (2, 6))):
            np.testing.assert_allclose(value, expected, rtol=1e-6)

    def test_lstsq(self):
        for dtype in ("float32", "float64", "complex128", "int64"):
            for a, b, rcond in (
                (sample(5, 3), sample(5), None),
                (sample(5, 3), sample(5, 2), -1),
                (sample(3, 5), sample(3, 2), None),
                (np.outer(sample(4), sample(3)), sample(4), 1e-3),
                (sample(0, 3), sample(0), None),
            ):
                a, b = (10 * a).astype(dtype), (10 * b).astype(dtype)
                x, y = T.matrix(dtype=dtype), T.TensorType(dtype, (False,) * b.ndim)()
                outputs = nlinalg.lstsq()(x, y, rcond)
                got = theano_ng.function([x, y], [*outputs, outputs[0].shape, outputs[1].shape, outputs[3].shape])(a, b)
                expected = np.linalg.lstsq(a, b, rcond)
                for value, want in zip(got, expected):
                    np.testing.assert_allclose(value, want, rtol=5e-3, atol=1e-3)
                    self.assertEqual(value.dtype, np.asarray(want).dtype if value.ndim else "int64")
                for value, want in zip(got[4:], (expected[0], expected[1], expected[3])):
                    self.assertEqual(tuple(value), want.shape)

    def test_diagonals(self):
        x, v, t = T.imatrix("x"), T.fvector("v"), T.dtensor3("t")
        a, b = np.arange(12, dtype="int32").reshape(3, 4), np.array([1, 2.5, 3], "float32")
        f = theano_ng.function(
            [x, v, t], [nlinalg.diag(x), nlinalg.diag(v), x.trace(), nlinalg.trace(t), nlinalg.alloc_diag(v).shape]
        )
        c = sample(2, 3, 4)
        for value, expected in zip(f(a, b, c), (np.diag(a), np.diag(b), np.trace(a), np.trace(c), (3, 3))):
            np.testing.assert_array_equal(value, expected)
        self.assertIs(nlinalg.ExtractDiag, T.ExtractDiag)
        self.assertEqual(
            (str(nlinalg.alloc_diag), str(nlinalg.det), nlinalg.AllocDiag()), ("AllocDiag", "Det", nlinalg.alloc_diag)
        )

    def test_powers_of_integers_and_long_chains(self):
        x = T.lmatrix("x")
        a = np.array([[2, 1], [0, 3]])
        f = theano_ng.function([x], [nlinalg.matrix_power(x, n) for n in (0, 1, 6, -1)])
        for value, n in zip(f(a), (0, 1, 6, -1)):
            np.testing.assert_allclose(value, np.linalg.matrix_power(a if n >= 0 else a.astype(float), n))
            self.assertEqual(value.dtype, "int64" if n >= 0 else "float64")
        out = nlinalg.matrix_dot(*[x] * 5000)
        steps = 0
        while out.owner is not None:
            out, steps = out.owner.inputs[0], steps + 1
        self.assertEqual((out, steps), (x, 4999))

    def test_norms(self):
        x, v, t = T.dmatrix("x"), T.dvector("v"), T.dtensor3("t")
        a = sample(3, 4)
        f = theano_ng.function(
            [x, v, t],
            [
                nlinalg.norm(x, "inf"),
                nlinalg.norm(v, "-inf"),
                nlinalg.norm(t, None),
                nlinalg.norm(v, np.float64(3)),
                nlinalg.norm(v.astype("float32"), np.float64(3)),
            ],
        )
        c = sample(2, 2, 2)
        for value, expected in zip(
            f(a, a[0], c),
            (
                np.linalg.norm(a, np.inf),
                np.linalg.norm(a[0], -np.inf),
                np.linalg.norm(c),
                np.linalg.norm(a[0], 3),
                np.linalg.norm(a[0], 3),
            ),
        ):
            np.testing.assert_allclose(value, expected, rtol=1e-6)
        self.assertEqual(nlinalg.norm(T.fvector(), np.float64(3)).dtype, "float32")
        for ord in (None, 1, 2, np.inf, "fro", "nuc"):
            for shape in ((0, 0), (0, 3), (3, 0)):
                self.assertEqual(nlinalg.norm(x, ord).eval({x: np.zeros(shape)}), 0, (ord, shape))
            if not isinstance(ord, str):
                self.assertEqual(nlinalg.norm(v, ord).eval({v: []}), 0, ord)
        with self.assertRaises(ValueError):
            nlinalg.norm(v, -np.inf).eval({v: []})

    def test_debug_mode(self):
        x = T.dmatrix("x")
        a = sample(3, 3)
        a = a + a.T
        outputs = [
            nlinalg.matrix_inverse(x),
            nlinalg.det(x),
            nlinalg.pinv(x),
            *nlinalg.eigh(x),
            *nlinalg.qr(x),
            *nlinalg.svd(x),
            nlinalg.tensorinv(x, 1),
            nlinalg.tensorsolve(x, x[0]),
            nlinalg.lstsq()(x, x[0], None)[0],
            T.grad(nlinalg.eigh(x)[1][0].sum(), x),
            nlinalg.matrix_power(x, 3),
            nlinalg.norm(x, "nuc"),
            nlinalg.alloc_diag(x[0]),
        ]
        for value, plain in zip(
            *(theano_ng.function([x], outputs, mode=mode)(a) for mode in ("DebugMode", "FAST_COMPILE"))
        ):
            np.testing.assert_allclose(value, plain, rtol=1e-6, atol=1e-9)

    def test_it_costs_little_to_import(self):
        """Importing nlinalg imports neither SciPy nor rewriting rules.

        Compilation imports the rules, unless the rewritten graph comes from the cache. This holds whether a function
        was compiled before the import of nlinalg or not.
        """
        code = """
import sys
import theano_ng as theano
from theano_ng import tensor as tt
x = tt.dmatrix()
if %d:
    theano.function([x], x + 1, mode='FAST_RUN')
from theano_ng.tensor import nlinalg
assert 'scipy.linalg' not in sys.modules
f = theano.function([x], tt.dot(nlinalg.matrix_inverse(x), tt.ones((2,))), mode='FAST_RUN')
print([type(node.op).__name__ for node in f.maker.fgraph.toposort()], 'theano_ng.tensor.opt' in sys.modules)
"""
        for first in (0, 1):
            with tempfile.TemporaryDirectory() as folder:
                flags = ",".join([os.environ.get("THEANO_FLAGS", ""), "base_compiledir=" + folder]).strip(",")
                for rules in (True, False):
                    out = subprocess.run(
                        [sys.executable, "-c", code % first],
                        capture_output=True,
                        text=True,
                        check=True,
                        env=dict(os.environ, THEANO_FLAGS=flags),
                    ).stdout
                    self.assertEqual(out.strip(), "['Solve'] %s" % rules)
