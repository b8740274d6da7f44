"""Error messages of exceptions that nodes raise when a function runs."""

import io
import sys
import traceback
import types

from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.op.dtype_check import dtype_mismatch

HINT_TRACE = (
    "HINT: Re-running with most Theano optimization disabled could give you a back-traces when this node was created. This can be done "
    "with by setting the Theano flags 'optimizer=fast_compile'. If that does not work, Theano optimization can be disabled with "
    "'optimizer=None'."
)
HINT_VERBOSE = "HINT: Use the Theano flag 'exception_verbosity=high' for a debugprint of this apply node."


def log_thunk_trace(value, f=None):
    """Write the stack trace of the creation of a failed node.

    Parameters
    ----------
    value : BaseException
        An exception raised by `raise_with_op`. For other exceptions, nothing is written.
    f : file, optional
        By default, the standard error stream.
    """
    trace = getattr(value, "__thunk_trace__", None)
    if not trace:
        return
    f = sys.stderr if f is None else f
    f.write(
        "".join(
            "    %s\n" % line
            for line in (
                "The above exception came from a node that was created here:",
                *creation_trace_text(trace).rstrip().split("\n"),
            )
        )
    )


def thunk_hook(type, value, trace):
    """Write the stack trace of the creation of the failed node, then the ordinary report.

    The function has the signature of `sys.excepthook`. Assign it to `sys.excepthook` to use it.
    """
    log_thunk_trace(value)
    sys.__excepthook__(type, value, trace)


def creation_trace_text(trace):
    """Return the stack trace `tag.trace` of a variable as the text of a traceback.

    Parameters
    ----------
    trace : list
        Frames ``(file, line, function[, text])``, or a list of traces. There are several traces if variables were
        merged.
    """
    if not trace:
        return ""
    one = isinstance(trace[0], tuple) and len(trace[0]) > 2 and isinstance(trace[0][0], str)
    groups = [trace] if one else trace
    out = io.StringIO()
    for group in groups:
        frames = []
        for frame in group:
            file, line, function, *text = frame
            frames.append(
                traceback.FrameSummary(file, line, function, line=text[0] if text else None, lookup_line=False)
            )
        out.writelines(traceback.format_list(frames))
    return out.getvalue()


def raise_with_op(node, thunk=None, exc_info=None, storage_map=None):
    """Raise the current exception again, with a description of the node in its message.

    Parameters
    ----------
    node : Apply
        The node that failed.
    thunk : callable, optional
        The thunk of the node. If it has `inputs`, the message contains their shapes, strides and values.
    exc_info : tuple, optional
        The result of `sys.exc_info()` when the error was caught. By default, the current result.
    storage_map : dict, optional
        Variable -> cell. If ``exception_verbosity=high``, the message lists the memory that the graph holds.

    Notes
    -----
    The exception keeps its class, except that NumPy's private subclass of MemoryError becomes MemoryError. The
    exception gets the attributes `__thunk_trace__` (the stack trace of the creation of the node's output),
    `__op_instance__` (the node), and `__applynode_index__` (the index of the node in `fgraph.toposort()`). If an
    exception class cannot be built from one string, the description of the node is added as a note. If the exception
    has an attribute `__failed_node__` that is not None, the description is the one of this node: a device reports an
    error when a later node waits for it.
    KeyboardInterrupt and SystemExit are raised unchanged.
    """
    if exc_info is None:
        exc_info = sys.exc_info()
    exc_type, exc_value, exc_trace = exc_info
    if not issubclass(exc_type, Exception):
        raise exc_value.with_traceback(exc_trace)
    failed = getattr(exc_value, "__failed_node__", None)
    if failed is not None and failed is not node:
        node, thunk = failed, None
    if getattr(exc_value, "__op_instance__", None) is not None and exc_value.__op_instance__ is node:
        raise exc_value.with_traceback(exc_trace)

    giver = _input_of_wrong_dtype(node, thunk) if issubclass(exc_type, TypeError) else None
    if giver is not None:
        variable, wrong = giver
        exc_type, exc_value = TypeError, TypeError("%s Found in %s: %s" % (wrong, node, exc_value))
        node, thunk = variable.owner, None
        if storage_map is not None:
            thunk = types.SimpleNamespace(inputs=_cells_of(node.inputs, storage_map))

    if getattr(thunk, "inputs", None) is not None:
        # Copy the cells: the function empties them after a failure, and a debugger in this frame should still find the
        # values in `thunk`.
        thunk = FailedThunk(thunk)
    outputs = getattr(node, "outputs", ())
    trace = getattr(outputs[0].tag, "trace", ()) if outputs else ()
    try:
        text = _message(node, thunk, trace, storage_map)
    except Exception as failure:
        # A user's __str__ or a value's shape may raise. Report this failure in the text, and keep the original error.
        text = "\nIt happened in a node of %s. (Describing the node failed: %r)" % (type(node.op).__name__, failure)
    new_value = with_text(exc_type, exc_value, text)
    new_value.__thunk_trace__ = trace
    new_value.__op_instance__ = node
    index = _toposort_index(node)
    if index is not None:
        new_value.__applynode_index__ = index
    raise new_value.with_traceback(exc_trace) from exc_value.__cause__


def _cells_of(variables, storage_map):
    # This is a separate function because in `raise_with_op` the comprehension would turn a variable into a cell
    # variable. CPython 3.11 leaks references to all arguments of a function if it has no memory for a cell.
    return [storage_map.get(r, [None]) for r in variables]


def _input_of_wrong_dtype(node, thunk):
    """Find an input variable of a node whose value does not have the dtype of the variable's type.

    Return the variable and a description, or None if all dtypes agree.
    """
    for variable, cell in zip(node.inputs, getattr(thunk, "inputs", None) or ()):
        wrong = dtype_mismatch(variable, cell[0])
        if wrong is not None:
            return variable, wrong
    return None


class FailedThunk:
    """A copy of the contents of a thunk's cells at the time of a failure.

    Attributes
    ----------
    inputs, outputs : list of cells
        Copies of the thunk's cells, with the values.
    thunk : callable
    """

    def __init__(self, thunk):
        self.thunk = thunk
        self.inputs = [[cell[0]] for cell in thunk.inputs]
        self.outputs = [[cell[0]] for cell in getattr(thunk, "outputs", None) or ()]


def with_text(exc_type, exc_value, text):
    """Return an exception whose message is the message of `exc_value` followed by `text`.

    The result is a new exception of the same class. If the class cannot be built from the longer message, `text` is
    added as a note to `exc_value`, and `exc_value` is returned.
    """
    message = str(exc_value)
    if issubclass(exc_type, MemoryError):
        # NumPy's private subclass of MemoryError cannot be built from a message, only from a shape and a dtype.
        exc_type = MemoryError
    try:
        new_value = exc_type(message + text)
        # `fits` is False if the class builds its own message from the argument (KeyError shows the argument's repr).
        fits = type(new_value) is exc_type and text in str(new_value)
    except Exception:
        fits = False
    if not fits:
        exc_value.add_note(text.lstrip("\n"))
        return exc_value
    if type(exc_value) is exc_type:
        new_value.__dict__.update(getattr(exc_value, "__dict__", {}))
    new_value.__context__ = exc_value.__context__
    return new_value


def _toposort_index(node):
    fgraph = getattr(node, "fgraph", None)
    try:
        return fgraph.toposort().index(node)
    except Exception:
        # The graph may be incomplete, or may no longer contain the node. The error is then raised without the index.
        return None


def _message(node, thunk, trace, storage_map):
    high = config.exception_verbosity == "high"
    parts = ["\nApply node that caused the error: %s" % (node,)]
    parts.append("\nInputs types: %s" % [getattr(r, "type", "No type") for r in node.inputs])
    cells = getattr(thunk, "inputs", None)
    if cells is not None:
        values = [cell[0] for cell in cells]
        shapes = [getattr(value, "shape", "No shapes") for value in values]
        strides = [getattr(value, "strides", "No strides") for value in values]
        scalars = ["not scalar" if getattr(value, "size", 1) != 1 or value is None else value for value in values]
        parts.append("\nInputs shapes: %s\nInputs strides: %s\nInputs scalar values: %s\n" % (shapes, strides, scalars))
    else:
        parts.append("\nInputs shapes: The thunk don't have an inputs attributes.\n")

    created = creation_trace_text(trace)
    if created:
        parts.append("\nBacktrace when the node is created:\n" + created)
    if high:
        parts.append("\nDebugprint of the apply node: \n" + _debugprint(node))
        if storage_map is not None:
            parts.append("\n" + storage_footprint(node, storage_map))

    hints = []
    if config.optimizer not in ("fast_compile", "None", None, "o1"):
        hints.append(HINT_TRACE)
    if not high:
        hints.append(HINT_VERBOSE)
    if hints:
        parts.append("\n" + "\n".join(hints))
    return "".join(parts)


def _debugprint(node):
    out = io.StringIO()
    ports.format_graph(node, file=out, stop_on_name=True, print_type=True)
    return out.getvalue()


def storage_footprint(node, storage_map):
    """Return a description of the values that the graph holds in memory, largest first.

    Parameters
    ----------
    node : Apply
        Any node of the graph.
    storage_map : dict
        Variable -> cell.

    Returns
    -------
    str
        ``Storage map footprint:`` and one line for each value: variable, role, shape, element size and total size. The
        sums follow. A value that shares its memory with an earlier value is not counted in the sums.
    """
    fgraph = getattr(node, "fgraph", None)
    inputs = set(getattr(fgraph, "inputs", ()))
    outputs = set(getattr(fgraph, "outputs", ()))
    rows, seen = [], set()
    total = total_inputs = 0
    for r, cell in storage_map.items():
        value = cell[0]
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        size = getattr(value, "nbytes", None)
        if size is None:
            try:
                size = r.type.get_size(r.type.get_shape_info(value))
            except Exception:
                size = None  # the Type does not report sizes
        if r in inputs:
            role = ", Shared Input" if hasattr(r, "get_value") or hasattr(r, "container") else ", Input"
        elif r in outputs:
            role = ", Output"
        else:
            role = ""
        line = " - %s%s" % (r, role)
        shape = getattr(value, "shape", None)
        if shape is not None:
            line += ", Shape: %s" % (shape,)
        itemsize = getattr(getattr(value, "dtype", None), "itemsize", None)
        if itemsize is not None:
            line += ", ElemSize: %d Byte(s)" % itemsize
        if size is not None:
            line += ", TotalSize: %d Byte(s)" % size
            owner_of_memory = value
            while getattr(owner_of_memory, "base", None) is not None:
                owner_of_memory = owner_of_memory.base
            if owner_of_memory is value or id(owner_of_memory) not in seen:
                seen.add(id(owner_of_memory))
                total += size
                if r in inputs:
                    total_inputs += size
        rows.append((-(size or 0), line))
    rows.sort(key=lambda row: row[0])
    lines = ["Storage map footprint:", *(line for _, line in rows)]
    lines.append(" TotalSize: %d Byte(s) %.3f GB" % (total, total / 1024.0**3))
    lines.append(" TotalSize inputs: %d Byte(s) %.3f GB" % (total_inputs, total_inputs / 1024.0**3))
    return "\n".join(lines) + "\n"
