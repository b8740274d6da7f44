"""BLAS Ops against NumPy in every memory layout, and the rules that put them into graphs."""
import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor import blas

TOL = {"float32": 1e-4, "float64": 1e-11, "complex64": 1e-4, "complex128": 1e-11}


def run(op, *values):
    """The native code and perform of an Op, each on a fresh copy of the first value; returns both results."""
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
    """A copy with the strides of `a`."""
    base = np.empty_like(a) if a.flags.forc else None
    if base is None:
        base = np.zeros([2 * n + 2 for n in a.shape], a.dtype)[tuple(slice(1, 2 * n + 1, 2) for n in a.shape)]
    base[...] = a
    return base


def layouts(a):
    """The same matrix in C and Fortran order, sliced, reversed, and misaligned."""
    yield a
    yield np.asfortranarray(a)
    wide = np.zeros((a.shape[0] * 2 + 1, a.shape[1] * 3 + 2), a.dtype)
    wide[:a.shape[0] * 2:2, 1:1 + a.shape[1]] = a
    yield wide[:a.shape[0] * 2:2, 1:1 + a.shape[1]]
    spread = np.zeros((a.shape[0], a.shape[1] * 3), a.dtype)
    spread[:, ::3] = a
    yield spread[:, ::3]
    yield np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
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
            np.testing.assert_allclose(got, want, rtol=TOL[values[0].dtype.name], atol=TOL[values[0].dtype.name],
                                       err_msg="%s %s" % (op, kind))
            self.assertEqual(got.dtype, values[0].dtype)

    def test_dot22_in_every_layout_and_dtype(self):
        rng = np.random.RandomState(1)
        for dtype in TOL:
            x, y = random(rng, dtype, 5, 4), random(rng, dtype, 4, 7)
            for a, b in itertools.product(layouts(x), layouts(y)):
                self.check(blas._dot22, x.dot(y), a, b)

    def test_dot22_without_rows_columns_or_inner_dimension(self):
        for m, k, n in itertools.product((0, 1, 3), repeat=3):
            x, y = np.ones((m, k)), np.ones((k, n))
            self.check(blas._dot22, x.dot(y), x, y)

    def test_few_columns(self):
        rng = np.random.RandomState(9)
        for dtype, (m, k), n in itertools.product(("float32", "float64"), ((173, 401), (600, 128), (17, 4001)), (2, 5, 7, 10)):
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
        self.check(blas.gemm_inplace, 2 * np.ones((3, 2)), np.ones((3, 2)), np.asarray(1.), inner, np.ones((0, 2)), np.asarray(2.))

    def test_zero_beta_does_not_read_the_target(self):
        nan = np.full((2, 2), np.nan)
        self.check(blas.gemm_inplace, np.full((2, 2), 3.0), nan, np.asarray(1.), np.ones((2, 3)), np.ones((3, 2)), np.asarray(0.))
        self.check(blas.gemv_inplace, np.full(2, 3.0), nan[0], np.asarray(1.), np.ones((2, 3)), np.ones(3), np.asarray(0.))
        self.check(blas.gemv_inplace, np.zeros(2), nan[0], np.asarray(1.), np.ones((2, 0)), np.ones(0), np.asarray(0.))

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

    def test_gemv_of_large_matrices(self):
        rng = np.random.RandomState(12)
        for dtype, (m, n) in itertools.product(("float32", "float64"), ((3, 4200), (4200, 5), (67, 41), (1, 33), (33, 1))):
            a, x, y = random(rng, dtype, m, n), random(rng, dtype, 2 * n), random(rng, dtype, 2 * m)
            alpha, beta, zero = np.asarray(2, dtype), np.asarray(-0.5, dtype), np.asarray(0, dtype)
            for aa, xx, yy in itertools.product((a, np.asfortranarray(a)), (x[:n], x[::2], x[::-2]), (y[:m], y[1::2], y[m - 1::-1])):
                for op in (blas.gemv_no_inplace, blas.gemv_inplace):
                    self.check(op, beta * yy + alpha * aa.dot(xx), yy, alpha, aa, xx, beta)
                self.check(blas.gemv_inplace, alpha * aa.dot(xx), np.full_like(yy, np.nan), alpha, aa, xx, zero)
            # A factor of zero does not look at the matrix.
            self.check(blas.gemv_inplace, beta * y[:m], y[:m], zero, np.full_like(a, np.nan), x[:n], beta)

    def test_batched_dot(self):
        rng = np.random.RandomState(4)
        for dtype in TOL:
            x, y = random(rng, dtype, 5, 2, 3), random(rng, dtype, 5, 3, 4)
            self.check(blas.batched_dot, np.matmul(x, y), x, y)
            self.check(blas.batched_dot, np.matmul(x[::2], y[::-2]), x[::2], y[::-2])
            # Stacks of vectors, and matrices on both sides of what has loops of its own.
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
            with self.assertRaisesRegex(TypeError, r"Shape mismatch: %s unequal. x.shape is \(3, 2, 4\), y.shape is" % what):
                run(blas.batched_dot, *map(np.ones, shapes))

    def test_in_place_really_is(self):
        z = np.ones((2, 2))
        node = blas.gemm_inplace.make_node(*[T.TensorType("float64", (False,) * n)() for n in (2, 0, 2, 2, 0)])
        cells, out = [[v] for v in (z, np.asarray(1.), np.eye(2), np.eye(2), np.asarray(1.))], [[None]]
        make_native_thunk(node, blas.gemm_inplace.native_code(node), cells, out)()
        self.assertIs(out[0][0], z)
        np.testing.assert_array_equal(z, [[2, 1], [1, 2]])

    def test_mismatched_shapes_and_types(self):
        with self.assertRaisesRegex(ValueError, r"Shape mismatch: x has 3 cols \(and 2 rows\) but y has 4 rows \(and 5 cols\)"):
            run(blas._dot22, np.ones((2, 3)), np.ones((4, 5)))
        with self.assertRaisesRegex(TypeError, "one dtype"):
            blas._dot22(T.dmatrix(), T.fmatrix())
        with self.assertRaisesRegex(TypeError, "must have 2 dimensions"):
            blas._dot22(T.dmatrix(), T.dvector())
        z = np.ones((2, 2))
        z.flags.writeable = False
        node = blas.gemm_inplace.make_node(*[T.TensorType("float64", (False,) * n)() for n in (2, 0, 2, 2, 0)])
        with self.assertRaises(ValueError):
            make_native_thunk(node, blas.gemm_inplace.native_code(node),
                              [[v] for v in (z, np.asarray(1.), z, z, np.asarray(1.))], [[None]])()
        np.testing.assert_array_equal(z, 1)


def op_names(f):
    return [str(node.op) for node in f.maker.fgraph.toposort()]


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
        values = {"x": rng.rand(3, 3), "y": rng.rand(3, 3), "f": rng.rand(3, 3).astype("float32"), "s": 0.1, "v": rng.rand(3).astype("float32"),
                  "b": np.full((3, 3), -128, "int8"), "u": np.full((3, 3), 3, "uint8")}
        inputs = [x, y, f, s, v, b, u]
        for expression in (T.dot(f, f) * s + f, f - T.outer(v, v) * s, x + T.dot(x, y) - b, T.dot(x, y) - u + y, y - 0.1 * f + T.dot(x, y),
                           T.dot(x, y) + x - (b + b), T.dot(x, y) + x * s - s * u, T.dot(f, f) * 0.5 + f + x):
            results = [theano.function(inputs, expression, mode=theano.Mode("py", optimizer), on_unused_input="ignore")(
                *[values[i.name] for i in inputs]) for optimizer in ("fast_run", None)]
            self.assertEqual(results[0].dtype, results[1].dtype)
            np.testing.assert_allclose(*results, rtol=1e-6)

    def test_a_shared_product_is_not_computed_twice(self):
        x, y, z = T.dmatrices("x", "y", "z")
        d = T.dot(x, y)
        f = function([x, y, z], [d, z + d])
        self.assertEqual(sum("Dot22" in name or "Gemm" in name for name in op_names(f)), 1)

    def test_dot22scalar(self):
        x, y = T.dmatrices("x", "y")
        f = function([x, y], T.dot(x, y) * 0.5)
        self.assertEqual(op_names(f), ["Dot22Scalar"])
        np.testing.assert_allclose(f(np.eye(2), [[1., 2.], [3., 4.]]), [[0.5, 1.], [1.5, 2.]])

    def test_products_with_vectors(self):
        m, v, w = T.dmatrix("m"), T.dvector("v"), T.dvector("w")
        f = function([m, v], [T.dot(m, v), T.dot(v, m)])
        self.assertEqual(sum("Gemv" in name for name in op_names(f)), 2)
        a = np.arange(6.).reshape(2, 3)
        g = function([m, v, w], [T.dot(m, v), T.dot(w, m), T.dot(v, v), T.outer(w, v)])
        for got, want in zip(g(a, [1., 2., 3.], [1., -1.]),
                             (a.dot([1., 2., 3.]), np.array([1., -1.]).dot(a), 14.0, np.outer([1., -1.], [1., 2., 3.]))):
            np.testing.assert_allclose(got, want)

    def test_integers_stay_dot(self):
        x, y = T.imatrices("x", "y")
        f = function([x, y], T.dot(x, y), mode="FAST_COMPILE")
        self.assertEqual(op_names(f), ["dot"])
        self.assertEqual(f([[1, 2]], [[3], [4]]).tolist(), [[11]])


class Gradients(unittest.TestCase):

    def test_batched_dot(self):
        rng = np.random.RandomState(7)
        for xs, ys in (((3, 2, 4), (3, 4, 2)), ((3, 4), (3, 4, 2)), ((3, 2, 4), (3, 4)), ((3, 4), (3, 4))):
            theano.gradient.verify_grad(blas.batched_dot, [rng.rand(*xs), rng.rand(*ys)], rng=rng)

    def test_accumulating_ops(self):
        rng = np.random.RandomState(8)
        theano.gradient.verify_grad(blas.gemm_no_inplace, [rng.rand(2, 3), np.float64(0.5), rng.rand(2, 4), rng.rand(4, 3),
                                                           np.float64(2.)], rng=rng)
        theano.gradient.verify_grad(blas.gemv_no_inplace, [rng.rand(2), np.float64(0.5), rng.rand(2, 4), rng.rand(4),
                                                           np.float64(2.)], rng=rng)
        theano.gradient.verify_grad(blas.ger, [rng.rand(2, 3), np.float64(0.5), rng.rand(2), rng.rand(3)], rng=rng)
        theano.gradient.verify_grad(blas._dot22scalar, [rng.rand(2, 3), rng.rand(3, 2), np.float64(0.5)], rng=rng)


if __name__ == "__main__":
    unittest.main()
