"""Checks that compare the outputs of `perform` and of C code, for every input layout and kind of output storage."""

from dataclasses import replace

import numpy as np

from theano_ng.audit.c_coverage import CCoverage
from theano_ng.audit.conditioning import explained_by_rounding
from theano_ng.audit.forms import copied
from theano_ng.audit.line_coverage import LineCoverage
from theano_ng.audit.problems import Problem, Reject, first_line, one_line
from theano_ng.audit.processes import limited
from theano_ng.audit.running import FILLS, TOO_LARGE, run_or_error, without_destroyed
from theano_ng.compile.debugmode.errors import AddressError, BadThunkOutput, DebugModeError
from theano_ng.compile.debugmode.tracking import check_eq
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.type import Generic
from theano_ng.tensor.type import TensorType

#: Units in the last place by which two implementations may differ in an element without further explanation: functions of
#: libm and NumPy's vectorized functions have errors of a few units.
ULPS = 32


def first_difference(variables, one, other):
    """Return the index of the first output whose values in `one` and `other` differ, or None if all agree."""
    for i, (r, a, b) in enumerate(zip(variables, one, other)):
        try:
            with np.errstate(all="ignore"):
                if not check_eq(r, a, b):
                    return i
        except Exception:
            return i  # the values cannot be compared
    return None


def different(context, example, one, other, exact=False):
    """Return the index of the first output whose values differ by more than rounding explains, or None.

    Two values differ if their Type says so, if they are more than `ULPS` units in the last place apart, or if only one
    of two zeros is negative. The module `conditioning` tests whether rounding explains a difference.

    Parameters
    ----------
    context : Context
    example : Example
    one, other : list
        The outputs of two runs.
    exact : bool
        If True, both runs do the same operations on the same memory, so rounding explains no difference.
    """
    outputs = example.built.node.outputs
    if exact:
        return first_difference(outputs, one, other)
    values = example.node_values()
    signs = "zero_signs" not in context.case.skip and without_underflow(values)
    for i, (variable, a, b) in enumerate(zip(outputs, one, other)):
        ulps = _allowance(values, a)
        if first_difference([variable], [a], [b]) is None and not far_apart(a, b, signs, ulps).any():
            continue
        if not is_rounding_noise(context, example, i, a, b, signs, ulps):
            return i
    return None


def _allowance(values, output):
    """Return the units in the last place of `output` by which two implementations may differ without explanation.

    It is infinite if an input has fewer digits than the output. Such Ops often compute in the lower precision, also with
    small integers: the exponential of int8 is computed in float32.
    """
    if not isinstance(output, np.ndarray) or output.dtype.kind not in "fc":
        return ULPS
    digits = np.finfo(output.dtype).nmant
    for value in values:
        if isinstance(value, np.ndarray) and _digits(value.dtype) < digits:
            return np.inf
    return ULPS


def _digits(dtype):
    """Return the bits of the mantissa in which functions of numbers of a dtype are computed."""
    if dtype.kind in "fc":
        return np.finfo(dtype).nmant
    return np.finfo("float32" if dtype.kind in "iu" and dtype.itemsize < 4 else "float64").nmant


def without_underflow(values):
    """Return True if products of two of the values are neither denormal nor rounded to zero."""
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            size = np.abs(value[(value != 0) & np.isfinite(value)])
            if size.size and size.min() < 4 * np.sqrt(float(np.finfo(value.dtype).tiny)):
                return False
    return True


def far_apart(one, other, signs=True, ulps=ULPS):
    """Return an array that is True for elements that differ by more than `ulps` units, and for zeros of unequal signs.

    If `signs` is False, the signs of zeros are not compared. The array is False for values that are not floating-point
    arrays of one dtype and shape, and for elements that are not finite. `check_eq` compares these.
    """
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return np.zeros(())
    if one.dtype != other.dtype or one.shape != other.shape or one.dtype.kind not in "fc":
        return np.zeros(())
    with np.errstate(all="ignore"):
        info = np.finfo(one.dtype)
        room = ulps * np.maximum(info.eps * np.maximum(np.abs(one), np.abs(other)), info.smallest_subnormal)
        apart = np.abs(one - other) > room
        return apart | _other_zero(one, other) if signs else apart


def _other_zero(one, other):
    """Return an array that is True for the elements that are zero in both arrays, but with unequal signs."""
    if one.dtype.kind != "f":
        return np.zeros(one.shape, bool)
    return (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))


def is_rounding_noise(context, example, i, one, other, signs=False, ulps=ULPS):
    """Return True if rounding explains the difference between the values `one` and `other` of output `i`.

    If `signs` is True, it does not explain zeros of unequal signs.
    """
    run = context.runner(example.built, "any")
    explained = explained_by_rounding(run, [copied(v) for v in example.node_values()], i, one, other)
    if explained is None:
        return False
    if signs:
        explained &= ~_other_zero(one, other)
    rest = np.where(explained, one, other)
    return (
        first_difference(example.built.node.outputs[i : i + 1], [one], [rest]) is None
        and not far_apart(one, rest, signs, ulps).any()
    )


def difference(node, i, name1, one, name2, other, values):
    """Return the evidence that two runs differ in output i, in the format of DebugMode."""
    return str(BadThunkOutput(node.outputs[i], name1, one[i], name2, other[i], values))


# ------------------------------------------------- types of outputs


def check_output_types(context):
    """Check that the outputs of each implementation have the types that make_node declares."""
    location = context.target.location("make_node")

    def attempt(example):
        for kind, method in (("py", "perform"), ("c", "c_code")):
            outcome = (
                run_or_error(context, kind, example) if kind == "py" or runner_or_none(context, example.built) else None
            )
            if outcome is None:
                continue
            if isinstance(outcome, Exception):
                raise Reject()
            for i, (variable, value) in enumerate(zip(example.built.node.outputs, outcome)):
                problem = wrong_type(variable.type, value)
                if problem:
                    raise Problem(
                        "BadOutputType",
                        "output %d of %s %s" % (i, method, problem),
                        "node %s\ndeclared %s\nvalue %r" % (example.built.node, variable.type, value),
                        context.target.location(method) or location,
                    )

    if context.runner(context.target.base, "py") is None and runner_or_none(context, context.target.base) is None:
        return context.skipped("the Op has neither perform nor C code")
    return context.find(attempt, contents=False)


def wrong_type(kind, value):
    """Return the reason why a value is not a valid value of a Type, or "" if it is valid."""
    if value is None and not kind.is_valid_value(None):
        return "was never set"
    if hasattr(kind, "broadcastable") and hasattr(kind, "dtype"):
        # Device arrays are not NumPy arrays: their Type decides if they are valid.
        if not isinstance(value, np.ndarray) and (isinstance(kind, TensorType) or not kind.is_valid_value(value)):
            return "is %s, not an array" % type(value).__name__
        if str(value.dtype) != kind.dtype:
            return "has dtype %s, but %s is declared" % (value.dtype, kind.dtype)
        if value.ndim != kind.ndim:
            return "has %d dimensions, declared %d" % (value.ndim, kind.ndim)
        for axis, (one, n) in enumerate(zip(kind.broadcastable, value.shape)):
            if one and n != 1:
                return "has length %d along dimension %d, which is declared broadcastable" % (n, axis)
    if not kind.is_valid_value(value):
        return "is not a valid value of %s: %s" % (kind, first_line(kind.value_validity_msg(value)))
    return ""


def runner_or_none(context, built, kind="c"):
    """Return the runner of an implementation. Return None if the implementation does not exist or cannot be built.

    `check_c_code` reports failed builds.
    """
    try:
        return context.runner(built, kind)
    except Problem:
        return None


# ------------------------------------------------- DebugMode


class Reader(Op):
    """An Op that reads values. DebugMode finds undeclared aliases among outputs only if a node reads the outputs."""

    __props__ = ()

    def make_node(self, *inputs):
        return Apply(self, list(inputs), [Generic()()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = "read"


class DebugRun:
    """A function whose graph contains the audited node. It runs in DebugMode, and is called with example values.

    Parameters
    ----------
    context : Context
    built : Built
    py, c : bool
        Whether the Python implementation and the C code run.
    """

    def __init__(self, context, built, py, c):
        from theano_ng.compile import In, Out, function
        from theano_ng.compile.debugmode import DebugMode
        from theano_ng.configdefaults import config
        from theano_ng.configparser import change_flags

        mode = DebugMode(
            optimizer=None,
            stability_patience=1,
            check_py_code=py,
            check_c_code=c,
            check_isfinite=False,
            check_preallocated_output=["ALL"],
            require_matching_strides=0,
        )
        inputs = [In(v, borrow=True, mutable=True) for v in built.variables]
        outputs = [Out(v, borrow=True) for v in built.node.outputs]
        if len(outputs) > 1:
            outputs.append(Out(Reader()(*built.node.outputs), borrow=True))
        # DebugMode tries every combination of strides for this number of dimensions. More than two take too long.
        dimensions = min(config.DebugMode.check_preallocated_output_ndim, 2)
        flags = {"DebugMode.warn_input_not_reused": False, "DebugMode.check_preallocated_output_ndim": dimensions}
        with change_flags(flags):
            self.function = function(inputs, outputs, mode=mode, accept_inplace=True, on_unused_input="ignore")
        self.context, self.built = context, built

    def __call__(self, example, where):
        """Run an example. If DebugMode raises an error, raise a Problem that describes the error."""
        values = without_destroyed(self.built, example.node_values())
        try:
            with np.errstate(all="ignore"):
                limited(lambda: self.function(*values))
        except TOO_LARGE:
            raise Reject() from None
        except DebugModeError as failure:
            if self._noise(failure, example):
                return
            raise Problem(type(failure).__name__, summary(failure), str(failure), where) from None
        except Exception as failure:
            raise Problem(
                "BadThunkOutput",
                "fails if its output cells contain arrays of earlier calls, or on DebugMode's copies of the inputs: "
                + one_line(failure),
                str(failure),
                where,
            ) from None

    def _noise(self, failure, example):
        """Return True if DebugMode found a difference that rounding explains."""
        if type(failure) is not BadThunkOutput or failure.hint:
            return False
        there = failure.r.owner  # a copy of the audited node
        return (
            there is not None
            and there.op == self.built.op
            and is_rounding_noise(self.context, example, there.outputs.index(failure.r), failure.val1, failure.val2)
        )


def summary(failure):
    """Describe an exception of DebugMode in one line."""
    parts = [type(failure).__name__]
    if isinstance(failure, AddressError):
        parts = [failure.one_line()]
    elif getattr(failure, "thunk1", None):
        parts = ["%s and %s give different values" % (failure.thunk1, failure.thunk2)]
        parts.append(compared(failure.val1, failure.val2))
    elif hasattr(failure, "perform"):
        parts = ["%s changed input %d, which destroy_map does not declare" % (failure.perform, failure.idx)]
    elif hasattr(failure, "output_idx"):
        shared = ["input %d" % i for i in failure.in_alias_idx or ()]
        shared += ["output %d" % failure.out_alias_idx] if failure.out_alias_idx is not None else []
        parts = [
            "output %d shares memory with %s, which view_map does not declare"
            % (failure.output_idx, " and ".join(shared))
        ]
    elif hasattr(failure, "specific_hint"):
        parts = ["%s: %s" % (failure.hint, first_line(failure.specific_hint))]
    return "; ".join(part for part in parts if part)


def compared(one, other):
    """Describe in a few words how two values differ."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return "%s against %s" % (type(one).__name__, type(other).__name__) if type(one) is not type(other) else ""
    if one.dtype != other.dtype:
        return "dtype %s against %s" % (one.dtype, other.dtype)
    if one.shape != other.shape:
        return "shape %s against %s" % (one.shape, other.shape)
    with np.errstate(all="ignore"):
        differ = ~((one == other) | ((one != one) & (other != other)))
        if one.dtype.kind in "fc":
            for far in (differ & ~np.isclose(one, other, rtol=1e-4), far_apart(one, other)):
                if far.any():  # leave out small differences if there are large ones
                    differ = far
                    break
    places = np.argwhere(differ)
    if not len(places):
        return ""
    place = tuple(int(k) for k in places[0])
    return "%d of %d elements differ, first at %s: %s and %s" % (
        len(places),
        one.size,
        list(place),
        one[place],
        other[place],
    )


# ------------------------------------------------- perform


def check_perform(context):
    """Check that `perform` gives equal results for all input layouts and in a second call, and passes in DebugMode."""
    if not context.target.has_perform or context.runner(context.target.base, "any") is None:
        return context.skipped("no perform")
    where = context.target.location("perform")
    debug, coverage = {}, LineCoverage(context.op)

    def attempt(example):
        plain = run_or_error(context, "py", example, plain=True)
        with coverage:
            outcome = run_or_error(context, "py", example)
        if outcome is None:
            raise Reject()
        again = run_or_error(context, "py", example)
        _agree(context, outcome, again, "perform", "perform again", example, where, "NonDeterministic")
        _agree(context, plain, outcome, "perform on contiguous copies", "perform", example, where)
        again = run_or_error(context, "py", example, keep=True)
        _agree(
            context, outcome, again, "perform", "perform with the output arrays of the previous call", example, where
        )
        if example.built.index not in debug:
            debug[example.built.index] = DebugRun(context, example.built, True, False)
        debug[example.built.index](example, where)

    return replace(context.find(attempt), note=coverage.summary())


def _agree(context, one, other, name1, name2, example, where, error="BadThunkOutput"):
    """Raise Problem if the outcomes of two runs differ. Raise Reject if both outcomes are exceptions."""
    if isinstance(one, Exception) or isinstance(other, Exception):
        if isinstance(one, Exception) and isinstance(other, Exception):
            raise Reject()
        refusing, fine, failure = (name1, name2, one) if isinstance(one, Exception) else (name2, name1, other)
        raise Problem(
            error, "%s refuses inputs that %s accepts: %s" % (refusing, fine, one_line(failure)), str(failure), where
        )
    i = different(context, example, one, other, error in ("NonDeterministic", "UninitializedOutput"))
    if i is not None:
        raise Problem(
            error,
            "%s and %s give different values; %s" % (name1, name2, compared(one[i], other[i])),
            difference(example.built.node, i, name1, one, name2, other, example.node_values()),
            where,
        )


# ------------------------------------------------- C code


def check_c_code(context):
    """Check that C code returns the same outputs and refuses the same inputs as `perform`, for all input layouts.

    Also run C code in a second call and in DebugMode.
    """
    target = context.target
    if not target.has_c:
        return context.skipped("no C code")
    from theano_ng.configdefaults import config

    if not config.cxx and not hasattr(target.op, "native_code"):
        return context.skipped("no C++ compiler")
    where, python = target.location("c_code"), target.has_perform
    debug, broken, coverage = {}, {}, CCoverage(context)

    def attempt(example):
        built = example.built
        if built.index not in broken:
            broken[built.index] = context.runner(built, "c") is None
        if broken[built.index]:
            raise Reject()
        c = run_or_error(context, "c", example)
        coverage.add(example)
        if python:
            py = run_or_error(context, "py", example, plain=True)
            if isinstance(py, Exception) is not isinstance(c, Exception):
                refusing, fine, failure = (
                    ("perform", "C code", py) if isinstance(py, Exception) else ("C code", "perform", c)
                )
                raise Problem(
                    "PythonCDisagree",
                    "%s refuses inputs that %s accepts: %s" % (refusing, fine, one_line(failure)),
                    str(failure),
                    where,
                )
            _agree(context, py, c, "perform", "C code", example, where)
        plain = run_or_error(context, "c", example, plain=True)
        _agree(context, plain, c, "C code on contiguous copies", "C code", example, where)
        one, two, three = [run_or_error(context, "c", example, fill=byte) for byte in (*FILLS, FILLS[0])]
        _agree(context, one, three, "C code", "C code in a second call", example, where, "NonDeterministic")
        name = "C code with other contents of fresh memory"
        _agree(context, one, two, "C code", name, example, where, "UninitializedOutput")
        again = run_or_error(context, "c", example, keep=True)
        _agree(context, one, again, "C code", "C code with the output arrays of the previous call", example, where)
        if built.index not in debug:
            debug[built.index] = DebugRun(context, built, python, True)
        debug[built.index](example, where)

    verdict = context.find(attempt)
    if verdict.status == "skipped" and broken and all(broken.values()):
        return context.skipped("no C code for these types")
    return replace(verdict, note=coverage.summary())
