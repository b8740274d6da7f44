"""The examples of the manual: every page of doc/ is run, and what it shows must be what is printed."""
import doctest
import glob
import os
import sys
import unittest

import numpy as np

from theano_ng.configparser import change_flags

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOC = os.path.join(ROOT, "doc")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def read(path):
    with open(path, encoding="utf-8") as page:
        return page.read()


PAGES = [path for path in sorted(glob.glob(os.path.join(DOC, "**", "*.rst"), recursive=True))
         if not os.path.relpath(path, DOC).startswith("_build") and ">>> " in read(path)]


@unittest.skipUnless(PAGES, "doc/ is in a checkout only, not in an installed package")
class ManualExamples(unittest.TestCase):
    """One test a page."""

    def setUp(self):
        folder, path = os.getcwd(), list(sys.path)
        self.addCleanup(os.chdir, folder)
        self.addCleanup(sys.path.__setitem__, slice(None), path)
        os.chdir(ROOT)                                               # pages name files of the repository
        sys.path.insert(0, os.path.join(DOC, "tutorial", "code"))    # modules that pages show and import

    def run_page(self, path):
        report = []
        # What other tests set must not change what is printed here.
        printing = np.printoptions(precision=8, threshold=1000, linewidth=75, suppress=False, legacy=False)
        with printing, change_flags(floatX="float64"):
            test = doctest.DocTestParser().get_doctest(read(path), {"__name__": "__main__", "np": np}, path, path, 0)
            result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
        self.assertEqual(result.failed, 0, "".join(report))

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
