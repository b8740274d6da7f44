"""Tests of the C linker with minimal types and Ops: the documented contract, errors, cleanup, cache keys."""

import gc
import os
import re
import subprocess
import sys
import unittest

from theano_ng.configdefaults import config
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.compiler import cutils
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.op import Op
from theano_ng.gof.type import Generic, Type
from theano_ng.gof.utils import MethodNotDefined


class Double(Type):
    """A type of Python floats, `double` in C. It has only the methods that the documentation requires."""

    def filter(self, x, strict=False, allow_downcast=None):
        if isinstance(x, float) or not strict:
            return float(x)
        raise TypeError("%r is no float" % (x,))

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self).__name__)

    def __str__(self):
        return "double"

    def c_declare(self, name, sub):  # has no parameter check_input, as in the documentation
        return "double %s;" % name

    def c_init(self, name, sub):
        return "%s = 0.0;" % name

    def c_extract(self, name, sub):
        return """
        if (PyFloat_Check(py_%(name)s)) {
            %(name)s = PyFloat_AS_DOUBLE(py_%(name)s);
        } else {
            PyErr_Format(PyExc_TypeError, "expected a float, got %%.80s", Py_TYPE(py_%(name)s)->tp_name);
            %(fail)s
        }
        """ % dict(sub, name=name)

    def c_sync(self, name, sub):
        return """
        {
            PyObject *boxed = PyFloat_FromDouble(%(name)s);
            Py_XDECREF(py_%(name)s);
            py_%(name)s = boxed != NULL ? boxed : (Py_INCREF(Py_None), Py_None);
        }
        """ % dict(name=name)

    def c_cleanup(self, name, sub):
        return ""

    def c_code_cache_version(self):
        return (2,)


double = Double()


class Binary(Op):
    __props__ = ("symbol",)

    def __init__(self, symbol):
        self.symbol = symbol

    def make_node(self, x, y):
        return Apply(self, [x, y], [double()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        outputs[0][0] = {"+": x + y, "*": x * y}[self.symbol]

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s %s %s;" % (outputs[0], inputs[0], self.symbol, inputs[1])

    def c_code_cache_version(self):
        return (1,)


class Checked(Op):
    """An Op that fails on negative input. Its C code notes each initialization, run and cleanup in a list."""

    __props__ = ()
    params_type = Generic()

    def __init__(self, log):
        self.log = log

    def get_params(self, node):
        return self.log

    def make_node(self, x):
        return Apply(self, [x], [double()])

    def c_headers(self, c_compiler):
        return ["<math.h>"] if c_compiler is cmodule.GCC_compiler else ["nonsense.h"]

    def c_support_code(self):
        return "static int checked_calls = 0;"

    def c_init_code(self):
        return ["checked_calls = 100;"]

    def c_support_code_struct(self, node, name):
        return "PyObject* log_%s; double factor_%s;" % (name, name)

    def c_init_code_struct(self, node, name, sub):
        return """
        factor_%(name)s = 2.0;
        if (PyObject_HasAttrString(%(params)s, "refuse")) {
            PyErr_SetString(PyExc_ValueError, "refused at init");
            %(fail)s
        }
        log_%(name)s = PyObject_GetAttrString(%(params)s, "list");
        note(log_%(name)s, "init");
        """ % dict(sub, name=name)

    def c_cleanup_code_struct(self, node, name):
        return 'if (log_%(name)s) { note(log_%(name)s, "destroy"); } Py_XDECREF(log_%(name)s);' % dict(name=name)

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        ++checked_calls;
        note(log_%(name)s, "run");
        int late = 5;
        if (%(x)s < 0) {
            if (%(x)s < -10) { %(fail)s }
            PyErr_Format(PyExc_ValueError, "negative: %%d%%%%", (int)%(x)s);
            %(fail)s
        }
        %(z)s = sqrt(%(x)s) * factor_%(name)s + (checked_calls - checked_calls) + 0 * late;
        """ % dict(sub, name=name, x=inputs[0], z=outputs[0])

    def c_code_cleanup(self, node, name, inputs, outputs, sub):
        return 'note(log_%s, "cleanup");' % name

    def c_support_code_apply(self, node, name):
        return """
static void note(PyObject* log, const char* text) {
    PyObject* item = PyUnicode_FromString(text);
    PyList_Append(log, item);
    Py_DECREF(item);
}
"""

    def c_code_cache_version(self):
        return (1,)


class Log:
    def __init__(self):
        self.list = []


def linked(inputs, outputs, no_recycling=None):
    graph = FunctionGraph(inputs, outputs)  # a copy, so tests can use the variables again
    return cc.CLinker().accept(graph, graph.outputs if no_recycling == "outputs" else no_recycling)


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestCLinker(unittest.TestCase):
    def test_whole_graph(self):
        x, y, z = double("x"), double("y"), double("z")
        a = Binary("+")(x, y)
        b = Binary("*")(a, z)
        for no_recycling in (None, True, "outputs"):
            linker = linked([x, y, z], [b], no_recycling)
            f = linker.make_function()
            self.assertEqual(f(1.0, 2.0, 3.0), 9.0)
            self.assertEqual(f(5.6, 6.7, 0.5), (5.6 + 6.7) * 0.5)
        source = linker.get_src_code()
        order = [
            source.index(text)
            for text in (
                "double V1;",
                "PyFloat_Check(py_V1)",
                "PyFloat_Check(py_V5)",
                "V7 = V1 + V3",
                "V9 = V7 * V5",
                "__label_10:",
                "__label_6:",
                "__label_2:",
            )
        ]
        self.assertEqual(order, sorted(order))
        with self.assertRaisesRegex(TypeError, "expected a float"):
            thunk, ins, _ = linker.make_thunk()
            for container in ins:
                container.storage[0] = 3
            thunk()

    def test_outputs_that_are_inputs_constants_and_twice(self):
        x = double("x")
        c = Constant(double, 2.5)
        s = Binary("+")(x, c)
        f = linked([x], [x, c, s, s]).make_function()
        self.assertEqual(f(1.0), [1.0, 2.5, 3.5, 3.5])
        self.assertEqual(f(2.0), [2.0, 2.5, 4.5, 4.5])

    def test_struct_params_failure_and_cleanup(self):
        x, log = double("x"), Log()
        z = Checked(log)(Binary("+")(x, x))
        linker = linked([x], [z])
        node = linker.node_order[1]
        thunk, (inp,), (out,) = linker.make_thunk()
        inp.data = 2.0
        thunk()
        self.assertEqual(out.data, 4.0)
        self.assertEqual(log.list, ["init", "run", "cleanup"])
        before = sys.getrefcount(log)
        for value, error, text in (
            (-2.0, ValueError, "negative: -4%"),
            (-20.0, RuntimeError, "No Python exception was set"),
        ):
            inp.data = value
            with self.assertRaisesRegex(error, text) as caught:
                thunk()
            self.assertIs(caught.exception.__op_instance__, node)  # the failing one of the two nodes
            self.assertEqual(thunk.find_task(thunk.module.failure(thunk.cthunk)), (node, "code"))
        self.assertEqual(log.list, ["init", "run", "cleanup"] + 2 * ["run", "cleanup"])
        self.assertEqual(cutils.compile_cutils().run_cthunk(thunk.cthunk), thunk.module.failure(thunk.cthunk))
        self.assertIs(thunk.error_storage[0], RuntimeError)
        thunk.error_storage[:] = [None, None, None]
        log.list.clear()
        inp.data = 8.0
        self.assertEqual(cutils.run_cthunk(thunk.cthunk), 0)
        self.assertEqual(out.data, 8.0)
        self.assertEqual(sys.getrefcount(log), before)
        del thunk, caught
        gc.collect()
        self.assertEqual(log.list[-1], "destroy")

        log.refuse, log.list = True, []
        with self.assertRaisesRegex(ValueError, "refused at init"):
            linked([x], [z]).make_thunk()
        self.assertEqual(log.list, [])

        # Graphs whose Ops differ only in their params use the same module.
        other = Log()
        thunk2 = linked([x], [Checked(other)(Binary("+")(x, x))]).make_thunk()[0]
        thunk3 = linked([x], [Checked(Log())(Binary("+")(x, x))]).make_thunk()[0]
        self.assertIs(thunk2.module, thunk3.module)

    def test_no_leaks(self):
        x = double("x")
        node = Binary("+")(x, x).owner
        f = cc.CLinker().accept(FunctionGraph(node.inputs, node.outputs)).make_function()  # like Op.make_c_thunk
        self.assertEqual(f(1.5, 1.5), 3.0)
        f = linked([x], [Binary("*")(Binary("+")(x, x), x)]).make_function()
        values = [float(i) + 0.5 for i in range(100)]
        counts = [sys.getrefcount(v) for v in values]
        for v in values:
            f(v)
        f(0.25)
        del v
        self.assertEqual([sys.getrefcount(v) for v in values], counts)

    def test_missing_c_code(self):
        class NoC(Op):
            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [double()])

        class NoCType(Double):
            c_extract = Type.c_extract

        x, w = double("x"), NoCType()("w")
        with self.assertRaises(MethodNotDefined):
            linked([x], [NoC()(x)]).make_thunk()
        with self.assertRaises(MethodNotDefined):
            linked([w], [Binary("+")(w, w)]).make_thunk()

        class Hidden(cc.HideC, Binary):
            pass

        f = cc.OpWiseCLinker().accept(FunctionGraph([x], [Hidden("+")(x, x)])).make_function()
        self.assertEqual(f(4.0), 8.0)

    def test_compile_error_names_everything(self):
        class Bad(Binary):
            def c_code(self, node, name, inputs, outputs, sub):
                return "this is not C;"

        x = double("x")
        with self.assertRaises(cmodule.CompileError) as caught:
            linked([x], [Bad("+")(x, x)]).make_thunk()
        text = str(caught.exception)
        self.assertLess(len(text.split("\n")), 20)
        for part in ("Compilation failed (return status=1)", "Apply node that the code belongs to: Bad"):
            self.assertIn(part, text)
        # The last lines of the error message are the position and text of the C line, and the compiler's message.
        *_, line, message = text.split("\n")
        self.assertRegex(line, r"^mod.cpp:\d+ is line 1 of the result of Bad.c_code: this is not C;$")
        self.assertRegex(message, "^error: expected")
        path = re.search(r"are in (\S+)", text).group(1)
        self.addCleanup(os.unlink, path)
        self.assertEqual(text, str(caught.exception))  # the path is the same: the listing was written only once
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path) as file:
            listing = file.read()
        for part in (
            "\tthis is not C;",
            "Problem occurred during compilation with the command line below:",
            "mod.cpp",
            caught.exception.output,
        ):
            self.assertIn(part.strip(), listing)
        # Other processes may be compiling in the same directory; this process has left nothing there.
        self.assertNotIn("tmp-%d-" % os.getpid(), " ".join(os.listdir(config.compiledir)))

    def test_versions_and_keys(self):
        x = double("x")

        class Unversioned(Binary):
            def c_code_cache_version(self):
                return ()

        versioned = linked([x], [Binary("+")(x, x)])
        unversioned = linked([x], [Unversioned("+")(x, x)])
        self.assertEqual(versioned.cmodule_key()[0], ((1,), (2,)))
        self.assertEqual(unversioned.cmodule_key()[0], ())
        self.assertEqual(versioned.cmodule_key(), linked([x], [Binary("+")(x, x)]).cmodule_key())
        self.assertNotEqual(versioned.cmodule_key(), linked([x], [Binary("*")(x, x)]).cmodule_key())
        self.assertTrue(versioned.make_thunk()[0].module.__file__.startswith(config.compiledir))
        self.assertFalse(unversioned.make_thunk()[0].module.__file__.startswith(config.compiledir))

        class Newer(Binary):
            version = (1,)

            def c_code_cache_version(self):
                return self.version

        first = linked([x], [Newer("+")(x, x)]).make_thunk()[0].module
        Newer.version = (2,)
        self.assertIsNot(linked([x], [Newer("+")(x, x)]).make_thunk()[0].module, first)

    def test_linkers_side_by_side(self):
        x, y = double("x"), double("y")
        graph = FunctionGraph([x, y], [Binary("*")(Binary("+")(x, y), y)])
        for linker in (cc.OpWiseCLinker(), cc.DualLinker()):
            self.assertEqual(linker.accept(graph).make_function()(2.0, 3.0), 15.0)

        class Wrong(Binary):
            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = 17.5;" % outputs[0]

        graph = FunctionGraph([x, y], [Wrong("+")(x, y)])
        with self.assertRaisesRegex(Exception, "Output mismatch"):
            cc.DualLinker().accept(graph).make_function()(2.0, 3.0)

    def test_source_does_not_depend_on_the_hash_seed(self):
        program = (
            "from theano_ng.gof.tests.test_cc import *\n"
            "x, y = double('x'), double('y')\n"
            "l = linked([x, y], [Binary('*')(Binary('+')(x, y), Constant(double, 3.0)), Checked(Log())(y)])\n"
            "from theano_ng.gof.compiler.modulecache import get_module_hash\n"
            "from theano_ng.gof.compiler.kernelcache import get_kernel_cache\n"
            "from theano_ng.gof.native import Kernel\n"
            "print(get_module_hash(l.get_src_code(), (l.cmodule_key()[0], ())), get_kernel_cache().key(Kernel('void KERNEL(){}')))\n"
        )
        said = {
            subprocess.run(
                [sys.executable, "-c", program],
                env=dict(os.environ, PYTHONHASHSEED=seed),
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("0", "1", "77")
        }
        self.assertEqual(len(said), 1, said)


if __name__ == "__main__":
    unittest.main()
