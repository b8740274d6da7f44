"""Tests that rewriting keeps the values and the gradients of every family of graphs."""

import unittest

import numpy as np

import theano_ng
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.tests.graph_families import FAMILIES, build

STEPS = 3

SIZE = 8
"""The length of all dimensions except those of `SHAPES`. Matrices are square, so that products fit."""

SHAPES = {"recurrent_cells": {"x": (4, 8), "w": (8, 32), "b": (32,)}, "reshapes": {"x": (4, 6)}, "split": {"x": (4,)}}
"""Family -> name of an input -> shape."""


class TestNumbers(unittest.TestCase):
    def setUp(self):
        self._policy = config.on_opt_error
        config.on_opt_error = "raise"
        self.rng = np.random.RandomState(2017)

    def tearDown(self):
        config.on_opt_error = self._policy

    def value(self, v, shapes):
        shape = shapes.get(v.name, [1 if b else SIZE for b in v.broadcastable])
        if v.dtype[0] in "iu":
            return self.rng.randint(0, 2, size=shape).astype(v.dtype)
        return self.rng.uniform(0.3, 0.9, size=shape).astype(v.dtype)

    def test_families(self):
        for name, make in FAMILIES.items():
            with self.subTest(name):
                inputs, outputs = build(make, STEPS, True)
                given = [self.value(v, SHAPES.get(name, {})) for v in inputs]
                after, before = [
                    theano_ng.function(inputs, outputs, mode=mode, on_unused_input="ignore")
                    for mode in (Mode("py", "fast_run"), Mode("py", None))
                ]
                for got, want in zip(after(*given), before(*given)):
                    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-10)


if __name__ == "__main__":
    unittest.main()
