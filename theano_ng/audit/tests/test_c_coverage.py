"""Tests of the lines of C code that no example reached."""

import importlib.util
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

from theano_ng import scalar, tensor
from theano_ng.audit import Case, audit, c_coverage
from theano_ng.audit.c_coverage import Count
from theano_ng.audit.c_source import blanked, handles_failed_allocation
from theano_ng.gof import Apply, Op

UNAVAILABLE = c_coverage.unavailable()
VECTOR = np.array([1.5, -2.0, 0.25])


class Halve(Op):
    """The Op x / 2, with more C code in its loop."""

    __props__ = ("body",)
    support = ""

    def __init__(self, body=""):
        self.body = body

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        if x.ndim != 1 or x.dtype not in ("float32", "float64"):
            raise TypeError("not a vector of floating point numbers")
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0] / inputs[0].dtype.type(2)

    def c_support_code(self):
        return self.support

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            npy_intp n = PyArray_DIM(%(x)s, 0);
            if (%(z)s == NULL || PyArray_DIM(%(z)s, 0) != n) {
                Py_XDECREF(%(z)s);
                %(z)s = (PyArrayObject*)PyArray_SimpleNew(1, &n, PyArray_TYPE(%(x)s));
                if (!%(z)s) {
                    %(fail)s
                }
            }
            for (npy_intp i = 0; i < n; i++) {
                %(dtype)s value = *(%(dtype)s*)PyArray_GETPTR1(%(x)s, i) / 2;
                %(body)s
                *(%(dtype)s*)PyArray_GETPTR1(%(z)s, i) = value;
            }
        }
        """ % dict(
            x=inputs[0], z=outputs[0], dtype=node.inputs[0].type.dtype_specs()[1], body=self.body, fail=sub["fail"]
        )

    def c_code_cache_version(self):
        return (1, self.body)


class Refuses(Halve):
    def perform(self, node, inputs, output_storage):
        if inputs[0].shape[0] == 123457:
            raise ValueError("bad length")
        super().perform(node, inputs, output_storage)

    def c_code(self, node, name, inputs, outputs, sub):
        code = """
            if (PyArray_DIM(%(x)s, 0) == 123457) {
                PyErr_SetString(PyExc_ValueError, "bad length");
                %(fail)s
            }
        """
        return code % dict(x=inputs[0], fail=sub["fail"]) + super().c_code(node, name, inputs, outputs, sub)


class ForgottenHalf(scalar.UnaryScalarOp):
    """The scalar Op x / 2, with C code for a number that the audit does not generate."""

    def impl(self, x):
        return x / 2

    def c_code(self, node, name, inputs, outputs, sub):
        return """
            if (%(x)s == -987.6543212345)
                %(z)s = -493.82716061725;
            else
                %(z)s = %(x)s / 2.0;
        """ % dict(x=inputs[0], z=outputs[0])

    def c_code_cache_version(self):
        return (1,)


C_FILE = """\
#section support_code

static npy_intp unchanged(npy_intp i)
{
    npy_intp *copy = (npy_intp *)malloc(sizeof(npy_intp));
    if (copy == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *copy = i;
    if (i == 123457) {
        i += 1;
        i -= 1;
    }
    i = *copy;
    free(copy);
    return i;
}

#section support_code_apply

int APPLY_SPECIFIC(copied)(PyArrayObject *x, PyArrayObject **z)
{
    Py_XDECREF(*z);
    *z = (PyArrayObject *)PyArray_NewLikeArray(x, NPY_CORDER, NULL, 0);
    if (*z == NULL)
        return 1;
    for (npy_intp i = 0; i < PyArray_DIM(x, 0); i++)
        *(double *)PyArray_GETPTR1(*z, i) = *(double *)PyArray_GETPTR1(x, unchanged(i));
    return 0;
}
"""

PYTHON_FILE = """\
import os
from theano_ng import tensor
from theano_ng.gof import Apply, COp

class Copied(COp):
    __props__ = ()

    def __init__(self):
        super().__init__("copied.c", "APPLY_SPECIFIC(copied)")

    def make_node(self, x):
        x = tensor.as_tensor_variable(x)
        if x.type != tensor.dvector:
            raise TypeError("not a dvector")
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0].copy()

    def c_headers(self):
        return ["<stdlib.h>", '"copied.h"']

    def c_header_dirs(self):
        return [os.path.dirname(os.path.abspath(__file__))]

    def c_code_cache_version(self):
        return (1,)
"""


def line_of(text):
    """Return the number of the first line of this file that contains a text."""
    with open(__file__, encoding="utf-8") as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


def note_of(op, vary=("length", "content"), **options):
    """Return the note of the check `c_code`, after a check that nothing was found."""
    report = audit(Case(op, [VECTOR], vary=vary), checks="c_code", max_examples=3, **options)
    (verdict,) = report.verdicts
    assert verdict.status == "ok", verdict
    return verdict.note


@unittest.skipIf(UNAVAILABLE, UNAVAILABLE)
class TestNotes(unittest.TestCase):
    def test_reached(self):
        self.assertEqual(note_of(Halve()), "")
        self.assertEqual(note_of(Halve("value *= 1;"), processes=2), "")

    def test_branch(self):
        body = "if (n == 123457) {\n value += 1;\n value -= 1;\n}"
        self.assertEqual(note_of(Halve(body)), "no example reached in the C code: `value += 1;` and the next line")

    def test_part_of_a_line(self):
        for body in (
            "value = n == 123457 ? 7 : value;",
            "if (n == 123457) value = 7;",
            "value *= 1 + (n == 123457 && i == 3);",
        ):
            self.assertEqual(note_of(Halve(body)), "no example reached in the C code: a part of `%s`" % body, body)

    def test_line_of_the_python_file(self):
        place = '%s: line %d (`PyErr_SetString(PyExc_ValueError, "bad length");`)'
        self.assertEqual(
            note_of(Refuses()),
            "no example reached in the C code: "
            + place % (os.path.abspath(__file__), line_of('PyErr_SetString(PyExc_ValueError, "bad length");')),
        )

    def test_reached_with_another_dtype(self):
        # Only float32 reaches this line, and only in another generated module.
        op = Halve("if (PyArray_ITEMSIZE(V1) == 4)\n value *= 1;")
        self.assertEqual(note_of(op), "no example reached in the C code: `value *= 1;`")
        self.assertEqual(note_of(op, ("length", "content", "dtype")), "")

    def test_many_places(self):
        body = "\n".join("if (n == %d)\n value = %d;" % (123457 + k, k) for k in range(8))
        note = note_of(Halve(body))
        self.assertEqual(note.count("`value ="), c_coverage.MOST_PLACES)
        self.assertTrue(note.endswith("; and 3 more places"), note)

    def test_support_code(self):
        op = Halve("value = same(value);")
        op.support = (
            "template <class T> static T same(T x) {\n    if (x == -987.6543212345)\n        x = 3;\n    return x;\n}"
        )
        self.assertEqual(note_of(op), "no example reached in the C code: `x = 3;`")

    def test_openmp(self):
        op = Halve(
            "int k = 0;\n#pragma omp parallel for num_threads(1)\nfor (k = 0; k < 2; k++)\n if (n == 123457)\n value += k;"
        )
        op.c_compile_args = lambda: ["-fopenmp"]
        self.assertEqual(note_of(op), "no example reached in the C code: `value += k;`")

    def test_scalar_op(self):
        op = tensor.Elemwise(ForgottenHalf(scalar.upgrade_to_float, name="forgotten_half"))
        self.assertEqual(
            note_of(op),
            "no example reached in the C code: %s: line %d (`V3 = -493.82716061725;`)"
            % (os.path.abspath(__file__), line_of("= -493.82716061725;")),
        )

    def test_files_of_the_author(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (
                ("copied.py", PYTHON_FILE),
                ("copied.c", C_FILE.replace("i = *copy;", "i = *copy + nothing(i);")),
                (
                    "copied.h",
                    "static inline int nothing(npy_intp i)\n{\n    if (i == 123457)\n        i = 0;\n    return 0;\n}\n",
                ),
            ):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            before = sorted(os.listdir(folder)), sorted(os.listdir("."))
            spec = importlib.util.spec_from_file_location("copied", os.path.join(folder, "copied.py"))
            module = importlib.util.module_from_spec(spec)
            with mock.patch.dict(sys.modules, copied=module):
                spec.loader.exec_module(module)
                note = note_of(module.Copied())
            after = sorted(set(os.listdir(folder)) - {"__pycache__"}), sorted(os.listdir("."))
        number = C_FILE.split("\n").index("        i += 1;") + 1
        self.assertEqual(
            note,
            "no example reached in the C code: %s: lines %d-%d (`i += 1;`); %s: line 4 (`i = 0;`)"
            % (os.path.join(folder, "copied.c"), number, number + 1, os.path.join(folder, "copied.h")),
        )
        self.assertEqual(before, after)

    def test_unknown(self):
        begin = "it is not known which lines of the C code no example reached: "
        with mock.patch.object(c_coverage, "gcov_of", return_value=None):
            self.assertEqual(note_of(Halve()), begin + "gcov is not installed")
        with mock.patch.object(c_coverage, "_WRITER", "#error no counters\n"):
            self.assertRegex(note_of(Halve()), "^" + re.escape(begin) + "CompileError: ")
        with mock.patch.object(c_coverage, "_compiled", lambda *arguments: os.abort()):
            self.assertEqual(note_of(Halve()), begin + "the process that counts them ended: signal SIGABRT")
        self.assertEqual(audit(Halve(), VECTOR, checks="perform", max_examples=5).verdicts[0].note, "")


class TestCounts(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(Count() + Count(3, True, (3, 0)), Count(3, True, (3, 0)))
        self.assertEqual(Count(3, True, (3, 0)) + Count(), Count(3, True, (3, 0)))
        self.assertEqual(Count(3, True, (3, 0)) + Count(2, True, (1, 1)), Count(5, False, (4, 1)))
        self.assertEqual(Count(3, True, (3, 0)) + Count(2, True, (2, 0)), Count(5, True, (5, 0)))
        self.assertEqual(Count(3, True, (3, 0)) + Count(2, False, (2, 0)), Count(5, False, (5, 0)))
        # Branches of different code cannot be added.
        self.assertFalse((Count(3, True, (3, 0)) + Count(2, True, (2,))).partial)


class TestFailedAllocations(unittest.TestCase):
    def handled(self, code):
        """Return the answer for the lines of `code` after the first that begin with a blank."""
        lines = code.split("\n")
        first = next(i for i, line in enumerate(lines, 1) if line.startswith(" "))
        last = max(i for i, line in enumerate(lines, 1) if line.startswith(" "))
        return handles_failed_allocation(lines, first - 1, first, last)

    def test_handled(self):
        for code in (
            "if (*y == NULL) {\n free(sources);\n return 1;\n}",
            "if (nullptr == p)\n return NULL;",
            "if (a == NULL || b == NULL) {\n if (a != NULL)\n PyErr_NoMemory();\n Py_XDECREF(a);\n FAIL;\n}",
            'x = 1;\n PyErr_SetString(PyExc_MemoryError, "no; memory");\n { __failure = 8; goto __label_8; }',
            "p = (int*)malloc(4);\nif (!p) {\n return -1;\n}",
            "p = new int[3];\nif (!p) { // no memory\n delete[] p; /* not; allowed */\n return false;\n}",
            "try {\n} catch (std::bad_alloc &) {\n PyErr_NoMemory();\n goto end;\n}",
        ):
            self.assertTrue(self.handled(code), code)

    def test_not_handled(self):
        for code in (
            "if (weights == NULL) {\n total = n;\n}",
            'if (x == NULL) {\n PyErr_SetString(PyExc_ValueError, "no x");\n return NULL;\n}',
            "if (n < 0)\n return NULL;",
            "if (!ready) {\n return 1;\n}",
            "ready = check(x);\nif (!ready) {\n return 1;\n}",
            "if (n == 0) { // p == NULL\n return 1;\n}",
        ):
            self.assertFalse(self.handled(code), code)

    def test_one_line(self):
        lines = ["int *p = f();", "if (p == NULL) return 1;", "if (n == 7) return 1;"]
        self.assertTrue(handles_failed_allocation(lines, 2, 2, 2))
        self.assertFalse(handles_failed_allocation(lines, 3, 3, 3))

    def test_blanked(self):
        code = 'a = \'"\'; // b\nf("c; \\"d"); /* e\n*/ g;'
        self.assertEqual(blanked('f("c; \\"d"); /* e\n*/ g; // h').split(), ["f(", ");", "g;"])
        self.assertEqual(len(blanked(code)), len(code))


if __name__ == "__main__":
    unittest.main()
