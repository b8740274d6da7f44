"""Traces of an Op's Python code: the lines that no example reached, and interruptions before a line."""

import sys

from theano_ng.gof.op import PureOp


def python_code(op):
    """Return the code object of `perform`, or of the `impl` of a scalar Op, or None if it has no Python code."""
    inner = getattr(op, "scalar_op", None)
    function = getattr(inner, "impl", None) if isinstance(inner, PureOp) else getattr(op, "perform", None)
    return getattr(getattr(function, "__func__", function), "__code__", None)


class LineCoverage:
    """A record of the lines of `perform`, or of the `impl` of a scalar Op, that ran while the object was entered.

    Parameters
    ----------
    op : Op

    Attributes
    ----------
    missing : set of int
        The lines that did not run.
    file : str
        The file of the method, or "" if the method has no Python code.
    """

    def __init__(self, op):
        code = python_code(op)
        self._codes = set() if code is None else set(_nested(code))
        self.name = "" if code is None else code.co_name
        self.file = "" if code is None else code.co_filename
        self.missing = {
            line for code in self._codes for _, _, line in code.co_lines() if line and line != code.co_firstlineno
        }

    def __enter__(self):
        self._before = sys.gettrace()
        # With another tracer (a debugger, a coverage tool), no lines are recorded: only one tracer can be active.
        if self.missing and self._before is None:
            sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _call(self, frame, event, argument):
        return self._line if frame.f_code in self._codes else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.missing.discard(frame.f_lineno)
        return self._line

    def summary(self):
        """Return a sentence about the lines that did not run, or "" if all lines ran."""
        if not self.missing:
            return ""
        ranges = []
        for line in sorted(self.missing):
            if ranges and line == ranges[-1][1] + 1:
                ranges[-1][1] = line
            else:
                ranges.append([line, line])
        texts = ["%d-%d" % (a, b) if a < b else "%d" % a for a, b in ranges]
        return "no example reached line%s %s of %s (%s)" % (
            "" if len(self.missing) == 1 else "s",
            ", ".join(texts),
            self.name,
            self.file,
        )


class Interruption:
    """While the object is entered, a function is called before one of the lines that `perform` executes.

    Parameters
    ----------
    op : Op
    place : int
        The number of lines that run before the call.
    function : callable

    Attributes
    ----------
    lines : int
        The number of lines that ran.
    """

    def __init__(self, op, place, function):
        self._code, self._place, self._function, self.lines = python_code(op), place, function, 0

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _call(self, frame, event, argument):
        return self._line if frame.f_code is self._code else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.lines += 1
            if self.lines == self._place + 1:
                sys.settrace(None)
                self._function()
                sys.settrace(self._call)
        return self._line


def _nested(code):
    """Yield a code object and the code objects of the functions and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_lines"):
            yield from _nested(constant)
