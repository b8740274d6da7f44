"""Canonical forms of sums and products, greedy distribution, constant folding."""

import unittest
from unittest import mock

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.ifelse import ifelse
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.opt import (
    Canonizer,
    add_calculate,
    add_canonizer,
    attempt_distribution,
    canonicalize,
    check_for_x_over_absX,
    local_add_canonizer,
    local_mul_canonizer,
    mul_calculate,
    mul_canonizer,
    scalarconsts_rest,
)
from theano_ng.tensor.tests.rewriting import CANONICALIZE, RewriteCase, shown


class TestCanonizer(RewriteCase):
    def test_used_elsewhere(self):
        # A shared subexpression is expanded only if something cancels or only constants are collected.
        x, y, z = T.dvectors("x", "y", "z")
        s, t, u = x * y, 2 * x, x - y
        for shared, out, expected in [
            (s, s * z * 2, "*1 -> mul(x, y), mul(2.0, *1, z)"),
            (s, z * s / x, "mul(x, y), mul(z, y)"),
            (s, (s * z) / (s * y), "mul(x, y), true_div(z, y)"),
            (t, t * 3, "mul(2.0, x), mul(6.0, x)"),
            (u, u + z + 1, "*1 -> sub(x, y), add(1.0, *1, z)"),
            (u, u + y, "sub(x, y), DeepCopyOp(x)"),
        ]:
            f = theano_ng.function([x, y, z], [shared, out], mode=Mode("py", CANONICALIZE), on_unused_input="ignore")
            self.assertEqual(shown(f.maker.fgraph), expected)
            plain = theano_ng.function([x, y, z], [shared, out], mode=Mode("py", None), on_unused_input="ignore")
            given = [[1.0, 2], [3, 0.5], [0.25, 4]]
            for got, want in zip(f(*given), plain(*given)):
                np.testing.assert_allclose(got, want)
        # A chain of products that all have other users is not expanded.
        products = [x]
        for _ in range(100):
            products.append(products[-1] * 0.9 * y)
        f = theano_ng.function([x, y], products[1:], mode=Mode("py", CANONICALIZE))
        self.assertLessEqual(max(len(node.inputs) for node in f.maker.fgraph.apply_nodes), 3)

    def test_products(self):
        x, y, z = T.dvectors("x", "y", "z")
        for out, expected in [
            (x / x, "second(x, 1.0)"),
            ((x * y) / x, "y"),
            (x / y / x, "inv(y)"),
            (x / y / z, "true_div(x, mul(y, z))"),
            (x / (y / z), "true_div(mul(x, z), y)"),
            ((x / y) * (y / z), "true_div(x, z)"),
            ((2.0 * x) / (4.0 * y), "true_div(mul(0.5, x), y)"),
            (2 * x / 2, "x"),
            (x * y * z, "mul(x, y, z)"),
            (x / 4, "mul(0.25, x)"),
            (3 * (x * 2) * y, "mul(6.0, x, y)"),
            (2 / x * 3, "true_div(6.0, x)"),
            (x / abs(x), "sgn(x)"),
        ]:
            self.check(out, expected)

    def test_each_absolute_value_takes_one_factor(self):
        x, y, i = T.dvector("x"), T.dvector("y"), T.bvector("i")
        values = {"x": [2.0, -3.0, 0.5], "y": [-0.3, 4.0, -2.0], "i": [-128, -3, 7]}
        for out, expected in [
            (x / (abs(x) * abs(x)), "true_div(sgn(x), abs_(x))"),
            (x * x / abs(x), "mul(x, sgn(x))"),
            (x * x / (abs(x) * abs(x)), "sqr(sgn(x))"),
            (x / (abs(x) * abs(x) * abs(x)), None),
            (x * y / (abs(y) * abs(x) * abs(y)), None),
            (x / abs(x) / abs(x) / abs(y) * y * x, None),
            (i / abs(i), None),
        ]:
            self.check(out, expected, values)

    def test_second_derivatives_of_log_abs_det(self):
        A, W = T.dmatrix("A"), T.dmatrix("W")
        gradient = theano_ng.grad(T.log(abs(T.nlinalg.det(A))), A)
        second = theano_ng.grad((gradient * W).sum(), A)
        given = np.array([[0.71, -1.36], [1.0, 1.74]]), np.cos(np.arange(1.0, 5)).reshape(2, 2)
        inverse = np.linalg.inv(given[0])
        # The gradient of log(abs(det(A))) is inv(A).T, and trace(inv(A) W) changes by -trace(inv(A) dA inv(A) W).
        expected = -inverse.dot(given[1]).dot(inverse).T
        np.testing.assert_allclose(theano_ng.function([A, W], second)(*given), expected, rtol=1e-10)

    def test_sums(self):
        x, y, z = T.dvectors("x", "y", "z")
        for out, expected in [
            (x - x, "second(x, 0.0)"),
            (x + y - x, "y"),
            (x + 1 + 1, "add(2.0, x)"),
            (x - y - z, "sub(x, add(y, z))"),
            (x + y + z, "add(x, y, z)"),
            ((x - y) + (y - z), "sub(x, z)"),
            (3 + x - 3, "x"),
            (-x - y, "sub(neg(x), y)"),
            (x + (-y), "sub(x, y)"),
        ]:
            self.check(out, expected)

    def test_shared_parts_stay(self):
        x, y, z = T.dvectors("x", "y", "z")
        product = x * y
        f = self.check(T.exp(product) + product * z, None, query=CANONICALIZE)
        self.assertEqual(sum(n.op == T.mul for n in f.maker.fgraph.toposort()), 2)

    def test_shapes_and_dtypes(self):
        x, s, f, i = T.dmatrix("x"), T.dscalar("s"), T.fvector("f"), T.ivector("i")
        row = T.drow("row")
        for out in (
            x * s / x,
            (x * row) / row,
            row * x / x,
            f / 2,
            i * 2 * 3,
            i / 2,
            i - i,
            f * np.float64(2),
            (x * s) / (s * x),
            T.as_tensor_variable(np.arange(3.0)) * x / x,
        ):
            self.check(out, None)
        self.check(i * 2 * 3, "mul(6, i)")
        self.assertEqual(self.check(f / 2, "mul(0.5, f)").maker.fgraph.outputs[0].dtype, "float32")

    def test_integer_wraps(self):
        b = T.bvector("b")
        self.check(b * 100 * 100, None, {"b": [1, 2, 3]})

    def test_nothing_narrower_than_the_result(self):
        b, c, q = T.bvector("b"), T.bvector("c"), T.TensorType("bool", (False,))("q")
        wide, x = T.lvector("l"), T.fvector("x")
        u = T.TensorType("uint8", (False,))("u")
        values = {"b": [100, -100, 3], "c": [100, 90, -128], "q": [True, False, True], "u": [200, 100, 3]}
        for out in (
            b + (b - wide),
            b + (c - wide),
            b * (c * wide),
            b * (c / wide),
            (wide - u) - wide,
            (wide - b) - (wide + c),
            q + (q - wide),
            (b + c) * (wide / (b * wide)),
            (b + c) * wide / wide,
            x * (b / wide) / x,
            wide / (b * (c / wide)),
        ):
            self.check(out, None, values)
        for v in (b, c, u):
            self.check(T.inv(v), None, values)
            self.check(1 / T.inv(v), None, values)

    def test_long_chains(self):
        # Nested sums become one sum, but no sum has more operands than NumPy supports.
        for n in (20, 100, 2000):
            xs = T.dvectors(*["x%d" % i for i in range(10)])
            out = xs[0]
            for i in range(n):
                out = out + xs[i % 10]
            f = self.check(out, None)
            widest = max(len(node.inputs) for node in f.maker.fgraph.toposort())
            self.assertEqual(widest, 21 if n == 20 else 2)
            out = xs[0]
            for i in range(n):
                out = out + xs[i % 10] + 1
            f = self.check(out, None)
            self.assertLessEqual(max(len(node.inputs) for node in f.maker.fgraph.toposort()), 31)

    def test_walks(self):
        """Each canonizer can be applied to a graph as a separate optimizer."""
        x, y = T.dvectors("x", "y")
        for walk, name, out in (
            (mul_canonizer, "mul_canonizer_groups", (x * y) / x),
            (add_canonizer, "add_canonizer_group", (x + y) - x),
        ):
            fgraph = FunctionGraph([x, y], [out], clone=True)
            walk.optimize(fgraph)
            self.assertEqual(shown(fgraph), "y")
            self.assertEqual(str(walk), name)

    def test_methods(self):
        x, y, a, b = T.dvectors("x", "y", "a", "b")
        can = local_mul_canonizer
        self.assertEqual(can.get_num_denum(T.inv(x) * T.inv(y)), ([], [x, y]))
        self.assertEqual(can.get_num_denum(((a / b) * x) / y), ([a, x], [b, y]))
        self.assertEqual(can.get_num_denum(a / (b / x)), ([a, x], [b]))
        self.assertEqual(can.simplify_factors([x, y], [x]), ([y], []))
        self.assertEqual(can.simplify_factors([x, x, y], [x, a]), ([x, y], [a]))
        num, denum = can.simplify_constants([x, T.constant(2.0), y], [a, T.constant(4.0)], T.dvector)
        self.assertEqual((float(num[0]), num[1:], denum), (0.5, [x, y], [a]))
        self.assertEqual(can.simplify_constants([x, T.constant(2.0), y], [a, T.constant(2.0)]), ([x, y], [a]))
        for constants, expected in (([2.0], 2.0), ([2.0, 3.0], 6.0), ([0.5, 2.0], None), ([1.0], None)):
            num, denum = can.simplify_constants([*map(T.constant, constants), x], [])
            self.assertEqual((num[-1], denum), (x, []))
            self.assertEqual([float(can.get_constant(n)) for n in num[:-1]], [] if expected is None else [expected])
        self.assertEqual(can.merge_num_denum([x], []), x)
        self.assertEqual(can.merge_num_denum([], [x, y]).owner.op, T.true_div)
        self.assertEqual(Canonizer(T.mul, T.true_div, T.inv, mul_calculate).merge_num_denum([], [x]).owner.op, T.inv)
        self.assertEqual(can.merge_num_denum([], []).data, 1)
        self.assertEqual(local_add_canonizer.merge_num_denum([], [x]).owner.op, T.neg)
        self.assertEqual(Canonizer.get_constant(T.constant(3.0)), 3)
        self.assertIsNone(Canonizer.get_constant(x))
        self.assertEqual(float(mul_calculate([3.0, 4.0], [2.0])), 6.0)
        self.assertEqual(mul_calculate([2.0], [2.0], aslist=True), [])
        self.assertEqual(float(add_calculate([3.0], [1.0, 1.0])), 1.0)
        self.assertEqual(add_calculate([], [], aslist=True), [])
        self.assertEqual(check_for_x_over_absX([y], [abs(x)])[0], [y])

    def test_scalarconsts_rest(self):
        x, two = T.dvector("x"), T.constant(2.0)
        consts, origs, rest = scalarconsts_rest([x, two])
        self.assertEqual(([float(c) for c in consts], origs, rest), ([2.0], [two], [x]))


class TestDistributor(RewriteCase):
    def test_graphs(self):
        a, b, x, y, s = T.dvectors("a", "b", "x", "y", "s")
        self.check((a / x + b / y) * x * y, "add(mul(a, y), mul(b, x))")
        self.check((a / x + b) * x, "add(a, mul(b, x))")
        self.check((a + b) * x, "mul(add(a, b), x)")
        changed, new, num, denum = attempt_distribution(a / x + b, [x, y], [], a.type)
        self.assertEqual((changed, num, denum), (True, [y], []))
        self.check((a / (x * x) + b / x) * x * x, "add(a, mul(b, x))")
        self.check((a / abs(x) + b) * x, "add(mul(a, sgn(x)), mul(b, x))", {"x": np.array([0.5, -2.0, 3.0])})
        self.check((a * x - x) / abs(x), "sub(mul(a, *1 -> sgn(x)), *1)", {"x": np.array([0.5, -2.0, 3.0])})

    def test_sums_in_denominators(self):
        """A product with a sum is multiplied out if this cancels divisors of the terms, also in a denominator."""
        a, b, w, x, y = T.dvectors("a", "b", "w", "x", "y")
        for out, expected in (
            ((a / x + b / y) * x * y / w, "true_div(add(mul(a, y), mul(b, x)), w)"),
            (w / ((a / x + b / y) * x * y), "true_div(w, add(mul(a, y), mul(b, x)))"),
            (w / ((a / x + b / x) * x), "true_div(w, add(a, b))"),
            (T.inv((a / x + b) * x), "inv(add(a, mul(b, x)))"),
            (((a / x + b) * x) / ((a / y + w) * y), "true_div(add(a, mul(b, x)), add(a, mul(w, y)))"),
            (w * x / ((a + b) * y), "true_div(mul(w, x), mul(add(a, b), y))"),
        ):
            self.check(out, expected)

    def test_what_cannot_cancel_is_not_tried(self):
        a, b = T.dvectors("ab")
        many = T.dvectors(300)
        below = [many[9], many[5]]
        found = []
        for likely in (canonicalize._likely, lambda product, side, pairs: below if side else list(many)):
            with mock.patch.object(canonicalize, "_likely", likely):
                changed, new, num, denum = attempt_distribution(a / many[7] + b * many[9], many, below, a.type)
            found.append((changed, theano_ng.pprint(new), num, denum))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][2:], (many[:7] + many[8:], [many[5]]))


class TestConstantFolding(RewriteCase):
    def test_values(self):
        x = T.dscalar("x")
        self.check(x + T.log(T.constant(1.0) * 1), "x")
        self.check(T.constant(np.ones((2, 2))).sum() + x, "add(4.0, x)")
        self.check(T.constant([3.0, 1.0, 2.0])[1] * x, "x")

    def test_chain(self):
        out = T.constant(0.5)
        for _ in range(2000):
            out = T.sin(out)
        f = theano_ng.function([], out, mode=Mode("py", "fast_compile"))
        self.assertEqual(len([n for n in f.maker.fgraph.toposort() if n.op == T.sin]), 0)

    def test_what_fails_is_reported_once_and_raised_when_it_runs(self):
        x = T.dvector("x")
        total = x.sum() + T.dot(np.ones((2, 3), "int64"), np.ones((2, 3), "int64")).sum()
        for policy in ("warn", "raise"):
            with (
                self.assertLogs("theano_ng.gof.opt", "WARNING") as logged,
                theano_ng.change_flags(on_opt_error=policy, cache_graphs=False),
            ):
                f = theano_ng.function([x], total, mode="FAST_RUN")
            self.assertEqual(len(logged.output), 1)
            self.assertRegex(logged.output[0], r"constant folding: dot.* ValueError")
            with self.assertRaisesRegex(ValueError, r"2,\s?3"):
                f([1.0])

        with self.assertNoLogs("theano_ng.gof.opt"), theano_ng.change_flags(on_opt_error="ignore", cache_graphs=False):
            theano_ng.function([x], total, mode="FAST_RUN")

    def test_what_fails_is_in_a_branch_that_is_not_taken(self):
        """An expression that always fails does not stop the compilation, because the branch with it may never run.

        This holds even with ``on_opt_error=raise``. Neither the rule nor the program is wrong.
        """
        a, condition = T.dscalar("a"), T.iscalar("condition")
        out = theano_ng.ifelse.ifelse(condition, T.unbroadcast(a.reshape((a.shape[0], 1)), 1), T.dmatrix("m"))
        with (
            self.assertLogs("theano_ng.gof.opt", "WARNING"),
            theano_ng.change_flags(on_opt_error="raise", cache_graphs=False),
        ):
            f = theano_ng.function([a, condition, out.owner.inputs[2]], out, mode="FAST_RUN")
        np.testing.assert_array_equal(f(1.0, 0, np.ones((2, 3))), np.ones((2, 3)))
        with self.assertRaises(IndexError):
            f(1.0, 1, np.ones((2, 3)))

    def test_broken_assertions_are_errors_of_compiling(self):
        x = T.dscalar("x")
        broken = Assert("constants differ")(T.constant(1.0), T.constant(0))
        for policy in ("warn", "raise"):
            flags = theano_ng.change_flags(on_opt_error=policy, cache_graphs=False)
            with self.subTest(policy), flags, self.assertLogs("theano_ng.gof.opt", "ERROR"):
                self.assertRaisesRegex(AssertionError, "constants differ", theano_ng.function, [x], x + broken)

    def test_a_value_that_memory_does_not_hold_is_left_to_the_run(self):
        x, length = T.dscalar("x"), 10**15
        logged = self.assertLogs("theano_ng.gof.opt", "WARNING")
        with logged, theano_ng.change_flags(on_opt_error="raise", cache_graphs=False):
            f = theano_ng.function([x], ifelse(T.gt(x, 0), x, T.arange(length).sum() + x), mode="FAST_RUN")
        self.assertEqual(f(2.0), 2)
        self.assertRaises(MemoryError, f, -1.0)


if __name__ == "__main__":
    unittest.main()
