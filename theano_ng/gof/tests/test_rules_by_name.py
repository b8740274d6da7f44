"""Tests of rules and databases as values: their equality, and their registration under names."""

import unittest

from theano_ng.gof.opt import MergeOptimizer
from theano_ng.gof.optdb import EquilibriumDB
from theano_ng.gof.rewriting import local_optimizer


def _rule():
    @local_optimizer(None)
    def rule(node):
        return False

    return rule


class TestEquality(unittest.TestCase):
    def test_a_rule_equals_itself_alone(self):
        for make in (_rule, MergeOptimizer):
            one, other = make(), make()
            self.assertTrue(one == one)
            self.assertIs(one != one, False)
            self.assertFalse(one == other)
            self.assertIs(one != other, True)
            self.assertEqual(len({one, other, one}), 2)


class TestNames(unittest.TestCase):
    def setUp(self):
        self.db = EquilibriumDB()
        self.db.register("one", _rule(), "alone", "both")
        self.db.register("two", _rule(), "both")

    def found(self, tag):
        return {rule.name for rule in self.db.query("+" + tag).get_local_optimizers()}

    def test_tags_are_no_names(self):
        # The functions take names of rules. They refuse a tag of one rule, a tag of two rules, and an unknown word.
        for word in ("alone", "both", "three"):
            for change in (self.db.add_tags, self.db.remove_tags):
                with self.assertRaisesRegex(KeyError, word):
                    change(word, "new")

    def test_tags_that_are_added(self):
        self.db.add_tags("two", "new")
        self.assertEqual(self.found("new"), {"two"})
        self.assertEqual(self.found("both"), {"one", "two"})
        self.assertEqual(self.found("alone"), {"one"})
        self.db.remove_tags("two", "both")
        self.assertEqual(self.found("both"), {"one"})


if __name__ == "__main__":
    unittest.main()
