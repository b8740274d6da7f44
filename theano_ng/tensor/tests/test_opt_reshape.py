"""Rules for Reshape and Flatten: chains, useless nodes, dimensions of length one."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.ops import Shape_i
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.basic import Flatten
from theano_ng.tensor.opt import reshape
from theano_ng.tensor.opt.shape import same_length
from theano_ng.tensor.tests.rewriting import CANONICALIZE, RewriteCase, shown

WITH_SHAPES = Query(["canonicalize_db", "canonicalize", "merge", "ShapeOpt"])


class TestReshape(RewriteCase):
    query = CANONICALIZE

    def test_chain(self):
        x, v, n = T.dmatrix("x"), T.dvector("v"), T.lscalar("n")
        self.check(x.reshape((3, 4)).reshape((2, 6)), "Reshape{2}(x, [2 6])", {"x": np.arange(12.0).reshape(6, 2)})
        self.check(x.reshape((-1,)).reshape((2, -1)), "Reshape{2}(x, [ 2 -1])", {"x": np.arange(12.0).reshape(6, 2)})
        self.check(
            v.reshape((n, 2)).reshape((2, n)),
            "Reshape{2}(v, MakeVector{dtype='int64'}(2, n))",
            {"v": np.ones(6), "n": 3},
        )
        self.check(x.flatten().reshape((0, 5)), "Reshape{2}(x, [0 5])", {"x": np.ones((3, 0))})

    def test_lift_of_chains(self):
        # All views of a chain move before all functions. Views whose rule is excluded stay, and so do the nodes behind
        # them.
        x = T.dmatrix("x")
        out = T.exp(T.tanh(T.sin(x).reshape((2, 3))).dimshuffle(1, 0)).reshape((1, 6))
        self.check(
            out,
            "exp(tanh(sin(InplaceDimShuffle{x,0}(Reshape{1}(InplaceDimShuffle{1,0}(Reshape{2}(x, [2 3])), 6)))))",
            {"x": np.arange(6.0).reshape(3, 2)},
        )
        self.check(
            out,
            "InplaceDimShuffle{x,0}(exp(Reshape{1}(InplaceDimShuffle{1,0}(tanh(sin(Reshape{2}(x, [2 3])))), 6)))",
            {"x": np.arange(6.0).reshape(3, 2)},
            query=CANONICALIZE.excluding("local_dimshuffle_lift"),
        )

    def test_useless(self):
        x, v, n = T.dmatrix("x"), T.dvector("v"), T.lscalar("n")
        for query in (CANONICALIZE, WITH_SHAPES):
            self.check(x.reshape(x.shape) + 0, "x", query=query)
            self.check(v.flatten() + 0, "v", query=query)
            self.check(x.reshape((x.shape[0], x.shape[1])) + 0, "x", query=query)
            self.check(x.reshape((-1, x.shape[1])) + 0, "x", query=query)
        for other in ((x.shape[1], x.shape[0]), (-1, x.shape[0]), (2, 3)):
            f = self.check(x.reshape(other) + 0, None, {"x": np.arange(6.0).reshape(3, 2)}, query=WITH_SHAPES)
            self.assertIn("Reshape", shown(f.maker.fgraph))
        # One length may be -1, not two.
        A = T.dtensor3("A")
        for v, other in ((x, (-1, -1)), (A, (-1, A.shape[1], -1)), (A, (A.shape[0], -1, -1)), (A, (-1, -1, -1))):
            f = theano_ng.function([v], T.reshape(v, other, ndim=v.ndim) + 0)
            self.assertRaisesRegex(ValueError, "reshape|unknown dimension", f, np.ones((2, 3, 4)[: v.ndim]))
        # The Reshape is also removed if the lengths are known, or if an elementwise function is applied first.
        c = T.alloc(n, 2, 3)
        self.check(c.reshape((2, 3)), "Alloc(n, 2, 3)", query=WITH_SHAPES)
        self.check(T.exp(x).reshape(x.shape), "exp(x)", query=WITH_SHAPES)
        t, u, even = T.dtensor3("t"), T.dtensor3("u"), {"t": np.ones((3, 4, 2)), "u": np.ones((3, 4, 2))}
        empty = {"x": np.ones((0, 4))}
        for out, expected in (
            (x.T.reshape((x.shape[1], x.shape[0])), "InplaceDimShuffle{1,0}(x)"),
            (x.reshape((T.stack([x.shape[0], 3])[0], x.shape[1])), "x"),
            (t.dimshuffle(0, 2, 1).reshape(T.shape(t)[[0, 2, 1]], ndim=3), None),
            (t.dimshuffle(0, 2, 1).reshape((t.shape[0], t.shape[2], t.shape[1])), "InplaceDimShuffle{0,2,1}(t)"),
            (
                T.batched_dot(t.dimshuffle(0, 2, 1).reshape((t.shape[0], t.shape[2], t.shape[1])), u).reshape(
                    (t.shape[0], t.shape[2], u.shape[2])
                ),
                "BatchedDot(InplaceDimShuffle{0,2,1}(t), u)",
            ),
        ):
            self.check(out, expected, {**even, **empty}, query=WITH_SHAPES)
        for out in (x.T.reshape((x.shape[0], x.shape[1])), t.dimshuffle(0, 2, 1).reshape(t.shape)):
            f = self.check(
                out, None, {"x": np.arange(6.0).reshape(3, 2), "t": np.arange(24.0).reshape(3, 4, 2)}, query=WITH_SHAPES
            )
            self.assertIn("Reshape", shown(f.maker.fgraph))

    def test_lengths_without_inferred_shapes(self):
        """The rule recognizes the lengths of the reshaped tensor without ShapeFeature.

        The rule does not recognize lengths that are cast to another dtype.
        """
        x, y = T.dmatrix("x"), T.dmatrix("y")
        lengths = {
            "Shape_i": lambda v, i: Shape_i(i)(v),
            "part of shape": lambda v, i: v.shape[i],
            "in another dtype": lambda v, i: T.cast(v.shape[i], "int32"),
        }
        for name, length in lengths.items():
            for sizes, useless in (
                ((length(x, 0), length(x, 1)), True),
                ((-1, length(x, 1)), True),
                ((length(x, 0), -1), True),
                ((length(x, 1), length(x, 0)), False),
                ((-1, length(x, 0)), False),
                ((length(y, 0), length(x, 1)), False),
                ((-1, length(y, 1)), False),
                ((-1, 3), False),
            ):
                fgraph = FunctionGraph([x, y], [T.reshape(x, T.stack(sizes), ndim=2)], clone=True)
                in2out(reshape.local_useless_reshape).optimize(fgraph)
                wanted = useless and name != "in another dtype"
                self.assertEqual("Reshape" in shown(fgraph), not wanted, (name, shown(fgraph)))

    def test_lengths_of_dimensions_that_there_are_not(self):
        a, x = T.dscalar("a"), T.dmatrix("x")
        for variable, index, other in ((x, 2, 0), (x, 3, 1), (x, -3, 1)):
            self.assertFalse(same_length(variable.shape[index], variable.shape[other]))
        self.assertTrue(same_length(a.shape[0], a.shape[0]))
        self.assertTrue(same_length(x.shape[-2], x.shape[0]))

    def test_lengths_are_no_unknown_sizes(self):
        """The shape of a reshape to lengths of x needs no division.

        A length of unknown origin may be -1; then the missing length is found by a division.
        """
        x, n = T.dmatrix("x"), T.lscalar("n")
        a, b = x.shape[0], x.shape[1]
        value = {"x": np.arange(6.0).reshape(2, 3)}
        whole = Query(["fast_run"], exclude=["fusion", "inplace"])
        for sizes, numbers, divided in (
            ((a, b), (0,), False),
            ((b, a), (0,), False),
            ((b * a, 1), (0,), False),
            ((x.shape.prod(), 1), (0,), False),
            ((T.stack([b, n])[0], a), (2,), False),
            ((n, b), (2, -1), True),
            ((a - b + n, b), (3, 0), True),
        ):
            for number in numbers:
                f = self.check(x.reshape(sizes, ndim=2).shape, None, {**value, "n": number}, query=whole)
                self.assertEqual("int_div" in shown(f.maker.fgraph), divided, (sizes, shown(f.maker.fgraph)))

    def test_ones(self):
        v, n, r = T.dvector("v"), T.lscalar("n"), T.drow("r")
        for out, expected in [
            (v.reshape((1, n)), "InplaceDimShuffle{x,0}(v)"),
            (v.reshape((1, 2, 1, -1, 1)), "InplaceDimShuffle{x,0,x,1,x}(Reshape{2}(v, [ 2 -1]))"),
            (v.reshape((n, 1, 2)), "InplaceDimShuffle{0,x,1}(Reshape{2}(v, MakeVector{dtype='int64'}(n, 2)))"),
            (v.dimshuffle("x", 0).reshape((2, n)), "Reshape{2}(v, MakeVector{dtype='int64'}(2, n))"),
            (r.dimshuffle(1, "x").reshape((n,)), None),
            (T.dscalar("d").reshape((1, 1)), "InplaceDimShuffle{x,x}(d)"),
            (T.dscalar("d").reshape((1,)), "InplaceDimShuffle{x}(d)"),
            (r.reshape((3,)), None),
        ]:
            length = 2 if "n, 2" in str(expected) or expected == "InplaceDimShuffle{x,0}(v)" else 3
            self.check(
                out,
                expected,
                {
                    "v": np.arange(length * (2 if "Reshape" in str(expected) else 1)),
                    "n": 3 if length == 3 else 2,
                    "r": np.arange(3.0).reshape(1, 3),
                },
            )
        # A transposition changes the order of the elements, so the DimShuffle before a Reshape stays.
        m = T.dmatrix("m")
        self.check(
            m.T.reshape((2, 3)), "Reshape{2}(InplaceDimShuffle{1,0}(m), [2 3])", {"m": np.arange(6.0).reshape(3, 2)}
        )
        f = theano_ng.function([v], v.reshape((1, 3)) + 1)
        self.assertEqual(f(np.arange(3.0)).shape, (1, 3))
        # x has one element and any rank. Some of its dimensions are known to have length 1, others are not.
        for rank in (1, 2, 3):
            for pattern in itertools.product((False, True), repeat=rank):
                x = T.TensorType("float64", pattern)("x")
                for ndim in (1, 2, 3):
                    self.check(x.reshape((1,) * ndim), None, {"x": np.full((1,) * rank, 5.0)})

    def test_lift(self):
        x = T.dmatrix("x")
        self.check(T.exp(x).reshape((3, 3)), "exp(Reshape{2}(x, 3))")
        self.check(Flatten(1)(T.exp(x)), "exp(Flatten{1}(x))")
        self.check((T.exp(x) + x).reshape((9,)), None)
        e = T.exp(x)
        f = theano_ng.function([x], [e.reshape((9,)), e])
        self.assertEqual(sum(isinstance(n.op, T.Elemwise) for n in f.maker.fgraph.apply_nodes), 1)
        # log(1 + exp(reshaped)) is recognized
        f = theano_ng.function([x], T.log(1 + T.exp(x).reshape((9,))))
        self.assertTrue(np.all(np.isfinite(f(np.full((3, 3), 800.0)))))


if __name__ == "__main__":
    unittest.main()
