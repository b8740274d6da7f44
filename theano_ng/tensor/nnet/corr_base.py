"""Base classes of the Ops for 2-d and 3-d correlation of images with kernels, and for its gradients.

`Forward` Ops take images and kernels. `GradWeights` Ops take images and the gradient of the output. `GradInputs` Ops
take kernels and the gradient of the output. All three Ops are linear in each of their two tensors, and the derivatives
of each Op are expressed by the other two Ops.
"""

import itertools

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import OpenMPOp
from theano_ng.scalar.types import as_common_dtype
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.nnet.corr_shapes import Axis, fitting
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.type import TensorType

FORWARD, WEIGHTS, INPUTS = range(3)
HALF, FULL = -1, -2
"""The codes of the modes in which padding depends on the kernel, for native code."""

NUMBERS = {2: "two", 3: "three"}


def _whole(value, name):
    """Return a tuple of positive ints. Raise TypeError or ValueError for other values."""
    result = tuple(int(v) for v in value)
    if any(v != w for v, w in zip(result, value)):
        raise TypeError("%s must hold integers, got %s" % (name, value))
    if min(result) < 1:
        raise ValueError("%s must be positive, got %s" % (name, value))
    return result


class CorrBase(NativeOp, OpenMPOp):
    """The base class of all Ops that compute correlations or their gradients.

    Subclasses define the number of axes, the kind of the Op, and a method that checks border modes (`_border_mode`).

    Attributes
    ----------
    convdim : int
        The number of axes along which kernels move.
    family : str
        The name of the family. Error messages begin with this name.
    kind : {FORWARD, WEIGHTS, INPUTS}
    forward, grad_weights, grad_inputs : type
        The three classes of the family.
    """

    check_broadcast = False
    _f16_ok = True
    convdim = kind = family = None
    forward = grad_weights = grad_inputs = None
    unshared = False
    # Tests set this attribute: the widest instruction set that native code may use. 0: any; 1: the baseline of every
    # machine; 2: AVX2.
    isa = 0
    # True if kernels are reversed along the axes on which they move, as in a convolution.
    flip = False

    def __init__(self, border_mode, subsample, filter_dilation, num_groups, openmp):
        super().__init__(openmp=openmp)
        self.border_mode = self._border_mode(border_mode)
        for name, value in (("subsample", subsample), ("filter_dilation", filter_dilation)):
            if len(value) != self.convdim:
                raise ValueError("%s must have %s elements" % (name, NUMBERS[self.convdim]))
            setattr(self, name, _whole(value, name))
        if num_groups < 1:
            raise ValueError("Number of groups should be greater than 0")
        self.num_groups = int(num_groups)

    def _twin(self, op):
        """Return an Op of the class `op` with the parameters of this Op."""
        return op(openmp=self.openmp, **self._props_dict())

    @property
    def axes(self):
        """The movement of kernels along each axis: a list of `Axis`."""
        if isinstance(self.border_mode, str):
            modes = [(0, 0) if self.border_mode == "valid" else self.border_mode] * self.convdim
        else:
            modes = [pad if isinstance(pad, tuple) else (pad, pad) for pad in self.border_mode]
        return [Axis(*axis) for axis in zip(modes, self.subsample, self.filter_dilation)]

    def flops(self, inp, outp):
        """Return the number of multiplications and additions, for profiles.

        Parameters
        ----------
        inp, outp : lists of tuples of int
            The shapes of the inputs and of the output.
        """
        bottom, weights, top = {
            FORWARD: (inp[0], inp[1], outp[0]),
            WEIGHTS: (inp[0], outp[0], inp[1]),
            INPUTS: (outp[0], inp[0], inp[1]),
        }[self.kind]
        return 2 * int(np.prod(top)) * int(np.prod(weights[-self.convdim - 1 :]))

    # Nodes ------------------------------------------------------------------------------------------------------------------

    def _operands(self, **operands):
        """Return two tensors of one dtype. Raise TypeError if a tensor has an unexpected rank."""
        result = [as_tensor_variable(value) for value in operands.values()]
        for name, value in zip(operands, result):
            self._check_rank(name, value)
        return as_common_dtype(*result)

    def _check_rank(self, name, value):
        """Raise TypeError if a tensor has an unexpected rank."""
        expected = 2 + self.convdim * (2 if name == "kern" and self.unshared else 1)
        if value.type.ndim != expected:
            raise TypeError("%s must be %dD tensor" % (name, expected))

    def _lengths(self, shape, more):
        """Return the lengths of the result's axes as int64 scalars. Return [] for None.

        The lengths are given as one sequence or as separate arguments. Raise ValueError for None if the shapes of the
        tensors do not determine the lengths.
        """
        if more:
            shape = (shape, *more)
        if shape is None:
            half = self.kind == WEIGHTS and self.border_mode == "half"
            if set(self.subsample) != {1} or half:
                raise ValueError(
                    "shape must be given if subsample != %s%s"
                    % ((1,) * self.convdim, ' or border_mode == "half"' if self.kind == WEIGHTS else "")
                )
            return []
        lengths = []
        for i in range(self.convdim):
            length = as_tensor_variable(shape[i])
            if length.ndim != 0:
                raise TypeError("the length of an axis must be a scalar, got %s of type %s" % (length, length.type))
            lengths.append(cast(length, "int64"))
        return lengths

    def _apply(self, inputs, flags):
        flags = [*flags, *[False] * self.convdim]
        return Apply(self, inputs, [TensorType(inputs[0].dtype, flags)()])

    def _fitting(self, shapes):
        """Check that the shapes of the inputs fit, and return the `Shapes` of the correlation.

        Parameters
        ----------
        shapes : list
            The shapes of the two arrays. If the Op has more inputs, their values follow: the lengths of the result's
            axes.
        """
        names = {FORWARD: ("bottom", "weights"), WEIGHTS: ("bottom", "top"), INPUTS: ("weights", "top")}[self.kind]
        lengths = tuple(int(n) for n in shapes[2:]) or None
        known = dict(zip(names, (tuple(s) for s in shapes[:2])))
        return fitting(self.family, self.axes, self.num_groups, self.unshared, lengths=lengths, **known)

    def connection_pattern(self, node):
        return [[True], [True], *[[False]] * (len(node.inputs) - 2)]

    # Computing --------------------------------------------------------------------------------------------------------------

    def native_code(self, node):
        if node.outputs[0].dtype not in ("float16", "float32", "float64"):
            return None
        return NativeCode(
            "theano_ng.tensor.native.conv:correlate",
            threaded=bool(self.openmp),
            isa=self.isa,
            flip=self.flip,
            **self._native_options(),
        )

    def _native_options(self):
        """Return the parameters of native code that define the correlation; see native/convolution/conv_shapes.h."""
        pads = [
            {"half": HALF, "full": FULL}.get(axis.mode, 0) if isinstance(axis.mode, str) else axis.mode
            for axis in self.axes
        ]
        return dict(
            kind=self.kind,
            n_dims=self.convdim,
            pads=[n for pad in pads for n in ((pad, pad) if isinstance(pad, int) else pad)]
            + [0] * (6 - 2 * self.convdim),
            stride=[*self.subsample, 1][:3],
            dilation=[*self.filter_dilation, 1][:3],
            groups=self.num_groups,
            unshared=self.unshared,
        )

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = self.value(inputs, node.outputs[0].dtype)

    def value(self, inputs, dtype):
        """Compute the result from arrays, in NumPy.

        Parameters
        ----------
        inputs : list of ndarray
            The values of the inputs of a node.
        dtype : dtype

        Returns
        -------
        ndarray of this dtype
        """
        shapes = self._fitting([inputs[0].shape, inputs[1].shape, *inputs[2:]])
        wide = "float32" if dtype == "float16" else dtype
        a, b = (np.asarray(x, dtype=wide) for x in inputs[:2])
        reverse = (Ellipsis, *[slice(None, None, -1 if self.flip else 1)] * self.convdim)
        if self.kind == WEIGHTS:
            result = self._correlate(a, b, shapes, wide)[reverse]
        else:
            result = self._correlate(*((a, b[reverse]) if self.kind == FORWARD else (a[reverse], b)), shapes, wide)
        return np.asarray(result, dtype=dtype, order="C")

    def _correlate(self, a, b, shapes, dtype):
        """Compute the result of a forward Op or of a gradient, in a loop over the positions (taps) in a kernel.

        Each iteration handles the elements of all kernels at one position, and the part of the images that they meet.
        """
        groups, n = self.num_groups, self.convdim
        batch, filters, *positions = shapes.top
        lengths, pads = shapes.weights[-n:], shapes.pads
        padded = np.zeros(
            [batch, groups, shapes.bottom[1] // groups] + [i + l + r for i, (l, r) in zip(shapes.bottom[2:], pads)],
            dtype,
        )
        inside = (Ellipsis, *[slice(l, l + i) for i, (l, _) in zip(shapes.bottom[2:], pads)])
        by_group = (groups, filters // groups, *shapes.weights[1:])
        weights = (
            np.zeros(by_group, dtype) if self.kind == WEIGHTS else (a if self.kind == INPUTS else b).reshape(by_group)
        )
        by_group = (batch, groups, filters // groups, *positions)
        top = np.zeros(by_group, dtype) if self.kind == FORWARD else b.reshape(by_group)
        if self.kind != INPUTS:
            padded[inside] = a.reshape(batch, groups, -1 if a.size else padded.shape[2], *a.shape[2:])
        where = "pqr"[:n]
        image, out = "bgc" + where, "bgf" + where
        kernel = "gf" + (where if self.unshared else "") + "c"
        for tap in itertools.product(*map(range, lengths)):
            met = (
                Ellipsis,
                *[
                    slice(t * d, t * d + (o - 1) * s + 1, s)
                    for t, o, s, d in zip(tap, positions, self.subsample, self.filter_dilation)
                ],
            )
            if self.kind == FORWARD:
                top += np.einsum(
                    "%s,%s->%s" % (image, kernel, out), padded[met], weights[(Ellipsis, *tap)], optimize=True
                )
            elif self.kind == WEIGHTS:
                weights[(Ellipsis, *tap)] = np.einsum(
                    "%s,%s->%s" % (image, out, kernel), padded[met], top, optimize=True
                )
            else:
                padded[met] += np.einsum(
                    "%s,%s->%s" % (out, kernel, image), top, weights[(Ellipsis, *tap)], optimize=True
                )
        if self.kind == FORWARD:
            return top.reshape(shapes.top)
        if self.kind == WEIGHTS:
            return weights.reshape(shapes.weights)
        return padded[inside].reshape(shapes.bottom)

    # Derivatives ------------------------------------------------------------------------------------------------------------

    def _lengths_of(self, x):
        return x.shape[-self.convdim :]

    def grad(self, inputs, output_grads):
        first, second = inputs[:2]
        (g,) = output_grads
        if self.kind == FORWARD:
            bottom, weights, top = first, second, g
        elif self.kind == WEIGHTS:
            bottom, weights, top = first, g, second
        else:
            bottom, weights, top = g, first, second
        by_kind = {
            FORWARD: lambda: self._twin(self.forward)(bottom, weights),
            WEIGHTS: lambda: self._twin(self.grad_weights)(
                bottom, top, self._lengths_of(second if self.kind == FORWARD else first)
            ),
            INPUTS: lambda: self._twin(self.grad_inputs)(weights, top, self._lengths_of(first)),
        }
        wanted = {FORWARD: (INPUTS, WEIGHTS), WEIGHTS: (INPUTS, FORWARD), INPUTS: (WEIGHTS, FORWARD)}[self.kind]
        results = [patternbroadcast(by_kind[kind](), x.broadcastable) for kind, x in zip(wanted, inputs)]
        return results + [DisconnectedType()() for _ in inputs[2:]]

    def R_op(self, inputs, eval_points):
        (a, b, *lengths), (da, db) = inputs, eval_points[:2]
        if not lengths and self.kind != FORWARD:
            lengths = None
        shape = () if self.kind == FORWARD else (lengths,)
        terms = [self(*pair, *shape) for pair, d in (((da, b), da), ((a, db), db)) if d is not None]
        return [sum(terms[1:], terms[0]) if terms else None]


class Forward:
    """A mixin for forward Ops. Inputs: images and kernels."""

    kind = FORWARD

    def make_node(self, img, kern):
        img, kern = self._operands(img=img, kern=kern)
        return self._apply([img, kern], [img.broadcastable[0], kern.broadcastable[0]])

    def infer_shape(self, node, input_shapes):
        bottom, weights = input_shapes
        lengths = [a.output(i, k) for a, i, k in zip(self.axes, bottom[2:], weights[-self.convdim :])]
        return [(bottom[0], weights[0], *lengths)]


class GradWeights:
    """A mixin for gradients with respect to kernels.

    Inputs: images, the gradient of the output, and the lengths of the kernels if the shapes do not determine them.
    """

    kind = WEIGHTS

    def make_node(self, img, topgrad, shape=None, *lengths):
        img, topgrad = self._operands(img=img, topgrad=topgrad)
        channels = img.broadcastable[1] if self.num_groups == 1 else False
        regions = [False] * self.convdim if self.unshared else []
        return self._apply(
            [img, topgrad, *self._lengths(shape, lengths)], [topgrad.broadcastable[1], *regions, channels]
        )

    def infer_shape(self, node, input_shapes):
        bottom, top = input_shapes[:2]
        lengths = node.inputs[2:] or [a.kernel(i, o) for a, i, o in zip(self.axes, bottom[2:], top[2:])]
        regions = top[2:] if self.unshared else ()
        channels = bottom[1] if self.num_groups == 1 else bottom[1] // self.num_groups
        return [(top[1], *regions, channels, *lengths)]


class GradInputs:
    """A mixin for gradients with respect to images.

    Inputs: kernels, the gradient of the output, and the lengths of the images if the shapes do not determine them.
    """

    kind = INPUTS

    def make_node(self, kern, topgrad, shape=None, *lengths):
        kern, topgrad = self._operands(kern=kern, topgrad=topgrad)
        channels = kern.broadcastable[-self.convdim - 1] if self.num_groups == 1 else False
        return self._apply([kern, topgrad, *self._lengths(shape, lengths)], [topgrad.broadcastable[0], channels])

    def infer_shape(self, node, input_shapes):
        weights, top = input_shapes[:2]
        lengths = node.inputs[2:] or [a.image(k, o) for a, k, o in zip(self.axes, weights[-self.convdim :], top[2:])]
        channels = weights[-self.convdim - 1]
        return [(top[0], channels if self.num_groups == 1 else channels * self.num_groups, *lengths)]
