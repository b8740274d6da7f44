"""Helpers for the rules of loops: find loops, split their steps into groups, and replace loops."""

import contextlib

from theano_ng import scalar
from theano_ng.gof.graph import io_toposort
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.rewriting.base import attach_replace_validate
from theano_ng.ifelse import IfElse
from theano_ng.printing.print_op import Print
from theano_ng.scan.op import Scan
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.opt.shape import ShapeFeature
from theano_ng.tensor.type_other import NoneTypeT, SliceType


def loops(fgraph):
    """Return a list of the loop nodes of a graph that do not work in place."""
    return [node for node in fgraph.apply_nodes if isinstance(node.op, Scan) and not node.op.destroy_map]


@contextlib.contextmanager
def known_shapes(fgraph):
    """Attach a `ShapeFeature` to a graph during a ``with`` block, if the graph has none.

    The first rules for loops run before the optimizer that attaches this feature.
    """
    if hasattr(fgraph, "shape_feature"):
        yield
        return
    feature = ShapeFeature()
    fgraph.attach_feature(feature)
    try:
        yield
    finally:
        fgraph.remove_feature(feature)


class LoopOptimizer(Optimizer):
    """An optimizer that visits each loop of a graph once."""

    def add_requirements(self, fgraph):
        attach_replace_validate(fgraph)

    def apply(self, fgraph):
        found = loops(fgraph)
        with known_shapes(fgraph) if found else contextlib.nullcontext():
            for node in found:
                if node in fgraph.apply_nodes:
                    self.process_node(fgraph, node)

    def process_node(self, fgraph, node):
        """Rewrite a loop if possible."""
        raise NotImplementedError


def make_loop(args):
    """Make a loop node with the given variables. Return its outer outputs.

    Parameters
    ----------
    args : scan_args

    Returns
    -------
    list of Variable
    """
    return Scan(args.inner_inputs, args.inner_outputs, args.info)(*args.outer_inputs, return_list=True)


def output_replacements(args, outputs):
    """Return the replacements for a loop whose step has changed: pairs of an old and a new outer output.

    Parameters
    ----------
    args : scan_args
        The groups of the new loop. Their outer outputs are those of the old node, or None for additional outputs.
    outputs : list of Variable
        The outputs of the new node.
    """
    pairs = [(old, new) for old, new in zip(args.outer_outputs, outputs) if old is not None]
    for old, new in pairs:
        copy_stack_trace(old, new)
    return pairs


def replace_loop(fgraph, node, args, others, reason):
    """Replace a loop by a node with other variables.

    Parameters
    ----------
    fgraph : FunctionGraph
    node : Apply
        The loop.
    args : scan_args
        The new loop; see `output_replacements`. If the new loop has no outputs, no node is made.
    others : list of pairs
        Further replacements, of outputs that the new loop no longer has.
    reason : object
    """
    pairs = output_replacements(args, make_loop(args)) if args.outer_outputs else []
    for old, new in others:
        copy_stack_trace(old, new)
    fgraph.replace_all_validate_remove(pairs + others, remove=[node], reason=reason)


def constant_int(v):
    """Return a 0-d integer variable as an int, or None if it is not constant."""
    try:
        return int(get_scalar_constant_value(v, only_process_constants=True))
    except NotScalarConstantError:
        return None


def same_int(a, b):
    """Return True if two integer variables are identical, or equal constants."""
    return a is b or (constant_int(a) is not None and constant_int(a) == constant_int(b))


def can_be_passed(v):
    """Return True if a variable can be an input of a loop. C scalars, slices and None cannot be inputs, so the nodes
    that compute them stay where they are used.
    """
    return not isinstance(v.type, (scalar.Scalar, SliceType, NoneTypeT))


class Step:
    """The graph of a step, for analysis.

    Parameters
    ----------
    args : scan_args

    Attributes
    ----------
    nodes : list of Apply
        In topological order.
    always : set of Apply
        The nodes that every step computes, no matter which branches conditions (`IfElse`) select.
    """

    def __init__(self, args):
        self.inputs, self.outputs = args.inner_inputs, args.inner_outputs
        self.nodes = io_toposort(self.inputs, self.outputs)
        self.always = self._always()
        self._clients = None

    def _always(self):
        own, needed = set(self.nodes), set()
        if not any([isinstance(node.op, IfElse) for node in self.nodes]):
            return own
        todo = [v.owner for v in self.outputs]
        while todo:
            node = todo.pop()
            if node in own and node not in needed:
                needed.add(node)
                inputs = node.inputs[:1] if isinstance(node.op, IfElse) else node.inputs
                todo.extend(v.owner for v in inputs)
        return needed

    @property
    def clients(self):
        """A dict from each variable to the list of the nodes that read it.

        If the variable is an output of the step, the list also contains None, once for each such output.
        """
        if self._clients is None:
            self._clients = {}
            for node in self.nodes:
                for v in node.inputs:
                    self._clients.setdefault(v, []).append(node)
            for v in self.outputs:
                self._clients.setdefault(v, []).append(None)
        return self._clients

    def is_movable(self, node):
        """Return True if a node may be computed once, outside the loop: each step computes it, and it has no visible
        effect.
        """
        return node in self.always and not isinstance(node.op, Print)
