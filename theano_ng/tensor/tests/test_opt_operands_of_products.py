"""Rules for products: the nested products, sums and views that they expand, and those that they keep."""

import itertools
import unittest

import numpy as np
from scipy import special

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.rewriting import in2out
from theano_ng.tensor.opt.canonicalize import local_greedy_distributor, local_mul_canonizer
from theano_ng.tensor.opt.stabilize import local_grad_log_erfc_neg
from theano_ng.tensor.tests.rewriting import CANONICALIZE, RewriteCase, shown

CANONICAL = Mode("py", CANONICALIZE)


def names(variables):
    return sorted(str(v) for v in variables)


class TestOperands(unittest.TestCase):
    def setUp(self):
        self.x, self.y, self.z = T.dvectors("x", "y", "z")
        self.s, self.t = self.x * self.y, self.x * T.constant(np.array([2.0]), name="two")
        self.s.name = "s"

    def in_a_graph(self, out, *others):
        """Return the copy of `out` in a graph that also has other outputs."""
        return FunctionGraph([self.x, self.y, self.z], [out, *others]).outputs[0]

    def test_shared_parts(self):
        """A nested product that other nodes use is expanded only if it has one variable factor.

        The factors of the expanded product stay in the graph.
        """
        out = self.s * self.z * self.t
        out = self.in_a_graph(out, self.s + 1, self.t + 1)
        kept = set()
        num, denum = local_mul_canonizer.operands_of(out, kept)
        self.assertEqual((names(num), denum), (["s", "two", "x", "z"], []))
        self.assertEqual(names(kept), ["two", "x"])

    def test_all_is_opened_by_get_num_denum(self):
        """`get_num_denum` expands all nodes, whether they have other users or not."""
        out = self.s * self.z / self.t
        out = self.in_a_graph(out, self.s + 1, self.t + 1, out + 1)
        num, denum = local_mul_canonizer.get_num_denum(out)
        self.assertEqual((names(num), names(denum)), (["x", "y", "z"], ["two", "x"]))

    def test_what_is_replaced_does_not_stay(self):
        """If a rewritten product has several clients, its factors need not stay in the graph for these clients.

        All clients use the replacement of the product.
        """
        for others in ([], [0], [0, 1]):
            out = self.s * self.z * self.t
            out = self.in_a_graph(out, self.t + 1, *(out + i for i in others))
            kept = set()
            num, denum = local_mul_canonizer.operands_of(out, kept)
            self.assertEqual((names(num), denum), (["two", "x", "x", "y", "z"], []))
            self.assertEqual(names(kept), ["two", "x"])

    def test_dimensions_added_on_the_left(self):
        """A nested product is expanded through a DimShuffle that only adds dimensions on the left.

        It is not expanded through other views. This holds for all ranks.
        """
        for inner in range(4):
            a, b = (T.TensorType("float64", [False] * inner)(name) for name in "ab")
            for outer in range(inner, 5):
                c = T.TensorType("float64", [False] * outer)("c")
                for order in set(itertools.permutations(["x"] * (outer - inner) + list(range(inner)))):
                    view = T.DimShuffle((False,) * inner, order)(a * b)
                    num, denum = local_mul_canonizer.get_num_denum(c / view)
                    left = order == ("x",) * (outer - inner) + tuple(range(inner))
                    self.assertEqual(len(denum), 2 if left else 1, order)
                    self.assertEqual(num, [c])

    def test_factors_with_numbers_between(self):
        """`simplify_factors` keeps constants in their positions.

        Between two simplifications, constants are NumPy arrays.
        """
        x, y, two = self.x, self.y, np.array(2.0)
        for num, denum, wanted in (
            ([two, x], [x], ([two], [])),
            ([x, two], [x, two], ([two], [two])),
            ([two, x, y], [two, y], ([two, x], [two])),
            ([two, x, x], [two, x, y, x, x], ([two], [two, y, x])),
        ):
            got = local_mul_canonizer.simplify_factors(list(num), list(denum))
            self.assertEqual([[str(v) for v in side] for side in got], [[str(v) for v in side] for side in wanted])


class TestViewsOfProducts(RewriteCase):
    query = CANONICALIZE

    def test_products_behind_views(self):
        """`local_mul_canonizer` simplifies a product on its own if a view hides it from the larger product.

        The canonizer expands a larger product only through a view that only adds dimensions on the left.
        """
        x, y, z = T.dmatrices("x", "y", "z")
        for order in ((1, 0), ("x", 1, 0), (0, "x", 1), (0, 1, "x"), (1, "x", 0)):
            product = x * y / x
            other = z if len(order) == 2 else T.dtensor3("z")
            out = T.DimShuffle((False, False), order)(product) * other
            fgraph = FunctionGraph([x, y, other], [out])
            product = fgraph.outputs[0].owner.inputs[0].owner.inputs[0]
            new = local_mul_canonizer.transform(product.owner)
            self.assertTrue(new, order)
            self.assertIs(new[0], fgraph.inputs[1])
        # This view adds a dimension on the left. The canonizer leaves the product until it rewrites the larger product.
        fgraph = FunctionGraph([x, y, other], [(x * y / x).dimshuffle("x", 0, 1) * other])
        product = fgraph.outputs[0].owner.inputs[0].owner.inputs[0]
        self.assertFalse(local_mul_canonizer.transform(product.owner))


class TestSumsThatStay(RewriteCase):
    query = CANONICALIZE

    def given(self):
        return {name: np.array([0.5, 2, 3]) + k for k, name in enumerate("abxy")}

    def rewritten(self, outputs):
        inputs = [v for v in theano_ng.gof.graph.inputs(outputs) if not isinstance(v, T.Constant)]
        values = [self.given()[v.name] for v in inputs]
        f = theano_ng.function(inputs, outputs, mode=CANONICAL)
        plain = theano_ng.function(inputs, outputs, mode=Mode("py", None))
        for got, want in zip(f(*values), plain(*values)):
            np.testing.assert_allclose(got, want)
        return shown(f.maker.fgraph)

    def test_products_with_sums_that_are_used_elsewhere(self):
        """If a sum has several clients, a product with the sum is distributed only if no new term must be computed.

        Each term of the result must be a constant or exist in the graph already.
        """
        a, b, x, y = T.dvectors("a", "b", "x", "y")
        for total, factor, distributed in (
            (a / x + b, x, False),
            (a * b / x + y / x, x, False),
            (a / x + 1, x, True),
            (a / x + b / x, x, True),
            (1 - a / x, x, True),
        ):
            out = total * factor
            fgraph = FunctionGraph([a, b, x, y], [T.exp(total), out])
            with self.subTest(total=theano_ng.pprint(total)):
                self.assertEqual(bool(local_greedy_distributor.transform(fgraph.outputs[1].owner)), distributed)
            self.rewritten([T.exp(total), out])

    def test_products_that_are_used_twice(self):
        """A product with several clients is distributed in the same way as a product with one client."""
        a, b, x, y = T.dvectors("a", "b", "x", "y")
        out = (a / x + b / y) * x * y
        self.assertEqual(self.rewritten([out]), "add(mul(a, y), mul(b, x))")
        self.assertEqual(self.rewritten([T.exp(out), T.log(out)]), "exp(*1 -> add(mul(a, y), mul(b, x))), log(*1)")


class TestGradientOfErfc(RewriteCase):
    def test_multiples(self):
        """exp(-u**2) / erfc(u) is recognized if u is a multiple of x, for all usual forms of the square."""
        x = T.dvector("x")
        points, rule = np.array([-2.0, 0.0, 4.0, 30.0, 100.0]), Mode("py", in2out(local_grad_log_erfc_neg))
        for k in (3.0, 0.5, -1.0, 0.1, 7.0):
            for u, minus_square in (
                (k * x, [-T.sqr(k * x), -((k * x) ** 2), -(k * k) * T.sqr(x), -k * x * (k * x), -(k * x * k * x)]),
                (x / k, [-T.sqr(x / k), -((x / k) ** 2), -T.sqr(x) / k / k, -(x * x) / (k * k), (x / -k) * (x / k)]),
                (3 * x / k, [-T.sqr(3 * x / k), -9 * T.sqr(x / k), -T.sqr(3 * x) / (k * k)]),
                (-x / k, [-T.sqr(-x / k), -T.sqr(x / k), -T.sqr(-x) / (k * k)]),
            ):
                for inner in minus_square:
                    f = theano_ng.function([x], T.exp(inner) / T.erfc(u), mode=rule)
                    with self.subTest(k=k, inner=theano_ng.pprint(inner)):
                        self.assertIn(T.erfcx, [node.op for node in f.maker.fgraph.apply_nodes])
                        at = theano_ng.function([x], u, mode=Mode("py", None))(points)
                        np.testing.assert_allclose(f(points), 1 / special.erfcx(at), rtol=1e-9)

    def test_other_multiples(self):
        """The rule does not apply to exp(v) / erfc(u) if v is a multiple of u**2 other than -u**2."""
        x = T.dvector("x")
        points = np.array([-1.0, 0.5, 1.5])
        for k in (3.0, 0.5, -3.0):
            for inner, u, minus_square, number in (
                (-2 * k * T.sqr(x), k * x, -2 * k * points**2, k * points),
                (-T.sqr(2 * x), k * x, -4 * points**2, k * points),
                (-T.sqr(x) / (2 * k), x / k, -(points**2) / (2 * k), points / k),
                (T.sqr(k * x), k * x, (k * points) ** 2, k * points),
            ):
                f = theano_ng.function([x], T.exp(inner) / T.erfc(u), mode=Mode("py", "fast_run"))
                np.testing.assert_allclose(f(points), np.exp(minus_square) / special.erfc(number), rtol=1e-9)


if __name__ == "__main__":
    unittest.main()
