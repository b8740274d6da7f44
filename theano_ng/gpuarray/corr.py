"""Correlations of images with kernels on devices, and their gradients.

The Ops have the parameters, inputs, shapes and derivatives of the Ops in `tensor.nnet.corr` and `tensor.nnet.corr3d`. The
arrays have one dtype, float16, float32 or float64, and may have any strides; float16 is summed in float32. The lengths of a
gradient stay on the host.
"""

from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.kernels.correlation import correlation_code
from theano_ng.gpuarray.kernels.product import DTYPES
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import host_variable, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.scalar import upcast
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.nnet.corr import BaseCorrMM, CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import BaseCorr3dMM, Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights
from theano_ng.tensor.nnet.corr_base import Forward, GradInputs, GradWeights

__all__ = [
    "BaseGpuCorr3dMM",
    "BaseGpuCorrMM",
    "GpuCorr3dMM",
    "GpuCorr3dMM_gradInputs",
    "GpuCorr3dMM_gradWeights",
    "GpuCorrMM",
    "GpuCorrMM_gradInputs",
    "GpuCorrMM_gradWeights",
]


class _GpuCorr(GpuOp):
    """A mixin for correlations on devices.

    Attributes
    ----------
    host_class : type
        The equivalent Op for the host.
    """

    host_class = None

    def host_op(self, node):
        return self.host_class(openmp=False, **self._props_dict())

    def _twin(self, op):
        return op(**self._props_dict())

    def _operands(self, **operands):
        context_name = infer_context_name(*[v for v in operands.values() if hasattr(v, "type")])
        arrays = [as_gpuarray_variable(v, context_name) for v in operands.values()]
        dtype = upcast(*[v.dtype for v in arrays])
        if dtype not in DTYPES:
            given = ", ".join("%s: %s" % (name, v.dtype) for name, v in zip(operands, arrays))
            raise TypeError("%s: the dtype must be one of %s; got %s" % (self, ", ".join(DTYPES), given))
        arrays = [v if v.dtype == dtype else as_gpuarray_variable(cast(v, dtype), context_name) for v in arrays]
        for name, v in zip(operands, arrays):
            self._check_rank(name, v)
        return arrays

    def _lengths(self, shape, more):
        shape = [host_variable(v) for v in shape] if isinstance(shape, (list, tuple)) else host_variable(shape)
        return super()._lengths(shape, [host_variable(v) for v in more])

    def _apply(self, inputs, flags):
        like = inputs[0].type
        type_ = GpuArrayType(like.dtype, [*flags, *[False] * self.convdim], like.context_name)
        return Apply(self, inputs, [type_()])

    def native_code(self, node):
        type_ = node.outputs[0].type
        return correlation_code(type_.dtype, type_.typecode, type_.context, **self._native_options())

    def fails_on_values(self, node):
        return False

    def grad(self, inputs, output_grads):
        return [to_context_of(g, x) for g, x in zip(super().grad(inputs, output_grads), inputs)]

    def R_op(self, inputs, eval_points):
        context_name = inputs[0].type.context_name
        return [None if d is None else as_gpuarray_variable(d, context_name) for d in super().R_op(inputs, eval_points)]


class BaseGpuCorrMM(_GpuCorr, BaseCorrMM):
    """The base class of :class:`GpuCorrMM` and its gradients.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int, or a pair of int or pairs of int
        The number of zeros around images. 'valid': none; 'half': half the extent of the kernel; 'full': the extent of
        the kernel minus one; an int: this number on each side; a pair: the numbers for rows and for columns. Each
        number in the pair may be replaced by a pair: the numbers of zeros before the first and after the last element.
    subsample : pair of int
        The strides: the number of pixels that the kernel moves between neighboring elements of the output.
    filter_dilation : pair of int
        The distance in the image between neighboring elements of a kernel.
    num_groups : int
        The number of groups into which channels and filters are divided. A filter uses only the channels of its group.
    unshared : bool
        Whether each position of the output has a separate kernel.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid.
    """

    def __init__(self, border_mode="valid", subsample=(1, 1), filter_dilation=(1, 1), num_groups=1, unshared=False):
        super().__init__(border_mode, subsample, filter_dilation, num_groups, unshared, openmp=False)


class GpuCorrMM(Forward, BaseGpuCorrMM):
    """Correlation of images with kernels, which are not flipped, on a device.

    Inputs: images (batch, channels, rows, columns), and kernels (filters, channels per group, rows, columns). Output:
    (batch, filters, rows, columns). For the parameters, see :class:`BaseGpuCorrMM`.
    """

    host_class = CorrMM


class GpuCorrMM_gradWeights(GradWeights, BaseGpuCorrMM):
    """Gradient of :class:`GpuCorrMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the two lengths of the kernels. The lengths may be omitted if
    `subsample` is (1, 1) and `border_mode` is not 'half'.
    """

    host_class = CorrMM_gradWeights


class GpuCorrMM_gradInputs(GradInputs, BaseGpuCorrMM):
    """Gradient of :class:`GpuCorrMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the two lengths of the images. The lengths may be omitted if
    `subsample` is (1, 1).
    """

    host_class = CorrMM_gradInputs


class BaseGpuCorr3dMM(_GpuCorr, BaseCorr3dMM):
    """The base class of :class:`GpuCorr3dMM` and its gradients.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int or three int
        The number of zeros around images, as in :class:`BaseGpuCorrMM`; three ints: one number for each axis.
    subsample, filter_dilation : three int
        See :class:`BaseGpuCorrMM`.
    num_groups : int
        See :class:`BaseGpuCorrMM`.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid.
    """

    def __init__(self, border_mode="valid", subsample=(1, 1, 1), filter_dilation=(1, 1, 1), num_groups=1):
        super().__init__(border_mode, subsample, filter_dilation, False, num_groups)


class GpuCorr3dMM(Forward, BaseGpuCorr3dMM):
    """Correlation of images with kernels in three dimensions, on a device. The kernels are not flipped.

    Inputs: images (batch, channels, depth, rows, columns), and kernels (filters, channels per group, depth, rows,
    columns). Output: (batch, filters, depth, rows, columns). For the parameters, see :class:`BaseGpuCorr3dMM`.
    """

    host_class = Corr3dMM


class GpuCorr3dMM_gradWeights(GradWeights, BaseGpuCorr3dMM):
    """Gradient of :class:`GpuCorr3dMM` with respect to the kernels.

    Inputs: the images, the gradient of the output, and the three lengths of the kernels. The lengths may be omitted if
    `subsample` is (1, 1, 1) and `border_mode` is not 'half'.
    """

    host_class = Corr3dMM_gradWeights


class GpuCorr3dMM_gradInputs(GradInputs, BaseGpuCorr3dMM):
    """Gradient of :class:`GpuCorr3dMM` with respect to the images.

    Inputs: the kernels, the gradient of the output, and the three lengths of the images. The lengths may be omitted if
    `subsample` is (1, 1, 1).
    """

    host_class = Corr3dMM_gradInputs


for _op in (GpuCorrMM, GpuCorrMM_gradWeights, GpuCorrMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = GpuCorrMM, GpuCorrMM_gradWeights, GpuCorrMM_gradInputs
for _op in (GpuCorr3dMM, GpuCorr3dMM_gradWeights, GpuCorr3dMM_gradInputs):
    _op.forward, _op.grad_weights, _op.grad_inputs = GpuCorr3dMM, GpuCorr3dMM_gradWeights, GpuCorr3dMM_gradInputs
