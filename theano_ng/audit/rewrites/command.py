"""The command line: ``python -m theano_ng.audit.rewrites [RULE ...]``."""

import argparse
import importlib
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from theano_ng.audit.rewrites import page
from theano_ng.audit.rewrites.oracle import FULL, QUICK, THOROUGH, Judge
from theano_ng.audit.rewrites.registry import registered
from theano_ng.audit.rewrites.targets import UsageError, rules_of
from theano_ng.commands import command

EFFORTS = {"quick": QUICK, "full": FULL, "thorough": THOROUGH}


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m theano_ng.audit.rewrites",
        description="Compare graphs before and after rewriting rules, on many graphs and values.",
        epilog="exit status: 0 no difference found, 1 a difference found, 2 an error in the command line",
    )
    parser.add_argument(
        "rules",
        nargs="*",
        metavar="RULE",
        help="a registered name, package.module:RULE, file.py:RULE, or a module or file for all its rules (all)",
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="start no further rule after N seconds")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="number of rules that are tested at the same time (1)"
    )
    parser.add_argument(
        "--effort", choices=list(EFFORTS), default="full", help="effort, which determines the number of graphs (full)"
    )
    parser.add_argument("--devices", action="store_true", help="also test the rules about arrays on devices")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (0)")
    parser.add_argument("--json", metavar="FILE", help="write the verdicts as JSON; - for the standard output")
    parser.add_argument("--page", metavar="FILE", help="write the page of the manual")
    parser.add_argument(
        "--update",
        action="store_true",
        help="test the RULEs and the rules that the page of --page does not list, and keep its other rows",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print findings only")
    return parser


def _wanted(arguments):
    """Return the rules to test, and a dict: name of a rule -> its row of the earlier page, for ``--update``."""
    rules = [one for target in arguments.rules for one in rules_of(target, arguments.devices)]
    if not arguments.update:
        return rules or registered(arguments.devices), {}
    if arguments.page in (None, "-"):
        raise UsageError("--update needs the file of an earlier page, as --page FILE")
    with open(arguments.page, encoding="utf-8") as file:
        earlier = page.rows_of(file.read())
    known = {one.name: one for one in registered(arguments.devices)}
    rules += [one for name, one in known.items() if name not in earlier and one not in rules]
    return rules, {name: row for name, row in earlier.items() if name in known}


def _judge_of(one):
    """Return the class that judges a rule. `DeviceJudge` is imported on demand, because it loads the code of devices."""
    return importlib.import_module("theano_ng.audit.rewrites.devices").DeviceJudge if one.on_devices else Judge


def _verdict(number):
    """Return the verdict about the rule with the index `number` in `_shared`, or None if no time is left."""
    rules, arguments, end = _shared
    if end is not None and time.monotonic() > end:
        return None
    one = rules[number]
    return _judge_of(one)(one, EFFORTS[arguments.effort], arguments.seed).run()


# The rules, the arguments and the end time. They are set before the pool forks, so that its processes inherit them.
_shared = []


def _judged(rules, arguments, done):
    """Return the verdicts, and the names of the rules for which no time was left."""
    end = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    _shared[:] = rules, arguments, end
    verdicts = []

    def add(verdict):
        if verdict is not None:
            done(verdict)
            verdicts.append(verdict)

    here, elsewhere = range(len(rules)), ()
    if arguments.processes > 1 and hasattr(os, "fork"):
        # Test rules about devices in this process: a forked process cannot use a device that its parent opened.
        here, elsewhere = ([i for i in here if rules[i].on_devices is on_devices] for on_devices in (True, False))
    if elsewhere:
        with ProcessPoolExecutor(arguments.processes, mp_context=multiprocessing.get_context("fork")) as pool:
            for verdict in pool.map(_verdict, elsewhere):
                add(verdict)
    for number in here:
        add(_verdict(number))
    judged = {verdict.name for verdict in verdicts}
    return verdicts, [one.name for one in rules if one.name not in judged]


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
        Exit status: 0 if no difference was found, 1 if a difference was found, 2 for an error in the command line.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed the reason
        return stop.code or 0
    if arguments.processes < 1:
        sys.stderr.write("theano_ng.audit.rewrites: --processes is %d; it has to be positive\n" % arguments.processes)
        return 2
    try:
        rules, kept = _wanted(arguments)
    except UsageError as failure:
        sys.stderr.write("theano_ng.audit.rewrites: %s\n" % failure)
        return 2

    def done(verdict):
        if arguments.json != "-" and (verdict.findings or not arguments.quiet):
            print(page.text_of(verdict), flush=True)

    verdicts, left = _judged(rules, arguments, done)
    if arguments.json:
        _write(arguments.json, json.dumps(page.to_json(verdicts, arguments.seed), indent=1) + "\n")
    if arguments.page:
        _write(arguments.page, page.page(verdicts, kept))
    if arguments.json != "-":
        print(page.summary(verdicts) if rules else "the page lists all rules")
        if left:
            print("the time limit left %d rules untested: %s" % (len(left), ", ".join(left)))
    return 1 if any(verdict.findings for verdict in verdicts) else 0


def _write(path, text):
    if path == "-":
        sys.stdout.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
