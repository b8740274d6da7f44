"""Convolution compared with PyTorch: ``python benchmarks/convolution.py [--torch PYTHON] [NAME ...]``.

The script measures the forward pass, the gradient with respect to the kernels and the gradient with respect to the
images. In this package, each of them is one call of a compiled function. In PyTorch, a gradient is one call of
`convolution_backward` with a mask. All computations use float32 and one thread. For each layer, the two systems take
turns in separate processes.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import measure
import numpy as np

ROUNDS = 3


def layers():
    """Return a dict from the name of a layer to its batch size, numbers of channels and filters, shapes of image and
    kernel, stride, padding, dilation and number of groups.
    """
    table = [
        ("3x3, 64 to 64, 56x56", 8, 64, 64, (56, 56), 3, 1, 1, 1, 1),
        ("3x3, 256 to 256, 14x14", 8, 256, 256, (14, 14), 3, 1, 1, 1, 1),
        ("3x3, 512 to 512, 7x7", 8, 512, 512, (7, 7), 3, 1, 1, 1, 1),
        ("3x3 stride 2, 64 to 128, 56x56", 8, 64, 128, (56, 56), 3, 2, 1, 1, 1),
        ("1x1, 64 to 256, 56x56", 8, 64, 256, (56, 56), 1, 1, 0, 1, 1),
        ("1x1, 256 to 64, 56x56", 8, 256, 64, (56, 56), 1, 1, 0, 1, 1),
        ("5x5, 48 to 128, 27x27", 8, 48, 128, (27, 27), 5, 1, 2, 1, 1),
        ("11x11 stride 4, 3 to 96, 227x227", 8, 3, 96, (227, 227), 11, 4, 0, 1, 1),
        ("7x7 stride 2, 3 to 64, 224x224", 8, 3, 64, (224, 224), 7, 2, 3, 1, 1),
        ("3x3 depthwise, 128, 56x56", 8, 128, 128, (56, 56), 3, 1, 1, 1, 128),
        ("3x3 depthwise stride 2, 128, 56x56", 8, 128, 128, (56, 56), 3, 2, 1, 1, 128),
        ("3x3, 8 groups, 128 to 128, 28x28", 8, 128, 128, (28, 28), 3, 1, 1, 1, 8),
        ("3x3 dilated 2, 64 to 64, 56x56", 8, 64, 64, (56, 56), 3, 1, 2, 2, 1),
        ("LeNet 1: 5x5, 1 to 20, 28x28, batch 64", 64, 1, 20, (28, 28), 5, 1, 0, 1, 1),
        ("LeNet 2: 5x5, 20 to 50, 12x12, batch 64", 64, 20, 50, (12, 12), 5, 1, 0, 1, 1),
        ("3x3x3, 32 to 32, 16x16x16", 4, 32, 32, (16, 16, 16), 3, 1, 1, 1, 1),
        ("3x3x3 stride 2, 16 to 32, 16x28x28", 4, 16, 32, (16, 28, 28), 3, 2, 1, 1, 1),
    ]
    return {name: rest for name, *rest in table}


def arrays(batch, channels, filters, image, kernel, stride, padding, dilation, groups):
    """Return random images, kernels, and the gradient with respect to the output."""
    rng = np.random.RandomState(0)
    lengths = [(i + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1 for i in image]
    shapes = (
        (batch, channels, *image),
        (filters, channels // groups, *(kernel,) * len(image)),
        (batch, filters, *lengths),
    )
    return [rng.randn(*shape).astype("float32") for shape in shapes]


def products(layer):
    """Return the number of multiplications and additions of a layer.

    The number is the same for the forward pass and for each gradient.
    """
    x, w, y = arrays(*layer)
    return 2 * y.size * w[0].size


def of_package(layer):
    """Return three compiled functions: the forward pass and the two gradients."""
    import theano_ng as theano
    import theano_ng.tensor as T
    from theano_ng.tensor.nnet import corr, corr3d

    _, _, _, image, kernel, stride, padding, dilation, groups = layer
    n = len(image)
    family = (corr.CorrMM, corr.CorrMM_gradWeights, corr.CorrMM_gradInputs)
    if n == 3:
        family = (corr3d.Corr3dMM, corr3d.Corr3dMM_gradWeights, corr3d.Corr3dMM_gradInputs)
    forward, weights, inputs = (
        op(border_mode=(padding,) * n, subsample=(stride,) * n, filter_dilation=(dilation,) * n, num_groups=groups)
        for op in family
    )
    x, w, y = map(theano.shared, arrays(*layer))
    outputs = forward(x, w), weights(x, y, (kernel,) * n), inputs(w, y, image)
    return [theano.function([], T.as_tensor_variable(out)).fn for out in outputs]


def of_torch(layer):
    import torch

    torch.set_num_threads(1)
    _, _, _, image, _, stride, padding, dilation, groups = layer
    n = len(image)
    x, w, y = map(torch.from_numpy, arrays(*layer))
    numbers = [stride] * n, [padding] * n, [dilation] * n
    function = torch.nn.functional.conv2d if n == 2 else torch.nn.functional.conv3d

    def forward():
        with torch.no_grad():
            function(x, w, None, *numbers, groups)

    def backward(*mask):
        torch.ops.aten.convolution_backward(y, x, w, None, *numbers, False, [0] * n, groups, mask)

    return [forward, lambda: backward(False, True, False), lambda: backward(True, False, False)]


def run(which, name):
    """Measure the forward pass and the two gradients in this process, and return the times in seconds."""
    functions = {"package": of_package, "torch": of_torch}[which](layers()[name])
    return [measure.best(f, seconds=0.3, rounds=20, clock=time.process_time)[0] for f in functions]


def elsewhere(python, which, name):
    path = os.pathsep.join(
        filter(None, [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.environ.get("PYTHONPATH")])
    )
    env = dict(os.environ, PYTHONPATH=path) if which == "package" else os.environ
    out = subprocess.run(
        [python, __file__, "--run", which, name], capture_output=True, text=True, check=True, env=env
    ).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only layers whose name contains this text (default: all)"
    )
    parser.add_argument("--torch", metavar="PYTHON", help="a Python interpreter with PyTorch installed")
    parser.add_argument("--run", metavar="WHICH", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.names[0])))
        return
    columns = [
        c
        for what in ("forward", "kernels", "images")
        for c in ((what, "GFlop/s", "/ PyTorch") if options.torch else (what, "GFlop/s"))
    ]
    table = measure.Table("Convolution", "", *columns)
    for name, layer in layers().items():
        if options.names and not any(part in name for part in options.names):
            continue
        rounds = [
            [
                elsewhere(python, which, name)
                for which, python in (("package", sys.executable), ("torch", options.torch))
                if python
            ]
            for _ in range(ROUNDS)
        ]
        times = [[min(round[i][j] for round in rounds) for j in range(3)] for i in range(len(rounds[0]))]
        cells = []
        for j in range(3):
            cells += [measure.show_time(times[0][j]), "%.0f" % (products(layer) / times[0][j] / 1e9)]
            if options.torch:
                cells.append(measure.show_ratio(times[0][j] / times[1][j]))
        table.row(name, *cells)


if __name__ == "__main__":
    main()
