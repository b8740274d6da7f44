"""Tests that rewriting keeps the values and the gradients of every family of graphs."""

import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
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

    def test_long_chains(self):
        # The rewriting of a long chain ends by itself. If it reached the limit `optdb.max_use_ratio`, it would raise an
        # error, because `setUp` sets on_opt_error to "raise".
        x, n = T.dvector("x"), T.lscalar("n")
        links = {
            "slices": lambda h: h[1:],
            "reshapes": lambda h: h.reshape((-1,)) if h.ndim == 2 else h.reshape((2, -1)),
            "reversed": lambda h: h[::-1],
            "allocs": lambda h: T.alloc(h, n, h.shape[0])[0],
            "casts": lambda h: T.cast(h, "float64" if h.dtype == "float32" else "float32"),
            "sums": lambda h: 1 - h,
            "products": lambda h: 2 * h,
        }
        for name, link in links.items():
            with self.subTest(name):
                chain = [x]
                for _ in range(60):
                    chain.append(link(chain[-1]))
                given = self.rng.randint(-9, 9, size=64).astype("float64")
                after, before = [
                    theano_ng.function([x, n], chain[1:], mode=mode, on_unused_input="ignore")
                    for mode in (Mode("py", "fast_run"), Mode("py", None))
                ]
                for got, want in zip(after(given, 2), before(given, 2)):
                    np.testing.assert_array_equal(got, want)


if __name__ == "__main__":
    unittest.main()
