"""The interpreter of elementwise programs, compared with compiled kernels and Python."""

import importlib
import os
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gof._native import processor_level
from theano_ng.gof.compiler.kernelcache import load_kernels
from theano_ng.gof.native import array_layout
from theano_ng.loops.blocks import instructions
from theano_ng.loops.blocks.interpreter import interpreted
from theano_ng.scalar.contraction import MulAdd, MulSub, SubMul
from theano_ng.scalar.types import get_scalar_type
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tensor.type import TensorType
from theano_ng.tests.split_tests import parts, split_tests

EXACT = (
    [scalar.add, scalar.sub, scalar.mul, scalar.true_div, scalar.int_div, scalar.mod, scalar.clip, scalar.switch]
    + [scalar.maximum, scalar.minimum, scalar.abs_, scalar.sgn, scalar.neg, scalar.inv, scalar.sqr, scalar.sqrt]
    + [scalar.lt, scalar.gt, scalar.le, scalar.ge, scalar.eq, scalar.neq, scalar.isnan, scalar.isinf, scalar.second]
    + [scalar.or_, scalar.xor, scalar.and_, scalar.invert, scalar.ceil, scalar.floor, scalar.trunc, scalar.identity]
    + [scalar.round_half_to_even, scalar.round_half_away_from_zero]
    + [scalar.Cast(get_scalar_type(dtype)) for dtype in (*instructions.DTYPES, "float16")]
)
DTYPES = (*instructions.DTYPES, "float16")
COMPLEX = (
    [scalar.add, scalar.sub, scalar.mul, scalar.true_div, scalar.neg, scalar.sqr, scalar.inv, scalar.abs_, scalar.sgn]
    + [
        scalar.real,
        scalar.imag,
        scalar.conj,
        scalar.complex,
        scalar.switch,
        scalar.maximum,
        scalar.minimum,
        scalar.second,
    ]
    + [scalar.lt, scalar.gt, scalar.le, scalar.ge, scalar.eq, scalar.neq, scalar.isnan, scalar.isinf, scalar.identity]
    + [
        scalar.Cast(get_scalar_type(dtype))
        for dtype in ("complex64", "complex128", "bool", "int16", "float32", "float64")
    ]
)
# Functions that this package implements. SPECIAL maps each function to the largest accepted relative difference from
# SciPy's function, which is not exact either.
NEAREST = [scalar.erf, scalar.erfinv, scalar.erfcinv, scalar.gamma, scalar.tri_gamma, scalar.i0, scalar.i1]
NEAR = [scalar.erfc, scalar.erfcx, scalar.gammaln, scalar.gammau, scalar.gammal, scalar.j0, scalar.j1]
SPECIAL = {**dict.fromkeys(NEAREST, 4e-15), **dict.fromkeys(NEAR, 1e-12)}
SPECIAL.update(dict.fromkeys([scalar.psi, scalar.chi2sf, scalar.gammainc, scalar.gammaincc], 5e-12))
CROSSING = {"gammaln", "psi", "j0", "j1"}  # functions with zeros
# Each function is compiled for each of these dtypes. THEANO_NG_ALL_DTYPES=1 selects all dtypes, which takes some minutes.
FEW_DTYPES = ("float32", "float64", "int8")
if os.environ.get("THEANO_NG_ALL_DTYPES"):
    FEW_DTYPES = (*DTYPES, "complex64", "complex128")
CONTRACTED = (MulAdd, MulSub, SubMul)  # these Ops are never nodes of a graph
COMPLEX_DTYPES = ("complex64", "complex128", "complex128", "float64", "float32", "int8", "uint16", "bool")


def nin_of(op, rng):
    return op.nin if op.nin >= 0 else int(rng.randint(1, 5))


def undefined(op, args):
    """Return True if a kernel and a program may compute different values of ``op(*args)``.

    C does not define conversions of floats to integers that are out of range. When gcc 12 vectorizes the two parts of a
    complex number, it omits conversions to complex64 of values that are converted back.
    """
    if not isinstance(op, scalar.Cast) or op.o_type.dtype == "bool":
        return False
    if op.o_type.dtype == "complex64" and args[0].type.dtype != "complex64":
        return True
    return args[0].type.dtype.startswith(("float", "complex")) and not op.o_type.dtype.startswith(("float", "complex"))


def random_values(dtype, shape, rng):
    """Return random values of a dtype, including special values."""
    kind = np.dtype(dtype)
    if kind.kind == "c":
        parts = np.stack([random_values("f%d" % (kind.itemsize // 2), shape, rng) for _ in range(2)], axis=-1)
        return parts.view(dtype)[..., 0]
    if kind.kind == "f":
        values = rng.randn(*shape) * rng.choice([1e-3, 1.0, 30.0])
        special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            np.inf,
            -np.inf,
            np.nan,
            0.5,
            2.5,
            float(np.finfo(kind).max),
            float(np.finfo(kind).tiny),
        ]
        values = np.where(rng.rand(*shape) < 0.2, rng.choice(special, size=shape), values)
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    if dtype == "bool":
        return rng.rand(*shape) < 0.5
    info = np.iinfo(kind)
    small = rng.randint(max(info.min, -9), 10, size=shape).astype(dtype)
    wide = rng.randint(info.min, info.max, size=shape, dtype=dtype)
    return np.where(rng.rand(*shape) < 0.5, small, wide)


def bits_of(array):
    """Return the bits of an array, after replacing all NaNs by one NaN."""
    array = np.array(array)
    if array.dtype.kind == "c":
        array = array.reshape(-1).view("f%d" % (array.dtype.itemsize // 2))
    if array.dtype.kind == "f":
        array[np.isnan(array)] = np.nan
        return array.view("u%d" % array.dtype.itemsize)
    return array


def ulps(x, y):
    """Return how many floats lie between the elements of two float arrays."""
    bits = np.dtype("u%d" % x.dtype.itemsize)
    top = bits.type(1 << (8 * bits.itemsize - 1))
    # Convert the bits of the floats to integers that have the order of the floats. -0 and 0 become neighbors.
    a, b = [np.where(v.view(bits) & top, ~v.view(bits), v.view(bits) | top) for v in (x, y)]
    return np.where(np.isnan(x) & np.isnan(y), bits.type(0), np.maximum(a, b) - np.minimum(a, b))


def run(node, values, loaded=None):
    """Return the outputs of a node, computed by the program `loaded` or, by default, by the compiled kernel.

    If the computation raises ZeroDivisionError, return the error message.
    """
    code = node.op.native_code(node)
    cells = [[None] for _ in node.outputs]
    layouts = [array_layout(v.type) for v in (*node.inputs, *node.outputs)]
    thunk = code.bind([loaded] if loaded else load_kernels(code.kernels), [[v] for v in values], cells, layouts)
    try:
        thunk()
    except ZeroDivisionError as error:
        return str(error)
    return [c[0] for c in cells]


def interpretation(node):
    (kernel,) = node.op.native_code(node).kernels
    return kernel.load_interpreted()


PREDICATES = [scalar.isnan, scalar.isinf]


@split_tests
class TestPrograms(unittest.TestCase):
    def random_composite(self, rng, ops, dtypes):
        inputs = [get_scalar_type(str(rng.choice(dtypes))).make_variable() for _ in range(rng.randint(1, 5))]
        known = list(inputs)
        while len(known) < len(inputs) + rng.randint(2, 12):
            op = ops[rng.randint(len(ops))]
            args = [known[rng.randint(len(known))] for _ in range(nin_of(op, rng))]
            if undefined(op, args):
                continue
            if rng.rand() < 0.2:
                with np.errstate(all="ignore"):
                    number = random_values(args[-1].type.dtype, (1,), rng)[0]
                args[-1] = scalar.constant(number, dtype=args[-1].type.dtype)
            try:
                known.append(op(*args))
            except (TypeError, NotImplementedError):  # the Op does not accept these types
                continue
        outputs = [known[-1], *[known[rng.randint(len(inputs), len(known))] for _ in range(rng.randint(0, 3))]]
        return scalar.Composite(inputs, list(dict.fromkeys(outputs)))

    def random_node(self, rng, ops, dtypes=DTYPES):
        """Return a node with a random program, and input values. Inputs may be broadcast, strided or overwritten."""
        op = self.random_composite(rng, ops, dtypes)
        ndim = rng.randint(0, 3)
        shape = [int(rng.choice([1, 3, 65, 300, 1500])) if d else int(rng.choice([2, 7])) for d in range(ndim)]
        variables, values = [], []
        for type_ in op.inputs_type:
            pattern = [bool(rng.rand() < 0.25) for _ in range(ndim)]
            variables.append(TensorType(type_.dtype, pattern)())
            lengths = [1 if b else n for b, n in zip(pattern, shape)]
            value = random_values(type_.dtype, tuple(lengths), rng)
            values.append(value[..., ::-1].copy()[..., ::-1] if ndim and rng.rand() < 0.2 else np.asarray(value))
        result = [all(flags) for flags in zip(*[v.type.broadcastable for v in variables])]
        inplace = {}
        for j, type_ in enumerate(op.outputs_type):
            for i, variable in enumerate(variables):
                fits = variable.type.dtype == type_.dtype and list(variable.type.broadcastable) == result
                if fits and i not in inplace.values() and j not in inplace and rng.rand() < 0.5:
                    inplace[j] = i
        return Elemwise(op, inplace).make_node(*variables), values

    def compare(self, ops, count, seed, dtypes=DTYPES):
        rng, compared = np.random.RandomState(seed), 0
        while compared < count:
            node, values = self.random_node(rng, ops, dtypes)
            loaded = interpretation(node)
            if loaded is None:
                continue
            compared += 1
            expected = run(node, [v.copy() for v in values])
            got = run(node, [v.copy() for v in values], loaded)
            if isinstance(expected, str):
                self.assertEqual(got, expected)
                continue
            for k, (x, y) in enumerate(zip(got, expected)):
                message = "%d: output %d of %s on %s" % (compared, k, node.op, [v.dtype.name for v in values])
                self.assertEqual((x.dtype, x.shape, x.strides), (y.dtype, y.shape, y.strides), message)
                np.testing.assert_array_equal(bits_of(x), bits_of(y), err_msg=message)

    @parts(5)
    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_bits_of_kernels(self, part):
        """Random programs have the same results as compiled kernels, bit by bit."""
        self.compare(EXACT, 30, 10 + part)

    @parts(3)
    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_bits_of_contracted_products(self, part):
        signs = [scalar.neg] * (4 * part)
        self.compare(
            [scalar.add, scalar.sub, scalar.mul, scalar.sqr, scalar.neg, *signs], 20, 20 + part, ("float32", "float64")
        )

    @parts(4)
    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_bits_of_functions(self, part):
        ops = [op for op in instructions._registered.values() if type(op) not in CONTRACTED]
        products = [scalar.add, scalar.sub, scalar.mul, scalar.neg, scalar.sqr] * 4
        dtypes = DTYPES if part % 2 else ("float32", "float64", "float16")
        self.compare([*ops, *products], 15, 50 + part, dtypes)

    @parts(4)
    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_bits_of_complex_numbers(self, part):
        self.compare(COMPLEX, 25, 40 + part, COMPLEX_DTYPES)

    @parts(3)
    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_bits_of_integers(self, part):
        self.compare(
            [scalar.int_div, scalar.mod, scalar.add, scalar.mul], 20, 30 + part, ("int8", "uint16", "int32", "int64")
        )

    def test_complex_extremes(self):
        rng = np.random.RandomState(7)
        # Many pairs of numbers have equal real parts, so that the comparison depends on their imaginary parts.
        numbers = rng.randint(-2, 3, (2, 400)) + 1j * rng.randint(-2, 3, (2, 400))
        for dtype in ("complex64", "complex128"):
            for op in (scalar.maximum, scalar.minimum):
                node = Elemwise(op).make_node(*[TensorType(dtype, (False,))() for _ in range(2)])
                values = list(numbers.astype(dtype))
                expected = run_node(node.outputs[0], dict(zip(node.inputs, values)), "py")[0]
                np.testing.assert_array_equal(run(node, values, interpretation(node))[0], expected)

    def test_special_functions(self):
        """Special functions agree with SciPy's on a dense grid.

        The errors are relative. For functions with zeros, the absolute error is divided by at least 1e-3.
        """
        one = np.concatenate(
            [np.linspace(-30, 30, 4801), np.geomspace(1e-12, 700, 1500), -np.geomspace(1e-12, 20, 500)]
        )
        shape = np.array([1e-3, 0.4, 0.5, 1, 1.5, 2.5, 7, 19, 20.5, 45, 130, 199, 201, 1500])
        two = [
            z.reshape(-1)
            for z in np.meshgrid(shape, np.concatenate([np.linspace(0, 60, 900), np.geomspace(1e-9, 4000, 900)]))
        ]
        for op, limit in SPECIAL.items():
            node = Elemwise(op).make_node(*[TensorType("float64", (False,))() for _ in range(op.nin)])
            values = two if op.nin == 2 else [one[(one > -1) & (one < 1)] if "inv" in op.name else one]
            loaded = interpretation(node)
            self.assertIsNotNone(loaded, op)
            out = node.outputs[0]
            with np.errstate(all="ignore"):
                (expected,), (got,) = run_node(out, dict(zip(node.inputs, values)), "py"), run(node, values, loaded)
            where = np.isfinite(expected) & (np.abs(expected) > 1e-290)
            self.assertGreater(where.sum(), 900)
            np.testing.assert_array_equal(np.isfinite(got[where]), True, err_msg=op.name)
            error = np.abs(got - expected)[where] / np.maximum(
                np.abs(expected[where]), 1e-3 if op.name in CROSSING else 0
            )
            self.assertLess(error.max(), limit, op)

    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_complex_functions(self):
        """Complex functions differ by at most one unit in the last place between programs and kernels.

        Kernels call the C library.
        """
        rng = np.random.RandomState(6)
        ops = [scalar.angle, scalar.complex_from_polar]
        ops += [
            op
            for op in instructions._registered.values()
            if instructions.name_of(op, "complex64") in instructions.instruction_module().instructions
        ]
        self.assertGreater(len(ops), 15)
        for op in ops:
            for dtype in ("complex64", "complex128"):
                given = instructions.PARTS[dtype] if op is scalar.complex_from_polar else dtype
                variables = [TensorType(given, (False,))() for _ in range(op.nin)]
                node = Elemwise(op).make_node(*variables)
                values = [random_values(given, (700,), rng) for _ in variables]
                loaded = interpretation(node)
                self.assertIsNotNone(loaded, op)
                x, y = [
                    np.ascontiguousarray(z).view(z.real.dtype)
                    for (z,) in (run(node, values), run(node, values, loaded))
                ]
                self.assertLessEqual(ulps(x, y).max(), 1, (op, dtype))

    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_sums_of_complex_quotients(self):
        """Sums with complex quotients have the same bits in programs and in kernels.

        The computation of a complex quotient ends with a product. Compilers do not contract this product with the sum.
        """
        rng = np.random.RandomState(8)
        for dtype in ("complex64", "complex128"):
            x, y, z = [scalar.get_scalar_type(dtype)() for _ in range(3)]
            for form in (x / y + z, z - x / y, scalar.inv(x) + y + z, x / y * z + x, x / y + y / z):
                vectors = [TensorType(dtype, (False,))() for _ in range(3)]
                node = Elemwise(scalar.Composite([x, y, z], [form])).make_node(*vectors)
                values = [(rng.uniform(-3, 3, 700) + 1j * rng.uniform(-3, 3, 700)).astype(dtype) for _ in vectors]
                expected, got = run(node, values), run(node, values, interpretation(node))
                np.testing.assert_array_equal(bits_of(got[0]), bits_of(expected[0]), err_msg=str((form, dtype)))

    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_functions_that_end_with_a_product(self):
        """A sum with a function has the same bits in programs and in kernels.

        If the function ends with a product, a compiler could contract the product with the sum.
        """
        rng = np.random.RandomState(7)
        functions = [
            op for op in instructions._registered.values() if op.nin == 1 and type(op) is not type(scalar.invert)
        ]
        for op in functions:
            for dtype in ("float32", "float64"):
                if (
                    instructions.name_of(op, dtype) not in instructions.instruction_module().instructions
                    or op in PREDICATES
                ):
                    continue
                x = scalar.get_scalar_type(dtype)("x")
                node = Elemwise(scalar.Composite([x], [op(op(x)) + op(x)])).make_node(T.vector(dtype=dtype))
                values = [rng.uniform(0.05, 3, 400).astype(dtype)]
                expected, got = run(node, values), run(node, values, interpretation(node))
                np.testing.assert_array_equal(bits_of(got[0]), bits_of(expected[0]), str(op))

    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_floats_by_way_of_integers(self):
        """Programs and kernels convert floats to integers and back, and do not use `trunc` instead.

        Unlike the conversion, `trunc` keeps the sign of a zero, and values that do not fit into the integer.
        """
        given = np.array([-0.3, 0.7, -0.0, 1.5, 300.75, 70000.25] * 3)
        for source in ("float32", "float64", "complex128"):
            x = scalar.get_scalar_type(source)("x")
            real = scalar.real(x) if source == "complex128" else x
            for target in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
                form = scalar.cast(scalar.cast(real, target), real.type.dtype) * np.int8(2)
                node = Elemwise(scalar.Composite([x], [form])).make_node(T.vector(dtype=source))
                values = [given.astype(source)]
                right = 2 * given.astype("int64").astype(target).astype(real.type.dtype)
                for results in (run(node, values), run(node, values, interpretation(node))):
                    np.testing.assert_array_equal(bits_of(results[0]), bits_of(right), err_msg=str((source, target)))

    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_absolute_values_of_squares(self):
        """Absolute values of squares have the same bits in programs and in kernels.

        In kernels, compilers omit these absolute values.
        """
        rng = np.random.RandomState(5)
        for dtype in ("float32", "float64"):
            x = scalar.get_scalar_type(dtype)("x")
            square = scalar.abs_(scalar.sqr(x))
            forms = square + x, square - x, x - square, x - 2 * square, scalar.abs_(x * x) + x, -square + x, square
            for form in (*forms, scalar.abs_(square) + x, scalar.abs_(x * scalar.abs_(x)) + x):
                for one_value in (False, True):
                    node = Elemwise(scalar.Composite([x], [form])).make_node(TensorType(dtype, (one_value,))())
                    for value in rng.uniform(-1, 1, (20, 1 if one_value else 5)).astype(dtype):
                        expected, got = run(node, [value]), run(node, [value], interpretation(node))
                        np.testing.assert_array_equal(bits_of(got[0]), bits_of(expected[0]), err_msg=str((form, dtype)))

    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_functions(self):
        """Each function has the same bits in programs and in kernels, for each dtype.

        This holds for every array length, and every position of an element in the array.
        """
        rng, nodes = np.random.RandomState(3), []
        for op in instructions._registered.values():
            for dtype in (
                "float16",
                "float32",
                "float64",
                "complex64",
                "complex128",
                "bool",
                "int8",
                "uint16",
                "int64",
            ):
                variables = [TensorType(dtype, (False,))() for _ in range(max(op.nin, 2) if op.nin < 0 else op.nin)]
                try:
                    node = Elemwise(op).make_node(*variables)
                except (TypeError, NotImplementedError):  # the Op does not accept these types
                    continue
                if node.op.native_code(node) is not None:
                    nodes.append((node, [self.arguments(dtype, rng) for _ in variables]))
        self.assertGreater(len(nodes), 50 * len(FEW_DTYPES))
        load_kernels([node.op.native_code(node).kernels[0] for node, _ in nodes])
        for node, values in nodes:
            whole = run(node, values)
            (kernel,) = node.op.native_code(node).kernels
            for n in (1, 2, 3, 5, 8, 31, 63, 100, 1025, 1500):
                part = [v[:n].copy() for v in values]
                given, found = run(node, part), run(node, part, kernel.load_interpreted())
                if isinstance(given, str):
                    self.assertEqual(found, given, node)
                    continue
                message = "%s of %d numbers" % (node, n)
                np.testing.assert_array_equal(bits_of(found[0]), bits_of(given[0]), err_msg=message)
                if not isinstance(whole, str):
                    np.testing.assert_array_equal(bits_of(given[0]), bits_of(whole[0][:n]), err_msg=message)

    @staticmethod
    def arguments(dtype, rng):
        """Return special numbers and numbers of many magnitudes."""
        values = random_values(dtype, (1500,), rng)
        if np.dtype(dtype).kind != "f":
            return values
        with np.errstate(all="ignore"):
            others = np.abs(values) * 10.0 ** rng.uniform(-3, 3, 1500)
            return np.where(rng.rand(1500) < 0.5, values, others).astype(dtype)

    def test_what_has_no_instructions(self):
        """Users' Ops and comparisons of int64 with uint64 have no program: compiled kernels or Python run them."""

        class Twice(scalar.UnaryScalarOp):
            output_types_preference = staticmethod(scalar.same_out)

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = 2 * %s;" % (outputs[0], inputs[0])

        self.assertIsNone(interpretation(Elemwise(Twice()).make_node(T.dvector())))
        # Signed and unsigned 64-bit integers have no common dtype, so the interpreter cannot compare them exactly.
        self.assertIsNone(interpretation(T.lt(T.lvector(), TensorType("uint64", (False,))()).owner))

    def test_rows_are_up_to_date(self):
        """native/elementwise/blocks/instructions.h is equal to the output of misc.write_instructions."""
        importlib.import_module("theano_ng.tensor.nnet.nnet")
        with open(instructions.INSTRUCTIONS_HEADER, encoding="utf-8") as file:
            self.assertEqual(file.read(), instructions.c_source())

    def test_levels(self):
        """The modules for all processor levels that this processor supports have the same instructions."""
        base = importlib.import_module("theano_ng.tensor.native.blocks_v1")
        names = sorted(base.instructions)
        for level in range(2, processor_level() + 1):
            try:
                module = importlib.import_module("theano_ng.tensor.native.blocks_v%d" % level)
            except ImportError:
                continue
            self.assertEqual(sorted(module.instructions), names)


PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
import numpy as np, theano_ng as theano, theano_ng.tensor as T
from theano_ng.gof._native import NativeThunk
a, b = T.dmatrices("a", "b")
w = theano.shared(np.ones((3, 4)), "w")
y = T.exp(-a * b) + T.nnet.sigmoid(a) * w.sum(axis=0)
f = theano.function([a, b], [y, T.tanh(a * b).sum(), T.max(a + b, axis=1)], updates=[(w, w * 2 - a)], mode="FAST_RUN")
x = np.linspace(-1, 1, 12).reshape(3, 4)
got = f(x, x + 1)
np.testing.assert_allclose(got[0], np.exp(-x * (x + 1)) + 4 * 0 + 3 / (1 + np.exp(-x)), rtol=1e-14)
np.testing.assert_allclose(got[1], np.tanh(x * (x + 1)).sum(), rtol=1e-14)
np.testing.assert_allclose(got[2], (2 * x + 1).max(1), rtol=1e-14)
np.testing.assert_array_equal(w.get_value(), 2 - x)
elementwise = [t for n, t in zip(f.fn.nodes, f.fn.thunks) if "lemwise" in type(n.op).__name__]
print(len(elementwise), all(isinstance(t, NativeThunk) for t in elementwise))
"""


class TestPowers(unittest.TestCase):
    """Tests of powers in programs and in kernels, whose loops compute several elements at once."""

    def check(self, power, dtype):
        rng = np.random.RandomState(11)
        usual = [rng.uniform(0.01, 9, 999).astype(dtype), rng.uniform(-9, 9, 999).astype(dtype)]
        alone = np.concatenate([power(*[v[k : k + 1] for v in usual]) for k in range(50)])
        # A power does not depend on the position of its element or on neighboring elements.
        for shift in range(17):
            x, y = [np.roll(v[:50], shift) for v in usual]
            np.testing.assert_array_equal(np.roll(power(x, y), -shift), alone)
        special = np.array([0, -0.0, 1, -1, 2, -3, 0.5, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan], dtype)
        wide = np.longdouble if dtype == "float64" else np.float64
        for every in (2, 3, 5, 16, 17):
            x, y = usual[0].copy(), usual[1].copy()
            x[::every], y[1::every] = rng.choice(special, x[::every].size), rng.choice(special, y[1::every].size)
            with np.errstate(all="ignore"):
                expected = (x.astype(wide) ** y.astype(wide)).astype(dtype)
            rtol = 4e-16 if dtype == "float64" else 1.2e-7
            np.testing.assert_allclose(power(x, y), expected, rtol=rtol, atol=np.finfo(dtype).tiny)

    def nodes(self):
        for dtype in ("float64", "float32"):
            yield dtype, Elemwise(scalar.pow).make_node(*[TensorType(dtype, (False,))() for _ in range(2)])

    def test_programs(self):
        for dtype, node in self.nodes():
            loaded = interpretation(node)
            self.check(lambda x, y: run(node, [x, y], loaded)[0], dtype)

    @unittest.skipUnless(config.cxx, "needs a compiler")
    def test_kernels(self):
        for dtype, node in self.nodes():
            self.check(lambda x, y: run(node, [x, y])[0], dtype)


class TestSums(unittest.TestCase):
    """Sums of computed integer values, which are exact in any order of summation."""

    LENGTHS = (0, 1, 7, 31, 32, 33, 63, 64, 65, 200, 1023, 1024, 1025, 2048, 3001)

    def check(self):
        rng = np.random.RandomState(12)
        for dtype in ("float64", "float32", "int64", "uint64"):
            x, y = T.vector(dtype=dtype), T.vector(dtype=dtype)
            f = theano.function([x, y], T.sum(x * y + x))
            for n in self.LENGTHS:
                a, b = [rng.randint(0, 9, n).astype(dtype) for _ in range(2)]
                self.assertEqual(f(a, b), (a * b + a).sum(), (dtype, n))

    def test_programs(self):
        with change_flags(cxx=""):
            self.check()

    @unittest.skipUnless(config.cxx, "needs a compiler")
    def test_kernels(self):
        with change_flags(tiered="off"):
            self.check()


class TestDebugMode(unittest.TestCase):
    @unittest.skipUnless(config.cxx, "there is no compiler to compare with")
    def test_interpreter_is_compared(self):
        """DebugMode also runs programs instead of kernels, and names a program whose result differs."""
        x = T.dvector("x")
        values = np.linspace(0.1, 1, 20)
        mode = theano.compile.DebugMode(check_py_code=True)
        np.testing.assert_allclose(theano.function([x], T.exp(x) + x, mode=mode)(values), np.exp(values) + values)

        def wrong(program):
            steps = [step._replace(op=scalar.cos) if step.op == scalar.sin else step for step in program.steps]
            return interpreted(program._replace(steps=tuple(steps)))

        with mock.patch("theano_ng.loops.kernel.interpreted", wrong):
            f = theano.function([x], T.sin(x), mode=mode)
        with self.assertRaises(theano.compile.debugmode.BadThunkOutput) as caught:
            f(values)
        self.assertIn("interpreter", str(caught.exception))


class TestWithoutCompiler(unittest.TestCase):
    def test_function(self):
        """Without a compiler (flag `cxx=`), native code still computes elementwise nodes and fused reductions."""
        flags = ",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "cxx="]))
        environment = dict(os.environ, THEANO_FLAGS=flags)
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        count, native = done.stdout.split()
        self.assertGreaterEqual(int(count), 3)
        self.assertEqual(native, "True")


class TestManyValues(unittest.TestCase):
    def test_memory_of_values(self):
        """The interpreter can run a program with 1200 intermediate values that are needed at the same time."""
        x = scalar.float64("x")
        values = [x * k for k in range(1, 1201)]
        total = scalar.add(*values)
        op = scalar.Composite([x], [scalar.add(*[v * total for v in values])])
        node = Elemwise(op).make_node(T.dvector())
        loaded = interpretation(node)
        self.assertIsNotNone(loaded)
        given = np.arange(3000.0) % 7
        (got,) = run(node, [given], loaded)
        np.testing.assert_allclose(got, (given * (1200 * 1201 // 2)) ** 2, rtol=1e-12)


if __name__ == "__main__":
    unittest.main()
