"""Inputs of functions: conversion of specifications, access by key, checks, and error messages."""

import functools
import sys
import warnings

from theano_ng.compile.io import In, SymbolicInput
from theano_ng.configdefaults import config
from theano_ng.gof import graph
from theano_ng.gof.graph import Constant, Variable


class UnusedInputError(Exception):
    """Error: an input of a function is not needed to compute its outputs, or is given twice."""


DUPLICATE = object()  # the entry of a function's dict `finder` for a name that several inputs have


def convert_function_input(input):
    """Convert an input specification of `function` to an In.

    Parameters
    ----------
    input : SymbolicInput, Variable, or a shortcut
        ``(name, variable)``, ``(variable, value)``, ``((variable, update), value)``, ``(name, variable, value)``,
        ``(name, (variable, update), value)``.

    Raises
    ------
    TypeError
        If the input is none of these, or is a constant.
    """
    if isinstance(input, SymbolicInput):
        return input
    if isinstance(input, Constant):
        raise TypeError("A Constant instance is not a legal function input", input)
    if isinstance(input, Variable):
        return In(input)
    if isinstance(input, (list, tuple)):
        rest = list(input)
        if not rest:
            raise TypeError("Nonsensical input specification: %s" % (input,))
        name = None
        if isinstance(rest[0], str):
            name = rest.pop(0)
        if not rest:
            raise TypeError("Nonsensical input specification: %s" % (input,))
        value = update = None
        if len(rest) == 2:
            value = rest[1]
        elif len(rest) > 2:
            raise TypeError("The input specification is not valid: %s" % (input,))
        variable = rest[0]
        if isinstance(variable, (list, tuple)):
            if len(variable) != 2 or value is None:
                raise TypeError("Invalid input syntax: %s (check documentation or use an In instance)" % (input,))
            variable, update = variable
            if not isinstance(update, Variable):
                raise TypeError("Unknown update type: %s, expected Variable instance" % type(update), input)
        if not isinstance(variable, Variable):
            raise TypeError("Unknown input type: %s, expected Variable instance" % type(variable), input)
        if isinstance(variable, Constant):
            raise TypeError("A Constant instance is not a legal function input", input)
        if value is None:
            return In(variable, name=name, update=update)
        if isinstance(value, Variable):
            raise TypeError(
                "%s: the default value of an input must not be a variable (%s). For an update, write ((variable, "
                "update), value)" % (input, value)
            )
        return In(variable, name=name, value=value, update=update)
    raise TypeError("Unknown input type: %s, expected Variable instance" % type(input), input)


def check_unused_inputs(inputs, outputs, on_unused_input):
    """Raise UnusedInputError, warn or do nothing if an input is unused.

    An input is unused if it has no update, and if no output and no update depends on it.

    Parameters
    ----------
    inputs : list of SymbolicInput
    outputs : list of SymbolicOutput
    on_unused_input : {"raise", "warn", "ignore", None}
        The action. If None, the value of the flag ``on_unused_input``.
    """
    if on_unused_input is None:
        on_unused_input = config.on_unused_input
    if on_unused_input == "ignore":
        return
    if on_unused_input not in ("warn", "raise"):
        raise ValueError(
            "Invalid value for keyword on_unused_input of theano.function: '%s'.\n"
            "Valid values are 'raise', 'warn', and 'ignore'." % (on_unused_input,)
        )
    needed = [spec.variable for spec in outputs] + [spec.update for spec in inputs if spec.update is not None]
    used = set(graph.ancestors(needed, blockers=[spec.variable for spec in inputs]))
    for i, spec in enumerate(inputs):
        if spec.variable in used or spec.update is not None:
            continue
        text = (
            "theano.function was asked to create a function computing outputs given certain inputs, but the provided input variable "
            "at index %i is not part of the computational graph needed to compute the outputs: %s.\n"
            % (i, spec.variable)
        )
        if on_unused_input == "warn":
            warnings.warn(
                text
                + "To disable this warning, you can pass the parameter on_unused_input='ignore' to theano.function.",
                stacklevel=6,
            )
        else:
            raise UnusedInputError(
                text
                + "To make this error into a warning, you can pass the parameter on_unused_input='warn' to theano.function. "
                "To disable it completely, use on_unused_input='ignore'."
            )


def get_info_on_inputs(named_inputs, n_unnamed_inputs):
    """Return a sentence about the inputs of a function, for error messages.

    Parameters
    ----------
    named_inputs : list of str
    n_unnamed_inputs : int
    """

    def plural(n):
        return "" if n == 1 else "s"

    n_named = len(named_inputs)
    if n_named == 0 and n_unnamed_inputs == 0:
        return "The function is supposed to have no input."
    if n_named == 0:
        if n_unnamed_inputs == 1:
            return (
                "The function has a single input variable which has no name, and thus cannot be assigned through a keyword "
                "argument (use 'name=...' in a Variable's constructor to give it a name)."
            )
        return (
            "The function has %d inputs, but none of them is named, and thus they cannot be assigned through keyword arguments "
            "(use 'name=...' in a Variable's constructor to give it a name)." % n_unnamed_inputs
        )
    if n_unnamed_inputs == 0:
        return "The function has %d named input%s (%s)." % (n_named, plural(n_named), ", ".join(named_inputs))
    return (
        "The function has %d named input%s (%s), and %d unnamed input%s which thus cannot be accessed through keyword argument%s "
        "(use 'name=...' in a variable's constructor to give it a name)."
        % (
            n_named,
            plural(n_named),
            ", ".join(named_inputs),
            n_unnamed_inputs,
            plural(n_unnamed_inputs),
            plural(n_unnamed_inputs),
        )
    )


class _Finder:
    """The base class of mappings whose keys are inputs: positions, names or Variables."""

    def __init__(self, function):
        self.function = function

    def find(self, item):
        function = self.function
        try:
            found = function.finder[item]
        except (KeyError, TypeError):
            names = [str(spec.name) for spec in function.maker.inputs if spec.name is not None and not spec.implicit]
            unnamed = sum(spec.name is None and not spec.implicit for spec in function.maker.inputs)
            raise TypeError("Unknown input or state: %s. %s" % (item, get_info_on_inputs(names, unnamed))) from None
        if found is DUPLICATE:
            raise TypeError(
                "Ambiguous name: %s - please check the names of the inputs of your function for duplicates." % (item,)
            )
        return found

    def __contains__(self, item):
        try:
            self.find(item)
        except TypeError:  # the item is unknown, ambiguous or not hashable
            return False
        return True


class ContainerAttribute(_Finder):
    """The mapping `Function.container`: position, name or Variable -> Container of the input. It is read-only."""

    def __getitem__(self, item):
        return self.find(item)


class ValueAttribute(_Finder):
    """The mapping `Function.value`: position, name or Variable -> current value of the input.

    The Type of the input filters an assigned value.
    """

    def __getitem__(self, item):
        return self.find(item).value

    def __setitem__(self, item, value):
        self.find(item).value = value


def quick_check(container):
    """Return the data for the fast check of arguments. Return None if only the container's Type can check them.

    Only plain tensor types have a fast check. It accepts an ndarray (no subclass) with the right dtype, number of
    dimensions, alignment and byte order, and with length 1 in broadcastable dimensions. Scalars become 0-d arrays if
    the dtype can hold them exactly; see `compile/_scalars.pxd`.

    Returns
    -------
    (int, int, int, bool, int) or None
        NumPy's type number; the number of dimensions; a bit mask of the broadcastable dimensions; True if scalars are
        accepted; a bit mask in which bit n is set if the Type can hold all values of another dtype, with type number n.
    """
    # Do not import TensorType: the packages gof and compile do not depend on the package tensor. If its module has not
    # been imported yet, no type can be a TensorType.
    module = sys.modules.get("theano_ng.tensor.type")
    tensor_type = getattr(module, "TensorType", None)
    kind = container.type
    if (
        tensor_type is None
        or type(kind) is not tensor_type
        or getattr(kind, "filter_checks_isfinite", False)
        or len(kind.broadcastable) > 30
    ):
        return None
    import numpy

    dtype = numpy.dtype(kind.dtype)
    bits = sum(1 << d for d, flag in enumerate(kind.broadcastable) if flag)
    scalar = kind.ndim == 0 and dtype.kind in "biuf" and not container.strict
    return dtype.num, kind.ndim, bits, scalar, _held(kind) if scalar else 0


@functools.cache
def _held(kind):
    """Return a mask: bit n is set if the Type `kind` can hold all values of the dtype with type number n.

    The bits of the dtype of `kind` itself are not set.
    """
    import numpy

    bits = 0
    for code in "?bBhHiIlLqQfd":
        array = numpy.zeros((), code)
        # Two type numbers can have equal dtypes (long and long long). Arrays of an equal dtype need no conversion.
        if array.dtype != kind.dtype:
            try:
                kind.filter(array, allow_downcast=False)
            except TypeError:
                continue
            bits |= 1 << array.dtype.num
    return bits
