"""A restricted Boltzmann machine, trained by persistent contrastive divergence.

A `scan` runs the Gibbs chain; its steps draw from `RandomStreams`. `scan` returns the updates of the streams, which
must be passed to the training function. The gradient treats the last sample of the chain as a constant.
"""

from support import Report, digits, tiles

import numpy as np
import theano
import theano.tensor as T
from theano.tensor.shared_randomstreams import RandomStreams

HIDDEN, BATCH, RATE, STEPS = 100, 20, 0.05, 5


class RBM(object):
    def __init__(self, rng, streams, n_visible, n_hidden):
        floatX = theano.config.floatX
        w = (0.1 * rng.normal(size=(n_visible, n_hidden))).astype(floatX)
        self.W = theano.shared(w, name="W", borrow=True)
        self.h_bias = theano.shared(np.zeros(n_hidden, floatX), name="h_bias", borrow=True)
        self.v_bias = theano.shared(np.zeros(n_visible, floatX), name="v_bias", borrow=True)
        self.params = [self.W, self.h_bias, self.v_bias]
        self.streams = streams

    def free_energy(self, v):
        return -T.dot(v, self.v_bias) - T.sum(T.nnet.softplus(T.dot(v, self.W) + self.h_bias), axis=1)

    def draw(self, p):
        return self.streams.binomial(size=p.shape, n=1, p=p, dtype=theano.config.floatX)

    def gibbs(self, h):
        """Do one Gibbs step, which draws visible units from hidden units, and then hidden units from visible units.

        Return the probabilities and samples of the visible units, and samples of the hidden units.
        """
        p_v = T.nnet.sigmoid(T.dot(h, self.W.T) + self.v_bias)
        v = self.draw(p_v)
        return p_v, v, self.draw(T.nnet.sigmoid(T.dot(v, self.W) + self.h_bias))

    def training(self, x, chain, rate):
        """Return the cost, the probabilities of the visible units at the end of the chain, and the updates.

        The cost is the difference between the mean free energies of the data and of the samples of the chain.
        """
        (p_v, v, h), updates = theano.scan(self.gibbs, outputs_info=[None, None, chain], n_steps=STEPS)
        end = v[-1]
        cost = T.mean(self.free_energy(x)) - T.mean(self.free_energy(end))
        for p, g in zip(self.params, T.grad(cost, self.params, consider_constant=[end])):
            updates[p] = p - g * T.cast(rate, theano.config.floatX)
        updates[chain] = h[-1]
        return cost, p_v[-1], updates


def main(report):
    (train_x, _), (test_x, _) = digits(seed=5)
    data = theano.shared(np.asarray(train_x > 0.5, theano.config.floatX), borrow=True)
    held_out = np.asarray(test_x > 0.5, theano.config.floatX)
    x, index = T.matrix("x"), T.lscalar("index")
    model = RBM(np.random.RandomState(5), RandomStreams(5 * 31), 64, HIDDEN)
    chain = theano.shared(np.zeros((BATCH, HIDDEN), theano.config.floatX), name="chain", borrow=True)
    cost, fantasies, updates = model.training(x, chain, RATE)
    minibatch = data[index * BATCH : (index + 1) * BATCH]
    step = theano.function([index], [cost, fantasies], updates=updates, givens={x: minibatch}, name="train")
    h = T.nnet.sigmoid(T.dot(x, model.W) + model.h_bias)
    p_v = T.nnet.sigmoid(T.dot(h, model.W.T) + model.v_bias)
    validate = theano.function([x], [T.mean((p_v - x) ** 2), T.mean(model.free_energy(x))])

    for epoch in range(1 if report.small else 15):
        costs = []
        for i in range(len(train_x) // BATCH):
            difference, particles = report.step(step, i)
            costs.append(difference)
        error, energy = validate(held_out)
        report.row(epoch, energy_difference=np.mean(costs), test_mse=error, test_energy=energy)
    report.checksums(chain=chain.get_value(), **{p.name: p.get_value() for p in model.params})

    def draw(figure):
        axes = figure.subplots(1, 3)
        parts = [("data", train_x), ("filters", model.W.get_value().T), ("fantasies", particles)]
        for a, (title, images) in zip(axes, parts):
            a.imshow(tiles(images[:20], 5), cmap="gray")
            a.set_title(title)
            a.axis("off")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
