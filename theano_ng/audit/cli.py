"""``theano_ng-audit``: the command that audits Ops."""

import argparse
import contextlib
import functools
import os
import sys

from theano_ng.audit.problems import AuditError, RefusedInputs
from theano_ng.audit.processes import Child, end_all, failed, in_child, wait_for_one
from theano_ng.audit.records import Report
from theano_ng.audit.resolve import EXAMPLES, UsageError, cases_of
from theano_ng.audit.stacks import place_in
from theano_ng.commands import command
from theano_ng.configdefaults import config

DESCRIPTION = "Search Ops for errors: wrong values, gradients and shapes, memory errors, wrong reference counts."
EPILOG = (
    "examples:\n%s\n\nexit status:\n  0 no findings, 1 findings, 130 ended by Ctrl-C,\n"
    "  2 an error in the command line, in a target or in the audit itself" % EXAMPLES
)

INTERRUPTED = 130  # 128 + SIGINT: the exit status that shells report for a program that Ctrl-C has ended


def _parser():
    parser = argparse.ArgumentParser(
        prog="theano_ng-audit",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="package.module:Op, file.py:Op, or a module or file with a function audit_cases()",
    )
    parser.add_argument("--inputs", metavar="LIST", help='example inputs, such as "float64(3,4), dvector, 2"')
    parser.add_argument("--checks", metavar="NAMES", help="run only these checks, separated by commas")
    parser.add_argument("--no-sanitizer", action="store_true", help="do not run the check sanitizer")
    parser.add_argument("--no-leaks", action="store_true", help="do not run the checks references and memory")
    parser.add_argument(
        "--examples",
        type=int,
        default=50,
        metavar="N",
        help="number of random examples for each check, in addition to the systematic examples (50)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (0)")
    parser.add_argument("--time", type=float, metavar="SECONDS", help="time limit for each case, in seconds")
    parser.add_argument(
        "--json", metavar="FILE", help="write the reports as JSON; - for the standard output, instead of the table"
    )
    parser.add_argument("--junit", metavar="FILE", help="write the reports in JUnit's XML format")
    parser.add_argument("--page", metavar="FILE", help="write the reports as a page in Markdown")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="audit the target again after each change of its files, and show which findings are new or are gone",
    )
    parser.add_argument(
        "--rewrites",
        action="store_true",
        help="the targets are rewriting rules: package.module:rule, file.py:rule, or a module or file for all its rules",
    )
    parser.add_argument(
        "--new", metavar="NAME", help="write an Op with this name, and its tests, into the current folder"
    )
    for name, text in (("c", "C code"), ("grad", "a gradient"), ("inplace", "a variant that overwrites its input")):
        parser.add_argument("--" + name, action="store_true", help="with --new: the Op has %s" % text)
    parser.add_argument("--list-checks", action="store_true", help="list the checks and their meanings")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of cases, or of checks of a single case, that run at the same time (the number of processors)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only findings")
    parser.add_argument("-v", "--verbose", action="store_true", help="print all evidence")
    return parser


@command
def main(argv=None):
    """Run the command line program.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name. Default: the arguments of the process.

    Returns
    -------
    int
        Exit status: 0 if nothing was found, 1 if something was found, 2 for an error in the command line, in a target
        or in the audit itself, 130 after Ctrl-C.
    """
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has printed the reason
        return stop.code or 0
    # Keep the folder of Hypothesis in the compile cache. By default Hypothesis creates it in the working directory.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(config.base_compiledir, "hypothesis"))
    try:
        return _run(arguments)
    except UsageError as failure:
        sys.stderr.write("theano_ng-audit: %s\n" % failure)
        return 2
    except ImportError as failure:  # for example, Hypothesis is not installed
        sys.stderr.write("theano_ng-audit: %s\n" % failure)
        return 2
    except AuditError as failure:
        sys.stderr.write("theano_ng-audit: %s\nThis is an error of the audit: please report it.\n" % failure)
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("theano_ng-audit: interrupted\n")
        return INTERRUPTED


def _run(arguments):
    from theano_ng.audit import driver

    if arguments.list_checks:
        width = max(len(check.name) for check in driver.CHECKS)
        for check in driver.CHECKS:
            print("%-*s  %s" % (width, check.name, check.meaning))
        return 0
    if arguments.new is not None:
        return _write_new(arguments)
    for name in ("c", "grad", "inplace"):
        if getattr(arguments, name):
            raise UsageError("--%s has an effect only with --new" % name)
    if arguments.rewrites:
        return _audit_rewrites(arguments)
    for name, value, least in (
        ("--examples", arguments.examples, 0),
        ("--processes", arguments.processes, 1),
        ("--time", 1 if arguments.time is None else arguments.time, 1e-9),
    ):
        if value < least:
            raise UsageError("%s is %g; it has to be %s" % (name, value, "positive" if least else "zero or more"))
    if not arguments.targets:
        raise UsageError("no target was given. Examples:\n%s" % EXAMPLES)
    if arguments.inputs is not None and len(arguments.targets) > 1:
        raise UsageError("--inputs needs exactly one target; %d were given" % len(arguments.targets))
    try:
        driver.select(arguments.checks)
    except ValueError as failure:
        raise UsageError("--checks: %s" % failure) from None
    options = dict(
        checks=arguments.checks,
        max_examples=arguments.examples,
        seed=arguments.seed,
        sanitize=not arguments.no_sanitizer,
        leaks=not arguments.no_leaks,
        time_limit=arguments.time,
    )
    from theano_ng.audit.generate import require_hypothesis

    require_hypothesis()
    for path, option in _files(arguments):
        _refuse_unwritable(path, option)
    if arguments.watch:
        return _watch(arguments, options)
    with _noise_on_stderr() if arguments.json == "-" else contextlib.nullcontext():
        cases, reports = [], []
        for target in arguments.targets:
            try:
                cases += tried_cases_of(target, arguments.inputs, arguments.seed)
            except UsageError as failure:
                reports.append(_not_examined(target, failure))
        show = _printer(arguments)
        for report in reports:
            show(report)
        reports += audit_all(cases, options, arguments.processes, quiet=arguments.quiet, done=show)
    _write(reports, arguments)
    if any(report.error for report in reports):
        return 2
    return 0 if all(report.ok for report in reports) else 1


def tried_cases_of(target, inputs, seed):
    """Return the cases of a target. Try to import the target in a forked process first, in case the process dies.

    Raises
    ------
    UsageError
        If the target cannot be imported, or has no cases.
    """
    if hasattr(os, "fork"):

        def quiet():
            with contextlib.suppress(UsageError), contextlib.redirect_stdout(None):
                cases_of(target, inputs, seed)

        ending = in_child(quiet, steps=1)
        if ending.how != "ended":
            place = place_in(ending.stack)
            raise UsageError(
                "%s cannot be examined. The process that imported it died: %s%s. Put code that is not for import below "
                '`if __name__ == "__main__":`' % (target, ending.how, place and ", at " + place)
            )
    return cases_of(target, inputs, seed)


@contextlib.contextmanager
def _noise_on_stderr():
    """Inside the context, all output goes to the standard error stream, also that of C code."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _not_examined(case, failure):
    """Return the report of a case that cannot be examined."""
    return Report(case, "", (), error=str(failure))


def _write_new(arguments):
    """Write the files of a new Op."""
    from theano_ng.audit import template

    if arguments.targets:
        raise UsageError("--new takes no targets; %s was given" % ", ".join(arguments.targets))
    try:
        paths = template.write(arguments.new, c=arguments.c, grad=arguments.grad, inplace=arguments.inplace)
    except (ValueError, OSError) as failure:
        raise UsageError("--new: %s" % failure) from None
    print("wrote %s\nrun the tests with: theano_ng-nose %s" % (" and ".join(paths), paths[-1]))
    return 0


def _audit_rewrites(arguments):
    """Test rewriting rules by the command of `rewrites`."""
    from theano_ng.audit.rewrites import command as rewrites

    if not arguments.targets:
        raise UsageError("--rewrites needs a target, such as package.module:rule or file.py:rule")
    parts = [*arguments.targets, "--seed", str(arguments.seed), "--processes", str(arguments.processes)]
    for name, value in (("--seconds", arguments.time), ("--json", arguments.json)):
        parts += [] if value is None else [name, str(value)]
    return rewrites.main(parts + ["--quiet"] * arguments.quiet)


def _watch(arguments, options):
    """Audit a target after each change of its files, until the user interrupts the command."""
    from theano_ng.audit.watch import Watcher

    if len(arguments.targets) != 1:
        raise UsageError("--watch needs exactly one target; %d were given" % len(arguments.targets))

    target = arguments.targets[0]

    def run():
        cases = tried_cases_of(target, arguments.inputs, arguments.seed)
        return audit_all(cases, options, arguments.processes, quiet=arguments.quiet, done=_printer(arguments))

    try:
        Watcher(target, run).loop()
    except KeyboardInterrupt:
        return 0


def _printer(arguments):
    """Return a function that prints a report. If the standard output is for JSON, it prints only errors."""
    from theano_ng.audit import report

    verbosity = 0 if arguments.quiet else 2 if arguments.verbose else 1

    def show(one):
        if one.error:
            sys.stderr.write("theano_ng-audit: %s\n" % one.error)
        elif arguments.json != "-":
            text = report.format_report(one, colour=report.wants_colour(sys.stdout), verbosity=verbosity)
            if text:
                print(text, flush=True)

    return show


def audit_all(cases, options, processes=1, quiet=False, done=None):
    """Audit cases, optionally in parallel, and show a progress bar.

    Parameters
    ----------
    cases : list of Case
    options : dict
        Arguments of `driver.audit`.
    processes : int
        The maximum number of processes. If the system cannot fork, one process is used.
    quiet : bool
        If True, no progress bar is shown.
    done : callable, optional
        A function that is called with each report in the order of the cases, as soon as this report and all earlier
        reports exist.

    Returns
    -------
    list of Report
        The reports, in the order of the cases. The attribute `error` of a report tells why a case was not examined.
    """
    from theano_ng.audit.progress import Progress

    options = dict(options, processes=max(processes // max(len(cases), 1), 1))
    progress = Progress(len(cases), enabled=False if quiet else None)
    reports = []

    def add(report):
        reports.append(report)
        if done is not None:
            progress.clear()
            done(report)

    try:
        if min(processes, len(cases)) <= 1 or not hasattr(os, "fork"):
            for case in cases:
                add(_report(case, dict(options, progress=progress)))
        else:
            _audit_in_parallel(cases, options, processes, progress, add)
    finally:
        progress.clear()
    return reports


def _audit_in_parallel(cases, options, processes, progress, add):
    """Audit cases in parallel, for `audit_all`.

    Forked processes inherit the cases, so the cases need not be picklable.
    """
    waiting, running, ready, turn = list(range(len(cases))), {}, {}, 0
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                number = waiting.pop(0)
                running[Child(functools.partial(_report, cases[number], options))] = number
            child, ending = wait_for_one(list(running))
            number = running.pop(child)
            progress.done(cases[number].name)
            if ending.how == "failed":
                raise failed(ending)
            ready[number] = ending.answer or _not_examined(
                cases[number].name, "%s: the process that ran its checks died: %s" % (cases[number].name, ending.how)
            )
            while turn in ready:
                add(ready.pop(turn))
                turn += 1
    finally:
        end_all(running)


def _report(case, options):
    """Return the report of a case, also if the case cannot be examined."""
    from theano_ng.audit.driver import audit

    try:
        return audit(case, **options)
    except (TypeError, ValueError) as failure:
        text = str(failure) if str(failure).startswith(case.name) else "%s: %s" % (case.name, failure)
        if isinstance(failure, RefusedInputs):
            text += '. Specify other inputs: in audit_cases(), or by --inputs "float64(3,4), dvector, 2"'
        return _not_examined(case.name, text)
    except AuditError as failure:
        return _not_examined(
            case.name, "%s: %s\nThis is an error of the audit: please report it." % (case.name, failure)
        )


def _files(arguments):
    """Return the files to write, each with its option."""
    options = ("--json", arguments.json), ("--junit", arguments.junit), ("--page", arguments.page)
    return [(path, option) for option, path in options if path is not None and (option, path) != ("--json", "-")]


def _refuse_unwritable(path, option):
    """Raise UsageError before the audit if its reports cannot be written to a file at its end."""
    known = os.path.exists(path)
    try:
        with open(path, "a", encoding="utf-8"):
            pass
        if not known:
            os.remove(path)
    except OSError as failure:
        raise _unwritable(path, option, failure) from None


def _unwritable(path, option, failure):
    return UsageError("%s: %s cannot be written: %s" % (option, path, failure.strerror))


def _write(reports, arguments):
    from theano_ng.audit import report

    if arguments.json is not None:
        import json

        text = json.dumps(report.to_json(reports), indent=2) + "\n"
        if arguments.json == "-":
            sys.stdout.write(text)
        else:
            _write_file(arguments.json, text, "--json")
    if arguments.junit is not None:
        _write_file(arguments.junit, report.to_junit(reports), "--junit")
    if arguments.page is not None:
        from theano_ng.audit.page import to_markdown

        _write_file(arguments.page, to_markdown(reports), "--page")
    if arguments.json != "-":
        print(report.format_summary(reports, report.wants_colour(sys.stdout)))


def _write_file(path, text, option):
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as failure:
        raise _unwritable(path, option, failure) from None


if __name__ == "__main__":
    sys.exit(main())
