"""If an Op repeats a value whose type does not declare its length of one, the gradient has the shape of the value."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.traversal import ancestors
from theano_ng.tensor.shaping.allocation import SumToShape, sum_over_repeated, sum_to_shape
from theano_ng.tensor.tests.single_node import check_node, run_node

MODES = {"Python, as built": Mode("py", None), "FAST_COMPILE": "FAST_COMPILE", "FAST_RUN": "FAST_RUN"}
ROWS = np.array([0, 2, 2])

# Name, function that returns the part of x into which a value is written, shape of x, and shapes of the value.
INCREMENTS = [
    ("slice", lambda x: x[1:4], (6,), [(1,), (3,)]),
    ("everything", lambda x: x[:], (6,), [(1,), (6,)]),
    ("backwards", lambda x: x[::-2], (6,), [(1,), (3,)]),
    ("nothing", lambda x: x[4:2], (6,), [(1,), (0,)]),
    ("slices", lambda x: x[1:, 1:], (3, 4), [(1, 1), (2, 1), (1, 3), (2, 3), (1,), (3,)]),
    ("row", lambda x: x[1], (3, 4), [(1,), (4,)]),
    ("new axis", lambda x: x[1:, None], (6,), [(1, 1), (5, 1)]),
    ("rows", lambda x: x[ROWS], (3, 4), [(1, 1), (3, 1), (1, 4), (3, 4), (1,), (4,)]),
    ("elements", lambda x: x[ROWS, ROWS], (3, 4), [(1,), (3,)]),
    ("columns", lambda x: x[:, ROWS], (3, 4), [(1, 1), (3, 1), (1, 3), (3, 3), (1,)]),
    ("mask", lambda x: x[x > 0], (6,), [(1,)]),
    ("mask of a matrix", lambda x: x[T.as_tensor_variable(np.eye(3, 4) == 1)], (3, 4), [(1,), (3,)]),
    ("mask of rows", lambda x: x[T.as_tensor_variable(np.array([True, False, True]))], (3, 4), [(1, 1), (2, 1), (1, 4), (1,)]),
    ("take", lambda x: T.take(x, [[0, 1], [1, 2]]), (6,), [(1, 1), (1, 2), (2, 1), (2,), (1,)]),
    ("transposed rows", lambda x: x[ROWS].T, (3, 4), [(1, 1), (4, 1), (1, 3)]),
]  # fmt: skip


def unknown(shape, name=None):
    """Return a variable whose type declares no length."""
    return T.TensorType("float64", [False] * len(shape))(name)


def sums_of(*outputs):
    """Return the SumToShape nodes of the graph."""
    return [v.owner for v in ancestors(outputs) if v.owner is not None and isinstance(v.owner.op, SumToShape)]


class TestGradients(unittest.TestCase):
    def check(self, cases):
        """Check the gradients with respect to x and to the value y that is written into x.

        The result is linear in y, so a derivative is the change of the cost when an element of y grows by one.
        """
        rng = np.random.RandomState(3)
        built = []
        for _, make, x_shape, y_shape in cases:
            x, y = unknown(x_shape), unknown(y_shape)
            result = make(x, y)
            weights = T.arange(1.0, result.size + 1.0).reshape(result.shape, ndim=result.ndim)
            cost = T.sum(weights * result)
            gradients = T.grad(cost, [x, y], disconnected_inputs="ignore")
            built.append(([x, y], [cost, *gradients], [rng.randn(*x_shape), rng.randn(*y_shape)]))
        inputs, outputs, values = (sum(part, []) for part in zip(*built))
        for label, mode in MODES.items():
            f = theano.function(inputs, outputs, mode=mode, on_unused_input="ignore")
            found = f(*values)
            # Compute the expected gradients of all values by differences: change one element of each value at a time.
            expected = [np.full(case[3], np.nan) for case in cases]
            for k in range(max(e.size for e in expected)):
                moved = [v.copy() for v in values]
                for y, e in zip(moved[1::2], expected):
                    if k < e.size:
                        y.flat[k] += 1
                for e, after, before in zip(expected, f(*moved)[::3], found[::3]):
                    if k < e.size:
                        e.flat[k] = after - before
            for case, x, gx, gy, e in zip(cases, values[::2], found[1::3], found[2::3], expected):
                with self.subTest(case=case[0], shape=case[3], mode=label):
                    self.assertEqual((gx.shape, gy.shape), (x.shape, e.shape))
                    np.testing.assert_allclose(gy, e, rtol=1e-7, atol=1e-7)

    def test_increments(self):
        for write in (T.inc_subtensor, T.set_subtensor):
            cases = [
                (name, lambda x, y, part=part: write(part(x), y), x_shape, y_shape)
                for name, part, x_shape, y_shapes in INCREMENTS
                for y_shape in y_shapes
            ]
            self.check(cases)

    def test_rows_that_are_set_twice(self):
        """If a row is set several times, only the last value has a gradient.

        This holds also if one value is repeated for all rows.
        """
        self.check(
            [("repeated", lambda x, y: T.set_subtensor(x[[1, 1, 1]], y), (3, 4), s) for s in [(1, 1), (3, 1), (1, 4)]]
        )

    def test_fills(self):
        shapes = [(1,), (3,), (2, 1), (1, 3), (1, 1), (2, 3)]
        self.check([("alloc", lambda x, y: T.alloc(y, 2, 3) + x.sum(), (2,), shape) for shape in shapes])

    def test_choices(self):
        index = np.array([0, 1, 1, 0])
        self.check([("choose", lambda x, y: T.choose(index, [x, y]), (4,), shape) for shape in [(1,), (4,)]])

    def test_second_derivatives(self):
        """The gradient of a cubic cost can be differentiated again, also through SumToShape."""
        x, y, w = T.vectors("x", "y", "w")
        cost = T.sum(T.inc_subtensor(x[1:4], y) ** 3)
        gy = T.grad(cost, y)
        outputs = [gy, T.grad(T.sum(gy**2), y), T.Rop(gy, y, w), T.Rop(gy, y, y)]
        a = np.array([0.5, -1.0, 2.0, 0.25, 3.0])
        for mode in MODES.values():
            f = theano.function([x, y, w], outputs, mode=mode, on_unused_input="ignore")
            for b in (np.array([2.0]), np.array([2.0, 1.0, -1.0])):
                v = b + 1
                t = a[1:4] + b
                total = np.sum if len(b) == 1 else lambda z: z
                g = np.atleast_1d(total(3 * t**2))
                h = np.atleast_1d(total(6 * t))
                for found, expected in zip(f(a, b, v), [g, 2 * g * h, h * v, h * b]):
                    np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_declared_lengths_need_no_sum_at_run_time(self):
        x, y = T.matrix("x"), T.row("y")
        for result in (T.set_subtensor(x[:1], y), T.inc_subtensor(x[1], 2.0 * x.sum()), T.alloc(x.sum(), 2, 3)):
            self.assertEqual(len(sums_of(*T.grad(T.sum(result**2), [x]))), 0)
        # the type of y does not declare the number of columns, so the gradient contains a SumToShape
        self.assertEqual(len(sums_of(T.grad(T.sum(T.set_subtensor(x[1:], y) ** 2), y))), 1)

    def test_gradients_by_parts_are_never_repeated(self):
        x = T.matrix("x")
        for part in (x[::-1], x[1:, 0], x[ROWS], x[ROWS, ROWS], x[x > 0]):
            (gradient,) = T.grad(T.sum(T.exp(part)), [x])
            self.assertEqual(len(sums_of(T.grad(T.sum(gradient**2), x))), 0)

    def test_gone_where_lengths_are_known(self):
        """Rules remove SumToShape if the inferred shapes show that the written value is not repeated.

        In most programs, the written value has the shape of the part into which it is written.
        """
        x, v, n = T.matrix("x"), T.vector("v"), T.iscalar("n")
        padded = T.set_subtensor(T.zeros((v.shape[0] + 2,))[1:-1], v)
        row = T.set_subtensor(x[n], T.exp(x[n - 1]))
        rows = T.inc_subtensor(x[ROWS], T.tanh(x[ROWS]))
        tail = T.set_subtensor(x[1:, 1:], x[1:, 1:] * x[:-1, :-1])
        whole = T.set_subtensor(v[:], v**2)
        filled = T.alloc(v, v.shape[0])
        for result, wrt in ((padded, v), (row, x), (rows, x), (tail, x), (whole, v), (filled, v)):
            gradient = T.grad(T.sum(result**3), wrt)
            self.assertEqual(len(sums_of(gradient)), 1)
            f = theano.function([x, v, n], gradient, mode=Mode("py", "fast_run"), on_unused_input="ignore")
            self.assertEqual(sums_of(*f.maker.fgraph.outputs), [])


class TestSumToShape(unittest.TestCase):
    def test_values(self):
        for dtype in ("float16", "float32", "float64", "complex64", "int8", "uint64"):
            x = T.TensorType(dtype, (False,) * 3)()
            sizes = [T.lscalar() for _ in range(3)]
            out = sum_to_shape(x, *sizes)
            value = np.arange(24).reshape(2, 3, 4)
            for data in (value, value[:, ::-1, ::2], value.transpose(1, 2, 0), value[:, :0], value[:1]):
                data = data.astype(dtype)
                for shape in np.ndindex(2, 2, 2):
                    shape = [n if keep else 1 for n, keep in zip(data.shape, shape)]
                    axes = tuple(i for i in range(3) if shape[i] != data.shape[i])
                    want = data.astype("complex128").sum(axis=axes, keepdims=True)
                    want = (want if dtype.startswith("complex") else want.real).astype(dtype)
                    given = {x: data, **{s: np.array(n, "int64") for s, n in zip(sizes, shape)}}
                    check_node(self, out, given, want)

    def test_is_a_view_where_nothing_is_summed(self):
        x, n = T.vector(), T.lscalar()
        value = np.arange(3.0)
        for impl in ("c", "py"):
            (found,) = run_node(sum_to_shape(x, n), {x: value, n: np.array(3)}, impl)
            self.assertTrue(np.may_share_memory(found, value))

    def test_float16_is_summed_in_float32(self):
        x, n = T.TensorType("float16", (False,))(), T.lscalar()
        value = np.full(4096, 1, "float16")
        check_node(self, sum_to_shape(x, n), {x: value, n: np.array(1)}, np.array([4096], "float16"))

    def test_errors(self):
        x, n = T.vector(), T.lscalar()
        for impl in ("c", "py"):
            with self.assertRaisesRegex(ValueError, "dimension 0 of x has length 3 and cannot be summed to length 2"):
                run_node(sum_to_shape(x, n), {x: np.arange(3.0), n: np.array(2)}, impl)
        with self.assertRaisesRegex(TypeError, "a size for each of the 1 dimensions of x, got 2"):
            sum_to_shape(x, n, n)
        with self.assertRaisesRegex(TypeError, "must be integers"):
            sum_to_shape(x, T.dscalar())

    def test_types(self):
        x, n = T.matrix(), T.lscalar()
        self.assertEqual(sum_to_shape(x, n, 1).broadcastable, (False, True))
        self.assertEqual(sum_to_shape(T.row(), n, n).broadcastable, (True, False))
        self.assertIs(sum_over_repeated(x.sum(axis=0, keepdims=True), T.row()).owner.op, sum_to_shape)
        s = T.scalar()
        self.assertIs(sum_over_repeated(s, T.scalar()), s)


if __name__ == "__main__":
    unittest.main()
