"""The time from an expression to its first result, with an empty cache: ``python benchmarks/ready.py [PYTHON]``.

Each figure is the minimum of the wall-clock times of several new processes, without the imports. There are four cases.
With tiered=off, the function waits for the compiler. With tiered=auto, the function is interpreted until the compiler
has finished. In the third case, there is no compiler. The fourth case is JAX, run by the interpreter PYTHON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import measure
import numpy as np

ROUNDS = 7
BATCH, IMAGES, RATE = 100, 64, 0.1
STEPS, SEQUENCES, FEATURES, HIDDEN = 30, 16, 32, 64


def values(program):
    """Return the inputs and parameters of a program."""
    rng = np.random.RandomState(0)

    def normal(*shape, scale=0.1):
        return rng.standard_normal(shape) * scale

    labels = rng.randint(0, 10, BATCH)
    if program == "x + 1":
        return [np.arange(3.0)], []
    if program == "LSTM":
        inputs = normal(STEPS, SEQUENCES, FEATURES, scale=1), labels[:SEQUENCES]
        shapes = [(FEATURES, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (HIDDEN, 10), (10,)]
    elif program == "LeNet":
        inputs = normal(IMAGES, 1, 28, 28, scale=1), labels[:IMAGES]
        shapes = [(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (800, 500), (500,), (500, 10), (10,)]
    else:
        inputs = rng.rand(BATCH, 784), labels
        sizes = [784, 10] if program == "logistic regression" else [784, 256, 256, 10]
        shapes = [shape for a, b in zip(sizes, sizes[1:]) for shape in ((a, b), (b,))]
    dtype = "float32" if program in ("LSTM", "LeNet") else "float64"
    return [inputs[0].astype(dtype), inputs[1]], [normal(*shape).astype(dtype) for shape in shapes]


class Ours:
    """The operations of the programs, in this package."""

    def __init__(self):
        import theano_ng as theano
        import theano_ng.tensor as T
        from theano_ng.tensor.nnet import conv2d
        from theano_ng.tensor.signal.pool import pool_2d

        self.theano, self.T, self.conv2d, self.pool_2d = theano, T, conv2d, pool_2d
        self.tanh, self.dot, self.sigmoid, self.flatten = T.tanh, T.dot, T.nnet.sigmoid, lambda x: x.flatten(2)

    def per_channel(self, b):
        return b.dimshuffle("x", 0, "x", "x")

    def convolve(self, x, w):
        return self.conv2d(x, w)

    def pool(self, x):
        return self.pool_2d(x, (2, 2), ignore_border=True)

    def loss(self, logits, labels):
        return self.T.nnet.categorical_crossentropy(self.T.nnet.softmax(logits), labels).mean(dtype=logits.dtype)

    def last_state(self, step, x, width):
        zeros = self.T.zeros((x.shape[1], width), x.dtype)
        states, _ = self.theano.scan(lambda x_t, *state: step(x_t, *state), sequences=x, outputs_info=[zeros, zeros])
        return states[0][-1]

    def run(self, program, inputs, parameters):
        if program == "x + 1":
            x = self.T.dvector()
            return self.theano.function([x], x + 1)(*inputs)
        x, y = (self.T.TensorType(v.dtype, (False,) * v.ndim)() for v in inputs)
        shared = [self.theano.shared(p) for p in parameters]
        cost = self.loss(logits(self, program, x, shared), y)
        rate = np.asarray(RATE, parameters[0].dtype)
        updates = [(p, p - rate * g) for p, g in zip(shared, self.theano.grad(cost, shared))]
        return self.theano.function([x, y], cost, updates=updates)(*inputs)


class Jax:
    """The operations of the programs, in JAX."""

    def __init__(self):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        jax.devices()
        self.jax, self.jnp, self.tanh, self.dot, self.sigmoid = jax, jnp, jnp.tanh, jnp.dot, jax.nn.sigmoid
        self.flatten = lambda x: x.reshape(x.shape[0], -1)

    def per_channel(self, b):
        return b[None, :, None, None]

    def convolve(self, x, w):
        return self.jax.lax.conv_general_dilated(x, w[:, :, ::-1, ::-1], (1, 1), "VALID")

    def pool(self, x):
        return self.jax.lax.reduce_window(x, -np.inf, self.jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss(self, logits, labels):
        return -self.jax.nn.log_softmax(logits)[self.jnp.arange(logits.shape[0]), labels].mean()

    def last_state(self, step, x, width):
        zeros = self.jnp.zeros((x.shape[1], width), x.dtype)
        return self.jax.lax.scan(lambda state, x_t: (step(x_t, *state), None), (zeros, zeros), x)[0][0]

    def run(self, program, inputs, parameters):
        if program == "x + 1":
            return np.asarray(self.jax.jit(lambda x: x + 1)(*inputs))

        @self.jax.jit
        def step(parameters, x, y):
            cost, gradients = self.jax.value_and_grad(lambda p: self.loss(logits(self, program, x, p), y))(parameters)
            return cost, [p - RATE * g for p, g in zip(parameters, gradients)]

        cost, updated = step(parameters, *inputs)
        self.jax.block_until_ready(updated)
        return np.asarray(cost)


def logits(ops, program, x, parameters):
    """Return the last layer of a model, before the softmax."""
    if program == "LSTM":
        w, u, b, v, c = parameters

        def step(x_t, h, c):
            z = ops.dot(x_t, w) + ops.dot(h, u) + b
            i, f, o, g = (z[:, k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            return ops.sigmoid(o) * ops.tanh(c), c

        return ops.dot(ops.last_state(step, x, HIDDEN), v) + c
    if program == "LeNet":
        for w, b in (parameters[:2], parameters[2:4]):
            x = ops.tanh(ops.pool(ops.convolve(x, w)) + ops.per_channel(b))
        x, parameters = ops.flatten(x), parameters[4:]
    for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
        x = ops.tanh(ops.dot(x, w) + b)
    return ops.dot(x, parameters[-2]) + parameters[-1]


def child(system, program):
    """Run one program in this process, and print the time in seconds and the result."""
    ops, (inputs, parameters) = {"ours": Ours, "jax": Jax}[system](), values(program)
    start = time.perf_counter()
    result = ops.run(program, inputs, parameters)
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, np.asarray(result).tolist()]))
    sys.stdout.flush()
    if system == "ours":
        from theano_ng.gof.compiler.background import wait_for_kernels

        wait_for_kernels(60)  # the background compiler must not disturb the next process


def ready(python, system, program, flags=""):
    """Run a program in a new process. Return its time in seconds and its result."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as cache:
        flags = ",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + cache, flags]))
        environment = dict(os.environ, THEANO_FLAGS=flags)
        if system == "ours":
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [python, os.path.abspath(__file__), "--child", system, program],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    ways = [
        (sys.executable, "ours", "tiered=off"),
        (sys.executable, "ours", "tiered=auto"),
        (sys.executable, "ours", "cxx="),
    ]
    ways += [(python, "jax", "") for python in sys.argv[1:2]]
    columns = ["", "tiered=off", "tiered=auto", "auto / off", "without a compiler", *["JAX"] * (len(ways) - 3)]
    table = measure.Table("Ready, empty cache, wall time", *columns)
    for program in ("x + 1", "logistic regression", "MLP", "LeNet", "LSTM"):
        times, results = [[] for _ in ways], [None] * len(ways)
        for _ in range(ROUNDS):
            for i, (python, system, flags) in enumerate(ways):
                seconds, results[i] = ready(python, system, program, flags)
                times[i].append(seconds)
        for result in results:
            np.testing.assert_allclose(result, results[0], rtol=1e-5)
        off, auto, *others = map(min, times)
        table.row(
            program,
            *map(measure.show_time, (off, auto)),
            measure.show_ratio(auto / off),
            *map(measure.show_time, others),
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
