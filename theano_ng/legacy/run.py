"""The command ``theano_ng-run``. It runs a program that contains ``import theano``."""

import argparse
import os
import runpy
import sys
import traceback

from theano_ng import legacy
from theano_ng.commands import command
from theano_ng.legacy import removed


@command
def main(argv=None):
    """Run a program with its own name and arguments in ``sys.argv``.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the name of the program. Default: the arguments of the process.

    Returns
    -------
    int
        The exit status: 0 if the program has ended normally, 1 if it raised an exception, and 2 if it cannot start.
        A SystemExit of the program is not caught.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="theano_ng-run",
        usage="theano_ng-run [--numpy-names] [--force] (PROGRAM | -m MODULE) [ARGUMENT ...]",
        description="Run a Python program with theano_ng for `import theano`.",
    )
    parser.add_argument(
        "--numpy-names",
        action="store_true",
        help="restore names that NumPy, SciPy and Python have removed (np.float, collections.Iterable ...); each use "
        "is reported once",
    )
    parser.add_argument("--force", action="store_true", help="run also if Theano itself is installed")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as `python -m` does")
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="a file")
    own = _own_arguments(argv)
    options, arguments = parser.parse_args(own), argv[len(own) :]
    if options.module is None and options.program is None:
        parser.error("no program is given")
    try:
        legacy.install(options.force)
    except ImportError as error:
        print("theano_ng-run: %s" % error, file=sys.stderr)
        return 2
    if options.numpy_names:
        removed.give_back()
    # Prepare the processes that the program starts. Processes of `multiprocessing` inherit ``sys.path``, and all other
    # processes inherit the environment.
    folder = legacy.folder_for_processes(options.numpy_names)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    sys.path.insert(0, folder)
    return _run(options.program, options.module, arguments)


def _own_arguments(argv):
    """Return the arguments up to the name of the program or module. The other arguments belong to the program."""
    i = 0
    while i < len(argv) and argv[i].startswith("-") and argv[i] != "-m":
        i += 1
    return argv[: i + (2 if argv[i : i + 1] == ["-m"] else 1)]


def _run(program, module, arguments):
    if program is not None and not os.path.exists(program):
        print("theano_ng-run: there is no file %s" % program, file=sys.stderr)
        return 2
    sys.argv = [program or module, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)) if module is None else os.getcwd())
    try:
        if module is None:
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Exception as error:
        _report(error)
        return 1
    return 0


def _report(error):
    """Print an exception as Python does, and a hint if `removed.hint` knows the cause.

    Leave out the frames of this module and of `runpy`.
    """
    frames = error.__traceback__
    inner = frames
    while inner is not None and inner.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
        inner = inner.tb_next
    traceback.print_exception(type(error), error, inner or frames)
    advice = removed.hint(error)
    if isinstance(error, SyntaxError) and inner is None:
        advice = "a program for Python 2 has to be ported first"
    if advice is not None:
        print("hint: %s" % advice, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
