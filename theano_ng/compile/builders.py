"""The class `OpFromGraph`: an Op made from a graph. Its derivatives are derivatives of the graph, or overrides."""

from theano_ng.compile.inner_graph import InnerGraph
from theano_ng.compile.mode import optdb
from theano_ng.compile.ops import view_op
from theano_ng.configdefaults import config
from theano_ng.gof import rewriting
from theano_ng.gof.derivative import disconnected_type, is_absent, is_disconnected
from theano_ng.gof.differentiate import Rop, grad
from theano_ng.gof.graph import Apply, Variable, io_connection_pattern
from theano_ng.gof.op import Op, ops_with_inner_function

__all__ = ["OpFromGraph", "inline_ofg_expansion"]


def _is_default(override):
    """Return True if an override is 'default', which keeps the derivative of the graph."""
    return isinstance(override, str) and override == "default"


class OpFromGraph(Op):
    """An Op made from a graph. Other graphs can use the Op many times. The user can replace its derivatives.

    Parameters
    ----------
    inputs : list of Variable
    outputs : list of Variable
        Variables that depend only on `inputs`, constants and shared variables. Shared variables become inputs of each
        node automatically.
    inline : bool
        If True, rewriting replaces each node by the graph, and the compiled function does not contain the Op. If False,
        the graph is compiled once, and each node calls the compiled function.
    lop_overrides, grad_overrides : 'default', OpFromGraph, callable, Variable, None, or list of these
        The gradient. At most one of the two parameters may differ from 'default'.

        - 'default': the derivative of the graph.
        - callable: ``f(inputs, output_gradients)`` for `grad_overrides`, ``f(inputs, outputs, output_gradients)`` for
          `lop_overrides`. The arguments are lists of variables. The callable returns the gradients of the inputs. None
          stands for zero. An OpFromGraph is called with the same variables as separate arguments.
        - a variable of NullType: the gradient does not exist. A variable of DisconnectedType, or None: the inputs are
          not connected to the outputs.
        - a list or tuple of such overrides, one for each input. A callable in the list returns one variable.
    rop_overrides : 'default', OpFromGraph, callable, Variable, None, or list of these
        The directional derivatives of the outputs, which the R operator returns. Callables have the arguments
        ``(inputs, eval_points)``. A list has one entry for each output. None, also as a result of a callable, means
        that an output has no derivative.
    connection_pattern : list of list of bool, optional
        ``connection_pattern[input][output]`` is True if the output has a derivative with respect to the input. By
        default, it is determined from the graph and the overrides.
    name : str, optional
        The name in printed graphs.
    **kwargs
        Arguments of `theano_ng.function`, which compiles the graph if `inline` is False. `updates` and `givens` are not
        allowed.

    Raises
    ------
    TypeError
        If inputs or outputs are not variables, if arguments of `function` are invalid, or if an override has none of
        the types above.
    MissingInputError
        If the outputs depend on a variable that is neither in `inputs` nor a constant nor a shared variable.

    Notes
    -----
    A shared variable with updates (such as the variables of random streams) keeps its value: the graph reads it, but
    does not update it. `L_op` derives the gradients with respect to shared variables from the graph, so overrides need
    not return these gradients.

    Examples
    --------
    >>> from theano_ng import function, tensor
    >>> from theano_ng.compile.builders import OpFromGraph
    >>> x, y, z = tensor.scalars('xyz')
    >>> op = OpFromGraph([x, y, z], [x + y * z])
    >>> fn = function([x, y, z], op(x, y, z) + op(z, y, x))
    >>> fn(1., 2., 3.).tolist()
    12.0

    A function whose gradient differs from the gradient of its graph:

    >>> def scaled(inputs, gradients):
    ...     return [gradients[0] * 3, gradients[0] * 5]
    >>> op = OpFromGraph([x, y], [x + y], grad_overrides=scaled)
    >>> function([x, y], tensor.grad(op(x, y), [x, y]), on_unused_input='ignore')(1., 2.)
    [array(3.), array(5.)]
    """

    def __init__(
        self,
        inputs,
        outputs,
        inline=False,
        lop_overrides="default",
        grad_overrides="default",
        rop_overrides="default",
        connection_pattern=None,
        name=None,
        **kwargs,
    ):
        self.inner_graph = InnerGraph(inputs, outputs, kwargs, type(self).__name__)
        self.is_inline = bool(inline)
        self.name = name
        self.input_types = [v.type for v in inputs]
        self.output_types = [v.type for v in outputs]

        self.lop_overrides = self._checked_overrides(lop_overrides, len(inputs), "lop_overrides")
        self.grad_overrides = self._checked_overrides(grad_overrides, len(inputs), "grad_overrides")
        self.rop_overrides = self._checked_overrides(rop_overrides, len(outputs), "rop_overrides")
        if not _is_default(self.lop_overrides) and not _is_default(self.grad_overrides):
            raise ValueError("lop_overrides and grad_overrides exclude each other: give only one of them")
        if connection_pattern is not None:
            rows = len(connection_pattern)
            if rows not in (len(inputs), len(self.local_inputs)) or any(
                len(row) != len(outputs) for row in connection_pattern
            ):
                raise ValueError(
                    "connection_pattern must have a row for each of %d inputs, with a column for each of %d outputs; got %r"
                    % (len(inputs), len(outputs), connection_pattern)
                )
        self._given_pattern = connection_pattern
        self._forget()

    local_inputs = inputs = property(
        lambda self: self.inner_graph.inputs, doc="The graph's inputs, those for shared variables last."
    )
    local_outputs = outputs = property(lambda self: self.inner_graph.outputs, doc="The graph's outputs.")
    shared_inputs = property(lambda self: self.inner_graph.shared, doc="The shared variables that the graph reads.")
    kwargs = property(lambda self: self.inner_graph.arguments, doc="The arguments for `function`.")
    fn = property(lambda self: self.inner_graph.fn, doc="The compiled graph; None until it is first needed.")

    @staticmethod
    def _checked_overrides(overrides, count, what):
        """Check overrides and return them. Convert a tuple to a list."""
        if isinstance(overrides, tuple):
            overrides = list(overrides)
        each = overrides if isinstance(overrides, list) else [overrides]
        if isinstance(overrides, list) and len(overrides) != count:
            raise ValueError("%s has %d entries, expected %d" % (what, len(overrides), count))
        for one in each:
            if one is None or _is_default(one) or isinstance(one, OpFromGraph):
                continue
            if isinstance(one, Variable):
                if not is_absent(one):
                    raise ValueError(
                        "%s: a variable must be of NullType or DisconnectedType, not of type %s" % (what, one.type)
                    )
            elif not callable(one):
                raise TypeError(
                    "%s: expected 'default', an OpFromGraph, a callable, a variable of NullType or DisconnectedType, None, "
                    "or a list of these, not %r" % (what, one)
                )
        return overrides

    def _forget(self):
        """Clear the cached derivatives and the cached connection pattern, which are computed on demand."""
        self._lop_ops, self._rop_ops, self._pattern = {}, {}, None

    def __str__(self):
        return "%s{inline=%s}" % (type(self).__name__ if self.name is None else self.name, self.is_inline)

    def __setstate__(self, state):
        if "inner_graph" not in state:  # an old pickle, with the parts of the graph as separate attributes
            state = dict(state)
            parts = {
                name: state.pop(name)
                for name in ("local_inputs", "local_outputs", "shared_inputs", "kwargs", "inputs", "outputs")
            }
            state["inner_graph"] = InnerGraph.of_parts(
                parts["local_inputs"], parts["local_outputs"], parts["shared_inputs"], parts["kwargs"]
            )
        if "_lop_op" in state:  # a pickle that Theano wrote
            given, overrides = (
                state,
                {"lop_overrides": "default", "grad_overrides": "default", "rop_overrides": "default"},
            )
            state = {name: given[name] for name in ("inner_graph", "is_inline", "name", "input_types", "output_types")}
            for kind, which in (("lop", given.get("_lop_type", "lop")), ("rop", "rop")):
                if not given.get("_%s_is_default" % kind):
                    overrides[which + "_overrides"] = given["_%s_op" % kind]
            state.update(overrides, _given_pattern=given.get("_connection_pattern"))
            self._forget()
        self.__dict__.update(state)

    # -- the node

    def make_node(self, *inputs):
        """Make an Apply node.

        Parameters
        ----------
        *inputs : Variable or value
            The inputs. The shared variables, or variables that replace them, may follow the inputs.
        """
        n = len(self.input_types)
        if len(inputs) not in (n, len(self.local_inputs)):
            raise ValueError("Wrong number of inputs for %s: %d given, %d expected" % (self, len(inputs), n))
        given = [local.type.filter_variable(i) for i, local in zip(inputs, self.local_inputs)]
        if len(inputs) == n:
            given += self.shared_inputs
        return Apply(self, given, [t() for t in self.output_types])

    def infer_shape(self, node, shapes):
        """Return the shapes of the outputs as expressions of the shapes and, if necessary, the values of the inputs."""
        return self.inner_graph.infer_shape(node.inputs, shapes)

    def prepare_node(self, node, storage_map, compute_map, impl):
        """Compile the inner graph, if it is not compiled yet."""
        self.inner_graph.compiled()

    def perform(self, node, inputs, outputs):
        # The results of the inner function belong to its caller, so they need not be copied.
        for cell, value in zip(outputs, self.inner_graph(*inputs)):
            cell[0] = value

    # -- derivatives

    def set_grad_overrides(self, grad_overrides):
        """Replace the override of the gradient. See the parameter `grad_overrides` of the class."""
        self.grad_overrides = self._checked_overrides(grad_overrides, len(self.input_types), "grad_overrides")
        self.lop_overrides = "default"
        self._forget()

    def set_lop_overrides(self, lop_overrides):
        """Replace the override of the L operator. See the parameter `lop_overrides` of the class."""
        self.lop_overrides = self._checked_overrides(lop_overrides, len(self.input_types), "lop_overrides")
        self.grad_overrides = "default"
        self._forget()

    def set_rop_overrides(self, rop_overrides):
        """Replace the override of the R operator. See the parameter `rop_overrides` of the class."""
        self.rop_overrides = self._checked_overrides(rop_overrides, len(self.output_types), "rop_overrides")
        self._forget()

    def get_lop_op(self):
        """Return the Op that computes the gradients of the inputs.

        The inputs of this Op are the inputs and outputs of the graph, and the gradients of the outputs.
        """
        return self._lop_op(self._default_gradient_types())[0]

    def get_rop_op(self):
        """Return the Op that computes directional derivatives of the outputs.

        The inputs of this Op are the inputs of the graph, then for each of these inputs the direction of its change.
        """
        return self._rop_op([v.type for v in self.local_inputs])[0]

    def _default_gradient_types(self):
        """Return the types of the gradients of the outputs. They are floating point, even for integer outputs."""
        return [
            out.zeros_like(dtype=_float_of(out)).type if hasattr(out, "zeros_like") else out.type
            for out in self.local_outputs
        ]

    def _wrap(self, inputs, terms, what):
        """Make an Op that computes the derivatives in `terms`, and a plan that maps each term to an output of the Op.

        Returns
        -------
        (OpFromGraph, list)
            The plan has one entry for each term: the index of the output that computes the term. If a term is None, or
            has NullType or DisconnectedType, the Op does not compute it, and the entry is the term itself.
        """
        outputs, plan = [], []
        for term in terms:
            if term is None or is_absent(term):
                plan.append(term)  # the Op does not compute this term
            else:
                plan.append(len(outputs))
                outputs.append(term)
        name = "%s_%s" % (self.name, what) if self.name is not None else None
        return OpFromGraph(inputs, outputs, inline=self.is_inline, name=name, **self.kwargs), plan

    @staticmethod
    def _fill(op, plan, arguments):
        """Apply the Op to arguments. Return one derivative for each entry of a plan; see `_wrap`."""
        if any(isinstance(entry, int) for entry in plan):
            values = op(*arguments, return_list=True)
        return [values[entry] if isinstance(entry, int) else entry if entry is None else entry.type() for entry in plan]

    def _lop_op(self, gradient_types):
        """Return the Op that computes the gradient, and its plan.

        `gradient_types` has one entry for each output. The entry is None for an output without a gradient.
        """
        key = tuple(gradient_types)
        if key not in self._lop_ops:
            gradients = [None if t is None else t() for t in gradient_types]
            # The gradient Op takes the outputs as inputs, so an override need not compute their values again.
            outputs = [out.type() for out in self.local_outputs]
            with config.change_flags(compute_test_value="off"):  # inner variables have no test values
                terms = self._lop_terms(outputs, gradients)
            inputs = self.local_inputs + outputs + [g for g in gradients if g is not None]
            self._lop_ops[key] = self._wrap(inputs, terms, "LOp")
        return self._lop_ops[key]

    def _lop_terms(self, outputs, gradients):
        uses_outputs = _is_default(self.grad_overrides)
        overrides = self.lop_overrides if uses_outputs else self.grad_overrides
        n = len(self.input_types)
        wanted = list(overrides) if isinstance(overrides, list) else [overrides] * n
        wanted += ["default"] * len(self.shared_inputs)
        terms = [None] * len(self.local_inputs)
        default = [i for i, one in enumerate(wanted) if isinstance(one, str)]
        if default:
            for i, term in zip(default, self._default_gradients([self.local_inputs[i] for i in default], gradients)):
                terms[i] = term
        full = [self._zero_gradient(out) if g is None else g for out, g in zip(self.local_outputs, gradients)]
        arguments = [self.local_inputs[:n], outputs, full] if uses_outputs else [self.local_inputs[:n], full]
        if isinstance(overrides, list):
            for i, one in enumerate(overrides):
                if terms[i] is None:
                    terms[i] = self._call(one, arguments, 1)[0]
        elif not default or len(default) < len(wanted):
            terms[:n] = self._call(overrides, arguments, n)
        for i, term in enumerate(terms):
            if term is None:  # None from a callable means a zero gradient, not a disconnected input
                terms[i] = disconnected_type() if wanted[i] is None else self._zero_gradient(self.local_inputs[i])
        return terms

    def _default_gradients(self, wrt, gradients):
        # `grad` adds no terms to a known gradient. But the gradient of an output has further terms if the output is
        # also an input, or if other outputs depend on it. Therefore the gradients are given to views of the outputs.
        known = {view_op(out): g for out, g in zip(self.local_outputs, gradients) if g is not None}
        return grad(
            cost=None,
            wrt=wrt,
            known_grads=known,
            disconnected_inputs="ignore",
            return_disconnected="Disconnected",
            null_gradients="return",
        )

    @staticmethod
    def _zero_gradient(out):
        return out.zeros_like(dtype=_float_of(out))

    @staticmethod
    def _call(override, arguments, count):
        """Call an override with lists of variables. Return its `count` results as a list.

        Each result is a variable or None.
        """
        if override is None:
            return [None] * count
        if isinstance(override, Variable):
            return [override.type() for _ in range(count)]
        if isinstance(override, OpFromGraph):
            result = override(*[v for group in arguments for v in group], return_list=True)
        else:
            result = override(*arguments)
        if not isinstance(result, (list, tuple)):
            result = [result]
        if len(result) != count:
            raise ValueError("the override %s returned %d variables, %d are expected" % (override, len(result), count))
        return list(result)

    def L_op(self, inputs, outputs, output_grads):
        """Return the gradients of the inputs and of the shared variables."""
        usable = [None if is_absent(g) else g for g in output_grads]
        op, plan = self._lop_op([None if g is None else g.type for g in usable])
        return self._fill(op, plan, list(inputs) + list(outputs) + [g for g in usable if g is not None])

    def _rop_op(self, point_types):
        key = tuple(point_types)
        if key not in self._rop_ops:
            points = [None if t is None else t() for t in point_types]
            with config.change_flags(compute_test_value="off"):
                terms = self._rop_terms(points)
            self._rop_ops[key] = self._wrap(self.local_inputs + [p for p in points if p is not None], terms, "ROp")
        return self._rop_ops[key]

    def _rop_terms(self, points):
        overrides = self.rop_overrides
        wanted = overrides if isinstance(overrides, list) else [overrides] * len(self.local_outputs)
        terms = [None] * len(wanted)
        default = [i for i, one in enumerate(wanted) if isinstance(one, str)]
        if default:
            moving = [(v, p) for v, p in zip(self.local_inputs, points) if p is not None]
            found = Rop(
                [self.local_outputs[i] for i in default],
                [v for v, _ in moving],
                [p for _, p in moving],
                disconnected_outputs="ignore",
                return_disconnected="None",
            )
            for i, term in zip(default, found):
                terms[i] = term
        if len(default) == len(wanted):
            return terms
        n = len(self.input_types)
        full = [v.zeros_like() if p is None else p for v, p in zip(self.local_inputs[:n], points)]
        arguments = [self.local_inputs[:n], full]
        if not isinstance(overrides, list):
            return self._call(overrides, arguments, len(terms))
        return [term if isinstance(one, str) else self._call(one, arguments, 1)[0] for term, one in zip(terms, wanted)]

    def R_op(self, inputs, eval_points):
        """Return the directional derivatives of the outputs. Return None for an output without a derivative."""
        usable = [None if p is None or is_absent(p) else p for p in eval_points]
        if all(p is None for p in usable):
            return [None] * len(self.output_types)
        op, plan = self._rop_op([None if p is None else p.type for p in usable])
        terms = self._fill(op, plan, list(inputs) + [p for p in usable if p is not None])
        return [None if term is not None and is_disconnected(term) else term for term in terms]

    def connection_pattern(self, node):
        """Return a table in which ``[input][output]`` is True if the output has a derivative with respect to the input.

        The rows for shared variables are last.
        """
        if self._pattern is None:
            pattern = io_connection_pattern(self.local_inputs, self.local_outputs)
            if self._given_pattern is not None:
                pattern[: len(self._given_pattern)] = [[bool(c) for c in row] for row in self._given_pattern]
            else:
                overrides = self.lop_overrides if _is_default(self.grad_overrides) else self.grad_overrides
                each = overrides if isinstance(overrides, list) else [overrides] * len(self.input_types)
                for i, one in enumerate(each):
                    if not isinstance(one, str):
                        connected = not (one is None or isinstance(one, Variable) and is_disconnected(one))
                        pattern[i] = [connected] * len(self.local_outputs)
            self._pattern = pattern
        return self._pattern


def _float_of(out):
    """Return the dtype of the gradient of a tensor."""
    dtype = out.type.dtype
    return dtype if dtype.startswith(("float", "complex")) else config.floatX


ops_with_inner_function[OpFromGraph] = "fn"


@rewriting.local_optimizer([OpFromGraph])
def inline_ofg_expansion(node):
    """Replace a node of an OpFromGraph with ``inline=True`` by its graph.

    OpFromGraph([x], [exp(x)], inline=True)(y)  ->  exp(y)          [fast_run, fast_compile]
    """
    op = node.op
    if not op.is_inline:
        return False
    return op.inner_graph.on(node.inputs)


# This rule runs before all other rules, so that the inlined graph is rewritten like the rest of the graph.
optdb.register("inline_ofg_expansion", rewriting.in2out(inline_ofg_expansion), -0.01, "fast_compile", "fast_run")
