"""Multinomial logistic regression on handwritten digits, by gradient descent in minibatches.

Shared variables hold the data. A training step takes the index of a minibatch, and `givens` replaces the inputs by the
rows of the minibatch.
"""

from support import Report, digits, tiles

import numpy as np
import theano
import theano.tensor as T

BATCH, RATE, PENALTY = 100, 0.5, 1e-4


class LogisticRegression(object):
    """The class probabilities softmax(x W + b). The initial weights are zero."""

    def __init__(self, x, n_in, n_out):
        floatX = theano.config.floatX
        self.W = theano.shared(np.zeros((n_in, n_out), floatX), name="W", borrow=True)
        self.b = theano.shared(np.zeros(n_out, floatX), name="b", borrow=True)
        self.p_y = T.nnet.softmax(T.dot(x, self.W) + self.b)
        self.prediction = T.argmax(self.p_y, axis=1)
        self.params = [self.W, self.b]

    def cost(self, y):
        return -T.mean(T.log(self.p_y)[T.arange(y.shape[0]), y])

    def errors(self, y):
        return T.mean(T.neq(self.prediction, y))


def shared_set(images, labels):
    images = theano.shared(np.asarray(images, theano.config.floatX), borrow=True)
    return images, T.cast(theano.shared(labels, borrow=True), "int32")


def main(report):
    train, test = digits(seed=1)
    train_x, train_y = shared_set(*train)
    test_x, test_y = shared_set(*test)
    batches = len(train[0]) // BATCH

    index = T.lscalar("index")
    x, y = T.matrix("x"), T.ivector("y")
    model = LogisticRegression(x, n_in=64, n_out=10)
    cost = model.cost(y) + PENALTY * (model.W**2).sum()
    updates = [(p, p - RATE * g) for p, g in zip(model.params, T.grad(cost, model.params))]
    rows = slice(index * BATCH, (index + 1) * BATCH)
    step = theano.function([index], cost, updates=updates, givens={x: train_x[rows], y: train_y[rows]})
    validate = theano.function([], [model.cost(y), model.errors(y)], givens={x: test_x, y: test_y})

    for epoch in range(2 if report.small else 20):
        costs = [report.step(step, i) for i in range(batches)]
        test_cost, test_error = validate()
        report.row(epoch, train_cost=np.mean(costs), test_cost=test_cost, test_error=test_error)
    report.checksums(W=model.W.get_value(), b=model.b.get_value())

    def draw(figure):
        axes = figure.subplots(1, 2, gridspec_kw={"width_ratios": [2, 3]})
        for name in ("train_cost", "test_cost"):
            axes[0].plot([row[name] for row in report.rows], label=name.replace("_", " "))
        axes[0].set_xlabel("epoch")
        axes[0].legend()
        axes[1].imshow(tiles(model.W.get_value().T, 5), cmap="RdBu")
        axes[1].set_title("weights of the ten digits")
        axes[1].axis("off")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
