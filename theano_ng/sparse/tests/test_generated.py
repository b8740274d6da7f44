"""Compare every operation with NumPy and SciPy, in Python and in C.

The operands have both formats, several dtypes, empty shapes, and unsorted and repeated entries.
"""

import unittest

import numpy as np
import scipy.sparse as sp

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import config, sparse
from theano_ng.compile.mode import Mode
from theano_ng.sparse.tests.test_basic import dense, verify_grad_sparse

# In DebugMode, no modes are needed: DebugMode itself runs the Python code and the C code.
IN_PYTHON = None if config.mode in ("DebugMode", "DEBUG_MODE") else Mode(linker="py", optimizer=None)
IN_C = None if IN_PYTHON is None else Mode(linker="cvm", optimizer="fast_run")
DTYPES = ("float64", "float32", "int32", "uint8", "complex64")
SHAPES = ((4, 5), (5, 3), (0, 3), (3, 0), (1, 1), (6, 40))


def random_dense(rng, shape, dtype):
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return rng.randint(0, 7, size=shape).astype(dtype)
    values = rng.uniform(-1, 1, size=shape)
    return (values + (1j * rng.uniform(-1, 1, size=shape) if kind == "c" else 0)).astype(dtype)


def random_sparse(rng, format, shape, dtype, odd=False):
    """Return a matrix with empty rows; if `odd`, with unsorted indices, repeated entries, and zeros."""
    values = random_dense(rng, shape, dtype) * (rng.uniform(size=shape) < 0.4)
    result = (sp.csr_matrix if format == "csr" else sp.csc_matrix)(values)
    if odd and result.nnz:
        lines = len(result.indptr) - 1
        parts = [slice(result.indptr[i], result.indptr[i + 1]) for i in range(lines)]
        indices = np.concatenate([np.r_[result.indices[p][::-1], result.indices[p][:1]] for p in parts])
        data = np.concatenate([np.r_[result.data[p][::-1], result.data[p][:1] * 0 + 2] for p in parts])
        counts = [(p.stop - p.start) + (p.stop > p.start) for p in parts]
        result = type(result)((data.astype(dtype), indices, np.r_[0, np.cumsum(counts)]), shape=shape)
        assert not result.has_sorted_indices or lines == 1 or max(counts) < 3
    return result


class Case:
    """An operation with its operands and its expected result.

    Attributes
    ----------
    make : callable
        The operation as a function of variables.
    kinds : str
        The kinds of the operands: s sparse, o sparse in the other format, t sparse with the shape of the transpose, d
        dense, r dense with one row per column, v vector with one element per column, w vector with one element per row,
        n a scalar, q square sparse.
    expected : callable
        The expected result as a function of dense values.
    dtypes : tuple of str
    repeated : bool
        Whether entries may be repeated; False for operations that treat each entry separately.
    """

    def __init__(self, make, kinds, expected, dtypes=DTYPES, repeated=True):
        self.make, self.kinds, self.expected, self.dtypes, self.repeated = make, kinds, expected, dtypes, repeated

    def variables(self, format, dtype):
        other = {"csr": "csc", "csc": "csr"}[format]
        table = {"s": format, "q": format, "t": format, "o": other}
        made = []
        for kind in self.kinds:
            if kind in table:
                made.append(sparse.matrix(table[kind], dtype=dtype))
            else:
                made.append(T.TensorType(dtype, (False,) * {"d": 2, "r": 2, "k": 2, "v": 1, "w": 1, "n": 0}[kind])())
        return made

    def values(self, rng, format, shape, dtype, odd):
        m, n = shape
        other = {"csr": "csc", "csc": "csr"}[format]
        shapes = {
            "s": shape,
            "o": shape,
            "t": (n, m),
            "q": (n, n),
            "d": shape,
            "r": (n, 3),
            "k": (7, m),
            "v": (n,),
            "w": (m,),
            "n": (),
        }
        made = []
        for kind in self.kinds:
            if kind in "stoq":
                made.append(
                    random_sparse(rng, other if kind == "o" else format, shapes[kind], dtype, odd and self.repeated)
                )
            else:
                made.append(random_dense(rng, shapes[kind], dtype))
        return made


FLOATING = ("float64", "float32", "complex64")
REAL = ("float64", "float32")


def _on_entries(f):
    """Return a function that applies `f` to the nonzero elements of a dense array and keeps the zeros."""
    return lambda x, *rest: np.where(x != 0, f(x, *rest), 0).astype(f(x, *rest).dtype)


def _diagonal(x):
    return np.diag(x) if x.size else np.zeros(0, x.dtype)


CASES = {
    "neg": Case(lambda x: -x, "s", lambda x: -x),
    "transpose": Case(lambda x: x.T, "s", lambda x: x.T),
    "toarray": Case(lambda x: x.toarray(), "s", lambda x: x),
    "csr_from_dense": Case(sparse.csr_from_dense, "d", lambda x: x),
    "csc_from_dense": Case(sparse.csc_from_dense, "d", lambda x: x),
    "rebuilt": Case(lambda x: sparse.CSM(x.format)(*sparse.csm_properties(x)), "s", lambda x: x),
    "as_format": Case(lambda x: sparse.as_format(x, "csr"), "s", lambda x: x),
    "as_format csc": Case(lambda x: sparse.as_format(x, "csc"), "s", lambda x: x),
    "ones_like": Case(sparse.sp_ones_like, "s", lambda x: (x != 0).astype(x.dtype), repeated=False),
    "zeros_like": Case(lambda x: x.zeros_like(), "s", lambda x: x * 0),
    "cast": Case(lambda x: x.astype("float64"), "s", lambda x: x.astype("float64"), DTYPES[:-1]),
    "add_s_s": Case(lambda x, y: x + y, "ss", lambda x, y: x + y),
    "add_s_s other": Case(lambda x, y: x + y, "so", lambda x, y: x + y),
    "sub_s_s": Case(lambda x, y: x - y, "so", lambda x, y: x - y),
    "add_s_s_data": Case(lambda x: sparse.add_s_s_data(x, x), "s", lambda x: x + x),
    "add_s_d": Case(lambda x, y: x + y, "sd", lambda x, y: x + y),
    "add_d_s": Case(lambda x, y: y + x, "sd", lambda x, y: x + y),
    "add_s_d in place": Case(lambda x, y: x + y * y, "sd", lambda x, y: x + y * y),
    "sub_s_d": Case(lambda x, y: x - y, "sd", lambda x, y: x - y),
    "sub_d_s": Case(lambda x, y: y - x, "sd", lambda x, y: y - x),
    "structured_add_s_v": Case(
        sparse.structured_add_s_v, "sv", lambda x, y: np.where(x != 0, x + y, 0), repeated=False
    ),
    "mul_s_s": Case(lambda x, y: x * y, "ss", lambda x, y: x * y),
    "mul_s_s other": Case(lambda x, y: x * y, "so", lambda x, y: x * y),
    "mul_s_d": Case(lambda x, y: x * y, "sd", lambda x, y: x * y),
    "mul_d_s": Case(lambda x, y: y * x, "sd", lambda x, y: x * y),
    "mul_s_n": Case(lambda x, y: x * y, "sn", lambda x, y: x * y),
    "mul_s_v": Case(sparse.mul_s_v, "sv", lambda x, y: x * y),
    "col_scale": Case(sparse.col_scale, "sv", lambda x, y: x * y),
    "row_scale": Case(sparse.row_scale, "sw", lambda x, y: x * y[:, None]),
    "sum": Case(sparse.sp_sum, "s", lambda x: x.sum(dtype=x.dtype)),
    "sum 0": Case(lambda x: sparse.sp_sum(x, 0), "s", lambda x: x.sum(0, dtype=x.dtype)),
    "sum 1": Case(lambda x: sparse.sp_sum(x, 1, True), "s", lambda x: x.sum(1, dtype=x.dtype)),
    "diag": Case(sparse.diag, "q", _diagonal),
    "square_diagonal": Case(sparse.square_diagonal, "v", lambda x: np.diag(x) if x.size else np.zeros((0, 0), x.dtype)),
    "remove0": Case(sparse.remove0, "s", lambda x: x),
    "clean": Case(sparse.clean, "s", lambda x: x),
    "sorted": Case(sparse.ensure_sorted_indices, "s", lambda x: x),
    "hstack": Case(lambda x, y: sparse.hstack([x, y]), "so", lambda x, y: np.hstack([x, y])),
    "hstack csr": Case(lambda x, y: sparse.hstack([x, y, x], "csr"), "so", lambda x, y: np.hstack([x, y, x])),
    "vstack": Case(lambda x, y: sparse.vstack([x, y]), "so", lambda x, y: np.vstack([x, y])),
    "block": Case(lambda x: x[1:3, :2], "s", lambda x: x[1:3, :2]),
    "block backwards": Case(lambda x: x[::-2, -1:0:-1], "s", lambda x: x[::-2, -1:0:-1]),
    "dot s d": Case(sparse.dot, "sr", lambda x, y: x @ y),
    "dot d s": Case(sparse.dot, "ks", lambda x, y: x @ y),
    "dot s v": Case(sparse.dot, "sv", lambda x, y: x @ y),
    "dot v s": Case(sparse.dot, "ws", lambda x, y: x @ y),
    "dot s s": Case(sparse.dot, "st", lambda x, y: x @ y),
    "structured_dot s d": Case(sparse.structured_dot, "sr", lambda x, y: x @ y),
    "structured_dot d s": Case(sparse.structured_dot, "ks", lambda x, y: x @ y),
    "structured_dot s s": Case(sparse.structured_dot, "st", lambda x, y: x @ y),
    "structured_dot wide": Case(lambda x, y: sparse.structured_dot(x.T, y), "sd", lambda x, y: x.T @ y),
    "structured_dot of a transpose": Case(lambda x, y: sparse.structured_dot(x, y.T), "sd", lambda x, y: x @ y.T),
    "theano.dot": Case(theano.dot, "sr", lambda x, y: x @ y),
    "theano.dot d s": Case(theano.dot, "ks", lambda x, y: x @ y),
    "theano.dot s s": Case(theano.dot, "st", lambda x, y: x @ y),
    "matmul": Case(lambda x, y: x @ y, "sr", lambda x, y: x @ y),
    "true_dot s d": Case(sparse.true_dot, "sr", lambda x, y: x @ y),
    "true_dot d s": Case(sparse.true_dot, "ks", lambda x, y: x @ y),
    "true_dot s s": Case(sparse.true_dot, "st", lambda x, y: x @ y),
    "sampling_dot": Case(
        lambda p, x: sparse.sampling_dot(T.dot(x, x.T), x.T, p),
        "sd",
        lambda p, x: p * ((x @ x.T) @ x).astype(p.dtype),
        FLOATING,
    ),
    "eq": Case(sparse.eq, "ss", lambda x, y: x == y, DTYPES[:-1], False),
    "eq other": Case(sparse.eq, "so", lambda x, y: x == y, DTYPES[:-1], False),
    "neq": Case(sparse.neq, "ss", lambda x, y: x != y, DTYPES[:-1], False),
    "lt": Case(lambda x, y: x < y, "ss", lambda x, y: x < y, DTYPES[:-1], False),
    "gt": Case(lambda x, y: x > y, "ss", lambda x, y: x > y, DTYPES[:-1], False),
    "le": Case(lambda x, y: x <= y, "ss", lambda x, y: x <= y, DTYPES[:-1], False),
    "ge": Case(lambda x, y: x >= y, "ss", lambda x, y: x >= y, DTYPES[:-1], False),
    "eq d": Case(sparse.eq, "sd", lambda x, y: x == y, DTYPES[:-1], False),
    "neq d": Case(sparse.neq, "sd", lambda x, y: x != y, DTYPES[:-1], False),
    "lt d": Case(sparse.lt, "ds", lambda x, y: x < y, DTYPES[:-1], False),
    "gt d": Case(sparse.gt, "ds", lambda x, y: x > y, DTYPES[:-1], False),
    "le d": Case(sparse.le, "sd", lambda x, y: x <= y, DTYPES[:-1], False),
    "ge d": Case(sparse.ge, "ds", lambda x, y: x >= y, DTYPES[:-1], False),
}

_FUNCTIONS = {
    "sin": np.sin,
    "tan": np.tan,
    "sinh": np.sinh,
    "tanh": np.tanh,
    "arcsin": np.arcsin,
    "arctan": np.arctan,
    "arcsinh": np.arcsinh,
    "arctanh": lambda x: np.arctanh(x * 0.5),
    "log1p": np.log1p,
    "expm1": np.expm1,
    "rad2deg": np.rad2deg,
    "deg2rad": np.deg2rad,
    "rint": np.rint,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "sgn": np.sign,
    "sqr": np.square,
    "structured_exp": np.exp,
    "structured_sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
for _name, _function in _FUNCTIONS.items():
    _made = getattr(sparse, _name)
    if _name == "arctanh":
        CASES[_name] = Case(lambda x: sparse.arctanh(x * np.float32(0.5)), "s", _on_entries(_function), REAL, False)
    else:
        CASES[_name] = Case(_made, "s", _on_entries(_function), REAL, False)
CASES.update(
    {
        "sqrt": Case(lambda x: sparse.sqrt(sparse.sqr(x)), "s", np.abs, REAL, False),
        "structured_log": Case(
            lambda x: sparse.structured_log(sparse.sqr(x)),
            "s",
            _on_entries(lambda x: np.log(x * x + (x == 0))),
            REAL,
            False,
        ),
        "conj": Case(sparse.conj, "s", np.conj, repeated=False),
        "structured_add": Case(sparse.structured_add, "sn", _on_entries(np.add), repeated=False),
        "structured_pow": Case(lambda x: sparse.structured_pow(x, 2), "s", np.square, FLOATING, False),
        "structured_minimum": Case(sparse.structured_minimum, "sn", _on_entries(np.minimum), REAL, False),
        "structured_maximum": Case(sparse.structured_maximum, "sn", _on_entries(np.maximum), REAL, False),
    }
)


class TestGenerated(unittest.TestCase):
    """One test for each dtype runs all cases, formats and shapes in Python and in C."""

    def check(self, dtype, shapes, odd, modes):
        modes = modes if IN_C is not None else (None,)
        for name, case in CASES.items():
            if dtype not in case.dtypes:
                continue
            for format in ("csr", "csc"):
                variables = case.variables(format, dtype)
                result = case.make(*variables)
                functions = [theano.function(variables, [result, result.shape], mode=mode) for mode in modes]
                for shape in shapes:
                    values = case.values(np.random.RandomState(5), format, shape, dtype, odd)
                    with np.errstate(all="ignore"):
                        expected = np.asarray(case.expected(*[dense(v) for v in values]))
                    for function in functions:
                        with self.subTest(name, format=format, dtype=dtype, shape=shape):
                            before = [v.copy() for v in values]
                            found, found_shape = function(*values)
                            self.compare(result.type, found, expected, dtype)
                            self.assertEqual(tuple(found_shape), expected.shape)
                            for value, kept in zip(values, before):
                                np.testing.assert_array_equal(dense(value), dense(kept))

    def compare(self, type_, found, expected, dtype):
        self.assertTrue(type_.is_valid_value(found), type_.value_validity_msg(found))
        tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-9
        np.testing.assert_allclose(dense(found), expected, rtol=tolerance, atol=tolerance)

    def test_float64(self):
        self.check("float64", SHAPES, False, (IN_PYTHON, IN_C))

    def test_float64_out_of_order(self):
        self.check("float64", ((4, 5), (6, 40)), True, (IN_PYTHON, IN_C))

    def test_float32(self):
        self.check("float32", SHAPES[1:], True, (IN_C,))

    def test_complex64(self):
        self.check("complex64", SHAPES[:3], True, (IN_PYTHON, IN_C))

    def test_int32(self):
        self.check("int32", SHAPES[:2], True, (IN_PYTHON, IN_C))

    def test_uint8(self):
        self.check("uint8", SHAPES[:2], True, (IN_C,))


# Name of a test case -> (operation, kinds of its operands as in `Case`, True for structured gradients).
GRADIENTS = {
    "neg": (lambda x: -x, "s", False),
    "transpose": (lambda x: x.T, "s", False),
    "toarray": (lambda x: x.toarray(), "s", True),
    "toarray regular": (sparse.DenseFromSparse(structured=False), "s", False),
    "csr_from_dense": (sparse.csr_from_dense, "d", False),
    "cast": (lambda x: sparse.cast(x, "float64"), "s", False),
    "as_format": (lambda x: sparse.as_format(sparse.as_format(x, "csc"), "csr") * x, "s", False),
    "rebuilt": (lambda x: sparse.CSM(x.format)(*sparse.csm_properties(x)), "s", True),
    "data": (lambda x: T.sqr(sparse.csm_data(x)).sum(), "s", True),
    "add_s_s": (lambda x, y: x + y * y, "so", False),
    "add_s_s_data": (lambda x: sparse.add_s_s_data(x, x), "s", True),
    "sub_s_s": (lambda x, y: x - y, "ss", False),
    "add_s_d": (lambda x, y: x + y, "sd", True),
    "sub_d_s": (lambda x, y: y - x, "sd", True),
    "structured_add_s_v": (sparse.structured_add_s_v, "sv", True),
    "mul_s_s": (lambda x, y: x * y, "so", False),
    "mul_s_d": (lambda x, y: x * y, "sd", True),
    "mul_s_n": (lambda x, y: x * y, "sn", True),
    "mul_s_v": (sparse.mul_s_v, "sv", True),
    "col_scale": (sparse.col_scale, "sv", True),
    "row_scale": (sparse.row_scale, "sw", True),
    "sum": (sparse.sp_sum, "s", False),
    "sum 0": (lambda x: sparse.sp_sum(x, 0), "s", False),
    "sum 1": (lambda x: sparse.sp_sum(x, 1), "s", False),
    "sum structured": (lambda x: sparse.sp_sum(x, None, True), "s", True),
    "sum 0 structured": (lambda x: sparse.sp_sum(x, 0, True), "s", True),
    "sum 1 structured": (lambda x: sparse.sp_sum(x, 1, True), "s", True),
    "diag": (sparse.diag, "q", False),
    "square_diagonal": (sparse.square_diagonal, "v", False),
    "clean": (sparse.clean, "s", False),
    "hstack": (lambda x, y: sparse.hstack([x, y, x]), "so", False),
    "vstack": (lambda x, y: sparse.vstack([x, y], "csr"), "so", False),
    "block": (lambda x: x[1:3, ::-1], "s", False),
    "element": (lambda x: x[1, 2], "s", False),
    "rows": (lambda x: x[[2, 0, 2]], "s", False),
    "elements": (lambda x: x[[2, 0, 2], [1, -1, 1]], "s", False),
    "from rows": (lambda y: sparse.construct_sparse_from_list(np.array([6, 5]), y, [2, 0, 2, -1]), "d", False),
    "dot s d": (sparse.dot, "sr", False),
    "dot d s": (sparse.dot, "ks", False),
    "dot s v": (sparse.dot, "sv", False),
    "dot v s": (sparse.dot, "ws", False),
    "dot s s": (sparse.dot, "st", False),
    "structured_dot s d": (sparse.structured_dot, "sr", True),
    "structured_dot d s": (sparse.structured_dot, "ks", True),
    "structured_dot s s": (lambda x, y: sparse.dense_from_sparse(sparse.structured_dot(x, y)).sum(), "st", True),
    "true_dot s d": (sparse.true_dot, "sr", False),
    "true_dot d s": (sparse.true_dot, "ks", False),
    "true_dot s s": (sparse.true_dot, "st", False),
    "true_dot to sparse": (lambda x, y: sparse.true_dot(x, y, grad_preserves_dense=True), "sr", False),
    "sampling_dot": (lambda p, x, y: sparse.sampling_dot(x, y, p), "sab", True),
    "structured_pow": (lambda x: sparse.structured_pow(x, 3), "s", True),
    "structured_minimum": (lambda x: sparse.structured_minimum(x, 0.3), "s", True),
    "structured_add": (sparse.structured_add, "sn", True),
    **{
        name: (getattr(sparse, name), "s", True)
        for name in ("structured_exp", "structured_sigmoid", "sin", "tanh", "sqr", "log1p", "arctan")
    },
}


class TestGradients(unittest.TestCase):
    """Gradients agree with finite differences: regular gradients for all elements, structured ones for the entries."""

    def values(self, kinds, format, rng):
        m, n = 4, 5
        shapes = {
            "s": (m, n),
            "o": (m, n),
            "t": (n, m),
            "q": (n, n),
            "d": (m, n),
            "r": (n, 3),
            "k": (2, m),
            "v": (n,),
            "w": (m,),
        }
        shapes.update(n=(), a=(m, 3), b=(n, 3))
        other = {"csr": "csc", "csc": "csr"}[format]
        return [
            random_sparse(rng, other if kind == "o" else format, shapes[kind], "float64")
            if kind in "sotq"
            else random_dense(rng, shapes[kind], "float64")
            for kind in kinds
        ]

    def test_all(self):
        for name, (operation, kinds, structured) in GRADIENTS.items():
            for format in ("csr", "csc"):
                rng = np.random.RandomState(3)
                values = self.values(kinds, format, rng)
                with self.subTest(name, format=format):
                    verify_grad_sparse(operation, values, structured, rng=rng, mode=IN_C)

    def test_formats_of_gradients(self):
        """Sparse gradients have the format of the variable; gradients of dense products are dense."""
        for format in ("csr", "csc"):
            x, other = (
                sparse.matrix(format, dtype="float64"),
                sparse.matrix({"csr": "csc", "csc": "csr"}[format], dtype="float64"),
            )
            d = T.dmatrix()
            for cost in (
                sparse.sp_sum(x * other),
                sparse.sp_sum(other * x),
                sparse.sp_sum(other + x),
                sparse.diag(x).sum(),
                sparse.sp_sum(sparse.hstack([x, other])),
                sparse.structured_dot(x, d).sum(),
                sparse.sp_sum(sparse.structured_dot(x, x.T)),
                sparse.sp_sum(x, 0).sum(),
                x.toarray().sum(),
            ):
                gradient = theano.grad(cost, x)
                self.assertEqual(gradient.type, x.type)
            self.assertEqual(theano.grad(sparse.dot(x, d).sum(), x).type, d.type)
            sparse_one = theano.grad(sparse.sp_sum(sparse.true_dot(x, d, grad_preserves_dense=False)), d)
            self.assertIsInstance(sparse_one.type, sparse.SparseType)

    def test_integers(self):
        x = sparse.csr_matrix(dtype="int32")
        d = T.dmatrix()
        for cost in (
            sparse.sp_sum(sparse.cast(x, "float64")),
            sparse.structured_dot(x, d).sum(),
            sparse.sp_sum(x * d),
            (x + d).sum(),
        ):
            gradient = theano.grad(cost, x)
            self.assertEqual(gradient.dtype, theano.config.floatX)
            self.assertEqual(gradient.eval({x: sp.csr_matrix(np.eye(3, dtype="int32"))}).nnz, 0)

    def test_second_derivatives(self):
        x = sparse.csr_dmatrix()
        a = random_sparse(np.random.RandomState(0), "csr", (3, 4), "float64")
        first = theano.grad(sparse.sp_sum(sparse.sin(x), sparse_grad=True), x)
        second = theano.grad(sparse.sp_sum(sparse.sqr(first), sparse_grad=True), x)
        expected = np.where(a.toarray() != 0, -2 * np.cos(a.toarray()) * np.sin(a.toarray()), 0)
        np.testing.assert_allclose(second.eval({x: a}).toarray(), expected, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
