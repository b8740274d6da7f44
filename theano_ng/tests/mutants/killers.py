"""Who notices a mutant: tests, the examples of rules, and whatever else registers itself here.

A case is the text ``killer name``. `killer` is a key of `KILLERS`, whose `run` gets the name.
"""

import importlib
import unittest
import unittest.mock


class Tests:
    """Methods of test classes."""

    def cases(self, module):
        """Names of the tests of a module."""
        suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module))
        return [test.id() for test in _flat(suite) if not isinstance(test, unittest.loader._FailedTest)]

    def run(self, name):
        """None when the test passes, else what it says; "skipped" is no failure."""
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
    """Name -> the rules of the host that have it."""
    from theano_ng.audit.rewrites import registered

    found = {}
    for one in registered():
        found.setdefault(one.name, []).append(one)
    return found


class RuleExamples:
    """The examples in the docstring of one rule: a part of one test, which takes a hundredth of its time."""

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
        """None when the tests of all examples pass with the examples of this rule alone."""
        from theano_ng.tests import test_rule_examples

        rules = _rules()[name]
        with unittest.mock.patch.object(test_rule_examples, "registered", lambda: rules):
            return Tests().run(self.tests[0]) or Tests().run(self.tests[1])


class RuleOracle:
    """The audit's verdict about one rule: graphs on which it may apply are computed before and after it."""

    def cases(self, module):
        return sorted(_rules()) if module == RuleExamples.module else []

    def run(self, name):
        """None unless the rule is wrong, on few graphs."""
        from theano_ng.audit.rewrites import QUICK, judge

        findings = [found for rule in _rules()[name] for found in judge(rule, QUICK).findings]
        return "%s of %s" % (findings[0].difference.kind, findings[0].text) if findings else None


class Registration:
    """Checks of the registrations of rules. They need a new process, since other tests register more rules.

    ``rules``: the rules of the package are registered as its own. ``registrations``: they have the names, positions, tags and tracks of a table.
    """

    modules = {"theano_ng.gof.tests.test_own": "rules", "theano_ng.tests.test_registered_rules": "registrations"}

    def cases(self, module):
        return [self.modules[module]] if module in self.modules else []

    def run(self, name):
        """None when graphs can be cached; when all is as in the table."""
        from theano_ng.audit.rewrites.registry import load_all
        from theano_ng.gof import optdb
        from theano_ng.tests import test_registered_rules

        load_all()
        if name == "registrations":
            return test_registered_rules.difference()
        return "a rule is registered as foreign" if optdb.has_foreign_rules() else None


KILLERS = {"test": Tests(), "example": RuleExamples(), "oracle": RuleOracle(), "own": Registration()}


def cases_of(module):
    """All cases of a test module."""
    return ["%s %s" % (kind, name) for kind, killer in KILLERS.items() for name in killer.cases(module)]


def run(case):
    """Run a case; None, or what is wrong."""
    kind, _, name = case.partition(" ")
    try:
        return KILLERS[kind].run(name)
    except Exception as error:  # what is changed may be what makes a case
        return "%s: %s" % (type(error).__name__, str(error)[:200])
