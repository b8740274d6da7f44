"""Long tests in parts, which are run, and fail, one by one."""

import functools


def parts(count):
    """Decorate a test that is called with each number below `count`; `in_parts` makes a test of each call."""

    def decorate(test):
        test.parts = count
        return test

    return decorate


def in_parts(case):
    """Decorate a class of tests of which some have `parts`."""
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
