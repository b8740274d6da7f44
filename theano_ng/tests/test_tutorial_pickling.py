"""Tests of the tutorial's listings and their documented results: pickling and aliasing."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.tests.closeness import assert_close


class PicklingAndAliasing(unittest.TestCase):
    def test_pickling_shared_variables_and_graphs(self):
        import pickle

        W, b = theano.shared(np.ones((2, 2)), name="W"), theano.shared(np.zeros(2), name="b")
        W2, b2 = pickle.loads(pickle.dumps((W, b), pickle.HIGHEST_PROTOCOL))  # the guide's `__getstate__` returns W, b
        assert_close(W2.get_value(), np.ones((2, 2)))
        assert W2.name == "W" and b2.get_value().shape == (2,)
        x = T.matrix("x")
        y2 = pickle.loads(pickle.dumps(T.dot(x, W) + b, pickle.HIGHEST_PROTOCOL))  # symbolic graphs can be pickled, too
        assert theano.pp(y2) == theano.pp(T.dot(x, W) + b)

    def test_zip_readable_by_plain_numpy(self):
        import os
        import tempfile

        from theano_ng.misc.pkl_utils import dump, load

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        p = os.path.join(folder.name, "model.zip")
        with open(p, "wb") as fh:
            dump((theano.shared(np.arange(3.0), name="w"),), fh)
        arrs = np.load(p)
        self.addCleanup(arrs.close)
        assert any(np.array_equal(arrs[k], np.arange(3.0)) for k in arrs.files if k.startswith("w"))
        with open(p, "rb") as fh:
            assert_close(load(fh)[0].get_value(), [0, 1, 2])

    def test_borrowing_at_construction(self):
        a = np.ones(2, dtype="float32")
        s0, s1, s2 = theano.shared(a), theano.shared(a, borrow=False), theano.shared(a, borrow=True)
        a += 1
        assert_close(s0.get_value(), [1, 1])
        assert_close(s1.get_value(), [1, 1])
        assert_close(s2.get_value(), [2, 2])  # this holds on the CPU only

    def test_borrowing_values(self):
        s = theano.shared(np.zeros(3))
        v = s.get_value(borrow=False)
        v += 1
        assert_close(s.get_value(), [0, 0, 0])
        assert (
            isinstance(s.get_value(borrow=True), np.ndarray)
            and s.get_value(borrow=True, return_internal_type=True) is not None
        )

        def bump(z):
            z += 2
            return z

        s.set_value(bump(s.get_value(borrow=True)), borrow=True)
        assert_close(s.get_value(), [2, 2, 2])

    def test_borrowing_arguments_and_results(self):
        x = T.matrix()
        f = function([theano.In(x, borrow=True)], theano.Out(2 * x, borrow=True))
        assert_close(f(np.ones((2, 2), theano.config.floatX)), [[2, 2], [2, 2]])
