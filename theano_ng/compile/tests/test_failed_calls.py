"""A failed call loses nothing: shared variables are as before, whichever update was made in place first."""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.functions.exposure import exposure
from theano_ng.gof.graph import Apply
from theano_ng.gof.link import PerformLinker, WrapLinker
from theano_ng.gof.op import Op
from theano_ng.gof.vm import VM_Linker
from theano_ng.tensor.elemwise import Elemwise


class Breaks(Op):
    """Adds a number in place, and fails when it is negative and one element has been changed."""

    __props__ = ()
    destroy_map = {0: [0]}

    def make_node(self, a, x):
        return Apply(self, [a, x], [a.type()])

    def perform(self, node, inputs, outputs):
        a, x = inputs
        a[0] += x
        if x < 0:
            raise ArithmeticError("negative")
        a[1:] += x
        outputs[0][0] = a


class TestState(unittest.TestCase):
    """Calls that fail on values, with shapes that went well before."""

    def check(self, inputs, updates, good, bad, error):
        f = theano.function(inputs, updates=updates, accept_inplace=True)
        states = [target for target, _ in updates]
        f(*good)
        before = [state.get_value() for state in states]
        for arguments in bad:
            with self.assertRaises(error):
                f(*arguments)
            for state, value in zip(states, before):
                np.testing.assert_array_equal(state.get_value(), value)
        f(*good)
        return f

    def test_indices(self):
        a, b, c = (theano.shared(np.zeros((4, 2)), name=name) for name in "abc")
        i, j, k, x = T.lvector("i"), T.lvector("j"), T.lscalar("k"), T.dscalar("x")
        f = self.check(
            [i, j, k, x],
            [(c, c * 2 + x), (a, T.inc_subtensor(a[i], x)), (b, T.set_subtensor(T.inc_subtensor(b[j], x)[k], 5.0))],
            ([0], [1], 2, 1.0),
            [([9], [0], 0, 1.0), ([0], [9], 0, 1.0), ([0], [0], 9, 1.0), ([0], [0], -9, 1.0)],
            IndexError,
        )
        if hasattr(f.fn, "nodes"):  # DebugMode keeps state by copies
            # what can fail on values comes first among the updates in place
            self.assertIsInstance(f.fn.nodes[-1].op, Elemwise)
            states = f.maker.overwritten_states()
            found = exposure(f.maker.fgraph, states, f.fn.nodes, f.fn.thunks)
            self.assertEqual((len(states), len(found.if_small), found.always), (3, 2, []))

    def test_large_states(self):
        """They are not copied; where only one update can fail nothing is lost either."""
        a, b = theano.shared(np.zeros((200000, 2))), theano.shared(np.zeros((200000, 2)))
        i, x = T.lvector("i"), T.dscalar("x")
        f = self.check([i, x], [(b, b + x), (a, T.inc_subtensor(a[i], x))], ([0], 1.0), [([200000], 1.0)], IndexError)
        if hasattr(f.fn, "nodes"):
            states = f.maker.overwritten_states()
            found = exposure(f.maker.fgraph, states, f.fn.nodes, f.fn.thunks)
            self.assertEqual((len(states), found.if_small, found.always), (2, [], []))

    def test_ops_of_users(self):
        """One that is half done when it fails."""
        a, x = theano.shared(np.zeros(3), name="a"), T.dscalar("x")
        self.check([x], [(a, Breaks()(a, x))], (1.0,), [(-1.0,)], ArithmeticError)
        b = theano.shared(np.zeros(3), name="b")
        self.check([x], [(b, b + x), (a, Breaks()(a, x))], (1.0,), [(-1.0,)], ArithmeticError)


class TestCallbacks(unittest.TestCase):
    """What is called between the nodes may raise, after any of them and for any values."""

    def check(self, mode, good, bad, error):
        for size, one_node in ((3, True), (3, False), (100000, False)):
            a, b = theano.shared(np.full(size, 1e5), name="a"), theano.shared(np.ones(size), name="b")
            x = T.dscalar("x")
            with np.errstate(all="ignore"):
                f = theano.function(
                    [x], [], updates=[(a, a * x)] if one_node else [(a, a * x), (b, b + T.log(x))], mode=mode
                )
                f(good)
                before = a.get_value(), b.get_value()
                for _ in range(2):
                    with self.assertRaises(error):
                        f(bad)
                    np.testing.assert_array_equal((a.get_value(), b.get_value()), before)
                f(good)
            np.testing.assert_array_equal(a.get_value(), before[0] * good)
        self.assertTrue(any(getattr(node.op, "destroy_map", None) for node in f.maker.fgraph.apply_nodes))

    def test_nan_guard_mode(self):
        mode = theano.compile.nanguardmode.NanGuardMode(optimizer="fast_run")
        self.check(mode, 2.0, 1e6, AssertionError)  # a product above 1e10
        self.check(mode, 2.0, np.nan, AssertionError)

    def callback(self, read):
        def look(*args, **kwargs):
            if any(isinstance(v, np.ndarray) and v.min() < -1e5 for v in read(*args, **kwargs)):
                raise OverflowError("too small")

        return look

    def test_monitor_mode(self):
        look = self.callback(lambda i, node, fn: [cell[0] for cell in fn.outputs])
        self.check(theano.compile.MonitorMode(post_func=look, optimizer="fast_run"), 2.0, -20.0, OverflowError)

    def test_linkers_with_callbacks(self):
        look = self.callback(lambda node, thunk, storage_map, compute_map: [storage_map[v][0] for v in node.outputs])
        self.check(theano.Mode(VM_Linker(callback=look), "fast_run"), 2.0, -20.0, OverflowError)

        def wrapped(i, node, thunk):
            thunk()
            self.callback(lambda: [cell[0] for cell in thunk.outputs])()

        self.check(theano.Mode(WrapLinker([PerformLinker()], wrapped), "fast_run"), 2.0, -20.0, OverflowError)


if __name__ == "__main__":
    unittest.main()
