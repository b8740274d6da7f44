"""The check that results depend on the inputs alone: not on earlier calls, on other functions, or on other threads."""

import sys
import threading
import time

import numpy as np

from theano_ng.audit import generate
from theano_ng.audit.forms import copied
from theano_ng.audit.line_coverage import Interruption, python_code
from theano_ng.audit.problems import Problem, Reject, one_line
from theano_ng.audit.runners import Unbuildable, make_runner
from theano_ng.audit.running import FILLS, good_together, run_or_error
from theano_ng.audit.value_checks import compared, difference, different, first_difference, runner_or_none

#: Time in seconds for which two threads call functions, and the maximum number of pairs of examples for which they do.
THREAD_SECONDS, MOST_PAIRS = 0.05, 8
#: The maximum number of lines of `perform` at which a call is interrupted by another call.
MOST_INTERRUPTIONS = 24
#: Number of repeated calls of an Op that uses OpenMP.
OPENMP_CALLS = 30
#: Seconds after which a thread switches to another thread while threads are tested.
SWITCH_INTERVAL = 1e-6

_KINDS = (("py", "perform"), ("c", "c_code"))


def check_state(context):
    """Check that a result does not depend on the calls before, nor on calls of another function in another thread.

    An input array whose content changed between two calls must give the result for its new content.

    Parameters
    ----------
    context : Context

    Returns
    -------
    Verdict
    """
    previous, pairs = {}, []

    def attempt(example):
        applied = False
        for kind, method in _KINDS:
            if kind == "c" and runner_or_none(context, example.built) is None:
                continue
            expected, again = [run_or_error(context, kind, example, plain=True, fill=byte) for byte in FILLS]
            if expected is None or isinstance(expected, Exception) or isinstance(again, Exception):
                continue
            if first_difference(example.built.node.outputs, expected, again) is not None:
                continue  # the checks perform and c_code report that the Op is not deterministic, or reads fresh memory
            applied = True
            where = context.target.location(method)
            _after_change_in_place(context, kind, method, example, where)
            if getattr(example.built.op, "openmp", None) and kind == "c":
                _in_many_calls(context, example, expected, where)
            other = previous.get((kind, example.built.index))
            if other is not None and other.key() != example.key() and len(pairs) < MOST_PAIRS:
                pairs.append((other, example))
                if kind == "py":
                    _interrupted(example.built.op, *_two_tasks(other, example, kind), where)
                else:
                    _in_two_threads(*_two_tasks(other, example, kind), where)
            previous[kind, example.built.index] = example
        if not applied:
            raise Reject()

    return context.find(attempt, _stages(context))


def _stages(context):
    """Return stages with a few examples of several lengths, because each example costs many calls."""
    target, base = context.target, context.target.base
    stages = [generate.Stage(base, 1)]
    if any(slot.varied for slot in target.slots) and context.max_examples > 0:
        if target.varies("content"):
            stages.append(generate.Stage(base, 4, contents=("small", "equal")))
        if target.varies("length"):
            shapes = generate.long_shapes(target, base)[-3:]
            stages.append(generate.Stage(base, 3, lengths=("tied",)))
            if shapes:
                stages.append(generate.Stage(base, len(shapes), shapes=shapes))
        stages += [generate.Stage(built, 2, contents=("given", "small")) for built in target.built[1:4]]
        stages += [generate.Stage(built, 2, contents=("given", "small")) for built in target.neighbours]
    return stages


def _new_runner(built, kind):
    try:
        return make_runner(built, kind)
    except Unbuildable:
        raise Reject() from None  # the check c_code reports this


def _filtered(built, values):
    """Return values in the form in which a runner passes them to the Op, so that it passes the same objects."""
    return [variable.type.filter(value) for variable, value in zip(built.variables, values)]


def _after_change_in_place(context, kind, method, example, where):
    """Call one function twice with the same arrays, whose content changes between the calls."""
    built = example.built
    values = _filtered(built, [copied(v) for v in example.node_values()])
    runner = context.runner(built, kind)
    with np.errstate(all="ignore"):
        first = runner(values)
        changed = [_change(value) for value in values]
        if not any(changed) or not good_together(context.case.tied, values):
            return
        given = [copied(v) for v in values]  # the Op may overwrite its inputs
        try:
            second = runner(values)
        except Exception as failure:
            second = failure
        try:
            expected = _new_runner(built, kind)(given)
        except Exception:
            return  # the Op refuses the changed values
    if isinstance(second, Exception):
        raise Problem(
            "DependsOnState",
            "%s fails after the content of an input array has changed: %s" % (method, one_line(second)),
            str(second),
            where,
        )
    i = different(context, example, expected, second)
    if i is not None:
        stale = first_difference(built.node.outputs[i : i + 1], [first[i]], [second[i]]) is None
        raise Problem(
            "DependsOnState",
            "after the content of an input array has changed, %s returns %s; %s"
            % (
                method,
                "the result of the call before" if stale else "another result than a new function",
                compared(expected[i], second[i]),
            ),
            difference(built.node, i, method + " of a new function", expected, method, second, values),
            where,
        )


def _change(value):
    """Change the content of an array to the reversed content. Return True if it is different now."""
    if not isinstance(value, np.ndarray) or value.size < 1 or not value.flags.writeable or value.dtype.hasobject:
        return False
    before = value.copy()
    value[...] = value.reshape(-1)[::-1].reshape(value.shape).copy()
    if value.dtype.kind in "fc":
        value *= value.dtype.type(0.5)
    return not np.array_equal(before, value)


def _in_many_calls(context, example, expected, where):
    """Repeat a call of C code that uses several threads."""
    for _ in range(OPENMP_CALLS):
        again = run_or_error(context, "c", example, plain=True)
        i = None if isinstance(again, Exception) else different(context, example, expected, again)
        if i is not None:
            raise Problem(
                "NonDeterministic",
                "C code with OpenMP gives another result in a repeated call; %s" % compared(expected[i], again[i]),
                difference(example.built.node, i, "c_code", expected, "c_code again", again, example.node_values()),
                where,
            )


class _Task:
    """A function of a node, with values and with the outputs that it must return."""

    def __init__(self, example, kind):
        self.example, self.runner = example, _new_runner(example.built, kind)
        self.values = [copied(v) for v in example.node_values()]
        self.expected = self.run()
        if isinstance(self.expected, Exception):
            raise Reject()

    def run(self):
        """Return the outputs, or the exception that the Op raises."""
        try:
            with np.errstate(all="ignore"):
                return self.runner([copied(v) for v in self.values])
        except Exception as failure:
            return failure

    def check(self, outputs, method, when, where):
        """Raise Problem if outputs differ from the expected ones. `when` completes the message."""
        if isinstance(outputs, Exception):
            raise Problem(
                "DependsOnState", "%s fails %s: %s" % (method, when, one_line(outputs)), str(outputs), where
            ) from None
        node = self.example.built.node
        i = first_difference(node.outputs, self.expected, outputs)
        if i is not None:
            raise Problem(
                "DependsOnState",
                "%s gives another result %s; %s" % (method, when, compared(self.expected[i], outputs[i])),
                difference(node, i, method, self.expected, "%s %s" % (method, when), outputs, self.values),
                where,
            )


def _two_tasks(one, other, kind):
    return _Task(one, kind), _Task(other, kind)


_TWO_FUNCTIONS = "if another function computes the Op at the same time"


def _interrupted(op, task, other, where):
    """Call `perform` with an interruption before each of its lines, by a call of another function.

    Another thread may run at these places. Interruptions show the consequences independently of the load of the machine.
    """
    if python_code(op) is None or sys.gettrace() is not None:
        return
    with Interruption(op, -1, None) as trace:
        task.run()
    for place in np.unique(np.linspace(0, trace.lines - 1, min(trace.lines, MOST_INTERRUPTIONS)).astype(int)):
        seen = []
        with Interruption(op, place, lambda seen=seen: seen.append(other.run())):
            outputs = task.run()
        task.check(outputs, "perform", _TWO_FUNCTIONS, where)
        for outputs in seen:
            other.check(outputs, "perform", _TWO_FUNCTIONS, where)


def _in_two_threads(one, other, where):
    """Call C code in two threads, with different values, and compare with the results without threads."""
    found, start = [], threading.Barrier(2)

    def work(task):
        start.wait()
        end = time.perf_counter() + THREAD_SECONDS
        while time.perf_counter() < end and not found:
            outputs = task.run()
            if (
                isinstance(outputs, Exception)
                or first_difference(task.example.built.node.outputs, task.expected, outputs) is not None
            ):
                found.append((task, outputs))

    interval = sys.getswitchinterval()
    threads = [threading.Thread(target=work, args=(task,)) for task in (one, other)]
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for task, outputs in found:
        task.check(outputs, "C code", _TWO_FUNCTIONS, where)
