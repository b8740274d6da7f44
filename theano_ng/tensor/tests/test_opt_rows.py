"""Rules built from table rows: reading and printing of terms, matching of numbers and names, types of replacements."""

import unittest

import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.gof.opt import LocalOptimizer, PatternSub
from theano_ng.tensor.opt.common import get_clients, get_clients2
from theano_ng.tensor.opt.rows import Term, names, pattern_rule, rule, shown, such, terms
from theano_ng.tensor.tests.rewriting import shown as shown_graph

x, y = names("x", "y")
exp, log, erf, join = terms(T.exp, T.log, T.erf, T.Join)


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
                again = eval(shown(term), {"x": x, "y": y, "exp": exp, "abs_": abs, "Join": join})
                self.assertEqual(again, term)
                self.assertLessEqual(len(shown(term)), len(text))

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
        self.assertEqual(shown(exp(such("x", bool)) + 1), "exp(x) + 1")


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
            self.assertEqual(pattern_rule("r", "", pattern, x).tracks(), [op], shown(pattern))

    def test_is_a_local_optimizer(self):
        self.assertRaises(ValueError, rule, "r", "", (join(y, x), x), (exp(x), y))
        made = rule("squares", "Products.", (x * x, x**2), (exp(x) * y, y))
        self.assertIsInstance(made, LocalOptimizer)
        self.assertEqual((made.__name__, str(made), made.tracks()), ("squares", "squares", [T.mul]))
        self.assertEqual(made.__doc__, "Products.\n\n    x * x  ->  x ** 2\n    exp(x) * y  ->  y\n")

    def test_names_numbers_and_heads(self):
        v, w, m, one = T.dvector("v"), T.dvector("w"), T.dmatrix("m"), T.ones_like(T.dvector("v"))
        same, unit, joined = rule("r", "", (x * x, x)), rule("r", "", (x + 1, x)), rule("r", "", (join(y, x), x))
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
        real = rule("r", "", (exp(such("x", lambda i: i.dtype[0] == "f")), 1))
        self.assertFalse(after(real, T.exp(T.zvector("z"))))

    def test_first_row_that_matches(self):
        made = rule("r", "", (log(exp(x)), x), (log(x), -x), (exp(x), 0))
        v = T.dvector("v")
        self.assertEqual(
            [after(made, out) for out in (T.log(T.exp(v)), T.log(v), T.exp(v), -v)],
            ["v", "neg(v)", "second(v, InplaceDimShuffle{x}(0.0))", False],
        )

    def test_types_of_replacements(self):
        i, m, s = T.ivector("i"), T.dmatrix("m"), T.dscalar("s")
        quotient = rule("r", "", (x / 1, x))
        self.assertEqual(after(quotient, i / 1), "Cast{float64}(i)")
        left = [rule("r", "", (x + y, x), same_type=flag) for flag in (False, True)]
        self.assertEqual(after(left[0], s + m), "second(m, InplaceDimShuffle{x,x}(s))")
        self.assertFalse(after(left[1], s + m))
        self.assertEqual(after(left[1], m + s), "m")

    def test_stack_traces_are_copied(self):
        out = T.exp(T.dvector("v"))
        out.tag.trace = [[("file.py", 1, "f", "exp(v)")]]
        (new,) = rule("r", "", (exp(x), log(x))).transform(out.owner)
        self.assertIn(("file.py", 1, "f", "exp(v)"), [line for trace in new.tag.trace for line in trace])


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
