"""The function `function`, which compiles a graph into a callable."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from theano_ng.compile.functions.maker import convert_function_input
from theano_ng.compile.io import In, Out
from theano_ng.compile.pfunc import pfunc
from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.compiler.toolchain import CompileError

if TYPE_CHECKING:
    from theano_ng.compile.functions.object import Function
    from theano_ng.compile.mode import Mode
    from theano_ng.compile.profiling import ProfileStats
    from theano_ng.gof.graph import Variable

    Updates: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
    Givens: TypeAlias = Mapping[Any, Any] | Iterable[Any]

__all__ = ["function", "function_dump", "In", "Out"]


def function_dump(
    filename: str,
    inputs: Sequence[Any],
    outputs: Any = None,
    mode: str | Mode | None = None,
    updates: Updates | None = None,
    givens: Givens | None = None,
    no_default_updates: bool | Sequence[Variable] = False,
    accept_inplace: bool = False,
    name: str | None = None,
    rebuild_strict: bool = True,
    allow_input_downcast: bool | None = None,
    profile: bool | str | ProfileStats | None = None,
    on_unused_input: str | None = None,
    extra_tag_to_remove: str | None = None,
) -> None:
    """Write the arguments of a call of `function` to a file, for a bug report.

    ``theano.function(**pickle.load(open(filename, "rb")))`` repeats the call.

    Parameters
    ----------
    filename : str
    extra_tag_to_remove : list of str, optional
        Names of tags that are not pickled.

    The other parameters are the parameters of `function`.

    Raises
    ------
    pickle.PicklingError
        If an argument cannot be pickled. The message names the part that cannot be pickled.
    """
    arguments = dict(locals())  # at this point, the only local variables are the parameters
    del arguments["filename"], arguments["extra_tag_to_remove"]
    import pickle

    from theano_ng.misc.pkl_utils import StripPickler

    try:
        with open(filename, "wb") as f:
            StripPickler(f, protocol=pickle.HIGHEST_PROTOCOL, extra_tag_to_remove=extra_tag_to_remove).dump(arguments)
    except pickle.PicklingError:
        os.remove(filename)  # the incomplete file cannot be loaded
        raise


def _caller_name(depth=2):
    """Return the position of the code that called `function`, as "file:line"."""
    frame = sys._getframe(depth)
    return "%s:%d" % (os.path.abspath(frame.f_code.co_filename), frame.f_lineno)


def _collected(pairs):
    """Return a list of pairs, because an iterator can be read only once. Return a list, tuple or dict unchanged."""
    return pairs if isinstance(pairs, (list, tuple, dict)) or not isinstance(pairs, Iterable) else list(pairs)


def function(
    inputs: Sequence[Any],
    outputs: Any = None,
    mode: str | Mode | None = None,
    updates: Updates | None = None,
    givens: Givens | None = None,
    no_default_updates: bool | Sequence[Variable] = False,
    accept_inplace: bool = False,
    name: str | None = None,
    rebuild_strict: bool = True,
    allow_input_downcast: bool | None = None,
    profile: bool | str | ProfileStats | None = None,
    on_unused_input: str | None = None,
) -> Function:
    """Compile a graph into a callable.

    Parameters
    ----------
    inputs : list of Variable, In, or the shortcuts (name, variable), (variable, value), ((variable, update), value) ...
        The inputs of the callable. Shared variables and constants are not permitted.
    outputs : Variable, Out, or list, tuple or dict of them, optional
        The outputs. The callable returns a value, a list of values, or a dictionary with the keys of `outputs`.
    mode : str or Mode, optional
        The mode that rewrites and runs the graph. By default, config.mode.
    updates : dict or list of (shared variable, expression), optional
        New values of shared variables. They are computed from the old values and stored after each call.
    givens : dict or list of (variable, variable), optional
        Replacements that are made in a copy of the graph before the compilation.
    no_default_updates : bool or list of Variable
        If True, shared variables without an explicit update keep their values. If it is a list, only the variables in
        the list keep their values.
    accept_inplace : bool
        Whether the given graph may contain in-place operations.
    name : str, optional
        The name of the function in profiles and error messages.
    rebuild_strict : bool
        If False, replacements of another type are permitted. A warning is shown if a different number of dimensions
        makes a node compute another function.
    allow_input_downcast : bool, optional
        If True, arguments are converted to less precise types without a warning. None permits this only for Python
        floats, and only if the input has the dtype floatX.
    profile : bool, str or ProfileStats, optional
        Whether to profile the calls, or the name of a new profile, or the profile to which the calls are added. The
        attribute `profile` of the function holds the profile.
    on_unused_input : {"raise", "warn", "ignore"}, optional
        The action for inputs on which no output depends. By default, the flag on_unused_input, whose default is
        "raise".

    Returns
    -------
    Function

    Raises
    ------
    UnusedInputError, MissingInputError, TypeError, ValueError, RuntimeError
        If inputs, updates, givens or outputs are invalid. Nothing is changed then.
    """
    if name is None:
        name = _caller_name()
    output_keys = None
    if isinstance(outputs, dict):
        for key in outputs:
            if not isinstance(key, str):
                raise AssertionError("the keys of an output dictionary must be strings, not %r" % (key,))
        output_keys = sorted(outputs)
        outputs = [outputs[key] for key in output_keys]
    if isinstance(updates, str) or not (updates is None or isinstance(updates, Iterable)):
        raise (ValueError if isinstance(updates, str) else TypeError)(
            "updates must be a dictionary or a list of pairs, not %r" % (updates,)
        )
    updates, givens = (list(updates.items()) if type(updates) is dict else _collected(updates)), _collected(givens)
    if not isinstance(inputs, (list, tuple)):
        raise Exception(
            "Input variables of a Theano function should be contained in a list, even when there is a single input; got %r"
            % (inputs,)
        )
    if any(isinstance(given, (list, tuple)) for given in inputs):
        inputs = [convert_function_input(given) for given in inputs]
    try:
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
    except CompileError as failure:
        if config.exception_verbosity == "high":
            raise
        # The message names the author's method and line. The frames of this package would hide it.
        raise failure.with_traceback(None) from None


ports.compile_function.fill(function)
