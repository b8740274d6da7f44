"""Rules built from table rows: reading and printing of terms, matching of numbers and names, types of replacements."""

import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng import gof, scalar
from theano_ng.audit.rewrites.examples import examples
from theano_ng.gof.opt import LocalOptimizer, PatternSub, local_optimizer
from theano_ng.tensor.opt.common import get_clients, get_clients2
from theano_ng.tensor.opt.patterns import (
    Rest,
    Term,
    again,
    alone,
    copying,
    dimshuffled,
    elementwise,
    names,
    number,
    pattern_rule,
    restricted,
    rule,
    term_text,
    terms,
    typed,
    widened,
)
from theano_ng.tensor.tests.rewriting import shown as shown_graph

x, y = names("x", "y")
exp, log, log1p, erf, inv, join = terms(T.exp, T.log, T.log1p, T.erf, T.inv, T.Join)
sum_, alloc = terms(T.add, T.Alloc)


def of_rows(*rows, **options):
    """Return a rule that is built from the given table rows."""

    @rule(*rows, **options)
    def made():
        """Rows."""

    return made


def after(made, out):
    """Return the printed graph of the replacement that a rule makes for `out`, or False if it does not apply."""
    fgraph = gof.FunctionGraph(
        [v for v in gof.graph.inputs([out]) if not isinstance(v, gof.Constant)], [out], clone=True
    )
    new = made.transform(fgraph.outputs[0].owner)
    if not new:
        return False
    assert new[0].type == fgraph.outputs[0].type
    return shown_graph(
        gof.FunctionGraph([v for v in gof.graph.inputs(new) if not isinstance(v, gof.Constant)], new, clone=True)
    )


class TestTerms(unittest.TestCase):
    def test_shown_as_python_reads_it(self):
        for text in (
            "x + y * x",
            "(x + y) * x",
            "x - (y - x)",
            "x - y - x",
            "-x * y",
            "-(x * y)",
            "--x",
            "(-x) ** 2",
            "-x ** 2",
            "1 / x ** y",
            "x / (y * 2)",
            "x // 1",
            "1 // x",
            "2 - x",
            "exp(x - 1) * -1",
            "x ** (y ** 2)",
            "(x ** y) ** 2",
            "abs_(x)",
            "Join(x, y)",
        ):
            term = eval(text, {"x": x, "y": y, "exp": exp, "abs_": abs, "Join": join})
            with self.subTest(text):
                again = eval(term_text(term), {"x": x, "y": y, "exp": exp, "abs_": abs, "Join": join})
                self.assertEqual(again, term)
                self.assertLessEqual(len(term_text(term)), len(text))

    def test_terms_of_operators(self):
        for term, op, arguments in (
            (-x, T.neg, (x,)),
            (abs(x), T.abs_, (x,)),
            (x + y, T.add, (x, y)),
            (1 + x, T.add, (1, x)),
            (x - y, T.sub, (x, y)),
            (1 - x, T.sub, (1, x)),
            (x * y, T.mul, (x, y)),
            (2 * x, T.mul, (2, x)),
            (x / y, T.true_div, (x, y)),
            (1 / x, T.true_div, (1, x)),
            (x // y, T.int_div, (x, y)),
            (1 // x, T.int_div, (1, x)),
            (x**2, T.pow, (x, 2)),
        ):
            self.assertEqual((type(term), tuple(term)), (Term, (op, *arguments)))

    def test_restricted_names_are_shown_as_names(self):
        self.assertEqual(term_text(exp(restricted("x", bool)) + 1), "exp(x) + 1")


class TestRule(unittest.TestCase):
    def test_the_rarest_op_of_a_pattern_is_tracked(self):
        for pattern, op in (
            (log(1 - erf(x)), T.log),
            (1 - erf(x), T.erf),
            (exp(x) + y, T.exp),
            (y + exp(x), T.exp),
            (-(exp(x) * y), T.exp),
            (x + -exp(x), T.exp),
            (x + -(y * exp(x)), T.add),  # the exponential is too deep to be tracked
            (x * y + x, T.add),
        ):
            self.assertEqual(pattern_rule("r", "", pattern, x).tracks(), [op], term_text(pattern))

    def test_is_a_local_optimizer(self):
        @rule((x * x, x**2), (exp(x) * y, y))
        def squares():
            """Products."""

        self.assertIsInstance(squares, LocalOptimizer)
        self.assertEqual((squares.__name__, str(squares), squares.tracks()), ("squares", "squares", [T.mul]))
        self.assertEqual(squares.__doc__, "Products.\n\n    x * x  ->  x ** 2\n    exp(x) * y  ->  y\n")
        self.assertEqual(squares.fn.__module__, __name__)

    def test_examples_of_a_docstring_are_all(self):
        @rule(x * x)
        def squares(x):
            """A square.

            2 * 2  ->  4
            """
            return T.sqr(x)

        self.assertEqual(examples(squares.__doc__), [("2 * 2", "4", None)])
        self.assertEqual(examples(of_rows((alloc(x, Rest("lengths")), x)).__doc__), [])

    def test_tracked_ops(self):
        minus, plus = elementwise(scalar.Sub, scalar.Add)
        for made, tracked, when in (
            (of_rows((exp(x), x), (log(x), x), (exp(exp(x)), x)), [T.exp, T.log], None),
            (of_rows((join(y, x), x), (exp(x), y)), [T.Join, T.exp], None),
            (of_rows((dimshuffled(x, 1, 0), x)), [T.DimShuffle], None),
            (of_rows((minus(x, x), 0), (plus(x, x), x)), [T.Elemwise], [True, True, False]),
        ):
            self.assertEqual(made.tracks(), tracked)
            self.assertEqual(made.when and [made.when(op) for op in (T.sub, T.add, T.mul)], when)

    def test_names_numbers_and_heads(self):
        v, w, m, one = T.dvector("v"), T.dvector("w"), T.dmatrix("m"), T.ones_like(T.dvector("v"))
        same, unit, joined = of_rows((x * x, x)), of_rows((x + 1, x)), of_rows((join(y, x), x))
        self.assertEqual(after(same, v * v), "v")
        self.assertFalse(after(same, v * w))
        self.assertFalse(after(same, T.mul(v, v, v)))
        self.assertEqual(after(unit, v + 1), "v")
        self.assertEqual(after(unit, w + one), "w")
        self.assertFalse(after(unit, v + 2))
        self.assertFalse(after(unit, 1 + v))
        self.assertEqual(after(joined, T.Join()(0, m)), "m")
        self.assertFalse(after(joined, T.Join()(0, m, m)))
        self.assertFalse(joined.transform((v + 1).owner))
        real = of_rows((exp(restricted("x", lambda i: i.dtype[0] == "f")), 1))
        self.assertFalse(after(real, T.exp(T.zvector("z"))))

    def test_first_row_that_matches(self):
        made = of_rows((log(exp(x)), x), (log(x), -x), (exp(x), 0))
        v = T.dvector("v")
        self.assertEqual(
            [after(made, out) for out in (T.log(T.exp(v)), T.log(v), T.exp(v), -v)],
            ["v", "neg(v)", "second(v, InplaceDimShuffle{x}(0.0))", False],
        )

    def test_types_of_replacements(self):
        i, m, s = T.ivector("i"), T.dmatrix("m"), T.dscalar("s")
        quotient = of_rows((x / 1, x))
        self.assertEqual(after(quotient, i / 1), "Cast{float64}(i)")
        left = [of_rows((x + y, x), same_type=flag) for flag in (False, True)]
        self.assertEqual(after(left[0], s + m), "second(m, InplaceDimShuffle{x,x}(s))")
        self.assertFalse(after(left[1], s + m))
        self.assertEqual(after(left[1], m + s), "m")

    def test_stack_traces_are_copied(self):
        out = T.exp(T.dvector("v"))
        out.tag.trace = [[("file.py", 1, "f", "exp(v)")]]
        (new,) = of_rows((exp(x), log(x))).transform(out.owner)
        self.assertIn(("file.py", 1, "f", "exp(v)"), [line for trace in new.tag.trace for line in trace])


class TestConditions(unittest.TestCase):
    def setUp(self):
        self.v, self.w, self.m, self.i = T.dvector("v"), T.dvector("w"), T.dmatrix("m"), T.ivector("i")

    def test_types(self):
        v, m, i, row = self.v, self.m, self.i, T.drow("row")
        for condition, matched in (
            ({"kinds": "fc"}, [v, m, row]),
            ({"kinds": "iu"}, [i]),
            ({"ndim": 2}, [m, row]),
            ({"broadcastable": (True, False)}, [row]),
            ({"kinds": "f", "ndim": 1}, [v]),
        ):
            made = of_rows((exp(typed(x, **condition)), x), same_type=True)
            cast = of_rows((exp(typed(x, **condition)), x))
            self.assertEqual([u for u in (v, m, i, row) if after(cast, T.exp(u))], matched)
            self.assertEqual([u for u in (v, m, row) if after(made, T.exp(u))], [u for u in matched if u is not i])

    def test_numbers(self):
        positive = of_rows((x * number("c", lambda c: c > 0), x))
        self.assertEqual(after(positive, self.v * 2), "v")
        self.assertEqual(after(positive, self.v * T.fill(self.v, 3)), "v")
        self.assertFalse(after(positive, self.v * -2))
        self.assertFalse(after(positive, self.v * self.w))
        self.assertFalse(after(positive, self.v * np.array([1.0, 2.0])))

    def test_clients(self):
        made = of_rows((log(alone(exp(x))), x))
        e = T.exp(self.v)
        self.assertEqual(after(made, T.log(e)), "v")
        fgraph = gof.FunctionGraph([self.v], [T.log(e), e], clone=True)
        self.assertFalse(made.transform(fgraph.outputs[0].owner))

    def test_rest_of_sums_and_products(self):
        v, w, i = self.v, self.w, self.i
        made = of_rows((log(sum_(1, Rest("others"))), log1p(sum_(Rest("others")))))
        self.assertEqual(after(made, T.log(T.add(v, 1, w))), "log1p(add(v, w))")
        self.assertEqual(after(made, T.log(v + 1)), "log1p(v)")
        self.assertFalse(after(made, T.log(v + w)))
        # The sum of the other terms has the dtype of the result. Therefore it cannot overflow, as a sum of int32 could.
        self.assertEqual(after(made, T.log(T.add(i, 1.0, i))), "log1p(add(Cast{float64}(i), i))")
        two = of_rows((sum_(exp(x), log(x), Rest("others")), sum_(x, Rest("others"))))
        self.assertEqual(after(two, T.add(w, T.log(v), v, T.exp(v))), "add(v, w, v)")
        self.assertFalse(after(two, T.add(w, T.log(w), T.exp(v))))
        self.assertEqual(after(of_rows((sum_(exp(x), Rest("others")), x)), T.exp(v) + w), "v")

    def test_rest_of_other_ops(self):
        made = of_rows((alloc(exp(x), Rest("lengths")), again(x, Rest("lengths"))))
        self.assertEqual(after(made, T.alloc(T.exp(self.v), 2, 3)), "Alloc(v, 2, 3)")
        self.assertFalse(after(made, T.alloc(self.v, 2, 3)))

    def test_ops_by_class(self):
        made = of_rows((dimshuffled(dimshuffled(x, 1, 0), 1, 0), x))
        self.assertEqual(after(made, self.m.T.T), "m")
        self.assertFalse(after(made, self.m.T.dimshuffle("x", 1, 0)))
        minus, plus = elementwise(scalar.Sub, scalar.Add)
        made = of_rows((minus(x, x), 0), (plus(x, x), 2 * x), (minus(x, plus(x, y)), -y))
        for out, expected in (
            (self.v - self.v, "second(v, InplaceDimShuffle{x}(0.0))"),
            (self.v + self.v, "mul(InplaceDimShuffle{x}(2), v)"),
            (self.v - (self.v + self.w), "neg(w)"),
            (self.v * self.v, False),
            (self.v - self.w, False),
        ):
            self.assertEqual(after(made, out), expected)

    def test_nodes(self):
        made = of_rows((exp(x), x), provided=lambda node: node.outputs[0].ndim == 2)
        self.assertEqual(after(made, T.exp(self.m)), "m")
        self.assertFalse(after(made, T.exp(self.v)))


class TestComputed(unittest.TestCase):
    def test_functions_of_names(self):
        @rule(exp(log(x)), (log(x), lambda out, x: x if out.ndim == 1 else None), (log(x), 1), (sum_(x, y), "y"))
        def made(x, node, op):
            """Rows."""
            self.assertIs(op, T.exp)
            return node.op(node.op(x))

        v, m = T.dvector("v"), T.dmatrix("m")
        self.assertEqual(after(made, T.exp(T.log(v))), "exp(exp(v))")
        self.assertEqual(after(made, T.log(v)), "v")
        self.assertEqual(after(made, T.log(m)), "second(m, InplaceDimShuffle{x,x}(1.0))")  # the lambda returns None
        self.assertEqual(after(made, v + m), "m")

    def test_results(self):
        v = T.dvector("v")
        node = T.exp(v).owner
        for result in ([v], {node.outputs[0]: v}):
            self.assertEqual(of_rows((exp(x), lambda: result)).transform(node), result)
        for declined in (None, False, [T.dmatrix()], [v, v]):
            self.assertFalse(of_rows((exp(x), lambda: declined)).transform(node))

    def test_rules_in_place(self):
        inputs, out = Rest("inputs"), T.inc_subtensor(T.dvector("v")[1:], 2)
        inc = copying(T.IncSubtensor, T.AdvancedIncSubtensor1)
        self.assertEqual(of_rows((inc(inputs), 0)).tracks(), [T.IncSubtensor, T.AdvancedIncSubtensor1])
        made = of_rows(
            (inc(inputs), lambda op, inputs: T.IncSubtensor(op.idx_list, inplace=True)(*inputs)), inplace=True
        )
        self.assertEqual(made.requirements, local_optimizer(None, inplace=True)(made.fn).requirements)
        self.assertEqual(of_rows((exp(x), x)).requirements, ())
        (new,) = made.transform(out.owner)
        self.assertTrue(new.owner.op.inplace)
        self.assertFalse(made.transform(new.owner))

    def test_unknown_parameters(self):
        self.assertRaisesRegex(
            ValueError, r"\['z'\], which are not names of the pattern exp\(x\)", of_rows, (exp(x), lambda z: z)
        )

    def test_dtype_of_the_result(self):
        i = T.ivector("i")
        self.assertEqual(after(of_rows((1 / x, inv(widened(x)))), 1 / i), "inv(Cast{float64}(i))")
        self.assertEqual(after(of_rows((1 / x, inv(widened(x)))), 1 / T.dvector("v")), "inv(v)")

    def test_other_ops_keep_their_type(self):
        i = T.ivector("i")
        self.assertFalse(after(of_rows((alloc(x, Rest("n")), x)), T.alloc(i, 2, 3)))


class TestPatternRule(unittest.TestCase):
    def test_starts_from_a_rare_op(self):
        for pattern, tracked in [
            (1 + -1 * erf(x), T.erf),
            (1 - erf(-x), T.erf),
            (log(1 - exp(x)), T.log),
            (-(-x), T.neg),
            (1 + 2 * (3 - erf(x)), T.add),
        ]:
            made = pattern_rule("r", "", pattern, exp(x))
            self.assertIsInstance(made, PatternSub)
            self.assertEqual(made.tracks(), [tracked])

    def test_answers_for_the_outermost_node(self):
        v = T.dvector("v")
        fgraph = gof.FunctionGraph([v], [1 - T.erf(-v)])
        inner = fgraph.outputs[0].owner.inputs[1].owner
        ((old, new),) = pattern_rule("r", "", 1 - erf(-x), exp(x)).transform(inner).items()
        self.assertIs(old, fgraph.outputs[0])
        self.assertIs(new.owner.inputs[0], fgraph.inputs[0])


class TestWhereToLook(unittest.TestCase):
    def test_rare_ops(self):
        """The search for a pattern starts at its outermost Op, or at a rare Op inside if the outermost Op is frequent."""
        for pattern, op, depth in (
            (exp(log(x)), T.exp, 0),
            (erf(x), T.erf, 0),
            (1 - erf(x), T.erf, 1),
            (-erf(x) + 1, T.erf, 2),
            (x * y, T.mul, 0),
            (x - x, T.sub, 0),
        ):
            made = pattern_rule("name", "Text.", pattern, x)
            self.assertEqual(made.tracks(), [op])
            self.assertEqual(made.get_nodes, (None, get_clients, get_clients2)[depth])


if __name__ == "__main__":
    unittest.main()
