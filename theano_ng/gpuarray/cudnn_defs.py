"""The constants of cuDNN, and the dtypes that its convolutions support.

`get_definitions` returns an object with the definitions for a version of cuDNN. The package needs cuDNN 9, whose
definitions are those of `CuDNNV7` with more supported configurations. The classes for older versions exist for programs
that compare configurations.
"""

from theano_ng.gof.type.enums import EnumType

HALF, FLOAT, DOUBLE = "float16", "float32", "float64"
TRUE_HALF_CONFIG = (HALF, HALF)
PSEUDO_HALF_CONFIG = (HALF, FLOAT)
FLOAT_CONFIG = (FLOAT, FLOAT)
DOUBLE_CONFIG = (DOUBLE, DOUBLE)

_ALL = TRUE_HALF_CONFIG, PSEUDO_HALF_CONFIG, FLOAT_CONFIG, DOUBLE_CONFIG
_IN_FLOAT = PSEUDO_HALF_CONFIG, FLOAT_CONFIG
_NOT_TRUE_HALF = PSEUDO_HALF_CONFIG, FLOAT_CONFIG, DOUBLE_CONFIG
_NOT_DOUBLE = TRUE_HALF_CONFIG, PSEUDO_HALF_CONFIG, FLOAT_CONFIG


def is_true_half_config(dtype, precision):
    """Return True if float16 arrays are convolved in float16."""
    return (dtype, precision) == TRUE_HALF_CONFIG


def is_pseudo_half_config(dtype, precision):
    """Return True if float16 arrays are convolved in float32."""
    return (dtype, precision) == PSEUDO_HALF_CONFIG


def is_float_config(dtype, precision):
    """Return True if float32 arrays are convolved in float32."""
    return (dtype, precision) == FLOAT_CONFIG


def is_double_config(dtype, precision):
    """Return True if float64 arrays are convolved in float64."""
    return (dtype, precision) == DOUBLE_CONFIG


def _enumeration(ctype, **constants):
    return EnumType(ctype="int", cname=ctype, **constants)


class CuDNNV51:
    """The definitions of cuDNN 5.1.

    Attributes
    ----------
    cudnnConvolutionMode_t, cudnnDataType_t, cudnnPoolingMode_t, ... : EnumType
        The constants of a C enumeration, with their values. The aliases are the names in Python.
    conv3d_fwd_algorithms, conv3d_bwd_filter_algorithms, conv3d_bwd_data_algorithms : tuple of str
        The algorithms for convolutions of volumes.
    deterministic_fwd_algorithms, deterministic_bwd_data_algorithms, deterministic_bwd_filter_algorithms : tuple of str
        The algorithms that always give the same bits.
    version : int
    """

    version = 5

    cudnnConvolutionMode_t = _enumeration(
        "cudnnConvolutionMode_t", CUDNN_CONVOLUTION=("conv", 0), CUDNN_CROSS_CORRELATION=("cross", 1)
    )
    cudnnDataType_t = _enumeration(
        "cudnnDataType_t",
        CUDNN_DATA_FLOAT=("float32", 0),
        CUDNN_DATA_DOUBLE=("float64", 1),
        CUDNN_DATA_HALF=("float16", 2),
    )
    cudnnConvolutionFwdAlgo_t = _enumeration(
        "cudnnConvolutionFwdAlgo_t",
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM=("none", 0),
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM=("small", 1),
        CUDNN_CONVOLUTION_FWD_ALGO_GEMM=("large", 2),
        CUDNN_CONVOLUTION_FWD_ALGO_FFT=("fft", 4),
        CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING=("fft_tiling", 5),
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD=("winograd", 6),
        CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED=("winograd_non_fused", 7),
    )
    cudnnConvolutionBwdFilterAlgo_t = _enumeration(
        "cudnnConvolutionBwdFilterAlgo_t",
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0=("none", 0),
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1=("deterministic", 1),
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT=("fft", 2),
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3=("small", 3),
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED=("winograd_non_fused", 5),
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING=("fft_tiling", 6),
    )
    cudnnConvolutionBwdDataAlgo_t = _enumeration(
        "cudnnConvolutionBwdDataAlgo_t",
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_0=("none", 0),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1=("deterministic", 1),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT=("fft", 2),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING=("fft_tiling", 3),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD=("winograd", 4),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED=("winograd_non_fused", 5),
    )
    cudnnPoolingMode_t = _enumeration(
        "cudnnPoolingMode_t",
        CUDNN_POOLING_MAX=("max", 0),
        CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING=("average_inc_pad", 1),
        CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING=("average_exc_pad", 2),
    )
    cudnnSoftmaxAlgorithm_t = _enumeration(
        "cudnnSoftmaxAlgorithm_t",
        CUDNN_SOFTMAX_FAST=("fast", 0),
        CUDNN_SOFTMAX_ACCURATE=("accurate", 1),
        CUDNN_SOFTMAX_LOG=("log", 2),
    )
    cudnnSoftmaxMode_t = _enumeration(
        "cudnnSoftmaxMode_t", CUDNN_SOFTMAX_MODE_INSTANCE=("instance", 0), CUDNN_SOFTMAX_MODE_CHANNEL=("channel", 1)
    )
    cudnnBatchNormMode_t = _enumeration(
        "cudnnBatchNormMode_t",
        CUDNN_BATCHNORM_PER_ACTIVATION=("per-activation", 0),
        CUDNN_BATCHNORM_SPATIAL=("spatial", 1),
    )
    cudnnReduceTensorOp_t = _enumeration(
        "cudnnReduceTensorOp_t",
        CUDNN_REDUCE_TENSOR_ADD=("add", 0),
        CUDNN_REDUCE_TENSOR_MUL=("mul", 1),
        CUDNN_REDUCE_TENSOR_MIN=("minimum", 2),
        CUDNN_REDUCE_TENSOR_MAX=("maximum", 3),
        CUDNN_REDUCE_TENSOR_AMAX=("absmax", 4),
        CUDNN_REDUCE_TENSOR_AVG=("avg", 5),
        CUDNN_REDUCE_TENSOR_NORM1=("norm1", 6),
        CUDNN_REDUCE_TENSOR_NORM2=("norm2", 7),
    )

    conv3d_fwd_algorithms = ("none", "small", "fft_tiling")
    conv3d_bwd_filter_algorithms = ("none", "small")
    conv3d_bwd_data_algorithms = ("none", "deterministic", "fft_tiling")
    # Only the algorithm "none" of a gradient, and "small" of the gradient with respect to the filters, add numbers in an
    # order that varies.
    deterministic_fwd_algorithms = tuple(cudnnConvolutionFwdAlgo_t.aliases)
    deterministic_bwd_data_algorithms = tuple(set(cudnnConvolutionBwdDataAlgo_t.aliases) - {"none"})
    deterministic_bwd_filter_algorithms = tuple(set(cudnnConvolutionBwdFilterAlgo_t.aliases) - {"none", "small"})

    _fwd = {
        "none": {2: _ALL, 3: _ALL},
        "small": {2: _ALL, 3: _ALL},
        "large": {2: _NOT_TRUE_HALF},
        "fft": {2: _IN_FLOAT},
        "fft_tiling": {2: _IN_FLOAT, 3: _NOT_TRUE_HALF},
        "winograd": {2: _IN_FLOAT},
        "winograd_non_fused": {2: _NOT_DOUBLE},
    }
    _bwd_filter = {
        "none": {2: _NOT_TRUE_HALF, 3: _NOT_TRUE_HALF},
        "deterministic": {2: _ALL},
        "fft": {2: _IN_FLOAT},
        "small": {2: _NOT_TRUE_HALF, 3: _NOT_TRUE_HALF},
        "winograd_non_fused": {2: _NOT_DOUBLE},
    }
    _bwd_data = {
        "none": {2: _NOT_TRUE_HALF, 3: _NOT_TRUE_HALF},
        "deterministic": {2: _ALL, 3: _ALL},
        "fft": {2: _IN_FLOAT},
        "fft_tiling": {2: _IN_FLOAT, 3: _NOT_TRUE_HALF},
        "winograd": {2: _IN_FLOAT},
        "winograd_non_fused": {2: _NOT_DOUBLE},
    }

    def get_supported_dtype_configs(self, check_runtime=None):
        """Return the pairs (dtype of the arrays, dtype of the computation) that convolutions support.

        Parameters
        ----------
        check_runtime : callable, optional
            ``check_runtime(dtype, precision)`` returns whether a device supports a configuration. By default, all
            configurations of cuDNN are returned.
        """
        configs = TRUE_HALF_CONFIG, PSEUDO_HALF_CONFIG, FLOAT_CONFIG, DOUBLE_CONFIG
        return tuple([c for c in configs if check_runtime is None or check_runtime(*c)])

    def fwd_algo_supports_dtype_config(self, algo, dtype, precision, ndim):
        """Return True if an algorithm computes convolutions with these dtypes.

        Parameters
        ----------
        algo : str
            The name of an algorithm, such as "small". Names that choose at run time ("guess_once", ...) support all
            dtypes.
        dtype, precision : str
            Dtype of the arrays, and of the computation.
        ndim : {2, 3}
            Number of spatial axes.
        """
        return _supports(self._fwd, algo, dtype, precision, ndim)

    def bwd_filter_algo_supports_dtype_config(self, algo, dtype, precision, ndim):
        """As `fwd_algo_supports_dtype_config`, for the gradient with respect to the filters."""
        return _supports(self._bwd_filter, algo, dtype, precision, ndim)

    def bwd_data_algo_supports_dtype_config(self, algo, dtype, precision, ndim):
        """As `fwd_algo_supports_dtype_config`, for the gradient with respect to the images."""
        return _supports(self._bwd_data, algo, dtype, precision, ndim)


def _supports(table, algo, dtype, precision, ndim):
    if algo in ("guess_once", "guess_on_shape_change", "time_once", "time_on_shape_change"):
        return True
    return (dtype, precision) in table.get(algo, {}).get(ndim, ())


class CuDNNV6(CuDNNV51):
    """The definitions of cuDNN 6: a deterministic maximum of windows, and one more algorithm for gradients of filters."""

    version = 6

    cudnnPoolingMode_t = _enumeration(
        "cudnnPoolingMode_t",
        CUDNN_POOLING_MAX=("max", 0),
        CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING=("average_inc_pad", 1),
        CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING=("average_exc_pad", 2),
        CUDNN_POOLING_MAX_DETERMINISTIC=("max_deterministic", 3),
    )

    _bwd_filter = {**CuDNNV51._bwd_filter, "fft_tiling": {2: _NOT_TRUE_HALF}}
    _bwd_data = {**CuDNNV51._bwd_data, "fft_tiling": {2: _NOT_TRUE_HALF, 3: _NOT_TRUE_HALF}}
    _fwd = {**CuDNNV51._fwd, "fft_tiling": {2: _NOT_TRUE_HALF, 3: _NOT_TRUE_HALF}}


class CuDNNV7(CuDNNV6):
    """The definitions of cuDNN 7."""

    version = 7


class CuDNNV9(CuDNNV7):
    """The definitions of cuDNN 9, the version that the package uses."""

    version = 9

    conv3d_bwd_filter_algorithms = ("none", "deterministic", "small")
    _bwd_filter = {**CuDNNV7._bwd_filter, "deterministic": {2: _ALL, 3: _ALL}}


def get_definitions(cudnn_version=None):
    """Return the definitions for a version of cuDNN.

    Parameters
    ----------
    cudnn_version : int, optional
        As `theano_ng.gpuarray.dnn.version` returns it, such as 92800 for 9.28.0, or 7005 for 7.0.5. Default: the newest
        definitions.

    Returns
    -------
    CuDNNV51, CuDNNV6, CuDNNV7 or CuDNNV9
    """
    if cudnn_version is None or cudnn_version >= 8000:
        return CuDNNV9()
    if cudnn_version >= 7000:
        return CuDNNV7()
    return CuDNNV6() if cudnn_version >= 6000 else CuDNNV51()
