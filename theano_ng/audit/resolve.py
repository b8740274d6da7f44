"""Conversion of command-line arguments to cases. The arguments are targets, and descriptions of inputs."""

import ast
import importlib
import importlib.util
import inspect
import itertools
import os
import re
import sys
from collections.abc import Iterable

import numpy as np

from theano_ng.audit.driver import as_case
from theano_ng.audit.records import Case
from theano_ng.audit.stacks import raised

EXAMPLES = """\
  theano_ng-audit package.module:MyOp
  theano_ng-audit package.module:MyOp --inputs "float64(3,4), dvector, 2"
  theano_ng-audit cases.py          (cases.py defines audit_cases())"""


class UsageError(Exception):
    """The exception for a command line that cannot be interpreted.

    Its text quotes the argument, explains the syntax and has an example.
    """


# ---------------------------------------------------------------- targets


def cases_of(target, inputs=None, seed=0):
    """Return the cases of a target.

    Parameters
    ----------
    target : str
        ``package.module:Op`` (a class, an instance or a function, also a nested attribute), ``package.module`` or
        ``file.py`` with a function ``audit_cases``, or ``file.py:Op``.
    inputs : str, optional
        See `parse_inputs`.
    seed : int
        Seed of the random values for `inputs`.

    Returns
    -------
    list of Case

    Raises
    ------
    UsageError
    """
    place, colon, path = target.partition(":")
    if os.name == "nt" and len(place) == 1 and path.startswith(("\\", "/")):  # `place` is the letter of a drive
        place, colon, path = target.rpartition(":") if target.count(":") > 1 else (target, "", "")
    if place.endswith(".py"):
        module = import_file(place)
    else:
        module, rest = _import_module(place)
        if rest:
            if colon:
                raise UsageError("there is no module %r.\n%s" % (place, _understood()))
            path = rest
    if not path:
        return _cases_of_module(module, target, inputs, seed)
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UsageError(
                "%s has no attribute %r; it has %s.\n%s"
                % (place, path, ", ".join(_op_names(module)) or "no Op", _understood())
            ) from None
    return _cases_of_object(found, path, module, target, inputs, seed)


def _understood():
    return (
        "A target is package.module:Op, package.module or file.py with a function audit_cases(), or file.py:Op. Examples:\n"
        + EXAMPLES
    )


def _op_names(module):
    from theano_ng.gof.op import PureOp

    return sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, PureOp)
        or isinstance(value, type)
        and issubclass(value, PureOp)
        and value.__module__ == module.__name__
    )


def import_file(path):
    """Import a file as a module, and return the module.

    Raises
    ------
    UsageError
        If the file does not exist, or cannot be imported.
    """
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise UsageError("there is no file %s.\n%s" % (path, _understood()))
    folder, name = os.path.dirname(path), os.path.basename(path)[:-3]
    if folder not in sys.path:
        sys.path.insert(0, folder)  # Python does the same when it runs the file
    known = sys.modules.get(name)
    if known is not None:
        if os.path.abspath(getattr(known, "__file__", None) or "") == path:
            return known
        name = "audited_" + name
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickles refer to the module by this name
    try:
        spec.loader.exec_module(module)
    except BaseException as failure:
        del sys.modules[name]
        if not isinstance(failure, Exception):
            raise
        raise _not_imported(path, failure, "python %s" % path) from failure
    return module


def _not_imported(what, failure, command):
    """Return the UsageError for a module whose import raises an exception. `command` shows the whole stack."""
    return UsageError(
        "%s cannot be imported: %s. The command `%s` shows the whole stack" % (what, raised(failure), command)
    )


def _import_module(name):
    """Import the module with the longest possible part of a dotted name. Return the module and the rest of the name."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # in an installed script, sys.path begins with the folder of the script instead
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        tried = ".".join(parts[:count])
        try:
            if tried and all(parts) and importlib.util.find_spec(tried) is not None:
                return importlib.import_module(tried), ".".join(parts[count:])
        except (ModuleNotFoundError, ValueError) as failure:
            if getattr(failure, "name", None) not in (None, *(".".join(parts[:k]) for k in range(1, count + 1))):
                raise _not_imported(tried, failure, 'python -c "import %s"' % tried) from failure
        except Exception as failure:
            raise _not_imported(tried, failure, 'python -c "import %s"' % tried) from failure
    raise UsageError("there is no module %r.\n%s" % (name, _understood()))


def _cases_of_module(module, target, inputs, seed):
    make = getattr(module, "audit_cases", None)
    if make is None:
        names = _op_names(module)
        raise UsageError(
            "%s has no function audit_cases(), and the target names no Op.%s\n%s"
            % (
                target,
                " Its Ops: %s; for example, use %s:%s." % (", ".join(names), target, names[0]) if names else "",
                _understood(),
            )
        )
    if inputs:
        raise UsageError("--inputs applies to one Op; the cases of %s.audit_cases() contain their own inputs" % target)
    return _called(make, target)


def _called(make, target):
    """Return the cases that a function without parameters returns."""
    if not callable(make):
        raise UsageError(
            "%s: audit_cases is a %s; it should be a function that returns a list" % (target, type(make).__name__)
        )
    name = "%s: %s()" % (target, make.__name__)
    try:
        cases = make()
        if isinstance(cases, Iterable):
            cases = list(cases)
    except Exception as failure:
        raise UsageError("%s failed: %s" % (name, raised(failure))) from failure
    if isinstance(cases, Case):
        return [cases]
    if not isinstance(cases, list):
        raise UsageError(
            "%s returned %r; it should return a list of pairs (op, inputs), such as "
            "[(MyOp(), [numpy.ones((2, 3))])]" % (name, cases)
        )
    if not cases:
        raise UsageError("%s returned no cases" % name)
    return [_case_of(entry, "%s: entry %d" % (name, i)) for i, entry in enumerate(cases)]


def _case_of(entry, place):
    """Return the case for an entry of the list that `audit_cases` returns."""
    if isinstance(entry, Case):
        return entry
    if isinstance(entry, tuple) and len(entry) == 2 and callable(entry[0]) and isinstance(entry[1], (list, tuple)):
        try:
            return as_case(entry[0], entry[1])
        except Exception as failure:  # from the constructor of the Op
            raise UsageError("%s: %s" % (place, raised(failure))) from failure
    raise UsageError(
        "%s is %r; it should be a theano_ng.audit.Case or a pair (op, inputs), such as "
        "(MyOp(), [numpy.ones((2, 3))])" % (place, entry)
    )


def _cases_of_object(found, path, module, target, inputs, seed):
    from theano_ng.gof.op import PureOp

    name = path.split(".")[-1]
    if isinstance(found, Case):
        return [found]
    if isinstance(found, type) and issubclass(found, PureOp):
        given = None if inputs else _cases_of_class(module, found)
        if given:
            return given
        try:
            found = found()
        except TypeError as failure:
            raise UsageError(
                "%s cannot be created without arguments (%s). Name an instance (my_op = %s(...); %s:my_op), or write "
                "a function audit_cases() that returns pairs (op, inputs)." % (target, failure, name, module.__name__)
            ) from None
        except Exception as failure:
            raise UsageError("%s cannot be created: %s" % (target, raised(failure))) from failure
    elif isinstance(found, PureOp):
        given = None if inputs else [case for case in _cases_of_class(module, type(found)) if case.op == found]
        if given:
            return given
        name = str(found)
    elif inspect.isfunction(found) and not inspect.signature(found).parameters:
        if inputs:
            raise UsageError("--inputs applies to one Op; the cases of %s() contain their own inputs" % target)
        return _called(found, target)
    elif not callable(found) or isinstance(found, type):
        raise UsageError(
            "%s is %r, which is neither an Op, nor a class of Ops, nor a function.\n%s" % (target, found, _understood())
        )
    if inputs:
        return [Case(found, parse_inputs(inputs, seed), name=name)]
    if hasattr(found, "itypes"):
        return [Case(found, found.itypes, name=name)]
    types = guess_types(found)
    if types is None:
        raise UsageError(
            "%s: no inputs were given, and the Op accepts none of the usual tensors. Specify its inputs, for "
            'example\n  theano_ng-audit %s --inputs "float64(3,4), int64(3)"' % (target, target)
        )
    return [Case(found, types, name=name)]


def _cases_of_class(module, cls):
    """Return the cases for a class of Ops.

    The function `audit_cases` of the given module returns the cases. If this function returns no case for the class,
    the function `audit_cases` of the module that defines the class is used.
    """
    for where in dict.fromkeys((module, sys.modules.get(cls.__module__))):
        make = getattr(where, "audit_cases", None)
        if make is not None:
            found = [case for case in _called(make, where.__name__) if type(case.op) is cls]
            if found:
                return found
    return []


# ---------------------------------------------------------------- inputs


def guess_types(op):
    """Find types of inputs that an Op or function accepts.

    Combinations in which all inputs have the same number of dimensions are tried first: 2, then 1, 0 and 3. Each
    combination is tried with ``floatX`` and with int64.

    Parameters
    ----------
    op : Op or callable

    Returns
    -------
    list of Type or None
        None if the Op accepts none of the combinations.
    """
    from theano_ng import tensor
    from theano_ng.configdefaults import config
    from theano_ng.gof.graph import Variable

    for count in _counts(op):
        alike = [(rank,) * count for rank in (2, 1, 0, 3)]
        mixed = (
            [ranks for ranks in itertools.product((2, 1, 0, 3), repeat=count) if ranks not in alike]
            if 1 < count < 4
            else []
        )
        for ranks, dtype in itertools.product(alike + mixed, (config.floatX, "int64")):
            types = [tensor.TensorType(dtype, (False,) * rank) for rank in ranks]
            try:
                outputs = op(*[t() for t in types])
            except Exception:
                continue  # the Op refuses these types
            first = outputs[0] if isinstance(outputs, (list, tuple)) and outputs else outputs
            if isinstance(first, Variable) and first.owner is not None:
                return types
    return None


def _counts(op):
    """Return the numbers of inputs that an Op may accept, the most likely first."""
    function = getattr(op, "make_node", op)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (1, 2, 3)
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return (2, 1, 3)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in places)
    return tuple(dict.fromkeys([needed, *range(needed + 1, len(places) + 1)]))


def parse_inputs(text, seed=0):
    """Convert descriptions of example inputs to values and types.

    Parameters
    ----------
    text : str
        Descriptions, separated by commas: ``float64(3,4)`` (an array of this dtype and shape with random values),
        ``float64`` (a 0-d array), names of tensor constructors (``matrix``, ``dvector``, ``lscalar``), or Python
        literals (``2``, ``[1.5, 2.5]``).
    seed : int
        Seed of the random values.

    Returns
    -------
    list

    Raises
    ------
    UsageError
    """
    rng = np.random.RandomState(seed)
    return [_parse_input(part, rng) for part in _split(text)]


def _split(text):
    """Split a text at the commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    if depth:
        raise UsageError("the brackets in --inputs %r are not balanced" % text)
    parts = [part.strip() for part in parts]
    return parts if parts != [""] else []


def _parse_input(text, rng):
    from theano_ng import tensor
    from theano_ng.gof.graph import Variable

    match = re.fullmatch(r"([a-z]+\d*)\s*(?:\(([\d\s,]*)\))?", text)
    if match is not None:
        name, lengths = match.groups()
        try:
            tensor.TensorType(name, ())
        except TypeError:
            pass
        else:
            return _values(name, tuple(int(n) for n in re.findall(r"\d+", lengths or "")), rng)
        make = getattr(tensor, name, None) if lengths is None else None
        if callable(make) and re.fullmatch(r"[bwilfdcz]?(scalar|vector|row|col|matrix|tensor\d)", name):
            variable = make()
            if isinstance(variable, Variable):
                return variable.type
    try:
        return np.asarray(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError):
        raise UsageError(
            "--inputs: %r is not a valid input. An input is a dtype with a shape, float64(3,4), or without, int64; "
            "the name of a tensor constructor, matrix or dvector; or a Python literal, 2 or [1.5, 2.5]. Example: "
            '--inputs "float64(3,4), dvector, 2"' % text
        ) from None


def _values(dtype, shape, rng):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.randint(0, 2, shape)).astype(dtype)
    if kind in "iu":
        return np.asarray(rng.randint(0, 10, shape)).astype(dtype)
    values = np.asarray(rng.uniform(-2, 2, shape))
    return (values + 1j * rng.uniform(-2, 2, shape)).astype(dtype) if kind == "c" else values.astype(dtype)
