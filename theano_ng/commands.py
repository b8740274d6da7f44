"""The common part of all commands: a command ends quietly if the program that reads its output has ended.

For example, ``head`` ends before the command in ``theano_ng-cache list | head``.
"""

import functools
import os
import select
import sys

CLOSED_PIPE = 141  # 128 + SIGPIPE: the exit status that shells report for a program that this signal has ended


def command(main):
    """Decorate a command's entry point, ``main(argv=None)``, which returns the exit status.

    If the program that reads the standard output has ended, the command prints nothing further, and its exit status is
    `CLOSED_PIPE`.
    """

    @functools.wraps(main)
    def run(argv=None):
        try:
            try:
                return main(argv)
            finally:
                # Flush here, not when Python ends: the `except` clause below then catches the error of a closed pipe.
                # `finally` also flushes if argparse raises SystemExit.
                sys.stdout.flush()
        except BrokenPipeError:
            if not _is_closed():
                raise  # another pipe
            return CLOSED_PIPE

    return run


def _is_closed():
    """Return True if the standard output is a pipe whose reading program has ended.

    If so, discard the output that is still buffered.
    """
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # not a file, or closed
        return False
    if hasattr(select, "poll"):
        asked = select.poll()
        asked.register(output, 0)  # poll always reports errors, also without a requested event
        if not asked.poll(0):
            return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output)
    os.close(nowhere)
    return True
