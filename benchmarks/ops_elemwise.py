"""Rows of `ops.py`: elementwise Ops, one at a time and fused, in several dtypes, layouts and broadcast patterns."""

import numpy as np
import scipy.special
from ops import SIZES, Row, count, layouts, square

from theano_ng import tensor

#: Functions of one array: name, reference, smallest and largest argument.
FUNCTIONS = [
    *(
        (name, getattr(np, name), low, high)
        for name, low, high in (
            ("exp", -5, 5),
            ("exp2", -5, 5),
            ("expm1", -3, 3),
            ("log", 0.1, 9),
            ("log2", 0.1, 9),
            ("log10", 0.1, 9),
            ("log1p", -0.9, 9),
            ("sqrt", 0, 9),
            ("sin", -9, 9),
            ("cos", -9, 9),
            ("tan", -9, 9),
            ("arcsin", -1, 1),
            ("arccos", -1, 1),
            ("arctan", -5, 5),
            ("sinh", -5, 5),
            ("cosh", -5, 5),
            ("tanh", -3, 3),
            ("arcsinh", -5, 5),
            ("arccosh", 1, 9),
            ("arctanh", -1, 1),
            ("floor", -9, 9),
            ("isnan", -9, 9),
        )
    ),
    *(
        (name, getattr(scipy.special, name), low, high)
        for name, low, high in (
            ("erf", -4, 4),
            ("erfc", -4, 4),
            ("erfcx", -4, 9),
            ("erfinv", -1, 1),
            ("erfcinv", 0, 2),
            ("gamma", 0.1, 20),
            ("gammaln", 0.1, 20),
            ("psi", 0.1, 20),
            ("j0", -20, 20),
            ("j1", -20, 20),
            ("i0", -9, 9),
            ("i1", -9, 9),
        )
    ),
]
#: Functions of two arrays: name, graph, reference, dtypes.
OPERATORS = [
    ("add", lambda x, y: x + y, np.add, ("float64", "float32", "float16", "int8", "int64", "complex64", "complex128")),
    ("mul", lambda x, y: x * y, np.multiply, ("float64", "complex64", "complex128")),
    ("true_div", lambda x, y: x / y, np.true_divide, ("float64", "complex128")),
    ("int_div", lambda x, y: x // y, np.floor_divide, ("float64", "int8", "int32", "int64", "uint64")),
    ("mod", lambda x, y: x % y, np.mod, ("float32", "float64", "int32", "int64")),
    ("pow", lambda x, y: x**y, np.power, ("float32", "float64")),
    ("maximum", tensor.maximum, np.maximum, ("float64", "int16")),
    ("lt", lambda x, y: x < y, np.less, ("float64", "int8")),
    ("gammainc", tensor.gammainc, scipy.special.gammainc, ("float64",)),
]


def rows():
    rng = np.random.RandomState(0)
    for name, reference, low, high in FUNCTIONS:
        for dtype in ("float32", "float64"):
            for n in SIZES[:2]:
                x = rng.uniform(low, high, n).astype(dtype)
                yield Row("%s %s %s" % (name, dtype, count(n)), getattr(tensor, name), reference, [x])
    for name, build, reference, dtypes in OPERATORS:
        for dtype in dtypes:
            for n in SIZES[:2]:
                x, y = [rng.randint(1, 60, n).astype(dtype) for _ in range(2)]
                y = y % 5 + 1 if name == "pow" else y
                yield Row(
                    "%s %s %s" % (name, dtype, count(n)),
                    build,
                    reference,
                    [x, y],
                    rtol=1e-2 if dtype == "float16" else 1e-5,
                )
    for dtype in ("int8", "int32", "uint32", "int64"):
        x = rng.randint(1, 120, 10**5).astype(dtype)
        yield Row(
            "int_div by a number %s 1e5" % dtype,
            lambda x, y: x // y,
            lambda x, y: np.floor_divide(x, y[0]),
            [x, np.array([7], dtype)],
        )
    for n in SIZES:
        shape = square(n)
        a, b = rng.rand(*shape), rng.rand(*shape)
        for layout, x in layouts(a):
            yield Row(
                "a + b, a %s, %s" % (layout, count(n)),
                lambda x, y: x + y,
                np.add,
                [x, b],
                jax=lambda jnp, x, y: x + y,
                torch=lambda torch, x, y: x + y,
            )
        f = np.asfortranarray
        for kind, x, y in (
            ("row", a, b[:1]),
            ("column", a, b[:, :1]),
            ("F row", f(a), b[:1]),
            ("F column", f(a), b[:, :1]),
            ("F F", f(a), f(b)),
            ("number", a, b[:1, :1]),
        ):
            yield Row("a + b, %s, %s" % (kind, count(n)), lambda x, y: x + y, np.add, [x, y])
        yield Row(
            "(x + y * z) / (x * x + 1), %s" % count(n),
            lambda x, y, z: (x + y * z) / (x * x + 1),
            lambda x, y, z: (x + y * z) / (x * x + 1),
            [rng.rand(n) for _ in range(3)],
            jax=lambda jnp, x, y, z: (x + y * z) / (x * x + 1),
            torch=lambda torch, x, y, z: (x + y * z) / (x * x + 1),
        )
        yield Row(
            "exp(x) * tanh(y), %s" % count(n),
            lambda x, y: tensor.exp(x) * tensor.tanh(y),
            lambda x, y: np.exp(x) * np.tanh(y),
            [rng.rand(n) for _ in range(2)],
            jax=lambda jnp, x, y: jnp.exp(x) * jnp.tanh(y),
            torch=lambda torch, x, y: torch.exp(x) * torch.tanh(y),
        )
