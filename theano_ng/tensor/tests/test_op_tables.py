"""Operations on every dtype and broadcast pattern, against NumPy and SciPy: test classes made by `makeBroadcastTester`
and `makeTester`.

The classes run `perform` and check gradients. `TestNative` runs all cases of these classes in one compiled function,
and compares the results.
"""

import unittest

import numpy as np
import scipy.special

import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import inplace
from theano_ng.tensor.tests import test_basic as tb

PYTHON = Mode("py", None)
NATIVE = Mode("cvm", None)

FLOATS = tb._good_broadcast_unary_normal_float_no_complex
REAL = tb._good_broadcast_unary_normal_no_complex
ALL = tb._good_broadcast_unary_normal
PAIRS = tb._good_broadcast_binary_normal
REAL_PAIRS = tb.copymod(PAIRS, without=["complex1", "complex2"])
INTEGERS = dict(
    integers=(tb.randint(2, 3), tb.randint(2, 3)),
    bytes=(tb.randint(4).astype("int8"), tb.randint(3, 1).astype("uint8")),
    bools=(np.array([True, False]), np.array([[True], [False]])),
    empty=(tb.randint(0, 3), tb.randint(1)),
)
GRAD = tb._grad_broadcast_unary_normal
GRAD_PAIRS = tb._grad_broadcast_binary_normal


def ranged(low, high, *more):
    """Return the tables `good` and `grad` for a function that is defined on the interval [low, high]."""
    good = dict(
        normal=(tb.rand_ranged(low, high, (2, 3)),),
        ends=(np.array([low, high], "float64"),),
        single=(tb.rand_ranged(low, high, (3, 1)).astype("float32"),),
        empty=(np.zeros((2, 0)),),
    )
    good.update(more)
    margin = (high - low) / 20
    return dict(good=good, grad=dict(inner=(tb.rand_ranged(low + margin, high - margin, (2, 3)),)))


def unary(table, grad=GRAD, **more):
    return dict(good=table, grad=grad or {}, **more)


def binary(table, grad=GRAD_PAIRS, **more):
    return dict(good=table, grad=grad or {}, **more)


def away_from_zero(a):
    return np.sign(a) * np.floor(np.abs(a) + 0.5)


def upcast(f):
    return tb.upcast_float16_ufunc(tb.upcast_int8_nfunc(f))


# Name of an operation -> (function for expected values, further arguments of makeBroadcastTester)
UNARY = {
    "abs_": (np.abs, unary(ALL, grad=dict(normal=(tb.rand_nonzero((2, 3), 0.1),)))),
    "neg": (np.negative, unary(tb.copymod(ALL, without=["uint8", "uint16"]))),
    "sgn": (np.sign, unary(REAL)),
    "sqr": (np.square, unary(ALL)),
    "inv": (lambda a: 1.0 / a, ranged(0.3, 4)),
    "ceil": (np.ceil, unary(FLOATS)),
    "floor": (np.floor, unary(FLOATS)),
    "trunc": (np.trunc, unary(FLOATS)),
    "round_half_to_even": (np.around, unary(FLOATS, None)),
    "round_half_away_from_zero": (away_from_zero, unary(FLOATS, None)),
    "sqrt": (upcast(np.sqrt), ranged(0, 9)),
    "exp": (upcast(np.exp), unary(ALL)),
    "exp2": (upcast(np.exp2), unary(REAL)),
    "expm1": (upcast(np.expm1), unary(REAL)),
    "log": (upcast(np.log), ranged(0.05, 9)),
    "log2": (upcast(np.log2), ranged(0.05, 9)),
    "log10": (upcast(np.log10), ranged(0.05, 9)),
    "log1p": (upcast(np.log1p), ranged(-0.9, 9)),
    "deg2rad": (upcast(np.deg2rad), unary(REAL)),
    "rad2deg": (upcast(np.rad2deg), unary(REAL)),
    "sin": (upcast(np.sin), unary(ALL)),
    "cos": (upcast(np.cos), unary(ALL)),
    "tan": (upcast(np.tan), unary(FLOATS, dict(inner=(tb.rand_ranged(-1.4, 1.4, (2, 3)),)))),
    "arcsin": (np.arcsin, ranged(-1, 1)),
    "arccos": (np.arccos, ranged(-1, 1)),
    "arctan": (upcast(np.arctan), unary(REAL)),
    "sinh": (upcast(np.sinh), unary(REAL)),
    "cosh": (upcast(np.cosh), unary(REAL)),
    "tanh": (upcast(np.tanh), unary(ALL)),
    "arcsinh": (upcast(np.arcsinh), unary(REAL)),
    "arccosh": (np.arccosh, ranged(1, 9)),
    "arctanh": (np.arctanh, ranged(-0.99, 0.99)),
    "erf": (scipy.special.erf, ranged(-4, 4)),
    "erfc": (scipy.special.erfc, ranged(-4, 4)),
    "erfcx": (scipy.special.erfcx, ranged(-2, 9)),
    "erfinv": (scipy.special.erfinv, ranged(-0.9, 0.9)),
    "erfcinv": (scipy.special.erfcinv, ranged(0.1, 1.9)),
    "gamma": (scipy.special.gamma, ranged(0.2, 9)),
    "gammaln": (scipy.special.gammaln, ranged(0.2, 90)),
    "psi": (scipy.special.psi, ranged(0.2, 9)),
    "tri_gamma": (lambda a: scipy.special.polygamma(1, a), dict(ranged(0.2, 9), grad={})),
    "j0": (scipy.special.j0, ranged(0.1, 9)),
    "j1": (scipy.special.j1, ranged(0.1, 9)),
    "i0": (scipy.special.i0, ranged(0.1, 9)),
    "i1": (scipy.special.i1, ranged(0.1, 9)),
    "real": (np.real, unary(ALL)),
    "imag": (np.imag, unary(dict(complex=(tb.randcomplex(2, 3),)), None)),
    "conj": (np.conj, unary(ALL)),
    "invert": (
        np.invert,
        unary(
            dict(integers=(tb.randint(2, 3),), bytes=(np.arange(9, dtype="uint8"),), bools=(np.array([True, False]),)),
            None,
        ),
    ),
    "isnan": (np.isnan, unary(dict(FLOATS, nan=(np.array([np.nan, 1, np.inf]),)), None)),
    "isinf": (np.isinf, unary(dict(FLOATS, nan=(np.array([np.nan, 1, np.inf, -np.inf]),)), None)),
}
BINARY = {
    "add": (np.add, binary(PAIRS)),
    "sub": (np.subtract, binary(PAIRS)),
    "mul": (np.multiply, binary(PAIRS)),
    "true_div": (tb._numpy_true_div, binary(PAIRS, dict(normal=(tb.rand(2, 3), tb.rand_nonzero((2, 3), 0.3))))),
    "int_div": (np.floor_divide, binary(REAL_PAIRS, None)),
    "mod": (np.mod, binary(REAL_PAIRS, dict(normal=(tb.rand_ranged(1, 1.9, (2, 3)), tb.rand_ranged(2, 3, (2, 3)))))),
    "pow": (
        np.power,
        binary(
            dict(
                floats=(tb.rand_ranged(0.1, 3, (2, 3)), tb.rand_ranged(-3, 3, (2, 3))),
                integers=(tb.randint(2, 3), np.abs(tb.randint(2, 3))),
                roots=(tb.rand_ranged(0, 3, (2, 3)), np.array(0.5)),
                empty=(np.zeros((0, 2)), np.ones(2)),
                negative=(tb.rand(2, 3), np.array(3.0)),
            ),
            dict(normal=(tb.rand_ranged(0.5, 3, (2, 3)), tb.rand_ranged(-3, 3, (2, 3)))),
        ),
    ),
    "maximum": (np.maximum, binary(dict(REAL_PAIRS, nan=(np.array([np.nan, 1.0]), np.array([2.0, np.nan]))))),
    "minimum": (np.minimum, binary(dict(REAL_PAIRS, nan=(np.array([np.nan, 1.0]), np.array([2.0, np.nan]))))),
    "arctan2": (
        np.arctan2,
        binary(
            dict(
                floats=(tb.rand(2, 3), tb.rand(2, 3)),
                quadrants=(np.array([0.0, -0.0, 1, -1]), np.array([[1.0], [-1], [0], [-0.0]])),
            )
        ),
    ),
    "lt": (np.less, binary(REAL_PAIRS, None)),
    "gt": (np.greater, binary(REAL_PAIRS, None)),
    "le": (np.less_equal, binary(REAL_PAIRS, None)),
    "ge": (np.greater_equal, binary(REAL_PAIRS, None)),
    "eq": (np.equal, binary(PAIRS, None)),
    "neq": (np.not_equal, binary(PAIRS, None)),
    "and_": (np.bitwise_and, binary(INTEGERS, None)),
    "or_": (np.bitwise_or, binary(INTEGERS, None)),
    "xor": (np.bitwise_xor, binary(INTEGERS, None)),
    "second": (lambda a, b: np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)), binary(PAIRS)),
    "gammainc": (
        scipy.special.gammainc,
        binary(dict(normal=(tb.rand_ranged(0.5, 9, (2, 3)), tb.rand_ranged(0.1, 9, (2, 3)))), None),
    ),
    "gammaincc": (
        scipy.special.gammaincc,
        binary(dict(normal=(tb.rand_ranged(0.5, 9, (2, 3)), tb.rand_ranged(0.1, 9, (2, 3)))), None),
    ),
    "chi2sf": (
        lambda x, k: scipy.special.gammaincc(k / 2, x / 2),
        binary(dict(normal=(tb.rand_ranged(0.1, 9, (2, 3)), tb.rand_ranged(1, 9, (2, 3)))), None),
    ),
    "jv": (scipy.special.jv, binary(dict(normal=(tb.rand_ranged(0, 4, (2, 3)), tb.rand_ranged(0.1, 9, (2, 3)))), None)),
    "iv": (scipy.special.iv, binary(dict(normal=(tb.rand_ranged(0, 4, (2, 3)), tb.rand_ranged(0.1, 9, (2, 3)))), None)),
}
TERNARY = {
    "switch": (
        np.where,
        dict(
            good=dict(
                all_true=(np.ones((2, 3), bool), tb.rand(2, 3), tb.rand(2, 3)),
                row=(tb.randint(1, 3), tb.rand(2, 3), tb.rand(2, 1)),
                integers=(tb.randint(2, 3).astype("int8"), tb.randint(2, 3), tb.rand(3)),
                empty=(np.ones((0, 1)), tb.rand(1, 3), tb.rand(3)),
            ),
            bad_build=dict(two=(tb.rand(2), tb.rand(2))),
            grad=dict(),
        ),
    ),
    "clip": (
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        dict(
            good=dict(
                floats=(5 * tb.rand(5, 5), np.array(-1.0), np.array(1.0)),
                integers=(tb.randint(5), np.array(-2), np.array(3)),
                bytes=(tb.randint(5).astype("int8"), np.array(-2, "int8"), np.array(3, "int8")),
                infinite=(np.array([-np.inf, np.inf, 0.5]), np.array(-1.0), np.array(1.0)),
            ),
            bad_build=dict(one=(tb.rand(3),)),
            grad=dict(inside=(tb.rand(2, 3), np.array(-2.0), np.array(2.0))),
        ),
    ),
}
BAD_SHAPES = dict(lengths=(tb.rand(2, 3), tb.rand(3, 2)), ranks=(tb.rand(2, 3), tb.rand(2)))
INPLACE = {
    "exp": ranged(-2, 2),
    "sqr": unary(FLOATS, None),
    "tanh": unary(FLOATS, None),
    "neg": unary(FLOATS, None),
    "add": binary(
        dict(
            same=(tb.rand(2, 3), tb.rand(2, 3)),
            row=(tb.rand(2, 3), tb.rand(3)),
            integers=(tb.randint(2, 3), tb.randint(2, 1)),
        ),
        None,
    ),
    "mul": binary(dict(same=(tb.rand(2, 3), tb.rand(2, 3)), scalar=(tb.rand(2, 3), tb.rand())), None),
}

OPERATIONS = {}
for _name, (_expected, _arguments) in dict(UNARY, **BINARY, **TERNARY).items():
    if _name in BINARY:
        _arguments = dict(_arguments, bad_runtime=BAD_SHAPES if _name in ("add", "maximum", "lt") else {})
    if _name in ("sub", "lt", "arctan2"):
        _arguments["bad_build"] = dict(one=(tb.rand(2),), three=(tb.rand(2),) * 3)
    # The results of scipy.special differ from the results of libm and of this package by a few units in the last place,
    # so the tolerance `eps` is 1e-9.
    _arguments = dict(dict(mode=PYTHON, eps=1e-9, test_memmap=_name in ("exp", "add")), **_arguments)
    _class = _name.strip("_").title().replace("_", "") + "Tester"
    OPERATIONS[_name] = tb.makeBroadcastTester(getattr(T, _name), _expected, name=_class, **_arguments)
for _name, _arguments in INPLACE.items():
    OPERATIONS[_name + "_inplace"] = tb.makeBroadcastTester(
        getattr(inplace, _name + "_inplace"),
        dict(UNARY, **BINARY)[_name][0],
        inplace=True,
        **dict(
            _arguments,
            good=tb.copymod({k: v for k, v in _arguments["good"].items() if k != "single"}),
            grad={},
            mode=PYTHON,
        ),
    )
globals().update({cls.__name__: cls for cls in OPERATIONS.values()})


def matrices(*shapes):
    return tuple(tb.rand(*shape) for shape in shapes)


DotTester = tb.makeTester(
    "DotTester",
    T.dot,
    np.dot,
    checks={"a new array": lambda inputs, outputs: not any(np.shares_memory(i, outputs[0]) for i in inputs)},
    good=dict(
        correct1=matrices((5, 7), (7, 5)),
        correct2=matrices((5, 7), (7, 9)),
        correct3=matrices((5, 7), (7,)),
        vectors=matrices((5,), (5,)),
        vector_matrix=matrices((5,), (5, 7)),
        not_aligned=(tb.rand(5, 7), tb.rand(9, 7).T),
        integers=(tb.randint(2, 3), tb.randint(3, 2)),
        mixed=(tb.randint(2, 3), tb.rand(3, 2)),
        complex=(tb.randcomplex(2, 3), tb.randcomplex(3, 2)),
        empty=matrices((0, 5), (5, 3)),
        empty_sum=matrices((2, 0), (0, 3)),
        single=(tb.rand(2, 3).astype("float32"), tb.rand(3, 2).astype("float32")),
    ),
    bad_runtime=dict(bad1=matrices((5, 7), (5, 7)), bad2=matrices((5, 7), (8, 3))),
    grad=dict(matrices=matrices((2, 3), (3, 2)), vectors=matrices((3,), (3,)), vector_matrix=matrices((3,), (3, 2))),
    mode=PYTHON,
    check_name=True,
)

BatchedDotTester = tb.makeTester(
    "BatchedDotTester",
    T.batched_dot,
    lambda x, y: (
        np.einsum("n...,n...->n...", x, y)
        if x.ndim == y.ndim == 1
        else np.matmul(x, y)
        if y.ndim == 3
        else np.einsum("nij,nj->ni", x, y)
    ),
    good=dict(
        matrices=matrices((3, 4, 5), (3, 5, 2)),
        vectors=matrices((3, 4, 5), (3, 5)),
        integers=(tb.randint(2, 3, 4).astype("float32"), tb.randint(2, 4, 2).astype("float32")),
        empty=matrices((0, 4, 5), (0, 5, 2)),
    ),
    bad_build=dict(no_batch=(tb.rand(), tb.rand(3, 2))),
    bad_runtime=dict(batch=matrices((3, 4, 5), (2, 5, 2)), inner=matrices((3, 4, 5), (3, 4, 2))),
    grad=dict(matrices=matrices((2, 3, 4), (2, 4, 2))),
    mode=PYTHON,
    test_memmap=False,
)

AllocTester = tb.makeTester(
    "AllocTester",
    T.alloc,
    lambda x, *shape: np.broadcast_to(x, [int(n) for n in shape]),
    good=dict(
        scalar=(tb.rand(), np.int32(3)),
        vector=(tb.rand(4), np.int32(2), np.int32(4)),
        matrix=(tb.rand(2, 1), np.int64(3), np.int64(2), np.int64(5)),
        empty=(tb.rand(), np.int64(0)),
    ),
    bad_build=dict(too_few=(tb.rand(2, 3), np.int32(2)), float_length=(tb.rand(), np.float64(2))),
    bad_runtime=dict(length=(tb.rand(3), np.int32(2), np.int32(4))),
    mode=PYTHON,
    test_memmap=False,
)

ReshapeTester = tb.makeTester(
    "ReshapeTester",
    lambda x, shape: T.reshape(x, shape, ndim=2),
    lambda x, shape: np.reshape(x, shape),
    good=dict(
        split=(tb.rand(6), np.array([2, 3])),
        rest=(tb.rand(2, 3, 2), np.array([-1, 4])),
        turned=(tb.rand(3, 2).T, np.array([3, 2])),
        empty=(tb.rand(0, 3), np.array([3, 0])),
    ),
    bad_build=dict(float_shape=(tb.rand(6), np.array([2.0, 3.0]))),
    bad_runtime=dict(length=(tb.rand(6), np.array([4, 2]))),
    mode=PYTHON,
    test_memmap=False,
)

MaxAndArgmaxTester = tb.makeTester(
    "MaxAndArgmaxTester",
    lambda x: T.max_and_argmax(x, axis=-1),
    lambda x: [x.max(-1), x.argmax(-1)],
    good=dict(
        matrix=(tb.rand(3, 4),),
        vector=(tb.rand(5),),
        integers=(tb.randint(3, 4),),
        nan=(np.array([[1, np.nan, 3], [1, 2, 3]]),),
    ),
    bad_runtime=dict(empty=(tb.rand(2, 0),)),
    mode=PYTHON,
    test_memmap=False,
)


class TestNative(unittest.TestCase):
    def test_all_cases_in_one_compiled_function(self):
        cases = []
        for tester in list(OPERATIONS.values()) + [
            DotTester,
            BatchedDotTester,
            AllocTester,
            ReshapeTester,
            MaxAndArgmaxTester,
        ]:
            for case, inputs in tester.good.items():
                variables, outputs = tester()._build(case, inputs)
                cases.append((tester(), case, variables, outputs, inputs))
        f = tb.inplace_func(
            [v for case in cases for v in case[2]],
            [o for case in cases for o in case[3]],
            mode=NATIVE,
            on_unused_input="ignore",
        )
        results = iter(f(*[np.array(value) for case in cases for value in case[4]]))
        for tester, case, _, _, inputs in cases:
            wanted = tester.expected(*[np.array(value) for value in inputs])
            wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
            for i, value in enumerate(wanted):
                tester._compare(case, i, next(results), np.asarray(value))

    def test_casts(self):
        dtypes = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"]
        table = dict(tb.multi_dtype_cast_checks((3, 2), dtypes))
        for mode in (PYTHON, NATIVE):
            variables = [T.TensorType(value.dtype, (False, False))() for value, _ in table.values()]
            f = tb.inplace_func(
                variables, [T.cast(v, target) for v, (_, target) in zip(variables, table.values())], mode=mode
            )
            with np.errstate(invalid="ignore"):
                for result, (value, target) in zip(f(*[value for value, _ in table.values()]), table.values()):
                    # The conversion of a negative float to an unsigned integer is undefined in C.
                    if not (target == "uint16" and value.dtype.kind == "f"):
                        np.testing.assert_array_equal(result, value.astype(target))
                    assert result.dtype == target

    def test_mixed_dtypes(self):
        table = dict(
            tb.multi_dtype_checks(
                (2, 3), (3,), ["bool", "int8", "uint8", "int32", "uint32", "float32", "float64", "complex64"]
            )
        )
        pairs = [
            (T.TensorType(a.dtype, (False, False))(), T.TensorType(b.dtype, (False,))()) for a, b in table.values()
        ]
        f = tb.inplace_func([v for pair in pairs for v in pair], [T.add(*pair) for pair in pairs], mode=NATIVE)
        for result, (a, b) in zip(f(*[value for pair in table.values() for value in pair]), table.values()):
            np.testing.assert_allclose(result, np.add(a, b, dtype=result.dtype), rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
