"""What the commands have in common: they end quietly when nobody reads what they print any more (``theano_ng-cache list | head``)."""

import functools
import os
import select
import sys

CLOSED_PIPE = 141  # 128 + SIGPIPE: as shells name the end of programs that the signal ends


def command(main):
    """Decorator of a command's entry point, ``main(argv=None)``, which returns the exit status.

    When the reader of the standard output has gone, nothing more is printed, and the exit status is `CLOSED_PIPE`.
    """

    @functools.wraps(main)
    def run(argv=None):
        try:
            try:
                return main(argv)
            finally:
                sys.stdout.flush()  # here, also when argparse has ended the program, rather than when Python ends
        except BrokenPipeError:
            if not _is_closed():
                raise  # another pipe
            return CLOSED_PIPE

    return run


def _is_closed():
    """Whether the standard output is a pipe without a reader. What is still to be written is thrown away then."""
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # not a file, or closed
        return False
    if hasattr(select, "poll"):
        asked = select.poll()
        asked.register(output, 0)  # errors are told without being asked for
        if not asked.poll(0):
            return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output)
    os.close(nowhere)
    return True
