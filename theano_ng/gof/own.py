"""Which classes, functions and Ops belong to this package.

What the package knows of its own code, it does not know of a user's: that an Op checks its arguments before it changes anything, that rewriting
depends on nothing but the graph. A class asks for itself: a user's subclass of one of the package's is the user's.
"""

_PACKAGE = __name__.split(".")[0] + "."


def is_own(thing):
    """Whether a class or function is defined in this package; its tests are not part of it.

    Parameters
    ----------
    thing : type or function

    Returns
    -------
    bool
    """
    module = (getattr(thing, "__module__", None) or "") + "."
    return module.startswith(_PACKAGE) and ".tests." not in module
