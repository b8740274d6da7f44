"""Train two classifiers on handwritten digits: multinomial logistic regression, and a network with two hidden layers.

Shared variables hold the data and the parameters. A training step takes the indices of a minibatch, and `givens`
replaces the inputs by the rows of the data with these indices. For comparison, the same steps are written by hand in
NumPy. The script fails if the results of both versions differ, or if the network is not accurate enough.

    python examples/digits.py [--out FOLDER] [--epochs N] [--seed N]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, RATE, MOMENTUM, L2 = 100, 0.1, 0.9, 1e-4
MODELS = {"logistic regression": [64, 10], "network 64-128-64-10": [64, 128, 64, 10]}
TESTED = 397  # number of images for the test
MIN_ACCURACY = 0.95  # required accuracy of the network
TOLERANCE = 1e-6  # maximum difference between the results of compiled steps and NumPy steps


def load(seed):
    """Return training and test images (float64, 0..1) and labels (int32), shuffled."""
    with np.load(os.path.join(HERE, "data", "digits.npz")) as z:
        x, y = z["images"] / 16.0, z["labels"].astype("int32")
    order = np.random.RandomState(seed).permutation(len(x))
    x, y = x[order], y[order]
    return (x[:-TESTED], y[:-TESTED]), (x[-TESTED:], y[-TESTED:])


def initial_parameters(sizes, seed):
    """Return weights (Glorot-uniform) and biases (zero), layer by layer."""
    rng = np.random.RandomState(seed)
    parameters = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        bound = np.sqrt(6.0 / (n_in + n_out))
        parameters += [rng.uniform(-bound, bound, (n_in, n_out)), np.zeros(n_out)]
    return parameters


class NumpyModel:
    """The model in NumPy, with a training step that is written by hand."""

    def __init__(self, parameters):
        self.parameters = [p.copy() for p in parameters]
        self.velocities = [np.zeros_like(p) for p in parameters]

    def step(self, x, y):
        """Do one training step with momentum on a minibatch. Return the cost before the step."""
        ps = self.parameters
        activations = [x]
        for i in range(0, len(ps) - 2, 2):
            activations.append(np.tanh(activations[-1] @ ps[i] + ps[i + 1]))
        z = activations[-1] @ ps[-2] + ps[-1]
        z -= z.max(axis=1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        rows = np.arange(len(y))
        cost = -log_p[rows, y].mean() + L2 * sum((w**2).sum() for w in ps[::2])
        delta = np.exp(log_p)
        delta[rows, y] -= 1
        delta /= len(y)
        gradients = [None] * len(ps)
        for i in range(len(ps) - 2, -1, -2):
            h = activations[i // 2]
            gradients[i] = h.T @ delta + 2 * L2 * ps[i]
            gradients[i + 1] = delta.sum(axis=0)
            if i:
                delta = (delta @ ps[i].T) * (1 - h**2)
        for p, v, g in zip(ps, self.velocities, gradients):
            v *= MOMENTUM
            v -= RATE * g
            p += v
        return cost


def build(sizes, train_set, test_set, seed):
    """Compile the functions of a model.

    Returns
    -------
    train : takes the indices of a minibatch, updates the parameters and returns the cost before the update
    cost_on_train : takes no arguments, returns the cost on all training images
    error_on_test : takes no arguments, returns the fraction of the test images that are classified wrongly
    parameters : list of shared variables
    """
    import theano_ng as theano
    import theano_ng.tensor as T

    train_x, train_y = theano.shared(train_set[0], "train_x"), theano.shared(train_set[1], "train_y")
    test_x, test_y = theano.shared(test_set[0], "test_x"), theano.shared(test_set[1], "test_y")
    x, y, rows = T.dmatrix("x"), T.ivector("y"), T.lvector("rows")
    names = ["%s%d" % (kind, layer) for layer in range(1, len(sizes)) for kind in "Wb"]
    parameters = [theano.shared(p, name) for p, name in zip(initial_parameters(sizes, seed), names)]
    h = x
    for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
        h = T.tanh(T.dot(h, w) + b)
    p_y = T.nnet.softmax(T.dot(h, parameters[-2]) + parameters[-1])
    cost = T.nnet.categorical_crossentropy(p_y, y).mean() + L2 * sum((w**2).sum() for w in parameters[::2])
    error = T.neq(T.argmax(p_y, axis=1), y).mean()
    updates = []
    for p, g in zip(parameters, T.grad(cost, parameters)):
        velocity = theano.shared(np.zeros_like(p.get_value()), "v_" + p.name)
        new_velocity = MOMENTUM * velocity - RATE * g
        updates += [(velocity, new_velocity), (p, p + new_velocity)]
    train = theano.function([rows], cost, updates=updates, givens={x: train_x[rows], y: train_y[rows]}, name="train")
    cost_on_train = theano.function([], cost, givens={x: train_x, y: train_y}, name="cost")
    error_on_test = theano.function([], error, givens={x: test_x, y: test_y}, name="error")
    return train, cost_on_train, error_on_test, parameters


def compile_time(name, seed):
    """Return the time in seconds to build and compile one model in this process."""
    train_set, test_set = load(seed)
    import theano_ng.tensor  # noqa: F401  (the time does not include the import)

    start = time.perf_counter()
    build(MODELS[name], train_set, test_set, seed)
    return time.perf_counter() - start


def cold_and_warm(name, seed):
    """Return the times in seconds to compile a model with an empty and with a filled cache, each in a new process."""
    seconds = []
    # Background compilers may still write to the folder.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        flags = ",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + cache]))
        for _ in range(2):
            out = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--compile-only", name, "--seed", str(seed)],
                env=dict(os.environ, THEANO_FLAGS=flags),
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            seconds.append(json.loads(out.stdout.splitlines()[-1]))
    return seconds


def steps_per_second(step, batches, seconds=0.7):
    """Return the number of calls of `step` per second."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for batch in batches:
            step(*batch)
        count += len(batches)
    return count / (time.perf_counter() - start)


def minibatches(n, rng):
    order = rng.permutation(n)
    return [order[i : i + BATCH] for i in range(0, n - BATCH + 1, BATCH)]


def agreement(train, parameters, reference, train_set, seed):
    """Run ten training steps by the compiled function and in NumPy.

    Return the largest difference between their costs and parameters.
    """
    worst = 0.0
    for rows in minibatches(len(train_set[0]), np.random.RandomState(seed))[:10]:
        compiled, by_hand = float(train(rows)), reference.step(train_set[0][rows], train_set[1][rows])
        worst = max(worst, abs(compiled - by_hand))
    return max([worst] + [np.abs(p.get_value(borrow=True) - q).max() for p, q in zip(parameters, reference.parameters)])


def progress(name, epoch, epochs, cost, error):
    width = 24
    done = width * epoch // epochs
    line = "\r%-22s [%s%s] epoch %3d/%d  cost %.4f  test error %5.2f%%" % (
        name,
        "#" * done,
        "." * (width - done),
        epoch,
        epochs,
        cost,
        100 * error,
    )
    print(line, end="" if sys.stdout.isatty() and epoch < epochs else "\n", flush=True)


def train_model(name, epochs, seed):
    """Train one model, and print its times and results.

    Return whether the results are right, the curves of cost and error, and the compiled training step.
    """
    train_set, test_set = load(seed)
    cold, warm = cold_and_warm(name, seed)
    print("\n%s\n  compile time: %.2f s with an empty cache, %.2f s with a filled one" % (name, cold, warm))

    train, cost_on_train, error_on_test, parameters = build(MODELS[name], train_set, test_set, seed)
    start_values = [p.get_value() for p in parameters]
    difference = agreement(train, parameters, NumpyModel(start_values), train_set, seed)
    print("  after 10 steps the largest difference from the NumPy step is %.1e" % difference)

    train, cost_on_train, error_on_test, parameters = build(MODELS[name], train_set, test_set, seed)
    rng, curves = np.random.RandomState(seed), []
    for epoch in range(1, epochs + 1):
        for rows in minibatches(len(train_set[0]), rng):
            train(rows)
        curves.append((float(cost_on_train()), float(error_on_test())))
        if sys.stdout.isatty() or epoch % max(1, epochs // 6) == 0:
            progress("  training", epoch, epochs, *curves[-1])
    accuracy = 1 - curves[-1][1]

    batches = minibatches(len(train_set[0]), rng)
    reference = NumpyModel(start_values)
    compiled = steps_per_second(train, [(rows,) for rows in batches])
    by_hand = steps_per_second(
        lambda rows: reference.step(train_set[0][rows], train_set[1][rows]), [(r,) for r in batches]
    )
    print("  %.0f steps per second; NumPy by hand %.0f; ratio %.2f" % (compiled, by_hand, compiled / by_hand))
    print("  test accuracy %.4f" % accuracy)
    passed = difference <= TOLERANCE
    if not passed:
        print("  FAILED: compiled and NumPy steps differ by more than %g" % TOLERANCE)
    if len(MODELS[name]) > 2 and accuracy < MIN_ACCURACY:
        print("  FAILED: the accuracy is below %g" % MIN_ACCURACY)
        passed = False
    return passed, curves, train


def draw_curves(curves, path):
    """Save a picture of the costs and test errors of all models over the epochs."""
    from theano_ng.extras import require

    matplotlib = require("matplotlib", "The picture of the curves")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for name, values in curves.items():
        epochs = range(1, len(values) + 1)
        left.semilogy(epochs, [c for c, _ in values], label=name)
        right.plot(epochs, [100 * e for _, e in values], label=name)
    left.set(xlabel="epoch", ylabel="cost on the training images", title="Cost")
    right.set(xlabel="epoch", ylabel="wrongly classified test images (%)", title="Test error")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def draw_graph(function, path):
    """Save a picture of a compiled function, or its printed graph if Graphviz is missing."""
    import shutil

    import theano_ng as theano

    if shutil.which("dot"):
        theano.printing.pydotprint(function, outfile=path, var_with_name_simple=True, print_output_file=False)
    else:
        path = os.path.splitext(path)[0] + ".txt"
        with open(path, "w") as f:
            theano.printing.debugprint(function, file=f)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "output"), help="folder for the pictures")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--compile-only", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile_only:
        print(json.dumps(compile_time(options.compile_only, options.seed)))
        return 0
    os.makedirs(options.out, exist_ok=True)
    passed, curves = True, {}
    for name in MODELS:
        good, curves[name], train = train_model(name, options.epochs, options.seed)
        passed = passed and good
    picture = os.path.join(options.out, "learning_curves.png")
    draw_curves(curves, picture)
    print(
        "\nlearning curves: %s\ncompiled step:   %s"
        % (picture, draw_graph(train, os.path.join(options.out, "train_step.png")))
    )
    print("all checks passed" if passed else "CHECKS FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
