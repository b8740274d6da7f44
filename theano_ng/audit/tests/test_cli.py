"""Tests of the command theano_ng-audit: targets, inputs, exit codes, files."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from xml.etree import ElementTree

import numpy as np

from theano_ng import tensor
from theano_ng.audit import resolve
from theano_ng.audit.cli import main
from theano_ng.audit.driver import CHECKS
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, Op

DOUBLE = "theano_ng.misc.doubleop:DoubleOp"

FILE = '''
import numpy as np
from theano_ng import gof, tensor
from theano_ng.audit import Case
from theano_ng.misc.doubleop import DoubleOp


class Hashes(DoubleOp):
    """Equal to the others, with another hash."""

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return id(self)


def audit_cases():
    return [(Hashes(), [np.arange(3.)]), Case(DoubleOp(), [tensor.dvector], name="right")]


def one_case():
    return Case(DoubleOp(), [tensor.dmatrix], name="one")


double = DoubleOp()
number = 3
'''


class NeedsAxis(Op):
    __props__ = ("axis",)

    def __init__(self, axis):
        self.axis = axis


class TakesVectorAndIndex(Op):
    __props__ = ()

    def make_node(self, x, i):
        x, i = tensor.as_tensor_variable(x), tensor.as_tensor_variable(i)
        if x.ndim != 1 or i.ndim != 0 or i.dtype != "int64" or x.dtype != "int64":
            raise TypeError("a vector and an index")
        return Apply(self, [x, i], [x.type()])


def twice(x):
    return x * 2


def interrupt(report):
    raise KeyboardInterrupt


def run(*arguments):
    """Run the command; return its exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return code, out.getvalue(), err.getvalue()


class TestInputs(unittest.TestCase):
    def test_values_and_types(self):
        array, flat, vector, scalar, matrix, number, given, flag = resolve.parse_inputs(
            "float64(3,4), int8 ( 5 ,), dvector,complex64, matrix, 2, [[1.5, 2], [3, 4]], bool(2)", seed=3
        )
        self.assertEqual((array.dtype, array.shape), (np.float64, (3, 4)))
        self.assertGreater(len(np.unique(array)), 10)
        self.assertEqual((flat.dtype, flat.shape), (np.int8, (5,)))
        self.assertEqual((vector, matrix), (tensor.dvector, tensor.TensorType(config.floatX, (False, False))))
        self.assertEqual((scalar.dtype, scalar.shape), (np.complex64, ()))
        self.assertEqual((number.shape, int(number)), ((), 2))
        np.testing.assert_array_equal(given, [[1.5, 2], [3, 4]])
        self.assertEqual(flag.dtype, bool)
        np.testing.assert_array_equal(array, resolve.parse_inputs("float64(3,4)", seed=3)[0])
        self.assertEqual(resolve.parse_inputs(""), [])

    def test_refused(self):
        for text, named in (
            ("float63(3)", "float63"),
            ("float64(3,4", "brackets"),
            ("dot", "'dot'"),
            ("matrix(3)", "matrix"),
            ("float64(a)", "float64"),
        ):
            with self.assertRaisesRegex(resolve.UsageError, named):
                resolve.parse_inputs(text)

    def test_guessed(self):
        self.assertEqual(resolve.guess_types(tensor.dot), [tensor.matrix().type] * 2)
        self.assertEqual(resolve.guess_types(TakesVectorAndIndex()), [tensor.lvector, tensor.lscalar])
        self.assertEqual(resolve.guess_types(twice), [tensor.matrix().type])
        self.assertIsNone(resolve.guess_types(NeedsAxis(0)))


class TestTargets(unittest.TestCase):
    def test_objects(self):
        (case,) = resolve.cases_of(DOUBLE)
        self.assertEqual((case.name, [str(t) for t in case.inputs]), ("DoubleOp", [str(tensor.matrix().type)]))
        (case,) = resolve.cases_of(DOUBLE, "dvector")
        self.assertEqual(case.inputs, (tensor.dvector,))
        (case,) = resolve.cases_of(__name__ + ":twice", "float32(2)")
        self.assertIs(case.op, twice)
        (case,) = resolve.cases_of(DOUBLE.replace(":", "."))
        self.assertEqual(case.name, "DoubleOp")

    def test_errors(self):
        for target, words in (
            ("no_such_package.module:Op", "there is no module 'no_such_package.module'"),
            ("theano_ng.misc.doubleop:Nothing", "has no attribute 'Nothing'; it has DoubleOp"),
            ("theano_ng.misc.doubleop", "no function audit_cases.*for example, use theano_ng.misc.doubleop:DoubleOp"),
            ("nowhere.py", "there is no file"),
            (__name__ + ":NeedsAxis", "cannot be created without arguments.*Name an instance"),
            (__name__ + ":FILE", "neither an Op, nor a class"),
            ("", "there is no module ''"),
        ):
            with self.assertRaisesRegex(resolve.UsageError, "(?s)" + words):
                resolve.cases_of(target)


class TestProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "cases_of_test_cli.py")
        with open(self.file, "w") as file:
            file.write(FILE)
        self.addCleanup(sys.modules.pop, "cases_of_test_cli", None)
        self.addCleanup(lambda: folder.name in sys.path and sys.path.remove(folder.name))

    def test_clean(self):
        code, out, err = run(DOUBLE, "--checks", "props,maps", "--inputs", "dvector")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(
            out,
            r"^DoubleOp\n  check  verdict .*\n.*\n  props  ok .*\n  maps   ok .*\n"
            r"\n1 case, 2 checks \(0 skipped\), no findings in ",
        )

    def test_file(self):
        json_file, junit_file = os.path.join(self.folder, "r.json"), os.path.join(self.folder, "r.xml")
        code, out, _ = run(
            self.file, "--checks=props,maps", "--json", json_file, "--junit", junit_file, "--processes=2"
        )
        self.assertEqual(code, 1)
        self.assertIn("BadHash", out)
        with open(json_file) as file:
            document = json.load(file)
        self.assertEqual(
            [(r["case"], r["ok"]) for r in document["reports"]],
            [(document["reports"][0]["case"], False), ("right", True)],
        )
        suites = ElementTree.parse(junit_file).getroot()
        self.assertEqual([suite.get("failures") for suite in suites], ["1", "0"])
        # The target `Hashes` is one class of Ops in the file. The function `audit_cases` of the file gives its case.
        code, out, _ = run(self.file + ":Hashes", "--checks=props", "-q")
        self.assertEqual((code, "verdict" in out, "BadHash" in out), (1, False, True))
        code, out, _ = run(self.file + ":one_case", self.file + ":double", "--checks=maps", "--json=-")
        self.assertEqual((code, [r["case"] for r in json.loads(out)["reports"]]), (0, ["one", "right"]))

    def test_reports_come_as_they_are_ready(self):
        from theano_ng.audit.cli import audit_all

        cases = [case for target in (self.file, self.file + ":one_case") for case in resolve.cases_of(target)]
        for processes in (1, 2):
            seen = []
            reports = audit_all(
                cases, {"checks": "maps"}, processes, quiet=True, done=lambda report: seen.append(report)
            )
            self.assertEqual(seen, reports)
            self.assertEqual([report.case for report in reports], [case.name for case in cases])
        with self.assertRaises(KeyboardInterrupt):  # the interrupt comes before the second case runs
            audit_all(cases, {"checks": "maps"}, quiet=True, done=interrupt)

    def test_usage(self):
        for arguments, words in (
            ([], "no target was given"),
            (["--frobnicate"], "--frobnicate"),
            ([DOUBLE, "--checks", "prop"], "there is no check 'prop'; the checks are: make_node"),
            ([DOUBLE, "--inputs", "dvector, dvector"], "refuses the example inputs"),
            ([DOUBLE, "--inputs", "vektor"], "'vektor' is not a valid input"),
            ([DOUBLE, "--examples", "-1"], "--examples is -1"),
            ([DOUBLE, "--processes", "0"], "--processes is 0"),
            ([DOUBLE, "--time", "0"], "--time is 0"),
            ([DOUBLE, DOUBLE, "--inputs", "dvector"], "--inputs needs exactly one target"),
            ([self.file, "--inputs", "dvector"], "--inputs applies to one Op"),
            ([self.file + ":number"], "neither an Op"),
            ([DOUBLE, "--checks=maps", "--junit", os.path.join(self.folder, "no", "where.xml")], "cannot be written"),
        ):
            code, _, err = run(*arguments)
            self.assertEqual(code, 2, arguments)
            self.assertIn(words, err)

    def test_help_and_list(self):
        code, out, _ = run("--list-checks")
        self.assertEqual((code, [line.split()[0] for line in out.splitlines()]), (0, [check.name for check in CHECKS]))
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        for option in "--inputs --checks --no-sanitizer --no-leaks --examples --seed --time --json --junit --list-checks --processes".split():
            self.assertIn(option, out)


if __name__ == "__main__":
    unittest.main()
