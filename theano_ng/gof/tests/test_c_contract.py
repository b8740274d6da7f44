"""Tests of the C contract of Ops and types: the order in which methods are called, and the source code of modules."""

import contextlib
import functools
import gc
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.codegen import modulecode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.tests.test_cc import Binary, Checked, Log, double
from theano_ng.gof.type import Generic, Type
from theano_ng.gof.utils import MethodNotDefined


def linked(inputs, outputs, no_recycling=None):
    return cc.CLinker().accept(FunctionGraph(inputs, outputs), no_recycling)


class TestModuleText(unittest.TestCase):
    def test_locate(self):
        x = double("x")
        checked = Checked(Log())
        linker = linked([x], [checked(Binary("+")(x, x))])
        source = linker.get_src_code()
        lines = source.split("\n")
        # `locate` must find every line of the code of each method, with its line number in this code.
        node = linker.node_order[1]
        sub = dict(failure_var="__failure", params="V5", id=0, fail="FAIL")
        expected = {
            ("Checked", "c_code"): checked.c_code(node, "node_1", ["V1"], ["V2"], sub),
            ("Checked", "c_code_cleanup"): checked.c_code_cleanup(node, "node_1", ["V1"], ["V2"], sub),
            ("Checked", "c_support_code"): checked.c_support_code(),
            ("Checked", "c_support_code_apply"): checked.c_support_code_apply(node, "node_1"),
            ("Checked", "c_support_code_struct"): checked.c_support_code_struct(node, "node_1"),
            ("Checked", "c_init_code"): checked.c_init_code()[0],
            ("Checked", "c_init_code_struct"): checked.c_init_code_struct(node, "node_1", sub),
            ("Checked", "c_cleanup_code_struct"): checked.c_cleanup_code_struct(node, "node_1"),
            ("Double", "c_extract"): double.c_extract("V1", sub),
        }
        found = {}
        for number in range(-1, len(lines) + 3):
            place = modulecode.locate(source, number)
            if place is not None and (place[:2] in expected and place[2] == len(found.get(place[:2], ())) + 1):
                found.setdefault(place[:2], []).append((place[2], lines[number - 1].strip()))
        for key, text in expected.items():
            numbers = [number for number, _ in found[key]]
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)), key)
            for (_, line), original in zip(found[key], text.rstrip().split("\n")):
                # Skip lines that contain names of variables: the linker chooses names other than V1, V2 and V5.
                if not any(word in original for word in ("FAIL", "V1", "V2", "V5")):
                    self.assertEqual(line, original.strip(), key)
            self.assertEqual(len(numbers), len(text.rstrip().split("\n")), key)
        self.assertIsNone(modulecode.locate(source, 1))
        self.assertIsNone(modulecode.locate(source, lines.index("    int run(void) {") + 1))

    def test_indented(self):
        text = "\n\t\tif (x) {\n\t\t    y;\n    #ifdef Z\n\n\t\t}\n\n"
        self.assertEqual(modulecode.indented(text, 2), "\n  if (x) {\n      y;\n#ifdef Z\n\n  }")
        self.assertEqual(modulecode.indented("if (x) {\n        y;\n    }", 0), "if (x) {\n    y;\n}")
        for kept in ('  f("a\\\n  b");', '  f(R"(\n  a)");'):  # white space in strings
            self.assertEqual(modulecode.indented(kept, 0), kept)
        self.assertEqual(modulecode.indented('  #define A(x) \\\n    "a" x\n  b', 1), '#define A(x) \\\n   "a" x\n b')


class Owned(Type):
    """A Type of Python ints that are copied to the heap.

    c_extract and c_sync can be made to fail, and allocations are counted.
    """

    def filter(self, x, strict=False, allow_downcast=None):
        return int(x)

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self).__name__)

    def c_support_code(self):
        return [
            "static int owned = 0, ran = 0, order = 0;",
            "static long* own(long x) { owned++; long* p = (long*)malloc(sizeof(long)); *p = x; return p; }",
        ]

    def c_init_code(self):
        return ["order = order * 10 + 1;"]

    def c_declare(self, name, sub, check_input=True):
        return "long* %s;%s" % (name, "\nbool checked_%s;" % name if check_input else "")

    def c_init(self, name, sub):
        return "%s = NULL;" % name

    def c_extract(self, name, sub, check_input=True):
        check = (
            """
        checked_%(name)s = true;
        if (!PyLong_Check(py_%(name)s)) {
            PyErr_SetString(PyExc_TypeError, "expected an int");
            %(fail)s
        }
        """
            if check_input
            else ""
        )
        return (
            "%(name)s = NULL;"
            + check
            + """
        %(name)s = own(PyLong_AsLong(py_%(name)s));
        """
        ) % dict(sub, name=name)

    def c_sync(self, name, sub):
        return """
        if (%(name)s == NULL || *%(name)s == 66) {
            PyErr_SetString(PyExc_ValueError, "refused by c_sync");
            %(fail)s
        }
        Py_XDECREF(py_%(name)s);
        py_%(name)s = PyLong_FromLong(*%(name)s);
        """ % dict(sub, name=name)

    def c_cleanup(self, name, sub):
        return "if (%(name)s) { owned--; free(%(name)s); %(name)s = NULL; }" % dict(name=name)

    def c_code_cache_version(self):
        return (1,)


owned = Owned()


class Add(Op):
    """An Op that adds two ints and fails if the sum is `stop`. Its C function `state` returns three counters."""

    __props__ = ("stop",)

    def __init__(self, stop=13):
        self.stop = stop

    def make_node(self, x, y):
        return Apply(self, [x, y], [owned()])

    def c_support_code(self):
        return 'static PyObject* state() { return Py_BuildValue("iii", owned, ran, order); }'

    def c_init_code(self):
        return "order = order * 10 + 2;"

    def c_init_code_apply(self, node, name):
        return 'order = order * 10 + 3;    /* %s */\nPySys_SetObject("_state_of_test_c_contract", NULL);' % name

    def c_init_code_struct(self, node, name, sub):
        return (
            """
        PyObject* capsule = PyCapsule_New((void*)state, "state", NULL);
        if (capsule == NULL)
            %(fail)s;
        PySys_SetObject("_state_of_test_c_contract", capsule);
        Py_DECREF(capsule);
        """
            % sub
        )

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        char* scratch = (char*)malloc(10);
        ran++;
        if (%(z)s == NULL)
            %(z)s = own(0);
        *%(z)s = *%(x)s + *%(y)s;
        if (*%(z)s == %(stop)d) {
            PyErr_SetString(PyExc_ValueError, "unlucky");
            %(fail)s
        }
        """ % dict(sub, x=inputs[0], y=inputs[1], z=outputs[0], stop=self.stop)

    def c_code_cleanup(self, node, name, inputs, outputs, sub):
        return "free(scratch); ran += 100;"

    def c_code_cache_version(self):
        return (1,)


def state():
    """Return the three counters of the module whose thunk was created last.

    They are the number of existing allocations, the number of runs + 100 * the number of cleanups, and a number whose
    digits are the initializations in the order in which they ran.
    """
    import ctypes

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.PYFUNCTYPE(ctypes.py_object)(get(sys._state_of_test_c_contract, b"state"))()


class Positive(Op):
    """An Op without `perform`. Its C code copies the input, and fails if an element is negative."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        for (npy_intp i = 0; i < PyArray_DIM(%(x)s, 0); i++)
            if (*(dtype_%(x)s*)PyArray_GETPTR1(%(x)s, i) < 0) {
                PyErr_Format(PyExc_ValueError, "negative at %%ld", (long)i);
                %(fail)s;
            }
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject*)PyArray_NewCopy(%(x)s, NPY_CORDER);
        if (%(z)s == NULL)
            %(fail)s
        """ % dict(sub, x=inputs[0], z=outputs[0])

    def c_code_cache_version(self):
        return (1,)


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestLifetimes(unittest.TestCase):
    def test_whatever_fails_everything_is_cleaned_up(self):
        x, y, z = owned("x"), owned("y"), owned("z")
        linker = linked([x, y, z], [Add()(Add()(x, y), z)])
        thunk, inputs, (out,) = linker.make_thunk()

        def run(*values):
            for container, value in zip(inputs, values):
                container.storage[0] = value
            thunk()  # noqa: F821, the test deletes `thunk` at its end
            return out.storage[0]

        self.assertEqual(state(), (0, 0, 1233))  # initialized in this order: the type (1), the Op (2), both nodes (3)
        self.assertEqual(run(1, 2, 3), 6)
        kept = state()[0]  # the allocation of the temporary variable, which the thunk owns
        self.assertEqual(state(), (1, 202, 1233))
        gc.collect()
        nones = sys.getrefcount(None)
        for values, kind, message, ran in (
            ((1, "2", 3), TypeError, "expected an int", 0),
            ((6, 7, 1), ValueError, "unlucky", 101),
            ((6, 6, 1), ValueError, "unlucky", 202),
            ((60, 5, 1), ValueError, "refused by c_sync", 202),
        ):
            for _ in range(30):
                before = state()[1]
                with self.assertRaisesRegex(kind, message):
                    run(*values)
                self.assertEqual((state()[0], state()[1] - before), (kept, ran))
        self.assertEqual(run(10**6, 2, 3), 10**6 + 5)
        gc.collect()
        # 120 calls have failed. A leak would add a reference to None in each call; other code adds only a few.
        self.assertLess(sys.getrefcount(None) - nones, 100)
        del thunk
        gc.collect()
        self.assertEqual(state()[0], 0)
        # The module is reused by the next thunk.
        self.assertEqual(linked([x, y, z], [Add()(Add()(x, y), z)]).make_function()(1, 1, 1), 3)

    def test_references_over_many_failures(self):
        x, y = T.dvector("x"), T.dvector("y")
        z = Positive()(Positive()(x) + y)
        a, b, wrong = np.ones(5), np.full(5, 3.0), np.full(5, -7.0)
        for linker in ("c", "cvm", "c|py", "vm"):
            f = theano.function([x, y], z, mode=theano.Mode(linker=linker, optimizer=None))
            np.testing.assert_array_equal(f(a, b), a + b)
            counts = sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(wrong)
            for _ in range(20):
                with self.assertRaisesRegex(ValueError, "negative at 0"):
                    f(a, wrong)
                with self.assertRaisesRegex(ValueError, "negative at 0"):
                    f(wrong, b)
                f(a, b)
            self.assertEqual((sys.getrefcount(a), sys.getrefcount(b), sys.getrefcount(wrong)), counts, linker)
            np.testing.assert_array_equal(f(a, b), a + b)

    def test_exception_without_failure(self):
        """If C code sets an exception but does not run ``sub["fail"]``, the call fails at this node.

        Nodes that follow it do not run.
        """

        class Careless(Positive):
            def c_code(self, node, name, inputs, outputs, sub):
                return super().c_code(node, name, inputs, outputs, sub) + 'PyErr_SetString(PyExc_KeyError, "careless");'

        x = T.dvector("x")
        for outputs in ([Careless()(x)], [Positive()(Careless()(x))]):
            for linker in ("c", "cvm", "c|py", "vm"):
                f = theano.function([x], outputs, mode=theano.Mode(linker, None))
                for _ in range(2):
                    with self.assertRaisesRegex(KeyError, "careless"):
                        f([1.0])


class TestWhatIsAsked(unittest.TestCase):
    def test_arguments_with_and_without_compiler(self):
        asked = []

        class Asked(Binary):
            def c_headers(self, c_compiler):
                asked.append(c_compiler)
                return ["<vector>"]

            def c_header_dirs(self, c_compiler=None):
                asked.append(c_compiler)
                return ("/usr/include",)

            def c_libraries(self):
                return ["m"]

            def c_lib_dirs(self, *args):
                asked.extend(args)
                return []

            def c_compile_args(self):
                return ["-DASKED=1", "-fno-trapping-math"]

            def c_no_compile_args(self, c_compiler):
                return ["-O3"]

        op = Asked("+")
        op.c_compile_args = functools.partial(
            lambda first, compiler: [first, compiler.__name__], "-DFIRST"
        )  # `c_compile_args` is an attribute of the instance instead of a method
        x = double("x")
        linker = linked([x], [op(x, x)])
        self.assertEqual(
            (linker.headers(), linker.header_dirs(), linker.libraries(), linker.lib_dirs()),
            (["<vector>"], ["/usr/include"], ["m"], []),
        )
        self.assertNotIn("-O3", linker.compile_args())
        self.assertEqual(linker.compile_args()[-2:], ["-DFIRST", "GCC_compiler"])
        self.assertEqual(set(asked), {cmodule.GCC_compiler})
        self.assertIn("#include <vector>\n", linker.get_src_code())

    def test_compilers(self):
        class One(cmodule.GCC_compiler):
            pass

        class Two(cmodule.GCC_compiler):
            pass

        x = double("x")
        plus, times = Binary("+"), Binary("*")
        self.assertIs(linked([x], [plus(x, x)]).c_compiler(), cmodule.GCC_compiler)
        plus.c_compiler = lambda: One
        self.assertIs(linked([x], [plus(times(x, x), x)]).c_compiler(), One)
        times.c_compiler = lambda: Two
        with self.assertRaisesRegex(ValueError, "different compilers"):
            linked([x], [plus(times(x, x), x)]).c_compiler()

    def test_check_input(self):
        x, y = owned("x"), owned("y")

        class Trusting(Add):
            check_input = False

        def source(op, **flags):
            with config.change_flags(**flags):
                return linked([x, y], [op(x, y)]).get_src_code()

        # The code checks two inputs and the old value of the output.
        self.assertEqual(source(Add()).count("PyLong_Check"), 3)
        self.assertEqual(source(Trusting()).count("PyLong_Check"), 0)
        self.assertEqual(source(Trusting()).count("checked_"), 0)
        self.assertEqual(source(Add(), check_input=False).count("PyLong_Check"), 0)
        # An input is checked if at least one of its readers wants the check.
        both = linked([x, y], [Add()(x, x), Trusting()(x, y)]).get_src_code()
        self.assertIn("PyLong_Check(py_V1)", both)
        self.assertNotIn("PyLong_Check(py_V3)", both)

    def test_float16(self):
        class Half(Op):
            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [x.type()])

            def perform(self, node, inputs, outputs):
                outputs[0][0] = inputs[0] * 2

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = nothing that compiles;" % outputs[0]

        class HalfInC(Half):
            _f16_ok = True

        x = T.TensorType("float16", [False])("x")
        for linker in ("cvm", "vm", "c|py"):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                f = theano.function([x], Half()(x), mode=theano.Mode(linker=linker))
            self.assertEqual(said.getvalue(), "Disabling C code for Half due to unsupported float16\n")
            np.testing.assert_array_equal(f(np.ones(3, "float16")), np.full(3, 2.0))
        with self.assertRaisesRegex(
            NotImplementedError,
            r"C code of Half\(x\) must not be used for float16, because the Op does not set _f16_ok",
        ):
            theano.function([x], Half()(x), mode=theano.Mode(linker="c"))
        self.assertIn("nothing that compiles", linked([x], [HalfInC()(x)]).get_src_code())

    def test_methods_of_the_wrong_kind(self):
        x = double("x")
        op = Binary("+")
        op.c_code = lambda *args: None
        with self.assertRaisesRegex(TypeError, "Binary.c_code must return a string, not None"):
            linked([x], [op(x, x)]).get_src_code()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestCompilation(unittest.TestCase):
    def test_only_c(self):
        x = T.dvector("x")
        for linker in ("c", "cvm", "cvm_nogc", "c|py", "c|py_nogc", "vm", "vm_nogc", "py", "c&py"):
            f = theano.function([x], Positive()(x), mode=theano.Mode(linker=linker))
            np.testing.assert_array_equal(f([1, 2]), [1, 2])
        with config.change_flags(cxx=""), self.assertRaisesRegex(MethodNotDefined, "perform"):
            theano.function([x], Positive()(x), mode=theano.Mode(linker="vm"))([1])

    def test_plain_instances_with_every_method(self):
        """The methods of a Type or an Op may be attributes of an instance of the base class.

        The digits of the result show which methods were called: each method adds 1 to its own digit.
        """
        number = Type()
        number.filter = lambda x, strict=False, allow_downcast=None: float(x)
        for name in ("c_init", "c_sync", "c_cleanup"):
            setattr(number, name, getattr(double, name))
        number.c_declare = lambda name, sub, check_input=True: "double %s;" % name
        number.c_extract = lambda name, sub, check_input=True: (
            "%s = %d + PyFloat_AsDouble(py_%s);" % (name, check_input, name)
        )
        number.c_support_code = lambda: ["static int of_type = 0;"]
        number.c_init_code = lambda: ["of_type = 10;"]
        number.c_headers = lambda: ["<algorithm>"]
        number.c_compile_args = lambda c_compiler: ["-DARGUMENT=100"]
        number.c_code_cache_version = lambda: (3,)
        op = Op()
        op.make_node = lambda x: Apply(op, [x], [number()])
        op.params_type = Generic()
        op.get_params = lambda node: 1000000
        op.c_support_code = lambda: "static int of_op = 0;"
        op.c_support_code_apply = lambda node, name: "static int of_%s = 0;" % name
        op.c_support_code_struct = lambda node, name: "int in_struct_%s, calls_%s;" % (name, name)
        op.c_init_code = lambda: "of_op = 1000;"
        op.c_init_code_apply = lambda node, name: "of_%s = 10000;" % name
        op.c_init_code_struct = lambda node, name, sub: (
            "in_struct_%s = 100000 + PyLong_AsLong(%s);" % (name, sub["params"])
        )
        op.c_cleanup_code_struct = lambda node, name: "in_struct_%s = 0;" % name
        op.c_code = lambda node, name, inputs, outputs, sub: (
            "%(z)s = std::max(0.0, %(x)s) + ARGUMENT + of_type + of_op + of_%(name)s + in_struct_%(name)s + 10000000 * calls_%(name)s;"
            % dict(x=inputs[0], z=outputs[0], name=name)
        )
        op.c_code_cleanup = lambda node, name, inputs, outputs, sub: "calls_%s++;" % name
        op.c_code_cache_version = lambda: (4,)
        x = number("x")
        linker = linked([x], [op(x)])
        self.assertEqual(linker.cmodule_key()[0], ((4,), (3,), (1,)))  # Op, type, type of the params
        f = linker.make_function()
        self.assertEqual((f(0.0), f(1.0)), (1111111, 11111112))
        # The version of a node overrides that of its Op.
        op.c_code_cache_version_apply = lambda node: (5, len(node.inputs))
        self.assertEqual(linker.cmodule_key()[0][0], (5, 1))
        op.c_code_cache_version_apply = lambda node: ()
        self.assertEqual(linker.cmodule_key()[0], ())

    def test_use_c_code(self):
        class Either(Binary):
            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = -1;" % outputs[0]

        x = double("x")
        op = Either("+")
        for attribute in (None, "use_c_code", "_op_use_c_code"):
            if attribute is not None:
                setattr(op, attribute, False)
            results = [
                theano.function([x], op(x, x), mode=theano.Mode(linker, None))(2.0)
                for linker in ("cvm", "c|py", "c", "py")
            ]
            self.assertEqual(results, ([-1, -1] if attribute is None else [4, 4]) + [-1, 4])
            if attribute is not None:
                delattr(op, attribute)

    def test_python_constant_folding(self):
        """Constant folding leaves out a node with only C code if its `python_constant_folding` returns True."""
        asked = []
        op = Positive()
        constant = T.constant(np.ones(3))
        for answer in (False, True):
            op.python_constant_folding = lambda node: asked.append(node.op) or answer
            f = theano.function([], op(constant), mode=theano.Mode("cvm", "fast_compile"))
            self.assertEqual(any(node.op == op for node in f.maker.fgraph.toposort()), answer)
            np.testing.assert_array_equal(f(), np.ones(3))
            self.assertIn(op, asked)

    def test_external_library(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "ours.h"), "w") as file:
                file.write('extern "C" double seven_times(double);\n')
            with open(os.path.join(folder, "ours.cpp"), "w") as file:
                file.write('#include "ours.h"\ndouble seven_times(double x) { return 7 * x; }\n')
            subprocess.run(
                [cmodule.find_toolchain().cxx, "-shared", "-fPIC", "ours.cpp", "-o", "libours.so"],
                cwd=folder,
                check=True,
            )

            class Seven(Binary):
                def c_headers(self):
                    return ["ours.h"]

                def c_header_dirs(self):
                    return [folder]

                def c_libraries(self):
                    return ["ours"]

                def c_lib_dirs(self):
                    return [folder]

                def c_code(self, node, name, inputs, outputs, sub):
                    return "%s = seven_times(%s) * ADDED;" % (outputs[0], inputs[0])

                def c_compile_args(self):
                    return ["-DADDED=10"]

                def c_code_cache_version(self):
                    return ()

            x = double("x")
            self.assertEqual(linked([x], [Seven("+")(x, x)]).make_function()(2.0), 140.0)

    def test_kept_text(self):
        class Broken(Binary):
            def c_code(self, node, name, inputs, outputs, sub):
                return "int a = 1;\nnonsense(a);"

        x = double("x")
        before = set(os.listdir(config.compiledir))
        for nocleanup in (False, True):
            with config.change_flags(nocleanup=nocleanup), self.assertRaises(cmodule.CompileError) as caught:
                linked([x], [Broken("+")(x, x)]).make_thunk()
            text = str(caught.exception)
            os.unlink(re.search(r"are in (\S+)", text).group(1))
            last = text.split("\n")[-2:]
            self.assertRegex(last[0], r"^mod.cpp:\d+ is line 2 of the result of Broken.c_code: nonsense\(a\);$")
            mine = [
                name
                for name in os.listdir(config.compiledir)
                if name.startswith("tmp-%d-" % os.getpid()) and name not in before
            ]
            self.assertEqual(len(mine), int(nocleanup))
        self.assertRegex(last[1], "^error: .*nonsense")
        path = os.path.join(config.compiledir, mine[0], "mod.cpp")
        with open(path) as file:
            text = file.read()
        number = int(last[0].split(":")[1].split()[0])
        self.assertEqual(text.split("\n")[number - 1].strip(), "nonsense(a);")
        shutil.rmtree(os.path.dirname(path))
        # The compiled source is kept, so that debuggers find it.
        op = Binary("+")
        op.c_code_cache_version = lambda: ("kept text",)
        linker = linked([x], [op(x, x)])
        folder = os.path.dirname(linker.make_thunk()[0].module.__file__)
        with open(os.path.join(folder, "mod.cpp")) as file:
            text = file.read()
        self.assertEqual(text, linker.get_src_code().replace(cc.HASH_PLACEHOLDER, os.path.basename(folder)))
        with open(linker.make_thunk()[0].module.__file__, "rb") as file:
            binary = file.read()
        self.assertTrue(os.path.join(folder, "mod.cpp").encode() in binary)

    def test_modules_that_cannot_be_loaded(self):
        class Undefined(Binary):
            def c_support_code(self):
                return 'extern "C" double not_there(double);'

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = not_there(%s);" % (outputs[0], inputs[0])

        class Refusing(Binary):
            def c_init_code(self):
                return ['PyErr_SetString(PyExc_ImportError, "no such hardware");']

        x = double("x")
        for op, message in (
            (Undefined("+"), "C code of Undefined.*cannot be loaded: .*undefined symbol: not_there.*c_libraries"),
            (Refusing("+"), "C code of Refusing.*cannot be loaded: .*no such hardware"),
        ):
            with self.assertRaisesRegex(ImportError, message) as caught:
                linked([x], [op(x, x)]).make_thunk()
            self.assertFalse(os.path.exists(os.path.dirname(caught.exception.path)))

    def test_versions(self):
        """Processes reuse modules, also those of earlier processes, if the Op version and the C code are equal."""
        program = """
from theano_ng.gof.tests.test_c_contract import *
class Versioned(Binary):
    def c_code_cache_version(self): return self.version
    def c_code(self, node, name, i, o, sub): return "%%s = %%s + %%s;    // %(now)s" %% (o[0], i[0], self.more)
x = double("x")
cache = cc.get_module_cache()
for Versioned.version, Versioned.more in %(cases)r:
    before = list(cache.stats)
    value = linked([x], [Versioned("+")(x, x)]).make_function()(2.0)
    loaded, found, compiled = (after - old for after, old in zip(cache.stats, before))
    print(value, "loaded" * loaded + "found" * found + "compiled" * compiled)
"""

        def run(*cases):
            return subprocess.run(
                [sys.executable, "-c", program % dict(now=now, cases=cases)], text=True, check=True, capture_output=True
            ).stdout.split("\n")[:-1]

        now = time.time_ns()
        self.assertEqual(
            run(((1,), 0), ((1,), 0), ((2, "b"), 0), ((), 0), ((), 0)),
            ["2.0 compiled", "2.0 loaded", "2.0 compiled", "2.0 compiled", "2.0 loaded"],
        )
        # Without a version, no compiled module is kept for other processes. If the code changes but its version does
        # not, the code is compiled again.
        self.assertEqual(run(((1,), 0), ((), 0), ((1,), 1)), ["2.0 found", "2.0 compiled", "3.0 compiled"])


if __name__ == "__main__":
    unittest.main()
