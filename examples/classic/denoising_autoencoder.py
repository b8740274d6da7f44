"""A denoising autoencoder with tied weights: its inputs are digits with a third of the pixels set to black, its outputs
the original digits.

`RandomStreams` chooses the black pixels, separately for each minibatch.
"""

from support import Report, digits, tiles

import numpy as np
import theano
import theano.tensor as T
from theano.tensor.shared_randomstreams import RandomStreams

HIDDEN, BATCH, RATE, CORRUPTION = 100, 50, 0.2, 0.3


class DenoisingAutoencoder(object):
    def __init__(self, rng, streams, n_visible, n_hidden):
        floatX = theano.config.floatX
        bound = 4 * np.sqrt(6.0 / (n_visible + n_hidden))
        w = rng.uniform(-bound, bound, (n_visible, n_hidden)).astype(floatX)
        self.W = theano.shared(w, name="W", borrow=True)
        self.b = theano.shared(np.zeros(n_hidden, floatX), name="b", borrow=True)
        self.b_visible = theano.shared(np.zeros(n_visible, floatX), name="b_visible", borrow=True)
        self.params = [self.W, self.b, self.b_visible]
        self.streams = streams

    def corrupt(self, x, level):
        return x * self.streams.binomial(size=x.shape, n=1, p=1 - level, dtype=theano.config.floatX)

    def encode(self, x):
        return T.nnet.sigmoid(T.dot(x, self.W) + self.b)

    def decode(self, h):
        return T.nnet.sigmoid(T.dot(h, self.W.T) + self.b_visible)

    def cost(self, x, level):
        z = self.decode(self.encode(self.corrupt(x, level)))
        return T.mean(T.nnet.binary_crossentropy(z, x).sum(axis=1))


def main(report):
    (train_x, _), (test_x, _) = digits(seed=4)
    data = theano.shared(np.asarray(train_x, theano.config.floatX), borrow=True)
    x, index = T.matrix("x"), T.lscalar("index")
    model = DenoisingAutoencoder(np.random.RandomState(4), RandomStreams(4 * 31), 64, HIDDEN)
    cost = model.cost(x, CORRUPTION)
    updates = [(p, p - RATE * g) for p, g in zip(model.params, T.grad(cost, model.params))]
    step = theano.function([index], cost, updates=updates, givens={x: data[index * BATCH : (index + 1) * BATCH]})
    seen = model.corrupt(x, CORRUPTION)
    rebuilt = model.decode(model.encode(seen))
    clean = theano.function([x], [seen, rebuilt, T.mean((rebuilt - x) ** 2)])

    shown = np.asarray(test_x, theano.config.floatX)
    for epoch in range(2 if report.small else 30):
        costs = [report.step(step, i) for i in range(len(train_x) // BATCH)]
        before, after, error = clean(shown)
        report.row(epoch, train_cost=np.mean(costs), test_mse=error)
    report.checksums(**{p.name: p.get_value() for p in model.params})

    def draw(figure):
        axes = figure.subplots(1, 4)
        parts = [
            ("shown", before[:40]),
            ("rebuilt", after[:40]),
            ("true", shown[:40]),
            ("filters", model.W.get_value().T[:40]),
        ]
        for a, (title, images) in zip(axes, parts):
            a.imshow(tiles(images[:20], 4), cmap="gray")
            a.set_title(title)
            a.axis("off")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
