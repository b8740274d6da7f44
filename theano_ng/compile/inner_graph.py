"""The class `InnerGraph`: a graph inside an Op, with the functions that are compiled from it on demand."""

from theano_ng.compile.function import function
from theano_ng.compile.graph_cache import package_fingerprint
from theano_ng.compile.mode import inner_mode
from theano_ng.compile.pfunc import rebuild_collect_shared
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.gof import ports
from theano_ng.gof.fg import FunctionGraph, MissingInputError
from theano_ng.gof.graph import Constant, Variable, clone_get_equiv, io_toposort

__all__ = ["InnerGraph", "substitute"]


def substitute(outputs, replacements):
    """Copy a graph with other inputs. The graphs of the replacing variables are not copied.

    Parameters
    ----------
    outputs : list of Variable
    replacements : dict
        Input variable -> the variable that replaces it in the copy.

    Returns
    -------
    list of Variable
        The outputs of the copy.
    """
    outputs = list(outputs)
    memo = clone_get_equiv(list(replacements), outputs, copy_inputs=False, copy_orphans=False, memo=dict(replacements))
    return [memo[o] for o in outputs]


def _with_own_constants(outputs, replacements):
    """Copy a graph with other inputs and with copies of its constants.

    Constants are copied because a variable can belong to only one FunctionGraph, whereas rewriting inserts the outputs
    into the graphs of several functions.
    """
    read = [v for node in io_toposort(list(replacements), outputs) for v in node.inputs]
    copies = {v: v.clone() for v in [*read, *outputs] if isinstance(v, Constant)}
    return substitute(outputs, {**copies, **replacements})


class InnerGraph:
    """The graph inside an Op: its variables, and one compiled function for each mode in which it was called.

    The graph is a copy that belongs to the Op. Later changes to the given variables do not affect it, and its own
    variables are never changed. The graph is compiled at the first call. If `compile.mode.inner_mode` returns another
    mode, the graph is compiled again in that mode: this is how DebugMode checks inner nodes. Pickles and deep copies
    contain the graph, but not its functions, which are compiled again.

    Two instances are equal if they compute the same function in the same way: they have equal graphs, equal types of
    inputs, the same shared variables and equal arguments of `function`. Names and stack traces are not compared.

    Parameters
    ----------
    inputs : list of Variable
        Free variables. Constants and shared variables are not permitted.
    outputs : list of Variable
        Variables that depend only on `inputs`, constants and shared variables.
    arguments : dict, optional
        Arguments for `theano_ng.function`. `updates` and `givens` are not allowed.
    op_name : str
        The name of the Op's class, for error messages.

    Attributes
    ----------
    inputs : list of Variable
        The copies of the given inputs, then a variable for each element of `shared`.
    given : list of Variable
        The variables that `inputs` replace. In a copy or a loaded pickle, they are `inputs` themselves.
    outputs : list of Variable
    shared : list of SharedVariable
        The shared variables on which the given outputs depend. In this graph they are inputs: the caller passes their
        values.
    arguments : dict
    functions : dict
        `Mode.inner_key` (None for the graph's own mode) -> the function that was compiled in this mode.

    Raises
    ------
    TypeError
        If inputs or outputs are not permitted, or if `function` does not accept the arguments.
    MissingInputError
        If the outputs depend on another variable.

    Examples
    --------
    >>> from theano_ng import tensor
    >>> x, y = tensor.dscalars("x", "y")
    >>> graph = InnerGraph([x, y], [x + y * 2])
    >>> graph(1.0, 2.0)
    [array(5.)]
    >>> graph == InnerGraph([y, x], [y + x * 2]), graph == InnerGraph([x, y], [y + x * 2])
    (True, False)
    """

    def __init__(self, inputs, outputs, arguments=None, op_name="InnerGraph"):
        arguments = dict(arguments or {})
        self._check(inputs, outputs, arguments, op_name)
        given = set(inputs)
        self.shared = []
        for variable in _leaves(inputs, outputs):
            if isinstance(variable, SharedVariable):
                self.shared.append(variable)
            elif variable not in given and not isinstance(variable, Constant):
                raise MissingInputError(
                    "The outputs depend on %s, which is neither an input, nor a constant or shared variable" % variable,
                    variable=variable,
                )
        self.given = list(inputs) + self.shared
        self.inputs = [v.type(v.name) for v in self.given]
        self.outputs = rebuild_collect_shared(
            list(outputs), [], replace=list(zip(self.given, self.inputs)), copy_inputs_over=True
        )[1]
        self.arguments = arguments
        self._start()

    def _start(self):
        self.functions = {}
        self._key = self._hash = self._text = None

    @staticmethod
    def _check(inputs, outputs, arguments, op_name):
        if not isinstance(outputs, (list, tuple)):
            raise TypeError("outputs must be list, got %s" % type(outputs))
        if not isinstance(inputs, (list, tuple)):
            raise TypeError("inputs must be list, got %s" % type(inputs))
        for variable in list(inputs) + list(outputs):
            if not isinstance(variable, Variable):
                raise TypeError(
                    "Inputs and outputs should be Variable instances, got %r of type %s" % (variable, type(variable))
                )
        for forbidden in ("updates", "givens"):
            if forbidden in arguments:
                raise TypeError("%s are not allowed here: the Op only computes the outputs from its inputs" % forbidden)
        unknown = set(arguments) - set(function.__code__.co_varnames[2 : function.__code__.co_argcount])
        if unknown:
            raise TypeError("%s: neither %s nor function has such an argument" % (", ".join(sorted(unknown)), op_name))
        if len(set(inputs)) != len(inputs):
            raise TypeError("an input is given twice in the list %s" % (inputs,))
        for variable in inputs:
            if isinstance(variable, (Constant, SharedVariable)):
                raise TypeError(
                    "%s cannot be an input, because constants and shared variables already have values; give a variable "
                    "without a value" % variable
                )

    @classmethod
    def of_parts(cls, inputs, outputs, shared, arguments):
        """Return an InnerGraph that uses the given variables without copying them.

        Parameters
        ----------
        inputs, outputs : list of Variable
            The variables of a graph that is used nowhere else. The last inputs represent `shared`.
        shared : list of SharedVariable
        arguments : dict
        """
        graph = cls.__new__(cls)
        graph.inputs, graph.outputs, graph.shared, graph.arguments = inputs, outputs, shared, arguments
        graph.given = inputs
        graph._start()
        return graph

    def clone(self, **arguments):
        """Return a copy of the graph with separate variables and without compiled functions.

        Parameters
        ----------
        **arguments
            Arguments of `function` that replace the arguments of this graph.
        """
        inputs = [v.clone() for v in self.inputs]
        return self.of_parts(inputs, self.on(inputs), list(self.shared), {**self.arguments, **arguments})

    def __getstate__(self):
        state = {"inputs": self.inputs, "outputs": self.outputs, "shared": self.shared, "arguments": self.arguments}
        if self._text is not None:
            state["described"] = package_fingerprint(), self._text
        return state

    def __setstate__(self, state):
        version, text = state.pop("described", (None, None))
        self.__dict__.update(state)
        self.given = self.inputs
        self._start()
        if version is not None and version == package_fingerprint():
            self._text = text

    # -- computation

    @property
    def n_given(self):
        """The number of inputs that do not represent shared variables."""
        return len(self.inputs) - len(self.shared)

    def on(self, inputs):
        """Return a copy of the outputs that depends on the given variables instead of `self.inputs`.

        The constants are copied, too.

        Parameters
        ----------
        inputs : list of Variable
            For each element of `self.inputs`, a variable of its type.

        Returns
        -------
        list of Variable
        """
        return _with_own_constants(self.outputs, dict(zip(self.inputs, inputs)))

    def infer_shape(self, inputs, shapes):
        """Return the shapes of the outputs as expressions of the shapes and, if necessary, the values of the inputs.

        Constants are copied, as in `on`.

        Parameters
        ----------
        inputs : list of Variable
            For each element of `self.inputs`, a variable of its type.
        shapes : list of tuple, or None
            The lengths of each input: variables, or arguments of `ShapeFeature.unpack`. None: the input has no shape.

        Returns
        -------
        list of tuple of Variable, or None
            The lengths of each output. None: the output has no shape.
        """
        feature = ports.shape_feature()
        FunctionGraph([], []).attach_feature(feature)
        replacements = dict(zip(self.inputs, inputs))
        for local, shape in zip(self.inputs, shapes):
            if shape is None:
                continue
            lengths = []
            for i, length in enumerate(shape):
                if local.type.broadcastable[i]:
                    lengths.append(1)
                    continue
                stand_in = ports.size_type(0)()
                replacements[stand_in] = length if isinstance(length, Variable) else feature.unpack(length, local)
                lengths.append(stand_in)
            feature.set_shape(local, lengths)
        inner = [feature.shape_of[out] for out in self.outputs]
        lengths = [length for shape in inner if shape is not None for length in shape]
        flat = iter(_with_own_constants(lengths, replacements))
        return [None if shape is None else tuple(next(flat) for _ in shape) for shape in inner]

    def describe_for_cache(self, key, depth):
        """Return a text that describes the graph in a cache key; see `graph_cache`."""
        if self._text is None:
            # Keep the text: otherwise a graph with nested graphs would be traversed again for each key.
            self._text = key.inner_graph(self.inputs, self.outputs)
        return "%s %s %s" % (self._text, key.text(self.shared, depth), key.text(self.arguments, depth))

    @property
    def fn(self):
        """The function in the graph's own mode. It is None if it has not been compiled yet."""
        return self.functions.get(None)

    def compiled(self):
        """Return the compiled function for the mode that `inner_mode` returns, or for the graph's own mode."""
        mode = inner_mode()
        key = None if mode is None else mode.inner_key()
        found = self.functions.get(key)
        if found is None:
            arguments = {"on_unused_input": "ignore", **self.arguments}
            if mode is not None:
                arguments["mode"] = mode
            found = self.functions[key] = self.compile(arguments)
        return found

    def compile(self, arguments):
        """Compile a function that computes the outputs, and return it.

        Parameters
        ----------
        arguments : dict
            Arguments for `function`.
        """
        return function(self.inputs, self.outputs, **arguments)

    def __call__(self, *values):
        """Compute the values of the outputs, and return them as a list.

        Parameters
        ----------
        *values : array_like
            The values of `inputs`, including the values of shared variables.
        """
        return self.compiled()(*values)

    def free(self):
        """Free the intermediate values that the functions keep between calls (``allow_gc=False``)."""
        for compiled in self.functions.values():
            compiled.free()

    # -- identity

    def _identity(self):
        """Return a hashable key. Equal graphs have equal keys.

        In the key, numbers stand for the variables: first the inputs, then the constants, then the results of the nodes
        in topological order.
        """
        if self._key is None:
            numbers = {v: i for i, v in enumerate(self.inputs)}
            parts = [
                tuple(v.type for v in self.inputs),
                tuple(self.shared),
                tuple(sorted(self.arguments)),
                tuple(_hashable(self.arguments[name]) for name in sorted(self.arguments)),
            ]
            nodes = io_toposort(self.inputs, self.outputs)
            for variable in [v for node in nodes for v in node.inputs] + self.outputs:
                if isinstance(variable, Constant) and variable not in numbers:
                    numbers[variable] = len(numbers)
                    parts.append(variable.merge_signature())
            for node in nodes:
                parts.append((node.op, tuple(numbers[v] for v in node.inputs), tuple(v.type for v in node.outputs)))
                for variable in node.outputs:
                    numbers[variable] = len(numbers)
            parts.append(tuple(numbers[v] for v in self.outputs))
            self._key = tuple(parts)
        return self._key

    def __eq__(self, other):
        return self is other or (
            type(self) is type(other) and hash(self) == hash(other) and self._identity() == other._identity()
        )

    def __hash__(self):
        if self._hash is None:
            self._hash = hash(self._identity())
        return self._hash

    def __str__(self):
        return "%s{%s}" % (type(self).__name__, ", ".join(map(str, self.outputs)))


def _leaves(inputs, outputs):
    """Return the inputs and the variables without an owner on which the outputs depend.

    The search does not continue from an input to the variables from which it is computed.
    """
    blocked = set(inputs)
    reached, todo, leaves = set(), list(reversed(outputs)), []
    while todo:
        variable = todo.pop()
        if variable in reached:
            continue
        reached.add(variable)
        if variable.owner is None or variable in blocked:
            leaves.append(variable)
        else:
            todo.extend(reversed(variable.owner.inputs))
    return leaves


def _hashable(value):
    """Return a part of a key for an argument of `function`: the value itself, or its id if it is not hashable."""
    try:
        hash(value)
    except TypeError:
        return "not hashable", id(value)
    return value
