"""The terminal line that shows the progress of an audit."""

import time

from theano_ng.status_line import StatusLine


class Progress:
    """A progress line. The driver calls this object before and after each check, and each call redraws the line.

    Parameters
    ----------
    cases : int
        Number of cases.
    stream : file, optional
        Default: the standard error stream.
    enabled : bool, optional
        Whether to draw the line. Default: True if the stream is a terminal.
    """

    def __init__(self, cases=1, stream=None, enabled=None):
        self.cases, self.line = max(cases, 1), StatusLine(stream, enabled)
        self.start, self.examples, self.finished = time.monotonic(), 0, 0

    def __call__(self, case, check, index, total, verdict):
        """Redraw the line.

        Before a check, `index` is the index of the check, and `verdict` is None. After the check, `index` is larger by
        one, and `verdict` is the verdict of the check.
        """
        if verdict is not None:
            self.examples += verdict.examples
        self._draw((self.finished + index / max(total, 1)) / self.cases, "%s: %s" % (case, check))
        if verdict is not None and index == total:
            self.finished += 1

    def done(self, case):
        """Count a finished case. Call this method if the object itself was not called for the checks of the case."""
        self.finished += 1
        self._draw(self.finished / self.cases, case)

    def _draw(self, part, what):
        bar = "#" * int(20 * part) + "." * (20 - int(20 * part))
        seconds = time.monotonic() - self.start
        self.line.show("[%s] %3.0f%% %s, %d examples, %.0f s" % (bar, 100 * part, what, self.examples, seconds))

    def clear(self):
        """Clear the line before other output is printed."""
        self.line.clear()
