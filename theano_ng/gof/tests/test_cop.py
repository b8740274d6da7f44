"""Tests of COp: relative files, sections, macros, the main function, versions, pickles, errors."""

import importlib.util
import os
import pickle
import sys
import tempfile
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.codegen import modulecode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.params_type import ParamsType
from theano_ng.scalar import int64 as int64_type

# All sections with all macros that the documentation lists for them. Each section changes a value that the outputs
# contain.
EVERYTHING = """#section support_code
static int in_init_code = 0, in_init_code_apply = 0, freed = 0;
static double scale = 0;
#section support_code
#define SHARED(a) (2 * (a))

#section init_code
in_init_code = 1;
scale = SHARED(5);

#section support_code_apply
static npy_intp APPLY_SPECIFIC(sizes)() { return ITEMSIZE_INPUT_0 * 100 + ITEMSIZE_INPUT_1 * 10 + ITEMSIZE_OUTPUT_0; }
#if ITEMSIZE_INPUT_0 != 4
#error "sizes are numbers for the preprocessor"
#endif
#ifdef INPUT_0
#error "no names of variables at file scope"
#endif

#section init_code_apply
in_init_code_apply = ITEMSIZE_INPUT_0;

#section support_code_struct
DTYPE_OUTPUT_0 APPLY_SPECIFIC(total);
PyObject* APPLY_SPECIFIC(keep);

#section init_code_struct
if (PARAMS->refuse) {
    PyErr_SetString(PyExc_ValueError, "refused by the params");
    FAIL;
}
APPLY_SPECIFIC(total) = 0;
APPLY_SPECIFIC(keep) = PyList_New(0);
if (APPLY_SPECIFIC(keep) == NULL) FAIL

#section cleanup_code_struct
Py_CLEAR(APPLY_SPECIFIC(keep));
freed += 1;

#section code
DTYPE_INPUT_0 first;
npy_intp dims[1] = {8};
if (PyArray_DIM(INPUT_0, 0) == 0) {
    PyErr_SetString(PyExc_ValueError, "nothing there");
    FAIL
}
if (PyArray_TYPE(INPUT_0) != TYPENUM_INPUT_0 || TYPENUM_INPUT_1 != NPY_INT16) {
    PyErr_SetString(PyExc_AssertionError, "type numbers");
    FAIL;
}
first = *(DTYPE_INPUT_0*)PyArray_GETPTR1(INPUT_0, 0);
Py_XDECREF(OUTPUT_0);
OUTPUT_0 = (PyArrayObject*)PyArray_EMPTY(1, dims, TYPENUM_OUTPUT_0, 0);
if (OUTPUT_0 == NULL) FAIL;
{
    DTYPE_OUTPUT_0* out = (DTYPE_OUTPUT_0*)PyArray_DATA(OUTPUT_0);
    APPLY_SPECIFIC(total) += first * *(DTYPE_INPUT_1*)PyArray_DATA(INPUT_1) * PARAMS->factor;
    out[0] = APPLY_SPECIFIC(total);
    out[1] = in_init_code;
    out[2] = in_init_code_apply;
    out[3] = scale;
    out[4] = APPLY_SPECIFIC(sizes)();
    out[5] = freed;
    out[6] = Py_SIZE(APPLY_SPECIFIC(keep));
    out[7] = 7;
}

#section code_cleanup
PyList_Append(APPLY_SPECIFIC(keep), Py_None);
if (OUTPUT_0 != NULL && PyArray_TYPE(OUTPUT_0) == TYPENUM_OUTPUT_0)
    *(DTYPE_OUTPUT_0*)PyArray_GETPTR1(OUTPUT_0, 7) = 17;
"""

FUNCTION = """#section support_code_apply
int APPLY_SPECIFIC(f)(PyArrayObject* a, PyArrayObject* b, PyArrayObject* c, PyArrayObject** z, PyArrayObject** w)
{
    npy_intp n = PyArray_DIM(a, 0);
    if (w != NULL || c != NULL) {
        PyErr_SetString(PyExc_AssertionError, "NULL for what is missing");
        return 1;
    }
    if (n == 3)
        return 2;
    if (*z == NULL || PyArray_DIM(*z, 0) != n) {
        Py_XDECREF(*z);
        *z = (PyArrayObject*)PyArray_EMPTY(1, &n, TYPENUM_OUTPUT_0, 0);
    }
    if (*z == NULL)
        return 1;
    for (npy_intp i = 0; i < n; i++)
        *(DTYPE_OUTPUT_0*)PyArray_GETPTR1(*z, i) = 0;
#section support_code_apply
    for (npy_intp i = 0; i < n; i++)
        *(DTYPE_OUTPUT_0*)PyArray_GETPTR1(*z, i) += *(DTYPE_INPUT_0*)PyArray_GETPTR1(a, i) + *(DTYPE_INPUT_1*)PyArray_DATA(b);
    return 0;
}
"""


class FromFiles(gof.COp):
    __props__ = ("factor", "refuse")
    params_type = ParamsType(factor=int64_type, refuse=int64_type)

    def __init__(self, files, func_name=None, factor=1, refuse=0):
        self.factor, self.refuse = factor, refuse
        super().__init__(files, func_name)

    def make_node(self, x, y):
        return gof.Apply(self, [x, y], [T.dvector()])


class Summed(gof.COp):
    __props__ = ()
    _cop_num_inputs = 3
    _cop_num_outputs = 2

    def make_node(self, *inputs):
        return gof.Apply(self, list(inputs), [inputs[0].type()])


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class TestFiles(Files):
    def test_relative_to_the_defining_module(self):
        self.write("op.c", "#section code\n;\n")
        os.mkdir(os.path.join(self.folder, "deep"))
        self.write("deep/more.c", "#section support_code\nint a;\n")
        path = self.write(
            "cop_in_a_module.py",
            "from theano_ng import gof\nclass Mine(gof.COp):\n    __props__ = ()\n"
            "    def __init__(self):\n        super().__init__(['./op.c', 'deep/more.c'])\n",
        )
        spec = importlib.util.spec_from_file_location("cop_in_a_module", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["cop_in_a_module"] = module
        self.addCleanup(sys.modules.pop, "cop_in_a_module")
        spec.loader.exec_module(module)
        op = module.Mine()
        self.assertEqual(
            [os.path.relpath(file, os.path.realpath(self.folder)) for file in op.func_files], ["op.c", "deep/more.c"]
        )
        self.assertEqual(module.Mine.get_path("x/y.c"), os.path.join(os.path.realpath(self.folder), "x", "y.c"))
        self.assertEqual(module.Mine.get_path("/x/y.c"), "/x/y.c")
        self.assertEqual(sorted(op.code_sections), ["code", "support_code"])
        # A pickle contains the source code. Therefore the unpickled Op works and keeps its version even if the files
        # are deleted.
        copy = pickle.loads(pickle.dumps(op))
        self.assertEqual(
            (copy, copy.c_code_cache_version(), copy.c_support_code()),
            (op, op.c_code_cache_version(), op.c_support_code()),
        )

        # Paths in a subclass are relative to the folder of the module that defines the subclass.
        class Here(module.Mine):
            pass

        with self.assertRaisesRegex(
            FileNotFoundError, r"(?s)cannot read the C file './op.c' of Here \(relative paths start in.*gof.tests.op.c"
        ):
            Here()

    def test_errors(self):
        def made(*texts, func_name=None):
            return gof.COp([self.write("f%d.c" % i, text) for i, text in enumerate(texts)], func_name)

        for texts, func_name, message in (
            (
                ["#section code\n;\n\n#section c_headers\n"],
                None,
                r"Unknown section type \(in file .*f0.c, line 4\): c_headers; known are cleanup_code_struct, code, code_cleanup, ",
            ),
            (
                ["#section code\n", "int a;\n#section code\n"],
                None,
                r"(?s)Stray code before first #section statement \(in file .*f1.c\): int a;",
            ),
            (["int f() {}\n"], None, "f0.c has no line '#section <tag>'"),
            (["#section code\n;"], "f", "COp has a section \"code\" in its C files .*f0.c and a func_name, 'f'"),
            ([], None, "COp has no sections"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                made(*texts, func_name=func_name)
        with self.assertRaises(gof.utils.MethodNotDefined):
            made("#section support_code\n").c_code(None, "n", [], [], {})

    def test_old_markers(self):
        text = "int a;\nTHEANO_APPLY_CODE_SECTION\nint APPLY_SPECIFIC(f)() { return 0; }\nTHEANO_SUPPORT_CODE_SECTION\nint b;\n"
        with self.assertWarnsRegex(UserWarning, "deprecated, use #section"):
            op = gof.COp(self.write("old.c", text), "APPLY_SPECIFIC(f)")
        self.assertEqual(
            op.code_sections,
            {"support_code": "int a;\n\nint b;\n", "support_code_apply": "\nint APPLY_SPECIFIC(f)() { return 0; }\n"},
        )
        with self.assertRaisesRegex(ValueError, "it has to be the only file"):
            gof.COp([self.write("old.c", text), self.write("new.c", "#section code\n;")])

    def test_sections_and_versions(self):
        first = self.write(
            "a.c", "\n#section support_code\nint a;\n#section init_code\na = 1;\n#section support_code\nint b;"
        )
        second = self.write("b.c", "#section support_code\nint c;\n")
        op = gof.COp([first, second])
        (text,) = op.c_support_code()
        self.assertEqual(
            [line for line in text.split("\n") if line and not line.startswith("//")], ["int a;", "int b;", "int c;"]
        )
        self.assertIn(
            "// #section support_code, line 6 of a.c\nint b;\n// #section support_code, line 1 of b.c\nint c;", text
        )
        same = gof.COp((first, second))
        self.assertEqual(op.c_code_cache_version(), same.c_code_cache_version())
        hash(op.c_code_cache_version())
        self.assertNotEqual(op.c_code_cache_version(), gof.COp([second, first]).c_code_cache_version())
        self.assertNotEqual(op.c_code_cache_version(), gof.COp([first, second], "f").c_code_cache_version())
        self.write("b.c", "#section support_code\nint d;\n")
        self.assertNotEqual(op.c_code_cache_version(), gof.COp([first, second]).c_code_cache_version())


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestCompiled(Files):
    @theano.change_flags(mode="FAST_RUN")  # the Op counts its calls, which DebugMode does not allow
    def test_every_section_and_macro(self):
        path = self.write("everything.c", EVERYTHING)
        op = FromFiles(path, factor=10)
        x, y = T.fvector("x"), T.TensorType("int16", ())("y")
        f = theano.function([x, y], op(x, y))
        values = np.asarray([1.5, 2.5], "float32")
        np.testing.assert_array_equal(f(values, 2), [30, 1, 4, 10, 428, 0, 0, 17])
        with self.assertRaisesRegex(ValueError, "nothing there"):
            f(values[:0], 2)
        # The 2 in the result shows that the failed call also ran the section code_cleanup. The thunk's struct keeps
        # `total` between calls, so the first number has grown from 30 to 60.
        np.testing.assert_array_equal(f(values, 2), [60, 1, 4, 10, 428, 0, 2, 17])
        with self.assertRaisesRegex(ValueError, "refused by the params"):
            theano.function([x, y], FromFiles(path, factor=10, refuse=1)(x, y))
        # An Op with other params uses the same module, but its thunk has its own struct. Two thunks have been freed:
        # that of `f`, and the one whose params were refused.
        del f
        f = theano.function([x, y], FromFiles(path, factor=1)(x, y))
        np.testing.assert_array_equal(f(values, 2), [3, 1, 4, 10, 428, 2, 0, 17])
        # If a module contains several nodes, the macros of a node are undefined in the code of the other nodes.
        both = FunctionGraph([x, y], [op(x, y), op(x[::-1], y)])
        linker = cc.CLinker().accept(both)
        values = linker.make_function()(values, np.asarray(2, "int16"))
        self.assertEqual([v[0] for v in values], [30, 50])
        # Lines of the module are mapped to lines of the file.
        source = linker.get_src_code()
        number = source.split("\n").index("static int in_init_code = 0, in_init_code_apply = 0, freed = 0;") + 1
        self.assertEqual(modulecode.locate(source, number)[:2], ("FromFiles", "c_support_code"))
        self.assertEqual(modulecode.locate_file(source, number), ("everything.c", 2))
        number = [i for i, line in enumerate(source.split("\n"), 1) if line.strip() == "out[3] = scale;"][-1]
        self.assertEqual(
            modulecode.locate_file(source, number),
            ("everything.c", EVERYTHING.split("\n").index("    out[3] = scale;") + 1),
        )
        number = [i for i, line in enumerate(source.split("\n"), 1) if line == "#undef PARAMS"][-1]
        self.assertEqual(modulecode.locate(source, number)[:2], ("FromFiles", "c_code_cleanup"))
        self.assertIsNone(modulecode.locate_file(source, number))

    def test_main_function(self):
        op = Summed(self.write("function.c", FUNCTION), "APPLY_SPECIFIC(f)")
        self.assertEqual(op.format_c_function_args(["a"], ["z"]), "a, NULL, NULL, &z, NULL")
        x, y = T.fvector("x"), T.lscalar("y")
        data = np.arange(8, dtype="float32")
        f = theano.function([x, y], op(x, y))
        for n in (8, 4, 0):
            np.testing.assert_array_equal(f(data[:n], 5), data[:n] + 5)
        with self.assertRaisesRegex(RuntimeError, "No Python exception was set"):
            f(data[:3], 5)
        np.testing.assert_array_equal(f(data[::-2], 5), data[::-2] + 5)
        # With check_input=False the macros of the inputs are not defined.
        op.check_input = False
        macros = op.get_c_macros(op(x).owner, "n")[0]
        self.assertIn("DTYPE_OUTPUT_0", macros)
        self.assertNotIn("INPUT_0", macros)

    def test_params_of_the_main_function(self):
        path = self.write(
            "params.c",
            """#section support_code_struct
int APPLY_SPECIFIC(f)(PyArrayObject* x, PyArrayObject* y, PyArrayObject** z, PARAMS_TYPE* params)
{
    npy_intp n = 1;
    Py_XDECREF(*z);
    *z = (PyArrayObject*)PyArray_EMPTY(1, &n, TYPENUM_OUTPUT_0, 0);
    if (*z == NULL)
        return 1;
    *(DTYPE_OUTPUT_0*)PyArray_DATA(*z) = params->factor;
    return 0;
}
""",
        )
        x, y = T.fvector("x"), T.lscalar("y")
        for factor in (3, 5):
            f = theano.function([x, y], FromFiles(path, "APPLY_SPECIFIC(f)", factor)(x, y))
            self.assertEqual(f([1], 1), factor)

    def test_compile_error_names_the_line_of_the_file(self):
        path = self.write(
            "wrong.c",
            "#section support_code_apply\n\nint APPLY_SPECIFIC(f)(PyArrayObject* a, PyArrayObject** z)\n{\n"
            "    return nonsense;\n}\n",
        )

        class Wrong(gof.COp):
            __props__ = ()

            def make_node(self, x):
                return gof.Apply(self, [x], [x.type()])

        x = T.dvector("x")
        with self.assertRaisesRegex(
            cmodule.CompileError,
            r"mod.cpp:\d+ is line \d+ of the result of Wrong.c_support_code_apply "
            r"\(wrong.c, line 5\): return nonsense;\nerror: .*nonsense.*$",
        ):
            theano.function([x], Wrong(path, "APPLY_SPECIFIC(f)")(x))


if __name__ == "__main__":
    unittest.main()
