"""The checks that count references and memory over many calls, also over calls that raise exceptions."""

import gc
import sys
import time
import types

import numpy as np

from theano_ng.audit import generate
from theano_ng.audit.problems import Problem, Reject
from theano_ng.audit.processes import step
from theano_ng.audit.running import good_together
from theano_ng.audit.value_checks import runner_or_none
from theano_ng.gof.graph import Constant

#: The largest and the smallest number of calls over which references are counted, and the time in seconds after which the
#: calls end when there were enough of them.
CALLS, LEAST_CALLS, SECONDS = 1000, 40, 0.5
#: Number of extra references to each object. They keep an object alive if the Op releases too many references.
EXTRA_REFERENCES = 1 << 14
#: The change of the number of references that counts as an error: in each of the calls, or in a part of many calls.
LEAST_CHANGE, LEAST_PART = 0.9 * LEAST_CALLS, 0.05

#: The number of calls in a stretch, which is a series of calls between two measurements of memory; the number of
#: stretches; and the minimum growth in bytes per call that counts as a leak.
STRETCH, STRETCHES, LEAK_BYTES = 60, 5, 8

# Objects inside a value to which other parts of the program refer, too.
_NOT_INSIDE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.dtype, bool)

KINDS = (("py", "perform"), ("c", "c_code"))


def check_references(context):
    """Check that a call does not change the number of references to inputs, outputs, dtypes, params, node and Op.

    Parameters
    ----------
    context : Context

    Returns
    -------
    Verdict
    """
    return _find(context, _References(context))


def check_memory(context):
    """Check that repeated calls leak no memory: neither memory of Python and NumPy, nor memory that C code allocates.

    Parameters
    ----------
    context : Context

    Returns
    -------
    Verdict
    """
    return _find(context, _Memory(context))


def _find(context, attempt):
    gc.collect()
    gc.freeze()  # the existing objects are not examined again in every collection
    try:
        return context.find(attempt, _stages(context))
    finally:
        gc.unfreeze()


def _stages(context):
    """Return stages with a few examples of every kind, because each example costs many calls."""
    target = context.target
    stages = [generate.Stage(target.base, 1)]
    if any(slot.varied_object for slot in target.slots) and target.varies("content") and context.max_examples > 0:
        stages.append(generate.Stage(target.base, 12, objects=True))
    if any(slot.varied for slot in target.slots) and context.max_examples > 0:
        if target.varies("length"):
            stages += [
                generate.Stage(target.base, 1, lengths=("tied",), longest=0),
                generate.Stage(target.base, 3, lengths=("free",)),
            ]
        if target.varies("layout"):
            stages += [generate.Stage(target.base, 1, layouts=(way,)) for way in ("reversed", "fortran", "misaligned")]
        stages += [generate.Stage(built, 1) for built in target.built[1:4] + target.neighbours]
    return stages


class _Calls:
    """Repeated calls of one implementation with one example.

    As in a compiled function, the values are stored in cells, and the thunk is called.

    Parameters
    ----------
    context : Context
    kind : str
        See `runners.make_runner`.
    example : Example

    Attributes
    ----------
    fails : str
        Name of the exception that the calls raise. It is "" if they succeed.
    """

    def __init__(self, context, kind, example):
        runner = runner_or_none(context, example.built, kind)
        if runner is None or not good_together(context.case.tied, example.values):
            raise Reject()
        self.thunk, self.inputs, self.outputs = runner.thunk, runner.inputs, runner.outputs
        built = example.built
        self.destroyed = {
            built.variables.index(built.node.inputs[i])
            for places in (getattr(built.op, "destroy_map", None) or {}).values()
            for i in places
            if built.node.inputs[i] in built.variables
        }
        try:
            self.values = [
                variable.type.filter(value) for variable, value in zip(built.variables, example.node_values())
            ]
        except Exception:
            raise Reject() from None  # the Type refuses the value
        self.own = [[value] * EXTRA_REFERENCES for value in self.values]
        self.counts = [sys.getrefcount(value) for value in self.values]
        self.copies = [_copy(value) if i in self.destroyed else None for i, value in enumerate(self.values)]
        for cell, value in zip(self.inputs, self.values):
            cell[0] = value
        for cell in self.outputs:
            cell[0] = None
        self.fails = ""
        self.fails = self.call()

    def call(self):
        """Call the thunk once and return the name of its exception, or "".

        The outputs stay in the cells for the next call.
        """
        for i in self.destroyed:
            value, copy = self.values[i], self.copies[i]
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value[...] = copy
            elif isinstance(value, list):
                value[:] = _copy(copy)
        step()
        try:
            missing = self.thunk()
            while getattr(self.thunk, "lazy", False) and missing:
                missing = self.thunk()
        except Exception as failure:
            failure.__traceback__ = None  # drop the frames, which hold references to the objects that they used
            return type(failure).__name__
        return ""

    def end(self):
        """Clear the cells, so that only a leak keeps the counted objects alive. Restore missing references."""
        for cell in self.outputs:
            cell[0] = None
        for value, count in zip(self.values, self.counts):
            _restore_references(value, count - sys.getrefcount(value))
        for cell in self.inputs:
            cell[0] = None


def _restore_references(thing, missing):
    """Add `missing` references to an object. Otherwise the object would be freed while it is in use."""
    import ctypes

    for _ in range(missing):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _copy(value):
    if isinstance(value, list):
        return [_copy(element) for element in value]
    return value.copy() if isinstance(value, np.ndarray) else value


# ---------------------------------------------------------------- references


class _References:
    def __init__(self, context):
        self.context = context

    def __call__(self, example):
        applied = False
        for kind, name in KINDS:
            try:
                calls = _Calls(self.context, kind, example)
            except Reject:
                continue
            applied = True
            for problem in _count_references(calls, example.built.node, name):
                problem.location = self.context.target.location(name)
                raise problem
        if not applied:
            raise Reject()


def _count_references(calls, node, name):
    """Return the problems with references in up to `CALLS` calls: first excessive releases, then leaks."""
    problems = [] if calls.fails else _count_output_references(calls, node, name)
    if problems:  # do not count further: a leaked output keeps references to its dtype, and perhaps to inputs
        calls.end()
        return problems
    watched = _watched(calls, node, name)
    own = [[thing] * EXTRA_REFERENCES for _, thing in watched]
    for _ in range(3):  # objects that are created only once are created before the references are counted
        calls.call()
    gc.collect()  # garbage that is not collected yet is not a leak
    before = [sys.getrefcount(thing) for _, thing in watched]
    count, end = 0, time.perf_counter() + SECONDS
    while count < LEAST_CALLS or (count < CALLS and time.perf_counter() < end):
        calls.call()
        count += 1
    gc.collect()
    changes = [sys.getrefcount(thing) - count for (_, thing), count in zip(watched, before)]
    suffix = " that fails (%s)" % calls.fails if calls.fails else ""
    # Report only changes that grow with the number of calls. An output that is an input, or a view of an input, keeps one
    # reference to this input, however often the Op is called.
    for (what, _), change in zip(watched, changes):
        per_call = change / count
        if abs(change) < LEAST_CHANGE or abs(per_call) < LEAST_PART:
            continue
        number = "%g reference%s" % (abs(round(per_call, 2)), "" if abs(round(per_call, 2)) == 1 else "s")
        evidence = "after %d calls there are %d references %s than before" % (
            count,
            abs(change),
            "more" if change > 0 else "fewer",
        )
        if change > 0:
            problems.append(
                Problem("ReferenceLeak", "%s keeps %s to %s in each call%s" % (name, number, what, suffix), evidence)
            )
        else:
            problems.insert(
                0,
                Problem(
                    "ReferenceUnderflow",
                    "%s releases %s to %s too many in each call%s" % (name, number, what, suffix),
                    evidence,
                ),
            )
    for (_, thing), change in zip(watched, changes):
        _restore_references(thing, -change)
    calls.end()
    del own
    return problems


def _watched(calls, node, name):
    """Return pairs (description, object) of all objects whose references a call may change.

    `name` is the method of the Op that is called.
    """
    watched = [("input %d" % i, value) for i, value in enumerate(calls.values)]
    watched += [
        ("the memory under input %d" % i, value.base)
        for i, value in enumerate(calls.values)
        if isinstance(value, np.ndarray) and value.base is not None
    ]
    for i, value in enumerate(calls.values):
        watched += [("%s inside input %d" % (what, i), thing) for what, thing in _inside(value)]
    if name == "c_code":
        # Python code cannot leak a reference to a dtype of NumPy, but arrays that are still alive refer to their dtypes.
        watched += _dtypes(calls, node)
    watched += [("the Constant that is its input", v.data) for v in node.inputs if isinstance(v, Constant)]
    params = getattr(calls.thunk, "params", None)
    if params is not None:
        watched.append(("its params", params))
    watched += [("the Op", node.op), ("the node", node), ("None", None), ("numpy.ndarray", np.ndarray)]
    unique = {}
    for what, thing in watched:
        unique.setdefault(id(thing), (what, thing))
    return list(unique.values())


def _dtypes(calls, node):
    """Return pairs (description, dtype) of the dtypes of inputs and outputs."""
    found = [
        ("the dtype of input %d" % i, value.dtype) for i, value in enumerate(calls.values) if hasattr(value, "dtype")
    ]
    for i, variable in enumerate(node.outputs):
        dtype = getattr(variable.type, "dtype", None)
        if isinstance(dtype, str):
            try:
                found.append(("the dtype of output %d (%s)" % (i, dtype), np.dtype(dtype)))
            except TypeError:
                pass  # not a NumPy dtype
    return [(what, dtype) for what, dtype in found if isinstance(dtype, np.dtype)]


def _inside(value, most=200):
    """Return pairs (description, object) of the objects that a value refers to, directly or through other objects.

    Modules, classes, functions and the elements of arrays are left out. At most `most` objects are returned.
    """
    found, seen, todo = [], {id(value)}, [value]
    while todo and len(found) < most:
        for thing in gc.get_referents(todo.pop(0)):
            if id(thing) in seen or isinstance(thing, _NOT_INSIDE):
                continue
            seen.add(id(thing))
            found.append(("the %s" % type(thing).__name__, thing))
            if not isinstance(thing, np.ndarray):
                todo.append(thing)
    return found


def _count_output_references(calls, node, name):
    """Return the problems with references to new outputs.

    Only the storage cell may have a reference to a new output.
    """
    problems = []
    known = {id(value) for value in calls.values} | {id(v.data) for v in node.inputs if isinstance(v, Constant)}
    kept = [[] for _ in calls.outputs]
    for _ in range(6):
        for cell in calls.outputs:
            cell[0] = None
        calls.call()
        for values, cell in zip(kept, calls.outputs):
            values.append(cell[0])
            cell[0] = None
    gc.collect()
    for i, values in enumerate(kept):
        if not isinstance(values[0], np.ndarray) or len({id(value) for value in values} - known) < len(values):
            continue  # the output is no array, or is an input, or several calls return the same object
        elsewhere = sum(
            any(value is other for other in others) for k, others in enumerate(kept) if k != i for value in values
        )
        # One reference is in the list, and one is the argument of getrefcount. The Op may keep its last output, so only
        # the references to earlier outputs count.
        more = min(sys.getrefcount(values[k]) - 2 for k in range(len(values) - 1))
        if more >= 1 and not elsewhere:
            problems.append(
                Problem(
                    "ReferenceLeak",
                    "%s keeps %g reference%s to output %d in each call" % (name, more, "" if more == 1 else "s", i),
                    "after cell and caller have released the output, %d reference%s remain"
                    % (more, " is" if more == 1 else "s are"),
                )
            )
    return problems


# ---------------------------------------------------------------- memory


class _Memory:
    def __init__(self, context):
        self.context = context
        self.system = _system_bytes()

    def __call__(self, example):
        applied = False
        for kind, name in KINDS:
            try:
                calls = _Calls(self.context, kind, example)
            except Reject:
                continue
            applied = True
            problem = self._measure(calls, name)
            calls.end()
            if problem is not None:
                problem.location = self.context.target.location(name)
                raise problem
        if not applied:
            raise Reject()

    def _measure(self, calls, name):
        suffix = " that fails (%s)" % calls.fails if calls.fails else ""
        for label, measure in (
            ("Python objects and array data (tracemalloc)", _traced),
            ("the C heap (mallinfo2)", self.system),
        ):
            if measure is None:
                continue
            growth = _growth(calls, measure, STRETCH, STRETCHES)
            if growth < LEAK_BYTES:
                continue
            # Measure again over more calls, to exclude memory that a cache or the allocator takes only once.
            again = _growth(calls, measure, 3 * STRETCH, STRETCHES)
            if again < LEAK_BYTES or again < growth / 3:
                continue
            where = _top_lines(calls) if measure is _traced and name == "perform" else ""
            return Problem(
                "MemoryLeak",
                "%s leaks %.0f bytes in each call%s" % (name, again, suffix),
                "%s: %.1f bytes per call over %d calls, the minimum of %d series%s"
                % (label, again, 3 * STRETCH * STRETCHES, STRETCHES, "\n" + where if where else ""),
            )
        return None


def _growth(calls, measure, stretch, stretches):
    """Return the growth of memory in bytes per call: the minimum over several stretches of calls.

    A full garbage collection precedes each measurement.
    """
    import tracemalloc

    traced = measure is _traced
    for _ in range(stretch):
        calls.call()
    if traced:
        tracemalloc.start(1)
    try:
        for _ in range(10):
            calls.call()
        counts = []
        for _ in range(stretches + 1):
            gc.collect()
            counts.append(measure())
            for _ in range(stretch):
                calls.call()
        return min(after - before for before, after in zip(counts, counts[1:])) / stretch
    finally:
        if traced:
            tracemalloc.stop()


def _traced():
    import tracemalloc

    return tracemalloc.get_traced_memory()[0]


def _top_lines(calls):
    """Return a description of the lines of Python code that allocate leaked memory."""
    import tracemalloc

    tracemalloc.start(1)
    try:
        gc.collect()
        before = tracemalloc.take_snapshot()
        for _ in range(STRETCH):
            calls.call()
        gc.collect()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    found = [entry for entry in after.compare_to(before, "lineno") if entry.count_diff >= STRETCH // 2]
    return "\n".join(
        "allocated in %s:%d: %d bytes in %d blocks"
        % (entry.traceback[0].filename, entry.traceback[0].lineno, entry.size_diff, entry.count_diff)
        for entry in found[:3]
    )


def _system_bytes():
    """Return a function that counts the bytes allocated by malloc, or None if the C library has no mallinfo2."""
    import ctypes

    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # not glibc 2.33 or newer
        return None

    class Info(ctypes.Structure):
        _fields_ = [
            (name, ctypes.c_size_t)
            for name in (
                "arena",
                "ordblks",
                "smblks",
                "hblks",
                "hblkhd",
                "usmblks",
                "fsmblks",
                "uordblks",
                "fordblks",
                "keepcost",
            )
        ]

    mallinfo2.restype = Info

    def used():
        info = mallinfo2()
        return info.uordblks + info.hblkhd

    return used
