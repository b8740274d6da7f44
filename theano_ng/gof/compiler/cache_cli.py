"""``theano_ng-cache``: look at the compile cache and clean it."""

import sys

from theano_ng.commands import command as quiet_command
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import compiledir, compilelock, trust

USAGE = """\
Usage: theano_ng-cache [COMMAND]

Commands:
  (none)                 print the name of the compile directory that is used
  help                   print this text
  list                   list the compiled modules and kernels, and the files that are not loaded because other users own or can write them
  cleanup                delete entries that have not been used for long, unusable entries, and leftovers
  clear                  delete all compiled modules, kernels and headers
  purge                  delete everything that the cache has made in the compile directory
  unlock                 remove lock files
  basecompiledir         list the compile directories of all platforms and versions
  basecompiledir list    the same as basecompiledir
  basecompiledir purge   purge the compile directories of all platforms and versions; files that the cache has not made are kept

The directories are chosen by THEANO_FLAGS=base_compiledir=... or compiledir=...
"""


@quiet_command
def main(argv=None):
    """Run the command line program.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name. By default, the arguments of the process.

    Returns
    -------
    int
        The exit status: 0, 2 for an unknown command, 1 if a file could not be deleted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        print(trust.directory(config.compiledir))
        return 0
    if arguments[0] in ("help", "-h", "--help"):
        print(USAGE, end="")
        return 0

    commands = {
        ("list",): compiledir.print_compiledir_content,
        ("cleanup",): lambda: print("%d modules and kernels deleted" % compiledir.cleanup()),
        ("clear",): compiledir.clear,
        ("purge",): compiledir.compiledir_purge,
        ("unlock",): compilelock.force_unlock,
        ("basecompiledir",): compiledir.basecompiledir_ls,
        ("basecompiledir", "list"): compiledir.basecompiledir_ls,
        ("basecompiledir", "purge"): compiledir.basecompiledir_purge,
    }
    command = commands.get(tuple(arguments))
    if command is None:
        sys.stderr.write("theano_ng-cache: no command %r\n%s" % (" ".join(arguments), USAGE))
        return 2
    try:
        command()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.write("theano_ng-cache: %s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
