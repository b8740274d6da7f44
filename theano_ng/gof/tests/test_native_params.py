"""Tests of packed parameters of native functions.

Python requires exactly the parameters that the C code declares, and the C code reads every value that Python packs.
"""

import importlib
import os
import shutil
import sys
import tempfile
import unittest

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.compiler import GCC_compiler
from theano_ng.gof.native import Kernel, NativeCode, native_function
from theano_ng.gof.native_params import Record

# `echo` returns all its parameters. `counted` returns the number of its calls, and the sum of `before` and `values`. It
# counts the calls in the last word of its scratch memory, which has one word for each input and each value.
SOURCE = r"""
#include "native.h"

NATIVE_PARAMS(point, row, column);
NATIVE_TABLE(echo, point, points, first, pair[2], kernel, last);
NATIVE_READER(echo)
static int tng_echo(int nin, int nout, PyObject **in, PyObject **out, const struct echo_params *params)
{
    PyObject *points = PyList_New(0);
    for (int i = 0; i < params->n_points; ++i) {
        PyObject *point = Py_BuildValue("(LL)", (long long)params->points[i].row, (long long)params->points[i].column);
        PyList_Append(points, point);
        Py_DECREF(point);
    }
    native_set(out, Py_BuildValue("(L(LL)LLN)", (long long)params->first, (long long)params->pair[0], (long long)params->pair[1],
                                  (long long)params->kernel, (long long)params->last, points));
    return 0;
}

NATIVE_FUNCTION(counted, before, scratch, n_values, values[])
static int tng_counted(int nin, int nout, PyObject **in, PyObject **out, const struct counted_params *params)
{
    int64_t *scratch = (int64_t *)(intptr_t)params->scratch, last = nin + params->n_values - 1, sum = params->before;
    for (int i = 0; i < params->n_values; ++i)
        sum += params->values[i];
    scratch[last] += 1;
    native_set(out, Py_BuildValue("(LL)", (long long)scratch[last], (long long)sum));
    return 0;
}

static int64_t counted_scratch(int nin, int nout, const int64_t *given)
{
    const struct counted_params *params = (const struct counted_params *)given;
    if (params->n_values > 3) {
        PyErr_SetString(PyExc_ValueError, "at most three values");
        return -1;
    }
    return nin + params->n_values;
}

NATIVE_FUNCTION(forgotten, scratch)
static int tng_forgotten(int nin, int nout, PyObject **in, PyObject **out, const struct forgotten_params *params)
{
    return 0;
}

static int tng_without_params(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    native_set(out, PyLong_FromLong(nin));
    return 0;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(echo), NATIVE_ROW(point), NATIVE_ENTRY_WITH_SCRATCH(counted), NATIVE_ENTRY(forgotten), {"without_params", tng_without_params}, {NULL},
};
NATIVE_MODULE(native_echo, entries)
"""

POINTS = [dict(row=5, column=6), dict(column=8, row=7)]


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestParams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        headers = os.path.dirname(importlib.import_module("theano_ng.gof.native").__file__)
        sys.modules["native_echo"] = GCC_compiler.compile_str(
            "native_echo", SOURCE, cls.folder, include_dirs=[headers, np.get_include()]
        )

    @classmethod
    def tearDownClass(cls):
        del sys.modules["native_echo"]
        shutil.rmtree(cls.folder)

    def bound(self, code, addresses=(), nin=0):
        cells = [[None] for _ in range(nin)], [[None]]
        return code.bind(addresses, *cells, [-1] * (nin + 1)), cells[1][0]

    def echoed(self, code, addresses=()):
        thunk, cell = self.bound(code, addresses)
        thunk()
        return cell[0]

    def test_declared(self):
        self.assertEqual(
            sys.modules["native_echo"].params,
            {
                "echo": "first, pair[2], kernel, last, n_points, points[point]",
                "point": "row, column",
                "counted": "before, scratch, n_values, values[]",
                "forgotten": "scratch",
                "without_params": "",
            },
        )
        record = native_function("native_echo:echo").record
        self.assertEqual(list(record.given), ["first", "pair", "kernel", "last", "points"])
        self.assertEqual(record.offsets, dict(first=0, pair=1, kernel=3, last=4, n_points=5, points=6))

    def test_every_parameter_arrives(self):
        params = dict(last=4, kernel=3, points=POINTS, pair=(1, 2), first=np.int8(-2))
        self.assertEqual(self.echoed(NativeCode("native_echo:echo", **params)), (-2, (1, 2), 3, 4, [(5, 6), (7, 8)]))
        params.update(points=[], first=True, pair=np.array([2**62, -(2**63)]))
        self.assertEqual(self.echoed(NativeCode("native_echo:echo", **params)), (1, (2**62, -(2**63)), 3, 4, []))
        # A bytes object is copied to the start of the parameter's words; the rest of the words is 0.
        params.update(pair=np.int64(9).tobytes() + np.int32(1).tobytes())
        first, second = np.frombuffer(params["pair"] + bytes(4), "int64")
        self.assertEqual(self.echoed(NativeCode("native_echo:echo", **params))[1], (first, second))
        self.assertEqual(self.echoed(NativeCode("native_echo:without_params")), 0)

    def test_kernels(self):
        code = NativeCode(
            "native_echo:echo", first=0, pair=(1, 2), kernel=Kernel("void KERNEL(void) {}"), last=0, points=POINTS
        )
        self.assertEqual(code.kernels, (code.params["kernel"],))
        self.assertEqual(self.echoed(code, [4096])[2], 4096)
        self.assertEqual(NativeCode("native_echo:without_params").kernels, ())

    def test_scratch(self):
        one, two = [self.bound(NativeCode("native_echo:counted", before=10, values=[1, 2, 3]), nin=n) for n in (0, 4)]
        for calls in (1, 2, 3):
            one[0]()
            self.assertEqual(one[1][0], (calls, 16))
        two[0]()
        self.assertEqual(two[1][0], (1, 16))  # each bound function has its own scratch memory
        with self.assertRaisesRegex(ValueError, "at most three values"):
            self.bound(NativeCode("native_echo:counted", before=10, values=[1, 2, 3, 4]))
        with self.assertRaisesRegex(SystemError, "NATIVE_ENTRY_WITH_SCRATCH"):
            self.bound(NativeCode("native_echo:forgotten"))

    def test_wrong_parameters_are_refused(self):
        good = dict(first=0, pair=(1, 2), kernel=0, last=0, points=POINTS)
        for change, error, message in (
            (
                dict(frist=1),
                TypeError,
                "native_echo:echo has no parameter frist: the parameters that it declares are first, pair, kernel, last, points",
            ),
            (dict(n_points=2), TypeError, "has no parameter n_points"),
            (dict(pair=(1, 2, 3)), ValueError, r"pair has room for 2 words, not for 3: \(1, 2, 3\)"),
            (dict(pair=(1,)), ValueError, "pair has room for 2 words, not for 1"),
            (dict(pair=bytes(17)), ValueError, "pair has room for 2 words, not for 17"),
            (dict(first=1.0), TypeError, "the parameter first must be an integer, not 1.0"),
            (dict(first=None), TypeError, "the parameter first must be an integer, not None"),
            (dict(pair=(1, "2")), TypeError, "the parameter pair must be an integer, not '2'"),
            (
                dict(last=2**63),
                ValueError,
                "the value of the parameter last does not fit into 64 bits: 9223372036854775808",
            ),
            (dict(last=-(2**63) - 1), ValueError, "does not fit into 64 bits"),
            (
                dict(points=[dict(row=1)]),
                TypeError,
                "native_echo:echo, points misses column: the parameters that it declares are row, column",
            ),
            (
                dict(points=[dict(row=1, column=2, depth=3)]),
                TypeError,
                "native_echo:echo, points has no parameter depth",
            ),
        ):
            with self.assertRaisesRegex(error, message):
                self.bound(NativeCode("native_echo:echo", **{**good, **change}))
        for name in good:
            with self.assertRaisesRegex(TypeError, "native_echo:echo misses %s: " % name):
                self.bound(NativeCode("native_echo:echo", **{key: value for key, value in good.items() if key != name}))
        with self.assertRaisesRegex(TypeError, "has no parameter scratch and misses before, values"):
            self.bound(NativeCode("native_echo:counted", scratch=1))
        with self.assertRaisesRegex(
            TypeError, "native_echo:without_params has no parameter axis: the parameters that it declares are none"
        ):
            self.bound(NativeCode("native_echo:without_params", axis=1))

    def test_wrong_declarations_are_refused(self):
        for text in ("a, b[] ", "n_b, b[], c", "b[]", "a, b[]", "n_b, a, b[]", "a[n + 1]", "n_b[2], b[]", "*a"):
            with self.assertRaises(ValueError, msg=text):
                Record("m:f", text, {})


if __name__ == "__main__":
    unittest.main()
