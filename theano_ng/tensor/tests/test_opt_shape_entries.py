"""Tests that entries of shapes are 0-d int64 variables for all inputs, and that the better of two entries is kept."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof import FunctionGraph, Type, generic
from theano_ng.gof.optdb import Query
from theano_ng.tensor.opt import MakeVector, ShapeFeature
from theano_ng.tensor.opt.shape import Shape_i, same_length

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]


class RankOnly(Type):
    """A type that has a rank but no broadcast pattern."""

    ndim = 2

    def filter(self, data, strict=False, allow_downcast=None):
        return np.asarray(data)


def feature_of(inputs, outputs):
    fgraph = FunctionGraph(inputs, outputs, clone=False)
    fgraph.attach_feature(ShapeFeature())
    return fgraph.shape_feature


class TestEntries(unittest.TestCase):
    def test_lengths_of_one(self):
        for pattern in itertools.product((True, False), repeat=2):
            x = T.TensorType("float32", pattern)("x")
            entries = feature_of([x], [T.exp(x)]).shape_of[x]
            self.assertEqual([entry.dtype for entry in entries], ["int64", "int64"])
            self.assertEqual([isinstance(entry, T.Constant) for entry in entries], list(pattern))
        self.assertEqual(ShapeFeature.lscalar_one.dtype, "int64")
        self.assertEqual(int(ShapeFeature.lscalar_one.data), 1)

    def test_get(self):
        """`shape_of` acts like a dict of all variables, including those not queried before and those without a shape."""
        x, flag, other, s = T.dmatrix("x"), T.TensorType("bool", (False,))("flag"), generic("g"), T.dscalar("s")
        shape_of = feature_of([x, flag, other, s], [T.exp(x)]).shape_of
        for v in (x, flag, other, s):
            found = shape_of.get(v)
            self.assertIs(found, shape_of[v])
        self.assertEqual(shape_of.get(s), ())
        self.assertIsNone(shape_of.get(other))
        self.assertEqual(shape_of.get("no variable", 3), 3)
        self.assertIsNone(shape_of.get(None))

    def test_types_that_have_a_rank_only(self):
        v = RankOnly()("v")
        feature = feature_of([v], [])
        for i in range(2):
            entry = feature.shape_ir(i, v)
            self.assertEqual(entry.owner.op, Shape_i(i))

    def test_lengths_of_all_dtypes(self):
        """Lengths of any integer dtype become int64; other dtypes and ranks are not accepted."""
        x = T.dvector("x")
        feature = feature_of([x], [T.exp(x)])
        for dtype in INTEGERS:
            for length in (T.TensorType(dtype, ())("n"), T.constant(np.array(3, dtype)), np.array(3, dtype)):
                self.assertEqual(feature.unpack(length, x).dtype, "int64")
            n = theano_ng.scalar.get_scalar_type(dtype)("n")
            self.assertEqual(feature.unpack(n, x).dtype, "int64")
            entry = T.TensorType(dtype, ())("entry")
            for vector in (MakeVector("int64")(entry, x.shape[0]), MakeVector(dtype)(entry, entry)):
                self.assertEqual(feature.unpack(vector[0], x).dtype, "int64", dtype)
        for wrong in (T.dscalar("n"), T.fscalar("n"), T.constant(3.0), T.zscalar("n"), T.lvector("n"), T.lmatrix("n")):
            self.assertRaises(TypeError, feature.unpack, wrong, x)
        for wrong in (np.array(2.0), np.array([2]), np.array([2.0]), "2", None, 2j, 1.5, np.float64(0.5), [2], (2,)):
            with self.subTest(wrong=wrong):
                self.assertRaises(TypeError, feature.unpack, wrong, x)

    def test_updates(self):
        """`update_shape` replaces symbolic lengths by constants, and the `Shape_i` of a variable by another expression."""
        x, y, z, new = T.dmatrix("x"), T.dmatrix("y"), T.dmatrix("z"), T.dmatrix("new")
        n = T.lscalar("n")
        feature = feature_of([x, y, z, n], [T.exp(x)])
        feature.set_shape(y, (n, 3))
        feature.update_shape(x, y)
        self.assertEqual([str(s) for s in feature.shape_of[x]][0], "n")
        self.assertEqual(int(feature.shape_of[x][1].data), 3)
        # The lengths of z are only known as Shape_i of z, so they do not replace entries of x.
        feature.update_shape(x, z)
        self.assertEqual(str(feature.shape_of[x][0]), "n")
        feature.update_shape(z, T.dmatrix("another"))
        self.assertEqual([entry.owner.inputs[0] for entry in feature.shape_of[z]], [z, z])
        # Known constant lengths are kept, and they replace variable lengths.
        known = T.dmatrix("known")
        feature.set_shape(known, (5, n))
        feature.update_shape(x, known)
        self.assertEqual([int(s.data) for s in feature.shape_of[x]], [5, 3])
        # A variable that was not queried before gets the entries of the other variable.
        feature.update_shape(new, x)
        self.assertEqual([int(s.data) for s in feature.shape_of[new]], [5, 3])

    def test_equal_shapes(self):
        """`same_shape` compares all dimensions or, if two dimensions are given, only these."""
        n, m = T.lscalar("n"), T.lscalar("m")
        variables = {lengths: T.dmatrix() for lengths in itertools.product((n, m), repeat=2)}
        feature = feature_of([n, m], [n + m])
        for lengths, v in variables.items():
            feature.set_shape(v, lengths)
        for (a, x), (b, y) in itertools.product(variables.items(), repeat=2):
            self.assertEqual(feature.same_shape(x, y), a == b)
            for i, j in itertools.product(range(2), repeat=2):
                self.assertEqual(feature.same_shape(x, y, i, j), a[i] is b[j])
        self.assertFalse(feature.same_shape(x, T.dvector()))

    def test_elements_of_vectors_beyond_their_ends(self):
        """An element of a vector beyond either end equals no length."""
        entries = T.lscalars("a", "b", "c")
        for count in (1, 2, 3):
            vector = MakeVector("int64")(*entries[:count])
            for index in range(-5, 5):
                for entry in entries:
                    inside = -count <= index < count
                    wanted = inside and entries[:count][index] is entry
                    self.assertEqual(same_length(vector[index], entry), wanted)


class TestWithoutInference(unittest.TestCase):
    def test_reshapes(self):
        """Without a feature that infers shapes, every reshape has the right value."""
        x, n, m, k = T.dmatrix("x"), T.lscalar("n"), T.lscalar("m"), T.iscalar("k")
        query = Query(["fast_run"], exclude=["ShapeOpt", "inplace", "fusion", "BlasOpt"])
        value = np.arange(6.0).reshape(2, 3)
        with theano_ng.change_flags(on_opt_error="raise", cache_graphs=False):
            for sizes in (
                (n, m),
                (m, n),
                (x.shape[0], m),
                (n, x.shape[1]),
                (n, -1),
                (k, m),
                (x.shape[0], -1),
                (x.shape[0], x.shape[1]),
            ):
                f = theano_ng.function([x, n, m, k], x.reshape(sizes), mode=Mode("py", query), on_unused_input="ignore")
                wanted = value.reshape((3, 2)) if sizes[0] is m else value
                np.testing.assert_array_equal(f(value, 2, 3, 2), wanted)


if __name__ == "__main__":
    unittest.main()
