"""Ops on devices that copy image patches into the rows of a matrix, and that add the rows to the images."""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.kernels import neighbours as kernels
from theano_ng.gpuarray.kernels.snippets import TYPES
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, host_variable, on_host
from theano_ng.lazy import lazy_names
from theano_ng.tensor.nnet.neighbours import MODES, Images2Neibs, Images2NeibsGrad

__all__ = ["GpuImages2Neibs"]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, CLASSIC_IMPORTS)


class _GpuWindows(TwinOp):
    """A mixin of Ops whose first input is on a device. The other inputs are integers on the host."""

    host_class = None

    def host_op(self, node):
        return self.host_class(self.mode)

    def make_node(self, first, *integers):
        context_name = infer_context_name(first)
        first = as_gpuarray_variable(first, context_name)
        host = self.host_op(None).make_node(host_from_gpu(first), *on_host(integers))
        return self.on_device([first, *host.inputs[1:]], host, context_name)


class GpuImages2Neibs(_GpuWindows, Images2Neibs):
    """Copy image patches on a device into the rows of a matrix. See :func:`theano_ng.tensor.nnet.neighbours.images2neibs`.

    Inputs: the images (a device array of 4 dimensions), neib_shape and neib_step (vectors of 2 integers on the host).

    Parameters
    ----------
    mode : {'valid', 'ignore_borders', 'wrap_centered', 'half', 'full'}

    Raises
    ------
    TypeError
        At run time, if windows do not fit into the images.
    ValueError
        At run time, if lengths or steps are not positive.
    """

    host_class = Images2Neibs

    def make_node(self, ten4, neib_shape, neib_step=None):
        neib_shape = host_variable(neib_shape)
        return super().make_node(ten4, neib_shape, neib_shape if neib_step is None else neib_step)

    def native_code(self, node):
        type_ = node.inputs[0].type
        if type_.dtype not in TYPES:
            return None
        return NativeCode(
            "theano_ng.gpuarray.native.neighbours:images2neibs",
            mode=MODES.index(self.mode),
            kernel=kernels.images2neibs(type_.dtype, type_.context),
        )


class GpuImages2NeibsGrad(_GpuWindows, Images2NeibsGrad):
    """Add the rows of a matrix on a device to image patches. See :class:`tensor.nnet.neighbours.Images2NeibsGrad`.

    Inputs: the rows (a device matrix); the four lengths of the images, neib_shape and neib_step, on the host.
    """

    host_class = Images2NeibsGrad

    def native_code(self, node):
        type_ = node.inputs[0].type
        if type_.dtype not in TYPES or type_.dtype == "complex64":
            return None
        return NativeCode(
            "theano_ng.gpuarray.native.neighbours:neibs_sum",
            mode=MODES.index(self.mode),
            kernel=kernels.neibs_sum(type_.dtype, type_.context),
        )
