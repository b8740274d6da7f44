"""Rules that move Ops to a device: allocation, joins, reshapes, and Ops on values of any kind."""

import functools
import operator

import numpy as np

from theano_ng.breakpoint import PdbBreakpoint
from theano_ng.compile.ops import Rebroadcast, Shape
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import local_optimizer
from theano_ng.gpuarray.basic_ops import (
    GpuAlloc,
    GpuContiguous,
    GpuJoin,
    GpuReshape,
    as_gpuarray_variable,
    host_from_gpu,
)
from theano_ng.gpuarray.opt.databases import gpu_optimizer, lifts, register_opt, safe_to_gpu
from theano_ng.gpuarray.twin import on_host
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.ifelse import IfElse
from theano_ng.printing import Print
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.opt import local_remove_all_assert, local_track_shape_i
from theano_ng.tensor.opt.common import op_of
from theano_ng.tensor.opt.patterns import Rest, names, restricted, rule, terms
from theano_ng.tensor.shaping.allocation import Alloc
from theano_ng.tensor.shaping.joining import Join
from theano_ng.tensor.shaping.reshaping import Flatten, Reshape
from theano_ng.tensor.type import TensorType

x, axis = names("x", "axis")
allocated, contiguous, joined = terms(GpuAlloc, GpuContiguous, GpuJoin)

register_opt("fast_compile", name="local_track_shape_i")(local_track_shape_i)
# Only modes that include the tag ``unsafe`` apply this rule.
gpu_optimizer.register("local_remove_all_assert", local_remove_all_assert, "unsafe")


@lifts(Shape)
def local_gpua_shape(op, context_name, inputs, outputs):
    """Read the shape of a device array from the device array, without a transfer.

    shape(host(A))  ->  shape(A)
    """
    return [op(*inputs)] if isinstance(inputs[0].type, GpuArrayType) else False


@lifts(Reshape)
def local_gpua_reshape(op, context_name, inputs, outputs):
    """reshape(host(A), i, ndim=3)  ->  host(GpuReshape(3)(A, i))"""
    x, shape = inputs
    new = GpuReshape(op.ndim)(as_gpuarray_variable(x, context_name), *on_host([shape]))
    return with_pattern(new, outputs[0])


@lifts(Flatten)
def local_gpua_flatten(op, context_name, inputs, outputs):
    """Flatten(1)(host(A))  ->  host(GpuReshape(1)(A, [-1]))"""
    x = as_gpuarray_variable(inputs[0], context_name)
    kept = op.outdim - 1
    lengths = [x.shape[i] for i in range(x.ndim)]
    # Do not use -1 as the last length: it is ambiguous if another length is 0.
    last = functools.reduce(operator.mul, lengths[kept:]) if kept else -1
    return with_pattern(GpuReshape(op.outdim)(x, [*lengths[:kept], last]), outputs[0])


def with_pattern(new, old):
    """Return `new` with the broadcast pattern of `old`."""
    if new.broadcastable == old.broadcastable:
        return new
    return Rebroadcast(*enumerate(old.broadcastable))(new)


@lifts(Alloc, name="local_gpuaalloc")
def local_gpua_alloc(op, context_name, inputs, outputs):
    """alloc(host(a), n, 3)  ->  host(GpuAlloc(None)(a, n, 3))"""
    return [GpuAlloc(context_name)(safe_to_gpu(inputs[0], context_name), *on_host(inputs[1:]))]


@register_opt("fast_compile")
@local_optimizer([Alloc])
def local_gpua_alloc2(node):
    """Allocate an array on the device if only Joins read it, and all arrays that they join are device arrays or
    allocations. Then other rules can move the Joins, too.

    join(0, host(A), alloc(unit, n, 3))  ->  join(0, host(A), host(GpuAlloc(None)(unit, n, 3)))
    """
    try:
        get_context(None)
    except ValueError:
        return False
    clients = [c for c, _ in node.outputs[0].clients]
    if not clients or not all(
        c != "output"
        and isinstance(c.op, Join)
        and all(v.owner is not None and isinstance(v.owner.op, (type(host_from_gpu), Alloc)) for v in c.inputs[1:])
        for c in clients
    ):
        return False
    return [host_from_gpu(GpuAlloc(None)(*node.inputs))]


def _is_null(v):
    """Return True for a constant whose bits are all zero. Minus zero has a nonzero bit."""
    if not isinstance(v, Constant) or v.data.size != 1:
        return False
    return not np.asarray(v.get_value() if hasattr(v, "get_value") else v.data).tobytes().strip(b"\0")


@register_opt()
@rule(allocated(restricted("value", _is_null), Rest("sizes")))
def local_gpualloc_memset_0(op, node):
    """GpuAlloc(None)(null, n)  ->  GpuAlloc(None, memset_0=True)(null, n)"""
    return None if op.memset_0 else GpuAlloc(op.context_name, memset_0=True)(*node.inputs)


@register_opt()
@rule((contiguous(restricted(x, lambda v: isinstance(op_of(v), GpuContiguous))), x))
def local_gpu_contiguous_gpu_contiguous():
    """gpu_contiguous(gpu_contiguous(A))  ->  gpu_contiguous(A)"""


@register_opt("fast_compile")
@rule((joined(axis, x), x))
def local_gpua_join_1():
    """gpu_join(0, A)  ->  A"""


@lifts(Assert)
def local_gpua_assert(op, context_name, inputs, outputs):
    """Assert("why")(host(A), c)  ->  host(Assert("why")(A, c))"""
    if not isinstance(inputs[0].type, GpuArrayType):
        return False
    return [op(inputs[0], *on_host(inputs[1:]))]


def gpu_print_wrapper(op, cnda):
    """Copy a device value to the host, and print it for `Print`."""
    op.old_op.global_fn(op.old_op, np.asarray(cnda))


@lifts(Print)
def local_gpua_print_op(op, context_name, inputs, outputs):
    """Print("A")(host(A))  ->  host(Print("A", ("__str__",), gpu_print_wrapper)(A))"""
    new = Print(op.message, op.attrs, gpu_print_wrapper)
    new.old_op = op
    return new(as_gpuarray_variable(inputs[0], context_name))


@lifts(PdbBreakpoint)
def local_gpu_pdbbreakpoint_op(op, context_name, inputs, outputs):
    """Pass device values to a breakpoint without a transfer.

    PdbBreakpoint("stop")(c, host(A))  ->  host(PdbBreakpoint("stop")(c, A))
    """
    condition, *watched = inputs
    old = [v.type for v in outputs]
    if not any(isinstance(v.type, GpuArrayType) for v in watched):
        return False
    made = op(*on_host([condition]), *watched, return_list=True)
    return made if len(made) == len(old) else False


@lifts(IfElse)
def local_gpua_lazy_ifelse(op, context_name, inputs, outputs):
    """ifelse(c, host(A), host(B))  ->  host(IfElse(1, gpu=True)(c, A, B))"""
    if op.gpu:
        return False
    condition, *values = inputs
    values = [
        as_gpuarray_variable(v, context_name) if isinstance(v.type, (TensorType, GpuArrayType)) else v for v in values
    ]
    return IfElse(op.n_outs, as_view=op.as_view, gpu=True, name=op.name)(
        *on_host([condition]), *values, return_list=True
    )
