"""Compare a newly rewritten function with the function from the graph cache: programs and result bits are equal."""

import ast
import os
import subprocess
import sys
import tempfile
import unittest

_PROGRAM = """
import os, sys, zlib
import numpy as np, theano_ng as theano, theano_ng.tensor as T
from theano_ng.compile.profiling import ProfileStats
from theano_ng.gof.compiler.background import wait_for_kernels
from theano_ng.tests.graph_families import FAMILIES, build

MANY = bool(os.environ.get("THEANO_NG_MANY_GRAPHS"))

def families():
    # Some of the families by their places: THEANO_NG_MANY_GRAPHS=1 takes all of them.
    for name, make in list(FAMILIES.items())[:: 1 if MANY else 4]:
        for steps in (2, 7) if MANY else (3,):
            inputs, outputs = build(make, steps, True)
            yield "%s %d" % (name, steps), inputs, outputs, []
            if name.startswith(("elementwise", "layers", "powers", "gemv")):
                states = [theano.shared(value_of(v), "w%d" % k) for k, v in enumerate(inputs)]
                new = theano.clone(outputs, dict(zip(inputs, states)))
                updates = [(w, w - 0.01 * T.patternbroadcast(g, w.broadcastable)) for w, g in zip(states, new[1:])]
                yield "training of %s %d" % (name, steps), [], new[:1], updates

def several_updates():
    a, b, c = [theano.shared(np.linspace(0.1, 1, 12).reshape(3, 4) * k, "abc"[k - 1]) for k in (1, 2, 3)]
    x = T.dmatrix("x")
    g = T.grad((T.tanh(a * x) * b).sum() + (c[1:] ** 2).sum(), [a, b, c])
    yield "momentum", [x], [a.sum(), T.exp(b)], [(a, a * 0.9 - g[0]), (b, T.inc_subtensor(b[0], a[1])), (c, c - g[2] * a)]
    yield "swap", [x], [a + b], [(a, b), (b, a + x), (c, T.set_subtensor(c[:, 1], a[:, 0]))]
    i = T.lscalar("i")
    yield "rows", [x, i], [a[i], b.sum()], [(a, T.inc_subtensor(a[i], x[0])), (b, T.set_subtensor(b[i], x[1] * a[i]))]

def random_graphs():
    rng = np.random.RandomState(3)
    ops = [T.add, T.sub, T.mul, T.maximum, lambda x, y: T.dot(x, y.T)[:, :1] * x, lambda x, y: T.tanh(x) / (1 + y * y),
           lambda x, y: T.set_subtensor(x[1], y[0]), lambda x, y: T.inc_subtensor(x[:, :2], y[:, 1:3]), lambda x, y: x + y.sum(axis=0),
           lambda x, y: T.switch(x > y, x, T.exp(-y)), lambda x, y: T.concatenate([x[:1], y[1:]]), lambda x, y: x[::-1] * T.sqrt(abs(y))]
    for k in range(40 if MANY else 12):
        inputs = [T.dmatrix() for _ in range(3)]
        known = list(inputs)
        for _ in range(rng.randint(4, 16)):
            known.append(ops[rng.randint(len(ops))](*[known[rng.randint(len(known))] for _ in range(2)]))
        states = [theano.shared(np.linspace(-1, 1, 12).reshape(3, 4) + j, "s%d" % j) for j in range(2)]
        known = theano.clone(known, dict(zip(inputs[1:], states)))
        chosen = [known[rng.randint(3, len(known))] for _ in range(4)]
        yield "random %d" % k, inputs[:1], chosen[:2], list(zip(states, chosen[2:]))

def loops():
    x, h, w = T.dmatrix("x"), T.dvector("h"), T.dmatrix("w")
    states, _ = theano.scan(lambda a, s: T.tanh(T.dot(s, w[:3, :3]) + a[:3]), x, h[:3])
    cost = (states ** 2).sum()
    yield "recurrent", [x, h, w], [cost, *T.grad(cost, [h, w])], []

def value_of(v):
    rng = np.random.RandomState(zlib.crc32(str(v.type).encode()))
    shape = [1 if b else 4 for b in v.type.broadcastable]
    return np.asarray(rng.uniform(0.2, 0.9, shape)).astype(v.dtype) if v.dtype[0] == "f" else np.ones(shape, v.dtype)

def normalized_rows():
    x, w = T.dmatrix("x"), theano.shared(np.linspace(0.5, 1.5, 4), "w")
    centered = x - x.mean(1, keepdims=True)
    out = centered / T.sqrt(T.sqr(centered).mean(1, keepdims=True) + 0.01) * w
    shares = T.exp(out - out.max(1, keepdims=True))
    cost = T.log(shares.sum(1)).sum() + (out ** 3).sum()
    yield "normalized rows", [x], [out, cost, T.grad(cost, x)], [(w, w - 0.1 * T.grad(cost, w))]

for kind in (families, several_updates, random_graphs, loops, normalized_rows):
    for name, inputs, outputs, updates in kind():
        profile = ProfileStats()
        f = theano.function(inputs, outputs, updates=updates, profile=profile, on_unused_input="ignore")
        numbers = np.linspace(0.1, 1, 12).reshape(3, 4)
        given = [value_of(v) if kind is families else (numbers[0], numbers)[v.ndim - 1] if v.ndim else np.array(1) for v in inputs]
        bits = 0
        for _ in range(3):
            try:
                for value in f(*given):
                    bits = zlib.crc32(np.ascontiguousarray(value).tobytes(), bits)
            except Exception as error:  # shapes that do not fit
                bits = str(error)[:60]
        for w, _ in updates:
            bits = zlib.crc32(np.ascontiguousarray(w.get_value()).tobytes(), bits if isinstance(bits, int) else 0)
        program = str(f.fn.program)
        print(repr((name, profile.graphs_from_disk, bits, program)))
"""


# Eight schools (Gelman et al., Bayesian Data Analysis, section 5.5) with a gamma prior and Student's t, sampled by
# Hamiltonian dynamics. Each value of the trace depends on all bits of the previous values. Functions are called while
# their kernels are being compiled.
_TRACE = """
import numpy as np, theano_ng as theano, theano_ng.tensor as T
from theano_ng.gof.compiler.background import wait_for_kernels

effects, errors = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
q = T.dvector("q")
mu, log_tau, log_nu, eta = q[0], q[1], q[2], q[3:]
tau, nu = T.exp(log_tau), T.exp(log_nu) + 1
residual = (effects - mu - tau * eta) / errors
student = T.gammaln((nu + 1) / 2) - T.gammaln(nu / 2) - 0.5 * T.log(nu * np.pi * errors**2) - (nu + 1) / 2 * T.log1p(residual**2 / nu)
prior = -0.5 * (mu / 5) ** 2 - T.log1p((tau / 5) ** 2) + log_tau + log_nu - 0.1 * nu - 0.5 * (eta**2).sum()
density = student.sum() + prior + T.log(T.nnet.sigmoid(mu)) - T.log(T.erfc(eta / 10)).sum()
f = theano.function([q], [density, T.grad(density, q)])
# The same leap in a loop of its own, on some of the numbers.
p = T.dvector("p")
leap = lambda a, b: (a + 0.01 * b, b - 0.01 * T.tanh(a) * T.exp(-a * a) + 0.001 * T.psi(abs(a) + 1))
leaps, _ = theano.scan(leap, outputs_info=[q, p], n_steps=7)
g = theano.function([q, p], [leaps[0][-1], leaps[1][-1]])

rng, at, trace = np.random.RandomState(1), np.zeros(11), []
for draw in range(60):
    if draw == 40:
        assert wait_for_kernels(120)
    momentum = rng.randn(11)
    value, slope = f(at)
    begun, place, speed = value - 0.5 * momentum @ momentum, at, momentum
    for _ in range(9):
        speed = speed + 0.05 * slope
        place = place + 0.1 * speed
        value, slope = f(place)
        speed = speed + 0.05 * slope
    place, speed = g(place, speed)
    if np.log(rng.rand()) < value - 0.5 * speed @ speed - begun:
        at = place
    trace += [*at, float(value)]
print(np.array(trace).tobytes().hex())
"""


def output(folder, flags, text):
    """Run a program with the given compile directory, and return its output."""
    environment = dict(os.environ, THEANO_FLAGS="base_compiledir=%s%s" % (folder, flags))
    done = subprocess.run([sys.executable, "-c", text], env=environment, text=True, capture_output=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


def run(folder, flags=""):
    """Run `_PROGRAM` in a process; return a dict from function name to (found in the cache, bits, printed program)."""
    lines = [ast.literal_eval(line) for line in output(folder, flags, _PROGRAM).splitlines()]
    return {name: rest for name, *rest in lines}


class TestColdAndWarm(unittest.TestCase):
    def test_programs_and_bits(self):
        """Functions have equal programs and result bits with an empty cache, with a warm cache, and without a cache.

        Each of these runs is a separate process.
        """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            cold, warm, alone = run(folder), run(folder), run(folder, ",cache_graphs=False")
        self.assertEqual(sum(found for found, _, _ in cold.values()), 0)
        self.assertGreater(sum(found for found, _, _ in warm.values()), 0.9 * len(warm))
        for name in cold:
            for other in (warm, alone):
                with self.subTest(name=name):
                    self.assertEqual(cold[name][2], other[name][2])
                    self.assertEqual(cold[name][1], other[name][1])

    def test_traces(self):
        """A sampler with a fixed seed draws the same trace with an empty cache and with a warm cache.

        The trace is also the same if kernels are compiled at once, if they are compiled in the background, and without
        a cache.
        """
        traces = {}
        for flags in ("", ",tiered=off", ",tiered=on", ",cache_graphs=False"):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                for cache in ("cold", "warm"):
                    traces[cache + flags] = output(folder, flags, _TRACE)
        for name, trace in traces.items():
            with self.subTest(name):
                self.assertEqual(trace, traces["cold"])


if __name__ == "__main__":
    unittest.main()
