"""Connectionist temporal classification on devices: the cost of labels that are not aligned with the input.

The package has its own implementation: warp-ctc is not needed, and ``config.ctc.root`` is not read.
"""

import numpy as np

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.kernels import ctc as kernels
from theano_ng.gpuarray.kernels.snippets import precise
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, on_host, to_context_of
from theano_ng.lazy import lazy_names
from theano_ng.tensor.nnet.ctc import ConnectionistTemporalClassification, ctc_available, ctc_present

__all__ = ["GpuConnectionistTemporalClassification", "ctc_available", "ctc_present", "gpu_ctc"]

# The number of threads in a group, a power of two. -1: the number that suits the device
_GROUP = -1

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(
    __name__, {**CLASSIC_IMPORTS, "theano_ng.gpuarray.opt.networks": "local_gpu_ctc_no_grad"}
)


class GpuConnectionistTemporalClassification(TwinOp):
    """Cost of labels by connectionist temporal classification on a device. See :func:`gpu_ctc`.

    Inputs: activations (time, batch, symbols) on the device, labels (batch, length) and input lengths (batch) on the
    host. Outputs: costs (batch), and gradients with respect to the activations. Labels and lengths that are on a device
    are copied to the host, where they are checked.

    Parameters
    ----------
    compute_grad : bool
        Whether the Op has the second output.
    """

    __props__ = ("compute_grad",)

    def __init__(self, compute_grad=True):
        self.compute_grad = bool(compute_grad)

    def host_op(self, node):
        return ConnectionistTemporalClassification(self.compute_grad, openmp=False)

    def make_node(self, activations, labels, input_lengths):
        context_name = infer_context_name(activations)
        activations = as_gpuarray_variable(activations, context_name)
        host = self.host_op(None).make_node(host_from_gpu(activations), *on_host([labels, input_lengths]))
        return self.on_device([activations, *host.inputs[1:]], host, context_name)

    def native_code(self, node):
        type_ = node.inputs[0].type
        norms, paths, gradients = kernels.ctc(type_.dtype, type_.context)
        return NativeCode(
            "theano_ng.gpuarray.native.ctc:ctc",
            typecode=type_.typecode,
            norms=norms,
            paths=paths,
            gradients=gradients if self.compute_grad else 0,
            real=np.dtype(precise(type_.dtype, type_.context)).itemsize,
            group=_GROUP,
        )

    def L_op(self, inputs, outputs, output_grads):
        found = self.host_op(None).L_op(on_host(inputs), on_host(outputs), on_host(output_grads))
        return [to_context_of(g, x) for g, x in zip(found, inputs)]


def gpu_ctc(activations, labels, input_lengths):
    """Return the cost of labels by connectionist temporal classification, computed on a device.

    If a device is used, :func:`theano_ng.tensor.nnet.ctc.ctc` is moved to the device. Use this function only to choose the device
    in the graph.

    Parameters
    ----------
    activations : (time, batch, symbols) tensor of floats
        The input of softmax. Symbol 0 is the blank.
    labels : (batch, length) tensor of integers
        Labels are at least 1. Negative numbers are padding.
    input_lengths : (batch,) tensor of integers
        The number of time steps of each example. Later time steps are not read.

    Returns
    -------
    (batch,) variable on the device
        The costs. If an example has too many labels for any alignment, its cost is infinite and its gradient is zero.

    Raises
    ------
    ValueError
        At run time, if the numbers of examples differ, if a label is the blank or not a symbol, or if an input length
        exceeds the number of time steps.
    """
    return GpuConnectionistTemporalClassification()(activations, labels, input_lengths)[0]
