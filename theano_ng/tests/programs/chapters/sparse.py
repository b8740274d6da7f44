"""Operations on sparse matrices, and conversions from and to dense matrices. The twins compute with dense arrays."""

import numpy as np

from theano_ng.tests.programs.operations import Operation, both, doubles, of_ndim, register

CHAPTER = "sparse"


def sparse(value):
    return value.kind == "sparse"


def _doubles_matrix(v):
    return doubles(v) and v.array.ndim == 2 and min(v.array.shape) > 0 and not any(v.broadcastable)


for _format in ("csr", "csc"):
    register(
        Operation(
            "%s_from_dense" % _format,
            CHAPTER,
            "theano.sparse.%s_from_dense({0} * ({0} > 0))" % _format,
            "np.where({0} > 0, {0}, 0 * {0})",
            (_doubles_matrix,),
            kink=lambda a: not np.all(a),
            exact=True,
            weight=3,
        )
    )
register(
    Operation(
        "dense_from_sparse", CHAPTER, "theano.sparse.dense_from_sparse({0})", "{0}", (sparse,), exact=True, weight=4
    )
)
register(Operation("sparse_transpose", CHAPTER, "{0}.T", "{0}.T", (sparse,), exact=True))
register(Operation("sparse_neg", CHAPTER, "-{0}", "-{0}", (sparse,), exact=True))
_SAME = dict(fits=lambda a, b: a.array.shape == b.array.shape and a.array.dtype == b.array.dtype)
_SUM = "np.abs({0}) + np.abs({1})"
register(Operation("sparse_add", CHAPTER, "{0} + {1}", "{0} + {1}", (sparse, sparse), scale=_SUM, **_SAME))
register(Operation("sparse_mul", CHAPTER, "{0} * {1}", "{0} * {1}", (sparse, sparse), **_SAME))
register(
    Operation("sparse_add_dense", CHAPTER, "{0} + {1}", "{0} + {1}", (sparse, _doubles_matrix), scale=_SUM, **_SAME)
)
register(Operation("sparse_mul_dense", CHAPTER, "{0} * {1}", "{0} * {1}", (sparse, _doubles_matrix), **_SAME))
for _name in ("theano.sparse.dot", "theano.sparse.structured_dot"):
    register(
        Operation(
            _name.rpartition(".")[2] if "structured" in _name else "sparse_dot",
            CHAPTER,
            _name + "({0}, {1})",
            "np.dot({0}, {1})",
            (sparse, both(doubles, of_ndim(2))),
            lambda a, b: a.array.shape[1] == b.array.shape[0] and a.array.dtype == b.array.dtype,
            scale="np.dot(np.abs({0}), np.abs({1}))",
            ulps=4,
            weight=2,
        )
    )
register(
    Operation(
        "sp_sum",
        CHAPTER,
        "theano.sparse.sp_sum({0}, axis={axis!r})",
        "np.sum({0}, axis={axis!r})",
        (sparse,),
        parameters=lambda draw, x: dict(axis=draw.choice((None, 0, 1))),
        scale="np.sum(np.abs({0}), axis={axis!r})",
        ulps=4,
        weight=2,
    )
)
for _name, _twin in (("sqr", "{0} * {0}"), ("sin", "np.sin({0})"), ("tanh", "np.tanh({0})"), ("sqrt", "np.sqrt({0})")):
    register(
        Operation("sparse_" + _name, CHAPTER, "theano.sparse.%s({0})" % _name, _twin, (sparse,), ulps=8, weight=0.5)
    )
