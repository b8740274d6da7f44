"""`function`: a callable from a graph."""

import os
import sys
from collections.abc import Iterable

from theano_ng.compile.functions.maker import convert_function_input
from theano_ng.compile.io import In, Out
from theano_ng.compile.pfunc import pfunc
from theano_ng.gof import ports

__all__ = ["function", "function_dump", "In", "Out"]


def function_dump(
    filename,
    inputs,
    outputs=None,
    mode=None,
    updates=None,
    givens=None,
    no_default_updates=False,
    accept_inplace=False,
    name=None,
    rebuild_strict=True,
    allow_input_downcast=None,
    profile=None,
    on_unused_input=None,
    extra_tag_to_remove=None,
):
    """Write the arguments of a call of `function` to a file, for a bug report.

    ``theano.function(**pickle.load(open(filename, "rb")))`` makes the call again.

    Parameters
    ----------
    filename : str
    extra_tag_to_remove : list of str, optional
        Names of tags that are not pickled.

    The others are those of `function`.

    Raises
    ------
    pickle.PicklingError
        When an argument cannot be pickled; it says which part of it.
    """
    import pickle

    from theano_ng.misc.pkl_utils import StripPickler

    arguments = dict(
        inputs=inputs,
        outputs=outputs,
        mode=mode,
        updates=updates,
        givens=givens,
        no_default_updates=no_default_updates,
        accept_inplace=accept_inplace,
        name=name,
        rebuild_strict=rebuild_strict,
        allow_input_downcast=allow_input_downcast,
        profile=profile,
        on_unused_input=on_unused_input,
    )
    try:
        with open(filename, "wb") as f:
            StripPickler(f, protocol=pickle.HIGHEST_PROTOCOL, extra_tag_to_remove=extra_tag_to_remove).dump(arguments)
    except pickle.PicklingError:
        os.remove(filename)  # what there is of it cannot be loaded
        raise


def _caller_name(depth=2):
    """ "file:line" of the code that called `function`."""
    frame = sys._getframe(depth)
    return "%s:%d" % (os.path.abspath(frame.f_code.co_filename), frame.f_lineno)


def _collected(pairs):
    """Pairs that can be looked at more than once; they may come as the items of a dictionary, for instance."""
    return pairs if isinstance(pairs, (list, tuple, dict)) or not isinstance(pairs, Iterable) else list(pairs)


def function(
    inputs,
    outputs=None,
    mode=None,
    updates=None,
    givens=None,
    no_default_updates=False,
    accept_inplace=False,
    name=None,
    rebuild_strict=True,
    allow_input_downcast=None,
    profile=None,
    on_unused_input=None,
):
    """Compile a graph into a callable.

    Parameters
    ----------
    inputs : list of Variable, In, or the shortcuts (name, variable), (variable, value), ((variable, update), value) ...
        What the callable takes; no shared variables, no constants.
    outputs : Variable, Out, or list, tuple or dict of them, optional
        What it returns: a value, a list of values, or a dictionary with the keys of `outputs`.
    mode : str or Mode, optional
        How to rewrite and run the graph; by default config.mode.
    updates : dict or list of (shared variable, expression), optional
        New values of shared variables, computed from the old ones, set after each call.
    givens : dict or list of (variable, variable), optional
        Replacements made in a copy of the graph before anything else.
    no_default_updates : bool or list of Variable
        True: shared variables without explicit update keep their values; a list: these do.
    accept_inplace : bool
        Whether the graph may hold in-place operations already.
    name : str, optional
        Name in profiles and error messages.
    rebuild_strict : bool
        False permits replacements of another type. A warning is given where the number of dimensions makes a node another function.
    allow_input_downcast : bool, optional
        True silently converts arguments to less precise types; None does that for Python floats when floatX asks for it.
    profile : bool, str or ProfileStats, optional
        Profile the calls; the result is the function's attribute `profile`.
    on_unused_input : {"raise", "warn", "ignore"}, optional
        The action for inputs that the outputs do not need; default: the flag of that name, which is "raise".

    Returns
    -------
    Function

    Raises
    ------
    UnusedInputError, MissingInputError, TypeError, ValueError, RuntimeError
        For inputs, updates, givens or outputs that make no sense; nothing has changed then.
    """
    if name is None:
        name = _caller_name()
    output_keys = None
    if isinstance(outputs, dict):
        for key in outputs:
            if not isinstance(key, str):
                raise AssertionError("the keys of an output dictionary are strings, not %r" % (key,))
        output_keys = sorted(outputs)
        outputs = [outputs[key] for key in output_keys]
    if isinstance(updates, str) or not (updates is None or isinstance(updates, Iterable)):
        raise (ValueError if isinstance(updates, str) else TypeError)(
            "updates are a dictionary or a list of pairs, not %r" % (updates,)
        )
    updates, givens = (list(updates.items()) if type(updates) is dict else _collected(updates)), _collected(givens)
    if not isinstance(inputs, (list, tuple)):
        raise Exception(
            "Input variables of a Theano function should be contained in a list, even when there is a single input; got %r"
            % (inputs,)
        )
    if any(isinstance(given, (list, tuple)) for given in inputs):
        inputs = [convert_function_input(given) for given in inputs]
    return pfunc(
        params=inputs,
        outputs=outputs,
        mode=mode,
        updates=updates,
        givens=givens,
        no_default_updates=no_default_updates,
        accept_inplace=accept_inplace,
        name=name,
        rebuild_strict=rebuild_strict,
        allow_input_downcast=allow_input_downcast,
        profile=profile,
        on_unused_input=on_unused_input,
        output_keys=output_keys,
    )


ports.compile_function.fill(function)
