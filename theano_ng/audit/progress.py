"""A line on a terminal that says how far an audit is."""

import time

from theano_ng.status_line import StatusLine


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
        self.cases, self.line = max(cases, 1), StatusLine(stream, enabled)
        self.start, self.examples, self.finished = time.monotonic(), 0, 0

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
        bar = "#" * int(20 * part) + "." * (20 - int(20 * part))
        seconds = time.monotonic() - self.start
        self.line.show("[%s] %3.0f%% %s, %d examples, %.0f s" % (bar, 100 * part, what, self.examples, seconds))

    def clear(self):
        """Wipe the line, for what is printed next."""
        self.line.clear()
