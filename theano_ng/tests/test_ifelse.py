import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import ifelse as module
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.opt import in2out
from theano_ng.ifelse import IfElse, ifelse
from theano_ng.raise_op import Assert, CheckAndRaise, Raise


class Counted(Op):
    """Twice a vector; counts its calls."""

    __props__ = ("tag",)

    def __init__(self, tag):
        self.tag = tag
        self.calls = 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        self.calls += 1
        outputs[0][0] = 2 * inputs[0]


def mode(linker):
    return theano.Mode(linker, None)


class TestIfElse(unittest.TestCase):
    def test_lazy(self):
        """Only the linkers vm and cvm skip the other branch; all give the same value."""
        c, x, y = T.lscalar(), T.dvector(), T.dvector()
        for linker, other in (("vm", 0), ("cvm", 0), ("c|py", 1)):
            then, otherwise = Counted("t"), Counted("f")
            f = theano.function([c, x, y], ifelse(c, then(x), otherwise(y)), mode=mode(linker))
            self.assertEqual(f(7, [1, 2], [3]).tolist(), [2, 4])
            self.assertEqual((then.calls, otherwise.calls), (1, other), linker)
            self.assertEqual(f(0, [1, 2], [3]).tolist(), [6])
            self.assertEqual((then.calls, otherwise.calls), (1 + other, 1 + other), linker)

    def test_containers_and_literals(self):
        self.assertEqual(ifelse(1, 5, 4).dtype, "int8")
        self.assertEqual(theano.function([], ifelse(0, 5, 400), mode=mode("vm"))(), 400)
        c, x, y = T.bscalar(), T.dvector(), T.fmatrix()
        pair = ifelse(c, (x, y), (x[::-1], y.T))
        self.assertIsInstance(pair, tuple)
        f = theano.function([c, x, y], list(pair), mode=mode("cvm"))
        w = np.ones((1, 2), "float32")
        self.assertEqual([f(0, [1, 2], w)[0].tolist(), f(0, [1, 2], w)[1].shape, f(1, [1, 2], w)[1].shape], [[2, 1], (2, 1), (1, 2)])
        self.assertEqual(ifelse(c, T.drow(), T.dmatrix()).broadcastable, (False, False))
        self.assertIsInstance(ifelse(c, [x], [x]), list)
        self.assertRaises(TypeError, ifelse, c, x, y)
        self.assertRaises(TypeError, ifelse, x, x, x)
        self.assertRaises(ValueError, ifelse, c, [x, x], [x])
        self.assertEqual([str(IfElse(1)), str(IfElse(2, as_view=True, name="n"))], ["if{}", "if{n,inplace}"])

    def test_outputs_are_copies(self):
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        f = theano.function([c, theano.In(x, borrow=True), theano.In(y, borrow=True)], ifelse(c, x, y), mode=mode("cvm"))
        for choice in (0, 1):
            v, w = np.ones(2), np.zeros(2)
            self.assertFalse(any(np.shares_memory(f(choice, v, w), a) for a in (v, w)))

    def test_gradient_rop_shape(self):
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        z = ifelse(c, x ** 2, 3 * y)
        gx, gy = T.grad(z.sum(), [x, y])
        rx = T.Rop(z, x, x)
        size = z.owner.op.infer_shape(z.owner, [(), (x.shape[0],), (y.shape[0],)])[0][0]
        f = theano.function([c, x, y], [gx, gy, rx, size], mode=mode("cvm"))
        for choice, want in ((1, ([2, 4], [0, 0, 0], [2, 8], 2)), (0, ([0, 0], [3, 3, 3], None, 3))):
            got = f(choice, [1, 2], [1, 2, 3])
            for a, b in zip(got, want):
                if b is not None:
                    np.testing.assert_array_equal(a, b)


class TestRewrites(unittest.TestCase):
    def rewritten(self, rule, inputs, outputs):
        fgraph = theano.gof.FunctionGraph(inputs, outputs, clone=False)
        (rule if hasattr(rule, "optimize") else in2out(rule)).optimize(fgraph)
        return fgraph

    def setUp(self):
        self.c, self.x, self.y, self.z = T.bscalar("c"), T.dvector("x"), T.dvector("y"), T.dvector("z")

    def test_nested(self):
        """ifelse(c, ifelse(c, x, y), z)  ->  ifelse(c, x, z), and the same in the else branch."""
        c, x, y, z = self.c, self.x, self.y, self.z
        fgraph = self.rewritten(module.cond_merge_ifs_true, [c, x, y, z], [ifelse(c, ifelse(c, x, y), z)])
        self.assertEqual(fgraph.outputs[0].owner.inputs, [c, x, z])
        c, x, y, z = T.bscalar(), T.dvector(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.cond_merge_ifs_false, [c, x, y, z], [ifelse(c, x, ifelse(c, y, z))])
        self.assertEqual(fgraph.outputs[0].owner.inputs, [c, x, z])

    def test_identical_and_merge(self):
        c, x, y, z = self.c, self.x, self.y, self.z
        fgraph = self.rewritten(module.cond_remove_identical, [c, x, y], ifelse(c, [x, x], [y, y]))
        self.assertEqual(fgraph.outputs[0].owner.inputs, [c, x, y])
        c, x, y, z = T.bscalar(), T.dvector(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.CondMerge(), [c, x, y, z], [ifelse(c, x, y), ifelse(c, y, z)])
        self.assertIs(fgraph.outputs[0].owner, fgraph.outputs[1].owner)
        self.assertEqual(theano.function([c, x, y, z], fgraph.outputs, mode=mode("vm"))(1, [1], [2], [3]), [[1], [2]])
        c, x, y, z = T.bscalar(), T.dvector(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.cond_merge_random_op, [c, x, y, z], [ifelse(c, x, y) + ifelse(c, y, z)])
        self.assertEqual(len({inp.owner for inp in fgraph.outputs[0].owner.inputs}), 1)

    def test_lift(self):
        """exp(ifelse(c, x, y))  ->  ifelse(c, exp(x), exp(y))"""
        c, x, y = self.c, self.x, self.y
        fgraph = self.rewritten(module.ifelse_lift_single_if_through_acceptable_ops, [c, x, y], [T.exp(ifelse(c, x, y))])
        self.assertIsInstance(fgraph.outputs[0].owner.op, IfElse)
        self.assertEqual([v.owner.op for v in fgraph.outputs[0].owner.inputs[1:]], [T.exp, T.exp])

    def test_inplace(self):
        """Views where it is safe; a copy where an input would be returned or overwritten."""
        c, x, y = self.c, self.x, self.y
        fgraph = self.rewritten(module.cond_make_inplace, [c, x, y], [T.exp(ifelse(c, x, y))])
        self.assertTrue(fgraph.outputs[0].owner.inputs[0].owner.op.as_view)
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.cond_make_inplace, [c, x, y], [ifelse(c, T.exp(x), y)])
        self.assertFalse(fgraph.outputs[0].owner.op.as_view)
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        overwritten = T.set_subtensor(ifelse(c, x, y)[:1], y[:1], inplace=True)
        fgraph = self.rewritten(module.cond_make_inplace, [c, x, y], [overwritten])
        self.assertFalse(fgraph.outputs[0].owner.inputs[0].owner.op.as_view)


class TestRaising(unittest.TestCase):
    def test_raise(self):
        x = T.dvector()
        f = theano.function([x], Raise("no way", KeyError)(x), mode=mode("vm"))
        with self.assertRaisesRegex(KeyError, "no way"):
            f([1])
        self.assertEqual(hash(Raise("a", KeyError)), hash(Raise("a", KeyError)))

    def test_conditions(self):
        x = T.dvector()
        for op, kind, text in ((Assert("vector too long: \u00e9"), AssertionError, "vector too long: \u00e9"),
                               (CheckAndRaise(KeyError, "short"), KeyError, "short")):
            z = op(x, x.shape[0] < 3, T.all(T.gt(x, 0)))
            for linker in ("cvm", "py"):
                f = theano.function([x], [z, T.grad(z.sum(), x)], mode=mode(linker))
                self.assertEqual([v.tolist() for v in f([1, 2])], [[1, 2], [1, 1]])
                for bad in ([1, 2, 3], [0.0]):
                    with self.assertRaisesRegex(kind, text):
                        f(bad)
            self.assertRaises(TypeError, op, x, x)
        self.assertEqual(str(Assert("m")), "Assert{msg='m'}")


if __name__ == "__main__":
    unittest.main()
