"""The tutorials' listings and their documented results: defining Ops in Python, and testing them."""
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy
import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import config, function, tensor
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.test_rop import RopLop_checker

MODES = ("FAST_COMPILE", "FAST_RUN", "DebugMode")

# What follows, up to `InEveryMode`, are the listings of "Extending Theano" with their own names.


class DoubleOp(theano.Op):
    """ Double each element of a tensor.

    :param x: input tensor.

    :return: a tensor of the same shape and dtype as the input with all
    values doubled.

    .. versionadded:: 0.6
    """

    __props__ = ()

    def make_node(self, x):
        # check that the theano version has support for __props__.
        # This next line looks like it has a typo,
        # but it's actually a way to detect the theano version
        # is sufficiently recent to support the use of __props__.
        assert hasattr(self, '_props'), "Your version of theano is too old to support __props__."
        x = theano.tensor.as_tensor_variable(x)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        x = inputs[0]
        z = output_storage[0]
        z[0] = x * 2

    def infer_shape(self, node, i0_shapes):
        return i0_shapes

    def grad(self, inputs, output_grads):
        return [output_grads[0] * 2]

    def R_op(self, inputs, eval_points):
        # R_op can receive None as eval_points.
        # That mean there is no diferientiable path through that input
        # If this imply that you cannot compute some outputs,
        # return None for those.
        if eval_points[0] is None:
            return eval_points
        return self.grad(inputs, eval_points)


class AXPBOp(theano.Op):
    """
    This creates an Op that takes x to a*x+b.
    """
    __props__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b
        super(AXPBOp, self).__init__()

    def make_node(self, x):
        # check that the theano version has support for __props__.
        assert hasattr(self, '_props'), "Your version of theano is too old to support __props__."
        x = theano.tensor.as_tensor_variable(x)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        x = inputs[0]
        z = output_storage[0]
        z[0] = self.a * x + self.b

    def infer_shape(self, node, i0_shapes):
        return i0_shapes

    def grad(self, inputs, output_grads):
        # The text has "a * output_grads[0] + b": names that are not there, and a gradient that is not right.
        return [self.a * output_grads[0]]


class test_Double(utt.InferShapeTester):
    def setUp(self):
        super(test_Double, self).setUp()
        self.op_class = DoubleOp
        self.op = DoubleOp()

    def test_basic(self):
        x = theano.tensor.matrix()
        f = theano.function([x], self.op(x))
        inp = numpy.asarray(numpy.random.rand(5, 4), dtype=config.floatX)
        out = f(inp)
        # Compare the result computed to the expected value.
        utt.assert_allclose(inp * 2, out)

    def test_infer_shape(self):
        x = theano.tensor.matrix()
        self._compile_and_check([x],  # theano.function inputs
                                [self.op(x)],  # theano.function outputs
                                # Always use not square matrix!
                                # inputs data
                                [numpy.asarray(numpy.random.rand(5, 4),
                                               dtype=config.floatX)],
                                # Op that should be removed from the graph.
                                self.op_class)

    def test_grad(self):
        theano.tests.unittest_tools.verify_grad(self.op,
                                                [numpy.random.rand(5, 7, 2)])


class test_DoubleRop(RopLop_checker):
    def setUp(self):
        super(test_DoubleRop, self).setUp()

    def test_double_rop(self):
        self.check_rop_lop(DoubleOp()(self.x), self.in_shape)


def infer_shape_numpy_dot(node, input_shapes):
    ashp, bshp = input_shapes
    return [ashp[:-1] + bshp[-1:]]


@theano.compile.ops.as_op(itypes=[theano.tensor.fmatrix, theano.tensor.fmatrix],
                          otypes=[theano.tensor.fmatrix], infer_shape=infer_shape_numpy_dot)
def numpy_dot(a, b):
    return numpy.dot(a, b)


# The exercises.

class Binary(theano.Op):
    """What the exercises' Ops have in common: two tensors of one type."""

    __props__ = ()

    def make_node(self, x, y):
        x, y = theano.tensor.as_tensor_variable(x), theano.tensor.as_tensor_variable(y)
        if x.type != y.type:
            raise TypeError("the inputs are of %s and %s; expected equal types" % (x.type, y.type))
        return theano.Apply(self, [x, y], [x.type() for _ in range(self.nout)])

    nout = 1


class ProdOp(Binary):
    """x * y"""

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        output_storage[0][0] = x * y

    def infer_shape(self, node, i0_shapes):
        return [i0_shapes[0]]

    def grad(self, inputs, output_grads):
        return [output_grads[0] * inputs[1], output_grads[0] * inputs[0]]


class SumDiffOp(Binary):
    """x + y and x - y"""

    nout = 2

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        output_storage[0][0] = x + y
        output_storage[1][0] = x - y

    def infer_shape(self, node, i0_shapes):
        return [i0_shapes[0], i0_shapes[0]]

    def grad(self, inputs, output_grads):
        og1, og2 = (x.zeros_like() if isinstance(og.type, theano.gradient.DisconnectedType) else og
                    for og, x in zip(output_grads, inputs))
        return [og1 + og2, og1 - og2]


class testProdOp(utt.InferShapeTester):
    rng = numpy.random.RandomState(43)

    def setUp(self):
        super(testProdOp, self).setUp()
        self.op_class = ProdOp

    def test_perform(self):
        x, y = theano.tensor.matrix(), theano.tensor.matrix()
        f = theano.function([x, y], self.op_class()(x, y))
        x_val, y_val = numpy.random.rand(5, 4).astype(config.floatX), numpy.random.rand(5, 4).astype(config.floatX)
        assert numpy.allclose(x_val * y_val, f(x_val, y_val))

    def test_gradient(self):
        utt.verify_grad(self.op_class(), [numpy.random.rand(5, 4), numpy.random.rand(5, 4)], n_tests=1, rng=self.rng)

    def test_infer_shape(self):
        x, y = theano.tensor.dmatrix(), theano.tensor.dmatrix()
        self._compile_and_check([x, y], [self.op_class()(x, y)], [numpy.random.rand(5, 6), numpy.random.rand(5, 6)], self.op_class)


class testSumDiffOp(utt.InferShapeTester):
    rng = numpy.random.RandomState(43)

    def setUp(self):
        super(testSumDiffOp, self).setUp()
        self.op_class = SumDiffOp

    def test_perform(self):
        x, y = theano.tensor.matrix(), theano.tensor.matrix()
        f = theano.function([x, y], self.op_class()(x, y))
        x_val, y_val = numpy.random.rand(5, 4).astype(config.floatX), numpy.random.rand(5, 4).astype(config.floatX)
        assert numpy.allclose([x_val + y_val, x_val - y_val], f(x_val, y_val))

    def test_gradient(self):
        for i in (0, 1):
            utt.verify_grad(lambda x, y: self.op_class()(x, y)[i], [numpy.random.rand(5, 4), numpy.random.rand(5, 4)], n_tests=1,
                            rng=self.rng)

    def test_infer_shape(self):
        x, y = theano.tensor.dmatrix(), theano.tensor.dmatrix()
        # adapt the choice of the next instruction to the op under test
        self._compile_and_check([x, y], self.op_class()(x, y), [numpy.random.rand(5, 6), numpy.random.rand(5, 6)], self.op_class)


class InEveryMode(unittest.TestCase):
    """The listings again in each of the three modes."""

    def run_in(self, mode, *classes):
        with config.change_flags(mode=mode):
            result = unittest.TestResult()
            for cls in classes:
                unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
        self.assertEqual((result.failures, result.errors), ([], []), mode)
        return result.testsRun

    def test_classes(self):
        for mode in MODES:
            self.assertEqual(self.run_in(mode, test_Double, test_DoubleRop, testProdOp, testSumDiffOp), 10)

    def test_running_examples(self):
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                x = theano.tensor.matrix()
                f = theano.function([x], DoubleOp()(x))
                inp = numpy.random.rand(5, 4)
                inp = inp.astype(config.floatX)
                out = f(inp)
                assert numpy.allclose(inp * 2, out)

                mult4plus5op = AXPBOp(4, 5)
                another_mult4plus5op = AXPBOp(4, 5)
                mult2plus3op = AXPBOp(2, 3)
                assert mult4plus5op == another_mult4plus5op
                assert mult4plus5op != mult2plus3op
                x = theano.tensor.matrix()
                f = theano.function([x], mult4plus5op(x))
                g = theano.function([x], mult2plus3op(x))
                inp = numpy.random.rand(5, 4).astype(numpy.float32)
                assert numpy.allclose(4 * inp + 5, f(inp))
                assert numpy.allclose(2 * inp + 3, g(inp))
                utt.verify_grad(mult4plus5op, [numpy.random.rand(5, 4)])

                x = theano.tensor.fmatrix()
                y = theano.tensor.fmatrix()
                f = function([x, y], numpy_dot(x, y))
                inp1 = numpy.random.rand(5, 4).astype('float32')
                inp2 = numpy.random.rand(4, 7).astype('float32')
                out = f(inp1, inp2)
                assert numpy.allclose(out, numpy.dot(inp1, inp2))
                shape = function([x, y], numpy_dot(x, y).shape)
                self.assertEqual(shape(inp1, inp2).tolist(), [5, 7])
                if mode != "FAST_COMPILE":
                    self.assertNotIn(type(numpy_dot), [type(node.op) for node in shape.maker.fgraph.toposort()])

    def test_square_shapes_are_warned_of(self):
        tester = test_Double("test_basic")
        tester.setUp()
        x = theano.tensor.matrix()
        square = numpy.ones((4, 4), config.floatX)
        with self.assertWarns(UserWarning):
            tester._compile_and_check([x], [tester.op(x)], [square], tester.op_class)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tester._compile_and_check([x], [tester.op(x)], [square], tester.op_class, warn=False)


class VerifyGrad(unittest.TestCase):
    """The listings of "Unit Testing"."""

    def test_verify_exprgrad(self):
        def fun(x, y, z):
            return (x + tensor.cos(y)) / (4 * z)**2

        x_val = numpy.asarray([[1], [1.1], [1.2]])
        y_val = numpy.asarray([0.1, 0.2])
        z_val = numpy.asarray(2.)
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                rng = numpy.random.RandomState(42)
                tensor.verify_grad(fun, [x_val, y_val, z_val], rng=rng)
        # The listing gives an integer for z, at which there are no finite differences.
        with self.assertRaisesRegex(TypeError, 'input 2 has dtype "int64"'):
            tensor.verify_grad(fun, [x_val, y_val, numpy.asarray(2)], rng=rng)

    def test_flatten_outdimNone(self):
        # Testing gradient w.r.t. all inputs of an op (in this example the op
        # being used is Flatten(), which takes a single input).
        a_val = numpy.asarray([[0, 1, 2], [3, 4, 5]], dtype='float64')
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                rng = numpy.random.RandomState(42)
                tensor.verify_grad(tensor.Flatten(), [a_val], rng=rng)

    def test_crossentropy_softmax_grad(self):
        op = tensor.nnet.crossentropy_softmax_argmax_1hot_with_bias

        def op_with_fixed_y_idx(x, b):
            # Input `y_idx` of this Op takes integer values, so we fix them
            # to some constant array.
            # Although this op has multiple outputs, we can return only one.
            # Here, we return the first output only.
            return op(x, b, y_idx=numpy.asarray([0, 2]))[0]

        x_val = numpy.asarray([[-1, 0, 1], [3, 2, 1]], dtype='float64')
        b_val = numpy.asarray([1, 2, 3], dtype='float64')
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                rng = numpy.random.RandomState(42)
                tensor.verify_grad(op_with_fixed_y_idx, [x_val, b_val], rng=rng)

    def test_needs_a_generator_and_finds_errors(self):
        self.assertRaises(TypeError, tensor.verify_grad, tensor.exp, [numpy.ones(2)])

        class Wrong(DoubleOp):
            def grad(self, inputs, output_grads):
                return [output_grads[0]]

        self.assertRaises(theano.gradient.GradientError, utt.verify_grad, Wrong(), [numpy.ones((2, 3))])
        # Both tolerances have to be exceeded.
        utt.verify_grad(Wrong(), [numpy.ones((2, 3))], abs_tol=10.)
        utt.verify_grad(Wrong(), [numpy.ones((2, 3))], rel_tol=10.)


class InPlace(theano.Op):
    """x, y -> x + y in the memory of x, and what each place of a map means for its outputs."""

    __props__ = ()
    destroy_map = {0: [0]}

    def make_node(self, x, y):
        x, y = tensor.as_tensor_variable(x), tensor.as_tensor_variable(y)
        return theano.Apply(self, [x, y], [x.type()])

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        x += y
        output_storage[0][0] = x


class Corrupting(InPlace):
    """The same in new memory; x is scratch space."""

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        output_storage[0][0] = x + y
        x[...] = -1


class BothInPlace(InPlace):
    """x + y and x - y, the one in the memory of y, the other in that of x."""

    destroy_map = {0: [1], 1: [0]}

    def make_node(self, x, y):
        return theano.Apply(self, [x, y], [y.type(), x.type()])

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        x -= y
        y *= 2
        y += x
        output_storage[0][0], output_storage[1][0] = y, x


class ViewsAndInplace(unittest.TestCase):
    """What "Views and inplace operations" says."""

    def test_documented_example(self):
        from theano_ng.tensor import dscalars, dvectors, log
        from theano_ng.tensor.inplace import add_inplace

        for make, a, b in ((dscalars, 2., 3.), (dvectors, [2., 4.], [3., 0.5])):
            for operation in (add_inplace, InPlace(), Corrupting()):
                if make is dscalars and operation is not add_inplace:
                    continue
                x, y = make('x', 'y')
                r1 = log(x)
                # r2 is x AFTER the add_inplace - x still represents the value before adding y
                r2 = operation(x, y)
                # r3 is log(x) using the x from BEFORE the add_inplace
                r3 = log(x)
                # this is log(x) using the x from AFTER the add_inplace (so it's like log(x + y))
                r4 = log(r2)
                a, b = np.asarray(a), np.asarray(b)
                for mode in MODES:
                    f = function([theano.In(x, mutable=True), y], [r2, r1, r3, r4], mode=mode, accept_inplace=True)
                    got = f(a.copy(), b)
                    for value, wanted in zip(got, (a + b, np.log(a), np.log(a), np.log(a + b))):
                        np.testing.assert_allclose(value, wanted)
                    order = [node.op for node in f.maker.fgraph.toposort()]
                    destroyers = [i for i, op in enumerate(order) if getattr(op, "destroy_map", None)]
                    readers = [i for i, node in enumerate(f.maker.fgraph.toposort())
                               if any(v in f.maker.fgraph.inputs[:1] for v in node.inputs) and i not in destroyers]
                    self.assertLess(max(readers), destroyers[0], (mode, order))

    def test_two_outputs(self):
        x, y = tensor.dvectors("x", "y")
        a, b = np.array([1., 2.]), np.array([0.5, 8.])
        for mode in MODES:
            both = BothInPlace()(x * 1, y * 1)
            f = function([x, y], [*both, x], mode=mode, accept_inplace=True)
            for value, wanted in zip(f(a, b), (a + b, a - b, a)):
                np.testing.assert_allclose(value, wanted)

    def test_user_graphs_have_none_by_default(self):
        x, y = tensor.dvectors("x", "y")
        with self.assertRaisesRegex(TypeError, "Graph must not contain inplace operations"):
            function([x, y], InPlace()(x, y))

    def test_two_destroyers_of_one_input_are_refused(self):
        x, y = tensor.dvectors("x", "y")
        with self.assertRaises(theano.gof.InconsistencyError):
            function([theano.In(x, mutable=True), y], [InPlace()(x, y), Corrupting()(x, y)], accept_inplace=True,
                     mode=theano.Mode("py", None))


class GradientRules(unittest.TestCase):
    """What the Op's contract says about gradients and integers."""

    def test_integers(self):
        a, b = tensor.lmatrices("a", "b")
        # An integer-valued function has gradients of zero, of floating point.
        zeros = tensor.grad(tensor.dot(a, b).sum(), [a, b])
        self.assertEqual([g.dtype for g in zeros], [config.floatX] * 2)
        values = np.arange(6).reshape(2, 3), np.arange(3).reshape(3, 1)
        got = function([a, b], zeros, on_unused_input="ignore")(*values)
        for value, like in zip(got, values):
            np.testing.assert_array_equal(value, np.zeros(like.shape))
        # 0.5 * g(y), y = f(x) an integer: 0.5 with respect to y, nothing goes on to x.
        x = tensor.dscalar("x")
        y = tensor.cast(x, "int32")
        cost = 0.5 * tensor.cast(y, "float64")
        self.assertEqual(tensor.grad(cost, y).eval({x: 3.7}), 0.5)
        self.assertEqual(tensor.grad(cost, x).eval({x: 3.7}), 0)
        # The number of copies: disconnected. The elements of a shape too.
        v, n = tensor.dscalar("v"), tensor.lscalar("n")
        self.assertRaises(theano.gradient.DisconnectedInputError, tensor.grad, tensor.alloc(v, n).sum(), n)
        m = tensor.dmatrix("m")
        self.assertRaises(theano.gradient.DisconnectedInputError, tensor.grad, (m.shape[0] * 1.0).sum(), m)

    def test_missing_and_undefined(self):
        class NoGrad(theano.Op):
            __props__ = ()
            itypes = [tensor.dvector]
            otypes = [tensor.dvector]

            def perform(self, node, inputs, output_storage):
                output_storage[0][0] = inputs[0] * 2

        class Undefined(NoGrad):
            def grad(self, inputs, output_grads):
                return [theano.gradient.grad_undefined(self, 0, inputs[0], "no slope")]

        x = tensor.dvector("x")
        with self.assertRaises((AttributeError, NotImplementedError, theano.gradient.NullTypeGradError)):
            tensor.grad(NoGrad()(x).sum(), x)
        with self.assertRaisesRegex(theano.gradient.NullTypeGradError, "no slope"):
            tensor.grad(Undefined()(x).sum(), x)

    def test_wrong_connection_patterns(self):
        # "a spurious TypeError or a missing ValueError": never wrong numbers.
        class Product(Binary):
            pattern = [[True], [True]]

            def perform(self, node, inputs, output_storage):
                output_storage[0][0] = inputs[0] * inputs[1]

            def connection_pattern(self, node):
                return self.pattern

            def grad(self, inputs, output_grads):
                return [output_grads[0] * inputs[1], output_grads[0] * inputs[0]]

        class Denying(Product):
            pattern = [[False], [True]]

        x, y = tensor.dvectors("x", "y")
        np.testing.assert_array_equal(tensor.grad(Product()(x, y).sum(), x).eval({x: [1., 2.], y: [3., 4.]}), [3, 4])
        self.assertRaises((theano.gradient.DisconnectedInputError, ValueError, TypeError), tensor.grad, Denying()(x, y).sum(), x)


class Seeds(unittest.TestCase):
    def setUp(self):
        utt.seed_rng()
        # OR ... call with an explicit seed
        utt.seed_rng(234234)  # use only if really necessary!

    def test_generators(self):
        first = numpy.random.rand()
        utt.seed_rng(234234)
        self.assertEqual(numpy.random.rand(), first)
        rng = numpy.random.RandomState(utt.fetch_seed())
        self.assertEqual(rng.rand(), numpy.random.RandomState(666).rand())
        rng = numpy.random.RandomState(utt.fetch_seed(1231))
        self.assertEqual(rng.rand(), numpy.random.RandomState(1231).rand())


class CommandLine(unittest.TestCase):
    def test_documented_selections(self):
        listing = (
            "import unittest\n"
            "from theano_ng.tests.test_tutorial_writing_ops import DoubleOp\n"
            "from theano_ng.tests.test_rop import RopLop_checker\n"
            "class test_DoubleRop(RopLop_checker):\n"
            "    def setUp(self):\n"
            "        super(test_DoubleRop, self).setUp()\n"
            "    def test_double_rop(self):\n"
            "        self.check_rop_lop(DoubleOp()(self.x), self.in_shape)\n"
            "    def test_wrong(self):\n"
            "        self.check_rop_lop(DoubleOp()(self.x)[:2], self.in_shape)\n"
            "if __name__ == '__main__':\n"
            "   t = test_DoubleRop('test_double_rop')\n"
            "   t.setUp()\n"
            "   t.test_double_rop()\n"
            "   print('one test')\n")
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_file.py")
            with open(path, "w") as stream:
                stream.write(listing)

            def run(*arguments):
                done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder)
                return done.returncode, done.stdout + done.stderr

            runner = ("-m", "theano_ng.tests.runner", "--processes", "1")
            code, text = run(*runner, "test_file.py:test_DoubleRop.test_double_rop")
            self.assertEqual(code, 0, text)
            self.assertIn("1 passed, 0 failed", text)
            code, text = run(*runner, "test_file.py:test_DoubleRop")
            self.assertEqual(code, 1, text)
            self.assertIn("1 passed, 1 failed", text)
            code, text = run(path)
            self.assertEqual((code, text.strip()), (0, "one test"))


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
        assert 'DoubleOp1' not in [type(n.op).__name__ for n in function([x], op(x).shape, mode='FAST_RUN').maker.fgraph.toposort()]

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


if __name__ == "__main__":
    unittest.main()
