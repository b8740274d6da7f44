"""Hybrid Monte Carlo: samples from a curved density in two dimensions by Hamiltonian dynamics.

A `scan` computes the leapfrog steps. `theano.clone` substitutes new positions into the expression of the gradient.
The positions, the step size and the acceptance rate are shared variables, which the sampling function updates.
"""

from support import Report

import numpy as np
import theano
import theano.tensor as T
from theano.tensor.shared_randomstreams import RandomStreams

CHAINS, LEAPS, TARGET = 50, 20, 0.95


def energy(q):
    """Return the negative log density at each row of `q`, up to a constant.

    The density is a Gaussian density that is bent along a parabola.
    """
    return 0.5 * (q[:, 0] / 2.0) ** 2 + 0.5 * (q[:, 1] - 0.5 * q[:, 0] ** 2 + 2.0) ** 2


class Sampler(object):
    def __init__(self, start, streams, step_size=0.1):
        floatX = theano.config.floatX
        self.q = theano.shared(np.asarray(start, floatX), name="q")
        self.step_size = theano.shared(np.asarray(step_size, floatX), name="step_size")
        self.rate = theano.shared(np.asarray(TARGET, floatX), name="rate")
        self.streams = streams

    def gradient_at(self, q):
        return theano.clone(self._gradient, replace={self._place: q})

    def leapfrog(self, q, p, step):
        q = q + step * p
        return q, p - step * self.gradient_at(q)

    def propose(self, q, p):
        """Return the position and the momentum after `LEAPS` leapfrog steps, and the updates of the loop.

        The first and the last half-step of the momentum are outside the loop.
        """
        self._place = T.matrix("place")
        self._gradient = T.grad(energy(self._place).sum(), self._place)
        step = self.step_size
        middle = p - 0.5 * step * self.gradient_at(q)
        (qs, ps), updates = theano.scan(self.leapfrog, outputs_info=[q, middle], non_sequences=step, n_steps=LEAPS)
        return qs[-1], ps[-1] + 0.5 * step * self.gradient_at(qs[-1]), updates

    def function(self):
        """Return a compiled function that does one step of all chains, and returns positions and the mean energy."""
        p = self.streams.normal(size=self.q.shape)
        new_q, new_p, updates = self.propose(self.q, p)
        lost = energy(self.q) + 0.5 * T.sqr(p).sum(1) - energy(new_q) - 0.5 * T.sqr(new_p).sum(1)
        accepted = T.lt(self.streams.uniform(size=(self.q.shape[0],)), T.exp(lost))
        q = T.switch(accepted.dimshuffle(0, "x"), new_q, self.q)
        rate = 0.9 * self.rate + 0.1 * T.mean(accepted)
        step_size = T.clip(self.step_size * T.switch(T.gt(rate, TARGET), 1.02, 0.98), 0.001, 0.5)
        updates.update({self.q: q, self.rate: rate, self.step_size: step_size})
        return theano.function([], [q, energy(q).mean()], updates=updates, name="sample")


def main(report):
    start = np.random.RandomState(7).normal(size=(CHAINS, 2))
    sampler = Sampler(start, RandomStreams(7 * 31))
    sample = sampler.function()
    per_row = 20 if report.small else 100
    kept = []
    for row in range(2 if report.small else 8):
        results = [report.step(sample) for _ in range(per_row)]
        kept += [q for q, _ in results]
        draws = np.concatenate([q for q, _ in results])
        report.row(
            (row + 1) * per_row,
            acceptance=sampler.rate.get_value(),
            energy=np.mean([e for _, e in results]),
            mean_0=draws[:, 0].mean(),
            mean_1=draws[:, 1].mean(),
            step_size=sampler.step_size.get_value(),
        )
    report.checksums(q=sampler.q.get_value(), all=np.array(kept))
    draws = np.concatenate(kept[len(kept) // 4 :])
    print("variance of the first coordinate: %.3f (that of the density: 4)" % draws[:, 0].var())

    def draw(figure):
        axes = figure.subplots(1, 2)
        axes[0].scatter(draws[::5, 0], draws[::5, 1], s=1, alpha=0.3)
        axes[0].set_title("samples")
        path = np.array([q[0] for q in kept[-40:]])
        axes[1].plot(path[:, 0], path[:, 1], "o-", ms=3, lw=0.5)
        axes[1].set_title("40 steps of one chain")
        for a in axes:
            a.set_xlim(-7, 7)
            a.set_ylim(-5, 18)

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
