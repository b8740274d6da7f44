"""Batch normalization in one thread: ``python benchmarks/batch_normalization.py``.

The script compares the times of training (with running averages), training with gradient, and prediction with NumPy,
and with PyTorch if it can be imported.
"""

import time

import measure
import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor.nnet.bn import batch_normalization_test, batch_normalization_train

try:
    import torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

EPSILON, FACTOR = 1e-4, 0.1
SHAPES = (32, 64, 56, 56), (32, 256, 14, 14), (64, 512, 7, 7), (256, 1024)


def ours(ndim, axes):
    """Return three compiled functions: training, training with gradient, and prediction."""
    x, dy = (T.TensorType("float32", (False,) * ndim)() for _ in range(2))
    gamma, beta, mean, var = statistics = T.fvectors(4)
    outputs = batch_normalization_train(x, gamma, beta, axes, EPSILON, FACTOR, mean, var)
    gradients = T.grad(None, [x, gamma, beta], known_grads={outputs[0]: dy})
    test = batch_normalization_test(x, gamma, beta, mean, var, axes, EPSILON)
    inputs = [x, dy, *statistics]
    return [
        theano.function(inputs, [theano.Out(out, borrow=True) for out in results], on_unused_input="ignore")
        for results in (outputs, outputs + gradients, [test])
    ]


def in_numpy(x, dy, gamma, beta, mean, var, axes):
    """Return three functions in NumPy that compute the same as the functions of `ours`."""
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    gamma, beta, mean, var = (v.reshape(shape) for v in (gamma, beta, mean, var))
    count = x.size // gamma.size

    def train():
        m = x.mean(axes, keepdims=True)
        d = x - m
        v = (d * d).mean(axes, keepdims=True)
        r = 1 / np.sqrt(v + np.float32(EPSILON))
        new_mean, new_var = mean * (1 - FACTOR) + m * FACTOR, var * (1 - FACTOR) + v * (FACTOR * count / (count - 1))
        return d * (gamma * r) + beta, m, r, new_mean, new_var

    def both():
        results = train()
        m, r = results[1:3]
        normal = (x - m) * r
        dgamma, dbeta = (dy * normal).sum(axes, keepdims=True), dy.sum(axes, keepdims=True)
        return *results, gamma * r * (dy - dbeta / count - normal * (dgamma / count)), dgamma, dbeta

    return [train, both, lambda: [(x - mean) * (gamma / np.sqrt(var + np.float32(EPSILON))) + beta]]


def in_torch(*values):
    """Return three functions that compute the same as the functions of `ours`, by PyTorch's kernels without autograd.

    If PyTorch is missing, the elements of the result are None.
    """
    if torch is None:
        return [None] * 3
    x, dy, gamma, beta, mean, var = map(torch.as_tensor, values)
    mean, var = mean.clone(), var.clone()

    def both():
        out, m, r = torch.native_batch_norm(x, gamma, beta, mean, var, True, FACTOR, EPSILON)
        return torch.ops.aten.native_batch_norm_backward(dy, x, gamma, mean, var, m, r, True, EPSILON, [True] * 3)

    return [
        lambda: torch.native_batch_norm(x, gamma, beta, mean, var, True, FACTOR, EPSILON),
        both,
        lambda: torch.native_batch_norm(x, gamma, beta, mean, var, False, FACTOR, EPSILON),
    ]


def main():
    table = measure.Table("Batch normalization, float32", "", "theano_ng", "NumPy", "PyTorch", "/ NumPy", "/ PyTorch")
    rng = np.random.RandomState(0)
    for shape in SHAPES:
        axes = (0,) + tuple(range(2, len(shape)))
        values = [rng.randn(*shape).astype("float32") for _ in range(2)]
        values += [rng.uniform(0.5, 2, shape[1]).astype("float32") for _ in range(4)]
        names = "training", "training and gradient", "prediction"
        for name, f, by_hand, peer in zip(names, ours(len(shape), axes), in_numpy(*values, axes), in_torch(*values)):
            for got, want in zip(f(*values), by_hand()):
                np.testing.assert_allclose(got.ravel(), want.ravel(), rtol=1e-3, atol=1e-3)
            functions = [lambda f=f: f(*values), by_hand] + [peer] * (peer is not None)
            times = measure.best(*functions, rounds=15, clock=time.process_time)
            table.row(
                "%s, %s" % (" x ".join(map(str, shape)), name),
                *map(measure.show_time, times),
                *["-"] * (peer is None),
                measure.show_ratio(times[0] / times[1]),
                measure.show_ratio(times[0] / times[2]) if peer else "-",
            )


if __name__ == "__main__":
    main()
