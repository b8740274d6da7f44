"""Delta debugging: reduces a program whose results differ to a small program that differs in the same way."""

import time
from dataclasses import replace

import numpy as np

from theano_ng.tests.programs import source
from theano_ng.tests.programs.precision import cast_plainly, settle_plainly
from theano_ng.tests.programs.records import Input, all_nodes, needed


def size(program):
    """Return the size of a program as a tuple of numbers, the most important number first."""
    nodes = all_nodes(program.nodes)
    odd = [one.form != "contiguous" for one in program.inputs] + [one.role != "argument" for one in program.inputs]
    odd += [one.same_as is not None for one in program.inputs]
    odd += [program.borrow, program.calls > 1, program.derivative is not None, program.derivative == "second"]
    words = sum([len(repr(value)) for node in nodes for _, value in node.parameters])
    digits = sum([len(repr(value)) for one in program.inputs for value in one.values])
    return (
        len(nodes),
        len(program.outputs) + len(program.updates) + len(program.inputs) + sum(odd),
        words + sum([len(node.operands) for node in nodes]),
        digits,
    )


def reduced(program, fails, budget=400, seconds=150):
    """Search for small programs for which `fails` returns True. Return the smallest program that was found.

    Parameters
    ----------
    program : Program
    fails : callable
        A predicate of a program. It is true if the program fails in the same way as the given program.
    budget : int
        The maximum number of calls of `fails`.
    seconds : float
        The time limit. When it is exceeded, the smallest program so far is returned.
    """
    tried, progress, end = set(), True, time.monotonic() + seconds
    while progress and budget > 0:
        progress = False
        for candidate in smaller(program):
            candidate = needed(candidate)
            if candidate in tried or size(candidate) >= size(program):
                continue
            tried.add(candidate)
            budget -= 1
            if fails(candidate):
                program, progress = candidate, True
                break
            if budget <= 0 or time.monotonic() > end:
                return program
    return program


def smaller(program):
    """Yield programs that are smaller in one respect. Changes that remove most come first."""
    yield from _fewer_outputs(program)
    yield from _without_nodes(program)
    yield from _plainer(program)
    yield from _shorter(program)
    yield from _simpler_values(program)


def _fewer_outputs(program):
    for name, _ in program.updates:
        yield replace(program, updates=tuple([pair for pair in program.updates if pair[0] != name]))
    for name in program.outputs if len(program.outputs) > 1 else ():
        yield replace(program, outputs=(name,))
        yield replace(program, outputs=tuple([other for other in program.outputs if other != name]))
    for derivative in {"second": (None, "gradient"), "gradient": (None,), "Rop": (None,)}.get(program.derivative, ()):
        yield replace(program, derivative=derivative)
    for node in program.nodes:
        if node.dtype and program.outputs != (node.name,):
            yield replace(program, outputs=(node.name,), updates=())


def _values(program):
    """Return the arrays of all inputs and of all nodes whose result is not a list, and the variables of the program."""
    names = [node.name for node in program.nodes if node.dtype]
    whole = replace(program, outputs=tuple(names), updates=())
    arrays = {one.name: source.plain(one) for one in program.inputs}
    with np.errstate(all="ignore"):
        outputs, _ = source.twin(whole)(settle_plainly, cast_plainly, 0, **arrays)
    arrays.update(zip(names, outputs))
    return arrays, source.variables(program)


def _without_nodes(program):
    """Yield programs in which a node is replaced by an operand of its type, or by an input.

    In bodies, a node is replaced by any operand or parameter. Two inputs of the same type are replaced by one input.
    """
    try:
        arrays, variables = _values(program)
    except Exception:
        return
    for node in reversed(program.nodes):
        if not node.dtype:
            continue
        for name in dict.fromkeys([*node.operands, *[one.name for one in program.inputs]]):
            if getattr(variables[name], "type", None) == variables[node.name].type:
                yield _renamed(program, node.name, name)
        variable = variables[node.name]
        if hasattr(variable, "broadcastable"):
            array = np.asarray(arrays[node.name])
            given = Input(
                node.name, str(array.dtype), tuple(variable.broadcastable), array.shape, tuple(array.ravel().tolist())
            )
            nodes = tuple([other for other in program.nodes if other is not node])
            yield replace(program, inputs=(*program.inputs, given), nodes=nodes)
    for k, node in enumerate(program.nodes):
        for body in _smaller_bodies(node.body) if node.body is not None else ():
            yield replace(program, nodes=(*program.nodes[:k], replace(node, body=body), *program.nodes[k + 1 :]))
    for k, first in enumerate(program.inputs):
        for second in program.inputs[k + 1 :]:
            if (first.dtype, first.broadcastable) == (second.dtype, second.broadcastable) and "shared" not in (
                first.role,
                second.role,
            ):
                yield _renamed(program, second.name, first.name)


def _smaller_bodies(body):
    for node in reversed(body.nodes):
        for name in dict.fromkeys([*node.operands, *body.inputs]):
            nodes = [other for other in body.nodes if other is not node]
            yield replace(
                body,
                nodes=tuple([_reading(other, node.name, name) for other in nodes]),
                outputs=tuple([name if output == node.name else output for output in body.outputs]),
            )


def _reading(node, old, new):
    return replace(node, operands=tuple([new if name == old else name for name in node.operands]))


def _renamed(program, old, new):
    """Return the program with all uses of the variable `old` replaced by the variable `new`, and without `old`."""
    return replace(
        program,
        inputs=tuple([replace(one, same_as=None) if one.same_as == old else one for one in program.inputs]),
        nodes=tuple([_reading(node, old, new) for node in program.nodes if node.name != old]),
        outputs=tuple([new if name == old else name for name in program.outputs]),
        updates=tuple([(shared, new if name == old else name) for shared, name in program.updates if shared != old]),
    )


_PLAINER = {
    "n_steps": None,
    "backwards": False,
    "truncate": -1,
    "until": None,
    "inline": False,
    "keepdims": False,
    "more": 0,
}


def _plainer(program):
    if program.borrow:
        yield replace(program, borrow=False)
    if program.calls > 1:
        yield replace(program, calls=1)
    for k, one in enumerate(program.inputs):
        for changes in (dict(form="contiguous"), dict(role="argument"), dict(same_as=None)):
            if any([getattr(one, name) != value for name, value in changes.items()]):
                if not (changes.get("role") and one.name in [name for name, _ in program.updates]):
                    yield _with_input(program, k, replace(one, **changes))
    for k, node in enumerate(program.nodes):
        for j, (name, value) in enumerate(node.parameters):
            if name in _PLAINER and value != _PLAINER[name]:
                parameters = (*node.parameters[:j], (name, _PLAINER[name]), *node.parameters[j + 1 :])
                yield replace(
                    program, nodes=(*program.nodes[:k], replace(node, parameters=parameters), *program.nodes[k + 1 :])
                )


def _with_input(program, k, one):
    return replace(program, inputs=(*program.inputs[:k], one, *program.inputs[k + 1 :]))


def _shorter(program):
    """Yield programs in which a single axis is shorter, or all axes of one length are shorter."""
    lengths = sorted({n for one in program.inputs for n in one.shape if n > 1}, reverse=True)
    for length in lengths:
        for new in dict.fromkeys((1, 2, length - 1)):
            if new < length:
                yield replace(program, inputs=tuple([_cut(one, length, new) for one in program.inputs]))
    for k, one in enumerate(program.inputs):
        for axis, length in enumerate(one.shape):
            if length > 1:
                yield _with_input(program, k, _cut(one, length, length - 1, axis))


def _cut(one, length, new, axis=None):
    here = [n == length and axis in (None, k) for k, n in enumerate(one.shape)]
    array = source.plain(one)[tuple([slice(new) if cut else slice(None) for cut in here])]
    return replace(one, shape=array.shape, values=tuple(array.ravel().tolist()))


def _simpler_values(program):
    for k, one in enumerate(program.inputs):
        array = source.plain(one)
        for change in (
            lambda a: a * 0 + 1,
            lambda a: np.arange(1, 1 + a.size).reshape(a.shape),
            np.round,
            lambda a: np.round(a, 1),
        ):
            try:
                values = tuple(change(array).astype(one.dtype).ravel().tolist())
            except TypeError:
                continue
            yield _with_input(program, k, replace(one, values=values))


def fewer(items, fails, budget=60):
    """Search with the algorithm ddmin for lists for which `fails` returns True. Return the shortest list found.

    Parameters
    ----------
    items : list
        The items. The last item is always kept.
    fails : callable
        A predicate of a list.
    budget : int
        The maximum number of calls of `fails`, approximately.
    """
    kept, last, parts = list(items[:-1]), items[-1], 2
    while kept and budget > 0:
        step = max(1, len(kept) // parts)
        pieces = [kept[k : k + step] for k in range(0, len(kept), step)]
        for k, piece in enumerate(pieces):
            others = [item for j, other in enumerate(pieces) if j != k for item in other]
            tries = [piece] if len(pieces) > 2 or k == 0 else []
            found = next((one for one in [*tries, others] if budget > 0 and fails([*one, last])), None)
            budget -= 1 + len(tries)
            if found is not None:
                kept, parts = found, 2
                break
        else:
            if step == 1:
                break
            parts = min(2 * parts, len(kept))
    return [*kept, last]
