"""Helpers for those who write rules of devices."""

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
    """A constant number behind transfers and axes of length 1.

    Parameters
    ----------
    v : Variable
    nd : int
        How many dimensions `v` has to have.

    Returns
    -------
    Variable or None
        A 0-d tensor on the host; None when there is no such number.
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
    """The node with an Op of a class that computes a variable, behind transfers.

    Parameters
    ----------
    v : Variable
    cls : Op class
    ignore_clients : bool
        Also through variables that others read: the node's work is then done twice.

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
    """Whether a variable is known to be a value always.

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
    """a * b, without a factor that is 1."""
    if is_equal(a, 1.0):
        return b
    return a if is_equal(b, 1.0) else mul(a, b)


def alpha_merge(cls, alpha_in, beta_in):
    """Decorator of rules by which a factor of a result becomes part of the Op: of ``out = Op() * alpha + out_like * beta``, as GEMM is.

    Parameters
    ----------
    cls : Op class
    alpha_in, beta_in : int
        Which inputs these numbers are.

    Returns
    -------
    callable
        Of ``maker(node, *inputs)``, which makes the node anew on other inputs; gives a rule of that name, which is not registered.
    """

    def decorator(maker):
        @local_optimizer([GpuElemwise])
        @functools.wraps(maker)
        def rule(node):
            if not isinstance(node.op.scalar_op, scalar.Mul) or len(node.inputs) != 2:
                return False
            for v, factor in (node.inputs, reversed(node.inputs)):
                found = find_node(v, cls)
                number = None if found is None else grab_cpu_scalar(factor, node.outputs[0].ndim)
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
    """Decorator of rules by which what is added to a result becomes part of the Op: of ``out = Op() * alpha + out_like * beta``, where beta is 0.

    What is broadcast in the sum is not added.

    Parameters
    ----------
    cls : Op class
    alpha_in, beta_in, out_in : int
        Which inputs these are.

    Returns
    -------
    callable
        As of `alpha_merge`.
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
                # A length of 1 may be that of the sum, but need not be.
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
    """Decorator of rules that make an Op work in place; memory that several nodes would overwrite is allocated for each.

    Parameters
    ----------
    op : Op class
        Its instances have an attribute `inplace`.
    idx : int
        Which input is overwritten.

    Returns
    -------
    callable
        Of ``maker(node, inputs)``, which returns the outputs of the node in place; gives a rule of that name, which is not registered.
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
    """An array of ``leftdims + rightdims`` dimensions with the same elements: axes are added on the left, or those there are merged.

    Parameters
    ----------
    input : Variable on a device
        Of more than `rightdims` - 1 dimensions.
    leftdims, rightdims : int

    Raises
    ------
    ValueError
        For less dimensions.

    See Also
    --------
    unpad_dims : back to the shape before

    Notes
    -----
    (3, 5, 7), 2, 2 gives (1, 3, 5, 7); (3, 5, 7, 9), 2, 2 stays; (3, 5, 7, 9, 11), 2, 2 gives (15, 7, 9, 11).
    """
    if input.ndim < rightdims:
        raise ValueError("an array of at least %d dimensions is needed, not %d" % (rightdims, input.ndim))
    if input.ndim == leftdims + rightdims:
        return input
    missing = leftdims + rightdims - input.ndim
    if missing > 0:
        return GpuDimShuffle(input.broadcastable, ["x"] * missing + list(range(input.ndim)))(input)
    merged = 1 - missing  # axes that become one
    size = input.shape[0]
    for i in range(1, merged):
        size = size * input.shape[i]
    return GpuReshape(leftdims + rightdims)(input, stack([size, *[input.shape[i] for i in range(merged, input.ndim)]]))


def unpad_dims(output, input, leftdims, rightdims):
    """What `pad_dims` did, undone.

    Parameters
    ----------
    output : Variable
        Of ``leftdims + rightdims`` dimensions, the last `rightdims` of any length.
    input : Variable
        What was given to `pad_dims`.
    leftdims, rightdims : int
    """
    if input.ndim == leftdims + rightdims:
        return output
    left = [input.shape[i] for i in range(input.ndim - rightdims)]
    right = [output.shape[i] for i in range(leftdims, leftdims + rightdims)]
    return GpuReshape(input.ndim)(output, stack([*left, *right]))
