"""Train a convolutional network like LeNet-5 (LeCun et al., 1998) on handwritten digits, and save pictures.

The network has two layers of convolution, rectifier and max pooling, then two dense layers. Each image of a minibatch
is shifted by up to one pixel. The last epochs use unshifted images. Equal seeds give equal networks.

    python examples/lenet.py [--out FOLDER] [--epochs N] [--seed N]
"""

import argparse
import os
import sys
import time

import digits
import numpy as np

BATCH, RATE, MOMENTUM, L2 = 100, 0.05, 0.9, 1e-3
SIDE = 8  # height and width of an image in pixels
FEATURES, HIDDEN = (32, 64), 128
UNSHIFTED = 0.2  # fraction of the epochs, at the end, with unshifted images
MIN_ACCURACY = 0.985


def load(seed):
    """Return training and test images (float32, one channel) and labels (int32), shuffled."""
    return [(x.astype("float32").reshape(-1, 1, SIDE, SIDE), y) for x, y in digits.load(seed)]


def initial_parameters(rng):
    """Return the weights of the four layers (normal, after He et al., 2015) and the biases (zero)."""
    parameters = []
    flat = FEATURES[1] * (SIDE // 4) ** 2
    for shape in [(FEATURES[0], 1, 3, 3), (FEATURES[1], FEATURES[0], 3, 3), (flat, HIDDEN), (HIDDEN, 10)]:
        is_filter = len(shape) == 4
        fan_in = np.prod(shape[1:]) if is_filter else shape[0]
        parameters.append((rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype("float32"))
        parameters.append(np.zeros(shape[0] if is_filter else shape[1], "float32"))
    return parameters


def build(rng):
    """Compile the functions of the network.

    Returns
    -------
    train : takes images, labels and the learning rate, updates the parameters and returns the cost before the update
    evaluate : takes images and labels, returns the cost and the fraction of images that are classified wrongly
    parameters : list of shared variables
    """
    import theano_ng as theano
    import theano_ng.tensor as T
    from theano_ng.tensor.signal.pool import pool_2d

    x, y, rate = T.ftensor4("x"), T.ivector("y"), T.fscalar("rate")
    names = ["filters1", "bias1", "filters2", "bias2", "W3", "b3", "W4", "b4"]
    parameters = [theano.shared(value, name) for value, name in zip(initial_parameters(rng), names)]
    h = x
    for filters, bias in zip(parameters[:4:2], parameters[1:4:2]):
        h = T.nnet.conv2d(h, filters, filter_shape=filters.get_value(borrow=True).shape, border_mode="half")
        h = pool_2d(T.nnet.relu(h + bias.dimshuffle("x", 0, "x", "x")), (2, 2), ignore_border=True)
    w3, b3, w4, b4 = parameters[4:]
    p_y = T.nnet.softmax(T.dot(T.nnet.relu(T.dot(h.flatten(2), w3) + b3), w4) + b4)
    loss = T.nnet.categorical_crossentropy(p_y, y).mean()
    cost = loss + np.float32(L2) * sum((w**2).sum() for w in parameters[::2])
    updates = []
    for p, g in zip(parameters, T.grad(cost, parameters)):
        velocity = theano.shared(np.zeros_like(p.get_value()), "v_" + p.name)
        new_velocity = np.float32(MOMENTUM) * velocity - rate * g
        updates += [(velocity, new_velocity), (p, p + new_velocity)]
    train = theano.function([x, y, rate], cost, updates=updates, name="train")
    error = T.neq(T.argmax(p_y, axis=1), y).mean()
    return train, theano.function([x, y], [loss, error], name="evaluate"), parameters


def shifted(images, rng):
    """Return a copy of images in which each image is shifted by up to one pixel vertically and horizontally.

    New pixels are 0.
    """
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), (2, 3))
    down, right = rng.integers(0, 3, (2, len(images)))
    return windows[np.arange(len(images)), :, down, right]


def draw(curves, filters, folder):
    """Save the curves of cost and error, and the filters of the first layer."""
    from theano_ng.extras import require

    matplotlib = require("matplotlib", "The picture of the curves")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    curves_path = os.path.join(folder, "lenet_curves.png")
    digits.draw_curves({"convolutional network": curves}, curves_path)
    filters_path = os.path.join(folder, "lenet_filters.png")
    figure, axes = plt.subplots(4, len(filters) // 4, figsize=(7, 4.4))
    limit = np.abs(filters).max()
    for i, (axis, image) in enumerate(zip(axes.flat, filters[:, 0])):
        shown = axis.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
        axis.set(xticks=[], yticks=[], title=str(i + 1))
    figure.suptitle("Filters of the first layer")
    figure.colorbar(shown, ax=axes, shrink=0.8)
    figure.savefig(filters_path, dpi=110)
    return curves_path, filters_path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(digits.HERE, "output"), help="folder for the pictures")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)

    (x, y), (test_x, test_y) = load(options.seed)
    rng = np.random.default_rng(options.seed)
    start = time.perf_counter()
    train, evaluate, parameters = build(rng)
    print("convolutional network\n  built and compiled in %.2f s" % (time.perf_counter() - start))

    curves, seconds, steps = [], 0.0, 0
    for epoch in range(1, options.epochs + 1):
        rate = np.float32(RATE * 0.5 * (1 + np.cos(np.pi * (epoch - 1) / options.epochs)))
        order = rng.permutation(len(x))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[first : first + BATCH]
            images = shifted(x[rows], rng) if epoch <= (1 - UNSHIFTED) * options.epochs else x[rows]
            begin = time.perf_counter()
            train(images, y[rows], rate)
            seconds, steps = seconds + time.perf_counter() - begin, steps + 1
        curves.append((float(evaluate(x, y)[0]), float(evaluate(test_x, test_y)[1])))
        if sys.stdout.isatty() or epoch % max(1, options.epochs // 6) == 0:
            digits.progress("  training", epoch, options.epochs, *curves[-1])
    accuracy = 1 - curves[-1][1]
    print("  %.0f steps of %d images per second\n  test accuracy %.4f" % (steps / seconds, BATCH, accuracy))
    print("\nlearning curves: %s\nfilters:         %s" % draw(curves, parameters[0].get_value(), options.out))
    if accuracy < MIN_ACCURACY:
        print("FAILED: the accuracy is below %g" % MIN_ACCURACY)
        return 1
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
