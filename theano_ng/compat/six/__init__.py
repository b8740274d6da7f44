"""The names of the library `six` that old code imports from here."""

import builtins
import sys
from io import BytesIO, StringIO

from theano_ng.compat import get_unbound_function, reraise
from theano_ng.moved import warn_of_former

PY2 = False
PY3 = True
MAXSIZE = sys.maxsize
string_types = (str,)
integer_types = (int,)
class_types = (type,)
text_type = str
binary_type = bytes
unichr = chr
next = advance_iterator = builtins.next
callable = builtins.callable
exec_ = builtins.exec
print_ = builtins.print
Iterator = object


def iteritems(d, **kw):
    """Return an iterator over the items of a dict."""
    return iter(d.items(**kw))


def iterkeys(d, **kw):
    """Return an iterator over the keys of a dict."""
    return iter(d.keys(**kw))


def itervalues(d, **kw):
    """Return an iterator over the values of a dict."""
    return iter(d.values(**kw))


def b(s):
    """Return the text encoded in Latin-1."""
    return s.encode("latin-1")


def u(s):
    """Return the text unchanged."""
    return s


def with_metaclass(meta, *bases):
    """Return a temporary base class. A class that inherits from it gets the metaclass `meta` and the bases `bases`."""

    class Temporary(meta):
        def __new__(cls, name, this_bases, d):
            return meta(name, bases, d)

    return type.__new__(Temporary, "temporary_class", (), {})


def add_metaclass(metaclass):
    """Return a decorator that recreates a class with a metaclass."""

    def wrapper(cls):
        body = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__")}
        for slot in cls.__dict__.get("__slots__") or ():
            body.pop(slot, None)
        return metaclass(cls.__name__, cls.__bases__, body)

    return wrapper


from theano_ng.compat.six import moves  # noqa: E402 (a submodule that old code reaches as an attribute)

__all__ = [
    "BytesIO",
    "Iterator",
    "MAXSIZE",
    "PY2",
    "PY3",
    "StringIO",
    "add_metaclass",
    "advance_iterator",
    "b",
    "binary_type",
    "callable",
    "class_types",
    "exec_",
    "get_unbound_function",
    "integer_types",
    "iteritems",
    "iterkeys",
    "itervalues",
    "moves",
    "next",
    "print_",
    "reraise",
    "string_types",
    "text_type",
    "u",
    "unichr",
    "with_metaclass",
]

warn_of_former(__name__)
