"""Tests of rules without examples: the oracle derives graphs from their code, finds wrong rules and accepts right ones.

Each finding has a program that shows it.
"""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

try:
    import mpmath  # noqa: F401, tests whether mpmath is installed
except ImportError:
    raise unittest.SkipTest("needs mpmath: pip install 'theano_ng[test]'") from None

import theano_ng.tensor as T
from theano_ng.audit.rewrites.generated import expressions, pattern_text, vocabulary_of
from theano_ng.audit.rewrites.oracle import Effort, judge
from theano_ng.audit.rewrites.rule_code import mentioned
from theano_ng.audit.rewrites.targets import rules_of
from theano_ng.audit.tests import right_rules, wrong_rules
from theano_ng.gof import OpSub, PatternSub, local_optimizer

EFFORT = Effort(generated=2, borrowed=1, sets=24, derived=2, alike=3)

#: Rules whose programs are run: one for each form of a program.
SHOWN = ("add_zero", "fold_negation", "exp_over_input", "exp_that_grows", "square_without_trace", "negates_for_all")


def by_name(module):
    return {one.name: one for one in rules_of(module.__name__)}


class TestGivenRules(unittest.TestCase):
    def test_every_wrong_rule_is_found(self):
        rules = by_name(wrong_rules)
        self.assertEqual(set(rules), set(wrong_rules.WRONG))
        for name, kinds in wrong_rules.WRONG.items():
            with self.subTest(rule=name):
                verdict = judge(rules[name], EFFORT)
                found = {finding.difference.kind: finding for finding in verdict.findings}
                self.assertEqual(verdict.status, "wrong")
                self.assertTrue(set(kinds.split(", ")) & set(found), "%s, not %s" % (sorted(found), kinds))
                if name in SHOWN:
                    self.check_program(found[kinds.split(", ")[0]])

    def check_program(self, finding):
        """Check that the program of a finding shows the difference."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            if finding.difference.kind == "type":
                with self.assertRaisesRegex(Exception, "type of the replacement must be the same"):
                    exec(finding.program, {})
                return
            exec(finding.program, {})
        expected = {
            "in place": "overwritten: .*destroy",
            "endless": "applies to its own results without end",
            "trace": "traced: False",
        }.get(finding.difference.kind)
        if expected is not None:
            self.assertRegex(printed.getvalue(), expected)
            return
        before, after = printed.getvalue().split("after: ")
        self.assertNotEqual(before.rsplit("[array", 1)[1].strip(), after.rsplit("[array", 1)[1].strip())

    def test_no_right_rule_is_accused(self):
        rules = by_name(right_rules)
        self.assertGreaterEqual(len(rules), 12)
        for name, one in rules.items():
            with self.subTest(rule=name):
                verdict = judge(one, EFFORT)
                self.assertEqual([(found.difference, found.text) for found in verdict.findings], [])
                self.assertGreater(verdict.graphs, 0)

    def test_a_registered_rule_that_another_one_undoes(self):
        """Both rules and the cycle are named once, also in the program of the finding."""
        text = """
from theano_ng import tensor
from theano_ng.compile import optdb
from theano_ng.gof import local_optimizer
from theano_ng.gof.opt import copy_stack_trace

@local_optimizer([tensor.sqr])
def square_by_product(node):
    if node.inputs[0].dtype == node.outputs[0].dtype:
        return [copy_stack_trace(node.outputs[0], node.inputs[0] * node.inputs[0])]

optdb["specialize"].register("square_by_product", square_by_product, "squares")
"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "undone.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            command = [sys.executable, "-W", "ignore", "-m", "theano_ng.audit.cli", "--rewrites", path]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        (said,) = [line for line in done.stdout.split("\n") if "undo each other: " in line]
        for part in ("local_mul_to_sqr", "(a * a) -> sqr(a)", "square_by_product", "sqr(a) -> (a * a)"):
            self.assertIn(part, said)


class TestCodeOfRules(unittest.TestCase):
    def test_ops_and_numbers_in_code(self):
        factor = 12

        @local_optimizer([T.mul])
        def rule(node):
            return T.int_div if node.inputs[1] == factor * 0.25 else T.Dot

        found = mentioned(rule)
        self.assertEqual((found.ops, found.classes), ((T.mul, T.int_div), (T.Dot,)))
        self.assertEqual(found.numbers, (1, 0.25, 12))
        self.assertEqual(mentioned(OpSub(T.floor, T.ceil)).ops, (T.floor, T.ceil))
        self.assertEqual(mentioned(PatternSub((T.mul, "x", 3), (T.add, "x", -0.0))).numbers, (3, -0.0))

    def test_pattern_as_expression(self):
        pattern = (T.sub, (T.add, "x", {"pattern": "y", "constraint": None}), (T.mul, "y", 3))
        self.assertEqual(pattern_text(pattern), "sub(add(x, y), mul(y, 3))")
        self.assertIsNone(pattern_text((T.add, *"abcdef")))

    def test_expressions(self):
        texts = expressions(wrong_rules.divide_then_multiply)
        self.assertIn("mul(int_div(x, 12), 12)", texts)
        self.assertEqual(len(texts), len(set(texts)))
        self.assertEqual(expressions(wrong_rules.cancel_by_pattern)[0], "true_div(mul(x, y), x)")
        self.assertEqual(vocabulary_of(wrong_rules.add_zero).numbers, ["0", "1", "2", "-1", "-0.0"])


if __name__ == "__main__":
    unittest.main()
