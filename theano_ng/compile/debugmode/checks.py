"""The checks of DebugMode for one run of one node: inputs, aliases, outputs, and preallocated output memory."""

import itertools
import logging
from copy import deepcopy

import numpy as np

from theano_ng.compile.debugmode.errors import (
    AddressError,
    BadDestroyMap,
    BadThunkOutput,
    BadViewMap,
    InvalidValueError,
)
from theano_ng.compile.debugmode.guards import Guarded, c_strides
from theano_ng.compile.debugmode.tracking import check_eq
from theano_ng.compile.ops import OutputGuard
from theano_ng.gof.op import Op
from theano_ng.gof.type import CDataType

_logger = logging.getLogger("theano_ng.compile.debugmode")

default_make_thunk = [Op.make_thunk]
"""The ``make_thunk`` methods that only choose among an Op's implementations, which DebugMode checks separately."""

# An array with gaps is copied with its strides if it spans at most _MAX_SPREAD times the bytes of its elements, or at
# most _FEW_BYTES bytes.
_MAX_SPREAD, _FEW_BYTES = 4, 1 << 20


def _same_layout(a):
    """Return a copy of an array with the same strides. Return None if this is impossible or takes too much memory."""
    if a.size == 0 or not a.flags.aligned or a.dtype.hasobject:
        return None
    span = a.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape) if n > 1):
        if stride < span:
            return None  # elements overlap
        span += stride * (n - 1)
    if span > max(_MAX_SPREAD * a.nbytes, _FEW_BYTES):
        return None
    buffer = np.empty(span, dtype="uint8")
    start = sum(-s * (n - 1) for s, n in zip(a.strides, a.shape) if s < 0)
    copy = np.ndarray(a.shape, a.dtype, buffer, start, a.strides)
    copy[...] = a
    return copy


def _lessbroken_deepcopy(a):
    """Return a deep copy of a value, or the value itself if it cannot be copied. A copy of an array keeps its layout.

    Parameters
    ----------
    a : object
    """
    if type(a) is np.ndarray or isinstance(a, np.memmap):
        if not (a.flags.c_contiguous or a.flags.f_contiguous):
            copy = _same_layout(np.asarray(a))
            if copy is not None:
                return copy
        return np.array(a, copy=True, order="K", subok=False)
    if (
        a is None
        or isinstance(a, (int, float, complex, str, bytes, slice, np.generic))
        or type(a).__name__ == "PyCapsule"
    ):
        return a
    try:
        return deepcopy(a)
    except Exception:
        return a  # an object that cannot be copied, such as a module, a file or a lock


def _copy_for(r, value):
    """Return a copy of a variable's value, or the value itself if it is a handle of C data."""
    return value if isinstance(r.type, CDataType) else _lessbroken_deepcopy(value)


def _may_share_memory(r, a, b):
    """Return True if two values share memory.

    For arrays, the test is exact unless it takes too much work. For other values, the type of the variable `r`
    decides by its method `may_share_memory`.
    """
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if not np.may_share_memory(a, b):
            return False
        try:
            return np.shares_memory(a, b, max_work=10000)
        except Exception:
            return True  # too much work for the exact test: report overlapping memory ranges as shared
    if a is None or b is None or isinstance(r.type, CDataType):
        return False  # Ops pass C pointers on without a copy, so shared data is no error
    shares = getattr(r.type, "may_share_memory", None)
    if shares is None:
        return False
    try:
        return bool(shares(a, b))
    except (TypeError, NotImplementedError):
        return False


def _is_used_in_graph(var):
    """Return True if a variable has clients or is an output of its graph."""
    return bool(getattr(var, "clients", ()))


def _is_pure_output(var):
    """Return True if all clients of a variable are outputs of its graph, directly or through an OutputGuard."""
    return all(
        client == "output" or (isinstance(client.op, OutputGuard) and _is_pure_output(client.outputs[0]))
        for client, _ in var.clients
    )


def check_valid(r, value, finite, hint, specific_hint, client_node=None):
    """Raise InvalidValueError if a value is not valid for a variable's type, or if it must be finite but is not.

    Parameters
    ----------
    r : Variable
    value : object
    finite : bool
        Whether NaN and infinities are errors.
    hint, specific_hint : str
        Texts for the error message; see `InvalidValueError`.
    client_node : Apply, optional
        The node that reads the value.
    """
    if not r.type.is_valid_value(value):
        reason = r.type.value_validity_msg(value)
        raise InvalidValueError(
            r, value, client_node, hint, reason if specific_hint == "none" else "%s: %s" % (specific_hint, reason)
        )
    # AllocEmpty and similar Ops mark the type of their output, because the output may contain any bits.
    if (
        finite
        and isinstance(value, np.ndarray)
        and value.dtype.kind in "fc"
        and vars(r.type).get("filter_checks_isfinite", True)
    ):
        if not np.isfinite(value).all():
            raise InvalidValueError(
                r,
                value,
                client_node,
                hint,
                "the value contains NaN or infinite elements; DebugMode(check_isfinite=False) or the flag "
                "DebugMode.check_finite=False allows them",
            )


def _check_inputs(
    node, storage_map, r_vals, dr_vals, active_nodes, clobber_dr_vals=True, perform=None, warn_input_not_reused=True
):
    """Check that a node changed only inputs that its `destroy_map` lists.

    Parameters
    ----------
    node : Apply
        The node, after its run.
    storage_map, r_vals : dict
        Variable -> cell after the run, and variable -> value before the run.
    dr_vals : dict
        Variable -> (value after the variable was destroyed, destroying node). This function adds entries to the dict.
    active_nodes : set of Apply
        The nodes of the rewritten graph, without the nodes that rewriting removed.
    clobber_dr_vals : bool
        Whether to record destroyed values in `dr_vals`.
    perform : str
        The name of the run.
    warn_input_not_reused : bool
        Whether to warn if an output that is declared as in-place or as a view has new memory.

    Returns
    -------
    list of Variable
        The outputs that are in the memory of an input.

    Raises
    ------
    BadDestroyMap
    """
    inplace_outs = []
    for what, table in (
        ("destroyed", getattr(node.op, "destroy_map", None)),
        ("viewed", getattr(node.op, "view_map", None)),
    ):
        for out_idx, places in (table or {}).items():
            out, value = node.outputs[out_idx], storage_map[node.outputs[out_idx]][0]
            values = [storage_map[node.inputs[i]][0] for i in places]
            if any(value is v or _may_share_memory(out, value, v) for v in values):
                inplace_outs.append(out)
            elif warn_input_not_reused and places and _could_reuse(node, what, value, values[0]):
                _logger.warning(
                    "Optimization Warning: input idx %d marked as %s but new memory allocated by node '%s'",
                    places[0],
                    what,
                    node,
                )
    destroyed = {i for places in (getattr(node.op, "destroy_map", None) or {}).values() for i in places}
    destroyed_variables = {node.inputs[i] for i in destroyed}
    for i, r in enumerate(node.inputs):
        # A sparse matrix is equal to a matrix with its entries in another order, but other values may share its arrays.
        unchanged = getattr(r.type, "have_equal_arrays", r.type.values_eq)
        if unchanged(r_vals[r], storage_map[r][0]):
            continue
        if r not in destroyed_variables:
            raise BadDestroyMap(node, i, r_vals[r], storage_map[r][0], perform)
        if node in active_nodes:
            if dr_vals.get(r, (None, node))[1] is not node:
                raise Exception(
                    "failure in topological ordering: %s is destroyed by %s and %s" % (r, dr_vals[r][1], node)
                )
            if clobber_dr_vals:
                dr_vals[r] = (storage_map[r][0], node)
    return inplace_outs


def _could_reuse(node, what, value, memory):
    """Return True if an output that has new memory could have been in the memory of an input.

    An output that is declared as a view may be a copy in two cases: if the layout of the input permits no view, or if
    the Op decides at run time which input it returns (ifelse).

    Parameters
    ----------
    node : Apply
    what : {"destroyed", "viewed"}
        Whether the Op declares that it computes the output in place, or that the output is a view.
    value, memory : object
        The value of the output, and the value of the input in whose memory the output could have been.
    """
    if isinstance(node.op, OutputGuard) or getattr(value, "size", 1) == 0 or np.isscalar(value):
        return False
    if what == "viewed":
        return (
            isinstance(memory, np.ndarray)
            and memory.flags.c_contiguous
            and getattr(value, "ndim", 0) > 0
            and type(node.op).make_thunk in default_make_thunk
        )
    return True


def _check_viewmap(node, storage_map):
    """Check that each output of a node shares memory only with inputs that `view_map` and `destroy_map` list for it.

    Also check that no two outputs share memory with each other if they share none with inputs. Such sharing is allowed
    only if no node reads the two outputs.

    Raises
    ------
    BadViewMap
    """
    tables = [getattr(node.op, name, None) or {} for name in ("view_map", "destroy_map")]
    for oi, out in enumerate(node.outputs):
        value = storage_map[out][0]
        announced = {node.inputs[i] for table in tables for i in table.get(oi, ())}
        aliased = [ii for ii, r in enumerate(node.inputs) if _may_share_memory(out, value, storage_map[r][0])]
        bad = [ii for ii in aliased if node.inputs[ii] not in announced]
        if bad:
            raise BadViewMap(node, oi, value, in_alias_idx=bad)
        if not aliased and _is_used_in_graph(out):
            for other_oi, other in enumerate(node.outputs):
                if other_oi == oi or not _is_used_in_graph(other):
                    continue
                if _is_pure_output(out) and _is_pure_output(other):
                    continue  # no node reads these two outputs; only the caller gets them
                if _may_share_memory(out, value, storage_map[other][0]):
                    raise BadViewMap(node, oi, value, out_alias_idx=other_oi)


def _check_strides_match(a, b, warn_err, op):
    """Compare the strides of two arrays.

    Parameters
    ----------
    a, b : object
        The values. They are compared only if they are arrays of the same shape.
    warn_err : int
        The action for different strides. 0: do nothing. 1: warn. 2: raise TypeError.
    op : Op
    """
    if (
        warn_err == 0
        or not isinstance(a, np.ndarray)
        or not isinstance(b, np.ndarray)
        or a.shape != b.shape
        or a.size == 0
    ):
        return
    # Ignore the strides of dimensions of length 1, because they do not affect the address of any element.
    if any(s != t for s, t, n in zip(a.strides, b.strides, a.shape) if n > 1):
        message = "Stride mismatch: shape %s, strides %s of perform and %s of C code, op %s" % (
            a.shape,
            a.strides,
            b.strides,
            op,
        )
        if warn_err == 2:
            raise TypeError(message)
        _logger.warning(message)


# ------------------------------------------------- preallocated output memory

_FILLS = (-123, 123)


def _filled(array, def_val):
    """Fill an array with `def_val`.

    Fill a boolean array with ``def_val > 0``, and an array that is not numeric with zero.
    """
    if array.dtype.kind in "fciu":
        array[...] = np.asarray(def_val).astype(array.dtype)
    else:
        array[...] = def_val > 0 if array.dtype.kind == "b" else 0
    return array


def _get_preallocated_maps(node, prealloc_modes, varied, r_vals, inplace_outs, init_outputs):
    """Generate preallocated memory of several kinds, which is put into the output cells before a run.

    Parameters
    ----------
    node : Apply
    prealloc_modes : collection of str
        See `config.DebugMode.check_preallocated_output`.
    varied : int
        The number of innermost dimensions that get different steps and lengths.
    r_vals : dict
        Output -> its correct value.
    inplace_outs : list of Variable
        Outputs that are in the memory of inputs.
    init_outputs : dict
        Variable -> its value in the previous call of the function, or None.

    Yields
    ------
    (str, dict)
        The name of the kind, and a dict: output -> `Guarded` memory, or a value that is not an array of numbers.

    Notes
    -----
    Except for the kind "initial", arrays are filled with a negative or with a positive number. If an Op uses the
    old contents of this memory (it adds to them or compares with them), one of the results is therefore wrong. An
    output that is not an array gets a copy of the correct value (kind "previous"), or of the value of the previous call
    ("initial"), as in an ordinary call.
    """
    modes, everything = set(prealloc_modes), "ALL" in prealloc_modes

    def wanted(kind):
        return everything or kind in modes

    outputs = [out for out in node.outputs if out not in inplace_outs and r_vals.get(out) is not None]
    considered = [out for out in outputs if type(r_vals[out]) is np.ndarray and not r_vals[out].dtype.hasobject]
    others = [out for out in outputs if out not in considered and not isinstance(out.type, CDataType)]

    def memory(out, order, def_val):
        strides = r_vals[out].strides if order == "K" else None
        if order == "F":
            strides = c_strides(r_vals[out].shape[::-1], r_vals[out].itemsize)[::-1]
        guarded = Guarded(r_vals[out].shape, r_vals[out].dtype, strides)
        _filled(guarded.array, def_val)
        return guarded

    if wanted("initial"):
        initial = {out: _copy_for(out, init_outputs[out]) for out in outputs if init_outputs.get(out) is not None}
        initial = {
            out: Guarded.like(value, r_vals[out].size) if out in considered and type(value) is np.ndarray else value
            for out, value in initial.items()
        }
        if initial:
            yield "initial", initial
    if wanted("previous"):
        for def_val in _FILLS if considered else _FILLS[:1]:
            yield (
                "previous",
                {
                    **{out: memory(out, "K", def_val) for out in considered},
                    **{out: _copy_for(out, r_vals[out]) for out in others},
                },
            )
    if wanted("c_contiguous"):
        for def_val in _FILLS:
            yield "c_contiguous", {out: memory(out, "C", def_val) for out in considered}
        if len(node.outputs) > 1:
            for out in considered:
                yield "c_contiguous (output %d only)" % node.outputs.index(out), {out: memory(out, "C", _FILLS[0])}
    if wanted("f_contiguous") and any(sum(n > 1 for n in r_vals[out].shape) > 1 for out in considered):
        for def_val in _FILLS:
            yield "f_contiguous", {out: memory(out, "F", def_val) for out in considered}
    varied = min(max([r_vals[out].ndim for out in considered], default=0), varied)
    if wanted("strided") and varied:
        for k, steps in enumerate(itertools.product((1, -1, 2, -2), repeat=varied)):
            if any(step != 1 for step in steps):
                yield "strided%s" % (steps,), {out: _strided(r_vals[out], steps, _FILLS[k % 2]) for out in considered}
    if wanted("wrong_size") and varied:
        for k, changes in enumerate(itertools.product((-1, 0, 1), repeat=varied)):
            if any(changes):
                name = "wrong_size%s" % (changes,)
                yield name, {out: _resized(out, r_vals[out], changes, _FILLS[k % 2]) for out in considered}


def _strided(value, steps, def_val):
    """Return guarded memory with the shape of a value. `steps` are the strides of its last dimensions, in elements."""
    steps = (1,) * value.ndim + steps
    steps = steps[len(steps) - value.ndim :]
    strides = c_strides([n * abs(step) for n, step in zip(value.shape, steps)], value.itemsize)
    guarded = Guarded(value.shape, value.dtype, tuple(stride * step for stride, step in zip(strides, steps)))
    _filled(guarded.array, def_val)
    return guarded


def _resized(out, value, changes, def_val):
    """Return guarded memory whose last dimensions have other lengths than the value has.

    The memory stands for an output of an earlier call, so a broadcastable dimension keeps length 1.
    """
    changes = (0,) * value.ndim + changes
    fixed = getattr(out.type, "broadcastable", (False,) * value.ndim)
    changes = [0 if one else d for d, one in zip(changes[len(changes) - value.ndim :], fixed)]
    guarded = Guarded([max(n + d, 0) for n, d in zip(value.shape, changes)], value.dtype, room=value.size)
    _filled(guarded.array, def_val)
    return guarded


def _check_preallocated_output(
    node,
    thunk,
    prealloc_modes,
    varied,
    storage_map,
    r_vals,
    dr_vals,
    perform,
    active_order_set,
    inplace_outs,
    init_outputs,
    run=None,
    finite=True,
):
    """Run a node again on its inputs, with preallocated memory in its output cells, and check the results.

    The outputs must not change. The node must not write into the guard margins around the memory.

    Parameters
    ----------
    node : Apply
    thunk : callable
    prealloc_modes, varied, inplace_outs, init_outputs
        See `_get_preallocated_maps`.
    storage_map, r_vals, dr_vals : dict
        See `_check_inputs`.
    perform : str
        The name of the run.
    active_order_set : set of Apply
    run : callable, optional
        ``run(name)`` calls the thunk; `name` is the name of this run. By default, `thunk` itself is called.
    finite : bool
        Whether NaN and infinities are errors.

    Raises
    ------
    AddressError, BadThunkOutput, BadDestroyMap, BadViewMap, InvalidValueError
    """
    for name, out_map in _get_preallocated_maps(node, prealloc_modes, varied, r_vals, inplace_outs, init_outputs):
        thunk_name = "%s with %s output" % (perform, name)
        if not out_map:
            continue
        for r in node.inputs:
            storage_map[r][0] = _copy_for(r, r_vals[r])
        for out in node.outputs:
            memory = out_map.get(out)
            storage_map[out][0] = memory.array if isinstance(memory, Guarded) else memory
        run(thunk_name) if run is not None else thunk()
        for out, memory in out_map.items():
            written = memory.written() if isinstance(memory, Guarded) else ()
            if written:
                raise AddressError(
                    out, thunk_name, memory.array, written, r_vals[out], [r_vals[r] for r in node.inputs]
                )
        for out in node.outputs:
            check_valid(out, storage_map[out][0], finite, thunk_name, "none")
        _check_inputs(
            node,
            storage_map,
            r_vals,
            dr_vals,
            active_order_set,
            clobber_dr_vals=False,
            perform=thunk_name,
            warn_input_not_reused=False,
        )
        _check_viewmap(node, storage_map)
        for out in node.outputs:
            if not check_eq(out, r_vals[out], storage_map[out][0]):
                raise BadThunkOutput(
                    out,
                    thunk1="Reference value",
                    val1=r_vals[out],
                    thunk2=thunk_name,
                    val2=storage_map[out][0],
                    inputs_val=[r_vals[r] for r in node.inputs],
                )
        for out in node.outputs:
            storage_map[out][0] = None
