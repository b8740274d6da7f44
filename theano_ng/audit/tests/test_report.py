"""Tests of reports as text, JSON and JUnit XML, and of the progress bar."""

import io
import json
import os
import re
import unittest
from unittest import mock
from xml.etree import ElementTree

from theano_ng.audit import report
from theano_ng.audit.names import NAMES
from theano_ng.audit.progress import Progress
from theano_ng.audit.records import Finding, Report, Verdict

FINDING = Finding(
    "sanitizer",
    "AddressError",
    "Bad.c_code, line 7: `z[i] = x[i+1];`: heap-buffer-overflow: read of 8 bytes",
    ("TensorType(float64, vector) (1,) C: [0.5]", "x" * 1000),
    "READ of size 8\n" + "\n".join("    #%d <run> \x00 \u00e9" % i for i in range(40)),
    "/home/me/bad.py:12",
)
BAD = Report(
    "Bad",
    "Bad{axis=1}",
    (
        Verdict("props", "ok", 3, 0.25),
        Verdict("R_op", "skipped", 0, 0.0, (), "it has no R_op, " + "and that is all right " * 8),
        Verdict("sanitizer", "failed", 57, 2.5, (FINDING,)),
    ),
    2.75,
)
GOOD = Report("Good", "Good", (Verdict("props", "ok", 3, 0.25),), 0.25)


class TestText(unittest.TestCase):
    def test_table(self):
        text = report.format_table([BAD, GOOD], width=80)
        lines = text.split("\n")
        self.assertEqual(lines[0], "Bad: Bad{axis=1}")
        self.assertEqual(lines[3], "  props      ok              3      0.2")
        self.assertRegex(text, r"\n  sanitizer  FAILED         57      2\.5  AddressError\n")
        self.assertRegex(
            text, r"\n  R_op       skipped                0\.0  it has no R_op, and that is all right\n {41}and that "
        )
        words = re.sub(r"\s+", " ", text)
        self.assertIn(" 1. AddressError (sanitizer): " + NAMES["AddressError"] + " Bad.c_code, line 7: ", words)
        self.assertIn("\n     Bad.c_code, line 7: ", text)
        self.assertIn("\n     input 0: TensorType(float64, vector) (1,) C: [0.5]\n", text)
        self.assertIn("\n     at /home/me/bad.py:12\n     | READ of size 8\n", text)
        self.assertRegex(text, r"\\xe9\n +\| \.\.\. 17 more lines \(-v shows them\)\n")
        self.assertEqual(lines[-1], "2 cases, 4 checks (1 skipped), 1 finding in 3.0 s")
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(text.isascii())
        self.assertIn("#0 <run> \\x00", text)

    def test_verbosity(self):
        quiet = report.format_table([BAD, GOOD], width=80, verbosity=0)
        self.assertNotIn("verdict", quiet)
        self.assertNotIn("Good", quiet)
        self.assertIn("AddressError", quiet)
        self.assertIn("#39 <run>", report.format_table([BAD], width=80, verbosity=2))
        self.assertEqual(report.format_table([GOOD], verbosity=0), "1 case, 1 check (0 skipped), no findings in 0.2 s")

    def test_colour(self):
        plain, coloured = (report.format_table([BAD], width=80, colour=colour) for colour in (False, True))
        self.assertNotIn("\033", plain)
        self.assertIn("\033[31;1mFAILED\033[0m", coloured.replace("FAILED ", "FAILED"))
        terminal = mock.Mock(isatty=lambda: True)
        with mock.patch.dict(os.environ, {"TERM": "xterm"}):
            os.environ.pop("NO_COLOR", None)
            self.assertTrue(report.wants_colour(terminal))
            self.assertFalse(report.wants_colour(io.StringIO()))
            os.environ["NO_COLOR"] = "1"
            self.assertFalse(report.wants_colour(terminal))


class TestFormats(unittest.TestCase):
    def test_json(self):
        document = json.loads(json.dumps(report.to_json([BAD, GOOD])))
        self.assertEqual((document["schema"], document["tool"], document["ok"]), (2, "theano_ng-audit", False))
        self.assertEqual(
            document["summary"],
            {"cases": 2, "checks": 4, "findings": 1, "failed": 1, "skipped": 1, "errors": 0, "seconds": 3.0},
        )
        bad, good = document["reports"]
        self.assertEqual((bad["case"], bad["op"], bad["ok"], good["ok"]), ("Bad", "Bad{axis=1}", False, True))
        self.assertEqual([verdict["status"] for verdict in bad["verdicts"]], ["ok", "skipped", "failed"])
        (finding,) = bad["verdicts"][2]["findings"]
        self.assertEqual(
            finding,
            {
                "error": "AddressError",
                "meaning": NAMES["AddressError"],
                "message": FINDING.message,
                "inputs": list(FINDING.inputs),
                "evidence": FINDING.evidence,
                "location": "/home/me/bad.py:12",
                "change": "",
            },
        )
        self.assertEqual(bad["causes"], [{"check": FINDING.check, "error": "AddressError", "explains": []}])
        self.assertEqual(good["causes"], [])

    def test_junit(self):
        root = ElementTree.fromstring(report.to_junit([BAD, GOOD]).encode())
        self.assertEqual(
            (root.tag, root.get("tests"), root.get("failures"), root.get("skipped")), ("testsuites", "4", "1", "1")
        )
        bad, good = root
        self.assertEqual(
            (bad.get("name"), bad.get("tests"), bad.get("failures"), bad.get("errors"), bad.get("time")),
            ("Bad", "3", "1", "0", "2.750"),
        )
        self.assertEqual(
            [(test.get("classname"), test.get("name"), [child.tag for child in test]) for test in bad],
            [("Bad", "props", []), ("Bad", "R_op", ["skipped"]), ("Bad", "sanitizer", ["failure"])],
        )
        failure = bad[2][0]
        self.assertEqual((failure.get("type"), failure.get("message")), ("AddressError", FINDING.message))
        self.assertIn("#39 <run> ? \u00e9", failure.text)  # a character that XML does not allow is replaced
        self.assertEqual(len(good), 1)


class TestProgress(unittest.TestCase):
    def test_terminal(self):
        stream = io.StringIO()
        progress = Progress(2, stream, enabled=True)
        for index in range(2):
            progress("Bad", "props", index, 2, None)
            progress("Bad", "props", index + 1, 2, BAD.verdicts[0])
        progress("Good", "maps", 0, 2, None)
        progress.clear()
        drawn = stream.getvalue().split("\r")[1:]
        self.assertTrue(drawn[0].startswith("[....................]   0% Bad: props, 0 examples, "), drawn[0])
        self.assertTrue(drawn[4].startswith("[##########..........]  50% Good: maps, 6 examples, "), drawn[4])
        self.assertEqual((drawn[-2].strip(), drawn[-1]), ("", ""))

    def test_elsewhere(self):
        stream = io.StringIO()
        progress = Progress(1, stream)
        progress("Bad", "props", 0, 1, None)
        progress.done("Bad")
        progress.clear()
        self.assertEqual(stream.getvalue(), "")


if __name__ == "__main__":
    unittest.main()
