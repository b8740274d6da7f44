"""Elementwise Ops on drawn arrays: values in Python and C, broadcasting, layouts, many operands, threads, derivatives."""

import os
import unittest

import numpy as np
import scipy.special
from hypothesis import strategies as st

import theano_ng as theano
from theano_ng import scalar, tensor
from theano_ng.configparser import change_flags
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.tests.generated import COMPLEX, LAYOUTS, Compared, arrays, fill, generated
from theano_ng.tensor.type import TensorType


@st.composite
def operands(
    draw, dtypes, count=2, sides=(0, 70), ndim=(0, 3), contents=("small", "nonfinite"), layouts=tuple(LAYOUTS)
):
    """Draw arrays that broadcast to one shape: some arrays have length 1 in some dimensions."""
    rank = draw(st.integers(*ndim))
    # At most one dimension is long. An inner loop over it uses whole vectors; an outer loop over it calls many kernels.
    long_one = draw(st.integers(0, 2))
    shape = [draw(st.integers(*(sides if d == long_one else (0, 5)))) for d in range(rank)]
    result = []
    for _ in range(count):
        repeated = draw(st.sampled_from((0, 0, 0, 1, 2, 3, 7)))
        result.append(
            draw(
                arrays(
                    dtypes,
                    shape=tuple(1 if repeated >> d & 1 else n for d, n in enumerate(shape)),
                    contents=contents,
                    layouts=layouts,
                )
            )
        )
    return result


def run(op, *values, patterns=None):
    """Return the outputs of an Elemwise's native code."""
    types = [
        TensorType(str(v.dtype), p) for v, p in zip(values, patterns or [[n == 1 for n in v.shape] for v in values])
    ]
    node = op.make_node(*[t() for t in types])
    cells = [[None] for _ in node.outputs]
    make_native_thunk(node, node.op.native_code(node), [[v] for v in values], cells)()
    return [cell[0] for cell in cells]


def divided(x, y):
    """Return NumPy's quotient and modulus, or raise ZeroDivisionError if an integer is divided by zero."""
    if np.result_type(x, y).kind in "iu" and np.broadcast(x, y).size and not y.all():
        raise ZeroDivisionError
    return [x // y, x % y]


class TestValues(unittest.TestCase):
    """Elementwise functions have NumPy's values for several dtypes.

    Each compiled graph has many outputs, so that many functions are compiled together.
    """

    arithmetic = Compared(
        lambda x, y: [x + y, x * y, x - y, tensor.eq(x, y), tensor.neq(x, y), abs(x), tensor.sqr(y), -x],
        lambda x, y: [x + y, x * y, x - y, x == y, x != y, abs(x), np.square(y), -x],
        roundings=2,
    )
    ordering = Compared(
        lambda x, y: [
            tensor.maximum(x, y),
            tensor.minimum(x, y),
            x < y,
            x >= y,
            tensor.clip(x, y, y),
            tensor.sgn(x),
            tensor.switch(x > y, x, y),
        ],
        lambda x, y: [
            np.maximum(x, y),
            np.minimum(x, y),
            x < y,
            x >= y,
            np.where(x < y, y, np.where(x > y, y, x)).astype(np.result_type(x, y)),
            np.sign(x),
            np.where(x > y, x, y),
        ],
    )
    division = Compared(lambda x, y: [x // y, x % y], divided, errors=ZeroDivisionError)
    rounding = Compared(
        lambda x: [
            tensor.ceil(x),
            tensor.floor(x),
            tensor.trunc(x),
            tensor.round(x, "half_to_even"),
            tensor.isnan(x),
            tensor.isinf(x),
        ],
        lambda x: [np.ceil(x), np.floor(x), np.trunc(x), np.rint(x), np.isnan(x), np.isinf(x)],
    )
    bits = Compared(lambda x, y: [x & y, x | y, x ^ y, ~x], lambda x, y: [x & y, x | y, x ^ y, ~x])

    def quietly(self, compared, *values):
        with np.errstate(all="ignore"):
            compared.check(*values)

    @generated(st.sampled_from(["int8", "uint16", "int32", "uint64"]), st.data(), examples=15)
    def test_integer_arithmetic(self, dtype, data):
        x, y = data.draw(operands(dtype, contents=("small", "extreme")))
        self.quietly(self.arithmetic, x, y)
        self.quietly(self.division, x, y)
        self.quietly(self.division, x, y | (y == 0))
        self.quietly(self.bits, x, y)

    @generated(st.sampled_from(["float16", "float32", "float64"]), st.data(), examples=15)
    def test_float_ordering(self, dtype, data):
        x, y = data.draw(operands(dtype, contents=("small", "extreme")))
        self.quietly(self.ordering, x, y)
        self.quietly(self.rounding, x)
        self.quietly(self.division, x, y)

    @generated(st.sampled_from(["float16", "float64", "complex64"]), st.data(), examples=12)
    def test_float_arithmetic(self, dtype, data):
        # Finite elements are small multiples of 1/4: products and sums are exact, even if the compiler contracts them.
        x, y = data.draw(operands(dtype, contents=("small",) if dtype[0] == "c" else ("small", "nonfinite")))
        self.quietly(self.arithmetic, x, y)

    mixed = Compared(lambda x, y: [x + y, x * y], lambda x, y: [x + y, x * y])

    @generated(
        st.sampled_from(
            [("int8", "float32"), ("bool", "uint8"), ("float16", "int8"), ("uint64", "int64"), ("complex64", "float64")]
        ),
        st.data(),
        examples=15,
    )
    def test_mixed_dtypes(self, dtypes, data):
        shape = (data.draw(st.integers(0, 70)),)
        x, y = [data.draw(arrays(d, shape=shape)) for d in dtypes]
        self.quietly(self.mixed, x, y)


MATH = "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh".split()


class TestFunctions(unittest.TestCase):
    """Mathematical functions agree with NumPy up to a few units in the last place, over the range of each dtype."""

    def against(self, dtype, x, rtol, names=MATH):
        composite = scalar.Composite
        s = scalar.get_scalar_type(dtype)()
        results = run(Elemwise(composite([s], [getattr(scalar, n)(s) for n in names])), x)
        with np.errstate(all="ignore"):
            for name, got in zip(names, results):
                expected = getattr(np, name)(x.astype("float64") if dtype == "float32" else x).astype(dtype)
                np.testing.assert_allclose(
                    got, expected, rtol=rtol, atol=np.finfo(dtype).smallest_subnormal, err_msg="%s %s" % (name, dtype)
                )

    def test_math(self):
        for dtype, rtol in (("float64", 2e-15), ("float32", 6e-7)):
            info = np.finfo(dtype)
            scale = np.geomspace(float(info.tiny) * 8, 1, 400)
            x = np.concatenate(
                [
                    np.linspace(-30, 30, 1001),
                    scale,
                    -scale,
                    np.linspace(-1, 1, 501),
                    np.geomspace(1, 1e4, 300),
                    [0, -0.0, np.inf, -np.inf, np.nan, info.smallest_subnormal, info.max, info.min],
                ]
            ).astype(dtype)
            self.against(dtype, x, rtol)

    def test_every_float16(self):
        x = np.arange(2**16, dtype="uint16").view("float16")
        self.against("float16", x, 2e-3)
        s = scalar.float16()
        with np.errstate(all="ignore"):
            for op, expected in (
                (Elemwise(scalar.abs_), abs(x)),
                (Elemwise(scalar.neg), -x),
                (Elemwise(scalar.sqr), x * x),
                (Elemwise(scalar.floor), np.floor(x)),
                (Elemwise(scalar.convert_to_float64), x.astype("float64")),
                (Elemwise(scalar.isnan), np.isnan(x)),
                (Elemwise(scalar.Composite([s], [scalar.add(scalar.mul(s, s), s)])), x * x + x),
                (
                    Elemwise(scalar.Composite([s], [scalar.mul(scalar.add(s, scalar.constant(np.float16(0.1))), s)])),
                    (x + np.float16(0.1)) * x,
                ),
            ):
                np.testing.assert_array_equal(run(op, x)[0], expected, err_msg=str(op))
        wide = np.concatenate(
            [x.astype("float64") * (1 + 2.0**-k) for k in (10, 11, 12, 30)] + [np.linspace(-7e4, 7e4, 999)]
        )
        with np.errstate(all="ignore"):
            for source in ("float64", "float32") if theano.config.cxx else ("float32",):
                np.testing.assert_array_equal(
                    run(Elemwise(scalar.convert_to_float16), wide.astype(source))[0],
                    wide.astype(source).astype("float16"),
                )

    special = Compared(
        lambda x: [tensor.erf(x), tensor.erfc(x), tensor.gammaln(x), tensor.psi(x), tensor.j0(x), tensor.i1(x)],
        lambda x: [
            np.asarray(f(x), x.dtype)
            for f in (
                scipy.special.erf,
                scipy.special.erfc,
                scipy.special.gammaln,
                scipy.special.psi,
                scipy.special.j0,
                scipy.special.i1,
            )
        ],
        roundings=16,
    )

    @generated(arrays(("float32", "float64"), ndim=(1, 2), sides=(0, 9), contents="positive"), examples=15)
    def test_special(self, x):
        self.special.check(x)

    def test_no_c_is_one_call(self):
        """Bessel functions of any order have no C code: one call of SciPy computes the whole array."""
        v, x = np.linspace(-3, 4, 50)[:, None], np.linspace(0.1, 30, 70)[None]
        a, b = tensor.dmatrix(), tensor.drow()
        f = theano.function([a, b], [tensor.jv(a, b), tensor.iv(a, b)])
        for got, expected in zip(f(np.broadcast_to(v, (50, 70)), x), (scipy.special.jv(v, x), scipy.special.iv(v, x))):
            np.testing.assert_array_equal(got, expected)


class TestOperands(unittest.TestCase):
    @generated(operands("float64", count=3, ndim=(1, 3), contents=("small",)), examples=40)
    def test_layouts(self, values):
        """A Composite has NumPy's values for operands of all ranks, broadcast patterns, lengths and layouts.

        Together, the examples run every path of the C code that calls kernels (native/elementwise/elemwise.c).
        """
        x, y, z = [v.astype(v.dtype.newbyteorder("=")) if not v.dtype.isnative else v for v in values]
        a, b, c = [scalar.float64() for _ in range(3)]
        total, product = run(Elemwise(scalar.Composite([a, b, c], [a + b * c, a * b])), x, y, z)
        np.testing.assert_array_equal(total, x + y * z)
        np.testing.assert_array_equal(product, np.broadcast_arrays(x * y, total)[0])

    @generated(
        # Without a compiler, complex numbers have no native code, so the item size 16 is left out.
        st.sampled_from([1, 2, 4, 8, 16] if theano.config.cxx else [1, 2, 4, 8]),
        st.integers(0, 130),
        st.integers(0, 130),
        st.integers(1, 3),
        st.integers(0, 15),
    )
    def test_orders(self, item, rows, columns, depth, seed):
        """Operations on arrays of different memory orders agree with NumPy.

        C code transposes groups of rows while it reads them.
        """
        dtype = {1: "int8", 2: "int16", 4: "float32", 8: "float64", 16: "complex128"}[item]
        rng = np.random.RandomState(seed)
        shape = (depth, rows, columns)
        x, y = fill(shape, dtype, "small", rng), fill(shape, dtype, "small", rng)
        axes = rng.permutation(3)
        y = np.ascontiguousarray(y.transpose(axes)).transpose(np.argsort(axes))
        if seed % 2:
            y = y[:, ::-1]
        if seed % 3 == 1:
            y = y[:, :, ::-1]
        for a, b in ((x, y), (y, x)):
            (got,) = run(Elemwise(scalar.sub), a, b, patterns=[[False] * 3] * 2)
            np.testing.assert_array_equal(got, a - b)

    def test_fortran_order_is_kept(self):
        matrix = np.asfortranarray(np.arange(35.0).reshape(5, 7))
        for other in (np.arange(7.0)[None], np.arange(5.0)[:, None], np.array([[2.0]]), matrix * 2):
            op = Elemwise(scalar.add)
            (native,) = run(op, matrix, other)
            node = op.make_node(*[TensorType("float64", [n == 1 for n in v.shape])() for v in (matrix, other)])
            cell = [None]
            op.perform(node, [matrix, other], [cell])
            np.testing.assert_array_equal(native, matrix + other)
            for result in (native, cell[0]):
                self.assertTrue(result.flags.f_contiguous and not result.flags.c_contiguous)
        (mixed,) = run(Elemwise(scalar.add), matrix, np.ascontiguousarray(matrix))
        self.assertTrue(mixed.flags.c_contiguous)

    def test_many_operands(self):
        """Sums of more operands than NumPy's limits 32 and 64 are right, as one Op and as a chain, in C and Python."""
        rng = np.random.RandomState(3)
        for count in (33, 65, 100):
            values = [
                rng.randint(-9, 9, (1 if k % 7 == 3 else 4, 1 if k % 5 == 2 else 50)).astype("float64")
                for k in range(count)
            ]
            variables = [TensorType("float64", [n == 1 for n in v.shape])() for v in values]
            expected = sum(values[1:], values[0])
            for mode in ("FAST_RUN", "FAST_COMPILE"):
                f = theano.function(variables, [tensor.add(*variables), sum(variables[1:], variables[0])], mode=mode)
                for result in f(*values):
                    np.testing.assert_array_equal(result, expected)

    def test_many_transposed_operands(self):
        """Sums of many operands in another memory order are right.

        The total size of the buffers for such operands is limited.
        """
        for count in (3, 90, 400):
            values = [np.asfortranarray(np.arange(60.0 * 70).reshape(60, 70) + k) for k in range(count)]
            values[0] = np.ascontiguousarray(values[0])
            (got,) = run(Elemwise(scalar.add), *values)
            np.testing.assert_array_equal(got, sum(values))

    @generated(
        operands("float64", contents=("small",), layouts=("C", "fortran", "strided", "reversed", "offset")),
        st.booleans(),
        examples=30,
    )
    def test_inplace(self, values, same):
        """An output that overwrites an input has NumPy's values.

        The two inputs may be the same array, or overlap in memory.
        """
        x, y = values
        if x.shape != np.broadcast_shapes(x.shape, y.shape) or 1 in x.shape:
            return
        a, b = scalar.float64(), scalar.float64()
        op = Elemwise(scalar.Composite([a, b], [a - b, a * b]), {0: 0})
        x = x.copy(order="K")
        y = x if same else x[..., ::-1] if x.shape == y.shape and x.ndim else y
        expected = [x - y, x * y]
        results = run(op, x, y, patterns=[[False] * x.ndim, [n == 1 for n in y.shape]])
        self.assertIs(results[0], x)
        for got, want in zip(results, expected):
            np.testing.assert_array_equal(got, want)

    def test_composite_dtypes(self):
        """Composites have NumPy's values and dtypes for bool, integers, float16 and complex numbers.

        Some complex constants are not finite.
        """
        for dtype in ("bool", "float16", *(COMPLEX if theano.config.cxx else ()), "uint8"):
            t = scalar.get_scalar_type(dtype)
            a, b = t(), t()
            x, y = (
                fill((37,), dtype, "small", np.random.RandomState(0)),
                fill((37,), dtype, "small", np.random.RandomState(1)),
            )
            outputs, expected = (
                [scalar.mul(a, b), scalar.add(scalar.mul(a, b), a), scalar.eq(a, b)],
                [x * y, x * y + x, x == y],
            )
            if dtype[0] == "c":
                odd = np.array(complex(np.inf, -2), dtype)[()]
                outputs.append(scalar.switch(scalar.eq(a, b), a, scalar.constant(odd)))
                expected.append(np.where(x == y, x, odd))
            for got, want in zip(run(Elemwise(scalar.Composite([a, b], outputs)), x, y), expected):
                self.assertEqual(got.dtype, want.dtype)
                np.testing.assert_array_equal(got, want)


class TestThreads(unittest.TestCase):
    def setUp(self):
        with change_flags(openmp=True, openmp_elemwise_minsize=100):
            a, b = scalar.float64(), scalar.float64()
            self.op = Elemwise(scalar.Composite([a, b], [scalar.exp(a) * b + scalar.sin(b)]))
            self.node_values = [
                np.random.RandomState(0).rand(301, 517),
                np.asfortranarray(np.random.RandomState(1).rand(301, 517)),
            ]
            self.thunks = {}
            for name, values in (
                ("C", [self.node_values[0]] * 2),
                ("mixed", self.node_values),
                ("vector", [v.ravel() for v in self.node_values]),
            ):
                node = self.op.make_node(*[TensorType("float64", [False] * v.ndim)() for v in values])
                cell = [None]
                self.thunks[name] = (
                    make_native_thunk(node, node.op.native_code(node), [[v] for v in values], [cell]),
                    cell,
                    values,
                )

    def expected(self, values):
        return run(Elemwise(self.op.scalar_op, openmp=False), *values, patterns=[[False] * v.ndim for v in values])[0]

    def test_same_results(self):
        self.assertTrue(self.op.openmp)
        for thunk, cell, values in self.thunks.values():
            thunk()
            np.testing.assert_array_equal(cell[0], self.expected(values))

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_after_fork(self):
        """A forked child lacks the threads of its parent. It computes without threads, and does not wait for them."""
        thunk, cell, values = self.thunks["mixed"]
        thunk()
        expected = self.expected(values)
        cell[0] = None
        child = os.fork()
        if child == 0:
            status = 1
            try:
                thunk()
                status = int(not np.array_equal(cell[0], expected))
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class TestDerivatives(unittest.TestCase):
    smooth = Compared(
        lambda x, y: [
            tensor.exp(x) * tensor.tanh(y) + tensor.sqr(x - y),
            tensor.log1p(x * x) / (1 + y * y),
            tensor.erf(x) * y,
        ],
        lambda x, y: [np.exp(x) * np.tanh(y) + (x - y) ** 2, np.log1p(x * x) / (1 + y * y), scipy.special.erf(x) * y],
        roundings=16,
    )
    special = Compared(
        lambda x: [tensor.gamma(x), tensor.gammaln(x), tensor.psi(x), tensor.erfcx(x), tensor.j1(x), tensor.i0(x)], None
    )

    @generated(
        operands("float64", ndim=(0, 2), sides=(0, 4), contents=("distinct",), layouts=("C", "strided")), examples=6
    )
    def test_gradient(self, values):
        x, y = [v / 4 for v in values]
        self.smooth.check(x, y)
        if x.size and y.size:
            self.smooth.check_gradient(x, y)

    @generated(arrays("float64", ndim=(0, 1), sides=(1, 4), contents=("positive",), layouts=("C",)), examples=3)
    def test_gradient_of_special_functions(self, x):
        self.special.check_gradient(x + 0.5)


if __name__ == "__main__":
    unittest.main()
