"""Tests of In, Out, their shortcuts, and the access to the state of a function."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import In, Out, function
from theano_ng.configparser import change_flags


class TestIn(unittest.TestCase):
    def test_fields(self):
        x = T.dscalar("x")
        i = In(x)
        self.assertEqual(
            (i.name, i.value, i.update, i.mutable, i.strict, i.allow_downcast, i.implicit, i.borrow, i.shared),
            ("x", None, None, False, False, None, False, False, False),
        )
        self.assertIsNone(In(T.dscalar()).name)
        self.assertEqual(In(x, name="other").name, "other")
        self.assertIsNone(In(x, autoname=False).name)
        self.assertEqual((Out(x).variable, Out(x).borrow), (x, False))
        self.assertTrue(In(x, mutable=True).borrow)
        # an input that may be destroyed must be borrowed
        for error in (TypeError, ValueError, AssertionError):
            self.assertRaisesRegex(error, "always borrowed", In, x, mutable=True, borrow=False)
            self.assertRaisesRegex(error, "needs a value", In, x, implicit=True)
        # an update changes the function's stored value
        self.assertTrue(In(x, value=1.0, update=x + 1).mutable)
        container = theano.Container(x, storage=[np.array(1.0)])
        self.assertTrue(In(x, value=container).implicit)
        self.assertRaises(TypeError, In, x, value=1.0, update=T.dvector())
        self.assertRaises(TypeError, In, x, name=[])
        self.assertRaises(TypeError, In, 3)
        self.assertEqual(In(x, value=1.0, update=2).update.type, x.type)

    def test_names_of_any_type(self):
        x, y = T.dscalars("xy")
        f = function([In(x, name=("a", 1)), In(y, name="s", value=3.0, update=x)], x * y)
        self.assertEqual((f(2), f[("a", 1)], f["s"], f[1]), (6, None, 2, 2))
        self.assertEqual([key in f for key in (("a", 1), "s", x, 0, "t", 2, [])], [True] * 4 + [False] * 3)
        ambiguous = function([In(x, name="n"), In(y, name="n")], x - y)
        self.assertEqual((ambiguous(3, 1), "n" in ambiguous), (2, False))
        self.assertRaisesRegex(TypeError, "Ambiguous name: n", ambiguous, n=3)

    def test_documented_state(self):
        u, x, s = T.dscalars("u", "x", "s")
        inc = function([u, In(x, value=3), In(s, update=(s + x * u), value=10.0)], [])
        self.assertEqual(inc(5), [])
        self.assertEqual(inc[s], 25)
        self.assertEqual(inc(3, 4), [])
        self.assertEqual((inc[s], inc[x]), (37, 3))
        inc(3, 4, 7)
        self.assertEqual(inc[s], 19)
        inc[s] = 10
        self.assertEqual((inc[s].dtype, inc[s].ndim, float(inc[s])), ("float64", 0, 10))
        self.assertIs(inc["s"], inc.value[s])

    def test_second_state(self):
        a, b, c = T.dscalar("x"), T.dscalar("y"), T.dscalar("s")
        f = function([a, b, ((c, c + a + b), 10.0)], [])
        self.assertEqual(f["s"], 10)
        f(1, 2)
        self.assertEqual((f["s"], f[c]), (13, 13))
        f["s"] = 99.0
        f(1, 0)
        self.assertEqual(f["s"], 100)
        f.value[c] = 99.0
        f(1, 0)
        self.assertEqual(f["s"], 100)
        self.assertIs(f["s"], f.value[c])
        self.assertIs(f["s"], f.container[c].value)
        self.assertEqual(f[2], 100)
        with self.assertRaises(Exception):
            f.container[c] = 3
        self.assertRaises(TypeError, f.__getitem__, "nothing")

    def test_shortcuts(self):
        x, y, s = T.dscalar(), T.dscalar("y"), T.dscalar("s")
        f = function([x, ("why", y), ((s, s + x), 5.0)], x + y + s)
        self.assertEqual(f(1, why=2), 8)
        self.assertEqual(f["s"], 6)
        g = function([x, ("second", y, 7.0), ("state", (s, s * 2), 3.0)], x + y + s)
        self.assertEqual(g(1), 11)
        self.assertEqual(float(g["state"]), 6)
        self.assertEqual(g(1, second=0), 7)
        h = function([(y, 4.0)], y)
        self.assertEqual((h(), h(1), h(), h(y=2)), (4, 1, 4, 2))
        for wrong in (
            ("a", "b"),
            (1, 2, 3, 4),
            "name",
            ("a",),
            [],
            (x, x + 1),
            ((x, 3), 1.0),
            ((x, x, x), 1.0),
            (T.constant(1.0), 2.0),
        ):
            self.assertRaises(TypeError, function, [y, wrong], y)
        with self.assertRaisesRegex(TypeError, r"\(\(variable, update\), value\)"):
            function([(x, x + 1)], x)

    def test_containers_and_implicit_inputs(self):
        x, y = T.dscalars("xy")
        container = theano.Container(y, storage=[np.array(5.0)])
        f = function([x, In(y, value=container)], x + y)
        container.value = 7
        self.assertEqual(f(1), 8)
        with self.assertRaisesRegex(TypeError, "implicit input: y"):
            f(1, y=2)
        self.assertRaises(TypeError, f, 1, 2)
        open_ = function([x, In(y, value=container, implicit=False)], x + y)
        self.assertEqual((open_(1), open_(1, 3), float(container.value)), (8, 4, 3))  # the container is unchanged
        self.assertEqual(function([x, In(y, value=4.0, implicit=True)], x + y)(1), 5)

    def test_documented_errors(self):
        x, y, z, w = T.dscalar(), T.dscalar("y"), T.dscalar("z"), T.dscalar("w")
        fn = function([x, y, In(z, value=42), ((w, w + x), 0)], x + y + z)
        with self.assertRaisesRegex(TypeError, "Missing required input: y"):
            fn(1)
        self.assertEqual((fn(1, 2), fn["w"]), (45, 1))
        self.assertEqual((fn(1, y=2), fn["w"]), (45, 2))
        with self.assertRaises(TypeError) as caught:
            fn(x=1, y=2)
        self.assertIn(
            "Unknown input or state: x. The function has 3 named inputs (y, z, w), and 1 unnamed input which thus cannot be "
            "accessed through keyword argument (use 'name=...' in a variable's constructor to give it a name).",
            str(caught.exception),
        )
        self.assertEqual(fn["w"], 2)  # the failed call has not changed the state
        self.assertEqual((fn(1, 2, 3), fn["w"]), (6, 3))
        self.assertEqual((fn(1, z=3, y=2), fn["w"]), (6, 4))
        self.assertEqual((fn(1, 2, w=400), fn["w"]), (45, 401))
        self.assertEqual((fn(1, 2), fn["w"]), (45, 402))
        self.assertRaises(TypeError, fn, 1, 2, 3, 4, 5)
        self.assertRaises(TypeError, fn, 1, 2, y=3)

    def test_conversions(self):
        x = T.fscalar("x")

        def f(**kwargs):
            return function([In(x, **kwargs)], x + 0)

        for value in (0.1, np.array(0.1)):
            self.assertRaises(TypeError, f(), value)
        self.assertEqual(f()(0.5), 0.5)  # float32 represents 0.5 exactly
        with change_flags(floatX="float32"):  # then Python floats are accepted
            self.assertEqual(f()(0.1), np.float32(0.1))
            self.assertRaises(TypeError, f(allow_downcast=False), 0.1)
        self.assertRaises(TypeError, f(allow_downcast=False), np.array(0.1))
        self.assertEqual(f(allow_downcast=True)(np.array(0.1)), np.float32(0.1))
        self.assertRaises(TypeError, f(strict=True), 0.5)
        self.assertEqual(f(strict=True)(np.array(0.5, "float32")), 0.5)
        v = T.dvector()
        self.assertRaises(TypeError, function([v], v), [[1.0]])
        np.testing.assert_array_equal(function([v], v + 0)([1, 2]), [1.0, 2.0])

    def test_mutable(self):
        v = T.dvector("v")
        for mutable in (False, True):
            f = function([In(v, mutable=mutable)], v + 1)
            buffer = np.zeros(3)
            np.testing.assert_array_equal(f(buffer), [1, 1, 1])
            np.testing.assert_array_equal(buffer, [1, 1, 1] if mutable else [0, 0, 0])


class TestOut(unittest.TestCase):
    def test_structure(self):
        x = T.dmatrix("x")
        two = np.eye(2) * 2
        for got in function([x], [x + x, Out((x + x).T, borrow=True)])(np.eye(2)):
            np.testing.assert_array_equal(got, two)
        one = function([x], [x + x])(np.eye(2))
        self.assertIsInstance(one, list)
        np.testing.assert_array_equal(function([x], Out(x + x))(np.eye(2)), two)
        self.assertEqual(function([x], [], on_unused_input="ignore")(np.eye(2)), [])
        named = function([x], {"a": x + x, "b": x * 3})(np.eye(2))
        self.assertEqual(sorted(named), ["a", "b"])
        np.testing.assert_array_equal(named["b"], 3 * np.eye(2))

    def test_borrow(self):
        x = T.dvector()
        kept = function([x], Out(x + 1, borrow=False))
        first = kept(np.zeros(3))
        kept(np.ones(3))
        np.testing.assert_array_equal(first, [1, 1, 1])
        # a returned input is not the caller's array unless it was borrowed
        value = np.zeros(3)
        self.assertFalse(np.may_share_memory(function([x], x)(value), value))
        hinted = Out(x + 1, borrow=True, return_internal_type=True)
        self.assertIsInstance(function([x], hinted)(np.zeros(3)), np.ndarray)

    def test_dictionaries_and_subsets(self):
        x, s = T.dvector(), theano.shared(0)
        f = function([x], {"b": Out(x * 2, borrow=True), "a": x.sum()}, updates=[(s, s + 1)])
        self.assertEqual(list(f([1.0, 2.0])), ["a", "b"])
        self.assertEqual(f([1.0, 2.0], output_subset=["a"]), {"a": 3})
        self.assertEqual(list(f([1.0, 2.0], output_subset=[1])), ["b"])
        self.assertEqual(int(s.get_value()), 3)  # each of the three calls has made the update
        self.assertEqual(list(f.copy(delete_updates=True)([1.0, 2.0])), ["a", "b"])
        self.assertEqual(int(s.get_value()), 3)
        g = function([x], [x.sum(), x.max()])
        self.assertEqual((g([1.0, 2.0], output_subset=[1]), g([1.0, 2.0], output_subset=[-2])), ([2], [3]))
        for wrong in ([2], ["a"], [None]):
            self.assertRaises(ValueError, g, [1.0, 2.0], output_subset=wrong)
        self.assertRaises(AssertionError, function, [x], {1: x})
        self.assertRaises(TypeError, function, [x], 3)
        self.assertEqual(function([x], on_unused_input="ignore")([1.0]), [])


if __name__ == "__main__":
    unittest.main()
