"""The exceptions of DebugMode. They are documented as members of `theano_ng.compile.debugmode`."""

import numpy as np

from theano_ng.gof import toolbox
from theano_ng.gof.places import location_of
from theano_ng.printing import debugprint


class DebugModeError(Exception):
    """The base class of all errors that DebugMode raises."""


def _describe(name, value):
    """Return lines that describe a value: class, shape, dtype, strides and contents."""
    lines = ["  %s Type   : %s" % (name, type(value))]
    if isinstance(value, np.ndarray):
        lines += [
            "  %s Shape  : %s" % (name, value.shape),
            "  %s Dtype  : %s" % (name, value.dtype),
            "  %s Strides: %s" % (name, value.strides),
        ]
        if value.size and value.dtype.kind in "biufc":
            with np.errstate(all="ignore"):
                lines.append(
                    "  %s range  : min %s, max %s, %d infinite, %d NaN"
                    % (name, value.min(), value.max(), int(np.isinf(value).sum()), int(np.isnan(value).sum()))
                )
    text = str(value)
    lines.append("  %s Value  : %s" % (name, text if len(text) <= 800 else text[:800] + "..."))
    return lines


def _differences(a, b):
    """Return lines that state how much two arrays differ. Return no lines if the arrays cannot be compared."""
    try:
        with np.errstate(all="ignore"):
            diff = np.absolute(np.asarray(a, "complex128") - np.asarray(b, "complex128"))
            rel = diff / np.maximum(
                np.absolute(np.asarray(a, "complex128")) + np.absolute(np.asarray(b, "complex128")), 1e-300
            )
    except (TypeError, ValueError):
        return []
    if not diff.size:
        return []
    return [
        "  %s Diff: max %s, mean %s, std %s" % (name, d.max(), d.mean(), d.std())
        for name, d in (("Abs", diff), ("Rel", rel))
    ]


def _node_lines(node):
    return [
        "  node    : %s" % node,
        "  op      : %s of %s" % (node.op, type(node.op)),
        "  inputs  : %s" % [str(i.type) for i in node.inputs],
        "  outputs : %s" % [str(o.type) for o in node.outputs],
        *_place_lines(node.op),
    ]


def _place_lines(op):
    """Return lines that say where `perform` and the C code of an Op are defined."""
    places = [(name, location_of(op, name)) for name in ("perform", "c_code")]
    return ["  %-8s: %s" % (name, place) for name, place in places if place]


class BadThunkOutput(DebugModeError):
    """Error: two runs of one node on the same inputs computed different values.

    Either one run used `perform` and the other run used C code, or both runs used the same code: the second run is then
    a repetition, or has preallocated memory for the output.

    Parameters
    ----------
    r : Variable
        The output.
    thunk1, thunk2 : str
        The names of the runs.
    val1, val2 : object
        The values of the output in the two runs.
    inputs_val : list
        The values of the node's inputs.
    hint : str, optional
        A description of the error if the values do not show it.
    """

    def __init__(self, r, thunk1, val1, thunk2, val2, inputs_val=(), hint=""):
        super().__init__()
        self.r, self.thunk1, self.val1, self.thunk2, self.val2, self.inputs_val = (
            r,
            thunk1,
            val1,
            thunk2,
            val2,
            inputs_val,
        )
        self.hint = hint

    def offending_op(self):
        """Return the class of the Op."""
        return type(self.r.owner.op)

    def __str__(self):
        return self.str_diagnostic()

    def str_diagnostic(self):
        """Return a text that describes the node, the two runs and their values."""
        node = self.r.owner
        lines = [
            "BadThunkOutput",
            "  Apply   : %s" % node,
            "  op      : %s" % self.offending_op(),
            *_place_lines(node.op),
            "  Outputs Type: %s" % self.r.type,
            "  Outputs Shape: %s" % (getattr(self.val1, "shape", None),),
            "  Inputs Type : %s" % [str(i.type) for i in node.inputs],
            "  Inputs Shape: %s" % [getattr(v, "shape", None) for v in self.inputs_val],
            "  Inputs Strides: %s" % [getattr(v, "strides", None) for v in self.inputs_val],
            "  thunk1  : %s" % self.thunk1,
            "  thunk2  : %s" % self.thunk2,
        ]
        lines += _describe("thunk1", self.val1) + _describe("thunk2", self.val2) + _differences(self.val1, self.val2)
        if self.hint:
            lines.append("  hint    : %s" % self.hint)
        return "\n".join(lines)


_ANY_MEMORY = (
    "output_storage may contain an array with any strides, and with the shape of another call; use this array only if its "
    "shape, dtype and strides are those that the code expects, and replace it otherwise"
)
_WRONG_INDEX = (
    "compare the bounds of the loops with the shapes of the arrays, and the types of pointers with the dtypes"
)


class AddressError(BadThunkOutput):
    """Error: a node wrote outside of an array: around its memory, or between its elements.

    The array is the preallocated memory of an output, or an array that the node has made.

    It is a subclass of BadThunkOutput, which also reports wrong uses of preallocated memory.

    Parameters
    ----------
    r : Variable
        The output.
    run : str
        The name of the run, with the kind of preallocated memory.
    memory : numpy.ndarray
        The array in the output's cell before the run.
    written : list of (str, int, int)
        The result of `guards.Guarded.written`.
    val1 : object
        The correct value.
    inputs_val : list
        The values of the node's inputs.
    what : str, optional
        The array in words. By default, it is the output.
    """

    def __init__(self, r, run, memory, written, val1, inputs_val=(), what=""):
        super().__init__(r, "Reference value", val1, run, memory, inputs_val)
        self.written, self.what = written, what or "output %d" % r.owner.outputs.index(r)

    def one_line(self):
        """Return one line of text: the array, and where and how far outside of its memory the node wrote."""
        places = [
            "%d bytes %s%s" % (count, side, ", as far as %d bytes from it" % far if far else "")
            for side, count, far in self.written
        ]
        return "%s wrote outside of %s: %s" % (self.thunk2, self.what, "; ".join(places))

    def str_diagnostic(self):
        """Return a text that describes the node, the run, the memory, and where the node wrote outside the memory."""
        memory = self.val2
        lines = ["AddressError", "  " + self.one_line()] + _node_lines(self.r.owner)
        if memory is not None:
            lines += [
                "  memory  : shape %s, strides %s, dtype %s" % (memory.shape, memory.strides, memory.dtype),
                "  output  : shape %s, dtype %s"
                % (getattr(self.val1, "shape", None), getattr(self.val1, "dtype", None)),
            ]
        lines += [
            "  Inputs Shape: %s" % [getattr(v, "shape", None) for v in self.inputs_val],
            "  Inputs Strides: %s" % [getattr(v, "strides", None) for v in self.inputs_val],
            "  hint    : " + (_WRONG_INDEX if memory is None else _ANY_MEMORY),
        ]
        return "\n".join(lines)


class BadOptimization(DebugModeError, toolbox.BadOptimization):
    """Error: a rewrite replaced a variable by a variable that has a different value at run time.

    See `theano_ng.gof.toolbox.BadOptimization` for the parameters.
    """


class BadDestroyMap(DebugModeError):
    """Error: a node changed an input that is not in its Op's `destroy_map`.

    Parameters
    ----------
    node : Apply
    idx : int
        The index of the input.
    old_val, new_val : object
        The value of the input before and after the run.
    perform : str
        The name of the run.
    """

    def __init__(self, node, idx, old_val, new_val, perform):
        super().__init__()
        self.node, self.idx, self.old_val, self.new_val, self.perform = node, idx, old_val, new_val, perform

    def __str__(self):
        lines = [
            "BadDestroyMap",
            "  %s changed input %d, which the Op's destroy_map does not declare" % (self.perform, self.idx),
        ]
        lines += _node_lines(self.node) + ["  destroy_map: %s" % getattr(self.node.op, "destroy_map", {})]
        lines += (
            _describe("old", self.old_val) + _describe("new", self.new_val) + _differences(self.old_val, self.new_val)
        )
        return "\n".join(
            lines
            + [
                "",
                "  Hint: this can also be caused by a deficient values_eq_approx() or __eq__() implementation "
                "[which compared the old and new values]",
            ]
        )


class BadViewMap(DebugModeError):
    """Error: an output shares memory with an input or another output, but `view_map` and `destroy_map` do not declare
    it.

    Parameters
    ----------
    node : Apply
    output_idx : int
    out_storage : object
        The output's value.
    in_alias_idx : list of int, optional
        The indices of the inputs that share its memory.
    out_alias_idx : int, optional
        The index of the other output that shares its memory.
    """

    def __init__(self, node, output_idx, out_storage, in_alias_idx=None, out_alias_idx=None):
        super().__init__()
        self.node, self.output_idx, self.out_storage = node, output_idx, out_storage
        self.in_alias_idx, self.out_alias_idx = in_alias_idx, out_alias_idx

    def __str__(self):
        lines = ["BadViewMap"] + _node_lines(self.node)
        lines += [
            "  destroy_map: %s" % getattr(self.node.op, "destroy_map", {}),
            "  view_map: %s" % getattr(self.node.op, "view_map", {}),
            "  output index: %d" % self.output_idx,
        ]
        if self.in_alias_idx:
            lines.append("  it shares memory with inputs: %s" % self.in_alias_idx)
        if self.out_alias_idx is not None:
            lines.append("  it shares memory with output: %s" % self.out_alias_idx)
        return "\n".join(lines + _describe("output", self.out_storage))


class StochasticOrder(DebugModeError):
    """Error: when the same graph was rewritten twice, the changes or the order of the changes were different."""


class EndlessOptimization(DebugModeError):
    """Error: rules would rewrite a graph without end, because they undo each other, or apply to their own results."""


class BadReferences(DebugModeError):
    """Error: a node released a reference that it does not own, or an array twice.

    Parameters
    ----------
    node : Apply
    run : str
        The name of the run.
    what : str
        What was released, in words.
    """

    def __init__(self, node, run, what):
        super().__init__()
        self.node, self.run, self.what = node, run, what

    def __str__(self):
        lines = ["BadReferences", "  %s released %s" % (self.run, self.what), *_node_lines(self.node)]
        return "\n".join(
            [
                *lines,
                "  hint    : the C variables of inputs are borrowed references: call Py_INCREF before an input is stored in "
                "an output, and do not call Py_DECREF for an input",
            ]
        )


class InvalidValueError(DebugModeError):
    """Error: a value is not valid for the type of its variable, or must be finite but is not.

    Parameters
    ----------
    r : Variable
    v : object
        The value.
    client_node : Apply, optional
        The node that would have read the value.
    hint, specific_hint : str
        Descriptions of the error and of the run in which it occurred.
    """

    def __init__(self, r, v=None, client_node=None, hint="none", specific_hint="none"):
        super().__init__()
        self.r, self.v, self.client_node, self.hint, self.specific_hint = r, v, client_node, hint, specific_hint

    def __str__(self):
        lines = [
            "InvalidValueError",
            "  type(variable) = %s" % type(self.r),
            "  variable       = %s" % self.r,
            "  type(value)    = %s" % type(self.v),
        ]
        for name in ("dtype", "shape"):
            lines.append("  %s(value)   = %s" % (name, getattr(self.v, name, "unknown")))
        if isinstance(self.v, np.ndarray) and self.v.size and self.v.dtype.kind in "fc":
            lines.append("  isfinite       = %s" % bool(np.isfinite(self.v).all()))
        lines += _describe("value", self.v)[-1:]
        lines += [
            "  expected type  = %s" % self.r.type,
            "  node           = %s" % self.r.owner,
            "  client_node    = %s" % self.client_node,
            "  hint           = %s" % self.hint,
            "  specific_hint  = %s" % self.specific_hint,
        ]
        if self.r.owner is not None:
            lines += ["  context:", debugprint(self.r, depth=4, print_type=True, file="str")]
        return "\n".join(lines)


def error_of(finding):
    """Return the exception for a finding of the audit: an instance of the class with the name of the error.

    Parameters
    ----------
    finding : theano_ng.audit.records.Finding

    Returns
    -------
    DebugModeError
    """
    kind = globals().get(finding.error)
    kind = kind if isinstance(kind, type) and issubclass(kind, DebugModeError) else DebugModeError
    lines = [finding.error, "  " + finding.message]
    lines += ["  input %d : %s" % item for item in enumerate(finding.inputs)]
    if finding.location:
        lines.append("  place   : %s" % finding.location)
    lines.append(
        "  hint    : the flag DebugMode.search has tried other values of the same types than those of this call"
    )
    lines += ["  | " + line for line in finding.evidence.splitlines()[:20]]
    return type(kind.__name__, (_Searched, kind), {"__module__": kind.__module__})("\n".join(lines))


class _Searched:
    """The text of an error that a search has found. The other attributes of its class do not exist."""

    def __init__(self, text):
        Exception.__init__(self, text)
        self.text = text

    def __str__(self):
        return self.text

    str_diagnostic = __str__

    def __reduce__(self):
        return DebugModeError, (self.text,)


for _thing in (
    DebugModeError,
    AddressError,
    BadThunkOutput,
    BadOptimization,
    BadDestroyMap,
    BadViewMap,
    StochasticOrder,
    EndlessOptimization,
    BadReferences,
    InvalidValueError,
):
    # Set `__module__` to the documented module, because pickles and reprs contain it.
    _thing.__module__ = "theano_ng.compile.debugmode"
del _thing
