"""Rules that move indexing to a device."""

from theano_ng.compile.ops import Shape_i
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu, as_gpuarray_variable
from theano_ng.gpuarray.opt.databases import lifts
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
from theano_ng.gpuarray.twin import on_host
from theano_ng.tensor.indexing.advanced import (
    AdvancedBooleanIncSubtensor,
    AdvancedBooleanSubtensor,
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor,
    AdvancedSubtensor1,
)
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.shaping.diagonals import AllocDiag, ExtractDiag
from theano_ng.tensor.type import TensorType


def _read_once(x):
    """Return the function input whose transfer is `x`, if only one node reads its elements (others may read lengths),
    else None.
    """
    if x.owner is None or not isinstance(x.owner.op, GpuFromHost):
        return None
    (source,) = x.owner.inputs
    if source.owner is not None or isinstance(source, Constant):
        return None
    readers, copies = 0, [source]
    for v in copies:
        for client, _ in getattr(v, "clients", ()):
            if client != "output" and isinstance(client.op, (GpuFromHost, HostFromGpu)):
                copies.extend(client.outputs)
            elif client == "output" or not isinstance(client.op, Shape_i):
                readers += 1 if client != "output" else 2
            if readers > 1:
                return None
    return source if readers == 1 else None


@lifts(Subtensor)
def local_gpua_subtensor(op, context_name, inputs, outputs):
    """host(A)[1:]  ->  host(GpuSubtensor([slice(scalar.int64, None)])(A, np.int64(1)))

    If nothing else reads the elements of a function input, the part is taken on the host, and only the part is
    transferred.
    """
    x, *indices = inputs
    if isinstance(x.type, TensorType):
        return False
    indices = on_host(indices)
    source = _read_once(x)
    if source is not None:
        return [GpuFromHost(context_name)(op(source, *indices))]
    return GpuSubtensor(op.idx_list)(x, *indices)


@lifts(IncSubtensor)
def local_gpua_inc_subtensor(op, context_name, inputs, outputs):
    """inc_subtensor(host(A)[1:], host(B))  ->  host(GpuIncSubtensor([slice(scalar.int64, None)])(A, B, np.int64(1)))"""
    new = GpuIncSubtensor(op.idx_list, op.inplace, op.set_instead_of_inc, op.destroyhandler_tolerate_aliased)
    x, y, *indices = inputs
    return new(as_gpuarray_variable(x, context_name), as_gpuarray_variable(y, context_name), *on_host(indices))


@lifts(AdvancedSubtensor1)
def local_gpua_advanced_subtensor1(op, context_name, inputs, outputs):
    """host(A)[i]  ->  host(GpuAdvancedSubtensor1()(A, i))"""
    return GpuAdvancedSubtensor1(op.sparse_grad)


@lifts(AdvancedSubtensor)
def local_gpua_advanced_subtensor(op, context_name, inputs, outputs):
    """host(A)[i, j]  ->  host(GpuAdvancedSubtensor()(A, i, j))"""
    return GpuAdvancedSubtensor()


@lifts(AdvancedBooleanSubtensor)
def local_gpua_advanced_boolean_subtensor(op, context_name, inputs, outputs):
    """host(A)[host(mask)]  ->  host(GpuAdvancedBooleanSubtensor()(A, mask))"""
    return GpuAdvancedBooleanSubtensor()


@lifts(AdvancedIncSubtensor1)
def local_gpua_advanced_incsubtensor1(op, context_name, inputs, outputs):
    """inc_subtensor(host(A)[i], host(B))  ->  host(GpuAdvancedIncSubtensor1_dev20()(A, B, i))

    With `config.deterministic` "more", which fixes the order of additions, the Op is GpuAdvancedIncSubtensor1.
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


@lifts(AdvancedIncSubtensor)
def local_gpua_advanced_incsubtensor(op, context_name, inputs, outputs):
    """inc_subtensor(host(A)[i, j], host(a))  ->  host(GpuAdvancedIncSubtensor()(A, a, i, j))"""
    return GpuAdvancedIncSubtensor(op.inplace, op.set_instead_of_inc)


@lifts(AdvancedBooleanIncSubtensor)
def local_gpua_advanced_boolean_incsubtensor(op, context_name, inputs, outputs):
    """inc_subtensor(host(A)[host(mask)], host(a))  ->  host(GpuAdvancedBooleanIncSubtensor()(A, a, mask))"""
    return GpuAdvancedBooleanIncSubtensor(op.inplace, op.set_instead_of_inc)


@lifts(ExtractDiag)
def local_gpu_extract_diag(op, context_name, inputs, outputs):
    """ExtractDiag()(host(A))  ->  host(GpuExtractDiag()(A))"""
    return GpuExtractDiag(offset=op.offset, axis1=op.axis1, axis2=op.axis2, view=op.view)


@lifts(AllocDiag)
def local_gpu_alloc_diag(op, context_name, inputs, outputs):
    """AllocDiag()(host(a))  ->  host(GpuAllocDiag()(a))"""
    return GpuAllocDiag(offset=op.offset, axis1=op.axis1, axis2=op.axis2)
