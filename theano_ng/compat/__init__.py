"""Names that old code imports to support several versions of Python. Each name has its value for Python 3."""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping, ValuesView
from functools import partial
from io import BytesIO, StringIO
from itertools import combinations, product
from operator import truediv as operator_div

from theano_ng.misc.ordered_set import OrderedSet

PY3 = True

izip = zip
imap = map
ifilter = filter
xrange = range
unicode = str


def cmp(x, y):
    """Return a negative, zero or positive number if x is less than, equal to or greater than y."""
    return (x > y) - (x < y)


def exc_message(e):
    """Return the message of an exception: its only argument, or the tuple of its arguments."""
    return e.args[0] if len(e.args) == 1 else e.args


def get_unbound_function(unbound):
    """Return the function of a method that was looked up on its class."""
    return getattr(unbound, "__func__", unbound)


def decode(x):
    """Decode bytes as UTF-8."""
    return x.decode()


def decode_iter(itr):
    """Return an iterator that decodes each bytes object of an iterable as UTF-8."""
    return (x.decode() for x in itr)


def decode_with(x, encoding):
    """Decode bytes in the given encoding."""
    return x.decode(encoding)


def reraise(ty, value=None, tb=None):
    """Raise an exception of class `ty` again, with the traceback `tb`."""
    if value is None:
        value = ty()
    elif not isinstance(value, BaseException):
        value = ty(value)
    raise value.with_traceback(tb)


class DefaultOrderedDict(OrderedDict):
    """An OrderedDict with a default factory.

    Parameters
    ----------
    default_factory : callable, optional
        The function that returns the value of a missing key.
    *args, **kwargs
        Arguments of `dict`.
    """

    def __init__(self, default_factory=None, *args, **kwargs):
        if default_factory is not None and not callable(default_factory):
            raise TypeError("first argument must be callable, not %r" % (default_factory,))
        self.default_factory = default_factory
        super().__init__(*args, **kwargs)

    def __missing__(self, key):
        if self.default_factory is None:
            raise KeyError(key)
        value = self[key] = self.default_factory()
        return value

    def __reduce__(self):
        return type(self), (self.default_factory,), None, None, iter(self.items())

    def copy(self):
        """Return a shallow copy."""
        return type(self)(self.default_factory, self)

    __copy__ = copy


__all__ = [
    "BytesIO",
    "Callable",
    "Counter",
    "DefaultOrderedDict",
    "Iterable",
    "Mapping",
    "MutableMapping",
    "OrderedDict",
    "OrderedSet",
    "PY3",
    "StringIO",
    "ValuesView",
    "cmp",
    "combinations",
    "decode",
    "decode_iter",
    "decode_with",
    "defaultdict",
    "deque",
    "exc_message",
    "get_unbound_function",
    "ifilter",
    "imap",
    "izip",
    "operator_div",
    "partial",
    "product",
    "reraise",
    "unicode",
    "xrange",
]
