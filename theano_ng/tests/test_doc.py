"""Tests that run all examples of the manual and of docstrings, and compare the output."""

import doctest
import glob
import importlib
import os
import sys
import unittest

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOC = os.path.join(ROOT, "doc")
PACKAGE = os.path.join(ROOT, "theano_ng")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def read(path):
    with open(path, encoding="utf-8") as page:
        return page.read()


PAGES = [
    path
    for path in sorted(glob.glob(os.path.join(DOC, "**", "*.rst"), recursive=True))
    if not os.path.relpath(path, DOC).startswith("_build") and ">>> " in read(path)
]


# Pages that show lazy evaluation, the order of nodes, or errors. DebugMode computes all nodes in another order, and its
# error messages have more details. Therefore these pages run in "Mode" when the tests run in DebugMode.
LAZY_PAGES = (
    "internal/data",
    "internal/where",
    "reference/linkers",
    "reference/profiling",
    "tutorial/conditions",
    "tutorial/debugging",
    "tutorial/graphs",
    "tutorial/loops",
    "tutorial/porting_an_op",
    "tutorial/rewriting",
    "tutorial/shapes",
)

# Page -> a part of the source code of an example. The example runs C code of an Op, so it needs a compiler.
EXAMPLES_IN_C = {"reference/linkers": ["Half()(s)"], "tutorial/c_op": ["g([1, 2, 3])", "RowSums(openmp=False)(m)"]}


def failures(test):
    """Run one doctest; return the report of its failures, which is empty if it passes."""
    report = []
    # Settings of other tests must not change the printed output.
    with (
        np.printoptions(precision=8, threshold=1000, linewidth=75, suppress=False, legacy=False),
        change_flags(floatX="float64"),
    ):
        doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=report.append)
    return "".join(report)


class Examples(unittest.TestCase):
    def check(self, test):
        """Fail if an example of `test` fails. (assertEqual would take minutes to compare long reports.)"""
        report = failures(test)
        if report:
            self.fail(report)


@unittest.skipUnless(PAGES, "doc/ is in a checkout only, not in an installed package")
class ManualExamples(Examples):
    """The examples of the manual: one test for each page."""

    def setUp(self):
        folder, path = os.getcwd(), list(sys.path)
        self.addCleanup(os.chdir, folder)
        self.addCleanup(sys.path.__setitem__, slice(None), path)
        os.chdir(ROOT)  # pages contain relative paths of files in the repository
        sys.path.insert(0, os.path.join(DOC, "tutorial", "code"))  # modules that pages show and import

    def run_page(self, path):
        test = doctest.DocTestParser().get_doctest(read(path), {"__name__": "__main__", "np": np}, path, path, 0)
        page = os.path.relpath(path, DOC)[:-4].replace(os.sep, "/")
        if page in EXAMPLES_IN_C and not config.cxx:
            for example in test.examples:
                example.options[doctest.SKIP] = any(text in example.source for text in EXAMPLES_IN_C[page])
        with change_flags(mode="Mode" if page in LAZY_PAGES and config.mode == "DebugMode" else config.mode):
            self.check(test)

    def test_examples_were_found(self):
        parser = doctest.DocTestParser()
        examples = [len(parser.get_examples(read(path))) for path in PAGES]
        self.assertGreater(sum(examples), 150)


def _test_of(path):
    def test(self):
        self.run_page(path)

    test.__doc__ = "The examples of doc/%s." % os.path.relpath(path, DOC)
    return test


for _path in PAGES:
    setattr(ManualExamples, "test_" + os.path.relpath(_path, DOC)[:-4].replace(os.sep, "_"), _test_of(_path))


class DocstringExamples(Examples):
    def test_docstrings(self):
        count = 0
        for path in sorted(glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)):
            if os.sep + "tests" + os.sep in path or ">>> " not in read(path):
                continue
            name = os.path.relpath(path, ROOT)[:-3].replace(os.sep, ".").removesuffix(".__init__")
            for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name):
                count += len(test.examples)
                with self.subTest(test.name):
                    self.check(test)
        self.assertGreater(count, 40)
