"""Graphs that the tests of this package draw."""

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


def perceptron(profile=False):
    """Return a function: a perceptron with one hidden layer, and an update in place."""
    rng = np.random.RandomState(0)
    x = T.dmatrix("x")
    wh, bh = theano.shared(rng.normal(0, 1, (6, 5)), "wh"), theano.shared(np.zeros(5), "bh")
    wy = theano.shared(rng.normal(0, 1, (5, 3)), "wy")
    y = T.nnet.softmax(T.dot(T.nnet.sigmoid(T.dot(x, wh) + bh), wy))
    return theano.function([x], y, updates=[(bh, bh + 1)], profile=profile, name="predict", mode="FAST_RUN")


def opfromgraph():
    """Return a function that applies an OpFromGraph twice."""
    x, y, z = T.scalars("xyz")
    op = theano.OpFromGraph([x, y, z], [T.nnet.sigmoid((x + y + z) ** 2)])
    return theano.function([x, y, z], op(x, y, z) + op(z, y, x), mode="FAST_COMPILE")


def nested():
    """Return a function with an OpFromGraph in another OpFromGraph."""
    x, y, z = T.scalars("xyz")
    op = theano.OpFromGraph([x, y], [x * y])
    op2 = theano.OpFromGraph([x, y, z], [op(x, y) + z])
    return theano.function([x, y, z], [op2(x, y, z) + z], mode="FAST_COMPILE")


def loop():
    """Return an expression with a scan."""
    x = T.dmatrix("x")
    sums, _ = theano.scan(lambda row, total: total + row, sequences=x, outputs_info=T.zeros(3))
    return sums[-1]


def chain(length):
    """Return an expression with about four times `length` nodes."""
    v = T.dmatrix("x")
    for i in range(length):
        v = T.tanh(v + i) * v[:, :1]
    return v
