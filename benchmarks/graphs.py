"""Compare the package with Theano 1.0: the numbers of nodes of rewritten graphs, and the times to run these graphs.

    python benchmarks/graphs.py /path/to/python3.8             # numbers of nodes; an interpreter that has Theano
    python benchmarks/graphs.py /path/to/python3.8 time word   # also times, for graphs with this word in their name
    python benchmarks/graphs.py /path/to/python3.8 family      # the families of benchmarks/scaling.py, of 3 and 10 steps

The script compares three kinds of graphs: typical models of programs for Theano, with gradients and updates; random
graphs of elementwise operations, products, reductions, views and indexing, with gradients; and families of unrolled
programs. Graphs that Theano 1.0 does not compile within a minute are left out. A graph is printed if it has more nodes
in this package (for a family, more than 1.1 times as many) or takes more than 1.1 times as long. The exit status is 1
if a graph is slower, or if `REASONS` contains no reason for its additional nodes. Nodes inside loops are counted, too.
"""

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

RANDOM = 200
SLOWER = 1.1
MORE = 1.1
"""Multiple of the nodes of Theano 1.0 above which the graph of a family counts as larger."""
STEPS = (3, 10)
PATIENCE = 60
"""Limit in CPU seconds for a graph. For some families the time of Theano 1.0 doubles with each step."""
# Name of a graph -> the reason why it has more nodes than in Theano 1.0.
REASONS = {
    "convolution, cost": "Without a compiler Theano 1.0 leaves the abstract convolution as it is.",
    "random 46, gradient": "Both lengths of a gradient that is given to rows in reversed order are checked; Theano 1.0 checks the first.",
    "random 49": "m / d, which two results use, is computed once; Theano 1.0 divides in both.",
    "random 73, gradient": "The length that a vector shares with the columns of a matrix is checked.",
    "random 98, gradient": "A fill of -1 along reversed rows keeps the length of the slice.",
    "random 106, gradient": "-(y + 0.5) becomes -0.5 - y, with a separate sum.",
    "random 150, gradient": "Reversed rows are read through views in one loop, without zeros to increment.",
    "random 153": "y - y.mean(0), which two results use, is computed once; Theano 1.0 subtracts in both.",
    "family binary_cross_entropy, 10 steps, gradient": (
        "Each product has a separate output array, as in Theano 1.0 with its C BLAS, which has 79."
    ),
    "family kalman_of_matrices, 3 steps": (
        "A product with an inverse becomes a solution of linear equations between two transposes."
    ),
    "family logistic_by_hand, 10 steps, gradient": "Each sigmoid is computed once.",
    "family long_sum_and_product, 10 steps, gradient": "Products that several gradients share are computed once.",
    "family outer_products, 3 steps": "Each product has a separate output array, as in Theano 1.0 with its C BLAS, which has 13.",
    "family outer_products, 3 steps, gradient": (
        "Each product has a separate output array, as in Theano 1.0 with its C BLAS."
    ),
    "family prefixes_and_suffixes, 10 steps, gradient": "Products that several gradients share are computed once.",
    "family quotients, 3 steps, gradient": (
        "The search continues through a variable with several clients only up to a limit. Without a limit the "
        "time would grow with the square of the steps, and graphs of 20 steps would have more nodes; Theano 1.0 "
        "takes more than 8 s for 10 steps."
    ),
    "family reshapes, 10 steps, gradient": (
        "Each tanh is computed once; Theano 1.0 computes the tanh of all earlier steps again in each step."
    ),
    "family sinkhorn, 3 steps": "The exponentials divided by their sum do not overflow; in Theano 1.0 they are NaN for large numbers.",
    "family sinkhorn, 3 steps, gradient": (
        "The exponentials divided by their sum do not overflow; in Theano 1.0 they are NaN for large numbers."
    ),
    "family softplus_by_hand, 3 steps, gradient": "Each sigmoid is computed once.",
    "family softplus_by_hand, 10 steps, gradient": "Each sigmoid is computed once.",
    "family x_log_x, 3 steps, gradient": "A variable with two clients is computed once.",
}


class Models:
    """An iterable of (name, inputs, outputs, updates) for typical models of programs for Theano."""

    def __init__(self, theano):
        self.theano, self.T = theano, theano.tensor
        self.nnet = importlib.import_module(theano.__name__ + ".tensor.nnet")

    def shared(self, *shape):
        values = np.random.RandomState(len(shape)).rand(*shape)
        return self.theano.shared(values if shape else np.asarray(values), "p")

    def __iter__(self):
        T = self.T
        for name, inputs, parameters, cost in self.costs():
            gradients = T.grad(cost, parameters)
            yield name + ", cost", inputs, [cost], []
            yield name + ", gradient", inputs, gradients, []
            yield name + ", cost and gradient", inputs, [cost] + gradients, []
            for rule, updates in self.rules(parameters, gradients):
                yield name + ", " + rule, inputs, [cost], updates

    def rules(self, parameters, gradients):
        """Yield (name, updates) for gradient descent, momentum, RMSprop and Adam."""
        T = self.T
        yield "descent", [(p, p - 0.1 * g) for p, g in zip(parameters, gradients)]
        momentum, squares, adam = [], [], []
        for p, g in zip(parameters, gradients):
            v, s, m = [self.theano.shared(np.zeros_like(p.get_value())) for _ in range(3)]
            momentum += [(v, 0.9 * v - 0.1 * g), (p, p + 0.9 * v - 0.1 * g)]
            mean = 0.9 * s + 0.1 * g**2
            squares += [(s, mean), (p, p - 0.1 * g / T.sqrt(mean + 1e-6))]
            first, second = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * T.sqr(g)
            adam += [(m, first), (s, second), (p, p - 0.01 * first / (T.sqrt(second) + 1e-8))]
        yield "momentum", momentum
        yield "mean square", squares
        yield "adam", adam

    def costs(self):
        T, nnet = self.T, self.nnet
        x, y, labels, t = T.dmatrix("x"), T.dvector("y"), T.ivector("labels"), T.dmatrix("t")

        w, b = self.shared(5), self.shared()
        p = 1 / (1 + T.exp(-T.dot(x, w) - b))
        yield "logistic", [x, y], [w, b], T.mean(-y * T.log(p) - (1 - y) * T.log(1 - p)) + 0.01 * (w**2).sum()
        p = nnet.sigmoid(T.dot(x, w) + b)
        yield "logistic, sigmoid", [x, y], [w, b], nnet.binary_crossentropy(p, y).mean()
        yield "least squares", [x, y], [w, b], ((T.dot(x, w) + b - y) ** 2).mean() + 0.1 * abs(w).sum()
        yield "hinge", [x, y], [w, b], T.maximum(0, 1 - y * (T.dot(x, w) + b)).mean() + 0.1 * T.dot(w, w)
        yield "poisson", [x, y], [w, b], (T.exp(T.dot(x, w) + b) - y * (T.dot(x, w) + b)).mean()

        w, b = self.shared(5, 3), self.shared(3)
        p = nnet.softmax(T.dot(x, w) + b)
        rows = T.arange(labels.shape[0])
        yield "softmax, indexed", [x, labels], [w, b], -T.mean(T.log(p)[rows, labels])
        yield "softmax, cross-entropy", [x, labels], [w, b], nnet.categorical_crossentropy(p, labels).mean()
        yield "softmax, one hot", [x, t], [w, b], nnet.categorical_crossentropy(p, t).mean()
        z = T.dot(x, w) + b
        e = T.exp(z - z.max(axis=1, keepdims=True))
        yield "softmax, by hand", [x, labels], [w, b], -T.log(e / e.sum(axis=1, keepdims=True))[rows, labels].mean()

        v, c = self.shared(3, 4), self.shared(4)
        for name, activation in (
            ("tanh", T.tanh),
            ("sigmoid", nnet.sigmoid),
            ("relu", nnet.relu),
            ("softplus", nnet.softplus),
        ):
            h = activation(T.dot(x, w) + b)
            p = nnet.softmax(T.dot(h, v) + c)
            yield "layers, " + name, [x, labels], [w, b, v, c], -T.mean(T.log(p)[rows, labels]) + 1e-4 * (w**2).sum()
        h, d = nnet.sigmoid(T.dot(x, w) + b), self.shared(5)
        z = nnet.sigmoid(T.dot(h, w.T) + d)
        yield "autoencoder", [x], [w, b, d], -T.mean(T.sum(x * T.log(z) + (1 - x) * T.log(1 - z), axis=1))
        free = -T.dot(x, d) - T.sum(T.log(1 + T.exp(T.dot(x, w) + b)), axis=1)
        yield "free energy", [x], [w, b, d], T.mean(free)
        g, s = self.shared(3), self.shared(3)
        z = T.dot(x, w)
        z = g * (z - z.mean(0)) / T.sqrt(z.var(0) + 1e-5) + s
        yield "normalized", [x], [w, g, s], T.sqr(nnet.relu(z)).mean()
        mu, rho = self.shared(5), self.shared(5)
        yield "normal", [x], [mu, rho], (0.5 * ((x - mu) / T.exp(rho)) ** 2 + rho).sum(axis=1).mean()
        yield "factorization", [t], [w, v], T.sqr(t - T.dot(w, v)).mean() + 0.1 * (T.sqr(w).sum() + T.sqr(v).sum())
        yield "embedding", [labels], [w], T.sqr(w[labels].sum(axis=0)).sum()

        images, filters = T.dtensor4("images"), self.shared(2, 1, 3, 3)
        h = nnet.conv2d(images, filters, filter_shape=(2, 1, 3, 3))
        h = importlib.import_module(self.theano.__name__ + ".tensor.signal.pool").pool_2d(h, (2, 2), ignore_border=True)
        yield (
            "convolution",
            [images],
            [filters],
            T.tanh(h + self.shared(2).dimshuffle("x", 0, "x", "x")).flatten(2).sum(),
        )

        u, state = self.shared(3, 3), self.shared(3)
        steps, _ = self.theano.scan(lambda row, h, u, w: T.tanh(T.dot(row, w) + T.dot(h, u)), x, state, [u, w])
        yield "recurrent", [x], [u, w, state], T.sqr(steps[-1]).sum()


class Randoms:
    """An iterable of (name, inputs, outputs, updates) for random graphs.

    The random choices are the same in all versions of Python.
    """

    def __init__(self, theano, count):
        self.T, self.count = theano.tensor, count
        self.nnet = importlib.import_module(theano.__name__ + ".tensor.nnet")

    def pick(self, choices):
        return choices[int(self.random.random() * len(choices))]

    def __iter__(self):
        T = self.T
        for seed in range(self.count):
            self.random = random.Random(seed)
            inputs = [T.dmatrix("m"), T.dmatrix("n"), T.dvector("v"), T.dscalar("s")]
            pool = list(inputs)
            for _ in range(4 + int(self.random.random() * 12)):
                pool.append(self.step(pool))
            cost = sum(T.sum(self.pick(pool[4:])) for _ in range(2)) + T.sum(pool[-1])
            name = "random %d" % seed
            yield name, inputs, pool[-2:], []
            yield name + ", gradient", inputs, [cost] + T.grad(cost, inputs, disconnected_inputs="ignore"), []

    def step(self, pool):
        """Return the result of a random operation on random variables of `pool`.

        All matrices have the shape (4, 4), and all vectors the length 4.
        """
        T, r = self.T, self.random.random()
        x = self.pick(pool)
        if r < 0.35:
            unary = (T.exp, T.tanh, T.sqr, abs, T.neg, T.sin, self.nnet.sigmoid, lambda x: T.log(1 + T.sqr(x)))
            unary += (lambda x: x * 2, lambda x: 1 - x, lambda x: x + 0.5, lambda x: T.sqrt(1 + x * x), lambda x: x**3)
            return self.pick(unary)(x)
        if r < 0.65:
            binary = (
                T.add,
                T.sub,
                T.mul,
                T.maximum,
                lambda x, y: x / (1 + T.sqr(y)),
                lambda x, y: T.switch(T.gt(x, 0), x, y),
            )
            return self.pick(binary)(x, self.pick(pool))
        y = self.pick([p for p in pool if p.ndim == 2])
        others = (
            lambda: T.dot(x, y) if x.ndim else x * y,
            lambda: T.dot(y, x) if x.ndim else y - x,
            lambda: y.T,
            lambda: y.sum(axis=0),
            lambda: y.mean(axis=1),
            lambda: y.max(axis=1),
            lambda: self.nnet.softmax(y),
            lambda: y - y.mean(axis=0, keepdims=True),
            lambda: y[::-1],
            lambda: y[1],
            lambda: T.set_subtensor(y[0], 1.0),
            lambda: T.inc_subtensor(y[:, 1], 2.0),
            lambda: y.flatten().reshape((4, 4)),
            lambda: T.concatenate([y[:2], y[2:]], axis=0),
            lambda: y.dimshuffle(1, 0) + 1,
            lambda: y.sum(),
            lambda: T.zeros_like(y) + x,
        )
        return self.pick(others)()


class Families:
    """An iterable of (name, inputs, outputs, updates) for the graphs of `theano_ng/tests/graph_families.py`."""

    def __init__(self, theano):
        if theano.__name__ == "theano":
            self.stand_in(theano)
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "theano_ng", "tests")
        specification = importlib.util.spec_from_file_location("families", os.path.join(path, "graph_families.py"))
        self.module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(self.module)

    @staticmethod
    def stand_in(theano):
        """Redirect imports of theano_ng to Theano 1.0."""
        sys.modules["theano_ng"] = theano
        for name in ("tensor", "compile.builders", "gof.graph", "ifelse"):
            sys.modules["theano_ng." + name] = importlib.import_module("theano." + name)
        sys.modules["theano_ng.scan"] = theano  # programs import the function `scan` from theano_ng.scan

    def __iter__(self):
        for family, make in self.module.FAMILIES.items():
            for steps in STEPS:
                for gradient in (False, True):
                    name = "family %s, %d steps%s" % (family, steps, ", gradient" * gradient)
                    inputs, outputs = self.module.build(make, steps, gradient)
                    yield name, inputs, outputs, []


class TookTooLong(BaseException):
    """The exception that is raised when the time limit for a graph is over.

    It is not a subclass of Exception, because rewriting catches Exception and continues.
    """


def too_long(signum, frame):
    raise TookTooLong


def nodes(fgraph):
    """Return the number of nodes, including the nodes in the steps of loops."""
    count = 0
    for node in fgraph.apply_nodes:
        count += 1
        if type(node.op).__name__ == "Scan":
            count += nodes(node.op.fn.maker.fgraph)
    return count


def value_for(variable):
    rng = np.random.RandomState(3)
    if variable.dtype == "int32":
        return rng.randint(0, 3, 50).astype("int32")
    if variable.ndim == 4:
        return rng.rand(8, 1, 12, 12)
    return rng.rand(*{"m": (4, 4), "n": (4, 4), "v": (4,), "s": ()}.get(variable.name, (50, 5)[: variable.ndim]))


def seconds(f, values):
    """Return the shortest time of a call of `f`, in CPU seconds."""
    repeat = 1
    while True:
        start = time.process_time()
        for _ in range(repeat):
            f(*values)
        if time.process_time() - start > 2e-3:
            break
        repeat *= 2
    best = np.inf
    for _ in range(15):
        start = time.process_time()
        for _ in range(repeat):
            f(*values)
        best = min(best, (time.process_time() - start) / repeat)
    return best


def child(package, timed, word):
    """Compile all graphs in one package. Write the numbers of nodes and the times in seconds as JSON to the standard
    output.
    """
    out, sys.stdout = sys.stdout, sys.stderr
    theano = importlib.import_module(package)
    importlib.import_module(package + ".tensor")
    found = {}
    signal.signal(signal.SIGVTALRM, too_long)
    for source in (Models(theano), Randoms(theano, RANDOM), Families(theano)):
        for name, inputs, outputs, updates in source:
            if word not in name:
                continue
            signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
            try:
                f = theano.function(inputs, outputs, updates=updates, on_unused_input="ignore")
            except TookTooLong:
                print("%s: more than %d s in %s" % (name, PATIENCE, package))
                continue
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            found[name] = [nodes(f.maker.fgraph), 0]
            if timed and not isinstance(source, Families):
                values = [value_for(v) for v in inputs]
                if "one hot" in name:
                    values[1] = np.eye(3)[np.arange(50) % 3]
                found[name][1] = seconds(f, values)
    json.dump(found, out)


def asked(python, package, arguments, cache):
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    environment.pop("PYTHONPATH", None)
    if package == "theano":
        environment["THEANO_FLAGS"] = "device=cpu,base_compiledir=%s%s" % (
            cache,
            "" if "time" in arguments else ",cxx=",
        )
    command = [python, "-W", "ignore", os.path.abspath(__file__), "--child", package, *arguments]
    out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(out.stdout.decode())


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    arguments = sys.argv[2:]
    with tempfile.TemporaryDirectory() as cache:
        theirs = asked(sys.argv[1], "theano", arguments, cache)
    ours = asked(sys.executable, "theano_ng", arguments, None)
    theirs = {name: found for name, found in theirs.items() if name in ours}
    fewer = sum(ours[name][0] < n for name, (n, _) in theirs.items())
    more = [name for name, (n, _) in theirs.items() if ours[name][0] > n * (MORE if name.startswith("family ") else 1)]
    print("%d graphs: fewer nodes than Theano 1.0 in %d, as many in %d, more in %d" % (
        len(theirs), fewer, len(theirs) - fewer - len(more), len(more)))  # fmt: skip
    for name in more:
        print("%s: %d nodes here, %d in Theano 1.0. %s" % (name, ours[name][0], theirs[name][0], REASONS.get(name, "")))
    slower = [name for name, (_, t) in theirs.items() if ours[name][1] > SLOWER * t]
    if "time" in arguments:
        ratios = sorted(ours[name][1] / t for name, (_, t) in theirs.items() if t)
        print(
            "time here / in Theano 1.0: median %.2f, largest %.2f; slower in %d"
            % (ratios[len(ratios) // 2], ratios[-1], len(slower))
        )
        for name in slower:
            print("%s: %.2f us here, %.2f us in Theano 1.0" % (name, 1e6 * ours[name][1], 1e6 * theirs[name][1]))
    sys.exit(bool(slower or set(more) - set(REASONS)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        package, *arguments = sys.argv[2:]
        timed = arguments[:1] == ["time"]
        child(package, timed, " ".join(arguments[timed:]))
    else:
        main()
