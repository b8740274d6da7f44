import pickle
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile import ops
from theano_ng.compile.ops import as_op
from theano_ng.gof.type import Generic
from theano_ng.tensor.tests.single_node import check_node, run_node


def _dot_shape(node, input_shapes):
    a, b = input_shapes
    return [a[:-1] + b[-1:]]


@as_op(itypes=[T.fmatrix, T.fmatrix], otypes=[T.fmatrix], infer_shape=_dot_shape)
def numpy_dot(a, b):
    return np.dot(a, b)


class TestNodes(unittest.TestCase):
    def test_copies_and_views(self):
        x = T.dmatrix()
        v = np.arange(6.0).reshape(2, 3).T[::-1]
        for op in (ops.deep_copy_op, ops.view_op, ops.OutputGuard()):
            check_node(self, op(x), {x: v}, v)
        for impl in ("c", "py"):
            self.assertFalse(np.shares_memory(run_node(ops.deep_copy_op(x), {x: v}, impl)[0], v))
            self.assertIs(run_node(ops.view_op(x), {x: v}, impl)[0], v)
        self.assertEqual((ops.OutputGuard().destroy_map, ops.OutputGuard().view_map), ({0: [0]},) * 2)

    def test_shapes(self):
        x, s = T.dmatrix(), T.lvector()
        v = np.ones((2, 0))
        check_node(self, ops.shape(x), {x: v}, np.array([2, 0]))
        check_node(self, ops.Shape_i(1)(x), {x: v}, np.array(0))
        c = T.dscalar()
        check_node(self, ops.shape(c), {c: np.ones(())}, np.zeros(0, "int64"))
        check_node(self, ops.specify_shape(x, s), {x: v, s: np.array([2, 0])}, v)
        for wanted, text in (([2, 1], "dim 1 of input has shape 0, expected 1"), ([2], "has 1 elements, but the input has 2")):
            for impl in ("c", "py"):
                with self.assertRaisesRegex(AssertionError, text):
                    run_node(ops.specify_shape(x, s), {x: v, s: np.array(wanted)}, impl)
        self.assertRaises(TypeError, ops.Shape_i(2), x)
        self.assertRaises(ValueError, ops.specify_shape, x, (1, 2, 3))
        self.assertEqual([str(op) for op in (ops.shape, ops.Shape_i(1), ops.specify_shape, ops.deep_copy_op, ops.view_op)],
                         ["Shape", "Shape_i{1}", "SpecifyShape", "DeepCopyOp", "ViewOp"])

    def test_rebroadcast(self):
        x = T.dmatrix()
        op = ops.Rebroadcast((0, True), (1, False))
        self.assertEqual((op(x).broadcastable, str(op)), ((True, False), "Rebroadcast{1,0}"))
        self.assertEqual(op, ops.Rebroadcast((1, False), (0, True)))
        self.assertEqual(hash(op), hash(pickle.loads(pickle.dumps(op))))
        check_node(self, op(x), {x: np.ones((1, 3))}, np.ones((1, 3)))
        for impl in ("c", "py"):
            with self.assertRaisesRegex(ValueError, "Dimension 0 in Rebroadcast's input was supposed to be 1 .got 2"):
                run_node(op(x), {x: np.ones((2, 3))}, impl)
        self.assertRaises(ValueError, ops.Rebroadcast((2, True)), x)
        self.assertRaises(TypeError, ops.Rebroadcast, (0, 1))
        self.assertRaises(TypeError, ops.Rebroadcast, ("0", True))


class TestGraphs(unittest.TestCase):
    def test_shape_functions(self):
        """Documented: shapes need no values; a join's mismatch shows only when it is computed."""
        x, y = T.matrix(), T.matrix()
        f = theano.function([x], (x ** 2).shape)
        self.assertLessEqual({type(n.op).__name__ for n in f.maker.fgraph.toposort()}, {"MakeVector", "Shape_i", "DeepCopyOp"})
        self.assertEqual(f(np.ones((2, 3), x.dtype)).tolist(), [2, 3])
        z = T.join(0, x, y)
        a, b = np.ones((5, 4), x.dtype), np.ones((3, 3), x.dtype)
        self.assertEqual(theano.function([x, y], z.shape)(a, b).tolist(), [8, 4])
        self.assertRaises(ValueError, theano.function([x, y], z), a, b)
        f = theano.function([x], (T.specify_shape(x, (2, 2)) ** 2).shape)
        self.assertEqual([type(n.op).__name__ for n in f.maker.fgraph.toposort()], ["DeepCopyOp"])
        self.assertEqual(f(np.ones((2, 2), x.dtype)).tolist(), [2, 2])

    def test_shapes_are_disconnected(self):
        x = T.dvector()
        with self.assertRaises(theano.gradient.DisconnectedInputError):
            T.grad(T.shape(x)[0].astype("float64"), x)
        np.testing.assert_array_equal(
            theano.function([x], T.grad((T.specify_shape(x, (2,)) ** 2).sum(), x), mode="FAST_COMPILE")([1, 2]), [2, 4])

    def test_as_op(self):
        x, y = T.fmatrix(), T.fmatrix()
        p, q = np.ones((5, 4), "float32"), np.arange(28, dtype="float32").reshape(4, 7)
        z = numpy_dot(x, y)
        got, shp = theano.function([x, y], [z, z.shape])(p, q)
        np.testing.assert_allclose(got, p.dot(q))
        self.assertEqual(shp.tolist(), [5, 7])
        with self.assertRaises(Exception):
            T.grad(z.sum(), x)
        self.assertIs(pickle.loads(pickle.dumps(numpy_dot)), numpy_dot)
        self.assertRaises(TypeError, numpy_dot, x, T.dmatrix())
        np.testing.assert_allclose(theano.function([x], numpy_dot(x, q))(p), p.dot(q))
        self.assertRaises(TypeError, as_op, [float], [T.dmatrix])
        self.assertRaises(TypeError, as_op, [T.dmatrix], [T.dmatrix], "no function")


class TestRegistration(unittest.TestCase):
    def test_text_for_a_type(self):
        """Registered text becomes the node's C code, with its names filled in, and its version part of the key."""
        class Own(Generic):
            ndim = 2

        x = Own()()
        registered = [
            (ops.ViewOp, ops.register_view_op_c_code, ("view %(iname)s %(oname)s", 3), ops.view_op),
            (ops.DeepCopyOp, ops.register_deep_copy_op_c_code, ("copy %(iname)s %(oname)s", 3), ops.deep_copy_op),
            (ops.Shape_i, ops.register_shape_i_c_code, ("size %(iname)s %(oname)s %(i)s", "check %(i)s;", 3), ops.Shape_i(1)),
        ]
        wants = ["view I O", "copy I O", "check 1;size I O 1"]
        for (cls, register, args, op), want in zip(registered, wants):
            register(Own, *args)
            try:
                node = op(x).owner
                self.assertEqual(op.c_code(node, "n", ["I"], ["O"], {"fail": "F"}), want)
                self.assertIn(3, [entry[-1] for entry in op.c_code_cache_version()[1:]])
                register(Own, *args[:-1])
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    self.assertEqual(op.c_code_cache_version(), ())
                self.assertTrue(caught)
            finally:
                del cls.c_code_and_version[Own]


if __name__ == "__main__":
    unittest.main()
