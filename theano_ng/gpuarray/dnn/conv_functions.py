"""Functions that convolve by cuDNN: they build the inputs of the Ops in `conv`."""

import warnings

import numpy as np

from theano_ng.gof.graph import Variable
from theano_ng.gpuarray.alloc import GpuAllocEmpty
from theano_ng.gpuarray.dnn.conv import GpuDnnConv, GpuDnnConvDesc, GpuDnnConvGradI, GpuDnnConvGradW, get_precision
from theano_ng.gpuarray.transfers import as_gpuarray_variable, gpu_contiguous, infer_context_name
from theano_ng.gpuarray.twin import host_variable
from theano_ng.gpuarray.views import exchanged, flipped
from theano_ng.tensor.elemwise.functions import cast, maximum
from theano_ng.tensor.nnet.convolution.shapes import get_conv_output_shape

__all__ = ["dnn_conv", "dnn_conv3d", "dnn_gradinput", "dnn_gradinput3d", "dnn_gradweight", "dnn_gradweight3d"]


def _arrays(first, second, precision, for_grad=False):
    """Return two arrays on one device in C order with one dtype, the precision, the dtype, and the context."""
    context_name = infer_context_name(first, second)
    arrays = [as_gpuarray_variable(v, context_name) for v in (first, second)]
    precision, dtype = get_precision(precision, arrays, for_grad)
    arrays = [v if v.dtype == dtype else as_gpuarray_variable(cast(v, dtype), context_name) for v in arrays]
    return (*map(gpu_contiguous, arrays), precision, dtype, context_name)


def _output(out, beta, shape, dtype, context_name):
    """Return the array `output` of a node: `out`, or new memory if beta is 0."""
    is_zero = isinstance(beta, (int, float, np.number)) and beta == 0
    if out is not None and not is_zero:
        return gpu_contiguous(as_gpuarray_variable(out, context_name))
    if not is_zero:
        raise ValueError("beta is not 0, so the array `out` must be given")
    # A negative length means that the shapes do not fit; the Op reports this.
    lengths = [maximum(n, 0) if isinstance(n, Variable) else max(n, 0) for n in shape]
    return GpuAllocEmpty(dtype, context_name)(*lengths)


def _computed(cls, axes, first, second, out, desc, alpha, beta, algo, num_groups):
    algo = cls.default_algo(axes) if algo is None else algo
    return cls(algo=algo, num_groups=num_groups)(first, second, out, desc, alpha, beta)


def _lengths(shape, rank):
    """Return the lengths in a vector or a sequence."""
    shape = host_variable(shape)
    if isinstance(shape, Variable):
        return [shape[i] for i in range(rank)]
    if len(shape) != rank:
        raise ValueError("a shape must contain %d lengths, got %s" % (rank, shape))
    return [host_variable(n) for n in shape]


def _dnn_conv(
    img,
    kerns,
    alpha=1,
    beta=0,
    out=None,
    border_mode="valid",
    subsample=(1, 1),
    dilation=(1, 1),
    conv_mode="conv",
    algo=None,
    precision=None,
    num_groups=1,
):
    """Return ``alpha * convolution + beta * out`` by `GpuDnnConv`, in two or three dimensions. See `dnn_conv`."""
    img, kerns, precision, dtype, context_name = _arrays(img, kerns, precision)
    desc = GpuDnnConvDesc(border_mode, subsample, dilation, conv_mode, precision, num_groups)
    shapes = [[v.shape[i] for i in range(v.ndim)] for v in (img, kerns)]
    shape = GpuDnnConv.get_out_shape(*shapes, desc.border_mode, desc.subsample, desc.dilation)
    out = _output(out, beta, shape, dtype, context_name)
    axes = len(desc.subsample)
    return _computed(GpuDnnConv, axes, img, kerns, out, desc.constant(), alpha, beta, algo, num_groups)


def _dnn_gradweight(
    img,
    topgrad,
    kerns_shp,
    alpha=1,
    beta=0,
    out=None,
    border_mode="valid",
    subsample=(1, 1),
    dilation=(1, 1),
    conv_mode="conv",
    algo=None,
    precision=None,
    num_groups=1,
):
    """Return ``alpha * gradient + beta * out`` by `GpuDnnConvGradW`. See `dnn_gradweight`."""
    img, topgrad, precision, dtype, context_name = _arrays(img, topgrad, precision, for_grad=True)
    desc = GpuDnnConvDesc(border_mode, subsample, dilation, conv_mode, precision, num_groups)
    out = _output(out, beta, _lengths(kerns_shp, img.ndim), dtype, context_name)
    axes = len(desc.subsample)
    return _computed(GpuDnnConvGradW, axes, img, topgrad, out, desc.constant(), alpha, beta, algo, num_groups)


def _dnn_gradinput(
    kerns,
    topgrad,
    img_shp,
    alpha=1,
    beta=0,
    out=None,
    border_mode="valid",
    subsample=(1, 1),
    dilation=(1, 1),
    conv_mode="conv",
    algo=None,
    precision=None,
    num_groups=1,
):
    """Return ``alpha * gradient + beta * out`` by `GpuDnnConvGradI`. See `dnn_gradinput`."""
    kerns, topgrad, precision, dtype, context_name = _arrays(kerns, topgrad, precision, for_grad=True)
    desc = GpuDnnConvDesc(border_mode, subsample, dilation, conv_mode, precision, num_groups)
    out = _output(out, beta, _lengths(img_shp, kerns.ndim), dtype, context_name)
    axes = len(desc.subsample)
    return _computed(GpuDnnConvGradI, axes, kerns, topgrad, out, desc.constant(), alpha, beta, algo, num_groups)


def _convolution(axes, img, kerns, border_mode, subsample, dilation, conv_mode, hint, algo, precision, num_groups):
    """Compute a convolution by the Op that `hint` suggests."""
    context_name = infer_context_name(img, kerns)
    img, kerns = [as_gpuarray_variable(v, context_name) for v in (img, kerns)]
    options = dict(conv_mode=conv_mode, precision=precision, num_groups=num_groups)
    plain = num_groups == 1 and set(subsample) == set(dilation) == {1}
    if plain and border_mode == "valid" and hint == "bprop weights":
        topgrad = exchanged(flipped(kerns, axes) if conv_mode == "conv" else kerns)
        images, options["conv_mode"] = exchanged(img), "cross"
        lengths = get_conv_output_shape(
            *[[v.shape[i] for i in range(v.ndim)] for v in (img, kerns)], border_mode, subsample, dilation
        )[2:]
        shape = [kerns.shape[0], img.shape[0], *lengths]
        steps = dict(subsample=subsample, dilation=dilation)
        return exchanged(_dnn_gradweight(images, topgrad, shape, **steps, **options))
    if plain and border_mode == "full" and hint != "forward!":
        lengths = [img.shape[i] + kerns.shape[i] - 1 for i in range(2, 2 + axes)]
        shape = [img.shape[0], kerns.shape[0], *lengths]
        options["conv_mode"] = "cross" if conv_mode == "conv" else "conv"
        steps = dict(subsample=subsample, dilation=dilation)
        return _dnn_gradinput(exchanged(kerns), img, shape, **steps, **options)
    return _dnn_conv(img, kerns, border_mode=border_mode, subsample=subsample, dilation=dilation, algo=algo, **options)


def dnn_conv(
    img,
    kerns,
    border_mode="valid",
    subsample=(1, 1),
    dilation=(1, 1),
    conv_mode="conv",
    direction_hint=None,
    workmem=None,
    algo=None,
    precision=None,
    num_groups=1,
):
    """Convolve images with kernels on a CUDA device, by cuDNN.

    Parameters
    ----------
    img : variable
        Images (batch, channels, rows, columns), float16, float32 or float64.
    kerns : variable
        Kernels (filters, channels per group, rows, columns).
    border_mode : {'valid', 'full', 'half'}, int, or pair of int
        The number of zeros at both ends of an axis: none; the extent of the kernel minus one; half this extent; a number.
    subsample : pair of int
        The strides.
    dilation : pair of int
        The distance in the image between neighboring elements of a kernel: there are dilation - 1 zeros between them.
    conv_mode : {'conv', 'cross'}
        'conv': a convolution, which reverses the kernels. 'cross': a correlation.
    direction_hint : str, optional
        The Op that computes a convolution without strides, dilation and groups. With 'bprop weights' and border mode
        'valid', this is `GpuDnnConvGradW`. For border mode 'full' it is `GpuDnnConvGradI`, except with 'forward!'. In all
        other cases it is `GpuDnnConv`.
    workmem : str, optional
        The former name of `algo`. Its use warns.
    algo : str, optional
        The algorithm of `GpuDnnConv`. Default: ``config.dnn.conv.algo_fwd``.
    precision : {'as_input_f32', 'as_input', 'float16', 'float32', 'float64'}, optional
        The dtype in which cuDNN computes; see `get_precision`. Default: ``config.dnn.conv.precision``.
    num_groups : int
        The number of groups into which channels and filters are divided.

    Returns
    -------
    variable on the device
        (batch, filters, rows, columns)

    Raises
    ------
    ValueError, TypeError
        For invalid parameters.
    RuntimeError
        When the function is compiled, if cuDNN cannot be used on the device.
    """
    if workmem is not None:
        if algo is not None:
            raise ValueError("workmem is the former name of algo; give only algo")
        warnings.warn("the parameter workmem of dnn_conv is deprecated; use algo", DeprecationWarning, stacklevel=2)
        algo = workmem
    return _convolution(
        2, img, kerns, border_mode, subsample, dilation, conv_mode, direction_hint, algo, precision, num_groups
    )


def dnn_conv3d(
    img,
    kerns,
    border_mode="valid",
    subsample=(1, 1, 1),
    dilation=(1, 1, 1),
    conv_mode="conv",
    direction_hint=None,
    algo=None,
    precision=None,
    num_groups=1,
):
    """Convolve volumes with kernels on a CUDA device, by cuDNN.

    The arrays have the shapes (batch, channels, depth, rows, columns), and so on; the other parameters are those of
    `dnn_conv`, with three numbers instead of two. The algorithms are "none", "small", "fft_tiling" and the names that choose
    at run time. If the flag ``dnn.conv.algo_fwd`` names another algorithm, the default is "none".
    """
    return _convolution(
        3, img, kerns, border_mode, subsample, dilation, conv_mode, direction_hint, algo, precision, num_groups
    )


def dnn_gradweight(
    img,
    topgrad,
    kerns_shp,
    border_mode="valid",
    subsample=(1, 1),
    dilation=(1, 1),
    conv_mode="conv",
    precision=None,
    algo=None,
    num_groups=1,
):
    """Compute the gradient of `dnn_conv` with respect to the kernels.

    Parameters
    ----------
    img : variable
        The images.
    topgrad : variable
        The gradient with respect to the output.
    kerns_shp : sequence of 4 int or scalar variables, or vector
        The shape of the kernels.
    border_mode, subsample, dilation, conv_mode, precision, num_groups
        See `dnn_conv`.
    algo : str, optional
        The algorithm of `GpuDnnConvGradW`. Default: ``config.dnn.conv.algo_bwd_filter``.

    Returns
    -------
    variable on the device
        (filters, channels per group, rows, columns)
    """
    return _dnn_gradweight(
        img,
        topgrad,
        kerns_shp,
        border_mode=border_mode,
        subsample=subsample,
        dilation=dilation,
        conv_mode=conv_mode,
        algo=algo,
        precision=precision,
        num_groups=num_groups,
    )


def dnn_gradweight3d(
    img,
    topgrad,
    kerns_shp,
    border_mode="valid",
    subsample=(1, 1, 1),
    dilation=(1, 1, 1),
    conv_mode="conv",
    precision=None,
    algo=None,
    num_groups=1,
):
    """Compute the gradient of `dnn_conv3d` with respect to the kernels; see `dnn_gradweight`."""
    return dnn_gradweight(
        img, topgrad, kerns_shp, border_mode, subsample, dilation, conv_mode, precision, algo, num_groups
    )


def dnn_gradinput(
    kerns,
    topgrad,
    img_shp,
    border_mode="valid",
    subsample=(1, 1),
    dilation=(1, 1),
    conv_mode="conv",
    precision=None,
    algo=None,
    num_groups=1,
):
    """Compute the gradient of `dnn_conv` with respect to the images.

    Parameters
    ----------
    kerns : variable
        The kernels.
    topgrad : variable
        The gradient with respect to the output.
    img_shp : sequence of 4 int or scalar variables, or vector
        The shape of the images.
    border_mode, subsample, dilation, conv_mode, precision, num_groups
        See `dnn_conv`.
    algo : str, optional
        The algorithm of `GpuDnnConvGradI`. Default: ``config.dnn.conv.algo_bwd_data``.

    Returns
    -------
    variable on the device
        (batch, channels, rows, columns)
    """
    return _dnn_gradinput(
        kerns,
        topgrad,
        img_shp,
        border_mode=border_mode,
        subsample=subsample,
        dilation=dilation,
        conv_mode=conv_mode,
        algo=algo,
        precision=precision,
        num_groups=num_groups,
    )


def dnn_gradinput3d(
    kerns,
    topgrad,
    img_shp,
    border_mode="valid",
    subsample=(1, 1, 1),
    dilation=(1, 1, 1),
    conv_mode="conv",
    precision=None,
    algo=None,
    num_groups=1,
):
    """Compute the gradient of `dnn_conv3d` with respect to the images; see `dnn_gradinput`."""
    return dnn_gradinput(
        kerns, topgrad, img_shp, border_mode, subsample, dilation, conv_mode, precision, algo, num_groups
    )
