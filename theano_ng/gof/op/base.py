"""Ops: the definitions of what Apply nodes compute; test values while a graph is being built."""

import copy
import warnings

from theano_ng.configdefaults import config
from theano_ng.gof import graph, ports, utils
from theano_ng.gof.c_interface import CLinkerObject, CLinkerOp
from theano_ng.gof.compiler.toolchain import missing_compiler
from theano_ng.gof.graph import Apply, Constant, NoParams, Variable
from theano_ng.gof.native import make_native_thunk, meets_unknown_halves, native_code_of
from theano_ng.gof.op.widening import other_dtype
from theano_ng.gof.utils import MethodNotDefined, get_variable_trace_string, object2


class CallSignature:
    """The attribute ``__signature__`` of Ops, by which editors and `help` know what a call takes; their classes have that of their constructor."""

    def __get__(self, op, cls):
        if op is None:
            raise AttributeError("__signature__")
        return op._call_signature()


class PureOp:
    """Interface of an Op: what it makes of inputs, and what it computes.

    An Op describes a computation; an Apply node is one use of it. Ops are called to make nodes, compared and hashed to merge equal
    nodes, and not changed once they are in use.

    Attributes
    ----------
    default_output : int or None
        The output that a call returns; None: the only output, or the list of all outputs.
    view_map : dict
        Output index to the list of the (one) index of the input of which the output may be a view.
    destroy_map : dict
        Output index to the list of indices of inputs that computing this output overwrites.
    same_for_any_ndim : bool
        Whether the Op computes the same for each element with any number of dimensions, as an addition does and a sum does not. For other
        Ops a clone warns when a replacement gives an input another number of dimensions.
    """

    default_output = None
    same_for_any_ndim = False
    __signature__ = CallSignature()

    def _call_signature(self):
        """What a call of the Op takes, for `inspect.signature`: what `make_node` does."""
        import inspect

        return inspect.signature(self.make_node)

    def make_node(self, *inputs):
        """Check the inputs, make the outputs, and return the Apply node that joins them.

        Raises
        ------
        TypeError
            When the inputs have the wrong types.
        """
        raise MethodNotDefined("make_node", type(self), self.__class__.__name__)

    @classmethod
    def _get_test_value(cls, v):
        """The test value of a variable.

        Raises
        ------
        AttributeError
            When it has none.
        """
        return v.read_test_value()

    def __call__(self, *inputs, **kwargs):
        """Make a node by `make_node` and return its output or outputs.

        Parameters
        ----------
        *inputs : Variable
            The Op's inputs (many Ops convert other objects).
        return_list : bool, optional
            Return a list also when there is one output.
        **kwargs
            Other keyword arguments go to `make_node`.

        Returns
        -------
        Variable or list of Variable
            ``outputs[default_output]`` when the Op has a `default_output`, the only output, or the list of all outputs.

        Notes
        -----
        With ``config.compute_test_value`` other than 'off' the outputs get a ``tag.test_value``, computed from those of the inputs.
        """
        return_list = kwargs.pop("return_list", False) if kwargs else False
        node = self.make_node(*inputs, **kwargs)
        outputs = node.outputs
        for output in outputs:
            if not hasattr(output.tag, "trace"):  # made by make_variable, not by calling the Type
                utils.add_tag_trace(output)
        if config.compute_test_value != "off":
            compute_test_value(node)
        default = self.default_output
        if default is not None:
            if not 0 <= default < len(outputs):
                raise AttributeError(
                    "%s.default_output is out of range: %d of %d outputs." % (self, default, len(outputs))
                )
            result = outputs[default]
            return [result] if return_list else result
        if return_list or len(outputs) != 1:
            return list(outputs)
        return outputs[0]

    def fails_on_values(self, node):
        """Whether computing a node can raise for some values of its inputs, although it did not for others of the same shapes.

        True when nothing is known. A function whose state is overwritten in place orders its nodes by it, and saves the state where it has to.
        A subclass in another package says it again: it may do more.
        """
        return True

    def takes_memory(self, node):
        """Return True if computing a node allocates memory, which can fail, where the arguments of the function are contiguous.

        This default returns True. The result is used as that of `fails_on_values`, for the native code of the package's Ops.
        """
        return True

    # `grad(inputs, output_grads)` is not defined here: its absence tells `gradient.grad` that the Op has none.

    def L_op(self, inputs, outputs, output_grads):
        """The vector-Jacobian product; `grad` by default.

        Parameters
        ----------
        inputs, outputs, output_grads : list of Variable

        Returns
        -------
        list of Variable
            One for each input.
        """
        return self.grad(inputs, output_grads)

    def R_op(self, inputs, eval_points):
        """The Jacobian-vector product.

        Parameters
        ----------
        inputs : list of Variable
        eval_points : list of Variable or None
            None for an input that does not depend on the variable of differentiation.

        Returns
        -------
        list of Variable or None
            One for each output.
        """
        raise NotImplementedError(
            "%s of class %s does not implement R_op. If this is a theano_ng op, write to the developers' list; otherwise define the"
            " R_op method of the class" % (self, self.__class__.__name__)
        )

    def perform(self, node, inputs, output_storage, params=None):
        """Compute the outputs in Python.

        Parameters
        ----------
        node : Apply
        inputs : list
            Values; not to be changed unless `destroy_map` says so.
        output_storage : list of list
            Cells of one element. A cell may hold a value of an earlier call, or anything of the right type.
        params : object
            Only passed when the Op has params.
        """
        hint = has_c_implementation(self) and missing_compiler()
        if hint:
            hint = "The Op has C code only, and there is " + hint
        else:
            hint = "Did you used Theano flags mode=FAST_COMPILE? You can use optimizer=fast_compile instead."
        raise MethodNotDefined("perform", type(self), self.__class__.__name__, hint)

    def do_constant_folding(self, node):
        """Whether a node whose inputs are all constants may be replaced by its value."""
        return True


class Op(object2, PureOp, CLinkerOp):
    """Base class of Ops.

    A subclass defines `make_node` (or `itypes` and `otypes`), and one of `perform`, `c_code` and `make_thunk`. Equality, hash and
    text follow from `__props__`. An instance may be made directly and its methods set as attributes.

    Attributes
    ----------
    check_input : bool, optional
        Whether types check the Op's inputs in C code; ``config.check_input`` by default.
    _f16_ok : bool, optional
        Whether the C code knows float16. Without it nodes with float16 run in Python.
    use_c_code : bool
        False: where either can run, `perform` does. Linkers that have nothing but C use C all the same, and so do comparisons of both.
    """

    use_c_code = True

    def prepare_node(self, node, storage_map, compute_map, impl):
        """Called before a thunk of the node is made; the place to get ready what one implementation needs.

        Parameters
        ----------
        node : Apply
        storage_map, compute_map : dict
        impl : {None, 'c', 'py'}
        """

    def make_c_thunk(self, node, storage_map, compute_map, no_recycling):
        """A thunk that runs native or compiled code.

        Raises
        ------
        NotImplementedError
            When the C code is refused, for float16.
        MethodNotDefined
            When the Op has no C code for the node.
        """
        code = native_code_of(node)
        if code is not None:
            inputs = [storage_map[v] for v in node.inputs]
            outputs = [storage_map[v] for v in node.outputs]
            thunk = make_native_thunk(node, code, inputs, outputs)
        elif meets_unknown_halves(node):
            print("Disabling C code for %s due to unsupported float16" % (self,))
            raise NotImplementedError("float16")
        else:
            thunk = ports.link_node_in_c(node, storage_map, no_recycling)
        if compute_map is not None:
            thunk.computed = [compute_map[v] for v in node.outputs if v in compute_map]
        return thunk

    def make_py_thunk(self, node, storage_map, compute_map, no_recycling, debug=False):
        """A thunk that calls `perform`.

        Parameters
        ----------
        debug : bool
            Whether to call `debug_perform` instead, where the Op has one.
        """
        inputs = [storage_map[v] for v in node.inputs]
        outputs = [storage_map[v] for v in node.outputs]
        computed = [compute_map[v] for v in node.outputs] if compute_map is not None else []
        implementation = self.debug_perform if debug and hasattr(self, "debug_perform") else self.perform

        def first_call(*args):
            # Only this call is looked at: later ones reach the implementation directly.
            nonlocal perform
            result = implementation(*args)
            perform = implementation
            if any(other_dtype(variable, cell[0]) for variable, cell in zip(node.inputs, inputs)):
                return result  # said before, of the node that is to blame
            for variable, cell in zip(node.outputs, outputs):
                wrong = other_dtype(variable, cell[0])
                if wrong is not None:
                    warnings.warn(wrong, stacklevel=2)
            return result

        perform = first_call
        params = node.run_params()
        if params is NoParams:

            def thunk():
                result = perform(node, [cell[0] for cell in inputs], outputs)
                for flag in computed:
                    flag[0] = True
                return result

            thunk.params = None
        else:
            params = node.params_type.filter(params, strict=False, allow_downcast=None)

            def thunk():
                result = perform(node, [cell[0] for cell in inputs], outputs, params)
                for flag in computed:
                    flag[0] = True
                return result

            thunk.params = params
        thunk.inputs = inputs
        thunk.outputs = outputs
        thunk.perform = implementation
        thunk.lazy = False
        return thunk

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        """A callable without arguments that computes the node's outputs from its inputs.

        Parameters
        ----------
        node : Apply
        storage_map : dict
            Variable to the cell (list of one element) that holds its value.
        compute_map : dict
            Variable to a list of one element: whether it has been computed.
        no_recycling : list of Variable
            Outputs whose old values may not be reused.
        impl : {None, 'c', 'py'}
            None: native or C code where the Op has some, `perform` otherwise. 'py': `perform`, and C code for an Op that has nothing else.

        Returns
        -------
        callable
            With attributes `inputs`, `outputs` (lists of cells) and `lazy`. Called, it sets the outputs' flags in `compute_map`.
        """
        if impl not in (None, "c", "py"):
            raise ValueError("impl has to be None, 'c' or 'py', not %r" % (impl,))
        prefers_c = self.use_c_code and getattr(self, "_op_use_c_code", True)  # the second is an older name
        if impl == "c" or (impl is None and has_c_implementation(self) and (prefers_c or not has_perform(self))):
            self.prepare_node(node, storage_map=storage_map, compute_map=compute_map, impl="c")
            try:
                return self.make_c_thunk(node, storage_map, compute_map, no_recycling)
            except (NotImplementedError, MethodNotDefined):
                if impl == "c":
                    raise
        elif not has_perform(self) and has_c_implementation(self):
            try:
                self.prepare_node(node, storage_map=storage_map, compute_map=compute_map, impl="c")
                return self.make_c_thunk(node, storage_map, compute_map, no_recycling)
            except (NotImplementedError, MethodNotDefined):
                pass  # there is no compiler, or no C code for this node: the call of `perform` will say so
        self.prepare_node(node, storage_map=storage_map, compute_map=compute_map, impl="py")
        return self.make_py_thunk(node, storage_map, compute_map, no_recycling)

    def make_node(self, *inputs):
        """Make a node of an Op that declares `itypes` and `otypes`."""
        if not hasattr(self, "itypes"):
            raise NotImplementedError("You can either define itypes and otypes, or implement make_node.")
        if not hasattr(self, "otypes"):
            raise NotImplementedError("%s defines itypes but not otypes: define both, or implement make_node." % self)
        if len(inputs) != len(self.itypes):
            raise ValueError("We expected %d inputs but got %d." % (len(self.itypes), len(inputs)))
        for i, (variable, expected) in enumerate(zip(inputs, self.itypes)):
            if not isinstance(variable, Variable) or variable.type != expected:
                raise TypeError(
                    "We expected inputs of types '%s' but got types '%s' (input %d of %s)"
                    % (str(list(self.itypes)), str([getattr(v, "type", type(v)) for v in inputs]), i, self)
                )
        return Apply(self, inputs, [otype() for otype in self.otypes])

    def get_params(self, node):
        """The params of a node: by default, when `params_type` is a ParamsType, the attributes of the Op that it names."""
        params_type = getattr(self, "params_type", None)
        if params_type is not None and hasattr(params_type, "fields"):
            missing = [field for field in params_type.fields if not hasattr(self, field)]
            if missing:
                raise AttributeError(
                    "%s: cannot get the params of its ParamsType, the Op has no attribute %s"
                    % (self, ", ".join(missing))
                )
            return params_type.get_params(self)
        raise MethodNotDefined("get_params", type(self), self.__class__.__name__)


def _defined(op, name):
    """Whether an Op has a method of its own: set on the instance, or overridden in a subclass of Op."""
    if name in getattr(op, "__dict__", ()):
        return True
    return getattr(type(op), name, None) is not getattr(Op, name)


def has_perform(op):
    """Whether the Op has a Python implementation."""
    return _defined(op, "perform")


def has_c_implementation(op):
    """Whether the Op has native code, or C code for at least some nodes."""
    return hasattr(op, "native_code") or _defined(op, "c_code") or _defined(op, "make_c_thunk")


# ---------------------------------------------------------------- test values


def compute_test_value(node):
    """Compute the test values of a node's outputs from those of its inputs.

    Parameters
    ----------
    node : Apply

    Raises
    ------
    ValueError
        When an input has none and ``config.compute_test_value`` is 'raise'. Errors of the computation itself are passed on, with a note
        about the node and its inputs; with 'pdb', after the debugger.
    """
    storage_map = {}
    compute_map = {}
    for i, ins in enumerate(node.inputs):
        try:
            storage_map[ins] = [PureOp._get_test_value(ins)]
            compute_map[ins] = [True]
        except AttributeError:
            if hasattr(ins.tag, "test_value"):
                raise
            _tell_missing_input(i, node)
            return
    destroyed = {i for places in (getattr(node.op, "destroy_map", None) or {}).values() for i in places}
    for i in destroyed:
        # The test value of the input has to survive the Op that overwrites its argument.
        storage_map[node.inputs[i]] = [copy.deepcopy(storage_map[node.inputs[i]][0])]
    for output in node.outputs:
        storage_map[output] = [None]
        compute_map[output] = [False]
    own_thunk = type(node.op).make_thunk is not Op.make_thunk
    if own_thunk or not has_perform(node.op):
        thunk = node.op.make_thunk(node, storage_map, compute_map, no_recycling=[])
    else:
        node.op.prepare_node(node, storage_map=storage_map, compute_map=compute_map, impl="py")
        thunk = node.op.make_py_thunk(node, storage_map, compute_map, no_recycling=[])
    try:
        required = thunk()
    except Exception as failure:
        failure.add_note(_story_of_test_values(node, [storage_map[ins][0] for ins in node.inputs]))
        if config.compute_test_value == "pdb":
            _debug()
        raise
    if required:
        raise AssertionError("%s asked for more inputs (%s), though all have been given" % (node, required))
    for output in node.outputs:
        output.tag.test_value = storage_map[output][0]


def _tell_missing_input(i, node):
    """Handle an input without test value as ``config.compute_test_value`` demands."""
    message = "Cannot compute test value: input %i (%s) of Op %s missing default value" % (i, node.inputs[i], node)
    trace = get_variable_trace_string(node.inputs[i])
    if config.compute_test_value == "raise":
        raise ValueError("%s. %s" % (message, trace))
    if config.compute_test_value == "warn":
        message = "Warning, " + message
    missing_test_message("%s. %s" % (message, trace))


def _story_of_test_values(node, values):
    """For errors: which node was to be computed, from what, and where its inputs come from."""
    lines = [
        "This happened while the test value of %s was computed (config.compute_test_value=%r), from"
        % (node, config.compute_test_value)
    ]
    for i, (ins, value) in enumerate(zip(node.inputs, values)):
        shape = getattr(value, "shape", None)
        what = (
            "shape %s, dtype %s" % (shape, getattr(value, "dtype", None)) if shape is not None else "%.200r" % (value,)
        )
        lines.append(
            "input %i: %s of type %s, test value with %s%s"
            % (i, ins, ins.type, what, get_variable_trace_string(ins).rstrip())
        )
    return "\n".join(lines)


def _debug():
    """Start the debugger: where the current exception was raised, or here."""
    import pdb
    import sys

    trace = sys.exc_info()[2]
    if trace is None:
        pdb.set_trace()
    else:
        pdb.post_mortem(trace)


def get_test_value(v):
    """The test value of a variable, or of what becomes one.

    Parameters
    ----------
    v : Variable or object
        An object that is no variable is made a tensor first.

    Raises
    ------
    AttributeError
        When there is none.
    """
    if not isinstance(v, Variable):
        v = ports.as_variable(v)
    return v.read_test_value()


def missing_test_message(msg):
    """Handle a missing test value as ``config.compute_test_value`` demands: raise AttributeError, warn, start the debugger, or ignore it.

    Parameters
    ----------
    msg : str
        The text of the error or warning.
    """
    action = config.compute_test_value
    if action == "raise":
        raise AttributeError(msg)
    if action == "warn":
        warnings.warn(msg, stacklevel=2)
    if action == "pdb":
        print(msg)
        _debug()


def debug_error_message(msg):
    """Tell that a debug check failed: ValueError when test values are computed, a warning when the policy is 'warn'.

    Parameters
    ----------
    msg : str
    """
    action = config.compute_test_value
    if action in ("raise", "ignore", "pdb"):
        raise ValueError(msg)
    if action == "warn":
        warnings.warn(msg, stacklevel=2)


def debug_assert(condition, msg=None):
    """Assert on test values: acts like `debug_error_message` (with AssertionError) when `condition` is false.

    Parameters
    ----------
    condition : bool
    msg : str, optional
    """
    if msg is None:
        msg = "debug_assert failed"
    if not condition:
        action = config.compute_test_value
        if action in ("raise", "ignore", "pdb"):
            raise AssertionError(msg)
        if action == "warn":
            warnings.warn(msg, stacklevel=2)


def get_debug_values(*args):
    """The test values of variables, for checks while a graph is built.

    ::

        for val_1, ..., val_n in get_debug_values(var_1, ..., var_n):
            if some_condition(val_1, ..., val_n):
                debug_error_message("message")

    Returns
    -------
    list
        One tuple with the values; empty when test values are off or one is missing (which may raise or warn, see
        `missing_test_message`).
    """
    if config.compute_test_value == "off":
        return []
    values = []
    for i, arg in enumerate(args):
        try:
            values.append(get_test_value(arg))
        except AttributeError:
            name = "" if getattr(arg, "name", None) is None else "(%r)" % arg.name
            missing_test_message("Argument %i%s has no test value" % (i, name))
            return []
    return [tuple(values)]


# Op class to the name of the attribute that holds its inner function; Ops such as Scan and OpFromGraph register themselves.
ops_with_inner_function = {}
