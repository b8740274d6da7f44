"""Tests of the reuse of small intermediate arrays by the next call; callers never see a reused array change."""

import tracemalloc
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.ifelse import ifelse

CVM = theano.Mode("cvm", "fast_run")
PLAIN = theano.Mode("cvm", theano.compile.mode.OPT_MERGE)  # nothing fused, nothing in place


class TestSpareArrays(unittest.TestCase):
    def graph(self, x):
        """Return several outputs of x.

        Some outputs share memory with intermediate values, because they are views or are computed in place.
        """
        a = T.exp(x)
        b = T.cumsum(a)
        c = b - b.sum()
        d = T.tanh(c[::-1])
        e = (d * 2)[1:]
        f = T.cumsum(d) + 1
        return [c[::2], e, f.reshape((-1, 1)), T.sort(f)[0], d.dimshuffle("x", 0), T.cumsum(e), f.sum()]

    def reference(self, x):
        b = np.cumsum(np.exp(x))
        c = b - b.sum()
        d = np.tanh(c[::-1])
        f = np.cumsum(d) + 1
        e = (d * 2)[1:]
        return [c[::2], e, f.reshape((-1, 1)), np.sort(f)[0], d[None], np.cumsum(e), f.sum()]

    def test_results_stay(self):
        """Returned arrays keep their values during all later calls, with equal and with different lengths."""
        rng = np.random.RandomState(0)
        for mode in (CVM, PLAIN):
            x = T.dvector("x")
            f = theano.function([x], self.graph(x), mode=mode)
            held = []
            for n in (4, 4, 4, 1, 4, 300, 4, 4, 0, 3, 3, 128, 128, 129, 129, 4):
                value = rng.randn(n) if n else np.zeros(1)
                held.append((f(value), self.reference(value)))
                for got, want in held:
                    for one, other in zip(got, want):
                        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)

    def test_arrays_serve_again(self):
        """A small intermediate array has the same address in successive calls, and a large array has not.

        This shows that small arrays are reused, so the other tests would notice if a caller still held such an array.
        """
        places = []

        class Watch(theano.Op):
            """An Op that records the address of its input."""

            __props__ = ()

            def make_node(self, value):
                return theano.Apply(self, [value], [value.type()])

            def perform(self, node, inputs, outputs):
                places.append(inputs[0].__array_interface__["data"][0])
                outputs[0][0] = inputs[0] + 1

        x = T.dvector("x")
        watched = theano.function([x], T.cumsum(Watch()(T.exp(x))).sum(), mode=PLAIN)
        blockers = []
        for n, same in ((100, True), (129, False)):
            del places[:]
            for _ in range(6):
                watched(np.zeros(n))
                # take the memory that the call has freed, so that a new array cannot get the same address
                blockers.extend(np.empty(n) for _ in range(50))
            self.assertEqual(len(set(places)) == 1, same, places)

    def test_cells_are_empty(self):
        x = T.dvector("x")
        f = theano.function([x], self.graph(x), mode=PLAIN)
        f(np.ones(4))
        f(np.ones(4))
        kept = set(f.maker.fgraph.outputs) | set(f.maker.fgraph.inputs)
        for r, cell in f.fn.storage_map.items():
            if r not in kept and r.owner is not None:
                self.assertIsNone(cell[0], r)

    def test_some_of_the_outputs(self):
        """Results are correct and stay unchanged if calls for some outputs alternate with calls for all outputs."""
        x, c = T.dvector("x"), T.bscalar("c")
        f = theano.function([x], self.graph(x), mode=CVM)
        value = np.linspace(-1, 1, 5)
        want = self.reference(value)
        held = []
        for subset in (None, [0], None, [1, 2], [4], None, None):
            got = f(value) if subset is None else f(value, output_subset=subset)
            held.append((got, want if subset is None else [want[i] for i in subset]))
            f(value * 2)
            for got, expected in held:
                for one, other in zip(got, expected):
                    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        f = theano.function([c, x], [ifelse(c, T.cumsum(T.exp(x)) - 1, T.exp(x)[::-1])], mode=CVM)
        held = []
        for i in range(6):
            held.append((f(i % 2, value), np.cumsum(np.exp(value)) - 1 if i % 2 else np.exp(value)[::-1]))
            for got, expected in held:
                np.testing.assert_allclose(got[0], expected, rtol=1e-12)

    def test_states(self):
        x = T.dvector("x")
        a, b = theano.shared(np.ones(4), borrow=True), theano.shared(np.zeros(4), borrow=True)
        new = T.cumsum(T.exp(x * a)) - x
        f = theano.function([x], [new * 2, b], updates=[(a, T.tanh(new)), (b, b + new)], mode=CVM)
        va, vb, held = np.ones(4), np.zeros(4), []
        for i in range(6):
            value = np.linspace(0, 1, 4) + i
            n = np.cumsum(np.exp(value * va)) - value
            held.append((f(value)[0], n * 2, a.get_value(borrow=True), np.tanh(n)))
            va, vb = np.tanh(n), vb + n
            np.testing.assert_allclose(b.get_value(), vb, rtol=1e-12)
            for got, want, _, _ in held:
                np.testing.assert_allclose(got, want, rtol=1e-12)
            np.testing.assert_allclose(held[-1][2], held[-1][3], rtol=1e-12)

    def test_failed_calls(self):
        x, y = T.dvector("x"), T.dvector("y")
        f = theano.function([x, y], [T.cumsum(T.exp(x)) + y, T.exp(x)[::-1]], mode=PLAIN)
        good = f(np.zeros(3), np.ones(3))
        for _ in range(3):
            with self.assertRaises(ValueError):
                f(np.ones(3), np.ones(2))
            again = f(np.zeros(3), np.ones(3))
            for got in (good, again):
                np.testing.assert_array_equal(got[0], [2, 3, 4])
                np.testing.assert_array_equal(got[1], [1, 1, 1])

    def test_memory(self):
        """The memory that a function holds between calls does not grow with the number of calls."""
        x = T.dvector("x")

        def build_and_call(times):
            f = theano.function([x], [r.sum() for r in self.graph(x)], mode=PLAIN)
            for n in (100, 7, 128):
                for _ in range(3):
                    f(np.ones(n))
            tracemalloc.start()
            try:
                for i in range(times):
                    f(np.ones((100, 7, 128)[i % 3]))
                return tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()

        build_and_call(3)
        self.assertLess(build_and_call(600), build_and_call(60) + 20000)


if __name__ == "__main__":
    unittest.main()
