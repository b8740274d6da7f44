"""NanGuardMode: a mode whose functions stop at the node that computes the first NaN, infinity or very big number."""

import numpy as np

from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof.link_errors import creation_trace_text
from theano_ng.gof.vm import VM_Linker
from theano_ng.printing import debugprint

BIG = 1e10


def flatten(l):
    """Return all elements of nested lists and tuples, in order.

    Parameters
    ----------
    l : list, tuple or object

    Returns
    -------
    list
        The elements. For an object that is neither a list nor a tuple, a list with this object.
    """
    result, todo = [], [l]
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple)):
            todo.extend(reversed(item))
        else:
            result.append(item)
    return result


def _numbers(arr):
    """Return the elements of a value as a floating point or complex array. Return None for any other value."""
    if isinstance(arr, (np.random.RandomState, np.random.Generator, slice)) or arr is None:
        return None
    if not isinstance(arr, (np.ndarray, np.generic)):
        data = getattr(arr, "data", None)
        if hasattr(arr, "format") and isinstance(data, np.ndarray):
            arr = data  # a sparse matrix: only stored elements can be NaN, infinite or big
        elif isinstance(arr, (float, complex)) or hasattr(arr, "__array__"):
            arr = np.asarray(arr)
        else:
            return None
    return arr if arr.dtype.kind in "fc" else None


def _is_numeric_value(arr, var):
    """Return True if a value is an array or a number whose dtype can represent NaN and infinities.

    Parameters
    ----------
    arr : object
    var : Variable or None
        The variable that has the value.
    """
    dtype = getattr(getattr(var, "type", None), "dtype", None)
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        return False
    return _numbers(arr) is not None


def contains_nan(arr, node=None, var=None):
    """Return True if a value contains a NaN.

    Parameters
    ----------
    arr : object
        The value. Values that are not numeric, such as random states, contain no NaN.
    node : Apply, optional
        The node that computed the value.
    var : Variable, optional
        The variable that has the value.
    """
    # A sum is NaN if an element is NaN, or if it adds infinities of both signs. Compute the sum first, because then
    # usually no array of flags has to be allocated.
    if not _is_numeric_value(arr, var):
        return False
    arr = _numbers(arr)
    with np.errstate(all="ignore"):
        return bool(arr.size and np.isnan(np.sum(arr)) and np.isnan(arr).any())


def contains_inf(arr, node=None, var=None):
    """Return True if a value contains an infinity; see `contains_nan` for the parameters."""
    if not _is_numeric_value(arr, var):
        return False
    return bool(np.isinf(_numbers(arr)).any())


def _contains_big(arr, var):
    """Return True if a value contains a number, finite or infinite, whose absolute value exceeds `BIG`."""
    if not _is_numeric_value(arr, var):
        return False
    arr = _numbers(arr)
    with np.errstate(all="ignore"):
        return bool((np.abs(arr) > arr.real.dtype.type(BIG)).any())


class NanGuardMode(Mode):
    """A mode whose functions raise an error if an input or a computed value is NaN, infinite or very big.

    Parameters
    ----------
    nan_is_error : bool, optional
        Whether NaN is an error. By default, `config.NanGuardMode.nan_is_error`.
    inf_is_error : bool, optional
        Whether infinities are errors. By default, `config.NanGuardMode.inf_is_error`. Use False for programs in which
        ``-inf`` is the initial value of a maximum.
    big_is_error : bool, optional
        Whether absolute values above 1e10 are errors. By default, `config.NanGuardMode.big_is_error`.
    optimizer : str, Query or Optimizer
        "default" stands for the optimizer of `config.optimizer`.
    linker
        Not used. The parameter exists so that methods of `Mode` can make copies.

    Notes
    -----
    The functions raise an AssertionError that names the node and the line of the user's program that created its
    output. If `config.NanGuardMode.action` is "warn", they warn and continue. If it is "pdb", they start the debugger.
    Inputs and constants are checked when a function starts. The outputs of each node are checked after the node has
    run. A variable ``v`` with ``v.tag.nan_guard_mode_check = False`` is not checked. Variables by which rewrites
    replace ``v`` are not checked either. The output of AllocEmpty is not checked, because memory that was never written
    can contain any bits. In the mode ``mode.including("alloc_empty_to_zeros")``, zeros replace AllocEmpty.

    After an error, shared variables have the values that they had before the call: values that are updated in place are
    copied in every call.
    """

    def __init__(self, nan_is_error=None, inf_is_error=None, big_is_error=None, optimizer="default", linker=None):
        flags = config.NanGuardMode
        self.nan_is_error = flags.nan_is_error if nan_is_error is None else bool(nan_is_error)
        self.inf_is_error = flags.inf_is_error if inf_is_error is None else bool(inf_is_error)
        self.big_is_error = flags.big_is_error if big_is_error is None else bool(big_is_error)
        super().__init__(VM_Linker(callback=self._check_outputs, callback_input=self._check_input), optimizer)

    def __reduce__(self):
        # Do not copy the linker, because it refers to this mode. The constructor makes a separate linker for the copy.
        return type(self), (self.nan_is_error, self.inf_is_error, self.big_is_error, self.provided_optimizer)

    def clone(self, link_kwargs=None, optimizer="", **kwargs):
        """Return a copy of this mode, with another optimizer if one is given. `link_kwargs` is accepted but ignored."""
        if isinstance(optimizer, str) and optimizer == "":
            optimizer = self.provided_optimizer
        flags = dict(nan_is_error=self.nan_is_error, inf_is_error=self.inf_is_error, big_is_error=self.big_is_error)
        return type(self)(optimizer=optimizer, **dict(flags, **kwargs))

    def _check_input(self, var, value):
        if getattr(var.tag, "nan_guard_mode_check", True):
            self._check(value, None, var)

    def _check_outputs(self, node, thunk, storage_map, compute_map):
        for var in node.outputs:
            if getattr(var.tag, "nan_guard_mode_check", True):
                self._check(storage_map[var][0], node, var)

    def _check(self, value, node, var):
        for part in flatten(value):
            found = None
            if self.nan_is_error and contains_nan(part, node, var):
                found = "NaN detected"
            elif self.inf_is_error and contains_inf(part, node, var):
                found = "Inf detected"
            elif self.big_is_error and _contains_big(part, var):
                found = "Big value detected"
            if found is not None:
                self._act(self._message(found, part, node, var))

    @staticmethod
    def _act(message):
        """Report an error as `config.NanGuardMode.action` specifies: raise, warn, or start the debugger."""
        action = config.NanGuardMode.action
        if action == "raise":
            raise AssertionError(message)
        if action == "warn":
            import warnings

            warnings.warn(message, stacklevel=2)
        else:
            import pdb

            print(message)
            pdb.set_trace()

    @staticmethod
    def _message(found, value, node, var):
        lines = [found]
        if node is None:
            lines.append("In an input of the function: %s, of type %s" % (var, var.type))
            readers = list(dict.fromkeys(client for client, _ in getattr(var, "clients", ()) if client != "output"))
            lines += ["Node whose input it is: %s" % reader for reader in readers[:5]]
            if len(readers) > 5:
                lines.append("... and %d more nodes" % (len(readers) - 5))
        else:
            lines.append(
                "In an output of a node in the graph: output %d, %s, of type %s"
                % (node.outputs.index(var), var, var.type)
            )
            lines.append("Node whose output it is:")
            lines.append(debugprint(node, print_type=True, file="str"))
        trace = creation_trace_text(getattr(var.tag, "trace", ()))
        if trace:
            lines += ["Backtrace when the variable was created:", trace.rstrip()]
        lines.append("Value: %s" % str(value)[:1000])
        if node is not None:
            lines.append(
                "HINT: NanGuardMode with optimizer_including=alloc_empty_to_zeros excludes values of uninitialized "
                "memory; v.tag.nan_guard_mode_check = False exempts a variable v."
            )
        return "\n".join(lines)


__all__ = ["NanGuardMode", "contains_inf", "contains_nan", "flatten"]
