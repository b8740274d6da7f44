"""Tests of mutation testing: mutants change the program, marks record lines that ran, weak tests catch few mutants."""

import ast
import json
import os
import shutil
import sys
import tempfile
import types
import unittest

from theano_ng.tests.mutants import c_changes, campaign, marks, python_changes, reach, sample, table
from theano_ng.tests.mutants.equivalents import EQUIVALENT
from theano_ng.tests.mutants.records import PACKAGE, read

PLANTED = '''\
"""A module with a function."""


def limited(values, low, high):
    if low > high or not values:
        return None
    return [low if value < low else min(value, high) for value in values]
'''
STRONG = """\
import unittest
from planted import limited

class TestLimited(unittest.TestCase):
    def test_values(self):
        self.assertEqual(limited([1, 2, 3, 4], 2, 3), [2, 2, 3, 3])
        self.assertEqual(limited([1, 2], 2, 2), [2, 2])
        self.assertEqual(limited([1], 3, 2), None)
        self.assertEqual(limited([], 1, 2), None)
"""
WEAK = STRONG.replace("self.assertEqual(", "print(")


def news(text, changes):
    """Return (kind, old code, new code) of all mutants of source code."""
    return {(m.kind, m.old, m.new) for m in changes("some", text.encode())}


class TestPythonChanges(unittest.TestCase):
    def check(self, text, *expected):
        found = news(text, python_changes.changes)
        for change in expected:
            self.assertIn(change, found)

    def test_conditions(self):
        self.check(
            "def f(a, b):\n    if a and b < 2:\n        return a\n",
            ("drop condition", "a and b < 2", "(a)"),
            ("drop condition", "a and b < 2", "(b < 2)"),
            ("and, or", "a and b < 2", "((a) or (b < 2))"),
            ("negate condition", "a and b < 2", "not (a and b < 2)"),
            ("force condition", "a and b < 2", "False"),
            ("comparison", "b < 2", "b <= 2"),
            ("off by one", "2", "3"),
            ("return", "a", "None"),
        )

    def test_calls_and_operators(self):
        self.check(
            "def f(a, b):\n    g(a, b, axis=1)\n    return a - b, any(x[1:a])\n",
            ("swap arguments", "a, b", "b, a"),
            ("drop argument", "g(a, b, axis=1)", "g(a, b)"),
            ("drop statement", "g(a, b, axis=1)", "pass"),
            ("operator", "a - b", "((a) + (b))"),
            ("swap operands", "a - b", "((b) - (a))"),
            ("any, all, min, max", "any", "all"),
            ("off by one", "a", "((a) + 1)"),
        )

    def test_tags_have_no_order(self):
        text = "def f(db, rule):\n    db.register('a', rule, 'one', 'two')\n"
        swapped = {change for change in news(text, python_changes.changes) if change[0] == "swap arguments"}
        self.assertEqual({new for _, _, new in swapped}, {"rule, 'a'", "'one', rule"})

    def test_rules_return_their_first_input(self):
        self.check(
            "def rule(node):\n    return [f(node)]\n",
            ("return first input", "[f(node)]", "[node.inputs[0]]"),
            ("return", "[f(node)]", "False"),
        )

    def test_errors_and_names_are_left_alone(self):
        text = "def f(a):\n    raise ValueError('no %d' % (a + 1))\n\ndef __repr__(self):\n    return self.a + 1\n"
        self.assertEqual(news(text, python_changes.changes), set())

    def test_mutants_of_the_package_are_other_programs_of_as_many_lines(self):
        path = "tensor/opt/reshape.py"
        source = read(path)
        mutants = python_changes.changes(path, source)
        valid = [m for m in mutants[::9] if python_changes.is_another_program(m, source)]
        self.assertGreater(len(valid), 0.9 * len(mutants[::9]))
        for mutant in valid:
            changed = mutant.apply(source)
            self.assertEqual(changed.count(b"\n"), source.count(b"\n"))
            self.assertNotEqual(ast.dump(ast.parse(changed)), ast.dump(ast.parse(source)))
            self.assertIn("\n+", mutant.diff(source))

    def test_keys_stay_when_the_text_around_the_function_changes(self):
        before, after = (
            {m.key for m in python_changes.changes("some", text.encode())}
            for text in (PLANTED, "import os\n\n" + PLANTED)
        )
        self.assertEqual(before, after)
        self.assertEqual(len(before), len(python_changes.changes("some", PLANTED.encode())))

    def test_keys_stay_when_comments_docstrings_and_line_breaks_change(self):
        plain = "def f(a, b):\n    if a and 'é' in b:\n        g(a, [1, b + 1])\n"
        worded = (
            '"""A docstring."""\n\n\ndef f(a, b):\n    """What it does."""\n    # é why\n    if a and \'é\' in b:  # and why\n'
            "        g(a, [1,  # one\n              b +\n              1])\n"
        )
        before, after = ([m.key for m in python_changes.changes("some", t.encode())] for t in (plain, worded))
        self.assertEqual(before, after)
        other = [m.key for m in python_changes.changes("some", plain.replace("+ 1", "+ 2").encode())]
        self.assertFalse(set(before) & set(other))


class TestCChanges(unittest.TestCase):
    text = """\
#include "native.h"
#define TWICE(T) static T twice_##T(T x) { return x + x; }
struct pair { int a, b; };
static const int table[] = {1, 2};

static int f(int n, const int *x)
{
    int sum = 0; /* n < 1 */
    for (int i = 0; i < n; ++i)
        sum += g(i, x[i]);
    if (n > 1 && sum != 2)
        sum = -1;
    if (PyErr_Format(NULL, "%d", 1) == NULL)
        return -1;
    return sum * 2;
}
"""

    def test_functions(self):
        self.assertEqual([f.name for f in c_changes.functions(self.text)], ["TWICE", "f"])

    def test_keys_stay_when_comments_and_line_breaks_change(self):
        worded = self.text.replace("/* n < 1 */", "/* Another\n * remark */").replace(
            "n > 1 && sum", "n > 1 // why\n && sum"
        )
        before, after = ([m.key for m in c_changes.changes("some", t.encode())] for t in (self.text, worded))
        self.assertEqual(before, after)
        other = [m.key for m in c_changes.changes("some", self.text.replace("sum * 2", "sum * 3").encode())]
        self.assertFalse(set(before) & set(other) - set(before[:2]))

    def test_changes(self):
        found = news(self.text, c_changes.changes)
        for change in [
            ("operator", "+", "-"),
            ("operator", "<", "<="),
            ("operator", "++", "--"),
            ("operator", "+=", "-="),
            ("off by one", "0", "1"),
            ("swap arguments", "i, x[i]", "x[i], i"),
            ("drop statement", "sum = -1", ""),
            ("drop statement", "sum += g(i, x[i])", ""),
            ("force condition", "n > 1 && sum != 2", "0"),
            ("negate condition", "n > 1 && sum != 2", "!(n > 1 && sum != 2)"),
            ("drop condition", "n > 1", "1"),
            ("return", "sum * 2", "0"),
        ]:
            self.assertIn(change, found)

    def test_comments_types_and_failures_of_allocation_are_left_alone(self):
        lines = {m.line for m in c_changes.changes("some", self.text.encode())}
        self.assertEqual(lines & {1, 3, 4}, set())
        failures = {m.kind for m in c_changes.changes("some", self.text.encode()) if m.line == 13}
        self.assertEqual(failures, {"operator"})  # only the operator of the comparison is changed

    def test_mutants_of_the_package_change_what_they_say(self):
        for path in ("tensor/native/sorting/sort.c", "tensor/native/common/strided.h"):
            source = read(path)
            for mutant in c_changes.changes(path, source):
                self.assertEqual(source[mutant.start : mutant.end].decode(), mutant.old)
                self.assertEqual(mutant.apply(source).count(b"\n"), source.count(b"\n"))
                self.assertNotEqual(mutant.old.split(), mutant.new.split())


class TestMarks(unittest.TestCase):
    def test_python(self):
        source = PLANTED.encode()
        tree = marks._marked_python(source, 0)
        names = {marks.PYTHON_NAME: bytearray(20)}
        exec(compile(tree, "planted", "exec"), names)
        self.assertEqual(names["limited"]([], 1, 2), None)
        spans = marks.python_spans(source)
        passed = [
            source[slice(*spans[i])].split()[0].decode() for i, mark in enumerate(names[marks.PYTHON_NAME]) if mark
        ]
        self.assertEqual(passed, ["if", "return"])
        self.assertEqual(names["limited"]([5], 1, 2), [2])

    def test_c(self):
        source = TestCChanges.text.encode()
        starts = [source[:start].rstrip().count(b"\n") for start, _ in marks.c_spans(source)]
        self.assertEqual(starts, [1, 6])  # in the macro TWICE and the function f, not in the struct and the table
        self.assertEqual(marks._marked_c(source, 7).count(b"reached_marks["), 2)

    def test_innermost(self):
        path = "tensor/opt/reshape.py"
        found, source = marks.Marks([path]), read(path)
        mutant = next(m for m in python_changes.changes(path, source) if m.kind == "return")
        span = found.spans[path][found.number(path, mutant.start) - found.first[path]]
        self.assertTrue(source[slice(*span)].startswith(b"return"))
        self.assertIsNone(found.number(path, 0))


class TestReach(unittest.TestCase):
    def test_tests_of_files_that_have_changed(self):
        """If a file has changed, each test that ran any code of the file counts as running the whole file.

        The records of unchanged files stay valid.
        """
        paths = ["tensor/opt/join.py", "tensor/opt/lift.py"]
        found = marks.Marks(paths)
        layout = [
            ["gone.py", "", 3],
            ["tensor/opt/join.py", "another text", 2],
            [paths[1], found.digests[paths[1]], len(found.spans[paths[1]])],
        ]
        tests = {"text": "", "cases": {"both": (1, [0, 4, 5]), "one": (1, [6])}}
        moved = reach._moved({"layout": layout, "imported": [5], "tests": tests}, found)
        first = found.first[paths[1]]
        self.assertEqual(moved["imported"], [first])
        self.assertEqual(moved["tests"]["cases"]["both"], (1, [*found.numbers(paths[0]), first]))
        self.assertEqual(moved["tests"]["cases"]["one"], (1, [first + 1]))


class TestSample(unittest.TestCase):
    def test_every_file_has_its_part(self):
        shares = sample.quotas({"a": 1000, "b": 100, "c": 2}, 60)
        self.assertEqual(sum(shares.values()), 60)
        self.assertEqual(shares["c"], 2)
        self.assertAlmostEqual(shares["a"] / shares["b"], 10, delta=2)
        self.assertEqual(sample.quotas({"a": 3, "b": 1}, 100), {"a": 3, "b": 1})

    def test_a_campaign_that_is_stopped_has_seen_a_part_of_every_file(self):
        shares = {"a": 100, "b": 20, "c": 4, "d": 0}
        turns = sample.turns(shares, 1)
        self.assertEqual({path: turns.count(path) for path in shares}, shares)
        for stop in (31, 62, 93):
            for path, share in shares.items():
                self.assertAlmostEqual(turns[:stop].count(path), share * stop / 124, delta=1.5)
        self.assertNotEqual(turns, sample.turns(shares, 2))

    def test_a_seed_says_all(self):
        def drawn(seed):
            return [m.key for m in sample.Drawn("tensor/opt/join.py", seed).mutants]

        self.assertEqual(drawn(1), drawn(1))
        self.assertNotEqual(drawn(1), drawn(2))
        self.assertEqual(sorted(drawn(1)), sorted(drawn(2)))


class TestTable(unittest.TestCase):
    found = {
        "1": {"path": "a.py", "kind": "return", "outcome": "caught", "case": "test x", "how": "no", "seconds": 3.0},
        "2": {
            "path": "a.py",
            "kind": "return",
            "outcome": "survived",
            "at first": "survived",
            "function": "f",
            "line": 3,
            "diff": "--- a\n+++ b\n-x\n+y\n",
        },
        "3": {
            "path": "b.c",
            "kind": "operator",
            "outcome": "caught",
            "case": "test x",
            "how": "status -11",
            "at first": "survived",
        },
    }

    def test_counts(self):
        rows = table.counted(self.found, "123")
        self.assertEqual(rows["a.py"], {"mutants": 2, "caught": 1, "survived": 1, "at first": 1})
        self.assertAlmostEqual(table.share_at_first(table.total(rows)), 1 / 3)
        self.assertAlmostEqual(table.share(table.total(rows)), 2 / 3)
        self.assertEqual(table.ways(self.found, "123"), {"test": 1, "a crash": 1})
        self.assertEqual(table.seconds(self.found, "123"), 3)
        self.assertIn(
            "   * - ``b.c``\n     - 1\n     - 0\n     - 1\n     - 0\n     - 0\n     - 100\n",
            table.table(self.found, "123"),
        )

    def test_areas(self):
        for path, name in (
            ("tensor/opt/join.py", "rules"),
            ("scan/opt/reads.py", "rules"),
            ("gof/rewriting/merge.py", "rewriting engine"),
            ("scan/array_kernel.py", "writers of kernels"),
            ("loops/blocks/steps.py", "writers of kernels"),
            ("scalar/c_code/digamma.h", "C of native Ops"),
            ("gpuarray/native/row_table.c", "devices"),
        ):
            self.assertEqual(table.area(path), name)
        self.assertEqual(set(table.counted(self.found, "123", "area")), {"rules", "C of native Ops"})

    def test_survivors(self):
        self.assertEqual(table.survivors(self.found, "123"), "2  a.py:3  f  return\n    -x\n    +y\n")

    def test_equivalents_are_no_other_programs(self):
        table.EQUIVALENT["2"] = "is the same"
        self.addCleanup(table.EQUIVALENT.pop, "2")
        self.assertEqual(table.share(table.total(table.counted(self.found, "123"))), 1)
        self.assertEqual(table.survivors(self.found, "123"), "")


class TestOrder(unittest.TestCase):
    def test_what_has_caught_most_and_what_runs_little_else_take_turns(self):
        """Trials take cases in turn from two orders: most caught mutants first, and least code of the file first."""
        places = types.SimpleNamespace(numbers=lambda path: range(4), number=lambda path, start: start)
        passed = {"test a": [0, 1, 2, 3], "test b": [0, 1, 2, 3], "test c": [0, 1, 2], "test d": [0]}
        known = reach.Reach(places, {"module": {"cases": {case: (0.5, marks) for case, marks in passed.items()}}})
        with tempfile.TemporaryDirectory() as folder:
            results = campaign.Results(os.path.join(folder, "results.jsonl"))
            results.found["1"] = {"path": "a.c", "outcome": "caught", "case": "test b"}
            trials = campaign.Campaign(known, [], os.path.join(folder, "trials"), results, budget=1.6)
            mutant = types.SimpleNamespace(path="a.c", function="f", start=0)
            self.assertEqual(trials._ordered(mutant, known.cases("a.c", 0)), ["test b", "test d", "test a", "test c"])
            self.assertEqual([case for case, _ in trials._cases(mutant)], ["test b", "test d", "test a"])


@unittest.skipUnless(sys.platform.startswith("linux"), "trials run in children by fork, under limits of Linux")
class TestTrials(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_a_weak_suite_is_noticed(self):
        for name, text in (("planted.py", PLANTED), ("strong.py", STRONG), ("weak.py", WEAK)):
            self.write(name, text)
        source = PLANTED.encode()
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [self.folder, before]))
        try:
            server = reach.Server("loaded", {"modules": ["planted", "strong", "weak"]})
        finally:
            os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
        outcomes = {"strong": {}, "weak": {}}
        with server:
            for mutant in python_changes.changes("planted.py", source):
                if python_changes.is_another_program(mutant, source):
                    install = {
                        "how": "code",
                        "module": "planted",
                        "path": self.write("changed.py", mutant.apply(source).decode()),
                    }
                    for suite in outcomes:
                        cases = [("test %s.TestLimited.test_values" % suite, 0.1)]
                        outcomes[suite][mutant.diff(source)] = server.ask(install=install, cases=cases)["outcome"]
            hangs = self.write("changed.py", PLANTED.replace("    if", "    while"))
            crashes = self.write(
                "crashes.py", PLANTED.replace("return None", "return __import__('ctypes').string_at(0)")
            )
            cases = [("test strong.TestLimited.test_values", -1.2)]
            for path, outcome in ((hangs, "survived"), (crashes, "crashed")):
                got = server.ask(install={"how": "code", "module": "planted", "path": path}, cases=cases)
                self.assertEqual(got["outcome"], outcome)
        left = [diff for diff, outcome in outcomes["strong"].items() if outcome == "survived"]
        same_numbers = ("value <= low",)
        self.assertEqual([diff for diff in left if not any(text in diff for text in same_numbers)], [])
        self.assertGreater(len(outcomes["strong"]), 14)
        self.assertLess(list(outcomes["weak"].values()).count("caught"), 0.2 * len(outcomes["weak"]))

    @unittest.skipUnless(
        os.path.exists(os.path.join(os.path.dirname(PACKAGE), "setup.py")), "C is changed in a checkout of the sources"
    )
    @unittest.skipUnless(shutil.which("gcc"), "C is changed and compiled by gcc")
    def test_a_sample_of_the_package_is_caught(self):
        paths = ["scan/opt/reads.py", "tensor/native/sorting/sort.c"]
        modules = ["scan.tests.test_opt_reads", "tensor.tests.test_sort", "tensor.tests.test_native_memory"]
        modules = ["theano_ng." + name for name in modules]
        known = reach.record(paths, modules, self.folder, say=lambda text: None)
        kept = campaign.Results(os.path.join(self.folder, "results.jsonl"))
        trials = campaign.Campaign(known, modules, os.path.join(self.folder, "trials"), kept)
        self.addCleanup(trials.close)
        tried, survivors = 0, []
        for path in paths:
            drawn = sample.Drawn(path, 1)
            for mutant in drawn.first(
                10, lambda m: drawn.is_another_program(m) and m.function and known.cases(m.path, m.start)
            ):
                tried += 1
                if trials.attempt(mutant, drawn.source)["outcome"] == "survived" and mutant.key not in EQUIVALENT:
                    survivors.append("%s\n%s" % (mutant.key, mutant.diff(drawn.source)))
        self.assertGreaterEqual(tried, 18)
        self.assertEqual(survivors, [], "\n".join(survivors))

    def test_results_are_gone_on_with(self):
        path = os.path.join(self.folder, "results.jsonl")
        mutant = python_changes.changes("planted.py", PLANTED.encode())[0]
        campaign.Results(path).keep(mutant, PLANTED.encode(), {"outcome": "survived"})
        campaign.Results(path).keep(mutant, PLANTED.encode(), {"outcome": "caught"})
        found = campaign.Results(path).found[mutant.key]
        self.assertEqual((found["outcome"], found["at first"]), ("caught", "survived"))
        with open(path) as file:
            self.assertEqual([json.loads(line)["key"] for line in file], [mutant.key] * 2)


if __name__ == "__main__":
    unittest.main()
