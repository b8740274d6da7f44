"""Elementwise operations: all scalar operations, for all dtypes and broadcast patterns."""

import numpy as np

from theano_ng.tests.programs.operations import (
    Operation,
    booleans,
    both,
    broadcast_together,
    dense,
    floats,
    inexact,
    integers,
    numbers,
    reals,
    register,
)
from theano_ng.tests.programs.twins import nearly_equal

CHAPTER = "elementwise"


def unary(name, twin, operand=reals, graph=None, **settings):
    """Register a function of one operand.

    If `twin` is an identifier, it is the name of a NumPy function. The twin then casts the operand to the dtype of the
    result, and calls this function.
    """
    text = "np.%s(cast({0}, {out}))" % twin if twin.isidentifier() else twin
    register(Operation(name, CHAPTER, graph or "T.%s({0})" % name, text, (operand,), **settings))


def binary(name, graph, twin, operand=numbers, **settings):
    """Register a function of two operands that broadcast together."""
    settings.setdefault("fits", broadcast_together)
    operands = operand if isinstance(operand, tuple) else (operand, operand)
    register(Operation(name, CHAPTER, graph, twin, operands, **settings))


def within(low, high):
    """Return a domain: a function that returns True if all elements are between two bounds."""
    return lambda *arrays: all([bool(np.all((a >= low) & (a <= high))) for a in arrays])


def away_from_zero(*arrays):
    return bool(np.all(np.abs(arrays[-1]) > 1e-2))


def _some_zero(*arrays):
    return any([not np.all(a) for a in arrays])


def _everywhere(*arrays):
    """Return True. Operations with jumps have this `kink`, because finite differences may cross several jumps."""
    return True


def _some_equal(a, b):
    return bool(np.any(a == b))


def _some_nearly_equal(a, b):
    """Return True if some unequal elements are so nearly equal that the twin of a comparison may take them as equal."""
    return bool(np.any((a != b) & nearly_equal(a, b)))


# Arithmetic is drawn most often, because several rewriting rules apply to the same arithmetic nodes.
_CASTS = "np.{op}(cast({{0}}, {{out}}), cast({{1}}, {{out}}))"
_LARGE = "np.abs(cast({0}, {out})) + np.abs(cast({1}, {out}))"
binary("add", "{0} + {1}", _CASTS.format(op="add"), scale=_LARGE, weight=6, loops=True)
binary("sub", "{0} - {1}", _CASTS.format(op="subtract"), scale=_LARGE, weight=6, loops=True)
binary("mul", "{0} * {1}", _CASTS.format(op="multiply"), weight=8, loops=True)
# Equal operands count as a kink: the terms of the derivative of x / x cancel up to rounding errors, but the twin
# computes x / x as 1, without these errors.
binary(
    "true_div",
    "{0} / {1}",
    _CASTS.format(op="true_divide"),
    domain=away_from_zero,
    weight=8,
    ulps=4,
    kink=np.array_equal,
)
binary(
    "maximum",
    "T.maximum({0}, {1})",
    _CASTS.format(op="maximum"),
    reals,
    exact=True,
    weight=2,
    loops=True,
    kink=_some_equal,
)
binary(
    "minimum",
    "T.minimum({0}, {1})",
    _CASTS.format(op="minimum"),
    reals,
    exact=True,
    weight=2,
    loops=True,
    kink=_some_equal,
)
binary(
    "floor_div",
    "{0} // {1}",
    _CASTS.format(op="floor_divide"),
    integers,
    domain=away_from_zero,
    strict=True,
    exact=True,
)
binary("mod", "{0} % {1}", _CASTS.format(op="mod"), integers, domain=away_from_zero, strict=True, exact=True)
binary(
    "floor_div_floats", "{0} // {1}", _CASTS.format(op="floor_divide"), floats, domain=away_from_zero, kink=_everywhere
)
binary("mod_floats", "{0} % {1}", _CASTS.format(op="mod"), floats, domain=away_from_zero, ulps=4, kink=_everywhere)
binary(
    "pow",
    "{0} ** {1}",
    _CASTS.format(op="power"),
    floats,
    domain=lambda a, b: within(0.1, 8)(a) and within(-5, 5)(b),
    ulps=16,
    weight=2,
)
binary("arctan2", "T.arctan2({0}, {1})", _CASTS.format(op="arctan2"), floats, ulps=4, kink=_some_zero)
for _name, _twin in dict(
    eq="equal({0}, {1})",
    neq="~equal({0}, {1})",
    lt="np.less({0}, {1})",
    le="np.less_equal({0}, {1})",
    gt="np.greater({0}, {1})",
    ge="np.greater_equal({0}, {1})",
).items():
    _kink = _some_nearly_equal if _name in ("eq", "neq") else None
    binary(_name, "T.%s({0}, {1})" % _name, _twin, reals, exact=True, weight=0.5, kink=_kink)
for _name, _sign in (("and_", "&"), ("or_", "|"), ("xor", "^")):
    _twin = "cast({0}, {out}) %s cast({1}, {out})" % _sign
    binary(_name, "{0} %s {1}" % _sign, _twin, integers, exact=True, weight=0.3)
    binary(_name + "_booleans", "{0} %s {1}" % _sign, _twin, booleans, exact=True, weight=0.5)

register(
    Operation(
        "square_of_same", CHAPTER, "{0} * {0}", "cast({0}, {out}) * cast({0}, {out})", (numbers,), weight=3, loops=True
    )
)
register(
    Operation(
        "times_constant",
        CHAPTER,
        "{0} * np.asarray({constant!r}, {dtype!r})",
        "cast({0}, {out}) * cast({constant!r}, {out})",
        (inexact,),
        parameters=lambda draw, x: dict(
            constant=draw.choice((0.5, 2.0, -1.0, 1.0, 0.0, 3.0, -0.25)), dtype=str(x.array.dtype)
        ),
        weight=3,
        loops=True,
    )
)
register(
    Operation(
        "plus_constant",
        CHAPTER,
        "{0} + np.asarray({constant!r}, {dtype!r})",
        "cast({0}, {out}) + cast({constant!r}, {out})",
        (numbers,),
        scale="np.abs(cast({0}, {out})) + abs({constant!r})",
        parameters=lambda draw, x: dict(constant=draw.choice((1, 2, 0, 3, 7)), dtype=str(x.array.dtype)),
        weight=3,
        loops=True,
    )
)
register(Operation("reciprocal", CHAPTER, "1 / {0}", "1 / cast({0}, {out})", (reals,), domain=away_from_zero, ulps=4))
register(
    Operation(
        "integer_power",
        CHAPTER,
        "{0} ** np.asarray({constant!r}, {dtype!r})",
        "cast({0}, {out}) ** cast({constant!r}, {out})",
        (floats,),
        domain=away_from_zero,
        parameters=lambda draw, x: dict(constant=draw.choice((2, 3, -1, -2, 4, 1, 0)), dtype=str(x.array.dtype)),
        ulps=16,
        weight=2,
    )
)

unary("neg", "-cast({0}, {out})", numbers, "-{0}", exact=True, weight=3, loops=True)
unary("abs", "np.abs({0})", numbers, "abs({0})", exact=True, weight=3, loops=True, kink=_some_zero)
unary("sqr", "cast({0}, {out}) * cast({0}, {out})", numbers, weight=2, loops=True)
unary("sgn", "np.sign({0})", reals, exact=True)
unary("exp", "exp", domain=within(-8, 8), ulps=8, weight=2)
unary("exp2", "exp2", domain=within(-8, 8), ulps=8)
unary("expm1", "expm1", domain=within(-8, 8), ulps=8)
unary("log", "log", domain=within(0.05, 1e6), ulps=8, weight=2)
unary("log2", "log2", domain=within(0.05, 1e6), ulps=8)
unary("log10", "log10", domain=within(0.05, 1e6), ulps=8)
unary("log1p", "log1p", domain=within(-0.9, 1e6), ulps=8)
unary("sqrt", "sqrt", domain=within(0.01, 1e6), weight=2)
unary("floor", "floor", floats, exact=True, kink=_everywhere)
unary("ceil", "ceil", floats, exact=True, kink=_everywhere)
unary("trunc", "trunc", floats, exact=True, kink=_everywhere)
unary("sin", "sin", domain=within(-100, 100), ulps=8, loops=True)
unary("cos", "cos", domain=within(-100, 100), ulps=8, loops=True)
unary("tan", "tan", domain=within(-1.4, 1.4), ulps=8)
unary("arcsin", "arcsin", domain=within(-0.95, 0.95), ulps=8)
unary("arccos", "arccos", domain=within(-0.95, 0.95), ulps=8)
unary("arctan", "arctan", ulps=8)
unary("sinh", "sinh", domain=within(-8, 8), ulps=8)
unary("cosh", "cosh", domain=within(-8, 8), ulps=8)
unary("tanh", "tanh", ulps=8, weight=2, loops=True)
unary("arcsinh", "arcsinh", domain=within(-1e3, 1e3), ulps=8)
unary("arccosh", "arccosh", domain=within(1.05, 1e3), ulps=8)
unary("arctanh", "arctanh", domain=within(-0.95, 0.95), ulps=8)
unary("deg2rad", "deg2rad", ulps=4)
unary("rad2deg", "rad2deg", ulps=4)
unary("sigmoid", "1 / (1 + np.exp(-cast({0}, {out})))", floats, "T.nnet.sigmoid({0})", ulps=8, weight=2, loops=True)
unary(
    "softplus",
    "np.logaddexp(cast(0, {out}), cast({0}, {out}))",
    floats,
    "T.nnet.softplus({0})",
    domain=within(-30, 30),
    ulps=8,
)
unary(
    "relu",
    "np.maximum({0}, cast(0, {out}))",
    floats,
    "T.nnet.relu({0})",
    exact=True,
    kink=_some_zero,
    weight=2,
    loops=True,
)
unary("erf", "erf(cast({0}, {out}))", floats, domain=within(-5, 5), ulps=16, weight=0.3)
unary("erfc", "erfc(cast({0}, {out}))", floats, domain=within(-5, 5), ulps=32, weight=0.3)
unary("gamma", "gamma(cast({0}, {out}))", floats, domain=within(0.2, 8), ulps=64, weight=0.3)
unary(
    "gammaln",
    "gammaln(cast({0}, {out}))",
    floats,
    domain=within(0.2, 50),
    ulps=64,
    weight=0.3,
    scale="1 + np.abs(cast({0}, {out}))",
)
unary(
    "psi",
    "psi(cast({0}, {out}))",
    floats,
    domain=within(0.2, 50),
    ulps=64,
    weight=0.3,
    scale="1 + np.abs(cast({0}, {out}))",
)
unary("isnan", "np.isnan({0})", floats, exact=True, weight=0.3)
unary("isinf", "np.isinf({0})", floats, exact=True, weight=0.3)
unary("invert", "np.invert({0})", booleans, "~{0}", exact=True, weight=0.5)
unary("invert_integers", "np.invert({0})", integers, "~{0}", exact=True, weight=0.3)
unary("conj", "np.conj({0})", inexact, exact=True, weight=0.3)
unary("real", "np.real({0})", inexact, "{0}.real", exact=True, weight=0.3)
unary("imag", "np.imag({0})", lambda v: v.kind == "dense" and v.array.dtype.kind == "c", "{0}.imag", exact=True)
unary(
    "complex_exp",
    "np.exp(cast({0}, {out}))",
    lambda v: v.kind == "dense" and v.array.dtype.kind == "c",
    "T.exp({0})",
    domain=lambda a: bool(np.all(np.abs(a) < 8)),
    ulps=16,
)
register(
    Operation(
        "complex",
        CHAPTER,
        "T.complex({0}, {1})",
        "complex_of({0}, {1})",
        (both(floats, lambda v: v.array.dtype.itemsize >= 4),) * 2,
        lambda a, b: broadcast_together(a, b) and a.array.dtype == b.array.dtype,
        exact=True,
        weight=0.4,
    )
)
for _name, _operand, _dtypes in (
    (
        "cast",
        both(dense, lambda v: v.array.dtype.kind in "biu"),
        ("float64", "int64", "float32", "int16", "uint8", "bool"),
    ),
    ("cast_floats", floats, ("float32", "float64", "float16")),
):
    register(
        Operation(
            _name,
            CHAPTER,
            "T.cast({0}, {dtype!r})",
            "cast({0}, {out})",
            (_operand,),
            parameters=lambda draw, x, dtypes=_dtypes: dict(dtype=draw.choice(dtypes)),
        )
    )
register(
    Operation(
        "cast_to_integers",
        CHAPTER,
        "T.cast({0}, {dtype!r})",
        "cast({0}, {out})",
        (floats,),
        # The domain fits int8, because C does not define the conversion of floats outside of the integer range.
        domain=within(-100, 100),
        parameters=lambda draw, x: None if draw.special else dict(dtype=draw.choice(("int8", "int64", "int32"))),
        kink=_everywhere,
    )
)
register(
    Operation(
        "switch",
        CHAPTER,
        "T.switch({0}, {1}, {2})",
        "np.where({0}, cast({1}, {out}), cast({2}, {out}))",
        (booleans, numbers, numbers),
        broadcast_together,
        exact=True,
        weight=2,
    )
)
register(
    Operation(
        "switch_on_comparison",
        CHAPTER,
        "T.switch({0} > {1}, {0}, {1} * {2})",
        "np.where({0} > {1}, cast({0}, {out}), cast({1}, {out}) * cast({2}, {out}))",
        (floats, floats, floats),
        broadcast_together,
        loops=True,
        kink=lambda a, b, c: _some_equal(a, b),
    )
)
register(
    Operation(
        "clip",
        CHAPTER,
        "T.clip({0}, {low}, {high})",
        "np.minimum(np.maximum({0}, {low}), {high})",
        (floats,),
        parameters=lambda draw, x: dict(low=draw.choice((-1, 0)), high=draw.choice((1, 2))),
        exact=True,
        loops=True,
        kink=lambda a: bool(np.any(a == np.round(a))),
    )
)
register(
    Operation(
        "fill",
        CHAPTER,
        "T.fill({0}, {1})",
        "np.broadcast_to({1}, np.broadcast_shapes({0}.shape, {1}.shape))",
        (dense, both(numbers, lambda v: v.array.ndim == 0)),
        exact=True,
        weight=0.5,
    )
)

# Expressions that rewriting rules recognize, written as users write them.
for _name, _graph, _twin, _domain in (
    ("log_one_plus_exp", "T.log(1 + T.exp({0}))", "np.log(1 + np.exp({0}))", within(-20, 20)),
    ("log_of_sigmoid", "T.log(T.nnet.sigmoid({0}))", "np.log(1 / (1 + np.exp(-{0})))", within(-20, 20)),
    ("log_one_minus_sigmoid", "T.log(1 - T.nnet.sigmoid({0}))", "np.log(1 - 1 / (1 + np.exp(-{0})))", within(-8, 8)),
    ("x_log_x", "{0} * T.log({0})", "{0} * np.log({0})", within(0.05, 1e3)),
    ("exp_of_log", "T.exp(T.log({0}))", "np.exp(np.log({0}))", within(0.05, 1e3)),
    ("log_of_exp", "T.log(T.exp({0}))", "np.log(np.exp({0}))", within(-8, 8)),
    ("quotient_of_exps", "T.exp({0}) / (1 + T.exp({0}))", "np.exp({0}) / (1 + np.exp({0}))", within(-8, 8)),
    ("sqr_of_sqrt", "T.sqr(T.sqrt({0}))", "np.square(np.sqrt({0}))", within(0.01, 1e3)),
    (
        "sqrt_of_sqr",
        "T.sqrt(T.sqr({0}))",
        "np.sqrt(np.square({0}))",
        lambda a: bool(np.all((np.abs(a) > 1e-2) & (np.abs(a) < 1e3))),
    ),
    ("abs_times_abs", "abs({0}) * abs({0})", "np.abs({0}) * np.abs({0})", away_from_zero),
    ("over_abs_squared", "{0} / (abs({0}) * abs({0}))", "{0} / (np.abs({0}) * np.abs({0}))", away_from_zero),
    ("one_minus_exp", "1 - T.exp({0})", "1 - np.exp({0})", within(-8, 8)),
    ("log_one_plus", "T.log(1 + {0})", "np.log(1 + {0})", within(-0.9, 1e3)),
    ("softsign", "T.nnet.nnet.softsign({0})", "np.where(np.isinf({0}), np.sign({0}), {0} / (1 + np.abs({0})))", None),
    ("elu", "T.nnet.elu({0})", "np.where({0} > 0, {0}, np.expm1({0}))", within(-8, 8)),
):
    register(
        Operation(
            _name,
            CHAPTER,
            _graph,
            _twin,
            (floats,),
            domain=_domain,
            ulps=16,
            # Before rewriting, the graph adds a possibly small number to 1. The rounding error of the sum is relative
            # to 1 or more.
            scale="np.exp(np.abs({0}))" if _name == "log_one_minus_sigmoid" else "1 + np.abs({0})",
            kink=_some_zero,
            weight=0.5,
        )
    )
for _name, _graph, _twin in (
    ("constant_in_gradient", "theano.gradient.zero_grad({0})", "{0}"),
    ("round_half_to_even", "T.round({0}, mode='half_to_even')", "np.round({0})"),
    ("isclose", "T.isclose({0}, {0})", "np.isclose({0}, {0})"),
):
    # With this `kink`, derivatives are not compared with finite differences. For example, the gradient of
    # `constant_in_gradient` is zero by design, but finite differences are not.
    register(Operation(_name, CHAPTER, _graph, _twin, (floats,), exact=True, weight=0.2, kink=_everywhere))
