"""Tests of gof.utils: every name works as documented."""

import contextlib
import hashlib
import io
import pickle
import tempfile
import unittest

from theano_ng import config
from theano_ng import tensor as T
from theano_ng.gof import utils


class TestSequences(unittest.TestCase):
    def test_elements(self):
        self.assertEqual(utils.flatten([1, (2, {3}), [[4], ()]]), [1, 2, 3, 4])
        self.assertEqual(utils.flatten("ab"), ["ab"])
        self.assertEqual(utils.remove(lambda x: x % 2 == 0, [1, 2, 3, 4]), [1, 3])
        self.assertEqual(utils.difference([3, 1, 2, 1], [2]), [3, 1, 1])
        self.assertEqual(utils.difference([[1], [2]], [[2]]), [[1]])
        self.assertEqual(utils.uniq([3, 1, 3, 2, 1]), [3, 1, 2])
        self.assertEqual(utils.uniq([[1], [2], [1]]), [[1], [2]])
        self.assertEqual(utils.hist("abca"), {"a": 2, "b": 1, "c": 1})
        self.assertEqual([utils.unique([1, 2]), utils.unique([1, 2, 1])], [True, False])
        self.assertEqual([utils.to_return_values([1]), utils.to_return_values([1, 2])], [1, [1, 2]])
        self.assertEqual([utils.from_return_values(1), utils.from_return_values((1,))], [[1], (1,)])

    def test_toposort(self):
        self.assertEqual(utils.toposort({"c": {"a", "b"}, "b": ["a"], "a": []}), ["a", "b", "c"])
        for wrong in ({1: [2], 2: [1]}, {1: [3]}, {1: [1]}):
            self.assertRaisesRegex(
                ValueError, "contain a cycle, or an element that is not a key", utils.toposort, wrong
            )

    def test_memoize_and_deprecated(self):
        calls = []

        @utils.memoize
        def f(*args, **kwargs):
            calls.append(args)
            return len(calls)

        self.assertEqual([f(1), f(2), f(1), f(1, k=1), f(1, k=1)], [1, 2, 1, 3, 3])
        self.assertRaises(TypeError, f, [])

        @utils.deprecated("module", "Use g.")
        def old(x):
            return x

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual([old(1), old(2)], [1, 2])
        self.assertEqual(out.getvalue(), "WARNING module.old deprecated. Use g.\n")

    def test_hashes(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"content")
            file.flush()
            self.assertEqual(utils.hash_from_file(file.name), hashlib.sha256(b"content").hexdigest())
        self.assertEqual(utils.hash_from_code("content"), utils.hash_from_code(b"content"))
        self.assertNotEqual(utils.hash_from_code("a"), utils.hash_from_code("b"))
        self.assertEqual(utils.hashtype(1), utils.hashtype(2))


class TestObjects(unittest.TestCase):
    def test_namespaces_and_keywords(self):
        pad = utils.scratchpad()
        pad.a = 3
        other = utils.scratchpad()
        self.assertEqual(str(other.__update__(pad)), "scratchpad{'a': 3}")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            pad.info()
        self.assertIn("a: 3", out.getvalue())
        pad.clear()
        self.assertEqual((str(pad), other.a, utils.D(b=1).b), ("scratchpad{}", 3, 1))
        self.assertEqual(
            [bool(k) for k in (utils.ABORT, utils.RETRY, utils.FAILURE, utils.ANY_TYPE)], [False] * 3 + [True]
        )
        self.assertEqual(str(utils.FALL_THROUGH), "<FALL_THROUGH>")

    def test_give_variables_names(self):
        a, b, c = T.dscalar(), T.dscalar("x"), T.dscalar("x")
        names = utils.give_variables_names([a, b, c])
        self.assertEqual(len(set(names)), 3)
        self.assertTrue(all(names))

    def test_props(self):
        class Pair(utils.object2):
            __props__ = ("a", "b")

            def __init__(self, a, b):
                self.a, self.b = a, b

        class Written(Pair):
            __props__ = ("a",)

            def __str__(self):
                return "written"

        self.assertEqual(
            (Pair(1, 2), hash(Pair(1, 2)), str(Pair(1, "t"))), (Pair(1, 2), hash(Pair(1, 2)), "Pair{a=1, b='t'}")
        )
        self.assertNotEqual(Pair(1, 2), Pair(1, 3))
        self.assertEqual((Pair(1, 2)._props(), Pair(1, 2)._props_dict()), ((1, 2), {"a": 1, "b": 2}))
        self.assertEqual(
            (str(Written(1, 2)), Written(1, 2) == Written(1, 3), Written(1, 2) == Pair(1, 2)), ("written", True, False)
        )
        with self.assertRaisesRegex(TypeError, "tuple of attribute names"):
            type(utils.object2)("Wrong", (utils.object2,), {"__props__": "ab"})

    def test_guards(self):
        namespace = {"comm_guard": utils.comm_guard, "type_guard": utils.type_guard, "FALL_THROUGH": utils.FALL_THROUGH}
        exec(
            """
def f(a, b): return "other"
@comm_guard(int, str)
def f(a, b): return FALL_THROUGH if a < 0 else (a, b)
def g(a): return "other"
@type_guard(int)
def g(a): return a + 1
""",
            namespace,
        )
        f, g = namespace["f"], namespace["g"]
        self.assertEqual([f(1, "x"), f("x", 1), f(-1, "x"), f(1.5, 2)], [(1, "x"), (1, "x"), "other", "other"])
        self.assertEqual([g(1), g("x")], [2, "other"])


class TestTraces(unittest.TestCase):
    def test_simple_extract_stack(self):
        (here,) = utils.simple_extract_stack(limit=1)
        self.assertEqual(
            (here[2], here[3]), ("test_simple_extract_stack", "(here,) = utils.simple_extract_stack(limit=1)")
        )
        everything = utils.simple_extract_stack()
        self.assertEqual(everything[-1][2], "test_simple_extract_stack")
        self.assertGreater(len(everything), 3)
        skipped = utils.simple_extract_stack(skips=["test_utils"])
        self.assertNotIn("test_utils", skipped[-1][0])
        self.assertEqual(len(skipped), len(everything) - 1)

    def test_add_tag_trace(self):
        def trace(**kwargs):
            x = T.dvector()
            self.assertIs(utils.add_tag_trace(x, **kwargs), x)
            return x.tag.trace[0]

        whole = len(utils.simple_extract_stack())
        with config.change_flags({"traceback.limit": 2}):
            self.assertEqual((len(trace()), len(trace(user_line=1))), (2, 1))
        with config.change_flags({"traceback.limit": -1}):
            self.assertEqual(len(trace()), whole + 1)
        x = T.dvector()
        self.assertIs(type(pickle.loads(pickle.dumps(x)).tag.trace[0]), tuple)
        text = utils.get_variable_trace_string(x)
        self.assertIn("Backtrace when that variable is created:", text)
        self.assertIn("x = T.dvector()", text)
        x.tag.trace = [("file", 3, "function", "line")]  # a single stack without the outer list, as in old pickles
        self.assertIn('File "file", line 3, in function', utils.get_variable_trace_string(x))
        x.tag.trace = []
        self.assertEqual(utils.get_variable_trace_string(x), "")


if __name__ == "__main__":
    unittest.main()
