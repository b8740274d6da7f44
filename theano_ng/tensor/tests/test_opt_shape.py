"""ShapeFeature: it infers shapes on demand, without computing values."""

import unittest
import warnings

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, FunctionGraph, Op
from theano_ng.gof.toolbox import AlreadyThere
from theano_ng.tensor.basic import ShapeError
from theano_ng.tensor.opt import ShapeFeature
from theano_ng.tensor.opt.shape import Shape, Shape_i, same_length


class Opaque(Op):
    """An Op that computes x + 1. Its `infer_shape` calls the function `infer` and counts the calls."""

    __props__ = ()

    def __init__(self, infer=None):
        self.calls = 0
        if infer is not None:
            self.infer_shape = self._counted
            self.infer = infer

    def _counted(self, node, shapes):
        self.calls += 1
        return self.infer(shapes)

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, out):
        out[0][0] = inputs[0] + 1


def fail(failure):
    def infer(shapes):
        raise failure

    return infer


class TestDimensions(unittest.TestCase):
    def test_forms_of_a_length(self):
        """`same_length` recognizes all expressions of the length of a dimension, and distinguishes other lengths."""
        x, y = T.dmatrix("x"), T.dmatrix("y")
        plain = Shape()(x)
        for v in (plain[1], plain[-1], Shape_i(1)(x)):
            self.assertTrue(same_length(v, Shape_i(1)(x)))
            self.assertTrue(same_length(v + 1, plain[1] + 1))
            for other in (plain[0], Shape_i(0)(x), Shape()(y)[1], Shape_i(1)(y), T.constant(3), plain[1] + 1):
                self.assertFalse(same_length(v, other))
        self.assertFalse(same_length(plain[T.lscalar("k")], plain[0]))


class TestShapeFeature(unittest.TestCase):
    def graph(self, inputs, outputs):
        fgraph = FunctionGraph(inputs, outputs, clone=False)
        fgraph.attach_feature(ShapeFeature())
        return fgraph, fgraph.shape_feature

    def test_interface(self):
        x, y = T.dmatrix("x"), T.drow("y")
        out = T.dot(T.exp(x), x.T) + y
        fgraph, feature = self.graph([x, y], [out])
        self.assertRaises(AlreadyThere, ShapeFeature().on_attach, fgraph)
        self.assertEqual([str(s) for s in feature.shape_of[out]], ["Shape_i{0}.0", "Shape_i{0}.0"])
        self.assertIs(feature.shape_of[y][0], feature.lscalar_one)
        self.assertIs(feature.get_shape(out, 0), feature.shape_of[x][0])
        self.assertTrue(feature.same_shape(x, out, 0, 1))
        self.assertFalse(feature.same_shape(x, out, 1, 1))
        self.assertEqual(feature.make_vector_shape(x).ndim, 1)
        self.assertRaises(AssertionError, feature.set_shape, x, feature.shape_of[x])
        self.assertRaises(AssertionError, feature.set_shape, T.dvector(), (1, 2))
        self.assertRaises(TypeError, feature.set_shape, T.dvector(), 3)
        self.assertRaises(TypeError, feature.unpack, 1.5, x)
        self.assertRaises(AssertionError, feature.unpack, -1, x)
        self.assertEqual(int(feature.unpack(np.int8(3), x).data), 3)
        known = T.dmatrix("known")
        feature.set_shape(known, (2, 5))
        feature.update_shape(x, known)
        self.assertEqual([int(s.data) for s in feature.shape_of[x]], [2, 5])
        feature.set_shape_i(x, 1, 7)
        self.assertEqual(int(feature.get_shape(x, 1).data), 7)
        fgraph.remove_feature(feature)
        self.assertFalse(hasattr(fgraph, "shape_feature"))

    def test_what_has_a_shape(self):
        """`shape_of` contains all variables, also those for which ``bool(v)`` raises an error, and no other objects."""
        x, y = T.dmatrix("x"), T.drow("y")
        _, feature = self.graph([x, y], [x + y])
        for v in (x, y, x + y, T.lt(x, y), T.eq(x, y), T.constant(0.0), T.lscalar()):
            self.assertTrue(v in feature.shape_of)
            self.assertEqual(len(feature.shape_of.get(v)), v.ndim)
        for other in ("x", "", None, 0, 3, (x,)):
            self.assertFalse(other in feature.shape_of)
            self.assertIsNone(feature.shape_of.get(other))

    def test_every_entry(self):
        """`_known_entry` finds the element of a shape, or of a vector of scalars, for indices from either end.

        It returns None for an index beyond the ends.
        """
        for of_array in (True, False):
            x, numbers = T.dtensor3("x"), T.lscalars("a", "b", "c")
            vector = x.shape if of_array else T.stack(list(numbers))
            entries = [vector[i] for i in range(-3, 3)]
            _, feature = self.graph([x, *numbers], entries)
            for i, entry in zip(range(-3, 3), entries):
                found = feature._known_entry(entry.owner)
                self.assertIs(found, feature.shape_of[x][i] if of_array else numbers[i])
            for i in (-4, 3):
                self.assertIsNone(feature._known_entry(vector[i].owner))

    def test_lazy(self):
        op = Opaque(lambda shapes: shapes)
        x = T.dmatrix("x")
        f = theano_ng.function([x], op(x) * 2)
        self.assertEqual(op.calls, 0)
        self.assertEqual(f(np.ones((2, 3))).tolist(), [[4.0] * 3] * 2)
        f = theano_ng.function([x], T.log(op(x)).shape)
        self.assertGreater(op.calls, 0)
        self.assertEqual({type(n.op).__name__ for n in f.maker.fgraph.apply_nodes}, {"Shape_i", "MakeVector"})
        self.assertEqual(f(np.ones((0, 3))).tolist(), [0, 3])

    def test_lengths_as_those_of_variables(self):
        """`infer_shape` of an Op may return a `Shape_i` of any variable as a length.

        `shape_of` then contains the length of that variable if it is known, and else the `Shape_i`.
        """

        class Parts(Op):
            """x + 1, and x without its first row; `infer_shape` gives every length as a `Shape_i` of a variable."""

            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [x.type(), x.type()])

            def perform(self, node, inputs, out):
                out[0][0], out[1][0] = inputs[0] + 1, inputs[0][1:].copy()

            def infer_shape(self, node, shapes):
                (x,), (_, rest) = node.inputs, node.outputs
                return [[Shape_i(0)(x), Shape_i(1)(x)], [Shape_i(0)(rest), Shape_i(1)(x)]]

        for make in (lambda x, y: x, lambda x, y: T.exp(x), lambda x, y: T.exp(x) + y):
            x, y = T.dmatrix("x"), T.drow("y")
            same, rest = Parts()(make(x, y))
            _, feature = self.graph([x, y], [same, rest])
            for i in range(2):
                self.assertIs(feature.shape_of[same][i], feature.shape_of[x][i])
            self.assertIs(feature.shape_of[rest][1], feature.shape_of[x][1])
            entry = feature.shape_of[rest][0].owner
            self.assertEqual((entry.op, entry.inputs), (Shape_i(0), [rest]))
        x = T.dmatrix("x")
        f = theano_ng.function([x], Parts()(T.exp(x))[0].shape)
        self.assertEqual({type(n.op).__name__ for n in f.maker.fgraph.apply_nodes}, {"Shape_i", "MakeVector"})
        f = theano_ng.function([x], Parts()(T.exp(x))[1].shape)
        self.assertEqual(f(np.ones((2, 3))).tolist(), [1, 3])

    def test_unknown_and_wrong(self):
        x = T.dmatrix("x")
        f = theano_ng.function([x], Opaque(fail(ShapeError("unknown")))(x).shape)
        self.assertEqual(f(np.ones((2, 3))).tolist(), [2, 3])
        for infer in (
            fail(ZeroDivisionError("no")),
            lambda shapes: [],
            lambda shapes: [(1,)],
            lambda shapes: [(1.5, 2)],
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                f = theano_ng.function([x], Opaque(infer)(x).shape)
            self.assertTrue(any("Failed to infer_shape" in str(w.message) for w in caught))
            self.assertEqual(f(np.ones((2, 3))).tolist(), [2, 3])
            policy, config.on_shape_error = config.on_shape_error, "raise"
            try:
                y = T.dmatrix("y")
                out = Opaque(infer)(y)
                feature = self.graph([y], [out])[1]
                self.assertRaises(Exception, lambda: feature.shape_of[out])
            finally:
                config.on_shape_error = policy

    def test_lengths_that_are_numbers(self):
        for length in (0, 1, 5, np.int8(3), np.float64(2), np.array(4)):
            entry = self.length(length)
            self.assertEqual((entry.data, entry.dtype), (length, "int64"))
        with config.change_flags(on_shape_error="raise"):
            self.assertRaisesRegex(Exception, "negative shape", self.length, -1)

    def length(self, given):
        """Return the inferred length of a vector whose Op infers the length `given`."""
        x = T.dvector("x")
        out = Opaque(lambda shapes: [(given,)])(x)
        return self.graph([x], [out])[1].shape_of[out][0]

    def test_replacement_keeps_what_is_known(self):
        x = T.dmatrix("x")
        old, new = T.exp(x), Opaque()(x)
        out = old + x
        fgraph, feature = self.graph([x], [out])
        feature.shape_of[out]
        fgraph.replace(old, new)
        self.assertTrue(feature.same_shape(new, x))

    def test_depth(self):
        h = x = T.dvector("x")
        for _ in range(5000):
            h = T.tanh(h)
        feature = self.graph([x], [h])[1]
        self.assertIs(feature.get_shape(h, 0), feature.get_shape(x, 0))


if __name__ == "__main__":
    unittest.main()
