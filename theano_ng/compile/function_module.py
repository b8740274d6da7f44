"""Compiled functions: FunctionMaker compiles a graph, Function is what callers call."""
import copy
import copyreg
import sys
import time
import warnings

from theano_ng.compile._function import FunctionBase
from theano_ng.compile.aliasing import (  # noqa: F401  (classic names of this module)
    alias_root, destroyed_roots, infer_reuse_pattern, insert_deepcopy, view_tree_set)
from theano_ng.compile.io import In, SymbolicInput, SymbolicOutput
from theano_ng.compile.ops import deep_copy_op, view_op  # noqa: F401
from theano_ng.configdefaults import config
from theano_ng.gof import cmodule, graph, link
from theano_ng.gof.destroyhandler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph, InconsistencyError
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.toolbox import PreserveVariableAttributes

__all__ = [
    "AliasedMemoryError", "Function", "FunctionMaker", "Supervisor", "UnusedInputError", "alias_root", "check_equal",
    "convert_function_input", "fgraph_updated_vars", "get_info_on_inputs", "infer_reuse_pattern", "insert_deepcopy", "orig_function",
    "register_checker", "std_fgraph", "view_tree_set",
]


class UnusedInputError(Exception):
    """An input of a function is not needed to compute its outputs."""


class AliasedMemoryError(Exception):
    """Memory is aliased that should not be.

    Parameters
    ----------
    a, b : object
        The values that share memory.
    """

    def __init__(self, a, b):
        self.a = a
        self.b = b
        super().__init__(a, b)


DUPLICATE = object()    # in a finder: the name of several inputs
_checkers = []


def register_checker(checker):
    """Add a comparison to those that `check_equal` tries first: ``checker(x, y)`` is a bool, or it raises for foreign values."""
    _checkers.append(checker)


def check_equal(x, y):
    """Whether two values are equal: by the first registered checker that does not raise, otherwise by ``==``."""
    for checker in _checkers:
        try:
            return checker(x, y)
        except Exception:
            continue    # not a pair that this checker knows
    return x == y


class Supervisor:
    """Feature of a FunctionGraph: no node may change certain variables, nor the outputs, in place.

    Parameters
    ----------
    protected : iterable of Variable
    """

    def __init__(self, protected):
        self.protected = list(protected)

    def validate(self, fgraph):
        """Raise InconsistencyError when a protected variable is destroyed."""
        if not hasattr(fgraph, "destroyers"):
            return True
        for r in self.protected + list(fgraph.outputs):
            if fgraph.destroyers(r):
                raise InconsistencyError("Trying to destroy a protected Variable.", r)


def fgraph_updated_vars(fgraph, expanded_inputs):
    """Which input takes which output's value after a call.

    Parameters
    ----------
    fgraph : FunctionGraph
        Its last outputs are the updates, in the order of the inputs.
    expanded_inputs : list of In

    Returns
    -------
    dict
        Input variable -> output variable, of the graph.
    """
    updated = {}
    left = list(fgraph.outputs)
    if len(expanded_inputs) != len(fgraph.inputs):
        raise ValueError("%d input specifications for %d inputs" % (len(expanded_inputs), len(fgraph.inputs)))
    for spec, variable in reversed(list(zip(expanded_inputs, fgraph.inputs))):
        if spec.update is not None:
            updated[variable] = left.pop()
    return dict(reversed(updated.items()))


def std_fgraph(input_specs, output_specs, accept_inplace=False):
    """The FunctionGraph of a function, with the features that protect what callers own.

    Parameters
    ----------
    input_specs : list of SymbolicInput
    output_specs : list of SymbolicOutput
    accept_inplace : bool
        False refuses a graph that has in-place operations already.

    Returns
    -------
    fgraph : FunctionGraph
        A copy of the graph; its outputs are those of `output_specs`, then the updates.
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
        [spec.variable for spec in input_specs], [spec.variable for spec in output_specs] + updates, update_mapping=update_mapping)
    for node in fgraph.apply_nodes:
        if getattr(node.op, "destroy_map", None):
            if not accept_inplace:
                raise TypeError("Graph must not contain inplace operations", node, node.op)
            fgraph.attach_feature(DestroyHandler())
            break
    fgraph.attach_feature(Supervisor(
        variable for spec, variable in zip(input_specs, fgraph.inputs)
        if not (spec.mutable or (hasattr(fgraph, "destroyers") and fgraph.has_destroyers([variable])))))
    for feature in std_fgraph.features:
        fgraph.attach_feature(feature())
    return fgraph, list(map(SymbolicOutput, updates))


std_fgraph.features = [PreserveVariableAttributes]


def get_info_on_inputs(named_inputs, n_unnamed_inputs):
    """A sentence about the inputs of a function, for error messages.

    Parameters
    ----------
    named_inputs : list of str
    n_unnamed_inputs : int
    """

    def plural(n):
        return "" if n == 1 else "s"

    n_named = len(named_inputs)
    if n_named == 0 and n_unnamed_inputs == 0:
        return "The function is supposed to have no input."
    if n_named == 0:
        if n_unnamed_inputs == 1:
            return ("The function has a single input variable which has no name, and thus cannot be assigned through a keyword "
                    "argument (use 'name=...' in a Variable's constructor to give it a name).")
        return ("The function has %d inputs, but none of them is named, and thus they cannot be assigned through keyword arguments "
                "(use 'name=...' in a Variable's constructor to give it a name)." % n_unnamed_inputs)
    if n_unnamed_inputs == 0:
        return "The function has %d named input%s (%s)." % (n_named, plural(n_named), ", ".join(named_inputs))
    return ("The function has %d named input%s (%s), and %d unnamed input%s which thus cannot be accessed through keyword argument%s "
            "(use 'name=...' in a variable's constructor to give it a name)." % (
                n_named, plural(n_named), ", ".join(named_inputs), n_unnamed_inputs, plural(n_unnamed_inputs),
                plural(n_unnamed_inputs)))


class _Finder:
    """Mapping from position, name or Variable to what an input has."""

    def __init__(self, function):
        self.function = function

    def find(self, item):
        function = self.function
        try:
            found = function.finder[item]
        except (KeyError, TypeError):
            names = [str(spec.name) for spec in function.maker.inputs if spec.name is not None and not spec.implicit]
            unnamed = sum(spec.name is None and not spec.implicit for spec in function.maker.inputs)
            raise TypeError("Unknown input or state: %s. %s" % (item, get_info_on_inputs(names, unnamed))) from None
        if found is DUPLICATE:
            raise TypeError(
                "Ambiguous name: %s - please check the names of the inputs of your function for duplicates." % (item,))
        return found

    def __contains__(self, item):
        return self.function.finder.get(item) is not None


class ContainerAttribute(_Finder):
    """`Function.container`: the inputs' Containers, by position, name or Variable; read-only."""

    def __getitem__(self, item):
        return self.find(item)


class ValueAttribute(_Finder):
    """`Function.value`: the inputs' current values, by position, name or Variable; assignment goes through the Type."""

    def __getitem__(self, item):
        return self.find(item).value

    def __setitem__(self, item, value):
        self.find(item).value = value


class Function(FunctionBase):
    """A compiled function.

    Parameters
    ----------
    fn : callable
        Runs the graph: a virtual machine, or any callable without arguments.
    input_storage, output_storage : list of Container
        Of all inputs, implicit ones included, and of all outputs, updates included.
    indices : list of (In, list, list of In)
        For each input its specification, positions and specifications; kept for callers that look.
    outputs : list of Out
    defaults : list of (bool, bool, object)
        For each input: must the caller give a value, does the default come back after a call, the default.
    unpack_single : bool
        Return a single output itself instead of a list.
    return_none : bool
        Return None.
    output_keys : list of str or None
        Return a dictionary with these keys.
    maker : FunctionMaker
    name : str, optional

    Attributes
    ----------
    trust_input : bool
        True skips the check and conversion of arguments. Values of a wrong type may work in Python code; C code raises.
    profile : ProfileStats or None
    finder : dict
        Position, name or Variable -> Container.
    inv_finder : dict
        Container -> In.
    container, value
        Read-only mapping to Containers, and mapping to values, by position, name or Variable.
    """

    def __init__(self, fn, input_storage, output_storage, indices, outputs, defaults, unpack_single, return_none, output_keys, maker,
                 name=None):
        self.fn = fn
        self.input_storage = list(input_storage)
        self.output_storage = list(output_storage)
        self.indices = indices
        self.outputs = outputs
        self.defaults = defaults
        self.unpack_single = unpack_single
        self.return_none = return_none
        self.output_keys = output_keys
        self.maker = maker
        self.profile = None
        self.trust_input = False
        self.name = name
        self.nodes_with_inner_function = []
        self._finder = None
        self._setup()

    def _setup(self):
        specs = [index[0] for index in self.indices]
        roles, quick, defaults = [], [], []
        for spec, container, (required, refeed, value) in zip(specs, self.input_storage, self.defaults):
            container.strict = getattr(spec, "strict", False)
            container.allow_downcast = getattr(spec, "allow_downcast", None)
            container.required = required
            container.implicit = spec.implicit
            copied = False
            if value is not None and not isinstance(value, link.Container):
                container.value = value
                value = container.storage[0]
                copied = bool(refeed and spec.mutable)
                if copied:
                    container.storage[0] = copy.copy(value)
            defaults.append((value if refeed else None, copied))
            roles.append("implicit" if spec.implicit else "refed" if refeed else "emptied" if required else "state")
            quick.append(quick_check(container))
        updates = [i for i, spec in enumerate(specs) if spec.update is not None]
        n_returned = len(self.output_storage) - len(updates)
        # (input, output) numbers, for runners that leave the updates to us
        self._updates = [(i, n_returned + k) for k, i in enumerate(updates)]
        variables = self.maker.fgraph.outputs
        self._update_clears = [variables[k].owner is not None and variables.count(variables[k]) == 1 for _, k in self._updates]
        self.setup(
            roles, quick, defaults, self.maker.alias_pairs(),
            [not spec.borrow and variable.owner is not None for spec, variable in zip(self.outputs[:n_returned], variables)],
            n_returned)

    def _apply_updates(self, values):
        """Give the inputs the new values among `values` (all outputs); the outputs' cells let go of them."""
        for (i, k), clear in zip(self._updates, self._update_clears):
            self.input_storage[i].storage[0] = values[k]
            if clear:
                self.output_storage[k].storage[0] = None

    # Access to inputs

    @property
    def finder(self):
        if self._finder is None:
            finder = {}
            for i, (index, container) in enumerate(zip(self.indices, self.input_storage)):
                spec = index[0]
                finder[i] = container
                finder[spec.variable] = container
                if spec.name is not None:
                    finder[spec.name] = DUPLICATE if spec.name in finder else container
            self._finder = finder
        return self._finder

    @property
    def inv_finder(self):
        return {container: index[0] for index, container in zip(self.indices, self.input_storage)}

    @property
    def container(self):
        return ContainerAttribute(self)

    @property
    def value(self):
        return ValueAttribute(self)

    def __getitem__(self, item):
        """The current value of an input."""
        return self.value[item]

    def __setitem__(self, item, value):
        """Set the stored value of an input; it is converted to the input's type."""
        self.value[item] = value

    def __contains__(self, item):
        return item in self.value

    # Calls: what FunctionBase asks for off its fast path

    def _filter(self, i, value):
        """An argument in the form that its input's type wants."""
        container = self.input_storage[i]
        try:
            return container.type.filter(value, strict=container.strict, allow_downcast=container.allow_downcast)
        except Exception as failure:
            where = ' with name "%s" ' % self.name if self.name else ""
            failure.args = ("Bad input argument to theano function%s at index %d(0-based)" % (where, i),) + failure.args
            raise

    def _bind(self, args, kwargs):
        """Give arguments to inputs by position and by name; the wanted outputs' numbers, or None."""
        subset = kwargs.pop("output_subset", None)
        if subset is not None:
            subset = self._output_numbers(subset)
        containers = self.input_storage
        if len(args) > len(containers):
            raise TypeError(
                "Too many parameter passed to theano function%s: it takes at most %d, and %d were given" % (
                    " %s" % self.name if self.name else "", sum(not c.implicit for c in containers), len(args)))
        given = {}
        for i, value in enumerate(args):
            given[i] = value
        if kwargs:
            numbers = {id(container): i for i, container in enumerate(containers)}
            for key, value in kwargs.items():
                i = numbers[id(self.container[key])]
                if i in given:
                    raise TypeError("Multiple values for input: %s" % self.indices[i][0].variable)
                given[i] = value
        for i, container in enumerate(containers):
            if i in given:
                if container.implicit:
                    raise TypeError("Tried to provide value for implicit input: %s" % self.indices[i][0].variable)
            elif container.required:
                raise TypeError("Missing required input: %s" % self.indices[i][0].variable)
        for i, value in given.items():
            self._set_input(i, value)
        return subset

    def _output_numbers(self, subset):
        keys = self.output_keys
        numbers = []
        n_returned = len(self.output_storage) - len(self._updates)
        for item in subset:
            if keys is not None and item in keys:
                item = keys.index(item)
            if not isinstance(item, int) or not -n_returned <= item < n_returned:
                raise ValueError("output_subset: %r is no output of this function; it has %s" % (
                    item, "the keys %s" % keys if keys is not None else "%d outputs" % n_returned))
            numbers.append(item % n_returned)
        return numbers

    def _explain_failure(self):
        """Raise the current exception again, with the story of the node that failed."""
        fn = self.fn
        position = getattr(fn, "position_of_error", -1)
        if position is None or position < 0 or not hasattr(fn, "thunks"):
            return
        link.raise_with_op(fn.nodes[position], fn.thunks[position], storage_map=getattr(fn, "storage_map", None))

    # Copies and pickles

    def __copy__(self):
        """Another function with the same maker; its containers hold copies of what may be changed in place."""
        values = []
        for index, container, (required, refeed, value) in zip(self.indices, self.input_storage, self.defaults):
            spec = index[0]
            if isinstance(spec.value, link.Container):
                values.append(spec.value)
            elif required:
                values.append(None)
            else:
                current = container.storage[0]
                values.append(copy.copy(current) if spec.mutable else current)
        new = self.maker.create(values, trustme=True)
        new.trust_input, new.name = self.trust_input, self.name
        return new

    def copy(self, share_memory=False, swap=None, delete_updates=False, name=None, profile=None):
        """A copy of this function, with its own maker and graph; nothing is rewritten or compiled twice.

        Parameters
        ----------
        share_memory : bool
            Share the cells of intermediate values; the two functions then run one at a time. With ``allow_gc=False`` this saves
            memory.
        swap : dict, optional
            Shared variable -> the shared variable that the copy uses in its place.
        delete_updates : bool
            The copy updates nothing.
        name : str, optional
            Default: this function's name and " copy".
        profile : bool, str or ProfileStats, optional
            As for `function`.

        Returns
        -------
        Function
            It returns a list also where this function returns its single output itself.

        Raises
        ------
        ValueError
            When a key of `swap` is no shared variable of this function.
        TypeError
            When the two variables of a swap differ in type.
        """
        return copy_function(self, share_memory, swap, delete_updates, name, profile)

    def free(self):
        """With ``allow_gc=False``, forget the intermediate values that are kept between calls."""
        storage_map = getattr(self.fn, "storage_map", None)
        if storage_map is not None:
            for variable, cell in storage_map.items():
                if variable.owner is not None and not isinstance(variable, Constant):
                    cell[0] = None
        for node in self.nodes_with_inner_function:
            getattr(node.op, "fn").free()

    def get_shared(self):
        """The shared variables that this function reads or updates."""
        return [spec.variable for spec in self.maker.inputs if spec.implicit]

    def sync_shared(self):
        """Wait until the shared variables' values are up to date on their device."""
        for index, container in zip(self.indices, self.input_storage):
            if index[0].update is not None:
                sync = getattr(container.storage[0], "sync", None)
                if sync is not None:
                    sync()

    def __str__(self):
        return "<%s %s>" % (type(self).__name__, self.name) if self.name else object.__repr__(self)


def quick_check(container):
    """How an argument for a container is recognised without asking its Type, or None.

    Only plain tensor types have a test: ndarray itself, dtype, rank, alignment, byte order, length 1 where broadcastable.
    """
    # gof and compile know no tensors: if that module was never imported, no type can be one of its own.
    module = sys.modules.get("theano_ng.tensor.type")
    tensor_type = getattr(module, "TensorType", None)
    kind = container.type
    if tensor_type is None or type(kind) is not tensor_type or getattr(kind, "filter_checks_isfinite", False) or len(
            kind.broadcastable) > 30:
        return None
    import numpy

    dtype = numpy.dtype(kind.dtype)
    bits = sum(1 << d for d, flag in enumerate(kind.broadcastable) if flag)
    scalar = dtype == numpy.float64 and kind.ndim == 0 and not container.strict
    return dtype.num, kind.ndim, bits, scalar


def copy_function(function, share_memory=False, swap=None, delete_updates=False, name=None, profile=None):
    """See `Function.copy`."""
    from theano_ng.compile.profiling import ProfileStats     # profiling imports this package

    maker = function.maker
    swap = dict(swap or {})
    variables = {spec.variable: spec for spec in maker.inputs}
    for old, new in swap.items():
        if old not in variables or not isinstance(variables[old].value, link.Container):
            raise ValueError("SharedVariable: %s not found: it is no shared variable of this function" % old)
        if old.type != new.type:
            raise TypeError("swap: %s has type %s, but %s has type %s" % (old, old.type, new, new.type))
    if swap and len(set(swap.values()) | (set(variables) - set(swap))) != len(variables):
        raise ValueError("swap: a variable would occur twice among the inputs of the copy")

    specs = []
    for spec in maker.inputs:
        spec = copy.copy(spec)
        if delete_updates:
            spec.update = None
        if spec.variable in swap:
            spec.variable = swap[spec.variable]
            spec.value = spec.variable.container
        specs.append(spec)

    fgraph = maker.fgraph
    n_outputs = len(maker.outputs)
    kept_outputs = fgraph.outputs[:n_outputs] if delete_updates else fgraph.outputs
    memo = graph.clone_get_equiv(fgraph.inputs, kept_outputs, copy_inputs=True, copy_orphans=True)
    # What the graph copies as an orphan (a constant) may have other clients; inputs must be new ones, named as in this function.
    new_fgraph = FunctionGraph(
        [memo[r] for r in fgraph.inputs], [memo[r] for r in kept_outputs], clone=False,
        update_mapping={} if delete_updates else fgraph.update_mapping)
    for old, new, spec in zip(fgraph.inputs, new_fgraph.inputs, specs):
        if old.name is not None and spec.variable.name is not None:
            new.name = spec.variable.name
    if any(getattr(node.op, "destroy_map", None) for node in new_fgraph.apply_nodes):
        new_fgraph.attach_feature(DestroyHandler())
    if delete_updates:
        _protect_former_updates(maker, new_fgraph)

    if name is None:
        name = (function.name or "") + " copy"
    if profile is None:
        profile = config.profile
    if profile is True or isinstance(profile, str):
        profile = ProfileStats(message=profile if isinstance(profile, str) else name)
    new_maker = type(maker)(
        inputs=specs, outputs=[copy.copy(spec) for spec in maker.outputs], mode=maker.mode, accept_inplace=maker.accept_inplace,
        function_builder=maker.function_builder, profile=profile or None, on_unused_input="ignore", fgraph=new_fgraph,
        output_keys=maker.output_keys, name=name)

    values = []
    for spec, container in zip(specs, function.input_storage):
        if isinstance(spec.value, link.Container):
            values.append(spec.value)
        elif spec.value is None:
            values.append(None)
        else:
            current = container.storage[0]
            values.append(copy.copy(current) if spec.mutable else current)
    storage_map = None
    if share_memory and getattr(function.fn, "storage_map", None):
        apart = set(fgraph.inputs) | set(fgraph.outputs)
        storage_map = {
            memo[r]: cell for r, cell in function.fn.storage_map.items() if r in memo and r not in apart and r.owner is not None}
    new = new_maker.create(values, trustme=True, storage_map=storage_map)
    if storage_map:
        new.share_gate(function)
    new.trust_input = function.trust_input
    return new


def _protect_former_updates(maker, fgraph):
    """In a copy without updates, let nodes that change an updated input in place work on a copy of its value."""
    destroyed = destroyed_roots(fgraph)
    for spec, variable in zip(maker.inputs, fgraph.inputs):
        if spec.update is not None and variable in destroyed:
            clients = list(variable.clients)
            twin = deep_copy_op(variable)
            for client, i in clients:
                fgraph.change_input(client, i, twin, reason="copy without updates")


class FunctionMaker:
    """Compiles a graph; `create` makes functions of it.

    Parameters
    ----------
    inputs : list of SymbolicInput or Variable
    outputs : SymbolicOutput, Variable, list of them, or None
    mode : Mode or str, optional
    accept_inplace : bool
        Whether the graph may hold in-place operations already.
    function_builder : callable
        Makes the function; takes the arguments of `Function`.
    profile : ProfileStats, optional
    on_unused_input : {"raise", "warn", "ignore"}, optional
    fgraph : FunctionGraph, optional
        A graph that is rewritten already.
    output_keys : list of str, optional
    name : str, optional

    Attributes
    ----------
    fgraph : FunctionGraph
        The rewritten graph.
    linker : Linker
    """

    @staticmethod
    def wrap_in(input):
        """An input specification for a variable, or for one of the classic shortcuts."""
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
        """An output specification for a variable."""
        if isinstance(output, SymbolicOutput):
            return output
        if isinstance(output, Variable):
            return SymbolicOutput(output)
        raise TypeError("Unknown output type: %s (%s)" % (type(output), output))

    def __init__(self, inputs, outputs, mode=None, accept_inplace=False, function_builder=Function, profile=None,
                 on_unused_input=None, fgraph=None, output_keys=None, name=None):
        from theano_ng.compile.mode import get_mode     # mode imports the rewriting engine, which may import this package

        mode = get_mode(mode)
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
                raise TypeError("A constant cannot be an input of a function; its value is fixed", spec.variable)
        _check_unused_inputs(inputs, outputs, on_unused_input)

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

        if fgraph is None:
            fgraph, additional_outputs = std_fgraph(inputs, outputs, accept_inplace)
            fgraph.profile = profile
            self._rewrite(fgraph, inputs, outputs + additional_outputs)
        else:
            additional_outputs = [SymbolicOutput(spec.update) for spec in inputs if spec.update is not None]
            fgraph.profile = profile
        fgraph.name = name
        self.fgraph = fgraph

        linker = copy.copy(mode.linker)
        if not hasattr(linker, "accept"):
            raise ValueError("'linker' parameter of FunctionMaker should be a Linker with an accept method or one of "
                             "the names in theano.compile.mode.predefined_linkers; got %r" % (linker,))
        no_borrow = [variable for variable, spec in zip(fgraph.outputs, outputs + additional_outputs) if not spec.borrow]
        no_recycling = infer_reuse_pattern(fgraph, no_borrow) if no_borrow else []
        self.linker = linker.accept(fgraph, no_recycling=no_recycling, profile=profile)
        if hasattr(self.linker, "accept_var_updates"):
            self.linker.accept_var_updates(fgraph_updated_vars(fgraph, inputs))
        self.required = [spec.value is None if hasattr(spec, "value") else True for spec in inputs]
        self.refeed = [
            getattr(spec, "value", None) is not None and not isinstance(spec.value, link.Container) and spec.update is None
            for spec in inputs]
        self._pairs = None

    def _rewrite(self, fgraph, inputs, wrapped_outputs):
        """Apply the mode's rewrites, then break aliasing."""
        from theano_ng.compile import profiling

        profile = self.profile
        optimizer = self.mode.optimizer
        start = time.perf_counter()
        with config.change_flags({
                "compute_test_value": config.compute_test_value_opt, "traceback.limit": config.traceback.compile_limit}):
            optimizer_profile = optimizer(fgraph)
        seconds = time.perf_counter() - start
        profiling.total_graph_opt_time += seconds
        if profile is not None:
            profile.optimizer_time += seconds
            if config.profile_optimizer:
                profile.optimizer_profile = (optimizer, optimizer_profile)
        elif config.profile_optimizer:
            warnings.warn("config.profile_optimizer requires config.profile to be set to True as well")
        insert_deepcopy(fgraph, inputs, wrapped_outputs)

    def optimize_graph_with_cache(self, optimizer, inputs, outputs):
        """Rewrite this maker's kind of graph anew: no rewritten graph is kept on disk, so this is `optimizer` on a fresh graph.

        Parameters
        ----------
        optimizer : callable
            Applied to the new FunctionGraph.
        inputs : list of SymbolicInput
        outputs : list of SymbolicOutput

        Returns
        -------
        object
            What the optimizer returns (its profile).
        """
        fgraph, _ = std_fgraph(inputs, outputs, self.accept_inplace)
        result = optimizer(fgraph)
        self.fgraph = fgraph
        return result

    def alias_pairs(self):
        """The pairs of inputs of which one is changed in place and must not share memory with the other.

        Returns
        -------
        list of (int, int, int)
            Changed input, other input, the one to copy when they share memory. Two shared variables are never a pair: they share
            no memory.
        """
        if self._pairs is None:
            destroyed = destroyed_roots(self.fgraph) if any(
                getattr(node.op, "destroy_map", None) for node in self.fgraph.apply_nodes) else ()
            pairs = []
            for i, variable in enumerate(self.fgraph.inputs):
                if variable not in destroyed:
                    continue
                for j, other in enumerate(self.inputs):
                    if j == i or (self.inputs[i].implicit and other.implicit):
                        continue
                    if other.implicit:
                        pairs.append((i, j, i))
                    elif j > i or self.fgraph.inputs[j] not in destroyed or self.inputs[i].implicit:
                        pairs.append((i, j, j))
            self._pairs = pairs
        return self._pairs

    def create(self, input_storage=None, trustme=False, storage_map=None):
        """Make a function, with cells of its own.

        Parameters
        ----------
        input_storage : list, optional
            For each input a default value, a Container (whose cell the function shares), or None. Default: those of the inputs'
            specifications.
        trustme : bool
            The values are defaults of a function that exists already; a required input may then have one, and is still required.
        storage_map : dict, optional
            Variable -> cell that the function is to use for it.

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
                    # a pickled default
                    value = value.storage[0]
                defaults.append((required, refeed, value if not required else None))
            else:
                cells.append([None])
                if value is None and not required:
                    value = spec.value
                defaults.append((required, refeed, None if required else value))
        from theano_ng.compile import profiling

        profile = self.profile
        start = time.perf_counter()
        import_before = getattr(cmodule, "import_time", 0.0)

        with config.change_flags({"traceback.limit": config.traceback.compile_limit}):
            fn, inputs, outputs = self.linker.make_thunk(input_storage=cells, storage_map=storage_map)
        seconds = time.perf_counter() - start
        profiling.total_time_linker += seconds
        if profile is not None:
            profile.linker_time += seconds
            profile.import_time += getattr(cmodule, "import_time", 0.0) - import_before
            if hasattr(fn, "time_thunks"):
                fn.time_thunks = profile.flag_time_thunks
        function = self.function_builder(
            fn, inputs, outputs, self.indices, self.outputs, defaults, self.unpack_single, self.return_none, self.output_keys, self,
            name=self.name)
        function.profile = profile
        return function


def _check_unused_inputs(inputs, outputs, on_unused_input):
    if on_unused_input is None:
        on_unused_input = config.on_unused_input
    if on_unused_input == "ignore":
        return
    if on_unused_input not in ("warn", "raise"):
        raise ValueError("Invalid value for keyword on_unused_input of theano.function: '%s'.\n"
                         "Valid values are 'raise', 'warn', and 'ignore'." % (on_unused_input,))
    needed = [spec.variable for spec in outputs] + [spec.update for spec in inputs if spec.update is not None]
    used = set(graph.ancestors(needed, blockers=[spec.variable for spec in inputs]))
    for i, spec in enumerate(inputs):
        if spec.variable in used or spec.update is not None:
            continue
        text = ("theano.function was asked to create a function computing outputs given certain inputs, but the provided input variable "
                "at index %i is not part of the computational graph needed to compute the outputs: %s.\n" % (i, spec.variable))
        if on_unused_input == "warn":
            warnings.warn(text + "To disable this warning, you can pass the parameter on_unused_input='ignore' to theano.function.",
                          stacklevel=6)
        else:
            raise UnusedInputError(
                text + "To make this error into a warning, you can pass the parameter on_unused_input='warn' to theano.function. "
                "To disable it completely, use on_unused_input='ignore'.")


def convert_function_input(input):
    """An In for what `function` accepts as an input.

    Parameters
    ----------
    input : SymbolicInput, Variable, or a shortcut
        ``(name, variable)``, ``(variable, value)``, ``((variable, update), value)``, ``(name, variable, value)``,
        ``(name, (variable, update), value)``.

    Raises
    ------
    TypeError
        For anything else, and for constants.
    """
    if isinstance(input, SymbolicInput):
        return input
    if isinstance(input, Constant):
        raise TypeError("A Constant instance is not a legal function input", input)
    if isinstance(input, Variable):
        return In(input)
    if isinstance(input, (list, tuple)):
        rest = list(input)
        if not rest:
            raise TypeError("Nonsensical input specification: %s" % (input,))
        name = None
        if isinstance(rest[0], str):
            name = rest.pop(0)
        if not rest:
            raise TypeError("Nonsensical input specification: %s" % (input,))
        value = update = None
        if len(rest) == 2:
            value = rest[1]
        elif len(rest) > 2:
            raise TypeError("The input specification is not valid: %s" % (input,))
        variable = rest[0]
        if isinstance(variable, (list, tuple)):
            if len(variable) != 2 or value is None:
                raise TypeError(
                    "Invalid input syntax: %s (check documentation or use an In instance)" % (input,))
            variable, update = variable
            if not isinstance(update, Variable):
                raise TypeError("Unknown update type: %s, expected Variable instance" % type(update), input)
        if not isinstance(variable, Variable):
            raise TypeError("Unknown input type: %s, expected Variable instance" % type(variable), input)
        if isinstance(variable, Constant):
            raise TypeError("A Constant instance is not a legal function input", input)
        if value is None:
            return In(variable, name=name, update=update)
        return In(variable, name=name, value=value, update=update)
    raise TypeError("Unknown input type: %s, expected Variable instance" % type(input), input)


def orig_function(inputs, outputs, mode=None, accept_inplace=False, name=None, profile=None, on_unused_input=None, output_keys=None):
    """Compile a graph whose inputs are all explicit (shared variables are inputs here); see `function` for the parameters.

    Returns
    -------
    Function
    """
    from theano_ng.compile.mode import get_mode

    start = time.perf_counter()
    mode = get_mode(mode)
    inputs = [convert_function_input(i) for i in inputs]
    if isinstance(mode, (list, tuple)):
        raise ValueError("We do not support the passing of multiple modes")
    maker_class = getattr(mode, "function_maker", FunctionMaker)
    maker = maker_class(
        inputs, outputs, mode, accept_inplace=accept_inplace, profile=profile, on_unused_input=on_unused_input,
        output_keys=output_keys, name=name)
    with config.change_flags(compute_test_value="off"):
        function = maker.create([getattr(spec, "value", None) for spec in inputs])
    if profile is not None:
        profile.compile_time += time.perf_counter() - start
        profile.nb_nodes = len(function.maker.fgraph.apply_nodes)
    function.name = name
    return function


# Pickling


def _pickle_Function(f):
    values = [container.storage[0] for container in f.input_storage]
    return _constructor_Function, (f.maker, list(f.input_storage), values, f.trust_input)


def _constructor_Function(maker, input_storage, inputs_data, trust_input=False):
    """Make the function of an unpickled maker."""
    if not config.unpickle_function or maker is None:
        return None
    storage = []
    for spec, container, value in zip(maker.inputs, input_storage, inputs_data):
        if isinstance(spec.value, link.Container):
            # a shared variable: its container came with the same pickle
            storage.append(spec.value)
        else:
            storage.append(value)
    f = maker.create(storage, trustme=True)
    f.trust_input = trust_input
    return f


def _pickle_FunctionMaker(self):
    kwargs = dict(
        inputs=self.inputs, outputs=self.outputs, unpack_single=self.unpack_single, return_none=self.return_none, fgraph=self.fgraph,
        mode=self.mode, accept_inplace=self.accept_inplace, function_builder=self.function_builder, profile=self.profile is not None,
        on_unused_input=self.on_unused_input, output_keys=self.output_keys, name=self.name)
    return _constructor_FunctionMaker, (kwargs,)


def _constructor_FunctionMaker(kwargs):
    """Make the maker of an unpickled function: from the rewritten graph, or by rewriting again (reoptimize_unpickled_function)."""
    if not config.unpickle_function:
        return None
    kwargs = dict(kwargs)
    unpack_single, return_none = kwargs.pop("unpack_single"), kwargs.pop("return_none")
    if config.reoptimize_unpickled_function:
        del kwargs["fgraph"]
    if kwargs["profile"]:
        from theano_ng.compile.profiling import ProfileStats

        kwargs["profile"] = ProfileStats(message=kwargs["name"])
    else:
        kwargs["profile"] = None
    kwargs["on_unused_input"] = "ignore"
    maker = FunctionMaker(**kwargs)
    maker.unpack_single, maker.return_none = unpack_single, return_none
    return maker


copyreg.pickle(Function, _pickle_Function)
copyreg.pickle(FunctionMaker, _pickle_FunctionMaker)
