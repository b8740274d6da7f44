"""R_op and gradient of tensor Ops against finite differences, and against each other."""

import unittest

import numpy as np

from theano_ng import tensor
from theano_ng.configdefaults import config
from theano_ng.tests.test_rop import RopLop_checker


class test_RopLop(RopLop_checker):
    """R_op and L_op of Ops that change shapes, reduce, index and multiply."""

    def test_reductions(self):
        n, m = self.mat_in_shape
        for fn in (tensor.max, tensor.sum, tensor.prod, tensor.mean):
            self.check_mat_rop_lop(fn(self.mx, axis=0), (m,))
            self.check_mat_rop_lop(fn(self.mx, axis=1), (n,))
        self.check_rop_lop(tensor.max_and_argmax(self.x)[0].dimshuffle("x"), (1,))

    def test_subtensors(self):
        (n,) = self.in_shape
        self.check_rop_lop(self.x[:4], (4,))
        self.check_rop_lop(self.x[::-2], ((n + 1) // 2,))
        self.check_rop_lop(self.x[np.array([3, 0, 3])], (3,))
        self.check_mat_rop_lop(self.mx[[0, 2, 2], [1, 1, 0]], (3,))

    def test_inc_subtensors(self):
        (n,) = self.in_shape
        t = self.x[:3] * 2
        for change in (tensor.inc_subtensor, tensor.set_subtensor):
            self.check_rop_lop(change(self.x[1:4], t), (n,))
            self.check_rop_lop(change(self.x[np.array([4, 1, 2])], t), (n,))
        self.check_rop_lop(tensor.inc_subtensor(self.x[np.array([2, 2, 1])], t**2), (n,))

    def test_shapes(self):
        (n,) = self.in_shape
        rows, cols = self.mat_in_shape
        self.check_rop_lop(self.x.dimshuffle("x", 0)[0], (n,))
        self.check_rop_lop(tensor.unbroadcast(self.x.dimshuffle("x", 0), 0).sum(axis=1), (1,))
        self.check_rop_lop(tensor.patternbroadcast(self.x[:1], (True,)), (1,))
        self.check_rop_lop(self.x[:4].reshape((2, 2)).sum(axis=0), (2,))
        self.check_mat_rop_lop(self.mx.flatten(), (rows * cols,))
        self.check_mat_rop_lop(self.mx.dimshuffle(1, 0).sum(axis=1), (cols,))
        self.check_rop_lop(tensor.specify_shape(self.x, self.in_shape), self.in_shape)
        self.check_rop_lop(tensor.join(0, self.x, np.ones(3, config.floatX), self.x**2), (2 * n + 3,))
        self.check_rop_lop(tensor.alloc(self.x, 3, n)[1], (n,))
        self.check_rop_lop(tensor.stack([self.x[0], self.x[2] * self.x[1]]), (2,))

    def test_linear_algebra(self):
        (n,) = self.in_shape
        rows, cols = self.mat_in_shape
        a = np.asarray(self.rng.uniform(size=(n, 3)), config.floatX)
        self.check_rop_lop(tensor.dot(self.x, a), (3,))
        self.check_rop_lop(tensor.dot(self.x * 2, tensor.outer(self.x, self.x)), (n,))
        b = np.asarray(self.rng.uniform(size=(cols, 2)), config.floatX)
        self.check_mat_rop_lop(tensor.dot(self.mx, b).flatten(), (rows * 2,))

    def test_elementwise_and_casts(self):
        (n,) = self.in_shape
        self.check_rop_lop(tensor.exp(self.x) / (1 + self.x), (n,))
        self.check_rop_lop(tensor.tanh(self.x) ** self.x, (n,))
        self.check_rop_lop(tensor.switch(self.x > 0.5, self.x**2, tensor.sqrt(self.x)), (n,))
        self.check_rop_lop(tensor.cast(tensor.cast(self.x, "float64") * self.x, "float64"), (n,))
        self.check_rop_lop(tensor.clip(self.x, 0.0, 2.0), (n,))
        self.check_mat_rop_lop(tensor.nnet.softmax(self.mx).flatten(), (self.mat_in_shape[0] * self.mat_in_shape[1],))
        self.check_rop_lop(tensor.nnet.sigmoid(self.x), (n,))


if __name__ == "__main__":
    unittest.main()
