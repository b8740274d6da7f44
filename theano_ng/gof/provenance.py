"""A test that determines if a class, function or Op belongs to this package.

Some code relies on facts that are known only for the package's own classes and functions: for example, that an Op
checks its arguments before it changes anything, or that a rewrite depends on nothing but the graph. The test considers
the class itself: a user's subclass of a class of this package does not belong to the package.
"""

import functools
import sys

_PACKAGE = __name__.split(".")[0] + "."


def is_from_package(thing):
    """Return True if a class or function is defined in this package. The package's tests do not count.

    Parameters
    ----------
    thing : type or function

    Returns
    -------
    bool
    """
    return _is_own_module(getattr(thing, "__module__", None))


@functools.lru_cache(None)
def _is_own_module(name):
    name = (name or "") + "."
    return name.startswith(_PACKAGE) and ".tests." not in name


def is_registered_by_package():
    """Return True if code of this package requested the registration that the caller of this function performs.

    Modules with a true global ``REGISTERS_FOR_CALLERS`` contain functions that register objects for their callers. The
    search for the code that requested the registration skips the stack frames of these modules. The package's tests do
    not count as its code.

    Returns
    -------
    bool
    """
    frame, skipped = sys._getframe(1), None
    while frame.f_code.co_name != "<module>":
        if frame.f_globals is not skipped:
            if not frame.f_globals.get("REGISTERS_FOR_CALLERS"):
                break
            skipped = frame.f_globals
        frame = frame.f_back
    return _is_own_module(frame.f_globals.get("__name__"))
