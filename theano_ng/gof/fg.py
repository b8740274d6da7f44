"""FunctionGraph: a graph during compilation. It tracks clients, notifies features and replaces variables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.gof import graph, ports, toolbox, utils
from theano_ng.gof.clients import Clients
from theano_ng.gof.graph import Constant, Drawable
from theano_ng.gof.null_type import NullType
from theano_ng.gof.pickling import Covering
from theano_ng.gof.toolbox import AlreadyThere, InconsistencyError
from theano_ng.gof.utils import object2
from theano_ng.misc.ordered_set import OrderedSet

if TYPE_CHECKING:
    from theano_ng.gof.aliases import Client
    from theano_ng.gof.graph import Apply, Variable
    from theano_ng.gof.op.base import Op


class CachedConstantError(Exception):
    """Error: a FunctionGraph would contain a cached constant, which other graphs share. Clone the graph first."""


class MissingInputError(Exception):
    """Error: a required variable is neither computed in the graph nor one of its inputs.

    Parameters
    ----------
    *args
        The message.
    variable : Variable, optional
        The missing variable. Its creation stack trace is appended to the message.
    """

    def __init__(self, *args: object, **kwargs: Any) -> None:
        variable = kwargs.pop("variable", None)
        if kwargs:
            raise TypeError("MissingInputError got unexpected arguments %s" % sorted(kwargs))
        if variable is not None:
            trace = utils.get_variable_trace_string(variable)
            if trace:
                args = args + (trace,)
        # Join all parts into one string: a traceback then shows the line breaks.
        super().__init__("\n".join(str(arg) for arg in args))
        self.variable = variable


class FunctionGraph(Drawable, object2):
    """A subgraph between given inputs and outputs, with methods to change it.

    Parameters
    ----------
    inputs : list of Variable
        All variables without an owner on which the outputs depend, except constants.
    outputs : list of Variable
    features : list of Feature, optional
        Features to attach after the graph is populated.
    clone : bool
        If True, work on a copy of the graph. The caller's variables are then not part of the FunctionGraph.
    update_mapping : dict, optional
        Index of an output -> index of the input that this output updates.

    Attributes
    ----------
    inputs, outputs : list of Variable
    apply_nodes, variables : OrderedSet
        All nodes and variables of the graph. Each variable has `clients`.
    execute_callbacks_time : float
        The number of seconds spent in features.
    execute_callbacks_times : dict
        The number of seconds spent in each feature.
    answers : dict
        A cache of facts about the graph, which rules share. Each change of the graph clears it.

    Raises
    ------
    MissingInputError
        If a required variable is not among the inputs.
    CachedConstantError
        If `clone` is False and the graph contains a cached constant.
    """

    inputs: list[Variable]
    outputs: list[Variable]
    apply_nodes: OrderedSet[Apply]
    variables: OrderedSet[Variable]
    execute_callbacks_time: float
    execute_callbacks_times: dict[Any, float]
    answers: dict[Any, Any]
    profile: Any
    update_mapping: dict[int, int] | None
    _features: list[Any]
    _callbacks: dict[str, list[tuple[Any, Callable[..., Any]]]]
    _sorted: list[Apply] | None
    _input_set: set[Variable]
    # Methods and objects that features add.
    checkpoint: Callable[[], int]
    revert: Callable[[int], None]
    validate: Callable[[], None]
    consistent: Callable[[], bool]
    replace_validate: Callable[..., None]
    replace_all_validate: Callable[..., int]
    replace_all_validate_remove: Callable[..., int]
    get_nodes: Callable[[Op], list[Apply]]
    change_tracker: Any
    merge_feature: Any

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        features: Iterable[Any] | None = None,
        clone: bool = True,
        update_mapping: dict[int, int] | None = None,
    ) -> None:
        if clone:
            inputs, outputs = graph.clone(inputs, outputs)
        self.execute_callbacks_time = 0
        self.execute_callbacks_times = {}
        self._features = []
        self._callbacks = {}
        self._sorted = None
        self.answers = {}
        self.apply_nodes = OrderedSet()
        self.variables = OrderedSet()
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self._input_set = set(self.inputs)
        self.profile = None
        self.update_mapping = update_mapping
        for r in self.inputs:
            if r.owner is not None:
                raise ValueError(
                    "One of the provided inputs is the output of an already existing node: %s. If that is okay, either discard that"
                    " input's owner or use graph.clone." % r
                )
            self.__setup_r__(r)
            self.variables.add(r)
        for r in self.outputs:
            self.__import_r__(r, reason="init")
        for i, r in enumerate(self.outputs):
            r.clients.append(("output", i))
        # Attach the features now, because their on_attach expects a complete graph.
        for feature in features or ():
            self.attach_feature(feature)
        self.attach_feature(toolbox.ReplaceValidate())

    # ------------------------------------------------------------ ownership

    def add_input(self, input: Variable) -> None:
        """Add an input to the graph."""
        if input not in self._input_set:
            self.inputs.append(input)
            self._input_set.add(input)
            self.__setup_r__(input)
            self.variables.add(input)

    def __setup_r__(self, r: Variable) -> None:
        if getattr(r, "cached", False):
            raise CachedConstantError(
                "You manually constructed a FunctionGraph, but you passed it a graph that has a cached constant. This should not"
                " happen. Clone the graph before building the FunctionGraph. (constant %s)" % r
            )
        owner = getattr(r, "fgraph", None)
        if owner is not None and owner is not self and r in owner.variables:
            raise Exception("%s is already owned by another fgraph" % r)
        r.fgraph = self
        r.clients = Clients()

    def __setup_node__(self, node: Apply) -> None:
        owner = getattr(node, "fgraph", None)
        if owner is not None and owner is not self and node in owner.apply_nodes:
            raise Exception("%s is already owned by another fgraph" % node)
        for kind in ("view_map", "destroy_map"):
            mapping = getattr(node.op, kind, None)
            if mapping and not all(isinstance(places, (list, tuple)) for places in mapping.values()):
                raise Exception(
                    "Op '%s' have a bad %s '%s', the values must be tuples or lists."
                    % (node.op, kind.replace("_", " "), mapping)
                )
        node.fgraph = self

    def disown(self) -> None:
        """Release all variables and nodes, so that other FunctionGraphs can use them.

        This graph is unusable afterwards.
        """
        for feature in list(self._features):
            self.remove_feature(feature)
        for node in self.apply_nodes:
            del node.fgraph
        for r in self.variables:
            del r.fgraph
            del r.clients
        self.apply_nodes = OrderedSet()
        self.variables = OrderedSet()
        self.inputs = None  # type: ignore[assignment]
        self.outputs = None  # type: ignore[assignment]
        self._input_set = set()
        self._sorted = None
        self.answers = {}

    # ------------------------------------------------------------ clients, import, prune

    def clients(self, r: Variable) -> Clients:
        """Return the list of ``(node, i)`` such that ``node.inputs[i] is r``.

        If `r` is output i of the graph, the list also contains ``('output', i)``.
        """
        return r.clients

    def __add_client__(self, r: Variable, new_client: Client) -> None:
        r.clients.append(new_client)

    def __remove_client__(self, r: Variable, client_to_remove: Client, reason: Any = None) -> None:
        """Remove a client of `r`. Also remove all nodes of which no output has a client afterwards."""
        pending = [(r, client_to_remove)]
        while pending:
            r, client = pending.pop()
            r.clients.remove(client)
            if r.clients:
                continue
            node = r.owner
            if node is None:
                if r not in self._input_set:
                    self.variables.discard(r)
            elif not any(output.clients for output in node.outputs):
                self.apply_nodes.remove(node)
                for output in node.outputs:
                    self.variables.discard(output)
                self.execute_callbacks("on_prune", node, reason)
                pending.extend((node.inputs[i], (node, i)) for i in range(len(node.inputs) - 1, -1, -1))

    def __import_r__(self, variable: Variable, reason: Any) -> None:
        """Add a variable to the graph, and all nodes and variables on which it depends."""
        if isinstance(variable.type, NullType):
            raise TypeError("Computation graph contains a NaN. " + variable.type.why_null)
        if variable in self.variables:
            return
        node = variable.owner
        if node is not None:
            if node not in self.apply_nodes:
                self.__import__(node, reason=reason)
        elif not isinstance(variable, Constant) and variable not in self._input_set:
            raise MissingInputError("Undeclared input", variable=variable)
        if variable not in self.variables:
            self.__setup_r__(variable)
            self.variables.add(variable)

    def __import__(self, apply_node: Apply, check: bool = True, reason: Any = None) -> None:
        """Add a node to the graph, and all nodes and variables on which it depends."""
        new_nodes = self._nodes_to_import(apply_node)
        if check:
            for node in new_nodes:
                self._check_importable(node)
        variables = self.variables
        for node in new_nodes:
            self.__setup_node__(node)
            self.apply_nodes.add(node)
            for output in node.outputs:
                self.__setup_r__(output)
                variables.add(output)
            for i, r in enumerate(node.inputs):
                if reason != "init" and getattr(r, "cached", False):
                    # The new node of a rewrite uses a constant that other graphs share: use a copy of the constant.
                    r = node.inputs[i] = r.clone()
                if r not in variables:
                    self.__setup_r__(r)
                    variables.add(r)
                r.clients.append((node, i))
            self.execute_callbacks("on_import", node, reason)

    def _nodes_to_import(self, apply_node: Apply) -> list[Apply]:
        """Return `apply_node` and the nodes on which it depends that are not in the graph yet, inputs first."""
        known = self.apply_nodes
        order = []
        seen = {apply_node}
        stack = [(apply_node, iter(apply_node.inputs))]
        while stack:
            node, pending = stack[-1]
            for r in pending:
                owner = r.owner
                if owner is not None and owner not in seen and owner not in known and r not in self._input_set:
                    seen.add(owner)
                    stack.append((owner, iter(owner.inputs)))
                    break
            else:
                order.append(node)
                stack.pop()
        return order

    def _check_importable(self, node: Apply) -> None:
        owner = getattr(node, "fgraph", None)
        if owner is not None and owner is not self and node in owner.apply_nodes:
            raise Exception("%s is already owned by another fgraph" % node)
        for i, r in enumerate(node.inputs):
            owner = getattr(r, "fgraph", None)
            if owner is not None and owner is not self and r in owner.variables:
                raise Exception("%s is already owned by another fgraph" % r)
            if r.owner is None and not isinstance(r, Constant) and r not in self._input_set:
                if config.exception_verbosity == "high":
                    hint = "It is needed for\n" + ports.label_graph(node.outputs[0])
                else:
                    hint = "Use the Theano flag exception_verbosity='high', for more information on this error."
                raise MissingInputError(
                    "Input %d of the graph (indices start from 0), used to compute %s, was not provided and not given a value. %s"
                    % (i, node, hint),
                    variable=r,
                )

    # ------------------------------------------------------------ change

    def change_input(self, node: Any, i: int, new_r: Variable, reason: Any = None) -> None:
        """Change ``node.inputs[i]`` to `new_r`.

        Parameters
        ----------
        node : Apply or 'output'
            If it is 'output', ``self.outputs[i]`` is changed.
        i : int
        new_r : Variable
            A variable of the same type as the old input.
        reason : object
            The cause of the change. It is passed to the features.

        Raises
        ------
        TypeError
            If the types differ.
        """
        if getattr(new_r, "cached", False):
            new_r = new_r.clone()  # other graphs share this constant, so use a copy, as in __import__
        self.answers.clear()
        if node == "output":
            r = self.outputs[i]
            self._check_same_type(r, new_r)
            if r is new_r:
                return
            self.__import_r__(new_r, reason=reason)
            self.outputs[i] = new_r
        else:
            if node not in self.apply_nodes:
                raise Exception("Cannot operate on %s because it does not belong to this FunctionGraph" % node)
            r = node.inputs[i]
            self._check_same_type(r, new_r)
            if r is new_r:
                return
            self.__import_r__(new_r, reason=reason)
            node.inputs[i] = new_r
        self._sorted = None
        new_r.clients.append((node, i))
        self.__remove_client__(r, (node, i), reason=reason)
        self.answers.clear()  # features that were called above may have stored answers
        # The change may have introduced a cycle. A feature's `validate` then rejects the change, and History undoes it.
        self.execute_callbacks("on_change_input", node, i, r, new_r, reason=reason)

    @staticmethod
    def _check_same_type(r: Variable, new_r: Variable) -> None:
        if r.type != new_r.type:
            raise TypeError(
                "The type of the replacement must be the same as the type of the original Variable.", r, new_r
            )

    def replace(self, r: Variable, new_r: Variable, reason: Any = None, verbose: bool | None = None) -> None:
        """Replace a variable by another variable wherever it is used. This is the main way to change the graph.

        Parameters
        ----------
        r : Variable
            A variable of the graph. If it is no longer in the graph, nothing happens.
        new_r : Variable
            A variable of the same type, or a variable that ``r.type.convert_variable`` can convert to this type.
        reason : object
            The cause of the replacement (such as a rewrite), for messages and features.
        verbose : bool, optional
            Whether to print the replacement. By default, ``config.optimizer_verbose``.

        Raises
        ------
        BadOptimization
            If the types differ, and `new_r` cannot be converted to the type of `r`.
        """
        if verbose is None:
            verbose = config.optimizer_verbose
        if verbose:
            print(reason, r, new_r)
        if getattr(r, "fgraph", self) is not self:
            raise Exception("Cannot replace %s because it does not belong to this FunctionGraph" % r, str(reason))
        if r.type != new_r.type:
            converted = r.type.convert_variable(new_r)
            if converted is None or converted.type != r.type:
                raise toolbox.BadOptimization(
                    r,
                    new_r,
                    None,
                    None,
                    "%s. The type of the replacement must be the same. Old type: %s, new type: %s"
                    % (reason, r.type, new_r.type),
                )
            new_r = converted
        if r not in self.variables:
            # An earlier replacement of replace_all removed the variable; this is not an error.
            return
        if config.compute_test_value != "off":
            self._check_test_values(r, new_r)
        for node, i in list(r.clients):
            self.change_input(node, i, new_r, reason=reason)

    @staticmethod
    def _check_test_values(r: Variable, new_r: Variable) -> None:
        try:
            old, new = r.read_test_value(), new_r.read_test_value()
        except AttributeError:
            return
        old_shape, new_shape = getattr(old, "shape", None), getattr(new, "shape", None)
        if old_shape != new_shape:
            raise AssertionError(
                "The replacement variable has a test value with a shape different from the original variable's test value."
                " Original: %s, new: %s" % (old_shape, new_shape)
            )

    def replace_all(self, pairs: Iterable[tuple[Variable, Variable]], reason: Any = None) -> None:
        """Replace several variables; see `replace`.

        Parameters
        ----------
        pairs : list of (Variable, Variable)
        """
        for r, new_r in pairs:
            self.replace(r, new_r, reason=reason)

    # ------------------------------------------------------------ features

    def attach_feature(self, feature: Any) -> None:
        """Attach a feature: call its `on_attach` now and its other callbacks on later events.

        Do nothing if the feature is attached already, or if `on_attach` raises AlreadyThere.
        """
        if feature in self._features:
            return
        on_attach = getattr(feature, "on_attach", None)
        if on_attach is not None:
            try:
                on_attach(self)
            except AlreadyThere:
                return
        self.execute_callbacks_times.setdefault(feature, 0)
        self._features.append(feature)
        self._callbacks = {}
        self._sorted = None

    def remove_feature(self, feature: Any) -> None:
        """Detach a feature and call its `on_detach`. Do nothing if it is not attached."""
        try:
            self._features.remove(feature)
        except ValueError:
            return
        self.execute_callbacks_times.pop(feature, None)
        self._callbacks = {}
        self._sorted = None
        on_detach = getattr(feature, "on_detach", None)
        if on_detach is not None:
            on_detach(self)

    def _callbacks_of(self, name: str) -> list[tuple[Any, Callable[..., Any]]]:
        """Return a list of (feature, method) for the features that override the callback `name`."""
        found = self._callbacks.get(name)
        if found is None:
            default = getattr(toolbox.Feature, name, None)
            found = []
            for feature in self._features:
                method = getattr(feature, name, None)
                if method is not None and getattr(method, "__func__", method) is not default:
                    found.append((feature, method))
            self._callbacks[name] = found
        return found

    def execute_callbacks(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Call ``feature.<name>(self, *args, **kwargs)`` for every feature that defines it, in attachment order."""
        callbacks = self._callbacks.get(name)
        if callbacks is None:
            callbacks = self._callbacks_of(name)
        if not callbacks:
            return
        times = self.execute_callbacks_times
        begin = start = time.perf_counter()
        for feature, method in callbacks:
            method(self, *args, **kwargs)
            now = time.perf_counter()
            times[feature] = times.get(feature, 0) + now - start
            start = now
        self.execute_callbacks_time += start - begin

    def collect_callbacks(self, name: str, *args: Any) -> dict[Any, Any]:
        """Call ``feature.<name>(self, *args)`` for every feature that defines it.

        Returns
        -------
        dict
            Feature -> return value of its method.
        """
        return {feature: method(self, *args) for feature, method in list(self._callbacks_of(name))}

    # ------------------------------------------------------------ order

    def toposort(self) -> list[Apply]:
        """Return the nodes in an order of execution.

        Returns
        -------
        list of Apply
            A node comes after the nodes that compute its inputs, and after the nodes that the `orderings` of features
            require. The order depends only on the graph, not on its history. So a graph that was loaded from the cache
            runs in the same order.

        Raises
        ------
        ValueError
            If the graph contains cycles.
        """
        # Cache the sorted list only if the orderings of all features depend on the graph alone.
        keep = all(getattr(feature, "orderings_follow_graph", False) for feature, _ in self._callbacks_of("orderings"))
        if keep and self._sorted is not None:
            return list(self._sorted)
        order = graph.io_toposort(self.inputs, self.outputs, self.orderings())
        if keep:
            self._sorted = order
            return list(order)
        return order

    def sorted_nodes(self) -> list[Apply]:
        """Return the nodes, inputs first, without the features' orderings. Cache the list until the graph changes."""
        if "sorted_nodes" not in self.answers:
            self.answers["sorted_nodes"] = graph.io_toposort(self.inputs, self.outputs)
        return list(self.answers["sorted_nodes"])

    def orderings(self) -> dict[Apply, list[Apply]]:
        """Return the union of the features' `orderings`: additional constraints on the order of the nodes.

        Returns
        -------
        dict
            Node -> list of nodes that have to come before it, in addition to the nodes that compute its inputs.
        """
        found = []
        for _, method in self._callbacks_of("orderings"):
            orderings = method(self)
            if not isinstance(orderings, dict):
                raise TypeError(
                    "Non-deterministic return value from %s: a dict is expected, not %s" % (method, orderings)
                )
            for prereqs in orderings.values():
                if not isinstance(prereqs, (list, tuple, OrderedSet)):
                    raise TypeError(
                        "prereqs must be a type with a deterministic iteration order, or toposort will be"
                        " non-deterministic; %s gave %s" % (method, type(prereqs))
                    )
            if orderings:
                found.append(orderings)
        if not found:
            return {}
        united: dict[Apply, set[Apply]] = {}
        for orderings in found:
            for node, prereqs in orderings.items():
                united.setdefault(node, set()).update(prereqs)
        # Sort the nodes, because the order in which features list them depends on the history of the graph.
        place = {node: i for i, node in enumerate(self.sorted_nodes())}
        return {node: sorted(united[node], key=place.__getitem__) for node in sorted(united, key=place.__getitem__)}

    # ------------------------------------------------------------ checks, copies

    def check_integrity(self) -> None:
        """Check that the recorded nodes, variables and clients agree with the graph.

        Raises
        ------
        Exception
            If they differ.
        """
        nodes = graph.ops(self.inputs, self.outputs)
        clients = {r: set(r.clients) for r in self.variables}
        if set(self.apply_nodes) != set(nodes):
            raise Exception(
                "The nodes are inappropriately cached. missing, in excess: %s %s"
                % ([n for n in nodes if n not in self.apply_nodes], [n for n in self.apply_nodes if n not in nodes])
            )
        for node in nodes:
            if node.fgraph is not self:
                raise Exception("Node should belong to the FunctionGraph.", node)
            for i, r in enumerate(node.inputs):
                if r.fgraph is not self:
                    raise Exception("Input of node should belong to the FunctionGraph.", r, (node, i))
                if (node, i) not in clients.get(r, ()):
                    raise Exception("Inconsistent clients list.", (node, i), r.clients)
        variables = graph.variables(self.inputs, self.outputs + self.inputs)
        if set(self.variables) != set(variables):
            raise Exception(
                "The variables are inappropriately cached. missing, in excess: %s %s"
                % ([r for r in variables if r not in self.variables], [r for r in self.variables if r not in variables])
            )
        for r in variables:
            if r.owner is None and r not in self._input_set and not isinstance(r, Constant):
                raise Exception("Undeclared input.", r)
            if r.fgraph is not self:
                raise Exception("Variable should belong to the FunctionGraph.", r)
            for node, i in r.clients:
                if node == "output":
                    if self.outputs[i] is not r:
                        raise Exception("Inconsistent clients list.", r, self.outputs[i])
                elif node not in self.apply_nodes:
                    raise Exception("Client not in FunctionGraph.", r, (node, i))
                elif node.inputs[i] is not r:
                    raise Exception("Inconsistent clients list.", r, node.inputs[i])

    def clone(self, check_integrity: bool = True) -> FunctionGraph:
        """Return a copy of the graph with its features; see `clone_get_equiv`."""
        return self.clone_get_equiv(check_integrity)[0]

    def clone_get_equiv(
        self, check_integrity: bool = True, attach_feature: bool = True
    ) -> tuple[FunctionGraph, dict[Any, Any]]:
        """Copy the graph.

        Parameters
        ----------
        check_integrity : bool
            Whether to check the integrity of both graphs.
        attach_feature : bool
            Whether to attach the features to the copy.

        Returns
        -------
        (FunctionGraph, dict)
            The copy, and a dict from each variable and node to its copy.
        """
        equiv = graph.clone_get_equiv(self.inputs, self.outputs)
        if check_integrity:
            self.check_integrity()
        e = FunctionGraph(
            [equiv[r] for r in self.inputs],
            [equiv[r] for r in self.outputs],
            clone=False,
            update_mapping=self.update_mapping,
        )
        if check_integrity:
            e.check_integrity()
        if attach_feature:
            for feature in self._features:
                clone = getattr(feature, "clone_for", None)
                e.attach_feature(feature if clone is None else clone(e))
        return e, equiv

    def __str__(self) -> str:
        return "[%s]" % ", ".join(graph.as_string(self.inputs, self.outputs))

    def __repr__(self) -> str:
        return self.__str__()

    def __getstate__(self) -> Any:
        state = self.__dict__.copy()
        for feature in self._features:
            for attr in getattr(feature, "pickle_rm_attr", ()):
                state.pop(attr, None)
        for name in ("_callbacks", "_sorted", "answers", "_input_set", "apply_nodes", "variables"):
            del state[name]
        # Variables and nodes are pickled without the attributes that this graph sets on them. __setstate__ sets these
        # attributes again.
        clients = [(r, [tuple(c) for c in r.clients]) for r in self.variables]
        covering = Covering(graph.io_toposort(self.inputs, self.outputs))
        return covering, list(self.apply_nodes), clients, state

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self._load_from_theano(state)
            return
        _, nodes, clients, state = state[:4]  # older pickles have more elements
        self.__dict__.update(state)
        self._callbacks = {}
        self._sorted = None
        self.answers = {}
        self._input_set = set(self.inputs)
        self.apply_nodes = OrderedSet(nodes)
        self.variables = OrderedSet(r for r, _ in clients)
        for node in nodes:
            node.fgraph = self
        for r, uses in clients:
            r.fgraph = self
            r.clients = Clients(uses)
        for feature in self._features:
            if hasattr(feature, "unpickle"):
                feature.unpickle(self)

    def _load_from_theano(self, state: dict[str, Any]) -> None:
        """Restore the graph from a pickle by Theano, without features.

        Compute everything except the graph itself again. If the graph is part of the pickle of a compiled function, its
        variables may be incomplete when this method runs. The graph is then not restored: nothing uses it, because the
        graphs of loaded functions are rewritten again.
        """
        inputs, outputs = state["inputs"], state["outputs"]
        nodes = state["apply_nodes"]
        if all("type" in variable.__dict__ for variable in state["variables"]) and all(
            "op" in node.__dict__ for node in nodes
        ):
            for owned in [*nodes, *state["variables"]]:
                for written in ("fgraph", "clients", "deps"):
                    owned.__dict__.pop(written, None)
            self.__init__(  # type: ignore[misc]
                inputs, outputs, clone=False, update_mapping=state.get("update_mapping")
            )


__all__ = [
    "AlreadyThere",
    "CachedConstantError",
    "FunctionGraph",
    "InconsistencyError",
    "MissingInputError",
    "config",
    "graph",
    "utils",
]
