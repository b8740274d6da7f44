"""Tests of the tutorials about defining Ops in Python, and about testing them."""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng import config, function, tensor
from theano_ng.compile.ops import as_op
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.test_rop import RopLop_checker

MODES = ("FAST_COMPILE", "FAST_RUN", "DebugMode")


class Elementwise(theano.Op):
    """A base class of Ops that return a tensor of the type of their input."""

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        return theano.Apply(self, [x], [x.type()])

    def infer_shape(self, node, input_shapes):
        return input_shapes


class Cube(Elementwise):
    """The Op x ** 3."""

    __props__ = ()

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(inputs[0] ** 3)

    def grad(self, inputs, output_grads):
        return [3 * inputs[0] ** 2 * output_grads[0]]

    def R_op(self, inputs, eval_points):
        # None means that the input does not depend on the differentiated variable.
        return [None] if eval_points[0] is None else self.grad(inputs, eval_points)


class Power(Elementwise):
    """The Op scale * x ** exponent."""

    __props__ = ("scale", "exponent")

    def __init__(self, scale, exponent):
        self.scale, self.exponent = scale, exponent

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.asarray(self.scale * inputs[0] ** self.exponent)

    def grad(self, inputs, output_grads):
        return [output_grads[0] * Power(self.scale * self.exponent, self.exponent - 1)(inputs[0])]


class TestCube(utt.InferShapeTester):
    op = Cube()

    def test_values(self):
        x = tensor.matrix()
        value = np.linspace(-3, 2, 12).reshape(3, 4).astype(config.floatX)
        utt.assert_allclose(value * value * value, function([x], self.op(x))(value))

    def test_shapes(self):
        x = tensor.tensor3()
        self._compile_and_check([x], [self.op(x)], [np.ones((2, 5, 3), config.floatX)], Cube)

    def test_gradient(self):
        utt.verify_grad(self.op, [np.random.normal(size=(4, 3))])


class TestRopOfCube(RopLop_checker):
    def test_rop(self):
        self.check_rop_lop(Cube()(self.x), self.in_shape)


@as_op(
    itypes=[tensor.fmatrix, tensor.fmatrix],
    otypes=[tensor.fmatrix],
    infer_shape=lambda node, shapes: [tuple(m * n for m, n in zip(*shapes))],
)
def kronecker(a, b):
    return np.kron(a, b)


class Binary(theano.Op):
    """A base class of Ops that take two tensors of one type, and return `nout` tensors of this type."""

    __props__ = ()
    nout = 1

    def make_node(self, x, y):
        x, y = tensor.as_tensor_variable(x), tensor.as_tensor_variable(y)
        if x.type != y.type:
            raise TypeError("the inputs are of %s and %s; expected equal types" % (x.type, y.type))
        return theano.Apply(self, [x, y], [x.type() for _ in range(self.nout)])

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]] * self.nout


class Ratio(Binary):
    """The Op x / y."""

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.true_divide(*inputs)

    def grad(self, inputs, output_grads):
        x, y = inputs
        g = output_grads[0] / y
        return [g, -g * self(x, y)]


class Polar(Binary):
    """The polar coordinates of points: the distance from the origin, and the angle."""

    nout = 2

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        for cell, value in zip(output_storage, (np.hypot(x, y), np.arctan2(y, x))):
            cell[0] = value

    def grad(self, inputs, output_grads):
        x, y = inputs
        square = x**2 + y**2
        to_x = to_y = x.zeros_like()
        for g, dx, dy in zip(
            output_grads, (x / tensor.sqrt(square), -y / square), (y / tensor.sqrt(square), x / square)
        ):
            if not isinstance(g.type, theano.gradient.DisconnectedType):
                to_x, to_y = to_x + g * dx, to_y + g * dy
        return [to_x, to_y]


def away_from_zero():
    """Return two matrices with elements between 1 and 2."""
    return [1 + np.random.uniform(size=(3, 6)).astype(config.floatX) for _ in range(2)]


class TestRatio(utt.InferShapeTester):
    def test_values(self):
        x, y = tensor.matrices("xy")
        a, b = away_from_zero()
        utt.assert_allclose(a / b, function([x, y], Ratio()(x, y))(a, b))

    def test_gradient(self):
        utt.verify_grad(Ratio(), away_from_zero(), n_tests=1, rng=np.random.RandomState(81))

    def test_shapes(self):
        x, y = tensor.matrices("xy")
        self._compile_and_check([x, y], [Ratio()(x, y)], away_from_zero(), Ratio)


class TestPolar(utt.InferShapeTester):
    def test_values(self):
        x, y = tensor.matrices("xy")
        a, b = away_from_zero()
        radius, angle = function([x, y], Polar()(x, y))(a, -b)
        utt.assert_allclose(a, radius * np.cos(angle))
        utt.assert_allclose(-b, radius * np.sin(angle))

    def test_gradient(self):
        for one in (lambda x, y: Polar()(x, y)[0], lambda x, y: Polar()(x, y)[1]):
            utt.verify_grad(one, away_from_zero(), n_tests=1, rng=np.random.RandomState(82))

    def test_shapes(self):
        x, y = tensor.matrices("xy")
        self._compile_and_check([x, y], Polar()(x, y), away_from_zero(), Polar)


class InEveryMode(unittest.TestCase):
    def run_in(self, mode, *classes):
        with config.change_flags(mode=mode):
            result = unittest.TestResult()
            for cls in classes:
                unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
        self.assertEqual((result.failures, result.errors), ([], []), mode)
        return result.testsRun

    def test_classes(self):
        for mode in MODES:
            self.assertEqual(self.run_in(mode, TestCube, TestRopOfCube, TestRatio, TestPolar), 10)

    def test_props(self):
        x = tensor.fvector()
        area, same_area, volume = Power(3.5, 2), Power(3.5, 2), Power(0.5, 3)
        self.assertEqual((area, hash(area)), (same_area, hash(same_area)))
        self.assertNotEqual(area, volume)
        self.assertEqual(str(volume), "Power{scale=0.5, exponent=3}")
        value = np.array([1.5, -2, 4], "float32")
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                f = function([x], [area(x), same_area(x), volume(x)])
                for got, expected in zip(f(value), (3.5 * value**2, 3.5 * value**2, value**3 / 2)):
                    np.testing.assert_allclose(got, expected, rtol=1e-6)
                # Nodes of equal Ops are merged.
                self.assertEqual(sum(isinstance(node.op, Power) for node in f.maker.fgraph.toposort()), 2)
                utt.verify_grad(volume, [np.random.normal(size=7)])

    def test_as_op(self):
        x, y = tensor.fmatrices("xy")
        a, b = np.arange(6, dtype="float32").reshape(3, 2), np.array([[1, -1, 0.5, 4]], "float32")
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                np.testing.assert_array_equal(function([x, y], kronecker(x, y))(a, b), np.kron(a, b))
                shape = function([x, y], kronecker(x, y).shape)
                self.assertEqual(shape(a, b).tolist(), [3, 8])
                if mode != "FAST_COMPILE":
                    self.assertNotIn(type(kronecker), [type(node.op) for node in shape.maker.fgraph.toposort()])
        self.assertRaises(TypeError, kronecker, x, tensor.fvector())
        # The Op defines no derivatives.
        with self.assertRaisesRegex(AttributeError, "kronecker.* cannot be differentiated"):
            tensor.grad(kronecker(x, y).sum(), x)

    def test_types_by_itypes_and_otypes(self):
        class Peak(theano.Op):
            __props__ = ()
            itypes = [tensor.dmatrix]
            otypes = [tensor.dscalar, tensor.lvector]

            def perform(self, node, inputs, output_storage):
                output_storage[0][0] = np.asarray(inputs[0].max())
                output_storage[1][0] = np.array(np.unravel_index(inputs[0].argmax(), inputs[0].shape))

        x = tensor.dmatrix()
        value = np.array([[3.0, -1, 8], [9, 0, 2]])
        for mode in MODES:
            top, place = function([x], Peak()(x), mode=mode)(value)
            self.assertEqual((top, place.tolist()), (9, [1, 0]))
        self.assertRaises(TypeError, Peak(), tensor.dvector())

    def test_gradient_and_shape_of_an_op(self):
        x = tensor.dmatrix()
        y = Cube()(x)
        self.assertEqual((y.owner.op, hash(y.owner.op)), (Cube(), hash(Cube())))
        value = np.arange(-3.0, 3).reshape(2, 3)
        np.testing.assert_array_equal(tensor.grad(y.sum(), x).eval({x: value}), 3 * value**2)
        shape = function([x], y.shape, mode="FAST_RUN")
        self.assertEqual(shape(value).tolist(), [2, 3])
        self.assertNotIn(Cube(), [node.op for node in shape.maker.fgraph.toposort()])

    def test_square_shapes_are_warned_of(self):
        tester = TestCube("test_values")
        tester.setUp()
        x = theano.tensor.matrix()
        square = np.ones((4, 4), config.floatX)
        with self.assertWarns(UserWarning):
            tester._compile_and_check([x], [tester.op(x)], [square], Cube)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tester._compile_and_check([x], [tester.op(x)], [square], Cube, warn=False)


class VerifyGrad(unittest.TestCase):
    """Tests of the arguments of `verify_grad`."""

    def check(self, function_or_op, *points):
        for mode in MODES:
            with self.subTest(mode), config.change_flags(mode=mode):
                tensor.verify_grad(function_or_op, points, rng=np.random.RandomState(19))

    def test_functions_of_several_inputs(self):
        def surface(u, v, w):
            return tensor.tanh(u) * v - u / w**3

        u, v, w = np.array([[0.5], [-0.25], [1.5]]), np.array([2.0, -3.0]), np.array(1.25)
        self.check(surface, u, v, w)
        # Finite differences are not defined for integers.
        with self.assertRaisesRegex(TypeError, 'input 2 has dtype "int64"'):
            tensor.verify_grad(surface, [u, v, np.array(3)], rng=np.random.RandomState(19))

    def test_ops(self):
        self.check(tensor.DimShuffle((False, False), (1, "x", 0)), np.arange(8.0).reshape(2, 4))

    def test_integer_inputs_are_fixed_and_one_output_chosen(self):
        x = np.random.RandomState(20).normal(size=(3, 5))
        self.check(lambda rows: tensor.AdvancedSubtensor1()(rows, np.array([2, 0, 2])), x)
        self.check(lambda rows: tensor.max_and_argmax(rows, axis=1)[0], x)

    def test_needs_a_generator_and_finds_errors(self):
        self.assertRaises(TypeError, tensor.verify_grad, tensor.exp, [np.ones(2)])

        class Wrong(Cube):
            def grad(self, inputs, output_grads):
                return [output_grads[0]]

        self.assertRaises(theano.gradient.GradientError, utt.verify_grad, Wrong(), [np.ones((2, 3))])
        # One large tolerance suffices: the test fails only if the error exceeds both tolerances.
        utt.verify_grad(Wrong(), [np.ones((2, 3))], abs_tol=10.0)
        utt.verify_grad(Wrong(), [np.ones((2, 3))], rel_tol=10.0)


class InPlace(theano.Op):
    """The Op x + y, which stores the sum in the memory of x. `destroy_map` maps the output to the overwritten input."""

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
    """The Op x + y, which stores the sum in new memory, but also overwrites x as scratch space."""

    def perform(self, node, inputs, output_storage):
        x, y = inputs
        output_storage[0][0] = x + y
        x[...] = -1


class BothInPlace(InPlace):
    """An Op that stores x + y in the memory of y, and x - y in the memory of x."""

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
    """Tests of the chapter "Views and inplace operations"."""

    def test_readers_of_the_old_value_come_first(self):
        for operation in (tensor.inplace.add_inplace, InPlace(), Corrupting()):
            x, y = tensor.dvectors("x", "y")
            total = operation(x, y)
            # In all expressions, `x` means its old value. `total` overwrites the memory of `x`.
            outputs = [tensor.exp(total), tensor.sqr(x), total, tensor.exp(x)]
            a, b = np.array([0.5, -2, 1]), np.array([1.5, 0.25, -4])
            for mode in MODES:
                f = function([theano.In(x, mutable=True), y], outputs, mode=mode, accept_inplace=True)
                for value, expected in zip(f(a.copy(), b), (np.exp(a + b), a * a, a + b, np.exp(a))):
                    np.testing.assert_allclose(value, expected)
                order = f.maker.fgraph.toposort()
                destroyers = [i for i, node in enumerate(order) if getattr(node.op, "destroy_map", None)]
                readers = [
                    i for i, node in enumerate(order) if f.maker.fgraph.inputs[0] in node.inputs and i not in destroyers
                ]
                self.assertLess(max(readers), destroyers[0], (mode, order))

    def test_numbers_in_place(self):
        x, y = tensor.dscalars("x", "y")
        total = tensor.inplace.add_inplace(x, y)
        for mode in MODES:
            f = function(
                [theano.In(x, mutable=True), y], [tensor.log(x), tensor.log(total)], mode=mode, accept_inplace=True
            )
            np.testing.assert_allclose(f(np.array(2.0), 6.0), np.log([2.0, 8.0]))

    def test_two_outputs(self):
        x, y = tensor.dvectors("x", "y")
        a, b = np.array([1.0, 2.0]), np.array([0.5, 8.0])
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
            function(
                [theano.In(x, mutable=True), y],
                [InPlace()(x, y), Corrupting()(x, y)],
                accept_inplace=True,
                mode=theano.Mode("py", None),
            )


class GradientRules(unittest.TestCase):
    """Tests of the Op contract for gradients and integers."""

    def test_integers(self):
        a, b = tensor.lmatrices("a", "b")
        # If the output is an integer, the gradients with respect to the inputs are zero, and have a float dtype.
        zeros = tensor.grad(tensor.dot(a, b).sum(), [a, b])
        self.assertEqual([g.dtype for g in zeros], [config.floatX] * 2)
        values = np.arange(6).reshape(2, 3), np.arange(3).reshape(3, 1)
        got = function([a, b], zeros, on_unused_input="ignore")(*values)
        for value, like in zip(got, values):
            np.testing.assert_array_equal(value, np.zeros(like.shape))
        # For 0.5 * g(y) with an integer y = f(x), the gradient is 0.5 with respect to y, and 0 with respect to x.
        x = tensor.dscalar("x")
        y = tensor.cast(x, "int32")
        cost = 0.5 * tensor.cast(y, "float64")
        self.assertEqual(tensor.grad(cost, y).eval({x: 3.7}), 0.5)
        self.assertEqual(tensor.grad(cost, x).eval({x: 3.7}), 0)
        # The length `n` of `alloc(v, n)`, and a matrix of which only the shape is used, have disconnected gradients.
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
        # For a wrong `connection_pattern`, the manual promises "a spurious TypeError or a missing ValueError", never
        # wrong values.
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
        np.testing.assert_array_equal(
            tensor.grad(Product()(x, y).sum(), x).eval({x: [1.0, 2.0], y: [3.0, 4.0]}), [3, 4]
        )
        self.assertRaises(
            (theano.gradient.DisconnectedInputError, ValueError, TypeError), tensor.grad, Denying()(x, y).sum(), x
        )


class Seeds(unittest.TestCase):
    def test_numpy_random(self):
        draws = []
        for seed in ((), (91,), (91,), ()):
            utt.seed_rng(*seed)
            draws.append(np.random.uniform(size=3).tolist())
        self.assertEqual(draws, draws[::-1])
        self.assertNotEqual(draws[0], draws[1])

    def test_generators(self):
        for arguments, seed in (((), 666), ((57,), 57)):
            self.assertEqual(
                np.random.RandomState(utt.fetch_seed(*arguments)).rand(), np.random.RandomState(seed).rand()
            )


class CommandLine(unittest.TestCase):
    def test_documented_selections(self):
        lines = """\
from theano_ng.tests.test_tutorial_writing_ops import Cube
from theano_ng.tests.test_rop import RopLop_checker


class RopOfCube(RopLop_checker):
    def test_right(self):
        self.check_rop_lop(Cube()(self.x), self.in_shape)

    def test_wrong(self):
        self.check_rop_lop(Cube()(self.x)[1:], self.in_shape)


if __name__ == "__main__":
    one = RopOfCube("test_right")
    one.setUp()
    one.test_right()
    print("it is right")
"""
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_file.py")
            with open(path, "w") as stream:
                stream.write(lines)

            def run(*arguments):
                done = subprocess.run(
                    [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=folder
                )
                return done.returncode, done.stdout + done.stderr

            runner = ("-m", "theano_ng.tests.runner", "--processes", "1")
            code, text = run(*runner, "test_file.py:RopOfCube.test_right")
            self.assertEqual(code, 0, text)
            self.assertIn("1 passed, 0 failed", text)
            code, text = run(*runner, "test_file.py:RopOfCube")
            self.assertEqual(code, 1, text)
            self.assertIn("1 passed, 1 failed", text)
            code, text = run(path)
            self.assertEqual((code, text.strip()), (0, "it is right"))


if __name__ == "__main__":
    unittest.main()
