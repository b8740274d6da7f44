"""The command ``theano_ng-port``. It reports the changes that programs for Theano need, and makes them."""

import argparse
import dataclasses
import errno
import json
import os
import sys
import tempfile

from theano_ng.commands import command
from theano_ng.extras import require


@command
def main(argv=None):
    """Run the command: report the changes that programs need, and make them if ``--write`` is given.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the name of the program. Default: the arguments of the process.

    Returns
    -------
    int
        0 if no change is needed, 1 if changes are needed, and 2 if a file cannot be read as Python 3 or another error
        occurs.
    """
    parser = argparse.ArgumentParser(
        prog="theano_ng-port",
        description="Report, for each file, what Python programs written for Theano need to run on theano_ng: imports, "
        "names that NumPy, SciPy and Python have removed, Python 2 syntax, flags. Programs can also run "
        "unchanged: see theano_ng-run.",
        epilog="Exit status: 0 when nothing has to change, 1 when something has to change, 2 when a file cannot be "
        "read.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a file, or a folder whose .py and .theanorc files are read"
    )
    parser.add_argument("--diff", action="store_true", help="print the changes as a diff")
    parser.add_argument(
        "--write", action="store_true", help="apply the changes to the files; formatting and comments are kept"
    )
    parser.add_argument("--json", action="store_true", help="print the findings in a form that programs can read")
    options = parser.parse_args(argv)
    try:
        require("libcst", "theano_ng-port")
    except ImportError as error:
        print(error, file=sys.stderr)
        return 2
    from theano_ng.legacy import porting

    reports, status = [], 0
    for path in files(options.paths):
        try:
            with open(path, "rb") as f:
                text = f.read()
        except OSError as error:
            print("theano_ng-port: %s" % error, file=sys.stderr)
            status = 2
            continue
        is_flags = not path.endswith(".py") and os.path.basename(path).lstrip(".").startswith("theanorc")
        reports.append((porting.look_at_flags if is_flags else porting.look_at)(path, text))
    for report in reports:
        if report.text is None:
            status = 2
        elif any(finding.needed for finding in report.findings):
            status = max(status, 1)
    show(reports, options)
    if options.write:
        for report in reports:
            if report.changed != report.text:
                try:
                    write(report.file, report.changed)
                except OSError as error:
                    print("theano_ng-port: %s" % error, file=sys.stderr)
                    status = 2
    return status


def files(paths):
    """Return the files to examine, each file once: the given files, and all Python and flags files in given folders."""
    seen = {}
    for path in paths:
        if not os.path.isdir(path):
            seen[path] = None
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py") or name in (".theanorc", ".theanorc.txt"):
                    seen[os.path.join(folder, name)] = None
    return list(seen)


def show(reports, options):
    """Print the findings of reports, as JSON, as a diff or as lines.

    With a diff, the necessary changes that the diff does not contain are printed to standard error.
    """
    if options.json:
        json.dump(
            [dataclasses.asdict(finding) for report in reports for finding in report.findings], sys.stdout, indent=1
        )
        print()
        return
    if options.diff:
        for report in reports:
            sys.stdout.write(report.diff())
        unseen = [f for report in reports for f in report.findings if f.needed and not f.changes]
    else:
        unseen = [finding for report in reports for finding in report.findings]
    for finding in unseen:
        print(finding, file=sys.stderr if options.diff else sys.stdout)
    if not options.diff:
        needed = [f for report in reports for f in report.findings if f.needed]
        by_itself = sum(f.changes for f in needed)
        done = "made" if options.write else "can be made by --write"
        print("%d files, %d necessary changes, of which %d %s" % (len(reports), len(needed), by_itself, done))


def write(path, text):
    """Replace the content of a file atomically and keep its mode.

    For a symbolic link, replace the content of the target.
    """
    path = os.path.realpath(path)
    if not os.access(path, os.W_OK):
        # `os.replace` needs write permission only for the folder, so it would replace a read-only file.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".theano_ng-port-")
    try:
        with os.fdopen(descriptor, "wb") as f:
            f.write(text)
        os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


if __name__ == "__main__":
    sys.exit(main())
