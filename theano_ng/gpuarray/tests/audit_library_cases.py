"""Ops that need NVIDIA's libraries, for the audit: ``theano_ng-audit theano_ng.gpuarray.tests.audit_library_cases``.

The device is a fake, with fake libraries (`fake_cuda`), unless the flag init_gpu_device names a CUDA device. As in
`audit_cases`, each forked process opens the device, and the parent never does.
"""

import functools
import os
from unittest import mock

import numpy as np

from theano_ng.audit.records import Case
from theano_ng.gpuarray import contexts, dnn, fft, linalg
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.dnn.conv_elemwise import ACTIVATIONS
from theano_ng.gpuarray.tests import fake_cuda
from theano_ng.gpuarray.tests.audit_cases import HALF, IMAGE, KERNEL, RNG, SKIP, SQUARE, T3, TOP, TWO, Y, on_device
from theano_ng.tensor.tests import audit_nnet


def _placed(op, *places):
    """Return a callable as `on_device` does, for the CUDA device. It need not be open when the callable is called."""
    call = on_device(op, *places, name=fake_cuda.NAME)

    def without_device(*inputs):
        with mock.patch.object(linalg, "require"), mock.patch.object(fft, "require"):
            return call(*inputs)

    return without_device


def _small(values):
    """Return True for finite inputs whose exponentials do not overflow."""
    return all(np.isfinite(v).all() and abs(v).max(initial=0) < 10 for v in values)


def _alike(values):
    """Return True for inputs of equal shapes."""
    return all(v.shape == values[0].shape for v in values)


def _moderate(values):
    """Return True for inputs whose sums do not depend on the order by more than rounding. The host multiplies NaN and
    infinity by the zeros at the margins, cuDNN need not.
    """
    return all(np.isfinite(v).all() and abs(v).max(initial=0) < 1e4 for v in values)


def _poolable(values):
    """Return True if the last two inputs have the shapes of results. The gradient of a maximum depends on the library if
    several elements are maximal.
    """
    x, *tops = values
    top = [max(0, (n + 2 * pad - w) // step + 1) for n, w, step, pad in zip(x.shape[2:], (3, 2), (1, 2), (1, 0))]
    return all(v.shape == (*x.shape[:2], *top) for v in tops) and len(np.unique(x)) == x.size


def _transformable(values):
    """Return True for inputs with a matrix for each image."""
    return values[1].shape == (len(values[0]), 2, 3) and _moderate(values)


def _grid(values):
    """Return True for an array of points of images."""
    return values[0].shape[3] == 2 and _moderate(values)


def _sampled(values):
    """Return True for images, points between their pixels, and gradients of new images. At a pixel, the gradient with
    respect to a point jumps.
    """
    img, grid, dy = values
    if dy.shape != (*img.shape[:2], *grid.shape[1:3]) or grid.shape[::3] != (len(img), 2) or 0 in img.shape:
        return False
    places = (grid.astype("float64") + 1) / 2 * (np.array(img.shape[:1:-1]) - 1)
    return _moderate(values) and (abs(places - np.round(places)) > 1e-2).all()


def _regular(values):
    """Return True if the first input is a matrix whose results do not depend on rounding."""
    a = values[0]
    return _moderate(values) and a.shape[0] == a.shape[1] > 0 and np.linalg.cond(a.astype("float64")) < 1e3


def _with_bias(op, image, kernel, output, bias, alpha):
    """Apply a `GpuDnnConvElemwise` to a vector."""
    desc = dnn.GpuDnnConvDesc("valid").constant()
    return op(image, kernel, output, desc, alpha, bias.dimshuffle("x", 0, "x", "x"))


def _by_cudnn():
    """Return rows of the table for Ops that use cuDNN."""
    rows = []
    for algo in ("fast", "accurate", "log"):
        for mode in ("instance", "channel"):
            op, tied = dnn.GpuDnnSoftmax(algo, mode), _small if algo == "fast" else None
            rows.append(("GpuDnnSoftmax %s %s" % (algo, mode), _placed(op), [IMAGE], tied))
            op = dnn.GpuDnnSoftmaxGrad(algo, mode)
            rows.append(("GpuDnnSoftmaxGrad %s %s" % (algo, mode), _placed(op), [IMAGE, IMAGE[::-1]], _alike))
    for name in ("add", "mul", "maximum", "minimum", "absmax", "avg", "norm1", "norm2"):
        op = dnn.GpuDnnReduction(name, (0, 2), "float32", "float32", False)
        rows.append(("GpuDnnReduction " + name, _placed(op), [T3]))
    for inplace in (False, True):
        for name, op, arrays in (
            ("GpuDnnConv", dnn.GpuDnnConv("none", inplace), [IMAGE, KERNEL, TOP]),
            ("GpuDnnConvGradW", dnn.GpuDnnConvGradW(inplace, "deterministic"), [IMAGE, TOP, KERNEL]),
            ("GpuDnnConvGradI", dnn.GpuDnnConvGradI(inplace, "deterministic"), [KERNEL, TOP, IMAGE]),
        ):
            desc = dnn.GpuDnnConvDesc("valid").constant()
            call = _placed(lambda a, b, c, alpha, beta, op=op: op(a, b, c, desc, alpha, beta), 0, 1, 2)
            rows.append(("%s inplace=%s" % (name, inplace), call, [*arrays, HALF, TWO], _moderate))
        for activation in ACTIVATIONS:
            op = dnn.GpuDnnConvElemwise(activation, "none", inplace)
            call = _placed(functools.partial(_with_bias, op), 0, 1, 2, 3)
            rows.append((str(op), call, [IMAGE, KERNEL, TOP, TOP[0, :, 0, 0], HALF], _moderate))
    volumes = [IMAGE[None], KERNEL[:, :, None]]
    rows.append(("dnn_conv3d", _placed(lambda x, w: dnn.dnn_conv3d(x, w, 1, (1, 2, 1))), volumes, _moderate))
    for mode in ("max", "average_inc_pad", "average_exc_pad", "max_deterministic"):
        pool = _placed(lambda x, mode=mode: dnn.GpuDnnPool(mode)(x, (3, 2), (1, 2), (1, 0)))
        grad = _placed(lambda *v, mode=mode: dnn.GpuDnnPoolGrad(mode)(*v, (3, 2), (1, 2), (1, 0)))
        small = IMAGE[:, :, :, :2]
        rows += [
            ("GpuDnnPool " + mode, pool, [IMAGE]),
            ("GpuDnnPoolGrad " + mode, grad, [IMAGE, small, small[::-1]], _poolable),
        ]
    images, statistics = audit_nnet.IMAGES.astype("float32"), audit_nnet.CHANNELS
    for cls, count, tied in (
        (dnn.GpuDnnBatchNorm, 2, 1),
        (dnn.GpuDnnBatchNormGrad, 3, 2),
        (dnn.GpuDnnBatchNormInference, 3, 1),
    ):
        first = [images, images[::-1]][: 2 if cls is dnn.GpuDnnBatchNormGrad else 1]
        more = [statistics[0]] if cls is dnn.GpuDnnBatchNormInference else []
        inputs = [*first, *statistics[:count], *more]
        places = audit_nnet.statistic_places(count + len(more), tied)
        rows.append((cls.__name__, _placed(lambda *v, cls=cls: cls("spatial")(*v, 1e-2)), inputs, places))
    maps = RNG.randn(2, 2, 3).astype("float32")
    rows += [
        ("dnn_spatialtf", _placed(dnn.dnn_spatialtf), [IMAGE, maps], _transformable),
        ("GpuDnnTransformerGradT", _placed(dnn.GpuDnnTransformerGradT()), [IMAGE[:, :, :, :2]], _grid),
        (
            "GpuDnnTransformerGradI",
            _placed(dnn.GpuDnnTransformerGradI()),
            [IMAGE, np.resize(T3, (2, 3, 2, 2)), np.resize(Y, (2, 2, 3, 2))],
            _sampled,
        ),
    ]
    return rows


def _of_libraries():
    """Return rows of the table for Ops that use other libraries of NVIDIA."""
    spd, b = SQUARE @ SQUARE.T + 3 * np.eye(3, dtype="float32"), Y[:, :2]
    pairs = np.resize(T3, (2, 3, 4, 2))
    rows = []
    for op in (
        linalg.GpuCusolverSolve(),
        linalg.GpuCusolverSolve("symmetric"),
        linalg.GpuCusolverSolve(trans="T"),
        linalg.GpuCublasTriangularSolve(),
        linalg.GpuCublasTriangularSolve(False, "T"),
    ):
        rows.append((str(op), _placed(op), [spd, b], _regular))
    for op in (
        linalg.GpuCholesky(),
        linalg.GpuMagmaCholesky(False),
        linalg.GpuMagmaMatrixInverse(),
        linalg.GpuMagmaQR(),
        linalg.GpuMagmaQR(False),
        linalg.GpuMagmaSVD(True, False),
        linalg.GpuMagmaEigh("L", False),
    ):
        rows.append((str(op), _placed(op), [spd], _regular))
    # The rounding of a Fourier transform is relative to the largest element.
    rows.append(("CuRFFTOp", _placed(lambda x: fft.curfft_op(x)), [T3], _small))
    rows.append(("CuIRFFTOp", _placed(lambda x: fft.cuirfft_op(x)), [pairs], _small))
    return rows


def _open():
    if fake_cuda.NAME in contexts.list_contexts():  # a context of the parent, which this process cannot use
        contexts.unregister(fake_cuda.NAME)
    fake_cuda.cuda_context()
    if not fake_cuda.is_real:
        loader.use("cudnn", fake_cuda.paths["cudnn"])  # compilation looks for the library again
        fake_cuda.fakes["cuda"].fake_record(0)  # its memory would be a leak


def audit_cases():
    """Return the cases, and register a function that opens the device in processes that are forked later."""
    fake_cuda.start()
    os.register_at_fork(after_in_child=_open)
    return cases()


def cases():
    """Return the cases, for callers that only build their graphs."""
    return [Case(op, inputs, name, *tied, skip=SKIP) for name, op, inputs, *tied in _by_cudnn() + _of_libraries()]
