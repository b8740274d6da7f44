"""Checks that the inputs of a loop fit the graph of its step, and that the step is consistent."""

import numpy as np

from theano_ng.compile.ops import rebroadcast
from theano_ng.gof.graph import Variable
from theano_ng.tensor.constant import as_tensor_variable, tensor_or_other
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.type import TensorType

__all__ = ["check_step", "fit_inputs", "integer_scalar"]


def integer_scalar(value, what):
    """Return a number of steps or rows as a variable.

    Parameters
    ----------
    value : int or integer scalar variable
    what : str
        Description of the value, for messages.

    Raises
    ------
    ValueError
        If the value is not an integer scalar.
    """
    variable = tensor_or_other(value)
    kind = variable.type
    if not isinstance(kind, TensorType) or kind.ndim != 0 or np.dtype(kind.dtype).kind not in "iu":
        raise ValueError(
            " %s must be an int. dtype provided is %s: %s has type %s, and an integer scalar is expected"
            % (what, getattr(kind, "dtype", "none"), variable, kind)
        )
    return variable


def fit_inputs(op, inputs):
    """Return the outer inputs of a loop, each with the type that the step expects.

    Values become constants. An input with a less specific broadcast pattern gets the pattern of the step. An input with
    a smaller dtype is cast.

    Parameters
    ----------
    op : Scan
    inputs : sequence of Variable or array_like

    Returns
    -------
    list of Variable

    Raises
    ------
    AssertionError
        If the number of inputs is wrong.
    ValueError, TypeError
        If an input does not fit.
    """
    n_inner_states = sum(map(len, op.tap_array))
    expected = 1 + len(op.inputs) - n_inner_states + op.n_states + op.n_nit_sot
    if len(inputs) != expected:
        raise AssertionError(
            "The number of inputs given to the inner function of scan does not match the number of inputs given to scan. "
            "The loop %s takes %d inputs, not %d" % (op.name, expected, len(inputs))
        )
    inputs = [v if isinstance(v, Variable) else as_tensor_variable(v) for v in inputs]
    fitted = [integer_scalar(inputs[0], "n_steps")]
    fitted += [_fit(op, v, row, 1) for v, row in zip(op.outer_seqs(inputs), op.inner_seqs(op.inputs))]
    first = op.n_seqs
    for i, v in enumerate(inputs[1 + op.n_seqs : 1 + op.n_seqs + op.n_states]):
        row = op.inputs[first]
        if v.ndim != row.ndim + 1:
            raise ValueError(_wrong_rank_of_initial(v, op.n_seqs + i, row))
        fitted.append(_fit(op, v, row, 1))
        first += len(op.tap_array[i])
    fitted += [_fit(op, v, inner, 0) for v, inner in zip(op.outer_shared(inputs), op.inner_shared(op.inputs))]
    fitted += [integer_scalar(v, "The number of rows of an output") for v in op.outer_nitsot(inputs)]
    fitted += [_fit(op, v, inner, 0) for v, inner in zip(op.outer_non_seqs(inputs), op.inner_non_seqs(op.inputs))]
    return fitted


def _fit(op, given, inner, n_leading):
    """Return an outer input, converted to the type of the inner variable with `n_leading` additional leading
    dimensions.
    """
    wanted = inner.type
    given = tensor_or_other(given) if isinstance(wanted, TensorType) else given
    kind = given.type
    if not hasattr(wanted, "broadcastable"):
        return given if kind == wanted else wanted.filter_variable(given)
    if type(kind) is not type(wanted) or kind.ndim != wanted.ndim + n_leading:
        raise TypeError(
            "Argument %s of type %s given to scan node does not match its correspondance %s: in the loop %s it stands for %s of type %s"
            % (given, kind, inner, op.name, "the rows of a variable" if n_leading else "a variable", wanted)
        )
    pattern = kind.broadcastable[:n_leading] + wanted.broadcastable
    if kind.dtype != wanted.dtype:
        if not np.can_cast(kind.dtype, wanted.dtype):
            raise TypeError(
                "Argument %s given to the loop %s has dtype %s, and %s in its step has dtype %s; cast the argument, or pass a "
                "variable of the right dtype" % (given, op.name, kind.dtype, inner, wanted.dtype)
            )
        given = cast(given, wanted.dtype)
    for axis, (theirs, ours) in enumerate(zip(kind.broadcastable, pattern)):
        if ours and not theirs:
            raise TypeError(
                "The broadcast pattern of the output of scan (%s) is inconsistent with the one provided in `output_info` (%s): the loop "
                "%s is given %s. The output on axis %d is `False`, but it is `True` on axis %d in `output_info`. This can happen if one of "
                "the dimension is fixed to 1 in the input, while it is still variable in the output, or vice-verca. You have to make them "
                "consistent, e.g. using theano.tensor.{patternbroadcast,unbroadcast,addbroadcast}."
                % (kind, wanted, op.name, given, axis - n_leading, axis)
            )
    return given if given.broadcastable == pattern else rebroadcast(given, dict(enumerate(pattern)))


def check_step(op, inputs=None):
    """Raise an error if the step changes the type of a state.

    Parameters
    ----------
    op : Scan
    inputs : list of Variable, optional
        The outer inputs, for messages.

    Raises
    ------
    ValueError
        If a dtype or number of dimensions differs.
    TypeError
        If two types are of different classes, if the type of a value that is not a tensor changes, or if the broadcast
        pattern of an output does not fit its state.
    """
    first_row, first_out = op.n_seqs, 0
    for i in range(op.n_states):
        rows = op.inputs[first_row : first_row + len(op.tap_array[i])]
        outs = op.outputs[first_out : first_out + len(op.output_taps(i))]
        first_row, first_out = first_row + len(rows), first_out + len(outs)
        for out in outs:
            if out.type != rows[0].type:
                _compare(op, op.n_seqs + i, inputs and inputs[1 + op.n_seqs + i], rows[0], out)
    for inner, out in zip(op.inner_shared(op.inputs), op.inner_shared_outs(op.outputs)):
        if out.type != inner.type:
            raise TypeError(_inconsistent(op, inner, out))


def _compare(op, number, initial, row, out):
    """Raise TypeError or ValueError if the type of the output `out` of a state does not fit the type of `row`."""
    kind, wanted = out.type, row.type
    if type(kind) is not type(wanted):
        raise TypeError(_inconsistent(op, row, out))
    if kind.dtype != wanted.dtype:
        raise ValueError(
            "When compiling the inner function of scan the following error has been encountered: The initial state (`outputs_info` in scan "
            "nomenclature) of variable %s (argument number %d) has dtype %s, while the result of the inner function (`fn`) has dtype %s. "
            "This can happen if the inner function of scan results in an upcast or downcast. In the loop %s this is the state %s; cast the "
            "initial state, or what the step returns"
            % (initial, number, wanted.dtype, kind.dtype, op.name, _described(row))
        )
    if kind.ndim != wanted.ndim:
        raise ValueError(
            "When compiling the inner function of scan (the function called by scan in each of its iterations) the following error has been "
            "encountered: The initial state (`outputs_info` in scan nomenclature) of variable %s (argument number %d) has %d dimension(s), "
            "while the corresponding variable in the result of the inner function of scan (`fn`) has %d dimension(s) (it should be one less "
            "than the initial state). For example, if the inner function of scan returns a vector of size d and scan uses the values of the "
            "previous time-step, then the initial state in scan should be a matrix of shape (1, d). The first dimension of this matrix "
            "corresponds to the number of previous time-steps that scan uses in each of its iterations. In order to solve this issue if the "
            "two variables currently have the same dimensionality, you can increase the dimensionality of the variable in the initial state "
            "of scan by using dimshuffle or shape_padleft. In the loop %s this is the state %s: its row before step 0 has %d dimension(s), but "
            "the value that a step returns for it has %d. If -1 is the only tap, `outputs_info` contains this row itself, and scan adds the "
            "leading dimension of the steps."
            % (initial, number, wanted.ndim + 1, kind.ndim, op.name, _described(row), wanted.ndim, kind.ndim)
        )
    # If only the output of a step is known to have length 1, the length is checked at run time, like other lengths.
    if any(mine and not theirs for mine, theirs in zip(wanted.broadcastable, kind.broadcastable)):
        raise TypeError(
            _inconsistent(op, row, out)
            + " A dimension is known to have length 1 in one of these types, but not in the other; use "
            "theano.tensor.{patternbroadcast,unbroadcast,addbroadcast} on the initial state or on the result of the step."
        )


def _inconsistent(op, row, out):
    return (
        "Inconsistency in the inner graph of scan '%s' : an input and an output are associated with the same recurrent state and should have "
        "the same type but have type '%s' and '%s' respectively. The state is %s."
        % (op.name, row.type, out.type, _described(row))
    )


def _described(row):
    """Return the name of a state's row, or a description if it has none."""
    return row.name if row.name else "without name of type %s" % row.type


def _wrong_rank_of_initial(given, number, row):
    return (
        "When compiling the inner function of scan (the function called by scan in each of its iterations) the following error has been "
        "encountered: The initial state (outputs_info in scan nomenclature)  %s (argument number %d) has dtype %s and %d dimension(s). The "
        "corresponding variable in the inner function of scan %s however has dtype %s and %d dimension(s). This variable in the inner "
        "function of scan should have the same dtype and one fewer dimension compared to its corresponding variable in the initial state "
        "(outputs_info in scan nomenclature). For example, if the inner function of scan returns a vector of size d and scan uses the values "
        "of the previous time-step, then the initial state in scan should be a matrix of shape (1, d). The first dimension of this matrix "
        "corresponds to the number of previous time-steps that scan uses in each of its iterations. In order to solve this issue if the two "
        "variable currently have the same dimensionality, you can increase the dimensionality of the variable in the initial state of scan "
        "by using dimshuffle or shape_padleft." % (given, number, given.dtype, given.ndim, row, row.dtype, row.ndim)
    )
