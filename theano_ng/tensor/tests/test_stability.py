"""Losses and their derivatives at saturated arguments are as exact as the dtype permits.

Each loss is computed in several forms, for instance with views or reductions.
"""

import unittest

import theano_ng as theano
from theano_ng.tensor.tests import stability, stability_elementwise, stability_softmax


class Table:
    losses = ()
    each_mode = True

    def test_table(self):
        compared = 0
        for case in stability.some_cases(self.losses, self.each_mode):
            with self.subTest(stability.described(case)):
                for logits, (error, numbers) in zip(stability.LOGITS, stability.compare(theano, case)):
                    self.assertLessEqual(error, stability.ULPS, "units in the last place, for logits %s" % logits)
                    compared += numbers
        print("%s: %d numbers compared" % (type(self).__name__, compared))


class TestSoftmax(Table, unittest.TestCase):
    losses = stability_softmax.losses(stability.Loss)


class TestElementwise(Table, unittest.TestCase):
    losses = stability_elementwise.losses(stability.Loss)
    each_mode = True


if __name__ == "__main__":
    unittest.main()
