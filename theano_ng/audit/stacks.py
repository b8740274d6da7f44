"""Positions of the author's code in stacks of Python."""

import inspect
import os
import re
import sysconfig
import traceback

from theano_ng.gof.places import place

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.M)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def place_in(stack, op=None):
    """Return ``file:line`` of the innermost call in the author's code, or "" if the stack contains no such call.

    Parameters
    ----------
    stack : str
        A stack in the format of `traceback` or of `faulthandler`.
    op : Op, optional
        The files that define the classes of this Op are the author's code, also if they belong to a library.
    """
    frames = _FRAME.findall(stack)
    if "most recent call first" not in stack:
        frames.reverse()
    files = _files_of(op)
    found = next((frame for frame in frames if frame[0] in files), None)
    found = found or next((frame for frame in frames if _is_authors(frame[0])), None)
    return place(found[0], int(found[1])) if found else ""


def place_of(failure, op=None):
    """Return ``file:line`` of the author's code that raised an exception, or "". See `place_in` for `op`."""
    if isinstance(failure, SyntaxError) and failure.filename:
        return place(failure.filename, failure.lineno or 1)
    return place_in("".join(traceback.format_tb(failure.__traceback__)), op)


def raised(failure, op=None):
    """Describe an exception: its class, its text, and the position in the author's code. See `place_in` for `op`."""
    text, where = "%s: %s" % (type(failure).__name__, failure), place_of(failure, op)
    return "%s, raised at %s" % (text, where) if where else text


def _files_of(op):
    files = set()
    for cls in type(op).__mro__:
        if not cls.__module__.startswith(("theano_ng.gof.", "builtins")):
            try:
                files.add(inspect.getsourcefile(cls))
            except TypeError:  # no source
                continue
    return files


def _is_authors(file):
    if file.startswith(("<", *_LIBRARIES)):
        return False
    return not file.startswith(_PACKAGE) or os.sep + "tests" + os.sep in file
