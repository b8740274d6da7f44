"""The tutorial's listings and their documented results: defining Ops."""
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function


def same(got, want, tol=1e-6):
    np.testing.assert_allclose(np.asarray(got, dtype="float64"), np.asarray(want, dtype="float64"), rtol=tol, atol=tol)

class DefiningOps(unittest.TestCase):
    def test_explicit_make_node(self):
        class DoubleOp1(theano.Op):
            __props__ = ()
            def make_node(self, v):
                assert hasattr(self, '_props')
                v = T.as_tensor_variable(v)
                return theano.Apply(self, [v], [v.type()])
            def perform(self, node, inputs, output_storage): output_storage[0][0] = inputs[0] * 2
            def infer_shape(self, node, i0_shapes): return i0_shapes
            def grad(self, inputs, output_grads): return [output_grads[0] * 2]
            def R_op(self, inputs, eval_points):
                return eval_points if eval_points[0] is None else self.grad(inputs, eval_points)
        op = DoubleOp1(); x = T.matrix(); y = op(x)
        assert y.owner.op is op and DoubleOp1() == DoubleOp1() and hash(DoubleOp1()) == hash(DoubleOp1())
        v = np.random.rand(5, 4).astype(theano.config.floatX)
        for mode in (None, 'DebugMode', 'FAST_COMPILE'):
            same(function([x], op(x), mode=mode)(v), v * 2)
        same(function([x], T.grad(op(x).sum(), x))(v), np.full((5, 4), 2.0))
        assert 'DoubleOp1' not in [type(n.op).__name__ for n in function([x], op(x).shape).maker.fgraph.toposort()]

    def test_itypes_otypes(self):
        class DoubleOp2(theano.Op):
            __props__ = ()
            itypes = [T.dmatrix]; otypes = [T.dmatrix]
            def perform(self, node, inputs, output_storage): output_storage[0][0] = inputs[0] * 2
        x = T.dmatrix(); v = np.random.rand(5, 4)
        same(function([x], DoubleOp2()(x))(v), v * 2)

    def test_props_equality(self):
        class AXPBOp(theano.Op):
            __props__ = ('a', 'b')
            def __init__(self, a, b):
                self.a, self.b = a, b
                super(AXPBOp, self).__init__()
            def make_node(self, x):
                x = T.as_tensor_variable(x)
                return theano.Apply(self, [x], [x.type()])
            def perform(self, node, inputs, output_storage): output_storage[0][0] = self.a * inputs[0] + self.b
            def infer_shape(self, node, s): return s
        m45, again, m23 = AXPBOp(4, 5), AXPBOp(4, 5), AXPBOp(2, 3)
        assert m45 == again and hash(m45) == hash(again) and m45 != m23
        assert '4' in str(m45) and '5' in str(m45) and 'a' in str(m45)
        x = T.matrix(); v = np.random.rand(5, 4).astype('float32')
        assert np.allclose(4 * v + 5, function([x], m45(x))(v)) and np.allclose(2 * v + 3, function([x], m23(x))(v))
        f = function([x], [m45(x), again(x)])
        assert sum(isinstance(n.op, AXPBOp) for n in f.maker.fgraph.toposort()) == 1     # merged

    def test_two_output_op_exercise(self):
        class SumDiff(theano.Op):
            __props__ = ()
            def make_node(self, x, y):
                x, y = T.as_tensor_variable(x), T.as_tensor_variable(y)
                return theano.Apply(self, [x, y], [x.type(), y.type()])
            def perform(self, node, inputs, out):
                out[0][0] = inputs[0] + inputs[1]; out[1][0] = inputs[0] - inputs[1]
        a, b = T.dmatrix(), T.dmatrix()
        o = function([a, b], SumDiff()(a, b))([[5.]], [[3.]])
        same(o[0], [[8]]); same(o[1], [[2]])

    def test_as_op(self):
        from theano_ng.compile.ops import as_op
        def shp(node, input_shapes):
            ash, bsh = input_shapes
            return [ash[:-1] + bsh[-1:]]
        @as_op(itypes=[T.fmatrix, T.fmatrix], otypes=[T.fmatrix], infer_shape=shp)
        def numpy_dot(a, b): return np.dot(a, b)
        x, y = T.fmatrix(), T.fmatrix()
        p, q = np.random.rand(5, 4).astype('float32'), np.random.rand(4, 7).astype('float32')
        out = function([x, y], numpy_dot(x, y))(p, q)
        assert out.shape == (5, 7) and np.allclose(out, p.dot(q), atol=1e-5)
        assert function([x, y], numpy_dot(x, y).shape)(p, q).tolist() == [5, 7]
        with self.assertRaises(Exception):
            T.grad(numpy_dot(x, y).sum(), x)      # no gradient available

    def test_shipped_test_helpers(self):
        from theano_ng.tests import unittest_tools as utt
        from theano_ng.tests.test_rop import RopLop_checker
        class DoubleOp(theano.Op):
            __props__ = ()
            def make_node(self, v):
                v = T.as_tensor_variable(v); return theano.Apply(self, [v], [v.type()])
            def perform(self, node, i, o): o[0][0] = i[0] * 2
            def infer_shape(self, node, s): return s
            def grad(self, i, g): return [g[0] * 2]
            def R_op(self, i, ev): return ev if ev[0] is None else self.grad(i, ev)
        class TestDouble(utt.InferShapeTester):
            def setUp(self):
                super(TestDouble, self).setUp(); self.op_class, self.op = DoubleOp, DoubleOp()
            def test_shape(self):
                x = T.matrix()
                self._compile_and_check([x], [self.op(x)], [np.asarray(np.random.rand(5, 4), dtype=theano.config.floatX)], self.op_class)
            def test_basic(self): utt.assert_allclose(np.ones(3) * 2, np.full(3, 2.0))
            def test_grad(self): utt.verify_grad(DoubleOp(), [np.random.rand(5, 7, 2)])
        class TestRop(RopLop_checker):
            def test_double(self): self.check_rop_lop(DoubleOp()(self.x), self.in_shape)
        for cls, names in ((TestDouble, ('test_shape', 'test_basic', 'test_grad')), (TestRop, ('test_double',))):
            for nm in names:
                t = cls(nm); t.setUp(); getattr(t, nm)()
