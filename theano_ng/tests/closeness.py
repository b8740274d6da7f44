"""The comparison of numbers that the tests of the tutorials share."""

import numpy as np


def assert_close(got, want, tol=1e-6):
    """The same numbers, as floats of double precision, up to `tol` relatively or absolutely; `want` is broadcast."""
    np.testing.assert_allclose(np.asarray(got, dtype="float64"), np.asarray(want, dtype="float64"), rtol=tol, atol=tol)
