"""Tests of failed calls: shared variables keep their values, whichever update was made in place first."""

import copy
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile._backups import has_known_layout
from theano_ng.compile.functions.exposure import exposure
from theano_ng.compile.mode import get_mode
from theano_ng.gof.graph import Apply
from theano_ng.gof.link import PerformLinker, WrapLinker
from theano_ng.gof.op import Op
from theano_ng.gof.vm import VM_Linker
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams
from theano_ng.tensor import raw_random
from theano_ng.tensor.elemwise import Elemwise


class Breaks(Op):
    """An Op that adds a scalar in place, and fails midway if the scalar is negative."""

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
    """Tests of calls that fail because of the values of the arguments.

    Before the failing calls, the same function succeeds with other values.
    """

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
        if hasattr(f.fn, "nodes"):  # DebugMode preserves state by copies
            # The nodes that update in place and can fail for some values run first. So the last node is an Elemwise.
            self.assertIsInstance(f.fn.nodes[-1].op, Elemwise)
            states = f.maker.overwritten_states()
            found = exposure(f.maker.fgraph, states, f.fn.nodes, f.fn.thunks)
            self.assertEqual((len(states), len(found.if_small), found.always), (3, 2, []))

    def test_large_states(self):
        """If only one of two updates can fail, both states keep their values when a call fails.

        The states keep their values although large states are not copied before a call.
        """
        a, b = theano.shared(np.zeros((200000, 2))), theano.shared(np.zeros((200000, 2)))
        i, x = T.lvector("i"), T.dscalar("x")
        f = self.check([i, x], [(b, b + x), (a, T.inc_subtensor(a[i], x))], ([0], 1.0), [([200000], 1.0)], IndexError)
        if hasattr(f.fn, "nodes"):
            states = f.maker.overwritten_states()
            found = exposure(f.maker.fgraph, states, f.fn.nodes, f.fn.thunks)
            self.assertEqual((len(states), found.if_small, found.always), (2, [], []))

    def test_ops_of_users(self):
        """A failed call restores a state that an Op of a user had overwritten in part when the Op failed."""
        a, x = theano.shared(np.zeros(3), name="a"), T.dscalar("x")
        self.check([x], [(a, Breaks()(a, x))], (1.0,), [(-1.0,)], ArithmeticError)
        b = theano.shared(np.zeros(3), name="b")
        self.check([x], [(b, b + x), (a, Breaks()(a, x))], (1.0,), [(-1.0,)], ArithmeticError)


class Stops(Op):
    """An Op in Python that sums a vector, or raises an exception.

    The second input is the index of the exception in `reasons`.
    """

    __props__ = ()
    reasons = (None, KeyboardInterrupt, SystemExit, MemoryError, ZeroDivisionError)

    def make_node(self, x, k):
        return Apply(self, [x, k], [T.dscalar()])

    def perform(self, node, inputs, outputs):
        x, k = inputs
        if self.reasons[k] is not None:
            raise self.reasons[k]()
        outputs[0][0] = np.asarray(x.sum())


class OwnRandomState(np.random.RandomState):
    """A user's subclass of RandomState."""


class TestReasons(unittest.TestCase):
    """A call that ends with an exception leaves all states unchanged.

    The next call gives the usual result.
    """

    def check(self, f, states, good, bad):
        f(*good)
        before = [state.get_value() for state in states]
        for arguments in bad:
            for _ in range(2):
                with self.assertRaises(BaseException):
                    f(*arguments)
                for state, value in zip(states, before):
                    np.testing.assert_array_equal(state.get_value(), value)
        result = f(*good)
        after = [state.get_value() for state in states]
        for state, value in zip(states, before):
            state.set_value(value)
        np.testing.assert_array_equal(f(*good), result)
        for state, value in zip(states, after):
            np.testing.assert_array_equal(state.get_value(), value)

    reasons = range(1, len(Stops.reasons))

    def test_behind_updates_in_place(self):
        x, k = T.dvector("x"), T.lscalar("k")
        for n in (4, 300000):
            for linker in ("cvm", "vm", "py"):
                a, c = theano.shared(np.zeros(n), "a"), theano.shared(np.zeros(n), "c")
                new = T.inc_subtensor(a[1:], x[1:])
                f = theano.function(
                    [x, k], Stops()(new, k), updates=[(a, new), (c, c * 2 + x)], mode=theano.Mode(linker, "fast_run")
                )
                self.check(f, [a, c], (np.ones(n), 0), [(np.ones(n), reason) for reason in self.reasons])

    def test_two_streams(self):
        r, x, k = MRG_RandomStreams(7), T.dvector("x"), T.lscalar("k")
        u, v = r.uniform((5,), dtype="float64"), r.normal((6,), dtype="float64")
        f = theano.function([x, k], [Stops()(u * x, k), v.sum()])
        self.check(
            f, [s for s, _ in r.state_updates], (np.ones(5), 0), [(np.ones(5), reason) for reason in self.reasons]
        )

    def test_generators_of_numpy(self):
        """A failed call restores the states of NumPy generators.

        The call also restores a state that holds the second of a pair of normal values, and states of generators other
        than the Mersenne Twister.
        """
        x, k = T.dvector("x"), T.lscalar("k")
        generators = [
            np.random.RandomState(3),
            np.random.RandomState(np.random.MT19937(3)),
            np.random.RandomState(np.random.PCG64(3)),
            OwnRandomState(3),
        ]
        for generator in generators:
            for draw in (raw_random.normal, raw_random.uniform, raw_random.permutation):
                for drawn_before in (0, 1):
                    generator.normal(size=drawn_before)
                    state = theano.shared(generator, borrow=True)
                    new, sample = draw(state) if draw is raw_random.permutation else draw(state, (5,))
                    state.default_update = new
                    # The mode is fixed, because DebugMode would draw several times in a call.
                    f = theano.function([x, k], [Stops()(x, k), sample], mode=get_mode("FAST_RUN"))
                    f(np.ones(2), 0)
                    for reason in self.reasons:
                        before = generator.get_state(legacy=False)
                        self.assertRaises(BaseException, f, np.ones(2), reason)
                        np.testing.assert_equal(generator.get_state(legacy=False), before)
                    np.testing.assert_array_equal(f(np.ones(2), 0)[1], self.drawn(generator, before, draw))

    @staticmethod
    def drawn(generator, state, draw):
        """Return the values that the functions of `test_generators_of_numpy` draw."""
        twin = copy.deepcopy(generator)
        twin.set_state(state)
        if draw is raw_random.permutation:
            return twin.permutation(1)
        return twin.normal(0.0, 1.0, 5) if draw is raw_random.normal else twin.uniform(0.0, 1.0, 5)

    def test_states_of_numpy_are_read_directly(self):
        """`has_known_layout` is true only for NumPy's RandomState with the Mersenne Twister.

        The state of such a generator is read from memory, because ``get_state`` would take longer than a small sample.
        """
        self.assertTrue(has_known_layout(np.random.RandomState(3)))
        for other in (OwnRandomState(3), np.random.RandomState(np.random.PCG64(3)), np.random.default_rng(3), None):
            self.assertFalse(has_known_layout(other))

    def test_in_a_loop(self):
        """If a step of a loop fails, the rows that earlier steps have overwritten are restored."""
        a, x, k = theano.shared(np.zeros((4, 3)), "a"), T.dmatrix("x"), T.lvector("k")
        rows, updates = theano.scan(
            lambda row, reason, last: last + Stops()(row, reason), sequences=[x, k], outputs_info=[a[0]]
        )
        f = theano.function([x, k], rows.sum(), updates=[*updates.items(), (a, T.set_subtensor(a[1:], rows))])
        bad = [(np.ones((3, 3)), [0, reason, 0]) for reason in self.reasons]
        self.check(f, [a], (np.ones((3, 3)), [0, 0, 0]), bad)

    def test_a_default_that_is_overwritten(self):
        z, k = T.dvector("z"), T.lscalar("k")
        f = theano.function([theano.In(z, value=np.ones(3), mutable=True), k], [Stops()(T.sqr(z), k), T.sqr(z) * 3])
        for reason in self.reasons:
            with self.assertRaises(BaseException):
                f(k=reason)
            np.testing.assert_array_equal(f(k=0)[1], [3, 3, 3])

    def test_update_of_a_state_with_odd_strides(self):
        """A failed call restores a state that is a strided view, and its array stays the same object."""
        base = np.arange(24.0).reshape(4, 6)
        k = T.lscalar("k")
        for view in (base[::2, ::-1], base.T, base[:, 1:2], base[:0]):
            a, c = theano.shared(view, borrow=True), theano.shared(np.zeros(2))
            new = T.inc_subtensor(a[:1], 1.0)
            f = theano.function([k], Stops()(new, k), updates=[(a, new), (c, c + 1)])
            kept = a.get_value(borrow=True)
            for _ in range(2):
                before = kept.copy()
                self.assertRaises(KeyboardInterrupt, f, 1)
                np.testing.assert_array_equal(kept, before)
                self.assertIs(a.get_value(borrow=True), kept)
                np.testing.assert_array_equal(c.get_value(), [0, 0])


class TestCallbacks(unittest.TestCase):
    """Tests of callbacks that run between nodes, and may raise an exception after any node.

    If a callback raises an exception, the shared variables keep the values from before the call.
    """

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
        self.check(mode, 2.0, 1e6, AssertionError)  # NanGuardMode refuses the product, which is above 1e10
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
