"""An optimizer that lets elementwise operations overwrite an input that is no longer needed."""

from theano_ng import scalar
from theano_ng.compile import optdb
from theano_ng.compile.functions.maker import Supervisor
from theano_ng.configdefaults import config
from theano_ng.gof.destroy import handler as destroyhandler
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.tensor.elemwise.divisors import integer_divisors
from theano_ng.tensor.elemwise.op import Elemwise

MAX_REFUSALS = 16
"""The maximum number of refused attempts to overwrite the same memory.

Each attempt examines all nodes that use the memory, which may be many.
"""

MAX_SEARCHED = 4
"""The number of nodes that all refused attempts together may examine, per node of the graph.

After that, only variables without other clients are overwritten.
"""

SOME_USERS = 16
"""The maximum number of clients of a variable that `_DependenceTest` examines."""


class _DependenceTest:
    """A fast, incomplete test of dependence between nodes.

    One depth-first traversal along the clients numbers the nodes. A node is known to depend on its ancestors in the
    tree of this traversal. The traversal usually reaches the nodes of an operation's gradient from this operation, so
    that these nodes become descendants of the operation.
    """

    def __init__(self, nodes):
        self._place = {}  # node -> [number of the node, number of its last descendant]
        for start in nodes:
            if start not in self._place:
                self._walk(start)

    def _walk(self, start):
        place = self._place
        place[start] = [len(place), None]
        stack = [(start, iter(_users(start)))]
        while stack:
            node, pending = stack[-1]
            for user in pending:
                if user not in place:
                    place[user] = [len(place), None]
                    stack.append((user, iter(_users(user))))
                    break
            else:
                place[node][1] = len(place) - 1
                stack.pop()

    def replaced(self, old, new):
        """Record that `new` has replaced `old` in the graph."""
        self._place[new] = self._place[old]

    def known(self, user, node):
        """Return True if `user` is known to depend on `node`."""
        later, place = self._place.get(user), self._place[node]
        return later is not None and place[0] < later[0] <= place[1]


def _users(node):
    return [client for out in node.outputs for client, _ in out.clients if client != "output"]


class _Run:
    """The state of an `InplaceElemwiseOptimizer` while it rewrites one graph.

    Attributes
    ----------
    nodes : list of Apply
        The elementwise nodes, in the order in which they choose inputs to overwrite.
    """

    def __init__(self, op_class, fgraph):
        self.op_class, self.fgraph = op_class, fgraph
        self.protected = set(fgraph.outputs)
        for feature in fgraph._features:
            if isinstance(feature, Supervisor):
                self.protected.update(feature.protected)
        # Output variable -> the input variable that is updated with this output.
        self.update_of = {
            fgraph.outputs[o]: fgraph.inputs[i] for o, i in (getattr(fgraph, "update_mapping", None) or {}).items()
        }
        nodes = fgraph.toposort()
        # Exclude nodes that divide by integers that they compute themselves: such a node detects a zero divisor only
        # after it has begun to write.
        self.nodes = [node for node in nodes if type(node.op) is op_class and not integer_divisors(node).computed]
        # The nodes that compute updates choose inputs first, so that no other node overwrites the inputs that the
        # updates should overwrite.
        self.nodes.sort(key=lambda node: not any(o in self.update_of for o in node.outputs))
        self.followers = _DependenceTest(nodes)
        # If the graph waits for a device, overwriting a number that other nodes read would only force these nodes, and
        # so the wait, to run earlier (see `inplace_order.wait_last`).
        self.keeps_numbers = any(getattr(node.op, "waits_for_device", False) for node in nodes)
        self.refusals = {}  # the root of an alias class -> the number of refused attempts
        self.left_to_search = MAX_SEARCHED * len(nodes)

    def apply_to(self, node, validate):
        """Let the outputs of a node overwrite inputs.

        Return the number of outputs that now overwrite an input, and the number of attempts.
        """
        replaced = tried = 0
        for output_index in range(len(node.outputs)):
            if output_index in node.op.inplace_pattern:
                continue
            for candidate in self.candidates(node, output_index):
                root = self.fgraph.destroy_handler.aliases.root(node.inputs[candidate])
                if self.refusals.get(root, 0) >= MAX_REFUSALS:
                    continue
                if self.left_to_search < 0 and max(len(root.clients), len(node.inputs[candidate].clients)) > 1:
                    continue
                tried += 1
                searched = self.fgraph.destroy_handler.searched
                new_node = self.attempt(node, output_index, candidate, validate)
                if new_node is None:
                    self.left_to_search -= self.fgraph.destroy_handler.searched - searched
                    self.refusals[root] = self.refusals.get(root, 0) + 1
                    continue
                self.followers.replaced(node, new_node)
                for old, new in zip(node.outputs, new_node.outputs):
                    if old in self.update_of:
                        self.update_of[new] = self.update_of[old]
                replaced += 1
                node = new_node
                break
        return replaced, tried

    def candidates(self, node, output_index):
        """Return the positions of the inputs that an output may overwrite. The best position is first."""
        output = node.outputs[output_index]
        taken = set(node.op.inplace_pattern.values())
        users = set(_users(node))
        found = [
            i
            for i, variable in enumerate(node.inputs)
            if i not in taken
            and variable.type == output.type
            and not isinstance(variable, Constant)
            and variable not in node.inputs[:i]
            and self.may_be_overwritten(variable, node, users)
        ]
        target = self.update_of.get(output)
        if target is not None:
            found.sort(key=lambda i: node.inputs[i] is not target)
        return found

    def may_be_overwritten(self, variable, node, users):
        """Return False if it is obvious that a node must not overwrite an input.

        `users` are the clients of the node's outputs.
        """
        aliases = self.fgraph.destroy_handler.aliases
        root = aliases.root(variable)
        if variable in self.protected or root in self.protected or aliases.destroyers(variable):
            return False
        if self.keeps_numbers and all(variable.broadcastable) and (root is not variable or len(variable.clients) > 1):
            return False
        return not any(
            user is not node and user != "output" and (user in users or self.followers.known(user, node))
            for user, _ in variable.clients[:SOME_USERS]
        )

    def attempt(self, node, output_index, input_index, validate):
        """Replace a node by a node that works in place, and return the new node.

        Return None if the new node would destroy a value that other nodes need. If `validate` is True, the graph is
        checked immediately.
        """
        op = node.op
        pattern = dict(op.inplace_pattern)
        pattern[output_index] = input_index
        if hasattr(op.scalar_op, "make_new_inplace"):
            new_scalar = op.scalar_op.make_new_inplace(self._output_types(node, pattern))
        else:
            new_scalar = op.scalar_op.__class__(self._output_types(node, pattern))
        new_op = self.op_class(new_scalar, pattern)
        new_outputs = new_op(*node.inputs, **{"return_list": True})
        if [o.type for o in new_outputs] != [o.type for o in node.outputs]:
            return None
        copy_stack_trace(node.outputs, new_outputs)
        start = self.fgraph.checkpoint()
        replace = self.fgraph.replace_all_validate if validate else self.fgraph.replace_all
        try:
            replace(list(zip(node.outputs, new_outputs)), reason="inplace_elemwise_optimizer")
        except InconsistencyError:
            self.fgraph.revert(start)  # This changes nothing if replace_all_validate has undone the replacement.
            return None
        return new_outputs[0].owner

    @staticmethod
    def _output_types(node, pattern):
        """Return a `transfer_type` that gives each output the type of the input that the output overwrites.

        `pattern` is a dict from the position of an output to the position of this input.
        """
        return scalar.transfer_type(*[pattern.get(i) for i in range(len(node.outputs))])


class InplaceElemwiseOptimizer(Optimizer):
    """An optimizer that makes elementwise nodes work in place if the destroy handler permits it.

    x + y  ->  Elemwise{Add}[(0, 0)](x, y)          [inplace, fast_run]

    For each output of a node, the inputs of the same type are tried in turn: first the input whose new value is this
    output (an update), then the other inputs in order. By default, the graph is validated after each replacement. If
    the flag `config.tensor.insert_inplace_optimizer_validate_nb` is a number n > 1, the graph is validated only after
    every n nodes. If this validation fails, these n nodes are rewritten again with a validation after each replacement.

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
        """For each output of each elementwise node, try to overwrite an input.

        Parameters
        ----------
        fgraph : FunctionGraph
        """
        batch_size = max(config.tensor.insert_inplace_optimizer_validate_nb, 1)
        run = _Run(self.op, fgraph)
        replaced = tried = 0
        for first in range(0, len(run.nodes), batch_size):
            batch = run.nodes[first : first + batch_size]
            start = fgraph.checkpoint()
            counts = [run.apply_to(node, batch_size == 1) for node in batch]
            if batch_size > 1:
                try:
                    fgraph.validate()
                except InconsistencyError:
                    fgraph.revert(start)
                    counts = [run.apply_to(node, True) for node in batch]
            replaced += sum(done for done, _ in counts)
            tried += sum(attempts for _, attempts in counts)
        return self, replaced, tried

    def print_summary(self, stream=None, level=0, depth=-1):
        import sys

        print("%s%s (%s)" % (" " * level, self.__class__.__name__, self.op), file=stream or sys.stdout)


inplace_elemwise_optimizer = InplaceElemwiseOptimizer(Elemwise)
optdb.register(
    "inplace_elemwise_opt",
    inplace_elemwise_optimizer,
    75,
    "inplace_opt",
    "inplace_elemwise_optimizer",
    "fast_run",
    "inplace",
)
