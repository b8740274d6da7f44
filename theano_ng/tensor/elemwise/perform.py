"""Evaluation of scalar ops on arrays in Python: what `Elemwise.perform` and `CAReduce.perform` are made of."""

import functools
import importlib

import numpy as np

from theano_ng.scalar.ops_arith import RealDivision, power, zero_divisor


def broadcast_shape(node, inputs):
    """Return the shape of an Elemwise node's result for these arrays, or raise the `ValueError` of a mismatch."""
    shape = []
    for d in range(node.outputs[0].type.ndim):
        reference = None
        for i, (x, variable) in enumerate(zip(inputs, node.inputs)):
            length = x.shape[d]
            if variable.type.broadcastable[d]:
                if length != 1:
                    raise ValueError(
                        "Input dimension mis-match. (input[%d].shape[%d] = %d, but its type says that this dimension is "
                        "broadcastable: its length must be 1)" % (i, d, length)
                    )
            elif reference is None:
                reference = i
            elif length != inputs[reference].shape[d]:
                raise ValueError(
                    "Input dimension mis-match. (input[%d].shape[%d] = %d, input[%d].shape[%d] = %d)"
                    % (reference, d, inputs[reference].shape[d], i, d, length)
                )
        shape.append(1 if reference is None else inputs[reference].shape[d])
    return tuple(shape)


@functools.lru_cache(maxsize=None)
def array_function(name):
    """The function on arrays that the first item of an `nfunc_spec` names.

    Parameters
    ----------
    name : str
        Of a function of numpy (``"add"``), or with the path of its module (``"scipy.special.erf"``), which is imported.

    Returns
    -------
    callable or None
        None when there is no such function, or no such module.
    """
    if hasattr(np, name):
        return getattr(np, name)
    parts = name.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        return functools.reduce(lambda found, part: getattr(found, part, None), parts[k:], module)
    return None


def array_function_for(spec, node, op):
    """The function on arrays by which a node can be computed.

    Parameters
    ----------
    spec : tuple or None
        ``(name, nin, nout)``.
    node : Apply
    op : ScalarOp
        One of any number of inputs over a binary function is a fold (add, mul, maximum ...).

    Returns
    -------
    callable or None
    """
    # Ops with `on_arrays` say there how they compute arrays: with more care for dtypes than a function of SciPy has.
    if not spec or not spec[0] or spec[2] != len(node.outputs) or hasattr(op, "on_arrays"):
        return None
    if spec[1] != len(node.inputs) and not (spec[1] == 2 and len(node.inputs) > 2 and op.nin < 0):
        return None
    return array_function(spec[0])


def computed_dtypes(op, inputs, outputs):
    """The dtypes that the outputs of a node are computed in: as in C, those that the op has where it overwrites nothing, for instance floats of
    the exponential of integers that it is to overwrite.

    Parameters
    ----------
    op : ScalarOp
    inputs, outputs : list of str
        The dtypes of the node.

    Returns
    -------
    list of str
    """
    return [op._c_dtype(inputs, outputs[0])] if len(outputs) == 1 else outputs


def call_nfunc(function, nin, inputs, dtypes):
    """Call a NumPy function.

    Inputs of a float function are converted first where NumPy would compute in less precision than the output has: float16 for int8, and
    that of the input for `angle`, whose output is float64.
    """
    if dtypes[0][0] in "fc" and function is not np.where:
        inputs = [
            x.astype(dtypes[0] if x.dtype.kind in "biu" else np.result_type(x.dtype, dtypes[0]), copy=False)
            for x in inputs
        ]
    elif dtypes[0][0] in "iu" and all(x.dtype.kind in "biu" for x in inputs):
        # NumPy has its own rules for bool + bool and the like; the op's output dtype decides here.
        inputs = [x.astype(dtypes[0]) for x in inputs] if any(x.dtype.kind == "b" for x in inputs) else inputs
    if function is np.power:
        function = power
    if nin == len(inputs):
        results = function(*inputs)
    else:
        # Two narrow operands may not wrap around before a wide one comes.
        first = inputs[0].astype(dtypes[0], copy=False)
        results = functools.reduce(function, inputs[1:], first)
    return results if len(dtypes) > 1 else [results]


def evaluate_scalar_op(op, inputs, dtypes, shape):
    """Apply a scalar op to broadcast arrays in Python.

    Parameters
    ----------
    op : ScalarOp
    inputs : list of numpy.ndarray
        They broadcast to `shape`.
    dtypes : list of str
        dtypes of the outputs.
    shape : tuple of int

    Returns
    -------
    list of numpy.ndarray
        One array of `shape` for each output.

    Notes
    -----
    The inner graph of a Composite is run node by node on whole arrays, an op with
    an attribute `on_arrays` by its `value` on whole arrays of the output's dtype, any other by its `impl` element by element on NumPy
    scalars.
    """
    inner = getattr(op, "fgraph", None)
    if inner is not None:
        return _evaluate_composite(inner, inputs, shape)
    if getattr(op, "on_arrays", False) and all(x.dtype.kind in "biuf" for x in inputs):
        with np.errstate(all="ignore"):
            return [
                np.asarray(op.value(*[np.broadcast_to(x, shape).astype(dtypes[0]) for x in inputs]), dtype=dtypes[0])
            ]
    flat = [np.broadcast_to(x, shape).reshape(-1) for x in inputs]
    results = [np.empty(shape, dtype=dtype) for dtype in dtypes]
    rows = [r.reshape(-1) for r in results]
    count = rows[0].size
    values = zip(*flat) if flat else (() for _ in range(count))
    if len(rows) == 1:
        (row,) = rows
        for k, arguments in enumerate(values):
            row[k] = _narrow(op.impl(*arguments), row.dtype)
    else:
        for k, arguments in enumerate(values):
            for row, value in zip(rows, op.impl(*arguments)):
                row[k] = _narrow(value, row.dtype)
    return results


def check_divisor(op, inputs, shape, name):
    """Raise ZeroDivisionError where `op` divides integers and the divisor has a zero.

    Parameters
    ----------
    op : ScalarOp
    inputs : list of numpy.ndarray
    shape : tuple of int
        Of the result; without elements nothing is divided.
    name : str or None
        What the divisor is called; None: it is computed inside, where elements have no place.
    """
    if not isinstance(op, RealDivision) or np.result_type(*inputs).kind not in "biu" or 0 in shape:
        return
    divisor = np.asarray(inputs[1])
    if not divisor.all():
        place = name or "the divisor"
        if name and divisor.ndim:
            place = "element %s of %s" % (np.argwhere(divisor == 0)[0].tolist(), name)
        raise ZeroDivisionError(zero_divisor(op.operation, place))


def _narrow(value, dtype):
    """`value`, ready to be stored as `dtype`: an out-of-range integer wraps as in C."""
    value = np.asarray(value)
    if value.dtype.kind == "c" and dtype.kind != "c":
        value = value.real
    return value.astype(dtype)


def _evaluate_composite(fgraph, inputs, shape):
    values = dict(zip(fgraph.inputs, inputs))
    for node in fgraph.toposort():
        arguments = [values[i] if i in values else np.asarray(i.data, dtype=i.type.dtype) for i in node.inputs]
        inner_shape = np.broadcast_shapes(*[a.shape for a in arguments]) if arguments else ()
        dtypes = [o.type.dtype for o in node.outputs]
        computed = computed_dtypes(node.op, [i.type.dtype for i in node.inputs], dtypes)
        spec = getattr(node.op, "nfunc_spec", None)
        function = array_function_for(spec, node, node.op)
        if function is not None:
            divisor = node.inputs[-1]
            place = "input[%d]" % fgraph.inputs.index(divisor) if divisor in fgraph.inputs else None
            check_divisor(node.op, arguments, shape, place)
            results = call_nfunc(function, spec[1], arguments, computed)
        else:
            results = evaluate_scalar_op(node.op, arguments, computed, inner_shape)
        for variable, result, dtype in zip(node.outputs, results, dtypes):
            result = np.asarray(result)
            values[variable] = result if result.dtype == dtype else result.astype(dtype)
    return [
        np.broadcast_to(values[o] if o in values else np.asarray(o.data, dtype=o.type.dtype), shape)
        for o in fgraph.outputs
    ]
