"""A terminal line that shows what a program is doing. Each new text replaces the line."""

import sys


class StatusLine:
    """A line at the end of a terminal that shows the status of the program.

    Parameters
    ----------
    stream : file, optional
        By default, the standard error stream.
    enabled : bool, optional
        Whether to draw the line. By default, True if the stream is a terminal.

    Attributes
    ----------
    enabled : bool
    """

    def __init__(self, stream=None, enabled=None):
        self.stream = sys.stderr if stream is None else stream
        self.enabled = is_terminal(self.stream) if enabled is None else enabled
        self._drawn = 0

    def show(self, text):
        """Replace the text of the line. Cut a text that is longer than the line."""
        if not self.enabled:
            return
        import shutil

        text = text.encode("ascii", "replace").decode()[: shutil.get_terminal_size((80, 24)).columns - 1]
        self._write("\r" + text + " " * (self._drawn - len(text)))
        self._drawn = len(text)

    def clear(self):
        """Clear the line. This is necessary before other output is printed."""
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def _write(self, text):
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal is closed
            self.enabled = False


def is_terminal(stream):
    """Return True if a stream is a terminal, on which a line can be overwritten."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # not a file, or a closed file
        return False
