"""Functions that compare values. The tests of the tutorials share them."""

import numpy as np


def assert_close(got, want, tol=1e-6):
    """Assert that two values are equal in float64 up to a relative or absolute error `tol`; `want` is broadcast."""
    np.testing.assert_allclose(np.asarray(got, dtype="float64"), np.asarray(want, dtype="float64"), rtol=tol, atol=tol)
