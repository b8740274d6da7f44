"""Tests of names with characters that are special in files or C code: line breaks, quotes, ends of comments, NUL, lone
surrogates.
"""

import io
import os
import pickle
import tempfile
import unittest
import unittest.mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import d3viz
from theano_ng.gof.utils import comment_text, writable
from theano_ng.misc import pkl_utils
from theano_ng.printing import debugprint, picture, pp, pydotprint

NAMES = (
    "lone \udc80 surrogate",
    "\ud800",
    "nul \0 inside",
    "line\nbreak",
    "carriage\rreturn",
    "*/ int evil; /*",
    "backslash\\",
    'quote"s',
    "</script><b>",
    "next line \x85 and \u2028",
    "trigraph??/",
)


def copier(class_name):
    """Return an Op with C code, whose class is named `class_name`. Each Op has a different cache version."""
    copier.count += 1
    number = copier.count

    class Copier(theano.Op):
        __props__ = ()

        def make_node(self, x):
            return theano.Apply(self, [x], [x.type()])

        def c_code(self, node, name, inputs, outputs, sub):
            return "Py_XDECREF(%s); %s = (PyArrayObject *)PyArray_NewCopy(%s, NPY_ANYORDER);" % (
                outputs[0],
                outputs[0],
                inputs[0],
            )

        def c_support_code(self):
            return "/* support */\n"

        def c_code_cache_version(self):
            return number, os.getpid()

    Copier.__name__ = class_name
    return Copier()


copier.count = 0


class TestWritable(unittest.TestCase):
    def test_texts(self):
        for name in NAMES:
            writable(name).encode("utf-8")
            self.assertNotIn("\0", writable(name))
            comment = comment_text(name)
            self.assertEqual(len(comment.splitlines()), 1)
            self.assertFalse(comment.endswith(("\\", "??/")))
            comment.encode("utf-8")
        for plain in ("x", "naïve α + β", "W[0].T"):
            self.assertEqual(writable(plain), plain)
            self.assertEqual(comment_text(plain), plain)


@unittest.skipUnless(theano.config.cxx, "no C++ compiler")
class TestClasses(unittest.TestCase):
    def test_ops(self):
        for name in NAMES:
            try:
                op = copier(name)
            except (UnicodeEncodeError, ValueError):
                continue  # Python cannot make a class of that name
            with self.subTest(ascii(name)):
                x = T.dvector(name)
                f = theano.function([x], op(x), mode=theano.Mode("c", None))
                np.testing.assert_array_equal(f([1.0, 2.0]), [1.0, 2.0])

    def test_types(self):
        for name in NAMES:
            kind = type("Kind", (T.TensorType,), {})
            try:
                kind.__name__ = name
            except (UnicodeEncodeError, ValueError):
                continue
            with self.subTest(ascii(name)):
                x = kind("float64", (False,))("x")
                f = theano.function([x], copier("Fine")(x), mode=theano.Mode("c", None))
                np.testing.assert_array_equal(f(np.ones(2)), np.ones(2))

    def test_enumerations(self):
        from theano_ng.gof.type import EnumList

        for name in NAMES:
            kind = type("Kind", (EnumList,), {})
            try:
                kind.__name__ = name
            except (UnicodeEncodeError, ValueError):
                continue
            code = kind(("ONE", "one")).c_to_string()
            (line,) = [line for line in code.splitlines() if "PyErr_SetString" in line]
            self.assertRegex(line, r'^    PyErr_SetString\(PyExc_ValueError, "\w+: unknown enumeration value."\);$')


class TestVariables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def graphs(self):
        for name in NAMES:
            x, state = T.dvector(name), theano.shared(np.ones(2), name)
            y = T.exp(x) * state
            y.name = name + " y"
            with self.subTest(ascii(name)):
                yield name, x, state, y, theano.function([x], y, name=name, profile=theano.compile.ProfileStats(False))

    def test_pages(self):
        path = os.path.join(self.folder, "page.html")
        for _, _, _, y, f in self.graphs():
            for shown in (f, y):
                d3viz.d3viz(shown, path)
                with open(path, encoding="utf-8") as page:
                    self.assertNotIn("\0", page.read())
            f([1.0, 2.0])
            f.profile.to_html(path)
            with open(path, encoding="utf-8") as page:
                page.read()

    def test_texts(self):
        for _, _, _, y, f in self.graphs():
            with open(os.path.join(self.folder, "graph.txt"), "w", encoding="utf-8") as file:
                debugprint(f, file=file)
                debugprint(y, file=file, print_type=True)
            pp(y)
            f.profile.summary(file=io.StringIO())

    @unittest.skipUnless(picture.pydot_available(), "pydot is not installed")
    def test_pictures(self):
        for _, _, _, y, f in self.graphs():
            for shown in (f, y):
                path = os.path.join(self.folder, "graph.raw")
                pydotprint(shown, path, format="raw", print_output_file=False)
                with open(path, encoding="utf-8") as file:
                    self.assertNotIn("\0", file.read())
                d3viz.d3write(shown, path)
                with open(path, encoding="utf-8") as file:
                    self.assertNotIn("\0", file.read())

    @unittest.skipUnless(picture.pydot_available(), "pydot is not installed")
    def test_what_graphviz_refuses(self):
        """If graphviz fails, the error of `pydotprint` advises to install packages only if graphviz is missing."""
        refused = AssertionError('"dot" with args [...] returned code: 1')
        for failure, blamed in ((refused, False), (FileNotFoundError('"dot" not found in path.'), True)):
            with (
                unittest.mock.patch("pydot.Dot.write", side_effect=failure),
                self.assertRaisesRegex(RuntimeError, "graphviz could not draw") as caught,
            ):
                pydotprint(T.exp(T.dvector()), os.path.join(self.folder, "graph.png"), print_output_file=False)
            self.assertEqual("Install the python package" in str(caught.exception), blamed)

    @unittest.skipUnless(picture.pydot_available(), "pydot is not installed")
    def test_names_of_loops(self):
        x = T.dvector("x")
        loop, _ = theano.scan(
            lambda v, state: T.tanh(v) + state, sequences=x, outputs_info=[T.dscalar("h")], name="a/../b\0"
        )
        path = os.path.join(self.folder, "graph.raw")
        f = theano.function([x, *[v for v in theano.gof.graph.inputs([loop]) if v.name == "h"]], loop)
        pydotprint(f, path, format="raw", scan_graphs=True, print_output_file=False)
        for name in os.listdir(self.folder):
            self.assertRegex(name, r"^graph[\w.-]*\.raw$")

    def test_pickles(self):
        for name, x, state, y, f in self.graphs():
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                self.assertEqual(pickle.loads(pickle.dumps(y, protocol)).name, name + " y")
            np.testing.assert_allclose(pickle.loads(pickle.dumps(f))([0.0, 0.0]), [1.0, 1.0])
            path = os.path.join(self.folder, "model.zip")
            other = theano.shared(np.zeros(3), name)
            with open(path, "wb") as file:
                pkl_utils.dump((state, other), file)
            with open(path, "rb") as file:
                loaded = pkl_utils.load(file)
            self.assertEqual([v.name for v in loaded], [name, name])
            np.testing.assert_array_equal(loaded[0].get_value(), np.ones(2))
            np.testing.assert_array_equal(loaded[1].get_value(), np.zeros(3))
            theano.function_dump(os.path.join(self.folder, "function.pkl"), [x], y)

    def test_errors(self):
        for _, _, _, _, f in self.graphs():
            with self.assertRaises(ValueError) as caught:
                f([1.0, 2.0, 3.0])
            str(caught.exception)
