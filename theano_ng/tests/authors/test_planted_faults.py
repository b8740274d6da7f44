"""Tests of the planted faults: their descriptions are consistent, and their witnesses tell right from wrong."""

import ast
import collections
import contextlib
import io
import os
import textwrap
import unittest

from theano_ng.tests.authors.planted_faults import FAULTS, FOLDER, KINDS, MODULES, changed_text, main, outcome


class TestPlantedFaults(unittest.TestCase):
    def test_names(self):
        names = collections.Counter(fault.name for fault in FAULTS)
        self.assertEqual([name for name, count in names.items() if count > 1 or not name.isidentifier()], [])
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(main(["no such fault"]), 2)

    def test_kinds_and_modules(self):
        kinds = collections.Counter(fault.kind for fault in FAULTS)
        self.assertEqual(set(kinds), set(KINDS))
        self.assertGreaterEqual(min(kinds.values()), 3)
        self.assertEqual({fault.module for fault in FAULTS}, set(MODULES))
        for fault in FAULTS:
            self.assertIn(fault.file, (fault.module + ".py", fault.module + ".c"), fault.name)
            self.assertTrue(os.path.isfile(os.path.join(FOLDER, fault.file)), fault.name)
            self.assertTrue(fault.why.endswith("."), fault.name)

    def test_changes(self):
        for fault in FAULTS:
            with self.subTest(fault.name):
                self.assertNotEqual(fault.old, fault.new)
                text = changed_text(fault)  # raises an error unless `old` occurs exactly once
                if fault.file.endswith(".py"):
                    ast.parse(text)
                names = {
                    node.id
                    for node in ast.walk(ast.parse(textwrap.dedent(fault.witness)))
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                }
                self.assertIn("right", names)


@unittest.skipUnless(
    os.environ.get("THEANO_NG_ALL_WITNESSES"), "takes minutes; set THEANO_NG_ALL_WITNESSES to run all witnesses"
)
class TestWitnesses(unittest.TestCase):
    def test_witnesses(self):
        for fault in FAULTS:
            with self.subTest(fault.name):
                self.assertEqual(outcome(fault, planted=False), "right")
                self.assertNotEqual(outcome(fault, planted=True), "right")


if __name__ == "__main__":
    unittest.main()
