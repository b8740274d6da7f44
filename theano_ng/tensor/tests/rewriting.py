"""Helper of the tests of rewriting rules: compare the printed graph after rewriting, and the results before and after."""

import re
import unittest

import numpy as np

import theano_ng
from theano_ng import gof
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof.optdb import Query

CANONICALIZE = Query(["canonicalize_db", "canonicalize", "merge"])
STABILIZE = Query(["fast_run"], position_cutoff=1.51)
SPECIALIZE = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt", "ShapeOpt", "local_fill_to_alloc"])


def shown(fgraph):
    """Return the graph on one line. Omit parts of names that all elementwise Ops, or all full reductions, have."""
    text = str(fgraph)[1:-1]
    text = re.sub(r"Elemwise\{([^}]*?),no_inplace\}", r"\1", text)
    text = re.sub(r"Elemwise\{(Cast\{\w+\})\}", r"\1", text)
    text = re.sub(r"(Tensor|Scalar)?Constant\{(?:\([\d, ]*\) of )?([^}]*)\}", r"\2", text)
    text = re.sub(r", acc_dtype=\w+|\{acc_dtype=\w+\}", "", text)
    text = re.sub(r"(Prod\w*)\{axis=None, dtype='\w+', acc_dtype='\w+'\}", r"\1", text)
    # Remove the copy that a function makes if its output is an input.
    return re.sub(r"^DeepCopyOp\((.*)\)$", r"\1", text)


class RewriteCase(unittest.TestCase):
    """A test case with a method `check`. Its tests fail if a rewriting rule raises an error."""

    query = SPECIALIZE
    rng_seed = 2017

    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"
        self.rng = np.random.RandomState(self.rng_seed)

    def tearDown(self):
        config.on_opt_error = self._policy

    def check(self, out, expected, values=None, query=None, rtol=1e-6):
        """Rewrite `out`, and compare the printed graph with `expected`, unless `expected` is None.

        Also compare the results before and after rewriting. `values` maps names of inputs to values.
        """
        inputs = [v for v in gof.graph.inputs([out]) if not isinstance(v, gof.Constant)]
        given = [self._value(v, values or {}) for v in inputs]
        after = theano_ng.function(inputs, out, mode=Mode("py", query or self.query), on_unused_input="ignore")
        if expected is not None:
            self.assertEqual(shown(after.maker.fgraph), expected)
        before = theano_ng.function(inputs, out, mode=Mode("py", None), on_unused_input="ignore")
        with np.errstate(all="ignore"):
            want, got = before(*given), after(*given)
        self.assertEqual(got.dtype, want.dtype)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)
        return after

    def _value(self, v, values):
        if v.name in values:
            return np.asarray(values[v.name], dtype=v.dtype)
        shape = [1 if b else 3 for b in v.broadcastable]
        if v.dtype[0] in "iu":
            return self.rng.randint(1, 6, size=shape).astype(v.dtype)
        return self.rng.uniform(0.3, 1.7, size=shape).astype(v.dtype)
