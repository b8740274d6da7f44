"""A variational autoencoder of handwritten digits with two latent variables, so that the digits can be drawn in a
plane.

The encoder computes the mean and the standard deviation of the latent variables. A sample is mean + deviation * noise,
so the gradient flows through the mean and the standard deviation. The optimizer is Adam.
"""

from support import Report, digits, tiles

import numpy as np
import theano
import theano.tensor as T
from theano.sandbox.rng_mrg import MRG_RandomStreams

HIDDEN, LATENT, BATCH, RATE = 128, 2, 100, 0.003


def layer(rng, n_in, n_out, name):
    floatX = theano.config.floatX
    w = rng.normal(0, np.sqrt(1.0 / n_in), (n_in, n_out)).astype(floatX)
    return [theano.shared(w, "W_" + name), theano.shared(np.zeros(n_out, floatX), "b_" + name)]


def affine(x, params):
    return T.dot(x, params[0]) + params[1]


def adam(cost, params, rate, b1=0.9, b2=0.999, epsilon=1e-8):
    """Return the updates of the optimizer Adam.

    The steps are computed from running averages of the gradients and of their squares. Both averages start at zero; the
    factor `size` corrects the bias of this start.
    """
    floatX = theano.config.floatX
    t = theano.shared(np.asarray(0, floatX), "t")
    updates = [(t, t + 1)]
    size = rate * T.sqrt(1 - b2 ** (t + 1)) / (1 - b1 ** (t + 1))
    for p, g in zip(params, T.grad(cost, params)):
        m, v = (theano.shared(np.zeros_like(p.get_value())) for _ in range(2))
        new_m, new_v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * T.sqr(g)
        updates += [(m, new_m), (v, new_v), (p, p - size * new_m / (T.sqrt(new_v) + epsilon))]
    return updates


def main(report):
    (train_x, _), (test_x, test_y) = digits(seed=11)
    train_x, test_x = (np.asarray(a, theano.config.floatX) for a in (train_x, test_x))
    rng, streams = np.random.RandomState(11), MRG_RandomStreams(seed=11 * 31)
    encoder, centre, log_spread = (
        layer(rng, *s) for s in [(64, HIDDEN, "enc"), (HIDDEN, LATENT, "mu"), (HIDDEN, LATENT, "sd")]
    )
    decoder, pixels = layer(rng, LATENT, HIDDEN, "dec"), layer(rng, HIDDEN, 64, "out")
    params = encoder + centre + log_spread + decoder + pixels

    x, z = T.matrix("x"), T.matrix("z")
    h = T.tanh(affine(x, encoder))
    mu, log_sd = affine(h, centre), affine(h, log_spread)
    sample = mu + T.exp(log_sd) * streams.normal(mu.shape)

    def decode(latent):
        return T.nnet.sigmoid(affine(T.tanh(affine(latent, decoder)), pixels))

    rebuilding = T.nnet.binary_crossentropy(decode(sample), x).sum(axis=1).mean()
    divergence = -0.5 * (1 + 2 * log_sd - T.sqr(mu) - T.exp(2 * log_sd)).sum(axis=1).mean()
    cost = rebuilding + divergence
    step = theano.function([x], [cost, divergence], updates=adam(cost, params, RATE))
    bound = theano.function([x], cost)
    encode, draw_digits = theano.function([x], mu), theano.function([z], decode(z))

    order = np.random.RandomState(12)
    for epoch in range(2 if report.small else 60):
        results = []
        for rows in order.permutation(len(train_x) // BATCH * BATCH).reshape(-1, BATCH):
            results.append(report.step(step, train_x[rows]))
        if report.small or epoch % 5 == 4:
            costs, divergences = zip(*results)
            report.row(epoch, train_bound=np.mean(costs), divergence=np.mean(divergences), test_bound=bound(test_x))
    places = encode(test_x)
    report.checksums(places=places, **{p.name: p.get_value() for p in params[::2]})

    def draw(figure):
        axes = figure.subplots(1, 2)
        axes[0].scatter(places[:, 0], places[:, 1], c=test_y, cmap="tab10", s=6)
        axes[0].set_title("test digits on the plane")
        line = np.linspace(-2, 2, 10)
        grid = np.array([[a, b] for b in line[::-1] for a in line], theano.config.floatX)
        axes[1].imshow(tiles(draw_digits(grid), 10), cmap="gray", interpolation="nearest")
        axes[1].set_title("digits from the plane")
        axes[1].axis("off")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
