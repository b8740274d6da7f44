"""Who notices a mutant: tests, the examples of rules, and whatever else registers itself here.

A case is the text ``killer name``. `killer` is a key of `KILLERS`, whose `run` gets the name.
"""

import importlib
import unittest


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
        return bad[0][1].strip().splitlines()[-1][:200] if bad else None


def _flat(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from _flat(part)
        else:
            yield part


class RuleExamples:
    """The examples in the docstring of one rule: a part of one test, which takes a thousandth of its time."""

    module = "theano_ng.tests.test_rule_examples"

    def cases(self, module):
        if module != self.module:
            return []
        from theano_ng.tests.test_rule_examples import NOT_EXECUTED, all_rules

        return sorted({name for name, _ in all_rules().values()} - set(NOT_EXECUTED))

    def run(self, name):
        from theano_ng.tests import test_rule_examples as examples

        test = examples.TestExamples()
        test.setUp()
        try:
            for rule, (known, tags) in examples.all_rules().items():
                if known == name:
                    self._check(test, rule, name, tags)
        except Exception as error:
            return "%s: %s" % (type(error).__name__, str(error).strip()[:150])
        finally:
            test.tearDown()
        return None

    def _check(self, test, rule, name, tags):
        from theano_ng.tests.test_rule_examples import OF_INSTANCES, OTHER_NUMBERS, examples

        for before, after, listed in examples("\n".join(OF_INSTANCES[name]) if name in OF_INSTANCES else rule.__doc__):
            test.check(rule, before, after, name not in OTHER_NUMBERS)
            if listed is not None:
                test.assertEqual(set(listed), tags)


KILLERS = {"test": Tests(), "example": RuleExamples()}


def cases_of(module):
    """All cases of a test module."""
    return ["%s %s" % (kind, name) for kind, killer in KILLERS.items() for name in killer.cases(module)]


def run(case):
    """Run a case; None, or what is wrong."""
    kind, _, name = case.partition(" ")
    return KILLERS[kind].run(name)
