"""Tests of creation traces: rules of the package keep them, a check reports rules that do not, and errors show them."""

import io
import pickle
import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import function
from theano_ng import tensor as T
from theano_ng.compile.mode import get_mode, optdb
from theano_ng.configparser import change_flags
from theano_ng.gof.op import PureOp
from theano_ng.gof.optdb import Query
from theano_ng.gof.rewriting import check_stack_trace, copy_stack_trace, in2out, local_optimizer
from theano_ng.ifelse import ifelse
from theano_ng.misc.pkl_utils import StripPickler


def graphs():
    """Yield graphs whose rewriting uses many rules; shared variables are updated in place."""
    x, v, labels, i, c = T.dmatrix("x"), T.dvector("v"), T.lvector("labels"), T.lscalar("i"), T.dscalar("c")
    w, b = theano.shared(np.ones((3, 3)), name="w"), theano.shared(np.ones(3), name="b")
    p = T.nnet.softmax(T.dot(x, w) + b)
    cost = T.nnet.categorical_crossentropy(p, labels).mean() + 0.1 * (w**2).sum()
    gw, gb = T.grad(cost, [w, b])
    velocity = theano.shared(np.zeros((3, 3)))
    new = 0.9 * velocity - 0.1 * gw
    yield [x, labels], cost, [(velocity, new), (w, w + new), (b, b - 0.1 * gb)]
    sigma = T.nnet.sigmoid(v)
    yield (
        [v],
        [
            T.log(sigma).sum(),
            T.log(1 - sigma),
            T.log(1 + T.exp(v)),
            T.log(T.exp(v).sum()),
            T.log(T.prod(v**2)),
            (v - v) * 3 + v / v,
        ],
        [],
    )
    yield (
        [x, i],
        [
            x[1:][i],
            x.T.T[::-1][0].sum(),
            T.zeros_like(x)[i] + x.shape[0],
            T.inc_subtensor(x[i], 1.0)[i],
            T.concatenate([x, x])[0],
        ],
        [],
    )
    yield (
        [v, i],
        [
            T.alloc(v, 3, i).sum(axis=0),
            T.stack([v[0], v[1]])[1:],
            T.switch(T.eq(v, v), v, -v),
            v.reshape((i, 1)).flatten(),
        ],
        [],
    )
    yield (
        [v, c],
        [
            ifelse(T.gt(c, 0), v * 2, v + c),
            T.exp(T.exp(v * 2.0 + c)) ** 2 / v,
            T.sqr(v).sum() * (-v) * c,
            v.max() + v.argmax(),
        ],
        [],
    )
    yield (
        [x],
        [
            (x**2).sum(),
            T.tensordot(x, x, axes=1),
            T.erfc(x) + T.log(T.erfc(x)),
            x.dimshuffle(1, 0).sum(axis=0),
            abs(-x) * 1,
        ],
        [],
    )


class TestRules(unittest.TestCase):
    def test_none_is_lost(self):
        for name in ("FAST_RUN", "FAST_COMPILE"):
            for inputs, outputs, updates in graphs():
                with change_flags(check_stack_trace="raise", on_opt_error="raise", cache_graphs=False):
                    f = function(inputs, outputs, updates=updates, mode=name)
                self.assertTrue(check_stack_trace(f, "all"))
                traces = [
                    trace for node in f.maker.fgraph.toposort() for out in node.outputs for trace in out.tag.trace
                ]
                self.assertEqual({trace[-1][2] for trace in traces}, {"graphs"})

    def test_what_a_rule_makes_on_the_way(self):
        """Intermediate variables that a rule creates get the stack trace of the rule's result.

        If the result has no stack trace, it gets the stack trace of the variable that it replaces.
        """

        @local_optimizer([T.exp])
        def exp_to_two(node):
            return [copy_stack_trace(node.outputs[0], T.cosh(node.inputs[0]) + T.sinh(node.inputs[0]))]

        @local_optimizer([T.exp])
        def forgets(node):
            return [T.cosh(node.inputs[0]) + T.sinh(node.inputs[0])]

        x = T.dvector("x")
        y = T.exp(x)
        for rule, kept in ((exp_to_two, True), (forgets, False)):
            mode = theano.Mode("py", Query(include=[])).register((in2out(rule, name=rule.__name__), 2))
            f = function([x], y, mode=mode)
            self.assertEqual({str(node.outputs[0].tag.trace) for node in f.maker.fgraph.toposort()}, {str(y.tag.trace)})
            for policy in ("log", "warn", "raise"):
                with (
                    change_flags(check_stack_trace=policy, on_opt_error="raise"),
                    warnings.catch_warnings(record=True) as caught,
                ):
                    warnings.simplefilter("always")
                    if policy == "raise" and not kept:
                        with (
                            self.assertLogs("theano_ng.gof.opt", "ERROR"),
                            self.assertRaisesRegex(AssertionError, "Empty stack trace.*forgets"),
                        ):
                            function([x], y, mode=mode)
                        continue
                    f = function([x], y, mode=mode)
                self.assertEqual(
                    any("Empty stack trace" in str(w.message) for w in caught), policy == "warn" and not kept
                )
                self.assertEqual("is forgets" in str(f.maker.fgraph.outputs[0].tag.trace), not kept)
                self.assertTrue(check_stack_trace(f, [T.cosh, PureOp]))

    def test_graph_without_traces(self):
        x = T.dvector("x")
        text = io.BytesIO()
        StripPickler(text).dump([x, T.log(1 + T.exp(x))])
        x, y = pickle.loads(text.getvalue())
        with change_flags(check_stack_trace="raise", on_opt_error="raise", cache_graphs=False):
            f = function([x], y)
        self.assertIn("which replaces a variable without stack trace", str(f.maker.fgraph.outputs[0].tag.trace))

    def test_no_tag_asks_for_the_check(self):
        for name in ("fast_run", "fast_compile"):
            self.assertNotIn(
                "CheckStackTraceOptimization", [type(opt).__name__ for opt in optdb.query(Query(include=[name]))]
            )
        self.assertEqual(len(optdb.query(Query(include=["CheckStackTrace"]))), 1)


class TestErrors(unittest.TestCase):
    def test_missing_input(self):
        x, y = T.dvectors("xy")
        for verbosity in ("low", "high"):
            with change_flags(exception_verbosity=verbosity), self.assertRaises(theano.gof.MissingInputError) as caught:
                function([x], T.exp(x * y) + 1)
            text = str(caught.exception)
            self.assertRegex(
                text, r"Input 1 of the graph .*used to compute Elemwise\{mul,no_inplace\}\(x, y\), was not provided"
            )
            self.assertIn("x, y = T.dvectors", text)
            self.assertEqual("exception_verbosity='high'" in text, verbosity == "low")
            self.assertEqual("A. Elemwise{mul,no_inplace}\n B. x\n C. y" in text, verbosity == "high")

    def test_failing_nodes_of_rewritten_graphs(self):
        x, y = T.dvectors("xy")
        for mode in ("FAST_RUN", "FAST_COMPILE"):
            f = function([x, y], T.exp(T.log(x) - 3.0 * y).sum(), mode=get_mode(mode))
            with self.assertRaisesRegex(
                ValueError, r"(?s)Backtrace when the node is created.*f = function\(\[x, y\], T.exp"
            ):
                f([1.0, 2.0], [1.0, 2.0, 3.0])


if __name__ == "__main__":
    unittest.main()
