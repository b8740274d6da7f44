"""Rules written as data. They replace an Op by another Op, remove an Op, or replace a pattern by another pattern."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from theano_ng.gof import graph
from theano_ng.gof.rewriting.local import LocalOptimizer
from theano_ng.gof.rewriting.stacktrace import copy_stack_trace

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply, Variable
    from theano_ng.gof.op.base import Op

    NodeMatcher: TypeAlias = Callable[[Apply, dict[Any, Any]], bool | None]
    Matcher: TypeAlias = Callable[[Variable, dict[Any, Any]], bool | None]


class _RuleOfOneOp(LocalOptimizer):
    """A rule for the nodes of the Op that `op_key()` returns. The results of the rule contain no node of this Op."""

    reentrant = False
    op_key: Callable[[], Any]

    def tracks(self) -> list[Any]:
        return [self.op_key()]


class OpSub(_RuleOfOneOp):
    """A rule that replaces each node of `op1` by `op2` on the same inputs: ``op1(*inputs) -> op2(*inputs)``.

    Parameters
    ----------
    op1, op2 : Op
        The ops. They must have the same number of outputs, of the same types.
    transfer_tags : bool
        Whether to copy the tags of the node and of its outputs. If False, only the stack traces of the outputs are
        copied.
    """

    retains_inputs = True

    def __init__(self, op1: Op, op2: Op, transfer_tags: bool = True) -> None:
        self.op1, self.op2, self.transfer_tags = op1, op2, transfer_tags

    def op_key(self) -> Any:
        return self.op1

    def transform(self, node: Apply) -> list[Variable] | Literal[False]:
        if node.op != self.op1:
            return False
        repl = self.op2.make_node(*node.inputs)
        if self.transfer_tags:
            repl.tag = copy.copy(node.tag)
            for old, new in zip(node.outputs, repl.outputs):
                new.tag = copy.copy(old.tag)
        else:
            copy_stack_trace(node.outputs, repl.outputs)
        return repl.outputs

    def __str__(self) -> str:
        return "%s -> %s" % (self.op1, self.op2)


class OpRemove(_RuleOfOneOp):
    """A rule that replaces the outputs of each node of `op` by the inputs, in order: ``op(x) -> x``.

    Parameters
    ----------
    op : Op
        An op with as many outputs as inputs.
    """

    def __init__(self, op: Op) -> None:
        self.op = op

    def op_key(self) -> Any:
        return self.op

    def transform(self, node: Apply) -> list[Variable] | Literal[False]:
        if node.op != self.op:
            return False
        return list(node.inputs)

    def __str__(self) -> str:
        return "%s(x) -> x" % (self.op,)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        print("%s%s(%s) id=%i" % (" " * level, self.__class__.__name__, self.op, id(self)), file=stream)


class OpPattern:
    """Op classes with a condition. In a pattern, an OpPattern matches all Ops of the classes that satisfy the
    condition.

    Parameters
    ----------
    *op_classes : Op classes
    condition : callable
        ``condition(op)`` returns True if an Op of the classes matches.
    """

    def __init__(self, *op_classes: type, condition: Callable[[Any], Any]) -> None:
        self.op_classes, self.condition = op_classes, condition

    def accepts(self, op: Any) -> bool:
        """Return True if an Op matches."""
        return isinstance(op, self.op_classes) and self.condition(op)


def tracked(op: Any) -> list[Any]:
    """Return the Ops and Op classes that a rule must track if `op` is the first element of its pattern."""
    return list(op.op_classes) if isinstance(op, OpPattern) else [op]


class Rest(str):
    """A name that matches the remaining inputs of a node, as a list in their order.

    In a pattern, a `Rest` is the last element of a tuple. If the Op of the tuple is commutative, the arguments before
    the `Rest` match inputs at any positions: each argument takes the first remaining input that it matches. Otherwise,
    the arguments match the first inputs, in order.
    """

    __hash__ = str.__hash__


def is_commutative(op: Any) -> bool:
    """Return True for elementwise Ops that are commutative and associative, such as additions and multiplications."""
    scalar_op = getattr(op, "scalar_op", None)
    return bool(getattr(scalar_op, "commutative", False) and getattr(scalar_op, "associative", False))


class PatternSub(LocalOptimizer):
    """A rule that replaces a pattern by another pattern.

    ::

        PatternSub((sub, (add, 'x', 'y'), 'y'), 'x')
        PatternSub((power, 'x', Constant(double, 2.0)), (sqr, 'x'))
        PatternSub((boggle, {'pattern': 'x', 'constraint': lambda expr: expr.type == scrabble}), (scrabble, 'x'))

    A pattern is one of

    - a tuple ``(op, pattern, ...)``: the result of an Op on arguments that match the patterns. `op` is an Op, a class
      of Ops or an `OpPattern`;
    - a string: any variable; the same string elsewhere must match the same variable (or an equal constant);
    - a `Rest`: all remaining arguments;
    - an int or float, or a Constant: an equal constant;
    - a dict ``{'pattern': pattern, 'constraint': fn}``: a variable that matches `pattern` and for which
      ``fn(variable)`` is true.

    Parameters
    ----------
    in_pattern : tuple
        The pattern to look for.
    out_pattern : tuple, str, int, float, Constant
        The replacement. It may contain a function in place of an Op.
    allow_multiple_clients : bool
        If False, the result of each inner node of a match must have only one client. With a second client, the inner
        node would remain in the graph after the replacement.
    skip_identities_fn : callable, optional
        ``fn(variable)`` returns a variable that equals the argument (for example, the argument of a cast) or None. The
        function is used if a pattern does not match directly.
    name : str, optional
    pdb : bool
        Whether to start the debugger after a match.
    tracks : sequence, optional
        Ops of inner nodes. If they are given, the search starts from nodes of these Ops instead of the outermost node
        of the pattern, and `get_nodes` finds the outermost node.
    get_nodes : callable, optional
        ``get_nodes(node)`` returns the candidates for the outermost node. `node` is a node of an Op in `tracks`.
    values_eq_approx : callable, optional
        The value of ``tag.values_eq_approx`` of the replacement. DebugMode uses it to compare the replacement with the
        replaced variable.
    """

    def __init__(
        self,
        in_pattern: Any,
        out_pattern: Any,
        allow_multiple_clients: bool = False,
        skip_identities_fn: Callable[[Variable], Any] | None = None,
        name: str | None = None,
        pdb: bool = False,
        tracks: Sequence[Any] = (),
        get_nodes: Callable[[Apply], Iterable[Any]] | None = None,
        values_eq_approx: Callable[..., bool] | None = None,
    ) -> None:
        self.in_pattern = in_pattern
        self.out_pattern = out_pattern
        self.values_eq_approx = values_eq_approx
        outermost = in_pattern
        while isinstance(outermost, dict):
            outermost = outermost["pattern"]
        if not isinstance(outermost, (list, tuple)):
            raise TypeError("The pattern to search for must start with a specific Op instance, got %r" % (in_pattern,))
        self.op = outermost[0]
        self.__doc__ = "%s\n\nThis instance does: %s\n" % (self.__class__.__doc__, self)
        if name:
            self.__name__ = name
        if tracks != () and get_nodes is None:
            raise TypeError("PatternSub with tracks needs get_nodes, a function from a node to the nodes to match")
        self._tracks, self.get_nodes = tracks, get_nodes
        self.allow_multiple_clients, self.skip_identities_fn, self.pdb = allow_multiple_clients, skip_identities_fn, pdb
        self._match: NodeMatcher | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Do not pickle the matcher, which consists of closures. It is built again.
        return {**self.__dict__, "_match": None}

    def tracks(self) -> list[Any]:
        return list(self._tracks) if self._tracks != () else tracked(self.op)

    def op_key(self) -> Any:
        return tracked(self.op)[0]

    def transform(self, node: Apply, get_nodes: bool = True) -> Any:
        if get_nodes and self.get_nodes is not None:
            for real_node in self.get_nodes(node):
                if real_node == "output" or real_node is None:
                    continue
                ret = self.transform(real_node, get_nodes=False)
                if ret is not False and ret is not None:
                    if len(real_node.outputs) != len(ret):
                        raise ValueError("PatternSub %s: wrong number of replacements for %s" % (self, real_node))
                    return dict(zip(real_node.outputs, ret))
        if len(node.outputs) != 1:
            return False
        if self._match is None:
            self._match = node_matcher(self.in_pattern, self.allow_multiple_clients, self.skip_identities_fn)
        bindings: dict[Any, Any] = {}
        if not self._match(node, bindings):
            return False
        if self.pdb:
            import pdb

            pdb.set_trace()
        ret = build(self.out_pattern, bindings)
        old = node.outputs[0]
        if getattr(ret, "type", None) != old.type:
            # The result may differ from `old` in dtype or broadcast pattern, which a pattern does not specify. The rule
            # applies only if the result can be converted to the type of `old`.
            try:
                ret = old.type.filter_variable(ret)
            except TypeError:
                return False
        if self.values_eq_approx:
            ret.tag.values_eq_approx = self.values_eq_approx
        if ret.owner is not None:
            copy_stack_trace(old, [out for out in ret.owner.outputs])
        return [ret]

    def __str__(self) -> str:
        if getattr(self, "__name__", None):
            return self.__name__

        def show(pattern: Any) -> str:
            if isinstance(pattern, (list, tuple)):
                return "%s(%s)" % (pattern[0], ", ".join(show(p) for p in pattern[1:]))
            if isinstance(pattern, dict):
                return "%s subject to %s" % (show(pattern["pattern"]), pattern.get("constraint", "no conditions"))
            return str(pattern)

        return "%s -> %s" % (show(self.in_pattern), show(self.out_pattern))

    def __repr__(self) -> str:
        return str(self)

    def print_summary(self, stream: TextIO = sys.stdout, level: int = 0, depth: int = -1) -> None:
        name = getattr(self, "__name__", getattr(self, "name", None))
        print(
            "%s%s %s(%s, %s) id=%i"
            % (" " * level, self.__class__.__name__, name, self.in_pattern, self.out_pattern, id(self)),
            file=stream,
        )


# Patterns are compiled into closures ``match(variable, bindings) -> bool | None``. A closure adds two kinds of entries
# to the dict `bindings`: name -> the variable that it matches, and variable -> its value, if it was compared with a
# number. The functions below recurse over patterns. Patterns are written by hand, so the recursion is shallow.


def node_matcher(
    pattern: Any, allow_multiple_clients: bool, skip_identities_fn: Callable[[Variable], Any] | None = None
) -> NodeMatcher:
    """Compile a pattern of `PatternSub` into a function that takes the outermost node of a possible match.

    Returns
    -------
    callable
        ``match(node, bindings)``. After a result of False, the content of `bindings` is not valid.
    """
    constraints = []
    while isinstance(pattern, dict):
        if pattern.get("constraint") is not None:
            constraints.append(pattern["constraint"])
        pattern = pattern["pattern"]
    accepts = acceptance(pattern[0])
    arguments = arguments_matcher(pattern, allow_multiple_clients, skip_identities_fn)

    def match(node: Apply, bindings: dict[Any, Any]) -> bool | None:
        for constraint in constraints:
            if not constraint(node.outputs[0]):
                return False
        return accepts(node.op) and arguments(node, bindings)

    return match


def acceptance(op: Any) -> Callable[[Any], bool]:
    """Return a function that returns True for an Op that matches `op`, the first element of a tuple."""
    if isinstance(op, OpPattern):
        return op.accepts
    return (lambda other: isinstance(other, op)) if isinstance(op, type) else (lambda other: other == op)


def arguments_matcher(
    pattern: Any, allow_multiple_clients: bool, skip_identities_fn: Callable[[Variable], Any] | None = None
) -> NodeMatcher:
    """Compile a tuple as `node_matcher` does, for nodes that are known to have the Op of the tuple."""
    rest = pattern[-1] if isinstance(pattern[-1], Rest) else None
    patterns = pattern[1:] if rest is None else pattern[1:-1]
    arguments = [_matcher(p, allow_multiple_clients, allow_multiple_clients, skip_identities_fn) for p in patterns]
    if rest is not None and is_commutative(pattern[0]):
        return _any_order([(m, not isinstance(p, (int, float))) for m, p in zip(arguments, patterns)], rest)
    if rest is not None:
        return _first_inputs(arguments, rest)
    # Most Ops have one or two operands. For these, avoid a loop: its overhead would be larger than its body.
    if len(arguments) == 1:
        (only,) = arguments

        def match(node: Apply, bindings: dict[Any, Any]) -> bool | None:
            inputs = node.inputs
            return len(inputs) == 1 and only(inputs[0], bindings)
    elif len(arguments) == 2:
        first, second = sorted((0, 1), key=lambda i: _cost(patterns[i]))
        match_first, match_second = arguments[first], arguments[second]

        def match(node: Apply, bindings: dict[Any, Any]) -> bool | None:
            inputs = node.inputs
            return len(inputs) == 2 and match_first(inputs[first], bindings) and match_second(inputs[second], bindings)
    else:

        def match(node: Apply, bindings: dict[Any, Any]) -> bool | None:
            if len(node.inputs) != len(arguments):
                return False
            for matches, variable in zip(arguments, node.inputs):  # noqa: SIM110, all() of a generator takes longer
                if not matches(variable, bindings):
                    return False
            return True

    return match


def _cost(pattern: Any) -> int:
    """Return the rank by which arguments are tested, the cheapest first: 0 for tuples, 1 for names, 2 for numbers."""
    while isinstance(pattern, dict):
        pattern = pattern["pattern"]
    return 0 if isinstance(pattern, (list, tuple)) else 1 if isinstance(pattern, str) else 2


def _first_inputs(arguments: Sequence[Matcher], rest: str) -> NodeMatcher:
    def match(node: Apply, bindings: dict[Any, Any]) -> bool | None:
        inputs = node.inputs
        if len(inputs) < len(arguments):
            return False
        for matches, variable in zip(arguments, inputs):
            if not matches(variable, bindings):
                return False
        bindings[rest] = inputs[len(arguments) :]
        return True

    return match


def _any_order(arguments: Sequence[tuple[Matcher, bool]], rest: str) -> NodeMatcher:
    def match(node: Apply, bindings: dict[Any, Any]) -> bool | None:
        left = list(node.inputs)
        for matches, binds in arguments:
            for i, variable in enumerate(left):
                tried = dict(bindings) if binds else bindings
                if matches(variable, tried):
                    if binds:
                        bindings.update(tried)
                    del left[i]
                    break
            else:
                return False
        bindings[rest] = left
        return True

    return match


def _matcher(
    pattern: Any, allow: bool, allow_inside: bool, skip: Callable[[Variable], Any] | None, retries: bool = True
) -> Matcher:
    """Return ``match(variable, bindings)`` for any pattern.

    The function ``match`` returns True or False. It returns None instead of False if the match may be tried again with
    the result of ``skip(variable)``. If `allow` is true, the variable may have several clients. If `allow_inside` is
    true, the variables inside the pattern may have several clients.
    """
    if isinstance(pattern, (list, tuple)):
        direct = _tuple_matcher(pattern, allow, allow_inside, skip)
    elif isinstance(pattern, dict):
        direct = _constraint_matcher(pattern, allow, allow_inside, skip, retries)
    elif isinstance(pattern, str):

        def direct(variable: Variable, bindings: dict[Any, Any]) -> bool | None:
            bound = bindings.setdefault(pattern, variable)
            return bound is variable or isinstance(bound, graph.Constant) and _equal_constants(bound, variable) or None
    elif isinstance(pattern, (int, float)):

        def direct(variable: Variable, bindings: dict[Any, Any]) -> bool | None:
            # A rule may compare one operand with several numbers, so store the value of the operand in `bindings`.
            value = bindings.get(variable, bindings)
            if value is bindings:
                value = bindings[variable] = _read_constant(variable)
            return value is not None and value == pattern or None
    elif isinstance(pattern, graph.Constant):

        def direct(variable: Variable, bindings: dict[Any, Any]) -> bool | None:
            return _equal_constants(pattern, variable) or None
    else:
        raise TypeError(
            "PatternSub: a pattern is a tuple, a string, a number, a Constant or a dict, got %r" % (pattern,)
        )
    if skip is None or not retries:
        return direct
    last = _matcher(pattern, allow, allow_inside, skip, retries=False)

    def match(variable: Variable, bindings: dict[Any, Any]) -> bool | None:
        before = dict(bindings)
        result = direct(variable, bindings)
        if result is None:
            other = skip(variable)
            if other:
                bindings.clear()
                bindings.update(before)
                result = last(other, bindings)
        return result

    return match


def _tuple_matcher(pattern: Any, allow: bool, allow_inside: bool, skip: Callable[[Variable], Any] | None) -> Matcher:
    op, length = pattern[0], len(pattern) - 1
    # An op that is neither a class nor an OpPattern is compared with ==, which saves a call.
    accepts = acceptance(op) if isinstance(op, (type, OpPattern)) else None
    any_length = isinstance(pattern[-1], Rest)
    arguments = arguments_matcher(pattern, allow_inside, skip)

    def match(variable: Variable, bindings: dict[Any, Any]) -> bool | None:
        node = variable.owner
        if node is None or not (node.op == op if accepts is None else accepts(node.op)):
            return None
        if len(node.inputs) != length and not any_length:
            return None
        if not allow and len(getattr(variable, "clients", ())) > 1:
            return False
        return bool(arguments(node, bindings))

    return match


def _constraint_matcher(
    pattern: Any, allow: bool, allow_inside: bool, skip: Callable[[Variable], Any] | None, retries: bool
) -> Matcher:
    inner = _matcher(pattern["pattern"], pattern.get("allow_multiple_clients", allow), allow_inside, skip, retries)
    constraint = pattern.get("constraint")
    if constraint is not None and isinstance(pattern["pattern"], str):
        # Test the constraint first, because it fails more often: an unbound name matches any variable.
        return lambda variable, bindings: bool(constraint(variable)) and inner(variable, bindings)

    def match(variable: Variable, bindings: dict[Any, Any]) -> bool | None:
        if not inner(variable, bindings):
            return None
        return constraint is None or bool(constraint(variable))

    return match


def build(pattern: Any, bindings: dict[Any, Any]) -> Any:
    """Return the variable that the output pattern of a `PatternSub` describes. Return a number unchanged."""
    if isinstance(pattern, (list, tuple)):
        if isinstance(pattern[-1], Rest):
            return pattern[0](*[build(p, bindings) for p in pattern[1:-1]], *bindings[pattern[-1]])
        return pattern[0](*[build(p, bindings) for p in pattern[1:]])
    if isinstance(pattern, str):
        return bindings[pattern]
    if isinstance(pattern, dict):
        return build(pattern["pattern"], bindings)
    if isinstance(pattern, (int, float, graph.Variable)):
        return pattern
    raise TypeError("PatternSub: a replacement is a tuple, a string, a number or a Variable, got %r" % (pattern,))


def _equal_constants(a: Any, b: Any) -> bool:
    return isinstance(a, graph.Constant) and isinstance(b, graph.Constant) and a.equals(b)


def _plain_constant(expr: Variable) -> Any:
    """Return the value of a constant that is a single number. Return None for any other variable."""
    if not isinstance(expr, graph.Constant):
        return None
    data = expr.data
    try:
        return data.item() if getattr(data, "size", 1) == 1 and hasattr(data, "item") else float(data)
    except (TypeError, ValueError):
        return None


_read_constant: Callable[[Variable], Any] = _plain_constant


def read_constants_by(function: Callable[[Variable], Any]) -> None:
    """Set the function that reads the value of a constant when a number in a pattern is compared with it.

    ``function(variable)`` returns a number or None. A higher layer sets a function that also reads broadcast constants.
    """
    global _read_constant
    _read_constant = function
