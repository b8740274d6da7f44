"""What the rules of loops share: finding loops, taking their steps apart, and putting others in their places."""

from theano_ng import scalar
from theano_ng.gof.graph import io_toposort
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.rewriting.base import attach_replace_validate
from theano_ng.ifelse import IfElse
from theano_ng.printing.print_op import Print
from theano_ng.scan.op import Scan
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.type_other import NoneTypeT, SliceType


def loops(fgraph):
    """The nodes of loops in a graph that work on nothing in place, in a list."""
    return [node for node in fgraph.apply_nodes if isinstance(node.op, Scan) and not node.op.destroy_map]


class LoopOptimizer(Optimizer):
    """An optimizer that looks at each loop of a graph once."""

    def add_requirements(self, fgraph):
        attach_replace_validate(fgraph)

    def apply(self, fgraph):
        for node in loops(fgraph):
            if node in fgraph.apply_nodes:
                self.process_node(fgraph, node)

    def process_node(self, fgraph, node):
        """Rewrite a loop where that is possible."""
        raise NotImplementedError


def made(args):
    """The outer outputs of a node with the given variables.

    Parameters
    ----------
    args : scan_args

    Returns
    -------
    list of Variable
    """
    return Scan(args.inner_inputs, args.inner_outputs, args.info)(*args.outer_inputs, return_list=True)


def same_places(args, outputs):
    """The replacements of a loop that has another step: pairs of an outer output of the former node, and that of the new one.

    Parameters
    ----------
    args : scan_args
        Of the new node; its outer outputs are those of the former one, None for what is new.
    outputs : list of Variable
        Of the new node.
    """
    pairs = [(old, new) for old, new in zip(args.outer_outputs, outputs) if old is not None]
    for old, new in pairs:
        copy_stack_trace(old, new)
    return pairs


def replace_loop(fgraph, node, args, others, reason):
    """Put a node with other variables in the place of a loop.

    Parameters
    ----------
    fgraph : FunctionGraph
    node : Apply
        The loop.
    args : scan_args
        Of the new one, see `same_places`; it is not made where it has no output.
    others : list of pairs
        Further replacements: outputs of the loop that it does not have any more.
    reason : object
    """
    pairs = same_places(args, made(args)) if args.outer_outputs else []
    for old, new in others:
        copy_stack_trace(old, new)
    fgraph.replace_all_validate_remove(pairs + others, remove=[node], reason=reason)


def number(v):
    """The int that a 0-d integer variable is; None when that is not known."""
    try:
        return int(get_scalar_constant_value(v, only_process_constants=True))
    except NotScalarConstantError:
        return None


def same_number(a, b):
    """Whether two integer variables are the same one, or equal constants."""
    return a is b or (number(a) is not None and number(a) == number(b))


def can_be_passed(v):
    """Whether a variable can be an input of a loop: scalars of C, slices and None stay where they are used."""
    return not isinstance(v.type, (scalar.Scalar, SliceType, NoneTypeT))


class Step:
    """The graph of a step, to be looked at.

    Parameters
    ----------
    args : scan_args

    Attributes
    ----------
    nodes : list of Apply
        Inputs first.
    always : set of Apply
        The nodes that each step computes, whatever conditions are.
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
        """Dict: variable -> nodes that read it, None for each time that it is an output."""
        if self._clients is None:
            self._clients = {}
            for node in self.nodes:
                for v in node.inputs:
                    self._clients.setdefault(v, []).append(node)
            for v in self.outputs:
                self._clients.setdefault(v, []).append(None)
        return self._clients

    def is_movable(self, node):
        """Whether a node may be computed elsewhere, once: each step computes it, and nobody sees when."""
        return node in self.always and not isinstance(node.op, Print)
