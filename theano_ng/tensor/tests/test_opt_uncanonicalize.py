"""Rules that replace canonical forms by cheaper forms."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.tensor.basic import Reshape
from theano_ng.tensor.tests.rewriting import RewriteCase, shown


class TestUncanonicalize(RewriteCase):
    query = Query(["uncanonicalize", "merge"])

    def test_max(self):
        x, i = T.dmatrix("x"), T.imatrix("i")
        both = T.max_and_argmax(x, axis=1)
        self.check(both[0], "Reduce{maximum}{1}(x)")
        self.check(both[1], "Argmax{axis=(1,)}(x)")
        f = theano_ng.function([x], both, mode=Mode("py", self.query))
        self.assertIn("MaxAndArgmax", shown(f.maker.fgraph))
        values = {"x": [[1, np.nan], [2, -3]], "i": [[-(2**31), 5], [0, 3]]}
        for out in (-T.max(-x, axis=0), T.min(x), ~T.max(~i, axis=1)):
            self.check(out, None, values)
        self.check(-T.max(-i, axis=1), None, {"i": [[-7, 5], [0, 3]]})

    def test_shapes(self):
        v, r, n = T.dvector("v"), T.drow("r"), T.lscalar("n")
        for out, expected in [
            (T.alloc(v.dimshuffle("x", 0), n, 3), "Alloc(v, n, 3)"),
            (T.alloc(v.dimshuffle(0, "x"), 3, n), None),
            (T.alloc(v, n, 3).dimshuffle("x", 0, 1), "Alloc(v, 1, n, 3)"),
            (T.alloc(v, n, 3).dimshuffle(1, 0), None),
            (Reshape(2)(v.dimshuffle("x", 0), [n, 3]), None),
            (v[1:2].dimshuffle("x", 0), None),
            (r[0:1, 1:].dimshuffle(1), None),
            (r[:, 1:].dimshuffle(1), None),
            (r[::-1, ::2].dimshuffle(1), None),
        ]:
            f = self.check(out, expected, {"n": 1})
            self.assertEqual(f.maker.fgraph.outputs[0].type, out.type)
        for start in (-3, -2, -1, 0):
            self.check(r[start:, 1:].dimshuffle(1), None)
            f = theano_ng.function([r], r[start:][0], mode=Mode("py", "fast_run"))
            self.assertEqual(f([[1.0, 2.0]]).tolist(), [1.0, 2.0])


if __name__ == "__main__":
    unittest.main()
