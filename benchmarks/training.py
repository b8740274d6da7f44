"""Training steps compared with equivalent steps written by hand in NumPy, and with their matrix products alone.

python benchmarks/training.py
"""

import measure
import numpy as np

import models


def check(name):
    """Raise an exception if compiled and NumPy results differ after three steps."""
    x, y, _ = models.data(name)
    step, parameters = models.compiled_step(name)
    by_hand = models.NumpyStep(name)
    for _ in range(3):
        costs = step(x, y), by_hand(x, y)
    tolerance = 1e-4 if x.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(*costs, rtol=tolerance)
    for ours, theirs in zip(parameters, by_hand.parameters):
        np.testing.assert_allclose(ours.get_value(borrow=True), theirs, rtol=tolerance, atol=tolerance)


def main():
    table = measure.Table(
        "Training steps", "", "step", "NumPy by hand", "products alone", "step / NumPy", "step / products"
    )
    for name in models.SHAPES:
        check(name)
        x, y, _ = models.data(name)
        step, by_hand = models.compiled_step(name)[0], models.NumpyStep(name)
        ours, numpy, limit = measure.best(
            lambda: step(x, y), lambda: by_hand(x, y), models.products_only(name), seconds=1.0
        )
        table.row(
            name,
            *map(measure.show_time, (ours, numpy, limit)),
            measure.show_ratio(ours / numpy),
            measure.show_ratio(ours / limit),
        )


if __name__ == "__main__":
    main()
