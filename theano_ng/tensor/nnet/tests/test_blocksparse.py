"""Products of sparse blocks, compared with Python loops over NumPy's products."""

import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.differentiate import Rop, grad
from theano_ng.gof.null_type import NullType
from theano_ng.tensor.nnet.blocksparse import (
    SparseBlockGemv,
    SparseBlockOuter,
    sparse_block_dot,
    sparse_block_gemv,
    sparse_block_gemv_inplace,
    sparse_block_outer,
    sparse_block_outer_inplace,
)
from theano_ng.tensor.nnet.tests.nodes import layouts
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tests import unittest_tools as utt

UNREWRITTEN = Mode(linker="py", optimizer=None)


def gemv(o, W, h, inputs, outputs):
    o = o.copy()
    for b, j, i in itertools.product(range(o.shape[0]), range(o.shape[1]), range(h.shape[1])):
        o[b, j] += np.dot(h[b, i], W[inputs[b, i], outputs[b, j]])
    return o


def outer(o, x, y, rows, columns, alpha):
    o = o.copy()
    for b, i, j in itertools.product(range(x.shape[0]), range(x.shape[1]), range(y.shape[1])):
        o[rows[b, i], columns[b, j]] += alpha * np.outer(x[b, i], y[b, j])
    return o


def gemv_values(rng, dtype="float64", sizes=(2, 5)):
    m, n = sizes
    return [
        rng.randn(3, 2, n).astype(dtype),
        rng.randn(4, 3, m, n).astype(dtype),
        rng.randn(3, 3, m).astype(dtype),
        np.array([[0, 2, 1], [1, 1, -1], [3, 0, 2]]),
        np.array([[2, 0], [1, 1], [0, -3]]),
    ]


def outer_values(rng, dtype="float64", sizes=(2, 5)):
    o, W, h, inputs, outputs = gemv_values(rng, dtype, sizes)
    return [W, h, o, inputs, outputs, np.asarray(0.5, dtype)]


def symbols(values):
    return [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]


class TestValues(unittest.TestCase):
    def compare(self, op, values, expected):
        names = symbols(values)
        tol = {"float16": 5e-3, "float32": 1e-5}.get(str(values[0].dtype), 1e-12)
        before = [v.copy() for v in values]
        node = op.make_node(*names)
        native = values[0].dtype in ("float32", "float64")
        self.assertEqual(op.native_code(node) is not None, native)
        for impl in ("c", "py") if native else ("py",):
            (got,) = run_node(node.outputs[0], dict(zip(names, values)), impl)
            self.assertEqual((got.dtype, got.shape), (values[0].dtype, values[0].shape))
            np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)
            if not op.inplace:
                self.assertTrue(got.flags.c_contiguous)
                for a, b in zip(values, before):
                    np.testing.assert_array_equal(a, b)

    def test_dtypes_and_sizes(self):
        rng = np.random.RandomState(1)
        for dtype in ("float16", "float32", "float64", "complex128", "int64"):
            for sizes in ((2, 5), (1, 1), (33, 40), (0, 3), (3, 0)):
                values = gemv_values(rng, dtype, sizes)
                self.compare(sparse_block_gemv, values, gemv(*values))
                values = outer_values(rng, dtype, sizes)
                if dtype != "int64":
                    self.compare(sparse_block_outer, values, outer(*values))

    def test_layouts_of_memory(self):
        rng = np.random.RandomState(2)
        for values, op, reference in (
            (gemv_values(rng), sparse_block_gemv, gemv),
            (outer_values(rng), sparse_block_outer, outer),
        ):
            expected = reference(*values)
            for k in range(5):
                for other in layouts(values[k]):
                    self.compare(op, values[:k] + [other] + values[k + 1 :], expected)
        # The gradient passes transposed blocks.
        values = gemv_values(rng, sizes=(20, 37))
        values[1] = np.ascontiguousarray(values[1].swapaxes(2, 3)).swapaxes(2, 3)
        self.compare(sparse_block_gemv, values, gemv(*values))

    def test_integers_of_all_kinds(self):
        rng = np.random.RandomState(3)
        values = gemv_values(rng)
        for dtype in ("int8", "uint8", "int32", "uint64"):
            here = values[:3] + [np.abs(v).astype(dtype) for v in values[3:]]
            here[4] %= 3
            self.compare(sparse_block_gemv, here, gemv(*here))

    def test_in_place(self):
        rng = np.random.RandomState(4)
        for make, reference, op in (
            (gemv_values, gemv, sparse_block_gemv_inplace),
            (outer_values, outer, sparse_block_outer_inplace),
        ):
            self.assertEqual(op.destroy_map, {0: [0]})
            values = make(rng)
            expected = reference(*values)
            names = symbols(values)
            for impl in ("c", "py"):
                for o in layouts(values[0]):
                    if not o.flags.writeable:
                        continue
                    o = o.copy(order="K") if o.flags.owndata else o
                    mine = o.copy()
                    strided = np.zeros(o.shape[:-1] + (2 * o.shape[-1],))[..., ::2]
                    for target in (mine, strided):
                        target[...] = values[0]
                        (got,) = run_node(op(*names), dict(zip(names, [target] + values[1:])), impl)
                        self.assertIs(got, target)
                        utt.assert_allclose(got, expected)
            locked = values[0].copy()
            locked.flags.writeable = False
            with self.assertRaisesRegex(ValueError, "read-only"):
                run_node(op(*names), dict(zip(names, [locked] + values[1:])), "c")

    def test_wrong_values(self):
        rng = np.random.RandomState(5)
        good = gemv_values(rng)
        for k, bad, error, message in (
            (3, good[3] + 9, IndexError, "inputIdx, index 9 is out of bounds for 4 blocks"),
            (4, good[4] - 9, IndexError, "outputIdx, index -7 is out of bounds for 3 blocks"),
            (3, good[3][:1], ValueError, r"inputIdx has shape \(1, 3\), expected \(3, 3\)"),
            (4, good[4][:, :1], ValueError, r"outputIdx has shape \(3, 1\), expected \(3, 2\)"),
            (2, good[2][:1], ValueError, "h has length 1 along axis 0, expected 3"),
            (2, good[2][:, :, :1], ValueError, "h has length 1 along axis 2, expected 2"),
            (0, good[0][:, :, :4], ValueError, "o has length 4 along axis 2, expected 5"),
        ):
            values = good[:k] + [bad] + good[k + 1 :]
            names = symbols(values)
            for impl in ("c", "py"):
                with self.assertRaisesRegex(error, message):
                    run_node(sparse_block_gemv(*names), dict(zip(names, values)), impl)
        good = outer_values(rng)
        for k, bad, error, message in (
            (3, good[3] + 9, IndexError, "xIdx, index 9 is out of bounds for 4 blocks"),
            (4, good[4][:, :1], ValueError, r"yIdx has shape \(3, 1\), expected \(3, 2\)"),
            (2, good[2][:1], ValueError, "y has length 1 along axis 0, expected 3"),
            (1, good[1][:, :, :1], ValueError, "x has length 1 along axis 2, expected 2"),
            (2, good[2][:, :, :1], ValueError, "y has length 1 along axis 2, expected 5"),
        ):
            values = good[:k] + [bad] + good[k + 1 :]
            names = symbols(values)
            for impl in ("c", "py"):
                with self.assertRaisesRegex(error, message):
                    run_node(sparse_block_outer(*names), dict(zip(names, values)), impl)

    def test_wrong_types(self):
        o, W, h, i, j = T.tensor3(), T.tensor4(), T.tensor3(), T.lmatrix(), T.lmatrix()
        for message, arguments in (
            ("output o must be a 3D tensor", (T.matrix(), W, h, i, j)),
            ("weight matrix W must be a 4D tensor", (o, o, h, i, j)),
            ("input h must be a 3D tensor", (o, W, T.matrix(), i, j)),
            ("input indices inputIdx must be a 2D tensor", (o, W, h, T.lvector(), j)),
            ("output indices outputIdx must be a 2D tensor", (o, W, h, i, T.lvector())),
            ("input indices inputIdx must be integers", (o, W, h, T.matrix(), j)),
        ):
            with self.assertRaisesRegex(TypeError, message):
                sparse_block_gemv(*arguments)
        with self.assertRaisesRegex(TypeError, "output o must be a 4D tensor"):
            sparse_block_outer(o, h, h, i, j)
        with self.assertRaisesRegex(TypeError, "factor alpha must be a 0D tensor"):
            sparse_block_outer(W, h, h, i, j, T.vector())
        with self.assertRaisesRegex(TypeError, "a batch of one"):
            sparse_block_dot(W, h, T.lvector(), T.matrix(), j)


class TestDot(unittest.TestCase):
    def test_values(self):
        rng = np.random.RandomState(6)
        _, W, h, inputs, outputs = gemv_values(rng)
        b = rng.randn(3, 5)
        names = symbols([W, h, inputs, b, outputs])
        f = theano.function(names, sparse_block_dot(*names))
        utt.assert_allclose(f(W, h, inputs, b, outputs), gemv(b[outputs], W, h, inputs, outputs))
        names = symbols([W, h[0], inputs[0], b, outputs[0]])
        dot = sparse_block_dot(*names)
        self.assertEqual(dot.broadcastable[0], True)
        got = theano.function(names, dot)(W, h[0], inputs[0], b, outputs[0])
        utt.assert_allclose(got, gemv(b[outputs[:1]], W, h[:1], inputs[:1], outputs[:1]))

    def test_in_place_after_rewriting(self):
        rng = np.random.RandomState(7)
        _, W, h, inputs, outputs = gemv_values(rng)
        b = rng.randn(3, 5)
        names = symbols([W, h, inputs, b, outputs])
        dot = sparse_block_dot(*names)
        f = theano.function(names, [dot, *grad((dot**2).sum(), [names[0], names[1], names[3]])])
        ops = [n.op for n in f.maker.fgraph.toposort() if isinstance(n.op, (SparseBlockGemv, SparseBlockOuter))]
        self.assertEqual([op.inplace for op in ops], [True] * 3)
        slow = theano.function(names, [dot, *grad((dot**2).sum(), [names[0], names[1], names[3]])], mode=UNREWRITTEN)
        for a, c in zip(f(W, h, inputs, b, outputs), slow(W, h, inputs, b, outputs)):
            utt.assert_allclose(a, c)
        # An operand that the caller owns is not overwritten: the Op does not work in place.
        names = symbols(gemv_values(rng))
        f = theano.function(names, sparse_block_gemv(*names))
        self.assertFalse(f.maker.fgraph.outputs[0].owner.op.inplace)


class TestDerivatives(unittest.TestCase):
    def test_gradients(self):
        rng = np.random.RandomState(8)
        *values, inputs, outputs = gemv_values(rng)
        utt.verify_grad(lambda o, W, h: sparse_block_gemv(o, W, h, inputs, outputs), values, rng=rng, mode=UNREWRITTEN)
        o, x, y, rows, columns, alpha = outer_values(rng)
        utt.verify_grad(
            lambda o, x, y, alpha: sparse_block_outer(o, x, y, rows, columns, alpha),
            [o, x, y, alpha],
            rng=rng,
            mode=UNREWRITTEN,
        )
        b = rng.randn(3, 5)
        utt.verify_grad(
            lambda W, h, b: sparse_block_dot(W, h, inputs, b, outputs),
            [values[1], values[2], b],
            rng=rng,
            mode=UNREWRITTEN,
        )

    def test_second_derivatives(self):
        rng = np.random.RandomState(9)
        o, W, h, inputs, outputs = gemv_values(rng)

        def of_h(W, h):
            return grad((sparse_block_gemv(o, W, h, inputs, outputs) ** 2).sum(), h)

        utt.verify_grad(of_h, [W, h], rng=rng)

    def test_indices_have_none(self):
        o, W, h, i, j = T.tensor3(), T.tensor4(), T.tensor3(), T.lmatrix(), T.lmatrix()
        found = grad(sparse_block_gemv(o, W, h, i, j).sum(), i, null_gradients="return")
        self.assertIsInstance(found.type, NullType)

    def test_directions(self):
        rng = np.random.RandomState(10)
        for values, op, moved in (
            (gemv_values(rng), sparse_block_gemv, [0, 1, 2]),
            (outer_values(rng), sparse_block_outer, [0, 1, 2, 5]),
        ):
            names = symbols(values)
            out = op(*names)
            weight = rng.randn(*values[0].shape)
            for group in [[k] for k in moved] + [moved]:
                directions = [np.asarray(rng.standard_normal(values[k].shape)) for k in group]
                forward = Rop(out, [names[k] for k in group], [T.constant(d) for d in directions])
                backward = grad((out * weight).sum(), [names[k] for k in group])
                left, *right = theano.function(names, [(forward * weight).sum(), *backward], mode=UNREWRITTEN)(*values)
                utt.assert_allclose(left, sum((a * d).sum() for a, d in zip(right, directions)))


class TestNames(unittest.TestCase):
    def test_identity(self):
        self.assertEqual(str(sparse_block_gemv), "SparseBlockGemv{inplace=False}")
        self.assertEqual(str(sparse_block_outer_inplace), "SparseBlockOuter{inplace=True}")
        for op in (sparse_block_gemv, sparse_block_outer_inplace):
            again = pickle.loads(pickle.dumps(op))
            self.assertEqual((again, getattr(again, "destroy_map", None)), (op, getattr(op, "destroy_map", None)))


if __name__ == "__main__":
    unittest.main()
