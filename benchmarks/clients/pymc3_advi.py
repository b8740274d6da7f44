"""The hierarchical model of `pymc3_nuts.py`, fitted by the variational inference of PyMC3 (ADVI)."""

from support import Report

import numpy as np
import pymc3 as pm
from pymc3_nuts import model


def main(report):
    with model() as hierarchy:
        # These lines replace `pm.ADVI(random_seed=25)`, which takes the variables in the order of a set. This order
        # depends on the addresses of the variables, so that the results would differ between runs.
        group = pm.Group(hierarchy.free_RVs, vfam="mean_field", random_seed=25)
        inference = pm.KLqp(pm.Approximation([group]))
        # Compile the step and run it once.
        report.step(inference.fit, 1, progressbar=False)
        step = inference.objective.step_function()
        for _ in range(20):
            report.step(step)
        per_row = 50 if report.small else 1000
        for row in range(2 if report.small else 5):
            inference.fit(per_row, progressbar=False)
            report.row((row + 1) * per_row, loss=np.mean(inference.hist[-per_row:]))
    report.checksums(mean=group.mean.eval(), deviation=group.std.eval())
    report.finish()


if __name__ == "__main__":
    main(Report(__doc__))
