"""A test of whether a class, function or Op belongs to this package.

Some facts are known only of the package's own code: an Op checks its arguments before it changes anything; rewriting
depends on nothing but the graph. The test considers the class itself: a user's subclass of a class of this package does
not belong to the package.
"""

_PACKAGE = __name__.split(".")[0] + "."


def is_own(thing):
    """Return True if a class or function is defined in this package. The package's tests do not count.

    Parameters
    ----------
    thing : type or function

    Returns
    -------
    bool
    """
    module = (getattr(thing, "__module__", None) or "") + "."
    return module.startswith(_PACKAGE) and ".tests." not in module
