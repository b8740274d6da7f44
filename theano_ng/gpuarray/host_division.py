"""Evaluation of scalar ops in NumPy. As in kernels, the quotient of an integer and zero is 0."""

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.scalar.ops_arith import RealDivision
from theano_ng.scalar.types import get_scalar_type
from theano_ng.tensor.elemwise.perform import array_function_for, call_nfunc, computed_dtypes, evaluate_scalar_op


def evaluate_without_errors(op, in_dtypes, values, out_dtypes, shape):
    """Apply a scalar op to arrays. An integer divided by zero gives 0, as in kernels, and raises no error.

    Parameters
    ----------
    op : ScalarOp
    in_dtypes, out_dtypes : list of str
    values : list of numpy.ndarray
        Arrays that broadcast to `shape`.
    shape : tuple of int

    Returns
    -------
    list of numpy.ndarray
    """
    program = getattr(op, "_program", None)
    if program is None:
        return [np.broadcast_to(v, shape) for v in _apply(op, in_dtypes, values, out_dtypes, shape)]
    slots = dict(enumerate(values))
    types = {slot: type_.dtype for slot, type_ in program.slot_types().items()}
    slots.update((slot, np.asarray(data, type_.dtype)) for slot, (type_, data) in program.constants.items())
    for inner, args, outs, _ in program.instructions:
        arguments = [slots[a] for a in args]
        inner_shape = np.broadcast_shapes(*[a.shape for a in arguments])
        results = _apply(inner, [types[a] for a in args], arguments, [types[o] for o in outs], inner_shape)
        slots.update(zip(outs, results))
    return [np.broadcast_to(slots[o], shape) for o in program.outputs]


def _apply(op, in_dtypes, values, out_dtypes, shape):
    node = Apply(op, *[[get_scalar_type(d).make_variable() for d in dtypes] for dtypes in (in_dtypes, out_dtypes)])
    computed = computed_dtypes(op, in_dtypes, out_dtypes)
    with np.errstate(all="ignore"):
        if isinstance(op, RealDivision):
            results = [op.ufunc(*[np.asarray(v).astype(computed[0]) for v in values])]
        else:
            function = array_function_for(getattr(op, "nfunc_spec", None), node, op)
            if function is not None:
                results = call_nfunc(function, op.nfunc_spec[1], values, computed)
            else:
                results = evaluate_scalar_op(op, values, computed, shape)
        return [np.asarray(v).astype(dtype) for v, dtype in zip(results, out_dtypes)]
