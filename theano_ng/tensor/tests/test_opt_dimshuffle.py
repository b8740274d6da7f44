"""Rules that move DimShuffle and Rebroadcast towards the inputs."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.fg import FunctionGraph
from theano_ng.tensor.opt import (
    apply_local_dimshuffle_lift,
    apply_rebroadcast_opt,
    is_dimshuffle_useless,
    local_dimshuffle_lift,
    local_rebroadcast_lift,
)
from theano_ng.tensor.tests.rewriting import CANONICALIZE, RewriteCase, shown


class TestDimShuffle(RewriteCase):
    query = CANONICALIZE

    def test_useless(self):
        m, r, s = T.dmatrix("m"), T.drow("r"), T.dscalar("s")
        one = T.TensorType("float64", (True, True))()
        for order, x, expected in [
            ((0, 1), m, True),
            ((1, 0), m, False),
            (("x", 1), r, True),
            ((1, 0), one, True),
            ((0,), r, False),
            ((0, 1, "x"), m, False),
            ((1, 0), r, False),
            ((), s, True),
        ]:
            self.assertIs(is_dimshuffle_useless(order, x), expected)
        self.check(m.dimshuffle(0, 1) + 0, "m")
        self.check(m.T.T, "m")

    def test_what_is_not_lifted(self):
        """Rules move no DimShuffle or Rebroadcast before an operation with several results or an in-place operation."""
        a, b, x = scalar.float64("a"), scalar.float64("b"), T.dvector("x")
        both = T.Elemwise(scalar.Composite([a], [a + a, a * a]))(x, return_list=True)
        both += T.Elemwise(scalar.Composite([a, b], [a + b, a * b]))(x, x, return_list=True)
        inplace = T.Elemwise(scalar.exp, {0: 0})(T.log(x))
        for v in (*both, inplace):
            for rule, op in (
                (local_dimshuffle_lift, T.DimShuffle([False], ("x", 0))),
                (local_rebroadcast_lift, Rebroadcast((0, True))),
            ):
                fgraph = FunctionGraph([x], [op(v)], clone=True)
                self.assertFalse(rule.transform(fgraph.outputs[0].owner))
                plain = FunctionGraph([x], [op(T.exp(x))], clone=True)
                self.assertTrue(rule.transform(plain.outputs[0].owner))

    def test_merge_and_lift(self):
        m, v, s = T.dmatrix("m"), T.dvector("v"), T.dscalar("s")
        for out, expected in [
            (m.dimshuffle(1, 0, "x").dimshuffle("x", 1, 0), "InplaceDimShuffle{x,0,1}(m)"),
            (v.dimshuffle("x", 0).dimshuffle(1), "v"),
            (T.exp(m).T, "exp(InplaceDimShuffle{1,0}(m))"),
            ((m + v).T, "add(InplaceDimShuffle{1,0}(m), InplaceDimShuffle{0,x}(v))"),
            (
                T.exp(m.T + s).dimshuffle(1, "x", 0),
                "exp(add(InplaceDimShuffle{0,x,1}(m), InplaceDimShuffle{x,x,x}(s)))",
            ),
        ]:
            self.check(out, expected)
            self.check(
                out, None, {"m": np.ones((0, 2)), "v": np.ones(2)} if "v)" in expected and "m" in expected else {}
            )
        # a function whose result has other users is not moved
        e = T.exp(m)
        f = theano_ng.function([m], [e, e.T])
        self.assertEqual(sum(isinstance(n.op, T.Elemwise) for n in f.maker.fgraph.apply_nodes), 1)

    def test_apply(self):
        m = T.dmatrix("m")
        lifted = apply_local_dimshuffle_lift(T.exp(m).T.dimshuffle(1, "x", 0))
        self.assertIsInstance(lifted.owner.op, T.Elemwise)
        self.assertEqual(lifted.owner.inputs[0].owner.op.new_order, (0, "x", 1))
        self.assertIs(apply_local_dimshuffle_lift(m), m)
        self.assertIs(apply_local_dimshuffle_lift(m.dimshuffle(0, 1)), m)
        self.assertFalse(local_dimshuffle_lift.transform(m.T.owner))

    def test_dot(self):
        a, b, v = T.dmatrix("a"), T.dmatrix("b"), T.dvector("v")
        values = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(12.0).reshape(3, 4)}
        self.check(T.dot(a, b).T, "dot(InplaceDimShuffle{1,0}(b), InplaceDimShuffle{1,0}(a))", values)
        self.check(T.dot(a.T, b).T, "dot(InplaceDimShuffle{1,0}(b), a)", {"a": np.ones((3, 2)), "b": np.ones((3, 4))})
        self.check(T.dot(a, b).T, None, {"a": np.ones((2, 0)), "b": np.ones((0, 4))})
        self.check(T.dot(a, v).T, "dot(a, v)")


class TestRebroadcast(RewriteCase):
    query = CANONICALIZE

    def test_rules(self):
        m, r = T.dmatrix("m"), T.drow("r")
        for out, expected in [
            (Rebroadcast((0, False))(m), "m"),
            (Rebroadcast((0, True), (1, False))(m), "Rebroadcast{1}(m)"),
            (Rebroadcast((0, True))(T.exp(m)), "exp(Rebroadcast{1}(m))"),
            (Rebroadcast((1, True))(Rebroadcast((0, True))(m)), "Rebroadcast{1,1}(m)"),
            (Rebroadcast((0, False))(Rebroadcast((0, True))(m)), "m"),
            (Rebroadcast((0, False))(T.exp(Rebroadcast((0, True))(m))), "exp(m)"),
            (Rebroadcast((0, False))(Rebroadcast((1, True))(Rebroadcast((0, True))(m))), "Rebroadcast{?,1}(m)"),
            (Rebroadcast((0, True))(Rebroadcast((0, False))(r)), "r"),
        ]:
            self.check(out, expected, {"m": np.full((1, 1), 2.0)})
        f = theano_ng.function([m], Rebroadcast((0, True))(T.exp(m)) + 1)
        self.assertRaises(ValueError, f, np.ones((2, 2)))

    def test_apply(self):
        m = T.dmatrix("m")
        self.assertIs(apply_rebroadcast_opt(m), m)
        self.assertIs(apply_rebroadcast_opt(Rebroadcast((1, False))(m)), m)
        out = apply_rebroadcast_opt(Rebroadcast((0, True))(Rebroadcast((0, False), (1, True))(m)))
        self.assertEqual(shown(theano_ng.gof.FunctionGraph([m], [out], clone=False)), "Rebroadcast{1,1}(m)")
        # `apply_rebroadcast_opt` applies both rules again to the result of either rule.
        row = T.drow("row")
        self.assertIs(apply_rebroadcast_opt(Rebroadcast((0, True))(Rebroadcast((0, False))(row))), row)
        out = apply_rebroadcast_opt(Rebroadcast((0, False))(Rebroadcast((1, True))(Rebroadcast((0, True))(m))))
        self.assertEqual((out.owner.inputs, out.broadcastable), ([m], (False, True)))
        out = apply_rebroadcast_opt(Rebroadcast((0, True))(T.exp(m)))
        self.assertEqual(out.owner.op, T.exp)
        self.assertEqual(out.broadcastable, (True, False))


if __name__ == "__main__":
    unittest.main()
