"""Pooling in two dimensions and its gradient, compared with PyTorch: ``python benchmarks/pooling.py [PYTHON]``.

PYTHON is an interpreter that has PyTorch. In this package, the gradient of maximum pooling gets the maxima as an input,
as in a training step. In PyTorch, the forward pass stores the indices of the maxima for the backward pass. Therefore
only the sum of both times, "both", can be compared: it is the time of pooling in a training step.
"""

import json
import subprocess
import sys

from measure import Table, best, cpu_seconds

SHAPES = {"32 x 64 x 56 x 56": (32, 64, 56, 56), "64 x 20 x 24 x 24": (64, 20, 24, 24)}
CASES = [(name, mode, window) for name in SHAPES for mode in ("max", "average_inc_pad") for window in (2, 3)]


def image(name):
    import numpy as np

    return np.random.RandomState(0).randn(*SHAPES[name]).astype("float32")


def ours(name, mode, window):
    """Return functions without arguments for the forward pass and the backward pass in this package."""
    import numpy as np

    import theano_ng as theano
    from theano_ng.tensor.signal.pool import AveragePoolGrad, MaxPoolGrad, pool_2d

    x = theano.shared(image(name))
    z = pool_2d(x, (window, window), True, (2, 2), mode=mode)
    top = theano.shared(z.eval())
    g = theano.shared(np.ones_like(top.get_value()))
    shape = ((window, window), (2, 2))
    gx = MaxPoolGrad(True)(x, top, g, *shape) if mode == "max" else AveragePoolGrad(True, mode)(x, g, *shape)
    return [theano.function([], theano.Out(v, borrow=True)) for v in (z, gx)]


def torch(name, mode, window):
    """Return functions without arguments for the forward pass and the backward pass in PyTorch."""
    import torch

    torch.set_num_threads(1)
    x = torch.from_numpy(image(name)).requires_grad_()
    pool = torch.nn.functional.max_pool2d if mode == "max" else torch.nn.functional.avg_pool2d
    z = pool(x, window, 2)
    g = torch.ones_like(z)
    return [lambda: pool(x, window, 2), lambda: torch.autograd.grad(z, x, g, retain_graph=True)]


def times(system):
    """Return the times of the forward pass and the backward pass in milliseconds, for each case."""
    return [[1e3 * t for t in best(*system(*case), clock=cpu_seconds)] for case in CASES]


def main(python=None):
    table = Table(
        "Pooling, float32, windows 2 apart, ms: forward / backward / both",
        "case",
        "theano_ng",
        "PyTorch",
        "ratio of both",
    )
    mine = times(ours)
    theirs = json.loads(subprocess.check_output([python, __file__, "--torch"])) if python else [None] * len(mine)
    for case, a, b in zip(CASES, mine, theirs):
        cells = ["%.2f / %.2f / %.2f" % (*a, sum(a))]
        cells += ["%.2f / %.2f / %.2f" % (*b, sum(b)), "%.2f" % (sum(a) / sum(b))] if b else ["", ""]
        table.row("%s, %s %d x %d" % (case[0], case[1], case[2], case[2]), *cells)


if __name__ == "__main__":
    if sys.argv[1:] == ["--torch"]:
        print(json.dumps(times(torch)))
    else:
        main(*sys.argv[1:])
