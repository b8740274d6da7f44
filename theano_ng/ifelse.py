"""The lazy conditional: ``ifelse(condition, then, else)`` computes only one branch.

Only the linkers `vm` and `cvm` are lazy; other linkers compute both branches. The elementwise conditional is
`tensor.switch`, which computes both branches.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import theano_ng.scalar as scal
from theano_ng.compile.mode import optdb
from theano_ng.compile.ops import Rebroadcast, Shape, SpecifyShape
from theano_ng.configdefaults import config
from theano_ng.gof._native import LazyBranch
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.null_type import NullType
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import EquilibriumDB
from theano_ng.gof.rewriting import Optimizer, copy_stack_trace, local_optimizer
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.tensor.constant import as_tensor_variable, tensor_or_other
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.reductions.extremes import MaxAndArgmax
from theano_ng.tensor.shaping.allocation import Alloc
from theano_ng.tensor.shaping.broadcasting import with_pattern
from theano_ng.tensor.shaping.reshaping import Reshape
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike

__all__ = [
    "CondMerge",
    "IfElse",
    "cond_make_inplace",
    "cond_merge_ifs_false",
    "cond_merge_ifs_true",
    "cond_merge_random_op",
    "cond_remove_identical",
    "ifelse",
    "ifelse_lift_single_if_through_acceptable_ops",
]


def _common_type(t, f):
    """Return the most specific type that accepts values of the types `t` and `f`. Return None if there is none."""
    if t == f:
        return t
    if not all(hasattr(kind, "broadcastable") for kind in (t, f)) or t.ndim != f.ndim:
        return None
    pattern = [a and b for a, b in zip(t.broadcastable, f.broadcastable)]
    common = t.clone(broadcastable=pattern)
    return common if common == f.clone(broadcastable=pattern) else None


class IfElse(Op):
    """The Op of `ifelse`.

    Its inputs are the condition, the values of the then branch, and the values of the else branch.

    Parameters
    ----------
    n_outs : int
        The number of values in each branch.
    as_view : bool
        If True, return the values of the then branch themselves instead of copies. A rewrite sets this parameter.
    gpu : bool
        If True, the values are on the GPU.
    name : str, optional
        The name in printed graphs.
    """

    __props__ = ("n_outs", "as_view", "gpu", "name")
    same_for_any_ndim = True
    takes_undefined_gradients = True  # the condition's gradient is zero even if an output gradient is undefined

    def __init__(self, n_outs, as_view=False, gpu=False, name=None):
        self.n_outs = n_outs
        self.as_view = as_view
        self.gpu = gpu
        self.name = name
        if as_view:
            # The destroy handler accepts only one viewed input for each output: the variable of the then branch.
            # `_taken` copies the values of the else branch.
            self.view_map = {i: [i + 1] for i in range(n_outs)}

    def __eq__(self, other):
        return (
            type(self) is type(other)
            and self.n_outs == other.n_outs
            and self.as_view == other.as_view
            and self.gpu == other.gpu
        )

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__qualname__, self.n_outs, self.as_view, self.gpu))

    def __str__(self):
        words = [] if self.name is None else [self.name]
        if self.as_view:
            words.append("inplace")
        if self.gpu:
            words.append("gpu")
        return "if{%s}" % ",".join(words)

    def make_node(self, c, *args):
        if len(args) != 2 * self.n_outs:
            raise ValueError(
                "Wrong number of arguments to make_node: expected %d, got %d" % (2 * self.n_outs, len(args))
            )
        if not isinstance(c, Variable):
            c = as_tensor_variable(int(c) if isinstance(c, bool) else c)
        if getattr(c.type, "ndim", 0) > 0:
            raise TypeError(
                "Condition given to the op has to be a scalar with 0 standing for False, anything else for True; "
                "got type %s" % (c.type,)
            )
        args = [x if isinstance(x, Variable) else as_tensor_variable(x) for x in args]
        types = []
        for t, f in zip(args[: self.n_outs], args[self.n_outs :]):
            common = _common_type(t.type, f.type)
            if common is None:
                raise TypeError("IfElse requires same types for true and false return values", t, f, t.type, f.type)
            types.append(common)
        return Apply(self, [c, *args], [type_() for type_ in types])

    def branches(self, node):
        """Return the variables of the then branch and the variables of the else branch."""
        return node.inputs[1 : 1 + self.n_outs], node.inputs[1 + self.n_outs :]

    def _taken(self, value, first):
        # The view_map declares only the variables of the then branch as viewed inputs. So always copy the values of the
        # else branch.
        return value if self.as_view and first == 1 else _copy(value)

    def perform(self, node, inputs, output_storage):
        first = 1 if inputs[0] != 0 else 1 + self.n_outs
        for cell, value in zip(output_storage, inputs[first : first + self.n_outs]):
            cell[0] = self._taken(value, first)

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        """Return a lazy thunk. Each call of the thunk returns the positions of the inputs that it needs next.

        The result is [] if the outputs are computed.

        Parameters
        ----------
        impl : {None, 'c', 'py'}
            If it is None or 'c', the thunk is a `LazyBranch`, which the compiled virtual machine evaluates without
            Python.

        Returns
        -------
        callable
        """
        cells = [storage_map[v] for v in node.inputs]
        flags = [compute_map[v] for v in node.inputs]
        outputs = [storage_map[out] for out in node.outputs]
        outputs_done = [compute_map[out] for out in node.outputs]
        if impl != "py":
            return LazyBranch(cells, outputs, flags, outputs_done, self.as_view, _copy)
        n = self.n_outs

        def thunk():
            if not flags[0][0]:
                return [0]
            first = 1 if cells[0][0] != 0 else 1 + n
            missing = [i for i in range(first, first + n) if not flags[i][0]]
            if not missing:
                for cell, source, done in zip(outputs, cells[first : first + n], outputs_done):
                    cell[0] = self._taken(source[0], first)
                    done[0] = 1
            return missing

        thunk.lazy, thunk.branch_size, thunk.inputs, thunk.outputs = True, n, cells, outputs
        return thunk

    def infer_shape(self, node, inputs_shapes):
        n = self.n_outs
        then, other = inputs_shapes[1 : 1 + n], inputs_shapes[1 + n :]
        pairs = []
        for t, f in zip(then, other):
            if t is not None and f is not None:
                pairs += [(a, b) for a, b in zip(t, f) if a is not b]
        sizes = []
        if pairs:
            as_sizes = [[as_tensor_variable(size).astype("int64") for size in side] for side in zip(*pairs)]
            sizes = IfElse(len(pairs), gpu=False, name="shape" if self.name is None else "shape_" + self.name)(
                node.inputs[0], *as_sizes[0], *as_sizes[1], return_list=True
            )
        sizes = iter(sizes)
        result = []
        for t, f in zip(then, other):
            if t is None or f is None:
                result.append(None)
            else:
                result.append(tuple(a if a is b else next(sizes) for a, b in zip(t, f)))
        return result

    def connection_pattern(self, node):
        n = self.n_outs
        own = [[i == j for j in range(n)] for i in range(n)]
        return [[True] * n, *own, *own]

    def grad(self, ins, grads):
        cond, n = ins[0], self.n_outs
        then, other = ins[1 : 1 + n], ins[1 + n :]
        special = [isinstance(g.type, (DisconnectedType, NullType)) for g in grads]
        wanted = [i for i in range(n) if not special[i]]
        result = [[g if special[i] else None for i, g in enumerate(grads)] for _ in range(2)]
        if wanted:
            flow = [grads[i] for i in wanted]
            zeros = [[_zeros_for(side[i], grads[i]) for i in wanted] for side in (then, other)]
            for k, (first, second) in enumerate(((flow, zeros[0]), (zeros[1], flow))):
                name = None if self.name is None else self.name + ("_grad_t", "_grad_f")[k]
                parts = IfElse(len(wanted), gpu=self.gpu, name=name)(cond, *first, *second, return_list=True)
                for i, part in zip(wanted, parts):
                    # The type of `part` is common to both branches.
                    result[k][i] = with_pattern(part, (then, other)[k][i])
        return [cond.zeros_like().astype(config.floatX), *result[0], *result[1]]

    def R_op(self, inputs, eval_points):
        n = self.n_outs
        then, other = eval_points[1 : 1 + n], eval_points[1 + n :]
        wanted = [i for i in range(n) if then[i] is not None or other[i] is not None]
        result = [None] * n
        if wanted:
            sides = [
                [_zeros_for(inputs[first + i], given[i]) if points[i] is None else points[i] for i in wanted]
                for first, points, given in ((1, then, other), (1 + n, other, then))
            ]
            parts = IfElse(len(wanted), gpu=self.gpu, name=self.name)(inputs[0], *sides[0], *sides[1], return_list=True)
            for i, part in zip(wanted, parts):
                result[i] = part
        return result


def _copy(value):
    return value.copy() if type(value) is np.ndarray else copy.deepcopy(value)


def _zeros_for(x, g):
    """Return zeros with the shape of `x`, and with the dtype and the location (host or device) of the derivative `g`."""
    zeros = x.zeros_like()
    if hasattr(g.type, "dtype") and zeros.dtype != g.dtype:
        zeros = zeros.astype(g.dtype)
    location = getattr(g.type, "context_name", "cpu")
    return zeros if getattr(zeros.type, "context_name", "cpu") == location else zeros.transfer(location)


def ifelse(condition: TensorLike, then_branch: TensorLike, else_branch: TensorLike, name: str | None = None) -> Any:
    """Return the values of the branch that the condition selects. A lazy linker computes only this branch.

    Parameters
    ----------
    condition : scalar variable or number
        0 means false. Any other value means true.
    then_branch, else_branch : variable, number, or list or tuple of these
        The values if the condition is true, and if it is false. Both branches have the same length and the same types.
    name : str, optional
        The name in printed graphs.

    Returns
    -------
    TensorVariable, or list or tuple of variables
        The values, in a container like `then_branch`. Only the linkers vm and cvm are lazy; other linkers compute both
        branches.

    Raises
    ------
    TypeError
        If the branches differ in type, or the condition is not a scalar.
    ValueError
        If the branches differ in length.
    """
    container = type(then_branch) if isinstance(then_branch, (list, tuple)) else None
    then_branch = list(then_branch) if isinstance(then_branch, (list, tuple)) else [then_branch]
    else_branch = list(else_branch) if isinstance(else_branch, (list, tuple)) else [else_branch]
    if len(then_branch) != len(else_branch):
        raise ValueError(
            "The number of values on the `then` branch should have the same number of variables as the `else` branch : "
            "(variables on `then` %d, variables on `else` %d)" % (len(then_branch), len(else_branch))
        )
    then, other = [], []
    for t, f in zip(then_branch, else_branch):
        literal = not isinstance(t, Variable) or not isinstance(f, Variable)
        t, f = (x if isinstance(x, Variable) else as_tensor_variable(x) for x in (t, f))
        if isinstance(t.type, TensorType) != isinstance(f.type, TensorType):
            # Only one value is a tensor. Convert the other value, for example a device array, to the tensor's type.
            if isinstance(t.type, TensorType):
                f = t.type.filter_variable(f)
            else:
                t = f.type.filter_variable(t)
        elif t.type != f.type:
            # Convert device variables to tensors, because their contexts or broadcast patterns may differ.
            t, f = tensor_or_other(t), tensor_or_other(f)
        if literal and isinstance(t.type, TensorType) and t.dtype != f.dtype:
            # If a branch is a literal number, both branches get their promoted dtype.
            dtype = scal.upcast(t.dtype, f.dtype)
            t, f = t.astype(dtype), f.astype(dtype)
        if _common_type(t.type, f.type) is None:
            raise TypeError(
                "The two branches should have identical types, but they are %s and %s respectively. This error could be raised "
                "if for example you provided a one element list on the `then` branch but a tensor on the `else` branch."
                % (t.type, f.type)
            )
        then.append(t)
        other.append(f)
    result = IfElse(len(then), name=name)(condition, *then, *other, return_list=True)
    return result[0] if container is None else container(result)


# ---------------------------------------------------------------- rewrites


class _Memory:
    """The alias classes of a graph: sets of variables that may share memory.

    A view map joins the classes of an output and an input. A conditional that returns a branch without a copy joins the
    classes of an output and of its values in both branches, although a view map can declare only one input for each
    output. One variable of each class represents the class. The sets `_destroyed`, `_given` and `_output` contain such
    representatives.
    """

    def __init__(self, fgraph):
        self._parent = {}
        self._destroyed, self._given, self._output = set(), set(), set()
        self._made_from = {}  # class -> variables that in-place Ops overwrote to compute members of the class
        nodes = fgraph.toposort()
        for node in nodes:
            for o, places in getattr(node.op, "view_map", {}).items():
                for i in places:
                    self._join(node.outputs[o], node.inputs[i])
            if isinstance(node.op, IfElse) and node.op.as_view:
                self.returns_branch(node, node.outputs)
        for node in nodes:
            for o, places in getattr(node.op, "destroy_map", {}).items():
                destroyed = [node.inputs[i] for i in places]
                self._made_from.setdefault(self._find(node.outputs[o]), []).extend(destroyed)
                self._destroyed.update(map(self._find, destroyed))
            self._given.update(self._find(r) for r in node.inputs if r.owner is None)
        self._given.update(map(self._find, fgraph.inputs))
        self._output.update(map(self._find, fgraph.outputs))

    def _find(self, variable):
        parent, path = self._parent, []
        while variable in parent:
            path.append(variable)
            variable = parent[variable]
        for passed in path[:-1]:
            parent[passed] = variable
        return variable

    def _join(self, a, b):
        a, b = self._find(a), self._find(b)
        if a is b:
            return
        self._parent[a] = b
        for kind in (self._destroyed, self._given, self._output):
            if a in kind:
                kind.add(b)
        if a in self._made_from:
            self._made_from.setdefault(b, []).extend(self._made_from.pop(a))

    def returns_branch(self, node, outputs):
        """Record that a conditional, whose outputs are now `outputs`, returns one of its branches without a copy."""
        for variables in (node.outputs, *node.op.branches(node)):
            for out, variable in zip(outputs, variables):
                self._join(out, variable)

    def may_return_branch(self, node):
        """Return True if a conditional may return the values of a branch without copying them."""
        results = list(map(self._find, node.outputs))
        branches = [self._find(r) for branch in node.op.branches(node) for r in branch]
        if any(c in self._destroyed for c in results + branches):
            return False
        return not any(c in self._output for c in results) or not self._belongs_to_caller(branches)

    def _belongs_to_caller(self, classes):
        """Return True if the memory of a class may belong to an input, a constant or an output of the graph.

        This is also the case if an in-place Op computed a member of the class in the memory of such a variable.
        """
        todo, seen = list(classes), set()
        while todo:
            c = todo.pop()
            if c in self._given or c in self._output:
                return True
            if c not in seen:
                seen.add(c)
                todo.extend(map(self._find, self._made_from.get(c, ())))
        return False


def _returning_branch(node):
    op = node.op
    return copy_stack_trace(
        node.outputs, IfElse(op.n_outs, as_view=True, gpu=op.gpu, name=op.name)(*node.inputs, return_list=True)
    )


@local_optimizer([IfElse])
def cond_make_inplace(node):
    """Let a conditional return the values of its then branch themselves instead of copies.

    exp(ifelse(flag, x, y))  ->  exp(IfElse(1, as_view=True)(flag, x, y))

    The rule does not apply if an in-place Op overwrites the result or a branch. It also does not apply if an output of
    the graph could share memory with an input, a constant or another output of the graph. The rule has to check both
    branches itself: a view map declares only one input for each output, so the destroy handler does not protect the
    else branch.
    """
    if node.op.as_view or not _Memory(node.fgraph).may_return_branch(node):
        return False
    return _returning_branch(node)


class CondMakeInplace(Optimizer):
    """An optimizer that applies `cond_make_inplace` to all conditionals. It computes the alias classes only once.

    exp(ifelse(flag, x, y))  ->  exp(IfElse(1, as_view=True)(flag, x, y))          [fast_run, inplace]
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        nodes = [node for node in fgraph.toposort() if isinstance(node.op, IfElse) and not node.op.as_view]
        if not nodes:
            return
        memory = _Memory(fgraph)
        for node in nodes:
            if not memory.may_return_branch(node):
                continue
            results = _returning_branch(node)
            try:
                fgraph.replace_all_validate(list(zip(node.outputs, results)), reason=cond_make_inplace)
            except InconsistencyError:
                continue
            memory.returns_branch(node, results)


optdb.register("cond_make_inplace", CondMakeInplace(), 95, "fast_run", "inplace")


# The Ops through which a conditional may be lifted.
_ACCEPTABLE_OPS = (
    Shape,
    SpecifyShape,
    Rebroadcast,
    Dot,
    Reshape,
    MaxAndArgmax,
    Alloc,
    Subtensor,
    IncSubtensor,
    Elemwise,
    DimShuffle,
)


@local_optimizer(None)
def ifelse_lift_single_if_through_acceptable_ops(main_node):
    """Lift a conditional through the only Op that uses it.

    dot(ifelse(flag, A, B), C)  ->  ifelse(flag, dot(A, C), dot(B, C))

    The Op is one of `_ACCEPTABLE_OPS`. It has exactly one conditional among its inputs, and that conditional has no
    other client.
    """
    if not isinstance(main_node.op, _ACCEPTABLE_OPS):
        return False
    conditionals = {}
    for inp in main_node.inputs:
        if inp.owner is not None and isinstance(inp.owner.op, IfElse):
            conditionals[inp.owner] = None
    if len(conditionals) != 1:
        return False
    (node,) = conditionals
    if any(client is not main_node for out in node.outputs for client, _ in out.clients):
        return False
    if getattr(main_node.op, "destroy_map", None):
        return False
    sides = []
    for branch in node.op.branches(node):
        replace = dict(zip(node.outputs, branch))
        try:
            lifted = main_node.clone_with_new_inputs([replace.get(inp, inp) for inp in main_node.inputs], strict=False)
        except (TypeError, ValueError):
            return False  # the Op does not accept the more specific type of this branch
        sides.append(lifted.outputs)
        copy_stack_trace(main_node.outputs, lifted.outputs)
    if any(_common_type(t.type, f.type) != out.type for t, f, out in zip(*sides, main_node.outputs)):
        return False
    result = IfElse(len(main_node.outputs), gpu=False, name=node.op.name)(
        node.inputs[0], *sides[0], *sides[1], return_list=True
    )
    copy_stack_trace(main_node.outputs, result)
    return result


def _merge_nested(node, branch):
    """In one branch of `node`, replace each conditional on the same condition by its value for this branch.

    `branch` is 0 for the then branch, and 1 for the else branch.
    """
    op = node.op
    inputs = list(node.inputs)
    for i in range(1 + branch * op.n_outs, 1 + (branch + 1) * op.n_outs):
        inner = inputs[i].owner
        if inner is not None and isinstance(inner.op, IfElse) and inner.inputs[0] is node.inputs[0]:
            inputs[i] = inner.op.branches(inner)[branch][inner.outputs.index(inputs[i])]
    if inputs == node.inputs:
        return False
    return copy_stack_trace(node.outputs, op(*inputs, return_list=True))


@local_optimizer([IfElse])
def cond_merge_ifs_true(node):
    """In a then branch, replace an inner conditional on the same condition by the inner then branch.

    ifelse(flag, ifelse(flag, x, y), z)  ->  ifelse(flag, x, z)
    """
    return _merge_nested(node, 0)


@local_optimizer([IfElse])
def cond_merge_ifs_false(node):
    """In an else branch, replace an inner conditional on the same condition by the inner else branch.

    ifelse(flag, x, ifelse(flag, y, z))  ->  ifelse(flag, x, z)
    """
    return _merge_nested(node, 1)


def _depends_on(node, other):
    """Return True if an input of `node` is computed from an output of `other`."""
    seen, stack = {}, [node]
    while stack:
        for inp in stack.pop().inputs:
            owner = inp.owner
            if owner is other:
                return True
            if owner is not None and owner not in seen:
                seen[owner] = None
                stack.append(owner)
    return False


def _merged(*nodes):
    """Merge conditionals with the same condition into one conditional. Return pairs (old output, new output)."""
    names = [node.op.name or "?" for node in nodes]
    branches = [node.op.branches(node) for node in nodes]
    op = IfElse(
        sum(node.op.n_outs for node in nodes),
        gpu=nodes[0].op.gpu,
        name="&".join(names) if any(n != "?" for n in names) else None,
    )
    new = op(
        nodes[0].inputs[0],
        *[v for then, _ in branches for v in then],
        *[v for _, other in branches for v in other],
        return_list=True,
    )
    old = [out for node in nodes for out in node.outputs]
    copy_stack_trace(old, new)
    return list(zip(old, new))


def _mergeable(first, second):
    return first.inputs[0] is second.inputs[0] and not _depends_on(first, second) and not _depends_on(second, first)


class CondMerge(Optimizer):
    """An optimizer that merges independent conditionals with the same condition into one conditional.

    (ifelse(flag, x, y), ifelse(flag, u, v))  ->  ifelse(flag, (x, u), (y, v))
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        counts = Counter(node.inputs[0] for node in fgraph.toposort() if isinstance(node.op, IfElse))
        for condition, count in counts.items():
            if count < 2:
                continue
            # The level of a variable is the maximum number of conditionals with this condition on a path to it. Two
            # conditionals on the same level do not depend on each other, so merging whole levels creates no cycle. The
            # merge changes the graph, so the levels are computed again for the next condition.
            level, groups = {}, {}
            for node in fgraph.toposort():
                depth = max((level.get(inp, 0) for inp in node.inputs), default=0)
                if isinstance(node.op, IfElse) and node.inputs[0] is condition:
                    groups.setdefault(depth, []).append(node)
                    depth += 1
                level.update(dict.fromkeys(node.outputs, depth))
            pairs = [pair for nodes in groups.values() if len(nodes) > 1 for pair in _merged(*nodes)]
            # A branch value of a merged conditional may be an output of a second merged conditional (the inner one).
            # Replace outer conditionals first, so that the inner ones are replaced in the new nodes, too.
            fgraph.replace_all_validate(pairs[::-1], reason="cond_merge")


@local_optimizer([IfElse])
def cond_remove_identical(node):
    """Remove duplicate values from a conditional.

    ifelse(flag, (x, x), (y, y))  ->  (ifelse(flag, x, y), ifelse(flag, x, y))
    """
    op = node.op
    places = {}
    for i, pair in enumerate(zip(*op.branches(node))):
        places.setdefault(pair, []).append(i)
    if len(places) == op.n_outs:
        return False
    then, other = zip(*places)
    parts = IfElse(len(places), as_view=op.as_view, gpu=op.gpu, name=op.name)(
        node.inputs[0], *then, *other, return_list=True
    )
    copy_stack_trace(node.outputs, parts)
    result = [None] * op.n_outs
    for part, where in zip(parts, places.values()):
        for i in where:
            result[i] = part
    return result


@local_optimizer(None)
def cond_merge_random_op(main_node):
    """If two conditionals with the same condition are inputs of one Op, merge the conditionals.

    ifelse(flag, x, y) + ifelse(flag, u, v)  ->  add(*ifelse(flag, (x, u), (y, v)))
    """
    if isinstance(main_node.op, IfElse):
        return False
    nodes = {}
    for inp in main_node.inputs:
        if inp.owner is not None and isinstance(inp.owner.op, IfElse):
            nodes[inp.owner] = None
    nodes = list(nodes)
    for proposal in nodes[1:]:
        if _mergeable(nodes[0], proposal):
            replace = dict(_merged(nodes[0], proposal))
            return main_node.clone_with_new_inputs(
                [replace.get(inp, inp) for inp in main_node.inputs], strict=False
            ).outputs
    return False


# The tag ``ifelse`` enables these rules. Lifting makes gradients lazy, which is not always faster.
ifelse_equilibrium = EquilibriumDB()
for _rule in (
    ifelse_lift_single_if_through_acceptable_ops,
    cond_merge_ifs_true,
    cond_merge_ifs_false,
    cond_remove_identical,
    cond_merge_random_op,
):
    ifelse_equilibrium.register(_rule.__name__, _rule, "ifelse")
ifelse_equilibrium.register("cond_merge", CondMerge(), "ifelse", final_opt=True)
optdb.register("ifelse_equilibrium", ifelse_equilibrium, 0.5, "ifelse")
