"""Elementwise operations overwrite an input that nobody needs any more."""
from theano_ng import scalar
from theano_ng.compile import optdb
from theano_ng.compile.function_module import Supervisor
from theano_ng.configdefaults import config
from theano_ng.gof import destroyhandler
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.tensor.elemwise.op import Elemwise


class InplaceElemwiseOptimizer(Optimizer):
    """Gives elementwise nodes an in-place pattern where the destroy handler permits it.

    x + y  ->  Elemwise{Add}[(0, 0)](x, y)          [inplace, fast_run]

    For each node and each of its outputs the inputs of the same type are tried in turn: first the one whose variable the output is an
    update of, then the others in order. The graph is validated after each replacement; with a positive
    `config.tensor.insert_inplace_optimizer_validate_nb` after so many nodes, which are done again one by one when that fails.

    Parameters
    ----------
    OP : class
        `Elemwise` or a class with its interface.
    """

    def __init__(self, OP):
        super().__init__()
        self.op = OP

    def add_requirements(self, fgraph):
        fgraph.attach_feature(destroyhandler.DestroyHandler())

    def apply(self, fgraph):
        """Try each input of each elementwise node as target of each output.

        Parameters
        ----------
        fgraph : FunctionGraph
        """
        protected = set(fgraph.outputs)
        for feature in fgraph._features:
            if isinstance(feature, Supervisor):
                protected.update(feature.protected)
        update_of = self._update_targets(fgraph)
        batch_size = max(config.tensor.insert_inplace_optimizer_validate_nb, 1)
        nodes = [node for node in fgraph.toposort() if type(node.op) is self.op]
        # New values of inputs come first: nobody else then takes the memory that they are to replace.
        nodes.sort(key=lambda node: not any(o in update_of for o in node.outputs))
        replaced = tried = 0
        for first in range(0, len(nodes), batch_size):
            batch = nodes[first:first + batch_size]
            start = fgraph.checkpoint()
            counts = [self._apply_to(fgraph, node, protected, update_of, batch_size == 1) for node in batch]
            if batch_size > 1:
                try:
                    fgraph.validate()
                except InconsistencyError:
                    fgraph.revert(start)
                    counts = [self._apply_to(fgraph, node, protected, update_of, True) for node in batch]
            replaced += sum(done for done, _ in counts)
            tried += sum(attempts for _, attempts in counts)
        return self, replaced, tried

    def _apply_to(self, fgraph, node, protected, update_of, validate):
        """Give a node's outputs inputs to overwrite; returns how many got one, and the number of attempts."""
        replaced = tried = 0
        for output_index in range(len(node.outputs)):
            if output_index in node.op.inplace_pattern:
                continue
            for candidate in self._candidates(fgraph, node, output_index, protected, update_of):
                tried += 1
                new_node = self._try(fgraph, node, output_index, candidate, validate)
                if new_node is not None:
                    replaced += 1
                    node = new_node
                    break
        return replaced, tried

    @staticmethod
    def _update_targets(fgraph):
        """Output variable -> the input variable whose new value it is."""
        mapping = getattr(fgraph, "update_mapping", None) or {}
        return {fgraph.outputs[o]: fgraph.inputs[i] for o, i in mapping.items()}

    @staticmethod
    def _candidates(fgraph, node, output_index, protected, update_of):
        """Positions of inputs that the output may overwrite, the best first."""
        output = node.outputs[output_index]
        taken = set(node.op.inplace_pattern.values())
        owner_of_memory = fgraph.destroy_handler.aliases.root
        found = []
        for i, variable in enumerate(node.inputs):
            if (i in taken or variable.type != output.type or isinstance(variable, Constant) or variable in protected
                    or owner_of_memory(variable) in protected or fgraph.has_destroyers([variable]) or variable in node.inputs[:i]):
                continue
            found.append(i)
        target = update_of.get(output)
        if target is not None:
            found.sort(key=lambda i: node.inputs[i] is not target)
        return found

    def _try(self, fgraph, node, output_index, input_index, validate):
        """The node in place, in the graph, or None when that would destroy what others need (noticed at once with `validate`)."""
        op = node.op
        pattern = dict(op.inplace_pattern)
        pattern[output_index] = input_index
        if hasattr(op.scalar_op, "make_new_inplace"):
            new_scalar = op.scalar_op.make_new_inplace(self._output_types(node, pattern))
        else:
            new_scalar = op.scalar_op.__class__(self._output_types(node, pattern))
        new_op = self.op(new_scalar, pattern)
        new_outputs = new_op(*node.inputs, **{"return_list": True})
        if [o.type for o in new_outputs] != [o.type for o in node.outputs]:
            return None
        copy_stack_trace(node.outputs, new_outputs)
        start = fgraph.checkpoint()
        replace = fgraph.replace_all_validate if validate else fgraph.replace_all
        try:
            replace(list(zip(node.outputs, new_outputs)), reason="inplace_elemwise_optimizer")
        except InconsistencyError:
            fgraph.revert(start)    # replace_all_validate has done so already; then this changes nothing
            return None
        return new_outputs[0].owner

    @staticmethod
    def _output_types(node, pattern):
        """Output types that follow those of the overwritten inputs."""
        return scalar.transfer_type(*[pattern.get(i) for i in range(len(node.outputs))])

    def print_summary(self, stream=None, level=0, depth=-1):
        import sys

        print("%s%s (%s)" % (" " * level, self.__class__.__name__, self.op), file=stream or sys.stdout)


inplace_elemwise_optimizer = InplaceElemwiseOptimizer(Elemwise)
optdb.register("inplace_elemwise_opt", inplace_elemwise_optimizer, 75, "inplace_opt", "inplace_elemwise_optimizer", "fast_run",
               "inplace")
