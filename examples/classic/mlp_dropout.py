"""A network with two hidden layers on handwritten digits, with dropout, momentum, and bounds on the norms of its weights.

`MRG_RandomStreams` draws the masks of dropout. Predictions use the network without masks.
"""

from support import Report, digits

import numpy as np
import theano
import theano.tensor as T
from theano.sandbox.rng_mrg import MRG_RandomStreams

SIZES, BATCH, MOMENTUM, MAX_NORM = [64, 128, 128, 10], 100, 0.9, 3.0


def relu(x):
    return T.maximum(x, 0)


def dropout(streams, h, keep):
    mask = streams.binomial(size=h.shape, p=keep, n=1, dtype=theano.config.floatX)
    return h * mask / keep


def initial(rng):
    for n_in, n_out in zip(SIZES[:-1], SIZES[1:]):
        w = rng.normal(0, np.sqrt(2.0 / n_in), (n_in, n_out)).astype(theano.config.floatX)
        yield theano.shared(w, "W%d" % n_out), theano.shared(np.zeros(n_out, theano.config.floatX), "b%d" % n_out)


def network(x, layers, streams=None):
    """Return the class probabilities. If `streams` is given, inputs and hidden units are dropped at random."""
    h = x
    for i, (w, b) in enumerate(layers):
        if streams is not None:
            h = dropout(streams, h, keep=0.9 if i == 0 else 0.6)
        h = T.dot(h, w) + b
        if i < len(layers) - 1:
            h = relu(h)
    return T.nnet.softmax(h)


def training_updates(cost, layers, rate):
    """Return updates by gradient descent with momentum. Scale down columns of weights whose norm exceeds `MAX_NORM`."""
    updates = []
    for w, b in layers:
        for p, g in zip((w, b), T.grad(cost, [w, b])):
            v = theano.shared(np.zeros_like(p.get_value()))
            new_v = MOMENTUM * v - rate * g
            new_p = p + new_v
            if p.ndim == 2:
                norms = T.sqrt(T.sum(T.sqr(new_p), axis=0, keepdims=True))
                new_p = new_p * (T.clip(norms, 0, MAX_NORM) / (1e-7 + norms))
            updates += [(v, new_v), (p, new_p)]
    return updates


def main(report):
    (train_x, train_y), (test_x, test_y) = digits(seed=2)
    train_x, test_x = (np.asarray(a, theano.config.floatX) for a in (train_x, test_x))
    x, y, rate = T.matrix("x"), T.ivector("y"), T.scalar("rate")
    layers = list(initial(np.random.RandomState(2)))
    streams = MRG_RandomStreams(seed=234)
    cost = T.nnet.categorical_crossentropy(network(x, layers, streams), y).mean()
    step = theano.function([x, y, rate], cost, updates=training_updates(cost, layers, rate))
    p_y = network(x, layers)
    errors = theano.function([x, y], [T.nnet.categorical_crossentropy(p_y, y).mean(), T.mean(T.neq(p_y.argmax(1), y))])

    order = np.random.RandomState(3)
    for epoch in range(2 if report.small else 20):
        costs = []
        for rows in order.permutation(len(train_x) // BATCH * BATCH).reshape(-1, BATCH):
            costs.append(report.step(step, train_x[rows], train_y[rows], 0.05 * 0.95**epoch))
        test_cost, test_error = errors(test_x, test_y)
        report.row(epoch, train_cost=np.mean(costs), test_cost=test_cost, test_error=test_error)
    report.checksums(**{w.name: w.get_value() for w, b in layers})

    def draw(figure):
        axes = figure.subplots(1, 2)
        for name in ("train_cost", "test_cost"):
            axes[0].semilogy([row[name] for row in report.rows], label=name.replace("_", " "))
        axes[0].legend()
        axes[1].plot([100 * row["test_error"] for row in report.rows], color="tab:red")
        axes[1].set_title("test error (%)")
        for a in axes:
            a.set_xlabel("epoch")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
