"""The common part of all commands: they end quietly if the reader of their output is gone.

An example is ``theano_ng-cache list | head``.
"""

import functools
import os
import select
import sys

CLOSED_PIPE = 141  # 128 + SIGPIPE: the exit status in shells of a program that the signal ends


def command(main):
    """Decorate a command's entry point, ``main(argv=None)``, which returns the exit status.

    When the reader of the standard output is gone, the command prints nothing further, and its exit status is
    `CLOSED_PIPE`.
    """

    @functools.wraps(main)
    def run(argv=None):
        try:
            try:
                return main(argv)
            finally:
                # Flush here rather than when Python ends, also if argparse ends the program.
                sys.stdout.flush()
        except BrokenPipeError:
            if not _is_closed():
                raise  # another pipe
            return CLOSED_PIPE

    return run


def _is_closed():
    """Return True if the standard output is a pipe without a reader.

    In that case discard the output that is still buffered.
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
