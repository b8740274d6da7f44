"""Rules that move indexing to a device."""

from theano_ng.compile.ops import Shape_i
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.opt.databases import lifts
from theano_ng.gpuarray.subtensor import GpuAdvancedIncSubtensor1, GpuAdvancedIncSubtensor1_dev20, GpuSubtensor
from theano_ng.gpuarray.twin import on_host
from theano_ng.tensor.indexing.advanced import AdvancedIncSubtensor1
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.type import TensorType


def _read_once(x):
    """Return the function input from which a transfer made `x`, if exactly one node reads the elements of the input.
    Otherwise return None. Any number of nodes may read the lengths of the input.
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

    If A is the transfer of a function input, and no other node reads the elements of this input, the rule takes the
    part on the host, and transfers only the part.
    """
    x, *indices = inputs
    if isinstance(x.type, TensorType):
        return False
    indices = on_host(indices)
    source = _read_once(x)
    if source is not None:
        return [GpuFromHost(context_name)(op(source, *indices))]
    return GpuSubtensor(op.idx_list)(x, *indices)


@lifts(AdvancedIncSubtensor1)
def local_gpua_advanced_incsubtensor1(op, context_name, inputs, outputs):
    """inc_subtensor(host(A)[i], host(B))  ->  host(GpuAdvancedIncSubtensor1_dev20()(A, B, i))

    The rule uses GpuAdvancedIncSubtensor1, which adds in a fixed order, in three cases: `config.deterministic` is
    "more", the elements are set instead of incremented, or the arrays are not matrices of float32 or float64.
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
