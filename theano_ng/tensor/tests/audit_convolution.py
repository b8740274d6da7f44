"""The Ops of convolution, for the audit: ``theano_ng-audit theano_ng.tensor.tests.audit_convolution``."""

import numpy as np

from theano_ng.audit.records import Case
from theano_ng.tensor.nnet.abstract_conv import AbstractConv, AbstractConv2d, AbstractConv3d
from theano_ng.tensor.nnet.conv import ConvOp
from theano_ng.tensor.nnet.conv3d2d import DiagonalSubtensor, IncDiagonalSubtensor
from theano_ng.tensor.nnet.convolution.convmm import (
    Conv3dMM,
    Conv3dMM_gradInputs,
    Conv3dMM_gradWeights,
    ConvMM,
    ConvMM_gradInputs,
    ConvMM_gradWeights,
)

RNG = np.random.RandomState(7)


def _numbers(*shape):
    return RNG.randn(*shape)


def _matches(image, kernel, output):
    """Return a function that makes a condition from names: each input must have the shape that its name stands for.

    The shapes are fixed because the Ops contain the lengths as constants.
    """
    shapes = {"image": image, "kernel": kernel, "output": output}

    def tied(names):
        return lambda values: all(value.shape == shapes[name] for value, name in zip(values, names))

    return tied


def audit_cases():
    """Return cases of each Op, in two and in three dimensions."""
    cases = []
    for plain, image, kernel, output, _lengths, parameters in (
        (
            AbstractConv2d,
            (2, 2, 4, 5),
            (4, 1, 2, 3),
            (2, 4, 5, 2),
            2,
            dict(border_mode=((1, 1), 0), num_groups=2, subsample=(1, 2)),
        ),
        (AbstractConv3d, (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 2, 2, 3, 2), 3, {}),
        (AbstractConv, (2, 3, 4, 3), (2, 3, 2, 2), (2, 2, 3, 2), 2, dict(convdim=2, filter_flip=False)),
    ):
        op = plain(**parameters)
        tied = _matches(image, kernel, output)
        x, w, g = _numbers(*image), _numbers(*kernel), _numbers(*output)
        inputs, weights = op.twin("backprop inputs"), op.twin("backprop weights")
        n = plain.__name__
        cases += [
            Case(op, [x, w], name=n, tied=tied(("image", "kernel"))),
            Case(
                lambda w, g, op=inputs, at=image[2:]: op(w, g, at),
                [w, g],
                name=n + "_gradInputs",
                tied=tied(("kernel", "output")),
            ),
            Case(
                lambda x, g, op=weights, at=kernel[2:]: op(x, g, at),
                [x, g],
                name=n + "_gradWeights",
                tied=tied(("image", "output")),
            ),
        ]
    image, kernel, output = _numbers(2, 3, 5, 6), _numbers(4, 3, 3, 2), _numbers(2, 4, 3, 5)
    own = _numbers(4, 3, 5, 3, 3, 2)
    deep, deep_kernel, deep_output = _numbers(1, 2, 4, 5, 3), _numbers(3, 2, 2, 3, 1), _numbers(1, 3, 3, 3, 3)
    for name, op, inputs in (
        ("ConvMM", ConvMM(), [image, kernel]),
        ("ConvMM_gradWeights", ConvMM_gradWeights(), [image, output]),
        ("ConvMM_gradInputs", ConvMM_gradInputs(), [kernel, output]),
        ("ConvMM unshared", ConvMM(unshared=True), [image, own]),
        ("ConvMM_gradWeights unshared", ConvMM_gradWeights(unshared=True), [image, output]),
        ("ConvMM_gradInputs unshared", ConvMM_gradInputs(unshared=True), [own, output]),
        ("Conv3dMM", Conv3dMM(), [deep, deep_kernel]),
        ("Conv3dMM_gradWeights", Conv3dMM_gradWeights(), [deep, deep_output]),
        ("Conv3dMM_gradInputs", Conv3dMM_gradInputs(), [deep_kernel, deep_output]),
        ("ConvOp", ConvOp(output_mode="full", dx=2), [image.astype("float32"), kernel.astype("float32")]),
    ):
        cases.append(Case(op, inputs, name=name))
    cube, diagonals = _numbers(4, 3, 2), _numbers(2, 3, 2)
    return [
        *cases,
        Case(lambda x: DiagonalSubtensor()(x, 0, 1), [cube], name="DiagonalSubtensor"),
        Case(lambda x, y: IncDiagonalSubtensor()(x, 0, 1, y), [cube, diagonals], name="IncDiagonalSubtensor"),
    ]
