"""Ops for convolutions by cuDNN and their gradients.

An Op computes ``alpha * convolution + beta * output``. Its inputs are two arrays, `output`, a descriptor that
`GpuDnnConvDesc` makes, and the numbers alpha and beta on the host. The functions in `conv_functions` build these inputs.
"""

import warnings

import numpy as np

from theano_ng.configdefaults import (
    SUPPORTED_DNN_CONV_ALGO_BWD_DATA,
    SUPPORTED_DNN_CONV_ALGO_BWD_FILTER,
    SUPPORTED_DNN_CONV_ALGO_FWD,
    SUPPORTED_DNN_CONV_ALGO_RUNTIME,
    config,
)
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gpuarray.alloc import GpuAllocEmpty
from theano_ng.gpuarray.corr import (
    GpuCorr3dMM,
    GpuCorr3dMM_gradInputs,
    GpuCorr3dMM_gradWeights,
    GpuCorrMM,
    GpuCorrMM_gradInputs,
    GpuCorrMM_gradWeights,
    correlated,
)
from theano_ng.gpuarray.cudnn_defs import get_definitions
from theano_ng.gpuarray.dnn.base import DTYPES, DnnOp, dnn_inputs, with_pattern
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.twin import at_least_float32, host_variable, to_context_of
from theano_ng.scalar import Scalar, upcast
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.nnet.convolution.shapes import get_conv_output_shape
from theano_ng.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights
from theano_ng.tensor.nnet.corr_base import FORWARD, FULL, HALF, INPUTS, WEIGHTS
from theano_ng.tensor.shaping.reshaping import tensor_from_scalar
from theano_ng.tensor.type import TensorType

__all__ = ["GpuDnnConv", "GpuDnnConvDesc", "GpuDnnConvGradI", "GpuDnnConvGradW", "ensure_dt", "get_precision"]

_DEFINITIONS = get_definitions()
_GUESS, _TIME = -1, -2  # DNN_GUESS and DNN_TIME in device/cudnn.h
_HOST_OPS = {
    (2, FORWARD): CorrMM,
    (2, WEIGHTS): CorrMM_gradWeights,
    (2, INPUTS): CorrMM_gradInputs,
    (3, FORWARD): Corr3dMM,
    (3, WEIGHTS): Corr3dMM_gradWeights,
    (3, INPUTS): Corr3dMM_gradInputs,
}
_OWN_OPS = {
    (2, FORWARD): GpuCorrMM,
    (2, WEIGHTS): GpuCorrMM_gradWeights,
    (2, INPUTS): GpuCorrMM_gradInputs,
    (3, FORWARD): GpuCorr3dMM,
    (3, WEIGHTS): GpuCorr3dMM_gradWeights,
    (3, INPUTS): GpuCorr3dMM_gradInputs,
}
_MODES = {"valid": 0, "half": HALF, "full": FULL}
descriptor_type = TensorType("int64", (False,))
# The defaults of alpha and beta
_one, _zero = [TensorType("float64", ()).make_constant(np.asarray(number, "float64")) for number in (1, 0)]


# ---- parameters ----


def _steps(value, name, axes=None):
    """Return a tuple of positive ints. Raise ValueError for other values, and if its length is not `axes`."""
    value = tuple(value) if np.iterable(value) else (value,)
    result = tuple(int(v) for v in value)
    if result != value or min(result, default=0) < 1 or len(result) not in ((2, 3) if axes is None else (axes,)):
        expected = "2 or 3" if axes is None else axes
        raise ValueError("%s must contain %s positive integers, got %s" % (name, expected, value))
    return result


def _border_mode(mode, axes):
    """Return a border mode as a str or as a tuple of ints. Raise ValueError for other values."""
    if isinstance(mode, str) and mode in _MODES:
        return mode
    pads = (mode,) * axes if isinstance(mode, (int, np.integer)) else mode
    if isinstance(pads, (tuple, list)) and len(pads) == axes:
        pads = [pad[0] if isinstance(pad, tuple) and len(pad) == 2 and pad[0] == pad[1] else pad for pad in pads]
        if all(isinstance(pad, (int, np.integer)) and pad >= 0 for pad in pads):
            return tuple(int(pad) for pad in pads)
    raise ValueError(
        "invalid border_mode %s, which must be 'valid', 'full', 'half', a non-negative integer or a tuple of %d such "
        "integers: cuDNN pads both ends of an axis equally" % (mode, axes)
    )


def ensure_dt(val, default, name, dtype):
    """Return a number as a 0-d tensor on the host.

    Parameters
    ----------
    val : number, variable or None
        None: the value of `default`.
    default : number or variable
    name : str
        The name of the number in error messages.
    dtype : str
        The dtype of the tensor. For float16, the result has the dtype float32, as cuDNN needs it.

    Raises
    ------
    TypeError
        If the value is no scalar.
    """
    val = host_variable(default if val is None else val)
    if isinstance(val, Variable) and isinstance(val.type, Scalar):
        val = tensor_from_scalar(val)
    dtype = at_least_float32(dtype)
    if not isinstance(val, Variable):
        val = as_tensor_variable(np.asarray(val, dtype))
    if not isinstance(val.type, TensorType) or val.ndim != 0:
        raise TypeError("%s: expected a scalar value, got %s of type %s" % (name, val, val.type))
    if isinstance(val, Constant):
        return TensorType(dtype, ()).make_constant(val.data.astype(dtype))
    return val if val.dtype == dtype else cast(val, dtype)


def get_precision(precision, inputs, for_grad=False):
    """Return the dtype in which cuDNN computes a convolution, and the dtype of its arrays.

    Parameters
    ----------
    precision : {"as_input_f32", "as_input", "float16", "float32", "float64"} or None
        "as_input": the dtype of the arrays. "as_input_f32": this dtype, but float32 for float16. None: the value of
        ``config.dnn.conv.precision``.
    inputs : list of variables
        The arrays.
    for_grad : bool
        Whether a gradient is computed. cuDNN does not sum the products of gradients in float16 exactly enough.

    Returns
    -------
    precision : str
    dtype : str

    Raises
    ------
    TypeError
        If the arrays do not contain float16, float32 or float64 numbers, or for a gradient in float16.
    ValueError
        For an unknown precision.
    """
    dtype = upcast(*[v.dtype for v in inputs])
    if dtype not in DTYPES:
        given = ", ".join(v.dtype for v in inputs)
        raise TypeError("cuDNN convolves arrays of float16, float32 and float64 only; got " + given)
    precision = config.dnn.conv.precision if precision is None else precision
    if precision == "as_input_f32":
        precision = at_least_float32(dtype)
    elif precision == "as_input":
        precision = dtype
    if precision not in DTYPES:
        known = ", ".join(map(repr, ("as_input_f32", "as_input", *DTYPES)))
        raise ValueError("precision must be one of %s, not %r" % (known, precision))
    if for_grad and precision == "float16":
        raise TypeError("a gradient of a convolution is not computed in float16: the sums would be too inexact")
    return precision, dtype


def supports_precision(dtype, precision):
    """Return True if cuDNN convolves arrays of a dtype in a precision."""
    return (dtype, precision) in _DEFINITIONS.get_supported_dtype_configs()


class GpuDnnConvDesc(Op):
    """Describe a convolution for the Ops that compute it by cuDNN.

    Input: the shape of the kernels, a vector of integers. Output: the descriptor, an int64 vector on the host. It is a
    constant: 'half' and 'full' remain in it, and the Ops compute the padding from the kernels. The Ops make the library's
    own descriptors and keep them.

    Parameters
    ----------
    border_mode : {'valid', 'half', 'full'}, int, or tuple of int
        The number of zeros at both ends of an axis: none; half the extent of the kernel; the extent minus one; a number.
    subsample : tuple of 2 or 3 int
        The strides.
    dilation : tuple of 2 or 3 int
        The distance in the image between neighboring elements of a kernel.
    conv_mode : {'conv', 'cross'}
        'conv': the kernels are reversed. 'cross': they are not.
    precision : {'float16', 'float32', 'float64'}
        The dtype in which cuDNN computes; see `get_precision`.
    num_groups : int
        The number of groups into which channels and filters are divided. A filter uses only the channels of its group.

    Raises
    ------
    ValueError
        For invalid parameters.
    """

    __props__ = ("border_mode", "subsample", "dilation", "conv_mode", "precision", "num_groups")

    def __init__(
        self, border_mode, subsample=(1, 1), dilation=(1, 1), conv_mode="conv", precision="float32", num_groups=1
    ):
        self.subsample = _steps(subsample, "subsample")
        axes = len(self.subsample)
        self.dilation = _steps(dilation, "dilation", axes)
        self.border_mode = _border_mode(border_mode, axes)
        if conv_mode not in _DEFINITIONS.cudnnConvolutionMode_t.aliases:
            raise ValueError("conv_mode must be 'conv' or 'cross', not %r" % (conv_mode,))
        if precision not in DTYPES:
            raise ValueError("precision must be one of %s, not %r" % (", ".join(map(repr, DTYPES)), precision))
        if num_groups != int(num_groups) or num_groups < 1:
            raise ValueError("num_groups must be a positive integer, not %r" % (num_groups,))
        self.conv_mode, self.precision, self.num_groups = conv_mode, precision, int(num_groups)

    def descriptor(self):
        """Return the descriptor: the number of axes, whether kernels are reversed, the typecode of the precision, the
        number of groups, and, for three axes each, padding, strides and dilation.
        """
        axes = len(self.subsample)
        pads = (_MODES[self.border_mode],) * axes if isinstance(self.border_mode, str) else self.border_mode
        rows = [(*pads, 0), (*self.subsample, 1), (*self.dilation, 1)]
        first = [axes, self.conv_mode == "conv", pygpu.dtype_to_typecode(self.precision), self.num_groups]
        return np.array([*first, *[n for row in rows for n in row[:3]]], "int64")

    def constant(self):
        """Return the descriptor as a constant variable."""
        return descriptor_type.make_constant(self.descriptor())

    def make_node(self, kern_shape):
        kern_shape = as_tensor_variable(kern_shape)
        if kern_shape.ndim != 1 or not kern_shape.dtype.startswith(("int", "uint")):
            raise TypeError(
                "kern_shape must be a vector of integers, got %s of type %s" % (kern_shape, kern_shape.type)
            )
        return Apply(self, [], [descriptor_type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = self.descriptor()


def _check_descriptor(desc, arrays):
    """Check a descriptor and the number of axes of arrays, as the native code does (`read_descriptor`)."""
    if desc.dtype != "int64" or desc.shape != (13,):
        raise TypeError("desc must be the descriptor that GpuDnnConvDesc makes")
    axes, _, precision, groups = desc[:4]
    precisions = [pygpu.dtype_to_typecode(dtype) for dtype in DTYPES]
    valid = axes in (2, 3) and groups > 0 and precision in precisions
    if not valid or (desc[4:7] < FULL).any() or (desc[7:] <= 0).any():
        raise ValueError("desc is no valid descriptor of a convolution")
    for array in arrays:
        if array.ndim != axes + 2:
            raise ValueError(
                "the descriptor is for arrays with %d axes, but an array has %d axes" % (axes + 2, array.ndim)
            )


def _known_descriptor(desc):
    """Return the descriptor of a variable, or None if it is known at run time only."""
    if isinstance(desc, Constant):
        return desc.data
    if desc.owner is not None and isinstance(desc.owner.op, GpuDnnConvDesc):
        return desc.owner.op.descriptor()
    return None


def _for_gradients(desc):
    """Return a descriptor for gradients, which are not computed in float16."""
    known = _known_descriptor(desc)
    half, single = map(pygpu.dtype_to_typecode, ("float16", "float32"))
    if known is None or known[2] != half:
        return desc
    return descriptor_type.make_constant(np.where(np.arange(len(known)) == 2, single, known))


# ---- convolutions without cuDNN ----


def by_own_kernels(kind, desc, first, second, alpha, beta, result, reason):
    """Compute a convolution by the package's own kernels, because cuDNN cannot. Native code calls this function.

    Parameters
    ----------
    kind : {FORWARD, WEIGHTS, INPUTS}
    desc : numpy.ndarray
        The descriptor.
    first, second : GpuArray
        The two arrays of a node.
    alpha, beta : float
    result : GpuArray
        The array that becomes ``alpha * convolution + beta * result``.
    reason : str
        The reason why cuDNN does not compute the convolution.

    Raises
    ------
    ValueError
        If the own kernels do not compute in this precision either.
    """
    precision = pygpu.typecode_to_dtype(int(desc[2])).name
    if not supports_precision(first.dtype.name, precision):
        raise ValueError("cuDNN does not convolve %s arrays in %s" % (first.dtype.name, precision))
    warnings.warn("%s. The kernels of this package compute it." % reason, RuntimeWarning, stacklevel=2)
    axes = int(desc[0])
    pads, strides, dilation = [tuple(desc[start : start + axes].tolist()) for start in (4, 7, 10)]
    mode = {HALF: "half", FULL: "full"}.get(pads[0], pads)
    reverse = (slice(None),) * 2 + (slice(None, None, -1 if desc[1] else 1),) * axes
    first, second = first[reverse] if kind == INPUTS else first, second[reverse] if kind == FORWARD else second
    lengths = () if kind == FORWARD else result.shape[2:]
    name = _OWN_OPS[axes, kind].__name__
    value = correlated(name, repr((mode, strides, dilation, int(desc[3]))), first, second, *lengths)
    value = value[reverse] if kind == WEIGHTS else value
    value = value if alpha == 1 else value * alpha
    result[...] = value if beta == 0 else value + result * beta


# ---- Ops ----


def empty_like(x):
    """Return a new array on the device with the dtype and the shape of `x`."""
    return GpuAllocEmpty(x.dtype, x.type.context_name)(*[x.shape[axis] for axis in range(x.ndim)])


def _is_zero(v):
    try:
        return bool(get_scalar_constant_value(v) == 0)
    except NotScalarConstantError:
        return False


class _DnnConv(DnnOp):
    """The base class of a convolution and its gradients.

    Attributes
    ----------
    kind : {FORWARD, WEIGHTS, INPUTS}
    names : tuple of str
        The names of the two arrays.
    algorithms : EnumType
        The constants of cuDNN.
    supported : tuple of str
        The names of algorithms.
    for_volumes : tuple of str
        The names of algorithms for 3 axes.
    deterministic : tuple of str
        The algorithms that always give the same bits.
    flag : str
        The flag ``config.dnn.conv.<flag>`` has the default algorithm.
    """

    __props__ = ("algo", "inplace", "num_groups")
    kind = algorithms = flag = None
    names = supported = for_volumes = deterministic = ()

    def _set(self, algo, inplace, num_groups):
        if algo is None:
            algo = getattr(config.dnn.conv, self.flag)
        if algo not in self.supported:
            known = ", ".join(map(repr, self.supported))
            raise ValueError("%s: algo must be one of %s, not %r" % (type(self).__name__, known, algo))
        if num_groups != int(num_groups) or num_groups < 1:
            raise ValueError("num_groups must be a positive integer, not %r" % (num_groups,))
        self.algo, self.inplace, self.num_groups = algo, bool(inplace), int(num_groups)
        if self.inplace:
            self.destroy_map = {0: [2]}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.inplace:
            self.destroy_map = {0: [2]}

    def with_options(self, **options):
        """Return the Op with other values of some parameters."""
        return type(self)(**{**self._props_dict(), **options})

    @classmethod
    def default_algo(cls, axes):
        """Return the algorithm that the flag names. If it cannot compute convolutions of volumes, return "none"."""
        algo = getattr(config.dnn.conv, cls.flag)
        return algo if axes == 2 or algo in cls.for_volumes else "none"

    def make_node(self, first, second, output, desc, alpha=None, beta=None):
        given = dict(zip((*self.names, "output"), (first, second, output)))
        first, second, output = dnn_inputs(self, given, (4, 5))
        if not first.ndim == second.ndim == output.ndim:
            ranks = ", ".join("%s: %d" % (name, v.ndim) for name, v in zip(given, (first, second, output)))
            raise TypeError("%s: the inputs must have equal numbers of dimensions; got %s" % (self, ranks))
        if getattr(desc, "type", None) != descriptor_type:
            raise TypeError("%s: desc must be the output of GpuDnnConvDesc, got %s" % (self, desc))
        known = _known_descriptor(desc)
        if known is not None:
            self._check_descriptor(known, first)
        if first.ndim == 5 and self.algo not in self.for_volumes:
            known = ", ".join(map(repr, self.for_volumes))
            raise ValueError(
                "%s: the algorithm %r cannot compute convolutions of volumes; use one of %s" % (self, self.algo, known)
            )
        alpha = ensure_dt(alpha, _one, "alpha", first.dtype)
        beta = ensure_dt(beta, _zero, "beta", first.dtype)
        return Apply(self, [first, second, output, desc, alpha, beta], [output.type()])

    def _check_descriptor(self, desc, first):
        precision = pygpu.typecode_to_dtype(int(desc[2])).name
        if desc[0] + 2 != first.ndim:
            raise ValueError("%s: desc is for %d dimensions, got %s" % (self, desc[0] + 2, first.type))
        if desc[3] != self.num_groups:
            raise ValueError("%s: desc is for num_groups=%d" % (self, desc[3]))
        if not supports_precision(first.dtype, precision):
            raise ValueError("%s: cuDNN does not convolve %s arrays in %s" % (self, first.dtype, precision))

    def infer_shape(self, node, shape):
        return [shape[2]]

    def connection_pattern(self, node):
        return [[i != 3] for i in range(6)]

    def fails_on_values(self, node):
        return True  # the shapes may not fit

    def native_params(self, node):
        """Return the parameters of the native code of a convolution, apart from those of later operations."""
        algo, exact = self.algo, config.deterministic == "more" or self.algo == "deterministic"
        if exact and algo not in (*self.deterministic, *SUPPORTED_DNN_CONV_ALGO_RUNTIME):
            algo = "deterministic"
        if algo in SUPPORTED_DNN_CONV_ALGO_RUNTIME:
            number = _GUESS if algo.startswith("guess") else _TIME
        else:
            number = self.algorithms.fromalias(algo)
        return dict(
            typecode=node.inputs[0].type.typecode,
            kind=self.kind,
            in_place=self.inplace,
            algorithm=number,
            once=algo.endswith("_once"),
            deterministic=exact,
            tf32=config.gpuarray.allow_tf32,
            most=0,
        )

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_conv:convolve", **self.native_params(node))

    def perform(self, node, inputs, output_storage, params=None):
        first, second, output, desc, alpha, beta = [np.asarray(value) for value in inputs]
        dtype = at_least_float32(node.outputs[0].type.dtype)
        _check_descriptor(desc, (first, second, output))
        value = self.host_value(dtype, first, second, output, desc, alpha)
        if beta != 0:
            value = value + beta * output.astype(dtype)
        self.store(node, [np.asarray(value, output.dtype)], inputs, output_storage)

    def host_value(self, dtype, first, second, output, desc, alpha):
        """Return alpha times the convolution of arrays on the host, computed in `dtype`."""
        axes = int(desc[0])
        pads = [int(n) for n in desc[4 : 4 + axes]]
        mode = {HALF: "half", FULL: "full"}.get(pads[0], tuple(pads))
        op = _HOST_OPS[axes, self.kind](
            mode, tuple(desc[7 : 7 + axes]), tuple(desc[10 : 10 + axes]), num_groups=int(desc[3])
        )
        op.flip = bool(desc[1])
        lengths = () if self.kind == FORWARD else output.shape[2:]
        value = op.value([first, second, *lengths], dtype)
        if value.shape != output.shape:
            raise ValueError(
                "%s: the output has the shape %s, but the result has the shape %s"
                % (op.family, " ".join(map(str, output.shape)), " ".join(map(str, value.shape)))
            )
        return alpha * value

    def _terms(self, first, second, result, desc, alpha):
        """Return expressions for the derivatives with respect to the two arrays, for the gradient `result`."""
        images, kernels, top = {
            FORWARD: (first, second, result),
            WEIGHTS: (first, result, second),
            INPUTS: (result, first, second),
        }[self.kind]
        made = {
            FORWARD: lambda: (GpuDnnConv, images, kernels, top),
            WEIGHTS: lambda: (GpuDnnConvGradW, images, top, kernels),
            INPUTS: lambda: (GpuDnnConvGradI, kernels, top, images),
        }
        desc = _for_gradients(desc)
        for kind, like in zip(_WANTED[self.kind], (first, second)):
            cls, *arrays, _ = made[kind]()
            op = cls(algo=cls.default_algo(first.ndim - 2), num_groups=self.num_groups)
            yield with_pattern(op(*arrays, empty_like(like), desc, alpha), like)

    def grad(self, inp, grads):
        first, second, output, desc, alpha, beta = inp
        (g,) = grads
        if isinstance(g.type, DisconnectedType):
            return [DisconnectedType()() for _ in inp]
        g = as_gpuarray_variable(g, output.type.context_name)
        plain = self.with_options(inplace=False)(first, second, empty_like(output), desc)
        host_g = host_variable(g)
        return [
            *self._terms(first, second, g, desc, alpha),
            as_gpuarray_variable(host_g.zeros_like() if _is_zero(beta) else host_g * beta, output.type.context_name),
            DisconnectedType()(),
            cast((host_g * host_variable(plain)).sum(dtype=alpha.dtype), alpha.dtype),
            cast((host_g * host_variable(output)).sum(dtype=beta.dtype), beta.dtype),
        ]

    def R_op(self, inputs, eval_points):
        first, second, output, desc, alpha, beta = inputs
        op = self.with_options(inplace=False)
        places = [None if d is None else as_gpuarray_variable(d, output.type.context_name) for d in eval_points[:3]]
        terms = [
            op(d if i == 0 else first, d if i == 1 else second, empty_like(output), desc, alpha)
            for i, d in enumerate(places[:2])
            if d is not None
        ]
        if places[2] is not None and not _is_zero(beta):
            terms.append(host_variable(places[2]) * beta)
        if eval_points[4] is not None:
            terms.append(host_variable(op(first, second, empty_like(output), desc)) * eval_points[4])
        if eval_points[5] is not None:
            terms.append(host_variable(output) * eval_points[5])
        if not terms:
            return [None]
        total = host_variable(terms[0])
        for term in terms[1:]:
            total = total + host_variable(term)
        return [to_context_of(cast(total, output.dtype), output)]


_WANTED = {FORWARD: (INPUTS, WEIGHTS), WEIGHTS: (INPUTS, FORWARD), INPUTS: (WEIGHTS, FORWARD)}


class DnnForward(_DnnConv):
    """The base class of convolutions; see `GpuDnnConv`."""

    kind, names, flag = FORWARD, ("img", "kern"), "algo_fwd"
    algorithms, supported = _DEFINITIONS.cudnnConvolutionFwdAlgo_t, SUPPORTED_DNN_CONV_ALGO_FWD
    for_volumes = (*_DEFINITIONS.conv3d_fwd_algorithms, *SUPPORTED_DNN_CONV_ALGO_RUNTIME)
    deterministic = _DEFINITIONS.deterministic_fwd_algorithms


class GpuDnnConv(DnnForward):
    """A convolution on a CUDA device, by cuDNN.

    Inputs: images (batch, channels, rows, columns), kernels (filters, channels per group, rows, columns), an array
    `output` like the result, a descriptor (`GpuDnnConvDesc`), and the numbers alpha and beta. In three dimensions, a depth
    precedes the rows. Output: ``alpha * convolution + beta * output``, (batch, filters, rows, columns). The arrays have one
    dtype, float16, float32 or float64.

    Parameters
    ----------
    algo : str, optional
        One of "none", "small", "large", "fft", "fft_tiling", "winograd", "winograd_non_fused", "guess_once",
        "guess_on_shape_change", "time_once" and "time_on_shape_change".
        The algorithm. ``guess_...``: the heuristics of the library choose. ``time_...``: it runs all algorithms, and the
        fastest is used. ``..._once``: the first choice of a node is kept. ``..._on_shape_change``: there is a choice for
        each combination of shapes. An algorithm that cannot compute the convolution, or for whose workspace there is no
        memory, is replaced by another. Default: ``config.dnn.conv.algo_fwd``.
    inplace : bool
        If True, overwrite `output`.
    num_groups : int
        The number of groups into which channels and filters are divided.

    Raises
    ------
    ValueError
        For invalid parameters; at run time, if the shapes do not fit.
    """

    def __init__(self, algo=None, inplace=False, num_groups=1):
        super().__init__()
        self._set(algo, inplace, num_groups)

    def make_node(self, img, kern, output, desc, alpha=None, beta=None):
        return super().make_node(img, kern, output, desc, alpha, beta)

    @staticmethod
    def get_out_shape(ishape, kshape, border_mode, subsample, dilation):
        """Return the shape of the output of a convolution, a tuple.

        Parameters
        ----------
        ishape, kshape : sequence of int, scalar variables or None
            The shapes of the images and of the kernels.
        border_mode, subsample, dilation
            See `GpuDnnConvDesc`.
        """
        return get_conv_output_shape(tuple(ishape), tuple(kshape), border_mode, subsample, dilation)


class GpuDnnConvGradW(_DnnConv):
    """The gradient of `GpuDnnConv` with respect to the kernels.

    Inputs: the images, the gradient of the output, an array like the kernels, the descriptor, alpha and beta. The
    gradient may be different in its last bits each time for the algorithms "none" and "small". If the flag
    ``deterministic`` is "more", "deterministic" replaces them, and other algorithms are chosen among those that always give
    the same bits.

    Parameters
    ----------
    inplace : bool
        If True, overwrite the third input.
    algo : str, optional
        One of "none", "deterministic", "fft", "small", "winograd_non_fused", "fft_tiling", "guess_once",
        "guess_on_shape_change", "time_once" and "time_on_shape_change".
        See `GpuDnnConv`. Default: ``config.dnn.conv.algo_bwd_filter``.
    num_groups : int
        See `GpuDnnConv`.
    """

    kind, names, flag = WEIGHTS, ("img", "topgrad"), "algo_bwd_filter"
    algorithms, supported = _DEFINITIONS.cudnnConvolutionBwdFilterAlgo_t, SUPPORTED_DNN_CONV_ALGO_BWD_FILTER
    for_volumes = (*_DEFINITIONS.conv3d_bwd_filter_algorithms, *SUPPORTED_DNN_CONV_ALGO_RUNTIME)
    deterministic = _DEFINITIONS.deterministic_bwd_filter_algorithms

    def __init__(self, inplace=False, algo=None, num_groups=1):
        super().__init__()
        self._set(algo, inplace, num_groups)

    def make_node(self, img, topgrad, output, desc, alpha=None, beta=None):
        return super().make_node(img, topgrad, output, desc, alpha, beta)

    def op_may_fail_with_subsample(self, img, desc):
        """Return False: cuDNN 9 computes the gradient for all strides."""
        return False

    def op_may_fail_with_beta(self, img, beta):
        """Return False: cuDNN 9 computes the gradient for all values of beta."""
        return False


class GpuDnnConvGradI(_DnnConv):
    """The gradient of `GpuDnnConv` with respect to the images.

    Inputs: the kernels, the gradient of the output, an array like the images, the descriptor, alpha and beta. The
    gradient may be different in its last bits each time for the algorithm "none"; see `GpuDnnConvGradW`.

    Parameters
    ----------
    inplace : bool
        If True, overwrite the third input.
    algo : str, optional
        One of "none", "deterministic", "fft", "fft_tiling", "winograd", "winograd_non_fused", "guess_once",
        "guess_on_shape_change", "time_once" and "time_on_shape_change".
        See `GpuDnnConv`. Default: ``config.dnn.conv.algo_bwd_data``.
    num_groups : int
        See `GpuDnnConv`.
    """

    kind, names, flag = INPUTS, ("kern", "topgrad"), "algo_bwd_data"
    algorithms, supported = _DEFINITIONS.cudnnConvolutionBwdDataAlgo_t, SUPPORTED_DNN_CONV_ALGO_BWD_DATA
    for_volumes = (*_DEFINITIONS.conv3d_bwd_data_algorithms, *SUPPORTED_DNN_CONV_ALGO_RUNTIME)
    deterministic = _DEFINITIONS.deterministic_bwd_data_algorithms

    def __init__(self, inplace=False, algo=None, num_groups=1):
        super().__init__()
        self._set(algo, inplace, num_groups)

    def make_node(self, kern, topgrad, output, desc, alpha=None, beta=None):
        return super().make_node(kern, topgrad, output, desc, alpha, beta)
