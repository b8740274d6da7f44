"""Tests of C code under sanitizers: the faults found, the reported source lines, and the survival of the process."""

import os
import tempfile
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import scalar, tensor
from theano_ng.audit import audit, faults, sanitizer, worker
from theano_ng.gof import Apply, COp, Op
from theano_ng.misc.doubleop import DoubleOp

UNAVAILABLE = sanitizer.unavailable()


class Twice(Op):
    """The Op 2 * x, with wrong C code after its loop."""

    __props__ = ("body",)

    def __init__(self, body):
        self.body = body

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        if x.type != tensor.dvector:
            raise TypeError("not a dvector")
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0] * 2

    def c_code(self, node, name, inputs, outputs, sub):
        (x,) = inputs
        (z,) = outputs
        return (
            """
            npy_intp n = PyArray_DIM(%(x)s, 0), i;
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject*)PyArray_EMPTY(1, &n, NPY_FLOAT64, 0);
            for (i = 0; i < n; i++) {
                double *in = (double*)PyArray_GETPTR1(%(x)s, i);
                *(double*)PyArray_GETPTR1(%(z)s, i) = 2 * *in;
            }
        """
            % locals()
            + self.body % locals()
        )

    def c_code_cache_version(self):
        return (1,)


RIGHT = Twice("")


class DiesWhenLoaded(Twice):
    def c_init_code(self):
        return ["abort();"]


class TestValues(unittest.TestCase):
    def test_layouts_survive(self):
        base = np.arange(24.0).reshape(4, 6)
        locked = base[1:, ::-2].copy()
        locked.flags.writeable = False
        odd = np.zeros(17, "int8")[1:].view("float64")
        values = [
            base[::-1, ::2],
            base.T,
            locked,
            odd,
            np.zeros((0, 3))[:, ::-1],
            3,
            np.array(2.5),
            np.broadcast_to(1.0, (2, 2)),
        ]
        got = worker.unpack(worker.pack(values))
        for value, copy in zip(values, got):
            np.testing.assert_array_equal(value, copy)
            if isinstance(value, np.ndarray):
                self.assertEqual(
                    (value.dtype, value.strides, value.flags.writeable, value.flags.aligned),
                    (copy.dtype, copy.strides, copy.flags.writeable, copy.flags.aligned),
                )
        self.assertTrue(np.shares_memory(got[0], got[1]))
        self.assertFalse(np.shares_memory(got[0], got[2]))
        # A slice of a larger array is packed without the rest of that array.
        self.assertEqual(sum(len(content) for _, content in worker.pack([base[1, 1:3]])[0]), 16)


class TestReading(unittest.TestCase):
    """Tests of the parser of the sanitizers' output."""

    REPORT = """\
=================================================================
==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60b000 at pc 0x7f01 bp 0x7f02 sp 0x7f03
READ of size 8 at 0x60b000 thread T0
    #0 0x7f06338 in run /c/m1/mod.cpp:166
    #1 0x7f0633f  (/usr/lib/libpython.so+0x187)

0x60b000 is located 0 bytes inside of 96-byte region [0x60b000,0x60b060)
freed by thread T0 here:
    #0 0x7f0e98d  (/usr/lib/libasan.so+0xb76a8)
    #1 0x7f0e98e in Py_DECREF /usr/include/python3.11/object.h:538
    #1 0x7f0e98e in run /c/m1/mod.cpp:151

SUMMARY: AddressSanitizer: heap-use-after-free in run
Shadow bytes around the buggy address:
"""

    def test_freed_object(self):
        text = "@theano_ng-audit: in fresh memory\n/c/m1/mod.cpp:9:3: runtime error: division by zero\n" + self.REPORT
        division, freed = faults.read_faults(text)
        self.assertEqual(
            (division.error, division.what, division.call),
            ("UndefinedBehaviour", "division by zero", "in fresh memory"),
        )
        self.assertEqual(division.frames, (faults.Frame("", "/c/m1/mod.cpp", 9),))
        self.assertEqual(
            (freed.error, freed.what),
            ("ReferenceUnderflow", "heap-use-after-free: read of 8 bytes, 0 bytes inside of 96-byte region"),
        )
        self.assertEqual([frame.line for frame in freed.freed], [0, 538, 151])
        self.assertEqual(
            faults.shortened(freed.text).split("\n")[2:],
            [
                "    #0 run mod.cpp:166",
                "",
                "0x60b000 is located 0 bytes inside of 96-byte region [0x60b000,0x60b060)",
                "freed by thread T0 here:",
                "    #1 Py_DECREF /usr/include/python3.11/object.h:538",
                "    #1 run mod.cpp:151",
            ],
        )

    def test_memory_of_no_object(self):
        (fault,) = faults.read_faults(
            self.REPORT.replace("Py_DECREF /usr/include/python3.11/object.h", "free_scratch /c/scratch.c")
        )
        self.assertEqual(fault.error, "AddressError")

    def test_signals(self):
        (segv,) = faults.read_faults(
            "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x0 (pc 0x1 bp 0x2 sp 0x3 T0)\n"
            "==7==The signal is caused by a WRITE memory access.\n"
        )
        self.assertEqual((segv.error, segv.what), ("AddressError", "SEGV: write"))
        (abort,) = faults.read_faults(
            "==7==ERROR: AddressSanitizer: ABRT on unknown address 0x7 (pc 0x1 bp 0x2 sp 0x3 T0)\n"
        )
        self.assertEqual((abort.error, abort.what), ("Crash", "signal SIGABRT"))


class _WrongScalar(scalar.UnaryScalarOp):
    """A scalar Op with arbitrary C code."""

    __props__ = ("code",)

    def __init__(self, code):
        self.code = code
        super().__init__(scalar.same_out, name="wrong")

    def impl(self, x):
        return x

    def c_code(self, node, name, inputs, outputs, sub):
        return self.code % dict(x=inputs[0], z=outputs[0])

    def c_code_cache_version(self):
        return (1, self.code)


class _WrongAdd(type(scalar.add)):
    """The scalar Op `add`, with a shift in its C code that is undefined behavior."""

    def c_code(self, node, name, inputs, outputs, sub):
        return "volatile int far = 40; %s = %s + 0 * (1 << far);" % (outputs[0], " + ".join(inputs))

    def c_code_cache_version(self):
        return (1, "wrong")


@unittest.skipIf(UNAVAILABLE, UNAVAILABLE)
class TestWorker(unittest.TestCase):
    """Tests of `sanitizer.Worker`: one worker process runs the C code of all tests of this class."""

    @classmethod
    def setUpClass(cls):
        cls.process = sanitizer.Worker()

    @classmethod
    def tearDownClass(cls):
        cls.process.close()

    def run_op(self, op, value, variable=None):
        node = op(variable or tensor.dvector()).owner
        program = worker.program_of(node)
        self.assertTrue(self.process.load(id(op), program))
        record, found = self.process.run(id(op), [value])
        return record, [(fault.error, *faults.user_location(fault.frames, program.source, [op])) for fault in found]

    def line_of(self, text):
        with open(__file__, encoding="utf-8") as file:
            return next(i for i, line in enumerate(file, 1) if text in line)

    def test_right(self):
        for value in np.arange(3.0), np.arange(6.0)[::-2], np.zeros(0):
            record, found = self.run_op(RIGHT, value)
            self.assertEqual((record["error"], record["uninitialized"], found), (None, [], []))

    def test_reads_and_writes_outside(self):
        read = Twice("volatile double more = *(double*)PyArray_GETPTR1(%(x)s, n); (void)more;")
        write = Twice("*(double*)PyArray_GETPTR1(%(z)s, n) = 0;")
        for op, value in (
            (read, np.arange(3.0)),
            (read, np.zeros(0)),
            (read, np.arange(6.0)[::-2]),
            (write, np.arange(2.0)),
        ):
            record, ((error, words, location),) = self.run_op(op, value)
            self.assertIsNone(record)
            self.assertEqual(error, "AddressError")
            self.assertRegex(words, r"^Twice\.c_code, line \d+: `.*PyArray_GETPTR1\(V\d, n\)")
            self.assertEqual(location, "%s:%d" % (os.path.abspath(__file__), self.line_of("def c_code(self")))
        # If the Python source of `c_code` contains the faulty line of C code, the report names this line of the source.
        shifted = Twice("")
        shifted.c_code = lambda node, name, inputs, outputs, sub: (
            """
            *(double*)PyArray_GETPTR1(%s, -1) = 0;    // in front of the input
        """
            % inputs[0]
        )
        ((error, _, location),) = self.run_op(shifted, np.arange(3.0))[1]
        self.assertEqual(
            (error, location),
            ("AddressError", "%s:%d" % (os.path.abspath(__file__), self.line_of("// in front of the input"))),
        )

    def test_undefined(self):
        op = Twice("{volatile int zero = 0, big = 2147483647; if (n == 0) big = 1 / zero; big = big + 1; }")
        record, found = self.run_op(op, np.arange(3.0))
        self.assertEqual([error for error, _, _ in found], ["UndefinedBehaviour"] * len(found))
        self.assertIsNotNone(record)  # the program continues
        self.assertTrue(found[0][1].endswith("big = big + 1; }`"), found)
        # The process has survived the fault, and reports another fault of the Op in the next run.
        _, found = self.run_op(op, np.zeros(0))
        self.assertTrue(found[0][1].endswith("big = 1 / zero; big = big + 1; }`"), found)

    def test_uninitialized(self):
        forgets = Twice(
            "if (n) *(double*)PyArray_GETPTR1(%(z)s, 0) = ((double*)PyArray_DATA((PyArrayObject*)PyArray_EMPTY(1, &n, 12, 0)))[0];"
        )
        record, found = self.run_op(forgets, np.arange(3.0))
        ((output, count, where, one, other),) = record["uninitialized"]
        self.assertEqual((output, count, where, found), (0, 1, (0,), []))
        self.assertNotEqual(one, other)
        # A read of an uninitialized element of a local array is reported, too, although it may be zero by chance.
        local = Twice("{double sum[8]; if (n) *(double*)PyArray_GETPTR1(%(z)s, n - 1) += sum[n]; }")
        self.assertEqual(
            [entry[:3] for entry in self.run_op(local, np.arange(3.0))[0]["uninitialized"]], [(0, 1, (2,))]
        )

    def test_freed_output(self):
        self.assertEqual(
            [error for error, _, _ in self.run_op(Twice("Py_DECREF(%(z)s);"), np.arange(3.0))[1]],
            ["ReferenceUnderflow"],
        )

    def test_ends(self):
        for body, words in (
            ("_exit(3);", "the process ended with exit code 3"),
            ("raise(9);", "signal SIGKILL ended the process"),
        ):
            op = Twice(body)
            op.c_headers = lambda: ["<signal.h>", "<unistd.h>"]
            node = op(tensor.dvector()).owner
            self.process.load(id(op), worker.program_of(node))
            record, (fault,) = self.process.run(id(op), [np.arange(3.0)])
            self.assertEqual((record, fault.error, fault.what), (None, "Crash", words))

    def test_kernel(self):
        op = tensor.exp(tensor.dmatrix()).owner.op
        record, found = self.run_op(op, np.ones((2, 3)).T, tensor.dmatrix())
        self.assertEqual((record["error"], record["uninitialized"], found), (None, [], []))

    def test_integers_wrap_in_kernels(self):
        large = np.array([[2**62 + 3, 2**63 - 1, -(2**63)]])
        record, found = self.run_op(tensor.elemwise.ProdWithoutZeros(axis=1), large, tensor.lmatrix())
        self.assertEqual((record["error"], found), (None, []))

    def test_wrong_kernels(self):
        # The C code of scalar Ops is checked in plain loops, in fused loops and in reductions.
        x, matrix = scalar.float64("x"), tensor.dmatrix()
        table = _WrongScalar("static const double t[3] = {1, 2, 3}; %(z)s = %(x)s * t[3 + ((int) %(x)s & 1)];")
        shift = _WrongScalar("volatile int far = 40; %(z)s = %(x)s + (1 << far);")
        large = _WrongScalar("volatile int k = 2147483647; k = k + 1; %(z)s = %(x)s + k;")
        total = tensor.elemwise.CAReduce(_WrongAdd(scalar.upcast_out, name="wrong_add"), axis=(1,))
        for op, error, text in (
            (tensor.Elemwise(table), "AddressError", "t[3 + ((int)"),
            (tensor.Elemwise(shift), "UndefinedBehaviour", "1 << far"),
            (tensor.Elemwise(large), "UndefinedBehaviour", "k = k + 1"),
            (total, "UndefinedBehaviour", "1 << far"),
            (tensor.Elemwise(scalar.Composite([x], [shift(x) * x])), "UndefinedBehaviour", "1 << far"),
        ):
            for value in np.ones((2, 3)), np.ones((3, 2)).T:
                _, found = self.run_op(op, value, matrix)
                self.assertTrue(found, op)
                self.assertIn(error, [name for name, _, _ in found])
                self.assertTrue(found[0][1].startswith("the generated kernel: `") and text in found[0][1], found)

    def test_does_not_compile(self):
        with self.assertRaisesRegex(ValueError, "no_such_thing"):
            self.process.load("bad", worker.program_of(Twice("no_such_thing();")(tensor.dvector()).owner))


@unittest.skipIf(UNAVAILABLE, UNAVAILABLE)
class TestCheck(unittest.TestCase):
    def test_external_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "twice.c")
            with open(path, "w") as file:
                file.write(
                    "#section support_code_apply\n\nint APPLY_SPECIFIC(twice)(PyArrayObject *x, PyArrayObject **z) {\n"
                    "    Py_XDECREF(*z);\n    *z = (PyArrayObject *)PyArray_NewLikeArray(x, NPY_CORDER, NULL, 0);\n"
                    "    for (npy_intp i = 0; i < PyArray_DIM(x, 0); i++)\n"
                    "        *(double *)PyArray_GETPTR1(*z, i) = 2 * *(double *)PyArray_GETPTR1(x, i + (i == 1));\n    return 0;\n}\n"
                )

            class External(COp):
                __props__ = ()

                def __init__(self):
                    super().__init__([path], "APPLY_SPECIFIC(twice)")

                make_node, perform = Twice.make_node, Twice.perform

            report = audit(External(), tensor.dvector, checks="sanitizer", max_examples=1)
        (finding,) = report.findings
        self.assertEqual((finding.error, finding.location), ("AddressError", path + ":7"))
        self.assertTrue(
            finding.message.startswith("twice.c, line 7: `*(double *)PyArray_GETPTR1(*z, i) = "), finding.message
        )
        self.assertIn("(2,)", finding.inputs[0])  # the smallest failing length

    def test_dies_when_loaded(self):
        (finding,) = audit(DiesWhenLoaded(""), tensor.dvector, checks="sanitizer", max_examples=0).findings
        self.assertEqual(
            (finding.error, finding.message),
            ("Crash", "DiesWhenLoaded.c_init_code, line 1: `abort();`: signal SIGABRT"),
        )

    def test_skipped(self):
        for op, inputs, reason in (
            (DoubleOp(), [tensor.dvector], "no C code"),
            (tensor.DimShuffle((False, False), (1, 0)), [tensor.dmatrix], "ships compiled"),
        ):
            (verdict,) = audit(op, *inputs, checks="sanitizer").verdicts
            self.assertEqual(verdict.status, "skipped")
            self.assertIn(reason, verdict.reason)
        with theano.configparser.change_flags(cxx=""):
            (verdict,) = audit(RIGHT, tensor.dvector, checks="sanitizer").verdicts
        self.assertEqual(verdict.status, "skipped")
        self.assertIn("no C++ compiler", verdict.reason)


if __name__ == "__main__":
    unittest.main()
