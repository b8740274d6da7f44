"""Classic functions for rules and tools that change loops.

They replace parts of graphs, and remove outputs of loops.
"""

from collections import OrderedDict

import numpy as np

from theano_ng.compile.inner_graph import InnerGraph, substitute
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.traversal import ancestors, equal_computations, postorder
from theano_ng.scan.utils import safe_new
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.allocation import AllocEmpty

__all__ = [
    "Validator",
    "compress_outs",
    "expand_empty",
    "forced_replace",
    "hash_listsDictsTuples",
    "infer_shape",
    "isNaN_or_Inf_or_None",
    "reconstruct_graph",
    "scan_can_remove_outs",
    "traverse",
]


class Validator:
    """A check of whether a variable can be computed without invalid variables.

    Parameters
    ----------
    valid, invalid : list of Variable, optional
        The variables that may be used, and the variables that must not be used.
    valid_equivalent : dict, optional
        Invalid variable -> the valid variable that replaces it.
    """

    def __init__(self, valid=None, invalid=None, valid_equivalent=None):
        self.valid_equivalent = OrderedDict(valid_equivalent or {})
        self.valid = {*(valid or ()), *self.valid_equivalent.values()}
        self.invalid = {*(invalid or ()), *self.valid_equivalent}

    def check(self, out):
        """Return a valid replacement of a variable, if there is one.

        Parameters
        ----------
        out : Variable

        Returns
        -------
        tuple (Variable, bool), or None
            A variable that is computed without invalid variables, and whether it is `out` itself. None if `out` needs
            an invalid variable.
        """
        known = {v: (v, True) for v in self.valid}
        known.update(dict.fromkeys(self.invalid))
        known.update({v: (new, False) for v, new in self.valid_equivalent.items()})
        for v in postorder([out], known):
            node = v.owner
            if node is None:
                known[v] = (v.clone(), False) if isinstance(v, Constant) and hasattr(v, "fgraph") else (v, True)
                continue
            inputs = [known[i] for i in node.inputs]
            if any(found is None for found in inputs):
                known[v] = None
            elif all(is_same for _, is_same in inputs):
                known[v] = (v, True)
            else:
                twin = node.clone_with_new_inputs([new for new, _ in inputs])
                for old, new in zip(node.outputs, twin.outputs):
                    known.setdefault(old, (new, False))
        return known[out]


def expand_empty(tensor_var, size):
    """Append rows with undefined values to a tensor.

    Parameters
    ----------
    tensor_var : TensorVariable
    size : int or integer scalar
        Number of additional rows.
    """
    if isinstance(size, int) and size == 0:
        return tensor_var
    shape = [tensor_var.shape[i] for i in range(tensor_var.ndim)]
    empty = AllocEmpty(tensor_var.dtype)(size + shape[0], *shape[1:])
    return set_subtensor(empty[: shape[0]], tensor_var)


def forced_replace(out, x, y):
    """Replace `x`, and all variables that are computed in the same way as `x`, by `y` in the graph of `out`.

    Return the variable that replaces `out`, or None if `out` is None.

    Parameters
    ----------
    out : Variable or None
    x, y : Variable

    Examples
    --------
    >>> from theano_ng import pp, tensor
    >>> x, y = tensor.dscalars("x", "y")
    >>> pp(forced_replace(tensor.exp(x) * (1 - tensor.exp(x)), tensor.exp(x), y))
    '(y * (TensorConstant{1} - y))'
    """
    if out is None:
        return None
    op = None if x.owner is None else x.owner.op
    found = [
        v
        for v in ancestors([out])
        if v is x or (v.owner is not None and v.owner.op == op and equal_computations([v], [x]))
    ]
    return substitute([out], dict.fromkeys(found, y))[0] if found else out


def traverse(out, x, x_copy, d, visited=None):
    """Record in the dict `d` that `x_copy` replaces `x`, if the variable `out` depends on `x`.

    Parameters
    ----------
    out, x, x_copy : Variable
    d : dict
        The dict for the entry.
    visited : set, optional
        Variables that need not be visited again. Newly visited variables are added to this set.

    Returns
    -------
    dict
        `d`
    """
    visited = set() if visited is None else visited
    reached = [v for v in ancestors([out], visited) if v not in visited]
    visited.update(reached)
    if x in reached:
        d[x] = x_copy
    return d


def reconstruct_graph(inputs, outputs, tag=None):
    """Copy a graph, with new inputs of the same types.

    Parameters
    ----------
    inputs, outputs : list of Variable
    tag : str, optional
        Suffix for the names of the inputs.

    Returns
    -------
    tuple (list of Variable, list of Variable)
        The inputs and outputs of the copy.
    """
    inputs = list(inputs)
    new = [safe_new(v, tag or "") for v in inputs]
    return new, substitute(outputs, dict(zip(inputs, new)))


def infer_shape(outs, inputs, input_shapes):
    """Return the shapes of outputs for inputs of given shapes.

    Parameters
    ----------
    outs, inputs : list of Variable
    input_shapes : list of (tuple or None)
        The lengths of each input. None for an input without shape.

    Returns
    -------
    list of (tuple of Variable, or None)
        The lengths of each output. None for an output without shape.
    """
    return InnerGraph.of_parts(list(inputs), list(outs), [], {}).infer_shape(inputs, input_shapes)


def isNaN_or_Inf_or_None(x):
    """Return True if `x` is None, or if it is a number or a 0-d constant with the value NaN or infinity."""
    if x is None:
        return True
    if isinstance(x, Variable):
        try:
            x = get_scalar_constant_value(x)
        except NotScalarConstantError:
            return False
    try:
        return bool(~np.isfinite(x)) if np.ndim(x) == 0 else False
    except TypeError:
        return False


def hash_listsDictsTuples(x):
    """Return a hash of nested lists, tuples and dicts that does not depend on the order of their items."""
    found, todo = 0, [x]
    while todo:
        x = todo.pop()
        if isinstance(x, dict):
            todo.extend([*x, *x.values()])
        elif isinstance(x, (list, tuple)):
            todo.extend(x)
        else:
            found ^= hash(x)
    return found


def scan_can_remove_outs(op, out_idxs):
    """Find the outputs of a loop that can be removed.

    Parameters
    ----------
    op : Scan
    out_idxs : list of int
        Outer outputs that have no clients.

    Returns
    -------
    tuple (list of int, list of int)
        The members of `out_idxs` that a step reads to compute other outputs, and the members that can be removed.
    """
    mappings = op.var_mappings
    reads = {i: {op.inputs[k] for k in mappings["inner_inp_from_outer_out"][i]} for i in out_idxs}
    written = {i: [op.outputs[k] for k in mappings["inner_out_from_outer_out"][i]] for i in out_idxs}
    gone = {k for i in out_idxs for k in mappings["inner_out_from_outer_out"][i]}
    todo, reached = [out for k, out in enumerate(op.outputs) if k not in gone], set()
    removable, needed = list(out_idxs), set()
    while todo:
        reached.update(v for v in ancestors(todo, reached) if v not in reached)
        found = [i for i in removable if not reads[i].isdisjoint(reached)]
        removable = [i for i in removable if reads[i].isdisjoint(reached)]
        needed.update(found)
        todo = [out for i in found for out in written[i]]
    return [i for i in out_idxs if i in needed], removable


def compress_outs(op, not_required, inputs):
    """Return the parts of a loop without some of its outputs.

    The steps must not need the removed outputs to compute the remaining outputs.

    Parameters
    ----------
    op : Scan
    not_required : list of int
        Outer outputs.
    inputs : list of Variable
        Outer inputs.

    Returns
    -------
    inner_inputs, inner_outputs : list of Variable
    info : dict
    outer_inputs : list of Variable
    new_places : dict
        Index of a remaining outer output -> its index after the removal.
    """
    gone, mappings = set(not_required), op.var_mappings
    ins = {k for i in gone for k in mappings["inner_inp_from_outer_out"][i]}
    outs = {k for i in gone for k in mappings["inner_out_from_outer_out"][i]}
    outer = {mappings["outer_inp_from_outer_out"][i] for i in gone}
    kept = [i for i in range(op.n_buffers + op.n_shared_outs) if i not in gone]
    info = OrderedDict(op.info)
    first = 0
    for name in ("n_mit_mot", "n_mit_sot", "n_sit_sot", "n_nit_sot", "n_shared_outs"):
        info[name] = sum(first <= i < first + op.info[name] for i in kept)
        first += op.info[name]
    info["tap_array"] = [taps for i, taps in enumerate(op.tap_array) if i not in gone]
    info["mit_mot_out_slices"] = [taps for i, taps in enumerate(op.mit_mot_out_slices) if i not in gone]
    info["n_mit_mot_outs"] = sum(map(len, info["mit_mot_out_slices"]))
    # The indices in the old `destroy_map` are not valid any more. The in-place rule makes a new one.
    info["destroy_map"] = OrderedDict()
    return (
        [v for k, v in enumerate(op.inputs) if k not in ins],
        [v for k, v in enumerate(op.outputs) if k not in outs],
        info,
        [v for k, v in enumerate(inputs) if k not in outer],
        OrderedDict((old, new) for new, old in enumerate(kept)),
    )
