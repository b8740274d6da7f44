"""Rules for Join, Split, Tile and MakeVector, and rules that remove operations without effect."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.tensor.basic import Join, Split
from theano_ng.tensor.opt import MakeVectorPrinter
from theano_ng.tensor.shaping.joining import Tile
from theano_ng.tensor.sort import TopKOp
from theano_ng.tensor.tests.rewriting import RewriteCase, shown

QUERY = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])


class TestJoin(RewriteCase):
    query = QUERY

    def test_join(self):
        x, v, a, b, c, i = (
            T.dmatrix("x"),
            T.dvector("v"),
            T.dscalar("a"),
            T.dscalar("b"),
            T.dscalar("c"),
            T.lvector("i"),
        )
        empty = np.zeros(0)
        for out, expected in [
            (Join()(0, x) + 0, "x"),
            (T.concatenate([v, empty, v + 1]), "Join(0, v, add(1.0, v))"),
            (T.concatenate([empty, v]) + 0, "v"),
            (T.concatenate([np.zeros(0), i]), "Cast{float64}(i)"),
            (T.concatenate([x, np.zeros((0, 3))]), None),
            (T.concatenate([T.stack([a]), T.stack([b, c])]), "MakeVector{dtype='float64'}(a, b, c)"),
            (
                T.concatenate([v, T.stack([a]), T.stack([b, c]), v]),
                "Join(0, v, MakeVector{dtype='float64'}(a, b, c), v)",
            ),
            (T.concatenate([T.stack([a]), T.stack([T.fscalar("f"), 1])]), None),
        ]:
            self.check(out, expected)

    def test_reductions_of_different_lengths(self):
        """A reduction of a join raises an error if the parts cannot be joined.

        Rules must not replace it by a sum that broadcasts the parts.
        """
        one, v = T.TensorType("float64", (True,))("one"), T.dvector("v")
        joined = T.join(0, one.dimshuffle("x", 0), v.dimshuffle("x", 0))
        for reduce, wanted in ((T.sum, 5.0), (T.prod, 6.0), (T.max, 3.0)):
            f = theano_ng.function([one, v], reduce(joined, axis=0), mode=Mode("py", QUERY))
            self.assertEqual(f([2.0], [3.0]).tolist(), [wanted])
            self.assertRaises(ValueError, f, [2.0], [3.0, 4.0])

    def test_empty_constants_of_known_lengths(self):
        """No assertion is added if another operand is known to have the lengths of the empty constant.

        If the lengths are known to differ, an assertion raises a ValueError, as Join does.
        """
        n, s, v = T.lscalar("n"), T.dscalar("s"), T.dmatrix("v")
        for width, asserted, joins in ((3, 0, 0), (2, 1, 0)):
            known = T.exp(T.alloc(s, n, width))
            f = theano_ng.function([n, s], T.concatenate([np.zeros((0, 3)), known]), mode=Mode("py", QUERY))
            ops = [type(node.op).__name__ for node in f.maker.fgraph.apply_nodes]
            self.assertEqual([ops.count("AssertShape"), ops.count("Join")], [asserted, joins])
        self.assertRaises(ValueError, f, 2, 1.0)
        self.check(T.concatenate([np.zeros((0, 3)), v]), None)
        # Without ShapeFeature the rules add an assertion.
        query = Query(["canonicalize_db", "canonicalize", "local_join_empty", "merge"])
        f = self.check(T.concatenate([np.zeros((0, 3)), T.exp(v)]), None, query=query)
        self.assertIn("AssertShape", [type(node.op).__name__ for node in f.maker.fgraph.apply_nodes])
        # A broadcastable row stays broadcastable when an operand without rows is removed.
        row = T.drow("row")
        for constant in (np.zeros((0, 3)), np.zeros((0, 1))):
            out = T.concatenate([row, constant])
            self.assertEqual(
                theano_ng.function([row], out.shape)(np.ones((1, constant.shape[1]))).tolist(), [1, constant.shape[1]]
            )

    def test_empty_constants(self):
        for dtype, const in itertools.product(("int8", "float32", "float64", "complex128"), ("int8", "float64")):
            x, y, t = T.matrix("x", dtype), T.matrix("y", dtype), T.tensor3("t", dtype)
            none, wide, many = np.zeros((0, 3), const), np.zeros((3, 0), const), np.zeros((3, 0, 2), const)
            for out, joins in (
                (T.concatenate([x, none]), 0),
                (T.concatenate([none, x, none]), 0),
                (T.concatenate([wide, x], axis=1), 0),
                (T.concatenate([none, x, y, none]), 1),
                (T.concatenate([none, none]), 0),
                (T.concatenate([t, many], axis=1), 0),
                (T.concatenate([t, many], axis=-2), 0),
            ):
                f = self.check(out, None, {"t": np.ones((3, 2, 2))})
                self.assertEqual(sum(isinstance(n.op, Join) for n in f.maker.fgraph.apply_nodes), joins)
        f = theano_ng.function([x], T.concatenate([x, none]))
        self.assertEqual(f(np.ones((0, 3))).shape, (0, 3))
        self.assertRaises(ValueError, f, np.ones((2, 4)))
        f = theano_ng.function([t], T.concatenate([many, t], axis=1))
        self.assertRaises(ValueError, f, np.ones((3, 2, 4)))
        self.assertRaises(ValueError, f, np.ones((2, 2, 2)))
        # If the shapes of two empty constants contradict each other, the function raises an error for every value of x.
        self.assertRaises(
            ValueError, theano_ng.function([x], T.concatenate([x, none, np.zeros((0, 2))])), np.ones((2, 3))
        )

    def test_printed_vectors(self):
        v = T.dscalar("a")
        for _ in range(3000):
            v = T.stack([v, 1.0])[0]
        text = theano_ng.pprint(v)
        self.assertEqual(text.count("["), text.count("]"))
        self.assertIn("[a, ", text)
        self.assertRaises(TypeError, MakeVectorPrinter().parts, T.dscalar(), None)

    def test_split_and_tile(self):
        x, v, n = T.dmatrix("x"), T.dvector("v"), T.lvector("n")
        f = self.check(Split(1)(v, 0, n) * 2.0, None, {"n": [3]})
        self.assertFalse([node for node in f.maker.fgraph.apply_nodes if isinstance(node.op, Split)])
        f = theano_ng.function([v, n], Split(1)(v, 0, n))
        self.assertRaises((AssertionError, ValueError), f, np.ones(3), [2])
        self.check(Tile(2)(x, [1, 1]) + 0, "x")
        self.check(Tile(3)(x, [1, 1, 1]), None)
        self.assertIn("Tile", shown(self.check(Tile(2)(x, [1, 2]), None).maker.fgraph))

    def test_printer(self):
        a, b = T.dscalars("ab")
        self.assertEqual(theano_ng.pp(T.stack([a, b + 1])), "[a, (b + TensorConstant{1})]")


class TestTrivial(RewriteCase):
    query = QUERY

    def test_containers(self):
        x, s = T.dscalar("x"), scalar.float64("s")
        self.check(T.tensor_from_scalar(T.scalar_from_tensor(x)) * 2, "mul(2.0, x)")
        f = theano_ng.function([s], T.scalar_from_tensor(T.tensor_from_scalar(s)), mode=Mode("py", QUERY))
        self.assertEqual(shown(f.maker.fgraph), "s")
        v = T.dvector("v")
        for mode in ("FAST_COMPILE", "FAST_RUN"):
            f = theano_ng.function(
                [v], theano_ng.gradient.disconnected_grad(v) * theano_ng.gradient.grad_clip(v, 0, 1), mode=mode
            )
            self.assertEqual([type(n.op).__name__ for n in f.maker.fgraph.apply_nodes], ["Elemwise"])

    def test_unused_outputs(self):
        a, b = scalar.float64("a"), scalar.float64("b")
        op = T.Elemwise(scalar.Composite([a, b], [a + b, a * b, a - b]))
        x, y = T.dvector("x"), T.dvector("y")
        first, second, third = op(x, y)
        self.check(second, "Elemwise{Composite{(i0 * i1)}}(x, y)")
        f = theano_ng.function([x, y], [third, first], mode=Mode("py", QUERY))
        self.assertEqual(len(f.maker.fgraph.outputs[0].owner.outputs), 2)
        self.assertEqual([r.tolist() for r in f([1, 2], [3, 4])], [[-2, -2], [4, 6]])

    def test_unused_outputs_of_topk(self):
        x = T.dvector("x")
        values, indices = T.topk_and_argtopk(x, 2, idx_dtype="int32")
        given = np.array([1.0, 4.0, 3.0])
        useless = Mode("py", Query(["useless", "fast_compile"]))

        def check(out, modes, flags, expected):
            for mode in modes:
                f = theano_ng.function([x], out, mode=mode)
                (op,) = [n.op for n in f.maker.fgraph.apply_nodes if isinstance(n.op, TopKOp)]
                self.assertEqual((op.return_values, op.return_indices), flags, mode)
                self.assertEqual(f(given).tolist(), expected)

        check(values, ("FAST_COMPILE", "FAST_RUN", useless), (True, False), [4, 3])
        check(indices, ("FAST_COMPILE", "FAST_RUN", useless), (False, True), [1, 2])
        check(theano_ng.grad(values.sum(), x), ("FAST_RUN",), (False, True), [0, 1, 1])
        self.assertEqual(theano_ng.function([x], indices)(given).dtype, "int32")


class TestEmptyConstants(RewriteCase):
    query = QUERY

    def test_lengths_along_all_other_axes(self):
        """Joins with an empty constant need no assertion if an operand is known to have the lengths of the constant.

        The rule compares only the lengths along axes that are not the axis of the join.
        """
        s, n = T.dscalar("s"), T.lscalar("n")
        for ndim in (2, 3):
            for axis in range(-ndim, ndim):
                for wrong in range(ndim):
                    sizes = [3, 4, 5][:ndim]
                    sizes[axis] = 0
                    constant = np.zeros(sizes)
                    sizes[axis] = n
                    known = T.exp(T.alloc(s, *sizes))
                    f = theano_ng.function([s, n], T.join(axis, constant, known), mode=Mode("py", QUERY))
                    self.assertNotIn("AssertShape", [type(node.op).__name__ for node in f.maker.fgraph.apply_nodes])
                    sizes[axis] = 2
                    np.testing.assert_array_equal(f(0.0, 2), np.ones(sizes))
                    if wrong == axis % ndim:
                        continue
                    sizes[axis], sizes[wrong] = n, 7
                    known = T.exp(T.alloc(s, *sizes))
                    f = theano_ng.function([s, n], T.join(axis, constant, known), mode=Mode("py", QUERY))
                    self.assertRaises(ValueError, f, 0.0, 2)


if __name__ == "__main__":
    unittest.main()
