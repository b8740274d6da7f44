"""Native Ops on parts of arrays, on many operands and dimensions, and with unsuitable outputs of earlier calls."""

import itertools
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.tensor import extra_ops
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.nnet.softmax import softmax_op
from theano_ng.tensor.sort import sort
from theano_ng.tensor.tests.generated import ALL_DTYPES
from theano_ng.tensor.tests.single_node import run_node


def variables_of(values):
    return [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]


class TestParts(unittest.TestCase):
    """Elementwise operations on rows that are not contiguous."""

    WIDTHS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 47, 48, 49, 64, 90)

    def setUp(self):
        self.thunks = {}

    def thunk(self, op, values):
        """Return (thunk, cells of inputs, cell of the output), cached by the types of the arrays."""
        key = op, tuple((v.dtype, v.ndim) for v in values)
        if key not in self.thunks:
            out = op(*variables_of(values))
            cells = {v: [None] for v in (*out.owner.inputs, out)}
            computed = {v: [v is not out] for v in cells}
            made = out.owner.op.make_thunk(out.owner, cells, computed, [], impl="c")
            self.thunks[key] = made, [cells[v] for v in out.owner.inputs], cells[out]
        return self.thunks[key]

    def check(self, op, *values):
        thunk, inputs, output = self.thunk(op, values)
        for cell, value in zip(inputs, values):
            cell[0] = value
        output[0] = None
        thunk()
        want = values[0]
        for value in values[1:]:
            want = want + value
        np.testing.assert_array_equal(output[0], want)

    def test_columns_are_cut_off(self):
        copy, add = Elemwise(scalar.identity), Elemwise(scalar.add)
        for dtype in ALL_DTYPES:
            for width, more in itertools.product(self.WIDTHS, (1, 2)):
                memory = (np.arange(4 * 3 * (width + more)) % 19).astype(dtype).reshape(4, 3, width + more)
                for x in (memory[0, :, :width], memory[:, 0, more:], memory[:, :, :width], memory[:, 1:, more:]):
                    self.check(copy, x)
                    self.check(add, x, x.copy())
                    self.check(add, x, x[..., ::-1])

    def test_windows(self):
        """Elementwise operations are right on rows that overlap in memory."""
        add = Elemwise(scalar.add)
        for dtype in ("int8", "float32", "float64"):
            memory = (np.arange(400) % 23).astype(dtype)
            for width, step in itertools.product(self.WIDTHS, (0, 1, 2, 3, 9, 18, 36)):
                x = np.lib.stride_tricks.as_strided(memory, (4, width), (step * memory.itemsize, memory.itemsize))
                self.check(add, x, x.copy())

    def test_many_operands(self):
        """Elementwise sums equal NumPy's for many operands, each of which has only a short buffer."""
        for n in (60, 130, 160):
            op = Elemwise(scalar.add)
            for width in (36, 37, 38, 40, 43, 47, 48, 63):
                memory = np.arange(5.0 * 70).reshape(5, 70)
                values = [memory[:, :width], memory[:, 7:][:, :width][::-1]] * (n // 2)
                self.check(op, *values)
                # Add an operand that repeats one row in memory.
                self.check(op, *values, np.broadcast_to(np.arange(2.0 * width)[::2], (5, width)))

    def test_many_dimensions(self):
        for nd in (2, 15, 31, 32):
            x = np.arange(24.0).reshape((2,) + (1,) * (nd - 2) + (12,))
            y = np.arange(2.0 ** min(nd, 12)).reshape((2,) * min(nd, 12) + (1,) * (nd - min(nd, 12)))
            for value in (x, x.T, x[::-1], y, y.T, y[..., ::-1]):
                self.check(Elemwise(scalar.identity), value)
                self.check(Elemwise(scalar.add), value, value[::-1])


class TestEarlierOutputs(unittest.TestCase):
    """Native Ops give the right result whatever array an earlier call left in the output cell.

    The array may have another dtype, shape or memory order.
    """

    def outputs(self, want):
        """Yield arrays of other dtypes, orders and shapes that an output cell might contain."""
        item = want.dtype.itemsize
        for dtype in {want.dtype, np.dtype("int%d" % (8 * item)), np.dtype("f4"), np.dtype("f8"), np.dtype("c16")}:
            for order in "CF":
                yield np.ones(want.shape, dtype, order)
            yield np.ones(want.shape[::-1], dtype).T
            yield np.ones([2 * n for n in want.shape], dtype)[tuple([slice(None, None, 2)] * want.ndim)]
            yield np.ones((*want.shape, 1), dtype)
            yield np.ones([n + 1 for n in want.shape], dtype)
            yield np.broadcast_to(np.ones((), dtype), want.shape)

    def test_all(self):
        base = np.arange(24.0).reshape(4, 6) / 8
        makes = (
            lambda x: extra_ops.cumsum(x, axis=0),
            lambda x: extra_ops.cumprod(x, axis=1),
            lambda x: extra_ops.cumsum(x),
            lambda x: T.exp(x),
            lambda x: T.sum(x, axis=0),
            lambda x: T.max(x, axis=1),
            lambda x: T.dot(x, x.T),
            lambda x: sort(x, 0),
            softmax_op,
        )
        for make, dtype in itertools.product(makes, ("float64", "float32")):
            for x in (base.astype(dtype), np.asfortranarray(base.astype(dtype)), base.astype(dtype)[::-1]):
                variable = T.matrix(dtype=dtype)
                out = make(variable)
                node, values = out.owner, {variable: x}
                for other in node.inputs:
                    if other.owner is not None:
                        values[other] = run_node(other, values, "c")[0]
                want = run_node(out, values, "py")[0]
                for before in self.outputs(want):
                    cells = {v: [values[v] if v in values else v.data] for v in node.inputs}
                    cells.update({v: [None] for v in node.outputs})
                    cells[out] = [before]
                    computed = {v: [v not in node.outputs] for v in cells}
                    node.op.make_thunk(node, cells, computed, [], impl="c")()
                    got = cells[out][0]
                    self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
                    digits = 1e-6 if dtype == "float32" else 1e-12
                    np.testing.assert_allclose(got, want, rtol=digits, err_msg=str(node))


class TestValuesOfAnotherRank(unittest.TestCase):
    def test_refused(self):
        """Native Ops raise an error if a value does not have the rank or the dtype of its variable."""
        a, b = T.dscalars(2)
        x = T.dmatrix()
        for out, variables in (
            (T.stack([a, b]), [a, b]),
            (extra_ops.cumsum(x, axis=1), [x]),
            (T.exp(x), [x]),
            (T.sum(x, axis=1), [x]),
            (T.dot(x, x), [x]),
            (sort(x, 1), [x]),
            (x.T, [x]),
            (x.dimshuffle("x", 1, 0), [x]),
        ):
            good = {v: np.ones((2,) * v.ndim) for v in variables}
            run_node(out, good, "c")
            for v in variables:
                for wrong in (np.ones((2,) * (v.ndim + 1)), np.ones((2,) * v.ndim, "float32"), [[1.0]], None):
                    with self.assertRaises((TypeError, ValueError), msg=(out.owner, wrong)):
                        run_node(out, {**good, v: wrong}, "c")


if __name__ == "__main__":
    unittest.main()
