"""Runs of the implementations of an Op on an example."""

import contextlib

import numpy as np

from theano_ng.audit.forms import copied
from theano_ng.audit.problems import Problem, Reject
from theano_ng.audit.processes import limited
from theano_ng.audit.targets import destroyed
from theano_ng.compile.debugmode.checks import _lessbroken_deepcopy
from theano_ng.tensor.native import alloc

#: Examples with arrays of more elements are rejected. Such arrays occur if an Op uses an input value as a length.
MAX_ELEMENTS = 1 << 13

#: The bytes that fill the memory of new arrays in two runs. As floating point numbers, they are not NaN.
FILLS = (0x3A, 0xC5)

# Exceptions which mean that an example needs too much memory.
TOO_LARGE = (MemoryError, RecursionError)


def reference(context, example):
    """Return the outputs of the trusted implementation (`perform` if it exists) on C-contiguous copies of the inputs.

    Raises
    ------
    Reject
        If the Op or the function `tied` of the case refuses the values.
    """
    outcome = run_or_error(context, "any", example, plain=True)
    if isinstance(outcome, Exception):
        raise Reject()
    return outcome


def run_or_error(context, kind, example, plain=False, keep=False, fill=None):
    """Run one implementation and return its outputs, or the exception with which it refuses the example.

    Return None if the implementation does not exist. Raise Reject if the example cannot be used.

    Parameters
    ----------
    context : Context
    kind : str
        See `make_runner`.
    example : Example
    plain : bool
        If True, run on C-contiguous copies instead of the layouts of the example.
    keep : bool
        See `Runner.__call__`.
    fill : int, optional
        A byte that fills the memory of new arrays. Two runs with different bytes differ if code reads memory to which it
        has not written.
    """
    if not good_together(context.case.tied, example.values):
        raise Reject()
    try:
        runner = context.runner(example.built, kind)
    except Problem:
        if context.check == "c_code":
            raise
        raise Reject() from None  # the check c_code reports this problem
    if runner is None:
        return None
    try:
        values = limited(example.node_values)
    except Exception:
        raise Reject() from None  # the computation of the node's inputs raises an exception
    if any(isinstance(value, np.ndarray) and value.size > MAX_ELEMENTS for value in values):
        raise Reject()
    if plain:
        values = [copied(v) for v in values]
    else:
        values = without_destroyed(example.built, values)
    try:
        with np.errstate(all="ignore"), filled_memory(fill):
            outputs = runner(values, keep)
    except TOO_LARGE:
        raise Reject() from None
    except Exception as failure:
        return failure
    if any(isinstance(out, np.ndarray) and out.size > MAX_ELEMENTS for out in outputs):
        raise Reject()
    return outputs


@contextlib.contextmanager
def filled_memory(byte):
    """Inside the context, fill the memory of new arrays with a byte. None: do not fill it."""
    previous = None if byte is None else alloc.fill(byte)
    try:
        yield
    finally:
        if previous is not None:
            alloc.restore(previous)


def good_together(tied, values):
    """Return True if the function `tied` of a case accepts values.

    Return False if `tied` raises an exception, for instance because an array has another rank than `tied` expects.
    """
    try:
        return tied is None or bool(tied(list(values)))
    except Exception:
        return False


def without_destroyed(built, values):
    """Return the values, but replace each value that the node overwrites by a copy with the same memory layout."""
    overwritten = destroyed(built.node)
    return [_lessbroken_deepcopy(value) if v in overwritten else value for v, value in zip(built.variables, values)]
