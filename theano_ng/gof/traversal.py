"""Algorithms on graphs of variables and Apply nodes. They use loops, not recursion, and do not depend on hash order.

The functions are documented as members of `theano_ng.gof.graph`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from theano_ng.gof._toposort import constrained_order, depth_first_order
from theano_ng.misc.ordered_set import OrderedSet

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply, Variable

    N = TypeVar("N", bound=Hashable)


def stack_search(
    start: deque[N], expand: Callable[[N], Iterable[N] | None], mode: str = "bfs", build_inv: bool = False
) -> Any:
    """Search through a graph, breadth- or depth-first.

    Parameters
    ----------
    start : deque
        The nodes from which the search starts. The deque is empty afterwards.
    expand : callable
        ``expand(node)`` returns the list of nodes to visit next, or None.
    mode : {'bfs', 'dfs'}
    build_inv : bool
        Whether to build the inverse relation, too.

    Returns
    -------
    list
        The nodes in order of traversal. Each node occurs once. With `build_inv`, a pair: the list, and a dict that maps
        each node to the nodes for which `expand` returned it.
    """
    if mode not in ("bfs", "dfs"):
        raise ValueError("mode should be bfs or dfs, not %r" % (mode,))
    seen = set()
    found = []
    inverse: dict[N, list[N]] = {}
    pop = start.popleft if mode == "bfs" else start.pop
    while start:
        node = pop()
        if node in seen:
            continue
        seen.add(node)
        found.append(node)
        following = expand(node)
        if following:
            following = list(following)
            if build_inv:
                for f in following:
                    inverse.setdefault(f, []).append(node)
            start.extend(following)
    return (found, inverse) if build_inv else found


def _operands(r: Variable) -> Sequence[Variable]:
    return () if r.owner is None else r.owner.inputs


def postorder(
    roots: Sequence[Variable],
    known: Container[Variable],
    operands: Callable[[Variable], Iterable[Variable]] = _operands,
) -> Iterator[Variable]:
    """Generate variables and all variables on which they depend, operands first.

    Parameters
    ----------
    roots : list of Variable
    known : container of Variable
        Variables that are skipped, together with their operands. The caller has to add each generated variable to
        `known` before it requests the next variable. The caller may also add variables that need not be generated, such
        as the other outputs of a node.
    operands : callable, optional
        ``operands(r)`` returns the variables that must be generated before `r`. By default, the inputs of the node of
        `r`.

    Yields
    ------
    Variable
    """
    stack = list(reversed(roots))
    while stack:
        r = stack[-1]
        missing = [i for i in operands(r) if i not in known] if r not in known else ()
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if r not in known:
            yield r


def ancestors(variable_list: Iterable[Variable], blockers: Collection[Variable] | None = None) -> list[Variable]:
    """Return `variable_list` and all variables on which it depends.

    Parameters
    ----------
    variable_list : list of Variable
    blockers : collection of Variable, optional
        Variables whose inputs are not searched.

    Returns
    -------
    list of Variable
        The variables in the order of a left-recursive depth-first search that begins with the last variable of
        `variable_list`. Keep this order, because programs depend on it: PyMC3 orders the elements of its points by it.
    """
    blockers = set(blockers) if blockers else ()
    seen = set()
    found = []
    stack = list(variable_list)
    while stack:
        r = stack.pop()
        if r in seen:
            continue
        seen.add(r)
        found.append(r)
        if r.owner is not None and r not in blockers:
            stack.extend(reversed(r.owner.inputs))
    return found


def inputs(variable_list: Iterable[Variable], blockers: Collection[Variable] | None = None) -> list[Variable]:
    """Return the variables without an owner on which the variables in `variable_list` depend.

    Returns
    -------
    list of Variable
        The variables in the order of `ancestors`.
    """
    return [r for r in ancestors(variable_list, blockers) if r.owner is None]


def variables_and_orphans(i: Sequence[Variable], o: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Return the variables between `i` and `o`, and the orphans among them.

    Orphans are variables without an owner that are not in `i`.

    Returns
    -------
    (list of Variable, list of Variable)
    """
    known = set(i)
    seen = set()
    found = []
    stack = list(reversed(o))
    while stack:
        r = stack.pop()
        if r in seen:
            continue
        seen.add(r)
        found.append(r)
        if r.owner is not None and r not in known:
            stack.extend(reversed(r.owner.inputs + r.owner.outputs))
    return found, [r for r in found if r.owner is None and r not in known]


def variables(i: Sequence[Variable], o: Sequence[Variable]) -> list[Variable]:
    """Return the variables of the subgraph between `i` and `o`.

    The result contains `i`, `o`, the orphans and all variables in between.

    Parameters
    ----------
    i, o : list of Variable

    Returns
    -------
    list of Variable
    """
    return variables_and_orphans(i, o)[0]


def orphans(i: Sequence[Variable], o: Sequence[Variable]) -> list[Variable]:
    """Return the orphans of a subgraph: the variables without an owner that `o` depends on and that are not in `i`.

    Returns
    -------
    list of Variable
        For example, ``orphans([x], [x + y]) == [y]``.
    """
    return variables_and_orphans(i, o)[1]


def ops(i: Sequence[Variable], o: Sequence[Variable]) -> OrderedSet[Apply]:
    """Return the Apply nodes of the subgraph between `i` and `o`.

    Returns
    -------
    OrderedSet of Apply
        The owners of all variables of the subgraph, except the owners of the variables in `i`.
    """
    known = set(i)
    return OrderedSet(r.owner for r in variables(i, o) if r.owner is not None and r not in known)


def list_of_nodes(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[Apply]:
    """Return the Apply nodes of the graph between inputs and outputs, owners of the outputs first."""
    known = {r.owner for r in inputs}
    return stack_search(
        deque(r.owner for r in outputs if r.owner is not None),
        lambda node: [r.owner for r in node.inputs if r.owner is not None and r.owner not in known],
    )


def clone(
    i: Sequence[Variable], o: Sequence[Variable], copy_inputs: bool = True, copy_orphans: bool | None = None
) -> tuple[list[Variable], list[Variable]]:
    """Copy the subgraph between `i` and `o`.

    Parameters
    ----------
    i, o : list of Variable
    copy_inputs : bool
        Whether to copy the inputs. A constant in `i` counts as an input.
    copy_orphans : bool, optional
        Whether to copy orphans. By default, the value of `copy_inputs`.

    Returns
    -------
    (list of Variable, list of Variable)
        The inputs and outputs of the copy.
    """
    if copy_orphans is None:
        copy_orphans = copy_inputs
    equiv = clone_get_equiv(i, o, copy_inputs, copy_orphans)
    return [equiv[r] for r in i], [equiv[r] for r in o]


def clone_get_equiv(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    copy_inputs: bool = True,
    copy_orphans: bool = True,
    memo: dict[Any, Any] | None = None,
) -> dict[Any, Any]:
    """Copy a graph and return a dict from each variable and node to its copy.

    Parameters
    ----------
    inputs, outputs : list of Variable
    copy_inputs : bool
        If False, the copy uses the original inputs.
    copy_orphans : bool
        If False, the copy uses the original orphans: constants, and other variables without an owner that are not
        inputs.
    memo : dict, optional
        A partly filled result. It is completed in place and returned.

    Returns
    -------
    dict
        Variable or node of the original -> its copy.
    """
    if memo is None:
        memo = {}
    for r in inputs:
        if copy_inputs:
            if r not in memo:
                memo[r] = _named_clone(r)
        else:
            memo.setdefault(r, r)
    for node in io_toposort(inputs, outputs):
        if node in memo:
            continue
        for r in node.inputs:
            if r not in memo:
                memo[r] = r.clone() if copy_orphans else r
        new_node = node.clone_with_new_inputs([memo[r] for r in node.inputs])
        memo[node] = new_node
        for old, new in zip(node.outputs, new_node.outputs):
            memo.setdefault(old, new)
    for r in outputs:
        if r not in memo:
            memo[r] = r.clone() if copy_orphans else r
    return memo


def _named_clone(r: Variable) -> Variable:
    cp = r.clone()
    cp.owner = None
    cp.index = None
    return cp


def general_toposort(
    outputs: Iterable[N],
    deps: Callable[[N], Iterable[N] | None] | None,
    debug_print: bool = False,
    compute_deps_cache: Callable[[N], Iterable[N] | None] | None = None,
    deps_cache: dict[N, Any] | None = None,
    clients: dict[N, list[N]] | None = None,
) -> list[N]:
    """Sort `outputs` and all objects on which they depend, dependencies first.

    Parameters
    ----------
    outputs : list
        Any hashable objects.
    deps : callable
        ``deps(node)`` returns the list of nodes on which `node` depends. It is called once for each node. It may be
        None if `compute_deps_cache` is given.
    debug_print : bool
        Whether to print the unsorted part when there is a cycle.
    compute_deps_cache : callable, optional
        A function like `deps` that also stores its results in `deps_cache`, which is then required.
    deps_cache : dict, optional
    clients : dict, optional
        A dict to fill: node -> list of the nodes that depend on it.

    Returns
    -------
    list
        The sorted objects. Their order follows from the order in which `deps` returns nodes.

    Raises
    ------
    ValueError
        If the graph contains cycles.
    """
    if compute_deps_cache is None:
        deps_cache = {}

        def compute_deps_cache(node: N) -> Iterable[N] | None:
            if node not in deps_cache:
                found = deps(node)  # type: ignore[misc]  # deps is not None if compute_deps_cache is None
                deps_cache[node] = list(found) if found else found
            return deps_cache[node]

    elif deps_cache is None:
        raise ValueError("deps_cache needs compute_deps_cache: give both")
    reachable, inverse = stack_search(deque(outputs), compute_deps_cache, "dfs", True)
    if clients is not None:
        clients.update(inverse)
    waiting = {node: len(deps_cache.get(node) or ()) for node in reachable}
    order = [node for node in reachable if not waiting[node]]
    done = 0
    while done < len(order):
        for client in inverse.get(order[done], ()):
            waiting[client] -= 1
            if not waiting[client]:
                order.append(client)
        done += 1
    if len(order) != len(reachable):
        if debug_print:
            print([node for node in reachable if waiting[node]])
        raise ValueError("graph contains cycles")
    return order


def io_toposort(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    orderings: Mapping[Apply, Sequence[Apply]] | None = None,
    clients: dict[Any, list[Any]] | None = None,
) -> list[Apply]:
    """Sort the nodes between inputs and outputs.

    Parameters
    ----------
    inputs, outputs : list or tuple of Variable
    orderings : dict, optional
        Apply -> list of nodes that have to come before it. The order of the lists has to be deterministic, so sets are
        not allowed.
    clients : dict, optional
        A dict to fill: variable or node of the sorted subgraph -> list of its users.

    Returns
    -------
    list of Apply
    """
    iset = set(inputs)
    if not orderings and clients is None:
        return depth_first_order(iset, outputs)
    return constrained_order(iset, outputs, orderings or {}, clients)


def default_leaf_formatter(leaf: Variable) -> str:
    """Return the text of a variable."""
    return str(leaf)


def default_node_formatter(op: Apply, argstrings: list[str]) -> str:
    """Return the text ``op(arguments)`` for an Apply node. The parameter `op` is the node."""
    return "%s(%s)" % (op.op, ", ".join(argstrings))


def op_as_string(
    i: Sequence[Variable],
    op: Apply,
    leaf_formatter: Callable[[Variable], str] = default_leaf_formatter,
    node_formatter: Callable[[Apply, list[str]], str] = default_node_formatter,
) -> str:
    """Return the text of a node. Its inputs are expanded down to the variables in `i`.

    Parameters
    ----------
    i : list of Variable
    op : Apply
    leaf_formatter, node_formatter : callable
        See `as_string`.
    """
    strs = as_string(i, op.inputs, leaf_formatter, node_formatter)
    return node_formatter(op, strs)


def as_string(
    i: Sequence[Variable],
    o: Sequence[Variable],
    leaf_formatter: Callable[[Variable], str] = default_leaf_formatter,
    node_formatter: Callable[[Apply, list[str]], str] = default_node_formatter,
) -> list[str]:
    """Return the text of the subgraph between `i` and `o`.

    Parameters
    ----------
    i, o : list of Variable
    leaf_formatter : callable
        A function that takes a variable and returns its text.
    node_formatter : callable
        A function that takes a node and the list of its arguments' texts, and returns the node's text.

    Returns
    -------
    list of str
        One text for each variable in `o`. If a node is used several times, its first appearance is marked ``*n ->
        text``, and later appearances are ``*n``. An output of a node with several outputs is marked ``::index``.
    """
    known = set(i)

    def expanded(r: Variable) -> bool:
        return r.owner is not None and r not in known

    # Nodes that are used more than once, numbered in the order of their first appearance in the text.
    seen: dict[Apply, int] = {}
    stack: list[Any] = [r.owner for r in reversed(o) if expanded(r)]
    while stack:
        node = stack.pop()
        seen[node] = seen.get(node, 0) + 1
        if seen[node] == 1:
            stack.extend(r.owner for r in reversed(node.inputs) if expanded(r))
    multi = {node: n + 1 for n, node in enumerate(node for node, uses in seen.items() if uses > 1)}
    write = _text_pieces if node_formatter is default_node_formatter else _text_by_formatter
    done: set[Apply] = set()
    return [write(r, expanded, multi, done, leaf_formatter, node_formatter) for r in o]


def _mark(r: Variable, multi: dict[Apply, int]) -> str:
    node: Any = r.owner
    index: Any = r.index
    return "*%i%s" % (multi[node], "" if len(node.outputs) == 1 else "::%i" % index)


def _text_pieces(
    out: Variable,
    expanded: Callable[[Variable], bool],
    multi: dict[Apply, int],
    done: set[Apply],
    leaf_formatter: Callable[[Variable], str],
    node_formatter: Callable[[Apply, list[str]], str],
) -> str:
    """Return the text of a variable in the default format. The time is linear in the size of the graph."""
    pieces = []
    stack: list[Any] = [out]
    while stack:
        r = stack.pop()
        if isinstance(r, str):
            pieces.append(r)
        elif not expanded(r):
            pieces.append(leaf_formatter(r))
        elif r.owner in done:
            pieces.append(_mark(r, multi))
        else:
            node = r.owner
            done.add(node)
            if node in multi:
                pieces.append("*%i -> " % multi[node])
            pieces.append("%s(" % node.op)
            stack.append(")")
            for k in range(len(node.inputs) - 1, -1, -1):
                stack.append(node.inputs[k])
                if k:
                    stack.append(", ")
    return "".join(pieces)


def _text_by_formatter(
    out: Variable,
    expanded: Callable[[Variable], bool],
    multi: dict[Apply, int],
    done: set[Apply],
    leaf_formatter: Callable[[Variable], str],
    node_formatter: Callable[[Apply, list[str]], str],
) -> str:
    """Return the text of a variable. The caller's `node_formatter` joins the texts of the arguments."""
    result: list[str] = []
    # Frames: node, iterator over its inputs, texts of its inputs so far.
    stack: list[tuple[Apply | None, Iterator[Any], list[str]]] = [(None, iter((out,)), result)]
    while stack:
        node, pending, texts = stack[-1]
        for r in pending:
            if not expanded(r):
                texts.append(leaf_formatter(r))
            elif r.owner in done:
                texts.append(_mark(r, multi))
            else:
                done.add(r.owner)
                stack.append((r.owner, iter(r.owner.inputs), []))
                break
        else:
            stack.pop()
            if node is not None:
                text = node_formatter(node, texts)
                stack[-1][2].append("*%i -> %s" % (multi[node], text) if node in multi else text)
    return result[0]


def is_in_ancestors(l_node: Apply, f_node: Apply) -> bool:
    """Return True if `f_node` is `l_node` or one of its ancestors. The inputs of lazy nodes count, too."""
    seen = set()
    stack = [l_node]
    while stack:
        node = stack.pop()
        if node is f_node:
            return True
        if node not in seen:
            seen.add(node)
            stack.extend(r.owner for r in node.inputs if r.owner is not None)
    return False


def view_roots(r: Variable) -> list[Variable]:
    """Return the variables of which `r` is a view, through any number of views. Return ``[r]`` if it is not a view."""
    roots = []
    stack = [r]
    while stack:
        v = stack.pop()
        viewed = ()
        if v.owner is not None:
            viewed = (getattr(v.owner.op, "view_map", None) or {}).get(v.index, ())
        if viewed:
            stack.extend(v.owner.inputs[i] for i in reversed(viewed))
        else:
            roots.append(v)
    return roots


def connection_masks(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[int]:
    """Return, for each output of a subgraph, a mask of the inputs on which the output depends differentiably.

    Parameters
    ----------
    inputs, outputs : list of Variable

    Returns
    -------
    list of int
        One mask for each output. Bit k is set if the output depends on input k. The masks are computed from the
        `connection_pattern` of the nodes in between. An Op without this method connects all inputs to all outputs.
    """
    reached = {r: 0 for r in inputs}
    for k, r in enumerate(inputs):
        reached[r] |= 1 << k
    for node in io_toposort(inputs, outputs):
        pattern = node.op.connection_pattern(node) if hasattr(node.op, "connection_pattern") else None
        bits = [reached.get(r, 0) for r in node.inputs]
        for j, out in enumerate(node.outputs):
            mask = 0
            for k, b in enumerate(bits):
                if b and (pattern is None or pattern[k][j]):
                    mask |= b
            reached[out] = reached.get(out, 0) | mask
    return [reached.get(out, 0) for out in outputs]


def io_connection_pattern(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> list[list[bool]]:
    """Return the connection pattern of a subgraph: which outputs depend differentiably on which inputs.

    Returns
    -------
    list of list of bool
        ``pattern[input][output]``, computed from the `connection_pattern` of the nodes in between. An Op without this
        method connects all inputs to all outputs.
    """
    masks = connection_masks(inputs, outputs)
    return [[bool(mask >> k & 1) for mask in masks] for k in range(len(inputs))]


def is_same_graph(
    var1: Variable,
    var2: Variable,
    givens: Mapping[Variable, Variable] | Iterable[tuple[Variable, Variable]] | None = None,
    debug: bool = False,
) -> bool:
    """Return True if two variables are the results of the same computation.

    The structure of the graphs has to be equal: ``x * (y * z)`` is not ``(x * y) * z``.

    Parameters
    ----------
    var1, var2 : Variable
    givens : dict or list of pairs, optional
        Substitutions to make in both graphs before the comparison.
    debug : bool
        If True, compare in both directions, and raise AssertionError if the results differ.

    Returns
    -------
    bool

    Examples
    --------
    The result for ``x + 1`` and ``x + 1`` is True. For ``x + 1`` and ``y + 1``, the result is False, but with
    ``givens={x: y}`` it is True.
    """
    givens = dict(givens) if givens else {}
    numbers: dict[Any, int] = {}
    first = _numbered(var1, givens, numbers)
    same = first == _numbered(var2, givens, numbers)
    if debug:
        numbers = {}
        if (_numbered(var2, givens, numbers) == _numbered(var1, givens, numbers)) != same:
            raise AssertionError(
                "the comparison of %s and %s depends on their order: an Op's __eq__ is not symmetric" % (var1, var2)
            )
    return same


def equal_computations(
    xs: Sequence[Variable],
    ys: Sequence[Variable],
    in_xs: Sequence[Variable] | None = None,
    in_ys: Sequence[Variable] | None = None,
) -> bool:
    """Return True if the variables in two lists are, pair by pair, the results of the same computations.

    Parameters
    ----------
    xs, ys : list of Variable
        Variables that are compared pairwise. Lists of different lengths are not equal.
    in_xs, in_ys : list of Variable, optional
        Corresponding inputs. Before the comparison, each variable of `in_xs` in the graphs of `xs` is replaced by the
        corresponding variable of `in_ys`.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        If `in_xs` and `in_ys` differ in length.
    """
    in_xs, in_ys = in_xs or [], in_ys or []
    if len(in_xs) != len(in_ys):
        raise ValueError(
            "in_xs and in_ys must have the same length, but they have %d and %d elements" % (len(in_xs), len(in_ys))
        )
    if len(xs) != len(ys) or any(x.type != y.type for x, y in zip(list(xs) + list(in_xs), list(ys) + list(in_ys))):
        return False
    givens = dict(zip(in_xs, in_ys))
    numbers: dict[Any, int] = {}
    return all(_numbered(x, givens, numbers) == _numbered(y, {}, numbers) for x, y in zip(xs, ys))


def _numbered(var: Variable, givens: Mapping[Variable, Variable], numbers: dict[Any, int]) -> int:
    """Return a number that identifies the computation of a variable: it is equal for equal computations.

    The numbers are stored in `numbers`.
    """

    def number(key: Any, owner: Any) -> int:
        try:
            return numbers.setdefault(key, len(numbers))
        except TypeError:
            # The key contains an unhashable value, such as the data of a plain constant. Such a value equals only
            # itself, so the variable gets a new number.
            return numbers.setdefault(owner, len(numbers))

    value: dict[Variable, int] = {}
    key: Any
    stack = [var]
    while stack:
        v = stack.pop()
        if v in value:
            continue
        if v in givens:
            # All substitutions are simultaneous: no substitution is made inside a replacement.
            value[v] = _numbered(givens[v], {}, numbers)
        elif v.owner is None:
            key = ("constant", v.merge_signature()) if hasattr(v, "merge_signature") else v
            value[v] = number(key, v)
        else:
            missing = [r for r in v.owner.inputs if r not in value]
            if missing:
                stack.append(v)
                stack.extend(reversed(missing))
            else:
                key = number((tuple(value[r] for r in v.owner.inputs), v.owner.op), v.owner)
                value[v] = number((key, v.index), v)
    return value[var]
