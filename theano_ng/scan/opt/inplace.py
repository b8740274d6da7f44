"""A rule that lets loops write their states into their input buffers."""

from collections import OrderedDict

from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.rewriting.base import attach_destroy_handler, attach_replace_validate
from theano_ng.gof.toolbox import InconsistencyError
from theano_ng.scan.op import Scan
from theano_ng.scan.opt.common import loops
from theano_ng.tensor.indexing.subtensor import IncSubtensor
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty


class ScanInplaceOptimizer(Optimizer):
    """An optimizer that lets a loop overwrite buffers that no other node reads. If several states share one allocation,
    each state gets a separate allocation.

    Parameters
    ----------
    typeInfer : callable, optional
        The `typeConstructor` of the new Ops. Default: the `typeConstructor` of the old Ops.
    gpua_flag : bool
        If True, loops on a GPU are rewritten. Otherwise loops on the host are rewritten.
    """

    alloc_ops = (Alloc, AllocEmpty)

    def __init__(self, typeInfer=None, gpua_flag=False):
        self.typeInfer, self.gpua_flag = typeInfer, gpua_flag

    def add_requirements(self, fgraph):
        attach_replace_validate(fgraph)
        attach_destroy_handler(fgraph)

    def apply(self, fgraph):
        for node in loops(fgraph):
            op = node.op
            if op.gpua != self.gpua_flag:
                continue
            places = [i for i in range(op.n_states) if not self._is_needed_elsewhere(node, 1 + op.n_seqs + i)]
            if not places or self.attempt_scan_inplace(fgraph, node, places, self.alloc_ops):
                continue
            # The graph rejected the new loop, because a buffer must not be overwritten: try the states one by one.
            for i in places:
                node = self.attempt_scan_inplace(fgraph, node, [i], self.alloc_ops) or node

    def _is_needed_elsewhere(self, node, i):
        """Return True if an input of a loop has clients besides the loop, and `_copied` cannot copy the input."""
        v = node.inputs[i]
        return len(v.clients) > 1 and self._copied(v) is None

    def _copied(self, v):
        """Return a copy of `v` in a new allocation, or None if `v` is not computed from an allocation."""
        node = v.owner
        if node is None:
            return None
        if isinstance(node.op, self.alloc_ops):
            new = node.op(*node.inputs)
        elif isinstance(node.op, IncSubtensor) and node.inputs[0].owner is not None:
            source = self._copied(node.inputs[0])
            if source is None:
                return None
            new = node.op(source, *node.inputs[1:])
        else:
            return None
        copy_stack_trace(v, new)
        return new

    def attempt_scan_inplace(self, fgraph, node, output_indices, alloc_ops):
        """Replace a loop by a loop that also overwrites the buffers of the given states.

        Parameters
        ----------
        fgraph : FunctionGraph
        node : Apply
        output_indices : list of int
            Indices of the states.
        alloc_ops : tuple of classes
            Ops whose results are newly allocated memory.

        Returns
        -------
        Apply or bool
            The new node, or False if the graph rejects it.
        """
        op = node.op
        destroy_map = OrderedDict(op.destroy_map)
        inputs = list(node.inputs)
        for i in output_indices:
            place = 1 + op.n_seqs + i
            destroy_map[i] = [place]
            v = inputs[place]
            if len(v.clients) > 1 or v.owner is not None and isinstance(v.owner.op, alloc_ops) and inputs.count(v) > 1:
                inputs[place] = self._copied(v)
        info = OrderedDict(op.info)
        info["destroy_map"] = destroy_map
        new = Scan(op.inputs, op.outputs, info, self.typeInfer)(*inputs, return_list=True)
        for old, var in zip(node.outputs, new):
            copy_stack_trace(old, var)
        try:
            fgraph.replace_all_validate_remove(list(zip(node.outputs, new)), remove=[node], reason="scan_make_inplace")
        except InconsistencyError:
            return False
        return new[0].owner
