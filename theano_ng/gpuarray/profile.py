"""The device section of profiles."""

from theano_ng.compile.profiling import register_profiler_printer
from theano_ng.gpuarray.transfers import GpuFromHost, GpuToGpu, HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType


@register_profiler_printer
def profile_printer(message, compile_time, fct_call_time, apply_time, apply_cimpl, outputs_size, file):
    """Print how the time of nodes is divided between the host, devices, and transfers between them. Print nothing if no
    node is on a device.

    Parameters
    ----------
    message, compile_time, fct_call_time, apply_time, apply_cimpl, outputs_size, file
        See `compile.profiling.register_profiler_printer`.

    Notes
    -----
    Without `config.gpuarray.sync`, the time of a device node is only the time of its launch. The time that a transfer
    waits for the results counts as time of the transfer.
    """
    spent = {"cpu": 0.0, "gpu": 0.0, "transfer": 0.0}
    on_device = False
    for node, seconds in apply_time.items():
        kind = _kind(node)
        on_device = on_device or kind != "cpu"
        spent[kind] += seconds
    if on_device:
        whole = sum(spent.values()) or 1.0
        parts = tuple("%.3fs(%.2f%%) in %s op" % (spent[kind], 100 * spent[kind] / whole, kind) for kind in spent)
        print("Spent %s, %s and %s\n" % parts, file=file)
        if any(v.type.work_queue() for node in apply_time for v in node.outputs if isinstance(v.type, GpuArrayType)):
            print("Kernels were launched one by one, not as graphs, so that each node has a time.\n", file=file)


def _kind(node):
    if isinstance(node.op, (GpuFromHost, GpuToGpu, HostFromGpu)):
        return "transfer"
    return "gpu" if any(isinstance(v.type, GpuArrayType) for v in [*node.outputs, *node.inputs]) else "cpu"
