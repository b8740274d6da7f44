"""Abstract Ops of convolutions: they define the result, but not the algorithm.

The rules in `opt` replace these Ops by the Ops of `corr`, `corr3d` and `convmm`. If no rule has replaced an abstract
Op, its `perform` calls the NumPy code of the Op that would replace it.

Each family consists of three Ops, which are linear in each of their two tensors. `AbstractConv` computes the output
from images and kernels. `AbstractConv_gradWeights` computes kernels from images and a gradient of the output.
`AbstractConv_gradInputs` computes images from kernels and a gradient of the output. The derivatives of each Op are
expressed by the other two Ops.
"""

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.scalar.types import as_common_dtype
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.nnet.convolution.convmm import (
    Conv3dMM,
    Conv3dMM_gradInputs,
    Conv3dMM_gradWeights,
    ConvMM,
    ConvMM_gradInputs,
    ConvMM_gradWeights,
)
from theano_ng.tensor.nnet.convolution.shapes import (
    assert_conv_shape,
    assert_shape,
    axis_modes,
    get_conv_output_shape,
    is_int,
)
from theano_ng.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType

__all__ = [
    "AbstractConv",
    "AbstractConv2d",
    "AbstractConv2d_gradInputs",
    "AbstractConv2d_gradWeights",
    "AbstractConv3d",
    "AbstractConv3d_gradInputs",
    "AbstractConv3d_gradWeights",
    "AbstractConv_gradInputs",
    "AbstractConv_gradWeights",
    "BaseAbstractConv",
]

_DIRECTIONS = ("forward", "backprop weights", "backprop inputs")
# (number of dimensions, whether kernels are flipped) -> the Ops, in the order of `_DIRECTIONS`
_IMPLEMENTATIONS = {
    (2, False): (CorrMM, CorrMM_gradWeights, CorrMM_gradInputs),
    (3, False): (Corr3dMM, Corr3dMM_gradWeights, Corr3dMM_gradInputs),
    (2, True): (ConvMM, ConvMM_gradWeights, ConvMM_gradInputs),
    (3, True): (Conv3dMM, Conv3dMM_gradWeights, Conv3dMM_gradInputs),
}


def _steps(value, name, convdim):
    """Return a stride or dilation as a tuple of positive ints. None is replaced by ones."""
    if value is None:
        return (1,) * convdim
    if len(value) != convdim:
        raise ValueError("%s must have %d elements" % (name, convdim))
    if not all(is_int(v) for v in value):
        raise TypeError("%s must hold integers, got %s" % (name, value))
    if min(value) < 1:
        raise ValueError("%s must be positive, got %s" % (name, value))
    return tuple(int(v) for v in value)


def _constant_shape(shape, name, lengths):
    """Return a shape as a tuple of ints and None.

    Raise ValueError if an entry is negative or not constant, or if the number of entries is not in `lengths`.
    """
    if shape is None:
        return (None,) * lengths[-1]
    shape = tuple(shape)
    if len(shape) not in lengths:
        raise ValueError(
            "%s must have %s elements, got %s" % (name, " or ".join(str(n) for n in sorted(set(lengths))), shape)
        )
    result = []
    for length in shape:
        if length is not None and not is_int(length):
            try:
                value = get_scalar_constant_value(length)
            except NotScalarConstantError:
                value = None
            if value is None or value.dtype.kind not in "iu":
                raise ValueError("%s should be None or a tuple of constant int values" % name)
            length = value
        if length is not None and length < 0:
            raise ValueError("%s must not hold negative lengths, got %s" % (name, shape))
        result.append(None if length is None else int(length))
    # The user may omit the lengths of the output in the shape of unshared kernels. Insert None for the missing lengths.
    return (*result[:1], *[None] * (lengths[-1] - len(result)), *result[1:])


class BaseAbstractConv(Op):
    """The base class of the abstract Ops of convolutions.

    Parameters
    ----------
    convdim : {2, 3}
        The number of axes along which kernels move.
    imshp : None, or sequence of 2 + convdim ints, constants or None
        The shape of the images, (batch, channels, \\*lengths), as far as it is known. It is a hint: a wrong shape may
        cause an error.
    kshp : None, or sequence of 2 + convdim ints, constants or None
        The shape of the kernels, (filters, channels per group, \\*lengths). If `unshared`, the shape has
        2 + 2 * convdim entries: the lengths of the output follow the number of filters, and may be omitted. Also in the
        Ops of the gradients, `imshp` and `kshp` are the shapes of the images and kernels of the forward convolution.
    border_mode : {'valid', 'half', 'full'}, int, or tuple of convdim ints
        The number of zeros around images. 'valid': none; 'half': half the extent of the kernel; 'full': the extent of
        the kernel minus one; an int: this number. In two dimensions, a pair may be used instead of an int: the number
        of zeros before the first element and the number of zeros after the last element.
    subsample : sequence of convdim ints, optional
        The strides: the distance that the kernel moves between neighboring elements of the output. The default is 1.
    filter_flip : bool
        Whether kernels are reversed. If True, the Op is a convolution, otherwise a correlation.
    filter_dilation : sequence of convdim ints, optional
        The distance in the image between neighboring elements of a kernel. The default is 1.
    num_groups : int
        The number of groups into which channels and filters are divided. A filter uses only the channels of its group.
    unshared : bool
        Whether each position of the output has a separate kernel. This is possible only in two dimensions.

    Raises
    ------
    ValueError, TypeError
        For invalid parameters.
    """

    check_broadcast = False
    _f16_ok = True
    __props__ = (
        "convdim",
        "border_mode",
        "subsample",
        "filter_flip",
        "imshp",
        "kshp",
        "filter_dilation",
        "num_groups",
        "unshared",
    )
    direction = None

    def __init__(
        self,
        convdim,
        imshp=None,
        kshp=None,
        border_mode="valid",
        subsample=None,
        filter_flip=True,
        filter_dilation=None,
        num_groups=1,
        unshared=False,
    ):
        if convdim not in (2, 3):
            raise ValueError("convolution dimension %s is not supported, it must be 2 or 3" % (convdim,))
        self.convdim = convdim
        self.unshared = bool(unshared)
        if self.unshared and convdim != 2:
            raise ValueError("unshared convolution is supported for 2 dimensions only, got %d" % convdim)
        modes = axis_modes(border_mode, convdim)
        if convdim == 3 and any(not isinstance(mode, str) and mode[0] != mode[1] for mode in modes):
            raise ValueError(
                "invalid border_mode %s: different padding before and after is supported for 2 dimensions only"
                % (border_mode,)
            )
        if not all(isinstance(mode, str) or is_int(mode[0]) and is_int(mode[1]) for mode in modes):
            raise ValueError(
                "invalid border mode %s. The tuple can only contain integers or pairs of integers" % (border_mode,)
            )
        if not isinstance(border_mode, str):
            # A pair of equal numbers becomes one number.
            border_mode = tuple(mode[0] if mode[0] == mode[1] else mode for mode in modes)
            if border_mode == (0,) * convdim:
                border_mode = "valid"
        self.border_mode = border_mode
        self.imshp = _constant_shape(imshp, "imshp", (2 + convdim,))
        self.kshp = _constant_shape(kshp, "kshp", (2 + convdim, 2 + 2 * convdim) if unshared else (2 + convdim,))
        self.subsample = _steps(subsample, "subsample", convdim)
        self.filter_dilation = _steps(filter_dilation, "filter_dilation", convdim)
        self.filter_flip = bool(filter_flip)
        if not is_int(num_groups) or num_groups < 1:
            raise ValueError("num_groups must have value greater than zero, got %s" % (num_groups,))
        self.num_groups = int(num_groups)

    def do_constant_folding(self, node):
        """Return False, because the Op is slow until a rule has replaced it."""
        return False

    def flops(self, inp, outp):
        """Return the number of multiplications and additions, for profiles.

        Parameters
        ----------
        inp, outp : lists of tuples of int
            The shapes of the inputs and of the output.
        """
        return self.implementation().flops(inp, outp)

    # The three Ops of a family --------------------------------------------------------------------------------------

    def twin(self, direction):
        """Return the Op of the family for a given direction, with the parameters of this Op.

        Parameters
        ----------
        direction : {'forward', 'backprop weights', 'backprop inputs'}
        """
        op = object.__new__(self.family[_DIRECTIONS.index(direction)])
        op.__dict__.update(self._props_dict())
        return op

    def implementation(self):
        """Return the Op of `corr`, `corr3d` or `convmm` that computes this Op.

        The returned Op takes the lengths of the result's axes as separate scalars, not as a vector.
        """
        cls = _IMPLEMENTATIONS[self.convdim, self.filter_flip][_DIRECTIONS.index(self.direction)]
        extra = {"unshared": self.unshared} if self.convdim == 2 else {}
        return cls(
            border_mode=self.border_mode,
            subsample=self.subsample,
            filter_dilation=self.filter_dilation,
            num_groups=self.num_groups,
            **extra,
        )

    # Nodes ------------------------------------------------------------------------------------------------------------------

    def _operands(self, **operands):
        """Return two tensors of one dtype. Raise TypeError if a tensor has an unexpected rank."""
        result = []
        for name, value in operands.items():
            value = as_tensor_variable(value)
            by_position = name == "kern" and self.unshared
            expected = 2 + self.convdim * (2 if by_position else 1)
            if value.type.ndim != expected:
                raise TypeError(
                    "%s must be %dD tensor%s, got %s"
                    % (name, expected, " for unshared convolution" if by_position else "", value.type)
                )
            result.append(value)
        return as_common_dtype(*result)

    def _checked(self, x, name):
        """Return images or kernels. If the flag ``config.conv.assert_shape`` is on, add an assertion of their shape."""
        if not config.conv.assert_shape:
            return x
        hint, what = ("imshp", "image") if name == "img" else ("kshp", "filters")
        shape = getattr(self, hint)
        return assert_shape(
            x,
            shape,
            "%s shape mismatch: shape of %s does not match given %s: %s" % (self._generic_name, what, hint, shape),
        )

    def _lengths(self, shape):
        """Return the lengths of the result's axes as a vector of integers. Raise TypeError for other values."""
        shape = as_tensor_variable(shape)
        if shape.type.ndim != 1 or shape.type.dtype not in INTEGERS:
            raise TypeError(
                "shape must be a vector of %d integers, got %s of type %s" % (self.convdim, shape, shape.type)
            )
        return shape

    # Values -----------------------------------------------------------------------------------------------------------------

    def conv(self, img, kern, mode="valid", dilation=1, num_groups=1, unshared=False, direction="forward"):
        """Convolve arrays with flipped kernels in NumPy, or compute a gradient of this convolution.

        Parameters
        ----------
        img, kern : ndarray
            Images and kernels. For 'backprop weights': images and the gradient of the output. For 'backprop inputs':
            the gradient of the output and kernels.
        mode : {'valid', 'full'}
        dilation : int or tuple of int
        num_groups : int
        unshared : bool
        direction : {'forward', 'backprop weights', 'backprop inputs'}

        Returns
        -------
        ndarray
            The output, the gradient of the kernels, or the gradient of the images.

        Raises
        ------
        ValueError
            For an invalid mode or direction, and for shapes that do not fit.
        """
        if mode not in ("valid", "full"):
            raise ValueError('invalid mode %s, which must be either "valid" or "full"' % (mode,))
        if direction not in _DIRECTIONS:
            raise ValueError("conv: invalid value %r for 'direction'" % (direction,))
        dilation = (dilation,) * self.convdim if is_int(dilation) else dilation
        op = AbstractConv(
            self.convdim, border_mode=mode, filter_dilation=dilation, num_groups=num_groups, unshared=unshared
        ).twin(direction)
        # The Op for 'backprop inputs' takes the kernels first.
        inputs = [kern, img] if direction == "backprop inputs" else [img, kern]
        return op.value(inputs, np.result_type(img, kern))

    def unshared2d(self, inp, kern, out_shape, direction="forward"):
        """Convolve one channel with a separate kernel for each position of the output, in NumPy, or compute a gradient.

        Parameters
        ----------
        inp : (rows, columns) ndarray
            The image. For 'backprop inputs': the gradient of the output.
        kern : ndarray
            The kernels, (output rows, output columns, kernel rows, kernel columns), which are flipped. For 'backprop
            weights': the gradient of the output.
        out_shape : tuple of int
            The shape of the result.
        direction : {'forward', 'backprop weights', 'backprop inputs'}

        Returns
        -------
        ndarray of shape `out_shape`
        """
        if direction not in _DIRECTIONS:
            raise ValueError("unshared2d: invalid value %r for 'direction'" % (direction,))
        out = np.zeros(out_shape, dtype=np.result_type(inp, kern))
        if direction == "forward":
            windows = np.lib.stride_tricks.sliding_window_view(inp, kern.shape[2:])
            return np.einsum("pqij,pqij->pq", windows, kern[:, :, ::-1, ::-1], out=out)
        rows, columns = (kern if direction == "backprop weights" else inp).shape
        for p in range(rows):
            for q in range(columns):
                if direction == "backprop weights":
                    out[p, q] = inp[p : p + out_shape[2], q : q + out_shape[3]] * kern[p, q]
                else:
                    out[p : p + kern.shape[2], q : q + kern.shape[3]] += inp[p, q] * kern[p, q, ::-1, ::-1]
        return out

    def value(self, inputs, dtype):
        """Compute the result from arrays, in NumPy.

        Parameters
        ----------
        inputs : list of ndarray
            Two tensors. For gradients, also the lengths of the result's axes, which may be omitted if they follow from
            the shapes of the tensors.
        dtype : dtype

        Returns
        -------
        ndarray of this dtype
        """
        first, second, *lengths = inputs
        if lengths and np.shape(lengths[0]) != (self.convdim,):
            raise ValueError(
                "shape must hold %d lengths, got an array of shape %s" % (self.convdim, np.shape(lengths[0]))
            )
        return self.implementation().value([first, second, *(lengths[0] if lengths else ())], dtype)

    def perform(self, node, inp, out_):
        out = node.outputs[0]
        out_[0][0] = out.type.filter(self.value(inp, out.dtype))  # an array on a device, if a rule has moved the node

    # Derivatives ------------------------------------------------------------------------------------------------------------

    def _apply(self, direction, *inputs):
        """Apply the Op of the family for a direction, and return its output.

        The Ops of gradients add no assertions of shapes, because the forward node already has these assertions.
        """
        op = self.twin(direction)
        checks = {} if direction == "forward" else {"add_assert_shape": False}
        return op.make_node(*inputs, **checks).outputs[0]

    def _spatial(self, x):
        return x.shape[-self.convdim :]

    def grad(self, inp, grads):
        first, second = inp[:2]
        (g,) = grads
        if self.direction == "forward":
            bottom, weights, top = first, second, g
            wanted = ("backprop inputs", "backprop weights")
        elif self.direction == "backprop weights":
            bottom, weights, top = first, g, second
            wanted = ("backprop inputs", "forward")
        else:
            bottom, weights, top = g, first, second
            wanted = ("backprop weights", "forward")
        arguments = {
            "forward": lambda: (bottom, weights),
            "backprop weights": lambda: (bottom, top, self._spatial(second if self.direction == "forward" else first)),
            "backprop inputs": lambda: (weights, top, self._spatial(first)),
        }
        results = []
        for direction, x in zip(wanted, inp):
            if x.dtype in DISCRETE:
                results.append(x.zeros_like(dtype=config.floatX))
                continue
            result = patternbroadcast(self._apply(direction, *arguments[direction]()), x.broadcastable)
            results.append(result)
        return results + [DisconnectedType()() for _ in inp[2:]]

    def R_op(self, inputs, eval_points):
        (a, b, *lengths), (da, db) = inputs, eval_points[:2]
        terms = [self(*pair, *lengths) for pair, d in (((da, b), da), ((a, db), db)) if d is not None]
        return [sum(terms[1:], terms[0]) if terms else None]

    def connection_pattern(self, node):
        return [[True], [True], *[[False]] * (len(node.inputs) - 2)]


def _hinted(hint, shape):
    """Return a shape in which the known lengths of `hint` replace symbolic lengths."""
    return tuple(length if constant is None else constant for constant, length in zip(hint, shape))


class AbstractConv(BaseAbstractConv):
    """Convolution of images with kernels.

    Inputs: images (batch, channels, \\*lengths), and kernels (filters, channels per group, \\*lengths). Output:
    (batch, filters, \\*lengths). For the parameters, see :class:`BaseAbstractConv`.
    """

    direction = "forward"
    _generic_name = "AbstractConv"

    def make_node(self, img, kern):
        img, kern = self._operands(img=img, kern=kern)
        img, kern = self._checked(img, "img"), self._checked(kern, "kern")
        flags = [img.broadcastable[0], kern.broadcastable[0], *[False] * self.convdim]
        return Apply(self, [img, kern], [TensorType(img.dtype, flags)()])

    def infer_shape(self, node, input_shapes):
        imshp, kshp = _hinted(self.imshp, input_shapes[0]), _hinted(self.kshp, input_shapes[1])
        shape = get_conv_output_shape(imshp, kshp, self.border_mode, self.subsample, self.filter_dilation)
        if self.border_mode in ("half", "full"):
            # No check is needed: with this padding, the output of non-empty images is not empty.
            return [shape]
        return [(*shape[:2], *assert_conv_shape((0, 0, *shape[2:]))[2:])]


class AbstractConv_gradInputs(BaseAbstractConv):
    """Gradient of a convolution with respect to the images.

    Inputs: kernels, the gradient of the output, and the lengths of the images, a vector of `convdim` integers. The
    output has the shape of the images. For the parameters, see :class:`BaseAbstractConv`.
    """

    direction = "backprop inputs"
    _generic_name = "AbstractConv_gradInputs"

    def make_node(self, kern, topgrad, shape, add_assert_shape=True):
        kern, topgrad = self._operands(kern=kern, topgrad=topgrad)
        if add_assert_shape:
            kern = self._checked(kern, "kern")
        channels = kern.broadcastable[-self.convdim - 1] if self.num_groups == 1 else False
        flags = [topgrad.broadcastable[0], channels, *[False] * self.convdim]
        return Apply(self, [kern, topgrad, self._lengths(shape)], [TensorType(kern.dtype, flags)()])

    def infer_shape(self, node, input_shapes):
        kern, top = input_shapes[:2]
        channels = kern[-self.convdim - 1] * self.num_groups
        lengths = [node.inputs[2][i] for i in range(self.convdim)]
        return [_hinted(self.imshp, (top[0], channels, *lengths))]


class AbstractConv_gradWeights(BaseAbstractConv):
    """Gradient of a convolution with respect to the kernels.

    Inputs: images, the gradient of the output, and the lengths of the kernels, a vector of `convdim` integers. The
    output has the shape of the kernels. For the parameters, see :class:`BaseAbstractConv`.
    """

    direction = "backprop weights"
    _generic_name = "AbstractConv_gradWeights"

    def make_node(self, img, topgrad, shape, add_assert_shape=True):
        img, topgrad = self._operands(img=img, topgrad=topgrad)
        if add_assert_shape:
            img = self._checked(img, "img")
        channels = img.broadcastable[1] if self.num_groups == 1 else False
        positions = [False] * self.convdim if self.unshared else []
        flags = [topgrad.broadcastable[1], *positions, channels, *[False] * self.convdim]
        return Apply(self, [img, topgrad, self._lengths(shape)], [TensorType(img.dtype, flags)()])

    def infer_shape(self, node, input_shapes):
        img, top = input_shapes[:2]
        channels = img[1] if self.num_groups == 1 else img[1] // self.num_groups
        lengths = [node.inputs[2][i] for i in range(self.convdim)]
        positions = top[2:] if self.unshared else ()
        return [_hinted(self.kshp, (top[1], *positions, channels, *lengths))]


class _In2d:
    """A mixin whose constructor has the parameters of the Ops for two dimensions."""

    def __init__(
        self,
        imshp=None,
        kshp=None,
        border_mode="valid",
        subsample=(1, 1),
        filter_flip=True,
        filter_dilation=(1, 1),
        num_groups=1,
        unshared=False,
    ):
        super().__init__(2, imshp, kshp, border_mode, subsample, filter_flip, filter_dilation, num_groups, unshared)


class _In3d:
    """A mixin whose constructor has the parameters of the Ops for three dimensions."""

    def __init__(
        self,
        imshp=None,
        kshp=None,
        border_mode="valid",
        subsample=(1, 1, 1),
        filter_flip=True,
        filter_dilation=(1, 1, 1),
        num_groups=1,
    ):
        super().__init__(3, imshp, kshp, border_mode, subsample, filter_flip, filter_dilation, num_groups)


class AbstractConv2d(_In2d, AbstractConv):
    """:class:`AbstractConv` in two dimensions, rows and columns."""


class AbstractConv2d_gradInputs(_In2d, AbstractConv_gradInputs):
    """:class:`AbstractConv_gradInputs` in two dimensions, rows and columns."""


class AbstractConv2d_gradWeights(_In2d, AbstractConv_gradWeights):
    """:class:`AbstractConv_gradWeights` in two dimensions, rows and columns."""


class AbstractConv3d(_In3d, AbstractConv):
    """:class:`AbstractConv` in three dimensions, slices, rows and columns."""


class AbstractConv3d_gradInputs(_In3d, AbstractConv_gradInputs):
    """:class:`AbstractConv_gradInputs` in three dimensions, slices, rows and columns."""


class AbstractConv3d_gradWeights(_In3d, AbstractConv_gradWeights):
    """:class:`AbstractConv_gradWeights` in three dimensions, slices, rows and columns."""


for _family in (
    (AbstractConv, AbstractConv_gradWeights, AbstractConv_gradInputs),
    (AbstractConv2d, AbstractConv2d_gradWeights, AbstractConv2d_gradInputs),
    (AbstractConv3d, AbstractConv3d_gradWeights, AbstractConv3d_gradInputs),
):
    for _op in _family:
        _op.family = _family

register_loader("theano_ng.tensor.nnet.convolution.opt")
