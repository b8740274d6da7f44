"""Fourier transforms of batches of real arrays on CUDA devices, by cuFFT.

cuFFT is part of the extras ``cuda12`` and ``cuda13``; scikit-cuda and PyCUDA are not needed. The arrays are float32 or
float64. The real and imaginary parts of a transform are pairs of numbers along an additional last axis, as in
`theano_ng.tensor.fft`. The gradient of a transform is the inverse transform, up to factors, and also runs on the device.
On other devices, the Ops raise RuntimeError when they are applied.
"""

from theano_ng.gof.derivative import disconnected_type
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.basic_ops import gpu_contiguous
from theano_ng.gpuarray.cuda_libraries import require
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.kernels import fft as kernels
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, host_variable, on_host, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor import fft as host_fft
from theano_ng.tensor.constant import as_tensor_variable

__all__ = ["CuIRFFTOp", "CuRFFTOp", "cuirfft", "cuirfft_op", "curfft", "curfft_op", "gpu_contiguous", "pygpu_available"]

pygpu_available = True
"""Programs that ask for this name need arrays on devices, which this package always has."""


def __getattr__(name):
    # Programs read these classic names to find out whether transforms can be computed. This needs cuFFT here.
    if name in ("skcuda_available", "pycuda_available"):
        return loader.cufft() is not None
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


class _RealTransform(TwinOp):
    """The base class of the transform and the inverse transform. Inputs: the array on a device, and a vector of integers on
    the host with the lengths of the real array along the transformed axes. A subclass defines `opposite()`, which returns
    the Op of the inverse transform.

    Attributes
    ----------
    host : Op
        The Op on the host.
    """

    native_uses_queue = False  # the native code calls a library, and may give the GIL up

    _f16_ok = False
    __props__ = ()
    host = None

    def host_op(self, node):
        return self.host

    def make_node(self, inp, s=None):
        context_name = infer_context_name(inp)
        x = as_gpuarray_variable(inp, context_name)
        node = self.host.make_node(host_variable(x), host_variable(s))
        if x.dtype not in kernels.DTYPES:
            raise TypeError("%s: expected an array of float32 or float64, got %s of type %s" % (self, x, x.type))
        require(self, context_name, "cufft")
        # The default lengths are an expression of the variable on the device, so that `grad` recognizes them.
        s = self.host.fitting_lengths(x)[0] if s is None else node.inputs[1]
        return self.on_device([x, as_tensor_variable(s)], node, context_name)

    def output_type(self, inp):
        """Return the type of the output for an input on a device."""
        host = self.host.output_type(host_variable(inp))
        return GpuArrayType(host.dtype, host.broadcastable, inp.type.context_name)

    def grad(self, inputs, output_grads):
        x, s = inputs[0], host_fft.signed(inputs[1])
        fits = host_fft.fits(self.host, x, inputs[1])

        def inverse(g, s):
            return host_from_gpu(self.opposite()(as_gpuarray_variable(g, x.type.context_name), s))

        gradient = self.host.gradient(*on_host([x, s, output_grads[0]]), inverse, fits)
        return [to_context_of(gradient, x), disconnected_type()]

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else self(eval_points[0], inputs[1])]


class CuRFFTOp(_RealTransform):
    """``curfft_op(inp, s)``: unnormalized transform of real arrays on a CUDA device, over all axes except the first.

    Parameters
    ----------
    inp : variable
        m real arrays of shape (..., n), as one array of shape (m, ..., n), float32 or float64.
    s : integer vector, optional
        The lengths of the transform: `inp` is cut or padded with zeros at the end of each axis.
        The default is ``inp.shape[1:]``.

    Returns
    -------
    Variable on the device
        The shape is ``(m, s[0], ..., s[-1]//2 + 1, 2)``, the dtype is the dtype of `inp`.

    Raises
    ------
    TypeError
        If the rank or the dtype is not supported.
    RuntimeError
        If the device is no CUDA device, or lacks cuFFT.
    ValueError
        At run time, if a length is below 1 or `s` has the wrong number of lengths.
    """

    host = host_fft.rfft_op

    def opposite(self):
        return cuirfft_op

    def native_code(self, node):
        type_ = node.inputs[0].type
        require(self, type_.context_name, "cufft")  # the node may come from a pickle of another process
        return NativeCode("theano_ng.gpuarray.native.fft:rfft", typecode=type_.typecode)


class CuIRFFTOp(_RealTransform):
    """``cuirfft_op(inp, s)``: unnormalized inverse transform to real arrays on a CUDA device.

    Parameters
    ----------
    inp : variable
        The transforms of m real arrays of shape (..., n), as one array of shape (m, ..., n//2+1, 2), float32 or float64.
    s : integer vector, optional
        The lengths of the result: `inp` is cut or padded with zeros at the end of each axis. The default is
        ``inp.shape[1:-1]`` with its last length replaced by ``(inp.shape[-2] - 1) * 2``.

    Returns
    -------
    Variable on the device
        The shape is ``(m, s[0], ..., s[-1])``, the dtype is the dtype of `inp`.

    Raises
    ------
    TypeError
        If the rank or the dtype is not supported.
    RuntimeError
        If the device is no CUDA device, or lacks cuFFT.
    ValueError
        At run time, if a length is below 1, if `s` has the wrong number of lengths, or if the last axis does not have
        length 2.
    """

    host = host_fft.irfft_op

    def opposite(self):
        return curfft_op

    def native_code(self, node):
        type_ = node.inputs[0].type
        require(self, type_.context_name, "cufft")
        return NativeCode(
            "theano_ng.gpuarray.native.fft:irfft",
            typecode=type_.typecode,
            symmetrize=kernels.symmetrize(type_.dtype, type_.ndim - 2, type_.context),
        )


curfft_op = CuRFFTOp()
cuirfft_op = CuIRFFTOp()


def _on_device(inp):
    inp = inp if hasattr(inp, "type") else as_tensor_variable(inp)
    return as_gpuarray_variable(inp, infer_context_name(inp))


def curfft(inp, norm=None):
    """Return the fast Fourier transform of real arrays, computed on a CUDA device.

    The transform is over all dimensions except the first, as `numpy.fft.rfftn`.

    Parameters
    ----------
    inp : variable
        Shape (m, ..., n): m arrays of shape (..., n), float32 or float64.
    norm : {None, 'ortho', 'no_norm'}
        None divides only the inverse transform, by the number of elements. 'ortho' divides both transforms by the
        square root of the number of elements. 'no_norm' divides neither transform.

    Returns
    -------
    Variable
        The shape is (m, ..., n//2+1, 2). The last axis contains the real and imaginary parts.

    Raises
    ------
    TypeError
        If `inp` has less than two dimensions, or its dtype is not supported.
    ValueError
        If `norm` is not one of these values.
    RuntimeError
        If the device is no CUDA device, or lacks cuFFT.
    """
    return host_fft.normalized_transform(curfft_op, _on_device(inp), norm)


def cuirfft(inp, norm=None, is_odd=False):
    """Return the inverse of the fast Fourier transform of real arrays, computed on a CUDA device.

    Parameters
    ----------
    inp : variable
        Shape (m, ..., n//2+1, 2), float32 or float64: the result of `curfft` for m arrays of shape (..., n).
    norm : {None, 'ortho', 'no_norm'}
        None divides by the number of elements of a result array. 'ortho' divides by the square root of this number.
        'no_norm' does not divide.
    is_odd : bool
        Whether the length of the last dimension of the result is odd. If the transform has N elements along
        this dimension, the length is (N-1)*2 + 1 for True and (N-1)*2 for False.

    Returns
    -------
    Variable
        The shape is (m, ..., n).

    Raises
    ------
    TypeError
        If `inp` has less than three dimensions, or its dtype is not supported.
    ValueError
        If `norm` or `is_odd` is not one of these values.
    RuntimeError
        If the device is no CUDA device, or lacks cuFFT.
    """
    return host_fft.normalized_inverse(cuirfft_op, _on_device(inp), norm, is_odd)
