"""A dense network of Lasagne with dropout and weight decay, trained on handwritten digits with Nesterov's momentum."""

from support import Report, digits

import sys
import types

import numpy as np
import theano
import theano.tensor as T

try:
    from theano.tensor.signal import downsample
except ImportError:
    # Lasagne 0.1 imports `downsample`, which theano_ng has, but not Theano 1.0.5. Create this module for Theano 1.0.5.
    from theano.tensor.signal import pool

    downsample = types.ModuleType("theano.tensor.signal.downsample")
    downsample.max_pool_2d = pool.pool_2d
    sys.modules[downsample.__name__] = theano.tensor.signal.downsample = downsample

import lasagne
from lasagne import layers, nonlinearities, objectives, regularization

BATCH = 100


def train(report, build, shape):
    """Train the network that `build` makes from an input variable, on images of a shape, and report the results."""
    floatX = theano.config.floatX
    (train_x, train_y), (test_x, test_y) = digits(seed=21)
    train_x, test_x = (a.astype(floatX).reshape((-1,) + shape) for a in (train_x, test_x))
    lasagne.random.set_rng(np.random.RandomState(21))
    x, y = T.TensorType(floatX, [False] * train_x.ndim)("x"), T.ivector("y")
    network = build(x)
    p_y = layers.get_output(network)
    penalty = regularization.regularize_network_params(network, regularization.l2)
    cost = objectives.categorical_crossentropy(p_y, y).mean() + 1e-4 * penalty
    params = layers.get_all_params(network, trainable=True)
    step = theano.function([x, y], cost, updates=lasagne.updates.nesterov_momentum(cost, params, 0.05, 0.9))
    p_test = layers.get_output(network, deterministic=True)
    wrong = T.neq(p_test.argmax(axis=1), y).mean()
    test = theano.function([x, y], [objectives.categorical_crossentropy(p_test, y).mean(), wrong])

    for epoch in range(2 if report.small else 10):
        costs = [report.step(step, train_x[i : i + BATCH], train_y[i : i + BATCH]) for i in range(0, 1400, BATCH)]
        test_cost, test_error = test(test_x, test_y)
        report.row(epoch, train_cost=np.mean(costs), test_cost=test_cost, test_error=test_error)
    report.checksums(**{"p%d" % k: value for k, value in enumerate(layers.get_all_param_values(network))})
    report.finish()


def build(x):
    network = layers.InputLayer((None, 64), x)
    for size in (128, 64):
        network = layers.DenseLayer(layers.dropout(network, 0.2), size, nonlinearity=nonlinearities.rectify)
    return layers.DenseLayer(network, 10, nonlinearity=nonlinearities.softmax)


if __name__ == "__main__":
    train(Report(__doc__), build, (64,))
