"""Ops, which define the computations of Apply nodes, and test values of graphs under construction."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from theano_ng.configdefaults import config
from theano_ng.gof import ports, utils
from theano_ng.gof.c_interface import CLinkerOp
from theano_ng.gof.compiler.toolchain import missing_compiler
from theano_ng.gof.graph import Apply, NoParams, Variable
from theano_ng.gof.native import make_native_thunk, native_code_of, reads_raw_float16
from theano_ng.gof.op.dtype_check import dtype_mismatch
from theano_ng.gof.utils import MethodNotDefined, get_variable_trace_string, object2

if TYPE_CHECKING:
    import inspect

    from theano_ng.gof.aliases import Cell, ComputeMap, Recycling, StorageMap, Thunk


class CallSignature:
    """The descriptor of the attribute ``__signature__``, from which editors and `help` learn the arguments of a call.

    For an instance of an Op, this is the signature of `make_node`. For an Op class, it is that of the constructor.
    """

    def __get__(self, op: PureOp | None, cls: type[PureOp]) -> inspect.Signature:
        if op is None:
            raise AttributeError("__signature__")
        return op._call_signature()


class PureOp:
    """The interface of an Op, which makes nodes and computes their outputs.

    An Op describes a computation; an Apply node is one use of the computation. A call of an Op makes a node. Ops are
    compared and hashed, so that equal nodes can be merged. They must not be changed once they are in use.

    Attributes
    ----------
    default_output : int or None
        The index of the output that a call returns. If None, a call returns the only output, or the list of all
        outputs.
    view_map : dict
        Index of an output -> list of one index: the output may be a view of the input with this index.
    destroy_map : dict
        Index of an output -> list of indices of inputs that are overwritten when this output is computed.
    same_for_any_ndim : bool
        Whether the Op performs the same computation on each element for any number of dimensions, as an addition does
        (a sum does not). For other Ops, a clone warns if a replacement gives an input another number of dimensions.
    takes_undefined_gradients : bool
        Whether `L_op` accepts undefined gradients of outputs (of NullType) and decides which gradients of inputs are
        undefined. For other Ops, the gradient of an input is undefined if a continuous output with an undefined
        gradient depends on this input.
    """

    default_output: int | None = None
    same_for_any_ndim = False
    takes_undefined_gradients = False
    __signature__ = CallSignature()

    def _call_signature(self) -> inspect.Signature:
        """Return the signature of a call for `inspect.signature`: the signature of `make_node`."""
        import inspect

        return inspect.signature(self.make_node)

    def make_node(self, *inputs: Any) -> Apply:
        """Check the inputs, make the outputs, and return an Apply node with these inputs and outputs.

        Raises
        ------
        TypeError
            If the inputs have the wrong types.
        """
        raise MethodNotDefined("make_node", type(self), self.__class__.__name__)

    @classmethod
    def _get_test_value(cls, v: Any) -> Any:
        """Return the test value of a variable.

        Raises
        ------
        AttributeError
            If the variable has no test value.
        """
        return v.read_test_value()

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Make a node by `make_node` and return its output or outputs.

        Parameters
        ----------
        *inputs : Variable
            The inputs of the Op. Many Ops convert other objects.
        return_list : bool, optional
            Whether to return a list even if there is only one output.
        **kwargs
            Other keyword arguments are passed to `make_node`.

        Returns
        -------
        Variable or list of Variable
            ``outputs[default_output]`` if the Op has a `default_output`, otherwise the only output, or the list of all
            outputs.

        Notes
        -----
        With ``config.compute_test_value`` other than 'off', the outputs get a ``tag.test_value``, which is computed
        from the test values of the inputs.
        """
        return_list = kwargs.pop("return_list", False) if kwargs else False
        node = self.make_node(*inputs, **kwargs)
        if not isinstance(node, Apply):
            raise TypeError("make_node of %s returned %r; it has to return an Apply node" % (self, node))
        outputs = node.outputs
        for output in outputs:
            if not hasattr(output.tag, "trace"):  # `make_variable`, unlike a call of the Type, sets no trace
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

    def fails_on_values(self, node: Apply) -> bool:
        """Return True if computing a node can raise an error for some values, although other values of the same shapes
        do not.

        By default, return True, because nothing is known about the Op. The result is used if nodes overwrite a
        function's state in place: it influences the order of the nodes, and whether the function saves the state first.
        A subclass outside this package has to define the method again, because its computation may differ.
        """
        return True

    def takes_memory(self, node: Apply) -> bool:
        """Return True if computing a node allocates memory when the function's arguments are contiguous.

        An allocation can fail, so the result is used in the same way as the result of `fails_on_values`. By default,
        return True.
        """
        return True

    # `grad(inputs, output_grads)` is not defined here, so that `gradient.grad` can recognize an Op without gradient.

    def L_op(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], output_grads: Sequence[Variable]
    ) -> Sequence[Variable]:
        """Return the vector-Jacobian product. By default, call `grad`.

        Parameters
        ----------
        inputs, outputs, output_grads : list of Variable

        Returns
        -------
        list of Variable
            One gradient for each input.
        """
        return self.grad(inputs, output_grads)  # type: ignore[attr-defined]

    def R_op(self, inputs: Sequence[Variable], eval_points: Sequence[Variable | None]) -> Sequence[Variable | None]:
        """Return the Jacobian-vector product.

        Parameters
        ----------
        inputs : list of Variable
        eval_points : list of Variable or None
            The tangents of the inputs. None for an input that does not depend on the variables of differentiation.

        Returns
        -------
        list of Variable or None
            One product for each output.
        """
        raise NotImplementedError(
            "%s of class %s does not implement R_op. If this is a theano_ng op, write to the developers' list; otherwise define the"
            " R_op method of the class" % (self, self.__class__.__name__)
        )

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Sequence[Cell], params: Any = None) -> None:
        """Compute the outputs in Python.

        Parameters
        ----------
        node : Apply
        inputs : list
            The values of the inputs. They must not be changed unless `destroy_map` allows it.
        output_storage : list of list
            Cells: lists of one element. A cell may contain the value of an earlier call, or any value of the right
            type. The method may overwrite this value, or replace it.
        params : object
            The result of `get_params` for the node. It is passed only if the Op has params.
        """
        hint = has_c_implementation(self) and missing_compiler()
        if hint:
            hint = "The Op has C code only, and there is " + hint
        else:
            hint = "Did you used Theano flags mode=FAST_COMPILE? You can use optimizer=fast_compile instead."
        raise MethodNotDefined("perform", type(self), self.__class__.__name__, hint)

    def do_constant_folding(self, node: Apply) -> bool:
        """Return True if a node whose inputs are all constants may be replaced by its value."""
        return True


#: The keys are pairs of an Op and an implementation for which a thunk was made: "py" or "c". None: they are not recorded.
implementations: dict[tuple[Any, str], None] | None = None


class Op(object2, PureOp, CLinkerOp):
    """A base class of Ops.

    A subclass defines `make_node` (or `itypes` and `otypes`), and one of `perform`, `c_code` and `make_thunk`.
    `__props__` determines equality, hash and string. Instead of a subclass, methods may be set as attributes of an
    instance.

    Attributes
    ----------
    check_input : bool, optional
        Whether types check the Op's inputs in C code. By default, ``config.check_input``.
    _f16_ok : bool, optional
        Whether the C code supports float16. By default, it does not, and nodes with float16 run in Python.
    use_c_code : bool
        If False, `perform` runs if both implementations can run. Linkers that support only C code still use the C code.
        Code that compares both implementations also uses the C code.
    """

    use_c_code = True

    def prepare_node(
        self, node: Apply, storage_map: StorageMap, compute_map: ComputeMap | None, impl: str | None
    ) -> None:
        """Prepare one implementation of the node. The method is called before a thunk of the node is made.

        Parameters
        ----------
        node : Apply
        storage_map, compute_map : dict
        impl : {None, 'c', 'py'}
        """

    def make_c_thunk(
        self, node: Apply, storage_map: StorageMap, compute_map: ComputeMap | None, no_recycling: Recycling
    ) -> Thunk:
        """Return a thunk that runs native or compiled code.

        Raises
        ------
        NotImplementedError
            If the C code does not support float16.
        MethodNotDefined
            If the Op has no C code for the node.
        """
        if implementations is not None:
            implementations[self, "c"] = None
        code = native_code_of(node)
        if code is not None:
            inputs = [storage_map[v] for v in node.inputs]
            outputs = [storage_map[v] for v in node.outputs]
            thunk = make_native_thunk(node, code, inputs, outputs)
        elif reads_raw_float16(node):
            print("Disabling C code for %s due to unsupported float16" % (self,))
            raise NotImplementedError("float16")
        else:
            thunk = ports.link_node_in_c(node, storage_map, no_recycling)
        if compute_map is not None:
            thunk.computed = [compute_map[v] for v in node.outputs if v in compute_map]
        return thunk

    def make_py_thunk(
        self,
        node: Apply,
        storage_map: StorageMap,
        compute_map: ComputeMap | None,
        no_recycling: Recycling,
        debug: bool = False,
    ) -> Thunk:
        """Return a thunk that calls `perform`.

        Parameters
        ----------
        debug : bool
            Whether to call `debug_perform` instead, if the Op has one.
        """
        if implementations is not None:
            implementations[self, "py"] = None
        inputs = [storage_map[v] for v in node.inputs]
        outputs = [storage_map[v] for v in node.outputs]
        computed = [compute_map[v] for v in node.outputs] if compute_map is not None else []
        implementation = self.debug_perform if debug and hasattr(self, "debug_perform") else self.perform

        perform: Callable[..., Any]

        def first_call(*args: Any) -> Any:
            # Check the dtypes only in the first call of the thunk. Then set `perform`, so that later calls of the thunk
            # call `implementation` directly.
            nonlocal perform
            result = implementation(*args)
            perform = implementation
            if any(dtype_mismatch(variable, cell[0]) for variable, cell in zip(node.inputs, inputs)):
                return result  # the warning for the node that computed this input is enough
            for variable, cell in zip(node.outputs, outputs):
                wrong = dtype_mismatch(variable, cell[0])
                if wrong is not None:
                    warnings.warn(wrong, stacklevel=2)
            return result

        perform = first_call
        params = node.run_params()
        if params is NoParams:

            def thunk() -> Any:
                result = perform(node, [cell[0] for cell in inputs], outputs)
                for flag in computed:
                    flag[0] = True
                return result

        else:
            params = node.params_type.filter(params, strict=False, allow_downcast=None)

            def thunk() -> Any:
                result = perform(node, [cell[0] for cell in inputs], outputs, params)
                for flag in computed:
                    flag[0] = True
                return result

        made: Any = thunk
        made.params = None if params is NoParams else params
        made.inputs = inputs
        made.outputs = outputs
        made.perform = implementation
        made.lazy = False
        return made

    def make_thunk(
        self,
        node: Apply,
        storage_map: StorageMap,
        compute_map: ComputeMap | None,
        no_recycling: Recycling,
        impl: str | None = None,
    ) -> Thunk:
        """Return a callable without arguments that computes the node's outputs from its inputs.

        Parameters
        ----------
        node : Apply
        storage_map : dict
            Variable -> cell (list of one element) that holds its value.
        compute_map : dict
            Variable -> list with one bool: True if the variable has been computed.
        no_recycling : list of Variable
            Outputs whose old values must not be reused.
        impl : {None, 'c', 'py'}
            None: use native or C code if the Op has such code, otherwise `perform`. 'py': use `perform`, or C code if
            the Op has no `perform`.

        Returns
        -------
        callable
            A thunk with the attributes `inputs`, `outputs` (lists of cells) and `lazy`. A call sets the outputs' flags
            in `compute_map`.
        """
        if impl not in (None, "c", "py"):
            raise ValueError("impl has to be None, 'c' or 'py', not %r" % (impl,))
        prefers_c = self.use_c_code and getattr(self, "_op_use_c_code", True)  # `_op_use_c_code` is an older name
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
                pass  # no compiler, or no C code for this node: the call of `perform` reports this
        self.prepare_node(node, storage_map=storage_map, compute_map=compute_map, impl="py")
        return self.make_py_thunk(node, storage_map, compute_map, no_recycling)

    def make_node(self, *inputs: Any) -> Apply:
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

    def get_params(self, node: Apply) -> Any:
        """Return the params of a node.

        By default, if `params_type` is a ParamsType, each field has the value of the Op's attribute of the same name.
        """
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


def _defined(op: Any, name: str) -> bool:
    """Return True if an Op defines a method on the instance, or in a class other than the base class `Op`."""
    if name in getattr(op, "__dict__", ()):
        return True
    return getattr(type(op), name, None) is not getattr(Op, name)


def has_perform(op: Any) -> bool:
    """Return True if the Op has a Python implementation."""
    return _defined(op, "perform")


def has_c_implementation(op: Any) -> bool:
    """Return True if the Op has native code, or C code for at least some nodes."""
    return hasattr(op, "native_code") or _defined(op, "c_code") or _defined(op, "make_c_thunk")


# ---------------------------------------------------------------- test values


def compute_test_value(node: Apply) -> None:
    """Compute the test values of a node's outputs from the test values of its inputs.

    Parameters
    ----------
    node : Apply

    Raises
    ------
    ValueError
        If an input has no test value and ``config.compute_test_value`` is 'raise'. Errors of the computation propagate
        with a note about the node and its inputs. With 'pdb', the debugger starts first.
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
        # Copy the test value of the input, because the Op overwrites its argument.
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
        raise AssertionError("%s asked for more inputs (%s), although all inputs were given" % (node, required))
    for output in node.outputs:
        output.tag.test_value = storage_map[output][0]


def _tell_missing_input(i: int, node: Apply) -> None:
    """Handle an input without a test value as ``config.compute_test_value`` specifies."""
    message = "Cannot compute test value: input %i (%s) of Op %s missing default value" % (i, node.inputs[i], node)
    trace = get_variable_trace_string(node.inputs[i])
    if config.compute_test_value == "raise":
        raise ValueError("%s. %s" % (message, trace))
    if config.compute_test_value == "warn":
        message = "Warning, " + message
    missing_test_message("%s. %s" % (message, trace))


def _story_of_test_values(node: Apply, values: Sequence[Any]) -> str:
    """Return a note for errors: the node that failed, the values of its inputs, and where the inputs were created."""
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


def _debug() -> None:
    """Start the debugger at the point where the current exception was raised, or here if there is no exception."""
    import pdb
    import sys

    trace = sys.exc_info()[2]
    if trace is None:
        pdb.set_trace()
    else:
        pdb.post_mortem(trace)


def get_test_value(v: Any) -> Any:
    """Return the test value of a variable, or of an object that can become a variable.

    Parameters
    ----------
    v : Variable or object
        A variable, or an object that is converted to a tensor.

    Raises
    ------
    AttributeError
        If there is no test value.
    """
    if not isinstance(v, Variable):
        v = ports.as_variable(v)
    return v.read_test_value()


def missing_test_message(msg: str) -> None:
    """Handle a missing test value as ``config.compute_test_value`` specifies.

    Depending on the flag, raise AttributeError, show a warning, start the debugger, or do nothing.

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


def debug_error_message(msg: str) -> None:
    """Report that a check of test values failed.

    Raise ValueError if ``config.compute_test_value`` is 'raise', 'ignore' or 'pdb'. If it is 'warn', show a warning. If
    it is 'off', do nothing.

    Parameters
    ----------
    msg : str
    """
    action = config.compute_test_value
    if action in ("raise", "ignore", "pdb"):
        raise ValueError(msg)
    if action == "warn":
        warnings.warn(msg, stacklevel=2)


def debug_assert(condition: object, msg: str | None = None) -> None:
    """Check a condition on test values. If it is false, behave like `debug_error_message`, but raise AssertionError.

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


def get_debug_values(*args: Any) -> list[tuple[Any, ...]]:
    """Return the test values of variables, for checks while a graph is built.

    ::

        for val_1, ..., val_n in get_debug_values(var_1, ..., var_n):
            if some_condition(val_1, ..., val_n):
                debug_error_message("message")

    Returns
    -------
    list
        One tuple with the values. The list is empty if test values are disabled or if a test value is missing. A
        missing test value may raise an error or a warning, see `missing_test_message`.
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


# Op class -> the name of the attribute that holds its inner function. Ops such as Scan and OpFromGraph register
# themselves.
ops_with_inner_function: dict[type, str] = {}
