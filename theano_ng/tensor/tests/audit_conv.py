"""The Ops of correlation, for the audit."""

import numpy as np

from theano_ng.audit.records import Case
from theano_ng.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from theano_ng.tensor.nnet.corr3d import Corr3dMM, Corr3dMM_gradInputs, Corr3dMM_gradWeights

RNG = np.random.RandomState(3)


def _numbers(*shape):
    return RNG.randn(*shape).astype("float32")


def audit_cases():
    """Return cases of each Op that cover its parameters."""
    image, kernel, top = _numbers(2, 3, 5, 6), _numbers(4, 3, 3, 2), _numbers(2, 4, 3, 5)
    strided = dict(border_mode=(1, (0, 2)), subsample=(2, 3), filter_dilation=(2, 1), num_groups=2)
    image_2, kernel_2, top_2 = _numbers(2, 4, 6, 7), _numbers(6, 2, 2, 3), _numbers(2, 6, 3, 3)
    own = _numbers(4, 3, 5, 3, 3, 2)
    deep, deep_kernel, deep_top = _numbers(1, 2, 4, 5, 3), _numbers(3, 2, 2, 3, 1), _numbers(1, 3, 3, 3, 3)
    cases = [
        ("CorrMM", CorrMM(), [image, kernel]),
        ("CorrMM_gradWeights", CorrMM_gradWeights(), [image, top]),
        ("CorrMM_gradInputs", CorrMM_gradInputs(), [kernel, top]),
        ("CorrMM strided", CorrMM(**strided), [image_2, kernel_2]),
        ("CorrMM_gradWeights strided", lambda x, y: CorrMM_gradWeights(**strided)(x, y, (2, 3)), [image_2, top_2]),
        ("CorrMM_gradInputs strided", lambda w, y: CorrMM_gradInputs(**strided)(w, y, (6, 7)), [kernel_2, top_2]),
        ("CorrMM unshared", CorrMM(unshared=True), [image, own]),
        ("CorrMM_gradWeights unshared", CorrMM_gradWeights(unshared=True), [image, top]),
        ("CorrMM_gradInputs unshared", CorrMM_gradInputs(unshared=True), [own, top]),
        ("CorrMM full", CorrMM(border_mode="full"), [image.astype("float64"), kernel.astype("float64")]),
        ("CorrMM of float16", CorrMM(border_mode="half"), [image.astype("float16"), kernel.astype("float16")]),
        ("Corr3dMM", Corr3dMM(), [deep, deep_kernel]),
        ("Corr3dMM_gradWeights", Corr3dMM_gradWeights(), [deep, deep_top]),
        ("Corr3dMM_gradInputs", Corr3dMM_gradInputs(), [deep_kernel, deep_top]),
    ]
    return [Case(op, inputs, name=name) for name, op, inputs in cases]
