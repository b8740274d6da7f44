"""Decorators that divide long tests into parts. The parts run and fail separately."""

import functools


def parts(count):
    """Return a decorator for a test that is called with numbers below `count`; `split_tests` makes a test of each."""

    def decorate(test):
        test.parts = count
        return test

    return decorate


def split_tests(case):
    """Replace the tests of a class that have `parts` by one test for each part."""
    for name, test in list(vars(case).items()):
        if hasattr(test, "parts"):
            delattr(case, name)
            for part in range(test.parts):
                setattr(case, "%s_%d" % (name, part), _of_part(test, part))
    return case


def _of_part(test, part):
    @functools.wraps(test)
    def run(self):
        return test(self, part)

    return run
