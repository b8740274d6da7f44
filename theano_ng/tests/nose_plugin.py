"""The nose2 plugin that counts the outcomes of tests for the command theano_ng-nose."""

import time

from nose2.events import Plugin


class OutcomeCounter(Plugin):
    """A plugin that counts passed, failed and skipped tests of a run, and records the reasons of skipped tests."""

    only = None  # a string that the names of tests must contain
    configSection = "theano_ng"
    alwaysOn = True

    def __init__(self):
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.skipped = []
        self.seconds = []  # (seconds, name of the test)
        self._begun = 0.0
        self.session.theano_ng_outcomes = self

    def startTestRun(self, event):
        """Remove the tests that were not requested."""
        if self.only is None:
            return
        chosen, todo = [], [event.suite]
        while todo:
            test = todo.pop()
            if hasattr(test, "id"):
                if self.only in test.id():
                    chosen.append(test)
            else:
                todo.extend(reversed(list(test)))
        event.suite = type(event.suite)(chosen)

    def startTest(self, event):
        self._begun = time.monotonic()

    def stopTest(self, event):
        self.seconds.append((time.monotonic() - self._begun, event.test.id()))

    def setTestOutcome(self, event):
        """Count the final outcome of a test.

        A failing subtest counts as a failed test; a passing subtest does not count.
        """
        if event.outcome == "subtest" and event.exc_info is None:
            return
        if event.outcome == "passed" or (event.outcome == "failed" and event.expected):
            outcome = "passed"
        elif event.outcome == "skipped":
            outcome = "skipped"
            self.skipped.append("%s: %s" % (event.test.id(), event.reason))
        else:
            outcome = "failed"
        self.counts[outcome] += 1
