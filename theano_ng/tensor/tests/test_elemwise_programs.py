"""Tests of kernels and interpreted programs of elementwise operations: access to operands, steps, and rare dtypes."""

import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.loops.blocks import interpreter as programs
from theano_ng.loops.blocks import superinstructions
from theano_ng.loops.program import Access, operand_accesses
from theano_ng.loops.source import scalar_apply, scalar_source
from theano_ng.scalar.types import get_scalar_type
from theano_ng.tensor import inplace
from theano_ng.tensor.elemwise import Elemwise, divisors
from theano_ng.tensor.elemwise.kernel import elemwise_program
from theano_ng.tensor.tests.test_interpreter import bits_of, interpretation, random_values, run
from theano_ng.tensor.type import TensorType
from theano_ng.tensor.xlogx import xlogx

FLOATS = ("float32", "float64")
# The position of the number of steps in the packed parameters of a program (see `interpreter._packed`).
N_STEPS = 8


def number_of_steps(node):
    found = programs.interpreted(elemwise_program(node, divisors.integer_divisors(node)))
    return int(found.words[N_STEPS])


class TestKernels(unittest.TestCase):
    def test_how_operands_are_read(self):
        """A kernel reads each operand in one of three ways.

        It reads an operand element by element, as one value for all elements, or, if the last dimension has length one,
        possibly as one value per inner loop.
        """
        VARYING, HOISTED, MAYBE_BROADCAST = Access
        for patterns, accesses in (
            (["", ""], [VARYING, VARYING]),
            (["0", "0"], [VARYING, VARYING]),
            (["1", "1"], [VARYING, VARYING]),
            (["0", "1"], [VARYING, HOISTED]),
            (["1", "0"], [HOISTED, VARYING]),
            (["00", "11"], [VARYING, HOISTED]),
            (["00", "01"], [VARYING, MAYBE_BROADCAST]),
            (["00", "10"], [VARYING, VARYING]),
            (["01", "10"], [MAYBE_BROADCAST, VARYING]),
            (["01", "01"], [VARYING, VARYING]),
            (["01", "11"], [VARYING, HOISTED]),
            (["10", "11"], [VARYING, HOISTED]),
            (["001", "101", "011", "111"], [VARYING, VARYING, MAYBE_BROADCAST, HOISTED]),
            (["000", "110", "001", "101"], [VARYING, VARYING, MAYBE_BROADCAST, MAYBE_BROADCAST]),
        ):
            found = [tuple([b == "1" for b in pattern]) for pattern in patterns]
            result = tuple([all(flags) for flags in zip(*found)])
            self.assertEqual(operand_accesses(found, result), accesses, patterns)
            node = T.add(*[TensorType("float64", pattern)() for pattern in found]).owner
            self.assertEqual(elemwise_program(node, divisors.integer_divisors(node)).accesses, accesses, patterns)

    def test_languages(self):
        """The kernel of an Op is C code. It is C++ code if the Op has headers, or support code not declared to be C."""

        class WithSupport(scalar.UnaryScalarOp):
            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = %s;" % (outputs[0], inputs[0])

            def c_support_code(self):
                return "static int helper;"

        class InC(WithSupport):
            c_support_is_c = True

        class WithHeaders(InC):
            def c_headers(self):
                return ["<math.h>"]

        class Plain(WithSupport):
            def c_support_code(self):
                return ""

        class Says(Plain):
            c_support_is_c = True

        for kind, language in ((WithSupport, "c++"), (InC, "c"), (WithHeaders, "c++"), (Plain, "c"), (Says, "c")):
            op = kind(scalar.same_out)
            found = scalar_source(op, scalar_apply(op, ["float64"], ["float64"]), ["x"], ["z"])
            self.assertEqual(found.environment["language"], language, kind)
        for op in (scalar.add, scalar.exp, scalar.int_div, scalar.sqrt):
            nin = op.nin if op.nin > 0 else 2
            found = scalar_source(op, scalar_apply(op, ["float64"] * nin, ["float64"]), ["x", "y"][:nin], ["z"])
            self.assertEqual(found.environment["language"], "c", op)


class TestPrograms(unittest.TestCase):
    def test_instructions_that_read_once(self):
        """Every instruction in READ_ONCE exists, and its name lists the operands that it reads once."""
        instructions = programs.instruction_module().instructions
        self.assertGreater(len(superinstructions.READ_ONCE), 100)
        for name, once in superinstructions.READ_ONCE.items():
            self.assertIn(name, instructions)
            marked = [word for word in name.split("_") if word and set(word) <= set("abcd")]
            self.assertEqual(once, {"abcd".index(place) for place in "".join(marked)}, name)

    def test_pairs_are_one_step(self):
        """Two steps become one instruction if such an instruction exists and only the second step uses the first
        result.
        """
        a, b, c = ("operand", 0), ("operand", 1), ("operand", 2)
        first, second, third = [("result", k) for k in range(3)]
        for dtype in FLOATS:
            add, mul, sub = ["%s_%s" % (name, dtype) for name in ("Add", "Mul", "Sub")]
            for steps, kept, names in (
                ([(add, first, (a, b)), (mul, second, (first, c))], [second], ["Add_then_Mul0"]),
                ([(add, first, (a, b)), (mul, second, (c, first))], [second], ["Add_then_Mul0"]),
                ([(sub, first, (a, b)), (sub, second, (c, first))], [second], ["Sub_then_Sub1"]),
                ([(add, first, (a, b)), (mul, second, (first, c))], [first, second], ["Add", "Mul"]),
                ([(add, first, (a, b)), (mul, second, (first, first))], [second], ["Add", "Mul"]),
                (
                    [(add, first, (a, b)), (mul, second, (first, c)), (add, third, (second, a))],
                    [third],
                    ["Add_then_Mul0", "Add"],
                ),
            ):
                made = superinstructions.combine_steps(steps, set(kept), lambda v: False)
                self.assertEqual([name for name, _, _ in made], ["%s_%s" % (name, dtype) for name in names])
                self.assertEqual(made[-1][1], steps[-1][1])

    def test_one_instruction_writes_the_result(self):
        """A single operation is a program of one step: its instruction writes the result without a further copy."""
        for op, dtypes in (
            (T.add, ("float64", "float64")),
            (T.exp, ("float32",)),
            (T.neg, ("int16",)),
            (T.lt, ("float64", "float64")),
            (T.switch, ("bool", "float64", "float64")),
            (T.maximum, ("uint8", "uint8")),
            (T.sqrt, ("float64",)),
        ):
            node = op(*[TensorType(dtype, (False,))() for dtype in dtypes]).owner
            self.assertEqual(number_of_steps(node), 1, op)

    def test_blocks_of_constants(self):
        """`_aligned` fills a block of memory with a constant. The block starts at a cache line."""
        for dtype in ("bool", "int8", "int16", "float32", "float64", "complex128"):
            for length in (1, 3, 64, 100, 1000):
                for _ in range(5):
                    block = programs._aligned(np.ones(1, dtype), length)
                    self.assertEqual(block.ctypes.data % 64, 0)
                    self.assertEqual((block.dtype, block.shape, block.all()), (np.dtype(dtype), (length,), True))

    def compare(self, op, dtypes, values, wanted=None):
        """Check that the program of a node computes `wanted`, bit by bit, and return the results.

        By default, the results of the compiled kernel are wanted.
        """
        node = op(*[TensorType(dtype, (False,))() for dtype in dtypes]).owner
        program = interpretation(node)
        self.assertIsNotNone(program, (op, dtypes))
        found = run(node, values, program)
        if wanted is None:
            wanted = run(node, values) if theano.config.cxx else found
        if isinstance(wanted, str):
            self.assertEqual(found, wanted)
        else:
            for value, expected in zip(found, wanted):
                np.testing.assert_array_equal(bits_of(value), bits_of(expected), "%s of %s" % (op, dtypes))
        return found

    def test_truth_of_complex_numbers(self):
        """A complex number is true if one of its parts is not 0."""
        parts = [0.0, -0.0, 1.5, np.nan, np.inf]
        values = np.array([complex(a, b) for a in parts for b in parts])
        for dtype in ("complex64", "complex128"):
            given = values.astype(dtype)
            (found,) = self.compare(Elemwise(scalar.Cast(get_scalar_type("bool"))), [dtype], [given], [given != 0])
            self.assertEqual(found.dtype, bool)

    def test_angles(self):
        """Programs of `angle` have NumPy's values: pi for negative real numbers, and 0 for other real numbers."""
        for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint64", "float32", "float64", "complex64"):
            values = np.array([0, 1, 2, 5]).astype(dtype)
            if np.dtype(dtype).kind in "ifc":
                values = np.concatenate([values, -values[1:]])
            if np.dtype(dtype).kind == "c":
                values = values * np.array(1 + 2j, dtype)
            node = T.angle(TensorType(dtype, (False,))()).owner
            (found,) = run(node, [values], interpretation(node))
            np.testing.assert_allclose(found, np.angle(values.astype("complex128")), rtol=1e-15)

    def test_halves(self):
        """Programs copy float16 values without changing their bits.

        Values of other dtypes are rounded once when they are converted to float16.
        """
        rng = np.random.RandomState(0)
        half, any_values = random_values("float16", (40,), rng), {}
        for dtype in ("float16", "float32", "float64", "int8", "bool", "int64"):
            any_values[dtype] = random_values(dtype, (40,), rng)
        self.compare(T.tensor_copy, ["float16"], [half], [half])
        for dtype, values in any_values.items():
            identity = Elemwise(scalar.Second(scalar.transfer_type(1), name="last"))
            self.compare(identity, [dtype, "float16"], [values, half], [half])
            self.compare(identity, ["float16", "float16"], [half, half], [half])
        for dtype in ("float32", "int8", "bool"):
            first = Elemwise(scalar.Second(scalar.transfer_type(0), name="as first"))
            node = first(*[TensorType(d, (False,))() for d in ("float16", dtype)]).owner
            program = interpretation(node)
            if program is not None:
                with np.errstate(all="ignore"):
                    wanted = any_values[dtype].astype("float16")
                (found,) = run(node, [half, any_values[dtype]], program)
                np.testing.assert_array_equal(bits_of(found), bits_of(wanted))

    def test_unused_divisions_are_errors(self):
        """An integer division by zero is an error even if its quotient is not used.

        The quotient is the imaginary part of a complex number of which only the real part is used.
        """
        x, i, j = scalar.float64(), scalar.int32(), scalar.int32()
        for part, says in ((scalar.int_div, "division"), (scalar.mod, "modulo")):
            op = Elemwise(scalar.Composite([x, i, j], [scalar.real(scalar.complex(x, part(i, j)))]))
            dtypes = ["float64", "int32", "int32"]
            values = np.linspace(0, 1, 5), np.arange(5, dtype="int32"), np.arange(1, 6, dtype="int32")
            self.compare(op, dtypes, values, [values[0]])
            values[2][3] = 0
            node = op(*[TensorType(dtype, (False,))() for dtype in dtypes]).owner
            found = run(node, list(values), interpretation(node))
            self.assertIsInstance(found, str)
            self.assertIn(says, found)
            if theano.config.cxx:
                self.assertEqual(found, run(node, list(values)))

    def test_order_of_operands(self):
        """Sums and products of several operands are computed from left to right."""
        rng = np.random.RandomState(1)
        for op, function in ((T.add, np.add), (T.mul, np.multiply)):
            for dtype in ("float32", "float64", "int8", "complex128"):
                for count in (2, 3, 4):
                    values = [random_values(dtype, (50,), rng) for _ in range(count)]
                    with np.errstate(all="ignore"):
                        wanted = values[0]
                        for value in values[1:]:
                            wanted = function(wanted, value)
                    found = self.compare(op, [dtype] * count, values)[0]
                    if dtype != "complex128":
                        np.testing.assert_array_equal(bits_of(found), bits_of(wanted))


class TestInPython(unittest.TestCase):
    def test_functions_of_operations_in_place(self):
        """An in-place operation uses the same NumPy function as the operation that is not in place."""
        seen = 0
        for name in dir(inplace):
            op, plain = getattr(inplace, name), getattr(T, name.replace("_inplace", ""), None)
            if isinstance(op, Elemwise) and isinstance(plain, Elemwise) and op.nfunc_spec and plain.nfunc_spec:
                self.assertEqual(op.nfunc_spec, plain.nfunc_spec, name)
                seen += op.nfunc_spec[2] == 1
        self.assertGreater(seen, 30)

    def test_integers_of_bools(self):
        """Sums and products of bools with an integer result dtype are computed in this dtype. NumPy would use bool."""
        b = T.TensorType("bool", (False,))
        values = [np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)]
        for dtype in ("int8", "uint8", "int32", "int64"):
            kind = scalar.specific_out(get_scalar_type(dtype))
            for op, name, function in ((scalar.Add(kind), "add", np.add), (scalar.Mul(kind), "multiply", np.multiply)):
                wanted = function(*[v.astype(dtype) for v in values])
                x, y = b(), b()
                out = Elemwise(op, nfunc_spec=(name, 2, 1))(x, y)
                for mode in (Mode("py", None), Mode("cvm", None)):
                    found = theano.function([x, y], out, mode=mode)(*values)
                    np.testing.assert_array_equal(found, wanted)
                    self.assertEqual(found.dtype, dtype)

    def test_several_results(self):
        """A scalar Op with several results is computed in Python element by element."""

        class Parts(scalar.ScalarOp):
            nin, nout = 1, 2

            def output_types(self, types):
                return [types[0], scalar.int64]

            def impl(self, x):
                return x - int(x), int(x)

        x = T.dmatrix()
        fn = theano.function([x], Elemwise(Parts(name="parts"))(x), mode=Mode("py", None))
        for shape in ((2, 3), (1, 1), (0, 3)):
            value = np.arange(np.prod(shape)).reshape(shape) * 1.25
            fraction, whole = fn(value)
            np.testing.assert_allclose(fraction, value % 1)
            np.testing.assert_array_equal(whole, value // 1)
            self.assertEqual((fraction.dtype, whole.dtype), (np.dtype("float64"), np.dtype("int64")))


class TestDivisors(unittest.TestCase):
    def test_deep_graphs(self):
        """`integer_divisors` examines the computation of a divisor to a limited depth.

        A chain of 40 nodes that use their input twice has 2 ** 40 paths.
        """
        x, v = T.lvector(), T.lvector()
        for k in range(40):
            v = T.maximum(v.dimshuffle(0), v.dimshuffle(0)) if k % 2 else T.maximum(v, v.dimshuffle(0))
        asked = []
        known = divisors._known

        def counting(variable, depth):
            asked.append(variable)
            if len(asked) > 1000:
                raise AssertionError("looked at again and again")
            return known(variable, depth)

        with mock.patch.object(divisors, "_known", counting):
            self.assertEqual(divisors.integer_divisors((x // v).owner).inputs, {1: "division"})


class TestXlogx(unittest.TestCase):
    def test_gradient_of_integers(self):
        for dtype in ("int8", "int32", "float32", "float64"):
            x = T.vector(dtype=dtype)
            fn = theano.function([x], T.grad(xlogx(x).sum(), x))
            np.testing.assert_allclose(fn(np.array([1, 2, 5], dtype)), 1 + np.log([1.0, 2.0, 5.0]), rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
