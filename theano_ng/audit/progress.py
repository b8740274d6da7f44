"""A line on a terminal that says how far an audit is."""

import shutil
import sys
import time


class Progress:
    """Called by the driver before and after each check; draws one line, again and again, on a terminal, and nothing elsewhere.

    Parameters
    ----------
    cases : int
        How many cases there are.
    stream : file, optional
        Default: the standard error stream.
    enabled : bool, optional
        Whether to draw; by default when the stream is a terminal.
    """

    def __init__(self, cases=1, stream=None, enabled=None):
        self.cases, self.stream = max(cases, 1), sys.stderr if stream is None else stream
        self.enabled = bool(getattr(self.stream, "isatty", lambda: False)()) if enabled is None else enabled
        self.start, self.examples, self.finished, self.drawn = time.monotonic(), 0, 0, 0

    def __call__(self, case, check, index, total, verdict):
        """Parameters as the driver gives them: before a check its index, afterwards the next one and the verdict."""
        if verdict is not None:
            self.examples += verdict.examples
        self._draw((self.finished + index / max(total, 1)) / self.cases, "%s: %s" % (case, check))
        if verdict is not None and index == total:
            self.finished += 1

    def done(self, case):
        """A case is done, of which no check was told."""
        self.finished += 1
        self._draw(self.finished / self.cases, case)

    def _draw(self, part, what):
        if not self.enabled:
            return
        width = shutil.get_terminal_size((80, 24)).columns - 1
        bar = "#" * int(20 * part) + "." * (20 - int(20 * part))
        text = "[%s] %3.0f%% %s, %d examples, %.0f s" % (
            bar,
            100 * part,
            what,
            self.examples,
            time.monotonic() - self.start,
        )
        text = text.encode("ascii", "replace").decode()[:width]
        self.stream.write("\r" + text + " " * (self.drawn - len(text)))
        self.stream.flush()
        self.drawn = len(text)

    def clear(self):
        """Wipe the line, for what is printed next."""
        if self.drawn:
            self.stream.write("\r" + " " * self.drawn + "\r")
            self.stream.flush()
            self.drawn = 0
