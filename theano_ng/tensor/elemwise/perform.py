"""Evaluation of scalar ops on arrays in Python, for `Elemwise.perform` and `CAReduce.perform`."""

import functools
import importlib

import numpy as np

from theano_ng.scalar.ops_arith import RealDivision, power, zero_divisor


def broadcast_shape(node, inputs):
    """Return the shape of an Elemwise node's result for the arrays `inputs`. Raise ValueError on a length mismatch."""
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


@functools.cache
def array_function(name):
    """Return the function on arrays with a given name, such as the first item of an `nfunc_spec`.

    Parameters
    ----------
    name : str
        The name of a function of numpy (``"add"``), or a name with the path of a module (``"scipy.special.erf"``). The
        module is imported.

    Returns
    -------
    callable or None
        None if the function or the module does not exist.
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
    """Return a function on arrays that can compute a node.

    Parameters
    ----------
    spec : tuple or None
        ``(name, nin, nout)``.
    node : Apply
    op : ScalarOp
        An op with any number of inputs (add, mul, maximum ...) may have a binary function. The caller must then combine
        the inputs one after the other.

    Returns
    -------
    callable or None
    """
    # An op with `on_arrays` evaluates arrays itself, since it handles dtypes more carefully than the function of SciPy.
    if not spec or not spec[0] or spec[2] != len(node.outputs) or hasattr(op, "on_arrays"):
        return None
    if spec[1] != len(node.inputs) and not (spec[1] == 2 and len(node.inputs) > 2 and op.nin < 0):
        return None
    return array_function(spec[0])


def computed_dtypes(op, inputs, outputs):
    """Return the dtypes in which the outputs of a node are computed.

    As in the C code, an op that overwrites an input computes in the same dtypes as the op that does not overwrite it.
    For instance, the exponential of integers is computed in floats, even if the result overwrites the integers.

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

    If the results are floats, the inputs are converted first, because NumPy may compute in a lower precision than the
    precision of the output. For example, NumPy computes functions of int8 in float16. It computes `angle`, whose output
    is float64 here, in the precision of the input.
    """
    if dtypes[0][0] in "fc" and function is not np.where:
        inputs = [
            x.astype(dtypes[0] if x.dtype.kind in "biu" else np.result_type(x.dtype, dtypes[0]), copy=False)
            for x in inputs
        ]
    elif dtypes[0][0] in "iu" and all(x.dtype.kind in "biu" for x in inputs):
        # Convert bools to the output dtype, because NumPy has special rules for bools: bool + bool is a logical or.
        inputs = [x.astype(dtypes[0]) for x in inputs] if any(x.dtype.kind == "b" for x in inputs) else inputs
    if function is np.power:
        function = power
    if nin == len(inputs):
        results = function(*inputs)
    else:
        # Start with the output dtype: the sum of two narrow operands could wrap around before a wide operand is added.
        first = inputs[0].astype(dtypes[0], copy=False)
        results = functools.reduce(function, inputs[1:], first)
    return results if len(dtypes) > 1 else [results]


def evaluate_scalar_op(op, inputs, dtypes, shape):
    """Apply a scalar op to broadcast arrays in Python.

    Parameters
    ----------
    op : ScalarOp
    inputs : list of numpy.ndarray
        Arrays that broadcast to `shape`.
    dtypes : list of str
        The dtypes of the outputs.
    shape : tuple of int

    Returns
    -------
    list of numpy.ndarray
        One array of `shape` for each output.

    Notes
    -----
    A Composite is evaluated node by node on whole arrays. If an op has a true attribute `on_arrays`, its method `value`
    is called with whole arrays, converted to the output dtype. For any other op, the method `impl` is called with the
    NumPy scalars of each element.
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
    """Raise ZeroDivisionError if `op` divides integers and the divisor has a zero.

    Parameters
    ----------
    op : ScalarOp
    inputs : list of numpy.ndarray
    shape : tuple of int
        The shape of the result. If the result has no elements, nothing is divided, and no error is raised.
    name : str or None
        The name of the divisor in the error message. The name is None if the divisor is computed inside the op. The
        message then does not contain the index of an element.
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
    """Convert `value` to `dtype`. An integer that is out of range wraps around as in C."""
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
