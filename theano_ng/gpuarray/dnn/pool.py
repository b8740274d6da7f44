"""Pooling by cuDNN."""

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import Lop
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.type import CDataType
from theano_ng.gpuarray.cudnn_defs import CuDNNV9
from theano_ng.gpuarray.dnn.base import DnnBase, DnnOp, dnn_inputs, on_device, version
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import on_host, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.reductions.sums import prod
from theano_ng.tensor.signal.pool import AveragePoolGrad, MaxPoolGrad, Pool
from theano_ng.tensor.signal.pool_windows import as_window

__all__ = ["GpuDnnPool", "GpuDnnPoolBase", "GpuDnnPoolDesc", "GpuDnnPoolGrad", "dnn_pool"]

_MODES = CuDNNV9.cudnnPoolingMode_t


def _known_mode(name, mode):
    """Return the name of a mode in cuDNN's definitions."""
    mode = "average_inc_pad" if mode == "average" else mode
    if mode not in _MODES.aliases:
        raise ValueError("%s: mode must be one of %s, not %r" % (name, list(_MODES.aliases), mode))
    return mode


class GpuDnnPoolDesc(Op):
    """An Op without inputs, whose output is a descriptor of pooling for the C code of users' Ops.

    The Ops of this package do not use it. Old pickles contain it.

    Parameters
    ----------
    ws, stride, pad : tuple of int
        The lengths of the windows, the distances between them, and the margins. All have 2 or all have 3 elements.
    mode : {"max", "average_inc_pad", "average_exc_pad", "max_deterministic"}
        The old name "average" means "average_inc_pad".

    Raises
    ------
    ValueError
        For another mode, or if the tuples have different lengths.
    """

    __props__ = ("ws", "stride", "mode", "pad")

    def __init__(self, ws=(1, 1), stride=(1, 1), mode="max", pad=(0, 0)):
        self.mode = _known_mode("GpuDnnPoolDesc", mode)
        self.ws, self.stride, self.pad = tuple(ws), tuple(stride), tuple(pad)
        if len(self.ws) not in (2, 3) or not len(self.ws) == len(self.stride) == len(self.pad):
            raise ValueError(
                "GpuDnnPoolDesc: ws, stride and pad must all have 2 or all have 3 elements; got %s, %s, %s"
                % (self.ws, self.stride, self.pad)
            )

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Old pickles lack the margins.
        self.__dict__.setdefault("pad", (0,) * len(self.ws))

    def get_ndim(self):
        """Return the number of pooled axes."""
        return len(self.ws)

    def make_node(self):
        base = DnnBase()
        type_ = CDataType(
            "cudnnPoolingDescriptor_t",
            "cudnnDestroyPoolingDescriptor",
            headers=self.c_headers(),
            header_dirs=base.c_header_dirs(),
            libraries=base.c_libraries(),
            lib_dirs=base.c_lib_dirs(),
            version=(version(raises=False),),
        )
        return Apply(self, [], [type_()])

    def do_constant_folding(self, node):
        return False  # a constant could not be pickled

    def c_headers(self):
        return ["cudnn.h"]

    def c_header_dirs(self):
        return DnnBase().c_header_dirs()

    def c_libraries(self):
        return DnnBase().c_libraries()

    def c_lib_dirs(self):
        return DnnBase().c_lib_dirs()

    def c_compile_args(self):
        return DnnBase().c_compile_args()

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            static const int window[] = {%(ws)s}, pad[] = {%(pad)s}, stride[] = {%(stride)s};
            int status = cudnnCreatePoolingDescriptor(&%(desc)s);
            if (status == 0)
                status = cudnnSetPoolingNdDescriptor(%(desc)s, %(mode)d, CUDNN_PROPAGATE_NAN, %(nd)d, window, pad,
                                                     stride);
            if (status != 0) {
                PyErr_Format(PyExc_RuntimeError, "no pooling descriptor: status %%d of cuDNN", status);
                %(fail)s
            }
        }
        """ % dict(
            desc=outputs[0],
            nd=len(self.ws),
            mode=_MODES.fromalias(self.mode),
            fail=sub["fail"],
            **{name: ", ".join(map(str, getattr(self, name))) for name in ("ws", "stride", "pad")},
        )

    def c_code_cache_version(self):
        return (version(raises=False), 1)


class GpuDnnPoolBase(DnnOp):
    """The base class of pooling and its gradient. Only complete windows count (``ignore_border=True``).

    Parameters
    ----------
    mode : {"max", "average_inc_pad", "average_exc_pad", "max_deterministic"}
        The maximum or the average of a window. The average includes or excludes the elements of the margin. The old
        name "average" means "average_inc_pad". For pooling itself, "max_deterministic" is the same as "max". Its
        gradient always has the same bits.

    Raises
    ------
    ValueError
        For another mode.
    """

    __props__ = ("mode",)

    def __init__(self, mode="max"):
        super().__init__()
        self.mode = _known_mode(type(self).__name__, mode)

    @property
    def is_maximum(self):
        return self.mode in ("max", "max_deterministic")

    def pooled(self, ndim):
        """Return the Op for the host that pools an array with `ndim` axes."""
        return Pool(True, "max" if self.is_maximum else self.mode, ndim - 2)

    def windows(self, image, ws, stride, pad):
        """Return ws, stride and pad as inputs of a node, on the host."""
        return self.pooled(image.ndim).make_node(*on_host([image, ws, stride, pad])).inputs[1:]

    def fails_on_values(self, node):
        return True  # a window may be invalid

    def pool_code(self, node, function):
        return self.dnn_code(
            node, "cudnn_pool:" + function, typecode=node.inputs[0].type.typecode, mode=_MODES.fromalias(self.mode)
        )


class GpuDnnPool(GpuDnnPoolBase):
    """Pool images or volumes on a CUDA device, by cuDNN. See `GpuDnnPoolBase` for the mode.

    Inputs: img (batch, channels, and 2 or 3 pooled axes), float16, float32 or float64, and the integer vectors ws,
    stride and pad on the host. The output has the same type.

    Raises
    ------
    ValueError
        If a window, a stride or a margin is too small.
    NotImplementedError
        If a margin is not smaller than the window.
    """

    def make_node(self, img, ws, stride, pad):
        (img,) = dnn_inputs(self, {"img": img}, (4, 5))
        windows = self.windows(img, ws, stride, pad)
        flags = img.broadcastable[:2] + (False,) * (img.ndim - 2)
        return Apply(self, [img, *windows], [GpuArrayType(img.dtype, flags, img.type.context_name)()])

    def infer_shape(self, node, shape):
        return self.pooled(node.inputs[0].ndim).infer_shape(node, shape)

    def connection_pattern(self, node):
        return [[1], [0], [0], [0]]

    def native_code(self, node):
        return self.pool_code(node, "pool")

    def formula(self, img, ws, stride, pad):
        return [self.pooled(img.ndim)(img, ws, stride, pad)]

    def L_op(self, inp, outputs, grads):
        img, *windows = inp
        none = [DisconnectedType()() for _ in windows]
        if isinstance(grads[0].type, DisconnectedType):
            return [DisconnectedType()(), *none]
        return [GpuDnnPoolGrad(self.mode)(img, outputs[0], grads[0], *windows), *none]


class GpuDnnPoolGrad(GpuDnnPoolBase):
    """Gradient of `GpuDnnPool` with respect to the image. See `GpuDnnPoolBase` for the mode.

    Inputs: inp, the image; out, the result of `GpuDnnPool`; out_grad, the gradient with respect to it; the integer
    vectors ws, stride and pad on the host. The output is like inp.

    Notes
    -----
    If several elements of a window are maximal, cuDNN chooses which of them get the gradient. The
    Ops of `tensor.signal.pool` and `gpuarray.pool` give it to all of them.
    """

    def make_node(self, inp, out, out_grad, ws, stride, pad):
        inp, out, out_grad = dnn_inputs(self, {"inp": inp, "out": out, "out_grad": out_grad}, (4, 5))
        if not inp.ndim == out.ndim == out_grad.ndim:
            types = inp.type, out.type, out_grad.type
            raise TypeError("%s: the arrays must have equally many axes; got %s, %s, %s" % (self, *types))
        return Apply(self, [inp, out, out_grad, *self.windows(inp, ws, stride, pad)], [inp.type()])

    def infer_shape(self, node, shape):
        return [shape[0]]

    def connection_pattern(self, node):
        return [[1], [1], [1], [0], [0], [0]]

    def native_code(self, node):
        return self.pool_code(node, "pool_gradient")

    def formula(self, inp, out, out_grad, ws, stride, pad):
        if self.is_maximum:
            return [MaxPoolGrad(True, inp.ndim - 2)(inp, out, out_grad, ws, stride, pad)]
        return [AveragePoolGrad(True, self.mode, inp.ndim - 2)(inp, out_grad, ws, stride, pad)]

    def grad(self, inputs, output_gradients):
        host = on_host(inputs)
        found = Lop(self.formula(*host), host[:3], on_host(output_gradients), disconnected_inputs="ignore")
        return [to_context_of(g, x) for g, x in zip(found, inputs)] + [DisconnectedType()() for _ in range(3)]


def dnn_pool(img, ws, stride=None, mode="max", pad=None):
    """Pool images or volumes on a CUDA device, by cuDNN.

    Parameters
    ----------
    img : 4-d or 5-d tensor
        The images (batch, channels, rows, columns), or volumes with one more axis. float16, float32 or float64.
    ws : tuple of 2 or 3 int, or integer vector
        The lengths of the windows.
    stride : tuple of int, or integer vector, optional
        The distances between windows. Default: 1 along each axis.
    mode : {"max", "average_inc_pad", "average_exc_pad", "sum", "max_deterministic"}
        The maximum, the average including or excluding the margin, or the sum of a window. The gradient of
        "max_deterministic" always has the same bits.
    pad : tuple of int, or integer vector, optional
        The margins on both sides of each axis. Default: 0.

    Returns
    -------
    variable on a device
        The pooled images, of the dtype of `img`. Only complete windows count (``ignore_border=True``).

    Raises
    ------
    ValueError
        For an unknown mode, and for windows that are invalid.
    TypeError
        If `img` has another number of axes or another dtype.
    RuntimeError
        If a function is compiled for a device that cannot use cuDNN.
    """
    context_name = infer_context_name(img)
    img = as_gpuarray_variable(img, context_name)
    nd = img.ndim - 2
    stride = (1,) * nd if stride is None else stride
    pad = (0,) * nd if pad is None else pad
    if mode != "sum":
        return GpuDnnPool(mode)(img, ws, stride, pad)
    mean = GpuDnnPool("average_inc_pad")(img, ws, stride, pad)
    return times_number(mean, window_size(mean, ws))


def window_size(like, ws):
    """Return the number of elements of a window, on the host, in the dtype of the variable `like`."""
    return cast(prod(as_window(ws, like.ndim - 2, "ws")), like.dtype)


def times_number(v, number):
    """Multiply a device variable by a number on the host."""
    return on_device("mul", v, as_gpuarray_variable(number.dimshuffle(["x"] * v.ndim), v.type.context_name))
