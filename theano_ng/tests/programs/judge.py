"""Compiles a program, calls it, and compares the results with the results of its twin."""

import contextlib
import signal
from dataclasses import dataclass, replace

import numpy as np

import theano_ng as theano
from theano_ng.compile.debugmode import BadOptimization, BadThunkOutput
from theano_ng.compile.io import In, Out
from theano_ng.configdefaults import config
from theano_ng.gof.null_type import NullType
from theano_ng.gradient import DisconnectedInputError, NullTypeGradError
from theano_ng.tests.programs import source
from theano_ng.tests.programs.generator import note
from theano_ng.tests.programs.operations import OPERATIONS
from theano_ng.tests.programs.precision import (
    SAMPLES,
    Judged,
    Noise,
    Plain,
    cast_extended,
    cast_plainly,
    extended,
    settle_extended,
    settle_plainly,
    unit,
)
from theano_ng.tests.programs.records import all_nodes

STEPS = tuple([np.longdouble(2.0) ** -k for k in (7, 8, 9)])  # step sizes of Romberg's scheme
SEEDS = (0, 1)  # for each seed, derivatives are computed again with random errors
DERIVATIVE_UNITS = 256.0
# Flags of DebugMode. They are set during calls, because the inner function of a loop reads them at its first call.
AT_CALLS = {"tensor.cmp_sloppy": 2, "DebugMode.check_finite": False}

#: The undefined derivatives that occurred: (kind of derivative, exception) -> count and the first message.
undefined = {}


@dataclass(frozen=True)
class Difference:
    """A difference between the results of a program and the results of its twin, or another failure.

    Attributes
    ----------
    kind : str
        ``numbers``, ``type``, ``raises``, ``bits``, ``argument``, ``derivative``, ``time`` or ``lost error``.
    configuration : str
        The name of the configuration.
    where : str
        The name of the output, update or input. For ``raises``, the name of the exception.
    got, right : str
        Descriptions of the actual result and of the expected result.
    """

    kind: str
    configuration: str
    where: str
    got: str
    right: str

    def __str__(self):
        return "%s of %s in %s: got %s, right %s" % (self.kind, self.where, self.configuration, self.got, self.right)


def short(array):
    """Return a short string of an array."""
    return np.array2string(np.asarray(array), threshold=30, precision=17).replace("\n", "")


# --- expected results
# --------------------------------------------------------------------------------------------------------


class Expectation:
    """The results that the twin computes for a program.

    Parameters
    ----------
    program : Program
    names : dict, optional
        The variables that the generator has created for the program.

    Attributes
    ----------
    calls : list of list of Judged
        The outputs of each call.
    updates : list of Judged
        The updated values after the last call.
    finite : bool
        Whether all inputs and all computed values are finite.
    extreme : bool
        Whether inputs have elements whose products overflow or underflow.
    derivative : (ndarray, ndarray) or None
        The derivative along a direction (for Rop, the derivatives of all outputs), and its allowed error.
    lines : list of str
        The source lines that compute the derivative.
    """

    def __init__(self, program, names=None):
        self.program, self.twin, self._variables, self._names = program, source.twin(program), None, names
        with np.errstate(all="ignore"):
            self._arrays = {one.name: source.plain(one) for one in program.inputs}
            plain = Plain()
            ways = [(plain.settle, cast_plainly), (settle_extended, cast_extended)]
            ways += [(Noise(k).settle, cast_extended) for k in range(SAMPLES)]
            runs = [self._run(*way, plainly=k == 0) for k, way in enumerate(ways)]
            given = [a for a in self._arrays.values() if a.dtype.kind in "fc"]
            self.extreme = program.special and any([_extreme(a) for a in given])
            self.finite = plain.finite and all([np.isfinite(a).all() for a in given])
            outputs = [[outputs for outputs, _ in run] for run in runs]
            self.calls = [
                [Judged(plain, exact, noisy) for plain, exact, *noisy in zip(*of_call)] for of_call in zip(*outputs)
            ]
            last = [run[-1][1] for run in runs]
            self.updates = [Judged(plain, exact, noisy) for plain, exact, *noisy in zip(*last)]
            self.lines, self.derivative = [], None
            if program.derivative:
                self._differentiate()

    def _run(self, settle, cast, plainly=False):
        """Return (outputs, updates) of each call."""
        state = {name: a if plainly else extended(a) for name, a in self._arrays.items()}
        found = []
        for call in range(self.program.calls):
            outputs, updates = self.twin(settle, cast, call, **state)
            state.update({name: value for (name, _), value in zip(self.program.updates, updates)})
            found.append((outputs, updates))
        return found

    def _differentiate(self):
        program, first = self.program, self.calls[0]
        fit = {program.outputs[k]: k for k, one in enumerate(first) if one.plain.dtype.kind == "f" and one.plain.size}
        self._kept = list(fit.values())
        self._wrt = source.differentiable(program)
        if not self._kept or not self._wrt:
            return
        shapes = {program.outputs[k]: first[k].plain.shape for k in self._kept}
        self.lines = source.derivative_lines(program, shapes)
        if any([dict(node.parameters).get("truncate", -1) != -1 for node in all_nodes(program.nodes)]):
            return  # finite differences do not approximate a truncated gradient
        if not program.smooth or not self.finite or self._has_kink():
            return
        places = {place: self._moved(*place) for place in self._places()}
        if len({value.shape for value in places.values()}) > 1:
            return  # no finite differences: the shape of the outputs depends on the values of the inputs
        value, left = self._extrapolated(places)
        coarse = self._quotient(places, None, STEPS[0])
        noisy = [self._quotient(places, seed, STEPS[0]) for seed in SEEDS]
        moved = np.max([np.abs(one - coarse) for one in noisy], axis=0)
        self.derivative = value, 16 * moved + 32 * left

    def _has_kink(self):
        """Return True if a node has operands at which its derivative is a convention, such as `abs` at zero."""
        names = [node.name for node in self.program.nodes]
        outputs, _ = source.twin(replace(self.program, outputs=tuple(names), updates=()))(
            settle_plainly, cast_plainly, 0, **self._arrays
        )
        arrays = {**self._arrays, **dict(zip(names, outputs))}
        kinks = [(OPERATIONS[node.operation].kink, node.operands) for node in self.program.nodes]
        return any([kink is not None and kink(*[arrays[name] for name in operands]) for kink, operands in kinks])

    def _places(self):
        """Return the arguments of all calls of `_moved`: tuples of a seed of errors (or None) and two step sizes."""
        found = [(seed, h) for h in STEPS for seed in (None, *SEEDS) if seed is None or h == STEPS[0]]
        if self.program.derivative == "second":
            return [(seed, i * h, k * h) for seed, h in found for i in (1, -1) for k in (1, -1)]
        return [(None, 0, 0), *[(seed, i * h, 0) for seed, h in found for i in (1, -1)]]

    def _quotient(self, places, seed, h):
        """Return the central difference quotient for a step size."""
        if self.program.derivative == "second":
            corners = [i * k * places[seed, i * h, k * h] for i in (1, -1) for k in (1, -1)]
            return sum(corners) / (4 * h * h)
        return (places[seed, h, 0] - places[seed, -h, 0]) / (2 * h)

    def _extrapolated(self, places):
        """Return the derivative along the direction of `weights` by Romberg's scheme, and an estimate of its error."""
        table = []
        for h in STEPS:
            row = [self._quotient(places, None, h)]
            for k, before in enumerate(table[-1] if table else ()):
                row.append(row[k] + (row[k] - before) / (4 ** (k + 1) - 1))
            table.append(row)
        left = np.abs(table[-1][-1] - table[-2][-1])
        return table[-1][-1], left if self.program.derivative == "second" else left + _kink(places)

    def _moved(self, seed, along, across):
        """Return the cost (for Rop, all outputs) at a point near the inputs."""
        settle = settle_extended if seed is None else Noise(seed).settle
        arrays = {name: extended(a) for name, a in self._arrays.items()}
        for one in self._wrt:
            direction = source.weights(one.shape)
            arrays[one.name] = arrays[one.name] + along * direction + across * np.flip(direction)
        outputs, _ = self.twin(settle, cast_extended, 0, **arrays)
        outputs = [np.asarray(outputs[k]) for k in self._kept]
        if self.program.derivative == "Rop":
            return np.concatenate([o.ravel() for o in outputs])
        return np.asarray(sum([np.sum(o * source.weights(o.shape)) for o in outputs]))

    def variables(self):
        """Return the variables by name, and the derivatives.

        All configurations share the variables if the program has no state.
        """
        if self._variables is None or self._with_state():
            self._variables = self._new_variables()
        return self._variables

    def _with_state(self):
        nodes = all_nodes(self.program.nodes)
        return any([one.role == "shared" for one in self.program.inputs]) or any(
            [OPERATIONS[node.operation].stateful for node in nodes]
        )

    def _new_variables(self):
        made, self._names = self._names, None  # use variables with state for only one function
        return variables_with_derivatives(self.program, self.lines, made)

    def smallest_unit(self):
        """Return the unit in the last place of the least precise floats in the program."""
        nodes = all_nodes(self.program.nodes)
        dtypes = [one.dtype for one in self.program.inputs] + [d for n in nodes for d in (n.dtype, n.rounding) if d]
        return max([unit(dtype) for dtype in dtypes])


def variables_with_derivatives(program, lines, made=None):
    """Return the variables of a program by name, and a list of its derivatives.

    The list is empty if one of the derivatives is not defined.

    Parameters
    ----------
    program : Program
    lines : list of str
        The source lines that create the list `derived` of derivatives. Empty if there are no derivatives.
    made : dict, optional
        The variables of the program, if they have already been created.
    """
    if lines:
        try:
            names = source.variables(program, lines, made)
            derived = [d for d in names["derived"] if d is not None]
            if not any([isinstance(d.type, NullType) for d in derived]):
                return names, derived
            note(undefined, (program.derivative, "NullType"), "")
        except (NotImplementedError, DisconnectedInputError, NullTypeGradError) as error:
            note(undefined, (program.derivative, type(error).__name__), error)
        except (TypeError, ValueError) as error:
            if "Rop" not in str(error) and "complex" not in str(error):
                raise
            note(undefined, (program.derivative, type(error).__name__), error)
    return source.variables(program, (), made), []


def _extreme(array):
    size = np.abs(array[np.isfinite(array) & (array != 0)])
    return bool(np.any((size > EXTREME) | (size < 1 / EXTREME)))


def _kink(places):
    """Return the difference of the one-sided derivatives if a kink is found. Otherwise return 0.

    Near a kink, the difference of the one-sided quotients does not depend on the step size. Elsewhere, it is
    proportional to the step size.
    """
    middle = 2 * places[None, 0, 0]
    coarser, finer = [np.abs(places[None, h, 0] - middle + places[None, -h, 0]) / h for h in STEPS[-2:]]
    found = 2 * finer - coarser
    return np.where(found > 0.5 * coarser, found, 0)


# --- functions ---------------------------------------------------------------------------------------------------------------


class Compiled:
    """A program that is compiled to a function.

    Attributes
    ----------
    function : Function
    shared : list of (Input, SharedVariable)
    state : list of (SharedVariable, value)
        All shared variables of the function, and their values before the first call.
    n_derived : int
        The number of derivatives.
    """

    def __init__(self, program, configuration, expectation):
        self.program, self.configuration, self.expectation = program, configuration, expectation
        with configuration.applied():
            names, derived = expectation.variables()
            self.shared = [(one, names[one.name]) for one in program.inputs if one.role == "shared"]
            self.arguments = [one for one in program.inputs if one.role != "shared"]
            self.n_derived = len(derived)
            outputs = [*[names[name] for name in program.outputs], *derived]
            self.function = theano.function(
                [In(names[one.name], mutable=one.role == "mutable") for one in self.arguments],
                [Out(v, borrow=True) for v in outputs] if program.borrow else outputs,
                updates=[(names[shared], names[new]) for shared, new in program.updates],
                mode=configuration.make_mode(),
            )
            # `get_shared` returns all shared variables, including the states of random streams.
            self.state = [(v, v.get_value()) for v in self.function.get_shared()]

    def call(self, function=None):
        """Restore the state, and make all calls.

        Returns
        -------
        list of list of ndarray
            The results of each call. The last list contains the values of the shared variables that have updates.

        Raises
        ------
        ArgumentChanged
            If an argument that is not mutable was overwritten.
        """
        function = function or self.function
        for variable, value in self.state:
            variable.set_value(value)
        found = []
        for _ in range(self.program.calls):
            arrays = {}
            for one in self.arguments:
                arrays[one.name] = arrays[one.same_as] if one.same_as in arrays else source.array(one)
            with config.change_flags(AT_CALLS):
                results = function(*arrays.values())
            found.append([np.array(r) for r in results])
            for one in self.arguments:
                if (
                    one.role == "argument"
                    and arrays[one.name].tobytes() != source.plain(one).astype(arrays[one.name].dtype).tobytes()
                ):
                    raise ArgumentChanged(one.name)
        by_name = {one.name: variable for one, variable in self.shared}
        found.append([np.array(by_name[name].get_value()) for name, _ in self.program.updates])
        return found


class ArgumentChanged(Exception):
    """The exception for an argument that is not mutable but was overwritten."""


def bits(results):
    """Return the bytes of all results. All NaNs have equal bytes."""
    parts = []
    for array in [a for of_call in results for a in of_call]:
        if array.dtype.kind in "fc":
            array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array).astype(array.dtype)
        parts.append(repr((array.dtype.str, array.shape)).encode() + array.tobytes())
    return b"|".join(parts)


# --- verdicts ----------------------------------------------------------------------------------------------------------------


def compare(compiled, results):
    """Return the first Difference between the results and the results of the twin. Return None if they agree."""
    program, expectation = compiled.program, compiled.expectation
    for k, expected in enumerate(expectation.calls):
        got = results[k][: len(results[k]) - compiled.n_derived]
        for name, array, right in zip(program.outputs, got, expected):
            found = _compared(name, array, right, compiled)
            if found is not None:
                return found
    for (name, _), array, right in zip(program.updates, results[-1], expectation.updates):
        found = _compared(name, array, right, compiled)
        if found is not None:
            return found
    if compiled.n_derived and expectation.derivative is not None:
        return _compare_derivative(compiled, results[0][len(results[0]) - compiled.n_derived :])
    return None


# Operations whose finite results may depend on NaN or infinite operands.
DECIDING = frozenset(
    "switch switch_on_comparison maximum minimum clip relu ifelse ifelse_of_variable loop where_mask max min sort sgn eq neq lt le gt ge"
    " isnan isinf isclose argmax argmin max_and_argmax any all cast cast_to_integers elu".split()
)
# Operations in which a rounding error of an operand, or the sign of a zero, can cause a large change of the result.
JUMPING = DECIDING | frozenset("floor ceil trunc round_half_to_even floor_div_floats mod_floats arctan2".split())
# Reductions whose accumulators are wider than the accumulators of the twin, so that their partial results do not
# overflow.
WIDE_SUMS = frozenset(["sum", "prod", "mean"])
# If factors are larger than this number, or smaller than its inverse, a product may overflow or underflow. The order
# of the factors may decide whether this happens.
EXTREME = 1e18


def _decides(program):
    # Powers with NaN or infinite operands may be finite, too: 1 ** nan is 1, nan ** 0 is 1, and 2 ** -inf is 0.
    return any([node.operation in DECIDING or node.operation == "pow" for node in all_nodes(program.nodes)])


def _rewritten(program, configuration):
    """Return True if rules rewrite the graph or an inner graph. Inner graphs are rewritten in every configuration."""
    return configuration.rewritten or any([node.body is not None for node in program.nodes])


def _may_differ(program, configuration, expectation):
    """Return True if results may differ from the twin, because NaN or overflow may occur at other elements."""
    if expectation.extreme and any([node.operation in WIDE_SUMS for node in all_nodes(program.nodes)]):
        return True
    decided = expectation.extreme or not expectation.finite and _decides(program)
    return decided and _rewritten(program, configuration)


def _lengths_may_differ(program, configuration, expectation):
    """Return True if rewriting may change lengths, such as a number of steps, so that arrays do not fit together."""
    by_rounding = any([one.error is None for of_call in expectation.calls for one in of_call])
    return _may_differ(program, configuration, expectation) or by_rounding and _rewritten(program, configuration)


def _compared(name, got, right, compiled):
    configuration, expectation = compiled.configuration, compiled.expectation
    finite = expectation.finite
    if _may_differ(compiled.program, configuration, expectation):
        return None
    wrong = right.wrong(got, not _rewritten(compiled.program, configuration), finite)
    if wrong is None:
        described = ["%s %s" % (a.dtype, a.shape) for a in (got, right.plain)]
        return Difference("type", configuration.name, name, *described)
    if np.any(wrong):
        return Difference("numbers", configuration.name, name, short(got), short(right.plain))
    return None


def _compare_derivative(compiled, derived):
    program, expectation = compiled.program, compiled.expectation
    right, error = expectation.derivative
    wrt = source.differentiable(program)
    with np.errstate(all="ignore"):
        if program.derivative == "Rop":
            got = np.concatenate([np.asarray(d, np.longdouble).ravel() for d in derived])
            size = np.abs(got)
        else:
            for one, d in zip(wrt, derived):
                if d.shape != one.shape:
                    return Difference("derivative", compiled.configuration.name, one.name, str(d.shape), str(one.shape))
            directions = [
                np.flip(source.weights(one.shape)) if program.derivative == "second" else source.weights(one.shape)
                for one in wrt
            ]
            got = np.asarray(sum([np.sum(np.asarray(d, np.longdouble) * w) for d, w in zip(derived, directions)]))
            size = sum([np.sum(np.abs(d)) for d in derived])
        largest = max(
            [
                1.0,
                *[
                    float(np.max(np.abs(j.exact), initial=0))
                    for j in expectation.calls[0]
                    if j.exact.dtype.kind in "fc"
                ],
            ]
        )
        units = DERIVATIVE_UNITS * expectation.smallest_unit() * (1 + len(program.nodes))
        allowed = error + units * (size + largest)
        if got.shape != right.shape:
            return Difference(
                "derivative", compiled.configuration.name, program.derivative, str(got.shape), str(right.shape)
            )
        judged = np.isfinite(right) & np.isfinite(allowed) & (error < 0.1 * (np.abs(right) + largest))
        judged |= np.isfinite(right) & ~np.isfinite(got) & (error < 0.1 * (np.abs(right) + largest))
        if np.any(judged & ~(np.abs(got - right) <= allowed)):
            return Difference(
                "derivative",
                compiled.configuration.name,
                program.derivative,
                short(got.astype(float)),
                short(right.astype(float)),
            )
    return None


def raised(configuration, error):
    """Return the Difference for an exception."""
    if isinstance(error, ArgumentChanged):
        return Difference(
            "argument", configuration.name, str(error), "an argument that was overwritten", "one that is not"
        )
    first = str(error).strip().splitlines()[:1]
    return Difference("raises", configuration.name, type(error).__name__, "".join(first)[:300], "a result")


class TooSlow(BaseException):
    """The exception for an exceeded time limit. It is a BaseException, so that no other code catches it."""


@contextlib.contextmanager
def limited(seconds):
    """Return a context manager that raises `TooSlow` in the main thread after some seconds of processor time."""

    def stop(signum, frame):
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def judged(program, configuration, expectation=None, patience=1.0):
    """Compile a program, make its calls, and compare the results with the results of its twin.

    Parameters
    ----------
    program : Program
    configuration : Configuration
    expectation : Expectation, optional
    patience : float
        The fraction of the configuration's time limit that the program may take.

    Returns
    -------
    Compiled or None, results or None, Difference or None
    """
    compiled, seconds = None, patience * configuration.seconds
    try:
        expectation = expectation or Expectation(program)
        with limited(seconds):
            compiled = Compiled(program, configuration, expectation)
            results = compiled.call()
    except TooSlow:
        taken = "no result after %d s of processor time" % seconds
        return None, None, Difference("time", configuration.name, "the function", taken, "a result")
    except (BadThunkOutput, BadOptimization) as error:
        # DebugMode compares values with tolerances that do not allow for jumps. Therefore ignore its errors if the
        # program has jumps or special values.
        jumps = any([node.operation in JUMPING for node in all_nodes(program.nodes)])
        return None, None, None if jumps or program.special else raised(configuration, error)
    except Exception as error:
        lengths_differ = expectation and _lengths_may_differ(program, configuration, expectation)
        if isinstance(error, (ValueError, IndexError)) and lengths_differ:
            return None, None, None
        return compiled, None, raised(configuration, error)
    return compiled, results, compare(compiled, results)
