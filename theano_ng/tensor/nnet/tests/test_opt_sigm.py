"""Rewriting rules of sigmoid and softplus, and the trees of products that they use."""

import unittest

import numpy as np
import scipy.special

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import get_mode, optdb
from theano_ng.gof.graph import is_same_graph
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.nnet import hard_sigmoid, sigmoid, ultra_fast_sigmoid
from theano_ng.tensor.nnet.opt_sigm import local_1msigmoid
from theano_ng.tensor.nnet.sigm import (
    compute_mul,
    is_1pexp,
    is_exp,
    is_neg,
    parse_mul_tree,
    perform_sigm_times_exp,
    simplify_mul,
)

UNFUSED = get_mode("FAST_RUN").excluding("fusion", "inplace")


class RuleCase(unittest.TestCase):
    def setUp(self):
        self.policy = theano.config.on_opt_error
        theano.config.on_opt_error = "raise"
        self.x, self.y, self.z, self.u = T.vectors("xyzu")

    def tearDown(self):
        theano.config.on_opt_error = self.policy

    def ops(self, f):
        """Return the sorted names of the Ops of a function, without negations and copies of outputs.

        Elementwise Ops have shortened names.
        """
        names = []
        for node in f.maker.fgraph.toposort():
            name = str(node.op)
            name = name[9:-1].replace(",no_inplace", "") if name.startswith("Elemwise{") else name
            if name not in ("neg", "DeepCopyOp"):
                names.append(name)
        return sorted(names)

    def check(self, out, ops, mode=UNFUSED, rtol=1e-12):
        """Compare the Ops after rewriting, and compare the values with those of the graph before rewriting."""
        inputs = theano.gof.graph.inputs([out])
        inputs = [i for i in inputs if not isinstance(i, theano.Constant)]
        f = theano.function(inputs, out, mode=mode)
        self.assertEqual(self.ops(f), sorted(ops))
        plain = theano.function(inputs, out, mode=theano.Mode("py", None))
        rng = np.random.RandomState(1)
        values = [rng.uniform(-3, 3, 7) for _ in inputs]
        np.testing.assert_allclose(f(*values), plain(*values), rtol=rtol)
        return f


class TestRules(RuleCase):
    def test_sigmoid_is_recognized(self):
        x, y = self.x, self.y
        for out in (
            1 / (1 + T.exp(-x)),
            T.inv(1 + T.exp(-x)),
            T.exp(x) / (1 + T.exp(x)),
            T.exp(x) / (T.exp(x) + 1),
            1 / (1 + T.exp(x)),
            -T.exp(x) / (1 + T.exp(x)),
            T.exp(x) / -(1 + T.exp(x)),
            -1 / (1 + T.exp(-x)),
            T.fill(x, 1.0) / (1 + T.exp(-x)),
        ):
            self.check(out, ["sigmoid"])
        self.check(y * T.exp(x) / (1 + T.exp(x)), ["mul", "sigmoid"])
        self.check(y / (1 + T.exp(x)), ["mul", "sigmoid"])
        self.check(1 / ((1 + T.exp(x)) * (1 + T.exp(-x))), ["mul", "sigmoid", "sigmoid"])
        for out in (1 / (2 + T.exp(x)), 1 / (1 - T.exp(x))):
            f = self.check(out, self.ops(theano.function([x], out, mode=UNFUSED)))
            self.assertNotIn("sigmoid", self.ops(f))
        # the recognized sigmoid does not overflow
        np.testing.assert_array_equal(
            theano.function([x], T.exp(x) / (1 + T.exp(x)), mode=UNFUSED)([-1000.0, 0, 1000.0]), [0, 0.5, 1]
        )

    def test_documented_names(self):
        names = {name for db in (optdb["stabilize"], optdb["specialize"]) for name in db._names}
        for name in (
            "log1msigm_to_softplus",
            "logsigm_to_softplus",
            "log1p_neg_sigmoid,",
            "log1p_minus_one_sigmoid",
            "log1pexp_to_softplus",
            "local_exp_over_1_plus_exp",
        ):
            self.assertIn(name, names)

    def test_complement_of_a_sigmoid_of_integers(self):
        """``1 - sigmoid(x)`` agrees with NumPy for integer and bool x.

        Rules must not use -x: negation of unsigned integers wraps around, and bools have no negation.
        """
        for dtype in ("bool", "uint8", "int8"):
            x = T.vector(dtype=dtype)
            f = theano.function([x], 1 - sigmoid(x), mode=theano.Mode("py", in2out(local_1msigmoid)))
            values = np.array([0, 1, np.iinfo("int8").min], "int64").astype(dtype)
            np.testing.assert_allclose(f(values), 1 / (1 + np.exp(values.astype(float))), rtol=1e-3, atol=1e-30)

    def test_complex(self):
        """Complex expressions are not rewritten: sigmoid and softplus accept real numbers only."""
        z = T.zvector()
        values = np.array([0.3 + 1j, -2 - 0.5j, 30 + 1j])
        for out in (1 / (1 + T.exp(-z)), T.exp(z) / (1 + T.exp(z)), T.log(1 + T.exp(z)), T.log1p(T.exp(z))):
            plain = theano.function([z], out, mode=theano.Mode("py", None))
            np.testing.assert_allclose(theano.function([z], out, mode="FAST_RUN")(values), plain(values), rtol=1e-12)

    def test_exp_times_sigmoid(self):
        x, y = self.x, self.y
        self.check(sigmoid(x) * T.exp(-x), ["sigmoid"])
        self.check(sigmoid(-x) * T.exp(x), ["sigmoid"])
        self.check(sigmoid(-x) * y * T.exp(x), ["mul", "sigmoid"])
        self.check(-sigmoid(x) * (y * T.exp(-x)), ["mul", "sigmoid"])
        np.testing.assert_allclose(
            theano.function([x], sigmoid(-x) * T.exp(x), mode=UNFUSED)([800.0, -2.0]), [1, scipy.special.expit(-2.0)]
        )

    def test_products_within_others(self):
        """The rule replaces ``exp(x) * sigmoid(-x)`` by a sigmoid, whatever uses the product.

        The product is an output or an input of one node, of several nodes, or of a larger product.
        """
        x, y = self.x, self.y
        product = T.exp(x) * sigmoid(-x)
        value, other = np.array([-3.0, 0.5, 800.0], x.dtype), np.array([2.0, 3.0, 0.25], x.dtype)
        s = scipy.special.expit(value)
        for out, expected in (
            (product, s),
            (product + y, s + other),
            (T.tanh(product), np.tanh(s)),
            (product.sum(), s.sum()),
            (product[1:], s[1:]),
            (product * y, s * other),
            (T.exp(x) * y * sigmoid(-x) - 1, s * other - 1),
            (y * (y * product) + 1, other * other * s + 1),
            (product * y + T.tanh(product), s * other + np.tanh(s)),
        ):
            f = theano.function([x, y], out, mode=UNFUSED, on_unused_input="ignore")
            np.testing.assert_allclose(f(value, other), expected, rtol=1e-6)

    def test_logarithms_are_stable(self):
        x = self.x
        values = np.array([-800.0, -40.0, -1.0, 0.0, 2.0, 40.0, 800.0])
        log_sig, log_1msig = -np.logaddexp(0, -values), -np.logaddexp(0, values)
        for out, expected in (
            (T.log(sigmoid(x)), log_sig),
            (T.log(1 - sigmoid(x)), log_1msig),
            (T.log1p(-sigmoid(x)), log_1msig),
            (T.log(1 + T.exp(x)), -log_1msig),
            (T.log1p(T.exp(x)), -log_1msig),
            (-T.log(sigmoid(-x)), -log_1msig),
            (T.log(1 / (1 + T.exp(-x))), log_sig),
            (T.log(1 - 1 / (1 + T.exp(-x))), log_1msig),
        ):
            f = theano.function([x], out, mode=UNFUSED)
            self.assertEqual(self.ops(f), ["softplus"], out)
            np.testing.assert_allclose(f(values), expected, rtol=1e-13)

    def test_gradients_of_the_stable_forms(self):
        x = self.x
        values = np.array([-800.0, -40.0, -1.0, 0.0, 2.0, 40.0, 800.0])
        expit = scipy.special.expit
        for out, expected in (
            (T.log(sigmoid(x)), expit(-values)),
            (T.log(1 - sigmoid(x)), -expit(values)),
            (T.log(1 + T.exp(x)), expit(values)),
        ):
            f = theano.function([x], T.grad(out.sum(), x), mode=UNFUSED)
            np.testing.assert_allclose(f(values), expected, rtol=1e-13, atol=1e-16)

    def test_other_constants(self):
        x = self.x
        f = theano.function([x], [T.log(2 - sigmoid(x)), T.log(2 + T.exp(x))], mode=UNFUSED)
        self.assertEqual(self.ops(f).count("softplus"), 1)
        values = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
        expected = np.log(2 - scipy.special.expit(values)), np.logaddexp(np.log(2), values)
        np.testing.assert_allclose(f(values), expected, rtol=1e-14)

    def test_approximations_on_demand(self):
        x = self.x
        for name, op in (("local_ultra_fast_sigmoid", ultra_fast_sigmoid), ("local_hard_sigmoid", hard_sigmoid)):
            f = theano.function([x], [sigmoid(x), T.log(sigmoid(x))], mode=UNFUSED.including(name))
            names = self.ops(f)
            self.assertNotIn("sigmoid", names)
            self.assertIn("softplus", names)  # approximations replace sigmoid after stabilization
            values = np.array([-9.0, -0.3, 1.0])
            np.testing.assert_allclose(f(values)[0], op(x).eval({x: values}))
            np.testing.assert_allclose(f(values)[1], np.log(scipy.special.expit(values)))
        self.check(sigmoid(x), ["sigmoid"])


class TestTrees(RuleCase):
    def test_forms(self):
        x, y = self.x, self.y
        self.assertIs(is_neg(-x), x)
        self.assertIs(is_neg(-1 * x), x)
        self.assertIs(is_neg(x * -1), x)
        self.assertTrue(is_same_graph(is_neg(T.mul(x, -1, y)), x * y))
        self.assertIsNone(is_neg(x))
        self.assertIsNone(is_neg(2 * x))
        self.assertEqual(is_exp(T.exp(x)), (False, x))
        self.assertEqual(is_exp(-T.exp(x)), (True, x))
        self.assertIsNone(is_exp(x))
        for form, expected in (
            (1 + T.exp(x), (False, x)),
            (T.exp(x) + 1, (False, x)),
            (-1 - T.exp(x), (True, x)),
            (-T.exp(x) + -1, (True, x)),
            (-(1 + T.exp(x)), (True, x)),
            (T.add(2, T.exp(x), -1), (False, x)),
            (2 + T.exp(x), None),
            (1 - T.exp(x), None),
            (T.exp(x) - 1, None),
            (1 + T.exp(x) + y, None),
        ):
            self.assertEqual(is_1pexp(form, only_process_constants=False), expected, theano.pp(form))
        self.assertEqual(is_1pexp(T.exp(x) + np.ones(1)), (False, x))
        ones = T.ones_like(x)
        self.assertIsNone(is_1pexp(ones + T.exp(x)))
        self.assertEqual(is_1pexp(ones + T.exp(x), only_process_constants=False), (False, x))

    def test_parse(self):
        x, y, z = self.x, self.y, self.z
        self.assertEqual(parse_mul_tree(x * y), [False, [[False, x], [False, y]]])
        self.assertEqual(parse_mul_tree(-(x * y)), [True, [[False, x], [False, y]]])
        self.assertEqual(parse_mul_tree(-x * y), [False, [[True, x], [False, y]]])
        self.assertEqual(parse_mul_tree(-x), [True, x])
        self.assertEqual(parse_mul_tree((x * y) * -z), [False, [[False, [[False, x], [False, y]]], [True, z]]])

    def test_simplify_and_compute(self):
        x, y = self.x, self.y
        one = [False, None]
        for tree, expected in (
            ([False, [[False, x], one]], [False, x]),
            ([True, [[False, x], [True, None]]], [False, x]),
            ([True, [one, one]], [True, None]),
            ([False, [[True, [[False, x], one]], [False, y]]], [False, [[True, x], [False, y]]]),
            ([True, x], [True, x]),
        ):
            self.assertEqual(simplify_mul(tree), expected)
        for expr in (x * y, -(x * y), -x * y, -x, (x * y) * -self.z):
            self.assertTrue(is_same_graph(compute_mul(parse_mul_tree(expr)), expr))
        self.assertRaises(AssertionError, compute_mul, [False, [[False, x], one]])

    def test_perform(self):
        x, y, z, u = self.x, self.y, self.z, self.u
        exp = T.exp
        for before, after in (
            (sigmoid(x) * exp(-x), sigmoid(-x)),
            (-x * sigmoid(x) * (y * (-1 * z) * exp(-x)), -x * (y * (-1 * z) * sigmoid(-x))),
            (
                -sigmoid(-x) * (exp(y) * (-exp(-z) * 3 * -exp(x)) * (y * 2 * (-sigmoid(-y) * (z + u)))),
                -sigmoid(x) * (-exp(-z) * 3) * (y * 2 * (z + u)) * sigmoid(y),
            ),
        ):
            tree = parse_mul_tree(before)
            self.assertTrue(perform_sigm_times_exp(tree))
            result = compute_mul(simplify_mul(tree))
            values = {v: np.linspace(-1, 2, 4) + k for k, v in enumerate((x, y, z, u))}
            inputs = [x, y, z, u]
            f = theano.function(inputs, [before, result, after], on_unused_input="ignore", mode=theano.Mode("py", None))
            a, b, c = f(*[values[v] for v in inputs])
            np.testing.assert_allclose(a, b, rtol=1e-12)
            count = sum(
                n.op == T.exp for n in theano.gof.graph.io_toposort(theano.gof.graph.inputs([result]), [result])
            )
            self.assertEqual(
                count,
                sum(n.op == T.exp for n in theano.gof.graph.io_toposort(theano.gof.graph.inputs([after]), [after])),
            )
        for expr in (x * y, sigmoid(x) * exp(x), sigmoid(x) * exp(-y)):
            tree = parse_mul_tree(expr)
            self.assertFalse(perform_sigm_times_exp(tree))
            self.assertTrue(is_same_graph(compute_mul(tree), expr))

    def test_deep_product(self):
        out = sigmoid(self.x)
        for _ in range(3000):
            out = self.y * out
        out = out * T.exp(-self.x)
        tree = parse_mul_tree(out)
        self.assertTrue(perform_sigm_times_exp(tree))
        self.assertEqual(compute_mul(simplify_mul(tree)).owner.op, T.mul)


if __name__ == "__main__":
    unittest.main()
