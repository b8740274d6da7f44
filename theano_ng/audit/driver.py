"""The driver of the audit: the list of all checks, and the functions that run them on a case."""

import functools
import importlib
import numbers
import os
import time
import traceback
from dataclasses import dataclass, replace

from theano_ng.audit.problems import AuditError, Problem, first_line
from theano_ng.audit.processes import Child, end_all, failed, in_child, wait_for_one
from theano_ng.audit.records import Case, Finding, Report, Verdict

#: The parent process waits PATIENCE times the time limit of a check, plus GRACE seconds, before it ends the check.
PATIENCE, GRACE = 2, 150


@dataclass(frozen=True)
class Check:
    """A check of the audit: its name, its function and the property that it checks.

    Attributes
    ----------
    name : str
    run : str
        ``module:function``. The function takes a `Context` and returns a `Verdict`.
    meaning : str
        The property that is checked, in one line.
    option : str
        The parameter of `audit` that turns the check off, or "".
    """

    name: str
    run: str
    meaning: str
    option: str = ""

    def __call__(self, context):
        module, function = self.run.split(":")
        return getattr(importlib.import_module(module), function)(context)


_PACKAGE = "theano_ng.audit."

#: All checks, in the order in which they run.
CHECKS = [
    Check(
        "make_node",
        _PACKAGE + "structure_checks:check_make_node",
        "a second call of make_node with the same inputs gives a new node of the same Op and types",
    ),
    Check("props", _PACKAGE + "structure_checks:check_props", "equality, hash and text of the Op are consistent"),
    Check(
        "pickle",
        _PACKAGE + "structure_checks:check_pickle",
        "the Op, and functions that use it, can be copied and pickled",
    ),
    Check(
        "maps",
        _PACKAGE + "structure_checks:check_maps",
        "destroy_map and view_map are dicts from indices of outputs to lists of indices of inputs",
    ),
    Check(
        "types",
        _PACKAGE + "type_checks:check_types",
        "Types accept, compare and distinguish their values; equality and hash of Types are consistent",
    ),
    Check(
        "cache_version",
        _PACKAGE + "structure_checks:check_cache_version",
        "c_code_cache_version returns a valid tuple; equal Ops have equal versions",
    ),
    Check(
        "output_types", _PACKAGE + "value_checks:check_output_types", "values have the types that make_node declares"
    ),
    Check(
        "perform",
        _PACKAGE + "value_checks:check_perform",
        "perform gives the same values in a second call and for every memory layout, and passes in DebugMode",
    ),
    Check(
        "c_code",
        _PACKAGE + "value_checks:check_c_code",
        "the C code gives the same values as perform for every memory layout, and passes in DebugMode",
    ),
    Check(
        "accuracy",
        _PACKAGE + "accuracy:check_accuracy",
        "results agree with a computation in higher precision in at least half of their digits",
    ),
    Check(
        "state", _PACKAGE + "state_checks:check_state", "results do not depend on earlier calls, nor on other threads"
    ),
    Check(
        "mutation",
        _PACKAGE + "structure_checks:check_mutation",
        "compiling and computing do not change the Op or the node",
    ),
    Check(
        "infer_shape", _PACKAGE + "symbolic_checks:check_infer_shape", "inferred shapes are the shapes of the values"
    ),
    Check(
        "connection_pattern",
        _PACKAGE + "symbolic_checks:check_connection_pattern",
        "floating point inputs that are declared disconnected do not change the outputs",
    ),
    Check("grad", _PACKAGE + "symbolic_checks:check_grad", "gradients agree with finite differences"),
    Check("R_op", _PACKAGE + "symbolic_checks:check_rop", "R_op agrees with directional derivatives"),
    Check(
        "sanitizer",
        _PACKAGE + "sanitizer:check_sanitizer",
        "the C code, compiled with -fsanitize=address,undefined, runs without errors",
        "sanitize",
    ),
    Check("references", _PACKAGE + "leaks:check_references", "reference counts do not change over many calls", "leaks"),
    Check("memory", _PACKAGE + "leaks:check_memory", "memory use does not grow over many calls", "leaks"),
]


#: Properties that a case may exclude like a check, with a reason, by its parameter `skip`.
PROPERTIES = {"zero_signs": "perform and C code give zeros of the same sign"}


def select(checks=None, **options):
    """Return the checks to run.

    Parameters
    ----------
    checks : str or collection of str, optional
        Names of checks. Default: all checks.
    **options : bool
        ``NAME=False`` excludes the checks whose attribute `option` is NAME: ``sanitize=False``, ``leaks=False``.
        The options have no effect if `checks` is given.

    Raises
    ------
    ValueError
        If `checks` contains an unknown name.
    """
    if isinstance(checks, str):
        checks = checks.split(",")
    known = [check.name for check in CHECKS]
    unknown = [name for name in checks or () if name not in known]
    if unknown:
        raise ValueError("there is no check %s; the checks are: %s" % (", ".join(map(repr, unknown)), ", ".join(known)))
    return [
        check for check in CHECKS if (check.name in checks if checks is not None else options.get(check.option, True))
    ]


def as_case(op_or_case, inputs=()):
    """Return a `Case`: the argument itself, or a new case for an Op and its inputs.

    Instead of an Op, a callable or an Op class without constructor arguments may be given.
    """
    if isinstance(op_or_case, Case):
        if inputs:
            raise TypeError("a Case contains its own inputs; %d more were given" % len(inputs))
        return op_or_case
    from theano_ng.gof.op import PureOp  # a slow import that a Case does not need

    if isinstance(op_or_case, type) and issubclass(op_or_case, PureOp):
        op_or_case = op_or_case()
    if not callable(op_or_case):
        raise TypeError("an audit takes a Case, an Op or a callable that returns variables, not %r" % (op_or_case,))
    return Case(op_or_case, inputs)


def audit(
    op_or_case,
    *inputs,
    checks=None,
    max_examples=50,
    seed=0,
    sanitize=True,
    leaks=True,
    progress=None,
    time_limit=None,
    isolate=True,
    processes=1,
):
    """Run the checks on an Op and report all errors that they find.

    Parameters
    ----------
    op_or_case : Case, Op or callable
    *inputs
        Example inputs of an Op; see `Case`. An Op that declares `itypes` needs none.
    checks : str or collection of str, optional
        Names of checks; see `CHECKS`. Default: all checks.
    max_examples : int
        Number of random examples per check, in addition to the systematic examples.
    seed : int
        Seed of all random choices. Equal seeds give equal reports.
    sanitize, leaks : bool
        Whether to run the check that builds the C code with sanitizers, and the checks of reference counts and memory
        use. These parameters have no effect if `checks` is given.
    progress : callable, optional
        ``progress(case, check, index, total, verdict)`` is called before each check, with the verdict None, and
        after each check, with its verdict. `index` is the number of checks that have ended.
    time_limit : float, optional
        Seconds for all checks of the case together. Each check gets an equal part of the remaining time.
    isolate : bool
        If True, each check runs in a forked process if the system can fork. A crash of C code is then a finding.
    processes : int
        The number of checks that run at the same time, if each of them runs in a forked process.

    Returns
    -------
    Report

    Raises
    ------
    ImportError
        If Hypothesis is not installed.
    TypeError, ValueError
        If the Op refuses the inputs, if its nodes cannot be made, or if `checks` or an option of the case is not valid.
    AuditError
        If a check itself fails. The message contains its stack.
    """
    from theano_ng.audit.generate import VARIATIONS, require_hypothesis  # needs tensor
    from theano_ng.audit.stacks import raised
    from theano_ng.audit.targets import Target
    from theano_ng.compile import debugmode  # noqa: F401  (import once, not in the process of each check)
    from theano_ng.gof.optdb import load

    require_hypothesis()
    case = as_case(op_or_case, inputs)
    start = time.perf_counter()
    chosen = select(checks, sanitize=sanitize, leaks=leaks)
    _refuse_bad_options(case, VARIATIONS)
    apart = isolate and hasattr(os, "fork")
    if apart:
        _try_nodes(case, functools.partial(Target, case, seed))
    try:
        target = Target(case, seed)
    except (TypeError, ValueError):
        raise
    except Exception as failure:  # from another method of the Op than make_node
        raise ValueError("%s cannot be examined: %s" % (case.name, raised(failure, case.op))) from failure
    if not target.is_computable:
        raise ValueError("%s cannot be examined: it has neither perform, nor C code, nor make_thunk" % case.name)
    load()  # load the rules once, not in the process of each check

    def limit_of(count):
        """Return the time limit for the next of `count` checks that are left."""
        if time_limit is None:
            return None
        return max((time_limit - (time.perf_counter() - start)) / count * min(processes, count), 0.1)

    run = _Run(target, max_examples, seed, progress, len(chosen))
    if apart:
        verdicts = run.in_processes(chosen, processes, limit_of)
    else:
        verdicts = [run.here(check, limit_of(len(chosen) - k)) for k, check in enumerate(chosen)]
    return Report(case.name, target.op_text, tuple(verdicts), time.perf_counter() - start)


def _refuse_bad_options(case, variations):
    """Raise TypeError or ValueError for a value of an option that would have no effect or let the checks fail."""
    if not isinstance(case.skip, dict):
        raise TypeError(
            "skip is %r; it has to be a dict from the name of a check to the reason, such as "
            '{"grad": "the gradient is clipped"}' % (case.skip,)
        )
    select([name for name in case.skip if name not in PROPERTIES])
    if case.vary is not None:
        if isinstance(case.vary, str):
            raise TypeError("vary is %r; it has to be a collection of names, such as (%r,)" % (case.vary, case.vary))
        unknown = [name for name in case.vary if name not in variations]
        if unknown:
            raise ValueError(
                "vary contains %s; the names are: %s" % (", ".join(map(repr, unknown)), ", ".join(variations))
            )
    if case.tied is not None and not callable(case.tied):
        raise TypeError("tied is %r; it has to be a function of the list of values" % (case.tied,))
    if case.tolerance is not None and not isinstance(case.tolerance, numbers.Real):
        raise TypeError("tolerance is %r; it has to be a number" % (case.tolerance,))


def _try_nodes(case, make):
    """Make the nodes of a case in a forked process. Raise ValueError if the process dies, or does not end."""
    from theano_ng.audit.stacks import place_in

    def quiet():
        try:
            make()
        except Exception:
            pass  # the caller makes the nodes again, and raises this exception

    ending = in_child(quiet, steps=1)
    if ending.how != "ended":
        place = place_in(ending.stack, case.op)
        raise ValueError(
            "%s cannot be examined. The process that made its nodes died: %s%s. make_node has to return an Apply node, or "
            "to raise an exception such as TypeError" % (case.name, ending.how, place and ", at " + place)
        )


def run(cases, **options):
    """Audit several cases. For the other parameters, see `audit`.

    Returns
    -------
    list of Report
    """
    return [audit(case, **options) for case in cases]


def assert_audit(op_or_case, *inputs, **options):
    """Audit an Op in a test suite, and raise an exception if an error is found. For the parameters, see `audit`.

    Raises
    ------
    AssertionError
        The message is the table of verdicts.
    """
    report = audit(op_or_case, *inputs, **options)
    if not report.ok:
        from theano_ng.audit.report import format_table  # imported only if something is wrong

        raise AssertionError("\n" + format_table([report]))
    return report


# ------------------------------------------------- one check


class _Run:
    """The checks of one case.

    Parameters
    ----------
    target : Target
    max_examples, seed : int
    progress : callable or None
        See `audit`.
    total : int
        The number of checks.
    """

    def __init__(self, target, max_examples, seed, progress, total):
        self.target, self.max_examples, self.seed, self.total = target, max_examples, seed, total
        self.progress = progress or (lambda *event: None)
        self.ended = 0

    def here(self, check, limit):
        """Run a check in this process, and return its verdict."""
        self._begin(check)
        start = time.perf_counter()
        return self._end(check, self._skipped(check, None) or self._verdict(check, limit, False), start)

    def in_processes(self, checks, processes, limit_of):
        """Run checks in forked processes, some of them at the same time, and return the verdicts in order.

        If the process of a check dies, the check runs again with a separate process for each example. The second run
        finds the example that kills the process. If a step of a check does not end, its process is ended, and the checks
        that have not yet begun are skipped, because they would wait for the same call. A check that itself fails counts
        as skipped if another check has found an error, which is probably the reason.

        Raises
        ------
        AuditError
            If a check itself fails, and no check finds an error.
        """
        verdicts, waiting, running, endless, failure = {}, list(enumerate(checks)), {}, None, None
        try:
            while waiting or running:
                while waiting and len(running) < processes:
                    number, check = waiting.pop(0)
                    self._begin(check)
                    start, skipped = time.perf_counter(), self._skipped(check, endless)
                    if skipped is not None:
                        verdicts[number] = self._end(check, skipped, start)
                        continue
                    limit = limit_of(len(waiting) + 1)
                    child = Child(
                        functools.partial(self._verdict, check, limit, False),
                        None if limit is None else PATIENCE * limit + GRACE,
                        steps=1,
                    )
                    running[child] = number, check, start, limit, None
                if not running:
                    continue
                child, ending = wait_for_one(list(running))
                number, check, start, limit, died = running.pop(child)
                verdict = ending.answer
                if ending.how == "failed":
                    failure = failure or failed(ending)
                    reason = "the check itself failed: %s" % ending.answer.strip().splitlines()[-1]
                    verdict, died = Verdict(check.name, "skipped", reason=reason), None
                if ending.late:
                    verdict, died = Verdict(check.name, "skipped", reason="the time is over: %s" % ending.how), None
                if ending.endless:
                    died, endless = died or ending, check
                if verdict is None and died is None:
                    again = Child(
                        functools.partial(self._verdict, check, limit, True),
                        None if limit is None else 2 * PATIENCE * limit + GRACE,
                        steps=2,
                    )
                    running[again] = number, check, start, limit, ending
                    continue
                if died is not None and (verdict is None or verdict.status != "failed"):
                    verdict = self._crashed(check, died)
                verdicts[number] = self._end(check, verdict, start)
        finally:
            end_all(running)
        if failure is not None and all(verdict.status != "failed" for verdict in verdicts.values()):
            raise failure
        return [verdicts[number] for number in range(len(checks))]

    def _begin(self, check):
        self.progress(self.target.case.name, check.name, self.ended, self.total, None)

    def _end(self, check, verdict, start):
        verdict = replace(verdict, seconds=time.perf_counter() - start)
        self.ended += 1
        self.progress(self.target.case.name, check.name, self.ended, self.total, verdict)
        return verdict

    def _skipped(self, check, endless):
        """Return the verdict of a check that shall not run, or None. `endless` is a check that did not end, or None."""
        skip = self.target.case.skip
        if check.name in skip:
            return Verdict(check.name, "skipped", reason=skip[check.name])
        if endless is not None:
            return Verdict(check.name, "skipped", reason="not run, because the check %s did not end" % endless.name)
        return None

    def _verdict(self, check, limit, apart):
        from theano_ng.audit.context import Context  # needs Hypothesis

        return _judge(check, Context(self.target, check.name, self.max_examples, self.seed, limit, apart))

    def _crashed(self, check, ending):
        """Return the verdict of a check whose process died."""
        target = self.target
        finding = Finding(
            check.name,
            "EndlessLoop" if ending.endless else "Crash",
            "the process that ran this check %s: %s" % ("was ended" if ending.endless else "died", ending.how),
            ending.note,
            ending.stack,
            target.place_in(ending.stack),
        )
        return Verdict(check.name, "failed", findings=(finding,))


def _judge(check, context):
    """Return the verdict of a check.

    A `Problem` that the check raises is a finding without an example, and so is another exception that comes from a
    method of the Op.
    """
    try:
        return check(context)
    except Problem as problem:  # raised outside of `find`, so no input is known
        return context.failed([context.finding(problem)])
    except AuditError:
        raise
    except Exception as failure:
        from theano_ng.audit.stacks import place_of  # needed in this case only

        place = place_of(failure, context.op)
        if not place:
            raise
        message = "%s: %s" % (type(failure).__name__, first_line(failure))
        evidence = "".join(traceback.format_exception(failure))
        return context.failed([context.finding(Problem("UnexpectedError", message, evidence, place))])
