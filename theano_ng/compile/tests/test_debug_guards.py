"""Tests of the guard margins around the memory of preallocated outputs in DebugMode."""

import ctypes
import os
import signal
import subprocess
import sys
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.debugmode import AddressError, BadReferences, BadThunkOutput, DebugMode
from theano_ng.compile.debugmode.guards import Guarded, c_strides
from theano_ng.compile.tests.test_debugmode import V, op, run
from theano_ng.gof import Apply, Op
from theano_ng.tensor.native import alloc

LAYOUTS = [
    ((), ()),
    ((4,), (8,)),
    ((4,), (-8,)),
    ((4,), (16,)),
    ((4,), (-24,)),
    ((3, 4), (32, 8)),
    ((3, 4), (8, 24)),
    ((3, 4), (-64, 16)),
    ((3, 1, 4), (32, 1000, -8)),
    ((0, 3), (24, 8)),
    ((2, 0), (0, 8)),
]


class TestGuarded(unittest.TestCase):
    def test_as_many_dimensions_as_numpy_has(self):
        guarded = Guarded.like(np.arange(8.0).reshape((2, 2, 2) + (1,) * 61))
        guarded.array[1, 1, 1] = -1
        self.assertEqual(guarded.written(), [])
        guarded._block[guarded.high] ^= 255
        self.assertEqual(guarded.written(), [("after its last byte", 1, 1)])

    def test_layouts(self):
        for shape, strides in LAYOUTS:
            with self.subTest(shape=shape, strides=strides):
                guarded = Guarded(shape, "float64", strides)
                a = guarded.array
                self.assertEqual((a.shape, a.strides, a.dtype), (shape, strides, np.dtype("float64")))
                self.assertTrue(a.flags.behaved)
                self.assertEqual(guarded.written(), [])
                a[...] = 3
                self.assertEqual(guarded.written(), [])
                low, high = np.lib.array_utils.byte_bounds(a) if a.size else (a.__array_interface__["data"][0],) * 2
                block = guarded._block
                start = block.__array_interface__["data"][0]
                self.assertEqual((guarded.low, guarded.high), (low - start, high - start))
                self.assertGreaterEqual(guarded.low, 512)
                self.assertGreaterEqual(len(block) - guarded.high, 512)
                # Every byte that belongs to no element is checked.
                own = np.zeros(len(block), bool)
                for index in np.ndindex(shape):
                    at = a[index + (...,)].__array_interface__["data"][0] - start
                    own[at : at + 8] = True
                for k in (
                    0,
                    guarded.low - 1,
                    guarded.high,
                    len(block) - 1,
                    *np.flatnonzero(~own[guarded.low : guarded.high]) + guarded.low,
                ):
                    block[k] ^= 1
                    if k < guarded.low:
                        expected = ("before its first byte", 1, guarded.low - k)
                    elif k >= guarded.high:
                        expected = ("after its last byte", 1, k + 1 - guarded.high)
                    else:
                        expected = ("between its elements", 1, 0)
                    self.assertEqual(guarded.written(), [expected])
                    block[k] ^= 1

    def test_values_that_are_seen(self):
        """A write into a margin is detected if it stores 8 equal bytes of any value.

        A write of a single byte is detected if its value is 0 or 1.
        """
        for value in range(256):
            guarded = Guarded((2,), "uint8")
            places = guarded._block[guarded.high : guarded.high + 8]
            places[: 1 if value < 2 else 8] = value
            self.assertEqual(guarded.written()[0][0], "after its last byte")

    def test_margins(self):
        """A margin has room for as many elements of the widest dtype as the array has elements.

        If such a margin would be larger than 1 MiB, it is only as large as the array.
        """
        for guarded in (
            Guarded((100,), "int8"),
            Guarded((0,), "int8", room=100),
            Guarded((3,), "float64", (-8,), room=100),
        ):
            self.assertGreaterEqual(guarded.low, 1600)
            self.assertGreaterEqual(len(guarded._block) - guarded.high, 1600)
        large = Guarded((1 << 21,), "float32")
        self.assertGreaterEqual(large.low, 1 << 23)
        self.assertLess(len(large._block), 4 << 23)

    def test_like(self):
        value = np.arange(12.0).reshape(3, 4)[:, ::-2]
        guarded = Guarded.like(value)
        self.assertEqual(guarded.array.strides, value.strides)
        np.testing.assert_array_equal(guarded.array, value)
        self.assertEqual(guarded.written(), [])

    def test_strides(self):
        for shape in ((), (3,), (2, 3, 4), (2, 1)):
            self.assertEqual(c_strides(shape, 8), np.empty(shape).strides)


class TestDebugMode(unittest.TestCase):
    def error(self, write, kind, value=V):
        """Return the error that DebugMode raises for an Op that calls `write` on a preallocated output."""

        def perform(inputs, outputs):
            found = outputs[0][0]
            outputs[0][0] = inputs[0] * 3
            if found is not None:
                write(found)

        run(op(perform), value, check_preallocated_output="")
        with self.assertRaises(AddressError) as caught:
            run(op(perform), value, check_preallocated_output=kind)
        self.assertIsInstance(caught.exception, BadThunkOutput)
        return caught.exception

    def test_sides(self):
        def past_the_end(found):
            np.lib.stride_tricks.as_strided(found, (len(found) + 2,))[-2:] = 7

        for kind in ("previous", "c_contiguous", "strided", "wrong_size", "ALL"):
            error = self.error(past_the_end, kind)
            self.assertEqual(
                error.written[0][0], "before its first byte" if kind == "strided" else "after its last byte"
            )
            self.assertEqual(error.written[0][1:], (16, 16))
            text = str(error)
            for part in (
                "AddressError",
                "perform with %s" % kind if kind != "ALL" else "perform with",
                "outside of output 0: 16 bytes",
                "as far as 16 bytes from it",
                "strides (",
                "Custom(",
                "shape (%d,)" % len(V),
                "hint",
            ):
                self.assertIn(part, text)

        def between(found):
            if found.strides[0] == 16:
                np.lib.stride_tricks.as_strided(found, (2 * len(found) - 1,), (8,))[1] = 7

        error = self.error(between, "strided")
        self.assertEqual(error.written, [("between its elements", 8, 0)])

    def test_initial(self):
        """In a second call, DebugMode also puts guard margins around the output array of the first call."""

        def perform(inputs, outputs):
            found = outputs[0][0]
            if found is None or found.shape > inputs[0].shape:
                outputs[0][0] = np.empty_like(inputs[0])
            else:
                # The Op wrongly assumes that the array has grown with the input.
                outputs[0][0] = np.lib.stride_tricks.as_strided(found, inputs[0].shape)
            outputs[0][0][...] = inputs[0]

        x = T.dvector()
        f = theano.function(
            [x],
            op(perform)(x),
            mode=DebugMode(
                optimizer=None, check_c_code=False, stability_patience=1, check_preallocated_output="initial"
            ),
        )
        self.assertEqual(f(V[:2]).tolist(), V[:2].tolist())
        self.assertEqual(f(V[:2]).tolist(), V[:2].tolist())
        with self.assertRaisesRegex(AddressError, "%d bytes after its last byte" % (8 * len(V) - 16)):
            f(V)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_the_process_survives(self):
        """C code that writes out of bounds does not corrupt the heap."""
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                """
import theano_ng
from theano_ng.audit.tests import gallery_c, test_gallery
count = 0
for entry in gallery_c.GALLERY:
    if entry.found_by == "debugmode" and entry.error == "AddressError":
        for _ in range(3):
            name, text = test_gallery.raised(test_gallery.run_in_debugmode, entry.case())
            assert name == "AddressError" and entry.name in text, text
        count += 1
print(count)
""",
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(int(done.stdout), 6)


class InC(Op):
    """2 x for a vector of float64, in Python and in C, with a fault in the C code."""

    __props__ = ("fault",)
    FAULTS = {
        "none": "",
        "one element too far": "data[n] = 7;",
        "one element before": "data[-1] = 7;",
        "releases its input twice": "Py_DECREF(%(x)s); Py_DECREF(%(x)s);",
        "returns a borrowed input": "Py_DECREF(%(z)s); %(z)s = %(x)s;",
        "writes too far, then fails": 'data[n] = 7; PyErr_SetString(PyExc_ValueError, "no"); %(fail)s',
        "address zero": "*(volatile int *)0 = 1;",
        "far away": "data[n + ((npy_intp)1 << 40)] = 7;",
        "aborts": "abort();",
    }

    def __init__(self, fault):
        self.fault = fault

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2

    def c_code(self, node, name, inputs, outputs, sub):
        names = dict(x=inputs[0], z=outputs[0], fail=sub["fail"])
        names["fault"] = self.FAULTS[self.fault] % names
        return (
            """
        {
            npy_intp n = PyArray_DIM(%(x)s, 0);
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject *)PyArray_SimpleNew(1, &n, NPY_DOUBLE);
            if (!%(z)s) %(fail)s
            double *data = (double *)PyArray_DATA(%(z)s);
            for (npy_intp i = 0; i < n; i++)
                data[i] = 2 * *(double *)PyArray_GETPTR1(%(x)s, i);
            %(fault)s
        }
        """
            % names
        )

    def c_code_cache_version(self):
        return (1, self.fault)


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestOwnMemory(unittest.TestCase):
    """Errors in memory that an Op allocates by itself end with the name of the Op."""

    def call(self, fault):
        x = T.dvector()
        mode = DebugMode(optimizer=None, stability_patience=1, check_preallocated_output="")
        return theano.function([x], InC(fault)(x), mode=mode)(V)

    def test_right(self):
        self.assertEqual(self.call("none").tolist(), (2 * V).tolist())

    def test_writes(self):
        for fault, side in (
            ("one element too far", "after its last byte"),
            ("one element before", "before its first byte"),
            ("writes too far, then fails", "after its last byte"),
        ):
            with self.assertRaises(AddressError) as caught:
                self.call(fault)
            text = str(caught.exception)
            self.assertIn("c_code wrote outside of ", text)
            self.assertIn("8 bytes %s, as far as 8 bytes from it" % side, text)
            self.assertIn("InC{fault='%s'}" % fault, text)
            self.assertRegex(text, r"c_code  : .*test_debug_guards.py:\d+")

    def test_references(self):
        for fault, count in (("releases its input twice", "2 references"), ("returns a borrowed input", "1 reference")):
            with self.assertRaisesRegex(BadReferences, "c_code released %s to input 0 that it does not own" % count):
                self.call(fault)

    @unittest.skipIf(os.name == "nt", "signals")
    def test_output_that_is_the_input(self):
        """The copy of a tuple of numbers is the tuple itself, in the run before and in this run."""
        value = (2, None, 0.5)
        with theano.configparser.change_flags({"DebugMode.check_preallocated_output": "ALL"}):
            f = theano.function([], theano.gof.Constant(theano.gof.generic, value), mode=DebugMode())
            self.assertEqual(f(), value)

    def test_last_words(self):
        for fault in ("address zero", "far away", "aborts"):
            program = "from %s import *; TestOwnMemory().call(%r)" % (__name__, fault)
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=os.getcwd())
            self.assertLess(done.returncode, 0)
            self.assertIn("DebugMode: the process died while it ran c_code of InC{fault='%s'}" % fault, done.stderr)

    def test_signals_outside_of_debugmode(self):
        """The handler is installed during calls only, and says nothing about other code."""
        program = "from %s import *; TestOwnMemory().call('none'); os.abort()" % __name__
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGABRT, ""))

    def test_references_of_many_calls(self):
        """The guards keep no references themselves."""
        x = T.dvector()
        value = V.copy()
        f = theano.function([x], InC("none")(x), mode=DebugMode(optimizer=None, stability_patience=1))
        f(value)
        before = sys.getrefcount(value)
        for _ in range(5):
            f(value)
        self.assertEqual(sys.getrefcount(value), before)


class TestAllocator(unittest.TestCase):
    def test_margins(self):
        previous = alloc.fill(0x5A)
        try:
            arrays = [np.empty(n, "uint8") for n in (1, 7, 64, 5000)]
            grown = np.empty(10, "uint8")
            grown.resize(2000, refcheck=False)
            zeros = np.zeros(100)
        finally:
            alloc.restore(previous)
        self.assertTrue(all((a == 0x5A).all() for a in arrays))
        self.assertEqual((list(grown[:10]), float(zeros.sum())), ([0x5A] * 10, 0.0))
        self.assertEqual(alloc.damages(), [])
        for a in (*arrays, grown, zeros):
            size, address = a.nbytes, a.__array_interface__["data"][0]
            self.assertEqual(address % 16, 0)
            ctypes.memset(address + size + 3, 0, 2)
            self.assertEqual(alloc.damages(), [("after its last byte", size, 2, 5)])
            ctypes.memset(address - 4, 0, 4)
            self.assertEqual(alloc.damages(), [("before its first byte", size, 4, 4)])
            self.assertEqual(alloc.damages(), [])
        ctypes.memset(zeros.__array_interface__["data"][0] + zeros.nbytes, 0, 1)
        del zeros, a  # found when the array is freed
        self.assertEqual(alloc.damages(), [("after its last byte", 800, 1, 1)])


if __name__ == "__main__":
    unittest.main()
