"""Calls functions with arguments whose lengths do not fit together. Compares the results and errors of the rewritten
graph with those of the graph as written.

The twins, which are the programs in NumPy, cannot judge such calls: NumPy broadcasts every axis of length 1. If the
graph as written raises an error, a rewritten graph must raise an error, too, unless a rule has removed the failing
operation. Therefore lost errors are only judged in the configuration ``all errors``, which excludes such rules.
"""

import random
from dataclasses import replace

import numpy as np

from theano_ng.tests.programs import source
from theano_ng.tests.programs.configurations import CONFIGURATIONS
from theano_ng.tests.programs.judge import (
    JUMPING,
    Compiled,
    Difference,
    TooSlow,
    limited,
    raised,
    short,
    variables_with_derivatives,
)
from theano_ng.tests.programs.precision import unit
from theano_ng.tests.programs.records import all_nodes

# The configurations in which programs are called with other lengths.
CONFIGURATIONS_OF_LENGTHS = ("interpreted", "all errors")
# Conditionals. The graph as written computes both branches. A rewritten graph computes one branch, so the error of the
# other branch may be lost.
LAZY = frozenset(["ifelse", "ifelse_of_variable"])
LOOPS = frozenset(["loop", "map", "foldl", "foldr", "scan_checkpoints"])


def resized(program, seed):
    """Return a program in which an axis of an argument gets another length. Return None if no argument has an axis.

    Parameters
    ----------
    program : Program
    seed : str
        The seed of the choices.
    """
    choices = random.Random("lengths " + seed)
    axes = [
        (one, axis)
        for one in program.inputs
        if one.role != "shared" and not one.same_as
        for axis in range(len(one.shape))
        if not one.broadcastable[axis]
    ]
    if not axes or program.special:
        return None
    one, axis = choices.choice(axes)
    length = one.shape[axis]
    others = [n for n in (1, 1, length - 1, length + 1, length + 2, 0) if n != length and n >= 0]
    return replace(
        program,
        inputs=tuple([replace(one, same_as=None) for one in program.inputs]),
        updates=(),
        calls=1,
        derivative="gradient" if source.differentiable(program) and choices.random() < 0.3 else None,
        resized=(one.name, axis, choices.choice(others)),
    )


def called(program):
    """Return the inputs of a program, with the values that a call passes."""
    if program.resized is None:
        return program.inputs
    name, axis, length = program.resized
    return tuple([_with_length(one, axis, length) if one.name == name else one for one in program.inputs])


def _with_length(one, axis, length):
    array = source.plain(one)
    if array.shape[axis]:
        array = np.take(array, np.arange(length), axis, mode="wrap")
    else:
        array = np.ones([*array.shape[:axis], length, *array.shape[axis + 1 :]], array.dtype)
    return replace(one, shape=array.shape, values=tuple(array.ravel().tolist()))


class Variables:
    """The variables of a program and of its gradient. An `Expectation` would need lengths that fit together."""

    def __init__(self, program):
        self.program = program

    def variables(self):
        return variables_with_derivatives(self.program, derivative_lines(self.program))


def derivative_lines(program):
    """Return the source lines that create the gradient of the sum of squares of the float32 and float64 outputs."""
    if program.derivative is None:
        return []
    wrt = ", ".join([one.name for one in source.differentiable(program)])
    return [
        "cost = sum([(v ** 2).sum() for v in [%s] if v.dtype in ('float32', 'float64')], T.constant(0.0))"
        % ", ".join(program.outputs),
        "derived = theano.grad(cost, [%s], disconnected_inputs='ignore')" % wrt,
    ]


def _called(program, configuration, patience):
    """Return the results of a call, or the exception that it raises. Return None for a program that is too slow."""
    arguments = [one for one in called(program) if one.role != "shared"]
    try:
        with limited(patience * configuration.seconds):
            compiled = Compiled(program, configuration, Variables(program))
            compiled.arguments = arguments
            return compiled.call()[0]
    except TooSlow:
        return None
    except Exception as error:
        return error


def judged(program, configuration, patience=1.0):
    """Return a Difference between a rewritten program and the program as written. Return None if they agree."""
    right = _called(program, CONFIGURATIONS["python"], patience)
    got = _called(program, configuration, patience)
    if right is None or got is None:
        return None
    operations = {node.operation for node in all_nodes(program.nodes)}
    if isinstance(right, Exception):
        loses = not configuration.without or operations & LAZY
        if isinstance(got, Exception) or loses:
            return None
        wanted = "%s: %s" % (type(right).__name__, str(right).strip().split("\n")[0][:200])
        return Difference("lost error", configuration.name, "the function", short(got[0]), wanted)
    if program.resized[2] == 0 and operations & LOOPS:
        return None  # with 0 steps, a rewritten loop may fail because of values that it does not use
    if isinstance(got, Exception):
        return raised(configuration, got)
    for place, (mine, other) in enumerate(zip(got, right)):
        if not _close(mine, other, program):
            where = program.outputs[place] if place < len(program.outputs) else "derivative"
            return Difference("numbers", configuration.name, where, short(mine), short(other))
    return None


def _close(got, right, program):
    """Return True if two arrays have the same type and shape, and nearly equal elements.

    The results of a program without floats must be equal. In a program with floats, integers and booleans are not
    compared, because they may depend on rounding errors.
    """
    if got.dtype != right.dtype or got.shape != right.shape:
        return False
    nodes = all_nodes(program.nodes)
    dtypes = [one.dtype for one in program.inputs] + [d for n in nodes for d in (n.dtype, n.rounding) if d]
    if all([np.dtype(dtype).kind in "biu" for dtype in dtypes]):
        return np.array_equal(got, right)
    if got.dtype.kind not in "fc" or any([node.operation in JUMPING for node in nodes]):
        return True
    with np.errstate(all="ignore"):
        known = np.isfinite(right)
        size = np.max(np.abs(right), initial=1.0, where=known)
        largest = max(map(unit, dtypes))
        return bool(np.all(np.abs(got - right)[known] <= size * largest**0.5))
