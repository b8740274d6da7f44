"""Fusion of elementwise operations that use each other's results into one loop.

A group grows from its last operation towards the inputs: an operation joins the group if all clients of its result are
in the group. So a group has one result, no path between two members leaves the group, and every edge of the graph is
visited once. Only the results of a few cheap operations are computed several times, in loops that read the operands
anyway (see `_Recomputed`).
"""

import functools
import time
from typing import NamedTuple

import numpy as np

from theano_ng import scalar
from theano_ng.compile import optdb
from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import reads_raw_float16
from theano_ng.gof.optdb import SequenceDB
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.gof.traversal import postorder
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.fused import ReducedElemwise

MAX_OPERATIONS = 120  # For longer loop bodies, the compile time grows faster than linearly.

_ARITHMETIC = (scalar.Add, scalar.Sub, scalar.Mul, scalar.Neg, scalar.Sqr)

# The operations that take less time than reading their operands from memory, and give the same bits in every loop.
_CHEAP = (
    scalar.Add,
    scalar.Sub,
    scalar.Neg,
    scalar.Abs,
    scalar.Sgn,
    scalar.Maximum,
    scalar.Minimum,
    scalar.Switch,
    scalar.LogicalComparison,
    scalar.FixedLogicalComparison,
    scalar.Second,
    scalar.Cast,
)
# A compiler may contract a float product and the sum that reads it (fused multiply-add), without rounding the product.
# So two loops may compute different products: ``max(x*y) - x*y`` could be negative if only the loop of the difference
# contracts the product. Compilers do not contract a product with a product or quotient that reads it. Therefore fusion
# recomputes a float product only if all its readers are in _ROUND_OPERANDS.
_PRODUCTS = (scalar.Mul, scalar.Sqr)
_ROUND_OPERANDS = (scalar.Mul, scalar.Sqr, scalar.TrueDiv)
MAX_REPEATED = 4
"""The maximum number of operations that compute one recomputed value."""
MAX_REPETITIONS = 8
"""The maximum number of clients of a recomputed value. All clients are examined."""

_has_c_code = {}


def _compiles(node):
    """Return True if the scalar op of a node has C code for the node's types."""
    key = node.op, tuple([i.type.dtype for i in node.inputs])
    known = _has_c_code.get(key)
    if known is None:
        op = node.op.scalar_op
        dummy = op.make_node(*[scalar.get_scalar_type(i.type.dtype).make_variable() for i in node.inputs])
        try:
            op.c_code(
                dummy,
                "test_presence_of_c_code",
                ["x%d" % i for i in range(len(dummy.inputs))],
                ["z%d" % i for i in range(len(dummy.outputs))],
                {"fail": "%(fail)s"},
            )
            known = not reads_raw_float16(dummy)
        except (MethodNotDefined, NotImplementedError):
            known = False
        _has_c_code[key] = known
    return known


def _fusible(node, op_class):
    return (
        type(node.op) is op_class
        and len(node.outputs) == 1
        and not node.op.inplace_pattern
        and getattr(node.op, "fusible", True)
        and _compiles(node)
    )


def _weight(node):
    """Return the weight of an operation in a loop body: 1 for a function call, 0.05 for simple arithmetic."""
    return 0.05 * max(1, len(node.inputs) - 1) if isinstance(node.op.scalar_op, _ARITHMETIC) else 1


def _is_cheap(node):
    """Return True if an operation is cheap and gives the same bits in every loop."""
    scalar_op = getattr(node.op, "scalar_op", None)
    if not isinstance(scalar_op, _CHEAP + _PRODUCTS):
        return False
    (out,) = node.outputs
    if out.dtype == "float16" or out.dtype.startswith("complex"):
        return False  # Loops compute float16 in float32.
    return (
        isinstance(scalar_op, _CHEAP)
        or out.dtype in DISCRETE
        or all(reader != "output" and _rounds_operands(reader) for reader, _ in out.clients)
    )


def _rounds_operands(node):
    """Return True if every loop rounds the operands of an operation before the operation uses them.

    Return False for a multiplication by 1 or -1. A compiler treats such a multiplication as a copy or negation.
    If the copied operand is a product, the compiler may contract the operand with a sum that reads the copy.
    """
    return isinstance(getattr(node.op, "scalar_op", None), _ROUND_OPERANDS) and not any(
        isinstance(operand, Constant) and np.all(np.abs(np.asarray(operand.data)) == 1) for operand in node.inputs
    )


class _Expression(NamedTuple):
    """A few cheap operations that compute one value.

    Attributes
    ----------
    members : list of Apply
        The operations, the last one first.
    operands : list of Variable
        The variables that the members read and that no member computes.
    """

    members: list
    operands: list


class _Recomputed:
    """Values that the loop of each client recomputes, so that they are neither written to memory nor read from memory.

    ::

        s = abs(x)
        exp(s), log(s)  ->  Elemwise{Composite{exp(Abs(i0))}}(x), Elemwise{Composite{log(Abs(i0))}}(x)

    Such a value is the result of at most `MAX_REPEATED` cheap operations. Its clients are elementwise loops and at most
    one reduction. If the value has c clients, and k of its operands are arrays, then storing it costs k + 1 + c passes
    over memory, and recomputing it costs c * k passes. Each operand must be in memory anyway: as an input of the graph,
    as the result of a node that cannot be fused, or as a value with other clients. If only this value used an operand,
    the operand would have to be stored in place of the value, and nothing would be saved.

    Parameters
    ----------
    nodes : sequence of Apply
        All nodes of a graph, inputs first.
    op_class : class
        `Elemwise` or a class with its interface.

    Attributes
    ----------
    found : dict
        Variable -> the `_Expression` that computes it.
    """

    def __init__(self, nodes, op_class):
        self.op_class = op_class
        self.found = {}
        # Variable -> `_Expression`. The keys are the variables in `found`, and all other variables that a few cheap
        # operations compute and that have only one client.
        self._inside = {}
        for node in nodes:
            if _is_cheap(node) and _fusible(node, op_class):
                self._examine(node)

    def _examine(self, node):
        (out,) = node.outputs
        expression = self._expression(node)
        if len(expression.members) > MAX_REPEATED or len(out.clients) > MAX_REPETITIONS:
            return
        readers = {client for client, _ in out.clients}
        if len(readers) == 1:
            self._inside[out] = expression
        elif (
            self._is_worth_it(len(readers), expression)
            and all(self._is_in_memory(operand, expression) for operand in expression.operands)
            and self._take_in(readers, out)
        ):
            self._inside[out] = self.found[out] = expression

    def _expression(self, node):
        members, operands = {node: None}, {}
        for variable in node.inputs:
            inner = self._inside.get(variable)
            if inner is None or variable.type.broadcastable != node.outputs[0].type.broadcastable:
                operands[variable] = None
            else:
                members.update(dict.fromkeys(inner.members))
                operands.update(dict.fromkeys(inner.operands))
        return _Expression(list(members), list(operands))

    @staticmethod
    def _is_worth_it(readers, expression):
        arrays = sum(not all(operand.type.broadcastable) for operand in expression.operands)
        return readers * arrays <= arrays + 1 + readers

    def _is_in_memory(self, operand, expression):
        """Return True if an operand of an expression is in memory even if it is not stored for this expression.

        Return False if the expression is the operand's only client and the two could be fused.
        """
        node, (last, *_) = operand.owner, expression.members
        return (
            node is None
            or operand.type.broadcastable != last.outputs[0].type.broadcastable
            or any(client not in expression.members for client, _ in operand.clients)
            or not _fusible(node, self.op_class)
        )

    def _take_in(self, readers, value):
        """Return True if all `readers`, which are the clients of `value`, can compute `value` in their own loops."""
        pattern = value.type.broadcastable
        others = [
            reader
            for reader in readers
            if reader == "output"
            or not _fusible(reader, self.op_class)
            or reader.outputs[0].type.broadcastable != pattern
        ]
        return not others or (len(others) == 1 and others[0] != "output" and _takes_in(others[0], value))

    def join(self, members, external, pattern, max_inputs):
        """Add operations to a group: the operations of the recomputed values that the members of the group read.

        Parameters
        ----------
        members : list of Apply
            The members of the group. The list is changed in place.
        external : collection of Variable
            The variables that the members read and that no member computes.
        pattern : tuple of bool
            The broadcast pattern of the members' results.
        max_inputs : int
            The maximum number of variables that the group may read.
        """
        read, inside = set(external), set(members)
        weight = sum(map(_weight, members))
        for variable in external:
            expression = self.found.get(variable)
            if expression is None or variable.type.broadcastable != pattern:
                continue
            now_read = read.union(expression.operands).difference([variable])
            more = [member for member in expression.members if member not in inside]
            now_weight = weight + sum(map(_weight, more))
            if len(now_read) <= max_inputs and now_weight <= MAX_OPERATIONS:
                read, weight = now_read, now_weight
                members += more
                inside.update(more)


def _group(root, op_class, max_inputs, repeated):
    """Return the operations that can run in one loop with `root`. Each comes after the operations that use its result.

    Parameters
    ----------
    root : Apply
        The operation that computes the result of the group.
    op_class : class
        The class of the Ops that may join the group.
    max_inputs : int
        The maximum number of variables that the group may read.
    repeated : _Recomputed, optional
        The values that the group may recompute.
    """
    pattern = root.outputs[0].type.broadcastable
    members, waiting, external = [root], {}, dict.fromkeys(root.inputs)
    weight, too_many = _weight(root), False
    for member in members:  # The list grows during the iteration.
        for variable in member.inputs:
            producer = variable.owner
            if producer is None or weight >= MAX_OPERATIONS:
                continue
            # Each use of a variable is one entry of `clients`. The producer joins the group as soon as all its uses are
            # in the group.
            waiting[variable] = waiting.get(variable, 0) + 1
            if (
                waiting[variable] == len(variable.clients)
                and variable.type.broadcastable == pattern
                and _fusible(producer, op_class)
            ):
                if len(external) - 1 + len(set(producer.inputs).difference(external)) > max_inputs:
                    too_many = True
                    continue
                members.append(producer)
                weight += _weight(producer)
                del external[variable]
                external.update(dict.fromkeys(producer.inputs))
    if too_many:
        wide = _wide_group(root, op_class, max_inputs, max_inputs + 8 * len(members))
        if len(wide) > len(members):
            return wide
    if repeated is not None:
        repeated.join(members, external, pattern, max_inputs)
    return members


def _wide_group(root, op_class, max_inputs, most_inputs):
    """Return the largest group with at most `max_inputs` inputs.

    While the group grows, it may have up to `most_inputs` inputs. For example, the graph of a second derivative is wide
    in the middle, but has few inputs.
    """
    pattern = root.outputs[0].type.broadcastable
    members, waiting, external = [root], {}, {}
    weight, walked, end = _weight(root), 0, 1
    for member in members:  # The list grows during the iteration.
        walked += 1  # noqa: SIM113, the number of members is needed after the loop
        external.pop(member.outputs[0], None)
        for variable in member.inputs:
            external[variable] = None
            waiting[variable] = waiting.get(variable, 0) + 1
            producer = variable.owner
            if (
                producer is not None
                and waiting[variable] == len(variable.clients)
                and weight < MAX_OPERATIONS
                and variable.type.broadcastable == pattern
                and _fusible(producer, op_class)
            ):
                members.append(producer)
                weight += _weight(producer)
        if len(external) <= max_inputs:
            end = walked
        elif len(external) > most_inputs:
            break
    return members[:end]


def _composite(root, members):
    """Return the scalar op of a group and its input variables, in the order of their first use in the expression."""
    inside = {member.outputs[0]: member for member in members}
    scalars, inputs, scalar_inputs = {}, [], []
    for variable in postorder(root.outputs[:1], scalars, lambda r: inside[r].inputs if r in inside else ()):
        member = inside.get(variable)
        if member is None:
            scalars[variable] = scalar.get_scalar_type(variable.type.dtype).make_variable()
            inputs.append(variable)
            scalar_inputs.append(scalars[variable])
        else:
            scalars[variable] = member.op.scalar_op.make_node(*[scalars[i] for i in member.inputs]).outputs[0]
    return scalar.Composite(scalar_inputs, [scalars[root.outputs[0]]]), inputs


def elemwise_max_input_fct(node):
    """Return the maximum number of inputs of a fused node.

    NumPy ufuncs, which compute the node if there is no C code, accept at most 32 operands.
    """
    return 32


def local_elemwise_fusion_op(OP, max_input_fct=elemwise_max_input_fct, maker=None):
    """Make the fusion rule for an elementwise Op class.

    Parameters
    ----------
    OP : class
        `Elemwise` or a class with its interface.
    max_input_fct : callable
        ``max_input_fct(node)`` returns the number of inputs that the fused Op may have.
    maker : callable, optional
        ``maker(node, scalar_op)`` makes the fused Op.

    Returns
    -------
    callable
        A function of a node that returns the outputs of the fused node, or False.
    """
    if maker is None:

        def maker(node, scalar_op):
            return OP(scalar_op)

    def local_fuse(node, repeated=None):
        """Fuse a node with the operations that compute its inputs.

        exp(x) * y + 1  ->  Elemwise{Composite{((exp(i0) * i1) + i2)}}(x, y, 1)       [elemwise_fusion, fast_run]
        """
        if not _fusible(node, OP):
            return False
        members = _group(node, OP, max_input_fct(node), repeated)
        if len(members) == 1:
            return False
        scalar_op, inputs = _composite(node, members)
        fused = maker(node, scalar_op)(*inputs)
        if fused.type != node.outputs[0].type:
            return False
        copy_stack_trace(node.outputs[0], fused)
        return [fused]

    def for_graph(nodes):
        return functools.partial(local_fuse, repeated=_Recomputed(nodes, OP))

    local_fuse.for_graph = for_graph
    return local_fuse


local_elemwise_fusion = local_elemwise_fusion_op(Elemwise)


def local_add_mul_fusion(node):
    """Merge a sum of sums into one sum, and a product of products into one product.

    (a + b) + c  ->  add(a, b, c)       [elemwise_fusion, fast_run]
    """
    if (
        not isinstance(node.op, Elemwise)
        or node.op.inplace_pattern
        or not isinstance(node.op.scalar_op, (scalar.Add, scalar.Mul))
    ):
        return False
    out = node.outputs[0]
    flat, todo, changed = [], list(reversed(node.inputs)), False
    while todo:
        variable = todo.pop()
        inner = variable.owner
        if (
            inner is not None
            and inner.op == node.op
            and len(variable.clients) == 1
            and variable.type == out.type
            and len(flat) + len(todo) + len(inner.inputs) <= 32
        ):
            todo.extend(reversed(inner.inputs))
            changed = True
        else:
            flat.append(variable)
    if not changed:
        return False
    result = node.op(*flat)
    if result.type != out.type:
        return False
    copy_stack_trace(out, result)
    return [result]


def local_elemwise_reduction_fusion(node):
    """Merge a reduction with the elementwise operation that computes its input, if this input has no other client.

    sum(exp(x))  ->  Sum{acc_dtype=float64} of Elemwise{exp,no_inplace}(x)       [elemwise_fusion, fast_run]

    With OpenMP the two nodes remain separate, because a `ReducedElemwise` uses only one thread. The addition of scalars
    to one array also remains separate, because the manual shows the graph of ``(v + 1).sum()``.
    """
    between = node.inputs[0] if node.inputs else None
    if between is None or len(between.clients) != 1 or not _takes_in(node, between):
        return False
    inner = between.owner
    if inner is None or not _fusible(inner, Elemwise):
        return False
    if isinstance(inner.op.scalar_op, scalar.Add) and sum(not all(i.type.broadcastable) for i in inner.inputs) == 1:
        return False
    fused = ReducedElemwise(inner.op, node.op)(*inner.inputs)
    if fused.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], fused)
    return [fused]


def _takes_in(node, variable):
    """Return True if a node is a reduction that can compute `variable` in its own loop."""
    return (
        isinstance(node.op, CAReduce)
        and not config.openmp
        and not all(variable.type.broadcastable)
        and len(node.op._axes(variable.type.ndim)) > 0
        and node.op.reads_blocks(node)
    )


class FusionOptimizer(Optimizer):
    """An optimizer that applies a fusion rule to every node, from the results to the inputs.

    The optimizer does nothing if the flag `config.tensor.local_elemwise_fusion` is off.

    Parameters
    ----------
    local_optimizer : callable
        A function of a node that returns new outputs or False. A rule that depends on the graph has an attribute
        `for_graph`: a function that takes all nodes, inputs first, and returns the rule.
    """

    def __init__(self, local_optimizer):
        super().__init__()
        self.optimizer = local_optimizer

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        begin = time.time()
        nodes = fgraph.toposort() if config.tensor.local_elemwise_fusion else ()
        time_toposort = time.time() - begin
        before = getattr(fgraph.profile, "validate_time", 0) if getattr(fgraph, "profile", None) else None
        replaced = inconsistent = 0
        for_graph = getattr(self.optimizer, "for_graph", None)
        rule = self.optimizer if for_graph is None else for_graph(nodes)
        for node in reversed(nodes):
            if node not in fgraph.apply_nodes:
                continue
            new_outputs = rule(node)
            if not new_outputs:
                continue
            try:
                fgraph.replace_all_validate(list(zip(node.outputs, new_outputs)), reason=self.__class__.__name__)
                replaced += 1
            except InconsistencyError:
                inconsistent += 1
        validate_time = None if before is None else fgraph.profile.validate_time - before
        return self, 1, replaced, inconsistent, validate_time, {}, 0, time_toposort

    @staticmethod
    def print_profile(stream, prof, level=0):
        blanc = "    " * level
        print(blanc, "FusionOptimizer", file=stream)
        for name, value in zip(
            (
                "nb_iter",
                "nb_replacement",
                "nb_inconsistency_replace",
                "validate_time",
                "callbacks_time",
                "callback_time",
                "time_toposort",
            ),
            prof[1:],
        ):
            print(blanc, name, value, file=stream)


fuse_seqopt = SequenceDB()
fuse_seqopt.register("local_add_mul_fusion", FusionOptimizer(local_add_mul_fusion), 0, "fast_run", "fusion")
fuse_seqopt.register("composite_elemwise_fusion", FusionOptimizer(local_elemwise_fusion), 1, "fast_run", "fusion")
fuse_seqopt.register(
    "local_elemwise_reduction_fusion", FusionOptimizer(local_elemwise_reduction_fusion), 2, "fast_run", "fusion"
)
optdb.register("elemwise_fusion", fuse_seqopt, 49, "fast_run", "fusion", "local_elemwise_fusion", "FusionOptimizer")
