"""Killers, which detect mutants: tests, examples of rules, the audit of rules, and checks of registrations.

A case is the string ``killer name``. `killer` is a key of `KILLERS`. The method `run` of this killer gets the name.
"""

import importlib
import unittest
import unittest.mock


class Tests:
    """A killer that runs methods of test classes."""

    def cases(self, module):
        """Return the names of the tests of a module."""
        suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module))
        return [test.id() for test in _flat(suite) if not isinstance(test, unittest.loader._FailedTest)]

    def run(self, name):
        """Run a test. Return None if it passes or is skipped, or the last line of its error report otherwise."""
        result = unittest.TestResult()
        result.failfast = True
        unittest.defaultTestLoader.loadTestsFromName(name).run(result)
        bad = [*result.errors, *result.failures, *((t, "passes") for t in result.unexpectedSuccesses)]
        return next((line for line in reversed(bad[0][1].splitlines()) if line.strip()), "")[:200] if bad else None


def _flat(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from _flat(part)
        else:
            yield part


def _rules():
    """Return a dict from the name of a rule to the rules of the host that have this name."""
    from theano_ng.audit.rewrites import registered

    found = {}
    for one in registered():
        found.setdefault(one.name, []).append(one)
    return found


class RuleExamples:
    """A killer that runs the examples in the docstring of one rule, because the examples of all rules take long."""

    module = "theano_ng.tests.test_rule_examples"
    tests = (
        "theano_ng.tests.test_rule_examples.TestExamples.test_every_rule_has_examples_that_hold",
        "theano_ng.tests.test_rule_traces.TestTraces.test_every_rule_has_examples_that_hold",
    )

    def cases(self, module):
        if module != self.module:
            return []
        from theano_ng.tests.test_rule_examples import NOT_EXECUTED

        return sorted(set(_rules()) - set(NOT_EXECUTED))

    def run(self, name):
        """Run the tests of examples with the examples of one rule only. Return None if the tests pass, or a message."""
        from theano_ng.tests import test_rule_examples

        rules = _rules()[name]
        with unittest.mock.patch.object(test_rule_examples, "registered", lambda: rules):
            return Tests().run(self.tests[0]) or Tests().run(self.tests[1])


class RuleOracle:
    """A killer that audits one rule: it computes graphs before and after the rule, and compares the results."""

    def cases(self, module):
        return sorted(_rules()) if module == RuleExamples.module else []

    def run(self, name):
        """Audit a rule on few graphs. Return None if it is correct, or a message if it is wrong."""
        from theano_ng.audit.rewrites import QUICK, judge

        findings = [found for rule in _rules()[name] for found in judge(rule, QUICK).findings]
        return "%s of %s" % (findings[0].difference.kind, findings[0].text) if findings else None


class Registration:
    """A killer that checks the registrations of rules in a new process, because other tests register more rules.

    The case ``rules`` checks that all registered rules belong to the package. The case ``registrations`` checks that
    the rules have the names, positions, tags and tracks of a table.
    """

    modules = {"theano_ng.gof.tests.test_provenance": "rules", "theano_ng.tests.test_registered_rules": "registrations"}

    def cases(self, module):
        return [self.modules[module]] if module in self.modules else []

    def run(self, name):
        """Run a check. Return None if it passes, or a message if it fails."""
        from theano_ng.audit.rewrites.registry import load_all
        from theano_ng.gof import optdb
        from theano_ng.tests import test_registered_rules

        load_all()
        if name == "registrations":
            return test_registered_rules.difference()
        return "a rule is registered as foreign" if optdb.has_foreign_rules() else None


KILLERS = {"test": Tests(), "example": RuleExamples(), "oracle": RuleOracle(), "own": Registration()}


def cases_of(module):
    """Return all cases of a test module."""
    return ["%s %s" % (kind, name) for kind, killer in KILLERS.items() for name in killer.cases(module)]


def run(case):
    """Run a case. Return None if it passes, or a message if it fails."""
    kind, _, name = case.partition(" ")
    try:
        return KILLERS[kind].run(name)
    except Exception as error:  # changed code may raise before the test begins
        return "%s: %s" % (type(error).__name__, str(error)[:200])
