"""Tests of the Type of lists: identity, conversion, comparison, sharing of memory, C code."""

import pickle
import subprocess
import sys
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.gof.type import generic
from theano_ng.typed_list import TypedListConstant, TypedListType, TypedListVariable


def arrays(*values, dtype="float64"):
    return [np.asarray(v, dtype) for v in values]


class TestImport(unittest.TestCase):
    def test_the_package_does_not_load_it(self):
        code = (
            "import sys, theano_ng; assert 'theano_ng.typed_list' not in sys.modules; import theano_ng.typed_list;"
            " assert theano_ng.typed_list.TypedListType"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


class TestIdentity(unittest.TestCase):
    def test_equality_and_hash(self):
        a, b = TypedListType(tt.fvector), TypedListType(tt.TensorType("float32", (False,)))
        self.assertEqual(a, b)
        self.assertEqual(hash(a), hash(b))
        for other in (
            TypedListType(tt.dvector),
            TypedListType(tt.fmatrix),
            TypedListType(tt.fvector, 1),
            tt.fvector,
            None,
        ):
            self.assertNotEqual(a, other)
        self.assertEqual(str(a), "TypedList <TensorType(float32, vector)>")
        self.assertEqual(pickle.loads(pickle.dumps(a)), a)

    def test_depth(self):
        nested = TypedListType(tt.dmatrix, 3)
        self.assertEqual([TypedListType(tt.dmatrix).get_depth(), nested.get_depth()], [0, 3])
        self.assertEqual(nested, TypedListType(TypedListType(TypedListType(TypedListType(tt.dmatrix)))))
        self.assertEqual(nested.ttype, TypedListType(tt.dmatrix, 2))
        # Comparing and hashing deep types does not recurse.
        self.assertEqual(TypedListType(tt.dmatrix, 5000), TypedListType(tt.dmatrix, 5000))
        self.assertEqual(hash(TypedListType(tt.dmatrix, 5000)), hash(TypedListType(tt.dmatrix, 5000)))

    def test_bad_arguments(self):
        for arguments, error, text in (
            ((tt.dvector, -1), ValueError, "not -1"),
            ((tt.dvector, 1.5), ValueError, "1.5"),
            ((None,), TypeError, "NoneType"),
            ((tt.dvector(),), TypeError, "Type of the elements"),
        ):
            with self.assertRaisesRegex(error, text):
                TypedListType(*arguments)

    def test_variables(self):
        t = TypedListType(tt.dvector)
        x = t("x")
        self.assertIsInstance(x, TypedListVariable)
        self.assertEqual((x.name, x.type, x.ttype), ("x", t, tt.dvector))
        again = pickle.loads(pickle.dumps(x))
        self.assertEqual((type(again), again.name, again.type), (TypedListVariable, "x", t))


class TestFilter(unittest.TestCase):
    t = TypedListType(tt.dvector)

    def test_valid_lists_stay_themselves(self):
        for value in ([], arrays([1.0, 2.0], [])):
            self.assertIs(self.t.filter(value), value)
            self.assertIs(self.t.filter(value, strict=True), value)
            self.assertTrue(self.t.is_valid_value(value))

    def test_conversion(self):
        for given in (
            [[1, 2], [3, 4]],
            ([1, 2], (3, 4)),
            np.array([[1, 2], [3, 4]]),
            [np.array([1, 2], ">f8"), [3, 4]],
        ):
            made = self.t.filter(given)
            self.assertIs(type(made), list)
            self.assertEqual([(e.dtype.str, e.tolist()) for e in made], [("<f8", [1.0, 2.0]), ("<f8", [3.0, 4.0])])
            self.assertFalse(self.t.is_valid_value(given))
        self.assertEqual(TypedListType(tt.dvector, 1).filter([[[1]], []])[0][0].tolist(), [1.0])

    def test_errors(self):
        for bad, text in (
            (3, "expected a list of values of type .*vector.*, got 3 of type int"),
            ("ab", "of type str"),
            (None, "NoneType"),
            ({}, "dict"),
            (np.array(1.0), "ndarray"),
            ([[1], [[2]]], "element 1 is not a valid value of type .*vector"),
            ([[1], ["a"]], "element 1"),
        ):
            with self.assertRaisesRegex(TypeError, text):
                self.t.filter(bad)
        with self.assertRaisesRegex(TypeError, "element 0"):
            self.t.filter([[1, 2]], strict=True)
        with self.assertRaises(TypeError):
            self.t.filter((), strict=True)

    def test_downcast(self):
        t = TypedListType(tt.fvector)
        wide = [np.array([0.1])]
        with self.assertRaisesRegex(TypeError, "element 0"):
            t.filter(wide, allow_downcast=False)
        self.assertEqual(t.filter(wide, allow_downcast=True)[0].dtype, "float32")
        x = t("x")
        f = theano.function([theano.In(x, name="x", allow_downcast=True)], theano.typed_list.length(x))
        self.assertEqual(f(x=wide), 1)

    def test_bad_input_of_a_function(self):
        x = self.t("x")
        f = theano.function([x], x[0])
        with self.assertRaisesRegex(TypeError, "(?s)at index 0.*element 1 is not a valid value"):
            f([[1], [[2]]])


class TestValues(unittest.TestCase):
    t = TypedListType(tt.dvector)

    def test_values_eq(self):
        one = arrays([1.0, np.nan], [2.0])
        cases = (
            (arrays([1.0, np.nan], [2.0]), True, True),
            (arrays([1.0, np.nan], [2.0 + 1e-12]), False, True),
            (arrays([1.0, np.nan], [3.0]), False, False),
            (one[:1], False, False),
            (one[::-1], False, False),
        )
        for other, exact, approximate in cases:
            self.assertEqual((self.t.values_eq(one, other), self.t.values_eq_approx(one, other)), (exact, approximate))
        nested = TypedListType(tt.dvector, 1)
        self.assertTrue(nested.values_eq([one, []], [list(one), []]))
        self.assertFalse(nested.values_eq([one, []], [list(one)]))

    def test_may_share_memory(self):
        a = np.arange(6.0)
        one = [a[:3]]
        for other, shared in (
            (one, True),
            ([a[2:]], True),
            (a[2:], True),
            ([np.arange(3.0), a[:1]], True),
            ([a[3:]], False),
            ([], False),
            ([a.copy()], False),
            (None, False),
        ):
            self.assertEqual(
                (self.t.may_share_memory(one, other), self.t.may_share_memory(other, one)), (shared, shared)
            )
        self.assertTrue(TypedListType(tt.dvector, 1).may_share_memory([[], one], one))
        thing = {}
        self.assertTrue(TypedListType(generic).may_share_memory([thing], [1, thing]))
        self.assertFalse(TypedListType(generic).may_share_memory([thing], [{}]))
        self.assertFalse(
            TypedListType(generic).may_share_memory([1, "a", None], [1, "a", None])
        )  # these objects are immutable


class TestConstant(unittest.TestCase):
    def test_data_is_copied(self):
        data = arrays([1.0, 2.0])
        c = TypedListType(tt.dvector).make_constant(data)
        data[0][:] = 9
        data.append(None)
        self.assertIsInstance(c, TypedListConstant)
        self.assertEqual([e.tolist() for e in c.data], [[1.0, 2.0]])

    def test_equal_ones_are_merged(self):
        t = TypedListType(tt.dvector, 1)
        same = [t.make_constant([[[1.0, np.nan]], []]) for _ in range(2)]
        other = t.make_constant([[[1.0, 2.0]], []])
        self.assertEqual(same[0].signature(), same[1].signature())
        self.assertTrue(same[0].equals(same[1]))
        self.assertFalse(same[0].equals(other))
        i = tt.lscalar()
        f = theano.function([i], [c[i].reverse()[0] for c in (*same, other)], mode="FAST_RUN")
        self.assertEqual(sum(isinstance(n.op, theano.typed_list.GetItem) for n in f.maker.fgraph.apply_nodes), 4)
        np.testing.assert_array_equal(f(0), [[1.0, np.nan], [1.0, np.nan], [1.0, 2.0]])


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestC(unittest.TestCase):
    """Tests of the Type's C code in modules that the linker `c` compiles for several nodes."""

    def test_values_go_in_and_out(self):
        x, v = TypedListType(tt.dvector)(), tt.dvector()
        f = theano.function(
            [x, v], [x.append(v), x[0] * 2, theano.typed_list.length(x)], mode=theano.Mode("c", "fast_run")
        )
        for _ in range(2):
            appended, first, n = f([[1, 2], []], [3])
            self.assertEqual(([e.tolist() for e in appended], first.tolist(), int(n)), ([[1, 2], [], [3]], [2, 4], 2))

    def test_what_is_no_list_is_refused(self):
        x = TypedListType(tt.dvector)()
        f = theano.function([x], theano.typed_list.length(x), mode=theano.Mode("c", None))
        f.trust_input = True
        with self.assertRaisesRegex(TypeError, "expected a list, not a value of type int"):
            f(3)
        self.assertEqual(f([]), 0)


if __name__ == "__main__":
    unittest.main()
