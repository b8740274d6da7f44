"""Utilities of the graph layer: stack traces, scratchpads, `__props__`, sequences, hashes."""

import contextlib
import gc
import linecache
import os
import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Sequence
from functools import lru_cache, wraps
from operator import attrgetter

from theano_ng.configdefaults import config

PY3 = True
integer_types = (int,)
string_types = (str,)

_package_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_internal_parts = tuple(
    _package_root + part
    for part in (
        "gof" + os.sep,
        "compile" + os.sep,
        "scalar" + os.sep,
        "tensor" + os.sep,
        "sparse" + os.sep,
        "gpuarray" + os.sep,
        "gradient.py",
        "scan" + os.sep,
        "scan_module" + os.sep,
        "typed_list" + os.sep,
        "raise_op.py",
        "ifelse.py",
    )
)
_tests_part = os.sep + "tests" + os.sep


# ---------------------------------------------------------------- stack traces


class StackTrace(Sequence):
    """The call stack at the creation of a variable or node, innermost frame last.

    The stack behaves as a tuple of ``(filename, line number, function name, source line)``. At first, only code objects
    and instruction offsets are stored. Line numbers and source lines are determined when an element is first read. The
    pickle of a stack is a plain tuple.
    """

    __slots__ = ("_raw", "_entries")

    def __init__(self, raw):
        self._raw = raw
        self._entries = None

    def _resolve(self):
        entries = self._entries
        if entries is None:
            entries = self._entries = _shared_stack(tuple([_frame_entry(code, offset) for code, offset in self._raw]))
            self._raw = None
        return entries

    def __len__(self):
        return len(self._raw if self._entries is None else self._entries)

    def __getitem__(self, i):
        return self._resolve()[i]

    def __eq__(self, other):
        if isinstance(other, (StackTrace, tuple, list)):
            return self._resolve() == tuple(other)
        return NotImplemented

    def __hash__(self):
        return hash(self._resolve())

    def __repr__(self):
        return repr(self._resolve())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return tuple, (self._resolve(),)


def _line_of(code, offset):
    """Return the line number of the instruction at byte `offset` of `code`."""
    found = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= offset < end:
            return line if line is not None else found
        if line is not None:
            found = line
    return found


# Loops that build graphs produce thousands of stacks with equal frames. The cache `_levels` lets equal frames share one
# object, which a pickle then contains only once.
_MAX_LEVELS = 4096
_levels = {}  # (id of code, offset) -> (code, frame). The reference to the code object keeps its id valid


def _frame_entry(code, offset):
    """Return the stack frame for an instruction offset in a code object."""
    key = id(code), offset
    found = _levels.get(key)
    if found is None:
        line = _line_of(code, offset)
        text = linecache.getline(code.co_filename, line).strip() or None
        if len(_levels) >= _MAX_LEVELS:
            _levels.clear()
        found = _levels[key] = code, (code.co_filename, line, code.co_name, text)
    return found[1]


@lru_cache(maxsize=1024)
def _shared_stack(levels):
    """Return `levels`, a tuple of frames. Because of the cache, equal tuples yield the same object."""
    return levels


class _Internal(dict):
    """A cache that maps a file name to True if the file belongs to the package's code that builds graphs.

    The cache is a dict for speed: each new variable looks up the innermost frames of its stack.
    """

    def __missing__(self, filename):
        path = os.path.abspath(filename)
        found = self[filename] = path.startswith(_internal_parts) and _tests_part not in path
        return found


_internal = _Internal()


def comment_text(text):
    """Return `text` as a ``//`` comment of C that does not continue in the next line.

    Parameters
    ----------
    text : str
        The names of classes and files in it may contain any characters.
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    # A backslash (or its trigraph) at the end would make the next line a part of the comment.
    return re.sub(r"(\\|\?\?/|\s)+$", "", shown)


_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


def writable(text):
    """Return `text` with a replacement character in place of each NUL and each lone surrogate.

    Names may contain these characters, but UTF-8 files cannot.
    """
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def user_stacklevel():
    """Return a `stacklevel` for a warning of the caller.

    The warning then shows the user's line that called the package.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _internal[frame.f_code.co_filename]:
        frame, level = frame.f_back, level + 1
    return level


def simple_extract_stack(f=None, limit=None, skips=[]):  # noqa: B006, the documented default; it is never changed
    """Return the current stack as a list of ``(filename, line number, function name, source line)``, innermost last.

    Parameters
    ----------
    f : frame, optional
        The innermost frame of the stack. By default, the caller's frame.
    limit : int, optional
        The number of frames to keep. None keeps all frames.
    skips : list of str
        Parts of paths. The innermost frames are dropped as long as their file name contains one of these parts. Dropped
        frames do not count toward `limit`.
    """
    if f is None:
        f = sys._getframe(1)
    levels = []
    while f is not None and (limit is None or len(levels) < limit):
        filename = f.f_code.co_filename
        if levels or not any(part in filename for part in skips):
            text = linecache.getline(filename, f.f_lineno, f.f_globals)
            levels.append((filename, f.f_lineno, f.f_code.co_name, text.strip() if text else None))
        f = f.f_back
    levels.reverse()
    return levels


def add_tag_trace(thing, user_line=None):
    """Set ``thing.tag.trace`` to the current stack and return `thing`.

    Parameters
    ----------
    thing : Variable or Apply
        The variable or node, which is changed in place.
    user_line : int, optional
        The maximum number of frames to keep. By default, `config.traceback.limit`.

    Notes
    -----
    The innermost frames are skipped if they are in this package. The trace is a list that contains one stack.
    """
    limit = config.traceback.limit if user_line is None else user_line
    if limit == 0:
        return thing
    if limit < 0:
        limit = sys.maxsize
    frame = sys._getframe(1)
    while frame is not None and _internal[frame.f_code.co_filename]:
        frame = frame.f_back
    raw = []
    while frame is not None and len(raw) < limit:
        raw.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    raw.reverse()
    thing.tag.trace = [StackTrace(raw)]
    return thing


def get_variable_trace_string(v):
    """Return the trace of a variable as text for error messages. Return an empty string if it has no trace."""
    import traceback

    traces = getattr(v.tag, "trace", None)
    if not traces:
        return ""
    parts = [" \nBacktrace when that variable is created:\n\n"]
    for trace in traces:
        # Older pickles hold a single stack instead of a list of stacks.
        stack = [trace] if isinstance(trace, tuple) and len(trace) == 4 and isinstance(trace[0], str) else trace
        parts.extend(traceback.format_list([tuple(level) for level in stack]))
    return "".join(parts)


# ---------------------------------------------------------------- exceptions


class MethodNotDefined(Exception):
    """Error: an implementation class does not define a method of an interface.

    The functions of the interface raise this error by default.
    """


# ---------------------------------------------------------------- __props__


def _no_props(self):
    return ()


def _props_getter(names):
    """Return a method that returns the values of the attributes `names` as a tuple."""
    if not names:
        return _no_props
    get = attrgetter(*names)
    if len(names) == 1:
        return lambda self: (get(self),)
    return lambda self: get(self)


def _props_dict(self):
    """Return a dict: name of a property -> its value."""
    return {name: getattr(self, name) for name in self.__props__}


def _props_hash(self):
    """Return a hash of the class's qualified name and of the properties."""
    cls = self.__class__
    return hash((cls.__module__, cls.__qualname__, self._props()))


def _props_eq(self, other):
    """Return True if the classes are identical and the properties are equal."""
    return self is other or (type(self) is type(other) and self._props() == other._props())


def _props_str(self):
    """Return ``Class{name=value, ...}``."""
    names = self.__props__
    if not names:
        return self.__class__.__name__
    return "%s{%s}" % (self.__class__.__name__, ", ".join("%s=%r" % (name, getattr(self, name)) for name in names))


class MetaObject(type):
    """A metaclass that adds methods to each class that declares ``__props__``.

    `_props()` returns the values, and `_props_dict()` a dict from names to values. ``__hash__``, ``__eq__`` and
    ``__str__`` are added unless the class body defines them. ``__str__`` is not added either if a base class defines it
    by hand.
    """

    def __new__(cls, name, bases, dct):
        props = dct.get("__props__")
        if props is not None:
            if not isinstance(props, (tuple, list)) or not all(isinstance(prop, str) for prop in props):
                raise TypeError("__props__ of %s has to be a tuple of attribute names, not %r" % (name, props))
            props = dct["__props__"] = tuple(props)
            dct["_props"] = _props_getter(props)
            dct["_props_dict"] = _props_dict
            dct.setdefault("__hash__", _props_hash)
            dct.setdefault("__eq__", _props_eq)
            if "__str__" not in dct and not _handwritten_str(bases):
                dct["__str__"] = _props_str
        return type.__new__(cls, name, bases, dct)


def _handwritten_str(bases):
    for base in bases:
        for klass in base.__mro__:
            method = klass.__dict__.get("__str__")
            if method is not None:
                if klass is not object and method is not _props_str:
                    return True
                break
    return False


class object2(metaclass=MetaObject):
    """A base class of types, Ops and nodes: `object` with support for `__props__`."""

    __slots__ = []


class scratchpad:
    """A namespace for annotations on variables and nodes."""

    def clear(self):
        """Remove all annotations."""
        self.__dict__.clear()

    def __update__(self, other):
        """Copy the annotations of another scratchpad into this scratchpad, and return self."""
        self.__dict__.update(other.__dict__)
        return self

    def __copy__(self):
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        return copy

    def __str__(self):
        return "scratchpad" + str(self.__dict__)

    def __repr__(self):
        return "scratchpad" + str(self.__dict__)

    def info(self):
        """Print all annotations."""
        print("<theano_ng.gof.utils.scratchpad instance at %i>" % id(self))
        for name, value in self.__dict__.items():
            print("  %s: %s" % (name, value))


@contextlib.contextmanager
def fewer_collections():
    """Run Python's cycle collector less often inside the context.

    Code that creates many long-lived objects would spend half of its time in collections that scan them repeatedly.
    """
    before, relaxed = gc.get_threshold(), (20000, 20, 100)
    if not 0 < before[0] < relaxed[0]:
        yield  # change nothing: the collector is disabled, or already runs less often
        return
    gc.set_threshold(*relaxed)
    try:
        yield
    finally:
        try:
            unchanged = gc.get_threshold() == relaxed
        except MemoryError:
            unchanged = True
        if unchanged:
            gc.set_threshold(*before)


class D:
    """A namespace that is filled from keyword arguments."""

    def __init__(self, **d):
        self.__dict__.update(d)


# ---------------------------------------------------------------- sequences and dicts


def hashtype(self):
    """Return a hash of the name and the module of the object's class."""
    t = type(self)
    return hash(t.__name__) ^ hash(t.__module__)


def memoize(f):
    """Return a function that caches the results of `f`. The arguments must be hashable."""
    cache = {}

    @wraps(f)
    def cached(*args, **kwargs):
        key = (args, frozenset(kwargs.items())) if kwargs else args
        if key not in cache:
            cache[key] = f(*args, **kwargs)
        return cache[key]

    return cached


def deprecated(filename, msg=""):
    """Return a decorator. The decorated function prints ``WARNING <filename>.<function> deprecated. <msg>`` once.

    Parameters
    ----------
    filename : str
        The name of the module, for the message.
    msg : str
        Advice on what to use instead.
    """

    def decorate(f):
        warned = False

        @wraps(f)
        def g(*args, **kwargs):
            nonlocal warned
            if not warned:
                print("WARNING %s.%s deprecated. %s" % (filename, f.__name__, msg))
                warned = True
            return f(*args, **kwargs)

        return g

    return decorate


def uniq(seq):
    """Return the elements of `seq` without duplicates, in the order of first appearance.

    Elements are compared with ``==`` and need not be hashable.
    """
    seq = list(seq)
    try:
        return list(dict.fromkeys(seq))
    except TypeError:
        kept = []
        for x in seq:
            if x not in kept:
                kept.append(x)
        return kept


def difference(seq1, seq2):
    """Return all elements of `seq1` that are not in `seq2`, in the order of `seq1`."""
    seq1, seq2 = list(seq1), list(seq2)
    try:
        excluded = set(seq2)
        return [x for x in seq1 if x not in excluded]
    except TypeError:
        return [x for x in seq1 if x not in seq2]


def to_return_values(values):
    """Return the element of a list of length one. Return any other list unchanged."""
    return values[0] if len(values) == 1 else values


def from_return_values(values):
    """Return a list or tuple unchanged. Return any other object as the only element of a list."""
    return values if isinstance(values, (list, tuple)) else [values]


def toposort(prereqs_d):
    """Sort the keys of a dict so that each key comes after its prerequisites.

    Parameters
    ----------
    prereqs_d : dict
        ``prereqs_d[x]`` contains all elements that must come before ``x``.

    Returns
    -------
    list
        Every key once. Keys without prerequisites come first, in the order of the dict. The remaining keys follow in
        the order in which their last prerequisites appear in the list.

    Raises
    ------
    ValueError
        If the constraints have a cycle or contain an element that is not a key.
    """
    waiting = {x: len(set(prereqs)) for x, prereqs in prereqs_d.items()}
    followers = {}
    for x, prereqs in prereqs_d.items():
        for p in dict.fromkeys(prereqs):
            followers.setdefault(p, []).append(x)
    ready = [x for x, count in waiting.items() if count == 0]
    done = 0
    while done < len(ready):
        for x in followers.get(ready[done], ()):
            waiting[x] -= 1
            if waiting[x] == 0:
                ready.append(x)
        done += 1
    if len(ready) != len(waiting):
        raise ValueError(
            "the elements cannot be sorted: the constraints contain a cycle, or an element that is not a key of the "
            "dict; elements that could not be sorted: %s" % [x for x, count in waiting.items() if count][:5]
        )
    return ready


class Keyword:
    """A named constant with a given truth value."""

    def __init__(self, name, nonzero=True):
        self.name = name
        self.nonzero = nonzero

    def __repr__(self):
        return "<%s>" % self.name

    __str__ = __repr__

    def __bool__(self):
        return self.nonzero


ABORT = Keyword("ABORT", False)
RETRY = Keyword("RETRY", False)
FAILURE = Keyword("FAILURE", False)
ANY_TYPE = Keyword("ANY_TYPE")
FALL_THROUGH = Keyword("FALL_THROUGH")


def comm_guard(type1, type2):
    """Return a decorator that runs a function of two arguments only for a pair of types, in either order.

    If the arguments do not match, or if the function returns `FALL_THROUGH`, the call is passed to the previous
    function with the same name in the same module.
    """

    def wrap(f):
        old_f = f.__globals__[f.__name__]

        def new_f(arg1, arg2, *rest):
            if _matches(type1, arg1) and _matches(type2, arg2):
                pass
            elif _matches(type1, arg2) and _matches(type2, arg1):
                arg1, arg2 = arg2, arg1
            else:
                return old_f(arg1, arg2, *rest)
            result = f(arg1, arg2, *rest)
            return old_f(arg1, arg2, *rest) if result is FALL_THROUGH else result

        new_f.__name__ = f.__name__
        new_f.__doc__ = "%s\n%s<%s, %s>\n%s" % (
            old_f.__doc__ or "",
            f.__name__,
            _type_name(type1),
            _type_name(type2),
            f.__doc__ or "",
        )
        return new_f

    return wrap


def type_guard(type1):
    """Return a decorator that runs a function only if its first argument has the type `type1`; see `comm_guard`."""

    def wrap(f):
        old_f = f.__globals__[f.__name__]

        def new_f(arg1, *rest):
            if not _matches(type1, arg1):
                return old_f(arg1, *rest)
            result = f(arg1, *rest)
            return old_f(arg1, *rest) if result is FALL_THROUGH else result

        new_f.__name__ = f.__name__
        new_f.__doc__ = "%s\n%s<%s>\n%s" % (old_f.__doc__ or "", f.__name__, _type_name(type1), f.__doc__ or "")
        return new_f

    return wrap


def _matches(kind, value):
    return kind is ANY_TYPE or isinstance(value, kind)


def _type_name(kind):
    if isinstance(kind, tuple):
        return "(%s)" % ", ".join(_type_name(k) for k in kind)
    return getattr(kind, "__name__", str(kind))


def flatten(a):
    """Flatten nested tuples, lists and sets into one list."""
    flat = []
    stack = [iter((a,))]
    while stack:
        for x in stack[-1]:
            if isinstance(x, (tuple, list, set)):
                stack.append(iter(x))
                break
            flat.append(x)
        else:
            stack.pop()
    return flat


def unique(x):
    """Return True if no element occurs twice."""
    return len(set(x)) == len(x)


def hist(coll):
    """Return a dict with the number of occurrences of each element."""
    return dict(Counter(coll))


def give_variables_names(*args, **kwargs):
    """Give every variable in the arguments a unique name. The new names of unnamed variables begin with ``var``.

    Parameters
    ----------
    *args : collections of Variable
    unique_suffix : callable, optional
        A function that takes a counter and returns a suffix. By default, `str`. A variable without a name, or whose
        name is not unique, gets the new name ``'%s_%s' % (name, suffix)``.

    Returns
    -------
    list of str
        The names.
    """
    suffix = kwargs.pop("unique_suffix", str)
    if kwargs:
        raise TypeError("give_variables_names got unexpected arguments %s" % sorted(kwargs))
    variables = uniq([v for arg in args for v in arg])
    taken = hist([v.name for v in variables])
    used = {name for name, count in taken.items() if count == 1 and name is not None}
    counter = 0
    for v in variables:
        if v.name is not None and taken[v.name] == 1:
            continue
        base = "var" if v.name is None else v.name
        while True:
            name = "%s_%s" % (base, suffix(counter))
            counter += 1
            if name not in used:
                break
        used.add(name)
        v.name = name
    return [v.name for v in variables]


def remove(predicate, coll):
    """Return the items of `coll` for which ``predicate(item)`` is false.

    >>> remove(lambda x: x % 2 == 0, [1, 2, 3, 4])
    [1, 3]
    """
    return [x for x in coll if not predicate(x)]


def hash_from_code(msg):
    """Return the SHA256 digest of a str or bytes object, in hexadecimal."""
    import hashlib

    if isinstance(msg, str):
        msg = msg.encode()
    return hashlib.sha256(msg).hexdigest()


def hash_from_file(file_path):
    """Return the SHA256 digest of the content of a file, in hexadecimal."""
    with open(file_path, "rb") as file:
        return hash_from_code(file.read())


__all__ = [
    "ABORT",
    "ANY_TYPE",
    "D",
    "FAILURE",
    "FALL_THROUGH",
    "Keyword",
    "MetaObject",
    "MethodNotDefined",
    "OrderedDict",
    "PY3",
    "RETRY",
    "StackTrace",
    "add_tag_trace",
    "comm_guard",
    "config",
    "deprecated",
    "difference",
    "flatten",
    "from_return_values",
    "get_variable_trace_string",
    "give_variables_names",
    "hash_from_code",
    "hash_from_file",
    "hashtype",
    "hist",
    "integer_types",
    "memoize",
    "object2",
    "remove",
    "scratchpad",
    "simple_extract_stack",
    "string_types",
    "to_return_values",
    "toposort",
    "type_guard",
    "uniq",
    "unique",
]
