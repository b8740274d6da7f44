"""A base class for tests of the R-operator and the L-operator, and tests of this class.

The tests of Ops are in `theano_ng.tensor.tests.test_rop`. The products of a Jacobian with a vector are compared with
central differences. The results of the two operators are compared with each other.
"""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import gradient, tensor
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, Op
from theano_ng.tests import unittest_tools as utt


class BreakRop(Op):
    """An identity Op without gradient and without R_op."""

    __props__ = ()

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.copy(inputs[0])

    def grad(self, inputs, output_gradients):
        return [gradient.grad_not_implemented(self, 0, inputs[0])]

    def R_op(self, inputs, eval_points):
        return [None]


break_op = BreakRop()


class RopLop_checker(unittest.TestCase):
    """A base class for tests of R_op and grad (or L_op).

    Attributes
    ----------
    x, v : vector
        A symbolic input, and the direction of the R-operator.
    in_shape : tuple of int
        The shape of the values for `x`.
    mx, mv : matrix
        The symbolic input and the direction for `check_mat_rop_lop`.
    mat_in_shape : tuple of int
        The shape of the values for `mx`.
    rng : numpy.random.RandomState

    Notes
    -----
    `setUp` creates these attributes. A subclass that overrides `setUp` must call the `setUp` of this class.
    """

    x = v = mx = mv = None
    in_shape = mat_in_shape = None
    rng = None

    def setUp(self):
        utt.seed_rng()
        self.x = tensor.vector("x")
        self.v = tensor.vector("v")
        self.rng = np.random.RandomState(utt.fetch_seed())
        self.in_shape = (5 + int(self.rng.randint(3)),)
        self.mx = tensor.matrix("mx")
        self.mv = tensor.matrix("mv")
        self.mat_in_shape = (5 + int(self.rng.randint(3)), 5 + int(self.rng.randint(3)))

    def check_nondiff_rop(self, y):
        """Check that `Rop` raises ValueError for a graph with an Op that has no R_op.

        Parameters
        ----------
        y : Variable
            A variable that depends on `x`.
        """
        raised = False
        try:
            tensor.Rop(y, self.x, self.v)
        except ValueError:
            raised = True
        if not raised:
            self.fail("Op did not raise an error even though the function is not differentiable")

    def check_mat_rop_lop(self, y, out_shape):
        """Check `Rop` and `Lop` of a vector that depends on a matrix.

        Parameters
        ----------
        y : vector
            A vector that depends on `mx`.
        out_shape : tuple of int
            The shape of the vector.
        """
        self._check(self.mx, self.mv, y, self.mat_in_shape, out_shape)

    def check_rop_lop(self, y, out_shape):
        """Check `Rop` and `Lop` of a variable that depends on a vector.

        Check also that `Rop` raises an error if an Op without R_op is applied to `x`.

        Parameters
        ----------
        y : Variable
            A variable that depends on `x`.
        out_shape : tuple of int
            The shape of `y`.
        """
        self._check(self.x, self.v, y, self.in_shape, out_shape)
        broken = theano.clone(y, replace={self.x: break_op(self.x)})
        self.assertRaises((ValueError, NotImplementedError), tensor.Rop, broken, self.x, self.v)

    def _check(self, x, direction, y, in_shape, out_shape):
        vx = np.asarray(self.rng.uniform(0.2, 0.9, size=in_shape), x.dtype)
        vv = np.asarray(self.rng.uniform(-1, 1, size=in_shape), x.dtype)
        # If the dtype of the output is neither float nor complex, the cotangent has the dtype floatX.
        cotangent = (
            y.type("cotangent")
            if y.dtype in tensor.continuous_dtypes
            else tensor.TensorType(config.floatX, y.broadcastable)()
        )
        vc = np.asarray(self.rng.uniform(-1, 1, size=out_shape), cotangent.dtype)

        forward = theano.function([x], y, on_unused_input="ignore")
        rop = theano.function([x, direction], tensor.Rop(y, x, direction), on_unused_input="ignore")
        lop = theano.function([cotangent, x], tensor.Lop(y, x, cotangent), on_unused_input="ignore")
        right, left = np.asarray(rop(vx, vv)), np.asarray(lop(vc, vx))
        self.assertEqual(right.shape, tuple(out_shape))
        self.assertEqual(left.shape, tuple(in_shape))

        eps = gradient.numeric_grad.type_eps[x.dtype] * 10
        step = np.asarray(eps * vv, x.dtype)
        numeric = (np.asarray(forward(vx + step), "float64") - forward(vx - step)) / (2 * eps)
        tolerance = 1e-6 if x.dtype == "float64" else 2e-2
        np.testing.assert_allclose(right, numeric, rtol=tolerance, atol=tolerance)
        # For every Jacobian J, the dot products <c, J v> (from `Rop`) and <J' c, v> (from `Lop`) are equal.
        np.testing.assert_allclose(np.vdot(vc, right), np.vdot(left, vv), rtol=tolerance, atol=tolerance)


class test_RopLop(RopLop_checker):
    """Tests of the operators with Ops that have no R_op, with lists, and with invalid inputs."""

    def test_gradient_ops(self):
        (n,) = self.in_shape
        scaled = gradient.grad_clip(self.x * 3, -10, 10)
        rop = theano.function([self.x, self.v], tensor.Rop(scaled, self.x, self.v), on_unused_input="ignore")
        v = np.arange(n, dtype=config.floatX)
        np.testing.assert_allclose(rop(v, v), 3 * v)

    def test_invalid_input(self):
        self.assertRaises(ValueError, tensor.Rop, 0.0, [tensor.matrix()], [tensor.vector()])
        self.assertRaises(ValueError, tensor.Rop, self.x**2, self.x, self.mv)

    def test_no_r_op(self):
        self.check_nondiff_rop(break_op(self.x))
        # `Rop` accepts an Op with R_op, so that the check fails.
        self.assertRaises(AssertionError, self.check_nondiff_rop, self.x * 2)

    def test_multiple_outputs(self):
        m, v = tensor.matrix("m"), tensor.vector("v")
        m_, v_ = tensor.matrix("m_"), tensor.vector("v_")
        values = [np.asarray(self.rng.uniform(size=shape), config.floatX) for shape in ((3, 3), (3,), (3, 3), (3,))]
        products = tensor.Rop([m * 2, m + v], [m, v], [m_, v_])
        self.assertEqual(len(products), 2)
        got = theano.function([m, v, m_, v_], products, on_unused_input="ignore")(*values)
        np.testing.assert_allclose(got[0], 2 * values[2])
        np.testing.assert_allclose(got[1], values[2] + values[3])


class TestCheckers(RopLop_checker):
    """Tests that `check_rop_lop` and `check_mat_rop_lop` fail for an Op with a wrong `grad` or `R_op`."""

    class _Double(Op):
        __props__ = ("grad_factor", "rop_factor")

        def __init__(self, grad_factor, rop_factor):
            self.grad_factor, self.rop_factor = grad_factor, rop_factor

        def make_node(self, x):
            x = tensor.as_tensor_variable(x)
            return Apply(self, [x], [x.type()])

        def perform(self, node, inputs, outputs):
            outputs[0][0] = inputs[0] * 2

        def grad(self, inputs, gradients):
            return [gradients[0] * self.grad_factor]

        def R_op(self, inputs, eval_points):
            return eval_points if eval_points[0] is None else [eval_points[0] * self.rop_factor]

    def test_wrong_operators_are_found(self):
        self.check_rop_lop(self._Double(2, 2)(self.x), self.in_shape)
        self.assertRaises(AssertionError, self.check_rop_lop, self._Double(3, 2)(self.x), self.in_shape)
        self.assertRaises(AssertionError, self.check_rop_lop, self._Double(2, 3)(self.x), self.in_shape)
        self.assertRaises(AssertionError, self.check_mat_rop_lop, self._Double(3, 3)(self.mx)[0], self.mat_in_shape[1:])


if __name__ == "__main__":
    unittest.main()
