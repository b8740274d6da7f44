"""Hints about matrices for rewriting, and Ops of linear algebra imported from other modules."""

from theano_ng.sandbox.linalg.ops import (
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
