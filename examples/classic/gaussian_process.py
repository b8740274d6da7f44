"""Regression by a Gaussian process. Its three parameters are found by maximizing the likelihood of the data.

The likelihood and its gradients are computed by a Cholesky decomposition and triangular systems of `slinalg`.
"""

from support import Report

import numpy as np
import theano
import theano.tensor as T
from theano.tensor import nlinalg, slinalg

POINTS, RATE, MOMENTUM = 60, 0.02, 0.8


def kernel(a, b, log_width, log_scale):
    """Return the covariance exp(2 log_scale - |a - b|^2 / (2 width^2)) for all pairs of elements of `a` and `b`."""
    distances = T.sqr(a.dimshuffle(0, "x") - b.dimshuffle("x", 0))
    return T.exp(2 * log_scale - 0.5 * distances * T.exp(-2 * log_width))


def main(report):
    floatX = theano.config.floatX
    rng = np.random.RandomState(10)
    inputs = np.sort(np.concatenate([rng.uniform(-4, -0.5, POINTS // 2), rng.uniform(1, 4, POINTS - POINTS // 2)]))
    values = np.sin(2 * inputs) + 0.3 * inputs + 0.15 * rng.normal(size=POINTS)

    x, y, new = T.vector("x"), T.vector("y"), T.vector("new")
    params = [
        theano.shared(np.asarray(v, floatX), name)
        for name, v in [("log_width", 0.7), ("log_scale", 0.0), ("log_noise", -0.5)]
    ]
    log_width, log_scale, log_noise = params
    covariance = kernel(x, x, log_width, log_scale) + T.exp(2 * log_noise) * T.eye(x.shape[0])
    L = slinalg.cholesky(covariance)
    white = slinalg.solve_lower_triangular(L, y)
    cost = 0.5 * T.sqr(white).sum() + T.log(nlinalg.diag(L)).sum() + 0.5 * x.shape[0] * np.log(2 * np.pi)
    cost = cost / x.shape[0]
    updates = []
    for p, g in zip(params, T.grad(cost, params)):
        velocity = theano.shared(np.zeros_like(p.get_value()))
        new_velocity = MOMENTUM * velocity - RATE * g
        updates += [(velocity, new_velocity), (p, p + new_velocity)]
    step = theano.function([x, y], [cost] + params, updates=updates)

    across = kernel(x, new, log_width, log_scale)
    mean = T.dot(across.T, slinalg.solve(covariance, y))
    spread = T.exp(2 * log_scale) - T.sqr(slinalg.solve_lower_triangular(L, across)).sum(axis=0)
    predict = theano.function([x, y, new], [mean, T.sqrt(spread)])

    inputs, values = inputs.astype(floatX), values.astype(floatX)
    per_row = 10 if report.small else 50
    for row in range(2 if report.small else 8):
        results = [report.step(step, inputs, values) for _ in range(per_row)]
        cost_now, width, scale, noise = results[-1]
        numbers = {"width": np.exp(width), "scale": np.exp(scale), "noise": np.exp(noise)}
        report.row((row + 1) * per_row, cost=cost_now, **numbers)
    grid = np.linspace(-5, 5, 201).astype(floatX)
    middle, deviation = predict(inputs, values, grid)
    report.checksums(mean=middle, deviation=deviation)

    def draw(figure):
        axes = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2]})
        axes[0].fill_between(grid, middle - 2 * deviation, middle + 2 * deviation, alpha=0.25)
        axes[0].plot(grid, middle)
        axes[0].plot(inputs, values, "k.", ms=4)
        axes[0].set_title("prediction, two standard deviations")
        for name in ("width", "scale", "noise"):
            axes[1].plot([int(row["row"]) for row in report.rows], [row[name] for row in report.rows], label=name)
        axes[1].set_xlabel("step")
        axes[1].legend()

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
