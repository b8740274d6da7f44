"""Tests that rules keep the values of graphs that are not made for them, and apply to the graphs that a table records.

The module `rules_on_graphs` makes the graphs. Each group of graphs has its own test.
"""

import unittest

from theano_ng.tests import rules_on_graphs


class TestGroups(unittest.TestCase):
    maxDiff = None

    def check(self, group):
        rows, wrong = rules_on_graphs.tried(group)
        self.assertEqual(wrong, [])
        self.assertEqual(
            rows, rules_on_graphs.known(group), "see theano_ng/tests/rules_on_graphs.py for how to write the table"
        )


def _test(group):
    return lambda self: self.check(group)


for _number, _group in enumerate(rules_on_graphs.groups()):
    setattr(TestGroups, "test_%03d" % _number, _test(_group))


if __name__ == "__main__":
    unittest.main()
