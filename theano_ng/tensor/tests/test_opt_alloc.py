"""Rules that move fill and Alloc towards the result, merge them, or remove them."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import ancestors
from theano_ng.gof.optdb import Query
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.opt import ShapeFeature, alloc
from theano_ng.tensor.opt.common import broadcast_like
from theano_ng.tensor.tests.rewriting import CANONICALIZE, RewriteCase, shown

WITH_SHAPES = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])


class TestFill(RewriteCase):
    query = CANONICALIZE

    def test_sinks(self):
        m, n, s = T.dmatrix("m"), T.dmatrix("n"), T.dscalar("s")
        for out, expected in [
            (T.fill(m, s) + n, "add(InplaceDimShuffle{x,x}(s), n)"),
            (T.exp(T.fill(m, s)), "second(m, exp(InplaceDimShuffle{x,x}(s)))"),
            (T.fill(m, s) * T.fill(n, 2.0) + s, "second(n, add(mul(2.0, *1 -> InplaceDimShuffle{x,x}(s)), *1))"),
            (T.fill(m, n), "n"),
            (T.fill(m, T.fill(n, s)), "second(n, InplaceDimShuffle{x,x}(s))"),
            (T.log(T.exp(T.fill(m, s)) + n), "log(add(exp(InplaceDimShuffle{x,x}(s)), n))"),
        ]:
            self.check(out, expected, {"m": np.ones((3, 3)), "n": np.full((3, 3), 2.0)})
        # If no single operand of the sum has the shape of the result, no fill is removed.
        r, c = T.drow("r"), T.dcol("c")
        self.check(T.fill(r, 1.0) + T.fill(c, 2.0), None)
        self.check(T.fill(c, s) * r, None)
        self.check(T.fill(T.zeros_like(m), s).T - 1, None, {"m": np.ones((2, 3))})

    def test_fills_that_make_nothing_longer(self):
        """`local_fill_sink` drops ``fill(model, value)`` if the model has length one wherever the value has."""
        r, q, c, s = T.drow("r"), T.drow("q"), T.dcol("c"), T.dscalar("s")
        one = T.TensorType("float64", (True, True))("one")
        for out, expected in [
            (T.exp(T.fill(r, q)), "exp(q)"),
            (T.exp(T.fill(one, q)), "exp(q)"),
            (T.fill(r, q) + c, "add(q, c)"),
            (T.exp(T.fill(one, s)), "exp(InplaceDimShuffle{x,x}(s))"),
            (T.exp(T.fill(q, one)), "second(q, exp(one))"),
            (T.exp(T.fill(c, q)), "second(c, exp(q))"),
        ]:
            fgraph = FunctionGraph([r, q, c, s, one], [out], clone=True)
            in2out(alloc.local_fill_sink).optimize(fgraph)
            self.assertEqual(shown(fgraph), expected)

    def test_long_chain(self):
        m = T.dmatrix("m")
        x = T.fill(m, T.dscalar("s"))
        for i in range(400):
            x = T.tanh(x) if i % 2 else x * 2 + 1
        f = self.check(x, None, query=CANONICALIZE)
        self.assertEqual(f.maker.fgraph.outputs[0].owner.op, T.fill)

    def test_becomes_alloc(self):
        m, v = T.dmatrix("m"), T.dvector("v")
        for value in (np.ones((2, 3)), np.ones((0, 3)), np.ones((1, 1))):
            self.check(T.zeros_like(m), "Alloc(0.0, Shape_i{0}(m), Shape_i{1}(m))", {"m": value}, WITH_SHAPES)
        self.check(T.fill(m * 2, v), None, {"m": np.ones((2, 3))}, WITH_SHAPES)
        self.check(T.ones_like(v + 1).sum(), None, query=WITH_SHAPES)
        # The model T.exp(m) is not computed just to find its shape.
        f = self.check(T.fill(T.exp(m), 1.0), None, query=WITH_SHAPES)
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, T.Elemwise)])

    def test_becomes_alloc_without_shapes_of_the_graph(self):
        """`local_fill_to_alloc` takes each length from an operand that is not broadcastable in the dimension."""
        values = {"x": np.ones((2, 3)), "v": np.arange(3.0), "r": np.arange(3.0)[None], "c": np.arange(2.0)[:, None]}
        x, v, r, c = T.dmatrix("x"), T.dvector("v"), T.drow("r"), T.dcol("c")
        for model, value in ((x, v), (x, r), (x, c), (r, c), (c, r), (x, T.constant(2.0))):
            fgraph = FunctionGraph([x, v, r, c], [T.fill(model, value)], clone=True)
            in2out(alloc.local_fill_to_alloc).optimize(fgraph)
            self.assertIn("Alloc", shown(fgraph))
            f = theano_ng.function(fgraph.inputs, fgraph.outputs, mode=Mode("py", None), on_unused_input="ignore")
            number = value.data if value not in (v, r, c) else values[value.name]
            (got,) = f(*[values[i.name] for i in (x, v, r, c)])
            np.testing.assert_array_equal(got, np.broadcast_to(number, (2, 3)))


class TestBroadcastLike(unittest.TestCase):
    def test_values(self):
        x, row, s = T.dmatrix("x"), T.drow("row"), T.dscalar("s")
        values = [np.arange(6.0).reshape(2, 3), np.arange(3.0)[None], np.float64(7)]
        for feature in (False, True):
            fgraph = FunctionGraph([x, row, s], [T.exp(x), T.exp(row)], clone=True)
            if feature:
                fgraph.attach_feature(ShapeFeature())
            for value, known in ((1, 1), (2.5, 2.5), (fgraph.inputs[2], 7), (fgraph.inputs[1], values[1])):
                for template, shape in zip(fgraph.outputs, ((2, 3), (1, 3))):
                    for dtype in (None, "float32"):
                        made = broadcast_like(value, template, fgraph, dtype=dtype)
                        fn = theano_ng.function(fgraph.inputs, made, mode=Mode("py", None), on_unused_input="ignore")
                        np.testing.assert_array_equal(fn(*values), np.broadcast_to(known, shape))
                        self.assertEqual(made.type.broadcastable, template.type.broadcastable)
                        if feature:  # the template itself is not computed
                            self.assertNotIn(template, ancestors([made]))
        self.assertRaises(NotImplementedError, broadcast_like, 1, T.dvector("other"), fgraph)


class TestAlloc(RewriteCase):
    query = WITH_SHAPES

    def test_useless_and_merged(self):
        x, s = T.dmatrix("x"), T.dscalar("s")
        n, k = T.iscalar("n"), T.iscalar("k")
        self.check(T.alloc(x, x.shape[0], x.shape[1]) * 2, "mul(2.0, x)")
        self.check(T.alloc(T.alloc(s, n), k, n), "Alloc(s, k, n)")
        self.check(T.alloc(T.alloc(s, n, 1), n, k), "Alloc(s, n, k)")
        self.check(T.alloc(T.alloc(s, 3), 2, 3), "Alloc(s, 2, 3)")
        self.check(T.alloc(x, 1, x.shape[0], x.shape[1]), "InplaceDimShuffle{x,0,1}(x)")
        self.check(T.alloc(s, 0, 3), None)
        f = theano_ng.function([s, n, k], T.alloc(T.alloc(s, n), k))
        self.assertEqual(f(7, 1, 3).tolist(), [7, 7, 7])
        self.assertEqual(f(7, 2, 2).tolist(), [7, 7])
        self.assertRaises((ValueError, AssertionError), f, 7, 2, 3)
        # If x does not have the shape (2, 3), the function still raises an error.
        f = theano_ng.function([x], T.alloc(x, 2, 3))
        self.assertEqual(f(np.ones((2, 3))).shape, (2, 3))
        self.assertRaises(ValueError, f, np.ones((3, 3)))

    def test_one_that_others_use_is_not_merged(self):
        """Nested Allocs whose lengths may differ are merged, with an assertion that the lengths are equal.

        They are not merged if the inner Alloc has another client than the outer Alloc.
        """
        s, n, k = T.dscalar("s"), T.iscalar("n"), T.iscalar("k")
        inner = T.alloc(s, n)
        for outs, asserts in (([T.alloc(inner, k)], True), ([T.alloc(inner, k), inner], False)):
            f = theano_ng.function([s, n, k], outs, mode=Mode("py", self.query))
            self.assertEqual("Assert" in shown(f.maker.fgraph), asserts)
            self.assertEqual(f(7, 2, 2)[0].tolist(), [7, 7])
            self.assertEqual(f(7, 1, 3)[0].tolist(), [7, 7, 7])
            self.assertRaises((ValueError, AssertionError), f, 7, 2, 3)

    def test_elemwise(self):
        x, v, s, n = T.dmatrix("x"), T.dvector("v"), T.dscalar("s"), T.iscalar("n")
        self.check(T.exp(T.alloc(v, n, 3)), "Alloc(exp(v), n, 3)")
        self.check(x + T.alloc(s, x.shape[0], x.shape[1]), "add(x, InplaceDimShuffle{x,x}(s))")
        self.check(x + T.alloc(v, x.shape[1], x.shape[1]).T, None, {"x": np.ones((3, 3))})
        f = theano_ng.function([x, s, n], x + T.alloc(s, n, 3))
        names = [type(node.op).__name__ for node in f.maker.fgraph.toposort()]
        self.assertIn("Assert", names)
        self.assertNotIn("Alloc", names)
        self.assertEqual(f(np.ones((2, 3)), 1, 2).tolist(), [[2] * 3] * 2)
        self.assertRaises((AssertionError, ValueError), f, np.ones((2, 3)), 1, 4)
        # If two Allocs have equal shapes, one of them is kept, because it determines the shape.
        self.check(T.alloc(s, n, 3) + T.alloc(T.dscalar("t"), n, 3), None)

    def test_operands_that_are_computed_from_allocs(self):
        """`local_elemwise_alloc` removes an Alloc, or a DimShuffle of an Alloc, but no other function of an Alloc."""
        v, w, x, n = T.dvector("v"), T.dvector("w"), T.dmatrix("x"), T.lscalar("n")
        a = T.alloc(v, n, 3)
        for operand, left_out in (
            (a, True),
            (a.dimshuffle(1, 0), True),
            (a[1:], False),
            (T.exp(a), False),
            (a.reshape((3, n)), False),
            (T.cumsum(a, axis=0), False),
            (T.concatenate([a, x]), False),
        ):
            out = T.add(x, operand, w.dimshuffle("x", 0))
            fgraph = FunctionGraph([v, w, x, n], [out], clone=True)
            in2out(alloc.local_elemwise_alloc).optimize(fgraph)
            found = ancestors([fgraph.outputs[0].owner.inputs[1]])
            self.assertEqual(any(v.owner and isinstance(v.owner.op, T.Alloc) for v in found), not left_out)

    def test_dimensions_that_only_an_alloc_knows_to_be_one(self):
        """A DimShuffle may drop a dimension that an Alloc, but not its value, declares to have length one.

        If `local_elemwise_alloc` replaces the Alloc by its value, it does not drop this dimension of the value. The
        value may be longer or have no such dimension.
        """
        column, s = T.TensorType("float64", (False, True))("column"), T.dscalar("s")
        y = T.dvector("y")
        for value, shape, number in ((column, (1, 4), [[2.0]]), (column, (1, y.shape[0]), [[2.0]]), (s, (1, 4), 2.0)):
            out = T.alloc(value, *shape).dimshuffle(1) + y
            f = theano_ng.function([value, y], out, mode=Mode("py", "fast_run"))
            self.assertEqual(f(number, [0, 1, 2, 3]).tolist(), [2, 3, 4, 5])

    def test_empty_to_zeros(self):
        out = T.AllocEmpty("float32")(2, 3)
        f = theano_ng.function([], out, mode=Mode("py", Query(["fast_run", "alloc_empty_to_zeros"])))
        self.assertTrue(np.array_equal(f(), np.zeros((2, 3), "float32")))
        f = theano_ng.function([], out, mode=Mode("py", Query(["fast_run"])))
        self.assertIn("AllocEmpty", shown(f.maker.fgraph))

    def test_gradients(self):
        x = T.dmatrix("x")
        f = self.check(T.grad((x**2).sum(), x), "mul(2.0, x)")
        self.assertEqual(len(f.maker.fgraph.apply_nodes), 1)
        self.check(T.grad(T.tanh(x).sum(), x), None, {"x": np.zeros((0, 2))})
        g = self.check(T.grad(((x - 1) ** 2).mean(), x), None)
        self.assertNotIn("Alloc", shown(g.maker.fgraph))
        self.assertNotIn("MakeVector", shown(g.maker.fgraph))


if __name__ == "__main__":
    unittest.main()
