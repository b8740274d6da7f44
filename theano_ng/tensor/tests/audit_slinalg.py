"""Cases of slinalg for the audit, except for the native Ops, and conditions on the inputs of the native Ops.

`audit_cases` has all cases.
"""

import numpy as np

from theano_ng.audit.records import Case
from theano_ng.tensor import slinalg

RNG = np.random.RandomState(13)
MATRIX = RNG.randn(3, 3)
POSITIVE = MATRIX.dot(MATRIX.T) + 2 * np.eye(3)
FACTOR = np.linalg.cholesky(POSITIVE)
OTHER = POSITIVE[::-1, ::-1].copy()
WEIGHTS = RNG.randn(3)


def _square(values, count):
    """Return True if the first `count` inputs are square matrices of one shape, and the other inputs have as many rows.

    All elements must be finite and smaller than 1000 in absolute value.
    """
    lengths = {n for v in values[:count] for n in v.shape} | {v.shape[0] for v in values[count:]}
    return len(lengths) <= 1 and all(np.isfinite(v).all() and (np.abs(v) < 1e3).all() for v in values)


def _eigenvalues(x, lower):
    return np.linalg.eigvalsh(np.asarray(x, "complex128" if np.iscomplexobj(x) else "float64"), "L" if lower else "U")


def _definite(x, lower=True):
    w = _eigenvalues(x, lower)
    return len(w) == 0 or (w[0] > 0.05 and w[-1] < 100 * w[0])


def positive(values):
    """Return True if the first input is positive definite, whether the lower or the upper triangle is read."""
    return _square(values, 1) and _definite(values[0]) and _definite(values[0], False)


def triangular(values):
    """Return True if the first input is square and its lower triangle is a well-conditioned matrix."""
    return (
        _square(values, 1) and (np.abs(np.diagonal(values[0])) > 0.2).all() and np.linalg.cond(np.tril(values[0])) < 100
        if values[0].size
        else _square(values, 1)
    )


def regular(values):
    """Return True if the first input is square and well-conditioned."""
    if not _square(values, 1):
        return False
    x = values[0]
    return x.size == 0 or np.linalg.cond(x) < 100


def pair(values):
    """Return True if the eigenvalues, or the generalized eigenvalues of two matrices, are distinct.

    The second matrix, if there is one, must be positive definite.
    """
    count = min(2, sum(v.ndim == 2 for v in values))
    if not _square(values, count) or (count == 2 and not _definite(values[1])):
        return False
    w = _eigenvalues(values[0], True)
    if count == 2 and len(w):
        factor = np.linalg.inv(np.linalg.cholesky(values[1]))
        a = np.tril(values[0]) + np.tril(values[0], -1).conj().T
        w = np.linalg.eigvalsh(factor.dot(a).dot(factor.conj().T))
    return bool((np.diff(w) > 0.05).all())


def _small(values):
    return _square(values, len(values)) and all((np.abs(v) < 5).all() for v in values)


def audit_cases():
    return [
        Case(
            slinalg.CholeskyGrad(),
            [POSITIVE, FACTOR, MATRIX],
            tied=lambda values: _square(values, 3) and triangular(values[1:]),
        ),
        Case(
            slinalg.CholeskyGrad(False),
            [POSITIVE, FACTOR.T, MATRIX],
            name="CholeskyGrad of the upper triangle",
            tied=lambda values: _square(values, 3) and triangular([values[1].T]),
        ),
        Case(lambda a, g: slinalg.EigvalshGrad()(a, None, g), [POSITIVE, WEIGHTS], name="EigvalshGrad", tied=pair),
        Case(
            slinalg.EigvalshGrad(False),
            [POSITIVE.T, OTHER, WEIGHTS],
            name="EigvalshGrad of two",
            tied=lambda values: pair([v.T for v in values]),
        ),
        Case(slinalg.Expm(), [MATRIX], tied=_small),
        Case(slinalg.ExpmGrad(), [MATRIX, POSITIVE], tied=_small),
    ]
