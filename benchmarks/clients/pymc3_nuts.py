"""A hierarchical model of PyMC3, sampled by NUTS: the means of eight groups have a common distribution.

The program prints each of the first draws, and then the means and standard deviations of all draws.
"""

from support import Report

import numpy as np
import pymc3 as pm

GROUPS, EACH = 8, 30


def model():
    rng = np.random.RandomState(24)
    y = (1.5 + rng.normal(size=(GROUPS, 1))) + 2.0 * rng.normal(size=(GROUPS, EACH))
    with pm.Model() as hierarchy:
        mu, tau, sigma = pm.Normal("mu", 0, sd=5), pm.HalfNormal("tau", sd=2), pm.HalfNormal("sigma", sd=3)
        offset = pm.Normal("offset", 0, sd=1, shape=GROUPS)
        theta = pm.Deterministic("theta", mu + tau * offset)
        pm.Normal("y", theta[:, None], sd=sigma, observed=y)
    return hierarchy


def main(report):
    with model() as hierarchy:
        f = hierarchy.logp_dlogp_function()
        f.set_extra_values({})
        point = np.linspace(-0.5, 0.5, f.size)
        for _ in range(50):
            logp, gradient = report.step(f, point)
        report.row("logp", logp=logp)
        draws = 40 if report.small else 1000
        trace = pm.sample(
            draws,
            tune=draws,
            chains=1,
            cores=1,
            random_seed=24,
            progressbar=False,
            discard_tuned_samples=False,
            compute_convergence_checks=False,
        )
    names = ("mu", "tau", "sigma")
    for k in range(10):
        report.row("draw %d" % k, **{name: trace[name][k] for name in names})
    if not report.small:
        kept = {name: trace[name][draws:] for name in names}
        report.row("mean", **{name: kept[name].mean() for name in names})
        report.row("deviation", **{"sd_" + name: kept[name].std() for name in names})
        report.row("theta", theta_0=trace["theta"][draws:, 0].mean(), theta_7=trace["theta"][draws:, 7].mean())
    report.checksums(gradient=gradient)
    report.finish()


if __name__ == "__main__":
    main(Report(__doc__))
