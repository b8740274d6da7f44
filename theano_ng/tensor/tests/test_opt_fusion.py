"""Elementwise operations become one loop where that computes nothing twice."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.tensor.opt import elemwise_max_input_fct
from theano_ng.tensor.tests.rewriting import RewriteCase, shown

FUSION = Query(["fusion", "canonicalize_db"])


class TestFusion(RewriteCase):
    query = FUSION

    def test_texts(self):
        x, y, z = T.dvectors("xyz")
        s, m = T.dscalar("s"), T.dmatrix("m")
        for out, expected in [
            (T.exp(x) * y - z, "Elemwise{Composite{((exp(i0) * i1) - i2)}}(x, y, z)"),
            (T.tanh(x + s), "Elemwise{Composite{tanh((i0 + i1))}}(x, InplaceDimShuffle{x}(s))"),
            (T.exp(T.exp(x) + T.exp(x)), "Elemwise{Composite{exp((i0 + i0))}}(exp(x))"),
            ((x + y) + z, "add(x, y, z)"),
            (T.exp(x) + m, "add(InplaceDimShuffle{x,0}(exp(x)), m)"),
        ]:
            values = {"m": np.ones((2, 3))}
            f = self.check(out, None if "i0 + i0" in expected else expected, values)
            self.assertLessEqual(len(f.maker.fgraph.apply_nodes), 3)
        self.assertEqual(elemwise_max_input_fct(None), 32)

    def test_dtypes(self):
        f, d, i, b = T.fvector("f"), T.dvector("d"), T.ivector("i"), T.bvector("b")
        for out in (T.exp(f) * d + i, T.cast(f * d, "int8") + b, (i > b) * f, T.switch(f > d, i, b) + 0.5):
            g = self.check(out, None)
            loops = [n for n in g.maker.fgraph.apply_nodes if isinstance(n.op, T.Elemwise)]
            self.assertEqual(len(loops), 1, shown(g.maker.fgraph))

    def test_clients(self):
        x, y = T.dvectors("xy")
        shared = T.exp(x)
        f = theano_ng.function([x, y], [shared + y, shared * y, T.tanh(shared * 2)], mode=Mode("py", FUSION))
        self.assertEqual(shown(f.maker.fgraph).count("exp("), 1)
        for got, want in zip(
            f([0, 1], [2, 3]), (np.exp([0, 1]) + [2, 3], np.exp([0, 1]) * [2, 3], np.tanh(np.exp([0, 1]) * 2))
        ):
            np.testing.assert_allclose(got, want)
        # an operation whose users are all inside joins
        f = self.check(T.tanh(shared) + shared * y, None)
        self.assertEqual(len(f.maker.fgraph.apply_nodes), 1)
        # what needs a result of the loop in between stays outside
        self.check(shared + T.exp(shared.sum() + shared), None)

    def test_higher_derivative(self):
        # One loop, as every intermediate result is used inside it.
        x = T.dvector("x")
        y = T.tanh(T.tanh(x))
        for _ in range(5):
            y = T.grad(y.sum(), x)
        f = theano_ng.function([x], y, mode=Mode("vm", "fast_run"))
        self.assertEqual(len(f.maker.fgraph.apply_nodes), 1)
        plain = theano_ng.function([x], y, mode=Mode("py", None))
        np.testing.assert_allclose(f([-0.3, 0.2, 1.1]), plain([-0.3, 0.2, 1.1]), rtol=1e-9)

    def test_limits(self):
        xs = T.dvectors(["x%d" % i for i in range(70)])
        out = xs[0]
        for v in xs[1:]:
            out = T.tanh(out) * v
        f = self.check(out, None)
        self.assertLessEqual(max(len(n.inputs) for n in f.maker.fgraph.apply_nodes), 32)
        self.assertLessEqual(len(f.maker.fgraph.apply_nodes), 5)
        x = h = T.dvector("x")
        for _ in range(300):
            h = T.tanh(h + x)
        self.assertLessEqual(len(self.check(h, None).maker.fgraph.apply_nodes), 8)


if __name__ == "__main__":
    unittest.main()
