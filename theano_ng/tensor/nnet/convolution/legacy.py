"""The convolution of earlier versions: `conv2d` and its Op, `ConvOp`, for the modes 'valid' and 'full'.

``theano.tensor.nnet.conv2d`` can do more. The parameters of the C loops of earlier versions (``unroll_batch`` and so
on) are accepted, but have no effect, because these loops no longer exist.
"""

import warnings

import numpy as np

from theano_ng.gof.differentiate import Lop
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeOp
from theano_ng.gof.op import OpenMPOp
from theano_ng.tensor.assert_op import AssertShape
from theano_ng.tensor.constant import NotScalarConstantError, as_tensor_variable, get_scalar_constant_value
from theano_ng.tensor.elemwise.functions import eq
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.nnet.convolution.abstract import AbstractConv2d
from theano_ng.tensor.nnet.convolution.convmm import ConvMM
from theano_ng.tensor.nnet.convolution.shapes import get_conv_output_shape, is_int
from theano_ng.tensor.shaping.creation import zeros
from theano_ng.tensor.type import TensorType

__all__ = ["ConvOp", "conv2d", "imported_scipy_signal"]

imported_scipy_signal = True
"""Whether SciPy is installed: always, because the package requires it."""


def _entries(shape, n, name):
    """Return a shape as a tuple of `n` ints and None. Raise ValueError for other shapes."""
    shape = (None,) * n if shape is None else tuple(shape)
    if len(shape) != n:
        raise ValueError("%s must have %d entries, got %s" % (name, n, shape))
    for length in shape:
        if length is not None and (not is_int(length) or length < 0):
            raise ValueError("%s must hold lengths or None, got %s" % (name, shape))
    return tuple(None if length is None else int(length) for length in shape)


def _divisor(number, size, name):
    """Return `number` if it divides `size`. Otherwise, warn and return the largest divisor of `size` below `number`."""
    if number is None or size is None or size % number == 0:
        return number
    smaller = next(n for n in range(min(number, size), 0, -1) if size % n == 0)
    warnings.warn("ConvOp: %s=%d is not a divisor of %d, so %d is used" % (name, number, size, smaller), stacklevel=4)
    return smaller


def _gaps(length, logical, top_aligned=True):
    """Return the position of the first element (offset) and the distance between neighbors (step) in a spread axis.

    In this axis, `length` elements are spread over the length `logical`, with zeros between the elements. Raise
    ValueError if the elements cannot be spread evenly.
    """
    step = -(-logical // length)
    offset = 0 if top_aligned else (logical - length * step + step - 1) % step
    if len(range(offset, logical, step)) != length:
        raise ValueError(
            "ConvOp: %d elements cannot be distributed evenly over the logical length %d" % (length, logical)
        )
    return offset, step


def _asked(logical, lengths):
    """Return the given logical lengths. Replace a logical length that is None by the actual length."""
    return [own if asked is None else asked for asked, own in zip(logical, lengths)]


class ConvOp(NativeOp, OpenMPOp):
    """Convolution of images with flipped kernels.

    Inputs: images (batch, channels, rows, columns), and kernels (filters, channels, rows, columns), of one dtype.
    Output: (batch, filters, output rows, output columns).

    Parameters
    ----------
    imshp : None, or (channels, rows, columns), or (rows, columns)
        The shape of an image, as far as it is known. Entries may be None. Given lengths are checked at run time.
    kshp : None, or (rows, columns)
        The shape of a kernel.
    nkern, bsize : int, optional
        The number of kernels, and the number of images.
    dx, dy : int
        The strides along rows and columns.
    output_mode : {'valid', 'full'}
        'valid': kernels are applied where they lie inside the images. 'full': wherever they overlap the images.
    unroll_batch, unroll_kern, unroll_patch
        The parameters that controlled loop unrolling in earlier versions. They have no effect.
    imshp_logical, kshp_logical : sequence of int, optional
        The lengths to which images and kernels are extended by zeros between their elements.
    kshp_logical_top_aligned : bool
        Whether an extended kernel begins with the first element of the kernel.
    verbose, version, direction_hint
        These parameters have no effect.
    openmp : bool, optional
        Whether to use several threads. The default is ``config.openmp``.

    Raises
    ------
    ValueError, TypeError
        If parameters are invalid, or if the kernels do not fit into the images.
    """

    _f16_ok = True
    check_broadcast = False
    __props__ = (
        "imshp",
        "kshp",
        "nkern",
        "bsize",
        "dx",
        "dy",
        "out_mode",
        "unroll_batch",
        "unroll_kern",
        "unroll_patch",
        "imshp_logical",
        "kshp_logical",
        "kshp_logical_top_aligned",
    )

    def __init__(
        self,
        imshp=None,
        kshp=None,
        nkern=None,
        bsize=None,
        dx=1,
        dy=1,
        output_mode="valid",
        unroll_batch=None,
        unroll_kern=None,
        unroll_patch=None,
        imshp_logical=None,
        kshp_logical=None,
        kshp_logical_top_aligned=True,
        verbose=0,
        version=-1,
        direction_hint="forward",
        openmp=None,
    ):
        super().__init__(openmp=openmp)
        if output_mode not in ("valid", "full"):
            raise ValueError("Mode %s not implemented" % (output_mode,))
        self.out_mode = output_mode
        for name, step in (("dx", dx), ("dy", dy)):
            if not is_int(step):
                raise TypeError("ConvOp.__init__ param %s must be an int" % name, step)
            if step < 1:
                raise ValueError("ConvOp.__init__ param %s must be positive, got %s" % (name, step))
        self.dx, self.dy = int(dx), int(dy)
        if imshp is not None and len(imshp) == 2:
            imshp = (1, *imshp)
        self.imshp, self.kshp = _entries(imshp, 3, "imshp"), _entries(kshp, 2, "kshp")
        if imshp_logical is not None and len(imshp_logical) == 2:
            imshp_logical = (self.imshp[0], *imshp_logical)
        self.imshp_logical = self.imshp if imshp_logical is None else _entries(imshp_logical, 3, "imshp_logical")
        self.kshp_logical = self.kshp if kshp_logical is None else _entries(kshp_logical, 2, "kshp_logical")
        self.kshp_logical_top_aligned = bool(kshp_logical_top_aligned)
        self.nkern, self.bsize = _entries((nkern, bsize), 2, "(nkern, bsize)")
        self.unroll_batch = _divisor(unroll_batch, self.bsize, "unroll_batch")
        self.unroll_kern = _divisor(unroll_kern, self.nkern, "unroll_kern")
        none_given = unroll_batch is None and unroll_kern is None and unroll_patch is None
        self.unroll_patch = True if none_given else unroll_patch
        self.verbose, self.version, self.direction_hint = verbose, version, direction_hint
        self.outshp = self._output_lengths((self.dx, self.dy))
        self.fulloutshp = self._output_lengths((1, 1))
        if any(length is not None and length < 1 for length in self.outshp):
            raise ValueError(
                "Bad size for the output shape. Verify that [post-supersampling] input shape (%s) and kern shape(%s) are ok. "
                "(Hint: kerns must fit inside image in valid mode)" % (self.imshp_logical, self.kshp_logical)
            )

    def _output_lengths(self, steps):
        """Return the lengths of the output for the strides `steps`. A length that is not known is None."""
        shape = get_conv_output_shape(
            (None, *self.imshp_logical), (None, None, *self.kshp_logical), self.out_mode, steps
        )
        return shape[2:]

    def __str__(self):
        return "ConvOp{%s}" % ",".join(str((name, getattr(self, name))) for name in self.__props__)

    @staticmethod
    def has_all_shape(imshp, kshp, nkern=1, bsize=1):
        """Return True if all lengths are known.

        Parameters
        ----------
        imshp, kshp : tuples of int and None
        nkern, bsize : int or None
        """
        return None not in (nkern, bsize, *imshp, *kshp)

    @staticmethod
    def getOutputShape(inshp, kshp, stride=(1, 1), mode="valid"):
        """Return the lengths of the output. The method is deprecated; use `get_conv_output_shape`.

        Parameters
        ----------
        inshp, kshp : (rows, columns)
            The lengths of the image and of the kernel.
        stride : pair of int
        mode : {'valid', 'full', 'half'}

        Returns
        -------
        (rows, columns)
        """
        warnings.warn("The method `getOutputShape` is deprecated use`get_conv_output_shape` instead.", stacklevel=2)
        return get_conv_output_shape((None, None, *inshp), (None, None, *kshp), mode, stride)[2:]

    def use_blas(self):
        """Return False. BLAS never computes the convolution, because the package has its own code."""
        return False

    def flops(self, inputs, outputs):
        """Return the number of multiplications and additions, for profiles.

        Parameters
        ----------
        inputs, outputs : lists of tuples of int
            The shapes of the inputs and of the outputs.
        """
        return 2 * int(np.prod(outputs[0])) * int(np.prod(inputs[1][1:]))

    # Nodes ------------------------------------------------------------------------------------------------------------------

    def make_node(self, inputs, kerns):
        inputs, kerns = as_tensor_variable(inputs), as_tensor_variable(kerns)
        if inputs.type.ndim != 4:
            raise TypeError(
                'ConvOp (make_node) requires input be a 4D tensor; received "%s" (%i dims)' % (inputs, inputs.type.ndim)
            )
        if kerns.type.ndim != 4:
            raise TypeError("make_node requires 4D tensor of kernels, got %s" % kerns.type)
        if inputs.type.dtype != kerns.type.dtype:
            raise TypeError(
                "The image and the kernel must have the same type. inputs(%s), kerns(%s)" % (inputs.dtype, kerns.dtype)
            )
        inputs = self._checked(inputs, (self.bsize, *self.imshp), "image")
        kerns = self._checked(kerns, (self.nkern, None, *self.kshp), "kernel")
        flags = (inputs.broadcastable[0], kerns.broadcastable[0], False, False)
        return Apply(self, [inputs, kerns], [TensorType(inputs.dtype, flags)()])

    @staticmethod
    def _checked(x, lengths, what):
        """Return a tensor with an assertion that its lengths equal the given lengths."""
        checks = [eq(x.shape[i], length) for i, length in enumerate(lengths) if length is not None]
        if not checks:
            return x
        message = "The %s shape provided at build time is different from the one passed at run time: %s" % (
            what,
            lengths,
        )
        return AssertShape(message)(x, *checks)

    def infer_shape(self, node, input_shapes):
        images, kernels = input_shapes
        images = [*images[:2], *_asked(self.imshp_logical[1:], images[2:])]
        kernels = [*kernels[:2], *_asked(self.kshp_logical, kernels[2:])]
        return [get_conv_output_shape(images, kernels, self.out_mode, (self.dx, self.dy))]

    # Values -----------------------------------------------------------------------------------------------------------------

    @property
    def _is_spread(self):
        return (self.imshp_logical, self.kshp_logical) != (self.imshp, self.kshp)

    def _convolution(self):
        return ConvMM(border_mode=self.out_mode, subsample=(self.dx, self.dy), openmp=self.openmp)

    def native_code(self, node):
        return None if self._is_spread else self._convolution().native_code(node)

    def perform(self, node, inp, out):
        images, kernels = inp
        if self._is_spread:
            images = self._spread(images, self.imshp_logical[1:], True)
            kernels = self._spread(kernels, self.kshp_logical, self.kshp_logical_top_aligned)
        out[0][0] = self._convolution().value([images, kernels], node.outputs[0].dtype)

    @staticmethod
    def _spread(x, logical, top_aligned):
        """Return an array with zeros between its rows and columns, so that it has the logical lengths."""
        lengths = _asked(logical, x.shape[2:])
        (row, row_step), (column, column_step) = (
            _gaps(own, asked, top_aligned) for own, asked in zip(x.shape[2:], lengths)
        )
        result = np.zeros((*x.shape[:2], *lengths), dtype=x.dtype)
        result[:, :, row::row_step, column::column_step] = x
        return result

    # Derivatives ------------------------------------------------------------------------------------------------------------

    def expression(self, images, kernels):
        """Return the convolution as an expression of Ops that have derivatives."""
        images = self._spread_variable(images, self.imshp, self.imshp_logical, 1, True)
        kernels = self._spread_variable(
            kernels, (None, *self.kshp), (None, *self.kshp_logical), 1, self.kshp_logical_top_aligned
        )
        return AbstractConv2d(border_mode=self.out_mode, subsample=(self.dx, self.dy))(images, kernels)

    @staticmethod
    def _spread_variable(x, real, logical, first, top_aligned):
        if real == logical:
            return x
        if None in real[first:]:
            raise ValueError(
                "the lengths of %s must be given to ConvOp if logical lengths are given, got %s" % (x, real)
            )
        (row, row_step), (column, column_step) = (
            _gaps(own, asked, top_aligned) for own, asked in zip(real[first:], logical[first:])
        )
        spread = zeros([x.shape[0], x.shape[1], *logical[first:]], dtype=x.dtype)
        return set_subtensor(spread[:, :, row::row_step, column::column_step], x)

    def grad(self, inp, grads):
        if not self._is_spread:
            op = AbstractConv2d(border_mode=self.out_mode, subsample=(self.dx, self.dy))
            return op.grad(inp, grads)
        return Lop(self.expression(*inp), inp, grads[0])

    def R_op(self, inputs, eval_points):
        (a, b), (da, db) = inputs, eval_points
        terms = [self(*pair) for pair, d in (((da, b), da), ((a, db), db)) if d is not None]
        return [sum(terms[1:], terms[0]) if terms else None]


def _known_shape(shape, n, name):
    """Convert the entries of a shape, which are ints, constants or None, to a list of ints and None."""
    if shape is None:
        return [None] * n
    result = []
    for length in shape:
        if length is not None:
            try:
                length = int(get_scalar_constant_value(as_tensor_variable(length)))
            except NotScalarConstantError:
                raise NotScalarConstantError(
                    "The convolution need that the shape information are constant values. We got %s for the %s parameter"
                    % (length, name)
                ) from None
        result.append(length)
    if len(result) != n:
        raise ValueError("%s must have %d entries, got %s" % (name, n, tuple(result)))
    return result


def conv2d(input, filters, image_shape=None, filter_shape=None, border_mode="valid", subsample=(1, 1), **kargs):
    """Convolve images with kernels by `ConvOp`. The function is deprecated; use ``theano.tensor.nnet.conv2d``.

    Parameters
    ----------
    input : (batch, channels, rows, columns) tensor
    filters : (filters, channels, rows, columns) tensor
    image_shape, filter_shape : None, or sequence of 4 ints, constants or None
        The shapes of `input` and `filters`, as far as they are known; they are checked at run time.
    border_mode : {'valid', 'full'}
    subsample : pair of int
        The strides.
    **kargs
        Keyword arguments of :class:`ConvOp`.

    Returns
    -------
    (batch, filters, output rows, output columns) tensor

    Raises
    ------
    ValueError, TypeError
        For invalid parameters, and for shapes that do not fit.
    """
    warnings.warn("theano.tensor.nnet.conv.conv2d is deprecated. Use theano.tensor.nnet.conv2d instead.", stacklevel=2)
    return convolved(input, filters, image_shape, filter_shape, border_mode, subsample, **kargs)


def convolved(input, filters, image_shape=None, filter_shape=None, border_mode="valid", subsample=(1, 1), **kargs):
    """Convolve images with kernels, as :func:`conv2d` does, but without the warning.

    Functions of the package call this function.
    """
    images = _known_shape(image_shape, 4, "image_shape")
    kernels = _known_shape(filter_shape, 4, "filter_shape")
    if None not in (images[1], kernels[1]) and images[1] != kernels[1]:
        raise ValueError(
            "images and filters must have the same number of channels, got image_shape %s and filter_shape %s"
            % (tuple(images), tuple(kernels))
        )
    if len(subsample) != 2:
        raise ValueError("subsample must have 2 elements, got %s" % (subsample,))
    channels = kernels[1] if images[1] is None else images[1]
    op = ConvOp(
        output_mode=border_mode,
        dx=subsample[0],
        dy=subsample[1],
        imshp=(channels, *images[2:]),
        kshp=kernels[2:],
        nkern=kernels[0],
        bsize=images[0],
        **kargs,
    )
    return op(input, filters)
