"""Operations on sparse matrices compared with SciPy: ``python benchmarks/sparse.py``.

The sparse matrix has 10,000 x 10,000 elements and 100,000 entries. The dense matrices have 1 to 64 columns.
"""

import time

import measure
import numpy as np
import scipy.sparse as sp

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import sparse


def entries_of_products(a, b, g):
    """Return the gradient of a product with respect to the entries of a csr matrix, computed with NumPy."""
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    return np.einsum("ij,ij->i", g[rows], b[a.indices])


def cases(dtype, columns):
    """Yield tuples: name, inputs, result, values, reference function of SciPy."""
    rng = np.random.RandomState(11)
    n, entries = 10000, 100000
    a = sp.csr_matrix(
        (rng.randn(entries), (rng.randint(0, n, entries), rng.randint(0, n, entries))), shape=(n, n)
    ).astype(dtype)
    a.sum_duplicates()
    b = rng.randn(n, columns).astype(dtype)
    x, c, d = sparse.csr_matrix(dtype=dtype), sparse.csc_matrix(dtype=dtype), T.TensorType(dtype, (False, False))()
    product = sparse.structured_dot(x, d)
    cost = T.sqr(product).sum() * np.asarray(0.5, dtype)
    yield "csr x dense", [x, d], product, (a, b), lambda a, b: a @ b
    yield "csc x dense", [c, d], sparse.structured_dot(c, d), (a.tocsc(), b), lambda a, b: a @ b
    yield "gradient, dense operand", [x, d], theano.grad(cost, d), (a, b), lambda a, b: a.T @ (a @ b)
    yield "gradient, csr operand", [x, d], theano.grad(cost, x), (a, b), lambda a, b: entries_of_products(a, b, a @ b)
    y = T.TensorType(dtype, (False, False))()
    yield (
        "sampled product",
        [d, y, x],
        sparse.sampling_dot(d, y, x),
        (b, b, a),
        lambda b, c, a: a.data * entries_of_products(a, c, b),
    )


def main():
    table = measure.Table(
        "Sparse matrices, 1e4 x 1e4, 1e5 entries", "", "dtype", "columns", "theano_ng", "SciPy", "ratio"
    )
    for dtype, columns in (("float64", 64), ("float32", 64), ("float64", 8), ("float64", 1)):
        for name, inputs, result, values, reference in cases(dtype, columns):
            f = theano.function(inputs, result)
            expected, found = reference(*values), f(*values)
            found = found.data if sp.issparse(found) else found
            np.testing.assert_allclose(found, expected, rtol=1e-2 if dtype == "float32" else 1e-8, atol=1e-3)
            times = measure.best(
                lambda f=f, v=values: f(*v), lambda r=reference, v=values: r(*v), clock=time.process_time
            )
            table.row(
                name, dtype, str(columns), *map(measure.show_time, times), measure.show_ratio(times[0] / times[1])
            )


if __name__ == "__main__":
    main()
