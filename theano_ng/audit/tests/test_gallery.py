"""Tests that every error in the Python galleries is found under its name, and that nothing is found in the twins."""

import logging
import unittest

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.audit import audit
from theano_ng.audit.names import NAMES
from theano_ng.audit.records import Case
from theano_ng.audit.tests import gallery, gallery_c, gallery_rules
from theano_ng.audit.value_checks import Reader
from theano_ng.compile.debugmode import DebugMode

PYTHON = gallery.GALLERY + gallery_rules.GALLERY


def run_in_debugmode(case):
    """Compile and call a function of a case in DebugMode."""
    inputs = [T.TensorType(value.dtype, (False,) * value.ndim)() for value in case.inputs]
    mode = DebugMode(optimizer=None, check_preallocated_output="ALL", stability_patience=1)
    outputs = case.op(*inputs)
    if isinstance(outputs, list):
        outputs = [*outputs, Reader()(*outputs)]
    f = theano.function(inputs, outputs, mode=mode, accept_inplace=True)
    for _ in range(2):
        f(*case.inputs)


def raised(function, *args):
    """Call a function; return the class name and the message of its exception, or (None, "") if it raises nothing."""
    try:
        function(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return None, ""


def found(case, check, **options):
    """Run a check of the audit on a case; return the names of the errors and the verdicts."""
    report = audit(case, checks=[check], max_examples=10, **options)
    return sorted({finding.error for finding in report.findings}), report.verdicts


class Galleries(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        logging.disable(logging.ERROR)  # hide messages of the rewriter about wrong rewrites
        self.addCleanup(logging.disable, logging.NOTSET)

    def check(self, entries):
        wrong = {}
        for entry in entries:
            names, evidence = self.names(entry, entry.case, entry.run)
            if names != [entry.error]:
                wrong[entry.name] = names, str(evidence)[:800]
        self.assertEqual(wrong, {})

    def check_twins(self, entries):
        wrong = {}
        tried = set()
        for entry in entries:
            if entry.twin is not None:
                twin = entry.twin()
                key = twin.name, str([(v.dtype, v.shape, v.strides) for v in twin.inputs]), entry.check
                if key in tried:
                    continue
                tried.add(key)
            names, evidence = self.names(entry, entry.twin, entry.run_twin)
            if names:
                wrong[entry.name] = names, str(evidence)[:800]
        self.assertEqual(wrong, {})

    def check_all_of(self, table, leaks):
        """Run all checks except the sanitizers on correct Ops. `check_twins` runs the sanitizers."""
        for cls, args in table.items():
            report = audit(
                Case(cls(*args), cls.EXAMPLES, vary=("dtype", "length", "layout", "content")),
                max_examples=5,
                sanitize=False,
                leaks=leaks,
            )
            self.assertEqual([str(finding)[:2000] for finding in report.findings], [], cls.__name__)

    @staticmethod
    def names(entry, make, run):
        """Return the names, and a description, of the errors that are found in a gallery entry or in its twin."""
        if entry.found_by == "audit":
            return found(make(), entry.check)
        name, text = raised(run) if run is not None else raised(run_in_debugmode, make())
        return [name] * (name is not None), text


class TestPython(Galleries):
    def test_debugmode_finds_them(self):
        self.check([entry for entry in PYTHON if entry.found_by != "audit"])

    def test_audit_finds_them(self):
        self.check([entry for entry in PYTHON if entry.found_by == "audit"])

    def test_twins_pass(self):
        self.check_twins([entry for entry in PYTHON if entry.found_by != "audit"])

    def test_right_ones_pass_everything(self):
        self.check_all_of(gallery.RIGHT, leaks=False)
        report = audit(Case(gallery_rules.Twice(), [(gallery_rules.Text(), "ab")]))
        self.assertEqual([str(finding)[:2000] for finding in report.findings], [])


class TestTable(unittest.TestCase):
    def test_size_and_names(self):
        entries = PYTHON + gallery_c.GALLERY
        self.assertGreaterEqual(len(entries), 100)
        self.assertEqual(len({entry.name for entry in entries}), len(entries))
        self.assertEqual(
            [entry.name for entry in entries if entry.found_by == "audit" and entry.error not in NAMES], []
        )

    def test_every_twin_is_among_the_right_ones(self):
        right = {gallery_rules.Twice, *gallery.RIGHT, *gallery_c.RIGHT}
        self.assertEqual(
            [
                entry.name
                for entry in PYTHON + gallery_c.GALLERY
                if entry.found_by == "audit" and type(entry.twin().op) not in right
            ],
            [],
        )


if __name__ == "__main__":
    unittest.main()
