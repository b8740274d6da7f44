"""Train five small networks wholly on a device: only the inputs are copied to it, and only the cost is copied back.

    THEANO_FLAGS=device=opencl0:0 python examples/on_device.py [--steps N] [NAME ...]

Without a device, the same programs run on the host. The flag ``assert_no_cpu_op=raise`` makes sure that no node with
arrays stays on the host.
"""

import argparse
import time

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams
from theano_ng.tensor.signal.pool import pool_2d

RATE = 0.05


def weights(rng, *shape):
    """Return a shared variable of random weights (uniform, after Glorot and Bengio, 2010)."""
    fan_in, fan_out = (shape[0], shape[1]) if len(shape) == 2 else (np.prod(shape[1:]), shape[0] * np.prod(shape[2:]))
    bound = np.sqrt(6.0 / (fan_in + fan_out))
    return theano.shared(rng.uniform(-bound, bound, shape).astype(theano.config.floatX))


def zeros(*shape):
    """Return a shared variable of zeros."""
    return theano.shared(np.zeros(shape, theano.config.floatX))


def descent(cost, parameters):
    """Return the updates of a step of gradient descent."""
    rate = np.asarray(RATE, theano.config.floatX)
    return [(p, p - rate * g) for p, g in zip(parameters, T.grad(cost, parameters))]


def adam(cost, parameters, rate=0.001, b1=0.9, b2=0.999):
    """Return the updates of a step of Adam (Kingma and Ba, 2015)."""
    number = theano.shared(np.asarray(0, theano.config.floatX))
    now = number + 1
    scale = rate * T.sqrt(1 - b2**now) / (1 - b1**now)
    updates = [(number, now)]
    for p, g in zip(parameters, T.grad(cost, parameters)):
        mean, square = zeros(*p.get_value().shape), zeros(*p.get_value().shape)
        new_mean, new_square = b1 * mean + (1 - b1) * g, b2 * square + (1 - b2) * g**2
        step = T.cast(scale * new_mean / (T.sqrt(new_square) + 1e-8), p.dtype)
        updates += [(mean, new_mean), (square, new_square), (p, p - step)]
    return [(p, T.cast(new, p.dtype)) for p, new in updates]


def classifier(layers, x, y):
    """Return the cost of a classifier, given its last layer's weights, bias and input."""
    w, b = layers
    return T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(x, w) + b), y).mean()


def logistic_regression(rng, batch):
    """Classify 784 pixels into 10 classes."""
    x, y = T.matrix("x"), T.ivector("y")
    w, b = parameters = [weights(rng, 784, 10), zeros(10)]
    cost = classifier((w, b), x, y)
    return [x, y], cost, descent(cost, parameters), pictures(rng, batch, 784)


def mlp(rng, batch):
    """Classify 784 pixels by a network with 500 hidden units and dropout."""
    x, y = T.matrix("x"), T.ivector("y")
    w1, b1, w2, b2 = parameters = [weights(rng, 784, 500), zeros(500), weights(rng, 500, 10), zeros(10)]
    hidden = T.tanh(T.dot(x, w1) + b1)
    mask = MRG_RandomStreams(5).binomial(hidden.shape, p=0.5, dtype=theano.config.floatX)
    cost = classifier((w2, b2), hidden * mask * 2, y)
    return [x, y], cost, descent(cost, parameters), pictures(rng, batch, 784)


def lenet(rng, batch):
    """Classify pictures of 28 by 28 pixels by two layers of convolution and pooling, and two dense layers."""
    x, y = T.tensor4("x"), T.ivector("y")
    f1, c1, f2, c2 = [weights(rng, 20, 1, 5, 5), zeros(20), weights(rng, 50, 20, 5, 5), zeros(50)]
    w3, b3, w4, b4 = [weights(rng, 800, 500), zeros(500), weights(rng, 500, 10), zeros(10)]
    layer = x
    for filters, bias in ((f1, c1), (f2, c2)):
        layer = T.nnet.conv2d(layer, filters, filter_shape=filters.get_value().shape)
        layer = T.tanh(pool_2d(layer, (2, 2), ignore_border=True) + bias.dimshuffle("x", 0, "x", "x"))
    cost = classifier((w4, b4), T.tanh(T.dot(layer.flatten(2), w3) + b3), y)
    return [x, y], cost, descent(cost, [f1, c1, f2, c2, w3, b3, w4, b4]), pictures(rng, batch, 1, 28, 28)


def lstm(rng, batch, length=30, size=64):
    """Classify sequences of vectors by the last state of an LSTM (Hochreiter and Schmidhuber, 1997)."""
    x, y = T.tensor3("x"), T.ivector("y")
    inner, outer, bias = weights(rng, 32, 4 * size), weights(rng, size, 4 * size), zeros(4 * size)
    w, b = weights(rng, size, 10), zeros(10)

    def step(from_input, state, cell, outer):
        gates = from_input + T.dot(state, outer)
        forget, enter, leave = [T.nnet.sigmoid(gates[:, k * size : (k + 1) * size]) for k in range(3)]
        cell = forget * cell + enter * T.tanh(gates[:, 3 * size :])
        return leave * T.tanh(cell), cell

    start = T.zeros((x.shape[1], size), theano.config.floatX)
    (states, _), _ = theano.scan(
        step, sequences=T.dot(x, inner) + bias, outputs_info=[start, start], non_sequences=outer
    )
    cost = classifier((w, b), states[-1], y)

    def draw():
        return rng.normal(size=(length, batch, 32)).astype(theano.config.floatX), labels(rng, batch)

    return [x, y], cost, descent(cost, [inner, outer, bias, w, b]), draw


def vae(rng, batch, size=20):
    """Learn a variational autoencoder of 784 pixels (Kingma and Welling, 2014)."""
    x = T.matrix("x")
    w1, b1, w_mean, b_mean = weights(rng, 784, 200), zeros(200), weights(rng, 200, size), zeros(size)
    w_log, b_log, w2, b2 = weights(rng, 200, size), zeros(size), weights(rng, size, 200), zeros(200)
    w3, b3 = weights(rng, 200, 784), zeros(784)
    hidden = T.tanh(T.dot(x, w1) + b1)
    mean, log_variance = T.dot(hidden, w_mean) + b_mean, T.dot(hidden, w_log) + b_log
    noise = MRG_RandomStreams(7).normal(mean.shape, dtype=theano.config.floatX)
    code = mean + T.exp(log_variance / 2) * noise
    picture = T.nnet.sigmoid(T.dot(T.tanh(T.dot(code, w2) + b2), w3) + b3)
    divergence = -0.5 * (1 + log_variance - mean**2 - T.exp(log_variance)).sum(axis=1)
    cost = (T.nnet.binary_crossentropy(picture, x).sum(axis=1) + divergence).mean()
    updates = adam(cost, [w1, b1, w_mean, b_mean, w_log, b_log, w2, b2, w3, b3])

    def draw():
        return (rng.uniform(size=(batch, 784)).astype(theano.config.floatX),)

    return [x], cost, updates, draw


def labels(rng, batch):
    return rng.integers(0, 10, batch).astype("int32")


def pictures(rng, batch, *shape):
    """Return a function that draws pictures and labels."""
    return lambda: (rng.uniform(size=(batch, *shape)).astype(theano.config.floatX), labels(rng, batch))


PROGRAMS = {"logistic regression": logistic_regression, "MLP": mlp, "LeNet": lenet, "LSTM": lstm, "VAE": vae}


def program(name, batch=64, seed=1):
    """Return a training step and its data.

    Parameters
    ----------
    name : str
        A key of `PROGRAMS`.
    batch, seed : int

    Returns
    -------
    inputs : list of Variable
    cost : Variable
    updates : list of (shared variable, Variable)
    draw : callable
        Returns random values for the inputs.
    """
    return PROGRAMS[name](np.random.default_rng(seed), batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", default=list(PROGRAMS), metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    for name in arguments.names:
        inputs, cost, updates, draw = program(name)
        step = theano.function(inputs, cost, updates=updates)
        values = draw()
        first = step(*values)
        start = time.perf_counter()
        for _ in range(arguments.steps):
            last = step(*values)
        milliseconds = 1e3 * (time.perf_counter() - start) / arguments.steps
        print("%-20s cost %8.4f -> %8.4f, %6.2f ms a step" % (name, first, last, milliseconds))


if __name__ == "__main__":
    main()
