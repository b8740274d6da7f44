"""Checks of the Op as a Python object: nodes, equality, hash, pickle, maps, and the version of its C code."""

import copy
import pickle
import sys
from types import SimpleNamespace

import numpy as np

from theano_ng.audit.code_constants import c_text
from theano_ng.audit.forms import copied
from theano_ng.audit.neighbours import changed_ops, rebuild, same_attributes
from theano_ng.audit.problems import Problem, one_line
from theano_ng.audit.runners import make_runner
from theano_ng.audit.running import run_or_error
from theano_ng.audit.value_checks import first_difference
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.op import Op


def hash_of(op):
    """Return the hash of an Op, or None if hash() raises an exception."""
    try:
        return hash(op)
    except Exception:
        return None


def has_equality(op):
    """Return True if the class of the Op defines equality. Otherwise an Op equals only itself."""
    return getattr(type(op), "__eq__", object.__eq__) is not object.__eq__


def _first_of_each(problems):
    unique = {}
    for problem in problems:
        unique.setdefault(problem.error, problem)
    return list(unique.values())


# ------------------------------------------------- nodes


def check_make_node(context):
    """Check that a second call of make_node gives new variables of the same types, and that clones equal the node."""
    problems = []
    where = context.target.location("make_node")
    for built in context.target.built:
        node = built.node
        types = [v.type for v in node.outputs]
        before = snapshot(built.op)
        try:
            again = built.op.make_node(*built.made.inputs)
        except Exception as failure:
            problems.append(
                Problem(
                    "BadMakeNode",
                    "make_node refuses the inputs of a node that it made: %s" % one_line(failure),
                    "node %s" % node,
                    where,
                )
            )
            continue
        if not isinstance(again, Apply):
            problems.append(
                Problem("BadMakeNode", "make_node returned %s, not an Apply" % type(again).__name__, repr(again), where)
            )
            continue
        if again.op is not built.op and again.op != built.op:
            problems.append(
                Problem("BadMakeNode", "make_node made a node of another Op: %s" % again.op, "node %s" % node, where)
            )
        if [v.type for v in again.outputs] != types:
            problems.append(
                Problem(
                    "BadMakeNode",
                    "make_node gives other output types when it is called again: %s, then %s"
                    % (types, [v.type for v in again.outputs]),
                    "node %s" % node,
                    where,
                )
            )
        changed = [name for name, value in before.items() if snapshot(built.op).get(name) != value]
        if changed:
            problems.append(
                Problem(
                    "MutatesOp",
                    "make_node changed the Op, which other nodes share: %s was %s" % (changed[0], before[changed[0]]),
                    "node %s" % node,
                    where,
                )
            )
        shared = [v for v in again.outputs if any(v is w for w in built.made.outputs)]
        if shared:
            problems.append(
                Problem(
                    "BadMakeNode",
                    "make_node uses an output of an earlier node: the outputs of a node have to be new variables",
                    "node %s" % node,
                    where,
                )
            )
        if any(v.owner is not again for v in again.outputs):
            problems.append(Problem("BadMakeNode", "an output of the node has another owner", "node %s" % again, where))
        fresh = [v if isinstance(v, Constant) else v.type() for v in node.inputs]
        for strict in (True, False):
            try:
                clone = node.clone_with_new_inputs(fresh, strict=strict)
            except Exception as failure:
                problems.append(
                    Problem(
                        "BadMakeNode",
                        "the node cannot be cloned with inputs of the same types: %s" % one_line(failure),
                        "node %s, strict=%s" % (node, strict),
                        where,
                    )
                )
                continue
            if [v.type for v in clone.outputs] != types:
                problems.append(
                    Problem(
                        "BadMakeNode",
                        "a clone of the node with inputs of the same types has other output types: %s, %s"
                        % (types, [v.type for v in clone.outputs]),
                        "node %s" % node,
                        where,
                    )
                )
    return context.verdict(_first_of_each(problems), len(context.target.built))


# ------------------------------------------------- equality and hash


def check_props(context):
    """Check equality, hash and text of the Op."""
    op, target, problems, tried = context.op, context.target, [], 0
    where = target.location("__eq__")
    for name, function in (("__str__", str), ("__repr__", repr)):
        try:
            function(op)
        except Exception as failure:
            problems.append(
                Problem("BadEquality", "%s raises %s" % (name, one_line(failure)), location=target.location(name))
            )
    try:
        hash(op)
    except Exception as failure:
        problems.append(
            Problem(
                "BadHash",
                "the Op has no hash: %s" % one_line(failure),
                "A class that defines __eq__ has to define __hash__; all __props__ have to be hashable.",
                where,
            )
        )
    if hash_of(op) != hash_of(op):
        problems.append(Problem("BadHash", "the hash changes between calls", location=target.location("__hash__")))
    try:
        if not op == op or op != op:  # noqa: SIM201, checks __eq__ and __ne__
            problems.append(Problem("BadEquality", "the Op does not equal itself", location=where))
        for other in (None, 3, "text", object(), SimpleNamespace(), Op()):
            if op == other or not op != other:  # noqa: SIM202, checks __eq__ and __ne__
                problems.append(Problem("BadEquality", "the Op equals %r" % (other,), location=where))
    except Exception as failure:
        problems.append(Problem("BadEquality", "comparing the Op raises %s" % one_line(failure), location=where))
        return context.verdict(_first_of_each(problems), 1)
    if not has_equality(op):
        if problems:
            return context.verdict(_first_of_each(problems), 1)
        return context.skipped(
            "each Op of this class equals only itself: the class defines neither __props__ nor __eq__"
        )
    for way, other in _equals(context):
        tried += 1
        problems += compare_equal(op, other, way, where, target)
    for change, other in changed_ops(op, target.constants):
        tried += 1
        try:
            equal = op == other
        except Exception as failure:
            problems.append(
                Problem(
                    "BadEquality",
                    "comparing the Op with one %s raises %s" % (change, one_line(failure)),
                    location=where,
                )
            )
            continue
        if not equal:
            continue
        if hash_of(op) != hash_of(other):
            problems.append(
                Problem(
                    "BadHash",
                    "the Op equals one %s, but their hashes differ" % change,
                    location=target.location("__hash__"),
                )
            )
        differs = _differs(context, other)
        if differs:
            problems.append(
                Problem(
                    "BadEquality",
                    "the Op equals one %s, but %s" % (change, differs),
                    "__props__ = %r" % (getattr(op, "__props__", None),),
                    where,
                )
            )
    return context.verdict(_first_of_each(problems), max(tried, 1))


def compare_equal(op, other, way, where, target):
    """Check that two Ops are equal and have equal hashes, and return the problems.

    `way` says in messages how `other` was made. `where` is the location that a problem with equality reports.
    """
    problems = []
    if not (op == other and other == op) or op != other:
        problems.append(
            Problem(
                "BadEquality",
                "the Op does not equal %s" % way,
                "%r and %r" % (getattr(op, "__dict__", None), getattr(other, "__dict__", None)),
                where,
            )
        )
    elif hash_of(op) != hash_of(other):
        problems.append(
            Problem(
                "BadHash",
                "the Op equals %s, but their hashes differ: %s, %s" % (way, hash_of(op), hash_of(other)),
                location=target.location("__hash__"),
            )
        )
    return problems


def _equals(context):
    """Yield pairs (description, Op) of Ops that must equal the audited Op.

    The description says how the yielded Op was made.
    """
    op, case = context.op, context.case
    for way, function in (("a copy of it", copy.copy), ("a deep copy of it", copy.deepcopy)):
        try:
            yield way, function(op)
        except Exception:
            continue  # check_pickle reports that the copy fails
    if case.op is not op:
        from theano_ng.audit.targets import Built

        yield "the Op that the case makes when it is called again", Built(context.target, context.target.base.types).op
    rebuilt = rebuild(op, {})
    if rebuilt is not None and same_attributes(op, rebuilt):
        yield "one built with the same arguments", rebuilt


def _differs(context, other):
    """Describe how the behavior of another Op differs from the behavior of the audited Op.

    Return "" if no difference is found.
    """
    built = context.target.base
    try:
        node = other.make_node(*built.node.inputs)
    except Exception:
        return ""  # the value is not valid for the argument
    mine, theirs = [v.type for v in built.node.outputs], [v.type for v in node.outputs]
    if mine != theirs:
        return "gives outputs of types %s, not %s" % (theirs, mine)
    for name in ("destroy_map", "view_map"):
        if (getattr(built.op, name, None) or {}) != (getattr(other, name, None) or {}):
            return "has another %s" % name
    for example in context.examples(4, layouts=False):
        if example.built is not built:
            continue
        values = example.node_values()
        outcome = run_or_error(context, "any", example, plain=True)
        try:
            shim = SimpleNamespace(node=node, op=other, variables=built.variables)
            with np.errstate(all="ignore"):
                outputs = make_runner(shim, "any")([copied(v) for v in values])
        except Exception:
            continue
        i = first_difference(built.node.outputs, outcome, outputs)
        if i is not None:
            return "computes another result: %r, not %r" % (outputs[i], outcome[i])
    return ""


# ------------------------------------------------- pickle


def check_pickle(context):
    """Check that the Op, and functions that use it, can be copied and pickled."""
    op, target = context.op, context.target
    where = target.location("__reduce__") or target.location("__getstate__") or target.location("__init__")
    problems = []
    try:
        copy.deepcopy(op)
        copy.copy(op)
    except Exception as failure:
        problems.append(Problem("BadPickle", "the Op cannot be copied: %s" % one_line(failure), location=where))
    reason = _why_not_importable(type(op))
    if reason:
        return context.verdict(problems, 1) if problems else context.skipped(reason)
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        try:
            again = pickle.loads(pickle.dumps(op, protocol))
        except Exception as failure:
            problems.append(
                Problem(
                    "BadPickle", "the Op cannot be pickled: %s" % one_line(failure), "protocol %d" % protocol, where
                )
            )
            break
        if type(again) is not type(op):
            problems.append(Problem("BadPickle", "unpickling gives a %s" % type(again).__name__, location=where))
        elif has_equality(op):
            for problem in compare_equal(op, again, "the unpickled Op", where, target):
                problems.append(
                    Problem(
                        "BadPickle" if problem.error == "BadEquality" else problem.error,
                        problem.message,
                        problem.evidence,
                        problem.location,
                    )
                )
    if not problems:
        problems += _function_problems(context, where)
    return context.verdict(_first_of_each(problems), 2)


def _why_not_importable(cls):
    """Return the reason why pickle cannot import a class, or ""."""
    if "<locals>" in cls.__qualname__:
        return "the class is defined inside a function"
    found = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return "" if found is cls else "the class cannot be imported as %s.%s" % (cls.__module__, cls.__qualname__)


def _function_problems(context, where):
    from theano_ng.compile import In, Mode, function

    built = context.target.base
    if any(not hasattr(v.type, "dtype") for v in built.variables):
        return []
    examples = [e for e in context.examples(4, layouts=False, contents=False) if e.built is built][:1]
    if not examples:
        return []
    try:
        f = function(
            [In(v, mutable=True) for v in built.variables],
            list(built.node.outputs),
            mode=Mode("vm", None),
            accept_inplace=True,
            on_unused_input="ignore",
        )
    except Exception:
        return []  # other checks report this exception
    values = [copied(v) for v in examples[0].node_values()]
    try:
        g = pickle.loads(pickle.dumps(f, pickle.HIGHEST_PROTOCOL))
    except Exception as failure:
        return [
            Problem(
                "BadPickle", "a function that uses the Op cannot be pickled: %s" % one_line(failure), location=where
            )
        ]
    one, other = f(*[copied(v) for v in values]), g(*[copied(v) for v in values])
    i = first_difference(built.node.outputs, one, other)
    if i is None:
        return []
    return [
        Problem(
            "BadPickle", "an unpickled function gives other values: %r, not %r" % (other[i], one[i]), location=where
        )
    ]


# ------------------------------------------------- maps


def check_maps(context):
    """Check that destroy_map and view_map are dicts from existing outputs to lists of existing inputs."""
    problems = []
    for built in context.target.built:
        for name in ("destroy_map", "view_map"):
            table = getattr(built.op, name, None)
            message = _bad_map(name, table, len(built.node.inputs), len(built.node.outputs))
            if message:
                problems.append(
                    Problem(
                        "BadMap",
                        message,
                        "%s = %r, node %s" % (name, table, built.node),
                        context.target.location("__init__"),
                    )
                )
    return context.verdict(_first_of_each(problems), len(context.target.built))


def _bad_map(name, table, inputs, outputs):
    """Describe the error of a map. Return "" if the map is correct."""
    if table is None:
        return ""
    if not isinstance(table, dict):
        return "%s is %s, not a dict" % (name, type(table).__name__)
    for key, places in table.items():
        if not isinstance(key, (int, np.integer)) or isinstance(key, bool) or not 0 <= key < outputs:
            return "%s names output %r; the node has %d outputs" % (name, key, outputs)
        if not isinstance(places, (list, tuple)):
            return "%s[%d] is %s, not a list" % (name, key, type(places).__name__)
        for place in places:
            if not isinstance(place, (int, np.integer)) or isinstance(place, bool) or not 0 <= place < inputs:
                return "%s[%d] names input %r; the node has %d inputs" % (name, key, place, inputs)
        if name == "view_map" and len(places) > 1:
            return "view_map[%d] names %d inputs; an output can be a view of one input only" % (key, len(places))
    return ""


# ------------------------------------------------- C code as text


def check_cache_version(context):
    """Check that the version of the C code is a tuple of hashables, and that equal Ops have equal code and versions."""
    op, target = context.op, context.target
    if not target.has_c:
        return context.skipped("no C code")
    where, problems = target.location("c_code_cache_version"), []
    texts = 0
    for built in target.built:
        try:
            text, text_again = c_text(built.node), c_text(built.node)
        except Exception as failure:
            problems.append(
                Problem(
                    "CompileError",
                    "c_code raises %s" % one_line(failure),
                    "node %s" % built.node,
                    target.location("c_code"),
                )
            )
            continue
        if text is None:
            continue
        texts += 1
        if text_again != text:
            problems.append(
                Problem(
                    "BadCacheVersion",
                    "the C code changes between calls, so that it is compiled again in each process",
                    "node %s" % built.node,
                    target.location("c_code"),
                )
            )
        try:
            version = built.op.c_code_cache_version_apply(built.node)
            again = built.op.c_code_cache_version_apply(built.node)
        except Exception as failure:
            problems.append(
                Problem(
                    "BadCacheVersion",
                    "c_code_cache_version raises %s" % one_line(failure),
                    "node %s" % built.node,
                    where,
                )
            )
            continue
        problems += [
            Problem("BadCacheVersion", message, "version %r, node %s" % (version, built.node), where)
            for message in _bad_version(version, again)
        ]
        try:
            twin = copy.deepcopy(built.op)
            if has_equality(op) and twin == built.op and twin.c_code_cache_version_apply(built.node) != version:
                problems.append(
                    Problem("BadCacheVersion", "equal Ops have different versions", "version %r" % (version,), where)
                )
        except Exception:
            pass  # check_pickle reports that the copy fails
    if not texts and not problems:
        return context.skipped("no C code for these types")
    return context.verdict(_first_of_each(problems), texts)


def _bad_version(version, again):
    if not isinstance(version, tuple):
        yield "the version is %s, not a tuple" % type(version).__name__
        return
    if not version:
        yield "the version is empty, so that each process compiles the code again"
    try:
        hash(version)
    except TypeError as failure:
        yield "the version is not hashable: %s" % failure
        return
    if version != again:
        yield "the version changes between calls"


def snapshot(op):
    """Return a dict from the names of an Op's public attributes to the `repr` of their values.

    Attributes are left out if their values are not of a built-in type or a NumPy type.
    """
    plain = (
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        tuple,
        list,
        dict,
        set,
        frozenset,
        type(None),
        np.ndarray,
        np.generic,
    )
    return {
        name: repr(value)
        for name, value in sorted(getattr(op, "__dict__", {}).items())
        if isinstance(value, plain) and not name.startswith("_")
    }


def _shape_of(node):
    """Return the inputs, the outputs, the Op and the types of a node, none of which may change."""
    return list(node.inputs), list(node.outputs), node.op, [v.type for v in node.inputs + node.outputs]


def check_mutation(context):
    """Check that making and running thunks does not change the Op and the nodes."""
    target, problems = context.target, []
    ops = [(built.op, snapshot(built.op), hash_of(built.op)) for built in target.built]
    nodes = [(built.node, _shape_of(built.node)) for built in target.built]
    # Draw the examples after the snapshots, because drawing runs `perform`, which may already change the Op.
    examples = context.examples(2 * len(target.built), layouts=False, contents=False)
    for kind, method in (("py", "perform"), ("c", "c_code")):
        for example in examples:
            try:
                run_or_error(context, kind, example)
            except Exception:
                continue  # check_c_code reports C code that does not compile
        where = target.location(method)
        for op, before, hashed in ops:
            after = snapshot(op)
            changed = [name for name in before if after.get(name) != before[name]]
            if changed or hash_of(op) != hashed:
                what = (
                    "; ".join("%s was %s, is %s" % (name, before[name], after.get(name, "gone")) for name in changed)
                    or "its hash"
                )
                problems.append(Problem("MutatesOp", "running %s changed the Op: %s" % (method, what), location=where))
        for node, (inputs, outputs, op, types) in nodes:
            now = _shape_of(node)
            if (
                len(now[0]) != len(inputs)
                or len(now[1]) != len(outputs)
                or now[2] is not op
                or now[3] != types
                or any(a is not b for a, b in zip(now[0] + now[1], inputs + outputs))
            ):
                problems.append(
                    Problem(
                        "MutatesNode",
                        "running %s changed the node: %s" % (method, node),
                        "inputs, outputs, op and types before: %s\nafter: %s" % ((inputs, outputs, op, types), now),
                        where,
                    )
                )
        if problems:
            break
    unique = {problem.error: problem for problem in reversed(problems)}
    return context.verdict(list(unique.values()), len(examples))
