"""The class FunctionMaker, which compiles a graph into a Function: its features, its checks and its pickling."""

import copy
import copyreg
import functools
import time
import warnings

from theano_ng.compile import graph_cache, profiling
from theano_ng.compile.functions.aliasing import (
    alias_root,
    destroyed_roots,
    infer_reuse_pattern,
    insert_deepcopy,
    view_tree_set,
)
from theano_ng.compile.functions.inputs import (
    UnusedInputError,
    check_unused_inputs,
    convert_function_input,
    get_info_on_inputs,
)
from theano_ng.compile.functions.object import Function
from theano_ng.compile.io import SymbolicInput, SymbolicOutput
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.compile.ops import deep_copy_op, view_op  # noqa: F401, other modules import the names from here
from theano_ng.configdefaults import config
from theano_ng.gof import link, progress
from theano_ng.gof._lock import Lock
from theano_ng.gof.compiler import gxx
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph, InconsistencyError
from theano_ng.gof.forks import ForkSafeLock
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.program import updates_of
from theano_ng.gof.rewriting import CheckStackTraceOptimization
from theano_ng.gof.toolbox import PreserveVariableAttributes
from theano_ng.gof.utils import fewer_collections

string_types = (str,)

_compiling = Lock()
ForkSafeLock(_compiling, progress.compiling.forget)


def _one_at_a_time(compile_something):
    """Decorate a function so that only one thread at a time runs it or another decorated function.

    Two threads must not compile at once, because rewriting changes flags that all threads share.
    """

    @functools.wraps(compile_something)
    def locked(*args, **kwargs):
        inside = _compiling._is_owned()
        with _compiling:
            if not inside:
                progress.compiling.forget()
            with progress.compiling:
                return compile_something(*args, **kwargs)

    return locked


__all__ = [
    "AliasedMemoryError",
    "Function",
    "FunctionMaker",
    "Supervisor",
    "UnusedInputError",
    "alias_root",
    "check_equal",
    "convert_function_input",
    "fgraph_updated_vars",
    "get_info_on_inputs",
    "infer_reuse_pattern",
    "insert_deepcopy",
    "orig_function",
    "register_checker",
    "std_fgraph",
    "view_tree_set",
]


class AliasedMemoryError(Exception):
    """Error: two values share memory, but must not share it.

    Parameters
    ----------
    a, b : object
        The values that share memory.
    """

    def __init__(self, a, b):
        self.a = a
        self.b = b
        super().__init__(a, b)


_checkers = []


def register_checker(checker):
    """Register a function that `check_equal` uses to compare values.

    ``checker(x, y)`` returns a bool, or raises an exception for values that it cannot compare.
    """
    _checkers.append(checker)


def check_equal(x, y):
    """Return True if two values are equal.

    The first registered checker that does not raise an exception decides. If all checkers raise, ``==`` decides.
    """
    for checker in _checkers:
        try:
            return checker(x, y)
        except Exception:
            continue  # this checker cannot compare the two values
    return x == y


class Supervisor:
    """A feature that raises InconsistencyError if a node destroys a protected variable or an output of the graph.

    Parameters
    ----------
    protected : iterable of Variable
        The variables that no node may destroy.
    """

    protects_inputs = True
    _protected = None  # `protected` as a set. It is cached because it is used after each replacement and can be large

    def __init__(self, protected):
        self.protected = list(protected)
        # A dict whose keys are the variables that may have been destroyed since the last check, or that may share
        # memory with a destroyed variable. None means that `validate` has to check all protected variables.
        self._suspects = None

    def __getstate__(self):
        return {"protected": self.protected, "_suspects": None}

    def on_import(self, fgraph, node, reason):
        """Record the variables that a new node destroys, and its outputs that are views."""
        if self._suspects is not None:
            for places in (getattr(node.op, "destroy_map", None) or {}).values():
                for i in places:
                    self._suspects[node.inputs[i]] = None
            for o in getattr(node.op, "view_map", None) or ():
                self._suspects[node.outputs[o]] = None

    def on_change_input(self, fgraph, node, i, r, new_r, reason=None):
        """Record the variables that a changed node destroys, and its outputs that are views.

        If `node` is "output", record the new output of the graph.
        """
        if node != "output":
            self.on_import(fgraph, node, reason)
        elif self._suspects is not None:
            self._suspects[new_r] = None

    def validate(self, fgraph):
        """Raise InconsistencyError if a node destroys a protected variable."""
        if not hasattr(fgraph, "destroyers"):
            return True
        aliases = getattr(getattr(fgraph, "destroy_handler", None), "aliases", None)
        if self._suspects is None or aliases is None:
            for r in self.protected + list(fgraph.outputs):
                if fgraph.destroyers(r):
                    raise InconsistencyError("Trying to destroy a protected Variable.", r)
        else:
            if self._protected is None:
                self._protected = frozenset(self.protected)
            protected = self._protected
            for suspect in self._suspects:
                if not aliases.destroyers(suspect):
                    continue
                root = aliases.root(suspect)
                # If the root is protected, a protected variable is destroyed. Then do not search the views of the root,
                # which can be many. This case is usual, because most protected variables are inputs, which are roots.
                for r in [root] if root in protected else aliases.members(suspect):
                    if r in protected or any(client == "output" for client, _ in r.clients):
                        raise InconsistencyError("Trying to destroy a protected Variable.", r)
        self._suspects = {}
        return True


def protect_inputs(fgraph, input_specs):
    """Attach a Supervisor to a graph, so that rewrites do not let nodes overwrite memory of the caller.

    Parameters
    ----------
    fgraph : FunctionGraph
    input_specs : list of SymbolicInput
        The specifications of the inputs. Inputs that are mutable, or that the graph already changes in place, are not
        protected.
    """
    fgraph.attach_feature(
        Supervisor(
            variable
            for spec, variable in zip(input_specs, fgraph.inputs)
            if not (spec.mutable or (hasattr(fgraph, "destroyers") and fgraph.has_destroyers([variable])))
        )
    )


def fgraph_updated_vars(fgraph, expanded_inputs):
    """Return the updates of a graph as a dict from inputs to outputs.

    After a call, each of these inputs gets the value of its output.

    Parameters
    ----------
    fgraph : FunctionGraph
        A graph whose last outputs are the updates, in the order of the inputs.
    expanded_inputs : list of In

    Returns
    -------
    dict
        Input variable -> output variable. Both are variables of the graph.
    """
    updated = {}
    left = list(fgraph.outputs)
    if len(expanded_inputs) != len(fgraph.inputs):
        raise ValueError("got %d input specifications for %d inputs" % (len(expanded_inputs), len(fgraph.inputs)))
    for spec, variable in reversed(list(zip(expanded_inputs, fgraph.inputs))):
        if spec.update is not None:
            updated[variable] = left.pop()
    return dict(reversed(updated.items()))


def std_fgraph(input_specs, output_specs, accept_inplace=False):
    """Make the FunctionGraph of a function, with the features that protect the memory of the caller.

    Parameters
    ----------
    input_specs : list of SymbolicInput
    output_specs : list of SymbolicOutput
    accept_inplace : bool
        If False, a graph with in-place operations is refused.

    Returns
    -------
    fgraph : FunctionGraph
        A copy of the graph. Its outputs are the outputs in `output_specs`, followed by the updates.
    additional_outputs : list of SymbolicOutput
        The updates.
    """
    updates, update_mapping = [], {}
    n_outputs = len(output_specs)
    for i, spec in enumerate(input_specs):
        if spec.update is not None:
            update_mapping[n_outputs + len(updates)] = i
            updates.append(spec.update)
    fgraph = FunctionGraph(
        [spec.variable for spec in input_specs],
        [spec.variable for spec in output_specs] + updates,
        update_mapping=update_mapping,
    )
    for node in fgraph.apply_nodes:
        if getattr(node.op, "destroy_map", None):
            if not accept_inplace:
                raise TypeError("Graph must not contain inplace operations", node, node.op)
            fgraph.attach_feature(DestroyHandler())
            break
    protect_inputs(fgraph, input_specs)
    for feature in std_fgraph.features:
        fgraph.attach_feature(feature())
    return fgraph, list(map(SymbolicOutput, updates))


std_fgraph.features = [PreserveVariableAttributes]


class FunctionMaker:
    """The compiler of a graph: the constructor rewrites it, and `create` makes functions from the rewritten graph.

    Parameters
    ----------
    inputs : list of SymbolicInput or Variable
    outputs : SymbolicOutput, Variable, list of them, or None
    mode : Mode or str, optional
    accept_inplace : bool
        Whether the given graph may contain in-place operations.
    function_builder : callable
        A callable with the parameters of `Function` that returns the function.
    profile : ProfileStats, optional
    on_unused_input : {"raise", "warn", "ignore"}, optional
    fgraph : FunctionGraph, optional
        The graph, if it has already been rewritten.
    output_keys : list of str, optional
    name : str, optional

    Attributes
    ----------
    fgraph : FunctionGraph
        The rewritten graph.
    linker : Linker
    updates : tuple of Update
        Pairs of an input and an output. The input gets the value of the output after a call.
    """

    _pairs = None  # the cached result of alias_pairs

    @staticmethod
    def wrap_in(input):
        """Return an input specification for a variable or for a pair (variable, update)."""
        if isinstance(input, SymbolicInput):
            return input
        if isinstance(input, Variable):
            return SymbolicInput(input)
        if isinstance(input, (list, tuple)):
            if len(input) == 2:
                return SymbolicInput(input[0], update=input[1])
            raise TypeError("Expected two elements in the list or tuple.", input)
        raise TypeError("Unknown input type: %s (%s), expected Variable instance" % (type(input), input))

    @staticmethod
    def wrap_out(output):
        """Return an output specification for a variable."""
        if isinstance(output, SymbolicOutput):
            return output
        if isinstance(output, Variable):
            return SymbolicOutput(output)
        raise TypeError("Unknown output type: %s (%s)" % (type(output), output))

    @_one_at_a_time
    def __init__(
        self,
        inputs,
        outputs,
        mode=None,
        accept_inplace=False,
        function_builder=Function,
        profile=None,
        on_unused_input=None,
        fgraph=None,
        output_keys=None,
        name=None,
    ):
        mode = get_mode(mode)
        # Do not access the optimizer of a Mode here, because this would load all rules. A function does not need the
        # rules if its rewritten graph is in the cache.
        if not isinstance(mode, Mode) and not (hasattr(mode, "optimizer") and hasattr(mode, "linker")):
            raise TypeError("mode must be the name of a mode or a Mode, not %r" % (mode,))
        self.return_none = outputs is None
        unpack_single = True
        if outputs is None:
            outputs = []
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        elif not getattr(outputs, "unpack", False):
            unpack_single = False
        inputs = [self.wrap_in(i) for i in inputs]
        outputs = [self.wrap_out(o) for o in outputs]
        for spec in inputs:
            if isinstance(spec.variable, Constant):
                raise TypeError(
                    "A constant cannot be an input of a function, because its value is fixed", spec.variable
                )
        check_unused_inputs(inputs, outputs, on_unused_input)

        self.mode = mode
        self.profile = profile
        self.inputs = self.expanded_inputs = inputs
        self.outputs = outputs
        self.unpack_single = unpack_single
        self.accept_inplace = accept_inplace
        self.function_builder = function_builder
        self.on_unused_input = on_unused_input
        self.output_keys = output_keys
        self.name = name
        self.indices = [(spec, [i], [spec]) for i, spec in enumerate(inputs)]

        additional_outputs = [SymbolicOutput(spec.update) for spec in inputs if spec.update is not None]
        if fgraph is None:
            fgraph = self._rewritten_graph(inputs, outputs, accept_inplace)
        fgraph.profile = profile
        fgraph.name = name
        self.fgraph = fgraph

        linker = self._make_linker(mode)
        if not hasattr(linker, "accept"):
            raise ValueError(
                "'linker' parameter of FunctionMaker should be a Linker with an accept method or one of "
                "the names in theano.compile.mode.predefined_linkers; got %r" % (linker,)
            )
        no_borrow = [
            variable for variable, spec in zip(fgraph.outputs, outputs + additional_outputs) if not spec.borrow
        ]
        no_recycling = infer_reuse_pattern(fgraph, no_borrow) if no_borrow else []
        self.linker = linker.accept(fgraph, no_recycling=no_recycling, profile=profile)
        updated_vars = fgraph_updated_vars(fgraph, inputs)
        self.updates = updates_of(fgraph, updated_vars)
        if hasattr(self.linker, "accept_var_updates"):
            self.linker.accept_var_updates(updated_vars)
        self.required = [spec.value is None if hasattr(spec, "value") else True for spec in inputs]
        self.refeed = [
            getattr(spec, "value", None) is not None
            and not isinstance(spec.value, link.Container)
            and spec.update is None
            for spec in inputs
        ]

    def __reduce__(self):
        return _pickle_FunctionMaker(self)  # subclasses (the makers of special modes) inherit this method

    def __setstate__(self, state):
        """Restore a maker that Theano pickled. Compile the user's original graph, not the graph that Theano rewrote."""
        for spec in state["inputs"]:
            for written in ("fgraph", "clients"):  # attributes that the graph of Theano's function set on the variables
                spec.variable.__dict__.pop(written, None)
        if not config.unpickle_function:
            return
        with fewer_collections():
            self.__init__(
                state["inputs"],
                state["outputs"],
                state["mode"],
                accept_inplace=state["accept_inplace"],
                on_unused_input="ignore",
                output_keys=state.get("output_keys"),
                name=state.get("name"),
            )
        self.unpack_single, self.return_none = state["unpack_single"], state["return_none"]

    def _make_linker(self, mode):
        """Return a separate linker for this maker. The makers of special modes override this method."""
        return copy.copy(mode.linker)

    def _rewritten_graph(self, inputs, outputs, accept_inplace):
        """Return the rewritten graph from the cache. If the cache does not contain it, rewrite and store it."""
        cached = graph_cache.find(self.mode, inputs, outputs, accept_inplace, std_fgraph.features)
        if cached is not None:
            start = time.perf_counter()
            fgraph = cached.load()
            if fgraph is not None:
                protect_inputs(fgraph, inputs)
                seconds = time.perf_counter() - start
                profiling.total_graph_opt_time += seconds
                if self.profile is not None:
                    self.profile.optimizer_time += seconds
                    self.profile.graphs_from_disk += 1
                return fgraph
        fgraph, additional_outputs = std_fgraph(inputs, outputs, accept_inplace)
        fgraph.profile = self.profile
        self._rewrite(fgraph, inputs, outputs + additional_outputs)
        if cached is not None:
            cached.save(fgraph)
        return fgraph

    def _rewrite(self, fgraph, inputs, wrapped_outputs):
        """Apply the mode's rewrites to a graph. Then prevent its outputs from sharing memory."""
        profile = self.profile
        optimizer = self.mode.optimizer
        CheckStackTraceOptimization().add_requirements(fgraph)
        start = time.perf_counter()
        with config.change_flags(
            {"compute_test_value": config.compute_test_value_opt, "traceback.limit": config.traceback.compile_limit}
        ):
            optimizer_profile = optimizer(fgraph)
        seconds = time.perf_counter() - start
        profiling.total_graph_opt_time += seconds
        if profile is not None:
            profile.optimizer_time += seconds
            if config.profile_optimizer:
                profile.optimizer_profile = (optimizer, optimizer_profile)
        elif config.profile_optimizer:
            warnings.warn("config.profile_optimizer requires config.profile to be set to True as well")
        with config.change_flags(
            {"compute_test_value": config.compute_test_value_opt, "traceback.limit": config.traceback.compile_limit}
        ):
            insert_deepcopy(fgraph, inputs, wrapped_outputs)

    def optimize_graph_with_cache(self, optimizer, inputs, outputs):
        """Make a new graph and rewrite it with `optimizer`. The name is historical: no cache is used.

        Parameters
        ----------
        optimizer : callable
            The optimizer, which is applied to the new FunctionGraph.
        inputs : list of SymbolicInput
        outputs : list of SymbolicOutput

        Returns
        -------
        object
            The result of the optimizer (its profile).
        """
        fgraph, _ = std_fgraph(inputs, outputs, self.accept_inplace)
        result = optimizer(fgraph)
        self.fgraph = fgraph
        return result

    def _destroyed_inputs(self):
        """Return the variables without an owner that the graph changes in place."""
        if any(getattr(node.op, "destroy_map", None) for node in self.fgraph.apply_nodes):
            return destroyed_roots(self.fgraph)
        return ()

    def overwritten_states(self):
        """Return the positions of the inputs that hold state and are changed in place.

        Returns
        -------
        list of int
        """
        destroyed = self._destroyed_inputs()
        return [
            i
            for i, (spec, variable) in enumerate(zip(self.inputs, self.fgraph.inputs))
            if variable in destroyed and (spec.update is not None or spec.implicit)
        ]

    def alias_pairs(self):
        """Return the pairs of inputs that must not share memory, because one of them is changed in place.

        Returns
        -------
        list of (int, int, int)
            The positions of the changed input, of the other input, and of the input to copy if both share memory. Two
            shared variables are never a pair, because they share no memory.
        """
        if self._pairs is None:
            destroyed = self._destroyed_inputs()
            pairs = []
            explicit = [j for j, spec in enumerate(self.inputs) if not spec.implicit]
            for i, variable in enumerate(self.fgraph.inputs):
                if variable not in destroyed:
                    continue
                for j in explicit if self.inputs[i].implicit else range(len(self.inputs)):
                    if j == i:
                        continue
                    if self.inputs[j].implicit:
                        pairs.append((i, j, i))
                    elif j > i or self.fgraph.inputs[j] not in destroyed or self.inputs[i].implicit:
                        pairs.append((i, j, j))
            self._pairs = pairs
        return self._pairs

    @_one_at_a_time
    def create(self, input_storage=None, trustme=False, storage_map=None):
        """Make a function with separate cells, except the cells of Containers and of `storage_map`.

        Parameters
        ----------
        input_storage : list, optional
            For each input: a default value, a Container (whose cell the function shares), or None. By default, the
            values of the input specifications.
        trustme : bool
            Whether to ignore a value that `input_storage` contains for an input without a default. If False, raise an
            error for such a value.
        storage_map : dict, optional
            Variable -> cell that the function uses for the variable.

        Returns
        -------
        Function
        """
        if input_storage is None:
            input_storage = [getattr(spec, "value", None) for spec in self.inputs]
        cells, defaults = [], []
        for spec, required, refeed, value in zip(self.inputs, self.required, self.refeed, input_storage):
            if isinstance(value, link.Container):
                cells.append(value.storage)
                if refeed:
                    value = value.storage[0]  # the default is the current value of the container
                defaults.append((required, refeed, None if required else value))
            else:
                if required and value is not None and not trustme:
                    raise TypeError(
                        "A value was given for input %s, but this input has no default value: only callers give it values. Use "
                        "In(variable, value=...) to give it a default." % spec.variable,
                        value,
                    )
                cells.append([None])
                if value is None and not required:
                    value = spec.value
                defaults.append((required, refeed, None if required else value))
        profile = self.profile
        start = time.perf_counter()
        import_before = _import_time()

        with config.change_flags({"traceback.limit": config.traceback.compile_limit}):
            fn, inputs, outputs = self.linker.make_thunk(input_storage=cells, storage_map=storage_map)
        seconds = time.perf_counter() - start
        profiling.total_time_linker += seconds
        if profile is not None:
            profile.linker_time += seconds
            profile.import_time += _import_time() - import_before
            if hasattr(fn, "time_thunks"):
                fn.time_thunks = profile.flag_time_thunks
        function = self.function_builder(
            fn,
            inputs,
            outputs,
            self.indices,
            self.outputs,
            defaults,
            self.unpack_single,
            self.return_none,
            self.output_keys,
            self,
            name=self.name,
        )
        function.profile = profile
        return function


@_one_at_a_time
def orig_function(
    inputs, outputs, mode=None, accept_inplace=False, name=None, profile=None, on_unused_input=None, output_keys=None
):
    """Compile a graph for which all inputs are given, including shared variables. See `function` for the parameters.

    Returns
    -------
    Function
    """
    start = time.perf_counter()
    task = progress.task
    compiled_before = len(task.compiled)
    if task.name is None:
        task.name = name
    mode = get_mode(mode)
    inputs = [convert_function_input(i) for i in inputs]
    if isinstance(mode, (list, tuple)):
        raise ValueError("We do not support the passing of multiple modes")
    maker_class = getattr(mode, "function_maker", FunctionMaker)
    with fewer_collections():
        maker = maker_class(
            inputs,
            outputs,
            mode,
            accept_inplace=accept_inplace,
            profile=profile,
            on_unused_input=on_unused_input,
            output_keys=output_keys,
            name=name,
        )
        with config.change_flags(compute_test_value="off"):
            function = maker.create([getattr(spec, "value", None) for spec in inputs])
    if profile is not None:
        profile.compile_time += time.perf_counter() - start
        profile.nb_nodes = len(function.maker.fgraph.apply_nodes)
        profile.compiled += task.compiled[compiled_before:]
    function.name = name
    return function


def _import_time():
    """Return the number of seconds that were spent so far in loading compiled modules."""
    return gxx.import_time


# Pickling


def _pickle_Function(f):
    values = [container.storage[0] for container in f.input_storage]
    return _constructor_Function, (f.maker, list(f.input_storage), values, f.trust_input)


@fewer_collections()
def _constructor_Function(maker, input_storage, inputs_data, trust_input=False):
    """Make the function of an unpickled maker."""
    if not config.unpickle_function or maker is None:
        return None
    storage = []
    for spec, container, value in zip(maker.inputs, input_storage, inputs_data):
        if isinstance(spec.value, link.Container):
            # Use the container that is unpickled with `spec`: it belongs to a shared variable or to another function.
            storage.append(spec.value)
        else:
            # Reuse this Container object: input specifications of other functions may refer to it.
            container.storage[0] = value
            storage.append(container)
    f = maker.create(storage, trustme=True)
    f.trust_input = trust_input
    return f


def _pickle_FunctionMaker(self):
    kwargs = dict(
        inputs=self.inputs,
        outputs=self.outputs,
        unpack_single=self.unpack_single,
        return_none=self.return_none,
        fgraph=self.fgraph,
        mode=self.mode,
        accept_inplace=self.accept_inplace,
        function_builder=self.function_builder,
        profile=None if self.profile is None else self.profile.empty_copy(),
        on_unused_input=self.on_unused_input,
        output_keys=self.output_keys,
        name=self.name,
    )
    return _constructor_FunctionMaker, (kwargs,)


@fewer_collections()
def _constructor_FunctionMaker(kwargs):
    """Make the maker of an unpickled function from its rewritten graph.

    Rewrite the graph again if config.reoptimize_unpickled_function is set.
    """
    if not config.unpickle_function:
        return None
    kwargs = dict(kwargs)
    unpack_single, return_none = kwargs.pop("unpack_single"), kwargs.pop("return_none")
    if config.reoptimize_unpickled_function:
        del kwargs["fgraph"]
    kwargs["on_unused_input"] = "ignore"
    mode = kwargs.pop("mode")
    maker = getattr(mode, "function_maker", FunctionMaker)(kwargs.pop("inputs"), kwargs.pop("outputs"), mode, **kwargs)
    maker.unpack_single, maker.return_none = unpack_single, return_none
    return maker


copyreg.pickle(Function, _pickle_Function)

for _thing in (AliasedMemoryError, FunctionMaker, Supervisor, UnusedInputError):
    # Set `__module__` to the documented module, because pickles, reprs and tracebacks contain it.
    _thing.__module__ = "theano_ng.compile.function_module"
del _thing
