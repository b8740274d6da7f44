"""Tests of small parts: unification, sorting of schedules, call caches, helpers of gof.utils."""

import contextlib
import io
import os
import tempfile
import unittest

from theano_ng.gof import callcache, sched, utils
from theano_ng.gof.tests.test_graph_core import add, sigmoid, var
from theano_ng.gof.unify import FreeVariable, OrVariable, unify

CALLS = []


def square(v):
    CALLS.append(v)
    return v * v


class TestSmallParts(unittest.TestCase):
    def test_unify(self):
        a, b = FreeVariable("a"), FreeVariable("b")
        built, u = unify([a, [1, b]], [3, [1, 4]])
        self.assertEqual(built, [3, [1, 4]])
        for pair in (([a, a], [1, 2]), ([1, 2], [1, 2, 3]), (OrVariable("o", [1, 2]), 3)):
            self.assertEqual(unify(*pair), (None, False))
        self.assertEqual(unify(OrVariable("o", [1, 2]), 2)[0], 2)

    def test_sched(self):
        x = var("x")
        a, b = sigmoid(x), add(x)
        top = add(a, b)
        by_name = sched.key_to_cmp(lambda n: str(n.op))
        self.assertEqual(sched.sort_apply_nodes([x], [top], [by_name]), [b.owner, a.owner, top.owner])
        other = sched.key_to_cmp(lambda n: "sa".index(str(n.op)[0]))
        self.assertEqual(sched.sort_apply_nodes([x], [top], [other]), [a.owner, b.owner, top.owner])

    def test_callcache(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cache")
            cache = callcache.CallCache(path)
            self.assertEqual([cache.call(square, (3,)), cache.call(square, (3,))], [9, 9])
            cache.persist()
            self.assertEqual(callcache.CallCache(path).call(square, (3,)), 9)
            self.assertEqual(CALLS, [3])

    def test_utils(self):
        @utils.deprecated("file", "use g")
        def f(v):
            return v + 1

        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.assertEqual([f(1), f(2)], [2, 3])
        self.assertEqual(text.getvalue().strip(), "WARNING file.f deprecated. use g")
        made = []
        memo = utils.memoize(lambda *args: made.append(args) or len(made))
        self.assertEqual([memo(1), memo(1), memo(2)], [1, 1, 2])
        self.assertEqual(utils.difference([1, 2, 3], [2]), [1, 3])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f")
            with open(path, "wb") as out:
                out.write(b"abc")
            self.assertIn(
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", utils.hash_from_file(path)
            )
        stack = utils.simple_extract_stack(limit=2)
        self.assertEqual((len(stack), stack[-1][2]), (2, "test_utils"))
        with self.assertRaises(ValueError):
            utils.toposort({1: [2], 2: [1]})


if __name__ == "__main__":
    unittest.main()
