"""BLAS Ops compared with NumPy in every memory layout, and the rules that insert them into graphs."""

import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor import blas
from theano_ng.tensor.blas import ops, table
from theano_ng.tensor.opt import blas as opt
from theano_ng.tests.test_bad_input import run_python

TOL = {"float32": 1e-4, "float64": 1e-11, "complex64": 1e-4, "complex128": 1e-11}


class TestInPlace(unittest.TestCase):
    def test_rules(self):
        """Each rule replaces an Op by the corresponding in-place Op, which overwrites the first input."""
        A, x, y, a = T.dmatrix("A"), T.dvector("x"), T.dvector("y"), T.dscalar("a")
        for rule, before, after, inputs in (
            (opt.local_inplace_gemv, ops.gemv_no_inplace, ops.gemv_inplace, (y, a, A, x, a)),
            (opt.local_inplace_ger, ops.ger, ops.ger_destructive, (A, a, x, y)),
            (opt.make_c_gemv_destructive, ops.cgemv_no_inplace, ops.cgemv_inplace, (y, a, A, x, a)),
            (opt.make_c_ger_destructive, ops.cger_no_inplace, ops.cger_inplace, (A, a, x, y)),
        ):
            (new,) = rule.transform(before(*inputs).owner)
            self.assertEqual((new.owner.op, new.owner.inputs[0]), (after, inputs[0]))
            self.assertEqual([getattr(op, "destroy_map", {}) for op in (before, after)], [{}, {0: [0]}])


def run(op, *values):
    """Return the results of native code and of `perform` of an Op, each run on a fresh copy of the first value."""
    inputs = [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]
    node = op.make_node(*inputs)
    results = []
    for native in (True, False):
        first = keep_layout(values[0]) if getattr(op, "destroy_map", None) else values[0]
        cells = [[v] for v in (first,) + values[1:]]
        out = [[None]]
        if native:
            make_native_thunk(node, op.native_code(node), cells, out)()
        else:
            op.perform(node, [c[0] for c in cells], out)
        results.append(out[0][0])
    return results


def keep_layout(a):
    """Return a copy with the memory layout of `a`: contiguous in the same order, or with gaps in all dimensions."""
    base = np.empty_like(a) if a.flags.forc else None
    if base is None:
        base = np.zeros([2 * n + 2 for n in a.shape], a.dtype)[tuple(slice(1, 2 * n + 1, 2) for n in a.shape)]
    base[...] = a
    return base


def layouts(a):
    """Yield the matrix in C and Fortran order, sliced, spread, with reversed rows, columns or both, and misaligned."""
    yield a
    yield np.asfortranarray(a)
    wide = np.zeros((a.shape[0] * 2 + 1, a.shape[1] * 3 + 2), a.dtype)
    wide[: a.shape[0] * 2 : 2, 1 : 1 + a.shape[1]] = a
    yield wide[: a.shape[0] * 2 : 2, 1 : 1 + a.shape[1]]
    spread = np.zeros((a.shape[0], a.shape[1] * 3), a.dtype)
    spread[:, ::3] = a
    yield spread[:, ::3]
    yield np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
    yield np.ascontiguousarray(a[::-1])[::-1]
    yield np.asfortranarray(a[:, ::-1])[:, ::-1]
    raw = np.zeros(a.nbytes + 1, "uint8")[1:].view(a.dtype).reshape(a.shape)
    raw[...] = a
    yield raw


def random(rng, dtype, *shape):
    value = rng.uniform(-1, 1, shape)
    if dtype.startswith("complex"):
        value = value + 1j * rng.uniform(-1, 1, shape)
    return np.asarray(value, dtype)


class NativeOps(unittest.TestCase):
    def check(self, op, want, *values):
        for kind, got in zip(("native", "perform"), run(op, *values)):
            np.testing.assert_allclose(
                got, want, rtol=TOL[values[0].dtype.name], atol=TOL[values[0].dtype.name], err_msg="%s %s" % (op, kind)
            )
            self.assertEqual(got.dtype, values[0].dtype)

    def test_dot22_in_every_layout_and_dtype(self):
        rng = np.random.RandomState(1)
        for dtype in TOL:
            for m, k, n in ((5, 4, 7), (3, 2, 2), (2, 3, 1), (2, 1, 3)):
                x, y = random(rng, dtype, m, k), random(rng, dtype, k, n)
                for a, b in itertools.product(layouts(x), layouts(y)):
                    self.check(blas._dot22, x.dot(y), a, b)

    def test_dot22_of_elements_that_occur_several_times(self):
        """Products have NumPy's values for matrices that BLAS cannot read without a copy.

        The matrices are overlapping windows, or repeat rows or columns.
        """
        rng = np.random.RandomState(4)
        for dtype in TOL:
            for n in (1, 2, 3, 5):
                v, y = random(rng, dtype, n + 2), random(rng, dtype, 3, 3)
                windows = np.lib.stride_tricks.sliding_window_view(v, 3)
                repeated = np.broadcast_to(v[:n, None], (n, 3)), np.broadcast_to(v[:n], (3, n)).T
                for x in (windows, windows[::-1], *repeated):
                    for a in (x, x[:, :2], x[:, :1]):
                        b = y[: a.shape[1]]
                        self.check(blas._dot22, a.dot(b), a, b)
                        self.check(blas._dot22, b.T.dot(a.T), b.T, a.T)

    def test_dot22_without_rows_columns_or_inner_dimension(self):
        for m, k, n in itertools.product((0, 1, 3), repeat=3):
            x, y = np.ones((m, k)), np.ones((k, n))
            self.check(blas._dot22, x.dot(y), x, y)

    def test_few_columns(self):
        rng = np.random.RandomState(9)
        for dtype, (m, k), n in itertools.product(
            ("float32", "float64"), ((173, 401), (600, 128), (17, 4001)), (2, 5, 7, 10)
        ):
            x, z = random(rng, dtype, m, k), random(rng, dtype, m, n)
            y, w = random(rng, dtype, k, 2 * n)[:, ::2], np.asfortranarray(random(rng, dtype, m, n))
            a, b = np.asarray(0.5, dtype), np.asarray(-2, dtype)
            self.check(blas._dot22, x.dot(y), x, y)
            self.check(blas._dot22, x.T.dot(w), x.T, w)
            self.check(blas.gemm_inplace, b * z + a * x.dot(y), z, a, x, y, b)
            v = random(rng, dtype, n, k).T
            self.check(blas.gemm_inplace, b * v + a * x.T.dot(w), v, a, x.T, w, b)
            nan = np.full((m, n), np.nan, dtype)
            self.check(blas.gemm_inplace, a * x.dot(y), nan, a, x, y, np.asarray(0, dtype))

    def test_gemm(self):
        rng = np.random.RandomState(2)
        for dtype in TOL:
            z, x, y = random(rng, dtype, 3, 6), random(rng, dtype, 3, 4), random(rng, dtype, 4, 6)
            a, b = np.asarray(0.5, dtype), np.asarray(-2, dtype)
            for op in (blas.gemm_no_inplace, blas.gemm_inplace):
                for zz in layouts(z):
                    self.check(op, b * z + a * x.dot(y), zz, a, x, y, b)
        inner = np.ones((3, 0))
        self.check(
            blas.gemm_inplace,
            2 * np.ones((3, 2)),
            np.ones((3, 2)),
            np.asarray(1.0),
            inner,
            np.ones((0, 2)),
            np.asarray(2.0),
        )

    def test_zero_beta_does_not_read_the_target(self):
        nan = np.full((2, 2), np.nan)
        self.check(
            blas.gemm_inplace,
            np.full((2, 2), 3.0),
            nan,
            np.asarray(1.0),
            np.ones((2, 3)),
            np.ones((3, 2)),
            np.asarray(0.0),
        )
        self.check(
            blas.gemv_inplace, np.full(2, 3.0), nan[0], np.asarray(1.0), np.ones((2, 3)), np.ones(3), np.asarray(0.0)
        )
        self.check(
            blas.gemv_inplace, np.zeros(2), nan[0], np.asarray(1.0), np.ones((2, 0)), np.ones(0), np.asarray(0.0)
        )

    def test_gemv_and_ger_with_strided_vectors(self):
        rng = np.random.RandomState(3)
        for dtype in TOL:
            a = random(rng, dtype, 4, 3)
            x, y = random(rng, dtype, 9), random(rng, dtype, 8)
            alpha, beta = np.asarray(2, dtype), np.asarray(0.5, dtype)
            for aa, xx, yy in itertools.product(layouts(a), (x[:3], x[::3], x[2::-1]), (y[:4], y[::2], y[::-2])):
                for op in (blas.gemv_no_inplace, blas.gemv_inplace):
                    self.check(op, beta * yy + alpha * a.dot(xx), yy, alpha, aa, xx, beta)
                for op in (blas.ger, blas.ger_destructive):
                    self.check(op, a + alpha * np.outer(yy, xx), aa, alpha, yy, xx)

    def test_gemv_takes_factors_of_any_real_dtype(self):
        for dtype, factor in (
            ("float64", "float32"),
            ("float32", "float64"),
            ("float64", "int8"),
            ("complex64", "float64"),
        ):
            y, a, x = (T.TensorType(dtype, (False,) * n)() for n in (1, 2, 1))
            alpha, beta = T.TensorType(factor, ())("alpha"), T.TensorType(factor, ())("beta")
            values = (
                np.ones(2, dtype),
                np.array(3, factor),
                np.ones((2, 2), dtype),
                np.ones(2, dtype),
                np.array(2, factor),
            )
            for op in (blas.gemv, blas.gemv_no_inplace):
                out = op(y, alpha, a, x, beta)
                self.assertEqual(out.type, y.type)
                f = theano.function([y, alpha, a, x, beta], out, mode=theano.Mode("cvm", None))
                np.testing.assert_array_equal(f(*values), np.full(2, 8, dtype))
                self.assertEqual(op(y, 2.0, a, x, 0.5).type, y.type)
        with self.assertRaisesRegex(TypeError, "one dtype"):
            blas.gemv(T.dvector(), T.zscalar(), T.dmatrix(), T.dvector(), 1.0)

    def test_gemv_of_large_matrices(self):
        rng = np.random.RandomState(12)
        for dtype, (m, n) in itertools.product(
            ("float32", "float64"), ((3, 4200), (4200, 5), (67, 41), (1, 33), (33, 1))
        ):
            a, x, y = random(rng, dtype, m, n), random(rng, dtype, 2 * n), random(rng, dtype, 2 * m)
            alpha, beta, zero = np.asarray(2, dtype), np.asarray(-0.5, dtype), np.asarray(0, dtype)
            for aa, xx, yy in itertools.product(
                (a, np.asfortranarray(a)), (x[:n], x[::2], x[::-2]), (y[:m], y[1::2], y[m - 1 :: -1])
            ):
                for op in (blas.gemv_no_inplace, blas.gemv_inplace):
                    self.check(op, beta * yy + alpha * aa.dot(xx), yy, alpha, aa, xx, beta)
                self.check(blas.gemv_inplace, alpha * aa.dot(xx), np.full_like(yy, np.nan), alpha, aa, xx, zero)
            # If alpha is zero, the matrix is not read.
            self.check(blas.gemv_inplace, beta * y[:m], y[:m], zero, np.full_like(a, np.nan), x[:n], beta)

    def test_known_lengths_of_batched_dot(self):
        x, y = T.dtensor3("x"), T.TensorType("float64", (True, False, False))("y")
        rng = np.random.RandomState(0)
        a, b = rng.rand(1, 2, 3), rng.rand(1, 3, 4)
        for out, values in ((blas.batched_dot(x, y), (a, b)), (blas.batched_dot(y, x), (b[:, :, :2], a))):
            self.assertEqual(out.type.broadcastable, (True, False, False))
            inputs = list(out.owner.inputs) if out.owner.op == blas.batched_dot else [x, y]
            f = theano.function(inputs, [out, *T.grad(out.sum(), inputs)])
            np.testing.assert_allclose(f(*values)[0], np.matmul(*values))

    def test_batched_dot(self):
        rng = np.random.RandomState(4)
        for dtype in TOL:
            x, y = random(rng, dtype, 5, 2, 3), random(rng, dtype, 5, 3, 4)
            self.check(blas.batched_dot, np.matmul(x, y), x, y)
            self.check(blas.batched_dot, np.matmul(x[::2], y[::-2]), x[::2], y[::-2])
            # Stacks of vectors, and matrix sizes on both sides of the limit of the hand-written loops.
            self.check(blas.batched_dot, np.einsum("bk,bkn->bn", x[:, 1], y), x[:, 1], y)
            self.check(blas.batched_dot, np.einsum("bmk,bk->bm", x, y[:, :, 2]), x, y[:, :, 2])
            self.check(blas.batched_dot, np.einsum("bk,bk->b", x[:, 1], y[:, :, 2]), x[:, 1], y[:, :, 2])
            for m, k, n in itertools.product((1, 3, 8, 9), (0, 1, 8, 11), (1, 2, 4, 7, 8, 9)):
                x, y = random(rng, dtype, 3, m, k), random(rng, dtype, 3, k, n)
                self.check(blas.batched_dot, np.matmul(x, y), x, y)
                self.check(blas.batched_dot, np.matmul(x, y), np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2), y)
                self.check(blas.batched_dot, np.matmul(x, y), x, np.asfortranarray(y))
        self.check(blas.batched_dot, np.zeros((0, 2, 4)), np.ones((0, 2, 3)), np.ones((0, 3, 4)))
        for shapes, what in ((((3, 2, 4), (2, 4, 2)), "batch sizes"), (((3, 2, 4), (3, 5, 2)), "summation axis sizes")):
            with self.assertRaisesRegex(
                TypeError, r"Shape mismatch: %s unequal. x.shape is \(3, 2, 4\), y.shape is" % what
            ):
                run(blas.batched_dot, *map(np.ones, shapes))

    def test_lengths_beyond_those_of_blas(self):
        """If a dimension of an operand exceeds the index type of BLAS, the Op raises an error that names the operand.

        This also holds for an operand without elements.
        """
        for dtype in TOL:
            long, few, one = np.zeros((2**31, 0), dtype), np.zeros((0, 0), dtype), np.asarray(1, dtype)
            row = np.zeros((1, 0), dtype)
            for name, op, values in (
                ("x", blas._dot22, (long, few)),
                ("y", blas._dot22, (few, long.T)),
                ("x", blas._dot22scalar, (long, few, one)),
                ("y", blas._dot22scalar, (few, long.T, one)),
                ("z", blas.gemm_no_inplace, (long, one, long, few, one)),
                ("z", blas.gemm_inplace, (long.T, one, few, long.T, one)),
                ("x", T.Dot(), (long, few)),
                ("y", T.Dot(), (few, long.T)),
                ("x", T.Dot(), (long, row[0])),
                ("y", T.Dot(), (row[0], long.T)),
                ("x", blas.BatchedDot(), (long[None], few[None])),
                ("y", blas.BatchedDot(), (few[None], long.T[None])),
                ("batched_dot:", blas.BatchedDot(), (long.T, long.T)),
            ):
                says = name + " (has )?a dimension (that )?is too large for the index type of BLAS"
                with self.subTest(op=op, name=name), self.assertRaisesRegex(ValueError, says):
                    run(op, *values)

    def test_in_place_really_is(self):
        z = np.ones((2, 2))
        node = blas.gemm_inplace.make_node(*[T.TensorType("float64", (False,) * n)() for n in (2, 0, 2, 2, 0)])
        cells, out = [[v] for v in (z, np.asarray(1.0), np.eye(2), np.eye(2), np.asarray(1.0))], [[None]]
        make_native_thunk(node, blas.gemm_inplace.native_code(node), cells, out)()
        self.assertIs(out[0][0], z)
        np.testing.assert_array_equal(z, [[2, 1], [1, 2]])

    def test_mismatched_shapes_and_types(self):
        with self.assertRaisesRegex(
            ValueError, r"Shape mismatch: x has 3 cols \(and 2 rows\) but y has 4 rows \(and 5 cols\)"
        ):
            run(blas._dot22, np.ones((2, 3)), np.ones((4, 5)))
        with self.assertRaisesRegex(TypeError, "one dtype"):
            blas._dot22(T.dmatrix(), T.fmatrix())
        with self.assertRaisesRegex(TypeError, "must have 2 dimensions"):
            blas._dot22(T.dmatrix(), T.dvector())
        z = np.ones((2, 2))
        z.flags.writeable = False
        node = blas.gemm_inplace.make_node(*[T.TensorType("float64", (False,) * n)() for n in (2, 0, 2, 2, 0)])
        with self.assertRaises(ValueError):
            make_native_thunk(
                node,
                blas.gemm_inplace.native_code(node),
                [[v] for v in (z, np.asarray(1.0), z, z, np.asarray(1.0))],
                [[None]],
            )()
        np.testing.assert_array_equal(z, 1)


def op_names(f):
    return [str(node.op) for node in f.maker.fgraph.toposort()]


class WhereTheFunctionsAre(unittest.TestCase):
    """BLAS functions are found in SciPy's library without importing SciPy.

    An import of SciPy would take longer than that of our package.
    """

    def test_scipy_is_not_imported(self):
        done = run_python(
            "import sys, numpy as np, theano_ng as theano, theano_ng.tensor as T\n"
            "x = T.dmatrix()\n"
            "assert theano.function([x], T.dot(x, x), mode='FAST_RUN')(np.eye(2)).sum() == 2\n"
            "assert 'scipy' not in sys.modules\n"
            "import scipy.linalg.cython_blas\n"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_library_with_other_names(self):
        """If the symbol names are unknown, the addresses come from the capsules of SciPy's Cython modules."""
        for module, names in (("cython_blas", table.NAMES), ("cython_lapack", ("dpotrf", "sgetrf"))):
            shown = table.scipy_addresses(module, names)
            with mock.patch.object(table, "_SYMBOLS", ("nobodys_%s_name",)):
                lent = table.scipy_addresses(module, names)
            self.assertEqual(list(lent), list(shown))
            self.assertTrue(all(lent.values()) and all(shown.values()))

    def test_no_file(self):
        with mock.patch.object(table, "_scipy_file", lambda module: None):
            self.assertEqual(len(table.scipy_addresses("cython_blas", ("dgemm",))), 1)


class Rules(unittest.TestCase):
    def test_momentum_update_is_one_gemm_in_place(self):
        rng = np.random.RandomState(5)
        v0, xv, yv = rng.rand(3, 4), rng.rand(3, 2), rng.rand(2, 4)
        v = theano.shared(v0)
        x, y = T.dmatrices("x", "y")
        f = function([x, y], [], updates=[(v, 0.9 * v - 0.1 * T.dot(x, y))])
        self.assertEqual(op_names(f), ["Gemm{inplace}"])
        f(xv, yv)
        np.testing.assert_allclose(v.get_value(), 0.9 * v0 - 0.1 * xv.dot(yv))

    def test_scaled_sums(self):
        rng = np.random.RandomState(6)
        values = dict(x=rng.rand(3, 2), y=rng.rand(2, 4), z=rng.rand(3, 4), w=rng.rand(3, 4), a=np.float64(0.3))
        x, y, z, w = T.dmatrices("x", "y", "z", "w")
        a = T.dscalar("a")
        n = values
        cases = [
            (z + T.dot(x, y), n["z"] + n["x"].dot(n["y"])),
            (z - a * T.dot(x, y), n["z"] - n["a"] * n["x"].dot(n["y"])),
            (a * T.dot(x, y) + 2 * z - w, n["a"] * n["x"].dot(n["y"]) + 2 * n["z"] - n["w"]),
            (-(T.dot(x, y) * 3) + z * a, -3 * n["x"].dot(n["y"]) + n["z"] * n["a"]),
        ]
        inputs = [x, y, z, w, a]
        f = function(inputs, [expression for expression, _ in cases], on_unused_input="ignore")
        results = f(*[values[v.name] for v in inputs])
        for got, (_, want) in zip(results, cases):
            np.testing.assert_allclose(got, want)
        for expression, _ in cases:
            g = function(inputs, expression, on_unused_input="ignore")
            self.assertEqual(sum(name.startswith("Gemm") for name in op_names(g)), 1, op_names(g))
            self.assertFalse(any("Dot22" in name for name in op_names(g)))

    def test_scaled_sums_of_several_dtypes(self):
        rng = np.random.RandomState(7)
        x, y = T.dmatrices("x", "y")
        f, s, v = T.fmatrix("f"), T.dscalar("s"), T.fvector("v")
        b, u = T.bmatrix("b"), T.matrix("u", dtype="uint8")
        values = {
            "x": rng.rand(3, 3),
            "y": rng.rand(3, 3),
            "f": rng.rand(3, 3).astype("float32"),
            "s": 0.1,
            "v": rng.rand(3).astype("float32"),
            "b": np.full((3, 3), -128, "int8"),
            "u": np.full((3, 3), 3, "uint8"),
        }
        inputs = [x, y, f, s, v, b, u]
        for expression in (
            T.dot(f, f) * s + f,
            f - T.outer(v, v) * s,
            x + T.dot(x, y) - b,
            T.dot(x, y) - u + y,
            y - 0.1 * f + T.dot(x, y),
            T.dot(x, y) + x - (b + b),
            T.dot(x, y) + x * s - s * u,
            T.dot(f, f) * 0.5 + f + x,
        ):
            results = [
                theano.function(inputs, expression, mode=theano.Mode("py", optimizer), on_unused_input="ignore")(
                    *[values[i.name] for i in inputs]
                )
                for optimizer in ("fast_run", None)
            ]
            self.assertEqual(results[0].dtype, results[1].dtype)
            np.testing.assert_allclose(*results, rtol=1e-6)

    def test_terms_of_one_matrix_are_one_term(self):
        # Name -> (sum of the product p and the matrix or vector z, number of Gemm or Gemv nodes that compute the whole
        # sum)
        sums = {
            "weight decay": (lambda z, p, q, a, b: z - a * (p + b * z), 1),
            "constants": (lambda z, p, q, a, b: z - 0.5 * (p + 0.25 * z), 1),
            "twice": (lambda z, p, q, a, b: z + z + p, 1),
            "apart": (lambda z, p, q, a, b: (z + p) + a * z, 1),
            "product twice": (lambda z, p, q, a, b: p + z - a * p, 1),
            "two products": (lambda z, p, q, a, b: a * z + p + b * (q - z), 2),
            "nested": (lambda z, p, q, a, b: a * z - b * (0.5 * p - a * (z - 3 * p)), 1),
        }
        rng = np.random.RandomState(11)
        for dtype, vectors in itertools.product(TOL, (False, True)):
            x, u = T.matrix("x", dtype), T.matrix("u", dtype)
            y, w, z = [T.vector(n, dtype) if vectors else T.matrix(n, dtype) for n in "ywz"]
            a, b = T.scalar("a", dtype), T.scalar("b", dtype)
            inputs = [x, y, u, w, z, a, b]
            values = [random(rng, dtype, *(3,) * i.ndim) for i in inputs]
            for name, (build, count) in sums.items():
                with self.subTest(name, dtype=dtype, vectors=vectors):
                    expression = build(z, T.dot(x, y), T.dot(u, w), a, b)
                    f, plain = [
                        function(inputs, expression, mode=theano.Mode("py", rules), on_unused_input="ignore")
                        for rules in ("fast_run", None)
                    ]
                    np.testing.assert_allclose(f(*values), plain(*values), rtol=TOL[dtype], atol=TOL[dtype])
                    large = [n for n in f.maker.fgraph.toposort() if n.outputs[0].ndim]
                    self.assertEqual([n for n in op_names(f) if "Gem" in n], [str(n.op) for n in large], large)
                    self.assertEqual(len(large), count)

    def test_outer_products_are_added_to_others(self):
        rng = np.random.RandomState(12)
        for dtype in TOL:
            x, y, z = [T.matrix(n, dtype) for n in "xyz"]
            v, w, a = T.vector("v", dtype), T.vector("w", dtype), T.scalar("a", dtype)
            inputs = [x, y, z, v, w, a]
            values = [random(rng, dtype, *(3,) * i.ndim) for i in inputs]
            for expression in (
                T.outer(v, w) + T.dot(x, y),
                T.dot(x, y) - a * T.outer(v, w),
                a * T.outer(v, w) + T.dot(x, y) + z,
                T.outer(v, w) + a * T.dot(x, y),
            ):
                f, plain = [
                    function(inputs, expression, mode=theano.Mode("py", rules), on_unused_input="ignore")
                    for rules in ("fast_run", None)
                ]
                np.testing.assert_allclose(f(*values), plain(*values), rtol=TOL[dtype], atol=TOL[dtype])
                self.assertFalse([name for name in op_names(f) if "Alloc" in name], op_names(f))

    def test_terms_that_cancel_or_are_used_elsewhere_stay(self):
        x, y, z = T.dmatrices("x", "y", "z")
        product = T.dot(x, y)
        values = [np.arange(1.0, 5).reshape(2, 2) + i for i in range(3)]
        # The canonicalization, which would cancel the terms first, is off.
        only_blas = theano.Mode("py", theano.gof.Query(include=["BlasOpt"]))
        f = function([x, y, z], z + product - z, mode=only_blas)
        np.testing.assert_allclose(f(*values), values[0].dot(values[1]))
        values[2][0, 0] = np.nan
        self.assertTrue(np.isnan(f(*values)[0, 0]))
        f = function([x, y, z], [z + product + product, product])
        self.assertEqual(sum("Dot22" in name or "Gemm" in name for name in op_names(f)), 1)

    def test_a_shared_product_is_not_computed_twice(self):
        x, y, z = T.dmatrices("x", "y", "z")
        d = T.dot(x, y)
        f = function([x, y, z], [d, z + d])
        self.assertEqual(sum("Dot22" in name or "Gemm" in name for name in op_names(f)), 1)

    def test_dot22scalar(self):
        x, y = T.dmatrices("x", "y")
        f = function([x, y], T.dot(x, y) * 0.5)
        self.assertEqual(op_names(f), ["Dot22Scalar"])
        np.testing.assert_allclose(f(np.eye(2), [[1.0, 2.0], [3.0, 4.0]]), [[0.5, 1.0], [1.5, 2.0]])

    def test_products_with_vectors(self):
        m, v, w = T.dmatrix("m"), T.dvector("v"), T.dvector("w")
        f = function([m, v], [T.dot(m, v), T.dot(v, m)])
        self.assertEqual(sum("Gemv" in name for name in op_names(f)), 2)
        a = np.arange(6.0).reshape(2, 3)
        g = function([m, v, w], [T.dot(m, v), T.dot(w, m), T.dot(v, v), T.outer(w, v)])
        for got, want in zip(
            g(a, [1.0, 2.0, 3.0], [1.0, -1.0]),
            (a.dot([1.0, 2.0, 3.0]), np.array([1.0, -1.0]).dot(a), 14.0, np.outer([1.0, -1.0], [1.0, 2.0, 3.0])),
        ):
            np.testing.assert_allclose(got, want)

    def test_integers_stay_dot(self):
        x, y = T.imatrices("x", "y")
        f = function([x, y], T.dot(x, y), mode="FAST_COMPILE")
        self.assertEqual(op_names(f), ["dot"])
        self.assertEqual(f([[1, 2]], [[3], [4]]).tolist(), [[11]])


class SumsOfProducts(unittest.TestCase):
    """Tests of the functions that turn a sum of scaled matrices into a Gemm."""

    def setUp(self):
        self.x, self.y, self.z = T.dmatrices("x", "y", "z")
        self.a, self.b, self.c = T.dscalars("a", "b", "c")

    def test_terms(self):
        x, y, z, a, b, c, v = self.x, self.y, self.z, self.a, self.b, self.c, T.dvector("v")
        self.assertEqual(blas._gemm_canonicalize(x + y + z, 1.0, [], 0), [(1.0, x), (1.0, y), (1.0, z)])
        self.assertEqual(blas._gemm_canonicalize(-(x - y) - (-z), 1.0, [], 0), [(-1.0, x), (1.0, y), (1.0, z)])
        found = blas._gemm_canonicalize(x - (y + v), 1.0, [(2.0, z)], 0)
        self.assertEqual(found[:3], [(2.0, z), (1.0, x), (-1.0, y)])
        self.assertEqual((found[3][0], found[3][1].owner.inputs), (-1.0, [v]))
        (first, of_x), second, (third, of_z) = blas._gemm_canonicalize(-a * x + y - b * z * c, 1.0, [], 0)
        self.assertEqual((of_x, second, of_z), (x, (1.0, y), z))
        values = {a: 2.0, b: 3.0, c: 5.0}
        self.assertEqual(
            [
                float(s.eval({v: values[v] for v in theano.gof.graph.inputs([s]) if v in values}))
                for s in (first, third)
            ],
            [-2.0, -15.0],
        )
        (scale, _), (other, _) = blas._gemm_canonicalize(x - 3 * y, a, [], 0)
        self.assertEqual((scale, other.eval({a: 2.0})), (a, -6.0))
        fgraph = theano.gof.FunctionGraph([x, y], [T.exp(shared := x + y), T.sqr(shared)], clone=False)
        self.assertEqual(len(fgraph.outputs[0].owner.inputs[0].clients), 2)
        for most, terms in ((0, [x, y]), (1, [shared]), (2, [x, y])):
            self.assertEqual(blas._gemm_canonicalize(shared, 1.0, [], most), [(1.0, term) for term in terms])
            found = blas._gemm_canonicalize(shared, a, [(2.0, z)], most)
            self.assertEqual(found, [(2.0, z), *((a, term) for term in terms)])
        integers = T.imatrix()
        self.assertEqual(blas._gemm_canonicalize(integers, 1.0, [], 0), [integers])

    def test_terms_of_one_matrix_are_merged(self):
        x, y, a, b = self.x, self.y, self.a, self.b
        self.assertEqual(blas._factor_canonicalized([(1.0, x), (1.0, y), (1.0, x)]), [(2.0, x), (1.0, y)])
        self.assertEqual(blas._factor_canonicalized([x, (2.0, y)]), [x, (2.0, y)])
        ((scale, matrix),) = blas._factor_canonicalized([(a, x), x, (b, x)])
        self.assertEqual((scale.eval({a: 2.0, b: 5.0}), matrix), (8.0, x))

    def test_one_gemm(self):
        x, y, z, a, b = self.x, self.y, self.z, self.a, self.b
        product = blas._dot22(x, y)
        rng = np.random.RandomState(4)
        values = {v: rng.rand(3, 3) for v in (x, y, z)}
        values.update({a: 0.5, b: -2.0})
        dot = values[x].dot(values[y])

        def check(found, want):
            (new,), old = found
            self.assertIs(old, product)
            self.assertTrue(
                any(isinstance(n.op, blas.Gemm) for n in theano.gof.graph.io_toposort([x, y, z, a, b], [new]))
            )
            f = theano.function([x, y, z, a, b], new, mode=theano.Mode("py", None), on_unused_input="ignore")
            np.testing.assert_allclose(f(*[values[v] for v in (x, y, z, a, b)]), want)

        check(blas._beta_L_plus_alpha_M(b, z, a, product), -2 * values[z] + 0.5 * dot)
        check(blas._beta_L_plus_alpha_M(a, product, 3.0, z), 3 * values[z] + 0.5 * dot)
        self.assertEqual(blas._beta_L_plus_alpha_M(a, product, 3.0, z, recurse_flip=False), (False, False))
        self.assertEqual(blas._beta_L_plus_alpha_M(a, x, 3.0, z), (False, False))
        check(blas._gemm_from_factored_list([(a, z), (1.0, product), x]), 0.5 * values[z] + dot + values[x])
        self.assertIsNone(blas._gemm_from_factored_list([(a, z), x]))
        # No other term has the type of the product, so there is no Gemm.
        for other in (T.drow(), T.dcol(), T.dvector()):
            self.assertIsNone(blas._gemm_from_factored_list([(a, other), (1.0, product)]))
            for pair in (((a, other), (b, product)), ((b, product), (a, other))):
                self.assertEqual(blas._beta_L_plus_alpha_M(*pair[0], *pair[1]), (False, False))
        found, *seconds = blas._gemm_from_node2((z - a * product + z).owner)
        check(found, 2 * values[z] - 0.5 * dot)
        self.assertTrue(len(seconds) == 3 and min(seconds) >= 0)
        self.assertIsNone(blas._gemm_from_node2((x + y).owner)[0])


class BaseGemv:
    """Tests that products of matrices and vectors become `gemv`, or `gemv_inplace` if they update a shared variable.

    This class is a mixin of a TestCase.

    A subclass for other Ops or another device sets `gemv`, `gemv_inplace`, `mode`, `dtype`, and `shared`, which makes a
    shared variable.
    """

    mode = theano.compile.get_default_mode().including("fast_run").excluding("c_blas", "gpu")
    dtype = "float64"
    gemv = blas.gemv_no_inplace
    gemv_inplace = blas.gemv_inplace

    @staticmethod
    def shared(value):
        return theano.shared(value)

    def value(self, *shape):
        return np.random.RandomState(sum(shape)).uniform(-1, 1, shape).astype(self.dtype)

    def check(self, expressions, wanted, updates=(), gemv=None):
        """Compile and compare the results; check that the graph has Gemv nodes and no other products."""
        f = function([], expressions, updates=list(updates), mode=self.mode)
        ops = [node.op for node in f.maker.fgraph.toposort()]
        self.assertIn(gemv or self.gemv_inplace, ops)
        self.assertFalse(any(isinstance(op, (T.Dot, blas.Gemm, blas.Dot22)) for op in ops), ops)
        for got, want in zip(f(), wanted):
            np.testing.assert_allclose(got, want, rtol=TOL[self.dtype], atol=TOL[self.dtype])
        return f

    def test_dot(self):
        m, v, w = self.value(4, 3), self.value(3), self.value(4)
        for layout in layouts(m):
            s, sv, sw = self.shared(np.array(layout, order="A")), self.shared(v), self.shared(w)
            self.check(
                [T.dot(s, sv), T.dot(sw, s), T.dot(s.T, sw), T.dot(s[::-1, ::2], sv[::2])],
                [m.dot(v), w.dot(m), w.dot(m), m[::-1, ::2].dot(v[::2])],
            )

    def test_scaled_sum(self):
        m, v, w = self.value(4, 3), self.value(3), self.value(4)
        s, sv, sw = self.shared(m), self.shared(v), self.shared(w)
        half = np.asarray(0.5, self.dtype)
        for expression, want in (
            (sw + T.dot(s, sv), w + m.dot(v)),
            (sw - half * T.dot(s, sv), w - half * m.dot(v)),
            (half * sw + T.dot(s, sv), half * w + m.dot(v)),
            (T.dot(sw, s) * 2 - sv, 2 * w.dot(m) - v),
        ):
            f = self.check([expression], [want], gemv=self.gemv)
            allowed = {self.gemv, self.gemv_inplace, T.DimShuffle((False,) * 2, [1, 0])}
            self.assertTrue({node.op for node in f.maker.fgraph.toposort()} <= allowed)

    def test_update(self):
        m, v, w = self.value(4, 3), self.value(3), self.value(4)
        s, sv, sw = self.shared(m), self.shared(v), self.shared(w)
        f = self.check([], [], updates=[(sw, sw + T.dot(s, sv))])
        self.assertEqual([node.op for node in f.maker.fgraph.toposort()], [self.gemv_inplace])
        f()
        np.testing.assert_allclose(sw.get_value(), w + 2 * m.dot(v), rtol=TOL[self.dtype])

    def test_without_rows_or_columns(self):
        for shape in ((0, 3), (3, 0), (0, 0)):
            s, v = self.shared(np.ones(shape, self.dtype)), self.shared(np.ones(shape[1], self.dtype))
            self.check([T.dot(s, v)], [np.zeros(shape[0])])

    def test_mismatch(self):
        f = function([], T.dot(self.shared(self.value(4, 3)), self.shared(self.value(4))), mode=self.mode)
        self.assertRaises(ValueError, f)


class GemvFloat64(BaseGemv, unittest.TestCase):
    pass


class GemvFloat32(BaseGemv, unittest.TestCase):
    dtype = "float32"


class CGemvFloat64(BaseGemv, unittest.TestCase):
    mode = theano.compile.get_default_mode().including("fast_run", "c_blas")
    gemv, gemv_inplace = ops.cgemv_no_inplace, ops.cgemv_inplace


class TestBlasStrides(unittest.TestCase):
    """Every BLAS Op on shared variables in each memory layout, also with one row or column.

    A subclass may set `dtype`, `mode` and `shared`.
    """

    dtype = "float64"
    mode = theano.compile.get_default_mode().including("fast_run").excluding("gpu")
    sizes = ((3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 5), (3, 1, 1), (1, 1, 1), (0, 4, 5), (3, 0, 5))

    @staticmethod
    def shared(value):
        return theano.shared(value)

    def check(self, expression, want, update_of=None):
        """Check the value that a function of shared variables returns, or stores in the shared variable `update_of`."""
        f = function(
            [], [] if update_of else expression, updates=[(update_of, expression)] if update_of else [], mode=self.mode
        )
        results = f()
        got = update_of.get_value() if update_of else results
        np.testing.assert_allclose(got, want, rtol=TOL[self.dtype], atol=TOL[self.dtype])

    def values(self, *shapes):
        rng = np.random.RandomState(11)
        return [random(rng, self.dtype, *shape) for shape in shapes]

    def strided(self, value):
        """Yield pairs of an expression, which slices or transposes a shared variable, and its value."""
        s, t = self.shared(value), self.shared(np.ascontiguousarray(value.T))
        yield s, value
        yield t.T, value
        yield s[::-1], value[::-1]
        yield t.T[::-1, ::-1], value[::-1, ::-1]
        wide = self.shared(np.repeat(value, 2, axis=1))
        yield wide[:, ::2], value
        yield wide[:, ::-2], value[:, ::-1]

    def test_dot22_and_dot22scalar(self):
        for m, k, n in self.sizes:
            x, y = self.values((m, k), (k, n))
            for (a, av), (b, bv) in zip(self.strided(x), reversed(list(self.strided(y)))):
                self.check(T.dot(a, b), av.dot(bv))
                self.check(np.asarray(3, self.dtype) * T.dot(a, b), 3 * av.dot(bv))

    def test_gemm(self):
        for m, k, n in self.sizes:
            x, y, z = self.values((m, k), (k, n), (m, n))
            for (a, av), (b, bv), (c, cv) in zip(self.strided(x), reversed(list(self.strided(y))), self.strided(z)):
                self.check(c - np.asarray(2, self.dtype) * T.dot(a, b), cv - 2 * av.dot(bv))
            target = self.shared(z)
            self.check(np.asarray(0.5, self.dtype) * target + T.dot(a, b), 0.5 * z + av.dot(bv), update_of=target)

    def test_gemv_and_ger(self):
        for m, _, n in self.sizes:
            x, y = self.values((m, n), (m, n))
            v, w = self.values((n,), (m,))
            sv, sw = self.shared(np.repeat(v, 2)), self.shared(np.repeat(w, 2))
            for a, av in self.strided(x):
                self.check(T.dot(a, sv[::2]), av.dot(v))
                self.check(T.dot(sw[::-2], a), w[::-1].dot(av))
                self.check(a + T.outer(sw[::2], sv[::-2]), av + np.outer(w, v[::-1]))


class Gradients(unittest.TestCase):
    def test_batched_dot(self):
        rng = np.random.RandomState(7)
        for xs, ys in (((3, 2, 4), (3, 4, 2)), ((3, 4), (3, 4, 2)), ((3, 2, 4), (3, 4)), ((3, 4), (3, 4))):
            theano.gradient.verify_grad(blas.batched_dot, [rng.rand(*xs), rng.rand(*ys)], rng=rng)

    def test_outer_products_of_stacks_are_elementwise(self):
        for ndims, products in (((3, 3), 2), ((2, 3), 1), ((3, 2), 1), ((2, 2), 0)):
            inputs = [T.TensorType("float64", (False,) * n)() for n in ndims]
            f = function(
                inputs, T.grad((blas.batched_dot(*inputs) * 0.5).sum(), inputs), mode=theano.Mode("py", "fast_run")
            )
            self.assertEqual(sum("BatchedDot" in name for name in op_names(f)), products, op_names(f))

    def test_accumulating_ops(self):
        rng = np.random.RandomState(8)
        theano.gradient.verify_grad(
            blas.gemm_no_inplace,
            [rng.rand(2, 3), np.float64(0.5), rng.rand(2, 4), rng.rand(4, 3), np.float64(2.0)],
            rng=rng,
        )
        theano.gradient.verify_grad(
            blas.gemv_no_inplace, [rng.rand(2), np.float64(0.5), rng.rand(2, 4), rng.rand(4), np.float64(2.0)], rng=rng
        )
        theano.gradient.verify_grad(blas.ger, [rng.rand(2, 3), np.float64(0.5), rng.rand(2), rng.rand(3)], rng=rng)
        theano.gradient.verify_grad(blas._dot22scalar, [rng.rand(2, 3), rng.rand(3, 2), np.float64(0.5)], rng=rng)


if __name__ == "__main__":
    unittest.main()
