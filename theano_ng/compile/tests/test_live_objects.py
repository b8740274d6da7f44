"""Tests of the C objects that functions own: when a function is deleted, all of its C objects are freed."""

import contextlib
import copy
import gc
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof._native import NativeThunk, live_objects
from theano_ng.ifelse import ifelse

LINKERS = ["cvm", "cvm_nogc", "vm", "vm_nogc", "c|py", "py"]


class TestLiveObjects(unittest.TestCase):
    @contextlib.contextmanager
    def nothing_left(self):
        gc.collect()
        before = live_objects()
        yield before
        gc.collect()
        self.assertEqual(live_objects(), before)

    def mode(self, linker="cvm"):
        return theano.Mode(linker, "fast_run")

    def test_counts(self):
        """The counters of C objects are larger while a compiled function exists than before.

        Therefore the other tests notice C objects that are not freed.
        """
        with self.nothing_left() as before:
            x = T.dvector("x")
            f = theano.function([x], T.exp(x)[::2] * 2, mode=self.mode())
            now = live_objects()
            self.assertEqual(now["FunctionBase"], before["FunctionBase"] + 1)
            self.assertEqual(now["CLazyLinker"], before["CLazyLinker"] + 1)
            self.assertEqual(now["CThunk"], before["CThunk"] + len(f.maker.fgraph.apply_nodes))
            # a function, a machine and each thunk have at least one block
            self.assertGreaterEqual(now["Block"], before["Block"] + 2 + len(f.maker.fgraph.apply_nodes))
            del f

    def test_called_and_deleted(self):
        for linker in LINKERS:
            with self.subTest(linker), self.nothing_left():
                x, state = T.dvector("x"), theano.shared(np.zeros(3))
                f = theano.function(
                    [x, theano.In(T.dscalar("y"), value=2.0)],
                    [T.exp(x)[::-1], x.sum()],
                    updates=[(state, state + x)],
                    mode=self.mode(linker),
                    on_unused_input="ignore",
                )
                for _ in range(3):
                    f(np.ones(3))
                np.testing.assert_array_equal(state.get_value(), [3, 3, 3])
                del f, state, x

    def test_copied(self):
        with self.nothing_left():
            x = T.dvector("x")
            f = theano.function([x], T.exp(x).sum(), mode=self.mode())
            others = [copy.copy(f), f.copy(), f.copy(share_memory=True), pickle.loads(pickle.dumps(f))]
            for g in [f, *others]:
                np.testing.assert_array_equal(np.ravel(g(np.zeros(4))), [4])  # functions made by `copy` give lists
            del f, g, others, x

    def test_failed_calls(self):
        for linker in LINKERS:
            with self.subTest(linker), self.nothing_left():
                x, y = T.dvector("x"), T.dvector("y")
                f = theano.function([x, y], T.exp(x) + y, mode=self.mode(linker))
                for _ in range(3):
                    with self.assertRaises(ValueError):
                        f(np.ones(2), np.ones(3))
                np.testing.assert_array_equal(f(np.zeros(2), np.ones(2)), [2, 2])
                del f, x, y

    def test_lazy(self):
        with self.nothing_left():
            c, x = T.bscalar("c"), T.dvector("x")
            f = theano.function([c, x], ifelse(c, T.exp(x), T.dot(x, x) * x), mode=self.mode())
            for condition in (1, 0):
                f(condition, np.ones(2))
            self.assertEqual(len(f(1, np.ones(2))), 2)
            del f, c, x

    def test_compilation_that_fails(self):
        class Broken(theano.Op):
            __props__ = ()

            def make_node(self, x):
                return theano.Apply(self, [x], [x.type()])

            def make_thunk(self, *args, **kwargs):
                raise NotImplementedError("this Op cannot run")

        with self.nothing_left():
            x = T.dvector("x")
            with self.assertRaisesRegex(NotImplementedError, "this Op cannot run"):
                theano.function([x], Broken()(T.exp(x)), mode=self.mode())
            del x

    def test_thunk_that_is_refused(self):
        from theano_ng.tensor.native import shape

        with self.nothing_left():
            for arguments in (([1], 0, [[None]], [[None, None]]), (["word"], 0, [[None]], [[None]])):
                with self.assertRaises(TypeError):
                    NativeThunk(
                        next(value for value in vars(shape).values() if type(value).__name__ == "PyCapsule"), *arguments
                    )


if __name__ == "__main__":
    unittest.main()
