"""Decorators that divide long tests into parts. The parts run and fail separately."""

import functools


def parts(count):
    """Return a decorator for tests that take the number of a part. `split_tests` makes `count` tests from each."""

    def decorate(test):
        test.parts = count
        return test

    return decorate


def split_tests(case):
    """In a class, replace each test with the decorator `parts` by one test for each part."""
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
