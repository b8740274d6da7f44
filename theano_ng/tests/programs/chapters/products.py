"""Products of matrices and tensors, and linear algebra on well-conditioned matrices."""

import numpy as np

from theano_ng.tests.programs.operations import Operation, both, doubles, floats, inexact, numbers, of_ndim, register

PRODUCTS, LINEAR = "products", "linear algebra"


def _inner_lengths(a, b):
    first, second = a.array.shape[-1], b.array.shape[0 if b.array.ndim == 1 else -2]
    return first == second


def _square(v):
    return doubles(v) and v.array.ndim == 2 and 0 < v.array.shape[0] == v.array.shape[1] <= 5


def _conditioned(*arrays):
    return bool(np.linalg.cond(arrays[0].astype("float64")) < 50)


def _distinct(values):
    """Return True if all eigenvalues or singular values in an array differ clearly.

    Domains exclude nearly equal values, because rounding errors strongly change the vectors that belong to them.
    """
    values = np.sort(values)
    return len(values) < 2 or bool(np.min(np.diff(values)) > 0.05 * np.max(np.abs(values)))


def _separated(a):
    return _distinct(np.linalg.eigvalsh((a + a.T).astype("float64")))


def _definite(a, *others):
    return bool(np.array_equal(a, a.T)) and bool(np.all(np.linalg.eigvalsh(a.astype("float64")) > 0.1))


_PARTS = both(numbers, of_ndim(1, 2))
_ABS = "np.dot(np.abs(cast({0}, {out})), np.abs(cast({1}, {out})))"
register(
    Operation(
        "dot",
        PRODUCTS,
        "T.dot({0}, {1})",
        "np.dot(cast({0}, {out}), cast({1}, {out}))",
        (_PARTS, _PARTS),
        _inner_lengths,
        scale=_ABS,
        ulps=4,
        weight=5,
        loops=True,
    )
)
register(
    Operation(
        "dot_with_transposed",
        PRODUCTS,
        "T.dot({0}, {1}.T)",
        "np.dot(cast({0}, {out}), cast({1}, {out}).T)",
        (both(inexact, of_ndim(1, 2)), both(inexact, of_ndim(2))),
        lambda a, b: a.array.shape[-1] == b.array.shape[1],
        scale="np.dot(np.abs(cast({0}, {out})), np.abs(cast({1}, {out})).T)",
        ulps=4,
        weight=2,
    )
)
register(
    Operation(
        "gemm",
        PRODUCTS,
        "{alpha} * T.dot({0}, {1}) + {beta} * {2}",
        "{alpha} * np.dot(cast({0}, {out}), cast({1}, {out})) + {beta} * cast({2}, {out})",
        (both(floats, of_ndim(1, 2)), both(floats, of_ndim(1, 2)), floats),
        lambda a, b, c: _inner_lengths(a, b) and np.dot(a.array, b.array).shape == c.array.shape,
        parameters=lambda draw, *_: dict(alpha=draw.choice((1, 0.5, -2, 0)), beta=draw.choice((1, 0.5, 0, -1))),
        scale="2 * %s + np.abs(cast({2}, {out}))" % _ABS,
        ulps=4,
        weight=2,
    )
)
register(
    Operation(
        "outer",
        PRODUCTS,
        "T.outer({0}, {1})",
        "np.outer(cast({0}, {out}), cast({1}, {out}))",
        (both(inexact, of_ndim(1)),) * 2,
        lambda a, b: a.array.size * b.array.size <= 40,
    )
)
register(
    Operation(
        "batched_dot",
        PRODUCTS,
        "T.batched_dot({0}, {1})",
        "np.matmul(cast({0}, {out}), cast({1}, {out}))",
        (both(floats, of_ndim(3)),) * 2,
        lambda a, b: a.array.shape[0] == b.array.shape[0] and a.array.shape[2] == b.array.shape[1],
        scale="np.matmul(np.abs(cast({0}, {out})), np.abs(cast({1}, {out})))",
        ulps=4,
        weight=2,
    )
)
register(
    Operation(
        "tensordot",
        PRODUCTS,
        "T.tensordot({0}, {1}, axes=[[{first}], [{second}]])",
        "np.tensordot(cast({0}, {out}), cast({1}, {out}), axes=[[{first}], [{second}]])",
        (both(floats, of_ndim(2, 3)), both(floats, of_ndim(2, 3))),
        lambda a, b: a.array.size * b.array.size <= 400,
        parameters=lambda draw, a, b: _equal_lengths(draw, a.array.shape, b.array.shape),
        scale="np.tensordot(np.abs(cast({0}, {out})), np.abs(cast({1}, {out})), axes=[[{first}], [{second}]])",
        ulps=4,
        weight=2,
    )
)


def _equal_lengths(draw, first, second):
    pairs = [(i, j) for i, n in enumerate(first) for j, m in enumerate(second) if n == m]
    return dict(zip(("first", "second"), draw.choice(pairs))) if pairs else None


register(
    Operation(
        "shifted_diagonal",
        LINEAR,
        "{0} / (1 + abs({0}).sum()) + np.eye({n}, dtype={dtype!r})",
        "cast({0}, {out}) / (1 + np.abs(cast({0}, {out})).sum()) + np.eye({n}, dtype={dtype!r})",
        (_square,),
        parameters=lambda draw, x: dict(n=x.array.shape[0], dtype=str(x.array.dtype)),
        weight=2,
    )
)
register(
    Operation(
        "gram",
        LINEAR,
        "T.dot({0}, {0}.T) + np.eye({n}, dtype={dtype!r})",
        "symmetric(np.dot(cast({0}, {out}), cast({0}, {out}).T) + np.eye({n}, dtype={dtype!r}))",
        (_square,),
        parameters=lambda draw, x: dict(n=x.array.shape[0], dtype=str(x.array.dtype)),
        ulps=4,
        weight=2,
    )
)
register(Operation("det", LINEAR, "T.nlinalg.det({0})", "det({0})", (_square,), domain=_conditioned, ulps=256))
register(
    Operation(
        "log_abs_det",
        LINEAR,
        "T.log(abs(T.nlinalg.det({0})))",
        "np.log(np.abs(det({0})))",
        (_square,),
        domain=_conditioned,
        ulps=512,
        scale="1 + 0 * {0}.sum()",
    )
)
register(
    Operation(
        "inverse",
        LINEAR,
        "T.nlinalg.matrix_inverse({0})",
        "solve({0}, np.eye(len({0}), dtype={0}.dtype))",
        (_square,),
        domain=_conditioned,
        scale="np.max(np.abs(solve({0}, np.eye(len({0}), dtype={0}.dtype)))) + 0 * {0}",
        ulps=512,
        weight=2,
    )
)
register(
    Operation(
        "solve",
        LINEAR,
        "T.slinalg.solve({0}, {1})",
        "solve(cast({0}, {out}), cast({1}, {out}))",
        (_square, both(doubles, of_ndim(1, 2))),
        lambda a, b: a.array.shape[0] == b.array.shape[0] and a.array.dtype == b.array.dtype,
        domain=_conditioned,
        scale="np.max(np.abs({1})) + np.max(np.abs(solve({0}, {1}))) + 0 * {1}",
        ulps=512,
        weight=2,
    )
)
register(
    Operation(
        "cholesky",
        LINEAR,
        "T.slinalg.cholesky({0})",
        "cholesky({0})",
        (_square,),
        domain=_definite,
        scale="np.max(np.abs({0})) + 0 * {0}",
        ulps=512,
        weight=2,
    )
)
register(
    Operation(
        "solve_lower",
        LINEAR,
        "T.slinalg.solve_lower_triangular(T.slinalg.cholesky({0}), {1})",
        "solve(cholesky(cast({0}, {out})), cast({1}, {out}))",
        (_square, both(doubles, of_ndim(1, 2))),
        lambda a, b: a.array.shape[0] == b.array.shape[0] and a.array.dtype == b.array.dtype,
        domain=_definite,
        scale="np.max(np.abs({1})) * 4 + 0 * {1}",
        ulps=512,
    )
)
register(
    Operation(
        "eigenvalues",
        LINEAR,
        "T.nlinalg.eigh({0} + {0}.T)[0]",
        "eigen({0} + {0}.T)[0]",
        (_square,),
        domain=_separated,
        scale="4 * np.max(np.abs({0})) + np.zeros(len({0}))",
        ulps=512,
    )
)
register(
    Operation(
        "tanh_of_eigenvalues",
        LINEAR,
        "(lambda w, v: T.dot(v * T.tanh(w), v.T))(*T.nlinalg.eigh({0} + {0}.T))",
        "(lambda w, v: np.dot(v * np.tanh(w), v.T))(*eigen({0} + {0}.T))",
        (_square,),
        domain=_separated,
        scale="1 + 4 * np.max(np.abs({0})) + 0 * {0}",
        ulps=512,
    )
)
register(
    Operation(
        "singular_values",
        LINEAR,
        "T.nlinalg.svd({0}, compute_uv=False)",
        "singular_values({0})",
        (both(doubles, of_ndim(2), lambda v: min(v.array.shape) > 0 and not any(v.broadcastable)),),
        domain=lambda a: _distinct(np.linalg.svd(a.astype("float64"), compute_uv=False)),
        scale="np.sum(np.abs({0})) + np.zeros(min({0}.shape))",
        ulps=512,
    )
)
register(
    Operation(
        "polar",
        LINEAR,
        "(lambda u, s, v: T.dot(u, v))(*T.nlinalg.svd({0}, full_matrices=False))",
        "polar({0})",
        (_square,),
        domain=lambda a: _conditioned(a) and _distinct(np.linalg.svd(a.astype("float64"), compute_uv=False)),
        scale="np.max(np.abs(solve({0}, np.eye(len({0}), dtype={0}.dtype)))) * np.sum(np.abs({0})) + 0 * {0}",
        ulps=512,
    )
)
register(
    Operation(
        "triangle_of_qr",
        LINEAR,
        "abs(T.nlinalg.qr({0}, mode='r'))",
        "np.abs(cholesky(symmetric(np.dot({0}.T, {0}))).T)",
        (_square,),
        domain=_conditioned,
        scale="np.max(np.abs(solve({0}, np.eye(len({0}), dtype={0}.dtype)))) * np.sum(np.abs({0})) ** 2 + 0 * {0}",
        ulps=512,
    )
)
register(
    Operation("trace", LINEAR, "T.nlinalg.trace({0})", "np.trace({0})", (_square,), scale="np.sum(np.abs({0}))", ulps=4)
)
register(Operation("diagonal", LINEAR, "T.nlinalg.extract_diag({0})", "np.diag({0})", (_square,), exact=True))
register(Operation("diag", LINEAR, "T.diag({0})", "np.diag({0})", (both(numbers, of_ndim(1, 2)),), exact=True))


def _kron(a, b):
    return a.array.size * b.array.size <= 60


for _name, _graph, _twin in (
    ("matrix_power", "T.nlinalg.matrix_power({0}, 3)", "np.dot(np.dot({0}, {0}), {0})"),
    ("matrix_dot", "T.nlinalg.matrix_dot({0}, {0}, {0})", "np.dot(np.dot({0}, {0}), {0})"),
):
    register(
        Operation(
            _name,
            LINEAR,
            _graph,
            _twin,
            (_square,),
            scale="np.dot(np.dot(np.abs({0}), np.abs({0})), np.abs({0}))",
            ulps=16,
            weight=0.5,
        )
    )
register(
    Operation(
        "kron",
        LINEAR,
        "T.slinalg.kron({0}, {1})",
        "np.kron({0}, {1})",
        (both(doubles, of_ndim(2)), both(doubles, of_ndim(2))),
        _kron,
        weight=0.5,
    )
)
register(
    Operation(
        "expm",
        LINEAR,
        "T.slinalg.expm({0})",
        "exponential({0})",
        (_square,),
        domain=lambda a: float(np.abs(a).sum()) < 8,
        scale="exponential(np.abs({0}))",
        ulps=256,
        weight=0.7,
    )
)
