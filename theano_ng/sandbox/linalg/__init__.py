"""Hints about matrices for rewriting, and the usual Ops of linear algebra under one name."""

from theano_ng.sandbox.linalg.ops import (  # noqa: F401
    alloc_diag,
    cholesky,
    det,
    diag,
    eig,
    eigh,
    eigvalsh,
    extract_diag,
    matrix_inverse,
    psd,
    solve,
    spectral_radius_bound,
    trace,
)
