"""The reduction loops that ship with the package: the dtypes that have loops, and the results."""

import ctypes
import itertools
import math
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng import scalar
from theano_ng.audit import forms
from theano_ng.gof.compiler import find_toolchain
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor.elemwise import CAReduce, Sum
from theano_ng.tensor.native.reduce import fold_of, has_fold
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tensor.type import TensorType

ADD, MUL, MAX, MIN, AND, OR, XOR = range(1, 8)  # native/reductions/reduce_folds.h
SIGNED, UNSIGNED = "bhilq", "BHILQ"  # NumPy's type characters: long and long long are two types of the same size
ADDED = [(x, acc) for x in SIGNED for acc in "lq"] + [(x, acc) for x in UNSIGNED for acc in "LQ"]
ADDED += [("?", acc) for acc in "lqLQ"] + ["ef", "ed", "ff", "fd", "dd", "ld", "qd", "id"]
COMPLEX = ["FF", "FD", "DD"]


def number(letter):
    return np.dtype(letter).num


class TestTable(unittest.TestCase):
    def test_no_compiler_is_needed(self):
        """The package has loops for sums, products, maxima, minima and bitwise reductions of the usual dtypes."""
        for op in (ADD, MUL):
            for x, acc in ADDED + COMPLEX:
                self.assertTrue(has_fold(op, number(x), number(acc)), (op, x, acc))
        for op in (MAX, MIN):
            for letter in "?fd" + SIGNED + UNSIGNED:
                self.assertTrue(has_fold(op, number(letter), number(letter)), (op, letter))
            self.assertTrue(has_fold(op, number("e"), number("f")))
        for op in (AND, OR, XOR):
            for letter in "?" + SIGNED + UNSIGNED:
                self.assertTrue(has_fold(op, number(letter), number(letter)), (op, letter))

    def test_pairs_without_a_loop(self):
        for op, x, acc in [(ADD, "b", "f"), (MUL, "f", "l"), (MAX, "b", "h"), (MIN, "D", "D"), (AND, "d", "d")]:
            self.assertFalse(has_fold(op, number(x), number(acc)), (op, x, acc))

    def test_what_extremes_begin_with(self):
        """A maximum begins with the lowest value of its dtype, a minimum with the highest one."""
        for letter in "?fd" + SIGNED + UNSIGNED:
            dtype = np.dtype(letter)
            if letter == "?":
                lowest, highest = False, True
            elif dtype.kind == "f":
                lowest, highest = -np.inf, np.inf
            else:
                lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
            for op, want in ((MAX, lowest), (MIN, highest)):
                _, identity = fold_of(op, dtype.num, dtype.num)
                self.assertEqual(np.frombuffer(identity[: dtype.itemsize], dtype)[0], want, (op, letter))


class TestExtremes(unittest.TestCase):
    def test_nan_in_any_row(self):
        """The maximum and the minimum of a column with NaN are NaN, in whichever row the NaN is.

        Several rows are processed together.
        """
        for dtype in ("float32", "float64"):
            for rows in range(1, 10):
                for at in range(rows):
                    x = np.random.RandomState(rows).randn(rows, 70).astype(dtype)
                    x[at, ::3] = np.nan
                    for op, want in ((scalar.maximum, x.max(0)), (scalar.minimum, x.min(0))):
                        node = CAReduce(op, axis=0)(TensorType(dtype, (False, False))()).owner
                        cells = [[None]]
                        make_native_thunk(node, node.op.native_code(node), [[x]], cells)()
                        np.testing.assert_array_equal(cells[0][0], want, str((dtype, rows, at)))

    def test_nan_at_any_place(self):
        """An extreme is NaN if any element is NaN, for arrays of any length and stride."""
        for dtype in ("float16", "float32", "float64"):
            x = TensorType(dtype, (False,))()
            for op, reduce in ((scalar.maximum, np.max), (scalar.minimum, np.min)):
                node = CAReduce(op, axis=None)(x).owner
                given, cells = [None], [None]
                thunk = make_native_thunk(node, node.op.native_code(node), [given], [cells])
                for n, step in itertools.product((1, 7, 15, 16, 17, 33, 70), (1, 2, -1, -3)):
                    numbers = np.random.RandomState(n).randn(n).astype(dtype)
                    for at in range(-1, n):
                        given[0] = np.zeros(n * abs(step), dtype)[::step]
                        given[0][:] = numbers
                        given[0][at : at + 1] = np.nan
                        thunk()
                        np.testing.assert_array_equal(cells[0], reduce(given[0]), str((dtype, n, step, at)))


class TestFusedSums(unittest.TestCase):
    def test_long_and_strided(self):
        """Fused sums equal NumPy's for arrays that are longer than a block, and for strided elements.

        The elements are floats of 8 bytes, or complex numbers of 16 bytes.
        """
        rng = np.random.RandomState(0)
        x, z = tt.dvector(), tt.zvector()
        mode = theano.compile.get_mode("FAST_RUN")
        of_reals = theano.function([x], tt.sum(x * x), mode=mode)
        of_complex = theano.function([z], tt.sum(abs(z)), mode=mode)
        for n in (1, 64, 1024, 1025, 2100, 4096, 4097, 9000, 20011):
            a = rng.randint(0, 9, 3 * n) + 0.0
            for given in (a[:n], a[::3], a[::-3]):
                self.assertEqual(of_reals(given), (given * given).sum())
                self.assertEqual(of_complex(given * (3 + 4j)), 5 * given.sum())
                c = (a * (3 + 4j))[:: 3 if given is not a[:n] else 1]
                self.assertEqual(of_complex(c), np.abs(c).sum())


class TestFewColumns(unittest.TestCase):
    def test_all(self):
        """Reductions along the first axis of arrays with few columns equal NumPy's, for every dtype.

        Some loops handle one row at a time.
        """
        rng = np.random.RandomState(3)
        operations = (
            (scalar.add, np.add, "float16 float32 float64 int8 int64 complex64 complex128"),
            (scalar.mul, np.multiply, "float16 float32 float64 int8 int64 complex64 complex128"),
            (scalar.maximum, np.maximum, "bool float16 float32 float64 int8 uint16 int64"),
            (scalar.minimum, np.minimum, "bool float16 float32 float64 int8 uint16 int64"),
            (scalar.and_, np.bitwise_and, "bool uint8 int64"),
            (scalar.or_, np.bitwise_or, "bool uint8 int64"),
            (scalar.xor, np.bitwise_xor, "uint8 int64"),
        )
        for op, function, dtypes in operations:
            for dtype, columns, rows in itertools.product(dtypes.split(), (1, 2, 3, 7, 16, 33, 64), (5, 600, 1777)):
                x = rng.randint(0, 2, (rows, columns)).astype(dtype)
                if op == scalar.mul:
                    signs = [1, -1] if np.dtype(dtype).kind != "c" else [1, -1, 1j, -1j]
                    x = rng.choice(signs, (rows, columns)).astype(dtype)
                    x[rows // 2] = 2
                variable = TensorType(dtype, (False, False))()
                for value in (x, np.asfortranarray(x), x[::-1], x[:, ::-1]):
                    want = function.reduce(value, axis=0, dtype=dtype)
                    node, cells = CAReduce(op, axis=0)(variable).owner, [[None]]
                    if not find_toolchain() and not node.op.reads_blocks(node):
                        continue  # the loop is a kernel, which needs a compiler
                    make_native_thunk(node, node.op.native_code(node), [[value]], cells)()
                    np.testing.assert_array_equal(cells[0][0], want, str((op, dtype, value.shape, value.strides)))


class TestBoxes(unittest.TestCase):
    """The function that runs all loops of a reduction in one C call, for contiguous elements and results."""

    OPERATIONS = (
        (ADD, np.add, "int64 float64", 0),
        (MUL, np.multiply, "int64 float64", 1),
        (MAX, np.maximum, "int8 uint16 int64 float32 float64", None),
        (MIN, np.minimum, "int16 uint8 uint64 float32 float64", None),
        (AND, np.bitwise_and, "bool int8 uint64", -1),
        (OR, np.bitwise_or, "bool int32 uint16", 0),
        (XOR, np.bitwise_xor, "int16 uint32", 0),
    )

    def test_all_axes(self):
        from theano_ng.tensor.native.reduce import address_of_fold_box

        box = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(address_of_fold_box())
        rng = np.random.RandomState(3)
        for operation, ufunc, dtypes, identity in self.OPERATIONS:
            for dtype, shape in itertools.product(dtypes.split(), ((1,), (40,), (3, 5), (5, 1, 30), (2, 0))):
                x = rng.randint(1, 3, shape).astype(dtype)
                code, first = np.dtype(dtype).num, np.zeros(16, "int8")
                if identity is not None:
                    first[: x.itemsize] = np.array([identity]).astype(dtype).view("int8")
                for n in range(1, x.ndim + 1):
                    for axes in itertools.combinations(range(x.ndim), n):
                        if identity is None and any(x.shape[d] == 0 for d in axes):
                            continue
                        bits = sum(1 << d for d in axes)
                        words = [operation, x.ndim, bits, code, code, code, identity is not None]
                        words = np.array(words + list(first.view("int64")))
                        lengths, want = np.array(shape), ufunc.reduce(x, axes, dtype)
                        got = np.full(want.size + 2, 77).astype(dtype)
                        given = [a.ctypes.data for a in (words, lengths, x, got[1:])]
                        self.assertEqual(box(*given), 0)
                        np.testing.assert_array_equal(got[1:-1], want.ravel(), str((ufunc, dtype, shape, axes)))
                        np.testing.assert_array_equal(got[[0, -1]], np.array([77, 77]).astype(dtype))


class TestRounding(unittest.TestCase):
    def test_small_numbers_are_not_lost(self):
        """A sum of one large number and many small numbers includes the small numbers, for any stride."""
        variable = tt.dvector()
        for n, step in itertools.product((256, 1025, 2048, 5000, 50001), (1, 2, -1, 3)):
            x = np.full(n * abs(step), 7.0)[::step]
            x[:] = 2.0**-54
            x[0] = 1
            (got,) = run_node(Sum(acc_dtype="float64")(variable), {variable: x}, "c")
            self.assertLess(abs(got - math.fsum(x)), n * 2.0**-56, (n, step))


class TestEarlierResults(unittest.TestCase):
    """A reduction may write into the array that an earlier call returned."""

    OPS = (Sum(), Sum(axis=0), Sum(axis=1), CAReduce(scalar.maximum, axis=(0,)), CAReduce(scalar.minimum, axis=(0, 1)))

    def run_over(self, op, x, before):
        variable = TensorType(x.dtype, (False,) * x.ndim)()
        node = op(variable).owner
        cells = [[before]]
        make_native_thunk(node, node.op.native_code(node), [[x]], cells)()
        return cells[0][0]

    def test_an_array_that_fits_is_used_again(self):
        rng = np.random.RandomState(5)
        for op in self.OPS:
            for shape in ((9,), (3000,), (4, 7), (7, 4)):
                if len(shape) == 1 and op.axis not in (None, (0,)):
                    continue
                for layout in (forms.contiguous, forms.strided):
                    x = layout(rng.randint(-50, 50, shape) + 0.0)
                    want = getattr(np, op.scalar_op.nfunc_spec[0]).reduce(x, op.axis)
                    before = np.full(want.shape, 3.5)
                    self.assertIs(self.run_over(op, x, before), before)
                    np.testing.assert_array_equal(before, want)

    def test_part_of_what_is_read(self):
        """A reduction does not overwrite its input if the earlier result overlaps with the input in memory."""
        rng = np.random.RandomState(6)
        for op, shape in ((Sum(), (5,)), (Sum(axis=0), (4, 3)), (Sum(), (4, 3)), (Sum(axis=1), (4, 3))):
            for step in (1, -1, 2):
                memory = rng.randint(-50, 50, 40) + 0.0
                x = memory[8 : 8 + 12 * 2][::step][: math.prod(shape)].reshape(shape)
                want = x.sum(op.axis)
                for place in range(40 - want.size):
                    given = memory.copy()
                    x = given[8 : 8 + 12 * 2][::step][: math.prod(shape)].reshape(shape)
                    before = given[place : place + want.size].reshape(want.shape)
                    np.testing.assert_array_equal(self.run_over(op, x, before), want)
                    np.testing.assert_array_equal(x, memory[8 : 8 + 12 * 2][::step][: math.prod(shape)].reshape(shape))


class FarthestFromZero(scalar.BinaryScalarOp):
    """A scalar Op without an identity: it returns the number with the larger absolute value."""

    commutative = associative = True

    def impl(self, x, y):
        return x if abs(x) >= abs(y) else y

    def c_code(self, node, name, inputs, outputs, sub):
        (x, y), (z,) = inputs, outputs
        return "%(z)s = (%(x)s < 0 ? -%(x)s : %(x)s) >= (%(y)s < 0 ? -%(y)s : %(y)s) ? %(x)s : %(y)s;" % locals()


@unittest.skipUnless(find_toolchain(), "needs a C compiler")
class TestWithoutIdentity(unittest.TestCase):
    """Reductions without an identity start each result with one of its elements."""

    def setUp(self):
        self.op = FarthestFromZero(scalar.upcast_out, name="farthest_from_zero")

    def test_all_axes(self):
        rng = np.random.RandomState(8)
        layouts = forms.contiguous, forms.fortran, forms.strided, forms.reversed_
        for shape, layout in itertools.product(((6,), (1, 3), (3, 4), (4, 1, 5), (3, 4, 5), (2, 3, 4, 2)), layouts):
            numbers = 1.0 + rng.permutation(math.prod(shape)).reshape(shape)
            x = layout(numbers * rng.choice([-1, 1], shape))
            variable = TensorType("float64", [False] * x.ndim)()
            for n in range(1, x.ndim + 1):
                for axes in itertools.combinations(range(x.ndim), n):
                    (got,) = run_node(CAReduce(self.op, axis=axes)(variable), {variable: x}, "c")
                    high, low = x.max(axes), x.min(axes)
                    np.testing.assert_array_equal(got, np.where(high > -low, high, low), str((shape, axes)))

    def test_no_results(self):
        x = tt.dtensor3()
        for shape in ((0, 3, 2), (0, 0, 2), (2, 3, 0)):
            (got,) = run_node(CAReduce(self.op, axis=(1,))(x), {x: np.zeros(shape)}, "c")
            self.assertEqual(got.shape, (shape[0], shape[2]))


if __name__ == "__main__":
    unittest.main()
