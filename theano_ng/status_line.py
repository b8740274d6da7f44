"""A line on a terminal that says what a program is doing; it is written over again and again, and wiped before anything else is printed."""

import sys


class StatusLine:
    """One line at the end of a terminal.

    Parameters
    ----------
    stream : file, optional
        Default: the standard error stream.
    enabled : bool, optional
        Whether to draw; by default when the stream is a terminal.

    Attributes
    ----------
    enabled : bool
    """

    def __init__(self, stream=None, enabled=None):
        self.stream = sys.stderr if stream is None else stream
        self.enabled = is_terminal(self.stream) if enabled is None else enabled
        self._drawn = 0

    def show(self, text):
        """Put a text in place of the one that is shown; what does not fit on the line is cut."""
        if not self.enabled:
            return
        import shutil

        text = text.encode("ascii", "replace").decode()[: shutil.get_terminal_size((80, 24)).columns - 1]
        self._write("\r" + text + " " * (self._drawn - len(text)))
        self._drawn = len(text)

    def clear(self):
        """Wipe the line, for what is printed next."""
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _write(self, text):
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal has gone: nobody looks
            self.enabled = False


def is_terminal(stream):
    """Whether somebody watches what is written to a stream, on a terminal on which a line can be written over."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no file, or closed
        return False
