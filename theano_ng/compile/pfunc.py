"""The step between `function` and FunctionMaker.

It makes shared variables, updates and givens explicit in the graph.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

from theano_ng.compile.functions.inputs import UnusedInputError
from theano_ng.compile.functions.maker import orig_function
from theano_ng.compile.io import In, Out
from theano_ng.compile.profiling import ProfileStats
from theano_ng.compile.sharedvalue import SharedVariable, shared
from theano_ng.configdefaults import config
from theano_ng.gof import utils
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.traversal import postorder


def iter_over_pairs(pairs):
    """Return the pairs of a dict or of an iterable of pairs. Raise ValueError if an element is not a pair."""
    if isinstance(pairs, dict):
        return pairs.items()
    pairs = list(pairs)  # an iterator can be read only once
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError("expected a dictionary or a list of pairs, but the list contains the element %s" % (pair,))
    return pairs


_warned: set[Any] = set()  # a tuple (Op, types, file, line) for each warning that was issued


def _warn_of_changed_rank(node, inputs):
    """Warn if an Op computes another function because a replacement changed the number of dimensions of its inputs.

    A process shows at most one warning for the same Op, old type, new type and line of the user's program.

    Returns
    -------
    bool
        Whether the Op computes another function.
    """
    if node.op.same_for_any_ndim:
        return False
    changed = [
        (old, new)
        for old, new in zip(node.inputs, inputs)
        if getattr(old.type, "ndim", None) != getattr(new.type, "ndim", None)
    ]
    if not changed:
        return False
    (old, new), *_ = changed
    stacks = getattr(node.outputs[0].tag, "trace", None)
    file, line, _, text = stacks[0][-1] if stacks and stacks[0] else (None, None, None, None)
    key = str(node.op), old.type, new.type, file, line
    if key not in _warned:
        _warned.add(key)
        warnings.warn(
            "%s cannot be computed after the replacement: its input %s has the type %s instead of %s. Only "
            "elementwise Ops have the same meaning for arrays with another number of dimensions; a product of vectors "
            "would become a product of matrices, and a sum or an index would use another axis. %sWrite the expression "
            "for the new type, or map over its additional dimension with scan."
            % (
                node,
                old,
                new.type,
                old.type,
                'The node was made by %s, line %d: "%s". ' % (file, line, text) if file else "",
            ),
            stacklevel=utils.user_stacklevel(),
        )
    return True


class _Rebuild:
    """A builder that copies a graph, replaces variables, and collects shared variables and their default updates."""

    def __init__(self, copy_inputs_over, rebuild_strict, no_default_updates):
        self.copy_inputs_over = copy_inputs_over
        self.rebuild_strict = rebuild_strict
        self.without_default = (
            set(no_default_updates) if isinstance(no_default_updates, (list, tuple)) else bool(no_default_updates)
        )
        self.clone_d = {}  # original variable -> its copy or replacement, for outputs and updates
        self.replacement_d = {}  # original variable -> its copy, for the expressions that replace variables
        self.leaves = {}  # variable without an owner -> the result of `leaf`, for both dicts above
        self.update_d = {}
        self.update_expr = []
        self.shared_inputs = []
        self._seen_shared = set()
        self.warned = False  # True after a warning that a replacement makes a node compute another function

    def uses_default_update(self, variable):
        return self.without_default is False or (
            self.without_default is not True and variable not in self.without_default
        )

    def record_shared(self, variable):
        """Record a shared variable.

        Add its default update unless it has another update or default updates are disabled.
        """
        if variable in self._seen_shared:
            return
        self._seen_shared.add(variable)
        self.shared_inputs.append(variable)
        default = getattr(variable, "default_update", None)
        if default is not None and variable not in self.update_d and self.uses_default_update(variable):
            self.add_update(variable, default)

    def add_update(self, variable, expression):
        self.update_d[variable] = expression
        self.update_expr.append((variable, expression))

    def leaf(self, variable):
        """Return a copy of a variable without an owner, or the variable itself if the copied graph can use it."""
        if variable not in self.leaves:
            self.leaves[variable] = self._copy_of_leaf(variable)
        return self.leaves[variable]

    def _copy_of_leaf(self, variable):
        if isinstance(variable, SharedVariable):
            self.record_shared(variable)
        if not self.copy_inputs_over:
            return variable.clone()  # a clone of a shared variable uses the same container
        if isinstance(variable, Constant) and hasattr(variable, "fgraph"):
            return variable.clone()
        return variable

    def __call__(self, variable):
        """Return the copy of an output, and copy its graph."""
        return self._copy(variable, self.clone_d)

    def replacement(self, variable):
        """Return the copy of an expression that replaces a variable, and copy its graph."""
        return self._copy(variable, self.replacement_d)

    def _copy(self, variable, clone_d):
        for current in postorder([variable], clone_d):
            node = current.owner
            if node is None:
                clone_d[current] = self.leaf(current)
                continue
            inputs = [clone_d[i] for i in node.inputs]
            twin = clone_d[node] = node.clone_with_new_inputs(inputs, strict=self.rebuild_strict)
            if not (self.rebuild_strict or self.warned):
                # One warning for each copy of a graph is enough: further nodes differ because this node differs.
                self.warned = _warn_of_changed_rank(node, inputs)
            for old, new in zip(node.outputs, twin.outputs):
                clone_d.setdefault(old, new)
        return clone_d[variable]


def _check_replacement(old, new, rebuild_strict):
    """Check that a value or variable may replace a variable. Return it as a variable."""
    if not isinstance(old, Variable):
        raise TypeError("givens: only variables can be replaced, not %r of type %s" % (old, type(old).__name__))
    if not isinstance(new, Variable):
        new = shared(new)
    if rebuild_strict:
        try:
            with config.change_flags(compute_test_value="off"):  # the conversion needs no test value
                new = old.type.filter_variable(new)
        except TypeError as failure:
            raise TypeError(
                "givens: %s has type %s and cannot replace %s of type %s; cast or reshape it, or pass "
                "rebuild_strict=False" % (new, new.type, old, old.type)
            ) from failure
    return new


def check_update(target, expression, update_d):
    """Check an update. Return its expression, converted to the type of its target.

    Parameters
    ----------
    target : SharedVariable
    expression : Variable or value
    update_d : dict
        The updates that have been collected so far.

    Raises
    ------
    TypeError
        If the target is not a shared variable, or the expression has another type.
    ValueError
        If the target already has an update.
    """
    if not isinstance(target, SharedVariable):
        raise TypeError("update target must be a SharedVariable, not %r of type %s" % (target, type(target).__name__))
    if target in update_d:
        raise ValueError("this shared variable already has an update expression", (target, update_d[target]))
    given = expression
    try:
        return target.type.filter_variable(expression, allow_convert=False)
    except TypeError as failure:
        raise TypeError(
            "An update must have the same type as the original shared variable (shared_var=%s, shared_var.type=%s, "
            "update_val=%s, update_val.type=%s). If the difference is related to the broadcast pattern, you can call the "
            "tensor.unbroadcast(var, axis_to_unbroadcast[, ...]) function to remove broadcastable dimensions."
            % (target, target.type, given, getattr(given, "type", type(given).__name__))
        ) from failure


def rebuild_collect_shared(
    outputs,
    inputs=None,
    replace=None,
    updates=None,
    rebuild_strict=True,
    copy_inputs_over=True,
    no_default_updates=False,
):
    """Copy the graph of some outputs, replace variables in the copy, and collect updates and shared variables.

    Parameters
    ----------
    outputs : Variable, Out, or list, tuple or dict of them, or None
    inputs : list of Variable or In, optional
    replace : dict or list of pairs, optional
        Pairs (old variable, new variable).
    updates : dict or list of pairs, optional
        Pairs (shared variable, expression).
    rebuild_strict : bool
        If True, a replacement must have the type of the variable that it replaces, or a subtype: a row may replace a
        matrix.
    copy_inputs_over : bool
        If True, the copy uses the same input variables. If False, it has new input variables.
    no_default_updates : bool or list of Variable
        If True, default updates are not used. If it is a list, they are not used for the variables in the list.

    Returns
    -------
    input_variables : list
    cloned_outputs : like `outputs`
    other : list
        ``[clone_d, update_d, update_expr, shared_inputs]``: a dict from old to new variables, a dict from targets to
        updates, a list of updates in order, and the shared variables that are implicit inputs.

    Raises
    ------
    TypeError, ValueError
        If replacements, updates or outputs are invalid.
    """
    rebuild = _Rebuild(copy_inputs_over, rebuild_strict, no_default_updates)
    if not isinstance(no_default_updates, (bool, list, tuple)):
        raise TypeError("no_default_updates should be either a bool or a list, not %r" % (no_default_updates,))
    inputs = [] if inputs is None else list(inputs)
    input_variables = []
    for given in inputs:
        variable = given.variable if isinstance(given, In) else given
        if isinstance(variable, SharedVariable):
            raise TypeError(
                "Cannot use a shared variable (%s) as explicit input. Consider substituting a non-shared variable via the "
                "`givens` parameter" % variable
            )
        input_variables.append(rebuild(variable) if variable.owner is None else _free_input(rebuild, variable))

    rebuild.replacement_d.update(rebuild.clone_d)
    for old, new in iter_over_pairs(replace or []):
        new = _check_replacement(old, new, rebuild_strict)
        if old in rebuild.replacement_d:
            raise AssertionError(
                "When using 'givens' or 'replace' with several (old_v, new_v) replacement pairs, you can not have a new_v "
                "variable depend on an old_v one. For instance, givens = {a:b, b:(a+1)} is not allowed. Here, the old_v %s is "
                "used to compute other new_v's, but it is scheduled to be replaced by %s." % (old, new)
            )
        rebuild.clone_d[old] = rebuild.replacement_d[old] = rebuild.replacement(new)

    for target, expression in iter_over_pairs(updates or []):
        rebuild.add_update(target, check_update(target, expression, rebuild.update_d))
        if target not in rebuild._seen_shared:
            rebuild.record_shared(target)

    cloned_outputs = _clone_outputs(rebuild, outputs)

    for given in inputs:
        if isinstance(given, In) and given.update is not None:
            given.update = rebuild(given.update)

    done = 0
    while done < len(rebuild.update_expr):  # copying an expression may add further default updates
        target, expression = rebuild.update_expr[done]
        rebuild.update_d[target] = rebuild(expression)
        done += 1
    update_expr = [(target, rebuild.update_d[target]) for target, _ in rebuild.update_expr]
    return input_variables, cloned_outputs, [rebuild.clone_d, rebuild.update_d, update_expr, rebuild.shared_inputs]


def clone_with_replacements(outputs, replace=None, strict=True, share_inputs=True):
    """Copy the graph of some outputs, and replace variables in the copy. For the parameters, see `theano_ng.clone`.

    All replacements are made at once: no variable is replaced in the replacing expressions.

    Raises
    ------
    TypeError
        If a replacement has the wrong type.
    AssertionError
        If a variable is replaced twice.
    """
    rebuild = _Rebuild(share_inputs, strict, no_default_updates=False)
    for old, new in iter_over_pairs(replace or []):
        new = _check_replacement(old, new, strict)
        if old in rebuild.clone_d:
            raise AssertionError("clone: %s has two replacements, the second is %s; give only one" % (old, new))
        rebuild.clone_d[old] = rebuild.replacement(new)
    return _clone_outputs(rebuild, outputs)


def _clone_outputs(rebuild, outputs):
    """Return a copy of the outputs in the structure of `outputs`: a list, a dict or a single output."""
    if outputs is None:
        return []
    if isinstance(outputs, dict):
        return {key: _clone_output(rebuild, output) for key, output in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return [_clone_output(rebuild, output) for output in outputs]
    return _clone_output(rebuild, outputs)


def _clone_output(rebuild, output):
    if isinstance(output, Variable):
        return rebuild(output)
    if isinstance(output, Out):
        return Out(rebuild(output.variable), borrow=output.borrow, return_internal_type=output.return_internal_type)
    raise TypeError("Outputs must be theano Variable or Out instances. Received %s of type %s" % (output, type(output)))


def _free_input(rebuild, variable):
    """Return the variable that represents, in the copied graph, an input that has an owner.

    The node that computes the input is not copied, so the caller must give the value of the input.
    """
    free = variable.clone() if not rebuild.copy_inputs_over else variable
    rebuild.clone_d[variable] = free
    return free


class Param(In):
    """The former name of In. Its parameter `default` is the parameter `value` of In."""

    def __init__(
        self,
        variable: Variable,
        default: Any = None,
        name: str | None = None,
        mutable: bool = False,
        strict: bool = False,
        allow_downcast: bool | None = None,
        implicit: bool | None = None,
        borrow: bool | None = None,
    ) -> None:
        super().__init__(
            variable,
            name=name,
            value=default,
            mutable=mutable,
            strict=strict,
            allow_downcast=allow_downcast,
            implicit=implicit,
            borrow=mutable if borrow is None else borrow,
        )


def _pfunc_param_to_in(param, strict=False, allow_downcast=None):
    """Return an In for an element of the list `params` of `pfunc`."""
    if isinstance(param, Constant):
        raise TypeError("Constants not allowed in param list", param)
    if isinstance(param, Variable):
        return In(variable=param, strict=strict, allow_downcast=allow_downcast)
    if isinstance(param, In):
        return copy.copy(param)  # compiling changes the In, and the user may use it again
    raise TypeError("Unknown parameter type: %s (of %r); give variables or In instances" % (type(param), param))


def _check_inputs(in_variables, givens):
    """Raise an error if an input occurs twice, or is replaced by `givens`."""
    positions = {}
    for i, variable in enumerate(in_variables):
        if variable in positions:
            raise UnusedInputError(
                "Variable %s is used twice in inputs to theano.function, at indices %i and %i. This would result in values "
                "provided for it being ignored. Please do not duplicate variables in the inputs list."
                % (variable, positions[variable], i)
            )
        positions[variable] = i
    for old, _ in iter_over_pairs(givens):
        if old in positions:
            raise RuntimeError(
                "You are trying to replace variable '%s' through the `givens` parameter, but this variable is an input to your "
                "function. Replacing inputs is currently forbidden because it has no effect. One way to modify an input `x` to "
                "a function evaluating f(x) is to define a new input `y` and use `theano.function([y], f(x), givens={x: g(y)})`."
                % old
            )


def pfunc(
    params,
    outputs=None,
    mode=None,
    updates=None,
    givens=None,
    no_default_updates=False,
    accept_inplace=False,
    name=None,
    rebuild_strict=True,
    allow_input_downcast=None,
    profile=None,
    on_unused_input=None,
    output_keys=None,
):
    """Compile a function from normalized arguments. See `function` for the parameters."""
    updates = [] if updates is None else updates
    givens = [] if givens is None else list(iter_over_pairs(givens))
    if profile is None:
        profile = config.profile
    if profile is True or isinstance(profile, str):
        profile = ProfileStats(message=profile if isinstance(profile, str) else name)
    elif profile is False:
        profile = None
    if not isinstance(params, (list, tuple)):
        raise Exception("in pfunc() the first argument must be a list or a tuple, not %r" % (params,))

    inputs = [_pfunc_param_to_in(param, allow_downcast=allow_input_downcast) for param in params]
    in_variables = [given.variable for given in inputs]
    _check_inputs(in_variables, givens)
    output_variables, cloned = rebuild_collect_shared(
        outputs,
        inputs=inputs,
        replace=givens,
        updates=updates,
        rebuild_strict=rebuild_strict,
        copy_inputs_over=True,
        no_default_updates=no_default_updates,
    )[1:]
    input_variables = [cloned[0][variable] for variable in in_variables]
    update_d, shared_inputs = cloned[1], cloned[3]
    for given, variable in zip(inputs, input_variables):
        given.variable = variable
    for target in shared_inputs:
        if target in update_d:
            inputs.append(
                In(
                    variable=target,
                    value=target.container,
                    mutable=True,
                    borrow=True,
                    update=update_d[target],
                    shared=True,
                )
            )
        else:
            inputs.append(In(variable=target, value=target.container, mutable=False, borrow=True, shared=True))
    return orig_function(
        inputs,
        output_variables,
        mode,
        accept_inplace=accept_inplace,
        name=name,
        profile=profile,
        on_unused_input=on_unused_input,
        output_keys=output_keys,
    )
