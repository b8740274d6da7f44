"""Cases of nlinalg for the audit, except for the native Ops; `audit_cases` has all cases."""

import numpy as np

from theano_ng.audit.records import Case
from theano_ng.sandbox.linalg.ops import psd
from theano_ng.tensor import nlinalg

RNG = np.random.RandomState(12)
REGULAR = RNG.randn(3, 3) + 3 * np.eye(3)
SYMMETRIC = REGULAR + REGULAR.T
TALL, WIDE = RNG.randn(4, 3), RNG.randn(2, 4)
WEIGHTS, GRADIENT = RNG.randn(3), RNG.randn(3, 3)
NO_GRADIENT = dict.fromkeys(("grad", "R_op"), "there is none")


def _apart(s):
    """Return True if the numbers are finite, and their absolute values are neither near zero nor near each other."""
    s = np.sort(np.abs(s))
    return bool(np.isfinite(s).all() and (s > 0.05).all() and (np.diff(s) > 0.05).all())


def _regular(values):
    """Return True if the first input is a matrix with distinct singular values, all far from zero."""
    x = np.asarray(values[0], "complex128" if np.iscomplexobj(values[0]) else "float64")
    return np.isfinite(x).all() and _apart(np.linalg.svd(x, compute_uv=False))


def is_regular(values):
    """Return True if the first input is a square matrix with distinct singular values, all far from zero."""
    return len(set(values[0].shape)) == 1 and _regular(values)


def _distinct(values):
    """Return True if the first input is a matrix whose two triangles both give distinct eigenvalues."""
    x = np.asarray(values[0])
    return len(set(x.shape)) == 1 and np.isfinite(x).all() and all(_apart(np.linalg.eigvalsh(x, UPLO)) for UPLO in "LU")


def _distinct_and_real(values):
    if not is_regular(values):
        return False
    w, v = np.linalg.eig(values[0])
    return not np.iscomplexobj(w) and _apart(w) and np.linalg.cond(v) < 100


def _regular_tensor(values):
    x = values[0]
    n = x.shape[0]
    return x.size == n * n and _regular([x.reshape(n, n)]) and all(v.shape == (n,) for v in values[1:])


def _independent(values):
    """Return True if the first min(m, n) columns of an m x n matrix are linearly independent, as QR requires."""
    x = np.asarray(values[0])
    k = min(x.shape)
    return np.isfinite(x).all() and (k == 0 or np.linalg.cond(x[:, :k]) < 100)


def audit_cases():
    return [
        Case(nlinalg.MatrixPinv(), [TALL], tied=_regular),
        Case(nlinalg.Eig(), [np.diag([1.0, 2.0, 4.0]) + np.triu(REGULAR, 1)], tied=_distinct_and_real),
        Case(nlinalg.Eigh(), [SYMMETRIC], tied=_distinct),
        Case(nlinalg.Eigh("U"), [SYMMETRIC], tied=_distinct, name="Eigh of the upper triangle"),
        Case(
            nlinalg.EighGrad(),
            [SYMMETRIC, *np.linalg.eigh(SYMMETRIC), WEIGHTS, GRADIENT],
            tied=lambda values: (
                len({n for v in values for n in v.shape}) == 1
                and all(np.isfinite(v).all() for v in values)
                and _apart(values[1])
            ),
        ),
        Case(nlinalg.QRFull("reduced"), [TALL], tied=_independent, name="QR"),
        Case(nlinalg.QRFull("reduced"), [WIDE], tied=_independent, name="QR of a wide matrix"),
        Case(
            nlinalg.QRFull("complete"),
            [WIDE],
            tied=lambda values: _independent(values) and values[0].shape[0] <= values[0].shape[1],
            name="QR complete",
        ),
        Case(nlinalg.QRFull("raw"), [TALL], name="QR raw"),
        Case(nlinalg.QRIncomplete("r"), [TALL], tied=_independent, name="QR of R"),
        Case(nlinalg.SVD(full_matrices=False), [TALL], tied=_regular, name="SVD"),
        Case(nlinalg.SVD(compute_uv=False), [WIDE], tied=_regular, name="SVD of values"),
        Case(nlinalg.TensorInv(1), [REGULAR.reshape(3, 3, 1)], tied=_regular_tensor),
        Case(nlinalg.TensorSolve(), [REGULAR.reshape(3, 3, 1), WEIGHTS], tied=_regular_tensor),
        Case(
            lambda x, y: nlinalg.lstsq()(x, y, -1),
            [TALL, TALL[:, 0] + 1],
            tied=lambda values: _regular(values) and values[0].shape[:1] == values[1].shape,
            name="lstsq",
        ),
        Case(nlinalg.AllocDiag(), [WEIGHTS], name="AllocDiag of nlinalg"),
        Case(lambda x: nlinalg.trace(x), [TALL], name="trace"),
        Case(psd, [SYMMETRIC], name="Hint"),
    ]
