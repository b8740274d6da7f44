"""Rules on Ops of Ops keep the numbers, and apply where they did; a test for each outer Op (`rules_on_pairs`)."""

import unittest

from theano_ng.tests import rules_on_pairs


class TestPairs(unittest.TestCase):
    maxDiff = None

    def check(self, outer):
        rows, wrong = rules_on_pairs.tried(outer)
        self.assertEqual(wrong, [])
        self.assertEqual(rows, rules_on_pairs.known(outer), "see theano_ng/tests/rules_on_pairs.py for how to write the table")


def _test(outer):
    return lambda self: self.check(outer)


for _number, _outer in enumerate(rules_on_pairs.OPS):
    setattr(TestPairs, "test_%02d" % _number, _test(_outer))


if __name__ == "__main__":
    unittest.main()
