"""Which Op on a device stands for which Op of the host.

Each rule gives the Op on the device, or its outputs, for an Op and the inputs of the new node (`databases.lifts`). Where there is none, the node stays.
"""

from theano_ng.breakpoint import PdbBreakpoint
from theano_ng.compile.ops import Rebroadcast, Shape, SpecifyShape
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.basic_ops import (
    GpuAlloc,
    GpuAllocEmpty,
    GpuContiguous,
    GpuEye,
    GpuFromHost,
    GpuJoin,
    GpuReshape,
    GpuSplit,
    GpuTri,
    as_gpuarray_variable,
    gpu_contiguous,
    gpu_join,
    host_from_gpu,
)
from theano_ng.gpuarray.elemwise import (
    GpuCAReduceCPY,
    GpuCAReduceCuda,
    GpuDimShuffle,
    GpuElemwise,
    SupportCodeError,
    gpu_ca_reduce_cuda,
    gpu_erfcinv,
    gpu_erfinv,
)
from theano_ng.gpuarray.extra_ops import GpuCumOp
from theano_ng.gpuarray.opt.databases import lifts, register_opt, safe_to_gpu
from theano_ng.gpuarray.reduction import GpuMaxAndArgmax
from theano_ng.gpuarray.subtensor import (
    GpuAdvancedBooleanIncSubtensor,
    GpuAdvancedBooleanSubtensor,
    GpuAdvancedIncSubtensor,
    GpuAdvancedIncSubtensor1,
    GpuAdvancedIncSubtensor1_dev20,
    GpuAdvancedSubtensor,
    GpuAdvancedSubtensor1,
    GpuAllocDiag,
    GpuExtractDiag,
    GpuIncSubtensor,
    GpuSubtensor,
)
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.ifelse import IfElse
from theano_ng.printing import Print
from theano_ng.configdefaults import config
from theano_ng.scalar import basic as scalar
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.basic import MaxAndArgmax
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.elemwise.dimshuffle import DimShuffle
from theano_ng.tensor.extra_ops import CpuContiguous, CumOp
from theano_ng.tensor.indexing import subtensor as indexing
from theano_ng.tensor.opt import local_remove_all_assert, local_track_shape_i
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.shaping.creation import Alloc, AllocEmpty, Eye, Tri
from theano_ng.tensor.shaping.joining import Join, Split
from theano_ng.tensor.shaping.reshaping import Flatten, Reshape
from theano_ng.tensor.type import TensorType

register_opt("fast_compile", name="local_track_shape_i", own=True)(local_track_shape_i)
register_opt("unsafe", name="local_remove_all_assert", own=True)(local_remove_all_assert)


# ---- elementwise operations and reductions ----

_ERFS = {"Erfinv": gpu_erfinv, "Erfcinv": gpu_erfcinv}


@lifts(Elemwise)
def local_gpua_elemwise(op, context_name, inputs, outputs):
    """exp(A)  ->  GpuElemwise{exp,no_inplace}(A)"""
    scalar_op = _ERFS.get(type(op.scalar_op).__name__, op.scalar_op)
    new = GpuElemwise(scalar_op, name=op.name, nfunc_spec=op.nfunc_spec)
    try:
        made = new(*[as_gpuarray_variable(v, context_name) for v in inputs], return_list=True)
    except SupportCodeError:
        return False
    # An Op that works in place has converted to the type it overwrites.
    if any(a.dtype != b.dtype or a.broadcastable != b.broadcastable for a, b in zip(made, outputs)):
        return False
    return made


@lifts(DimShuffle)
def local_gpua_dimshuffle(op, context_name, inputs, outputs):
    """A.T  ->  GpuDimShuffle{1,0}(A)"""
    return GpuDimShuffle(op.input_broadcastable, op.new_order)


@lifts(CAReduce)
def local_gpua_careduce(op, context_name, inputs, outputs):
    """sum(A, axis=0)  ->  GpuCAReduceCuda{add}{0}(A)"""
    (x,) = inputs
    new = gpu_ca_reduce_cuda(
        op.scalar_op, op.axis, None, getattr(op, "dtype", outputs[0].dtype), getattr(op, "acc_dtype", None)
    )
    x = as_gpuarray_variable(x, context_name)
    if not new.supports_c_code([x]):
        new = GpuCAReduceCPY(
            op.scalar_op, op.axis, getattr(op, "dtype", outputs[0].dtype), getattr(op, "acc_dtype", None)
        )
    made = new(x)
    return False if made.dtype != outputs[0].dtype or made.broadcastable != outputs[0].broadcastable else made


@register_opt("low_memory", own=True)
@local_optimizer([GpuCAReduceCuda])
def local_gpu_elemwise_careduce(node):
    """The sum of squares (and of what other functions give) is one kernel: GpuCAReduceCuda{add}{sqr}."""
    (x,) = node.inputs
    if (
        node.op.pre_scalar_op is not None
        or x.owner is None
        or type(x.owner.op) is not GpuElemwise
        or len(x.clients) > 1
    ):
        return False
    if not isinstance(x.owner.op.scalar_op, (scalar.Sqr, scalar.Abs)) or len(x.owner.inputs) != 1:
        return False
    props = node.op._props_dict()
    props["pre_scalar_op"] = x.owner.op.scalar_op
    new = GpuCAReduceCuda(**props)(x.owner.inputs[0])
    copy_stack_trace(node.outputs, new)
    return [new]


@lifts(MaxAndArgmax)
def local_gpu_maxandargmax(op, context_name, inputs, outputs):
    """max_and_argmax(A, axis=0)  ->  GpuMaxAndArgmax{(0,)}(A)"""
    return GpuMaxAndArgmax(op.get_params(None) if op.axis is None else op.axis)


@lifts(CumOp)
def local_gpua_cumop(op, context_name, inputs, outputs):
    """cumsum(A, axis=0)  ->  GpuCumOp{0, add}(A)"""
    (x,) = inputs
    axis = op.axis
    if axis is None:
        if x.ndim > 1:
            x, axis = GpuReshape(1)(as_gpuarray_variable(x, context_name), [-1]), 0
        else:
            axis = 0
    return GpuCumOp(axis, op.mode)(as_gpuarray_variable(x, context_name))


# ---- shapes ----


@lifts(Shape)
def local_gpua_shape(op, context_name, inputs, outputs):
    """The shape of what is on a device is known on the host."""
    return [op(*inputs)] if isinstance(inputs[0].type, GpuArrayType) else False


@lifts(Rebroadcast)
def local_gpua_rebroadcast(op, context_name, inputs, outputs):
    """Rebroadcast(A)  ->  Rebroadcast of A on the device"""
    return [op(as_gpuarray_variable(inputs[0], context_name))]


@lifts(SpecifyShape)
def local_gpua_specifyShape(op, context_name, inputs, outputs):
    """SpecifyShape(A, shape)  ->  the same of A on the device"""
    return [op(as_gpuarray_variable(inputs[0], context_name), *_on_host(inputs[1:]))]


@lifts(Reshape)
def local_gpua_reshape(op, context_name, inputs, outputs):
    """A.reshape(shape)  ->  GpuReshape{2}(A, shape)"""
    x, shape = inputs
    new = GpuReshape(op.ndim)(as_gpuarray_variable(x, context_name), *_on_host([shape]))
    return _with_pattern(new, outputs[0])


@lifts(Flatten)
def local_gpua_flatten(op, context_name, inputs, outputs):
    """A.flatten(2)  ->  GpuReshape{2}(A, (A.shape[0], -1))"""
    x = as_gpuarray_variable(inputs[0], context_name)
    shape = [x.shape[i] for i in range(op.outdim - 1)] + [-1]
    return _with_pattern(GpuReshape(op.outdim)(x, shape), outputs[0])


def _on_host(variables):
    return [host_from_gpu(v) if isinstance(v.type, GpuArrayType) else v for v in variables]


def _with_pattern(new, old):
    """`new`, with what `old` knows of lengths that are 1."""
    if new.broadcastable == old.broadcastable:
        return new
    return Rebroadcast(*enumerate(old.broadcastable))(new)


# ---- new arrays ----


@lifts(Alloc, name="local_gpuaalloc")
def local_gpua_alloc(op, context_name, inputs, outputs):
    """alloc(x, 3, 4)  ->  GpuAlloc<None>(x, 3, 4)"""
    return [GpuAlloc(context_name)(safe_to_gpu(inputs[0], context_name), *_on_host(inputs[1:]))]


@register_opt("fast_compile", own=True)
@local_optimizer([Alloc])
def local_gpua_alloc2(node):
    """What joins have on the host from nothing but allocations is allocated on the device, where `Join` then goes."""
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


@register_opt(own=True)
@local_optimizer([GpuAlloc])
def local_gpualloc_memset_0(node):
    """GpuAlloc<None>(0., 3)  ->  GpuAlloc<None>{memset_0=True}(0., 3)"""
    value = node.inputs[0]
    if node.op.memset_0 or not isinstance(value, Constant) or value.data.size != 1:
        return False
    data = value.get_value() if hasattr(value, "get_value") else value.data
    import numpy as np

    bits = np.asarray(data)
    if bits.tobytes().strip(b"\0"):  # minus zero has a bit
        return False
    new = GpuAlloc(node.op.context_name, memset_0=True)(*node.inputs)
    copy_stack_trace(node.outputs, new)
    return [new]


@lifts(AllocEmpty)
def local_gpua_alloc_empty(op, context_name, inputs, outputs):
    """AllocEmpty(3)  ->  GpuAllocEmpty<None>(3)"""
    return [GpuAllocEmpty(op.dtype, context_name)(*_on_host(inputs))]


@lifts(Eye)
def local_gpua_eye(op, context_name, inputs, outputs):
    """eye(3)  ->  GpuEye(3)"""
    return [GpuEye(op.dtype, context_name)(*_on_host(inputs))]


@lifts(Tri)
def local_gpua_tri(op, context_name, inputs, outputs):
    """tri(3)  ->  GpuTri(3)"""
    return [GpuTri(op.dtype, context_name)(*_on_host(inputs))]


@lifts(CpuContiguous)
def local_gpua_contiguous(op, context_name, inputs, outputs):
    """cpu_contiguous(A)  ->  gpu_contiguous(A)"""
    return gpu_contiguous


@register_opt(own=True)
@local_optimizer([GpuContiguous])
def local_gpu_contiguous_gpu_contiguous(node):
    """gpu_contiguous(gpu_contiguous(A))  ->  gpu_contiguous(A)"""
    (x,) = node.inputs
    return [x] if x.owner is not None and isinstance(x.owner.op, GpuContiguous) else False


# ---- joining and splitting ----


@lifts(Join)
def local_gpua_join(op, context_name, inputs, outputs):
    """join(0, A, B)  ->  GpuJoin(0, A, B)"""
    axis, *parts = inputs
    return [gpu_join(*_on_host([axis]), *[as_gpuarray_variable(v, context_name) for v in parts])]


@register_opt("fast_compile", own=True)
@local_optimizer([GpuJoin])
def local_gpua_join_1(node):
    """GpuJoin(0, A)  ->  A"""
    return [node.inputs[1]] if len(node.inputs) == 2 else False


@lifts(Split)
def local_gpua_split(op, context_name, inputs, outputs):
    """split(A, (1, 2), 2)  ->  GpuSplit{2}(A, 0, (1, 2))"""
    x, axis, sizes = inputs
    return GpuSplit(op.len_splits)(as_gpuarray_variable(x, context_name), *_on_host([axis, sizes]), return_list=True)


# ---- indices ----


def _view_of_input(x):
    """Whether it is an input of the function that nothing else on the device reads: then its part, and not all of it, is transferred."""
    return (
        x.owner is not None
        and isinstance(x.owner.op, GpuFromHost)
        and x.owner.inputs[0].owner is None
        and not isinstance(x.owner.inputs[0], Constant)
    )


@lifts(indexing.Subtensor)
def local_gpua_subtensor(op, context_name, inputs, outputs):
    """A[1:]  ->  GpuSubtensor{int64::}(A, 1)

    Of an input, of which nothing else is used on the device, a part is taken on the host.
    """
    x = inputs[0]
    if isinstance(x.type, TensorType):
        return False
    if _view_of_input(x):
        readers = [c for c, _ in getattr(x.owner.inputs[0], "clients", ())]
        if readers and all(
            c != "output" and (isinstance(c.op, indexing.Subtensor) or c.op == x.owner.op) for c in readers
        ):
            users = [c for c in readers if isinstance(c.op, indexing.Subtensor)]
            if len(users) == 1 and all(c != "output" and c is users[0] or c == x.owner for c in readers):
                return False
    return GpuSubtensor(op.idx_list)(x, *_on_host(inputs[1:]))


@lifts(indexing.IncSubtensor)
def local_gpua_inc_subtensor(op, context_name, inputs, outputs):
    """inc_subtensor(A[1:], B)  ->  GpuIncSubtensor{Inc;int64::}(A, B, 1)"""
    new = GpuIncSubtensor(op.idx_list, op.inplace, op.set_instead_of_inc, op.destroyhandler_tolerate_aliased)
    x, y, *indices = inputs
    return new(as_gpuarray_variable(x, context_name), as_gpuarray_variable(y, context_name), *_on_host(indices))


@lifts(indexing.AdvancedSubtensor1)
def local_gpua_advanced_subtensor1(op, context_name, inputs, outputs):
    """A[i]  ->  GpuAdvancedSubtensor1(A, i)"""
    return GpuAdvancedSubtensor1(op.sparse_grad)


@lifts(indexing.AdvancedSubtensor)
def local_gpua_advanced_subtensor(op, context_name, inputs, outputs):
    """A[i, j]  ->  GpuAdvancedSubtensor(A, i, j)"""
    return GpuAdvancedSubtensor()


@lifts(indexing.AdvancedBooleanSubtensor)
def local_gpua_advanced_boolean_subtensor(op, context_name, inputs, outputs):
    """A[A > 0]  ->  GpuAdvancedBooleanSubtensor(A, A > 0)"""
    return GpuAdvancedBooleanSubtensor()


@lifts(indexing.AdvancedIncSubtensor1)
def local_gpua_advanced_incsubtensor1(op, context_name, inputs, outputs):
    """inc_subtensor(A[i], B)  ->  GpuAdvancedIncSubtensor1_dev20(A, B, i)

    With `config.deterministic` "more", where the order of additions is fixed: GpuAdvancedIncSubtensor1.
    """
    x, y, index = inputs
    fast = (
        not op.set_instead_of_inc
        and config.deterministic != "more"
        and x.ndim == 2
        and y.ndim == 2
        and outputs[0].dtype in ("float32", "float64")
    )
    cls = GpuAdvancedIncSubtensor1_dev20 if fast else GpuAdvancedIncSubtensor1
    return cls(inplace=op.inplace, set_instead_of_inc=op.set_instead_of_inc)


@lifts(indexing.AdvancedIncSubtensor)
def local_gpua_advanced_incsubtensor(op, context_name, inputs, outputs):
    """inc_subtensor(A[i, j], B)  ->  GpuAdvancedIncSubtensor(A, B, i, j)"""
    return GpuAdvancedIncSubtensor(op.inplace, op.set_instead_of_inc)


@lifts(indexing.AdvancedBooleanIncSubtensor)
def local_gpua_advanced_boolean_incsubtensor(op, context_name, inputs, outputs):
    """inc_subtensor(A[A > 0], B)  ->  GpuAdvancedBooleanIncSubtensor(A, B, A > 0)"""
    return GpuAdvancedBooleanIncSubtensor(op.inplace, op.set_instead_of_inc)


@lifts(indexing.ExtractDiag if hasattr(indexing, "ExtractDiag") else object)
def local_gpu_extract_diag(op, context_name, inputs, outputs):
    """diagonal(A)  ->  GpuExtractDiag(A)"""
    return GpuExtractDiag(offset=op.offset, axis1=op.axis1, axis2=op.axis2, view=op.view)


@lifts(indexing.AllocDiag if hasattr(indexing, "AllocDiag") else object)
def local_gpu_alloc_diag(op, context_name, inputs, outputs):
    """diag(a)  ->  GpuAllocDiag(a)"""
    return GpuAllocDiag(offset=op.offset, axis1=op.axis1, axis2=op.axis2)


# ---- Ops that work on values of any kind ----


@lifts(Assert)
def local_gpua_assert(op, context_name, inputs, outputs):
    """Assert(A, condition)  ->  the same of A on the device; conditions are read on the host"""
    if not isinstance(inputs[0].type, GpuArrayType):
        return False
    return [op(inputs[0], *_on_host(inputs[1:]))]


def gpu_print_wrapper(op, cnda):
    """What `Print` of a value on a device prints: the value on the host."""
    import numpy as np

    op.old_op.global_fn(op.old_op, np.asarray(cnda))


@lifts(Print)
def local_gpua_print_op(op, context_name, inputs, outputs):
    """Print(A)  ->  Print of A on the device, which copies it"""
    new = Print(op.message, op.attrs, gpu_print_wrapper)
    new.old_op = op
    return new(as_gpuarray_variable(inputs[0], context_name))


@lifts(PdbBreakpoint)
def local_gpu_pdbbreakpoint_op(op, context_name, inputs, outputs):
    """A breakpoint is handed values on the device; it watches them there."""
    condition, *watched = inputs
    old = [v.type for v in outputs]
    if not any(isinstance(v.type, GpuArrayType) for v in watched):
        return False
    made = op(*_on_host([condition]), *watched, return_list=True)
    return made if len(made) == len(old) else False


@lifts(IfElse)
def local_gpua_lazy_ifelse(op, context_name, inputs, outputs):
    """ifelse(c, A, B)  ->  if{gpu}(c, A, B)"""
    if op.gpu:
        return False
    condition, *values = inputs
    n = op.n_outs
    values = [as_gpuarray_variable(v, context_name) if isinstance(v.type, TensorType) else v for v in values]
    # Both branches are one type: what is known of lengths of one is not of the other.
    for i in range(n):
        a, b = values[i], values[n + i]
        if a.type != b.type and hasattr(a.type, "broadcastable"):
            pattern = [p and q for p, q in zip(a.broadcastable, b.broadcastable)]
            values[i], values[n + i] = [
                v if list(v.broadcastable) == pattern else Rebroadcast(*enumerate(pattern))(v) for v in (a, b)
            ]
    return IfElse(n, as_view=op.as_view, gpu=True, name=op.name)(*_on_host([condition]), *values, return_list=True)
