"""Tests of NanGuardMode: it finds all abnormal values, and only those."""

import pickle
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.nanguardmode import NanGuardMode, contains_inf, contains_nan, flatten


class TestNanGuardMode(unittest.TestCase):
    def setUp(self):
        self._err = np.seterr(all="ignore")

    def tearDown(self):
        np.seterr(**self._err)

    def test_each_kind_in_inputs_and_outputs(self):
        x = T.dmatrix()
        w = theano.shared(np.ones((5, 7)))
        fun = theano.function([x], T.dot(x, w), mode=NanGuardMode(nan_is_error=True, inf_is_error=True))
        a = np.arange(15.0).reshape(3, 5)
        np.testing.assert_allclose(fun(a), a.dot(np.ones((5, 7))))
        for bad, text in ((np.nan, "NaN detected"), (np.inf, "Inf detected"), (-2e10, "Big value detected")):
            b = a.copy()
            b[1, 2] = bad
            with self.assertRaisesRegex(AssertionError, text + "\nIn an input"):
                fun(b)
        v = T.dvector()
        f = theano.function([v], T.log(v) * 3, mode="NanGuardMode")
        with self.assertRaisesRegex(AssertionError, r"(?s)NaN detected.*output of a node.*log"):
            f([1.0, -1.0])
        self.assertRaises(AssertionError, f, [0.0])
        self.assertEqual(f([1.0]).tolist(), [0.0])

    def test_flags_clone_and_pickle(self):
        v = T.dvector()
        excluding = NanGuardMode(True, False, False).excluding("fusion")
        for mode in (excluding, pickle.loads(pickle.dumps(excluding))):
            f = theano.function([v], T.exp(v) - 1, mode=mode)
            self.assertEqual(f([1000.0]).tolist(), [np.inf])
            self.assertRaises(AssertionError, f, [np.nan])
        with theano.config.change_flags({"NanGuardMode.big_is_error": False}):
            mode = NanGuardMode()
        self.assertEqual((mode.nan_is_error, mode.inf_is_error, mode.big_is_error), (True, True, False))

    def test_the_message(self):
        x, y = T.dvectors("x", "y")
        with theano.change_flags({"traceback.limit": 4}):
            ratio = x / y
        f = theano.function([x, y], [ratio, x.sum()], mode=NanGuardMode(optimizer=None))
        with self.assertRaises(AssertionError) as caught:
            f([1.0], [0.0])
        text = str(caught.exception)
        for part in (
            "Inf detected\nIn an output of a node in the graph: output 0",
            "Elemwise{true_div",
            "Value: [inf]",
            "Backtrace when the variable was created",
            "ratio = x / y",
            "test_nanguardmode.py",
        ):
            self.assertIn(part, text)
        with self.assertRaises(AssertionError) as caught:
            f([np.nan], [0.0])
        text = str(caught.exception)
        for part in (
            "NaN detected\nIn an input of the function: x",
            "Node whose input it is: Elemwise{true_div,no_inplace}(x, y)",
            "Node whose input it is: Sum{acc_dtype=float64}(x)",
            "Value: [nan]",
        ):
            self.assertIn(part, text)

    def test_compound_values_updates_and_lazy_nodes(self):
        from theano_ng.gof import Apply, Generic, Op
        from theano_ng.ifelse import ifelse

        class Pair(Op):
            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [Generic()()])

            def perform(self, node, inputs, outputs):
                outputs[0][0] = [1, ("text", inputs[0] / inputs[0]), None]

        x, c = T.dvector("x"), T.bscalar("c")
        f = theano.function([x], Pair()(x), mode="NanGuardMode")
        self.assertEqual(f([2.0])[1][1].tolist(), [1.0])
        self.assertRaisesRegex(AssertionError, "NaN detected(?s:.)*Pair", f, [0.0])

        total = theano.shared(np.zeros(2), "total")
        g = theano.function(
            [x], total.sum(), updates=[(total, total + T.sqrt(x))], mode=NanGuardMode().excluding("inplace")
        )
        g([4.0, 9.0])
        self.assertRaisesRegex(AssertionError, "NaN detected(?s:.)*sqrt", g, [4.0, -9.0])
        self.assertEqual(total.get_value().tolist(), [2, 3])
        total.set_value([np.inf, 0])
        self.assertRaisesRegex(AssertionError, "Inf detected\nIn an input of the function: total", g, [1.0, 1.0])

        h = theano.function([x, c], ifelse(c, T.log(x), x), mode="NanGuardMode")
        self.assertEqual(h([-1.0], 0).tolist(), [-1.0])  # the other branch is not computed
        self.assertRaises(AssertionError, h, [-1.0], 1)

    def test_action(self):
        v = T.dvector()
        f = theano.function([v], T.log(v), mode="NanGuardMode")
        with (
            theano.config.change_flags({"NanGuardMode.action": "warn"}),
            self.assertWarnsRegex(UserWarning, "NaN detected"),
        ):
            self.assertTrue(np.isnan(f([-1.0])[0]))
        with theano.config.change_flags({"NanGuardMode.action": "pdb"}), mock.patch("pdb.set_trace") as debugger:
            f([-1.0])
        self.assertEqual(debugger.call_count, 1)

    def test_what_is_exempt(self):
        v = T.dvector()
        out = T.log(v)
        out.tag.nan_guard_mode_check = False
        self.assertTrue(np.isnan(theano.function([v], out, mode="NanGuardMode")([-1.0])[0]))
        f = theano.function([v], T.set_subtensor(T.AllocEmpty("float64")(3)[:], v), mode="NanGuardMode")
        self.assertEqual(f([1.0, 2.0, 3.0]).tolist(), [1, 2, 3])
        i = T.lvector()
        g = theano.function([i], i * 2, mode="NanGuardMode")
        self.assertEqual(g([2**60]).tolist(), [2**61])

    def test_helpers(self):
        self.assertEqual(flatten([1, (2, [3, []]), 4]), [1, 2, 3, 4])
        both = np.array([np.inf, -np.inf])
        self.assertEqual((contains_nan(both), contains_inf(both)), (False, True))
        self.assertEqual(
            (contains_nan(np.array([1, np.nan], "complex64")), contains_inf(np.array([np.nan]))), (True, False)
        )
        for other in (np.random.RandomState(1), slice(3), None, "nan", np.array([1, 2]), np.array([]), 3):
            self.assertEqual((contains_nan(other), contains_inf(other)), (False, False))
        self.assertTrue(contains_nan(float("nan")))


if __name__ == "__main__":
    unittest.main()
