"""Helpers for authors of device rules."""

import functools

import numpy as np

from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, inherit_stack_trace, local_optimizer
from theano_ng.gpuarray.basic_ops import GpuAllocEmpty, GpuFromHost, GpuReshape, HostFromGpu, host_from_gpu
from theano_ng.gpuarray.elemwise import GpuDimShuffle, GpuElemwise
from theano_ng.scalar import basic as scalar
from theano_ng.tensor.basic import mul
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.shaping.joining import stack
from theano_ng.tensor.type import TensorType


def grab_cpu_scalar(v, nd):
    """Return the scalar that a variable contains, without transfers and axes of length 1.

    Parameters
    ----------
    v : Variable
    nd : int
        The required number of dimensions of `v`.

    Returns
    -------
    Variable or None
        A 0-d tensor on the host, or None if there is no such scalar.
    """
    if getattr(v.type, "ndim", None) != nd or not all(getattr(v.type, "broadcastable", (False,))):
        return None
    while v.owner is not None and isinstance(v.owner.op, (GpuFromHost, HostFromGpu, DimShuffle, GpuDimShuffle)):
        (v,) = v.owner.inputs
    if isinstance(v, Constant):
        value = np.asarray(v.data)
        return TensorType(value.dtype.name, ()).make_constant(value.reshape(())) if value.size == 1 else None
    if getattr(v.type, "ndim", None) != 0:
        return None
    return v if isinstance(v.type, TensorType) else host_from_gpu(v)


def find_node(v, cls, ignore_clients=False):
    """Return the node that computes a variable if its Op has a given class. Transfers after the node are ignored.

    Parameters
    ----------
    v : Variable
    cls : Op class
    ignore_clients : bool
        If True, also search through variables that several nodes read. A rule that then merges an operation into the
        found node makes a second node, so the computation is done twice.

    Returns
    -------
    Apply or None
    """
    while v.owner is not None and (ignore_clients or len(v.clients) <= 1):
        if isinstance(v.owner.op, cls):
            return v.owner
        if not isinstance(v.owner.op, (GpuFromHost, HostFromGpu)):
            return None
        (v,) = v.owner.inputs
    return None


def is_equal(var, val):
    """Return True if a variable is known to be constantly equal to a value.

    Parameters
    ----------
    var : Variable
    val : number
    """
    try:
        return bool(get_scalar_constant_value(var) == val)
    except NotScalarConstantError:
        return False


def _product(a, b):
    """Return a * b. Leave out a factor that is 1."""
    if is_equal(a, 1.0):
        return b
    return a if is_equal(b, 1.0) else mul(a, b)


def alpha_merge(cls, alpha_in, beta_in):
    """Return a decorator of rules that merge a scalar factor of the result into the inputs alpha and beta of an Op.

    The Op computes ``out = f(...) * alpha + out_like * beta``, as GEMM does.

    Parameters
    ----------
    cls : Op class
    alpha_in, beta_in : int
        Positions of alpha and beta among the inputs of the Op.

    Returns
    -------
    callable
        The decorator of ``maker(node, *inputs)``, a function that makes the node again with other inputs. The decorator
        returns a rule with the name of this function. The rule is not registered.
    """

    def decorator(maker):
        @local_optimizer([GpuElemwise])
        @functools.wraps(maker)
        def rule(node):
            if not isinstance(node.op.scalar_op, scalar.Mul) or len(node.inputs) != 2:
                return False
            for v, factor in (node.inputs, reversed(node.inputs)):
                found = find_node(v, cls)
                # A factor of a larger dtype also enlarges the dtype of the result.
                if found is None or found.outputs[0].dtype != node.outputs[0].dtype:
                    continue
                number = grab_cpu_scalar(factor, node.outputs[0].ndim)
                if number is None:
                    continue
                if number.dtype != found.inputs[alpha_in].dtype:
                    number = number.astype(found.inputs[alpha_in].dtype)
                inputs = list(found.inputs)
                inputs[alpha_in] = _product(number, inputs[alpha_in])
                if not is_equal(inputs[beta_in], 0.0):
                    inputs[beta_in] = _product(number, inputs[beta_in])
                with inherit_stack_trace(node.outputs):
                    return maker(found, *inputs)
            return False

        return rule

    return decorator


def output_merge(cls, alpha_in, beta_in, out_in):
    """Return a decorator of rules that merge an array that is added to the result into the inputs of an Op.

    The Op computes ``out = f(...) * alpha + out_like * beta``. If beta is 0, the added array becomes `out_like`, and
    beta becomes 1. An array that the sum would broadcast is not merged.

    Parameters
    ----------
    cls : Op class
    alpha_in, beta_in, out_in : int
        Positions of alpha, beta and ``out_like`` among the inputs of the Op.

    Returns
    -------
    callable
        See `alpha_merge`.
    """

    def decorator(maker):
        @local_optimizer([GpuElemwise])
        @functools.wraps(maker)
        def rule(node):
            if not isinstance(node.op.scalar_op, scalar.Add) or len(node.inputs) != 2:
                return False
            for v, added in (node.inputs, reversed(node.inputs)):
                found = find_node(v, cls)
                if found is None or not is_equal(found.inputs[beta_in], 0.0):
                    continue
                # If the broadcast patterns differ, the sum might broadcast an axis of length 1.
                if added.dtype != found.outputs[0].dtype or added.broadcastable != found.outputs[0].broadcastable:
                    continue
                inputs = list(found.inputs)
                one = np.asarray(1.0, dtype=inputs[beta_in].dtype)
                inputs[beta_in] = TensorType(one.dtype.name, ()).make_constant(one)
                inputs[out_in] = added
                with inherit_stack_trace(node.outputs):
                    return maker(found, *inputs)
            return False

        return rule

    return decorator


def inplace_allocempty(op, idx):
    """Return a decorator of rules that make an Op work in place. If other nodes, too, read the `GpuAllocEmpty` that the
    node would overwrite, the rule makes a separate allocation for the node.

    Parameters
    ----------
    op : Op class
        A class whose instances have an attribute `inplace`.
    idx : int
        Position of the input to overwrite.

    Returns
    -------
    callable
        The decorator of ``maker(node, inputs)``, a function that returns the outputs of the in-place node. The
        decorator returns a rule with the name of this function. The rule is not registered.
    """

    def decorator(maker):
        @local_optimizer([op], inplace=True)
        @functools.wraps(maker)
        def rule(node):
            if node.op.inplace:
                return False
            inputs = list(node.inputs)
            memory = inputs[idx].owner
            if memory is not None and isinstance(memory.op, GpuAllocEmpty) and len(inputs[idx].clients) > 1:
                inputs[idx] = memory.op(*memory.inputs)
                copy_stack_trace(memory.outputs, inputs[idx])
            with inherit_stack_trace(node.outputs):
                return maker(node, inputs)

        return rule

    return decorator


def pad_dims(input, leftdims, rightdims):
    """Return an array of ``leftdims + rightdims`` dimensions with the same elements. Add axes on the left, or merge the
    leftmost axes.

    Parameters
    ----------
    input : Variable on a device
        An array of at least `rightdims` dimensions.
    leftdims, rightdims : int

    Raises
    ------
    ValueError
        If `input` has fewer than `rightdims` dimensions.

    See Also
    --------
    unpad_dims : restores the number of dimensions

    Notes
    -----
    With `leftdims` and `rightdims` equal to 2, the shape (3, 5, 7) becomes (1, 3, 5, 7), (3, 5, 7, 9) does not change,
    and (3, 5, 7, 9, 11) becomes (15, 7, 9, 11).
    """
    if input.ndim < rightdims:
        raise ValueError("expected an array of at least %d dimensions, got %d" % (rightdims, input.ndim))
    if input.ndim == leftdims + rightdims:
        return input
    missing = leftdims + rightdims - input.ndim
    if missing > 0:
        return GpuDimShuffle(input.broadcastable, ["x"] * missing + list(range(input.ndim)))(input)
    merged = 1 - missing  # number of axes that are merged into one
    size = input.shape[0]
    for i in range(1, merged):
        size = size * input.shape[i]
    return GpuReshape(leftdims + rightdims)(input, stack([size, *[input.shape[i] for i in range(merged, input.ndim)]]))


def unpad_dims(output, input, leftdims, rightdims):
    """Undo `pad_dims`: restore the number of dimensions.

    Parameters
    ----------
    output : Variable
        An array of ``leftdims + rightdims`` dimensions. The lengths of the last `rightdims` dimensions may differ from
        those of `input`.
    input : Variable
        The input of `pad_dims`.
    leftdims, rightdims : int
    """
    if input.ndim == leftdims + rightdims:
        return output
    left = [input.shape[i] for i in range(input.ndim - rightdims)]
    right = [output.shape[i] for i in range(leftdims, leftdims + rightdims)]
    return GpuReshape(input.ndim)(output, stack([*left, *right]))
