"""Gradients, second gradients and R-operators of expressions with complex intermediate values, compared with finite
differences along a real variable.
"""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.sparse as sparse
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import nlinalg, slinalg

# Each expression depends on x, a real matrix, and v, a complex matrix that depends on x.
DENSE = {
    "abs": lambda x, v: abs(v),
    "abs of a square": lambda x, v: abs(T.sqr(v)),
    "angle": lambda x, v: T.angle(v),
    "sign": lambda x, v: T.sgn(v),
    "inverse": lambda x, v: abs(1 / v),
    "square": lambda x, v: v**2,
    "cube": lambda x, v: v**3,
    "root": lambda x, v: v**0.5,
    "conjugate": lambda x, v: v.conj() * v * v,
    "switch": lambda x, v: T.switch(x > 0, v * v, x),
    "polar": lambda x, v: T.complex_from_polar(abs(v), x),
    "real times complex": lambda x, v: x * v,
    "complex over real": lambda x, v: v / (2 + x**2),
    "product": lambda x, v: T.prod(v, 0, no_zeros_in_input=True),
    "cumulative product": lambda x, v: T.cumprod(v, 0),
    "cumulative sum": lambda x, v: T.cumsum(v * v, 1),
    "dot": lambda x, v: T.dot(v, v),
    "dot of a real matrix": lambda x, v: T.dot(x, v) + T.dot(v, x),
    "dot of a conjugate": lambda x, v: T.dot(v.conj().T, v),
    "matrix and vector": lambda x, v: T.dot(v, v[0]) + T.dot(v[1], v),
    "vectors": lambda x, v: T.dot(v[0], v[1]) * T.dot(x[0], v[1]),
    "outer": lambda x, v: T.outer(v[0], v[1]),
    "batched dot": lambda x, v: T.batched_dot(v.dimshuffle("x", 0, 1), v.dimshuffle("x", 1, 0)),
    "tensordot": lambda x, v: T.tensordot(v, v, 2) * v,
    "matrix power": lambda x, v: nlinalg.matrix_power(v, 3),
    "matrix inverse": lambda x, v: nlinalg.matrix_inverse(v),
    "pseudoinverse": lambda x, v: nlinalg.pinv(v),
    "determinant": lambda x, v: nlinalg.det(v),
    "solve": lambda x, v: slinalg.solve(v, v[0]),
    "triangular": lambda x, v: slinalg.solve_lower_triangular(v, v[0]),
    "cholesky": lambda x, v: slinalg.cholesky(T.dot(v, v.conj().T)),
    "exponential": lambda x, v: slinalg.expm(v),
    "join": lambda x, v: T.join(0, x, v) ** 2,
    "stack": lambda x, v: T.stack([x, v, x], axis=1) ** 2,
    "assignment": lambda x, v: T.set_subtensor(v[1:], x[:2]) ** 2,
    "assignment to rows": lambda x, v: T.set_subtensor(v[[2, 0]], x[:2]) ** 2,
    "assignment of a number": lambda x, v: T.set_subtensor(v[:, 1], x[0, 0]) ** 2,
    "increment": lambda x, v: T.inc_subtensor(v[::-1], x) ** 2,
    "increment of repeated rows": lambda x, v: T.inc_subtensor(v[[0, 2, 0]], x * x) ** 2,
    "increment of a block": lambda x, v: T.inc_subtensor(v[[[0], [2]], [1, 1]], x[:2, :2]) ** 2,
    "increment of a selection": lambda x, v: T.inc_subtensor(v[np.eye(3) > 0], x[0]) ** 2,
    "diagonal": lambda x, v: T.fill_diagonal(v, x[0, 0]) ** 2,
    "complex sum": lambda x, v: T.sum(x * x, 0, dtype="complex128") * v,
    "complex mean": lambda x, v: T.mean(x * x, 0, dtype="complex128") * v,
    "complex product": lambda x, v: T.prod(x * x, 0, dtype="complex128", no_zeros_in_input=True) * v,
    "variance": lambda x, v: v.var(0),
    "standard deviation": lambda x, v: v.std(0),
    "norm": lambda x, v: v.norm(2),
    "loop": lambda x, v: theano.scan(lambda a, b: a * b + a, sequences=v, outputs_info=v[0])[0],
}


def _csr(x):
    return sparse.csr_from_dense(x)


SPARSE = {
    "dot": lambda x, v: sparse.dot(_csr(v), v) + sparse.dot(v, sparse.csc_from_dense(v)),
    "dot of a real matrix": lambda x, v: sparse.dot(_csr(x), v) + sparse.dot(_csr(v), x),
    "dot of a vector": lambda x, v: sparse.dot(_csr(v), v[0]),
    "structured dot": lambda x, v: sparse.structured_dot(_csr(v), v) + sparse.structured_dot(_csr(x), v),
    "structured dot of sparse matrices": lambda x, v: sparse.structured_dot(_csr(v), _csr(v)),
    "true dot": lambda x, v: sparse.true_dot(_csr(v), v),
    "true dot of sparse matrices": lambda x, v: sparse.true_dot(_csr(v), _csr(v)),
    "sampling dot": lambda x, v: sparse.sampling_dot(x, v, _csr(v)),
    "product": lambda x, v: sparse.mul(_csr(v), _csr(v)),
    "product with a real matrix": lambda x, v: sparse.mul(_csr(x), _csr(v)),
    "product with a dense matrix": lambda x, v: sparse.mul(_csr(x), v) + sparse.mul(_csr(v), x * v),
    "product with a number": lambda x, v: sparse.mul(_csr(v), v[0, 0]),
    "product with a vector": lambda x, v: sparse.mul_s_v(_csr(v), v[0]),
    "sum with a real matrix": lambda x, v: sparse.add(_csr(x), sparse.sqr(_csr(v))),
    "scaled columns": lambda x, v: sparse.col_scale(sparse.csc_from_dense(v), v[0]),
    "scaled rows": lambda x, v: sparse.row_scale(sparse.csc_from_dense(v), v[0]),
}


class TestComplexGradients(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(3)
        self.point = rng.normal(size=(3, 3))
        self.constant = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
        self.weights = np.cos(np.arange(40))

    def cost(self, y):
        """Return a real number that depends on all parts of an expression."""
        y = (sparse.dense_from_sparse(y) if isinstance(y.type, sparse.SparseType) else y).flatten()
        weights = T.constant(self.weights)[: y.shape[0]]
        if not y.dtype.startswith("complex"):
            return (y * weights).sum()
        return (T.real(y) * weights).sum() + (T.imag(y) * weights[::-1]).sum()

    def slopes(self, f):
        """Return the derivatives of a function of a matrix with respect to its elements, by finite differences."""
        found, step = np.zeros((3, 3)), 1e-5
        for place in np.ndindex(3, 3):
            move = np.zeros((3, 3))
            move[place] = step
            found[place] = (f(self.point + move) - f(self.point - move)) / (2 * step)
        return found

    def check(self, expressions, modes, tangents):
        x = T.dmatrix("x")
        v = x - T.constant(self.constant)
        directions = T.constant(self.weights[:9].reshape(3, 3))
        for name, make in expressions.items():
            for mode in modes:
                with self.subTest(name, mode=str(mode)):
                    cost = self.cost(make(x, v))
                    for _ in range(2):
                        gradient = theano.grad(cost, x, disconnected_inputs="ignore")
                        self.assertEqual(gradient.type, x.type)
                        outputs = [gradient, *([T.Rop(cost, x, directions)] if tangents else [])]
                        f, g = [theano.function([x], y, mode=mode, on_unused_input="ignore") for y in (cost, outputs)]
                        expected, found = self.slopes(f), g(self.point)
                        scale = max(1, abs(expected).max())
                        np.testing.assert_allclose(found[0] / scale, expected / scale, atol=1e-7)
                        if tangents:
                            sum_of_slopes = (expected * self.weights[:9].reshape(3, 3)).sum()
                            np.testing.assert_allclose(found[1] / scale, sum_of_slopes / scale, atol=1e-7)
                        cost = (gradient * directions).sum()

    def test_dense(self):
        self.check(DENSE, [Mode("py", None), "FAST_RUN"], tangents=True)

    def test_sparse(self):
        self.check(SPARSE, [Mode("py", None), "FAST_RUN"], tangents=False)


if __name__ == "__main__":
    unittest.main()
