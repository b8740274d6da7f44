"""Tests of extra_ops against NumPy, and of `utils`."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import extra_ops as E
from theano_ng.tensor import utils
from theano_ng.tensor.reductions.cumulative import LinearRecurrence
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tests import unittest_tools as utt

RNG = np.random.RandomState(11)
X, T3, V = RNG.randn(3, 4), RNG.randn(2, 3, 4), RNG.randn(5)
I = np.array([1, 0, 3, 1])
x, t3, v = T.dmatrix(), T.dtensor3(), T.dvector()
i, k = T.lvector(), T.lscalar()


def run(outputs, linker="cvm"):
    f = theano.function([x, t3, v, i, k], outputs, mode=Mode(linker, None), on_unused_input="ignore")
    return f(X, T3, V, I, 2)


class TestAgainstNumPy(unittest.TestCase):
    def test_values(self):
        filled, tall, cube = X.copy(), X.T.copy(), np.zeros((3, 3, 3))
        np.fill_diagonal(filled, 2)
        np.fill_diagonal(tall, 2)
        np.fill_diagonal(cube, 2)
        below, above = X.copy(), X.copy()
        below[[1, 2], [0, 1]] = 2
        above[0, 3] = 2
        cases = [
            (E.cumsum(t3, 1), T3.cumsum(1)),
            (E.cumprod(x), X.cumprod()),
            (E.cumsum(x > 0, 0), (X > 0).cumsum(0)),
            (E.diff(x, 2, 0), np.diff(X, 2, 0)),
            (E.diff(x, 0), X),
            (E.diff(t3), np.diff(T3)),
            (E.bincount(i), np.bincount(I)),
            (E.bincount(i, v[:4], 6), np.bincount(I, V[:4], 6)),
            (E.bincount(i[:0], minlength=k), [0, 0]),
            (E.bincount(i[:0]), []),
            (E.compress([0, 1, 1], x, 0), X.compress([0, 1, 1], 0)),
            (E.compress(i, x), X.compress(I)),
            (E.repeat(x, 2), X.repeat(2)),
            (E.repeat(x, k, 1), X.repeat(2, 1)),
            (E.repeat(x, i[:3], 0), X.repeat(I[:3], 0)),
            (E.repeat(x, [2], -1), X.repeat(2, -1)),
            (E.RepeatOp(0)(x, i[2:3]), X.repeat(3, 0)),
            (E.bartlett(5), [0, 0.5, 1, 0.5, 0]),
            (E.bartlett(k - 2), []),
            (E.fill_diagonal(x, 2), filled),
            (E.fill_diagonal(x.T, 2), tall),
            (E.fill_diagonal(T.zeros((3, 3, 3)), k), cube),
            (E.fill_diagonal_offset(x, 2, -1), below),
            (E.fill_diagonal_offset(x, 2, 3), above),
            (E.fill_diagonal_offset(x, 2, -9), X),
            (E.to_one_hot(i, 4), np.eye(4)[I]),
            (E.to_one_hot(T.gt(i, 1), 2), np.eye(2)[(I > 1).astype(int)]),
            (E.searchsorted([1, 2, 3, 4, 5], 3), 2),
            (E.searchsorted([1, 2, 3, 4, 5], 3, side="right"), 3),
            (E.searchsorted([1, 2, 3, 4, 5], [-10, 10, 2, 3]), [0, 5, 1, 2]),
            (E.searchsorted(v, x, sorter=T.argsort(v)), np.searchsorted(V, X, sorter=np.argsort(V))),
            (E.unravel_index(i, (2, 2))[1], np.unravel_index(I, (2, 2))[1]),
            (E.unravel_index(i, (2, 2), order="F")[0], np.unravel_index(I, (2, 2), order="F")[0]),
            (E.ravel_multi_index((i, i), (4, 4)), np.ravel_multi_index((I, I), (4, 4))),
            (
                E.ravel_multi_index((i * 5 - 1, i), (4, 4), ("clip", "wrap"), "F"),
                np.ravel_multi_index((I * 5 - 1, I), (4, 4), ("clip", "wrap"), "F"),
            ),
            (E.cpu_contiguous(x.T), X.T),
        ]
        for linker in ("py", "cvm"):
            for (variable, wanted), result in zip(cases, run([c[0] for c in cases], linker)):
                np.testing.assert_allclose(result, wanted, err_msg=str(variable.owner))
                assert result.shape == np.shape(wanted), variable.owner
        assert run([E.cpu_contiguous(x.T)])[0].flags.c_contiguous

    def test_unique(self):
        for values in ([1, 2, 3, 4, 3, 2, 1], [[1, 1, 1], [2, 3, 3]]):
            values = T.constant(np.array(values))
            found = theano.function([], E.Unique(True, True, True)(values))()
            wanted = np.unique(values.data.ravel(), True, True, True)
            for a, b in zip(found, wanted):
                np.testing.assert_array_equal(a, b)
            assert E.Unique()(values).eval().tolist() == wanted[0].tolist()
        rows = np.array([[1, 2], [3, 4], [1, 2]])
        found = theano.function([], E.Unique(False, True, axis=0)(rows))()
        assert found[0].tolist() == [[1, 2], [3, 4]]
        assert found[1].tolist() == [0, 1, 0]

    def test_coordinates_that_broadcast(self):
        """Coordinates of different shapes are broadcast against each other."""
        rng = np.random.RandomState(5)
        dims = 4, 7, 5
        for shapes in itertools.product(((), (1,), (6,), (3, 1), (1, 6), (3, 6), (700, 1, 1)), repeat=2):
            places = [rng.randint(0, n, shape) for n, shape in zip(dims, (shapes[0], shapes[1], (6,)))]
            symbols = [T.TensorType("int64", (False,) * p.ndim)() for p in places]
            for order in "CF":
                out = E.ravel_multi_index(symbols, dims, order=order)
                values = {**dict(zip(symbols, places)), out.owner.inputs[-1]: np.array(dims)}
                want = np.ravel_multi_index(np.broadcast_arrays(*places), dims, order=order)
                np.testing.assert_array_equal(run_node(out, values, "c")[0], want)

    def test_no_coordinates_in_large_shapes(self):
        """`ravel_multi_index` accepts empty coordinates and arbitrarily long dimensions if one length is zero."""
        none = np.zeros(0, "int64")
        for dims in ((0, 3), (3, 0), (2**40, 2**40, 0)):
            symbols = [T.lvector() for _ in dims]
            out = E.ravel_multi_index(symbols, dims)
            values = {**dict.fromkeys(symbols, none), out.owner.inputs[-1]: np.array(dims)}
            np.testing.assert_array_equal(run_node(out, values, "c")[0], np.ravel_multi_index([none] * len(dims), dims))

    def test_types(self):
        assert E.squeeze(T.drow()).type == T.dvector
        assert E.squeeze(x) is x
        self.assertRaises(ValueError, T.dmatrix().dimshuffle, 0)
        assert E.CumsumOp(axis=1) == E.CumOp(axis=1, mode="add")
        assert E.CumprodOp() == E.CumOp(mode="mul")
        assert E.cumsum(T.bvector()).dtype == "int8"
        with theano.config.change_flags(floatX="float32"):
            assert E.to_one_hot(i, 3).dtype == "float32"

    def test_totals_of_many_columns(self):
        """Cumulative sums and products agree with NumPy for column counts near multiples of the block width.

        The dtypes have item sizes from 1 to 16 bytes.
        """
        for dtype in ("int8", "uint16", "int32", "int64", "float32", "float64", "complex64", "complex128"):
            for columns in (511, 512, 513, 1024, 1600):
                values = (np.arange(3 * columns) % 5 - 2).reshape(3, columns).astype(dtype)
                variable = T.TensorType(dtype, (False, False))()
                for total, known in ((E.cumsum, np.cumsum), (E.cumprod, np.cumprod)):
                    out = total(variable, 0)
                    np.testing.assert_array_equal(
                        run_node(out, {variable: values}, "c")[0], known(values, 0, dtype=out.dtype)
                    )

    def test_errors(self):
        for error, function, args in (
            (ValueError, E.cumsum, (x, 2)),
            (ValueError, E.diff, (x, -1)),
            (ValueError, E.CumOp, (0, "div")),
            (TypeError, E.bincount, (x,)),
            (TypeError, E.bincount, (v,)),
            (ValueError, E.repeat, (x, [[1]])),
            (TypeError, E.repeat, (x, 1.5)),
            (TypeError, E.bartlett, (v,)),
            (TypeError, E.bartlett, (2.5,)),
            (TypeError, E.fill_diagonal, (v, 1)),
            (TypeError, E.fill_diagonal, (T.lmatrix(), 1.5)),
            (TypeError, E.fill_diagonal_offset, (t3, 1, 0)),
            (TypeError, E.fill_diagonal_offset, (x, 1, 0.5)),
            (ValueError, E.SearchsortedOp, ("middle",)),
            (TypeError, E.searchsorted, (v, v, "left", v)),
            (ValueError, E.unravel_index, (i, i)),
            (TypeError, E.unravel_index, (v, (2, 2))),
            (TypeError, E.ravel_multi_index, (i, (4,))),
            (ValueError, E.ravel_multi_index, ((i,), (4,), "up")),
            (ValueError, E.ravel_multi_index, ((i,), (4,), "wrap", "A")),
        ):
            self.assertRaises(error, function, *args)
        f = theano.function([i], E.bincount(i, assert_nonneg=True))
        self.assertRaises(AssertionError, f, [1, -1])
        f = theano.function([i], E.ravel_multi_index((i,), (3,)))
        self.assertRaises(ValueError, f, [3])

    def test_coordinates_out_of_bounds(self):
        """The error of `ravel_multi_index` names the first bad coordinate, at any position, and its axis."""
        j = T.lvector()
        f = theano.function([i, j], E.ravel_multi_index((i, j), (3, 5)), mode=theano.Mode("cvm", None))
        good = np.array([0, 2, 1, 0] * 600)
        for where in (0, 1, 3, 2399):
            for bad, axis, length in ((3, 0, 3), (-1, 0, 3), (5, 1, 5), (2**40, 1, 5)):
                pair = [good.copy(), good.copy()]
                pair[axis][where:] = bad
                says = "coordinate %d of axis %d is out of bounds for a length of %d" % (bad, axis, length)
                with self.assertRaisesRegex(ValueError, says):
                    f(*pair)
        np.testing.assert_array_equal(f(good, good), np.ravel_multi_index((good, good), (3, 5)))

    def test_gradients(self):
        for function in (
            lambda a: E.cumsum(a, 0),
            lambda a: E.cumprod(a),
            lambda a: E.cumprod(a, -1),
            lambda a: E.diff(a, 2),
            lambda a: E.diff(a, 1, 0),
            lambda a: E.repeat(a, [2, 0, 1], 0),
            lambda a: E.repeat(a, 3),
            lambda a: E.RepeatOp()(a, 2),
            lambda a: T.diagonal(a, 1),
            lambda a: T.diagonal(a.T, -1),
            lambda a: T.diag(a[0], -1),
            lambda a: E.cpu_contiguous(a.T),
        ):
            utt.verify_grad(function, [X])
        utt.verify_grad(lambda a: T.diagonal(a, 2, 2, 1), [T3])

    def test_cumulative_products_through_zeros(self):
        values = np.random.RandomState(3).randn(4, 6, 3)
        for zeros in ([], [(0, 0, 0)], [(1, 2, 0), (1, 2, 1)], [(2, 3, 1), (2, 5, 1), (2, 4, 2), (3, 3, 1)]):
            a = values.copy()
            for place in zeros:
                a[place] = 0
            for axis in (None, 0, 1, -1):
                utt.verify_grad(lambda x: E.cumprod(x, axis), [a], mode="FAST_RUN")
        # Test the gradient of a cumulative product with two zeros, and the derivative of this gradient.
        x = T.dvector()
        p, q, r = 2.0, 3.0, 5.0
        value = np.array([p, 0.0, q, 0.0, r])
        gradient = theano.grad(E.cumprod(x).sum(), x)
        np.testing.assert_allclose(gradient.eval({x: value}), [1, p + p * q, 0, 0, 0], rtol=1e-14)
        second = theano.grad(gradient[1], x)
        # These are the derivatives of gradient[1], which is x0 * (1 + x2 + x2 * x3 + x2 * x3 * x4).
        np.testing.assert_allclose(second.eval({x: value}), [1 + q, 0, p, p * q * (1 + r), 0], rtol=1e-14)
        step = np.array([1.0, 2.0, 0.5, -1.0, 3.0])
        moved = T.Rop(E.cumprod(x), x, T.constant(step)).eval({x: value})
        np.testing.assert_allclose(moved, [1, p * 2, p * q * 2, 0, 0], rtol=1e-14)

    def test_linear_recurrences(self):
        rng = np.random.RandomState(4)
        for dtype in ("float16", "float32", "float64", "complex64", "complex128"):
            a, b = (T.TensorType(dtype, (False,) * 3)() for _ in range(2))
            for axis in range(3):
                for mode in ("FAST_RUN", theano.Mode("py", None)):
                    f = theano.function([a, b], LinearRecurrence(axis)(a, b), mode=mode)
                    for shape in ((3, 5, 4), (3, 0, 4), (1, 1, 1)):
                        x, y = (rng.uniform(-1, 1, shape).astype(dtype) for _ in range(2))
                        expected = y.astype("complex128")
                        for k in range(1, shape[axis]):
                            here, before = (
                                tuple(j if i == axis else slice(None) for i in range(3)) for j in (k, k - 1)
                            )
                            expected[here] += x[here] * expected[before]
                        result = f(x.T.copy().T, y[:, ::-1][:, ::-1])
                        self.assertEqual(result.dtype, dtype)
                        np.testing.assert_allclose(
                            result,
                            expected,
                            rtol=1e-2 if dtype == "float16" else 1e-4,
                            atol=1e-2 if dtype == "float16" else 1e-6,
                        )
                    self.assertRaises(ValueError, f, np.ones((2, 2, 2), dtype), np.ones((2, 1, 2), dtype))
        self.assertRaises(TypeError, LinearRecurrence(0), T.ivector(), T.ivector())
        self.assertRaises(TypeError, LinearRecurrence(1), T.dvector(), T.dvector())
        utt.verify_grad(LinearRecurrence(1), [X, X[:, ::-1]])
        x, y = T.dmatrices("x", "y")
        moved = T.Rop(LinearRecurrence(0)(x, y), [x, y], [T.ones_like(x), y])
        step = 1e-6
        value = lambda u, v: LinearRecurrence(0)(x, y).eval({x: u, y: v})
        difference = (value(X + step, X * (1 + step)) - value(X - step, X * (1 - step))) / (2 * step)
        np.testing.assert_allclose(moved.eval({x: X, y: X}), difference, rtol=1e-6, atol=1e-8)
        utt.verify_grad(E.fill_diagonal, [X, np.array(2.0)])
        utt.verify_grad(E.fill_diagonal, [RNG.randn(3, 3, 3), np.array(2.0)])
        for offset in (-1, 2):
            utt.verify_grad(lambda a, b: E.fill_diagonal_offset(a, b, offset), [X, np.array(2.0)])
        utt.verify_grad(lambda a, b: T.choose([2, 0, 0, 1], [a[0], b, a[1]]), [X, V[:4]])
        utt.verify_grad(lambda a: T.choose([[2, 0, 0, 1]] * 2, a), [X])


class TestUtils(unittest.TestCase):
    def test_hash(self):
        a = np.arange(6, dtype="int64")
        others = [a, a.view("uint64"), a.reshape(2, 3), a.reshape(3, 2), a.reshape(2, 3).T, a[:5], a + 1]
        hashes = [utils.hash_from_ndarray(b) for b in others]
        assert len(set(hashes)) == len(others)
        assert utils.hash_from_ndarray(a.copy()) == hashes[0]

    def test_shapes(self):
        a = T.dmatrix()
        b = a[512:]
        fgraph = theano.FunctionGraph([a], [b], clone=False)
        shapes = utils.shape_of_variables(fgraph, {a: (1024, 1024)})
        assert shapes[b] == (512, 1024) and shapes[a] == (1024, 1024)
        assert all(isinstance(n, np.ndarray) for n in shapes[b])
        self.assertRaises(ValueError, utils.shape_of_variables, fgraph, {})
        self.assertRaises(ValueError, utils.shape_of_variables, fgraph, {a: (3,)})
        a = T.dmatrix()
        c = T.nonzero(a)[0]
        fgraph = theano.FunctionGraph([a], [c], clone=False)
        self.assertRaises(ValueError, utils.shape_of_variables, fgraph, {a: (3, 4)})


if __name__ == "__main__":
    unittest.main()
