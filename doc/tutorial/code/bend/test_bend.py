"""Tests of bend."""

import unittest

import numpy as np
from bend import Bend, audit_cases

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.audit import audit_test
from theano_ng.tests import unittest_tools as utt


class TestBend(utt.InferShapeTester):
    def setUp(self):
        super().setUp()
        self.value = np.random.normal(size=(3, 4)).astype(theano.config.floatX)

    def test_values(self):
        x = T.matrix()
        f = theano.function([x], Bend()(x))
        utt.assert_allclose(np.where(self.value > 0, self.value, 0.25 * self.value), f(self.value))

    def test_shapes(self):
        x = T.matrix()
        self._compile_and_check([x], [Bend()(x)], [self.value], Bend)

    def test_gradient(self):
        utt.verify_grad(Bend(), [self.value])

    def test_refused_types(self):
        with self.assertRaisesRegex(TypeError, "float32 or float64"):
            Bend()(T.lvector())


# One test for each check of theano_ng-audit.
Audit = audit_test(audit_cases)

if __name__ == "__main__":
    unittest.main()
